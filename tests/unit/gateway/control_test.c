/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and answers with a real table of workers; what is sent and answered is written down by the test.
 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/control.h"
#include "gateway/control_rows.h"

#include <errno.h>
#include <time.h>

enum { PATIENCE_S = 20, SENT_MAX = 512 };

struct sent {
    uint32_t worker;
    uint64_t request;
};

struct bench {
    struct event_base *base;
    struct workers *ws;
    struct ledger ledger;
    struct control *c;
    struct sent sent[SENT_MAX];
    size_t n_sent;
    struct args_writer last_sent; /* the arguments of the last one */
    char last_verb[64];
    const char *dead;    /* sending to this host fails */
    bool answers_inside; /* workers answer from inside send */
    char activated[256];
    struct control_done done;
    unsigned n_done;
    struct access_identity done_who;
    char done_workers[64];
};

struct asker {
    struct control_asker asker;
    struct control *forgets; /* leaves when it gets a row */
    struct strbuf rows;      /* a line each: name=value ... | text */
    size_t n_rows;
    uint64_t asked;
    int status; /* of the last answer; -1: not yet */
    uint64_t request;
    char text[512];
    struct args_writer last;
};

static const struct access_identity owner = {.kind = ACCESS_OWNER, .uid = 0};
static const struct access_identity local = {.kind = ACCESS_LOCAL, .uid = 1000};
static const struct access_identity nobody = {.kind = ACCESS_NOBODY, .uid = UINT32_MAX};

static void print_arg(struct strbuf *out, const struct arg *a)
{
    strbuf_printf(out, "%.*s=", SLICE_ARG(a->name));
    if (a->value.type == VALUE_TEXT)
        strbuf_add_slice(out, value_slice(a->value));
    else
        strbuf_printf(out, "%lld", (long long)a->value.i);
    strbuf_add_char(out, ' ');
}

static void on_answer(struct control_asker *to, const struct frame_answer *a)
{
    struct asker *k = (struct asker *)(void *)to;
    struct args args = a->args;
    struct arg one;
    k->request = a->request;
    assert_int_equal(k->status, -1); /* nothing behind the last one */
    if (a->status != CONTROL_MORE) {
        k->status = a->status;
        (void)snprintf(k->text, sizeof k->text, "%.*s", SLICE_ARG(a->text));
        while (args_next(&args, &one))
            args_add(&k->last, one.name, one.value);
        return;
    }
    if (args_value(args, "asked").type == VALUE_UINT) {
        assert_int_equal(k->n_rows, 0); /* the first one, and alone */
        assert_int_equal(args.n, 1);
        k->asked = args_uint(args, "asked", 0);
        return;
    }
    k->n_rows++;
    while (args_next(&args, &one))
        print_arg(&k->rows, &one);
    strbuf_printf(&k->rows, "| %.*s\n", SLICE_ARG(a->text));
    if (k->forgets) {
        control_forget(k->forgets, to);
        k->status = -2; /* any further answer is a mistake */
    }
}

static struct asker asker_of(const struct access_identity *who)
{
    return (struct asker){.asker = {.answer = on_answer, .who = who}, .status = -1};
}

static void asker_fini(struct asker *k)
{
    strbuf_fini(&k->rows);
    args_writer_fini(&k->last);
}

static bool says(const struct asker *k, const char *what)
{
    return k->rows.n && strstr(k->rows.p, what) != NULL;
}

static void answer_as(struct bench *b, size_t i, uint16_t status, const char *text)
{
    struct args_writer args = {0};
    args_add_uint(&args, "cost", 7);
    args_add_text(&args, "host", SLICE_LIT("liar")); /* the gateway's column, not the worker's */
    control_answered(b->c, workers_by_id(b->ws, b->sent[i].worker),
                     &(struct frame_answer){.request = b->sent[i].request,
                                            .status = status,
                                            .text = slice_str(text),
                                            .args = args_of(&args)});
    args_writer_fini(&args);
}

static int on_send(void *arg, struct worker *w, const struct frame_control *q)
{
    struct bench *b = arg;
    struct args args = q->args;
    struct arg a;
    if (b->dead && strcmp(w->host, b->dead) == 0)
        return -ENOTCONN;
    assert_true(b->n_sent < SENT_MAX);
    b->sent[b->n_sent++] = (struct sent){w->id, q->request};
    args_writer_reset(&b->last_sent);
    while (args_next(&args, &a))
        args_add(&b->last_sent, a.name, a.value);
    (void)snprintf(b->last_verb, sizeof b->last_verb, "%.*s", SLICE_ARG(q->verb));
    if (b->answers_inside)
        answer_as(b, b->n_sent - 1, CONTROL_DONE, "");
    return 0;
}

static size_t on_activate(void *arg, struct slice host, struct slice list)
{
    struct bench *b = arg;
    struct frame_activation one;
    size_t n = strlen(b->activated);
    n += (size_t)snprintf(b->activated + n, sizeof b->activated - n, "%.*s:", SLICE_ARG(host));
    while (frame_next_activation(&list, &one) > 0)
        n += (size_t)snprintf(b->activated + n, sizeof b->activated - n, " %.*s=%d", SLICE_ARG(one.pattern),
                              one.level);
    (void)snprintf(b->activated + n, sizeof b->activated - n, ";");
    return 2;
}

static void on_status(void *arg, struct args_writer *out)
{
    (void)arg;
    args_add_uint(out, "sessions", 3);
}

static void on_done(void *arg, const struct control_done *d)
{
    struct bench *b = arg;
    b->done = *d;
    b->done_who = *d->who; /* of the question, which ends now */
    b->done.who = &b->done_who;
    b->n_done++;
    (void)snprintf(b->done_workers, sizeof b->done_workers, "%.*s", SLICE_ARG(d->workers));
}

static const struct control_ops ops = {on_send, on_activate, on_status, on_done};

static void open_bench(struct bench *b)
{
    const struct workers_options o = {.lease_ms = 3000, .renew_ms = 1000};
    *b = (struct bench){.base = event_base_new(), .ws = workers_create(&o)};
    b->c = control_create(b->base, b->ws, &b->ledger, &ops, b);
    assert_non_null(b->c);
}

static void close_bench(struct bench *b)
{
    control_destroy(b->c);
    workers_destroy(b->ws);
    ledger_fini(&b->ledger);
    args_writer_fini(&b->last_sent);
    event_base_free(b->base);
}

static struct worker *enter(struct bench *b, const char *host, uint64_t cpus)
{
    struct args_writer properties = {0};
    args_add_uint(&properties, "cpus", cpus);
    args_add_text(&properties, "state", SLICE_LIT("hidden"));
    struct frame_register r = {
        .host = slice_str(host), .properties = args_of(&properties), .origin = {.epoch = 1}};
    memset(r.origin.producer, 0x40 + (int)workers_count(b->ws), sizeof r.origin.producer);
    struct worker *w = NULL;
    assert_int_equal(workers_register(b->ws, &r, b, 0, clock_boot_ns(), clock_utc_ns(), &w), 0);
    args_writer_fini(&properties);
    return w;
}

struct question {
    const char *verb, *workers, *where, *sensor, *pattern, *level;
    const char *set, *to; /* set.SET = TO */
    uint64_t timeout_ms, lease_ms, after;
    bool is_dry;
    double ceiling;
};

static void ask(struct bench *b, struct asker *k, const struct question *q)
{
    struct args_writer args = {0};
    const struct {
        const char *name, *text;
    } texts[] = {{"workers", q->workers}, {"where", q->where}, {"sensor", q->sensor},
                 {"pattern", q->pattern}, {"level", q->level}, {q->set ? q->set : "", q->set ? q->to : NULL}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].text)
            args_add_text(&args, texts[i].name, slice_str(texts[i].text));
    if (q->timeout_ms)
        args_add_uint(&args, "timeout_ms", q->timeout_ms);
    if (q->lease_ms)
        args_add_uint(&args, "lease_ms", q->lease_ms);
    if (q->after)
        args_add_uint(&args, "after", q->after);
    if (q->is_dry)
        args_add(&args, SLICE_LIT("dry_run"), value_bool(true));
    if (q->ceiling > 0)
        args_add(&args, SLICE_LIT("ceiling"), value_float(q->ceiling));
    control_ask(b->c, &k->asker, &(struct frame_control){99, slice_str(q->verb), args_of(&args)});
    args_writer_fini(&args);
}

/* Turns the loop until the last answer is there. */
static void wait_for_end(struct bench *b, const struct asker *k)
{
    time_t end = time(NULL) + PATIENCE_S;
    while (k->status == -1 && time(NULL) < end)
        assert_true(event_base_loop(b->base, EVLOOP_ONCE) >= 0);
    assert_int_not_equal(k->status, -1);
}

static void hosts_are_chosen(void **state)
{
    static const struct {
        const char *workers, *where;
        size_t rows;
        int status;
    } cases[] = {
        {"", "", 4, CONTROL_DONE},
        {"node*", "", 3, CONTROL_DONE},
        {"node1, gate", "", 2, CONTROL_DONE},
        {"node[12]", "cpus >= 8", 1, CONTROL_DONE},
        {"", "cpus >= 8", 2, CONTROL_DONE},
        {"", "cpus >= 8 AND host GLOB 'node*'", 1, CONTROL_DONE},
        {"", "state = 'live' AND mode = 'resident' AND worker > 1", 3, CONTROL_DONE},
        {"", "nothing = 1", 0, CONTROL_NOT_FOUND},
        {"nowhere", "", 0, CONTROL_NOT_FOUND},
        {"", "cpus >=", 0, CONTROL_USAGE},
    };
    struct bench b;
    (void)state;
    open_bench(&b);
    (void)enter(&b, "node1", 4);
    (void)enter(&b, "node2", 8);
    (void)enter(&b, "node3", 2);
    (void)enter(&b, "gate", 64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asker k = asker_of(&local);
        ask(&b, &k,
            &(struct question){.verb = "hosts", .workers = cases[i].workers, .where = cases[i].where});
        assert_int_equal(k.status, cases[i].status);
        assert_int_equal(k.n_rows, cases[i].rows);
        assert_int_equal(k.request, 99);
        assert_true(k.status == CONTROL_DONE || k.text[0]);
        asker_fini(&k);
    }
    close_bench(&b);
}

static void a_host_row_is_whole(void **state)
{
    struct bench b;
    struct asker k = asker_of(&local);
    (void)state;
    open_bench(&b);
    struct worker *w = enter(&b, "node1", 4);
    w->window =
        (struct datagram_window){.highest = 90, .received = 80, .duplicate = 3, .reordered = 2, .too_old = 1};
    w->datagrams_sent = 100;
    ask(&b, &k, &(struct question){.verb = "hosts"});
    assert_int_equal(k.status, CONTROL_DONE);
    assert_true(says(&k, "host=node1 worker=1 state=live since=20"));
    assert_true(says(&k, "mode=resident connected=1 lease_ms=3000 renewed_ms="));
    assert_true(says(&k, "datagrams_sent=100 datagrams_received=80 datagrams_lost=20 datagrams_duplicate=3 "
                         "datagrams_reordered=2 datagrams_too_old=1 cpus=4 | \n"));
    assert_false(says(&k, "hidden")); /* a property does not take the place of a column */
    asker_fini(&k);
    close_bench(&b);
}

/* More rows than a page holds: each once, in order, in pages that fit. */
static void hosts_come_in_pages(void **state)
{
    enum { HOSTS = 2000 };
    struct bench b;
    (void)state;
    open_bench(&b);
    for (int i = 0; i < HOSTS; i++) {
        char host[32];
        (void)snprintf(host, sizeof host, "node%04d", i);
        (void)enter(&b, host, 4);
    }
    size_t rows = 0, pages = 0;
    uint64_t after = 0;
    do {
        struct asker k = asker_of(&owner);
        char first[64];
        ask(&b, &k, &(struct question){.verb = "hosts", .workers = "node*", .after = after});
        assert_int_equal(k.status, CONTROL_DONE);
        (void)snprintf(first, sizeof first, "host=node%04zu ", rows);
        assert_memory_equal(k.rows.p, first, strlen(first));
        rows += k.n_rows;
        pages++;
        assert_int_equal(args_uint(args_of(&k.last), "rows", 0), k.n_rows);
        after = args_uint(args_of(&k.last), "after", 0);
        asker_fini(&k);
    } while (after);
    assert_int_equal(rows, HOSTS);
    assert_true(pages > 3);
    close_bench(&b);
}

/* A page ends after so many workers even if none is meant; the last one is found all the same. */
static void a_rare_host_is_found(void **state)
{
    enum { HOSTS = ROWS_LOOKED * 2 };
    struct bench b;
    size_t rows = 0, pages = 0;
    uint64_t after = 0;
    (void)state;
    open_bench(&b);
    for (int i = 0; i < HOSTS; i++) {
        char host[32];
        (void)snprintf(host, sizeof host, "node%04d", i);
        (void)enter(&b, host, i == HOSTS - 1 ? 77 : 4);
    }
    do {
        struct asker k = asker_of(&owner);
        ask(&b, &k, &(struct question){.verb = "hosts", .where = "cpus = 77", .after = after});
        assert_int_equal(k.status, CONTROL_DONE);
        rows += k.n_rows;
        pages++;
        after = args_uint(args_of(&k.last), "after", 0);
        asker_fini(&k);
    } while (after);
    assert_int_equal(rows, 1);
    assert_true(pages > 1);
    close_bench(&b);
}

static void what_is_not_allowed_is_refused(void **state)
{
    static const char *const acting[] = {"worker.suspend", "worker.kill", "worker.set", "sensor.start",
                                         "activate"};
    struct bench b;
    (void)state;
    open_bench(&b);
    (void)enter(&b, "node1", 4);
    for (size_t i = 0; i < sizeof acting / sizeof *acting; i++) {
        struct asker k = asker_of(&local);
        ask(&b, &k,
            &(struct question){
                .verb = acting[i], .sensor = "cpu", .pattern = "*", .level = "debug", .lease_ms = 5});
        assert_int_equal(k.status, CONTROL_NOT_ALLOWED);
        assert_int_equal(b.done.status, CONTROL_NOT_ALLOWED); /* attempts are in the audit */
        assert_int_equal(b.done.asked, 0);
        assert_int_equal(b.n_done, i + 1);
        asker_fini(&k);
    }
    struct asker k = asker_of(&nobody);
    ask(&b, &k, &(struct question){.verb = "hosts"});
    assert_int_equal(k.status, CONTROL_NOT_ALLOWED);
    asker_fini(&k);
    assert_int_equal(b.n_sent, 0);
    close_bench(&b);
}

static void wrong_questions_are_refused(void **state)
{
    static const struct question wrong[] = {
        {.verb = "worker.fly", .workers = "*"},
        {.verb = "sensor.start", .workers = "*"},
        {.verb = "worker.set", .workers = "*"},
        {.verb = "activate", .level = "debug"},
        {.verb = "activate", .pattern = "disk*"},
        {.verb = "activate", .pattern = "disk*", .level = "loud"},
        {.verb = "worker.suspend", .where = "cpus >"},
    };
    struct bench b;
    (void)state;
    open_bench(&b);
    (void)enter(&b, "node1", 4);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct asker k = asker_of(&owner);
        ask(&b, &k, &wrong[i]);
        assert_int_equal(k.status, CONTROL_USAGE);
        assert_true(k.text[0]);
        asker_fini(&k);
    }
    struct asker k = asker_of(&owner);
    ask(&b, &k, &(struct question){.verb = "worker.suspend", .workers = "nowhere"});
    assert_int_equal(k.status, CONTROL_NOT_FOUND);
    asker_fini(&k);
    assert_int_equal(b.n_sent, 0);
    close_bench(&b);
}

static void each_worker_answers(void **state)
{
    struct bench b;
    struct asker k = asker_of(&owner);
    (void)state;
    open_bench(&b);
    for (int i = 0; i < 3; i++)
        (void)enter(&b, (const char *[]){"a", "b", "c"}[i], 4);
    ask(&b, &k,
        &(struct question){.verb = "sensor.start", .workers = "a,b", .sensor = "disk", .ceiling = 10});
    assert_int_equal(b.n_sent, 2);
    assert_string_equal(b.last_verb, "sensor.start");
    assert_slice(args_text(args_of(&b.last_sent), "sensor"), "disk");
    assert_int_equal(args_value(args_of(&b.last_sent), "ceiling").type, VALUE_FLOAT);
    assert_int_equal(args_value(args_of(&b.last_sent), "workers").type, VALUE_NONE);
    answer_as(&b, 0, CONTROL_MORE, "predicted 7 us/s");
    answer_as(&b, 0, CONTROL_DONE, "started");
    answer_as(&b, 0, CONTROL_DONE, "started"); /* twice does not count twice */
    assert_int_equal(k.status, -1);
    answer_as(&b, 1, CONTROL_DONE, "");
    assert_int_equal(k.status, CONTROL_DONE);
    assert_string_equal(k.text, "2 of 2");
    assert_int_equal(k.n_rows, 3);
    assert_true(says(&k, "host=a worker=1 cost=7 | predicted 7 us/s\n"));
    assert_true(says(&k, "host=a worker=1 answer=done cost=7 | started\n"));
    assert_false(says(&k, "liar"));
    assert_int_equal(b.done.asked, 2);
    assert_int_equal(b.done.answered, 2);
    assert_int_equal(b.done.who->kind, ACCESS_OWNER);
    assert_string_equal(b.done_workers, "a,b");
    asker_fini(&k);
    close_bench(&b);
}

static void part_of_them_did_not(void **state)
{
    struct bench b;
    struct asker k = asker_of(&owner);
    (void)state;
    open_bench(&b);
    for (int i = 0; i < 6; i++)
        (void)enter(&b, (const char *[]){"a", "b", "c", "d", "e", "f"}[i], 4);
    worker_disconnected(b.ws, workers_by_id(b.ws, 2), clock_boot_ns(), clock_utc_ns());
    worker_leave(b.ws, workers_by_id(b.ws, 6), clock_utc_ns());
    b.dead = "c";
    ask(&b, &k, &(struct question){.verb = "worker.suspend", .timeout_ms = 20});
    assert_int_equal(b.n_sent, 3); /* a, d, e */
    answer_as(&b, 0, CONTROL_DONE, "");
    control_disconnected(b.c, workers_by_id(b.ws, 4));
    wait_for_end(&b, &k);
    assert_int_equal(k.status, CONTROL_PARTLY);
    assert_string_equal(k.text, "1 of 6");
    assert_int_equal(k.asked, 6);
    assert_int_equal(k.n_rows, 6);
    assert_true(says(&k, "host=a worker=1 answer=done"));
    assert_true(says(&k, "host=b worker=2 answer=not_connected"));
    assert_true(says(&k, "host=c worker=3 answer=not_connected"));
    assert_true(says(&k, "host=d worker=4 answer=no_answer"));
    assert_true(says(&k, "host=e worker=5 answer=no_answer"));
    assert_true(says(&k, "host=f worker=6 answer=not_connected"));
    answer_as(&b, 2, CONTROL_DONE, ""); /* too late: nobody hears of it */
    assert_int_equal(b.done.asked, 6);
    assert_int_equal(b.done.answered, 1);
    assert_int_equal(b.done.status, CONTROL_PARTLY);
    asker_fini(&k);
    close_bench(&b);
}

static void the_status_says_why_none_did(void **state)
{
    static const struct {
        uint16_t answers[2];
        int status;
    } cases[] = {
        {{CONTROL_FAILED, CONTROL_FAILED}, CONTROL_FAILED},
        {{CONTROL_NOT_FOUND, CONTROL_NOT_FOUND}, CONTROL_NOT_FOUND},
        {{CONTROL_NOT_FOUND, CONTROL_FAILED}, CONTROL_FAILED},
        {{CONTROL_PARTLY, CONTROL_FAILED}, CONTROL_PARTLY},
        {{CONTROL_DONE, CONTROL_USAGE}, CONTROL_PARTLY},
        {{4711, 4711}, CONTROL_FAILED},
    };
    struct bench b;
    (void)state;
    open_bench(&b);
    (void)enter(&b, "a", 4);
    (void)enter(&b, "b", 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asker k = asker_of(&owner);
        b.n_sent = 0;
        ask(&b, &k, &(struct question){.verb = "sensor.stop", .sensor = "x"});
        answer_as(&b, 0, cases[i].answers[0], "");
        answer_as(&b, 1, cases[i].answers[1], "");
        assert_int_equal(k.status, cases[i].status);
        asker_fini(&k);
    }
    close_bench(&b);
}

/* More targets than a slice, answers from inside of send, and an asker that leaves in the middle of it. */
static void many_workers_are_asked_in_slices(void **state)
{
    struct bench b;
    struct asker k = asker_of(&owner), gone = asker_of(&owner);
    (void)state;
    open_bench(&b);
    for (int i = 0; i < 400; i++) {
        char host[32];
        (void)snprintf(host, sizeof host, "node%04d", i);
        (void)enter(&b, host, 4);
    }
    b.answers_inside = true;
    ask(&b, &k, &(struct question){.verb = "worker.resume"});
    assert_int_equal(k.status, -1); /* not all in one turn */
    wait_for_end(&b, &k);
    assert_int_equal(k.status, CONTROL_DONE);
    assert_string_equal(k.text, "400 of 400");
    assert_int_equal(k.n_rows, 400);
    b.n_sent = 0;
    gone.forgets = b.c;
    ask(&b, &gone, &(struct question){.verb = "worker.resume"});
    time_t end = time(NULL) + PATIENCE_S;
    while (b.n_done < 2 && time(NULL) < end)
        assert_true(event_base_loop(b.base, EVLOOP_ONCE) >= 0);
    assert_int_equal(b.n_sent, 400); /* what it asked goes on */
    assert_int_equal(gone.n_rows, 1);
    assert_int_equal(b.done.answered, 400);
    gone.n_rows = 0;
    gone.status = -1;
    ask(&b, &gone, &(struct question){.verb = "hosts"});
    assert_int_equal(gone.n_rows, 1);
    asker_fini(&k);
    asker_fini(&gone);
    close_bench(&b);
}

static void settings_are_kept_when_the_agent_agrees(void **state)
{
    struct bench b;
    (void)state;
    open_bench(&b);
    struct worker *w = enter(&b, "a", 4);
    struct asker k = asker_of(&owner), l = asker_of(&owner), m = asker_of(&owner), n = asker_of(&owner);
    ask(&b, &k,
        &(struct question){.verb = "worker.set", .set = "set.vector.every", .to = "2s", .lease_ms = 60000});
    assert_slice(args_text(args_of(&b.last_sent), "set.vector.every"), "2s");
    assert_int_equal(w->lease_ms, 3000);
    assert_int_equal(w->settings_n, 0);
    answer_as(&b, 0, CONTROL_DONE, "");
    assert_int_equal(w->lease_ms, 60000);
    assert_true(w->has_unsent_settings);
    assert_slice(args_text(choice_list(w->settings, w->settings_n), "vector.every"), "2s");
    ask(&b, &l, &(struct question){.verb = "worker.set", .set = "set.no.such", .to = "2s"});
    answer_as(&b, 1, CONTROL_FAILED, "no such key");
    assert_int_equal(l.status, CONTROL_FAILED);
    assert_int_equal(choice_list(w->settings, w->settings_n).n, 1);
    /* Without a connection there is nobody to disagree: it is kept for the next lease. */
    worker_disconnected(b.ws, w, clock_boot_ns(), clock_utc_ns());
    ask(&b, &m, &(struct question){.verb = "worker.set", .set = "set.cpu.every", .to = "5s"});
    assert_int_equal(m.status, CONTROL_FAILED);
    assert_true(says(&m, "answer=not_connected | no connection; it is given them with its next lease"));
    assert_int_equal(choice_list(w->settings, w->settings_n).n, 2);
    /* An empty text takes one out. */
    ask(&b, &n, &(struct question){.verb = "worker.set", .set = "set.vector.every", .to = ""});
    assert_int_equal(choice_list(w->settings, w->settings_n).n, 1);
    assert_slice(args_text(choice_list(w->settings, w->settings_n), "cpu.every"), "5s");
    asker_fini(&k);
    asker_fini(&l);
    asker_fini(&m);
    asker_fini(&n);
    close_bench(&b);
}

static void settings_have_a_limit(void **state)
{
    struct bench b;
    struct asker k = asker_of(&owner);
    char *large = mem_alloc(WORKER_SETTINGS_MAX + 1);
    (void)state;
    open_bench(&b);
    struct worker *w = enter(&b, "a", 4);
    memset(large, 'x', WORKER_SETTINGS_MAX);
    ask(&b, &k, &(struct question){.verb = "worker.set", .set = "set.a.b", .to = large});
    assert_int_equal(k.status, CONTROL_FAILED);
    assert_int_equal(b.n_sent, 0);
    assert_int_equal(w->settings_n, 0);
    mem_free(large);
    asker_fini(&k);
    close_bench(&b);
}

static void programs_are_activated_behind_the_agent(void **state)
{
    struct bench b;
    struct asker k[4];
    (void)state;
    open_bench(&b);
    for (size_t i = 0; i < 4; i++)
        k[i] = asker_of(&owner);
    (void)enter(&b, "a", 4);
    ask(&b, &k[0], &(struct question){.verb = "activate", .pattern = "disk*", .level = "debug"});
    assert_string_equal(b.activated, ""); /* not before the agent has said what it costs */
    answer_as(&b, 0, CONTROL_DONE, "");
    assert_string_equal(b.activated, "a: disk*=12;");
    assert_true(says(&k[0], "programs=2"));
    ask(&b, &k[1], &(struct question){.verb = "activate", .pattern = "net*", .level = "off"});
    answer_as(&b, 1, CONTROL_DONE, "");
    assert_string_equal(b.activated, "a: disk*=12;a: disk*=12 net*=-1;"); /* the list has both */
    b.activated[0] = '\0';
    ask(&b, &k[2], &(struct question){.verb = "activate", .pattern = "disk*", .level = "default"});
    answer_as(&b, 2, CONTROL_DONE, "");
    assert_string_equal(b.activated, "a: net*=-1;");
    b.activated[0] = '\0';
    ask(&b, &k[3], &(struct question){.verb = "activate", .pattern = "*", .level = "trace", .is_dry = true});
    answer_as(&b, 3, CONTROL_DONE, "");
    assert_string_equal(b.activated, "");
    for (size_t i = 0; i < 4; i++)
        asker_fini(&k[i]);
    close_bench(&b);
}

static void a_dry_run_asks_nobody(void **state)
{
    struct bench b;
    struct asker k = asker_of(&owner), l = asker_of(&owner);
    (void)state;
    open_bench(&b);
    struct worker *w = enter(&b, "a", 4);
    ask(&b, &k, &(struct question){.verb = "worker.kill", .is_dry = true});
    ask(&b, &l, &(struct question){.verb = "worker.set", .is_dry = true, .lease_ms = 9000});
    assert_int_equal(b.n_sent, 0);
    assert_true(says(&k, "answer=would_ask"));
    assert_int_equal(l.status, CONTROL_DONE);
    assert_int_equal(w->lease_ms, 3000);
    asker_fini(&k);
    asker_fini(&l);
    close_bench(&b);
}

static void questions_are_bounded(void **state)
{
    struct bench b;
    static struct asker k[CONTROL_REQUESTS + 1];
    (void)state;
    open_bench(&b);
    (void)enter(&b, "a", 4);
    for (size_t i = 0; i <= CONTROL_REQUESTS; i++) {
        k[i] = asker_of(&owner);
        ask(&b, &k[i], &(struct question){.verb = "worker.suspend"});
    }
    assert_int_equal(b.n_sent, CONTROL_REQUESTS);
    assert_int_equal(k[CONTROL_REQUESTS].status, CONTROL_FAILED);
    control_disconnected(b.c, workers_by_id(b.ws, 1)); /* ends them all */
    for (size_t i = 0; i < CONTROL_REQUESTS; i++)
        assert_int_equal(k[i].status, CONTROL_FAILED);
    for (size_t i = 0; i <= CONTROL_REQUESTS; i++)
        asker_fini(&k[i]);
    close_bench(&b);
}

static void a_worker_that_never_ends_is_ended(void **state)
{
    struct bench b;
    struct asker k = asker_of(&owner);
    (void)state;
    open_bench(&b);
    (void)enter(&b, "a", 4);
    ask(&b, &k, &(struct question){.verb = "sensor.list"});
    for (int i = 0; i < 5000; i++)
        answer_as(&b, 0, CONTROL_MORE, "");
    assert_int_equal(k.status, CONTROL_FAILED);
    assert_int_equal(k.n_rows, 4097);
    asker_fini(&k);
    close_bench(&b);
}

static struct account *account(struct bench *b, uint8_t producer, uint8_t class)
{
    struct frame_origin o = {.epoch = 1};
    memset(o.producer, producer, sizeof o.producer);
    struct account *a = ledger_account(&b->ledger, &o);
    assert_non_null(a);
    a->class = class;
    return a;
}

static void set_counts(struct account *a, uint64_t taken, uint64_t passed, bool is_final)
{
    struct frame_counts counts = {.origin = a->origin,
                                  .class = a->class,
                                  .is_final = is_final,
                                  .taken = taken,
                                  .passed = passed,
                                  .dropped = {[1] = taken - passed}};
    struct strbuf frame = {0};
    struct frame f;
    frame_put_counts(&frame, &counts);
    assert_true(frame_read(strbuf_slice(&frame), FRAME_PAYLOAD_MAX, &f) > 0);
    assert_int_equal(account_set_counts(a, f.payload, &counts), 1);
    strbuf_fini(&frame);
}

static void the_ledger_is_told(void **state)
{
    struct bench b;
    struct asker all = asker_of(&local), some = asker_of(&local), none = asker_of(&local);
    struct asker again = asker_of(&local);
    (void)state;
    open_bench(&b);
    (void)enter(&b, "node1", 4); /* its producer is 40 40 ... */
    struct account *samples = account(&b, 0x40, CLASS_SAMPLES), *events = account(&b, 0x77, CLASS_EVENTS);
    samples->taken = 92;
    samples->passed = 80;
    samples->duplicate = 2;
    samples->no_schema = 10;
    samples->highest = 80;
    set_counts(samples, 120, 100, false);
    events->taken = 7;
    events->passed = 7;
    assert_int_equal(seq_set_add(&events->held, 1, 3), 0);
    assert_int_equal(seq_set_add(&events->held, 6, 9), 0);
    set_counts(events, 9, 7, true);
    ask(&b, &all, &(struct question){.verb = "ledger"});
    assert_int_equal(all.status, CONTROL_DONE);
    assert_int_equal(all.n_rows, 2);
    assert_true(says(
        &all,
        "host=node1 producer=40404040404040404040404040404040 epoch=1 class=samples state=open "
        "taken=92 passed=80 duplicate=2 refused=0 too_old=0 too_new=0 no_schema=10 queued=0 retried=0 lost=10 "
        "highest_seq=80 sender_taken=120 sender_passed=100 sender_queued=0 sender_filtered=0 sender_dropped=20 sender_ring_full=20 "
        "tail=unknown, at least 120 at_least=120 | \n"));
    assert_true(says(&all,
                     "\nproducer=77777777777777777777777777777777 epoch=1 class=events state=closed taken=7 "
                     "passed=7 duplicate=0 refused=0 too_old=0 too_new=0 no_schema=0 queued=0 retried=0 lost=2 highest_seq=9"));
    assert_true(says(&all, "tail=known at_least=9"));
    events->refused = 1; /* has a number, and is dropped: no longer lost on the way */
    events->taken++;
    ask(&b, &again, &(struct question){.verb = "ledger"});
    assert_true(says(&again, "refused=1 too_old=0 too_new=0 no_schema=0 queued=0 retried=0 lost=1 highest_seq=9"));
    ask(&b, &some, &(struct question){.verb = "ledger", .workers = "node*"});
    assert_int_equal(some.n_rows, 1);
    ask(&b, &none, &(struct question){.verb = "ledger", .workers = "gate*"});
    assert_int_equal(none.status, CONTROL_NOT_FOUND);
    asker_fini(&all);
    asker_fini(&again);
    asker_fini(&some);
    asker_fini(&none);
    close_bench(&b);
}

enum { ACCOUNTS = 1500 };

static struct frame_origin origin_number(uint32_t i)
{
    struct frame_origin o = {.epoch = 1 + i % 3};
    memset(o.producer, 9, sizeof o.producer);
    memcpy(o.producer, &(uint32_t){i / 3}, 4);
    return o;
}

static void open_large_ledger(struct bench *b)
{
    open_bench(b);
    for (uint32_t i = 0; i < ACCOUNTS; i++)
        assert_non_null(ledger_account(&b->ledger, &(struct frame_origin[]){origin_number(i)}[0]));
}

/* The next page to the same asker: where the one behind it begins, 0 = there is none. */
static uint64_t next_page(struct bench *b, struct asker *k, uint64_t after)
{
    k->status = -1;
    args_writer_reset(&k->last);
    ask(b, k, &(struct question){.verb = "ledger", .after = after});
    return args_uint(args_of(&k->last), "after", 0);
}

/* Each account once, whatever moves in the ledger meanwhile. */
static void the_ledger_comes_in_pages(void **state)
{
    struct bench b;
    struct asker k = asker_of(&owner);
    size_t pages = 0;
    uint64_t after = 0;
    (void)state;
    open_large_ledger(&b);
    do {
        after = next_page(&b, &k, after);
        assert_int_equal(k.status, CONTROL_DONE);
        pages++;
        for (uint32_t i = 0; i < ACCOUNTS; i += 7) /* these become the newest */
            assert_non_null(ledger_account(&b.ledger, &(struct frame_origin[]){origin_number(i)}[0]));
    } while (after);
    assert_int_equal(k.n_rows, ACCOUNTS);
    assert_true(pages > 2);
    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        struct frame_origin o = origin_number(i);
        char text[80], *at = text;
        at += snprintf(at, 16, "producer=");
        for (size_t n = 0; n < sizeof o.producer; n++)
            at += snprintf(at, 3, "%02x", o.producer[n]);
        (void)snprintf(at, 16, " epoch=%u ", (unsigned)o.epoch);
        char *first = strstr(k.rows.p, text);
        assert_non_null(first);
        assert_null(strstr(first + 1, text));
    }
    asker_fini(&k);
    close_bench(&b);
}

static void a_page_is_for_who_asked(void **state)
{
    struct bench b;
    struct asker k[6];
    uint64_t after[6];
    (void)state;
    open_large_ledger(&b);
    for (size_t i = 0; i < 6; i++) {
        k[i] = asker_of(&owner);
        after[i] = next_page(&b, &k[i], 0);
        assert_int_not_equal(after[i], 0);
    }
    (void)next_page(&b, &k[5], after[4]); /* another's */
    assert_int_equal(k[5].status, CONTROL_FAILED);
    (void)next_page(&b, &k[0], after[0]); /* gave way to later ones */
    assert_int_equal(k[0].status, CONTROL_FAILED);
    assert_int_not_equal(next_page(&b, &k[5], after[5]), 0);
    control_forget(b.c, &k[4].asker);
    (void)next_page(&b, &k[4], after[4]);
    assert_int_equal(k[4].status, CONTROL_FAILED);
    k[3].forgets = b.c; /* leaves in the middle of a page */
    size_t rows = k[3].n_rows;
    (void)next_page(&b, &k[3], after[3]);
    assert_int_equal(k[3].n_rows, rows + 1);
    for (size_t i = 0; i < 6; i++)
        asker_fini(&k[i]);
    close_bench(&b);
}

static void status_has_numbers(void **state)
{
    struct bench b;
    struct asker k = asker_of(&local);
    (void)state;
    open_bench(&b);
    (void)enter(&b, "a", 4);
    ask(&b, &k, &(struct question){.verb = "status"});
    assert_int_equal(k.status, CONTROL_DONE);
    assert_int_equal(args_uint(args_of(&k.last), "workers", 0), 1);
    assert_int_equal(args_uint(args_of(&k.last), "sessions", 0), 3);
    asker_fini(&k);
    close_bench(&b);
}

/* Whichever allocation fails: an answer with a status, or none at all when the row could not be made; no
 * crash. */
static void memory_can_run_out(void **state)
{
    static const struct question questions[] = {
        {.verb = "hosts", .where = "cpus > 1"},
        {.verb = "ledger"},
        {.verb = "worker.set", .set = "set.a.b", .to = "1", .where = "cpus > 1"},
        {.verb = "activate", .pattern = "x", .level = "info"},
    };
    (void)state;
    for (size_t q = 0; q < sizeof questions / sizeof *questions; q++) {
        for (uint64_t nth = 1; nth < 60; nth++) {
            struct bench b;
            struct asker k = asker_of(&owner);
            open_bench(&b);
            b.answers_inside = true;
            (void)enter(&b, "a", 4);
            (void)account(&b, 0x40, CLASS_EVENTS);
            strbuf_add_str(&k.rows, " ");
            strbuf_add(&b.last_sent.list, "                                ", 32);
            (void)strbuf_room(&k.rows, 4096);
            (void)strbuf_room(&k.last.list, 4096);
            mem_fail_after(nth);
            ask(&b, &k, &questions[q]);
            mem_fail_after(0);
            assert_true(k.status >= 0);
            asker_fini(&k);
            close_bench(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_chosen),
        cmocka_unit_test(a_host_row_is_whole),
        cmocka_unit_test(hosts_come_in_pages),
        cmocka_unit_test(a_rare_host_is_found),
        cmocka_unit_test(what_is_not_allowed_is_refused),
        cmocka_unit_test(wrong_questions_are_refused),
        cmocka_unit_test(each_worker_answers),
        cmocka_unit_test(part_of_them_did_not),
        cmocka_unit_test(the_status_says_why_none_did),
        cmocka_unit_test(many_workers_are_asked_in_slices),
        cmocka_unit_test(settings_are_kept_when_the_agent_agrees),
        cmocka_unit_test(settings_have_a_limit),
        cmocka_unit_test(programs_are_activated_behind_the_agent),
        cmocka_unit_test(a_dry_run_asks_nobody),
        cmocka_unit_test(questions_are_bounded),
        cmocka_unit_test(a_worker_that_never_ends_is_ended),
        cmocka_unit_test(the_ledger_is_told),
        cmocka_unit_test(the_ledger_comes_in_pages),
        cmocka_unit_test(a_page_is_for_who_asked),
        cmocka_unit_test(status_has_numbers),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
