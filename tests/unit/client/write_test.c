/* SPDX-License-Identifier: Apache-2.0 */
/* gridline_write, its formats, and gridline_write_values. */
#include "unit/client/blocks.h"

#include <float.h>
#include <limits.h>
#include <math.h>

static struct folder folder;
static gridline *g;

static int setup(void **state)
{
    (void)state;
    folder_make(&folder);
    g = gridline_open("write", folder_file(&folder, "log.glb"), 0);
    assert_non_null(g);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_end(&folder, (const char *const[]){"log.glb", NULL});
    return 0;
}

/* The expected fields of the only event. */
struct expected {
    struct named_value at[40];
    size_t n;
    int64_t time_ns;
};

static void expect(struct expected *x, const char *name, struct value v)
{
    x->at[x->n++] = (struct named_value){slice_str(name), v};
}

static void check(void *arg, const struct batch_origin *o, uint64_t seq, const struct event *e)
{
    struct expected *x = arg;
    (void)o;
    (void)seq;
    size_t n = 0;
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        n += e->values[i].type != VALUE_NONE;
    assert_int_equal(n, x->n);
    for (size_t i = 0; i < x->n; i++)
        if (!value_eq(event_get(e, x->at[i].name), x->at[i].value))
            fail_msg("field %.*s", SLICE_ARG(x->at[i].name));
    if (x->time_ns)
        assert_int_equal(e->time_ns, x->time_ns);
}

static void close_and_check(struct expected *x)
{
    assert_int_equal(stats_of(g).dropped, 0);
    gridline_close(g);
    assert_int_equal(each_in(folder.path, check, x), 1);
}

static void test_integers(void **state)
{
    (void)state;
    struct expected x = {0};
    assert_int_equal(
        gridline_write(g, GRIDLINE_INFO, "ints",
                       "d=%d i=%i hh=%hhd h=%hd l=%ld ll=%lld z=%zd j=%jd t=%td u=%u x=%x uhh=%hhu uh=%hu "
                       "ul=%lu ull=%llu uz=%zu uj=%ju w=%5d",
                       INT32_MIN, INT32_MAX, (signed char)-128, (short)-32768, LONG_MIN, LLONG_MIN,
                       (ssize_t)-1, INTMAX_MIN, (ptrdiff_t)-5, UINT32_MAX, 0xffu, (unsigned char)255,
                       (unsigned short)65535, ULONG_MAX, ULLONG_MAX, SIZE_MAX, UINTMAX_MAX, 7),
        0);
    expect(&x, "d", value_int(INT32_MIN));
    expect(&x, "i", value_int(INT32_MAX));
    expect(&x, "hh", value_int(-128));
    expect(&x, "h", value_int(-32768));
    expect(&x, "l", value_int(LONG_MIN));
    expect(&x, "ll", value_int(LLONG_MIN));
    expect(&x, "z", value_int(-1));
    expect(&x, "j", value_int(INT64_MIN));
    expect(&x, "t", value_int(-5));
    expect(&x, "u", value_uint(UINT32_MAX));
    expect(&x, "x", value_uint(255));
    expect(&x, "uhh", value_uint(255));
    expect(&x, "uh", value_uint(65535));
    expect(&x, "ul", value_uint(ULONG_MAX));
    expect(&x, "ull", value_uint(ULLONG_MAX));
    expect(&x, "uz", value_uint(SIZE_MAX));
    expect(&x, "uj", value_uint(UINT64_MAX));
    expect(&x, "w", value_int(7));
    close_and_check(&x);
}

static void test_text_and_floats(void **state)
{
    (void)state;
    struct expected x = {0};
    const char *none = NULL;
    assert_int_equal(
        gridline_write(g, GRIDLINE_INFO, "text",
                       " f=%f g=%g e=%e p3=%.3f L=%Lf  c=%c s=%s cut=%.*s short=%.2s p=%p null=%p state=ok "
                       "empty= none=%s ",
                       0.1, -DBL_MAX, INFINITY, 0.12345, 1.5L, 'x', "with blank", 3, "abcdef", "xyz",
                       (void *)0xdeadbeef, NULL, none),
        0);
    expect(&x, "f", value_float(0.1));
    expect(&x, "g", value_float(-DBL_MAX));
    expect(&x, "e", value_float(INFINITY));
    expect(&x, "p3", value_float(0.12345)); /* a precision is how it looks, not what it is */
    expect(&x, "L", value_float(1.5));
    expect(&x, "c", value_text(SLICE_LIT("x")));
    expect(&x, "s", value_text(SLICE_LIT("with blank")));
    expect(&x, "cut", value_text(SLICE_LIT("abc")));
    expect(&x, "short", value_text(SLICE_LIT("xy")));
    expect(&x, "p", value_text(SLICE_LIT("0xdeadbeef")));
    expect(&x, "null", value_text(SLICE_LIT("0x0")));
    expect(&x, "state", value_text(SLICE_LIT("ok")));
    expect(&x, "empty", value_text(SLICE_LIT("")));
    close_and_check(&x);
}

static void test_write_at(void **state)
{
    (void)state;
    struct expected x = {.time_ns = -1234567890123456789};
    assert_int_equal(gridline_write_at(g, x.time_ns, GRIDLINE_INFO, "then", "n=%d", 1), 0);
    expect(&x, "n", value_int(1));
    close_and_check(&x);
}

static void test_values(void **state)
{
    (void)state;
    struct expected x = {.time_ns = 77};
    const struct gridline_value v[] = {
        {.name = "i", .type = 'i', .v.i = -1},
        {.name = "u", .type = 'u', .v.u = UINT64_MAX},
        {.name = "f", .type = 'f', .v.f = -0.0},
        {.name = "b", .type = 'b', .v.u = 3},
        {.name = "t", .type = 't', .v.p = "text", .n = (size_t)-1},
        {.name = "tn", .type = 't', .v.p = "text", .n = 2},
        {.name = "x", .type = 'x', .v.p = "\0\xff", .n = 2},
        {.name = "missing", .type = 't', .v.p = NULL, .n = (size_t)-1},
        {.name = "odd", .type = 't', .v.p = "\xc0", .n = 1},
        {.name = "n", .type = 'n', .v.p = "0.50", .n = (size_t)-1},
        {.name = "ni", .type = 'n', .v.p = "170", .n = 2},
        {.name = "nt", .type = 'n', .v.p = "080", .n = (size_t)-1},
    };
    assert_int_equal(gridline_write_values(g, 77, GRIDLINE_INFO, "values", v, sizeof v / sizeof *v), 0);
    expect(&x, "i", value_int(-1));
    expect(&x, "u", value_uint(UINT64_MAX));
    expect(&x, "f", value_float(-0.0));
    expect(&x, "b", value_bool(true));
    expect(&x, "t", value_text(SLICE_LIT("text")));
    expect(&x, "tn", value_text(SLICE_LIT("te")));
    expect(&x, "x", value_bytes(SLICE_LIT("\0\xff")));
    expect(&x, "odd", value_bytes(SLICE_LIT("\xc0"))); /* not UTF-8 */
    expect(&x, "n", (struct value){.p = "0.50", .n = 4, .type = VALUE_NUMBER});
    expect(&x, "ni", value_int(17));
    expect(&x, "nt", value_text(SLICE_LIT("080")));
    close_and_check(&x);
}

/* format is not a literal here, as it must not be checked by the compiler */
static int write_bad(const char *event, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int r = gridline_vwrite(g, GRIDLINE_INFO, event, format, ap);
#pragma GCC diagnostic pop
    va_end(ap);
    return r;
}

static void test_bad_calls(void **state)
{
    (void)state;
    static const char *const bad[] = {"n",    "=%d",    "n=%",     "n=%y",        "n=%dms", "n=a%d",
                                      "n=%%", "n n=%d", "n=%d =1", "bad,name=%d", "n=%l",   "n=%."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(write_bad("e", bad[i], 1, 2), -EINVAL);
    assert_int_equal(write_bad("bad name", "n=%d", 1), -EINVAL);
    assert_int_equal(write_bad("", "n=%d", 1), -EINVAL);
    assert_int_equal(write_bad(NULL, "n=%d", 1), -EINVAL);
    assert_int_equal(write_bad("e", NULL), -EINVAL);
    assert_int_equal(gridline_write(g, 14, "e", "n=%d", 1), -EINVAL);
    assert_int_equal(gridline_write(g, -1, "e", "n=%d", 1), -EINVAL);
    struct gridline_value v[300];
    for (size_t i = 0; i < 300; i++)
        v[i] = (struct gridline_value){.name = "n", .type = 'i'};
    assert_int_equal(gridline_write_values(g, 0, GRIDLINE_INFO, "e", v, 300), -E2BIG);
    v[0].type = '?';
    assert_int_equal(gridline_write_values(g, 0, GRIDLINE_INFO, "e", v, 1), -EINVAL);
    v[0].name = NULL;
    assert_int_equal(gridline_write_values(g, 0, GRIDLINE_INFO, "e", v, 1), -EINVAL);
    assert_int_equal(gridline_write_values(g, 0, GRIDLINE_INFO, "e", NULL, 1), -EINVAL);
    size_t calls = sizeof bad / sizeof *bad + 10;
    assert_int_equal(stats_of(g).dropped_too_large, calls);
    assert_int_equal(gridline_write_values(g, 0, GRIDLINE_INFO, "e", NULL, 0), 0);
    gridline_close(g);
}

/* Every field a schema may have, and texts that together just fit, or just do not. */
static void test_large(void **state)
{
    (void)state;
    struct gridline_value v[256];
    char names[256][8];
    for (size_t i = 0; i < 256; i++) {
        (void)snprintf(names[i], sizeof names[i], "f%zu", i);
        v[i] = (struct gridline_value){.name = names[i], .type = 'u', .v.u = i};
    }
    assert_int_equal(gridline_write_values(g, 0, GRIDLINE_INFO, "wide", v, 256), 0);
    char *text = test_malloc(65537);
    memset(text, 'x', 65537);
    for (size_t i = 0; i < 4; i++)
        v[i] = (struct gridline_value){.name = names[i], .type = 't', .v.p = text, .n = 65536};
    assert_int_equal(gridline_write_values(g, 0, GRIDLINE_INFO, "most", v, 3), 0);
    assert_int_equal(gridline_flush(g, 1000), 0);
    assert_int_equal(stats_of(g).passed, 2);
    assert_int_equal(gridline_write_values(g, 0, GRIDLINE_INFO, "more", v, 4), -ENOBUFS);
    v[0].n = 65537;
    assert_int_equal(gridline_write_values(g, 0, GRIDLINE_INFO, "long", v, 1), -E2BIG);
    assert_int_equal(stats_of(g).dropped_too_large, 2);
    test_free(text);
    gridline_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_integers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text_and_floats, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_at, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
