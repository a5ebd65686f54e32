/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/api_question.h"

#include "base/num.h"

#include <errno.h>

static struct question *of_asker(struct control_asker *a)
{
    return (struct question *)((char *)a - offsetof(struct question, asker));
}

static void soon(struct question *q)
{
    event_active(q->turn, EV_TIMEOUT, 0);
}

/* ---------------------------------------------------------------- answers */

static void keep_after(struct question *q, struct value after)
{
    q->after = after;
    if (!value_is_text(after.type))
        return;
    strbuf_reset(&q->after_text);
    strbuf_add_slice(&q->after_text, value_slice(after));
    q->after.p = strbuf_slice(&q->after_text).p;
    q->after.n = (uint32_t)q->after_text.n;
}

static void keep_end(struct question *q, const struct frame_answer *answer)
{
    struct args rest = answer->args;
    struct arg a;
    q->status = answer->status;
    strbuf_reset(&q->text);
    strbuf_add_slice(&q->text, answer->text);
    args_writer_reset(&q->values);
    keep_after(q, value_none());
    while (args_next(&rest, &a))
        if (slice_eq_str(a.name, "after"))
            keep_after(q, a.value);
        else if (!slice_eq_str(a.name, "rows"))
            args_add(&q->values, a.name, a.value);
}

static void on_answer(struct control_asker *asker, const struct frame_answer *answer)
{
    struct question *q = of_asker(asker);
    if (answer->status == CONTROL_MORE) {
        bool is_count = answer->args.n == 1 && args_value(answer->args, "asked").type != VALUE_NONE;
        if (is_count) /* of workers: the last answer has it, too */
            return;
        q->rows++;
        q->ops->row(q, answer->args, answer->text);
        return;
    }
    q->is_asking = false;
    keep_end(q, answer);
    soon(q); /* a question is not asked, nor ended, from inside of an answer */
}

static void on_events(struct control_asker *asker, uint64_t request, const struct event *events, size_t n)
{
    struct question *q = of_asker(asker);
    (void)request; /* one at a time */
    q->rows += n;
    q->ops->events(q, events, n);
}

/* ---------------------------------------------------------------- pages */

static void ask_page(struct question *q)
{
    struct args rest = args_of(&q->args);
    struct arg a;
    args_writer_reset(&q->page);
    while (args_next(&rest, &a))
        args_add(&q->page, a.name, a.value);
    if (q->after.type != VALUE_NONE)
        args_add(&q->page, SLICE_LIT("after"), q->after);
    q->is_asking = q->is_inside = true;
    control_ask(
        q->control, &q->asker,
        &(struct frame_control){.request = 1, .verb = strbuf_slice(&q->verb), .args = args_of(&q->page)});
    q->is_inside = false;
}

static void end(struct question *q)
{
    const struct question_end last = {.status = q->status,
                                      .text = strbuf_slice(&q->text),
                                      .values = args_of(&q->values),
                                      .next = q->after,
                                      .rows = q->rows};
    q->is_ended = true;
    q->ops->done(q, &last);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct question *q = arg;
    (void)fd, (void)what; /* a timer's */
    if (q->is_asking || q->is_ended)
        return;
    bool has_more = q->status == CONTROL_DONE && q->after.type != VALUE_NONE;
    enum question_more more = has_more && q->ops->more ? q->ops->more(q) : QUESTION_ON;
    q->is_waiting = has_more && more == QUESTION_WAIT;
    if (q->is_waiting)
        return;
    if (has_more && more == QUESTION_ON)
        ask_page(q);
    else
        end(q);
}

void question_go_on(struct question *q)
{
    if (q->is_waiting)
        soon(q);
}

/* ---------------------------------------------------------------- */

int question_ask(struct question *q, struct event_base *base, struct control *control,
                 const struct access_identity *who, struct slice verb, struct args args)
{
    struct arg a;
    q->control = control;
    q->asker = (struct control_asker){.answer = on_answer, .events = on_events, .who = who};
    q->turn = evtimer_new(base, on_turn, q);
    strbuf_add_slice(&q->verb, verb);
    while (args_next(&args, &a))
        if (slice_eq_str(a.name, "after"))
            keep_after(q, a.value);
        else
            args_add(&q->args, a.name, a.value);
    if (!q->turn || strbuf_failed(&q->verb) || strbuf_failed(&q->args.list) || strbuf_failed(&q->after_text))
        return -ENOMEM;
    ask_page(q);
    return 0;
}

void question_fini(struct question *q)
{
    if (q->control)
        control_forget(q->control, &q->asker);
    if (q->turn)
        event_free(q->turn);
    q->turn = NULL;
    strbuf_fini(&q->verb);
    strbuf_fini(&q->after_text);
    strbuf_fini(&q->text);
    args_writer_fini(&q->args);
    args_writer_fini(&q->page);
    args_writer_fini(&q->values);
}

void question_add_text(struct args_writer *out, struct slice name, struct slice text)
{
    static const char *const numbers[] = {"after", "limit", "timeout_ms", "lease_ms"};
    struct num n = num_classify(text);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (slice_eq_str(name, numbers[i]) && n.is == NUM_INT && n.i >= 0) {
            args_add(out, name, value_uint((uint64_t)n.i));
            return;
        }
    bool is_true = slice_eq_str(text, "true");
    if (slice_eq_str(name, "dry_run") && (is_true || slice_eq_str(text, "false")))
        args_add(out, name, value_bool(is_true));
    else
        args_add(out, name, value_text(text));
}
