/* SPDX-License-Identifier: Apache-2.0 */
/* unix:PATH and tcp://HOST[:PORT]: blocks to an agent or gateway, kept until it has acknowledged them.
 *
 * While the receiver can't be reached, does not answer, or lags so far that the memory is full, blocks move
 * to the backup directory if there is one; from then on new blocks go there too until it has been replayed.
 * Without a backup, or when that takes no more either, the newest block is dropped and counted (unwritable):
 * what was taken first is kept, so that what arrives is a whole beginning.
 *
 * Ledger: given = passed + queued + dropped, in events, at every moment. Passed means acknowledged. What an
 * earlier run left in the backup is sent too, but is not in the counts: it is of another producer.
 *
 * No call waits, except for the resolver when the destination is opened, and for reads and writes of the
 * backup's files, which the kernel does not promise to do at once. */
#include "client/stream.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/un.h>

enum { COUNTS_MS = 10000, SPILL_MS = 100, QUEUE_MIN = 64 << 10 };
static const int64_t ns_per_ms = 1000000;

/* ---------------------------------------------------------------- items */

static void list_init(struct stream_list *l)
{
    l->head = NULL;
    l->tail = &l->head;
}

void stream_list_add(struct stream_list *l, struct stream_item *i)
{
    i->next = NULL;
    *l->tail = i;
    l->tail = &i->next;
}

struct stream_item *stream_list_take(struct stream_list *l)
{
    struct stream_item *i = l->head;
    if (!i)
        return NULL;
    l->head = i->next;
    if (!l->head)
        l->tail = &l->head;
    return i;
}

void stream_item_free(struct stream_item *i)
{
    if (!i)
        return;
    mem_free(i->data);
    mem_free(i);
}

static void list_free(struct stream_list *l)
{
    struct stream_item *i;
    while ((i = stream_list_take(l)))
        stream_item_free(i);
}

static bool same_origin(const struct frame_origin *a, const struct frame_origin *b)
{
    return a->epoch == b->epoch && memcmp(a->producer, b->producer, sizeof a->producer) == 0;
}

bool stream_is_own(const struct stream *s, const struct frame_origin *o)
{
    return same_origin(&s->origin, o);
}

/* ---------------------------------------------------------------- flight */

/* The item is done with: into the counts. */
static void settle(struct stream *s, const struct stream_item *i)
{
    s->window_used -= i->window;
    s->n_flight--;
    if (i->data)
        s->memory -= i->size;
    if (!i->is_own)
        return;
    s->counts.queued -= i->count;
    *(i->is_refused ? &s->counts.dropped[DROP_REFUSED] : &s->counts.passed) += i->count;
    if (i->record)
        s->backup_events -= i->count;
}

/* Takes what is done from the front. One that is done behind one that is not waits for it, so that the place
 * in the backup is a single number. */
static void settle_front(struct stream *s)
{
    uint64_t record = 0;
    while (s->flight.head && s->flight.head->is_done) {
        struct stream_item *i = stream_list_take(&s->flight);
        record = i->record ? i->record : record;
        settle(s, i);
        stream_item_free(i);
    }
    if (record)
        backup_pass(s, record);
}

void stream_acknowledge(struct stream *s, const struct frame_origin *origin, uint64_t seq)
{
    if (stream_is_own(s, origin) && seq > s->held_seq)
        s->held_seq = seq;
    for (struct stream_item *i = s->flight.head; i; i = i->next)
        if (!i->is_done && i->last <= seq && same_origin(&i->origin, origin))
            i->is_done = true;
    settle_front(s);
}

void stream_refuse(struct stream *s, const struct frame_refuse *r)
{
    if (r->count == 0)
        return;
    for (struct stream_item *i = s->flight.head; i; i = i->next) {
        if (i->is_done || i->first < r->first_seq || i->last - r->first_seq >= r->count)
            continue;
        if (same_origin(&i->origin, &r->origin))
            i->is_done = i->is_refused = true;
    }
    settle_front(s);
}

void stream_take_back(struct stream *s)
{
    struct stream_list back;
    struct stream_item *i;
    list_init(&back);
    while ((i = stream_list_take(&s->flight))) {
        s->n_flight--;
        i->window = 0;
        i->is_done = i->is_refused = false;
        if (i->record)
            stream_item_free(i);
        else
            stream_list_add(&back, i);
    }
    s->window_used = 0;
    if (s->backup)
        backup_rewind(s, s->backup_done + 1);
    if (!back.head)
        return;
    *back.tail = s->queue.head; /* in front of what has not been sent */
    if (s->queue.head)
        back.tail = s->queue.tail;
    s->queue = back;
}

bool stream_may_launch(const struct stream *s)
{
    bool has_window = s->window_used < s->window || s->window_used == 0;
    return s->state == LINK_READY && has_window && s->n_flight < STREAM_FLIGHT_MAX &&
           s->out.n - s->out_at < STREAM_OUTPUT_GOAL;
}

/* The window is respected for the block at hand, except that one may always be on its way. */
static bool has_room(const struct stream *s, uint32_t size)
{
    return s->window_used == 0 || s->window_used + size <= s->window;
}

int stream_launch(struct stream *s, struct stream_item *i, struct slice bytes)
{
    bool is_held = i->is_own && i->last <= s->held_seq;
    if (!is_held) {
        if (!has_room(s, i->size))
            return -EAGAIN;
        size_t at = s->out.n;
        frame_put(&s->out, FRAME_BATCH, 0, bytes);
        if (strbuf_failed(&s->out)) {
            s->out.failed = false;
            s->out.n = at;
            return -ENOMEM;
        }
        i->window = i->size;
        s->window_used += i->size;
    }
    i->is_done = is_held;
    stream_list_add(&s->flight, i);
    s->n_flight++;
    return 0;
}

static void launch_queue(struct stream *s)
{
    while (s->queue.head && !backup_has_unread(s) && stream_may_launch(s)) {
        struct stream_item *i = s->queue.head, *behind = i->next;
        if (stream_launch(s, i, slice_of(i->data, i->size)) < 0)
            return;
        s->queue.head = behind; /* the launch has linked it elsewhere */
        if (!behind)
            s->queue.tail = &s->queue.head;
    }
}

/* ---------------------------------------------------------------- counts */

struct frame_counts stream_counts(const struct stream *s)
{
    struct frame_counts c = {.origin = s->origin, .taken = s->counts.given, .passed = s->counts.passed};
    c.queued = s->counts.queued;
    for (size_t i = 0; i < DROP_REASONS; i++)
        c.dropped[i] = s->counts.dropped[i];
    return c;
}

static bool counts_changed(const struct stream *s)
{
    return memcmp(&s->counts, &s->counts_sent, sizeof s->counts) != 0;
}

static void send_counts(struct stream *s, int64_t now_ns)
{
    if (s->state != LINK_READY || !counts_changed(s) || now_ns - s->counts_at_ns < COUNTS_MS * ns_per_ms)
        return;
    struct frame_counts c = stream_counts(s);
    frame_put_counts(&s->out, &c);
    s->counts_sent = s->counts;
    s->counts_at_ns = now_ns;
}

/* ---------------------------------------------------------------- opening */

static size_t queue_limit(void)
{
    const char *text = getenv("GRIDLINE_QUEUE");
    uint64_t n;
    if (!text || num_parse_size(slice_str(text), &n) < 0)
        return STREAM_QUEUE_BYTES;
    return n < QUEUE_MIN ? QUEUE_MIN : (size_t)n;
}

static struct frame_origin origin_of(const struct dest_env *env)
{
    struct frame_origin o = {.epoch = env->origin.epoch};
    memcpy(o.producer, env->origin.producer, sizeof o.producer);
    return o;
}

static struct stream *create(const struct dest_ops *ops, const struct dest_env *env)
{
    struct stream *s = mem_try_alloc(sizeof *s);
    if (!s)
        return NULL;
    s->dest.ops = ops;
    s->env = env;
    s->origin = origin_of(env);
    s->fd = -1;
    list_init(&s->flight);
    list_init(&s->queue);
    s->memory_max = queue_limit();
    if (getrandom(&s->random, sizeof s->random, GRND_NONBLOCK) != sizeof s->random)
        s->random = (uint64_t)clock_mono_ns();
    s->random |= 1;
    return s;
}

static int open_unix(struct slice url, struct slice query, const struct dest_env *env, struct dest **out)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)query; /* nothing to choose */
    if (url.n == 0)
        return -EINVAL;
    if (url.n >= sizeof un.sun_path)
        return -ENAMETOOLONG;
    struct stream *s = create(&dest_unix, env);
    if (!s)
        return -ENOMEM;
    memcpy(un.sun_path, url.p, url.n);
    memcpy(&s->addresses[0].sa, &un, sizeof un);
    s->addresses[0].len = sizeof un;
    s->n_addresses = 1;
    *out = &s->dest;
    return 0;
}

/* HOST, HOST:PORT, [V6] or [V6]:PORT, as C strings. */
static int split_host(struct slice url, char host[NI_MAXHOST], char port[NI_MAXSERV])
{
    struct slice h = url, p = {"", 0};
    const char *bracket = url.n && url.p[0] == '[' ? memchr(url.p, ']', url.n) : NULL;
    struct slice rest = bracket ? slice_from(url, (size_t)(bracket - url.p) + 1) : url;
    const char *colon = rest.n ? memchr(rest.p, ':', rest.n) : NULL;
    if (bracket && rest.n && colon != rest.p)
        return -EINVAL;
    if (bracket)
        h = slice_of(url.p + 1, (size_t)(bracket - url.p) - 1);
    else if (colon)
        h.n = (size_t)(colon - url.p);
    if (colon)
        p = slice_from(rest, (size_t)(colon - rest.p) + 1);
    if (h.n == 0 || h.n >= NI_MAXHOST || p.n >= NI_MAXSERV || (colon && p.n == 0))
        return -EINVAL;
    (void)snprintf(host, NI_MAXHOST, "%.*s", SLICE_ARG(h)); /* fits, as checked */
    if (p.n)
        (void)snprintf(port, NI_MAXSERV, "%.*s", SLICE_ARG(p));
    else
        (void)snprintf(port, NI_MAXSERV, "%d", FRAME_PORT);
    return 0;
}

static int resolve(struct stream *s, struct slice url)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    int r = split_host(url, host, port);
    if (r < 0)
        return r;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    int g = getaddrinfo(host, port, &hints, &found);
    if (g == EAI_MEMORY)
        return -ENOMEM;
    if (g == EAI_SERVICE)
        return -EINVAL;
    if (g != 0)
        return -EHOSTUNREACH;
    for (const struct addrinfo *a = found; a && s->n_addresses < STREAM_ADDRESSES_MAX; a = a->ai_next) {
        if (a->ai_addrlen > sizeof s->addresses[0].sa)
            continue;
        memcpy(&s->addresses[s->n_addresses].sa, a->ai_addr, a->ai_addrlen);
        s->addresses[s->n_addresses++].len = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return s->n_addresses ? 0 : -EHOSTUNREACH;
}

static int open_tcp(struct slice url, struct slice query, const struct dest_env *env, struct dest **out)
{
    (void)query; /* nothing to choose */
    struct stream *s = create(&dest_tcp, env);
    if (!s)
        return -ENOMEM;
    int r = resolve(s, url);
    if (r < 0) {
        mem_free(s);
        return r;
    }
    *out = &s->dest;
    return 0;
}

/* ---------------------------------------------------------------- the rest of dest_ops */

/* Is the receiver not to be had, or the backup in use already? */
static bool must_spill(const struct stream *s)
{
    return s->backup_dir && s->queue.head && (s->state != LINK_READY || !backup_is_empty(s));
}

static struct stream_item *make_item(const struct stream *s, struct slice block, uint32_t n,
                                     uint64_t first_seq)
{
    struct stream_item *i = mem_try_alloc(sizeof *i);
    if (!i)
        return NULL;
    *i = (struct stream_item){.origin = s->origin, .first = first_seq, .last = first_seq + n - 1, .count = n};
    i->size = (uint32_t)block.n;
    i->is_own = true;
    i->data = mem_try_alloc(block.n);
    if (!i->data) {
        mem_free(i);
        return NULL;
    }
    memcpy(i->data, block.p, block.n);
    return i;
}

static void put(struct dest *d, struct slice block, uint32_t n, uint64_t first_seq)
{
    struct stream *s = (struct stream *)d;
    s->counts.given += n;
    if (s->memory + block.n > s->memory_max)
        backup_spill(s);
    if (s->memory + block.n > s->memory_max) {
        s->counts.dropped[DROP_UNWRITABLE] += n;
        return;
    }
    struct stream_item *i = make_item(s, block, n, first_seq);
    if (!i) {
        s->counts.dropped[DROP_MEMORY] += n;
        return;
    }
    stream_list_add(&s->queue, i);
    s->memory += i->size;
    s->counts.queued += n;
    if (must_spill(s))
        backup_spill(s);
}

static int wait_ms(int64_t until_ns, int64_t now_ns)
{
    if (until_ns == INT64_MAX)
        return -1;
    int64_t ms = (until_ns - now_ns + ns_per_ms - 1) / ns_per_ms;
    return ms < 0 ? 0 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

static int pump(struct dest *d, int64_t now_ns)
{
    struct stream *s = (struct stream *)d;
    link_pump(s, now_ns);
    if (must_spill(s))
        backup_spill(s);
    if (s->state == LINK_READY) {
        backup_replay(s);
        launch_queue(s);
        settle_front(s); /* what the receiver held already was not sent */
        send_counts(s, now_ns);
    }
    link_flush(s, now_ns);
    int64_t until = link_next_ns(s);
    if (s->state == LINK_READY && counts_changed(s) && s->counts_at_ns + COUNTS_MS * ns_per_ms < until)
        until = s->counts_at_ns + COUNTS_MS * ns_per_ms;
    if (must_spill(s) && now_ns + SPILL_MS * ns_per_ms < until)
        until = now_ns + SPILL_MS * ns_per_ms;
    return wait_ms(until, now_ns);
}

static int wait_fd(const struct dest *d, short *events)
{
    const struct stream *s = (const struct stream *)d;
    bool has_output = s->out_at < s->out.n;
    *events = s->state == LINK_CONNECTING ? POLLOUT : (short)(POLLIN | (has_output ? POLLOUT : 0));
    return s->fd;
}

static void counts(const struct dest *d, struct dest_counts *out)
{
    *out = ((const struct stream *)d)->counts;
}

static void after_fork(struct dest *d, const struct dest_env *env)
{
    struct stream *s = (struct stream *)d;
    link_reset(s);
    list_free(&s->flight);
    list_free(&s->queue);
    s->n_flight = s->memory = 0;
    backup_close(s, true);
    s->backup_retry_ns = 0;
    s->env = env;
    s->origin = origin_of(env);
    s->random ^= (uint64_t)clock_mono_ns() << 1; /* so that parent and child don't come back together */
    s->random |= 1;
    s->retry_at_ns = s->backoff_ms = 0;
    s->held_seq = 0;
    s->counts = s->counts_sent = (struct dest_counts){0};
}

/* What is still in memory and has no backup to go to is lost. */
static void give_up(struct stream *s, struct stream_list *l)
{
    struct stream_item *i;
    while ((i = stream_list_take(l))) {
        if (i->data) {
            s->memory -= i->size;
            s->counts.queued -= i->count;
            s->counts.dropped[DROP_UNWRITABLE] += i->count;
        }
        stream_item_free(i);
    }
}

static void goodbye(struct dest *d, uint64_t taken, const uint64_t dropped_before[DROP_REASONS])
{
    struct stream *s = (struct stream *)d;
    int64_t now = clock_mono_ns();
    (void)pump(d, now); /* the last acknowledgements; goodbye is the end of waiting */
    s->backup_retry_ns = 0;
    backup_spill(s);
    give_up(s, &s->flight);
    give_up(s, &s->queue);
    s->n_flight = 0;
    struct frame_counts c = stream_counts(s);
    c.is_final = true;
    c.taken = taken;
    for (size_t i = 0; i < DROP_REASONS; i++)
        c.dropped[i] += dropped_before[i];
    if (s->state == LINK_READY) {
        frame_put_counts(&s->out, &c);
        frame_put_bye(&s->out, BYE_DONE, SLICE_LIT(""));
        link_flush(s, now);
    }
    if (s->state != LINK_READY || s->out_at < s->out.n)
        backup_add_counts(s, &c);
}

static void destroy(struct dest *d)
{
    struct stream *s = (struct stream *)d;
    link_reset(s);
    list_free(&s->flight);
    list_free(&s->queue);
    backup_close(s, false);
    mem_free(s->backup_dir);
    mem_free(s);
}

static int set_backup(struct dest *d, const char *dir, uint64_t max_bytes)
{
    struct stream *s = (struct stream *)d;
    if (s->backup_dir)
        return -EEXIST;
    size_t n = strlen(dir) + 1;
    char *copy = mem_try_alloc(n);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, dir, n);
    s->backup_dir = copy;
    s->backup_max = max_bytes ? max_bytes : STREAM_BACKUP_BYTES;
    int r = backup_open(s);
    if (r < 0) {
        mem_free(s->backup_dir);
        s->backup_dir = NULL;
    }
    return r;
}

static void set_on_activate(struct dest *d, void (*call)(void *arg, struct slice list), void *arg)
{
    struct stream *s = (struct stream *)d;
    s->on_activate = call;
    s->on_activate_arg = arg;
}

#define STREAM_OPS                                                                            \
    .put = put, .pump = pump, .wait_fd = wait_fd, .counts = counts, .after_fork = after_fork, \
    .goodbye = goodbye, .close = destroy, .backup = set_backup, .on_activate = set_on_activate

const struct dest_ops dest_unix = {.scheme = "unix", .open = open_unix, STREAM_OPS};
const struct dest_ops dest_tcp = {.scheme = "tcp", .open = open_tcp, STREAM_OPS};
