/* SPDX-License-Identifier: Apache-2.0 */
/* judge_internal.h - what the files of the judge share.
 *
 *   judge.c          the connection: what a text may do, and functions
 *   judge_query.c    a rule's text: compiled, compiled again, run
 *   judge_text.c     identifiers of a text
 *   judge_table.c    NAME_latest as a virtual table: plans and cursors
 *   judge_filter.c   which rows can be meant: loops over columns
 *   judge_mounted.c  tables of the guard's own
 *
 * A virtual table is an eponymous one: a module of its name, made when a text first names it, and made anew
 * when the columns of its event have changed, after all statements that read it were let go. */
#ifndef GRIDLINE_GUARD_JUDGE_INTERNAL_H
#define GRIDLINE_GUARD_JUDGE_INTERNAL_H

#include "base/arena.h"
#include "guard/judge.h"
#include "guard/live_internal.h"

#include <sqlite3.h>

enum {
    JUDGE_TEXT_MAX = 64 * 1024,     /* bytes of a query */
    JUDGE_LENGTH_MAX = 1024 * 1024, /* of one value */
    JUDGE_TABLES_MAX = 64,          /* NAME_latest that one query may name */
    JUDGE_STEPS = 1000              /* of SQLite between two looks at the clock */
};
#define JUDGE_BYTES_MAX ((sqlite3_int64)256 << 20) /* of all that SQLite takes */

/* Columns of NAME_latest: these, the fields, and the two hidden ones. */
enum judge_head { HEAD_TIME, HEAD_HOST, HEAD_PROG, HEAD_LEVEL, HEADS };

/* A NAME_latest that a query names. */
struct judge_live {
    struct judge *judge;
    struct judge_live *next;
    struct live_table *table; /* NULL: not heard of yet. Good for the tables_gone of judge */
    uint64_t version;         /* of the table's columns when the module was made; 0: there is no module */
    uint64_t made;            /* which making it was, of all; from 2 on */
    uint32_t n_fields;        /* then */
    unsigned refs;            /* queries that name it */
    bool is_read;             /* by the statement that is being compiled */
    char name[];              /* with _latest, lower case */
};

/* What a cursor scans with, kept from one run to the next. */
struct judge_scratch {
    struct judge_scratch *next;
    uint32_t *rows;
    uint8_t *mask;
    uint32_t cap;
};

struct judge_mounted;

struct judge {
    struct live *live;
    sqlite3 *db;
    struct judge_live *lives;
    struct query *queries;
    struct judge_mounted *mounted; /* n_mounted */
    size_t n_mounted;
    struct judge_scratch *scratch; /* free ones */
    uint64_t tables_gone;          /* of live, that judge_live.table is of */
    uint64_t makes;                /* of modules, so far */
    uint64_t runs;                 /* so far; what mounted tables were filled for */
    int64_t now_ns, since_ns, deadline_ns;
    int failed; /* why the statement was refused or ended: a negative code; 0: SQLite knows */
    struct diag failure;
    bool is_declaring; /* SQLite asks for the right to declare a virtual table */
    bool is_plain;     /* nothing goes down: for tests */
};

/* Remembers why, for whoever turns SQLite's code to one of ours; returns SQLITE_ERROR. */
int judge_fail(struct judge *j, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* sqlite3_declare_vtab with the right to do it. */
int judge_declare(struct judge *j, const char *text);
/* SQLite's code in ours. */
int judge_error(int code);
void judge_put_quoted(struct strbuf *out, const char *name);
void judge_result(sqlite3_context *to, struct value v);

/* ---------------------------------------------------------------- judge_text.c */

/* Calls fn for each identifier, quoted ones without their quotes, at a byte of the text; until it says false.
 */
void judge_identifiers(struct slice text, bool (*fn)(void *arg, struct slice name, size_t at), void *arg);
/* The same for names of tables and of functions that stand for one, but not for those that the text makes
 * itself (WITH). A name too many is possible, one too few is not. */
void judge_tables(struct slice text, bool (*fn)(void *arg, struct slice name, size_t at), void *arg);
/* Line and column of a byte. */
void judge_place(struct slice text, size_t at, struct diag *why);
/* The byte of the first identifier of that name, in any case; SIZE_MAX. */
size_t judge_find_identifier(struct slice text, struct slice name);

/* ---------------------------------------------------------------- judge_table.c */

/* name: NAME_latest. Adds a reference. */
int judge_live_get(struct judge *j, struct slice name, struct judge_live **out);
void judge_live_unref(struct judge_live *t); /* NULL is fine */
/* Has its event got columns, come or gone since the module was made? */
bool judge_live_is_stale(struct judge_live *t);
/* Makes the module anew; no statement may read it. */
int judge_live_make(struct judge_live *t);

/* ---------------------------------------------------------------- judge_filter.c */

/* xBestIndex and xFilter; see the head of judge_filter.c. */
int judge_filter_plan(struct judge *j, const struct judge_live *t, sqlite3_index_info *info);
/* The rows that may be meant, in *s: how many, or -ENOMEM, E_LIMIT. */
int64_t judge_filter_run(struct judge *j, const struct judge_live *t, int order, const char *plan, int argc,
                         sqlite3_value **argv, struct judge_scratch *s);
/* Text of SQL that a number may be equal to, if the other side is one. */
bool judge_may_be_number(struct slice text);

/* ---------------------------------------------------------------- judge_mounted.c */

int judge_mount(struct judge *j, const struct judge_table *tables, size_t n);
void judge_unmount(struct judge *j);

/* ---------------------------------------------------------------- judge_query.c */

/* Lets go the statements that read t, so that it can be made anew. */
void judge_release_readers(struct judge *j, const struct judge_live *t);
/* The judge goes: queries that are left are their owners', and good for query_destroy alone. */
void judge_release_queries(struct judge *j);

#endif
