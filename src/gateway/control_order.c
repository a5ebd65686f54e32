/* SPDX-License-Identifier: Apache-2.0 */
/* An order has the targets that were chosen, each once, by id, in order. It goes through three phases:
 *
 *     ASKING    a slice of targets at a time, one slice a turn of the loop: the question is sent, or the row
 * is given that says why not WAITING   for answers, until the deadline ENDING    slices again: those that did
 * not answer become rows
 *
 * and ends when no target is open. Slices, because 100,000 workers may be meant: the loop goes on in between,
 * and the asker's session can send what it was given. Workers are kept by id, not by pointer: they can be
 * forgotten meanwhile.
 *
 * Only the pump and settle end an order, so that answers and hang-ups that come from inside a send are safe.
 *
 * What `worker.set` sets is kept with the worker only after its agent has agreed (or when it has no
 * connection to agree by): a lease never carries what the agent refused. The same holds for `activate`: the
 * agent, which knows what it costs, speaks first, then the programs of that host that are connected here get
 * the list. */
#include "gateway/control_order.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/limits.h"
#include "gateway/control_choose.h"

#include <errno.h>
#include <inttypes.h>

enum {
    SLICE_TARGETS = 128,    /* a turn of the loop */
    ROWS_MAX = 4096,        /* of one worker's answer */
    FORWARD_MAX = 32 << 10, /* bytes of a question that workers get */
    TIMEOUT_MAX_MS = 600000
};

enum phase { ASKING, WAITING, ENDING };
enum target_state { TARGET_NEW, TARGET_ASKED, TARGET_ENDED };

struct target {
    uint32_t worker;
    uint8_t state; /* enum target_state */
    uint16_t rows; /* given so far */
};

/* Targets by how they ended; a worker's own statuses, others count as failed. */
enum { ENDS = CONTROL_NOT_ALLOWED + 1 };

struct order {
    struct order *next;
    struct orders *all;
    struct control_asker *asker; /* NULL: gone */
    struct access_identity who;
    const char *verb;
    enum order_kind kind;
    uint64_t number;              /* ours: what the workers answer to */
    uint64_t asked_as;            /* the asker's */
    struct strbuf workers, where; /* as they were given, for the audit */
    struct args_writer forward;   /* what the workers get */
    struct args_writer settings;  /* worker.set: the part of it that is kept */
    uint32_t lease_ms;
    uint64_t asked_timeout_ms, asked_lease_ms; /* before they were clamped */
    bool is_dry;
    struct target *targets; /* by id */
    size_t n, at;           /* at: of the pump */
    size_t n_open;          /* asked, not ended */
    size_t ends[ENDS];
    enum phase phase;
    uint32_t timeout_ms;
    struct event *timer; /* the next slice, or the deadline */
};

/* ---------------------------------------------------------------- rows of targets */

/* Of a status that a worker answered, or ours. */
static const char *word_of(uint16_t status)
{
    static const char *const words[ENDS] = {"done", "failed", "usage", "not_found", "partly", "not_allowed"};
    return status < ENDS ? words[status] : "failed";
}

static bool is_ours(struct slice name)
{
    return slice_eq_str(name, "host") || slice_eq_str(name, "worker") || slice_eq_str(name, "answer");
}

/* A row of what a worker says (more), or of what is said about it. word NULL: it is not the last of that
 * worker. */
static void give_row(struct order *o, const struct target *t, const char *word, struct slice text,
                     struct args more)
{
    struct args_writer *row = &o->all->row;
    const struct worker *w = workers_by_id(o->all->workers, t->worker);
    struct arg a;
    if (!o->asker)
        return;
    args_writer_reset(row);
    if (w)
        args_add_text(row, "host", slice_str(w->host));
    args_add_uint(row, "worker", t->worker);
    if (word)
        args_add_text(row, "answer", slice_str(word));
    while (row->n < ARGS_MAX && args_next(&more, &a))
        if (!is_ours(a.name))
            args_add(row, a.name, a.value);
    control_reply(o->asker, o->asked_as, CONTROL_MORE, args_of(row), text);
}

static void end_target(struct order *o, struct target *t, uint16_t status, const char *word,
                       struct slice text, struct args more)
{
    if (t->state == TARGET_ASKED)
        o->n_open--;
    t->state = TARGET_ENDED;
    o->ends[status < ENDS ? status : CONTROL_FAILED]++;
    give_row(o, t, word, text, more);
}

static void end_with(struct order *o, struct target *t, uint16_t status, const char *word, const char *text)
{
    end_target(o, t, status, word, slice_str(text), (struct args){0});
}

/* ---------------------------------------------------------------- settings */

static bool is_set(const struct args_writer *list, struct slice name)
{
    struct args args = args_of(list);
    struct arg a;
    while (args_next(&args, &a))
        if (slice_eq(a.name, name))
            return true;
    return false;
}

/* What the worker would be assigned: what it has, with what is set in its place; an empty text takes one out.
 */
static int merge_settings(const struct order *o, const struct worker *w, struct strbuf *out)
{
    struct args_writer merged = {0};
    struct args old = choice_list(w->settings, w->settings_n), new = args_of(&o->settings);
    struct arg a;
    while (args_next(&old, &a))
        if (!is_set(&o->settings, a.name))
            args_add(&merged, a.name, a.value);
    while (args_next(&new, &a))
        if (!(value_is_text(a.value.type) && a.value.n == 0))
            args_add(&merged, a.name, a.value);
    bool failed = strbuf_failed(&merged.list);
    args_put(out, args_of(&merged));
    int e = merged.n > ARGS_MAX || out->n > WORKER_SETTINGS_MAX ? E_LIMIT : 0;
    if (failed || strbuf_failed(out))
        e = -ENOMEM;
    args_writer_fini(&merged);
    return e;
}

static int check_settings(const struct order *o, const struct worker *w)
{
    struct strbuf merged = {0};
    int e = merge_settings(o, w, &merged);
    strbuf_fini(&merged);
    return e;
}

static int keep_settings(struct order *o, struct worker *w)
{
    struct strbuf merged = {0};
    int e = merge_settings(o, w, &merged);
    if (e == 0)
        e = worker_set(o->all->workers, w, o->settings.n ? strbuf_slice(&merged) : (struct slice){"", 0},
                       o->lease_ms);
    strbuf_fini(&merged);
    return e;
}

/* ---------------------------------------------------------------- programs */

/* Tells the programs of that host that are connected here: how many, or E_LIMIT, -ENOMEM. */
static int64_t activate_programs(struct order *o, struct slice host)
{
    struct args args = args_of(&o->forward);
    struct slice list;
    int e =
        programs_set(&o->all->programs, host, args_text(args, "pattern"), args_text(args, "level"), &list);
    return e < 0 ? e : (int64_t)o->all->ops->activate(o->all->arg, host, list);
}

/* ---------------------------------------------------------------- asking */

/* It has no connection. What can be done without is done, and said. */
static void not_connected(struct order *o, struct target *t, struct worker *w)
{
    struct args_writer more = {0};
    const char *text = "no connection; try again when it is back";
    if (o->kind == ORDER_SET && !o->is_dry)
        text = keep_settings(o, w) == 0 ? "no connection; it is given them with its next lease"
                                        : "no connection, and its settings would be too many";
    if (o->kind == ORDER_ACTIVATE && !o->is_dry &&
        args_value(args_of(&o->forward), "ceiling").type == VALUE_NONE) {
        int64_t n = activate_programs(o, slice_str(w->host));
        if (n > 0) {
            args_add_uint(&more, "programs", (uint64_t)n);
            text = "no connection to its agent; programs that are connected here were told";
        }
    }
    end_target(o, t, CONTROL_FAILED, "not_connected", slice_str(text), args_of(&more));
    args_writer_fini(&more);
}

static void ask_worker(struct order *o, struct target *t, struct worker *w)
{
    struct frame_control question = {
        .request = o->number, .verb = slice_str(o->verb), .args = args_of(&o->forward)};
    t->state = TARGET_ASKED; /* before it is sent: the answer may come from inside */
    o->n_open++;
    int e = o->all->ops->send(o->all->arg, w, &question);
    if (e < 0 && t->state == TARGET_ASKED) {
        o->n_open--;
        t->state = TARGET_NEW;
        not_connected(o, t, w);
    }
}

static void ask_one(struct order *o, struct target *t)
{
    struct worker *w = workers_by_id(o->all->workers, t->worker);
    bool runs = w && (w->state == WORKER_LIVE || w->state == WORKER_LATE);
    bool is_worker_verb = o->kind == ORDER_WORKER || o->kind == ORDER_SET;
    if (!w)
        end_with(o, t, CONTROL_FAILED, "not_connected", "it was forgotten meanwhile");
    else if (!access_allows(&o->who, ACCESS_CONTROL, slice_str(w->host)))
        end_with(o, t, CONTROL_NOT_ALLOWED, "not_allowed", "");
    else if (o->kind == ORDER_SET && check_settings(o, w) < 0)
        end_with(o, t, CONTROL_FAILED, "failed", "its settings would be too many");
    else if (!runs || !w->link)
        not_connected(o, t, w);
    else if (o->is_dry && is_worker_verb)
        end_with(o, t, CONTROL_DONE, "would_ask", "");
    else
        ask_worker(o, t, w);
}

static void give_up(struct order *o, struct target *t)
{
    if (t->state == TARGET_ASKED)
        end_with(o, t, CONTROL_FAILED, "no_answer", "asked, but no answer came in time; it may still do it");
}

/* ---------------------------------------------------------------- the end */

static enum control_status verdict(const struct order *o)
{
    if (o->ends[CONTROL_DONE] == o->n)
        return CONTROL_DONE;
    if (o->ends[CONTROL_DONE] || o->ends[CONTROL_PARTLY])
        return CONTROL_PARTLY;
    for (int s = CONTROL_FAILED; s < ENDS; s++)
        if (o->ends[s] == o->n)
            return (enum control_status)s;
    return CONTROL_FAILED;
}

static void destroy(struct order *o)
{
    if (!o)
        return;
    if (o->timer)
        event_free(o->timer);
    strbuf_fini(&o->workers);
    strbuf_fini(&o->where);
    args_writer_fini(&o->forward);
    args_writer_fini(&o->settings);
    mem_free(o->targets);
    mem_free(o);
}

static void tell_done(struct order *o, enum control_status status)
{
    if (o->all->ops->on_done)
        o->all->ops->on_done(o->all->arg, &(struct control_done){.who = &o->who,
                                                                 .verb = slice_str(o->verb),
                                                                 .workers = strbuf_slice(&o->workers),
                                                                 .where = strbuf_slice(&o->where),
                                                                 .asked = (uint32_t)o->n,
                                                                 .answered = (uint32_t)o->ends[CONTROL_DONE],
                                                                 .status = (uint16_t)status});
}

/* Says to the asker that it did not get what it asked for. asked_ms 0: it did not ask. */
static void add_clamped(struct strbuf *text, const char *what, uint64_t asked_ms, uint32_t given_ms)
{
    if (asked_ms && asked_ms != given_ms)
        strbuf_printf(text, "; %s: asked for %" PRIu64 " ms, given %" PRIu32 " ms: the %s is that", what,
                      asked_ms, given_ms, asked_ms < given_ms ? "least" : "most");
}

static void finish(struct order *o)
{
    struct orders *all = o->all;
    struct order **at = &all->first;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    all->n--;

    enum control_status status = verdict(o);
    struct args_writer *row = &all->row;
    struct strbuf text = {0};
    strbuf_printf(&text, "%zu of %zu", o->ends[CONTROL_DONE], o->n);
    add_clamped(&text, "lease", o->asked_lease_ms, o->lease_ms);
    add_clamped(&text, "timeout", o->asked_timeout_ms, o->timeout_ms);
    args_writer_reset(row);
    args_add_uint(row, "asked", o->n);
    args_add_uint(row, "done", o->ends[CONTROL_DONE]);
    control_reply(o->asker, o->asked_as, status, args_of(row), strbuf_slice(&text));
    strbuf_fini(&text);
    tell_done(o, status);
    destroy(o);
}

/* Ends the order if nothing is open. It may be gone afterwards. */
static void settle(struct order *o)
{
    if (o->phase == WAITING && o->n_open == 0)
        finish(o);
}

static bool schedule(struct order *o, uint32_t ms)
{
    const struct timeval in = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    return evtimer_add(o->timer, &in) == 0;
}

/* Slices until the timer takes over; without memory for it, all at once. The order may be gone afterwards. */
static void pump(struct order *o)
{
    do {
        size_t end = o->n - o->at > SLICE_TARGETS ? o->at + SLICE_TARGETS : o->n;
        for (; o->at < end; o->at++)
            if (o->phase == ASKING)
                ask_one(o, &o->targets[o->at]);
            else
                give_up(o, &o->targets[o->at]);
        if (o->at < o->n && schedule(o, 0))
            return;
    } while (o->at < o->n);
    o->phase = WAITING;
    if (o->n_open && !schedule(o, o->timeout_ms))
        for (size_t i = 0; i < o->n; i++) /* nobody would end it */
            give_up(o, &o->targets[i]);
    settle(o);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct order *o = arg;
    (void)fd, (void)what; /* a timer's */
    if (o->phase == WAITING) {
        o->phase = ENDING;
        o->at = 0;
    }
    pump(o);
}

/* ---------------------------------------------------------------- a new order */

struct chooser {
    struct choice choice;
    const struct worker *kept_out; /* the first that was named and may not be ordered about */
    struct target *targets;
    size_t n, cap;
};

/* Those that the asker may not order about are not there: not even that there are any is told. */
static void choose(void *arg, struct worker *w)
{
    struct chooser *c = arg;
    struct slice host = slice_str(w->host);
    if (!c->kept_out && !access_view_shows(c->choice.view, host, SLICE_LIT("")) &&
        choice_matches(c->choice.patterns, host))
        c->kept_out = w;
    if (c->n < c->cap && choice_takes(&c->choice, w))
        c->targets[c->n++] = (struct target){.worker = w->id};
}

/* The workers meant, into o->targets. E_NODATA: none; E_PROTO, E_LIMIT (the predicate), -ENOMEM. */
static int choose_targets(struct order *o, struct diag *why)
{
    struct chooser c = {.cap = workers_count(o->all->workers)};
    struct access_view *view = NULL;
    int e = choice_init(&c.choice, strbuf_slice(&o->workers), strbuf_slice(&o->where), clock_utc_ns(), why);
    if (e == 0)
        e = access_view_create(&o->who, ACCESS_CONTROL, &view);
    c.choice.view = view;
    if (e == 0) {
        c.targets = mem_try_alloc((c.cap + 1) * sizeof *c.targets);
        e = c.targets ? 0 : -ENOMEM;
    }
    if (e == 0) {
        workers_each(o->all->workers, choose, &c);
        e = c.choice.failed ? c.choice.failed : c.n ? 0 : E_NODATA;
    }
    if (e == E_NODATA && c.kept_out)
        access_tell_denied(&o->who, ACCESS_CONTROL, slice_str(c.kept_out->host), SLICE_LIT(""));
    choice_fini(&c.choice);
    access_view_destroy(view);
    struct target *fitting = e == 0 ? mem_try_resize(c.targets, c.n * sizeof *fitting) : NULL;
    o->targets = fitting ? fitting : c.targets;
    o->n = c.n;
    return e;
}

/* What of the question is for the workers, and of worker.set what is kept: names that begin with "set.". */
static void split_args(struct order *o, struct args args)
{
    static const char *const gateways[] = {"workers", "where", "timeout_ms"};
    const struct slice set = SLICE_LIT("set.");
    struct arg a;
    while (args_next(&args, &a)) {
        bool is_gateways = false;
        for (size_t i = 0; i < sizeof gateways / sizeof *gateways; i++)
            is_gateways = is_gateways || slice_eq_str(a.name, gateways[i]);
        if (!is_gateways)
            args_add(&o->forward, a.name, a.value);
        if (o->kind == ORDER_SET && slice_starts(a.name, set) && a.name.n > set.n)
            args_add(&o->settings, slice_from(a.name, set.n), a.value);
    }
}

/* What is wrong with the question; NULL: nothing. */
static const char *check_question(const struct order *o)
{
    struct args args = args_of(&o->forward);
    if (o->forward.list.n > FORWARD_MAX)
        return "the question is too long: at most 32 KiB";
    if (o->kind == ORDER_SENSOR && args_text(args, "sensor").n == 0)
        return "which sensor? `sensor` is missing";
    if (o->kind == ORDER_SET && o->settings.n == 0 && o->lease_ms == 0)
        return "nothing to set: neither a setting nor a lease";
    if (o->kind != ORDER_ACTIVATE)
        return NULL;
    struct slice pattern = args_text(args, "pattern");
    if (pattern.n == 0 || pattern.n > EVENT_NAME_MAX)
        return "`pattern` of event names is missing or too long";
    if (!programs_is_level(args_text(args, "level")))
        return "`level` is neither a level's name nor off nor default";
    return NULL;
}

static bool is_true(struct value v)
{
    return (v.type == VALUE_BOOL || v.type == VALUE_UINT || v.type == VALUE_INT) && v.u != 0;
}

/* NULL: no memory. */
static struct order *make_order(struct orders *all, struct control_asker *asker,
                                const struct frame_control *q, const char *verb, enum order_kind kind)
{
    struct order *o = mem_try_alloc(sizeof *o);
    if (!o)
        return NULL;
    uint64_t timeout = args_uint(q->args, "timeout_ms", CONTROL_TIMEOUT_MS),
             lease = args_uint(q->args, "lease_ms", 0);
    o->all = all;
    o->asker = asker;
    o->who = *asker->who;
    o->verb = verb;
    o->kind = kind;
    o->asked_as = q->request;
    o->asked_timeout_ms = timeout;
    o->timeout_ms = (uint32_t)(timeout > TIMEOUT_MAX_MS ? TIMEOUT_MAX_MS : timeout ? timeout : 1);
    o->asked_lease_ms = kind == ORDER_SET ? lease : 0;
    o->lease_ms = o->asked_lease_ms ? worker_lease_ms(o->asked_lease_ms) : 0;
    o->is_dry = is_true(args_value(q->args, "dry_run"));
    strbuf_add_slice(&o->workers, args_text(q->args, "workers"));
    strbuf_add_slice(&o->where, args_text(q->args, "where"));
    split_args(o, q->args);
    o->timer = evtimer_new(all->base, on_timer, o);
    if (!o->timer || strbuf_failed(&o->workers) || strbuf_failed(&o->where) ||
        strbuf_failed(&o->forward.list) || strbuf_failed(&o->settings.list)) {
        destroy(o);
        return NULL;
    }
    return o;
}

/* The status of a question that can't be put, with why in words; CONTROL_MORE: it can, o->targets are there.
 */
static enum control_status prepare(struct order *o, struct diag *why)
{
    const char *wrong = check_question(o);
    enum control_status status = CONTROL_MORE;
    if (!access_check(&o->who, ACCESS_CONTROL, SLICE_LIT(""), SLICE_LIT(""))) {
        char who[ACCESS_NAME_MAX + 32];
        size_t n = access_print(who, sizeof who, &o->who);
        (void)diag_set(
            why, 0, 0,
            "%.*s may not give orders to workers; ask the gateway's owner, or use an operator's identity",
            (int)n, who);
        return CONTROL_NOT_ALLOWED;
    }
    if (wrong) {
        (void)diag_set(why, 0, 0, "%s", wrong);
        return CONTROL_USAGE;
    }
    switch (choose_targets(o, why)) {
    case 0:
        break;
    case E_NODATA:
        (void)diag_set(why, 0, 0, "no worker is meant by that; `gridline hosts` lists them");
        status = CONTROL_NOT_FOUND;
        break;
    case -ENOMEM:
        (void)diag_set(why, 0, 0, "the gateway is out of memory");
        status = CONTROL_FAILED;
        break;
    default: /* the predicate; why is the compiler's */
        status = CONTROL_USAGE;
    }
    return status;
}

/* ---------------------------------------------------------------- */

void orders_fini(struct orders *all)
{
    while (all->first) {
        struct order *o = all->first;
        all->first = o->next;
        destroy(o);
    }
    programs_fini(&all->programs);
    args_writer_fini(&all->row);
}

void orders_ask(struct orders *all, struct control_asker *asker, const struct frame_control *q,
                const char *verb, enum order_kind kind)
{
    struct diag why = {0};
    if (all->n == CONTROL_REQUESTS) {
        control_reply_text(asker, q->request, CONTROL_FAILED, "%d questions are open already; try again",
                           CONTROL_REQUESTS);
        return;
    }
    struct order *o = make_order(all, asker, q, verb, kind);
    if (!o) {
        control_reply_text(asker, q->request, CONTROL_FAILED, "the gateway is out of memory");
        return;
    }
    enum control_status status = prepare(o, &why);
    if (status != CONTROL_MORE) {
        o->n = 0; /* nobody was asked */
        tell_done(o, status);
        destroy(o);
        control_reply_text(asker, q->request, status, "%s", why.message);
        return;
    }
    o->number = ++all->last_number;
    o->next = all->first;
    all->first = o;
    all->n++;
    args_writer_reset(&all->row);
    args_add_uint(&all->row, "asked", o->n);
    control_reply(asker, q->request, CONTROL_MORE, args_of(&all->row), (struct slice){"", 0});
    pump(o);
}

void orders_forget(struct orders *all, const struct control_asker *asker)
{
    for (struct order *o = all->first; o; o = o->next)
        if (o->asker == asker)
            o->asker = NULL;
}

static struct target *find_target(const struct order *o, uint32_t worker)
{
    size_t low = 0, high = o->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (o->targets[mid].worker < worker)
            low = mid + 1;
        else
            high = mid;
    }
    return low < o->n && o->targets[low].worker == worker ? &o->targets[low] : NULL;
}

/* The worker did it: what the gateway does then. */
static void end_done(struct order *o, struct target *t, struct worker *w, const struct frame_answer *a)
{
    struct args_writer more = {0};
    struct args args = a->args;
    struct arg one;
    while (more.n < ARGS_MAX - 4 && args_next(&args, &one))
        args_add(&more, one.name, one.value);
    int64_t n = 0;
    if (o->kind == ORDER_SET)
        n = keep_settings(o, w);
    if (o->kind == ORDER_ACTIVATE && !o->is_dry) {
        n = activate_programs(o, slice_str(w->host));
        if (n >= 0)
            args_add_uint(&more, "programs", (uint64_t)n);
    }
    if (n < 0)
        end_target(o, t, CONTROL_FAILED, "failed",
                   SLICE_LIT("it did, but the gateway has no room to keep it"), args_of(&more));
    else
        end_target(o, t, CONTROL_DONE, "done", a->text, args_of(&more));
    args_writer_fini(&more);
}

void orders_answered(struct orders *all, struct worker *w, const struct frame_answer *a)
{
    struct order *o = all->first;
    while (o && o->number != a->request)
        o = o->next;
    struct target *t = o ? find_target(o, w->id) : NULL;
    if (!t || t->state != TARGET_ASKED)
        return; /* too late, or not asked */
    if (a->status == CONTROL_MORE && t->rows < ROWS_MAX) {
        t->rows++;
        give_row(o, t, NULL, a->text, a->args);
        return;
    }
    if (a->status == CONTROL_MORE)
        end_with(o, t, CONTROL_FAILED, "failed", "its answer has too many rows");
    else if (a->status == CONTROL_DONE)
        end_done(o, t, w, a);
    else
        end_target(o, t, a->status, word_of(a->status), a->text, a->args);
    settle(o);
}

void orders_disconnected(struct orders *all, struct worker *w)
{
    for (struct order *o = all->first, *next; o; o = next) {
        struct target *t = find_target(o, w->id);
        next = o->next; /* settle may end o */
        if (!t || t->state != TARGET_ASKED)
            continue;
        end_with(o, t, CONTROL_FAILED, "no_answer", "asked, but its connection broke; it may still do it");
        settle(o);
    }
}
