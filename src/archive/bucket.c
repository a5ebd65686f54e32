/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.c - what is asked, scan after scan of it, and the result. */
#include "archive/bucket_internal.h"

#include "base/mem.h"

#include <errno.h>

enum { CHUNKS_A_LOOK = 256, ROWS_A_LOOK = 1 << 16 }; /* after so many go_on is asked */

void bucket_destroy(struct bucket *b)
{
    if (!b)
        return;
    for (size_t i = 0; b->tables && i < b->spec.n_tables; i++)
        tier_columns_fini(&b->tables[i].tier);
    map_fini(&b->by_name);
    cells_fini(&b->cells);
    arena_fini(&b->scratch);
    mem_free(b->tables);
    mem_free(b);
}

/* ---------------------------------------------------------------- what is asked */

/* Which columns of the table the condition is about. */
static int set_where(const struct bucket *b, struct fold_table *t, struct diag *why)
{
    const struct table_def *def = t->asked->def;
    struct slice field = b->spec.where->field;
    for (uint32_t i = 0; i < def->n_columns && t->n_where < VALUE_TYPES; i++) {
        const struct field *f = &def->columns[i];
        if (slice_eq(f->name, field) && f->role != ROLE_KEY && !value_is_text(f->type))
            t->where[t->n_where++] = (struct where_column){(uint16_t)i, b->each[f->type]};
    }
    if (t->n_where == 0)
        return diag_set(why, E_PROTO, 1,
                        "%.*s has no field %.*s with numbers (host and keys: in SQL's WHERE)",
                        SLICE_ARG(def->name), SLICE_ARG(field));
    return 0;
}

static int add_table(struct bucket *b, size_t i, struct diag *why)
{
    struct fold_table *t = &b->tables[i];
    t->asked = &b->spec.tables[i];
    int r = map_put(&b->by_name, t->asked->def->name, t);
    if (r == 0 && b->spec.where && !b->spec.is_each)
        r = set_where(b, t, why);
    return r;
}

static int create(const struct bucket_spec *spec, struct bucket **out, struct diag *why)
{
    struct bucket *b = mem_try_alloc(sizeof *b);
    if (!b)
        return -ENOMEM;
    b->spec = *spec;
    b->cells.bytes_max = spec->bytes_max ? spec->bytes_max : BUCKET_BYTES_MAX;
    for (uint8_t type = 0; spec->where && type < VALUE_TYPES; type++)
        b->each[type] = where_test_of(spec->where, type);
    b->tables = mem_try_alloc((spec->n_tables + 1) * sizeof *b->tables);
    int r = b->tables ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < spec->n_tables; i++)
        r = add_table(b, i, why);
    if (r < 0) {
        bucket_destroy(b);
        return r;
    }
    *out = b;
    return 0;
}

static struct fold_table *find_table(struct bucket *b, struct slice name)
{
    if (!b->last || !slice_eq(b->last->asked->def->name, name))
        b->last = map_get(&b->by_name, name);
    return b->last;
}

/* ---------------------------------------------------------------- the fold */

static int say(struct bucket *b, uint64_t rows, bool is_end)
{
    b->unsaid += rows;
    if (!is_end && ++b->chunks < CHUNKS_A_LOOK && b->unsaid < ROWS_A_LOOK)
        return 0;
    rows = b->unsaid;
    b->unsaid = 0;
    b->chunks = 0;
    return b->spec.go_on ? b->spec.go_on(b->spec.arg, rows) : 0;
}

static int add_chunk(struct bucket *b, struct scan *scan, const struct scan_chunk *sc,
                     const struct bucket_part *part)
{
    struct fold_table *t = find_table(b, sc->table->name);
    if (!t)
        return 0;
    return part->tier_ns ? bucket_add_tier_chunk(b, t, scan, sc, part)
                         : bucket_add_chunk(b, t, scan, sc->chunk, part);
}

/* name "": all. */
static int fold_part(struct bucket *b, struct view *v, struct slice name, const struct bucket_part *part)
{
    struct scan_spec spec = {.name = name,
                             .from_ns = part->from_ns,
                             .to_ns = part->to_ns - 1,
                             .step_ns = part->tier_ns,
                             .only = part->tier_ns ? &part->partition : NULL,
                             .wants = b->spec.wants,
                             .arg = b->spec.arg,
                             .id_column = UINT16_MAX};
    struct scan_chunk chunk;
    struct scan *scan;
    int r = scan_open(v, &spec, &scan);
    if (r < 0)
        return r;
    while ((r = scan_next(scan, &chunk)) > 0) {
        r = add_chunk(b, scan, &chunk, part);
        if (r == 0)
            r = say(b, chunk.chunk->n_rows, false);
        if (r < 0)
            break;
    }
    struct scan_loss lost = scan_damaged(scan);
    b->lost.rows += lost.rows;
    b->lost.chunks += lost.chunks;
    b->lost.blobs += lost.blobs;
    scan_close(scan);
    return r;
}

static int fold_table(struct bucket *b, struct view *v, struct slice name, struct diag *why)
{
    struct bucket_plan plan = {NULL, 0, 0};
    int r = bucket_plan(v, &b->spec, name, &plan, why);
    for (size_t i = 0; r == 0 && i < plan.n; i++)
        r = fold_part(b, v, name, &plan.parts[i]);
    mem_free(plan.parts);
    return r;
}

/* Many tables are one scan, unless tiers have to be thought about, which goes by event name. */
static int fold(struct bucket *b, struct view *v, struct diag *why)
{
    struct bucket_part all = {.from_ns = b->spec.from_ns, .to_ns = b->spec.to_ns};
    int r = 0;
    if (b->spec.n_tables > 1 && !bucket_has_tiers(v, &b->spec))
        r = fold_part(b, v, SLICE_LIT(""), &all);
    else
        for (size_t i = 0; r == 0 && i < b->spec.n_tables; i++)
            r = fold_table(b, v, b->spec.tables[i].def->name, why);
    if (r == 0)
        r = say(b, 0, true);
    cells_settle(&b->cells);
    if (r == E_LIMIT)
        return diag_set(
            why, r, 0,
            "streams x steps x fields need more than %zu MiB: ask for fewer fields, a longer step "
            "or a shorter time",
            b->cells.bytes_max >> 20);
    return r;
}

int bucket_fold(struct view *v, const struct bucket_spec *spec, struct bucket **out, struct diag *why)
{
    struct bucket *b = NULL;
    if (spec->step_ns < 0 || spec->tier_ns < 0)
        return diag_set(why, E_PROTO, 0, "a step is not negative");
    int r = create(spec, &b, why);
    if (r == 0 && spec->from_ns < spec->to_ns)
        r = fold(b, v, why);
    if (r < 0) {
        bucket_destroy(b);
        return r;
    }
    b->stream = b->cells.first;
    b->cell = b->stream ? b->stream->first : NULL;
    *out = b;
    return 0;
}

bool bucket_next(struct bucket *b, struct bucket_row *out)
{
    while (b->stream && !b->cell) {
        b->stream = b->stream->next;
        b->cell = b->stream ? b->stream->first : NULL;
    }
    if (!b->stream)
        return false;
    *out = (struct bucket_row){.table = ((const struct fold_table *)b->stream->of)->asked,
                               .key = b->stream->key,
                               .time_ns = bucket_step_begin(b, b->cell->step),
                               .tier_ns = b->cell->tier_ns,
                               .rows = b->cell->rows,
                               .columns = b->cell->columns};
    b->cell = b->cell->next;
    return true;
}

struct scan_loss bucket_damaged(const struct bucket *b)
{
    return b->lost;
}

size_t bucket_bytes(const struct bucket *b)
{
    return b->cells.arena.total + b->cells.by_key.cap * sizeof(struct map_slot) +
           b->spec.n_tables * sizeof *b->tables;
}
