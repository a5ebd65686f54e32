/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that follow pages, to a control whose verbs are the test's. */
#include "unit/test.h"

#include "gateway/api_question.h"

enum { PAGES = 4, ROWS = 3 };

struct bench {
    struct event_base *base;
    struct workers *workers;
    struct ledger ledger;
    struct control *control;
    unsigned asked; /* pages that were asked for */
};

struct asker {
    struct question question; /* first */
    struct bench *bench;
    uint64_t rows, sum;
    unsigned pages_max; /* then it has enough; 0 = never */
    bool waits;         /* after each page, until it is told */
    bool is_done;
    uint16_t status;
    struct value next;
    uint64_t value;
};

static const struct access_identity owner = {.kind = ACCESS_OWNER};
static const struct access_identity nobody = {.kind = ACCESS_NOBODY};

/* PAGES pages of ROWS rows, numbered on; `after` is the page's number. */
static void run_pages(void *arg, struct control_turn *t)
{
    struct bench *b = arg;
    uint64_t page = args_uint(control_args(t), "after", 0);
    struct args_writer row = {0};
    b->asked++;
    for (uint64_t i = 0; i < ROWS; i++) {
        args_writer_reset(&row);
        args_add_uint(&row, "n", page * ROWS + i);
        if (!control_row(t, args_of(&row)))
            break;
    }
    args_writer_reset(&row);
    args_add_uint(&row, "rows", ROWS);
    args_add_uint(&row, "more", args_uint(control_args(t), "more", 0));
    if (page + 1 < PAGES)
        args_add_uint(&row, "after", page + 1);
    control_end(t, CONTROL_DONE, args_of(&row), "%s", "");
    args_writer_fini(&row);
}

static const struct control_verb verbs[] = {{"pages", ACCESS_LOOKUP, run_pages}};

static void on_row(struct question *q, struct args row, struct slice text)
{
    struct asker *a = (struct asker *)(void *)q;
    (void)text;
    assert_int_equal(args_uint(row, "n", UINT64_MAX), a->rows); /* in order */
    a->rows++;
    a->sum += args_uint(row, "n", 0);
}

static void on_events(struct question *q, const struct event *events, size_t n)
{
    (void)q, (void)events, (void)n;
    fail_msg("no verb here gives events");
}

static enum question_more on_more(struct question *q)
{
    struct asker *a = (struct asker *)(void *)q;
    if (a->pages_max && a->bench->asked >= a->pages_max)
        return QUESTION_ENOUGH;
    return a->waits ? QUESTION_WAIT : QUESTION_ON;
}

static void on_done(struct question *q, const struct question_end *end)
{
    struct asker *a = (struct asker *)(void *)q;
    assert_false(a->is_done);
    a->is_done = true;
    a->status = end->status;
    a->next = end->next;
    a->value = args_uint(end->values, "more", 0);
    assert_int_equal(args_value(end->values, "rows").type, VALUE_NONE);
    assert_int_equal(end->rows, a->rows);
}

static const struct question_ops ops = {on_row, on_events, on_more, on_done};

static int make_bench(void **state)
{
    static struct bench b;
    static const struct control_ops none = {0};
    static const struct workers_options options = {.lease_ms = 1000};
    b.base = event_base_new();
    b.workers = workers_create(&options);
    b.control = control_create(b.base, b.workers, &b.ledger, &none, &b);
    b.asked = 0;
    *state = &b;
    return control_add(b.control, verbs, 1, &b);
}

static int destroy_bench(void **state)
{
    struct bench *b = *state;
    control_destroy(b->control);
    workers_destroy(b->workers);
    event_base_free(b->base);
    return 0;
}

static void ask(struct asker *a, struct bench *b, const struct access_identity *who, const char *verb,
                uint64_t after)
{
    struct args_writer args = {0};
    args_add_uint(&args, "more", 77);
    if (after)
        args_add_uint(&args, "after", after);
    a->bench = b;
    a->question.ops = &ops;
    a->rows = after * ROWS;
    a->question.rows = a->rows;
    assert_int_equal(question_ask(&a->question, b->base, b->control, who, slice_str(verb), args_of(&args)),
                     0);
    assert_false(a->is_done); /* from the loop, not from inside */
    args_writer_fini(&args);
}

static void turn(struct bench *b)
{
    (void)event_base_loop(b->base, EVLOOP_NONBLOCK);
}

static void test_all(void **state)
{
    struct asker a = {0};
    struct bench *b = *state;
    ask(&a, b, &owner, "pages", 0);
    for (int i = 0; i < 10 && !a.is_done; i++)
        turn(b);
    assert_true(a.is_done && a.status == CONTROL_DONE && a.next.type == VALUE_NONE);
    assert_int_equal(a.rows, PAGES * ROWS);
    assert_int_equal(a.sum, PAGES * ROWS * (PAGES * ROWS - 1) / 2);
    assert_int_equal(b->asked, PAGES);
    assert_int_equal(a.value, 77);
    question_fini(&a.question);
}

static void test_enough(void **state)
{
    struct asker a = {.pages_max = 2}, rest = {0};
    struct bench *b = *state;
    ask(&a, b, &owner, "pages", 0);
    for (int i = 0; i < 10 && !a.is_done; i++)
        turn(b);
    assert_true(a.is_done && a.next.type == VALUE_UINT);
    assert_int_equal(a.rows, 2 * ROWS);
    ask(&rest, b, &owner, "pages", a.next.u);
    for (int i = 0; i < 10 && !rest.is_done; i++)
        turn(b);
    assert_int_equal(rest.rows, PAGES * ROWS);
    question_fini(&rest.question);
    question_fini(&a.question);
}

static void test_waits(void **state)
{
    struct asker a = {.waits = true};
    struct bench *b = *state;
    ask(&a, b, &owner, "pages", 0);
    for (int i = 0; i < 10; i++)
        turn(b);
    assert_false(a.is_done);
    assert_int_equal(b->asked, 1);
    a.waits = false;
    question_go_on(&a.question);
    for (int i = 0; i < 10 && !a.is_done; i++)
        turn(b);
    assert_int_equal(a.rows, PAGES * ROWS);
    question_fini(&a.question);
}

static void test_refused_and_left(void **state)
{
    struct asker a = {0}, unknown = {0}, leaves = {0};
    struct bench *b = *state;
    ask(&a, b, &nobody, "pages", 0);
    turn(b);
    assert_true(a.is_done && a.status == CONTROL_NOT_ALLOWED && a.rows == 0);
    question_fini(&a.question);
    ask(&unknown, b, &owner, "no.such", 0);
    turn(b);
    assert_true(unknown.is_done && unknown.status == CONTROL_USAGE);
    question_fini(&unknown.question);
    ask(&leaves, b, &owner, "pages", 0);
    question_fini(&leaves.question);
    turn(b);
    assert_false(leaves.is_done);
}

static void test_named_values(void **state)
{
    (void)state;
    struct args_writer w = {0};
    question_add_text(&w, SLICE_LIT("after"), SLICE_LIT("12"));
    question_add_text(&w, SLICE_LIT("limit"), SLICE_LIT("-1"));
    question_add_text(&w, SLICE_LIT("host"), SLICE_LIT("12"));
    question_add_text(&w, SLICE_LIT("dry_run"), SLICE_LIT("true"));
    struct args a = args_of(&w);
    assert_int_equal(args_uint(a, "after", 0), 12);
    assert_int_equal(args_value(a, "limit").type, VALUE_TEXT); /* who asks for a number says what is wrong */
    assert_slice(args_text(a, "host"), "12");
    assert_int_equal(args_value(a, "dry_run").type, VALUE_BOOL);
    args_writer_fini(&w);
}

int main(void)
{
#define WITH_BENCH(f) cmocka_unit_test_setup_teardown(f, make_bench, destroy_bench)
    const struct CMUnitTest tests[] = {WITH_BENCH(test_all), WITH_BENCH(test_enough), WITH_BENCH(test_waits),
                                       WITH_BENCH(test_refused_and_left),
                                       cmocka_unit_test(test_named_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
