/* SPDX-License-Identifier: Apache-2.0 */
/* The question `summary`. The rows of a stream are its columns, and of each the windows: row number column x
 * windows + window, which is what `after` counts. For WHERE a row is an event of the stream's name with host,
 * prog, the key fields, and the texts `field` and `window`; key fields of these names come first. */
#include "gateway/summary_internal.h"

#include "base/clock.h"
#include "base/text.h"
#include "gateway/stream_question.h"

#include <errno.h>

static const int64_t ns_per_ms = 1000000;

struct asked {
    struct summary *summary;
    struct stream_question question;
    struct slice fields; /* patterns */
    bool windows[SUMMARY_WINDOWS_MAX];
    int64_t now_ns;
    struct registry *registry; /* for WHERE */
    struct args_writer row;
    struct strbuf keys; /* of the current stream, for a person */
    int failed;
};

/* ---------------------------------------------------------------- which windows */

static void list_windows(const struct summary *s, struct strbuf *out)
{
    for (size_t i = 0; i < s->n_windows; i++)
        strbuf_printf(out, "%s%s", i ? ", " : "", s->windows[i].text);
}

static bool find_window(struct asked *a, struct slice text)
{
    int64_t length;
    bool is_window = summary_window_parse(text, &length);
    for (size_t i = 0; is_window && i < a->summary->n_windows; i++)
        if (a->summary->windows[i].length_ns == length) {
            a->windows[i] = true;
            return true;
        }
    return false;
}

/* All, or those of the list; the asker is told if there is no such. */
static bool choose_windows(struct asked *a, struct control_turn *t, struct slice list)
{
    for (size_t i = 0; i < a->summary->n_windows; i++)
        a->windows[i] = list.n == 0;
    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        struct slice one = slice_of(list.p, comma ? (size_t)(comma - list.p) : list.n);
        if (!find_window(a, one)) {
            struct strbuf known = {0};
            list_windows(a->summary, &known);
            control_end(
                t, CONTROL_USAGE, (struct args){0},
                "window: '%.*s' is not kept; there are %s (summary.windows of the gateway says which)",
                (int)(one.n > 40 ? 40 : one.n), one.p, known.p ? known.p : "none");
            strbuf_fini(&known);
            return false;
        }
        list = slice_from(list, one.n + 1);
    }
    return true;
}

/* ---------------------------------------------------------------- rows */

static bool has_name(const struct named_value *values, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(values[i].name, name))
            return true;
    return false;
}

/* The row as an event, for WHERE: its fields, of which there is room for two more than e's. */
static size_t describe(const struct event *e, const struct field *f, const struct window *w,
                       struct named_value *out)
{
    const struct named_value own[] = {{SLICE_LIT("field"), value_text(f->name)},
                                      {SLICE_LIT("window"), value_text(slice_str(w->text))}};
    size_t n = 0;
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        if (e->values[i].type != VALUE_NONE && !has_name(out, n, e->schema->fields[i].name))
            out[n++] = (struct named_value){e->schema->fields[i].name, e->values[i]};
    for (size_t i = 0; i < 2; i++)
        if (n < EVENT_FIELDS_MAX && !has_name(out, n, own[i].name))
            out[n++] = own[i];
    return n;
}

static bool passes(struct asked *a, const struct event *e, const struct field *f, const struct window *w)
{
    struct named_value named[EVENT_FIELDS_MAX];
    struct value values[EVENT_FIELDS_MAX];
    uint16_t index[EVENT_FIELDS_MAX];
    const struct schema *schema;
    if (!a->question.where)
        return true;
    size_t n = describe(e, f, w, named);
    int r = registry_learn(a->registry, e->schema->name, named, n, &schema, index);
    if (r < 0) {
        a->failed = r;
        return false;
    }
    for (uint32_t i = 0; i < schema->n_fields; i++)
        values[i] = value_none();
    for (size_t i = 0; i < n; i++)
        values[index[i]] = named[i].value;
    return predicate_test(a->question.where, &(struct event){.time_ns = a->now_ns,
                                                             .host = e->host,
                                                             .prog = e->prog,
                                                             .schema = schema,
                                                             .values = values,
                                                             .level = LEVEL_INFO});
}

static void add_time(struct args_writer *row, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    args_add_text(row, name, slice_of(text, clock_print_iso(text, at_ns)));
}

static void make_row(struct asked *a, const struct event *e, const struct field *f, const struct window *w,
                     const struct summary_value *v)
{
    struct args_writer *row = &a->row;
    args_writer_reset(row);
    args_add_text(row, "host", e->host);
    args_add_text(row, "prog", e->prog);
    args_add_text(row, "event", e->schema->name);
    if (a->keys.n)
        args_add_text(row, "keys", strbuf_slice(&a->keys));
    args_add_text(row, "field", f->name);
    if (f->unit.n)
        args_add_text(row, "unit", f->unit);
    args_add_text(row, "window", slice_str(w->text));
    add_time(row, "from", v->from_ns);
    add_time(row, "to", v->to_ns);
    args_add_uint(row, "count", v->count);
    args_add(row, SLICE_LIT("min"), v->min);
    args_add(row, SLICE_LIT("max"), v->max);
    args_add(row, SLICE_LIT("mean"), value_float(v->mean));
    args_add(row, SLICE_LIT("sum"), value_float(v->sum));
    args_add(row, SLICE_LIT("first"), v->first);
    args_add(row, SLICE_LIT("last"), v->last);
    args_add(row, SLICE_LIT("rate"), v->rate);
    args_add_uint(row, "age_ms",
                  a->now_ns > v->last_ns ? (uint64_t)((a->now_ns - v->last_ns) / ns_per_ms) : 0);
    if (v->late)
        args_add_uint(row, "late", v->late);
    if (v->ahead)
        args_add_uint(row, "ahead", v->ahead);
}

/* false: the page is full, nobody listens, or there is no memory. */
static bool give(struct asked *a, uint64_t number)
{
    struct stream_question *q = &a->question;
    if (strbuf_failed(&a->row.list) || strbuf_failed(&a->keys)) {
        a->failed = -ENOMEM;
        return false;
    }
    if (q->rows && control_given(q->turn) + a->row.list.n > CONTROL_PAGE) {
        stream_question_full(q, number);
        return false;
    }
    q->rows++;
    return control_row(q->turn, args_of(&a->row));
}

static bool shows_field(struct asked *a, const struct event *e, struct slice field)
{
    struct access_view *view = a->question.view;
    return text_glob_any(a->fields, field) &&
           (!view || access_view_shows_field(view, e->host, e->schema->name, field));
}

/* The windows of a column, from row number first on; false as give. */
static bool give_column(struct asked *a, const struct summarised *one, const struct event *e,
                        const struct field *f, size_t column)
{
    const struct summary *s = a->summary;
    for (size_t i = 0; i < s->n_windows; i++) {
        uint64_t number = column * s->n_windows + i;
        struct summary_value v;
        if (!a->windows[i] || number < a->question.first_row ||
            !summary_read(s, one, f, column, i, a->now_ns, &v) || !passes(a, e, f, &s->windows[i]))
            continue;
        make_row(a, e, f, &s->windows[i], &v);
        if (!give(a, number))
            return false;
    }
    return true;
}

static bool give_stream(struct asked *a, const struct summarised *one)
{
    struct value values[EVENT_FIELDS_MAX];
    struct event e = stream_event(&one->stream, one->schema, values), seen;
    size_t column = 0;
    if (!stream_question_sees(&a->question, &e, &seen))
        return true;
    strbuf_reset(&a->keys);
    stream_key_print(&a->keys, &seen);
    for (uint32_t i = 0; i < one->schema->n_fields; i++) {
        const struct field *f = &one->schema->fields[i];
        if (!summary_is_column(f))
            continue;
        if (shows_field(a, &seen, f->name) && !give_column(a, one, &seen, f, column))
            return false;
        column++;
    }
    return a->failed == 0;
}

static void answer(struct asked *a)
{
    struct stream *s;
    while ((s = stream_question_next(&a->question)))
        if (!give_stream(a, (const struct summarised *)s))
            break;
    stream_question_end(&a->question, a->failed);
}

void summary_answer(struct summary *s, struct control_turn *t, int64_t now_ns)
{
    static const char *const more[] = {"field", "window", NULL};
    struct asked a = {.summary = s, .now_ns = now_ns};
    if (s->options.streams == 0 || s->n_windows == 0) {
        control_end(
            t, CONTROL_FAILED, (struct args){0},
            "this gateway keeps no summaries; summary.streams and summary.windows of its configuration say "
            "which");
        return;
    }
    a.fields = args_text(control_args(t), "field");
    if (!choose_windows(&a, t, args_text(control_args(t), "window")))
        return;
    a.registry = registry_create();
    if (!a.registry)
        control_end(t, CONTROL_FAILED, (struct args){0}, "the gateway is out of memory");
    else if (stream_question_open(&a.question, t, "summary", &s->streams, ACCESS_SUMMARY, SLICE_LIT(""),
                                  more))
        answer(&a);
    registry_destroy(a.registry);
    args_writer_fini(&a.row);
    strbuf_fini(&a.keys);
}
