/* SPDX-License-Identifier: Apache-2.0 */
/* What the gateway knows is answered here, from control_rows.h; what its workers are asked goes to
 * control_order.c. */
#include "gateway/control.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"
#include "gateway/control_order.h"
#include "gateway/control_rows.h"
#include "gateway/gateway.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum known { KNOWN_HOSTS, KNOWN_LEDGER, KNOWN_STATUS };

static const struct {
    const char *name;
    bool is_order;
    enum known known;
    enum order_kind kind;
} verbs[] = {
    {.name = "hosts", .known = KNOWN_HOSTS},       {.name = "ledger", .known = KNOWN_LEDGER},
    {.name = "status", .known = KNOWN_STATUS},     {"worker.suspend", true, .kind = ORDER_WORKER},
    {"worker.resume", true, .kind = ORDER_WORKER}, {"worker.kill", true, .kind = ORDER_WORKER},
    {"worker.set", true, .kind = ORDER_SET},       {"sensor.start", true, .kind = ORDER_SENSOR},
    {"sensor.stop", true, .kind = ORDER_SENSOR},   {"sensor.set", true, .kind = ORDER_SENSOR},
    {"sensor.list", true, .kind = ORDER_LIST},     {"activate", true, .kind = ORDER_ACTIVATE},
};

/* A ledger that somebody reads, page by page. There is room for few: the one that began first gives way. */
enum { LISTINGS = 4, CONTROL_PARTS = 16 };

struct listing {
    uint64_t number;             /* what `after` says; 0 = not in use */
    struct control_asker *asker; /* NULL: has left */
    struct rows_list list;
    bool has_cursors; /* they come behind it */
};

struct added {
    const struct control_verb *verbs;
    size_t n;
    void *arg;
};

struct control_turn {
    struct control *control;
    uint64_t request;
    struct args args;
    const struct access_identity *who;
    size_t given;
    enum control_status status; /* it ended with */
};

struct control {
    struct added added[CONTROL_PARTS];
    size_t n_added;
    struct block_writer *writer; /* of rows that are events, for those who take them as bytes */
    struct strbuf block;
    struct workers *workers;
    const struct directory *directory;     /* NULL = none */
    const struct cursors *cursors;         /* the same */
    const struct gateway_archive *archive; /* NULL = none */
    const struct class_source *classes;    /* the same */
    struct ledger *ledger;
    struct orders orders;
    struct listing listings[LISTINGS];
    uint64_t last_listing;
    struct control_asker *replying; /* who gets rows right now; NULL again if it leaves meanwhile */
};

void control_reply(struct control_asker *to, uint64_t request, enum control_status status, struct args args,
                   struct slice text)
{
    if (to)
        to->answer(to, &(struct frame_answer){
                           .request = request, .status = (uint16_t)status, .text = text, .args = args});
}

void control_reply_text(struct control_asker *to, uint64_t request, enum control_status status,
                        const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    control_reply(to, request, status, (struct args){0}, slice_of(text, length));
}

/* ---------------------------------------------------------------- what the gateway knows */

struct reply {
    struct control *control;
    uint64_t request;
};

static bool give_known(void *arg, struct args row)
{
    const struct reply *p = arg;
    control_reply(p->control->replying, p->request, CONTROL_MORE, row, (struct slice){"", 0});
    return p->control->replying != NULL;
}

/* The last answer of a page: how many rows, and where the next page begins if there is one. */
static void end_page(struct control *c, uint64_t request, const struct rows_end *end, uint64_t after)
{
    struct args_writer *last = &c->orders.row;
    args_writer_reset(last);
    args_add_uint(last, "rows", end->rows);
    if (end->has_more)
        args_add_uint(last, "after", after);
    control_reply(c->replying, request, CONTROL_DONE, args_of(last), (struct slice){"", 0});
}

static void reply_hosts(struct control *c, const struct frame_control *q, struct access_view *view)
{
    struct choice choice;
    struct diag why = {0};
    struct rows_end end = {0};
    struct reply reply = {c, q->request};
    const struct rows_out out = {&reply, give_known};
    const struct rows_source from = {c->workers, c->directory, clock_boot_ns()};
    uint64_t after = args_uint(q->args, "after", 0);
    int r = choice_init(&choice, args_text(q->args, "workers"), args_text(q->args, "where"), clock_utc_ns(),
                        &why);
    choice.view = view;
    bool is_all = choice_is_all(&choice);
    if (r == 0)
        r = rows_of_hosts(&from, &choice, after, &out, &end);
    if (r == 0)
        r = choice.failed;
    choice_fini(&choice);
    if (r == E_PROTO || r == E_LIMIT)
        control_reply_text(c->replying, q->request, CONTROL_USAGE, "%s", why.message);
    else if (r < 0)
        control_reply_text(c->replying, q->request, CONTROL_FAILED, "the gateway is out of memory");
    else if (end.rows == 0 && after == 0 && !end.has_more && !is_all)
        control_reply_text(c->replying, q->request, CONTROL_NOT_FOUND,
                           "no worker is meant by that; `gridline hosts` without a pattern lists all");
    else
        end_page(c, q->request, &end, end.after);
}

static void end_listing(struct listing *l)
{
    rows_list_fini(&l->list);
    *l = (struct listing){0};
}

/* A new one, in place of the oldest if there must be; its list is empty. */
static struct listing *new_listing(struct control *c)
{
    struct listing *l = &c->listings[0];
    for (size_t i = 1; i < LISTINGS; i++)
        if (c->listings[i].number < l->number)
            l = &c->listings[i];
    end_listing(l);
    *l = (struct listing){.number = ++c->last_listing, .asker = c->replying};
    return l;
}

/* NULL: it has ended, or is somebody else's. */
static struct listing *find_listing(struct control *c, uint64_t number)
{
    for (size_t i = 0; i < LISTINGS; i++)
        if (c->listings[i].number == number && c->listings[i].asker == c->replying)
            return &c->listings[i];
    return NULL;
}

static void reply_accounts(struct control *c, const struct frame_control *q, struct listing *l)
{
    struct rows_end end;
    struct reply reply = {c, q->request};
    const struct rows_out out = {&reply, give_known};
    struct archived_state archived;
    if (c->archive)
        c->archive->state(c->archive->arg, &archived);
    int r = rows_of_accounts(&l->list, c->ledger, c->workers, c->archive ? &archived : NULL, &out, &end);
    if (r == 0 && !end.has_more && l->has_cursors && c->cursors && c->replying)
        r = rows_of_cursors(c->cursors, &out, &end);
    if (r < 0)
        control_reply_text(c->replying, q->request, CONTROL_FAILED, "the gateway is out of memory");
    else
        end_page(c, q->request, &end, l->number);
    if (!end.has_more || !c->replying)
        end_listing(l);
}

static void reply_ledger(struct control *c, const struct frame_control *q, struct access_view *view)
{
    struct slice patterns = args_text(q->args, "workers");
    uint64_t after = args_uint(q->args, "after", 0);
    struct listing *l = after ? find_listing(c, after) : new_listing(c);
    if (!l) {
        control_reply_text(c->replying, q->request, CONTROL_FAILED, "others read the ledger, too; ask again");
        return;
    }
    int r = after ? 0 : rows_list_init(&l->list, c->ledger, c->workers, patterns, view);
    if (!after)
        l->has_cursors = patterns.n == 0 && access_view_is_whole(view);
    if (r == 0 && (l->list.n || patterns.n == 0)) {
        reply_accounts(c, q, l);
        return;
    }
    end_listing(l);
    if (r < 0)
        control_reply_text(c->replying, q->request, CONTROL_FAILED, "the gateway is out of memory");
    else
        control_reply_text(c->replying, q->request, CONTROL_NOT_FOUND,
                           "no account is of such a worker; `gridline ledger` without a pattern lists all");
}

/* Numbers of the whole gateway tell of hosts, too. */
static void reply_status(struct control *c, const struct frame_control *q, const struct access_view *view)
{
    if (!access_view_is_whole(view)) {
        access_tell_denied(c->replying->who, ACCESS_LOOKUP, (struct slice){"", 0}, (struct slice){"", 0});
        control_reply_text(c->replying, q->request, CONTROL_NOT_ALLOWED,
                           "the gateway's numbers are for those who may look up everything");
        return;
    }
    struct args_writer numbers = {0};
    args_add_uint(&numbers, "workers", workers_count(c->workers));
    args_add_uint(&numbers, "accounts", c->ledger->accounts.n);
    args_add_uint(&numbers, "accounts_forgotten", c->ledger->forgotten);
    args_add_uint(&numbers, "requests", c->orders.n);
    if (c->orders.ops->status)
        c->orders.ops->status(c->orders.arg, &numbers);
    control_reply(c->replying, q->request, CONTROL_DONE, args_of(&numbers), (struct slice){"", 0});
    args_writer_fini(&numbers);
}

static void reply_known(struct control *c, struct control_asker *asker, const struct frame_control *q,
                        enum known what)
{
    struct access_view *view = NULL;
    int r = access_view_create(asker->who, ACCESS_LOOKUP, &view);
    if (r == -EACCES) {
        access_tell_denied(asker->who, ACCESS_LOOKUP, (struct slice){"", 0}, (struct slice){"", 0});
        control_reply_text(asker, q->request, CONTROL_NOT_ALLOWED, "you may not see workers and ledger here");
        return;
    }
    if (r < 0) {
        control_reply_text(asker, q->request, CONTROL_FAILED, "the gateway is out of memory");
        return;
    }
    c->replying = asker;
    if (what == KNOWN_HOSTS)
        reply_hosts(c, q, view);
    else if (what == KNOWN_LEDGER)
        reply_ledger(c, q, view);
    else
        reply_status(c, q, view);
    c->replying = NULL;
    access_view_destroy(view);
}

/* ---------------------------------------------------------------- what other parts know */

int control_add(struct control *c, const struct control_verb *verbs_of_it, size_t n, void *arg)
{
    if (c->n_added == CONTROL_PARTS)
        return -ENOMEM;
    c->added[c->n_added++] = (struct added){verbs_of_it, n, arg};
    return 0;
}

void control_each_verb(const struct control *c,
                       void (*fn)(void *arg, const char *name, enum access_action action), void *arg)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        fn(arg, verbs[i].name, verbs[i].is_order ? ACCESS_CONTROL : ACCESS_LOOKUP);
    for (size_t i = 0; i < c->n_added; i++)
        for (size_t k = 0; k < c->added[i].n; k++)
            fn(arg, c->added[i].verbs[k].name, c->added[i].verbs[k].action);
}

const struct access_identity *control_who(const struct control_turn *t)
{
    return t->who;
}

struct args control_args(const struct control_turn *t)
{
    return t->args;
}

size_t control_given(const struct control_turn *t)
{
    return t->given;
}

bool control_row(struct control_turn *t, struct args row)
{
    t->given += row.bytes.n;
    control_reply(t->control->replying, t->request, CONTROL_MORE, row, (struct slice){"", 0});
    return t->control->replying != NULL;
}

/* What is in the writer, as a row. */
static bool give_block(struct control_turn *t)
{
    struct control *c = t->control;
    struct args_writer *row = &c->orders.row;
    const struct batch_origin none = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    strbuf_reset(&c->block);
    if (block_writer_finish(c->writer, &none, &c->block) < 0)
        return false;
    args_writer_reset(row);
    args_add(row, SLICE_LIT("block"), value_bytes(strbuf_slice(&c->block)));
    return control_row(t, args_of(row));
}

bool control_events(struct control_turn *t, const struct event *events, size_t n)
{
    enum { BLOCK_BYTES = 32 << 10 };
    struct control *c = t->control;
    if (c->replying && c->replying->events) {
        c->replying->events(c->replying, t->request, events, n);
        return c->replying != NULL;
    }
    for (size_t i = 0; i < n && c->replying; i++)
        if (block_writer_add(c->writer, &events[i]) < 0 ||
            (block_writer_size(c->writer) > BLOCK_BYTES && !give_block(t)))
            return false;
    return block_writer_count(c->writer) == 0 || give_block(t);
}

void control_end(struct control_turn *t, enum control_status status, struct args args, const char *format,
                 ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    t->status = status;
    control_reply(t->control->replying, t->request, status, args, slice_of(text, length));
}

static bool ask_added(struct control *c, struct control_asker *asker, const struct frame_control *q)
{
    for (size_t i = 0; i < c->n_added; i++)
        for (size_t k = 0; k < c->added[i].n; k++) {
            const struct control_verb *v = &c->added[i].verbs[k];
            if (!slice_eq_str(q->verb, v->name))
                continue;
            if (v->action != ACCESS_ACTIONS &&
                !access_check(asker->who, v->action, (struct slice){"", 0}, (struct slice){"", 0})) {
                control_reply_text(asker, q->request, CONTROL_NOT_ALLOWED, "you may not ask for that here");
                return true;
            }
            struct control_turn t = {.control = c, .request = q->request, .args = q->args, .who = asker->who};
            c->replying = asker;
            block_writer_reset(c->writer);
            v->run(c->added[i].arg, &t);
            c->replying = NULL;
            return true;
        }
    return false;
}

/* ---------------------------------------------------------------- */

struct control *control_create(struct event_base *base, struct workers *workers, struct ledger *ledger,
                               const struct control_ops *ops, void *arg)
{
    struct control *c = mem_try_alloc(sizeof *c);
    if (!c)
        return NULL;
    c->writer = block_writer_create();
    if (!c->writer) {
        mem_free(c);
        return NULL;
    }
    c->workers = workers;
    c->ledger = ledger;
    c->orders = (struct orders){.base = base, .workers = workers, .ops = ops, .arg = arg};
    return c;
}

void control_set_directory(struct control *c, const struct directory *d)
{
    c->directory = d;
}

void control_set_cursors(struct control *c, const struct cursors *cursors)
{
    c->cursors = cursors;
}

void control_set_archive(struct control *c, const struct gateway_archive *a)
{
    c->archive = a;
}

void control_set_classes(struct control *c, const struct class_source *classes)
{
    c->classes = classes;
}

const struct class_source *control_classes(const struct control_turn *t)
{
    return t->control->classes;
}

void control_audit(const struct control_turn *t, const char *verb, struct slice what)
{
    const struct orders *o = &t->control->orders;
    if (o->ops->on_done)
        o->ops->on_done(o->arg, &(struct control_done){.who = t->who,
                                                       .verb = slice_str(verb),
                                                       .workers = SLICE_LIT(""),
                                                       .where = what,
                                                       .status = (uint16_t)t->status});
}

void control_destroy(struct control *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < LISTINGS; i++)
        end_listing(&c->listings[i]);
    orders_fini(&c->orders);
    block_writer_destroy(c->writer);
    strbuf_fini(&c->block);
    mem_free(c);
}

void control_ask(struct control *c, struct control_asker *asker, const struct frame_control *question)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (!slice_eq_str(question->verb, verbs[i].name))
            continue;
        if (verbs[i].is_order)
            orders_ask(&c->orders, asker, question, verbs[i].name, verbs[i].kind);
        else
            reply_known(c, asker, question, verbs[i].known);
        return;
    }
    if (ask_added(c, asker, question))
        return;
    control_reply_text(asker, question->request, CONTROL_USAGE, "this gateway does not know '%.*s'",
                       (int)(question->verb.n > 60 ? 60 : question->verb.n), question->verb.p);
}

void control_forget(struct control *c, const struct control_asker *asker)
{
    orders_forget(&c->orders, asker);
    for (size_t i = 0; i < LISTINGS; i++)
        if (c->listings[i].number && c->listings[i].asker == asker) {
            c->listings[i].asker = NULL;
            if (c->replying != asker) /* else it is being read: reply_accounts ends it */
                end_listing(&c->listings[i]);
        }
    if (c->replying == asker)
        c->replying = NULL;
}

void control_answered(struct control *c, struct worker *w, const struct frame_answer *answer)
{
    orders_answered(&c->orders, w, answer);
}

void control_disconnected(struct control *c, struct worker *w)
{
    orders_disconnected(&c->orders, w);
}
