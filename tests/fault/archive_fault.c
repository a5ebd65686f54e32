/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/archive_fault.h"

#include "unit/test.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

int fault_open(const char *path, struct archive **out, struct diag *why)
{
    char dir[FOLDER_PATH + 16];
    (void)snprintf(dir, sizeof dir, "%s/archive", path);
    struct archive_options o = {
        .dir = dir, .partition_ns = FAULT_PARTITION_NS, .flush_ns = INT64_C(60) * 1000000000};
    return archive_open(&o, out, why);
}

static void check_counts(const struct archive *a, const char *where)
{
    struct archive_counts c;
    archive_counts(a, &c);
    if (c.taken != c.kept + c.again + c.too_old + c.refused || c.too_old || c.refused || c.shed || c.damaged)
        fail_msg("%s: counts: taken %llu, kept %llu, again %llu, too old %llu, refused %llu, shed %llu, "
                 "damaged %llu",
                 where, (unsigned long long)c.taken, (unsigned long long)c.kept, (unsigned long long)c.again,
                 (unsigned long long)c.too_old, (unsigned long long)c.refused, (unsigned long long)c.shed,
                 (unsigned long long)c.damaged);
}

/* ---------------------------------------------------------------- the workload */

/* Whatever a call says: what the cursor says is a promise. */
static int after_call(struct fault_run *run, int r)
{
    if (r < 0) {
        run->errors++;
        run->last_error = r;
    }
    if (r == -ESTALE) /* the heads are empty */
        run->at = source_resume(run->source, run->archive);
    uint64_t cursor = run->archive ? archive_cursor(run->archive, &run->source->id) : 0;
    if (cursor > run->promised) {
        run->promised = cursor;
        if (run->on_promise)
            run->on_promise(run);
    }
    return r;
}

/* Everything is closed by then, and nothing goes for its age. */
#define UTC_BEGIN (SOURCE_BEGIN + INT64_C(3600) * 1000000000)

int fault_open_upkeep(struct archive *a, struct upkeep **out)
{
    struct upkeep_options o = {.keep = "*=3650d", .late_ns = 1000000000};
    struct diag why = {0};
    return upkeep_create(a, &o, out, &why);
}

static void close_archive(struct fault_run *run)
{
    upkeep_destroy(run->upkeep);
    archive_close(run->archive);
    run->upkeep = NULL;
    run->archive = NULL;
}

static int open_archive(struct fault_run *run)
{
    struct diag why = {0};
    int r = after_call(run, fault_open(run->path, &run->archive, &why));
    if (r < 0)
        return r;
    r = after_call(run, fault_open_upkeep(run->archive, &run->upkeep));
    if (r < 0)
        close_archive(run);
    else
        run->at = source_resume(run->source, run->archive);
    return r;
}

static int reopen(struct fault_run *run)
{
    close_archive(run);
    return open_archive(run);
}

int fault_keep_up(struct upkeep *u, unsigned *ticks, unsigned steps_max)
{
    int r = 1;
    for (unsigned n = 0; r > 0 && (steps_max == 0 || n < steps_max); n++)
        r = upkeep_step(u, UTC_BEGIN + (int64_t)++ * ticks * 700 * 1000000000);
    return r < 0 ? r : 0;
}

static int feed(struct fault_run *run)
{
    uint64_t to = run->at.record + test_random(&run->seed) % 4;
    if (to > run->source->n)
        to = run->source->n;
    return after_call(run, source_feed(run->source, run->archive, &run->at, to));
}

static void step(struct fault_run *run)
{
    uint64_t dice = test_random(&run->seed) % 100;
    if (!run->archive)
        (void)open_archive(run);
    else if (dice < 55)
        (void)feed(run);
    else if (dice < 78)
        (void)after_call(run, archive_flush(run->archive));
    else if (dice < 86)
        (void)after_call(run, archive_tick(run->archive, (int64_t)run->ticks++ * 30000000000, SOURCE_BEGIN));
    else if (dice < 94)
        (void)after_call(run, fault_keep_up(run->upkeep, &run->ticks, 12));
    else
        (void)reopen(run);
}

static void check_errors(const struct fault_run *run, unsigned errors_max)
{
    if (run->errors > errors_max)
        fail_msg("the archive does not recover: %u errors, the last: %s", run->errors,
                 err_text(run->last_error));
}

void fault_run_all(struct fault_run *run, unsigned errors_max)
{
    while (run->promised < run->source->n) {
        step(run);
        check_errors(run, errors_max);
        if (run->archive && run->at.record > run->source->n)
            (void)after_call(run, archive_flush(run->archive));
    }
    while (!run->archive || after_call(run, fault_keep_up(run->upkeep, &run->ticks, 0)) < 0) {
        check_errors(run, errors_max);
        if (!run->archive)
            (void)open_archive(run);
    }
    char where[100];
    (void)snprintf(where, sizeof where, "the workload, %u errors", run->errors);
    check_counts(run->archive, where);
    struct upkeep_counts c = upkeep_counts(run->upkeep);
    if (c.removed)
        fail_msg("%s: %llu partitions with %llu rows were taken away", where, (unsigned long long)c.removed,
                 (unsigned long long)c.removed_rows);
}

void fault_run_end(struct fault_run *run)
{
    close_archive(run);
}

/* ---------------------------------------------------------------- the check */

/* Nothing wrong, nothing twice, nothing damaged, and of the records up to `last` all. */
static void check_rows(const struct source *s, struct archive *a, uint64_t last, const char *where)
{
    struct view_reader *reader;
    struct view *view;
    struct source_found f;
    struct diag why = {0};
    assert_int_equal(view_reader_create(a, NULL, 1 << 20, &reader, &why), 0);
    assert_int_equal(view_take(reader, &view), 0);
    int r = source_find(s, view, &f);
    uint64_t missing = r < 0 ? 0 : source_missing(s, &f, 1, last);
    if (r < 0 || f.wrong || f.twice || f.lost.rows || f.lost.chunks || f.lost.blobs || missing)
        fail_msg("%s: %s; of %llu records %llu rows are missing; %llu right, %llu wrong, %llu twice (%s); "
                 "lost %llu rows, "
                 "%llu chunks, %llu blobs",
                 where, r < 0 ? err_text(r) : "read", (unsigned long long)last, (unsigned long long)missing,
                 (unsigned long long)f.rows, (unsigned long long)f.wrong, (unsigned long long)f.twice,
                 f.first, (unsigned long long)f.lost.rows, (unsigned long long)f.lost.chunks,
                 (unsigned long long)f.lost.blobs);
    source_found_fini(&f);
    view_release(view);
    view_reader_destroy(reader);
}

struct partitions {
    const char *dir, *where;
};

static int check_partition(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    (void)from_ns, (void)step_ns;
    const struct partitions *p = arg;
    struct partition_health h = {0};
    struct diag why = {0};
    int r = partition_check(p->dir, name, NULL, NULL, &h, &why);
    if (r < 0 || h.bad_blobs || h.bad_chunks || h.bad_rows || h.is_broken)
        fail_msg("%s: %s: %s %s; %llu blobs, %llu chunks, %llu rows are bad", p->where, name,
                 r < 0 ? err_text(r) : "", why.message, (unsigned long long)h.bad_blobs,
                 (unsigned long long)h.bad_chunks, (unsigned long long)h.bad_rows);
    return 0;
}

static void check_folder(const char *path, const char *where)
{
    char dir[FOLDER_PATH + 16];
    (void)snprintf(dir, sizeof dir, "%s/archive", path);
    assert_int_equal(catalog_partitions(dir, check_partition, &(struct partitions){dir, where}), 0);
    DIR *d = opendir(dir);
    assert_non_null(d);
    const struct dirent *e;
    while ((e = readdir(d)))
        if (strstr(e->d_name, "damaged"))
            fail_msg("%s: %s was set aside", where, e->d_name);
    (void)closedir(d);
}

/* Of the tier of 10 s: the rows that its rows were made of. */
static uint64_t count_tier(struct view *v, const char *name)
{
    struct scan_spec spec = {.name = slice_str(name),
                             .from_ns = INT64_MIN,
                             .to_ns = INT64_MAX,
                             .step_ns = tier_steps[0],
                             .id_column = UINT16_MAX};
    struct scan_chunk chunk;
    struct scan *scan;
    struct rows rows;
    uint64_t n = 0;
    int r;
    assert_int_equal(scan_open(v, &spec, &scan), 0);
    while ((r = scan_next(scan, &chunk)) > 0) {
        assert_int_equal(scan_read(scan, BLOB_TIMES | BLOB_ALL_COLUMNS, NULL, 0, &rows), 0);
        for (uint32_t c = 0; c < rows.n_columns; c++)
            if (slice_eq_str(chunk.table->columns[rows.columns[c].id].unit, "rows"))
                for (uint32_t i = 0; i < rows.n; i++)
                    n += column_value(&rows.columns[c], i).u;
    }
    assert_int_equal(r, 0);
    scan_close(scan);
    return n;
}

/* All of it merged, all tiers made: still every row once, and in the tiers, too. */
static void check_upkeep(const struct source *s, struct archive *a, const char *where)
{
    struct upkeep *u;
    struct view_reader *reader;
    struct view *view;
    struct diag why = {0};
    unsigned ticks = 0;
    assert_int_equal(fault_open_upkeep(a, &u), 0);
    int r = fault_keep_up(u, &ticks, 0);
    if (r == 0)
        r = fault_keep_up(u, &ticks, 0); /* it may have rested for a while */
    if (r < 0)
        fail_msg("%s: upkeep: %s", where, err_text(r));
    struct upkeep_counts c = upkeep_counts(u);
    if (c.doubled || c.dropped || c.damaged || c.removed)
        fail_msg("%s: upkeep: %llu doubled, %llu dropped, %llu damaged, %llu removed", where,
                 (unsigned long long)c.doubled, (unsigned long long)c.dropped, (unsigned long long)c.damaged,
                 (unsigned long long)c.removed);
    upkeep_destroy(u);
    check_rows(s, a, s->n, where);
    assert_int_equal(view_reader_create(a, NULL, 1 << 20, &reader, &why), 0);
    assert_int_equal(view_take(reader, &view), 0);
    uint64_t rows = count_tier(view, "disk") + count_tier(view, "job.state");
    if (rows != s->rows)
        fail_msg("%s: %llu of %llu rows are in the tier", where, (unsigned long long)rows,
                 (unsigned long long)s->rows);
    view_release(view);
    view_reader_destroy(reader);
}

static struct archive *open_whole(const char *path, const char *where)
{
    struct archive *a;
    struct diag why = {0};
    int r = fault_open(path, &a, &why);
    if (r < 0)
        fail_msg("%s: open: %s: %s", where, err_text(r), why.message);
    return a;
}

void fault_check(const struct source *s, const char *path, uint64_t promised, const char *where)
{
    struct archive *a = open_whole(path, where);
    if (archive_cursor(a, &s->id) < promised)
        fail_msg("%s: the cursor is at %llu, but %llu records were promised", where,
                 (unsigned long long)archive_cursor(a, &s->id), (unsigned long long)promised);
    check_rows(s, a, promised, where);
    struct source_place at = source_resume(s, a);
    assert_int_equal(source_feed(s, a, &at, s->n), 0);
    check_rows(s, a, s->n, where);
    int r = archive_flush(a);
    if (r < 0)
        fail_msg("%s: flush: %s", where, err_text(r));
    assert_int_equal(archive_cursor(a, &s->id), s->n);
    check_rows(s, a, s->n, where);
    check_counts(a, where);
    archive_close(a);
    check_folder(path, where);
    a = open_whole(path, where);
    static unsigned checks;
    if (++checks % 4 == 0) { /* most of the time goes into these */
        check_upkeep(s, a, where);
        archive_close(a);
        check_folder(path, where);
        return;
    }
    check_rows(s, a, s->n, where);
    archive_close(a);
}
