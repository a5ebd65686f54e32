/* SPDX-License-Identifier: Apache-2.0 */
/* Many readers and one writer who appends, seals and merges without a pause: every view shows whole records
 * only, each row once and as it was, everything that was appended before the view was taken, nothing that
 * was appended after, and never less than the view before it. Run under TSan, too. */
#include "fault/archive_fault.h"
#include "unit/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { RECORDS = 240, READERS = 4, VIEWS = 30 };

struct shared {
    struct source source;
    struct archive *archive;
    _Atomic uint64_t begun, done; /* records */
    _Atomic bool is_over;
    _Atomic unsigned views; /* taken while the writer was at work */
    uint64_t merges;
};

struct reader {
    struct shared *shared;
    pthread_t thread;
    uint64_t before; /* records in the last view */
    char wrong[500]; /* "" = nothing */
};

/* How many whole records there are: all rows of the first n, and no other row. */
static uint64_t records_in(const struct source *s, const struct source_found *f)
{
    uint64_t rows = 0, n = 0;
    while (n < s->n && rows < f->rows)
        rows += s->records[++n].n_rows;
    return rows == f->rows && source_missing(s, f, 1, n) == 0 ? n : UINT64_MAX;
}

static void look(struct reader *r, struct view_reader *reader)
{
    struct shared *sh = r->shared;
    struct view *view;
    struct source_found f;
    uint64_t least = atomic_load(&sh->done);
    int e = view_take(reader, &view);
    uint64_t most = atomic_load(&sh->begun);
    if (e < 0) {
        (void)snprintf(r->wrong, sizeof r->wrong, "no view: %s", err_text(e));
        return;
    }
    e = source_find(&sh->source, view, &f);
    uint64_t n = e < 0 ? 0 : records_in(&sh->source, &f);
    if (e < 0 || f.wrong || f.twice || f.lost.rows || f.lost.chunks || f.lost.blobs || n < least ||
        n > most || n < r->before)
        (void)snprintf(
            r->wrong, sizeof r->wrong,
            "%s: %llu rows, %llu wrong, %llu twice (%s), %llu, %llu, %llu lost; %lld records, of at least "
            "%llu and at most "
            "%llu, %llu before",
            e < 0 ? err_text(e) : "read", (unsigned long long)f.rows, (unsigned long long)f.wrong,
            (unsigned long long)f.twice, f.first, (unsigned long long)f.lost.rows,
            (unsigned long long)f.lost.chunks, (unsigned long long)f.lost.blobs, (long long)n,
            (unsigned long long)least, (unsigned long long)most, (unsigned long long)r->before);
    r->before = n;
    source_found_fini(&f);
    view_release(view);
}

static void *read_all(void *arg)
{
    struct reader *r = arg;
    struct view_reader *reader;
    struct diag why = {0};
    if (view_reader_create(r->shared->archive, NULL, 1 << 20, &reader, &why) < 0) {
        (void)snprintf(r->wrong, sizeof r->wrong, "no reader: %s", why.message);
        return NULL;
    }
    while (!r->wrong[0] && !atomic_load(&r->shared->is_over)) {
        look(r, reader);
        (void)atomic_fetch_add(&r->shared->views, 1);
    }
    if (!r->wrong[0])
        look(r, reader); /* all of it */
    view_reader_destroy(reader);
    return NULL;
}

/* The writer does not wait for readers; but it begins anew, with another archive, until they have seen
 * enough. */
static void write_all(struct shared *sh, uint64_t seed)
{
    struct source_place at = {.record = 1};
    struct upkeep *u;
    unsigned ticks = 0;
    assert_int_equal(fault_open_upkeep(sh->archive, &u), 0);
    while (at.record <= sh->source.n) {
        atomic_store(&sh->begun, at.record);
        assert_int_equal(source_feed(&sh->source, sh->archive, &at, at.record), 0);
        atomic_store(&sh->done, at.record - 1);
        if (test_random(&seed) % 8 == 0)
            assert_int_equal(archive_flush(sh->archive), 0);
        if (test_random(&seed) % 8 == 0)
            assert_int_equal(fault_keep_up(u, &ticks, 20), 0);
    }
    sh->merges += upkeep_counts(u).merges;
    upkeep_destroy(u);
    atomic_store(&sh->is_over, true);
}

static unsigned run_once(struct shared *sh, uint64_t seed)
{
    struct reader readers[READERS] = {{0}};
    struct diag why = {0};
    char path[FOLDER_PATH];
    folder_make(path);
    atomic_store(&sh->is_over, false);
    atomic_store(&sh->begun, 0);
    atomic_store(&sh->done, 0);
    atomic_store(&sh->views, 0);
    assert_int_equal(fault_open(path, &sh->archive, &why), 0);
    for (int i = 0; i < READERS; i++) {
        readers[i].shared = sh;
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
    }
    write_all(sh, seed);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
    for (int i = 0; i < READERS; i++) {
        if (readers[i].wrong[0])
            fail_msg("seed %llu: %s", (unsigned long long)seed, readers[i].wrong);
        assert_int_equal(readers[i].before, sh->source.n);
    }
    archive_close(sh->archive);
    folder_remove(path);
    return atomic_load(&sh->views);
}

static void test_readers(void **state)
{
    (void)state;
    struct shared sh = {.archive = NULL};
    unsigned views = 0, runs = 0;
    source_make(&sh.source, RECORDS, 13);
    for (; views < VIEWS * READERS * test_scale(); runs++)
        views += run_once(&sh, runs + 1);
    print_message("%u views by %d readers while %u times %llu records were written, with %llu merges\n",
                  views, READERS, runs, (unsigned long long)sh.source.n, (unsigned long long)sh.merges);
    assert_true(sh.merges > 0);
    source_fini(&sh.source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_readers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
