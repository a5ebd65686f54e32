/* SPDX-License-Identifier: Apache-2.0 */
/* Records are made here by hand, so that they can be wrong; what a gateway writes is in sampler_test.c. */
#include "unit/gateway/agents.h"
#include "unit/gateway/blocks.h"

#include "base/mem.h"
#include "gateway/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { ENDS_MAX = 32 };

/* A journal of one segment, and who sends to it: sampler 1, producer 2. */
struct fixture {
    char dir[64];
    struct journal *j;
    struct agent agent;
    struct registry *registry;
    struct samples_scratch *scratch;
    struct samples_reader *reader; /* for snapshots of what the agent announced */
    struct strbuf record;
    uint64_t ends[ENDS_MAX]; /* of the segment's file, behind each record */
    size_t n;
};

/* Ends the record. */
static void commit(struct fixture *f)
{
    char path[128];
    struct stat st;
    assert_int_equal(journal_append(f->j, STORE_SAMPLES, strbuf_slice(&f->record), NULL), 0);
    assert_int_equal(journal_commit(f->j), 0);
    strbuf_reset(&f->record);
    (void)snprintf(path, sizeof path, "%s/%016llx.seg", f->dir, 1ULL);
    assert_int_equal(stat(path, &st), 0);
    assert_true(f->n < ENDS_MAX);
    f->ends[f->n++] = (uint64_t)st.st_size;
}

/* The stream that the agent has announced last. */
static void put_stream(struct fixture *f)
{
    struct samples_snapshot stream;
    struct diag why;
    assert_int_equal(samples_reader_stream(f->reader, strbuf_slice(&f->agent.stream_payload), &why), 0);
    assert_int_equal(samples_reader_snapshot(f->reader, f->agent.stream, &stream), 0);
    record_put_stream_head(&f->record, 1, 1, &stream);
    strbuf_add_slice(&f->record, stream.state);
}

static void put_packet(struct fixture *f, struct slice packet, uint32_t rows)
{
    char head[RECORD_PACKET_HEAD];
    size_t n = record_put_packet_head(head, 1, rows, packet.n);
    strbuf_add_slice(&f->record, slice_of(head, n));
    strbuf_add_slice(&f->record, packet);
}

/* Record 1: everything that the agent has announced. */
static void fixture_open(struct fixture *f, enum samples_flags flags)
{
    static const struct samples_context context = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    const struct frame_origin origin = test_origin(2);
    struct diag why;
    *f = (struct fixture){.dir = "/tmp/gridline-batches-XXXXXX"};
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(journal_open(f->dir, &(struct journal_options){.flags = JOURNAL_OWN_SEGMENTS}, &f->j),
                     0);
    agent_open(&f->agent, flags);
    f->registry = registry_create();
    f->scratch = samples_scratch_create();
    f->reader = samples_reader_create(f->registry, f->scratch);
    assert_int_equal(samples_reader_schema(f->reader, strbuf_slice(&f->agent.schema_payload), &why), 0);
    record_put_schema(&f->record, 1, f->agent.schema);
    record_put_sampler(&f->record, 1, &origin, SLICE_LIT("h"), &context);
    put_stream(f);
    commit(f);
}

static void fixture_close(struct fixture *f)
{
    samples_reader_destroy(f->reader);
    samples_scratch_destroy(f->scratch);
    registry_destroy(f->registry);
    agent_close(&f->agent);
    strbuf_fini(&f->record);
    journal_close(f->j);
    test_remove(f->dir);
}

/* The record numbered so can't be read any more. */
static void damage(const struct fixture *f, size_t number)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%016llx.seg", f->dir, 1ULL);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t at = (off_t)f->ends[number - 1] - 9;
    char c;
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c = (char)~c;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

static uint64_t count_rows(const struct test_archive *a, uint64_t first, uint64_t last)
{
    uint64_t n = 0;
    for (uint64_t i = first; i <= last; i++)
        n += a->times[2][i];
    return n;
}

/* A record with a packet of two rows: the agent's next two. */
static void commit_rows(struct fixture *f)
{
    put_packet(f, agent_packet(&f->agent, 2), 2);
    commit(f);
}

/* The same rows in a packet with a flag that nobody knows. */
static void commit_bad_rows(struct fixture *f)
{
    char packet[64];
    struct slice good = agent_packet(&f->agent, 2);
    assert_true(good.n <= sizeof packet);
    memcpy(packet, good.p, good.n);
    packet[0] |= 4;
    put_packet(f, slice_of(packet, good.n), 2);
    commit(f);
}

/* A packet that can't be read (found by records_fuzz): those behind it are read whether it was itself asked
 * for or only walked over. Without ROLL they need nothing of it; with ROLL nobody may guess. */
static void test_bad_packet(void **state)
{
    (void)state;
    for (int is_rolling = 0; is_rolling < 2; is_rolling++) {
        struct fixture f;
        fixture_open(&f, is_rolling ? SAMPLES_ROLL : 0);
        commit_rows(&f);     /* record 2: rows 1 and 2 */
        commit_bad_rows(&f); /* 3 and 4 */
        commit_rows(&f);     /* 5 and 6 */
        commit_rows(&f);     /* 7 and 8 */
        for (uint64_t from = 1; from <= 5; from++) {
            struct test_archive a = test_read_from(f.dir, from);
            assert_int_equal(count_rows(&a, 1, 2), from <= 2 ? 2 : 0);
            assert_int_equal(count_rows(&a, 3, 4), 0);
            assert_int_equal(count_rows(&a, 5, 6), from <= 4 && !is_rolling ? 2 : 0);
            assert_int_equal(count_rows(&a, 7, 8), is_rolling ? 0 : 2);
            uint64_t bad = from <= 3 ? 2 : 0, behind = from <= 4 ? 4 : 2;
            assert_int_equal(a.unreadable, bad + (is_rolling ? behind : 0));
        }
        fixture_close(&f);
    }
}

/* Records are lost that held as many packets as a packet's number can tell, which has four bits: those behind
 * look as if they were next. */
static void test_lost_packets(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, SAMPLES_ROLL);
    for (int i = 0; i < 16; i++)
        put_packet(&f, agent_packet(&f.agent, 1), 1);
    commit(&f);
    commit_rows(&f);
    damage(&f, 2);
    for (uint64_t from = 1; from <= 3; from++) {
        struct test_archive a = test_read_from(f.dir, from);
        assert_int_equal(a.lost, from <= 2 ? 1 : 0);
        assert_int_equal(a.unreadable, 2);
        assert_int_equal(count_rows(&a, 1, 18), 0);
    }
    fixture_close(&f);
}

/* The record that announced a stream is lost: rows of others are read, and its own are counted. */
static void test_lost_stream(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, 0);
    const uint32_t first = f.agent.stream;
    agent_announce_stream(&f.agent, "other");
    put_stream(&f);
    commit(&f);
    for (uint64_t n = 1; n <= 3; n++) { /* a row that can be read, and two that can't */
        const struct value v = value_uint(n);
        assert_int_equal(samples_writer_add(f.agent.w, n == 1 ? first : f.agent.stream, 7, &v), 0);
    }
    assert_int_equal(samples_writer_finish(f.agent.w, 1, NULL, &f.agent.packet), 0);
    put_packet(&f, strbuf_slice(&f.agent.packet), 3);
    commit(&f);
    damage(&f, 2);
    for (uint64_t from = 1; from <= 3; from++) {
        struct test_archive a = test_read_from(f.dir, from);
        assert_int_equal(a.lost, from <= 2 ? 1 : 0);
        assert_int_equal(a.records, 1);
        assert_int_equal(count_rows(&a, 1, 1), 1);
        assert_int_equal(a.unreadable, 2);
    }
    fixture_close(&f);
}

/* Reads from a record on while the nth allocation fails: every row is given or counted. 1: nothing failed. */
static int read_without_memory(const struct fixture *f, uint64_t from, uint64_t nth, uint64_t rows)
{
    struct journal_batches *b;
    struct journal_batch item;
    uint64_t given = 0, unreadable = 0;
    int r, failures = 0;
    assert_int_equal(journal_batches_open(f->j, from, &b), 0);
    mem_fail_after(nth);
    while ((r = journal_batches_next(b, &item)) == 0 || r == -ENOMEM) {
        failures += r == -ENOMEM;
        if (r == 0 && item.kind == JOURNAL_BATCH)
            given += item.batch->n;
        else if (r == 0)
            unreadable += item.count;
    }
    mem_fail_after(0);
    assert_int_equal(r, E_NODATA);
    assert_int_equal(given + unreadable, rows);
    assert_true(unreadable == 0 || unreadable == 2); /* the packet whose batch could not be made */
    assert_int_equal(journal_batches_done(b), f->n);
    journal_batches_close(b);
    return failures == 0 && unreadable == 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int is_rolling = 0; is_rolling < 2; is_rolling++) {
        struct fixture f;
        fixture_open(&f, is_rolling ? SAMPLES_ROLL : 0);
        for (int i = 0; i < 4; i++)
            commit_rows(&f); /* records 2 to 5 */
        for (uint64_t from = 2; from <= 5; from++) {
            uint64_t nth = 1;
            while (!read_without_memory(&f, from, nth, (6 - from) * 2))
                nth++;
            assert_true(nth > 5);
        }
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_packet),
        cmocka_unit_test(test_lost_packets),
        cmocka_unit_test(test_lost_stream),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
