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
    cells_fini(&b->cells);
    arena_fini(&b->scratch);
    tier_columns_fini(&b->tier);
    mem_free(b->want);
    mem_free(b);
}

/* ---------------------------------------------------------------- what is asked */

static int set_where(struct bucket *b, struct diag *why)
{
    const struct bucket_where *w = b->spec.where;
    for (uint8_t type = 0; type < VALUE_TYPES; type++)
        b->each[type] = where_test_of(w, type);
    for (uint32_t i = 0; !b->spec.is_each && i < b->table->n_columns; i++) {
        const struct field *f = &b->table->columns[i];
        if (slice_eq(f->name, w->field) && f->role != ROLE_KEY && !value_is_text(f->type))
            b->where[b->n_where++] = (struct where_column){(uint16_t)i, b->each[f->type]};
    }
    if (!b->spec.is_each && b->n_where == 0)
        return diag_set(why, E_PROTO, 1,
                        "%.*s has no field %.*s with numbers (host and keys: in SQL's WHERE)",
                        SLICE_ARG(b->spec.name), SLICE_ARG(w->field));
    return 0;
}

static int create(const struct bucket_spec *spec, const struct table_def *table, struct bucket **out,
                  struct diag *why)
{
    struct bucket *b = mem_try_alloc(sizeof *b);
    if (!b)
        return -ENOMEM;
    b->spec = *spec;
    b->table = table;
    b->cells.n_columns = spec->n_columns;
    b->cells.bytes_max = spec->bytes_max ? spec->bytes_max : BUCKET_BYTES_MAX;
    b->want = mem_try_alloc((spec->n_columns + VALUE_TYPES) * sizeof *b->want);
    int r = b->want ? 0 : -ENOMEM;
    if (r == 0 && table && spec->where)
        r = set_where(b, why);
    if (r < 0) {
        bucket_destroy(b);
        return r;
    }
    *out = b;
    return 0;
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

static int fold_part(struct bucket *b, struct view *v, const struct bucket_part *part)
{
    struct scan_spec spec = {.name = b->spec.name,
                             .from_ns = part->from_ns,
                             .to_ns = part->to_ns - 1,
                             .step_ns = part->tier_ns,
                             .wants = b->spec.wants,
                             .arg = b->spec.arg,
                             .id_column = UINT16_MAX};
    struct scan_chunk chunk;
    struct scan *scan;
    int r = scan_open(v, &spec, &scan);
    if (r < 0)
        return r;
    while ((r = scan_next(scan, &chunk)) > 0) {
        r = part->tier_ns ? bucket_add_tier_chunk(b, scan, &chunk, part)
                          : bucket_add_chunk(b, scan, &chunk, part);
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
    b->tier_table = NULL; /* good as long as its scan */
    return r;
}

static int fold(struct bucket *b, struct view *v, struct diag *why)
{
    struct bucket_plan all = {NULL, 0, 0};
    int r = bucket_plan(v, &b->spec, &all, why);
    for (size_t i = 0; r == 0 && i < all.n; i++)
        r = fold_part(b, v, &all.parts[i]);
    mem_free(all.parts);
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
    const struct table_def *table = view_table(v, spec->name);
    if (spec->step_ns < 0 || spec->tier_ns < 0)
        return diag_set(why, E_PROTO, 0, "a step is not negative");
    int r = create(spec, table, &b, why);
    if (r == 0 && table && spec->from_ns < spec->to_ns)
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
    *out = (struct bucket_row){.key = b->stream->key,
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
