/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's own events and its workers' records on a store that is full. */
#include "unit/gateway/bench.h"

#include "base/clock.h"
#include "event/drop.h"
#include "event/level.h"
#include "gateway/own.h"

static void say(struct own *o, uint64_t n)
{
    const struct named_value v = {SLICE_LIT("n"), value_uint(n)};
    own_event(o, LEVEL_NOTICE, SLICE_LIT("test"), &v, 1);
}

/* Until the store takes nothing any more: its disk is held, and both groups are full. */
static void fill_store(struct bench *b)
{
    static const char bytes[512 << 10];
    bench_hold(&b->disk, true);
    while (ingest_record(b->in, STORE_WORKER, slice_of(bytes, sizeof bytes)) == 0)
        ;
    while (ingest_record(b->in, STORE_WORKER, slice_of(bytes, 16)) == 0)
        ;
    assert_int_equal(ingest_record(b->in, STORE_WORKER, slice_of(bytes, 16)), -ENOBUFS);
    assert_false(ingest_has_room(b->in));
}

static const struct account *own_account(const struct bench *b)
{
    for (const struct account *a = b->ledger.oldest; a; a = a->newer)
        if (memcmp(a->origin.producer, "gridline", 8) == 0)
            return a;
    fail_msg("the gateway has no account");
    return NULL;
}

/* What its final COUNTS say, as the ledger has them. */
static struct frame_counts last_counts(const struct bench *b)
{
    struct frame_counts counts;
    const struct account *a = own_account(b);
    assert_int_equal(frame_get_counts(slice_of(a->counts, a->counts_n), &counts), 0);
    assert_true(counts.is_final);
    return counts;
}

static void what_there_is_no_room_for_waits(void **state)
{
    (void)state;
    enum { N = 5000 };
    struct bench b;
    bench_open(&b);
    struct own *o = own_create(b.in);
    say(o, 1);
    own_flush(o);
    assert_int_equal(own_waiting(o), 0);
    fill_store(&b);
    for (uint64_t n = 2; n <= N; n++)
        say(o, n);
    own_flush(o);
    assert_true(own_is_held(o));
    assert_int_equal(own_waiting(o), N - 1);
    bench_hold(&b.disk, false);
    ingest_drain(b.in);
    own_flush(o);
    assert_false(own_is_held(o));
    assert_int_equal(own_waiting(o), 0);
    ingest_drain(b.in);
    own_end(o);
    struct frame_counts counts = last_counts(&b);
    assert_int_equal(counts.taken, N);
    assert_int_equal(counts.passed, N);
    assert_int_equal(own_account(&b)->passed, N);
    assert_int_equal(own_account(&b)->refused, 0);
    ingest_drain(b.in);
    own_destroy(o);
    bench_close(&b);
}

/* A value that is missing is left out, not the event. */
static void missing_values_are_left_out(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    struct own *o = own_create(b.in);
    say(o, 1);
    own_flush(o);
    ingest_drain(b.in);
    own_ledger(o, own_account(&b), SLICE_LIT(""));
    own_ledger(o, own_account(&b), SLICE_LIT("node1"));
    assert_int_equal(own_waiting(o), 2);
    own_flush(o);
    ingest_drain(b.in);
    own_end(o);
    assert_int_equal(last_counts(&b).taken, 3);
    assert_int_equal(last_counts(&b).passed, 3);
    ingest_drain(b.in);
    own_destroy(o);
    bench_close(&b);
}

static void many_denials_are_told_as_a_number(void **state)
{
    (void)state;
    enum { N = 10 * OWN_DENIALS };
    struct bench b;
    bench_open(&b);
    struct own *o = own_create(b.in);
    const struct access_identity who = {
        .kind = ACCESS_OPERATOR, .uid = UINT32_MAX, .name = "ann", .interface = "tls"};
    const struct access_denial d = {
        .who = &who, .action = ACCESS_SUBSCRIBE, .host = SLICE_LIT(""), .event = SLICE_LIT("cpu")};
    own_denials_rest(o); /* nothing to tell */
    assert_int_equal(own_waiting(o), 0);
    for (int i = 0; i < N; i++)
        own_denied(o, &d);
    size_t told = own_waiting(o);
    assert_true(told >= OWN_DENIALS && told <= 3 * OWN_DENIALS); /* a new second may have begun meanwhile */
    own_denials_rest(o);
    assert_int_equal(own_waiting(o), told + 1);
    own_denials_rest(o);
    assert_int_equal(own_waiting(o), told + 1);
    own_flush(o);
    ingest_drain(b.in);
    own_end(o);
    assert_int_equal(last_counts(&b).passed, told + 1);
    ingest_drain(b.in);
    own_destroy(o);
    bench_close(&b);
}

static void what_is_too_much_is_counted(void **state)
{
    (void)state;
    enum { TOO_MANY = 10 };
    struct bench b;
    bench_open(&b);
    struct own *o = own_create(b.in);
    fill_store(&b);
    for (uint64_t n = 1; n <= OWN_WAITING_MAX + TOO_MANY; n++)
        say(o, n);
    assert_int_equal(own_waiting(o), OWN_WAITING_MAX);
    bench_hold(&b.disk, false);
    ingest_drain(b.in);
    while (own_waiting(o)) {
        own_flush(o);
        ingest_drain(b.in);
    }
    say(o, 0); /* there is room again, and numbers go on without a gap */
    own_flush(o);
    ingest_drain(b.in);
    own_end(o);
    struct frame_counts counts = last_counts(&b);
    assert_int_equal(counts.taken, OWN_WAITING_MAX + TOO_MANY + 1);
    assert_int_equal(counts.passed, OWN_WAITING_MAX + 1);
    assert_int_equal(counts.dropped[DROP_RING_FULL], TOO_MANY);
    assert_int_equal(counts.queued, 0);
    assert_int_equal(own_account(&b)->passed, OWN_WAITING_MAX + 1);
    const struct frame_origin origin = own_account(&b)->origin;
    assert_int_equal(ingest_held(b.in, &origin), OWN_WAITING_MAX + 1);
    ingest_drain(b.in);
    own_destroy(o);
    bench_close(&b);
}

static void what_still_waits_at_the_end_is_counted(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    struct own *o = own_create(b.in);
    say(o, 1);
    own_flush(o);
    ingest_drain(b.in);
    fill_store(&b);
    say(o, 2);
    own_flush(o);
    own_end(o);
    struct frame_counts counts = last_counts(&b);
    assert_int_equal(counts.taken, 2);
    assert_int_equal(counts.queued, 1);
    bench_hold(&b.disk, false);
    ingest_drain(b.in);
    own_destroy(o);
    bench_close(&b);
}

/* ---------------------------------------------------------------- workers */

static int on_record(void *arg, const struct worker *w)
{
    struct bench *b = arg;
    struct strbuf record = {0};
    worker_put_record(&record, w);
    int r = ingest_record(b->in, STORE_WORKER, strbuf_slice(&record));
    strbuf_fini(&record);
    return r;
}

static const struct workers_ops worker_ops = {.on_record = on_record};

struct next_life {
    struct workers *ws;
    uint64_t not_workers; /* what the store was filled with */
};

static int on_restore(void *arg, const struct journal_item *item)
{
    struct next_life *next = arg;
    if (item->kind == JOURNAL_RECORD && item->type == STORE_WORKER)
        next->not_workers += workers_restore(next->ws, item->payload, NS_PER_S, NS_PER_S) == E_PROTO;
    return 0;
}

static void leases_of_a_burst_are_known_after_a_restart(void **state)
{
    (void)state;
    enum { N = 2000 };
    struct bench b;
    bench_open(&b);
    const struct workers_options options = {.ops = &worker_ops, .arg = &b};
    struct workers *ws = workers_create(&options);
    struct worker *w;
    fill_store(&b);
    for (int i = 0; i < N; i++) {
        char host[16];
        (void)snprintf(host, sizeof host, "h%d", i);
        const struct frame_register r = {.host = slice_str(host), .origin = {{1}, 1}};
        assert_int_equal(workers_register(ws, &r, NULL, SEAL_NONE, NS_PER_S, NS_PER_S, &w), 0);
    }
    assert_int_equal(workers_unwritten(ws), N);
    bench_hold(&b.disk, false);
    ingest_drain(b.in);
    workers_write(ws);
    assert_int_equal(workers_unwritten(ws), 0);
    ingest_drain(b.in);

    struct next_life next = {.ws = workers_create(&(struct workers_options){0})};
    assert_int_equal(store_read(b.dir, on_restore, &next), 0);
    assert_true(next.not_workers > 0);
    assert_int_equal(workers_count(next.ws), N);
    for (uint32_t id = 1; id <= N; id++)
        assert_string_equal(workers_by_id(next.ws, id)->host, workers_by_id(ws, id)->host);
    workers_destroy(next.ws);
    workers_destroy(ws);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_there_is_no_room_for_waits),
        cmocka_unit_test(missing_values_are_left_out),
        cmocka_unit_test(many_denials_are_told_as_a_number),
        cmocka_unit_test(what_is_too_much_is_counted),
        cmocka_unit_test(what_still_waits_at_the_end_is_counted),
        cmocka_unit_test(leases_of_a_burst_are_known_after_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
