/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a selector, from text. Every message begins with the option's name as people write it, and
 * the column is within that option's text. What was written is not repeated: it may be anything. */
#include "event/select_internal.h"

#include "base/num.h"
#include "base/setting.h"
#include "base/text.h"

#include <errno.h>

static const char cross_usage[] = "cross: write FIELD:LEVEL or FIELD:LEVEL:HYSTERESIS, as in load1:4:0.5";
static const char delta_usage[] = "delta: write FIELD:AMOUNT or FIELD:N%, as in free:1000000 or free:10%";

static int no_memory(struct diag *why, const char *option)
{
    return diag_set(why, -ENOMEM, 0, "%s: there is no memory for it", option);
}

static int copy(struct arena *arena, struct slice text, const char *option, struct slice *out,
                struct diag *why)
{
    struct slice own = arena_copy(arena, text);
    if (!own.p)
        return no_memory(why, option);
    *out = own;
    return 0;
}

/* The next item of a list by commas, of which *at bytes are done. false: that was all. */
static bool next_item(struct slice list, size_t *at, struct slice *out)
{
    if (*at > list.n)
        return false;
    struct slice rest = slice_from(list, *at);
    const char *comma = rest.n ? memchr(rest.p, ',', rest.n) : NULL;
    *out = slice_of(rest.p, comma ? (size_t)(comma - rest.p) : rest.n);
    *at += out->n + 1;
    return true;
}

static int check_length(struct slice list, const char *option, struct diag *why)
{
    if (list.n <= SELECT_PATTERNS_MAX)
        return 0;
    return diag_set(why, E_LIMIT, 1, "%s: %zu bytes; at most %d", option, list.n, (int)SELECT_PATTERNS_MAX);
}

static int parse_patterns(struct slice text, const char *option, struct arena *arena, struct slice *out,
                          struct diag *why)
{
    struct slice one;
    int r = check_length(text, option, why);
    if (r < 0 || text.n == 0 || slice_eq_str(text, "*"))
        return r; /* "*" is all, for which nobody needs to look */
    for (size_t at = 0, from = 0; next_item(text, &at, &one); from = at) {
        if (one.n == 0)
            return diag_set(why, E_PROTO, (uint32_t)from + 1,
                            "%s: a pattern is missing here; write patterns by commas, as in a*,b", option);
        if (!text_glob_is_closed(one))
            return diag_set(
                why, E_PROTO, (uint32_t)from + 1,
                "%s: a [ in this pattern is not closed (a comma ends a pattern); for the character "
                "write [[]",
                option);
    }
    return copy(arena, text, option, out, why);
}

static size_t count_items(struct slice list)
{
    struct slice one;
    size_t n = 0;
    for (size_t at = 0; next_item(list, &at, &one);)
        n++;
    return n;
}

static int parse_on_change(struct slice text, struct arena *arena, struct select_options *out,
                           struct diag *why)
{
    struct slice own, one;
    int r = check_length(text, "on_change", why);
    if (r < 0 || text.n == 0)
        return r;
    if (slice_eq_str(text, "*")) {
        out->is_any_change = true;
        return 0;
    }
    r = copy(arena, text, "on_change", &own, why);
    if (r < 0)
        return r;
    struct slice *fields = arena_alloc(arena, count_items(own) * sizeof *fields);
    if (!fields)
        return no_memory(why, "on_change");
    for (size_t at = 0, from = 0; next_item(own, &at, &one); from = at) {
        if (!text_is_name(one))
            return diag_set(
                why, E_PROTO, (uint32_t)from + 1,
                "on_change: this is no field's name; write fields by commas, as in state,owner, or *");
        fields[out->n_on_change++] = one;
    }
    out->on_change = fields;
    return 0;
}

/* A finite number, as exactly as it is written where it is an integer. */
static bool parse_number(struct slice text, long double *out)
{
    int64_t i;
    uint64_t u;
    double f;
    if (num_parse_int(text, &i) == 0)
        *out = i;
    else if (num_parse_uint(text, &u) == 0)
        *out = u;
    else if (num_parse_float(text, &f) == 0 && isfinite(f))
        *out = f;
    else
        return false;
    return true;
}

/* Cuts what is behind the last colon. false: there is none. */
static bool cut_last(struct slice *text, struct slice *last)
{
    const char *colon = text->n ? memrchr(text->p, ':', text->n) : NULL;
    if (!colon)
        return false;
    *last = slice_from(*text, (size_t)(colon - text->p) + 1);
    text->n = (size_t)(colon - text->p);
    return true;
}

/* From the right, because a field's name may have colons: two numbers are LEVEL and HYSTERESIS. */
static int parse_cross(struct slice text, struct arena *arena, struct select_cross *out, struct diag *why)
{
    struct slice field = text, shorter = text, last;
    long double numbers[2]; /* the last first */
    size_t n = 0;
    if (text.n == 0)
        return 0;
    while (n < 2 && cut_last(&shorter, &last) && parse_number(last, &numbers[n])) {
        field = shorter;
        n++;
    }
    if (n == 0 || !text_is_name(field))
        return diag_set(why, E_PROTO, 1, "%s", cross_usage);
    long double level = numbers[n - 1], hysteresis = n == 2 ? numbers[0] : 0;
    if (hysteresis < 0)
        return diag_set(why, E_PROTO, 1, "cross: a HYSTERESIS is not negative");
    out->up = level;
    out->down = level - hysteresis;
    return copy(arena, field, "cross", &out->field, why);
}

static int parse_delta(struct slice text, struct arena *arena, struct select_delta *out, struct diag *why)
{
    struct slice field = text, amount;
    if (text.n == 0)
        return 0;
    if (!cut_last(&field, &amount) || !text_is_name(field))
        return diag_set(why, E_PROTO, 1, "%s", delta_usage);
    out->is_relative = slice_ends(amount, SLICE_LIT("%"));
    amount.n -= out->is_relative;
    if (!parse_number(amount, &out->amount))
        return diag_set(why, E_PROTO, (uint32_t)(amount.p - text.p) + 1, "%s", delta_usage);
    if (!(out->amount > 0))
        return diag_set(why, E_PROTO, (uint32_t)(amount.p - text.p) + 1,
                        "delta: the AMOUNT is more than 0; for every change there is on_change");
    if (out->is_relative)
        out->amount /= 100;
    return copy(arena, field, "delta", &out->field, why);
}

static int parse_every(struct slice text, uint64_t *out, struct diag *why)
{
    int64_t ns;
    if (text.n == 0)
        return 0;
    if (num_parse_duration(text, &ns) < 0 || ns <= 0)
        return diag_set(why, E_PROTO, 1, "every: write a duration of more than 0, as in %s",
                        setting_type_example(SETTING_DURATION));
    *out = (uint64_t)ns;
    return 0;
}

static int parse_where(struct slice text, int64_t now_ns, struct predicate **out, struct diag *why)
{
    struct diag inner = {0};
    if (text.n == 0)
        return 0;
    int r = predicate_compile(text, now_ns, out, &inner);
    return r < 0 ? diag_set(why, r, inner.col, "where: %s", inner.message[0] ? inner.message : err_text(r))
                 : 0;
}

int select_options_parse(const struct select_spec *spec, int64_t now_ns, struct arena *arena,
                         struct select_options *out, struct diag *why)
{
    int r = parse_patterns(spec->events, "event", arena, &out->events, why);
    if (r == 0)
        r = parse_patterns(spec->hosts, "host", arena, &out->hosts, why);
    if (r == 0)
        r = parse_where(spec->where, now_ns, &out->where, why);
    if (r == 0)
        r = parse_on_change(spec->on_change, arena, out, why);
    if (r == 0)
        r = parse_cross(spec->cross, arena, &out->cross, why);
    if (r == 0)
        r = parse_delta(spec->delta, arena, &out->delta, why);
    if (r == 0)
        r = parse_every(spec->every, &out->every_ns, why);
    return r;
}
