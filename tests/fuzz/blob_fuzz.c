/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs: an input is u16 length and a directory's content, then a body's frames. Hardly any mutation has CRCs
 * right, so heads, lengths and all CRCs are made to fit: what is read is a writer that may be broken or
 * hostile, not damage.
 *
 * A directory that is read must keep what blob.h promises of it; chunks that are read must be whole, go into
 * a new blob (its table and key as they are) and come out of it the same. */
#include "archive/blob.h"
#include "archive/blob_layout.h"
#include "base/cursor.h"
#include "base/strbuf.h"

#include <stdlib.h>

enum { EVERYTHING = BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS };

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

/* ---------------------------------------------------------------- making it fit */

static void begin_half(struct strbuf *out, const char *mark)
{
    strbuf_add(out, mark, BLOB_MARK_SIZE);
    strbuf_add_char(out, BLOB_VERSION);
    strbuf_add_u64(out, 0);
    strbuf_add_u64(out, 42);
}

static void end_half(struct strbuf *out)
{
    uint32_t n = (uint32_t)out->n, crc;
    memcpy(out->p + BLOB_AT_LENGTH, &n, sizeof n);
    crc = blob_crc(strbuf_slice(out));
    memcpy(out->p + BLOB_AT_CRC, &crc, sizeof crc);
}

/* The CRCs of frames, as far as the list of them makes sense. */
static void fix_frames(struct strbuf *directory, struct slice body)
{
    struct cursor c = cursor_of(slice_from(strbuf_slice(directory), BLOB_DIRECTORY_HEAD));
    uint64_t n = cursor_varint(&c), at = BLOB_HEAD;
    for (uint64_t i = 0; i < n && !c.bad; i++) {
        uint64_t unpacked = cursor_varint(&c), fewer = cursor_varint(&c);
        const unsigned char *crc_at = c.p;
        (void)cursor_u32(&c); /* c.bad says it */
        if (c.bad || fewer >= unpacked || unpacked - fewer > body.n - at)
            return;
        uint32_t crc = crc32c(0, slice_of(body.p + at, (size_t)(unpacked - fewer)));
        memcpy(directory->p + ((const char *)crc_at - directory->p), &crc, sizeof crc);
        at += unpacked - fewer;
    }
}

static void make_halves(struct slice input, struct strbuf *directory, struct strbuf *body)
{
    struct cursor c = cursor_of(input);
    size_t n = cursor_u16(&c);
    struct slice content = cursor_bytes(&c, n < cursor_left(&c) ? n : cursor_left(&c));
    begin_half(directory, BLOB_DIRECTORY_MARK);
    strbuf_add_u32(directory, (uint32_t)content.n);
    strbuf_add_slice(directory, content);
    begin_half(body, BLOB_BODY_MARK);
    strbuf_add_slice(body, cursor_bytes(&c, cursor_left(&c)));
    fix_frames(directory, strbuf_slice(body));
    end_half(directory);
    end_half(body);
}

/* ---------------------------------------------------------------- what must hold */

static void check_chunk(const struct blob_directory *d, uint32_t at)
{
    const struct blob_chunk *b = &d->chunks[at];
    check(b->section < d->n_sections && b->n_rows > 0 && b->n_rows <= ROWS_CHUNK_MAX &&
          b->min_ns <= b->max_ns);
    check(b->by.n > 0 && b->n_columns <= d->tables[b->section].n_columns);
    for (uint32_t i = 0; i < b->by.n; i++)
        check(b->by.first_seq[i] <= b->by.last_seq[i]);
    for (uint32_t i = 0; i < b->n_columns; i++) {
        const struct column_summary *s = &b->summaries[i];
        check(b->ids[i] < d->tables[b->section].n_columns && (i == 0 || b->ids[i - 1] < b->ids[i]));
        check(s->count > 0 && s->count <= b->n_rows && s->nans <= s->count);
        (void)blob_chunk_may_have(d, at, b->ids[i], slice_str("x")); /* any answer */
    }
    uint32_t found = blob_directory_find(d, b->section, b->key);
    check(found <= at && slice_eq(d->chunks[found].key, b->key));
}

static void check_rows(const struct blob_chunk *b, const struct rows *r)
{
    check(r->n == b->n_rows && r->n_columns == b->n_columns);
    for (uint32_t i = 0; i < r->n; i++)
        check(r->origin[i] < r->n_origins);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->n_columns; i++)
        for (uint32_t k = 0; k < r->n; k++) {
            struct value v = column_value(&r->columns[i], k);
            check(v.type != VALUE_BOOL || v.u <= 1);
            for (uint32_t n = 0; value_is_text(v.type) && n < v.n; n++)
                sum += (unsigned char)v.p[n];
        }
    check(sum != UINT64_MAX); /* it was looked at */
}

static void check_same(const struct rows *a, const struct rows *b)
{
    check(a->n == b->n && a->n_columns == b->n_columns);
    check(memcmp(a->time_ns, b->time_ns, a->n * sizeof a->time_ns[0]) == 0);
    check(memcmp(a->seq, b->seq, a->n * sizeof a->seq[0]) == 0 && memcmp(a->level, b->level, a->n) == 0);
    for (uint32_t i = 0; i < a->n; i++) {
        const struct row_origin *x = &a->origins[a->origin[i]], *y = &b->origins[b->origin[i]];
        check(memcmp(x->producer, y->producer, 16) == 0 && x->epoch == y->epoch);
        check(x->clock.offset_ns == y->clock.offset_ns && x->clock.generation == y->clock.generation);
    }
    for (uint32_t i = 0; i < a->n_columns; i++)
        for (uint32_t k = 0; k < a->n; k++)
            check(value_eq(column_value(&a->columns[i], k), column_value(&b->columns[i], k)));
}

static void write_again(const struct blob_directory *d, uint32_t at, const struct rows *rows)
{
    static const char *const ids[] = {"id"};
    static struct blob_writer *w;
    if (!w)
        w = blob_writer_create(&(struct blob_options){.ids = ids, .n_ids = 1});
    const struct blob_chunk *b = &d->chunks[at];
    struct arena arena = {0};
    struct blob_bytes out;
    const struct blob_directory *again;
    struct rows back;
    int r = blob_writer_add(w, &d->tables[b->section], b->key, rows);
    check(r == 0); /* what can be read can be written */
    check(blob_writer_finish(w, &out) == 0 && out.n_sections == 1);
    check(blob_directory_read(out.directory, &arena, &again) == 0 && again->n_chunks == 1);
    check(slice_eq(again->chunks[0].key, b->key));
    check(blob_chunk_read(again, out.body, 1, 0, EVERYTHING, NULL, 0, NULL, &arena, &back) == 0);
    check_same(rows, &back);
    arena_fini(&arena);
}

static void read_all(struct slice directory, struct slice body)
{
    struct arena arena = {0}, scratch = {0};
    const struct blob_directory *d;
    struct blob_cache *cache = blob_cache_create(1 << 16);
    int r = blob_directory_read(directory, &arena, &d);
    check(r == 0 || r == E_DAMAGE || r == E_PROTO || r == E_LIMIT || r == E_VERSION);
    for (uint32_t i = 0; r == 0 && i < d->n_chunks; i++) {
        struct rows rows;
        check_chunk(d, i);
        int e = blob_chunk_read(d, body, 1, i, EVERYTHING, NULL, 0, i % 2 ? cache : NULL, &scratch, &rows);
        check(e == 0 || e == E_DAMAGE || e == E_PROTO || e == E_LIMIT);
        if (e == 0) {
            check_rows(&d->chunks[i], &rows);
            write_again(d, i, &rows);
        }
        arena_reset(&scratch);
    }
    blob_cache_destroy(cache);
    arena_fini(&arena);
    arena_fini(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct strbuf directory = {0}, body = {0};
    struct slice input = slice_of((const char *)data, size);
    make_halves(input, &directory, &body);
    read_all(strbuf_slice(&directory), strbuf_slice(&body));
    read_all(input, input);
    check(blob_directory_mark(strbuf_slice(&directory)) == directory.n);
    (void)blob_directory_mark(input); /* any answer */
    (void)blob_body_mark(input);
    strbuf_fini(&directory);
    strbuf_fini(&body);
    return 0;
}
