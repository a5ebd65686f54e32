/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/directory_feed.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <unistd.h>

struct directory_feed {
    struct directory *directory;
    struct own *own;
    int64_t started_ns; /* UTC */
    bool is_quiet;      /* what changes now was so before */
};

/* ---------------------------------------------------------------- what changed, as events */

static bool is_news(const struct directory_entry *e, enum directory_change change)
{
    bool is_bad = e->status == DIRECTORY_MISSING || e->status == DIRECTORY_FAILED;
    if (change == DIRECTORY_GONE)
        return true;
    if (e->is_detail || e->status == DIRECTORY_UNKNOWN)
        return false;
    return e->before != DIRECTORY_UNKNOWN || is_bad;
}

static void on_change(void *arg, const struct directory_entry *e, enum directory_change change)
{
    const struct directory_feed *f = arg;
    if (!f->is_quiet && is_news(e, change))
        own_sensor_state(f->own, e, change);
}

/* Once: when the first of its events has come. */
static void on_schema(void *arg, const struct directory_schema *s, enum directory_change change)
{
    const struct directory_feed *f = arg;
    if (s->schema && change != DIRECTORY_GONE)
        own_schema_new(f->own, s);
}

static const struct directory_ops ops = {.on_change = on_change, .on_schema = on_schema};

/* ---------------------------------------------------------------- workers */

/* The states have the same names and order. */
_Static_assert((int)DIRECTORY_LIVE == (int)WORKER_LIVE && (int)DIRECTORY_LATE == (int)WORKER_LATE &&
                   (int)DIRECTORY_EXPIRED == (int)WORKER_EXPIRED &&
                   (int)DIRECTORY_DEREGISTERED == (int)WORKER_DEREGISTERED,
               "a worker's state is its host's");

void directory_feed_worker(struct directory_feed *f, const struct worker *w)
{
    /* What there is no room for is counted there. */
    (void)directory_host(f->directory, slice_str(w->host), (enum directory_state)w->state, w->since_ns);
}

static void add_worker(void *arg, struct worker *w)
{
    directory_feed_worker(arg, w);
}

static struct directory_sensor sensor_of(const struct sensors_one *one)
{
    struct directory_sensor s = {.sensor = one->sensor,
                                 .events = one->events,
                                 .schemas = one->schemas,
                                 .mode = one->mode,
                                 .why = one->why,
                                 .status = DIRECTORY_UNKNOWN,
                                 .every_ms = one->every_ms,
                                 .started_ns = one->since_ns};
    (void)directory_status_of(one->status, &s.status); /* a word of a later version: unknown */
    return s;
}

/* The first list in this run of a worker that there was before it. */
static bool is_old(const struct directory_feed *f, const struct worker *w)
{
    struct directory_host_entry h;
    return w->registered_ns < f->started_ns && directory_find_host(f->directory, slice_str(w->host), &h) &&
           !h.has_list;
}

static void on_sensors(void *arg, struct worker *w, const struct frame_sensors *list)
{
    struct directory_feed *f = arg;
    struct slice host = slice_str(w->host);
    struct frame_sensors rest = *list;
    struct sensors_one one;
    int64_t now_ns = clock_utc_ns();
    f->is_quiet = is_old(f, w);
    int r = list->is_first ? directory_list_begin(f->directory, host, now_ns) : 0;
    while (r == 0 && sensors_next(&rest, &one)) {
        struct directory_sensor s = sensor_of(&one);
        (void)directory_list_sensor(f->directory, host, &s); /* one that is refused is counted */
    }
    if (r == 0 && !list->has_more)
        directory_list_end(f->directory, host, now_ns);
    f->is_quiet = false;
}

/* ---------------------------------------------------------------- */

/* "example.org" of node7.example.org. */
static const char *own_domain(char *host, size_t n)
{
    host[0] = '\0';
    if (gethostname(host, n) < 0)
        return "local";
    host[n - 1] = '\0';
    const char *dot = strchr(host, '.');
    return dot && dot[1] ? dot + 1 : "local";
}

static int expect_all(struct directory *d, const char *lines, struct diag *why)
{
    int r = 0;
    while (r == 0 && lines && *lines) {
        size_t n = strcspn(lines, "\n");
        r = directory_expect(d, slice_of(lines, n), why);
        lines += n + (lines[n] == '\n');
    }
    return r;
}

int directory_feed_create(const struct directory_feed_options *o, struct directory_feed **out,
                          struct diag *why)
{
    char host[256];
    struct directory_feed *f = mem_try_alloc(sizeof *f);
    if (!f)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    const struct directory_options options = {
        .domain = o->domain && *o->domain ? o->domain : own_domain(host, sizeof host), .keep_ns = o->keep_ns};
    f->own = o->own;
    f->started_ns = clock_utc_ns();
    f->directory = directory_create(&options);
    int r = f->directory ? 0 : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r == 0)
        workers_each(o->workers, add_worker, f);
    if (r == 0)
        r = expect_all(f->directory, o->expect, why);
    if (r == 0)
        r = directory_observe(f->directory, &ops, f); /* from now on: all before was so */
    if (r < 0) {
        directory_feed_destroy(f);
        return r;
    }
    o->sessions->on_sensors = on_sensors;
    o->sessions->sensors_arg = f;
    *out = f;
    return 0;
}

void directory_feed_destroy(struct directory_feed *f)
{
    if (!f)
        return;
    directory_destroy(f->directory);
    mem_free(f);
}

struct directory *directory_feed_directory(struct directory_feed *f)
{
    return f->directory;
}

void directory_feed_batch(struct directory_feed *f, const struct batch *b)
{
    own_hold(f->own, true);
    directory_batch(f->directory, b, clock_mono_ns(), clock_utc_ns());
    own_hold(f->own, false);
}

void directory_feed_archive(struct directory_feed *f, const struct archived_state *a)
{
    char host[256] = "";
    const struct directory_sensor s = {.sensor = SLICE_LIT("archive"),
                                       .events = a->names,
                                       .schemas = SLICE_LIT(""),
                                       .mode = SLICE_LIT("archive"),
                                       .why = slice_str(a->trouble ? err_text(a->trouble) : ""),
                                       .status = a->trouble ? DIRECTORY_FAILED : DIRECTORY_RUNNING,
                                       .started_ns = a->from_ns};
    if (gethostname(host, sizeof host - 1) < 0 || !host[0])
        return;                                                                 /* nobody knows where it is */
    (void)directory_service(f->directory, slice_str(host), &s, clock_utc_ns()); /* no room is counted there */
}

void directory_feed_tick(struct directory_feed *f, int64_t mono_ns)
{
    directory_tick(f->directory, mono_ns, clock_utc_ns());
}

void directory_feed_status(const struct directory_feed *f, struct args_writer *out)
{
    struct directory_counts c;
    directory_counts(f->directory, &c);
    args_add_uint(out, "directory.hosts", c.hosts);
    args_add_uint(out, "directory.sensors", c.sensors);
    args_add_uint(out, "directory.programs", c.programs);
    args_add_uint(out, "directory.schemas", c.schemas);
    args_add_uint(out, "directory.missing", c.missing);
    args_add_uint(out, "directory.refused_hosts", c.refused_hosts);
    args_add_uint(out, "directory.refused_sensors", c.refused_sensors);
    args_add_uint(out, "directory.refused_events", c.refused_events);
    args_add_uint(out, "directory.refused_schemas", c.refused_schemas);
    args_add_uint(out, "directory.evicted_programs", c.evicted_programs);
}
