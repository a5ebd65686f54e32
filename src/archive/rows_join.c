/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/rows_join.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

/* Where a row of the result comes from. */
struct from {
    int64_t time_ns;
    uint32_t part, row;
};

struct joining {
    const struct rows_part *parts;
    size_t n_parts;
    struct from *from;
    uint32_t n;
    struct arena *arena;
    uint16_t **origin_of; /* of each part: the number in the result of each of its origins */
};

/* ---------------------------------------------------------------- order */

static int compare_from(const void *a, const void *b)
{
    const struct from *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int list_rows(struct joining *j)
{
    uint64_t total = 0;
    bool is_sorted = true;
    for (size_t i = 0; i < j->n_parts; i++)
        total += j->parts[i].rows.n;
    if (total > UINT32_MAX)
        return E_LIMIT;
    j->from = arena_alloc(j->arena, (total + 1) * sizeof *j->from);
    if (!j->from)
        return -ENOMEM;
    for (uint32_t i = 0; i < j->n_parts; i++) {
        const struct rows *r = &j->parts[i].rows;
        is_sorted = is_sorted && (j->n == 0 || r->n == 0 || r->time_ns[0] >= j->from[j->n - 1].time_ns);
        for (uint32_t row = 0; row < r->n; row++)
            j->from[j->n++] = (struct from){r->time_ns[row], i, row};
    }
    if (!is_sorted)
        qsort(j->from, j->n, sizeof *j->from, compare_from);
    return 0;
}

/* ---------------------------------------------------------------- origins */

/* The bytes of an origin without what may be between its members. */
static struct slice origin_key(const struct row_origin *o, char to[48])
{
    memcpy(to, o->producer, 16);
    memcpy(to + 16, &o->epoch, 8);
    memcpy(to + 24, &o->clock.offset_ns, 8);
    memcpy(to + 32, &o->clock.bound_ns, 8);
    memcpy(to + 40, &o->clock.generation, 4);
    return slice_of(to, 44);
}

static int add_origin(struct joining *j, struct map *known, const struct row_origin *o,
                      struct row_origin *all, uint32_t *n, uint16_t *number)
{
    char bytes[48];
    struct slice key = origin_key(o, bytes);
    const struct row_origin *at = map_get(known, key);
    if (!at) {
        if (*n > UINT16_MAX)
            return E_LIMIT;
        key = arena_copy(j->arena, key);
        all[*n] = *o;
        at = &all[*n];
        if (!key.p || map_put(known, key, &all[*n]) < 0)
            return -ENOMEM;
        ++*n;
    }
    *number = (uint16_t)(at - all);
    return 0;
}

static int join_origins(struct joining *j, struct rows *out)
{
    struct map known = {0};
    size_t total = 0;
    uint32_t n = 0;
    int r = 0;
    for (size_t i = 0; i < j->n_parts; i++)
        total += j->parts[i].rows.n_origins;
    struct row_origin *all = arena_alloc(j->arena, (total + 1) * sizeof *all);
    j->origin_of = arena_alloc(j->arena, j->n_parts * sizeof *j->origin_of);
    if (!all || !j->origin_of)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < j->n_parts; i++) {
        const struct rows *p = &j->parts[i].rows;
        j->origin_of[i] = arena_alloc(j->arena, (p->n_origins + 1) * sizeof **j->origin_of);
        r = j->origin_of[i] ? 0 : -ENOMEM;
        for (uint32_t k = 0; r == 0 && k < p->n_origins; k++)
            r = add_origin(j, &known, &p->origins[k], all, &n, &j->origin_of[i][k]);
    }
    map_fini(&known);
    out->origins = all;
    out->n_origins = n;
    return r;
}

/* ---------------------------------------------------------------- doubles */

/* The same event: numbers are a producer's, so they come with the same time. Clocks may differ. */
static bool is_same(const struct joining *j, const struct from *a, const struct from *b)
{
    const struct rows *x = &j->parts[a->part].rows, *y = &j->parts[b->part].rows;
    if (x->seq[a->row] == 0 || x->seq[a->row] != y->seq[b->row])
        return false;
    const struct row_origin *p = &x->origins[x->origin[a->row]], *q = &y->origins[y->origin[b->row]];
    return p->epoch == q->epoch && memcmp(p->producer, q->producer, sizeof p->producer) == 0;
}

static uint32_t drop_doubles(struct joining *j)
{
    uint32_t kept = 0, run = 0; /* run: where those of the same time begin */
    for (uint32_t i = 0; i < j->n; i++) {
        bool is_double = false;
        if (kept == 0 || j->from[kept - 1].time_ns != j->from[i].time_ns)
            run = kept;
        for (uint32_t k = run; !is_double && k < kept; k++)
            is_double = is_same(j, &j->from[k], &j->from[i]);
        if (!is_double)
            j->from[kept++] = j->from[i];
    }
    uint32_t dropped = j->n - kept;
    j->n = kept;
    return dropped;
}

/* ---------------------------------------------------------------- columns */

/* Of each part the column of one number in the result; NULL: it has none. */
struct sources {
    uint16_t id;
    uint8_t type;
    const struct column **of;
};

static bool is_missing_anywhere(const struct joining *j, const struct sources *s)
{
    for (size_t i = 0; i < j->n_parts; i++)
        if (j->parts[i].rows.n && (!s->of[i] || s->of[i]->present))
            return true;
    return false;
}

static int join_presence(const struct joining *j, const struct sources *s, struct column *out)
{
    if (!is_missing_anywhere(j, s))
        return 0;
    size_t words = (j->n + 63) / 64;
    uint64_t *present = arena_alloc(j->arena, (words + 1) * sizeof *present);
    if (!present)
        return -ENOMEM;
    memset(present, 0, (words + 1) * sizeof *present);
    for (uint32_t i = 0; i < j->n; i++) {
        const struct column *c = s->of[j->from[i].part];
        if (c && column_has(c, j->from[i].row))
            present[i >> 6] |= UINT64_C(1) << (i & 63);
    }
    out->present = present;
    return 0;
}

static int join_numbers(const struct joining *j, const struct sources *s, struct column *out)
{
    uint64_t *values = arena_alloc(j->arena, (j->n + 1) * sizeof *values);
    if (!values)
        return -ENOMEM;
    for (uint32_t i = 0; i < j->n; i++) {
        const struct column *c = s->of[j->from[i].part];
        values[i] = c ? c->u[j->from[i].row] : 0;
    }
    out->u = values;
    return 0;
}

static int join_text(const struct joining *j, const struct sources *s, struct column *out)
{
    uint64_t total = 0;
    for (size_t i = 0; i < j->n_parts; i++)
        if (s->of[i] && j->parts[i].rows.n)
            total += s->of[i]->ends[j->parts[i].rows.n - 1];
    if (total > UINT32_MAX)
        return E_LIMIT;
    uint32_t *ends = arena_alloc(j->arena, (j->n + 1) * sizeof *ends), end = 0;
    char *bytes = arena_alloc(j->arena, total + 1);
    if (!ends || !bytes)
        return -ENOMEM;
    for (uint32_t i = 0; i < j->n; i++) {
        const struct column *c = s->of[j->from[i].part];
        struct value v = c ? column_value(c, j->from[i].row) : value_none();
        if (v.n)
            memcpy(bytes + end, v.p, v.n);
        end += v.n;
        ends[i] = end;
    }
    out->ends = ends;
    out->bytes = bytes;
    return 0;
}

static int compare_sources(const void *a, const void *b)
{
    return (int)((const struct sources *)a)->id - (int)((const struct sources *)b)->id;
}

static struct sources *find_source(struct sources *all, uint32_t n, uint16_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (all[i].id == id)
            return &all[i];
    return NULL;
}

static int list_columns(struct joining *j, struct sources **out, uint32_t *n_out)
{
    uint32_t total = 0, n = 0;
    for (size_t i = 0; i < j->n_parts; i++)
        total += j->parts[i].rows.n_columns;
    struct sources *all = arena_alloc(j->arena, (total + 1) * sizeof *all);
    if (!all)
        return -ENOMEM;
    for (size_t i = 0; i < j->n_parts; i++)
        for (uint32_t k = 0; k < j->parts[i].rows.n_columns; k++) {
            const struct column *c = &j->parts[i].rows.columns[k];
            uint16_t id = j->parts[i].ids[c->id];
            /* The same place in the part before, nearly always. */
            struct sources *s = k < n && all[k].id == id ? &all[k] : find_source(all, n, id);
            if (!s) {
                s = &all[n++];
                *s = (struct sources){id, c->type, arena_alloc(j->arena, j->n_parts * sizeof(void *))};
                if (!s->of)
                    return -ENOMEM;
                memset(s->of, 0, j->n_parts * sizeof(void *));
            }
            s->of[i] = c;
        }
    qsort(all, n, sizeof *all, compare_sources);
    *out = all;
    *n_out = n;
    return 0;
}

static int join_columns(struct joining *j, struct rows *out)
{
    struct sources *all;
    uint32_t n;
    int r = list_columns(j, &all, &n);
    struct column *columns = r == 0 ? arena_alloc(j->arena, (n + 1) * sizeof *columns) : NULL;
    if (r == 0 && !columns)
        r = -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        columns[i] = (struct column){.id = all[i].id, .type = all[i].type};
        r = join_presence(j, &all[i], &columns[i]);
        if (r == 0)
            r = value_is_text(all[i].type) ? join_text(j, &all[i], &columns[i])
                                           : join_numbers(j, &all[i], &columns[i]);
    }
    out->columns = columns;
    out->n_columns = n;
    return r;
}

/* ---------------------------------------------------------------- rows */

static int join_heads(const struct joining *j, struct rows *out)
{
    int64_t *times = arena_alloc(j->arena, (j->n + 1) * sizeof *times);
    uint64_t *seqs = arena_alloc(j->arena, (j->n + 1) * sizeof *seqs);
    uint16_t *origins = arena_alloc(j->arena, (j->n + 1) * sizeof *origins);
    uint8_t *levels = arena_alloc(j->arena, j->n + 1);
    if (!times || !seqs || !origins || !levels)
        return -ENOMEM;
    for (uint32_t i = 0; i < j->n; i++) {
        const struct from *f = &j->from[i];
        const struct rows *r = &j->parts[f->part].rows;
        times[i] = f->time_ns;
        seqs[i] = r->seq[f->row];
        levels[i] = r->level[f->row];
        origins[i] = j->origin_of[f->part][r->origin[f->row]];
    }
    out->n = j->n;
    out->time_ns = times;
    out->seq = seqs;
    out->origin = origins;
    out->level = levels;
    return 0;
}

int rows_join(const struct rows_part *parts, size_t n, struct arena *arena, struct rows *out,
              uint32_t *doubled)
{
    struct joining j = {.parts = parts, .n_parts = n, .arena = arena};
    struct rows rows = {.n = 0};
    int r = list_rows(&j);
    if (r == 0)
        r = join_origins(&j, &rows);
    if (r < 0)
        return r;
    uint32_t dropped = drop_doubles(&j);
    r = join_heads(&j, &rows);
    if (r == 0)
        r = join_columns(&j, &rows);
    if (r < 0)
        return r;
    *out = rows;
    *doubled = dropped;
    return 0;
}
