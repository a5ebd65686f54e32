/* SPDX-License-Identifier: Apache-2.0 */
/* The journal on a real file system: numbers, groups, limits, the lock, opening after a crash, memory. */
#include "unit/test.h"

#include "base/err.h"
#include "base/mem.h"
#include "journal/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/journal_test.XXXXXX");
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

static struct journal *open_with(struct journal_options o)
{
    struct journal *j;
    assert_int_equal(journal_open(dir, &o, &j), 0);
    return j;
}

static struct journal_stats stats_of(const struct journal *j)
{
    struct journal_stats s;
    journal_stats(j, &s);
    return s;
}

/* n records of size bytes, committed together. */
static void add(struct journal *j, unsigned n, size_t size)
{
    static char bytes[JOURNAL_RECORD_MAX];
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(journal_append(j, 5, slice_of(bytes, size), NULL), 0);
    assert_int_equal(journal_commit(j), 0);
}

/* Reads from number from; all are records, up to last. */
static void expect_records(struct journal *j, uint64_t from, uint64_t last)
{
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, from, &r), 0);
    for (uint64_t n = from; n <= last; n++) {
        assert_int_equal(journal_reader_next(r, &item), 0);
        assert_int_equal(item.kind, JOURNAL_RECORD);
        assert_int_equal(item.first, n);
    }
    assert_int_equal(journal_reader_next(r, &item), E_NODATA);
    journal_reader_close(r);
}

static void test_append_commit_read(void **state)
{
    (void)state;
    struct journal *j = open_with((struct journal_options){0});
    uint64_t number = 0;
    assert_int_equal(journal_commit(j), 0); /* nothing to do is no error, and makes no file */
    assert_int_equal(stats_of(j).segments, 0);
    assert_int_equal(stats_of(j).first, 1);
    assert_int_equal(journal_append(j, 7, SLICE_LIT("one"), &number), 0);
    assert_int_equal(number, 1);
    assert_int_equal(journal_append(j, 8, slice_of(NULL, 0), &number), 0);
    assert_int_equal(number, 2);
    uint64_t syncs = stats_of(j).syncs;
    assert_int_equal(journal_commit(j), 0);
    assert_int_equal(stats_of(j).syncs, syncs + 2); /* the file and its name */
    add(j, 100, 10);
    assert_int_equal(stats_of(j).syncs, syncs + 3); /* one for the whole group */
    assert_int_equal(stats_of(j).last, 102);
    assert_int_equal(stats_of(j).records, 102);
    journal_close(j);

    j = open_with((struct journal_options){0});
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, 0, &r), 0);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_slice(item.payload, "one");
    assert_int_equal(item.type, 7);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.payload.n, 0);
    assert_int_equal(item.type, 8);
    journal_reader_close(r);
    assert_int_equal(journal_append(j, 1, SLICE_LIT("x"), &number), 0);
    assert_int_equal(number, 103);
    journal_close(j); /* not committed: forgotten */
    j = open_with((struct journal_options){0});
    assert_int_equal(stats_of(j).last, 102);
    journal_close(j);
}

/* A group that the caller laid out is the same records, numbered after those before it. */
static void test_laid(void **state)
{
    (void)state;
    struct journal *j = open_with((struct journal_options){0});
    static const char *const payloads[] = {"", "a", "seven b", "eight by", "nine byte"};
    char group[5 * (JOURNAL_LAID_HEAD + 2 * JOURNAL_LAID_ALIGN)] = {0};
    size_t n = 0;
    add(j, 3, 10);
    for (uint32_t i = 0; i < 5; i++) {
        size_t length = strlen(payloads[i]);
        journal_lay_head(group + n, 20 + i, length);
        memcpy(group + n + JOURNAL_LAID_HEAD, payloads[i], length);
        n += (JOURNAL_LAID_HEAD + length + JOURNAL_LAID_ALIGN - 1) / JOURNAL_LAID_ALIGN * JOURNAL_LAID_ALIGN;
    }
    uint64_t syncs = stats_of(j).syncs;
    assert_int_equal(journal_commit_laid(j, group, 0), 0); /* nothing to do */
    assert_int_equal(stats_of(j).syncs, syncs);
    assert_int_equal(journal_commit_laid(j, group, n), 0);
    assert_int_equal(stats_of(j).syncs, syncs + 1);
    assert_int_equal(stats_of(j).last, 8);
    add(j, 1, 10);
    journal_close(j);

    j = open_with((struct journal_options){0});
    expect_records(j, 1, 9);
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, 4, &r), 0);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(journal_reader_next(r, &item), 0);
        assert_int_equal(item.type, 20 + i);
        assert_slice(item.payload, payloads[i]);
    }
    journal_reader_close(r);
    journal_close(j);
}

static void test_refusals(void **state)
{
    (void)state;
    struct journal *j = open_with((struct journal_options){.queue_bytes = 1});
    static char bytes[JOURNAL_RECORD_MAX + 1];
    uint64_t number = 77;
    assert_int_equal(journal_append(j, UINT32_MAX, SLICE_LIT("x"), &number), -EINVAL);
    assert_int_equal(journal_append(j, 1, slice_of(bytes, sizeof bytes), &number), E_LIMIT);
    assert_int_equal(number, 77);
    /* The queue takes one largest record whatever the option says, and no more. */
    assert_int_equal(journal_append(j, 1, slice_of(bytes, sizeof bytes - 1), &number), 0);
    assert_int_equal(journal_append(j, 1, SLICE_LIT("x"), &number), -ENOBUFS);
    assert_int_equal(number, 1);
    assert_int_equal(journal_drop(j), 1);
    assert_int_equal(journal_append(j, 1, SLICE_LIT("x"), &number), 0);
    assert_int_equal(number, 1);
    assert_int_equal(journal_commit(j), 0);
    journal_close(j);
    assert_int_equal(journal_open("/nowhere/at/all", NULL, &j), -ENOENT);
}

static void test_one_writer(void **state)
{
    (void)state;
    struct journal *j = open_with((struct journal_options){0}), *k = NULL;
    add(j, 3, 10);
    assert_int_equal(journal_open(dir, NULL, &k), -EBUSY);
    assert_null(k);
    k = open_with((struct journal_options){.flags = JOURNAL_READONLY});
    expect_records(k, 1, 3);
    journal_close(k);
    /* A forked child lets go without ending the parent's journal. */
    pid_t child = fork();
    if (child == 0) {
        journal_abandon(j);
        _exit(journal_open(dir, NULL, &k) == -EBUSY ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    add(j, 1, 10);
    journal_close(j);
    j = open_with((struct journal_options){0});
    expect_records(j, 1, 4);
    journal_close(j);
}

static void test_segments_roll(void **state)
{
    (void)state;
    struct journal *j = open_with((struct journal_options){.segment_bytes = 4096});
    for (int i = 0; i < 30; i++)
        add(j, 1, 1000);
    struct journal_stats s = stats_of(j);
    assert_int_equal(s.segments, 10); /* 3 x 1024 + 64 bytes each */
    assert_int_equal(s.bytes, 10 * 4096);
    add(j, 10, 1000); /* a group is not divided */
    assert_int_equal(stats_of(j).segments, 11);
    add(j, 1, JOURNAL_RECORD_MAX);
    expect_records(j, 1, 41);
    expect_records(j, 35, 41);
    journal_close(j);
    j = open_with((struct journal_options){.segment_bytes = 4096});
    assert_int_equal(stats_of(j).segments, 12);
    assert_int_equal(stats_of(j).first, 1);
    expect_records(j, 20, 41);
    journal_close(j);
}

/* Forced out by size, and counted, with a cursor and without; exactly. */
static void test_forced(void **state)
{
    (void)state;
    const struct journal_options o = {.segment_bytes = 4096, .max_bytes = 5 * 4096};
    struct journal *j = open_with(o);
    struct journal_cursor *c;
    struct journal_cursor_info info;
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    for (int i = 0; i < 15; i++)
        add(j, 1, 1000);
    assert_int_equal(stats_of(j).segments, 5);
    assert_int_equal(stats_of(j).forced, 0);
    assert_int_equal(journal_cursor_move(c, 4), 0);
    add(j, 1, 1000); /* 1..3 go: passed */
    assert_int_equal(stats_of(j).first, 4);
    assert_int_equal(stats_of(j).forced, 0);
    for (int i = 0; i < 6; i++)
        add(j, 1, 1000); /* 17, 18, 19: 4..6 go, of which 5 and 6 are missed; 22: 7..9 go */
    assert_int_equal(stats_of(j).first, 10);
    assert_int_equal(stats_of(j).forced, 5);
    journal_cursor_info(c, &info);
    assert_int_equal(info.position, 4);
    assert_int_equal(info.lost, 0);
    assert_int_equal(info.lost_first, 5);
    assert_int_equal(info.lost_last, 9);
    assert_true(stats_of(j).bytes <= o.max_bytes);

    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, info.position + 1, &r), 0);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.kind, JOURNAL_GAP);
    assert_int_equal(item.reason, JOURNAL_GAP_GONE);
    assert_int_equal(item.first, 5);
    assert_int_equal(item.last, 9);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.first, 10);
    journal_reader_close(r);

    assert_int_equal(journal_cursor_move(c, 7), 0); /* in the middle of what is lost */
    journal_cursor_info(c, &info);
    assert_int_equal(info.lost, 3);
    assert_int_equal(info.lost_first, 8);
    assert_int_equal(journal_cursor_move(c, 12), 0);
    journal_close(j);
    j = open_with(o);
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    journal_cursor_info(c, &info);
    assert_int_equal(info.position, 12);
    assert_int_equal(info.lost, 5);
    assert_int_equal(info.lost_first, 0);
    assert_int_equal(journal_cursor_remove(c), 0);
    for (int i = 0; i < 15; i++)
        add(j, 1, 1000); /* nobody reads, nobody has passed: all that goes is counted */
    struct journal_stats s = stats_of(j);
    assert_int_equal(s.forced, s.first - 10);
    journal_close(j);
}

/* Segments end where the caller says; a record tells its own. */
static void test_own_segments(void **state)
{
    (void)state;
    const struct journal_options o = {.flags = JOURNAL_OWN_SEGMENTS, .segment_bytes = 4096};
    struct journal *j = open_with(o);
    for (int i = 0; i < 10; i++)
        add(j, 1, 1000);
    assert_int_equal(stats_of(j).segments, 1);
    journal_cut(j);
    journal_cut(j); /* nothing is open now */
    assert_int_equal(stats_of(j).segments, 1);
    add(j, 2, 10);
    assert_int_equal(stats_of(j).segments, 2);
    assert_int_equal(stats_of(j).newest, 11);
    assert_int_equal(journal_segment_of(j, 0), 0);
    assert_int_equal(journal_segment_of(j, 1), 1);
    assert_int_equal(journal_segment_of(j, 10), 1);
    assert_int_equal(journal_segment_of(j, 12), 11);
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, 0, &r), 0);
    for (uint64_t n = 1; n <= 12; n++) {
        assert_int_equal(journal_reader_next(r, &item), 0);
        assert_int_equal(item.segment, n < 11 ? 1 : 11);
    }
    journal_reader_close(r);
    journal_close(j);
}

/* A hold keeps what is above its number, up to its own limit; what goes all the same is counted. */
static void test_holds(void **state)
{
    (void)state;
    const struct journal_options o = {.segment_bytes = 4096, .max_bytes = 5 * 4096};
    struct journal_hold holds[] = {{0, UINT64_MAX}, {100, 0}};
    struct journal *j = open_with(o);
    journal_set_holds(j, holds, 2);
    for (int i = 0; i < 30; i++)
        add(j, 1, 1000); /* three a segment */
    assert_int_equal(stats_of(j).first, 1);
    assert_int_equal(stats_of(j).bytes, 10 * 4096);
    assert_int_equal(journal_bytes_above(j, 0), 10 * 4096);
    assert_int_equal(journal_bytes_above(j, 3), 9 * 4096);
    assert_int_equal(journal_bytes_above(j, 29), 4096);
    assert_int_equal(journal_bytes_above(j, 30), 0);
    holds[0].number = 7; /* in the third segment, which stays */
    journal_set_holds(j, holds, 2);
    assert_int_equal(stats_of(j).first, 7);
    assert_int_equal(stats_of(j).forced, 0);
    holds[0] = (struct journal_hold){9, UINT64_MAX};
    holds[1] = (struct journal_hold){8, 7 * 4096}; /* as many as there are now with its segment */
    journal_set_holds(j, holds, 2);
    assert_int_equal(stats_of(j).first, 10);
    assert_int_equal(stats_of(j).forced, 1); /* record 9, for the second */
    holds[0].number = 30;
    holds[1] = (struct journal_hold){10, 7 * 4096};
    journal_set_holds(j, holds, 2);
    assert_int_equal(stats_of(j).first, 10); /* over max_bytes, within its own limit */
    assert_int_equal(stats_of(j).bytes, 7 * 4096);
    add(j, 1, 1000);
    assert_int_equal(stats_of(j).first, 13);
    assert_int_equal(stats_of(j).forced, 3);
    journal_close(j);
}

/* What is pinned stays, over the limit if need be; and it is nobody who has read. */
static void test_pinned(void **state)
{
    (void)state;
    const struct journal_options o = {.segment_bytes = 4096, .max_bytes = 5 * 4096};
    struct journal *j = open_with(o);
    struct journal_cursor *pin, *c;
    assert_int_equal(journal_cursor_open(j, "pin", &pin), 0);
    journal_cursor_pin(pin);
    for (int i = 0; i < 30; i++)
        add(j, 1, 1000); /* three a segment */
    assert_int_equal(stats_of(j).first, 1);
    assert_int_equal(stats_of(j).forced, 0);
    assert_int_equal(journal_trim(j), 0); /* without another cursor nothing is let go */
    assert_int_equal(journal_cursor_move(pin, 13), 0);
    add(j, 1, 1000); /* 1..12 go; the segment of 14 stays */
    assert_int_equal(stats_of(j).first, 13);
    assert_int_equal(stats_of(j).forced, 12);
    assert_int_equal(journal_cursor_move(pin, 31), 0);
    add(j, 1, 1000);
    assert_true(stats_of(j).bytes <= o.max_bytes);
    assert_int_equal(stats_of(j).forced, stats_of(j).first - 1);
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    assert_int_equal(journal_cursor_move(c, 32), 0);
    add(j, 5, 1000); /* a segment that both let go, up to the pin */
    assert_true(journal_trim(j) > 0);
    assert_int_equal(stats_of(j).first, journal_segment_of(j, 31));
    journal_close(j);
}

/* The other policy: what does not fit is refused, and fits again when a cursor has let segments go. */
static void test_refuse(void **state)
{
    (void)state;
    static char bytes[1000];
    struct journal *j = open_with(
        (struct journal_options){.flags = JOURNAL_REFUSE, .segment_bytes = 4096, .max_bytes = 5 * 4096});
    struct journal_cursor *c;
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    int r = 0;
    uint64_t n = 0;
    while ((r = journal_append(j, 1, slice_of(bytes, sizeof bytes), NULL)) == 0) {
        assert_int_equal(journal_commit(j), 0);
        assert_true(++n < 100);
    }
    assert_int_equal(r, -ENOSPC);
    struct journal_stats s = stats_of(j);
    assert_true(n >= 9 && s.bytes <= 5 * 4096);
    assert_int_equal(s.refused, 1);
    assert_int_equal(s.forced, 0);
    assert_int_equal(s.first, 1);
    assert_int_equal(journal_append(j, 1, slice_of(bytes, sizeof bytes), NULL), -ENOSPC);
    assert_int_equal(stats_of(j).refused, 2);
    assert_int_equal(journal_cursor_move(c, 6), 0);
    add(j, 1, 1000); /* makes room by itself */
    assert_int_equal(stats_of(j).first, 7);
    expect_records(j, 7, n + 1);
    journal_close(j);
}

static void write_file(const char *name, const void *p, size_t n)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), n);
    assert_int_equal(close(fd), 0);
}

/* What a crash, or a person, may leave in the directory. */
static void test_odd_files(void **state)
{
    (void)state;
    struct journal *j = open_with((struct journal_options){0});
    add(j, 5, 100);
    journal_close(j);
    write_file("new.tmp", "half a head", 11);
    write_file("0000000000000006.seg", "", 0); /* no bytes, but its name says that 6 was given */
    write_file("000000000000000A.seg", "x", 1);
    write_file("ffffffffffffffff.seg", "x", 1);
    write_file("0000000000000000.seg", "x", 1);
    write_file("notes.txt", "x", 1);
    j = open_with((struct journal_options){0});
    assert_int_equal(stats_of(j).last, 6);
    assert_int_equal(stats_of(j).segments, 2);
    add(j, 2, 10);
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, 5, &r), 0);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.kind, JOURNAL_RECORD);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.kind, JOURNAL_GAP);
    assert_int_equal(item.first, 6);
    assert_int_equal(item.last, 6);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.first, 7);
    journal_reader_close(r);
    journal_close(j);
    write_file("0000000000000009.seg", "gljourn\n and a head that ends here", 34);
    j = open_with((struct journal_options){0});
    add(j, 1, 10);
    assert_int_equal(stats_of(j).last, 10);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/0000000000000009.seg", dir);
    assert_int_equal(access(path, F_OK), 0); /* never deleted because damaged */
    journal_close(j);
}

/* A cursor ahead of what is readable: numbers that its owner has passed are not given again. */
static void test_numbers_never_reused_below_cursor(void **state)
{
    (void)state;
    struct journal *j = open_with((struct journal_options){0});
    struct journal_cursor *c;
    add(j, 10, 10);
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    assert_int_equal(journal_cursor_move(c, 10), 0);
    journal_abandon(j);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/0000000000000001.seg", dir);
    assert_int_equal(truncate(path, 200), 0);
    j = open_with((struct journal_options){0});
    uint64_t number;
    assert_int_equal(journal_append(j, 1, SLICE_LIT("x"), &number), 0);
    assert_int_equal(number, 11);
    journal_close(j);
}

static void test_trim(void **state)
{
    (void)state;
    struct journal *j = open_with((struct journal_options){.segment_bytes = 4096});
    struct journal_cursor *a, *b;
    for (int i = 0; i < 12; i++)
        add(j, 1, 1000);
    assert_int_equal(journal_trim(j), 0); /* no cursor: nobody has passed anything */
    assert_int_equal(journal_cursor_open(j, "a", &a), 0);
    assert_int_equal(journal_cursor_open(j, "b", &b), 0);
    assert_int_equal(journal_cursor_move(a, 12), 0);
    assert_int_equal(journal_cursor_move(b, 5), 0);
    assert_int_equal(journal_trim(j), 1);
    assert_int_equal(stats_of(j).first, 4);
    assert_int_equal(journal_cursor_move(b, 6), 0);
    assert_int_equal(journal_trim(j), 1);
    assert_int_equal(stats_of(j).first, 7);
    assert_int_equal(journal_cursor_move(b, 12), 0);
    assert_int_equal(journal_trim(j), 1); /* the newest stays */
    assert_int_equal(stats_of(j).first, 10);
    assert_int_equal(stats_of(j).forced, 0);
    journal_close(j);
    j = open_with((struct journal_options){.segment_bytes = 4096});
    assert_int_equal(stats_of(j).last, 12);
    add(j, 1, 10);
    assert_int_equal(stats_of(j).last, 13);
    journal_close(j);
}

/* Everything the journal does when the n-th allocation fails: -ENOMEM, and it goes on. */
static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        mem_fail_after(n);
        int failures = 0;
        struct journal *j = NULL;
        int r = journal_open(dir, &(struct journal_options){.segment_bytes = 4096}, &j);
        if (r < 0) {
            assert_int_equal(r, -ENOMEM);
            assert_null(j);
            failures++;
            j = open_with((struct journal_options){.segment_bytes = 4096});
        }
        struct journal_cursor *c;
        while ((r = journal_cursor_open(j, "c", &c)) < 0)
            assert_int_equal(r, -ENOMEM), failures++;
        for (int i = 0; i < 40; i++) {
            static char bytes[3000];
            while ((r = journal_append(j, 1, slice_of(bytes, sizeof bytes), NULL)) < 0)
                assert_int_equal(r, -ENOMEM), failures++;
            while ((r = journal_commit(j)) < 0)
                assert_int_equal(r, -ENOMEM), failures++;
        }
        mem_fail_after(0);
        uint64_t last = stats_of(j).last;
        assert_int_equal(last % 40, 0); /* rounds before this one, too */
        expect_records(j, stats_of(j).first, last);
        assert_int_equal(journal_cursor_move(c, last), 0);
        assert_true(journal_trim(j) > 0);
        assert_int_equal(journal_cursor_remove(c), 0);
        journal_close(j);
        assert_true(failures <= 1);
        if (failures == 0 && n > 5)
            break;
    }
}

#define in_dir(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_dir(test_append_commit_read),
        in_dir(test_laid),
        in_dir(test_refusals),
        in_dir(test_one_writer),
        in_dir(test_segments_roll),
        in_dir(test_own_segments),
        in_dir(test_holds),
        in_dir(test_pinned),
        in_dir(test_forced),
        in_dir(test_refuse),
        in_dir(test_odd_files),
        in_dir(test_trim),
        in_dir(test_numbers_never_reused_below_cursor),
        in_dir(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
