/* SPDX-License-Identifier: Apache-2.0 */
/* A reader belongs to the loop, or, from replay_ask until its answer is taken, to the thread. The lock guards
 * the two queues; a reader that is closed while it is the thread's is freed when it comes back. */
#include "gateway/replay.h"

#include "base/mem.h"
#include "gateway/journal_batches.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct replay_reader {
    struct replay *replay;
    struct replay_reader *next; /* in a queue */
    void (*on_piece)(void *arg, const struct replay_piece *p);
    void *arg;
    struct position behind;
    uint64_t from, up_to, done;
    bool is_asked, is_closed;
    /* The thread's: */
    struct journal *journal;
    struct journal_batches *batches;
    void *refill; /* of the gap that was read last; NULL = none, or all of it was given */
    struct replay_item items[REPLAY_ITEMS];
    size_t n;
    int error;
};

struct queue {
    struct replay_reader *first, **end;
};

struct replay {
    char *journal;
    const struct replay_refill *ops; /* NULL = none */
    struct event *done_event;
    int fd;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct queue asked, done;
    bool is_stopping;
};

static void queue_init(struct queue *q)
{
    q->first = NULL;
    q->end = &q->first;
}

static void queue_put(struct queue *q, struct replay_reader *r)
{
    r->next = NULL;
    *q->end = r;
    q->end = &r->next;
}

static struct replay_reader *queue_take(struct queue *q)
{
    struct replay_reader *r = q->first;
    if (!r)
        return NULL;
    q->first = r->next;
    if (!q->first)
        q->end = &q->first;
    return r;
}

/* ---------------------------------------------------------------- the thread */

static int open_journal(struct replay_reader *r)
{
    const struct journal_options options = {.flags = JOURNAL_READONLY};
    if (r->batches)
        return 0;
    int e = r->journal ? 0 : journal_open(r->replay->journal, &options, &r->journal);
    return e < 0 ? e : journal_batches_open(r->journal, r->from, &r->batches);
}

static struct replay_item item_of(const struct journal_batch *b)
{
    if (b->kind == JOURNAL_BATCH)
        return (struct replay_item){.batch = batch_ref(b->batch),
                                    .at = {.record = b->first, .part = b->part},
                                    .first = b->first,
                                    .last = b->first};
    bool is_gone = b->kind == JOURNAL_LOST && b->reason == JOURNAL_GAP_GONE;
    return (struct replay_item){.first = b->first, .last = b->last, .count = b->count, .is_gone = is_gone};
}

/* The next item: 0; E_NODATA. A range that is gone is replaced by what refills it. */
static int read_item(struct replay_reader *r, struct replay_item *out)
{
    const struct replay_refill *ops = r->replay->ops;
    struct journal_batch b;
    if (r->refill && ops->next(r->refill, out)) {
        out->is_gone = true;
        return 0;
    }
    if (r->refill)
        ops->close(r->refill);
    r->refill = NULL;
    int e = journal_batches_next(r->batches, &b);
    if (e < 0)
        return e;
    *out = item_of(&b);
    if (!out->is_gone || !ops)
        return 0;
    r->refill = ops->open(ops->arg, b.first, b.last, r->behind);
    return r->refill ? read_item(r, out) : 0; /* without memory it is a gap */
}

static void read_piece(struct replay_reader *r)
{
    size_t bytes = 0;
    int e = open_journal(r);
    if (e == 0)
        e = journal_follow(r->journal, r->up_to);
    while (e == 0 && r->n < REPLAY_ITEMS && bytes < REPLAY_PIECE) {
        e = read_item(r, &r->items[r->n]);
        if (e < 0)
            break;
        bytes += r->items[r->n].batch ? r->items[r->n].batch->size_bytes : 0;
        r->n++;
    }
    r->error = e == E_NODATA ? 0 : e;
    if (e == E_NODATA)
        r->done = r->up_to; /* what there is up to it was given */
    else if (r->n)
        r->done = r->items[r->n - 1].last - 1; /* of that record there may be more */
}

static void *run(void *arg)
{
    struct replay *all = arg;
    (void)pthread_mutex_lock(&all->lock);
    for (;;) {
        struct replay_reader *r = queue_take(&all->asked);
        if (!r && all->is_stopping)
            break;
        if (!r) {
            (void)pthread_cond_wait(&all->wake, &all->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&all->lock);
        read_piece(r);
        (void)pthread_mutex_lock(&all->lock);
        queue_put(&all->done, r);
        (void)eventfd_write(all->fd, 1); /* fails only when it has been readable 2^64 times */
    }
    (void)pthread_mutex_unlock(&all->lock);
    return NULL;
}

/* ---------------------------------------------------------------- the loop */

static void free_items(struct replay_reader *r)
{
    for (size_t i = 0; i < r->n; i++)
        batch_unref(r->items[i].batch);
    r->n = 0;
}

static void free_reader(struct replay_reader *r)
{
    free_items(r);
    if (r->refill)
        r->replay->ops->close(r->refill);
    journal_batches_close(r->batches);
    journal_close(r->journal);
    mem_free(r);
}

static void take_answer(struct replay_reader *r)
{
    struct replay_item items[REPLAY_ITEMS];
    struct replay_piece p = {.items = items, .n = r->n, .done = r->done, .error = r->error};
    r->is_asked = false;
    if (r->is_closed) {
        free_reader(r);
        return;
    }
    memcpy(items, r->items, r->n * sizeof *items);
    r->n = 0; /* the reader may be asked again, or closed, within the call */
    r->on_piece(r->arg, &p);
    for (size_t i = 0; i < p.n; i++)
        batch_unref(items[i].batch);
}

static void on_done(evutil_socket_t fd, short what, void *arg)
{
    struct replay *all = arg;
    eventfd_t n;
    (void)what;
    (void)eventfd_read(fd, &n); /* only to make it quiet */
    for (;;) {
        (void)pthread_mutex_lock(&all->lock);
        struct replay_reader *r = queue_take(&all->done);
        (void)pthread_mutex_unlock(&all->lock);
        if (!r)
            return;
        take_answer(r);
    }
}

/* Signals are for the loop. */
static int start_thread(struct replay *all)
{
    sigset_t blocked, before;
    (void)sigfillset(&blocked);
    int e = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (e)
        return -e;
    e = pthread_create(&all->thread, NULL, run, all);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* it was good a moment ago */
    all->has_thread = e == 0;
    return -e;
}

struct replay *replay_create(struct event_base *base, const char *journal, const struct replay_refill *refill)
{
    struct replay *all = mem_try_alloc(sizeof *all);
    if (!all)
        return NULL;
    size_t n = strlen(journal) + 1;
    (void)pthread_mutex_init(&all->lock, NULL); /* these two do not fail on Linux */
    (void)pthread_cond_init(&all->wake, NULL);
    all->ops = refill;
    queue_init(&all->asked);
    queue_init(&all->done);
    all->journal = mem_try_alloc(n);
    all->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (all->fd >= 0)
        all->done_event = event_new(base, all->fd, EV_READ | EV_PERSIST, on_done, all);
    if (!all->journal || !all->done_event || event_add(all->done_event, NULL) < 0) {
        replay_destroy(all);
        return NULL;
    }
    memcpy(all->journal, journal, n);
    return all;
}

void replay_destroy(struct replay *all)
{
    if (!all)
        return;
    if (all->has_thread) {
        (void)pthread_mutex_lock(&all->lock);
        all->is_stopping = true;
        (void)pthread_cond_signal(&all->wake);
        (void)pthread_mutex_unlock(&all->lock);
        (void)pthread_join(all->thread, NULL); /* it is there and is joined once */
    }
    for (struct replay_reader *r; (r = queue_take(&all->done));)
        free_reader(r); /* closed while they were the thread's */
    if (all->done_event)
        event_free(all->done_event);
    if (all->fd >= 0)
        (void)close(all->fd);
    (void)pthread_cond_destroy(&all->wake);
    (void)pthread_mutex_destroy(&all->lock);
    mem_free(all->journal);
    mem_free(all);
}

struct replay_reader *replay_open(struct replay *all, struct position behind,
                                  void (*on_piece)(void *arg, const struct replay_piece *p), void *arg)
{
    struct replay_reader *r = mem_try_alloc(sizeof *r);
    if (!r || (!all->has_thread && start_thread(all) < 0)) { /* the thread comes with the first one */
        mem_free(r);
        return NULL;
    }
    r->replay = all;
    r->behind = behind;
    r->from = behind.record + (behind.part == UINT32_MAX && behind.event == UINT32_MAX);
    r->on_piece = on_piece;
    r->arg = arg;
    r->done = r->from ? r->from - 1 : 0;
    return r;
}

void replay_close(struct replay_reader *r)
{
    if (!r)
        return;
    r->is_closed = true;
    if (!r->is_asked)
        free_reader(r);
}

void replay_ask(struct replay_reader *r, uint64_t up_to)
{
    struct replay *all = r->replay;
    r->is_asked = true;
    r->up_to = up_to;
    (void)pthread_mutex_lock(&all->lock);
    queue_put(&all->asked, r);
    (void)pthread_cond_signal(&all->wake);
    (void)pthread_mutex_unlock(&all->lock);
}
