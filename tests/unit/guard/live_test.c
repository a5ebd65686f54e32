/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "guard/live.h"
#include "guard/live_internal.h"

#include <errno.h>
#include <stdio.h>

#define T0 (INT64_C(1794776400) * NS_PER_S)

/* ---------------------------------------------------------------- a naive model */

enum { FIELDS = 5, NAMES = 3, SHAPES_OF = 6, STREAMS_MAX = 4000 };

static const char *const names[NAMES] = {"cpu", "job.state", "filesystem"};
static const char *const fields[FIELDS] = {"key", "used", "Used", "time", "state"};

/* A schema of some of the fields; "key" is a key field where it is text. */
static struct schema *make_schema(uint64_t *seed, const char *name)
{
    struct field list[FIELDS];
    size_t n = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        if (test_random(seed) % 4 == 0)
            continue;
        uint8_t type = i == 0 ? VALUE_TEXT : (uint8_t)(1 + test_random(seed) % 6);
        list[n++] = (struct field){.name = slice_str(fields[i]), .type = type, .role = i == 0};
    }
    struct schema *s = NULL;
    assert_int_equal(schema_create(slice_str(name), list, n, &s), 0);
    return s;
}

struct model_row {
    char key[64]; /* name, host, prog, key value */
    int64_t time_ns, heard_ns;
    const struct schema *schema;
    struct value values[FIELDS];
    char texts[FIELDS][16];
    char host[16];
    uint8_t level;
    bool is_there;
};

struct model {
    struct model_row rows[STREAMS_MAX];
    size_t n; /* used, those that have gone included */
};

static struct model_row *find_row(struct model *m, const char *key)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->rows[i].is_there && strcmp(m->rows[i].key, key) == 0)
            return &m->rows[i];
    return NULL;
}

static size_t count_rows(const struct model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += m->rows[i].is_there;
    return n;
}

static struct model_row *add_row(struct model *m, const char *key)
{
    size_t i = 0;
    while (i < m->n && m->rows[i].is_there)
        i++;
    assert_true(i < STREAMS_MAX);
    m->n = i == m->n ? i + 1 : m->n;
    (void)snprintf(m->rows[i].key, sizeof m->rows[i].key, "%s", key);
    m->rows[i].is_there = true;
    return &m->rows[i];
}

struct drawn {
    struct event e;
    char key[64], host[16];
    struct value values[FIELDS];
    char texts[FIELDS][16];
};

static void draw_value(uint64_t *seed, uint8_t type, char *text, struct value *out)
{
    uint64_t r = test_random(seed);
    if (r % 5 == 0) {
        *out = value_none();
    } else if (type == VALUE_FLOAT) {
        *out = value_float(r % 7 ? (double)(r % 100) / 8 : (double)NAN);
    } else if (value_is_text(type)) {
        size_t n = r % 15;
        memset(text, (int)('a' + r % 26), n);
        *out = type == VALUE_TEXT ? value_text(slice_of(text, n)) : value_bytes(slice_of(text, n));
    } else {
        out->u = type == VALUE_BOOL ? r % 2 : r % 9 ? r % 100 : UINT64_MAX - r % 3;
        out->type = type;
        out->n = 0;
    }
}

static void draw(uint64_t *seed, struct schema *const *schemas, size_t hosts, int64_t now, struct drawn *d)
{
    const struct schema *s = schemas[test_random(seed) % (NAMES * SHAPES_OF)];
    char key[16] = "";
    int n = snprintf(d->host, sizeof d->host, "h%zu.%s", (size_t)(test_random(seed) % hosts),
                     test_random(seed) % 2 ? "a" : "b");
    bool is_unknown = test_random(seed) % 20 == 0;
    for (uint32_t i = 0; i < s->n_fields; i++) {
        draw_value(seed, s->fields[i].type, d->texts[i], &d->values[i]);
        if (s->fields[i].role == ROLE_KEY && d->values[i].type != VALUE_NONE) {
            d->values[i].n = d->values[i].n % 3 + 1;
            memset(d->texts[i], 'k', 3);
            (void)snprintf(key, sizeof key, "%.*s", (int)d->values[i].n, d->texts[i]);
        }
    }
    if (is_unknown)
        d->host[n = 0] = '\0';
    d->e = (struct event){.time_ns = now - (int64_t)(test_random(seed) % 4) * NS_PER_S,
                          .host = slice_of(d->host, (size_t)n),
                          .prog = test_random(seed) % 3 ? SLICE_LIT("p") : SLICE_LIT(""),
                          .schema = s,
                          .values = d->values,
                          .level = (uint8_t)(test_random(seed) % LEVEL_COUNT)};
    (void)snprintf(d->key, sizeof d->key, "%.*s|%s|%.*s|%s", SLICE_ARG(s->name), d->host,
                   SLICE_ARG(d->e.prog), key);
}

static void put_model(struct model_row *r, const struct drawn *d, int64_t now)
{
    r->time_ns = d->e.time_ns;
    r->heard_ns = now;
    r->schema = d->e.schema;
    r->level = d->e.level;
    memcpy(r->values, d->values, sizeof r->values);
    memcpy(r->texts, d->texts, sizeof r->texts);
    memcpy(r->host, d->host, sizeof r->host);
    for (size_t i = 0; i < FIELDS; i++)
        if (value_is_text(r->values[i].type))
            r->values[i].p = r->texts[i];
}

/* What live_take is to answer, and the model brought up to date. */
static int take_model(struct model *m, const struct drawn *d, int64_t now, size_t rows_max)
{
    struct model_row *r = find_row(m, d->key);
    if (r && d->e.time_ns < r->time_ns)
        return 1;
    if (!r && count_rows(m) >= rows_max)
        return E_LIMIT;
    put_model(r ? r : add_row(m, d->key), d, now);
    return 0;
}

static void forget_model(struct model *m, int64_t before)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->rows[i].heard_ns < before)
            m->rows[i].is_there = false;
}

/* ---------------------------------------------------------------- both compared */

static struct value model_value(const struct model_row *r, struct slice field)
{
    for (uint32_t i = 0; i < r->schema->n_fields; i++)
        if (slice_eq(r->schema->fields[i].name, field) && r->values[i].type != VALUE_NONE)
            return r->values[i];
    return value_none();
}

static uint32_t find_live(const struct live_table *t, const struct model_row *m)
{
    for (uint32_t i = 0; i < t->n; i++) {
        char key[64];
        struct value k = value_none();
        for (uint32_t c = 0; c < t->n_columns; c++)
            if (slice_eq_str(t->columns[c]->field, "key"))
                k = live_cell(t->columns[c], i);
        (void)snprintf(key, sizeof key, "%.*s|%.*s|%.*s|%.*s", SLICE_ARG(t->name),
                       SLICE_ARG(t->hosts[i]->name), SLICE_ARG(t->rows[i]->prog),
                       k.type == VALUE_TEXT ? (int)k.n : 0, k.type == VALUE_TEXT ? k.p : "");
        if (strcmp(key, m->key) == 0)
            return i;
    }
    return LIVE_NO_ROW;
}

static void compare_row(struct live *l, const struct model_row *m)
{
    struct live_table *t = live_find(l, m->schema->name);
    assert_non_null(t);
    uint32_t i = find_live(t, m);
    assert_int_not_equal(i, LIVE_NO_ROW);
    assert_int_equal(t->time_ns[i], m->time_ns);
    assert_int_equal(t->heard_ns[i], m->heard_ns);
    assert_int_equal(t->levels[i], m->level);
    for (uint32_t c = 0; c < t->n_columns; c++)
        assert_true(value_eq(live_cell(t->columns[c], i), model_value(m, t->columns[c]->field)));
    assert_true(live_is_fresh(t, slice_str(m->host), m->heard_ns));
}

static void check_order(struct live_table *t, enum live_by by)
{
    const uint32_t *order = live_order(t, by);
    bool *seen = calloc(t->n + 1, sizeof *seen);
    struct slice before = SLICE_LIT("");
    assert_non_null(order);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct live_host *h = t->hosts[order[i]];
        struct slice now = by == LIVE_BY_HOST ? h->name : h->domain;
        size_t n = now.n < before.n ? now.n : before.n;
        int c = n ? memcmp(before.p, now.p, n) : 0;
        assert_true(c < 0 || (c == 0 && before.n <= now.n));
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
        before = now;
    }
    free(seen);
}

static void compare_all(struct live *l, const struct model *m)
{
    struct live_stats stats;
    live_stats(l, &stats);
    assert_int_equal(stats.rows, count_rows(m));
    for (size_t i = 0; i < m->n; i++)
        if (m->rows[i].is_there)
            compare_row(l, &m->rows[i]);
    for (size_t i = 0; i < stats.tables; i++) {
        check_order(l->tables[i], LIVE_BY_HOST);
        check_order(l->tables[i], LIVE_BY_DOMAIN);
    }
}

static void play(uint64_t seed, size_t rows_max, size_t hosts, unsigned events)
{
    struct schema *schemas[NAMES * SHAPES_OF];
    struct model *m = calloc(1, sizeof *m);
    struct live *l = NULL;
    struct live_stats stats;
    uint64_t counts[3] = {0};
    int64_t now = T0;
    print_message("seed %llu\n", (unsigned long long)seed);
    assert_int_equal(live_create(&(struct live_limits){.rows = rows_max, .forget_ns = 20 * NS_PER_S}, &l), 0);
    for (size_t i = 0; i < NAMES * SHAPES_OF; i++)
        schemas[i] = make_schema(&seed, names[i % NAMES]);
    for (unsigned i = 0; i < events; i++) {
        struct drawn d;
        draw(&seed, schemas, hosts, now, &d);
        int want = take_model(m, &d, now, rows_max);
        assert_int_equal(live_take(l, &d.e, now), want);
        counts[want < 0 ? 2 : want]++;
        now += (int64_t)(test_random(&seed) % 100) * NS_PER_S / 1000;
        if (test_random(&seed) % 200 == 0) {
            live_forget(l, now);
            forget_model(m, now - 20 * NS_PER_S);
            live_check(l);
            compare_all(l, m);
        }
    }
    live_check(l);
    compare_all(l, m);
    live_stats(l, &stats);
    assert_int_equal(stats.events, counts[0]);
    assert_int_equal(stats.old, counts[1]);
    assert_int_equal(stats.refused, counts[2]);
    for (size_t i = 0; i < NAMES * SHAPES_OF; i++)
        schema_unref(schemas[i]);
    live_destroy(l);
    free(m);
}

static void test_like_the_model(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3 * test_scale(); i++) {
        play(20261116 + i, 1000000, 8, 1500); /* rows often come again */
        play(7 + i, 60, 40, 1500);            /* too many */
        play(99 + i, 1000000, 60, 1500);      /* and often forgotten */
    }
}

/* ---------------------------------------------------------------- single cases */

struct fixture {
    struct live *live;
    struct schema *cpu;
};

static int take(struct fixture *f, const char *host, int64_t time_ns, int64_t now_ns, struct value v)
{
    const struct event e = {
        .time_ns = time_ns, .host = slice_str(host), .schema = f->cpu, .values = &v, .level = LEVEL_INFO};
    return live_take(f->live, &e, now_ns);
}

static int setup(void **state)
{
    static const struct field field = {.name = {"usage", 5}, .type = VALUE_FLOAT};
    struct fixture *f = calloc(1, sizeof *f);
    assert_int_equal(live_create(NULL, &f->live), 0);
    assert_int_equal(schema_create(SLICE_LIT("cpu.all"), &field, 1, &f->cpu), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    live_destroy(f->live);
    schema_unref(f->cpu);
    free(f);
    return 0;
}

static void test_names(void **state)
{
    struct fixture *f = *state;
    assert_null(live_find(f->live, SLICE_LIT("cpu_all")));
    assert_int_equal(take(f, "a", T0, T0, value_float(1)), 0);
    assert_non_null(live_find(f->live, SLICE_LIT("cpu_all")));
    assert_non_null(live_find(f->live, SLICE_LIT("CPU_all")));
    assert_ptr_equal(live_find(f->live, SLICE_LIT("cpu.all")), live_find(f->live, SLICE_LIT("cpu_all")));
    assert_null(live_find(f->live, SLICE_LIT("cpu")));
}

static int count_host(void *arg, struct slice host, int64_t heard_ns)
{
    assert_true(host.n == 1 && heard_ns >= T0);
    ++*(int *)arg;
    return 0;
}

static void test_fresh(void **state)
{
    struct fixture *f = *state;
    int n = 0;
    assert_int_equal(take(f, "a", T0, T0, value_float(1)), 0);
    assert_int_equal(take(f, "b", T0, T0 + 5, value_float(1)), 0);
    /* an old one is no news */
    assert_int_equal(take(f, "a", T0 - 1, T0 + 9, value_float(2)), 1);
    struct live_table *t = live_find(f->live, SLICE_LIT("cpu.all"));
    assert_true(live_is_fresh(t, SLICE_LIT("a"), T0));
    assert_false(live_is_fresh(t, SLICE_LIT("a"), T0 + 1));
    assert_true(live_is_fresh(t, SLICE_LIT(""), T0 + 5));
    assert_false(live_is_fresh(t, SLICE_LIT(""), T0 + 6));
    assert_false(live_is_fresh(t, SLICE_LIT("c"), 0));
    assert_int_equal(live_hosts(t, count_host, &n), 0);
    assert_int_equal(n, 2);
    struct live_stats stats;
    live_stats(f->live, &stats);
    assert_int_equal(stats.newest_ns, T0 + 9);
}

/* A clock that was a day ahead and was set back does not make its stream deaf for a day. */
static void test_ahead(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(take(f, "a", T0 + 86400 * NS_PER_S, T0, value_float(1)), 0);
    assert_int_equal(take(f, "a", T0, T0, value_float(2)), 0);
    assert_int_equal(take(f, "a", T0 - 1, T0, value_float(3)), 1);
    const struct live_table *t = live_find(f->live, SLICE_LIT("cpu.all"));
    assert_true(live_cell(t->columns[0], 0).f == 2);
}

static void test_bytes_are_bounded(void **state)
{
    static const struct field field = {.name = {"text", 4}, .type = VALUE_TEXT};
    struct fixture *f = *state;
    struct live *l = NULL;
    struct schema *s = NULL;
    struct live_stats stats;
    char *text = calloc(1, EVENT_TEXT_MAX);
    uint64_t seed = 5, refused = 0;
    (void)f;
    assert_int_equal(live_create(&(struct live_limits){.bytes = 1 << 20}, &l), 0);
    assert_int_equal(schema_create(SLICE_LIT("log"), &field, 1, &s), 0);
    for (int i = 0; i < 4000; i++) {
        char host[16];
        int n = snprintf(host, sizeof host, "h%u", (unsigned)(test_random(&seed) % 2000));
        struct value v = value_text(slice_of(text, test_random(&seed) % 3000));
        const struct event e = {
            .time_ns = T0 + i, .host = slice_of(host, (size_t)n), .schema = s, .values = &v};
        int r = live_take(l, &e, T0 + i);
        assert_true(r == 0 || r == E_LIMIT);
        refused += r < 0;
        if (i % 500 == 0)
            live_check(l); /* bytes are what there is, and within the limit */
    }
    live_stats(l, &stats);
    assert_true(refused > 100 && stats.refused == refused && stats.rows > 100);
    live_forget(l, T0 + 25 * 3600 * NS_PER_S);
    live_check(l);
    live_stats(l, &stats);
    assert_int_equal(stats.rows, 0);
    assert_int_equal(stats.tables, 1);
    live_destroy(l);
    schema_unref(s);
    free(text);
}

/* Names beyond the limit take the place of one whose rows have gone. */
static void test_tables_are_bounded(void **state)
{
    struct live *l = NULL;
    struct live_stats stats;
    (void)state;
    assert_int_equal(live_create(&(struct live_limits){.tables = 3, .forget_ns = NS_PER_S}, &l), 0);
    for (int i = 0; i < 6; i++) {
        char name[16];
        struct schema *s = NULL;
        int n = snprintf(name, sizeof name, "event%d", i);
        assert_int_equal(schema_create(slice_of(name, (size_t)n), NULL, 0, &s), 0);
        const struct event e = {.time_ns = T0, .host = SLICE_LIT("a"), .schema = s};
        assert_int_equal(live_take(l, &e, T0 + i / 3 * 10 * NS_PER_S), i < 3 ? 0 : E_LIMIT);
        if (i == 3)
            live_forget(l, T0 + 10 * NS_PER_S);
        assert_int_equal(live_take(l, &e, T0 + i / 3 * 10 * NS_PER_S), 0);
        live_check(l);
        schema_unref(s);
        if (i == 3)
            break;
    }
    live_stats(l, &stats);
    assert_int_equal(stats.tables, 3);
    assert_null(live_find(l, SLICE_LIT("event0")));
    assert_non_null(live_find(l, SLICE_LIT("event3")));
    live_destroy(l);
}

/* A field too many is not taken, and the row that is there stays as it was and is not heard. */
static void test_columns_are_bounded(void **state)
{
    struct live *l = NULL;
    struct live_stats stats;
    (void)state;
    assert_int_equal(live_create(NULL, &l), 0);
    for (int i = 0; i < LIVE_COLUMNS_MAX + 5; i++) {
        char name[16];
        struct schema *s = NULL;
        struct value v = value_int(i);
        int n = snprintf(name, sizeof name, "f%d", i);
        struct field f = {.name = slice_of(name, (size_t)n), .type = VALUE_INT};
        assert_int_equal(schema_create(SLICE_LIT("a"), &f, 1, &s), 0);
        const struct event e = {.time_ns = T0 + i, .host = SLICE_LIT("h"), .schema = s, .values = &v};
        assert_int_equal(live_take(l, &e, T0 + i), i < LIVE_COLUMNS_MAX ? 0 : E_LIMIT);
        schema_unref(s);
    }
    live_check(l);
    live_stats(l, &stats);
    assert_int_equal(stats.refused, 5);
    const struct live_table *t = live_find(l, SLICE_LIT("a"));
    assert_int_equal(t->heard_ns[0], T0 + LIVE_COLUMNS_MAX - 1);
    assert_int_equal(live_cell(t->columns[LIVE_COLUMNS_MAX - 1], 0).i, LIVE_COLUMNS_MAX - 1);
    assert_int_equal(live_cell(t->columns[0], 0).type, VALUE_NONE);
    live_destroy(l);
}

/* Whichever allocation fails: the event is left out whole and counted, and all is in order. */
static void test_out_of_memory(void **state)
{
    static const struct field list[] = {{.name = {"text", 4}, .type = VALUE_TEXT},
                                        {.name = {"n", 1}, .type = VALUE_INT}};
    struct schema *s = NULL;
    (void)state;
    assert_int_equal(schema_create(SLICE_LIT("log"), list, 2, &s), 0);
    const struct value values[] = {value_text(SLICE_LIT("word")), value_int(4)};
    const struct event e = {.time_ns = T0, .host = SLICE_LIT("a"), .schema = s, .values = values};
    for (uint64_t at = 1;; at++) {
        struct live *l = NULL;
        struct live_stats stats;
        assert_int_equal(live_create(NULL, &l), 0);
        mem_fail_after(at);
        int r = live_take(l, &e, T0);
        mem_fail_after(0);
        live_check(l);
        live_stats(l, &stats);
        assert_int_equal(stats.refused, r < 0);
        assert_int_equal(stats.rows, r == 0);
        assert_true(r == 0 || r == -ENOMEM);
        assert_int_equal(live_take(l, &e, T0), 0);
        live_check(l);
        live_destroy(l);
        if (r == 0)
            break;
        assert_true(at < 100);
    }
    schema_unref(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_the_model),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fresh, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bytes_are_bounded, setup, teardown),
        cmocka_unit_test(test_tables_are_bounded),
        cmocka_unit_test(test_columns_are_bounded),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
