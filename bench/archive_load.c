/* SPDX-License-Identifier: Apache-2.0 */
/* What bench/archive gives to a gateway: the recorded host data (recorded.h) as HOSTS hosts, by TCP.
 *
 *     archive_load CSV.zst HOSTS SCRAPES PORT
 *
 * Each host is a program of its own with a connection of its own, as agents are, and sends a BATCH of SCRAPES
 * scrapes at a time; they come as they would in the field, second by second, host by host. Host h has every
 * value times h + 1 and every time 37 h ms later, as DISTINCT=1 of the peers' loader. A schema is what
 * streams of one event name have in common: the same labels and the same fields.
 *
 * Everything is encoded before the first byte is sent. Says that it is ready, waits for a line on stdin,
 * sends with at most AHEAD bytes that are not acknowledged, about as many samples as the peers' loader has in
 * a request of ClickHouse's, and waits until everything is. */
#include "base/clock.h"
#include "base/mem.h"
#include "consumers/drain.h"
#include "event/block.h"
#include "net/frame.h"
#include "recorded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    KEYS_MAX = 32,
    VALUES_MAX = KEYS_MAX + FIELDS_MAX,
    SHAPES_MAX = 4096,
    AHEAD = 512 << 10 /* all senders together; the window of each is larger */
};

/* A stream of one host, ready to be written. */
struct source {
    const struct stream *stream;
    const struct schema *schema;
    struct value values[VALUES_MAX]; /* keys are set */
    uint32_t n_keys;
};

struct packet {
    uint32_t host;
    size_t at, n; /* in frames */
    uint64_t last_seq;
};

struct sender {
    int fd;
    struct slice name;
    struct frame_origin origin;
    struct strbuf in;
    uint64_t seq, acked;
    bool is_welcome;
};

static struct recorded data;
static struct source *sources;
static const struct schema *shapes[SHAPES_MAX];
static size_t n_shapes;
static struct sender *senders;
static uint32_t n_hosts;
static struct strbuf frames;
static struct packet *packets;
static size_t n_packets, max_packets;
static size_t n_sent, n_acked; /* packets */
static uint64_t waiting;       /* bytes of those between */

/* ---- events */

/* The shape's one schema. */
static const struct schema *share(struct schema *s)
{
    for (size_t i = 0; i < n_shapes; i++)
        if (schema_same(shapes[i], s)) {
            schema_unref(s);
            return shapes[i];
        }
    if (n_shapes == SHAPES_MAX)
        recorded_fail("too many schemas");
    return shapes[n_shapes++] = s;
}

static void make_source(const struct table *t, const struct stream *stream, struct source *out)
{
    struct field fields[VALUES_MAX];
    struct cursor c = cursor_of(stream->labels);
    uint32_t n = 0;
    out->stream = stream;
    while (cursor_left(&c)) {
        if (n == KEYS_MAX)
            recorded_fail("too many labels");
        fields[n] = (struct field){.name = cursor_text(&c), .type = VALUE_TEXT, .role = ROLE_KEY};
        (void)cursor_u8(&c); /* its type */
        out->values[n++] = value_text(cursor_text(&c));
    }
    out->n_keys = n;
    for (uint32_t i = 0; i < stream->n_fields; i++)
        fields[n++] = t->columns[stream->fields[i].id];
    struct schema *s;
    if (schema_create(t->def.name, fields, n, &s) < 0)
        recorded_fail("an event that can't be one");
    out->schema = share(s);
}

static void make_sources(void)
{
    size_t n = 0;
    sources = mem_alloc(data.n_streams * sizeof *sources);
    for (uint32_t i = 0; i < data.n_tables; i++)
        for (uint32_t k = 0; k < data.tables[i]->n_streams; k++)
            make_source(data.tables[i], &data.tables[i]->streams[k], &sources[n++]);
}

static void add_event(struct block_writer *w, struct source *s, uint32_t host, size_t scrape)
{
    for (uint32_t i = 0; i < s->stream->n_fields; i++)
        s->values[s->n_keys + i] = value_float(s->stream->fields[i].series->values[scrape] * (host + 1));
    const struct event e = {.time_ns = data.times[scrape] + (int64_t)host * 37000000,
                            .host = senders[host].name,
                            .prog = SLICE_LIT("node"),
                            .schema = s->schema,
                            .values = s->values,
                            .level = LEVEL_INFO};
    if (block_writer_add(w, &e) < 0)
        recorded_fail("SCRAPES do not fit a block");
}

/* The packet of these scrapes of a host. */
static void add_packet(struct block_writer *w, uint32_t host, size_t from, size_t to)
{
    struct sender *s = &senders[host];
    struct batch_origin o = {
        .epoch = s->origin.epoch,
        .first_seq = s->seq + 1,
        .clock = {.offset_ns = (int64_t)host * 1237, .bound_ns = 250000, .generation = 1}};
    memcpy(o.producer, s->origin.producer, sizeof o.producer);
    for (size_t r = from; r < to; r++)
        for (size_t i = 0; i < data.n_streams; i++)
            add_event(w, &sources[i], host, r);
    s->seq += block_writer_count(w);
    if (n_packets == max_packets) {
        max_packets = max_packets ? max_packets * 2 : 4096;
        packets = recorded_need(mem_try_resize(packets, max_packets * sizeof *packets));
    }
    struct packet *p = &packets[n_packets++];
    *p = (struct packet){.host = host, .at = frame_begin(&frames, FRAME_BATCH, 0), .last_seq = s->seq};
    if (block_writer_finish(w, &o, &frames) < 0)
        recorded_fail("a block");
    frame_end(&frames, p->at);
    p->n = frames.n - p->at;
    if (strbuf_failed(&frames))
        recorded_fail("out of memory");
    if (p->n > AHEAD)
        recorded_fail("SCRAPES are too many");
}

static void encode(size_t scrapes)
{
    struct block_writer *w = recorded_need(block_writer_create());
    for (size_t at = 0; at < data.n_times; at += scrapes)
        for (uint32_t h = 0; h < n_hosts; h++)
            add_packet(w, h, at, at + scrapes < data.n_times ? at + scrapes : data.n_times);
    block_writer_destroy(w);
}

/* ---- the connections */

static _Noreturn void fail_refused(const struct frame *f)
{
    struct frame_refuse refuse;
    struct frame_bye_reason bye;
    struct slice text = SLICE_LIT("for no reason that can be read");
    if (f->type == FRAME_REFUSE && frame_get_refuse(f->payload, &refuse) == 0)
        text = refuse.text;
    else if (f->type == FRAME_BYE && frame_get_bye(f->payload, &bye) == 0)
        text = bye.text;
    (void)fprintf(stderr, "bench: the gateway refused events: %.*s\n", (int)text.n, text.p);
    exit(1);
}

static void take_frame(struct sender *s, const struct frame *f)
{
    struct frame_welcome welcome;
    struct frame_ack ack;
    if (f->type == FRAME_WELCOME && frame_get_welcome(f->payload, &welcome) == 0 && welcome.window >= AHEAD)
        s->is_welcome = true;
    else if (f->type == FRAME_ACK && frame_get_ack(f->payload, &ack) == 0)
        s->acked = ack.seq;
    else if (f->type == FRAME_WELCOME || f->type == FRAME_ACK)
        recorded_fail("an answer that is none");
    else if (f->type == FRAME_REFUSE || f->type == FRAME_BYE)
        fail_refused(f);
}

/* What is acknowledged, in the order in which it was sent. */
static void settle(void)
{
    for (; n_acked < n_sent; n_acked++) {
        const struct packet *p = &packets[n_acked];
        if (p->last_seq > senders[p->host].acked)
            break;
        waiting -= p->n;
    }
}

static void take_answers(struct sender *s, bool waits)
{
    char bytes[4096];
    ssize_t n = recv(s->fd, bytes, sizeof bytes, waits ? 0 : MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        drain_fail("the gateway left");
    strbuf_add(&s->in, bytes, (size_t)n);
    struct slice rest = strbuf_slice(&s->in);
    struct frame f;
    int64_t used;
    while ((used = frame_read(rest, FRAME_PAYLOAD_MAX, &f)) > 0) {
        take_frame(s, &f);
        rest = slice_from(rest, (size_t)used);
    }
    if (used < 0)
        recorded_fail("a frame that is none");
    strbuf_consume(&s->in, s->in.n - rest.n);
    settle();
}

static void open_sender(struct sender *s, uint32_t host)
{
    char *name = recorded_need(arena_alloc(&data.names, 16));
    uint64_t random = (host + 1) * 0x9e3779b97f4a7c15u;
    s->name = slice_of(name, (size_t)snprintf(name, 16, "h%02u", host));
    memcpy(s->origin.producer, &random, 8);
    random *= 0xbf58476d1ce4e5b9u;
    memcpy(s->origin.producer + 8, &random, 8);
    s->origin.epoch = 1794772000 + host;
}

static void connect_sender(struct sender *s, uint16_t port)
{
    struct strbuf out = {0};
    const struct frame_hello hello = {.minor_high = FRAME_MINOR,
                                      .role = PEER_PROGRAM,
                                      .origin = s->origin,
                                      .t0_ns = clock_utc_ns(),
                                      .host = s->name,
                                      .prog = SLICE_LIT("node")};
    s->fd = drain_dial(port);
    greeting_put(&out);
    frame_put_hello(&out, &hello);
    drain_write(s->fd, out.p, out.n);
    while (!s->is_welcome)
        take_answers(s, true);
    strbuf_fini(&out);
}

/* Until no more than so many bytes are on the way: whoever has the oldest of them is asked. */
static void wait_below(uint64_t bytes)
{
    while (waiting > bytes)
        take_answers(&senders[packets[n_acked].host], true);
}

static void send_all(void)
{
    while (n_sent < n_packets) {
        const struct packet *p = &packets[n_sent++];
        wait_below(AHEAD - p->n);
        drain_write(senders[p->host].fd, frames.p + p->at, p->n);
        waiting += p->n;
        take_answers(&senders[p->host], false);
    }
    wait_below(0);
}

int main(int argc, char **argv)
{
    uint32_t scrapes = argc == 5 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    n_hosts = argc == 5 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (!scrapes || !n_hosts)
        recorded_fail("usage: archive_load CSV.zst HOSTS SCRAPES PORT");
    recorded_read(argv[1], &data);
    senders = mem_alloc(n_hosts * sizeof *senders);
    for (uint32_t h = 0; h < n_hosts; h++)
        open_sender(&senders[h], h);
    make_sources();
    encode(scrapes);
    for (uint32_t h = 0; h < n_hosts; h++)
        connect_sender(&senders[h], (uint16_t)strtoul(argv[4], NULL, 10));
    size_t samples = data.n_samples * n_hosts, events = data.n_streams * data.n_times * n_hosts;
    printf("{\"phase\":\"ready\",\"series\":%zu,\"streams\":%zu,\"samples\":%zu,\"events\":%zu,\"bytes\":%zu,"
           "\"from\":%" PRId64 ",\"to\":%" PRId64 "}\n",
           data.n_series * n_hosts, data.n_streams * n_hosts, samples, events, frames.n, data.times[0],
           data.times[data.n_times - 1] + (int64_t)(n_hosts - 1) * 37000000);
    (void)fflush(stdout);
    if (getchar() == EOF)
        return 1;
    int64_t start = clock_mono_ns();
    send_all();
    printf("{\"phase\":\"load\",\"seconds\":%.4f}\n", (double)(clock_mono_ns() - start) / 1e9);
    (void)fflush(stdout);
    (void)getchar(); /* the connections stay until the gateway has been looked at */
    return 0;
}
