/* SPDX-License-Identifier: Apache-2.0 */
/* sql_bucket.h - what NAME_bucket (sql_bucket.c) and samples_bucket (sql_samples_bucket.c) share: arguments
 * of a table-valued function, and the fold behind them (bucket.h). */
#ifndef GRIDLINE_ARCHIVE_SQL_BUCKET_H
#define GRIDLINE_ARCHIVE_SQL_BUCKET_H

#include "archive/bucket.h"
#include "archive/sql_internal.h"

/* Hidden columns, in this order behind the others: the arguments. */
enum bucket_arg { ARG_FROM, ARG_TO, ARG_STEP, ARG_WHERE, ARG_TIER, ARGS };
#define BUCKET_ARG_COLUMNS "\"from\" HIDDEN, \"to\" HIDDEN, step HIDDEN, \"where\" TEXT HIDDEN, accept HIDDEN"

/* What a column is to xBestIndex. */
enum bucket_class { BUCKET_NOTHING, BUCKET_TEXT, BUCKET_INTEGER /* = and IN are of use */ };

/* A column is one of these texts, or one of these numbers. */
struct bucket_test {
    int column;
    const struct value *any; /* text or int */
    size_t n;
};

struct bucket_args {
    struct sql_context *context;
    uint64_t used; /* columns, a bit each, the last for all from 63 on */
    int64_t from_ns, to_ns, step_ns, tier_ns;
    bool has_from; /* else the time of the one step is not known */
    bool has_where;
    bool is_never; /* an argument is NULL where that makes no sense, or a column is compared with NULL */
    struct bucket_where where;
    struct bucket_test *tests;
    size_t n_tests;
    struct arena arena; /* texts of all of it */
};

/* xBestIndex. usable_as: of the columns before the hidden ones, which begin at n_columns. */
int bucket_args_plan(struct sql_context *c, sqlite3_index_info *info, int n_columns,
                     enum bucket_class (*usable_as)(const void *table, int column), const void *table);
/* xFilter. SQLITE_OK, or what sql_fail returns. */
int bucket_args_set(struct bucket_args *a, const char *plan, int n_columns, int argc, sqlite3_value **argv);
/* The same without the arguments, which are other ones. */
int bucket_args_set_tests(struct bucket_args *a, const char *plan, int n_columns, int argc,
                          sqlite3_value **argv);
void bucket_args_fini(struct bucket_args *a);
/* Does the value pass all tests of that column? */
bool bucket_args_pass(const struct bucket_args *a, int column, struct value v);
bool bucket_args_pass_text(const struct bucket_args *a, int column, struct slice text); /* "" is NULL */
/* xColumn of a hidden column. */
void bucket_args_result(const struct bucket_args *a, sqlite3_context *to, enum bucket_arg arg);

/* A fold for a statement: spec's range, step, condition, limit and go_on are set here. SQLITE_OK, or what
 * sql_fail returns. *charged: memory that the statement was charged for; bucket_done gives it back. */
int bucket_run(struct bucket_args *a, struct bucket_spec *spec, struct bucket **out, size_t *charged);
void bucket_done(struct bucket_args *a, struct bucket *b, size_t *charged);

/* One of the figures of a summary. */
enum bucket_figure {
    FIGURE_COUNT,
    FIGURE_MIN,
    FIGURE_MAX,
    FIGURE_SUM,
    FIGURE_AVG,
    FIGURE_FIRST,
    FIGURE_LAST,
    FIGURES
};
extern const char *const bucket_figure_names[FIGURES];
void bucket_figure_result(sqlite3_context *to, const struct column_summary *s, enum bucket_figure f);

/* A stream's keys as "device=sda,mode=read", those that may be seen. */
int bucket_keys_result(const struct sql_context *c, sqlite3_context *to,
                       const struct stream_key_parts *parts);

extern const struct sql_kind sql_kind_bucket, sql_kind_samples_bucket, sql_kind_rebuild;

#endif
