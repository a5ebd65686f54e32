/* SPDX-License-Identifier: Apache-2.0 */
/* A thread takes a query, runs it to its end, and takes the next; without work it waits, or ends if enough
 * others wait. Reader and engine are made with the first query and kept.
 *
 * A query that is given may run: it is counted in n_running. Where QUERY_AHEAD pages wait for its reader it
 * gives that up, and waits for room and for leave to run again (n_resuming). */
#include "archive/query_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

enum { CACHE_BYTES = 16 << 20 };

static void lock(struct queries *all)
{
    (void)pthread_mutex_lock(&all->lock); /* fails only if it is not ours to lock */
}

static void unlock(struct queries *all)
{
    (void)pthread_mutex_unlock(&all->lock);
}

void query_tell_loop(struct query *q)
{
    struct queries *all = q->all;
    if (q->has_news)
        return;
    q->has_news = true;
    q->next_news = NULL;
    *all->last_news = q;
    all->last_news = &q->next_news;
    all->n_news++;
    (void)eventfd_write(all->wake_fd, 1); /* fails only when it has been readable 2^64 times */
}

/* ---------------------------------------------------------------- pages */

/* With the lock. */
static void add_page(struct query *q, struct page *p)
{
    *q->last_page = p;
    q->last_page = &p->next;
    q->n_pages++;
    query_tell_loop(q);
}

static bool is_stopped(const struct query *q)
{
    return atomic_load(&q->is_cancelled);
}

/* With the lock: until something has changed, or its time is up. */
static void wait_until(struct queries *all, int64_t mono_ns)
{
    const struct timespec at = {mono_ns / NS_PER_S, mono_ns % NS_PER_S};
    (void)pthread_cond_timedwait(&all->changed, &all->lock, &at); /* who waits looks again */
}

/* With the lock: lets others run until there is room and leave to go on. */
static int wait_for_reader(struct query *q)
{
    struct queries *all = q->all;
    bool is_resuming = false;
    int r = 0;
    all->n_running--;
    (void)pthread_cond_broadcast(&all->changed);
    for (;;) {
        bool has_room = q->n_pages < QUERY_AHEAD;
        r = is_stopped(q) ? -ECANCELED : clock_mono_ns() >= q->until_ns ? -ETIMEDOUT : 0;
        if (r < 0 || (has_room && all->n_running < all->options.running))
            break;
        all->n_resuming += has_room && !is_resuming;
        is_resuming = is_resuming || has_room;
        wait_until(all, q->until_ns);
    }
    all->n_resuming -= is_resuming;
    all->n_running++; /* also of one that ends: it has little to do any more */
    return r;
}

static int give_page(struct query *q, struct query_rows *rows, struct diag *why)
{
    struct page *p = mem_try_alloc(sizeof *p);
    if (!p)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    query_rows_take(rows, &p->bytes);
    lock(q->all);
    add_page(q, p);
    int r = q->n_pages >= QUERY_AHEAD ? wait_for_reader(q) : 0;
    unlock(q->all);
    if (r == -ETIMEDOUT)
        return diag_set(why, r, 0, "its time was up before its reader had taken all rows");
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

/* ---------------------------------------------------------------- SQL */

static int begin_rows(const struct query *q, const struct sql_statement *s, struct query_rows *rows,
                      struct diag *why)
{
    size_t n = sql_columns(s);
    struct slice *names = mem_try_alloc((n + 1) * sizeof *names);
    if (!names)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    for (size_t i = 0; i < n; i++)
        names[i] = slice_str(sql_column_name(s, i));
    int r = query_rows_begin(rows, q->format, names, n);
    mem_free(names);
    if (r == E_LIMIT && n)
        return diag_set(why, r, 0, "the result has %zu columns, which is too many", n);
    if (r == E_LIMIT)
        return diag_set(why, E_PROTO, 0, "that is no question: it has no result");
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

static int step_rows(struct query *q, struct sql_statement *s, struct query_rows *rows, struct diag *why)
{
    int r;
    while ((r = sql_step(s, why)) > 0) {
        r = query_rows_add_step(rows, s, why);
        if (r == 0 && query_rows_is_full(rows))
            r = give_page(q, rows, why);
        if (r < 0)
            return r;
    }
    return r;
}

static uint64_t count_lost(const struct sql_statement *s)
{
    struct scan_loss loss = sql_damaged(s);
    return loss.rows + loss.chunks + loss.blobs; /* of those whose rows nobody knows: one each, at least */
}

static int run_sql(struct query_thread *t, struct query *q, struct query_rows *rows, struct diag *why)
{
    const struct sql_access access = {.may_table = q->access.may_table,
                                      .may_stream = q->access.may_stream,
                                      .may_field = q->access.may_field,
                                      .arg = q->access.arg};
    const struct sql_query query = {.text = q->text,
                                    .limits = &q->limits,
                                    .access = &access,
                                    .mounted = q->tables,
                                    .n_mounted = q->n_tables,
                                    .is_cancelled = &q->is_cancelled,
                                    .progress = &q->rows_seen};
    struct sql_statement *s = NULL;
    int r = sql_prepare(t->engine, &query, &s, why);
    if (r < 0)
        return r;
    r = begin_rows(q, s, rows, why);
    if (r == 0)
        r = step_rows(q, s, rows, why);
    q->lost = count_lost(s);
    q->notices = *sql_notices(s);
    sql_finish(s);
    return r;
}

static int run_tile(struct query_thread *t, struct query *q, struct strbuf *out, struct diag *why)
{
    const struct queries_options *o = &q->all->options;
    const struct sql_access access = {.may_table = q->access.may_table,
                                      .may_stream = q->access.may_stream,
                                      .may_field = q->access.may_field,
                                      .arg = q->access.arg};
    const struct query_tile tile = {.text = q->text,
                                    .format = q->format,
                                    .access = &access,
                                    .is_cancelled = &q->is_cancelled,
                                    .until_ns = q->until_ns};
    if (!o->tile)
        return diag_set(why, -ENOTSUP, 0, "there are no tiles here");
    return o->tile(o->tile_arg, t->reader, &tile, out, why);
}

/* ---------------------------------------------------------------- a query */

static int prepare_thread(struct query_thread *t, struct diag *why)
{
    const struct queries_options *o = &t->all->options;
    int r = 0;
    if (!t->reader)
        r = view_reader_create(o->archive, o->dir, o->cache_bytes ? o->cache_bytes : CACHE_BYTES, &t->reader,
                               why);
    if (r == 0 && !t->engine) {
        r = sql_engine_create(t->reader, &t->engine);
        if (r < 0)
            (void)diag_set(why, r, 0, "%s", err_text(r));
    }
    return r;
}

/* The last page, where there is one: NULL. Where something went wrong and nothing was given yet, nothing is.
 */
static struct page *make_last(const struct query *q, int *r, struct diag *why, struct query_rows *rows)
{
    if (*r < 0 && !rows->given)
        return NULL;
    if (q->kind == QUERY_SQL)
        query_rows_end(rows, *r, why, q->lost, &q->notices);
    bool is_good = !strbuf_failed(&rows->out);
    struct page *p = is_good && rows->out.n ? mem_try_alloc(sizeof *p) : NULL;
    if (!is_good || (rows->out.n && !p)) {
        *r = diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM)); /* what was given lacks its end */
        return NULL;
    }
    if (p)
        query_rows_take(rows, &p->bytes);
    return p;
}

static void finish(struct query *q, int r, struct diag *why, struct query_rows *rows)
{
    struct page *p = make_last(q, &r, why, rows);
    lock(q->all);
    if (p)
        add_page(q, p);
    q->result = r;
    q->why = *why;
    q->rows = rows->rows;
    q->is_done = true;
    q->all->n_running--;
    (void)pthread_cond_broadcast(&q->all->changed);
    query_tell_loop(q);
    unlock(q->all);
}

static void run_query(struct query_thread *t, struct query *q)
{
    struct query_rows rows = {0};
    struct diag why = {0};
    const struct queries_options *o = &q->all->options;
    int r = is_stopped(q) ? -ECANCELED : prepare_thread(t, &why);
    if (r == 0 && o->catch_up)
        o->catch_up(o->catch_up_arg);
    if (r == 0)
        r = q->kind == QUERY_TILE ? run_tile(t, q, &rows.out, &why) : run_sql(t, q, &rows, &why);
    if (r < 0 && !why.message[0])
        (void)diag_set(&why, r, 0, "%s", err_text(r));
    finish(q, r, &why, &rows);
    query_rows_fini(&rows);
}

/* ---------------------------------------------------------------- the thread */

/* With the lock. */
static struct query *take_given(struct queries *all)
{
    struct query *q = all->given;
    if (!q)
        return NULL;
    all->given = q->next_given;
    if (!all->given)
        all->last_given = &all->given;
    all->n_given--;
    return q;
}

/* With the lock: the next one; NULL: this thread is one too many. */
static struct query *wait_for_query(struct queries *all)
{
    for (;;) {
        struct query *q = take_given(all);
        if (q || all->is_stopping || all->n_idle >= all->options.running)
            return q;
        all->n_idle++;
        (void)pthread_cond_wait(&all->has_given, &all->lock);
        all->n_idle--;
    }
}

static void *run(void *arg)
{
    struct query_thread *t = arg;
    struct queries *all = t->all;
    struct query *q;
    lock(all);
    while ((q = wait_for_query(all))) {
        unlock(all);
        run_query(t, q);
        lock(all);
    }
    unlock(all);
    sql_engine_destroy(t->engine);
    view_reader_destroy(t->reader);
    lock(all);
    t->is_ended = true;
    (void)eventfd_write(all->wake_fd, 1);
    unlock(all);
    return NULL;
}

/* Signals are for the loop. */
int query_thread_start(struct queries *all)
{
    sigset_t blocked, before;
    struct query_thread *t = mem_try_alloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    t->all = all;
    (void)sigfillset(&blocked);
    int r = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (r == 0) {
        r = pthread_create(&t->thread, NULL, run, t);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* it was good a moment ago */
    }
    if (r) {
        mem_free(t);
        return -r;
    }
    t->next = all->threads;
    all->threads = t;
    return 0;
}

void query_threads_join(struct queries *all, bool all_of_them)
{
    for (struct query_thread **at = &all->threads, *t; (t = *at);) {
        lock(all);
        bool is_ended = t->is_ended;
        unlock(all);
        if (!is_ended && !all_of_them) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        (void)pthread_join(t->thread, NULL); /* it is there and is joined once */
        mem_free(t);
    }
}
