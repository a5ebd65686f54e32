/* SPDX-License-Identifier: Apache-2.0 */
/* Lifelines, each with its path (the event names that it went through, in a list of paths, as most go the
 * same way) and when and where it was at each. A lifeline is in every tile in which it has an event; there it
 * has the events of the tile and the one before the first of them, if that is at most as long ago as the tile
 * is. So each hop is drawn by the tile that it ends in. As times reach back before the tile, base_ns is one
 * tile earlier and span_ns that of four. */
#include "archive/tile_lifeline.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

struct line {
    uint32_t from, to; /* events */
    uint64_t lasts_ns;
    uint32_t bytes; /* in the tile, without its path */
    uint8_t severity;
};

struct exact {
    struct life_tile *t;
    struct line *lines;
    size_t n;
    size_t bytes;
    struct map paths; /* by numbers of names: number + 1 */
    uint32_t n_paths, n_path_events;
    struct numbered names, hosts; /* of the tile */
    struct strbuf path;
};

/* The events of one id that are in the tile, and the one before. false: none is. */
static bool make_line(const struct exact *x, uint32_t from, uint32_t to, struct line *out)
{
    const struct life_event *e = x->t->life.events;
    uint32_t first = from;
    while (first < to && e[first].time_ns < x->t->j->q.from_ns)
        first++;
    if (first == to)
        return false;
    first -= first > from;
    *out = (struct line){.from = first,
                         .to = to,
                         .lasts_ns = (uint64_t)e[to - 1].time_ns - (uint64_t)e[first].time_ns,
                         .bytes = 4 + 1 + 4 + e[from].text_n + 6 * (to - first),
                         .severity = UINT8_MAX};
    for (uint32_t i = first; i < to; i++)
        out->severity = e[i].level < out->severity ? e[i].level : out->severity;
    return true;
}

static int find_lines(struct exact *x)
{
    const struct life_events *l = &x->t->life;
    x->lines = mem_try_alloc((l->n + 1) * sizeof *x->lines);
    if (!x->lines)
        return -ENOMEM;
    for (uint32_t from = 0, to; from < l->n; from = to) {
        for (to = from; to < l->n && l->events[to].id == l->events[from].id; to++)
            ;
        if (!make_line(x, from, to, &x->lines[x->n]))
            continue;
        x->bytes += x->lines[x->n].bytes;
        x->n++;
    }
    return 0;
}

static int worst_first(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->severity != y->severity)
        return x->severity < y->severity ? -1 : 1;
    return x->lasts_ns > y->lasts_ns ? -1 : x->lasts_ns < y->lasts_ns;
}

/* Leaves out those that are neither errors nor long. */
static void keep_worst(struct exact *x)
{
    size_t bytes = 0, n = 0;
    qsort(x->lines, x->n, sizeof *x->lines, worst_first);
    while (n < x->n && bytes + x->lines[n].bytes <= TILE_BYTES_MAX)
        bytes += x->lines[n++].bytes;
    x->t->j->w.head.left_out += x->n - n;
    x->n = n;
}

static int path_of(struct exact *x, const struct line *line, uint32_t *out)
{
    const struct life_events *l = &x->t->life;
    strbuf_reset(&x->path);
    for (uint32_t i = line->from; i < line->to; i++) {
        uint32_t name = numbered_add(&x->names, numbered_text(&l->names, l->events[i].name));
        if (name >= UINT16_MAX)
            return -ENOMEM;
        strbuf_add_u16(&x->path, (uint16_t)name);
    }
    if (strbuf_failed(&x->path))
        return -ENOMEM;
    uintptr_t known = (uintptr_t)map_get(&x->paths, strbuf_slice(&x->path));
    if (known) {
        *out = (uint32_t)known - 1;
        return 0;
    }
    struct slice copy = arena_copy(&x->t->j->arena, strbuf_slice(&x->path));
    if (!copy.p || map_put(&x->paths, copy, (void *)(uintptr_t)(x->n_paths + 1)) < 0)
        return -ENOMEM;
    struct tile_writer *w = &x->t->j->w;
    for (uint32_t i = line->from; i < line->to; i++)
        tile_put_uint(w, COLUMN_PATH_EVENT,
                      numbered_add(&x->names, numbered_text(&l->names, l->events[i].name)));
    x->n_path_events += line->to - line->from;
    tile_put_uint(w, COLUMN_PATH_END, x->n_path_events);
    *out = x->n_paths++;
    return 0;
}

static int put_line(struct exact *x, const struct line *line)
{
    struct tile_writer *w = &x->t->j->w;
    const struct life_events *l = &x->t->life;
    const struct life_event *first = &l->events[line->from];
    uint32_t path;
    int r = path_of(x, line, &path);
    if (r < 0)
        return r;
    tile_put_uint(w, COLUMN_PATH, path);
    tile_put_uint(w, COLUMN_SEVERITY, line->severity);
    tile_put_text(w, COLUMN_ID, slice_of(first->text, first->text_n));
    for (uint32_t i = line->from; i < line->to; i++) {
        struct slice host = life_place_host(numbered_text(&l->places, l->events[i].host));
        uint32_t number = numbered_add(&x->hosts, host);
        if (number == LIFE_NONE)
            return -ENOMEM;
        tile_put_uint(w, COLUMN_VERTEX_T, tile_time(&w->head, l->events[i].time_ns));
        tile_put_uint(w, COLUMN_VERTEX_HOST, number);
    }
    return 0;
}

static int put(struct exact *x)
{
    static const enum tile_column all[] = {COLUMN_EVENT,      COLUMN_HOST,     COLUMN_PATH_END,
                                           COLUMN_PATH_EVENT, COLUMN_PATH,     COLUMN_SEVERITY,
                                           COLUMN_ID,         COLUMN_VERTEX_T, COLUMN_VERTEX_HOST};
    struct tile_writer *w = &x->t->j->w;
    w->head.kind = TILE_LIFELINE_EXACT;
    w->head.base_ns -= (int64_t)w->head.span_ns;
    w->head.span_ns *= 4;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tile_declare(w, all[i]);
    int r = 0;
    for (size_t i = 0; r == 0 && i < x->n; i++)
        r = put_line(x, &x->lines[i]);
    for (uint32_t i = 0; i < x->names.n; i++)
        tile_put_text(w, COLUMN_EVENT, numbered_text(&x->names, i));
    for (uint32_t i = 0; i < x->hosts.n; i++)
        tile_put_text(w, COLUMN_HOST, numbered_text(&x->hosts, i));
    return r;
}

int tile_exact_put(struct life_tile *t, bool is_forced)
{
    struct exact x = {.t = t};
    int r = find_lines(&x);
    bool fits = x.bytes <= TILE_BYTES_MAX;
    if (r == 0 && !fits && is_forced)
        keep_worst(&x);
    if (r == 0 && (fits || is_forced))
        r = put(&x) < 0 ? -ENOMEM : 1;
    mem_free(x.lines);
    map_fini(&x.paths);
    numbered_fini(&x.names);
    numbered_fini(&x.hosts);
    strbuf_fini(&x.path);
    return r;
}
