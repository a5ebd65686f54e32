/* SPDX-License-Identifier: Apache-2.0 */
/* The set: who is in it, in which lists and counts. */
#include "guard/faults.h"

#include "base/hash.h"
#include "base/mem.h"
#include "guard/faults_internal.h"

#include <assert.h>
#include <errno.h>

/* ---------------------------------------------------------------- create, destroy */

static int parse_quiet(struct faults *fs, struct rule_state *r)
{
    const struct config_texts *texts = &r->config->quiet;
    if (!texts->n)
        return 0;
    r->quiet = arena_alloc(&fs->arena, texts->n * sizeof *r->quiet);
    if (!r->quiet)
        return -ENOMEM;
    for (size_t i = 0; i < texts->n; i++)
        if (quiet_parse(slice_str(texts->v[i]), &r->quiet[i], NULL) < 0)
            return -EINVAL;
    r->n_quiet = texts->n;
    return 0;
}

static int create_rules(struct faults *fs)
{
    fs->rules = mem_try_alloc((fs->n_rules + 1) * sizeof *fs->rules);
    if (!fs->rules)
        return -ENOMEM;
    for (size_t i = 0; i < fs->n_rules; i++) {
        fs->rules[i].config = &fs->config->rules[i];
        int err = parse_quiet(fs, &fs->rules[i]);
        if (err < 0)
            return err;
    }
    return parents_create(fs);
}

/* So that appending to them can't fail: all values of a row, each with a length before it or as a number. */
static int make_scratch(struct faults *fs)
{
    size_t room = FAULT_ROW_BYTES + FAULT_FIELDS_MAX * 64;
    return strbuf_room(&fs->text, room) && strbuf_room(&fs->values, room) ? 0 : -ENOMEM;
}

int faults_create(const struct guard_config *config, const struct faults_calls *calls, struct faults **out)
{
    struct faults *fs = mem_try_alloc(sizeof *fs);
    if (!fs)
        return -ENOMEM;
    fs->config = config;
    fs->calls = *calls;
    fs->n_rules = config->n_rules;
    fs->max = config->faults_max ? config->faults_max : FAULTS_MAX_DEFAULT;
    fs->bytes_max = fs->max * FAULT_BYTES;
    fs->silence_next_ns = INT64_MAX;
    fs->quiet_next_ns = INT64_MAX;
    fs->last_ns = INT64_MIN;
    int err = create_rules(fs);
    if (!err)
        err = make_scratch(fs);
    if (err < 0) {
        faults_destroy(fs);
        return err;
    }
    for (size_t i = 0; i < fs->n_rules; i++)
        if (fs->rules[i].n_quiet)
            fs->quiet_next_ns = INT64_MIN;
    *out = fs;
    return 0;
}

static void destroy_entry(struct faults *fs, struct entry *e)
{
    row_destroy(fs, e->row);
    mem_free(e->ack);
    mem_free(e);
}

void faults_destroy(struct faults *fs)
{
    if (!fs)
        return;
    void *e;
    for (size_t i = 0; map_next(&fs->by_id, &i, &e);)
        destroy_entry(fs, e);
    for (size_t i = 0; fs->rules && i < fs->n_rules; i++) {
        shape_unref(fs->rules[i].shape);
        shape_unref(fs->rules[i].clear_shape);
        shape_unref(fs->rules[i].no_data_shape);
    }
    parents_destroy(fs);
    silences_fini(&fs->silences);
    map_fini(&fs->by_id);
    map_fini(&fs->gone);
    arena_fini(&fs->arena);
    strbuf_fini(&fs->text);
    strbuf_fini(&fs->values);
    mem_free(fs->heap);
    mem_free(fs->rules);
    mem_free(fs);
}

/* ---------------------------------------------------------------- lists */

static struct entry_link *link_of(struct entry *e, size_t offset)
{
    return (struct entry_link *)((char *)e + offset);
}

static void list_add(struct entry_list *l, struct entry *e, size_t offset)
{
    *link_of(e, offset) = (struct entry_link){l->last, NULL};
    if (l->last)
        link_of(l->last, offset)->next = e;
    else
        l->first = e;
    l->last = e;
    l->n++;
}

static void list_remove(struct entry_list *l, struct entry *e, size_t offset)
{
    struct entry_link at = *link_of(e, offset);
    if (at.prev)
        link_of(at.prev, offset)->next = at.next;
    else
        l->first = at.next;
    if (at.next)
        link_of(at.next, offset)->prev = at.prev;
    else
        l->last = at.prev;
    l->n--;
}

/* ---------------------------------------------------------------- entries */

/* Each text is hashed by itself, with the hash before as its seed: no two lists of texts run together. */
uint64_t faults_id(const char *rule, const struct act_datum *keys, size_t n)
{
    uint64_t id = hash_bytes(slice_str(rule));
    for (size_t i = 0; i < n; i++)
        id = hash_seeded(keys[i].value, hash_seeded(keys[i].name, id));
    return id;
}

static struct slice id_key(const struct entry *e)
{
    return slice_of((const char *)&e->f.id, sizeof e->f.id);
}

const struct fault *faults_find(const struct faults *fs, uint64_t id)
{
    struct entry *e = map_get(&fs->by_id, slice_of((const char *)&id, sizeof id));
    return e ? &e->f : NULL;
}

static int grow_heap(struct faults *fs)
{
    if (fs->by_id.n < fs->heap_cap)
        return 0;
    size_t cap = fs->heap_cap ? fs->heap_cap * 2 : 64;
    struct entry **heap = mem_try_resize(fs->heap, cap * sizeof(struct entry *));
    if (!heap)
        return -ENOMEM;
    fs->heap = heap;
    fs->heap_cap = cap;
    return 0;
}

int faults_add(struct faults *fs, uint64_t id, unsigned rule, struct row *row, struct entry **out)
{
    struct entry *e = mem_try_alloc(sizeof *e);
    if (!e) {
        row_destroy(fs, row);
        return -ENOMEM;
    }
    e->f = (struct fault){
        .id = id, .rule = rule, .fields = row->fields, .n_fields = row->n, .n_key = row->shape->n_key};
    e->row = row;
    struct rule_state *r = rule_of(fs, e);
    e->f.of = r->config; /* NULL: the caller knows */
    int err = grow_heap(fs);
    if (!err)
        err = map_put(&fs->by_id, id_key(e), e);
    if (!err && (err = parents_hold(fs, e)) < 0)
        map_remove(&fs->by_id, id_key(e));
    if (err < 0) {
        destroy_entry(fs, e);
        return err;
    }
    fs->bytes += sizeof *e;
    list_add(&r->entries, e, offsetof(struct entry, in_rule));
    *out = e;
    return 0;
}

void faults_remove(struct faults *fs, struct entry *e)
{
    assert(e->f.life.state == FAULT_NONE);
    struct rule_state *r = rule_of(fs, e);
    faults_recount(fs, e);
    faults_undue(fs, e);
    if (e->is_waiting)
        r->n_waiting--;
    list_remove(&r->entries, e, offsetof(struct entry, in_rule));
    parents_release(fs, e);
    map_remove(&fs->by_id, id_key(e));
    fs->bytes -= sizeof *e;
    destroy_entry(fs, e);
}

static bool is_forgettable(const struct entry *e, int64_t now_ns)
{
    return !e->f.is_told && e->f.life.held_down_ns <= now_ns;
}

static void forget(struct faults *fs, struct entry *e)
{
    e->f.life.state = FAULT_NONE;
    faults_changed(fs, e, TURN_NONE);
    faults_remove(fs, e);
}

bool faults_make_room(struct faults *fs, size_t bytes)
{
    struct entry *e = fs->cleared.first;
    for (;;) {
        if (fs->by_id.n < fs->max && fs->bytes + sizeof *e + bytes <= fs->bytes_max)
            return true;
        while (e && !is_forgettable(e, fs->now_ns))
            e = e->in_cleared.next;
        if (!e)
            return false;
        struct entry *next = e->in_cleared.next;
        forget(fs, e);
        e = next;
    }
}

void faults_forget(struct faults *fs, int64_t now_ns, int64_t keep_ns)
{
    for (struct entry *e = fs->cleared.first, *next; e; e = next) {
        next = e->in_cleared.next;
        if (is_forgettable(e, now_ns) && e->f.life.cleared_ns <= now_ns &&
            now_ns - e->f.life.cleared_ns > keep_ns)
            forget(fs, e);
    }
}

/* ---------------------------------------------------------------- counts */

static void add_counts(struct faults_counts *c, unsigned counted, size_t by)
{
    size_t *const states[] = {
        [FAULT_PENDING] = &c->pending,
        [FAULT_FIRING] = &c->firing,
        [FAULT_CLEARING] = &c->clearing,
        [FAULT_CLEARED] = &c->cleared,
    };
    if (counted & COUNTED_STATE)
        *states[counted & COUNTED_STATE] += by;
    c->acked += counted & COUNTED_ACKED ? by : 0;
    c->silenced += counted & COUNTED_SILENCED ? by : 0;
    c->hidden += counted & COUNTED_HIDDEN ? by : 0;
}

static unsigned counted_as(const struct entry *e)
{
    unsigned as = e->f.life.state;
    if (!fault_is_on(&e->f.life))
        return as;
    return as | (e->f.acked_ns ? COUNTED_ACKED : 0) | (e->f.is_silenced ? COUNTED_SILENCED : 0) |
           (e->f.is_hidden ? COUNTED_HIDDEN : 0);
}

static enum activity activity_of(const struct entry *e)
{
    if (fault_is_on(&e->f.life))
        return ACTIVITY_FIRES;
    return e->f.life.state == FAULT_PENDING ? ACTIVITY_PENDS : ACTIVITY_NONE;
}

void faults_recount(struct faults *fs, struct entry *e)
{
    struct rule_state *r = rule_of(fs, e);
    unsigned as = counted_as(e);
    bool is_cleared = e->f.life.state == FAULT_CLEARED;
    if (as != e->counted) {
        add_counts(&r->counts, e->counted, (size_t)-1);
        add_counts(&r->counts, as, 1);
        e->counted = (uint8_t)as;
    }
    if (is_cleared && !e->is_cleared_listed)
        list_add(&fs->cleared, e, offsetof(struct entry, in_cleared));
    if (!is_cleared && e->is_cleared_listed)
        list_remove(&fs->cleared, e, offsetof(struct entry, in_cleared));
    e->is_cleared_listed = is_cleared;
    parents_set_activity(fs, e, activity_of(e));
}

void faults_count(const struct faults *fs, unsigned rule, struct faults_counts *out)
{
    *out = (struct faults_counts){0};
    for (size_t i = 0; i <= fs->n_rules; i++) {
        if (rule != UINT_MAX && rule != i && !(rule == RULE_GONE && i == fs->n_rules))
            continue;
        const struct faults_counts *c = &fs->rules[i].counts;
        out->pending += c->pending;
        out->firing += c->firing;
        out->clearing += c->clearing;
        out->cleared += c->cleared;
        out->acked += c->acked;
        out->silenced += c->silenced;
        out->hidden += c->hidden;
        out->left_out += c->left_out;
    }
}

void faults_changed(struct faults *fs, struct entry *e, enum fault_turn turn)
{
    e->saved_ns = fault_counted_ns(&e->f.life);
    if (fs->calls.on_change)
        fs->calls.on_change(fs->calls.arg, &e->f, turn);
}

/* ---------------------------------------------------------------- people */

void faults_set_ack(struct entry *e, int64_t acked_ns, char *bytes, size_t n_by, size_t n_note)
{
    mem_free(e->ack);
    e->ack = bytes;
    e->f.acked_ns = acked_ns;
    e->f.acked_by = slice_of(bytes ? bytes : "", n_by);
    e->f.ack_note = slice_of(bytes ? bytes + n_by : "", n_note);
}

int faults_ack(struct faults *fs, uint64_t id, struct slice by, struct slice note, int64_t now_ns)
{
    struct entry *e = entry_of(faults_find(fs, id));
    if (!e)
        return -ENOENT;
    if (!fault_is_on(&e->f.life))
        return -EINVAL;
    if (e->f.acked_ns)
        return -EALREADY;
    size_t n_by = by.n < PERSON_MAX ? by.n : PERSON_MAX, n_note = note.n < NOTE_MAX ? note.n : NOTE_MAX;
    char *bytes = mem_try_alloc(n_by + n_note + 1);
    if (!bytes)
        return -ENOMEM;
    if (n_by)
        memcpy(bytes, by.p, n_by);
    if (n_note)
        memcpy(bytes + n_by, note.p, n_note);
    faults_set_ack(e, now_ns ? now_ns : 1, bytes, n_by, n_note);
    faults_recount(fs, e);
    faults_changed(fs, e, TURN_NONE);
    faults_take_time(fs, now_ns);
    faults_look(fs, e, now_ns);
    return 0;
}

int faults_unack(struct faults *fs, uint64_t id, int64_t now_ns)
{
    struct entry *e = entry_of(faults_find(fs, id));
    if (!e)
        return -ENOENT;
    if (!fault_is_on(&e->f.life))
        return -EINVAL;
    if (!e->f.acked_ns)
        return -EALREADY;
    faults_set_ack(e, 0, NULL, 0, 0);
    faults_recount(fs, e);
    faults_changed(fs, e, TURN_NONE);
    faults_take_time(fs, now_ns);
    faults_look(fs, e, now_ns);
    return 0;
}

int faults_silence(struct faults *fs, const struct silence *s, int64_t now_ns, uint64_t *id, struct diag *why)
{
    int err = silence_check(s, why);
    if (err < 0)
        return err;
    if (s->until_ns <= now_ns)
        return diag_set(why, -EINVAL, 0, "the silence is over already");
    const struct silence *added;
    err = silences_add(&fs->silences, s, fs->silences.last_id + 1, &added);
    if (err < 0)
        return err == E_LIMIT ? diag_set(why, err, 0, "there are %d silences already", SILENCES_MAX) : err;
    fs->silence_next_ns = INT64_MIN; /* everything is looked at again */
    *id = added->id;
    if (fs->calls.on_silence)
        fs->calls.on_silence(fs->calls.arg, added, false);
    return 0;
}

int faults_unsilence(struct faults *fs, uint64_t id, int64_t now_ns)
{
    (void)now_ns; /* whatever the time, it is over */
    const struct silence *s = silences_find(&fs->silences, id);
    if (!s)
        return -ENOENT;
    if (fs->calls.on_silence)
        fs->calls.on_silence(fs->calls.arg, s, true);
    silences_remove(&fs->silences, id);
    fs->silence_next_ns = INT64_MIN;
    return 0;
}

/* ---------------------------------------------------------------- looking */

int faults_each(const struct faults *fs, int (*fn)(void *arg, const struct fault *fault), void *arg)
{
    void *e;
    for (size_t i = 0; map_next(&fs->by_id, &i, &e);) {
        int r = fn(arg, &((struct entry *)e)->f);
        if (r < 0)
            return r;
    }
    return 0;
}

int faults_silences(const struct faults *fs, int (*fn)(void *arg, const struct silence *s), void *arg)
{
    for (size_t i = 0; i < fs->silences.n; i++) {
        int r = fn(arg, &fs->silences.v[i]->s);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---------------------------------------------------------------- invariants */

static void check_entry(const struct faults *fs, const struct rule_state *r, const struct entry *e)
{
    assert(map_get(&fs->by_id, id_key(e)) == e);
    assert(e->f.life.state != FAULT_NONE);
    assert(e->f.id == faults_id(e->f.of->name, e->f.fields, e->f.n_key));
    assert(e->f.n_key <= e->f.n_fields && e->f.fields == e->row->fields && e->f.n_fields == e->row->n);
    assert(e->f.is_told == (e->f.told_episode != 0) && e->f.told_episode <= e->f.life.episode);
    assert(e->f.is_told ? e->f.told_ns && e->f.fire_told_ns : !e->f.told_ns && !e->f.escalated_ns);
    assert(e->counted == counted_as(e) && e->activity == activity_of(e));
    assert(e->is_cleared_listed == (e->f.life.state == FAULT_CLEARED));
    assert(!fault_is_on(&e->f.life) || e->f.life.episode > 0);
    assert(fault_is_on(&e->f.life) || (!e->f.is_silenced && !e->f.is_hidden && !e->f.is_in_quiet));
    assert(!e->heap_at || fs->heap[e->heap_at - 1] == e);
    assert(e->heap_at || r->is_dirty || !faults_owes_clear(e));
}

static void check_heap(const struct faults *fs)
{
    for (size_t i = 0; i < fs->heap_n; i++) {
        assert(fs->heap[i]->heap_at == i + 1);
        assert(!i || fs->heap[(i - 1) / 2]->due_ns <= fs->heap[i]->due_ns);
    }
}

void faults_check(const struct faults *fs)
{
    size_t n = 0, n_cleared = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i <= fs->n_rules; i++) {
        const struct rule_state *r = &fs->rules[i];
        struct faults_counts counts = {.left_out = r->counts.left_out};
        size_t waiting = 0;
        for (const struct entry *e = r->entries.first; e; e = e->in_rule.next, n++) {
            check_entry(fs, r, e);
            add_counts(&counts, e->counted, 1);
            waiting += e->is_waiting;
            n_cleared += e->is_cleared_listed;
            bytes += sizeof *e + e->row->bytes;
        }
        assert(memcmp(&counts, &r->counts, sizeof counts) == 0 && waiting == r->n_waiting);
    }
    assert(n == fs->by_id.n && n_cleared == fs->cleared.n && bytes == fs->bytes && fs->heap_cap >= n);
    check_heap(fs);
    parents_check(fs);
}
