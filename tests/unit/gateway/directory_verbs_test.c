/* SPDX-License-Identifier: Apache-2.0 */
/* The questions `sensors`, `schemas` and `hosts`, by somebody who sees everything and by somebody who does
 * not. */
#include "unit/test.h"

#include "base/clock.h"
#include "gateway/access_table.h"
#include "gateway/control.h"
#include "gateway/directory_verbs.h"
#include "unit/event/classes.h"

#include <errno.h>
#include <inttypes.h>

/* ---------------------------------------------------------------- who may see what */

/* Not the host `secret`, no event `hidden`, no field `inside`, no property `kernel`. */
static const struct access_row rows[] = {
    {.name = "secret",
     .who = "local",
     .may_not = ACCESS_ALL,
     .hosts = "secret",
     .events = "",
     .targets = "",
     .hide = "",
     .file = ""},
    {.name = "hidden",
     .who = "local",
     .may_not = ACCESS_ALL,
     .hosts = "",
     .events = "hidden",
     .targets = "",
     .hide = "",
     .file = ""},
    {.name = "fields",
     .who = "local",
     .hosts = "",
     .events = "",
     .targets = "",
     .hide = "inside,kernel",
     .file = ""},
};
static struct access_identity all = {.kind = ACCESS_OWNER, .uid = UINT32_MAX},
                              some = {.kind = ACCESS_LOCAL, .uid = 1000},
                              none = {.kind = ACCESS_TOKEN, .uid = UINT32_MAX};
static struct access *table;

static int set_up(void **unused)
{
    struct diag why = {0};
    (void)unused;
    if (access_create(rows, sizeof rows / sizeof *rows, NULL, 0, &table, &why) < 0)
        return -1;
    all.table = some.table = none.table = table;
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    access_destroy(table);
    return 0;
}

/* ---------------------------------------------------------------- asking */

struct bench {
    struct event_base *base;
    struct workers *ws;
    struct ledger ledger;
    struct control *c;
    struct directory *d;
    struct directory_verbs *verbs;
    struct registry *registry;
    struct batch_builder *builder;
    int64_t utc_ns, mono_ns;
};

struct asker {
    struct control_asker asker;
    struct strbuf rows; /* a line each: name=value ... */
    size_t n_rows, pages;
    int status;
    uint64_t after; /* 0: that was all */
    char text[512];
};

static void on_answer(struct control_asker *to, const struct frame_answer *a)
{
    struct asker *k = (struct asker *)(void *)to;
    struct args args = a->args;
    struct arg one;
    if (a->status != CONTROL_MORE) {
        k->status = a->status;
        k->after = args_uint(args, "after", 0);
        (void)snprintf(k->text, sizeof k->text, "%.*s", SLICE_ARG(a->text));
        return;
    }
    k->n_rows++;
    while (args_next(&args, &one)) {
        strbuf_printf(&k->rows, "%.*s=", SLICE_ARG(one.name));
        if (one.value.type == VALUE_TEXT)
            strbuf_add_slice(&k->rows, value_slice(one.value));
        else if (one.value.type == VALUE_FLOAT)
            strbuf_printf(&k->rows, "%.3f", one.value.f);
        else
            strbuf_printf(&k->rows, "%" PRIu64, one.value.u);
        strbuf_add_char(&k->rows, ' ');
    }
    strbuf_add_char(&k->rows, '\n');
}

/* All pages; options: "name=value" each. */
static struct asker ask(struct bench *b, const struct access_identity *who, const char *verb,
                        const char *const *options)
{
    struct asker k = {.asker = {.answer = on_answer, .who = who}};
    do {
        struct args_writer args = {0};
        for (const char *const *o = options; *o; o++) {
            const char *equals = strchr(*o, '=');
            args_add(&args, slice_of(*o, (size_t)(equals - *o)), value_text(slice_str(equals + 1)));
        }
        if (k.after)
            args_add_uint(&args, "after", k.after);
        k.status = -1;
        control_ask(b->c, &k.asker,
                    &(struct frame_control){.request = 1, .verb = slice_str(verb), .args = args_of(&args)});
        args_writer_fini(&args);
        assert_int_not_equal(k.status, -1);
        k.pages++;
    } while (k.after);
    return k;
}
#define ask_for(b, who, verb, ...) ask(b, who, verb, (const char *const[]){__VA_ARGS__, NULL})
#define ask_all(b, who, verb)      ask(b, who, verb, (const char *const[]){NULL})

static bool says(const struct asker *k, const char *what)
{
    return k->rows.n && strstr(k->rows.p, what) != NULL;
}

static void asker_fini(struct asker *k)
{
    strbuf_fini(&k->rows);
}

/* ---------------------------------------------------------------- what there is */

static void event_of(struct bench *b, const char *host, const char *prog, const char *name,
                     struct value inside)
{
    const struct event_head head = {
        .time_ns = b->utc_ns, .name = slice_str(name), .host = slice_str(host), .prog = slice_str(prog)};
    const struct named_value values[] = {{SLICE_LIT("x"), value_int(1)}, {SLICE_LIT("inside"), inside}};
    assert_int_equal(batch_builder_add(b->builder, &head, values, 2, NULL), 0);
    struct batch *batch = batch_builder_finish(b->builder, NULL);
    assert_non_null(batch);
    directory_batch(b->d, batch, b->mono_ns, b->utc_ns);
    batch_unref(batch);
}

static void list(struct bench *b, const char *host, const char *sensor, const char *events,
                 enum directory_status status)
{
    struct directory_sensor s = {.sensor = slice_str(sensor),
                                 .events = slice_str(events),
                                 .schemas = {"", 0},
                                 .mode = SLICE_LIT("always"),
                                 .why = {"", 0},
                                 .status = status,
                                 .every_ms = 2000,
                                 .started_ns = b->utc_ns};
    assert_int_equal(directory_list_sensor(b->d, slice_str(host), &s), 0);
}

static void worker_of(struct bench *b, const char *host)
{
    struct args_writer properties = {0};
    struct worker *w;
    args_add_text(&properties, "kernel", SLICE_LIT("6.1.0"));
    args_add_uint(&properties, "cpus", 8);
    struct frame_register r = {
        .origin = {{1}, 1}, .host = slice_str(host), .properties = args_of(&properties)};
    assert_int_equal(workers_register(b->ws, &r, b, SEAL_NONE, clock_boot_ns(), b->utc_ns, &w), 0);
    worker_set_address(w, SLICE_LIT("10.0.0.7:4711"));
    args_writer_fini(&properties);
    assert_int_equal(directory_host(b->d, slice_str(host), DIRECTORY_LIVE, b->utc_ns), 0);
    assert_int_equal(directory_list_begin(b->d, slice_str(host), b->utc_ns), 0);
    list(b, host, "cpu", "cpu,hidden", DIRECTORY_RUNNING);
    list(b, host, "veiled", "hidden", DIRECTORY_IDLE);
    directory_list_end(b->d, slice_str(host), b->utc_ns);
}

static void open_bench(struct bench *b)
{
    static const struct control_ops ops;
    struct diag why;
    *b = (struct bench){.base = event_base_new(), .utc_ns = clock_utc_ns(), .mono_ns = clock_mono_ns()};
    b->ws = workers_create(&(struct workers_options){.level = SEAL_NONE});
    b->c = control_create(b->base, b->ws, &b->ledger, &ops, b);
    b->d = directory_create(&(struct directory_options){.domain = "example.org"});
    b->registry = registry_create();
    b->builder = batch_builder_create(b->registry, 0);
    assert_int_equal(directory_verbs_create(b->c, b->d, NULL, &b->verbs), 0);
    control_set_directory(b->c, b->d);
    assert_int_equal(directory_expect(b->d, SLICE_LIT("lost cpu"), &why), 0);
    worker_of(b, "node1");
    worker_of(b, "secret");
    event_of(b, "node1", "gridline-agent", "cpu", value_int(1));
    event_of(b, "node1", "gridline-agent", "hidden", value_int(1));
    event_of(b, "secret", "gridline-agent", "cpu", value_int(1));
    event_of(b, "secret", "app", "plan", value_int(1));
}

static void close_bench(struct bench *b)
{
    control_destroy(b->c);
    directory_verbs_destroy(b->verbs);
    directory_destroy(b->d);
    batch_builder_destroy(b->builder);
    registry_destroy(b->registry);
    workers_destroy(b->ws);
    ledger_fini(&b->ledger);
    event_base_free(b->base);
}

/* ---------------------------------------------------------------- */

/* The class of a field: as it begins, and as the source has it. */
static void fields_have_classes(void **state)
{
    (void)state;
    struct bench b;
    struct test_classes classes = {.fields = {{"x", CLASS_TEXT}}};
    open_bench(&b);
    struct asker k = ask_for(&b, &all, "schemas", "event=cpu", "fields=1");
    assert_true(says(&k, "class=number by=provisional"));
    assert_false(says(&k, "quoted="));
    asker_fini(&k);
    control_set_classes(b.c, test_classes_source(&classes));
    k = ask_for(&b, &all, "schemas", "event=cpu", "fields=1");
    assert_true(says(&k, "class=text by=decided numbers=0 texts=0 quoted=0"));
    asker_fini(&k);
    close_bench(&b);
}

static void everything_is_there_for_who_may(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct asker k = ask_all(&b, &all, "sensors");
    assert_int_equal(k.status, CONTROL_DONE);
    assert_int_equal(k.n_rows, 6);
    assert_true(says(&k,
                     "host=node1 domain=example.org sensor=cpu status=running host_state=live mode=always "
                     "every_ms=2000 rate=2.000 consumers=0 "));
    assert_true(says(&k, "events=cpu,hidden "));
    assert_true(says(&k, "sensor=veiled status=idle"));
    assert_true(says(&k, "host=lost domain=example.org sensor=cpu status=missing host_state=unregistered"));
    assert_true(says(&k, "sensor=app status=running host_state=live mode=program"));
    asker_fini(&k);
    close_bench(&b);
}

static void what_may_not_be_seen_is_not_there(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct asker k = ask_all(&b, &some, "sensors");
    assert_int_equal(k.n_rows, 2); /* node1's cpu, and what is missing */
    assert_true(says(&k, "events=cpu "));
    assert_false(says(&k, "secret"));
    assert_false(says(&k, "hidden"));
    assert_true(says(&k, "rate=1.000 ")); /* not that of the hidden one */
    asker_fini(&k);
    k = ask_for(&b, &some, "sensors", "where=events LIKE '%hidden%' OR host = 'secret'");
    assert_int_equal(k.n_rows, 0);
    asker_fini(&k);
    k = ask_for(&b, &some, "sensors", "event=hidden");
    assert_int_equal(k.n_rows, 0);
    asker_fini(&k);
    k = ask_all(&b, &none, "sensors");
    assert_int_equal(k.status, CONTROL_NOT_ALLOWED);
    assert_int_equal(k.n_rows, 0);
    asker_fini(&k);
    close_bench(&b);
}

static void choices_and_predicates(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    static const struct {
        const char *option;
        size_t rows;
    } cases[] = {{"host=node*", 2},
                 {"host=node1,secret", 5},
                 {"sensor=cpu", 3},
                 {"event=pl*", 1},
                 {"where=every_ms = 2000", 4},
                 {"where=status = 'missing'", 1},
                 {"where=expected", 1},
                 {"where=age_ms IS NULL AND mode = 'always'", 1},
                 {"where=host = 'lost'", 1},
                 {"where=domain GLOB 'example.*'", 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asker k = ask_for(&b, &all, "sensors", cases[i].option);
        assert_int_equal(k.status, CONTROL_DONE);
        if (k.n_rows != cases[i].rows)
            fail_msg("%s: %zu rows", cases[i].option, k.n_rows);
        asker_fini(&k);
    }
    struct asker k = ask_for(&b, &all, "sensors", "where=status =");
    assert_int_equal(k.status, CONTROL_USAGE);
    assert_true(k.text[0] != '\0');
    asker_fini(&k);
    close_bench(&b);
}

static void schemas_show_the_fields_that_may_be_seen(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct asker k = ask_all(&b, &all, "schemas");
    assert_int_equal(k.n_rows, 3);
    assert_true(says(&k, "fields=2 makers=2 events=2 first="));
    asker_fini(&k);
    k = ask_all(&b, &some, "schemas");
    assert_int_equal(k.n_rows, 1); /* `plan` is made by a host that is not there */
    assert_true(says(&k, "event=cpu "));
    assert_true(says(&k, "fields=1 makers=1 \n")); /* and how many came of it would tell of the other one */
    asker_fini(&k);
    k = ask_for(&b, &some, "schemas", "fields=1");
    assert_int_equal(k.n_rows, 1);
    assert_true(says(&k, "field=x type=int role=value kind=unknown conflict=0"));
    asker_fini(&k);
    k = ask_for(&b, &some, "schemas", "fields=1", "where=field = 'inside'");
    assert_int_equal(k.n_rows, 0);
    asker_fini(&k);

    event_of(&b, "node1", "app", "plan", value_text(SLICE_LIT("t")));
    k = ask_for(&b, &all, "schemas", "event=plan");
    assert_true(says(&k, "conflict=inside "));
    asker_fini(&k);
    k = ask_for(&b, &some, "schemas", "event=plan");
    assert_true(k.n_rows > 0);
    assert_false(says(&k, "inside"));
    asker_fini(&k);
    close_bench(&b);
}

static void hosts_have_what_the_directory_knows(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct asker k = ask_all(&b, &all, "hosts");
    assert_int_equal(k.n_rows, 3);
    assert_true(says(&k, "address=10.0.0.7:4711 domain=example.org sensors=2 programs=0 missing=0"));
    assert_true(says(&k, "kernel=6.1.0"));
    assert_true(
        says(&k, "host=lost state=missing connected=0 domain=example.org sensors=0 programs=0 missing=1"));
    asker_fini(&k);
    k = ask_all(&b, &some, "hosts");
    assert_int_equal(k.n_rows, 2);
    assert_false(says(&k, "secret"));
    assert_false(says(&k, "kernel"));
    assert_true(says(&k, "cpus=8"));
    asker_fini(&k);
    k = ask_for(&b, &some, "hosts", "where=kernel = '6.1.0'");
    assert_int_equal(k.n_rows, 0); /* it can't be found by that either */
    asker_fini(&k);
    k = ask_for(&b, &all, "hosts", "where=state = 'missing'");
    assert_int_equal(k.n_rows, 1);
    asker_fini(&k);
    k = ask_for(&b, &all, "hosts", "workers=l*");
    assert_int_equal(k.n_rows, 1);
    asker_fini(&k);
    close_bench(&b);
}

/* More than a page of sensors, of fields, and of hosts that are missing: each exactly once. */
static void pages_have_everything_once(void **state)
{
    (void)state;
    enum { HOSTS = 3000 };
    struct bench b;
    struct diag why;
    char text[64];
    open_bench(&b);
    for (unsigned i = 0; i < HOSTS; i++) {
        (void)snprintf(text, sizeof text, "absent%u cpu", i);
        assert_int_equal(directory_expect(b.d, slice_str(text), &why), 0);
    }
    struct asker k = ask_for(&b, &all, "sensors", "host=absent*");
    assert_int_equal(k.n_rows, HOSTS);
    assert_true(k.pages > 1);
    asker_fini(&k);
    k = ask_for(&b, &all, "hosts", "workers=absent*");
    assert_int_equal(k.n_rows, HOSTS);
    assert_true(k.pages > 1);
    asker_fini(&k);

    struct field fields[EVENT_FIELDS_MAX] = {0};
    char names[EVENT_FIELDS_MAX][16], help[EVENT_HELP_MAX];
    memset(help, 'h', sizeof help);
    for (unsigned i = 0; i < EVENT_FIELDS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "f%u", i);
        fields[i] = (struct field){.name = slice_str(names[i]),
                                   .unit = {"", 0},
                                   .help = slice_of(help, sizeof help),
                                   .type = VALUE_INT};
    }
    struct value values[EVENT_FIELDS_MAX] = {0};
    const struct event_head head = {
        .time_ns = b.utc_ns, .host = SLICE_LIT("node1"), .prog = SLICE_LIT("app")};
    struct schema *wide;
    assert_int_equal(schema_create(SLICE_LIT("wide"), fields, EVENT_FIELDS_MAX, &wide), 0);
    assert_int_equal(batch_builder_add_known(b.builder, &head, wide, values, NULL), 0);
    struct batch *batch = batch_builder_finish(b.builder, NULL);
    directory_batch(b.d, batch, b.mono_ns, b.utc_ns);
    batch_unref(batch);
    schema_unref(wide);
    k = ask_for(&b, &all, "schemas", "fields=1", "event=wide");
    assert_int_equal(k.n_rows, EVENT_FIELDS_MAX);
    assert_true(k.pages > 1);
    for (unsigned i = 0; i < EVENT_FIELDS_MAX; i++) {
        (void)snprintf(text, sizeof text, "field=f%u ", i);
        assert_true(says(&k, text));
    }
    asker_fini(&k);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_have_classes),
        cmocka_unit_test(everything_is_there_for_who_may),
        cmocka_unit_test(what_may_not_be_seen_is_not_there),
        cmocka_unit_test(choices_and_predicates),
        cmocka_unit_test(schemas_show_the_fields_that_may_be_seen),
        cmocka_unit_test(hosts_have_what_the_directory_knows),
        cmocka_unit_test(pages_have_everything_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
