/* SPDX-License-Identifier: Apache-2.0 */
/* The installed API over instances. Names in struct gridline_value are C strings: those of declared fields
 * are, and those of learned ones are copied into the sample's arena, as is all text. */
#include "gridline/sensor.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/child.h"
#include "sensor/instance.h"
#include "base/parameter.h"

#include <errno.h>
#include <poll.h>

struct gridline_sensor {
    struct sensor_out out; /* first */
    struct sensor_env env;
    char *root;
    struct instance *instance;
    struct arena arena; /* of one sample */
    /* Of the sample being taken: */
    gridline_sensor_event_fn fn;
    void *arg;
    int result; /* fn's first that is not 0 */
    size_t given;
};

static const char type_letters[VALUE_TYPES + 1] = "?iufbtxf";

const char *gridline_sensor_name(size_t i)
{
    for (size_t k = 0; sensor_list[k]; k++)
        if (k == i)
            return sensor_list[k]->name;
    return NULL;
}

const char *gridline_sensor_summary(const char *sensor)
{
    const struct sensor_ops *ops = sensor_find(slice_str(sensor));
    return ops ? ops->summary : NULL;
}

static int list_fields(const struct sensor_schema *s, gridline_sensor_field_fn fn, void *arg)
{
    static const char *const kinds[] = {"", "counter", "gauge", "state", "text"};
    for (size_t i = 0; i < s->n_fields; i++) {
        const struct field *f = &s->fields[i];
        int r = fn(arg, s->name, f->name.p, type_letters[f->type], f->role == ROLE_KEY, kinds[f->kind],
                   f->unit.p, f->help.p);
        if (r != 0)
            return r;
    }
    return 0;
}

int gridline_sensor_fields(const char *sensor, gridline_sensor_field_fn fn, void *arg)
{
    const struct sensor_ops *ops = sensor_find(slice_str(sensor));
    int r = ops ? 0 : -ENOENT;
    for (const struct sensor_schema *s = ops ? ops->schemas : NULL; s && s->name && r == 0; s++)
        r = list_fields(s, fn, arg);
    return r;
}

int gridline_sensor_options(const char *sensor, gridline_sensor_option_fn fn, void *arg)
{
    const struct sensor_ops *ops = sensor_find(slice_str(sensor));
    int r = ops ? 0 : -ENOENT;
    for (const struct parameter *o = ops ? ops->options : NULL; o && o->name && r == 0; o++)
        r = fn(arg, o->name, setting_type_name((enum setting_type)o->type), o->default_text, o->help);
    return r;
}

static struct gridline_value convert(struct gridline_sensor *s, const char *name, struct value v)
{
    if (v.type == VALUE_NUMBER)
        v = value_number(v);
    struct gridline_value g = {
        .name = name, .type = type_letters[v.type], .n = value_is_text(v.type) ? v.n : 0};
    if (!value_is_text(v.type))
        g.v.u = v.u;
    else
        g.v.p = arena_copy(&s->arena, slice_of(v.p, v.n)).p;
    return g;
}

static void give(struct gridline_sensor *s, int64_t time_ns, uint8_t level, const char *name,
                 const struct gridline_value *values, size_t n)
{
    if (s->result == 0)
        s->result = s->fn(s->arg, time_ns, level, name, values, n);
    s->given++;
}

static void on_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                   const struct value *values)
{
    struct gridline_sensor *s = (struct gridline_sensor *)out;
    const struct sensor_schema *d = &instance_ops(s->instance)->schemas[schema];
    struct gridline_value row[EVENT_FIELDS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < d->n_fields; i++)
        if (values[i].type != VALUE_NONE)
            row[n++] = convert(s, d->fields[i].name.p, values[i]);
    give(s, time_ns, level, d->name, row, n);
}

static const char *c_string(struct gridline_sensor *s, struct slice text)
{
    char *p = arena_alloc(&s->arena, text.n + 1);
    if (!p)
        return "";
    memcpy(p, text.p, text.n);
    p[text.n] = '\0';
    return p;
}

static int on_event(struct sensor_out *out, const struct event_head *head, const struct named_value *values,
                    size_t n, struct diag *why)
{
    struct gridline_sensor *s = (struct gridline_sensor *)out;
    struct gridline_value row[EVENT_FIELDS_MAX];
    if (n > EVENT_FIELDS_MAX)
        return diag_set(why, E_LIMIT, 0, "%zu fields are too many; at most %d are allowed", n,
                        EVENT_FIELDS_MAX);
    for (size_t i = 0; i < n; i++)
        row[i] = convert(s, c_string(s, values[i].name), values[i].value);
    give(s, head->time_ns, head->level, c_string(s, head->name), row, n);
    return 0;
}

static void on_mark(struct sensor_out *out, struct slice position)
{
    (void)out, (void)position; /* a program that samples keeps no positions */
}

gridline_sensor *gridline_sensor_open(const char *sensor, const char *const *options, const char *root,
                                      char *why, size_t why_size)
{
    struct arena arena = {0};
    const struct parameter_setting *settings = NULL;
    size_t n = 0;
    struct diag d = {0};
    const struct sensor_ops *ops = sensor_find(slice_str(sensor));
    struct gridline_sensor *s = mem_try_alloc(sizeof *s);
    char *root_copy = root ? strdup(root) : NULL;
    int r = !s || (root && !root_copy) ? -ENOMEM : 0;
    if (r == 0 && !ops)
        r = diag_set(&d, -ENOENT, 0, "there is no sensor '%s'", sensor);
    if (r == 0)
        r = parameters_group(options, &arena, &settings, &n, &d);
    if (r == 0) {
        *s = (struct gridline_sensor){.out = {.row = on_row, .event = on_event, .mark = on_mark},
                                      .root = root_copy};
        env_init(&s->env, root_copy ? root_copy : "");
        r = instance_create(ops, ops->name, settings, n, &s->env, &s->instance, &d);
    }
    arena_fini(&arena);
    if (r == 0)
        return s;
    if (why_size)
        (void)snprintf(why, why_size, "%s", d.message[0] ? d.message : err_text(r)); /* cut to fit */
    free(root_copy);
    mem_free(s);
    return NULL;
}

void gridline_sensor_close(gridline_sensor *s)
{
    if (!s)
        return;
    instance_destroy(s->instance);
    (void)child_settle(CHILD_GRACE); /* what it ran has ended when this returns */
    env_fini(&s->env);
    arena_fini(&s->arena);
    free(s->root);
    mem_free(s);
}

/* Until the sensor's answer is in: what was under way has ended, or something was given; or it has no descriptor to wait
 * for, or time is up. */
static int wait_for_answer(struct gridline_sensor *s, int64_t until_ns)
{
    bool was_underway = instance_is_underway(s->instance);
    int r = 0;
    while (r == 0) {
        struct pollfd p = {.fd = instance_wait_fd(s->instance), .events = POLLIN};
        int64_t left = until_ns - clock_mono_ns();
        bool is_answered = !instance_is_underway(s->instance) && (was_underway || s->given > 0);
        if (p.fd < 0 || is_answered || left <= 0)
            return r;
        int n = poll(&p, 1, (int)(left / 1000000) + 1);
        if (n < 0 && errno != EINTR)
            return -errno;
        r = instance_sample(s->instance, &s->out, false, NS_PER_S);
    }
    return r;
}

int gridline_sensor_sample(gridline_sensor *s, int timeout_ms, gridline_sensor_event_fn fn, void *arg)
{
    s->fn = fn;
    s->arg = arg;
    s->result = 0;
    s->given = 0;
    arena_reset(&s->arena);
    env_next_round(&s->env);
    int64_t until = clock_mono_ns() + (int64_t)timeout_ms * 1000000;
    int r = instance_sample(s->instance, &s->out, true, NS_PER_S);
    if (r == 0)
        r = wait_for_answer(s, until);
    if (s->result != 0)
        return s->result;
    return r == 0 && s->given == 0 ? E_NODATA : r;
}

const char *gridline_sensor_why(const gridline_sensor *s)
{
    return instance_stats(s->instance)->last_why;
}

void gridline_sensor_trace(gridline_sensor *s, gridline_sensor_call_fn fn, void *arg)
{
    s->env.on_call = fn;
    s->env.on_call_arg = arg;
}
