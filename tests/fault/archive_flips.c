/* SPDX-License-Identifier: Apache-2.0 */
/* T3: every byte of a small archive is changed in turn, and every file cut off at every length: catalogue,
 * partitions, and their write-ahead logs. Each time the archive is opened by its writer and read whole:
 * no row is wrong and none twice; rows that are missing are said to be (lost to damage, or not promised any
 * more: the cursor is before them, so their source gives them again); a file's damage costs no row of
 * another file; and the archive goes on: what comes next is kept and found.
 *
 *     archive_flips        some bytes and lengths of every file, evenly
 *     archive_flips all    every one, but of the inside of long runs of zeros every 64th
 */
#include "fault/archive_fault.h"
#include "fault/powerloss.h"
#include "unit/test.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RECORDS = 46,
    FLUSHED = 40,
    CLOSED = 20,
    FLUSH_EVERY = 4,
    FILES_MAX = 64,
    SHORT_FLIPS = 300,
    SHORT_CUTS = 80
};

static bool is_whole;
static struct source source;
static char root[FOLDER_PATH], work[FOLDER_PATH];

struct image_file {
    char name[80];
    struct strbuf bytes;
};

/* An archive as bytes. */
struct image {
    struct image_file files[FILES_MAX];
    size_t n;
};

static void read_file(const char *path, struct strbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    char *to = strbuf_room(out, (size_t)st.st_size);
    assert_non_null(to);
    if (st.st_size) {
        assert_int_equal(read(fd, to, (size_t)st.st_size), st.st_size);
        strbuf_advance(out, (size_t)st.st_size);
    }
    (void)close(fd);
}

static void write_file(const char *name, struct slice bytes)
{
    char path[FOLDER_PATH * 2];
    (void)snprintf(path, sizeof path, "%s/archive/%s", work, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.p, bytes.n), bytes.n);
    (void)close(fd);
}

static void image_take(struct image *image)
{
    char path[FOLDER_PATH * 2];
    (void)snprintf(path, sizeof path, "%s/archive", root);
    DIR *d = opendir(path);
    assert_non_null(d);
    const struct dirent *e;
    while ((e = readdir(d))) {
        struct slice name = slice_str(e->d_name);
        if (e->d_name[0] == '.' || slice_ends(name, SLICE_LIT("-shm")))
            continue;
        assert_true(image->n < FILES_MAX && name.n < sizeof image->files->name);
        struct image_file *f = &image->files[image->n++];
        (void)snprintf(f->name, sizeof f->name, "%s", e->d_name);
        (void)snprintf(path, sizeof path, "%s/archive/%s", root, e->d_name);
        read_file(path, &f->bytes);
    }
    (void)closedir(d);
}

static void image_fini(struct image *image)
{
    for (size_t i = 0; i < image->n; i++)
        strbuf_fini(&image->files[i].bytes);
}

/* Two halves, the second only in write-ahead logs, as after a kill -9; or all of it in the files. */
static void image_make(struct image *image, bool is_closed)
{
    struct diag why = {0};
    struct archive *a;
    struct source_place at = {.record = 1};
    folder_empty(root);
    assert_int_equal(fault_open(root, &a, &why), 0);
    for (uint64_t r = FLUSH_EVERY; r <= CLOSED; r += FLUSH_EVERY) {
        assert_int_equal(source_feed(&source, a, &at, r), 0);
        assert_int_equal(archive_flush(a), 0);
    }
    archive_close(a);
    assert_int_equal(fault_open(root, &a, &why), 0);
    for (uint64_t r = CLOSED + FLUSH_EVERY; r <= FLUSHED; r += FLUSH_EVERY) {
        assert_int_equal(source_feed(&source, a, &at, r), 0);
        assert_int_equal(archive_flush(a), 0);
    }
    if (is_closed)
        archive_close(a);
    image_take(image);
    if (!is_closed)
        archive_close(a);
}

/* ---------------------------------------------------------------- one damage */

struct damage {
    const struct image *image;
    size_t file;
    const char *where;
    bool is_flip;
    uint64_t changes, unseen, again, lost; /* tried; without effect; read again; that cost rows */
    uint64_t repaired;                     /* those that had to be */
};

static void put_image(const struct damage *d, struct slice damaged)
{
    char path[FOLDER_PATH * 2];
    folder_empty(work);
    (void)snprintf(path, sizeof path, "%s/archive", work);
    assert_int_equal(mkdir(path, 0777), 0);
    for (size_t i = 0; i < d->image->n; i++)
        write_file(d->image->files[i].name, i == d->file ? damaged : strbuf_slice(&d->image->files[i].bytes));
}

static void find_all(struct archive *a, struct source_found *f, const char *where)
{
    struct view_reader *reader;
    struct view *view;
    struct diag why = {0};
    assert_int_equal(view_reader_create(a, NULL, 1 << 20, &reader, &why), 0);
    int r = view_take(reader, &view);
    if (r < 0)
        fail_msg("%s: no view: %s", where, err_text(r));
    r = source_find(&source, view, f);
    if (r < 0)
        fail_msg("%s: reading stopped: %s", where, err_text(r));
    if (f->wrong || f->twice)
        fail_msg("%s: %llu rows are wrong, %llu twice: %s", where, (unsigned long long)f->wrong,
                 (unsigned long long)f->twice, f->first);
    view_release(view);
    view_reader_destroy(reader);
}

/* Is the row's partition another one than that whose file (or log) was damaged? */
static bool is_elsewhere(const struct damage *d, const struct event *e)
{
    char name[PARTITION_NAME_MAX];
    struct partition_span span = {.from_ns = e->time_ns - e->time_ns % FAULT_PARTITION_NS};
    partition_name(&span, name, sizeof name);
    return strncmp(name, d->image->files[d->file].name, strlen(name)) != 0;
}

static uint64_t missing_elsewhere(const struct damage *d, const struct source_found *f, uint64_t last)
{
    uint64_t n = 0;
    for (uint64_t r = 1; r <= last; r++) {
        uint64_t row = source.records[r].first_row;
        for (size_t b = 0; b < source.records[r].n_batches; b++)
            for (size_t i = 0; i < source.records[r].batches[b]->n; i++, row++)
                n += f->times[row] == 0 && is_elsewhere(d, &source.records[r].batches[b]->events[i]);
    }
    return n;
}

/* Is it said of the file that something is wrong with it? */
static bool is_trouble(const struct damage *d, struct archive *a)
{
    struct catalog *c = archive_catalog(a);
    struct slice name = slice_str(d->image->files[d->file].name);
    if (slice_ends(name, SLICE_LIT("-wal")))
        name.n -= 4;
    for (size_t i = 0; i < catalog_troubles(c); i++)
        if (memmem(catalog_trouble_at(c, i), strlen(catalog_trouble_at(c, i)), name.p, name.n))
            return true;
    return false;
}

/* What is missing of records up to `last` must be named. Returns how much is. */
static uint64_t check_named(struct damage *d, struct archive *a, const struct source_found *f, uint64_t last)
{
    struct archive_counts counts;
    archive_counts(a, &counts);
    uint64_t missing = source_missing(&source, f, 1, last);
    bool is_named = f->lost.rows || f->lost.chunks || f->lost.blobs || counts.damaged || is_trouble(d, a);
    if (missing && !is_named)
        fail_msg("%s: %llu rows of %llu records are missing, and nobody says so", d->where,
                 (unsigned long long)missing, (unsigned long long)last);
    if (missing_elsewhere(d, f, last))
        fail_msg("%s: %llu rows of other files are missing", d->where,
                 (unsigned long long)missing_elsewhere(d, f, last));
    return missing;
}

/* Rows of the largest: a flush makes one a partition. */
static uint64_t largest_blob(void)
{
    uint64_t largest = 0;
    for (uint64_t first = 1; first <= FLUSHED; first += FLUSH_EVERY) {
        uint64_t rows[64] = {0}; /* by partition, from the first on */
        for (uint64_t r = first; r < first + FLUSH_EVERY; r++)
            for (size_t b = 0; b < source.records[r].n_batches; b++)
                for (size_t i = 0; i < source.records[r].batches[b]->n; i++) {
                    int64_t at = source.records[r].batches[b]->events[i].time_ns;
                    uint64_t *n = &rows[(at - SOURCE_BEGIN) / FAULT_PARTITION_NS + 32];
                    largest = ++*n > largest ? *n : largest;
                }
    }
    return largest;
}

static struct archive *open_damaged(const struct damage *d)
{
    struct archive *a;
    struct diag why = {0};
    int r = fault_open(work, &a, &why);
    if (r < 0)
        fail_msg("%s: open: %s: %s", d->where, err_text(r), why.message);
    return a;
}

/* Of a broken tree readers may lose all that is below; what is really lost is known when the file is made
 * again, as `gridline archive repair` does. Returns the archive, opened again. */
static struct archive *repair(const struct damage *d, struct archive *a)
{
    char dir[FOLDER_PATH * 2];
    struct partition_health health = {0};
    struct diag why = {0};
    archive_close(a);
    (void)snprintf(dir, sizeof dir, "%s/archive", work);
    int r = partition_check(dir, d->image->files[d->file].name, NULL, NULL, &health, &why);
    if (r < 0 || !health.is_broken)
        fail_msg("%s: rows are missing, but the file is not called broken", d->where);
    r = partition_salvage(dir, d->image->files[d->file].name, NULL, NULL, &health, &why);
    if (r < 0)
        fail_msg("%s: it is not salvaged: %s: %s", d->where, err_text(r), why.message);
    return open_damaged(d);
}

/* Reads everything; what is missing up to the cursor is named. Returns how much is. */
static uint64_t check_found(struct damage *d, struct archive *a)
{
    struct source_found f;
    find_all(a, &f, d->where);
    uint64_t missing = check_named(d, a, &f, archive_cursor(a, &source.id));
    source_found_fini(&f);
    return missing;
}

static void check_damage(struct damage *d)
{
    struct archive *a = open_damaged(d);
    struct source_found f;
    int r;
    uint64_t missing = check_found(d, a);
    if (missing && slice_ends(slice_str(d->image->files[d->file].name), SLICE_LIT("-wal")))
        fail_msg("%s: a damaged log costs rows that are in the file", d->where);
    if (d->is_flip && missing > largest_blob()) {
        a = repair(d, a);
        missing = check_found(d, a);
        d->repaired++;
    }
    if (d->is_flip && missing > largest_blob())
        fail_msg("%s: %llu rows are missing, more than a blob has", d->where, (unsigned long long)missing);
    uint64_t cursor = archive_cursor(a, &source.id);
    if (cursor > FLUSHED)
        fail_msg("%s: the cursor is at %llu, ahead of everything", d->where, (unsigned long long)cursor);
    d->lost += missing > 0;
    d->again += missing == 0 && cursor < FLUSHED;
    d->unseen += missing == 0 && cursor == FLUSHED;
    /* It goes on. */
    r = -ESTALE;
    for (int i = 0; r == -ESTALE && i < 8; i++) { /* once for each file that is mended on the way */
        struct source_place at = source_resume(&source, a);
        cursor = at.record - 1 < cursor ? at.record - 1 : cursor;
        r = source_feed(&source, a, &at, RECORDS);
        if (r == 0)
            r = archive_flush(a);
    }
    if (r < 0)
        fail_msg("%s: it does not go on: %s", d->where, err_text(r));
    find_all(a, &f, d->where);
    if (source_missing(&source, &f, cursor + 1, RECORDS))
        fail_msg("%s: what came later is not all there", d->where);
    source_found_fini(&f);
    archive_close(a);
    d->changes++;
}

/* ---------------------------------------------------------------- all of them */

static void flip(struct damage *d, size_t at)
{
    struct strbuf copy = {0};
    char where[200];
    const struct image_file *f = &d->image->files[d->file];
    uint64_t seed = at;
    unsigned bits = 1 + (unsigned)(test_random(&seed) % 255);
    if (at % 2)
        bits = 1u << (bits % 8);
    (void)snprintf(where, sizeof where, "%s, byte %zu of %zu ^ %#x", f->name, at, f->bytes.n, bits);
    d->where = where;
    d->is_flip = true;
    strbuf_add_slice(&copy, strbuf_slice(&f->bytes));
    copy.p[at] = (char)((unsigned char)copy.p[at] ^ bits);
    put_image(d, strbuf_slice(&copy));
    check_damage(d);
    strbuf_fini(&copy);
}

static void cut(struct damage *d, size_t length)
{
    char where[200];
    const struct image_file *f = &d->image->files[d->file];
    (void)snprintf(where, sizeof where, "%s cut to %zu of %zu", f->name, length, f->bytes.n);
    d->where = where;
    put_image(d, slice_of(f->bytes.p, length));
    check_damage(d);
}

/* Most of a small file is zeros that nobody looks at: of the inside of their runs only every 64th byte
 * counts. */
static bool is_worth_it(const struct image_file *f, size_t at)
{
    size_t from = at > 8 ? at - 8 : 0, to = at + 8 < f->bytes.n ? at + 8 : f->bytes.n;
    for (size_t i = from; i < to; i++)
        if (f->bytes.p[i])
            return true;
    return at % 64 == 0;
}

static void each_place(void (*damage)(struct damage *d, size_t at), const char *what, size_t short_form,
                       bool is_closed)
{
    struct image image = {0};
    uint64_t total = 0;
    image_make(&image, is_closed);
    size_t worth = 0, n = 0;
    for (size_t i = 0; i < image.n; i++)
        for (size_t at = 0; at < image.files[i].bytes.n; at++, total++)
            worth += is_worth_it(&image.files[i], at);
    size_t stride = is_whole ? 1 : worth / (short_form * test_scale()) + 1;
    struct damage all = {0};
    for (size_t i = 0; i < image.n; i++) {
        struct damage d = {.image = &image, .file = i};
        for (size_t at = 0; at < image.files[i].bytes.n; at++)
            if (is_worth_it(&image.files[i], at) && n++ % stride == 0)
                damage(&d, at);
        print_message("%s: %zu bytes, %llu %s: %llu cost rows, %llu were read again, %llu without effect\n",
                      image.files[i].name, image.files[i].bytes.n, (unsigned long long)d.changes, what,
                      (unsigned long long)d.lost, (unsigned long long)d.again, (unsigned long long)d.unseen);
        all.changes += d.changes;
        all.lost += d.lost;
        all.again += d.again;
        all.repaired += d.repaired;
    }
    print_message("%llu of %zu %s (%llu bytes), %llu cost rows, all of them named; %llu had to be repaired\n",
                  (unsigned long long)all.changes, worth, what, (unsigned long long)total,
                  (unsigned long long)all.lost, (unsigned long long)all.repaired);
    assert_true(all.lost + all.again > 0); /* else nothing was tested */
    image_fini(&image);
}

static void test_flips(void **state)
{
    (void)state;
    each_place(flip, "flips", SHORT_FLIPS, false);
    each_place(flip, "flips", SHORT_FLIPS, true);
}

/* The head of every SQLite file, each byte: versions, among them the one above which SQLite only reads a
 * file. */
static void test_heads(void **state)
{
    (void)state;
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        struct image image = {0};
        image_make(&image, is_closed);
        for (size_t i = 0; i < image.n; i++) {
            struct damage d = {.image = &image, .file = i};
            if (slice_ends(slice_str(image.files[i].name), SLICE_LIT(".db")))
                for (size_t at = 16; at < 24; at++)
                    flip(&d, at);
        }
        image_fini(&image);
    }
}

static void test_cuts(void **state)
{
    (void)state;
    each_place(cut, "lengths", SHORT_CUTS, false);
    each_place(cut, "lengths", SHORT_CUTS, true);
}

static int set_up(void **state)
{
    (void)state;
    source_make(&source, RECORDS, 5);
    folder_make(root);
    folder_make(work);
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    folder_remove(root);
    folder_remove(work);
    source_fini(&source);
    return 0;
}

int main(int argc, char **argv)
{
    is_whole = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_flips),
        cmocka_unit_test(test_cuts),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
