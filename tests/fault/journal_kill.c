/* SPDX-License-Identifier: Apache-2.0 */
/* T1: kill -9 at random instants. A child appends, commits, moves a cursor and trims, and tells through a
 * pipe what it is about to append and what was acknowledged. The parent kills it, opens the journal and
 * checks: everything acknowledged is there with its exact content, the numbers have no hole, nothing is
 * invented, the cursor is where it was or where it was about to be. Then the next child goes on with the same
 * journal.
 *
 * 50 kills, times GRIDLINE_TEST_SCALE. */
#include "unit/test.h"

#include "base/err.h"
#include "journal/journal.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAYLOAD_MAX = 3000 };

enum what { INTENDED, ACKNOWLEDGED, MOVING, MOVED };

struct message {
    uint64_t what, number;
};

/* What the parent knows. */
struct ledger {
    uint64_t intended, acknowledged, moving, moved;
};

static struct slice payload_of(uint64_t number)
{
    static char bytes[PAYLOAD_MAX];
    uint64_t seed = number;
    size_t n = test_random(&seed) % (number % 10 ? 200 : PAYLOAD_MAX);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)test_random(&seed);
    return slice_of(bytes, n);
}

static void tell(int pipe_fd, enum what what, uint64_t number)
{
    struct message m = {what, number};
    if (write(pipe_fd, &m, sizeof m) != sizeof m) /* atomic: below PIPE_BUF */
        _exit(3);
}

static struct journal_options options(uint64_t round)
{
    return (struct journal_options){.segment_bytes = 16384,
                                    .flags = round % 4 == 3 ? JOURNAL_NOSYNC : 0}; /* also survives kill -9 */
}

static void append_group(struct journal *j, int pipe_fd, uint64_t *seed)
{
    struct journal_stats s;
    journal_stats(j, &s);
    uint64_t n = 1 + test_random(seed) % 20;
    tell(pipe_fd, INTENDED, s.last + n);
    for (uint64_t i = 1; i <= n; i++)
        if (journal_append(j, (uint32_t)i, payload_of(s.last + i), NULL) < 0)
            _exit(4);
    if (journal_commit(j) < 0)
        _exit(5);
    tell(pipe_fd, ACKNOWLEDGED, s.last + n);
}

static void child(const char *dir, int pipe_fd, uint64_t round)
{
    struct journal *j;
    struct journal_cursor *c;
    struct journal_options o = options(round);
    if (journal_open(dir, &o, &j) < 0 || journal_cursor_open(j, "c", &c) < 0)
        _exit(2);
    for (uint64_t seed = round;;) {
        append_group(j, pipe_fd, &seed);
        if (test_random(&seed) % 8)
            continue;
        struct journal_stats s;
        journal_stats(j, &s);
        tell(pipe_fd, MOVING, s.last);
        if (journal_cursor_move(c, s.last) < 0 || journal_trim(j) < 0)
            _exit(6);
        tell(pipe_fd, MOVED, s.last);
    }
}

/* Reads n messages, or up to the end if that comes first. */
static void hear(int pipe_fd, struct ledger *l, uint64_t n)
{
    struct message m;
    for (uint64_t i = 0; i < n; i++) {
        ssize_t r = read(pipe_fd, &m, sizeof m);
        if (r == 0)
            return;
        assert_int_equal(r, sizeof m);
        uint64_t *const place[] = {&l->intended, &l->acknowledged, &l->moving, &l->moved};
        *place[m.what] = m.number;
    }
}

static void check(const char *dir, struct ledger *l)
{
    struct journal *j;
    struct journal_cursor *c;
    struct journal_cursor_info info;
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_open(dir, NULL, &j), 0);
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    journal_cursor_info(c, &info);
    assert_false(info.is_reset && l->moved);
    assert_true(info.position == l->moved || info.position == l->moving);
    assert_int_equal(info.lost, 0);
    assert_int_equal(journal_reader_open(j, info.position + 1, &r), 0);
    uint64_t next = info.position + 1;
    int rc;
    while ((rc = journal_reader_next(r, &item)) == 0) {
        assert_int_equal(item.kind, JOURNAL_RECORD);
        assert_int_equal(item.first, next++);
        struct slice want = payload_of(item.first);
        assert_int_equal(item.payload.n, want.n);
        assert_memory_equal(item.payload.p, want.p, want.n);
    }
    assert_int_equal(rc, E_NODATA);
    assert_true(next > l->acknowledged);
    assert_true(next <= l->intended + 1);
    l->acknowledged = next - 1; /* what is found now stays */
    l->moved = l->moving = info.position;
    journal_reader_close(r);
    journal_close(j);
}

static void kill_one(const char *dir, struct ledger *l, uint64_t round, uint64_t *seed)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(fds[0]);
        child(dir, fds[1], round);
    }
    (void)close(fds[1]);
    /* The instant: after so many messages (with none it comes while the child opens), then a random time. */
    hear(fds[0], l, test_random(seed) % 60);
    if (round % 2)
        (void)usleep((useconds_t)(test_random(seed) % 3000));
    assert_int_equal(kill(pid, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); /* it ended by nothing else */
    hear(fds[0], l, UINT64_MAX);
    (void)close(fds[0]);
    check(dir, l);
}

static void remove_all(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    const struct dirent *e;
    while ((e = readdir(d)))
        (void)unlinkat(dirfd(d), e->d_name, 0); /* "." and ".." fail */
    (void)closedir(d);
    assert_int_equal(rmdir(dir), 0);
}

static void test_kill(void **state)
{
    (void)state;
    char dir[] = "/tmp/journal_kill.XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct ledger l = {0};
    uint64_t seed = (uint64_t)getpid(); /* the instants can't be repeated anyway */
    uint64_t kills = 50 * test_scale();
    for (uint64_t i = 0; i < kills; i++)
        kill_one(dir, &l, i, &seed);
    print_message("%llu kills, %llu records acknowledged\n", (unsigned long long)kills,
                  (unsigned long long)l.acknowledged);
    assert_true(l.acknowledged > kills);
    remove_all(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
