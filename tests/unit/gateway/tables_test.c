/* SPDX-License-Identifier: Apache-2.0 */
/* System tables: rows and columns are those of the questions, for somebody who sees everything and somebody
 * who does not; a page a call; and NAME_latest by either of its names. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/access_table.h"
#include "gateway/directory_verbs.h"
#include "gateway/fault_verbs.h"
#include "gateway/latest.h"
#include "gateway/subscription_verbs.h"
#include "gateway/tables.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>

/* Not the host `secret`, no field `inside`. */
static const struct access_row rows[] = {
    {.name = "secret",
     .who = "local",
     .may_not = ACCESS_ALL,
     .hosts = "secret",
     .events = "",
     .targets = "",
     .hide = ""},
    {.name = "query",
     .who = "local",
     .may = ACCESS_BIT(ACCESS_QUERY),
     .hosts = "",
     .events = "",
     .targets = "",
     .hide = ""},
    {.name = "inside", .who = "local", .hosts = "", .events = "", .targets = "", .hide = "inside,kernel"},
};
static struct access_identity all = {.kind = ACCESS_OWNER, .uid = UINT32_MAX},
                              some = {.kind = ACCESS_LOCAL, .uid = 1000},
                              nobody = {.kind = ACCESS_TOKEN, .uid = UINT32_MAX};

struct bench {
    struct event_base *base;
    struct access *access;
    struct workers *workers;
    struct ledger ledger;
    struct control *control;
    struct directory *directory;
    struct directory_verbs *verbs;
    struct subscriptions *subscriptions;
    struct latest *latest;
    struct fault_verbs *fault_verbs;
    struct tables *tables;
    struct registry *registry;
    struct batch_builder *builder;
    int calls; /* of fill, for the last table */
};

static void add_worker(struct bench *b, const char *host, const char *kernel)
{
    struct args_writer properties = {0};
    struct worker *w;
    args_add_text(&properties, "kernel", slice_str(kernel));
    struct frame_register r = {
        .origin = {{1}, 1}, .host = slice_str(host), .properties = args_of(&properties)};
    assert_int_equal(workers_register(b->workers, &r, b, SEAL_NONE, clock_boot_ns(), clock_utc_ns(), &w), 0);
    args_writer_fini(&properties);
    assert_int_equal(directory_host(b->directory, slice_str(host), DIRECTORY_LIVE, clock_utc_ns()), 0);
}

static void add_event(struct bench *b, const char *host, const char *name, int64_t inside)
{
    const struct event_head head = {.time_ns = clock_utc_ns(),
                                    .name = slice_str(name),
                                    .host = slice_str(host),
                                    .prog = SLICE_LIT("app"),
                                    .level = LEVEL_NOTICE};
    const struct named_value values[] = {{SLICE_LIT("x"), value_int(1)},
                                         {SLICE_LIT("inside"), value_int(inside)}};
    assert_int_equal(batch_builder_add(b->builder, &head, values, 2, NULL), 0);
    struct batch *batch = batch_builder_finish(b->builder, NULL);
    assert_non_null(batch);
    directory_batch(b->directory, batch, clock_mono_ns(), clock_utc_ns());
    latest_batch(b->latest, batch, clock_utc_ns());
    batch_unref(batch);
}

static void open_bench(struct bench *b)
{
    static const struct control_ops ops;
    struct diag why = {0};
    *b = (struct bench){.base = event_base_new()};
    assert_int_equal(access_create(rows, sizeof rows / sizeof *rows, NULL, 0, &b->access, &why), 0);
    all.table = some.table = nobody.table = b->access;
    b->workers = workers_create(&(struct workers_options){.level = SEAL_NONE});
    b->control = control_create(b->base, b->workers, &b->ledger, &ops, b);
    b->directory = directory_create(&(struct directory_options){.domain = "example.org"});
    b->subscriptions =
        subscriptions_create(&(struct subscriptions_options){.base = b->base, .journal = "none"});
    b->latest = latest_create(&(struct latest_options){.streams = 100000, .memory = 64 << 20});
    b->registry = registry_create();
    b->builder = batch_builder_create(b->registry, 0);
    b->tables = tables_create(b->control);
    assert_non_null(b->tables);
    assert_int_equal(directory_verbs_create(b->control, b->directory, b->subscriptions, &b->verbs), 0);
    assert_int_equal(subscription_verbs_add(b->control, b->subscriptions), 0);
    assert_int_equal(latest_add_verbs(b->latest, b->control), 0);
    assert_int_equal(fault_verbs_create(b->control, b->latest, NULL, &b->fault_verbs), 0); /* no orders */
    control_set_directory(b->control, b->directory);
}

static void close_bench(struct bench *b)
{
    tables_destroy(b->tables);
    control_destroy(b->control);
    fault_verbs_destroy(b->fault_verbs);
    latest_destroy(b->latest);
    directory_verbs_destroy(b->verbs);
    directory_destroy(b->directory);
    subscriptions_destroy(b->subscriptions);
    batch_builder_destroy(b->builder);
    registry_destroy(b->registry);
    workers_destroy(b->workers);
    ledger_fini(&b->ledger);
    access_destroy(b->access);
    event_base_free(b->base);
}

static const struct table_ops *find(const struct bench *b, const char *name)
{
    size_t n;
    const struct table_ops *ops = tables_ops(b->tables, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(ops[i].name, name) == 0 || (ops[i].name[0] == '*' && strlen(name) > 7 &&
                                               strcasecmp(name + strlen(name) - 7, "_latest") == 0))
            return &ops[i];
    fail_msg("no table %s", name);
    return NULL;
}

static int fill(struct bench *b, const struct access_identity *who, const char *name, struct table_rows *out)
{
    const struct table_ops *t = find(b, name);
    int r;
    *out = (struct table_rows){.name = name};
    b->calls = 0;
    do
        b->calls++;
    while ((r = t->fill(t->arg, who, name, out)) == 1);
    return r;
}

static size_t count(const struct table_rows *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->batches[i]->n;
    return n;
}

/* The first event whose value of that name is that text. */
static const struct event *find_row(const struct table_rows *t, const char *name, const char *text)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < t->batches[i]->n; k++) {
            struct value v = event_get(&t->batches[i]->events[k], slice_str(name));
            if (v.type == VALUE_TEXT && slice_eq_str(value_slice(v), text))
                return &t->batches[i]->events[k];
        }
    return NULL;
}

static bool has_column(const struct table_rows *t, const char *name)
{
    for (uint32_t i = 0; i < t->schema->n_fields; i++)
        if (slice_eq_str(t->schema->fields[i].name, name))
            return true;
    return false;
}

/* What is said of a gateway where there is none. */
static void names_are_known(void **state)
{
    (void)state;
    struct bench b;
    size_t n, known = 0;
    open_bench(&b);
    const struct table_ops *ops = tables_ops(b.tables, &n);
    for (; table_gateway_names[known]; known++)
        assert_string_equal(find(&b, table_gateway_names[known])->name, table_gateway_names[known]);
    assert_int_equal(known + 1, n); /* and NAME_latest */
    assert_non_null(ops);
    close_bench(&b);
}

/* Of every declared table: no column comes twice, with rows or without. So what is declared is of the type
 * that rows have. */
static void columns_are_those_of_rows(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    for (int round = 0; round < 2; round++) {
        size_t n;
        const struct table_ops *ops = tables_ops(b.tables, &n);
        for (size_t i = 0; i < n; i++) {
            struct table_rows t;
            if (ops[i].name[0] == '*')
                continue;
            assert_int_equal(fill(&b, &all, ops[i].name, &t), 0);
            assert_non_null(t.schema);
            assert_null(t.filling);
            assert_false(t.has_heads);
            assert_true(t.schema->n_fields > 3);
            if (!t.schema->names_once)
                fail_msg("%s has a column of two types", ops[i].name);
            table_rows_fini(&t);
        }
        add_worker(&b, "node1", "6.1");
        add_event(&b, "node1", "cpu", 1);
        add_event(&b, "node1", "fault.state", 1);
        add_event(&b, "node1", "rule.state", 1);
        assert_non_null(ledger_account(&b.ledger, &(struct frame_origin){{7}, 1}));
    }
    close_bench(&b);
}

static void rows_are_those_of_questions(void **state)
{
    (void)state;
    struct bench b;
    struct table_rows t;
    open_bench(&b);
    add_worker(&b, "node1", "6.1");
    add_worker(&b, "secret", "6.1");
    add_event(&b, "node1", "cpu", 1);
    add_event(&b, "secret", "plan", 1);
    assert_int_equal(fill(&b, &all, "workers", &t), 0);
    assert_int_equal(count(&t), 2);
    assert_true(has_column(&t, "kernel")); /* a property */
    assert_non_null(find_row(&t, "host", "secret"));
    table_rows_fini(&t);
    assert_int_equal(fill(&b, &some, "workers", &t), 0);
    assert_int_equal(count(&t), 1);
    assert_false(has_column(&t, "kernel"));
    assert_null(find_row(&t, "host", "secret"));
    table_rows_fini(&t);
    assert_int_equal(fill(&b, &some, "schema_fields", &t), 0);
    assert_non_null(find_row(&t, "field", "x"));
    assert_null(find_row(&t, "field", "inside"));
    assert_null(find_row(&t, "event", "plan"));
    table_rows_fini(&t);
    assert_int_equal(fill(&b, &all, "domains", &t), 0);
    assert_int_equal(count(&t), 1);
    const struct event *e = find_row(&t, "domain", "example.org");
    assert_non_null(e);
    assert_int_equal(event_get(e, SLICE_LIT("hosts")).u, 2);
    assert_int_equal(event_get(e, SLICE_LIT("live")).u, 2);
    table_rows_fini(&t);
    assert_int_equal(fill(&b, &nobody, "workers", &t), -EACCES);
    table_rows_fini(&t);
    assert_int_equal(fill(&b, &nobody, "sensors", &t), -EACCES);
    table_rows_fini(&t);
    close_bench(&b);
}

static void latest(void **state)
{
    (void)state;
    struct bench b;
    struct table_rows t;
    open_bench(&b);
    add_event(&b, "node1", "job.state", 7);
    add_event(&b, "secret", "job.state", 8);
    add_event(&b, "node1", "cpu", 1);
    static const char *const names[] = {"job_state_latest", "job.state_latest"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(fill(&b, &all, names[i], &t), 0);
        assert_true(t.has_heads);
        assert_int_equal(count(&t), 2);
        assert_slice(t.schema->name, "job.state");
        assert_slice(t.batches[0]->events[0].prog, "app");
        assert_int_equal(t.batches[0]->events[0].level, LEVEL_NOTICE);
        table_rows_fini(&t);
    }
    add_event(&b, "node1", "5xx.Rate", 1);
    static const char *const folded[] = {"_5xx_rate_latest", "5xx.Rate_latest", "_5XX_RATE_LATEST"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fill(&b, &all, folded[i], &t), 0);
        assert_slice(t.schema->name, "5xx.Rate");
        table_rows_fini(&t);
    }
    assert_int_equal(fill(&b, &some, "job_state_latest", &t), 0);
    assert_int_equal(count(&t), 1);
    assert_slice(t.batches[0]->events[0].host, "node1");
    assert_int_equal(event_get(&t.batches[0]->events[0], SLICE_LIT("inside")).type, VALUE_NONE);
    table_rows_fini(&t);
    assert_int_equal(fill(&b, &nobody, "cpu_latest", &t), -EACCES);
    table_rows_fini(&t);
    static const char *const none[] = {"disk_latest", "c*u_latest", "cp_latest", "job_stat__latest",
                                       "c?u_latest"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(fill(&b, &all, none[i], &t), -ENOENT);
        table_rows_fini(&t);
    }
    add_event(&b, "node1", "job-state", 9); /* two names that a table could have: not ours to say which */
    assert_int_equal(fill(&b, &all, "job_state_latest", &t), -ENOENT);
    table_rows_fini(&t);
    assert_int_equal(fill(&b, &all, "job-state_latest", &t), 0);
    assert_int_equal(count(&t), 1);
    table_rows_fini(&t);
    close_bench(&b);
}

static void a_page_a_call(void **state)
{
    (void)state;
    struct bench b;
    struct table_rows t;
    char host[32];
    open_bench(&b);
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(host, sizeof host, "node%d", i);
        add_event(&b, host, "cpu", i);
        add_worker(&b, host, "6.1");
    }
    static const char *const names[] = {"workers", "sensors", "cpu_latest"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fill(&b, &all, names[i], &t), 0);
        assert_int_equal(count(&t), 3000);
        assert_true(b.calls > 2);
        table_rows_fini(&t);
        /* Given up halfway. */
        const struct table_ops *ops = find(&b, names[i]);
        t = (struct table_rows){.name = names[i]};
        assert_int_equal(ops->fill(ops->arg, &all, names[i], &t), 1);
        table_rows_fini(&t);
    }
    close_bench(&b);
}

static void no_memory(void **state)
{
    (void)state;
    struct bench b;
    struct table_rows t;
    open_bench(&b);
    add_worker(&b, "node1", "6.1");
    add_event(&b, "node1", "cpu", 1);
    static const char *const names[] = {"workers", "domains", "cpu_latest"};
    for (size_t i = 0; i < 3; i++) {
        int r = -ENOMEM;
        for (uint64_t n = 1; r < 0 && n < 500; n++) {
            mem_fail_after(n);
            r = fill(&b, &all, names[i], &t);
            mem_fail_after(0);
            assert_true(r == 0 || r == -ENOMEM || r == -EAGAIN || r == -ENOENT);
            if (r == 0)
                assert_int_equal(count(&t), 1);
            table_rows_fini(&t);
        }
        assert_int_equal(r, 0);
    }
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_known),
        cmocka_unit_test(columns_are_those_of_rows),
        cmocka_unit_test(rows_are_those_of_questions),
        cmocka_unit_test(latest),
        cmocka_unit_test(a_page_a_call),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
