/* SPDX-License-Identifier: Apache-2.0 */
/* sql.c - the engine: a connection of SQLite to no file at all, whose tables are ours, and its statements.
 *
 * A text is read twice: once by us for the identifiers, so that the tables that they may name are there
 * (sql_internal.h), and then by SQLite. An identifier that is a column or an alias and by chance also an
 * event name costs a table that nobody reads, no more. Tables of earlier texts stay, up to TABLES_MAX of
 * them; whoever may not see them finds them gone (drop_unseen).
 *
 * What bounds a query: its time (sql_guard.c), rows of its result (sql_step), memory (sql_memory.c:
 * everything that SQLite takes, and what tables of ours keep; temporary tables and sorters stay in memory,
 * nothing goes to a disk), the length of one value and of the text. */
#include "archive/sql_bucket.h"
#include "archive/sql_guard.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>

enum { TABLES_MAX = 256 };
#define DEFAULT_TIME_NS (30 * NS_PER_S)
#define DEFAULT_ROWS    1000000
#define DEFAULT_BYTES   ((size_t)256 << 20)

static const struct sql_kind *const kinds[] = {
    &sql_kind_table,      &sql_kind_latest,  &sql_kind_tables,         &sql_kind_baselines,
    &sql_kind_partitions, &sql_kind_bucket,  &sql_kind_samples_bucket, &sql_kind_deviations,
    &sql_kind_events,     &sql_kind_rebuild, &sql_kind_forecast,       &sql_kind_retention};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* A table that was made on the connection. */
struct made {
    struct made *next;
    uint64_t signature; /* of its columns and what it is of */
    uint64_t statement; /* that named it last */
    bool is_of_all;     /* it reads tables that are not named */
    size_t n_event;     /* bytes of the event's name, behind its own; 0: of no event */
    char name[];        /* in lower case */
};

struct sql_engine {
    struct view_reader *reader;
    struct sql_context context;
    struct made *made;
    size_t n_made;
    uint64_t statements; /* so far */
    struct sql_statement *open;
};

struct sql_statement {
    struct sql_engine *engine;
    sqlite3_stmt *stmt;
    uint64_t rows;
};

/* ---------------------------------------------------------------- engine */

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
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        int r = sqlite3_db_config(db, options[i].what, options[i].to, NULL);
        if (r != SQLITE_OK)
            return r;
    }
    int r = sqlite3_drop_modules(db, keep);
    /* Tables are declared when they are first named, by a CREATE that no asker may do (sql_declare). */
    return r != SQLITE_OK
               ? r
               : sqlite3_exec(db, "PRAGMA temp_store=MEMORY; SELECT 1 FROM json_each('1'), json_tree('1')",
                              NULL, NULL, NULL);
}

static int open_connection(struct sql_engine *e)
{
    struct sql_context *c = &e->context;
    int r = sqlite3_open_v2(":memory:", &c->db,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, NULL);
    if (r == SQLITE_OK)
        r = configure(c->db);
    if (r != SQLITE_OK)
        return sql_error(c, r);
    return sql_functions_register(c);
}

int sql_engine_create(struct view_reader *reader, struct sql_engine **out)
{
    if (!sql_memory_is_bounded())
        return -EBUSY; /* SQLite was used before sql_memory.c could bound it: a mistake of the program's */
    struct sql_engine *e = mem_try_alloc(sizeof *e);
    if (!e)
        return -ENOMEM;
    e->reader = reader;
    e->context.memory.limit = INT64_MAX;
    struct sql_account *before = sql_memory_enter(&e->context.memory);
    int r = open_connection(e);
    (void)sql_memory_enter(before);
    if (r < 0) {
        sql_engine_destroy(e);
        return r;
    }
    *out = e;
    return 0;
}

static void forget_made(struct sql_engine *e)
{
    while (e->made) {
        struct made *m = e->made;
        e->made = m->next;
        mem_free(m);
    }
    e->n_made = 0;
}

void sql_engine_destroy(struct sql_engine *e)
{
    if (!e)
        return;
    sql_finish(e->open);
    (void)sqlite3_close(e->context.db); /* no statement is open: it can't be busy */
    forget_made(e);
    strbuf_fini(&e->context.text);
    missing_fini(&e->context.missing);
    mem_free(e);
}

/* ---------------------------------------------------------------- tables that a text names */

static struct made *find_made(struct sql_engine *e, struct slice name)
{
    for (struct made *m = e->made; m; m = m->next)
        if (slice_eq_nocase(name, slice_str(m->name)))
            return m;
    return NULL;
}

static struct slice event_of(const struct made *m)
{
    return slice_of(m->name + strlen(m->name) + 1, m->n_event);
}

static struct made *add_made(struct sql_engine *e, struct slice name, struct slice event)
{
    struct made *m = mem_try_alloc(sizeof *m + name.n + 1 + event.n);
    if (!m)
        return NULL;
    for (size_t i = 0; i < name.n; i++)
        m->name[i] = slice_lower(name.p[i]);
    m->n_event = event.n;
    if (event.n)
        memcpy(m->name + name.n + 1, event.p, event.n);
    m->next = e->made;
    e->made = m;
    e->n_made++;
    return m;
}

/* SQLite lets go of its module; it must not be of the statement that runs. */
static void drop(struct sql_engine *e, struct made *m)
{
    struct made **at = &e->made;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    e->n_made--;
    (void)sqlite3_create_module_v2(e->context.db, m->name, NULL, NULL,
                                   NULL); /* taking one away takes nothing */
    mem_free(m);
}

/* What a name stands for. */
struct meant {
    const struct sql_kind *kind;      /* of this kind, */
    const struct table_def *table;    /* of this event, if the kind is of events */
    const struct table_rows *mounted; /* or one that was given */
    uint64_t signature;
};

/* Where no text has named it yet, or its columns have changed, it is made. Two events that the connection
 * can't tell apart in one text are an error. */
static int have_table(struct sql_engine *e, struct slice name, const struct meant *is)
{
    struct made *m = find_made(e, name);
    if (m && m->signature == is->signature) {
        m->statement = e->statements;
        return 0;
    }
    if (m && m->statement == e->statements) {
        (void)sql_fail_text(&e->context, E_PROTO,
                            "%s names two events whose names differ by case only; use their SQL names",
                            m->name);
        return E_PROTO;
    }
    if (m)
        drop(e, m);
    m = add_made(e, name, is->table ? is->table->name : SLICE_LIT(""));
    if (!m)
        return -ENOMEM;
    int r = is->kind ? is->kind->make(&e->context, m->name, is->table)
                     : sql_mounted_make(&e->context, is->mounted);
    if (r < 0) {
        drop(e, m);
        return r;
    }
    m->signature = is->signature;
    m->statement = e->statements;
    m->is_of_all = is->kind && is->kind->is_of_all;
    return 0;
}

static const struct table_rows *find_mounted(const struct sql_context *c, struct slice name)
{
    for (size_t i = 0; i < c->n_mounted; i++)
        if (slice_eq_nocase(name, slice_str(c->mounted[i].name)))
            return &c->mounted[i];
    return NULL;
}

static bool has_suffix(struct slice name, const struct sql_kind *k)
{
    size_t n = strlen(k->suffix);
    return !k->is_whole && name.n > n && slice_eq_nocase(slice_from(name, name.n - n), slice_str(k->suffix));
}

/* What was given goes first, then whole names, then events'. */
static bool find_meant(const struct sql_context *c, struct slice name, struct meant *out)
{
    *out = (struct meant){.mounted = find_mounted(c, name)};
    if (out->mounted) {
        out->signature = out->mounted->schema->hash ^ (out->mounted->has_heads ? 2 : 1);
        return true;
    }
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i]->is_whole && slice_eq_nocase(name, slice_str(kinds[i]->suffix)))
            out->kind = kinds[i];
    for (size_t i = 0; i < N_KINDS && !out->kind; i++) {
        if (!has_suffix(name, kinds[i]))
            continue;
        out->table = sql_find_table(c, slice_of(name.p, name.n - strlen(kinds[i]->suffix)));
        if (out->table)
            out->kind = kinds[i];
    }
    out->signature = (uintptr_t)out->kind ^ (out->table ? sql_shape_signature(out->table) : 0);
    return out->kind;
}

struct making {
    struct sql_engine *engine;
    int r;
};

static int check_past(struct sql_context *c, struct slice name, const struct meant *is)
{
    if (!c->is_past || is->mounted || is->kind->has_past)
        return 0;
    (void)sql_fail_text(c, E_PROTO, "%.*s has no past", (int)(name.n < 60 ? name.n : 60), name.p);
    return E_PROTO;
}

static bool make_named(void *arg, struct slice name, size_t at)
{
    struct making *m = arg;
    struct meant is;
    (void)at; /* not asked */
    if (!find_meant(&m->engine->context, name, &is))
        return true;
    m->r = check_past(&m->engine->context, name, &is);
    if (m->r == 0)
        m->r = have_table(m->engine, name, &is);
    return m->r == 0;
}

/* Tables that earlier texts have named and this one does not: whoever asks now may not see them all, and
 * could name them in ways that only SQLite knows ('cpu' for a table). */
static void drop_unseen(struct sql_engine *e)
{
    struct made *next;
    bool is_full = e->n_made > TABLES_MAX;
    for (struct made *m = e->made; m; m = next) {
        next = m->next;
        if (m->statement == e->statements)
            continue;
        bool is_seen = !e->context.access || (m->n_event && sql_may_table(&e->context, event_of(m)));
        if (is_full || !is_seen)
            drop(e, m);
    }
}

static int make_tables(struct sql_engine *e, struct slice text)
{
    struct making m = {.engine = e};
    e->statements++;
    sql_tokens(text, make_named, &m);
    drop_unseen(e);
    return m.r;
}

/* ---------------------------------------------------------------- statements */

static int say_unreadable(int r, struct diag *why)
{
    return diag_set(why, r, 0, "the archive can't be read: %s", err_text(r));
}

static void set_context(struct sql_context *c, const struct sql_query *q)
{
    static const struct sql_limits none;
    const struct sql_limits *l = q->limits ? q->limits : &none;
    c->access = q->access;
    c->limits = (struct sql_limits){.time_ns = l->time_ns > 0 ? l->time_ns : DEFAULT_TIME_NS,
                                    .rows = l->rows ? l->rows : DEFAULT_ROWS,
                                    .bytes = l->bytes ? l->bytes : DEFAULT_BYTES};
    int64_t now = clock_mono_ns();
    c->deadline_ns = c->limits.time_ns < INT64_MAX - now ? now + c->limits.time_ns : INT64_MAX;
    c->now_ns = q->now_ns ? q->now_ns : clock_utc_ns();
    c->is_past = q->is_past;
    c->until_ns = q->is_past ? c->now_ns : INT64_MAX;
    c->is_cancelled = q->is_cancelled;
    c->progress = q->progress;
    c->rows_seen = 0;
    c->loss = (struct scan_loss){0};
    c->notices = (struct notices){0};
    missing_fini(&c->missing);
    c->mounted = q->mounted;
    c->n_mounted = q->n_mounted;
    c->failed = 0;
    c->failure = (struct diag){0};
    c->memory.is_over = false;
    c->memory.limit =
        c->memory.used + (int64_t)(c->limits.bytes < INT64_MAX / 2 ? c->limits.bytes : INT64_MAX / 2);
}

enum { VIEW_NAMES_MAX = 32 };

/* The view that the statement runs on has the newest rows of the tables that it names alone: those of all
 * would cost time in which nobody can append. c->view is without any until now. */
static int take_view(struct sql_engine *e)
{
    struct slice names[VIEW_NAMES_MAX];
    size_t n = 0;
    bool is_all = false;
    for (const struct made *m = e->made; m; m = m->next) {
        if (m->statement != e->statements || (!m->n_event && !m->is_of_all))
            continue;
        is_all |= m->is_of_all || n == VIEW_NAMES_MAX;
        if (!is_all)
            names[n++] = event_of(m);
    }
    if (n == 0 && !is_all)
        return 0;
    view_release(e->context.view);
    e->context.view = NULL;
    return is_all ? view_take(e->reader, &e->context.view)
                  : view_take_of(e->reader, names, n, &e->context.view);
}

static int check_text(struct slice text, struct diag *why)
{
    if (text.n > SQL_TEXT_MAX)
        return diag_set(why, E_LIMIT, 0, "the text is longer than %d bytes", SQL_TEXT_MAX);
    const char *nul = memchr(text.p, '\0', text.n);
    if (nul)
        return diag_set(why, E_PROTO, (uint32_t)(nul - text.p) + 1, "a NUL character");
    return text_is_utf8(text) ? 0 : diag_set(why, E_PROTO, 0, "the text is not UTF-8");
}

/* Behind the statement: nothing but white space, comments and semicolons. SQLite knows best what those are.
 */
static int check_tail(struct sql_engine *e, struct slice text, const char *tail, struct diag *why)
{
    size_t at = (size_t)(tail - text.p);
    sqlite3_stmt *second = NULL;
    while (at < text.n) {
        const char *next = NULL;
        int code = sqlite3_prepare_v3(e->context.db, text.p + at, (int)(text.n - at), 0, &second, &next);
        (void)sqlite3_finalize(second); /* it was not run */
        if (code != SQLITE_OK || second)
            return diag_set(why, E_PROTO, (uint32_t)at + 1,
                            "one statement at a time; something follows the first");
        if (next == text.p + at)
            break;
        at = (size_t)(next - text.p);
    }
    return 0;
}

static bool is_first_word(void *arg, struct slice name, size_t at)
{
    (void)at; /* not asked */
    *(struct slice *)arg = name;
    return false;
}

/* What SQLite finds nothing to do for (REINDEX, RELEASE) asks for no right, and changes nothing. */
static bool is_query(struct slice text, sqlite3_stmt *stmt)
{
    static const char *const words[] = {"SELECT", "WITH", "VALUES", "EXPLAIN"};
    struct slice first = SLICE_LIT("");
    sql_tokens(text, is_first_word, &first);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (slice_eq_nocase(first, slice_str(words[i])))
            return sqlite3_stmt_readonly(stmt);
    return false;
}

static int compile(struct sql_statement *s, struct slice text, struct diag *why)
{
    struct sql_engine *e = s->engine;
    const char *tail = NULL;
    int code = sqlite3_prepare_v3(e->context.db, text.p, (int)text.n, 0, &s->stmt, &tail);
    if (code != SQLITE_OK)
        return sql_explain(&e->context, code, why);
    if (!s->stmt)
        return diag_set(why, E_PROTO, 1, "there is no statement");
    if (!is_query(text, s->stmt))
        return diag_set(why, -EACCES, 1, "tables can only be read: SELECT, WITH or VALUES");
    if (sqlite3_bind_parameter_count(s->stmt))
        return diag_set(why, E_PROTO, 0, "parameters (?, :name) have no value here: write the value itself");
    return check_tail(e, text, tail, why);
}

static int begin(struct sql_statement *s, struct slice text, struct diag *why)
{
    struct sql_engine *e = s->engine;
    int r = make_tables(e, text);
    if (r < 0)
        return sql_explain(&e->context, r == -ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR, why);
    struct sql_account *ours = sql_memory_enter(NULL);
    r = take_view(e);
    (void)sql_memory_enter(ours);
    if (r < 0)
        return say_unreadable(r, why);
    sql_guard_arm(&e->context);
    return compile(s, text, why);
}

/* c->view, without rows that are in memory. */
static int begin_context(struct sql_engine *e, const struct sql_query *q, struct diag *why)
{
    struct sql_context *c = &e->context;
    const struct slice none = SLICE_LIT("");
    strbuf_reset(&c->text);
    strbuf_add_slice(&c->text, q->text);
    if (strbuf_failed(&c->text))
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    int r = view_take_of(e->reader, &none, 1, &c->view);
    if (r < 0)
        return say_unreadable(r, why);
    set_context(c, q);
    return 0;
}

int sql_prepare(struct sql_engine *e, const struct sql_query *q, struct sql_statement **out, struct diag *why)
{
    struct sql_context *c = &e->context;
    if (e->open)
        return diag_set(why, -EBUSY, 0, "another statement of this engine is open");
    int r = check_text(q->text, why);
    if (r == 0)
        r = begin_context(e, q, why);
    if (r < 0)
        return r;
    struct sql_statement *s = mem_try_alloc(sizeof *s);
    if (!s) {
        view_release(c->view);
        c->view = NULL;
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    }
    s->engine = e;
    e->open = s;
    struct sql_account *before = sql_memory_enter(&c->memory);
    r = begin(s, strbuf_slice(&c->text), why);
    (void)sql_memory_enter(before);
    if (r < 0) {
        sql_finish(s);
        return r;
    }
    *out = s;
    return 0;
}

void sql_finish(struct sql_statement *s)
{
    if (!s)
        return;
    struct sql_context *c = &s->engine->context;
    struct sql_account *before = sql_memory_enter(&c->memory);
    (void)sqlite3_finalize(s->stmt); /* its last error was told by sql_step */
    sql_guard_disarm(c);
    (void)sql_memory_enter(before);
    view_release(c->view);
    c->view = NULL;
    s->engine->open = NULL;
    mem_free(s);
}

size_t sql_columns(const struct sql_statement *s)
{
    return (size_t)sqlite3_column_count(s->stmt);
}

const char *sql_column_name(const struct sql_statement *s, size_t i)
{
    const char *name = sqlite3_column_name(s->stmt, (int)i);
    return name ? name : ""; /* no memory to say it */
}

int sql_step(struct sql_statement *s, struct diag *why)
{
    struct sql_context *c = &s->engine->context;
    struct sql_account *before = sql_memory_enter(&c->memory);
    int code = sqlite3_step(s->stmt);
    int r = code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : sql_explain(c, code, why);
    (void)sql_memory_enter(before);
    if (r == 1 && s->rows++ >= c->limits.rows)
        return diag_set(why, E_LIMIT, 0,
                        "the result has more than %" PRIu64 " rows; add LIMIT, or ask for more",
                        c->limits.rows);
    return r;
}

static struct slice bytes_of(sqlite3_stmt *stmt, int i, const void *p)
{
    return slice_of(p ? p : "", p ? (size_t)sqlite3_column_bytes(stmt, i) : 0);
}

struct sql_value sql_value(const struct sql_statement *s, size_t i)
{
    int k = (int)i;
    switch (sqlite3_column_type(s->stmt, k)) {
    case SQLITE_INTEGER:
        return (struct sql_value){.kind = SQL_INT, .i = sqlite3_column_int64(s->stmt, k)};
    case SQLITE_FLOAT:
        return (struct sql_value){.kind = SQL_FLOAT, .f = sqlite3_column_double(s->stmt, k)};
    case SQLITE_BLOB:
        return (struct sql_value){.kind = SQL_BYTES,
                                  .text = bytes_of(s->stmt, k, sqlite3_column_blob(s->stmt, k))};
    case SQLITE_TEXT:
        break;
    default:
        return (struct sql_value){.kind = SQL_NULL};
    }
    struct slice text = bytes_of(s->stmt, k, sqlite3_column_text(s->stmt, k));
    return (struct sql_value){.kind = text_is_utf8(text) ? SQL_TEXT : SQL_BYTES, .text = text};
}

struct scan_loss sql_damaged(const struct sql_statement *s)
{
    return s->engine->context.loss;
}

const struct notices *sql_notices(const struct sql_statement *s)
{
    struct sql_context *c = &s->engine->context;
    missing_say(&c->missing, &c->notices);
    missing_fini(&c->missing); /* said once, although more may be asked for */
    return &c->notices;
}
