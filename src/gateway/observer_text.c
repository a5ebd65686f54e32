/* SPDX-License-Identifier: Apache-2.0 */
/* Events on standard output: in any encoding, or, on a terminal and when no encoding was asked for, as short
 * lines:
 *
 *     21:20:28.123 node7 cpu user=3.5 idle=92.1
 *     21:20:28.124 node7 job.state [warning] id=7 state="not running"
 *
 * Times are UTC. What a peer wrote can't move the cursor or recolour the terminal: control characters, C1's
 * too, are \xHH. */
#include "gateway/observer.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/sink.h"
#include "event/encoding.h"

#include <errno.h>
#include <unistd.h>

enum {
    WAITING_MAX = 4 << 20, /* bytes for a reader that is slow; then whole batches are dropped */
    BYTES_SHOWN = 16
};

struct text {
    struct sink sink;
    struct encoder *encoder; /* NULL = short lines */
};

static void destroy(void *self)
{
    struct text *t = self;
    if (t->encoder && t->sink.fd >= 0)
        (void)encoder_end(t->encoder, &t->sink.waiting); /* a tail that finds no memory is left out */
    if (t->sink.waiting.n)
        (void)sink_flush(&t->sink); /* what is left was counted as queued */
    encoder_destroy(t->encoder);
    sink_fini(&t->sink);
    mem_free(t);
}

static int create(const struct observer_config *c, void **out, struct diag *why)
{
    bool is_for_people = !c->encoding && isatty(STDOUT_FILENO);
    const struct encoding *e = encoding_by_name(slice_str(c->encoding ? c->encoding : "ulm"));
    if (!e)
        return diag_set(why, -EINVAL, 0, "there is no encoding '%s'", c->encoding);
    struct text *t = mem_alloc(sizeof *t);
    t->sink.fd = -1;
    int r = is_for_people ? 0 : encoder_create(e, &t->encoder);
    if (r == 0)
        r = sink_open(&t->sink, "-", 0);
    if (r < 0) {
        destroy(t);
        return diag_set(why, r, 0, "%s", err_text(r));
    }
    *out = t;
    return 0;
}

/* ---------------------------------------------------------------- short lines */

/* The length of a control character at p, 0 = it is none: ASCII's, or C1's as UTF-8. */
static size_t control_bytes(const unsigned char *p, const unsigned char *end)
{
    if (*p < 0x20 || *p == 0x7f)
        return 1;
    return *p == 0xc2 && p + 1 < end && p[1] < 0xa0 ? 2 : 0;
}

static void add_safe(struct strbuf *out, struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.p, *end = p + s.n;
    while (p < end) {
        size_t n = control_bytes(p, end);
        if (n == 0)
            strbuf_add_char(out, (char)*p++);
        for (; n > 0; n--)
            strbuf_printf(out, "\\x%02x", *p++);
    }
}

static bool is_bare(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || s.p[i] == '"' || s.p[i] == '=' || s.p[i] == '\\')
            return false;
    return s.n > 0;
}

static void add_text(struct strbuf *out, struct slice s)
{
    bool is_quoted = !is_bare(s);
    if (is_quoted)
        strbuf_add_char(out, '"');
    add_safe(out, s);
    if (is_quoted)
        strbuf_add_char(out, '"');
}

static void add_bytes(struct strbuf *out, struct slice s)
{
    size_t n = s.n < BYTES_SHOWN ? s.n : BYTES_SHOWN;
    strbuf_add_str(out, "x'");
    for (size_t i = 0; i < n; i++)
        strbuf_printf(out, "%02x", (unsigned char)s.p[i]);
    strbuf_add_str(out, n < s.n ? "...'" : "'");
}

static void add_value(struct strbuf *out, struct value v)
{
    char number[NUM_TEXT_MAX];
    switch (v.type) {
    case VALUE_INT:
        strbuf_add(out, number, num_print_int(number, v.i));
        break;
    case VALUE_UINT:
        strbuf_add(out, number, num_print_uint(number, v.u));
        break;
    case VALUE_FLOAT:
        strbuf_add(out, number, num_print_float(number, v.f));
        break;
    case VALUE_BOOL:
        strbuf_add_str(out, v.u ? "true" : "false");
        break;
    case VALUE_TEXT:
    case VALUE_NUMBER:
        add_text(out, value_slice(v));
        break;
    default:
        add_bytes(out, value_slice(v));
        break;
    }
}

static void add_line(struct strbuf *out, const struct event *e)
{
    char time[CLOCK_TEXT_MAX];
    enum { CLOCK_AT = 11, CLOCK_N = 12 };    /* 21:20:28.123 of 2026-11-15T21:20:28.123456Z */
    (void)clock_print_iso(time, e->time_ns); /* always has a fraction */
    strbuf_add(out, time + CLOCK_AT, CLOCK_N);
    strbuf_add_char(out, ' ');
    add_safe(out, e->host.n ? e->host : SLICE_LIT("-"));
    strbuf_add_char(out, ' ');
    strbuf_add_slice(out, e->schema->name);
    if (e->level <= LEVEL_WARNING) {
        strbuf_add_str(out, " [");
        strbuf_add_slice(out, level_lower(e->level));
        strbuf_add_char(out, ']');
    }
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (e->values[i].type == VALUE_NONE)
            continue;
        strbuf_add_char(out, ' ');
        strbuf_add_slice(out, e->schema->fields[i].name);
        strbuf_add_char(out, '=');
        add_value(out, e->values[i]);
    }
    strbuf_add_char(out, '\n');
}

/* ---------------------------------------------------------------- the observer */

static int encode(struct text *t, const struct batch *b)
{
    if (t->encoder)
        return encoder_run(t->encoder, b, &t->sink.waiting);
    for (size_t i = 0; i < b->n; i++)
        add_line(&t->sink.waiting, &b->events[i]);
    return strbuf_failed(&t->sink.waiting) ? -ENOMEM : 0;
}

static int take(void *self, const struct batch *b)
{
    struct text *t = self;
    size_t before = t->sink.waiting.n;
    if (before >= WAITING_MAX) {
        int r = sink_flush(&t->sink);
        if (t->sink.waiting.n >= WAITING_MAX)
            return r < 0 ? r : -ENOBUFS;
        before = t->sink.waiting.n;
    }
    int r = encode(t, b);
    if (r < 0) { /* what was whole before stays */
        t->sink.waiting.failed = false;
        t->sink.waiting.n = before;
        return r;
    }
    sink_mark(&t->sink, b->n);
    (void)sink_flush(&t->sink); /* somebody may be looking; the next tick tells of an error */
    return 0;
}

static int tick(void *self, int64_t now_ns)
{
    struct text *t = self;
    (void)now_ns; /* nothing here gets old */
    return sink_flush(&t->sink);
}

static uint64_t queued(const void *self)
{
    const struct text *t = self;
    return sink_queued(&t->sink);
}

const struct observer_ops observer_text = {
    .type = "text",
    .summary = "lines on standard output",
    .create = create,
    .take = take,
    .tick = tick,
    .queued = queued,
    .destroy = destroy,
};
