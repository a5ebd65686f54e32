/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gateway/bench.h"

#include "base/mem.h"
#include "gateway/records.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

static const enum samples_flags both[] = {SAMPLES_ROLL, 0};

/* Rows first..last of producer 2, each once, and no others. */
static void expect_rows(const struct test_archive *a, uint64_t first, uint64_t last)
{
    for (uint64_t n = 0; n < TEST_NUMBERS; n++)
        if (a->times[2][n] != (n >= first && n <= last))
            fail_msg("row %u is there %u times", (unsigned)n, (unsigned)a->times[2][n]);
}

/* Samples wait for others, are never answered, and are there after the commit; with events for whoever wants
 * them. */
static void test_samples(void **state)
{
    (void)state;
    for (int with_batches = 0; with_batches < 2; with_batches++) {
        struct bench b;
        struct agent agent;
        struct sender sender = sender_new();
        bench_init(&b);
        b.options.on_batch = with_batches ? bench_on_batch : NULL;
        bench_start(&b);
        agent_open(&agent, 0);
        struct sampler *s = bench_sampler(&b, 2, &agent);
        struct frame_origin o = test_origin(2);
        assert_memory_equal(sampler_origin(s), &o, sizeof o);
        assert_int_equal(ingest_delay_ms(b.in), -1); /* nothing is written of one that is silent */
        bench_samples(s, &agent, 5);
        assert_int_equal(ingest_delay_ms(b.in), INGEST_SAMPLES_MS);
        struct account *a = bench_account(&b, 2);
        assert_int_equal(a->class, CLASS_SAMPLES);
        assert_int_equal(a->queued, 5);
        assert_int_equal(bench_give(&b, &sender, 1, 1, 2), 0);
        assert_int_equal(ingest_delay_ms(b.in), INGEST_DELAY_MS);
        assert_int_equal(b.batches, 0);
        ingest_drain(b.in);
        assert_int_equal(ingest_delay_ms(b.in), -1);
        assert_int_equal(b.batches, with_batches ? 2 : 0);
        assert_int_equal(b.batch_events, with_batches ? 7 : 0);
        assert_int_equal(a->passed, 5);
        assert_int_equal(account_lost(a), 0);
        agent.next = 21; /* 6..20 are lost on their way */
        bench_samples(s, &agent, 3);
        ingest_drain(b.in);
        assert_int_equal(a->highest, 23);
        assert_int_equal(account_lost(a), 15);
        struct test_archive archive = test_read(b.dir);
        assert_int_equal(archive.times[2][5] + archive.times[2][21] + archive.times[2][23], 3);
        assert_int_equal(archive.times[2][6] + archive.times[2][20], 0);
        assert_int_equal(archive.records, 3);
        sampler_destroy(s);
        bench_restart(&b);
        a = bench_account(&b, 2);
        assert_int_equal(a->class, CLASS_SAMPLES);
        assert_int_equal(a->passed, 8);
        assert_int_equal(a->highest, 23);
        assert_int_equal(account_lost(a), 15);
        agent_close(&agent);
        bench_close(&b);
    }
}

/* Out of order, as datagrams come: the same sums. */
static void test_out_of_order(void **state)
{
    (void)state;
    struct bench b;
    struct agent agent;
    struct diag why;
    char kept[5][64];
    size_t sizes[5];
    bench_open(&b);
    agent_open(&agent, 0);
    struct sampler *s = bench_sampler(&b, 2, &agent);
    for (int i = 0; i < 5; i++) {
        struct slice packet = agent_packet(&agent, 2);
        memcpy(kept[i], packet.p, packet.n);
        sizes[i] = packet.n;
    }
    static const int order[] = {3, 0, 4, 1}; /* 2 never comes: rows 5 and 6 */
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sampler_packet(s, slice_of(kept[order[i]], sizes[order[i]]), &why), 0);
    struct account *a = bench_account(&b, 2);
    assert_int_equal(a->highest, 10);
    assert_int_equal(account_lost(a), 2);
    ingest_drain(b.in);
    struct test_archive archive = test_read(b.dir);
    for (uint64_t n = 1; n <= 10; n++)
        assert_int_equal(archive.times[2][n], n != 5 && n != 6);
    sampler_destroy(s);
    agent_close(&agent);
    bench_close(&b);
}

/* Rows of a stream that was not announced: counted, asked for, and readable once it is. */
static void test_no_schema(void **state)
{
    (void)state;
    struct bench b;
    struct agent agent;
    struct diag why;
    bench_open(&b);
    agent_open(&agent, 0);
    struct sampler *s = bench_sampler(&b, 2, &agent);
    bench_samples(s, &agent, 2);
    ingest_drain(b.in);
    assert_false(sampler_wants_announcements(s));
    for (uint64_t n = 3; n <= 5; n++) { /* row 3, and then two that are not known */
        const struct value v = value_uint(n);
        if (n == 4)
            agent_announce_stream(&agent, "other");
        assert_int_equal(samples_writer_add(agent.w, agent.stream, 7, &v), 0);
    }
    strbuf_reset(&agent.packet);
    assert_int_equal(samples_writer_finish(agent.w, 3, NULL, &agent.packet), 0);
    assert_int_equal(sampler_packet(s, strbuf_slice(&agent.packet), &why), 0);
    agent.next = 6;
    struct account *a = bench_account(&b, 2);
    assert_int_equal(a->taken, 5);
    assert_int_equal(a->no_schema, 2);
    assert_int_equal(a->queued, 1);
    assert_true(sampler_wants_announcements(s));
    assert_false(sampler_wants_announcements(s));
    bench_samples(s, &agent, 4); /* none of it is known: not journalled */
    assert_int_equal(a->no_schema, 6);
    assert_int_equal(sampler_stream(s, strbuf_slice(&agent.stream_payload), &why), 0);
    bench_samples(s, &agent, 1);
    ingest_drain(b.in);
    assert_int_equal(a->passed, 4);
    assert_int_equal(account_lost(a), 0);
    struct test_archive archive = test_read(b.dir);
    assert_int_equal(archive.times[2][3] + archive.times[2][10], 2);
    assert_int_equal(archive.times[2][4] + archive.times[2][6], 0);
    sampler_destroy(s);
    bench_restart(&b);
    a = bench_account(&b, 2);
    assert_int_equal(a->passed, 4);
    assert_int_equal(a->no_schema,
                     2); /* of packets that were journalled; the others were since the checkpoint */
    assert_int_equal(account_lost(a), 4);
    agent_close(&agent);
    bench_close(&b);
}

/* A new segment in the middle: each stands alone, whatever the reader starts with. */
static void test_segments(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct bench b;
        struct agent agent;
        bench_init(&b);
        b.store_options.segment_bytes = 4096;
        bench_start(&b);
        agent_open(&agent, both[k]);
        struct sampler *s = bench_sampler(&b, 2, &agent);
        for (int i = 0; i < 600; i++) {
            bench_samples(s, &agent, 1 + (uint32_t)i % 3);
            if (i % 7 == 0)
                ingest_drain(b.in);
        }
        ingest_drain(b.in);
        uint64_t last = agent.next - 1;
        struct store_stats now;
        store_stats(b.store, &now);
        assert_true(now.segments > 3);
        struct test_archive all = test_read(b.dir);
        expect_rows(&all, 1, last);
        uint64_t before = last;
        for (uint64_t from = now.first; from <= now.last; from++) {
            struct test_archive a = test_read_from(b.dir, from);
            uint64_t n = 0;
            for (uint64_t i = 1; i <= last; i++)
                n += a.times[2][i];
            assert_int_equal(a.unreadable + a.lost, 0);
            assert_true(n <= before);
            expect_rows(&a, last - n + 1, last);
            before = n;
        }
        /* Segments that are gone take nothing with them. */
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%016llx.seg", b.dir, 1ULL);
        sampler_destroy(s);
        bench_stop(&b);
        assert_int_equal(unlink(path), 0);
        struct test_archive rest = test_read_from(b.dir, 0);
        assert_int_equal(rest.unreadable, 0);
        uint64_t n = 0;
        for (uint64_t i = 1; i <= last; i++)
            n += rest.times[2][i];
        assert_true(n > 0 && n < last);
        expect_rows(&rest, last - n + 1, last);
        bench_start(&b);
        assert_int_equal(bench_account(&b, 2)->passed, last); /* the checkpoint is in a later one */
        agent_close(&agent);
        bench_close(&b);
    }
}

/* A group that can't be written: its samples are refused, and so are those of the group that filled
 * meanwhile. What comes then is whole, also where each packet needs those before it. */
static void test_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct bench b;
        struct agent agent;
        bench_open(&b);
        agent_open(&agent, both[k]);
        struct sampler *s = bench_sampler(&b, 2, &agent);
        bench_samples(s, &agent, 4);
        ingest_drain(b.in);
        struct account *a = bench_account(&b, 2);
        bench_samples(s, &agent, 3);
        bench_hold(&b.disk, true);
        ingest_commit(b.in);
        bench_await_sync(&b.disk);
        bench_samples(s, &agent, 2);
        assert_int_equal(a->queued, 5);
        atomic_store(&b.disk.fails, -EIO); /* too late for the first */
        bench_hold(&b.disk, false);
        ingest_drain(b.in);
        assert_int_equal(a->passed, 7);
        assert_int_equal(a->refused, 2);
        bench_samples(s, &agent, 1);
        ingest_commit(b.in);
        ingest_drain(b.in);
        assert_true(b.store_state < 0);
        assert_int_equal(a->refused, 3);
        atomic_store(&b.disk.fails, 0);
        bench_samples(s, &agent, 5);
        ingest_drain(b.in);
        assert_int_equal(b.store_state, 0);
        assert_int_equal(a->passed, 12);
        assert_int_equal(a->taken, 15);
        assert_int_equal(account_lost(a), 0);
        struct test_archive archive = test_read(b.dir);
        for (uint64_t n = 1; n <= 15; n++)
            assert_int_equal(archive.times[2][n], n <= 7 || n >= 11);
        sampler_destroy(s);
        agent_close(&agent);
        bench_close(&b);
    }
}

/* A reader beside a writer whose disk is full again and again: a group that failed has left its records in
 * the file, and others with the same numbers come in the next segment, its announcements first. The reader,
 * told what is settled, gives what was passed, and nothing twice. */
static void test_full_disk_followed(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct bench b;
        struct agent agent;
        struct sender sender = sender_new();
        struct journal *j;
        struct journal_batches *batches;
        struct test_archive got = {0};
        uint32_t expected[TEST_NUMBERS] = {0};
        bench_open(&b);
        agent_open(&agent, both[k]);
        struct sampler *s = bench_sampler(&b, 2, &agent);
        struct account *samples = bench_account(&b, 2), *events = bench_account(&b, 1);
        atomic_store(&b.disk.is_torn, true);
        assert_int_equal(journal_open(b.dir, &(struct journal_options){.flags = JOURNAL_READONLY}, &j), 0);
        assert_int_equal(journal_batches_open(j, 0, &batches), 0);
        for (unsigned round = 0; round < 40; round++) {
            const bool is_full = round % 5 >= 3;
            const uint64_t first = agent.next, held = events->passed;
            atomic_store(&b.disk.fails, is_full ? -ENOSPC : 0);
            bench_samples(s, &agent, 2);
            sender.source.is_behind = false;
            assert_int_equal(bench_give(&b, &sender, 1, held + 1, 3), 0); /* what is not held comes again */
            bench_samples(s, &agent, 1);
            ingest_drain(b.in);
            for (uint64_t n = first; n < agent.next; n++)
                expected[n] = !is_full;
            assert_int_equal(journal_follow(j, ingest_settled(b.in)), 0);
            test_archive_read(&got, batches);
        }
        assert_memory_equal(got.times[2], expected, sizeof expected);
        for (uint64_t n = 1; n < TEST_NUMBERS; n++)
            assert_int_equal(got.times[1][n], n <= events->passed);
        assert_int_equal(samples->passed + samples->refused, samples->taken);
        assert_int_equal(got.lost + got.unreadable, 0);
        journal_batches_close(batches);
        journal_close(j);
        sampler_destroy(s);
        agent_close(&agent);
        bench_close(&b);
    }
}

/* The disk hangs: memory is bounded, and what does not fit is counted. */
static void test_slow_disk(void **state)
{
    (void)state;
    struct bench b;
    struct agent agent;
    struct diag why;
    bench_open(&b);
    agent_open(&agent, 0);
    struct sampler *s = bench_sampler(&b, 2, &agent);
    struct account *a = bench_account(&b, 2);
    struct slice packet = agent_packet(&agent, 4000);
    bench_hold(&b.disk, true);
    while (a->refused < 40000)
        assert_int_equal(sampler_packet(s, packet, &why), 0);
    assert_int_equal(b.store_state, -ENOBUFS);
    assert_true(store_filled(b.store) <= STORE_GROUP_MAX);
    uint64_t queued = a->queued;
    assert_int_equal(a->taken, queued + a->refused);
    assert_true(queued / 4000 * packet.n <= 2 * STORE_GROUP_MAX);
    bench_hold(&b.disk, false);
    ingest_drain(b.in);
    assert_int_equal(a->passed, queued);
    assert_int_equal(b.store_state, 0);
    sampler_destroy(s);
    agent_close(&agent);
    bench_close(&b);
}

/* A damaged record of samples: what it held is lost and what needs it is not guessed at. */
static void test_damage(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct bench b;
        struct agent agent;
        bench_open(&b);
        agent_open(&agent, both[k]);
        struct sampler *s = bench_sampler(&b, 2, &agent);
        uint64_t ends[4];
        struct stat st;
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%016llx.seg", b.dir, 1ULL);
        for (int i = 0; i < 4; i++) {
            bench_samples(s, &agent, 10);
            ingest_drain(b.in);
            assert_int_equal(stat(path, &st), 0);
            ends[i] = (uint64_t)st.st_size;
        }
        sampler_destroy(s);
        bench_stop(&b);
        int fd = open(path, O_RDWR | O_CLOEXEC); /* the third packet */
        assert_int_equal(pwrite(fd, "x", 1, (off_t)ends[2] - 9), 1);
        assert_int_equal(close(fd), 0);
        struct test_archive a = test_read_from(b.dir, 0);
        assert_int_equal(a.lost, 1);
        assert_int_equal(a.unreadable, k == 0 ? 10 : 0); /* with ROLL the fourth needs it */
        for (uint64_t n = 1; n <= 40; n++)
            assert_int_equal(a.times[2][n], n <= 20 || (n > 30 && k == 1));
        bench_start(&b);
        assert_int_equal(bench_account(&b, 2)->passed, 30); /* the fourth is in the journal all the same */
        assert_int_equal(account_lost(bench_account(&b, 2)), 10);
        agent_close(&agent);
        bench_close(&b);
    }
}

/* What is not as it should be. */
static void test_malformed(void **state)
{
    (void)state;
    struct bench b;
    struct agent agent;
    struct sender sender = sender_new();
    struct diag why;
    struct sampler *s;
    static char host[EVENT_ORIGIN_MAX + 1];
    struct frame_origin one = test_origin(1), three = test_origin(3);
    bench_open(&b);
    agent_open(&agent, 0);
    assert_int_equal(bench_give(&b, &sender, 1, 1, 2), 0);
    assert_int_equal(sampler_create(b.in, &one, SLICE_LIT("h"), &s), E_PROTO); /* has events */
    assert_int_equal(sampler_create(b.in, &three, slice_of(host, sizeof host), &s), E_LIMIT);
    s = bench_sampler(&b, 2, &agent);
    assert_int_equal(sampler_packet(s, SLICE_LIT(""), &why), E_PROTO);
    assert_int_equal(sampler_schema(s, SLICE_LIT("x"), &why), E_PROTO);
    assert_int_equal(sampler_stream(s, SLICE_LIT("x"), &why), E_PROTO);
    assert_int_equal(bench_account(&b, 2)->taken, 0);
    bench_samples(s, &agent, 1);
    assert_int_equal(bench_give(&b, &sender, 2, 1, 2), 0); /* events of an origin of samples */
    assert_int_equal(sender.refusals, 1);
    assert_int_equal(sender.refuse.retry_ms, 0);
    assert_int_equal(bench_account(&b, 2)->refused, 2);
    ingest_drain(b.in);
    assert_int_equal(sender.ack.seq, 2);
    bench_check(&b);
    sampler_destroy(s);
    agent_close(&agent);
    bench_close(&b);
}

/* Whatever allocation fails: an error or counted, the sums hold, and what is in the journal can be read. */
static void test_no_memory(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        for (uint64_t nth = 1; nth < 40; nth++) {
            struct bench b;
            struct agent agent;
            struct diag why;
            bench_init(&b);
            b.options.on_batch = nth % 2 ? bench_on_batch : NULL;
            bench_start(&b);
            agent_open(&agent, both[k]);
            struct sampler *s = bench_sampler(&b, 2, &agent);
            struct account *a = bench_account(&b, 2);
            struct slice packet = agent_packet(&agent, 3);
            mem_fail_after(nth);
            int r = sampler_packet(s, packet, &why);
            ingest_drain(b.in);
            mem_fail_after(0);
            assert_true(r == 0 || r == -ENOMEM);
            assert_int_equal(a->taken, r == 0 ? 3 : 0);
            assert_true(account_check(a));
            if (r == 0 || k == 1) { /* with ROLL the connection is over then */
                bench_samples(s, &agent, 4);
                ingest_drain(b.in);
                assert_int_equal(a->passed + a->refused, r == 0 ? 7 : 4);
            }
            struct test_archive archive = test_read(b.dir);
            uint64_t n = 0;
            for (uint64_t i = 1; i <= 7; i++)
                n += archive.times[2][i];
            assert_int_equal(n, a->passed);
            sampler_destroy(s);
            agent_close(&agent);
            bench_close(&b);
        }
    }
}

/* The vector of a worker. */
enum { VECTOR = 18 };

static struct schema *vector_schema(void)
{
    struct field fields[VECTOR];
    char names[VECTOR][24];
    struct schema *s;
    for (size_t i = 0; i < VECTOR; i++) {
        (void)snprintf(names[i], sizeof names[i], "vector_reading_%zu", i);
        fields[i] = (struct field){.name = slice_str(names[i]), .kind = KIND_GAUGE};
        fields[i].type = i % 3 ? VALUE_FLOAT : VALUE_UINT;
        fields[i].unit = SLICE_LIT("1/s");
        fields[i].help = SLICE_LIT("what it is, in a phrase that people can read");
    }
    assert_int_equal(schema_create(SLICE_LIT("vector"), fields, VECTOR, &s), 0);
    return s;
}

static void vector_values(uint64_t *seed, struct value *v)
{
    for (size_t i = 0; i < VECTOR; i++)
        v[i] = i % 3 ? value_float((double)(test_random(seed) % 100000) / 100)
                     : value_uint(test_random(seed) % 100000);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Many workers with the same vector: one schema in the journal; what one takes in memory and a packet costs
 * is printed. */
static void many(uint32_t workers)
{
    enum { WORKERS = 2000, ROUNDS = 40 };
    struct bench b;
    struct strbuf schema = {0}, stream = {0}, packet = {0};
    struct value values[VECTOR];
    uint64_t seed = 5, best = UINT64_MAX;
    static struct sampler *samplers[WORKERS];
    struct samples_writer *w = samples_writer_create(0);
    struct schema *vector = vector_schema();
    uint32_t number;
    struct diag why;
    bench_open(&b);
    vector_values(&seed, values);
    assert_int_equal(
        samples_writer_announce(w, vector, SLICE_LIT("agent"), values, &schema, &stream, &number), 0);
    size_t accounts = 0, readers = 0;
    for (uint32_t i = 0; i < workers; i++) {
        struct frame_origin o = {.epoch = 1};
        memcpy(o.producer, &(uint32_t){i + 1}, 4);
        size_t at = mallinfo2().uordblks;
        (void)ledger_account(&b.ledger, &o);
        size_t made = mallinfo2().uordblks;
        assert_int_equal(sampler_create(b.in, &o, SLICE_LIT("worker-12345.example"), &samplers[i]), 0);
        assert_int_equal(sampler_schema(samplers[i], strbuf_slice(&schema), &why), 0);
        assert_int_equal(sampler_stream(samplers[i], strbuf_slice(&stream), &why), 0);
        accounts += made - at;
        readers += i ? mallinfo2().uordblks - made : 0; /* the first brings what all share */
    }
    for (int round = 0; round < ROUNDS; round++) {
        vector_values(&seed, values);
        strbuf_reset(&packet);
        assert_int_equal(samples_writer_add(w, number, 5, values), 0);
        assert_int_equal(samples_writer_finish(w, (uint64_t)round + 1, NULL, &packet), 0);
        uint64_t start = cpu_ns();
        for (uint32_t i = 0; i < workers; i++)
            if (sampler_packet(samplers[i], strbuf_slice(&packet), &why) < 0)
                fail();
        uint64_t took = cpu_ns() - start;
        best = took < best ? took : best;
        ingest_drain(b.in);
    }
    print_message("%u workers: a packet of %zu bytes %.0f ns; a sampler: %.0f bytes, and its account %.0f\n",
                  workers, packet.n, (double)best / workers, (double)readers / (workers - 1),
                  (double)accounts / workers);
    struct store_stats now;
    store_stats(b.store, &now);
    assert_true(now.bytes < (1 << 20) + workers * (ROUNDS * (packet.n + 12) + 200));
    for (uint32_t i = 0; i < workers; i++)
        sampler_destroy(samplers[i]);
    for (const struct account *a = b.ledger.oldest; a; a = a->newer)
        assert_int_equal(a->passed, ROUNDS);
    bench_restart(&b);
    assert_int_equal(b.ledger.accounts.n, workers);
    for (const struct account *a = b.ledger.oldest; a; a = a->newer)
        assert_int_equal(a->passed, ROUNDS);
    schema_unref(vector);
    samples_writer_destroy(w);
    strbuf_fini(&schema);
    strbuf_fini(&stream);
    strbuf_fini(&packet);
    bench_close(&b);
}

static void test_many(void **state)
{
    (void)state;
    many(64);
    many(2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_out_of_order),
        cmocka_unit_test(test_no_schema),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_slow_disk),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_full_disk_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
