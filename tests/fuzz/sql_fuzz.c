/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as SQL over a small archive, half of it on disk. It ends, with rows or with a known error that
 * explains itself at a place within the text; an asker who may not see a table or a field never gets what is
 * in them; and the engine works as before afterwards. */
#include "archive/sql.h"
#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BASE   (INT64_C(1794776400) * NS_PER_S)
#define SECRET 20261115

enum { ROWS = 300 };

static char dir[] = "/tmp/gridline-sql-fuzz-XXXXXX";
static struct archive *archive;
static struct view_reader *reader;
static struct sql_engine *engine;

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void remove_archive(void)
{
    char path[400];
    sql_engine_destroy(engine);
    view_reader_destroy(reader);
    archive_close(archive);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        (void)unlink(path); /* . and .. stay */
    }
    closedir(d);
    (void)rmdir(dir);
}

static void add_rows(struct batch_builder *b, int from, int to)
{
    static const char *const names[] = {"cpu", "job.state", "secret"};
    for (int i = from; i < to; i++) {
        const struct named_value values[] = {
            {SLICE_LIT("usage"), value_float(i % 7 ? i / 8.0 : (double)NAN)},
            {SLICE_LIT("n"), i % 5 ? value_int(i) : value_text(SLICE_LIT("word"))},
            {SLICE_LIT("id"), value_text(slice_of("abcdefgh", (size_t)(i % 9)))},
            {SLICE_LIT("u"), value_uint(i % 3 ? (uint64_t)i : UINT64_MAX)},
            {SLICE_LIT("hidden"), value_int(SECRET)},
        };
        const struct event_head head = {.time_ns = BASE + i * NS_PER_S / 3,
                                        .name = slice_str(names[i % 3]),
                                        .host = slice_of("ab", (size_t)(i % 3)),
                                        .prog = SLICE_LIT("p"),
                                        .level = (uint8_t)(i % LEVEL_COUNT)};
        check(batch_builder_add(b, &head, values, sizeof values / sizeof *values, NULL) == 0);
    }
}

static void append(struct batch_builder *builder, uint64_t record, int from, int to)
{
    static const struct archive_source source = {"fuzz"};
    add_rows(builder, from, to);
    struct batch *b = batch_builder_finish(builder, NULL);
    check(b && archive_append(archive, &source, record, b) == 0 &&
          archive_done(archive, &source, record) == 0);
    batch_unref(b);
}

static void make_archive(void)
{
    struct diag why;
    check(mkdtemp(dir) != NULL);
    const struct archive_options o = {.dir = dir};
    check(archive_open(&o, &archive, &why) == 0);
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    append(builder, 1, 0, ROWS / 2);
    check(archive_flush(archive) == 0);
    append(builder, 2, ROWS / 2, ROWS);
    batch_builder_destroy(builder);
    registry_destroy(registry);
    check(view_reader_create(archive, NULL, 1 << 20, &reader, &why) == 0);
    check(sql_engine_create(reader, &engine) == 0);
    check(atexit(remove_archive) == 0);
}

static bool may_table(void *arg, struct slice event)
{
    (void)arg;
    return !slice_eq_str(event, "secret");
}

static bool may_field(void *arg, struct slice event, struct slice host, struct slice field)
{
    (void)arg;
    (void)event;
    (void)host;
    return !slice_eq_str(field, "hidden");
}

static const struct sql_access access_of_some = {.may_table = may_table, .may_field = may_field};

static void check_error(struct slice text, int r, const struct diag *why)
{
    bool is_known = r == E_PROTO || r == E_LIMIT || r == -EACCES || r == -ETIMEDOUT;
    check(is_known && why->message[0] && why->col <= text.n + 1);
}

/* The number itself is looked for, and not what a text could make of its own constants. */
static void check_values(const struct sql_statement *s, bool is_told)
{
    for (size_t i = 0; i < sql_columns(s); i++) {
        struct sql_value v = sql_value(s, i);
        check(is_told || v.kind != SQL_INT || v.i != SECRET);
        check(is_told || v.kind != SQL_FLOAT || v.f != SECRET);
    }
}

static void ask(struct slice text, const struct sql_access *access)
{
    static const struct sql_limits limits = {.time_ns = NS_PER_S / 4, .rows = 500, .bytes = 8 << 20};
    const struct sql_query q = {
        .text = text, .limits = &limits, .access = access, .now_ns = BASE + ROWS * NS_PER_S};
    struct sql_statement *s = NULL;
    struct diag why = {.message = ""};
    bool is_told = !access || memmem(text.p, text.n, "2", 1);
    int r = sql_prepare(engine, &q, &s, &why);
    if (r < 0) {
        check_error(text, r, &why);
        return;
    }
    while ((r = sql_step(s, &why)) > 0)
        check_values(s, is_told);
    if (r < 0)
        check_error(text, r, &why);
    check(sql_damaged(s).chunks == 0 && sql_damaged(s).blobs == 0);
    sql_finish(s);
}

static void check_engine(void)
{
    const struct sql_query q = {.text = SLICE_LIT("SELECT count(*), sum(u > 0) FROM secret")};
    struct sql_statement *s = NULL;
    struct diag why;
    check(sql_prepare(engine, &q, &s, &why) == 0 && sql_step(s, &why) == 1);
    check(sql_value(s, 0).i == ROWS / 3 && sql_value(s, 1).i == ROWS / 3);
    sql_finish(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!engine)
        make_archive();
    struct slice text = {(const char *)data, size};
    ask(text, NULL);
    ask(text, &access_of_some);
    check_engine();
    return 0;
}
