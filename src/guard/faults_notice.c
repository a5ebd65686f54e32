/* SPDX-License-Identifier: Apache-2.0 */
/* Notices. A heap has each fault of which something is, or will be, to be told, by when. One that is held
 * back is not in it (or for the end of its wait); it is looked at again when what holds it back may have
 * gone: its rule is made dirty, and all its faults are looked at by the next faults_notices. That costs what
 * an evaluation of the rule costs, and comes as rarely as silences, quiet times and faults of parents begin
 * and end. A fault is looked at once more before it is told, so what is in the heap can be late, never wrong.
 */
#include "base/clock.h"
#include "guard/faults_internal.h"

#include <assert.h>

const char *notice_name(enum notice_kind k)
{
    static const char *const names[] = {"fire", "repeat", "escalate", "clear"};
    return names[k];
}

/* ---------------------------------------------------------------- the heap */

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->due_order < b->due_order;
}

static void put_at(struct faults *fs, size_t i, struct entry *e)
{
    fs->heap[i] = e;
    e->heap_at = (uint32_t)i + 1;
}

static void sift(struct faults *fs, size_t i, struct entry *e)
{
    for (; i > 0 && is_before(e, fs->heap[(i - 1) / 2]); i = (i - 1) / 2)
        put_at(fs, i, fs->heap[(i - 1) / 2]);
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < fs->heap_n && is_before(fs->heap[child + 1], fs->heap[child]))
            child++;
        if (child >= fs->heap_n || !is_before(fs->heap[child], e))
            break;
        put_at(fs, i, fs->heap[child]);
        i = child;
    }
    put_at(fs, i, e);
}

void faults_undue(struct faults *fs, struct entry *e)
{
    if (!e->heap_at)
        return;
    size_t at = e->heap_at - 1;
    struct entry *last = fs->heap[--fs->heap_n];
    e->heap_at = 0;
    if (last != e)
        sift(fs, at, last);
}

static void set_due(struct faults *fs, struct entry *e, int64_t due_ns)
{
    if (due_ns == INT64_MAX) {
        faults_undue(fs, e);
        return;
    }
    if (e->heap_at && e->due_ns == due_ns)
        return;
    e->due_ns = due_ns;
    e->due_order = fs->due_order++;
    size_t at = e->heap_at ? e->heap_at - 1 : fs->heap_n++;
    sift(fs, at, e);
}

/* ---------------------------------------------------------------- what is due */

bool faults_owes_clear(const struct entry *e)
{
    bool is_of_this = e->f.told_episode == e->f.life.episode && fault_is_on(&e->f.life);
    return e->f.is_told && !is_of_this;
}

static int64_t later(int64_t at_ns, int64_t by_ns)
{
    int64_t sum;
    return __builtin_add_overflow(at_ns, by_ns, &sum) ? INT64_MAX : sum;
}

/* When the next repeat or escalation of one that was told is due, and which. */
static int64_t next_of_told(const struct entry *e, enum notice_kind *kind)
{
    const struct rule_config *rule = e->f.of;
    int64_t repeat_ns = rule->repeat_ns > 0 ? later(e->f.told_ns, rule->repeat_ns) : INT64_MAX;
    bool escalates = rule->escalate_ns > 0 && !e->f.escalated_ns;
    int64_t escalate_ns = escalates ? later(e->f.fire_told_ns, rule->escalate_ns) : INT64_MAX;
    *kind = escalate_ns <= repeat_ns ? NOTICE_ESCALATE : NOTICE_REPEAT;
    return escalate_ns <= repeat_ns ? escalate_ns : repeat_ns;
}

/* When something is due next as things are, and what. *waits: its parents are not known. */
static int64_t next_due(struct faults *fs, struct entry *e, int64_t now_ns, enum notice_kind *kind,
                        bool *waits)
{
    *waits = false;
    *kind = NOTICE_CLEAR;
    if (faults_owes_clear(e))
        return now_ns;
    bool is_held_back = e->f.is_silenced || e->f.is_in_quiet || e->f.is_hidden || e->f.acked_ns;
    if (e->f.life.state != FAULT_FIRING || is_held_back)
        return INT64_MAX;
    if (e->f.is_told)
        return next_of_told(e, kind);
    *kind = NOTICE_FIRE;
    int64_t until_ns = parents_wait(fs, e, now_ns);
    *waits = until_ns > now_ns;
    return *waits ? until_ns : now_ns;
}

static void set_waiting(struct faults *fs, struct entry *e, bool is_waiting)
{
    struct rule_state *r = rule_of(fs, e);
    r->n_waiting += (size_t)is_waiting - (size_t)e->is_waiting;
    e->is_waiting = is_waiting;
}

static void set_flags(struct faults *fs, struct entry *e, int64_t now_ns)
{
    bool is_on = fault_is_on(&e->f.life);
    e->f.is_silenced = is_on && silences_match(&fs->silences, &e->f, now_ns);
    e->f.is_in_quiet = is_on && rule_of(fs, e)->is_in_quiet;
    e->f.is_hidden = is_on && parents_hide(fs, e);
    faults_recount(fs, e);
}

/* Times that a clock which has gone back put into the future would hold up what follows them. */
static void mend_times(struct entry *e, int64_t now_ns)
{
    if (e->f.is_told && e->f.told_ns > now_ns)
        e->f.told_ns = now_ns;
    if (e->f.is_told && e->f.fire_told_ns > now_ns)
        e->f.fire_told_ns = now_ns;
    if (!e->waits_ns || e->waits_ns > now_ns)
        e->waits_ns = now_ns;
}

/* True: this is due. */
static bool look(struct faults *fs, struct entry *e, int64_t now_ns, enum notice_kind *kind)
{
    bool waits;
    mend_times(e, now_ns);
    set_flags(fs, e, now_ns);
    int64_t due_ns = next_due(fs, e, now_ns, kind, &waits);
    set_waiting(fs, e, waits);
    set_due(fs, e, e->heap_at && e->due_ns <= now_ns && due_ns <= now_ns ? e->due_ns : due_ns);
    return due_ns <= now_ns;
}

void faults_look(struct faults *fs, struct entry *e, int64_t now_ns)
{
    enum notice_kind kind;
    (void)look(fs, e, now_ns, &kind); /* faults_notices will see */
}

/* ---------------------------------------------------------------- what may have changed */

void faults_dirty(struct faults *fs, struct rule_state *r)
{
    fs->is_dirty = true;
    if (r) {
        r->is_dirty = true;
        return;
    }
    for (size_t i = 0; i <= fs->n_rules; i++)
        fs->rules[i].is_dirty = true;
}

static void end_silences(struct faults *fs, int64_t now_ns)
{
    const struct silence *s;
    while ((s = silences_over(&fs->silences, now_ns))) {
        if (fs->calls.on_silence)
            fs->calls.on_silence(fs->calls.arg, s, true);
        silences_remove(&fs->silences, s->id);
    }
    faults_dirty(fs, NULL);
    fs->silence_next_ns = silences_next(&fs->silences, now_ns);
}

static void turn_quiet(struct faults *fs, int64_t now_ns)
{
    fs->quiet_next_ns = INT64_MAX;
    for (size_t i = 0; i < fs->n_rules; i++) {
        struct rule_state *r = &fs->rules[i];
        if (!r->n_quiet)
            continue;
        bool is_in_quiet = quiet_is(r->quiet, r->n_quiet, now_ns);
        if (is_in_quiet != r->is_in_quiet)
            faults_dirty(fs, r);
        r->is_in_quiet = is_in_quiet;
        int64_t next_ns = quiet_next(r->quiet, r->n_quiet, now_ns);
        fs->quiet_next_ns = next_ns < fs->quiet_next_ns ? next_ns : fs->quiet_next_ns;
    }
}

static void look_at_dirty(struct faults *fs, int64_t now_ns)
{
    for (size_t i = 0; i <= fs->n_rules; i++) {
        struct rule_state *r = &fs->rules[i];
        if (!r->is_dirty)
            continue;
        r->is_dirty = false;
        for (struct entry *e = r->entries.first; e; e = e->in_rule.next)
            faults_look(fs, e, now_ns);
    }
    fs->is_dirty = false;
}

/* Calls of one turn may have read the clock in another order: that makes nothing late by more than this. */
static bool has_gone_back(const struct faults *fs, int64_t now_ns)
{
    return now_ns <= INT64_MAX - NS_PER_S && fs->last_ns > now_ns + NS_PER_S;
}

/* What was due by a clock that has gone back may lie far ahead now: everything is looked at again. */
void faults_take_time(struct faults *fs, int64_t now_ns)
{
    bool is_back = has_gone_back(fs, now_ns);
    if (is_back) {
        fs->silence_next_ns = INT64_MIN;
        fs->quiet_next_ns = fs->quiet_next_ns == INT64_MAX ? INT64_MAX : INT64_MIN;
    }
    if (is_back || now_ns > fs->last_ns)
        fs->last_ns = now_ns;
}

static void bring_up_to_date(struct faults *fs, int64_t now_ns)
{
    faults_take_time(fs, now_ns);
    if (now_ns >= fs->silence_next_ns)
        end_silences(fs, now_ns);
    if (now_ns >= fs->quiet_next_ns)
        turn_quiet(fs, now_ns);
    if (fs->is_dirty)
        look_at_dirty(fs, now_ns);
}

/* ---------------------------------------------------------------- giving */

static void mark(struct entry *e, enum notice_kind kind, int64_t now_ns)
{
    int64_t at_ns = now_ns ? now_ns : 1; /* 0 is: not yet */
    switch (kind) {
    case NOTICE_FIRE:
        e->f.is_told = true;
        e->f.told_episode = e->f.life.episode;
        e->f.fire_told_ns = e->f.told_ns = at_ns;
        e->f.escalated_ns = 0;
        break;
    case NOTICE_REPEAT:
        e->f.told_ns = at_ns;
        break;
    case NOTICE_ESCALATE:
        e->f.escalated_ns = at_ns;
        break;
    case NOTICE_CLEAR:
        e->f.is_told = false;
        e->f.told_episode = 0;
        e->f.fire_told_ns = e->f.told_ns = e->f.escalated_ns = 0;
        break;
    }
}

static void give(struct faults *fs, struct entry *e, enum notice_kind kind, int64_t now_ns,
                 void (*fn)(void *arg, const struct notice *n), void *arg)
{
    struct notice n = {.kind = kind, .fault = &e->f, .rule = e->f.of, .now_ns = now_ns};
    n.episode = kind == NOTICE_CLEAR ? e->f.told_episode : e->f.life.episode;
    mark(e, kind, now_ns);
    fn(arg, &n);
    faults_changed(fs, e, TURN_NONE);
    faults_undue(fs, e); /* whatever comes next is behind the others that are due */
    faults_look(fs, e, now_ns);
}

size_t faults_notices(struct faults *fs, int64_t now_ns, size_t max,
                      void (*fn)(void *arg, const struct notice *n), void *arg)
{
    assert(!fs->now_rule);
    bring_up_to_date(fs, now_ns);
    size_t given = 0;
    while (given < max && fs->heap_n && fs->heap[0]->due_ns <= now_ns) {
        struct entry *e = fs->heap[0];
        enum notice_kind kind;
        if (!look(fs, e, now_ns, &kind))
            continue; /* it has gone further down, or out */
        give(fs, e, kind, now_ns, fn, arg);
        given++;
    }
    return given;
}

int64_t faults_next(const struct faults *fs, int64_t now_ns)
{
    if (fs->is_dirty || has_gone_back(fs, now_ns))
        return now_ns;
    int64_t next_ns = fs->heap_n ? fs->heap[0]->due_ns : INT64_MAX;
    next_ns = fs->silence_next_ns < next_ns ? fs->silence_next_ns : next_ns;
    next_ns = fs->quiet_next_ns < next_ns ? fs->quiet_next_ns : next_ns;
    return next_ns < now_ns ? now_ns : next_ns;
}
