/* SPDX-License-Identifier: Apache-2.0 */
/* The set of faults by small stories. What must hold whatever happens is faults_property_test.c's. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "guard/faults.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const int64_t start = 1800000000 * NS_PER_S;

/* Rules of the stories. */
enum { DISK, HOST, SITE, TOLD, NIGHT, DARK, RULES };

static const char *const disk_key[] = {"host", "mount"}, *const host_key[] = {"host"},
                         *const site_key[] = {"site"};
static const char *const disk_parents[] = {"host-down"}, *const host_parents[] = {"site-down"};
static const unsigned disk_parent_rules[] = {HOST}, host_parent_rules[] = {SITE}, on_clear[] = {0, 1};
static const char *const nights[] = {"22:00-06:00 utc"};
static const struct action_config actions[] = {{.name = "operators"}, {.name = "boss"}};

static const struct rule_config rules[RULES] = {
    [DISK] = {.name = "disk-full",
              .query = "q",
              .clear_query = "",
              .summary = "{host}: {mount} has {free} left, {{x} {y}",
              .key = {disk_key, 2},
              .every_ns = 10 * NS_PER_S,
              .parents = {disk_parents, 1},
              .parent_rules = disk_parent_rules,
              .is_enabled = true},
    [HOST] = {.name = "host-down",
              .query = "q",
              .clear_query = "",
              .summary = "",
              .key = {host_key, 1},
              .every_ns = 10 * NS_PER_S,
              .policy = {.for_ns = 20 * NS_PER_S},
              .parents = {host_parents, 1},
              .parent_rules = host_parent_rules,
              .is_enabled = true},
    [SITE] = {.name = "site-down",
              .query = "q",
              .clear_query = "",
              .summary = "",
              .key = {site_key, 1},
              .every_ns = 10 * NS_PER_S,
              .is_enabled = true},
    [TOLD] = {.name = "load",
              .query = "q",
              .clear_query = "c",
              .summary = "",
              .every_ns = 10 * NS_PER_S,
              .on_clear = {on_clear, 2},
              .repeat_ns = 100 * NS_PER_S,
              .escalate_ns = 250 * NS_PER_S,
              .is_enabled = true},
    [NIGHT] = {.name = "night",
               .query = "q",
               .clear_query = "",
               .summary = "",
               .every_ns = 10 * NS_PER_S,
               .quiet = {nights, 1},
               .is_enabled = true},
    [DARK] = {.name = "dark",
              .query = "q",
              .clear_query = "",
              .summary = "",
              .key = {disk_key, 2},
              .every_ns = 10 * NS_PER_S,
              .policy = {.no_data = NO_DATA_FAULT},
              .is_enabled = true},
};

struct world {
    struct guard_config config;
    struct rule_config rules[RULES];
    struct faults *faults;
    char told[4000]; /* "fire disk-full host=a mount=/ free=1\n" ... */
    size_t changes, turns[TURN_CLEARS + 1], silences_over;
    bool has_data;
};

static void on_change(void *arg, const struct fault *f, enum fault_turn turn)
{
    struct world *w = arg;
    assert_non_null(f->of);
    w->changes++;
    w->turns[turn]++;
}

static void on_silence(void *arg, const struct silence *s, bool is_over)
{
    assert_true(s->id > 0);
    ((struct world *)arg)->silences_over += is_over;
}

static bool has_data(void *arg, unsigned rule, const struct fault *f, int64_t now_ns)
{
    (void)now_ns;
    assert_int_equal(rule, f->rule);
    return ((struct world *)arg)->has_data;
}

static struct faults *make(struct world *w)
{
    struct faults_calls calls = {
        .arg = w, .on_change = on_change, .on_silence = on_silence, .has_data = has_data};
    struct faults *f;
    assert_int_equal(faults_create(&w->config, &calls, &f), 0);
    return f;
}

static int setup(void **state)
{
    struct world *w = mem_alloc(sizeof *w);
    memcpy(w->rules, rules, sizeof rules);
    w->config.rules = w->rules;
    w->config.n_rules = RULES;
    w->config.actions = actions;
    w->config.n_actions = 2;
    w->has_data = true;
    w->faults = make(w);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    faults_check(w->faults);
    faults_destroy(w->faults);
    mem_free(w);
    return 0;
}

/* "a /var 12": a row of host, mount, free; fewer words are fewer columns. */
static int row(struct world *w, const char *first, const char *words, bool is_clear)
{
    const struct slice names[] = {slice_str(first), SLICE_LIT("mount"), SLICE_LIT("free")};
    struct value values[3];
    char text[100];
    size_t n = 0;
    assert_true(strlen(words) < sizeof text);
    memcpy(text, words, strlen(words) + 1);
    char *save = NULL;
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
        values[n++] = value_text(slice_str(word));
    struct diag why;
    return is_clear ? faults_see_clear(w->faults, names, values, n, &why)
                    : faults_see(w->faults, names, values, n, &why);
}

/* An evaluation whose rows are separated by commas. */
static void evaluate(struct world *w, unsigned rule, int64_t at_s, const char *rows)
{
    char text[200];
    assert_true(strlen(rows) < sizeof text);
    memcpy(text, rows, strlen(rows) + 1);
    faults_begin(w->faults, rule, start + at_s * NS_PER_S);
    char *save = NULL;
    for (char *r = strtok_r(text, ",", &save); r; r = strtok_r(NULL, ",", &save))
        assert_int_equal(row(w, rule == SITE ? "site" : "host", r, false), 0);
    faults_end(w->faults, false);
    faults_check(w->faults);
}

static void hear(void *arg, const struct notice *n)
{
    struct world *w = arg;
    struct strbuf s = {0};
    size_t at = strlen(w->told);
    struct rule_config plain = {.summary = ""};
    fault_summary(n->fault, &plain, &s);
    int len =
        snprintf(w->told + at, sizeof w->told - at, "%s %s %s\n", notice_name(n->kind), n->rule->name, s.p);
    assert_true(len > 0 && at + (size_t)len < sizeof w->told);
    strbuf_fini(&s);
}

/* What is told at that time is this. */
static void told(struct world *w, int64_t at_s, const char *expected)
{
    w->told[0] = '\0';
    int64_t now = start + at_s * NS_PER_S;
    (void)faults_notices(w->faults, now, SIZE_MAX, hear, w);
    assert_string_equal(w->told, expected);
    assert_true(faults_next(w->faults, now) > now);
    faults_check(w->faults);
}

struct find {
    const char *rule;
    uint64_t id;
};

static int by_rule(void *arg, const struct fault *f)
{
    struct find *find = arg;
    if (strcmp(f->of->name, find->rule) == 0)
        find->id = f->id;
    return 0;
}

/* The id of a fault of this rule. */
static uint64_t id_of(struct world *w, const char *rule)
{
    struct find find = {rule, 0};
    (void)faults_each(w->faults, by_rule, &find);
    return find.id;
}

static struct faults_counts counts(struct world *w, unsigned rule)
{
    struct faults_counts c;
    faults_count(w->faults, rule, &c);
    return c;
}

/* ---------------------------------------------------------------- stories */

static void fires_and_clears_once(void **state)
{
    struct world *w = *state;
    evaluate(w, SITE, 0, "north,south");
    assert_int_equal(counts(w, SITE).firing, 2);
    told(w, 0, "fire site-down site=north\nfire site-down site=south\n");
    evaluate(w, SITE, 10, "north");
    evaluate(w, SITE, 20, "north,north");
    told(w, 20, "clear site-down site=south\n");
    evaluate(w, SITE, 30, "");
    told(w, 30, "clear site-down site=north\n");
    assert_int_equal(counts(w, UINT_MAX).cleared, 2);
    faults_forget(w->faults, start + 40 * NS_PER_S, 15 * NS_PER_S);
    assert_int_equal(counts(w, UINT_MAX).cleared, 1);
    assert_int_equal(w->turns[TURN_FIRES], 2);
    assert_int_equal(w->turns[TURN_CLEARS], 2);
}

static void pending_is_dropped_without_a_word(void **state)
{
    struct world *w = *state;
    evaluate(w, HOST, 0, "a");
    assert_int_equal(counts(w, HOST).pending, 1);
    evaluate(w, HOST, 10, "");
    assert_int_equal(counts(w, HOST).pending, 0);
    told(w, 10, "");
    assert_int_equal(w->turns[TURN_DROPPED], 1);
}

static void repeats_and_escalates(void **state)
{
    struct world *w = *state;
    evaluate(w, TOLD, 0, "a");
    told(w, 0, "fire load host=a\n");
    assert_true(faults_next(w->faults, start) == start + 100 * NS_PER_S);
    told(w, 99, "");
    told(w, 100, "repeat load host=a\n");
    told(w, 250, "repeat load host=a\nescalate load host=a\n");
    told(w, 300, "");
    told(w, 1000, "repeat load host=a\n"); /* not six of them */
    uint64_t id = id_of(w, "load");
    assert_int_equal(faults_ack(w->faults, id, SLICE_LIT("me"), SLICE_LIT("on it"), start + 1001 * NS_PER_S),
                     0);
    assert_int_equal(faults_ack(w->faults, id, SLICE_LIT("me"), SLICE_LIT(""), start), -EALREADY);
    assert_slice(faults_find(w->faults, id)->acked_by, "me");
    assert_slice(faults_find(w->faults, id)->ack_note, "on it");
    assert_int_equal(counts(w, TOLD).acked, 1);
    told(w, 2000, "");
    assert_int_equal(faults_unack(w->faults, id, start + 2000 * NS_PER_S), 0);
    told(w, 2000, "repeat load host=a\n");
    assert_int_equal(faults_ack(w->faults, id, SLICE_LIT("me"), SLICE_LIT(""), start), 0);
    faults_begin(w->faults, TOLD, start + 2010 * NS_PER_S);
    assert_int_equal(row(w, "host", "a", true), 0);
    faults_end(w->faults, false);
    told(w, 2010, "clear load host=a\n"); /* acknowledged or not */
    assert_int_equal(faults_ack(w->faults, id, SLICE_LIT("me"), SLICE_LIT(""), start), -EINVAL);
    assert_int_equal(faults_ack(w->faults, id + 1, SLICE_LIT("me"), SLICE_LIT(""), start), -ENOENT);
    evaluate(w, TOLD, 2020, "a");
    assert_int_equal(counts(w, TOLD).acked, 0); /* of another episode */
    told(w, 2020, "fire load host=a\n");
}

static void between_the_queries_it_stays(void **state)
{
    struct world *w = *state;
    evaluate(w, TOLD, 0, "a");
    evaluate(w, TOLD, 10, "");
    assert_int_equal(counts(w, TOLD).firing, 1);
    faults_begin(w->faults, TOLD, start + 20 * NS_PER_S);
    assert_int_equal(row(w, "HOST", "a", true), 0); /* a column's case does not matter */
    assert_int_equal(row(w, "HOST", "unknown", true), 0);
    faults_end(w->faults, false);
    assert_int_equal(counts(w, TOLD).cleared, 1);
}

static void silences_hold_back_and_never_the_clear(void **state)
{
    struct world *w = *state;
    uint64_t id, other;
    struct diag why;
    struct silence s = {.host = SLICE_LIT("a*"), .from_ns = start, .until_ns = start + 100 * NS_PER_S};
    assert_int_equal(faults_silence(w->faults, &s, start, &id, &why), 0);
    evaluate(w, SITE, 0, "a1"); /* its column is not host */
    evaluate(w, TOLD, 0, "a1,b1");
    told(w, 0, "fire site-down site=a1\nfire load host=b1\n");
    assert_int_equal(counts(w, TOLD).silenced, 1);
    s = (struct silence){.where = SLICE_LIT("site=a1"), .from_ns = start, .until_ns = start + 500 * NS_PER_S};
    assert_int_equal(faults_silence(w->faults, &s, start, &other, &why), 0);
    assert_true(other == id + 1);
    told(w, 10, "");
    assert_int_equal(counts(w, SITE).silenced, 1);
    evaluate(w, SITE, 20, "");
    told(w, 20, "clear site-down site=a1\n");
    assert_true(faults_next(w->faults, start + 20 * NS_PER_S) == start + 100 * NS_PER_S);
    told(w, 100, "repeat load host=b1\nfire load host=a1\n");
    assert_int_equal(w->silences_over, 1);
    assert_int_equal(faults_unsilence(w->faults, id, start), -ENOENT);
    assert_int_equal(faults_unsilence(w->faults, other, start), 0);
    s = (struct silence){.rule = SLICE_LIT("lo[a-z]d"), .from_ns = start, .until_ns = start + 900 * NS_PER_S};
    assert_int_equal(faults_silence(w->faults, &s, start, &id, &why), 0);
    evaluate(w, TOLD, 110, "c1");
    told(w, 110, "");
    faults_begin(w->faults, TOLD, start + 120 * NS_PER_S);
    assert_int_equal(row(w, "host", "c1", true), 0);
    faults_end(w->faults, false);
    told(w, 1000, "repeat load host=a1\nrepeat load host=b1\nescalate load host=b1\nescalate load host=a1\n");
}

static void silences_are_checked(void **state)
{
    struct world *w = *state;
    uint64_t id;
    struct diag why;
    const struct silence wrong[] = {
        {.from_ns = start, .until_ns = start},
        {.from_ns = start - 9, .until_ns = start - 1},
        {.host = SLICE_LIT("a[b"), .from_ns = start, .until_ns = start + 1},
        {.rule = SLICE_LIT("a[b"), .from_ns = start, .until_ns = start + 1},
        {.where = SLICE_LIT("mount"), .from_ns = start, .until_ns = start + 1},
        {.where = SLICE_LIT("mount=/ =x"), .from_ns = start, .until_ns = start + 1},
        {.where = SLICE_LIT("mount=[x"), .from_ns = start, .until_ns = start + 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(faults_silence(w->faults, &wrong[i], start, &id, &why), -EINVAL);
    struct silence s = {.from_ns = start, .until_ns = start + NS_PER_S};
    for (int i = 0; i < 1000; i++)
        assert_int_equal(faults_silence(w->faults, &s, start, &id, &why), 0);
    assert_int_equal(faults_silence(w->faults, &s, start, &id, &why), E_LIMIT);
    told(w, 1, "");
    assert_int_equal(w->silences_over, 1000);
}

static void quiet_times_hold_back(void **state)
{
    struct world *w = *state;
    int64_t at_s = (24 - start / NS_PER_S / 3600 % 24) * 3600; /* about midnight */
    evaluate(w, NIGHT, at_s, "a,b");
    told(w, at_s, "");
    evaluate(w, NIGHT, at_s + 60, "a");
    for (int hour = 1; hour < 6; hour++)
        told(w, at_s + hour * 3600, "");
    told(w, at_s + 6 * 3600, "fire night host=a\n");
    evaluate(w, NIGHT, at_s + 22 * 3600, "");
    told(w, at_s + 22 * 3600, "clear night host=a\n");
}

static void a_child_waits_for_its_parent(void **state)
{
    struct world *w = *state;
    evaluate(w, DISK, 0, "a / 1,b / 1");
    evaluate(w, SITE, 0, "");
    evaluate(w, HOST, 1, "a");
    told(w, 1, "fire disk-full host=b mount=/ free=1\n"); /* a's host pends */
    evaluate(w, HOST, 11, "a");
    evaluate(w, DISK, 12, "a / 1,b / 1");
    told(w, 12, "");
    evaluate(w, HOST, 21, "a");
    evaluate(w, SITE, 21, "");
    told(w, 21, "fire host-down host=a\n");
    assert_int_equal(counts(w, DISK).hidden, 1);
    evaluate(w, HOST, 31, "");
    told(w, 31, "clear host-down host=a\n"); /* is the disk still full? It was not looked at since. */
    assert_int_equal(counts(w, DISK).hidden, 0);
    evaluate(w, DISK, 32, "a / 2");
    told(w, 32, "fire disk-full host=a mount=/ free=2\nclear disk-full host=b mount=/ free=1\n");
    evaluate(w, DISK, 33, "");
    told(w, 33, "clear disk-full host=a mount=/ free=2\n");
}

static void a_hidden_clear_is_told_if_its_fire_was(void **state)
{
    struct world *w = *state;
    evaluate(w, DISK, 0, "a / 1,a /x 1");
    evaluate(w, SITE, 0, "");
    evaluate(w, HOST, 0, "");
    told(w, 0, "fire disk-full host=a mount=/ free=1\nfire disk-full host=a mount=/x free=1\n");
    evaluate(w, SITE, 10, "north");
    told(w, 10, "fire site-down site=north\n");
    assert_int_equal(counts(w, DISK).hidden, 0); /* has no column in common with it, and is no child */
    for (int at = 20; at <= 40; at += 10)
        evaluate(w, HOST, at, "a");
    told(w, 40, "");
    assert_int_equal(counts(w, HOST).hidden, 1); /* a site hides all its children's: no column in common */
    assert_int_equal(counts(w, DISK).hidden, 2);
    evaluate(w, DISK, 50, "");
    told(w, 50, "clear disk-full host=a mount=/ free=1\nclear disk-full host=a mount=/x free=1\n");
    evaluate(w, HOST, 60, "");
    told(w, 60, ""); /* its fire was not told */
}

static void a_parent_that_hangs_swallows_nothing(void **state)
{
    struct world *w = *state;
    evaluate(w, DISK, 0, "a / 1");
    told(w, 0, "");
    /* Of its parent: 2 * (every 10 s + for 20 s + its own every 10 s); of the site nothing. */
    int64_t next = faults_next(w->faults, start);
    assert_true(next == start + 80 * NS_PER_S);
    told(w, 79, "");
    told(w, 80, "fire disk-full host=a mount=/ free=1\n");
}

static void without_data_it_is_held(void **state)
{
    struct world *w = *state;
    evaluate(w, SITE, 0, "north");
    told(w, 0, "fire site-down site=north\n");
    w->has_data = false;
    evaluate(w, SITE, 10, "");
    assert_int_equal(counts(w, SITE).firing, 1);
    w->has_data = true;
    faults_begin(w->faults, SITE, start + 20 * NS_PER_S);
    faults_end(w->faults, true);
    told(w, 20, "");
    evaluate(w, SITE, 30, "");
    told(w, 30, "clear site-down site=north\n");
}

static void no_data_can_be_a_fault(void **state)
{
    struct world *w = *state;
    faults_begin(w->faults, DARK, start);
    assert_int_equal(faults_see_no_data(w->faults, SLICE_LIT("a")), 0);
    assert_int_equal(row(w, "host", "b /var 3", false), 0);
    assert_int_equal(faults_see_no_data(w->faults, SLICE_LIT("c")), 0);
    faults_end(w->faults, false);
    told(w, 0,
         "fire dark host=a mount= no_data=1\nfire dark host=b mount=/var free=3\nfire dark host=c mount= "
         "no_data=1\n");
    evaluate(w, DARK, 10, "b /var 2");
    told(w, 10, "clear dark host=a mount= no_data=1\nclear dark host=c mount= no_data=1\n");
    faults_begin(w->faults, SITE, start);
    assert_int_equal(faults_see_no_data(w->faults, SLICE_LIT("a")), E_NODATA);
    faults_end(w->faults, false);
}

static void keys_are_needed(void **state)
{
    struct world *w = *state;
    const struct slice names[] = {SLICE_LIT("host"), SLICE_LIT("free")};
    struct value values[] = {value_text(SLICE_LIT("a")), value_int(12)};
    struct diag why;
    faults_begin(w->faults, DISK, start);
    assert_int_equal(faults_see(w->faults, names, values, 2, &why), E_NODATA);
    assert_non_null(strstr(why.message, "mount"));
    faults_end(w->faults, false);
    assert_int_equal(faults_left_out(w->faults, DISK), 0);
    /* Without a key in the configuration: host, if the rows have it; else there is one fault. */
    const struct slice load = SLICE_LIT("load");
    faults_begin(w->faults, TOLD, start);
    values[0] = value_float(1.5);
    assert_int_equal(faults_see(w->faults, &load, values, 1, &why), 0);
    assert_int_equal(faults_see(w->faults, &load, &(struct value){.f = 2.5, .type = VALUE_FLOAT}, 1, &why),
                     0);
    faults_end(w->faults, false);
    told(w, 0, "fire load load=1.5\n");
}

static void rows_are_bounded(void **state)
{
    struct world *w = *state;
    static char big[5000];
    memset(big, 'x', sizeof big);
    const struct slice names[] = {SLICE_LIT("host"), SLICE_LIT("mount"), SLICE_LIT("text")};
    struct value values[] = {value_text(SLICE_LIT("a")), value_text(slice_of(big, sizeof big)), value_none()};
    struct diag why;
    faults_begin(w->faults, DARK, start);
    assert_int_equal(faults_see(w->faults, names, values, 3, &why), E_LIMIT);
    assert_int_equal(faults_left_out(w->faults, DARK), 1);
    values[1] = value_text(SLICE_LIT("/"));
    values[2] = value_text(slice_of(big, sizeof big));
    assert_int_equal(faults_see(w->faults, names, values, 3, &why), 0);
    faults_end(w->faults, false);
    assert_int_equal(counts(w, DARK).left_out, 1);
    const struct fault *f = faults_find(w->faults, id_of(w, "dark"));
    assert_int_equal(f->n_fields, 3);
    assert_int_equal(f->fields[2].value.n, FAULT_ROW_BYTES - 2);
    struct strbuf s = {0};
    fault_summary(f, &w->rules[DARK], &s);
    assert_int_equal(s.n, 2000);
    strbuf_fini(&s);
}

static void summaries(void **state)
{
    struct world *w = *state;
    struct strbuf s = {0};
    evaluate(w, DISK, 0, "a /var 12");
    const struct fault *f = faults_find(w->faults, id_of(w, "disk-full"));
    fault_summary(f, &w->rules[DISK], &s);
    assert_string_equal(s.p, "a: /var has 12 left, {x} {y}");
    strbuf_fini(&s);
    char text[17];
    uint64_t id;
    fault_id_print(f->id, text);
    assert_true(fault_id_parse(slice_str(text), &id) && id == f->id);
    assert_false(fault_id_parse(SLICE_LIT("12"), &id));
    assert_false(fault_id_parse(SLICE_LIT("000000000000000g"), &id));
}

/* ---------------------------------------------------------------- restarts */

struct copy {
    struct faults *to;
    const struct guard_config *config;
    int result;
    size_t n;
};

static int copy_fault(void *arg, const struct fault *f)
{
    struct copy *c = arg;
    struct strbuf s = {0}, again = {0};
    fault_pack(f, c->config, &s);
    int r = faults_restore_fault(c->to, strbuf_slice(&s));
    if (r < 0)
        c->result = r;
    else
        c->n++;
    if (r == 0 && faults_find(c->to, f->id)->rule != RULE_GONE) {
        fault_pack(faults_find(c->to, f->id), c->config, &again);
        assert_true(slice_eq(strbuf_slice(&s), strbuf_slice(&again)));
    }
    assert_int_equal(faults_restore_fault(c->to, slice_of(s.p, s.n - 1)), E_PROTO);
    s.p[0] = 2;
    assert_int_equal(faults_restore_fault(c->to, strbuf_slice(&s)), E_VERSION);
    strbuf_fini(&s);
    strbuf_fini(&again);
    return 0;
}

static int copy_silence(void *arg, const struct silence *silence)
{
    struct copy *c = arg;
    struct strbuf s = {0};
    silence_pack(silence, &s);
    assert_int_equal(faults_restore_silence(c->to, strbuf_slice(&s)), 0);
    assert_int_equal(faults_restore_silence(c->to, strbuf_slice(&s)), E_PROTO);
    strbuf_fini(&s);
    return 0;
}

/* A new guard with this configuration and the records of the one before. */
static struct copy restart(struct world *w, const struct guard_config *config, int64_t at_s)
{
    struct faults_calls calls = {.arg = w, .on_change = on_change, .on_silence = on_silence};
    struct copy c = {.config = &w->config};
    assert_int_equal(faults_create(config, &calls, &c.to), 0);
    (void)faults_each(w->faults, copy_fault, &c);
    (void)faults_silences(w->faults, copy_silence, &c);
    faults_destroy(w->faults);
    w->faults = c.to;
    faults_restored(w->faults, start + at_s * NS_PER_S);
    faults_check(w->faults);
    return c;
}

static void goes_on_after_a_restart(void **state)
{
    struct world *w = *state;
    uint64_t id;
    struct diag why;
    struct silence s = {.host = SLICE_LIT("b"), .from_ns = start, .until_ns = start + 1000 * NS_PER_S};
    assert_int_equal(faults_silence(w->faults, &s, start, &id, &why), 0);
    evaluate(w, TOLD, 0, "a,b");
    evaluate(w, HOST, 0, "a");
    evaluate(w, HOST, 10, "a");
    told(w, 10, "fire load host=a\n");
    assert_int_equal(faults_ack(w->faults, id_of(w, "load"), SLICE_LIT("me"), SLICE_LIT("why"), start), 0);
    struct copy c = restart(w, &w->config, 500);
    assert_int_equal(c.result, 0);
    assert_int_equal(c.n, 3);
    assert_int_equal(counts(w, TOLD).firing, 2);
    /* 10 of the 20 s had counted; the time between does not. */
    evaluate(w, HOST, 500, "a");
    evaluate(w, HOST, 509, "a");
    assert_int_equal(counts(w, HOST).pending, 1);
    evaluate(w, HOST, 510, "a");
    assert_int_equal(counts(w, HOST).firing, 1);
    evaluate(w, SITE, 520, "");
    w->told[0] = '\0';
    (void)faults_notices(w->faults, start + 520 * NS_PER_S, SIZE_MAX, hear, w);
    assert_non_null(strstr(w->told, "fire host-down host=a\n"));
    assert_null(strstr(w->told, "fire load"));
    faults_begin(w->faults, TOLD, start + 530 * NS_PER_S);
    assert_int_equal(row(w, "host", "a", true), 0);
    assert_int_equal(row(w, "host", "b", true), 0);
    faults_end(w->faults, false);
    told(w, 530, "clear load host=a\n");
}

/* That a fault is not seen after a restart may mean that nothing was heard of it: for as long as data is
 * fresh. */
static void is_unheard_after_a_restart(void **state)
{
    struct world *w = *state;
    w->rules[SITE].policy.clear_for_ns = 1000 * NS_PER_S;
    w->rules[SITE].fresh_ns = 150 * NS_PER_S;
    evaluate(w, SITE, 0, "north,south");
    uint64_t south = id_of(w, "site-down");
    assert_false(faults_find(w->faults, south)->is_unheard);
    (void)restart(w, &w->config, 100);
    assert_true(faults_find(w->faults, south)->is_unheard);
    evaluate(w, SITE, 100, "");
    assert_true(faults_find(w->faults, south)->is_unheard);
    evaluate(w, SITE, 249, "north,south");
    assert_false(faults_find(w->faults, south)->is_unheard);
    (void)restart(w, &w->config, 300);
    evaluate(w, SITE, 449, "");
    assert_true(faults_find(w->faults, south)->is_unheard);
    evaluate(w, SITE, 450, "");
    assert_false(faults_find(w->faults, south)->is_unheard);
}

static void ends_when_its_rule_is_gone(void **state)
{
    struct world *w = *state;
    static const char *const other_key[] = {"host", "disk"};
    evaluate(w, TOLD, 0, "a,b");
    evaluate(w, SITE, 0, "north");
    evaluate(w, DARK, 0, "x / 1");
    evaluate(w, HOST, 0, "p");
    told(w, 0,
         "fire load host=a\nfire load host=b\nfire site-down site=north\nfire dark host=x mount=/ free=1\n");
    struct rule_config changed[RULES];
    memcpy(changed, w->rules, sizeof changed);
    changed[TOLD].name = "another";
    changed[HOST].name = "yet-another";
    changed[SITE].is_enabled = false;
    changed[DARK].key.v = other_key;
    struct guard_config config = w->config;
    config.rules = changed;
    config.actions = actions + 1; /* operators are gone, too */
    config.n_actions = 1;
    struct copy c = restart(w, &config, 100);
    assert_int_equal(c.result, -ENOENT); /* what only pended is nobody's business */
    assert_int_equal(c.n, 4);
    assert_int_equal(w->turns[TURN_CLEARS], 4);
    const struct fault *f = faults_find(w->faults, id_of(w, "load"));
    assert_true(f->rule == RULE_GONE && f->is_ended && f->life.state == FAULT_CLEARED);
    assert_int_equal(f->of->on_clear.n, 1);
    assert_string_equal(config.actions[f->of->on_clear.v[0]].name, "boss");
    assert_int_equal(counts(w, RULE_GONE).cleared, 2);
    w->told[0] = '\0';
    assert_int_equal(faults_notices(w->faults, start + 100 * NS_PER_S, SIZE_MAX, hear, w), 4);
    assert_non_null(strstr(w->told, "clear load host=a\n"));
    assert_non_null(strstr(w->told, "clear load host=b\n"));
    assert_non_null(strstr(w->told, "clear site-down site=north\n"));
    assert_non_null(strstr(w->told, "clear dark host=x mount=/ free=1\n"));
    told(w, 100, "");
    faults_forget(w->faults, start + 200 * NS_PER_S, 0);
    assert_int_equal(counts(w, UINT_MAX).cleared, 0);
}

/* A restart in the middle of an hour's `for` loses an eighth of it at most. */
static void what_has_counted_is_written_down(void **state)
{
    struct world *w = *state;
    w->rules[HOST].policy.for_ns = 3600 * NS_PER_S;
    for (int at = 0; at <= 1800; at += 10)
        evaluate(w, HOST, at, "a");
    assert_int_equal(w->changes, 1 + 4);
    int64_t counted = fault_counted_ns(&faults_find(w->faults, id_of(w, "host-down"))->life);
    assert_true(counted == 1800 * NS_PER_S);
}

static void a_circle_of_parents_is_refused(void **state)
{
    struct world *w = *state;
    static const unsigned disk[] = {DISK};
    w->rules[SITE].parents = (struct config_texts){disk_parents, 1};
    w->rules[SITE].parent_rules = disk;
    struct faults *f;
    struct faults_calls calls = {0};
    assert_int_equal(faults_create(&w->config, &calls, &f), -ELOOP);
    static const char *const wrong[] = {"at night"};
    w->rules[SITE].parents.n = 0;
    w->rules[SITE].quiet = (struct config_texts){wrong, 1};
    assert_int_equal(faults_create(&w->config, &calls, &f), -EINVAL);
}

/* Clocks that go back: what was due by the clock before is not due a year later. */
static void notices_of_a_clock_that_goes_back(void **state)
{
    struct world *w = *state;
    evaluate(w, TOLD, 0, "a");
    told(w, 0, "fire load host=a\n");
    const int64_t year = 365 * 86400;
    told(w, -year, "");
    told(w, -year + 100, "repeat load host=a\n");
    evaluate(w, TOLD, -year + 110, "a,b");
    told(w, -2 * year, "fire load host=b\n");
}

static int fail_nth(struct world *w, uint64_t n)
{
    struct faults_calls calls = {0};
    struct faults *f = NULL;
    mem_fail_after(n);
    int r = faults_create(&w->config, &calls, &f);
    if (!r) {
        const struct slice names[] = {SLICE_LIT("host"), SLICE_LIT("mount")};
        const struct value values[] = {value_text(SLICE_LIT("a")), value_text(SLICE_LIT("/"))};
        struct diag why;
        faults_begin(f, HOST, start);
        r = faults_see(f, names, values, 2, &why);
        faults_end(f, false);
        faults_begin(f, DISK, start);
        int s = faults_see(f, names, values, 2, &why);
        faults_end(f, false);
        mem_fail_after(0);
        assert_int_equal(faults_left_out(f, HOST), r < 0);
        assert_int_equal(faults_left_out(f, DISK), s < 0);
        r = r < 0 ? r : s;
        faults_check(f);
    }
    mem_fail_after(0);
    faults_destroy(f);
    return r;
}

static void without_memory(void **state)
{
    uint64_t n = 1;
    while (fail_nth(*state, n) < 0)
        n++;
    assert_true(n > 8);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        STORY(fires_and_clears_once),
        STORY(pending_is_dropped_without_a_word),
        STORY(repeats_and_escalates),
        STORY(between_the_queries_it_stays),
        STORY(silences_hold_back_and_never_the_clear),
        STORY(silences_are_checked),
        STORY(quiet_times_hold_back),
        STORY(a_child_waits_for_its_parent),
        STORY(a_hidden_clear_is_told_if_its_fire_was),
        STORY(a_parent_that_hangs_swallows_nothing),
        STORY(without_data_it_is_held),
        STORY(no_data_can_be_a_fault),
        STORY(keys_are_needed),
        STORY(rows_are_bounded),
        STORY(summaries),
        STORY(goes_on_after_a_restart),
        STORY(is_unheard_after_a_restart),
        STORY(ends_when_its_rule_is_gone),
        STORY(what_has_counted_is_written_down),
        STORY(a_circle_of_parents_is_refused),
        STORY(notices_of_a_clock_that_goes_back),
        STORY(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
