/* SPDX-License-Identifier: Apache-2.0 */
/* The input changes a small partition that was made at the start: u8, of which bit 0 says whether all of it
 * is in the file or (as after a crash) in the write-ahead log, and bit 1 which of both files is changed; then
 * changes of u24 where, u8 what (exclusive or). It is checked, read and salvaged. What must hold:
 *   - rows that are read are the ones that were written, each once;
 *   - what was salvaged can be opened and written, and has as many rows as was said. */
#include "archive/partition.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/strbuf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(x) ((x) ? (void)0 : abort())

enum { ROWS = 6, BLOBS = 4, CHANGES_MAX = 64 };
#define FROM INT64_C(1794700800000000000)

static const char name[] = "20261115T000000Z.db";
static const struct partition_span span = {FROM, FROM + INT64_C(86400000000000), 0};
static char dir[64];
static struct strbuf in_file, before_log, in_log; /* all in the file; the file and the log of a crash */

static const char *path_of(const char *end)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s%s", dir, name, end);
    return path;
}

static void load(const char *path, struct strbuf *out)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    char *to = strbuf_room(out, (size_t)st.st_size);
    CHECK(to && pread(fd, to, (size_t)st.st_size, 0) == st.st_size);
    strbuf_advance(out, (size_t)st.st_size);
    (void)close(fd);
}

static void save(const char *path, const struct strbuf *bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, bytes->p, bytes->n) == (ssize_t)bytes->n);
    (void)close(fd);
}

/* Row i of blob k: time, number and value say so. */
static void put_blob(struct partition *p, uint64_t k)
{
    static const struct field field = {.name = {"v", 1}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_INT};
    static const struct table_def table = {.name = {"cpu", 3}, .columns = &field, .n_columns = 1};
    int64_t time[ROWS], value[ROWS];
    uint64_t seq[ROWS];
    uint8_t level[ROWS] = {0};
    uint16_t origin[ROWS] = {0};
    struct row_origin by = {.epoch = 1};
    for (unsigned i = 0; i < ROWS; i++) {
        seq[i] = k * 100 + i + 1;
        time[i] = FROM + (int64_t)seq[i] * 1000000007;
        value[i] = (int64_t)(seq[i] * seq[i] * 7919);
    }
    const struct column column = {.id = 0, .type = VALUE_INT, .i = value};
    const struct rows rows = {ROWS, 1, time, level, seq, origin, &by, 1, &column};
    struct blob_writer *w = blob_writer_create(&(struct blob_options){.zstd_level = 0});
    struct blob_bytes b;
    struct strbuf key = {0};
    uint64_t id;
    strbuf_add_text(&key, SLICE_LIT("host"));
    strbuf_add_text(&key, SLICE_LIT("prog"));
    strbuf_add_text(&key, SLICE_LIT("cpu"));
    CHECK(w && blob_writer_add(w, &table, strbuf_slice(&key), &rows) == 0 && blob_writer_finish(w, &b) == 0);
    CHECK(partition_put(p, &b, k + 1, &id) == 0);
    blob_writer_destroy(w);
    strbuf_fini(&key);
}

static void make_images(void)
{
    const struct archive_source source = {{1}};
    struct partition *p = NULL;
    (void)snprintf(dir, sizeof dir, "%s/gridline-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(dir));
    CHECK(partition_open(dir, name, PARTITION_WRITE | PARTITION_CREATE, &span, &p, NULL) == 0);
    put_blob(p, 0);
    put_blob(p, 1);
    CHECK(partition_set_mark(p, &source, 7) == 0 && partition_commit(p) == 0);
    put_blob(p, 1); /* merged, of the same rows */
    CHECK(partition_remove(p, 2) == 0 && partition_commit(p) == 0);
    for (uint64_t k = 2; k < BLOBS; k++)
        put_blob(p, k);
    CHECK(partition_commit(p) == 0);
    load(path_of(""), &before_log);
    load(path_of("-wal"), &in_log);
    partition_close(p);
    load(path_of(""), &in_file);
}

static void remove_folder(void)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    while (d && (e = readdir(d)) != NULL)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
    (void)rmdir(dir);
}

struct reading {
    struct partition *p;
    uint64_t last;
    unsigned rows;
    bool seen[BLOBS * 100 + ROWS + 1];
};

static void read_blob(struct reading *x, uint64_t id)
{
    struct strbuf directory = {0}, body = {0};
    struct arena arena = {0};
    const struct blob_directory *d = NULL;
    if (partition_directory(x->p, id, &directory) == 0 && partition_body(x->p, id, &body) == 0 &&
        blob_directory_read(strbuf_slice(&directory), &arena, &d) == 0)
        for (uint32_t i = 0; i < d->n_chunks; i++) {
            struct rows r;
            if (blob_chunk_read(d, strbuf_slice(&body), id, i,
                                BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS, NULL, 0, NULL,
                                &arena, &r) < 0)
                continue;
            CHECK(r.n == ROWS && r.n_columns == 1);
            for (uint32_t row = 0; row < r.n; row++) {
                uint64_t seq = r.seq[row];
                CHECK(seq < sizeof x->seen && !x->seen[seq]);
                CHECK(r.time_ns[row] == FROM + (int64_t)seq * 1000000007);
                CHECK(r.columns[0].i[row] == (int64_t)(seq * seq * 7919));
                x->seen[seq] = true;
                x->rows++;
            }
        }
    arena_fini(&arena);
    strbuf_fini(&directory);
    strbuf_fini(&body);
}

static bool read_section(void *arg, const struct partition_section *s)
{
    struct reading *x = arg;
    if (s->blob != x->last)
        read_blob(x, s->blob);
    x->last = s->blob;
    return true;
}

static int read_all(unsigned *rows)
{
    struct reading x = {.rows = 0};
    int r = partition_open(dir, name, 0, NULL, &x.p, NULL);
    if (r == 0)
        r = partition_begin_read(x.p);
    if (r == 0)
        r = partition_sections(x.p, slice_of("", 0), INT64_MIN, INT64_MAX, read_section, &x);
    *rows = x.rows;
    partition_close(x.p);
    return r;
}

static void salvage(void)
{
    struct partition_health h;
    struct partition *p = NULL;
    unsigned rows;
    CHECK(partition_salvage(dir, name, NULL, NULL, &h, NULL) == 0);
    CHECK(read_all(&rows) == 0 && rows == h.rows);
    CHECK(partition_open(dir, name, PARTITION_WRITE, NULL, &p, NULL) == 0);
    put_blob(p, 99);
    CHECK(partition_commit(p) == 0);
    partition_close(p);
    (void)unlink(path_of(".damaged"));
    (void)unlink(path_of(".damaged-wal"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!dir[0]) {
        make_images();
        (void)atexit(remove_folder);
    }
    struct cursor c = cursor_of(slice_of((const char *)data, n));
    uint8_t how = cursor_u8(&c);
    bool is_log = how & 1, is_log_changed = how & 2 && is_log;
    struct strbuf changed = {0};
    strbuf_add_slice(&changed, strbuf_slice(is_log_changed ? &in_log : is_log ? &before_log : &in_file));
    for (unsigned i = 0; i < CHANGES_MAX && cursor_left(&c) >= 4; i++) {
        size_t at = cursor_fixed(&c, 3) % changed.n;
        changed.p[at] = (char)(changed.p[at] ^ cursor_u8(&c));
    }
    (void)partition_unlink(dir, name); /* may not be there */
    save(path_of(""), is_log_changed ? &before_log : &changed);
    if (is_log)
        save(path_of("-wal"), is_log_changed ? &changed : &in_log);
    strbuf_fini(&changed);
    struct partition_health h;
    unsigned rows;
    (void)read_all(&rows); /* an error is an answer */
    CHECK(partition_check(dir, name, NULL, NULL, &h, NULL) == 0);
    salvage();
    return 0;
}
