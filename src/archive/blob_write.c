/* SPDX-License-Identifier: Apache-2.0 */
/* Layout. Little-endian; varint: LEB128; zigzag: a varint of it; text: varint length, bytes; float: 8 bytes.
 *
 * Both halves begin alike, in all versions:
 *   0   7  mark
 *   7   1  version
 *   8   4  length of all, from the mark on
 *   12  4  CRC-32C of all but these four bytes
 *   16  8  the blob's number, random: the halves of one blob have the same
 *
 * Directory, from 24 on:
 *   24  4  length of the content
 *   28  -  content: by zstd if it is shorter than that, else as it is
 *
 * Body, from 24 on: frames, one after the other, as the content says.
 *
 * The content, in this order:
 *   frames      varint n; of each: varint bytes unpacked, varint how many fewer it is in the body (0: it is
 *               there as it is, else by zstd), u32 CRC-32C of what is in the body
 *   makers      varint n; of each: 16 bytes producer, varint epoch
 *   origins     varint n; of each: varint maker, zigzag clock offset - that of the origin before,
 *               varint bound + 1 (0: unknown), zigzag clock generation - that before
 *   sections    varint n, varint chunks of all sections; of each: its table, varint n chunks, the chunks
 *
 * A table:
 *   text name, varint n columns; of each: u8 type, u8 role << 4 | kind, text name, text unit, text help
 *
 * A chunk; "before" is the one before it in its section:
 *   key         varint bytes that it shares with the key before, text the rest
 *   rows        varint
 *   times       zigzag min - min before, varint max - min
 *   makers      varint n; of each: varint maker, varint first seq, varint last - first
 *   pieces      of origins, times (from min on), levels, numbers (seq): varint length * 2 + is here; if it
 *               is, it follows, else it is in the body
 *   columns     varint n; of each: varint id - (id before + 1), u8 flags (enum blob_column_flags), and then
 *               MISSING: varint rows that have a value, varint first ns - min, varint max - last ns
 *               NANS: varint how many
 *               a number, SAME: 8 bytes, and zigzag bits of the sum - bits of value * rows
 *               a number, not SAME: first, last, min and max (unless flags say which they are), sum; 8 bytes
 *               not SAME: varint length of its piece; HERE: it follows, else it is in the body
 *   filters     varint n; of each: varint id of its column - the one before, varint n ids, a Bloom filter of
 *               n * 10 bits, rounded up to bytes
 * Without any number that is not NaN there are no min, max and sum.
 *
 * Piece of origins: varint n, zigzag origin - the one before; if n > 1 the place of each row's in those, as
 * numbers. Of numbers: zigzag the first row's - the first seq of the first maker; the others from the first
 * row's on. All other pieces: column_codec.h.
 *
 * Pieces in the body: first all that are shorter than BLOB_ALONE, many in a frame, then all others, each a
 * frame of its own; among both section by section; within one all chunks' origins, times, levels, numbers,
 * then all chunks' pieces of the first column, of the second and so on: a query wants one column of many
 * streams. No piece is in two frames.
 *
 * Frames have the CRCs: damage costs a column of a chunk, or the small pieces of a frame. zstd is tried on
 * shared frames and on text; packed numbers have nothing left for it. Rejected: zstd over frames of many
 * chunks' numbers. That saved a few per cent on one recorded host (and made copies of hosts look like
 * nothing), but reading one column cost a frame, and so did damage. */
#include "archive/blob_layout.h"

#include "archive/blob_counts.h"
#include "archive/column_codec.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <sys/random.h>
#include <zstd.h>

enum { ZSTD_LEVEL = 3 };

/* A piece that goes to the body: in writer.pieces until then. */
struct piece {
    uint32_t section;
    uint32_t column; /* PIECE_..., or PIECE_FIXED + id */
    bool is_text;    /* zstd may pay */
    uint32_t chunk;  /* place in the order of the directory, set when that is known */
    uint32_t at, n;
};

struct chunk {
    uint32_t section;
    uint32_t order; /* in which it was added */
    struct slice key;
    int64_t min_ns, max_ns;
    uint32_t n_rows;
    uint32_t first_piece, n_pieces; /* of writer.piece_list */
    size_t at, n;                   /* of writer.records: makers and all that follows */
    size_t counts_at, counts_n;     /* of writer.counted; 0: it has none */
};

struct section {
    struct table_def table;
    uint32_t n_chunks;
};

/* A producer and epoch, and what the chunk that is being added has of it. */
struct maker {
    uint32_t chunk; /* + 1; another one: nothing yet */
    uint64_t first_seq, last_seq;
};

struct blob_writer {
    int zstd_level;
    const char *const *ids;
    size_t n_ids;
    uint8_t version;
    struct column_codec *codec;
    ZSTD_CCtx *zstd;
    double ratio;     /* packed by unpacked, of the blobs before: to know when this one is full */
    bool is_finished; /* what is here is already in a blob: the next add forgets it */

    struct arena arena;                         /* tables, keys, keys of the maps */
    struct map section_of, maker_of, origin_of; /* -> index + 1 */
    struct section *sections;
    uint32_t n_sections, sections_cap;
    struct maker *makers;
    uint32_t n_makers, makers_cap;
    uint32_t n_origins;
    struct batch_clock last_clock;           /* of the origin added last */
    struct strbuf maker_bytes, origin_bytes; /* as they are written */
    struct chunk *chunks;
    uint32_t n_chunks, chunks_cap;
    struct piece *pieces;
    uint32_t n_pieces, pieces_cap;
    struct strbuf records; /* of chunks, for the directory */
    struct strbuf bytes;   /* of pieces, for the body */
    struct id_set shown;   /* the id that counts have; n 0: none are made */
    struct strbuf counted; /* counts of chunks: what is behind their keys */

    struct strbuf part; /* a piece, before it is known where it goes */
    uint64_t scratch[ROWS_CHUNK_MAX];
    uint64_t hashes[2 * ROWS_CHUNK_MAX]; /* a set of hashes of ids; 0: free */
    uint32_t place_of[UINT16_MAX + 1];   /* of the chunk's origins: place in used */
    uint32_t used[ROWS_CHUNK_MAX];       /* origins of a chunk that rows have, as the blob numbers them */
    uint32_t used_maker[ROWS_CHUNK_MAX];

    struct strbuf content, frame, directory, body; /* what a finished blob is made of, and is */
    struct strbuf section_counts, counts;          /* of one section; of all */
    struct blob_section *out;
};

/* ---------------------------------------------------------------- life */

struct blob_writer *blob_writer_create(const struct blob_options *o)
{
    struct blob_writer *w = mem_try_alloc(sizeof *w);
    if (!w)
        return NULL;
    w->zstd_level = o->zstd_level ? o->zstd_level : ZSTD_LEVEL;
    w->ids = o->ids;
    w->n_ids = o->ids ? o->n_ids : 0;
    w->ratio = 0.5;
    w->version = o->is_old ? BLOB_VERSION_FIRST : BLOB_VERSION;
    w->codec = column_codec_create();
    w->zstd = ZSTD_createCCtx();
    int r = o->has_counts ? id_set_parse(NULL, &w->shown, NULL) : 0;
    if (w->codec && w->zstd && r == 0)
        return w;
    blob_writer_destroy(w);
    return NULL;
}

void blob_writer_destroy(struct blob_writer *w)
{
    if (!w)
        return;
    struct strbuf *const buffers[] = {&w->maker_bytes, &w->origin_bytes, &w->records,        &w->bytes,
                                      &w->part,        &w->content,      &w->frame,          &w->directory,
                                      &w->body,        &w->counted,      &w->section_counts, &w->counts};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        strbuf_fini(buffers[i]);
    map_fini(&w->section_of);
    map_fini(&w->maker_of);
    map_fini(&w->origin_of);
    arena_fini(&w->arena);
    id_set_fini(&w->shown);
    column_codec_destroy(w->codec);
    (void)ZSTD_freeCCtx(w->zstd); /* NULL is fine; can't fail */
    mem_free(w->sections);
    mem_free(w->makers);
    mem_free(w->chunks);
    mem_free(w->pieces);
    mem_free(w->out);
    mem_free(w);
}

/* After a blob: empty; its memory stays. */
static void forget(struct blob_writer *w)
{
    map_fini(&w->section_of);
    map_fini(&w->maker_of);
    map_fini(&w->origin_of);
    arena_reset(&w->arena);
    w->n_sections = w->n_makers = w->n_origins = w->n_chunks = w->n_pieces = 0;
    w->last_clock = (struct batch_clock){.offset_ns = 0};
    strbuf_reset(&w->maker_bytes);
    strbuf_reset(&w->origin_bytes);
    strbuf_reset(&w->records);
    strbuf_reset(&w->bytes);
    strbuf_reset(&w->counted);
    w->is_finished = false;
}

/* Room for one more in a growing array; false: no memory, and it is as it was. */
static bool has_room(void *array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t bigger = *cap ? *cap * 2 : 64;
    void *p, *old;
    memcpy(&old, array, sizeof old);
    p = mem_try_resize(old, bigger * size);
    if (!p)
        return false;
    memcpy(array, &p, sizeof p);
    *cap = bigger;
    return true;
}

/* ---------------------------------------------------------------- tables, makers, origins */

/* The index that a map has for key, or -1. */
static int64_t index_of(const struct map *m, struct slice key)
{
    return (int64_t)(uintptr_t)map_get(m, key) - 1;
}

static int put_index(struct map *m, struct slice key, uint32_t index)
{
    return map_put(m, key, (void *)(uintptr_t)(index + UINT64_C(1)));
}

static int copy_table(struct arena *arena, const struct table_def *from, struct table_def *out)
{
    struct field *columns = arena_alloc(arena, from->n_columns * sizeof *columns);
    struct slice name = arena_copy(arena, from->name);
    bool is_whole = columns && name.p;
    for (uint32_t i = 0; i < from->n_columns && is_whole; i++) {
        const struct field *f = &from->columns[i];
        columns[i] = *f;
        columns[i].name = arena_copy(arena, f->name);
        columns[i].unit = arena_copy(arena, f->unit);
        columns[i].help = arena_copy(arena, f->help);
        is_whole = columns[i].name.p && columns[i].unit.p && columns[i].help.p;
    }
    if (!is_whole)
        return -ENOMEM;
    *out = (struct table_def){.name = name, .columns = columns, .n_columns = from->n_columns};
    return 0;
}

/* The section of the table: found, or made. A table only grows: the widest is kept. */
static int find_section(struct blob_writer *w, const struct table_def *table, uint32_t *out)
{
    int64_t at = index_of(&w->section_of, table->name);
    if (at >= 0) {
        *out = (uint32_t)at;
        struct table_def *known = &w->sections[at].table;
        return table->n_columns > known->n_columns ? copy_table(&w->arena, table, known) : 0;
    }
    if (w->n_sections == BLOB_SECTIONS_MAX)
        return E_LIMIT;
    if (!has_room(&w->sections, w->n_sections, &w->sections_cap, sizeof *w->sections))
        return -ENOMEM;
    struct section *s = &w->sections[w->n_sections];
    *s = (struct section){.n_chunks = 0};
    int r = copy_table(&w->arena, table, &s->table);
    if (r == 0)
        r = put_index(&w->section_of, s->table.name, w->n_sections);
    if (r == 0)
        *out = w->n_sections++;
    return r;
}

/* The number of the key in a map: found, or the next, which the caller then writes. Room of `need` bytes in
 * `bytes` is made before. -ENOMEM; 1: it is new. */
static int find_number(struct blob_writer *w, struct map *m, struct slice key, uint32_t next,
                       struct strbuf *bytes, size_t need, uint32_t *out)
{
    int64_t at = index_of(m, key);
    if (at >= 0) {
        *out = (uint32_t)at;
        return 0;
    }
    if (!strbuf_room(bytes, need)) {
        bytes->failed = false; /* it is as it was: nothing was written */
        return -ENOMEM;
    }
    struct slice copy = arena_copy(&w->arena, key);
    if (!copy.p || put_index(m, copy, next) < 0)
        return -ENOMEM;
    *out = next;
    return 1;
}

static int find_maker(struct blob_writer *w, const struct row_origin *o, uint32_t *out)
{
    char key[24];
    memcpy(key, o->producer, 16);
    memcpy(key + 16, &o->epoch, 8);
    if (!has_room(&w->makers, w->n_makers, &w->makers_cap, sizeof *w->makers))
        return -ENOMEM;
    int r = find_number(w, &w->maker_of, slice_of(key, sizeof key), w->n_makers, &w->maker_bytes, 32, out);
    if (r <= 0)
        return r;
    strbuf_add(&w->maker_bytes, o->producer, sizeof o->producer);
    strbuf_add_varint(&w->maker_bytes, o->epoch);
    w->makers[w->n_makers++] = (struct maker){.chunk = 0};
    return 0;
}

static int find_origin(struct blob_writer *w, const struct row_origin *o, uint32_t *maker, uint32_t *out)
{
    int r = find_maker(w, o, maker);
    if (r < 0)
        return r;
    char key[24];
    memcpy(key, maker, 4);
    memcpy(key + 4, &o->clock.generation, 4);
    memcpy(key + 8, &o->clock.offset_ns, 8);
    memcpy(key + 16, &o->clock.bound_ns, 8);
    r = find_number(w, &w->origin_of, slice_of(key, sizeof key), w->n_origins, &w->origin_bytes, 64, out);
    if (r <= 0)
        return r;
    struct strbuf *b = &w->origin_bytes;
    strbuf_add_varint(b, *maker);
    strbuf_add_varint(b, zigzag((int64_t)((uint64_t)o->clock.offset_ns - (uint64_t)w->last_clock.offset_ns)));
    strbuf_add_varint(b, o->clock.bound_ns + 1); /* unknown is the greatest: 0 */
    strbuf_add_varint(b, zigzag((int64_t)o->clock.generation - (int64_t)w->last_clock.generation));
    w->last_clock = o->clock;
    w->n_origins++;
    return 0;
}

/* ---------------------------------------------------------------- pieces */

/* The piece in w->part, for the body. */
static int keep_piece(struct blob_writer *w, struct chunk *c, uint32_t column, bool is_text)
{
    if (strbuf_failed(&w->part) || !has_room(&w->pieces, w->n_pieces, &w->pieces_cap, sizeof *w->pieces))
        return -ENOMEM;
    if (w->part.n > BLOB_BODY_MAX / 2 || w->bytes.n + w->part.n > BLOB_BODY_MAX / 2)
        return E_LIMIT;
    uint32_t at = (uint32_t)w->bytes.n;
    strbuf_add_slice(&w->bytes, strbuf_slice(&w->part));
    if (strbuf_failed(&w->bytes))
        return -ENOMEM;
    w->pieces[w->n_pieces++] =
        (struct piece){.column = column, .is_text = is_text, .at = at, .n = (uint32_t)w->part.n};
    c->n_pieces++;
    return 0;
}

static int put_fixed(struct blob_writer *w, struct chunk *c, enum blob_piece which)
{
    if (strbuf_failed(&w->part))
        return -ENOMEM;
    bool is_here = w->part.n <= BLOB_INLINE_MAX;
    strbuf_add_varint(&w->records, w->part.n * 2 + is_here);
    if (!is_here)
        return keep_piece(w, c, which, false);
    strbuf_add_slice(&w->records, strbuf_slice(&w->part));
    return 0;
}

static int put_scratch(struct blob_writer *w, struct chunk *c, enum blob_piece which)
{
    strbuf_reset(&w->part);
    column_put_numbers(w->codec, w->scratch, c->n_rows, &w->part);
    return put_fixed(w, c, which);
}

/* ---------------------------------------------------------------- who made the rows */

/* Which of the chunk's origins rows have, as the blob numbers them: used; scratch: each row's place there. */
static int gather_origins(struct blob_writer *w, const struct rows *rows, uint32_t *n_used)
{
    *n_used = 0;
    for (uint32_t i = 0; i < rows->n_origins; i++)
        w->place_of[i] = UINT32_MAX;
    for (uint32_t i = 0; i < rows->n; i++) {
        uint16_t o = rows->origin[i];
        if (o >= rows->n_origins)
            return E_PROTO;
        if (w->place_of[o] == UINT32_MAX) {
            int r = find_origin(w, &rows->origins[o], &w->used_maker[*n_used], &w->used[*n_used]);
            if (r < 0)
                return r;
            w->place_of[o] = (*n_used)++;
        }
        w->scratch[i] = w->place_of[o];
    }
    return 0;
}

static int put_origins(struct blob_writer *w, struct chunk *c, uint32_t n_used)
{
    uint32_t before = 0;
    strbuf_reset(&w->part);
    strbuf_add_varint(&w->part, n_used);
    for (uint32_t i = 0; i < n_used; i++) {
        strbuf_add_varint(&w->part, zigzag((int64_t)w->used[i] - (int64_t)before));
        before = w->used[i];
    }
    if (n_used > 1)
        column_put_numbers(w->codec, w->scratch, c->n_rows, &w->part);
    return put_fixed(w, c, PIECE_ORIGINS);
}

/* Least and greatest number of each maker, in the order of used; scratch has the rows' places. */
static void put_makers(struct blob_writer *w, const struct rows *rows, uint32_t n_used)
{
    uint32_t mark = w->n_chunks + 1, n = 0;
    for (uint32_t i = 0; i < rows->n; i++) {
        struct maker *m = &w->makers[w->used_maker[w->scratch[i]]];
        uint64_t seq = rows->seq[i];
        if (m->chunk != mark) {
            *m = (struct maker){.chunk = mark};
            n++;
        }
        m->first_seq = seq && (seq < m->first_seq || !m->first_seq) ? seq : m->first_seq;
        m->last_seq = seq > m->last_seq ? seq : m->last_seq;
    }
    strbuf_add_varint(&w->records, n);
    for (uint32_t i = 0; i < n_used; i++) {
        struct maker *m = &w->makers[w->used_maker[i]];
        if (m->chunk != mark)
            continue; /* its other clock was before */
        m->chunk = 0;
        strbuf_add_varint(&w->records, w->used_maker[i]);
        strbuf_add_varint(&w->records, m->first_seq);
        strbuf_add_varint(&w->records, m->last_seq - m->first_seq);
    }
}

static int put_seqs(struct blob_writer *w, struct chunk *c, const struct rows *rows, uint64_t first_seq)
{
    for (uint32_t i = 0; i < rows->n; i++)
        w->scratch[i] = rows->seq[i] - rows->seq[0];
    strbuf_reset(&w->part);
    strbuf_add_varint(&w->part, zigzag((int64_t)(rows->seq[0] - first_seq)));
    column_put_numbers(w->codec, w->scratch, c->n_rows, &w->part);
    return put_fixed(w, c, PIECE_SEQS);
}

/* Everything about rows that is not a column: makers and four pieces. */
static int put_heads(struct blob_writer *w, struct chunk *c, const struct rows *rows)
{
    uint32_t n_used = 0;
    int r = gather_origins(w, rows, &n_used);
    if (r < 0)
        return r;
    put_makers(w, rows, n_used);
    uint64_t first_seq = w->makers[w->used_maker[0]].first_seq;
    r = put_origins(w, c, n_used);
    for (uint32_t i = 0; i < rows->n; i++)
        w->scratch[i] = (uint64_t)rows->time_ns[i] - (uint64_t)c->min_ns;
    r = r < 0 ? r : put_scratch(w, c, PIECE_TIMES);
    for (uint32_t i = 0; i < rows->n; i++)
        w->scratch[i] = rows->level[i];
    r = r < 0 ? r : put_scratch(w, c, PIECE_LEVELS);
    return r < 0 ? r : put_seqs(w, c, rows, first_seq);
}

/* ---------------------------------------------------------------- columns */

static uint64_t bits_of(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static double as_float(struct value v)
{
    return v.type == VALUE_FLOAT ? v.f : v.type == VALUE_INT ? (double)v.i : (double)v.u;
}

/* Is a number, the same bits in every row? */
static bool is_same(const struct column *c, uint32_t n, const struct column_summary *s)
{
    if (value_is_text(c->type) || s->count < n || c->u[0] != s->first.u)
        return false;
    uint64_t odd = 0;
    for (uint32_t i = 0; i < n; i++)
        odd |= c->u[i] ^ c->u[0];
    return odd == 0;
}

static unsigned summary_flags(const struct column_summary *s)
{
    unsigned flags = s->nans ? COLUMN_NANS : 0;
    if (!s->min.type)
        return flags;
    flags |= s->min.u == s->first.u ? COLUMN_MIN_FIRST : s->min.u == s->last.u ? COLUMN_MIN_LAST : 0;
    return flags | (s->max.u == s->first.u ? COLUMN_MAX_FIRST : s->max.u == s->last.u ? COLUMN_MAX_LAST : 0);
}

static void put_numbers_summary(struct strbuf *out, const struct column_summary *s, unsigned flags,
                                uint32_t n)
{
    strbuf_add_u64(out, s->first.u);
    if (flags & COLUMN_SAME) {
        if (s->min.type)
            strbuf_add_varint(out, zigzag((int64_t)(bits_of(s->sum) - bits_of(as_float(s->first) * n))));
        return;
    }
    strbuf_add_u64(out, s->last.u);
    if (!s->min.type)
        return;
    if (!(flags & (COLUMN_MIN_FIRST | COLUMN_MIN_LAST)))
        strbuf_add_u64(out, s->min.u);
    if (!(flags & (COLUMN_MAX_FIRST | COLUMN_MAX_LAST)))
        strbuf_add_u64(out, s->max.u);
    strbuf_add_u64(out, bits_of(s->sum));
}

static int put_column(struct blob_writer *w, struct chunk *chunk, const struct rows *rows,
                      const struct column *c)
{
    struct column_summary s;
    column_summarise(rows, c, 0, rows->n, &s);
    if (!s.count)
        return E_PROTO; /* columns without any value are not there: rows.h */
    unsigned flags = summary_flags(&s) | (s.count < rows->n ? COLUMN_MISSING : 0);
    strbuf_reset(&w->part);
    if (is_same(c, rows->n, &s)) {
        flags |= COLUMN_SAME;
    } else {
        int r = column_put(w->codec, c, rows->n, s.count, &w->part);
        if (r < 0)
            return r;
        flags |= w->part.n <= BLOB_INLINE_MAX ? COLUMN_HERE : 0;
    }
    struct strbuf *out = &w->records;
    strbuf_add_char(out, (char)flags);
    if (flags & COLUMN_MISSING) {
        strbuf_add_varint(out, s.count);
        strbuf_add_varint(out, (uint64_t)s.first_ns - (uint64_t)chunk->min_ns);
        strbuf_add_varint(out, (uint64_t)chunk->max_ns - (uint64_t)s.last_ns);
    }
    if (flags & COLUMN_NANS)
        strbuf_add_varint(out, s.nans);
    if (!value_is_text(c->type) || c->type == VALUE_NUMBER)
        put_numbers_summary(out, &s, flags, rows->n);
    if (flags & COLUMN_SAME)
        return 0;
    strbuf_add_varint(out, w->part.n);
    if (!(flags & COLUMN_HERE))
        return keep_piece(w, chunk, PIECE_FIXED + c->id, value_is_text(c->type));
    strbuf_add_slice(out, strbuf_slice(&w->part));
    return 0;
}

static int put_columns(struct blob_writer *w, struct chunk *chunk, const struct table_def *table,
                       const struct rows *rows)
{
    uint32_t next = 0;
    int r = 0;
    strbuf_add_varint(&w->records, rows->n_columns);
    for (uint32_t i = 0; i < rows->n_columns && r == 0; i++) {
        const struct column *c = &rows->columns[i];
        if (c->id < next || c->id >= table->n_columns || c->type != table->columns[c->id].type)
            return E_PROTO;
        strbuf_add_varint(&w->records, c->id - next);
        next = c->id + 1u;
        r = put_column(w, chunk, rows, c);
    }
    return r;
}

/* ---------------------------------------------------------------- filters of ids */

static bool is_id(const struct blob_writer *w, const struct field *f)
{
    if (f->type == VALUE_FLOAT || f->type == VALUE_BOOL)
        return false;
    for (size_t i = 0; i < w->n_ids; i++)
        if (slice_eq_str(f->name, w->ids[i]))
            return true;
    return false;
}

/* The hash of a value's text; of numbers the canonical one. Never 0. */
static uint64_t id_hash(struct value v)
{
    char text[NUM_TEXT_MAX];
    struct slice s = v.type == VALUE_INT    ? slice_of(text, num_print_int(text, v.i))
                     : v.type == VALUE_UINT ? slice_of(text, num_print_uint(text, v.u))
                                            : value_slice(v);
    return blob_id_hash(s);
}

/* The different ones: at the front of hashes; how many. */
static uint32_t gather_ids(struct blob_writer *w, const struct column *c, uint32_t n)
{
    uint32_t slots = 64, kept = 0;
    while (slots < 2 * n)
        slots *= 2;
    memset(w->hashes, 0, slots * sizeof w->hashes[0]);
    for (uint32_t i = 0; i < n; i++) {
        if (!column_has(c, i))
            continue;
        uint64_t hash = id_hash(column_value(c, i));
        uint32_t at = (uint32_t)hash & (slots - 1);
        while (w->hashes[at] && w->hashes[at] != hash)
            at = (at + 1) & (slots - 1);
        w->hashes[at] = hash;
    }
    for (uint32_t i = 0; i < slots; i++)
        if (w->hashes[i])
            w->hashes[kept++] = w->hashes[i];
    return kept;
}

static void put_filter(struct blob_writer *w, uint32_t n_ids)
{
    uint32_t n_bits = filter_bits(n_ids);
    strbuf_add_varint(&w->records, n_ids);
    unsigned char *bits = (unsigned char *)strbuf_room(&w->records, n_bits / 8);
    if (!bits)
        return;
    memset(bits, 0, n_bits / 8);
    for (uint32_t i = 0; i < n_ids; i++)
        for (unsigned k = 0; k < FILTER_PLACES; k++) {
            uint32_t place = filter_place(w->hashes[i], k, n_bits);
            bits[place / 8] |= (unsigned char)(1u << place % 8);
        }
    strbuf_advance(&w->records, n_bits / 8);
}

static void put_filters(struct blob_writer *w, const struct table_def *table, const struct rows *rows)
{
    uint32_t n = 0, before = 0;
    for (uint32_t i = 0; i < rows->n_columns; i++)
        n += is_id(w, &table->columns[rows->columns[i].id]);
    strbuf_add_varint(&w->records, n);
    for (uint32_t i = 0; i < rows->n_columns && n; i++) {
        const struct column *c = &rows->columns[i];
        if (!is_id(w, &table->columns[c->id]))
            continue;
        strbuf_add_varint(&w->records, c->id - before);
        before = c->id;
        put_filter(w, gather_ids(w, c, rows->n));
    }
}

/* ---------------------------------------------------------------- chunks */

static bool is_ordered(const int64_t *times, uint32_t n)
{
    bool is = true;
    for (uint32_t i = 1; i < n; i++)
        is &= times[i - 1] <= times[i];
    return is;
}

static int check_chunk(const struct blob_writer *w, const struct table_def *table, struct slice key,
                       const struct rows *rows)
{
    if (rows->n == 0 || rows->n > ROWS_CHUNK_MAX || rows->n_columns > table->n_columns ||
        table->n_columns > ROWS_COLUMNS_MAX || rows->n_origins > UINT16_MAX + 1 || key.n > BLOB_KEY_MAX ||
        w->n_chunks == BLOB_CHUNKS_MAX)
        return E_LIMIT;
    return is_ordered(rows->time_ns, rows->n) ? 0 : E_PROTO;
}

/* Back to n bytes, also from a failure. */
static void cut(struct strbuf *s, size_t n)
{
    s->failed = false;
    s->n = n;
    if (s->p)
        s->p[n] = '\0';
}

static int put_counts(struct blob_writer *w, struct chunk *c, const struct table_def *table,
                      const struct rows *rows)
{
    size_t at = w->counted.n;
    if (!w->shown.n)
        return 0;
    strbuf_reset(&w->part);
    if (counts_put_chunk(&w->counted, &w->shown, table, c->key, rows, &w->part)) {
        c->counts_at = at;
        c->counts_n = w->counted.n - at;
        return 0;
    }
    int r = strbuf_failed(&w->counted) ? -ENOMEM : 0;
    cut(&w->counted, at);
    return r;
}

static int put_chunk(struct blob_writer *w, const struct table_def *table, struct slice key,
                     const struct rows *rows)
{
    if (!has_room(&w->chunks, w->n_chunks, &w->chunks_cap, sizeof *w->chunks))
        return -ENOMEM;
    struct chunk *c = &w->chunks[w->n_chunks];
    *c = (struct chunk){.order = w->n_chunks,
                        .key = arena_copy(&w->arena, key),
                        .min_ns = rows->time_ns[0],
                        .max_ns = rows->time_ns[rows->n - 1],
                        .n_rows = rows->n,
                        .first_piece = w->n_pieces,
                        .at = w->records.n};
    int r = c->key.p ? find_section(w, table, &c->section) : -ENOMEM;
    r = r < 0 ? r : put_heads(w, c, rows);
    r = r < 0 ? r : put_columns(w, c, table, rows);
    if (r < 0)
        return r;
    put_filters(w, table, rows);
    c->n = w->records.n - c->at;
    r = put_counts(w, c, table, rows);
    if (r < 0)
        return r;
    return strbuf_failed(&w->records) ? -ENOMEM : w->records.n > BLOB_DIRECTORY_MAX / 2 ? E_LIMIT : 0;
}

int blob_writer_add(struct blob_writer *w, const struct table_def *table, struct slice key,
                    const struct rows *rows)
{
    if (w->is_finished)
        forget(w);
    uint32_t n_pieces = w->n_pieces;
    size_t records = w->records.n, bytes = w->bytes.n, counted = w->counted.n;
    int r = check_chunk(w, table, key, rows);
    if (r < 0)
        return r;
    r = put_chunk(w, table, key, rows);
    if (r < 0) {
        w->n_pieces = n_pieces;
        cut(&w->records, records);
        cut(&w->bytes, bytes);
        cut(&w->counted, counted);
        return r;
    }
    w->sections[w->chunks[w->n_chunks++].section].n_chunks++;
    return 0;
}

bool blob_writer_is_empty(const struct blob_writer *w)
{
    return w->is_finished || w->n_chunks == 0;
}

bool blob_writer_is_full(const struct blob_writer *w)
{
    double size = (double)w->bytes.n * w->ratio + (double)w->records.n / 2;
    return !w->is_finished && (size >= BLOB_SIZE || w->n_chunks == BLOB_CHUNKS_MAX);
}

/* ---------------------------------------------------------------- the order of things */

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_chunks(const void *pa, const void *pb)
{
    const struct chunk *a = pa, *b = pb;
    if (a->section != b->section)
        return compare_u64(a->section, b->section);
    int r = blob_compare_keys(a->key, b->key);
    if (r == 0)
        r = (a->min_ns > b->min_ns) - (a->min_ns < b->min_ns);
    return r ? r : compare_u64(a->order, b->order);
}

static int compare_pieces(const void *pa, const void *pb)
{
    const struct piece *a = pa, *b = pb;
    int r = (a->n >= BLOB_ALONE) - (b->n >= BLOB_ALONE);
    if (r == 0)
        r = compare_u64(a->section, b->section);
    if (r == 0)
        r = compare_u64(a->column, b->column);
    return r ? r : compare_u64(a->chunk, b->chunk);
}

/* Chunks in the order of the directory. */
static void sort_chunks(struct blob_writer *w)
{
    if (w->n_chunks)
        qsort(w->chunks, w->n_chunks, sizeof *w->chunks, compare_chunks);
    for (uint32_t i = 0; i < w->n_chunks; i++) {
        const struct chunk *c = &w->chunks[i];
        for (uint32_t k = 0; k < c->n_pieces; k++) {
            w->pieces[c->first_piece + k].chunk = i;
            w->pieces[c->first_piece + k].section = c->section;
        }
    }
}

/* Pieces in the order of the body, in memory of the caller's: chunks know theirs by place. NULL: there is
 * none. */
static struct piece *sort_pieces(const struct blob_writer *w)
{
    struct piece *p = mem_try_alloc((w->n_pieces + 1u) * sizeof *p);
    if (!p || !w->n_pieces)
        return p;
    memcpy(p, w->pieces, w->n_pieces * sizeof *p);
    qsort(p, w->n_pieces, sizeof *p, compare_pieces);
    return p;
}

/* ---------------------------------------------------------------- the body */

/* A frame into the body, packed if it may be and that is shorter by a 32nd at least, and into the content. */
static int put_frame(struct blob_writer *w, const char *bytes, size_t n, bool may_pack)
{
    size_t room = ZSTD_compressBound(n), packed = n;
    char *to = strbuf_room(&w->body, room);
    if (!to)
        return -ENOMEM;
    if (may_pack)
        packed = ZSTD_compressCCtx(w->zstd, to, room, bytes, n, w->zstd_level);
    if (ZSTD_isError(packed))
        return -ENOMEM; /* with room for its bound it has no other reason */
    if (packed > n - n / 32 - 1) {
        memcpy(to, bytes, n);
        packed = n;
    }
    strbuf_advance(&w->body, packed);
    strbuf_add_varint(&w->content, n);
    strbuf_add_varint(&w->content, n - packed);
    strbuf_add_u32(&w->content, crc32c(0, slice_of(to, packed)));
    return 0;
}

/* How many pieces from the first on are in one frame. */
static uint32_t frame_pieces(const struct piece *p, uint32_t n, size_t *size)
{
    *size = p[0].n;
    uint32_t k = 1;
    if (p[0].n >= BLOB_ALONE)
        return 1;
    for (; k < n && p[k].n < BLOB_ALONE && *size + p[k].n <= BLOB_FRAME_SIZE; k++)
        *size += p[k].n;
    return k;
}

static uint32_t count_frames(const struct piece *pieces, uint32_t n)
{
    uint32_t frames = 0;
    size_t size;
    for (uint32_t i = 0; i < n; frames++)
        i += frame_pieces(pieces + i, n - i, &size);
    return frames;
}

static int put_frames(struct blob_writer *w, const struct piece *pieces)
{
    size_t size;
    int r = 0;
    strbuf_add_varint(&w->content, count_frames(pieces, w->n_pieces));
    for (uint32_t i = 0, k; i < w->n_pieces && r == 0; i += k) {
        const struct piece *p = &pieces[i];
        k = frame_pieces(p, w->n_pieces - i, &size);
        if (p->n >= BLOB_ALONE) {
            r = put_frame(w, w->bytes.p + p->at, p->n, p->is_text);
            continue;
        }
        strbuf_reset(&w->frame);
        for (uint32_t j = 0; j < k; j++)
            strbuf_add(&w->frame, w->bytes.p + p[j].at, p[j].n);
        r = strbuf_failed(&w->frame) ? -ENOMEM : put_frame(w, w->frame.p, size, true);
    }
    return r;
}

/* ---------------------------------------------------------------- the directory */

static void put_table(struct strbuf *out, const struct table_def *t)
{
    strbuf_add_text(out, t->name);
    strbuf_add_varint(out, t->n_columns);
    for (uint32_t i = 0; i < t->n_columns; i++) {
        const struct field *f = &t->columns[i];
        strbuf_add_char(out, (char)f->type);
        strbuf_add_char(out, (char)(f->role << 4 | f->kind));
        strbuf_add_text(out, f->name);
        strbuf_add_text(out, f->unit);
        strbuf_add_text(out, f->help);
    }
}

static size_t shared_length(struct slice a, struct slice b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n])
        n++;
    return n;
}

/* blob_counts.h: of chunks of one section; length, then the bytes. */
static void put_section_counts(struct blob_writer *w, const struct chunk *chunks, uint32_t n)
{
    struct strbuf *out = &w->section_counts;
    struct slice key = {"", 0};
    bool has_any = false;
    strbuf_reset(out);
    strbuf_add_varint(out, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct chunk *c = &chunks[i];
        strbuf_add_varint(out, c->counts_n ? c->n_rows : 0);
        if (!c->counts_n)
            continue;
        size_t shared = shared_length(key, c->key);
        strbuf_add_varint(out, shared);
        strbuf_add_text(out, slice_from(c->key, shared));
        strbuf_add(out, w->counted.p + c->counts_at, c->counts_n);
        key = c->key;
        has_any = true;
    }
    w->counts.failed |= strbuf_failed(out);
    strbuf_add_text(&w->counts, has_any ? strbuf_slice(out) : SLICE_LIT(""));
}

/* Chunks [from, from + n), all of one section. */
static void put_section(struct blob_writer *w, const struct chunk *chunks, uint32_t n,
                        struct blob_section *out)
{
    const struct section *s = &w->sections[chunks[0].section];
    struct slice key = {"", 0};
    int64_t min_ns = 0;
    *out = (struct blob_section){s->table.name, chunks[0].min_ns, chunks[0].max_ns, 0, 0};
    put_table(&w->content, &s->table);
    strbuf_add_varint(&w->content, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct chunk *c = &chunks[i];
        size_t shared = shared_length(key, c->key);
        out->streams += i == 0 || !slice_eq(key, c->key);
        out->rows += c->n_rows;
        out->min_ns = c->min_ns < out->min_ns ? c->min_ns : out->min_ns;
        out->max_ns = c->max_ns > out->max_ns ? c->max_ns : out->max_ns;
        strbuf_add_varint(&w->content, shared);
        strbuf_add_text(&w->content, slice_from(c->key, shared));
        strbuf_add_varint(&w->content, c->n_rows);
        strbuf_add_varint(&w->content, zigzag((int64_t)((uint64_t)c->min_ns - (uint64_t)min_ns)));
        strbuf_add_varint(&w->content, (uint64_t)c->max_ns - (uint64_t)c->min_ns);
        strbuf_add(&w->content, w->records.p + c->at, c->n);
        key = c->key;
        min_ns = c->min_ns;
    }
    if (w->shown.n)
        put_section_counts(w, chunks, n);
}

static void put_content(struct blob_writer *w, struct blob_section *sections, size_t *n_sections)
{
    strbuf_add_varint(&w->content, w->n_makers);
    strbuf_add_slice(&w->content, strbuf_slice(&w->maker_bytes));
    strbuf_add_varint(&w->content, w->n_origins);
    strbuf_add_slice(&w->content, strbuf_slice(&w->origin_bytes));
    *n_sections = 0;
    for (uint32_t i = 0; i < w->n_sections; i++)
        *n_sections += w->sections[i].n_chunks > 0;
    strbuf_add_varint(&w->content, *n_sections);
    strbuf_add_varint(&w->content, w->n_chunks);
    size_t at = 0;
    for (uint32_t i = 0; i < w->n_chunks; i += w->sections[w->chunks[i].section].n_chunks)
        put_section(w, &w->chunks[i], w->sections[w->chunks[i].section].n_chunks, &sections[at++]);
}

static int pack_content(struct blob_writer *w)
{
    size_t n = w->content.n, room = ZSTD_compressBound(n);
    if (strbuf_failed(&w->content))
        return -ENOMEM;
    if (n > BLOB_DIRECTORY_MAX)
        return E_LIMIT;
    strbuf_add_u32(&w->directory, (uint32_t)n);
    char *to = strbuf_room(&w->directory, room);
    if (!to)
        return -ENOMEM;
    size_t packed = ZSTD_compressCCtx(w->zstd, to, room, w->content.p, n, w->zstd_level);
    if (ZSTD_isError(packed))
        return -ENOMEM;
    if (packed >= n) {
        memcpy(to, w->content.p, n);
        packed = n;
    }
    strbuf_advance(&w->directory, packed);
    return 0;
}

static void begin_half(const struct blob_writer *w, struct strbuf *out, const char *mark, uint64_t number)
{
    strbuf_reset(out);
    strbuf_add(out, mark, BLOB_MARK_SIZE);
    strbuf_add_char(out, (char)w->version);
    strbuf_add_u64(out, 0);
    strbuf_add_u64(out, number);
}

/* Length and CRC, now that all of it is there. */
static int end_half(struct strbuf *out)
{
    if (strbuf_failed(out))
        return -ENOMEM;
    uint32_t n = htole32((uint32_t)out->n), crc;
    memcpy(out->p + BLOB_AT_LENGTH, &n, sizeof n);
    crc = htole32(blob_crc(strbuf_slice(out)));
    memcpy(out->p + BLOB_AT_CRC, &crc, sizeof crc);
    return 0;
}

/* Both halves, of what was sorted. */
static int put_halves(struct blob_writer *w, const struct piece *pieces, uint64_t number, size_t *n_sections)
{
    begin_half(w, &w->directory, BLOB_DIRECTORY_MARK, number);
    begin_half(w, &w->body, BLOB_BODY_MARK, number);
    strbuf_reset(&w->content);
    strbuf_reset(&w->counts);
    int r = put_frames(w, pieces);
    if (r < 0)
        return r;
    put_content(w, w->out, n_sections);
    r = strbuf_failed(&w->counts) ? -ENOMEM : pack_content(w);
    r = r < 0 ? r : end_half(&w->directory);
    return r < 0 ? r : end_half(&w->body);
}

int blob_writer_finish(struct blob_writer *w, struct blob_bytes *out)
{
    uint64_t number;
    size_t n_sections;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return -EIO;
    sort_chunks(w);
    struct piece *pieces = sort_pieces(w);
    struct blob_section *sections = mem_try_resize(w->out, (w->n_sections + 1u) * sizeof *sections);
    w->out = sections ? sections : w->out;
    int r = pieces && sections ? put_halves(w, pieces, number, &n_sections) : -ENOMEM;
    mem_free(pieces);
    if (r < 0)
        return r;
    if (w->bytes.n)
        w->ratio = (w->ratio + (double)w->body.n / (double)w->bytes.n) / 2;
    w->is_finished = true;
    *out = (struct blob_bytes){strbuf_slice(&w->directory), strbuf_slice(&w->body), w->out, n_sections,
                               strbuf_slice(&w->counts)};
    return 0;
}
