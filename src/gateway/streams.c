/* SPDX-License-Identifier: Apache-2.0 */
/* A group is an array of (number, stream) in the order of numbers, which is the order in which they come, so
 * adding is appending and finding is halving. Removing leaves a hole with its number; when half are holes
 * they are closed. */
#include "gateway/streams.h"

#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct entry {
    uint64_t number;
    struct stream *stream; /* NULL: a hole */
};

struct stream_group {
    uint64_t number;
    struct stream_group *next, *previous;
    struct entry *entries;
    size_t n, cap, holes;
    uint32_t name_n;
    char name[];
};

static struct slice group_name(const struct stream_group *g)
{
    return slice_of(g->name, g->name_n);
}

struct slice stream_place(const struct stream *s)
{
    struct stream_key_parts parts = stream_key_split(s->key);
    struct slice name;
    struct value v;
    while (stream_key_next(&parts.fields, &name, &v))
        if (v.type == VALUE_TEXT && slice_eq(name, SLICE_LIT("target")))
            return value_slice(v);
    return parts.host;
}

struct event stream_event(const struct stream *s, const struct schema *schema, struct value *values)
{
    struct stream_key_parts parts = stream_key_split(s->key);
    struct slice name;
    struct value v;
    for (uint32_t i = 0; i < schema->n_fields; i++)
        values[i] = value_none();
    while (stream_key_next(&parts.fields, &name, &v)) {
        int i = schema_find(schema, name, v.type);
        if (i >= 0)
            values[i] = v;
    }
    return (struct event){
        .host = parts.host, .prog = parts.prog, .schema = schema, .values = values, .level = LEVEL_INFO};
}

/* ---------------------------------------------------------------- groups */

/* The first entry whose number is at least that. */
static size_t entry_at_least(const struct stream_group *g, uint64_t number)
{
    size_t from = 0, to = g->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (g->entries[middle].number < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static struct stream_group *group_create(struct streams *all, struct streams_groups *of, struct slice name)
{
    struct stream_group *g = mem_try_alloc(sizeof *g + name.n + 1);
    if (!g)
        return NULL;
    g->name_n = (uint32_t)name.n;
    memcpy(g->name, name.p, name.n);
    if (map_put(&of->by_name, group_name(g), g) < 0) {
        mem_free(g);
        return NULL;
    }
    g->number = ++all->last_number;
    g->previous = of->last;
    *(of->last ? &of->last->next : &of->first) = g;
    of->last = g;
    of->n++;
    return g;
}

static void group_destroy(struct streams_groups *of, struct stream_group *g)
{
    (void)map_remove(&of->by_name, group_name(g)); /* it is there */
    *(g->previous ? &g->previous->next : &of->first) = g->next;
    *(g->next ? &g->next->previous : &of->last) = g->previous;
    of->n--;
    mem_free(g->entries);
    mem_free(g);
}

static int group_append(struct stream_group *g, struct stream *s)
{
    if (g->n == g->cap) {
        size_t cap = g->cap ? g->cap * 2 : 2;
        struct entry *entries = mem_try_resize(g->entries, cap * sizeof *entries);
        if (!entries)
            return -ENOMEM;
        g->entries = entries;
        g->cap = cap;
    }
    g->entries[g->n++] = (struct entry){s->number, s};
    return 0;
}

static void close_holes(struct stream_group *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++)
        if (g->entries[i].stream)
            g->entries[n++] = g->entries[i];
    g->n = n;
    g->holes = 0;
}

static int group_join(struct streams *all, struct stream *s, enum streams_index index, struct slice name)
{
    struct streams_groups *of = &all->index[index];
    struct stream_group *g = map_get(&of->by_name, name);
    bool is_new = !g;
    if (is_new)
        g = group_create(all, of, name);
    if (!g)
        return -ENOMEM;
    if (group_append(g, s) < 0) {
        if (is_new)
            group_destroy(of, g);
        return -ENOMEM;
    }
    s->groups[index] = g;
    return 0;
}

static void group_leave(struct streams *all, struct stream *s, enum streams_index index)
{
    struct stream_group *g = s->groups[index];
    if (!g)
        return;
    struct entry *e = &g->entries[entry_at_least(g, s->number)];
    assert(e->stream == s);
    e->stream = NULL;
    s->groups[index] = NULL;
    if (++g->holes == g->n)
        group_destroy(&all->index[index], g);
    else if (g->holes > g->n / 2)
        close_holes(g);
}

/* ---------------------------------------------------------------- the set */

struct stream *streams_find(const struct streams *all, struct slice key)
{
    return map_get(&all->by_key, key);
}

static void link_newest(struct streams *all, struct stream *s)
{
    s->older = all->newest;
    s->newer = NULL;
    *(all->newest ? &all->newest->newer : &all->oldest) = s;
    all->newest = s;
}

static void unlink_one(struct streams *all, struct stream *s)
{
    *(s->newer ? &s->newer->older : &all->newest) = s->older;
    *(s->older ? &s->older->newer : &all->oldest) = s->newer;
}

int streams_add(struct streams *all, struct stream *s)
{
    struct slice name = stream_key_split(s->key).name;
    s->number = ++all->last_number;
    int r = group_join(all, s, STREAMS_BY_NAME, name);
    if (r == 0)
        r = group_join(all, s, STREAMS_BY_PLACE, stream_place(s));
    if (r == 0)
        r = map_put(&all->by_key, s->key, s);
    if (r < 0) {
        group_leave(all, s, STREAMS_BY_NAME);
        group_leave(all, s, STREAMS_BY_PLACE);
        return r;
    }
    link_newest(all, s);
    return 0;
}

void streams_touch(struct streams *all, struct stream *s)
{
    if (all->newest == s)
        return;
    unlink_one(all, s);
    link_newest(all, s);
}

void streams_remove(struct streams *all, struct stream *s)
{
    (void)map_remove(&all->by_key, s->key); /* it is there */
    unlink_one(all, s);
    group_leave(all, s, STREAMS_BY_NAME);
    group_leave(all, s, STREAMS_BY_PLACE);
}

void streams_fini(struct streams *all)
{
    assert(streams_count(all) == 0);
    map_fini(&all->by_key);
    for (size_t i = 0; i < STREAMS_INDEXES; i++)
        map_fini(&all->index[i].by_name);
    *all = (struct streams){0};
}

static bool check_index(const struct streams *all, enum streams_index index)
{
    size_t streams = 0, groups = 0;
    uint64_t last = 0;
    for (const struct stream_group *g = all->index[index].first; g; g = g->next, groups++) {
        uint64_t number = 0;
        size_t holes = 0;
        if (g->number <= last || map_get(&all->index[index].by_name, group_name(g)) != g)
            return false;
        last = g->number;
        for (size_t i = 0; i < g->n; i++) {
            const struct entry *e = &g->entries[i];
            if (e->number <= number || (e->stream && e->stream->groups[index] != g))
                return false;
            number = e->number;
            holes += !e->stream;
        }
        if (holes != g->holes || holes == g->n)
            return false;
        streams += g->n - holes;
    }
    return streams == streams_count(all) && groups == all->index[index].n &&
           groups == all->index[index].by_name.n;
}

bool streams_check(const struct streams *all)
{
    size_t n = 0;
    for (const struct stream *s = all->oldest; s; s = s->newer, n++)
        if (map_get(&all->by_key, s->key) != s || (s->newer ? s->newer->older != s : all->newest != s))
            return false;
    return n == streams_count(all) && check_index(all, STREAMS_BY_NAME) && check_index(all, STREAMS_BY_PLACE);
}

/* ---------------------------------------------------------------- walking */

static bool is_whole_names(struct slice patterns)
{
    for (size_t i = 0; i < patterns.n; i++)
        if (strchr("*?[\\", patterns.p[i])) /* a NUL, too */
            return false;
    return patterns.n > 0;
}

static int compare_groups(const void *a, const void *b)
{
    const struct stream_group *x = *(struct stream_group *const *)a, *y = *(struct stream_group *const *)b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static size_t count_words(struct slice list)
{
    size_t n = 1;
    for (size_t i = 0; i < list.n; i++)
        n += list.p[i] == ',';
    return n;
}

/* Each of the names that there is, once, in the order of numbers. */
static void collect_named(struct streams_walk *w, const struct streams_groups *of, struct slice names)
{
    size_t found = 0;
    while (names.n) {
        const char *comma = memchr(names.p, ',', names.n);
        struct slice one = slice_of(names.p, comma ? (size_t)(comma - names.p) : names.n);
        struct stream_group *g = map_get(&of->by_name, one);
        if (g)
            w->groups[found++] = g;
        names = slice_from(names, one.n + 1);
    }
    qsort(w->groups, found, sizeof *w->groups, compare_groups);
    for (size_t i = 0; i < found; i++)
        if (i == 0 || w->groups[i] != w->groups[i - 1])
            w->groups[w->n_groups++] = w->groups[i];
}

static void collect_matching(struct streams_walk *w, const struct streams_groups *of, struct slice patterns)
{
    for (struct stream_group *g = of->first; g; g = g->next)
        if (text_glob_any(patterns, group_name(g)))
            w->groups[w->n_groups++] = g;
}

/* Goes to the first stream behind the cursor. */
static void skip_to(struct streams_walk *w, struct streams_cursor after)
{
    while (w->at_group < w->n_groups && w->groups[w->at_group]->number < after.group)
        w->at_group++;
    if (w->at_group < w->n_groups && w->groups[w->at_group]->number == after.group)
        w->at_entry = entry_at_least(w->groups[w->at_group], after.stream + 1);
}

int streams_walk_init(struct streams_walk *w, const struct streams *all, struct slice events,
                      struct slice places, bool may_use_places, struct streams_cursor after)
{
    *w = (struct streams_walk){.events = events, .cursor = after};
    w->index = may_use_places && is_whole_names(places) ? STREAMS_BY_PLACE : STREAMS_BY_NAME;
    const struct streams_groups *of = &all->index[w->index];
    struct slice patterns = w->index == STREAMS_BY_PLACE ? places : events;
    bool is_named = is_whole_names(patterns);
    w->groups = mem_try_alloc((is_named ? count_words(patterns) : of->n + 1) * sizeof(struct stream_group *));
    if (!w->groups)
        return -ENOMEM;
    if (is_named)
        collect_named(w, of, patterns);
    else
        collect_matching(w, of, patterns);
    skip_to(w, after);
    return 0;
}

void streams_walk_fini(struct streams_walk *w)
{
    mem_free(w->groups);
    *w = (struct streams_walk){0};
}

static bool is_meant(const struct streams_walk *w, const struct stream *s)
{
    return w->index == STREAMS_BY_NAME || text_glob_any(w->events, group_name(s->groups[STREAMS_BY_NAME]));
}

struct stream *streams_walk_next(struct streams_walk *w)
{
    for (; w->at_group < w->n_groups; w->at_group++, w->at_entry = 0) {
        const struct stream_group *g = w->groups[w->at_group];
        while (w->at_entry < g->n) {
            const struct entry *e = &g->entries[w->at_entry++];
            if (!e->stream || !is_meant(w, e->stream))
                continue;
            w->cursor = (struct streams_cursor){g->number, e->number};
            return e->stream;
        }
    }
    return NULL;
}
