/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/flow.h"

#include "agent/timekeeper.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>

static const struct field agent_fields[] = {
    FIELD("state", TEXT, STATE, "",
          "started, stopping, reloaded, refused (a configuration), slowed, recovered, ..."),
    FIELD("why", TEXT, TEXT, "", "the reason, where there is one"),
};
static const struct field sensor_fields[] = {
    KEY("sensor", "its name"),
    FIELD("state", TEXT, STATE, "", "started, stopped, failed, recovered, slowed"),
    FIELD("why", TEXT, TEXT, "", "the reason, where there is one"),
};
static const struct field way_fields[] = {
    FIELD("way", TEXT, STATE, "", "datagrams, or stream: the connection"),
    FIELD("why", TEXT, TEXT, "", "the reason"),
};

struct flow {
    const char *host;
    struct flow_sinks sinks;
    struct registry *registry;
    struct batch_builder *events, *samples;
    struct schema *agent_state, *sensor_state, *samples_way;
    const struct timekeeper *timekeeper; /* NULL: local UTC */
    struct batch_clock clock;            /* of this round */
    bool is_in_round;
    uint64_t refused;
};

struct flow *flow_create(const char *host)
{
    struct flow *f = mem_alloc(sizeof *f);
    f->host = host;
    f->clock.bound_ns = CLOCK_BOUND_UNKNOWN;
    f->registry = registry_create();
    if (f->registry) {
        f->events = batch_builder_create(f->registry, 0);
        f->samples = batch_builder_create(f->registry, 0);
    }
    int r = schema_create(SLICE_LIT("agent.state"), agent_fields, 2, &f->agent_state);
    if (r == 0)
        r = schema_create(SLICE_LIT("sensor.state"), sensor_fields, 3, &f->sensor_state);
    if (r == 0)
        r = schema_create(SLICE_LIT("samples.way"), way_fields, 2, &f->samples_way);
    if (r < 0 || !f->events || !f->samples) {
        flow_destroy(f);
        return NULL;
    }
    return f;
}

void flow_destroy(struct flow *f)
{
    if (!f)
        return;
    batch_builder_destroy(f->events);
    batch_builder_destroy(f->samples);
    registry_destroy(f->registry);
    schema_unref(f->agent_state);
    schema_unref(f->sensor_state);
    schema_unref(f->samples_way);
    mem_free(f);
}

uint64_t flow_refused(const struct flow *f)
{
    return f->refused;
}

void flow_set_sinks(struct flow *f, const struct flow_sinks *sinks)
{
    f->sinks = *sinks;
}

void flow_set_clock(struct flow *f, const struct timekeeper *t)
{
    f->timekeeper = t;
}

struct batch_clock flow_clock(const struct flow *f)
{
    return f->clock;
}

/* The global time for a local one. The first row of a round fixes the round's clock. */
static int64_t stamp(struct flow *f, int64_t local_ns)
{
    int64_t t;
    if (!f->is_in_round && f->timekeeper)
        f->clock = timekeeper_clock(f->timekeeper);
    f->is_in_round = true;
    return __builtin_add_overflow(local_ns, f->clock.offset_ns, &t) ? local_ns : t;
}

/* Before rows leave: is their clock still what it was? */
static void check_clock(struct flow *f)
{
    if (f->is_in_round && f->timekeeper && timekeeper_clock(f->timekeeper).generation != f->clock.generation)
        f->clock.bound_ns = CLOCK_BOUND_UNKNOWN;
}

void flow_declare(struct flow *f, const struct schema *schema)
{
    (void)registry_declare(f->registry, schema); /* without memory it is learned, without units */
}

static void to_local(struct flow *f, const struct batch *b)
{
    if (f->sinks.outputs)
        outputs_batch(f->sinks.outputs, b);
    if (f->sinks.local)
        local_batch(f->sinks.local, b);
}

static void flush_events(struct flow *f)
{
    check_clock(f);
    const struct batch_origin o = {.clock = f->clock};
    struct batch *b = batch_builder_finish(f->events, &o);
    if (!b)
        return;
    for (size_t i = 0; f->sinks.upstream && i < b->n; i++)
        upstream_event(f->sinks.upstream, &b->events[i]);
    to_local(f, b);
    batch_unref(b);
}

static void flush_samples(struct flow *f)
{
    const struct batch_origin o = {.clock = f->clock};
    struct batch *b = batch_builder_finish(f->samples, &o);
    if (b)
        to_local(f, b);
    batch_unref(b);
}

static bool has_local(const struct flow *f)
{
    return (f->sinks.outputs && outputs_any(f->sinks.outputs)) ||
           (f->sinks.local && local_has_any(f->sinks.local));
}

static struct event_head make_head(const struct flow *f, int64_t time_ns, uint8_t level)
{
    return (struct event_head){
        .time_ns = time_ns, .host = slice_str(f->host), .prog = SLICE_LIT("gridline-agent"), .level = level};
}

void flow_sample(struct flow *f, struct stream *s, int64_t time_ns, const struct value *values)
{
    time_ns = stamp(f, time_ns);
    if (f->sinks.upstream)
        upstream_sample(f->sinks.upstream, s, time_ns, values);
    if (!has_local(f))
        return;
    struct event_head head = make_head(f, time_ns, LEVEL_INFO);
    if (batch_builder_full(f->samples))
        flush_samples(f);
    f->refused += batch_builder_add_known(f->samples, &head, s->schema, values, NULL) < 0;
}

void flow_overflow(struct flow *f)
{
    if (f->sinks.upstream)
        upstream_overflow(f->sinks.upstream);
}

void flow_known(struct flow *f, const struct schema *schema, int64_t time_ns, uint8_t level,
                const struct value *values)
{
    struct event_head head = make_head(f, stamp(f, time_ns), level);
    if (batch_builder_full(f->events))
        flush_events(f);
    f->refused += batch_builder_add_known(f->events, &head, schema, values, NULL) < 0;
}

int flow_event(struct flow *f, const struct event_head *head, const struct named_value *values, size_t n,
               const char *prog, struct diag *why)
{
    struct event_head h = *head;
    if (h.host.n == 0)
        h.host = slice_str(f->host);
    if (h.prog.n == 0)
        h.prog = slice_str(prog);
    h.time_ns = stamp(f, h.time_ns);
    if (batch_builder_full(f->events))
        flush_events(f);
    return batch_builder_add(f->events, &h, values, n, why);
}

void flow_mark(struct flow *f, const char *sensor, struct slice position)
{
    flush_events(f);
    if (f->sinks.upstream)
        upstream_mark(f->sinks.upstream, sensor, position);
}

void flow_end(struct flow *f)
{
    flush_events(f);
    flush_samples(f);
    if (f->sinks.upstream)
        upstream_flush(f->sinks.upstream);
    if (f->sinks.outputs)
        outputs_flush(f->sinks.outputs);
    f->is_in_round = false;
}

static struct value optional(const char *text)
{
    return text && text[0] ? value_text(slice_str(text)) : value_none();
}

void flow_agent_state(struct flow *f, uint8_t level, const char *state, const char *why)
{
    const struct value row[] = {value_text(slice_str(state)), optional(why)};
    flow_known(f, f->agent_state, clock_utc_ns(), level, row);
}

void flow_sensor_state(struct flow *f, uint8_t level, const char *sensor, const char *state, const char *why)
{
    const struct value row[] = {value_text(slice_str(sensor)), value_text(slice_str(state)), optional(why)};
    flow_known(f, f->sensor_state, clock_utc_ns(), level, row);
}

void flow_samples_way(struct flow *f, const char *way, const char *why)
{
    const struct value row[] = {value_text(slice_str(way)), optional(why)};
    flow_known(f, f->samples_way, clock_utc_ns(), LEVEL_NOTICE, row);
}
