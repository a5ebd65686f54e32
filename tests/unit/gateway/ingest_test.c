/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gateway/bench.h"

#include "base/crc32c.h"
#include "base/mem.h"

#include <poll.h>

static void open_bench(struct bench *b)
{
    bench_init(b);
    b->options.on_batch = bench_on_batch;
    bench_start(b);
}

/* Nothing can be written while this is on. */
static void break_disk(struct bench *b, bool is_broken)
{
    atomic_store(&b->disk.fails, is_broken ? -EIO : 0);
}

static void test_acknowledged_after_commit(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    open_bench(&b);
    struct frame_origin o = test_origin(1);
    assert_int_equal(bench_give(&b, &s, 1, 1, 5), 0);
    assert_int_equal(bench_give(&b, &s, 1, 6, 5), 0);
    assert_true(ingest_is_pending(b.in));
    assert_int_equal(s.acks, 0);
    assert_int_equal(ingest_held(b.in, &o), 0);
    assert_int_equal(test_read(b.dir).records, 0);
    ingest_drain(b.in);
    assert_int_equal(s.acks, 1); /* the second covers the first */
    assert_int_equal(s.ack.seq, 10);
    assert_memory_equal(&s.ack.origin, &o, sizeof o);
    assert_int_equal(ingest_held(b.in, &o), 10);
    assert_int_equal(ingest_held_count(b.in, &o), 10);
    assert_int_equal(test_read(b.dir).records, 2);
    assert_false(ingest_is_pending(b.in));
    ingest_drain(b.in);
    assert_int_equal(s.acks, 1);
    bench_close(&b);
}

static void test_duplicates(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new(), again = sender_new();
    open_bench(&b);
    assert_int_equal(bench_give(&b, &s, 1, 3, 4), 0);
    assert_int_equal(bench_give(&b, &again, 1, 3, 4), 0); /* while the first still waits for its sync */
    assert_int_equal(s.acks, 0);
    assert_int_equal(again.acks, 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 6);
    assert_int_equal(again.ack.seq, 6);
    assert_int_equal(bench_account(&b, 1)->duplicate, 4);
    assert_int_equal(test_read(b.dir).records, 1);
    assert_int_equal(bench_give(&b, &s, 1, 1, 10), 0); /* 3..6 are there: 1..2 and 7..10 are written */
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 10);
    struct test_archive a = test_read(b.dir);
    assert_int_equal(a.records, 3);
    for (uint64_t n = 1; n <= 10; n++)
        assert_int_equal(a.times[1][n], 1);
    assert_int_equal(bench_account(&b, 1)->passed, 10);
    assert_int_equal(bench_account(&b, 1)->duplicate, 8);
    bench_close(&b);
}

/* The journal fails: nothing is acknowledged, everything is refused for now, and nothing is taken out of
 * turn. */
static void test_commit_fails(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new(), other = sender_new();
    open_bench(&b);
    assert_int_equal(bench_give(&b, &s, 1, 1, 2), 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 2);
    break_disk(&b, true);
    assert_int_equal(bench_give(&b, &s, 1, 3, 2), 0);
    assert_int_equal(bench_give(&b, &s, 1, 5, 2), 0);
    assert_int_equal(bench_give(&b, &other, 2, 1, 1), 0);
    ingest_drain(b.in);
    break_disk(&b, false);
    assert_true(b.store_state < 0);
    assert_int_equal(s.acks, 1);
    assert_int_equal(s.refusals, 1);
    assert_int_equal(s.refuse.first_seq, 3);
    assert_int_equal(s.refuse.retry_ms, INGEST_RETRY_MS);
    assert_int_equal(other.refusals, 1);
    assert_int_equal(bench_account(&b, 1)->retried, 4); /* the sender keeps them: not taken, not dropped */
    assert_int_equal(bench_account(&b, 1)->taken, 2);
    assert_int_equal(bench_give(&b, &s, 1, 7, 2),
                     0); /* was on its way: must not be taken, for 3..6 are missing */
    ingest_drain(b.in);
    assert_int_equal(s.acks, 1);
    assert_int_equal(bench_account(&b, 1)->retried, 6);
    assert_int_equal(bench_give(&b, &s, 1, 3, 2), 0); /* again, from there on */
    assert_int_equal(bench_give(&b, &s, 1, 5, 2), 0);
    assert_int_equal(bench_give(&b, &s, 1, 7, 2), 0);
    ingest_drain(b.in);
    assert_int_equal(b.store_state, 0);
    assert_int_equal(s.ack.seq, 8);
    struct test_archive a = test_read(b.dir);
    for (uint64_t n = 1; n <= 8; n++)
        assert_int_equal(a.times[1][n], 1);
    assert_int_equal(a.times[2][1], 0);
    assert_int_equal(bench_account(&b, 1)->taken, 8);
    assert_int_equal(bench_account(&b, 1)->refused, 0); /* nothing was lost */
    bench_close(&b);
}

static void test_malformed(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    struct strbuf block = {0};
    open_bench(&b);
    test_block(&block, 1, 1, 3);
    block.p[block.n - 1] ^= 1;
    assert_int_equal(ingest_block(b.in, &s.source, strbuf_slice(&block)), E_DAMAGE);
    assert_int_equal(ingest_block(b.in, &s.source, slice_of(block.p, 100)), E_PROTO);
    assert_int_equal(ingest_block(b.in, &s.source, SLICE_LIT("nothing")), E_PROTO);
    assert_int_equal(ingest_block(b.in, &s.source, SLICE_LIT("")), E_PROTO);
    assert_int_equal(bench_give(&b, &s, 1, 0, 3), E_PROTO);
    assert_int_equal(bench_give(&b, &s, 1, UINT64_MAX - 1, 3), E_PROTO);
    assert_int_equal(bench_give(&b, &s, 1, 1, 3), 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 3);
    assert_int_equal(s.refusals, 0);
    strbuf_fini(&block);
    bench_close(&b);
}

/* A good checksum over bytes that mean nothing: never, and the connection goes on. */
static void test_unreadable_block(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    struct strbuf block = {0};
    open_bench(&b);
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
    assert_int_equal(bench_account(&b, 1)->refused, 3);
    assert_int_equal(bench_give(&b, &s, 1, 4, 2), 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 5);
    strbuf_fini(&block);
    bench_close(&b);
}

static void test_restart(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    open_bench(&b);
    assert_int_equal(bench_give(&b, &s, 1, 1, 5), 0);
    assert_int_equal(bench_give(&b, &s, 1, 9, 2), 0);
    struct strbuf out = {0};
    struct frame_counts c = {.origin = test_origin(1), .taken = 10, .passed = 7, .is_final = true};
    c.dropped[4] = 3;
    frame_put_counts(&out, &c);
    ingest_counts(b.in, slice_from(strbuf_slice(&out), FRAME_HEAD), &c);
    strbuf_fini(&out);
    ingest_drain(b.in);
    assert_int_equal(bench_give(&b, &s, 1, 11, 1), 0); /* not committed: gone */
    bench_restart(&b);
    s = sender_new();
    assert_int_equal(bench_account(&b, 1)->passed, 7);
    assert_int_equal(bench_account(&b, 1)->held.n, 2);
    assert_true(bench_account(&b, 1)->is_closed);
    assert_int_equal(frame_get_counts(account_counts(bench_account(&b, 1)), &c), 0);
    assert_int_equal(c.dropped[4], 3);
    assert_int_equal(bench_give(&b, &s, 1, 9, 2), 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 10);
    assert_int_equal(bench_account(&b, 1)->duplicate, 2);
    assert_int_equal(test_read(b.dir).times[1][9], 1);
    bench_close(&b);
}

/* Lines from outside have no numbers: stored as they come. */
/* The numbers of a block are its times, too: the even ones are too old, those above a limit too new. */
static int64_t newest;
static enum archived_verdict judge_even(void *arg, const struct event *e, int64_t now_ns)
{
    (void)arg, (void)now_ns;
    return e->time_ns > newest ? ARCHIVED_TOO_NEW : e->time_ns % 2 == 0 ? ARCHIVED_TOO_OLD : ARCHIVED_KEPT;
}

static void give_numbered(struct bench *b, struct sender *s, uint64_t first, uint32_t n)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct block_writer *w = block_writer_create();
    struct strbuf block = {0};
    struct batch_origin o = {.producer = {1}, .epoch = 1, .first_seq = first};
    for (uint32_t i = 0; i < n; i++) {
        const struct named_value v = {SLICE_LIT("n"), value_uint(first + i)};
        const struct event_head head = {.name = SLICE_LIT("e"), .time_ns = (int64_t)(first + i)};
        assert_int_equal(batch_builder_add(builder, &head, &v, 1, NULL), 0);
    }
    struct batch *all = batch_builder_finish(builder, &o);
    for (size_t i = 0; i < all->n; i++)
        assert_int_equal(block_writer_add(w, &all->events[i]), 0);
    assert_int_equal(block_writer_finish(w, &o, &block), 0);
    assert_int_equal(ingest_block(b->in, &s->source, strbuf_slice(&block)), 0);
    ingest_drain(b->in);
    bench_check(b);
    batch_unref(all);
    strbuf_fini(&block);
    block_writer_destroy(w);
    batch_builder_destroy(builder);
    registry_destroy(registry);
}

/* What is not to be kept is refused for good and for its reason, the rest of the block is taken; the same
 * again; and more holes than the set of numbers has room for. */
static void test_judged(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    struct frame_origin o = {.producer = {1}, .epoch = 1};
    bench_init(&b);
    b.options.judge = judge_even;
    b.options.on_batch = bench_on_batch;
    bench_start(&b);
    newest = 8;
    give_numbered(&b, &s, 1, 10); /* 1 3 5 7 of them */
    const struct account *a = ledger_find(&b.ledger, &o);
    assert_true(a->taken == 10 && a->passed == 4 && a->too_old == 4 && a->too_new == 2 && a->duplicate == 0);
    assert_int_equal(s.acks, 1);
    assert_int_equal(s.ack.seq, 10);
    assert_int_equal(s.refusals, 5); /* 2, 4, 6, 8, 9 to 10 */
    assert_true(s.refuse.reason == REFUSE_TOO_NEW && s.refuse.first_seq == 9 && s.refuse.count == 2 &&
                s.refuse.retry_ms == 0);
    assert_int_equal(ingest_held_count(b.in, &o), 4);
    assert_int_equal(ingest_held(b.in, &o), 7);
    newest = 100;
    give_numbered(&b, &s, 1, 10); /* and now it is late enough for 9 */
    assert_true(a->passed == 5 && a->duplicate == 4 && a->too_old == 9 && a->too_new == 2);
    give_numbered(&b, &s, 12, 1);
    assert_int_equal(s.acks, 2); /* nothing of it was taken */
    assert_true(s.refuse.reason == REFUSE_TOO_OLD && s.refuse.first_seq == 12 && s.refuse.count == 1);
    newest = INT64_MAX;
    for (uint64_t first = 13; first < 13 + 40 * 200; first += 200)
        give_numbered(&b, &s, first, 200);
    assert_int_equal(a->passed, 5 + 40 * 100);
    assert_int_equal(a->refused, 0);
    assert_int_equal(ingest_held_count(b.in, &o), a->passed);
    assert_true(a->held.n < SEQ_SET_MAX);
    struct strbuf out = {0};
    account_put(&out, a);
    strbuf_fini(&out);
    bench_close(&b);
}

static void test_without_origin(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    open_bench(&b);
    for (int round = 0; round < 2; round++) {
        for (uint64_t n = 0; n < 7; n++) {
            const struct named_value v = {SLICE_LIT("n"), value_uint(n)};
            const struct event_head head = {.name = SLICE_LIT("line"), .host = SLICE_LIT("")};
            assert_int_equal(batch_builder_add(ingest_builder(b.in), &head, &v, 1, NULL), 0);
        }
        assert_int_equal(ingest_built(b.in, &s.source), 0);
    }
    assert_int_equal(ingest_built(b.in, &s.source), 0);
    static const struct frame_origin none;
    assert_int_equal(ledger_account(&b.ledger, &none)->queued, 14);
    ingest_drain(b.in);
    assert_int_equal(ledger_account(&b.ledger, &none)->passed, 14);
    assert_int_equal(test_read(b.dir).times[0][6], 2);
    assert_int_equal(ingest_held(b.in, &none), 0);
    bench_close(&b);
}

/* The sender has gone before the commit: stored all the same, and nobody is called. */
static void test_sender_gone(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    open_bench(&b);
    assert_int_equal(bench_give(&b, &s, 1, 1, 2), 0);
    ingest_forget(b.in, &s.source);
    ingest_drain(b.in);
    assert_int_equal(s.acks, 0);
    assert_int_equal(bench_account(&b, 1)->passed, 2);
    bench_close(&b);
}

/* What a sender that follows the protocol does, on a disk that fails now and then, with restarts and new
 * connections: each number is stored once, and what was acknowledged is stored. */
static void test_random_faults(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 20 * test_scale(); round++) {
        struct bench b;
        struct sender s = sender_new();
        uint64_t seed = round, next = 1, acked = 0;
        struct frame_origin o = test_origin(1);
        open_bench(&b);
        while (acked < 500) {
            uint32_t n = 1 + (uint32_t)(test_random(&seed) % 20);
            assert_int_equal(bench_give(&b, &s, 1, next, n), 0);
            next += n;
            bool is_broken = test_random(&seed) % 5 == 0;
            if (test_random(&seed) % 3 == 0) {
                if (is_broken)
                    break_disk(&b, true);
                ingest_drain(b.in);
                break_disk(&b, false);
            }
            acked = s.acks && s.ack.seq > acked ? s.ack.seq : acked;
            if (s.refusals || test_random(&seed) % 10 == 0) { /* a new connection, perhaps to a new process */
                if (test_random(&seed) % 2) {
                    bench_restart(&b);
                } else {
                    ingest_forget(b.in, &s.source);
                }
                s = sender_new();
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
        bench_close(&b);
    }
}

/* Whatever allocation fails: an error or a refusal, the sums hold, and the next try works. */
static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 80; nth++) {
        struct bench b;
        struct sender s = sender_new();
        struct strbuf block = {0};
        open_bench(&b);
        test_block(&block, 1, 1, 3);
        mem_fail_after(nth);
        int r = ingest_block(b.in, &s.source, strbuf_slice(&block));
        if (r == 0)
            ingest_drain(b.in);
        mem_fail_after(0);
        assert_true(r == 0 || r == -ENOMEM);
        assert_true(account_check(bench_account(&b, 1)));
        if (s.acks == 0) {
            assert_int_equal(ingest_block(b.in, &s.source, strbuf_slice(&block)), 0);
            ingest_drain(b.in);
        }
        assert_int_equal(s.ack.seq, 3);
        assert_int_equal(test_read(b.dir).times[1][2], 1);
        strbuf_fini(&block);
        bench_close(&b);
    }
}

/* While a group is on its way to the disk the next one fills: nothing is answered before its own is there. */
static void test_two_groups(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new(), again = sender_new();
    struct frame_origin o = test_origin(1);
    open_bench(&b);
    assert_int_equal(bench_give(&b, &s, 1, 1, 5), 0);
    bench_hold(&b.disk, true);
    ingest_commit(b.in);
    bench_await_sync(&b.disk);
    assert_int_equal(bench_give(&b, &s, 1, 6, 5), 0);
    ingest_commit(b.in); /* as soon as the first is done */
    assert_int_equal(bench_give(&b, &again, 1, 3, 10),
                     0); /* 3..5 are being written, 6..10 wait, 11 and 12 are new */
    ingest_complete(b.in);
    assert_int_equal(s.acks, 0);
    assert_int_equal(ingest_held(b.in, &o), 0);
    bench_hold(&b.disk, false);
    struct pollfd done = {.fd = ingest_fd(b.in), .events = POLLIN};
    assert_int_equal(poll(&done, 1, 20000), 1);
    ingest_complete(b.in);
    assert_int_equal(s.acks, 1);
    assert_int_equal(s.ack.seq, 5);
    assert_int_equal(again.acks, 0);
    ingest_drain(b.in);
    assert_int_equal(s.ack.seq, 10);
    assert_int_equal(again.ack.seq, 12);
    assert_int_equal(bench_account(&b, 1)->passed, 12);
    assert_int_equal(bench_account(&b, 1)->duplicate, 8);
    struct test_archive a = test_read(b.dir);
    for (uint64_t n = 1; n <= 12; n++)
        assert_int_equal(a.times[1][n], 1);
    bench_close(&b);
}

/* A group that fails takes along what filled meanwhile: acknowledgements there count on it. */
static void test_second_group_fails_too(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new(), again = sender_new(), other = sender_new();
    open_bench(&b);
    assert_int_equal(bench_give(&b, &other, 2, 1, 1), 0);
    ingest_drain(b.in);
    break_disk(&b, true);
    assert_int_equal(bench_give(&b, &s, 1, 1, 5), 0);
    ingest_commit(b.in);
    assert_int_equal(bench_give(&b, &again, 1, 1, 5), 0); /* nothing of it is new */
    assert_int_equal(bench_give(&b, &other, 2, 2, 1), 0);
    ingest_drain(b.in);
    assert_int_equal(s.refusals + again.refusals + other.refusals, 3);
    assert_int_equal(s.acks + again.acks, 0);
    assert_int_equal(bench_account(&b, 1)->retried, 10);
    assert_int_equal(bench_account(&b, 1)->held.n, 0);
    break_disk(&b, false);
    assert_int_equal(bench_give(&b, &again, 1, 1, 5), 0);
    assert_int_equal(bench_give(&b, &other, 2, 2, 1), 0);
    ingest_drain(b.in);
    assert_int_equal(again.ack.seq, 5);
    assert_int_equal(other.ack.seq, 2);
    assert_int_equal(test_read(b.dir).times[1][5], 1);
    bench_close(&b);
}

/* A block of fifteen events, nearly as large as one may be. */
static void large_block(struct strbuf *out, uint64_t epoch)
{
    static char text[60000];
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct block_writer *writer = block_writer_create();
    struct batch_origin o = {.producer = {1}, .epoch = epoch, .first_seq = 1};
    memset(text, 't', sizeof text);
    for (uint64_t n = 1; n <= 15; n++) {
        text[n] = (char)('a' + n);
        const struct named_value v = {SLICE_LIT("t"), value_text(slice_of(text, sizeof text))};
        const struct event_head head = {.name = SLICE_LIT("e")};
        assert_int_equal(batch_builder_add(builder, &head, &v, 1, NULL), 0);
    }
    struct batch *b = batch_builder_finish(builder, NULL);
    for (size_t i = 0; i < b->n; i++)
        assert_int_equal(block_writer_add(writer, &b->events[i]), 0);
    assert_int_equal(block_writer_finish(writer, &o, out), 0);
    batch_unref(b);
    block_writer_destroy(writer);
    batch_builder_destroy(builder);
    registry_destroy(registry);
}

/* The disk hangs: senders are refused before memory runs out, and are served when it goes on. */
static void test_slow_disk(void **state)
{
    (void)state;
    struct bench b;
    struct strbuf block = {0};
    bench_init(&b);
    bench_start(&b);
    bench_hold(&b.disk, true);
    unsigned refused = 0;
    uint64_t queued = 0, epoch = 0;
    while (refused < 3) { /* many senders, a block each */
        struct sender s = sender_new();
        strbuf_reset(&block);
        large_block(&block, ++epoch);
        assert_int_equal(ingest_block(b.in, &s.source, strbuf_slice(&block)), 0);
        assert_true(s.refusals == 0 || (s.refuse.reason == REFUSE_STORAGE && s.refuse.retry_ms));
        refused += s.refusals;
        queued += s.refusals ? 0 : 15;
        ingest_forget(b.in, &s.source);
        assert_true(epoch < 200);
    }
    assert_int_equal(b.store_state, -ENOBUFS);
    assert_true(store_filled(b.store) <= STORE_GROUP_MAX);
    bench_hold(&b.disk, false);
    ingest_drain(b.in);
    assert_int_equal(b.store_state, 0);
    uint64_t passed = 0;
    for (const struct account *a = b.ledger.oldest; a; a = a->newer)
        passed += a->passed;
    assert_int_equal(passed, queued);
    assert_int_equal(queued, (epoch - 3) * 15);
    strbuf_fini(&block);
    bench_close(&b);
}

static void give_counts(struct bench *b, uint8_t producer, enum frame_class class, uint64_t taken,
                        bool is_final)
{
    struct strbuf out = {0};
    struct frame_counts c = {.origin = test_origin(producer),
                             .class = (uint8_t) class,
                             .taken = taken,
                             .passed = taken,
                             .is_final = is_final};
    frame_put_counts(&out, &c);
    ingest_counts(b->in, slice_from(strbuf_slice(&out), FRAME_HEAD), &c);
    strbuf_fini(&out);
}

static uint64_t counts_records(const struct bench *b)
{
    uint64_t n = 0;
    struct journal *j;
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_open(b->dir, &(struct journal_options){.flags = JOURNAL_READONLY}, &j), 0);
    assert_int_equal(journal_reader_open(j, 0, &r), 0);
    while (journal_reader_next(r, &item) == 0)
        n += item.type == STORE_COUNTS;
    journal_reader_close(r);
    journal_close(j);
    return n;
}

/* Those of events are journalled, those of samples once a minute and at the end; all are known at once. */
static void test_counts(void **state)
{
    (void)state;
    struct bench b;
    struct frame_counts c;
    open_bench(&b);
    for (uint64_t n = 1; n <= 5; n++) {
        give_counts(&b, 1, CLASS_EVENTS, n, false);
        give_counts(&b, 2, CLASS_SAMPLES, n, n == 5);
    }
    give_counts(&b, 1, CLASS_SAMPLES, 9, false); /* can't be */
    ingest_drain(b.in);
    assert_int_equal(counts_records(&b), 5 + 2);
    assert_int_equal(bench_account(&b, 1)->class, CLASS_EVENTS);
    assert_true(bench_account(&b, 2)->is_closed);
    bench_restart(&b);
    assert_int_equal(frame_get_counts(account_counts(bench_account(&b, 2)), &c), 0);
    assert_int_equal(c.taken, 5);
    assert_true(bench_account(&b, 2)->is_closed);
    bench_close(&b);
}

/* A goodbye is remembered. */
static void test_end_epoch(void **state)
{
    (void)state;
    struct bench b;
    struct sender s = sender_new();
    struct frame_origin o = test_origin(1);
    open_bench(&b);
    assert_int_equal(bench_give(&b, &s, 1, 1, 3), 0);
    ingest_drain(b.in);
    ingest_end_epoch(b.in, &o);
    assert_int_equal(bench_give(&b, &s, 1, 4, 3), 0);
    ingest_drain(b.in);
    bench_restart(&b);
    assert_true(bench_account(&b, 1)->is_closed);
    assert_int_equal(bench_account(&b, 1)->passed, 6);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acknowledged_after_commit),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_commit_fails),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_unreadable_block),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_judged),
        cmocka_unit_test(test_without_origin),
        cmocka_unit_test(test_sender_gone),
        cmocka_unit_test(test_random_faults),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_two_groups),
        cmocka_unit_test(test_second_group_fails_too),
        cmocka_unit_test(test_slow_disk),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_end_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
