/* SPDX-License-Identifier: Apache-2.0 */
/* The questions faults and rules, from what guards told; and orders, which become the gateway's own events,
 * by those who may. */
#include "unit/gateway/bench.h"

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/access_table.h"
#include "gateway/fault_verbs.h"

#include <event2/event.h>

#define ROW(n, w) .name = (n), .who = (w), .events = "", .targets = "", .hide = ""
static const struct access_row rows[] = {
    {ROW("ann", "operator:ann"), .may = ACCESS_BIT(ACCESS_CONTROL), .hosts = "web*"},
    {ROW("ann-not", "operator:ann"), .may_not = ACCESS_ALL & ~(uint32_t)ACCESS_BIT(ACCESS_QUERY),
     .hosts = ""},
    {ROW("ann-query", "operator:ann"), .may = ACCESS_BIT(ACCESS_QUERY), .hosts = ""},
    {.name = "bob",
     .who = "operator:bob",
     .may = ACCESS_BIT(ACCESS_QUERY),
     .hosts = "",
     .events = "",
     .targets = "web*",
     .hide = "note"},
    {ROW("bob-not", "operator:bob"), .may_not = ACCESS_ALL, .hosts = ""},
};

/* A gateway that has heard of guards; its own events are in own's batches. */
struct site {
    struct bench bench;
    struct event_base *base;
    struct access *access;
    struct workers *workers;
    struct control *control;
    struct latest *latest;
    struct own *own;
    struct fault_verbs *verbs;
    struct registry *registry;
    struct batch_builder *builder;
    struct schema *fault, *rule;
    struct access_identity owner, ann, bob, local;
    struct batch *ordered; /* the last fault.order that was kept */
    unsigned n_ordered;
};

/* Called for what is in the journal: keeps what was ordered. */
static void note_order(void *arg, const struct batch *batch, struct position at)
{
    struct site *s = arg;
    (void)at; /* its place is other tests' */
    for (size_t i = 0; i < batch->n; i++) {
        if (!slice_eq_str(batch->events[i].schema->name, "fault.order"))
            continue;
        s->n_ordered++;
        batch_unref(s->ordered);
        s->ordered = batch_ref((struct batch *)(uintptr_t)batch);
    }
}

#define KEY(n)                                                                               \
    {                                                                                        \
        .name = {"" n, sizeof(n) - 1}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT, \
        .role = ROLE_KEY                                                                     \
    }
#define FIELD(n, t)                                                                  \
    {                                                                                \
        .name = {"" n, sizeof(n) - 1}, .unit = {"", 0}, .help = {"", 0}, .type = (t) \
    }

static void open_site(struct site *s)
{
    static const struct control_ops ops;
    static const struct field fault_fields[] = {KEY("rule"),
                                                KEY("fault"),
                                                KEY("target"),
                                                FIELD("state", VALUE_TEXT),
                                                FIELD("severity", VALUE_TEXT),
                                                FIELD("episode", VALUE_INT),
                                                FIELD("since", VALUE_INT),
                                                FIELD("told", VALUE_BOOL),
                                                FIELD("note", VALUE_TEXT)};
    static const struct field rule_fields[] = {KEY("rule"), FIELD("evaluations", VALUE_UINT),
                                               FIELD("why", VALUE_TEXT)};
    struct diag why = {0};
    *s = (struct site){.base = event_base_new()};
    bench_init(&s->bench);
    s->bench.options.on_batch = note_order;
    bench_start(&s->bench);
    s->bench.options.arg = s;
    assert_int_equal(access_create(rows, sizeof rows / sizeof *rows, NULL, 0, &s->access, &why), 0);
    s->owner = (struct access_identity){.kind = ACCESS_OWNER, .uid = 0, .table = s->access};
    s->local = (struct access_identity){.kind = ACCESS_LOCAL, .uid = 1000, .table = s->access};
    s->ann = (struct access_identity){
        .kind = ACCESS_OPERATOR, .uid = UINT32_MAX, .name = "ann", .table = s->access};
    s->bob = s->ann;
    memcpy(s->bob.name, "bob", 4);
    s->workers = workers_create(&(struct workers_options){.level = SEAL_NONE});
    s->control = control_create(s->base, s->workers, &s->bench.ledger, &ops, s);
    s->latest = latest_create(&(struct latest_options){.streams = 100000, .memory = 64 << 20});
    s->own = own_create(s->bench.in);
    s->registry = registry_create();
    s->builder = batch_builder_create(s->registry, 0);
    assert_int_equal(schema_create(SLICE_LIT("fault.state"), fault_fields, 9, &s->fault), 0);
    assert_int_equal(schema_create(SLICE_LIT("rule.state"), rule_fields, 3, &s->rule), 0);
    assert_int_equal(fault_verbs_create(s->control, s->latest, s->own, &s->verbs), 0);
}

static void close_site(struct site *s)
{
    batch_unref(s->ordered);
    own_end(s->own);
    ingest_drain(s->bench.in);
    own_destroy(s->own);
    control_destroy(s->control);
    fault_verbs_destroy(s->verbs);
    latest_destroy(s->latest);
    workers_destroy(s->workers);
    schema_unref(s->fault);
    schema_unref(s->rule);
    batch_builder_destroy(s->builder);
    registry_destroy(s->registry);
    access_destroy(s->access);
    bench_close(&s->bench);
    event_base_free(s->base);
}

static void tell(struct site *s, const struct schema *schema, const struct value *values)
{
    static int64_t last; /* later each time */
    int64_t now = clock_utc_ns();
    last = now > last ? now : last + 1;
    const struct event_head head = {.time_ns = last,
                                    .host = SLICE_LIT("guardian"),
                                    .prog = SLICE_LIT("gridline-guard"),
                                    .level = LEVEL_WARNING};
    assert_int_equal(batch_builder_add_known(s->builder, &head, schema, values, NULL), 0);
    struct batch *b = batch_builder_finish(s->builder, NULL);
    assert_non_null(b);
    latest_batch(s->latest, b, last);
    batch_unref(b);
}

static struct value text(const char *s)
{
    return value_text(slice_str(s));
}

static void tell_fault(struct site *s, const char *id, const char *rule, const char *host, const char *state)
{
    const struct value values[] = {text(rule),
                                   text(id),
                                   text(host),
                                   text(state),
                                   text("error"),
                                   value_int(2),
                                   value_int(INT64_C(1700000000000000000)),
                                   value_bool(true),
                                   text("private")};
    tell(s, s->fault, values);
}

static void tell_faults(struct site *s)
{
    const struct value rule[] = {text("disk-full"), value_uint(17), text("")};
    tell_fault(s, "00000000000000a1", "disk-full", "web1", "firing");
    tell_fault(s, "00000000000000a2", "disk-full", "db1", "acknowledged");
    tell_fault(s, "00000000000000a3", "host-late", "web2", "pending");
    tell_fault(s, "00000000000000a4", "host-late", "db2", "firing");
    tell_fault(s, "00000000000000a4", "host-late", "db2", "cleared");
    tell(s, s->rule, rule);
}

/* ---------------------------------------------------------------- asking */

struct answers {
    struct control_asker asker; /* first: the callback gets it */
    size_t n;
    uint16_t status;
    struct args_writer last; /* the last row */
    char ids[64];            /* the ends of those of all rows, by blanks, as far as they fit */
    char after[64];          /* of the last answer */
};

static void on_answer(struct control_asker *a, const struct frame_answer *answer)
{
    struct answers *out = (struct answers *)(void *)a;
    struct args args = answer->args;
    struct arg one;
    out->status = answer->status;
    if (answer->status != CONTROL_MORE) {
        struct slice after = args_text(answer->args, "after");
        (void)snprintf(out->after, sizeof out->after, "%.*s", (int)after.n, after.n ? after.p : "");
        return;
    }
    out->n++;
    args_writer_reset(&out->last);
    while (args_next(&args, &one))
        args_add(&out->last, one.name, one.value);
    struct slice id = args_text(answer->args, "fault");
    size_t used = strlen(out->ids);
    (void)snprintf(out->ids + used, sizeof out->ids - used, "%.*s ", (int)(id.n > 2 ? 2 : id.n),
                   id.n > 2 ? id.p + id.n - 2 : "");
}

static struct answers ask(struct site *s, const struct access_identity *who, const char *verb,
                          const struct named_value *values, size_t n)
{
    struct args_writer w = {0};
    struct answers a = {.asker = {.answer = on_answer, .who = who}};
    for (size_t i = 0; i < n; i++)
        args_add(&w, values[i].name, values[i].value);
    control_ask(s->control, &a.asker,
                &(struct frame_control){.request = 1, .verb = slice_str(verb), .args = args_of(&w)});
    control_forget(s->control, &a.asker);
    args_writer_fini(&w);
    assert_int_not_equal(a.status, CONTROL_MORE);
    return a;
}

static void expect(struct site *s, const struct access_identity *who, const char *state, const char *rule,
                   const char *host, const char *ids)
{
    const struct named_value values[] = {
        {SLICE_LIT("state"), text(state)}, {SLICE_LIT("rule"), text(rule)}, {SLICE_LIT("host"), text(host)}};
    struct answers a = ask(s, who, "faults", values, 3);
    assert_int_equal(a.status, CONTROL_DONE);
    assert_string_equal(a.ids, ids);
    args_writer_fini(&a.last);
}

static void open_faults_are_listed(void **state)
{
    (void)state;
    struct site s;
    open_site(&s);
    expect(&s, &s.owner, "", "", "", "");
    tell_faults(&s);
    expect(&s, &s.owner, "", "", "", "a1 a2 ");
    expect(&s, &s.owner, "all", "", "", "a1 a2 a3 a4 ");
    expect(&s, &s.owner, "cleared", "", "", "a4 ");
    expect(&s, &s.owner, "all", "host-*", "", "a3 a4 ");
    expect(&s, &s.owner, "all", "", "db*", "a2 a4 ");
    expect(&s, &s.owner, "all", "disk-full", "db1", "a2 ");
    close_site(&s);
}

/* Whatever kind of number a guard writes, the column has one type. */
static void columns_have_their_types(void **state)
{
    (void)state;
    struct site s;
    open_site(&s);
    tell_faults(&s);
    const struct named_value one = {SLICE_LIT("rule"), text("disk-full")};
    const struct named_value host = {SLICE_LIT("host"), text("web1")};
    struct answers a = ask(&s, &s.owner, "faults", &host, 1);
    struct args row = args_of(&a.last);
    assert_int_equal(args_value(row, "episode").type, VALUE_UINT);
    assert_int_equal(args_value(row, "episode").u, 2);
    assert_true(slice_eq_str(args_text(row, "since"), "2023-11-14T22:13:20.000000Z"));
    assert_true(slice_eq_str(args_text(row, "host"), "web1"));
    assert_true(slice_eq_str(args_text(row, "guard"), "guardian"));
    assert_true(slice_eq_str(args_text(row, "ack_note"), "private"));
    assert_int_equal(args_value(row, "told").type, VALUE_BOOL);
    args_writer_fini(&a.last);
    a = ask(&s, &s.owner, "rules", &one, 1);
    assert_int_equal(a.n, 1);
    assert_int_equal(args_uint(args_of(&a.last), "evaluations", 0), 17);
    args_writer_fini(&a.last);
    close_site(&s);
}

static void rows_are_those_one_may_see(void **state)
{
    (void)state;
    struct site s;
    open_site(&s);
    tell_faults(&s);
    expect(&s, &s.bob, "all", "", "", "a1 a3 "); /* about web hosts */
    struct answers a = ask(&s, &s.bob, "faults", NULL, 0);
    assert_int_equal(a.n, 1);
    assert_int_equal(args_value(args_of(&a.last), "ack_note").type, VALUE_NONE);
    args_writer_fini(&a.last);
    a = ask(&s, &s.local, "faults", NULL, 0);
    assert_int_equal(a.status, CONTROL_NOT_ALLOWED);
    assert_int_equal(a.n, 0);
    close_site(&s);
}

/* Many faults come in pages, each once. */
static void pages_have_each_once(void **state)
{
    (void)state;
    enum { N = 3000 };
    struct site s;
    struct strbuf after = {0};
    size_t n = 0, pages = 0;
    open_site(&s);
    for (unsigned i = 0; i < N; i++) {
        char id[17];
        (void)snprintf(id, sizeof id, "%016x", i);
        tell_fault(&s, id, "disk-full", "web1", "firing");
    }
    do {
        const struct named_value value = {SLICE_LIT("after"), value_text(strbuf_slice(&after))};
        struct answers page = ask(&s, &s.owner, "faults", &value, after.n ? 1 : 0);
        assert_int_equal(page.status, CONTROL_DONE);
        n += page.n;
        pages++;
        strbuf_reset(&after);
        strbuf_add_str(&after, page.after);
        args_writer_fini(&page.last);
    } while (after.n);
    assert_int_equal(n, N);
    assert_true(pages > 1);
    strbuf_fini(&after);
    close_site(&s);
}

/* ---------------------------------------------------------------- orders */

static struct slice ordered(const struct site *s, const char *field)
{
    struct value v = event_get(&s->ordered->events[s->ordered->n - 1], slice_str(field));
    return v.type == VALUE_TEXT ? value_slice(v) : SLICE_LIT("");
}

static uint16_t order(struct site *s, const struct access_identity *who, const char *verb,
                      const struct named_value *values, size_t n)
{
    struct answers a = ask(s, who, verb, values, n);
    args_writer_fini(&a.last);
    ingest_drain(s->bench.in);
    return a.status;
}

static uint16_t order_ack(struct site *s, const struct access_identity *who, const char *fault)
{
    const struct named_value values[] = {{SLICE_LIT("fault"), text(fault)},
                                         {SLICE_LIT("note"), text("seen")},
                                         {SLICE_LIT("by"), text("somebody else")}};
    return order(s, who, "ack", values, 3);
}

static void orders_are_events_in_the_askers_name(void **state)
{
    (void)state;
    struct site s;
    open_site(&s);
    tell_faults(&s);
    assert_int_equal(order_ack(&s, &s.ann, "00000000000000a1"), CONTROL_DONE);
    assert_int_equal(s.n_ordered, 1);
    assert_true(slice_eq_str(ordered(&s, "order"), "ack"));
    assert_true(slice_eq_str(ordered(&s, "fault"), "00000000000000a1"));
    assert_true(slice_eq_str(ordered(&s, "target"), "web1"));
    assert_true(slice_eq_str(ordered(&s, "note"), "seen"));
    assert_true(slice_eq_str(ordered(&s, "by"), "operator ann"));
    close_site(&s);
}

/* control is of hosts: that of the fault; all of them, where it is not known. */
static void orders_need_control_of_the_host(void **state)
{
    (void)state;
    struct site s;
    open_site(&s);
    tell_faults(&s);
    assert_int_equal(order_ack(&s, &s.ann, "00000000000000a2"), CONTROL_NOT_ALLOWED); /* db1 */
    assert_int_equal(order_ack(&s, &s.ann, "00000000000000ff"), CONTROL_NOT_ALLOWED); /* whose? */
    assert_int_equal(order_ack(&s, &s.bob, "00000000000000a1"), CONTROL_NOT_ALLOWED);
    assert_int_equal(order_ack(&s, &s.local, "00000000000000a1"), CONTROL_NOT_ALLOWED);
    assert_int_equal(s.n_ordered, 0);
    assert_int_equal(order_ack(&s, &s.owner, "00000000000000ff"), CONTROL_DONE);
    assert_int_equal(order_ack(&s, &s.owner, "00a1"), CONTROL_USAGE);
    assert_int_equal(order_ack(&s, &s.owner, "00000000000000zz"), CONTROL_USAGE);
    assert_int_equal(s.n_ordered, 1);
    close_site(&s);
}

static uint16_t order_silence(struct site *s, const struct access_identity *who, const char *host,
                              int64_t until)
{
    const struct named_value values[] = {{SLICE_LIT("rule"), text("disk-*")},
                                         {SLICE_LIT("host"), text(host)},
                                         {SLICE_LIT("until"), value_int(until)}};
    return order(s, who, "silence", values, 3);
}

static void silences_are_of_hosts_too(void **state)
{
    (void)state;
    struct site s;
    open_site(&s);
    int64_t later = clock_utc_ns() + 3600 * NS_PER_S;
    assert_int_equal(order_silence(&s, &s.ann, "web1", later), CONTROL_DONE);
    assert_true(slice_eq_str(ordered(&s, "target"), "web1"));
    assert_true(slice_eq_str(ordered(&s, "rule"), "disk-*"));
    assert_int_equal(order_silence(&s, &s.ann, "db1", later), CONTROL_NOT_ALLOWED);
    assert_int_equal(order_silence(&s, &s.ann, "web*", later), CONTROL_NOT_ALLOWED); /* a pattern is of all */
    assert_int_equal(order_silence(&s, &s.ann, "", later), CONTROL_NOT_ALLOWED);
    assert_int_equal(order_silence(&s, &s.owner, "", later), CONTROL_DONE);
    assert_int_equal(order_silence(&s, &s.owner, "", clock_utc_ns() - 1), CONTROL_USAGE);
    assert_int_equal(order_silence(&s, &s.owner, "a\nb", later), CONTROL_USAGE);
    assert_int_equal(s.n_ordered, 2);
    const struct named_value end[] = {{SLICE_LIT("id"), value_uint(3)},
                                      {SLICE_LIT("guard"), text("guardian")}};
    assert_int_equal(order(&s, &s.ann, "unsilence", end, 2), CONTROL_NOT_ALLOWED);
    assert_int_equal(order(&s, &s.owner, "unsilence", end, 1), CONTROL_USAGE); /* of which guard? */
    assert_int_equal(order(&s, &s.owner, "unsilence", end, 2), CONTROL_DONE);
    assert_true(slice_eq_str(ordered(&s, "guard"), "guardian"));
    close_site(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_faults_are_listed),
        cmocka_unit_test(columns_have_their_types),
        cmocka_unit_test(rows_are_those_one_may_see),
        cmocka_unit_test(pages_have_each_once),
        cmocka_unit_test(orders_are_events_in_the_askers_name),
        cmocka_unit_test(orders_need_control_of_the_host),
        cmocka_unit_test(silences_are_of_hosts_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
