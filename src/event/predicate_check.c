/* SPDX-License-Identifier: Apache-2.0 */
/* What can be told before there is an event. A field may turn out to be anything, but a constant, host, or
 * the result of a comparison can't, and a predicate that could never pass is a mistake better told to its
 * author.
 *
 * time and level are numbers in an event (nanoseconds; 0 = emergency). People write them as text and seconds,
 * so they compare only with constants, which are translated once, here. */
#include "event/predicate_internal.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>

static enum known known_of(struct value v)
{
    switch (v.type) {
    case VALUE_NONE:
        return KNOWN_NULL;
    case VALUE_TEXT:
        return KNOWN_TEXT;
    case VALUE_BYTES:
        return KNOWN_BYTES;
    default:
        return KNOWN_NUMBER;
    }
}

struct node predicate_const_node(struct value k, uint32_t col)
{
    return (struct node){.in = {.op = OP_CONST, .k = k}, .known = (uint8_t)known_of(k), .col = col};
}

static const char *describe(const struct node *n)
{
    static const char *const words[] = {
        [KNOWN_NOTHING] = "a field", [KNOWN_NULL] = "NULL",   [KNOWN_NUMBER] = "a number",
        [KNOWN_TEXT] = "text",       [KNOWN_BYTES] = "bytes", [KNOWN_TIME] = "a time",
        [KNOWN_LEVEL] = "a level",
    };
    return words[n->known];
}

int predicate_check_condition(struct compiler *c, const struct node *n)
{
    if (n->known <= KNOWN_NUMBER)
        return 0;
    return diag_set(c->why, E_PROTO, n->col, "%s is no condition; compare it, as in host = 'node17'",
                    describe(n));
}

int predicate_check_number(struct compiler *c, const struct node *n)
{
    if (n->known <= KNOWN_NUMBER)
        return 0;
    if (n->known == KNOWN_TIME)
        return diag_set(c->why, E_PROTO, n->col, "time can't be calculated with; write time > 'now-15m'");
    return diag_set(c->why, E_PROTO, n->col, "%s can't be calculated with", describe(n));
}

int predicate_check_text(struct compiler *c, const struct node *n, const char *op)
{
    if (n->known == KNOWN_NOTHING || n->known == KNOWN_NULL || n->known == KNOWN_TEXT)
        return 0;
    if (n->known == KNOWN_LEVEL)
        return diag_set(c->why, E_PROTO, n->col, "%s is for text; write level IN ('error', 'warning')", op);
    if (n->known == KNOWN_TIME)
        return diag_set(c->why, E_PROTO, n->col, "%s is for text; write time BETWEEN '2026-11-15' AND 'now'",
                        op);
    return diag_set(c->why, E_PROTO, n->col, "%s is for text, and this is %s", op, describe(n));
}

static int unknown_level(struct compiler *c, const struct node *n)
{
    struct slice word = value_slice(n->in.k), best = {"", 0};
    unsigned nearest = 3; /* further than two slips is another word */
    for (uint8_t i = 0; i < LEVEL_COUNT; i++) {
        unsigned distance = text_distance(word, level_lower(i));
        if (distance < nearest) {
            nearest = distance;
            best = level_lower(i);
        }
    }
    struct excerpt e = predicate_excerpt(word);
    if (best.n)
        return diag_set(c->why, E_PROTO, n->col, "'%s' is no level; did you mean '%.*s'?", e.z,
                        SLICE_ARG(best));
    return diag_set(c->why, E_PROTO, n->col,
                    "'%s' is no level; they are emergency, alert, critical, error, warning, auth, security, "
                    "important, notice, system, usage, info, debug, trace",
                    e.z);
}

static int translate_level(struct compiler *c, struct node *n)
{
    uint8_t level;
    if (!node_is_const(n) || n->known != KNOWN_TEXT)
        return diag_set(c->why, E_PROTO, n->col,
                        "level compares only with a level's name, as in level <= 'warning'");
    if (level_parse(value_slice(n->in.k), &level) < 0)
        return unknown_level(c, n);
    n->in.k = value_int(level);
    n->known = KNOWN_LEVEL;
    return 0;
}

/* Seconds since 1970, by the digits as written where that is possible: a float has only 15 or so. */
static int seconds_to_ns(const struct node *n, int64_t *out)
{
    struct value k = n->in.k;
    if (n->literal.n && clock_parse_epoch(n->literal, out) == 0)
        return 0;
    if (k.type == VALUE_INT)
        return __builtin_mul_overflow(k.i, NS_PER_S, out) ? -ERANGE : 0;
    if (k.type != VALUE_FLOAT || !(fabs(k.f) < 1e10)) /* NaN too */
        return -ERANGE;
    int64_t whole = (int64_t)k.f, ns = llrint((k.f - (double)whole) * 1e9);
    return __builtin_mul_overflow(whole, NS_PER_S, out) || __builtin_add_overflow(*out, ns, out) ? -ERANGE
                                                                                                 : 0;
}

static int translate_time(struct compiler *c, struct node *n)
{
    static const char how[] = "write '2026-11-15T21:00:00Z', 'now-15m' or seconds since 1970";
    bool usable = n->known == KNOWN_TEXT || (n->known == KNOWN_NUMBER && n->in.k.type != VALUE_BOOL);
    if (!node_is_const(n) || !usable)
        return diag_set(c->why, E_PROTO, n->col, "time compares only with a constant; %s", how);
    int64_t t;
    int r = n->known == KNOWN_TEXT ? clock_parse_human(value_slice(n->in.k), c->now_ns, &t)
                                   : seconds_to_ns(n, &t);
    if (r == -ERANGE)
        return diag_set(c->why, E_PROTO, n->col, "that time is outside 1677 to 2262; %s", how);
    if (r < 0)
        return diag_set(c->why, E_PROTO, n->col, "'%s' is no time; %s",
                        predicate_excerpt(value_slice(n->in.k)).z, how);
    n->in.k = value_int(t);
    n->known = KNOWN_TIME;
    return 0;
}

static int translate(struct compiler *c, struct node *n, uint8_t to)
{
    if (n->known == to || (node_is_const(n) && n->known == KNOWN_NULL))
        return 0;
    return to == KNOWN_TIME ? translate_time(c, n) : translate_level(c, n);
}

static int check_pair(struct compiler *c, const struct node *a, const struct node *b)
{
    bool any = a->known <= KNOWN_NULL || b->known <= KNOWN_NULL;
    if (any || a->known == b->known)
        return 0;
    const char *hint =
        a->known == KNOWN_NUMBER || b->known == KNOWN_NUMBER ? "; text is quoted with '…'" : "";
    return diag_set(c->why, E_PROTO, b->col, "%s never compares with %s%s", describe(b), describe(a), hint);
}

/* A field without a class is taken for what it is compared with: a number or text. */
static void hint_class(struct node *n, const struct node *other)
{
    if (n->in.op == OP_LOAD && n->in.want == CLASS_UNKNOWN)
        n->in.want = other->known == KNOWN_NUMBER ? CLASS_NUMBER
                     : other->known == KNOWN_TEXT ? CLASS_TEXT
                                                  : CLASS_UNKNOWN;
}

int predicate_check_compare(struct compiler *c, struct node **operands, size_t n)
{
    uint8_t special = KNOWN_NOTHING;
    for (size_t i = 0; i < n && special == KNOWN_NOTHING; i++)
        if (operands[i]->known == KNOWN_TIME || operands[i]->known == KNOWN_LEVEL)
            special = operands[i]->known;
    for (size_t i = 0; i < n && special != KNOWN_NOTHING; i++) {
        int r = translate(c, operands[i], special);
        if (r < 0)
            return r;
    }
    for (size_t i = 1; i < n; i++) {
        int r = check_pair(c, operands[0], operands[i]);
        if (r < 0)
            return r;
        hint_class(operands[0], operands[i]);
        hint_class(operands[i], operands[0]);
    }
    return 0;
}
