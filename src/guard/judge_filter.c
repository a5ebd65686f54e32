/* SPDX-License-Identifier: Apache-2.0 */
/* judge_filter.c - which rows of a live table can be meant.
 *
 * xBestIndex writes the plan as a text: for each constraint that is used "COLUMN OP RHS ", with OP one of
 * = < l (<=) > g (>=) ! (<>) n (is not NULL) z (is NULL) i (IN), and RHS c for a constant of the text, e for
 * any other expression (a column of another table, a function). All but n and z have an argument.
 *
 * xFilter makes tests of these and keeps the rows that pass all of them. A test lets through every row that
 * SQLite would take, and SQLite looks again, so only what is certain is sorted out:
 *   - a missing value and NaN are NULL, for which no comparison is true;
 *   - a number against a number is compared by value. Affinity can't change that for a column of numbers; in
 * a column without a type it could if the other side were an expression of type TEXT with a number in it, so
 *     there only constants count;
 *   - text against text goes by bytes if the collation is BINARY and the other side is a constant, which has
 * no affinity. Of other expressions only = is used, and only with text that is no number: affinity could make
 *     both sides numbers, '1' and '1.0', but never texts that differ equal;
 *   - everything else is SQLite's.
 *
 * Rows are marked in a mask of bytes, a loop a test, by type of column; a host's rows are found by the index
 * and tested one by one. */
#include "guard/judge_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>

enum {
    TESTS_MAX = 24, /* of one scan; the rest is SQLite's */
    IN_MAX = 64     /* values of an IN; more are SQLite's */
};

/* The planner's guess of any live table: plans do not depend on when a rule was compiled. */
#define ROWS_GUESS      20000.0
#define HOST_ROWS_GUESS 4.0
#define SCAN_COST       0.02 /* of a row that is looked at and not given, in rows given */

struct test {
    int column;
    char op;
    bool has_int, has_float, has_text; /* cells of which types it can tell; the others pass */
    bool is_outside;                   /* ints: not within */
    int64_t low, high;                 /* ints: within, the ends included; none if low > high */
    double number;                     /* floats */
    struct slice text;
};

/* What the values of an IN are: a row passes if it passes one of them. */
struct in_list {
    struct test tests[IN_MAX];
    size_t n;
};

/* ---------------------------------------------------------------- planning */

enum column_class { CLASS_NUMBER, CLASS_TEXT, CLASS_ANY };

static const struct live_column *field_of(const struct judge_live *t, int column)
{
    uint32_t i = (uint32_t)(column - HEADS);
    return column >= HEADS && i < t->n_fields ? t->table->columns[i] : NULL;
}

static bool is_heard(const struct judge_live *t, int column)
{
    return column == HEADS + (int)t->n_fields;
}

static bool is_domain(const struct judge_live *t, int column)
{
    return column == HEADS + (int)t->n_fields + 1;
}

/* By affinity: see type_of in judge_table.c. */
static enum column_class class_of(const struct judge_live *t, int column)
{
    const uint8_t numbers = 1 << VALUE_INT | 1 << VALUE_UINT | 1 << VALUE_BOOL | 1 << VALUE_FLOAT;
    const struct live_column *c = field_of(t, column);
    if (!c)
        return column == HEAD_TIME || is_heard(t, column) ? CLASS_NUMBER : CLASS_TEXT;
    if (c->seen && !(c->seen & ~numbers))
        return CLASS_NUMBER;
    return c->seen == 1 << VALUE_TEXT ? CLASS_TEXT : CLASS_ANY;
}

static char op_of(unsigned char op)
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
        return '!';
    case SQLITE_INDEX_CONSTRAINT_ISNOTNULL:
        return 'n';
    case SQLITE_INDEX_CONSTRAINT_ISNULL:
        return 'z';
    default:
        return '\0';
    }
}

static bool is_binary(sqlite3_index_info *info, int i)
{
    return sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") == 0;
}

static bool is_constant(sqlite3_index_info *info, int i)
{
    sqlite3_value *v = NULL;
    return sqlite3_vtab_rhs_value(info, i, &v) == SQLITE_OK && v;
}

/* Does the constraint say something to us? */
static bool is_usable(const struct judge_live *t, sqlite3_index_info *info, int i, char op)
{
    int column = info->aConstraint[i].iColumn;
    if (!info->aConstraint[i].usable || column < 0 || !op)
        return false;
    if (op == 'n' || op == 'z')
        return true;
    bool is_in = op == '=' && sqlite3_vtab_in(info, i, -1);
    switch (class_of(t, column)) {
    case CLASS_NUMBER:
        return true;
    case CLASS_TEXT:
        return is_binary(info, i) && (op == '=' || is_constant(info, i));
    default:
        return !is_in && is_binary(info, i) && is_constant(info, i);
    }
}

static double share_of(int column, char op)
{
    if (column == HEAD_HOST && op == '=')
        return HOST_ROWS_GUESS / ROWS_GUESS;
    return op == '=' ? 0.05 : op == 'i' ? 0.1 : op == 'n' || op == '!' ? 0.9 : 0.2;
}

static int order_of(const struct judge_live *t, const sqlite3_index_info *info)
{
    if (info->nOrderBy != 1 || info->aOrderBy[0].desc)
        return 0;
    int column = info->aOrderBy[0].iColumn;
    return column == HEAD_HOST ? 1 + LIVE_BY_HOST : is_domain(t, column) ? 1 + LIVE_BY_DOMAIN : 0;
}

int judge_filter_plan(struct judge *j, const struct judge_live *t, sqlite3_index_info *info)
{
    struct strbuf plan = {0};
    double rows = ROWS_GUESS;
    int n_args = 0, n_tests = 0;
    bool by_host = false;
    for (int i = 0; i < info->nConstraint && n_tests < TESTS_MAX && !j->is_plain; i++) {
        int column = info->aConstraint[i].iColumn;
        char op = op_of(info->aConstraint[i].op);
        if (!is_usable(t, info, i, op))
            continue;
        bool is_fixed = op == 'n' || op == 'z' || is_constant(info, i);
        if (op == '=' && sqlite3_vtab_in(info, i, 1))
            op = 'i';
        if (op != 'n' && op != 'z')
            info->aConstraintUsage[i].argvIndex = ++n_args;
        strbuf_printf(&plan, "%d%c%c ", column, op, is_fixed ? 'c' : 'e');
        by_host |= column == HEAD_HOST && op == '=';
        rows *= share_of(column, op);
        n_tests++;
    }
    info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
    info->estimatedCost = 1 + (by_host ? HOST_ROWS_GUESS : ROWS_GUESS) * SCAN_COST + rows;
    info->idxNum = j->is_plain ? 0 : order_of(t, info);
    info->orderByConsumed = info->idxNum > 0;
    info->idxStr = strbuf_failed(&plan) ? NULL : sqlite3_mprintf("%s", plan.n ? plan.p : "");
    info->needToFreeIdxStr = 1;
    strbuf_fini(&plan);
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---------------------------------------------------------------- tests */

bool judge_may_be_number(struct slice text)
{
    unsigned dots = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        dots += c == '.';
        if (!c || (!strchr("+-.eE \t\n\v\f\r", c) && (c < '0' || c > '9')))
            return false;
    }
    return dots < 2; /* 10.0.0.1 is none */
}

/* No int at all passes. */
static void no_int(struct test *x)
{
    x->low = INT64_MAX;
    x->high = INT64_MIN;
}

static void set_int(struct test *x, int64_t v)
{
    x->has_int = true;
    x->low = INT64_MIN;
    x->high = INT64_MAX;
    x->is_outside = x->op == '!';
    switch (x->op) {
    case '<':
        if (v == INT64_MIN)
            no_int(x);
        else
            x->high = v - 1;
        break;
    case 'l':
        x->high = v;
        break;
    case '>':
        if (v == INT64_MAX)
            no_int(x);
        else
            x->low = v + 1;
        break;
    case 'g':
        x->low = v;
        break;
    default:
        x->low = x->high = v;
        break;
    }
    /* Beyond 2^53 not every int is a float: floats then are SQLite's. */
    x->has_float = v >= -(INT64_C(1) << 53) && v <= INT64_C(1) << 53;
    x->number = (double)v;
}

/* x < 1.5 is x <= 1 for an int, and so on. */
static void set_float(struct test *x, double v)
{
    double down = floor(v), up = ceil(v);
    if (v >= 0x1p63 || v < -0x1p63) {
        bool is_above = v > 0;
        set_int(x, 0);
        x->low = INT64_MIN;
        x->high = INT64_MAX;
        x->is_outside = false;
        if (x->op == '=' || (is_above ? x->op == '>' || x->op == 'g' : x->op == '<' || x->op == 'l'))
            no_int(x);
    } else if (x->op == '<' || x->op == 'g') {
        set_int(x, (int64_t)up); /* floats from 2^52 on are whole numbers: it is below 2^63, too */
    } else {
        set_int(x, (int64_t)down);
        if (down != v && (x->op == '=' || x->op == '!'))
            no_int(x);
    }
    x->has_float = true;
    x->number = v;
}

enum outcome { TEST_NOTHING, TEST_USED, TEST_NEVER };

/* TEST_NOTHING: all rows pass. */
static enum outcome set_test(const struct judge_live *t, struct test *x, bool is_fixed, sqlite3_value *v)
{
    switch (sqlite3_value_type(v)) {
    case SQLITE_NULL:
        return TEST_NEVER;
    case SQLITE_INTEGER:
        set_int(x, sqlite3_value_int64(v));
        return TEST_USED;
    case SQLITE_FLOAT:
        set_float(x, sqlite3_value_double(v));
        return TEST_USED;
    case SQLITE_TEXT:
        break;
    default:
        return TEST_NOTHING;
    }
    const char *p = (const char *)sqlite3_value_text(v);
    x->text = slice_of(p ? p : "", p ? (size_t)sqlite3_value_bytes(v) : 0);
    x->has_text = class_of(t, x->column) != CLASS_NUMBER && (is_fixed || !judge_may_be_number(x->text));
    return x->has_text ? TEST_USED : TEST_NOTHING;
}

static bool test_order(char op, int c)
{
    switch (op) {
    case '=':
        return c == 0;
    case '!':
        return c != 0;
    case '<':
        return c < 0;
    case 'l':
        return c <= 0;
    case '>':
        return c > 0;
    default:
        return c >= 0;
    }
}

static bool test_text(const struct test *x, struct slice text)
{
    if (x->op == '=' || x->op == '!')
        return slice_eq(text, x->text) == (x->op == '=');
    size_t n = text.n < x->text.n ? text.n : x->text.n;
    int c = n ? memcmp(text.p, x->text.p, n) : 0;
    return test_order(x->op, c ? c : (text.n > x->text.n) - (text.n < x->text.n));
}

static bool test_value(const struct test *x, struct value v)
{
    bool is_null = v.type == VALUE_NONE || (v.type == VALUE_FLOAT && isnan(v.f));
    if (x->op == 'z' || is_null)
        return is_null && x->op == 'z';
    if (x->op == 'n')
        return true;
    switch (v.type) {
    case VALUE_INT:
    case VALUE_UINT:
    case VALUE_BOOL:
        if (!x->has_int || (v.type == VALUE_UINT && v.u > INT64_MAX))
            return true;
        return (v.i >= x->low && v.i <= x->high) != x->is_outside;
    case VALUE_FLOAT:
        return !x->has_float || test_order(x->op, (v.f > x->number) - (v.f < x->number));
    case VALUE_TEXT:
        return !x->has_text || test_text(x, value_slice(v));
    default:
        return true;
    }
}

static struct value value_name(struct slice s)
{
    return s.n ? value_text(s) : value_none();
}

static struct value value_at(const struct judge_live *t, int column, uint32_t row)
{
    const struct live_table *table = t->table;
    switch (column) {
    case HEAD_TIME:
        return value_int(table->time_ns[row]);
    case HEAD_HOST:
        return value_name(table->hosts[row]->name);
    case HEAD_PROG:
        return value_name(table->rows[row]->prog);
    case HEAD_LEVEL:
        return value_name(level_lower(table->levels[row]));
    default:
        break;
    }
    const struct live_column *c = field_of(t, column);
    if (c)
        return live_cell(c, row);
    return is_heard(t, column) ? value_int(table->heard_ns[row]) : value_name(table->hosts[row]->domain);
}

/* ---------------------------------------------------------------- loops */

/* tags NULL: none is missing. */
static void mark_ints(const struct test *x, const int64_t *v, const uint8_t *tags, uint8_t *mask, uint32_t n)
{
    const int64_t low = x->low, high = x->high;
    const uint8_t outside = x->is_outside;
    for (uint32_t i = 0; i < n; i++)
        mask[i] &= (uint8_t)(((v[i] >= low) & (v[i] <= high)) ^ outside);
    for (uint32_t i = 0; tags && i < n; i++)
        mask[i] &= tags[i] != VALUE_NONE;
}

/* Comparisons with NaN are false, as with NULL; <> is written so that they are, too. */
#define MARK(condition)                \
    for (uint32_t i = 0; i < n; i++) { \
        double f = v[i].f;             \
        mask[i] &= (condition);        \
    }                                  \
    break

static void mark_floats(const struct test *x, const union live_bits *v, const uint8_t *tags, uint8_t *mask,
                        uint32_t n)
{
    const double c = x->number;
    switch (x->op) {
    case '<':
        MARK(f < c);
    case 'l':
        MARK(f <= c);
    case '>':
        MARK(f > c);
    case 'g':
        MARK(f >= c);
    case '!':
        MARK((f < c) | (f > c));
    default:
        MARK(f == c);
    }
    for (uint32_t i = 0; i < n; i++)
        mask[i] &= tags[i] != VALUE_NONE;
}

static void mark_any(const struct judge_live *t, const struct test *x, uint8_t *mask, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (mask[i])
            mask[i] = test_value(x, value_at(t, x->column, i));
}

static void mark(const struct judge_live *t, const struct test *x, uint8_t *mask)
{
    const uint8_t ints = 1 << VALUE_INT | 1 << VALUE_UINT | 1 << VALUE_BOOL;
    const struct live_table *table = t->table;
    const struct live_column *c = field_of(t, x->column);
    bool is_compared = x->op != 'n' && x->op != 'z';
    if (is_compared && x->has_int && x->column == HEAD_TIME)
        mark_ints(x, table->time_ns, NULL, mask, table->n);
    else if (is_compared && x->has_int && is_heard(t, x->column))
        mark_ints(x, table->heard_ns, NULL, mask, table->n);
    else if (is_compared && c && x->has_int && !(c->seen & ~ints))
        mark_ints(x, &c->bits->i, c->tags, mask, table->n);
    else if (is_compared && c && x->has_float && c->seen == 1 << VALUE_FLOAT)
        mark_floats(x, c->bits, c->tags, mask, table->n);
    else
        mark_any(t, x, mask, table->n);
}

static bool test_in(const struct in_list *in, struct value v)
{
    for (size_t i = 0; i < in->n; i++)
        if (test_value(&in->tests[i], v))
            return true;
    return false;
}

/* ---------------------------------------------------------------- the filter of one scan */

struct filter {
    struct judge *judge;
    const struct judge_live *live;
    struct test tests[TESTS_MAX];
    size_t n;
    bool is_never;   /* no row can pass */
    bool is_by_host; /* rows of one host alone: */
    struct slice host;
};

/* A list of values: those of types that we can't tell make it nothing. */
static enum outcome read_in(const struct judge_live *t, int column, sqlite3_value *list, struct in_list *in)
{
    sqlite3_value *v = NULL;
    int code = sqlite3_vtab_in_first(list, &v);
    in->n = 0;
    for (; code == SQLITE_OK && v; code = sqlite3_vtab_in_next(list, &v)) {
        if (in->n == IN_MAX)
            return TEST_NOTHING;
        struct test *x = &in->tests[in->n];
        *x = (struct test){.column = column, .op = '='};
        enum outcome is = set_test(t, x, false, v);
        if (is == TEST_NOTHING || (x->has_int && class_of(t, column) != CLASS_NUMBER))
            return TEST_NOTHING;
        if (x->has_text) { /* what it points at may move with the next */
            char *copy = sqlite3_malloc64(x->text.n + 1);
            if (!copy)
                return TEST_NOTHING;
            memcpy(copy, x->text.p, x->text.n);
            x->text.p = copy;
        }
        in->n += is == TEST_USED;
    }
    return code == SQLITE_DONE || code == SQLITE_OK ? TEST_USED : TEST_NOTHING;
}

static void mark_in(const struct judge_live *t, int column, sqlite3_value *list, uint8_t *mask)
{
    struct in_list in;
    enum outcome is = read_in(t, column, list, &in);
    for (uint32_t i = 0; is == TEST_USED && i < t->table->n; i++)
        if (mask[i])
            mask[i] = test_in(&in, value_at(t, column, i));
    for (size_t i = 0; i < in.n; i++)
        if (in.tests[i].has_text)
            sqlite3_free((void *)in.tests[i].text.p);
}

/* The next constraint of the plan; false: there is none. It was written by judge_filter_plan. */
static bool next_part(const char **plan, int *column, char *op, char *rhs)
{
    const char *p = *plan;
    if (!*p)
        return false;
    for (*column = 0; *p >= '0' && *p <= '9'; p++)
        *column = *column * 10 + (*p - '0');
    *op = p[0];
    *rhs = p[1];
    *plan = p + 3;
    return true;
}

static void read_plan(struct filter *f, const char *plan, sqlite3_value **argv)
{
    char op, rhs;
    for (int column, arg = 0; next_part(&plan, &column, &op, &rhs);) {
        struct test *x = &f->tests[f->n];
        *x = (struct test){.column = column, .op = op};
        if (op == 'i') {
            arg++;
            continue;
        }
        enum outcome is = op == 'n' || op == 'z' ? TEST_USED : set_test(f->live, x, rhs == 'c', argv[arg++]);
        f->is_never |= is == TEST_NEVER;
        if (is != TEST_USED)
            continue;
        if (column == HEAD_HOST && op == '=' && x->has_text && !f->is_by_host) {
            f->is_by_host = true;
            f->host = x->text;
        } else {
            f->n++;
        }
    }
}

static void mark_lists(const struct filter *f, const char *plan, sqlite3_value **argv, uint8_t *mask)
{
    char op, rhs;
    for (int column, arg = 0; next_part(&plan, &column, &op, &rhs);) {
        if (op == 'i')
            mark_in(f->live, column, argv[arg], mask);
        arg += op != 'n' && op != 'z';
    }
}

static bool need_room(struct judge_scratch *s, uint32_t n)
{
    if (n <= s->cap)
        return true;
    uint32_t cap = n + n / 4 + 64;
    mem_free(s->rows);
    mem_free(s->mask);
    s->rows = mem_try_alloc(cap * sizeof *s->rows);
    s->mask = mem_try_alloc(cap);
    s->cap = s->rows && s->mask ? cap : 0;
    return s->cap;
}

static uint32_t list_host(const struct filter *f, const struct live_host *h, uint32_t *out)
{
    const struct live_table *t = f->live->table;
    uint32_t n = 0;
    for (uint32_t row = h->first; row != LIVE_NO_ROW; row = t->next[row]) {
        bool is_good = t->heard_ns[row] >= f->judge->since_ns;
        for (size_t i = 0; is_good && i < f->n; i++)
            is_good = test_value(&f->tests[i], value_at(f->live, f->tests[i].column, row));
        if (is_good)
            out[n++] = row;
    }
    return n;
}

static void mark_all(const struct filter *f, uint8_t *mask)
{
    const struct live_table *t = f->live->table;
    const int64_t since = f->judge->since_ns;
    const int64_t *heard = t->heard_ns;
    for (uint32_t i = 0; i < t->n; i++)
        mask[i] = heard[i] >= since;
    for (size_t i = 0; i < f->n; i++)
        mark(f->live, &f->tests[i], mask);
}

/* As rows come; eight that are out at a time, as most are. */
static uint32_t list_marked(const uint8_t *mask, uint32_t n, uint32_t *out)
{
    uint32_t found = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t eight;
        memcpy(&eight, mask + i, 8);
        for (uint32_t k = i; eight && k < i + 8; k++) {
            out[found] = k;
            found += mask[k];
        }
    }
    for (; i < n; i++)
        if (mask[i])
            out[found++] = i;
    return found;
}

static uint32_t list_ordered(const uint8_t *mask, const uint32_t *order, uint32_t n, uint32_t *out)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        out[found] = order[i];
        found += mask[order[i]];
    }
    return found;
}

int64_t judge_filter_run(struct judge *j, const struct judge_live *t, int order, const char *plan, int argc,
                         sqlite3_value **argv, struct judge_scratch *s)
{
    struct filter f; /* its tests are set one by one */
    struct live_table *table = t->table;
    (void)argc; /* the plan says */
    f.judge = j;
    f.live = t;
    f.n = 0;
    f.is_never = f.is_by_host = false;
    if (!table || table->n == 0)
        return 0;
    read_plan(&f, plan, argv);
    const struct live_host *h = f.is_by_host ? map_get(&table->by_host, f.host) : NULL;
    if (f.is_never || (f.is_by_host && !h))
        return 0;
    if (!need_room(s, f.is_by_host ? h->n : table->n))
        return -ENOMEM;
    if (f.is_by_host && !strchr(plan, 'i'))
        return list_host(&f, h, s->rows);
    const uint32_t *rows = order ? live_order(table, (enum live_by)(order - 1)) : NULL;
    if ((order && !rows) || !need_room(s, table->n))
        return -ENOMEM;
    mark_all(&f, s->mask);
    mark_lists(&f, plan, argv, s->mask);
    return order ? list_ordered(s->mask, rows, table->n, s->rows) : list_marked(s->mask, table->n, s->rows);
}
