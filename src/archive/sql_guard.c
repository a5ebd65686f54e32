/* SPDX-License-Identifier: Apache-2.0 */
/* sql_guard.c - what a text may do: read, for so long, and with functions that are known to end.
 *
 * SQLite asks the progress handler every few thousand steps, and the authorizer while it compiles; both look
 * at the time and at cancellation. One step may be a call of a function, so only those are allowed whose cost
 * is bounded by the length of a value (SQL_LENGTH_MAX): not in the list are those that touch files or
 * settings, and those whose cost is the product of two lengths; of these instr, replace and trim are ours
 * (sql_functions.c). */
#include "archive/sql_guard.h"

#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Between spaces. */
static const char allowed[] =
    " "
    "-> ->> abs acos acosh asin asinh at atan atan2 atanh avg bucket ceil ceiling char coalesce cos "
    "cosh count counter_increase counter_rate cume_dist current_date current_time current_timestamp "
    "date datetime degrees dense_rank duration duration_text exp first_value floor format glob "
    "group_concat hex ifnull iif instr json json_array json_array_length json_each json_extract "
    "json_group_array json_group_object json_object json_quote json_tree json_type json_valid "
    "julianday lag last_value lead length like likelihood likely ln log log10 log2 lower ltrim max "
    "median min mod nth_value ntile nullif percent_rank percentile pi pow power printf quote radians "
    "random randomblob rank replace round row_number rtrim severity sign sin sinh sqlite_version "
    "sqrt strftime substr substring sum tan tanh time time_text total trim trunc typeof unicode "
    "unixepoch unlikely upper zeroblob ";

static bool is_allowed_function(const char *name)
{
    char word[32];
    int n = snprintf(word, sizeof word, " %s ", name ? name : "");
    for (int i = 0; i < n && n < (int)sizeof word; i++)
        word[i] = slice_lower(word[i]);
    return n > 2 && n < (int)sizeof word && strstr(allowed, word);
}

int sql_check(struct sql_context *c)
{
    if (c->is_cancelled && atomic_load_explicit(c->is_cancelled, memory_order_relaxed))
        return -ECANCELED;
    return clock_mono_ns() > c->deadline_ns ? -ETIMEDOUT : 0;
}

static int on_progress(void *arg)
{
    struct sql_context *c = arg;
    int r = sql_check(c);
    if (r < 0)
        (void)sql_fail(c, r); /* 1 interrupts it */
    return r < 0;
}

/* What the words of an action that is refused are. */
static const char *action_text(int action)
{
    switch (action) {
    case SQLITE_PRAGMA:
        return "PRAGMA";
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
        return "ATTACH and DETACH";
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return "transactions";
    default:
        return "what changes something";
    }
}

static int refuse(struct sql_context *c, int action, const char *name)
{
    if (action == SQLITE_FUNCTION)
        (void)sql_fail_text(c, -EACCES,
                            "the function %s is not allowed here; docs/sql.md lists those that are",
                            name ? name : "?");
    else
        (void)sql_fail_text(c, -EACCES, "%s: not allowed, tables can only be read: SELECT, WITH or VALUES",
                            action_text(action));
    return SQLITE_DENY;
}

/* Tables of SQLite's own (sqlite_schema) hold nothing of ours; reading no column at all is asked with "". */
static int read_table(struct sql_context *c, const char *table)
{
    if (!table || sqlite3_strnicmp(table, "sqlite_", 7) != 0)
        return SQLITE_OK;
    (void)sql_fail_text(c, -EACCES, "no such table: %s; `gridline schemas` lists the event names", table);
    return SQLITE_DENY;
}

static int on_authorize(void *arg, int action, const char *a, const char *b, const char *db, const char *in)
{
    struct sql_context *c = arg;
    (void)db; /* there is only main */
    (void)in;
    if (c->is_declaring)
        return SQLITE_OK;
    int r = sql_check(c);
    if (r < 0) {
        (void)sql_fail(c, r);
        return SQLITE_DENY;
    }
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_READ:
        return read_table(c, a);
    case SQLITE_FUNCTION:
        return is_allowed_function(b) ? SQLITE_OK : refuse(c, action, b);
    default:
        return refuse(c, action, a);
    }
}

/* Rows of sorters and temporary tables are values to SQLite: they have the same limit. */
static void limit(sqlite3 *db, size_t bytes)
{
    const struct {
        int what, to;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, bytes / 4 < SQL_LENGTH_MAX ? (int)(bytes / 4) : SQL_LENGTH_MAX},
        {SQLITE_LIMIT_SQL_LENGTH, SQL_TEXT_MAX},
        {SQLITE_LIMIT_EXPR_DEPTH, 400},
        {SQLITE_LIMIT_COMPOUND_SELECT, 64},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 1},
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        (void)sqlite3_limit(db, limits[i].what, limits[i].to); /* gives the one before; can't fail */
}

void sql_guard_arm(struct sql_context *c)
{
    limit(c->db, c->limits.bytes);
    sqlite3_progress_handler(c->db, SQL_PROGRESS_STEPS, on_progress, c);
    (void)sqlite3_set_authorizer(c->db, on_authorize, c); /* can't fail with a connection */
}

void sql_guard_disarm(struct sql_context *c)
{
    sqlite3_progress_handler(c->db, 0, NULL, NULL);
    (void)sqlite3_set_authorizer(c->db, NULL, NULL); /* as above */
}
