/* SPDX-License-Identifier: Apache-2.0 */
/* stored.h - small blobs of known rows in partitions of a folder in /tmp, for the tests of what is on disk.
 */
#ifndef GRIDLINE_TESTS_ARCHIVE_STORED_H
#define GRIDLINE_TESTS_ARCHIVE_STORED_H

#include "unit/test.h"

#include "archive/partition.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORED_FROM INT64_C(1794700800000000000) /* 2026-11-15 */
#define STORED_DAY  (INT64_C(86400) * 1000000000)

static const struct partition_span stored_span = {STORED_FROM, STORED_FROM + STORED_DAY, 0};
static const char stored_name[] = "20261115T000000Z.db";

struct stored_dir {
    char path[64];
};

static inline struct stored_dir stored_make_dir(void)
{
    struct stored_dir d = {"/tmp/gridline-store-XXXXXX"};
    assert_non_null(mkdtemp(d.path));
    return d;
}

static inline void stored_remove_dir(const struct stored_dir *d)
{
    DIR *all = opendir(d->path);
    const struct dirent *e;
    assert_non_null(all);
    while ((e = readdir(all)) != NULL)
        (void)unlinkat(dirfd(all), e->d_name, 0); /* "." and ".." stay */
    (void)closedir(all);
    assert_int_equal(rmdir(d->path), 0);
}

enum { STORED_ROWS = 8 };

/* Rows of one stream: row i has time first_ns + i s, seq + i, a = seq + i, and a text. */
struct stored_rows {
    int64_t time_ns[STORED_ROWS];
    uint8_t level[STORED_ROWS];
    uint64_t seq[STORED_ROWS];
    uint16_t origin[STORED_ROWS];
    int64_t a[STORED_ROWS];
    uint32_t ends[STORED_ROWS];
    char text[STORED_ROWS * 8];
    struct row_origin by;
    struct column columns[2];
    struct rows rows;
};

static const struct field stored_fields[] = {
    {.name = {"a", 1}, .unit = {"s", 1}, .help = {"a number", 8}, .type = VALUE_INT, .kind = KIND_GAUGE},
    {.name = {"t", 1}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT, .kind = KIND_TEXT},
};

static inline void stored_fill(struct stored_rows *s, uint64_t seq, int64_t first_ns)
{
    uint32_t end = 0;
    *s = (struct stored_rows){.by = {.producer = {7, 7, 7}, .epoch = 3}};
    for (uint32_t i = 0; i < STORED_ROWS; i++) {
        s->time_ns[i] = first_ns + i * INT64_C(1000000000);
        s->level[i] = 1;
        s->seq[i] = seq + i;
        s->a[i] = (int64_t)(seq + i);
        end += (uint32_t)snprintf(s->text + end, 8, "t%llu", (unsigned long long)((seq + i) % 1000));
        s->ends[i] = end;
    }
    s->columns[0] = (struct column){.id = 0, .type = VALUE_INT, .i = s->a};
    s->columns[1] = (struct column){.id = 1, .type = VALUE_TEXT, .ends = s->ends, .bytes = s->text};
    s->rows = (struct rows){.n = STORED_ROWS,
                            .n_columns = 2,
                            .time_ns = s->time_ns,
                            .level = s->level,
                            .seq = s->seq,
                            .origin = s->origin,
                            .origins = &s->by,
                            .n_origins = 1,
                            .columns = s->columns};
}

static inline void stored_key(struct strbuf *out, const char *host, const char *name)
{
    strbuf_add_text(out, slice_str(host));
    strbuf_add_text(out, SLICE_LIT("prog"));
    strbuf_add_text(out, slice_str(name));
}

/* A blob with a chunk of each of two event names, cpu and disk; seqs from seq and from seq + 1000000. */
static inline void stored_blob(struct blob_writer *w, uint64_t seq, int64_t first_ns, struct blob_bytes *out)
{
    static const char *const names[] = {"cpu", "disk"};
    for (unsigned i = 0; i < 2; i++) {
        struct stored_rows s;
        struct strbuf key = {0};
        struct table_def table = {.name = slice_str(names[i]), .columns = stored_fields, .n_columns = 2};
        stored_fill(&s, seq + i * 1000000, first_ns);
        stored_key(&key, "host", names[i]);
        assert_int_equal(blob_writer_add(w, &table, strbuf_slice(&key), &s.rows), 0);
        strbuf_fini(&key);
    }
    assert_int_equal(blob_writer_finish(w, out), 0);
}

/* Its number. */
static inline uint64_t stored_put(struct partition *p, uint64_t seq, int64_t first_ns, uint64_t gen)
{
    struct blob_writer *w = blob_writer_create(&(struct blob_options){.zstd_level = 0});
    struct blob_bytes b;
    uint64_t id = 0;
    assert_non_null(w);
    stored_blob(w, seq, first_ns, &b);
    assert_int_equal(partition_put(p, &b, gen, &id), 0);
    blob_writer_destroy(w);
    return id;
}

/* Which seqs can be read: a bit each, of cpu (below 1000000, from 1) and disk. Everything that is given must
 * be what was written. */
struct stored_seen {
    bool cpu[256], disk[256];
    unsigned n;        /* rows */
    unsigned n_chunks; /* that could not be read */
    unsigned n_blobs;  /* whose directory could not */
};

struct stored_reading {
    struct partition *p;
    struct stored_seen *seen;
    uint64_t last;
};

static inline void stored_check_rows(struct stored_seen *seen, const struct rows *r, bool is_disk)
{
    struct stored_rows want;
    assert_int_equal(r->n, STORED_ROWS);
    uint64_t seq = r->seq[0];
    stored_fill(&want, seq, r->time_ns[0]);
    seq -= is_disk ? 1000000 : 0;
    assert_in_range(seq, 1, 255 - STORED_ROWS);
    assert_int_equal(r->n_columns, 2);
    for (uint32_t i = 0; i < r->n; i++) {
        assert_int_equal(r->time_ns[i], want.time_ns[i]);
        assert_int_equal(r->seq[i], want.seq[i]);
        assert_int_equal(r->columns[0].i[i], want.a[i]);
        struct value t = column_value(&r->columns[1], i), w = column_value(&want.columns[1], i);
        assert_true(value_eq(t, w));
        bool *flags = is_disk ? seen->disk : seen->cpu;
        if (flags[seq + i])
            fail_msg("seq %llu of %s comes twice", (unsigned long long)(seq + i), is_disk ? "disk" : "cpu");
        flags[seq + i] = true;
        seen->n++;
    }
}

static inline void stored_read_blob(struct partition *p, uint64_t id, struct stored_seen *seen)
{
    struct strbuf directory = {0}, body = {0};
    struct arena arena = {0};
    const struct blob_directory *d = NULL;
    int r = partition_directory(p, id, &directory);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&directory), &arena, &d);
    seen->n_blobs += r < 0;
    if (r == 0)
        r = partition_body(p, id, &body);
    for (uint32_t i = 0; d && i < d->n_chunks; i++) {
        struct rows rows;
        int e = r < 0 ? r
                      : blob_chunk_read(d, strbuf_slice(&body), id, i,
                                        BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS, NULL, 0,
                                        NULL, &arena, &rows);
        if (e == 0)
            stored_check_rows(seen, &rows, slice_eq_str(d->sections[d->chunks[i].section].name, "disk"));
        else
            seen->n_chunks++;
    }
    arena_fini(&arena);
    strbuf_fini(&directory);
    strbuf_fini(&body);
}

static inline bool stored_see_section(void *arg, const struct partition_section *s)
{
    struct stored_reading *r = arg;
    if (s->blob != r->last)
        stored_read_blob(r->p, s->blob, r->seen);
    assert_true(s->blob >= r->last);
    r->last = s->blob;
    return true;
}

/* Everything that a reader can see. */
static inline int stored_see(struct partition *p, struct stored_seen *seen)
{
    struct stored_reading r = {.p = p, .seen = seen};
    *seen = (struct stored_seen){.n = 0};
    int e = partition_begin_read(p);
    if (e == 0)
        e = partition_sections(p, slice_of("", 0), INT64_MIN, INT64_MAX, stored_see_section, &r);
    partition_end_read(p);
    return e;
}

static inline struct partition *stored_open(const struct stored_dir *d, unsigned flags)
{
    struct partition *p = NULL;
    struct diag why = {0};
    int r = partition_open(d->path, stored_name, flags, &stored_span, &p, &why);
    if (r < 0)
        fail_msg("%s", why.message);
    return p;
}

/* A whole file as bytes, and back. */
static inline void stored_load(const struct stored_dir *d, const char *name, struct strbuf *out)
{
    char path[256];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", d->path, name);
    int fd = open(path, O_RDONLY);
    strbuf_reset(out);
    if (fd < 0)
        return;
    assert_int_equal(fstat(fd, &st), 0);
    char *to = strbuf_room(out, (size_t)st.st_size);
    assert_non_null(to);
    assert_int_equal(pread(fd, to, (size_t)st.st_size, 0), st.st_size);
    strbuf_advance(out, (size_t)st.st_size);
    (void)close(fd);
}

static inline void stored_save(const struct stored_dir *d, const char *name, struct slice bytes)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", d->path, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.p, bytes.n), (ssize_t)bytes.n);
    (void)close(fd);
}

#endif
