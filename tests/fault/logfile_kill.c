/* SPDX-License-Identifier: Apache-2.0 */
/* The log follower under kill -9. A writer writes numbered lines as fast as it can, in pieces that do not end
 * with lines, and rotates its log on the way: by renaming (log, log.1, log.2, ...) in half of the rounds, by
 * copying and truncating in a quarter. Meanwhile the logfile sensor runs in another process that keeps each
 * mark together with the events before it in one journal record, as the agent's spool does, and is killed at
 * a random instant in every round; the next one opens at the last mark kept. In the end the journal has every
 * line exactly once, in order.
 *
 * The writer does not write between copy and truncation: what is written there is in no file, and no follower
 * can have it.
 *
 * 40 rounds (20 renames, 10 truncations, 40 kills), times GRIDLINE_TEST_SCALE. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "helper/serve.h"
#include "journal/journal.h"
#include "sensor/instance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 4000, NAME = 400, PIECES = 200 };

static void die(const char *what)
{
    (void)fprintf(stderr, "logfile_kill: %s: %s\n", what, strerror(errno));
    _exit(3);
}

/* ---- the writer ---- */

struct writer {
    const char *dir;
    int fd;
    uint64_t next, seed;
};

static const char *piece_name(const struct writer *w, unsigned i, char *to)
{
    (void)snprintf(to, NAME, i ? "%s/log.%u" : "%s/log", w->dir, i);
    return to;
}

static void open_log(struct writer *w)
{
    char name[NAME];
    w->fd = open(piece_name(w, 0, name), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (w->fd < 0)
        die("open log");
}

static void shift(const struct writer *w, unsigned from)
{
    char old[NAME], new[NAME];
    for (unsigned i = PIECES; i-- > from;)
        if (rename(piece_name(w, i, old), piece_name(w, i + 1, new)) < 0 && errno != ENOENT)
            die("rename");
}

static void rotate_by_rename(struct writer *w)
{
    shift(w, 0);
    (void)close(w->fd); /* all is written */
    open_log(w);
}

static void rotate_by_copy(struct writer *w)
{
    char name[NAME], bytes[65536];
    ssize_t n;
    shift(w, 1);
    int from = open(piece_name(w, 0, name), O_RDONLY | O_CLOEXEC);
    int to = open(piece_name(w, 1, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (from < 0 || to < 0)
        die("copy");
    while ((n = read(from, bytes, sizeof bytes)) > 0)
        if (write(to, bytes, (size_t)n) != n)
            die("copy");
    (void)close(from); /* opened for reading */
    if (close(to) < 0 || ftruncate(w->fd, 0) < 0)
        die("truncate");
}

static void write_lines(struct writer *w, unsigned n)
{
    char bytes[4096];
    size_t have = 0;
    for (unsigned i = 0; i < n; i++) {
        have += (size_t)snprintf(bytes + have, sizeof bytes - have, "%llu %.*s\n",
                                 (unsigned long long)w->next++, (int)(test_random(&w->seed) % 60),
                                 "the quick brown fox jumps over the lazy dog and the lazy cat");
        bool is_last = i + 1 == n;
        if (have < 3900 && !is_last && test_random(&w->seed) % 8)
            continue;
        size_t part = is_last ? have : 1 + test_random(&w->seed) % have;
        if (write(w->fd, bytes, part) != (ssize_t)part)
            die("write");
        have -= part;
        memmove(bytes, bytes + part, have);
    }
}

/* One round for each byte that comes; answers each with one. */
static void run_writer(const char *dir, int ask, int answer)
{
    struct writer w = {.dir = dir, .next = 1, .seed = (uint64_t)getpid()};
    char round;
    open_log(&w);
    while (read(ask, &round, 1) == 1) {
        unsigned before = (unsigned)(test_random(&w.seed) % LINES);
        write_lines(&w, before);
        test_tick(); /* files that are changed within one tick of the clock can't be put in order by their times */
        if (round % 2 == 0)
            rotate_by_rename(&w);
        else if (round % 4 == 1)
            rotate_by_copy(&w);
        test_tick();
        write_lines(&w, LINES - before);
        if (write(answer, &round, 1) != 1)
            die("answer");
    }
    _exit(0);
}

/* ---- the follower: a record a mark: u16 length of the position, position, u64 numbers of the lines before
 * it ---- */

struct follower {
    struct sensor_out out; /* first */
    struct journal *journal;
    struct strbuf numbers, record;
};

static void on_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                   const struct value *values)
{
    struct follower *f = (struct follower *)out;
    (void)time_ns, (void)level, (void)values;
    if (schema == 1)
        strbuf_add_u64(&f->numbers, 0); /* a gap: there is none here, so the numbers are wrong with it */
}

static int on_event(struct sensor_out *out, const struct event_head *head, const struct named_value *values,
                    size_t n, struct diag *why)
{
    struct follower *f = (struct follower *)out;
    (void)head, (void)why;
    if (n != 1 || values[0].value.type != VALUE_UINT)
        die("no number");
    strbuf_add_u64(&f->numbers, values[0].value.u);
    return 0;
}

static void on_mark(struct sensor_out *out, struct slice position)
{
    struct follower *f = (struct follower *)out;
    strbuf_reset(&f->record);
    strbuf_add_u16(&f->record, (uint16_t)position.n);
    strbuf_add_slice(&f->record, position);
    strbuf_add_slice(&f->record, strbuf_slice(&f->numbers));
    strbuf_reset(&f->numbers);
    if (journal_append(f->journal, 1, strbuf_slice(&f->record), NULL) < 0 || journal_commit(f->journal) < 0)
        die("journal");
}

/* The journal's last position, and all its numbers to the sink if there is one. */
static void read_kept(struct journal *j, struct strbuf *position, void (*each)(void *arg, uint64_t number),
                      void *arg)
{
    struct journal_reader *r;
    struct journal_item item;
    if (journal_reader_open(j, 1, &r) < 0)
        die("journal_reader_open");
    while (journal_reader_next(r, &item) == 0) {
        struct cursor c = cursor_of(item.payload);
        struct slice at = cursor_bytes(&c, cursor_u16(&c));
        strbuf_reset(position);
        strbuf_add_slice(position, at);
        while (each && cursor_left(&c) > 0)
            each(arg, cursor_u64(&c));
    }
    journal_reader_close(r);
}

static void run_follower(const char *dir)
{
    char log[NAME], kept[NAME], filter[NAME];
    (void)snprintf(log, sizeof log, "%s/log", dir);
    (void)snprintf(kept, sizeof kept, "%s/kept", dir);
    (void)snprintf(filter, sizeof filter, "%s/filter.conf", dir);
    struct follower f = {.out = {.row = on_row, .event = on_event, .mark = on_mark}};
    struct journal_options options = {.flags = JOURNAL_NOSYNC}; /* survives kill -9 */
    struct strbuf position = {0};
    static const char *const graces[] = {"0s", "1ms", "40ms"}; /* with a long one files wait their turn */
    if (journal_open(kept, &options, &f.journal) < 0)
        die("journal_open");
    read_kept(f.journal, &position, NULL, NULL);
    struct sensor_ops ops;
    if (helper_find("logfile", &ops) < 0)
        die("no sensor");
    const struct parameter_setting settings[] = {{"path", (const char *[]){log}, 1},
                                              {"filter", (const char *[]){filter}, 1},
                                              {"from", (const char *[]){"start"}, 1},
                                              {"grace", &graces[getpid() % 3], 1}};
    struct sensor_env env;
    struct instance *i;
    struct diag why = {0};
    env_init(&env, "");
    if (instance_create(&ops, "log", settings, 4, &env, &i, &why) < 0)
        die(why.message);
    instance_set_position(i, strbuf_slice(&position));
    for (;;) {
        int r = instance_sample(i, &f.out, true, NS_PER_S / 1000);
        if (r < 0 && r != E_NODATA && r != -EAGAIN)
            die(instance_stats(i)->last_why);
        struct pollfd p = {.fd = instance_wait_fd(i), .events = POLLIN};
        (void)poll(&p, 1, 2); /* the period, or earlier */
    }
}

/* ---- the test ---- */

static pid_t start_follower(const char *dir)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        run_follower(dir);
    return pid;
}

static void end_process(pid_t pid)
{
    int status;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status))
        fail_msg("the follower ended by itself, with code %d", WEXITSTATUS(status));
}

struct count {
    uint64_t n, expected;
    bool has_mark;
};

static void count_number(void *arg, uint64_t number)
{
    struct count *c = arg;
    if (number != ++c->expected)
        fail_msg("line %llu where %llu should be (0: a gap)", (unsigned long long)number,
                 (unsigned long long)c->expected);
    c->n++;
}

/* All lines kept so far are 1, 2, 3, ... */
static struct count check_kept(const char *dir)
{
    char kept[NAME];
    struct journal *j;
    struct strbuf position = {0};
    struct count c = {0};
    struct journal_options options = {.flags = JOURNAL_NOSYNC};
    (void)snprintf(kept, sizeof kept, "%s/kept", dir);
    assert_int_equal(journal_open(kept, &options, &j), 0);
    read_kept(j, &position, count_number, &c);
    journal_close(j);
    c.has_mark = position.n > 0;
    strbuf_fini(&position);
    return c;
}

static void remove_all(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    const struct dirent *e;
    while ((e = readdir(d)))
        (void)unlinkat(dirfd(d), e->d_name, 0); /* "." and ".." fail */
    (void)closedir(d);
    assert_int_equal(rmdir(dir), 0);
}

static void test_kill(void **state)
{
    (void)state;
    char dir[] = "/tmp/logfile_kill.XXXXXX", name[NAME];
    int ask[2], answer[2], status;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(name, sizeof name, "%s/filter.conf", dir);
    FILE *filter = fopen(name, "we");
    assert_non_null(filter);
    assert_true(fputs("event n { match = '^(?<n>\\d+) ' types = {'n=uint'} }\n", filter) >= 0);
    assert_int_equal(fclose(filter), 0);
    assert_int_equal(pipe(ask), 0);
    assert_int_equal(pipe(answer), 0);
    pid_t writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) {
        (void)close(ask[1]);
        (void)close(answer[0]);
        run_writer(dir, ask[0], answer[1]);
    }
    (void)close(ask[0]);
    (void)close(answer[1]);
    /* What is rotated away before the first mark is not followed, as documented: the log is empty until then.
     */
    for (bool is_following = false; !is_following;) {
        pid_t follower = start_follower(dir);
        (void)usleep(10000); /* between looks */
        end_process(follower);
        is_following = check_kept(dir).has_mark;
    }
    uint64_t seed = (uint64_t)getpid(); /* the instants can't be repeated anyway */
    unsigned rounds = 40 * test_scale();
    for (unsigned i = 0; i < rounds; i++) {
        char round = (char)(i % 4);
        pid_t follower = start_follower(dir);
        assert_int_equal(write(ask[1], &round, 1), 1);
        (void)usleep((useconds_t)(test_random(&seed) % 20000)); /* the instant */
        end_process(follower);
        assert_int_equal(read(answer[0], &round, 1), 1);
    }
    (void)close(ask[1]);
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    uint64_t want = (uint64_t)rounds * LINES, have = check_kept(dir).n, kept = have;
    pid_t follower = start_follower(dir);
    for (int64_t end = clock_mono_ns() + 200 * NS_PER_S; have < want && clock_mono_ns() < end;) {
        (void)usleep(20000); /* between looks */
        end_process(follower);
        have = check_kept(dir).n;
        follower = start_follower(dir);
        (void)usleep(200000);
    }
    end_process(follower);
    assert_int_equal(check_kept(dir).n, want);
    print_message("%u kills, %llu lines, %llu of them before the last kill\n", rounds,
                  (unsigned long long)want, (unsigned long long)kept);
    (void)snprintf(name, sizeof name, "%s/kept", dir);
    remove_all(name);
    remove_all(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
