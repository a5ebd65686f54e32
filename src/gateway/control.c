/* SPDX-License-Identifier: Apache-2.0 */
/* A question to workers is a `request`: the targets it chose, each once, by id, in order. It goes through three phases:
 *
 *     ASKING    a slice of targets at a time, one slice a turn of the loop: the question is sent, or the row is given
 *               that says why not
 *     WAITING   for answers, until the deadline
 *     ENDING    slices again: those that did not answer become rows
 *
 * and ends when no target is open. Slices, because 100,000 workers may be meant: the loop goes on in between, and the
 * asker's session can send what it was given. Workers are kept by id, not by pointer: they can be forgotten meanwhile.
 *
 * Only the pump and settle end a request, so that answers and hang-ups that come from inside a send are safe.
 *
 * What `worker.set` sets is kept with the worker only after its agent has agreed (or when it has no connection to
 * agree by): a lease never carries what the agent refused. The same holds for `activate`: the agent, which knows what
 * it costs, speaks first, then the programs of that host that are connected here get the list. That list replaces the
 * one before (docs/protocol.md, ACTIVATE), so it is kept by host. */
#include "gateway/control.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/level.h"
#include "gateway/control_rows.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

enum {
    SLICE_TARGETS = 128,     /* a turn of the loop */
    ROWS_MAX = 4096,         /* of one worker's answer */
    FORWARD_MAX = 32 << 10,  /* bytes of a question that workers get */
    TIMEOUT_MAX_MS = 600000,
    ACTIVATIONS_MAX = 64,    /* patterns of a host */
    LEVEL_OFF = -1
};

/* ---------------------------------------------------------------- verbs */

enum verb_kind { VERB_HOSTS, VERB_LEDGER, VERB_STATUS, VERB_WORKER, VERB_SET, VERB_SENSOR, VERB_LIST, VERB_ACTIVATE };

struct control_verb {
    const char *name;
    enum verb_kind kind;
};

static const struct control_verb verbs[] = {
    {"hosts", VERB_HOSTS},           {"ledger", VERB_LEDGER},         {"status", VERB_STATUS},
    {"worker.suspend", VERB_WORKER}, {"worker.resume", VERB_WORKER},  {"worker.kill", VERB_WORKER},
    {"worker.set", VERB_SET},        {"sensor.start", VERB_SENSOR},   {"sensor.stop", VERB_SENSOR},
    {"sensor.set", VERB_SENSOR},     {"sensor.list", VERB_LIST},      {"activate", VERB_ACTIVATE},
};

static const struct control_verb *find_verb(struct slice name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (slice_eq_str(name, verbs[i].name))
            return &verbs[i];
    return NULL;
}

/* ---------------------------------------------------------------- requests */

enum phase { ASKING, WAITING, ENDING };
enum target_state { TARGET_NEW, TARGET_ASKED, TARGET_ENDED };

struct target {
    uint32_t worker;
    uint8_t state; /* enum target_state */
    uint16_t rows; /* given so far */
};

/* Targets by how they ended; a worker's own statuses, others count as failed. */
enum { ENDS = CONTROL_NOT_ALLOWED + 1 };

struct request {
    struct request *next;
    struct control *control;
    struct control_asker *asker; /* NULL: gone */
    struct access_identity who;
    const struct control_verb *verb;
    uint64_t number;                       /* ours: what the workers answer to */
    uint64_t asked_as;                     /* the asker's */
    struct strbuf workers, where;          /* as they were given, for the audit */
    struct args_writer forward;            /* what the workers get */
    struct args_writer settings;           /* worker.set: the part of it that is kept */
    uint32_t lease_ms;
    bool is_dry;
    struct target *targets; /* by id */
    size_t n, at;           /* at: of the pump */
    size_t n_open;          /* asked, not ended */
    size_t ends[ENDS];
    enum phase phase;
    uint32_t timeout_ms;
    struct event *timer; /* the next slice, or the deadline */
};

/* What is on in the programs of a host: an ACTIVATE list. */
struct activations {
    struct strbuf list;
    size_t n;
    char host[]; /* the map's key */
};

struct control {
    struct event_base *base;
    struct workers *workers;
    struct ledger *ledger;
    const struct control_ops *ops;
    void *arg;
    struct request *requests;
    size_t n_requests;
    uint64_t next_number;
    struct control_asker *replying; /* who gets rows right now; NULL again if it leaves meanwhile */
    struct map activations;         /* host -> struct activations */
    struct args_writer row;         /* scratch */
};

static void answer(struct control_asker *to, uint64_t request, enum control_status status, struct args args,
                   struct slice text)
{
    if (to)
        to->answer(to, &(struct frame_answer){
                           .request = request, .status = (uint16_t)status, .text = text, .args = args});
}

static void answer_text(struct control_asker *to, uint64_t request, enum control_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void answer_text(struct control_asker *to, uint64_t request, enum control_status status, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    answer(to, request, status, (struct args){0}, slice_of(text, length));
}

/* ---------------------------------------------------------------- what is on in programs */

static void free_activations(struct activations *a)
{
    strbuf_fini(&a->list);
    mem_free(a);
}

static struct activations *activations_of(struct control *c, struct slice host)
{
    struct activations *a = map_get(&c->activations, host);
    if (a)
        return a;
    a = mem_try_alloc(sizeof *a + host.n + 1);
    if (!a)
        return NULL;
    memcpy(a->host, host.p, host.n);
    if (map_put(&c->activations, slice_of(a->host, host.n), a) < 0) {
        mem_free(a);
        return NULL;
    }
    return a;
}

/* The list with pattern at its end with this level, or (is_default) without it. E_LIMIT, -ENOMEM: as it was. */
static int change_activation(struct activations *a, struct slice pattern, int8_t level, bool is_default)
{
    struct strbuf list = {0};
    struct slice rest = strbuf_slice(&a->list);
    struct frame_activation one;
    size_t n = 0;
    while (frame_next_activation(&rest, &one) > 0) {
        if (slice_eq(one.pattern, pattern))
            continue;
        strbuf_add_text(&list, one.pattern);
        strbuf_add_char(&list, (char)one.level);
        n++;
    }
    if (!is_default) {
        strbuf_add_text(&list, pattern);
        strbuf_add_char(&list, (char)level);
        n++;
    }
    int r = n > ACTIVATIONS_MAX ? E_LIMIT : strbuf_failed(&list) ? -ENOMEM : 0;
    if (r < 0) {
        strbuf_fini(&list);
        return r;
    }
    strbuf_fini(&a->list);
    a->list = list;
    a->n = n;
    return 0;
}

/* A level's name, "off", or "default": as if nobody had asked. */
static int parse_level(struct slice word, int8_t *level, bool *is_default)
{
    uint8_t named = 0;
    *is_default = slice_eq_str(word, "default");
    *level = LEVEL_OFF;
    if (*is_default || slice_eq_str(word, "off"))
        return 0;
    int r = level_parse(word, &named);
    *level = (int8_t)named;
    return r;
}

/* Tells the programs of that host: how many, or E_LIMIT, -ENOMEM. */
static int64_t activate_programs(struct request *r, struct slice host)
{
    struct args args = args_of(&r->forward);
    struct activations *a = activations_of(r->control, host);
    int8_t level;
    bool is_default;
    if (!a)
        return -ENOMEM;
    (void)parse_level(args_text(args, "level"), &level, &is_default); /* checked when it was asked */
    int e = change_activation(a, args_text(args, "pattern"), level, is_default);
    if (e < 0)
        return e;
    return (int64_t)r->control->ops->activate(r->control->arg, host, strbuf_slice(&a->list));
}

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

/* A row of what a worker says (more), or of what is said about it. word NULL: it is not the last of that worker. */
static void give_row(struct request *r, const struct target *t, const char *word, struct slice text, struct args more)
{
    struct args_writer *row = &r->control->row;
    const struct worker *w = workers_by_id(r->control->workers, t->worker);
    struct arg a;
    if (!r->asker)
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
    answer(r->asker, r->asked_as, CONTROL_MORE, args_of(row), text);
}

static void end_target(struct request *r, struct target *t, uint16_t status, const char *word, struct slice text,
                       struct args more)
{
    if (t->state == TARGET_ASKED)
        r->n_open--;
    t->state = TARGET_ENDED;
    r->ends[status < ENDS ? status : CONTROL_FAILED]++;
    give_row(r, t, word, text, more);
}

static void end_with(struct request *r, struct target *t, enum control_status status, const char *word, const char *text)
{
    end_target(r, t, status, word, slice_str(text), (struct args){0});
}

/* ---------------------------------------------------------------- settings that are kept */

static bool is_set(const struct args_writer *list, struct slice name)
{
    struct args args = args_of(list);
    struct arg a;
    while (args_next(&args, &a))
        if (slice_eq(a.name, name))
            return true;
    return false;
}

/* What the worker would be assigned: what it has, with what is set in its place; an empty text takes one out. */
static int merge_settings(const struct request *r, const struct worker *w, struct strbuf *out)
{
    struct args_writer merged = {0};
    struct args old = choice_list(w->settings, w->settings_n), new = args_of(&r->settings);
    struct arg a;
    while (args_next(&old, &a))
        if (!is_set(&r->settings, a.name))
            args_add(&merged, a.name, a.value);
    while (args_next(&new, &a))
        if (!(value_is_text(a.value.type) && a.value.n == 0))
            args_add(&merged, a.name, a.value);
    bool failed = strbuf_failed(&merged.list);
    args_put(out, args_of(&merged));
    int e = failed || strbuf_failed(out)                               ? -ENOMEM
            : merged.n > ARGS_MAX || out->n > WORKER_SETTINGS_MAX ? E_LIMIT
                                                                       : 0;
    args_writer_fini(&merged);
    return e;
}

static int check_settings(const struct request *r, const struct worker *w)
{
    struct strbuf merged = {0};
    int e = merge_settings(r, w, &merged);
    strbuf_fini(&merged);
    return e;
}

static int keep_settings(struct request *r, struct worker *w)
{
    struct strbuf merged = {0};
    int e = merge_settings(r, w, &merged);
    if (e == 0)
        e = worker_set(r->control->workers, w, r->settings.n ? strbuf_slice(&merged) : (struct slice){"", 0},
                       r->lease_ms);
    strbuf_fini(&merged);
    return e;
}

/* ---------------------------------------------------------------- asking */

/* It has no connection. What can be done without is done, and said. */
static void not_connected(struct request *r, struct target *t, struct worker *w)
{
    struct args_writer more = {0};
    const char *text = "no connection; try again when it is back";
    if (r->verb->kind == VERB_SET && !r->is_dry)
        text = keep_settings(r, w) == 0 ? "no connection; it is given them with its next lease"
                                        : "no connection, and its settings would be too many";
    if (r->verb->kind == VERB_ACTIVATE && !r->is_dry && args_value(args_of(&r->forward), "ceiling").type == VALUE_NONE) {
        int64_t n = activate_programs(r, slice_str(w->host));
        if (n > 0) {
            args_add_uint(&more, "programs", (uint64_t)n);
            text = "no connection to its agent; programs that are connected here were told";
        }
    }
    end_target(r, t, CONTROL_FAILED, "not_connected", slice_str(text), args_of(&more));
    args_writer_fini(&more);
}

static void ask_worker(struct request *r, struct target *t, struct worker *w)
{
    struct frame_control question = {
        .request = r->number, .verb = slice_str(r->verb->name), .args = args_of(&r->forward)};
    t->state = TARGET_ASKED; /* before it is sent: the answer may come from inside */
    r->n_open++;
    int e = r->control->ops->send(r->control->arg, w, &question);
    if (e < 0 && t->state == TARGET_ASKED) {
        r->n_open--;
        t->state = TARGET_NEW;
        not_connected(r, t, w);
    }
}

static void ask_one(struct request *r, struct target *t)
{
    struct worker *w = workers_by_id(r->control->workers, t->worker);
    bool runs = w && (w->state == WORKER_LIVE || w->state == WORKER_LATE);
    bool is_worker_verb = r->verb->kind == VERB_WORKER || r->verb->kind == VERB_SET;
    if (!w)
        end_with(r, t, CONTROL_FAILED, "not_connected", "it was forgotten meanwhile");
    else if (!access_allows(&r->who, ACCESS_CONTROL, slice_str(w->host)))
        end_with(r, t, CONTROL_NOT_ALLOWED, "not_allowed", "");
    else if (r->verb->kind == VERB_SET && check_settings(r, w) < 0)
        end_with(r, t, CONTROL_FAILED, "failed", "its settings would be too many");
    else if (!runs || !w->link)
        not_connected(r, t, w);
    else if (r->is_dry && is_worker_verb)
        end_with(r, t, CONTROL_DONE, "would_ask", "");
    else
        ask_worker(r, t, w);
}

static void give_up(struct request *r, struct target *t)
{
    if (t->state == TARGET_ASKED)
        end_with(r, t, CONTROL_FAILED, "no_answer", "asked, but no answer came in time; it may still do it");
}

/* ---------------------------------------------------------------- the end of a request */

static enum control_status verdict(const struct request *r)
{
    if (r->ends[CONTROL_DONE] == r->n)
        return CONTROL_DONE;
    if (r->ends[CONTROL_DONE] || r->ends[CONTROL_PARTLY])
        return CONTROL_PARTLY;
    for (int s = CONTROL_FAILED; s < ENDS; s++)
        if (r->ends[s] == r->n)
            return (enum control_status)s;
    return CONTROL_FAILED;
}

static void destroy_request(struct request *r)
{
    if (!r)
        return;
    if (r->timer)
        event_free(r->timer);
    strbuf_fini(&r->workers);
    strbuf_fini(&r->where);
    args_writer_fini(&r->forward);
    args_writer_fini(&r->settings);
    mem_free(r->targets);
    mem_free(r);
}

static void tell_done(struct request *r, enum control_status status)
{
    if (r->control->ops->on_done)
        r->control->ops->on_done(r->control->arg, &(struct control_done){
                                                      .who = &r->who,
                                                      .verb = slice_str(r->verb->name),
                                                      .workers = strbuf_slice(&r->workers),
                                                      .where = strbuf_slice(&r->where),
                                                      .asked = (uint32_t)r->n,
                                                      .answered = (uint32_t)r->ends[CONTROL_DONE],
                                                      .status = (uint16_t)status,
                                                  });
}

static void finish(struct request *r)
{
    struct control *c = r->control;
    struct request **at = &c->requests;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    c->n_requests--;

    enum control_status status = verdict(r);
    struct args_writer *row = &c->row;
    char text[80];
    int n = snprintf(text, sizeof text, "%zu of %zu", r->ends[CONTROL_DONE], r->n);
    args_writer_reset(row);
    args_add_uint(row, "asked", r->n);
    args_add_uint(row, "done", r->ends[CONTROL_DONE]);
    answer(r->asker, r->asked_as, status, args_of(row), slice_of(text, n > 0 ? (size_t)n : 0));
    tell_done(r, status);
    destroy_request(r);
}

/* Ends the request if nothing is open. It may be gone afterwards. */
static void settle(struct request *r)
{
    if (r->phase == WAITING && r->n_open == 0)
        finish(r);
}

static void schedule(struct request *r, uint32_t ms)
{
    const struct timeval in = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    (void)evtimer_add(r->timer, &in); /* fails only without memory for the heap, which the timer's first add took */
}

/* One slice. The request may be gone afterwards. */
static void pump(struct request *r)
{
    size_t end = r->n - r->at > SLICE_TARGETS ? r->at + SLICE_TARGETS : r->n;
    for (; r->at < end; r->at++)
        if (r->phase == ASKING)
            ask_one(r, &r->targets[r->at]);
        else
            give_up(r, &r->targets[r->at]);
    if (r->at < r->n) {
        schedule(r, 0);
        return;
    }
    r->phase = WAITING;
    schedule(r, r->timeout_ms);
    settle(r);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct request *r = arg;
    (void)fd, (void)what; /* a timer's */
    if (r->phase == WAITING) {
        r->phase = ENDING;
        r->at = 0;
    }
    pump(r);
}

/* ---------------------------------------------------------------- a new request */

struct chooser {
    struct choice choice;
    struct target *targets;
    size_t n, cap;
};

static void choose(void *arg, struct worker *w)
{
    struct chooser *c = arg;
    if (c->n < c->cap && choice_takes(&c->choice, w))
        c->targets[c->n++] = (struct target){.worker = w->id};
}

/* The workers meant, into r->targets. E_NODATA: none; E_PROTO, E_LIMIT (the predicate), -ENOMEM. */
static int choose_targets(struct request *r, struct diag *why)
{
    struct chooser c = {.cap = workers_count(r->control->workers)};
    int e = choice_init(&c.choice, strbuf_slice(&r->workers), strbuf_slice(&r->where), clock_utc_ns(), why);
    if (e == 0) {
        c.targets = mem_try_alloc((c.cap + 1) * sizeof *c.targets);
        e = c.targets ? 0 : -ENOMEM;
    }
    if (e == 0) {
        workers_each(r->control->workers, choose, &c);
        e = c.choice.failed ? c.choice.failed : c.n ? 0 : E_NODATA;
    }
    choice_fini(&c.choice);
    struct target *fitting = e == 0 ? mem_try_resize(c.targets, c.n * sizeof *fitting) : NULL;
    r->targets = fitting ? fitting : c.targets;
    r->n = c.n;
    return e;
}

/* What of the question is for the workers, and of worker.set what is kept: names that begin with "set.". */
static void split_args(struct request *r, struct args args)
{
    static const char *const gateways[] = {"workers", "where", "timeout_ms"};
    const struct slice set = SLICE_LIT("set.");
    struct arg a;
    while (args_next(&args, &a)) {
        bool is_gateways = false;
        for (size_t i = 0; i < sizeof gateways / sizeof *gateways; i++)
            is_gateways = is_gateways || slice_eq_str(a.name, gateways[i]);
        if (!is_gateways)
            args_add(&r->forward, a.name, a.value);
        if (r->verb->kind == VERB_SET && slice_starts(a.name, set) && a.name.n > set.n)
            args_add(&r->settings, slice_from(a.name, set.n), a.value);
    }
}

/* What is wrong with the question; NULL: nothing. */
static const char *check_question(const struct request *r)
{
    struct args args = args_of(&r->forward);
    int8_t level;
    bool is_default;
    if (r->forward.list.n > FORWARD_MAX)
        return "the question is too long: at most 32 KiB";
    if (r->verb->kind == VERB_SENSOR && args_text(args, "sensor").n == 0)
        return "which sensor? `sensor` is missing";
    if (r->verb->kind == VERB_SET && r->settings.n == 0 && r->lease_ms == 0)
        return "nothing to set: neither a setting nor a lease";
    if (r->verb->kind != VERB_ACTIVATE)
        return NULL;
    struct slice pattern = args_text(args, "pattern");
    if (pattern.n == 0 || pattern.n > EVENT_NAME_MAX)
        return "`pattern` of event names is missing or too long";
    if (parse_level(args_text(args, "level"), &level, &is_default) < 0)
        return "`level` is neither a level's name nor off nor default";
    return NULL;
}

static bool is_true(struct value v)
{
    return (v.type == VALUE_BOOL || v.type == VALUE_UINT || v.type == VALUE_INT) && v.u != 0;
}

/* NULL: no memory. */
static struct request *make_request(struct control *c, struct control_asker *asker, const struct frame_control *q,
                                    const struct control_verb *verb)
{
    struct request *r = mem_try_alloc(sizeof *r);
    if (!r)
        return NULL;
    uint64_t timeout = args_uint(q->args, "timeout_ms", CONTROL_TIMEOUT_MS), lease = args_uint(q->args, "lease_ms", 0);
    r->control = c;
    r->asker = asker;
    r->who = *asker->who;
    r->verb = verb;
    r->asked_as = q->request;
    r->timeout_ms = (uint32_t)(timeout > TIMEOUT_MAX_MS ? TIMEOUT_MAX_MS : timeout ? timeout : 1);
    r->lease_ms = (uint32_t)(verb->kind != VERB_SET ? 0 : lease > UINT32_MAX ? UINT32_MAX : lease);
    r->is_dry = is_true(args_value(q->args, "dry_run"));
    strbuf_add_slice(&r->workers, args_text(q->args, "workers"));
    strbuf_add_slice(&r->where, args_text(q->args, "where"));
    split_args(r, q->args);
    r->timer = evtimer_new(c->base, on_timer, r);
    if (!r->timer || strbuf_failed(&r->workers) || strbuf_failed(&r->where) || strbuf_failed(&r->forward.list) ||
        strbuf_failed(&r->settings.list)) {
        destroy_request(r);
        return NULL;
    }
    return r;
}

/* The status of a question that can't be put, with why in words; CONTROL_MORE: it can, r->targets are there. */
static enum control_status prepare(struct request *r, struct diag *why)
{
    const char *wrong = check_question(r);
    enum control_status status = CONTROL_MORE;
    if (!access_allows(&r->who, ACCESS_CONTROL, SLICE_LIT(""))) {
        char who[ACCESS_NAME_MAX + 32];
        size_t n = access_print(who, sizeof who, &r->who);
        (void)diag_set(why, 0, 0, "%.*s may not give orders to workers; ask the gateway's owner, or use an operator's identity",
                       (int)n, who);
        return CONTROL_NOT_ALLOWED;
    }
    if (wrong) {
        (void)diag_set(why, 0, 0, "%s", wrong);
        return CONTROL_USAGE;
    }
    switch (choose_targets(r, why)) {
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

static void ask_workers(struct control *c, struct control_asker *asker, const struct frame_control *q,
                        const struct control_verb *verb)
{
    struct diag why = {0};
    if (c->n_requests == CONTROL_REQUESTS) {
        answer_text(asker, q->request, CONTROL_FAILED, "%d questions are open already; try again", CONTROL_REQUESTS);
        return;
    }
    struct request *r = make_request(c, asker, q, verb);
    if (!r) {
        answer_text(asker, q->request, CONTROL_FAILED, "the gateway is out of memory");
        return;
    }
    enum control_status status = prepare(r, &why);
    if (status != CONTROL_MORE) {
        r->n = 0; /* nobody was asked */
        tell_done(r, status);
        destroy_request(r);
        answer_text(asker, q->request, status, "%s", why.message);
        return;
    }
    r->number = ++c->next_number;
    r->next = c->requests;
    c->requests = r;
    c->n_requests++;
    args_writer_reset(&c->row);
    args_add_uint(&c->row, "asked", r->n);
    answer(asker, q->request, CONTROL_MORE, args_of(&c->row), (struct slice){"", 0});
    pump(r);
}

/* ---------------------------------------------------------------- what the gateway knows */

struct reply {
    struct control *control;
    uint64_t request;
};

static bool give_known(void *arg, struct args row)
{
    const struct reply *p = arg;
    answer(p->control->replying, p->request, CONTROL_MORE, row, (struct slice){"", 0});
    return p->control->replying != NULL;
}

/* The last answer of a page: how many rows, and where the next page begins if there is one. */
static void end_page(struct control *c, uint64_t request, const struct rows_end *end, bool is_ledger)
{
    struct args_writer *last = &c->row;
    args_writer_reset(last);
    args_add_uint(last, "rows", end->rows);
    if (end->has_more && is_ledger)
        args_add(last, SLICE_LIT("after"), value_bytes(slice_of((const char *)&end->account, sizeof end->account)));
    else if (end->has_more)
        args_add_uint(last, "after", end->worker);
    answer(c->replying, request, CONTROL_DONE, args_of(last), (struct slice){"", 0});
}

static void reply_hosts(struct control *c, const struct frame_control *q)
{
    struct choice choice;
    struct diag why = {0};
    struct rows_end end = {0};
    struct reply reply = {c, q->request};
    const struct rows_out out = {&reply, give_known};
    uint64_t after = args_uint(q->args, "after", 0);
    int r = choice_init(&choice, args_text(q->args, "workers"), args_text(q->args, "where"), clock_utc_ns(), &why);
    bool is_all = choice_is_all(&choice);
    if (r == E_PROTO || r == E_LIMIT) {
        choice_fini(&choice);
        answer_text(c->replying, q->request, CONTROL_USAGE, "%s", why.message);
        return;
    }
    if (r == 0)
        r = rows_of_workers(c->workers, &choice, after > UINT32_MAX ? UINT32_MAX : (uint32_t)after, clock_boot_ns(),
                            &out, &end);
    if (r == 0)
        r = choice.failed;
    choice_fini(&choice);
    if (r < 0)
        answer_text(c->replying, q->request, CONTROL_FAILED, "the gateway is out of memory");
    else if (end.rows == 0 && after == 0 && !is_all)
        answer_text(c->replying, q->request, CONTROL_NOT_FOUND,
                    "no worker is meant by that; `gridline hosts` without a pattern lists all");
    else
        end_page(c, q->request, &end, false);
}

static void reply_ledger(struct control *c, const struct frame_control *q)
{
    struct rows_end end = {0};
    struct reply reply = {c, q->request};
    const struct rows_out out = {&reply, give_known};
    struct frame_origin after;
    struct value v = args_value(q->args, "after");
    struct slice patterns = args_text(q->args, "workers");
    bool has_after = v.type == VALUE_BYTES && v.n == sizeof after;
    if (has_after)
        memcpy(&after, v.p, sizeof after);
    if (rows_of_accounts(c->ledger, c->workers, patterns, has_after ? &after : NULL, &out, &end) < 0)
        answer_text(c->replying, q->request, CONTROL_FAILED, "the gateway is out of memory");
    else if (end.rows == 0 && !has_after && patterns.n)
        answer_text(c->replying, q->request, CONTROL_NOT_FOUND,
                    "no account is of such a worker; `gridline ledger` without a pattern lists all");
    else
        end_page(c, q->request, &end, true);
}

static void reply_status(struct control *c, const struct frame_control *q)
{
    struct args_writer numbers = {0};
    args_add_uint(&numbers, "workers", workers_count(c->workers));
    args_add_uint(&numbers, "accounts", c->ledger->accounts.n);
    args_add_uint(&numbers, "accounts_forgotten", c->ledger->forgotten);
    args_add_uint(&numbers, "requests", c->n_requests);
    if (c->ops->status)
        c->ops->status(c->arg, &numbers);
    answer(c->replying, q->request, CONTROL_DONE, args_of(&numbers), (struct slice){"", 0});
    args_writer_fini(&numbers);
}

static void reply_known(struct control *c, struct control_asker *asker, const struct frame_control *q,
                        enum verb_kind kind)
{
    if (!access_allows(asker->who, ACCESS_DIRECTORY, (struct slice){"", 0})) {
        answer_text(asker, q->request, CONTROL_NOT_ALLOWED, "you may not see workers and ledger here");
        return;
    }
    c->replying = asker;
    if (kind == VERB_HOSTS)
        reply_hosts(c, q);
    else if (kind == VERB_LEDGER)
        reply_ledger(c, q);
    else
        reply_status(c, q);
    c->replying = NULL;
}

/* ---------------------------------------------------------------- */

struct control *control_create(struct event_base *base, struct workers *workers, struct ledger *ledger,
                               const struct control_ops *ops, void *arg)
{
    struct control *c = mem_try_alloc(sizeof *c);
    if (!c)
        return NULL;
    c->base = base;
    c->workers = workers;
    c->ledger = ledger;
    c->ops = ops;
    c->arg = arg;
    return c;
}

void control_destroy(struct control *c)
{
    void *v;
    if (!c)
        return;
    while (c->requests) {
        struct request *r = c->requests;
        c->requests = r->next;
        destroy_request(r);
    }
    for (size_t i = 0; map_next(&c->activations, &i, &v);)
        free_activations(v);
    map_fini(&c->activations);
    args_writer_fini(&c->row);
    mem_free(c);
}

void control_ask(struct control *c, struct control_asker *asker, const struct frame_control *question)
{
    const struct control_verb *verb = find_verb(question->verb);
    if (!verb)
        answer_text(asker, question->request, CONTROL_USAGE, "this gateway does not know '%.*s'",
                    (int)(question->verb.n > 60 ? 60 : question->verb.n), question->verb.p);
    else if (verb->kind <= VERB_STATUS)
        reply_known(c, asker, question, verb->kind);
    else
        ask_workers(c, asker, question, verb);
}

void control_forget(struct control *c, const struct control_asker *asker)
{
    for (struct request *r = c->requests; r; r = r->next)
        if (r->asker == asker)
            r->asker = NULL;
    if (c->replying == asker)
        c->replying = NULL;
}

static struct target *find_target(const struct request *r, uint32_t worker)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->targets[mid].worker < worker)
            low = mid + 1;
        else
            high = mid;
    }
    return low < r->n && r->targets[low].worker == worker ? &r->targets[low] : NULL;
}

/* The worker did it: what the gateway does then. */
static void end_done(struct request *r, struct target *t, struct worker *w, const struct frame_answer *a)
{
    struct args_writer more = {0};
    struct args args = a->args;
    struct arg one;
    while (more.n < ARGS_MAX - 4 && args_next(&args, &one))
        args_add(&more, one.name, one.value);
    int64_t n = 0;
    if (r->verb->kind == VERB_SET)
        n = keep_settings(r, w);
    if (r->verb->kind == VERB_ACTIVATE && !r->is_dry) {
        n = activate_programs(r, slice_str(w->host));
        if (n >= 0)
            args_add_uint(&more, "programs_here", (uint64_t)n);
    }
    if (n < 0)
        end_target(r, t, CONTROL_FAILED, "failed", SLICE_LIT("it did, but the gateway has no room to keep it"),
                   args_of(&more));
    else
        end_target(r, t, CONTROL_DONE, "done", a->text, args_of(&more));
    args_writer_fini(&more);
}

void control_answered(struct control *c, struct worker *w, const struct frame_answer *a)
{
    struct request *r = c->requests;
    while (r && r->number != a->request)
        r = r->next;
    struct target *t = r ? find_target(r, w->id) : NULL;
    if (!t || t->state != TARGET_ASKED)
        return; /* too late, or not asked */
    if (a->status == CONTROL_MORE && t->rows < ROWS_MAX) {
        t->rows++;
        give_row(r, t, NULL, a->text, a->args);
        return;
    }
    if (a->status == CONTROL_MORE)
        end_with(r, t, CONTROL_FAILED, "failed", "its answer has too many rows");
    else if (a->status == CONTROL_DONE)
        end_done(r, t, w, a);
    else
        end_target(r, t, a->status, word_of(a->status), a->text, a->args);
    settle(r);
}

void control_disconnected(struct control *c, struct worker *w)
{
    for (struct request *r = c->requests, *next; r; r = next) {
        struct target *t = find_target(r, w->id);
        next = r->next; /* settle may end r */
        if (!t || t->state != TARGET_ASKED)
            continue;
        end_with(r, t, CONTROL_FAILED, "no_answer", "asked, but its connection broke; it may still do it");
        settle(r);
    }
}
