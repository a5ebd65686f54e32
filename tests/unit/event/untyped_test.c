/* SPDX-License-Identifier: Apache-2.0 */
/* What a text means, by the way it comes: spellings x {bare and quoted ULM and BP, JSON number and string, k=v}. The
 * expectation is this test's own: it builds each spelling from parts and so knows whether it is a number. */
#include "unit/event/codec.h"

#include "event/class.h"
#include "event/encodings.h"

#include <math.h>

struct spelling {
    char text[64];
    bool is_number; /* as people and printf write numbers */
    bool is_json;   /* a number of JSON's grammar */
    double number;
};

enum way { ULM_BARE, ULM_QUOTED, BP_BARE, BP_QUOTED, JSON_BARE, JSON_QUOTED, WORD, WAYS };
static const char *const way_names[] = {"ULM, bare",    "ULM, quoted",  "BP, bare", "BP, quoted",
                                        "JSON, number", "JSON, string", "k=v"};

static const struct encoding *encoding_of(enum way way)
{
    return way <= ULM_QUOTED ? &encoding_ulm : way <= BP_QUOTED ? &encoding_bp : &encoding_ndjson;
}

static struct batch *read(enum way way, const char *text, struct registry *r)
{
    struct strbuf line = {0};
    const char *quote = way == ULM_QUOTED || way == BP_QUOTED || way == JSON_QUOTED ? "\"" : "";
    const char *form = way <= ULM_QUOTED  ? "DATE=20261115212028 NL.EVNT=e V=%s%s%s\n"
                       : way <= BP_QUOTED ? "ts=2026-11-15T21:20:28Z event=e V=%s%s%s\n"
                                          : "{\"time\":\"2026-11-15T21:20:28Z\",\"name\":\"e\",\"V\":%s%s%s}\n";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    strbuf_printf(&line, form, quote, text, quote);
#pragma GCC diagnostic pop
    struct batch *b = codec_decode(encoding_of(way), r, strbuf_slice(&line));
    strbuf_fini(&line);
    return b;
}

static bool same_number(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static double as_double(struct value v)
{
    return v.type == VALUE_INT ? (double)v.i : v.type == VALUE_UINT ? (double)v.u : v.f;
}

/* The columns f of both classes, as the table of the design has them. */
static void check_value(const struct spelling *s, enum way way, struct value v)
{
    char buf[VALUE_SPELLING_MAX];
    bool is_quoted = way == ULM_QUOTED || way == BP_QUOTED || way == JSON_QUOTED;
    bool is_plus = strchr(s->text, '+') != NULL && way != JSON_QUOTED;
    bool is_number = way == JSON_BARE || (s->is_number && (!is_quoted || is_plus));
    struct value number = class_value(CLASS_NUMBER, v, buf);
    if ((number.type != VALUE_NONE && number.type != VALUE_BOOL) != is_number)
        fail_msg("%s (%s): is %s", s->text, way_names[way], value_type_name(v.type));
    if (is_number && !same_number(as_double(number), s->number))
        fail_msg("%s (%s): is %.17g", s->text, way_names[way], as_double(number));
    struct slice text = value_slice(class_value(CLASS_TEXT, v, buf));
    bool keeps = way != JSON_BARE || s->is_number; /* else the float that JSON promises */
    if (keeps && !slice_eq_str(text, s->text))
        fail_msg("%s (%s): its text is %.*s", s->text, way_names[way], SLICE_ARG(text));
}

/* Through every encoding and back. */
static void check_trips(struct registry *r, const struct batch *b)
{
    for (size_t i = 0; encoding_at(i); i++)
        if (encoding_at(i)->decoder)
            codec_round_trip(encoding_at(i), r, b);
}

static void check(const struct spelling *s)
{
    struct registry *r = registry_create();
    for (enum way way = 0; way < WAYS; way++) {
        bool is_bare = way == ULM_BARE || way == BP_BARE;
        if ((is_bare && (!*s->text || strpbrk(s->text, " \"="))) || (way == JSON_BARE && !s->is_json))
            continue;
        if (way == WORD) {
            check_value(s, way, value_untyped(slice_str(s->text)));
            continue;
        }
        struct batch *b = read(way, s->text, r);
        check_value(s, way, event_get(&b->events[0], SLICE_LIT("V")));
        check_trips(r, b);
        batch_unref(b);
    }
    registry_destroy(r);
}

static size_t below(uint64_t *seed, size_t n)
{
    return (size_t)(test_random(seed) % n);
}

static void add_digits(uint64_t *seed, struct spelling *s, size_t n)
{
    size_t at = strlen(s->text);
    for (size_t i = 0; i < n; i++)
        s->text[at++] = (char)('0' + below(seed, 10));
}

static void add(struct spelling *s, const char *text)
{
    memcpy(s->text + strlen(s->text), text, strlen(text));
}

/* [sign] whole [. fraction] [e [sign] digits], any part of which may be missing, and leading zeros now and then. */
static struct spelling random_number(uint64_t *seed)
{
    static const char *const signs[] = {"", "", "-", "+"};
    struct spelling s = {0};
    const char *sign = signs[below(seed, 4)], *exponent_sign = signs[1 + below(seed, 3)];
    size_t n_whole = below(seed, 5) ? 1 + below(seed, 18) : 0, n_fraction = below(seed, 12);
    bool has_point = below(seed, 3) > 0, has_exponent = below(seed, 3) == 0, has_zeros = below(seed, 5) == 0;
    add(&s, sign);
    if (n_whole && has_zeros)
        add(&s, "0");
    else if (n_whole > 1)
        s.text[strlen(s.text)] = (char)('1' + below(seed, 9)), n_whole--;
    add_digits(seed, &s, n_whole);
    bool is_led = has_zeros && n_whole > 0; /* 0 and at least one digit behind it */
    size_t whole = strlen(s.text) - strlen(sign);
    if (has_point) {
        add(&s, ".");
        add_digits(seed, &s, n_fraction);
    }
    size_t digits = whole + (has_point ? n_fraction : 0);
    if (has_exponent) {
        add(&s, below(seed, 2) ? "e" : "E");
        add(&s, exponent_sign);
        add_digits(seed, &s, 1 + below(seed, 2));
    }
    s.number = strtod(s.text, NULL);
    bool is_int = !has_point && !has_exponent && *sign != '+' && strcmp(s.text, "-0") != 0;
    bool has_exponent_sign = has_exponent && *exponent_sign;
    s.is_number = digits > 0 && !is_led && (has_point || has_exponent_sign || is_int || strcmp(s.text, "-0") == 0);
    if (digits > 0 && !is_led && has_exponent && !has_point && !*exponent_sign) { /* canonical, as 2e22, or a name */
        char buf[VALUE_SPELLING_MAX];
        struct value v = value_float(s.number);
        s.is_number = slice_eq_str(value_spelling(&v, buf), s.text);
    }
    s.is_json = *sign != '+' && whole > 0 && !is_led && (!has_point || n_fraction > 0);
    return s;
}

static void test_random_numbers(void **state)
{
    (void)state;
    uint64_t seed = 4711;
    for (unsigned i = 0; i < 2000 * test_scale(); i++) {
        struct spelling s = random_number(&seed);
        if (*s.text)
            check(&s);
    }
}

static void test_table(void **state)
{
    (void)state;
    static const struct spelling table[] = {
        {"17", true, true, 17},
        {"-9223372036854775808", true, true, -9223372036854775808.0},
        {"18446744073709551615", true, true, 18446744073709551615.0},
        {"17.0", true, true, 17},
        {"0.50", true, true, 0.5},
        {".50", true, false, 0.5},
        {"5.", true, false, 5},
        {"+0.25", true, false, 0.25},
        {"1e-05", true, true, 1e-5},
        {"1e+05", true, true, 1e5},
        {"1.1", true, true, 1.1},
        {"1.10", true, true, 1.1},
        {"-0", true, true, -0.0},
        {"-0.0", true, true, -0.0},
        {"nan", true, false, NAN},
        {"-nan", true, false, NAN},
        {"NaN", true, false, NAN},
        {"inf", true, false, INFINITY},
        {"-inf", true, false, -INFINITY},
        {"-Inf", true, false, -INFINITY},
        {"12e4", false, true, 120000},
        {"080", false, false, 0},
        {"00017", false, false, 0},
        {"+4930123", false, false, 0},
        {"0x1F", false, false, 0},
        {"1.2.3", false, false, 0},
        {"95%", false, false, 0},
        {"-", false, false, 0},
        {"", false, false, 0},
        {"1e", false, false, 0},
        {"12 34", false, false, 0},
        {"\xc2\xbd", false, false, 0},
        {"\xd9\xa1\xd9\xa2", false, false, 0},
        {"1.5\xc2\xb5s", false, false, 0},
        {"truth", false, false, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check(&table[i]);
}

static void test_types(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint8_t type;
    } cases[] = {{"17", VALUE_INT},     {"9223372036854775808", VALUE_UINT}, {"17.0", VALUE_FLOAT}, {"0.50", VALUE_NUMBER},
                 {"true", VALUE_BOOL},  {"false", VALUE_BOOL},               {"True", VALUE_TEXT},  {"NaN", VALUE_FLOAT},
                 {"nan", VALUE_NUMBER}, {"none", VALUE_TEXT},                {"Info", VALUE_TEXT},  {"-0", VALUE_NUMBER},
                 {"", VALUE_TEXT},      {"/5", VALUE_TEXT},                  {"(1)", VALUE_TEXT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (value_untyped(slice_str(cases[i].text)).type != cases[i].type)
            fail_msg("%s is not %s", cases[i].text, value_type_name(cases[i].type));
}

/* Readers of bytes refuse a number that is none, or that has a type of its own. */
static void test_allowed(void **state)
{
    (void)state;
    assert_true(value_text_is_allowed(VALUE_NUMBER, SLICE_LIT("0.50")));
    static const char *const bad[] = {"", "17", "1.5", "NaN", "080", "x", "true", "\xff", "0.50 "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(value_text_is_allowed(VALUE_NUMBER, slice_str(bad[i])));
        struct registry *r = registry_create();
        struct batch_builder *builder = batch_builder_create(r, 0);
        const struct named_value v = {SLICE_LIT("v"), {.p = bad[i], .n = (uint32_t)strlen(bad[i]), .type = VALUE_NUMBER}};
        const struct event_head head = {.time_ns = 1, .name = SLICE_LIT("e")};
        struct diag why = {0};
        struct strbuf bytes = {0};
        assert_int_equal(batch_builder_add(builder, &head, &v, 1, &why), 0); /* what nobody in the program makes */
        struct batch *b = batch_builder_finish(builder, NULL);
        codec_encode(&encoding_binary, b, &bytes);
        assert_int_equal(codec_error(&encoding_binary, r, strbuf_slice(&bytes), &why), E_PROTO);
        assert_non_null(strstr(why.message, "number"));
        batch_unref(b);
        strbuf_fini(&bytes);
        batch_builder_destroy(builder);
        registry_destroy(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types), cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_random_numbers), cmocka_unit_test(test_allowed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
