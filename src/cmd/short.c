/* SPDX-License-Identifier: Apache-2.0 */
/* 21:20:28.123456 node7 disk device=sda reads=17
 *
 * Global time, UTC. The level stands before the fields where it is more important than `usage`, as LEVEL!.
 * Text is quoted where a reader could not tell where it ends; nothing in it can steer the terminal. */
#include "cmd/short.h"

#include "base/clock.h"
#include "cmd/table.h"

#include <errno.h>

static void add_time(struct strbuf *out, int64_t time_ns)
{
    char text[CLOCK_TEXT_MAX];
    size_t n = clock_print_iso(text, time_ns); /* 2026-11-15T21:20:28.123456[789]Z */
    const size_t from = sizeof "2026-11-15T" - 1, to = sizeof "2026-11-15T21:20:28.123456" - 1;
    strbuf_add(out, text + from, (n < to ? n : to) - from);
}

static bool needs_quotes(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] == ' ' || text.p[i] == '"' || text.p[i] == '=')
            return true;
    return text.n == 0;
}

static void add_value(struct strbuf *out, struct value v)
{
    const bool is_quoted = value_is_text(v.type) && needs_quotes(value_slice(v));
    if (is_quoted)
        strbuf_add_char(out, '"');
    table_add_value(out, v);
    if (is_quoted)
        strbuf_add_char(out, '"');
}

static void add_event(struct strbuf *out, const struct event *e)
{
    add_time(out, e->time_ns);
    strbuf_add_char(out, ' ');
    table_add_value(out, value_text(e->host.n ? e->host : SLICE_LIT("-")));
    strbuf_printf(out, " %.*s", SLICE_ARG(e->schema->name));
    if (e->level < LEVEL_USAGE)
        strbuf_printf(out, " %.*s!", SLICE_ARG(level_lower(e->level)));
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (e->values[i].type == VALUE_NONE)
            continue;
        strbuf_printf(out, " %.*s=", SLICE_ARG(e->schema->fields[i].name));
        add_value(out, e->values[i]);
    }
    strbuf_add_char(out, '\n');
}

static int short_run(void *state, const struct batch *b, struct strbuf *out)
{
    (void)state; /* there is none */
    for (size_t i = 0; i < b->n; i++)
        add_event(out, &b->events[i]);
    return strbuf_failed(out) ? -ENOMEM : 0;
}

static const struct encoder_ops encoder = {.state_size = 1, .run = short_run};

const struct encoding encoding_short = {
    .name = "short",
    .suffix = ".txt",
    .mime = "text/plain",
    .summary = "lines for people; written only",
    .is_lines = true,
    .encoder = &encoder,
};
