/* SPDX-License-Identifier: Apache-2.0 */
/* The verb rule.test of POST /api/v1/control: what a rule would have done, by `gridline rule test` in a
 * process of its own, which reads the archive's folder and sees all of it: so it takes an action of its own.
 *
 * The rule comes as text of a guard's configuration, or by its name: then it is as its guard has told it last
 * (the event rule.state, without its actions). What the program prints, a row a line, is the answer. It is
 * bounded in time, memory and output, and there is one at a time; a client that leaves ends it. */
#include "gateway/api.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "event/json.h"

#include <errno.h>
#include <inttypes.h>
#include <event2/event.h>
#include <stdio.h>

enum {
    TEXT_MAX = 64 << 10,
    TIME_TEXT_MAX = 64,
    OUTPUT_MAX = 4 << 20,
    RUN_S = 60,
    ARGS_BEFORE = 24,
    NICE = 10
};
enum exit_of { EXITED_DONE = 0, EXITED_USAGE = 2, EXITED_NOT_FOUND = 3, EXITED_PARTLY = 4 }; /* docs/cli.md */

struct testing {
    struct http_request *request;
    struct child *child;
    struct event *event; /* of its descriptor */
    struct strbuf out;
};

/* ---------------------------------------------------------------- the answer */

/* Lines of JSON as the members of a list; how many. */
static uint64_t put_lines(struct strbuf *out, struct slice lines)
{
    uint64_t n = 0;
    while (lines.n) {
        const char *end = memchr(lines.p, '\n', lines.n);
        size_t length = end ? (size_t)(end - lines.p) : lines.n;
        if (length) {
            strbuf_add_str(out, n++ ? ",\n" : "");
            strbuf_add_slice(out, slice_of(lines.p, length));
        }
        lines = slice_from(lines, end ? length + 1 : length);
    }
    return n;
}

static void reply_rows(struct testing *t, bool is_partly)
{
    struct http_request *r = t->request;
    struct strbuf body = {0};
    strbuf_add_str(&body, "{\"rows\":[");
    uint64_t n = put_lines(&body, strbuf_slice(&t->out));
    strbuf_printf(&body, "],\"end\":{\"status\":\"%s\",\"rows\":%" PRIu64 ",\"text\":",
                  is_partly ? "partly" : "done", n);
    json_add_string(&body, slice_str(child_said(t->child)));
    strbuf_add_str(&body, "}}\n");
    if (strbuf_failed(&body) || strbuf_failed(&t->out))
        http_problem(r, 503, "the gateway is out of memory");
    else
        http_reply_packed(r, "application/json", NULL, strbuf_slice(&body));
    strbuf_fini(&body);
}

static void reply_end(struct testing *t)
{
    const struct child_end *end = child_end(t->child);
    const char *said = child_said(t->child);
    if (end->reason == CHILD_TIME)
        http_problem(t->request, 504, "the test took more than %d s; choose a shorter time", RUN_S);
    else if (end->reason == CHILD_BYTES)
        http_problem(t->request, 422, "the rule does more than can be listed; choose a shorter time");
    else if (end->reason != CHILD_BY_ITSELF || end->code < 0)
        http_problem(t->request, 503, "the test was ended; try a shorter time");
    else if (end->code == EXITED_DONE || end->code == EXITED_PARTLY)
        reply_rows(t, end->code == EXITED_PARTLY);
    else
        http_problem(t->request,
                     end->code == EXITED_USAGE       ? 400
                     : end->code == EXITED_NOT_FOUND ? 404
                                                     : 503,
                     "%s", *said ? said : "the test failed");
}

static void on_child(evutil_socket_t fd, short what, void *arg)
{
    struct testing *t = arg;
    (void)fd, (void)what; /* it is readable */
    int more = child_pump(t->child, clock_mono_ns());
    struct slice got = child_output(t->child);
    strbuf_add_slice(&t->out, got);
    child_consume(t->child, got.n);
    if (!more)
        reply_end(t); /* t is gone */
}

static void on_gone(struct http_request *r)
{
    struct testing *t = r->state;
    if (t->event)
        event_free(t->event);
    child_destroy(t->child);
    strbuf_fini(&t->out);
    mem_free(t);
    http_test_ended(r->http);
}

/* ---------------------------------------------------------------- the question */

/* The rule that a guard has told of. */
struct known_rule {
    struct control_asker asker; /* first: the callback gets it */
    struct slice name, guard;   /* guard "" = any */
    struct strbuf text;
};

static void on_row(struct control_asker *asker, const struct frame_answer *a)
{
    struct known_rule *k = (struct known_rule *)(void *)asker;
    bool is_it = slice_eq(args_text(a->args, "rule"), k->name) &&
                 (k->guard.n == 0 || slice_eq(args_text(a->args, "guard"), k->guard));
    if (is_it && k->text.n == 0)
        strbuf_add_slice(&k->text, args_text(a->args, "text"));
}

/* `rules` answers within the call. */
static void find_rule(struct http_request *r, struct args args, struct strbuf *out)
{
    struct known_rule k = {.asker = {.answer = on_row, .who = r->who},
                           .name = args_text(args, "rule"),
                           .guard = args_text(args, "guard")};
    struct args_writer question = {0};
    if (!text_is_name(k.name))
        return;
    args_add_text(&question, "rule", k.name);
    control_ask(r->options->control, &k.asker,
                &(struct frame_control){.verb = SLICE_LIT("rules"), .args = args_of(&question)});
    control_forget(r->options->control, &k.asker);
    strbuf_add_slice(out, strbuf_slice(&k.text));
    strbuf_fini(&k.text);
    args_writer_fini(&question);
}

/* A time as text, or in ns: "--from=...". false: it is none. */
static bool put_time(struct args args, const char *name, struct strbuf *out)
{
    char text[CLOCK_TEXT_MAX];
    struct value v = args_value(args, name);
    bool is_number = v.type == VALUE_INT || (v.type == VALUE_UINT && v.u <= INT64_MAX);
    struct slice given = value_is_text(v.type) ? value_slice(v) : SLICE_LIT("");
    if (is_number)
        given = slice_of(text, clock_print_iso(text, v.i));
    if (v.type == VALUE_NONE)
        return true;
    if (given.n == 0 || given.n > TIME_TEXT_MAX || text_has_control(given))
        return false;
    strbuf_printf(out, "--%s=%.*s", name, SLICE_ARG(given));
    return true;
}

static int start(struct http_request *r, struct testing *t, const struct strbuf *from,
                 const struct strbuf *to, struct diag *why)
{
    const char *argv[ARGS_BEFORE + 3];
    const char *const *before = r->options->rule_test;
    size_t n = 0;
    while (n < ARGS_BEFORE && before[n]) {
        argv[n] = before[n];
        n++;
    }
    if (from->n)
        argv[n++] = from->p;
    if (to->n)
        argv[n++] = to->p;
    argv[n] = NULL;
    const struct child_options options = {.argv = argv,
                                          .has_input = true,
                                          .max_run_ns = RUN_S * NS_PER_S,
                                          .max_bytes = OUTPUT_MAX,
                                          .nice = NICE};
    int e = child_start(&options, clock_mono_ns(), &t->child, why);
    if (e < 0)
        return e;
    t->event = event_new(r->options->base, child_wait_fd(t->child), EV_READ | EV_PERSIST, on_child, t);
    return t->event && event_add(t->event, NULL) == 0 ? 0
                                                      : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
}

static void run(struct http_request *r, struct slice text, const struct strbuf *from, const struct strbuf *to)
{
    struct diag why = {0};
    if (!http_test_begins(r->http)) {
        http_problem(r, 503, "another test runs; try again when it has ended");
        return;
    }
    struct testing *t = mem_try_alloc(sizeof *t);
    if (!t) {
        http_test_ended(r->http);
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    t->request = r;
    r->state = t;
    r->gone = on_gone;
    int e = start(r, t, from, to, &why);
    if (e == 0)
        e = child_write(t->child, text);
    if (e < 0) {
        http_problem(r, 503, "the test can't be run: %s", why.message[0] ? why.message : err_text(e));
        return;
    }
    child_end_input(t->child);
    http_watch(r);
}

void api_rule_test(struct http_request *r, struct args args)
{
    struct strbuf text = {0}, from = {0}, to = {0};
    if (!access_check(r->who, ACCESS_TEST, SLICE_LIT(""), SLICE_LIT(""))) {
        http_problem_control(r, CONTROL_NOT_ALLOWED, SLICE_LIT("you may not test rules here"));
        return;
    }
    strbuf_add_slice(&text, args_text(args, "text"));
    if (text.n == 0)
        find_rule(r, args, &text);
    bool are_times = put_time(args, "from", &from) && put_time(args, "to", &to);
    if (!r->options->rule_test)
        http_problem(r, 404, "this gateway keeps no archive");
    else if (strbuf_failed(&text) || strbuf_failed(&from) || strbuf_failed(&to))
        http_problem(r, 503, "the gateway is out of memory");
    else if (text.n == 0 && args_text(args, "rule").n)
        http_problem(r, 404, "no guard has told of such a rule; they do each minute");
    else if (text.n == 0 || text.n > TEXT_MAX)
        http_problem(
            r, 400,
            "give the name of a guard's rule as `rule`, or rules as `text`: rule NAME { query = \"...\" }");
    else if (!are_times)
        http_problem(r, 400, "from and to are times: ns since 1970, 2026-11-17T10:00:00Z, now-1d");
    else
        run(r, strbuf_slice(&text), &from, &to);
    strbuf_fini(&text);
    strbuf_fini(&from);
    strbuf_fini(&to);
}
