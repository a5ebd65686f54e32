/* SPDX-License-Identifier: Apache-2.0 */
/* T4, T5: every file system call below an archive fails in turn (EIO, ENOSPC, half a write, a failed sync, a
 * signal), once or from there on until the writer has heard of it often enough; and every allocation, ours
 * and SQLite's. Each time: what fails says so and works when it is tried again; nothing is lost, nothing is
 * there twice, nothing is taken for damage; what was promised outlives a loss of power right after it;
 * and no descriptor stays open.
 *
 *     archive_errors        some calls of each kind, evenly
 *     archive_errors all    every call
 */
#include "fault/archive_fault.h"
#include "fault/powerloss.h"
#include "unit/test.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 14, SHORT_RUNS = 14, PATIENCE = 3 };

static bool is_whole;
static struct source source;
static char root[FOLDER_PATH], lost[FOLDER_PATH];

static unsigned open_descriptors(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

/* ---------------------------------------------------------------- calls */

#define BIT(call) (1u << (call))
enum {
    READS = BIT(CALL_OPEN) | BIT(CALL_READ),
    ROOM = BIT(CALL_CREATE) | BIT(CALL_WRITE) | BIT(CALL_TRUNCATE) | BIT(CALL_ALLOCATE) | BIT(CALL_MKDIR) |
           BIT(CALL_RENAME),
    SYNCS = BIT(CALL_SYNC) | BIT(CALL_SYNC_DIR)
};

struct fault {
    const char *name;
    unsigned calls;
    int code;     /* 0: half of it is done, which is no error */
    bool goes_on; /* until the writer has had PATIENCE errors */
};

static const struct fault faults[] = {
    {"EIO in reading", READS, -EIO, false},
    {"EIO in writing", ROOM | SYNCS | BIT(CALL_UNLINK), -EIO, false},
    {"ENOSPC", ROOM, -ENOSPC, false},
    {"half a write", BIT(CALL_WRITE), 0, false},
    {"half a read", BIT(CALL_READ), 0, false},
    {"a failed sync", SYNCS, -EIO, false},
    {"EINTR", BIT(CALL_OPEN) | BIT(CALL_READ) | BIT(CALL_WRITE), -EINTR, false},
    {"EMFILE", BIT(CALL_OPEN) | BIT(CALL_CREATE), -EMFILE, false},
    {"ENOSPC from there on", ROOM, -ENOSPC, true},
    {"EIO from there on", ROOM | SYNCS, -EIO, true},
};

struct failing {
    const struct fault *fault;
    const struct fault_run *run;
    uint64_t calls, fail_at;
    char what[200]; /* the call that failed first */
};

static int fail_call(void *arg, const struct disk_op *op, size_t *n)
{
    struct failing *f = arg;
    if (!(f->fault->calls & BIT(op->call)))
        return 0;
    f->calls++;
    bool fails = f->calls == f->fail_at;
    fails |= f->fault->goes_on && f->calls > f->fail_at && f->run->errors < PATIENCE;
    if (!fails)
        return 0;
    if (f->calls == f->fail_at)
        (void)snprintf(f->what, sizeof f->what, "%s %s", disk_call_name(op->call), op->path);
    if (f->fault->code == 0)
        *n = *n > 1 ? *n / 2 : *n;
    return f->fault->code;
}

/* false: there is no such call. */
static bool run_with_fault(const struct fault *fault, uint64_t n, uint64_t *calls)
{
    char where[400];
    struct fault_run run = {.source = &source, .path = root, .seed = 3};
    struct failing f = {.fault = fault, .run = &run, .fail_at = n};
    folder_empty(root);
    unsigned descriptors = open_descriptors();
    struct powerloss *p = powerloss_begin(root, fail_call, &f);
    fault_run_all(&run, fault->goes_on ? PATIENCE + 1 : 2);
    f.fail_at = UINT64_MAX;
    powerloss_end(p);
    (void)snprintf(where, sizeof where, "%s at call %llu (%s), %u errors", fault->name, (unsigned long long)n,
                   f.what, run.errors);
    uint64_t seed = n;
    powerloss_make(p, powerloss_points(p), POWERLOSS_NONE + test_random(&seed) % POWERLOSS_CHOICES, seed,
                   lost);
    fault_run_end(&run);
    powerloss_free(p);
    fault_check(&source, root, run.promised, where);
    (void)snprintf(where + strlen(where), sizeof where - strlen(where), ", then a loss of power");
    fault_check(&source, lost, run.promised, where);
    if (open_descriptors() != descriptors)
        fail_msg("%s: a descriptor stayed open", where);
    *calls = f.calls;
    return f.calls >= n;
}

static void test_calls(void **state)
{
    (void)state;
    uint64_t runs = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        uint64_t calls = 0, of_this = 0;
        (void)run_with_fault(&faults[i], UINT64_MAX, &calls);
        uint64_t stride = is_whole ? 1 : calls / (SHORT_RUNS * (uint64_t)test_scale()) + 1;
        for (uint64_t n = 1; run_with_fault(&faults[i], n, &calls); n += stride)
            of_this++;
        print_message("%s: %llu of %llu calls\n", faults[i].name, (unsigned long long)of_this,
                      (unsigned long long)calls);
        runs += of_this;
    }
    print_message("%llu runs with a failing call\n", (unsigned long long)runs);
}

/* ---------------------------------------------------------------- allocations */

static sqlite3_mem_methods sqlite_mem;
static uint64_t sqlite_calls, sqlite_fail_at;

static bool sqlite_fails(void)
{
    return ++sqlite_calls == sqlite_fail_at;
}

static void *failing_malloc(int n)
{
    return sqlite_fails() ? NULL : sqlite_mem.xMalloc(n);
}

static void *failing_realloc(void *p, int n)
{
    return sqlite_fails() ? NULL : sqlite_mem.xRealloc(p, n);
}

static int wrap_sqlite_memory(void **state)
{
    (void)state;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_mem) != SQLITE_OK)
        return -1;
    sqlite3_mem_methods wrapped = sqlite_mem;
    wrapped.xMalloc = failing_malloc;
    wrapped.xRealloc = failing_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &wrapped) != SQLITE_OK)
        return -1;
    source_make(&source, RECORDS, 11);
    folder_make(root);
    folder_make(lost);
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    folder_remove(root);
    folder_remove(lost);
    source_fini(&source);
    return 0;
}

/* Returns how many there were. */
static uint64_t run_without_sqlite_memory(uint64_t n)
{
    char where[100];
    struct fault_run run = {.source = &source, .path = root, .seed = 3};
    (void)snprintf(where, sizeof where, "SQLite's allocation %llu", (unsigned long long)n);
    folder_empty(root);
    unsigned descriptors = open_descriptors();
    sqlite_calls = 0;
    sqlite_fail_at = n;
    fault_run_all(&run, 2);
    uint64_t calls = sqlite_calls;
    sqlite_fail_at = 0;
    fault_run_end(&run);
    fault_check(&source, root, run.promised, where);
    if (open_descriptors() != descriptors)
        fail_msg("%s: a descriptor stayed open", where);
    return calls;
}

static void test_sqlite_memory(void **state)
{
    (void)state;
    uint64_t calls = run_without_sqlite_memory(UINT64_MAX), runs = 0;
    uint64_t stride = is_whole ? 1 : calls / (SHORT_RUNS * 2 * (uint64_t)test_scale()) + 1;
    for (uint64_t n = 1; n <= calls; n += stride, runs++)
        (void)run_without_sqlite_memory(n);
    print_message("%llu runs with one of %llu allocations of SQLite failing\n", (unsigned long long)runs,
                  (unsigned long long)calls);
}

/* Our own allocations: small ones of the daemon end it (mem_alloc), which is a crash like any other; those
 * whose size comes from outside are errors. So each run has a process of its own. */
struct shared { /* what it says */
    uint64_t promised, calls, errors;
};

enum { MANY = 4 << 20 };

static void tell_promise(struct fault_run *run)
{
    ((struct shared *)run->arg)->promised = run->promised;
}

static void child(struct shared *shared, uint64_t n)
{
    struct fault_run run = {
        .source = &source, .path = root, .seed = 3, .on_promise = tell_promise, .arg = shared};
    mem_fail_after(n);
    fault_run_all(&run, 2);
    for (uint64_t left = 1; n == MANY; left++) { /* what is left of a count that is too large */
        void *p = mem_try_alloc(1);
        mem_free(p);
        if (!p) {
            shared->calls = MANY - left;
            break;
        }
    }
    mem_fail_after(0);
    fault_run_end(&run);
    shared->errors = run.errors;
    exit(0);
}

/* Did it end by itself, and not for want of memory? What it wrote is shown where it ended in another way. */
static bool run_child(struct shared *shared, uint64_t n)
{
    FILE *said = tmpfile();
    assert_non_null(said);
    folder_empty(root);
    *shared = (struct shared){0};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(fileno(said), STDERR_FILENO);
        (void)prctl(PR_SET_DUMPABLE, 0); /* no core of an abort that is expected */
        child(shared, n);
    }
    int status;
    char text[4096] = "";
    assert_int_equal(waitpid(pid, &status, 0), pid);
    rewind(said);
    size_t got = fread(text, 1, sizeof text - 1, said);
    text[got] = '\0';
    (void)fclose(said);
    bool had_none =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, "gridline: out of memory");
    if (!had_none && status != 0)
        fail_msg("allocation %llu: ended with %d: %s", (unsigned long long)n, status, text);
    return !had_none;
}

static void test_our_memory(void **state)
{
    (void)state;
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    assert_true(run_child(shared, MANY));
    uint64_t calls = shared->calls, runs = 0, ended = 0, errors = 0;
    uint64_t stride = is_whole ? 1 : calls / (SHORT_RUNS * 2 * (uint64_t)test_scale()) + 1;
    for (uint64_t n = 1; n <= calls; n += stride, runs++) {
        char where[100];
        ended += !run_child(shared, n);
        errors += shared->errors > 0;
        (void)snprintf(where, sizeof where, "our allocation %llu", (unsigned long long)n);
        fault_check(&source, root, shared->promised, where);
    }
    print_message("%llu runs with one of %llu allocations of ours failing: %llu an error, %llu the end\n",
                  (unsigned long long)runs, (unsigned long long)calls, (unsigned long long)errors,
                  (unsigned long long)ended);
    (void)munmap(shared, sizeof *shared);
}

int main(int argc, char **argv)
{
    is_whole = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_sqlite_memory),
        cmocka_unit_test(test_our_memory),
    };
    return cmocka_run_group_tests(tests, wrap_sqlite_memory, clean_up);
}
