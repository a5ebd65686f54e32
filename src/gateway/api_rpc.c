/* SPDX-License-Identifier: Apache-2.0 */
/* XML-RPC at /RPC2: the operations of the API as calls. A call is answered with HTTP status 200, its faults,
 * too (the specification wants it so); faultCode is enum control_status or one of xmlrpc.h's.
 *
 * Rows are {"rows": [{...}, ...], "status": "done", "text": "...", "next": ...}, collected up to
 * COLLECTED_MAX bytes; `next`, where there is more, is the `after` of the call that goes on. */
#include "gateway/api.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "gateway/api_poll.h"
#include "gateway/api_question.h"
#include "gateway/api_rows.h"
#include "gateway/publisher.h"
#include "gateway/xmlrpc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { COLLECTED_MAX = 4 << 20 };
static const char media[] = "text/xml; charset=utf-8";

struct rpc {
    struct http_request *request;
    struct xmlrpc_call call;
    struct strbuf out;
    struct args_writer row;
    /* One of these is in use. */
    struct question question;
    struct publisher publisher;
    struct poll *poll;
    bool is_asking, is_publishing;
};

/* ---------------------------------------------------------------- answers */

static void reply(struct rpc *c)
{
    struct http_request *r = c->request;
    if (strbuf_failed(&c->out))
        http_problem(r, 503, "the gateway is out of memory");
    else
        http_reply(r, 200, media, strbuf_slice(&c->out));
}

static void fault(struct rpc *c, int code, struct slice text)
{
    strbuf_reset(&c->out);
    xmlrpc_put_fault(&c->out, code, text);
    reply(c);
}

static void on_gone(struct http_request *r)
{
    struct rpc *c = r->state;
    if (c->is_asking)
        question_fini(&c->question);
    if (c->is_publishing)
        publisher_fini(&c->publisher);
    poll_destroy(c->poll);
    xmlrpc_call_fini(&c->call);
    strbuf_fini(&c->out);
    args_writer_fini(&c->row);
    mem_free(c);
}

/* ---------------------------------------------------------------- questions */

static struct rpc *of_question(struct question *q)
{
    return (struct rpc *)((char *)q - offsetof(struct rpc, question));
}

static void on_row(struct question *q, struct args row, struct slice text)
{
    xmlrpc_put_struct(&of_question(q)->out, row,
                      args_value(row, "text").type == VALUE_NONE ? text : SLICE_LIT(""));
}

static void put_event(struct rpc *c, const struct event *e)
{
    args_writer_reset(&c->row);
    rows_of_event(&c->row, e);
    xmlrpc_put_struct(&c->out, args_of(&c->row), SLICE_LIT(""));
}

static void on_events(struct question *q, const struct event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_event(of_question(q), &events[i]);
}

static enum question_more on_more(struct question *q)
{
    return of_question(q)->out.n > COLLECTED_MAX ? QUESTION_ENOUGH : QUESTION_ON;
}

static void on_done(struct question *q, const struct question_end *end)
{
    struct rpc *c = of_question(q);
    struct args rest = end->values;
    struct arg a;
    bool is_good = end->status == CONTROL_DONE || end->status == CONTROL_PARTLY || end->rows;
    if (!is_good) {
        fault(c, end->status, end->text.n ? end->text : SLICE_LIT("the gateway could not do that"));
        return;
    }
    strbuf_add_str(&c->out, "</data></array></value></member>");
    xmlrpc_put_member(&c->out, "status",
                      value_text(slice_str(end->status == CONTROL_DONE ? "done" : "partly")));
    xmlrpc_put_member(&c->out, "text", value_text(end->text));
    if (end->next.type != VALUE_NONE)
        xmlrpc_put_member(&c->out, "next", end->next);
    if (end->values.n)
        strbuf_add_str(&c->out, "<member><name>values</name><value><struct>");
    while (args_next(&rest, &a)) {
        char name[ARGS_NAME_MAX + 1];
        (void)snprintf(name, sizeof name, "%.*s", SLICE_ARG(a.name)); /* fits */
        xmlrpc_put_member(&c->out, name, a.value);
    }
    strbuf_add_str(&c->out, end->values.n ? "</struct></value></member>" : "");
    strbuf_add_str(&c->out, "</struct></value>" XMLRPC_TAIL);
    reply(c);
}

static void ask(struct rpc *c, struct slice verb)
{
    static const struct question_ops ops = {on_row, on_events, on_more, on_done};
    const struct http_options *o = c->request->options;
    strbuf_add_str(&c->out, XMLRPC_HEAD "<value><struct><member><name>rows</name><value><array><data>");
    c->question.ops = &ops;
    c->is_asking = true;
    if (question_ask(&c->question, o->base, o->control, c->request->who, verb, args_of(&c->call.args)) < 0)
        fault(c, XMLRPC_INTERNAL, SLICE_LIT("the gateway is out of memory"));
}

struct rpc_method;
static void run_verb(struct rpc *c, const struct rpc_method *m);
static void run_control(struct rpc *c, const struct rpc_method *m);
static void run_publish(struct rpc *c, const struct rpc_method *m);
static void run_events(struct rpc *c, const struct rpc_method *m);
static void run_list(struct rpc *c, const struct rpc_method *m);
static void run_help(struct rpc *c, const struct rpc_method *m);
static void run_signature(struct rpc *c, const struct rpc_method *m);

static const struct rpc_method {
    const char *name;
    void (*run)(struct rpc *c, const struct rpc_method *m);
    const char *verb;
    const char *signature; /* the result's type, then the parameters', by commas */
    const char *help;
} methods[] = {
    {"gridline.access", run_verb, "access", "struct,struct", "What you may do here."},
    {"gridline.control", run_control, NULL, "struct,string,struct",
     "control(verb, {named values}): asks the gateway, or orders its workers; GET /api/v1/control lists the "
     "verbs."},
    {"gridline.directory", run_verb, "sensors", "struct,struct",
     "directory({host, event, where, ...}): the sensors that there are."},
    {"gridline.events", run_events, NULL, "struct,struct",
     "events({event, host, where, from, wait, max, ...}): events behind position `from`, as many as `max` "
     "(1000) or "
     "those of the first moment that has any, after at most `wait` seconds (10, up to 30). Returns {events, "
     "position, "
     "gaps}; give `position` as `from` of the next call."},
    {"gridline.hosts", run_verb, "hosts", "struct,struct",
     "hosts({workers, where}): the workers and their states."},
    {"gridline.latest", run_verb, "latest", "struct,struct",
     "latest({event, host, where, ...}): the newest event of each stream."},
    {"gridline.ledger", run_verb, "ledger", "struct,struct",
     "ledger({workers}): what was taken, passed, lost."},
    {"gridline.publish", run_publish, NULL, "struct,string,string",
     "publish(text, encoding): events in ndjson (the default), ulm, bp or xml. Returns {taken, refused, "
     "errors} when "
     "they are in the journal."},
    {"gridline.schemas", run_verb, "schemas", "struct,struct",
     "schemas({event, ...}): what events look like."},
    {"gridline.status", run_verb, "status", "struct,struct",
     "status(): the gateway's own numbers, in `values`."},
    {"gridline.summary", run_verb, "summary", "struct,struct",
     "summary({event, host, field, ...}): averages, minima, maxima and counts of each stream."},
    {"system.listMethods", run_list, NULL, "array", "The methods there are."},
    {"system.methodHelp", run_help, NULL, "string,string", "What a method does."},
    {"system.methodSignature", run_signature, NULL, "array,string",
     "The types of a method's result and parameters."},
};
enum { METHODS = sizeof methods / sizeof *methods };

static void run_verb(struct rpc *c, const struct rpc_method *m)
{
    if (c->call.n)
        fault(c, XMLRPC_BAD_PARAMS, SLICE_LIT("one struct of named values, or nothing"));
    else
        ask(c, slice_str(m->verb));
}

static void run_control(struct rpc *c, const struct rpc_method *m)
{
    struct slice verb = xmlrpc_text(&c->call, 0);
    (void)m;
    if (verb.n == 0 || c->call.n != 1)
        fault(c, XMLRPC_BAD_PARAMS, SLICE_LIT("a verb, and a struct of named values"));
    else
        ask(c, verb);
}

/* ---------------------------------------------------------------- publishing */

static void on_published(struct publisher *p)
{
    struct rpc *c = (struct rpc *)((char *)p - offsetof(struct rpc, publisher));
    if (p->result < 0 || (p->taken == 0 && p->refused)) {
        int code = p->result == -EACCES                           ? CONTROL_NOT_ALLOWED
                   : p->result == -EAGAIN || p->result == -ENOMEM ? CONTROL_FAILED
                                                                  : CONTROL_USAGE;
        fault(c, code,
              slice_str(p->text[0]    ? p->text
                        : p->n_errors ? p->errors[0].message
                                      : "nothing can be read"));
        return;
    }
    strbuf_add_str(&c->out, XMLRPC_HEAD "<value><struct>");
    xmlrpc_put_member(&c->out, "taken", value_uint(p->taken));
    xmlrpc_put_member(&c->out, "refused", value_uint(p->refused));
    strbuf_add_str(&c->out, "<member><name>errors</name><value><array><data>");
    for (size_t i = 0; i < p->n_errors; i++) {
        strbuf_add_str(&c->out, "<value><struct>");
        xmlrpc_put_member(&c->out, "line", value_uint(p->errors[i].line));
        xmlrpc_put_member(&c->out, "column", value_uint(p->errors[i].col));
        xmlrpc_put_member(&c->out, "text", value_text(slice_str(p->errors[i].message)));
        strbuf_add_str(&c->out, "</struct></value>");
    }
    strbuf_add_str(&c->out, "</data></array></value></member></struct></value>" XMLRPC_TAIL);
    reply(c);
}

static void run_publish(struct rpc *c, const struct rpc_method *m)
{
    struct slice text = xmlrpc_text(&c->call, 0), name = xmlrpc_text(&c->call, 1);
    const struct encoding *encoding = encoding_by_name(name.n ? name : SLICE_LIT("ndjson"));
    (void)m;
    if (c->call.n == 0 || !encoding || !encoding->decoder || c->call.has_struct) {
        fault(c, XMLRPC_BAD_PARAMS, SLICE_LIT("events as text or base64, and the name of their encoding"));
        return;
    }
    c->publisher = (struct publisher){.sessions = c->request->options->sessions,
                                      .who = c->request->who,
                                      .origin = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}},
                                      .done = on_published};
    c->is_publishing = true;
    if (publisher_start(&c->publisher, c->request->options->base, encoding, text) < 0)
        fault(c, XMLRPC_INTERNAL, SLICE_LIT("the gateway is out of memory"));
}

/* ---------------------------------------------------------------- events */

static void on_polled(void *arg, const struct poll_result *p)
{
    struct rpc *c = arg;
    strbuf_add_str(&c->out, XMLRPC_HEAD "<value><struct><member><name>events</name><value><array><data>");
    for (size_t k = 0; k < p->n_batches; k++)
        for (size_t i = 0; i < p->batches[k].n; i++)
            put_event(c, &p->batches[k].batch->events[i]);
    strbuf_add_str(&c->out, "</data></array></value></member><member><name>gaps</name><value><array><data>");
    for (size_t i = 0; i < p->n_gaps; i++) {
        strbuf_add_str(&c->out, "<value><struct>");
        xmlrpc_put_member(&c->out, "lost", value_uint(p->gaps[i].lost));
        xmlrpc_put_member(&c->out, "reason",
                          value_text(slice_str(p->gaps[i].reason == GAP_SLOW ? "slow" : "gone")));
        strbuf_add_str(&c->out, "</struct></value>");
    }
    strbuf_add_str(&c->out, "</data></array></value></member>");
    xmlrpc_put_member(&c->out, "position", value_text(slice_str(p->position)));
    strbuf_add_str(&c->out, "</struct></value>" XMLRPC_TAIL);
    reply(c);
}

/* `wait` in seconds and `max`; the rest is a subscription's. */
static bool read_poll(struct rpc *c, struct subscription_options *o, struct poll_options *p)
{
    struct args rest = args_of(&c->call.args);
    struct arg a;
    while (args_next(&rest, &a)) {
        bool is_uint = a.value.type == VALUE_UINT, is_float = a.value.type == VALUE_FLOAT;
        if (slice_eq_str(a.name, "wait") && (is_uint || (is_float && a.value.f >= 0 && a.value.f <= 1e6)))
            p->wait_ns =
                (int64_t)((is_uint ? (double)(a.value.u > 1000 ? 1000 : a.value.u) : a.value.f) * 1e9);
        else if (slice_eq_str(a.name, "max") && is_uint && a.value.u)
            p->max = a.value.u;
        else if (a.value.type != VALUE_TEXT || slice_eq_str(a.name, "format") ||
                 slice_eq_str(a.name, "durable") || !subscription_option(o, a.name, value_slice(a.value)))
            return false;
    }
    return c->call.n == 0;
}

static void run_events(struct rpc *c, const struct rpc_method *m)
{
    struct http_request *r = c->request;
    struct subscription_options o = {0};
    struct poll_options p = {.base = r->options->base,
                             .subscriptions = r->options->subscriptions,
                             .who = r->who,
                             .name = r->peer,
                             .wait_ns = 10 * NS_PER_S,
                             .max = 1000,
                             .done = on_polled,
                             .arg = c};
    struct diag why = {0};
    (void)m;
    if (!read_poll(c, &o, &p)) {
        fault(c, XMLRPC_BAD_PARAMS,
              SLICE_LIT("a struct of texts event, host, where, on_change, cross, delta, every, "
                        "period, from, queue, and numbers wait and max"));
        return;
    }
    if (!http_be_stream(r)) /* c is gone */
        return;
    int e = poll_start(&p, &o, &c->poll, &why);
    if (e < 0)
        fault(c,
              e == -EACCES                   ? CONTROL_NOT_ALLOWED
              : e == E_PROTO || e == E_LIMIT ? CONTROL_USAGE
                                             : CONTROL_FAILED,
              slice_str(why.message[0] ? why.message : err_text(e)));
}

/* ---------------------------------------------------------------- introspection */

static const struct rpc_method *find_method(struct slice name)
{
    for (size_t i = 0; i < METHODS; i++)
        if (slice_eq_str(name, methods[i].name))
            return &methods[i];
    return NULL;
}

static void run_list(struct rpc *c, const struct rpc_method *m)
{
    (void)m;
    strbuf_add_str(&c->out, XMLRPC_HEAD "<value><array><data>");
    for (size_t i = 0; i < METHODS; i++)
        xmlrpc_put_text(&c->out, methods[i].name);
    strbuf_add_str(&c->out, "</data></array></value>" XMLRPC_TAIL);
    reply(c);
}

static void run_help(struct rpc *c, const struct rpc_method *m)
{
    const struct rpc_method *of = find_method(xmlrpc_text(&c->call, 0));
    (void)m;
    if (!of) {
        fault(c, XMLRPC_NO_METHOD, SLICE_LIT("no such method; system.listMethods lists them"));
        return;
    }
    strbuf_add_str(&c->out, XMLRPC_HEAD);
    xmlrpc_put_text(&c->out, of->help);
    strbuf_add_str(&c->out, XMLRPC_TAIL);
    reply(c);
}

static void run_signature(struct rpc *c, const struct rpc_method *m)
{
    const struct rpc_method *of = find_method(xmlrpc_text(&c->call, 0));
    (void)m;
    if (!of) {
        fault(c, XMLRPC_NO_METHOD, SLICE_LIT("no such method; system.listMethods lists them"));
        return;
    }
    strbuf_add_str(&c->out, XMLRPC_HEAD "<value><array><data><value><array><data>");
    for (struct slice rest = slice_str(of->signature); rest.n;) {
        const char *comma = memchr(rest.p, ',', rest.n);
        struct slice type = slice_of(rest.p, comma ? (size_t)(comma - rest.p) : rest.n);
        xmlrpc_put_value(&c->out, value_text(type));
        rest = slice_from(rest, type.n + 1);
    }
    strbuf_add_str(&c->out, "</data></array></value></data></array></value>" XMLRPC_TAIL);
    reply(c);
}

/* ---------------------------------------------------------------- */

void api_rpc(struct http_request *r)
{
    struct diag why = {0};
    struct rpc *c = mem_try_alloc(sizeof *c);
    if (!c) {
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    c->request = r;
    r->identity.interface = "xmlrpc";
    r->state = c;
    r->gone = on_gone;
    int e = xmlrpc_read(r->body, &c->call, &why);
    const struct rpc_method *m = e == 0 ? find_method(strbuf_slice(&c->call.method)) : NULL;
    if (e < 0)
        fault(c, e == -ENOMEM ? XMLRPC_INTERNAL : XMLRPC_NOT_XML,
              slice_str(why.message[0] ? why.message : err_text(e)));
    else if (!m)
        fault(c, XMLRPC_NO_METHOD, SLICE_LIT("no such method; system.listMethods lists them"));
    else
        m->run(c, m);
}
