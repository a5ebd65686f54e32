/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/activation.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "event/level.h"
#include "event/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct activation {
    const char *dir;
    bool is_written;
    size_t n;
    struct strbuf lines[ACTIVATION_MAX]; /* "PATTERN LEVEL\n" */
};

struct activation *activation_create(const char *dir)
{
    struct activation *a = mem_alloc(sizeof *a);
    a->dir = dir;
    return a;
}

static void add_path(struct strbuf *out, const struct activation *a, const char *name)
{
    strbuf_printf(out, "%s/%s", a->dir, name);
}

void activation_destroy(struct activation *a)
{
    struct strbuf path = {0};
    if (!a)
        return;
    if (a->is_written) {
        add_path(&path, a, "activate");
        (void)unlink(path.p); /* somebody has taken it away already */
        strbuf_fini(&path);
    }
    for (size_t i = 0; i < a->n; i++)
        strbuf_fini(&a->lines[i]);
    mem_free(a);
}

/* Blanks would end it, # would make it a comment. */
static bool is_pattern(struct slice s)
{
    if (s.n == 0 || s.n > EVENT_NAME_MAX || s.p[0] == '#' || !text_is_utf8(s) || text_has_control(s))
        return false;
    return memchr(s.p, ' ', s.n) == NULL;
}

static bool is_level(struct slice s)
{
    uint8_t level;
    return slice_eq(s, SLICE_LIT("off")) || level_parse(s, &level) == 0;
}

static int write_all(int fd, struct slice text)
{
    while (text.n) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno != EINTR)
            return -errno;
        text = slice_from(text, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

/* Read by other users' programs: that is what it is for. */
static int write_file(struct activation *a, struct slice text)
{
    struct strbuf new = {0}, path = {0};
    add_path(&new, a, "activate.new");
    add_path(&path, a, "activate");
    int r = strbuf_failed(&new) || strbuf_failed(&path) ? -ENOMEM : 0;
    if (r == 0)
        (void)unlink(new.p); /* left by one that was killed, or a trap: it is made anew */
    int fd = r == 0 ? open(new.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644) : -1;
    if (r == 0 && fd < 0)
        r = -errno;
    if (r == 0)
        r = write_all(fd, text);
    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(new.p, path.p) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        (void)unlink(new.p); /* it is of no use */
    a->is_written |= r == 0;
    strbuf_fini(&new);
    strbuf_fini(&path);
    return r;
}

/* The pattern of a line. */
static struct slice pattern_of(const struct strbuf *line)
{
    const char *blank = memchr(line->p, ' ', line->n);
    return slice_of(line->p, blank ? (size_t)(blank - line->p) : line->n);
}

/* The place of a pattern, or behind the last. */
static size_t find(const struct activation *a, struct slice pattern)
{
    size_t i = 0;
    while (i < a->n && !slice_eq(pattern_of(&a->lines[i]), pattern))
        i++;
    return i;
}

static void take_out(struct activation *a, size_t at)
{
    strbuf_fini(&a->lines[at]);
    a->n--;
    memmove(&a->lines[at], &a->lines[at + 1], (a->n - at) * sizeof *a->lines);
    a->lines[a->n] = (struct strbuf){0};
}

static int write_lines(struct activation *a)
{
    struct strbuf text = {0};
    strbuf_add_str(&text, "# Written by gridline-agent for a gateway; replaced with each change.\n");
    for (size_t i = 0; i < a->n; i++)
        strbuf_add_slice(&text, strbuf_slice(&a->lines[i]));
    int r = strbuf_failed(&text) ? -ENOMEM : write_file(a, strbuf_slice(&text));
    strbuf_fini(&text);
    return r;
}

int activation_set(struct activation *a, struct slice pattern, struct slice level, struct diag *why)
{
    bool is_default = slice_eq(level, SLICE_LIT("default"));
    if (!is_pattern(pattern))
        return diag_set(why, -EINVAL, 0,
                        "pattern: a name of events, in which * ? and [...] stand for others");
    if (!is_default && !is_level(level))
        return diag_set(why, -EINVAL, 0, "level: \"%.*s\" is none; write debug, info, ..., off or default",
                        level.n > 40 ? 40 : (int)level.n, level.p);
    size_t at = find(a, pattern);
    if (at < a->n)
        take_out(a, at); /* the newest comes last: the last match counts */
    if (!is_default && a->n == ACTIVATION_MAX)
        return diag_set(why, E_LIMIT, 0, "more than %d patterns", ACTIVATION_MAX);
    if (!is_default)
        strbuf_printf(&a->lines[a->n++], "%.*s %.*s\n", SLICE_ARG(pattern), SLICE_ARG(level));
    int r = write_lines(a);
    return r < 0 ? diag_set(why, r, 0, "%s/activate: %s", a->dir, err_text(r)) : 0;
}
