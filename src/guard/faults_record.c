/* SPDX-License-Identifier: Apache-2.0 */
/* Records of faults and silences, as state.h keeps them.
 *
 * Format, version 1; varint = LEB128, signed = zigzag in a varint, text = varint length and bytes:
 *     fault    u8 1, u64 id, text rule, u8 severity, u8 state,
 *              signed seen, counts, fired, cleared, held_down, varint episode,
 *              varint told_episode, signed fire_told, told, escalated, acked, text acked_by, text ack_note,
 *              varint keys, varint fields { text name, text value } (keys first),
 *              varint actions { text name }   who is told of its clear, by the configuration of then; none if
 * its fire was not told silence  u8 1, varint id, signed from, until, text rule, host, where, by, note
 * Nothing behind. is_held is not written: what is read is held (fault.h). */
#include "base/cursor.h"
#include "base/mem.h"
#include "guard/faults_internal.h"

#include <errno.h>

enum { RECORD_VERSION = 1 };

static void add_signed(struct strbuf *out, int64_t v)
{
    strbuf_add_varint(out, zigzag(v));
}

static int64_t get_signed(struct cursor *c)
{
    return unzigzag(cursor_varint(c));
}

void fault_pack(const struct fault *f, const struct guard_config *config, struct strbuf *out)
{
    const struct fault_life *l = &f->life;
    strbuf_add_char(out, RECORD_VERSION);
    strbuf_add_u64(out, f->id);
    strbuf_add_text(out, slice_str(f->of->name));
    strbuf_add_char(out, (char)f->of->severity);
    strbuf_add_char(out, (char)l->state);
    const int64_t times[] = {l->seen_ns, l->counts_ns, l->fired_ns, l->cleared_ns, l->held_down_ns};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        add_signed(out, times[i]);
    strbuf_add_varint(out, l->episode);
    strbuf_add_varint(out, f->told_episode);
    const int64_t told[] = {f->fire_told_ns, f->told_ns, f->escalated_ns, f->acked_ns};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        add_signed(out, told[i]);
    strbuf_add_text(out, f->acked_by);
    strbuf_add_text(out, f->ack_note);
    strbuf_add_varint(out, f->n_key);
    strbuf_add_varint(out, f->n_fields);
    for (size_t i = 0; i < f->n_fields; i++) {
        strbuf_add_text(out, f->fields[i].name);
        strbuf_add_text(out, f->fields[i].value);
    }
    size_t n_actions = f->is_told ? f->of->on_clear.n : 0;
    strbuf_add_varint(out, n_actions);
    for (size_t i = 0; i < n_actions; i++)
        strbuf_add_text(out, slice_str(config->actions[f->of->on_clear.v[i]].name));
}

void silence_pack(const struct silence *s, struct strbuf *out)
{
    strbuf_add_char(out, RECORD_VERSION);
    strbuf_add_varint(out, s->id);
    add_signed(out, s->from_ns);
    add_signed(out, s->until_ns);
    const struct slice texts[] = {s->rule, s->host, s->where, s->by, s->note};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        strbuf_add_text(out, texts[i]);
}

/* ---------------------------------------------------------------- reading a fault */

/* A record, borrowed from its bytes; fields are in faults.scratch. */
struct record {
    uint64_t id;
    struct slice rule;
    unsigned severity;
    struct fault f; /* life, told, acknowledged */
    struct slice actions[GUARD_ACTIONS_MAX];
    size_t n_actions;
};

static bool get_life(struct cursor *c, struct fault_life *l)
{
    unsigned state = cursor_u8(c);
    l->seen_ns = get_signed(c);
    l->counts_ns = get_signed(c);
    l->fired_ns = get_signed(c);
    l->cleared_ns = get_signed(c);
    l->held_down_ns = get_signed(c);
    l->episode = cursor_varint(c);
    l->is_held = true;
    if (c->bad || state == FAULT_NONE || state > FAULT_CLEARED)
        return false;
    l->state = (enum fault_state)state;
    bool has_fired = l->state != FAULT_PENDING;
    return l->counts_ns <= l->seen_ns && (!has_fired || l->episode > 0);
}

/* Who was told when is of an episode that was, and nothing without. */
static bool get_told(struct cursor *c, struct fault *f)
{
    f->told_episode = cursor_varint(c);
    f->fire_told_ns = get_signed(c);
    f->told_ns = get_signed(c);
    f->escalated_ns = get_signed(c);
    f->acked_ns = get_signed(c);
    f->acked_by = cursor_text(c);
    f->ack_note = cursor_text(c);
    f->is_told = f->told_episode != 0;
    if (c->bad || f->told_episode > f->life.episode || f->acked_by.n > PERSON_MAX || f->ack_note.n > NOTE_MAX)
        return false;
    return f->is_told ? f->told_ns && f->fire_told_ns : !f->told_ns && !f->fire_told_ns && !f->escalated_ns;
}

static bool get_fields(struct cursor *c, struct scratch *s)
{
    uint64_t n_key = cursor_varint(c), n = cursor_varint(c);
    if (c->bad || n > FAULT_FIELDS_MAX || n_key > n || n_key > RULE_KEY_MAX)
        return false;
    s->n = (size_t)n;
    s->n_key = (size_t)n_key;
    s->bytes = 0;
    for (size_t i = 0; i < s->n; i++) {
        s->fields[i].name = cursor_text(c);
        s->fields[i].value = cursor_text(c);
        s->bytes += s->fields[i].value.n;
    }
    return !c->bad && s->bytes <= FAULT_ROW_BYTES;
}

static bool get_actions(struct cursor *c, struct record *r)
{
    uint64_t n = cursor_varint(c);
    if (c->bad || n > GUARD_ACTIONS_MAX)
        return false;
    r->n_actions = (size_t)n;
    for (size_t i = 0; i < r->n_actions; i++)
        r->actions[i] = cursor_text(c);
    return !c->bad;
}

static int get_record(struct slice bytes, struct scratch *s, struct record *r)
{
    struct cursor c = cursor_of(bytes);
    if (cursor_u8(&c) != RECORD_VERSION)
        return bytes.n ? E_VERSION : E_PROTO;
    r->id = cursor_u64(&c);
    r->rule = cursor_text(&c);
    r->severity = cursor_u8(&c);
    if (!get_life(&c, &r->f.life) || !get_told(&c, &r->f) || !get_fields(&c, s) || !get_actions(&c, r))
        return E_PROTO;
    bool is_whole = !c.bad && cursor_left(&c) == 0 && r->severity <= SEVERITY_CRITICAL;
    return is_whole && r->rule.n && !memchr(r->rule.p, '\0', r->rule.n) ? 0 : E_PROTO;
}

/* ---------------------------------------------------------------- rules that are gone */

static const char *keep_name(struct faults *fs, struct slice name)
{
    char *p = arena_alloc(&fs->arena, name.n + 1);
    if (!p)
        return NULL;
    memcpy(p, name.p, name.n);
    p[name.n] = '\0';
    return p;
}

/* Those of the record's actions that still are. */
static struct action_names keep_actions(struct faults *fs, const struct record *r)
{
    unsigned *v = arena_alloc(&fs->arena, (r->n_actions + 1) * sizeof *v);
    struct action_names names = {v, 0};
    for (size_t i = 0; v && i < r->n_actions; i++)
        for (unsigned a = 0; a < fs->config->n_actions; a++)
            if (slice_eq_str(r->actions[i], fs->config->actions[a].name))
                v[names.n++] = a;
    return names;
}

/* What is known of the rule, once for all its faults: the first record says who hears of them. */
static const struct rule_config *gone_rule(struct faults *fs, const struct record *r)
{
    const struct rule_config *known = map_get(&fs->gone, r->rule);
    if (known)
        return known;
    struct rule_config *rule = arena_alloc(&fs->arena, sizeof *rule);
    const char *name = keep_name(fs, r->rule);
    if (!rule || !name)
        return NULL;
    *rule = (struct rule_config){.name = name,
                                 .help = "",
                                 .query = "",
                                 .clear_query = "",
                                 .summary = "",
                                 .severity = (enum severity)r->severity,
                                 .on_clear = keep_actions(fs, r)};
    return rule->on_clear.v && map_put(&fs->gone, slice_str(name), rule) == 0 ? rule : NULL;
}

static unsigned find_rule(const struct faults *fs, struct slice name)
{
    for (unsigned i = 0; i < fs->n_rules; i++)
        if (slice_eq_str(name, fs->config->rules[i].name))
            return i;
    return RULE_GONE;
}

/* Are the key columns those that the rule has today? Without any configured it is `host`, if the rows have
 * it. */
static bool has_key_of(const struct rule_config *rule, const struct scratch *s)
{
    if (!rule->key.n)
        return s->n_key == 0 || (s->n_key == 1 && slice_eq_str(s->fields[0].name, "host"));
    bool is_same = rule->key.n == s->n_key;
    for (size_t i = 0; i < s->n_key && is_same; i++)
        is_same = slice_eq_str(s->fields[i].name, rule->key.v[i]);
    return is_same;
}

/* ---------------------------------------------------------------- restoring */

static int restore_row(struct faults *fs, unsigned rule, struct row **out)
{
    struct shape *shape = rule < fs->n_rules ? fs->rules[rule].shape : NULL;
    if (shape && shape_is_of_fields(shape, &fs->scratch))
        return row_keep(fs, shape, out);
    int err = shape_of_fields(&fs->scratch, &shape);
    if (err < 0)
        return err;
    err = row_keep(fs, shape, out);
    if (rule >= fs->n_rules) {
        shape_unref(shape);
        return err;
    }
    shape_unref(fs->rules[rule].shape);
    fs->rules[rule].shape = shape; /* for the others of it; the first row of a query has its own */
    return err;
}

static int restore_ack(struct entry *e, const struct fault *f)
{
    if (!f->acked_ns)
        return 0;
    char *bytes = mem_try_alloc(f->acked_by.n + f->ack_note.n + 1);
    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, f->acked_by.p, f->acked_by.n);
    memcpy(bytes + f->acked_by.n, f->ack_note.p, f->ack_note.n);
    faults_set_ack(e, f->acked_ns, bytes, f->acked_by.n, f->ack_note.n);
    return 0;
}

static int restore(struct faults *fs, const struct record *r, unsigned rule, bool is_to_end)
{
    struct row *row = NULL;
    struct entry *e;
    int err = restore_row(fs, rule, &row);
    if (!err)
        err = faults_add(fs, r->id, rule, row, &e);
    if (err < 0)
        return err;
    if (rule == RULE_GONE)
        e->f.of = map_get(&fs->gone, r->rule);
    err = restore_ack(e, &r->f);
    if (err < 0) {
        faults_remove(fs, e);
        return err;
    }
    e->f.life = r->f.life;
    e->f.is_told = r->f.is_told;
    e->f.told_episode = r->f.told_episode;
    e->f.fire_told_ns = r->f.fire_told_ns;
    e->f.told_ns = r->f.told_ns;
    e->f.escalated_ns = r->f.escalated_ns;
    e->saved_ns = fault_counted_ns(&e->f.life);
    e->f.is_unheard = true;
    e->is_to_end = is_to_end;
    faults_recount(fs, e);
    faults_dirty(fs, rule_of(fs, e));
    return 0;
}

int faults_restore_fault(struct faults *fs, struct slice bytes)
{
    struct record r = {0};
    int err = get_record(bytes, &fs->scratch, &r);
    if (err < 0)
        return err;
    unsigned rule = find_rule(fs, r.rule);
    const struct rule_config *config = rule == RULE_GONE ? NULL : &fs->config->rules[rule];
    bool is_gone = !config || !config->is_enabled || !has_key_of(config, &fs->scratch);
    if (is_gone && !fault_is_on(&r.f.life) && !r.f.is_told)
        return -ENOENT;
    if (rule == RULE_GONE && !gone_rule(fs, &r))
        return -ENOMEM;
    const char *name = config ? config->name : ((struct rule_config *)map_get(&fs->gone, r.rule))->name;
    if (r.id != faults_id(name, fs->scratch.fields, fs->scratch.n_key) || faults_find(fs, r.id))
        return E_PROTO;
    return restore(fs, &r, rule, is_gone);
}

int faults_restore_silence(struct faults *fs, struct slice bytes)
{
    struct cursor c = cursor_of(bytes);
    if (cursor_u8(&c) != RECORD_VERSION)
        return bytes.n ? E_VERSION : E_PROTO;
    struct silence s = {.id = cursor_varint(&c)};
    s.from_ns = get_signed(&c);
    s.until_ns = get_signed(&c);
    s.rule = cursor_text(&c);
    s.host = cursor_text(&c);
    s.where = cursor_text(&c);
    s.by = cursor_text(&c);
    s.note = cursor_text(&c);
    if (c.bad || cursor_left(&c) || !s.id || s.id == UINT64_MAX || s.by.n > PERSON_MAX ||
        s.note.n > NOTE_MAX || silence_check(&s, NULL) < 0)
        return E_PROTO;
    const struct silence *added;
    int err = silences_add(&fs->silences, &s, s.id, &added);
    fs->silence_next_ns = INT64_MIN;
    return err == -EEXIST ? E_PROTO : err;
}

void faults_restore_numbers(struct faults *fs, uint64_t last)
{
    if (last > fs->silences.last_id && last < UINT64_MAX)
        fs->silences.last_id = last;
}

static void end_gone(struct faults *fs, struct rule_state *r, int64_t now_ns)
{
    for (struct entry *e = r->entries.first; e; e = e->in_rule.next) {
        if (!e->is_to_end || !fault_is_on(&e->f.life))
            continue;
        enum fault_turn turn = fault_end(&e->f.life, now_ns);
        e->f.is_ended = true;
        faults_recount(fs, e);
        faults_changed(fs, e, turn);
    }
}

void faults_restored(struct faults *fs, int64_t now_ns)
{
    faults_take_time(fs, now_ns);
    fs->restored_ns = now_ns;
    for (size_t i = 0; i <= fs->n_rules; i++)
        end_gone(fs, &fs->rules[i], now_ns);
    faults_dirty(fs, NULL);
}
