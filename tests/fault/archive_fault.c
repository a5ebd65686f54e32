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

static int open_archive(struct fault_run *run)
{
    struct diag why = {0};
    int r = after_call(run, fault_open(run->path, &run->archive, &why));
    if (r < 0) {
        run->archive = NULL;
        return r;
    }
    run->at = source_resume(run->source, run->archive);
    return 0;
}

static int reopen(struct fault_run *run)
{
    archive_close(run->archive);
    run->archive = NULL;
    return open_archive(run);
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
    else if (dice < 92)
        (void)after_call(run, archive_tick(run->archive, (int64_t)run->ticks++ * 30000000000, SOURCE_BEGIN));
    else
        (void)reopen(run);
}

void fault_run_all(struct fault_run *run, unsigned errors_max)
{
    while (run->promised < run->source->n) {
        step(run);
        if (run->errors > errors_max)
            fail_msg("the archive does not recover: %u errors, the last: %s", run->errors,
                     err_text(run->last_error));
        if (run->archive && run->at.record > run->source->n)
            (void)after_call(run, archive_flush(run->archive));
    }
}

void fault_run_end(struct fault_run *run)
{
    archive_close(run->archive);
    run->archive = NULL;
}

/* ---------------------------------------------------------------- the check */

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
    check_rows(s, a, s->n, where);
    archive_close(a);
}
