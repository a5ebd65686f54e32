/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/tile.h"

#include "base/num.h"
#include "base/text.h"
#include "event/predicate.h"

static const struct {
    const char *name;
    enum tile_ask ask;
} kinds[] = {
    {"series", ASK_SERIES},
    {"points", ASK_POINTS},
    {"lifeline", ASK_LIFELINE},
    {"lifeline-exact", ASK_LIFELINE_EXACT},
    {"lifeline-density", ASK_LIFELINE_DENSITY},
    {"edges", ASK_EDGES},
};

enum {
    FOR_SERIES = 1 << ASK_SERIES,
    FOR_POINTS = 1 << ASK_POINTS,
    FOR_EDGES = 1 << ASK_EDGES,
    FOR_LIFELINES = 1 << ASK_LIFELINE | 1 << ASK_LIFELINE_EXACT | 1 << ASK_LIFELINE_DENSITY
};

static const struct {
    const char *name;
    size_t offset;
    unsigned kinds;
} params[] = {
    {"host", offsetof(struct tile_request, host), FOR_SERIES | FOR_POINTS | FOR_LIFELINES | FOR_EDGES},
    {"key", offsetof(struct tile_request, key), FOR_SERIES | FOR_POINTS | FOR_LIFELINES | FOR_EDGES},
    {"field", offsetof(struct tile_request, field), FOR_SERIES},
    {"event", offsetof(struct tile_request, event), FOR_LIFELINES | FOR_EDGES},
    {"id", offsetof(struct tile_request, id), FOR_POINTS | FOR_LIFELINES | FOR_EDGES},
    {"where", offsetof(struct tile_request, where), FOR_POINTS | FOR_LIFELINES | FOR_EDGES},
    {"by", offsetof(struct tile_request, by), FOR_EDGES},
};

/* Up to the next NUL, which must be there. */
static bool next_word(struct slice *rest, struct slice *out)
{
    const char *end = rest->n ? memchr(rest->p, '\0', rest->n) : NULL;
    if (!end)
        return false;
    *out = slice_of(rest->p, (size_t)(end - rest->p));
    *rest = slice_from(*rest, out->n + 1);
    return true;
}

static int parse_kind(struct slice word, struct tile_request *q, struct diag *why)
{
    struct text_nearest near = text_nearest_of(word);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (slice_eq_str(word, kinds[i].name)) {
            q->ask = kinds[i].ask;
            return 0;
        }
        text_nearest_try(&near, kinds[i].name);
    }
    return diag_set(why, E_PROTO, 0, "there is no kind of tile '%.*s'%s%s", (int)(word.n < 40 ? word.n : 40),
                    word.p, near.best ? "; did you mean " : ": series, points, lifeline or edges",
                    near.best ? near.best : "");
}

/* Both the tile and its neighbours are within the times there are. */
static int parse_place(struct slice level, struct slice index, struct tile_request *q, struct diag *why)
{
    uint64_t l;
    int64_t span, next;
    if (num_parse_uint(level, &l) < 0 || l > TILE_LEVEL_MAX)
        return diag_set(why, E_PROTO, 0, "a level is a number from 0 to %d", TILE_LEVEL_MAX);
    if (num_parse_int(index, &q->index) < 0)
        return diag_set(why, E_PROTO, 0, "the index of a tile is a whole number");
    q->level = (unsigned)l;
    span = INT64_C(1) << (2 * q->level + 8);
    if (__builtin_mul_overflow(q->index, span, &q->from_ns) ||
        __builtin_sub_overflow(q->from_ns, span, &next) ||
        __builtin_add_overflow(q->from_ns, span - 1, &q->last_ns) ||
        __builtin_add_overflow(q->last_ns, 2 * span, &next))
        return diag_set(why, E_PROTO, 0, "tile %lld of level %u is beyond all time", (long long)q->index,
                        q->level);
    return 0;
}

static int parse_as(struct slice value, struct tile_request *q, struct diag *why)
{
    static const char *const names[] = {"glt1", "json", "csv"};
    for (unsigned i = 0; i < 3; i++)
        if (slice_eq_str(value, names[i])) {
            q->as = (enum tile_as)i;
            return 0;
        }
    return diag_set(why, E_PROTO, 0, "as is glt1, json or csv");
}

static int parse_param(struct slice word, struct tile_request *q, struct diag *why)
{
    const char *is = word.n ? memchr(word.p, '=', word.n) : NULL;
    struct slice name = is ? slice_of(word.p, (size_t)(is - word.p)) : word;
    struct slice value = is ? slice_from(word, name.n + 1) : SLICE_LIT("");
    if (slice_eq_str(name, "as"))
        return parse_as(value, q, why);
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        if (!slice_eq_str(name, params[i].name))
            continue;
        if (!(params[i].kinds & 1u << q->ask))
            return diag_set(why, E_PROTO, 0, "this kind of tile has no %s", params[i].name);
        struct slice *to = (struct slice *)(void *)((char *)q + params[i].offset);
        *to = value;
        return 0;
    }
    return diag_set(why, E_PROTO, 0, "a tile has no parameter '%.*s'", (int)(name.n < 40 ? name.n : 40),
                    name.p);
}

/* What was derived is of all hosts and events together. */
static int check_edges(const struct tile_request *q, struct diag *why)
{
    if (q->by.n && !slice_eq_str(q->by, "place") && !slice_eq_str(q->by, "prog"))
        return diag_set(why, E_PROTO, 0, "edges are by=place or by=prog");
    if (!q->by.n && (q->host.n || q->key.n || q->event.n || q->id.n || q->where.n))
        return diag_set(why, E_PROTO, 0,
                        "edges take host, key, event, id and where only with by=place or by=prog");
    return 0;
}

static int check(const struct tile_request *q, struct diag *why)
{
    if (q->name.n == 0)
        return diag_set(why, E_PROTO, 0, "a tile is of something: its name is missing");
    if (q->ask == ASK_SERIES && q->field.n == 0)
        return diag_set(why, E_PROTO, 0, "a series is of a field: field=NAME");
    if (!text_glob_is_closed(q->host) || !text_glob_is_closed(q->event) ||
        (q->ask == ASK_POINTS && !text_glob_is_closed(q->name)))
        return diag_set(why, E_PROTO, 0, "a [ of a pattern is not closed");
    if (q->where.n > PREDICATE_TEXT_MAX)
        return diag_set(why, E_LIMIT, 0, "where has more than %d bytes", PREDICATE_TEXT_MAX);
    return q->ask == ASK_EDGES ? check_edges(q, why) : 0;
}

int tile_request_parse(struct slice text, struct tile_request *out, struct diag *why)
{
    struct slice none = SLICE_LIT("");
    struct tile_request q = {
        .host = none, .key = none, .field = none, .event = none, .id = none, .where = none, .by = none};
    struct slice rest = text, kind, level, index, word;
    if (!next_word(&rest, &kind) || !next_word(&rest, &q.name) || !next_word(&rest, &level) ||
        !next_word(&rest, &index))
        return diag_set(why, E_PROTO, 0, "a tile is /KIND/NAME/LEVEL/INDEX");
    int r = parse_kind(kind, &q, why);
    if (r == 0)
        r = parse_place(level, index, &q, why);
    while (r == 0 && rest.n) {
        if (!next_word(&rest, &word))
            return diag_set(why, E_PROTO, 0, "a parameter is cut off");
        r = parse_param(word, &q, why);
    }
    if (r == 0)
        r = check(&q, why);
    if (r == 0)
        *out = q;
    return r;
}
