/* SPDX-License-Identifier: Apache-2.0 */
/* query_internal.h - what query.c (the loop) and query_thread.c (the threads) share.
 *
 * Who may touch what: the loop, everything that is not said to be the thread's or below a lock; a query's
 * thread, from `given` until it has set is_done, what is its; both, with the lock, what the lock guards. No
 * callback is made and nothing is read or written with the lock held. */
#ifndef GRIDLINE_ARCHIVE_QUERY_INTERNAL_H
#define GRIDLINE_ARCHIVE_QUERY_INTERNAL_H

#include "archive/query.h"
#include "archive/query_rows.h"
#include "base/arena.h"

#include <pthread.h>
#include <stdatomic.h>

struct page {
    struct page *next;
    struct strbuf bytes;
};

enum query_state {
    QUERY_IS_WAITING, /* for its turn */
    QUERY_IS_FILLING, /* its system tables */
    QUERY_IS_GIVEN,   /* to a thread */
    QUERY_IS_OVER     /* its result is known; end was told, or will be */
};

struct query {
    struct queries *all;
    struct query *next, *previous; /* of all that are not closed, or with a thread */
    struct query_asker *asker;
    struct arena arena; /* text, who, names of tables */
    struct slice text;
    const void *who;
    struct query_access access;
    int kind;
    enum query_format format;
    struct sql_limits limits;
    struct table_rows *tables; /* n_tables; the thread reads them */
    const struct table_ops *ops[QUERY_TABLES];
    size_t n_tables, n_filled;
    int64_t asked_ns; /* monotonic */
    int64_t until_ns; /* when its time is up; from when it began */
    enum query_state state;
    bool is_wanted; /* the asker has asked for a piece */
    bool is_closed;
    bool has_ended; /* it was told */

    _Atomic bool is_cancelled;
    _Atomic uint64_t rows_seen;

    /* With the lock: */
    struct query *next_given;
    struct query *next_news;
    bool has_news; /* it is in the list */
    struct page *pages, **last_page;
    size_t n_pages;
    bool is_done; /* the thread is done with it; what follows is set, and the loop's */
    int result;
    struct diag why;
    uint64_t rows, lost;
    struct notices notices;
};

struct query_thread {
    struct queries *all;
    struct query_thread *next;
    pthread_t thread;
    bool is_ended; /* with the lock */
    /* Its own: */
    struct view_reader *reader;
    struct sql_engine *engine;
};

struct mounted {
    const struct table_ops *tables;
    size_t n;
};

struct queries {
    struct queries_options options;
    struct query_ops ops;
    struct mounted *mounted;
    size_t n_mounted;
    struct query *first; /* all of them */
    struct query *walk;  /* where a walk over them goes on: query_close may take that one out */
    struct query *telling;
    struct query_thread *threads;
    size_t n_waiting, n_open;
    size_t n_closing; /* closed, and with a thread */
    struct queries_counts counts;
    int wake_fd, timer_fd, poll_fd;
    bool is_ticking;

    pthread_mutex_t lock;
    pthread_cond_t has_given; /* threads without work wait for it, */
    pthread_cond_t changed;   /* those with work for room, for leave to go on, or for the end */
    struct query *given, **last_given;
    size_t n_given, n_idle;
    size_t n_running, n_resuming; /* those that run; that could go on, and wait for one that runs */
    struct query *news, **last_news;
    size_t n_news;
    bool is_stopping;
};

/* With the lock: the loop is to look at q. */
void query_tell_loop(struct query *q);
/* Another thread, for what was given. -errno. */
int query_thread_start(struct queries *all);
/* Joins those that have ended; at the end, with is_stopping, all. */
void query_threads_join(struct queries *all, bool all_of_them);

#endif
