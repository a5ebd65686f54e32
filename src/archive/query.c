/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's side: asking, waiting, filling system tables, telling. query_internal.h says who may touch what.
 *
 * A query is freed when it is closed and no thread has it. Callbacks come from turn alone, one after the
 * other; within one the asker may close any query, so what is gone on with is looked up again: `telling` is
 * the query whose callback runs, NULL once that is closed; `walk` is the next one of a walk over all. */
#include "archive/query.h"

#include "archive/query_internal.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static const int64_t ns_per_ms = 1000000;
static const int64_t time_default_ns = 30 * NS_PER_S, time_max_ns = 600 * NS_PER_S;
enum { TABLES_BYTES = 64 << 20 };

static void lock(struct queries *all)
{
    (void)pthread_mutex_lock(&all->lock); /* fails only if it is not ours to lock */
}

static void unlock(struct queries *all)
{
    (void)pthread_mutex_unlock(&all->lock);
}

static void look_again(struct queries *all)
{
    (void)eventfd_write(all->wake_fd, 1); /* fails only when it has been readable 2^64 times */
}

/* ---------------------------------------------------------------- the list of all */

static void link_query(struct queries *all, struct query *q)
{
    struct query **at = &all->first, *before = NULL; /* in the order in which they were asked */
    for (; *at; at = &(*at)->next)
        before = *at;
    q->previous = before;
    *at = q;
}

static void unlink_query(struct query *q)
{
    struct queries *all = q->all;
    if (all->walk == q)
        all->walk = q->next;
    *(q->previous ? &q->previous->next : &all->first) = q->next;
    if (q->next)
        q->next->previous = q->previous;
}

/* ---------------------------------------------------------------- time */

/* While there are queries: a tick each QUERY_PROGRESS_MS. */
static void set_ticking(struct queries *all, bool is_ticking)
{
    const int64_t ns = is_ticking ? QUERY_PROGRESS_MS * ns_per_ms : 0;
    const struct timespec each = {ns / NS_PER_S, ns % NS_PER_S};
    const struct itimerspec timer = {each, each};
    if (is_ticking != all->is_ticking)
        (void)timerfd_settime(all->timer_fd, 0, &timer, NULL); /* fails only for times that are none */
    all->is_ticking = is_ticking;
}

/* ---------------------------------------------------------------- the end of a query */

static void drop_tables(struct query *q)
{
    for (size_t i = 0; i < q->n_tables; i++)
        table_rows_fini(&q->tables[i]);
    mem_free(q->tables);
    q->tables = NULL;
    q->n_tables = q->n_filled = 0;
}

static void drop_pages(struct query *q)
{
    while (q->pages) {
        struct page *p = q->pages;
        q->pages = p->next;
        strbuf_fini(&p->bytes);
        mem_free(p);
    }
}

/* No thread has it. */
static void query_free(struct query *q)
{
    drop_tables(q);
    drop_pages(q);
    if (q->access.destroy)
        q->access.destroy(q->access.arg);
    arena_fini(&q->arena);
    mem_free(q);
}

static void count_end(struct queries *all, const struct query *q)
{
    struct queries_counts *c = &all->counts;
    c->rows += q->rows;
    if (q->result == 0)
        c->done++;
    else if (q->is_closed || q->result == -ECANCELED)
        c->cancelled++;
    else if (q->result == -ETIMEDOUT)
        c->timed_out++;
    else
        c->failed++;
}

/* Its result is known: it takes up nothing more than its pages. */
static void be_over(struct query *q)
{
    struct queries *all = q->all;
    if (q->state == QUERY_IS_WAITING)
        all->n_waiting--;
    else
        all->n_open--;
    q->state = QUERY_IS_OVER;
    drop_tables(q);
    count_end(all, q);
}

/* It ends before a thread had it; the asker is told by the next turn. */
static void fail(struct query *q, int r)
{
    struct queries *all = q->all;
    q->result = r;
    lock(all);
    if (q->state == QUERY_IS_FILLING)
        all->n_running--;
    q->is_done = true;
    query_tell_loop(q);
    unlock(all);
}

/* ---------------------------------------------------------------- system tables */

struct names {
    struct query *query;
    int error;
};

static bool ends_in(struct slice name, const char *end)
{
    size_t n = strlen(end);
    return name.n > n && slice_eq_nocase(slice_from(name, name.n - n), slice_of(end, n));
}

static const struct table_ops *find_table(const struct queries *all, struct slice name)
{
    for (size_t i = 0; i < all->n_mounted; i++)
        for (size_t k = 0; k < all->mounted[i].n; k++) {
            const struct table_ops *t = &all->mounted[i].tables[k];
            bool is_it =
                t->name[0] == '*' ? ends_in(name, t->name + 1) : slice_eq_nocase(name, slice_str(t->name));
            if (is_it)
                return t;
        }
    return NULL;
}

static void add_table(void *arg, struct slice name)
{
    struct names *names = arg;
    struct query *q = names->query;
    const struct table_ops *ops = find_table(q->all, name);
    if (!ops || names->error < 0)
        return;
    for (size_t i = 0; i < q->n_tables; i++)
        if (slice_eq_nocase(slice_str(q->tables[i].name), name))
            return;
    if (q->n_tables == QUERY_TABLES) {
        names->error = diag_set(&q->why, E_LIMIT, 0, "more than %d system tables in one query", QUERY_TABLES);
        return;
    }
    char *copy = arena_alloc(&q->arena, name.n + 1);
    if (!copy) {
        names->error = -ENOMEM;
        return;
    }
    memcpy(copy, name.p, name.n);
    copy[name.n] = '\0';
    q->ops[q->n_tables] = ops;
    q->tables[q->n_tables++].name = copy;
}

/* Which of them the text could mean. */
static int find_tables(struct query *q)
{
    struct names names = {.query = q};
    if (q->all->n_mounted == 0 || q->kind != QUERY_SQL)
        return 0;
    q->tables = mem_try_alloc(QUERY_TABLES * sizeof *q->tables);
    if (!q->tables)
        return -ENOMEM;
    sql_identifiers(q->text, add_table, &names);
    return names.error;
}

/* Takes the i-th out: there is no such table here, so it may be another's. */
static void forget_table(struct query *q, size_t i)
{
    table_rows_fini(&q->tables[i]);
    q->n_tables--;
    memmove(&q->tables[i], &q->tables[i + 1], (q->n_tables - i) * sizeof *q->tables);
    memmove(&q->ops[i], &q->ops[i + 1], (q->n_tables - i) * sizeof(const struct table_ops *));
}

static int check_size(struct query *q)
{
    size_t bytes = 0, max = q->all->options.tables_bytes;
    for (size_t i = 0; i < q->n_tables; i++)
        bytes += table_rows_size(&q->tables[i]);
    if (bytes <= max)
        return 0;
    return diag_set(&q->why, E_LIMIT, 0, "the system tables that it names take more than %zu MiB", max >> 20);
}

/* A part of them: 0 when all are whole; 1: on another turn again. */
static int fill_some(struct query *q)
{
    while (q->n_filled < q->n_tables) {
        size_t i = q->n_filled;
        const char *name = q->tables[i].name;
        int r = q->ops[i]->fill(q->ops[i]->arg, q->who, name, &q->tables[i]);
        q->tables[i].name = name;
        if (r == -ENOENT) {
            forget_table(q, i);
            continue;
        }
        if (r < 0)
            return q->why.message[0] ? r : diag_set(&q->why, r, 0, "table %s: %s", name, err_text(r));
        int e = check_size(q);
        if (e < 0 || r > 0)
            return e < 0 ? e : r;
        q->n_filled++;
    }
    return 0;
}

/* ---------------------------------------------------------------- beginning */

/* false: a thread has taken it. */
static bool take_back(struct query *q)
{
    struct queries *all = q->all;
    lock(all);
    struct query **at = &all->given;
    while (*at && *at != q)
        at = &(*at)->next_given;
    bool is_there = *at;
    if (is_there) {
        *at = q->next_given;
        if (!*at)
            all->last_given = at;
        all->n_given--;
    }
    unlock(all);
    return is_there;
}

static void give(struct query *q)
{
    struct queries *all = q->all;
    q->state = QUERY_IS_GIVEN;
    lock(all);
    q->next_given = NULL;
    *all->last_given = q;
    all->last_given = &q->next_given;
    bool needs_thread = ++all->n_given > all->n_idle;
    (void)pthread_cond_signal(&all->has_given);
    unlock(all);
    int r = needs_thread ? query_thread_start(all) : 0;
    if (r == 0 || !take_back(q))
        return;
    q->state = QUERY_IS_FILLING;
    fail(q, diag_set(&q->why, r, 0, "no thread can be made for it: %s", err_text(r)));
}

static void go_on_filling(struct query *q)
{
    int r = fill_some(q);
    if (r > 0)
        look_again(q->all);
    else if (r < 0)
        fail(q, r);
    else
        give(q);
}

static bool may_begin(struct queries *all)
{
    lock(all);
    bool may =
        all->n_running < all->options.running && all->n_resuming == 0 && all->n_open < all->options.open;
    all->n_running += may;
    unlock(all);
    return may;
}

static void begin(struct query *q)
{
    struct queries *all = q->all;
    all->n_waiting--;
    all->n_open++;
    q->state = QUERY_IS_FILLING;
    q->until_ns = clock_mono_ns() + q->limits.time_ns;
    go_on_filling(q);
}

/* Those that wait, as many as may run, the oldest first. */
static void begin_waiting(struct queries *all)
{
    for (struct query *q = all->first, *next; q && all->n_waiting; q = next) {
        next = q->next;
        if (q->state != QUERY_IS_WAITING || q->is_done)
            continue;
        if (!may_begin(all))
            return;
        begin(q);
    }
}

/* ---------------------------------------------------------------- telling */

/* What there is for the asker now. */
struct telling {
    struct page *page;
    bool is_last; /* nothing comes behind it */
};

static struct telling take_telling(struct query *q)
{
    struct queries *all = q->all;
    struct telling t = {0};
    lock(all);
    if (q->is_wanted && q->pages) {
        t.page = q->pages;
        q->pages = t.page->next;
        if (!q->pages)
            q->last_page = &q->pages;
        q->n_pages--;
        (void)pthread_cond_broadcast(&all->changed);
    }
    t.is_last = q->is_done && !q->pages;
    unlock(all);
    return t;
}

static void tell_page(struct query *q, struct page *p)
{
    q->is_wanted = false;
    q->all->counts.bytes += p->bytes.n;
    q->asker->piece(q->asker, strbuf_slice(&p->bytes));
    strbuf_fini(&p->bytes);
    mem_free(p);
}

static void tell(struct query *q)
{
    struct queries *all = q->all;
    struct telling t = take_telling(q);
    all->telling = q;
    if (t.page)
        tell_page(q, t.page);
    if (!all->telling || !t.is_last || q->has_ended)
        return; /* closed, or not yet */
    q->has_ended = true;
    q->asker->end(q->asker, &(struct query_end){q->result, &q->why, q->rows, q->lost, &q->notices});
}

static void look_at(struct query *q)
{
    lock(q->all);
    bool is_done = q->is_done;
    unlock(q->all);
    if (is_done && q->state != QUERY_IS_OVER)
        be_over(q);
    if (!q->is_closed) {
        tell(q);
    } else if (is_done) {
        q->all->n_closing--;
        query_free(q);
    }
}

static struct query *take_news(struct queries *all)
{
    lock(all);
    struct query *q = all->news;
    if (q) {
        all->news = q->next_news;
        if (!all->news)
            all->last_news = &all->news;
        all->n_news--;
        q->has_news = false;
    }
    unlock(all);
    return q;
}

/* With the lock. */
static void drop_news(struct query *q)
{
    struct queries *all = q->all;
    if (!q->has_news)
        return;
    struct query **at = &all->news;
    while (*at != q)
        at = &(*at)->next_news;
    *at = q->next_news;
    if (!*at)
        all->last_news = at;
    all->n_news--;
    q->has_news = false;
}

static void tick(struct queries *all)
{
    int64_t now = clock_mono_ns();
    for (struct query *q = all->first; q; q = all->walk) {
        all->walk = q->next;
        if (q->state == QUERY_IS_WAITING && !q->is_done && now - q->asked_ns > q->limits.time_ns)
            fail(q, diag_set(&q->why, -ETIMEDOUT, 0, "others ran until its time was up; ask again later"));
        else if (q->state != QUERY_IS_OVER && q->asker->progress)
            q->asker->progress(q->asker, atomic_load(&q->rows_seen), now - q->asked_ns);
    }
    all->walk = NULL;
}

static void turn(void *arg)
{
    struct queries *all = arg;
    eventfd_t n;
    uint64_t ticks = 0;
    (void)eventfd_read(all->wake_fd, &n); /* only to make it quiet */
    bool is_time = read(all->timer_fd, &ticks, sizeof ticks) == (ssize_t)sizeof ticks;
    query_threads_join(all, false);
    lock(all);
    size_t left = all->n_news; /* what comes meanwhile is for the next turn */
    unlock(all);
    for (struct query *q; left-- && (q = take_news(all));)
        look_at(q);
    if (is_time)
        tick(all);
    for (struct query *q = all->first; q; q = all->walk) {
        all->walk = q->next;
        if (q->state == QUERY_IS_FILLING && !q->is_done)
            go_on_filling(q);
    }
    all->walk = NULL;
    begin_waiting(all);
}

/* ---------------------------------------------------------------- asking */

static int fill_query(struct query *q, const struct query_asker *a, const struct query_text *text)
{
    struct slice words = arena_copy(&q->arena, text->text);
    void *who = arena_alloc(&q->arena, a->who_size + 1);
    if (!words.p || !who)
        return -ENOMEM;
    if (a->who_size)
        memcpy(who, a->who, a->who_size);
    q->text = words;
    q->who = a->who_size ? who : NULL;
    q->kind = (int)text->kind;
    q->format = text->format;
    const struct queries_options *o = &q->all->options;
    q->limits = (struct sql_limits){
        .time_ns = text->time_ns ? text->time_ns : o->time_ns, .rows = text->rows, .bytes = o->memory_bytes};
    if (q->limits.time_ns > o->time_max_ns)
        return diag_set(&q->why, E_LIMIT, 0, "a query may take %" PRId64 " s at most",
                        o->time_max_ns / NS_PER_S);
    return find_tables(q);
}

static int check_room(struct queries *all, const struct query_text *text, struct diag *why)
{
    if (text->text.n > QUERY_TEXT_MAX)
        return diag_set(why, E_LIMIT, 0, "a query has %d KiB at most", QUERY_TEXT_MAX >> 10);
    if (all->n_waiting < all->options.waiting)
        return 0;
    all->counts.refused++;
    return diag_set(why, -EAGAIN, 0, "too many queries: %zu wait already; ask again later", all->n_waiting);
}

static struct query *query_ask(void *arg, struct query_asker *a, const struct query_text *text, int *error,
                               struct diag *why)
{
    struct queries *all = arg;
    struct query_access access = a->access;
    a->access = (struct query_access){0};
    int r = check_room(all, text, why);
    struct query *q = r == 0 ? mem_try_alloc(sizeof *q) : NULL;
    if (!q) {
        if (access.destroy)
            access.destroy(access.arg);
        *error = r < 0 ? r : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
        return NULL;
    }
    q->all = all;
    q->asker = a;
    q->access = access;
    q->is_wanted = true;
    q->last_page = &q->pages;
    q->asked_ns = clock_mono_ns();
    r = fill_query(q, a, text);
    if (r < 0) {
        *error = diag_set(why, r, 0, "%s", q->why.message[0] ? q->why.message : err_text(r));
        query_free(q);
        return NULL;
    }
    link_query(all, q);
    all->counts.asked++;
    all->n_waiting++;
    set_ticking(all, true);
    begin_waiting(all);
    return q;
}

static void query_more(struct query *q)
{
    q->is_wanted = true;
    lock(q->all);
    if (q->pages)
        query_tell_loop(q);
    unlock(q->all);
}

static void query_close(struct query *q)
{
    struct queries *all = q->all;
    if (all->telling == q)
        all->telling = NULL;
    unlink_query(q);
    q->is_closed = true;
    lock(all);
    if (q->state == QUERY_IS_FILLING && !q->is_done)
        all->n_running--;
    bool is_with_thread = q->state == QUERY_IS_GIVEN && !q->is_done;
    if (is_with_thread) {
        atomic_store(&q->is_cancelled, true);
        (void)pthread_cond_broadcast(&all->changed);
    } else {
        drop_news(q);
    }
    unlock(all);
    all->n_closing += is_with_thread;
    if (!is_with_thread) {
        q->result = q->is_done ? q->result : -ECANCELED;
        if (q->state != QUERY_IS_OVER)
            be_over(q);
        query_free(q);
    }
    if (!all->first)
        set_ticking(all, false);
    look_again(all); /* another one may begin */
}

/* What was closed while a thread had it is freed when that is done with it. */
static void free_news(struct queries *all)
{
    for (struct query *q; (q = take_news(all));)
        if (q->is_closed)
            look_at(q);
}

static void settle(void *arg)
{
    struct queries *all = arg;
    while (all->n_closing) {
        struct pollfd p = {.fd = all->wake_fd, .events = POLLIN};
        eventfd_t n;
        (void)poll(&p, 1, -1);                /* interrupted: it is looked again */
        (void)eventfd_read(all->wake_fd, &n); /* only to make it quiet */
        free_news(all);
    }
}

static void tell_counts(void *arg, void (*fn)(void *to, const char *name, uint64_t n), void *to)
{
    struct queries_counts c;
    queries_counts(arg, &c);
    const struct {
        const char *name;
        uint64_t n;
    } all[] = {{"query.asked", c.asked},   {"query.refused", c.refused},     {"query.done", c.done},
               {"query.failed", c.failed}, {"query.timed_out", c.timed_out}, {"query.cancelled", c.cancelled},
               {"query.rows", c.rows},     {"query.bytes", c.bytes},         {"query.waiting", c.waiting},
               {"query.open", c.open}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        fn(to, all[i].name, all[i].n);
}

static int queries_fd(void *arg)
{
    return ((const struct queries *)arg)->poll_fd;
}

/* ---------------------------------------------------------------- life */

static int watch(struct queries *all, int fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    return fd < 0 || epoll_ctl(all->poll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static int make_descriptors(struct queries *all)
{
    all->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    all->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    all->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (all->poll_fd < 0)
        return -errno;
    int r = watch(all, all->wake_fd);
    return r == 0 ? watch(all, all->timer_fd) : r;
}

static void set_defaults(struct queries_options *o)
{
    o->running = o->running ? o->running : QUERY_RUNNING;
    o->open = o->open ? o->open : QUERY_OPEN;
    o->waiting = o->waiting ? o->waiting : QUERY_WAITING;
    o->tables_bytes = o->tables_bytes ? o->tables_bytes : TABLES_BYTES;
    o->time_ns = o->time_ns ? o->time_ns : time_default_ns;
    o->time_max_ns = o->time_max_ns ? o->time_max_ns : time_max_ns;
    if (o->time_ns > o->time_max_ns)
        o->time_ns = o->time_max_ns;
}

int queries_create(const struct queries_options *o, struct queries **out, struct diag *why)
{
    pthread_condattr_t monotonic;
    struct queries *all = mem_try_alloc(sizeof *all);
    if (!all)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    all->options = *o;
    set_defaults(&all->options);
    all->last_given = &all->given;
    all->last_news = &all->news;
    all->ops =
        (struct query_ops){query_ask, query_more, query_close, queries_fd, turn, settle, tell_counts, all};
    (void)pthread_mutex_init(&all->lock, NULL); /* these do not fail on Linux */
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&all->changed, &monotonic);
    (void)pthread_cond_init(&all->has_given, NULL);
    (void)pthread_condattr_destroy(&monotonic);
    int r = make_descriptors(all);
    if (r < 0) {
        queries_destroy(all);
        return diag_set(why, r, 0, "%s", err_text(r));
    }
    *out = all;
    return 0;
}

void queries_destroy(struct queries *all)
{
    if (!all)
        return;
    lock(all);
    all->is_stopping = true;
    (void)pthread_cond_broadcast(&all->has_given);
    unlock(all);
    query_threads_join(all, true);
    free_news(all);
    const int fds[] = {all->poll_fd, all->wake_fd, all->timer_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]); /* nothing is written to them */
    (void)pthread_cond_destroy(&all->changed);
    (void)pthread_cond_destroy(&all->has_given);
    (void)pthread_mutex_destroy(&all->lock);
    mem_free(all->mounted);
    mem_free(all);
}

int queries_mount(struct queries *all, const struct table_ops *tables, size_t n)
{
    struct mounted *mounted = mem_try_resize(all->mounted, (all->n_mounted + 1) * sizeof *mounted);
    if (!mounted)
        return -ENOMEM;
    all->mounted = mounted;
    all->mounted[all->n_mounted++] = (struct mounted){tables, n};
    return 0;
}

const struct query_ops *queries_ops(struct queries *all)
{
    return &all->ops;
}

void queries_counts(const struct queries *all, struct queries_counts *out)
{
    *out = all->counts;
    out->waiting = all->n_waiting;
    out->open = all->n_open;
}
