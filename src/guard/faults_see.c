/* SPDX-License-Identifier: Apache-2.0 */
/* An evaluation: each row is the sight of a fault at once, found by its id; the end goes once over the list
 * of the rule and judges those that no row was about (whose stamp is not this evaluation's). */
#include "base/clock.h"
#include "guard/faults_internal.h"

#include <assert.h>
#include <errno.h>

/* A run that counts is written down when so much of it has been added: at most eight times, and not each
 * minute twice. What a restart may lose of it. */
enum { SAVE_PARTS = 8 };
#define SAVE_MIN_NS (60 * NS_PER_S)

static bool is_to_be_saved(const struct entry *e, const struct fault_policy *p)
{
    int64_t all_ns = e->f.life.state == FAULT_PENDING ? p->for_ns : p->clear_for_ns;
    int64_t step_ns = all_ns / SAVE_PARTS > SAVE_MIN_NS ? all_ns / SAVE_PARTS : SAVE_MIN_NS;
    int64_t counted_ns = fault_counted_ns(&e->f.life);
    return counted_ns > 0 && (counted_ns < e->saved_ns || counted_ns - e->saved_ns >= step_ns);
}

static void begin_episode(struct entry *e)
{
    faults_set_ack(e, 0, NULL, 0, 0);
    e->f.is_ended = false;
}

/* What a sight does to a fault, and all that follows but notices. May forget it. */
static void see(struct faults *fs, struct entry *e, enum fault_sight sight)
{
    struct rule_state *r = fs->now_rule;
    bool was_off = e->f.life.state == FAULT_NONE || e->f.life.state == FAULT_CLEARED;
    enum fault_turn turn = fault_see(&e->f.life, &r->config->policy, sight, fs->now_ns);
    if (sight == SIGHT_PRESENT)
        e->present_seq = fs->seq;
    if (e->stamp == fs->seq) /* a row was about it */
        e->f.is_unheard = false;
    if (turn == TURN_NONE) {
        if (is_to_be_saved(e, &r->config->policy))
            faults_changed(fs, e, TURN_NONE);
        if (e->is_waiting)
            faults_look(fs, e, fs->now_ns);
        return;
    }
    if (was_off)
        e->parents_seq = fs->seq;
    if (turn == TURN_FIRES) {
        e->waits_ns = fs->now_ns;
        begin_episode(e);
    }
    faults_look(fs, e, fs->now_ns); /* first: who writes it down says why it is not told, too */
    faults_changed(fs, e, turn);
    if (e->f.life.state == FAULT_NONE)
        faults_remove(fs, e);
}

void faults_begin(struct faults *fs, unsigned rule, int64_t now_ns)
{
    assert(!fs->now_rule && rule < fs->n_rules);
    faults_take_time(fs, now_ns);
    fs->now_rule = &fs->rules[rule];
    fs->now_rule->counts.left_out = 0;
    fs->now_rule->has_moved = false;
    fs->now_ns = now_ns;
    fs->seq++;
}

static int leave_out(struct faults *fs, int code)
{
    fs->now_rule->left_out++;
    fs->now_rule->counts.left_out++;
    return code;
}

/* Do the keys of scratch and of the fault agree? Two of one id that do not are one in 2^64, or made to be. */
static bool is_same(const struct faults *fs, const struct entry *e)
{
    const struct scratch *s = &fs->scratch;
    if (e->f.of != fs->now_rule->config || e->f.n_key != s->n_key)
        return false;
    for (size_t i = 0; i < s->n_key; i++)
        if (!slice_eq(e->f.fields[i].value, s->fields[i].value) ||
            !slice_eq(e->f.fields[i].name, s->fields[i].name))
            return false;
    return true;
}

static int update_row(struct faults *fs, struct entry *e, struct shape *shape)
{
    int err = row_keep(fs, shape, &e->row);
    if (err < 0)
        return err;
    e->f.fields = e->row->fields;
    e->f.n_fields = e->row->n;
    return 0;
}

static int see_row(struct faults *fs, struct shape *shape, const struct value *values)
{
    unsigned rule = (unsigned)(fs->now_rule - fs->rules);
    if (row_scan(fs, shape, values) < 0)
        return leave_out(fs, E_LIMIT);
    uint64_t id = faults_id(fs->now_rule->config->name, fs->scratch.fields, fs->scratch.n_key);
    struct entry *e = entry_of(faults_find(fs, id));
    if (e && !is_same(fs, e))
        return leave_out(fs, E_LIMIT);
    if (e && e->stamp == fs->seq)
        return 0;
    if (e) {
        (void)update_row(fs, e,
                         shape); /* no room for a longer one: the row before stays, the fault is the same */
    } else {
        struct row *row = NULL;
        int err = faults_make_room(fs, row_bytes(&fs->scratch)) ? row_keep(fs, shape, &row) : E_LIMIT;
        if (!err)
            err = faults_add(fs, id, rule, row, &e);
        if (err < 0)
            return leave_out(fs, err);
    }
    e->stamp = fs->seq;
    see(fs, e, SIGHT_PRESENT);
    return 0;
}

static int take_shape(struct faults *fs, struct shape **cache, const struct slice *names, size_t n,
                      struct diag *why)
{
    if (*cache && shape_is_of_query(*cache, names, n))
        return 0;
    struct shape *shape;
    int err = shape_of_query(fs->now_rule->config, names, n, &shape, why);
    if (err < 0)
        return err;
    shape_unref(*cache);
    *cache = shape;
    return 0;
}

int faults_see(struct faults *fs, const struct slice *names, const struct value *values, size_t n,
               struct diag *why)
{
    assert(fs->now_rule);
    struct shape **shape = &fs->now_rule->shape;
    int err = take_shape(fs, shape, names, n, why);
    if (err == -ENOMEM)
        return leave_out(fs, err);
    return err < 0 ? err : see_row(fs, *shape, values);
}

int faults_see_clear(struct faults *fs, const struct slice *names, const struct value *values, size_t n,
                     struct diag *why)
{
    assert(fs->now_rule);
    struct shape **shape = &fs->now_rule->clear_shape;
    int err = take_shape(fs, shape, names, n, why);
    if (err < 0)
        return err;
    if (row_scan(fs, *shape, values) < 0)
        return 0; /* no fault has such a key */
    uint64_t id = faults_id(fs->now_rule->config->name, fs->scratch.fields, fs->scratch.n_key);
    struct entry *e = entry_of(faults_find(fs, id));
    if (!e || e->stamp == fs->seq || !is_same(fs, e))
        return 0;
    e->stamp = fs->seq;
    see(fs, e, SIGHT_CLEAR);
    return 0;
}

int faults_see_no_data(struct faults *fs, struct slice host)
{
    assert(fs->now_rule);
    const struct rule_config *rule = fs->now_rule->config;
    struct slice names[RULE_KEY_MAX + 1];
    struct value values[RULE_KEY_MAX + 1];
    size_t n = 0;
    bool has_host = !rule->key.n;
    for (size_t i = 0; i < rule->key.n; i++) {
        bool is_host = slice_eq_nocase(slice_str(rule->key.v[i]), SLICE_LIT("host"));
        names[n] = slice_str(rule->key.v[i]);
        values[n++] = is_host ? value_text(host) : value_none();
        has_host |= is_host;
    }
    if (!has_host)
        return E_NODATA;
    if (!rule->key.n) {
        names[n] = SLICE_LIT("host");
        values[n++] = value_text(host);
    }
    names[n] = SLICE_LIT("no_data");
    values[n++] = value_int(1);
    struct shape **shape = &fs->now_rule->no_data_shape;
    int err = take_shape(fs, shape, names, n, NULL);
    return err < 0 ? leave_out(fs, err) : see_row(fs, *shape, values);
}

/* What it is for a fault that no row was about. */
static enum fault_sight unseen(struct faults *fs, struct entry *e)
{
    if (e->f.life.state == FAULT_CLEARED)
        return SIGHT_CLEAR; /* all the same to it */
    int64_t listened_ns;
    if (__builtin_sub_overflow(fs->now_ns, fs->restored_ns, &listened_ns) ||
        listened_ns >= fs->now_rule->config->fresh_ns)
        e->f.is_unheard = false;
    if (fs->calls.has_data && !fs->calls.has_data(fs->calls.arg, e->f.rule, &e->f, fs->now_ns))
        return SIGHT_NO_DATA;
    return fs->now_rule->config->clear_query[0] ? SIGHT_BETWEEN : SIGHT_CLEAR;
}

void faults_end(struct faults *fs, bool has_failed)
{
    struct rule_state *r = fs->now_rule;
    assert(r);
    for (struct entry *e = r->entries.first, *next; e; e = next) {
        next = e->in_rule.next;
        if (e->stamp != fs->seq)
            see(fs, e, has_failed ? SIGHT_HELD : unseen(fs, e));
    }
    r->evaluated_seq = fs->seq;
    fs->now_rule = NULL;
    parents_evaluated(fs, r);
}

uint64_t faults_left_out(const struct faults *fs, unsigned rule)
{
    assert(rule < fs->n_rules);
    return fs->rules[rule].left_out;
}
