/* SPDX-License-Identifier: Apache-2.0 */
/* fanout_clients PORT CONSUMERS SECONDS WINDOW FILTERS SUBSCRIPTIONS: what bench/fanout gives to a gateway.
 * One publisher, which sends a BATCH of ROUND events a round and holds itself to the window of WELCOME, and
 * to WINDOW rounds that are not acknowledged; CONSUMERS sockets with SUBSCRIPTIONS subscriptions each.
 *
 * An event is what the peers get as a text of 128 bytes, here as typed values: its ULM line has 128 bytes,
 * which is checked. k takes each of ROUND values once a round, in another order than that of the events, so
 * that a range of half of them passes exactly half of every round.
 *
 * FILTERS: none; two: every second consumer passes half, all with the same; each: the same shares, and no two
 * filters alike; rare: all different, and hardly any event passes. One consumer in ten asks for NDJSON, in
 * turn one that passes all and one that passes half. A lone one passes all, binary.
 *
 * Consumers count by the head of EVENTS, and check it: a block says itself how many events it has, of NDJSON
 * the lines are counted. */
#include "drain.h"

#include "base/clock.h"
#include "event/block.h"
#include "event/encoding.h"
#include "net/subscribe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

enum {
    FIRST_K = 100,      /* three digits each */
    STEP_K = 37,        /* odd: every value once a round */
    FIRST_ID = 1000001, /* seven digits for nine million events; then lines get longer, and nobody minds */
    FRONT =
        FRAME_HEAD + 48, /* bytes of a frame that are kept: all of a GAP; of EVENTS up to a block's count */
    BLOCK_COUNT_AT = 16,
    ROUNDS_MAX = 4096 /* not acknowledged */
};

enum filters { FILTERS_NONE, FILTERS_TWO, FILTERS_EACH, FILTERS_RARE };

static _Noreturn void fail(const char *what)
{
    errno = EPROTO;
    drain_fail(what);
}

/* ---- the publisher */

struct program {
    struct publisher publisher;
    int fd;
    struct frame_origin origin;
    struct schema *schema;
    struct block_writer *writer;
    struct strbuf frame, in;
    uint64_t seed;
    uint64_t seq;               /* of the last event sent */
    uint64_t acked;             /* the gateway holds all up to it */
    uint64_t window, waiting;   /* bytes of BATCH that may be, and are, not acknowledged */
    uint32_t sizes[ROUNDS_MAX]; /* of the rounds that are not, by their number */
    uint64_t rounds, rounds_acked;
    uint64_t rounds_max; /* that are not acknowledged */
};

static const struct slice host = {"node-042.grid.example", 21}, prog = {"transfer", 8};

static uint64_t random_number(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

static struct schema *make_schema(void)
{
    static const struct field fields[] = {
        {.name = {"id", 2}, .type = VALUE_INT},
        {.name = {"k", 1}, .type = VALUE_INT},
        {.name = {"size", 4}, .type = VALUE_INT, .unit = {"bytes", 5}},
        {.name = {"ms", 2}, .type = VALUE_FLOAT, .unit = {"ms", 2}},
    };
    struct schema *s;
    if (schema_create(SLICE_LIT("block"), fields, sizeof fields / sizeof *fields, &s) < 0)
        fail("schema");
    return s;
}

/* The next ROUND events as a block, appended to out. */
static void put_block(struct program *p, struct strbuf *out)
{
    struct batch_origin o = {
        .epoch = p->origin.epoch, .first_seq = p->seq + 1, .clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    int64_t time_ns = clock_utc_ns() / 1000 * 1000;
    memcpy(o.producer, p->origin.producer, sizeof o.producer);
    block_writer_origin(p->writer, host, prog);
    for (uint32_t i = 0; i < ROUND; i++) {
        uint64_t r = random_number(&p->seed);
        double ms = (double)(10000 + r % 9000 * 10 + 1 + r / 9000 % 9) / 1000; /* the last digit is not 0 */
        uint64_t words[4] = {FIRST_ID + p->seq + i, FIRST_K + i * STEP_K % ROUND, 10000 + (r >> 32) % 90000};
        memcpy(&words[3], &ms, sizeof ms);
        struct block_row row = {.schema = p->schema, .time_ns = time_ns + i * 1000, .level = LEVEL_INFO};
        row.words = (const char *)words;
        if (block_writer_add_row(p->writer, &row) < 0)
            fail("a block");
    }
    if (block_writer_finish(p->writer, &o, out) < 0)
        fail("a block");
}

/* Ours are as long as the peers': all lines of a block. */
static void check_lines(struct program *p)
{
    struct strbuf block = {0}, lines = {0};
    struct registry *registry = registry_create();
    struct batch_builder *builder = registry ? batch_builder_create(registry, 0) : NULL;
    struct encoder *encoder;
    struct diag why;
    put_block(p, &block);
    if (!builder || block_decode(strbuf_slice(&block), builder, &why) < 0 ||
        encoder_create(encoding_by_name(SLICE_LIT("ulm")), &encoder) < 0)
        fail("a block");
    struct batch *batch = batch_builder_finish(builder, NULL);
    if (!batch || encoder_run(encoder, batch, &lines) < 0 || lines.n != ROUND * (EVENT_BYTES + 1))
        fail("an event that has not 128 bytes as ULM");
    batch_unref(batch);
    encoder_destroy(encoder);
    batch_builder_destroy(builder);
    registry_destroy(registry);
    strbuf_fini(&block);
    strbuf_fini(&lines);
}

static void take_ack(struct program *p, struct slice payload)
{
    struct frame_ack ack;
    if (frame_get_ack(payload, &ack) < 0)
        fail("ACK");
    p->acked = ack.seq;
    while (p->rounds_acked < p->rounds && p->acked >= (p->rounds_acked + 1) * ROUND)
        p->waiting -= p->sizes[p->rounds_acked++ % ROUNDS_MAX];
}

/* What the gateway has said; waits for some of it if it must. */
static void take_answers(struct program *p, bool waits)
{
    char bytes[4096];
    ssize_t n = recv(p->fd, bytes, sizeof bytes, waits ? 0 : MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        drain_fail("the gateway left its publisher");
    strbuf_add_slice(&p->in, slice_of(bytes, (size_t)n));
    struct frame f;
    struct slice rest = strbuf_slice(&p->in);
    int64_t used;
    while ((used = frame_read(rest, FRAME_PAYLOAD_MAX, &f)) > 0) {
        if (f.type == FRAME_ACK)
            take_ack(p, f.payload);
        else if (f.type == FRAME_REFUSE || f.type == FRAME_BYE)
            fail("the gateway refused events");
        rest = slice_from(rest, (size_t)used);
    }
    if (used < 0)
        fail("a frame");
    strbuf_consume(&p->in, p->in.n - rest.n);
}

static void publish_round(struct publisher *publisher)
{
    struct program *p = (struct program *)publisher;
    strbuf_reset(&p->frame);
    size_t at = frame_begin(&p->frame, FRAME_BATCH, 0);
    put_block(p, &p->frame);
    frame_end(&p->frame, at);
    if (strbuf_failed(&p->frame))
        fail("memory");
    uint32_t size = (uint32_t)(p->frame.n - FRAME_HEAD);
    while (p->waiting && (p->waiting + size > p->window || p->rounds - p->rounds_acked >= p->rounds_max))
        take_answers(p, true);
    drain_write(p->fd, p->frame.p, p->frame.n);
    p->sizes[p->rounds++ % ROUNDS_MAX] = size;
    p->waiting += size;
    p->seq += ROUND;
    take_answers(p, false);
}

static void publish_idle(struct publisher *publisher)
{
    take_answers((struct program *)publisher, false);
}

/* ---- connections */

/* The next frame, whole; in *bytes. */
static struct frame await_frame(int fd, struct strbuf *bytes)
{
    char head[FRAME_HEAD];
    struct frame f;
    drain_read(fd, head, sizeof head);
    int64_t size = frame_size(slice_of(head, sizeof head), FRAME_PAYLOAD_MAX);
    char *rest = size > 0 ? malloc((size_t)size) : NULL;
    if (!rest)
        fail("a frame");
    drain_read(fd, rest, (size_t)size - FRAME_HEAD);
    strbuf_reset(bytes);
    strbuf_add_slice(bytes, slice_of(head, sizeof head));
    strbuf_add_slice(bytes, slice_of(rest, (size_t)size - FRAME_HEAD));
    free(rest);
    if (frame_read(strbuf_slice(bytes), FRAME_PAYLOAD_MAX, &f) <= 0)
        fail("a frame");
    return f;
}

static int hello(uint16_t port, uint8_t role, const struct frame_origin *origin,
                 struct frame_welcome *welcome)
{
    struct strbuf out = {0}, in = {0};
    const struct frame_hello h = {.minor_high = FRAME_MINOR,
                                  .role = role,
                                  .origin = *origin,
                                  .t0_ns = clock_utc_ns(),
                                  .host = host,
                                  .prog = prog};
    int fd = drain_dial(port);
    greeting_put(&out);
    frame_put_hello(&out, &h);
    drain_write(fd, out.p, out.n);
    struct frame f = await_frame(fd, &in);
    if (f.type != FRAME_WELCOME || frame_get_welcome(f.payload, welcome) < 0)
        fail("WELCOME");
    strbuf_fini(&out);
    strbuf_fini(&in);
    return fd;
}

static void program_open(struct program *p, uint16_t port, uint32_t window)
{
    struct frame_welcome welcome;
    *p = (struct program){.publisher = {publish_round, publish_idle}, .origin = {.epoch = 1}, .seed = 1};
    if (getrandom(p->origin.producer, sizeof p->origin.producer, 0) != sizeof p->origin.producer)
        drain_fail("getrandom");
    p->schema = make_schema();
    p->writer = block_writer_create();
    if (!p->writer)
        fail("memory");
    check_lines(p);
    p->fd = hello(port, PEER_PROGRAM, &p->origin, &welcome);
    p->window = welcome.window;
    p->rounds_max = window && window < ROUNDS_MAX ? window : ROUNDS_MAX;
}

/* ---- consumers */

struct subscriber {
    struct consumer consumer;
    bool is_lines;
    uint32_t have; /* bytes of the front */
    uint64_t left; /* of the frame, behind its front */
    uint64_t due;  /* NDJSON: lines of this frame that have not come */
    char front[FRONT];
};

static uint64_t count_lines(const char *p, size_t n)
{
    uint64_t lines = 0;
    for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        lines++;
    return lines;
}

static void take_lines(struct subscriber *s, const char *p, size_t n)
{
    uint64_t lines = count_lines(p, n);
    if (lines > s->due)
        fail("EVENTS with more lines than it says");
    s->due -= lines;
}

static void take_events(struct subscriber *s, struct slice front)
{
    struct frame_events e;
    if (frame_get_events(front, &e) < 0)
        fail("EVENTS");
    struct cursor c = cursor_of(slice_from(e.data, e.data.n > BLOCK_COUNT_AT ? BLOCK_COUNT_AT : e.data.n));
    if (!s->is_lines && cursor_u32(&c) != e.count)
        fail("EVENTS with another number of events than its block");
    s->due = e.count;
    if (s->is_lines)
        take_lines(s, e.data.p, e.data.n);
    uint64_t now = atomic_load_explicit(&s->consumer.events, memory_order_relaxed) + e.count;
    atomic_store_explicit(&s->consumer.events, now, memory_order_relaxed);
}

static void take_gap(struct subscriber *s, struct slice payload)
{
    struct frame_gap gap;
    if (frame_get_gap(payload, &gap) < 0)
        fail("GAP");
    uint64_t now = atomic_load_explicit(&s->consumer.gap, memory_order_relaxed) + gap.lost;
    atomic_store_explicit(&s->consumer.gap, now, memory_order_relaxed);
}

/* The front is there. */
static void take_front(struct subscriber *s)
{
    struct slice front = slice_of(s->front + FRAME_HEAD, s->have - FRAME_HEAD);
    uint8_t type = (uint8_t)s->front[4];
    if (type == FRAME_EVENTS)
        take_events(s, front);
    else if (type == FRAME_GAP)
        take_gap(s, front);
    else if (type == FRAME_BYE)
        fail("BYE to a consumer");
}

/* How much of the frame is its front, as far as that is known. */
static uint32_t front_size(struct subscriber *s)
{
    if (s->have < FRAME_HEAD)
        return FRAME_HEAD;
    int64_t size = frame_size(slice_of(s->front, FRAME_HEAD), FRAME_PAYLOAD_MAX);
    if (size <= 0)
        fail("a frame");
    uint32_t front = size < FRONT ? (uint32_t)size : FRONT;
    s->left = (uint64_t)size - front;
    return front;
}

static void end_frame(struct subscriber *s)
{
    if (s->is_lines && s->due)
        fail("EVENTS with fewer lines than it says");
    s->have = 0;
    s->due = 0;
}

/* The next bytes of a front; how many were taken. */
static size_t fill_front(struct subscriber *s, const char *bytes, size_t n)
{
    size_t want = front_size(s) - s->have;
    size_t k = n < want ? n : want;
    memcpy(s->front + s->have, bytes, k);
    s->have += (uint32_t)k;
    if (s->have < FRAME_HEAD || s->have < front_size(s))
        return k;
    take_front(s);
    if (s->left == 0)
        end_frame(s);
    return k;
}

static void take_frames(struct consumer *c, const char *bytes, size_t n)
{
    struct subscriber *s = (struct subscriber *)c;
    c->bytes += n;
    while (n > 0) {
        size_t k;
        if (s->left == 0 || s->have < FRONT) {
            k = fill_front(s, bytes, n);
        } else {
            k = n < s->left ? n : (size_t)s->left;
            if (s->is_lines)
                take_lines(s, bytes, k);
            s->left -= k;
            if (s->left == 0)
                end_frame(s);
        }
        bytes += k;
        n -= k;
    }
}

/* The filter of one subscription, and its share of a round. */
static uint32_t put_filter(char *to, size_t max, enum filters filters, size_t i, size_t n)
{
    bool is_half = i % 2 == 1 && n > 1;
    unsigned from = FIRST_K + (unsigned)(filters == FILTERS_EACH ? i / 2 % (ROUND / 2) : 0);
    to[0] = '\0';
    switch (filters) {
    case FILTERS_NONE:
        return ROUND;
    case FILTERS_RARE:
        (void)snprintf(to, max, "size = %zu", 10000 + i * 83 % 90000);
        return 0;
    case FILTERS_TWO:
    case FILTERS_EACH:
        break;
    }
    if (is_half)
        (void)snprintf(to, max, "k >= %u AND k < %u", from, from + ROUND / 2);
    else
        (void)snprintf(to, max, "size > %u", from);
    return is_half ? ROUND / 2 : ROUND;
}

static void subscribe(struct subscriber *s, uint32_t id, struct slice where)
{
    struct strbuf out = {0}, in = {0};
    struct args_writer options = {0};
    struct frame_subscribed answer;
    args_add_text(&options, "format", s->is_lines ? SLICE_LIT("ndjson") : SLICE_LIT("binary"));
    const struct frame_subscribe ask = {
        .id = id, .events = SLICE_LIT("block"), .where = where, .options = args_of(&options)};
    frame_put_subscribe(&out, &ask);
    drain_write(s->consumer.fd, out.p, out.n);
    struct frame f = await_frame(s->consumer.fd, &in);
    if (f.type != FRAME_SUBSCRIBED || frame_get_subscribed(f.payload, &answer) < 0)
        fail("SUBSCRIBED");
    if (answer.status != 0) {
        (void)fprintf(stderr, "fanout: a subscription was refused: %.*s\n", (int)answer.text.n,
                      answer.text.p);
        exit(1);
    }
    args_writer_fini(&options);
    strbuf_fini(&out);
    strbuf_fini(&in);
}

static void subscriber_open(struct subscriber *s, uint16_t port, size_t i)
{
    static const struct frame_origin none;
    struct frame_welcome welcome;
    s->is_lines = i % 20 == 8 || i % 20 == 19;
    s->consumer.take = take_frames;
    s->consumer.fd = hello(port, PEER_CONSUMER, &none, &welcome);
}

static bool parse_filters(const char *text, enum filters *out)
{
    static const char *const names[] = {"none", "two", "each", "rare"};
    for (int i = 0; i <= FILTERS_RARE; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum filters)i;
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    enum filters filters;
    if (argc != 7 || !parse_filters(argv[5], &filters))
        return fprintf(stderr, "usage: fanout_clients PORT CONSUMERS SECONDS WINDOW none|two|each|rare "
                               "SUBSCRIPTIONS\n"),
               2;
    uint16_t port = (uint16_t)strtoul(argv[1], NULL, 10);
    size_t n = strtoul(argv[2], NULL, 10), each = strtoul(argv[6], NULL, 10);
    const struct drain_options options = {strtod(argv[3], NULL), (uint32_t)strtoul(argv[4], NULL, 10)};
    struct subscriber *subscribers = calloc(n, sizeof *subscribers);
    struct consumer **all = calloc(n, sizeof *all);
    static struct program program;
    if (!subscribers || !all)
        drain_fail("memory");
    for (size_t i = 0; i < n; i++) {
        all[i] = &subscribers[i].consumer;
        subscriber_open(&subscribers[i], port, i);
        for (size_t k = 0; k < each; k++) {
            char where[64];
            all[i]->per_round += put_filter(where, sizeof where, filters, i * each + k, n * each);
            subscribe(&subscribers[i], (uint32_t)k + 1, slice_str(where));
        }
    }
    program_open(&program, port, options.window);
    drain_run(&program.publisher, all, n, &options);
    exit(0); /* the thread that drains ends with it */
}
