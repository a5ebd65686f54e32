/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output.h"

#include "base/mem.h"
#include "cmd/file.h"
#include "cmd/say.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FLUSH_AT = 256 << 10 };

struct output {
    const char *name; /* for messages */
    int fd;
    char *target; /* owned; NULL: fd is written directly */
    char *temp;   /* owned; the name it has until then */
    struct encoder *encoder;
    bool is_csv;
    struct strbuf buffer;
};

static int refuse(const struct output *o, int code)
{
    if (code != -EINTR && code != -EPIPE) /* asked to stop; nobody reads any more */
        say("%s: %s", o->name, err_text(code));
    return code;
}

/* A name beside the target: DIR/.NAME.XXXXXX */
static char *temp_name(const char *target)
{
    struct strbuf s = {0};
    const char *slash = strrchr(target, '/');
    size_t dir = slash ? (size_t)(slash - target) + 1 : 0;
    strbuf_printf(&s, "%.*s.%s.XXXXXX", (int)dir, target, target + dir);
    return s.failed ? NULL : s.p;
}

static mode_t mode_for(const char *target)
{
    struct stat st;
    if (stat(target, &st) == 0)
        return st.st_mode & 07777;
    mode_t mask = umask(0);
    (void)umask(mask); /* can't fail; the only way to ask */
    return 0666 & ~mask;
}

static int open_beside(struct output *o, const char *path)
{
    o->target = realpath(path, NULL); /* behind a link is the file that is meant */
    if (!o->target)
        o->target = strdup(path);
    char *temp = o->target ? temp_name(o->target) : NULL;
    if (!temp)
        return -ENOMEM;
    o->fd = mkostemp(temp, O_CLOEXEC);
    if (o->fd < 0) {
        int code = -errno;
        mem_free(temp);
        return code;
    }
    o->temp = temp;
    return fchmod(o->fd, mode_for(o->target)) < 0 ? -errno : 0;
}

static int open_target(struct output *o, const char *path)
{
    struct stat st;
    if (!path || strcmp(path, "-") == 0) {
        o->name = "stdout";
        o->fd = STDOUT_FILENO;
        return 0;
    }
    o->name = path;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        o->fd = open(path, O_WRONLY | O_CLOEXEC);
        return o->fd < 0 ? -errno : 0;
    }
    return open_beside(o, path);
}

int output_open(const char *path, const struct encoding *encoding, struct output **out)
{
    struct output *o = mem_alloc(sizeof *o);
    o->fd = -1;
    o->is_csv = strcmp(encoding->name, "csv") == 0;
    int r = open_target(o, path);
    if (r == 0)
        r = encoder_create(encoding, &o->encoder);
    if (r < 0) {
        (void)refuse(o, r);
        output_close(o);
        return r;
    }
    *out = o;
    return 0;
}

void output_close(struct output *o)
{
    if (!o)
        return;
    if (o->fd > STDERR_FILENO)
        (void)close(o->fd); /* finished, or given up */
    if (o->temp)
        (void)unlink(o->temp); /* given up; a failure leaves a dot file */
    encoder_destroy(o->encoder);
    strbuf_fini(&o->buffer);
    free(o->target); /* from realpath */
    mem_free(o->temp);
    mem_free(o);
}

int output_columns(struct output *o, const struct slice *names, size_t n)
{
    int r = encoder_csv_columns(o->encoder, names, n);
    return r < 0 ? refuse(o, r) : 0;
}

int output_named_columns(struct output *o, const char *names)
{
    size_t n = 0, cap = 1;
    for (const char *c = names; *c; c++)
        cap += *c == ',';
    struct slice *list = mem_alloc(cap * sizeof *list), rest = slice_str(names);
    while (rest.n) {
        const char *comma = memchr(rest.p, ',', rest.n);
        struct slice name = {rest.p, comma ? (size_t)(comma - rest.p) : rest.n};
        rest = slice_from(rest, name.n + 1);
        if (name.n)
            list[n++] = name;
    }
    int r = output_columns(o, list, n);
    mem_free(list);
    return r;
}

uint64_t output_left_out(const struct output *o)
{
    return o->is_csv ? encoder_csv_left_out(o->encoder) : 0;
}

int output_flush(struct output *o)
{
    int r = file_write_all(o->fd, strbuf_slice(&o->buffer));
    strbuf_reset(&o->buffer);
    return r < 0 ? refuse(o, r) : 0;
}

int output_batch(struct output *o, const struct batch *b)
{
    int r = encoder_run(o->encoder, b, &o->buffer);
    if (r < 0)
        return refuse(o, r);
    return o->buffer.n >= FLUSH_AT ? output_flush(o) : 0;
}

int output_line(struct output *o, struct slice line)
{
    char *to = strbuf_room(&o->buffer, o->buffer.n ? line.n + 1 : FLUSH_AT + line.n);
    if (!to)
        return refuse(o, -ENOMEM);
    memcpy(to, line.p, line.n);
    to[line.n] = '\n';
    strbuf_advance(&o->buffer, line.n + 1);
    return o->buffer.n >= FLUSH_AT ? output_flush(o) : 0;
}

int output_finish(struct output *o)
{
    int r = encoder_end(o->encoder, &o->buffer);
    if (r < 0)
        return refuse(o, r);
    r = output_flush(o);
    if (r < 0)
        return r;
    if (o->fd > STDERR_FILENO && close(o->fd) < 0) { /* some file systems tell of a full disk only now */
        o->fd = -1;
        return refuse(o, -errno);
    }
    o->fd = -1;
    if (!o->temp)
        return 0;
    if (rename(o->temp, o->target) < 0)
        return refuse(o, -errno);
    mem_free(o->temp);
    o->temp = NULL;
    return 0;
}
