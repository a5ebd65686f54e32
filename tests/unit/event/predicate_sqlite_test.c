/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates against SQLite: random expressions over random rows pass the same rows in both, and so do their
 * negations, which tells false from NULL. Only what is meant to be the same is generated; docs/predicate.md
 * lists the differences. Left out here for that reason:
 *   - number columns compared with text that is no number, text as a condition, LIKE and GLOB on numbers;
 *   - integers beyond int64, NaN; `%` on floats beyond int64 (SQLite clamps them);
 *   - GLOB with `\`, `[!…]`, an unclosed `[`, or on text that is not ASCII (`?` is a byte here). */
#include "unit/test.h"

#include "base/num.h"
#include "base/strbuf.h"
#include "event/predicate.h"
#include "unit/event/classes.h"

#include <inttypes.h>
#include <sqlite3.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { ROWS = 64 };

/* a, b: small integers; h: small float; i, j: any integer; f, g: any float; s: UTF-8; t: ASCII.
 * With a class: m: numbers, spelt in many ways, among text; x: text, and numbers; n: numbers as text. */
static const char *const columns[] = {"a", "b", "i", "j", "h", "f", "g", "s", "t", "m", "x", "n"};
enum { COLUMNS = COUNT(columns) };

/* Mixed types under one name are what learned schemas have: a column is a field of each type seen. */
enum { TYPES = 4 };
static const uint8_t types[TYPES] = {VALUE_INT, VALUE_FLOAT, VALUE_TEXT, VALUE_NUMBER};
static struct test_classes classes = {.fields = {{"m", CLASS_NUMBER}, {"x", CLASS_TEXT}, {"n", CLASS_TEXT}}};

struct world {
    uint64_t seed;
    sqlite3 *db;
    struct schema *schema;
    struct value values[ROWS][COLUMNS * TYPES];
    struct event rows[ROWS];
};

static size_t below(struct world *w, size_t n)
{
    return test_random(&w->seed) % n;
}

static struct value random_integer(struct world *w)
{
    static const int64_t pool[] = {0,
                                   1,
                                   -1,
                                   2,
                                   -2,
                                   7,
                                   100,
                                   -1000,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MAX - 1,
                                   INT64_MIN + 1,
                                   1LL << 53,
                                   (1LL << 53) + 1,
                                   -(1LL << 53) - 1,
                                   3037000500,
                                   4611686018427387904};
    return value_int(pool[below(w, COUNT(pool))]);
}

static struct value random_float(struct world *w)
{
    static const double pool[] = {0.0,    0.5,      -0.5,      1.0,    -1.0,   2.0,    2.5,
                                  0.1,    1e18,     -1e18,     1e19,   -1e19,  1e300,  -1e300,
                                  1e-300, INFINITY, -INFINITY, 0x1p53, 0x1p63, -0x1p63};
    return value_float(pool[below(w, COUNT(pool))]);
}

static struct value random_text(struct world *w, bool ascii)
{
    static const char *const pool[] = {"",       "a",        "b",         "A",         "abc",         "ABC",
                                       "abcabc", "a%c",      "a_c",       "x.y",       "aab",         "ba]",
                                       "a*",     "\xc3\xa9", "a\xc3\xa9", "\303\251b", "\xe2\x82\xac"};
    return value_text(slice_str(pool[below(w, ascii ? 13 : COUNT(pool))]));
}

/* As an untyped source has it: numbers in their spellings, and text. */
static struct value random_written(struct world *w, char column)
{
    static const char *const pool[] = {"17", "0.50", ".50", "+0.25", "1e-05", "1.1", "1.10", "-3", "0", "17.0",
                                       "-", "ok", "080", "0x1F", "95%"};
    return value_untyped(slice_str(pool[below(w, column == 'n' ? 10 : COUNT(pool))]));
}

static struct value random_value(struct world *w, char column)
{
    if (below(w, 6) == 0)
        return value_none();
    switch (column) {
    case 'a':
    case 'b':
        return value_int((int64_t)below(w, 21) - 10);
    case 'h':
        return value_float(((double)below(w, 41) - 20) / 4);
    case 'i':
    case 'j':
        return random_integer(w);
    case 'f': /* a column of two types */
        return below(w, 4) ? random_float(w) : random_integer(w);
    case 'g':
        return random_float(w);
    case 'm':
    case 'x':
    case 'n':
        return random_written(w, column);
    default:
        return random_text(w, column == 't');
    }
}

static void bind(sqlite3_stmt *q, int at, struct value v)
{
    if (v.type == VALUE_INT)
        assert_int_equal(sqlite3_bind_int64(q, at, v.i), SQLITE_OK);
    else if (v.type == VALUE_FLOAT)
        assert_int_equal(sqlite3_bind_double(q, at, v.f), SQLITE_OK);
    else if (v.type == VALUE_TEXT)
        assert_int_equal(sqlite3_bind_text(q, at, v.p, (int)v.n, SQLITE_TRANSIENT), SQLITE_OK);
    else
        assert_int_equal(sqlite3_bind_null(q, at), SQLITE_OK);
}

static void make_schema(struct world *w)
{
    struct field fields[COLUMNS * TYPES];
    for (size_t i = 0; i < COLUMNS * TYPES; i++)
        fields[i] = (struct field){.name = slice_str(columns[i / TYPES]),
                                   .unit = {"", 0},
                                   .help = {"", 0},
                                   .type = types[i % TYPES]};
    assert_int_equal(schema_create(SLICE_LIT("row"), fields, COLUMNS * TYPES, &w->schema), 0);
}

static void make_rows(struct world *w)
{
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_exec(w->db, "DELETE FROM row", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(w->db, "INSERT INTO row VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", -1,
                           &q, NULL),
        SQLITE_OK);
    for (size_t r = 0; r < ROWS; r++) {
        assert_int_equal(sqlite3_bind_int64(q, 1, (int64_t)r), SQLITE_OK);
        for (size_t c = 0; c < COLUMNS; c++) {
            struct value v = random_value(w, columns[c][0]);
            char buf[VALUE_SPELLING_MAX];
            struct class_state class = {0};
            (void)test_classes_get(&classes, SLICE_LIT("row"), slice_str(columns[c]), &class); /* or 0 */
            bind(q, (int)c + 2, class_value(class.class, v, buf));
            if (columns[c][0] == 'm')
                bind(q, COLUMNS + 2, class_value(CLASS_TEXT, v, buf));
            if (columns[c][0] == 'x')
                bind(q, COLUMNS + 3, class_value(CLASS_NUMBER, v, buf));
            for (size_t t = 0; t < TYPES; t++)
                w->values[r][c * TYPES + t] = v.type == types[t] ? v : value_none();
        }
        assert_int_equal(sqlite3_step(q), SQLITE_DONE);
        assert_int_equal(sqlite3_reset(q), SQLITE_OK);
        w->rows[r] = (struct event){.schema = w->schema, .values = w->values[r]};
    }
    assert_int_equal(sqlite3_finalize(q), SQLITE_OK);
}

/* --- expressions --- */

static void add(struct strbuf *out, const char *z)
{
    strbuf_add_str(out, z);
}

static const char *pick(struct world *w, const char *const *words, size_t n)
{
    return words[below(w, n)];
}
#define PICK(w, ...) pick(w, (const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})))

static void add_condition(struct world *w, struct strbuf *out, unsigned depth);

/* Parentheses are left out half of the time: both parsers must then group the same. */
static bool open_maybe(struct world *w, struct strbuf *out)
{
    bool open = below(w, 2);
    if (open)
        add(out, "(");
    return open;
}

static void close_maybe(struct strbuf *out, bool open)
{
    if (open)
        add(out, ")");
}

static void add_small(struct world *w, struct strbuf *out)
{
    add(out, PICK(w, "a", "b", "h", "0", "1", "2", "3", "7", "2.5", "0.0", "TRUE", "FALSE", "NULL"));
}

static void add_number(struct world *w, struct strbuf *out, unsigned depth)
{
    switch (below(w, depth ? 7 : 2)) {
    case 0:
        add_small(w, out);
        return;
    case 1:
        add(out,
            PICK(w, "i", "j", "f", "g", "9223372036854775807", "9007199254740993", "1e18", "0.1", "1e999"));
        return;
    case 2:
        add(out, PICK(w, "-(", "- -("));
        add_number(w, out, depth - 1);
        add(out, ")");
        return;
    case 3: /* % of any integer or small float by a small number, always grouped */
        add(out, "(");
        if (below(w, 2))
            add_small(w, out);
        else
            add(out, PICK(w, "i", "j"));
        add(out, " % ");
        add_small(w, out);
        add(out, ")");
        return;
    case 4:
        add(out, "(");
        add_condition(w, out, depth - 1);
        add(out, ")");
        return;
    default:
        break;
    }
    bool open = open_maybe(w, out);
    add_number(w, out, depth - 1);
    add(out, PICK(w, " + ", " - ", " * ", " / "));
    add_number(w, out, depth - 1);
    close_maybe(out, open);
}

/* Columns with a class: constants of both classes, and each other. */
static void add_classed_condition(struct world *w, struct strbuf *out)
{
    bool is_number = below(w, 2);
    const char *column = is_number ? PICK(w, "m", "\"x:number\"") : PICK(w, "x", "n", "\"m:text\"");
    const char *constants[3];
    for (size_t i = 0; i < 3; i++)
        constants[i] = is_number ? PICK(w, "17", "0.5", "'17'", "'0.50'", "' 17.0'", "'1e-5'", "'080'", "a", "n", "h + 1")
                                 : PICK(w, "17", "0.5", "'17'", "'0.50'", "'ok'", "1.1", "'-'", "x", "a + 1");
    switch (below(w, 5)) {
    case 0:
        strbuf_printf(out, "%s BETWEEN %s AND %s", column, constants[0], constants[1]);
        return;
    case 1:
        strbuf_printf(out, "%s %s (17, '0.50', %s)", column, PICK(w, "IN", "NOT IN"), PICK(w, "1.1", "'1.10'", "NULL"));
        return;
    case 2:
        strbuf_printf(out, "%s IS %sNULL", column, PICK(w, "", "NOT "));
        return;
    case 3:
        strbuf_printf(out, "%s LIKE '%s'", is_number ? "\"m:text\"" : column, PICK(w, "1%", "%0", "0._0", "ok"));
        return;
    default:
        strbuf_printf(out, "%s %s %s", column, PICK(w, "=", "<>", "<", "<=", ">", ">="), constants[2]);
    }
}

static void add_text(struct world *w, struct strbuf *out)
{
    add(out, PICK(w, "s", "t", "'abc'", "'a'", "''", "'B'", "NULL", "'\xc3\xa9'"));
}

static void add_list(struct world *w, struct strbuf *out, bool texts)
{
    size_t n = 1 + below(w, 5);
    add(out, PICK(w, " IN (", " NOT IN ("));
    for (size_t i = 0; i < n; i++) {
        add(out, i ? ", " : "");
        if (texts)
            add(out, PICK(w, "'a'", "'abc'", "''", "'B'", "'\xc3\xa9'", "'x.y'", i ? "NULL" : "'b'"));
        else
            add(out, PICK(w, "0", "1", "-1", "2.0", "0.5", "7", "1e18", "9223372036854775807",
                          "-9223372036854775808", "TRUE", i ? "NULL" : "100"));
    }
    add(out, ")");
}

static void add_pattern(struct world *w, struct strbuf *out)
{
    bool like = below(w, 2);
    static const char *const like_parts[] = {"%", "_", "a", "b", "C", ".", "%", "\xc3\xa9", "!%", "!_"};
    static const char *const glob_parts[] = {"*", "?", "a", "b", "C", ".", "*", "[a-b]", "[^a]", "[]]"};
    size_t n = below(w, 6);
    add(out, like ? PICK(w, "s LIKE '", "s NOT LIKE '", "t LIKE '") : PICK(w, "t GLOB '", "t NOT GLOB '"));
    for (size_t i = 0; i < n; i++)
        add(out, like ? like_parts[below(w, COUNT(like_parts))] : glob_parts[below(w, COUNT(glob_parts))]);
    add(out, like ? "' ESCAPE '!'" : "'");
}

/* About text: never beside an operator that would take the text for its own. */
static void add_text_condition(struct world *w, struct strbuf *out)
{
    switch (below(w, 4)) {
    case 0:
        add_text(w, out);
        add_list(w, out, true);
        return;
    case 1:
        add_text(w, out);
        add(out, PICK(w, " BETWEEN ", " NOT BETWEEN "));
        add_text(w, out);
        add(out, " AND ");
        add_text(w, out);
        return;
    case 2:
        add_pattern(w, out);
        return;
    default:
        add_text(w, out);
        add(out, PICK(w, " = ", " == ", " <> ", " != ", " < ", " <= ", " > ", " >= "));
        add_text(w, out);
    }
}

static void add_number_condition(struct world *w, struct strbuf *out, unsigned depth)
{
    add_number(w, out, depth);
    switch (below(w, 5)) {
    case 0:
        add_list(w, out, false);
        return;
    case 1:
        add(out, PICK(w, " BETWEEN ", " NOT BETWEEN "));
        add_number(w, out, depth);
        add(out, " AND ");
        add_number(w, out, depth);
        return;
    case 2:
        add(out, PICK(w, " IS NULL", " IS NOT NULL"));
        return;
    case 3: /* two comparisons in a row group to the left, and < before = */
        add(out, PICK(w, " = ", " <> ", " < ", " >= "));
        add_number(w, out, depth);
        break;
    default:
        break;
    }
    add(out, PICK(w, " = ", " == ", " <> ", " != ", " < ", " <= ", " > ", " >= "));
    add_number(w, out, depth);
}

static void add_condition(struct world *w, struct strbuf *out, unsigned depth)
{
    size_t kind = below(w, depth ? 8 : 3);
    if (kind == 0) {
        if (below(w, 2))
            add_text_condition(w, out);
        else
            add_classed_condition(w, out);
    } else if (kind == 1) {
        add_number(w, out, depth);
    } else if (kind < 4) {
        add_number_condition(w, out, depth / 2);
    } else if (kind == 4) {
        add(out, "NOT ");
        bool open = open_maybe(w, out);
        add_condition(w, out, depth - 1);
        close_maybe(out, open);
    } else {
        bool open = open_maybe(w, out);
        add_condition(w, out, depth - 1);
        add(out, PICK(w, " AND ", " OR "));
        add_condition(w, out, depth - 1);
        close_maybe(out, open);
    }
}

/* --- the comparison --- */

static void ask_sqlite(struct world *w, const char *where, bool *pass)
{
    struct strbuf sql = {0};
    sqlite3_stmt *q;
    strbuf_printf(&sql, "SELECT rowid FROM row WHERE %s", where);
    if (sqlite3_prepare_v2(w->db, sql.p, -1, &q, NULL) != SQLITE_OK)
        fail_msg("%s\nSQLite: %s", sql.p, sqlite3_errmsg(w->db));
    memset(pass, 0, ROWS * sizeof *pass);
    while (sqlite3_step(q) == SQLITE_ROW)
        pass[sqlite3_column_int64(q, 0)] = true;
    assert_int_equal(sqlite3_finalize(q), SQLITE_OK);
    strbuf_fini(&sql);
}

static void print_row(const struct world *w, size_t r)
{
    for (size_t i = 0; i < COLUMNS * TYPES; i++) {
        const struct value *v = &w->values[r][i];
        if (v->type == VALUE_INT)
            print_message("%s = %" PRId64 "\n", columns[i / TYPES], v->i);
        else if (v->type == VALUE_FLOAT)
            print_message("%s = %.17g\n", columns[i / TYPES], v->f);
        else if (value_is_text(v->type))
            print_message("%s = '%.*s'\n", columns[i / TYPES], (int)v->n, v->p);
    }
}

/* Returns how many rows pass. */
static size_t compare(struct world *w, const char *where)
{
    struct predicate *p;
    struct diag why = {0};
    bool pass[ROWS];
    size_t n = 0;
    if (predicate_compile(slice_str(where), 0, &p, &why) < 0)
        fail_msg("%s\ncolumn %u: %s", where, (unsigned)why.col, why.message);
    predicate_use_classes(p, test_classes_source(&classes));
    ask_sqlite(w, where, pass);
    for (size_t r = 0; r < ROWS; r++) {
        n += pass[r];
        if (predicate_test(p, &w->rows[r]) == pass[r])
            continue;
        print_row(w, r);
        fail_msg("%s\nSQLite %s this row, we don't agree", where, pass[r] ? "passes" : "drops");
    }
    predicate_destroy(p);
    return n;
}

static void test_like_sqlite(void **state)
{
    (void)state;
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->seed = 2026;
    assert_int_equal(sqlite3_open(":memory:", &w->db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(w->db, 
                                  "CREATE TABLE row(rowid INTEGER PRIMARY KEY,a,b,i,j,h,f,g,s,t,m NUMERIC,x TEXT,n TEXT,"
                                  "\"m:text\" TEXT,\"x:number\" NUMERIC)",
                                  NULL, NULL, NULL), SQLITE_OK);
    make_schema(w);
    struct strbuf text = {0};
    size_t passed[3] = {0};
    unsigned rounds = 10000 * test_scale();
    for (unsigned i = 0; i < rounds; i++) {
        static const char *const forms[3][2] = {{"", ""}, {"NOT (", ")"}, {"(", ") IS NULL"}};
        if (i % 100 == 0)
            make_rows(w);
        uint64_t seed = w->seed; /* the same expression in each form */
        for (size_t k = 0; k < COUNT(forms); k++) {
            w->seed = seed;
            strbuf_reset(&text);
            add(&text, forms[k][0]);
            add_condition(w, &text, 1 + i % 4);
            add(&text, forms[k][1]);
            passed[k] += compare(w, text.p);
        }
    }
    /* the test would be worth little if nearly everything were true, or NULL */
    for (size_t k = 0; k < 3; k++)
        assert_true(passed[k] > (size_t)rounds * ROWS / 10);
    assert_int_equal(passed[0] + passed[1] + passed[2], (size_t)rounds * ROWS);
    strbuf_fini(&text);
    schema_unref(w->schema);
    assert_int_equal(sqlite3_close(w->db), SQLITE_OK);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_like_sqlite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
