/* SPDX-License-Identifier: Apache-2.0 */
/* The local syslog: a datagram an event, `<PRI>prog: ULM line`, as RFC 3164 has it without the time and host
 * that a local syslog daemon adds by itself (the line has its own). Nothing is kept: what the socket does not
 * take at once is dropped and counted, also when the daemon is not there; it is looked for again with the
 * next event. */
#include "base/mem.h"
#include "client/dest.h"
#include "client/text_out.h"
#include "event/encodings.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FACILITY_USER = 1 };

struct syslog_out {
    struct dest dest;
    struct sockaddr_un address;
    int fd; /* -1 = not connected */
    const struct dest_env *env;
    struct text_out text;
    struct strbuf lines, message;
    struct dest_counts counts;
};

/* RFC 3164's severities. */
static int severity(uint8_t level)
{
    static const uint8_t of[LEVEL_COUNT] = {
        [LEVEL_EMERGENCY] = 0, [LEVEL_ALERT] = 1,  [LEVEL_CRITICAL] = 2, [LEVEL_ERROR] = 3,
        [LEVEL_WARNING] = 4,   [LEVEL_AUTH] = 5,   [LEVEL_SECURITY] = 5, [LEVEL_IMPORTANT] = 5,
        [LEVEL_NOTICE] = 5,    [LEVEL_SYSTEM] = 6, [LEVEL_USAGE] = 6,    [LEVEL_INFO] = 6,
        [LEVEL_DEBUG] = 7,     [LEVEL_TRACE] = 7,
    };
    return of[level < LEVEL_COUNT ? level : LEVEL_INFO];
}

static bool connect_again(struct syslog_out *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* a socket has nothing to lose */
    s->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0)
        return false;
    if (connect(s->fd, (const struct sockaddr *)&s->address, sizeof s->address) == 0)
        return true;
    (void)close(s->fd);
    s->fd = -1;
    return false;
}

static bool send_once(struct syslog_out *s)
{
    struct slice m = strbuf_slice(&s->message);
    return s->fd >= 0 && send(s->fd, m.p, m.n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)m.n;
}

/* A full socket is left alone; one that leads nowhere is replaced, once. */
static bool send_message(struct syslog_out *s)
{
    if (strbuf_failed(&s->message))
        return false;
    if (send_once(s))
        return true;
    if (s->fd >= 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EMSGSIZE || errno == EINTR))
        return false;
    return connect_again(s) && send_once(s);
}

static void send_line(struct syslog_out *s, uint8_t level, struct slice line)
{
    strbuf_reset(&s->message);
    strbuf_printf(&s->message, "<%d>%s: ", FACILITY_USER << 3 | severity(level), s->env->prog);
    strbuf_add_slice(&s->message, line);
    if (send_message(s))
        s->counts.passed++;
    else
        s->counts.dropped[DROP_UNWRITABLE]++;
}

/* A line an event. */
static void send_lines(struct syslog_out *s, const struct batch *b)
{
    struct slice rest = strbuf_slice(&s->lines);
    for (size_t i = 0; i < b->n; i++) {
        const char *end = memchr(rest.p, '\n', rest.n);
        struct slice line = {rest.p, end ? (size_t)(end - rest.p) : rest.n};
        send_line(s, b->events[i].level, line);
        rest = slice_from(rest, line.n + 1);
    }
}

static void syslog_put(struct dest *d, struct slice block, uint32_t n, uint64_t first_seq)
{
    struct syslog_out *s = (struct syslog_out *)d;
    (void)first_seq;
    s->counts.given += n;
    strbuf_reset(&s->lines);
    struct batch *b = text_out_decode(&s->text, block);
    if (b && text_out_encode(&s->text, b, &s->lines) == 0)
        send_lines(s, b);
    else
        s->counts.dropped[DROP_MEMORY] += n;
    batch_unref(b);
}

static void syslog_counts(const struct dest *d, struct dest_counts *out)
{
    *out = ((const struct syslog_out *)d)->counts;
}

static void syslog_after_fork(struct dest *d, const struct dest_env *env)
{
    struct syslog_out *s = (struct syslog_out *)d;
    s->env = env;
    s->counts = (struct dest_counts){0}; /* datagrams from both may share the socket */
}

static void syslog_close(struct dest *d)
{
    struct syslog_out *s = (struct syslog_out *)d;
    if (s->fd >= 0)
        (void)close(s->fd); /* datagrams are out */
    text_out_fini(&s->text);
    strbuf_fini(&s->lines);
    strbuf_fini(&s->message);
    mem_free(s);
}

static int syslog_open(struct slice url, struct slice query, const struct dest_env *env, struct dest **out)
{
    const char *other = secure_getenv("GRIDLINE_SYSLOG");
    struct slice path = slice_str(other && *other ? other : "/dev/log");
    if (url.n || query.n)
        return -EINVAL;
    struct syslog_out *s = mem_try_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    s->dest.ops = &dest_syslog;
    s->env = env;
    s->fd = -1;
    s->address.sun_family = AF_UNIX;
    int r = path.n < sizeof s->address.sun_path ? text_out_init(&s->text, &encoding_ulm) : -ENAMETOOLONG;
    if (r < 0) {
        syslog_close(&s->dest);
        return r;
    }
    memcpy(s->address.sun_path, path.p, path.n);
    (void)connect_again(s); /* not there yet is no error */
    *out = &s->dest;
    return 0;
}

const struct dest_ops dest_syslog = {
    .scheme = "syslog",
    .open = syslog_open,
    .put = syslog_put,
    .counts = syslog_counts,
    .after_fork = syslog_after_fork,
    .close = syslog_close,
};
