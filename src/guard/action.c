/* SPDX-License-Identifier: Apache-2.0 */
/* Orders in queues, one queue for each action.
 *
 * Records (state.h, kind STATE_ACTION) by their ids:
 *     0                     varint: from here on order numbers were never given. Put once for many of them.
 *     1 .. 2^63-1           an order, by its number (action_order.h)
 *     2^63 + hash of name   what limits an action (action_limit.h)
 *
 * The life of an order, and what kill -9 leaves of it:
 *
 *     give ──put, commit──► waiting ──put, commit──► started ──► runs ──► put or drop, commit
 *                              ▲                                    │ failed, attempts left
 *                              └────────────────────────────────────┘
 *
 * `started` is committed before anything runs, so what is found as waiting has not run since. What is found
 * as started may have run, to any point: it goes back to waiting if its action may be repeated and attempts
 * are left (the one that was cut off has been counted), else it ends as unknown, which is told at the first
 * turn. An order is dropped only when its end is known and told.
 *
 * A commit that fails starts nothing: orders go back to waiting, and are tried again a second later. */
#include "guard/action.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"
#include "guard/action_limit.h"
#include "guard/action_order.h"
#include "guard/runner.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    STARTS_A_TURN = 64,
    NUMBERS_AT_ONCE = 1024,
    BYTES_MAX = 64 << 20, /* of all orders */
    TEXT_MAX = 1000,      /* of a reply in the audit */
    AUDIT_DATA = 10
};
#define HOLD_NS      NS_PER_S
#define LIMIT_RECORD (UINT64_C(1) << 63)

struct action {
    struct actions *all;
    const struct action_config *config;
    struct action_limit limit;
    struct order *waiting; /* by number */
    struct order *running;
    struct action_counts counts;
    uint64_t untold;   /* left out since the last turn */
    bool is_limit_new; /* its record is to be put */
};

/* An order that ends without having run: found after a crash, or of an action that is gone. */
struct settled {
    struct settled *next;
    struct order *order;
    struct action *action;     /* NULL: there is none of that name any more */
    struct action_config gone; /* then */
    char name[];
};

struct actions {
    struct actions_options o;
    struct action *v; /* as in the configuration */
    struct settled *settled;
    uint64_t next_number, numbers_end; /* below the latter they may be given without being put down */
    size_t bytes;
    int64_t held_ns; /* nothing starts before: a commit has failed */
    uint64_t chance; /* seed of pauses */
    struct strbuf scratch;
};

const char *action_result_name(enum action_result r)
{
    static const char *const names[] = {"done", "failed", "unknown", "left_out"};
    return names[r];
}

/* ---------------------------------------------------------------- records */

static int put_order(struct actions *a, const struct action *action, const struct order *o)
{
    strbuf_reset(&a->scratch);
    order_pack(o, action->config->name, &a->scratch);
    return strbuf_failed(&a->scratch) ? -ENOMEM
                                      : state_put(a->o.state, STATE_ACTION, o->id, strbuf_slice(&a->scratch));
}

static uint64_t limit_record(const char *name)
{
    return LIMIT_RECORD | hash_bytes(slice_str(name)) >> 1;
}

static int put_limit(struct actions *a, struct action *action)
{
    strbuf_reset(&a->scratch);
    action_limit_pack(&action->limit, &a->scratch);
    int r = strbuf_failed(&a->scratch)
                ? -ENOMEM
                : state_put(a->o.state, STATE_ACTION, limit_record(action->config->name),
                            strbuf_slice(&a->scratch));
    action->is_limit_new = r < 0;
    return r;
}

static int take_number(struct actions *a, uint64_t *out)
{
    if (a->next_number == a->numbers_end) {
        strbuf_reset(&a->scratch);
        strbuf_add_varint(&a->scratch, a->numbers_end + NUMBERS_AT_ONCE);
        int r = strbuf_failed(&a->scratch)
                    ? -ENOMEM
                    : state_put(a->o.state, STATE_ACTION, 0, strbuf_slice(&a->scratch));
        if (r < 0)
            return r;
        a->numbers_end += NUMBERS_AT_ONCE;
    }
    *out = a->next_number++;
    return 0;
}

/* Killed between the two, an attempt counts that the audit does not know and that has not run. */
static int commit_starts(struct actions *a)
{
    int r = state_commit(a->o.state);
    return r < 0 ? r : audit_commit(a->o.audit);
}

/* Killed between the two, the audit knows the end of an attempt that is taken for one without: no end is ever
 * missing there. */
static int commit_ends(struct actions *a)
{
    int r = audit_commit(a->o.audit);
    return r < 0 ? r : state_commit(a->o.state);
}

/* ---------------------------------------------------------------- the audit */

struct audit_data {
    struct act_datum v[AUDIT_DATA];
    size_t n;
    char numbers[AUDIT_DATA][24], fault[17];
};

static void add_text(struct audit_data *d, const char *name, struct slice value)
{
    assert(d->n < AUDIT_DATA);
    if (value.n > TEXT_MAX)
        value.n = TEXT_MAX;
    d->v[d->n++] = (struct act_datum){slice_str(name), value};
}

static void add_number(struct audit_data *d, const char *name, int64_t v)
{
    char *to = d->numbers[d->n];
    (void)snprintf(to, sizeof d->numbers[0], "%" PRId64, v); /* 20 digits fit */
    add_text(d, name, slice_str(to));
}

static void add_order(struct audit_data *d, const struct action_config *c, const struct order *o,
                      uint32_t attempt)
{
    add_text(d, "action", slice_str(c->name));
    add_number(d, "order", (int64_t)o->id);
    add_number(d, "attempt", attempt);
    fault_id_print(o->fault, d->fault);
    add_text(d, "fault", slice_str(d->fault));
}

static int audit_start(struct actions *a, const struct action *action, const struct order *o)
{
    struct audit_data d = {.n = 0};
    add_order(&d, action->config, o, o->attempts);
    add_text(&d, "actuator", slice_str(action->config->actuator));
    add_text(&d, "kind", slice_str(notice_name(o->kind)));
    add_text(&d, "rule", order_rule(o));
    add_number(&d, "faults", o->faults);
    add_text(&d, "summary", order_summary(o));
    return audit_add(a->o.audit, o->started_ns, "action.start", d.v, d.n);
}

/* The start was written before it was known that it can't be kept: the attempt after those that count. */
static int audit_not_started(struct actions *a, const struct action *action, const struct order *o)
{
    struct audit_data d = {.n = 0};
    add_order(&d, action->config, o, o->attempts + 1);
    return audit_add(a->o.audit, clock_utc_ns(), "action.not_started", d.v, d.n);
}

static int audit_end(struct actions *a, const struct action_end *e, const struct order *o)
{
    struct audit_data d = {.n = 0};
    add_order(&d, e->action, o, o->attempts);
    add_text(&d, "result", slice_str(action_result_name(e->result)));
    add_text(&d, "last", slice_str(e->is_last ? "yes" : "no"));
    add_number(&d, "code", e->code);
    add_number(&d, "exit_code", e->exit_code);
    add_number(&d, "ran_ms", e->ran_ns / 1000000);
    add_text(&d, "text", e->text);
    return audit_add(a->o.audit, clock_utc_ns(), "action.end", d.v, d.n);
}

/* ---------------------------------------------------------------- queues */

/* By number: those that failed before those that came later. */
static void insert(struct order **list, struct order *o)
{
    while (*list && (*list)->id < o->id)
        list = &(*list)->next;
    o->next = *list;
    *list = o;
}

static void take_out(struct order **list, struct order *o)
{
    while (*list != o)
        list = &(*list)->next;
    *list = o->next;
    o->next = NULL;
}

static void wait_again(struct action *action, struct order *o)
{
    insert(&action->waiting, o);
    action->counts.waiting++;
}

static void stop_waiting(struct action *action, struct order *o)
{
    take_out(&action->waiting, o);
    action->counts.waiting--;
}

static void forget_order(struct actions *a, struct order *o)
{
    a->bytes -= o->body.cap + sizeof *o;
    order_destroy(o);
}

/* ---------------------------------------------------------------- ends */

static bool may_repeat(const struct action_config *c)
{
    return c->after_crash == CRASH_REPEAT || (c->after_crash == CRASH_BY_ACTUATOR && c->is_repeatable);
}

static uint32_t attempts_of(const struct action_config *c)
{
    return c->attempts ? c->attempts : 1;
}

static struct action_end describe(const struct action_config *c, const struct order *o)
{
    return (struct action_end){.action = c,
                               .order = o->id,
                               .kind = o->kind,
                               .fault = o->fault,
                               .rule = order_rule(o),
                               .faults = o->faults,
                               .attempt = o->attempts,
                               .is_last = true,
                               .exit_code = -1,
                               .text = SLICE_LIT("")};
}

/* Puts down what its end leaves of it. */
static int put_end(struct actions *a, struct action *action, const struct order *o,
                   const struct action_end *e)
{
    int r = e->is_last ? state_drop(a->o.state, STATE_ACTION, o->id) : put_order(a, action, o);
    if (r == 0 && action)
        r = put_limit(a, action);
    return r < 0 ? r : audit_end(a, e, o);
}

/* What could not be written is by whoever commits next; till then nothing new starts. */
static void hold(struct actions *a, int code)
{
    if (code < 0)
        a->held_ns = clock_utc_ns() + HOLD_NS;
}

static enum action_result judge(const struct action *action, const struct order *o,
                                const struct runner_end *e, bool *is_last)
{
    const struct action_config *c = action->config;
    *is_last = true;
    if (e->is_known && e->code == 0)
        return ACTION_DONE;
    if (!e->is_known && !may_repeat(c))
        return ACTION_UNKNOWN;
    /* Options that do not fit together will not the next time either. */
    *is_last = o->attempts >= attempts_of(c) || (e->is_known && e->code == -EINVAL);
    return ACTION_FAILED;
}

static void count_end(struct action_counts *n, const struct action_end *e)
{
    n->done += e->result == ACTION_DONE;
    n->failed += e->result == ACTION_FAILED && e->is_last;
    n->unknown += e->result == ACTION_UNKNOWN;
}

static void end_attempt(struct actions *a, struct action *action, struct order *o,
                        const struct runner_end *from)
{
    const int64_t now_ns = clock_utc_ns();
    struct action_end e = describe(action->config, o);
    e.result = judge(action, o, from, &e.is_last);
    e.code = from->code;
    e.exit_code = from->exit_code;
    e.ran_ns = from->ran_ns;
    e.waited_ns = o->started_ns - o->given_ns;
    e.text = from->text;
    take_out(&action->running, o);
    action->counts.running--;
    count_end(&action->counts, &e);
    action_limit_end(&action->limit, e.result == ACTION_DONE, now_ns);
    if (e.result != ACTION_DONE && e.is_last)
        action->limit.left_out += o->left_out; /* nobody has heard of them */
    o->is_started = false;
    if (!e.is_last) {
        uint64_t chance = hash_seeded(slice_of((const char *)&o->id, sizeof o->id), a->chance + o->attempts);
        o->ready_ns = now_ns + action_limit_pause(action->config, o->attempts, chance);
        wait_again(action, o);
    }
    int r = put_end(a, action, o, &e);
    hold(a, r < 0 ? r : commit_ends(a));
    a->o.on_end(a->o.arg, &e);
    if (e.is_last)
        forget_order(a, o);
}

static void on_runner_end(void *arg, const struct runner_end *e)
{
    struct order *o = arg;
    struct runner *r = o->runner;
    o->runner = NULL;
    end_attempt(o->action->all, o->action, o, e);
    runner_destroy(r); /* what e says was in it */
}

/* ---------------------------------------------------------------- starts */

/* When the order may start, as far as it goes by itself. What lies further ahead than any pause was written
 * by a clock that has been set back since. */
static int64_t ready_at(const struct action *action, struct order *o, int64_t now_ns)
{
    const struct action_config *c = action->config;
    const int64_t pause_ns = c->retry_max_ns + c->retry_max_ns / 4;
    const int64_t longest_ns = c->group_ns > pause_ns ? c->group_ns : pause_ns;
    if (o->ready_ns > now_ns && o->ready_ns - now_ns > longest_ns)
        o->ready_ns = now_ns + longest_ns;
    return o->ready_ns;
}

/* The first that may start now; NULL. */
static struct order *find_ready(struct action *action, int64_t now_ns)
{
    if (!action->waiting || action_limit_next(&action->limit, action->counts.running, now_ns) > now_ns)
        return NULL;
    struct order *o = action->waiting;
    while (o && ready_at(action, o, now_ns) > now_ns)
        o = o->next;
    return o;
}

static void unstart(struct actions *a, struct action *action, struct order *o)
{
    take_out(&action->running, o);
    action->counts.running--;
    action_limit_unstart(&action->limit);
    o->attempts--;
    o->is_started = false;
    wait_again(action, o);
    /* Without memory the records say that it has started: then it counts as an attempt after a crash. */
    if (put_order(a, action, o) == 0 && put_limit(a, action) == 0)
        (void)audit_not_started(a, action, o);
}

/* Moves it to those that run, and puts that down. */
static int prepare(struct actions *a, struct action *action, struct order *o, int64_t now_ns)
{
    stop_waiting(action, o);
    insert(&action->running, o);
    action->counts.running++;
    action_limit_start(&action->limit, now_ns);
    o->attempts++;
    o->is_started = true;
    o->started_ns = now_ns;
    o->left_out += action->limit.left_out;
    action->limit.left_out = 0;
    int r = put_order(a, action, o);
    if (r == 0)
        r = put_limit(a, action);
    if (r == 0)
        r = audit_start(a, action, o);
    if (r < 0)
        unstart(a, action, o);
    return r;
}

static int run(struct actions *a, struct action *action, struct order *o, struct diag *why)
{
    struct strbuf text = {0}, name = {0};
    struct act_datum *data = NULL;
    size_t n = 0;
    order_name(o, a->o.config, &name);
    int r = order_data(o, action->config, a->o.config, &text, &data, &n);
    if (r == 0 && strbuf_failed(&name))
        r = -ENOMEM;
    if (r < 0)
        (void)diag_set(why, r, 0, "%s", err_text(r));
    const struct act_request request = {.actuator = action->config->actuator,
                                        .attempt = strbuf_slice(&name).p,
                                        .left_ns = action->config->timeout_ns,
                                        .settings = action->config->settings,
                                        .n_settings = action->config->n_settings,
                                        .data = data,
                                        .n_data = n};
    if (r == 0)
        r = runner_start(a->o.base, a->o.act, &request, on_runner_end, o, &o->runner, why);
    mem_free(data);
    strbuf_fini(&text);
    strbuf_fini(&name);
    return r;
}

static void start(struct actions *a, struct action *action, struct order *o)
{
    struct diag why = {0};
    action->counts.started++;
    action->counts.repeated += o->attempts > 1;
    int r = run(a, action, o, &why);
    if (r < 0) /* it has not run: that is known */
        end_attempt(a, action, o,
                    &(struct runner_end){
                        .is_known = true, .code = r, .exit_code = -1, .text = slice_str(why.message)});
}

struct starting {
    struct action *action;
    struct order *order;
};

/* Puts down all that may start now: how many. */
static size_t prepare_all(struct actions *a, int64_t now_ns, struct starting *list)
{
    size_t n = 0;
    for (size_t i = 0; i < a->o.config->n_actions; i++) {
        struct action *action = &a->v[i];
        struct order *o;
        while (n < STARTS_A_TURN && (o = find_ready(action, now_ns))) {
            if (prepare(a, action, o, now_ns) < 0) {
                a->held_ns = now_ns + HOLD_NS;
                return n;
            }
            list[n++] = (struct starting){action, o};
        }
        if (action->is_limit_new)
            (void)put_limit(a, action); /* what fails stays new */
    }
    return n;
}

/* ---------------------------------------------------------------- what is told besides */

static struct action_end describe_settled(const struct settled *s)
{
    struct action_end e = describe(s->action ? s->action->config : &s->gone, s->order);
    e.result = s->action ? ACTION_UNKNOWN : ACTION_LEFT_OUT;
    e.text = s->action ? SLICE_LIT("the guard ended while it ran: whether it was done is not known")
                       : SLICE_LIT("there is no such action any more");
    return e;
}

static void tell_settled(struct actions *a)
{
    struct settled *s;
    int r = 0;
    for (s = a->settled; r == 0 && s; s = s->next) {
        struct action_end e = describe_settled(s);
        if (s->action)
            s->action->limit.left_out += s->order->left_out; /* nobody has heard of them */
        r = put_end(a, s->action, s->order, &e);
    }
    if (a->settled)
        hold(a, r < 0 ? r : commit_ends(a));
    while ((s = a->settled)) {
        struct action_end e = describe_settled(s);
        a->settled = s->next;
        if (s->action) {
            s->action->counts.waiting--;
            s->action->counts.unknown++;
        }
        a->o.on_end(a->o.arg, &e);
        forget_order(a, s->order);
        mem_free(s);
    }
}

static void tell_left_out(struct actions *a)
{
    for (size_t i = 0; i < a->o.config->n_actions; i++) {
        struct action *action = &a->v[i];
        struct action_end e = {
            .action = action->config,
            .result = ACTION_LEFT_OUT,
            .faults = (uint32_t)(action->untold < UINT32_MAX ? action->untold : UINT32_MAX),
            .rule = SLICE_LIT(""),
            .is_last = true,
            .code = E_LIMIT,
            .exit_code = -1,
            .text = SLICE_LIT("too many wait: these were left out; the next says how many")};
        if (action->untold == 0)
            continue;
        action->untold = 0;
        a->o.on_end(a->o.arg, &e);
    }
}

void actions_turn(struct actions *a, int64_t now_ns)
{
    struct starting list[STARTS_A_TURN];
    if (a->held_ns > now_ns && a->held_ns - now_ns <= HOLD_NS)
        return;
    a->held_ns = 0;
    tell_settled(a);
    tell_left_out(a);
    if (a->held_ns)
        return;
    size_t n = prepare_all(a, now_ns, list);
    if (!state_is_dirty(a->o.state) && n == 0)
        return;
    if (commit_starts(a) < 0) {
        a->held_ns = now_ns + HOLD_NS;
        while (n-- > 0)
            unstart(a, list[n].action, list[n].order);
        return;
    }
    for (size_t i = 0; i < n; i++)
        start(a, list[i].action, list[i].order);
}

int64_t actions_next(const struct actions *a)
{
    const int64_t now_ns = clock_utc_ns();
    int64_t next_ns = a->settled ? now_ns : INT64_MAX;
    for (size_t i = 0; i < a->o.config->n_actions; i++) {
        struct action *action = &a->v[i];
        int64_t ready_ns = action->untold ? now_ns : INT64_MAX;
        if (action->waiting) {
            int64_t first_ns = INT64_MAX;
            for (struct order *o = action->waiting; o; o = o->next) {
                int64_t at_ns = ready_at(action, o, now_ns);
                first_ns = at_ns < first_ns ? at_ns : first_ns;
            }
            int64_t may_ns = action_limit_next(&action->limit, action->counts.running, now_ns);
            first_ns = may_ns > first_ns ? may_ns : first_ns;
            ready_ns = first_ns < ready_ns ? first_ns : ready_ns;
        }
        next_ns = ready_ns < next_ns ? ready_ns : next_ns;
    }
    return next_ns < a->held_ns ? a->held_ns : next_ns;
}

/* ---------------------------------------------------------------- orders come */

static bool is_grouping(const struct action_config *c)
{
    return c->is_groupable && c->group_ns > 0;
}

/* The order of this kind that has not run yet, however long it waits: joining it is better than waiting
 * behind it. */
static struct order *find_group(const struct action *action, enum notice_kind kind)
{
    if (!is_grouping(action->config))
        return NULL;
    struct order *o = action->waiting;
    while (o && (o->kind != kind || o->attempts > 0))
        o = o->next;
    return o;
}

static int join(struct actions *a, struct action *action, struct order *o, const struct notice *n)
{
    const size_t before = o->body.cap;
    int r = order_join(o, n);
    a->bytes += o->body.cap - before;
    if (r == 0 && (r = put_order(a, action, o)) < 0)
        o->faults--;
    return r;
}

static int add_new(struct actions *a, struct action *action, const struct notice *n)
{
    const struct action_config *c = action->config;
    if (action->counts.waiting >= (c->queue ? c->queue : 1))
        return E_LIMIT;
    struct order *o = mem_try_alloc(sizeof *o);
    if (!o)
        return -ENOMEM;
    o->action = action;
    int r = order_fill(o, n);
    if (r == E_LIMIT || a->bytes + o->body.cap + sizeof *o > BYTES_MAX)
        r = -ENOMEM; /* of what it is about there is too much */
    if (r == 0)
        r = take_number(a, &o->id);
    o->ready_ns = n->now_ns + (is_grouping(c) ? c->group_ns : 0);
    if (r == 0)
        r = put_order(a, action, o);
    if (r < 0) {
        order_destroy(o);
        return r;
    }
    a->bytes += o->body.cap + sizeof *o;
    wait_again(action, o);
    return 0;
}

int actions_give(struct actions *a, unsigned place, const struct notice *n)
{
    assert(place < a->o.config->n_actions);
    struct action *action = &a->v[place];
    struct order *group = find_group(action, n->kind);
    int r = group ? join(a, action, group, n) : add_new(a, action, n);
    action->counts.given++;
    if (r == 0) {
        action->counts.joined += group != NULL;
        return 0;
    }
    action->counts.left_out_queue += r == E_LIMIT;
    action->counts.left_out_memory += r != E_LIMIT;
    action->limit.left_out++;
    action->untold++;
    action->is_limit_new = true;
    return E_LIMIT;
}

/* ---------------------------------------------------------------- after a restart */

static struct action *find_action(const struct actions *a, struct slice name)
{
    for (size_t i = 0; i < a->o.config->n_actions; i++)
        if (slice_eq_str(name, a->v[i].config->name))
            return &a->v[i];
    return NULL;
}

static void settle(struct actions *a, struct action *action, struct order *o, struct slice name)
{
    struct settled *s = mem_alloc(sizeof *s + name.n + 1);
    memcpy(s->name, name.p, name.n);
    s->order = o;
    s->action = action;
    s->gone = (struct action_config){.name = s->name, .actuator = ""};
    if (action)
        action->counts.waiting++; /* to be told */
    s->next = a->settled;
    a->settled = s;
}

static int restore_numbers(struct actions *a, struct slice record)
{
    struct cursor c = cursor_of(record);
    uint64_t end = cursor_varint(&c);
    if (c.bad || end >= LIMIT_RECORD)
        return E_PROTO;
    if (end > a->numbers_end)
        a->next_number = a->numbers_end = end;
    return 0;
}

static int restore_limit(struct actions *a, uint64_t id, struct slice record)
{
    struct slice name;
    int r = action_limit_unpack(record, &name, NULL);
    if (r < 0)
        return r;
    struct action *action = find_action(a, name);
    if (!action)
        return state_drop(a->o.state, STATE_ACTION, id); /* nothing is limited by it any more */
    return action_limit_unpack(record, &name, &action->limit);
}

static int restore_order(struct actions *a, uint64_t id, struct slice record)
{
    struct slice name;
    struct order *o = mem_alloc(sizeof *o);
    int r = order_unpack(record, o, &name);
    if (r < 0) {
        order_destroy(o);
        return r;
    }
    o->id = id;
    if (id >= a->numbers_end)
        a->next_number = a->numbers_end = id + 1;
    a->bytes += o->body.cap + sizeof *o;
    struct action *action = find_action(a, name);
    if (!action) {
        settle(a, NULL, o, name);
        return -ENOENT;
    }
    action->counts.restored++;
    o->action = action;
    const bool was_started = o->is_started;
    o->is_started = false;
    if (was_started && (!may_repeat(action->config) || o->attempts >= attempts_of(action->config)))
        settle(a, action, o, name);
    else
        wait_again(action, o);
    return 0;
}

int actions_restore(struct actions *a, uint64_t id, struct slice record)
{
    if (id == 0)
        return restore_numbers(a, record);
    return id & LIMIT_RECORD ? restore_limit(a, id, record) : restore_order(a, id, record);
}

/* ---------------------------------------------------------------- the rest */

int actions_create(const struct actions_options *o, struct actions **out)
{
    struct actions *a = mem_alloc(sizeof *a);
    int r = 0;
    a->o = *o;
    a->next_number = a->numbers_end = 1;
    a->chance = (uint64_t)clock_utc_ns();
    a->v = mem_alloc((o->config->n_actions + 1) * sizeof *a->v);
    for (size_t i = 0; r == 0 && i < o->config->n_actions; i++) {
        a->v[i].all = a;
        a->v[i].config = &o->config->actions[i];
        r = action_limit_init(&a->v[i].limit, &o->config->actions[i]);
    }
    if (r < 0) {
        actions_destroy(a);
        return r;
    }
    *out = a;
    return 0;
}

static void destroy_orders(struct order *o)
{
    for (struct order *next; o; o = next) {
        next = o->next;
        runner_destroy(o->runner);
        order_destroy(o);
    }
}

void actions_destroy(struct actions *a)
{
    struct settled *s;
    if (!a)
        return;
    for (size_t i = 0; i < a->o.config->n_actions; i++) {
        destroy_orders(a->v[i].waiting);
        destroy_orders(a->v[i].running);
        action_limit_fini(&a->v[i].limit);
    }
    while ((s = a->settled)) {
        a->settled = s->next;
        order_destroy(s->order);
        mem_free(s);
    }
    strbuf_fini(&a->scratch);
    mem_free(a->v);
    mem_free(a);
}

void actions_count(const struct actions *a, unsigned action, struct action_counts *out)
{
    assert(action < a->o.config->n_actions);
    *out = a->v[action].counts;
    out->is_broken = a->v[action].limit.broken_ns != 0;
}
