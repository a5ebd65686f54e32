/* SPDX-License-Identifier: Apache-2.0 */
/* What a selector gives, for each option and each edge of it; long random series against a second, plain
 * implementation; and that it stays within its bound. */
#include "unit/test.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "event/select.h"
#include "unit/event/classes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define SECOND    INT64_C(1000000000)
#define SPEC(...) (&(const struct select_spec){__VA_ARGS__})
#define TEXT(z)             \
    {                       \
        "" z, sizeof(z) - 1 \
    }

#define FIELD(z, t, r)                                                                    \
    {                                                                                     \
        .name = {z, sizeof z - 1}, .unit = {"", 0}, .help = {"", 0}, .type = t, .role = r \
    }

/* `v` has several types: an event sets one of them. */
static const struct field fields[] = {
    FIELD("device", VALUE_TEXT, ROLE_KEY), FIELD("v", VALUE_FLOAT, ROLE_VALUE),
    FIELD("v", VALUE_INT, ROLE_VALUE),     FIELD("v", VALUE_UINT, ROLE_VALUE),
    FIELD("v", VALUE_BOOL, ROLE_VALUE),    FIELD("v", VALUE_TEXT, ROLE_VALUE),
    FIELD("w", VALUE_INT, ROLE_VALUE),     FIELD("w", VALUE_FLOAT, ROLE_VALUE),
    FIELD("t", VALUE_TEXT, ROLE_VALUE),    FIELD("t", VALUE_BYTES, ROLE_VALUE),
    FIELD("a:b", VALUE_INT, ROLE_VALUE),   FIELD("v", VALUE_NUMBER, ROLE_VALUE),
};
enum { FIELDS = sizeof fields / sizeof *fields };

static struct schema *cpu, *cpu_reversed, *disk;

static int make_schemas(void **state)
{
    (void)state;
    struct field reversed[FIELDS];
    for (size_t i = 0; i < FIELDS; i++)
        reversed[i] = fields[FIELDS - 1 - i];
    assert_int_equal(schema_create(SLICE_LIT("cpu"), fields, FIELDS, &cpu), 0);
    assert_int_equal(schema_create(SLICE_LIT("cpu"), reversed, FIELDS, &cpu_reversed), 0);
    assert_int_equal(schema_create(SLICE_LIT("disk"), fields, FIELDS, &disk), 0);
    return 0;
}

static int drop_schemas(void **state)
{
    (void)state;
    schema_unref(cpu);
    schema_unref(cpu_reversed);
    schema_unref(disk);
    return 0;
}

/* An event with room for its values; of host h and prog p. */
struct sample {
    struct event e;
    struct value values[FIELDS];
};

static struct sample *sample_of(struct sample *s, const struct schema *schema)
{
    *s = (struct sample){.e = {.host = SLICE_LIT("h"), .prog = SLICE_LIT("p"), .schema = schema}};
    s->e.values = s->values;
    return s;
}

static void set(struct sample *s, const char *name, struct value v)
{
    if (v.type == VALUE_NONE)
        return;
    int at = schema_find(s->e.schema, slice_str(name), v.type);
    assert_true(at >= 0);
    s->values[at] = v;
}

static struct selector *make(const struct select_spec *spec)
{
    struct selector *s = NULL;
    struct diag why = {0};
    if (selector_create(spec, 0, &s, &why) < 0)
        fail_msg("%s", why.message);
    return s;
}

/* Does an event of `cpu` with this v pass? */
static bool give(struct selector *s, struct value v)
{
    struct sample x;
    set(sample_of(&x, cpu), "v", v);
    return selector_test(s, &x.e);
}

static bool give_at(struct selector *s, int64_t time_ns)
{
    struct sample x;
    sample_of(&x, cpu)->e.time_ns = time_ns;
    return selector_test(s, &x.e);
}

static bool give_from(struct selector *s, const struct schema *schema, const char *host)
{
    struct sample x;
    sample_of(&x, schema)->e.host = slice_str(host);
    return selector_test(s, &x.e);
}

static void everything(void **state)
{
    (void)state;
    struct selector *all = make(SPEC(.every = TEXT(""))),
                    *stars = make(SPEC(.events = TEXT("*"), .hosts = TEXT("*")));
    assert_true(selector_is_all(all));
    assert_true(selector_is_all(stars));
    assert_false(selector_remembers(all));
    assert_true(give(all, value_none()));
    assert_true(selector_wants_event(all, SLICE_LIT("x")));
    assert_true(selector_wants_host(all, SLICE_LIT("")));
    selector_destroy(all);
    selector_destroy(stars);
    selector_destroy(NULL);
}

static void patterns(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.events = TEXT("cp?,net*"), .hosts = TEXT("a*,b[12]")));
    assert_false(selector_is_all(s));
    assert_false(selector_remembers(s));
    assert_true(selector_wants_event(s, SLICE_LIT("network")));
    assert_false(selector_wants_event(s, SLICE_LIT("disk")));
    assert_true(selector_wants_host(s, SLICE_LIT("b2")));
    assert_false(selector_wants_host(s, SLICE_LIT("b3")));
    for (int round = 0; round < 2; round++) { /* the second time from what it remembers */
        assert_true(give_from(s, cpu, "a"));
        assert_true(give_from(s, cpu, "a"));
        assert_false(give_from(s, disk, "a"));
        assert_true(give_from(s, cpu_reversed, "b1"));
        assert_false(give_from(s, cpu, "b3"));
        assert_false(give_from(s, cpu, ""));
        assert_false(give_from(s, disk, "b1"));
    }
    selector_destroy(s);
}

static void where(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.where = TEXT("v > 3"), .hosts = TEXT("h")));
    assert_false(selector_is_all(s));
    assert_false(give(s, value_int(3)));
    assert_true(give(s, value_int(4)));
    assert_true(give(s, value_float(3.5)));
    assert_false(give(s, value_none()));
    selector_destroy(s);
}

static void on_change(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.on_change = TEXT("t,v")));
    assert_true(selector_remembers(s));
    assert_true(give(s, value_none())); /* the first */
    assert_false(give(s, value_none()));
    assert_true(give(s, value_int(0))); /* comes: missing is not 0 */
    assert_false(give(s, value_uint(0)));
    assert_false(give(s, value_bool(false)));
    assert_false(give(s, value_float(-0.0)));
    assert_true(give(s, value_float(0.5)));
    assert_false(give(s, value_float(0.5)));
    assert_true(give(s, value_int(-1)));
    assert_false(give(s, value_float(-1)));
    assert_true(give(s, value_uint(UINT64_MAX))); /* not -1, whose bits are the same */
    assert_true(give(s, value_float(0x1p64)));
    assert_true(give(s, value_text(SLICE_LIT("-1"))));
    assert_true(give(s, value_text(SLICE_LIT(""))));
    assert_true(give(s, value_none())); /* goes */
    assert_false(give(s, value_float((double)NAN)));
    selector_destroy(s);
}

static void on_change_of_chosen_fields(void **state)
{
    (void)state;
    struct selector *t = make(SPEC(.on_change = TEXT("t"))), *any = make(SPEC(.on_change = TEXT("*")));
    struct sample x, y;
    set(sample_of(&x, cpu), "t", value_text(SLICE_LIT("x")));
    set(&x, "v", value_int(1));
    y = x;
    y.e.values = y.values;
    set(&y, "v", value_int(2));
    assert_true(selector_test(t, &x.e) && selector_test(any, &x.e));
    assert_false(selector_test(t, &y.e));
    assert_true(selector_test(any, &y.e));
    set(sample_of(&y, cpu_reversed), "v", value_int(2)); /* the same in another order of fields */
    set(&y, "t", value_text(SLICE_LIT("x")));
    assert_false(selector_test(t, &y.e) || selector_test(any, &y.e));
    set(sample_of(&y, cpu), "v", value_int(2));
    set(&y, "t", value_bytes(SLICE_LIT("x"))); /* bytes are not text */
    assert_true(selector_test(t, &y.e) && selector_test(any, &y.e));
    set(sample_of(&y, cpu), "t", value_bytes(SLICE_LIT("x")));
    set(&y, "w", value_int(2)); /* the value went to another field */
    assert_true(selector_test(any, &y.e));
    selector_destroy(t);
    selector_destroy(any);
}

/* By the class of the field: numbers by value, texts by their bytes; a class that changes is followed. */
static void on_change_by_class(void **state)
{
    (void)state;
    const struct value half = value_float(0.5), spelt = {.p = "0.50", .n = 4, .type = VALUE_NUMBER};
    struct test_classes classes = {.fields = {{"v", CLASS_NUMBER}}};
    struct diag why;
    struct selector *s = make(SPEC(.on_change = TEXT("v"), .classes = test_classes_source(&classes)));
    assert_true(give(s, half));
    assert_false(give(s, spelt));
    assert_true(give(s, value_text(SLICE_LIT("-")))); /* none */
    assert_false(give(s, value_none()));
    assert_int_equal(classes.source.set(&classes, SLICE_LIT("cpu"), SLICE_LIT("v"), CLASS_TEXT, &why), 0);
    assert_true(give(s, half));
    assert_true(give(s, spelt));
    assert_false(give(s, value_text(SLICE_LIT("0.50"))));
    assert_true(give(s, value_text(SLICE_LIT("-"))));
    selector_destroy(s);
    s = make(SPEC(.on_change = TEXT("v"))); /* without a class as values are */
    assert_true(give(s, half));
    assert_false(give(s, spelt));
    assert_true(give(s, value_text(SLICE_LIT("0.50"))));
    selector_destroy(s);
}

/* WHERE goes by the same classes; a condition that can't hold is told if the event is named. */
static void where_by_class(void **state)
{
    (void)state;
    struct test_classes classes = {.fields = {{"v", CLASS_TEXT}, {"w", CLASS_NUMBER}}};
    struct diag why = {0};
    struct selector *s = make(SPEC(.where = TEXT("v = '17'"), .classes = test_classes_source(&classes)));
    assert_true(give(s, value_int(17)));
    assert_false(give(s, value_float(17)));
    assert_false(selector_notice(s, &why));
    selector_destroy(s);
    s = make(SPEC(.events = TEXT("disk,cpu"), .where = TEXT("w = 'x'"), .classes = &classes.source));
    assert_true(selector_notice(s, &why));
    assert_string_equal(why.message, "w of disk is a number column: text that is no number never passes; \"w:text\" has its text");
    selector_destroy(s);
    s = make(SPEC(.events = TEXT("cpu"), .where = TEXT("w = '5'"), .classes = &classes.source));
    assert_false(selector_notice(s, &why));
    selector_destroy(s);
}

/* Streams do not know of each other. */
static void streams_by_themselves(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.on_change = TEXT("v")));
    struct sample x;
    static const char *const devices[] = {"sda", "sdb"}, *const hosts[] = {"h", "i"};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 16; i++) {
            set(sample_of(&x, i & 1 ? cpu : disk), "v", value_int(5));
            x.e.host = slice_str(hosts[i >> 1 & 1]);
            x.e.prog = slice_str(hosts[i >> 2 & 1]);
            set(&x, "device", value_text(slice_str(devices[i >> 3 & 1])));
            assert_int_equal(selector_test(s, &x.e), round == 0);
        }
    }
    selector_destroy(s);
}

static void cross(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.cross = TEXT("v:10:4")));
    assert_false(give(s, value_int(8))); /* between: counts as below */
    assert_false(give(s, value_float(9.99)));
    assert_true(give(s, value_int(10))); /* at least LEVEL */
    assert_false(give(s, value_int(11)));
    assert_false(give(s, value_none()));
    assert_false(give(s, value_float((double)NAN)));
    assert_false(give(s, value_text(SLICE_LIT("0"))));
    assert_false(give(s, value_int(6))); /* not below LEVEL - HYSTERESIS */
    assert_false(give(s, value_int(12)));
    assert_true(give(s, value_float(5.99)));
    assert_false(give(s, value_int(-1)));
    assert_false(give(s, value_int(9)));
    assert_true(give(s, value_float((double)INFINITY)));
    assert_true(give(s, value_bool(true)));
    selector_destroy(s);
    s = make(SPEC(.cross = TEXT("v:1"))); /* without hysteresis; the first is above */
    assert_false(give(s, value_none()));
    assert_false(give(s, value_bool(true)));
    assert_false(give(s, value_int(1)));
    assert_true(give(s, value_float(0.999)));
    assert_true(give(s, value_uint(UINT64_MAX)));
    selector_destroy(s);
}

/* Where a double would round. */
static void exact_numbers(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.cross = TEXT("v:9007199254740993"))),
                    *d = make(SPEC(.delta = TEXT("v:1")));
    assert_false(give(s, value_int(9007199254740992)));
    assert_true(give(s, value_uint(9007199254740993)));
    assert_true(give(s, value_float(9007199254740992.0)));
    selector_destroy(s);
    s = make(SPEC(.cross = TEXT("v:18446744073709551615")));
    assert_false(give(s, value_uint(UINT64_MAX - 1)));
    assert_true(give(s, value_uint(UINT64_MAX)));
    assert_true(give(s, value_int(-1)));
    selector_destroy(s);
    assert_true(give(d, value_uint(UINT64_MAX)));
    assert_true(give(d, value_uint(UINT64_MAX - 1)));
    assert_false(give(d, value_uint(UINT64_MAX - 1)));
    selector_destroy(d);
}

static void colons_in_names(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.cross = TEXT("a:b:5"))), *h = make(SPEC(.cross = TEXT("a:b:5:1")));
    struct selector *d = make(SPEC(.delta = TEXT("a:b:5")));
    struct sample x;
    set(sample_of(&x, cpu), "a:b", value_int(1));
    assert_false(selector_test(s, &x.e) || selector_test(h, &x.e));
    assert_true(selector_test(d, &x.e));
    set(&x, "a:b", value_int(6));
    assert_true(selector_test(s, &x.e) && selector_test(h, &x.e) && selector_test(d, &x.e));
    set(&x, "a:b", value_int(4));
    assert_true(selector_test(s, &x.e));
    assert_false(selector_test(h, &x.e));
    selector_destroy(s);
    selector_destroy(h);
    selector_destroy(d);
}

static void delta(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.delta = TEXT("v:2.5")));
    assert_false(give(s, value_none()));
    assert_true(give(s, value_int(10))); /* the first with a value */
    assert_false(give(s, value_float(12.4)));
    assert_false(give(s, value_float(7.6)));
    assert_true(give(s, value_float(12.5)));
    assert_false(give(s, value_float(10.1))); /* from the one given last, which is 12.5 */
    assert_false(give(s, value_float((double)NAN)));
    assert_true(give(s, value_float((double)INFINITY)));
    assert_false(give(s, value_float((double)INFINITY)));
    assert_true(give(s, value_float((double)-INFINITY)));
    assert_true(give(s, value_int(0)));
    assert_false(give(s, value_text(SLICE_LIT("9"))));
    selector_destroy(s);
    s = make(SPEC(.delta = TEXT("v:10%")));
    assert_true(give(s, value_int(-100)));
    assert_false(give(s, value_int(-109)));
    assert_false(give(s, value_int(-91)));
    assert_true(give(s, value_int(-110)));
    assert_true(give(s, value_int(0)));
    assert_false(give(s, value_float(-0.0)));
    assert_true(give(s, value_float(1e-300))); /* of 0 anything else is far */
    selector_destroy(s);
}

static void every(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.every = TEXT("10s")));
    assert_true(give_at(s, 100 * SECOND));
    assert_false(give_at(s, 100 * SECOND));
    assert_false(give_at(s, 110 * SECOND - 1));
    assert_true(give_at(s, 110 * SECOND));
    assert_false(give_at(s, 105 * SECOND)); /* a straggler */
    assert_true(give_at(s, 50 * SECOND));   /* the clock was set back */
    assert_true(give_at(s, INT64_MIN));
    assert_true(give_at(s, INT64_MAX));
    selector_destroy(s);
}

/* All have to agree; what one of them holds back is new to the others when its time has come. */
static void together(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.every = TEXT("10s"), .on_change = TEXT("v")));
    static const struct {
        int64_t at, v;
        bool is_given;
    } changes[] = {{0, 1, true},   {1, 2, false}, {11, 2, true},  {12, 3, false}, {13, 2, false},
                   {30, 2, false}, {31, 4, true}, {40, 5, false}, {41, 5, true}};
    struct sample x;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        set(sample_of(&x, cpu), "v", value_int(changes[i].v));
        x.e.time_ns = changes[i].at * SECOND;
        assert_int_equal(selector_test(s, &x.e), changes[i].is_given);
    }
    selector_destroy(s);
    s = make(SPEC(.every = TEXT("10s"), .cross = TEXT("v:5"), .where = TEXT("w IS NULL")));
    static const struct {
        int64_t at, v;
        bool is_hidden, is_given;
    } crossings[] = {{0, 1, false, false}, {1, 9, true, false},  {2, 9, false, true},  {3, 1, false, false},
                     {4, 9, false, false}, {5, 1, false, false}, {12, 1, false, true}, {13, 1, false, false}};
    for (size_t i = 0; i < sizeof crossings / sizeof *crossings; i++) {
        set(sample_of(&x, cpu), "v", value_int(crossings[i].v));
        if (crossings[i].is_hidden)
            set(&x, "w", value_int(1));
        x.e.time_ns = crossings[i].at * SECOND;
        assert_int_equal(selector_test(s, &x.e), crossings[i].is_given);
    }
    selector_destroy(s);
}

/* --- against a second implementation --- */

enum { STREAMS = 5, EVENTS = 4000 };

/* A walk that lingers about 10, with noise; missing now and then. One of the types, where it fits. */
static struct value next_value(uint64_t *seed, double *walk)
{
    uint64_t r = test_random(seed);
    *walk += (double)(int64_t)(r % 201) / 100 - 1 + (*walk > 14 ? -0.3 : *walk < 6 ? 0.3 : 0);
    switch (r >> 32 & 7) {
    case 0:
        return value_none();
    case 1:
        return value_float((double)NAN);
    case 2:
        return value_int((int64_t)*walk);
    case 3:
        return value_uint(*walk > 0 ? (uint64_t)*walk : 0);
    default:
        return value_float(*walk);
    }
}

static bool plain_number(struct value v, double *out)
{
    *out = v.type == VALUE_FLOAT ? v.f : v.type == VALUE_INT ? (double)v.i : (double)v.u;
    return v.type != VALUE_NONE && !isnan(*out);
}

/* One stream's, as the header says it, in small numbers only. */
struct plain {
    bool is_known, is_above, was_given, had_value;
    double number;
    int64_t time_ns;
};

struct plain_options {
    bool has_cross, has_delta, has_change, is_relative;
    double level, hysteresis, amount;
    int64_t every_ns;
};

static bool plain_test(const struct plain_options *o, struct plain *p, struct value v, int64_t time_ns)
{
    double x;
    bool has = plain_number(v, &x), was_above = p->is_above, is_above = was_above;
    if (o->has_cross) {
        if (!has)
            return false;
        is_above = x >= o->level || (was_above && x >= o->level - o->hysteresis);
        if (!p->is_known) {
            p->is_known = true;
            p->is_above = x >= o->level;
            return false;
        }
        if (is_above == was_above)
            return false;
    }
    if (o->has_delta) {
        if (!has)
            return false;
        double least = o->is_relative ? o->amount / 100 * fabs(p->number) : o->amount;
        if (p->was_given && fabs(x - p->number) < least)
            return false;
    }
    if (o->has_change && p->was_given && p->had_value == has && (!has || p->number == x))
        return false;
    if (o->every_ns && p->was_given && llabs(time_ns - p->time_ns) < o->every_ns)
        return false;
    *p = (struct plain){.is_known = p->is_known,
                        .is_above = is_above,
                        .was_given = true,
                        .had_value = has,
                        .number = has ? x : 0,
                        .time_ns = time_ns};
    return true;
}

static void random_series(void **state)
{
    (void)state;
    static const struct {
        struct select_spec spec;
        struct plain_options plain;
    } cases[] = {
        {{.cross = TEXT("v:10")}, {.has_cross = true, .level = 10}},
        {{.cross = TEXT("v:10:1.5")}, {.has_cross = true, .level = 10, .hysteresis = 1.5}},
        {{.delta = TEXT("v:3")}, {.has_delta = true, .amount = 3}},
        {{.delta = TEXT("v:25%")}, {.has_delta = true, .amount = 25, .is_relative = true}},
        {{.on_change = TEXT("v")}, {.has_change = true}},
        {{.every = TEXT("7s")}, {.every_ns = 7 * SECOND}},
        {{.on_change = TEXT("v"), .every = TEXT("3s")}, {.has_change = true, .every_ns = 3 * SECOND}},
        {{.cross = TEXT("v:10:0.5"), .every = TEXT("20s")},
         {.has_cross = true, .level = 10, .hysteresis = 0.5, .every_ns = 20 * SECOND}},
        {{.cross = TEXT("v:10"), .delta = TEXT("v:1")},
         {.has_cross = true, .level = 10, .has_delta = true, .amount = 1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct selector *s = make(&cases[c].spec);
        struct plain plain[STREAMS] = {{0}};
        double walk[STREAMS] = {8, 9, 10, 11, 12};
        uint64_t seed = 5 + c;
        size_t given = 0;
        for (unsigned i = 0; i < EVENTS * test_scale(); i++) {
            struct sample x;
            unsigned k = (unsigned)(test_random(&seed) % STREAMS);
            char host[8];
            (void)snprintf(host, sizeof host, "h%u", k);
            struct value v = next_value(&seed, &walk[k]);
            set(sample_of(&x, i & 1 ? cpu : cpu_reversed), "v", v);
            x.e.host = slice_str(host);
            x.e.time_ns = (int64_t)i * SECOND / 4;
            bool expected = plain_test(&cases[c].plain, &plain[k], v, x.e.time_ns);
            if (selector_test(s, &x.e) != expected)
                fail_msg("case %zu, event %u: expected %d", c, i, expected);
            given += expected;
        }
        assert_true(given > 20 && given < EVENTS * test_scale()); /* the series has what it is for */
        selector_destroy(s);
    }
}

/* Of a noisy series through a threshold, exactly its crossings: up and down in turn, and as many as counted.
 */
static void once_a_crossing(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.cross = TEXT("v:50:10")));
    uint64_t seed = 77;
    size_t ups = 0, downs = 0, true_ups = 0, true_downs = 0;
    for (int i = 0; i < 20000; i++) {
        bool is_high = i / 100 % 2; /* 100 low, 100 high, ... */
        double noise = (double)(test_random(&seed) % 1900) / 100 - 9.5;
        double v = (is_high ? 55 : 35) + noise; /* both go through 40 .. 50 */
        bool is_start = i % 100 == 0;
        if (is_start) /* the change is clear, then come values that touch both lines */
            v = is_high ? 60 : 30;
        true_ups += is_start && is_high;
        true_downs += is_start && !is_high && i > 0;
        bool is_given = give(s, value_float(v));
        assert_int_equal(is_given, is_start && i > 0);
        ups += is_given && v >= 50;
        downs += is_given && v < 40;
    }
    assert_int_equal(ups, true_ups);
    assert_int_equal(downs, true_downs);
    selector_destroy(s);
}

/* --- runs, bounds, memory, errors --- */

static void runs(void **state)
{
    (void)state;
    static const struct select_spec specs[] = {
        {.every = TEXT("")},
        {.events = TEXT("cpu")},
        {.hosts = TEXT("h1,h3"), .where = TEXT("v > 9")},
        {.on_change = TEXT("*"), .events = TEXT("d*")},
        {.cross = TEXT("v:10"), .hosts = TEXT("h*")},
        {.every = TEXT("5s"), .delta = TEXT("v:1")},
    };
    enum { N = 100 };
    static struct sample samples[N];
    static const char *const hosts[] = {"h1", "h2", "h3", "i"};
    uint64_t seed = 9;
    double walk = 10;
    for (size_t c = 0; c < sizeof specs / sizeof *specs; c++) {
        struct selector *s = make(&specs[c]), *twin = make(&specs[c]);
        size_t given = 0;
        for (int round = 0; round < 20; round++) {
            struct event events[N];
            uint32_t index[N], expected[N];
            size_t n = 0;
            for (int i = 0; i < N; i++) {
                set(sample_of(&samples[i], test_random(&seed) & 1 ? cpu : disk), "v",
                    next_value(&seed, &walk));
                samples[i].e.host = slice_str(hosts[test_random(&seed) % 4]);
                samples[i].e.time_ns = (round * N + i) * SECOND;
                events[i] = samples[i].e;
                expected[n] = (uint32_t)i;
                n += selector_test(twin, &events[i]);
            }
            assert_int_equal(selector_run(s, events, N, index), n);
            assert_memory_equal(index, expected, n * sizeof *index);
            given += n;
        }
        assert_true(given > 0);
        selector_destroy(s);
        selector_destroy(twin);
    }
}

static bool give_prog(struct selector *s, const char *name, int k)
{
    struct sample x;
    char prog[32];
    (void)snprintf(prog, sizeof prog, "%s%d", name, k);
    sample_of(&x, cpu)->e.prog = slice_str(prog);
    return selector_test(s, &x.e);
}

static void forgets_the_quietest(void **state)
{
    (void)state;
    struct selector *s = make(SPEC(.on_change = TEXT("v")));
    assert_true(give_prog(s, "kept", 0));
    assert_true(give_prog(s, "quiet", 0));
    for (int i = 0; i < SELECT_STREAMS_MAX - 2; i++) {
        assert_true(give_prog(s, "p", i));
        if (i % 1000 == 0)
            assert_false(give_prog(s, "kept", 0));
    }
    assert_false(give_prog(s, "quiet", 0)); /* SELECT_STREAMS_MAX of them: none is forgotten */
    assert_false(give_prog(s, "p", 0));
    assert_true(give_prog(s, "new", 0)); /* pushes out p1, quiet longest */
    assert_false(give_prog(s, "p", 2));
    assert_false(give_prog(s, "kept", 0));
    assert_true(give_prog(s, "p", 1));
    for (int i = 0; i < SELECT_STREAMS_MAX; i++)
        assert_true(give_prog(s, "q", i));
    assert_true(give_prog(s, "kept", 0));
    selector_destroy(s);
}

/* Keys are bounded by their bytes, too: 16 MiB of them. */
static void forgets_large_keys(void **state)
{
    (void)state;
    static char text[EVENT_TEXT_MAX];
    struct selector *s = make(SPEC(.on_change = TEXT("v")));
    struct sample x;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 300; i++) {
            memcpy(text, &i, sizeof i);
            set(sample_of(&x, cpu), "device", value_text(slice_of(text, sizeof text)));
            assert_true(selector_test(s, &x.e));
            assert_false(selector_test(s, &x.e));
        }
    }
    selector_destroy(s);
}

static void without_memory(void **state)
{
    (void)state;
    const struct select_spec spec = {.events = TEXT("a"),
                                     .hosts = TEXT("b"),
                                     .where = TEXT("v > 1"),
                                     .on_change = TEXT("v,w"),
                                     .cross = TEXT("v:1"),
                                     .delta = TEXT("v:1"),
                                     .every = TEXT("1s")};
    struct selector *s = NULL;
    struct diag why = {0};
    int r = -ENOMEM;
    for (unsigned n = 1; r < 0; n++) {
        why.message[0] = '\0';
        mem_fail_after(n);
        r = selector_create(&spec, 0, &s, &why);
        mem_fail_after(0);
        assert_true(r == 0 || (r == -ENOMEM && why.message[0] && !s));
        assert_true(n < 100);
    }
    selector_destroy(s);
    s = make(SPEC(.on_change = TEXT("v")));
    static const unsigned fail[] = {1, 2, 2}; /* the key's buffer; then, with that, the stream; the map */
    for (size_t i = 0; i < 3; i++) {          /* a first event passes all the same, and is not remembered */
        mem_fail_after(fail[i]);
        assert_true(give(s, value_int(1)));
        mem_fail_after(0);
    }
    assert_true(give(s, value_int(1)));
    assert_false(give(s, value_int(1)));
    selector_destroy(s);
}

static void errors(void **state)
{
    (void)state;
    static char longest[SELECT_PATTERNS_MAX + 1];
    memset(longest, 'x', sizeof longest);
    const struct {
        struct select_spec spec;
        const char *option;
        int code;
    } cases[] = {
        {{.events = TEXT("a,,b")}, "event: ", E_PROTO},
        {{.events = TEXT("a,")}, "event: ", E_PROTO},
        {{.events = TEXT("[a,b]")}, "event: ", E_PROTO},
        {{.events = {longest, sizeof longest}}, "event: ", E_LIMIT},
        {{.hosts = TEXT(",")}, "host: ", E_PROTO},
        {{.hosts = TEXT("a[")}, "host: ", E_PROTO},
        {{.hosts = {longest, sizeof longest}}, "host: ", E_LIMIT},
        {{.where = TEXT("v >")}, "where: ", E_PROTO},
        {{.on_change = TEXT("a b")}, "on_change: ", E_PROTO},
        {{.on_change = TEXT("a,")}, "on_change: ", E_PROTO},
        {{.on_change = TEXT("a,*")}, "on_change: ", E_PROTO},
        {{.on_change = {longest, sizeof longest}}, "on_change: ", E_LIMIT},
        {{.on_change = {longest, EVENT_NAME_MAX + 1}}, "on_change: ", E_PROTO},
        {{.cross = TEXT("v")}, "cross: ", E_PROTO},
        {{.cross = TEXT("v:")}, "cross: ", E_PROTO},
        {{.cross = TEXT(":5")}, "cross: ", E_PROTO},
        {{.cross = TEXT("v:five")}, "cross: ", E_PROTO},
        {{.cross = TEXT("v:NaN")}, "cross: ", E_PROTO},
        {{.cross = TEXT("v:Inf")}, "cross: ", E_PROTO},
        {{.cross = TEXT("v:5:-1")}, "cross: ", E_PROTO},
        {{.cross = TEXT("v:5:")}, "cross: ", E_PROTO},
        {{.cross = TEXT("v v:5")}, "cross: ", E_PROTO},
        {{.delta = TEXT("v")}, "delta: ", E_PROTO},
        {{.delta = TEXT("v:")}, "delta: ", E_PROTO},
        {{.delta = TEXT("v:%")}, "delta: ", E_PROTO},
        {{.delta = TEXT("v:0")}, "delta: ", E_PROTO},
        {{.delta = TEXT("v:-5%")}, "delta: ", E_PROTO},
        {{.delta = TEXT("v:Inf")}, "delta: ", E_PROTO},
        {{.delta = TEXT(":5")}, "delta: ", E_PROTO},
        {{.every = TEXT("0s")}, "every: ", E_PROTO},
        {{.every = TEXT("-1s")}, "every: ", E_PROTO},
        {{.every = TEXT("soon")}, "every: ", E_PROTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct selector *s = NULL;
        struct diag why = {0};
        int r = selector_create(&cases[i].spec, 0, &s, &why);
        if (r != cases[i].code || s || strncmp(why.message, cases[i].option, strlen(cases[i].option)) != 0)
            fail_msg("case %zu: %d, %s", i, r, why.message);
    }
    struct diag why = {0};
    struct selector *s = NULL;
    assert_int_equal(selector_create(SPEC(.hosts = TEXT("ab,c[")), 0, &s, &why), E_PROTO);
    assert_int_equal(why.col, 4); /* where that pattern begins */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything),
        cmocka_unit_test(patterns),
        cmocka_unit_test(where),
        cmocka_unit_test(on_change),
        cmocka_unit_test(on_change_of_chosen_fields),
        cmocka_unit_test(on_change_by_class),
        cmocka_unit_test(where_by_class),
        cmocka_unit_test(streams_by_themselves),
        cmocka_unit_test(cross),
        cmocka_unit_test(exact_numbers),
        cmocka_unit_test(colons_in_names),
        cmocka_unit_test(delta),
        cmocka_unit_test(every),
        cmocka_unit_test(together),
        cmocka_unit_test(random_series),
        cmocka_unit_test(once_a_crossing),
        cmocka_unit_test(runs),
        cmocka_unit_test(forgets_the_quietest),
        cmocka_unit_test(forgets_large_keys),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, make_schemas, drop_schemas);
}
