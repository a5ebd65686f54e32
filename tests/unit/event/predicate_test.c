/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "event/predicate.h"
#include "unit/event/classes.h"

#include <errno.h>
#include <stdatomic.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define NOW      (INT64_C(1794776400) * NS_PER_S) /* 2026-11-15T21:00:00Z */

/* --- an event to ask about: set() gives it fields, one after the other --- */

struct sample {
    struct field fields[64];
    struct value values[64];
    size_t n;
    struct schema *schema;
    struct event event;
};

static void set(struct sample *s, const char *name, struct value v)
{
    s->fields[s->n] =
        (struct field){.name = slice_str(name), .unit = {"", 0}, .help = {"", 0}, .type = v.type};
    s->values[s->n++] = v;
}

/* A field of the schema that this event does not have. */
static void set_missing(struct sample *s, const char *name, uint8_t type)
{
    set(s, name, (struct value){.type = type});
    s->values[s->n - 1] = value_none();
}

static const struct event *finish(struct sample *s)
{
    assert_int_equal(schema_create(SLICE_LIT("transfer.end"), s->fields, s->n, &s->schema), 0);
    s->event = (struct event){.time_ns = NOW,
                              .host = SLICE_LIT("node17"),
                              .prog = SLICE_LIT("gridftp"),
                              .schema = s->schema,
                              .values = s->values,
                              .level = LEVEL_WARNING};
    return &s->event;
}

static void drop(struct sample *s)
{
    assert_int_equal(atomic_load(&s->schema->refs), 1); /* predicates gave theirs back */
    schema_unref(s->schema);
}

/* What is asked about in most tests. */
static const struct event *usual(struct sample *s)
{
    *s = (struct sample){0};
    set(s, "size", value_uint(4096));
    set(s, "rate", value_float(2.5));
    set(s, "delta", value_int(-7));
    set(s, "ok", value_bool(true));
    set(s, "bad", value_bool(false));
    set(s, "file", value_text(SLICE_LIT("/data/Run_1.root")));
    set(s, "key", value_bytes(SLICE_LIT("\x00\xff")));
    set(s, "zero", value_int(0));
    set(s, "nan", value_float(NAN));
    set(s, "huge", value_uint(UINT64_MAX));
    set(s, "lowest", value_int(INT64_MIN));
    set(s, "highest", value_int(INT64_MAX));
    set(s, "job.id", value_int(5));
    set(s, "net:eth-0", value_int(6));
    set(s, "host", value_text(SLICE_LIT("other")));
    set(s, "in", value_int(8));
    set_missing(s, "missing", VALUE_INT);
    return finish(s);
}

static const struct class_source *used_classes;

static bool passes(const char *text, const struct event *e)
{
    struct predicate *p;
    struct diag why = {0};
    if (predicate_compile(slice_str(text), NOW, &p, &why) < 0)
        fail_msg("%s\ncolumn %u: %s", text, (unsigned)why.col, why.message);
    uint32_t index = 0;
    predicate_use_classes(p, used_classes);
    bool pass = predicate_test(p, e);
    assert_int_equal(predicate_test(p, e), pass);
    assert_int_equal(predicate_filter(p, e, &index, 1), pass);
    predicate_destroy(p);
    return pass;
}

/* T, F or N: true, false or NULL, found by asking for the condition, for its negation, and for IS NULL; with
 * everything else in the position where only truth matters, and where all three matter. */
static char truth_of(const char *text, const struct event *e)
{
    struct strbuf b = {0};
    char answers[4] = {0};
    static const char *const forms[] = {"%s", "NOT (%s)", "(%s) IS NULL"};
    for (size_t i = 0; i < COUNT(forms); i++) {
        strbuf_reset(&b);
        const char *hole = strstr(forms[i], "%s");
        strbuf_add(&b, forms[i], (size_t)(hole - forms[i]));
        strbuf_add_str(&b, text);
        strbuf_add_str(&b, hole + 2);
        answers[i] = passes(b.p, e) ? 'y' : '-';
    }
    strbuf_fini(&b);
    if (strcmp(answers, "y--") == 0)
        return 'T';
    if (strcmp(answers, "-y-") == 0)
        return 'F';
    if (strcmp(answers, "--y") == 0)
        return 'N';
    fail_msg("%s: %s is none of true, false, NULL", text, answers);
    return '?';
}

struct truth_case {
    const char *text;
    char truth;
};

static void check_truths(const struct truth_case *cases, size_t n)
{
    struct sample s;
    const struct event *e = usual(&s);
    for (size_t i = 0; i < n; i++) {
        char truth = truth_of(cases[i].text, e);
        if (truth != cases[i].truth)
            fail_msg("%s is %c, not %c", cases[i].text, truth, cases[i].truth);
    }
    drop(&s);
}

/* --- three-valued logic --- */

static void test_truth_table(void **state)
{
    (void)state;
    static const char letters[] = "TFN";
    /* as constants, which fold, and as fields, which don't; and one of each */
    static const char *const words[2][3] = {{"TRUE", "FALSE", "NULL"}, {"ok", "bad", "missing"}};
    static const char and[] = "TFNFFFNFN", or [] = "TTTTFNTNN", not [] = "FTN";
    struct sample s;
    const struct event *e = usual(&s);
    char text[64];
    for (size_t i = 0; i < 9 * 4; i++) {
        size_t a = i % 9 / 3, b = i % 3;
        const char *x = words[i / 9 & 1][a], *y = words[i / 18][b];
        (void)snprintf(text, sizeof text, "%s AND %s", x, y);
        assert_int_equal(truth_of(text, e), and[a * 3 + b]);
        (void)snprintf(text, sizeof text, "%s OR %s", x, y);
        assert_int_equal(truth_of(text, e), or [a * 3 + b]);
        (void)snprintf(text, sizeof text, "NOT %s", x);
        assert_int_equal(truth_of(text, e), not [a]);
        assert_int_equal(truth_of(x, e), letters[a]);
    }
    drop(&s);
}

/* Every tree of AND, OR and NOT over three values, up to a depth, agrees with a direct evaluation: jumps. */
struct logic {
    struct strbuf text;
    uint64_t seed;
};

static char random_logic(struct logic *g, unsigned depth)
{
    static const char *const words[] = {"ok", "bad", "missing", "TRUE", "FALSE", "NULL"};
    unsigned kind = (unsigned)(test_random(&g->seed) % (depth ? 8 : 2));
    if (kind < 2) {
        size_t i = test_random(&g->seed) % (kind ? 3 : 6);
        strbuf_add_str(&g->text, words[i]);
        return "TFN"[i % 3];
    }
    if (kind == 2) {
        strbuf_add_str(&g->text, "NOT (");
        char a = random_logic(g, depth - 1);
        strbuf_add_str(&g->text, ")");
        return a == 'N' ? 'N' : a == 'T' ? 'F' : 'T';
    }
    char decides = kind & 1 ? 'F' : 'T', other = kind & 1 ? 'T' : 'F';
    strbuf_add_str(&g->text, "(");
    char a = random_logic(g, depth - 1);
    strbuf_add_str(&g->text, kind & 1 ? " AND " : " OR ");
    char b = random_logic(g, depth - 1);
    strbuf_add_str(&g->text, ")");
    if (a == decides || b == decides)
        return decides;
    return a == other && b == other ? other : 'N';
}

static void test_logic_trees(void **state)
{
    (void)state;
    struct sample s;
    const struct event *e = usual(&s);
    struct logic g = {.seed = 7};
    for (unsigned i = 0; i < 3000 * test_scale(); i++) {
        strbuf_reset(&g.text);
        char expect = random_logic(&g, 1 + i % 7);
        char truth = truth_of(g.text.p, e);
        if (truth != expect)
            fail_msg("%s is %c, not %c", g.text.p, truth, expect);
    }
    strbuf_fini(&g.text);
    drop(&s);
}

static void test_nulls(void **state)
{
    (void)state;
    static const struct truth_case cases[] = {
        {"missing = 5", 'N'},
        {"missing = NULL", 'N'},
        {"missing != NULL", 'N'},
        {"never_seen = missing", 'N'},
        {"missing IS NULL", 'T'},
        {"never_seen IS NULL", 'T'},
        {"missing IS NOT NULL", 'F'},
        {"size IS NULL", 'F'},
        {"size IS NOT NULL", 'T'},
        {"NULL IS NULL", 'T'},
        {"missing + 1 IS NULL", 'T'},
        {"-missing IS NULL", 'T'},
        {"size IN (1, 4096)", 'T'},
        {"size IN (1, 4096, NULL)", 'T'},
        {"size IN (1, 2)", 'F'},
        {"size IN (1, 2, NULL)", 'N'},
        {"size NOT IN (1, 2)", 'T'},
        {"size NOT IN (1, 2, NULL)", 'N'},
        {"size NOT IN (4096, NULL)", 'F'},
        {"missing IN (1, 2)", 'N'},
        {"missing NOT IN (1)", 'N'},
        {"NULL IN (1)", 'N'},
        {"size BETWEEN 1 AND 5000", 'T'},
        {"size BETWEEN 5000 AND 1", 'F'},
        {"size BETWEEN 1 AND missing", 'N'},
        {"size BETWEEN 5000 AND missing", 'F'},
        {"size NOT BETWEEN 5000 AND NULL", 'T'},
        {"size BETWEEN missing AND 1", 'F'},
        {"missing NOT BETWEEN 1 AND 2", 'N'},
        {"missing LIKE 'a%'", 'N'},
        {"missing NOT LIKE 'a%'", 'N'},
        {"missing GLOB 'a*'", 'N'},
        {"NULL NOT GLOB 'a*'", 'N'},
    };
    check_truths(cases, COUNT(cases));
}

/* --- values --- */

static void test_types(void **state)
{
    (void)state;
    static const struct truth_case cases[] = {
        {"ok", 'T'},
        {"bad", 'F'},
        {"NOT ok", 'F'},
        {"ok = TRUE", 'T'},
        {"ok = 1", 'T'},
        {"bad = FALSE", 'T'},
        {"bad < ok", 'T'},
        {"ok + ok = 2", 'T'},
        {"size", 'T'},
        {"zero", 'F'},
        {"rate", 'T'},
        {"0.0", 'F'},
        {"0.5", 'T'},
        {"missing", 'N'},
        {"file AND ok", 'N'}, /* text at run time */
        {"key OR bad", 'N'},
        {"nan AND ok", 'N'},
        {"nan = nan", 'N'},
        {"nan != 5", 'N'},
        {"nan IS NULL", 'F'},
        {"nan IN (1)", 'N'},
        {"nan + 1 IS NULL", 'T'},
        {"size = '4096'", 'T'}, /* without a class: as text, because it is compared with text */
        {"size != '4096'", 'F'},
        {"size = '4096.0'", 'F'},
        {"size = 'x'", 'F'},
        {"file = 5", 'N'},
        {"file = x'2f'", 'N'},
        {"file IN ('x', 5)", 'F'}, /* mixed: as the value has it */
        {"file IN ('/data/Run_1.root', 5)", 'T'},
        {"file IN ('x', x'2f')", 'N'},
        {"size IN ('x', 'y')", 'F'},
        {"size IN ('x', 4096.0)", 'T'},
        {"key = x'00FF'", 'T'},
        {"key = X'00'", 'F'},
        {"key > x'00'", 'T'},
        {"key IN (x'', x'00ff')", 'T'},
        {"file = '/data/Run_1.root'", 'T'},
        {"file == '/data/Run_1.roo'", 'F'},
        {"file <> '/data/Run_1.roo'", 'T'},
        {"file > '/data/Run_1.roo'", 'T'},
        {"file < '/data/Run_2'", 'T'},
        {"file > ''", 'T'},
        {"'' = ''", 'T'},
        {"'it''s' = 'it''s'", 'T'},
        {"'a' < 'b'", 'T'},
        {"size LIKE '4%'", 'T'},
        {"key GLOB '*'", 'N'},
        {"file + 1 IS NULL", 'T'},
        {"-file IS NULL", 'T'},
    };
    check_truths(cases, COUNT(cases));
}

/* Ascending; each is compared with each, as constant and constant, field and constant, field and field. */
static void test_number_order(void **state)
{
    (void)state;
    static const struct {
        struct value v;
        const char *text;
        unsigned rank;
    } numbers[] = {
#define FLOAT(x) {.f = x, .type = VALUE_FLOAT}
#define INT(x)                    \
    {                             \
        .i = x, .type = VALUE_INT \
    }
#define UINT(x)                    \
    {                              \
        .u = x, .type = VALUE_UINT \
    }
        {FLOAT(-INFINITY), "-1e999", 0},
        {FLOAT(-1e300), "-1e300", 1},
        {FLOAT(-9223372036854777856.0), "-9223372036854777856.0", 2},
        {INT(INT64_MIN), "-9223372036854775808", 3},
        {FLOAT(-0x1p63), "-9223372036854775808.0", 3},
        {INT(INT64_MIN + 1), "-9223372036854775807", 4},
        {INT(-9007199254740993), "-9007199254740993", 5},
        {FLOAT(-9007199254740992.0), "-9007199254740992.0", 6},
        {FLOAT(-1.5), "-1.5", 7},
        {INT(-1), "-1", 8},
        {FLOAT(-0.5), "-0.5", 9},
        {INT(0), "0", 10},
        {UINT(0), "0", 10},
        {FLOAT(-0.0), "-0.0", 10},
        {{.u = 0, .type = VALUE_BOOL}, "FALSE", 10},
        {FLOAT(0.5), "0.5", 11},
        {INT(1), "1", 12},
        {{.u = 1, .type = VALUE_BOOL}, "TRUE", 12},
        {FLOAT(1.5), "15e-1", 13},
        {UINT(2), "2", 14},
        {FLOAT(9007199254740992.0), "9007199254740992.0", 15},
        {INT(9007199254740993), "9007199254740993", 16},
        {FLOAT(9007199254740994.0), "9007199254740994.0", 17},
        {INT(INT64_MAX), "9223372036854775807", 18},
        {FLOAT(0x1p63), "9223372036854775808.0", 19},
        {UINT(UINT64_C(1) << 63), "9223372036854775808", 19},
        {UINT((UINT64_C(1) << 63) + 1), "9223372036854775809", 20},
        {UINT(UINT64_MAX), "18446744073709551615", 21},
        {FLOAT(0x1p64), "18446744073709551616", 22},
        {FLOAT(INFINITY), "1e999", 23},
#undef FLOAT
#undef INT
#undef UINT
    };
    for (size_t i = 0; i < COUNT(numbers) * COUNT(numbers); i++) {
        size_t a = i / COUNT(numbers), b = i % COUNT(numbers);
        struct sample s = {0};
        set(&s, "x", numbers[a].v);
        set(&s, "y", numbers[b].v);
        const struct event *e = finish(&s);
        bool less = numbers[a].rank < numbers[b].rank, equal = numbers[a].rank == numbers[b].rank;
        for (unsigned constants = 0; constants < 4; constants++) {
            const struct {
                const char *op;
                bool pass;
            } ops[] = {{"<", less},    {"<=", less || equal},  {"=", equal},
                       {"<>", !equal}, {">", !less && !equal}, {">=", !less}};
            for (size_t k = 0; k < COUNT(ops); k++) {
                struct strbuf text = {0};
                strbuf_add_str(&text, constants & 2 ? numbers[a].text : "x");
                strbuf_printf(&text, " %s %s", ops[k].op, constants & 1 ? numbers[b].text : "y");
                if (passes(text.p, e) != ops[k].pass)
                    fail_msg("%s (%s, %s)", text.p, numbers[a].text, numbers[b].text);
                strbuf_fini(&text);
            }
        }
        char text[64];
        (void)snprintf(text, sizeof text, "x IN (77, %s)", numbers[b].text);
        assert_int_equal(passes(text, e), equal);
        drop(&s);
    }
}

static void test_arithmetic(void **state)
{
    (void)state;
    static const struct truth_case cases[] = {
        {"size + 4 = 4100", 'T'},
        {"delta - 3 = -10", 'T'},
        {"delta * 2 = -14", 'T'},
        {"delta / 2 = -3", 'T'}, /* truncates */
        {"delta % 4 = -3", 'T'},
        {"7 / 2 = 3", 'T'},
        {"7 / 2.0 = 3.5", 'T'},
        {"rate * 2 = 5", 'T'},
        {"5.5 % 2 = 1", 'T'}, /* whole parts, as in SQLite */
        {"1e19 % 10 = 0", 'T'},
        {"huge % 2.0 = 0", 'T'}, /* as a float it is 2^64 */
        {"highest % 10.0 = 7", 'T'},
        {"-size = -4096", 'T'},
        {"- -size = 4096", 'T'},
        {"size / 0 IS NULL", 'T'},
        {"size % 0 IS NULL", 'T'},
        {"rate / 0.0 IS NULL", 'T'},
        {"rate % 0.5 IS NULL", 'T'},
        {"size / zero > 5", 'N'},
        {"1e999 - 1e999 IS NULL", 'T'},
        {"highest + 1 = 9223372036854775808.0", 'T'},
        {"highest + 1 > highest", 'T'},
        {"highest + 3 = 9223372036854775808.0", 'T'}, /* a float by now */
        {"lowest - 1 = -9223372036854775808.0", 'T'},
        {"highest * highest > huge", 'T'},
        {"-lowest = 9223372036854775808", 'T'},
        {"lowest / -1 = 9223372036854775808", 'T'},
        {"lowest % -1 = 0", 'T'},
        {"lowest % -1.0 = 0", 'T'},
        {"huge - 1 = 18446744073709551614", 'T'},
        {"huge - huge = 0", 'T'},
        {"huge - 9223372036854775808 = highest", 'T'},
        {"huge + 1 = 18446744073709551616.0", 'T'},
        {"huge * huge > 3e38", 'T'},
        {"huge / 2 = highest", 'T'},
        {"huge % 10 = 5", 'T'},
        {"lowest % huge = lowest", 'T'},
        {"-huge = -18446744073709551615.0", 'T'},
        {"-9223372036854775808 = lowest", 'T'},
        {"2 + 3 * 4 = 14", 'T'},
        {"(2 + 3) * 4 = 20", 'T'},
        {"10 - 3 - 2 = 5", 'T'},
        {"100 / 10 / 5 = 2", 'T'},
        {"-2 * -3 = 6", 'T'},
        {"size > 1000 * 4", 'T'},
        {"1000 * 4 < size", 'T'},
        {"0.1 + 0.2 = 0.30000000000000004", 'T'},
    };
    check_truths(cases, COUNT(cases));
}

static void test_precedence(void **state)
{
    (void)state;
    static const struct truth_case cases[] = {
        {"TRUE OR TRUE AND FALSE", 'T'},
        {"(TRUE OR TRUE) AND FALSE", 'F'},
        {"NOT FALSE AND FALSE", 'F'},
        {"NOT zero = 1", 'T'}, /* NOT (zero = 1) */
        {"NOT NOT ok", 'T'},
        {"2 = 1 < 2", 'F'}, /* 2 = (1 < 2) */
        {"1 = 1 < 2", 'T'},
        {"3 > 2 > 1", 'F'}, /* (3 > 2) > 1 */
        {"1 = 1 = 1", 'T'},
        {"5 = 5 = 5", 'F'},
        {"(5 OR ok) = 1", 'T'}, /* a truth is 0 or 1, also when the right side is skipped */
        {"(size OR bad) = 1", 'T'},
        {"(zero AND ok) + 1 = 1", 'T'},
        {"size BETWEEN 1 AND 5000 AND ok", 'T'},
        {"size BETWEEN 1 AND 5000 AND bad", 'F'},
        {"size BETWEEN 1 + 1 AND 5000 - 1 = 1", 'T'},
        {"missing IS NULL = 1", 'T'},
        {"missing IS NULL AND ok", 'T'},
        {"size IN (4096) AND NOT size IN (1)", 'T'},
        {"bad OR ok AND size = 4096 OR bad", 'T'},
        {"oK IS NULL And NoT BAD iS nUlL oR fAlSe", 'F'}, /* keywords in any case; fields by their case */
    };
    check_truths(cases, COUNT(cases));
}

static void test_like(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pattern;
        bool hit;
    } cases[] = {
        {"", "", true},
        {"a", "", false},
        {"", "%", true},
        {"", "_", false},
        {"abc", "abc", true},
        {"abc", "ABC", true},
        {"ABC", "abc", true},
        {"abc", "ab", false},
        {"abc", "abcd", false},
        {"abc", "a%", true},
        {"abc", "%c", true},
        {"abc", "%b%", true},
        {"abc", "%%%", true},
        {"abc", "%d%", false},
        {"abc", "a_c", true},
        {"abc", "___", true},
        {"abc", "__", false},
        {"abc", "_%_", true},
        {"abcbc", "a%bc", true},
        {"aXbYbZc", "a%b%c", true},
        {"aaab", "%aab", true},
        {"aaaaac", "%aab", false},
        {"\xc3\xa9", "_", true}, /* é is one character */
        {"\xc3\xa9", "__", false},
        {"\xc3\xa9x", "%_x", true},
        {"\xc3\xa9x", "%__x", false},
        {"x\xe2\x82\xacy", "x_y", true},
        {"x\xe2\x82\xacy", "x%__", true},
        {"x\xe2\x82\xacy", "x%___", false},
        {"\xc3\x89", "\xc3\xa9", false}, /* É and é: only A-Z fold */
        {"a*b?[", "a*b?[", true},
        {"100%", "100!%", true},
        {"100x", "100!%", false},
        {"a_b", "a!_b", true},
        {"axb", "a!_b", false},
        {"a!b", "a!!b", true},
        {"%", "!%%", true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sample s = {0};
        char text[128];
        set(&s, "x", value_text(slice_str(cases[i].text)));
        const struct event *e = finish(&s);
        (void)snprintf(text, sizeof text, "x LIKE '%s' ESCAPE '!'", cases[i].pattern);
        if (passes(text, e) != cases[i].hit)
            fail_msg("%s ~ %s", cases[i].text, cases[i].pattern);
        (void)snprintf(text, sizeof text, "'%s' NOT LIKE '%s' ESCAPE '!'", cases[i].text, cases[i].pattern);
        if (passes(text, e) == cases[i].hit)
            fail_msg("%s", text);
        drop(&s);
    }
    struct sample s = {0};
    set(&s, "x", value_text(SLICE_LIT("a\0b")));
    const struct event *e = finish(&s);
    assert_true(passes("x LIKE 'a_b'", e)); /* NUL is a character like any other */
    assert_true(passes("x GLOB 'a?b'", e));
    drop(&s);
}

static void test_glob(void **state)
{
    (void)state;
    static const struct truth_case cases[] = {
        {"file GLOB '/data/*'", 'T'},
        {"file GLOB '/DATA/*'", 'F'}, /* case matters */
        {"file GLOB '*Run_[0-9].root'", 'T'},
        {"file GLOB '*Run_[!0-9].root'", 'F'},
        {"file GLOB '*Run?1*'", 'T'},
        {"file NOT GLOB 'x*'", 'T'},
        {"name GLOB 'transfer.*'", 'T'},
        {"'[' GLOB '[[]'", 'T'},
        {"']' GLOB '[]]'", 'T'},
        {"'*' GLOB '\\*'", 'T'},
        {"'a' GLOB '\\*'", 'F'},
    };
    check_truths(cases, COUNT(cases));
}

/* --- heads --- */

static void test_heads(void **state)
{
    (void)state;
    static const struct truth_case cases[] = {
        {"host = 'node17'", 'T'},
        {"\"host\" = 'node17'", 'T'},
        {"'node17' = host", 'T'},
        {"\"$host\" = 'other'", 'T'},
        {"host = \"$host\"", 'F'},
        {"prog = 'gridftp'", 'T'},
        {"name = 'transfer.end'", 'T'},
        {"name LIKE 'TRANSFER.%'", 'T'},
        {"host IN ('node16', 'node17')", 'T'},
        {"host IN ('node1', 'node170')", 'F'},
        {"\"HOST\" IS NULL", 'T'},
        {"job.id = 5", 'T'},
        {"\"job.id\" = 5", 'T'},
        {"\"net:eth-0\" = 6", 'T'},
        {"\"in\" = 8", 'T'},
        {"\"$in\" = 8", 'T'},
        {"Size IS NULL", 'T'}, /* names keep their case */
        {"host IS NOT NULL AND time IS NOT NULL AND level IS NOT NULL", 'T'},
    };
    check_truths(cases, COUNT(cases));

    struct sample s;
    (void)usual(&s);
    s.event.host = s.event.prog = (struct slice){"", 0};
    assert_int_equal(truth_of("host IS NULL AND prog IS NULL", &s.event), 'T'); /* not known is not '' */
    assert_int_equal(truth_of("host = ''", &s.event), 'N');
    drop(&s);
}

static void test_level(void **state)
{
    (void)state;
    static const struct truth_case cases[] = {
        {"level = 'warning'", 'T'},
        {"level = 'WARN'", 'T'},
        {"level <= 'warning'", 'T'},
        {"level < 'warning'", 'F'},
        {"level <= 'error'", 'F'},
        {"level > 'error'", 'T'},
        {"level <= 'debug'", 'T'},
        {"'debug' >= level", 'T'},
        {"level != 'info'", 'T'},
        {"level IN ('error', 'warning')", 'T'},
        {"level NOT IN ('error', 'warning')", 'F'},
        {"level IN ('error', NULL)", 'N'},
        {"level BETWEEN 'emergency' AND 'warning'", 'T'},
        {"level BETWEEN 'auth' AND 'trace'", 'F'},
        {"'alert' BETWEEN 'emergency' AND level", 'T'},
        {"level = NULL", 'N'},
        {"level = level", 'T'},
        {"level IS NULL", 'F'},
    };
    check_truths(cases, COUNT(cases));
    struct sample s;
    (void)usual(&s);
    for (uint8_t a = 0; a < LEVEL_COUNT; a++)
        for (uint8_t b = 0; b < LEVEL_COUNT; b++) {
            char text[64];
            s.event.level = a;
            (void)snprintf(text, sizeof text, "level <= '%.*s'", SLICE_ARG(level_lower(b)));
            assert_int_equal(passes(text, &s.event), a <= b);
        }
    drop(&s);
}

static void test_time(void **state)
{
    (void)state;
    static const struct truth_case cases[] = {
        {"time = '2026-11-15T21:00:00Z'", 'T'},
        {"time = '2026-11-15T22:00:00+01:00'", 'T'},
        {"time >= '2026-11-15'", 'T'},
        {"time < '2026-11-16'", 'T'},
        {"time = 'now'", 'T'},
        {"time > 'now-15m'", 'T'},
        {"time > 'now+1s'", 'F'},
        {"'now-1h' < time", 'T'},
        {"time = 1794776400", 'T'},
        {"time = '1794776400'", 'T'},
        {"time = 1794776400.0", 'T'},
        {"time < 1794776400.000000001", 'T'},
        {"time > 1794776399.999999999", 'T'},
        {"time > 1.7e9", 'T'},
        {"time > 1794776400 - 60", 'T'},
        {"time > -5", 'T'},
        {"time > -5.5", 'T'},
        {"time BETWEEN 'now-1m' AND 'now'", 'T'},
        {"time NOT BETWEEN 0 AND 'now-1s'", 'T'},
        {"'now' BETWEEN time AND 'now+1s'", 'T'},
        {"time IN (5, 'now')", 'T'},
        {"time IN (-5)", 'F'},
        {"time = NULL", 'N'},
        {"time = time", 'T'},
        {"time IS NOT NULL", 'T'},
    };
    check_truths(cases, COUNT(cases));
    struct sample s;
    (void)usual(&s);
    s.event.time_ns = -NS_PER_S * 11 / 2;
    assert_true(passes("time = -5.5", &s.event));
    s.event.time_ns = INT64_MAX;
    assert_true(passes("time = 9223372036.854775807", &s.event));
    drop(&s);
}

static void test_two_types(void **state)
{
    (void)state;
    struct sample s = {0};
    set(&s, "before", value_int(1));
    set_missing(&s, "x", VALUE_INT);
    set_missing(&s, "x", VALUE_FLOAT);
    set(&s, "x", value_text(SLICE_LIT("five")));
    set_missing(&s, "x", VALUE_BYTES);
    const struct event *e = finish(&s);
    struct predicate *p;
    assert_int_equal(predicate_compile(SLICE_LIT("x = 'five' OR x = 5"), NOW, &p, NULL), 0);
    assert_true(predicate_test(p, e));
    s.values[3] = value_none();
    assert_false(predicate_test(p, e));
    s.values[1] = value_int(5);
    assert_true(predicate_test(p, e));
    s.values[1] = value_none();
    s.values[2] = value_float(5);
    assert_true(predicate_test(p, e));
    predicate_destroy(p);
    drop(&s);
}

/* An event whose fields each have a class, and are not all of it. */
static const struct event *classed(struct sample *s)
{
    *s = (struct sample){0};
    set(s, "status", value_int(17)); /* text */
    set(s, "state", value_text(SLICE_LIT("ok")));
    set(s, "job_id", value_uint(9)); /* text by its name */
    set(s, "latency", (struct value){.p = "0.50", .n = 4, .type = VALUE_NUMBER}); /* number */
    set(s, "dash", value_text(SLICE_LIT("-")));
    set(s, "quoted", value_text(SLICE_LIT("17")));
    set(s, "count", value_int(9));
    set(s, "spelt", (struct value){.p = "1.10", .n = 4, .type = VALUE_NUMBER}); /* no class */
    set(s, "plain", value_text(SLICE_LIT("17")));
    set(s, "real:text", value_int(1));
    return finish(s);
}

static struct test_classes classes = {.fields = {{"status", CLASS_TEXT},
                                                 {"state", CLASS_TEXT},
                                                 {"latency", CLASS_NUMBER},
                                                 {"dash", CLASS_NUMBER},
                                                 {"quoted", CLASS_NUMBER},
                                                 {"count", CLASS_NUMBER}}};

static void test_classes_of_fields(void **state)
{
    (void)state;
    static const struct truth_case cases[] = {
        {"status = '17'", 'T'},
        {"status = 17", 'T'},
        {"17 = status", 'T'},
        {"status = 17.0", 'F'},
        {"status <> 'ok'", 'T'},
        {"status > 5", 'F'}, /* '17' before '5' */
        {"status BETWEEN '1' AND '2'", 'T'},
        {"status BETWEEN 1 AND 2", 'T'},
        {"status IN (16, 17)", 'T'},
        {"status IN ('16', '17')", 'T'},
        {"status IN ('16', 'ok')", 'F'},
        {"status LIKE '1%'", 'T'},
        {"status GLOB '1?'", 'T'},
        {"status + 1 = 18", 'T'},
        {"status = state", 'F'},
        {"status = quoted", 'N'},
        {"status > count", 'T'}, /* beside a number column as a number */
        {"\"status:number\" > 9", 'T'},
        {"\"state:number\" IS NULL", 'T'},
        {"job_id = '9'", 'T'},
        {"job_id = 9", 'T'},
        {"job_id > 17", 'T'},
        {"latency = 0.5", 'T'},
        {"latency = '0.5'", 'T'},
        {"latency = '.5'", 'T'},
        {"latency < 1", 'T'},
        {"latency = 'fast'", 'N'},
        {"latency LIKE '0%'", 'N'},
        {"latency * 2 = 1", 'T'},
        {"latency", 'T'},
        {"latency IN ('0.5', '1')", 'T'},
        {"latency IN (0.25, '0.500')", 'T'},
        {"latency IN ('x', '1')", 'N'},
        {"latency BETWEEN '0.1' AND '1e0'", 'T'},
        {"\"latency:text\" = '0.50'", 'T'},
        {"\"latency:text\" LIKE '%0'", 'T'},
        {"dash IS NULL", 'T'},
        {"dash > 5", 'N'},
        {"\"dash:text\" = '-'", 'T'},
        {"quoted IS NULL", 'T'},
        {"\"quoted:text\" = 17", 'T'},
        {"count >= 5 AND count < 10", 'T'},
        {"spelt = 1.1", 'T'},
        {"spelt = '1.10'", 'T'},
        {"spelt = '1.1'", 'F'},
        {"spelt + 1 > 2", 'T'},
        {"spelt > latency", 'T'},
        {"NOT spelt", 'F'},
        {"plain = 17", 'N'}, /* quoted */
        {"plain = '17'", 'T'},
        {"\"real:text\" = 1", 'T'}, /* a field of its own */
        {"\"nothing:text\" IS NULL", 'T'},
    };
    struct sample s;
    const struct event *e = classed(&s);
    used_classes = test_classes_source(&classes);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char truth = truth_of(cases[i].text, e);
        if (truth != cases[i].truth)
            fail_msg("%s is %c, not %c", cases[i].text, truth, cases[i].truth);
    }
    used_classes = NULL;
    drop(&s);
}

/* A class that changes is seen by the next event, in a test and in a filter. */
static void test_class_changes(void **state)
{
    (void)state;
    struct sample s;
    const struct event *e = classed(&s);
    struct predicate *p;
    struct diag why;
    uint32_t index = 0;
    assert_int_equal(predicate_compile(SLICE_LIT("count > 10"), NOW, &p, NULL), 0);
    predicate_use_classes(p, test_classes_source(&classes));
    assert_false(predicate_test(p, e));
    assert_int_equal(classes.source.set(&classes, SLICE_LIT(""), SLICE_LIT("count"), CLASS_TEXT, &why), 0);
    assert_true(predicate_test(p, e));
    assert_int_equal(predicate_filter(p, e, &index, 1), 1);
    assert_int_equal(classes.source.set(&classes, SLICE_LIT(""), SLICE_LIT("count"), CLASS_NUMBER, &why), 0);
    assert_int_equal(predicate_filter(p, e, &index, 1), 0);
    predicate_destroy(p);
    drop(&s);
}

/* What can never pass is told; what can is not. */
static void test_notices(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool has_notice;
    } cases[] = {
        {"latency = 'fast'", true},
        {"ok OR NOT latency IN ('a', 'b')", true},
        {"latency LIKE '1%'", true},
        {"\"status:number\" = 'x'", true},
        {"latency > '5'", false},
        {"latency IN ('a', '5')", false},
        {"\"latency:text\" LIKE '1%'", false},
        {"status = 'fast' AND unheard = 'x' AND host = 'a'", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct predicate *p;
        struct diag why = {0};
        assert_int_equal(predicate_compile(slice_str(cases[i].text), NOW, &p, NULL), 0);
        bool has = predicate_notice(p, test_classes_source(&classes), SLICE_LIT("rpc.call"), &why);
        if (has != cases[i].has_notice)
            fail_msg("%s: %s", cases[i].text, has ? why.message : "no notice");
        assert_true(!has || (strstr(why.message, "rpc.call") && strstr(why.message, ":text\"")));
        assert_false(predicate_notice(p, NULL, SLICE_LIT("rpc.call"), &why));
        predicate_destroy(p);
    }
}

/* More schema versions than the cache holds, in turn and at random: the right field each time, and every
 * reference is given back. */
static void test_schemas(void **state)
{
    (void)state;
    enum { N = 200 };
    struct sample *all = calloc(N, sizeof *all);
    struct predicate *p;
    uint64_t seed = 11;
    assert_non_null(all);
    for (size_t i = 0; i < N; i++) {
        char filler[20][16];
        for (size_t k = 0; k < i % 20; k++) {
            (void)snprintf(filler[k], sizeof filler[k], "f%zu.%zu", i, k);
            set(&all[i], filler[k], value_int(999));
        }
        set(&all[i], "x", value_int((int64_t)i));
        if (i % 3)
            set(&all[i], "y", value_int(1));
        (void)finish(&all[i]);
    }
    assert_int_equal(predicate_compile(SLICE_LIT("x % 2 = 0 AND y = 1"), NOW, &p, NULL), 0);
    for (size_t round = 0; round < 20 * N; round++) {
        size_t i = round < 2 * N ? round % N : test_random(&seed) % N;
        assert_int_equal(predicate_test(p, &all[i].event), i % 2 == 0 && i % 3 != 0);
    }
    predicate_destroy(p);
    for (size_t i = 0; i < N; i++)
        drop(&all[i]);
    free(all);
}

/* Many at once pass as they do one by one: of one schema and of several, with every kind of value where a
 * number is asked for. */
static void test_filter(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "n < 5",
        "n <= 5",
        "n > 5",
        "n >= 5",
        "n = 5",
        "n <> 5",
        "n < 0",
        "n >= 0",
        "n <= 9223372036854775807",
        "5 > n",
        "n > 1 AND n < 7",
        "n > 1 AND (n < 7 AND m = 3)",
        "n = -5",
        "n > 2.5",
        "n > 1 OR m = 3",
        "NOT n > 1",
        "n > 1 AND host = 'node17'",
        "other = 5",
    };
    const struct value numbers[] = {value_int(5),           value_int(-5),
                                    value_uint(5),          value_uint(0),
                                    value_uint(UINT64_MAX), value_int(INT64_MAX),
                                    value_int(4),           value_int(6),
                                    value_float(5),         value_float(7),
                                    value_float(NAN),       value_bool(true),
                                    value_none(),           value_text(SLICE_LIT("5"))};
    enum { SAMPLES = 2 * COUNT(numbers) };
    static struct sample samples[SAMPLES];
    struct event events[SAMPLES];
    for (size_t i = 0; i < SAMPLES; i++) { /* each twice: with m before and behind */
        samples[i] = (struct sample){0};
        if (i % 2)
            set(&samples[i], "m", value_int(3));
        if (numbers[i / 2].type == VALUE_NONE)
            set_missing(&samples[i], "n", VALUE_INT);
        else
            set(&samples[i], "n", numbers[i / 2]);
        if (i % 2 == 0)
            set(&samples[i], "m", value_int((int64_t)(i % 4)));
        events[i] = *finish(&samples[i]);
    }
    for (size_t t = 0; t < COUNT(texts); t++) {
        struct predicate *p;
        uint32_t index[SAMPLES], expected[SAMPLES];
        size_t n = 0;
        assert_int_equal(predicate_compile(slice_str(texts[t]), NOW, &p, NULL), 0);
        for (uint32_t i = 0; i < SAMPLES; i++) {
            index[i] = expected[n] = i;
            n += predicate_test(p, &events[i]);
        }
        size_t kept = predicate_filter(p, events, index, SAMPLES);
        if (kept != n || memcmp(index, expected, n * sizeof *index) != 0)
            fail_msg("%s: %zu pass, not %zu", texts[t], kept, n);
        assert_int_equal(predicate_filter(p, events, index, 0), 0);
        predicate_destroy(p);
    }
    for (size_t i = 0; i < SAMPLES; i++)
        drop(&samples[i]);
}

static void test_large_in(void **state)
{
    (void)state;
    struct strbuf numbers = {0}, texts = {0};
    strbuf_add_str(&numbers, "x IN (");
    strbuf_add_str(&texts, "x IN (");
    for (unsigned i = 0; i < PREDICATE_IN_MAX; i++) {
        unsigned v = (i * 2654435761u) % 8192; /* odd multiplier: all different, in no order */
        strbuf_printf(&numbers, "%s%u", i ? "," : "", v);
        strbuf_printf(&texts, "%s'%u'", i ? "," : "", v);
    }
    strbuf_add_str(&numbers, ")");
    strbuf_add_str(&texts, ")");
    struct predicate *p, *q;
    assert_int_equal(predicate_compile(strbuf_slice(&numbers), NOW, &p, NULL), 0);
    assert_int_equal(predicate_compile(strbuf_slice(&texts), NOW, &q, NULL), 0);
    bool listed[8192] = {false};
    for (unsigned i = 0; i < PREDICATE_IN_MAX; i++)
        listed[(i * 2654435761u) % 8192] = true;
    struct sample n = {0}, t = {0};
    char word[8];
    set(&n, "x", value_int(0));
    set(&t, "x", value_text(SLICE_LIT("")));
    (void)finish(&n);
    (void)finish(&t);
    for (unsigned i = 0; i < 8192; i++) {
        n.values[0] = i & 1 ? value_int(i) : value_float(i);
        (void)snprintf(word, sizeof word, "%u", i);
        t.values[0] = value_text(slice_str(word));
        assert_int_equal(predicate_test(p, &n.event), listed[i]);
        assert_int_equal(predicate_test(q, &t.event), listed[i]);
    }
    predicate_destroy(p);
    predicate_destroy(q);
    drop(&n);
    drop(&t);
    strbuf_fini(&numbers);
    strbuf_fini(&texts);
}

/* --- refused --- */

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t col;
        const char *says;
    } cases[] = {
        {"", 1, "empty"},
        {"  ", 3, "empty"},
        {"size >", 7, "ends where"},
        {"AND ok", 1, "\"AND\""},
        {"in > 5", 1, "\"in\""},
        {"size = = 5", 8, "before ="},
        {"size = 5 host = 'x'", 10, "an operator"},
        {"size BETWEN 1 AND 2", 6, "did you mean BETWEEN?"},
        {"host LIEK 'a%'", 6, "did you mean LIKE?"},
        {"size = 5 adn ok", 10, "did you mean AND?"},
        {"(size = 5", 10, "missing ): the ( at column 1"},
        {"size = 5)", 9, "closes nothing"},
        {"size IN (1, 2", 14, "missing ): the ( at column 9"},
        {"size IN 1", 9, "in parentheses"},
        {"size IN ()", 10, "list of constants"},
        {"size IN (1, other)", 13, "constants"},
        {"size IN (-'a')", 11, "constants"},
        {"(1, 2) = 3", 3, "only after IN"},
        {"1, 2", 2, "only after IN"},
        {"host = 'node17", 8, "this ' is not closed"},
        {"\"host = 5", 1, "this \" is not closed"},
        {"host = \"a b\"", 8, "text is quoted with '"},
        {"\"\" = 5", 1, "no field's name"},
        {"size && ok", 6, "write AND"},
        {"size || ok", 6, "write OR"},
        {"!ok", 1, "write NOT"},
        {"host =~ 'a'", 6, "LIKE"},
        {"size = 5;", 9, "leave it out"},
        {"size = 5 -- note", 10, "comment"},
        {"size = 5 /* note */", 10, "comment"},
        {"net:eth0 = 5", 4, "double quotes"},
        {"$host = 'a'", 1, "\"$host\""},
        {"size = .5", 8, "0.5"},
        {"size = 5.", 8, "not a number"},
        {"size = 10k", 8, "not a number"},
        {"src = 10.0.0.1", 7, "quoted with '"},
        {"time > now-15m", 12, "quoted with '"},
        {"size = \x01", 8, "0x01"},
        {"size = \xc3\xa9", 8, "0xc3"},
        {"size = #5", 8, "unexpected #"},
        {"file = '\xff'", 8, "UTF-8"},
        {"key = x'0'", 7, "pairs of hex"},
        {"key = x'0g'", 7, "pairs of hex"},
        {"HOST = 'a'", 1, "did you mean host?"},
        {"Level = 'info'", 1, "did you mean level?"},
        {"lower(host) = 'a'", 1, "no functions"},
        {"host = 5", 8, "text is quoted with '"},
        {"5 = host", 5, "never compares"},
        {"host IN ('a', 5)", 15, "never compares"},
        {"host BETWEEN 'a' AND 5", 22, "never compares"},
        {"name = x'00'", 8, "never compares"},
        {"(size = 5) = 'yes'", 14, "never compares"},
        {"host", 1, "no condition"},
        {"'text'", 1, "no condition"},
        {"x'00'", 1, "no condition"},
        {"time", 1, "no condition"},
        {"NOT level", 5, "no condition"},
        {"ok AND 'text'", 8, "no condition"},
        {"host OR ok", 1, "no condition"},
        {"host + 1 > 5", 1, "calculated"},
        {"1 + 'a' > 5", 5, "calculated"},
        {"-host = 5", 2, "calculated"},
        {"time + 5 > 7", 1, "'now-15m'"},
        {"size + time > 7", 8, "'now-15m'"},
        {"level + 1 = 5", 1, "calculated"},
        {"level = 'warnign'", 9, "did you mean 'warning'?"},
        {"level IN ('info', 'eror')", 19, "did you mean 'error'?"},
        {"level = 'loud'", 9, "emergency"},
        {"level = 5", 9, "level's name"},
        {"level < size", 9, "level's name"},
        {"level LIKE 'w%'", 1, "level IN"},
        {"time = 'yesterday'", 8, "'now-15m'"},
        {"time = ''", 8, "no time"},
        {"time > size", 8, "constant"},
        {"time > TRUE", 8, "constant"},
        {"time = x'00'", 8, "constant"},
        {"time = level", 8, "constant"},
        {"time > 1794776400000", 8, "1677"},
        {"time > 1e300", 8, "1677"},
        {"time > '3000-01-01'", 8, "1677"},
        {"time LIKE '2026%'", 1, "BETWEEN"},
        {"5 LIKE '5'", 1, "for text"},
        {"host LIKE size", 11, "in quotes"},
        {"host GLOB 5", 11, "in quotes"},
        {"host LIKE 'a!' ESCAPE '!'", 11, "nothing behind"},
        {"host LIKE 'a' ESCAPE", 21, "one character"},
        {"host LIKE 'a' ESCAPE '!!'", 22, "one ASCII character"},
        {"host GLOB 'a' ESCAPE '!'", 15, "an operator"},
        {"host GLOB 'a[b'", 11, "not closed"},
        {"host GLOB '[]'", 11, "not closed"},
        {"size IS 5", 9, "NULL or NOT NULL"},
        {"size NOT = 5", 10, "behind NOT"},
        {"size NOT", 9, "behind NOT"},
        {"size = NOT ok", 8, "parentheses"},
        {"size BETWEEN 1", 15, "two bounds"},
        {"size BETWEEN 1 OR 2", 16, "two bounds"},
        {"WHERE ok", 7, "an operator"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct predicate *p = NULL;
        struct diag why = {.line = 42};
        int r = predicate_compile(slice_str(cases[i].text), NOW, &p, &why);
        if (r != E_PROTO || why.col != cases[i].col || !strstr(why.message, cases[i].says))
            fail_msg("%s\nreturned %d, column %u (not %u): %s", cases[i].text, r, (unsigned)why.col,
                     (unsigned)cases[i].col, r < 0 ? why.message : "");
        assert_null(p);
        assert_int_equal(why.line, 42);
        assert_int_equal(predicate_compile(slice_str(cases[i].text), NOW, &p, NULL), E_PROTO);
    }
}

static int compile_strbuf(struct strbuf *b, struct diag *why)
{
    struct predicate *p = NULL;
    *why = (struct diag){0};
    assert_false(strbuf_failed(b));
    int r = predicate_compile(strbuf_slice(b), NOW, &p, why);
    if (r < 0)
        assert_true(why->message[0] && why->col >= 1 && why->col <= b->n + 1);
    predicate_destroy(p);
    strbuf_reset(b);
    return r;
}

static void add_times(struct strbuf *b, const char *z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        strbuf_add_str(b, z);
}

static void test_limits(void **state)
{
    (void)state;
    struct strbuf b = {0};
    struct diag why;
    strbuf_add_str(&b, "ok");
    add_times(&b, " ", PREDICATE_TEXT_MAX - 2);
    assert_int_equal(compile_strbuf(&b, &why), 0);
    add_times(&b, " ", PREDICATE_TEXT_MAX + 1);
    assert_int_equal(compile_strbuf(&b, &why), E_LIMIT);

    static const char *const nests[][2] = {{"(", ")"}, {"NOT ", ""}, {"- ", ""}};
    for (size_t i = 0; i < COUNT(nests); i++)
        for (size_t over = 0; over <= 1; over++) {
            add_times(&b, nests[i][0], PREDICATE_DEPTH_MAX + over);
            strbuf_add_str(&b, "ok");
            add_times(&b, nests[i][1], PREDICATE_DEPTH_MAX + over);
            assert_int_equal(compile_strbuf(&b, &why), over ? E_LIMIT : 0);
        }
    add_times(&b, "(", 60000); /* far too deep is no deeper than the limit */
    assert_int_equal(compile_strbuf(&b, &why), E_LIMIT);

    /* a chain of n operands has 2n - 1 nodes */
    static const char *const chains[] = {" AND x", " OR x", "+x", "=x"};
    for (size_t i = 0; i < COUNT(chains); i++)
        for (size_t over = 0; over <= 1; over++) {
            strbuf_add_str(&b, "x");
            add_times(&b, chains[i], (PREDICATE_NODES_MAX - 1) / 2 + over);
            assert_int_equal(compile_strbuf(&b, &why), over ? E_LIMIT : 0);
        }

    for (size_t over = 0; over <= 1; over++) {
        strbuf_add_str(&b, "x IN (0");
        add_times(&b, ",1", PREDICATE_IN_MAX - 1 + over);
        strbuf_add_str(&b, ")");
        assert_int_equal(compile_strbuf(&b, &why), over ? E_LIMIT : 0);

        strbuf_add_str(&b, "x LIKE '%' AND y GLOB '");
        add_times(&b, "a", PREDICATE_PATTERN_MAX - 1 + over);
        strbuf_add_str(&b, "'");
        assert_int_equal(compile_strbuf(&b, &why), over ? E_LIMIT : 0);

        add_times(&b, "n", EVENT_NAME_MAX + over);
        assert_int_equal(compile_strbuf(&b, &why), over ? E_LIMIT : 0);

        strbuf_add_str(&b, "f0");
        for (unsigned i = 1; i < PREDICATE_FIELDS_MAX + over; i++)
            strbuf_printf(&b, " OR f%u", i);
        assert_int_equal(compile_strbuf(&b, &why), over ? E_LIMIT : 0);
    }
    strbuf_fini(&b);
}

/* A chain with its deciding term last, first, or nowhere: each jump lands. */
static void test_chains(void **state)
{
    (void)state;
    struct sample s;
    const struct event *e = usual(&s);
    for (size_t hit = 0; hit <= 200; hit++) {
        struct strbuf any = {0}, all = {0};
        for (size_t i = 0; i < 200; i++) {
            strbuf_printf(&any, "%ssize = %s", i ? " OR " : "", i == hit ? "4096" : "1");
            strbuf_printf(&all, "%ssize != %s", i ? " AND " : "", i == hit ? "4096" : "1");
        }
        assert_int_equal(truth_of(any.p, e), hit < 200 ? 'T' : 'F');
        assert_int_equal(truth_of(all.p, e), hit < 200 ? 'F' : 'T');
        strbuf_fini(&any);
        strbuf_fini(&all);
    }
    drop(&s);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct strbuf text = {0};
    strbuf_add_str(&text, "host = 'a' AND x LIKE 'a%' AND time > 'now' AND k = x'00ff' AND (");
    for (unsigned i = 0; i < 40; i++)
        strbuf_printf(&text, "f%u IN (1, 'a', %u) OR ", i, i);
    strbuf_add_str(&text, "y GLOB 'b*')");
    struct predicate *p = NULL;
    int r = -ENOMEM;
    uint64_t n = 0;
    while (r == -ENOMEM) {
        struct diag why = {0};
        mem_fail_after(++n);
        r = predicate_compile(strbuf_slice(&text), NOW, &p, &why);
        mem_fail_after(0);
        if (r < 0) {
            assert_int_equal(r, -ENOMEM);
            assert_null(p);
            assert_true(why.message[0]);
        }
    }
    assert_int_equal(r, 0);
    assert_true(n > 5);
    /* and evaluation takes none: the very next allocation would fail */
    struct sample s;
    const struct event *e = usual(&s);
    mem_fail_after(1);
    assert_false(predicate_test(p, e));
    assert_null(mem_try_alloc(1));
    predicate_destroy(p);
    drop(&s);
    strbuf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truth_table),  cmocka_unit_test(test_logic_trees),
        cmocka_unit_test(test_nulls),        cmocka_unit_test(test_types),
        cmocka_unit_test(test_number_order), cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_precedence),   cmocka_unit_test(test_like),
        cmocka_unit_test(test_glob),         cmocka_unit_test(test_heads),
        cmocka_unit_test(test_level),        cmocka_unit_test(test_time),
        cmocka_unit_test(test_two_types),    cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_filter),       cmocka_unit_test(test_large_in),
        cmocka_unit_test(test_errors),       cmocka_unit_test(test_limits),
        cmocka_unit_test(test_chains),       cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_classes_of_fields), cmocka_unit_test(test_class_changes),
        cmocka_unit_test(test_notices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
