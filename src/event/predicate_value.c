/* SPDX-License-Identifier: Apache-2.0 */
/* What every operator does with values. NULL is VALUE_NONE; a truth is a bool or NULL.
 *
 * Numbers (int, uint, float; a bool is 0 or 1) compare by value: an integer and a float without converting
 * the integer, which could round. Arithmetic on integers stays exact in int64, and in uint64 when an operand
 * is already beyond int64; past that it goes on in floating point, as in SQLite. A result that is no number
 * (x/0, Inf - Inf) is NULL; so is anything done to text. */
#include "event/predicate_internal.h"

#include "base/num.h"
#include "base/text.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

__extension__ typedef __int128 wide; /* holds any sum and difference of two 64-bit integers, signed or not */

/* --- order --- */

static unsigned order_bytes(const struct value *a, const struct value *b)
{
    uint32_t n = a->n < b->n ? a->n : b->n;
    int c = n ? memcmp(a->p, b->p, n) : 0;
    if (c == 0)
        return a->n == b->n ? ORDER_EQUAL : a->n < b->n ? ORDER_LESS : ORDER_GREATER;
    return c < 0 ? ORDER_LESS : ORDER_GREATER;
}

static bool is_negative(const struct value *v)
{
    return v->type == VALUE_INT && v->i < 0;
}

/* Of int, uint or bool. Of two with the same sign the unsigned order is the order. */
static unsigned order_integers(const struct value *a, const struct value *b)
{
    if (is_negative(a) != is_negative(b))
        return is_negative(a) ? ORDER_LESS : ORDER_GREATER;
    return a->u == b->u ? ORDER_EQUAL : a->u < b->u ? ORDER_LESS : ORDER_GREATER;
}

static unsigned order_floats(double a, double b)
{
    return a == b ? ORDER_EQUAL : a < b ? ORDER_LESS : a > b ? ORDER_GREATER : 0;
}

/* The float's whole part is an integer, exactly, unless it is beyond every integer. */
static unsigned order_integer_float(const struct value *i, double f)
{
    if (isnan(f))
        return 0;
    if (f >= 0x1p64)
        return ORDER_LESS;
    if (f < -0x1p63)
        return ORDER_GREATER;
    struct value whole = f < 0 ? value_int((int64_t)f) : value_uint((uint64_t)f);
    unsigned order = order_integers(i, &whole);
    if (order != ORDER_EQUAL)
        return order;
    return order_floats(f < 0 ? (double)whole.i : (double)whole.u, f);
}

unsigned predicate_order(const struct value *a, const struct value *b)
{
    if (a->type == VALUE_NONE || b->type == VALUE_NONE)
        return 0;
    if (value_is_text(a->type) || value_is_text(b->type))
        return a->type == b->type ? order_bytes(a, b) : 0;
    if (a->type != VALUE_FLOAT)
        return b->type == VALUE_FLOAT ? order_integer_float(a, b->f) : order_integers(a, b);
    if (b->type == VALUE_FLOAT)
        return order_floats(a->f, b->f);
    return predicate_flip((uint8_t)order_integer_float(b, a->f));
}

/* --- between the classes --- */

static struct slice trim(struct slice s)
{
    while (s.n && (s.p[0] == ' ' || (s.p[0] >= '\t' && s.p[0] <= '\r')))
        s = slice_from(s, 1);
    while (s.n && (s.p[s.n - 1] == ' ' || (s.p[s.n - 1] >= '\t' && s.p[s.n - 1] <= '\r')))
        s.n--;
    return s;
}

struct value predicate_text_number(struct slice s)
{
    struct value v = value_int(0);
    s = trim(s);
    if (s.n > 1 && s.p[0] == '+' && s.p[1] != '-')
        s = slice_from(s, 1);
    size_t sign = s.n && s.p[0] == '-';
    if (s.n == sign || slice_lower(s.p[sign]) == 'n' || slice_lower(s.p[sign]) == 'i')
        return value_none(); /* SQLite knows no text for NaN and Inf */
    if (num_parse_int(s, &v.i) == 0)
        return v;
    if (num_parse_uint(s, &v.u) == 0)
        return value_uint(v.u);
    struct num num = num_written(s); /* .5 and 5. */
    if (num.is == NUM_FLOAT)
        return value_float(num.f);
    double f;
    return num_parse_float(s, &f) == 0 ? value_float(f) : value_none();
}

int predicate_other(struct arena *a, const struct value *k, struct value *out)
{
    char buf[VALUE_SPELLING_MAX];
    *out = value_none();
    if (predicate_class(k) == CLASS_TEXT)
        *out = predicate_text_number(value_slice(*k));
    if (predicate_class(k) != CLASS_NUMBER)
        return 0;
    struct slice text = arena_copy(a, value_spelling(k, buf));
    *out = value_text(text);
    return text.p ? 0 : -ENOMEM;
}

/* Of operands that may be text and number. SQLite's affinities: text meets a number as text where the text alone is a
 * column; else both as numbers. */
static enum truth compare_mixed(uint8_t orders, const struct value *a, const struct value *b, bool a_is_column,
                                bool b_is_column)
{
    uint8_t class_a = predicate_class(a), class_b = predicate_class(b);
    if (class_a == class_b || class_a == CLASS_UNKNOWN || class_b == CLASS_UNKNOWN)
        return predicate_compare(orders, a, b);
    bool is_text_column = class_a == CLASS_TEXT ? a_is_column : b_is_column;
    bool is_number_column = class_a == CLASS_TEXT ? b_is_column : a_is_column;
    char buf[VALUE_SPELLING_MAX];
    struct value x = *a, y = *b;
    if (is_text_column && !is_number_column) {
        struct value *number = class_a == CLASS_NUMBER ? &x : &y;
        *number = value_text(value_spelling(class_a == CLASS_NUMBER ? a : b, buf));
    } else {
        struct value *text = class_a == CLASS_TEXT ? &x : &y;
        *text = predicate_text_number(value_slice(*text));
    }
    return predicate_compare(orders, &x, &y);
}

/* --- arithmetic --- */

static bool is_number(const struct value *v)
{
    return v->type == VALUE_INT || v->type == VALUE_UINT || v->type == VALUE_FLOAT || v->type == VALUE_BOOL;
}

/* An integer beyond int64. */
static bool is_beyond(const struct value *v)
{
    return v->type == VALUE_UINT && v->u > INT64_MAX;
}

static double to_double(const struct value *v)
{
    if (v->type == VALUE_FLOAT)
        return v->f;
    return is_beyond(v) ? (double)v->u : (double)v->i;
}

static wide to_wide(const struct value *v)
{
    return is_beyond(v) ? (wide)v->u : (wide)v->i;
}

static struct value float_result(double v)
{
    return isnan(v) ? value_none() : value_float(v);
}

/* The whole part; false when it is no int64. */
static bool to_int64(const struct value *v, int64_t *out)
{
    if (v->type != VALUE_FLOAT) {
        *out = v->i;
        return !is_beyond(v);
    }
    if (!(fabs(v->f) < 0x1p63)) /* NaN too */
        return false;
    *out = (int64_t)v->f;
    return true;
}

/* Of the whole parts, as in SQLite; fmod is exact for those too large for an integer. */
static struct value float_remainder(const struct value *a, const struct value *b)
{
    int64_t i, k;
    if (!to_int64(a, &i) || !to_int64(b, &k))
        return float_result(fmod(trunc(to_double(a)), trunc(to_double(b))));
    if (k == 0)
        return value_none();
    return value_float(k == -1 ? 0 : (double)(i % k)); /* INT64_MIN % -1 traps */
}

static struct value float_arith(uint8_t op, const struct value *a, const struct value *b)
{
    double x = to_double(a), y = to_double(b);
    switch (op) {
    case OP_ADD:
        return float_result(x + y);
    case OP_SUBTRACT:
        return float_result(x - y);
    case OP_MULTIPLY:
        return float_result(x * y);
    case OP_DIVIDE:
        return y == 0 ? value_none() : float_result(x / y);
    default:
        return float_remainder(a, b);
    }
}

/* False when the result is no int64. b is not 0 for OP_DIVIDE and OP_REMAINDER. */
static bool int_arith(uint8_t op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case OP_ADD:
        return !__builtin_add_overflow(a, b, out);
    case OP_SUBTRACT:
        return !__builtin_sub_overflow(a, b, out);
    case OP_MULTIPLY:
        return !__builtin_mul_overflow(a, b, out);
    case OP_DIVIDE:
        if (b == -1)
            return !__builtin_sub_overflow((int64_t)0, a, out);
        *out = a / b;
        return true;
    default:
        *out = b == -1 ? 0 : a % b;
        return true;
    }
}

/* The same for integers of which one is beyond int64: false when the result is beyond uint64 too. */
static bool wide_arith(uint8_t op, wide a, wide b, struct value *out)
{
    wide v = 0;
    bool overflow = false;
    if (op == OP_ADD)
        v = a + b;
    else if (op == OP_SUBTRACT)
        v = a - b;
    else if (op == OP_MULTIPLY)
        overflow = __builtin_mul_overflow(a, b, &v);
    else
        v = op == OP_DIVIDE ? a / b : a % b;
    if (overflow || v < INT64_MIN || v > UINT64_MAX)
        return false;
    *out = v <= INT64_MAX ? value_int((int64_t)v) : value_uint((uint64_t)v);
    return true;
}

/* As predicate_arith, of operands of which one is no number: text may be one. */
static struct value arith_text(uint8_t op, const struct value *a, const struct value *b)
{
    struct value x = a->type == VALUE_TEXT ? predicate_text_number(value_slice(*a)) : *a;
    struct value y = b->type == VALUE_TEXT ? predicate_text_number(value_slice(*b)) : *b;
    return is_number(&x) && is_number(&y) ? predicate_arith(op, &x, &y) : value_none();
}

struct value predicate_arith(uint8_t op, const struct value *a, const struct value *b)
{
    if (!is_number(a) || !is_number(b))
        return arith_text(op, a, b);
    if (a->type == VALUE_FLOAT || b->type == VALUE_FLOAT)
        return float_arith(op, a, b);
    if ((op == OP_DIVIDE || op == OP_REMAINDER) && b->u == 0)
        return value_none();
    int64_t i;
    struct value v;
    if (!is_beyond(a) && !is_beyond(b))
        return int_arith(op, a->i, b->i, &i) ? value_int(i) : float_arith(op, a, b);
    return wide_arith(op, to_wide(a), to_wide(b), &v) ? v : float_arith(op, a, b);
}

/* --- IN --- */

static int compare_numbers(const void *a, const void *b)
{
    unsigned order = predicate_order(a, b);
    return order == ORDER_LESS ? -1 : order == ORDER_GREATER;
}

/* By length first: most texts that differ do so in length, and any order will do. */
static int compare_texts(const void *a, const void *b)
{
    const struct value *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->n ? memcmp(x->p, y->p, x->n) : 0;
}

static size_t move_type(struct value *to, const struct value *items, size_t n,
                        bool (*is)(const struct value *))
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (is(&items[i]))
            to[count++] = items[i];
    return count;
}

static bool is_text(const struct value *v)
{
    return v->type == VALUE_TEXT;
}
static bool is_bytes(const struct value *v)
{
    return v->type == VALUE_BYTES;
}

int predicate_set_create(struct arena *a, const struct value *items, size_t n,
                         const struct predicate_set **out)
{
    struct predicate_set *s = arena_alloc(a, sizeof *s);
    struct value *all = arena_alloc(a, 2 * n * sizeof *all); /* the constants, then each as the other class has it */
    struct value *values = arena_alloc(a, 2 * n * sizeof *values);
    if (!s || !all || !values)
        return -ENOMEM;
    *s = (struct predicate_set){.numbers = values, .want = predicate_class(&items[0])};
    for (size_t i = 0; i < n; i++) {
        all[i] = items[i];
        if (predicate_other(a, &items[i], &all[n + i]) < 0)
            return -ENOMEM;
        s->has_null = s->has_null || items[i].type == VALUE_NONE;
        s->n_values += items[i].type != VALUE_NONE;
        if (items[i].type != VALUE_NONE && predicate_class(&items[i]) != s->want)
            s->want = CLASS_UNKNOWN;
    }
    s->n_numbers = move_type(values, all, 2 * n, is_number);
    qsort(values, s->n_numbers, sizeof *values, compare_numbers);
    s->texts = values += s->n_numbers;
    s->n_texts = move_type(values, all, 2 * n, is_text);
    qsort(values, s->n_texts, sizeof *values, compare_texts);
    s->bytes = values += s->n_texts;
    s->n_bytes = move_type(values, all, 2 * n, is_bytes);
    qsort(values, s->n_bytes, sizeof *values, compare_texts);
    *out = s;
    return 0;
}

/* v = first OR v = second OR …, each with its own type's rule: what can't be compared is unknown. */
static enum truth set_has(const struct predicate_set *s, const struct value *v)
{
    if (v->type == VALUE_NONE || (v->type == VALUE_FLOAT && isnan(v->f)))
        return UNKNOWN;
    const struct value *in = v->type == VALUE_TEXT    ? s->texts
                             : v->type == VALUE_BYTES ? s->bytes
                                                      : s->numbers;
    size_t n = v->type == VALUE_TEXT ? s->n_texts : v->type == VALUE_BYTES ? s->n_bytes : s->n_numbers;
    if (n && bsearch(v, in, n, sizeof *v, value_is_text(v->type) ? compare_texts : compare_numbers))
        return TRUE;
    return s->has_null || n < s->n_values ? UNKNOWN : FALSE;
}

/* --- LIKE and GLOB --- */

static void add_wildcard(struct predicate_like *l, uint16_t code)
{
    bool again = code == LIKE_RUN && l->n && l->codes[l->n - 1] == LIKE_RUN;
    if (!again)
        l->codes[l->n++] = code;
}

int predicate_like_create(struct arena *a, struct slice pattern, int escape,
                          const struct predicate_like **out)
{
    struct predicate_like *l = arena_alloc(a, sizeof *l + pattern.n * sizeof *l->codes);
    char *head = arena_alloc(a, pattern.n);
    if (!l || !head)
        return -ENOMEM;
    *l = (struct predicate_like){.head = {head, 0}};
    for (size_t i = 0; i < pattern.n; i++) {
        bool escaped = (unsigned char)pattern.p[i] == escape;
        i += escaped;
        if (i == pattern.n)
            return E_PROTO;
        char c = pattern.p[i];
        if (!escaped && (c == '_' || c == '%')) {
            add_wildcard(l, c == '_' ? LIKE_ONE : LIKE_RUN);
            continue;
        }
        if (l->head.n == l->n)
            head[l->head.n++] = c;
        l->codes[l->n++] = (unsigned char)slice_lower(c);
    }
    *out = l;
    return 0;
}

/* Past the character at i. In the middle of one: past its end, so that starting there is as good as before.
 */
static size_t next_character(struct slice s, size_t i)
{
    do
        i++;
    while (i < s.n && ((unsigned char)s.p[i] & 0xc0) == 0x80);
    return i;
}

/* As text_glob: only the last % is ever tried again, so never worse than pattern times text. */
static bool like_matches(const struct predicate_like *l, struct slice s)
{
    bool has_head = s.n >= l->head.n && slice_bytes_eq(s.p, l->head.p, l->head.n);
    size_t i = has_head ? l->head.n : 0, again_at = 0;
    const uint16_t *code = l->codes + i, *end = l->codes + l->n, *again = NULL;
    while (i < s.n) {
        if (code < end && *code == (unsigned char)slice_lower(s.p[i])) {
            code++;
            i++;
        } else if (code < end && *code == LIKE_RUN) {
            if (++code == end)
                return true;
            again = code;
            again_at = i;
        } else if (code < end && *code == LIKE_ONE) {
            code++;
            i = next_character(s, i);
        } else if (again) {
            code = again;
            i = ++again_at;
        } else {
            return false;
        }
    }
    return code == end || (*code == LIKE_RUN && code + 1 == end);
}

/* --- all operators --- */

static enum truth truth_not(enum truth t)
{
    return t == UNKNOWN ? UNKNOWN : t == TRUE ? FALSE : TRUE;
}

static enum truth truth_and(enum truth a, enum truth b)
{
    if (a == FALSE || b == FALSE)
        return FALSE;
    return a == TRUE && b == TRUE ? TRUE : UNKNOWN;
}

static enum truth between(const struct value *v, uint8_t columns)
{
    return truth_and(compare_mixed(ORDER_GREATER | ORDER_EQUAL, &v[0], &v[1], columns & 1, columns & 2),
                     compare_mixed(ORDER_LESS | ORDER_EQUAL, &v[0], &v[2], columns & 1, columns & 4));
}

unsigned predicate_operands(uint8_t op)
{
    if (op == OP_BETWEEN)
        return 3;
    return op == OP_NOT || op == OP_NEGATE || (op >= OP_COMPARE_CONST && op <= OP_IS_NULL) ? 1 : 2;
}

enum truth predicate_ask(const struct instr *in, const struct value *v)
{
    enum truth t;
    switch (in->op) {
    case OP_COMPARE_CONST:
        return predicate_compare_const(in, v);
    case OP_IN:
        t = set_has(in->set, v);
        break;
    case OP_LIKE:
        t = v->type != VALUE_TEXT ? UNKNOWN : like_matches(in->like, slice_of(v->p, v->n)) ? TRUE : FALSE;
        break;
    case OP_GLOB:
        t = v->type != VALUE_TEXT                                 ? UNKNOWN
            : text_glob(value_slice(in->k), slice_of(v->p, v->n)) ? TRUE
                                                                  : FALSE;
        break;
    default: /* OP_IS_NULL */
        t = v->type == VALUE_NONE ? TRUE : FALSE;
        break;
    }
    return in->arg ? truth_not(t) : t;
}

struct value predicate_apply(const struct instr *in, const struct value *v)
{
    static const struct value zero = {.i = 0, .type = VALUE_INT};
    enum truth t;
    switch (in->op) {
    case OP_COMPARE:
        t = compare_mixed(in->arg, &v[0], &v[1], in->want & 1, in->want & 2);
        break;
    case OP_BETWEEN:
        t = between(v, in->want);
        t = in->arg ? truth_not(t) : t;
        break;
    case OP_NOT:
        t = truth_not(predicate_truth(&v[0]));
        break;
    case OP_AND:
        t = truth_and(predicate_truth(&v[0]), predicate_truth(&v[1]));
        break;
    case OP_OR: /* NOT (NOT a AND NOT b) */
        t = truth_not(truth_and(truth_not(predicate_truth(&v[0])), truth_not(predicate_truth(&v[1]))));
        break;
    case OP_NEGATE:
        return predicate_arith(OP_SUBTRACT, &zero, &v[0]);
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_DIVIDE:
    case OP_REMAINDER:
        return predicate_arith(in->op, &v[0], &v[1]);
    default:
        t = predicate_ask(in, v);
        break;
    }
    return predicate_from_truth(t);
}
