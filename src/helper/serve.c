/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/serve.h"

#include "base/mem.h"
#include "event/block.h"
#include "base/child.h"
#include "sensor/wire.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { BATCH_EVENTS = 4096, BATCH_BYTES = 256 << 10, READ_MAX = 64 << 10 };

struct server {
    struct sensor_out out; /* first */
    int in_fd, out_fd;
    helper_find_fn find;
    struct strbuf in, frame, block;
    struct arena arena; /* what OPEN said */
    struct sensor_ops ops;
    struct sensor_env env;
    struct instance *instance; /* NULL: OPEN has not come, or could not be done */
    struct schema **schemas;   /* of ops, n_schemas */
    size_t n_schemas;
    struct registry *registry;
    struct batch_builder *builder; /* events since the last BATCH */
    struct block_writer *writer;
    int failed;  /* writing to the agent did, or memory ran out: the end */
    int refused; /* an event of this sample was against the model: the sample fails */
    struct diag refusal;
};

int helper_find(const char *name, struct sensor_ops *out)
{
    const struct sensor_ops *sensor = sensor_find(slice_str(name));
    for (size_t i = 0; sensor && helper_list[i]; i++) {
        const struct helper_ops *h = helper_list[i];
        if (strcmp(h->name, name) != 0)
            continue;
        *out = *sensor;
        out->is_helper = false;
        out->open = h->open;
        out->sample = h->sample;
        out->close = h->close;
        out->wait_fd = h->wait_fd;
        return 0;
    }
    return E_NODATA;
}

/* ---------------------------------------------------------------- to the agent */

static void write_all(struct server *s, struct slice bytes)
{
    while (bytes.n && s->failed == 0) {
        ssize_t n = write(s->out_fd, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR)
            s->failed = -errno;
        else if (n > 0)
            bytes = slice_from(bytes, (size_t)n);
    }
}

static void send_frame(struct server *s, enum wire_type type, struct slice payload)
{
    strbuf_reset(&s->frame);
    frame_put(&s->frame, (uint8_t)type, 0, payload);
    if (strbuf_failed(&s->frame))
        s->failed = -ENOMEM;
    write_all(s, strbuf_slice(&s->frame));
}

static void send_block(struct server *s)
{
    const struct batch_origin none = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    strbuf_reset(&s->block);
    if (block_writer_finish(s->writer, &none, &s->block) < 0)
        s->failed = -ENOMEM;
    else if (s->block.n)
        send_frame(s, WIRE_BATCH, strbuf_slice(&s->block));
}

static void send_events(struct server *s)
{
    struct batch *b = batch_builder_finish(s->builder, NULL);
    for (size_t i = 0; b && i < b->n && s->failed == 0; i++) {
        int r = block_writer_add(s->writer, &b->events[i]);
        if (r == E_LIMIT) { /* the block is full */
            send_block(s);
            r = block_writer_add(s->writer, &b->events[i]);
        }
        if (r < 0)
            s->failed = r;
    }
    batch_unref(b);
    if (s->failed == 0)
        send_block(s);
}

static void after_add(struct server *s, int r, const struct diag *why)
{
    if (r < 0 && s->refused == 0) {
        s->refused = r;
        s->refusal = *why;
    }
    if (batch_builder_full(s->builder))
        send_events(s);
}

static void on_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                   const struct value *values)
{
    struct server *s = (struct server *)out;
    struct diag why = {0};
    const struct event_head head = {.time_ns = time_ns, .level = level};
    assert(schema < s->n_schemas);
    after_add(s, batch_builder_add_known(s->builder, &head, s->schemas[schema], values, &why), &why);
}

static int on_event(struct sensor_out *out, const struct event_head *head, const struct named_value *values,
                    size_t n, struct diag *why)
{
    struct server *s = (struct server *)out;
    int r = batch_builder_add(s->builder, head, values, n, why);
    if (r == 0)
        after_add(s, 0, NULL); /* the sensor hears of a refusal, and decides */
    return r;
}

static void on_mark(struct sensor_out *out, struct slice position)
{
    struct server *s = (struct server *)out;
    send_events(s);
    send_frame(s, WIRE_MARK, position);
}

static void send_done(struct server *s, int status, bool is_answer, const char *why)
{
    const struct wire_done done = {.status = status, .is_answer = is_answer, .why = slice_str(why)};
    strbuf_reset(&s->frame);
    if (wire_put_done(&s->frame, &done) < 0)
        s->failed = -ENOMEM;
    write_all(s, strbuf_slice(&s->frame));
}

/* ---------------------------------------------------------------- the sensor */

static int declare_schemas(struct server *s)
{
    const struct sensor_schema *d = s->ops.schemas;
    size_t n = 0;
    int r = 0;
    while (d && d[n].name)
        n++;
    s->schemas = mem_alloc((n ? n : 1) * sizeof(struct schema *));
    for (; s->n_schemas < n && r == 0; s->n_schemas += r == 0)
        r = schema_create(slice_str(d[s->n_schemas].name), d[s->n_schemas].fields, d[s->n_schemas].n_fields,
                          &s->schemas[s->n_schemas]);
    return r;
}

static int open_sensor(struct server *s, struct slice payload, struct diag *why)
{
    struct wire_open o;
    int r = s->instance ? E_PROTO : wire_get_open(payload, &s->arena, &o);
    if (r == E_VERSION)
        return diag_set(why, r, 0, "gridline-helper is of another version than the agent");
    if (r < 0)
        return diag_set(why, r, 0, "OPEN can't be read: %s", err_text(r));
    if (s->find(o.sensor, &s->ops) < 0)
        return diag_set(why, -ENOENT, 0, "gridline-helper has no sensor '%s'", o.sensor);
    env_init(&s->env, o.root);
    r = declare_schemas(s);
    if (r == 0)
        r = instance_create(&s->ops, o.instance, o.settings, o.n, &s->env, &s->instance, why);
    if (r == 0)
        instance_set_position(s->instance, o.position);
    return r;
}

/* Once; the answer is DONE. The period is the agent's business: it starts us anew if we fail. */
static void sample(struct server *s, bool is_answer)
{
    s->refused = 0;
    env_next_round(&s->env);
    int r = instance_sample(s->instance, &s->out, is_answer, 1);
    send_events(s);
    if (r == 0 && s->refused < 0)
        send_done(s, s->refused, is_answer, s->refusal.message);
    else
        send_done(s, r, is_answer, instance_stats(s->instance)->last_why);
}

/* ---------------------------------------------------------------- the loop */

static int take_frame(struct server *s, const struct frame *f, struct diag *why)
{
    if (f->type == WIRE_OPEN) {
        int r = open_sensor(s, f->payload, why);
        if (r < 0)
            send_done(s, r, true, why->message[0] ? why->message : err_text(r));
        return r;
    }
    if (f->type != WIRE_SAMPLE || !s->instance)
        return diag_set(why, E_PROTO, 0, "a frame of type %u was not expected", f->type);
    sample(s, true);
    return s->failed;
}

/* What has come: 1; 0 at the end. */
static int read_frames(struct server *s, struct diag *why)
{
    struct frame f;
    int64_t n;
    char *to = strbuf_room(&s->in, READ_MAX);
    ssize_t got = to ? read(s->in_fd, to, READ_MAX) : 0;
    if (!to || (got < 0 && errno != EINTR))
        return diag_set(why, to ? -errno : -ENOMEM, 0, "reading from the agent failed");
    if (got == 0)
        return 0;
    if (got > 0)
        strbuf_advance(&s->in, (size_t)got);
    while ((n = frame_read(strbuf_slice(&s->in), FRAME_PAYLOAD_MAX, &f)) > 0) {
        int r = take_frame(s, &f, why);
        if (r < 0)
            return r;
        strbuf_consume(&s->in, (size_t)n);
    }
    return n < 0 ? diag_set(why, (int)n, 0, "what the agent sent is no frame") : 1;
}

static int loop(struct server *s, struct diag *why)
{
    for (;;) {
        struct pollfd fds[2] = {{.fd = s->in_fd, .events = POLLIN},
                                {.fd = s->instance ? instance_wait_fd(s->instance) : -1, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return diag_set(why, -errno, 0, "poll: %s", err_text(-errno));
        if (fds[0].revents) {
            int r = read_frames(s, why);
            if (r <= 0)
                return r;
        }
        if (s->instance && fds[1].revents)
            sample(s, false);
        if (s->failed)
            return diag_set(why, s->failed, 0, "writing to the agent failed: %s", err_text(s->failed));
        (void)child_settle(0); /* what the sensor ran and closed */
    }
}

int helper_serve(int in, int out, helper_find_fn find, struct diag *why)
{
    struct server s = {
        .out = {.row = on_row, .event = on_event, .mark = on_mark}, .in_fd = in, .out_fd = out, .find = find};
    s.registry = registry_create();
    s.builder = s.registry ? batch_builder_create(s.registry, BUILDER_TRIM) : NULL;
    s.writer = block_writer_create();
    int r = s.builder && s.writer ? 0 : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r == 0) {
        batch_builder_limit(s.builder, BATCH_EVENTS, BATCH_BYTES);
        r = loop(&s, why);
    }
    instance_destroy(s.instance);
    (void)child_settle(CHILD_GRACE); /* nothing of ours stays */
    if (s.env.root)
        env_fini(&s.env);
    for (size_t i = 0; i < s.n_schemas; i++)
        schema_unref(s.schemas[i]);
    mem_free(s.schemas);
    block_writer_destroy(s.writer);
    batch_builder_destroy(s.builder);
    registry_destroy(s.registry);
    arena_fini(&s.arena);
    strbuf_fini(&s.in);
    strbuf_fini(&s.frame);
    strbuf_fini(&s.block);
    return r;
}
