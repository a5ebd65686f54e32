/* SPDX-License-Identifier: Apache-2.0 */
/* ulm.c - Universal Logger Messages (draft-abela-ulm-05), as NetLogger 2, GridFTP and gLite write them.
 *
 *     DATE=20261115212028.123456 HOST=node17 PROG=ev LVL=Info NL.EVNT=transfer.end ID=7 FILE="/data/a b"
 *
 * Written: these five in this order, then the fields in the schema's order, one blank between pairs, LF.
 * Read: any order and any blanks; only DATE is required. NetLogger and GridFTP write no LVL (that is Info),
 * gLite no NL.EVNT (that event is called "event"). Names are exact, levels in any case; a word that is no
 * level is kept as the field LVL of an Info event. Values and names of fields: see pairs.h; the prefix is GL.
 */
#include "event/encodings.h"

#include "base/clock.h"
#include "event/pairs.h"

#include <errno.h>

enum { SECOND_N = 14 }; /* YYYYMMDDHHMMSS */

static bool is_gridftp(struct slice prog)
{
    return prog.n && memmem(prog.p, prog.n, "gridftp", 7) != NULL;
}

/* t was read with the fraction's digits as decimals; they are the number of microseconds. */
static int as_microseconds(int64_t *t, size_t digits)
{
    int64_t unit = NS_PER_S;
    for (size_t i = 0; i < digits; i++)
        unit /= 10;
    int64_t ns = *t % NS_PER_S;
    ns += ns < 0 ? NS_PER_S : 0;
    return __builtin_sub_overflow(*t, ns - ns / unit * 1000, t) ? -ERANGE : 0;
}

static int parse_time(struct pairs_second *last, struct slice text, struct slice prog, int64_t *out)
{
    size_t digits;
    if (!pairs_same_second(last, text, SECOND_N, out, &digits)) {
        int rc = clock_parse_ulm(text, out, &digits);
        if (rc < 0)
            return rc;
        int64_t ns = *out % NS_PER_S;
        last->valid = !__builtin_sub_overflow(*out, ns < 0 ? ns + NS_PER_S : ns, &last->ns);
        memcpy(last->text, text.p, SECOND_N);
    }
    /* The GridFTP server prints the microseconds with %d, without leading zeros: its .2102 is 0.002102 s. A
     * short fraction from anyone else means what it says. */
    return digits > 0 && digits < 6 && is_gridftp(prog) ? as_microseconds(out, digits) : 0;
}

static const struct pairs_dialect dialect;

static void add_origin(const struct event *e, struct strbuf *out)
{
    pairs_add_head(out, dialect.key[PAIRS_HOST], e->host);
    pairs_add_head(out, dialect.key[PAIRS_PROG], e->prog);
    pairs_add_head(out, dialect.key[PAIRS_LEVEL], level_name(e->level));
}

static void fill(const struct schema *s, size_t piece, struct strbuf *out)
{
    pairs_fill(&dialect, s, piece, out);
}

static const struct pairs_dialect dialect = {
    .key = {[PAIRS_TIME] = {"DATE", 4},
            [PAIRS_HOST] = {"HOST", 4},
            [PAIRS_PROG] = {"PROG", 4},
            [PAIRS_LEVEL] = {"LVL", 3},
            [PAIRS_NAME] = {"NL.EVNT", 7},
            [PAIRS_UINTS] = {"GL.U", 4}},
    .mangled = {"GL.", 3},
    .default_name = {"event", 5},
    .time_form = "YYYYMMDDHHMMSS[.fraction]",
    .parse_time = parse_time,
    .print_time = clock_print_ulm,
    .add_origin = add_origin,
    .fill = fill,
};

static bool detect(struct slice head)
{
    return pairs_detect(head, dialect.key[PAIRS_TIME], SLICE_LIT("ts"));
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

const struct encoding encoding_ulm = {
    .name = "ulm",
    .suffix = ".ulm",
    .mime = "text/x-ulm",
    .summary = "NetLogger's ULM lines, DATE=... HOST=... PROG=... LVL=...",
    .is_lines = true,
    .detect = detect,
    .decoder = &decoder,
    .encoder = &encoder,
};
