/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of a column: the bitmap, if a row has no value; then the values of those rows that have one.
 *
 *   bitmap   its words of 64 bits, as numbers with a varint length before them
 *   numbers  number_codec.c
 *   text     u8 form, then
 *            plain       varint length, lengths as numbers; the bytes of all
 *            dictionary  varint n; varint length, lengths of entries as numbers; varint length, their bytes;
 *                        the entry of each row as numbers */
#include "archive/column_codec.h"

#include "archive/number_codec.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>

enum text_form { TEXT_PLAIN = 0, TEXT_DICTIONARY = 1 };
enum { SLOTS = 2 * ROWS_CHUNK_MAX, WORDS_MAX = ROWS_CHUNK_MAX / 64 };

struct column_codec {
    struct number_codec *numbers;
    uint64_t dense[ROWS_CHUNK_MAX];   /* values of the rows that have one */
    uint64_t lengths[ROWS_CHUNK_MAX]; /* of text */
    uint64_t places[ROWS_CHUNK_MAX];  /* of rows in the dictionary */
    uint64_t words[WORDS_MAX];
    struct slice texts[ROWS_CHUNK_MAX];
    uint32_t entries[ROWS_CHUNK_MAX]; /* dictionary: the row that had it first */
    uint16_t slots[SLOTS];            /* hash table of entries + 1; 0: free */
    struct strbuf part;               /* of a column, before its length is known */
};

struct column_codec *column_codec_create(void)
{
    struct column_codec *k = mem_try_alloc(sizeof *k);
    if (k)
        k->numbers = number_codec_create();
    if (k && k->numbers)
        return k;
    column_codec_destroy(k);
    return NULL;
}

void column_codec_destroy(struct column_codec *k)
{
    if (!k)
        return;
    strbuf_fini(&k->part);
    number_codec_destroy(k->numbers);
    mem_free(k);
}

/* As text: with its length before it. */
static int put_part(struct column_codec *k, const uint64_t *v, uint32_t n, struct strbuf *out)
{
    strbuf_reset(&k->part);
    number_put(k->numbers, VALUE_UINT, v, n, &k->part);
    if (strbuf_failed(&k->part))
        return -ENOMEM;
    strbuf_add_text(out, strbuf_slice(&k->part));
    return 0;
}

/* ---------------------------------------------------------------- rows without a value */

static uint32_t words_of(uint32_t n)
{
    return (n + 63) / 64;
}

static int put_bitmap(struct column_codec *k, const struct column *c, uint32_t n, struct strbuf *out)
{
    uint32_t n_words = words_of(n);
    memcpy(k->words, c->present, n_words * sizeof k->words[0]);
    if (n % 64)
        k->words[n_words - 1] &= (UINT64_C(1) << (n % 64)) - 1; /* what is behind the last row is anything */
    return put_part(k, k->words, n_words, out);
}

static int get_bitmap(struct cursor *c, uint32_t n, uint32_t count, struct arena *arena, uint64_t **out)
{
    uint32_t n_words = words_of(n), bits = 0;
    uint64_t *words = arena_alloc(arena, n_words * sizeof *words);
    if (!words)
        return -ENOMEM;
    if (number_get(cursor_text(c), VALUE_UINT, n_words, words) < 0 || c->bad)
        return E_PROTO;
    for (uint32_t i = 0; i < n_words; i++)
        bits += (uint32_t)__builtin_popcountll(words[i]);
    if (bits != count || (n % 64 && words[n_words - 1] >> (n % 64)))
        return E_PROTO;
    *out = words;
    return 0;
}

/* Values that stand together at the front of v go to their rows. From the last, so that none is overwritten
 * before it has moved. */
static void spread(uint64_t *v, uint32_t n, uint32_t count, const uint64_t *present)
{
    for (uint32_t i = n; i-- > 0;)
        v[i] = present[i >> 6] >> (i & 63) & 1 ? v[--count] : 0;
}

/* ---------------------------------------------------------------- text */

static struct slice text_at(const struct column *c, uint32_t row)
{
    uint32_t from = row ? c->ends[row - 1] : 0;
    return slice_of(c->bytes + from, c->ends[row] - from);
}

/* The texts of rows that have one, and how many bytes they are. */
static uint64_t gather_texts(struct column_codec *k, const struct column *c, uint32_t n)
{
    uint64_t bytes = 0;
    uint32_t to = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!column_has(c, i))
            continue;
        k->texts[to] = text_at(c, i);
        k->lengths[to] = k->texts[to].n;
        bytes += k->texts[to++].n;
    }
    return bytes;
}

/* Fills places and entries; how many entries. Gives up (0) when more than half the rows are new ones. */
static uint32_t make_dictionary(struct column_codec *k, uint32_t count)
{
    uint32_t n = 0, slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    memset(k->slots, 0, slots * sizeof k->slots[0]);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = hash_bytes(k->texts[i]) & (slots - 1);
        while (k->slots[at] && !slice_eq(k->texts[k->entries[k->slots[at] - 1]], k->texts[i]))
            at = (at + 1) & (slots - 1);
        if (!k->slots[at]) {
            if (n > count / 2)
                return 0;
            k->entries[n++] = i;
            k->slots[at] = (uint16_t)n;
        }
        k->places[i] = k->slots[at] - 1u;
    }
    return n;
}

static int put_dictionary(struct column_codec *k, uint32_t n_entries, uint32_t count, struct strbuf *out)
{
    uint64_t bytes = 0;
    strbuf_add_varint(out, n_entries);
    for (uint32_t i = 0; i < n_entries; i++) {
        k->lengths[i] = k->texts[k->entries[i]].n;
        bytes += k->lengths[i];
    }
    if (put_part(k, k->lengths, n_entries, out) < 0)
        return -ENOMEM;
    strbuf_add_varint(out, bytes);
    for (uint32_t i = 0; i < n_entries; i++)
        strbuf_add_slice(out, k->texts[k->entries[i]]);
    number_put(k->numbers, VALUE_UINT, k->places, count, out);
    return 0;
}

static int put_texts(struct column_codec *k, const struct column *c, uint32_t n, uint32_t count,
                     struct strbuf *out)
{
    if (gather_texts(k, c, n) > COLUMN_TEXT_MAX)
        return E_LIMIT;
    uint32_t n_entries = make_dictionary(k, count);
    strbuf_add_char(out, n_entries ? TEXT_DICTIONARY : TEXT_PLAIN);
    if (n_entries)
        return put_dictionary(k, n_entries, count, out);
    int r = put_part(k, k->lengths, count, out);
    for (uint32_t i = 0; i < count && r == 0; i++)
        strbuf_add_slice(out, k->texts[i]);
    return r;
}

/* Lengths as they are read; each may be as long as a value, all together as COLUMN_TEXT_MAX. */
static int get_lengths(struct cursor *c, uint32_t n, struct arena *arena, uint64_t **out, uint64_t *sum)
{
    uint64_t *lengths = arena_alloc(arena, n * sizeof *lengths);
    if (!lengths)
        return -ENOMEM;
    if (number_get(cursor_text(c), VALUE_UINT, n, lengths) < 0 || c->bad)
        return E_PROTO;
    *sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (lengths[i] > COLUMN_TEXT_MAX || (*sum += lengths[i]) > COLUMN_TEXT_MAX)
            return E_LIMIT;
    }
    *out = lengths;
    return 0;
}

static int get_plain(struct cursor *c, uint32_t count, struct arena *arena, struct slice *texts)
{
    uint64_t *lengths, sum;
    int r = get_lengths(c, count, arena, &lengths, &sum);
    if (r < 0)
        return r;
    if (cursor_left(c) != sum)
        return E_PROTO;
    for (uint32_t i = 0; i < count; i++)
        texts[i] = cursor_bytes(c, lengths[i]);
    return 0;
}

static int get_dictionary(struct cursor *c, uint32_t count, struct arena *arena, struct slice *texts)
{
    uint64_t n = cursor_varint(c), *lengths, sum;
    if (c->bad || n == 0 || n > count)
        return E_PROTO;
    int r = get_lengths(c, (uint32_t)n, arena, &lengths, &sum);
    if (r < 0)
        return r;
    struct cursor bytes = cursor_of(cursor_text(c));
    if (c->bad || cursor_left(&bytes) != sum)
        return E_PROTO;
    struct slice *entries = arena_alloc(arena, n * sizeof *entries);
    uint64_t *places = arena_alloc(arena, count * sizeof *places);
    if (!entries || !places)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        entries[i] = cursor_bytes(&bytes, lengths[i]);
    if (number_get(cursor_bytes(c, cursor_left(c)), VALUE_UINT, count, places) < 0)
        return E_PROTO;
    for (uint32_t i = 0; i < count; i++) {
        if (places[i] >= n)
            return E_PROTO;
        texts[i] = entries[places[i]];
    }
    return 0;
}

/* From the texts of those that have one to bytes and where each row's end. */
static int lay_out(const struct slice *texts, uint32_t n, struct arena *arena, struct column *out)
{
    uint64_t bytes = 0;
    uint32_t *ends = arena_alloc(arena, n * sizeof *ends), k = 0;
    if (!ends)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (column_has(out, i) && (bytes += texts[k++].n) > COLUMN_TEXT_MAX)
            return E_LIMIT;
        ends[i] = (uint32_t)bytes;
    }
    char *to = arena_alloc(arena, bytes ? bytes : 1);
    if (!to)
        return -ENOMEM;
    out->ends = ends;
    out->bytes = to;
    for (uint32_t i = 0; i < k; i++) {
        memcpy(to, texts[i].p, texts[i].n);
        to += texts[i].n;
    }
    return 0;
}

static int get_texts(struct cursor *c, uint32_t n, uint32_t count, struct arena *arena, struct column *out)
{
    struct slice *texts = arena_alloc(arena, count * sizeof *texts);
    if (!texts)
        return -ENOMEM;
    uint8_t form = cursor_u8(c);
    if (c->bad || form > TEXT_DICTIONARY)
        return E_PROTO;
    int r = form == TEXT_PLAIN ? get_plain(c, count, arena, texts) : get_dictionary(c, count, arena, texts);
    return r < 0 ? r : lay_out(texts, n, arena, out);
}

/* ---------------------------------------------------------------- columns */

void column_put_numbers(struct column_codec *k, const uint64_t *v, uint32_t n, struct strbuf *out)
{
    number_put(k->numbers, VALUE_UINT, v, n, out);
}

int column_get_numbers(struct slice in, uint32_t n, uint64_t *v)
{
    return number_get(in, VALUE_UINT, n, v);
}

/* The values of the rows that have one, side by side. */
static const uint64_t *gather_numbers(struct column_codec *k, const struct column *c, uint32_t n)
{
    if (!c->present)
        return c->u;
    uint32_t to = 0;
    for (uint32_t i = 0; i < n; i++) {
        k->dense[to] = c->u[i];
        to += column_has(c, i);
    }
    return k->dense;
}

int column_put(struct column_codec *k, const struct column *c, uint32_t n, uint32_t count, struct strbuf *out)
{
    int r = count < n ? put_bitmap(k, c, n, out) : 0;
    if (r < 0)
        return r;
    if (value_is_text(c->type))
        r = put_texts(k, c, n, count, out);
    else
        number_put(k->numbers, c->type, gather_numbers(k, c, n), count, out);
    return r < 0 ? r : strbuf_failed(out) ? -ENOMEM : 0;
}

int column_get(struct slice in, uint32_t n, uint32_t count, struct arena *arena, struct column *out)
{
    struct cursor c = cursor_of(in);
    uint64_t *present = NULL;
    int r = count < n ? get_bitmap(&c, n, count, arena, &present) : 0;
    if (r < 0)
        return r;
    out->present = present;
    if (value_is_text(out->type))
        return get_texts(&c, n, count, arena, out);
    uint64_t *v = arena_alloc(arena, n * sizeof *v);
    if (!v)
        return -ENOMEM;
    if (number_get(cursor_bytes(&c, cursor_left(&c)), out->type, count, v) < 0)
        return E_PROTO;
    if (present)
        spread(v, n, count, present);
    out->u = v;
    out->bytes = NULL;
    return 0;
}

int column_get_same(uint64_t bits, uint32_t n, struct arena *arena, struct column *out)
{
    uint64_t *v = arena_alloc(arena, n * sizeof *v);
    if (!v)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        v[i] = bits;
    out->u = v;
    out->bytes = NULL;
    out->present = NULL;
    return 0;
}
