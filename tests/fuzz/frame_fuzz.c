/* SPDX-License-Identifier: Apache-2.0 */
/* Frames. The first byte is the type; the rest is its payload, and also goes through greeting and head
 * detection as the bytes of a connection. The head's checksum would stop nearly every mutation, so it is put
 * right first. What a payload decodes to must encode again and decode to the same. */
#include "base/crc32c.h"
#include "net/demand.h"
#include "net/frame.h"
#include "net/sensors.h"
#include "net/subscribe.h"

static struct strbuf out; /* reused: the cost would be in malloc */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

/* The payload of the one frame in out. */
static struct slice again(uint8_t type)
{
    struct frame f;
    check(!strbuf_failed(&out));
    check(frame_read(strbuf_slice(&out), FRAME_PAYLOAD_MAX, &f) == (int64_t)out.n && f.type == type);
    return f.payload;
}

static bool same_origin(const struct frame_origin *a, const struct frame_origin *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void fuzz_hello(struct slice payload)
{
    struct frame_hello a, b;
    if (frame_get_hello(payload, &a) < 0)
        return;
    frame_put_hello(&out, &a);
    check(frame_get_hello(again(FRAME_HELLO), &b) == 0);
    check(a.minor_low == b.minor_low && a.minor_high == b.minor_high && a.role == b.role &&
          a.t0_ns == b.t0_ns);
    check(same_origin(&a.origin, &b.origin) && slice_eq(a.host, b.host) && slice_eq(a.prog, b.prog));
}

static void fuzz_welcome(struct slice payload)
{
    struct frame_welcome a, b;
    if (frame_get_welcome(payload, &a) < 0)
        return;
    frame_put_welcome(&out, &a);
    check(frame_get_welcome(again(FRAME_WELCOME), &b) == 0);
    check(a.minor == b.minor && a.session == b.session && a.window == b.window && a.seq == b.seq);
    check(a.t0_ns == b.t0_ns && a.t1_ns == b.t1_ns && a.t2_ns == b.t2_ns && a.held == b.held);
}

static void fuzz_ack(struct slice payload)
{
    struct frame_ack a, b;
    if (frame_get_ack(payload, &a) < 0)
        return;
    frame_put_ack(&out, &a);
    check(frame_get_ack(again(FRAME_ACK), &b) == 0 && same_origin(&a.origin, &b.origin) && a.seq == b.seq);
}

static void fuzz_refuse(struct slice payload)
{
    struct frame_refuse a, b;
    if (frame_get_refuse(payload, &a) < 0)
        return;
    frame_put_refuse(&out, &a);
    check(frame_get_refuse(again(FRAME_REFUSE), &b) == 0 && same_origin(&a.origin, &b.origin));
    check(a.first_seq == b.first_seq && a.count == b.count && a.reason == b.reason &&
          a.retry_ms == b.retry_ms);
    check(slice_eq(a.text, b.text));
}

static void fuzz_counts(struct slice payload)
{
    struct frame_counts a, b;
    if (frame_get_counts(payload, &a) < 0)
        return;
    uint64_t sum = a.passed + a.queued;
    for (size_t i = 0; i < FRAME_REASONS; i++)
        sum += a.dropped[i];
    check(sum == a.taken);
    frame_put_counts(&out, &a);
    check(frame_get_counts(again(FRAME_COUNTS), &b) == 0 && same_origin(&a.origin, &b.origin));
    check(a.taken == b.taken && a.passed == b.passed && a.queued == b.queued && a.class == b.class);
    check(a.is_final == b.is_final && memcmp(a.dropped, b.dropped, sizeof a.dropped) == 0);
}

static void fuzz_ping(struct slice payload)
{
    struct frame_ping a, b;
    if (frame_get_ping(payload, &a) < 0)
        return;
    frame_put_ping(&out, &a);
    check(frame_get_ping(again(FRAME_PING), &b) == 0 && a.token == b.token && a.t0_ns == b.t0_ns);
}

static void fuzz_pong(struct slice payload)
{
    struct frame_pong a, b;
    if (frame_get_pong(payload, &a) < 0)
        return;
    frame_put_pong(&out, &a);
    check(frame_get_pong(again(FRAME_PONG), &b) == 0 && a.token == b.token && a.t0_ns == b.t0_ns);
    check(a.t1_ns == b.t1_ns && a.t2_ns == b.t2_ns);
}

static void fuzz_activate(struct slice payload)
{
    uint32_t number;
    struct slice list;
    struct frame_activation a;
    if (frame_get_activate(payload, &number, &list) < 0)
        return;
    int r;
    while ((r = frame_next_activation(&list, &a)) > 0)
        check(a.level >= -1 && a.pattern.n <= payload.n);
    check(r == 0 && list.n == 0); /* it was checked as a whole */
}

static void fuzz_samples_origin(struct slice payload)
{
    struct frame_samples_origin a, b;
    if (frame_get_samples_origin(payload, &a) < 0)
        return;
    check(a.origin.epoch != 0);
    frame_put_samples_origin(&out, &a);
    check(frame_get_samples_origin(again(FRAME_SAMPLES_ORIGIN), &b) == 0);
    check(same_origin(&a.origin, &b.origin) && a.wants_ok == b.wants_ok);
}

static void fuzz_schema_ok(struct slice payload)
{
    uint32_t a, b;
    if (frame_get_schema_ok(payload, &a) < 0)
        return;
    frame_put_schema_ok(&out, 0, a);
    check(frame_get_schema_ok(again(FRAME_SCHEMA_OK), &b) == 0 && a == b);
}

static void fuzz_stream_ok(struct slice payload)
{
    struct frame_stream_ok a, b;
    if (frame_get_stream_ok(payload, &a) < 0)
        return;
    frame_put_stream_ok(&out, 0, &a);
    check(frame_get_stream_ok(again(FRAME_STREAM_OK), &b) == 0 && a.stream == b.stream &&
          a.baseline == b.baseline);
}

static void fuzz_bye(struct slice payload)
{
    struct frame_bye_reason a, b;
    if (frame_get_bye(payload, &a) < 0)
        return;
    frame_put_bye(&out, a.reason, a.text);
    check(frame_get_bye(again(FRAME_BYE), &b) == 0 && a.reason == b.reason && slice_eq(a.text, b.text));
}

static void fuzz_subscribe(struct slice payload)
{
    struct frame_subscribe a, b;
    if (frame_get_subscribe(payload, &a) < 0)
        return;
    frame_put_subscribe(&out, &a);
    check(frame_get_subscribe(again(FRAME_SUBSCRIBE), &b) == 0 && a.id == b.id &&
          slice_eq(a.events, b.events) && slice_eq(a.where, b.where) &&
          slice_eq(a.options.bytes, b.options.bytes));
}

static void fuzz_subscribed(struct slice payload)
{
    struct frame_subscribed a, b;
    if (frame_get_subscribed(payload, &a) < 0)
        return;
    frame_put_subscribed(&out, &a);
    check(frame_get_subscribed(again(FRAME_SUBSCRIBED), &b) == 0 && a.id == b.id && a.status == b.status &&
          slice_eq(a.text, b.text) && a.journal == b.journal &&
          position_compare(a.position, b.position) == 0);
}

static void fuzz_events(struct slice payload)
{
    struct frame_events a, b;
    if (frame_get_events(payload, &a) < 0)
        return;
    frame_put_events(&out, &a);
    check(frame_get_events(again(FRAME_EVENTS), &b) == 0 && a.id == b.id && slice_eq(a.data, b.data) &&
          a.count == b.count && position_compare(a.position, b.position) == 0);
}

static void fuzz_gap(struct slice payload)
{
    struct frame_gap a, b;
    if (frame_get_gap(payload, &a) < 0)
        return;
    frame_put_gap(&out, &a);
    check(frame_get_gap(again(FRAME_GAP), &b) == 0 && a.id == b.id && a.lost == b.lost &&
          a.reason == b.reason && position_compare(a.from, b.from) == 0 && position_compare(a.to, b.to) == 0);
}

static void fuzz_position(struct slice payload)
{
    uint32_t id, same;
    struct position a, b;
    char text[POSITION_TEXT_MAX];
    if (frame_get_position(payload, &id, &a) < 0)
        return;
    frame_put_position(&out, FRAME_POSITION, id, a);
    check(frame_get_position(again(FRAME_POSITION), &same, &b) == 0 && id == same &&
          position_compare(a, b) == 0);
    check(position_parse(slice_of(text, position_print(text, a)), &b) && position_compare(a, b) == 0);
}

static void fuzz_demand(struct slice payload)
{
    struct frame_demand a, b;
    struct demand_request r;
    uint32_t n = 0;
    if (frame_get_demand(payload, &a) < 0)
        return;
    check(a.n <= DEMAND_MAX && a.list.n <= DEMAND_BYTES_MAX);
    for (struct slice list = a.list; demand_next(&list, &r); n++)
        check(r.events.n > 0 && r.events.n <= DEMAND_EVENTS_MAX);
    check(n == a.n); /* it was checked as a whole */
    frame_put_demand(&out, 7, &a);
    check(frame_get_demand(again(FRAME_DEMAND), &b) == 0 && a.number == b.number && a.n == b.n &&
          slice_eq(a.list, b.list));
}

/* One by one: names that are not known are lost on the way, and the frames need not be cut in the same
 * places. */
static void fuzz_sensors(struct slice payload)
{
    struct frame_sensors list, same;
    struct sensors_one a, b;
    struct sensors_writer w;
    if (frame_get_sensors(payload, &list) < 0)
        return;
    struct frame_sensors rest = list;
    uint32_t n = 0;
    for (; sensors_next(&rest, &a); n++) {
        strbuf_reset(&out);
        sensors_begin(&w, &out);
        check(sensors_add(&w, &a)); /* what was taken can be said */
        sensors_end(&w);
        check(frame_get_sensors(again(FRAME_SENSORS), &same) == 0 && same.n == 1);
        check(same.is_first && !same.has_more);
        check(sensors_next(&same, &b) && slice_eq(a.sensor, b.sensor) && slice_eq(a.events, b.events));
        check(slice_eq(a.schemas, b.schemas) && slice_eq(a.mode, b.mode) && slice_eq(a.status, b.status));
        check(slice_eq(a.why, b.why) && a.every_ms == b.every_ms && a.since_ns == b.since_ns);
    }
    check(n == list.n);
}

static void fuzz_payload(uint8_t type, struct slice payload)
{
    static void (*const by_type[])(struct slice) = {
        [FRAME_HELLO] = fuzz_hello,
        [FRAME_WELCOME] = fuzz_welcome,
        [FRAME_ACK] = fuzz_ack,
        [FRAME_REFUSE] = fuzz_refuse,
        [FRAME_COUNTS] = fuzz_counts,
        [FRAME_PING] = fuzz_ping,
        [FRAME_PONG] = fuzz_pong,
        [FRAME_BYE] = fuzz_bye,
        [FRAME_ACTIVATE] = fuzz_activate,
        [FRAME_SCHEMA_OK] = fuzz_schema_ok,
        [FRAME_STREAM_OK] = fuzz_stream_ok,
        [FRAME_SAMPLES_ORIGIN] = fuzz_samples_origin,
        [FRAME_SUBSCRIBE] = fuzz_subscribe,
        [FRAME_SUBSCRIBED] = fuzz_subscribed,
        [FRAME_POSITION] = fuzz_position,
        [FRAME_CONSUMED] = fuzz_position,
        [FRAME_EVENTS] = fuzz_events,
        [FRAME_GAP] = fuzz_gap,
        [FRAME_DEMAND] = fuzz_demand,
        [FRAME_SENSORS] = fuzz_sensors,
    };
    strbuf_reset(&out);
    if (type < sizeof by_type / sizeof *by_type && by_type[type])
        by_type[type](payload);
}

/* The bytes as they come over a connection: as they are, and with the checksum of the first head put right.
 */
static void fuzz_stream(struct slice data)
{
    struct frame f;
    int64_t n;
    (void)greeting_detect(data); /* any answer will do */
    strbuf_reset(&out);
    strbuf_add_slice(&out, data);
    check(!strbuf_failed(&out));
    if (data.n >= FRAME_HEAD) {
        uint32_t crc = crc32c(0, slice_of(out.p, 12));
        for (int i = 0; i < 4; i++)
            out.p[12 + i] = (char)(crc >> (8 * i));
    }
    for (struct slice rest = strbuf_slice(&out); (n = frame_read(rest, 64 << 10, &f)) > 0;) {
        check((uint64_t)n <= rest.n && f.payload.n + FRAME_HEAD == (uint64_t)n);
        check(frame_size(rest, 64 << 10) == n);
        rest = slice_from(rest, (size_t)n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct slice rest = slice_of((const char *)data + 1, size - 1);
    fuzz_payload(data[0], rest);
    fuzz_stream(rest);
    return 0;
}
