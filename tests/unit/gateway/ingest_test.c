/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gateway/blocks.h"

#include "base/crc32c.h"
#include "base/mem.h"
#include "gateway/ingest.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

/* A gateway without its sockets. */
struct bench {
    char dir[64];
    struct ledger ledger;
    struct store *store;
    struct ingest *in;
    int store_state; /* what on_store said last */
    size_t batches;  /* what on_batch was given */
    size_t batch_events;
};

/* Who sends, and what it was told. */
struct sender {
    struct ingest_source source;
    struct frame_ack ack;
    struct frame_refuse refuse;
    unsigned acks, refusals;
};

static void on_ack(struct ingest_source *s, const struct frame_ack *ack)
{
    struct sender *p = (struct sender *)s;
    p->ack = *ack;
    p->acks++;
}

static void on_refuse(struct ingest_source *s, const struct frame_refuse *refuse)
{
    struct sender *p = (struct sender *)s;
    p->refuse = *refuse;
    p->refuse.text = SLICE_LIT("");
    p->refusals++;
}

static struct sender new_sender(void)
{
    return (struct sender){.source = {.ack = on_ack, .refuse = on_refuse}};
}

static void on_store(void *arg, int r)
{
    ((struct bench *)arg)->store_state = r;
}

static void on_batch(void *arg, const struct batch *batch)
{
    struct bench *b = arg;
    b->batches++;
    b->batch_events += batch->n;
}

static void start(struct bench *b, uint64_t max)
{
    const struct ingest_options options = {.on_batch = on_batch, .on_store = on_store, .arg = b};
    assert_int_equal(store_open(b->dir, &(struct store_options){.max_bytes = max}, &b->store), 0);
    b->in = ingest_create(&b->ledger, b->store, &options);
    assert_non_null(b->in);
    assert_int_equal(ingest_restore(b->in), 0);
}

static void stop(struct bench *b)
{
    for (const struct account *a = b->ledger.oldest; a; a = a->newer)
        assert_true(account_check(a));
    ingest_destroy(b->in);
    store_close(b->store);
    ledger_fini(&b->ledger);
}

static void open_bench(struct bench *b, uint64_t max)
{
    *b = (struct bench){.dir = "/tmp/gridline-ingest-XXXXXX"};
    assert_non_null(mkdtemp(b->dir));
    start(b, max);
}

static void close_bench(struct bench *b)
{
    stop(b);
    test_remove(b->dir);
}

static int give(struct bench *b, struct sender *s, uint8_t producer, uint64_t first, uint32_t n)
{
    struct strbuf block = {0};
    test_block(&block, producer, first, n);
    int r = ingest_block(b->in, &s->source, strbuf_slice(&block));
    strbuf_fini(&block);
    for (const struct account *a = b->ledger.oldest; a; a = a->newer)
        assert_true(account_check(a));
    return r;
}

static struct account *account(struct bench *b, uint8_t producer)
{
    struct frame_origin o = test_origin(producer);
    return ledger_account(&b->ledger, &o);
}

/* Nothing can be written while this is on: a commit fails as it does on a full disk. */
static void break_disk(bool is_broken)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = is_broken ? 0 : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_acknowledged_after_commit(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = new_sender();
    open_bench(&b, 0);
    struct frame_origin o = test_origin(1);
    assert_int_equal(give(&b, &s, 1, 1, 5), 0);
    assert_int_equal(give(&b, &s, 1, 6, 5), 0);
    assert_true(ingest_is_pending(b.in));
    assert_int_equal(s.acks, 0);
    assert_int_equal(ingest_held(b.in, &o), 0);
    assert_int_equal(test_read(b.dir).records, 0);
    ingest_drain(b.in);
    assert_int_equal(s.acks, 1); /* the second covers the first */
    assert_int_equal(s.ack.seq, 10);
    assert_memory_equal(&s.ack.origin, &o, sizeof o);
    assert_int_equal(ingest_held(b.in, &o), 10);
    assert_int_equal(test_read(b.dir).records, 2);
    assert_false(ingest_is_pending(b.in));
    ingest_drain(b.in);
    assert_int_equal(s.acks, 1);
    close_bench(&b);
}

static void test_duplicates(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = new_sender(), again = new_sender();
    open_bench(&b, 0);
    assert_int_equal(give(&b, &s, 1, 3, 4), 0);
    assert_int_equal(give(&b, &again, 1, 3, 4), 0); /* while the first still waits for its sync */
    assert_int_equal(s.acks, 0);
    assert_int_equal(again.acks, 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 6);
    assert_int_equal(again.ack.seq, 6);
    assert_int_equal(account(&b, 1)->duplicate, 4);
    assert_int_equal(test_read(b.dir).records, 1);
    assert_int_equal(give(&b, &s, 1, 1, 10), 0); /* 3..6 are there: 1..2 and 7..10 are written */
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 10);
    struct test_archive a = test_read(b.dir);
    assert_int_equal(a.records, 3);
    for (uint64_t n = 1; n <= 10; n++)
        assert_int_equal(a.times[1][n], 1);
    assert_int_equal(account(&b, 1)->passed, 10);
    assert_int_equal(account(&b, 1)->duplicate, 8);
    close_bench(&b);
}

/* The journal fails: nothing is acknowledged, everything is refused for now, and nothing is taken out of
 * turn. */
static void test_commit_fails(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = new_sender(), other = new_sender();
    open_bench(&b, 0);
    assert_int_equal(give(&b, &s, 1, 1, 2), 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 2);
    break_disk(true);
    assert_int_equal(give(&b, &s, 1, 3, 2), 0);
    assert_int_equal(give(&b, &s, 1, 5, 2), 0);
    assert_int_equal(give(&b, &other, 2, 1, 1), 0);
    ingest_drain(b.in);
    break_disk(false);
    assert_true(b.store_state < 0);
    assert_int_equal(s.acks, 1);
    assert_int_equal(s.refusals, 1);
    assert_int_equal(s.refuse.first_seq, 3);
    assert_int_equal(s.refuse.retry_ms, INGEST_RETRY_MS);
    assert_int_equal(other.refusals, 1);
    assert_int_equal(account(&b, 1)->refused, 4);
    assert_int_equal(give(&b, &s, 1, 7, 2), 0); /* was on its way: must not be taken, for 3..6 are missing */
    ingest_drain(b.in);
    assert_int_equal(s.acks, 1);
    assert_int_equal(account(&b, 1)->refused, 6);
    assert_int_equal(give(&b, &s, 1, 3, 2), 0); /* again, from there on */
    assert_int_equal(give(&b, &s, 1, 5, 2), 0);
    assert_int_equal(give(&b, &s, 1, 7, 2), 0);
    ingest_drain(b.in);
    assert_int_equal(b.store_state, 0);
    assert_int_equal(s.ack.seq, 8);
    struct test_archive a = test_read(b.dir);
    for (uint64_t n = 1; n <= 8; n++)
        assert_int_equal(a.times[1][n], 1);
    assert_int_equal(a.times[2][1], 0);
    close_bench(&b);
}

static void test_malformed(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = new_sender();
    struct strbuf block = {0};
    open_bench(&b, 0);
    test_block(&block, 1, 1, 3);
    block.p[block.n - 1] ^= 1;
    assert_int_equal(ingest_block(b.in, &s.source, strbuf_slice(&block)), E_DAMAGE);
    assert_int_equal(ingest_block(b.in, &s.source, slice_of(block.p, 100)), E_PROTO);
    assert_int_equal(ingest_block(b.in, &s.source, SLICE_LIT("nothing")), E_PROTO);
    assert_int_equal(ingest_block(b.in, &s.source, SLICE_LIT("")), E_PROTO);
    assert_int_equal(give(&b, &s, 1, 0, 3), E_PROTO);
    assert_int_equal(give(&b, &s, 1, UINT64_MAX - 1, 3), E_PROTO);
    assert_int_equal(give(&b, &s, 1, 1, 3), 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 3);
    assert_int_equal(s.refusals, 0);
    strbuf_fini(&block);
    close_bench(&b);
}

/* A good checksum over bytes that mean nothing: never, and the connection goes on. */
static void test_unreadable_block(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = new_sender();
    struct strbuf block = {0};
    open_bench(&b, 0);
    test_block(&block, 1, 1, 3);
    block.p[12] = 1; /* a flag that no reader knows; then the checksum again */
    memset(block.p + 8, 0, 4);
    uint32_t crc = crc32c(0, strbuf_slice(&block));
    for (int i = 0; i < 4; i++)
        block.p[8 + i] = (char)(crc >> (8 * i));
    assert_int_equal(ingest_block(b.in, &s.source, strbuf_slice(&block)), 0);
    assert_int_equal(s.refusals, 1);
    assert_int_equal(s.refuse.retry_ms, 0);
    assert_int_equal(s.refuse.count, 3);
    assert_int_equal(account(&b, 1)->refused, 3);
    assert_int_equal(give(&b, &s, 1, 4, 2), 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 5);
    strbuf_fini(&block);
    close_bench(&b);
}

static void test_restart(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = new_sender();
    open_bench(&b, 0);
    assert_int_equal(give(&b, &s, 1, 1, 5), 0);
    assert_int_equal(give(&b, &s, 1, 9, 2), 0);
    struct strbuf out = {0};
    struct frame_counts c = {.origin = test_origin(1), .taken = 10, .passed = 7, .is_final = true};
    c.dropped[4] = 3;
    frame_put_counts(&out, &c);
    ingest_counts(b.in, slice_from(strbuf_slice(&out), FRAME_HEAD), &c);
    strbuf_fini(&out);
    ingest_drain(b.in);
    assert_int_equal(give(&b, &s, 1, 11, 1), 0); /* not committed: gone */
    stop(&b);

    start(&b, 0);
    s = new_sender();
    assert_int_equal(account(&b, 1)->passed, 7);
    assert_int_equal(account(&b, 1)->held.n, 2);
    assert_true(account(&b, 1)->is_closed);
    assert_int_equal(frame_get_counts(account_counts(account(&b, 1)), &c), 0);
    assert_int_equal(c.dropped[4], 3);
    assert_int_equal(give(&b, &s, 1, 9, 2), 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 10);
    assert_int_equal(account(&b, 1)->duplicate, 2);
    assert_int_equal(test_read(b.dir).times[1][9], 1);
    close_bench(&b);
}

/* Lines from outside have no numbers: stored as they come. */
static void test_without_origin(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b, 0);
    for (int round = 0; round < 2; round++) {
        for (uint64_t n = 0; n < 7; n++) {
            const struct named_value v = {SLICE_LIT("n"), value_uint(n)};
            const struct event_head head = {.name = SLICE_LIT("line"), .host = SLICE_LIT("")};
            assert_int_equal(batch_builder_add(ingest_builder(b.in), &head, &v, 1, NULL), 0);
        }
        assert_int_equal(ingest_built(b.in), 0);
    }
    assert_int_equal(ingest_built(b.in), 0);
    static const struct frame_origin none;
    assert_int_equal(ledger_account(&b.ledger, &none)->queued, 14);
    ingest_drain(b.in);
    assert_int_equal(ledger_account(&b.ledger, &none)->passed, 14);
    assert_int_equal(test_read(b.dir).times[0][6], 2);
    assert_int_equal(ingest_held(b.in, &none), 0);
    close_bench(&b);
}

/* The sender has gone before the commit: stored all the same, and nobody is called. */
static void test_sender_gone(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = new_sender();
    open_bench(&b, 0);
    assert_int_equal(give(&b, &s, 1, 1, 2), 0);
    ingest_forget(b.in, &s.source);
    ingest_drain(b.in);
    assert_int_equal(s.acks, 0);
    assert_int_equal(account(&b, 1)->passed, 2);
    close_bench(&b);
}

/* What a sender that follows the protocol does, on a disk that fails now and then, with restarts and new
 * connections: each number is stored once, and what was acknowledged is stored. */
static void test_random_faults(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 20 * test_scale(); round++) {
        struct bench b;
        struct sender s = new_sender();
        uint64_t seed = round, next = 1, acked = 0;
        struct frame_origin o = test_origin(1);
        open_bench(&b, 0);
        while (acked < 500) {
            uint32_t n = 1 + (uint32_t)(test_random(&seed) % 20);
            assert_int_equal(give(&b, &s, 1, next, n), 0);
            next += n;
            bool is_broken = test_random(&seed) % 5 == 0;
            if (test_random(&seed) % 3 == 0) {
                if (is_broken)
                    break_disk(true);
                ingest_drain(b.in);
                break_disk(false);
            }
            acked = s.acks && s.ack.seq > acked ? s.ack.seq : acked;
            if (s.refusals || test_random(&seed) % 10 == 0) { /* a new connection, perhaps to a new process */
                if (test_random(&seed) % 2) {
                    stop(&b);
                    start(&b, 0);
                } else {
                    ingest_forget(b.in, &s.source);
                }
                s = new_sender();
                next = ingest_held(b.in, &o) + 1;
                assert_true(next > acked);
            }
        }
        ingest_drain(b.in);
        struct test_archive a = test_read(b.dir);
        for (uint64_t i = 1; i <= acked; i++)
            assert_int_equal(a.times[1][i], 1);
        for (uint64_t i = acked + 1; i < TEST_NUMBERS; i++)
            assert_true(a.times[1][i] <= 1);
        close_bench(&b);
    }
}

/* Whatever allocation fails: an error or a refusal, the sums hold, and the next try works. */
static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 80; nth++) {
        struct bench b;
        struct sender s = new_sender();
        struct strbuf block = {0};
        open_bench(&b, 0);
        test_block(&block, 1, 1, 3);
        mem_fail_after(nth);
        int r = ingest_block(b.in, &s.source, strbuf_slice(&block));
        if (r == 0)
            ingest_drain(b.in);
        mem_fail_after(0);
        assert_true(r == 0 || r == -ENOMEM);
        assert_true(account_check(account(&b, 1)));
        if (s.acks == 0) {
            assert_int_equal(ingest_block(b.in, &s.source, strbuf_slice(&block)), 0);
            ingest_drain(b.in);
        }
        assert_int_equal(s.ack.seq, 3);
        assert_int_equal(test_read(b.dir).times[1][2], 1);
        strbuf_fini(&block);
        close_bench(&b);
    }
}

int main(void)
{
    (void)signal(SIGXFSZ, SIG_IGN); /* for break_disk: an error of the write instead */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acknowledged_after_commit),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_commit_fails),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_unreadable_block),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_without_origin),
        cmocka_unit_test(test_sender_gone),
        cmocka_unit_test(test_random_faults),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
