/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/blob_counts.h"

#include "archive/blob_layout.h"
#include "event/level.h"

#include <errno.h>

/* ---------------------------------------------------------------- writing */

static int64_t bin_number(int64_t t, unsigned zoom)
{
    return t >> (2 * zoom);
}

/* Two times that follow each other are in one bin of zoom z when they differ in the lowest 2z bits only. */
static unsigned choose_zoom(const struct rows *rows)
{
    uint32_t apart[COUNTS_ZOOM_MAX + 2] = {0}; /* neighbours that are together from that zoom on */
    for (uint32_t i = 1; i < rows->n; i++) {
        uint64_t bits = (uint64_t)rows->time_ns[i] ^ (uint64_t)rows->time_ns[i - 1];
        apart[bits ? (63 - (unsigned)__builtin_clzll(bits)) / 2 + 1 : 0]++;
    }
    unsigned zoom = COUNTS_ZOOM_MAX;
    for (uint32_t bins = 1 + apart[COUNTS_ZOOM_MAX + 1]; zoom > 0; zoom--) {
        bins += apart[zoom];
        if (bins > rows->n / COUNTS_ROWS)
            break;
    }
    return zoom;
}

/* A bin of a chunk: rows [from, to). */
struct part {
    uint32_t from, to, worst;
};

static bool next_part(const struct rows *rows, unsigned zoom, struct part *p)
{
    if (p->to == rows->n)
        return false;
    p->from = p->worst = p->to;
    int64_t bin = bin_number(rows->time_ns[p->from], zoom);
    for (; p->to < rows->n && bin_number(rows->time_ns[p->to], zoom) == bin; p->to++)
        if (rows->level[p->to] < rows->level[p->worst])
            p->worst = p->to;
    return true;
}

static uint8_t usual_level(const struct rows *rows, unsigned zoom)
{
    uint8_t usual = 0;
    for (struct part p = {0}; next_part(rows, zoom, &p);)
        usual = rows->level[p.worst] > usual ? rows->level[p.worst] : usual;
    return usual;
}

/* Where the first row of the worst level is, and its id. false: that is too long. */
static bool put_worst(struct strbuf *out, const struct id_place *place, const struct rows *rows,
                      const struct part *p, unsigned zoom, struct strbuf *scratch)
{
    struct slice id = SLICE_LIT("");
    if (place && id_text(place, p->worst, scratch, &id) != 1)
        id = SLICE_LIT("");
    uint64_t into = (uint64_t)rows->time_ns[p->worst] & ((UINT64_C(1) << (2 * zoom)) - 1);
    strbuf_add_varint(out, into);
    strbuf_add_text(out, id);
    return id.n <= COUNTS_ID_MAX;
}

static bool put_bins(struct strbuf *out, const struct id_place *place, const struct rows *rows, unsigned zoom,
                     uint8_t usual, struct strbuf *scratch)
{
    int64_t next = bin_number(rows->time_ns[0], zoom);
    bool fits = true;
    for (struct part p = {0}; fits && next_part(rows, zoom, &p);) {
        int64_t bin = bin_number(rows->time_ns[p.from], zoom);
        uint8_t worst = rows->level[p.worst];
        bool is_other = bin != next || worst != usual || worst <= LEVEL_WARNING;
        strbuf_add_varint(out, (uint64_t)(p.to - p.from) * 2 + is_other);
        if (is_other) {
            strbuf_add_varint(out, (uint64_t)bin - (uint64_t)next);
            strbuf_add_char(out, (char)worst);
        }
        if (worst <= LEVEL_WARNING)
            fits = put_worst(out, place, rows, &p, zoom, scratch);
        next = bin + 1;
    }
    return fits;
}

bool counts_put_chunk(struct strbuf *out, const struct id_set *ids, const struct table_def *table,
                      struct slice key, const struct rows *rows, struct strbuf *scratch)
{
    if (rows->n < COUNTS_ROWS_MIN)
        return false;
    struct id_place places[ID_DECLARED_MAX];
    const struct id_place *place = id_places(ids, table, key, rows, places) ? &places[0] : NULL;
    struct strbuf bins = {0};
    unsigned zoom = choose_zoom(rows);
    uint8_t usual = usual_level(rows, zoom);
    bool fits = put_bins(&bins, place, rows, zoom, usual, scratch);
    if (fits) {
        int64_t first = bin_number(rows->time_ns[0], zoom),
                last = bin_number(rows->time_ns[rows->n - 1], zoom);
        strbuf_add_char(out, (char)zoom);
        strbuf_add_varint(out, zigzag(first));
        strbuf_add_varint(out, (uint64_t)last - (uint64_t)first);
        strbuf_add_char(out, (char)usual);
        strbuf_add_text(out, strbuf_slice(&bins));
    }
    out->failed |= strbuf_failed(&bins);
    strbuf_fini(&bins);
    return fits && !strbuf_failed(out);
}

/* ---------------------------------------------------------------- reading */

uint32_t counts_open(struct counts_reader *r, struct slice bytes)
{
    *r = (struct counts_reader){.c = cursor_of(bytes)};
    uint64_t n = bytes.n ? cursor_varint(&r->c) : 0;
    if (r->c.bad || n > cursor_left(&r->c) || n > BLOB_CHUNKS_MAX)
        n = 0;
    r->n = (uint32_t)n;
    return r->n;
}

void counts_close(struct counts_reader *r)
{
    strbuf_fini(&r->key);
}

static int64_t bin_begin(int64_t number, unsigned zoom)
{
    return (int64_t)((uint64_t)number << (2 * zoom));
}

static int read_key(struct counts_reader *r)
{
    uint64_t shared = cursor_varint(&r->c);
    struct slice rest = cursor_text(&r->c);
    if (r->c.bad || shared > r->key.n || rest.n > BLOB_KEY_MAX - shared)
        return E_PROTO;
    r->key.n = shared;
    strbuf_add_slice(&r->key, rest);
    return strbuf_failed(&r->key) ? -ENOMEM : 0;
}

/* Are the bins as many rows as there are, and within the time said? */
static bool is_right(const struct counts_chunk *chunk)
{
    struct cursor c = cursor_of(chunk->bins);
    struct counts_bin bin = {0};
    uint64_t rows = 0;
    int64_t last = chunk->from_ns;
    while (counts_next_bin(chunk, &c, &bin)) {
        if (bin.from_ns < last || bin.from_ns > chunk->last_ns || bin.count > chunk->rows - rows)
            return false;
        rows += bin.count;
        last = bin.from_ns;
    }
    return !c.bad && rows == chunk->rows;
}

static int read_chunk(struct counts_reader *r, struct counts_chunk *out)
{
    int e = read_key(r);
    if (e < 0)
        return e;
    out->key = strbuf_slice(&r->key);
    out->zoom = cursor_u8(&r->c);
    if (out->zoom > COUNTS_ZOOM_MAX)
        return E_PROTO;
    int64_t first = unzigzag(cursor_varint(&r->c));
    int64_t last = (int64_t)((uint64_t)first + cursor_varint(&r->c));
    int64_t least = bin_number(INT64_MIN, out->zoom), most = bin_number(INT64_MAX, out->zoom);
    out->usual = cursor_u8(&r->c);
    out->bins = cursor_text(&r->c);
    if (r->c.bad || first < least || last < first || last > most)
        return E_PROTO;
    out->from_ns = bin_begin(first, out->zoom);
    out->last_ns = (int64_t)((uint64_t)bin_begin(last, out->zoom) | ((UINT64_C(1) << (2 * out->zoom)) - 1));
    return is_right(out) ? 1 : E_PROTO;
}

int counts_next(struct counts_reader *r, struct counts_chunk *out)
{
    if (r->next == r->n)
        return 0;
    r->next++;
    uint64_t rows = cursor_varint(&r->c);
    if (r->c.bad || rows > ROWS_CHUNK_MAX)
        return E_PROTO;
    *out = (struct counts_chunk){.rows = (uint32_t)rows};
    return rows ? read_chunk(r, out) : 1;
}

bool counts_next_bin(const struct counts_chunk *chunk, struct cursor *c, struct counts_bin *bin)
{
    if (!cursor_left(c))
        return false;
    int64_t width = INT64_C(1) << (2 * chunk->zoom);
    uint64_t begin = bin->count ? (uint64_t)bin->from_ns + (uint64_t)width : (uint64_t)chunk->from_ns;
    uint64_t count = cursor_varint(c);
    bin->level = chunk->usual;
    bin->id = SLICE_LIT("");
    uint64_t into = 0;
    if (count & 1) {
        begin += cursor_varint(c) * (uint64_t)width;
        bin->level = cursor_u8(c);
        if (bin->level <= LEVEL_WARNING) {
            into = cursor_varint(c);
            bin->id = cursor_text(c);
        }
    }
    bin->count = count / 2;
    bin->from_ns = (int64_t)begin;
    bin->worst_ns = (int64_t)(begin + into);
    if (c->bad || bin->count == 0 || into >= (uint64_t)width)
        return cursor_fail(c);
    return true;
}
