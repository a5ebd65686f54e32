/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/own.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"
#include "event/drop.h"
#include "event/level.h"
#include "gateway/access_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

enum { HOST_MAX = 256, FLUSH_AT = 1024 };
static const uint8_t own_prefix[8] = {'g', 'r', 'i', 'd', 'l', 'i', 'n', 'e'};

struct own {
    struct ingest_source source; /* first: the callbacks get it */
    struct ingest *in;
    struct registry *registry;
    struct batch_builder *builder;
    struct block_writer *writer;
    struct strbuf block;
    struct frame_origin origin;
    char host[HOST_MAX];
    struct batch *held; /* there was no room for the events from held_from on; NULL: there was */
    size_t held_from;
    bool must_hold;    /* own_hold */
    uint64_t numbered; /* the last number given: in a block */
    /* taken = passed + refused + no_memory + overrun + what waits, here or in a group */
    uint64_t taken, passed, refused, no_memory, overrun;
    int64_t denials_second; /* monotonic: of it so many denials were told, */
    unsigned denials_told;
    uint64_t denials_left; /* and so many not, then and before */
};

static void on_ack(struct ingest_source *source, const struct frame_ack *ack)
{
    struct own *o = (struct own *)source;
    o->passed = ack->seq - o->refused; /* what was refused has numbers, too */
}

/* Nobody keeps them to send again: they are lost, and that is counted. */
static void on_refuse(struct ingest_source *source, const struct frame_refuse *refuse)
{
    struct own *o = (struct own *)source;
    o->refused += refuse->count;
    source->is_behind = false;
}

struct own *own_create(struct ingest *in)
{
    struct own *o = mem_try_alloc(sizeof *o);
    if (!o)
        return NULL;
    o->source = (struct ingest_source){.ack = on_ack, .refuse = on_refuse, .is_own = true};
    o->in = in;
    o->origin.epoch = 1;
    o->registry = registry_create();
    o->builder = o->registry ? batch_builder_create(o->registry, 0) : NULL;
    o->writer = block_writer_create();
    uint8_t *random = o->origin.producer + sizeof own_prefix;
    memcpy(o->origin.producer, own_prefix, sizeof own_prefix);
    if (!o->builder || !o->writer || getrandom(random, sizeof own_prefix, 0) != sizeof own_prefix) {
        own_destroy(o);
        return NULL;
    }
    (void)gethostname(o->host, sizeof o->host - 1); /* stays empty */
    return o;
}

void own_destroy(struct own *o)
{
    if (!o)
        return;
    ingest_forget(o->in, &o->source);
    batch_unref(o->held);
    batch_builder_destroy(o->builder);
    block_writer_destroy(o->writer);
    registry_destroy(o->registry);
    strbuf_fini(&o->block);
    mem_free(o);
}

static void add_event(struct own *o, uint8_t level, struct slice name, const struct named_value *values,
                      size_t n)
{
    const struct event_head head = {.time_ns = clock_utc_ns(),
                                    .name = name,
                                    .host = slice_str(o->host),
                                    .prog = SLICE_LIT("gridline-gateway"),
                                    .level = level};
    o->taken++;
    if (own_waiting(o) >= OWN_WAITING_MAX)
        o->overrun++;
    else if (batch_builder_add(o->builder, &head, values, n, NULL) < 0)
        o->no_memory++;
}

void own_event(struct own *o, uint8_t level, struct slice name, const struct named_value *values, size_t n)
{
    add_event(o, level, name, values, n);
    if (batch_builder_count(o->builder) >= FLUSH_AT && !o->must_hold)
        own_flush(o);
}

void own_worker_state(struct own *o, const struct worker *w, enum worker_state before, const char *why)
{
    bool is_trouble = w->state == WORKER_LATE || w->state == WORKER_EXPIRED;
    const struct named_value values[] = {
        {SLICE_LIT("target"), value_text(slice_str(w->host))},
        {SLICE_LIT("worker"), value_uint(w->id)},
        {SLICE_LIT("state"), value_text(slice_str(worker_state_name((enum worker_state)w->state)))},
        {SLICE_LIT("before"), value_text(slice_str(worker_state_name(before)))},
        {SLICE_LIT("why"), value_text(slice_str(why))},
        {SLICE_LIT("mode"), value_text(slice_str(w->mode == LEASE_GUEST ? "guest" : "resident"))},
        {SLICE_LIT("lease.ms"), value_uint(w->lease_ms)},
    };
    own_event(o, is_trouble ? LEVEL_WARNING : LEVEL_NOTICE, SLICE_LIT("worker.state"), values,
              sizeof values / sizeof *values);
}

static struct value text_or_none(struct slice s)
{
    return s.n ? value_text(s) : value_none();
}

/* What there is no value for is left out. How many are left. */
static size_t leave_out(struct named_value *values, size_t n)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (values[i].value.type != VALUE_NONE)
            values[left++] = values[i];
    return left;
}

void own_sensor_state(struct own *o, const struct directory_entry *e, enum directory_change change)
{
    const char *status = change == DIRECTORY_GONE ? "gone" : directory_status_name(e->status);
    bool is_trouble =
        change != DIRECTORY_GONE && (e->status == DIRECTORY_MISSING || e->status == DIRECTORY_FAILED);
    struct named_value values[] = {
        {SLICE_LIT("target"), value_text(e->host)},
        {SLICE_LIT("sensor"), value_text(e->sensor)},
        {SLICE_LIT("status"), value_text(slice_str(status))},
        {SLICE_LIT("before"),
         change == DIRECTORY_ADDED ? value_none() : value_text(slice_str(directory_status_name(e->before)))},
        {SLICE_LIT("mode"), text_or_none(e->mode)},
        {SLICE_LIT("every_ms"), e->every_ms ? value_uint(e->every_ms) : value_none()},
        {SLICE_LIT("why"), text_or_none(e->why)},
    };
    own_event(o, is_trouble ? LEVEL_WARNING : LEVEL_INFO, SLICE_LIT("directory.sensor"), values,
              leave_out(values, sizeof values / sizeof *values));
}

void own_schema_new(struct own *o, const struct directory_schema *s)
{
    char hash[17];
    (void)snprintf(hash, sizeof hash, "%016" PRIx64, s->hash); /* fits */
    struct named_value values[] = {
        {SLICE_LIT("event"), value_text(s->event)},
        {SLICE_LIT("hash"), value_text(slice_str(hash))},
        {SLICE_LIT("n_fields"), s->schema ? value_uint(s->schema->n_fields) : value_none()},
        {SLICE_LIT("conflict"), value_bool(s->conflict.n > 0)},
        {SLICE_LIT("fields"), text_or_none(s->conflict)},
    };
    own_event(o, s->conflict.n ? LEVEL_WARNING : LEVEL_INFO, SLICE_LIT("directory.schema"), values,
              leave_out(values, sizeof values / sizeof *values));
}

void own_hold(struct own *o, bool is_on)
{
    o->must_hold = is_on;
}

void own_control(struct own *o, const struct control_done *d)
{
    char who[ACCESS_NAME_MAX + 32];
    size_t n = access_print(who, sizeof who, d->who);
    const struct named_value values[] = {
        {SLICE_LIT("who"), value_text(slice_of(who, n))}, {SLICE_LIT("verb"), value_text(d->verb)},
        {SLICE_LIT("workers"), value_text(d->workers)},   {SLICE_LIT("where"), value_text(d->where)},
        {SLICE_LIT("asked"), value_uint(d->asked)},       {SLICE_LIT("answered"), value_uint(d->answered)},
        {SLICE_LIT("status"), value_uint(d->status)},
    };
    own_event(o, LEVEL_AUTH, SLICE_LIT("control"), values, sizeof values / sizeof *values);
    own_flush(o);
}

void own_denied(struct own *o, const struct access_denial *d)
{
    int64_t second = clock_mono_ns() / NS_PER_S;
    if (second != o->denials_second) {
        o->denials_second = second;
        o->denials_told = 0;
    }
    if (o->denials_told == OWN_DENIALS) {
        o->denials_left++;
        return;
    }
    o->denials_told++;
    char who[ACCESS_NAME_MAX + 32];
    size_t n = access_print(who, sizeof who, d->who);
    struct named_value values[] = {
        {SLICE_LIT("who"), value_text(slice_of(who, n))},
        {SLICE_LIT("action"), value_text(slice_str(access_action_name(d->action)))},
        {SLICE_LIT("interface"), value_text(slice_str(d->who->interface ? d->who->interface : ""))},
        {SLICE_LIT("target"), text_or_none(d->host)},
        {SLICE_LIT("event"), text_or_none(d->event)},
    };
    /* Not flushed: it may come from inside ingest. The next tick is soon. */
    add_event(o, LEVEL_AUTH, SLICE_LIT("access.denied"), values,
              leave_out(values, sizeof values / sizeof *values));
}

void own_denials_rest(struct own *o)
{
    const struct named_value values[] = {{SLICE_LIT("not_told"), value_uint(o->denials_left)}};
    if (o->denials_left == 0)
        return;
    own_event(o, LEVEL_AUTH, SLICE_LIT("access.denied"), values, 1);
    o->denials_left = 0;
}

void own_gateway_state(struct own *o, uint8_t level, const char *state, const char *why)
{
    const struct named_value values[] = {
        {SLICE_LIT("state"), value_text(slice_str(state))},
        {SLICE_LIT("why"), value_text(slice_str(why))},
    };
    own_event(o, level, SLICE_LIT("gateway.state"), values, why[0] ? 2 : 1);
    own_flush(o);
}

void own_ledger(struct own *o, const struct account *a, struct slice host)
{
    char producer[2 * sizeof a->origin.producer + 1];
    for (size_t i = 0; i < sizeof a->origin.producer; i++)
        (void)snprintf(producer + 2 * i, 3, "%02x", a->origin.producer[i]);
    struct named_value values[] = {
        {SLICE_LIT("target"), text_or_none(host)},
        {SLICE_LIT("producer"), value_text(slice_str(producer))},
        {SLICE_LIT("epoch"), value_uint(a->origin.epoch)},
        {SLICE_LIT("class"), value_text(slice_str(a->class == CLASS_SAMPLES ? "samples" : "events"))},
        {SLICE_LIT("state"), value_text(slice_str(a->is_closed ? "closed" : "open"))},
        {SLICE_LIT("taken"), value_uint(a->taken)},
        {SLICE_LIT("passed"), value_uint(a->passed)},
        {SLICE_LIT("duplicate"), value_uint(a->duplicate)},
        {SLICE_LIT("refused"), value_uint(a->refused)},
        {SLICE_LIT("too_old"), value_uint(a->too_old)},
        {SLICE_LIT("too_new"), value_uint(a->too_new)},
        {SLICE_LIT("no_schema"), value_uint(a->no_schema)},
        {SLICE_LIT("queued"), value_uint(a->queued)},
        {SLICE_LIT("retried"), value_uint(a->retried)},
    };
    own_event(o, LEVEL_INFO, SLICE_LIT("ledger"), values, leave_out(values, sizeof values / sizeof *values));
}

/* The events of a batch from `from` on that fit a block; how many. */
static size_t fill(struct own *o, const struct batch *b, size_t from)
{
    size_t n = 0;
    while (from + n < b->n && block_writer_add(o->writer, &b->events[from + n]) == 0)
        n++;
    return n;
}

/* The block in the writer, of n events. */
static void send_block(struct own *o, size_t n)
{
    struct batch_origin origin = {
        .epoch = o->origin.epoch, .first_seq = o->numbered + 1, .clock = {.bound_ns = 0}};
    o->numbered += n;
    memcpy(origin.producer, o->origin.producer, sizeof origin.producer);
    strbuf_reset(&o->block);
    int r = block_writer_finish(o->writer, &origin, &o->block);
    if (r == 0)
        r = ingest_block(o->in, &o->source, strbuf_slice(&o->block));
    if (r < 0) {
        block_writer_reset(o->writer);
        o->refused += n;
    }
}

/* False: there was not room for all. */
static bool send_held(struct own *o)
{
    while (o->held_from < o->held->n) {
        if (!ingest_has_room(o->in))
            return false;
        size_t n = fill(o, o->held, o->held_from);
        if (n)
            send_block(o, n);
        else
            o->no_memory++;
        o->held_from += n ? n : 1;
    }
    batch_unref(o->held);
    o->held = NULL;
    o->held_from = 0;
    return true;
}

void own_flush(struct own *o)
{
    if (o->held && !send_held(o))
        return;
    size_t n = batch_builder_count(o->builder);
    if (n == 0)
        return;
    o->held = batch_builder_finish(o->builder, NULL);
    if (o->held)
        (void)send_held(o); /* the rest waits */
    else
        o->no_memory += n; /* the builder has forgotten them */
}

bool own_is_held(const struct own *o)
{
    return o->held != NULL;
}

size_t own_waiting(const struct own *o)
{
    return batch_builder_count(o->builder) + (o->held ? o->held->n - o->held_from : 0);
}

void own_end(struct own *o)
{
    struct frame_counts counts = {
        .origin = o->origin, .class = CLASS_EVENTS, .is_final = true, .taken = o->taken};
    struct strbuf frame = {0};
    counts.dropped[DROP_RING_FULL] = o->overrun;
    counts.dropped[DROP_MEMORY] = o->no_memory;
    counts.dropped[DROP_REFUSED] = o->refused;
    counts.passed = o->passed;
    counts.queued = o->taken - o->passed - o->refused - o->no_memory - o->overrun;
    frame_put_counts(&frame, &counts);
    if (!strbuf_failed(&frame))
        ingest_counts(o->in, slice_from(strbuf_slice(&frame), FRAME_HEAD), &counts);
    strbuf_fini(&frame);
}
