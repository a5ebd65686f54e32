/* SPDX-License-Identifier: Apache-2.0 */
/* sql_memory.c - how much memory SQLite takes for one query.
 *
 * SQLite counts memory for the whole process alone (sqlite3_hard_heap_limit64): one query that hits that
 * limit would take memory away from all others and from the writer. So its allocator is wrapped: what it
 * gives is charged to the account that the calling thread has entered, and refused when that is full, which
 * SQLite reports as SQLITE_NOMEM to that query alone. Threads that have entered none (the archive's writer,
 * everything that opens partitions) pay nothing but one look at a thread's variable.
 *
 * An allocator can only be set before SQLite is first used by anybody in the process: hence the constructor,
 * which is linked in with the engine. Where somebody was first after all, sql_engine_create says so. SQLite's
 * own statistics are switched off: they cost a lock around every allocation, for all threads. */
#include "archive/sql_internal.h"

static sqlite3_mem_methods under; /* SQLite's own */
static _Thread_local struct sql_account *entered;

struct sql_account *sql_memory_enter(struct sql_account *a)
{
    struct sql_account *before = entered;
    entered = a;
    return before;
}

bool sql_memory_take(struct sql_account *a, size_t n)
{
    if (n > INT64_MAX / 2 || a->used > a->limit - (int64_t)n) {
        a->is_over = true;
        return false;
    }
    a->used += (int64_t)n;
    return true;
}

void sql_memory_give(struct sql_account *a, size_t n)
{
    a->used -= (int64_t)n;
}

static void *take(int n)
{
    if (!entered)
        return under.xMalloc(n);
    if (!sql_memory_take(entered, (size_t)n))
        return NULL;
    void *p = under.xMalloc(n);
    sql_memory_give(entered, (size_t)n);
    if (p)
        entered->used += under.xSize(p);
    return p;
}

static void give(void *p)
{
    if (entered)
        entered->used -= under.xSize(p);
    under.xFree(p);
}

static void *resize(void *p, int n)
{
    if (!entered)
        return under.xRealloc(p, n);
    int before = under.xSize(p);
    if (n > before && !sql_memory_take(entered, (size_t)(n - before)))
        return NULL;
    if (n > before)
        sql_memory_give(entered, (size_t)(n - before));
    void *q = under.xRealloc(p, n);
    if (q)
        entered->used += under.xSize(q) - before;
    return q;
}

__attribute__((constructor)) static void wrap_allocator(void)
{
    sqlite3_mem_methods ours;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &under) != SQLITE_OK)
        return; /* somebody was first: sql_memory_is_bounded says so */
    ours = under;
    ours.xMalloc = take;
    ours.xFree = give;
    ours.xRealloc = resize;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &ours) == SQLITE_OK)
        (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* else they only cost time */
}

bool sql_memory_is_bounded(void)
{
    struct sql_account probe = {.limit = INT64_MAX};
    struct sql_account *before = sql_memory_enter(&probe);
    void *p = sqlite3_malloc(64);
    bool is = p && probe.used >= 64;
    sqlite3_free(p);
    (void)sql_memory_enter(before);
    return is;
}
