/* SPDX-License-Identifier: Apache-2.0 */
/* judge_query.c - the text of a rule: compiled, compiled again when its tables have changed, run.
 *
 * NAME_latest that the text seems to name are made before SQLite sees it (judge_text.c); which of them it
 * does read, the authorizer tells. What SQLite then does not find decides where the query belongs: a table
 * that is no NAME_latest, or a function that gateways alone have, is for a gateway; a column is one that may
 * come. */
#include "guard/judge.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "guard/judge_internal.h"

#include <errno.h>
#include <inttypes.h>

#define DEFAULT_TIME_NS (1 * NS_PER_S)
#define DEFAULT_ROWS    1000000

struct query {
    struct judge *judge; /* NULL: it has gone */
    struct query *next;
    sqlite3_stmt *stmt; /* NULL: to be compiled */
    struct judge_live **lives;
    bool *is_read; /* of lives; by the statement that was compiled last */
    size_t n_lives;
    uint64_t made;        /* the newest of lives when it was tried to compile last; 0: never */
    int failed;           /* then; 0, or E_NODATA and the like */
    struct diag why;      /* then */
    struct slice *names;  /* of the result's columns, n */
    struct value *values; /* of a row */
    size_t n;
    struct slice text; /* behind the struct, with a NUL */
};

/* ---------------------------------------------------------------- what is wrong with it */

/* Functions that the SQL of gateways has and SQLite has not (docs/sql.md). */
static bool is_of_gateways(struct slice function)
{
    static const char *const names[] = {"at",         "bucket",        "counter_increase", "counter_rate",
                                        "duration",   "duration_text", "forecast",         "median",
                                        "percentile", "severity",      "time_text"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_eq_nocase(function, slice_str(names[i])))
            return true;
    return false;
}

/* "main.cpu" is cpu. */
static struct slice behind_dot(struct slice name)
{
    const char *dot = memrchr(name.p, '.', name.n);
    return dot ? slice_from(name, (size_t)(dot - name.p) + 1) : name;
}

static int explain_missing(const struct query *q, struct slice what, struct slice name, int code,
                           struct diag *why)
{
    size_t at = judge_find_identifier(q->text, name);
    if (at == SIZE_MAX)
        at = judge_find_identifier(q->text, behind_dot(name));
    (void)diag_set(why, code, 0, "%.*s: %.*s", SLICE_ARG(what), SLICE_ARG(name));
    if (at != SIZE_MAX)
        judge_place(q->text, at, why);
    return code;
}

static bool takes(struct slice *message, const char *prefix)
{
    if (!slice_starts(*message, slice_str(prefix)))
        return false;
    *message = slice_from(*message, strlen(prefix));
    return true;
}

/* After SQLite has said that the text is wrong. */
static int explain(const struct query *q, int code, struct diag *why)
{
    const struct judge *j = q->judge;
    struct slice message = slice_str(sqlite3_errmsg(j->db));
    int offset = sqlite3_error_offset(j->db);
    *why = (struct diag){0};
    if (j->failed) {
        (void)diag_set(why, j->failed, 0, "%s", j->failure.message);
        return j->failed;
    }
    if (judge_error(code) != E_PROTO)
        return diag_set(why, judge_error(code), 0, "%.*s", SLICE_ARG(message));
    if (takes(&message, "no such table: "))
        return explain_missing(q, SLICE_LIT("only a gateway could have the table"), message, -EXDEV, why);
    if (q->n_lives && takes(&message, "no such column: "))
        return explain_missing(q, SLICE_LIT("no such column yet"), message, E_NODATA, why);
    if (slice_ends(message, SLICE_LIT(" may not be modified")))
        return diag_set(why, -EACCES, 1, "%.*s: a rule can only read", SLICE_ARG(message));
    struct slice function = message;
    if (takes(&function, "no such function: ") && is_of_gateways(function))
        return explain_missing(q, SLICE_LIT("only a gateway has the function"), function, -EXDEV, why);
    (void)diag_set(why, E_PROTO, 0, "%.*s", SLICE_ARG(message));
    if (offset >= 0)
        judge_place(q->text, (size_t)offset, why);
    return E_PROTO;
}

/* ---------------------------------------------------------------- compiling */

static void release(struct query *q)
{
    (void)sqlite3_finalize(q->stmt); /* says how its last run ended */
    q->stmt = NULL;
    mem_free(q->names);
    mem_free(q->values);
    q->names = NULL;
    q->values = NULL;
    q->n = 0;
}

void judge_release_readers(struct judge *j, const struct judge_live *t)
{
    for (struct query *q = j->queries; q; q = q->next)
        for (size_t i = 0; i < q->n_lives; i++)
            if (q->lives[i] == t)
                release(q);
}

static bool is_first_word(void *arg, struct slice name, size_t at)
{
    (void)at; /* not asked */
    *(struct slice *)arg = name;
    return false;
}

/* What SQLite finds nothing to do for (REINDEX, RELEASE) asks for no right, and changes nothing. */
static bool is_reading(const struct query *q)
{
    struct slice first = SLICE_LIT("");
    judge_identifiers(q->text, is_first_word, &first);
    return (slice_eq_nocase(first, SLICE_LIT("select")) || slice_eq_nocase(first, SLICE_LIT("with")) ||
            slice_eq_nocase(first, SLICE_LIT("values"))) &&
           sqlite3_stmt_readonly(q->stmt);
}

/* Behind the statement only white space, comments and semicolons may follow; SQLite knows best what they are.
 */
static int check_tail(const struct query *q, const char *tail, struct diag *why)
{
    const char *end = q->text.p + q->text.n;
    while (tail < end) {
        sqlite3_stmt *second = NULL;
        const char *next = NULL;
        int code = sqlite3_prepare_v3(q->judge->db, tail, (int)(end - tail) + 1, 0, &second, &next);
        (void)sqlite3_finalize(second); /* it was not run */
        if (code != SQLITE_OK || second) {
            (void)diag_set(why, E_PROTO, 0, "one statement only; something follows the first");
            judge_place(q->text, (size_t)(tail - q->text.p), why);
            return E_PROTO;
        }
        if (next == tail)
            break;
        tail = next;
    }
    return 0;
}

/* They are the statement's, and good until it is compiled again: SQLite does that by itself, at the first
 * step of a run, when a table was made or removed, be it one of other queries. */
static int note_names(struct query *q)
{
    for (size_t i = 0; i < q->n; i++) {
        const char *name = sqlite3_column_name(q->stmt, (int)i);
        if (!name)
            return -ENOMEM;
        q->names[i] = slice_str(name);
    }
    return 0;
}

static int take_names(struct query *q)
{
    q->n = (size_t)sqlite3_column_count(q->stmt);
    q->names = mem_try_alloc((q->n + 1) * sizeof *q->names);
    q->values = mem_try_alloc((q->n + 1) * sizeof *q->values);
    return q->names && q->values ? note_names(q) : -ENOMEM;
}

static int prepare(struct query *q, struct diag *why)
{
    struct judge *j = q->judge;
    const char *tail = NULL;
    j->failed = 0;
    for (size_t i = 0; i < q->n_lives; i++)
        q->lives[i]->is_read = false;
    int code =
        sqlite3_prepare_v3(j->db, q->text.p, (int)q->text.n + 1, SQLITE_PREPARE_PERSISTENT, &q->stmt, &tail);
    for (size_t i = 0; i < q->n_lives; i++)
        q->is_read[i] = code != SQLITE_OK || q->lives[i]->is_read;
    if (code != SQLITE_OK)
        return explain(q, code, why);
    if (!q->stmt)
        return diag_set(why, E_PROTO, 1, "there is no statement");
    if (!is_reading(q))
        return diag_set(why, -EACCES, 1, "a rule can only read: SELECT, WITH or VALUES");
    if (sqlite3_bind_parameter_count(q->stmt))
        return diag_set(why, E_PROTO, 0, "parameters (?, :name) have no value here: write the value itself");
    int r = check_tail(q, tail, why);
    if (r == 0)
        r = take_names(q);
    return r == -ENOMEM ? diag_set(why, r, 0, "%s", err_text(r)) : r;
}

/* Makes those anew whose columns have changed. */
static int refresh(struct query *q)
{
    for (size_t i = 0; i < q->n_lives; i++) {
        if (!judge_live_is_stale(q->lives[i]))
            continue;
        judge_release_readers(q->judge, q->lives[i]);
        int r = judge_live_make(q->lives[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Grows whenever one of them was made anew. */
static uint64_t newest_make(const struct query *q)
{
    uint64_t newest = 1;
    for (size_t i = 0; i < q->n_lives; i++)
        if (newest < q->lives[i]->made)
            newest = q->lives[i]->made;
    return newest;
}

/* 0: there is a statement, of the columns that there are. What could not be compiled is not tried again
 * before a table has changed. */
static int compile(struct query *q)
{
    int r = refresh(q);
    if (r < 0)
        return diag_set(&q->why, r, 0, "%s", err_text(r));
    uint64_t made = newest_make(q);
    if (q->stmt || (q->made == made && q->failed))
        return q->stmt ? 0 : q->failed;
    q->why = (struct diag){0};
    q->failed = prepare(q, &q->why);
    q->made = q->failed == -ENOMEM ? 0 : made;
    if (q->failed < 0)
        release(q);
    return q->failed;
}

/* ---------------------------------------------------------------- queries */

static int check_text(struct slice text, struct diag *why)
{
    if (text.n > JUDGE_TEXT_MAX)
        return diag_set(why, E_LIMIT, 0, "the query is longer than %d bytes", JUDGE_TEXT_MAX);
    const char *nul = text.n ? memchr(text.p, '\0', text.n) : NULL;
    if (nul) {
        (void)diag_set(why, E_PROTO, 0, "a NUL character");
        judge_place(text, (size_t)(nul - text.p), why);
        return E_PROTO;
    }
    return text_is_utf8(text) ? 0 : diag_set(why, E_PROTO, 0, "the query is not UTF-8");
}

struct naming {
    struct query *query;
    int r;
};

static bool add_live(void *arg, struct slice name, size_t at)
{
    struct naming *n = arg;
    struct query *q = n->query;
    const size_t suffix = strlen("_latest");
    (void)at; /* not asked */
    if (name.n <= suffix || name.n > EVENT_NAME_MAX + suffix + 16 ||
        !slice_eq_nocase(slice_from(name, name.n - suffix), SLICE_LIT("_latest")))
        return true;
    for (size_t i = 0; i < q->n_lives; i++)
        if (slice_eq_nocase(name, slice_str(q->lives[i]->name)))
            return true;
    if (q->n_lives == JUDGE_TABLES_MAX)
        n->r = E_LIMIT;
    else
        n->r = judge_live_get(q->judge, name, &q->lives[q->n_lives]);
    q->n_lives += n->r == 0;
    return n->r == 0;
}

static int name_lives(struct query *q, struct diag *why)
{
    struct naming n = {q, 0};
    q->lives = mem_try_alloc(JUDGE_TABLES_MAX * sizeof(struct judge_live *));
    q->is_read = mem_try_alloc(JUDGE_TABLES_MAX * sizeof *q->is_read);
    if (!q->lives || !q->is_read)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    judge_identifiers(q->text, add_live, &n);
    if (n.r == E_LIMIT)
        return diag_set(why, n.r, 0, "the query names more than %d tables", JUDGE_TABLES_MAX);
    return n.r < 0 ? diag_set(why, n.r, 0, "%s", err_text(n.r)) : 0;
}

int query_create(struct judge *j, struct slice text, struct query **out, struct diag *why)
{
    struct diag nobody;
    why = why ? why : &nobody;
    *why = (struct diag){0};
    int r = check_text(text, why);
    if (r < 0)
        return r;
    struct query *q = mem_try_alloc(sizeof *q + text.n + 1);
    if (!q)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (text.n)
        memcpy((char *)(q + 1), text.p, text.n);
    q->text = slice_of((const char *)(q + 1), text.n);
    q->judge = j;
    q->next = j->queries;
    j->queries = q;
    r = name_lives(q, why);
    if (r == 0) {
        j->deadline_ns = INT64_MAX;
        r = compile(q);
        *why = q->why;
    }
    if (r < 0 && r != E_NODATA) {
        query_destroy(q);
        return r;
    }
    *out = q;
    return r;
}

/* Everything that is the judge's. */
static void leave(struct query *q)
{
    release(q);
    for (size_t i = 0; i < q->n_lives; i++)
        judge_live_unref(q->lives[i]);
    q->n_lives = 0;
    q->judge = NULL;
}

void judge_release_queries(struct judge *j)
{
    while (j->queries) {
        struct query *q = j->queries;
        j->queries = q->next;
        leave(q);
    }
}

void query_destroy(struct query *q)
{
    if (!q)
        return;
    struct query **at = q->judge ? &q->judge->queries : NULL;
    while (at && *at != q)
        at = &(*at)->next;
    if (at) {
        *at = q->next;
        leave(q);
    }
    mem_free(q->lives);
    mem_free(q->is_read);
    mem_free(q);
}

bool query_table(const struct query *q, size_t i, struct slice *name)
{
    for (size_t k = 0; k < q->n_lives; k++) {
        if (!q->is_read[k] || i-- > 0)
            continue;
        const char *full = q->lives[k]->name;
        *name = slice_of(full, strlen(full) - strlen("_latest"));
        return true;
    }
    return false;
}

/* ---------------------------------------------------------------- running */

static struct value value_of(sqlite3_stmt *stmt, int i)
{
    switch (sqlite3_column_type(stmt, i)) {
    case SQLITE_INTEGER:
        return value_int(sqlite3_column_int64(stmt, i));
    case SQLITE_FLOAT:
        return value_float(sqlite3_column_double(stmt, i));
    case SQLITE_TEXT: {
        const char *p = (const char *)sqlite3_column_text(stmt, i);
        return value_text(slice_of(p ? p : "", p ? (size_t)sqlite3_column_bytes(stmt, i) : 0));
    }
    case SQLITE_BLOB: {
        const char *p = sqlite3_column_blob(stmt, i);
        return value_bytes(slice_of(p ? p : "", p ? (size_t)sqlite3_column_bytes(stmt, i) : 0));
    }
    default:
        return value_none();
    }
}

static int step(struct query *q, const struct query_run *run, struct diag *why)
{
    size_t rows = 0, rows_max = run->rows_max ? run->rows_max : DEFAULT_ROWS;
    int code;
    while ((code = sqlite3_step(q->stmt)) == SQLITE_ROW) {
        if (rows == 0 && note_names(q) < 0)
            return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
        if (rows++ == rows_max)
            return diag_set(why, E_LIMIT, 0, "the query gives more than %zu rows", rows_max);
        for (size_t i = 0; i < q->n; i++)
            q->values[i] = value_of(q->stmt, (int)i);
        int r = run->row(run->arg, q->names, q->values, q->n);
        if (r < 0)
            return r;
    }
    return code == SQLITE_DONE ? 0 : explain(q, code, why);
}

/* The first table that nobody has sent yet; NULL. */
static const struct judge_live *find_unheard(const struct query *q)
{
    for (size_t i = 0; i < q->n_lives; i++)
        if (q->is_read[i] && !q->lives[i]->table)
            return q->lives[i];
    return NULL;
}

int query_run(struct query *q, const struct query_run *run, struct diag *why)
{
    struct judge *j = q->judge;
    struct diag nobody;
    why = why ? why : &nobody;
    *why = (struct diag){0};
    if (!j)
        return diag_set(why, -EBADF, 0, "the judge has gone");
    int64_t mono = clock_mono_ns(), time_ns = run->time_ns > 0 ? run->time_ns : DEFAULT_TIME_NS;
    j->deadline_ns = time_ns < INT64_MAX - mono ? mono + time_ns : INT64_MAX;
    j->now_ns = run->now_ns;
    j->since_ns = run->since_ns;
    j->runs++;
    int r = compile(q);
    if (r < 0) {
        *why = q->why;
        return r;
    }
    j->failed = 0;
    r = step(q, run, why);
    (void)sqlite3_reset(q->stmt); /* repeats what step has said */
    const struct judge_live *unheard = r == 0 ? find_unheard(q) : NULL;
    return unheard ? diag_set(why, E_NODATA, 0, "%s: nobody has sent it yet", unheard->name) : r;
}
