/* SPDX-License-Identifier: Apache-2.0 */
/* Fork: the forking thread takes all locks first, so that the child finds everything whole. In the child each
 * handle is a new producer; what lay in the rings is the parent's, which will write it. */
#include "client/process.h"

#include "client/activate.h"
#include "client/handle.h"

#include <errno.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
static struct gridline *handles[HANDLES];
static uint64_t last_gen;

static pthread_key_t thread_key;
static bool has_thread_key;

void process_lock(void)
{
    (void)pthread_mutex_lock(&lock); /* a normal mutex: can't fail */
}
void process_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

int process_add(struct gridline *g)
{
    for (uint32_t i = 1; i < HANDLES; i++) {
        if (handles[i])
            continue;
        handles[i] = g;
        g->slot = i;
        g->bit = 1u << i;
        g->gen = ++last_gen;
        return 0;
    }
    return -EMFILE;
}

void process_remove(struct gridline *g)
{
    handles[g->slot] = NULL;
}

struct gridline *process_handle(unsigned slot)
{
    return handles[slot];
}

/* Without a key the rings of ended threads are freed with their handle. */
int process_watch_thread(struct thread *t)
{
    return has_thread_key ? -pthread_setspecific(thread_key, t) : 0;
}

static void before_fork(void)
{
    process_lock();
    for (unsigned i = 1; i < HANDLES; i++) {
        if (!handles[i])
            continue;
        (void)pthread_mutex_lock(&handles[i]->lock);
        (void)pthread_mutex_lock(&handles[i]->points_lock);
    }
    activate_fork_lock();
}

static void unlock_all(void)
{
    activate_fork_unlock();
    for (unsigned i = HANDLES; i-- > 1;) {
        if (!handles[i])
            continue;
        (void)pthread_mutex_unlock(&handles[i]->points_lock);
        (void)pthread_mutex_unlock(&handles[i]->lock);
    }
    process_unlock();
}

static void after_fork_child(void)
{
    for (unsigned i = 1; i < HANDLES; i++)
        if (handles[i])
            handle_after_fork(handles[i]);
    unlock_all();
}

__attribute__((constructor)) static void process_begins(void)
{
    has_thread_key = pthread_key_create(&thread_key, ring_thread_ends) == 0;
    (void)pthread_atfork(before_fork, unlock_all,
                         after_fork_child); /* -ENOMEM at start-up: no fork support then */
}

/* At exit, or when the object that this is linked into is unloaded: what is left is written out. Other
 * threads may still be writing events, so nothing is freed. */
__attribute__((destructor)) static void process_ends(void)
{
    for (unsigned i = 1; i < HANDLES; i++) {
        process_lock();
        struct gridline *g = handles[i];
        process_unlock();
        if (g)
            handle_at_exit(g);
    }
    if (has_thread_key) {
        has_thread_key = false;
        (void)pthread_key_delete(thread_key); /* its function may be gone soon */
    }
}
