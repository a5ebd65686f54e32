/* SPDX-License-Identifier: Apache-2.0 */
/* Each host is in a map by its name, and in a binary heap by when it is to be looked at next. A heartbeat
 * only writes down when it came: a live host is looked at once in a time-out, and moved on by what was heard
 * meanwhile. So an event costs a look-up, and n hosts cost n log n steps a time-out.
 *
 *     expected ─┐
 *     live ─────┴─time-out─► late ◄──► agent_dead ◄──► unreachable      (by the answers of a round)
 *       ▲                     └──────────────┴───────────────┴──► gone  (deregistered; live can, too)
 *       └── heartbeat, from any
 *
 * A round asks for the lease and for a ping. The ping goes out when there is an address to send it to: that
 * of an earlier answer, or of this round's; or when it is clear that there will be none, to the host's name.
 * It ends when both are answered or given up (after ROUND_MAX); the next begins a heartbeat period after it.
 * A question whose answer no longer counts (the host was heard, the round or the guard's own pause is over)
 * is void: its answer is awaited, as nothing is asked twice at a time, but not looked at. One that does not
 * come within LOST_AFTER is taken for lost.
 *
 * Time is a sum of steps, `t`: the difference of now_ns to the call before, at least 0, at most step_max. A
 * larger difference is a break: a pause of ours, or a clock that was set. After one everybody has a whole
 * time-out. Breaks within it do not prolong it, and a judgement comes before another counts: a guard that is
 * always slow judges slowly, but it does. Pauses are noticed because health_turn asks to be called again
 * within step_max / 2. */
#include "guard/health.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>

enum { HOSTS_DEFAULT = 100000, NAME_MAX_BYTES = 255, ADDRESS_MAX_BYTES = 255 };
#define STEP_MIN   NS_PER_S
#define STEP_MAX   (5 * NS_PER_S)
#define RETRY      NS_PER_S
#define ROUND_MAX  (60 * NS_PER_S)
#define LOST_AFTER (600 * NS_PER_S)
#define GONE_KEEP  (3600 * NS_PER_S) /* how long one that is gone is listed */

enum question_state { IDLE, OUT, VOID };
struct question {
    enum question_state state;
    bool is_wanted; /* by the round that is under way, and not asked yet */
    int64_t asked_t;
};

enum ping_answer { PING_NONE, PING_ANSWERED, PING_UNANSWERED };
struct answers {
    enum lease_state lease;
    enum ping_answer ping;
    int64_t rtt_ns;
};

struct host {
    size_t at;     /* in the heap */
    int64_t due_t; /* when it is to be looked at */
    enum health_state state;
    int64_t since_ns, since_t;
    int64_t beat_ns, beat_t; /* the last heartbeat, or when it was first expected; beat_ns 0 = none yet */
    int64_t heard_t;         /* anything */
    int64_t every_ns;        /* its own period; 0 = the usual */
    struct question lease_question, ping_question;
    bool is_in_round;
    int64_t round_t;
    struct answers last, now; /* of the last round that ended, and of the one under way */
    char *address;            /* NULL = not known */
    size_t name_n;
    char name[];
};

struct health {
    struct health_options o;
    struct map hosts;
    struct host **heap;
    size_t n, cap;
    size_t counts[HEALTH_STATES];
    uint64_t left_out;
    int64_t now_ns, t; /* of the last call; now_ns 0 = there was none */
    int64_t step_max;
    int64_t awake_t; /* since when we have been hearing without a break */
    int64_t full_t;  /* when a question was last refused for there being too many */
    bool is_blind;
    bool owes_a_turn; /* no judgement has followed the last break yet */
};

const char *health_state_name(enum health_state s)
{
    static const char *const names[HEALTH_STATES] = {"live",        "late", "agent_dead",
                                                     "unreachable", "gone", "expected"};
    assert(s < HEALTH_STATES);
    return names[s];
}

static const char *const lease_names[] = {
    [LEASE_UNKNOWN] = "unknown",
    [LEASE_LIVE] = "live",
    [LEASE_LATE] = "late",
    [LEASE_EXPIRED] = "expired",
    [LEASE_DEREGISTERED] = "deregistered",
    [LEASE_NONE] = "none",
};

enum lease_state lease_state_parse(struct slice text)
{
    for (enum lease_state l = LEASE_LIVE; l <= LEASE_DEREGISTERED; l++)
        if (slice_eq_str(text, lease_names[l]))
            return l;
    return LEASE_UNKNOWN;
}

/* ---------------------------------------------------------------- the heap */

static void heap_set(struct health *h, size_t at, struct host *x)
{
    h->heap[at] = x;
    x->at = at;
}

static void sift_up(struct health *h, struct host *x)
{
    size_t at = x->at;
    while (at > 0 && h->heap[(at - 1) / 2]->due_t > x->due_t) {
        heap_set(h, at, h->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(h, at, x);
}

static void sift_down(struct health *h, struct host *x)
{
    size_t at = x->at;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < h->n && h->heap[child + 1]->due_t < h->heap[child]->due_t)
            child++;
        if (child >= h->n || h->heap[child]->due_t >= x->due_t)
            break;
        heap_set(h, at, h->heap[child]);
        at = child;
    }
    heap_set(h, at, x);
}

static void set_due(struct health *h, struct host *x, int64_t due_t)
{
    int64_t before = x->due_t;
    x->due_t = due_t;
    if (due_t < before)
        sift_up(h, x);
    else
        sift_down(h, x);
}

static int heap_reserve(struct health *h)
{
    if (h->n < h->cap)
        return 0;
    size_t cap = h->cap ? h->cap * 2 : 64;
    struct host **more = mem_try_resize(h->heap, cap * sizeof(struct host *));
    if (!more)
        return -ENOMEM;
    h->heap = more;
    h->cap = cap;
    return 0;
}

/* ---------------------------------------------------------------- time */

static int64_t timeout_of(const struct health *h, const struct host *x)
{
    if (x->every_ns <= 0 || x->every_ns == h->o.every_ns)
        return h->o.timeout_ns;
    return (int64_t)((double)x->every_ns * (double)h->o.timeout_ns / (double)h->o.every_ns);
}

static int64_t every_of(const struct health *h, const struct host *x)
{
    return x->every_ns > 0 ? x->every_ns : h->o.every_ns;
}

static void wake_up(struct health *h)
{
    h->awake_t = h->t;
    h->owes_a_turn = true;
}

static void void_question(struct question *q)
{
    if (q->state == OUT)
        q->state = VOID;
}

/* The answers that a pause came between may be missing or late for our own sake. */
static void ask_anew(struct health *h, struct host *x)
{
    x->lease_question.is_wanted |= x->lease_question.state == OUT;
    x->ping_question.is_wanted |= x->ping_question.state == OUT;
    void_question(&x->lease_question);
    void_question(&x->ping_question);
    x->round_t = h->t;
}

static void advance(struct health *h, int64_t now_ns)
{
    int64_t step = h->now_ns ? now_ns - h->now_ns : 0;
    bool is_break = step > h->step_max;
    h->now_ns = now_ns;
    h->t += is_break ? h->step_max : step > 0 ? step : 0;
    if (!is_break || h->owes_a_turn)
        return;
    wake_up(h);
    for (size_t i = 0; i < h->n; i++)
        if (h->heap[i]->is_in_round)
            ask_anew(h, h->heap[i]);
}

/* ---------------------------------------------------------------- hosts */

static void set_state(struct health *h, struct host *x, enum health_state state)
{
    if (x->state == state)
        return;
    h->counts[x->state]--;
    h->counts[state]++;
    x->state = state;
    x->since_ns = h->now_ns;
    x->since_t = h->t;
}

static struct host *find(const struct health *h, struct slice name)
{
    return map_get(&h->hosts, name);
}

/* NULL: no room; counted. */
static struct host *add(struct health *h, struct slice name, enum health_state state)
{
    struct host *x = NULL;
    if (h->n < h->o.hosts_max && name.n > 0 && name.n <= NAME_MAX_BYTES && heap_reserve(h) == 0)
        x = mem_try_alloc(sizeof *x + name.n);
    if (!x) {
        h->left_out++;
        return NULL;
    }
    memcpy(x->name, name.p, name.n);
    x->name_n = name.n;
    if (map_put(&h->hosts, slice_of(x->name, x->name_n), x) < 0) {
        mem_free(x);
        h->left_out++;
        return NULL;
    }
    x->state = state;
    x->since_ns = h->now_ns;
    x->since_t = x->beat_t = x->heard_t = h->t;
    x->due_t = h->t + h->o.timeout_ns;
    h->counts[state]++;
    x->at = h->n++;
    sift_up(h, x);
    return x;
}

static void destroy_host(struct host *x)
{
    mem_free(x->address);
    mem_free(x);
}

static void forget(struct health *h, struct host *x)
{
    struct host *last = h->heap[--h->n];
    h->counts[x->state]--;
    (void)map_remove(&h->hosts, slice_of(x->name, x->name_n)); /* it is x itself */
    if (last != x) {
        heap_set(h, x->at, last);
        sift_up(h, last);
        sift_down(h, last);
    }
    destroy_host(x);
}

/* The old one stays if there is no memory for the new. */
static void set_address(struct host *x, struct slice address)
{
    if (address.n == 0 || address.n > ADDRESS_MAX_BYTES || (x->address && slice_eq_str(address, x->address)))
        return;
    char *copy = mem_try_alloc(address.n + 1);
    if (!copy)
        return;
    memcpy(copy, address.p, address.n);
    mem_free(x->address);
    x->address = copy;
}

/* ---------------------------------------------------------------- rounds */

/* The table in health.h. */
static enum health_state verdict(enum health_state before, enum ping_answer ping, enum lease_state lease)
{
    switch (lease) {
    case LEASE_DEREGISTERED:
        return HEALTH_GONE;
    case LEASE_LIVE:
        return HEALTH_LATE;
    case LEASE_UNKNOWN:
        if (ping == PING_NONE)
            return before;
        if (ping == PING_UNANSWERED)
            return HEALTH_UNREACHABLE;
        return before == HEALTH_AGENT_DEAD ? before : HEALTH_LATE;
    default:
        if (ping == PING_NONE && before == HEALTH_UNREACHABLE)
            return before;
        return ping == PING_UNANSWERED ? HEALTH_UNREACHABLE : HEALTH_AGENT_DEAD;
    }
}

static void conclude(struct health *h, struct host *x)
{
    if (x->now.ping == PING_UNANSWERED && x->heard_t > x->round_t)
        x->now.ping = PING_ANSWERED; /* by what it sent meanwhile */
    x->last = x->now;
    x->is_in_round = false;
    set_state(h, x, verdict(x->state, x->last.ping, x->last.lease));
    int64_t next = x->round_t + every_of(h, x);
    if (x->state == HEALTH_GONE)
        next = x->since_t + GONE_KEEP;
    set_due(h, x, next > h->t ? next : h->t + RETRY);
}

static void end_round(struct host *x)
{
    x->is_in_round = x->lease_question.is_wanted = x->ping_question.is_wanted = false;
    void_question(&x->lease_question);
    void_question(&x->ping_question);
}

/* Is the question free to be asked: not under way, or lost. */
static bool is_free(const struct health *h, const struct question *q)
{
    return q->state == IDLE || (q->state == VOID && h->t - q->asked_t >= LOST_AFTER);
}

/* r is what the call to ask said. Is the question settled, as it can't be asked? */
static bool was_asked(struct health *h, struct question *q, int r)
{
    if (r == E_LIMIT) {
        h->full_t = h->t;
        return false;
    }
    q->is_wanted = false;
    q->state = r < 0 ? IDLE : OUT;
    q->asked_t = h->t;
    return r < 0;
}

static void ask(struct health *h, struct host *x)
{
    struct slice name = slice_of(x->name, x->name_n);
    struct question *lease = &x->lease_question, *ping = &x->ping_question;
    if (lease->is_wanted && is_free(h, lease) && was_asked(h, lease, h->o.lease(h->o.arg, name)))
        x->now.lease = LEASE_UNKNOWN;
    bool may_get_address = lease->is_wanted || lease->state == OUT;
    if (!ping->is_wanted || !is_free(h, ping) || (!x->address && may_get_address))
        return;
    if (was_asked(h, ping, h->o.ping(h->o.arg, name, slice_str(x->address ? x->address : ""))))
        x->now.ping = PING_NONE;
}

/* Has its answer, or will have none. One that can't be asked because too many are waits its turn. */
static bool is_settled(const struct health *h, const struct host *x, struct question *q)
{
    bool is_overdue = q->state == OUT && h->t - q->asked_t >= ROUND_MAX;
    bool is_blocked = q->is_wanted && !is_free(h, q) && h->t - x->round_t >= ROUND_MAX;
    if (is_overdue || is_blocked) {
        q->is_wanted = false;
        q->state = VOID;
    }
    return !q->is_wanted && q->state != OUT;
}

static void go_on(struct health *h, struct host *x)
{
    ask(h, x);
    bool has_lease = is_settled(h, x, &x->lease_question);
    if (is_settled(h, x, &x->ping_question) && has_lease)
        conclude(h, x);
    else
        set_due(h, x, h->t + RETRY);
}

static void begin_round(struct health *h, struct host *x)
{
    x->is_in_round = true;
    x->round_t = h->t;
    x->now = (struct answers){LEASE_UNKNOWN, PING_NONE, 0};
    x->lease_question.is_wanted = h->o.lease != NULL;
    x->ping_question.is_wanted = h->o.is_pinging && h->o.ping != NULL;
    go_on(h, x);
}

/* ---------------------------------------------------------------- looking */

/* One that should be heard: is it late? */
static void look_awaited(struct health *h, struct host *x)
{
    int64_t from_t = h->is_blind ? h->t : x->beat_t > h->awake_t ? x->beat_t : h->awake_t;
    int64_t late_t = from_t + timeout_of(h, x);
    if (h->t < late_t) {
        set_due(h, x, late_t);
        return;
    }
    if (x->state == HEALTH_LIVE) /* one that is expected has no state before its first round is over */
        set_state(h, x, HEALTH_LATE);
    begin_round(h, x);
}

static void look(struct health *h, struct host *x)
{
    if (x->is_in_round)
        go_on(h, x);
    else if (x->state == HEALTH_LIVE || x->state == HEALTH_EXPECTED)
        look_awaited(h, x);
    else if (x->state == HEALTH_GONE)
        forget(h, x);
    else if (h->t - h->full_t < every_of(h, x) && x->state != HEALTH_LATE)
        set_due(h, x, h->t + every_of(h, x)); /* those come first of which nothing is known */
    else
        begin_round(h, x);
}

/* ---------------------------------------------------------------- the interface */

int health_create(const struct health_options *o, struct health **out)
{
    if (o->every_ns <= 0 || o->timeout_ns < o->every_ns)
        return -EINVAL;
    struct health *h = mem_try_alloc(sizeof *h);
    if (!h)
        return -ENOMEM;
    h->o = *o;
    h->full_t = INT64_MIN / 2;
    h->o.hosts_max = o->hosts_max ? o->hosts_max : HOSTS_DEFAULT;
    h->step_max = o->timeout_ns / 2 < STEP_MIN ? STEP_MIN : o->timeout_ns / 2;
    h->step_max = h->step_max > STEP_MAX ? STEP_MAX : h->step_max;
    *out = h;
    return 0;
}

void health_destroy(struct health *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n; i++)
        destroy_host(h->heap[i]);
    mem_free(h->heap);
    map_fini(&h->hosts);
    mem_free(h);
}

void health_heard(struct health *h, struct slice name, bool is_heartbeat, int64_t every_ns, int64_t now_ns)
{
    advance(h, now_ns);
    struct host *x = find(h, name);
    if (!x && is_heartbeat)
        x = add(h, name, HEALTH_LIVE);
    if (!x)
        return;
    x->heard_t = h->t;
    x->every_ns = every_ns > 0 ? every_ns : x->every_ns;
    if (!is_heartbeat)
        return;
    x->beat_ns = now_ns;
    x->beat_t = h->t;
    if (x->state == HEALTH_LIVE)
        return;
    end_round(x);
    x->last = (struct answers){LEASE_UNKNOWN, PING_NONE, 0};
    set_state(h, x, HEALTH_LIVE);
    set_due(h, x, h->t + timeout_of(h, x));
}

void health_expect(struct health *h, struct slice name, struct slice address, int64_t now_ns)
{
    advance(h, now_ns);
    struct host *x = find(h, name);
    if (!x)
        x = add(h, name, HEALTH_EXPECTED);
    if (x && !x->address)
        set_address(x, address);
}

static bool is_unanswered(int code)
{
    return code == -ETIMEDOUT || code == -EHOSTUNREACH || code == -ENETUNREACH || code == -EHOSTDOWN ||
           code == -ENETDOWN;
}

/* Takes an answer off the question. Does it count? */
static bool take_answer(struct question *q)
{
    bool counts = q->state == OUT;
    q->state = IDLE;
    return counts;
}

void health_pinged(struct health *h, struct slice name, int code, int64_t rtt_ns, int64_t now_ns)
{
    advance(h, now_ns);
    struct host *x = find(h, name);
    if (!x)
        return;
    if (take_answer(&x->ping_question)) {
        x->now.ping = code == 0 ? PING_ANSWERED : is_unanswered(code) ? PING_UNANSWERED : PING_NONE;
        x->now.rtt_ns = rtt_ns;
    }
    if (x->is_in_round)
        go_on(h, x);
}

void health_leased(struct health *h, struct slice name, enum lease_state lease, struct slice address,
                   int64_t now_ns)
{
    advance(h, now_ns);
    struct host *x = find(h, name);
    if (!x)
        return;
    bool is_news = x->lease_question.state == IDLE;
    if (take_answer(&x->lease_question)) {
        x->now.lease = lease;
        set_address(x, address);
    } else if (is_news && lease == LEASE_DEREGISTERED && x->state != HEALTH_GONE) {
        end_round(x);
        x->last = (struct answers){lease, PING_NONE, 0};
        set_state(h, x, HEALTH_GONE);
        set_due(h, x, h->t + GONE_KEEP);
    }
    if (x->is_in_round)
        go_on(h, x);
}

void health_blind(struct health *h, bool is_blind, int64_t now_ns)
{
    advance(h, now_ns);
    if (h->is_blind && !is_blind)
        wake_up(h);
    h->is_blind = is_blind;
}

int64_t health_turn(struct health *h, int64_t now_ns)
{
    advance(h, now_ns);
    while (h->n > 0 && h->heap[0]->due_t <= h->t)
        look(h, h->heap[0]); /* makes it due later, or forgets it */
    if (h->t - h->awake_t >= h->o.timeout_ns)
        h->owes_a_turn = false;
    int64_t wait = h->n ? h->heap[0]->due_t - h->t : INT64_MAX;
    return now_ns + (wait < h->step_max / 2 ? wait : h->step_max / 2);
}

static const char *const columns[] = {"host",    "state", "since",   "heard", "age_s",
                                      "ping_ms", "lease", "address", NULL};

static void make_row(const struct health *h, const struct host *x, struct value *row)
{
    const struct answers *a = &x->last;
    row[0] = value_text(slice_of(x->name, x->name_n));
    row[1] = value_text(slice_str(health_state_name(x->state)));
    row[2] = value_int(x->since_ns);
    row[3] = x->beat_ns ? value_int(x->beat_ns) : value_none();
    row[4] = x->beat_ns ? value_float((double)(h->t - x->beat_t) / (double)NS_PER_S) : value_none();
    row[5] = a->ping == PING_ANSWERED ? value_float((double)a->rtt_ns / 1e6) : value_none();
    row[6] = a->lease != LEASE_UNKNOWN ? value_text(slice_str(lease_names[a->lease])) : value_none();
    row[7] = x->address ? value_text(slice_str(x->address)) : value_none();
}

static int fill(void *arg, int (*put)(void *to, const struct value *row), void *to)
{
    const struct health *h = arg;
    struct value row[sizeof columns / sizeof *columns - 1];
    int r = 0;
    for (size_t i = 0; i < h->n && r >= 0; i++) {
        if (h->heap[i]->state == HEALTH_EXPECTED)
            continue;
        make_row(h, h->heap[i], row);
        r = put(to, row);
    }
    return r < 0 ? r : 0;
}

void health_table(struct health *h, struct judge_table *out)
{
    *out = (struct judge_table){.name = "host_health", .columns = columns, .fill = fill, .arg = h};
}

bool health_knows(const struct health *h, struct slice name)
{
    const struct host *x = find(h, name);
    return x && x->state != HEALTH_EXPECTED;
}

uint64_t health_left_out(const struct health *h)
{
    return h->left_out;
}

size_t health_count(const struct health *h, enum health_state s)
{
    assert(s < HEALTH_STATES);
    return h->counts[s];
}
