/* SPDX-License-Identifier: Apache-2.0 */
/* Damage of every kind to a small partition: what is read is right, what is missing is named, and what is
 * made again has everything that can be had. */
#include "unit/test.h"

#include "unit/archive/stored.h"

#include "archive/partition.h"
#include "base/clock.h"

static const struct archive_source journal = {{1, 2, 3}}, file = {{9}};
static const char stored_log[] = "20261115T000000Z.db-wal";

/* Rows that are in it: blobs 1, 3, 4 and 5; 2 was merged into 5, of the same rows. */
enum { ROWS = 4 * 2 * STORED_ROWS, GEN = 12, MARK = 77, FIRST_MARK = 20 };

/* Three commits. */
static void fill(struct partition *p)
{
    for (unsigned i = 0; i < 3; i++)
        (void)stored_put(p, 1 + i * STORED_ROWS, STORED_FROM + i * 100 * NS_PER_S, 10);
    assert_int_equal(partition_set_mark(p, &journal, FIRST_MARK), 0);
    assert_int_equal(partition_commit(p), 0);
    (void)stored_put(p, 25, STORED_FROM + 500 * NS_PER_S, 11);
    assert_int_equal(partition_set_mark(p, &journal, MARK), 0);
    assert_int_equal(partition_set_floor(p, &journal, FIRST_MARK), 0);
    assert_int_equal(partition_set_mark(p, &file, 5), 0);
    assert_int_equal(partition_commit(p), 0);
    assert_int_equal(partition_remove(p, 2), 0);
    (void)stored_put(p, 9, STORED_FROM + 100 * NS_PER_S, 12);
    assert_int_equal(partition_commit(p), 0);
}

/* The files as they are: all in the file, or (as after a crash) all in the log. */
struct image {
    struct strbuf main, log;
};

static void make_image(const struct stored_dir *d, bool is_in_log, struct image *out)
{
    struct partition *p = stored_open(d, PARTITION_WRITE | PARTITION_CREATE);
    fill(p);
    *out = (struct image){0};
    if (!is_in_log)
        partition_close(p);
    stored_load(d, stored_name, &out->main);
    stored_load(d, stored_log, &out->log);
    if (is_in_log)
        partition_close(p);
}

static void image_fini(struct image *x)
{
    strbuf_fini(&x->main);
    strbuf_fini(&x->log);
}

static void put_image(const struct stored_dir *d, const struct image *x)
{
    (void)partition_unlink(d->path, stored_name); /* may not be there */
    stored_save(d, stored_name, strbuf_slice(&x->main));
    if (x->log.n)
        stored_save(d, stored_log, strbuf_slice(&x->log));
}

static void remove_damaged(const struct stored_dir *d)
{
    static const char *const names[] = {"20261115T000000Z.db.damaged", "20261115T000000Z.db.damaged-wal"};
    for (unsigned i = 0; i < 2; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/%s", d->path, names[i]);
        (void)unlink(path);
    }
}

struct said {
    unsigned n, chunks, rows;
    char all[2000];
};

static void on_damage(void *arg, const struct partition_damage *d)
{
    struct said *s = arg;
    size_t n = strlen(s->all);
    assert_non_null(strstr(d->file, stored_name));
    s->n++;
    if (d->chunk) {
        s->chunks++;
        s->rows += d->chunk->n_rows;
        assert_int_equal(d->chunk->by.n, 1);
        assert_int_equal(d->chunk->by.origins[0].epoch, 3);
        assert_int_equal(d->chunk->by.last_seq[0] - d->chunk->by.first_seq[0], STORED_ROWS - 1);
        assert_true(d->chunk->min_ns >= STORED_FROM);
    }
    (void)snprintf(s->all + n, sizeof s->all - n, "%s; ", d->what);
}

/* What a reader sees of it. false: nothing at all, and it says so. */
static bool look(const struct stored_dir *d, struct stored_seen *seen, struct said *said, uint64_t *gen,
                 uint64_t *mark)
{
    struct partition *p = NULL;
    struct diag why = {0};
    int r = partition_open(d->path, stored_name, 0, NULL, &p, &why);
    *said = (struct said){0};
    *seen = (struct stored_seen){0};
    if (r < 0) {
        assert_true(why.message[0] != '\0');
        return false;
    }
    partition_on_damage(p, on_damage, said);
    r = stored_see(p, seen);
    *gen = partition_gen(p);
    *mark = partition_mark(p, &journal);
    said->n += r < 0 || partition_missing(p) || seen->n_blobs || seen->n_chunks;
    partition_close(p);
    return true;
}

static void whole(void **state)
{
    (void)state;
    for (unsigned in_log = 0; in_log < 2; in_log++) {
        struct stored_dir d = stored_make_dir();
        struct image x;
        struct said said = {0};
        struct partition_health h;
        struct diag why;
        struct stored_seen seen;
        uint64_t gen, mark;
        make_image(&d, in_log, &x);
        put_image(&d, &x);
        assert_int_equal(partition_check(d.path, stored_name, on_damage, &said, &h, &why), 0);
        assert_int_equal(said.n, 0);
        assert_int_equal(h.rows, ROWS);
        assert_int_equal(h.blobs, 4);
        assert_int_equal(h.chunks, 8);
        assert_true(h.bytes > 0 && !h.is_broken);
        assert_int_equal(h.bad_blobs + h.bad_chunks + h.bad_rows, 0);
        assert_int_equal(partition_salvage(d.path, stored_name, on_damage, &said, &h, &why), 0);
        assert_int_equal(said.n, 0);
        assert_int_equal(h.rows, ROWS);
        assert_true(look(&d, &seen, &said, &gen, &mark));
        assert_int_equal(seen.n, ROWS);
        assert_int_equal(said.n, 0);
        assert_int_equal(gen, GEN);
        assert_int_equal(mark, MARK);
        struct partition *p = stored_open(&d, PARTITION_WRITE);
        assert_int_equal(partition_span(p)->to_ns, STORED_FROM + STORED_DAY);
        assert_int_equal(partition_mark(p, &file), 5);
        (void)stored_put(p, 200, STORED_FROM, 20);
        assert_int_equal(partition_commit(p), 0);
        partition_close(p);
        image_fini(&x);
        stored_remove_dir(&d);
    }
}

/* What must hold whatever was done to the file. */
static void check_flip(const struct stored_dir *d, const char *what, size_t at, unsigned salvage)
{
    struct stored_seen seen;
    struct said said;
    struct partition_health h = {0};
    struct diag why = {0};
    uint64_t gen = 0, mark = 0;
    bool is_readable = look(d, &seen, &said, &gen, &mark);
    bool is_behind = gen < GEN;
    if (is_readable && !is_behind && (seen.n < ROWS || mark != MARK) && said.n == 0)
        fail_msg("%s %zu: %u rows, mark %llu, and nothing was said", what, at, seen.n,
                 (unsigned long long)mark);
    if (is_readable && gen < GEN - 1 && mark == MARK) /* the last one did not move it */
        fail_msg("%s %zu: commits are gone, but not their mark", what, at);
    struct said checked = {0};
    assert_int_equal(partition_check(d->path, stored_name, on_damage, &checked, &h, &why), 0);
    if (is_readable && !is_behind && h.rows < ROWS && checked.n == 0)
        fail_msg("%s %zu: check found %llu rows and said nothing", what, at, (unsigned long long)h.rows);
    if (!is_readable && checked.n == 0 && !h.is_broken)
        fail_msg("%s %zu: can't be read, and check said nothing", what, at);
    if (test_random(&(uint64_t){at}) % salvage)
        return;
    struct said salvaged = {0};
    assert_int_equal(partition_salvage(d->path, stored_name, on_damage, &salvaged, &h, &why), 0);
    struct said after;
    if (!look(d, &seen, &after, &gen, &mark))
        fail_msg("%s %zu: can't be read after it was made again", what, at);
    if (seen.n != h.rows || (gen == GEN && (seen.n < ROWS || mark != MARK) && salvaged.n == 0) ||
        (gen < GEN - 1 && mark == MARK))
        fail_msg("%s %zu: made again: %u rows, mark %llu: %s", what, at, seen.n, (unsigned long long)mark,
                 salvaged.all);
    remove_damaged(d);
}

/* Unused space is looked at here and there. */
static bool is_skipped(const struct strbuf *b, size_t i, uint64_t *seed)
{
    return b->p[i] == 0 && (i == 0 || b->p[i - 1] == 0) && i + 1 < b->n && b->p[i + 1] == 0 &&
           test_random(seed) % 64;
}

static void flip_all(const struct stored_dir *d, struct image *x, struct strbuf *bytes, const char *what)
{
    uint64_t seed = 7;
    for (size_t i = 0; i < bytes->n; i++) {
        if (is_skipped(bytes, i, &seed) || test_random(&seed) % 3 >= test_scale())
            continue;
        char was = bytes->p[i];
        bytes->p[i] = (char)(was ^ (test_random(&seed) % 4 ? 1 << test_random(&seed) % 8 : 0xff));
        put_image(d, x);
        check_flip(d, what, i, test_scale() > 1 ? 2 : 24);
        bytes->p[i] = was;
    }
}

static void every_byte_of_the_file(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct image x;
    make_image(&d, false, &x);
    assert_int_equal(x.log.n, 0);
    flip_all(&d, &x, &x.main, "byte of the file");
    image_fini(&x);
    stored_remove_dir(&d);
}

static void every_byte_of_the_log(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct image x;
    make_image(&d, true, &x);
    assert_true(x.log.n > 100000);
    flip_all(&d, &x, &x.log, "byte of the log");
    image_fini(&x);
    stored_remove_dir(&d);
}

/* Every page is lost in turn: zeros, or what was on another. */
static void every_page(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct image x, changed = {{0}, {0}};
    make_image(&d, false, &x);
    size_t page = 8192;
    for (size_t i = 0; i < x.main.n; i += page) {
        for (unsigned kind = 0; kind < 2; kind++) {
            strbuf_reset(&changed.main);
            strbuf_add_slice(&changed.main, strbuf_slice(&x.main));
            if (kind == 0)
                memset(changed.main.p + i, 0, page);
            else
                memcpy(changed.main.p + i, x.main.p + (i ? i - page : x.main.n - page), page);
            put_image(&d, &changed);
            check_flip(&d, kind ? "page copied over" : "page of zeros", i, 1);
        }
    }
    /* And the end of the file is missing. */
    for (size_t n = 0; n < x.main.n; n += page / 2) {
        strbuf_reset(&changed.main);
        strbuf_add(&changed.main, x.main.p, n);
        put_image(&d, &changed);
        struct partition *p = NULL;
        struct diag why = {0};
        if (n == 0)
            assert_int_equal(partition_open(d.path, stored_name, 0, NULL, &p, &why), -ENOENT);
        else
            check_flip(&d, "cut", n, 1);
    }
    image_fini(&x);
    image_fini(&changed);
    stored_remove_dir(&d);
}

/* A commit behind a flip of the log: whole, it is taken again; with a blob of it damaged, it is not. */
static void behind_a_flip(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct image x;
    struct stored_seen seen;
    struct said said = {0};
    uint64_t gen, mark;
    struct partition_health h;
    struct diag why;
    make_image(&d, true, &x);
    x.log.p[25] ^= 1; /* its head: SQLite reads none of it */
    put_image(&d, &x);
    struct partition *p = NULL;
    assert_int_equal(partition_open(d.path, stored_name, 0, NULL, &p, &why), -ENOENT); /* as if never made */
    assert_int_equal(partition_salvage(d.path, stored_name, on_damage, &said, &h, &why), 0);
    assert_true(look(&d, &seen, &said, &gen, &mark));
    assert_int_equal(seen.n, ROWS);
    assert_int_equal(gen, GEN);
    assert_int_equal(mark, MARK);
    remove_damaged(&d);
    x.log.p[25] ^= 1;
    /* The last commit's first frame: a sum of it. */
    size_t frame = 24 + 8192, n = (x.log.n - 32) / frame;
    size_t last = n;
    for (size_t i = 0; i + 1 < n; i++)
        if (memcmp(x.log.p + 32 + i * frame + 4, "\0\0\0\0", 4) != 0)
            last = i + 1;
    x.log.p[32 + last * frame + 20] ^= 4;
    put_image(&d, &x);
    assert_true(look(&d, &seen, &said, &gen, &mark));
    assert_int_equal(gen, 11);
    assert_int_equal(partition_salvage(d.path, stored_name, on_damage, &said, &h, &why), 0);
    assert_true(look(&d, &seen, &said, &gen, &mark));
    assert_int_equal(gen, GEN);
    assert_int_equal(seen.n, ROWS);
    image_fini(&x);
    stored_remove_dir(&d);
}

/* The damaged files stay, under another name each time. */
static void kept_aside(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct image x;
    struct partition_health h;
    struct diag why;
    struct said said = {0};
    struct strbuf kept = {0};
    make_image(&d, true, &x);
    for (unsigned i = 0; i < 3; i++) {
        put_image(&d, &x);
        assert_int_equal(partition_salvage(d.path, stored_name, on_damage, &said, &h, &why), 0);
    }
    static const char *const names[] = {"20261115T000000Z.db.damaged", "20261115T000000Z.db.damaged-2",
                                        "20261115T000000Z.db.damaged-3"};
    for (unsigned i = 0; i < 3; i++) {
        char name[64];
        stored_load(&d, names[i], &kept);
        assert_int_equal(kept.n, x.main.n);
        assert_memory_equal(kept.p, x.main.p, kept.n);
        (void)snprintf(name, sizeof name, "%s-wal", names[i]);
        stored_load(&d, name, &kept);
        assert_int_equal(kept.n, x.log.n);
        assert_memory_equal(kept.p, x.log.p, kept.n);
    }
    strbuf_fini(&kept);
    image_fini(&x);
    stored_remove_dir(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),         cmocka_unit_test(every_byte_of_the_file),
        cmocka_unit_test(every_page),    cmocka_unit_test(every_byte_of_the_log),
        cmocka_unit_test(behind_a_flip), cmocka_unit_test(kept_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
