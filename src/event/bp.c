/* SPDX-License-Identifier: Apache-2.0 */
/* bp.c - the lines of NetLogger 4 and the CEDPS "Best Practices", as Pegasus writes them.
 *
 *     ts=2026-11-15T21:20:28.123456Z event=transfer.end level=Info prog=ev host=node17 guid=7 msg="two words"
 *
 * Written: ts, event and level, prog and host unless empty, then the fields in the schema's order, one blank
 * between pairs, LF. Read: any order and any blanks; ts (ISO 8601, or seconds since 1970) and event are
 * required. Levels in any case; a word that is no level is kept as the field level of an Info event. The %0A
 * and %22 that Pegasus puts into quoted texts are left as they are: nothing tells them from a text that has
 * them. Values and names of fields: see pairs.h; the prefix is gl. */
#include "event/encodings.h"

#include "base/clock.h"
#include "event/pairs.h"

enum { SECOND_N = 19 }; /* YYYY-MM-DDTHH:MM:SS */

static int parse_time(struct pairs_second *last, struct slice text, struct slice prog, int64_t *out)
{
    (void)prog;
    size_t digits;
    bool is_utc = text.n > SECOND_N && text.p[text.n - 1] == 'Z';
    if (is_utc && pairs_same_second(last, slice_of(text.p, text.n - 1), SECOND_N, out, &digits))
        return 0;
    if (text.n < 5 || text.p[4] != '-')
        return clock_parse_epoch(text, out);
    int rc = clock_parse_iso(text, out);
    if (rc == 0 && is_utc) {
        last->valid = clock_parse_iso(slice_of(text.p, SECOND_N), &last->ns) == 0;
        memcpy(last->text, text.p, SECOND_N);
    }
    return rc;
}

static const struct pairs_dialect dialect;

static void add_origin(const struct event *e, struct strbuf *out)
{
    pairs_add_head(out, dialect.key[PAIRS_LEVEL], level_name(e->level));
    if (e->prog.n)
        pairs_add_head(out, dialect.key[PAIRS_PROG], e->prog);
    if (e->host.n)
        pairs_add_head(out, dialect.key[PAIRS_HOST], e->host);
}

static void fill(const struct schema *s, size_t piece, struct strbuf *out)
{
    pairs_fill(&dialect, s, piece, out);
}

static const struct pairs_dialect dialect = {
    .key = {[PAIRS_TIME] = {"ts", 2},
            [PAIRS_HOST] = {"host", 4},
            [PAIRS_PROG] = {"prog", 4},
            [PAIRS_LEVEL] = {"level", 5},
            [PAIRS_NAME] = {"event", 5},
            [PAIRS_UINTS] = {"gl.u", 4}},
    .mangled = {"gl.", 3},
    .default_name = {"", 0},
    .time_form = "an ISO 8601 time or seconds since 1970",
    .parse_time = parse_time,
    .print_time = clock_print_iso,
    .name_first = true,
    .add_origin = add_origin,
    .fill = fill,
};

static bool detect(struct slice head)
{
    return pairs_detect(head, dialect.key[PAIRS_TIME], SLICE_LIT("DATE"));
}

static int reader_init(void *state)
{
    ((struct pairs_reader *)state)->dialect = &dialect;
    return 0;
}

static int writer_init(void *state)
{
    ((struct pairs_writer *)state)->dialect = &dialect;
    return 0;
}

static const struct decoder_ops decoder = {
    .state_size = sizeof(struct pairs_reader),
    .init = reader_init,
    .step = pairs_step,
    .set_escapes = pairs_set_escapes,
};

static const struct encoder_ops encoder = {
    .state_size = sizeof(struct pairs_writer),
    .init = writer_init,
    .fini = pairs_writer_fini,
    .run = pairs_run,
};

const struct encoding encoding_bp = {
    .name = "bp",
    .suffix = ".bp",
    .mime = "text/x-netlogger-bp",
    .summary = "NetLogger's Best Practices lines, ts=... event=...",
    .is_lines = true,
    .detect = detect,
    .decoder = &decoder,
    .encoder = &encoder,
};
