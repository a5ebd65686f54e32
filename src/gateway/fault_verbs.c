/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/fault_verbs.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "gateway/stream_question.h"

#include <errno.h>

/* As guards cut them. */
enum { FAULT_ID = 16, PATTERN_MAX = 256, WHERE_MAX = 1000, NOTE_MAX = 1000 };

struct fault_verbs {
    struct latest *latest;
    struct own *own;
};

/* ---------------------------------------------------------------- rows */

/* A column of the answer: the event's field of that name as that type. */
struct column {
    const char *name, *field;
    uint8_t type;
};

static const struct column fault_columns[] = {
    {"fault", "fault", VALUE_TEXT},       {"rule", "rule", VALUE_TEXT},
    {"severity", "severity", VALUE_TEXT}, {"state", "state", VALUE_TEXT},
    {"host", "target", VALUE_TEXT},       {"since", "since", VALUE_TEXT},
    {"fired", "fired", VALUE_TEXT},       {"cleared", "cleared", VALUE_TEXT},
    {"episode", "episode", VALUE_UINT},   {"summary", "summary", VALUE_TEXT},
    {"told", "told", VALUE_BOOL},         {"silenced", "silenced", VALUE_BOOL},
    {"hidden", "hidden", VALUE_BOOL},     {"quiet", "quiet", VALUE_BOOL},
    {"acked_by", "by", VALUE_TEXT},       {"ack_note", "note", VALUE_TEXT},
    {"acked", "acked", VALUE_TEXT},       {NULL, NULL, VALUE_NONE},
};

static const struct column rule_columns[] = {
    {"rule", "rule", VALUE_TEXT},
    {"severity", "severity", VALUE_TEXT},
    {"enabled", "enabled", VALUE_BOOL},
    {"is_default", "is_default", VALUE_BOOL},
    {"place", "place", VALUE_TEXT},
    {"every_ms", "every_ms", VALUE_UINT},
    {"evaluations", "evaluations", VALUE_UINT},
    {"failures", "failures", VALUE_UINT},
    {"last_ms", "last_ms", VALUE_UINT},
    {"why", "why", VALUE_TEXT},
    {"pending", "pending", VALUE_UINT},
    {"firing", "firing", VALUE_UINT},
    {"clearing", "clearing", VALUE_UINT},
    {"left_out", "left_out", VALUE_UINT},
    {"query", "query", VALUE_TEXT},
    {"help", "help", VALUE_TEXT},
    {"evaluated", "evaluated", VALUE_TEXT},
    {"text", "text", VALUE_TEXT},
    {NULL, NULL, VALUE_NONE},
};

static void add_time(struct args_writer *row, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    args_add_text(row, name, slice_of(text, clock_print_iso(text, at_ns)));
}

/* Guards write numbers that can't be negative as either kind of integer, times as text or as ns; encodings
 * without types (ULM) make a bool a word. What can't be the column's type is left out. */
static void add_column(struct args_writer *row, const struct column *c, struct value v)
{
    struct slice name = slice_str(c->name);
    if (v.type == c->type)
        args_add(row, name, v);
    else if (c->type == VALUE_TEXT && v.type == VALUE_INT && v.i != 0) /* 0 = never */
        add_time(row, c->name, v.i);
    else if (c->type == VALUE_UINT && v.type == VALUE_INT && v.i >= 0)
        args_add(row, name, value_uint((uint64_t)v.i));
    else if (c->type == VALUE_BOOL && (v.type == VALUE_UINT || v.type == VALUE_INT))
        args_add(row, name, value_bool(v.u != 0));
}

/* The row of an event as it is seen: its columns, and which guard said it when. */
static void make_row(struct args_writer *row, const struct column *columns, const struct event *e)
{
    args_writer_reset(row);
    for (const struct column *c = columns; c->name; c++)
        add_column(row, c, event_get(e, slice_str(c->field)));
    args_add_text(row, "guard", e->host);
    add_time(row, "told_at", e->time_ns);
}

static bool is_open(struct slice state)
{
    return !slice_eq_str(state, "cleared") && !slice_eq_str(state, "pending") && !slice_eq_str(state, "none");
}

static bool is_wanted(struct slice wanted, struct slice state)
{
    if (wanted.n == 0)
        return is_open(state);
    return slice_eq_str(wanted, "all") || slice_eq(wanted, state);
}

static bool passes(struct args question, struct args row, bool has_state)
{
    struct slice rule = args_text(question, "rule");
    if (rule.n && !text_glob_any(rule, args_text(row, "rule")))
        return false;
    return !has_state || is_wanted(args_text(question, "state"), args_text(row, "state"));
}

/* A page of what the streams of that event name hold. */
static void answer(struct fault_verbs *v, struct control_turn *t, const char *verb, struct slice event,
                   const struct column *columns)
{
    static const char *const more[] = {"state", "rule", NULL};
    struct stream_question q;
    struct args_writer row = {0};
    struct stream *s;
    int failed = 0;
    if (!latest_keeps(v->latest)) {
        control_end(t, CONTROL_FAILED, (struct args){0},
                    "this gateway keeps no latest events, so none of faults; latest.streams in its "
                    "configuration says how many");
        return;
    }
    if (!stream_question_open(&q, t, verb, latest_streams(v->latest), ACCESS_QUERY, event, more))
        return;
    q.has_choice = false; /* no fault is no failure */
    while (failed == 0 && (s = stream_question_next(&q))) {
        struct event e = latest_event(s), seen;
        if (!stream_question_sees(&q, &e, &seen))
            continue;
        make_row(&row, columns, &seen);
        failed = strbuf_failed(&row.list) ? -ENOMEM : 0;
        if (failed || !passes(control_args(t), args_of(&row), columns == fault_columns))
            continue;
        if (q.rows && control_given(t) + row.list.n > CONTROL_PAGE) {
            stream_question_full(&q, 0);
            break;
        }
        q.rows++;
        if (!control_row(t, args_of(&row)))
            break;
    }
    args_writer_fini(&row);
    stream_question_end(&q, failed);
}

static void answer_faults(void *arg, struct control_turn *t)
{
    answer(arg, t, "faults", SLICE_LIT("fault.state"), fault_columns);
}

static void answer_rules(void *arg, struct control_turn *t)
{
    answer(arg, t, "rules", SLICE_LIT("rule.state"), rule_columns);
}

/* ---------------------------------------------------------------- orders */

static bool is_text(struct slice s, size_t max)
{
    return s.n <= max && text_is_utf8(s) && !text_has_control(s);
}

static bool is_fault_id(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (text_hex_digit(s.p[i]) < 0)
            return false;
    return s.n == FAULT_ID;
}

/* What the fault of that id is about, as far as any guard told; borrowed until the next batch. */
static int find_target(const struct fault_verbs *v, struct slice fault, struct slice *target)
{
    struct streams_walk walk;
    struct stream *s;
    int r = streams_walk_init(&walk, latest_streams(v->latest), SLICE_LIT("fault.state"), SLICE_LIT(""),
                              false, (struct streams_cursor){0, 0});
    if (r < 0)
        return r;
    r = -ENOENT;
    while (r == -ENOENT && (s = streams_walk_next(&walk))) {
        struct event e = latest_event(s);
        struct value id = event_get(&e, SLICE_LIT("fault")), about = event_get(&e, SLICE_LIT("target"));
        if (!value_is_text(id.type) || !slice_eq(value_slice(id), fault))
            continue;
        *target = value_is_text(about.type) ? value_slice(about) : e.host;
        r = 0;
    }
    streams_walk_fini(&walk);
    return r;
}

/* May the asker give orders about that host; "" or a pattern: about all? Told to the audit if not. */
static int check_control(struct control_turn *t, struct slice host)
{
    struct access_view *view = NULL;
    bool is_one = host.n && !memchr(host.p, '*', host.n) && !memchr(host.p, '?', host.n) &&
                  !memchr(host.p, '[', host.n) && !memchr(host.p, ',', host.n);
    int r = access_view_create(control_who(t), ACCESS_CONTROL, &view);
    bool may = r == 0 && (is_one ? access_view_shows(view, host, SLICE_LIT("")) : access_view_is_whole(view));
    access_view_destroy(view);
    if (r == -ENOMEM)
        control_end(t, CONTROL_FAILED, (struct args){0}, "the gateway is out of memory");
    else if (!may) {
        access_tell_denied(control_who(t), ACCESS_CONTROL, is_one ? host : SLICE_LIT(""), SLICE_LIT(""));
        /* The same words whether there is such a fault or not. */
        control_end(t, CONTROL_NOT_ALLOWED, (struct args){0}, "you may not give orders about that here");
    }
    return may ? 0 : -EACCES;
}

struct order {
    const char *name;
    struct slice fault, rule, target, where, note, guard;
    int64_t until_ns;
    uint64_t id;
};

static void add_text(struct named_value *to, size_t *n, struct slice name, struct slice text)
{
    if (text.n)
        to[(*n)++] = (struct named_value){name, value_text(text)};
}

/* It is on its way when this returns, with everything that was said before. */
static void publish(struct fault_verbs *v, const struct control_turn *t, const struct order *o)
{
    struct named_value values[10];
    size_t n = 0;
    char by[ACCESS_NAME_MAX + 32];
    add_text(values, &n, SLICE_LIT("order"), slice_str(o->name));
    add_text(values, &n, SLICE_LIT("fault"), o->fault);
    add_text(values, &n, SLICE_LIT("rule"), o->rule);
    add_text(values, &n, SLICE_LIT("target"), o->target);
    add_text(values, &n, SLICE_LIT("where"), o->where);
    add_text(values, &n, SLICE_LIT("guard"), o->guard);
    add_text(values, &n, SLICE_LIT("note"), o->note);
    add_text(values, &n, SLICE_LIT("by"), slice_of(by, access_print(by, sizeof by, control_who(t))));
    if (o->until_ns)
        values[n++] = (struct named_value){SLICE_LIT("until"), value_int(o->until_ns)};
    if (o->id)
        values[n++] = (struct named_value){SLICE_LIT("id"), value_uint(o->id)};
    own_event(v->own, LEVEL_AUTH, SLICE_LIT("fault.order"), values, n);
    own_flush(v->own);
}

static void order_fault(struct fault_verbs *v, struct control_turn *t, const char *name)
{
    struct args args = control_args(t);
    struct order o = {.name = name, .fault = args_text(args, "fault"), .note = args_text(args, "note")};
    struct slice target = SLICE_LIT("");
    if (!is_fault_id(o.fault) || !is_text(o.note, NOTE_MAX)) {
        control_end(t, CONTROL_USAGE, (struct args){0},
                    "%s: which fault? It has an id of %d hexadecimal digits; a note has %d bytes at most",
                    name, FAULT_ID, NOTE_MAX);
        return;
    }
    int r = find_target(v, o.fault, &target);
    if (r == -ENOMEM) {
        control_end(t, CONTROL_FAILED, (struct args){0}, "the gateway is out of memory");
        return;
    }
    if (check_control(t, target) < 0)
        return;
    o.target = target;
    publish(v, t, &o);
    control_end(t, CONTROL_DONE, (struct args){0}, "%s",
                r == 0 ? "" : "no guard has told of that fault here; those that know it take the order");
}

static void order_ack(void *arg, struct control_turn *t)
{
    order_fault(arg, t, "ack");
}

static void order_unack(void *arg, struct control_turn *t)
{
    order_fault(arg, t, "unack");
}

static void order_silence(void *arg, struct control_turn *t)
{
    struct args args = control_args(t);
    struct value until = args_value(args, "until");
    struct order o = {.name = "silence",
                      .rule = args_text(args, "rule"),
                      .target = args_text(args, "host"),
                      .where = args_text(args, "where"),
                      .note = args_text(args, "note")};
    o.until_ns = until.type == VALUE_INT ? until.i : until.type == VALUE_UINT ? (int64_t)until.u : 0;
    if (!is_text(o.rule, PATTERN_MAX) || !is_text(o.target, PATTERN_MAX) || !is_text(o.where, WHERE_MAX) ||
        !is_text(o.note, NOTE_MAX))
        control_end(t, CONTROL_USAGE, (struct args){0},
                    "silence: rule and host are patterns of %d bytes at most, where and note texts of %d",
                    PATTERN_MAX, NOTE_MAX);
    else if (o.until_ns <= clock_utc_ns())
        control_end(t, CONTROL_USAGE, (struct args){0}, "silence: until when? That is over, or was not said");
    else if (check_control(t, o.target) == 0) {
        publish(arg, t, &o);
        control_end(t, CONTROL_DONE, (struct args){0}, "%s", "");
    }
}

static void order_unsilence(void *arg, struct control_turn *t)
{
    struct args args = control_args(t);
    struct order o = {.name = "unsilence", .id = args_uint(args, "id", 0), .guard = args_text(args, "guard")};
    if (o.id == 0 || o.guard.n == 0 || !is_text(o.guard, PATTERN_MAX))
        control_end(t, CONTROL_USAGE, (struct args){0},
                    "unsilence: which one? id is its number at its guard, guard that guard's host");
    else if (check_control(t, SLICE_LIT("")) == 0) {
        publish(arg, t, &o);
        control_end(t, CONTROL_DONE, (struct args){0}, "%s", "");
    }
}

/* ---------------------------------------------------------------- */

static const struct control_verb verbs[] = {
    {"faults", ACCESS_QUERY, answer_faults},    {"rules", ACCESS_QUERY, answer_rules},
    {"ack", ACCESS_CONTROL, order_ack},         {"unack", ACCESS_CONTROL, order_unack},
    {"silence", ACCESS_CONTROL, order_silence}, {"unsilence", ACCESS_CONTROL, order_unsilence},
};

int fault_verbs_create(struct control *c, struct latest *latest, struct own *own, struct fault_verbs **out)
{
    struct fault_verbs *v = mem_try_alloc(sizeof *v);
    if (!v)
        return -ENOMEM;
    v->latest = latest;
    v->own = own;
    int r = control_add(c, verbs, sizeof verbs / sizeof *verbs, v);
    if (r < 0) {
        fault_verbs_destroy(v);
        return r;
    }
    *out = v;
    return 0;
}

void fault_verbs_destroy(struct fault_verbs *v)
{
    mem_free(v);
}
