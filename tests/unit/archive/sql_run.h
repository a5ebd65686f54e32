/* SPDX-License-Identifier: Apache-2.0 */
/* sql_run.h - an archive in a folder of its own, an engine on it, and results as text. */
#ifndef GRIDLINE_TESTS_ARCHIVE_SQL_RUN_H
#define GRIDLINE_TESTS_ARCHIVE_SQL_RUN_H

#include "unit/test.h"

#include "archive/sql.h"
#include "base/num.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

struct sql_run {
    char dir[64];
    struct archive *a;
    struct view_reader *reader;
    struct sql_engine *engine;
    struct registry *registry;
    struct batch_builder *builder;
    struct archive_source source;
    uint64_t record;
    int64_t partition_ns;
    struct strbuf out;      /* of run_text */
    struct diag why;        /* of run */
    struct scan_loss lost;  /* of run */
    struct sql_query query; /* all but the text */
};

static inline void run_open(struct sql_run *t)
{
    struct diag why = {0};
    struct archive_options o = {.dir = t->dir, .partition_ns = t->partition_ns};
    if (archive_open(&o, &t->a, &why) < 0)
        fail_msg("archive_open: %s", why.message);
    assert_int_equal(view_reader_create(t->a, NULL, 8 << 20, &t->reader, &why), 0);
    assert_int_equal(sql_engine_create(t->reader, &t->engine), 0);
}

static inline void run_close(struct sql_run *t)
{
    sql_engine_destroy(t->engine);
    view_reader_destroy(t->reader);
    archive_close(t->a);
}

static inline void run_init(struct sql_run *t)
{
    *t = (struct sql_run){
        .dir = "/tmp/gridline-sql-XXXXXX", .source = {"sql test"}, .partition_ns = INT64_C(600000000000)};
    assert_non_null(mkdtemp(t->dir));
    t->registry = registry_create();
    t->builder = batch_builder_create(t->registry, 0);
    batch_builder_limit(t->builder, 100000, 64 << 20);
    run_open(t);
}

static inline void run_remove(const char *dir)
{
    DIR *d = opendir(dir);
    char path[400];
    for (struct dirent *e; d && (e = readdir(d));) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        (void)unlink(path);
    }
    closedir(d);
    (void)rmdir(dir);
}

static inline void run_fini(struct sql_run *t)
{
    run_close(t);
    batch_builder_destroy(t->builder);
    registry_destroy(t->registry);
    strbuf_fini(&t->out);
    run_remove(t->dir);
}

/* What was added to the builder, as a record. */
static inline void run_append(struct sql_run *t, const struct batch_origin *o)
{
    static const struct batch_origin nobody;
    struct batch *b = batch_builder_finish(t->builder, o ? o : &nobody);
    assert_non_null(b);
    assert_int_equal(archive_append(t->a, &t->source, ++t->record, b), 0);
    assert_int_equal(archive_done(t->a, &t->source, t->record), 0);
    batch_unref(b);
}

static inline void run_print(struct strbuf *out, struct sql_value v)
{
    char digits[NUM_TEXT_MAX];
    switch (v.kind) {
    case SQL_NULL:
        strbuf_add_str(out, "NULL");
        break;
    case SQL_INT:
        strbuf_add(out, digits, num_print_int(digits, v.i));
        break;
    case SQL_FLOAT:
        strbuf_add(out, digits, num_print_float(digits, v.f));
        break;
    case SQL_TEXT:
        strbuf_add_slice(out, v.text);
        break;
    case SQL_BYTES:
        strbuf_add_str(out, "x'");
        for (size_t i = 0; i < v.text.n; i++)
            strbuf_printf(out, "%02x", (unsigned char)v.text.p[i]);
        strbuf_add_str(out, "'");
        break;
    }
}

/* Rows one after the other with ; between them, values with |. 0, or the error with t->why. */
static inline int run(struct sql_run *t, const char *text)
{
    struct sql_query q = t->query;
    struct sql_statement *s = NULL;
    q.text = slice_str(text);
    t->why = (struct diag){0};
    strbuf_reset(&t->out);
    strbuf_add_str(&t->out, "");
    int r = sql_prepare(t->engine, &q, &s, &t->why);
    while (r >= 0 && (r = sql_step(s, &t->why)) > 0) {
        if (t->out.n)
            strbuf_add_char(&t->out, ';');
        for (size_t i = 0; i < sql_columns(s); i++) {
            if (i)
                strbuf_add_char(&t->out, '|');
            run_print(&t->out, sql_value(s, i));
        }
    }
    t->lost = s ? sql_damaged(s) : (struct scan_loss){0};
    sql_finish(s);
    return r;
}

static inline const char *run_text(struct sql_run *t, const char *text)
{
    int r = run(t, text);
    if (r < 0)
        fail_msg("%s: %d %s", text, r, t->why.message);
    return t->out.n ? t->out.p : "";
}

#endif
