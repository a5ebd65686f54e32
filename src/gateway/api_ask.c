/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to control.h by HTTP: directory, latest, summary, control, access.
 *
 *   json     {"rows":[{...},...],"end":{"status":"done","rows":2}}: collected first, so that what goes wrong
 *            at once has its HTTP status; up to COLLECTED_MAX bytes, then `end` has `next`, the `after` to
 *            go on with
 *   ndjson   a row a line, as they come; the last line is {"end":{...}}
 *   columns  blocks of rows as columns, a line each (api_columns.h), as they come; the same last line
 *   csv      collected; the union of the rows' columns; `next` is in the header Gridline-Next
 *
 * An answer that begins with its end and is not good is a problem instead. */
#include "gateway/api.h"

#include "base/mem.h"
#include "base/num.h"
#include "event/json.h"
#include "gateway/access_table.h"
#include "gateway/api_body.h"
#include "gateway/api_columns.h"
#include "gateway/api_question.h"
#include "gateway/api_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* The one verb that is HTTP's alone. */
#define RULE_TEST "rule.test"

enum { COLLECTED_MAX = 4 << 20, STREAMED_MAX = 64 << 20 };
enum format { FORMAT_JSON, FORMAT_NDJSON, FORMAT_CSV, FORMAT_COLUMNS };

static const struct api_format formats[] = {{"json", "application/json"},
                                            {"ndjson", "application/x-ndjson"},
                                            {"csv", "text/csv; charset=utf-8"},
                                            {"columns", "application/x-ndjson"}}; /* by its name alone */

struct ask {
    struct question question; /* first: the callbacks get it */
    struct http_request *request;
    enum format format;
    bool is_status; /* its numbers are the row */
    bool has_next;  /* another request can go on where this one ends */
    bool is_out_of_memory;
    struct strbuf out; /* json: the rows; ndjson, columns: what is about to be sent */
    struct rows_table *table;
    struct columns *columns;
    struct args_writer row;
    size_t bytes;
};

/* ---------------------------------------------------------------- rows */

static void put(struct ask *a, struct args row, struct slice text)
{
    switch (a->format) {
    case FORMAT_JSON:
        strbuf_add_str(&a->out, a->out.n ? ",\n" : "");
        rows_put_row(&a->out, row, text);
        a->bytes = a->out.n;
        break;
    case FORMAT_NDJSON:
        rows_put_row(&a->out, row, text);
        strbuf_add_char(&a->out, '\n');
        break;
    case FORMAT_CSV:
        rows_table_add(a->table, row, text);
        a->bytes = a->table->rows.n;
        break;
    case FORMAT_COLUMNS:
        if (columns_add(a->columns, row, text) < 0 ||
            (columns_full(a->columns) && columns_put(a->columns, &a->out) < 0))
            a->is_out_of_memory = true;
        break;
    }
}

/* Do its rows go out as they come? */
static bool is_streamed(const struct ask *a)
{
    return a->format == FORMAT_NDJSON || a->format == FORMAT_COLUMNS;
}

/* What is there of a stream goes out. */
static void flush(struct ask *a)
{
    struct http_request *r = a->request;
    if (!is_streamed(a) || a->out.n == 0)
        return;
    if (!r->is_started)
        http_start(r, 200, formats[a->format].mime);
    a->bytes += a->out.n;
    a->is_out_of_memory = a->is_out_of_memory || strbuf_failed(&a->out);
    http_send(r, strbuf_slice(&a->out));
    strbuf_reset(&a->out);
}

static void on_row(struct question *q, struct args row, struct slice text)
{
    enum { PIECE = 32 << 10 };
    struct ask *a = (struct ask *)(void *)q;
    put(a, row, text);
    if (a->out.n > PIECE || !q->is_inside)
        flush(a);
}

static void put_event(struct ask *a, const struct event *e)
{
    if (a->format == FORMAT_CSV || a->format == FORMAT_COLUMNS) {
        args_writer_reset(&a->row);
        rows_of_event(&a->row, e);
        put(a, args_of(&a->row), SLICE_LIT(""));
        return;
    }
    strbuf_add_str(&a->out, a->format == FORMAT_JSON && a->out.n ? ",\n" : "");
    if (rows_put_event(&a->out, e) < 0)
        a->is_out_of_memory = true;
    if (a->format == FORMAT_NDJSON)
        strbuf_add_char(&a->out, '\n');
    else
        a->bytes = a->out.n;
}

static void on_events(struct question *q, const struct event *events, size_t n)
{
    struct ask *a = (struct ask *)(void *)q;
    for (size_t i = 0; i < n; i++)
        put_event(a, &events[i]);
    flush(a);
}

static enum question_more on_more(struct question *q)
{
    struct ask *a = (struct ask *)(void *)q;
    flush(a);
    if (a->bytes > (is_streamed(a) ? STREAMED_MAX : COLLECTED_MAX))
        return QUESTION_ENOUGH;
    return is_streamed(a) && http_waiting(a->request) > HTTP_OUTPUT_HIGH ? QUESTION_WAIT : QUESTION_ON;
}

static void on_drained(struct http_request *r)
{
    question_go_on(&((struct ask *)r->state)->question);
}

/* ---------------------------------------------------------------- the end */

static const char *status_word(uint16_t status)
{
    static const char *const words[] = {"done", "failed", "usage", "not_found", "partly", "not_allowed"};
    return status < sizeof words / sizeof *words ? words[status] : "failed";
}

static void put_end(const struct ask *a, struct strbuf *out, const struct question_end *end)
{
    bool is_cut = end->next.type != VALUE_NONE && !a->has_next;
    strbuf_printf(out, "{\"status\":\"%s\",\"rows\":%" PRIu64, is_cut ? "partly" : status_word(end->status),
                  end->rows);
    if (end->text.n || is_cut) {
        strbuf_add_str(out, ",\"text\":");
        json_add_string(out,
                        is_cut ? SLICE_LIT("there is more than fits; ask for format=ndjson") : end->text);
    }
    if (end->next.type != VALUE_NONE && a->has_next) {
        strbuf_add_str(out, ",\"next\":");
        rows_put_value(out, end->next);
    }
    if (end->values.n && !a->is_status) {
        strbuf_add_str(out, ",\"values\":");
        rows_put_row(out, end->values, SLICE_LIT(""));
    }
    strbuf_add_char(out, '}');
}

static void reply_json(struct ask *a, const struct question_end *end)
{
    struct strbuf out = {0};
    strbuf_add_str(&out, "{\"rows\":[");
    strbuf_add_slice(&out, strbuf_slice(&a->out));
    strbuf_add_str(&out, "],\"end\":");
    put_end(a, &out, end);
    strbuf_add_str(&out, "}\n");
    if (strbuf_failed(&out) || strbuf_failed(&a->out) || a->is_out_of_memory)
        http_problem(a->request, 503, "the gateway is out of memory");
    else
        http_reply_packed(a->request, formats[FORMAT_JSON].mime, NULL, strbuf_slice(&out));
    strbuf_fini(&out);
}

static void reply_csv(struct ask *a, const struct question_end *end)
{
    struct http_request *r = a->request;
    struct strbuf out = {0}, next = {0};
    rows_table_put(a->table, &out);
    if (end->next.type != VALUE_NONE) {
        rows_put_value(&next, end->next);
        http_set_header(r, "Gridline-Next", a->has_next ? strbuf_slice(&next).p : "there is more");
    }
    if (a->table->has_left_out)
        http_problem(r, 422, "the rows have more than %d different columns; ask for json", ROWS_COLUMNS_MAX);
    else if (strbuf_failed(&out) || strbuf_failed(&a->table->rows) || strbuf_failed(&a->table->names))
        http_problem(r, 503, "the gateway is out of memory");
    else
        http_reply(r, 200, formats[FORMAT_CSV].mime, strbuf_slice(&out));
    strbuf_fini(&next);
    strbuf_fini(&out);
}

static void end_stream(struct ask *a, const struct question_end *end)
{
    struct http_request *r = a->request;
    if (a->columns && columns_put(a->columns, &a->out) < 0)
        a->is_out_of_memory = true;
    strbuf_add_str(&a->out, "{\"end\":");
    put_end(a, &a->out, end);
    strbuf_add_str(&a->out, "}\n");
    flush(a);
    if (a->is_out_of_memory) /* what was sent has a hole */
        http_abort(r);
    else
        http_end(r);
}

static void on_done(struct question *q, const struct question_end *end)
{
    struct ask *a = (struct ask *)(void *)q;
    struct http_request *r = a->request;
    struct question_end last = *end;
    if (a->is_status && end->status == CONTROL_DONE) {
        put(a, end->values, SLICE_LIT(""));
        last.rows = 1;
    }
    bool is_good = end->status == CONTROL_DONE || end->status == CONTROL_PARTLY || end->rows;
    if (!is_good && !r->is_started)
        http_problem_control(r, end->status, end->text);
    else if (a->format == FORMAT_JSON)
        reply_json(a, &last);
    else if (a->format == FORMAT_CSV)
        reply_csv(a, &last);
    else
        end_stream(a, &last);
}

static void on_gone(struct http_request *r)
{
    struct ask *a = r->state;
    question_fini(&a->question);
    strbuf_fini(&a->out);
    args_writer_fini(&a->row);
    if (a->table)
        rows_table_fini(a->table);
    mem_free(a->table);
    columns_destroy(a->columns);
    mem_free(a);
}

/* ---------------------------------------------------------------- asking */

static const struct question_ops ops = {on_row, on_events, on_more, on_done};

static void ask(struct http_request *r, struct slice verb, struct args args)
{
    int format = api_choose_format(r, formats, sizeof formats / sizeof *formats);
    if (format < 0)
        return;
    struct slice wanted;
    (void)http_query_get(&r->query, "columns", &wanted); /* "" = all of them */
    struct ask *a = mem_try_alloc(sizeof *a);
    struct rows_table *table = format == FORMAT_CSV ? mem_try_alloc(sizeof *table) : NULL;
    struct columns *columns = format == FORMAT_COLUMNS ? columns_create(wanted) : NULL;
    if (!a || (format == FORMAT_CSV && !table) || (format == FORMAT_COLUMNS && !columns)) {
        mem_free(a);
        mem_free(table);
        columns_destroy(columns);
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    a->request = r;
    a->format = (enum format)format;
    a->table = table;
    a->columns = columns;
    a->is_status = slice_eq_str(verb, "status");
    a->has_next = !slice_eq_str(verb, "ledger"); /* its pages are of one asker */
    a->question.ops = &ops;
    r->state = a;
    r->gone = on_gone;
    r->drained = on_drained;
    if (question_ask(&a->question, r->options->base, r->options->control, r->who, verb, args) < 0)
        http_problem(r, 503, "the gateway is out of memory");
}

/* Hosts are `workers` in the questions about them. */
static struct slice name_for(struct slice verb, struct slice name)
{
    bool is_of_workers = slice_eq_str(verb, "hosts") || slice_eq_str(verb, "ledger");
    return is_of_workers && slice_eq_str(name, "host") ? SLICE_LIT("workers") : name;
}

/* The query without what is about the answer, as named values. */
static void add_query(const struct http_request *r, struct slice verb, struct args_writer *out)
{
    for (size_t i = 0; i < r->query.n; i++) {
        struct slice name = r->query.params[i].name;
        if (!slice_eq_str(name, "format") && !slice_eq_str(name, "columns"))
            question_add_text(out, name_for(verb, name), r->query.params[i].value);
    }
}

void api_ask(struct http_request *r)
{
    struct args_writer args = {0};
    struct slice verb = slice_str(r->route->verb);
    add_query(r, verb, &args);
    if (strbuf_failed(&args.list))
        http_problem(r, 503, "the gateway is out of memory");
    else
        ask(r, verb, args_of(&args));
    args_writer_fini(&args);
}

struct verbs {
    const struct access_identity *who;
    struct strbuf out;
    unsigned n;
};

/* Those that who may ask. */
static void list_verb(void *arg, const char *name, enum access_action action)
{
    struct verbs *v = arg;
    bool is_free = action == ACCESS_ACTIONS; /* nobody needs a right for it */
    if (is_free || access_allows(v->who, action, SLICE_LIT("")))
        strbuf_printf(&v->out, "%s{\"verb\":\"%s\",\"action\":\"%s\"}", v->n++ ? ",\n" : "", name,
                      is_free ? "" : access_action_name(action));
}

static void list_verbs(struct http_request *r)
{
    struct verbs v = {.who = r->who};
    strbuf_add_str(&v.out, "{\"rows\":[");
    control_each_verb(r->options->control, list_verb, &v);
    if (r->options->rule_test)
        list_verb(&v, RULE_TEST, ACCESS_TEST);
    strbuf_printf(&v.out, "],\"end\":{\"status\":\"done\",\"rows\":%u}}\n", v.n);
    if (strbuf_failed(&v.out))
        http_problem(r, 503, "the gateway is out of memory");
    else
        http_reply(r, 200, formats[FORMAT_JSON].mime, strbuf_slice(&v.out));
    strbuf_fini(&v.out);
}

void api_control(struct http_request *r)
{
    struct strbuf verb = {0};
    struct args_writer args = {0};
    struct diag why = {0};
    if (r->method == HTTP_GET) {
        list_verbs(r);
        return;
    }
    int e = api_body_read(r->body, &verb, &args, &why);
    if (e < 0)
        http_problem_error(r, e, &why);
    else if (slice_eq_str(strbuf_slice(&verb), RULE_TEST))
        api_rule_test(r, args_of(&args));
    else
        ask(r, strbuf_slice(&verb), args_of(&args));
    strbuf_fini(&verb);
    args_writer_fini(&args);
}
