/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/properties.h"

#include "base/clock.h"

#include <inttypes.h>

#define SMALL_MEMORY (UINT64_C(1) << 30)

/* Takes the first row of the first schema of a sensor. */
struct taking {
    struct sensor_out out; /* first */
    const struct sensor_ops *ops;
    struct args_writer *to;
    bool (*name)(struct slice field, struct slice *out); /* under which; false: not at all */
    bool is_done;
};

static void take_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                     const struct value *values)
{
    struct taking *t = (struct taking *)out;
    const struct sensor_schema *s = &t->ops->schemas[schema];
    struct slice name;
    (void)time_ns, (void)level; /* they are the worker's own */
    if (schema != 0 || t->is_done)
        return;
    t->is_done = true;
    for (size_t i = 0; i < s->n_fields; i++)
        if (t->name(s->fields[i].name, &name))
            args_add(t->to, name, values[i]); /* a value that is missing is left out */
}

static int ignore_event(struct sensor_out *out, const struct event_head *head,
                        const struct named_value *values, size_t n, struct diag *why)
{
    (void)out, (void)head, (void)values, (void)n, (void)why;
    return 0;
}

static void ignore_mark(struct sensor_out *out, struct slice position)
{
    (void)out, (void)position;
}

/* One sample of a sensor of its own: whether it runs, and what it was last asked, does not matter. */
static void take_from(struct sensor_env *env, const char *sensor, bool (*name)(struct slice, struct slice *),
                      struct args_writer *out)
{
    const struct sensor_ops *ops = sensor_find(slice_str(sensor));
    struct instance *i;
    struct taking t = {.out = {.row = take_row, .event = ignore_event, .mark = ignore_mark},
                       .ops = ops,
                       .to = out,
                       .name = name};
    if (!ops || instance_create(ops, ops->name, NULL, 0, env, &i, NULL) < 0)
        return;
    (void)instance_sample(i, &t.out, true, NS_PER_S); /* without a row there are none of its properties */
    instance_destroy(i);
}

static bool host_name(struct slice field, struct slice *out)
{
    *out = slice_eq(field, SLICE_LIT("threads")) ? SLICE_LIT("cpus") : field;
    return !slice_eq(field, SLICE_LIT("kernel_version")) && !slice_eq(field, SLICE_LIT("interfaces"));
}

static bool memory_name(struct slice field, struct slice *out)
{
    *out = SLICE_LIT("swap");
    return slice_eq(field, SLICE_LIT("swap_total"));
}

void properties_add(struct sensor_env *env, struct args_writer *out)
{
    take_from(env, "host", host_name, out);
    take_from(env, "memory", memory_name, out);
    args_add_text(out, "version", SLICE_LIT(GRIDLINE_VERSION));
}

/* ---------------------------------------------------------------- settings */

static void put(struct args_writer *out, const struct sensor_config *s, const char *key, struct slice text)
{
    struct strbuf name = {0};
    strbuf_add_str(&name, s->ops->name);
    if (s->ops->is_multi)
        strbuf_printf(&name, ".%s", s->name);
    strbuf_printf(&name, ".%s", key);
    if (!strbuf_failed(&name) && name.n <= ARGS_NAME_MAX && out->n < PROPERTIES_SETTINGS_MAX)
        args_add(out, strbuf_slice(&name), value_text(text));
    strbuf_fini(&name);
}

/* As it would be configured: the largest unit that it is a whole number of. */
static void put_duration(struct args_writer *out, const struct sensor_config *s, const char *key, int64_t ns)
{
    static const struct {
        int64_t ns;
        const char *unit;
    } units[] = {{3600 * NS_PER_S, "h"}, {60 * NS_PER_S, "m"}, {NS_PER_S, "s"}, {1000000, "ms"}};
    char text[40];
    size_t u = 0;
    while (u < sizeof units / sizeof *units - 1 && ns % units[u].ns)
        u++;
    int n = snprintf(text, sizeof text, "%" PRId64 "%s", ns / units[u].ns, units[u].unit);
    put(out, s, key, slice_of(text, (size_t)n));
}

static void put_changes(struct args_writer *out, const struct sensor_config *s)
{
    struct strbuf text = {0};
    for (size_t i = 0; i < s->n_changes; i++)
        strbuf_printf(&text, "%s%s %g%s", i ? "," : "", s->changes[i].field, s->changes[i].limit,
                      s->changes[i].is_percent ? "%" : "");
    if (s->n_changes && !strbuf_failed(&text))
        put(out, s, "change", strbuf_slice(&text));
    strbuf_fini(&text);
}

static bool is_given(const struct sensor_config *s, const char *key)
{
    for (size_t i = 0; i < s->n_given; i++)
        if (strcmp(s->given[i].setting.name, key) == 0)
            return true;
    return false;
}

void properties_propose(const struct agent_config *c, struct args properties, struct args_writer *out)
{
    bool is_small =
        args_uint(properties, "cpus", 2) == 1 || args_uint(properties, "memory", SMALL_MEMORY) < SMALL_MEMORY;
    for (size_t i = 0; i < c->n_sensors; i++) {
        const struct sensor_config *s = &c->sensors[i];
        if (s->mode != MODE_ALWAYS)
            continue;
        int64_t every = is_small && !is_given(s, "every") ? 2 * s->every_ns : s->every_ns;
        put_duration(out, s, "every", every);
        put_duration(out, s, "refresh", s->refresh_ns > every ? s->refresh_ns : every);
        put_changes(out, s);
    }
}
