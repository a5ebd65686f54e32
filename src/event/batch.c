/* SPDX-License-Identifier: Apache-2.0 */
/* While building, events are in a growing array of the builder; values and text go straight to the arena that
 * the finished batch takes over. References to schemas: one per version used, kept in a small list that is
 * searched from the newest (events of one kind come together). */
#include "event/batch.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <stdatomic.h>

/* The batch as it is allocated: in its own arena, so that freeing is freeing the arena. */
struct batch_block {
    struct batch batch;
    struct arena arena;
    const struct schema **schemas;
    size_t n_schemas;
};

struct batch *batch_ref(struct batch *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void batch_unref(struct batch *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    struct batch_block *block = (struct batch_block *)b;
    for (size_t i = 0; i < block->n_schemas; i++)
        schema_unref(block->schemas[i]);
    struct arena arena = block->arena; /* the block itself lives in it */
    arena_fini(&arena);
}

enum { ORIGINS = 128 };

struct batch_builder {
    struct registry *registry;
    unsigned flags;
    size_t max_events, max_bytes;
    struct arena arena;
    struct event *events;
    struct slice *raw;
    size_t n, cap;
    const struct schema **schemas;
    size_t n_schemas, cap_schemas;
    bool has_origin;
    struct batch_origin origin;
    struct slice block;
    struct strbuf dropped;         /* BUILDER_TRIM: names of this event's fields that were left out */
    size_t n_dropped;
    bool is_last_trimmed;          /* the event added last */
    struct batch_trimmed trimmed;
    struct slice host, prog;       /* the last ones, already in the arena: most events repeat them */
    struct slice origins[ORIGINS]; /* hosts and programs of this batch by hash, checked and in the arena */
    /* batch_builder_add's work space: 9 KiB that are dear to set up on the stack for every event */
    struct named_value changed[EVENT_FIELDS_MAX];
    uint16_t index[EVENT_FIELDS_MAX];
};

struct batch_builder *batch_builder_create(struct registry *registry, unsigned flags)
{
    struct batch_builder *b = mem_try_alloc(sizeof *b);
    if (!b)
        return NULL;
    b->registry = registry;
    b->flags = flags;
    batch_builder_limit(b, 4096, 1 << 20);
    return b;
}

static void start_over(struct batch_builder *b)
{
    b->n = b->n_schemas = 0;
    b->has_origin = false;
    b->block = (struct slice){"", 0};
    b->host = b->prog = (struct slice){"", 0};
    memset(b->origins, 0, sizeof b->origins);
}

void batch_builder_destroy(struct batch_builder *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n_schemas; i++)
        schema_unref(b->schemas[i]);
    arena_fini(&b->arena);
    mem_free(b->events);
    mem_free(b->raw);
    mem_free(b->schemas);
    strbuf_fini(&b->dropped);
    mem_free(b);
}

void batch_builder_limit(struct batch_builder *b, size_t max_events, size_t max_bytes)
{
    b->max_events = max_events;
    b->max_bytes = max_bytes;
}

bool batch_builder_full(const struct batch_builder *b)
{
    return b->has_origin || b->n >= b->max_events ||
           b->arena.total - (size_t)(b->arena.end - b->arena.at) >= b->max_bytes;
}

size_t batch_builder_count(const struct batch_builder *b)
{
    return b->n;
}

void *batch_builder_alloc(struct batch_builder *b, size_t n)
{
    return arena_alloc(&b->arena, n);
}

static int grow_events(struct batch_builder *b, size_t more)
{
    size_t cap = b->cap ? b->cap * 2 : 64;
    while (cap < b->n + more)
        cap *= 2;
    struct event *events = mem_try_resize(b->events, cap * sizeof *events);
    if (!events)
        return -ENOMEM;
    b->events = events;
    if (b->flags & BUILDER_KEEP_RAW) {
        struct slice *raw = mem_try_resize(b->raw, cap * sizeof *raw);
        if (!raw)
            return -ENOMEM;
        b->raw = raw;
    }
    b->cap = cap;
    return 0;
}

int batch_builder_use_schema(struct batch_builder *b, const struct schema *s)
{
    for (size_t i = b->n_schemas; i-- > 0;)
        if (b->schemas[i] == s)
            return 0;
    if (b->n_schemas == b->cap_schemas) {
        size_t cap = b->cap_schemas ? b->cap_schemas * 2 : 8;
        const struct schema **list = mem_try_resize(b->schemas, cap * sizeof *list);
        if (!list)
            return -ENOMEM;
        b->schemas = list;
        b->cap_schemas = cap;
    }
    b->schemas[b->n_schemas++] = schema_ref(s);
    return 0;
}

static int check_origin_name(struct slice s, const char *what, struct diag *why)
{
    if (s.n > EVENT_ORIGIN_MAX)
        return diag_set(why, E_LIMIT, 0, "%s is %zu bytes long; at most %d are allowed", what, s.n,
                        EVENT_ORIGIN_MAX);
    if (!text_is_utf8(s) || text_has_control(s))
        return diag_set(why, E_PROTO, 0, "%s is not printable UTF-8 text", what);
    return 0;
}

/* *kept is the last one of its kind; the same again costs a comparison, one of the few before it a hash more.
 */
static int keep_origin_name(struct batch_builder *b, struct slice s, struct slice *kept, const char *what,
                            struct diag *why)
{
    if (slice_eq(s, *kept))
        return 0;
    struct slice *known = &b->origins[hash_bytes(s) % ORIGINS];
    if (!slice_eq(s, *known) || !known->p) {
        int r = check_origin_name(s, what, why);
        if (r < 0)
            return r;
        struct slice copy = arena_copy(&b->arena, s);
        if (!copy.p)
            return -ENOMEM;
        *known = copy;
    }
    *kept = *known;
    return 0;
}

/* Text into the arena unless the caller keeps it alive; text that is not UTF-8 is bytes. */
static int keep_value(struct batch_builder *b, struct value *v)
{
    if (!value_is_text(v->type) || v->n == 0 || (b->flags & BUILDER_BORROW))
        return 0;
    struct slice copy = arena_copy(&b->arena, value_slice(*v));
    v->p = copy.p;
    return copy.p ? 0 : -ENOMEM;
}

static int check_value(const struct value *v, struct slice name, size_t *size, struct diag *why)
{
    if (value_is_text(v->type)) {
        if (v->n > EVENT_TEXT_MAX)
            return diag_set(why, E_LIMIT, 0, "field %.*s holds %u bytes; at most %d are allowed",
                            SLICE_ARG(name), (unsigned)v->n, EVENT_TEXT_MAX);
        *size += v->n;
    }
    *size += name.n + 8;
    if (*size > EVENT_SIZE_MAX)
        return diag_set(why, E_LIMIT, 0, "the event is larger than %d bytes", EVENT_SIZE_MAX);
    return 0;
}

static int add_event(struct batch_builder *b, const struct event_head *head, const struct schema *schema,
                     const struct value *values, struct diag *why)
{
    int r = keep_origin_name(b, head->host, &b->host, "host", why);
    if (r == 0)
        r = keep_origin_name(b, head->prog, &b->prog, "prog", why);
    if (r == 0 && b->n == b->cap)
        r = grow_events(b, 1);
    if (r == 0)
        r = batch_builder_use_schema(b, schema);
    if (r < 0)
        return r;
    if (b->flags & BUILDER_KEEP_RAW)
        b->raw[b->n] = (struct slice){"", 0};
    b->events[b->n++] = (struct event){.time_ns = head->time_ns,
                                       .host = b->host,
                                       .prog = b->prog,
                                       .schema = schema,
                                       .values = values,
                                       .level = head->level};
    return 0;
}

static int explain_learn(int r, const struct event_head *head, size_t n, struct diag *why)
{
    if (r == -ENOMEM)
        return r;
    if (!text_is_name(head->name))
        return diag_set(why, head->name.n > EVENT_NAME_MAX ? E_LIMIT : E_PROTO, 0,
                        "event name is not 1 to %d characters of A-Z a-z 0-9 . _ : -", EVENT_NAME_MAX);
    if (n > EVENT_FIELDS_MAX)
        return diag_set(why, E_LIMIT, 0, "%zu fields; at most %d are allowed", n, EVENT_FIELDS_MAX);
    return diag_set(why, r, 0,
                    "a field name comes twice, or is not 1 to %d characters of A-Z a-z 0-9 . _ : -",
                    EVENT_NAME_MAX);
}

/* Text that is not UTF-8 is bytes: *values then points to a copy of them, where it is. */
static void change_to_bytes(struct batch_builder *b, const struct named_value **values, size_t n, size_t i)
{
    if (*values != b->changed)
        memcpy(b->changed, *values, n * sizeof **values);
    *values = b->changed;
    b->changed[i].value.type = VALUE_BYTES;
}

bool batch_builder_trims(const struct batch_builder *b)
{
    return b->flags & BUILDER_TRIM;
}

bool batch_builder_drop(struct batch_builder *b, struct slice field)
{
    struct slice name = text_is_name(field) ? field : SLICE_LIT("?");
    if (!(b->flags & BUILDER_TRIM))
        return false;
    if (b->dropped.n + name.n + 5 <= DROPPED_NAMES_MAX) {
        strbuf_printf(&b->dropped, "%s%.*s", b->dropped.n ? "," : "", SLICE_ARG(name));
    } else if (b->n_dropped && !slice_ends(strbuf_slice(&b->dropped), SLICE_LIT(",..."))) {
        strbuf_add_slice(&b->dropped, SLICE_LIT(",..."));
    }
    b->n_dropped++;
    return true;
}

void batch_builder_begin(struct batch_builder *b)
{
    b->n_dropped = 0;
    strbuf_reset(&b->dropped);
}

struct batch_trimmed batch_builder_trimmed(const struct batch_builder *b)
{
    return b->trimmed;
}

/* The values that fit, in b->changed, and the names of the others as the last one. */
static int trim(struct batch_builder *b, const struct event_head *head, const struct named_value **values, size_t *n)
{
    size_t size = head->name.n + 32 + sizeof EVENT_DROPPED_FIELD + 8 + DROPPED_NAMES_MAX, kept = 0;
    for (size_t i = 0; i < *n; i++) {
        struct named_value v = (*values)[i];
        size_t with = size;
        bool fits = kept < EVENT_FIELDS_MAX - 1 && check_value(&v.value, v.name, &with, NULL) == 0;
        if (slice_eq_str(v.name, EVENT_DROPPED_FIELD) || !fits) { /* an older mark gives way to this one */
            (void)batch_builder_drop(b, v.name); /* it trims */
            continue;
        }
        size = with;
        b->changed[kept++] = v;
    }
    struct slice names = arena_copy(&b->arena, strbuf_slice(&b->dropped));
    if (!names.p || strbuf_failed(&b->dropped))
        return -ENOMEM;
    b->changed[kept++] = (struct named_value){SLICE_LIT(EVENT_DROPPED_FIELD), value_text(names)};
    *values = b->changed;
    *n = kept;
    return 0;
}

static int add_learned(struct batch_builder *b, const struct event_head *head, const struct named_value *values,
                       size_t n, struct diag *why)
{
    const struct schema *schema;
    size_t size = head->name.n + 32;
    if (n > EVENT_FIELDS_MAX)
        return explain_learn(E_LIMIT, head, n, why);
    for (size_t i = 0; i < n; i++) {
        const struct value *v = &values[i].value;
        int r = check_value(v, values[i].name, &size, why);
        if (r < 0)
            return r;
        if (v->type == VALUE_TEXT && !text_is_utf8(value_slice(*v)))
            change_to_bytes(b, &values, n, i);
    }
    int r = registry_learn(b->registry, head->name, values, n, &schema, b->index);
    if (r < 0)
        return explain_learn(r, head, n, why);
    struct value *place = arena_alloc(&b->arena, (schema->n_fields ? schema->n_fields : 1) * sizeof *place);
    if (!place)
        return -ENOMEM;
    if (n < schema->n_fields)
        memset(place, 0, schema->n_fields * sizeof *place);
    for (size_t i = 0; i < n && r == 0; i++) {
        place[b->index[i]] = values[i].value;
        if (value_is_text(values[i].value.type))
            r = keep_value(b, &place[b->index[i]]);
    }
    return r < 0 ? r : add_event(b, head, schema, place, why);
}

int batch_builder_add(struct batch_builder *b, const struct event_head *head,
                      const struct named_value *values, size_t n, struct diag *why)
{
    int r = b->n_dropped ? E_LIMIT : add_learned(b, head, values, n, why);
    b->is_last_trimmed = r == E_LIMIT && b->flags & BUILDER_TRIM;
    if (!b->is_last_trimmed)
        return r;
    r = trim(b, head, &values, &n);
    if (r == 0)
        r = add_learned(b, head, values, n, why); /* what else is over a limit, a name, is refused again */
    if (r == 0) {
        b->trimmed.events++;
        b->trimmed.fields += b->n_dropped;
    }
    batch_builder_begin(b);
    return r;
}

int batch_builder_add_known(struct batch_builder *b, const struct event_head *head,
                            const struct schema *schema, const struct value *values, struct diag *why)
{
    size_t size = schema->name.n + 32;
    struct value *place = arena_alloc(&b->arena, (schema->n_fields ? schema->n_fields : 1) * sizeof *place);
    if (!place)
        return -ENOMEM;
    for (uint32_t i = 0; i < schema->n_fields; i++) {
        place[i] = values[i];
        if (place[i].type == VALUE_NONE)
            continue;
        int r = check_value(&place[i], schema->fields[i].name, &size, why);
        if (r == 0 && place[i].type == VALUE_TEXT && !text_is_utf8(value_slice(place[i])))
            r = diag_set(why, E_PROTO, 0, "field %.*s is not UTF-8 text", SLICE_ARG(schema->fields[i].name));
        if (r == 0)
            r = keep_value(b, &place[i]);
        if (r < 0)
            return r;
    }
    return add_event(b, head, schema, place, why);
}

void batch_builder_set_raw(struct batch_builder *b, struct slice raw)
{
    if ((b->flags & BUILDER_KEEP_RAW) && b->n && !b->is_last_trimmed)
        b->raw[b->n - 1] = raw;
}

struct event *batch_builder_bulk(struct batch_builder *b, size_t n)
{
    if (b->n + n > b->cap && grow_events(b, n) < 0)
        return NULL;
    if (b->flags & BUILDER_KEEP_RAW)
        memset(b->raw + b->n, 0, n * sizeof *b->raw);
    b->n += n;
    return b->events + b->n - n;
}

void batch_builder_set_origin(struct batch_builder *b, const struct batch_origin *origin)
{
    b->origin = *origin;
    b->has_origin = true;
}

const struct event *batch_builder_events(const struct batch_builder *b)
{
    return b->events;
}

void batch_builder_cut(struct batch_builder *b, size_t n)
{
    if (n < b->n)
        b->n = n; /* their memory goes with the batch */
}

void batch_builder_set_block(struct batch_builder *b, struct slice block)
{
    b->block = block;
}

struct registry *batch_builder_registry(struct batch_builder *b)
{
    return b->registry;
}

bool batch_builder_borrows(const struct batch_builder *b)
{
    return b->flags & BUILDER_BORROW;
}

static void drop_all(struct batch_builder *b)
{
    for (size_t i = 0; i < b->n_schemas; i++)
        schema_unref(b->schemas[i]);
    arena_reset(&b->arena);
    start_over(b);
}

static void *copy_to_arena(struct arena *a, const void *from, size_t n)
{
    void *to = arena_alloc(a, n ? n : 1);
    if (to && n)
        memcpy(to, from, n);
    return to;
}

struct batch *batch_builder_finish(struct batch_builder *b, const struct batch_origin *origin)
{
    if (b->n == 0) {
        drop_all(b);
        return NULL;
    }
    struct batch_block *block = arena_alloc(&b->arena, sizeof *block);
    void *events = copy_to_arena(&b->arena, b->events, b->n * sizeof *b->events);
    void *schemas = copy_to_arena(&b->arena, b->schemas, b->n_schemas * sizeof *b->schemas);
    bool keep_raw = b->flags & BUILDER_KEEP_RAW;
    void *raw = keep_raw ? copy_to_arena(&b->arena, b->raw, b->n * sizeof *b->raw) : NULL;
    if (!block || !events || !schemas || (keep_raw && !raw)) {
        drop_all(b);
        return NULL;
    }
    *block = (struct batch_block){
        .batch = {.events = events, .raw = raw, .n = b->n, .block = b->block, .size_bytes = b->arena.total},
        .arena = b->arena,
        .schemas = schemas,
        .n_schemas = b->n_schemas};
    block->batch.origin = origin          ? *origin
                          : b->has_origin ? b->origin
                                          : (struct batch_origin){.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    atomic_init(&block->batch.refs, 1);
    b->arena = (struct arena){0};
    start_over(b);
    return &block->batch;
}
