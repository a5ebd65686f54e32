/* SPDX-License-Identifier: Apache-2.0 */
/* sql_internal.h - what the files of sql, and the tables of other modules, share.
 *
 * A table is an eponymous virtual table module of SQLite: sqlite3_create_module_v2(db, name, module, aux,
 * fini) with xCreate NULL makes a table `name` that exists as soon as it is named, without CREATE and without
 * a schema of SQLite's to be changed. Before a text is compiled, the tables that its identifiers name are
 * made by their kind (struct sql_kind); they stay for the next text until their columns change. A module's
 * aux holds the context, in which xFilter finds the view of the statement that runs: nothing of a view is
 * kept longer.
 *
 * Everything here is of one engine and so of one thread. */
#ifndef GRIDLINE_ARCHIVE_SQL_INTERNAL_H
#define GRIDLINE_ARCHIVE_SQL_INTERNAL_H

#include "archive/missing.h"
#include "archive/sql.h"

#include <sqlite3.h>

/* ---------------------------------------------------------------- memory (sql_memory.c) */

/* What SQLite takes for one engine: its allocator charges the account that its thread has entered. */
struct sql_account {
    int64_t used;  /* may be below 0: what another account was charged for was freed here */
    int64_t limit; /* of used */
    bool is_over;  /* something was refused */
};
/* From here on the thread's allocations by SQLite are a's (NULL: nobody's); returns whose they were. */
struct sql_account *sql_memory_enter(struct sql_account *a);
/* For memory that is not SQLite's, such as decoded columns: false, there is no room for it. */
bool sql_memory_take(struct sql_account *a, size_t n);
void sql_memory_give(struct sql_account *a, size_t n);
/* Does SQLite ask us at all? false: it was in use before this program could say so. */
bool sql_memory_is_bounded(void);

/* ---------------------------------------------------------------- the statement that runs */

struct sql_context {
    sqlite3 *db;
    struct view *view;               /* NULL: no statement */
    const struct sql_access *access; /* NULL = everything may be seen */
    struct sql_limits limits;        /* none is 0 */
    int64_t deadline_ns;             /* monotonic */
    int64_t now_ns;                  /* UTC, the same for all of the statement: what at('now') is */
    bool is_past;                    /* sql_query has it */
    int64_t until_ns;                /* no row after it is seen; INT64_MAX = all are */
    const _Atomic bool *is_cancelled;
    _Atomic uint64_t *progress;
    uint64_t rows_seen;
    struct scan_loss loss;
    struct notices notices; /* for whoever reads the rows: notices_add */
    struct missing missing; /* becomes notices at the end: sql_asks */
    const struct table_rows *mounted;
    size_t n_mounted;
    struct sql_account memory;
    struct strbuf text;  /* of the statement */
    bool is_declaring;   /* a table of ours: what SQLite asks about it is allowed */
    int failed;          /* the first error that was not SQLite's own; 0 = none */
    struct diag failure; /* with its message, or "" for the code's own text */
};

bool sql_may_table(const struct sql_context *c, struct slice event);
bool sql_may_stream(const struct sql_context *c, struct slice event, struct slice host);
bool sql_may_field(const struct sql_context *c, struct slice event, struct slice host, struct slice field);

/* Time and cancellation: 0, -ETIMEDOUT, -ECANCELED. Call it in every loop that may be long. 30 ns. */
int sql_check(struct sql_context *c);
/* Remembers the error (the first one stays) and gives the code that a method of a module then returns. */
int sql_fail(struct sql_context *c, int r);
int sql_fail_text(struct sql_context *c, int r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Scans of the statement's view. Like those of view.h, and besides: memory that the archive keeps is not the
 * query's, and time and cancellation are checked before each chunk. scan_spec.wants must ask sql_may_stream,
 * whatever else it does. */
int sql_scan_open(struct sql_context *c, const struct scan_spec *spec, struct scan **out);
int sql_scan_next(struct sql_context *c, struct scan *s, struct scan_chunk *out);
int sql_scan_read(struct sql_context *c, struct scan *s, unsigned what, const uint16_t *want, size_t n_want,
                  struct rows *out);
/* Counts what was lost, beyond what *counted says that earlier scans of the same cursor have counted: a join
 * scans a table again and again. NULL is fine for s. */
void sql_scan_close(struct sql_context *c, struct scan *s, struct scan_loss *counted);
/* Rows of the event name at that time (both ends are in) are asked for; what is missing of them is said
 * beside the answer. Each table calls it when it begins to read. */
void sql_asks(struct sql_context *c, struct slice event, int64_t from_ns, int64_t to_ns, enum missing_of of);
/* So many rows of chunks were looked at, by themselves or by their summaries. Once a chunk. */
void sql_seen(struct sql_context *c, uint64_t rows);

/* ---------------------------------------------------------------- columns of a table (sql_shape.c) */

/* Columns of a table in SQL: time, host, prog, level; the fields, in the order of their numbers; then hidden
 * ones. SQLite allows 2,000 of them: of a table with more fields, the first SQL_FIELDS_MAX. */
enum sql_head { SQL_TIME, SQL_HOST, SQL_PROG, SQL_LEVEL, SQL_HEADS };
enum sql_hidden {
    SQL_PRODUCER,
    SQL_EPOCH,
    SQL_SEQ,
    SQL_CLOCK_OFFSET,
    SQL_CLOCK_BOUND,
    SQL_NAN,
    SQL_PLACE, /* and SQL_ROW: which row this is, for SQLite */
    SQL_ROW
};
enum { SQL_FIELDS_MAX = 1980 };

struct sql_field {
    const char *name;   /* of the column */
    struct slice field; /* as in the table */
    uint16_t id;        /* of the table; of a companion (fields.h): behind all of them */
    uint8_t type, role;
    uint8_t class;     /* enum field_class; CLASS_UNKNOWN: of a table that has none */
    bool is_companion; /* "f:text" or "f:number": hidden */
};

struct sql_shape {
    struct slice event; /* NUL-terminated, too */
    struct sql_field *fields;
    uint32_t n_fields;
    bool has_heads;     /* time, host, prog, level and hidden ones are columns, too */
    struct arena arena; /* all of it */
};
/* Copies what it needs. Of an event's table with heads also the companions of its fields, behind them, as long as SQLite
 * has room for all. NULL: no memory. */
struct sql_shape *sql_shape_create(const struct table_def *t, bool has_heads);
void sql_shape_destroy(struct sql_shape *s); /* NULL is fine */
/* The number that changes when a table has other columns. */
uint64_t sql_shape_signature(const struct table_def *t);
/* "INTEGER", ...: how a column of that type is declared. */
const char *sql_type_name(uint8_t type);
/* Appends name in double quotes. */
void sql_add_quoted(struct strbuf *out, const char *name);
/* Gives a value to SQLite: uint above 2^63-1 as the nearest float, NaN and missing as NULL. Text is copied:
 * SQLite may keep it while the cursor moves on (the columns beside a max()). */
void sql_result(sqlite3_context *to, struct value v);

/* ---------------------------------------------------------------- tables */

/* How tables of a sort are made. Kinds are listed in sql.c. */
struct sql_kind {
    const char *suffix; /* "_latest": of every event name; or the whole name of a table */
    bool is_whole;
    bool is_of_all; /* it scans other tables than the one that it is of */
    bool has_past;  /* it knows of until_ns, or has no rows of any time */
    /* Makes or replaces the module `name` on c->db; t: of the event (NULL where the name is whole), to be
     * copied where it is needed later. 0, -ENOMEM, or what sqlite3_create_module_v2 gave, by sql_error. */
    int (*make)(struct sql_context *c, const char *name, const struct table_def *t);
};
extern const struct sql_kind sql_kind_table, sql_kind_latest;
extern const struct sql_kind sql_kind_deviations, sql_kind_events, sql_kind_forecast;
extern const struct sql_kind sql_kind_tables, sql_kind_baselines, sql_kind_partitions,
    sql_kind_retention; /* sql_own.c */
/* A table that was given filled (sql_mounted.c). */
int sql_mounted_make(struct sql_context *c, const struct table_rows *t);

/* sqlite3_declare_vtab, for xConnect: which comes while a text is compiled, and asks for the right to CREATE.
 */
int sql_declare(struct sql_context *c, const struct strbuf *text);

/* A SQLite code as one of ours: NOMEM -ENOMEM (E_LIMIT where the account is over), FULL -ENOSPC, IOERR -EIO,
 * CORRUPT and NOTADB E_DAMAGE, TOOBIG E_LIMIT, anything else E_PROTO; what sql_fail has remembered goes
 * first. */
int sql_error(const struct sql_context *c, int code);
/* The same, and says in *why what is wrong with the statement, and where. */
int sql_explain(const struct sql_context *c, int code, struct diag *why);

/* ---------------------------------------------------------------- names (sql_names.c) */

/* The event's table that the identifier names: as written, or by its SQL name in any case; NULL: none that
 * may be seen. 3 ns an event name of the archive. */
const struct table_def *sql_find_table(const struct sql_context *c, struct slice name);
/* Tokens of SQL. fn for each identifier, key words too, without its quotes: false ends it. at: where it
 * begins. */
void sql_tokens(struct slice text, bool (*fn)(void *arg, struct slice name, size_t at), void *arg);
/* Does the text name it, or have a * (or NATURAL) that may stand for it? */
bool sql_text_names(const struct sql_context *c, const char *column);
/* Names that are tables of the system's, whatever events are called. */
bool sql_is_reserved(struct slice name);
/* The nearest name of a table that may be seen, or "". */
void sql_nearest_table(const struct sql_context *c, struct slice name, struct strbuf *out);

/* ---------------------------------------------------------------- functions, and what is allowed */

int sql_functions_register(struct sql_context *c);
int sql_aggregates_register(struct sql_context *c);
/* A time or duration as people write it, or a number of ns: for arguments of functions and of tables. 0, or
 * an error with *why: what is wrong and what would be right. */
int sql_time_of(const struct sql_context *c, sqlite3_value *v, int64_t *out, struct diag *why);
int sql_duration_of(sqlite3_value *v, int64_t *out, struct diag *why);

#endif
