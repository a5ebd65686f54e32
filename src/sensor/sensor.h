/* SPDX-License-Identifier: Apache-2.0 */
/* sensor.h - what a sensor is. A sensor is one file with one const table at its bottom, and one line in list.def:
 *
 *     const struct sensor_ops sensor_load = {
 *         .name = "load", .summary = "run-queue averages", .schemas = load_schemas, .options = load_options,
 *         .every = "1s", .state_size = sizeof(struct load),
 *         .open = load_open, .sample = load_sample, .close = load_close,
 *     };
 *
 * The table declares everything beside the code that fills it: schemas with type, unit, kind and help of each field, and
 * options with default and help; configuration, `gridline sense --list`, man page and docs are made from it.
 *
 * Whoever runs a sensor (instance.h) allocates and zeroes the state, applies the options, calls open, and calls close
 * exactly once even if open failed. It owns timing, thresholds, failure, back-off and clean-up: a sensor holds none of
 * that. A sensor sees the world through its environment (env.h), never through a global, so that it runs on captured
 * trees; it never blocks, never logs, and touches nothing shared. What can block or needs a large library runs in
 * gridline-helper: its table has .is_helper set and no functions, and src/helper has the functions under the same name.
 *
 * No data is not an error and never a zero: a field that can't be read is VALUE_NONE, a sample with nothing in it
 * returns E_NODATA. */
#ifndef GRIDLINE_SENSOR_SENSOR_H
#define GRIDLINE_SENSOR_SENSOR_H

#include "base/err.h"
#include "base/parameter.h"
#include "event/batch.h"
#include "event/schema.h"
#include "sensor/env.h"

/* A field of a schema: FIELD("free", UINT, GAUGE, "bytes", "memory nobody uses"). KEY fields are part of the stream's
 * identity and come first: KEY("device", "the disk's name"). */
#define SENSOR_TEXT_(s) {(s), sizeof(s) - 1}
#define FIELD(n, t, k, u, h)                                                                                 \
    {.name = SENSOR_TEXT_(n), .unit = SENSOR_TEXT_(u), .help = SENSOR_TEXT_(h), .type = VALUE_##t,           \
     .role = ROLE_VALUE, .kind = KIND_##k}
#define KEY(n, h)                                                                                            \
    {.name = SENSOR_TEXT_(n), .unit = SENSOR_TEXT_(""), .help = SENSOR_TEXT_(h), .type = VALUE_TEXT,         \
     .role = ROLE_KEY, .kind = KIND_TEXT}

/* What a sensor makes. */
struct sensor_schema {
    const char *name; /* of the event; NULL ends the list */
    const struct field *fields;
    uint16_t n_fields;
    uint8_t level;  /* of its events */
    bool is_event;  /* a change of state: always sent, with acknowledgement; thresholds are for samples */
};
#define SCHEMA(n, f)       {.name = (n), .fields = (f), .n_fields = sizeof(f) / sizeof *(f), .level = LEVEL_INFO}
#define SCHEMA_EVENT(n, f, l)                                                                                \
    {.name = (n), .fields = (f), .n_fields = sizeof(f) / sizeof *(f), .level = (l), .is_event = true}

/* Where a sensor's rows go. Made by whoever runs it; sensors call the functions below. */
struct sensor_out {
    void (*row)(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level, const struct value *values);
    int (*event)(struct sensor_out *out, const struct event_head *head, const struct named_value *values, size_t n,
                 struct diag *why);
    void (*mark)(struct sensor_out *out, struct slice position);
    int64_t time_ns;  /* when this sample began: the time of its rows */
    bool is_due;      /* the period is over; false: called because wait_fd became readable */
    struct diag *why; /* a sample that fails says here what and where */
};

/* One row of schemas[schema]: its n_fields values in order, each of the declared type or VALUE_NONE. A row in which no
 * value field has a value is no data and goes no further. Everything is borrowed for the call. Cost: a few ns a field. */
static inline void sensor_row(struct sensor_out *out, unsigned schema, const struct value *values)
{
    out->row(out, schema, out->time_ns, LEVEL_COUNT, values); /* LEVEL_COUNT: the schema's own level */
}
/* The same with a time and a level of its own. */
static inline void sensor_row_at(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                                 const struct value *values)
{
    out->row(out, schema, time_ns, level, values);
}
/* An event that is not of a declared schema (a program's output, a log's line). An empty host or prog is filled in.
 * E_LIMIT, E_PROTO with *why: it is not taken. */
static inline int sensor_event(struct sensor_out *out, const struct event_head *head, const struct named_value *values,
                               size_t n, struct diag *why)
{
    return out->event(out, head, values, n, why);
}
/* Everything emitted by this call to sample so far belongs to this position (opaque bytes, at most 4096): the runner
 * keeps both or neither, and gives the newest position to env->position when the sensor is opened again. */
static inline void sensor_mark(struct sensor_out *out, struct slice position)
{
    out->mark(out, position);
}

/* What sample returns when it has begun something whose result a later call gives: neither success nor failure. */
enum { SENSOR_UNDERWAY = 1 };

struct sensor_ops {
    const char *name;
    const char *summary;                 /* a phrase */
    const struct sensor_schema *schemas; /* ends with {0}; NULL: events of undeclared schemas only */
    const struct parameter *options; /* ends with {0}; NULL: none */
    const char *every;                   /* default period, "1s" */
    const char *refresh;                 /* default longest silence (the seed's Δt), "60s" */
    uint8_t priority;                    /* 0: slowed last when the agent is over its budget; 9: first; default 5 */
    bool is_multi;                       /* configured any number of times, each with a name */
    bool is_helper;                      /* runs in gridline-helper */
    bool is_default;                     /* runs when nothing is configured */
    size_t state_size;
    /* *why explains a failure. Calls that a sensor makes later stay open from here where that saves work. */
    int (*open)(void *state, struct sensor_env *env, struct diag *why);
    /* Emits rows. 0; SENSOR_UNDERWAY; E_NODATA: nothing to read here now (say why in out->why); other negative codes:
     * failed. */
    int (*sample)(void *state, struct sensor_env *env, struct sensor_out *out);
    void (*close)(void *state);
    /* A descriptor that is readable when there is something to sample before the period is over; -1 = none now. Asked
     * again after each sample. NULL = never. */
    int (*wait_fd)(void *state);
};

/* All of list.def, in its order; NULL at the end. */
extern const struct sensor_ops *const sensor_list[];
/* NULL when there is none of that name. */
const struct sensor_ops *sensor_find(struct slice name);

#endif
