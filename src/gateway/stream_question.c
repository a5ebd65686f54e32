/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stream_question.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"
#include "event/select.h"

#include <errno.h>
#include <inttypes.h>

enum { AFTER_NUMBERS = 3, AFTER_MAX = 64 };

static const char *const common[] = {"event", "host", "where", "after", NULL};

static bool is_one_of(const char *const *names, struct slice name)
{
    for (; names && *names; names++)
        if (slice_eq_str(name, *names))
            return true;
    return false;
}

/* "12-34-0". */
static bool parse_after(struct slice text, uint64_t out[AFTER_NUMBERS])
{
    for (size_t i = 0; i < AFTER_NUMBERS; i++) {
        const char *dash = text.n ? memchr(text.p, '-', text.n) : NULL;
        struct slice one = dash ? slice_of(text.p, (size_t)(dash - text.p)) : text;
        if ((i == AFTER_NUMBERS - 1) == (dash != NULL) || num_parse_uint(one, &out[i]) < 0 ||
            out[i] == UINT64_MAX)
            return false;
        text = slice_from(text, one.n + 1);
    }
    return true;
}

static void refuse(struct control_turn *t, const char *verb, const char *what, struct slice which)
{
    control_end(t, CONTROL_USAGE, (struct args){0},
                "%s: %s '%.*s'; it takes event, host, where and those of docs/"
                "protocol.md, as text",
                verb, what, (int)(which.n > 60 ? 60 : which.n), which.p);
}

/* All that it has are texts that it may have. */
static bool check_args(struct control_turn *t, const char *verb, const char *const *more)
{
    struct args args = control_args(t);
    struct arg a;
    while (args_next(&args, &a)) {
        if (!is_one_of(common, a.name) && !is_one_of(more, a.name))
            refuse(t, verb, "there is no", a.name);
        else if (a.value.type != VALUE_TEXT)
            refuse(t, verb, "this is no text:", a.name);
        else if (a.value.n > SELECT_PATTERNS_MAX && !slice_eq_str(a.name, "where"))
            refuse(t, verb, "this is too long (4096 bytes):", a.name);
        else
            continue;
        return false;
    }
    return true;
}

static bool compile_where(struct stream_question *q, struct slice text)
{
    struct diag why = {0};
    int r = text.n ? predicate_compile(text, clock_utc_ns(), &q->where, &why) : 0;
    if (r == -ENOMEM)
        control_end(q->turn, CONTROL_FAILED, (struct args){0}, "the gateway is out of memory");
    else if (r < 0)
        control_end(q->turn, CONTROL_USAGE, (struct args){0},
                    "where: at byte %" PRIu32 ": %s; docs/predicate.md has the language", why.col,
                    why.message);
    if (q->where)
        predicate_use_classes(q->where, control_classes(q->turn));
    return r == 0;
}

static bool open_view(struct stream_question *q, enum access_action action)
{
    int r = access_view_create(control_who(q->turn), action, &q->view);
    if (r == -EACCES)
        control_end(q->turn, CONTROL_NOT_ALLOWED, (struct args){0}, "you may not ask for that here");
    else if (r < 0)
        control_end(q->turn, CONTROL_FAILED, (struct args){0}, "the gateway is out of memory");
    return r == 0;
}

static bool open_walk(struct stream_question *q, const struct streams *streams, struct slice after)
{
    uint64_t numbers[AFTER_NUMBERS] = {0};
    q->is_first = after.n == 0;
    if (after.n && !parse_after(after, numbers)) {
        control_end(q->turn, CONTROL_USAGE, (struct args){0},
                    "after: '%.*s' is not what an answer said; ask again without it",
                    (int)(after.n > 60 ? 60 : after.n), after.p);
        return false;
    }
    q->done = (struct streams_cursor){numbers[0], numbers[1]};
    q->done_row = numbers[2];
    struct streams_cursor behind = q->done;
    if (q->done_row && behind.stream)
        behind.stream--; /* that one again */
    /* A view may hide the field that says the place. */
    int r = streams_walk_init(&q->walk, streams, q->events, q->hosts, !q->view, behind);
    if (r < 0)
        control_end(q->turn, CONTROL_FAILED, (struct args){0}, "the gateway is out of memory");
    return r == 0;
}

static void fini(struct stream_question *q)
{
    streams_walk_fini(&q->walk);
    predicate_destroy(q->where);
    access_view_destroy(q->view);
}

bool stream_question_open(struct stream_question *q, struct control_turn *t, const char *verb,
                          const struct streams *streams, enum access_action action, struct slice event,
                          const char *const *more)
{
    q->turn = t;
    q->verb = verb;
    q->where = NULL;
    q->view = NULL;
    q->walk = (struct streams_walk){0};
    q->looked = 0;
    q->rows = q->first_row = 0;
    q->has_more = false;
    if (!check_args(t, verb, more))
        return false;
    struct args args = control_args(t);
    struct slice where = args_text(args, "where"), after = args_text(args, "after");
    q->events = event.n ? event : args_text(args, "event");
    q->hosts = args_text(args, "host");
    q->has_choice = args.n > (args_value(args, "after").type != VALUE_NONE);
    if (open_view(q, action) && compile_where(q, where) && open_walk(q, streams, after))
        return true;
    fini(q);
    return false;
}

struct stream *stream_question_next(struct stream_question *q)
{
    if (q->has_more)
        return NULL;
    if (q->looked) {
        q->done = q->walk.cursor;
        q->done_row = 0;
    }
    if (q->looked == STREAM_QUESTION_LOOKED) {
        q->has_more = true;
        return NULL;
    }
    struct stream *s = streams_walk_next(&q->walk);
    q->looked += s != NULL;
    q->first_row = s && q->looked == 1 && q->done_row && s->number == q->done.stream ? q->done_row : 0;
    return s;
}

/* What e is about, as it is seen. */
static struct slice place_of(const struct event *e)
{
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        const struct field *f = &e->schema->fields[i];
        if (f->role == ROLE_KEY && e->values[i].type == VALUE_TEXT && slice_eq(f->name, SLICE_LIT("target")))
            return value_slice(e->values[i]);
    }
    return e->host;
}

bool stream_question_sees(struct stream_question *q, const struct event *e, struct event *seen)
{
    if (!q->view)
        *seen = *e;
    else if (!access_view_event(q->view, e, seen, q->room))
        return false;
    return q->hosts.n == 0 || text_glob_any(q->hosts, place_of(seen));
}

void stream_question_full(struct stream_question *q, uint64_t row)
{
    q->has_more = true;
    if (row) {
        q->done = q->walk.cursor;
        q->done_row = row;
    }
}

void stream_question_end(struct stream_question *q, int failed)
{
    struct args_writer last = {0};
    char after[AFTER_MAX];
    args_add_uint(&last, "rows", q->rows);
    if (q->has_more) {
        int n = snprintf(after, sizeof after, "%" PRIu64 "-%" PRIu64 "-%" PRIu64, q->done.group,
                         q->done.stream, q->done_row);
        args_add_text(&last, "after", slice_of(after, (size_t)n));
    }
    if (failed || strbuf_failed(&last.list))
        control_end(q->turn, CONTROL_FAILED, (struct args){0}, "the gateway is out of memory");
    else if (q->rows == 0 && !q->has_more && q->is_first && q->has_choice)
        control_end(q->turn, CONTROL_NOT_FOUND, (struct args){0},
                    "there is none of that; `gridline %s` without a choice lists all", q->verb);
    else
        control_end(q->turn, CONTROL_DONE, args_of(&last), "%s", "");
    args_writer_fini(&last);
    fini(q);
}
