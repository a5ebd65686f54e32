/* SPDX-License-Identifier: Apache-2.0 */
/* A pipe that polls writable takes at least PIPE_BUF bytes without blocking, whatever flags its descriptor
 * has (which may be shared, so they are not changed): writes are that small. */
#include "agent/outputs.h"

#include "base/log.h"
#include "base/mem.h"
#include "event/encoding.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

struct output {
    char *path; /* NULL = standard output */
    int fd;     /* -1 = not open */
    bool is_regular, is_failing;
    struct encoder *encoder;
    struct strbuf waiting;
    uint64_t passed, dropped;
};

struct outputs {
    struct output *all;
    size_t n;
};

static int open_file(struct output *o)
{
    struct stat st;
    o->fd =
        o->path ? open(o->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644) : STDOUT_FILENO;
    if (o->fd < 0)
        return -errno;
    o->is_regular = fstat(o->fd, &st) == 0 && S_ISREG(st.st_mode);
    return 0;
}

static void close_file(struct output *o)
{
    if (o->fd >= 0 && o->path)
        (void)close(o->fd); /* nothing of ours is buffered in it */
    o->fd = -1;
}

static int open_output(struct output *o, const struct output_config *c, struct diag *why)
{
    const struct encoding *e = encoding_by_name(slice_str(c->encoding));
    o->fd = -1;
    if (!e)
        return diag_set(why, -EINVAL, 0, "output %s: there is no format '%s'", c->path, c->encoding);
    int r = encoder_create(e, &o->encoder);
    if (r < 0)
        return r;
    if (strcmp(c->path, "-") != 0) {
        o->path = mem_alloc(strlen(c->path) + 1);
        memcpy(o->path, c->path, strlen(c->path) + 1);
    }
    r = open_file(o);
    return r < 0 ? diag_set(why, r, 0, "output %s: %s", c->path, err_text(r)) : 0;
}

int outputs_create(const struct output_config *configs, size_t n, struct outputs **out, struct diag *why)
{
    struct outputs *o = mem_alloc(sizeof *o);
    int r = 0;
    o->all = mem_alloc((n ? n : 1) * sizeof *o->all);
    for (; r == 0 && o->n < n; o->n++)
        r = open_output(&o->all[o->n], &configs[o->n], why);
    if (r < 0) {
        outputs_destroy(o);
        return r;
    }
    *out = o;
    return 0;
}

/* Bytes written, 0 when it would block, -errno. */
static ssize_t write_some(const struct output *o, struct slice data)
{
    struct pollfd p = {.fd = o->fd, .events = POLLOUT};
    if (o->is_regular)
        return write(o->fd, data.p, data.n);
    if (poll(&p, 1, 0) <= 0 || !(p.revents & (POLLOUT | POLLERR | POLLHUP)))
        return 0;
    return write(o->fd, data.p, data.n < PIPE_BUF ? data.n : PIPE_BUF);
}

/* The change of state is logged, not each failure. */
static void set_failing(struct output *o, int error)
{
    const char *name = o->path ? o->path : "standard output";
    if (error && !o->is_failing)
        log_error("output %s: %s; events wait for it, then they are dropped", name, err_text(-error));
    else if (!error && o->is_failing)
        log_info("output %s: can be written again; %llu events were dropped so far", name,
                 (unsigned long long)o->dropped);
    o->is_failing = error != 0;
}

static void flush(struct output *o)
{
    size_t done = 0;
    if (o->fd < 0 && open_file(o) < 0)
        return;
    while (done < o->waiting.n) {
        ssize_t n = write_some(o, slice_from(strbuf_slice(&o->waiting), done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            set_failing(o, n < 0 && errno != EAGAIN ? errno : 0);
            break;
        }
        set_failing(o, 0);
        done += (size_t)n;
    }
    strbuf_consume(&o->waiting, done);
}

void outputs_flush(struct outputs *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->all[i].waiting.n)
            flush(&o->all[i]);
}

static void add(struct output *o, const struct batch *b)
{
    size_t before = o->waiting.n;
    bool has_room = before < OUTPUT_MAX;
    if (has_room && encoder_run(o->encoder, b, &o->waiting) == 0 && !strbuf_failed(&o->waiting)) {
        o->passed += b->n;
        flush(o);
        return;
    }
    if (o->dropped == 0)
        log_error("output %s: %d bytes wait for it: from now on events are dropped and counted",
                  o->path ? o->path : "standard output", OUTPUT_MAX);
    o->dropped += b->n;
    if (o->waiting.failed) { /* no memory for the text: what was whole before stays */
        o->waiting.failed = false;
        o->waiting.n = before;
    }
    flush(o);
}

void outputs_batch(struct outputs *o, const struct batch *b)
{
    for (size_t i = 0; i < o->n; i++)
        add(&o->all[i], b);
}

bool outputs_any(const struct outputs *o)
{
    return o->n > 0;
}

void outputs_reopen(struct outputs *o)
{
    for (size_t i = 0; i < o->n; i++) {
        flush(&o->all[i]);
        if (o->all[i].path)
            close_file(&o->all[i]);
    }
}

void outputs_counts(const struct outputs *o, uint64_t *passed, uint64_t *dropped)
{
    *passed = *dropped = 0;
    for (size_t i = 0; i < o->n; i++) {
        *passed += o->all[i].passed;
        *dropped += o->all[i].dropped;
    }
}

void outputs_destroy(struct outputs *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->n; i++) {
        struct output *p = &o->all[i];
        if (p->encoder)
            (void)encoder_end(p->encoder, &p->waiting); /* a tail that finds no memory is left out */
        flush(p);
        close_file(p);
        encoder_destroy(p->encoder);
        strbuf_fini(&p->waiting);
        mem_free(p->path);
    }
    mem_free(o->all);
    mem_free(o);
}
