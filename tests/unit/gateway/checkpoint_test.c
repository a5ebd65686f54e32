/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints from the outside: what a gateway knows after a restart, when the journal is older than its
 * limit. */
#include "unit/gateway/bench.h"

#include "base/clock.h"

#include <poll.h>

/* An owner with workers, each a number and how often it changed. */
enum { WORKERS = 3000 };
static uint32_t workers[WORKERS];
static size_t told; /* by on_restore */

static int put_worker(struct bench *b, uint32_t id)
{
    uint32_t record[100] = {id, workers[id]}; /* large enough for many groups */
    return ingest_record(b->in, STORE_WORKER, slice_of((const char *)record, sizeof record));
}

static int on_restore(void *arg, const struct journal_item *item)
{
    struct bench *b = arg;
    uint32_t record[2];
    b->restored++;
    if (item->kind != JOURNAL_RECORD)
        return 0;
    assert_int_equal(item->type, STORE_WORKER);
    memcpy(record, item->payload.p, sizeof record);
    workers[record[0]] = record[1];
    told++;
    return 0;
}

static uint64_t on_checkpoint(void *arg, uint64_t from)
{
    struct bench *b = arg;
    for (uint32_t id = (uint32_t)from; id < WORKERS; id++) {
        if (workers[id] && put_worker(b, id) < 0)
            return id;
        if (id % 500 == 499 && id + 1 < WORKERS)
            return id + 1;
    }
    return 0;
}

static void open_owner(struct bench *b, uint64_t max)
{
    bench_init(b);
    b->store_options.max_bytes = max;
    b->options.on_restore = on_restore;
    b->options.on_checkpoint = on_checkpoint;
    bench_start(b);
}

static struct frame_origin origin_of(uint32_t n)
{
    struct frame_origin o = {.epoch = 7};
    memcpy(o.producer, &(uint32_t){n + 100}, 4);
    return o;
}

/* Numbers, counts and workers are as before although the records they came from are gone. */
static void test_restart(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    struct agent agent;
    memset(workers, 0, sizeof workers);
    open_owner(&b, 64 << 10);
    agent_open(&agent, SAMPLES_ROLL);
    struct sampler *sampler = bench_sampler(&b, 2, &agent);
    for (uint32_t id = 0; id < 20; id++) {
        workers[id] = 1;
        assert_int_equal(put_worker(&b, id), 0);
    }
    struct frame_counts c = {.origin = test_origin(3), .taken = 10, .passed = 9, .is_final = true};
    c.dropped[1] = 1;
    struct strbuf out = {0};
    frame_put_counts(&out, &c);
    ingest_counts(b.in, slice_from(strbuf_slice(&out), FRAME_HEAD), &c);
    strbuf_fini(&out);
    assert_int_equal(bench_give(&b, &s, 3, 5, 5), 0);
    assert_int_equal(bench_give(&b, &s, 3, 20, 5), 0);
    ingest_drain(b.in);
    for (uint64_t n = 1; n < 1900; n += 10) {
        assert_int_equal(bench_give(&b, &s, 1, n, 10), 0);
        bench_samples(sampler, &agent, 5);
        workers[n / 10 % 20]++;
        assert_int_equal(put_worker(&b, (uint32_t)(n / 10 % 20)), 0);
        ingest_drain(b.in);
    }
    struct store_stats now;
    store_stats(b.store, &now);
    assert_true(now.first > 100 && now.checkpoints > 2);
    assert_true(now.bytes <= (64 << 10) + 4096);
    assert_int_equal(now.forced, now.first - 1);
    assert_int_equal(b.forced, now.forced);
    assert_int_equal(b.ledger.forced, now.forced);
    static uint32_t before[WORKERS];
    memcpy(before, workers, sizeof before);
    sampler_destroy(sampler);
    for (int times = 0; times < 3; times++) {
        memset(workers, 0, sizeof workers);
        uint64_t forced = b.ledger.forced;
        bench_restart(&b);
        assert_memory_equal(workers, before, sizeof before);
        assert_int_equal(b.ledger.forced, forced);
        assert_int_equal(bench_account(&b, 1)->passed, 1900);
        assert_int_equal(bench_account(&b, 1)->held.n, 1);
        assert_int_equal(bench_account(&b, 2)->passed, 950);
        assert_int_equal(bench_account(&b, 2)->highest, 950);
        assert_int_equal(bench_account(&b, 3)->passed, 10);
        assert_int_equal(bench_account(&b, 3)->held.n, 2);
        assert_true(bench_account(&b, 3)->is_closed);
        assert_int_equal(frame_get_counts(account_counts(bench_account(&b, 3)), &c), 0);
        assert_int_equal(c.dropped[1], 1);
        uint64_t duplicate = bench_account(&b, 1)->duplicate; /* those up to the checkpoint */
        s = sender_new();
        assert_int_equal(bench_give(&b, &s, 1, 1, 10), 0); /* its record is long gone */
        assert_int_equal(bench_give(&b, &s, 3, 9, 1), 0);
        ingest_drain(b.in);
        assert_int_equal(s.acks, 2);
        assert_int_equal(bench_account(&b, 1)->duplicate, duplicate + 10);
    }
    agent_close(&agent);
    bench_close(&b);
}

/* Two events of account n. */
static int give_account(struct bench *b, struct sender *s, uint32_t n, int64_t time_ns)
{
    struct frame_origin f = origin_of(n);
    struct batch_origin o = {.epoch = f.epoch, .first_seq = 1 + n % 7};
    struct strbuf block = {0};
    memcpy(o.producer, f.producer, sizeof o.producer);
    test_block_at(&block, &o, o.first_seq, time_ns, 2);
    int r = ingest_block(b->in, &s->source, strbuf_slice(&block));
    strbuf_fini(&block);
    return r;
}

static void expect_known(const struct bench *b, uint32_t accounts)
{
    for (uint32_t n = 0; n < accounts; n++) {
        struct frame_origin o = origin_of(n);
        const struct account *a = ledger_find(&b->ledger, &o);
        assert_non_null(a);
        assert_true(a->passed == 2 && a->held.n == 1 && a->held.ranges[0].first == 1 + n % 7);
    }
    for (uint32_t id = 0; id < WORKERS; id++)
        assert_int_equal(workers[id], id + 1);
}

/* Many accounts: in pieces over many groups, while they change; a crash at any point leaves what was known.
 */
static void test_pieces(void **state)
{
    (void)state;
    enum { ACCOUNTS = 2000 };
    struct bench b;
    struct sender s = sender_new();
    memset(workers, 0, sizeof workers);
    open_owner(&b, 0);
    for (uint32_t id = 0; id < WORKERS; id++) {
        workers[id] = id + 1;
        assert_int_equal(put_worker(&b, id), 0);
    }
    for (uint32_t n = 0; n < ACCOUNTS; n++)
        assert_int_equal(give_account(&b, &s, n, 5), 0);
    ingest_drain(b.in);
    uint64_t next = 1, held = 0;
    bool is_complete = false;
    for (unsigned steps = 0; !is_complete; steps++) {
        memset(workers, 0, sizeof workers);
        bench_restart(&b);
        expect_known(&b, ACCOUNTS);
        assert_int_equal(bench_account(&b, 1)->passed, held);
        s = sender_new();
        for (unsigned i = 0; i <= steps && !is_complete; i++) { /* so many groups, and then the crash */
            assert_int_equal(bench_give(&b, &s, 1, next, 2), 0);
            next += 2;
            ingest_commit(b.in);
            struct pollfd done = {.fd = ingest_fd(b.in), .events = POLLIN};
            assert_int_equal(poll(&done, 1, 20000), 1);
            ingest_complete(b.in);
            held = bench_account(&b, 1)->passed;
            struct store_stats now;
            store_stats(b.store, &now);
            is_complete = now.checkpoints > 0;
        }
        held = next - 1; /* closing waits for the group that is being written */
        assert_true(steps < 100);
    }
    ingest_drain(b.in);
    memset(workers, 0, sizeof workers);
    told = 0;
    bench_restart(&b);
    expect_known(&b, ACCOUNTS);
    assert_true(told <= WORKERS); /* and nothing from before it */
    bench_close(&b);
}

/* Reading stops at the owner's word, and gaps are told. */
static int refuse_restore(void *arg, const struct journal_item *item)
{
    (void)arg;
    (void)item;
    return -EINVAL;
}

static void test_owner_refuses(void **state)
{
    (void)state;
    struct bench b;
    memset(workers, 0, sizeof workers);
    open_owner(&b, 0);
    assert_int_equal(put_worker(&b, 3), 0);
    ingest_drain(b.in);
    bench_stop(&b);
    b.options.on_restore = refuse_restore;
    assert_int_equal(store_open(b.dir, &b.store_options, &b.store), 0);
    b.in = ingest_create(&b.ledger, b.store, &b.options);
    assert_int_equal(ingest_restore(b.in), -EINVAL);
    bench_close(&b);
}

/* Accounts that were quiet for long are forgotten, also those of samples; what is from before is too old
 * then, and what is newer is taken. */
static void test_too_old(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    struct agent agent;
    const int64_t now_s = clock_utc_ns() / NS_PER_S;
    bench_init(&b);
    b.store_options.segment_bytes = 4096;
    bench_start(&b);
    agent_open(&agent, 0);
    struct sampler *sampler = bench_sampler(&b, 2, &agent);
    assert_int_equal(give_account(&b, &s, 1, 5), 0);
    assert_int_equal(give_account(&b, &s, 2, 5), 0);
    ingest_drain(b.in);
    struct frame_origin one = origin_of(1), samples = test_origin(2);
    ledger_find(&b.ledger, &samples)->active_s =
        (uint32_t)now_s - LEDGER_KEEP_S - 20; /* its sampler is there */
    ledger_find(&b.ledger, &one)->active_s = (uint32_t)now_s - LEDGER_KEEP_S - 10;
    for (uint64_t n = 1; b.ledger.forgotten == 0 && n < TEST_NUMBERS; n += 10) { /* until a segment begins */
        assert_int_equal(bench_give(&b, &s, 1, n, 10), 0);
        ingest_drain(b.in);
    }
    assert_int_equal(b.ledger.forgotten, 1);
    assert_null(ledger_find(&b.ledger, &one));
    assert_non_null(ledger_find(&b.ledger, &samples));
    assert_int_equal(b.ledger.forgotten_s, now_s - LEDGER_KEEP_S - 10);
    for (int restarted = 0; restarted < 2; restarted++) {
        const struct account *known = ledger_find(&b.ledger, &one);
        uint64_t before = known ? known->too_old : 0;
        s = sender_new();
        assert_int_equal(give_account(&b, &s, 1, (now_s - LEDGER_KEEP_S - 11) * NS_PER_S), 0);
        assert_int_equal(s.refusals, 1);
        assert_int_equal(s.refuse.reason, REFUSE_TOO_OLD);
        assert_int_equal(s.refuse.retry_ms, 0);
        assert_int_equal(ledger_find(&b.ledger, &one)->too_old, before + 2);
        assert_int_equal(give_account(&b, &s, 2, 5), 0);                                      /* is known */
        assert_int_equal(give_account(&b, &s, 3 + (uint32_t)restarted, now_s * NS_PER_S), 0); /* is new */
        ingest_drain(b.in);
        assert_int_equal(s.acks, 2);
        if (restarted)
            break;
        sampler_destroy(sampler);
        bench_restart(&b);
        assert_int_equal(b.ledger.forgotten, 1);
    }
    agent_close(&agent);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_owner_refuses),
        cmocka_unit_test(test_too_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
