/* SPDX-License-Identifier: Apache-2.0 */
/* A record becomes a struct event whose text still lies in the ring, and block_writer_add copies that into
 * columns: one copy in all. For each call site a plan is made once: its schema with the handle's constant
 * fields, and the types to read. Text that is not UTF-8 is bytes in the model, so such an event takes the way
 * of those that describe themselves, with a schema learned. */
#include "client/drain.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "client/handle.h"
#include "client/record.h"
#include "client/site.h"
#include "event/block.h"

#include <errno.h>

enum {
    BLOCK_EVENTS = 8192,       /* a block of more gains little and leaves the cache */
    RELEASE_BYTES = 64 * 1024, /* room is given back to the thread in steps of this */
    BACK_MAX_NS = 1000 * 1000, /* time that runs back by less is held; by more, somebody set the clock */
    EVENT_OVERHEAD = 32,
    VALUE_OVERHEAD = 8 /* how the model counts an event's size, see batch.c */
};

#define TEXT_MISSING UINT32_C(0xffffffff)

struct site_plan {
    const struct site_info *info;
    struct schema *schema; /* NULL: its names are not allowed */
    size_t size;           /* of an event without its text, as the model counts it */
    uint32_t n_consts;     /* behind the site's own fields */
    uint8_t n_texts;
    uint8_t words_before[SITE_FIELDS_MAX + 1]; /* fields of one word between a text and the one before */
    uint8_t types[SITE_FIELDS_MAX];
};

int drain_init(struct drain *d)
{
    d->writer = block_writer_create();
    d->registry = registry_create();
    d->next_seq = 1;
    tick_map_init(&d->clock);
    global_init(&d->global);
    return d->writer && d->registry ? 0 : -ENOMEM;
}

void drain_forget_plans(struct drain *d)
{
    for (size_t i = 0; i < d->n_plans; i++) {
        if (d->plans[i])
            schema_unref(d->plans[i]->schema);
        mem_free(d->plans[i]);
    }
    mem_free(d->plans);
    d->plans = NULL;
    d->n_plans = 0;
}

void drain_fini(struct drain *d)
{
    drain_forget_plans(d);
    block_writer_destroy(d->writer);
    registry_destroy(d->registry);
    global_fini(&d->global);
    strbuf_fini(&d->out);
    mem_free(d->consts);
    d->consts = NULL;
}

void drain_after_fork(struct drain *d)
{
    block_writer_destroy(d->writer);
    d->writer = block_writer_create(); /* without memory: every event is dropped, and counted */
    d->next_seq = 1;
    d->in_block = 0;
    memset(d->dropped, 0, sizeof d->dropped);
    memset(d->reported, 0, sizeof d->reported);
    d->own_reports = 0;
}

uint64_t drain_in_block(const struct drain *d)
{
    return d->in_block;
}

void drain_flush(struct gridline *g)
{
    struct drain *d = &g->drain;
    uint32_t n = (uint32_t)drain_in_block(d);
    struct batch_origin origin = g->env.origin;
    origin.first_seq = d->next_seq;
    origin.clock = d->global.clock;
    if (n == 0 || block_writer_finish(d->writer, &origin, &d->out) < 0)
        return; /* no memory: the block waits, and drops what does not fit any more */
    for (size_t i = 0; i < g->n_dests; i++)
        g->dests[i]->ops->put(g->dests[i], strbuf_slice(&d->out), n, origin.first_seq);
    d->next_seq += n;
    d->in_block = 0;
    strbuf_reset(&d->out);
}

/* An event is in the block now, or could not be added. */
static inline void event_added(struct gridline *g, int r)
{
    struct drain *d = &g->drain;
    if (r < 0) {
        d->dropped[r == E_LIMIT && d->in_block == 0 ? DROP_TOO_LARGE : DROP_MEMORY]++;
        return;
    }
    if (d->in_block++ == 0)
        d->block_since_ns = clock_mono_ns();
    if (d->in_block >= BLOCK_EVENTS)
        drain_flush(g);
}

static void add_event(struct gridline *g, const struct event *e)
{
    struct drain *d = &g->drain;
    int r = d->writer ? block_writer_add(d->writer, e) : -ENOMEM;
    if (r == E_LIMIT && d->in_block) {
        drain_flush(g);
        r = block_writer_add(d->writer, e);
    }
    event_added(g, r);
}

static inline void add_row(struct gridline *g, const struct block_row *row)
{
    struct drain *d = &g->drain;
    int r = d->writer ? block_writer_add_row(d->writer, row) : -ENOMEM;
    if (r == E_LIMIT && d->in_block) {
        drain_flush(g);
        r = block_writer_add_row(d->writer, row);
    }
    event_added(g, r);
}

/* ---------------------------------------------------------------- events that describe themselves */

static bool has_name(const struct named_value *values, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(values[i].name, name))
            return true;
    return false;
}

/* The constant fields behind those that the event has itself; its own win. */
static size_t add_consts(struct drain *d, size_t n)
{
    size_t own = n;
    for (size_t i = 0; i < d->n_consts && n < EVENT_FIELDS_MAX; i++)
        if (!has_name(d->named, own, d->consts[i].name))
            d->named[n++] = d->consts[i];
    return n;
}

/* Checks what the model limits and turns text that is not UTF-8 into bytes. */
static int check_named(struct drain *d, size_t n, size_t name_n)
{
    size_t size = name_n + EVENT_OVERHEAD;
    for (size_t i = 0; i < n; i++) {
        struct value *v = &d->named[i].value;
        size += d->named[i].name.n + VALUE_OVERHEAD;
        if (!value_is_text(v->type))
            continue;
        size += v->n;
        if (v->n > EVENT_TEXT_MAX)
            return E_LIMIT;
        if (v->type == VALUE_TEXT && !text_is_utf8(value_slice(*v)))
            v->type = VALUE_BYTES;
    }
    return size > EVENT_SIZE_MAX ? E_LIMIT : 0;
}

/* An event whose n fields are in d->named, to which the constant ones are added. */
static void add_named(struct gridline *g, struct slice name, size_t n, int64_t time_ns, uint8_t level)
{
    struct drain *d = &g->drain;
    const struct schema *schema;
    n = add_consts(d, n);
    int r = check_named(d, n, name.n);
    if (r == 0)
        r = registry_learn(d->registry, name, d->named, n, &schema, d->index);
    if (r < 0) {
        d->dropped[r == -ENOMEM ? DROP_MEMORY : DROP_TOO_LARGE]++;
        return;
    }
    memset(d->values, 0, schema->n_fields * sizeof *d->values);
    for (size_t i = 0; i < n; i++)
        d->values[d->index[i]] = d->named[i].value;
    add_event(g, &(struct event){time_ns, g->host, g->prog, schema, d->values, level});
}

static const char *read_value(const char *p, struct value *v)
{
    if (!value_is_text(v->type)) {
        memcpy(&v->u, p, 8);
        return p + 8;
    }
    memcpy(&v->n, p, 4);
    v->p = p + 4;
    return p + 4 + v->n;
}

static void take_dynamic(struct gridline *g, const struct record *record, int64_t time_ns)
{
    struct dynamic_head head;
    const char *p = (const char *)(record + 1);
    memcpy(&head, p, sizeof head);
    struct slice name = {p + sizeof head, head.name_n};
    p += sizeof head + head.name_n;
    for (size_t i = 0; i < head.n_fields; i++) {
        struct named_value *f = &g->drain.named[i];
        *f = (struct named_value){.name = {p + 2, (unsigned char)p[1]}, .value = {.type = (uint8_t)p[0]}};
        p = read_value(p + 2 + f->name.n, &f->value);
    }
    add_named(g, name, head.n_fields, time_ns, head.level);
}

/* ---------------------------------------------------------------- events of call sites */

static uint8_t type_of(char letter)
{
    switch (letter) {
    case 'i':
        return VALUE_INT;
    case 'u':
        return VALUE_UINT;
    case 'f':
        return VALUE_FLOAT;
    case 'b':
        return VALUE_BOOL;
    default:
        return VALUE_TEXT;
    }
}

static struct field field_of(struct slice name, uint8_t type)
{
    return (struct field){.name = name, .type = type, .kind = type == VALUE_TEXT ? KIND_TEXT : KIND_UNKNOWN};
}

/* The site's fields and then the constant ones of other names. */
static int plan_schema(struct drain *d, struct site_plan *plan)
{
    const struct site_info *info = plan->info;
    struct field fields[EVENT_FIELDS_MAX];
    size_t n = 0;
    for (; n < info->n_fields; n++) {
        fields[n] = field_of(info->fields[n].name, type_of(info->fields[n].type));
        d->named[n].name = fields[n].name;
        plan->types[n] = fields[n].type;
        if (fields[n].type == VALUE_TEXT)
            plan->n_texts++;
        else
            plan->words_before[plan->n_texts]++;
    }
    size_t all = add_consts(d, n);
    for (; n < all; n++)
        fields[n] = field_of(d->named[n].name, d->named[n].value.type);
    plan->n_consts = (uint32_t)(all - info->n_fields);
    plan->size = info->event.n + EVENT_OVERHEAD;
    for (size_t i = 0; i < all; i++)
        plan->size += fields[i].name.n + VALUE_OVERHEAD +
                      (i >= info->n_fields && value_is_text(fields[i].type) ? d->named[i].value.n : 0);
    int r = schema_create(info->event, fields, all, &plan->schema);
    return r == -ENOMEM ? r : 0;
}

static struct site_plan *make_plan(struct drain *d, uint32_t number)
{
    const struct site_info *info = site_at(number);
    if (number >= d->n_plans) {
        size_t n = (number + 64) & ~(size_t)63;
        struct site_plan **plans = mem_try_resize(d->plans, n * sizeof(struct site_plan *));
        if (!plans)
            return NULL;
        memset(plans + d->n_plans, 0, (n - d->n_plans) * sizeof(struct site_plan *));
        d->plans = plans;
        d->n_plans = n;
    }
    struct site_plan *plan = mem_try_alloc(sizeof *plan);
    if (!plan)
        return NULL;
    plan->info = info;
    if (plan_schema(d, plan) < 0) {
        mem_free(plan);
        return NULL;
    }
    d->plans[number] = plan;
    return plan;
}

/* Reads the site's own fields into d->values. */
static void read_fields(struct drain *d, const struct site_plan *plan, const char *p)
{
    for (size_t i = 0; i < plan->info->n_fields; i++) {
        struct value *v = &d->values[i];
        v->type = plan->types[i];
        if (v->type != VALUE_TEXT) {
            memcpy(&v->u, p, 8);
            p += 8;
            if (v->type == VALUE_FLOAT)
                *v = value_float(v->f);
            continue;
        }
        memcpy(&v->n, p, 4);
        v->p = p + 4;
        if (v->n == TEXT_MISSING)
            *v = value_none();
        p += (v->n + 11) & ~(size_t)7;
    }
}

/* Looks at the texts only: how many bytes they are, and whether all are UTF-8. False when one is too long. */
static inline bool check_text(const struct site_plan *plan, const char *p, size_t *text_bytes, bool *is_utf8)
{
    for (size_t i = 0; i < plan->n_texts; i++) {
        uint32_t n;
        p += plan->words_before[i] * (size_t)8;
        memcpy(&n, p, 4);
        if (n == TEXT_MISSING) {
            p += 8;
            continue;
        }
        if (n > EVENT_TEXT_MAX)
            return false;
        *text_bytes += n;
        *is_utf8 &= text_is_utf8(slice_of(p + 4, n));
        p += (n + 11) & ~(size_t)7;
    }
    return plan->size + *text_bytes <= EVENT_SIZE_MAX;
}

/* By name, because a text is not UTF-8 and so its field has another type. */
static void take_as_bytes(struct gridline *g, const struct site_plan *plan, const char *row, int64_t time_ns)
{
    struct drain *d = &g->drain;
    size_t n = 0;
    read_fields(d, plan, row);
    for (size_t i = 0; i < plan->info->n_fields; i++)
        if (d->values[i].type != VALUE_NONE)
            d->named[n++] = (struct named_value){plan->info->fields[i].name, d->values[i]};
    add_named(g, plan->info->event, n, time_ns, plan->info->level);
}

/* The site's fields, then the constant ones that its plan has. */
static void take_with_consts(struct gridline *g, const struct site_plan *plan, const char *row,
                             int64_t time_ns)
{
    struct drain *d = &g->drain;
    size_t n = plan->info->n_fields;
    read_fields(d, plan, row);
    for (size_t i = 0; n < plan->schema->n_fields; i++)
        if (slice_eq(d->consts[i].name, plan->schema->fields[n].name))
            d->values[n++] = d->consts[i].value;
    add_event(g, &(struct event){time_ns, g->host, g->prog, plan->schema, d->values, plan->info->level});
}

static inline void take_static(struct gridline *g, const struct record *record, int64_t time_ns)
{
    struct drain *d = &g->drain;
    const char *row = (const char *)(record + 1);
    struct site_plan *plan = record->site < d->n_plans ? d->plans[record->site] : NULL;
    if (!plan)
        plan = make_plan(d, record->site);
    size_t text_bytes = 0;
    bool is_utf8 = true;
    if (!plan || !plan->schema || !check_text(plan, row, &text_bytes, &is_utf8)) {
        d->dropped[plan ? DROP_TOO_LARGE : DROP_MEMORY]++;
        return;
    }
    if (!is_utf8)
        take_as_bytes(g, plan, row, time_ns);
    else if (plan->n_consts)
        take_with_consts(g, plan, row, time_ns);
    else
        add_row(g, &(struct block_row){plan->schema, time_ns, plan->info->level, row, text_bytes});
}

/* ---------------------------------------------------------------- rings */

/* A time that the program gave, by this host's clock. */
static int64_t global_of(const struct drain *d, int64_t utc_ns)
{
    int64_t t;
    return __builtin_add_overflow(utc_ns, d->global.clock.offset_ns, &t) ? utc_ns : t;
}

static int64_t record_time(struct drain *d, struct ring *r, const struct record *record)
{
    if (record->site & RECORD_DYNAMIC && record->site & RECORD_AT)
        return global_of(d, (int64_t)record->ticks);
    int64_t t = tick_map_ns(&d->clock, record->ticks);
    if (t < r->last_ns && r->last_ns - t < BACK_MAX_NS)
        return r->last_ns;
    r->last_ns = t;
    return t;
}

static void drain_ring(struct gridline *g, struct ring *r)
{
    uint64_t released = atomic_load_explicit(&r->tail, memory_order_relaxed), at = released;
    while (at < r->seen) {
        uint64_t left = ring_to_end(r, at);
        const struct record *record = ring_at(r, at);
        at += left < RECORD_HEAD ? left : record->size;
        if (left < RECORD_HEAD || record->site == RECORD_PAD)
            continue;
        int64_t time_ns = record_time(&g->drain, r, record);
        if (record->site & RECORD_DYNAMIC)
            take_dynamic(g, record, time_ns);
        else
            take_static(g, record, time_ns);
        if (at - released >= RELEASE_BYTES) {
            atomic_store_explicit(&r->tail, at, memory_order_release);
            released = at;
        }
    }
    atomic_store_explicit(&r->tail, at, memory_order_release);
}

static void keep_drops(struct drain *d, const struct ring *r)
{
    for (int i = 0; i <= DROP_TOO_LARGE; i++)
        d->dropped[i] += atomic_load_explicit(&r->dropped[i], memory_order_relaxed);
}

/* Takes a ring out of the list, into which other threads may be pushing meanwhile. */
static void unlink_ring(struct gridline *g, struct ring *r)
{
    struct ring *next = atomic_load_explicit(&r->link, memory_order_relaxed), *at = r;
    if (atomic_compare_exchange_strong(&g->rings, &at, next))
        return;
    while (atomic_load_explicit(&at->link, memory_order_relaxed) != r)
        at = atomic_load_explicit(&at->link, memory_order_relaxed);
    atomic_store_explicit(&at->link, next, memory_order_relaxed);
}

static void free_ring(struct gridline *g, struct ring *r)
{
    unlink_ring(g, r);
    keep_drops(&g->drain, r);
    keep_drops(&g->drain, r->second);
    ring_unmap(r);
}

/* For all that was seen: behind it, so nothing lies beyond the anchor. */
static void set_clock(struct gridline *g)
{
    struct drain *d = &g->drain;
    struct batch_clock now;
    tick_map_update(&d->clock);
    if (global_look(&d->global, &d->clock, &now))
        drain_flush(g);
    global_begin(&d->global, &now, d->in_block != 0);
    d->clock.base_ns += d->global.clock.offset_ns;
}

void drain_rings(struct gridline *g)
{
    struct ring *first = atomic_load_explicit(&g->rings, memory_order_acquire), *next;
    for (struct ring *r = first; r; r = atomic_load_explicit(&r->link, memory_order_relaxed)) {
        r->seen = atomic_load_explicit(&r->head, memory_order_acquire);
        r->second->seen = atomic_load_explicit(&r->second->head, memory_order_acquire);
    }
    if (g->drain.writer)
        block_writer_origin(g->drain.writer, g->host, g->prog);
    set_clock(g);
    for (struct ring *r = first; r; r = next) {
        next = atomic_load_explicit(&r->link, memory_order_relaxed);
        bool is_finished = atomic_load_explicit(&r->is_finished, memory_order_acquire);
        drain_ring(g, r);
        drain_ring(g, r->second);
        if (is_finished && r->seen == atomic_load_explicit(&r->head, memory_order_acquire) &&
            r->second->seen == atomic_load_explicit(&r->second->head, memory_order_acquire))
            free_ring(g, r);
    }
}

void drain_dropped(struct gridline *g, uint64_t out[DROP_REASONS])
{
    for (int i = 0; i < DROP_REASONS; i++)
        out[i] = g->drain.dropped[i] + atomic_load_explicit(&g->dropped[i], memory_order_relaxed);
    struct ring *r = atomic_load_explicit(&g->rings, memory_order_acquire);
    for (; r; r = atomic_load_explicit(&r->link, memory_order_relaxed))
        for (int i = 0; i <= DROP_TOO_LARGE; i++)
            out[i] += atomic_load_explicit(&r->dropped[i], memory_order_relaxed) +
                      atomic_load_explicit(&r->second->dropped[i], memory_order_relaxed);
}

/* ---------------------------------------------------------------- telling of drops */

static const char *const reason_names[DROP_REASONS] = {
    [DROP_RING_FULL] = "ring_full",   [DROP_NESTED] = "nested",       [DROP_TOO_LARGE] = "too_large",
    [DROP_UNWRITABLE] = "unwritable", [DROP_MEMORY] = "memory",       [DROP_REFUSED] = "refused",
    [DROP_TOO_OLD] = "too_old",       [DROP_NO_SCHEMA] = "no_schema", [DROP_FILTERED] = "filtered",
    [DROP_FORCED] = "forced",         [DROP_TOO_NEW] = "too_new",     [DROP_STREAMS] = "streams",
};

static void all_drops(struct gridline *g, uint64_t out[DROP_REASONS])
{
    drain_dropped(g, out);
    for (size_t i = 0; i < g->n_dests; i++) {
        if (g->dests[i]->ops == &dest_mem)
            continue; /* overwriting the oldest is what it is for */
        struct dest_counts c;
        g->dests[i]->ops->counts(g->dests[i], &c);
        for (int k = 0; k < DROP_REASONS; k++)
            out[k] += c.dropped[k];
    }
}

static void report_one(struct gridline *g, const char *reason, uint64_t count, uint64_t total)
{
    struct drain *d = &g->drain;
    d->named[0] = (struct named_value){SLICE_LIT("reason"), value_text(slice_str(reason))};
    d->named[1] = (struct named_value){SLICE_LIT("count"), value_uint(count)};
    d->named[2] = (struct named_value){SLICE_LIT("total"), value_uint(total)};
    add_named(g, SLICE_LIT("gridline.dropped"), 3, global_of(d, clock_utc_ns()), LEVEL_WARNING);
    d->own_reports++;
}

/* A report may itself be dropped (a full disk): as many drops as the last round wrote reports are no news, or
 * it would go on for ever. They are in the totals. */
void drain_report(struct gridline *g, int64_t now_mono_ns)
{
    struct drain *d = &g->drain;
    uint64_t now[DROP_REASONS], news = 0;
    if (now_mono_ns < d->report_at_ns)
        return;
    all_drops(g, now);
    for (int i = 1; i < DROP_REASONS; i++)
        news += now[i] - d->reported[i];
    if (news <= d->own_reports)
        return;
    d->report_at_ns = now_mono_ns + NS_PER_S;
    d->own_reports = 0;
    for (int i = 1; i < DROP_REASONS; i++) {
        if (now[i] != d->reported[i])
            report_one(g, reason_names[i], now[i] - d->reported[i], now[i]);
        d->reported[i] = now[i];
    }
}
