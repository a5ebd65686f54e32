/* SPDX-License-Identifier: Apache-2.0 */
/* slapd.h - a real LDAP server of a test's own: slapd in a folder of its own, on a free port of 127.0.0.1. */
#ifndef GRIDLINE_TESTS_SLAPD_H
#define GRIDLINE_TESTS_SLAPD_H

#include "unit/test.h"

#include "gateway/ldap_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLAPD_BASE   "ou=grid,dc=g"
#define SLAPD_DN     "cn=admin,dc=g"
#define SLAPD_READER "cn=reader,dc=g" /* with the same password */

extern char **environ;

struct slapd {
    char folder[64], config[96], db[96], password_file[96], uri[64];
    pid_t pid; /* 0 = it does not run */
};

static inline bool slapd_is_installed(void)
{
    return access("/usr/sbin/slapd", X_OK) == 0 && access("/usr/sbin/slapadd", X_OK) == 0;
}

static inline void slapd_write(const char *path, mode_t mode, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

static inline pid_t slapd_spawn(const char *const *arguments)
{
    pid_t pid;
    posix_spawn_file_actions_t files;
    assert_int_equal(posix_spawn_file_actions_init(&files), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0), 0);
    assert_int_equal(
        posix_spawn(&pid, arguments[0], &files, NULL, (char *const *)(uintptr_t)arguments, environ), 0);
    assert_int_equal(posix_spawn_file_actions_destroy(&files), 0);
    return pid;
}

/* A database with the base and nothing else. */
static inline void slapd_fill(struct slapd *s)
{
    char ldif[96];
    int status;
    (void)snprintf(ldif, sizeof ldif, "%s/base.ldif", s->folder);
    slapd_write(
        ldif, 0600,
        "dn: dc=g\nobjectClass: dcObject\nobjectClass: organization\ndc: g\no: g\n\n"
        "dn: ou=grid,dc=g\nobjectClass: organizationalUnit\nou: grid\n\n"
        "dn: cn=reader,dc=g\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: reader\n"
        "userPassword: secret\n");
    assert_int_equal(mkdir(s->db, 0700), 0);
    pid_t pid = slapd_spawn((const char *const[]){"/usr/sbin/slapadd", "-f", s->config, "-l", ldif, NULL});
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static inline int slapd_free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    assert_int_equal(close(fd), 0);
    return ntohs(a.sin_port);
}

/* Starts it, or starts it again: back when this returns. */
static inline void slapd_start(struct slapd *s)
{
    struct ldap_link_options o = {
        .uri = s->uri, .base = SLAPD_BASE, .bind_dn = "", .password_file = "", .ca = ""};
    struct ldap_link *l = NULL;
    struct diag why;
    s->pid =
        slapd_spawn((const char *const[]){"/usr/sbin/slapd", "-f", s->config, "-h", s->uri, "-d", "0", NULL});
    for (int i = 0; i < 3000 && !l; i++) {
        if (ldap_link_open(&o, &l, &why) < 0)
            (void)poll(NULL, 0, 10);
        assert_int_equal(waitpid(s->pid, NULL, WNOHANG), 0);
    }
    assert_non_null(l);
    ldap_link_close(l);
}

static inline void slapd_kill(struct slapd *s)
{
    if (s->pid == 0)
        return;
    (void)kill(s->pid, SIGKILL);
    assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
    s->pid = 0;
}

static inline void slapd_init(struct slapd *s)
{
    char text[1024];
    memcpy(s->folder, "/tmp/gridline-slapd.XXXXXX", 27);
    assert_non_null(mkdtemp(s->folder));
    (void)snprintf(s->config, sizeof s->config, "%s/slapd.conf", s->folder);
    (void)snprintf(s->db, sizeof s->db, "%s/db", s->folder);
    (void)snprintf(s->password_file, sizeof s->password_file, "%s/password", s->folder);
    (void)snprintf(s->uri, sizeof s->uri, "ldap://127.0.0.1:%d", slapd_free_port());
    (void)snprintf(
        text, sizeof text,
        "include /etc/ldap/schema/core.schema\ninclude %s/packaging/ldap/gridline.schema\n"
        "modulepath /usr/lib/ldap\nmoduleload back_mdb\ndatabase mdb\nmaxsize 67108864\nsuffix \"dc=g\"\n"
        "rootdn \"%s\"\nrootpw secret\ndirectory %s\ndbnosync\n",
        GRIDLINE_SOURCE, SLAPD_DN, s->db);
    slapd_write(s->config, 0600, text);
    slapd_write(s->password_file, 0600, "secret\n");
    slapd_fill(s);
    slapd_start(s);
}

static inline int slapd_remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)flag, (void)at; /* whatever it is */
    return remove(path);
}

static inline void slapd_remove_db(struct slapd *s)
{
    assert_int_equal(nftw(s->db, slapd_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void slapd_fini(struct slapd *s)
{
    if (s->pid)
        (void)kill(s->pid, SIGCONT);
    slapd_kill(s);
    assert_int_equal(nftw(s->folder, slapd_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#endif
