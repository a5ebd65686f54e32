/* SPDX-License-Identifier: Apache-2.0 */
/* sql_filter.c - see sql_filter.h.
 *
 * What xBestIndex decides goes to xFilter as a text: the columns that are used, in hex, then for each
 * constraint " COLUMN OP" with OP one of = < > l (<=) g (>=) with a value each, i (IN: all values at once)
 * and n (is not NULL, without a value).
 *
 * Comparisons are those of SQLite with the columns' affinities, so values are used only as far as that is
 * certain. A numeric column compares with what looks like a number, exactly; where the types differ we round,
 * and since rounding keeps order, x < y never becomes x > y: so ends are included. Text compares with text
 * that is given as such, by bytes, and only by = and IN. */
#include "archive/sql_filter.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Rows of a table of which nothing is known; what a scan costs before its first row, in rows. */
#define ROWS_GUESS 1e7
#define OPEN_COST  2000.0

/* ---------------------------------------------------------------- planning */

enum test_as { TEST_AS_NUMBER, TEST_AS_TEXT, TEST_AS_OTHER };

static enum test_as test_as(const struct sql_shape *s, int column)
{
    if (column == SQL_TIME)
        return TEST_AS_NUMBER;
    if (column == SQL_HOST || column == SQL_PROG || column == SQL_LEVEL)
        return TEST_AS_TEXT;
    if (column < SQL_HEADS || column >= SQL_HEADS + (int)s->n_fields)
        return TEST_AS_OTHER;
    uint8_t type = s->fields[column - SQL_HEADS].type;
    return type == VALUE_TEXT ? TEST_AS_TEXT : type == VALUE_BYTES ? TEST_AS_OTHER : TEST_AS_NUMBER;
}

static char op_letter(unsigned char op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return '=';
    case SQLITE_INDEX_CONSTRAINT_LT:
        return '<';
    case SQLITE_INDEX_CONSTRAINT_LE:
        return 'l';
    case SQLITE_INDEX_CONSTRAINT_GT:
        return '>';
    case SQLITE_INDEX_CONSTRAINT_GE:
        return 'g';
    case SQLITE_INDEX_CONSTRAINT_NE:
    case SQLITE_INDEX_CONSTRAINT_LIKE:
    case SQLITE_INDEX_CONSTRAINT_GLOB:
    case SQLITE_INDEX_CONSTRAINT_ISNOTNULL:
        return 'n';
    default:
        return '\0';
    }
}

/* What the constraint is to us: a letter, or '\0' for nothing. */
static char letter_of(const struct sql_shape *s, sqlite3_index_info *info, int i)
{
    int column = info->aConstraint[i].iColumn;
    char letter = op_letter(info->aConstraint[i].op);
    if (!info->aConstraint[i].usable || column < 0 || column >= SQL_HEADS + (int)s->n_fields || !letter ||
        (column >= SQL_HEADS && s->fields[column - SQL_HEADS].is_companion)) /* summaries do not know these */
        return '\0';
    enum test_as as = test_as(s, column);
    if (letter == 'n' || as == TEST_AS_OTHER)
        return 'n';
    if (as == TEST_AS_NUMBER)
        return letter;
    /* Another collation has other equals. */
    return letter == '=' && sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") == 0 ? '=' : 'n';
}

/* How much of the table is left, by guess. */
static double share_of(const struct sql_shape *s, int column, char letter)
{
    if (letter == 'n')
        return 0.9;
    if (column == SQL_TIME)
        return letter == '=' ? 1e-5 : letter == 'i' ? 1e-4 : 0.2;
    if (letter != '=' && letter != 'i')
        return 0.4;
    double share = column == SQL_HOST                                                      ? 0.02
                   : column >= SQL_HEADS && s->fields[column - SQL_HEADS].role == ROLE_KEY ? 0.05
                   : test_as(s, column) == TEST_AS_TEXT && column >= SQL_HEADS              ? 0.001
                                                                                           : 0.1;
    return letter == 'i' ? share * 4 : share;
}

/* `time > '2026-11-15'` would compare a number with text, and be false for all rows: a trap, so it is refused
 * where the text is in the query itself. */
static int check_time(struct sql_context *c, sqlite3_index_info *info, int i)
{
    sqlite3_value *v = NULL;
    if (info->aConstraint[i].iColumn != SQL_TIME || sqlite3_vtab_rhs_value(info, i, &v) != SQLITE_OK || !v ||
        sqlite3_value_type(v) != SQLITE_TEXT || sqlite3_value_numeric_type(v) != SQLITE_TEXT)
        return SQLITE_OK;
    return sql_fail_text(c, E_PROTO, "time is a number of nanoseconds; write at('%.40s') for that time",
                         (const char *)sqlite3_value_text(v));
}

int sql_filter_plan(struct sql_context *c, const struct sql_shape *s, sqlite3_index_info *info)
{
    struct strbuf plan = {0};
    int r = sql_check(c), n_args = 0;
    double rows = ROWS_GUESS;
    if (r < 0)
        return sql_fail(c, r);
    strbuf_printf(&plan, "%" PRIx64, (uint64_t)info->colUsed);
    for (int i = 0; i < info->nConstraint; i++) {
        int column = info->aConstraint[i].iColumn;
        char letter = letter_of(s, info, i);
        if (!letter)
            continue;
        r = check_time(c, info, i);
        if (r != SQLITE_OK)
            goto out;
        if (letter == '=' && sqlite3_vtab_in(info, i, 1))
            letter = 'i';
        if (letter != 'n')
            info->aConstraintUsage[i].argvIndex = ++n_args;
        strbuf_printf(&plan, " %d%c", column, letter);
        rows *= share_of(s, column, letter);
    }
    rows = rows < 1 ? 1 : rows;
    info->estimatedRows = (sqlite3_int64)rows;
    info->estimatedCost = OPEN_COST + rows;
    info->idxStr = strbuf_failed(&plan) ? NULL : sqlite3_mprintf("%s", plan.p);
    info->needToFreeIdxStr = 1;
    r = info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
out:
    strbuf_fini(&plan);
    return r;
}

/* ---------------------------------------------------------------- values of a query */

static void add_int(struct sql_test *t, char letter, int64_t v)
{
    if (letter == '>')
        t->least = v < INT64_MAX ? v + 1 : v; /* above the largest there is nothing: SQLite says so */
    else if (letter == 'g' || letter == '=')
        t->least = v;
    if (letter == '<')
        t->most = v > INT64_MIN ? v - 1 : v;
    else if (letter == 'l' || letter == '=')
        t->most = v;
}

static void add_float(struct sql_test *t, char letter, double v)
{
    if (letter == '>' || letter == 'g' || letter == '=')
        t->low = v;
    if (letter == '<' || letter == 'l' || letter == '=')
        t->high = v;
}

static bool is_float_column(const struct sql_filter *f, int column)
{
    return column >= SQL_HEADS && f->shape->fields[column - SQL_HEADS].type == VALUE_FLOAT;
}

/* A value that is compared with a number. */
static void set_range(struct sql_filter *f, struct sql_test *t, char letter, sqlite3_value *v)
{
    switch (sqlite3_value_numeric_type(v)) {
    case SQLITE_INTEGER:
        if (is_float_column(f, t->column))
            add_float(t, letter, (double)sqlite3_value_int64(v));
        else
            add_int(t, letter, sqlite3_value_int64(v));
        break;
    case SQLITE_FLOAT:
        add_float(t, letter, sqlite3_value_double(v));
        break;
    case SQLITE_NULL:
        f->is_never = true;
        break;
    default:
        break; /* text and bytes come after all numbers: SQLite knows what that means */
    }
}

static int add_text(struct sql_filter *f, struct sql_test *t, sqlite3_value *v)
{
    struct slice copy =
        arena_copy(&f->arena, slice_of((const char *)sqlite3_value_text(v), (size_t)sqlite3_value_bytes(v)));
    if (!copy.p)
        return -ENOMEM;
    t->texts[t->n_texts++] = copy;
    return 0;
}

static int set_text(struct sql_filter *f, struct sql_test *t, sqlite3_value *v)
{
    int type = sqlite3_value_type(v);
    t->kind = type == SQLITE_TEXT ? TEST_TEXTS : TEST_HAS;
    f->is_never |= type == SQLITE_NULL;
    if (type != SQLITE_TEXT)
        return 0;
    t->texts = arena_alloc(&f->arena, sizeof *t->texts);
    return t->texts ? add_text(f, t, v) : -ENOMEM;
}

static int compare_texts(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->n ? memcmp(x->p, y->p, x->n) : 0;
}

/* IN: the texts of the list, sorted; without meaning (HAS) where one is of another type, but for NULL, which
 * is equal to nothing. */
static int set_texts_in(struct sql_filter *f, struct sql_test *t, sqlite3_value *list)
{
    sqlite3_value *v = NULL;
    size_t n = 0;
    for (int r = sqlite3_vtab_in_first(list, &v); r == SQLITE_OK && v; r = sqlite3_vtab_in_next(list, &v)) {
        int type = sqlite3_value_type(v);
        if (type != SQLITE_TEXT && type != SQLITE_NULL)
            return 0;
        n++;
    }
    t->texts = arena_alloc(&f->arena, (n + 1) * sizeof *t->texts);
    if (!t->texts)
        return -ENOMEM;
    for (int r = sqlite3_vtab_in_first(list, &v); r == SQLITE_OK && v && t->n_texts < n;
         r = sqlite3_vtab_in_next(list, &v))
        if (sqlite3_value_type(v) == SQLITE_TEXT && add_text(f, t, v) < 0)
            return -ENOMEM;
    qsort(t->texts, t->n_texts, sizeof *t->texts, compare_texts);
    t->kind = TEST_TEXTS;
    f->is_never |= t->n_texts == 0;
    return 0;
}

/* IN: from the least to the greatest of the list. */
static void set_range_in(struct sql_filter *f, struct sql_test *t, sqlite3_value *list)
{
    sqlite3_value *v = NULL;
    struct sql_test all = *t, one = *t;
    bool is_first = true;
    for (int r = sqlite3_vtab_in_first(list, &v); r == SQLITE_OK && v; r = sqlite3_vtab_in_next(list, &v)) {
        if (sqlite3_value_type(v) == SQLITE_NULL)
            continue;
        one = *t;
        set_range(f, &one, '=', v);
        if (is_first)
            all = one;
        all.least = one.least < all.least ? one.least : all.least;
        all.most = one.most > all.most ? one.most : all.most;
        all.low = one.low < all.low ? one.low : all.low;
        all.high = one.high > all.high ? one.high : all.high;
        is_first = false;
    }
    f->is_never |= is_first;
    *t = all;
}

static int set_test(struct sql_filter *f, struct sql_test *t, char letter, sqlite3_value *v)
{
    bool is_number = test_as(f->shape, t->column) == TEST_AS_NUMBER;
    t->least = INT64_MIN;
    t->most = INT64_MAX;
    t->low = -INFINITY;
    t->high = INFINITY;
    if (letter == 'n')
        return 0;
    if (!is_number)
        return letter == 'i' ? set_texts_in(f, t, v) : set_text(f, t, v);
    t->kind = TEST_RANGE;
    if (letter == 'i')
        set_range_in(f, t, v);
    else
        set_range(f, t, letter, v);
    return 0;
}

/* The whole number at or below v, as far as there is one. */
static int64_t whole_of(double v)
{
    if (v >= 0x1p63)
        return INT64_MAX;
    return v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static void set_time(struct sql_filter *f, const struct sql_test *t)
{
    /* One more to either side for what is cut. */
    int64_t low = whole_of(floor(t->low)), high = whole_of(ceil(t->high));
    int64_t from = t->least > low ? t->least : low, to = t->most < high ? t->most : high;
    f->from_ns = from > f->from_ns ? from : f->from_ns;
    f->to_ns = to < f->to_ns ? to : f->to_ns;
}

enum { USED_BITS = 63 }; /* of SQLite's 64: the last is for all columns from here on */

/* Of columns that have no bit of their own, those that the text names, or could mean by a *: too many only
 * cost time. The same at every xFilter of a cursor. */
static void set_used(struct sql_filter *f, uint64_t bits)
{
    static const char *const hidden[] = {"producer", "epoch", "seq", "clock_offset", "clock_bound", "nan"};
    uint32_t first_hidden = SQL_HEADS + f->shape->n_fields;
    if (f->is_used_known)
        return;
    f->is_used_known = true;
    for (uint32_t i = 0; i < first_hidden + SQL_PLACE; i++) {
        const char *name = i < SQL_HEADS      ? ""
                           : i < first_hidden ? f->shape->fields[i - SQL_HEADS].name
                                              : hidden[i - first_hidden];
        f->used[i] = i < USED_BITS ? bits >> i & 1 : bits >> USED_BITS && sql_text_names(f->context, name);
    }
}

int sql_filter_init(struct sql_filter *f, struct sql_context *c, const struct sql_shape *s)
{
    *f = (struct sql_filter){.context = c, .shape = s};
    f->used = mem_try_alloc(SQL_HEADS + s->n_fields + SQL_PLACE);
    return f->used ? 0 : -ENOMEM;
}

static size_t count_tests(const char *plan)
{
    size_t n = 0;
    for (; *plan; plan++)
        n += *plan == ' ';
    return n;
}

int sql_filter_set(struct sql_filter *f, const char *plan, int argc, sqlite3_value **argv)
{
    char *at = NULL;
    int arg = 0;
    arena_reset(&f->arena);
    set_used(f, strtoull(plan, &at, 16));
    f->n = count_tests(plan);
    f->is_never = false;
    f->from_ns = INT64_MIN;
    f->to_ns = f->context->until_ns;
    f->tests = arena_alloc(&f->arena, (f->n + 1) * sizeof *f->tests);
    if (!f->tests)
        return -ENOMEM;
    for (size_t i = 0; i < f->n; i++) {
        struct sql_test *t = &f->tests[i];
        *t = (struct sql_test){.column = (int)strtol(at, &at, 10)};
        char letter = *at++;
        if (letter != 'n' && arg == argc)
            return E_PROTO; /* SQLite gives what the plan has asked for */
        int r = set_test(f, t, letter, letter == 'n' ? NULL : argv[arg++]);
        if (r < 0)
            return r;
        if (t->column == SQL_TIME && t->kind == TEST_RANGE)
            set_time(f, t);
    }
    f->is_never |= f->from_ns > f->to_ns;
    return 0;
}

void sql_filter_fini(struct sql_filter *f)
{
    mem_free(f->used);
    arena_fini(&f->arena);
}

void sql_filter_forget_rows(struct sql_filter *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct sql_test *t = &f->tests[i];
        bool is_key = t->column >= SQL_HEADS && f->shape->fields[t->column - SQL_HEADS].role == ROLE_KEY;
        if (t->column == SQL_HOST || t->column == SQL_PROG || is_key)
            f->tests[n++] = *t;
    }
    f->n = n;
    f->from_ns = INT64_MIN;
    f->to_ns = INT64_MAX;
}

/* ---------------------------------------------------------------- testing */

bool sql_test_text(const struct sql_test *t, struct slice text)
{
    return bsearch(&text, t->texts, t->n_texts, sizeof *t->texts, compare_texts);
}

static bool is_int_within(const struct sql_test *t, int64_t v)
{
    return (v >= t->least) & (v <= t->most) & ((double)v >= t->low) & ((double)v <= t->high);
}

/* Above the integers of SQLite's only the largest end lets through. */
static bool is_uint_within(const struct sql_test *t, uint64_t v)
{
    bool is_int = v <= INT64_MAX, is_above = t->most == INT64_MAX;
    bool is_whole = ((int64_t)v >= t->least) & ((int64_t)v <= t->most);
    return ((is_int & is_whole) | (!is_int & is_above)) & ((double)v >= t->low) & ((double)v <= t->high);
}

static bool is_float_within(const struct sql_test *t, double v)
{
    return (v >= t->low) & (v <= t->high);
}

static bool passes(const struct sql_test *t, struct value v)
{
    if (v.type == VALUE_NONE)
        return false;
    if (t->kind == TEST_TEXTS)
        return v.type != VALUE_TEXT || sql_test_text(t, value_slice(v));
    if (t->kind == TEST_HAS || value_is_text(v.type))
        return true;
    return v.type == VALUE_FLOAT ? is_float_within(t, v.f)
           : v.type == VALUE_INT ? is_int_within(t, v.i)
                                 : is_uint_within(t, v.u);
}

int sql_chunk_column(const struct blob_chunk *chunk, uint16_t id)
{
    uint32_t from = 0, to = chunk->n_columns;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (chunk->ids[middle] < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from < chunk->n_columns && chunk->ids[from] == id ? (int)from : -1;
}

/* A number with the type that the column has in all rows. */
static struct value as_column(const struct sql_field *f, struct value v)
{
    if (f->class != CLASS_NUMBER || f->type != VALUE_FLOAT)
        return v;
    return v.type == VALUE_INT                           ? value_float((double)v.i)
           : v.type == VALUE_UINT || v.type == VALUE_BOOL ? value_float((double)v.u)
                                                          : v;
}

struct value sql_key_value(struct slice fields, const struct sql_field *f, char buf[VALUE_SPELLING_MAX])
{
    struct slice name;
    struct value v;
    while (stream_key_next(&fields, &name, &v))
        if (slice_eq(name, f->field) && (f->class != CLASS_UNKNOWN || v.type == f->type))
            return as_column(f, class_value(f->class, v, buf));
    return value_none();
}

static bool is_field(const struct sql_test *t)
{
    return t->column >= SQL_HEADS;
}

bool sql_filter_stream(const struct sql_filter *f, const struct stream_key_parts *parts)
{
    if (!sql_may_stream(f->context, f->shape->event, parts->host))
        return false;
    for (size_t i = 0; i < f->n; i++) {
        const struct sql_test *t = &f->tests[i];
        bool is_origin = t->column == SQL_HOST || t->column == SQL_PROG;
        struct slice origin = t->column == SQL_HOST ? parts->host : parts->prog;
        if (is_origin && (origin.n == 0 || (t->kind == TEST_TEXTS && !sql_test_text(t, origin))))
            return false;
        if (!is_field(t))
            continue;
        const struct sql_field *field = &f->shape->fields[t->column - SQL_HEADS];
        char buf[VALUE_SPELLING_MAX];
        struct value v = sql_key_value(parts->fields, field, buf);
        if (v.type != VALUE_NONE &&
            (!passes(t, v) || !sql_may_field(f->context, f->shape->event, parts->host, field->field)))
            return false;
    }
    return true;
}

/* Could a row pass, by what is known of the column? */
static bool may_pass(const struct sql_test *t, const struct column_summary *s)
{
    if (s->count == s->nans)
        return false;
    if (t->kind != TEST_RANGE || s->min.type == VALUE_NONE || s->max.type == VALUE_NONE)
        return true;
    /* Of an interval that has one end on each side of the range, and no value in it, nothing is known. */
    struct sql_test below = *t, above = *t;
    below.most = INT64_MAX;
    below.high = INFINITY;
    above.least = INT64_MIN;
    above.low = -INFINITY;
    return passes(&below, s->max) && passes(&above, s->min);
}

bool sql_filter_chunk(const struct sql_filter *f, const struct blob_chunk *chunk)
{
    struct stream_key_parts parts = stream_key_split(chunk->key);
    for (size_t i = 0; i < f->n; i++) {
        const struct sql_test *t = &f->tests[i];
        if (!is_field(t))
            continue;
        const struct sql_field *field = &f->shape->fields[t->column - SQL_HEADS];
        char buf[VALUE_SPELLING_MAX];
        if (sql_key_value(parts.fields, field, buf).type != VALUE_NONE)
            continue; /* the stream has passed */
        int at = sql_chunk_column(chunk, field->id);
        if (at < 0 || !may_pass(t, &chunk->summaries[at]) ||
            !sql_may_field(f->context, f->shape->event, parts.host, field->field))
            return false;
    }
    return true;
}

bool sql_test_is_sure(const struct sql_test *t, const struct column_summary *s, uint32_t n_rows)
{
    if (s->count != n_rows || s->nans || t->kind == TEST_TEXTS)
        return false;
    if (t->kind == TEST_HAS)
        return true;
    return s->min.type != VALUE_NONE && passes(t, s->min) && passes(t, s->max);
}

/* One loop a type, with nothing in it but the comparison where every row has a value, so that the compiler
 * makes vectors of it. */
#define KEEP_WITHIN(member, within)                          \
    do {                                                     \
        for (uint32_t i = 0; !c->present && i < n_rows; i++) \
            keep[i] &= within(t, c->member[i]);              \
        for (uint32_t i = 0; c->present && i < n_rows; i++)  \
            keep[i] = keep[i] && within(t, c->member[i]);    \
    } while (0)

void sql_test_rows(const struct sql_test *t, const struct column *c, uint32_t n_rows, bool *keep)
{
    for (uint32_t i = 0; c->present && i < n_rows; i++)
        keep[i] &= column_has(c, i);
    if (t->kind == TEST_TEXTS && c->type == VALUE_TEXT) {
        for (uint32_t i = 0; i < n_rows; i++)
            keep[i] = keep[i] && sql_test_text(t, value_slice(column_value(c, i)));
    } else if (t->kind == TEST_RANGE && c->type == VALUE_FLOAT) {
        KEEP_WITHIN(f, is_float_within);
    } else if (t->kind == TEST_RANGE && c->type == VALUE_INT) {
        KEEP_WITHIN(i, is_int_within);
    } else if (t->kind == TEST_RANGE && !value_is_text(c->type)) {
        KEEP_WITHIN(u, is_uint_within);
    } else if (t->kind == TEST_HAS && c->type == VALUE_FLOAT) {
        for (uint32_t i = 0; i < n_rows; i++)
            keep[i] = keep[i] && !isnan(c->f[i]);
    }
}
