/* SPDX-License-Identifier: Apache-2.0 */
/* Two lists under one lock: those that wait for a thread, and those that are back. The loop is woken through
 * an eventfd; nothing is called while the lock is held. */
#include "guard/errand.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { THREADS_MAX = 16 };

struct errand_queue {
    struct errand *first, **last;
};

struct errands {
    pthread_mutex_t lock; /* guards what follows, up to threads */
    pthread_cond_t is_more;
    struct errand_queue waiting, back;
    size_t n_waiting;
    _Atomic bool is_ending;
    pthread_t threads[THREADS_MAX];
    unsigned n_threads;
    int fd;
    struct event *woken;
};

static void queue_init(struct errand_queue *q)
{
    q->first = NULL;
    q->last = &q->first;
}

static void queue_add(struct errand_queue *q, struct errand *e)
{
    e->next = NULL;
    *q->last = e;
    q->last = &e->next;
}

static struct errand *queue_take(struct errand_queue *q)
{
    struct errand *e = q->first;
    if (e && !(q->first = e->next))
        q->last = &q->first;
    return e;
}

static void wake_loop(struct errands *es)
{
    const uint64_t one = 1;
    ssize_t n = write(es->fd, &one, sizeof one);
    (void)n; /* it can only be full of wake-ups */
}

static void *work(void *arg)
{
    struct errands *es = arg;
    (void)pthread_mutex_lock(&es->lock);
    for (;;) {
        while (!es->waiting.first && !es->is_ending)
            (void)pthread_cond_wait(&es->is_more, &es->lock);
        if (es->is_ending)
            break;
        struct errand *e = queue_take(&es->waiting);
        es->n_waiting--;
        (void)pthread_mutex_unlock(&es->lock);
        e->run(e);
        (void)pthread_mutex_lock(&es->lock);
        queue_add(&es->back, e);
        wake_loop(es);
    }
    (void)pthread_mutex_unlock(&es->lock);
    return NULL;
}

static void bring_back(struct errands *es)
{
    struct errand *e;
    (void)pthread_mutex_lock(&es->lock);
    struct errand *all = es->back.first;
    queue_init(&es->back);
    (void)pthread_mutex_unlock(&es->lock);
    while ((e = all)) {
        all = e->next;
        e->done(e);
    }
}

static void on_woken(evutil_socket_t fd, short what, void *arg)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof count);
    (void)n;    /* what matters is the list */
    (void)what; /* it is readable */
    bring_back(arg);
}

/* Signals are the loop's. */
static int start_threads(struct errands *es, unsigned threads)
{
    sigset_t all, before;
    int r = 0;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (r == 0 && es->n_threads < threads)
        if ((r = -pthread_create(&es->threads[es->n_threads], NULL, work, es)) == 0)
            es->n_threads++;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

int errands_create(struct event_base *base, unsigned threads, struct errands **out)
{
    assert(threads >= 1);
    struct errands *es = mem_alloc(sizeof *es);
    int r = 0;
    (void)pthread_mutex_init(&es->lock, NULL);
    (void)pthread_cond_init(&es->is_more, NULL);
    queue_init(&es->waiting);
    queue_init(&es->back);
    es->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (es->fd < 0)
        r = -errno;
    else if (!(es->woken = event_new(base, es->fd, EV_READ | EV_PERSIST, on_woken, es)) ||
             event_add(es->woken, NULL) < 0)
        r = -ENOMEM;
    else
        r = start_threads(es, threads < THREADS_MAX ? threads : THREADS_MAX);
    if (r < 0) {
        errands_destroy(es);
        return r;
    }
    *out = es;
    return 0;
}

void errands_destroy(struct errands *es)
{
    struct errand *e;
    if (!es)
        return;
    (void)pthread_mutex_lock(&es->lock);
    es->is_ending = true;
    (void)pthread_cond_broadcast(&es->is_more);
    (void)pthread_mutex_unlock(&es->lock);
    for (unsigned i = 0; i < es->n_threads; i++)
        (void)pthread_join(es->threads[i], NULL);
    bring_back(es);
    while ((e = queue_take(&es->waiting))) {
        e->is_dropped = true;
        e->done(e);
    }
    if (es->woken)
        event_free(es->woken);
    if (es->fd >= 0)
        (void)close(es->fd);
    (void)pthread_cond_destroy(&es->is_more);
    (void)pthread_mutex_destroy(&es->lock);
    mem_free(es);
}

int errands_send(struct errands *es, struct errand *e)
{
    int r = E_LIMIT;
    e->is_dropped = false;
    (void)pthread_mutex_lock(&es->lock);
    if (es->n_waiting < ERRANDS_MAX) {
        queue_add(&es->waiting, e);
        es->n_waiting++;
        (void)pthread_cond_signal(&es->is_more);
        r = 0;
    }
    (void)pthread_mutex_unlock(&es->lock);
    return r;
}

bool errands_is_ending(const struct errands *es)
{
    return es->is_ending;
}
