/* SPDX-License-Identifier: Apache-2.0 */
/* sense.h - for tests: runs a sensor on a captured tree and gives its rows as text, a line each:
 *
 *     cpu cpu="all" user=5 nice=0 ...        (declared schemas: fields in order, missing ones left out)
 *     check.disk state=0 ...                 (events of undeclared schemas) */
#ifndef GRIDLINE_TESTS_SENSE_H
#define GRIDLINE_TESTS_SENSE_H

#include "base/num.h"
#include "base/strbuf.h"
#include "sensor/instance.h"

#include <errno.h>

#define FIXTURES GRIDLINE_SOURCE "/tests/fixtures/hosts/"

struct sense {
    struct sensor_out out; /* first */
    struct sensor_env env;
    struct instance *instance;
    struct strbuf text; /* the rows of the last sense_run */
    size_t rows;
    struct strbuf position; /* the last mark */
};

static inline void sense_add_value(struct strbuf *text, struct slice name, struct value v)
{
    char number[NUM_TEXT_MAX];
    if (v.type == VALUE_NONE)
        return;
    strbuf_printf(text, " %.*s=", SLICE_ARG(name));
    if (v.type == VALUE_INT)
        strbuf_add(text, number, num_print_int(number, v.i));
    else if (v.type == VALUE_UINT)
        strbuf_add(text, number, num_print_uint(number, v.u));
    else if (v.type == VALUE_FLOAT)
        strbuf_add(text, number, num_print_float(number, v.f));
    else if (v.type == VALUE_BOOL)
        strbuf_add_str(text, v.u ? "true" : "false");
    else
        strbuf_printf(text, "\"%.*s\"", (int)v.n, v.p);
}

static inline void sense_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                             const struct value *values)
{
    struct sense *s = (struct sense *)out;
    const struct sensor_schema *d = &instance_ops(s->instance)->schemas[schema];
    (void)time_ns, (void)level; /* not compared */
    strbuf_add_str(&s->text, d->name);
    for (size_t i = 0; i < d->n_fields; i++) {
        if (values[i].type != VALUE_NONE && values[i].type != d->fields[i].type)
            strbuf_add_str(&s->text, " WRONG-TYPE");
        sense_add_value(&s->text, d->fields[i].name, values[i]);
    }
    strbuf_add_char(&s->text, '\n');
    s->rows++;
}

static inline int sense_event(struct sensor_out *out, const struct event_head *head, const struct named_value *values,
                              size_t n, struct diag *why)
{
    struct sense *s = (struct sense *)out;
    (void)why; /* everything is taken */
    strbuf_add_slice(&s->text, head->name);
    for (size_t i = 0; i < n; i++)
        sense_add_value(&s->text, values[i].name, values[i].value);
    strbuf_add_char(&s->text, '\n');
    s->rows++;
    return 0;
}

static inline void sense_mark(struct sensor_out *out, struct slice position)
{
    struct sense *s = (struct sense *)out;
    strbuf_reset(&s->position);
    strbuf_add_slice(&s->position, position);
}

/* root "" is this host. Settings: name, text, name, text, ..., NULL (lists of one text). */
static inline int sense_open(struct sense *s, const char *sensor, const char *root, const char *const *pairs)
{
    struct parameter_setting settings[16];
    size_t n = 0;
    struct diag why = {0};
    *s = (struct sense){.out = {.row = sense_row, .event = sense_event, .mark = sense_mark}};
    for (; pairs && pairs[2 * n] && n < 16; n++)
        settings[n] = (struct parameter_setting){pairs[2 * n], &pairs[2 * n + 1], 1};
    env_init(&s->env, root);
    const struct sensor_ops *ops = sensor_find(slice_str(sensor));
    return ops ? instance_create(ops, sensor, settings, n, &s->env, &s->instance, &why) : -ENOENT;
}

static inline int sense_run(struct sense *s)
{
    strbuf_reset(&s->text);
    s->rows = 0;
    env_next_round(&s->env);
    return instance_sample(s->instance, &s->out, true, 1000000000);
}

static inline void sense_close(struct sense *s)
{
    instance_destroy(s->instance);
    env_fini(&s->env);
    strbuf_fini(&s->text);
    strbuf_fini(&s->position);
}

#endif
