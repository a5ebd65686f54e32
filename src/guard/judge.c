/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c - the connection: in memory, empty but for virtual tables, and what a text may do with it.
 *
 * A text may read, for so long, with functions that touch nothing outside. SQLite asks the authorizer while
 * it compiles and the progress handler every JUDGE_STEPS steps while it runs. Memory is bounded for all of
 * SQLite in the process (sqlite3_hard_heap_limit64), which in the guard is this connection alone. (A program
 * that has the archive's engine, too, has switched these counts off and bounds that engine by itself; there
 * rules are run over by a person, see backtest.h.) */
#include "guard/judge.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "guard/judge_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* Between spaces. Not there: what loads code, touches files or settings, or tells of the program. */
static const char allowed[] =
    " -> ->> abs acos acosh age asin asinh atan atan2 atanh avg ceil ceiling char coalesce cos cosh count "
    "cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value "
    "floor format glob group_concat hex ifnull iif instr json json_array json_array_length json_each "
    "json_extract json_group_array json_group_object json_insert json_object json_patch json_quote "
    "json_remove json_replace json_set json_tree json_type json_valid julianday lag last_value lead length "
    "like likelihood likely ln log log10 log2 lower ltrim max min mod now nth_value ntile nullif "
    "percent_rank pi pow power printf quote radians random rank replace round row_number rtrim sign sin sinh "
    "soundex sqlite_version sqrt strftime substr substring sum tan tanh time total trim trunc typeof unicode "
    "unixepoch unlikely upper zeroblob ";

int judge_fail(struct judge *j, int code, const char *format, ...)
{
    va_list args;
    if (j->failed)
        return SQLITE_ERROR; /* the first reason counts */
    j->failed = code;
    va_start(args, format);
    (void)vsnprintf(j->failure.message, sizeof j->failure.message, format, args); /* it may be cut */
    va_end(args);
    return SQLITE_ERROR;
}

int judge_error(int code)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_IOERR:
        return -EIO;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return E_DAMAGE;
    case SQLITE_TOOBIG:
        return E_LIMIT;
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_INTERRUPT:
        return -ETIMEDOUT;
    default:
        return E_PROTO;
    }
}

int judge_declare(struct judge *j, const char *text)
{
    bool before = j->is_declaring;
    j->is_declaring = true;
    int code = sqlite3_declare_vtab(j->db, text);
    j->is_declaring = before;
    return code;
}

void judge_put_quoted(struct strbuf *out, const char *name)
{
    strbuf_add_char(out, '"');
    for (; *name; name++) {
        if (*name == '"')
            strbuf_add_char(out, '"');
        strbuf_add_char(out, *name);
    }
    strbuf_add_char(out, '"');
}

/* Above INT64_MAX, where SQLite has no integers: text with all 20 digits, exact and in order, as in the
 * archive. */
static void result_huge(sqlite3_context *to, uint64_t u)
{
    char digits[NUM_TEXT_MAX] = "0";
    size_t zero = u < UINT64_C(10000000000000000000);
    size_t n = zero + num_print_uint(digits + zero, u);
    sqlite3_result_text(to, digits, (int)n, SQLITE_TRANSIENT);
}

/* Text is given as it lies there: nothing changes while a query runs. */
void judge_result(sqlite3_context *to, struct value v)
{
    switch (v.type) {
    case VALUE_INT:
        sqlite3_result_int64(to, v.i);
        break;
    case VALUE_UINT:
    case VALUE_BOOL:
        if (v.u <= INT64_MAX)
            sqlite3_result_int64(to, (int64_t)v.u);
        else
            result_huge(to, v.u);
        break;
    case VALUE_FLOAT:
        sqlite3_result_double(to, v.f); /* SQLite makes NULL of NaN */
        break;
    case VALUE_TEXT:
        sqlite3_result_text(to, v.n ? v.p : "", (int)v.n, SQLITE_STATIC);
        break;
    case VALUE_BYTES:
        sqlite3_result_blob(to, v.n ? v.p : "", (int)v.n, SQLITE_STATIC);
        break;
    default:
        break; /* missing: a result that is not set is NULL */
    }
}

/* ---------------------------------------------------------------- what a text may do */

static bool is_allowed(const char *function)
{
    char word[32];
    int n = snprintf(word, sizeof word, " %s ", function ? function : "");
    for (int i = 0; i < n && n < (int)sizeof word; i++)
        word[i] = slice_lower(word[i]);
    return n > 2 && n < (int)sizeof word && strstr(allowed, word);
}

/* Notes which tables are read. SQLite's own have nothing that is a rule's business. */
static int on_read(struct judge *j, const char *table)
{
    if (!table)
        return SQLITE_OK;
    if (sqlite3_strnicmp(table, "sqlite_", 7) == 0) {
        (void)judge_fail(j, -EACCES, "%s: a rule can't read it", table);
        return SQLITE_DENY;
    }
    for (struct judge_live *t = j->lives; t; t = t->next)
        if (sqlite3_stricmp(table, t->name) == 0)
            t->is_read = true;
    return SQLITE_OK;
}

static int on_authorize(void *arg, int action, const char *a, const char *b, const char *db, const char *in)
{
    struct judge *j = arg;
    (void)db; /* there is only main */
    (void)in;
    if (j->is_declaring)
        return SQLITE_OK;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_READ:
        return on_read(j, a);
    case SQLITE_FUNCTION:
        if (is_allowed(b))
            return SQLITE_OK;
        (void)judge_fail(j, -EACCES, "the function %s is not allowed in a rule", b ? b : "?");
        return SQLITE_DENY;
    default:
        (void)judge_fail(j, -EACCES, "a rule can only read: SELECT, WITH or VALUES");
        return SQLITE_DENY;
    }
}

static int on_progress(void *arg)
{
    struct judge *j = arg;
    if (clock_mono_ns() <= j->deadline_ns)
        return 0;
    (void)judge_fail(j, -ETIMEDOUT, "the query takes too long"); /* 1 interrupts it */
    return 1;
}

static void set_limits(sqlite3 *db)
{
    const struct {
        int what, to;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, JUDGE_LENGTH_MAX}, {SQLITE_LIMIT_SQL_LENGTH, JUDGE_TEXT_MAX + 1},
        {SQLITE_LIMIT_EXPR_DEPTH, 200},          {SQLITE_LIMIT_COMPOUND_SELECT, 64},
        {SQLITE_LIMIT_VDBE_OP, 100000},          {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 1},       {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 1},         {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        (void)sqlite3_limit(db, limits[i].what, limits[i].to); /* gives the one before; can't fail */
}

/* ---------------------------------------------------------------- functions */

static void fn_now(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    const struct judge *j = sqlite3_user_data(to);
    (void)argc;
    (void)argv;
    sqlite3_result_int64(to, j->now_ns);
}

/* Seconds since a time in ns; of what is no number NULL. */
static void fn_age(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    const struct judge *j = sqlite3_user_data(to);
    int64_t ns;
    (void)argc;
    switch (sqlite3_value_type(argv[0])) {
    case SQLITE_INTEGER:
        if (__builtin_sub_overflow(j->now_ns, sqlite3_value_int64(argv[0]), &ns))
            sqlite3_result_double(to, ((double)j->now_ns - sqlite3_value_double(argv[0])) / NS_PER_S);
        else
            sqlite3_result_double(to, (double)ns / NS_PER_S);
        break;
    case SQLITE_FLOAT:
        sqlite3_result_double(to, ((double)j->now_ns - sqlite3_value_double(argv[0])) / NS_PER_S);
        break;
    default:
        break; /* NULL */
    }
}

/* ---------------------------------------------------------------- connection */

static int configure(sqlite3 *db)
{
    static const char *keep[] = {"json_each", "json_tree", NULL};
    const struct {
        int what, to;
    } options[] = {{SQLITE_DBCONFIG_DQS_DML, 0},
                   {SQLITE_DBCONFIG_DQS_DDL, 0},
                   {SQLITE_DBCONFIG_DEFENSIVE, 1},
                   {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
                   {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0}};
    int code = SQLITE_OK;
    for (size_t i = 0; code == SQLITE_OK && i < sizeof options / sizeof *options; i++)
        code = sqlite3_db_config(db, options[i].what, options[i].to, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_drop_modules(db, keep);
    /* The two that stay are declared now: later no text has the right to. */
    return code != SQLITE_OK
               ? code
               : sqlite3_exec(db, "PRAGMA temp_store=MEMORY; SELECT 1 FROM json_each('1'), json_tree('1')",
                              NULL, NULL, NULL);
}

static int add_functions(struct judge *j)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS; /* the same within a run */
    int code = sqlite3_create_function_v2(j->db, "now", 0, flags, j, fn_now, NULL, NULL, NULL);
    return code != SQLITE_OK
               ? code
               : sqlite3_create_function_v2(j->db, "age", 1, flags, j, fn_age, NULL, NULL, NULL);
}

static int open_connection(struct judge *j)
{
    (void)sqlite3_hard_heap_limit64(JUDGE_BYTES_MAX); /* gives the one before */
    int code = sqlite3_open_v2(":memory:", &j->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        code = configure(j->db);
    if (code == SQLITE_OK)
        code = add_functions(j);
    if (code == SQLITE_OK)
        code = sqlite3_set_authorizer(j->db, on_authorize, j);
    if (code != SQLITE_OK)
        return judge_error(code);
    set_limits(j->db);
    j->deadline_ns = INT64_MAX;
    sqlite3_progress_handler(j->db, JUDGE_STEPS, on_progress, j);
    return 0;
}

int judge_create(struct live *live, const struct judge_table *tables, size_t n, struct judge **out)
{
    struct judge *j = mem_try_alloc(sizeof *j);
    if (!j)
        return -ENOMEM;
    j->live = live;
    int r = open_connection(j);
    if (r == 0)
        r = judge_mount(j, tables, n);
    if (r < 0) {
        judge_destroy(j);
        return r;
    }
    *out = j;
    return 0;
}

void judge_destroy(struct judge *j)
{
    if (!j)
        return;
    judge_release_queries(j);
    (void)sqlite3_close(j->db); /* no statement is open: it can't be busy */
    judge_unmount(j);
    while (j->scratch) {
        struct judge_scratch *s = j->scratch;
        j->scratch = s->next;
        mem_free(s->rows);
        mem_free(s->mask);
        mem_free(s);
    }
    mem_free(j);
}
