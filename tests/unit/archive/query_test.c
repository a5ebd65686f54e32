/* SPDX-License-Identifier: Apache-2.0 */
/* The query threads by themselves: what comes when, limits, cancelling, slow readers, system tables. The
 * engine is one that does what its texts say, so that each of these can be made to happen:
 *
 *     rows N       N rows of a number and 100 bytes
 *     forever      no row until it is cancelled or its time is up
 *     bad          is wrong at column 3
 *     tables       a row for each system table that was mounted: its name and how many rows
 *     fails N      N rows, then an error
 *     who          a row for each table that the asker may see, of a, b and c
 */
#include "unit/test.h"

#include "archive/query.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* ---------------------------------------------------------------- an engine that does as it is told */

static _Atomic int n_readers, n_engines, n_stepping, most_stepping;

struct view_reader {
    int unused;
};
struct sql_engine {
    pthread_t thread;
};
struct sql_statement {
    const struct sql_query *query;
    struct sql_query copy;
    uint64_t n, at;
    int64_t until_ns;
    int end;
    bool is_forever;
    char text[128];
};

int view_reader_create(struct archive *a, const char *dir, size_t cache_bytes, struct view_reader **out,
                       struct diag *why)
{
    (void)a, (void)cache_bytes;
    if (strcmp(dir, "missing") == 0)
        return diag_set(why, -ENOENT, 0, "there is no archive in missing");
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    n_readers++;
    return 0;
}

void view_reader_destroy(struct view_reader *r)
{
    n_readers -= r != NULL;
    free(r);
}

int sql_engine_create(struct view_reader *r, struct sql_engine **out)
{
    assert_non_null(r);
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    (*out)->thread = pthread_self();
    n_engines++;
    return 0;
}

void sql_engine_destroy(struct sql_engine *e)
{
    n_engines -= e != NULL;
    free(e);
}

static bool has_word(struct slice text, const char *word, uint64_t *n)
{
    size_t length = strlen(word);
    *n = 0;
    if (!slice_starts(text, slice_str(word)))
        return false;
    return text.n == length || num_parse_uint(slice_from(text, length + 1), n) == 0;
}

int sql_prepare(struct sql_engine *e, const struct sql_query *q, struct sql_statement **out, struct diag *why)
{
    uint64_t n = 0;
    assert_true(pthread_equal(e->thread, pthread_self()));
    if (has_word(q->text, "bad", &n))
        return diag_set(why, E_PROTO, 3, "what is that?");
    struct sql_statement *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->copy = *q;
    s->until_ns = clock_mono_ns() + q->limits->time_ns;
    s->is_forever = has_word(q->text, "forever", &n);
    if (has_word(q->text, "fails", &n))
        s->end = E_LIMIT;
    if (has_word(q->text, "rows", &n) || has_word(q->text, "fails", &n))
        s->n = n;
    else if (slice_starts(q->text, SLICE_LIT("tables")))
        s->n = q->n_mounted;
    else if (has_word(q->text, "who", &n))
        s->n = 3;
    *out = s;
    return 0;
}

void sql_finish(struct sql_statement *s)
{
    free(s);
}

size_t sql_columns(const struct sql_statement *s)
{
    (void)s;
    return 2;
}

const char *sql_column_name(const struct sql_statement *s, size_t i)
{
    (void)s;
    return i ? "text" : "n";
}

static int wait_for_ever(const struct sql_statement *s, struct diag *why)
{
    int now = ++n_stepping, most = most_stepping;
    while (now > most && !atomic_compare_exchange_weak(&most_stepping, &most, now))
        ;
    int r = 0;
    while (r == 0) {
        const struct timespec soon = {0, 1000000};
        (void)nanosleep(&soon, NULL);
        atomic_fetch_add(s->copy.progress, 1);
        r = atomic_load(s->copy.is_cancelled) ? -ECANCELED : clock_mono_ns() >= s->until_ns ? -ETIMEDOUT : 0;
    }
    n_stepping--;
    return diag_set(why, r, 0, "%s", err_text(r));
}

int sql_step(struct sql_statement *s, struct diag *why)
{
    static const char *const events[] = {"a", "b", "c"};
    const struct sql_query *q = &s->copy;
    if (s->is_forever)
        return wait_for_ever(s, why);
    if (has_word(q->text, "who", &(uint64_t){0}))
        while (s->at < s->n && q->access->may_table &&
               !q->access->may_table(q->access->arg, slice_str(events[s->at])))
            s->at++;
    if (s->at == s->n)
        return s->end ? diag_set(why, s->end, 0, "so it was told") : 0;
    (void)snprintf(s->text, sizeof s->text, "%0100d", 7);
    if (slice_starts(q->text, SLICE_LIT("tables"))) {
        size_t rows = 0;
        for (size_t i = 0; i < q->mounted[s->at].n; i++)
            rows += q->mounted[s->at].batches[i]->n;
        (void)snprintf(s->text, sizeof s->text, "%s %zu", q->mounted[s->at].name, rows);
    }
    if (has_word(q->text, "who", &(uint64_t){0}))
        (void)snprintf(s->text, sizeof s->text, "%s", events[s->at]);
    s->at++;
    return 1;
}

struct sql_value sql_value(const struct sql_statement *s, size_t i)
{
    if (i == 0)
        return (struct sql_value){.kind = SQL_INT, .i = (int64_t)s->at};
    return (struct sql_value){.kind = SQL_TEXT, .text = slice_str(s->text)};
}

struct scan_loss sql_damaged(const struct sql_statement *s)
{
    return (struct scan_loss){.rows = s->n == 13 ? 5 : 0, .chunks = s->n == 13 ? 1 : 0};
}

const struct notices *sql_notices(const struct sql_statement *s)
{
    static struct notices none, some = {.n = 1, .list = {{.code = "a", .text = "b"}}};
    return s->n == 13 ? &some : &none;
}

/* Words by blanks. */
void sql_identifiers(struct slice text, void (*fn)(void *arg, struct slice name), void *arg)
{
    while (text.n) {
        const char *blank = memchr(text.p, ' ', text.n);
        struct slice word = slice_of(text.p, blank ? (size_t)(blank - text.p) : text.n);
        fn(arg, word);
        text = slice_from(text, word.n + 1);
    }
}

/* ---------------------------------------------------------------- askers */

struct asker {
    struct query_asker asker; /* first */
    struct queries *all;
    struct query *query;
    struct strbuf got;
    size_t pieces, ends, told;
    uint64_t seen, rows, lost, notices;
    int result, closes_at; /* closes_at: with that piece; 0 = never, -1: with its end */
    bool is_slow;          /* does not ask for more by itself */
    struct diag why;
};

static void on_piece(struct query_asker *asker, struct slice bytes)
{
    struct asker *a = (struct asker *)asker;
    const struct query_ops *ops = queries_ops(a->all);
    assert_int_equal(a->ends, 0);
    strbuf_add_slice(&a->got, bytes);
    if (++a->pieces == (size_t)a->closes_at)
        ops->close(a->query);
    else if (!a->is_slow)
        ops->more(a->query);
}

static void on_end(struct query_asker *asker, const struct query_end *end)
{
    struct asker *a = (struct asker *)asker;
    a->ends++;
    a->result = end->r;
    a->why = *end->why;
    a->rows = end->rows;
    a->lost = end->lost;
    a->notices = end->notices->n;
    if (a->closes_at < 0)
        queries_ops(a->all)->close(a->query);
}

static void on_progress(struct query_asker *asker, uint64_t seen, int64_t elapsed_ns)
{
    struct asker *a = (struct asker *)asker;
    assert_true(elapsed_ns > 0);
    a->seen = seen;
    a->told++;
}

static struct queries *make(const struct queries_options *o)
{
    struct queries *all = NULL;
    struct diag why = {0};
    struct queries_options options = *o;
    options.dir = options.dir ? options.dir : "archive";
    assert_int_equal(queries_create(&options, &all, &why), 0);
    return all;
}

/* 0, or why it was refused. */
static int ask_limited(struct queries *all, struct asker *a, const char *text, int64_t time_ns)
{
    const struct query_text q = {.text = slice_str(text), .format = QUERY_CSV, .time_ns = time_ns};
    int error = 0;
    a->all = all;
    a->asker.piece = on_piece;
    a->asker.end = on_end;
    a->asker.progress = on_progress;
    a->query = queries_ops(all)->ask(queries_ops(all)->arg, &a->asker, &q, &error, &a->why);
    assert_true(a->query ? error == 0 : error < 0 && a->why.message[0]);
    return error;
}

static int ask(struct queries *all, struct asker *a, const char *text)
{
    return ask_limited(all, a, text, 0);
}

/* A turn, when there is something to do. */
static void turn(struct queries *all)
{
    struct pollfd p = {.fd = queries_ops(all)->fd(queries_ops(all)->arg), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
    queries_ops(all)->turn(queries_ops(all)->arg);
}

static void finish(struct queries *all, const struct asker *a)
{
    while (a->ends == 0)
        turn(all);
}

static void end(struct queries *all, struct asker *a)
{
    queries_ops(all)->close(a->query);
    strbuf_fini(&a->got);
    *a = (struct asker){0};
}

static void destroy(struct queries *all)
{
    queries_destroy(all);
    assert_int_equal(n_readers, 0);
    assert_int_equal(n_engines, 0);
}

static size_t lines(const struct asker *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->got.n; i++)
        n += a->got.p[i] == '\n';
    return n;
}

/* ---------------------------------------------------------------- tests */

static void a_query_is_answered(void **state)
{
    (void)state;
    struct queries *all = make(&(struct queries_options){0});
    struct queries_counts counts;
    struct asker a = {0};
    assert_int_equal(ask(all, &a, "rows 3"), 0);
    assert_int_equal(a.pieces, 0); /* nothing comes from within ask */
    finish(all, &a);
    assert_int_equal(a.result, 0);
    assert_int_equal(a.rows, 3);
    assert_int_equal(a.pieces, 1);
    assert_int_equal(lines(&a), 4);
    end(all, &a);
    assert_int_equal(ask(all, &a, "rows 13"), 0); /* 13 has lost some */
    finish(all, &a);
    assert_int_equal(a.lost, 6);
    assert_int_equal(a.notices, 1);
    end(all, &a);
    assert_int_equal(ask(all, &a, "bad"), 0);
    finish(all, &a);
    assert_int_equal(a.result, E_PROTO);
    assert_int_equal(a.why.col, 3);
    assert_int_equal(a.pieces, 0);
    end(all, &a);
    queries_counts(all, &counts);
    assert_int_equal(counts.done, 2);
    assert_int_equal(counts.failed, 1);
    assert_int_equal(counts.rows, 16);
    assert_int_equal(counts.waiting + counts.open, 0);
    destroy(all);
}

static void many_pages_flow(void **state)
{
    (void)state;
    struct queries *all = make(&(struct queries_options){0});
    struct asker a = {0};
    assert_int_equal(ask(all, &a, "rows 20000"), 0);
    finish(all, &a);
    assert_int_equal(a.result, 0);
    assert_int_equal(lines(&a), 20001);
    assert_true(a.pieces > 2 * QUERY_AHEAD);
    end(all, &a);
    destroy(all);
}

/* What went wrong behind the first page ends a result; before it there is none. */
static void an_error_has_rows_before_it(void **state)
{
    (void)state;
    struct queries *all = make(&(struct queries_options){0});
    struct asker a = {0};
    assert_int_equal(ask(all, &a, "fails 10"), 0);
    finish(all, &a);
    assert_int_equal(a.result, E_LIMIT);
    assert_int_equal(a.pieces, 0);
    end(all, &a);
    assert_int_equal(ask(all, &a, "fails 5000"), 0);
    finish(all, &a);
    assert_int_equal(a.result, E_LIMIT);
    assert_int_equal(lines(&a), 5001);
    end(all, &a);
    destroy(all);
}

static void no_archive(void **state)
{
    (void)state;
    struct queries *all = make(&(struct queries_options){.dir = "missing"});
    struct asker a = {0};
    assert_int_equal(ask(all, &a, "rows 3"), 0);
    finish(all, &a);
    assert_int_equal(a.result, -ENOENT);
    assert_string_equal(a.why.message, "there is no archive in missing");
    end(all, &a);
    destroy(all);
}

static void time_is_up(void **state)
{
    (void)state;
    struct queries *all = make(&(struct queries_options){.time_max_ns = 10 * NS_PER_S});
    struct asker a = {0};
    assert_int_equal(ask_limited(all, &a, "forever", 11 * NS_PER_S), E_LIMIT);
    assert_int_equal(ask_limited(all, &a, "forever", NS_PER_S + NS_PER_S / 5), 0);
    finish(all, &a);
    assert_int_equal(a.result, -ETIMEDOUT);
    assert_true(a.told >= 1); /* of its progress */
    assert_true(a.seen > 0);
    end(all, &a);
    destroy(all);
}

/* As many run as may, the next ones wait, those beyond are refused; each in its turn. */
static void too_many(void **state)
{
    (void)state;
    enum { N = 5 };
    struct queries *all = make(&(struct queries_options){.running = 2, .waiting = 3});
    struct asker a[N] = {0}, refused = {0};
    struct queries_counts counts;
    most_stepping = 0;
    for (size_t i = 0; i < N; i++)
        assert_int_equal(ask_limited(all, &a[i], "forever", NS_PER_S / 2), 0);
    queries_counts(all, &counts);
    assert_int_equal(counts.open, 2);
    assert_int_equal(counts.waiting, 3);
    assert_int_equal(ask(all, &refused, "rows 1"), -EAGAIN);
    assert_non_null(strstr(refused.why.message, "too many queries"));
    for (size_t i = 0; i < N; i++)
        finish(all, &a[i]);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(a[i].result, -ETIMEDOUT);
        end(all, &a[i]);
    }
    assert_true(most_stepping <= 2);
    queries_counts(all, &counts);
    assert_int_equal(counts.refused, 1);
    assert_int_equal(counts.timed_out, N);
    destroy(all);
}

static void closing_cancels(void **state)
{
    (void)state;
    struct queries *all = make(&(struct queries_options){.running = 1});
    struct asker runs = {0}, waits = {0}, next = {0};
    assert_int_equal(ask_limited(all, &runs, "forever", 100 * NS_PER_S), 0);
    assert_int_equal(ask(all, &waits, "rows 1"), 0);
    assert_int_equal(ask(all, &next, "rows 2"), 0);
    end(all, &waits); /* never began */
    end(all, &runs);
    finish(all, &next); /* which could not begin otherwise */
    assert_int_equal(next.result, 0);
    end(all, &next);
    destroy(all);
}

/* From within every callback, and without a turn between the last of it and the end of all. */
static void closing_from_callbacks(void **state)
{
    (void)state;
    for (int at = 1; at <= 12; at++) {
        struct queries *all = make(&(struct queries_options){0});
        struct asker a = {.closes_at = at}, b = {.closes_at = -1};
        assert_int_equal(ask(all, &a, "rows 20000"), 0);
        assert_int_equal(ask(all, &b, "rows 5000"), 0);
        while (a.pieces < (size_t)at || b.ends == 0)
            turn(all);
        assert_int_equal(a.ends, 0);
        assert_int_equal(lines(&b), 5001);
        strbuf_fini(&a.got);
        strbuf_fini(&b.got);
        destroy(all);
    }
}

static void closing_while_threads_run(void **state)
{
    (void)state;
    struct queries *all = make(&(struct queries_options){.running = 4});
    struct asker a[4] = {0};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(ask_limited(all, &a[i], i % 2 ? "rows 50000" : "forever", 100 * NS_PER_S), 0);
    for (size_t i = 0; i < 4; i++)
        end(all, &a[i]);
    destroy(all);
}

/* Readers that take nothing hold up nobody but themselves, and end when their time is up. */
static void slow_readers(void **state)
{
    (void)state;
    enum { SLOW = 3 };
    struct queries *all = make(&(struct queries_options){.running = 1, .open = SLOW + 1});
    struct asker slow[SLOW] = {0}, a = {0};
    for (size_t i = 0; i < SLOW; i++) {
        slow[i].is_slow = true;
        assert_int_equal(ask_limited(all, &slow[i], "rows 100000", i == 0 ? NS_PER_S : 100 * NS_PER_S), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(all, &a, "rows 5000"), 0);
        finish(all, &a);
        assert_int_equal(a.result, 0);
        end(all, &a);
    }
    for (size_t i = 0; i < SLOW; i++)
        assert_int_equal(slow[i].pieces, 1);
    slow[0].is_slow = false; /* takes what there is, and finds that its time was up */
    while (all && slow[0].ends == 0) {
        struct queries_counts counts;
        queries_counts(all, &counts);
        if (counts.timed_out && slow[0].pieces == 1)
            queries_ops(all)->more(slow[0].query);
        turn(all);
    }
    assert_int_equal(slow[0].result, -ETIMEDOUT);
    slow[1].is_slow = false; /* and this one gets all of it */
    queries_ops(all)->more(slow[1].query);
    finish(all, &slow[1]);
    assert_int_equal(slow[1].result, 0);
    assert_int_equal(lines(&slow[1]), 100001);
    for (size_t i = 0; i < SLOW; i++)
        end(all, &slow[i]);
    destroy(all);
}

static bool see_not_b(void *arg, struct slice event)
{
    ++*(int *)arg;
    return !slice_eq_str(event, "b");
}

static void on_gone(void *arg)
{
    *(int *)arg = -1;
}

static void access_goes_with_it(void **state)
{
    (void)state;
    struct queries *all = make(&(struct queries_options){.waiting = 1, .running = 1});
    int asked = 0, refused = 0;
    struct asker a = {.asker.access = {.may_table = see_not_b, .destroy = on_gone, .arg = &asked}};
    struct asker b = {.asker.access = {.destroy = on_gone, .arg = &refused}}, first = {0}, second = {0};
    assert_int_equal(ask(all, &a, "who"), 0);
    finish(all, &a);
    assert_int_equal(lines(&a), 3); /* the head, a and c */
    assert_true(asked > 0);
    end(all, &a);
    assert_int_equal(asked, -1);
    assert_int_equal(ask(all, &first, "forever"), 0);
    assert_int_equal(ask(all, &second, "rows 1"), 0);
    assert_int_equal(ask(all, &b, "rows 1"), -EAGAIN);
    assert_int_equal(refused, -1); /* what was refused is gone, too */
    end(all, &first);
    end(all, &second);
    destroy(all);
}

/* ---------------------------------------------------------------- system tables */

struct stage {
    struct registry *registry;
    struct batch_builder *builder;
    int calls, ended;
    const char *who;
};

struct filling {
    struct stage *stage;
    int left;
};

static void end_filling(void *arg)
{
    struct filling *f = arg;
    f->stage->ended++;
    mem_free(f);
}

/* 100 rows in each of three parts. */
static int fill(void *arg, const void *who, const char *name, struct table_rows *out)
{
    struct stage *s = arg;
    s->calls++;
    s->who = who;
    if (strcmp(name, "secret") == 0)
        return -EACCES;
    if (strcmp(name, "none_latest") == 0)
        return -ENOENT;
    struct filling *f = out->filling;
    if (!f) {
        f = mem_alloc(sizeof *f);
        *f = (struct filling){s, 3};
        out->filling = f;
        out->end_filling = end_filling;
    }
    for (int i = 0; i < 100; i++) {
        const struct event_head head = {.name = slice_str("t"), .host = slice_str("h")};
        const struct named_value v = {SLICE_LIT("n"), value_int(i)};
        assert_int_equal(batch_builder_add(s->builder, &head, &v, 1, NULL), 0);
    }
    assert_int_equal(table_rows_add(out, batch_builder_finish(s->builder, NULL)), 0);
    return --f->left ? 1 : 0;
}

static void system_tables(void **state)
{
    (void)state;
    struct stage s = {.registry = registry_create()};
    s.builder = batch_builder_create(s.registry, 0);
    const struct table_ops tables[] = {
        {"sensors", "", fill, &s}, {"*_latest", "", fill, &s}, {"secret", "", fill, &s}};
    struct queries *all = make(&(struct queries_options){.tables_bytes = 0});
    struct asker a = {.asker = {.who = "ann", .who_size = 4}};
    assert_int_equal(queries_mount(all, tables, 3), 0);
    assert_int_equal(ask(all, &a, "tables SENSORS job.state_latest none_latest sensors other _latest"), 0);
    assert_int_equal(s.calls, 1); /* the rest of it on other turns */
    finish(all, &a);
    assert_int_equal(a.result, 0);
    assert_int_equal(s.calls, 7);
    assert_string_equal(s.who, "ann");
    assert_slice(strbuf_slice(&a.got), "n,text\r\n1,SENSORS 300\r\n2,job.state_latest 300\r\n");
    assert_int_equal(s.ended, 2);
    end(all, &a);
    assert_int_equal(ask(all, &a, "tables secret"), 0);
    finish(all, &a);
    assert_int_equal(a.result, -EACCES);
    assert_non_null(strstr(a.why.message, "secret"));
    end(all, &a);
    assert_int_equal(ask(all, &a, "tables sensors"), 0); /* closed while it is filled */
    end(all, &a);
    assert_int_equal(s.ended, 3);
    destroy(all);
    all = make(&(struct queries_options){.tables_bytes = 1000});
    assert_int_equal(queries_mount(all, tables, 3), 0);
    assert_int_equal(ask(all, &a, "tables sensors"), 0);
    finish(all, &a);
    assert_int_equal(a.result, E_LIMIT);
    end(all, &a);
    destroy(all);
    batch_builder_destroy(s.builder);
    registry_destroy(s.registry);
}

/* Any allocation may fail: an answer, or an error that says so; nothing is left. */
static void no_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 12; n++) {
        struct queries *all = make(&(struct queries_options){0});
        struct asker a = {0};
        mem_fail_after(n);
        int r = ask(all, &a, "rows 10");
        if (r == 0)
            finish(all, &a);
        mem_fail_after(0);
        if (r == 0) {
            assert_true(a.result == 0 || (a.result == -ENOMEM && a.pieces == 0));
            end(all, &a);
        } else {
            assert_int_equal(r, -ENOMEM);
        }
        destroy(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_is_answered),
        cmocka_unit_test(many_pages_flow),
        cmocka_unit_test(an_error_has_rows_before_it),
        cmocka_unit_test(no_archive),
        cmocka_unit_test(time_is_up),
        cmocka_unit_test(too_many),
        cmocka_unit_test(closing_cancels),
        cmocka_unit_test(closing_from_callbacks),
        cmocka_unit_test(closing_while_threads_run),
        cmocka_unit_test(slow_readers),
        cmocka_unit_test(access_goes_with_it),
        cmocka_unit_test(system_tables),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
