/* SPDX-License-Identifier: Apache-2.0 */
/* 200 rules over the latest values of many hosts, every second: what it costs to take a second's events and
 * to run the rules once.
 *
 *     rules HOSTS ROUNDS          lines "KEY CPU-MS ROWS" a round: of `take`, and of each kind of rule
 *     rules HOSTS page            the same values of round 0 as a page for Prometheus
 *     rules HOSTS promql          the same rules for Prometheus, as recording rules
 *     rules HOSTS sql             the rules
 *
 * A host has events cpu, memory and load, three of filesystem (key mount) and two of network (key device): 8
 * rows, 35 values. In each round all come anew, with other values; one row in a hundred is faulty, and then
 * all its fields are beyond every threshold; of the others none is. Rules: 120 filters (half with two
 * conditions, some with a text), 40 that compute something of each row, 30 with GROUP BY host or domain, 10
 * joins by host.
 *
 * CPU time is this thread's, of live_take and query_run alone, not of making the events. */
#include "base/mem.h"
#include "base/strbuf.h"
#include "guard/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define T0        INT64_C(1794776400000000000)
#define SECOND_NS INT64_C(1000000000)

enum { DOMAINS = 100, TABLES = 5, FIELDS_MAX = 8, RULES = 200, KINDS = 4, HOST_MAX = 64 };

static const char *const kinds[KINDS] = {"filter", "arithmetic", "group", "join"};

/* A field: its value is a share of scale; 0 to 50 % are good and 90 to 100 % are not, or, where little is
 * bad, the other way round. One that is never bad (a size) is scale. */
struct measure {
    const char *name;
    double scale;
    uint8_t type;
    bool is_low_bad, is_fixed;
};

struct table {
    const char *name, *key;     /* key NULL: a row a host */
    const char *const *members; /* values of the key */
    size_t n_members, n_fields;
    struct measure fields[FIELDS_MAX];
};

static const char *const mounts[] = {"/", "/scratch", "/home"};
static const char *const devices[] = {"eth0", "ib0"};

#define GIB (1024.0 * 1024 * 1024)

static const struct table tables[TABLES] = {
    {"cpu",
     NULL,
     NULL,
     1,
     6,
     {{"user", 100, VALUE_FLOAT, false, false},
      {"system", 100, VALUE_FLOAT, false, false},
      {"iowait", 100, VALUE_FLOAT, false, false},
      {"steal", 100, VALUE_FLOAT, false, false},
      {"idle", 100, VALUE_FLOAT, true, false},
      {"cores", 64, VALUE_UINT, false, true}}},
    {"memory",
     NULL,
     NULL,
     1,
     6,
     {{"total", 256 * GIB, VALUE_UINT, false, true},
      {"available", 256 * GIB, VALUE_UINT, true, false},
      {"dirty", 16 * GIB, VALUE_UINT, false, false},
      {"swap_total", 32 * GIB, VALUE_UINT, false, true},
      {"swap_free", 32 * GIB, VALUE_UINT, true, false},
      {"pressure", 100, VALUE_FLOAT, false, false}}},
    {"filesystem",
     "mount",
     mounts,
     3,
     3,
     {{"size", 1024 * GIB, VALUE_UINT, false, true},
      {"free", 1024 * GIB, VALUE_UINT, true, false},
      {"inodes_free", 1e7, VALUE_UINT, true, false}}},
    {"load",
     NULL,
     NULL,
     1,
     4,
     {{"one", 256, VALUE_FLOAT, false, false},
      {"five", 256, VALUE_FLOAT, false, false},
      {"fifteen", 256, VALUE_FLOAT, false, false},
      {"running", 1000, VALUE_UINT, false, false}}},
    {"network",
     "device",
     devices,
     2,
     5,
     {{"rx_rate", 1e10, VALUE_UINT, false, false},
      {"tx_rate", 1e10, VALUE_UINT, false, false},
      {"rx_errors", 10000, VALUE_UINT, false, false},
      {"tx_errors", 10000, VALUE_UINT, false, false},
      {"mtu", 9000, VALUE_UINT, false, true}}},
};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "rules: %s: %s\n", what, why);
    exit(1);
}

/* ---------------------------------------------------------------- events */

struct load {
    size_t hosts, n; /* events of a round */
    char (*names)[HOST_MAX];
    struct event *events;
    const struct table **of; /* the table of each */
    struct value *values;    /* FIELDS_MAX an event */
    struct schema *schemas[TABLES];
    uint64_t seed;
};

static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double draw_share(uint64_t *seed)
{
    return (double)(draw(seed) >> 11) * 0x1p-53;
}

static struct schema *make_schema(const struct table *t)
{
    struct field fields[FIELDS_MAX];
    size_t n = 0;
    struct schema *s = NULL;
    for (size_t i = 0; i < t->n_fields; i++)
        fields[n++] = (struct field){.name = slice_str(t->fields[i].name), .type = t->fields[i].type};
    if (t->key)
        fields[n++] = (struct field){.name = slice_str(t->key), .type = VALUE_TEXT, .role = ROLE_KEY};
    if (schema_create(slice_str(t->name), fields, n, &s) < 0)
        die(t->name, "no schema");
    return s;
}

static void add_events(struct load *l, size_t host, size_t table)
{
    const struct table *t = &tables[table];
    for (size_t m = 0; m < t->n_members; m++, l->n++) {
        struct value *values = &l->values[l->n * FIELDS_MAX];
        if (t->key)
            values[t->n_fields] = value_text(slice_str(t->members[m]));
        l->of[l->n] = t;
        l->events[l->n] = (struct event){.host = slice_str(l->names[host]),
                                         .prog = SLICE_LIT("gridline-agent"),
                                         .schema = l->schemas[table],
                                         .values = values,
                                         .level = LEVEL_INFO};
    }
}

static void make_load(struct load *l, size_t hosts)
{
    const size_t rows = 8;
    *l = (struct load){.hosts = hosts, .seed = 20261116};
    l->names = mem_alloc(hosts * sizeof *l->names);
    l->events = mem_alloc(hosts * rows * sizeof *l->events);
    l->of = mem_alloc(hosts * rows * sizeof *l->of);
    l->values = mem_alloc(hosts * rows * FIELDS_MAX * sizeof *l->values);
    for (size_t i = 0; i < TABLES; i++)
        l->schemas[i] = make_schema(&tables[i]);
    for (size_t i = 0; i < hosts; i++)
        (void)snprintf(l->names[i], sizeof l->names[i], "node%05zu.c%02zu.grid.example", i, i % DOMAINS);
    for (size_t table = 0; table < TABLES; table++)
        for (size_t i = 0; i < hosts; i++)
            add_events(l, i, table);
}

static void end_load(struct load *l)
{
    for (size_t i = 0; i < TABLES; i++)
        schema_unref(l->schemas[i]);
    mem_free(l->names);
    mem_free(l->events);
    mem_free(l->of);
    mem_free(l->values);
}

static struct value draw_value(uint64_t *seed, const struct measure *f, bool is_faulty)
{
    double share = draw_share(seed);
    share = is_faulty ? 0.9 + share / 10 : share / 2;
    share = f->is_fixed ? 1 : f->is_low_bad ? 1 - share : share;
    return f->type == VALUE_FLOAT ? value_float(share * f->scale) : value_uint((uint64_t)(share * f->scale));
}

/* The values of a round: the same in every run. */
static void draw_round(struct load *l, unsigned round)
{
    for (size_t i = 0; i < l->n; i++) {
        struct value *values = &l->values[i * FIELDS_MAX];
        bool is_faulty = draw(&l->seed) % 100 == 0;
        for (size_t k = 0; k < l->of[i]->n_fields; k++)
            values[k] = draw_value(&l->seed, &l->of[i]->fields[k], is_faulty);
        l->events[i].time_ns = T0 + round * SECOND_NS;
    }
}

/* ---------------------------------------------------------------- rules */

struct rule {
    unsigned kind;
    struct strbuf sql, promql;
};

struct rules {
    struct rule list[RULES];
    size_t n;
};

static struct rule *add_rule(struct rules *r, unsigned kind)
{
    if (r->n == RULES)
        die("rules", "too many");
    r->list[r->n].kind = kind;
    return &r->list[r->n++];
}

/* The i-th of the fields that can be bad, of all tables. */
static const struct measure *find_field(size_t i, const struct table **of)
{
    for (;;) {
        for (size_t t = 0; t < TABLES; t++) {
            for (size_t k = 0; k < tables[t].n_fields; k++) {
                if (tables[t].fields[k].is_fixed || i-- > 0)
                    continue;
                *of = &tables[t];
                return &tables[t].fields[k];
            }
        }
    }
}

/* Between what is good and what is bad: step 0 to 19. */
static double threshold(const struct measure *f, unsigned step)
{
    double share = 0.6 + step * 0.01;
    return (f->is_low_bad ? 1 - share : share) * f->scale;
}

static void put_condition(struct rule *r, const struct table *t, const struct measure *f, unsigned step)
{
    char op = f->is_low_bad ? '<' : '>';
    strbuf_printf(&r->sql, "%s %c %.10g", f->name, op, threshold(f, step));
    strbuf_printf(&r->promql, "%s_%s", t->name, f->name);
}

static const struct measure *find_other(const struct table *t, const struct measure *f)
{
    size_t i = 0;
    while (t->fields[i].is_fixed || &t->fields[i] == f)
        i++;
    return &t->fields[i];
}

static void add_filter(struct rules *rules, unsigned i)
{
    const struct table *t = NULL;
    const struct measure *f = find_field(i, &t);
    struct rule *r = add_rule(rules, 0);
    const struct measure *second = find_other(t, f);
    unsigned step = i / 7;
    strbuf_printf(&r->sql, "SELECT host, %s%s%s FROM %s_latest WHERE ", t->key ? t->key : "",
                  t->key ? ", " : "", f->name, t->name);
    put_condition(r, t, f, step);
    if (t->key && i % 3 == 0) {
        strbuf_printf(&r->sql, " AND %s = '%s'", t->key, t->members[i % t->n_members]);
        strbuf_printf(&r->promql, "{%s=\"%s\"}", t->key, t->members[i % t->n_members]);
    }
    strbuf_printf(&r->promql, " %c %.10g", f->is_low_bad ? '<' : '>', threshold(f, step));
    if (i % 2 == 0)
        return;
    char op = second->is_low_bad ? '<' : '>';
    strbuf_printf(&r->sql, " AND %s %c %.10g", second->name, op, threshold(second, step));
    strbuf_printf(&r->promql, " and %s_%s %c %.10g", t->name, second->name, op, threshold(second, step));
}

/* %.10g in both is the threshold, which is low + step * by. */
struct template
{
    const char *sql, *promql;
    double low, by;
};

static const struct template arithmetic[] = {
    {"SELECT host, mount, free * 100.0 / size AS percent FROM filesystem_latest WHERE free * 100.0 / size < "
     "%.10g",
     "filesystem_free * 100 / filesystem_size < %.10g", 10, 2},
    {"SELECT host, (total - available) * 100.0 / total AS percent FROM memory_latest "
     "WHERE (total - available) * 100.0 / total > %.10g",
     "(memory_total - memory_available) * 100 / memory_total > %.10g", 60, 1},
    {"SELECT host, user + system AS busy FROM cpu_latest WHERE user + system > %.10g",
     "cpu_user + cpu_system > %.10g", 120, 2},
    {"SELECT host, 100 - idle AS busy FROM cpu_latest WHERE 100 - idle > %.10g", "100 - cpu_idle > %.10g", 60,
     2},
    {"SELECT host, (one + five + fifteen) / 3 AS mean FROM load_latest WHERE (one + five + fifteen) / 3 > "
     "%.10g",
     "(load_one + load_five + load_fifteen) / 3 > %.10g", 160, 2},
    {"SELECT host, device, (rx_rate + tx_rate) * 8 / 1e9 AS gbit FROM network_latest "
     "WHERE (rx_rate + tx_rate) * 8 / 1e9 > %.10g",
     "(network_rx_rate + network_tx_rate) * 8 / 1e9 > %.10g", 100, 2},
    {"SELECT host, (swap_total - swap_free) * 1.0 / swap_total AS used FROM memory_latest "
     "WHERE (swap_total - swap_free) * 1.0 / swap_total > %.10g",
     "(memory_swap_total - memory_swap_free) / memory_swap_total > %.10g", 0.6, 0.02},
    {"SELECT host, iowait * cores / 100 AS lost FROM cpu_latest WHERE iowait * cores / 100 > %.10g",
     "cpu_iowait * cpu_cores / 100 > %.10g", 40, 1},
};

static const struct template groups[] = {
    {"SELECT host, sum(free) AS free FROM filesystem_latest GROUP BY host HAVING sum(free) < %.10g",
     "sum by (host) (filesystem_free) < %.10g", 1.2e12, 1e10},
    {"SELECT host, max(rx_errors) AS errors FROM network_latest GROUP BY host HAVING max(rx_errors) > %.10g",
     "max by (host) (network_rx_errors) > %.10g", 6000, 100},
    {"SELECT host, sum(rx_rate + tx_rate) AS rate FROM network_latest GROUP BY host "
     "HAVING sum(rx_rate + tx_rate) > %.10g",
     "sum by (host) (network_rx_rate + network_tx_rate) > %.10g", 2.2e10, 1e8},
    {"SELECT domain, avg(user) AS user FROM cpu_latest GROUP BY domain HAVING avg(user) > %.10g",
     "avg by (domain) (cpu_user) > %.10g", 27, 0.1},
    {"SELECT domain, min(available) AS least FROM memory_latest GROUP BY domain HAVING min(available) < "
     "%.10g",
     "min by (domain) (memory_available) < %.10g", 1e10, 1e9},
    {"SELECT domain, count(*) AS n FROM load_latest WHERE one > %.10g GROUP BY domain HAVING count(*) > 3",
     "count by (domain) (load_one > %.10g) > 3", 160, 2},
};

static const struct template joins[] = {
    {"SELECT c.host, c.user, m.available FROM cpu_latest c JOIN memory_latest m ON m.host = c.host "
     "WHERE c.user > %.10g AND m.pressure > 10",
     "cpu_user > %.10g and on (host) memory_pressure > 10", 60, 2},
    {"SELECT l.host, l.one, c.cores FROM load_latest l JOIN cpu_latest c ON c.host = l.host "
     "WHERE l.one > c.cores * %.10g",
     "load_one > on (host) cpu_cores * %.10g", 2.4, 0.05},
    {"SELECT f.host, f.mount, f.free, c.iowait FROM filesystem_latest f JOIN cpu_latest c ON c.host = f.host "
     "WHERE f.free < %.10g AND c.iowait > 20",
     "filesystem_free < %.10g and on (host) cpu_iowait > 20", 1e11, 1e10},
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* of the tables above */
static void add_some(struct rules *rules, unsigned kind, const struct template *t, unsigned n_templates,
                     unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct rule *r = add_rule(rules, kind);
        unsigned step = i / n_templates;
        const struct template *x = &t[i % n_templates];
        double at = x->low + step * x->by;
        strbuf_printf(&r->sql, x->sql, at);
        strbuf_printf(&r->promql, x->promql, at);
    }
}
#pragma GCC diagnostic pop

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void make_rules(struct rules *r)
{
    *r = (struct rules){.n = 0};
    for (unsigned i = 0; i < 120; i++)
        add_filter(r, i);
    add_some(r, 1, arithmetic, COUNT(arithmetic), 40);
    add_some(r, 2, groups, COUNT(groups), 30);
    add_some(r, 3, joins, COUNT(joins), 10);
}

static void end_rules(struct rules *r)
{
    for (size_t i = 0; i < r->n; i++) {
        strbuf_fini(&r->list[i].sql);
        strbuf_fini(&r->list[i].promql);
    }
}

/* ---------------------------------------------------------------- for Prometheus */

static void print_page(struct load *l)
{
    draw_round(l, 0);
    for (size_t i = 0; i < l->n; i++) {
        const struct table *t = l->of[i];
        const struct event *e = &l->events[i];
        const char *dot = memchr(e->host.p, '.', e->host.n);
        for (size_t k = 0; k < t->n_fields; k++) {
            struct value v = e->values[k];
            printf("%s_%s{host=\"%.*s\",domain=\"%s\"", t->name, t->fields[k].name, SLICE_ARG(e->host),
                   dot + 1);
            if (t->key)
                printf(",%s=\"%.*s\"", t->key, (int)e->values[t->n_fields].n, e->values[t->n_fields].p);
            printf("} %.17g\n", v.type == VALUE_FLOAT ? v.f : (double)v.u);
        }
    }
}

static void print_promql(const struct rules *r)
{
    printf("groups:\n- name: rules\n  rules:\n");
    for (size_t i = 0; i < r->n; i++)
        printf("  - record: %s_%zu\n    expr: '%s'\n", kinds[r->list[i].kind], i,
               strbuf_slice(&r->list[i].promql).p);
}

/* ---------------------------------------------------------------- measuring */

static double cpu_ms(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0)
        die("clock", "no CPU time");
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int count_row(void *arg, const struct slice *names, const struct value *values, size_t n)
{
    (void)names;
    (void)values;
    (void)n;
    ++*(uint64_t *)arg;
    return 0;
}

static void take_all(struct live *live, const struct load *l, unsigned round)
{
    double before = cpu_ms();
    for (size_t i = 0; i < l->n; i++)
        if (live_take(live, &l->events[i], T0 + round * SECOND_NS) < 0)
            die("live_take", "refused");
    printf("take %.3f %zu\n", cpu_ms() - before, l->n);
}

static void run_all(struct query **queries, const struct rules *rules, unsigned round)
{
    double spent[KINDS] = {0};
    uint64_t rows[KINDS] = {0};
    struct diag why;
    for (size_t i = 0; i < rules->n; i++) {
        unsigned kind = rules->list[i].kind;
        const struct query_run run = {.now_ns = T0 + round * SECOND_NS,
                                      .since_ns = T0 + ((int64_t)round - 3) * SECOND_NS,
                                      .time_ns = 60 * SECOND_NS,
                                      .row = count_row,
                                      .arg = &rows[kind]};
        double before = cpu_ms();
        if (query_run(queries[i], &run, &why) < 0)
            die(rules->list[i].sql.p, why.message);
        spent[kind] += cpu_ms() - before;
    }
    for (unsigned k = 0; k < KINDS; k++)
        printf("%s %.3f %" PRIu64 "\n", kinds[k], spent[k], rows[k]);
}

static void run_rounds(struct load *l, const struct rules *rules, unsigned rounds)
{
    struct live *live = NULL;
    struct judge *judge = NULL;
    struct query *queries[RULES] = {0};
    struct live_stats stats;
    struct diag why;
    if (live_create(NULL, &live) < 0 || judge_create(live, NULL, 0, &judge) < 0)
        die("judge", "no memory");
    for (unsigned round = 0; round <= rounds; round++) {
        draw_round(l, round);
        if (round == 0)
            printf("warm-up\n");
        take_all(live, l, round);
        for (size_t i = 0; round == 0 && i < rules->n; i++)
            if (query_create(judge, strbuf_slice(&rules->list[i].sql), &queries[i], &why) < 0)
                die(rules->list[i].sql.p, why.message);
        run_all(queries, rules, round);
        if (round == 0)
            printf("measured\n");
    }
    live_stats(live, &stats);
    printf("memory %.3f %zu\n", (double)stats.bytes / 1048576, stats.rows);
    for (size_t i = 0; i < rules->n; i++)
        query_destroy(queries[i]);
    judge_destroy(judge);
    live_destroy(live);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage", "rules HOSTS ROUNDS|page|promql|sql");
    struct load l;
    struct rules rules;
    make_rules(&rules);
    make_load(&l, (size_t)strtoul(argv[1], NULL, 10));
    if (strcmp(argv[2], "page") == 0)
        print_page(&l);
    else if (strcmp(argv[2], "promql") == 0)
        print_promql(&rules);
    else if (strcmp(argv[2], "sql") == 0)
        for (size_t i = 0; i < rules.n; i++)
            printf("%s\n", rules.list[i].sql.p);
    else
        run_rounds(&l, &rules, (unsigned)strtoul(argv[2], NULL, 10));
    end_load(&l);
    end_rules(&rules);
    return 0;
}
