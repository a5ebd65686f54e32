/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loop. A program works on a small stack of values; the usual leaf (field against constant) is one
 * instruction. Nothing is allocated and no name is compared, except when a schema version is met for the
 * first time or has been pushed out of the cache by another with the same low bits of its hash. */
#include "event/predicate_internal.h"

/* Where the schema has a field. */
static bool find_field(const struct schema *s, struct slice name, uint16_t *places)
{
    size_t n = 0;
    for (uint32_t k = 0; k < s->n_fields; k++)
        if (slice_eq(s->fields[k].name, name))
            places[n++] = (uint16_t)k;
    return n > 0;
}

static uint16_t *fill(struct predicate *p, struct predicate_cache *entry, const struct schema *s)
{
    schema_unref(entry->schema);
    entry->schema = schema_ref(s);
    memset(entry->index, 0xff, PREDICATE_PLACES * p->n_fields * sizeof *entry->index); /* FIELD_ABSENT */
    for (size_t i = 0; i < p->n_fields; i++) {
        struct slice base;
        uint16_t *places = entry->index + i * PREDICATE_PLACES;
        uint8_t class = class_view(p->fields[i], &base);
        if (find_field(s, p->fields[i], places))
            class = class_of(p->classes, s, p->fields[i]);
        else if (class != CLASS_UNKNOWN)
            (void)find_field(s, base, places); /* absent, otherwise */
        places[PREDICATE_ALTERNATIVES] = class;
    }
    return entry->index;
}

static void forget(struct predicate *p)
{
    for (size_t i = 0; i < PREDICATE_CACHE; i++) {
        schema_unref(p->cache[i].schema);
        p->cache[i].schema = NULL;
    }
}

/* Binds again what was bound to classes that have changed. */
static void renew(struct predicate *p)
{
    uint64_t generation = p->classes->generation(p->classes->arg);
    if (generation == p->generation)
        return;
    p->generation = generation;
    forget(p);
}

void predicate_use_classes(struct predicate *p, const struct class_source *classes)
{
    p->classes = classes;
    p->generation = classes ? classes->generation(classes->arg) : 0;
    forget(p);
}

static inline const uint16_t *find_index(struct predicate *p, const struct schema *s)
{
    struct predicate_cache *entry = &p->cache[s->hash & (PREDICATE_CACHE - 1)];
    return entry->schema == s ? entry->index : fill(p, entry, s);
}

static const struct value none = {.u = 0};

/* Of the fields with that name, one for each type, an event sets at most one. */
static inline const struct value *find_value(const struct event *e, const uint16_t *places)
{
    for (size_t k = 0; k < PREDICATE_ALTERNATIVES; k++) {
        if (places[k] == FIELD_ABSENT)
            break;
        if (e->values[places[k]].type != VALUE_NONE)
            return &e->values[places[k]];
    }
    return &none;
}

/* The types that are in a column of each class as they are, a bit each. */
static const uint8_t types_of_class[] = {
    [CLASS_UNKNOWN] = (uint8_t) ~(1U << VALUE_NUMBER),
    [CLASS_NUMBER] = 1U << VALUE_NONE | 1U << VALUE_INT | 1U << VALUE_UINT | 1U << VALUE_FLOAT | 1U << VALUE_BOOL,
    [CLASS_TEXT] = 1U << VALUE_NONE | 1U << VALUE_TEXT | 1U << VALUE_BYTES,
};

/* Apart, so that the usual case keeps its registers. */
__attribute__((noinline, cold)) static const struct value *convert(const struct predicate *p, const struct value *v,
                                                                   uint8_t class, size_t field, struct value *room)
{
    *room = class_value(class == CLASS_TEXT ? CLASS_TEXT : CLASS_NUMBER, *v, p->spellings[field].z);
    return room;
}

/* As the column of its class has it; without a class as `want`. */
static inline const struct value *load_field(const struct predicate *p, const struct event *e,
                                             const uint16_t *index, size_t field, uint8_t want,
                                             struct value *room)
{
    const uint16_t *places = index + field * PREDICATE_PLACES;
    const struct value *v = find_value(e, places);
    uint8_t class = (uint8_t)places[PREDICATE_ALTERNATIVES];
    class = class == CLASS_UNKNOWN ? want : class;
    if (types_of_class[class] >> v->type & 1)
        return v;
    return convert(p, v, class, field, room);
}

static inline const struct value *load_text(struct slice s, struct value *room)
{
    room->p = s.p;
    room->n = (uint32_t)s.n;
    room->type = VALUE_TEXT;
    return room;
}

static inline const struct value *load_int(int64_t v, struct value *room)
{
    room->i = v;
    room->type = VALUE_INT;
    return room;
}

/* The operand, where it is in the event or in *room. Host and prog that are not known are missing, not ''. */
static inline const struct value *load(const struct predicate *p, const struct event *e,
                                       const uint16_t *index, const struct instr *in, struct value *room)
{
    switch (in->slot) {
    case SLOT_TIME:
        return load_int(e->time_ns, room);
    case SLOT_HOST:
        return e->host.n ? load_text(e->host, room) : &none;
    case SLOT_PROG:
        return e->prog.n ? load_text(e->prog, room) : &none;
    case SLOT_LEVEL:
        return load_int(e->level, room);
    case SLOT_NAME:
        return load_text(e->schema->name, room);
    default:
        return load_field(p, e, index, in->slot - SLOT_FIELDS, in->want, room);
    }
}

/* The truth t is about to be pushed before `in`. Follows the jumps that it decides, without going through the
 * stack. Returns where to go on; there t is still to be pushed, unless it is *used up. */
static inline const struct instr *follow(const struct predicate *p, const struct instr *in, enum truth t,
                                         bool *used)
{
    *used = false;
    while (in->op == OP_PASS_AND || in->op == OP_PASS_OR) {
        bool decides = (t == TRUE) == (in->op == OP_PASS_OR);
        if (!decides) {
            *used = true;
            return in + 1;
        }
        in = p->code + in->target;
    }
    return in;
}

static inline __attribute__((always_inline)) bool test(struct predicate *p, const struct event *e)
{
    const uint16_t *index = p->n_fields ? find_index(p, e->schema) : NULL;
    const struct instr *in = p->code;
    struct value *top = p->stack; /* the first free place */
    struct value room = none;
    for (;;) {
        const struct value *v;
        enum truth t;
        bool used;
        switch (in->op) {
        case OP_END:
            return predicate_truth(top - 1) == TRUE;
        case OP_LOAD:
            *top++ = *load(p, e, index, in, &room);
            in++;
            continue;
        case OP_CONST:
            *top++ = in->k;
            in++;
            continue;
        case OP_COMPARE_CONST:
            v = in->slot == SLOT_STACK ? --top : load(p, e, index, in, &room);
            t = predicate_compare_const(in, v);
            in++;
            break;
        case OP_IN:
        case OP_LIKE:
        case OP_GLOB:
        case OP_IS_NULL:
            v = in->slot == SLOT_STACK ? --top : load(p, e, index, in, &room);
            t = predicate_ask(in, v);
            in++;
            break;
        case OP_PASS_AND:
        case OP_PASS_OR:
            t = predicate_truth(--top);
            break;
        case OP_SKIP_FALSE:
        case OP_SKIP_TRUE:
            t = predicate_truth(top - 1);
            if (t == (in->op == OP_SKIP_TRUE ? TRUE : FALSE)) {
                top[-1] = predicate_from_truth(t);
                in = p->code + in->target;
            } else {
                in++;
            }
            continue;
        default:
            top -= predicate_operands(in->op);
            *top = predicate_apply(in, top);
            top++;
            in++;
            continue;
        }
        in = follow(p, in, t, &used);
        if (used)
            continue;
        if (in->op == OP_END)
            return t == TRUE;
        *top++ = predicate_from_truth(t);
    }
}

bool predicate_test(struct predicate *p, const struct event *e)
{
    if (p->classes)
        renew(p);
    return test(p, e);
}

/* What a comparison with k >= 0 accepts of the integers from 0 on: lo to lo + span, or all but these. */
struct range {
    uint64_t lo, span;
    bool is_out;
};

static struct range range_of(uint8_t orders, uint64_t k)
{
    const uint64_t above = (uint64_t)INT64_MAX - k;
    switch (orders) {
    case ORDER_EQUAL:
        return (struct range){k, 0, false};
    case ORDER_LESS | ORDER_GREATER:
        return (struct range){k, 0, true};
    case ORDER_LESS:
        return (struct range){k, above, true};
    case ORDER_GREATER | ORDER_EQUAL:
        return (struct range){k, above, false};
    case ORDER_GREATER:
        return (struct range){0, k, true};
    default: /* ORDER_LESS | ORDER_EQUAL */
        return (struct range){0, k, false};
    }
}

/* One comparison, on all events that are left: no value waits for the answer to the one before. */
static size_t filter_range(struct predicate *p, const struct instr *in, const struct event *events,
                           uint32_t *index, size_t n)
{
    const struct range r = range_of(in->arg, in->k.u);
    const size_t field = in->slot - SLOT_FIELDS;
    const struct schema *schema = NULL;
    const uint16_t *fields = NULL;
    uint16_t at = FIELD_ABSENT;
    struct value room;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const struct event *e = &events[index[i]];
        if (e->schema != schema) {
            schema = e->schema;
            fields = find_index(p, schema);
            const uint16_t *places = fields + field * PREDICATE_PLACES;
            at = places[PREDICATE_ALTERNATIVES] == CLASS_TEXT ? FIELD_ABSENT : places[0];
        }
        const struct value *v = at != FIELD_ABSENT ? &e->values[at] : &none;
        bool passes;
        if (predicate_is_integer(v) && v->i >= 0)
            passes = (v->u - r.lo <= r.span) != r.is_out;
        else
            passes = predicate_compare_const(in, load_field(p, e, fields, field, in->want, &room)) == TRUE;
        index[kept] = index[i];
        kept += passes;
    }
    return kept;
}

size_t predicate_filter(struct predicate *p, const struct event *events, uint32_t *index, size_t n)
{
    if (p->classes)
        renew(p);
    if (p->is_ranges) {
        for (const struct instr *in = p->code;; in += 2) {
            n = filter_range(p, in, events, index, n);
            if (in[1].op == OP_END)
                return n;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t at = index[i];
        index[kept] = at;
        kept += test(p, &events[at]);
    }
    return kept;
}
