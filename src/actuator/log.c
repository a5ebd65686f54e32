/* SPDX-License-Identifier: Apache-2.0 */
/* log: one line to a file, to syslog, or to standard error. Whatever the text has, it is one line (quote.h),
 * written with one call, so that those of several processes do not mix. syslog gets a datagram as RFC 3164
 * has it, without the time and host that the local daemon adds; not by syslog(3), which can't fail. */
#include "actuator/actuator.h"
#include "actuator/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    PRIORITY = 3 << 3 | 5, /* daemon, notice */
    SYSLOG_MAX = 8000      /* daemons cut longer ones, some in silence */
};

struct log {
    const char *file, *socket, *text;
    bool to_syslog;
};

static const struct parameter log_options[] = {
    {SETTING_STRING, "file", NULL, offsetof(struct log, file),
     "the file to append to; made if need be; without it and `syslog`: standard error", true, false},
    {SETTING_FLAG, "syslog", "false", offsetof(struct log, to_syslog), "write to the system's log", true,
     false},
    {SETTING_STRING, "socket", "/dev/log", offsetof(struct log, socket), "where the system's log listens",
     true, false},
    {SETTING_STRING, "text", "{time} {severity} {kind} {rule}: {summary}", offsetof(struct log, text),
     "the line; control characters in it are written as `\\xHH`", false, false},
    {0},
};

static void say_where(const struct log *l, struct strbuf *out)
{
    if (l->file)
        strbuf_add_str(out, l->file);
    else
        strbuf_add_str(out, l->to_syslog ? "syslog" : "standard error");
}

static int log_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct log *l = state;
    (void)env; /* the text has what it needs */
    if (l->file && l->to_syslog)
        return diag_set(why, -EINVAL, 0, "log: give `file` or `syslog`, not both");
    strbuf_add_str(out, "append to ");
    say_where(l, out);
    strbuf_add_str(out, "\n");
    quote_line(out, slice_str(l->text));
    strbuf_add_str(out, "\n");
    return 0;
}

static int write_line(int fd, struct slice line)
{
    ssize_t n;
    do
        n = write(fd, line.p, line.n);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : (size_t)n < line.n ? -ENOSPC : 0;
}

static int append(const char *path, struct slice line)
{
    /* Not to wait for a reader, if it is a pipe. */
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (fd < 0)
        return -errno;
    int r = write_line(fd, line);
    if (close(fd) < 0 && r == 0)
        r = -errno;
    return r;
}

static int send_to(const char *path, struct slice message)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof to.sun_path)
        return -ENAMETOOLONG;
    memcpy(to.sun_path, path, n);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int r =
        sendto(fd, message.p, message.n, MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to) < 0 ? -errno : 0;
    (void)close(fd); /* the datagram is out, or r says why not */
    return r;
}

static int to_syslog(const struct log *l, struct slice line)
{
    struct strbuf s = {0};
    strbuf_printf(&s, "<%d>gridline: ", PRIORITY);
    strbuf_add(&s, line.p, line.n < SYSLOG_MAX ? line.n : SYSLOG_MAX);
    if (line.n > SYSLOG_MAX)
        strbuf_printf(&s, "[... %zu bytes more]", line.n - SYSLOG_MAX);
    int r = strbuf_failed(&s) ? -ENOMEM : send_to(l->socket, strbuf_slice(&s));
    strbuf_fini(&s);
    return r;
}

static int put(const struct log *l, struct strbuf *line)
{
    if (l->to_syslog)
        return strbuf_failed(line) ? -ENOMEM : to_syslog(l, strbuf_slice(line));
    strbuf_add_char(line, '\n');
    if (strbuf_failed(line))
        return -ENOMEM;
    return l->file ? append(l->file, strbuf_slice(line)) : write_line(STDERR_FILENO, strbuf_slice(line));
}

static int log_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct log *l = state;
    struct strbuf line = {0};
    (void)env; /* it takes no time */
    quote_line(&line, slice_str(l->text));
    int r = put(l, &line);
    strbuf_fini(&line);
    strbuf_add_str(&report->text, r < 0 ? "can't write to " : "logged to ");
    say_where(l, &report->text);
    if (r < 0)
        strbuf_printf(&report->text, ": %s", err_text(r));
    return r;
}

const struct actuator_ops actuator_log = {
    .name = "log",
    .summary = "a line to a file, to syslog or to standard error",
    .options = log_options,
    .is_repeatable = true,
    .is_groupable = true,
    .state_size = sizeof(struct log),
    .plan = log_plan,
    .run = log_run,
};
