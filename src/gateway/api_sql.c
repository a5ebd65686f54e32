/* SPDX-License-Identifier: Apache-2.0 */
/* GET and POST /api/v1/sql: a query, its result in pieces as they come.
 *
 * The first piece waits until it is known whether there is another: so a result of one page has a length, and
 * what goes wrong before a second one has its HTTP status and no rows. Behind that, JSON and NDJSON say it at
 * their end; CSV, which can't, is cut off.
 *
 * Back-pressure: while HTTP_OUTPUT_HIGH bytes wait, no piece is asked for. */
#include "gateway/api.h"

#include "base/mem.h"
#include "base/num.h"
#include "event/json.h"
#include "gateway/sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* As enum query_format. */
static const struct api_format formats[] = {
    {"json", "application/json"}, {"ndjson", "application/x-ndjson"}, {"csv", "text/csv; charset=utf-8"}};

struct asking {
    struct query_asker asker; /* first: the callbacks get it */
    struct http_request *request;
    struct query *query;
    enum query_format format;
    struct strbuf first; /* piece, until it is sent */
    bool has_first;
    bool is_held; /* a piece is asked for when the client has read */
};

static const struct query_ops *ops_of(const struct asking *a)
{
    return a->request->options->query;
}

/* ---------------------------------------------------------------- the result */

static void on_piece(struct query_asker *asker, struct slice bytes)
{
    struct asking *a = (struct asking *)(void *)asker;
    struct http_request *r = a->request;
    if (!a->has_first) {
        strbuf_add_slice(&a->first, bytes);
        a->has_first = true;
        ops_of(a)->more(a->query);
        return;
    }
    if (!r->is_started) {
        http_start(r, 200, formats[a->format].mime);
        http_send(r, strbuf_slice(&a->first));
    }
    http_send(r, bytes);
    a->is_held = http_waiting(r) > HTTP_OUTPUT_HIGH;
    if (!a->is_held)
        ops_of(a)->more(a->query);
}

static void on_drained(struct http_request *r)
{
    struct asking *a = r->state;
    if (!a->is_held)
        return;
    a->is_held = false;
    ops_of(a)->more(a->query);
}

int api_query_status(int error)
{
    switch (error) {
    case -EACCES:
        return 403;
    case E_PROTO:
        return 400;
    case -ENOENT:
    case -ENOTSUP:
        return 404;
    case E_LIMIT:
        return 422;
    case -EAGAIN:
    case -ENOMEM:
        return 503;
    case -ETIMEDOUT:
        return 504;
    default:
        return 500;
    }
}

void api_query_problem(struct http_request *r, int error, const struct diag *why)
{
    if (error == -EACCES)
        http_problem_error(r, error, why);
    else if (why->col)
        http_problem(r, api_query_status(error), "%s, at character %" PRIu32, why->message, why->col);
    else
        http_problem(r, api_query_status(error), "%s", why->message);
}

/* CSV has no other place for them. As JSON, in one line of ASCII. */
static void set_notices_header(struct http_request *r, const struct notices *notices)
{
    struct strbuf text = {0};
    notices_put_json(&text, notices);
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] < ' ' || text.p[i] > '~')
            text.p[i] = '?';
    if (!strbuf_failed(&text))
        http_set_header(r, "Gridline-Notices", text.p);
    strbuf_fini(&text);
}

/* All of it is there. */
static void reply_whole(struct asking *a, const struct query_end *end)
{
    char text[24];
    struct http_request *r = a->request;
    if (strbuf_failed(&a->first)) {
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    (void)snprintf(text, sizeof text, "%" PRIu64, end->lost); /* fits */
    if (end->lost)
        http_set_header(r, "Gridline-Lost", text);
    if (a->format == QUERY_CSV && end->notices->n)
        set_notices_header(r, end->notices);
    http_reply_packed(r, formats[a->format].mime, NULL, strbuf_slice(&a->first));
}

static void on_end(struct query_asker *asker, const struct query_end *end)
{
    struct asking *a = (struct asking *)(void *)asker;
    struct http_request *r = a->request;
    if (!r->is_started && end->r < 0)
        api_query_problem(r, end->r, end->why);
    else if (!r->is_started)
        reply_whole(a, end);
    else if (strbuf_failed(&a->first) || end->r == -ENOMEM ||
             (a->format == QUERY_CSV && (end->r < 0 || end->lost)))
        http_abort(r); /* rather a result that is cut off than one that looks whole */
    else
        http_end(r);
}

static void on_gone(struct http_request *r)
{
    struct asking *a = r->state;
    if (a->query)
        ops_of(a)->close(a->query);
    strbuf_fini(&a->first);
    mem_free(a);
}

/* ---------------------------------------------------------------- the question */

/* {"q":"...","time":"10s","rows":100}: into the texts, which are as in a query of an address. */
struct body {
    struct strbuf q, time, rows;
};

static struct strbuf *member_of(struct body *b, const struct json_item *item)
{
    if (item->key_escaped)
        return NULL;
    if (slice_eq_str(item->key, "q"))
        return &b->q;
    if (slice_eq_str(item->key, "time"))
        return &b->time;
    return slice_eq_str(item->key, "rows") ? &b->rows : NULL;
}

static int take_member(const struct json_reader *reader, struct body *b, const struct json_item *item,
                       struct diag *why)
{
    struct strbuf *to = member_of(b, item);
    bool is_text = item->kind == JSON_STRING;
    if (!to || (!is_text && item->kind != JSON_NUMBER))
        return diag_set(why, E_PROTO, 0, "the body is an object of q, time and rows; %.*s is none of them",
                        (int)(item->key.n > 40 ? 40 : item->key.n), item->key.p);
    strbuf_reset(to);
    char *room = strbuf_room(to, item->text.n);
    size_t n = item->text.n;
    if (!room)
        return -ENOMEM;
    if (is_text && item->escaped) {
        int r = json_unescape(reader, item->text, room, &n);
        if (r < 0)
            return r;
    } else if (n) {
        memcpy(room, item->text.p, n);
    }
    strbuf_advance(to, n);
    return 0;
}

static int read_object(struct slice text, struct body *b, struct diag *why)
{
    struct json_reader reader;
    struct json_item item;
    json_init(&reader, text, 2, why);
    int r = json_next(&reader, &item);
    if (r == 0 && item.kind != JSON_OBJECT)
        return diag_set(why, E_PROTO, 0, "the body is no object; send {\"q\":\"SELECT ...\"}");
    while (r == 0 && (r = json_next(&reader, &item)) == 0 && item.kind != JSON_OBJECT_END)
        r = take_member(&reader, b, &item, why);
    if (r == 0)
        r = json_next(&reader, &item);
    return r;
}

/* By Content-Type: an object, a form, or (whatever else) the statement. */
static int read_body(struct http_request *r, struct body *b, struct diag *why)
{
    struct slice type = http_header(r, "Content-Type");
    struct http_query form = {0};
    struct slice one;
    if (slice_starts(type, SLICE_LIT("application/json")))
        return read_object(r->body, b, why);
    bool is_form = slice_starts(type, SLICE_LIT("application/x-www-form-urlencoded")) &&
                   slice_starts(r->body, SLICE_LIT("q="));
    if (!is_form) {
        strbuf_add_slice(&b->q, r->body);
        return 0;
    }
    int e = http_query_parse(r->body, &form, why);
    if (e == 0 && http_query_take(&form, "q", &one))
        strbuf_add_slice(&b->q, one);
    if (e == 0 && http_query_take(&form, "time", &one))
        strbuf_add_slice(&b->time, one);
    if (e == 0 && http_query_take(&form, "rows", &one))
        strbuf_add_slice(&b->rows, one);
    if (e == 0 && form.n)
        e = diag_set(why, E_PROTO, 0, "the form has q, time and rows; %.*s is none of them",
                     SLICE_ARG(form.params[0].name));
    http_query_fini(&form);
    return e;
}

/* What is in the address wins. false: answered. */
static bool read_limits(struct http_request *r, const struct body *b, struct query_text *out)
{
    struct slice time = strbuf_slice(&b->time), rows = strbuf_slice(&b->rows);
    (void)http_query_take(&r->query, "time", &time);
    (void)http_query_take(&r->query, "rows", &rows);
    if (time.n && (num_parse_duration(time, &out->time_ns) < 0 || out->time_ns <= 0)) {
        http_problem(r, 400, "time: how long it may take, as 500ms or 10s");
        return false;
    }
    if (rows.n && (num_parse_uint(rows, &out->rows) < 0 || out->rows == 0)) {
        http_problem(r, 400, "rows: how many there may be, from 1 on");
        return false;
    }
    if (r->query.n == 0)
        return true;
    http_problem(r, 400, "%.*s is no parameter here; there are q, format, time and rows",
                 SLICE_ARG(r->query.params[0].name));
    return false;
}

static void ask(struct http_request *r, const struct query_text *text)
{
    struct diag why = {0};
    struct asking *a = mem_try_alloc(sizeof *a);
    if (!a) {
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    a->asker = (struct query_asker){.piece = on_piece, .end = on_end};
    a->request = r;
    a->format = text->format;
    r->state = a;
    r->gone = on_gone;
    r->drained = on_drained;
    int e = sql_ask(r->options->query, &a->asker, r->who, text, &a->query, &why);
    if (e < 0)
        api_query_problem(r, e, &why);
    else
        http_watch(r);
}

void api_sql(struct http_request *r)
{
    struct body b = {0};
    struct diag why = {0};
    struct query_text text = {.kind = QUERY_SQL};
    struct slice q;
    int format = api_choose_format(r, formats, sizeof formats / sizeof *formats);
    if (format < 0)
        return;
    text.format = (enum query_format)format;
    int e = r->method == HTTP_POST ? read_body(r, &b, &why) : 0;
    text.text = http_query_take(&r->query, "q", &q) ? q : strbuf_slice(&b.q);
    if (e < 0)
        http_problem_error(r, e, &why);
    else if (strbuf_failed(&b.q) || strbuf_failed(&b.time) || strbuf_failed(&b.rows))
        http_problem(r, 503, "the gateway is out of memory");
    else if (!read_limits(r, &b, &text))
        ; /* answered */
    else if (text.text.n == 0)
        http_problem(r, 400, "q: the statement, as in ?q=SELECT+host,one+FROM+load_latest");
    else
        ask(r, &text);
    strbuf_fini(&b.q);
    strbuf_fini(&b.time);
    strbuf_fini(&b.rows);
}
