/* SPDX-License-Identifier: Apache-2.0 */
/* A place as text is "host NUL node". Beyond NUMBERED_MAX places a place is not known, and events of further
 * names count as lost_no_memory: the archive's own limits on tables and streams are below that. */
#include "archive/lifeline_collect.h"

#include "base/hash.h"
#include "base/mem.h"
#include "event/stream_key.h"

#include <errno.h>

struct numbered_entry {
    struct slice text;
    uint32_t number;
};

void numbered_fini(struct numbered *t)
{
    map_fini(&t->by_text);
    mem_free(t->list);
    arena_fini(&t->arena);
    *t = (struct numbered){.n = 0};
}

uint32_t numbered_add(struct numbered *t, struct slice text)
{
    struct numbered_entry *e = map_get(&t->by_text, text);
    if (e)
        return e->number;
    if (t->n == NUMBERED_MAX)
        return LIFE_NONE;
    if (t->n == t->max) {
        uint32_t max = t->max ? 2 * t->max : 64;
        struct numbered_entry **list = mem_try_resize(t->list, max * sizeof(struct numbered_entry *));
        if (!list)
            return LIFE_NONE;
        t->list = list;
        t->max = max;
    }
    e = arena_alloc(&t->arena, sizeof *e);
    if (!e || !(e->text = arena_copy(&t->arena, text)).p || map_put(&t->by_text, e->text, e) < 0)
        return LIFE_NONE;
    e->number = t->n;
    t->list[t->n] = e;
    return t->n++;
}

struct slice numbered_text(const struct numbered *t, uint32_t number)
{
    return number < t->n ? t->list[number]->text : SLICE_LIT("");
}

struct slice life_place_host(struct slice place)
{
    return slice_of(place.p, strnlen(place.p, place.n));
}

struct slice life_place_node(struct slice place)
{
    return slice_from(place, life_place_host(place).n + 1);
}

void life_events_reset(struct life_events *l)
{
    mem_free(l->events);
    l->events = NULL;
    l->n = l->max = 0;
    l->lost_too_long = l->lost_no_memory = 0;
    arena_reset(&l->texts);
}

void life_events_fini(struct life_events *l)
{
    life_events_reset(l);
    numbered_fini(&l->names);
    numbered_fini(&l->places);
    arena_fini(&l->texts);
    strbuf_fini(&l->scratch);
}

static struct life_event *add_event(struct life_events *l)
{
    if (l->n == l->max) {
        size_t max = l->max ? l->max + l->max / 2 : 1024;
        struct life_event *p = max < UINT32_MAX ? mem_try_resize(l->events, max * sizeof *p) : NULL;
        if (!p)
            return NULL;
        l->events = p;
        l->max = max;
    }
    return &l->events[l->n++];
}

/* The number of the place of a stream's events; row_target is that of a row, where target is no key: n 0: none. */
static uint32_t place_of(struct life_events *l, struct slice key, struct slice row_target)
{
    struct stream_key_parts parts = stream_key_split(key);
    struct slice field, node = row_target.n && !l->by_prog ? row_target : parts.host;
    struct value v;
    while (!l->by_prog && stream_key_next(&parts.fields, &field, &v))
        if (slice_eq_str(field, "target") && v.type == VALUE_TEXT)
            node = value_slice(v);
    strbuf_reset(&l->scratch);
    strbuf_add_slice(&l->scratch, parts.host);
    strbuf_add_char(&l->scratch, '\0');
    strbuf_add_slice(&l->scratch, node);
    if (l->by_prog) {
        strbuf_add_char(&l->scratch, ' ');
        strbuf_add_slice(&l->scratch, parts.prog);
    }
    return strbuf_failed(&l->scratch) ? LIFE_NONE : numbered_add(&l->places, strbuf_slice(&l->scratch));
}

/* Where it is kept: in the rows, or in the arena. 1, or -ENOMEM. */
static int keep_id(struct life_events *l, struct slice *id)
{
    if (id->p != l->scratch.p && !l->copies)
        return 1;
    *id = arena_copy(&l->texts, *id);
    return id->p ? 1 : -ENOMEM;
}

/* The text column `target` of rows whose stream does not have it as a key: events of logs and of programs. */
static const struct column *target_column(const struct table_def *table, const struct rows *rows)
{
    for (uint32_t i = 0; i < rows->n_columns; i++)
        if (rows->columns[i].type == VALUE_TEXT && rows->columns[i].id < table->n_columns &&
            slice_eq_str(table->columns[rows->columns[i].id].name, "target"))
            return &rows->columns[i];
    return NULL;
}

static void collect(struct life_events *l, const struct id_place *p, const struct rows *rows, uint32_t name,
                    struct slice key, const struct column *targets)
{
    uint64_t seed = hash_bytes(p->declared->name);
    struct slice none = {"", 0}, last = none;
    uint32_t of_stream = place_of(l, key, none), of_last = of_stream;
    for (uint32_t i = 0; i < rows->n; i++) {
        struct slice id;
        struct value target = targets ? column_value(targets, i) : value_none();
        if (target.type == VALUE_TEXT && !slice_eq(value_slice(target), last)) { /* rows of one target come together */
            last = value_slice(target);
            of_last = place_of(l, key, last);
        }
        int r = id_text(p, i, &l->scratch, &id);
        if (r == 0 || (r == 1 && l->passes && !l->passes(l->passes_arg, rows, i, id)))
            continue;
        if (r == 1)
            r = keep_id(l, &id);
        struct life_event *e = r == 1 ? add_event(l) : NULL;
        if (!e) {
            *(r == E_LIMIT ? &l->lost_too_long : &l->lost_no_memory) += 1;
            continue;
        }
        uint64_t hash = hash_seeded(id, seed);
        *e = (struct life_event){.id = hash ? hash : 1,
                                 .time_ns = rows->time_ns[i],
                                 .seq = rows->seq ? rows->seq[i] : 0,
                                 .text = id.p,
                                 .order = (uint32_t)(l->n - 1),
                                 .name = name,
                                 .host = target.type == VALUE_TEXT ? of_last : of_stream,
                                 .text_n = (uint16_t)id.n,
                                 .declared = (uint8_t)p->number,
                                 .level = rows->level[i]};
    }
}

void life_collect(struct life_events *l, const struct id_set *ids, const struct table_def *table,
                  struct slice key, const struct rows *rows)
{
    struct id_place places[ID_DECLARED_MAX];
    size_t n = id_places(ids, table, key, rows, places);
    if (n == 0)
        return;
    uint32_t name = numbered_add(&l->names, table->name);
    const struct column *targets = l->hides_targets ? NULL : target_column(table, rows);
    if (name == LIFE_NONE) {
        l->lost_no_memory += rows->n;
        return;
    }
    for (size_t i = 0; i < n; i++)
        collect(l, &places[i], rows, name, key, targets);
}
