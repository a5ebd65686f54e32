/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "actuator/actuator.h"
#include "actuator/rotate_log.h"
#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* Two folders below a temporary one. */
struct folders {
    char root[64], from[80], to[80], path[100];
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static int setup(void **state)
{
    struct folders *f = calloc(1, sizeof *f);
    assert_non_null(f);
    (void)snprintf(f->root, sizeof f->root, "/tmp/gridline-rotate-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    (void)snprintf(f->from, sizeof f->from, "%s/log", f->root);
    (void)snprintf(f->to, sizeof f->to, "%s/room", f->root);
    (void)snprintf(f->path, sizeof f->path, "%s/a.log*", f->from);
    assert_int_equal(mkdir(f->from, 0755), 0);
    assert_int_equal(mkdir(f->to, 0755), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct folders *f = *state;
    int r = nftw(f->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return r;
}

static void write_file(const char *folder, const char *name, const char *text, int64_t age_s)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, strlen(text), out), strlen(text));
    assert_int_equal(fclose(out), 0);
    struct timespec t = {.tv_sec = (time_t)(clock_utc_ns() / NS_PER_S - age_s)};
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){t, t}, 0), 0);
}

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void unpack_zstd(const char *path, struct strbuf *out)
{
    static char in[1 << 20], to[1 << 20];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    ZSTD_inBuffer i = {in, fread(in, 1, sizeof in, f), 0};
    ZSTD_DCtx *c = ZSTD_createDCtx();
    while (i.pos < i.size) {
        ZSTD_outBuffer o = {to, sizeof to, 0};
        assert_false(ZSTD_isError(ZSTD_decompressStream(c, &o, &i)));
        strbuf_add(out, to, o.pos);
    }
    ZSTD_freeDCtx(c);
    (void)fclose(f);
}

/* All that is in a folder, file after file by name, decompressed. Hidden files count as wrong. */
static size_t read_all(const char *folder, struct strbuf *out)
{
    struct dirent **names;
    size_t files = 0;
    int n = scandir(folder, &names, NULL, by_name);
    assert_true(n >= 2);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX], buffer[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0) {
            assert_true(names[i]->d_name[0] != '.');
            files++;
            if (slice_ends(slice_str(path), SLICE_LIT(".zst"))) {
                unpack_zstd(path, out);
            } else { /* zlib reads what is not gzip as it is */
                gzFile in = gzopen(path, "r");
                int got;
                assert_non_null(in);
                while ((got = gzread(in, buffer, sizeof buffer)) > 0)
                    strbuf_add(out, buffer, (size_t)got);
                assert_int_equal(gzclose(in), Z_OK);
            }
        }
        free(names[i]);
    }
    free(names);
    return files;
}

static int rotate(const struct folders *f, const char *const *options, struct actuator_report *report)
{
    struct parameter_setting settings[16] = {{"path", (const char *const[]){f->path}, 1},
                                             {"to", (const char *const[]){f->to}, 1}};
    const char *texts[16];
    size_t n = 2;
    for (; *options; options += 2, n++) {
        texts[n] = options[1];
        settings[n] = (struct parameter_setting){options[0], &texts[n], 1};
    }
    const struct actuator_env env = {.deadline_ns = clock_mono_ns() + 60 * NS_PER_S, .attempt = "1"};
    return actuator_run(actuator_find(SLICE_LIT("rotate")), settings, n, &env, report);
}

static int rotate_says(const struct folders *f, const char *const *options, const char *says)
{
    struct actuator_report report = {0};
    int r = rotate(f, options, &report);
    if (!strstr(report.text.p, says))
        fail_msg("it said: %s", report.text.p);
    actuator_report_fini(&report);
    return r;
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void check_all(const char *folder, size_t files, const char *text)
{
    struct strbuf all = {0};
    assert_int_equal(read_all(folder, &all), files);
    assert_slice(strbuf_slice(&all), text);
    strbuf_fini(&all);
}

static void moves(void **state)
{
    const struct folders *f = *state;
    write_file(f->from, "a.log", "newest\n", 0);
    write_file(f->from, "a.log.1", "one\n", 100);
    write_file(f->from, "a.log.2", "two\n", 200);
    write_file(f->from, "b.log", "another\n", 300);
    assert_int_equal(rotate_says(f, OPTIONS("keep", "1"), "moved 2 logs"), 0);
    check_all(f->to, 2, "one\ntwo\n");
    check_all(f->from, 2, "newest\nanother\n");
    /* Nothing to do is done. */
    assert_int_equal(rotate_says(f, OPTIONS("keep", "1"), "of 1 none is to go"), 0);
    assert_int_equal(rotate_says(f, OPTIONS("older", "1h"), "of 1 none is to go"), 0);
    assert_int_equal(rotate_says(f, OPTIONS("older", "0s"), "moved 1 log"), 0);
    assert_int_equal(rotate_says(f, OPTIONS(), "no log is"), -ENOENT);
}

static void compresses(void **state)
{
    const struct folders *f = *state;
    write_file(f->from, "a.log.1", "one\n", 100);
    assert_int_equal(rotate_says(f, OPTIONS("compress", "gzip"), "moved 1 log"), 0);
    write_file(f->from, "a.log.2", "two\n", 50);
    assert_int_equal(rotate_says(f, OPTIONS("compress", "zstd"), "moved 1 log"), 0);
    check_all(f->to, 2, "one\ntwo\n");
    /* What is compressed is not compressed again, and its name still says what it is. */
    write_file(f->from, "a.log.3.gz", "three\n", 25);
    assert_int_equal(rotate_says(f, OPTIONS("compress", "zstd"), "moved 1 log"), 0);
    check_all(f->to, 3, "one\ntwo\nthree\n");
}

static void in_its_own_folder(void **state)
{
    struct folders here = *(struct folders *)*state;
    (void)snprintf(here.to, sizeof here.to, "%s", here.from);
    write_file(here.from, "a.log.1", "one\n", 100);
    assert_int_equal(rotate_says(&here, OPTIONS(), "is the folder of the logs"), -EINVAL);
    assert_int_equal(rotate_says(&here, OPTIONS("compress", "gzip"), "moved 1 log"), 0);
    assert_int_equal(rotate_says(&here, OPTIONS("compress", "gzip"), "no log is"), -ENOENT);
    check_all(here.from, 1, "one\n");
}

/* Two of the same name and second: both are kept. */
static void same_name(void **state)
{
    const struct folders *f = *state;
    write_file(f->from, "a.log.1", "one\n", 100);
    assert_int_equal(rotate_says(f, OPTIONS(), "moved 1 log"), 0);
    struct dirent **names;
    int n = scandir(f->to, &names, NULL, by_name);
    assert_int_equal(n, 3);
    char path[PATH_MAX];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", f->to, names[2]->d_name);
    assert_int_equal(stat(path, &st), 0);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    write_file(f->from, "a.log.1", "other\n", 0);
    (void)snprintf(path, sizeof path, "%s/a.log.1", f->from);
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){st.st_mtim, st.st_mtim}, 0), 0);
    assert_int_equal(rotate_says(f, OPTIONS(), "moved 1 log"), 0);
    check_all(f->to, 2, "one\nother\n");
}

static void no_links(void **state)
{
    const struct folders *f = *state;
    char path[PATH_MAX], secret[PATH_MAX];
    write_file(f->root, "secret", "secret\n", 100);
    (void)snprintf(secret, sizeof secret, "%s/secret", f->root);
    (void)snprintf(path, sizeof path, "%s/a.log.1", f->from);
    assert_int_equal(symlink(secret, path), 0);
    assert_int_equal(rotate_says(f, OPTIONS("copytruncate", "true"), "no log is"), -ENOENT);
    check_all(f->to, 0, "");
    assert_true(is_there(f->root, "secret"));
    /* A link in the other folder, where the hidden file is to be made: it goes, what it points at stays. */
    (void)snprintf(path, sizeof path, "%s/.a.log.2.gridline-rotate", f->to);
    assert_int_equal(symlink(secret, path), 0);
    write_file(f->from, "a.log.2", "two\n", 100);
    assert_int_equal(rotate_says(f, OPTIONS(), "moved 1 log"), 0);
    check_all(f->to, 1, "two\n");
    struct stat st;
    assert_int_equal(stat(secret, &st), 0);
    assert_int_equal(st.st_size, 7);
}

/* Whoever may write to the folder could have put another's file there, for us to cut it. */
static void no_hard_links(void **state)
{
    const struct folders *f = *state;
    char path[PATH_MAX], secret[PATH_MAX];
    struct stat st;
    write_file(f->root, "secret", "secret\n", 100);
    (void)snprintf(secret, sizeof secret, "%s/secret", f->root);
    (void)snprintf(path, sizeof path, "%s/a.log.1", f->from);
    assert_int_equal(link(secret, path), 0);
    write_file(f->from, "a.log.2", "two\n", 100);
    assert_int_equal(rotate_says(f, OPTIONS("copytruncate", "true"), "moved 1 log"), 0);
    assert_int_equal(rotate_says(f, OPTIONS("copytruncate", "true"), "1 with other names"), 0);
    assert_int_equal(stat(secret, &st), 0);
    assert_int_equal(st.st_size, 7);
    check_all(f->to, 1, "two\n");
}

/* Names of files are somebody's choice, too. */
static void plan_is_quoted(void **state)
{
    const struct folders *f = *state;
    const char *texts[] = {f->path, f->to};
    const struct parameter_setting settings[] = {{"path", &texts[0], 1}, {"to", &texts[1], 1}};
    const struct actuator_env env = {.deadline_ns = INT64_MAX, .attempt = "1"};
    struct strbuf plan = {0};
    write_file(f->from, "a.log\nmove x", "x", 100);
    assert_int_equal(actuator_plan(actuator_find(SLICE_LIT("rotate")), settings, 2, &env, &plan, NULL), 0);
    assert_non_null(strstr(plan.p, "\n\"a.log\\x0amove x\", 1 bytes\n"));
    strbuf_fini(&plan);
}

/* Somebody writes to it: it stays, and says so. */
static void in_use(void **state)
{
    const struct folders *f = *state;
    char path[PATH_MAX];
    write_file(f->from, "a.log", "one\n", 100);
    (void)snprintf(path, sizeof path, "%s/a.log", f->from);
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_true(fd >= 0);
    assert_int_equal(rotate_says(f, OPTIONS(), "1 in use"), -EAGAIN);
    check_all(f->to, 0, "");
    check_all(f->from, 1, "one\n");
    assert_int_equal(rotate_says(f, OPTIONS("copytruncate", "true"), "moved 1 log"), 0);
    assert_int_equal(write(fd, "two\n", 4), 4);
    check_all(f->to, 1, "one\n");
    check_all(f->from, 1, "two\n");
    (void)close(fd);
}

static void no_room(void **state)
{
    const struct folders *f = *state;
    write_file(f->from, "a.log", "one\n", 100);
    assert_int_equal(rotate_says(f, OPTIONS("min_free", "100000000G"), "No space"), -ENOSPC);
    assert_int_equal(rotate_says(f, OPTIONS("min_free", "100000000G", "copytruncate", "true"), "No space"),
                     -ENOSPC);
    check_all(f->to, 0, "");
    check_all(f->from, 1, "one\n");
}

static void wrong_options(void **state)
{
    const struct folders *f = *state;
    struct folders relative = *f;
    assert_int_equal(rotate_says(f, OPTIONS("compress", "lzma"), "compress is one of"), -EINVAL);
    assert_int_equal(rotate_says(f, OPTIONS("reopen", "HUP"), "go together"), -EINVAL);
    assert_int_equal(rotate_says(f, OPTIONS("reopen", "KILL", "pid_file", "/x"), "reopen is one of"),
                     -EINVAL);
    assert_int_equal(rotate_says(f, OPTIONS("keep", "-1"), "not less than 0"), -EINVAL);
    (void)snprintf(relative.path, sizeof relative.path, "../a.log");
    assert_int_equal(rotate_says(&relative, OPTIONS(), "is not /FOLDER/PATTERN"), -EINVAL);
    (void)snprintf(relative.path, sizeof relative.path, "/tmp/*/a.log");
    assert_int_equal(rotate_says(&relative, OPTIONS(), "is not /FOLDER/PATTERN"), -EINVAL);
}

/* ---------------------------------------------------------------- a server that opens its log anew */

static volatile sig_atomic_t is_told;

static void on_hup(int number)
{
    (void)number;
    is_told = 1;
}

/* Writes numbers to the log without a pause until it is killed, opening it anew when told. What it wrote last
 * is in the pipe. */
static void serve(const char *path, int out, int flags, uint32_t first)
{
    (void)signal(SIGHUP, on_hup);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | flags, 0644);
    for (uint32_t i = first;; i++) {
        char line[16];
        int n = snprintf(line, sizeof line, "%u\n", i);
        if (is_told) {
            is_told = 0;
            (void)close(fd);
            fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
        }
        if (fd < 0 || write(fd, line, (size_t)n) != n || write(out, &i, sizeof i) != sizeof i)
            _exit(1);
        (void)usleep(20);
    }
}

static pid_t start_server(const struct folders *f, int *in)
{
    char path[PATH_MAX], pid_path[PATH_MAX];
    int ends[2];
    (void)snprintf(path, sizeof path, "%s/a.log", f->from);
    (void)snprintf(pid_path, sizeof pid_path, "%s/pid", f->root);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(ends[0]);
        (void)fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        serve(path, ends[1], 0, 0);
    }
    (void)close(ends[1]);
    FILE *out = fopen(pid_path, "w");
    assert_non_null(out);
    (void)fprintf(out, "%d\n", pid);
    assert_int_equal(fclose(out), 0);
    uint32_t first;
    assert_int_equal(read(ends[0], &first, sizeof first), sizeof first);
    *in = ends[0];
    return pid;
}

/* How many lines it has written: those that it told, and maybe one more. */
static uint32_t stop_server(pid_t pid, int in)
{
    uint32_t last = 0, one;
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (read(in, &one, sizeof one) == sizeof one)
        last = one;
    (void)close(in);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return last + 1;
}

/* What is in both folders has each number once, in order. */
static void check_numbers(const struct folders *f, uint32_t n)
{
    struct strbuf all = {0};
    (void)read_all(f->to, &all);
    (void)read_all(f->from, &all);
    uint32_t expected = 0;
    for (char *at = all.p, *end; at && *at; at = end + 1, expected++) {
        assert_int_equal(strtoul(at, &end, 10), expected);
        assert_int_equal(*end, '\n');
    }
    assert_in_range(expected, n, n + 1);
    strbuf_fini(&all);
}

static void reopened(void **state)
{
    const struct folders *f = *state;
    char pid_path[PATH_MAX];
    int in;
    pid_t pid = start_server(f, &in);
    (void)snprintf(pid_path, sizeof pid_path, "%s/pid", f->root);
    for (int i = 0; i < 5; i++)
        assert_int_equal(
            rotate_says(f,
                        OPTIONS("reopen", "HUP", "pid_file", pid_path, "compress", i % 2 ? "gzip" : "zstd"),
                        "moved 1 log"),
            0);
    /* All runs are of one or two seconds, so the names' order is not that of the lines. */
    uint32_t n = stop_server(pid, in), lines = 0;
    struct strbuf all = {0};
    bool *seen = calloc(n + 2, sizeof *seen);
    (void)read_all(f->to, &all);
    (void)read_all(f->from, &all);
    for (char *at = all.p, *end; at && *at; at = end + 1, lines++) {
        unsigned long number = strtoul(at, &end, 10);
        assert_true(number <= n && !seen[number]);
        seen[number] = true;
    }
    assert_in_range(lines, n, n + 1);
    free(seen);
    strbuf_fini(&all);
}

/* Renamed, and then we were killed; the server is gone as well. */
static void reopen_finishes(void **state)
{
    const struct folders *f = *state;
    write_file(f->from, "a.log.gridline-rotate", "one\n", 100);
    assert_int_equal(rotate_says(f, OPTIONS("reopen", "HUP", "pid_file", "/nonexistent"), "moved 1 log"), 0);
    check_all(f->to, 1, "one\n");
    check_all(f->from, 0, "");
}

/* ---------------------------------------------------------------- kill -9 at any point */

static void kill_while_it_works(const struct folders *f, const char *const *options, unsigned rounds)
{
    uint64_t seed = 3;
    for (unsigned i = 0; i < rounds; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct actuator_report report = {0};
            _exit(rotate(f, options, &report) == 0 ? 0 : 1);
        }
        (void)usleep((useconds_t)(test_random(&seed) % 3000));
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    struct actuator_report report = {0};
    int r = rotate(f, options, &report);
    if (r != 0 && r != -ENOENT)
        fail_msg("%s", report.text.p);
    actuator_report_fini(&report);
}

static void write_numbers(const struct folders *f, const char *name, uint32_t from, uint32_t to,
                          const char *mode)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", f->from, name);
    FILE *out = fopen(path, mode);
    assert_non_null(out);
    for (uint32_t i = from; i < to; i++)
        (void)fprintf(out, "%u\n", i);
    assert_int_equal(fclose(out), 0);
}

static void killed_moving(void **state)
{
    const struct folders *f = *state;
    for (unsigned i = 0; i < 20; i++) {
        char name[20];
        (void)snprintf(name, sizeof name, "a.log.%02u", i);
        write_numbers(f, name, i * 5000, (i + 1) * 5000, "w");
    }
    kill_while_it_works(f, OPTIONS("compress", "gzip"), 60 * test_scale());
    struct strbuf left = {0};
    assert_int_equal(read_all(f->from, &left), 0);
    strbuf_fini(&left);
    check_numbers(f, 100000);
}

static void killed_cutting(void **state)
{
    const struct folders *f = *state;
    write_numbers(f, "a.log", 0, 50000, "w");
    kill_while_it_works(f, OPTIONS("copytruncate", "true", "compress", "zstd"), 30 * test_scale());
    write_numbers(f, "a.log", 50000, 50010, "a");
    check_numbers(f, 50010);
}

/* Killed behind the copy's name and before the cut, and the log has grown since: the rest is appended. */
static void cut_goes_on(void **state)
{
    const struct folders *f = *state;
    const struct actuator_env env = {.deadline_ns = clock_mono_ns() + 60 * NS_PER_S, .attempt = "1"};
    struct rotate_place p = {.from = open(f->from, O_RDONLY | O_DIRECTORY),
                             .to = open(f->to, O_RDONLY | O_DIRECTORY),
                             .form = COPY_GZIP,
                             .limits = {.env = &env}};
    struct rotate_done done = {0};
    char path[PATH_MAX];
    write_numbers(f, "a.log", 0, 1000, "w");
    (void)snprintf(path, sizeof path, "%s/a.log", f->from);
    /* A file that can't be cut: the run ends just there. */
    assert_int_equal(chmod(path, 0644), 0);
    int seal = open(path, O_RDONLY);
    assert_true(seal >= 0);
    assert_int_equal(rotate_copy_and_cut(&p, "a.log", &done), 0);
    (void)close(seal);
    write_numbers(f, "a.log", 0, 1000, "w"); /* as if the cut had not been */
    struct dirent **names;
    assert_int_equal(scandir(f->to, &names, NULL, by_name), 3);
    char copy[NAME_MAX + 1], mark[600];
    (void)snprintf(copy, sizeof copy, "%s", names[2]->d_name);
    for (int i = 0; i < 3; i++)
        free(names[i]);
    free(names);
    struct stat log, stored;
    assert_int_equal(stat(path, &log), 0);
    assert_int_equal(fstatat(p.to, copy, &stored, 0), 0);
    uint32_t crc = 0;
    int fd = open(path, O_RDONLY);
    assert_int_equal(copy_checksum(fd, (uint64_t)log.st_size, &p.limits, &crc), 0);
    (void)close(fd);
    (void)snprintf(mark, sizeof mark, "1 %llu %llu %llu %u %llu %s\n", (unsigned long long)log.st_dev,
                   (unsigned long long)log.st_ino, (unsigned long long)log.st_size, crc,
                   (unsigned long long)stored.st_size, copy);
    write_file(f->to, ".a.log.gridline-mark", mark, 0);
    write_numbers(f, "a.log", 1000, 1500, "a");
    assert_int_equal(rotate_copy_and_cut(&p, "a.log", &done), 0);
    check_numbers(f, 1500);

    /* A mark of another log, or of none, is of no use, and does no harm. */
    write_file(f->to, ".a.log.gridline-mark", mark, 0);
    write_numbers(f, "a.log", 1500, 1600, "w");
    assert_int_equal(rotate_copy_and_cut(&p, "a.log", &done), 0);
    static const char *const wrong[] = {"", "1 2 3\n", "2 1 1 1 1 1 x\n", "1 1 1 1 1 1 ../x\n", "\xff\xff"};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_file(f->to, ".a.log.gridline-mark", wrong[i], 0);
        write_numbers(f, "a.log", 1600 + i, 1601 + i, "w");
        assert_int_equal(rotate_copy_and_cut(&p, "a.log", &done), 0);
    }
    (void)close(p.from);
    (void)close(p.to);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(moves),         TEST(compresses),     TEST(in_its_own_folder), TEST(same_name),
        TEST(no_links),      TEST(no_hard_links),  TEST(plan_is_quoted),    TEST(in_use),
        TEST(no_room),       TEST(wrong_options),  TEST(reopened),          TEST(reopen_finishes),
        TEST(killed_moving), TEST(killed_cutting), TEST(cut_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
