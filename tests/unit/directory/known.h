/* SPDX-License-Identifier: Apache-2.0 */
/* known.h - a directory on a clock that the test sets, an observer that writes down what it hears, and batches. */
#ifndef GRIDLINE_TESTS_DIRECTORY_KNOWN_H
#define GRIDLINE_TESTS_DIRECTORY_KNOWN_H

#include "unit/test.h"

#include "base/clock.h"
#include "directory/directory.h"

#include <stdio.h>

struct known {
    struct directory *d;
    struct registry *registry;
    struct batch_builder *builder;
    int64_t utc_ns, mono_ns;
    char log[16384];
};

static inline void known_note(struct known *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void known_note(struct known *k, const char *format, ...)
{
    size_t n = strlen(k->log);
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(k->log + n, sizeof k->log - n, format, ap);
    va_end(ap);
}

static inline void known_on_change(void *arg, const struct directory_entry *e, enum directory_change change)
{
    static const char *const marks[] = {"+", "~", "-"};
    known_note(arg, "%s%.*s/%.*s", marks[change], SLICE_ARG(e->host), SLICE_ARG(e->sensor));
    if (change == DIRECTORY_CHANGED)
        known_note(arg, e->is_detail ? "(detail)" : ":%s>%s", directory_status_name(e->before),
                   directory_status_name(e->status));
    else if (change == DIRECTORY_ADDED)
        known_note(arg, "=%s", directory_status_name(e->status));
    known_note(arg, " ");
}

static inline void known_on_host(void *arg, const struct directory_host_entry *h, enum directory_change change)
{
    static const char *const marks[] = {"+", "~", "-"};
    known_note(arg, "%s%.*s:%s>%s ", marks[change], SLICE_ARG(h->host), directory_state_name(h->before),
               directory_state_name(h->state));
}

static inline void known_on_schema(void *arg, const struct directory_schema *s, enum directory_change change)
{
    static const char *const marks[] = {"+", "~", "-"};
    known_note(arg, "%sschema:%.*s", marks[change], SLICE_ARG(s->event));
    if (s->conflict.n)
        known_note(arg, "!%.*s", SLICE_ARG(s->conflict));
    known_note(arg, " ");
}

static const struct directory_ops known_ops = {known_on_change, known_on_host, known_on_schema};

static inline void known_open(struct known *k, int64_t keep_ns)
{
    *k = (struct known){.utc_ns = 1700000000 * NS_PER_S, .mono_ns = 1000 * NS_PER_S};
    k->d = directory_create(&(struct directory_options){.domain = "example.org", .keep_ns = keep_ns});
    k->registry = registry_create();
    assert_non_null(k->d);
    assert_non_null(k->registry);
    k->builder = batch_builder_create(k->registry, 0);
    assert_non_null(k->builder);
    assert_int_equal(directory_observe(k->d, &known_ops, k), 0);
}

static inline void known_close(struct known *k)
{
    directory_destroy(k->d);
    batch_builder_destroy(k->builder);
    registry_destroy(k->registry);
}

static inline void known_pass(struct known *k, int64_t ns)
{
    k->utc_ns += ns;
    k->mono_ns += ns;
    directory_tick(k->d, k->mono_ns, k->utc_ns);
}

/* What was heard since the last time. */
#define assert_heard(k, text)                                                                                          \
    do {                                                                                                               \
        assert_string_equal((k)->log, text);                                                                           \
        (k)->log[0] = '\0';                                                                                            \
    } while (0)

static inline void known_host(struct known *k, const char *host, enum directory_state state)
{
    assert_int_equal(directory_host(k->d, slice_str(host), state, k->utc_ns), 0);
}

/* A list: "NAME EVENTS MODE STATUS" each, EVENTS "-" = none. */
static inline void known_list(struct known *k, const char *host, const char *const *sensors)
{
    assert_int_equal(directory_list_begin(k->d, slice_str(host), k->utc_ns), 0);
    for (; *sensors; sensors++) {
        char name[64], events[256], mode[32], status[32];
        struct directory_sensor s = {.every_ms = 1000, .started_ns = k->utc_ns, .schemas = {"", 0}, .why = {"", 0}};
        assert_int_equal(sscanf(*sensors, "%63s %255s %31s %31s", name, events, mode, status), 4);
        s.sensor = slice_str(name);
        s.events = strcmp(events, "-") == 0 ? (struct slice){"", 0} : slice_str(events);
        s.mode = slice_str(mode);
        assert_true(directory_status_of(slice_str(status), &s.status));
        assert_int_equal(directory_list_sensor(k->d, slice_str(host), &s), 0);
    }
    directory_list_end(k->d, slice_str(host), k->utc_ns);
}
#define known_say(k, host, ...) known_list(k, host, (const char *const[]){__VA_ARGS__, NULL})

/* An event with the value x of that type, into the batch being made. */
static inline void known_add(struct known *k, const char *host, const char *prog, const char *name, struct value x)
{
    const struct event_head head = {.time_ns = k->utc_ns,
                                    .name = slice_str(name),
                                    .host = slice_str(host),
                                    .prog = slice_str(prog),
                                    .level = LEVEL_INFO};
    const struct named_value values[] = {{SLICE_LIT("x"), x}};
    assert_int_equal(batch_builder_add(k->builder, &head, values, 1, NULL), 0);
}

static inline void known_send(struct known *k)
{
    struct batch *b = batch_builder_finish(k->builder, NULL);
    assert_non_null(b);
    directory_batch(k->d, b, k->mono_ns, k->utc_ns);
    batch_unref(b);
}

static inline void known_event(struct known *k, const char *host, const char *prog, const char *name)
{
    known_add(k, host, prog, name, value_int(1));
    known_send(k);
}

static inline struct directory_entry known_find(const struct known *k, const char *host, const char *sensor)
{
    struct directory_entry e;
    assert_true(directory_find(k->d, slice_str(host), slice_str(sensor), &e));
    return e;
}

static inline bool known_has(const struct known *k, const char *host, const char *sensor)
{
    struct directory_entry e;
    return directory_find(k->d, slice_str(host), slice_str(sensor), &e);
}

#define assert_status(k, host, sensor, is)                                                                             \
    assert_string_equal(directory_status_name(known_find(k, host, sensor).status), is)

#endif
