/* SPDX-License-Identifier: Apache-2.0 */
/* Random signals of faults with gaps, flaps, failing evaluations, clocks that go back, silences,
 * acknowledgements, quiet times, parents, and restarts at any point that lose what was not committed: the set
 * of faults must do what faults_model.h makes of the same signals, and tell what the definition of faults.h
 * says, neither more nor less.
 *
 *     GRIDLINE_TEST_SCALE=100 test_guard_faults_property [first seed [seeds]] */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "guard/faults.h"
#include "unit/guard/faults_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SITE, HOST, DISK, SERVICE, PLAIN, RULES, TARGETS = 11, SIGHTS = 700, STEPS = 700, SILENCES = 200 };

#define CHECK(w, is_true)                                                                            \
    do {                                                                                             \
        if (!(is_true))                                                                              \
            fail_msg("seed %llu, step %zu: %s", (unsigned long long)(w)->seed, (w)->step, #is_true); \
    } while (0)

static const char *const key_site[] = {"site"}, *const key_host[] = {"host"},
                         *const key_disk[] = {"host", "disk"}, *const key_plain[] = {"disk"};
static const char *const some_names[RULES] = {"site", "host", "disk", "service", "plain"};

/* What there is to know of a fault but its signal: written down and lost with it. */
struct memory {
    size_t from, n; /* of the sights that are known */
    uint64_t told_episode;
    int64_t fire_told_ns, told_ns;
    bool is_escalated, is_acked;
};

struct target {
    unsigned rule;
    const char *keys[2]; /* values of the rule's key columns */
    size_t n_keys;
    struct sight sights[SIGHTS];
    size_t step_of[SIGHTS]; /* when each was */
    struct memory now, staged, committed;
    struct strbuf staged_record, committed_record;
    bool has_staged, has_committed;
    enum fault_turn turn; /* said by on_change in this evaluation */
    enum fault_sight signal;
    bool has_data;
    struct verdict verdict;
};

struct model_silence {
    uint64_t id;
    unsigned rule;                 /* RULES = any */
    const char *host, *where_disk; /* NULL = any */
    int64_t from_ns, until_ns;
    bool is_alive, is_staged, is_committed;
    struct strbuf record;
};

struct world {
    uint64_t seed, random;
    size_t step, back_step;
    struct rule_config rules[RULES];
    const char *parents[RULES][RULES];
    unsigned parent_rules[RULES][RULES];
    bool is_ancestor[RULES][RULES], is_parent[RULES][RULES]; /* [child][parent] */
    char quiet_text[36][16];
    const char *quiet[36];
    struct guard_config config;
    struct faults *faults;
    struct target targets[TARGETS];
    struct model_silence silences[SILENCES];
    size_t n_silences;
    int64_t now_ns, restarted_ns;
    uint64_t run, seq, evaluated[RULES];
    int64_t next_ns; /* no notice before, if nothing happens; INT64_MIN = not known */
    size_t fires, clears, told_fires, told_clears, restarts, hidden,
        held_back; /* that something was tested */
};

static uint64_t below(struct world *w, uint64_t n)
{
    return test_random(&w->random) % n;
}

/* ---------------------------------------------------------------- what the definition says */

static void judge(struct world *w, struct target *t)
{
    struct signal s = {t->sights + t->now.from, t->now.n - t->now.from, w->rules[t->rule].policy};
    t->verdict = model_judge(&s);
}

static bool is_on(const struct target *t)
{
    return t->verdict.state == FAULT_FIRING || t->verdict.state == FAULT_CLEARING;
}

static const struct sight *sight_at(const struct target *t, size_t at)
{
    return &t->sights[t->now.from + at];
}

static const char *key_of(const struct world *w, const struct target *t, const char *column)
{
    const struct config_texts *key = &w->rules[t->rule].key;
    for (size_t i = 0; i < key->n; i++)
        if (strcmp(key->v[i], column) == 0)
            return t->keys[i];
    return NULL;
}

/* Do a child and a fault of its ancestor match? */
static bool matches(const struct world *w, const struct target *child, const struct target *parent)
{
    static const char *const columns[] = {"site", "host", "disk"};
    size_t common = 0;
    if (!w->is_ancestor[child->rule][parent->rule])
        return false;
    for (size_t i = 0; i < 3; i++) {
        const char *a = key_of(w, child, columns[i]), *b = key_of(w, parent, columns[i]);
        if (a && b && strcmp(a, b) != 0)
            return false;
        common += a && b;
    }
    return common > 0 || w->is_parent[child->rule][parent->rule];
}

static bool is_related(const struct world *w, unsigned child, unsigned ancestor)
{
    struct target a = {.rule = child, .keys = {"x", "x"}}, b = {.rule = ancestor, .keys = {"x", "x"}};
    return matches(w, &a, &b);
}

static bool is_hidden(const struct world *w, const struct target *t)
{
    for (size_t i = 0; i < TARGETS; i++)
        if (matches(w, t, &w->targets[i]) && is_on(&w->targets[i]))
            return true;
    return false;
}

static bool is_silenced(const struct world *w, const struct target *t)
{
    for (size_t i = 0; i < w->n_silences; i++) {
        const struct model_silence *s = &w->silences[i];
        const char *host = key_of(w, t, "host"), *disk = key_of(w, t, "disk");
        if (s->is_alive && s->from_ns <= w->now_ns && w->now_ns < s->until_ns &&
            (s->rule == RULES || s->rule == t->rule) && (!s->host || (host && strcmp(s->host, host) == 0)) &&
            (!s->where_disk || (disk && strcmp(s->where_disk, disk) == 0)))
            return true;
    }
    return false;
}

/* The first 20 of each 40 minutes. */
static bool is_in_quiet(const struct world *w, const struct target *t)
{
    return w->rules[t->rule].quiet.n && w->now_ns / (60 * NS_PER_S) % 1440 % 40 < 20;
}

static bool is_held_back(const struct world *w, const struct target *t)
{
    return is_silenced(w, t) || is_in_quiet(w, t) || is_hidden(w, t) || t->now.is_acked;
}

static uint64_t last_present(const struct world *w, const struct target *t)
{
    for (size_t i = t->now.n; i-- > t->now.from;)
        if (t->sights[i].run == w->run && t->sights[i].what == SIGHT_PRESENT)
            return t->sights[i].seq;
    return 0;
}

enum answer { NO, YES, MAYBE }; /* MAYBE: a clock has gone back while it waited */

/* May the fire of one that fires be told, as far as its parents are known? */
static enum answer is_known(const struct world *w, const struct target *t)
{
    const struct sight *first = sight_at(t, t->verdict.seen_at), *fire = sight_at(t, t->verdict.fired_at);
    uint64_t since = first->run == w->run ? first->seq : 0;
    int64_t waits_ns = fire->run == w->run ? fire->at_ns : w->restarted_ns, wait_max_ns = 0;
    size_t wait_step = fire->run == w->run ? t->step_of[t->now.from + t->verdict.fired_at] : 0;
    bool is_known = true, has_ancestors = false;
    for (unsigned a = 0; a < RULES; a++) {
        const struct rule_config *p = &w->rules[a], *c = &w->rules[t->rule];
        int64_t wait_ns = 2 * (p->every_ns + p->policy.for_ns + p->policy.hold_down_ns + c->every_ns);
        if (!is_related(w, t->rule, a))
            continue;
        has_ancestors = true;
        wait_max_ns = wait_ns > wait_max_ns ? wait_ns : wait_max_ns;
        is_known &= w->evaluated[a] > since;
    }
    if (!has_ancestors)
        return YES;
    for (size_t i = 0; i < TARGETS; i++) {
        const struct target *p = &w->targets[i];
        if (!matches(w, t, p))
            continue;
        is_known &= p->verdict.state != FAULT_PENDING;
        const struct sight *end = sight_at(p, p->verdict.cleared_at);
        bool has_ended = p->verdict.episode > is_on(p) && end->run == w->run && end->seq > since;
        if (!has_ended)
            continue;
        is_known &= last_present(w, t) > end->seq;
        waits_ns = end->at_ns > waits_ns ? end->at_ns : waits_ns;
        size_t end_step = p->step_of[p->now.from + p->verdict.cleared_at];
        wait_step = end_step < wait_step ? end_step : wait_step;
    }
    if (is_known)
        return YES;
    if (w->back_step && w->back_step >= wait_step)
        return MAYBE;
    return w->now_ns >= waits_ns + wait_max_ns ? YES : NO;
}

/* ---------------------------------------------------------------- what the set says */

static struct target *target_of(struct world *w, const struct fault *f)
{
    for (size_t i = 0; i < TARGETS; i++) {
        struct target *t = &w->targets[i];
        bool is_it = t->rule == f->rule && f->n_key == t->n_keys;
        for (size_t k = 0; k < t->n_keys && is_it; k++)
            is_it = slice_eq_str(f->fields[k].value, t->keys[k]);
        if (is_it)
            return t;
    }
    fail();
    return NULL;
}

static void on_change(void *arg, const struct fault *f, enum fault_turn turn)
{
    struct world *w = arg;
    struct target *t = target_of(w, f);
    if (turn == TURN_FIRES || turn == TURN_CLEARS) {
        CHECK(w, t->turn == TURN_NONE);
        t->turn = turn;
        t->now.is_acked = turn == TURN_FIRES ? false : t->now.is_acked;
    }
    t->has_staged = f->life.state != FAULT_NONE;
    strbuf_reset(&t->staged_record);
    if (t->has_staged) {
        fault_pack(f, &w->config, &t->staged_record);
    } else {
        CHECK(w, !t->now.told_episode); /* nobody is left waiting */
        t->now = (struct memory){.from = t->now.n, .n = t->now.n};
    }
    t->staged = t->now;
}

static void on_silence(void *arg, const struct silence *s, bool is_over)
{
    struct world *w = arg;
    for (size_t i = 0; i < w->n_silences; i++)
        if (w->silences[i].id == s->id && w->silences[i].is_alive && is_over) {
            w->silences[i].is_alive = w->silences[i].is_staged = false;
            return;
        }
    CHECK(w, !is_over && w->n_silences < SILENCES);
    silence_pack(s, &w->silences[w->n_silences++].record); /* silence() says the rest */
}

static bool has_data(void *arg, unsigned rule, const struct fault *f, int64_t now_ns)
{
    (void)rule, (void)now_ns;
    return target_of(arg, f)->has_data;
}

static void hear_fire(struct world *w, struct target *t, const struct notice *n)
{
    CHECK(w, !t->now.told_episode && t->verdict.state == FAULT_FIRING && n->episode == t->verdict.episode);
    CHECK(w, !is_held_back(w, t) && is_known(w, t) != NO);
    t->now.told_episode = n->episode;
    t->now.fire_told_ns = t->now.told_ns = w->now_ns;
    t->now.is_escalated = false;
    w->told_fires++;
}

static void hear_again(struct world *w, struct target *t, const struct notice *n)
{
    const struct rule_config *r = &w->rules[t->rule];
    CHECK(w, t->now.told_episode == n->episode && n->episode == t->verdict.episode);
    CHECK(w, t->verdict.state == FAULT_FIRING && !is_held_back(w, t));
    if (n->kind == NOTICE_REPEAT) {
        CHECK(w, r->repeat_ns && w->now_ns >= t->now.told_ns + r->repeat_ns);
        t->now.told_ns = w->now_ns;
    } else {
        CHECK(w, r->escalate_ns && !t->now.is_escalated && w->now_ns >= t->now.fire_told_ns + r->escalate_ns);
        t->now.is_escalated = true;
    }
}

static void hear(void *arg, const struct notice *n)
{
    struct world *w = arg;
    struct target *t = target_of(w, n->fault);
    CHECK(w, n->now_ns == w->now_ns && n->rule == &w->rules[t->rule]);
    if (n->kind == NOTICE_FIRE) {
        hear_fire(w, t, n);
    } else if (n->kind != NOTICE_CLEAR) {
        hear_again(w, t, n);
    } else {
        CHECK(w, t->now.told_episode && n->episode == t->now.told_episode);
        CHECK(w, !is_on(t) || t->verdict.episode > n->episode);
        t->now.told_episode = 0;
        t->now.fire_told_ns = t->now.told_ns = 0;
        t->now.is_escalated = false;
        w->told_clears++;
    }
}

/* Everything that is due has been told. */
static void check_all_told(struct world *w)
{
    for (size_t i = 0; i < TARGETS; i++) {
        const struct target *t = &w->targets[i];
        const struct rule_config *r = &w->rules[t->rule];
        bool is_told = t->now.told_episode != 0;
        CHECK(w, !is_told || (is_on(t) && t->now.told_episode == t->verdict.episode)); /* no clear is lost */
        if (t->verdict.state != FAULT_FIRING)
            continue;
        w->hidden += is_hidden(w, t);
        w->held_back += is_held_back(w, t);
        if (is_held_back(w, t))
            continue;
        CHECK(w, is_told || is_known(w, t) != YES);
        CHECK(w, !is_told || !r->repeat_ns || w->now_ns < t->now.told_ns + r->repeat_ns);
        CHECK(w, !is_told || !r->escalate_ns || t->now.is_escalated ||
                     w->now_ns < t->now.fire_told_ns + r->escalate_ns);
    }
}

static int check_flags(void *arg, const struct fault *f)
{
    struct world *w = arg;
    const struct target *t = target_of(w, f);
    CHECK(w, f->is_hidden == (is_on(t) && is_hidden(w, t)));
    CHECK(w, f->is_silenced == (is_on(t) && is_silenced(w, t)));
    CHECK(w, f->is_in_quiet == (is_on(t) && is_in_quiet(w, t)));
    CHECK(w, (f->acked_ns != 0) == t->now.is_acked || !is_on(t));
    CHECK(w, f->is_told == (t->now.told_episode != 0) && f->told_episode == t->now.told_episode);
    return 0;
}

static void draw(struct world *w, size_t max)
{
    size_t n = faults_notices(w->faults, w->now_ns, max, hear, w);
    CHECK(w, n <= max);
    CHECK(w, n == 0 || w->now_ns >= w->next_ns);
    if (n < max) {
        check_all_told(w);
        (void)faults_each(w->faults, check_flags, w);
    }
    w->next_ns = faults_next(w->faults, w->now_ns);
    CHECK(w, w->next_ns >= w->now_ns && (n == max || w->next_ns > w->now_ns));
    if (n == max)
        w->next_ns = INT64_MIN;
}

/* ---------------------------------------------------------------- what happens */

static void put_row(struct world *w, const struct target *t, bool is_clear)
{
    const struct config_texts *key = &w->rules[t->rule].key;
    struct slice names[3] = {SLICE_LIT("value")};
    struct value values[3] = {value_int((int64_t)below(w, 1000000))};
    struct diag why;
    for (size_t i = 0; i < key->n; i++) {
        names[i + 1] = slice_str(key->v[i]);
        values[i + 1] = value_text(slice_str(t->keys[i]));
    }
    CHECK(w, (is_clear ? faults_see_clear : faults_see)(w->faults, names, values, key->n + 1, &why) == 0);
}

static enum fault_sight sight_of(struct world *w, const struct target *t, bool has_failed, bool has_row)
{
    if (has_row)
        return SIGHT_PRESENT;
    if (has_failed)
        return SIGHT_HELD;
    bool has_clear_query = w->rules[t->rule].clear_query[0];
    if (has_clear_query && t->signal == SIGHT_CLEAR)
        return SIGHT_CLEAR; /* its row came, so there was data */
    if (!t->has_data)
        return SIGHT_NO_DATA;
    return has_clear_query ? SIGHT_BETWEEN : SIGHT_CLEAR;
}

static void remember(struct world *w, struct target *t, enum fault_sight what)
{
    CHECK(w, t->now.n < SIGHTS);
    struct sight *s = &t->sights[t->now.n];
    bool is_first = t->now.n == t->now.from;
    bool is_after_gap = !is_first && s[-1].run != w->run;
    *s = (struct sight){what, w->now_ns, is_after_gap, w->run, w->seq};
    t->step_of[t->now.n++] = w->step;
    t->turn = TURN_NONE;
}

static void check_rule(struct world *w, unsigned rule)
{
    struct faults_counts c, seen = {0};
    faults_count(w->faults, rule, &c);
    for (size_t i = 0; i < TARGETS; i++) {
        struct target *t = &w->targets[i];
        if (t->rule != rule)
            continue;
        judge(w, t);
        seen.pending += t->verdict.state == FAULT_PENDING;
        seen.firing += t->verdict.state == FAULT_FIRING;
        seen.clearing += t->verdict.state == FAULT_CLEARING;
        seen.cleared += t->verdict.state == FAULT_CLEARED;
        w->fires += t->turn == TURN_FIRES;
        w->clears += t->turn == TURN_CLEARS;
        CHECK(w, t->turn == t->verdict.turn); /* one fire and one clear a true episode, when it is one */
        t->turn = TURN_NONE;
    }
    CHECK(w, seen.pending == c.pending && seen.firing == c.firing && seen.clearing == c.clearing);
    CHECK(w, seen.cleared == c.cleared);
}

static int check_life(void *arg, const struct fault *f)
{
    struct world *w = arg;
    const struct target *t = target_of(w, f);
    CHECK(w, f->life.state == t->verdict.state && f->life.episode == t->verdict.episode);
    return 0;
}

static void evaluate(struct world *w, unsigned rule)
{
    bool has_failed = below(w, 12) == 0, has_rows[TARGETS] = {0};
    w->seq++;
    for (size_t i = 0; i < TARGETS; i++) {
        struct target *t = &w->targets[i];
        if (t->rule != rule)
            continue;
        if (below(w, 4) == 0)
            t->signal = (enum fault_sight)below(w, SIGHT_BETWEEN + 1);
        if (below(w, 8) == 0)
            t->has_data = below(w, 3) != 0;
        has_rows[i] = t->signal == SIGHT_PRESENT && t->has_data && !(has_failed && below(w, 2));
        remember(w, t, sight_of(w, t, has_failed, has_rows[i]));
    }
    faults_begin(w->faults, rule, w->now_ns);
    for (size_t i = 0; i < TARGETS; i++)
        if (has_rows[i])
            put_row(w, &w->targets[i], false);
    for (size_t i = 0; i < TARGETS && w->rules[rule].clear_query[0] && !has_failed; i++)
        if (w->targets[i].rule == rule && (has_rows[i] ? below(w, 2) : w->targets[i].signal == SIGHT_CLEAR))
            put_row(w, &w->targets[i], true); /* where both give it, it is present */
    faults_end(w->faults, has_failed);
    w->evaluated[rule] = w->seq;
    w->next_ns = INT64_MIN;
    check_rule(w, rule);
    (void)faults_each(w->faults, check_life, w);
}

static int find_id(void *arg, const struct fault *f)
{
    uint64_t *ids = arg;
    ids[1 + ids[0]++] = f->id;
    return 0;
}

static void acknowledge(struct world *w)
{
    uint64_t ids[TARGETS + 1] = {0};
    (void)faults_each(w->faults, find_id, ids);
    if (!ids[0])
        return;
    uint64_t id = ids[1 + below(w, ids[0])];
    struct target *t = target_of(w, faults_find(w->faults, id));
    bool is_ack = below(w, 3) != 0;
    int expected = !is_on(t) ? -EINVAL : t->now.is_acked == is_ack ? -EALREADY : 0;
    bool was_acked = t->now.is_acked;
    if (!expected)
        t->now.is_acked = is_ack;
    int r = is_ack ? faults_ack(w->faults, id, SLICE_LIT("me"), SLICE_LIT("note"), w->now_ns)
                   : faults_unack(w->faults, id, w->now_ns);
    CHECK(w, r == expected);
    CHECK(w, !expected || t->now.is_acked == was_acked);
    w->next_ns = INT64_MIN;
}

static void silence(struct world *w)
{
    static const char *const hosts[] = {NULL, NULL, "h0", "h1"}, *const disks[] = {NULL, NULL, NULL, "d0"};
    size_t at = w->n_silences;
    if (at == SILENCES || below(w, 3) == 0) {
        for (size_t i = 0; i < at; i++)
            if (w->silences[i].is_alive && below(w, 2)) {
                CHECK(w, faults_unsilence(w->faults, w->silences[i].id, w->now_ns) == 0);
                CHECK(w, !w->silences[i].is_alive);
                break;
            }
        w->next_ns = INT64_MIN;
        return;
    }
    struct model_silence m = {.rule = (unsigned)below(w, RULES + 1), .host = hosts[below(w, 4)]};
    m.where_disk = disks[below(w, 4)];
    m.from_ns = w->now_ns + (int64_t)below(w, 3) * 30 * NS_PER_S;
    m.until_ns = m.from_ns + (int64_t)(1 + below(w, 300)) * NS_PER_S;
    struct silence s = {.rule = m.rule < RULES ? slice_str(some_names[m.rule]) : slice_of("", 0),
                        .host = m.host ? slice_str(m.host) : slice_of("", 0),
                        .where = m.where_disk ? SLICE_LIT("disk=d0") : slice_of("", 0),
                        .from_ns = m.from_ns,
                        .until_ns = m.until_ns,
                        .by = SLICE_LIT("me")};
    uint64_t id;
    struct diag why;
    CHECK(w, faults_silence(w->faults, &s, w->now_ns, &id, &why) == 0);
    m.id = id;
    m.is_alive = m.is_staged = true;
    m.record = w->silences[at].record;
    w->silences[at] = m;
    w->next_ns = INT64_MIN;
}

/* What was put down so far is durable. */
static void commit(struct world *w)
{
    for (size_t i = 0; i < TARGETS; i++) {
        struct target *t = &w->targets[i];
        strbuf_reset(&t->committed_record);
        strbuf_add_slice(&t->committed_record, strbuf_slice(&t->staged_record));
        t->has_committed = t->has_staged;
        t->committed = t->staged;
    }
    for (size_t i = 0; i < w->n_silences; i++)
        w->silences[i].is_committed = w->silences[i].is_staged;
}

static void start_set(struct world *w)
{
    struct faults_calls calls = {
        .arg = w, .on_change = on_change, .on_silence = on_silence, .has_data = has_data};
    CHECK(w, faults_create(&w->config, &calls, &w->faults) == 0);
}

/* Times of a clock that has gone back: as the set mends them when it looks. */
static void mend(struct world *w)
{
    for (size_t i = 0; i < TARGETS; i++) {
        struct memory *m = &w->targets[i].now;
        m->told_ns = m->told_ns > w->now_ns ? w->now_ns : m->told_ns;
        m->fire_told_ns = m->fire_told_ns > w->now_ns ? w->now_ns : m->fire_told_ns;
    }
}

static void restart(struct world *w)
{
    faults_destroy(w->faults);
    start_set(w);
    w->restarts++;
    w->run++;
    w->seq = 0;
    w->restarted_ns = w->now_ns;
    memset(w->evaluated, 0, sizeof w->evaluated);
    for (size_t i = 0; i < TARGETS; i++) {
        struct target *t = &w->targets[i];
        if (t->has_committed)
            CHECK(w, faults_restore_fault(w->faults, strbuf_slice(&t->committed_record)) == 0);
        t->now = t->committed;
        if (!t->has_committed)
            t->now = (struct memory){.from = t->now.n, .n = t->now.n};
        t->staged = t->now;
        t->has_staged = t->has_committed;
        strbuf_reset(&t->staged_record);
        strbuf_add_slice(&t->staged_record, strbuf_slice(&t->committed_record));
        t->turn = TURN_NONE;
        judge(w, t);
    }
    for (size_t i = 0; i < w->n_silences; i++) {
        struct model_silence *s = &w->silences[i];
        s->is_alive = s->is_staged = s->is_committed;
        if (s->is_alive)
            CHECK(w, faults_restore_silence(w->faults, strbuf_slice(&s->record)) == 0);
    }
    faults_restored(w->faults, w->now_ns);
    mend(w);
    w->next_ns = INT64_MIN;
    draw(w, 0);
    (void)faults_each(w->faults, check_life, w);
}

static void go_back(struct world *w)
{
    w->now_ns -= (int64_t)(2 + below(w, below(w, 4) ? 20 : 5000)) * NS_PER_S;
    w->back_step = w->step;
    w->next_ns = INT64_MIN;
    mend(w);
    draw(w, 0);
}

static void forget(struct world *w)
{
    faults_forget(w->faults, w->now_ns, 2000 * NS_PER_S);
    for (size_t i = 0; i < TARGETS; i++)
        judge(w, &w->targets[i]);
    w->next_ns = INT64_MIN;
}

static void happen(struct world *w)
{
    w->now_ns += (int64_t)below(w, 10 * NS_PER_S) + (below(w, 50) == 0 ? 1500 * NS_PER_S : 0);
    uint64_t what = below(w, 100);
    if (what < 55)
        evaluate(w, (unsigned)below(w, RULES));
    else if (what < 70)
        draw(w, SIZE_MAX);
    else if (what < 75)
        draw(w, below(w, 3));
    else if (what < 80)
        acknowledge(w);
    else if (what < 84)
        silence(w);
    else if (what < 94)
        commit(w);
    else if (what < 96)
        restart(w);
    else if (what < 98)
        go_back(w);
    else
        forget(w);
}

/* ---------------------------------------------------------------- worlds */

static int64_t some_time(struct world *w, uint64_t seconds)
{
    return below(w, 2) ? 0 : (int64_t)below(w, seconds) * NS_PER_S;
}

static void make_rules(struct world *w)
{
    static const struct config_texts keys[RULES] = {
        {key_site, 1}, {key_host, 1}, {key_disk, 2}, {key_host, 1}, {key_plain, 1}};
    for (unsigned i = 0; i < 36; i++) {
        snprintf(w->quiet_text[i], sizeof w->quiet_text[i], "%02u:%02u-%02u:%02u utc", i * 40 / 60,
                 i * 40 % 60, (i * 40 + 20) / 60 % 25, (i * 40 + 20) % 60);
        w->quiet[i] = w->quiet_text[i];
    }
    for (unsigned i = 0; i < RULES; i++) {
        struct rule_config *r = &w->rules[i];
        *r = (struct rule_config){
            .name = some_names[i], .help = "", .query = "q", .summary = "", .key = keys[i]};
        r->clear_query = below(w, 2) ? "c" : "";
        r->every_ns = (int64_t)below(w, 20) * NS_PER_S;
        r->is_enabled = true;
        r->policy = (struct fault_policy){some_time(w, 60), some_time(w, 60), some_time(w, 120),
                                          (enum no_data)below(w, NO_DATA_IGNORE + 1)};
        r->repeat_ns = some_time(w, 300);
        r->escalate_ns = some_time(w, 600);
        if (below(w, 4) == 0)
            r->quiet = (struct config_texts){w->quiet, 36};
        r->parents.v = w->parents[i];
        r->parent_rules = w->parent_rules[i];
        for (unsigned p = 0; p < i; p++) {
            if (below(w, 3))
                continue;
            w->parent_rules[i][r->parents.n] = p;
            w->parents[i][r->parents.n++] = some_names[p];
            w->is_parent[i][p] = w->is_ancestor[i][p] = true;
            for (unsigned a = 0; a < p; a++)
                w->is_ancestor[i][a] |= w->is_ancestor[p][a];
        }
    }
    w->config = (struct guard_config){.rules = w->rules, .n_rules = RULES};
}

static struct world *make_world(uint64_t seed)
{
    static const struct {
        unsigned rule;
        const char *keys[2];
    } all[TARGETS] = {{SITE, {"s0"}},       {SITE, {"s1"}},       {HOST, {"h0"}},       {HOST, {"h1"}},
                      {DISK, {"h0", "d0"}}, {DISK, {"h0", "d1"}}, {DISK, {"h1", "d0"}}, {SERVICE, {"h0"}},
                      {SERVICE, {"h1"}},    {PLAIN, {"d0"}},      {PLAIN, {"d1"}}};
    struct world *w = mem_alloc(sizeof *w);
    w->seed = w->random = seed;
    w->now_ns = (1800000000 + (int64_t)below(w, 86400)) * NS_PER_S;
    w->restarted_ns = w->now_ns;
    w->run = 1;
    w->next_ns = INT64_MIN;
    make_rules(w);
    for (size_t i = 0; i < TARGETS; i++) {
        struct target *t = &w->targets[i];
        t->rule = all[i].rule;
        t->n_keys = all[i].keys[1] ? 2 : 1;
        memcpy(t->keys, all[i].keys, sizeof t->keys);
        t->signal = SIGHT_CLEAR;
        t->has_data = true;
    }
    start_set(w);
    return w;
}

/* Everything ends: in the end nobody is left waiting, and nothing is left to tell. */
static void end_world(struct world *w)
{
    for (size_t i = 0; i < TARGETS; i++) {
        w->targets[i].signal = SIGHT_CLEAR;
        w->targets[i].has_data = true;
    }
    for (int round = 0; round < 3; round++)
        for (unsigned rule = 0; rule < RULES; rule++) {
            w->now_ns += 200 * NS_PER_S;
            w->seq++;
            faults_begin(w->faults, rule, w->now_ns);
            for (size_t i = 0; i < TARGETS; i++) {
                if (w->targets[i].rule != rule)
                    continue;
                remember(w, &w->targets[i], SIGHT_CLEAR);
                if (w->rules[rule].clear_query[0])
                    put_row(w, &w->targets[i], true);
            }
            faults_end(w->faults, false);
            w->evaluated[rule] = w->seq;
            check_rule(w, rule);
        }
    w->next_ns = INT64_MIN;
    draw(w, SIZE_MAX);
    struct faults_counts c;
    faults_count(w->faults, UINT_MAX, &c);
    CHECK(w, c.pending + c.firing + c.clearing == 0);
    for (size_t i = 0; i < TARGETS; i++)
        CHECK(w, !w->targets[i].now.told_episode);
}

static void destroy_world(struct world *w)
{
    faults_destroy(w->faults);
    for (size_t i = 0; i < TARGETS; i++) {
        strbuf_fini(&w->targets[i].staged_record);
        strbuf_fini(&w->targets[i].committed_record);
    }
    for (size_t i = 0; i < SILENCES; i++)
        strbuf_fini(&w->silences[i].record);
    mem_free(w);
}

static uint64_t first_seed = 1, seeds = 150;

static void as_the_definition_says(void **state)
{
    (void)state;
    size_t fires = 0, clears = 0, told_fires = 0, told_clears = 0, restarts = 0, hidden = 0, held_back = 0;
    uint64_t n = seeds * test_scale();
    for (uint64_t seed = first_seed; seed < first_seed + n; seed++) {
        struct world *w = make_world(seed);
        for (w->step = 1; w->step < STEPS; w->step++) {
            happen(w);
            faults_check(w->faults);
        }
        end_world(w);
        fires += w->fires, clears += w->clears, told_fires += w->told_fires, told_clears += w->told_clears;
        restarts += w->restarts, hidden += w->hidden, held_back += w->held_back;
        destroy_world(w);
    }
    printf("%llu seeds: %zu fires, %zu clears, %zu and %zu told, %zu restarts, %zu looks hidden, %zu held "
           "back\n",
           (unsigned long long)n, fires, clears, told_fires, told_clears, restarts, hidden, held_back);
    assert_true(fires && clears && told_fires && told_clears && told_fires < fires && restarts && hidden);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seeds = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_definition_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
