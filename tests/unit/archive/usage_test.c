/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/archive/stored.h"

#include "archive/usage.h"
#include "base/clock.h"

static uint64_t seen_bytes;

static void progress(uint64_t bytes)
{
    assert_true(bytes >= seen_bytes);
    seen_bytes = bytes;
}

static uint64_t count(struct usage *u, enum usage_kind kind, size_t want, uint64_t *bytes)
{
    size_t n;
    uint64_t rows = 0;
    const struct usage_row *v = usage_rows(u, kind, &n);
    assert_int_equal(n, want);
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || v[i - 1].bytes >= v[i].bytes);
        assert_int_equal(v[i].from_ns, STORED_FROM);
        assert_int_equal(v[i].to_ns, STORED_FROM + (100 + STORED_ROWS - 1) * NS_PER_S);
        assert_false(v[i].is_overflow);
        rows += v[i].rows;
        *bytes += v[i].bytes;
    }
    return rows;
}

static void adds_up(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    for (unsigned i = 0; i < 5; i++)
        (void)stored_put(p, 1 + i * STORED_ROWS, STORED_FROM + (i % 2) * 100 * NS_PER_S, 1);
    assert_int_equal(partition_commit(p), 0);
    partition_close(p);
    struct usage *u = NULL;
    struct diag why = {0};
    uint64_t bytes = 0, blobs = 0;
    size_t n;
    seen_bytes = 0;
    assert_int_equal(usage_gather(d.path, progress, &u, &why), 0);
    const uint64_t rows = (uint64_t)5 * 2 * STORED_ROWS;
    assert_int_equal(count(u, USAGE_PARTITION, 1, &bytes), rows);
    assert_int_equal(bytes, usage_bytes(u));
    assert_int_equal(bytes, seen_bytes);
    assert_int_equal(count(u, USAGE_EVENT, 2, &blobs), rows);
    assert_true(blobs > 0 && blobs < bytes);
    assert_int_equal(usage_rows(u, USAGE_EVENT, &n)[0].streams, 1);
    assert_int_equal(count(u, USAGE_STREAM, 2, &bytes), rows);
    assert_int_equal(bytes, blobs);
    assert_int_equal(count(u, USAGE_PRODUCER, 1, &bytes), rows);
    assert_int_equal(bytes, blobs);
    assert_int_equal(usage_rows(u, USAGE_PRODUCER, &n)[0].streams, 2);
    assert_int_equal(usage_rows(u, USAGE_PARTITION, &n)[0].streams, 2);
    assert_int_equal(usage_rows(u, USAGE_PRODUCER, &n)[0].key.p[0], 7);
    assert_int_equal(usage_unreadable(u), 0);
    usage_destroy(u);

    /* What can't be read is counted, and the rest is there. */
    stored_save(&d, "20261116T000000Z.db",
                SLICE_LIT("not a database, but long enough to be taken for one that is none"));
    assert_int_equal(usage_gather(d.path, NULL, &u, &why), 0);
    assert_int_equal(usage_unreadable(u), 1);
    assert_int_equal(count(u, USAGE_EVENT, 2, &bytes), rows);
    usage_destroy(u);
    stored_remove_dir(&d);
    assert_int_equal(usage_gather("/tmp/gridline-store-none", NULL, &u, &why), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(adds_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
