/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - what the tests of the gateway share: making blocks whose event i has a field n = its sequence
 * number, a store in a temporary folder, and reading it back. */
#ifndef GRIDLINE_TESTS_GATEWAY_BLOCKS_H
#define GRIDLINE_TESTS_GATEWAY_BLOCKS_H

#include "unit/test.h"

#include "base/err.h"
#include "event/block.h"
#include "gateway/journal_batches.h"
#include "gateway/store.h"
#include "net/frame.h"

#include <dirent.h>
#include <unistd.h>

static inline struct frame_origin test_origin(uint8_t producer)
{
    struct frame_origin o = {.epoch = 1};
    memset(o.producer, producer, sizeof o.producer);
    return o;
}

/* Appends a block of n events to out; the origin says from which number on. */
static inline void test_block_at(struct strbuf *out, const struct batch_origin *o, uint64_t first,
                                 int64_t time_ns, uint32_t n)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct block_writer *writer = block_writer_create();
    for (uint32_t i = 0; i < n; i++) {
        const struct named_value v = {SLICE_LIT("n"), value_uint(first + i)};
        const struct event_head head = {.time_ns = time_ns, .name = SLICE_LIT("e"), .host = SLICE_LIT("h")};
        assert_int_equal(batch_builder_add(builder, &head, &v, 1, NULL), 0);
    }
    struct batch *b = batch_builder_finish(builder, NULL);
    for (size_t i = 0; i < b->n; i++)
        assert_int_equal(block_writer_add(writer, &b->events[i]), 0);
    assert_int_equal(block_writer_finish(writer, o, out), 0);
    batch_unref(b);
    block_writer_destroy(writer);
    batch_builder_destroy(builder);
    registry_destroy(registry);
}

/* Appends a block of events first..first+n-1 to out. */
static inline void test_block(struct strbuf *out, uint8_t producer, uint64_t first, uint32_t n)
{
    struct batch_origin o = {.epoch = producer ? 1 : 0, .first_seq = producer ? first : 0};
    memset(o.producer, producer, sizeof o.producer);
    test_block_at(out, &o, first, 5, n);
}

static inline void test_remove(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
    assert_int_equal(rmdir(dir), 0);
}

enum { TEST_PRODUCERS = 4, TEST_NUMBERS = 2000 };

/* How often each event is in the journal, by producer and number; those without producer by their n. */
struct test_archive {
    uint32_t times[TEST_PRODUCERS][TEST_NUMBERS];
    uint64_t records;    /* batches: blocks, and packets of samples */
    uint64_t lost;       /* records */
    uint64_t unreadable; /* events */
};

static inline void test_archive_add(struct test_archive *a, const struct batch *b)
{
    uint8_t producer = b->origin.producer[0];
    a->records++;
    assert_true(producer < TEST_PRODUCERS);
    for (size_t i = 0; i < b->n; i++) {
        uint64_t n = event_get(&b->events[i], SLICE_LIT("n")).u;
        assert_true(n < TEST_NUMBERS);
        if (producer)
            assert_int_equal(n, b->origin.first_seq + i);
        a->times[producer][n]++;
    }
}

/* All that there is to be read now. */
static inline void test_archive_read(struct test_archive *a, struct journal_batches *batches)
{
    struct journal_batch item;
    int r;
    while ((r = journal_batches_next(batches, &item)) == 0) {
        if (item.kind == JOURNAL_BATCH)
            test_archive_add(a, item.batch);
        else if (item.kind == JOURNAL_LOST)
            a->lost += item.last - item.first + 1;
        else
            a->unreadable += item.count;
    }
    assert_int_equal(r, E_NODATA);
}

/* What the journal holds from this record on, also of one in use. */
static inline struct test_archive test_read_from(const char *dir, uint64_t from)
{
    struct test_archive a = {0};
    struct journal *j;
    struct journal_batches *batches;
    assert_int_equal(journal_open(dir, &(struct journal_options){.flags = JOURNAL_READONLY}, &j), 0);
    assert_int_equal(journal_batches_open(j, from, &batches), 0);
    test_archive_read(&a, batches);
    journal_batches_close(batches);
    journal_close(j);
    return a;
}

static inline struct test_archive test_read(const char *dir)
{
    struct test_archive a = test_read_from(dir, 0);
    assert_int_equal(a.lost, 0);
    assert_int_equal(a.unreadable, 0);
    return a;
}

#endif
