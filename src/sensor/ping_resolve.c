/* SPDX-License-Identifier: Apache-2.0 */
/* `getent ahosts NAME` prints a line for each address and kind of socket, the best first (RFC 6724):
 *
 *     192.0.2.1       STREAM node7.example.org
 */
#include "sensor/ping_resolve.h"

#include "base/err.h"
#include "sensor/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int address_parse(const char *text, union address *out)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM}, *found = NULL;
    if (text[0] == '\0' || getaddrinfo(text, NULL, &hints, &found) != 0 || !found)
        return E_PROTO;
    bool fits = found->ai_addrlen <= sizeof *out;
    *out = (union address){.v6 = {0}};
    memcpy(out, found->ai_addr, fits ? found->ai_addrlen : 0);
    freeaddrinfo(found);
    return fits ? 0 : E_PROTO;
}

bool address_is_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t n = strlen(text);
    return n > 0 && n <= 253 && text[0] != '-' && strspn(text, letters) == n;
}

bool address_same(const union address *a, const union address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
}

void resolve_init(struct resolve *r)
{
    *r = (struct resolve){.fd = -1};
}

static int spawn(const char *name, int output, pid_t *pid)
{
    char *argv[] = {(char *)(uintptr_t) "getent", (char *)(uintptr_t) "ahosts", (char *)(uintptr_t)name,
                    NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r = posix_spawn_file_actions_init(&actions);
    if (r != 0)
        return -r;
    if ((r = posix_spawnattr_init(&attr)) != 0) {
        (void)posix_spawn_file_actions_destroy(&actions); /* it can't fail */
        return -r;
    }
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawnattr_setsigmask(&attr, &none); /* whatever the agent blocks or ignores */
    (void)posix_spawnattr_setsigdefault(&attr, &all);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, output, 1);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawn(pid, "/usr/bin/getent", &actions, &attr, argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

int resolve_start(struct resolve *r, const char *name)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    int flags = fcntl(ends[0], F_GETFL);
    int error = flags < 0 || fcntl(ends[0], F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
    if (error == 0)
        error = spawn(name, ends[1], &r->pid);
    (void)close(ends[1]); /* the child has it */
    if (error < 0) {
        (void)close(ends[0]);
        r->pid = 0;
        return error;
    }
    r->fd = ends[0];
    r->n = 0;
    return 0;
}

/* The answer is its first word; the rest is read and dropped. */
static int first_address(const struct resolve *r, union address *out)
{
    char word[sizeof r->text + 1];
    struct scan s = scan_of(slice_of(r->text, r->n));
    struct slice first = scan_word(&s);
    if (s.p >= s.end) /* perhaps cut */
        return E_NODATA;
    memcpy(word, first.p, first.n);
    word[first.n] = '\0';
    return address_parse(word, out) == 0 ? 1 : E_NODATA;
}

int resolve_read(struct resolve *r, union address *out)
{
    for (;;) {
        char rest[256];
        bool has_room = r->n < sizeof r->text;
        ssize_t n =
            has_room ? read(r->fd, r->text + r->n, sizeof r->text - r->n) : read(r->fd, rest, sizeof rest);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n > 0) {
            r->n += has_room ? (size_t)n : 0;
            continue;
        }
        int found = first_address(r, out);
        resolve_stop(r);
        return found;
    }
}

void resolve_stop(struct resolve *r)
{
    if (r->fd >= 0)
        (void)close(r->fd); /* opened for reading */
    if (r->pid > 0) {
        (void)kill(r->pid, SIGKILL); /* it has said all it has to say, or is not wanted any more */
        while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    resolve_init(r);
}
