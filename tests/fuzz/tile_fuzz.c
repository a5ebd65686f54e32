/* SPDX-License-Identifier: Apache-2.0 */
/* By the first byte: R, a request for a tile; T, a tile, whose CRC and length are made right, so that what is
 * behind them is reached; I, declarations of ids; H, a histogram of latencies.
 *   - a request that is taken names a tile whose time is what level and index say, and is taken again when it
 * is written anew; one that is refused says why;
 *   - a tile that is taken has texts and numbers within it, prints, and comes back the same when its columns
 *     are put into a writer;
 *   - declarations that are taken have names of fields; a histogram that is taken comes back from its bytes.
 */
#include "archive/lifeline_ids.h"
#include "archive/lifeline_pyramid.h"
#include "archive/tile.h"
#include "base/crc32c.h"
#include "base/text.h"

#include <stdlib.h>

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

static void add_word(struct strbuf *out, const char *name, struct slice value)
{
    strbuf_add_str(out, name);
    strbuf_add_slice(out, value);
    strbuf_add_char(out, '\0');
}

static void fuzz_request(struct slice text)
{
    static const char *const kinds[] = {"series",         "points",           "lifeline",
                                        "lifeline-exact", "lifeline-density", "edges"};
    static const char *const as[] = {"glt1", "json", "csv"};
    struct tile_request q, again;
    struct diag why = {.message = ""};
    int r = tile_request_parse(text, &q, &why);
    check(r == 0 || why.message[0]);
    if (r < 0)
        return;
    int64_t span = INT64_C(1) << (2 * q.level + 8);
    check(q.level <= TILE_LEVEL_MAX && q.from_ns == q.index * span && q.last_ns - q.from_ns == span - 1);
    struct strbuf new = {0};
    add_word(&new, kinds[q.ask], SLICE_LIT(""));
    add_word(&new, "", q.name);
    strbuf_printf(&new, "%u%c%lld%c", q.level, 0, (long long)q.index, 0);
    if (q.host.n)
        add_word(&new, "host=", q.host);
    if (q.key.n)
        add_word(&new, "key=", q.key);
    if (q.field.n)
        add_word(&new, "field=", q.field);
    if (q.event.n)
        add_word(&new, "event=", q.event);
    if (q.id.n)
        add_word(&new, "id=", q.id);
    if (q.where.n)
        add_word(&new, "where=", q.where);
    add_word(&new, "as=", slice_str(as[q.as]));
    check(tile_request_parse(strbuf_slice(&new), &again, NULL) == 0);
    check(again.ask == q.ask && again.index == q.index && again.level == q.level && again.as == q.as);
    check(slice_eq(again.name, q.name) && slice_eq(again.host, q.host) && slice_eq(again.key, q.key) &&
          slice_eq(again.field, q.field) && slice_eq(again.event, q.event) && slice_eq(again.id, q.id) &&
          slice_eq(again.where, q.where));
    strbuf_fini(&new);
}

static void copy_column(const struct tile *t, struct tile_writer *w, enum tile_column c)
{
    const struct tile_column_def *d = tile_column_def(c);
    tile_declare(w, c);
    for (uint32_t i = 0; i < t->columns[c].n; i++)
        if (d->type == TILE_TEXT)
            tile_put_text(w, c, tile_text(t, c, i));
        else /* floats by their bits: a NaN is one of many */
            tile_put_uint(w, c, d->type == TILE_F32 || d->type == TILE_F64 ? 0 : tile_uint(t, c, i));
}

static void fuzz_tile(struct slice text)
{
    struct strbuf bytes = {0}, out = {0};
    strbuf_add_slice(&bytes, text);
    if (bytes.n >= TILE_HEAD) {
        for (unsigned i = 0; i < 4; i++) {
            bytes.p[44 + i] = (char)(bytes.n >> (8 * i));
            bytes.p[12 + i] = 0;
        }
        uint32_t crc = crc32c(0, strbuf_slice(&bytes));
        for (unsigned i = 0; i < 4; i++)
            bytes.p[12 + i] = (char)(crc >> (8 * i));
    }
    struct tile t, again;
    if (bytes.n && tile_read(strbuf_slice(&bytes), &t) == 0) {
        struct tile_writer w = {.head = t.head};
        for (unsigned c = 0; c < COLUMNS; c++)
            if (t.columns[c].is_there)
                copy_column(&t, &w, (enum tile_column)c);
        tile_print_json(&t, &out);
        tile_print_csv(&t, &out);
        strbuf_reset(&out);
        check(tile_finish(&w, &out) == 0 && out.n == tile_size(&w));
        check(tile_read(strbuf_slice(&out), &again) == 0);
        for (unsigned c = 0; c < COLUMNS; c++) {
            check(again.columns[c].is_there == t.columns[c].is_there && again.columns[c].n == t.columns[c].n);
            for (uint32_t i = 0; i < t.columns[c].n && tile_column_def(c)->type == TILE_TEXT; i++)
                check(slice_eq(tile_text(&t, (enum tile_column)c, i),
                               tile_text(&again, (enum tile_column)c, i)));
        }
        tile_writer_fini(&w);
    }
    strbuf_fini(&bytes);
    strbuf_fini(&out);
}

static void fuzz_ids(struct slice text)
{
    struct strbuf z = {0};
    struct id_set s;
    struct diag why = {.message = ""};
    strbuf_add_slice(&z, text);
    int r = id_set_parse(z.p ? z.p : "", &s, &why);
    check(r == 0 || why.message[0]);
    if (r == 0) {
        check(s.n > 0 && s.n_fields > 0);
        for (size_t i = 0; i < s.n; i++)
            for (uint32_t f = 0; f < s.declared[i].n_fields; f++)
                check(text_is_name(s.declared[i].fields[f]));
        id_set_fini(&s);
    }
    strbuf_fini(&z);
}

static void fuzz_histogram(struct slice text)
{
    struct latency_histogram h = {{0}}, again = {{0}};
    struct strbuf out = {0};
    if (latency_histogram_add(text, &h) == 0) {
        latency_histogram_put(&h, &out);
        check(latency_histogram_add(strbuf_slice(&out), &again) == 0);
        check(memcmp(&h, &again, sizeof h) == 0);
        check(latency_histogram_quantile(&h, 0.5) <= latency_histogram_quantile(&h, 0.99));
    }
    strbuf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = {(const char *)data + 1, size - 1};
    if (size == 0)
        return 0;
    switch (data[0]) {
    case 'R':
        fuzz_request(rest);
        break;
    case 'T':
        fuzz_tile(rest);
        break;
    case 'I':
        fuzz_ids(rest);
        break;
    default:
        fuzz_histogram(rest);
    }
    return 0;
}
