/* SPDX-License-Identifier: Apache-2.0 */
/* The manager counts what may have changed; a list is made only then, and sent only if it differs from the
 * last one. Since when a sensor is what it is, is remembered here: the manager has no use for it. */
#include "agent/announce.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/sensors.h"

#include <inttypes.h>

/* What was told of a sensor, by the hashes of its name and of what it was. */
struct told {
    uint64_t name, what;
    int64_t since_ns;
    bool is_listed;
};

struct announce {
    struct manager *manager;
    uint32_t registration; /* that the list was sent in; 0 = none */
    uint64_t changes;      /* of the manager, when it was made */
    struct strbuf sent;
    struct told *told; /* one a sensor */
    size_t n_told, cap_told;
    bool has_left_out; /* the log has it */
};

struct announce *announce_create(struct manager *m)
{
    struct announce *a = mem_alloc(sizeof *a);
    a->manager = m;
    return a;
}

void announce_destroy(struct announce *a)
{
    if (!a)
        return;
    strbuf_fini(&a->sent);
    mem_free(a->told);
    mem_free(a);
}

/* ---------------------------------------------------------------- since when */

static uint64_t hash_of(const struct sensors_one *s)
{
    uint64_t hash = hash_seeded(s->status, s->every_ms);
    hash = hash_seeded(s->mode, hash);
    return hash_seeded(s->why, hash);
}

static struct told *find_told(struct announce *a, uint64_t name)
{
    for (size_t i = 0; i < a->n_told; i++)
        if (a->told[i].name == name)
            return &a->told[i];
    if (a->n_told == a->cap_told) {
        size_t cap = a->cap_told ? a->cap_told * 2 : 32;
        struct told *told = mem_try_resize(a->told, cap * sizeof *told);
        if (!told)
            return NULL;
        a->told = told;
        a->cap_told = cap;
    }
    a->told[a->n_told] = (struct told){.name = name};
    return &a->told[a->n_told++];
}

/* 0: not known, for lack of memory. */
static int64_t since_of(struct announce *a, const struct sensors_one *s)
{
    uint64_t what = hash_of(s);
    struct told *t = find_told(a, hash_bytes(s->sensor));
    if (!t)
        return 0;
    if (t->what != what || t->since_ns == 0)
        t->since_ns = clock_utc_ns();
    t->what = what;
    t->is_listed = true;
    return t->since_ns;
}

static void forget_others(struct announce *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_told; i++)
        if (a->told[i].is_listed)
            a->told[n++] = a->told[i];
    a->n_told = n;
}

/* ---------------------------------------------------------------- the list */

struct making {
    struct announce *announce;
    struct sensors_writer writer;
    struct strbuf events, schemas, why;
    bool has_failed;
};

static void add_events(struct making *m, const struct manager_sensor *s)
{
    strbuf_reset(&m->events);
    strbuf_reset(&m->schemas);
    for (unsigned i = 0; s->schemas && s->schemas[i].name; i++) {
        strbuf_printf(&m->events, "%s%s", i ? "," : "", s->schemas[i].name);
        strbuf_printf(&m->schemas, "%s%016" PRIx64, i ? "," : "", streams_schema(s->streams, i)->hash);
    }
    m->has_failed = m->has_failed || strbuf_failed(&m->events) || strbuf_failed(&m->schemas);
}

/* As the frame takes it: no control characters, and not too long. What a program printed may be anything. */
static void set_why(struct making *m, const char *why)
{
    size_t n = strnlen(why, SENSORS_WHY_MAX);
    strbuf_reset(&m->why);
    strbuf_add(&m->why, why, n);
    for (size_t i = 0; i < m->why.n; i++)
        if ((unsigned char)m->why.p[i] < 0x20 || m->why.p[i] == 0x7f)
            m->why.p[i] = ' ';
    if (!text_is_utf8(strbuf_slice(&m->why)))
        strbuf_reset(&m->why);
    m->has_failed = m->has_failed || strbuf_failed(&m->why);
}

static void add_sensor(void *arg, const struct manager_sensor *s)
{
    struct making *m = arg;
    add_events(m, s);
    set_why(m, s->why);
    struct sensors_one one = {.sensor = slice_str(s->name),
                              .events = strbuf_slice(&m->events),
                              .schemas = strbuf_slice(&m->schemas),
                              .mode = slice_str(s->mode),
                              .status = slice_str(s->status),
                              .why = strbuf_slice(&m->why),
                              .every_ms = (uint64_t)s->every_ns / 1000000};
    one.since_ns = since_of(m->announce, &one);
    if (sensors_add(&m->writer, &one) || m->announce->has_left_out)
        return;
    m->announce->has_left_out = true;
    log_error("sensor %s is not announced: at most %d are, with names of %d bytes", s->name, SENSORS_MAX,
              SENSORS_NAME_MAX);
}

/* false: no memory. */
static bool make_list(struct announce *a, struct strbuf *out)
{
    struct making m = {.announce = a};
    for (size_t i = 0; i < a->n_told; i++)
        a->told[i].is_listed = false;
    sensors_begin(&m.writer, out);
    manager_list(a->manager, add_sensor, &m);
    sensors_end(&m.writer);
    forget_others(a);
    strbuf_fini(&m.events);
    strbuf_fini(&m.schemas);
    strbuf_fini(&m.why);
    return !m.has_failed && !strbuf_failed(out);
}

void announce_look(struct announce *a, struct upstream *u)
{
    uint32_t registration = upstream_registration(u);
    uint64_t changes = manager_changes(a->manager);
    struct strbuf list = {0};
    if (!registration || (registration == a->registration && changes == a->changes))
        return;
    bool is_made = make_list(a, &list);
    bool is_known = registration == a->registration && slice_eq(strbuf_slice(&list), strbuf_slice(&a->sent));
    if (is_made && (is_known || upstream_sensors(u, strbuf_slice(&list)) == 0)) {
        a->registration = registration;
        a->changes = changes;
        strbuf_fini(&a->sent);
        a->sent = list;
    } else {
        strbuf_fini(&list);
    }
}
