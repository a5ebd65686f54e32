/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "unit/gateway/observed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct observers *create(const struct observer_config *c)
{
    struct observers *o = NULL;
    struct diag why = {0};
    if (observers_create(c, 1, &o, &why) < 0)
        fail_msg("%s", why.message);
    return o;
}

/* ---------------------------------------------------------------- files */

enum { FILES_MAX = 1000 };

struct files {
    char *names[FILES_MAX]; /* the rotated ones by age, then "log" */
    size_t n;
};

/* The current file's name is the shorter one: it would be the first. */
static int compare(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return strlen(x) < strlen(y) ? 1 : strlen(x) > strlen(y) ? -1 : strcmp(x, y);
}

static void list_files(struct files *f)
{
    DIR *dir = opendir(".");
    assert_non_null(dir);
    f->n = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (strncmp(e->d_name, "log", 3) != 0)
            continue;
        assert_in_range(f->n, 0, FILES_MAX - 1);
        f->names[f->n++] = strdup(e->d_name);
    }
    (void)closedir(dir);
    qsort(f->names, f->n, sizeof *f->names, compare);
}

static void free_files(struct files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->names[i]);
    f->n = 0;
}

/* Events of one file, read with the tool for it. */
static size_t read_one(const char *name, const char *encoding, const char *compression, int64_t *next,
                       size_t *bad)
{
    static const char *const zstd[] = {"zstd", "-dcq", NULL}, *const gzip[] = {"gzip", "-dc", NULL},
                             *const cat[] = {"cat", NULL};
    struct strbuf data = {0};
    run_tool(strcmp(compression, "zstd") == 0   ? zstd
             : strcmp(compression, "gzip") == 0 ? gzip
                                                : cat,
             name, &data);
    size_t n = read_events(strbuf_slice(&data), encoding, next, bad);
    strbuf_fini(&data);
    return n;
}

/* All files, in order, without a gap. */
static size_t read_all(const char *encoding, const char *compression, int64_t *next)
{
    struct files files;
    size_t n = 0, bad;
    list_files(&files);
    for (size_t i = 0; i < files.n; i++) {
        n += read_one(files.names[i], encoding, compression, next, &bad);
        assert_int_equal(bad, 0);
    }
    free_files(&files);
    return n;
}

static size_t count_files(void)
{
    struct files files;
    list_files(&files);
    size_t n = files.n;
    free_files(&files);
    return n;
}

/* ---------------------------------------------------------------- every encoding, compressed and not */

static void test_every_encoding(void **unused)
{
    static const char *const encodings[] = {"ulm", "bp", "ndjson", "xml", "binary"};
    static const char *const compressions[] = {"none", "zstd", "gzip"};
    (void)unused;
    for (size_t i = 0; i < 15; i++) {
        struct observer_config c = {.name = "f",
                                    .type = "file",
                                    .path = "log",
                                    .encoding = encodings[i % 5],
                                    .compression = compressions[i / 5],
                                    .max_bytes = i / 5 ? 3000 : 20000};
        struct maker m;
        int64_t next = 1;
        assert_int_equal(chdir("/"), 0);
        assert_int_equal(remove_folder(NULL), 0);
        assert_int_equal(make_folder(NULL), 0);
        maker_init(&m);
        struct observers *o = create(&c);
        for (int k = 0; k < 60; k++) {
            give(o, &m, "e", 50);
            observers_tick(o, clock_mono_ns());
        }
        struct observer_counts n = counts_of(o);
        assert_int_equal(n.passed, 3000);
        observers_destroy(o);
        assert_int_equal(read_all(c.encoding, c.compression, &next), 3000);
        if (count_files() <= 2)
            fail_msg("%s %s was not rotated", c.encoding, c.compression);
        maker_fini(&m);
    }
}

/* ---------------------------------------------------------------- rotation */

static void test_names(void **unused)
{
    static const struct {
        const char *path, *compression, *suffix, *base;
    } cases[] = {{"log", "none", "", "log"},
                 {"log", "zstd", ".zst", "log"},
                 {"log.zst", "zstd", ".zst", "log"},
                 {"log.gz", "gzip", ".gz", "log"},
                 {"log.ulm", "gzip", ".gz", "log.ulm"}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct observer_config c = {.name = "f",
                                          .type = "file",
                                          .path = cases[i].path,
                                          .compression = cases[i].compression,
                                          .max_bytes = 1};
        struct files files;
        struct maker m;
        unsigned date, time;
        maker_init(&m);
        struct observers *o = create(&c);
        give(o, &m, "e", 1);
        observers_tick(o, clock_mono_ns());
        list_files(&files);
        assert_int_equal(files.n, 2);
        const char *name = files.names[0];
        size_t base = strlen(cases[i].base);
        assert_memory_equal(name, cases[i].base, base);
        assert_int_equal(sscanf(name + base, ".%8uT%6uZ", &date, &time), 2);
        assert_in_range(date, 20200101, 22620411);
        assert_string_equal(name + base + strlen(".20261115T212028Z"), cases[i].suffix);
        observers_destroy(o);
        for (size_t k = 0; k < files.n; k++)
            assert_int_equal(unlink(files.names[k]), 0);
        free_files(&files);
        maker_fini(&m);
    }
}

static void test_size_and_keep(void **unused)
{
    const struct observer_config c = {
        .name = "f", .type = "file", .path = "log", .max_bytes = 5000, .keep = 3};
    struct maker m;
    struct stat st;
    (void)unused;
    maker_init(&m);
    /* Not ours, whatever they look like. */
    static const char *const others[] = {"log.20261115T212028", "log.20261115T212028Z.bak", "log.2",
                                         "logs.20001115T212028Z", "xlog.20001115T212028Z"};
    for (size_t i = 0; i < 5; i++)
        assert_true(close(open(others[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) == 0);
    assert_int_equal(close(open("log.20001115T212028Z.zst", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)),
                     0); /* ours, and old */
    struct observers *o = create(&c);
    for (int i = 0; i < 100; i++) {
        give(o, &m, "e", 10);
        observers_tick(o, clock_mono_ns());
        assert_int_equal(stat("log", &st), 0);
        assert_in_range(st.st_size, 0, 5000); /* beyond, it would have been rotated */
    }
    assert_int_equal(counts_of(o).passed, 1000);
    observers_destroy(o);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(unlink(others[i]), 0);
    assert_int_equal(access("log.20001115T212028Z.zst", F_OK), -1);
    struct files files;
    list_files(&files);
    assert_int_equal(files.n, 4); /* three and the current one */
    /* What is left are the newest, without a gap. */
    struct strbuf oldest = {0};
    run_tool((const char *const[]){"head", "-1", NULL}, files.names[0], &oldest);
    const char *number = strstr(oldest.p, " number=");
    assert_non_null(number);
    int64_t first = strtoll(number + 8, NULL, 10);
    strbuf_fini(&oldest);
    free_files(&files);
    assert_in_range(first, 2, 1000);
    int64_t next = first;
    assert_int_equal(read_all("ulm", "none", &next), 1000 - first + 1);
    maker_fini(&m);
}

static void test_age(void **unused)
{
    const struct observer_config c = {
        .name = "f", .type = "file", .path = "log", .max_age_ns = 3600 * NS_PER_S};
    struct maker m;
    int64_t now = clock_mono_ns(), next = 1;
    (void)unused;
    maker_init(&m);
    struct observers *o = create(&c);
    observers_tick(o, now + 4000 * NS_PER_S);
    assert_int_equal(count_files(), 1); /* an empty one is not rotated */
    give(o, &m, "e", 3);
    observers_tick(o, now + 3500 * NS_PER_S);
    assert_int_equal(count_files(), 1);
    observers_tick(o, now + 3601 * NS_PER_S);
    assert_int_equal(count_files(), 2);
    give(o, &m, "e", 3);
    observers_tick(o, now + 3602 * NS_PER_S);
    observers_tick(o, now + 7200 * NS_PER_S);
    assert_int_equal(count_files(), 2);
    observers_tick(o, now + 7202 * NS_PER_S);
    assert_int_equal(count_files(), 3);
    observers_destroy(o);
    assert_int_equal(read_all("ulm", "none", &next), 6);
    maker_fini(&m);
}

static void fail_to_rotate(const char *compression)
{
    const struct observer_config c = {.name = "f",
                                      .type = "file",
                                      .path = "d/log",
                                      .max_bytes = 100,
                                      .encoding = "ndjson",
                                      .compression = compression};
    struct maker m;
    struct stat st;
    int64_t now = clock_mono_ns(), next = 1;
    size_t bad;
    maker_init(&m);
    assert_int_equal(mkdir("d", 0700), 0);
    struct observers *o = create(&c);
    assert_int_equal(chmod("d", 0500), 0);
    for (int i = 0; i < 5; i++) {
        give(o, &m, "e", 10);
        observers_tick(o, now);
    }
    assert_int_equal(counts_of(o).passed, 50);
    assert_int_equal(chmod("d", 0700), 0);
    give(o, &m, "e", 1);
    observers_tick(o, now);
    assert_int_equal(read_one("d/log", "ndjson", compression, &next, &bad), 51);
    assert_int_equal(bad, 0);
    observers_tick(o, now + 61 * NS_PER_S);
    assert_int_equal(stat("d/log", &st), 0);
    assert_int_equal(st.st_size, 0);
    observers_destroy(o);
    maker_fini(&m);
}

/* A folder that does not let us rename: writing goes on, and it is tried again later. */
static void test_rotation_fails(void **unused)
{
    static const char *const compressions[] = {"none", "zstd", "gzip"};
    (void)unused;
    assert_int_equal(remove_folder(NULL), 0); /* which may be root's, who may rename anywhere */
    if (geteuid() == 0) {
        assert_int_equal(setegid(65534), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(make_folder(NULL), 0);
        fail_to_rotate(compressions[i]);
        assert_int_equal(remove_folder(NULL), 0);
    }
    if (getuid() == 0) {
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(setegid(0), 0);
    }
    assert_int_equal(make_folder(NULL), 0); /* for the tear-down */
}

/* ---------------------------------------------------------------- what another run has left */

static void test_appends_lines(void **unused)
{
    const struct observer_config c = {.name = "f", .type = "file", .path = "log"};
    struct maker m;
    int64_t next = 1;
    size_t bad;
    (void)unused;
    maker_init(&m);
    for (int i = 0; i < 3; i++) {
        struct observers *o = create(&c);
        give(o, &m, "e", 5);
        observers_destroy(o);
    }
    assert_int_equal(count_files(), 1);
    assert_int_equal(read_one("log", "ulm", "none", &next, &bad), 15);
    /* A torn line costs itself, not the next one. */
    int fd = open("log", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "DATE=2026", 9), 9);
    (void)close(fd);
    struct observers *o = create(&c);
    give(o, &m, "e", 5);
    observers_destroy(o);
    next = 1;
    assert_int_equal(read_one("log", "ulm", "none", &next, &bad), 20);
    assert_int_equal(bad, 1);
    maker_fini(&m);
}

/* A torn frame: the tool reads all before it, and what comes later is in a file of its own. */
static void test_torn_frame(void **unused)
{
    static const char *const compressions[] = {"zstd", "gzip"};
    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        const struct observer_config c = {
            .name = "f", .type = "file", .path = "log", .compression = compressions[i]};
        struct files files;
        struct maker m;
        struct stat whole, st;
        int64_t next = 1;
        size_t bad;
        maker_init(&m);
        struct observers *o = create(&c);
        give(o, &m, "e", 100);
        observers_tick(o, clock_mono_ns());
        assert_int_equal(stat("log", &whole), 0);
        give(o, &m, "e", 100);
        observers_destroy(o);
        assert_int_equal(stat("log", &st), 0);
        assert_true(st.st_size > whole.st_size + 20);
        assert_int_equal(truncate("log", st.st_size - 10), 0);
        m.next = 1000;
        o = create(&c);
        give(o, &m, "e", 100);
        observers_destroy(o);
        list_files(&files);
        assert_int_equal(files.n, 2);
        size_t n = read_one(files.names[0], "ulm", compressions[i], &next, &bad);
        assert_in_range(n, 100, 200);
        next = 1000;
        assert_int_equal(read_one("log", "ulm", compressions[i], &next, &bad), 100);
        assert_int_equal(bad, 0);
        for (size_t k = 0; k < files.n; k++)
            assert_int_equal(unlink(files.names[k]), 0);
        free_files(&files);
        maker_fini(&m);
    }
}

/* ---------------------------------------------------------------- SIGHUP */

static void test_reopen(void **unused)
{
    static const char *const encodings[] = {"ulm", "xml", "binary"};
    (void)unused;
    for (size_t i = 0; i < 6; i++) {
        const struct observer_config c = {.name = "f",
                                          .type = "file",
                                          .path = "log",
                                          .encoding = encodings[i % 3],
                                          .compression = i / 3 ? "zstd" : "none"};
        struct maker m;
        int64_t next = 1;
        size_t bad;
        maker_init(&m);
        struct observers *o = create(&c);
        give(o, &m, "e", 5);
        assert_int_equal(rename("log", "moved"), 0);
        observers_reopen(o);
        assert_int_equal(counts_of(o).passed, 5);
        give(o, &m, "e", 6);
        observers_tick(o, clock_mono_ns());
        assert_int_equal(read_one("moved", c.encoding, c.compression, &next, &bad), 5);
        assert_int_equal(bad, 0);
        observers_reopen(o); /* nobody has moved it */
        give(o, &m, "e", 7);
        observers_destroy(o);
        assert_int_equal(read_all(c.encoding, c.compression, &next), 13);
        struct files files;
        list_files(&files);
        assert_int_equal(files.n, c.encoding[0] == 'x' || i / 3 ? 2 : 1);
        for (size_t k = 0; k < files.n; k++)
            assert_int_equal(unlink(files.names[k]), 0);
        free_files(&files);
        assert_int_equal(unlink("moved"), 0);
        maker_fini(&m);
    }
}

/* ---------------------------------------------------------------- full disks */

/* A limit of the file's size stands for a full disk, lifted later: what waited is written, what was dropped
 * is counted, and the file has exactly what `passed` says. */
static void test_full_disk(void **unused)
{
    static const char *const compressions[] = {"none", "zstd"};
    (void)unused;
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    for (size_t i = 0; i < 2; i++) {
        const struct observer_config c = {
            .name = "f", .type = "file", .path = "log", .encoding = "ndjson", .compression = compressions[i]};
        struct rlimit limit, small;
        struct maker m;
        size_t bad, n = 0;
        maker_init(&m);
        struct observers *o = create(&c);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        small = limit;
        small.rlim_cur = 100001;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        struct observer_counts before;
        do {
            give(o, &m, "e", 1000);
            if (i == 1 && n % 100 == 0)
                observers_tick(o, clock_mono_ns());
            before = counts_of(o);
        } while (before.dropped == 0 && ++n < 100000);
        observers_tick(o, clock_mono_ns());
        before = counts_of(o);
        assert_int_equal(before.dropped, 1000);
        assert_true(before.queued > 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        observers_tick(o, clock_mono_ns());
        struct observer_counts after = counts_of(o);
        assert_int_equal(after.dropped, before.dropped);
        assert_int_equal(after.queued, 0);
        observers_destroy(o);
        int64_t next = 1;
        assert_int_equal(read_one("log", "ndjson", compressions[i], &next, &bad), after.passed);
        assert_int_equal(bad, 0);
        assert_int_equal(unlink("log"), 0);
        maker_fini(&m);
    }
    assert_true(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
}

/* ---------------------------------------------------------------- kill -9 */

/* Writes events, and tells how many were flushed, until it is killed. */
static void write_until_killed(const struct observer_config *c, int64_t first, int tell)
{
    struct maker m;
    maker_init(&m);
    m.next = first;
    struct observers *o = create(c);
    for (;;) {
        give(o, &m, "e", 200);
        observers_tick(o, clock_mono_ns());
        int64_t flushed = m.next - 1;
        if (write(tell, &flushed, sizeof flushed) != sizeof flushed)
            _exit(1);
    }
}

/* What was flushed before a kill is there and can be read, in each compression, through rotations and
 * restarts. */
static void test_killed(void **unused)
{
    static const char *const compressions[] = {"none", "zstd", "gzip"};
    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        const struct observer_config c = {
            .name = "f", .type = "file", .path = "log", .compression = compressions[i], .max_bytes = 30000};
        int64_t flushed = 0;
        for (int round = 0; round < 5; round++) {
            int ends[2];
            assert_int_equal(pipe(ends), 0);
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                (void)close(ends[0]);
                write_until_killed(&c, flushed + 1, ends[1]);
            }
            (void)close(ends[1]);
            for (int k = 0; k < 20 + 7 * round; k++) /* it is killed wherever it is then */
                assert_int_equal(read(ends[0], &flushed, sizeof flushed), sizeof flushed);
            assert_int_equal(kill(child, SIGKILL), 0);
            assert_int_equal(waitpid(child, NULL, 0), child);
            while (read(ends[0], &flushed, sizeof flushed) == sizeof flushed) /* told before it died */
                ;
            (void)close(ends[0]);
            /* All that is there, in order; what it wrote and could not tell is cut off for the next round. */
            struct files files;
            int64_t next = 1;
            size_t bad;
            list_files(&files);
            for (size_t k = 0; k < files.n; k++)
                (void)read_one(files.names[k], "ulm", compressions[i], &next, &bad);
            free_files(&files);
            assert_in_range(next - 1, flushed, flushed + 400);
            flushed = next - 1;
        }
        struct files files;
        list_files(&files);
        assert_true(files.n > 3);
        for (size_t k = 0; k < files.n; k++)
            assert_int_equal(unlink(files.names[k]), 0);
        free_files(&files);
    }
}

/* ---------------------------------------------------------------- no memory */

/* Any allocation of ours may fail once: a batch is dropped whole and counted, the rest is in the file. */
static void test_no_memory(void **unused)
{
    enum { BATCHES = 3, EACH = 10, TRIES = 40 };
    size_t drops = 0;
    (void)unused;
    for (uint64_t n = 1; n < TRIES; n++) {
        const struct observer_config c = {.name = "f",
                                          .type = "file",
                                          .path = "log",
                                          .encoding = "xml",
                                          .compression = "zstd",
                                          .where = "number > 0"};
        struct batch *batches[BATCHES];
        int64_t expected[BATCHES * EACH], numbers[BATCHES * EACH];
        size_t n_expected = 0, bad;
        struct maker m;
        struct strbuf data = {0};
        maker_init(&m);
        struct observers *o = create(&c);
        for (int i = 0; i < BATCHES; i++)
            batches[i] = make_batch(&m, "e", EACH);
        mem_fail_after(n);
        for (int i = 0; i < BATCHES; i++) {
            uint64_t dropped = counts_of(o).dropped;
            observers_batch(o, batches[i]);
            for (int k = 1; k <= EACH && counts_of(o).dropped == dropped; k++)
                expected[n_expected++] = i * EACH + k;
        }
        observers_tick(o, clock_mono_ns());
        mem_fail_after(0);
        observers_tick(o, clock_mono_ns());
        struct observer_counts got = counts_of(o);
        assert_int_equal(got.passed, n_expected);
        assert_int_equal(got.dropped, BATCHES * EACH - n_expected);
        drops += got.dropped;
        observers_destroy(o);
        run_tool((const char *const[]){"zstd", "-dcq", NULL}, "log", &data);
        assert_int_equal(read_numbers(strbuf_slice(&data), "xml", numbers, BATCHES * EACH, &bad), n_expected);
        assert_int_equal(bad, 0);
        assert_memory_equal(numbers, expected, n_expected * sizeof *numbers);
        for (int i = 0; i < BATCHES; i++)
            batch_unref(batches[i]);
        strbuf_fini(&data);
        assert_int_equal(unlink("log"), 0);
        maker_fini(&m);
    }
    assert_true(drops > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_encoding, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_names, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_size_and_keep, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_age, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_rotation_fails, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_appends_lines, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_torn_frame, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_reopen, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_full_disk, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_killed, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_memory, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
