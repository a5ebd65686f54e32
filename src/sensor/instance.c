/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/instance.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/parameter.h"
#include "sensor/remote.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum { CPU_EVERY = 16 }; /* reading the thread's CPU clock is a system call: one run in so many is measured */

struct instance {
    const struct sensor_ops *ops;
    const struct sensor_ops *runs; /* whose functions: ops itself, or sensor_remote */
    char *name;
    struct sensor_env *env; /* borrowed */
    void *state;            /* NULL = closed */
    struct arena arena;     /* the options' texts */
    struct strbuf position;
    /* The settings, kept to open again. */
    struct arena settings_arena;
    struct parameter_setting *settings;
    size_t n_settings;
    int64_t backoff_ns, retry_at_ns;
    bool is_underway;
    struct instance_stats stats;
    unsigned measure; /* runs whose CPU time is wanted */
};

static const char *copy_text(struct arena *arena, const char *text)
{
    struct slice copy = arena_copy(arena, slice_of(text, strlen(text) + 1));
    return copy.p;
}

static int copy_setting(struct arena *arena, const struct parameter_setting *from, struct parameter_setting *to)
{
    const char **texts = arena_alloc(arena, (from->n ? from->n : 1) * sizeof *texts);
    to->name = copy_text(arena, from->name);
    to->n = from->n;
    to->texts = texts;
    if (!texts || !to->name)
        return -ENOMEM;
    for (size_t i = 0; i < from->n; i++)
        if (!(texts[i] = copy_text(arena, from->texts[i])))
            return -ENOMEM;
    return 0;
}

static int apply_options(const struct sensor_ops *ops, const struct parameter_setting *settings, size_t n,
                         struct arena *arena, void *state, struct diag *why)
{
    char explain[100];
    (void)snprintf(explain, sizeof explain, "gridline config explain %s", ops->name); /* a name of ours: it fits */
    const struct parameter_owner owner = {.name = ops->name, .explain = explain};
    return parameters_apply(&owner, ops->options, settings, n, arena, state, why);
}

int instance_check(const struct sensor_ops *ops, const struct parameter_setting *settings, size_t n,
                   struct diag *why)
{
    struct arena arena = {0};
    void *state = mem_alloc(ops->state_size ? ops->state_size : 1);
    int r = apply_options(ops, settings, n, &arena, state, why);
    mem_free(state);
    arena_fini(&arena);
    return r;
}

int instance_create(const struct sensor_ops *ops, const char *name, const struct parameter_setting *settings,
                    size_t n, struct sensor_env *env, struct instance **out, struct diag *why)
{
    int r = instance_check(ops, settings, n, why);
    if (r < 0)
        return r;
    struct instance *i = mem_alloc(sizeof *i);
    i->ops = ops;
    i->runs = ops->is_helper ? &sensor_remote : ops;
    i->env = env;
    i->settings = arena_alloc(&i->settings_arena, (n ? n : 1) * sizeof *i->settings);
    i->name = (char *)(uintptr_t)copy_text(&i->settings_arena, name);
    if (!i->settings || !i->name)
        r = -ENOMEM;
    for (; r == 0 && i->n_settings < n; i->n_settings++)
        r = copy_setting(&i->settings_arena, &settings[i->n_settings], &i->settings[i->n_settings]);
    if (r < 0) {
        instance_destroy(i);
        return r;
    }
    *out = i;
    return 0;
}

static void close_sensor(struct instance *i)
{
    if (!i->state)
        return;
    if (i->runs->close)
        i->runs->close(i->state);
    mem_free(i->state);
    i->state = NULL;
    arena_reset(&i->arena);
}

void instance_destroy(struct instance *i)
{
    if (!i)
        return;
    close_sensor(i);
    strbuf_fini(&i->position);
    arena_fini(&i->arena);
    arena_fini(&i->settings_arena);
    mem_free(i);
}

const struct sensor_ops *instance_ops(const struct instance *i)
{
    return i->ops;
}

const char *instance_name(const struct instance *i)
{
    return i->name;
}

void instance_set_position(struct instance *i, struct slice position)
{
    strbuf_reset(&i->position);
    strbuf_add_slice(&i->position, position);
}

struct slice instance_position(const struct instance *i)
{
    return strbuf_slice(&i->position);
}

void instance_close(struct instance *i)
{
    close_sensor(i);
    i->backoff_ns = i->retry_at_ns = 0;
}

const struct instance_stats *instance_stats(const struct instance *i)
{
    return &i->stats;
}

bool instance_is_underway(const struct instance *i)
{
    return i->is_underway;
}

int64_t instance_retry_at(const struct instance *i)
{
    return i->retry_at_ns;
}

void instance_measure(struct instance *i, unsigned runs)
{
    i->measure = runs;
}

int instance_wait_fd(struct instance *i)
{
    return i->state && i->runs->wait_fd ? i->runs->wait_fd(i->state) : -1;
}

/* The options, or for a helper sensor what it takes to have them applied there. */
static int set_up(struct instance *i, struct diag *why)
{
    if (i->ops->is_helper) {
        *(struct remote_setup *)i->state = (struct remote_setup){
            .ops = i->ops, .name = i->name, .settings = i->settings, .n = i->n_settings, .deadline_ns = REMOTE_DEADLINE};
        return 0;
    }
    int r = apply_options(i->ops, i->settings, i->n_settings, &i->arena, i->state, why);
    assert(r == 0 || r == -ENOMEM); /* instance_create has looked at them */
    return r;
}

static int open_sensor(struct instance *i, struct diag *why)
{
    i->state = mem_alloc(i->runs->state_size ? i->runs->state_size : 1);
    int r = set_up(i, why);
    i->env->position = strbuf_slice(&i->position);
    i->env->name = i->name;
    if (r == 0 && i->runs->open)
        r = i->runs->open(i->state, i->env, why);
    i->env->position = (struct slice){"", 0};
    i->env->name = NULL;
    if (r < 0)
        close_sensor(i); /* also when it is E_NODATA: it is not open */
    return r;
}

/* The sensor's calls, counted on their way to the caller's. */
struct counting {
    struct sensor_out out; /* first */
    struct sensor_out *to;
    struct instance *instance;
};

/* A row without a single value is no data: it goes no further. */
static bool has_value(const struct sensor_schema *schema, const struct value *values)
{
    for (size_t i = 0; i < schema->n_fields; i++)
        if (values[i].type != VALUE_NONE && schema->fields[i].role == ROLE_VALUE)
            return true;
    return false;
}

static void count_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                      const struct value *values)
{
    struct counting *c = (struct counting *)out;
    const struct sensor_schema *s = &c->instance->ops->schemas[schema];
    if (!has_value(s, values))
        return;
    c->instance->stats.rows++;
    c->to->row(c->to, schema, time_ns, level == LEVEL_COUNT ? s->level : level, values);
}

static int count_event(struct sensor_out *out, const struct event_head *head,
                       const struct named_value *values, size_t n, struct diag *why)
{
    struct counting *c = (struct counting *)out;
    int r = c->to->event(c->to, head, values, n, why);
    c->instance->stats.rows += r == 0;
    return r;
}

static void count_mark(struct sensor_out *out, struct slice position)
{
    struct counting *c = (struct counting *)out;
    instance_set_position(c->instance, position);
    c->to->mark(c->to, position);
}

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0)
        return 0;
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void failed(struct instance *i, int r, const struct diag *why, int64_t every_ns)
{
    struct instance_stats *s = &i->stats;
    s->last_error = r;
    (void)snprintf(s->last_why, sizeof s->last_why, "%s", why->message[0] ? why->message : err_text(r));
    if (r == E_NODATA) {
        s->no_data++;
        return;
    }
    s->failures++;
    close_sensor(i);
    i->backoff_ns = i->backoff_ns ? i->backoff_ns * 2 : every_ns;
    if (i->backoff_ns > INSTANCE_BACKOFF_MAX)
        i->backoff_ns = INSTANCE_BACKOFF_MAX;
    i->retry_at_ns = i->env->mono_ns() + i->backoff_ns;
}

int instance_sample(struct instance *i, struct sensor_out *out, bool is_due, int64_t every_ns)
{
    struct diag why = {0};
    struct instance_stats *s = &i->stats;
    int64_t began = i->env->mono_ns();
    if (i->retry_at_ns > began)
        return -EAGAIN;
    struct counting c = {.to = out, .instance = i};
    c.out = (struct sensor_out){.row = count_row,
                                .event = count_event,
                                .mark = count_mark,
                                .why = &why,
                                .time_ns = i->env->utc_ns(),
                                .is_due = is_due};
    bool measures_cpu = s->runs % CPU_EVERY == 0 || i->measure;
    i->measure -= i->measure > 0;
    int64_t cpu = measures_cpu ? thread_cpu_ns() : 0;
    int r = i->state ? 0 : open_sensor(i, &why);
    if (r == 0)
        r = i->runs->sample(i->state, i->env, &c.out);
    uint64_t wall = (uint64_t)(i->env->mono_ns() - began);
    if (measures_cpu) {
        s->cpu_ns += (uint64_t)(thread_cpu_ns() - cpu);
        s->cpu_runs++;
    }
    s->runs++;
    s->wall_ns += wall;
    s->wall_max_ns = wall > s->wall_max_ns ? wall : s->wall_max_ns;
    i->is_underway = r == SENSOR_UNDERWAY;
    if (r < 0) {
        failed(i, r, &why, every_ns);
        return r;
    }
    if (i->is_underway) /* whether that goes well is not known yet: a back-off stays what it is */
        return 0;
    s->last_error = 0;
    s->last_why[0] = '\0';
    i->backoff_ns = i->retry_at_ns = 0;
    return 0;
}
