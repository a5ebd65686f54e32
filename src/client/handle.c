/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing and asking a handle. */
#include "client/handle.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "client/dest_mem.h"
#include "client/process.h"
#include "client/quiet.h"
#include "event/limits.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    KEYS_MAX = 16, /* gridline_set_key */
    CLOSE_WAIT_MS = 1000,
    POLL_MAX_MS = 20, /* a destination that can't be polled is asked again after this */
    ALL_FLAGS = GRIDLINE_THREAD | GRIDLINE_ENV | GRIDLINE_MANUAL
};

const char *gridline_version(void)
{
    return "0.1.0";
}

/* For calls that may write out. */
static void lock_quietly(struct gridline *g, struct quiet *q)
{
    quiet_begin(q);
    (void)pthread_mutex_lock(&g->lock); /* a normal mutex: can't fail */
}
static void unlock_quietly(struct gridline *g, const struct quiet *q)
{
    (void)pthread_mutex_unlock(&g->lock);
    quiet_end(q);
}

/* ---------------------------------------------------------------- identity */

/* Where the kernel has no random numbers yet (early boot): what differs from any other process and moment. */
static void weak_random(uint8_t out[16])
{
    struct {
        int64_t utc, mono;
        uint64_t ticks;
        const void *where;
        pid_t pid;
    } seed;
    memset(&seed, 0, sizeof seed);
    seed.utc = clock_utc_ns();
    seed.mono = clock_mono_ns();
    seed.ticks = ticks_now(ticks_are_tsc);
    seed.where = &seed;
    seed.pid = getpid();
    struct slice bytes = {(const char *)&seed, sizeof seed};
    uint64_t h[2] = {hash_seeded(bytes, 1), hash_seeded(bytes, 2)};
    memcpy(out, h, 16);
}

static void new_origin(struct gridline *g)
{
    struct batch_origin *o = &g->env.origin;
    *o = (struct batch_origin){.epoch = 1, .clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    if (getrandom(o->producer, sizeof o->producer, GRND_NONBLOCK) != (ssize_t)sizeof o->producer)
        weak_random(o->producer);
}

static bool is_origin_name(struct slice s)
{
    return s.n && s.n <= EVENT_ORIGIN_MAX && text_is_utf8(s) && !text_has_control(s);
}

static char *copy_text(struct arena *a, const char *z)
{
    return (char *)arena_copy(a, slice_of(z, strlen(z) + 1)).p;
}

static int set_host(struct gridline *g, const char *host)
{
    if (!is_origin_name(slice_str(host)))
        return -EINVAL;
    char *copy = copy_text(&g->names, host);
    if (!copy)
        return -ENOMEM;
    g->host = slice_str(copy);
    g->env.host = copy;
    return 0;
}

static int set_own_host(struct gridline *g)
{
    char name[EVENT_ORIGIN_MAX + 1] = {0};
    int r = gethostname(name, sizeof name - 1) == 0 ? set_host(g, name) : -errno;
    return r == -ENOMEM ? r : r < 0 ? set_host(g, "localhost") : 0;
}

int gridline_set_host(gridline *g, const char *host)
{
    struct quiet q;
    if (!g)
        return 0;
    if (!host)
        return -EINVAL;
    lock_quietly(g, &q);
    drain_rings(g); /* what was written so far was written on the old one */
    int r = set_host(g, host);
    unlock_quietly(g, &q);
    return r;
}

static int declare_key(struct gridline *g, struct slice event, struct slice names)
{
    struct field fields[KEYS_MAX];
    struct schema *schema;
    size_t n = 0;
    while (names.n) {
        const char *comma = memchr(names.p, ',', names.n);
        struct slice name = slice_of(names.p, comma ? (size_t)(comma - names.p) : names.n);
        if (n == KEYS_MAX)
            return -E2BIG;
        fields[n++] = (struct field){.name = name, .type = VALUE_TEXT, .role = ROLE_KEY, .kind = KIND_TEXT};
        names = slice_from(names, comma ? name.n + 1 : name.n);
    }
    int r = schema_create(event, fields, n, &schema);
    if (r < 0)
        return r == -ENOMEM ? r : -EINVAL;
    r = registry_declare(g->drain.registry, schema);
    schema_unref(schema);
    return r;
}

int gridline_set_key(gridline *g, const char *event, const char *fields)
{
    struct quiet q;
    if (!g)
        return 0;
    if (!event || !fields)
        return -EINVAL;
    lock_quietly(g, &q);
    drain_rings(g); /* what was written so far has none */
    int r = declare_key(g, slice_str(event), slice_str(fields));
    unlock_quietly(g, &q);
    return r;
}

/* ---------------------------------------------------------------- open */

static size_t ring_bytes(void)
{
    const char *text = secure_getenv("GRIDLINE_RING");
    uint64_t want = RING_DEFAULT;
    size_t size = RING_MIN;
    if (text && num_parse_size(slice_str(text), &want) < 0)
        want = RING_DEFAULT;
    while (size < want && size < RING_MAX)
        size *= 2;
    return size;
}

static int first_level(void)
{
    const char *text = secure_getenv("GRIDLINE_LEVEL");
    int level = GRIDLINE_INFO;
    if (text)
        (void)activate_parse_level(text, &level); /* a word that is no level changes nothing */
    return level;
}

/* What the environment says instead of url; NULL = nothing: off. */
static const char *url_from_env(const char *url)
{
    static const char *const off[] = {"0", "off", "no", "false"};
    const char *on = secure_getenv("NETLOGGER_ON"), *dest = secure_getenv("GRIDLINE_DEST");
    for (size_t i = 0; on && i < sizeof off / sizeof *off; i++)
        if (slice_eq_nocase(slice_str(on), slice_str(off[i])))
            return NULL;
    if (!dest || !*dest)
        dest = secure_getenv("NETLOGGER_DEST");
    return dest && *dest ? dest : url;
}

static void destroy(struct gridline *g)
{
    struct ring *r = atomic_load(&g->rings), *next;
    for (; r; r = next) {
        next = atomic_load(&r->link);
        ring_unmap(r);
    }
    struct point *p = atomic_load(&g->points), *after;
    for (; p; p = after) {
        after = atomic_load(&p->next);
        p->ops->destroy(p);
    }
    for (size_t i = 0; i < g->n_dests; i++)
        g->dests[i]->ops->close(g->dests[i]);
    drain_fini(&g->drain);
    watch_fini(&g->watch);
    arena_fini(&g->names);
    if (g->wake_fd >= 0)
        (void)close(g->wake_fd); /* an eventfd has nothing to lose */
    (void)pthread_mutex_destroy(&g->lock);
    (void)pthread_mutex_destroy(&g->points_lock);
    mem_free(g);
}

static int create(const char *prog, unsigned flags, struct gridline **out)
{
    struct gridline *g = mem_try_alloc(sizeof *g);
    if (!g)
        return -ENOMEM;
    g->flags = flags;
    g->wake_fd = -1;
    g->ring_bytes = ring_bytes();
    (void)pthread_mutex_init(&g->lock, NULL); /* can't fail without attributes */
    (void)pthread_mutex_init(&g->points_lock, NULL);
    new_origin(g);
    g->env.prog = copy_text(&g->names, prog);
    g->prog = slice_str(g->env.prog ? g->env.prog : "");
    int r = g->env.prog ? set_own_host(g) : -ENOMEM;
    if (r == 0)
        r = drain_init(&g->drain);
    if (r < 0) {
        destroy(g);
        return r;
    }
    *out = g;
    return 0;
}

/* Makes it one of the process's handles. */
static int enter(struct gridline *g)
{
    process_lock();
    int r = process_add(g);
    if (r == 0) {
        r = activate_open(g, first_level());
        if (r < 0)
            process_remove(g);
    }
    process_unlock();
    return r;
}

static void leave(struct gridline *g)
{
    process_lock();
    process_remove(g);
    activate_close(g);
    process_unlock();
}

static int start(struct gridline *g)
{
    const char *control = secure_getenv("GRIDLINE_CONTROL");
    int r = g->n_dests ? activate_enable(g) : 0;
    if (r == 0 && control && *control)
        r = gridline_watch(g, control);
    else if (r == 0)
        activate_follow_agent(g);
    if (r == 0 && (g->flags & GRIDLINE_THREAD)) {
        (void)pthread_mutex_lock(&g->lock);
        r = writer_start(g);
        (void)pthread_mutex_unlock(&g->lock);
    }
    return r;
}

static int open_handle(const char *prog, const char *url, unsigned flags, struct gridline **out)
{
    struct gridline *g;
    if (!prog || !is_origin_name(slice_str(prog)) || (flags & ~(unsigned)ALL_FLAGS))
        return -EINVAL;
    if (flags & GRIDLINE_ENV)
        url = url_from_env(url);
    int r = create(prog, flags, &g);
    if (r < 0)
        return r;
    r = url ? dest_open_list(g, slice_str(url)) : 0;
    if (r == 0)
        r = enter(g);
    if (r < 0) {
        destroy(g);
        return r;
    }
    r = start(g);
    if (r < 0) {
        leave(g);
        destroy(g);
        return r;
    }
    *out = g;
    return 0;
}

gridline *gridline_open(const char *prog, const char *url, unsigned flags)
{
    struct gridline *g = NULL;
    int saved = errno;
    int r = open_handle(prog, url, flags, &g);
    errno = r < 0 ? (r > -4096 ? -r : EINVAL) : saved; /* codes of our own are about the url */
    return g;
}

int gridline_add(gridline *g, const char *url)
{
    struct quiet q;
    if (!g)
        return 0;
    struct dest *d;
    int r = url ? dest_open(slice_str(url), &g->env, &d) : -EINVAL;
    if (r < 0)
        return r > -4096 ? r : -EINVAL;
    lock_quietly(g, &q);
    drain_rings(g);
    drain_flush(g); /* what was written before is not for it */
    r = dest_adopt(g, d);
    unlock_quietly(g, &q);
    return r < 0 ? r : activate_enable(g);
}

int gridline_backup(gridline *g, const char *dir, uint64_t max_bytes)
{
    int r = -ENOTSUP;
    if (!g)
        return 0;
    if (!dir || !*dir)
        return -EINVAL;
    (void)pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < g->n_dests && r == -ENOTSUP; i++)
        if (g->dests[i]->ops->backup)
            r = g->dests[i]->ops->backup(g->dests[i], dir, max_bytes);
    (void)pthread_mutex_unlock(&g->lock);
    return r > -4096 ? r : -EIO;
}

/* ---------------------------------------------------------------- constant fields */

static int parse_const(const char *type, const char *text, struct value *out)
{
    struct slice t = slice_str(type), s = slice_str(text);
    int r = 0;
    if (slice_eq_str(t, "text"))
        *out = value_text(s);
    else if (slice_eq_str(t, "u64") && (r = num_parse_uint(s, &out->u)) == 0)
        out->type = VALUE_UINT;
    else if (slice_eq_str(t, "i64") && (r = num_parse_int(s, &out->i)) == 0)
        out->type = VALUE_INT;
    else if (slice_eq_str(t, "f64") && (r = num_parse_float(s, &out->f)) == 0)
        *out = value_float(out->f);
    else if (slice_eq_str(t, "bool") && (slice_eq_str(s, "true") || slice_eq_str(s, "false")))
        *out = value_bool(s.n == 4);
    else
        r = -EINVAL;
    if (r == 0 && out->type == VALUE_TEXT && (out->n > EVENT_TEXT_MAX || !text_is_utf8(s)))
        r = -EINVAL;
    return r == E_PROTO ? -EINVAL : r;
}

/* The old ones with this one added, or in place of one of its name. */
static int put_const(struct gridline *g, struct named_value fresh)
{
    struct drain *d = &g->drain;
    size_t i = 0;
    while (i < d->n_consts && !slice_eq(d->consts[i].name, fresh.name))
        i++;
    if (i == EVENT_FIELDS_MAX)
        return -ENOSPC;
    if (i == d->n_consts) {
        struct named_value *list = mem_try_resize(d->consts, (i + 1) * sizeof *list);
        if (!list)
            return -ENOMEM;
        d->consts = list;
    }
    fresh.name = arena_copy(&g->names, fresh.name);
    bool ok = fresh.name.p;
    if (ok && fresh.value.type == VALUE_TEXT) {
        fresh.value.p = arena_copy(&g->names, value_slice(fresh.value)).p;
        ok = fresh.value.p;
    }
    if (!ok)
        return -ENOMEM;
    d->consts[i] = fresh;
    d->n_consts += i == d->n_consts;
    drain_forget_plans(d);
    return 0;
}

int gridline_set_const(gridline *g, const char *name, const char *type, const char *value)
{
    struct quiet q;
    if (!g)
        return 0;
    if (!name || !type || !value || !text_is_name(slice_str(name)))
        return -EINVAL;
    struct named_value fresh = {.name = slice_str(name)};
    int r = parse_const(type, value, &fresh.value);
    if (r < 0)
        return r;
    lock_quietly(g, &q);
    drain_rings(g);
    r = put_const(g, fresh);
    unlock_quietly(g, &q);
    return r;
}

/* ---------------------------------------------------------------- waiting and closing */

static uint64_t queued(struct gridline *g)
{
    uint64_t n = drain_in_block(&g->drain);
    for (size_t i = 0; i < g->n_dests; i++) {
        struct dest_counts c;
        g->dests[i]->ops->counts(g->dests[i], &c);
        n += c.queued;
    }
    return n;
}

/* The lock, but no later than that: its holder may hang in write(2). By CLOCK_REALTIME, as ThreadSanitizer
 * does not know the call that takes another clock. */
static bool lock_until(struct gridline *g, int64_t deadline_ns)
{
    int64_t left = deadline_ns - clock_mono_ns(), until = clock_utc_ns() + (left > 0 ? left : 0);
    struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    return pthread_mutex_timedlock(&g->lock, &t) == 0;
}

/* What to wait for when something is left. */
struct flush_wait {
    struct pollfd fds[DESTS_MAX];
    nfds_t n;
    int ms; /* -1 = no need */
};

/* One round; true when nothing is left. */
static bool flush_round(struct gridline *g, int64_t deadline_ns, struct flush_wait *wait)
{
    wait->n = 0;
    wait->ms = -1;
    if (!lock_until(g, deadline_ns))
        return false;
    wait->ms = serve_quietly(g, true);
    bool is_done = queued(g) == 0;
    for (size_t i = 0; i < g->n_dests; i++) {
        short events = 0;
        int fd = g->dests[i]->ops->wait_fd ? g->dests[i]->ops->wait_fd(g->dests[i], &events) : -1;
        if (fd >= 0 && events)
            wait->fds[wait->n++] = (struct pollfd){.fd = fd, .events = events};
    }
    (void)pthread_mutex_unlock(&g->lock);
    return is_done;
}

static int flush_until(struct gridline *g, int64_t deadline_ns)
{
    struct flush_wait wait;
    while (!flush_round(g, deadline_ns, &wait)) {
        int64_t left = deadline_ns - clock_mono_ns();
        if (left <= 0)
            return -EAGAIN;
        int ms = wait.ms >= 0 && wait.ms < POLL_MAX_MS ? wait.ms : POLL_MAX_MS;
        if (left < ms * INT64_C(1000000))
            ms = (int)(left / 1000000) + 1;
        (void)poll(wait.fds, wait.n, ms); /* whatever it says, the next round looks */
    }
    return 0;
}

int gridline_flush(gridline *g, int timeout_ms)
{
    if (!g)
        return 0;
    int saved = errno;
    serve_points(g);
    int r = flush_until(g, clock_mono_ns() + (timeout_ms > 0 ? timeout_ms : 0) * INT64_C(1000000));
    errno = saved;
    return r;
}

static void last_reports(struct gridline *g)
{
    if (atomic_exchange(&g->is_ending, true))
        return;
    struct point *p = atomic_load(&g->points);
    for (; p; p = atomic_load(&p->next))
        p->ops->report_on_close(p);
}

static void say_goodbye(struct gridline *g)
{
    uint64_t dropped[DROP_REASONS];
    drain_dropped(g, dropped);
    for (size_t i = 0; i < g->n_dests; i++) {
        struct gridline_stats s;
        handle_stats(g, i, &s);
        if (g->dests[i]->ops->goodbye)
            g->dests[i]->ops->goodbye(g->dests[i], s.taken, dropped);
    }
}

void handle_finish(struct gridline *g)
{
    struct quiet q;
    quiet_begin(&q);
    say_goodbye(g);
    destroy(g);
    quiet_end(&q);
}

void gridline_close(gridline *g)
{
    if (!g)
        return;
    int saved = errno;
    bool is_stopped = writer_stop(g, CLOSE_WAIT_MS);
    if (is_stopped) {
        last_reports(g);
        g->drain.report_at_ns = 0; /* what was dropped is told now or never */
        int64_t until = clock_mono_ns() + CLOSE_WAIT_MS * INT64_C(1000000);
        (void)flush_until(g, until); /* what is left is up to the destinations */
    }
    leave(g);
    if (is_stopped || !writer_abandon(g))
        handle_finish(g);
    errno = saved;
}

void handle_at_exit(struct gridline *g)
{
    if (!writer_stop(g, CLOSE_WAIT_MS))
        return;
    last_reports(g);
    (void)flush_until(g,
                      clock_mono_ns() + CLOSE_WAIT_MS * INT64_C(1000000)); /* no longer: the program ends */
}

/* ---------------------------------------------------------------- fork */

static void ring_forget(struct ring *r)
{
    atomic_store(&r->tail, atomic_load(&r->head));
    r->limit = atomic_load(&r->head); /* to the slow path first */
    for (int i = 0; i <= DROP_TOO_LARGE; i++)
        atomic_store(&r->dropped[i], 0);
}

/* Only the ring of the thread that forked is left; perhaps the fork happened in a signal handler, in the
 * middle of an event: that one is finished by parent and child. */
static void forget_rings(struct gridline *g)
{
    struct ring *own = ring_of(g), *next;
    for (struct ring *r = atomic_load(&g->rings); r; r = next) {
        next = atomic_load(&r->link);
        if (r != own)
            ring_unmap(r);
    }
    atomic_store(&g->rings, own);
    if (!own)
        return;
    atomic_store(&own->link, NULL);
    ring_forget(own);
    ring_forget(own->second);
    own->due = 0; /* the next event sees to the writer thread */
}

void handle_after_fork(struct gridline *g)
{
    atomic_store(&g->has_writer, false);
    atomic_store(&g->is_asleep, false);
    atomic_store(&g->points_busy, false);
    if (g->wake_fd >= 0)
        (void)close(g->wake_fd); /* the parent's */
    g->wake_fd = -1;
    forget_rings(g);
    for (int i = 0; i < DROP_REASONS; i++)
        atomic_store(&g->dropped[i], 0);
    drain_after_fork(&g->drain);
    new_origin(g);
    for (size_t i = 0; i < g->n_dests; i++)
        if (g->dests[i]->ops->after_fork)
            g->dests[i]->ops->after_fork(g->dests[i], &g->env);
    struct point *p = atomic_load(&g->points);
    for (; p; p = atomic_load(&p->next))
        p->ops->after_fork(p);
}

/* ---------------------------------------------------------------- asking */

static uint64_t in_rings(struct gridline *g)
{
    uint64_t n = 0;
    struct ring *r = atomic_load_explicit(&g->rings, memory_order_acquire);
    for (; r; r = atomic_load_explicit(&r->link, memory_order_relaxed))
        n += ring_count(r) + ring_count(r->second);
    return n;
}

void handle_stats(struct gridline *g, size_t i, struct gridline_stats *out)
{
    struct dest_counts c = {0};
    uint64_t dropped[DROP_REASONS], sum = 0;
    drain_dropped(g, dropped);
    if (i < g->n_dests)
        g->dests[i]->ops->counts(g->dests[i], &c);
    for (int k = 0; k < DROP_REASONS; k++) {
        dropped[k] += c.dropped[k];
        sum += dropped[k];
    }
    *out = (struct gridline_stats){
        .passed = c.passed,
        .queued = c.queued + drain_in_block(&g->drain) + in_rings(g),
        .dropped = sum,
        .dropped_ring_full = dropped[DROP_RING_FULL],
        .dropped_nested = dropped[DROP_NESTED],
        .dropped_too_large = dropped[DROP_TOO_LARGE],
        .dropped_unwritable = dropped[DROP_UNWRITABLE] + dropped[DROP_FORCED],
        .dropped_memory = dropped[DROP_MEMORY],
        .dropped_refused = dropped[DROP_REFUSED] + dropped[DROP_TOO_OLD] + dropped[DROP_TOO_NEW] +
                           dropped[DROP_NO_SCHEMA] + dropped[DROP_FILTERED],
        .refused_too_old = dropped[DROP_TOO_OLD],
        .refused_too_new = dropped[DROP_TOO_NEW],
    };
    out->taken = out->passed + out->queued + out->dropped;
}

int gridline_stats_at(gridline *g, unsigned i, struct gridline_stats *out, size_t size)
{
    struct gridline_stats s = {0};
    int r = 0;
    if (!out)
        return g ? -EINVAL : 0;
    if (g) {
        (void)pthread_mutex_lock(&g->lock);
        r = i < g->n_dests || i == 0 ? 0 : -ENOENT;
        if (r == 0)
            handle_stats(g, i, &s);
        (void)pthread_mutex_unlock(&g->lock);
    }
    memset(out, 0, size);
    memcpy(out, &s, size < sizeof s ? size : sizeof s);
    return r;
}

void gridline_stats(gridline *g, struct gridline_stats *out, size_t size)
{
    (void)gridline_stats_at(g, 0, out, size); /* there is always a first, if only the rings */
}

int gridline_dump(gridline *g, const char *url)
{
    struct quiet q;
    struct dest *to;
    if (!g)
        return 0;
    int r = url ? dest_open(slice_str(url), &g->env, &to) : -EINVAL;
    if (r < 0)
        return r > -4096 ? r : -EINVAL;
    r = -ENOENT;
    lock_quietly(g, &q);
    drain_rings(g);
    drain_flush(g);
    for (size_t i = 0; i < g->n_dests && r == -ENOENT; i++)
        if (g->dests[i]->ops == &dest_mem)
            r = dest_mem_copy(g->dests[i], to);
    unlock_quietly(g, &q);
    to->ops->close(to);
    return r;
}

/* ---------------------------------------------------------------- points */

const struct dest_env *client_env(const struct gridline *g)
{
    return &g->env;
}

void client_points_lock(struct gridline *g)
{
    (void)pthread_mutex_lock(&g->points_lock); /* a normal mutex: can't fail */
}
void client_points_unlock(struct gridline *g)
{
    (void)pthread_mutex_unlock(&g->points_lock);
}

struct point *client_find_point(struct gridline *g, const struct point_ops *ops, const char *name)
{
    struct point *p = atomic_load(&g->points);
    while (p && (p->ops != ops || !slice_eq_str(slice_str(p->name), name)))
        p = atomic_load(&p->next);
    return p;
}

void client_add_point(struct gridline *g, struct point *p)
{
    p->g = g;
    atomic_store(&p->next, atomic_load(&g->points));
    atomic_store(&g->points, p);
}

bool client_is_on(struct gridline *g, int level, const char *event)
{
    return activate_is_on(g, level, slice_str(event));
}
