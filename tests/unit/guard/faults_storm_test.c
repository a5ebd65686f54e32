/* SPDX-License-Identifier: Apache-2.0 */
/* A storm: 100,000 faults at once. Memory stays within what a fault may take, notices come in bounded
 * portions and all of them in the end, what is over the limit is counted exactly, and what is there stays. */
#include "unit/test.h"

#include "base/clock.h"
#include "guard/faults.h"

#include <malloc.h>
#include <stdio.h>

enum { STORM = 100000, OVER = 20000, PORTION = 1000, RULES_MAX = 200 };

static const int64_t start = 1800000000 * NS_PER_S;

struct storm {
    struct rule_config rules[RULES_MAX];
    struct guard_config config;
    struct faults *faults;
    size_t n_rules;
    size_t told[NOTICE_CLEAR + 1], turns[TURN_CLEARS + 1];
};

static void on_change(void *arg, const struct fault *f, enum fault_turn turn)
{
    struct storm *s = arg;
    assert_true(f->n_fields == 4);
    s->turns[turn]++;
}

static void hear(void *arg, const struct notice *n)
{
    struct storm *s = arg;
    s->told[n->kind]++;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void start_storm(struct storm *s, size_t n_rules)
{
    static const char *const key[] = {"host", "mount"}, *const parents[] = {"rule"};
    static const unsigned first[] = {0};
    *s = (struct storm){.n_rules = n_rules};
    for (size_t i = 0; i < n_rules; i++) {
        s->rules[i] = (struct rule_config){.name = i ? "rule" : "parent",
                                           .query = "q",
                                           .clear_query = "",
                                           .summary = "",
                                           .key = {key, i ? 2 : 1},
                                           .every_ns = NS_PER_S,
                                           .is_enabled = true};
        if (i && n_rules > 1) { /* all but the first are children of it */
            s->rules[i].parents = (struct config_texts){parents, 1};
            s->rules[i].parent_rules = first;
        }
    }
    s->config = (struct guard_config){.rules = s->rules, .n_rules = n_rules, .faults_max = STORM};
    struct faults_calls calls = {.arg = s, .on_change = on_change};
    assert_int_equal(faults_create(&s->config, &calls, &s->faults), 0);
}

/* Rows host-I, mount, and two values of rule, from first on; how many were left out. */
static size_t put_rows(struct storm *s, size_t first, size_t n)
{
    static const struct slice names[] = {{"host", 4}, {"mount", 5}, {"free", 4}, {"size", 4}};
    size_t left_out = 0;
    for (size_t i = first; i < first + n; i++) {
        char host[32];
        int len = snprintf(host, sizeof host, "c%zu-%zu.example.org", i / 100, i);
        struct value values[] = {value_text(slice_of(host, (size_t)len)), value_text(SLICE_LIT("/var")),
                                 value_int((int64_t)i * 4096), value_float(1.5)};
        struct diag why;
        int r = faults_see(s->faults, names, values, 4, &why);
        assert_true(r == 0 || r == E_LIMIT);
        left_out += r == E_LIMIT;
    }
    return left_out;
}

static size_t evaluate(struct storm *s, unsigned rule, int64_t at_s, size_t first, size_t n)
{
    faults_begin(s->faults, rule, start + at_s * NS_PER_S);
    size_t left_out = put_rows(s, first, n);
    faults_end(s->faults, false);
    return left_out;
}

/* All that is due, by portions; how many portions. */
static size_t draw(struct storm *s, int64_t at_s)
{
    size_t portions = 0, n;
    do {
        n = faults_notices(s->faults, start + at_s * NS_PER_S, PORTION, hear, s);
        assert_true(n <= PORTION);
        portions++;
    } while (n == PORTION);
    return portions;
}

static void of_one_rule(void **state)
{
    (void)state;
    static struct storm s;
    size_t before = heap_bytes();
    start_storm(&s, 1);
    assert_int_equal(evaluate(&s, 0, 0, 0, STORM), 0);
    size_t bytes = heap_bytes() - before;
    printf("%d faults of one rule: %zu bytes a fault\n", STORM, bytes / STORM);
    assert_true(bytes < (size_t)STORM * (FAULT_BYTES + 200));
    assert_int_equal(draw(&s, 0), STORM / PORTION + 1);
    assert_int_equal(s.told[NOTICE_FIRE], STORM);

    /* Those over the limit are left out, each counted, at every evaluation; the others stay. */
    assert_int_equal(evaluate(&s, 0, 1, 0, STORM + OVER), OVER);
    assert_int_equal(evaluate(&s, 0, 2, 0, STORM + OVER), OVER);
    assert_int_equal(faults_left_out(s.faults, 0), 2 * OVER);
    struct faults_counts c;
    faults_count(s.faults, 0, &c);
    assert_int_equal(c.firing, STORM);
    assert_int_equal(c.left_out, OVER);
    assert_int_equal(s.turns[TURN_FIRES], STORM);
    (void)draw(&s, 2);
    assert_int_equal(s.told[NOTICE_FIRE], STORM);
    faults_check(s.faults);

    /* All clear; the new ones have room as soon as the clears are told. */
    assert_int_equal(evaluate(&s, 0, 3, STORM, OVER), OVER);
    assert_int_equal(s.turns[TURN_CLEARS], STORM);
    assert_int_equal(draw(&s, 3), STORM / PORTION + 1);
    assert_int_equal(s.told[NOTICE_CLEAR], STORM);
    assert_int_equal(evaluate(&s, 0, 4, STORM, OVER), 0);
    faults_count(s.faults, 0, &c);
    assert_int_equal(c.firing, OVER);
    assert_int_equal(c.cleared, STORM - OVER);
    faults_check(s.faults);
    (void)draw(&s, 4);
    assert_int_equal(s.told[NOTICE_FIRE], STORM + OVER);
    assert_int_equal(evaluate(&s, 0, 5, 0, 0), 0);
    (void)draw(&s, 5);
    assert_int_equal(s.told[NOTICE_CLEAR], STORM + OVER);
    faults_forget(s.faults, start + 100 * NS_PER_S, NS_PER_S);
    faults_count(s.faults, 0, &c);
    assert_int_equal(c.cleared, 0);
    faults_destroy(s.faults);
    size_t after = heap_bytes();
    assert_true(after <= before + (64 << 10)); /* stdio has a buffer now */
}

/* 200 rules, the first of which is the parent of all others: its hosts are down, and 99,500 faults are
 * hidden. */
static void of_many_rules(void **state)
{
    (void)state;
    static struct storm s;
    enum { EACH = STORM / RULES_MAX };
    size_t before = heap_bytes();
    start_storm(&s, RULES_MAX);
    for (unsigned i = 0; i < RULES_MAX; i++) {
        char *name = malloc(16);
        assert_non_null(name);
        (void)snprintf(name, 16, "rule-%u", i);
        s.rules[i].name = name;
    }
    for (unsigned rule = RULES_MAX; rule-- > 0;)
        assert_int_equal(evaluate(&s, rule, 0, 0, EACH), 0);
    size_t bytes = heap_bytes() - before;
    printf("%d faults of %d rules: %zu bytes a fault\n", STORM, RULES_MAX, bytes / STORM);
    assert_true(bytes < (size_t)STORM * (FAULT_BYTES + 200));
    (void)draw(&s, 0);
    assert_int_equal(s.told[NOTICE_FIRE], EACH); /* the parent's */
    struct faults_counts c;
    faults_count(s.faults, UINT_MAX, &c);
    assert_int_equal(c.hidden, STORM - EACH);
    faults_check(s.faults);

    /* The hosts are back; what still is there is told, once it was seen again. */
    assert_int_equal(evaluate(&s, 0, 1, 0, 0), 0);
    (void)draw(&s, 1);
    assert_int_equal(s.told[NOTICE_FIRE], EACH);
    assert_int_equal(s.told[NOTICE_CLEAR], EACH);
    for (unsigned rule = 1; rule < RULES_MAX; rule++)
        assert_int_equal(evaluate(&s, rule, 2, 0, EACH), 0);
    (void)draw(&s, 2);
    assert_int_equal(s.told[NOTICE_FIRE], STORM);
    for (unsigned rule = 1; rule < RULES_MAX; rule++)
        assert_int_equal(evaluate(&s, rule, 3, 0, 0), 0);
    (void)draw(&s, 3);
    assert_int_equal(s.told[NOTICE_CLEAR], STORM);
    assert_int_equal(s.told[NOTICE_REPEAT] + s.told[NOTICE_ESCALATE], 0);
    faults_check(s.faults);
    faults_destroy(s.faults);
    for (unsigned i = 0; i < RULES_MAX; i++)
        free((char *)s.rules[i].name);
}

/* Rows as large as can be: the bound is of bytes, not only of faults. */
static void of_large_rows(void **state)
{
    (void)state;
    static struct storm s;
    static char big[FAULT_ROW_BYTES];
    memset(big, 'x', sizeof big);
    start_storm(&s, 1);
    const struct slice names[] = {{"host", 4}, {"mount", 5}, {"text", 4}, {"more", 4}};
    size_t left_out = 0, before = heap_bytes();
    faults_begin(s.faults, 0, start);
    for (int i = 0; i < STORM; i++) {
        char host[16];
        int len = snprintf(host, sizeof host, "c%d", i);
        struct value values[] = {value_text(slice_of(host, (size_t)len)), value_int(i),
                                 value_text(slice_of(big, sizeof big)),
                                 value_text(slice_of(big, sizeof big))};
        struct diag why;
        left_out += faults_see(s.faults, names, values, 4, &why) == E_LIMIT;
    }
    faults_end(s.faults, false);
    size_t bytes = heap_bytes() - before;
    struct faults_counts c;
    faults_count(s.faults, 0, &c);
    assert_int_equal(c.firing + left_out, STORM);
    assert_int_equal(faults_left_out(s.faults, 0), left_out);
    assert_true(left_out > STORM / 2 && bytes < (size_t)STORM * (FAULT_BYTES + 200));
    faults_check(s.faults);
    faults_destroy(s.faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_rule),
        cmocka_unit_test(of_many_rules),
        cmocka_unit_test(of_large_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
