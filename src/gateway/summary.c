/* SPDX-License-Identifier: Apache-2.0 */
/* Windows are in chains, shortest first, where each one's steps are whole numbers of the one's before: with
 * 1m, 10m and 60m that is one chain of steps of 10, 100 and 600 seconds. An event is added to the first
 * window of a chain only; when a step leaves its ring (its slot is needed) it is added to the step of the
 * next window that it is part of. So what is in a window's range is in its own ring or in those before it in
 * the chain, once; a question adds that up. An event that is too late (or too far ahead) for the first goes
 * to the next that takes it: the ranges of longer windows contain those of shorter ones.
 *
 * Adding up is the same in any order, so it does not matter when a step moves. Nothing is done when time
 * passes. All fields of a step are beside each other: an event touches one run of memory a chain. (Adding to
 * all windows at once is simpler and was three times as slow once the streams did not fit into the caches.)
 *
 * The range that a window takes (SUMMARY_STEPS and one ahead) is as long as its ring, so two steps of it
 * never share a slot. If the gateway's clock was set back, a slot may have a step that is yet to come: that
 * stays, and what would take its place counts as late. */
#include "gateway/summary_internal.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "event/rate.h"

#include <errno.h>
#include <stdlib.h>

_Static_assert(sizeof(struct stat) == 64, "one cache line, as the header says");

static const int64_t no_step = INT64_MIN;

/* ---------------------------------------------------------------- windows */

static int compare_windows(const void *a, const void *b)
{
    const struct window *x = a, *y = b;
    return x->length_ns < y->length_ns ? -1 : x->length_ns > y->length_ns;
}

static int add_window(struct summary *s, struct slice text, struct diag *why)
{
    int64_t length;
    if (!summary_window_parse(text, &length))
        return diag_set(why, E_PROTO, 0, "'%.*s' is no window; write a multiple of 6s, at most 7d, as 10m",
                        (int)(text.n > 40 ? 40 : text.n), text.p);
    for (size_t i = 0; i < s->n_windows; i++)
        if (s->windows[i].length_ns == length)
            return 0;
    if (s->n_windows == SUMMARY_WINDOWS_MAX)
        return diag_set(why, E_PROTO, 0, "there are more than %d windows", SUMMARY_WINDOWS_MAX);
    struct window *w = &s->windows[s->n_windows++];
    memcpy(w->text, text.p, text.n);
    w->length_ns = length;
    w->step_ns = length / SUMMARY_STEPS;
    return 0;
}

/* Each window to a chain whose last one's steps are part of its own. */
static void make_chains(struct summary *s)
{
    for (size_t i = 0; i < s->n_windows; i++) {
        struct window *w = &s->windows[i];
        w->is_first = true;
        for (size_t k = 0; k < i && w->is_first; k++) {
            struct window *shorter = &s->windows[k];
            if (shorter->longer || w->step_ns % shorter->step_ns != 0)
                continue;
            shorter->longer = w;
            w->is_first = false;
        }
    }
}

static int add_windows(struct summary *s, struct slice list, struct diag *why)
{
    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        struct slice one = slice_of(list.p, comma ? (size_t)(comma - list.p) : list.n);
        int r = add_window(s, one, why);
        if (r < 0)
            return r;
        list = slice_from(list, one.n + 1);
    }
    qsort(s->windows, s->n_windows, sizeof *s->windows, compare_windows);
    make_chains(s);
    return 0;
}

static int64_t step_of(int64_t time_ns, int64_t step_ns)
{
    int64_t k = time_ns / step_ns;
    return time_ns % step_ns < 0 ? k - 1 : k;
}

/* The same of a time that the window takes, quicker where it is the one of the call before. */
static int64_t step_at(struct window *w, int64_t time_ns)
{
    if (time_ns < w->step_begin_ns || time_ns - w->step_begin_ns >= w->step_ns) {
        w->step = step_of(time_ns, w->step_ns);
        w->step_begin_ns = w->step * w->step_ns;
    }
    return w->step;
}

/* What windows take from now on. */
static void set_now(struct summary *s, int64_t now_ns)
{
    s->end_ns = INT64_MIN;
    for (size_t i = 0; i < s->n_windows; i++) {
        struct window *w = &s->windows[i];
        int64_t running = step_of(now_ns, w->step_ns);
        w->begin_ns = (running - SUMMARY_STEPS + 1) * w->step_ns;
        w->end_ns = (running + 2) * w->step_ns;
        s->end_ns = w->end_ns > s->end_ns ? w->end_ns : s->end_ns;
    }
}

static size_t slot_of(int64_t step)
{
    int64_t r = step % SUMMARY_SLOTS;
    return (size_t)(r < 0 ? r + SUMMARY_SLOTS : r);
}

/* ---------------------------------------------------------------- columns */

bool summary_is_column(const struct field *f)
{
    return f->role == ROLE_VALUE && (f->type == VALUE_INT || f->type == VALUE_UINT || f->type == VALUE_FLOAT ||
                                     f->type == VALUE_NUMBER);
}

/* What a column of that field holds. */
static uint8_t column_type(uint8_t field_type)
{
    return field_type == VALUE_NUMBER ? VALUE_FLOAT : field_type;
}

static struct value column_value(struct value v)
{
    return v.type == VALUE_NUMBER ? value_number(v) : v;
}

static void count_columns(const struct schema *schema, uint16_t *columns, uint16_t *counters)
{
    *columns = *counters = 0;
    for (uint32_t i = 0; i < schema->n_fields; i++) {
        bool is_column = summary_is_column(&schema->fields[i]);
        *columns = (uint16_t)(*columns + is_column);
        *counters = (uint16_t)(*counters + (is_column && schema->fields[i].kind == KIND_COUNTER));
    }
}

/* Where each field of `to` is among the columns and counters. */
static void place_columns(const struct schema *to, uint16_t *columns, uint16_t *counters)
{
    uint16_t column = 0, counter = 0;
    for (uint32_t i = 0; i < to->n_fields; i++) {
        const struct field *f = &to->fields[i];
        bool is_column = summary_is_column(f);
        columns[i] = is_column ? column++ : UINT16_MAX;
        counters[i] = is_column && f->kind == KIND_COUNTER ? counter++ : UINT16_MAX;
    }
}

/* Usually it is where it was. Floats and numbers as they were written, 0.5 and 0.50, share the float's column. */
static int find_field(const struct schema *to, uint32_t guess, const struct field *f)
{
    if (f->type != VALUE_NUMBER && guess < to->n_fields && to->fields[guess].type == f->type &&
        slice_eq(to->fields[guess].name, f->name))
        return (int)guess;
    int at = schema_find(to, f->name, column_type(f->type));
    return at < 0 && column_type(f->type) == VALUE_FLOAT ? schema_find(to, f->name, VALUE_NUMBER) : at;
}

static void fill_mapping(struct mapping *m)
{
    uint16_t columns[EVENT_FIELDS_MAX], counters[EVENT_FIELDS_MAX];
    place_columns(m->to, columns, counters);
    m->is_whole = true;
    for (uint32_t i = 0; i < m->from->n_fields; i++) {
        const struct field *f = &m->from->fields[i];
        if (!summary_is_column(f))
            continue;
        int at = find_field(m->to, i, f);
        if (at >= 0 && columns[at] != UINT16_MAX)
            m->v[m->n++] = (struct mapped){(uint16_t)i, columns[at], counters[at], f->type};
        else
            m->is_whole = false;
    }
}

static void mapping_destroy(struct mapping *m)
{
    if (!m)
        return;
    schema_unref(m->from);
    schema_unref(m->to);
    mem_free(m);
}

/* NULL: no memory. Borrowed until the next call. */
static const struct mapping *mapping_of(struct summary *s, const struct schema *from, const struct schema *to)
{
    const uintptr_t key[] = {(uintptr_t)from, (uintptr_t)to};
    struct mapping **slot = &s->mappings[hash_bytes(slice_of((const char *)key, sizeof key)) % MAPPINGS];
    if (*slot && (*slot)->from == from && (*slot)->to == to)
        return *slot;
    struct mapping *m = mem_try_alloc(sizeof *m + from->n_fields * sizeof *m->v);
    if (!m)
        return NULL;
    m->from = schema_ref(from);
    m->to = schema_ref(to);
    fill_mapping(m);
    m->is_wanted = (m->n || !m->is_whole) && text_glob_any(slice_str(s->options.events), from->name);
    mapping_destroy(*slot);
    *slot = m;
    return m;
}

/* ---------------------------------------------------------------- cells */

static size_t cells_size(const struct summary *s, size_t columns, size_t counters)
{
    size_t slots = s->n_windows * SUMMARY_SLOTS;
    return slots * (columns * sizeof(struct stat) + counters * sizeof(struct gain) + sizeof(int64_t)) +
           counters * sizeof(struct reading) + s->n_windows * sizeof(struct outside);
}

static int cells_init(struct cells *c, const struct summary *s, const struct schema *schema)
{
    size_t slots = s->n_windows * SUMMARY_SLOTS;
    count_columns(schema, &c->n_columns, &c->n_counters);
    c->size = cells_size(s, c->n_columns, c->n_counters);
    char *at = mem_try_alloc(c->size);
    if (!at)
        return -ENOMEM;
    c->stats = (struct stat *)(void *)at;
    c->gains = (struct gain *)(void *)(c->stats + slots * c->n_columns);
    c->readings = (struct reading *)(void *)(c->gains + slots * c->n_counters);
    c->numbers = (int64_t *)(void *)(c->readings + c->n_counters);
    c->outside = (struct outside *)(void *)(c->numbers + slots);
    for (size_t i = 0; i < slots; i++)
        c->numbers[i] = no_step;
    return 0;
}

static void cells_fini(struct cells *c)
{
    mem_free(c->stats);
}

/* To has all columns of from, in the same places, and more. */
static void cells_copy(struct cells *to, const struct cells *from, size_t n_windows)
{
    size_t slots = n_windows * SUMMARY_SLOTS;
    for (size_t i = 0; i < slots; i++) {
        memcpy(to->stats + i * to->n_columns, from->stats + i * from->n_columns,
               from->n_columns * sizeof *from->stats);
        memcpy(to->gains + i * to->n_counters, from->gains + i * from->n_counters,
               from->n_counters * sizeof *from->gains);
    }
    memcpy(to->readings, from->readings, from->n_counters * sizeof *from->readings);
    memcpy(to->numbers, from->numbers, slots * sizeof *from->numbers);
    memcpy(to->outside, from->outside, n_windows * sizeof *from->outside);
}

/* ---------------------------------------------------------------- streams */

static size_t size_of(const struct summarised *one)
{
    return sizeof *one + one->stream.key.n + one->cells.size + STREAM_OVERHEAD;
}

static void destroy_stream(struct summarised *one)
{
    cells_fini(&one->cells);
    schema_unref(one->schema);
    mem_free(one);
}

static void forget(struct summary *s, struct summarised *one)
{
    s->counts.bytes -= size_of(one);
    streams_remove(&s->streams, &one->stream);
    destroy_stream(one);
}

/* Makes room for that many bytes and streams by forgetting what has nothing in any window any more. */
static bool make_room(struct summary *s, size_t bytes, size_t streams, int64_t now_ns)
{
    int64_t longest = s->windows[s->n_windows - 1].length_ns;
    while (streams_count(&s->streams) + streams > s->options.streams ||
           s->counts.bytes + bytes > s->options.memory) {
        struct summarised *oldest = (struct summarised *)s->streams.oldest;
        if (!oldest || now_ns - oldest->heard_ns < longest)
            return false;
        s->counts.forgotten++;
        forget(s, oldest);
    }
    return true;
}

/* NULL: there is no room. */
static struct summarised *new_stream(struct summary *s, const struct schema *schema, int64_t now_ns)
{
    uint16_t columns, counters;
    struct slice key = strbuf_slice(&s->key);
    count_columns(schema, &columns, &counters);
    if (!make_room(s, sizeof(struct summarised) + key.n + cells_size(s, columns, counters) + STREAM_OVERHEAD,
                   1, now_ns))
        return NULL;
    struct summarised *one = mem_try_alloc(sizeof *one + key.n);
    if (!one)
        return NULL;
    memcpy(one->key, key.p, key.n);
    one->stream.key = slice_of(one->key, key.n);
    one->schema = schema_ref(schema);
    if (cells_init(&one->cells, s, schema) < 0 || streams_add(&s->streams, &one->stream) < 0) {
        destroy_stream(one);
        return NULL;
    }
    s->counts.bytes += size_of(one);
    return one;
}

/* The fields of a, and behind them the columns that only b has. Borrowed from the registry. */
static int unite(struct summary *s, const struct schema *a, const struct schema *b, const struct schema **out)
{
    struct field fields[EVENT_FIELDS_MAX];
    struct schema *united;
    size_t n = a->n_fields;
    memcpy(fields, a->fields, n * sizeof *fields);
    for (uint32_t i = 0; i < b->n_fields; i++) {
        if (!summary_is_column(&b->fields[i]) || find_field(a, i, &b->fields[i]) >= 0)
            continue;
        if (n == EVENT_FIELDS_MAX)
            return E_LIMIT;
        fields[n++] = b->fields[i];
    }
    int r = schema_create(a->name, fields, n, &united);
    return r < 0 ? r : registry_intern(s->registry, united, out);
}

/* Columns for the fields of another version. E_LIMIT, -ENOMEM: it stays as it is. */
static int grow(struct summary *s, struct summarised *one, const struct schema *schema, int64_t now_ns)
{
    const struct schema *united;
    struct cells cells;
    if (one->schema->n_fields == EVENT_FIELDS_MAX || !make_room(s, sizeof(struct stat), 0, now_ns))
        return E_LIMIT; /* quickly: it is tried with each event */
    int r = unite(s, one->schema, schema, &united);
    if (r < 0)
        return r;
    r = cells_init(&cells, s, united);
    if (r < 0)
        return r;
    if (!make_room(s, cells.size - one->cells.size, 0, now_ns)) {
        cells_fini(&cells);
        return E_LIMIT;
    }
    cells_copy(&cells, &one->cells, s->n_windows);
    s->counts.bytes += cells.size - one->cells.size;
    cells_fini(&one->cells);
    one->cells = cells;
    schema_unref(one->schema);
    one->schema = schema_ref(united);
    return 0;
}

/* ---------------------------------------------------------------- adding */

/* In any order the same: of several values at the smallest time the least is first, of several at the largest
 * the greatest is last. */
#define MERGE_NUMBERS(to, from, m)                                                     \
    do {                                                                               \
        (to)->min.m = (from)->min.m < (to)->min.m ? (from)->min.m : (to)->min.m;       \
        (to)->max.m = (from)->max.m > (to)->max.m ? (from)->max.m : (to)->max.m;       \
        if ((from)->last_ns > (to)->last_ns ||                                         \
            ((from)->last_ns == (to)->last_ns && (from)->last.m > (to)->last.m)) {     \
            (to)->last.m = (from)->last.m;                                             \
            (to)->last_ns = (from)->last_ns;                                           \
        }                                                                              \
        if ((from)->first_ns < (to)->first_ns ||                                       \
            ((from)->first_ns == (to)->first_ns && (from)->first.m < (to)->first.m)) { \
            (to)->first.m = (from)->first.m;                                           \
            (to)->first_ns = (from)->first_ns;                                         \
        }                                                                              \
    } while (0)

static inline void stat_merge(struct stat *to, const struct stat *from, uint8_t type)
{
    if (from->n == 0)
        return;
    if (to->n == 0) {
        *to = *from;
        return;
    }
    to->n += from->n;
    to->sum += from->sum;
    if (type == VALUE_FLOAT)
        MERGE_NUMBERS(to, from, f);
    else if (type == VALUE_UINT)
        MERGE_NUMBERS(to, from, u);
    else
        MERGE_NUMBERS(to, from, i);
}

static inline double number_of(struct value v)
{
    return v.type == VALUE_FLOAT ? v.f : v.type == VALUE_UINT ? (double)v.u : (double)v.i;
}

static inline void stat_add(struct stat *to, struct value v, int64_t time_ns)
{
    if (v.type == VALUE_FLOAT && isnan(v.f))
        return;
    const union number n = {.u = v.u};
    const struct stat one = {1, number_of(v), n, n, n, n, time_ns, time_ns};
    stat_merge(to, &one, v.type);
}

/* false: it went back, by event/rate.h. */
static bool gain_of(const struct reading *before, struct value now, double *gain)
{
    uint64_t whole;
    if (now.type == VALUE_FLOAT) {
        *gain = now.f - before->v.f;
        return *gain >= 0 && isfinite(*gain);
    }
    if (now.type == VALUE_INT) /* from the least int as 0 */
        now.u ^= UINT64_C(1) << 63;
    uint64_t was = now.type == VALUE_INT ? before->v.u ^ UINT64_C(1) << 63 : before->v.u;
    if (!rate_gain(was, now.u, &whole))
        return false;
    *gain = (double)whole;
    return true;
}

/* What it gained since the reading before; over_ns 0: nobody knows. */
static struct gain read_counter(struct reading *r, struct value v, int64_t time_ns)
{
    struct gain g = {0};
    int64_t over_ns;
    if (v.type == VALUE_FLOAT && isnan(v.f))
        return g;
    if (r->is_there && time_ns <= r->time_ns)
        return g;
    if (r->is_there && !__builtin_sub_overflow(time_ns, r->time_ns, &over_ns) && gain_of(r, v, &g.gain))
        g.over_ns = over_ns;
    *r = (struct reading){.v.u = v.u, .time_ns = time_ns, .is_there = true};
    return g.over_ns ? g : (struct gain){0};
}

static void read_counters(struct cells *c, const struct mapping *m, const struct event *e, struct gain *gains)
{
    for (size_t i = 0; c->n_counters && i < m->n; i++) {
        const struct mapped *f = &m->v[i];
        if (f->counter == UINT16_MAX)
            continue;
        struct value v = column_value(e->values[f->field]);
        gains[f->counter] =
            v.type == VALUE_NONE ? (struct gain){0} : read_counter(&c->readings[f->counter], v, e->time_ns);
    }
}

static void open_slot(const struct summary *s, struct summarised *one, const struct window *w, size_t slot,
                      int64_t step);

/* What is in from goes to to, of the same stream. */
static void merge_slot(const struct summarised *one, size_t to, size_t from)
{
    const struct cells *c = &one->cells;
    const struct stat *stats = c->stats + from * c->n_columns;
    const struct gain *gains = c->gains + from * c->n_counters;
    size_t column = 0;
    for (uint32_t i = 0; i < one->schema->n_fields; i++)
        if (summary_is_column(&one->schema->fields[i])) {
            stat_merge(c->stats + to * c->n_columns + column, &stats[column],
                       column_type(one->schema->fields[i].type));
            column++;
        }
    for (size_t i = 0; i < c->n_counters; i++) {
        c->gains[to * c->n_counters + i].gain += gains[i].gain;
        c->gains[to * c->n_counters + i].over_ns += gains[i].over_ns;
    }
}

static size_t slot_in(const struct summary *s, const struct window *w, int64_t step)
{
    return (size_t)(w - s->windows) * SUMMARY_SLOTS + slot_of(step);
}

/* Makes a slot that is in use free for another step: what it has goes to the next window whose ring has, or
 * can have, its step; where all have newer ones it is outside of all of them. */
static void retire(const struct summary *s, struct summarised *one, const struct window *w, size_t slot)
{
    int64_t *numbers = one->cells.numbers;
    int64_t begin_ns = numbers[slot] * w->step_ns;
    for (const struct window *to = w->longer; to; to = to->longer) {
        int64_t step = step_of(begin_ns, to->step_ns);
        size_t at = slot_in(s, to, step);
        if (numbers[at] > step)
            continue;
        if (numbers[at] != step)
            open_slot(s, one, to, at, step);
        merge_slot(one, at, slot);
        return;
    }
}

/* Empties the slot for that step. */
static void open_slot(const struct summary *s, struct summarised *one, const struct window *w, size_t slot,
                      int64_t step)
{
    struct cells *c = &one->cells;
    if (c->numbers[slot] != no_step)
        retire(s, one, w, slot);
    memset(c->stats + slot * c->n_columns, 0, c->n_columns * sizeof *c->stats);
    memset(c->gains + slot * c->n_counters, 0, c->n_counters * sizeof *c->gains);
    c->numbers[slot] = step;
}

static void add_to_slot(struct cells *c, size_t slot, const struct mapping *m, const struct event *e,
                        const struct gain *gained)
{
    struct stat *stats = c->stats + slot * c->n_columns;
    struct gain *gains = c->gains + slot * c->n_counters;
    for (size_t i = 0; i < m->n; i++) {
        const struct mapped *f = &m->v[i];
        struct value v = column_value(e->values[f->field]);
        if (v.type == VALUE_NONE)
            continue;
        stat_add(&stats[f->column], v, e->time_ns);
        if (f->counter != UINT16_MAX) {
            gains[f->counter].gain += gained[f->counter].gain;
            gains[f->counter].over_ns += gained[f->counter].over_ns;
        }
    }
}

static void count_outside(struct summary *s, struct cells *c, const struct window *w, bool is_late)
{
    struct outside *o = &c->outside[w - s->windows];
    o->late += is_late;
    o->ahead += !is_late;
    s->counts.late += is_late;
    s->counts.ahead += !is_late;
}

/* To the first window of the chain that takes it. */
static void add_to_chain(struct summary *s, struct summarised *one, struct window *w, const struct mapping *m,
                         const struct event *e)
{
    struct cells *c = &one->cells;
    for (; w; w = w->longer) {
        if (e->time_ns < w->begin_ns || e->time_ns >= w->end_ns) {
            count_outside(s, c, w, e->time_ns < w->begin_ns);
            continue;
        }
        int64_t step = step_at(w, e->time_ns);
        size_t slot = slot_in(s, w, step);
        if (c->numbers[slot] > step) {
            count_outside(s, c, w, true);
            continue;
        }
        if (c->numbers[slot] != step)
            open_slot(s, one, w, slot, step);
        add_to_slot(c, slot, m, e, s->gained);
        return;
    }
}

static void add_event(struct summary *s, struct summarised *one, const struct mapping *m,
                      const struct event *e)
{
    if (e->time_ns < s->end_ns) /* else no window takes it, and counters would wait for its time to come */
        read_counters(&one->cells, m, e, s->gained);
    for (size_t i = 0; i < s->n_windows; i++)
        if (s->windows[i].is_first)
            add_to_chain(s, one, &s->windows[i], m, e);
}

/* The newest stream is that of the event before, if that is not NULL. */
static struct summarised *stream_of(struct summary *s, const struct event *e, const struct event *before,
                                    int64_t now_ns)
{
    if (before && stream_key_repeats(before, e))
        return (struct summarised *)s->streams.newest;
    strbuf_reset(&s->key);
    stream_key_put(&s->key, e);
    if (strbuf_failed(&s->key))
        return NULL;
    struct summarised *one = (struct summarised *)streams_find(&s->streams, strbuf_slice(&s->key));
    if (one)
        streams_touch(&s->streams, &one->stream);
    else
        one = new_stream(s, e->schema, now_ns);
    if (one)
        one->heard_ns = now_ns;
    return one;
}

/* Is its stream the newest then? */
static bool take(struct summary *s, const struct event *e, const struct event *before, int64_t now_ns)
{
    const struct mapping *m = mapping_of(s, e->schema, e->schema);
    if (m && !m->is_wanted)
        return false;
    s->counts.taken++;
    struct summarised *one = m ? stream_of(s, e, before, now_ns) : NULL;
    if (one && one->schema != e->schema)
        m = mapping_of(s, e->schema, one->schema);
    if (one && m && !m->is_whole && grow(s, one, e->schema, now_ns) == 0)
        m = mapping_of(s, e->schema, one->schema);
    if (!one || !m || !m->is_whole)
        s->counts.left_out++;
    if (one && m)
        add_event(s, one, m, e);
    return one != NULL;
}

void summary_batch(struct summary *s, const struct batch *b, int64_t now_ns)
{
    if (s->options.streams == 0 || s->n_windows == 0)
        return;
    set_now(s, now_ns);
    const struct event *before = NULL;
    for (const struct event *e = b->events; e < b->events + b->n; e++)
        before = take(s, e, before, now_ns) ? e : NULL;
}

/* ---------------------------------------------------------------- reading */

static struct value value_of(union number n, uint8_t type)
{
    return type == VALUE_FLOAT ? value_float(n.f) : type == VALUE_UINT ? value_uint(n.u) : value_int(n.i);
}

/* Which counter the column is. */
static size_t counter_of(const struct schema *schema, const struct field *f)
{
    size_t counter = 0;
    for (const struct field *g = schema->fields; g < f; g++)
        counter += summary_is_column(g) && g->kind == KIND_COUNTER;
    return counter;
}

static struct value rate_of_gain(const struct gain *g)
{
    return g->over_ns > 0 ? rate_rounded(g->gain * 1e9 / (double)g->over_ns) : value_none();
}

/* What a counter or column has of a range, in one window's ring. */
struct sum {
    int64_t from_ns, to_ns;
    size_t column, counter;
    bool is_counter;
    uint8_t type;
    struct stat stat;
    struct gain gain;
};

static void add_ring(const struct summary *s, const struct cells *c, const struct window *w, struct sum *sum)
{
    size_t first = slot_in(s, w, 0);
    for (size_t slot = first; slot < first + SUMMARY_SLOTS; slot++) {
        int64_t step = c->numbers[slot];
        if (step == no_step || step * w->step_ns < sum->from_ns || step * w->step_ns >= sum->to_ns)
            continue;
        stat_merge(&sum->stat, &c->stats[slot * c->n_columns + sum->column], sum->type);
        if (sum->is_counter) {
            sum->gain.gain += c->gains[slot * c->n_counters + sum->counter].gain;
            sum->gain.over_ns += c->gains[slot * c->n_counters + sum->counter].over_ns;
        }
    }
}

/* Of its own ring and those before it in its chain. */
static void add_rings(const struct summary *s, const struct cells *c, const struct window *w, struct sum *sum)
{
    for (const struct window *from = s->windows; from <= w; from++) {
        const struct window *to = from;
        while (to && to != w)
            to = to->longer;
        if (to)
            add_ring(s, c, from, sum);
    }
}

bool summary_read(const struct summary *s, const struct summarised *one, const struct field *f, size_t column,
                  size_t window, int64_t now_ns, struct summary_value *out)
{
    const struct window *w = &s->windows[window];
    int64_t to_ns = (step_of(now_ns, w->step_ns) + 1) * w->step_ns;
    struct sum sum = {.from_ns = to_ns - w->length_ns,
                      .to_ns = to_ns,
                      .column = column,
                      .is_counter = f->kind == KIND_COUNTER,
                      .type = column_type(f->type)};
    sum.counter = sum.is_counter ? counter_of(one->schema, f) : 0;
    add_rings(s, &one->cells, w, &sum);
    if (sum.stat.n == 0)
        return false;
    *out = (struct summary_value){.from_ns = sum.from_ns,
                                  .to_ns = sum.to_ns,
                                  .count = sum.stat.n,
                                  .min = value_of(sum.stat.min, sum.type),
                                  .max = value_of(sum.stat.max, sum.type),
                                  .first = value_of(sum.stat.first, sum.type),
                                  .last = value_of(sum.stat.last, sum.type),
                                  .sum = sum.stat.sum,
                                  .mean = sum.stat.sum / (double)sum.stat.n,
                                  .rate = rate_of_gain(&sum.gain),
                                  .last_ns = sum.stat.last_ns,
                                  .late = one->cells.outside[window].late,
                                  .ahead = one->cells.outside[window].ahead};
    return true;
}

bool summary_get(struct summary *s, const struct event *e, struct slice field, int64_t window_ns,
                 int64_t now_ns, struct summary_value *out)
{
    strbuf_reset(&s->key);
    stream_key_put(&s->key, e);
    const struct summarised *one =
        strbuf_failed(&s->key) ? NULL
                               : (const struct summarised *)streams_find(&s->streams, strbuf_slice(&s->key));
    size_t window = 0, column = 0;
    while (window < s->n_windows && s->windows[window].length_ns != window_ns)
        window++;
    for (uint32_t i = 0; one && window < s->n_windows && i < one->schema->n_fields; i++) {
        const struct field *f = &one->schema->fields[i];
        if (!summary_is_column(f))
            continue;
        if (slice_eq(f->name, field) && summary_read(s, one, f, column, window, now_ns, out))
            return true;
        column++;
    }
    return false;
}

void summary_counts(const struct summary *s, struct summary_counts *out)
{
    *out = s->counts;
    out->streams = streams_count(&s->streams);
}

bool summary_check(const struct summary *s)
{
    size_t bytes = 0;
    for (const struct stream *one = s->streams.oldest; one; one = one->newer) {
        const struct summarised *stream = (const struct summarised *)one;
        uint16_t columns, counters;
        count_columns(stream->schema, &columns, &counters);
        if (columns != stream->cells.n_columns || counters != stream->cells.n_counters)
            return false;
        bytes += size_of(stream);
    }
    return streams_check(&s->streams) && bytes == s->counts.bytes && bytes <= s->options.memory &&
           streams_count(&s->streams) <= s->options.streams;
}

/* ---------------------------------------------------------------- */

int summary_create(const struct summary_options *o, struct summary **out, struct diag *why)
{
    struct summary *s = mem_try_alloc(sizeof *s);
    if (!s)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    s->options = *o;
    s->registry = registry_create();
    int r = s->registry ? add_windows(s, slice_str(o->windows), why)
                        : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r < 0) {
        summary_destroy(s);
        return r;
    }
    *out = s;
    return 0;
}

void summary_destroy(struct summary *s)
{
    if (!s)
        return;
    while (s->streams.oldest)
        forget(s, (struct summarised *)s->streams.oldest);
    streams_fini(&s->streams);
    for (size_t i = 0; i < MAPPINGS; i++)
        mapping_destroy(s->mappings[i]);
    registry_destroy(s->registry);
    strbuf_fini(&s->key);
    mem_free(s);
}

static void run_summary(void *arg, struct control_turn *t)
{
    summary_answer(arg, t, clock_utc_ns());
}

static const struct control_verb verbs[] = {{"summary", ACCESS_SUMMARY, run_summary}};

int summary_add_verbs(struct summary *s, struct control *c)
{
    return control_add(c, verbs, sizeof verbs / sizeof *verbs, s);
}
