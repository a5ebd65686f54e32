/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's state on a real file system: over restarts, in snapshots, behind damage. Power loss and failing
 * calls are in tests/fault/guard_state.c. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "guard/state.h"
#include "journal/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/state_test.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    DIR *d = opendir(dir);
    const struct dirent *e;
    while (d && (e = readdir(d)))
        (void)unlinkat(dirfd(d), e->d_name, 0); /* "." and ".." fail */
    if (d)
        (void)closedir(d);
    return rmdir(dir);
}

/* What was handed out, as "1/7=text 2/1=...". */
static void list(void *arg, enum state_kind kind, uint64_t id, struct slice record)
{
    strbuf_printf(arg, "%u/%llu=%.*s ", kind, (unsigned long long)id, SLICE_ARG(record));
}

static struct state *open_state(struct strbuf *to, uint64_t *damaged)
{
    struct state *s;
    strbuf_reset(to);
    assert_int_equal(state_open(dir, NULL, list, to, damaged, &s), 0);
    return s;
}

static void put(struct state *s, enum state_kind kind, uint64_t id, const char *text)
{
    assert_int_equal(state_put(s, kind, id, slice_str(text)), 0);
}

static void test_restart(void **state)
{
    (void)state;
    struct strbuf got = {0};
    uint64_t damaged;
    struct state *s = open_state(&got, &damaged);
    assert_slice(strbuf_slice(&got), "");
    put(s, STATE_ACTION, 1, "a");
    put(s, STATE_FAULT, UINT64_MAX, "b");
    put(s, STATE_FAULT, 7, "c");
    put(s, STATE_FAULT, 7, "d");
    put(s, STATE_SILENCE, 7, "");
    assert_true(state_is_dirty(s));
    assert_int_equal(state_commit(s), 0);
    assert_false(state_is_dirty(s));
    put(s, STATE_FAULT, 7, "d"); /* as it is */
    assert_false(state_is_dirty(s));
    put(s, STATE_FAULT, 7, "not committed");
    state_close(s);

    s = open_state(&got, &damaged);
    assert_int_equal(damaged, 0);
    assert_slice(strbuf_slice(&got), "1/7=d 1/18446744073709551615=b 2/7= 3/1=a ");
    assert_int_equal(state_drop(s, STATE_FAULT, 7), 0);
    assert_int_equal(state_drop(s, STATE_FAULT, 8), 0); /* never was */
    assert_int_equal(state_commit(s), 0);
    state_close(s);

    s = open_state(&got, &damaged);
    assert_slice(strbuf_slice(&got), "1/18446744073709551615=b 2/7= 3/1=a ");
    struct state *other;
    assert_int_equal(state_open(dir, NULL, list, &got, NULL, &other), -EBUSY);
    state_close(s);
    strbuf_fini(&got);
}

static void test_limits(void **state)
{
    (void)state;
    struct strbuf got = {0};
    struct state *s = open_state(&got, NULL);
    char *large = calloc(1, JOURNAL_RECORD_MAX);
    assert_non_null(large);
    assert_int_equal(state_put(s, STATE_FAULT, 1, slice_of(large, JOURNAL_RECORD_MAX)), E_LIMIT);
    assert_false(state_is_dirty(s));
    for (uint64_t id = 1; id <= 5; id++)
        assert_int_equal(state_put(s, STATE_FAULT, id, slice_of(large, JOURNAL_RECORD_MAX - 64)), 0);
    assert_int_equal(state_commit(s), 0);
    state_close(s);
    s = open_state(&got, NULL);
    struct state_stats stats;
    state_stats(s, &stats);
    assert_int_equal(stats.records, 5);
    state_close(s);
    strbuf_fini(&got);
    free(large);
}

/* However much is written, the journal stays near what lives, and what lives stays. */
static void test_snapshots(void **state)
{
    (void)state;
    struct strbuf got = {0}, want = {0};
    struct state_stats stats;
    uint64_t seed = 5, most = 0, written = 0;
    struct state *s = open_state(&got, NULL);
    state_sizes(s, 64 << 10, 1 << 20);
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (unsigned i = 1; i <= 3000; i++) {
        (void)snprintf(text, 16, "%u", i);
        text[strlen(text)] = ' ';
        put(s, STATE_FAULT, test_random(&seed) % 40, text);
        if (i % 3 == 0)
            assert_int_equal(state_drop(s, STATE_FAULT, test_random(&seed) % 40), 0);
        assert_int_equal(state_commit(s), 0);
        state_stats(s, &stats);
        written += sizeof text;
        most = stats.bytes > most ? stats.bytes : most;
        if (i % 500)
            continue;
        state_close(s);
        s = open_state(&got, NULL);
        state_sizes(s, 64 << 10, 1 << 20);
    }
    state_close(s);
    s = open_state(&want, NULL);
    state_close(s);
    s = open_state(&got, NULL);
    assert_slice(strbuf_slice(&got), want.p);
    state_stats(s, &stats);
    assert_in_range(stats.records, 20, 40);
    assert_true(most < (64 << 10) + 6 * 40 * sizeof text && written > 10 * most);
    state_close(s);
    strbuf_fini(&got);
    strbuf_fini(&want);
}

/* ---------------------------------------------------------------- damage */

struct bytes {
    char name[64];
    unsigned char *p;
    size_t n;
};

/* Each segment of the journal, as it is. */
static size_t read_segments(struct bytes *files, size_t max)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    const struct dirent *e;
    while ((e = readdir(d))) {
        if (!strstr(e->d_name, ".seg"))
            continue;
        assert_true(n < max);
        struct bytes *b = &files[n++];
        (void)snprintf(b->name, sizeof b->name, "%.60s", e->d_name);
        int fd = openat(dirfd(d), e->d_name, O_RDONLY);
        b->n = (size_t)lseek(fd, 0, SEEK_END);
        b->p = malloc(b->n);
        assert_int_equal(pread(fd, b->p, b->n, 0), b->n);
        (void)close(fd);
    }
    (void)closedir(d);
    return n;
}

static void write_segment(const struct bytes *b)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", dir, b->name);
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, b->p, b->n, 0), b->n);
    (void)close(fd);
}

/* Opening leaves no new segment, only a commit does: so the flipped file is all there is to put back. */
static void flip_all(const struct bytes *b, size_t step, const char *whole, uint64_t *silent, uint64_t *told)
{
    struct strbuf got = {0};
    for (size_t i = 0; i < b->n; i += step) {
        b->p[i] ^= 0x10;
        write_segment(b);
        uint64_t damaged = 0;
        struct state *s = open_state(&got, &damaged);
        state_close(s);
        bool is_whole = strcmp(got.p ? got.p : "", whole) == 0;
        if (!is_whole && damaged == 0)
            fail_msg("%s: byte %zu: something is lost and nothing says so", b->name, i);
        *silent += is_whole;
        *told += damaged > 0;
        b->p[i] ^= 0x10;
    }
    write_segment(b);
    strbuf_fini(&got);
}

static void test_flips(void **state)
{
    (void)state;
    struct strbuf got = {0}, want = {0};
    struct bytes files[8];
    uint64_t silent = 0, told = 0, damaged;
    struct state *s = open_state(&got, NULL);
    for (unsigned i = 0; i < 6; i++) {
        put(s, STATE_FAULT, i, "one");
        put(s, STATE_ACTION, i / 2, i % 2 ? "two" : "three");
        assert_int_equal(state_commit(s), 0);
    }
    state_close(s);
    s = open_state(&want, &damaged);
    assert_int_equal(damaged, 0);
    state_close(s);
    size_t n = read_segments(files, 8);
    assert_int_equal(n, 1);
    flip_all(&files[0], 1, want.p, &silent, &told);
    print_message("%zu flips: %llu told, %llu without effect\n", files[0].n, (unsigned long long)told,
                  (unsigned long long)silent);
    assert_true(told > files[0].n / 2 && silent > 0);
    free(files[0].p);

    s = open_state(&got, &damaged);
    assert_int_equal(damaged, 0);
    assert_slice(strbuf_slice(&got), want.p);
    state_close(s);
    strbuf_fini(&got);
    strbuf_fini(&want);
}

/* A flip in a snapshot, which is all there is, takes one part of it and no more; and after the next commit
 * the state is whole again. */
static void test_flip_in_snapshot(void **state)
{
    (void)state;
    struct strbuf got = {0};
    struct bytes files[8];
    uint64_t damaged;
    struct state_stats stats;
    char text[400];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct state *s = open_state(&got, NULL);
    for (unsigned i = 0; i < 1000; i++)
        put(s, STATE_FAULT, i, text);
    assert_int_equal(state_commit(s), 0);
    state_sizes(s, 0, 1 << 20);
    for (unsigned i = 0; i < 5; i++) { /* several times what lives */
        for (unsigned k = 0; k < 1000; k++) {
            text[0] = (char)('a' + i);
            put(s, STATE_FAULT, k, text);
        }
        assert_int_equal(state_commit(s), 0);
    }
    state_close(s);
    for (;;) { /* until the newest is a snapshot alone */
        s = open_state(&got, NULL);
        state_sizes(s, 0, 1 << 20);
        state_stats(s, &stats);
        bool is_small = stats.bytes < 600000;
        put(s, STATE_COUNTER, 1, is_small ? "end" : text);
        text[1]++;
        assert_int_equal(state_commit(s), 0);
        state_close(s);
        if (is_small)
            break;
    }
    size_t n = read_segments(files, 8), largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = files[i].n > files[largest].n ? i : largest;
    files[largest].p[files[largest].n / 2] ^= 1;
    write_segment(&files[largest]);
    for (size_t i = 0; i < n; i++)
        free(files[i].p);

    s = open_state(&got, &damaged);
    assert_int_equal(damaged, 1);
    state_stats(s, &stats);
    assert_in_range(stats.records, 1001 - (33 << 10) / 400, 1000);
    put(s, STATE_COUNTER, 2, "goes on");
    assert_int_equal(state_commit(s), 0);
    state_close(s);
    size_t left = stats.records + 1;
    s = open_state(&got, &damaged);
    assert_int_equal(damaged, 0);
    state_stats(s, &stats);
    assert_int_equal(stats.records, left);
    state_close(s);
    strbuf_fini(&got);
}

/* A segment that is gone is told. */
static void test_segment_gone(void **state)
{
    (void)state;
    struct strbuf got = {0};
    uint64_t damaged;
    for (unsigned i = 0; i < 3; i++) {
        struct state *s = open_state(&got, NULL);
        put(s, STATE_FAULT, i, "x");
        assert_int_equal(state_commit(s), 0);
        state_close(s);
    }
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%016x.seg", dir, 2);
    assert_int_equal(unlink(path), 0);
    struct state *s = open_state(&got, &damaged);
    assert_int_equal(damaged, 1);
    assert_slice(strbuf_slice(&got), "1/0=x 1/2=x ");
    state_close(s);
    strbuf_fini(&got);
}

static void test_many(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    struct strbuf got = {0};
    struct state_stats stats;
    char text[300];
    memset(text, 'z', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct state *s = open_state(&got, NULL);
    int64_t at = clock_mono_ns();
    for (uint64_t i = 0; i < MANY; i++)
        put(s, STATE_FAULT, i * 0x9e3779b97f4a7c15u, text);
    assert_int_equal(state_commit(s), 0);
    double wrote = (double)(clock_mono_ns() - at) / 1e6;
    state_close(s);
    at = clock_mono_ns();
    s = open_state(&got, NULL);
    double read = (double)(clock_mono_ns() - at) / 1e6;
    state_stats(s, &stats);
    assert_int_equal(stats.records, MANY);
    print_message("%d records of %zu bytes: committed in %.0f ms, opened in %.0f ms, %.1f MB on disk\n", MANY,
                  sizeof text - 1, wrote, read, (double)stats.bytes / 1e6);
    state_close(s);
    strbuf_fini(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_restart, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_limits, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_snapshots, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_flips, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_flip_in_snapshot, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_segment_gone, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_many, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
