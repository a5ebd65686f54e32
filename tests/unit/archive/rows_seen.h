/* SPDX-License-Identifier: Apache-2.0 */
/* rows_seen.h - every row that a view gives, found by its sequence number, and compared with the event that
 * it should be. */
#ifndef GRIDLINE_TESTS_ARCHIVE_ROWS_SEEN_H
#define GRIDLINE_TESTS_ARCHIVE_ROWS_SEEN_H

#include "unit/archive/events.h"

#include "archive/view.h"
#include "base/mem.h"

#include <ftw.h>
#include <unistd.h>

static inline int remove_one(const char *path, const struct stat *st, int what, struct FTW *at)
{
    (void)st;
    (void)what;
    (void)at;
    return remove(path);
}

static inline void remove_folder(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static inline struct value value_of_key(struct slice key, struct slice name, uint8_t type)
{
    struct slice fields = stream_key_split(key).fields, field;
    struct value v;
    while (stream_key_next(&fields, &field, &v))
        if (slice_eq(field, name) && v.type == type)
            return v;
    return value_none();
}

static inline void check_event(const struct event *e, const struct scan_chunk *c, const struct rows *r,
                               uint32_t row)
{
    struct stream_key_parts parts = stream_key_split(c->chunk->key);
    assert_true(slice_eq(parts.host, e->host) && slice_eq(parts.prog, e->prog));
    assert_true(slice_eq(c->table->name, e->schema->name));
    assert_int_equal(r->time_ns[row], e->time_ns);
    assert_int_equal(r->level[row], e->level);
    assert_int_equal(r->origins[r->origin[row]].clock.offset_ns, -5);
    uint32_t n_values = 0, n_there = 0;
    for (uint32_t f = 0; f < e->schema->n_fields; f++) {
        const struct field *field = &e->schema->fields[f];
        struct value v = value_of_key(c->chunk->key, field->name, field->type);
        for (uint32_t i = 0; i < r->n_columns; i++) {
            const struct field *column = &c->table->columns[r->columns[i].id];
            if (slice_eq(column->name, field->name) && column->type == field->type &&
                column_has(&r->columns[i], row))
                v = column_value(&r->columns[i], row);
        }
        assert_true(value_eq(v, e->values[f]));
        n_values += e->values[f].type != VALUE_NONE && field->role != ROLE_KEY;
    }
    for (uint32_t i = 0; i < r->n_columns; i++)
        n_there += column_has(&r->columns[i], row) && c->table->columns[r->columns[i].id].role != ROLE_KEY;
    assert_int_equal(n_there, n_values); /* and nothing besides */
}

/* events[seq - 1], n of them, NULL: it must not be there. How many are. */
static inline size_t check_view(struct view *v, const struct event *const *events, size_t n)
{
    uint8_t *seen = mem_alloc(n + 1);
    size_t count = 0;
    for (size_t t = 0; t < view_tables(v); t++) {
        const struct scan_spec spec = {
            .name = view_table_at(v, t)->name, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .is_stored = true};
        struct scan *s = NULL;
        struct scan_chunk c;
        int r;
        assert_int_equal(scan_open(v, &spec, &s), 0);
        while ((r = scan_next(s, &c)) > 0) {
            struct rows rows;
            assert_int_equal(
                scan_read(s, BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS, NULL, 0, &rows), 0);
            assert_int_equal(rows.n, c.chunk->n_rows);
            for (uint32_t i = 0; i < rows.n; i++) {
                uint64_t seq = rows.seq[i];
                if (memcmp(rows.origins[rows.origin[i]].producer, events_producer, 16) != 0)
                    continue; /* derived, or the archive's own */
                assert_true(seq >= 1 && seq <= n);
                assert_false(seen[seq - 1]++);
                assert_non_null(events[seq - 1]);
                check_event(events[seq - 1], &c, &rows, i);
                count++;
            }
        }
        assert_int_equal(r, 0);
        assert_int_equal(scan_damaged(s).blobs + scan_damaged(s).chunks, 0);
        scan_close(s);
    }
    for (size_t i = 0; i < n; i++)
        if (events[i] && !seen[i])
            fail_msg("row %zu of %zu is not there", i + 1, n);
    mem_free(seen);
    return count;
}

static inline size_t check_archive(struct archive *a, const char *dir, const struct event *const *events,
                                   size_t n)
{
    struct view_reader *r = NULL;
    struct view *v = NULL;
    struct diag why = {0};
    if (view_reader_create(a, dir, 1 << 20, &r, &why) < 0)
        fail_msg("%s", why.message);
    assert_int_equal(view_take(r, &v), 0);
    size_t count = check_view(v, events, n);
    view_release(v);
    view_reader_destroy(r);
    return count;
}

#endif
