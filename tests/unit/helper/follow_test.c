/* SPDX-License-Identifier: Apache-2.0 */
/* The follower on real files in a folder of its own. Time is a variable: no test waits. */
#include "unit/test.h"

#include "base/clock.h"
#include "helper/follow.h"
#include "helper/follow_mark.h"
#include "helper/follow_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct fixture {
    char dir[64], path[128];
    struct follow *f;
    struct follow_options options;
    struct strbuf position; /* kept */
    struct strbuf seen;     /* every line and gap so far: "line\n", "[gap N]\n", "[gap ?]\n" */
    struct diag why;
    int64_t now_ns;
};

static int setup(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    memcpy(x->dir, "/tmp/follow_test.XXXXXX", 24);
    assert_non_null(mkdtemp(x->dir));
    (void)snprintf(x->path, sizeof x->path, "%s/log", x->dir);
    x->options = (struct follow_options){.path = x->path, .from_start = true, .grace_ns = 2 * NS_PER_S};
    x->now_ns = 1;
    *state = x;
    return 0;
}

static void remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    const struct dirent *e;
    while ((e = readdir(d)))
        (void)unlinkat(dirfd(d), e->d_name, 0); /* "." and ".." fail */
    (void)closedir(d);
    (void)rmdir(dir); /* checked where it matters */
}

static int teardown(void **state)
{
    struct fixture *x = *state;
    follow_close(x->f);
    strbuf_fini(&x->position);
    strbuf_fini(&x->seen);
    remove_dir(x->dir);
    free(x);
    return 0;
}

static const char *name_of(struct fixture *x, const char *name)
{
    static char names[4][160];
    static unsigned next;
    char *to = names[next++ % 4];
    (void)snprintf(to, sizeof names[0], "%s/%s", x->dir, name);
    return to;
}

static void put(struct fixture *x, const char *name, const void *bytes, size_t n)
{
    int fd = open(name_of(x, name), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    assert_int_equal(close(fd), 0);
}

static void add(struct fixture *x, const char *name, const char *text)
{
    put(x, name, text, strlen(text));
}

static void move(struct fixture *x, const char *from, const char *to)
{
    assert_int_equal(rename(name_of(x, from), name_of(x, to)), 0);
}

static void copy(struct fixture *x, const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(name_of(x, from), "re");
    assert_non_null(in);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    assert_true(n < sizeof bytes);
    (void)fclose(in);
    put(x, to, bytes, n);
}

static void cut(struct fixture *x, const char *name, off_t size)
{
    assert_int_equal(truncate(name_of(x, name), size), 0);
}

static void stop(struct fixture *x)
{
    follow_close(x->f);
    x->f = NULL;
}

/* Reads all there is; opens first if it is not open, with the kept position. */
static int go(struct fixture *x)
{
    struct follow_item item;
    int r;
    if (!x->f)
        assert_int_equal(follow_open(&x->options, strbuf_slice(&x->position), &x->f, &x->why), 0);
    follow_begin(x->f, x->now_ns, 0); /* utc 0: the files' own times make none quiet */
    while ((r = follow_next(x->f, &item, &x->why)) == 0) {
        if (item.kind == FOLLOW_LINE)
            strbuf_printf(&x->seen, "%.*s%s\n", SLICE_ARG(item.line), item.is_cut ? "[cut]" : "");
        else if (item.is_lost_known)
            strbuf_printf(&x->seen, "[gap %llu]\n", (unsigned long long)item.lost);
        else
            strbuf_add_str(&x->seen, "[gap ?]\n");
    }
    strbuf_reset(&x->position);
    follow_position(x->f, FOLLOW_AFTER, &x->position);
    assert_true(x->position.n <= FOLLOW_POSITION_MAX);
    return r;
}

/* ... and again after the grace. */
static void go_on(struct fixture *x)
{
    assert_int_equal(go(x), E_NODATA);
    x->now_ns += 3 * NS_PER_S;
    assert_int_equal(go(x), E_NODATA);
    x->now_ns += 3 * NS_PER_S;
    assert_int_equal(go(x), E_NODATA);
}

static void expect(struct fixture *x, const char *want)
{
    assert_string_equal(x->seen.n ? x->seen.p : "", want);
    strbuf_reset(&x->seen);
}

static void test_lines(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\ntwo\r\n\nthr");
    assert_int_equal(go(x), E_NODATA);
    expect(x, "one\ntwo\n\n"); /* half a line waits */
    add(x, "log", "ee\nfour\n");
    assert_int_equal(go(x), E_NODATA);
    expect(x, "three\nfour\n");
    assert_int_equal(go(x), E_NODATA);
    expect(x, "");
    assert_int_equal(follow_stats(x->f)->lines, 5);
    assert_int_equal(follow_stats(x->f)->bytes, 21);
}

static void test_from_end(void **state)
{
    struct fixture *x = *state;
    x->options.from_start = false;
    add(x, "log", "old\nhalf");
    assert_int_equal(go(x), E_NODATA);
    stop(x); /* also with nothing read the place is kept */
    add(x, "log", " of an old line\nnew\n");
    assert_int_equal(go(x), E_NODATA);
    expect(x, "new\n");
}

static void test_restart(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\ntw");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    add(x, "log", "o\nthree\n");
    assert_int_equal(go(x), E_NODATA);
    expect(x, "one\ntwo\nthree\n");
}

/* Each line can be taken back: what is before it is where to go on, too. */
static void test_before(void **state)
{
    struct fixture *x = *state;
    struct follow_item item;
    add(x, "log", "one\ntwo\nthree\n");
    assert_int_equal(follow_open(&x->options, slice_of("", 0), &x->f, &x->why), 0);
    follow_begin(x->f, 0, 0);
    assert_int_equal(follow_next(x->f, &item, &x->why), 0);
    assert_int_equal(follow_next(x->f, &item, &x->why), 0);
    assert_slice(item.line, "two");
    follow_position(x->f, FOLLOW_BEFORE, &x->position);
    stop(x);
    assert_int_equal(go(x), E_NODATA);
    expect(x, "two\nthree\n");
}

static void test_missing(void **state)
{
    struct fixture *x = *state;
    x->options.from_start = false;
    assert_int_equal(go(x), E_NODATA);
    add(x, "log", "first\n"); /* it is new: all of it counts */
    assert_int_equal(go(x), E_NODATA);
    expect(x, "first\n");
}

static void test_missing_then_restart(void **state)
{
    struct fixture *x = *state;
    x->options.from_start = false;
    x->options.path = name_of(x, "log");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    add(x, "log", "first\n");
    move(x, "log", "log.1");
    add(x, "log", "second\n");
    go_on(x);
    expect(x, "first\nsecond\n");
}

static void test_long_line(void **state)
{
    struct fixture *x = *state;
    size_t n = FOLLOW_LINE_MAX;
    char *line = malloc(n + 2);
    memset(line, 'x', n + 2);
    line[n] = '\n';
    put(x, "log", line, n + 1); /* just fits */
    assert_int_equal(go(x), E_NODATA);
    assert_int_equal(x->seen.n, n + 1);
    strbuf_reset(&x->seen);
    line[n] = 'x';
    put(x, "log", line, n + 1); /* does not, and its end is not there yet */
    assert_int_equal(go(x), E_NODATA);
    assert_int_equal(x->seen.n, n + strlen("[cut]\n"));
    strbuf_reset(&x->seen);
    stop(x);
    put(x, "log", line, n);
    add(x, "log", "\nshort\n");
    assert_int_equal(go(x), E_NODATA);
    expect(x, "short\n");
    line[n] = 'x';
    line[n + 1] = '\n';
    put(x, "log", line, n + 2); /* cut, with its end in sight */
    assert_int_equal(go(x), E_NODATA);
    assert_int_equal(x->seen.n, n + strlen("[cut]\n"));
    assert_int_equal(follow_stats(x->f)->cut, 1);
    free(line);
}

static void test_rename(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    move(x, "log", "any-name-at-all");
    add(x, "any-name-at-all", "two\n"); /* the writer has it open still */
    add(x, "log", "four\n");
    assert_int_equal(go(x), E_NODATA);
    expect(x, "one\ntwo\n");
    add(x, "any-name-at-all", "three\n");
    x->now_ns += NS_PER_S;
    assert_int_equal(go(x), E_NODATA);
    expect(x, "three\n");
    x->now_ns += NS_PER_S; /* less than the grace since it grew */
    assert_int_equal(go(x), E_NODATA);
    expect(x, "");
    x->now_ns += NS_PER_S;
    assert_int_equal(go(x), E_NODATA);
    expect(x, "four\n");
    assert_int_equal(follow_stats(x->f)->rotations, 1);
}

static void test_rename_partial(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\nno end");
    assert_int_equal(go(x), E_NODATA);
    move(x, "log", "log.1");
    add(x, "log", "two\n");
    go_on(x);
    expect(x, "one\nno end\ntwo\n");
}

static void shift(struct fixture *x, int n)
{
    for (int i = n; i >= 0; i--) {
        char from[16], to[16];
        (void)snprintf(from, sizeof from, i ? "log.%d" : "log", i);
        (void)snprintf(to, sizeof to, "log.%d", i + 1);
        (void)rename(name_of(x, from), name_of(x, to)); /* those that are there */
    }
}

static void test_many_rotations(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "0\n");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    add(x, "log", "0b\n");
    for (int i = 1; i <= 30; i++) { /* more than are kept open */
        char line[16];
        shift(x, 31);
        (void)snprintf(line, sizeof line, "%d\n", i);
        add(x, "log", line);
    }
    for (int i = 0; i < 40; i++)
        go_on(x);
    struct strbuf want = {0};
    strbuf_add_str(&want, "0\n0b\n");
    for (int i = 1; i <= 30; i++)
        strbuf_printf(&want, "%d\n", i);
    expect(x, want.p);
    strbuf_fini(&want);
}

static void test_dated_rotations(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    move(x, "log", "log-20260101");
    add(x, "log", "two\n");
    move(x, "log", "log-20260102");
    add(x, "log", "three\n");
    go_on(x);
    expect(x, "one\ntwo\nthree\n");
}

/* Pieces that are deleted or packed while they wait are open already. */
static void test_held_pieces(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    move(x, "log", "log.1");
    add(x, "log", "two\n");
    assert_int_equal(go(x), E_NODATA);
    assert_int_equal(unlink(name_of(x, "log.1")), 0);
    move(x, "log", "log.1");
    add(x, "log", "three\n");
    assert_int_equal(go(x), E_NODATA);
    assert_int_equal(unlink(name_of(x, "log.1")), 0);
    x->now_ns += 9 * NS_PER_S;
    go_on(x);
    expect(x, "one\ntwo\nthree\n");
}

/* What is written to a piece after the grace is found at the next rotation. */
static void test_late_lines(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    go_on(x);
    move(x, "log", "log.1");
    add(x, "log", "two\n");
    go_on(x);
    add(x, "log.1", "late\n");
    move(x, "log.1", "log.2");
    move(x, "log", "log.1");
    add(x, "log", "three\n");
    go_on(x);
    go_on(x);
    expect(x, "one\ntwo\nlate\nthree\n");
}

/* As if it had been written so much later. */
static void age(struct fixture *x, const char *name, int64_t seconds)
{
    struct timespec t[2] = {{.tv_sec = time(NULL) + seconds}, {.tv_sec = time(NULL) + seconds}};
    assert_int_equal(utimensat(AT_FDCWD, name_of(x, name), t, 0), 0);
}

static void test_copy_is_no_piece(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\ntwo\n");
    assert_int_equal(go(x), E_NODATA);
    copy(x, "log", "log.bak"); /* by hand */
    age(x, "log.bak", 10);
    move(x, "log", "log.1");
    add(x, "log", "three\n");
    age(x, "log", 20);
    go_on(x);
    expect(x, "one\ntwo\nthree\n");
    copy(x, "log.1", "log.1.bak2"); /* also of one that was read */
    age(x, "log.1.bak2", 30);
    move(x, "log", "log.2");
    add(x, "log", "four\n");
    go_on(x);
    expect(x, "four\n");
}

static void test_copytruncate(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    add(x, "log", "two\n"); /* not yet read when it happens */
    copy(x, "log", "log.1");
    cut(x, "log", 0);
    add(x, "log", "3\n");
    go_on(x);
    expect(x, "one\ntwo\n3\n");
    assert_int_equal(follow_stats(x->f)->truncations, 1);
    assert_int_equal(follow_stats(x->f)->gaps, 0);
}

/* Grown past the old place before anyone looked: only the content tells. */
static void test_copytruncate_regrown(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    copy(x, "log", "log.1");
    cut(x, "log", 0);
    add(x, "log", "a line that is longer\n");
    go_on(x);
    expect(x, "one\na line that is longer\n");
}

/* Same start, same size: the bytes before the place tell. */
static void test_copytruncate_same_start(void **state)
{
    struct fixture *x = *state;
    char start[400];
    memset(start, '=', sizeof start);
    start[sizeof start - 1] = '\n';
    put(x, "log", start, sizeof start);
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    assert_int_equal(x->seen.n, 404);
    strbuf_reset(&x->seen);
    copy(x, "log", "log.1");
    cut(x, "log", 0);
    put(x, "log", start, sizeof start);
    add(x, "log", "two\n");
    go_on(x);
    assert_int_equal(x->seen.n, 404);
    assert_memory_equal(x->seen.p + 400, "two\n", 4);
}

static void test_copytruncate_away(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    for (int i = 2; i <= 4; i++) {
        char line[32];
        (void)snprintf(line, sizeof line, "line %d\n", i);
        add(x, "log", line);
        for (int k = 3; k >= 1; k--) {
            char from[16], to[16];
            (void)snprintf(from, sizeof from, "log.%d", k);
            (void)snprintf(to, sizeof to, "log.%d", k + 1);
            (void)rename(name_of(x, from), name_of(x, to)); /* those that are there */
        }
        copy(x, "log", "log.1");
        cut(x, "log", 0);
    }
    add(x, "log", "now\n");
    go_on(x);
    expect(x, "one\nline 2\nline 3\nline 4\nnow\n");
    /* and a rename afterwards does not bring the copies again */
    move(x, "log", "log.0");
    add(x, "log", "renamed\n");
    go_on(x);
    expect(x, "renamed\n");
}

static void test_truncated(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\nhalf");
    assert_int_equal(go(x), E_NODATA);
    cut(x, "log", 0);
    add(x, "log", "two\n");
    go_on(x);
    expect(x, "one\nhalf\n[gap ?]\ntwo\n");
}

/* A writer without O_APPEND leaves a hole where the old content was. */
static void test_truncated_hole(void **state)
{
    struct fixture *x = *state;
    int fd = open(name_of(x, "log"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    char *filler = malloc(300000);
    memset(filler, 'f', 300000);
    filler[299999] = '\n';
    for (size_t i = 1000; i < 299999; i += 1000)
        filler[i] = '\n';
    assert_int_equal(write(fd, filler, 300000), 300000);
    assert_int_equal(go(x), E_NODATA);
    strbuf_reset(&x->seen);
    cut(x, "log", 0);
    assert_int_equal(write(fd, "after\n", 6), 6);
    go_on(x);
    expect(x, "[gap ?]\nafter\n");
    assert_int_equal(write(fd, "more\n", 5), 5);
    go_on(x);
    expect(x, "more\n");
    assert_int_equal(close(fd), 0);
    free(filler);
}

/* Another file of the same inode is another file. */
static void test_inode_reuse(void **state)
{
    struct fixture *x = *state;
    struct stat before, after;
    add(x, "log", "one\ntwo\n");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    assert_int_equal(stat(name_of(x, "log"), &before), 0);
    cut(x, "log", 0); /* the same inode for sure, whatever the file system does with numbers that are free */
    add(x, "log", "completely different\n");
    assert_int_equal(stat(name_of(x, "log"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    go_on(x);
    expect(x, "one\ntwo\n[gap ?]\ncompletely different\n");
}

static void test_gone(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    add(x, "log", "never seen\n");
    assert_int_equal(unlink(name_of(x, "log")), 0);
    assert_int_equal(go(x), E_NODATA); /* the log may come back under its name: no gap yet */
    expect(x, "one\n");
    add(x, "log", "two\n");
    go_on(x);
    expect(x, "[gap ?]\ntwo\n");
}

/* The end of a gzip file: a checksum and the size. */
static void pack(struct fixture *x, const char *name, uint32_t size, int64_t age_s)
{
    char bytes[32] = {0x1f, (char)0x8b};
    for (int i = 0; i < 4; i++)
        bytes[28 + i] = (char)(size >> (8 * i));
    put(x, name, bytes, sizeof bytes);
    age(x, name, age_s);
}

static void test_packed(void **state)
{
    struct fixture *x = *state;
    pack(x, "log.9.gz", 77777, -1000); /* older than all */
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    assert_int_equal(unlink(name_of(x, "log")), 0);
    pack(x, "log.3.gz", 104, 10);
    pack(x, "log.2.gz", 1000, 20);
    add(x, "log", "now\n");
    go_on(x);
    expect(x, "one\n[gap 1100]\nnow\n"); /* 4 of the 104 had been read */
}

static void test_packed_whole(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    assert_int_equal(unlink(name_of(x, "log")), 0);
    pack(x, "log.1.gz", 4, 10); /* no more than what was read */
    add(x, "log", "now\n");
    go_on(x);
    expect(x, "one\nnow\n");
}

static void test_packed_unknown(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    assert_int_equal(unlink(name_of(x, "log")), 0);
    pack(x, "log.1.xz", 4, 10);
    add(x, "log", "now\n");
    go_on(x);
    expect(x, "one\n[gap ?]\nnow\n");
}

static void test_bad_position(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    strbuf_add_str(&x->position, "\1garbage");
    go_on(x);
    expect(x, "[gap ?]\none\n");
}

static void test_deleted_dir(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    remove_dir(x->dir);
    go_on(x);
    assert_int_equal(mkdir(x->dir, 0755), 0);
    go_on(x);
    add(x, "log", "two\n");
    go_on(x);
    expect(x, "one\ntwo\n");
}

static void test_no_file(void **state)
{
    struct fixture *x = *state;
    x->options.path = x->dir;
    assert_int_equal(follow_open(&x->options, slice_of("", 0), &x->f, &x->why), -EINVAL);
    assert_non_null(strstr(x->why.message, "no regular file"));
    x->f = NULL;
}

static void test_notify(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "one\n");
    assert_int_equal(go(x), E_NODATA);
    struct pollfd p = {.fd = follow_wait_fd(x->f), .events = POLLIN};
    if (p.fd < 0)
        skip();
    assert_int_equal(go(x), E_NODATA);
    assert_int_equal(poll(&p, 1, 0), 0);
    add(x, "log", "two\n");
    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_int_equal(go(x), E_NODATA);
    assert_int_equal(poll(&p, 1, 0), 0);
    move(x, "log", "log.1");
    add(x, "log", "three\n");
    assert_int_equal(poll(&p, 1, 10000), 1);
    go_on(x);
    expect(x, "one\ntwo\nthree\n");
}

static void test_kinds(void **state)
{
    static const struct {
        const char *log, *name;
        enum found_kind kind;
    } cases[] = {
        {"log", "log", FOUND_LOG},
        {"log", "log.1", FOUND_ROTATED},
        {"log", "log-20260101", FOUND_ROTATED},
        {"log", "log.old", FOUND_ROTATED},
        {"log", "log.2.gz", FOUND_PACKED},
        {"log", "log.gz", FOUND_PACKED},
        {"log", "log.offset", FOUND_OTHER},
        {"log", "log.1.tmp", FOUND_OTHER},
        {"log", "logs.1", FOUND_OTHER},
        {"log", "other.1", FOUND_OTHER},
        {"a.log", "a.1.log", FOUND_ROTATED},
        {"a.log", "a-2026-01-01.log", FOUND_ROTATED},
        {"a.log", "a-2026-01-01.log.xz", FOUND_PACKED},
        {"a.log", "ab.log", FOUND_OTHER},
        {"a.log", "a.log", FOUND_LOG},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(follow_scan_kind(cases[i].log, cases[i].name), cases[i].kind);
}

static void test_order(void **state)
{
    (void)state;
    struct found a = {.name = "log.2", .kind = FOUND_ROTATED, .born_ns = 7, .changed_ns = 8};
    struct found b = {.name = "log.1", .kind = FOUND_ROTATED, .born_ns = 6, .changed_ns = 9};
    assert_true(follow_scan_order(&a, &b) < 0); /* older, and truncated after a was made of it */
    b.changed_ns = 8;
    assert_true(follow_scan_order(&a, &b) < 0); /* in the same tick: the number */
    memcpy(a.name, "log-20260102", 13);
    memcpy(b.name, "log-20260101", 13);
    assert_true(follow_scan_order(&a, &b) > 0); /* no such numbers: the birth */
    b.born_ns = 7;
    assert_true(follow_scan_order(&a, &b) > 0);
}

/* What was there before following began stays unread, whatever happens to it; what is added to it does not.
 */
static void test_before_start(void **state)
{
    struct fixture *x = *state;
    x->options.from_start = false;
    add(x, "log.2", "long ago\n");
    add(x, "log.1", "before\n");
    add(x, "log", "old\n");
    go_on(x);
    add(x, "log.1", "late\n");
    cut(x, "log.2", 9); /* only its time changes */
    shift(x, 3);
    add(x, "log", "new\n");
    go_on(x);
    expect(x, "late\nnew\n");
}

/* Renamed after it was truncated, while nobody looked: its copy comes first, though it is younger. */
static void test_truncated_then_renamed(void **state)
{
    struct fixture *x = *state;
    add(x, "log", "1\n");
    assert_int_equal(go(x), E_NODATA);
    stop(x);
    test_tick();
    shift(x, 1);
    add(x, "log", "22\n");
    test_tick();
    shift(x, 2);
    move(x, "log.1", "log");
    copy(x, "log", "log.1");
    test_tick();
    cut(x, "log", 0);
    add(x, "log", "333\n");
    test_tick();
    shift(x, 3);
    add(x, "log", "4444\n");
    go_on(x);
    go_on(x);
    expect(x, "1\n22\n333\n4444\n");
}

static void test_mark(void **state)
{
    (void)state;
    struct follow_mark m = {
        .flags = MARK_SKIPPING, .dev = 7, .line = 9, .changed_ns = INT64_MIN, .n_done = 1};
    m.at = (struct known_place){.ino = UINT64_MAX, .offset = 99, .head = {256, 1}, .anchor = {64, 2}};
    m.done[0] = m.at;
    struct strbuf s = {0};
    struct follow_mark back;
    size_t used;
    follow_mark_encode(&m, &s);
    strbuf_add_str(&s, "more");
    assert_int_equal(follow_mark_decode(strbuf_slice(&s), &back, &used), 0);
    assert_int_equal(used, s.n - 4);
    assert_int_equal(back.at.offset, 99);
    assert_int_equal(back.done[0].anchor.hash, 2);
    assert_true(back.changed_ns == INT64_MIN && back.flags == MARK_SKIPPING);
    for (size_t n = 0; n < used; n++)
        assert_int_equal(follow_mark_decode(slice_of(s.p, n), &back, &used), E_PROTO);
    s.p[0] = 2;
    assert_int_equal(follow_mark_decode(strbuf_slice(&s), &back, &used), E_VERSION);
    strbuf_fini(&s);
}

/* The same while it waits for the piece before it: it was empty when it was opened, or had lines. */
static void check_waiting(struct fixture *x, const char *known)
{
    add(x, "log", "1\n");
    assert_int_equal(go(x), E_NODATA);
    shift(x, 1);
    add(x, "log", known);
    assert_int_equal(go(x), E_NODATA); /* opened, not begun: the one before it may grow */
    add(x, "log", "life one\n");
    shift(x, 2);
    move(x, "log.1", "log");
    copy(x, "log", "log.1");
    cut(x, "log", 0);
    add(x, "log", "life two\n");
    shift(x, 3);
    add(x, "log", "the next\n");
    shift(x, 4);
    add(x, "log", "the last\n");
    go_on(x);
    stop(x); /* wherever it is: nothing behind it is lost */
    go_on(x);
    go_on(x);
    char want[100];
    (void)snprintf(want, sizeof want, "1\n%slife one\nlife two\nthe next\nthe last\n", known);
    expect(x, want);
}

static void test_truncated_while_waiting(void **state)
{
    check_waiting(*state, "");
}

static void test_truncated_while_waiting_known(void **state)
{
    check_waiting(*state, "start\n");
}

#define ON_FILES(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILES(test_lines),
        ON_FILES(test_from_end),
        ON_FILES(test_restart),
        ON_FILES(test_before),
        ON_FILES(test_missing),
        ON_FILES(test_missing_then_restart),
        ON_FILES(test_long_line),
        ON_FILES(test_rename),
        ON_FILES(test_rename_partial),
        ON_FILES(test_many_rotations),
        ON_FILES(test_dated_rotations),
        ON_FILES(test_held_pieces),
        ON_FILES(test_late_lines),
        ON_FILES(test_copy_is_no_piece),
        ON_FILES(test_copytruncate),
        ON_FILES(test_copytruncate_regrown),
        ON_FILES(test_copytruncate_same_start),
        ON_FILES(test_copytruncate_away),
        ON_FILES(test_truncated),
        ON_FILES(test_truncated_hole),
        ON_FILES(test_inode_reuse),
        ON_FILES(test_gone),
        ON_FILES(test_before_start),
        ON_FILES(test_truncated_then_renamed),
        ON_FILES(test_truncated_while_waiting),
        ON_FILES(test_truncated_while_waiting_known),
        ON_FILES(test_packed),
        ON_FILES(test_packed_whole),
        ON_FILES(test_packed_unknown),
        ON_FILES(test_bad_position),
        ON_FILES(test_deleted_dir),
        ON_FILES(test_no_file),
        ON_FILES(test_notify),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
