/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strays.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/process.h"
#include "base/strbuf.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK "GRIDLINE_CHILD="

enum { REAP_MAX = 64 }; /* orphans in one call */

static struct run *runs;
static bool adopts;

int strays_adopt(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return -errno;
    adopts = true;
    return 0;
}

/* The mark in an environment, without the variable's name; empty when there is none. */
static struct slice find_mark(struct slice environment)
{
    const struct slice name = SLICE_LIT(MARK);
    while (environment.n) {
        size_t n = strnlen(environment.p, environment.n);
        struct slice variable = slice_of(environment.p, n);
        if (slice_starts(variable, name))
            return slice_from(variable, name.n);
        environment = slice_from(environment, n + 1);
    }
    return environment;
}

static struct slice mark_of(const struct run *run)
{
    return slice_from(slice_str(run->mark), sizeof MARK - 1);
}

static uint64_t namespace_of_pids(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* NAMESPACE.PID.START of this process, looked up once; a forked one is another. */
static const char *owner(void)
{
    static char text[STRAYS_MARK_MAX - 40];
    static pid_t of;
    struct strbuf buffer = {0};
    struct process_stat stat = {.start = 0};
    if (of == getpid())
        return text;
    of = getpid();
    (void)process_stat(of, &buffer, &stat); /* without /proc: 0, and strays are not found anyway */
    strbuf_fini(&buffer);
    (void)snprintf(text, sizeof text, "%llu.%d.%llu", (unsigned long long)namespace_of_pids(), (int)of,
                   (unsigned long long)stat.start);
    return text;
}

void strays_mark(struct run *run)
{
    static uint64_t number;
    (void)snprintf(run->mark, sizeof run->mark, MARK "%s.%llu", owner(), (unsigned long long)++number);
}

void strays_begin(struct run *run)
{
    run->next = runs;
    runs = run;
}

void strays_end(struct run *run)
{
    struct run **at = &runs;
    while (*at && *at != run)
        at = &(*at)->next;
    if (*at)
        *at = run->next;
}

static bool is_leader(pid_t pid)
{
    for (const struct run *r = runs; r; r = r->next)
        if (r->leader == pid)
            return true;
    return false;
}

/* Reaps a child of ours if it has ended. */
static bool reap(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == pid;
}

/* Is the orphan of this run? One that does not tell is anyone's. */
static bool is_orphan_of(const struct run *run, pid_t pid, struct strbuf *buffer)
{
    pid_t session = getsid(pid);
    for (const struct run *r = runs; r; r = r->next)
        if (r->leader == session)
            return r == run;
    struct slice mark =
        process_read(pid, "environ", buffer) ? find_mark(strbuf_slice(buffer)) : (struct slice){"", 0};
    for (const struct run *r = runs; r && mark.n; r = r->next)
        if (slice_eq(mark, mark_of(r)))
            return r == run;
    return true;
}

/* Our children that are no leaders. false: the kernel does not list children. */
static bool kill_orphans(const struct run *run, size_t *found)
{
    struct strbuf list = {0}, buffer = {0};
    char name[32];
    /* Orphans come to the first thread. */
    (void)snprintf(name, sizeof name, "task/%d/children", (int)getpid());
    bool is_listed = process_read(getpid(), name, &list);
    for (struct slice rest = strbuf_slice(&list); rest.n;) {
        const char *blank = memchr(rest.p, ' ', rest.n);
        struct slice word = slice_of(rest.p, blank ? (size_t)(blank - rest.p) : rest.n);
        int64_t pid;
        rest = slice_from(rest, word.n + 1);
        if (num_parse_int(word, &pid) < 0 || is_leader((pid_t)pid))
            continue;
        /* What a dead one had started came to us when it died, which may be after the list was made. */
        bool is_dead = reap((pid_t)pid);
        if (!is_dead && !is_orphan_of(run, (pid_t)pid, &buffer))
            continue;
        if (!is_dead)
            (void)kill((pid_t)pid, SIGKILL); /* of another user's: it is counted, and stays */
        ++*found;
    }
    strbuf_fini(&list);
    strbuf_fini(&buffer);
    return is_listed;
}

typedef bool (*stray_test)(const void *arg, pid_t pid, struct strbuf *buffer);

/* Kills every process that passes the test; how many. */
static size_t search_all(stray_test test, const void *arg)
{
    struct strbuf buffer = {0};
    DIR *proc = opendir("/proc");
    struct dirent *e;
    int64_t pid;
    size_t found = 0;
    while (proc && (e = readdir(proc))) {
        if (num_parse_int(slice_str(e->d_name), &pid) < 0 || pid == getpid() ||
            !test(arg, (pid_t)pid, &buffer))
            continue;
        (void)kill((pid_t)pid, SIGKILL); /* gone, or another user's: it is counted, and seen again */
        found++;
    }
    if (proc)
        (void)closedir(proc); /* opened for reading */
    strbuf_fini(&buffer);
    return found;
}

static bool is_of_run(const void *arg, pid_t pid, struct strbuf *buffer)
{
    const struct run *run = arg;
    struct process_stat stat;
    if (pid == run->leader || is_leader(pid))
        return false;
    if (getsid(pid) == run->leader)
        return process_stat(pid, buffer, &stat) && !process_is_dead(&stat);
    return process_read(pid, "environ", buffer) && slice_eq(find_mark(strbuf_slice(buffer)), mark_of(run));
}

/* A process that is just becoming another program shows no environment for a moment, and /proc is not read at
 * one instant: only a second search that finds nothing is believed. */
size_t strays_kill(struct run *run)
{
    size_t found = 0;
    if (adopts && kill_orphans(run, &found))
        return found;
    found = search_all(is_of_run, run);
    if (found == 0 && run->was_searched)
        return 0;
    run->was_searched = found == 0;
    return found ? found : 1;
}

void strays_reap(void)
{
    siginfo_t info;
    for (int i = 0; adopts && i < REAP_MAX; i++) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        if (is_leader(info.si_pid)) /* its owner wants to know; orphans behind it come to light when it has */
            return;
        (void)reap(info.si_pid);
    }
}

/* NAMESPACE.PID.START.RUN of a process of ours that is no more. */
static bool is_of_the_dead(const void *arg, pid_t pid, struct strbuf *buffer)
{
    struct process_stat stat;
    uint64_t number[4];
    if (!process_read(pid, "environ", buffer))
        return false;
    struct slice rest = find_mark(strbuf_slice(buffer));
    for (size_t i = 0; i < 4; i++) {
        const char *dot = memchr(rest.p, '.', rest.n);
        size_t n = dot ? (size_t)(dot - rest.p) : rest.n;
        if (num_parse_uint(slice_of(rest.p, n), &number[i]) < 0)
            return false;
        rest = slice_from(rest, n + 1);
    }
    if (number[0] != *(const uint64_t *)arg || number[1] == 0 || number[1] > INT32_MAX || number[2] == 0)
        return false;
    return !process_stat((pid_t)number[1], buffer, &stat) || stat.start != number[2];
}

size_t strays_of_the_dead(void)
{
    uint64_t ns = namespace_of_pids();
    return ns ? search_all(is_of_the_dead, &ns) : 0;
}
