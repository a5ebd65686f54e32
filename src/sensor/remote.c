/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/remote.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"
#include "base/child.h"
#include "sensor/relay.h"
#include "sensor/wire.h"

#include <errno.h>
#include <unistd.h>

enum { HELD_BATCHES = 64 };

struct remote {
    struct remote_setup setup; /* first */
    struct child *child;
    struct registry *registry;
    struct batch_builder *builder;
    struct schema **schemas; /* of the sensor, as it declares them; n_schemas */
    size_t n_schemas;
    struct batch *held[HELD_BATCHES]; /* came, but not yet the MARK or DONE behind them */
    size_t n_held, held_bytes;
    bool is_asked;    /* a SAMPLE is not answered yet */
    int64_t asked_ns; /* since when */
    unsigned missed;  /* periods that have ended since */
};

int remote_helper_path(struct strbuf *out)
{
    const char *given = secure_getenv("GRIDLINE_HELPER");
    char self[4096];
    strbuf_reset(out);
    if (given && given[0]) {
        strbuf_add_str(out, given);
        return strbuf_failed(out) ? -ENOMEM : 0;
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self);
    const char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
    if (slash)
        strbuf_printf(out, "%.*s/gridline-helper", (int)(slash - self), self);
    if (!slash || (!strbuf_failed(out) && access(out->p, X_OK) < 0)) {
        strbuf_reset(out);
        strbuf_add_str(out, GRIDLINE_LIBEXECDIR "/gridline-helper");
    }
    return strbuf_failed(out) ? -ENOMEM : 0;
}

static int declare_schemas(struct remote *r)
{
    const struct sensor_schema *s = r->setup.ops->schemas;
    size_t n = 0;
    while (s && s[n].name)
        n++;
    r->schemas = mem_alloc((n ? n : 1) * sizeof(struct schema *));
    for (; r->n_schemas < n; r->n_schemas++) {
        const struct sensor_schema *d = &s[r->n_schemas];
        int e = schema_create(slice_str(d->name), d->fields, d->n_fields, &r->schemas[r->n_schemas]);
        if (e < 0)
            return e;
    }
    return 0;
}

static int start_helper(struct remote *r, struct diag *why)
{
    struct strbuf path = {0};
    int e = remote_helper_path(&path);
    if (e == 0) {
        /* The words are for people's ps(1). */
        const char *argv[] = {path.p, r->setup.ops->name, r->setup.name, NULL};
        const struct child_options o = {
            .argv = argv, .has_input = true, .buffer_max = FRAME_HEAD + FRAME_PAYLOAD_MAX};
        e = child_start(&o, clock_mono_ns(), &r->child, why);
    }
    strbuf_fini(&path);
    return e;
}

static int send_open(struct remote *r, const struct sensor_env *env)
{
    const struct wire_open open = {.sensor = r->setup.ops->name,
                                   .instance = r->setup.name,
                                   .root = env->root,
                                   .position = env->position,
                                   .settings = r->setup.settings,
                                   .n = r->setup.n};
    struct strbuf frame = {0};
    int e = wire_put_open(&frame, &open);
    if (e == 0)
        e = child_write(r->child, strbuf_slice(&frame));
    strbuf_fini(&frame);
    return e == -EPIPE ? 0 : e; /* it has ended already: sample says why */
}

static int remote_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct remote *r = state;
    r->registry = registry_create();
    r->builder = r->registry ? batch_builder_create(r->registry, 0) : NULL;
    int e = r->builder ? declare_schemas(r) : -ENOMEM;
    if (e == 0)
        e = start_helper(r, why);
    return e < 0 ? e : send_open(r, env);
}

static void drop_held(struct remote *r)
{
    while (r->n_held)
        batch_unref(r->held[--r->n_held]);
    r->held_bytes = 0;
}

static void remote_close(void *state)
{
    struct remote *r = state;
    drop_held(r);
    child_destroy(r->child);
    batch_builder_destroy(r->builder);
    for (size_t i = 0; i < r->n_schemas; i++)
        schema_unref(r->schemas[i]);
    mem_free(r->schemas);
    registry_destroy(r->registry);
}

static int remote_wait_fd(void *state)
{
    struct remote *r = state;
    return r->child ? child_wait_fd(r->child) : -1;
}

static int hold(struct remote *r, struct slice block, struct diag *why)
{
    if (block_check(block) != (int64_t)block.n)
        return diag_set(why, E_PROTO, 0, "gridline-helper sent something that is no block");
    int e = block_decode(block, r->builder, why);
    if (e < 0)
        return e;
    struct batch *b = batch_builder_finish(r->builder, NULL);
    if (!b)
        return -ENOMEM;
    if (r->n_held == HELD_BATCHES || r->held_bytes + b->size_bytes > REMOTE_HELD_MAX) {
        batch_unref(b);
        return diag_set(why, E_LIMIT, 0, "more than %d MiB of events without an end", REMOTE_HELD_MAX >> 20);
    }
    r->held_bytes += b->size_bytes;
    r->held[r->n_held++] = b;
    return 0;
}

/* The number of the sensor's schema that this is, or -1. */
static int find_schema(const struct remote *r, const struct schema *s)
{
    for (size_t i = 0; i < r->n_schemas; i++)
        if (s->hash == r->schemas[i]->hash && schema_same(s, r->schemas[i]))
            return (int)i;
    return -1;
}

static int give_event(struct remote *r, const struct event *e, struct sensor_out *out)
{
    int schema = find_schema(r, e->schema);
    if (schema < 0)
        return relay_event(out, e, out->why);
    sensor_row_at(out, (unsigned)schema, e->time_ns, e->level, e->values);
    return 0;
}

/* What is held is whole: it goes out. */
static int deliver(struct remote *r, struct sensor_out *out)
{
    int e = 0;
    for (size_t i = 0; i < r->n_held && e == 0; i++)
        for (size_t k = 0; k < r->held[i]->n && e == 0; k++)
            e = give_event(r, &r->held[i]->events[k], out);
    drop_held(r);
    return e;
}

static int take_done(struct remote *r, struct slice payload, struct sensor_out *out)
{
    struct wire_done d;
    int e = wire_get_done(payload, &d);
    if (e == 0)
        e = deliver(r, out);
    if (e < 0)
        return e;
    if (d.is_answer)
        r->is_asked = false;
    if (d.status < 0)
        return diag_set(out->why, d.status, 0, "%.*s", SLICE_ARG(d.why));
    return d.is_answer ? 0 : SENSOR_UNDERWAY;
}

static int take_frame(struct remote *r, const struct frame *f, struct sensor_out *out)
{
    int e;
    switch (f->type) {
    case WIRE_BATCH:
        e = hold(r, f->payload, out->why);
        return e < 0 ? e : SENSOR_UNDERWAY;
    case WIRE_MARK:
        if (f->payload.n > WIRE_POSITION_MAX)
            return E_LIMIT;
        e = deliver(r, out);
        if (e < 0)
            return e;
        sensor_mark(out, f->payload);
        return SENSOR_UNDERWAY;
    case WIRE_DONE:
        return take_done(r, f->payload, out);
    default:
        return diag_set(out->why, E_PROTO, 0, "gridline-helper sent a frame of unknown type %u", f->type);
    }
}

/* All whole frames. The result of the last answer among them, or SENSOR_UNDERWAY. */
static int take_frames(struct remote *r, struct sensor_out *out)
{
    int result = SENSOR_UNDERWAY;
    struct frame f;
    for (;;) {
        int64_t n = frame_read(child_output(r->child), FRAME_PAYLOAD_MAX, &f);
        if (n < 0)
            return diag_set(out->why, (int)n, 0, "gridline-helper sent something that is no frame");
        if (n == 0)
            return result;
        int e = take_frame(r, &f, out);
        child_consume(r->child, (size_t)n);
        if (e < 0 && e != E_NODATA)
            return e;
        if (e != SENSOR_UNDERWAY)
            result = e;
    }
}

/* The period is over: asks for a sample unless one is on its way. */
static int ask(struct remote *r, struct diag *why)
{
    int64_t now_ns = clock_mono_ns();
    if (r->is_asked) {
        bool is_late = ++r->missed >= REMOTE_PERIODS && now_ns - r->asked_ns >= r->setup.deadline_ns;
        return is_late ? diag_set(why, -ETIMEDOUT, 0, "no answer from gridline-helper for %gs",
                                  (double)(r->setup.deadline_ns / 1000000) / 1000)
                       : 0;
    }
    struct strbuf frame = {0};
    frame_put(&frame, WIRE_SAMPLE, 0, (struct slice){"", 0});
    int e = strbuf_failed(&frame) ? -ENOMEM : child_write(r->child, strbuf_slice(&frame));
    strbuf_fini(&frame);
    r->is_asked = true;
    r->asked_ns = now_ns;
    r->missed = 0;
    return e == -EPIPE ? 0 : e; /* it has ended: the next call says why */
}

static int remote_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct remote *r = state;
    (void)env; /* the helper has one of its own */
    bool is_running = child_pump(r->child, clock_mono_ns());
    int result = take_frames(r, out);
    if (result < 0 && result != E_NODATA)
        return result;
    if (!is_running)
        return child_explain(r->child, out->why);
    int e = out->is_due ? ask(r, out->why) : 0;
    return e < 0 ? e : result;
}

const struct sensor_ops sensor_remote = {
    .name = "remote",
    .summary = "a sensor in gridline-helper",
    .state_size = sizeof(struct remote),
    .open = remote_open,
    .sample = remote_sample,
    .close = remote_close,
    .wait_fd = remote_wait_fd,
};
