/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/rebuild_seqs.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>

enum { KEY_SIZE = 24 };

/* The numbers of one producer and epoch that are of interest: first to last. */
struct seq_range {
    char key[KEY_SIZE];
    uint64_t first, last;
    uint64_t *bits; /* a bit each: it is there */
};

void seqs_fini(struct seqs *s)
{
    void *v;
    for (size_t i = 0; map_next(&s->by_maker, &i, &v);)
        mem_free(((struct seq_range *)v)->bits);
    map_fini(&s->by_maker);
    arena_fini(&s->arena);
}

static struct slice key_of(const struct row_origin *by, char key[KEY_SIZE])
{
    memcpy(key, by->producer, 16);
    memcpy(key + 16, &by->epoch, 8);
    return slice_of(key, KEY_SIZE);
}

static struct seq_range *find(const struct seqs *s, const struct row_origin *by)
{
    char key[KEY_SIZE];
    return map_get(&s->by_maker, key_of(by, key));
}

int seqs_want(struct seqs *s, const struct row_origin *by, uint64_t after, uint64_t before, int64_t from_ns,
              int64_t to_ns)
{
    struct seq_range *r = find(s, by);
    if (s->by_maker.n == 0) {
        s->from_ns = from_ns;
        s->to_ns = to_ns;
    }
    s->from_ns = from_ns < s->from_ns ? from_ns : s->from_ns;
    s->to_ns = to_ns > s->to_ns ? to_ns : s->to_ns;
    if (!r) {
        r = arena_alloc(&s->arena, sizeof *r);
        if (!r)
            return -ENOMEM;
        *r = (struct seq_range){.first = after, .last = before};
        if (map_put(&s->by_maker, key_of(by, r->key), r) < 0)
            return -ENOMEM;
    }
    r->first = after < r->first ? after : r->first;
    r->last = before > r->last ? before : r->last;
    return 0;
}

static int make_bits(struct seqs *s, size_t bytes_max)
{
    void *v;
    for (size_t i = 0; map_next(&s->by_maker, &i, &v);) {
        struct seq_range *r = v;
        uint64_t words = (r->last - r->first) / 64 + 1;
        if (words > bytes_max / 8 || s->bytes + words * 8 > bytes_max)
            return E_LIMIT;
        r->bits = mem_try_alloc(words * 8);
        if (!r->bits)
            return -ENOMEM;
        s->bytes += words * 8;
    }
    return 0;
}

/* Chunks of heads do not say who made them: they are looked at. */
static bool may_have(void *arg, const struct table_def *table, const struct blob_chunk *c)
{
    const struct seqs *s = arg;
    bool is_any = c->by.n == 0;
    (void)table;
    for (uint32_t i = 0; i < c->by.n && !is_any; i++) {
        const struct seq_range *r = find(s, &c->by.origins[i]);
        is_any = r && c->by.first_seq[i] <= r->last && c->by.last_seq[i] >= r->first;
    }
    return is_any;
}

static void take_rows(struct seqs *s, const struct rows *rows)
{
    for (uint32_t i = 0; i < rows->n; i++) {
        struct seq_range *r = find(s, &rows->origins[rows->origin[i]]);
        /* Rows of one origin come one after the other, nearly always. */
        for (uint16_t origin = rows->origin[i]; i < rows->n && rows->origin[i] == origin; i++) {
            uint64_t seq = rows->seq[i];
            if (r && seq >= r->first && seq <= r->last)
                r->bits[(seq - r->first) / 64] |= UINT64_C(1) << ((seq - r->first) % 64);
        }
        i--;
    }
}

int seqs_read(struct seqs *s, struct view *v, size_t bytes_max, int (*go_on)(void *arg, uint64_t rows),
              void *arg, struct scan_loss *lost)
{
    struct scan_spec spec = {
        .from_ns = s->from_ns, .to_ns = s->to_ns, .may_have = may_have, .arg = s, .is_stored = true,
        .id_column = UINT16_MAX};
    struct scan *scan;
    struct scan_chunk chunk;
    int r = make_bits(s, bytes_max);
    if (r == 0 && s->by_maker.n == 0)
        return 0;
    if (r == 0)
        r = scan_open(v, &spec, &scan);
    if (r < 0)
        return r;
    while ((r = scan_next(scan, &chunk)) > 0) {
        struct rows rows;
        r = scan_read(scan, BLOB_ORIGINS, NULL, 0, &rows);
        if (r == 0)
            take_rows(s, &rows);
        if ((r == 0 || r == E_DAMAGE) && go_on)
            r = go_on(arg, chunk.chunk->n_rows);
        if (r < 0 && r != E_DAMAGE)
            break;
    }
    struct scan_loss l = scan_damaged(scan);
    lost->rows += l.rows;
    lost->chunks += l.chunks;
    lost->blobs += l.blobs;
    scan_close(scan);
    return r;
}

/* Bits [from, to) that are set. */
static uint64_t count_bits(const uint64_t *bits, uint64_t from, uint64_t to)
{
    uint64_t n = 0;
    for (uint64_t i = from; i < to;) {
        uint64_t in_word = 64 - i % 64, m = to - i < in_word ? to - i : in_word,
                 word = bits[i / 64] >> (i % 64);
        n += (uint64_t)__builtin_popcountll(m == 64 ? word : word & ((UINT64_C(1) << m) - 1));
        i += m;
    }
    return n;
}

uint64_t seqs_missing(const struct seqs *s, const struct row_origin *by, uint64_t after, uint64_t before)
{
    const struct seq_range *r = find(s, by);
    if (!r || !r->bits || after < r->first || before > r->last || before - after < 2)
        return 0;
    return before - after - 1 - count_bits(r->bits, after + 1 - r->first, before - r->first);
}
