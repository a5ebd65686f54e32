/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/manager.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>

enum {
    SLOW_MAX = 64,     /* times its period */
    CALIBRATE_RUNS = 2 /* the first opens and fills caches, the second is what a run costs */
};
#define WAKE_SLACK (5 * 1000 * 1000) /* ns: due so soon is due now; the loop wakes up to 4 ms early */

/* One configured sensor. */
struct running {
    struct sensor_out out; /* first */
    struct running *next;
    struct manager *manager;
    const struct sensor_config *config; /* borrowed */
    char *name;                         /* "cpu", "exec/root-disk" */
    struct instance *instance;
    struct streams *streams;
    struct event *readable; /* NULL = no descriptor is watched */
    int64_t due_ns;
    int64_t asked_ns; /* the period that it is asked for in; 0 = by nobody, or it does not run on request */
    unsigned slow;    /* its period is that many times the one configured or asked for */
    bool is_active, is_failing;
    double predicted_ns; /* CPU of one run, when it was tried; 0 = not known */
};

struct position {
    struct position *next;
    struct strbuf name, bytes;
};

struct manager {
    struct event_base *base;
    struct sensor_env *env;
    struct flow *flow;
    struct running *first;
    struct position *positions;
    manager_asks asks;
    void *asks_arg;
    bool (*port_is_active)(void *arg, uint16_t port, int64_t hold_ns);
    void *port_arg;
    int64_t now_ns; /* of the round */
    uint64_t refused_rows;
    uint64_t changes; /* of what manager_list tells */
    bool is_suspended;
};

/* ---------------------------------------------------------------- what a sensor says */

static void on_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                   const struct value *values)
{
    struct running *r = (struct running *)out;
    struct manager *m = r->manager;
    struct stream *s = streams_find(r->streams, schema, values, m->now_ns);
    if (!s) {
        m->refused_rows++;
        flow_overflow(m->flow);
        return;
    }
    if (s->is_event || level != LEVEL_INFO)
        flow_known(m->flow, s->schema, time_ns, level, values);
    else if (streams_take(r->streams, s, values, m->now_ns))
        flow_sample(m->flow, s, time_ns, values);
}

static int on_event(struct sensor_out *out, const struct event_head *head, const struct named_value *values,
                    size_t n, struct diag *why)
{
    struct running *r = (struct running *)out;
    return flow_event(r->manager->flow, head, values, n, r->config->name, why);
}

static void on_mark(struct sensor_out *out, struct slice position)
{
    struct running *r = (struct running *)out;
    flow_mark(r->manager->flow, r->name, position);
}

/* While a sensor is tried for its cost, nothing it says counts. */
static void ignore_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                       const struct value *values)
{
    (void)out, (void)schema, (void)time_ns, (void)level, (void)values;
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

/* ---------------------------------------------------------------- running one */

static int64_t period(const struct running *r)
{
    return (r->asked_ns ? r->asked_ns : r->config->every_ns) * r->slow;
}

/* The next multiple of the period: all sensors of one period meet there. */
static void set_due(struct running *r, int64_t now_ns)
{
    int64_t p = period(r);
    r->due_ns = (now_ns / p + 1) * p;
}

/* By the last result that is known: a run that is under way has none yet. */
static void report(struct running *r)
{
    const struct instance_stats *s = instance_stats(r->instance);
    bool is_failing = s->last_error < 0 && s->last_error != E_NODATA;
    if (is_failing == r->is_failing)
        return;
    r->is_failing = is_failing;
    r->manager->changes++;
    if (is_failing) {
        log_error("sensor %s failed: %s", r->name, s->last_why);
        flow_sensor_state(r->manager->flow, LEVEL_ERROR, r->name, "failed", s->last_why);
    } else {
        log_info("sensor %s works again", r->name);
        flow_sensor_state(r->manager->flow, LEVEL_NOTICE, r->name, "recovered", NULL);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg);

static void unwatch(struct running *r)
{
    if (r->readable)
        event_free(r->readable);
    r->readable = NULL;
}

/* Follows the descriptor that the sensor wants watched. Anew after each sample: the sensor may have closed it
 * and got another one of the same number, which the loop could not tell. Only sensors that have one pay for
 * it. */
static void watch(struct running *r)
{
    int fd = r->is_active ? instance_wait_fd(r->instance) : -1;
    unwatch(r);
    if (fd < 0)
        return;
    r->readable = event_new(r->manager->base, fd, EV_READ | EV_PERSIST, on_readable, r);
    if (r->readable && event_add(r->readable, NULL) < 0)
        unwatch(r); /* no memory: its period samples it */
}

static void sample(struct running *r, bool is_due)
{
    unwatch(r);
    int result = instance_sample(r->instance, &r->out, is_due, period(r));
    const struct instance_stats *s = instance_stats(r->instance);
    if (result != -EAGAIN)
        report(r);
    if (r->predicted_ns == 0 && s->cpu_runs)
        r->predicted_ns = (double)s->cpu_ns / (double)s->cpu_runs;
    watch(r);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct running *r = arg;
    (void)fd, (void)what; /* readable */
    r->manager->now_ns = clock_mono_ns();
    env_next_round(r->manager->env);
    sample(r, false);
    flow_end(r->manager->flow);
}

static double try_it(struct manager *m, struct instance *i, int64_t every_ns)
{
    struct sensor_out nowhere = {.row = ignore_row, .event = ignore_event, .mark = ignore_mark};
    double cost = 0;
    for (int k = 0; k < CALIBRATE_RUNS; k++) {
        int64_t began = clock_mono_ns();
        env_next_round(m->env);
        (void)instance_sample(i, &nowhere, true, every_ns); /* one that fails costs what it costs */
        cost = (double)(clock_mono_ns() - began);
    }
    instance_close(i);
    return cost;
}

/* What a run costs, before anybody asks for one (SV-5). Only built-in sensors without names: running a
 * program or pinging a host to see what it costs would be an act. */
static bool may_try(const struct sensor_ops *ops)
{
    return !ops->is_multi && !ops->is_helper;
}

static void calibrate(struct running *r)
{
    if (may_try(r->config->ops) && r->predicted_ns <= 0)
        r->predicted_ns = try_it(r->manager, r->instance, period(r));
}

static void activate(struct running *r, bool is_active)
{
    if (is_active == r->is_active)
        return;
    r->is_active = is_active;
    r->manager->changes++;
    if (is_active) {
        r->due_ns = 0;             /* now; its descriptor is watched from then on */
        streams_renew(r->streams); /* who asks now has not seen what was sent before */
    } else {
        unwatch(r);
        instance_close(r->instance);
    }
    if (r->config->mode == MODE_ALWAYS)
        return;
    log_info("sensor %s %s", r->name, is_active ? "started" : "stopped");
    flow_sensor_state(r->manager->flow, LEVEL_INFO, r->name, is_active ? "started" : "stopped",
                      r->config->mode == MODE_PORT ? "port" : "request");
}

/* ---------------------------------------------------------------- modes */

static int64_t smaller_period(int64_t a, int64_t b)
{
    return a && (b == 0 || a < b) ? a : b;
}

/* By whoever asks for it most often, within what its configuration allows; 0 = by nobody. */
static int64_t asked_period(const struct running *r)
{
    const struct manager *m = r->manager;
    const struct sensor_config *c = r->config;
    if (!m->asks || c->mode != MODE_ON_REQUEST)
        return 0;
    int64_t asked_ns = m->asks(m->asks_arg, c->name, c->every_ns);
    for (const struct sensor_schema *s = c->ops->schemas; s && s->name; s++)
        asked_ns = smaller_period(m->asks(m->asks_arg, s->name, c->every_ns), asked_ns);
    int64_t least_ns = c->every_ns < c->fastest_ns ? c->every_ns : c->fastest_ns;
    if (!asked_ns || asked_ns >= least_ns)
        return asked_ns;
    if (least_ns != r->asked_ns)
        log_info("sensor %s: asked for every %g s, given %g s: the least is that (`fastest`)", r->name,
                 (double)asked_ns / 1e9, (double)least_ns / 1e9);
    return least_ns;
}

static bool has_traffic(const struct manager *m, const struct sensor_config *c)
{
    for (size_t i = 0; m->port_is_active && i < c->n_ports; i++)
        if (m->port_is_active(m->port_arg, c->ports[i], c->hold_ns))
            return true;
    return false;
}

static bool should_run(const struct running *r)
{
    const struct manager *m = r->manager;
    const struct sensor_config *c = r->config;
    if (m->is_suspended)
        return false;
    switch (c->mode) {
    case MODE_ALWAYS:
        return true;
    case MODE_ON_REQUEST:
        return r->asked_ns > 0;
    case MODE_PORT:
        return has_traffic(m, c);
    case MODE_OFF:
        break;
    }
    return false;
}

/* One that goes on is due at the next multiple of the new period; one that starts, at once. */
static void set_asked(struct running *r, int64_t asked_ns)
{
    bool is_other = asked_ns != r->asked_ns;
    r->asked_ns = asked_ns;
    r->manager->changes += is_other;
    if (!is_other || !asked_ns)
        return;
    if (r->is_active && r->due_ns)
        set_due(r, clock_mono_ns());
    log_info("sensor %s is asked for every %g s", r->name, (double)asked_ns / 1e9);
}

/* Is it to run, and how often? */
static void look(struct running *r)
{
    set_asked(r, asked_period(r));
    activate(r, should_run(r));
}

static void apply_modes(struct manager *m, enum sensor_mode mode)
{
    for (struct running *r = m->first; r; r = r->next)
        if (r->config->mode == mode)
            look(r);
}

void manager_set_requests(struct manager *m, manager_asks asks, void *arg)
{
    m->asks = asks;
    m->asks_arg = arg;
    apply_modes(m, MODE_ON_REQUEST);
}

void manager_set_ports(struct manager *m, bool (*is_active)(void *arg, uint16_t port, int64_t hold_ns),
                       void *arg)
{
    m->port_is_active = is_active;
    m->port_arg = arg;
    apply_modes(m, MODE_PORT);
}

size_t manager_ports(const struct manager *m, uint16_t *out, size_t max)
{
    size_t n = 0;
    for (const struct running *r = m->first; r; r = r->next) {
        for (size_t i = 0; r->config->mode == MODE_PORT && i < r->config->n_ports; i++) {
            size_t k = 0;
            while (k < n && out[k] != r->config->ports[i])
                k++;
            if (k == n && n < max)
                out[n++] = r->config->ports[i];
        }
    }
    return n;
}

/* ---------------------------------------------------------------- configuration */

static char *make_name(const struct sensor_config *c)
{
    struct strbuf name = {0};
    strbuf_add_str(&name, c->ops->name);
    if (c->ops->is_multi) {
        strbuf_add_char(&name, '/');
        strbuf_add_str(&name, c->name);
    }
    assert(!strbuf_failed(&name)); /* a few bytes: without them nothing goes on */
    return name.p;
}

static void destroy(struct running *r)
{
    if (!r)
        return;
    unwatch(r);
    instance_destroy(r->instance);
    streams_destroy(r->streams);
    mem_free(r->name);
    mem_free(r);
}

static struct running *create(struct manager *m, const struct sensor_config *c)
{
    struct diag why = {0};
    struct running *r = mem_alloc(sizeof *r);
    *r = (struct running){
        .out = {.row = on_row, .event = on_event, .mark = on_mark}, .manager = m, .config = c, .slow = 1};
    r->name = make_name(c);
    int e = instance_create(c->ops, c->name, c->settings, c->n_settings, m->env, &r->instance, &why);
    if (e < 0) {
        log_error("sensor %s: %s", r->name, why.message[0] ? why.message : err_text(e));
        flow_sensor_state(m->flow, LEVEL_ERROR, r->name, "failed", why.message);
        destroy(r);
        return NULL;
    }
    r->streams = streams_create(c);
    for (unsigned i = 0; c->ops->schemas && c->ops->schemas[i].name; i++)
        flow_declare(m->flow, streams_schema(r->streams, i));
    for (const struct position *p = m->positions; p; p = p->next)
        if (slice_eq_str(strbuf_slice(&p->name), r->name))
            instance_set_position(r->instance, strbuf_slice(&p->bytes));
    return r;
}

/* The sensor of the same type and name among those that ran, taken out of the list. */
static struct running *take(struct running **list, const struct sensor_config *c)
{
    for (struct running **at = list; *at; at = &(*at)->next) {
        struct running *r = *at;
        if (r->config->ops == c->ops && strcmp(r->config->name, c->name) == 0) {
            *at = r->next;
            return r;
        }
    }
    return NULL;
}

static struct running *configure(struct manager *m, struct running *old, const struct sensor_config *c)
{
    if (old && config_same_sensor(old->config, c)) {
        old->config = c;
        streams_configure(old->streams, c);
        return old;
    }
    struct running *r = create(m, c);
    if (r && old) {
        instance_set_position(r->instance, instance_position(old->instance));
        log_info("sensor %s changed", r->name);
    }
    destroy(old);
    return r;
}

static void stop_old(struct manager *m, struct running *list)
{
    while (list) {
        struct running *r = list;
        list = r->next;
        log_info("sensor %s is no longer configured", r->name);
        flow_sensor_state(m->flow, LEVEL_INFO, r->name, "stopped", "configuration");
        destroy(r);
    }
}

void manager_configure(struct manager *m, const struct agent_config *c)
{
    struct running *old = m->first, **tail = &m->first;
    m->now_ns = clock_mono_ns();
    m->changes++;
    m->first = NULL;
    for (size_t i = 0; i < c->n_sensors; i++) {
        struct running *before = take(&old, &c->sensors[i]);
        struct running *r = configure(m, before, &c->sensors[i]);
        if (!r)
            continue;
        r->next = NULL;
        *tail = r;
        tail = &r->next;
    }
    stop_old(m, old); /* their configuration is still there: the caller frees it after this */
    for (struct running *r = m->first; r; r = r->next) {
        look(r);
        if (!r->is_active && r->config->mode != MODE_OFF && !m->is_suspended)
            calibrate(r);
    }
    flow_end(m->flow);
}

void manager_set_position(struct manager *m, struct slice name, struct slice position)
{
    struct position *p = mem_alloc(sizeof *p);
    strbuf_add_slice(&p->name, name);
    strbuf_add_slice(&p->bytes, position);
    p->next = m->positions;
    m->positions = p;
}

struct manager *manager_create(struct event_base *base, struct sensor_env *env, struct flow *flow)
{
    struct manager *m = mem_alloc(sizeof *m);
    *m = (struct manager){.base = base, .env = env, .flow = flow};
    return m;
}

void manager_destroy(struct manager *m)
{
    if (!m)
        return;
    while (m->first) {
        struct running *r = m->first;
        m->first = r->next;
        destroy(r);
    }
    while (m->positions) {
        struct position *p = m->positions;
        m->positions = p->next;
        strbuf_fini(&p->name);
        strbuf_fini(&p->bytes);
        mem_free(p);
    }
    mem_free(m);
}

/* ---------------------------------------------------------------- rounds */

void manager_run(struct manager *m, int64_t now_ns)
{
    m->now_ns = now_ns;
    env_next_round(m->env);
    for (struct running *r = m->first; r; r = r->next) {
        if (!r->is_active || r->due_ns > now_ns + WAKE_SLACK)
            continue;
        sample(r, true);
        set_due(r, now_ns + WAKE_SLACK);
    }
    flow_end(m->flow);
}

int64_t manager_next_ns(const struct manager *m)
{
    int64_t next = INT64_MAX;
    for (const struct running *r = m->first; r; r = r->next)
        if (r->is_active && r->due_ns < next)
            next = r->due_ns;
    return next;
}

void manager_renew(struct manager *m)
{
    for (struct running *r = m->first; r; r = r->next)
        streams_renew(r->streams);
}

/* ---------------------------------------------------------------- cost */

const char *manager_slow_one(struct manager *m)
{
    struct running *worst = NULL;
    for (struct running *r = m->first; r; r = r->next) {
        if (!r->is_active || r->slow >= SLOW_MAX || r->config->priority == 0)
            continue;
        if (!worst || r->config->priority > worst->config->priority ||
            (r->config->priority == worst->config->priority && r->slow < worst->slow))
            worst = r;
    }
    if (!worst)
        return NULL;
    worst->slow *= 2;
    m->changes++;
    set_due(worst, clock_mono_ns());
    return worst->name;
}

const char *manager_hasten_one(struct manager *m)
{
    struct running *best = NULL;
    for (struct running *r = m->first; r; r = r->next)
        if (r->slow > 1 && (!best || r->config->priority < best->config->priority))
            best = r;
    if (!best)
        return NULL;
    best->slow /= 2;
    m->changes++;
    set_due(best, clock_mono_ns());
    return best->name;
}

static const struct running *find(const struct manager *m, const struct sensor_config *c)
{
    for (const struct running *r = m->first; r; r = r->next)
        if (r->config->ops == c->ops && strcmp(r->config->name, c->name) == 0)
            return r;
    return NULL;
}

static double known_cost_ns(const struct running *r)
{
    const struct instance_stats *s = instance_stats(r->instance);
    return s->cpu_runs > 1 ? (double)s->cpu_ns / (double)s->cpu_runs : r->predicted_ns;
}

double manager_predict(struct manager *m, const struct sensor_config *c)
{
    const struct running *r = find(m, c);
    double cost = r ? known_cost_ns(r) : 0;
    struct instance *tried;
    if (cost <= 0 && may_try(c->ops) &&
        instance_create(c->ops, c->name, c->settings, c->n_settings, m->env, &tried, NULL) == 0) {
        cost = try_it(m, tried, c->every_ns);
        instance_destroy(tried);
    }
    return cost > 0 ? cost / 1000 * (1e9 / (double)c->every_ns) : -1;
}

void manager_measure(struct manager *m, const char *sensor, unsigned runs)
{
    for (struct running *r = m->first; r; r = r->next)
        if (strcmp(r->name, sensor) == 0)
            instance_measure(r->instance, runs);
}

void manager_suspend(struct manager *m, bool is_suspended)
{
    if (m->is_suspended == is_suspended)
        return;
    m->is_suspended = is_suspended;
    m->changes++;
    for (struct running *r = m->first; r; r = r->next)
        look(r);
}

bool manager_is_suspended(const struct manager *m)
{
    return m->is_suspended;
}

void manager_stats(const struct manager *m, struct manager_stats *out)
{
    *out = (struct manager_stats){.refused_rows = m->refused_rows};
    for (const struct running *r = m->first; r; r = r->next) {
        out->configured++;
        out->running += r->is_active;
        out->slowed += r->slow > 1;
        out->streams += streams_count(r->streams);
    }
}

static const char *mode_name(enum sensor_mode mode)
{
    static const char *const names[] = {
        [MODE_ALWAYS] = "always", [MODE_ON_REQUEST] = "on-request", [MODE_PORT] = "port", [MODE_OFF] = "off"};
    return names[mode];
}

uint64_t manager_changes(const struct manager *m)
{
    return m->changes;
}

static const char *status_name(const struct running *r)
{
    if (r->config->mode == MODE_OFF)
        return "stopped";
    if (r->manager->is_suspended)
        return "suspended";
    return r->is_failing ? "failed" : r->is_active ? "running" : "idle";
}

void manager_list(const struct manager *m, void (*fn)(void *arg, const struct manager_sensor *s), void *arg)
{
    for (const struct running *r = m->first; r; r = r->next) {
        const struct manager_sensor s = {.name = r->name,
                                         .mode = mode_name(r->config->mode),
                                         .status = status_name(r),
                                         .why = r->is_failing ? instance_stats(r->instance)->last_why : "",
                                         .every_ns = period(r),
                                         .schemas = r->config->ops->schemas,
                                         .streams = r->streams};
        fn(arg, &s);
    }
}

void manager_each(struct manager *m, void (*fn)(void *arg, const struct self_cost *cost), void *arg)
{
    for (struct running *r = m->first; r; r = r->next) {
        const struct instance_stats *s = instance_stats(r->instance);
        double a_second = 1e9 / (double)period(r);
        struct self_cost c = {
            .sensor = r->name,
            .state = r->is_failing  ? "failed"
                     : r->is_active ? "running"
                                    : "idle",
            .why = s->last_why,
            .mode = mode_name(r->config->mode),
            .runs = s->runs,
            .failures = s->failures,
            .no_data = s->no_data,
            .rows = s->rows,
            .wall_ns = s->wall_ns,
            .cpu_ns = s->cpu_ns,
            .cpu_runs = s->cpu_runs,
            .every_s = (double)period(r) / 1e9,
            .predicted = r->predicted_ns / 1000 * a_second,
            .observed = s->cpu_runs ? (double)s->cpu_ns / (double)s->cpu_runs / 1000 * a_second : -1,
        };
        fn(arg, &c);
    }
}
