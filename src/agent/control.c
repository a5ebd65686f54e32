/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control.h"

#include "agent/activation.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>

enum { LOOK_MS = 100, NAME_MAX_BYTES = 160, TEXT_MAX = 400 };

/* A sensor whose cost is being observed for an answer. */
struct watched {
    uint64_t request;
    bool is_used;
    char sensor[NAME_MAX_BYTES]; /* as the manager names it */
    double predicted, ceiling;   /* negative: not known, or none */
    struct self_cost before;
    int64_t until_ns;
    struct settings undo; /* what its keys were, "KEY=" = not set */
};

struct control {
    struct manager *manager;
    const struct settings *settings; /* in force; the owner's */
    char *run_dir;                   /* owned */
    const struct control_ops *ops;
    void *arg;
    struct activation *activation; /* NULL: nothing was activated yet */
    size_t n_watched;
    struct watched *watched; /* CONTROL_WATCHED; NULL until the first */
    int64_t look_ns;
};

struct control *control_create(struct manager *manager, const struct settings *settings, const char *run_dir,
                               const struct control_ops *ops, void *arg)
{
    struct control *c = mem_alloc(sizeof *c);
    size_t n = strlen(run_dir) + 1;
    *c = (struct control){.manager = manager, .settings = settings, .ops = ops, .arg = arg};
    c->run_dir = mem_alloc(n);
    memcpy(c->run_dir, run_dir, n);
    return c;
}

static void release(struct control *c, struct watched *w)
{
    settings_fini(&w->undo);
    *w = (struct watched){0};
    c->n_watched--;
}

void control_forget(struct control *c)
{
    for (size_t i = 0; c->watched && i < CONTROL_WATCHED; i++)
        if (c->watched[i].is_used)
            release(c, &c->watched[i]);
}

void control_destroy(struct control *c)
{
    if (!c)
        return;
    control_forget(c);
    mem_free(c->watched);
    activation_destroy(c->activation);
    mem_free(c->run_dir);
    mem_free(c);
}

/* ---------------------------------------------------------------- answers */

static void answer_with(struct control *c, uint64_t request, uint16_t status, const struct args_writer *args,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));

static void answer_with(struct control *c, uint64_t request, uint16_t status, const struct args_writer *args,
                        const char *format, ...)
{
    char text[TEXT_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list); /* cut to fit is fine for a message */
    va_end(list);
    struct frame_answer a = {.request = request, .status = status, .text = slice_str(text)};
    if (!text_is_utf8(a.text))
        a.text = SLICE_LIT(""); /* cut in the middle of a character */
    if (args)
        a.args = args_of(args);
    (void)c->ops->answer(c->arg, &a); /* one that can't be sent: the asker has a time limit */
}

#define answer(c, request, status, ...) answer_with(c, request, status, NULL, __VA_ARGS__)

static uint16_t status_of(int code)
{
    return code == -EPERM ? CONTROL_NOT_ALLOWED : code == -EINVAL ? CONTROL_USAGE : CONTROL_FAILED;
}

static void add_cost(struct args_writer *out, const char *name, double cost)
{
    if (cost >= 0)
        args_add(out, slice_str(name), value_float(round(cost * 100) / 100));
}

/* "12.3 us/s", or that nobody knows. */
static const char *cost_text(double cost, char buffer[40])
{
    if (cost < 0)
        return "not known";
    (void)snprintf(buffer, 40, "%.1f us/s", cost); /* fits */
    return buffer;
}

static double number(struct value v)
{
    return v.type == VALUE_FLOAT  ? v.f
           : v.type == VALUE_UINT ? (double)v.u
           : v.type == VALUE_INT  ? (double)v.i
                                  : -1;
}

static double ceiling_of(struct args args)
{
    return number(args_value(args, "ceiling"));
}

static bool is_dry(struct args args)
{
    struct value v = args_value(args, "dry_run");
    return (v.type == VALUE_BOOL || v.type == VALUE_UINT) && v.u;
}

/* ---------------------------------------------------------------- settings */

/* One key of a change, if it may be set at all. */
static int put_checked(struct settings *next, struct slice key, struct value value, bool is_assigned,
                       struct diag *why)
{
    const struct sensor_ops *sensor;
    struct slice title, text;
    char buffer[32];
    int r = config_may_assign(key, &sensor, &title, why);
    if (r < 0)
        return r;
    if (!settings_text(value, buffer, &text))
        return diag_set(why, -EINVAL, 0, "%.*s: its value is not a text", SLICE_ARG(key));
    r = settings_put(next, key, text, is_assigned);
    return r == E_LIMIT ? diag_set(why, r, 0, "more than %d settings", SETTINGS_MAX) : r;
}

/* The settings of a question, set.KEY each, as changes of *next. prefix goes before each key. */
static int put_all(struct settings *next, struct args args, const char *prefix, struct diag *why)
{
    struct arg a;
    int r = 0;
    while (r == 0 && args_next(&args, &a)) {
        struct strbuf key = {0};
        if (!slice_starts(a.name, SLICE_LIT("set.")))
            continue;
        strbuf_add_str(&key, prefix);
        strbuf_add_slice(&key, slice_from(a.name, 4));
        r = strbuf_failed(&key) ? -ENOMEM : put_checked(next, strbuf_slice(&key), a.value, false, why);
        strbuf_fini(&key);
    }
    return r;
}

/* A gateway's settings are for sensors that are configured: they start none. */
static bool is_configured(const struct agent_config *c, struct slice key)
{
    const struct sensor_ops *sensor;
    struct slice title;
    const struct sensor_config *s =
        config_may_assign(key, &sensor, &title, NULL) == 0 ? config_sensor(c, sensor, title) : NULL;
    return s != NULL;
}

static struct slice key_of(const char *setting)
{
    return slice_of(setting, strcspn(setting, "="));
}

/* The first key of *s for a sensor that is not there without these settings. A mode is a sensor's start, and
 * is what makes it be there. */
static bool find_foreign(struct control *c, const struct settings *s, struct slice *key)
{
    struct settings modes = {0};
    struct agent_config *plain;
    bool is_found = false;
    for (size_t i = 0; i < s->n; i++)
        if (slice_ends(key_of(s->v[i]), SLICE_LIT(".mode")))
            (void)settings_put(&modes, key_of(s->v[i]), slice_str(strchr(s->v[i], '=') + 1),
                               false); /* fewer than s */
    if (c->ops->load(c->arg, &modes, &plain, NULL) == 0) {
        for (size_t i = 0; i < s->n && !is_found; i++) {
            *key = key_of(s->v[i]);
            is_found = !is_configured(plain, *key);
        }
        config_destroy(plain);
    }
    settings_fini(&modes);
    return is_found;
}

/* The configuration with *next, if all of it may be. */
static int load_checked(struct control *c, const struct settings *next, struct agent_config **out,
                        struct diag *why)
{
    struct slice key;
    if (find_foreign(c, next, &key))
        return diag_set(why, -EINVAL, 0, "%.*s: no such sensor is configured here", SLICE_ARG(key));
    return c->ops->load(c->arg, next, out, why);
}

static void set_worker(struct control *c, const struct frame_control *q)
{
    struct settings next;
    struct agent_config *config;
    struct diag why = {0};
    settings_copy(&next, c->settings);
    int r = put_all(&next, q->args, "", &why);
    if (r == 0)
        r = load_checked(c, &next, &config, &why);
    if (r < 0) {
        answer(c, q->request, status_of(r), "%s", why.message[0] ? why.message : err_text(r));
        settings_fini(&next);
    } else if (is_dry(q->args)) {
        answer(c, q->request, CONTROL_DONE, "would be set");
        config_destroy(config);
        settings_fini(&next);
    } else {
        c->ops->apply(c->arg, config, &next);
        answer(c, q->request, CONTROL_DONE, "set");
    }
}

/* *s with more of a lease's settings: 0 and *s and *config are the new ones, or nothing has changed. */
static int add_assigned(struct control *c, struct settings *s, struct args more, struct agent_config **config,
                        struct diag *why)
{
    struct settings next;
    struct agent_config *tried;
    struct arg a;
    int r = 0;
    settings_copy(&next, s);
    while (r == 0 && args_next(&more, &a))
        r = put_checked(&next, a.name, a.value, true, why);
    if (r == 0)
        r = load_checked(c, &next, &tried, why);
    if (r < 0) {
        settings_fini(&next);
        return r;
    }
    settings_fini(s);
    *s = next;
    config_destroy(*config);
    *config = tried;
    return 0;
}

/* All at once; if that fails one by one, on top of those that went well. */
void control_assign(struct control *c, struct args settings,
                    void (*on_bad)(void *arg, struct slice key, const char *why), void *arg)
{
    struct settings good;
    struct agent_config *config = NULL;
    struct args rest = settings;
    struct arg a;
    settings_copy(&good, c->settings);
    settings_forget_assigned(&good);
    bool is_well = add_assigned(c, &good, settings, &config, NULL) == 0;
    while (!is_well && rest.n) {
        struct diag why = {0};
        struct args one = {rest.bytes, 1};
        (void)args_next(&rest, &a); /* it was there */
        int r = add_assigned(c, &good, one, &config, &why);
        if (r < 0)
            on_bad(arg, a.name, why.message[0] ? why.message : err_text(r));
    }
    if (!config && c->ops->load(c->arg, &good, &config, NULL) < 0)
        settings_fini(&good); /* the files have changed and are bad: everything stays as it is */
    else
        c->ops->apply(c->arg, config, &good);
}

/* ---------------------------------------------------------------- observing */

struct finding {
    const char *name;
    struct self_cost *out;
    bool is_found;
};

static void compare(void *arg, const struct self_cost *cost)
{
    struct finding *f = arg;
    if (f->is_found || strcmp(cost->sensor, f->name) != 0)
        return;
    *f->out = *cost;
    f->is_found = true;
}

static bool find_cost(struct control *c, const char *name, struct self_cost *out)
{
    struct finding f = {.name = name, .out = out};
    manager_each(c->manager, compare, &f);
    return f.is_found;
}

static struct watched *free_place(struct control *c)
{
    if (!c->watched)
        c->watched = mem_alloc(CONTROL_WATCHED * sizeof *c->watched);
    for (size_t i = 0; i < CONTROL_WATCHED; i++)
        if (!c->watched[i].is_used)
            return &c->watched[i];
    return NULL;
}

/* Microseconds a second over what was run since; negative: nothing was. */
static double observed(const struct watched *w, const struct self_cost *now)
{
    uint64_t runs = now->cpu_runs - w->before.cpu_runs;
    return runs ? (double)(now->cpu_ns - w->before.cpu_ns) / (double)runs / 1000 / now->every_s : -1;
}

/* Puts back what the sensor's keys were before. */
static void take_back(struct control *c, const struct watched *w)
{
    struct settings next;
    struct agent_config *config;
    settings_copy(&next, c->settings);
    for (size_t i = 0; i < w->undo.n; i++) {
        struct slice key = key_of(w->undo.v[i]);
        (void)settings_put(&next, key, slice_str(w->undo.v[i] + key.n + 1), false); /* it had room before */
    }
    if (c->ops->load(c->arg, &next, &config, NULL) == 0)
        c->ops->apply(c->arg, config, &next);
    else
        settings_fini(&next);
}

static void finish(struct control *c, struct watched *w)
{
    struct self_cost now;
    struct args_writer args = {0};
    char predicted[40], seen[40];
    bool is_there = find_cost(c, w->sensor, &now);
    double cost = is_there ? observed(w, &now) : -1;
    args_add_text(&args, "sensor", slice_str(w->sensor));
    add_cost(&args, "cost_predicted", w->predicted);
    add_cost(&args, "cost_observed", cost);
    if (w->ceiling >= 0 && cost > w->ceiling) {
        take_back(c, w);
        answer_with(c, w->request, CONTROL_FAILED, &args,
                    "taken back: observed %s, above the ceiling of %.1f us/s", cost_text(cost, seen),
                    w->ceiling);
    } else {
        answer_with(c, w->request, CONTROL_DONE, &args, "predicted %s, observed %s",
                    cost_text(w->predicted, predicted),
                    cost < 0 ? "nothing: it did not run" : cost_text(cost, seen));
    }
    args_writer_fini(&args);
    release(c, w);
}

void control_look(struct control *c, int64_t now_ns)
{
    c->look_ns = now_ns + LOOK_MS * INT64_C(1000000);
    for (size_t i = 0; c->n_watched && i < CONTROL_WATCHED; i++) {
        struct watched *w = &c->watched[i];
        struct self_cost now;
        if (!w->is_used)
            continue;
        bool is_there = find_cost(c, w->sensor, &now);
        if (!is_there || now.cpu_runs - w->before.cpu_runs >= CONTROL_RUNS || now_ns >= w->until_ns)
            finish(c, w);
    }
}

int64_t control_next_ns(const struct control *c)
{
    return c->n_watched ? c->look_ns : INT64_MAX;
}

/* ---------------------------------------------------------------- sensors */

/* A change of one sensor on its way. */
struct change {
    const struct frame_control *question;
    const struct sensor_ops *sensor;
    struct slice title;
    struct strbuf prefix; /* "exec.root-disk." */
    char name[NAME_MAX_BYTES];
    struct settings next;
    struct agent_config *config; /* with next; NULL: not loaded, or given away */
    double predicted, ceiling;
};

static void change_fini(struct change *x)
{
    strbuf_fini(&x->prefix);
    settings_fini(&x->next);
    config_destroy(x->config);
}

/* "disk", "exec.root-disk" or "exec/root-disk". */
static int find_sensor(struct change *x, struct slice name, struct diag *why)
{
    strbuf_add_slice(&x->prefix, name);
    for (size_t i = 0; i < x->prefix.n; i++)
        if (x->prefix.p[i] == '/')
            x->prefix.p[i] = '.';
    strbuf_add_str(&x->prefix, ".mode");
    if (strbuf_failed(&x->prefix))
        return -ENOMEM;
    if (name.n == 0 || name.n > 100 ||
        config_may_assign(strbuf_slice(&x->prefix), &x->sensor, &x->title, NULL) < 0)
        return diag_set(why, E_NODATA, 0, "no sensor \"%.*s\"; sensor.list shows those that are configured",
                        name.n > 80 ? 80 : (int)name.n, name.p);
    x->prefix.n -= 4; /* the dot stays */
    x->prefix.p[x->prefix.n] = '\0';
    (void)snprintf(x->name, sizeof x->name, "%s%s%.*s", x->sensor->name, x->title.n ? "/" : "",
                   SLICE_ARG(x->title));
    return 0;
}

static int put_mode(struct change *x, const char *mode, struct diag *why)
{
    struct strbuf key = {0};
    strbuf_add_slice(&key, strbuf_slice(&x->prefix));
    strbuf_add_str(&key, "mode");
    int r = strbuf_failed(&key)
                ? -ENOMEM
                : put_checked(&x->next, strbuf_slice(&key), value_text(slice_str(mode)), false, why);
    strbuf_fini(&key);
    return r;
}

/* x->title is in its prefix, which must not move. */
static int prepare(struct control *c, struct change *x, struct diag *why)
{
    const struct frame_control *q = x->question;
    settings_copy(&x->next, c->settings);
    int r = find_sensor(x, args_text(q->args, "sensor"), why);
    if (r == 0 && slice_eq(q->verb, SLICE_LIT("sensor.start")))
        r = put_mode(x, "always", why);
    else if (r == 0 && slice_eq(q->verb, SLICE_LIT("sensor.stop")))
        r = put_mode(x, "off", why);
    if (r == 0)
        r = put_all(&x->next, q->args, x->prefix.p, why);
    if (r < 0)
        return r;
    return slice_eq(q->verb, SLICE_LIT("sensor.set")) ? load_checked(c, &x->next, &x->config, why)
                                                      : c->ops->load(c->arg, &x->next, &x->config, why);
}

static bool is_running(struct control *c, const char *name)
{
    struct self_cost cost;
    return find_cost(c, name, &cost) && strcmp(cost.mode, "off") != 0;
}

/* What is in force now, for each key of the sensor that x sets. */
static void note_undo(const struct control *c, const struct change *x, struct settings *undo)
{
    for (size_t i = 0; i < x->next.n && undo->n < SETTINGS_MAX; i++) {
        struct slice key = key_of(x->next.v[i]);
        const char *old = NULL;
        if (!slice_starts(key, strbuf_slice(&x->prefix)))
            continue;
        for (size_t k = 0; k < c->settings->n; k++)
            if (slice_eq(key_of(c->settings->v[k]), key))
                old = c->settings->v[k];
        size_t n = old ? strlen(old) : key.n + 1;
        char *text = mem_alloc(n + 1);
        memcpy(text, old ? old : x->next.v[i], n);
        undo->v[undo->n++] = text;
    }
}

/* In force now; the answer comes when it has run for a while. */
static void apply_and_watch(struct control *c, struct change *x)
{
    struct watched *w = free_place(c);
    if (w)
        note_undo(c, x, &w->undo);
    c->ops->apply(c->arg, x->config, &x->next);
    x->config = NULL;
    x->next.n = 0;
    if (!w || !find_cost(c, x->name, &(struct self_cost){0})) {
        if (w)
            settings_fini(&w->undo);
        answer(c, x->question->request, CONTROL_DONE, "in force; its cost is not observed: too many are");
        return;
    }
    w->is_used = true;
    w->request = x->question->request;
    w->predicted = x->predicted;
    w->ceiling = x->ceiling;
    w->until_ns = clock_mono_ns() + CONTROL_WATCH_NS;
    (void)snprintf(w->sensor, sizeof w->sensor, "%s", x->name); /* as long */
    (void)find_cost(c, x->name, &w->before);
    manager_measure(c->manager, x->name, CONTROL_RUNS);
    c->n_watched++;
    c->look_ns = clock_mono_ns() + LOOK_MS * INT64_C(1000000);
}

static void tell_prediction(struct control *c, const struct change *x, uint16_t status, const char *what)
{
    struct args_writer args = {0};
    char cost[40];
    args_add_text(&args, "sensor", slice_str(x->name));
    add_cost(&args, "cost_predicted", x->predicted);
    if (status == CONTROL_FAILED)
        answer_with(c, x->question->request, status, &args,
                    "%s: predicted %s, above the ceiling of %.1f us/s", what, cost_text(x->predicted, cost),
                    x->ceiling);
    else
        answer_with(c, x->question->request, status, &args, "%s: predicted %s", what,
                    cost_text(x->predicted, cost));
    args_writer_fini(&args);
}

static void change_sensor(struct control *c, const struct frame_control *q)
{
    struct change x = {.question = q, .ceiling = ceiling_of(q->args), .predicted = -1};
    struct diag why = {0};
    bool is_stop = slice_eq(q->verb, SLICE_LIT("sensor.stop"));
    int r = prepare(c, &x, &why);
    const struct sensor_config *s = r == 0 ? config_sensor(x.config, x.sensor, x.title) : NULL;
    if (r == 0 && !is_stop && s && s->mode != MODE_OFF)
        x.predicted = manager_predict(c->manager, s);
    if (r < 0) {
        answer(c, q->request, r == E_NODATA ? CONTROL_NOT_FOUND : status_of(r), "%s",
               why.message[0] ? why.message : err_text(r));
    } else if (is_stop || !s || s->mode == MODE_OFF) {
        bool was_running = is_running(c, x.name);
        if (!is_dry(q->args)) {
            c->ops->apply(c->arg, x.config, &x.next);
            x.config = NULL;
            x.next.n = 0;
        }
        answer(c, q->request, CONTROL_DONE, "%s %s", x.name, was_running ? "stopped" : "was not running");
    } else if (x.ceiling >= 0 && x.predicted > x.ceiling) {
        tell_prediction(c, &x, CONTROL_FAILED, "refused");
    } else if (is_dry(q->args)) {
        tell_prediction(c, &x, CONTROL_DONE, "not changed");
    } else {
        tell_prediction(c, &x, CONTROL_MORE, "starts");
        apply_and_watch(c, &x);
    }
    change_fini(&x);
}

/* ---------------------------------------------------------------- the list */

struct listing {
    struct control *control;
    uint64_t request;
    struct slice pattern;
    struct args_writer args;
    size_t n;
};

static void list_one(void *arg, const struct self_cost *cost)
{
    struct listing *l = arg;
    if (l->pattern.n && !text_glob(l->pattern, slice_str(cost->sensor)))
        return;
    args_writer_reset(&l->args);
    args_add_text(&l->args, "sensor", slice_str(cost->sensor));
    args_add_text(&l->args, "mode", slice_str(cost->mode));
    args_add_text(&l->args, "state", slice_str(cost->state));
    args_add(&l->args, SLICE_LIT("every"), value_float(cost->every_s));
    args_add_uint(&l->args, "runs", cost->runs);
    args_add_uint(&l->args, "rows", cost->rows);
    add_cost(&l->args, "cost_predicted", cost->predicted > 0 ? cost->predicted : -1);
    add_cost(&l->args, "cost_observed", cost->observed);
    answer_with(l->control, l->request, CONTROL_MORE, &l->args, "%s", "");
    l->n++;
}

static void list_sensors(struct control *c, const struct frame_control *q)
{
    struct listing l = {.control = c, .request = q->request, .pattern = args_text(q->args, "sensor")};
    manager_each(c->manager, list_one, &l);
    args_writer_fini(&l.args);
    if (l.n || l.pattern.n == 0)
        answer(c, q->request, CONTROL_DONE, "%zu sensors", l.n);
    else
        answer(c, q->request, CONTROL_NOT_FOUND, "no sensor of that name is configured");
}

/* ---------------------------------------------------------------- the other verbs */

static void activate(struct control *c, const struct frame_control *q)
{
    struct args_writer args = {0};
    struct diag why = {0};
    int r = 0;
    bool costs = !slice_eq(args_text(q->args, "level"), SLICE_LIT("off")) &&
                 !slice_eq(args_text(q->args, "level"), SLICE_LIT("default"));
    args_add_uint(&args, "ns_an_event", CONTROL_NS_AN_EVENT);
    if (costs && ceiling_of(q->args) >= 0) {
        answer_with(c, q->request, CONTROL_FAILED, &args,
                    "refused: the cost is not known, about %d ns an event in the program that writes it, and "
                    "how many it "
                    "will write nobody can say before; the ceiling of %.1f us/s could not be kept. Leave out "
                    "the ceiling",
                    CONTROL_NS_AN_EVENT, ceiling_of(q->args));
    } else if (is_dry(q->args)) {
        answer_with(c, q->request, CONTROL_DONE, &args,
                    "not changed: the cost is not known, about %d ns an event", CONTROL_NS_AN_EVENT);
    } else {
        if (!c->activation)
            c->activation = activation_create(c->run_dir);
        r = c->ops->make_run_dir(c->arg, &why);
        if (r == 0)
            r = activation_set(c->activation, args_text(q->args, "pattern"), args_text(q->args, "level"),
                               &why);
        answer_with(c, q->request, r < 0 ? status_of(r) : CONTROL_DONE, &args, "%s",
                    r < 0 ? why.message : "programs of this host see it within a second");
    }
    args_writer_fini(&args);
}

static void suspend(struct control *c, const struct frame_control *q)
{
    bool is_suspend = slice_eq(q->verb, SLICE_LIT("worker.suspend"));
    bool is_already = manager_is_suspended(c->manager) == is_suspend;
    if (!is_already)
        c->ops->suspend(c->arg, is_suspend);
    answer(c, q->request, CONTROL_DONE, "%s%s", is_already ? "was " : "",
           is_suspend ? "suspended" : "resumed");
}

static void kill_agent(struct control *c, const struct frame_control *q)
{
    answer(c, q->request, CONTROL_DONE, "ends");
    c->ops->kill(c->arg);
}

static const struct {
    const char *name;
    void (*run)(struct control *c, const struct frame_control *q);
} verbs[] = {
    {"worker.suspend", suspend},   {"worker.resume", suspend},      {"worker.kill", kill_agent},
    {"worker.set", set_worker},    {"sensor.start", change_sensor}, {"sensor.stop", change_sensor},
    {"sensor.set", change_sensor}, {"sensor.list", list_sensors},   {"activate", activate},
};

void control_ask(struct control *c, const struct frame_control *q)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (!slice_eq_str(q->verb, verbs[i].name))
            continue;
        verbs[i].run(c, q);
        return;
    }
    answer(c, q->request, CONTROL_USAGE, "no verb \"%.*s\"", q->verb.n > 80 ? 80 : (int)q->verb.n, q->verb.p);
}
