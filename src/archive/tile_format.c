/* SPDX-License-Identifier: Apache-2.0 */
/* GLT1, all little-endian:
 *
 *     offset size
 *      0     4    "GLT1"
 *      4     2    version, 1
 *      6     2    kind
 *      8     2    level
 *     10     2    flags
 *     12     4    CRC-32C of all bytes of the tile, with this field 0
 *     16     8    index, signed: the tile is [index, index + 1) * 256 * 4^level ns
 *     24     8    base_ns, signed: the time of t = 0
 *     32     8    span_ns, a power of two: t is in units of span_ns / 2^32
 *     40     4    columns
 *     44     4    bytes of the tile
 *     48     8    left_out
 *     56     8    lost
 *     64          for each column 16 bytes: u16 column, u8 type, u8 group, u32 values, u32 offset, u32 bytes
 *                 then the columns, each from an offset that is a multiple of 8
 *
 * A column of text is u32 for each value, where it ends, counted from behind the last of these; then the
 * bytes. A reader leaves columns out that it does not know. */
#include "archive/tile_format.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/num.h"
#include "event/csv.h"
#include "event/json.h"

#include <errno.h>
#include <math.h>

enum { VERSION = 1, COLUMN_ENTRY = 16, CRC_AT = 12, COLUMNS_SEEN_MAX = 256 };

enum {
    GROUP_MAIN,
    GROUP_ONE,
    GROUP_STREAM,
    GROUP_EVENT,
    GROUP_HOST,
    GROUP_PATH,
    GROUP_PATH_EVENT,
    GROUP_VERTEX,
    GROUP_PAIR,
    GROUP_OUTLIER,
    GROUP_NODE,
    GROUP_HOP,
    GROUPS
};

static const struct tile_column_def defs[COLUMNS] = {
    [COLUMN_BIN_NS] = {"bin_ns", TILE_U64, GROUP_ONE, 0},
    [COLUMN_STREAM] = {"streams", TILE_TEXT, GROUP_STREAM, 0},
    [COLUMN_ROW] = {"row", TILE_U16, GROUP_MAIN, COLUMN_STREAM},
    [COLUMN_T] = {"t", TILE_U32, GROUP_MAIN, 0},
    [COLUMN_FIRST] = {"first", TILE_F64, GROUP_MAIN, 0},
    [COLUMN_MIN] = {"min", TILE_F64, GROUP_MAIN, 0},
    [COLUMN_MAX] = {"max", TILE_F64, GROUP_MAIN, 0},
    [COLUMN_LAST] = {"last", TILE_F64, GROUP_MAIN, 0},
    [COLUMN_COUNT] = {"count", TILE_U32, GROUP_MAIN, 0},
    [COLUMN_SEVERITY] = {"severity", TILE_U8, GROUP_MAIN, 0},
    [COLUMN_ID] = {"id", TILE_TEXT, GROUP_MAIN, 0},
    [COLUMN_EVENT] = {"events", TILE_TEXT, GROUP_EVENT, 0},
    [COLUMN_HOST] = {"hosts", TILE_TEXT, GROUP_HOST, 0},
    [COLUMN_PATH_END] = {"path_end", TILE_U32, GROUP_PATH, 0},
    [COLUMN_PATH_EVENT] = {"path_event", TILE_U16, GROUP_PATH_EVENT, COLUMN_EVENT},
    [COLUMN_PATH] = {"path", TILE_U32, GROUP_MAIN, COLUMN_PATH_END},
    [COLUMN_VERTEX_T] = {"vertex_t", TILE_U32, GROUP_VERTEX, 0},
    [COLUMN_VERTEX_HOST] = {"vertex_host", TILE_U16, GROUP_VERTEX, COLUMN_HOST},
    [COLUMN_PAIR_FROM] = {"pair_from", TILE_U16, GROUP_PAIR, COLUMN_EVENT},
    [COLUMN_PAIR_TO] = {"pair_to", TILE_U16, GROUP_PAIR, COLUMN_EVENT},
    [COLUMN_PAIR_LATE] = {"pair_late", TILE_U8, GROUP_PAIR, 0},
    [COLUMN_PAIR] = {"pair", TILE_U16, GROUP_MAIN, COLUMN_PAIR_TO},
    [COLUMN_LATENCY_BIN] = {"latency_bin", TILE_U8, GROUP_MAIN, 0},
    [COLUMN_OUTLIER_PAIR] = {"outlier_pair", TILE_U16, GROUP_OUTLIER, COLUMN_PAIR_TO},
    [COLUMN_OUTLIER_T] = {"outlier_t", TILE_U32, GROUP_OUTLIER, 0},
    [COLUMN_OUTLIER_LATENCY] = {"outlier_latency_ns", TILE_F64, GROUP_OUTLIER, 0},
    [COLUMN_OUTLIER_SEVERITY] = {"outlier_severity", TILE_U8, GROUP_OUTLIER, 0},
    [COLUMN_OUTLIER_HOST] = {"outlier_host", TILE_U16, GROUP_OUTLIER, COLUMN_HOST},
    [COLUMN_OUTLIER_ID] = {"outlier_id", TILE_TEXT, GROUP_OUTLIER, 0},
    [COLUMN_NODE] = {"nodes", TILE_TEXT, GROUP_NODE, 0},
    [COLUMN_SRC] = {"src", TILE_U32, GROUP_MAIN, COLUMN_NODE},
    [COLUMN_DST] = {"dst", TILE_U32, GROUP_MAIN, COLUMN_NODE},
    [COLUMN_RATE] = {"rate", TILE_F32, GROUP_MAIN, 0},
    [COLUMN_ERRORS] = {"errors", TILE_U32, GROUP_MAIN, 0},
    [COLUMN_P50] = {"p50", TILE_F32, GROUP_MAIN, 0},
    [COLUMN_P99] = {"p99", TILE_F32, GROUP_MAIN, 0},
    [COLUMN_HOP_EDGE] = {"hop_edge", TILE_U16, GROUP_HOP, COLUMN_SRC},
    [COLUMN_HOP_T] = {"hop_t", TILE_U32, GROUP_HOP, 0},
    [COLUMN_HOP_LATENCY] = {"hop_latency", TILE_F32, GROUP_HOP, 0},
    [COLUMN_HOP_SEVERITY] = {"hop_severity", TILE_U8, GROUP_HOP, 0},
    [COLUMN_NODE_FIRST] = {"node_first", TILE_U32, GROUP_NODE, 0},
};

static const uint8_t type_size[] = {[TILE_U8] = 1,  [TILE_U16] = 2, [TILE_U32] = 4, [TILE_U64] = 8,
                                    [TILE_F32] = 4, [TILE_F64] = 8, [TILE_TEXT] = 4};

const struct tile_column_def *tile_column_def(unsigned column)
{
    return column < COLUMNS && defs[column].name ? &defs[column] : NULL;
}

const char *tile_kind_name(unsigned kind)
{
    static const char *const names[TILE_KINDS] = {[TILE_SERIES] = "series",
                                                  [TILE_POINTS] = "points",
                                                  [TILE_LIFELINE_EXACT] = "lifeline-exact",
                                                  [TILE_LIFELINE_DENSITY] = "lifeline-density",
                                                  [TILE_EDGES] = "edges"};
    return kind < TILE_KINDS ? names[kind] : NULL;
}

/* ---------------------------------------------------------------- writing */

void tile_writer_fini(struct tile_writer *w)
{
    for (unsigned c = 0; c < COLUMNS; c++) {
        strbuf_fini(&w->columns[c].values);
        strbuf_fini(&w->columns[c].text);
    }
}

void tile_declare(struct tile_writer *w, enum tile_column c)
{
    w->columns[c].is_there = true;
}

static void put_bits(struct tile_writer *w, enum tile_column c, uint64_t bits)
{
    unsigned char bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(bits >> (8 * i));
    strbuf_add(&w->columns[c].values, bytes, type_size[defs[c].type]);
    w->columns[c].is_there = true;
    w->columns[c].n++;
}

void tile_put_uint(struct tile_writer *w, enum tile_column c, uint64_t v)
{
    unsigned bits = 8u * type_size[defs[c].type];
    uint64_t max = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    put_bits(w, c, v < max ? v : max);
}

void tile_put_float(struct tile_writer *w, enum tile_column c, double v)
{
    uint64_t bits;
    uint32_t short_bits;
    float f = (float)v;
    memcpy(&bits, &v, sizeof v);
    memcpy(&short_bits, &f, sizeof f);
    put_bits(w, c, defs[c].type == TILE_F32 ? short_bits : bits);
}

void tile_put_text(struct tile_writer *w, enum tile_column c, struct slice s)
{
    strbuf_add_slice(&w->columns[c].text, s);
    put_bits(w, c, w->columns[c].text.n);
}

static size_t column_bytes(const struct tile_writer *w, unsigned c)
{
    return w->columns[c].values.n + w->columns[c].text.n;
}

static size_t aligned(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

size_t tile_size(const struct tile_writer *w)
{
    size_t n = TILE_HEAD;
    for (unsigned c = 0; c < COLUMNS; c++)
        if (w->columns[c].is_there)
            n += COLUMN_ENTRY + aligned(column_bytes(w, c));
    return n;
}

uint32_t tile_time(const struct tile_head *h, int64_t time_ns)
{
    if (time_ns <= h->base_ns)
        return 0;
    uint64_t ns = (uint64_t)time_ns - (uint64_t)h->base_ns;
    unsigned bits = (unsigned)__builtin_ctzll(h->span_ns);
    if (ns >= h->span_ns)
        return UINT32_MAX;
    return (uint32_t)(bits >= 32 ? ns >> (bits - 32) : ns << (32 - bits));
}

static void put_head(const struct tile_writer *w, uint32_t n_columns, uint32_t size, struct strbuf *out)
{
    const struct tile_head *h = &w->head;
    uint16_t flags = (uint16_t)(h->flags | (h->left_out ? TILE_LEFT_OUT : 0) | (h->lost ? TILE_DAMAGED : 0));
    strbuf_add_str(out, "GLT1");
    strbuf_add_u16(out, VERSION);
    strbuf_add_u16(out, h->kind);
    strbuf_add_u16(out, h->level);
    strbuf_add_u16(out, flags);
    strbuf_add_u32(out, 0);
    strbuf_add_u64(out, (uint64_t)h->index);
    strbuf_add_u64(out, (uint64_t)h->base_ns);
    strbuf_add_u64(out, h->span_ns);
    strbuf_add_u32(out, n_columns);
    strbuf_add_u32(out, size);
    strbuf_add_u64(out, h->left_out);
    strbuf_add_u64(out, h->lost);
}

static void put_columns(const struct tile_writer *w, size_t at, struct strbuf *out)
{
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (!w->columns[c].is_there)
            continue;
        strbuf_add_u16(out, (uint16_t)c);
        strbuf_add_char(out, (char)defs[c].type);
        strbuf_add_char(out, (char)defs[c].group);
        strbuf_add_u32(out, w->columns[c].n);
        strbuf_add_u32(out, (uint32_t)at);
        strbuf_add_u32(out, (uint32_t)column_bytes(w, c));
        at += aligned(column_bytes(w, c));
    }
    for (unsigned c = 0; c < COLUMNS; c++) {
        size_t n = column_bytes(w, c);
        strbuf_add_slice(out, strbuf_slice(&w->columns[c].values));
        strbuf_add_slice(out, strbuf_slice(&w->columns[c].text));
        strbuf_add(out, "\0\0\0\0\0\0\0", aligned(n) - n);
    }
}

int tile_finish(const struct tile_writer *w, struct strbuf *out)
{
    uint32_t n = 0;
    size_t size = tile_size(w), from = out->n;
    for (unsigned c = 0; c < COLUMNS; c++) {
        n += w->columns[c].is_there;
        if (strbuf_failed(&w->columns[c].values) || strbuf_failed(&w->columns[c].text))
            return -ENOMEM;
    }
    if (size > UINT32_MAX)
        return E_LIMIT;
    put_head(w, n, (uint32_t)size, out);
    put_columns(w, TILE_HEAD + (size_t)n * COLUMN_ENTRY, out);
    if (strbuf_failed(out))
        return -ENOMEM;
    uint32_t crc = htole32(crc32c(0, slice_of(out->p + from, out->n - from)));
    memcpy(out->p + from + CRC_AT, &crc, sizeof crc);
    return 0;
}

/* ---------------------------------------------------------------- reading */

static uint32_t u32_at(const char *p, size_t i)
{
    uint32_t v;
    memcpy(&v, p + 4 * i, sizeof v);
    return le32toh(v);
}

static int check_text(const char *values, uint32_t n, size_t bytes)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t end = u32_at(values, i);
        if (end < last || end > bytes - 4 * (size_t)n)
            return E_PROTO;
        last = end;
    }
    return last == bytes - 4 * (size_t)n ? 0 : E_PROTO;
}

static int read_column(struct slice bytes, struct cursor *c, struct tile *out)
{
    uint16_t column = cursor_u16(c);
    uint8_t type = cursor_u8(c), group = cursor_u8(c);
    uint64_t n = cursor_u32(c), at = cursor_u32(c), size = cursor_u32(c);
    if (c->bad || at % 8 || at > bytes.n || size > bytes.n - at || type < TILE_U8 || type > TILE_TEXT)
        return E_PROTO;
    if (type == TILE_TEXT ? size < 4 * n : size != n * type_size[type])
        return E_PROTO;
    const struct tile_column_def *d = tile_column_def(column);
    if (!d)
        return 0;
    if (d->type != type || d->group != group || out->columns[column].is_there)
        return E_PROTO;
    if (type == TILE_TEXT && check_text(bytes.p + at, (uint32_t)n, (size_t)size) < 0)
        return E_PROTO;
    out->columns[column].is_there = true;
    out->columns[column].n = (uint32_t)n;
    out->columns[column].values = bytes.p + at;
    out->columns[column].text = bytes.p + at + 4 * n;
    return 0;
}

/* Columns of a group are as long, and numbers are of something. */
static int check_groups(const struct tile *t)
{
    int64_t lengths[GROUPS];
    memset(lengths, -1, sizeof lengths);
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (!t->columns[c].is_there)
            continue;
        int64_t *n = &lengths[defs[c].group];
        if (*n >= 0 && *n != t->columns[c].n)
            return E_PROTO;
        *n = t->columns[c].n;
        for (uint32_t i = 0; defs[c].refers && i < t->columns[c].n; i++)
            if (tile_uint(t, (enum tile_column)c, i) >= t->columns[defs[c].refers].n &&
                !(c == COLUMN_PAIR_FROM && tile_uint(t, COLUMN_PAIR_FROM, i) == UINT16_MAX))
                return E_PROTO;
    }
    return 0;
}

int tile_read(struct slice bytes, struct tile *out)
{
    struct tile t = {.head = {.kind = 0}};
    struct cursor c = cursor_of(bytes);
    if (bytes.n < TILE_HEAD || !slice_eq(cursor_bytes(&c, 4), SLICE_LIT("GLT1")))
        return E_PROTO;
    if (cursor_u16(&c) != VERSION)
        return E_VERSION;
    t.head.kind = cursor_u16(&c);
    t.head.level = cursor_u16(&c);
    t.head.flags = cursor_u16(&c);
    uint32_t crc = cursor_u32(&c);
    t.head.index = (int64_t)cursor_u64(&c);
    t.head.base_ns = (int64_t)cursor_u64(&c);
    t.head.span_ns = cursor_u64(&c);
    uint32_t n = cursor_u32(&c), size = cursor_u32(&c);
    t.head.left_out = cursor_u64(&c);
    t.head.lost = cursor_u64(&c);
    if (size != bytes.n || n > COLUMNS_SEEN_MAX)
        return E_PROTO;
    uint32_t is = crc32c(0, slice_of(bytes.p, CRC_AT));
    is = crc32c(crc32c(is, slice_of("\0\0\0", 4)), slice_from(bytes, CRC_AT + 4));
    if (is != crc)
        return E_DAMAGE;
    if (!tile_kind_name(t.head.kind) || t.head.level > TILE_LEVEL_MAX ||
        __builtin_popcountll(t.head.span_ns) != 1)
        return E_PROTO;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = read_column(bytes, &c, &t);
    if (r == 0)
        r = check_groups(&t);
    if (r == 0)
        *out = t;
    return r;
}

static uint64_t bits_of(const struct tile *t, enum tile_column c, uint32_t i)
{
    unsigned size = type_size[defs[c].type];
    const unsigned char *p = (const unsigned char *)t->columns[c].values + (size_t)i * size;
    uint64_t v = 0;
    for (unsigned k = 0; k < size; k++)
        v |= (uint64_t)p[k] << (8 * k);
    return v;
}

uint64_t tile_uint(const struct tile *t, enum tile_column c, uint32_t i)
{
    return bits_of(t, c, i);
}

double tile_float(const struct tile *t, enum tile_column c, uint32_t i)
{
    uint64_t bits = bits_of(t, c, i);
    uint32_t short_bits = (uint32_t)bits;
    double v;
    float f;
    memcpy(&f, &short_bits, sizeof f);
    memcpy(&v, &bits, sizeof v);
    return defs[c].type == TILE_F32 ? (double)f : v;
}

struct slice tile_text(const struct tile *t, enum tile_column c, uint32_t i)
{
    uint32_t from = i ? u32_at(t->columns[c].values, i - 1) : 0;
    return slice_of(t->columns[c].text + from, u32_at(t->columns[c].values, i) - from);
}

int64_t tile_time_ns(const struct tile *t, uint64_t at)
{
    unsigned bits = (unsigned)__builtin_ctzll(t->head.span_ns);
    uint64_t ns = bits >= 32 ? at << (bits - 32) : at >> (32 - bits);
    return (int64_t)((uint64_t)t->head.base_ns + ns);
}

/* ---------------------------------------------------------------- for people */

static void print_number(struct strbuf *out, const struct tile *t, unsigned c, uint32_t i)
{
    char text[NUM_TEXT_MAX];
    if (defs[c].type == TILE_F32 || defs[c].type == TILE_F64) {
        double v = tile_float(t, (enum tile_column)c, i);
        if (!isfinite(v))
            strbuf_add_str(out, "null");
        else
            strbuf_add(out, text, num_print_float(text, v));
        return;
    }
    strbuf_add(out, text, num_print_uint(text, tile_uint(t, (enum tile_column)c, i)));
}

void tile_print_json(const struct tile *t, struct strbuf *out)
{
    const struct tile_head *h = &t->head;
    strbuf_printf(out, "{\"kind\":\"%s\",\"level\":%u,\"index\":%lld,\"base_ns\":%lld,\"span_ns\":%llu,",
                  tile_kind_name(h->kind), h->level, (long long)h->index, (long long)h->base_ns,
                  (unsigned long long)h->span_ns);
    strbuf_printf(out, "\"open\":%s,\"coarse\":%s,\"left_out\":%llu,\"lost\":%llu",
                  h->flags & TILE_OPEN ? "true" : "false", h->flags & TILE_COARSE ? "true" : "false",
                  (unsigned long long)h->left_out, (unsigned long long)h->lost);
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (!t->columns[c].is_there)
            continue;
        strbuf_printf(out, ",\n\"%s\":[", defs[c].name);
        for (uint32_t i = 0; i < t->columns[c].n; i++) {
            if (i)
                strbuf_add_char(out, ',');
            if (defs[c].type == TILE_TEXT)
                json_add_string(out, tile_text(t, (enum tile_column)c, i));
            else
                print_number(out, t, c, i);
        }
        strbuf_add_char(out, ']');
    }
    strbuf_add_str(out, "}\n");
}

static void print_pair(struct strbuf *out, const struct tile *t, uint32_t pair)
{
    uint64_t from = t->columns[COLUMN_PAIR_FROM].is_there ? tile_uint(t, COLUMN_PAIR_FROM, pair) : UINT16_MAX;
    if (from != UINT16_MAX)
        strbuf_add_slice(out, tile_text(t, COLUMN_EVENT, (uint32_t)from));
    strbuf_add_char(out, '>');
    strbuf_add_slice(out, tile_text(t, COLUMN_EVENT, (uint32_t)tile_uint(t, COLUMN_PAIR_TO, pair)));
}

static void print_cell(struct strbuf *out, const struct tile *t, unsigned c, uint32_t i)
{
    char time[CLOCK_TEXT_MAX];
    if (c == COLUMN_T)
        strbuf_add(out, time, clock_print_iso(time, tile_time_ns(t, tile_uint(t, COLUMN_T, i))));
    else if (defs[c].type == TILE_TEXT)
        csv_put_text(out, tile_text(t, (enum tile_column)c, i));
    else if (c == COLUMN_PAIR)
        print_pair(out, t, (uint32_t)tile_uint(t, COLUMN_PAIR, i));
    else if (defs[c].refers && defs[defs[c].refers].type == TILE_TEXT)
        csv_put_text(out, tile_text(t, (enum tile_column)defs[c].refers,
                                    (uint32_t)tile_uint(t, (enum tile_column)c, i)));
    else
        print_number(out, t, c, i);
}

void tile_print_csv(const struct tile *t, struct strbuf *out)
{
    uint32_t rows = 0;
    bool is_first = true;
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (!t->columns[c].is_there || defs[c].group != GROUP_MAIN)
            continue;
        strbuf_printf(out, "%s%s", is_first ? "" : ",", defs[c].name);
        rows = t->columns[c].n;
        is_first = false;
    }
    strbuf_add_str(out, "\r\n");
    for (uint32_t i = 0; i < rows; i++) {
        is_first = true;
        for (unsigned c = 0; c < COLUMNS; c++) {
            if (!t->columns[c].is_there || defs[c].group != GROUP_MAIN)
                continue;
            if (!is_first)
                strbuf_add_char(out, ',');
            print_cell(out, t, c, i);
            is_first = false;
        }
        strbuf_add_str(out, "\r\n");
    }
}
