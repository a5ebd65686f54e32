/* SPDX-License-Identifier: Apache-2.0 */
/* Running a filter: lines to records, records to events.
 *
 * The named groups of the prefix and of the rule that matched are the captures; they are the event's fields,
 * typed, and what templates are filled with. All texts are slices of the record or in the scratch arena:
 * nothing is allocated for an event once the buffers have grown, but for what tables keep. */
#include "helper/logfilter.h"

#include "base/cursor.h"
#include "base/mem.h"
#include "base/text.h"
#include "event/level.h"
#include "helper/logfilter_internal.h"
#include "helper/logfilter_table.h"

#include <errno.h>
#include <inttypes.h>

enum { JIT_STACK_MIN = 32 << 10, JIT_STACK_MAX = LOGFILTER_MATCH_KIB << 10 };

static void patterns_free(struct pattern_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        pcre2_code_free(l->v[i].code);
    l->n = 0;
}

void logfilter_destroy(struct logfilter *f)
{
    if (!f)
        return;
    patterns_free(&f->prefix);
    patterns_free(&f->skip);
    patterns_free(&f->multiline_pattern);
    patterns_free(&f->whole);
    for (size_t i = 0; i < f->n_rules; i++)
        patterns_free(&f->rules[i].match);
    for (size_t i = 0; i < f->n_tables; i++)
        table_fini(&f->tables[i]);
    pcre2_match_data_free(f->data);
    pcre2_match_context_free(f->context);
    pcre2_jit_stack_free(f->jit_stack);
    strbuf_fini(&f->record);
    strbuf_fini(&f->text);
    strbuf_fini(&f->stored);
    arena_fini(&f->scratch);
    arena_fini(&f->arena);
    mem_free(f);
}

int logfilter_prepare(struct logfilter *f)
{
    f->context = pcre2_match_context_create(NULL);
    f->data = pcre2_match_data_create(f->pairs_max + 1, NULL);
    f->jit_stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL); /* NULL: there is no JIT */
    if (!f->context || !f->data)
        return -ENOMEM;
    (void)pcre2_set_match_limit(f->context, LOGFILTER_MATCH_STEPS); /* these can't fail */
    (void)pcre2_set_depth_limit(f->context, LOGFILTER_MATCH_STEPS);
    (void)pcre2_set_heap_limit(f->context, LOGFILTER_MATCH_KIB);
    if (f->jit_stack)
        pcre2_jit_stack_assign(f->context, NULL, f->jit_stack);
    return 0;
}

const struct logfilter_stats *logfilter_stats(const struct logfilter *f)
{
    return &f->stats;
}

int64_t logfilter_wait_ns(const struct logfilter *f)
{
    return f->wait_ns;
}

/* ---- patterns and captures ---- */

static bool matches(struct logfilter *f, const struct pattern *p, struct slice text)
{
    int r = pcre2_match(p->code, (PCRE2_SPTR)text.p, text.n, 0, 0, f->data, f->context);
    if (r < 0 && r != PCRE2_ERROR_NOMATCH)
        f->stats.gave_up++;
    return r >= 0;
}

static const struct pattern *find_match(struct logfilter *f, const struct pattern_list *l, struct slice text)
{
    for (size_t i = 0; i < l->n; i++)
        if (matches(f, &l->v[i], text))
            return &l->v[i];
    return NULL;
}

static const struct capture *find_capture(const struct logfilter *f, struct slice name)
{
    for (size_t i = 0; i < f->n_captures; i++)
        if (slice_eq(f->captures[i].name, name))
            return &f->captures[i];
    return NULL;
}

/* The groups of the match just made that took part and are not empty: what is empty is missing. */
static void take_captures(struct logfilter *f, const struct pattern *p, struct slice text)
{
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(f->data);
    for (size_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->groups[i];
        PCRE2_SIZE from = at[2 * g->number], to = at[2 * g->number + 1];
        if (from == PCRE2_UNSET || to <= from || find_capture(f, g->name))
            continue;
        f->captures[f->n_captures++] =
            (struct capture){g->name, slice_of(text.p + from, to - from), g->type, g->is_field};
    }
}

/* ---- templates ---- */

/* The template's text in f->text, with `missing` for groups that are. False: there were such. */
static bool expand(struct logfilter *f, const struct template *t, struct slice missing)
{
    bool is_whole = true;
    strbuf_reset(&f->text);
    for (size_t i = 0; i < t->n; i++) {
        const struct capture *c = t->v[i].is_group ? find_capture(f, t->v[i].text) : NULL;
        is_whole &= c || !t->v[i].is_group;
        strbuf_add_slice(&f->text, !t->v[i].is_group ? t->v[i].text : c ? c->text : missing);
    }
    return is_whole && !strbuf_failed(&f->text);
}

/* A copy for this event. */
static struct slice keep_text(struct logfilter *f)
{
    return arena_copy(&f->scratch, strbuf_slice(&f->text));
}

static bool expand_whole(struct logfilter *f, const struct template *t, struct slice *out)
{
    if (t->n == 0 || !expand(f, t, slice_of("", 0)))
        return false;
    *out = keep_text(f);
    return out->n > 0;
}

/* ---- values ---- */

static void set_value(struct logfilter *f, struct slice name, struct value v, bool replaces)
{
    if (v.type == VALUE_NONE)
        return;
    for (size_t i = 0; i < f->n_values; i++) {
        if (!slice_eq(f->values[i].name, name))
            continue;
        if (replaces)
            f->values[i].value = v;
        return;
    }
    if (f->n_values < LOGFILTER_FIELDS_MAX)
        f->values[f->n_values++] = (struct named_value){name, v};
    else
        f->stats.bad_values++; /* recalled fields may add up to more; the event's own came first */
}

static bool parse_time(struct logfilter *f, struct slice text, int64_t now_ns, int64_t *out)
{
    for (size_t i = 0; i < f->n_time_formats; i++)
        if (logtime_parse(f->time_formats[i], text, &f->zone, now_ns, out) == 0)
            return true;
    return false;
}

/* As its type says; text that is no such value stays text. */
static struct value typed(struct logfilter *f, enum logvalue_type type, struct slice text, int64_t now_ns)
{
    struct value v = value_text(text);
    int64_t t;
    if (type == LOGVALUE_TIME && parse_time(f, text, now_ns, &t))
        return value_float((double)t / 1e9);
    if (type == LOGVALUE_TIME || logvalue_parse(type, text, &v) < 0)
        f->stats.bad_values++;
    return v;
}

static void set_captures(struct logfilter *f, struct slice time_group, int64_t now_ns)
{
    for (size_t i = 0; i < f->n_captures; i++) {
        const struct capture *c = &f->captures[i];
        if (c->is_field && !slice_eq(c->name, time_group))
            set_value(f, c->name, typed(f, c->type, c->text, now_ns), true);
    }
}

static void set_template(struct logfilter *f, struct slice name, const struct template *t,
                         enum logvalue_type type, int64_t now_ns)
{
    struct slice text;
    if (expand_whole(f, t, &text))
        set_value(f, name, typed(f, type, text, now_ns), true);
}

/* The record's time. A text that is none stays as the field time_text. */
static int64_t record_time(struct logfilter *f, struct slice time_group, int64_t now_ns)
{
    const struct capture *c = find_capture(f, time_group);
    int64_t t;
    f->zone.has_after = f->has_last_time;
    f->zone.after_ns = f->last_time_ns;
    if (c && parse_time(f, c->text, now_ns, &t)) {
        f->last_time_ns = t;
        f->last_read_ns = now_ns;
        f->has_last_time = f->has_last_read = true;
        return t;
    }
    if (c) {
        f->stats.bad_values++;
        set_value(f, SLICE_LIT("time_text"), value_text(c->text), true);
    }
    if (f->time_missing == TIME_NOW || !f->has_last_time)
        return now_ns;
    t = f->last_time_ns;
    if (f->time_missing == TIME_CLOCK && f->has_last_read && now_ns > f->last_read_ns &&
        __builtin_add_overflow(t, now_ns - f->last_read_ns, &t))
        return f->last_time_ns;
    return t;
}

static uint8_t record_level(struct logfilter *f, const struct template *t)
{
    uint8_t level = LEVEL_INFO;
    if (t->n == 0 || !expand(f, t, slice_of("", 0)))
        return LEVEL_INFO;
    struct slice text = strbuf_slice(&f->text);
    for (size_t i = 0; i < f->n_levels; i++)
        if (slice_eq_nocase(f->levels[i].text, text))
            return f->levels[i].level;
    if (level_parse(text, &level) < 0)
        f->stats.bad_values++;
    return level;
}

/* A name may hold anything that a group held: what no name can hold becomes an underscore. */
static struct slice record_name(struct logfilter *f, const struct template *t)
{
    (void)expand(f, t, SLICE_LIT("unknown"));
    char *p = f->text.p;
    size_t n = f->text.n < EVENT_NAME_MAX ? f->text.n : EVENT_NAME_MAX;
    for (size_t i = 0; i < n; i++)
        if (!text_is_name(slice_of(p + i, 1)))
            p[i] = '_';
    f->text.n = n;
    return keep_text(f);
}

/* ---- tables ---- */

static bool use_key(struct logfilter *f, const struct table_use *use, struct slice *key)
{
    return use->table && expand_whole(f, &use->key, key);
}

static void recall(struct logfilter *f, const struct table_use *use, int64_t time_ns, bool is_end)
{
    struct slice key;
    struct table_view entry;
    struct named_value v;
    if (!use->table)
        return;
    table_expire(use->table, time_ns, &f->stats.evicted);
    if (!use_key(f, use, &key) || !table_get(use->table, key, &entry)) {
        f->stats.unpaired++;
        return;
    }
    while (table_next_field(&entry.fields, &v))
        set_value(f, v.name, v.value, false);
    int64_t elapsed;
    if (is_end && !__builtin_sub_overflow(time_ns, entry.time_ns, &elapsed))
        set_value(f, SLICE_LIT("elapsed"), value_float((double)elapsed / 1e9), true);
}

static bool is_kept(const struct rule *r, struct slice name)
{
    for (size_t i = 0; i < r->n_keep; i++)
        if (slice_eq(r->keep[i], name))
            return true;
    return r->n_keep == 0 && !slice_eq_str(name, "elapsed");
}

/* After the event has gone: its fields may be slices of the entry. */
static void update_tables(struct logfilter *f, const struct rule *r, int64_t time_ns)
{
    struct slice key;
    bool remembers = use_key(f, &r->remember, &key);
    strbuf_reset(&f->stored);
    for (size_t i = 0; remembers && i < f->n_values; i++)
        if (is_kept(r, f->values[i].name))
            table_add_field(&f->stored, f->values[i].name, f->values[i].value);
    if (remembers)
        table_put(r->remember.table, key, time_ns, strbuf_slice(&f->stored), &f->stats.evicted);
    if (use_key(f, &r->forget, &key))
        table_remove(r->forget.table, key);
    if (use_key(f, &r->end, &key))
        table_remove(r->end.table, key);
}

/* ---- records ---- */

static bool is_over_limits(const struct logfilter *f, const struct event_head *head)
{
    size_t size = head->name.n + 32;
    bool is_over = f->n_values > EVENT_FIELDS_MAX;
    for (size_t i = 0; i < f->n_values && !is_over; i++) {
        const struct named_value *v = &f->values[i];
        size_t n = value_is_text(v->value.type) ? v->value.n : 0;
        size += v->name.n + 8 + n;
        is_over = n > EVENT_TEXT_MAX || size > EVENT_SIZE_MAX;
    }
    return is_over;
}

static void send(struct logfilter *f, const struct event_head *head, const struct logfilter_sink *sink)
{
    bool is_taken = sink->event(sink->arg, head, f->values, f->n_values) == 0;
    f->stats.trimmed += is_taken && is_over_limits(f, head);
    *(is_taken ? &f->stats.events : &f->stats.refused) += 1;
}

/* Short names and full ones are the same where what both have is. */
static bool is_same_host(struct slice a, struct slice b)
{
    struct slice *longer = a.n > b.n ? &a : &b, *shorter = a.n > b.n ? &b : &a;
    return slice_eq_nocase(slice_of(longer->p, shorter->n), *shorter) &&
           (longer->n == shorter->n || longer->p[shorter->n] == '.');
}

static void run_rule(struct logfilter *f, const struct rule *r, bool is_cut, int64_t now_ns,
                     const struct logfilter_sink *sink)
{
    struct event_head head = {.name = record_name(f, &r->name), .level = record_level(f, &r->level)};
    head.time_ns = record_time(f, r->time_group, now_ns);
    set_captures(f, r->time_group, now_ns);
    for (size_t i = 0; i < r->n_fields; i++)
        set_template(f, r->fields[i].name, &r->fields[i].value, r->fields[i].type, now_ns);
    set_template(f, SLICE_LIT("id"), &r->id, r->id_type, now_ns);
    set_template(f, SLICE_LIT("target"), &r->target, LOGVALUE_TEXT, now_ns);
    recall(f, &r->recall, head.time_ns, false);
    recall(f, &r->end, head.time_ns, true);
    if (is_cut)
        set_value(f, SLICE_LIT("truncated"), value_bool(true), true);
    if (!expand_whole(f, &r->prog, &head.prog))
        head.prog = slice_of("", 0);
    if (!expand_whole(f, &r->host, &head.host))
        head.host = slice_of("", 0);
    if (f->own_host.p) { /* who sends it may only speak for his own host */
        if (head.host.n && !is_same_host(head.host, f->own_host))
            set_value(f, SLICE_LIT("target"), value_text(head.host), false);
        head.host = slice_of("", 0);
    }
    if (r->emits)
        send(f, &head, sink);
    else
        f->stats.skipped++;
    update_tables(f, r, head.time_ns);
}

static void run_unmatched(struct logfilter *f, struct slice text, bool is_cut, int64_t now_ns,
                          const struct logfilter_sink *sink)
{
    struct event_head head = {.name = f->unmatched, .level = LEVEL_INFO};
    f->stats.unmatched++;
    if (f->unmatched.n == 0)
        return;
    head.time_ns = record_time(f, SLICE_LIT("time"), now_ns);
    set_value(f, SLICE_LIT("text"), value_text(text), true);
    if (is_cut)
        set_value(f, SLICE_LIT("truncated"), value_bool(true), true);
    send(f, &head, sink);
}

static void run_record(struct logfilter *f, struct slice text, bool is_cut, int64_t now_ns,
                       const struct logfilter_sink *sink)
{
    struct slice rest = text;
    f->stats.records++;
    f->stats.cut += is_cut;
    f->n_captures = f->n_values = 0;
    arena_reset(&f->scratch);
    int digits = snprintf(f->number_text, sizeof f->number_text, "%" PRIu64, ++f->number);
    f->captures[f->n_captures++] =
        (struct capture){SLICE_LIT("_number"), slice_of(f->number_text, (size_t)digits), LOGVALUE_TEXT, false};
    if (f->prefix.n > 0) {
        const struct pattern *p = find_match(f, &f->prefix, text);
        if (!p) {
            run_unmatched(f, text, is_cut, now_ns, sink);
            return;
        }
        take_captures(f, p, text);
        rest = slice_from(text, pcre2_get_ovector_pointer(f->data)[1]);
    }
    if (find_match(f, &f->skip, rest)) {
        f->stats.skipped++;
        return;
    }
    for (size_t i = 0; i < f->n_rules; i++) {
        const struct pattern *p = find_match(f, &f->rules[i].match, rest);
        if (p) {
            take_captures(f, p, rest);
            run_rule(f, &f->rules[i], is_cut, now_ns, sink);
            return;
        }
    }
    run_unmatched(f, text, is_cut, now_ns, sink);
}

static void add_line(struct logfilter *f, struct slice line, bool is_cut)
{
    size_t room = LOGFILTER_RECORD_MAX - f->record.n;
    size_t join = f->n_lines ? f->join.n : 0;
    f->is_record_cut |= is_cut || join + line.n > room;
    if (f->n_lines++ && join <= room) {
        strbuf_add_slice(&f->record, f->join);
        room -= join;
    }
    strbuf_add(&f->record, line.p, line.n < room ? line.n : room);
    f->is_record_cut |= strbuf_failed(&f->record);
}

void logfilter_flush(struct logfilter *f, int64_t now_ns, const struct logfilter_sink *sink)
{
    if (f->n_lines == 0)
        return;
    run_record(f, strbuf_slice(&f->record), f->is_record_cut, now_ns, sink);
    strbuf_reset(&f->record);
    f->n_lines = 0;
    f->is_record_cut = false;
}

enum logfilter_held logfilter_line(struct logfilter *f, struct slice line, bool is_cut, int64_t now_ns,
                                   const struct logfilter_sink *sink)
{
    if (f->multiline == LINES_SINGLE) {
        run_record(f, line, is_cut, now_ns, sink);
        return LOGFILTER_DONE;
    }
    bool is_match = matches(f, &f->multiline_pattern.v[0], line);
    bool starts = f->multiline == LINES_START ? is_match : f->multiline == LINES_CONTINUE ? !is_match : false;
    if (starts)
        logfilter_flush(f, now_ns, sink);
    bool is_first = f->n_lines == 0;
    add_line(f, line, is_cut);
    bool is_stray = f->multiline == LINES_START && is_first && !starts; /* nothing that it could belong to */
    bool is_whole = (f->multiline == LINES_END && is_match) || f->n_lines >= f->lines_max ||
                    find_match(f, &f->whole, strbuf_slice(&f->record));
    if (is_stray || is_whole) {
        logfilter_flush(f, now_ns, sink);
        return LOGFILTER_DONE;
    }
    return is_first ? LOGFILTER_STARTED : LOGFILTER_HELD;
}

/* ---- saving: u8, bit 0: zigzag varint time of the last record that had one follows, bit 1: varint number of
 * records so far follows (what was saved before there was one has none); varint entries left out; then per entry, newest first in each table: table name, key, zigzag varint time, fields; texts with
 * their length as varint before them ---- */

static void save_text(struct strbuf *out, struct slice s)
{
    strbuf_add_varint(out, s.n);
    strbuf_add_slice(out, s);
}

static void save_entry(struct strbuf *out, const struct logtable *t, const struct table_entry *e)
{
    save_text(out, t->name);
    save_text(out, e->key);
    strbuf_add_varint(out, zigzag(e->time_ns));
    save_text(out, e->fields);
}

void logfilter_save(const struct logfilter *f, struct strbuf *out, size_t max)
{
    struct strbuf entries = {0};
    uint64_t left_out = 0;
    enum { BEFORE = 1 + 10 + 10 + 10 };
    max -= max < BEFORE ? max : BEFORE;
    for (size_t i = 0; i < f->n_tables; i++) {
        const struct logtable *t = &f->tables[i];
        size_t share = entries.n + (max - entries.n) / (f->n_tables - i), kept = 0;
        for (const struct table_entry *e = t->newest; e; e = e->older, kept++) {
            size_t before = entries.n;
            save_entry(&entries, t, e);
            if (entries.n <= share && !strbuf_failed(&entries))
                continue;
            entries.n = before;
            break;
        }
        left_out += t->n - kept;
    }
    strbuf_add_char(out, (char)(f->has_last_time | 2));
    if (f->has_last_time)
        strbuf_add_varint(out, zigzag(f->last_time_ns));
    strbuf_add_varint(out, f->number);
    strbuf_add_varint(out, left_out);
    strbuf_add_slice(out, strbuf_slice(&entries));
    strbuf_fini(&entries);
}

struct saved {
    struct slice table, key, fields;
    int64_t time_ns;
};

static bool take_saved(struct cursor *c, struct saved *out)
{
    out->table = cursor_bytes(c, cursor_varint(c));
    out->key = cursor_bytes(c, cursor_varint(c));
    out->time_ns = unzigzag(cursor_varint(c));
    out->fields = cursor_bytes(c, cursor_varint(c));
    struct slice rest = out->fields;
    struct named_value v;
    while (!c->bad && table_next_field(&rest, &v))
        continue;
    return !c->bad && rest.n == 0;
}

static struct logtable *find_table(struct logfilter *f, struct slice name)
{
    for (size_t i = 0; i < f->n_tables; i++)
        if (slice_eq(f->tables[i].name, name))
            return &f->tables[i];
    return NULL;
}

int logfilter_restore(struct logfilter *f, struct slice bytes)
{
    struct cursor c = cursor_of(bytes);
    struct saved s, *all = NULL;
    size_t n = 0;
    uint8_t has = cursor_u8(&c);
    int64_t time_ns = has & 1 ? unzigzag(cursor_varint(&c)) : 0;
    uint64_t number = has & 2 ? cursor_varint(&c) : 0;
    uint64_t left_out = cursor_varint(&c);
    if (c.bad || has > 3)
        return E_PROTO;
    for (struct cursor look = c; cursor_left(&look) > 0; n++)
        if (!take_saved(&look, &s))
            return E_PROTO;
    all = n ? mem_try_alloc(n * sizeof *all) : NULL;
    if (n && !all)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        (void)take_saved(&c, &all[i]); /* it was looked at */
    for (size_t i = n; i-- > 0;) {     /* oldest first, so that ages are as they were */
        struct logtable *t = find_table(f, all[i].table);
        if (t)
            table_put(t, all[i].key, all[i].time_ns, all[i].fields, &f->stats.evicted);
    }
    f->stats.evicted += left_out;
    f->has_last_time = has & 1;
    f->last_time_ns = time_ns;
    f->number = number;
    mem_free(all);
    return 0;
}
