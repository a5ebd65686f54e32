/* SPDX-License-Identifier: Apache-2.0 */
/* What is derived of random flushes is what a plain join of the same events gives: each event once, at every
 * zoom; a flush that fails changes nothing; what memory does not allow is counted. */
#include "unit/test.h"

#include "archive/lifeline.h"
#include "archive/lifeline_pyramid.h"
#include "base/mem.h"
#include "event/stream_key.h"

#include <errno.h>
#include <stdio.h>

#define S(n) (INT64_C(1000000000) * (n))

enum { NAMES = 4, HOSTS = 3, IDS = 40, FLUSH_MAX = 3000 };

struct plain {
    int64_t time_ns;
    uint64_t seq; /* unique: the order of what is at the same time */
    unsigned id, name, host;
    uint8_t level;
};

/* ---------------------------------------------------------------- the plain join */

enum { FIRST = NAMES, LATE };

struct expected {
    uint64_t count[NAMES + 2][NAMES], errors[NAMES + 2][NAMES];
    struct latency_histogram latency[NAMES][NAMES];
    uint64_t slowest[NAMES][NAMES]; /* latency + 1 */
    uint64_t edges[HOSTS][HOSTS];
};

struct reference {
    struct {
        bool is_known;
        int64_t time_ns;
        unsigned name, host;
    } last[IDS];
    uint64_t hops, firsts, late;
};

static int by_time(const void *a, const void *b)
{
    const struct plain *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->seq < y->seq ? -1 : 1;
}

static void plain_join(struct reference *ref, const struct plain *flush, size_t n, struct expected *out)
{
    struct plain e[FLUSH_MAX];
    memcpy(e, flush, n * sizeof *e);
    qsort(e, n, sizeof *e, by_time);
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        unsigned id = e[i].id, from = ref->last[id].name, to = e[i].name;
        bool is_late = ref->last[id].is_known && e[i].time_ns < ref->last[id].time_ns;
        if (is_late || !ref->last[id].is_known) {
            from = is_late ? LATE : FIRST;
            *(is_late ? &ref->late : &ref->firsts) += 1;
        } else {
            uint64_t latency = (uint64_t)(e[i].time_ns - ref->last[id].time_ns);
            out->latency[from][to].n[latency_bin(latency)]++;
            if (latency + 1 > out->slowest[from][to])
                out->slowest[from][to] = latency + 1;
            if (ref->last[id].host != e[i].host)
                out->edges[ref->last[id].host][e[i].host]++;
            ref->hops++;
        }
        out->count[from][to]++;
        out->errors[from][to] += e[i].level <= LEVEL_ERROR;
        if (is_late)
            continue;
        ref->last[id].is_known = true;
        ref->last[id].time_ns = e[i].time_ns;
        ref->last[id].name = to;
        ref->last[id].host = e[i].host;
    }
}

/* ---------------------------------------------------------------- rows as a head has them */

static const struct field columns[] = {
    {.name = {"note", 4}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT},
    {.name = {"id", 2}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT},
    {.name = {"id", 2}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_INT},
};

static struct table_def table_of(unsigned name)
{
    static const char *const names[NAMES] = {"job.start", "job.read", "job.write", "job.end"};
    return (struct table_def){.name = slice_str(names[name]), .columns = columns, .n_columns = 3};
}

static void make_key(struct strbuf *out, unsigned name, unsigned host)
{
    static const char *const hosts[HOSTS] = {"alpha", "beta", "gamma"};
    struct schema *s;
    struct table_def t = table_of(name);
    assert_int_equal(schema_create(t.name, NULL, 0, &s), 0);
    struct event e = {.host = slice_str(hosts[host]), .prog = SLICE_LIT("p"), .schema = s};
    strbuf_reset(out);
    stream_key_put(out, &e);
    schema_unref(s);
}

/* Rows of one stream, with ids as text, or (those of odd number) as an int: both are the same id. */
struct stream {
    struct strbuf key, text;
    struct table_def table;
    int64_t time_ns[FLUSH_MAX], number[FLUSH_MAX];
    uint8_t level[FLUSH_MAX];
    uint64_t seq[FLUSH_MAX], has_text[FLUSH_MAX / 64 + 1], has_number[FLUSH_MAX / 64 + 1];
    uint32_t ends[FLUSH_MAX];
    struct column columns[2];
    struct rows rows;
};

static void fill_stream(struct stream *s, const struct plain *flush, size_t n, unsigned name, unsigned host)
{
    struct plain e[FLUSH_MAX];
    uint32_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (flush[i].name == name && flush[i].host == host)
            e[k++] = flush[i];
    qsort(e, k, sizeof *e, by_time);
    strbuf_reset(&s->text);
    memset(s->has_text, 0, sizeof s->has_text);
    memset(s->has_number, 0, sizeof s->has_number);
    for (uint32_t i = 0; i < k; i++) {
        s->time_ns[i] = e[i].time_ns;
        s->level[i] = e[i].level;
        s->seq[i] = e[i].seq;
        if (e[i].seq % 2) {
            s->number[i] = e[i].id;
            s->has_number[i / 64] |= UINT64_C(1) << (i % 64);
        } else {
            strbuf_printf(&s->text, "%u", e[i].id);
            s->has_text[i / 64] |= UINT64_C(1) << (i % 64);
        }
        s->ends[i] = (uint32_t)s->text.n;
    }
    s->table = table_of(name);
    make_key(&s->key, name, host);
    s->columns[0] = (struct column){.id = 1,
                                    .type = VALUE_TEXT,
                                    .ends = s->ends,
                                    .bytes = strbuf_slice(&s->text).p,
                                    .present = s->has_text};
    s->columns[1] = (struct column){.id = 2, .type = VALUE_INT, .i = s->number, .present = s->has_number};
    s->rows = (struct rows){.n = k,
                            .n_columns = 2,
                            .time_ns = s->time_ns,
                            .level = s->level,
                            .seq = s->seq,
                            .columns = s->columns};
}

static struct stream *streams(void)
{
    static struct stream *all;
    if (!all)
        all = calloc(NAMES * HOSTS, sizeof *all);
    return all;
}

static int free_streams(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAMES * HOSTS; i++) {
        strbuf_fini(&streams()[i].key);
        strbuf_fini(&streams()[i].text);
    }
    free(streams());
    return 0;
}

static void show(const struct archive_derive_ops *ops, const struct plain *flush, size_t n)
{
    for (unsigned i = 0; i < NAMES * HOSTS; i++) {
        struct stream *s = &streams()[i];
        fill_stream(s, flush, n, i / HOSTS, i % HOSTS);
        if (s->rows.n)
            ops->rows(ops->arg, &s->table, strbuf_slice(&s->key), &s->rows);
    }
}

/* ---------------------------------------------------------------- what was derived */

static unsigned name_number(struct value v, bool is_late)
{
    if (v.type == VALUE_NONE)
        return is_late ? LATE : FIRST;
    for (unsigned i = 0; i < NAMES; i++)
        if (slice_eq(value_slice(v), table_of(i).name))
            return i;
    fail();
    return 0;
}

static unsigned host_number(struct value v)
{
    return v.p[0] == 'a' ? 0 : v.p[0] == 'b' ? 1 : 2;
}

static struct value get(const struct event *e, const char *name)
{
    return event_get(e, slice_str(name));
}

/* Of those rows that serve the zoom. */
static void add_derived(struct expected *to, const struct event *e, unsigned zoom)
{
    struct slice table = e->schema->name;
    bool is_outlier = slice_eq_str(table, "lifeline.outlier");
    if (slice_eq_str(table, "lifeline.lost"))
        return;
    assert_slice(value_slice(get(e, "ids")), "id");
    if (is_outlier ? zoom > get(e, "zoom").u : zoom < get(e, "serves_from").u || zoom > get(e, "serves_to").u)
        return;
    if (slice_eq_str(table, "lifeline.edge")) {
        to->edges[host_number(get(e, "src"))][host_number(get(e, "dst"))] += get(e, "count").u;
        return;
    }
    unsigned from = name_number(get(e, "hop_from"), get(e, "late").u),
             last = name_number(get(e, "hop_to"), false);
    if (is_outlier) {
        struct value latency = get(e, "latency_ns");
        assert_true(get(e, "slow").u || e->level <= LEVEL_ERROR);
        assert_int_equal(latency.type == VALUE_NONE, from >= NAMES);
        if (from < NAMES && latency.u + 1 > to->slowest[from][last])
            to->slowest[from][last] = latency.u + 1;
        return;
    }
    to->count[from][last] += get(e, "count").u;
    to->errors[from][last] += get(e, "errors").u;
    struct latency_histogram first = {{0}};
    struct latency_histogram *h = from < NAMES ? &to->latency[from][last] : &first;
    assert_int_equal(latency_histogram_add(value_slice(get(e, "latency")), h), 0);
}

enum { ZOOMS = 5 };
static const unsigned zooms[ZOOMS] = {0, 9, 13, 18, 31};

static int take_derived(const struct archive_derive_ops *ops, struct expected got[ZOOMS], size_t *rows)
{
    struct batch *b;
    int r;
    memset(got, 0, ZOOMS * sizeof *got);
    *rows = 0;
    while ((r = ops->derive(ops->arg, &b)) == 1) {
        for (size_t i = 0; i < b->n; i++)
            for (unsigned z = 0; z < ZOOMS; z++)
                add_derived(&got[z], &b->events[i], zooms[z]);
        *rows += b->n;
        batch_unref(b);
    }
    return r;
}

static size_t make_flush(struct plain *out, uint64_t *s, int64_t at, uint64_t *seq)
{
    size_t n = 1 + test_random(s) % FLUSH_MAX;
    for (size_t i = 0; i < n; i++) {
        int64_t late = test_random(s) % 50 ? 0 : S(30);
        out[i] = (struct plain){.time_ns = at - late + (int64_t)(test_random(s) % S(20)),
                                .seq = ++*seq,
                                .id = (unsigned)(test_random(s) % IDS),
                                .name = (unsigned)(test_random(s) % NAMES),
                                .host = (unsigned)(test_random(s) % HOSTS),
                                .level = test_random(s) % 30 ? LEVEL_INFO : (uint8_t)(test_random(s) % 5)};
        if (i && test_random(s) % 10 == 0)
            out[i].time_ns = out[i - 1].time_ns;
    }
    return n;
}

static void same_as_a_plain_join(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6 * test_scale(); seed++) {
        struct lifeline *l;
        assert_int_equal(lifeline_create(&(struct lifeline_options){.partition_ns = S(3600)}, &l, NULL), 0);
        struct archive_derive_ops ops = lifeline_ops(l);
        struct reference ref = {.hops = 0};
        struct lifeline_counts counts;
        uint64_t s = seed, seq = 0;
        for (unsigned flush = 0; flush < 8; flush++) {
            static struct plain events[FLUSH_MAX];
            static struct expected want, got[ZOOMS];
            size_t rows;
            size_t n = make_flush(events, &s, S(1700000000) + S(20) * flush, &seq);
            if (test_random(&s) % 3 == 0) { /* the disk is full: as if it had not been */
                show(&ops, events, n);
                assert_int_equal(take_derived(&ops, got, &rows), 0);
                ops.end(ops.arg, false);
            }
            show(&ops, events, n);
            assert_int_equal(take_derived(&ops, got, &rows), 0);
            ops.end(ops.arg, true);
            plain_join(&ref, events, n, &want);
            for (unsigned z = 0; z < ZOOMS; z++)
                assert_memory_equal(&got[z], &want, sizeof want);
            lifeline_counts(l, &counts);
            assert_int_equal(counts.hops, ref.hops);
            assert_int_equal(counts.firsts, ref.firsts);
            assert_int_equal(counts.late, ref.late);
            assert_int_equal(counts.events, ref.hops + ref.firsts + ref.late);
        }
        assert_true(ref.late > 0 && counts.open <= IDS);
        lifeline_destroy(l);
    }
}

static void more_open_ids_than_allowed(void **state)
{
    (void)state;
    struct lifeline *l;
    assert_int_equal(lifeline_create(&(struct lifeline_options){.open_max = 20}, &l, NULL), 0);
    struct archive_derive_ops ops = lifeline_ops(l);
    static struct plain events[IDS];
    static struct expected got[ZOOMS];
    for (unsigned i = 0; i < IDS; i++)
        events[i] = (struct plain){.time_ns = S(100) + S(i), .seq = i + 1, .id = i, .level = LEVEL_INFO};
    size_t rows;
    show(&ops, events, IDS);
    assert_int_equal(take_derived(&ops, got, &rows), 0);
    ops.end(ops.arg, true);
    struct lifeline_counts c;
    lifeline_counts(l, &c);
    assert_int_equal(c.open, 15);
    assert_int_equal(c.forgotten, IDS - 15);

    /* The newest are known, and it is said that others are not. */
    for (unsigned i = 0; i < IDS; i++)
        events[i].time_ns += S(1000);
    show(&ops, events, IDS);
    struct batch *b;
    uint64_t said = 0;
    while (ops.derive(ops.arg, &b) == 1) {
        for (size_t i = 0; i < b->n; i++)
            if (slice_eq_str(b->events[i].schema->name, "lifeline.lost"))
                said += get(&b->events[i], "forgotten").u;
        batch_unref(b);
    }
    ops.end(ops.arg, true);
    assert_int_equal(said, IDS - 15);
    lifeline_counts(l, &c);
    assert_int_equal(c.hops, 15);
    assert_int_equal(c.firsts, IDS + IDS - 15);
    lifeline_destroy(l);
}

static void without_memory(void **state)
{
    (void)state;
    static struct plain events[FLUSH_MAX];
    static struct expected got[ZOOMS];
    uint64_t s = 7, seq = 0;
    size_t n = make_flush(events, &s, S(1000000), &seq);
    bool is_through = false;
    for (uint64_t nth = 1; !is_through; nth++) {
        struct lifeline *l;
        assert_int_equal(lifeline_create(&(struct lifeline_options){.ids = NULL}, &l, NULL), 0);
        struct archive_derive_ops ops = lifeline_ops(l);
        for (unsigned i = 0; i < NAMES * HOSTS; i++)
            fill_stream(&streams()[i], events, n, i / HOSTS, i % HOSTS);
        mem_fail_after(nth);
        for (unsigned i = 0; i < NAMES * HOSTS; i++)
            ops.rows(ops.arg, &streams()[i].table, strbuf_slice(&streams()[i].key), &streams()[i].rows);
        struct batch *b;
        uint64_t derived = 0;
        while (ops.derive(ops.arg, &b) == 1) {
            for (size_t i = 0; i < b->n; i++)
                if (slice_eq_str(b->events[i].schema->name, "lifeline.pair") &&
                    get(&b->events[i], "serves_to").u == 31)
                    derived += get(&b->events[i], "count").u;
            batch_unref(b);
        }
        ops.end(ops.arg, true);
        mem_fail_after(0);
        struct lifeline_counts c;
        lifeline_counts(l, &c);
        assert_int_equal(c.events + c.no_memory, n);
        assert_int_equal(derived, c.events);
        is_through = c.no_memory == 0 && c.forgotten == 0 && c.open > 0;
        size_t rows; /* and the next one works */
        show(&ops, events, n);
        assert_int_equal(take_derived(&ops, got, &rows), 0);
        ops.end(ops.arg, true);
        lifeline_destroy(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_a_plain_join),
        cmocka_unit_test(more_open_ids_than_allowed),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, free_streams);
}
