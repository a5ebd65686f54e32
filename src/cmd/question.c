/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/question.h"

#include "base/clock.h"
#include "cmd/say.h"
#include "cmd/stop.h"

#include <errno.h>
#include <inttypes.h>

enum { QUIET_MS = 1000, MARGIN_MS = 5000, WORKERS_TIMEOUT_MS = 10000 };
static const int64_t ns_per_ms = 1000000;

static bool is_slow(const struct question *q)
{
    return clock_mono_ns() - q->start_ns >= QUIET_MS * ns_per_ms;
}

/* While it waits: what came is shown, and who is missing. */
static bool on_wait(void *arg)
{
    struct question *q = arg;
    if (!is_slow(q))
        return stop_asked();
    if (q->asked && q->table) {
        say_progress_end();
        (void)table_flush(q->table); /* a failure comes again at the end */
    }
    if (q->asked)
        say_status("waiting for %" PRIu64 " of %" PRIu64, q->asked - q->answered, q->asked);
    else
        say_status("waiting for the gateway");
    return stop_asked();
}

static int exit_of(int r)
{
    return r == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED;
}

int question_open(struct question *q, const struct question_options *o, const char *prog)
{
    struct diag why = {0};
    q->options = o;
    q->start_ns = clock_mono_ns();
    if (!table_format(o->format, &q->table_options.encoding))
        return EXIT_USAGE;
    const struct ask_options ask = {.gateway = o->gateway,
                                    .identity = o->identity,
                                    .prog = prog,
                                    .timeout_ns = o->timeout_ns,
                                    .on_wait = on_wait,
                                    .arg = q};
    int r = ask_open(&ask, &q->ask, &why);
    say_progress_end();
    if (r < 0) {
        if (r != -EINTR)
            say("%s", why.message);
        return exit_of(r);
    }
    if (q->prints_itself && q->table_options.encoding)
        return EXIT_OK;
    q->table = table_create(&q->table_options);
    return q->table ? EXIT_OK : EXIT_FAILED;
}

void question_close(struct question *q)
{
    say_progress_end();
    table_destroy(q->table);
    ask_close(q->ask);
    args_writer_fini(&q->args);
}

int question_add_patterns(struct question *q, char *const *patterns, size_t n)
{
    return question_add_list(q, "workers", "host names", patterns, n);
}

int question_add_list(struct question *q, const char *name, const char *what, char *const *patterns, size_t n)
{
    struct strbuf list = {0};
    for (size_t i = 0; i < n; i++) {
        if (!patterns[i][0] || strchr(patterns[i], ',')) {
            say("'%.60s' is no pattern of %s; write several with blanks between them", patterns[i], what);
            strbuf_fini(&list);
            return EXIT_USAGE;
        }
        strbuf_printf(&list, "%s%s", i ? "," : "", patterns[i]);
    }
    if (list.n)
        args_add_text(&q->args, name, strbuf_slice(&list));
    strbuf_fini(&list);
    return EXIT_OK;
}

int question_add_setting(struct question *q, const char *word)
{
    struct strbuf name = {0};
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : 0;
    strbuf_printf(&name, "set.%.*s", (int)n, word);
    if (n == 0 || name.n > ARGS_NAME_MAX || q->args.n >= ARGS_MAX - 8) {
        say("'%.60s' is no setting; write key=value, as in vector.every=2s", word);
        strbuf_fini(&name);
        return EXIT_USAGE;
    }
    args_add(&q->args, strbuf_slice(&name), value_text(slice_str(equals + 1)));
    strbuf_fini(&name);
    return EXIT_OK;
}

void question_add_where(struct question *q)
{
    if (q->options->where)
        args_add_text(&q->args, "where", slice_str(q->options->where));
}

static int take_row(void *arg, const struct frame_answer *row)
{
    struct question *q = arg;
    if (args_value(row->args, "asked").type == VALUE_UINT &&
        args_value(row->args, "worker").type == VALUE_NONE) {
        q->asked = args_uint(row->args, "asked", 0);
        return 0;
    }
    q->rows++;
    q->answered += args_value(row->args, "answer").type != VALUE_NONE;
    if (!q->is_silent && (!q->on_row || q->on_row(q->arg, row)))
        table_add(q->table, row->args, row->text);
    return 0;
}

/* What the last answer says, if it is not well. */
static int check_end(const struct ask_end *end)
{
    if (end->status != CONTROL_DONE && end->text.n)
        say("%.*s", SLICE_ARG(end->text));
    return end->status <= CONTROL_NOT_ALLOWED ? end->status : EXIT_FAILED;
}

static int failed(int r, const struct diag *why)
{
    say_progress_end();
    if (r != -EINTR)
        say("%s", why->message);
    return exit_of(r);
}

int question_pages(struct question *q, const char *verb)
{
    struct diag why = {0};
    struct ask_end end;
    struct value after = value_none();
    struct args_writer page = {0};
    int code = EXIT_OK;
    q->start_ns = clock_mono_ns();
    q->rows = 0;
    do {
        struct args own = args_of(&q->args);
        struct arg a;
        args_writer_reset(&page);
        while (args_next(&own, &a))
            args_add(&page, a.name, a.value);
        args_add(&page, SLICE_LIT("after"), after);
        const struct ask_question question = {.verb = slice_str(verb), .args = args_of(&page)};
        int r = ask_run(q->ask, &question, take_row, q, &end, &why);
        bool is_none = r == 0 && end.status == CONTROL_NOT_FOUND && q->may_be_none;
        code = r < 0 ? failed(r, &why) : is_none ? EXIT_OK : check_end(&end);
        after = code == EXIT_OK ? args_value(end.args, "after") : value_none();
    } while (after.type != VALUE_NONE);
    args_writer_fini(&page);
    say_progress_end();
    if (code == EXIT_OK && q->rows == 0 && q->args.n && !q->may_be_none && !q->is_order) {
        say("nothing is meant by that; without a choice all are listed");
        return EXIT_NOT_FOUND;
    }
    return code;
}

int question_workers(struct question *q, const char *verb)
{
    struct diag why = {0};
    struct ask_end end;
    int64_t timeout_ms = q->options->timeout_ns ? q->options->timeout_ns / ns_per_ms : WORKERS_TIMEOUT_MS;
    struct ask_question question = {.verb = slice_str(verb),
                                    .silence_ns = (timeout_ms + MARGIN_MS) * ns_per_ms};
    q->start_ns = clock_mono_ns();
    q->asked = q->answered = 0;
    args_add_uint(&q->args, "timeout_ms", timeout_ms > 0 ? (uint64_t)timeout_ms : 1);
    question.args = args_of(&q->args);
    int r = ask_run(q->ask, &question, take_row, q, &end, &why);
    say_progress_end();
    if (r < 0)
        return failed(r, &why);
    if (q->asked && end.text.n && !q->is_silent) {
        (void)table_flush(q->table); /* a failure comes again at the end */
        say_plain("%.*s", SLICE_ARG(end.text));
        return end.status <= CONTROL_NOT_ALLOWED ? end.status : EXIT_FAILED;
    }
    return check_end(&end);
}

int question_finish(struct question *q, int code)
{
    int r = q->table ? table_finish(q->table) : 0;
    if (r < 0 && r != -EPIPE && code == EXIT_OK)
        return EXIT_FAILED;
    return code;
}
