/* SPDX-License-Identifier: Apache-2.0 */
/* schema.set and the configuration's classes: what is set, what is refused and how, and what the audit has. */
#include "unit/test.h"

#include "gateway/class_verbs.h"
#include "unit/event/classes.h"

struct bench {
    struct event_base *base;
    struct workers *ws;
    struct ledger ledger;
    struct control *c;
    struct class_verbs *verbs;
    struct test_classes classes;
    int status; /* of the last answer */
    char text[512], audited[128];
    unsigned n_audited;
};

struct asker {
    struct control_asker asker;
    struct bench *b;
};

static const struct access_identity owner = {.kind = ACCESS_OWNER, .uid = UINT32_MAX}, local = {.kind = ACCESS_LOCAL, .uid = 1000};

static void on_answer(struct control_asker *to, const struct frame_answer *a)
{
    struct bench *b = ((struct asker *)(void *)to)->b;
    b->status = a->status;
    (void)snprintf(b->text, sizeof b->text, "%.*s", SLICE_ARG(a->text));
}

static void on_done(void *arg, const struct control_done *d)
{
    struct bench *b = arg;
    b->n_audited++;
    (void)snprintf(b->audited, sizeof b->audited, "%.*s %.*s %u", SLICE_ARG(d->verb), SLICE_ARG(d->where), d->status);
}

static void bench_open(struct bench *b, bool has_classes, const char *given)
{
    static const struct control_ops ops = {.on_done = on_done};
    *b = (struct bench){.base = event_base_new(), .classes = {.fields = {{"latency", CLASS_TEXT}, {"status", CLASS_TEXT}}}};
    b->ws = workers_create(&(struct workers_options){.level = SEAL_NONE});
    b->c = control_create(b->base, b->ws, &b->ledger, &ops, b);
    assert_non_null(b->c);
    const struct class_source *source = test_classes_source(&b->classes);
    assert_int_equal(class_verbs_create(b->c, has_classes ? source : NULL, given, &b->verbs), 0);
}

static void bench_close(struct bench *b)
{
    control_destroy(b->c);
    class_verbs_destroy(b->verbs);
    workers_destroy(b->ws);
    event_base_free(b->base);
}

static int ask(struct bench *b, const struct access_identity *who, const char *event, const char *field, const char *class)
{
    struct asker k = {.asker = {.answer = on_answer, .who = who}, .b = b};
    struct args_writer args = {0};
    args_add_text(&args, "event", slice_str(event));
    args_add_text(&args, "field", slice_str(field));
    args_add_text(&args, "class", slice_str(class));
    b->status = -1;
    control_ask(b->c, &k.asker,
                &(struct frame_control){.request = 1, .verb = SLICE_LIT("schema.set"), .args = args_of(&args)});
    args_writer_fini(&args);
    return b->status;
}

static void test_set(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, true, NULL);
    assert_int_equal(ask(&b, &owner, "rpc.call", "latency", "number"), CONTROL_DONE);
    assert_int_equal(b.classes.fields[0].class, CLASS_NUMBER);
    assert_string_equal(b.audited, "schema.set rpc.call latency number 0");
    assert_int_equal(ask(&b, &owner, "rpc.call", "latency", "integer"), CONTROL_USAGE);
    assert_non_null(strstr(b.text, "number or text"));
    assert_int_equal(ask(&b, &owner, "rpc.call", "", "text"), CONTROL_USAGE);
    assert_int_equal(ask(&b, &owner, "rpc.call", "latencies", "text"), CONTROL_NOT_FOUND);
    assert_non_null(strstr(b.text, "latencies"));
    unsigned before = b.n_audited;
    assert_int_equal(ask(&b, &local, "rpc.call", "latency", "text"), CONTROL_NOT_ALLOWED);
    assert_int_equal(b.n_audited, before); /* a denial has its own event */
    assert_int_equal(b.classes.fields[0].class, CLASS_NUMBER);
    bench_close(&b);
    bench_open(&b, false, "rpc.call latency number");
    assert_int_equal(ask(&b, &owner, "rpc.call", "latency", "number"), CONTROL_FAILED);
    assert_non_null(strstr(b.text, "no archive"));
    class_verbs_tick(b.verbs);
    bench_close(&b);
}

/* Those that are known at once; one that is not, when it comes. */
static void test_given(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, true, "rpc.call latency number\nrpc.call late number");
    assert_int_equal(b.classes.fields[0].class, CLASS_NUMBER);
    assert_int_equal(b.classes.fields[1].class, CLASS_TEXT);
    b.classes.fields[2].field = "late";
    b.classes.fields[2].class = CLASS_TEXT;
    class_verbs_tick(b.verbs);
    assert_int_equal(b.classes.fields[2].class, CLASS_TEXT); /* nothing has changed, as far as is known */
    b.classes.generation++;
    class_verbs_tick(b.verbs);
    assert_int_equal(b.classes.fields[2].class, CLASS_NUMBER);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_set), cmocka_unit_test(test_given)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
