/* SPDX-License-Identifier: Apache-2.0 */
/* Each default rule that is judged here, over events as the sensors make them (their own schemas: a rule that
 * names a field that no sensor has does not compile): what is well, what is a fault, and what is between.
 * Those that are asked at a gateway are tested with one: flow/defaults_test.py. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "guard/defaults.h"
#include "guard/health.h"
#include "sensor/sensor.h"

#include <errno.h>
#include <stdio.h>

enum { FIELDS_MAX = 200, NOW_S = 1794838187 };
#define NOW (NOW_S * NS_PER_S)

struct reading {
    const char *field;
    double number;
    const char *text; /* NULL = the number */
};

struct world {
    struct live *live;
    struct health *health;
    struct judge *judge;
    int64_t now;
};

static void make(struct world *w)
{
    const struct health_options o = {.every_ns = 10 * NS_PER_S, .timeout_ns = 12 * NS_PER_S};
    struct judge_table table;
    *w = (struct world){.now = NOW};
    assert_int_equal(live_create(NULL, &w->live), 0);
    assert_int_equal(health_create(&o, &w->health), 0);
    health_table(w->health, &table);
    assert_int_equal(judge_create(w->live, &table, 1, &w->judge), 0);
}

static void end(struct world *w)
{
    judge_destroy(w->judge);
    health_destroy(w->health);
    live_destroy(w->live);
}

static const struct field clock_fields[] = {
    FIELD("state", TEXT, STATE, "", ""),
    FIELD("offset_ns", INT, GAUGE, "ns", ""),
    FIELD("bound_ns", UINT, GAUGE, "ns", ""),
};

static struct schema *schema_of(const char *event)
{
    struct schema *s = NULL;
    const struct sensor_ops *ops = sensor_find(slice_str(event));
    if (strcmp(event, "clock") == 0) { /* the agent's own */
        assert_int_equal(schema_create(slice_str(event), clock_fields, 3, &s), 0);
        return s;
    }
    assert_non_null(ops);
    assert_string_equal(ops->schemas[0].name, event);
    assert_int_equal(schema_create(slice_str(event), ops->schemas[0].fields, ops->schemas[0].n_fields, &s),
                     0);
    return s;
}

static struct value value_of(const struct field *f, const struct reading *r)
{
    switch (f->type) {
    case VALUE_TEXT:
        assert_non_null(r->text);
        return value_text(slice_str(r->text));
    case VALUE_BOOL:
        return value_bool(r->number != 0);
    case VALUE_INT:
        return value_int((int64_t)r->number);
    case VALUE_UINT:
        return value_uint((uint64_t)r->number);
    default:
        return value_float(r->number);
    }
}

/* The readings end with one without a field; what is not in them is missing in the event. */
static void tell(struct world *w, const char *event, const char *host, const struct reading *readings)
{
    struct schema *s = schema_of(event);
    struct value values[FIELDS_MAX] = {{{0}, 0, 0}};
    assert_true(s->n_fields <= FIELDS_MAX);
    for (const struct reading *r = readings; r->field; r++) {
        uint32_t i = 0;
        while (i < s->n_fields && !slice_eq_str(s->fields[i].name, r->field))
            i++;
        assert_true(i < s->n_fields);
        values[i] = value_of(&s->fields[i], r);
    }
    const struct event e = {.time_ns = w->now,
                            .host = slice_str(host),
                            .prog = SLICE_LIT("gridline-agent"),
                            .schema = s,
                            .values = values};
    assert_int_equal(live_take(w->live, &e, w->now), 0);
    schema_unref(s);
}

static const struct default_rule *rule_of(const char *name)
{
    for (size_t i = 0; i < default_rules_n; i++)
        if (strcmp(default_rules[i].name, name) == 0)
            return &default_rules[i];
    fail_msg("no rule %s", name);
    return NULL;
}

struct seen {
    const char *host;
    const char *key; /* that each row must have */
    size_t n;
};

static bool has_column(const struct slice *names, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(names[i], name))
            return true;
    return false;
}

static int on_row(void *arg, const struct slice *names, const struct value *values, size_t n)
{
    struct seen *s = arg;
    for (const char *p = s->key; *p; p += strspn(p, " ")) {
        size_t length = strcspn(p, " ");
        assert_true(has_column(names, n, slice_of(p, length)));
        p += length;
    }
    for (size_t i = 0; i < n; i++)
        s->n += slice_eq(names[i], SLICE_LIT("host")) && slice_eq_str(value_slice(values[i]), s->host);
    return 0;
}

/* How many rows of the host it has. */
static size_t rows(struct world *w, const struct default_rule *rule, const char *text, const char *host)
{
    struct seen s = {.host = host, .key = rule->key};
    const struct query_run run = {
        .now_ns = w->now, .since_ns = w->now - 60 * NS_PER_S, .row = on_row, .arg = &s};
    struct query *q = NULL;
    struct diag why = {0};
    int r = query_create(w->judge, slice_str(text), &q, &why);
    if (r < 0)
        fail_msg("%s: %d %s: %s", rule->name, r, why.message, text);
    r = query_run(q, &run, &why);
    if (r < 0)
        fail_msg("%s: %d %s: %s", rule->name, r, why.message, text);
    query_destroy(q);
    return s.n;
}

enum sight { BAD, BETWEEN, GOOD };

static void expect_sight(struct world *w, const char *name, const char *host, enum sight sight)
{
    const struct default_rule *rule = rule_of(name);
    bool is_bad = rows(w, rule, rule->query, host) > 0;
    bool is_good = rule->clear_query ? rows(w, rule, rule->clear_query, host) > 0 : !is_bad;
    enum sight found = is_bad ? BAD : is_good ? GOOD : BETWEEN;
    assert_false(is_bad && is_good);
    if (found != sight)
        fail_msg("%s: %s is seen as %d, not %d", name, host, (int)found, (int)sight);
}

static void test_disk(void **state)
{
    static const struct {
        double used_gb, available_gb;
        enum sight sight;
    } cases[] = {
        {50, 50, GOOD},      {95.1, 4.9, BAD}, {94, 6, BETWEEN},  {92, 8, GOOD},      {100, 0, BAD},
        {9000, 55, BETWEEN}, {9000, 49, BAD},  {90000, 61, GOOD}, {0.09, 0.01, GOOD}, {0.0991, 0.0009, BAD},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double used = cases[i].used_gb * 1e9, available = cases[i].available_gb * 1e9;
        struct world w;
        make(&w);
        const struct reading r[] = {{"mount", 0, "/"},
                                    {"type", 0, "ext4"},
                                    {"device", 0, "/dev/sda1"},
                                    {"size", (used + available) * 1.05, NULL},
                                    {"used", used, NULL},
                                    {"free", available * 1.2, NULL},
                                    {"available", available, NULL},
                                    {"read_only", 0, NULL},
                                    {NULL, 0, NULL}};
        tell(&w, "filesystem", "c0", r);
        expect_sight(&w, "disk-full", "c0", cases[i].sight);
        end(&w);
    }
}

/* What can't be written to is full by nature. */
static void test_disk_that_is_none(void **state)
{
    struct world w;
    (void)state;
    make(&w);
    const struct reading snap[] = {
        {"mount", 0, "/snap"},  {"type", 0, "squashfs"}, {"device", 0, "/dev/loop1"},
        {"size", 1e9, NULL},    {"used", 1e9, NULL},     {"free", 0, NULL},
        {"available", 0, NULL}, {"inodes", 5000, NULL},  {"inodes_free", 0, NULL},
        {"read_only", 1, NULL}, {NULL, 0, NULL}};
    const struct reading tiny[] = {{"mount", 0, "/tiny"},  {"type", 0, "tmpfs"}, {"device", 0, "tmpfs"},
                                   {"size", 1e6, NULL},    {"used", 1e6, NULL},  {"free", 0, NULL},
                                   {"available", 0, NULL}, {"inodes", 10, NULL}, {"inodes_free", 0, NULL},
                                   {"read_only", 0, NULL}, {NULL, 0, NULL}};
    tell(&w, "filesystem", "c0", snap);
    tell(&w, "filesystem", "c0", tiny);
    expect_sight(&w, "disk-full", "c0", BETWEEN); /* in neither query */
    expect_sight(&w, "inodes-full", "c0", BETWEEN);
    end(&w);
}

static void test_inodes(void **state)
{
    static const struct {
        double inodes, free;
        enum sight sight;
    } cases[] = {{1e6, 5e5, GOOD}, {1e6, 49999, BAD}, {1e6, 60000, BETWEEN}, {1e6, 80000, GOOD}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world w;
        make(&w);
        const struct reading r[] = {{"mount", 0, "/"},
                                    {"type", 0, "ext4"},
                                    {"device", 0, "/dev/a"},
                                    {"size", 1e12, NULL},
                                    {"used", 1e11, NULL},
                                    {"free", 9e11, NULL},
                                    {"available", 9e11, NULL},
                                    {"inodes", cases[i].inodes, NULL},
                                    {"inodes_free", cases[i].free, NULL},
                                    {"read_only", 0, NULL},
                                    {NULL, 0, NULL}};
        tell(&w, "filesystem", "c0", r);
        expect_sight(&w, "inodes-full", "c0", cases[i].sight);
        expect_sight(&w, "disk-full", "c0", GOOD);
        end(&w);
    }
}

static void test_memory(void **state)
{
    static const struct {
        double available, full;
        enum sight low, pressure;
    } cases[] = {{50, 0, GOOD, GOOD}, {4.9, 10, BAD, BAD}, {7, 7, BETWEEN, BETWEEN}, {10, 4.9, GOOD, GOOD}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world w;
        make(&w);
        const struct reading memory[] = {
            {"total", 100e9, NULL}, {"available", cases[i].available * 1e9, NULL}, {NULL, 0, NULL}};
        const struct reading pressure[] = {{"resource", 0, "memory"},
                                           {"some_avg60", 90, NULL},
                                           {"full_avg60", cases[i].full, NULL},
                                           {NULL, 0, NULL}};
        const struct reading io[] = {{"resource", 0, "io"},
                                     {"some_avg60", 99, NULL},
                                     {"full_avg60", 99, NULL},
                                     {NULL, 0, NULL}}; /* not about memory */
        tell(&w, "memory", "c0", memory);
        tell(&w, "pressure", "c0", pressure);
        tell(&w, "pressure", "c0", io);
        expect_sight(&w, "memory-low", "c0", cases[i].low);
        expect_sight(&w, "memory-pressure", "c0", cases[i].pressure);
        end(&w);
    }
}

static void test_clock(void **state)
{
    static const struct {
        double offset_ms, bound_ms;
        enum sight sight;
    } cases[] = {{0, 1, GOOD},      {-150, 10, BAD}, {150, 10, BAD},    {150, 80, BETWEEN},
                 {-70, 1, BETWEEN}, {-50, 1, GOOD},  {3000, 2000, BAD}, {90, 0, BETWEEN}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world w;
        make(&w);
        const struct reading r[] = {{"state", 0, "synchronised"},
                                    {"offset_ns", cases[i].offset_ms * 1e6, NULL},
                                    {"bound_ns", cases[i].bound_ms * 1e6, NULL},
                                    {NULL, 0, NULL}};
        const struct reading unknown[] = {{"state", 0, "unknown"}, {NULL, 0, NULL}};
        tell(&w, "clock", "c0", r);
        tell(&w, "clock", "c1", unknown); /* nothing is known: neither a fault nor well */
        expect_sight(&w, "clock-skew", "c0", cases[i].sight);
        expect_sight(&w, "clock-skew", "c1", BETWEEN);
        end(&w);
    }
}

static int on_lease(void *arg, struct slice host)
{
    (void)arg, (void)host;
    return 0;
}
static int on_ping(void *arg, struct slice host, struct slice address)
{
    (void)arg, (void)host, (void)address;
    return 0;
}

/* The three answers are three faults, and one at a time. */
static void test_hosts(void **state)
{
    static const struct {
        enum lease_state lease;
        int ping;
        const char *rule; /* NULL = none */
    } cases[] = {{LEASE_LIVE, 0, "host-late"},
                 {LEASE_EXPIRED, 0, "agent-dead"},
                 {LEASE_EXPIRED, -ETIMEDOUT, "host-unreachable"},
                 {LEASE_DEREGISTERED, 0, NULL}};
    static const char *const rules[] = {"host-late", "agent-dead", "host-unreachable"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct health_options o = {.every_ns = 10 * NS_PER_S,
                                         .timeout_ns = 12 * NS_PER_S,
                                         .is_pinging = true,
                                         .ping = on_ping,
                                         .lease = on_lease};
        struct world w = {.now = NOW};
        struct judge_table table;
        assert_int_equal(live_create(NULL, &w.live), 0);
        assert_int_equal(health_create(&o, &w.health), 0);
        health_table(w.health, &table);
        assert_int_equal(judge_create(w.live, &table, 1, &w.judge), 0);
        health_heard(w.health, SLICE_LIT("c0"), true, 0, w.now);
        for (size_t k = 0; k < 3; k++)
            expect_sight(&w, rules[k], "c0", GOOD);
        for (int s = 0; s < 12; s++) {
            w.now += NS_PER_S;
            health_heard(w.health, SLICE_LIT("well"), true, 0, w.now);
            (void)health_turn(w.health, w.now);
        }
        health_leased(w.health, SLICE_LIT("c0"), cases[i].lease, SLICE_LIT("10.0.0.1:1"), w.now);
        health_pinged(w.health, SLICE_LIT("c0"), cases[i].ping, 1, w.now);
        for (size_t k = 0; k < 3; k++) {
            bool is_bad = cases[i].rule && strcmp(rules[k], cases[i].rule) == 0;
            expect_sight(&w, rules[k], "c0", is_bad ? BAD : GOOD);
            expect_sight(&w, rules[k], "well", GOOD);
        }
        health_heard(w.health, SLICE_LIT("c0"), true, 0, w.now);
        for (size_t k = 0; k < 3; k++)
            expect_sight(&w, rules[k], "c0", GOOD);
        end(&w);
    }
}

/* Parents are there and come without a circle; places and severities are words that there are. */
static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < default_rules_n; i++) {
        const struct default_rule *d = &default_rules[i];
        assert_true(d->name && d->help && d->query && d->key && d->summary && d->severity);
        assert_true(!d->place || strcmp(d->place, "here") == 0 || strcmp(d->place, "gateway") == 0);
        for (const char *p = d->parents ? d->parents : ""; *p; p += strspn(p, " ")) {
            char parent[64] = "";
            size_t n = strcspn(p, " ");
            assert_true(n < sizeof parent);
            memcpy(parent, p, n);
            const struct default_rule *of = rule_of(parent);
            assert_true(of != d);
            assert_true(!of->parents || !strstr(of->parents, d->name));
            p += n;
        }
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(d->name, default_rules[k].name);
    }
}

/* Those that are to be asked at a gateway name what only a gateway has, or say so. */
static void test_places(void **state)
{
    struct world w;
    (void)state;
    make(&w);
    for (size_t i = 0; i < default_rules_n; i++) {
        const struct default_rule *d = &default_rules[i];
        struct query *q = NULL;
        struct diag why = {0};
        if (d->place && strcmp(d->place, "gateway") == 0)
            continue;
        int r = query_create(w.judge, slice_str(d->query), &q, &why);
        if (r < 0 && r != E_NODATA)
            fail_msg("%s: %d %s", d->name, r, why.message);
        query_destroy(q);
    }
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disk),   cmocka_unit_test(test_disk_that_is_none),
        cmocka_unit_test(test_inodes), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_clock),  cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_texts),  cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
