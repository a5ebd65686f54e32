/* SPDX-License-Identifier: Apache-2.0 */
/* sql_events.c - event_blocks(from, to [, events [, hosts [, condition [, with_origins]]]]): events as they
 * went in (extract.h), as blocks (event/block.h), a row each: for `gridline export`, and whoever copies an
 * archive. All columns besides: how many events a block has, and from when to when. */
#include "archive/extract.h"
#include "archive/sql_arguments.h"
#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"

#include <errno.h>

enum {
    ARGUMENT_FROM,
    ARGUMENT_TO,
    ARGUMENT_EVENTS,
    ARGUMENT_HOSTS,
    ARGUMENT_WHERE,
    ARGUMENT_ORIGINS,
    ARGUMENTS
};
/* A row of a result is a frame at most (net/query.h); an event is 256 KiB at most. */
enum { BLOCK_GOAL = 512 << 10 };

static const char declaration[] =
    "CREATE TABLE x(from_time INTEGER, to_time INTEGER, events INTEGER, block BLOB, "
    "since HIDDEN, until HIDDEN, names HIDDEN, hosts HIDDEN, condition HIDDEN, with_origins HIDDEN)";
enum { COLUMN_FROM, COLUMN_TO, COLUMN_EVENTS, COLUMN_BLOCK, COLUMNS };
static const char usage[] = "event_blocks needs a time: event_blocks('now-1h', 'now' [, 'NAMES' [, 'HOSTS' "
                            "[, 'CONDITION' [, WITH_ORIGINS]]]])";

struct events_vtab {
    sqlite3_vtab base;
    struct sql_context *context;
};

struct events_cursor {
    sqlite3_vtab_cursor base;
    struct sql_context *context;
    struct selector *selector;
    struct extract *extract;
    struct block_writer *writer;
    struct strbuf block;
    const struct batch *batch; /* of the extract; NULL: it is used up */
    size_t at;                 /* the next event of it */
    int64_t from_ns, to_ns;
    uint32_t events;
    uint64_t row;
    bool is_end, has_memory;
};

static int vtab_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                        char **error)
{
    struct strbuf text = {0};
    (void)db; /* the context's */
    (void)argc;
    (void)argv;
    (void)error; /* the connection has the message */
    strbuf_add_str(&text, declaration);
    int r = sql_declare(aux, &text);
    strbuf_fini(&text);
    struct events_vtab *v = r == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->context = aux;
    *out = &v->base;
    return SQLITE_OK;
}

static int vtab_disconnect(sqlite3_vtab *vtab)
{
    mem_free(vtab);
    return SQLITE_OK;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    info->estimatedRows = 1000;
    info->estimatedCost = 1e9;
    return sql_arguments_plan(((struct events_vtab *)vtab)->context, info, COLUMNS, ARGUMENT_EVENTS,
                              ARGUMENTS, usage);
}

static int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    struct events_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->context = ((struct events_vtab *)vtab)->context;
    *out = &c->base;
    return SQLITE_OK;
}

static void stop(struct events_cursor *c)
{
    if (c->extract) {
        struct scan_loss lost = extract_damaged(c->extract);
        c->context->loss.rows += lost.rows;
        c->context->loss.chunks += lost.chunks;
        c->context->loss.blobs += lost.blobs;
    }
    extract_close(c->extract);
    selector_destroy(c->selector);
    c->extract = NULL;
    c->selector = NULL;
    c->batch = NULL;
    if (c->has_memory)
        sql_memory_give(&c->context->memory, EXTRACT_WINDOW_BYTES);
    c->has_memory = false;
}

static int cursor_close(sqlite3_vtab_cursor *cursor)
{
    struct events_cursor *c = (struct events_cursor *)cursor;
    stop(c);
    block_writer_destroy(c->writer);
    strbuf_fini(&c->block);
    mem_free(c);
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- blocks */

/* Events of the batch at hand go into the writer, until it is full. 1: it is; 0: the batch is used up. */
static int fill_writer(struct events_cursor *c)
{
    while (c->at < c->batch->n) {
        const struct event *e = &c->batch->events[c->at];
        if (c->events && block_writer_size(c->writer) >= BLOCK_GOAL)
            return 1;
        int r = block_writer_add(c->writer, e);
        if (r == E_LIMIT && c->events)
            return 1;
        if (r < 0)
            return r;
        c->from_ns = c->events == 0 || e->time_ns < c->from_ns ? e->time_ns : c->from_ns;
        c->to_ns = c->events == 0 || e->time_ns > c->to_ns ? e->time_ns : c->to_ns;
        c->events++;
        c->at++;
    }
    return 0;
}

/* A batch is a block, or several: those of the next one have another origin, perhaps. */
static int next_block(struct events_cursor *c)
{
    int r = 0;
    if (!c->batch || c->at == c->batch->n) {
        c->at = 0;
        c->batch = NULL;
        r = extract_next(c->extract, &c->batch);
        c->is_end = r == 0;
        if (r <= 0)
            return r;
    }
    struct batch_origin origin = c->batch->origin;
    origin.first_seq += origin.first_seq ? c->at : 0;
    c->events = 0;
    strbuf_reset(&c->block);
    r = fill_writer(c);
    if (r >= 0)
        r = block_writer_finish(c->writer, &origin, &c->block);
    if (r < 0)
        block_writer_reset(c->writer);
    sql_seen(c->context, c->events);
    return r;
}

/* ---------------------------------------------------------------- the cursor */

static int cursor_next(sqlite3_vtab_cursor *cursor)
{
    struct events_cursor *c = (struct events_cursor *)cursor;
    struct sql_account *before = sql_memory_enter(NULL); /* what the archive keeps is not the query's */
    int r = next_block(c);
    (void)sql_memory_enter(before); /* as it was */
    c->row++;
    return r < 0 ? sql_fail(c->context, r) : SQLITE_OK;
}

static int check(void *arg)
{
    return sql_check(arg);
}

static int read_time(struct sql_context *c, sqlite3_value *v, int64_t *out)
{
    struct diag why = {0};
    if (!v)
        return sql_fail_text(c, E_PROTO, "%s", usage);
    int r = sql_time_of(c, v, out, &why);
    return r < 0 ? sql_fail_text(c, r, "%s", why.message) : SQLITE_OK;
}

static int start(struct events_cursor *c, sqlite3_value **args)
{
    struct extract_spec spec = {.access = c->context->access, .check = check, .arg = c->context};
    const struct select_spec select = {.events = sql_argument_text(args[ARGUMENT_EVENTS]),
                                       .hosts = sql_argument_text(args[ARGUMENT_HOSTS]),
                                       .where = sql_argument_text(args[ARGUMENT_WHERE]),
                                       .on_change = SLICE_LIT(""),
                                       .cross = SLICE_LIT(""),
                                       .delta = SLICE_LIT(""),
                                       .every = SLICE_LIT("")};
    struct diag why = {0};
    int r = read_time(c->context, args[ARGUMENT_FROM], &spec.from_ns);
    if (r == SQLITE_OK)
        r = read_time(c->context, args[ARGUMENT_TO], &spec.to_ns);
    if (r != SQLITE_OK)
        return r;
    c->is_end = spec.to_ns <= spec.from_ns;
    spec.to_ns -= !c->is_end; /* until, but not at that time */
    spec.with_origins = args[ARGUMENT_ORIGINS] && sqlite3_value_int(args[ARGUMENT_ORIGINS]);
    int e = selector_create(&select, c->context->now_ns, &c->selector, &why);
    if (e < 0)
        return sql_fail_text(c->context, e, "%s", why.message[0] ? why.message : err_text(e));
    spec.selector = c->selector;
    for (size_t i = 0; !c->is_end && i < view_tables(c->context->view); i++) {
        struct slice event = view_table_at(c->context->view, i)->name;
        if (selector_wants_event(c->selector, event) && sql_may_table(c->context, event))
            sql_asks(c->context, event, spec.from_ns, spec.to_ns, MISSING_ROWS);
    }
    c->has_memory = sql_memory_take(&c->context->memory, EXTRACT_WINDOW_BYTES);
    if (!c->has_memory)
        return sql_fail(c->context, E_LIMIT);
    c->writer = c->writer ? c->writer : block_writer_create();
    e = c->writer ? extract_open(c->context->view, &spec, &c->extract) : -ENOMEM;
    return e < 0 ? sql_fail(c->context, e) : SQLITE_OK;
}

static int cursor_filter(sqlite3_vtab_cursor *cursor, int plan, const char *text, int argc,
                         sqlite3_value **argv)
{
    struct events_cursor *c = (struct events_cursor *)cursor;
    sqlite3_value *args[ARGUMENTS];
    (void)text; /* the plan is a number */
    stop(c);
    c->row = 0;
    sql_arguments_take(plan, argc, argv, args, ARGUMENTS);
    int r = start(c, args);
    return r == SQLITE_OK && !c->is_end ? cursor_next(cursor) : r;
}

static int cursor_eof(sqlite3_vtab_cursor *cursor)
{
    return ((const struct events_cursor *)cursor)->is_end;
}

static int cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct events_cursor *c = (const struct events_cursor *)cursor;
    if (column == COLUMN_BLOCK)
        sqlite3_result_blob64(to, c->block.p, c->block.n, SQLITE_TRANSIENT);
    else if (column < COLUMN_BLOCK)
        sqlite3_result_int64(to, column == COLUMN_FROM ? c->from_ns
                                 : column == COLUMN_TO ? c->to_ns
                                                       : c->events);
    return SQLITE_OK; /* arguments: nobody has to ask for them */
}

static int cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((const struct events_cursor *)cursor)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = vtab_connect,
    .xBestIndex = best_index,
    .xDisconnect = vtab_disconnect,
    .xDestroy = vtab_disconnect,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_eof,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
};

static int make(struct sql_context *c, const char *name, const struct table_def *of)
{
    (void)of; /* of all */
    return sql_error(c, sqlite3_create_module_v2(c->db, name, &module, c, NULL));
}

const struct sql_kind sql_kind_events = {
    .suffix = "event_blocks", .is_whole = true, .is_of_all = true, .make = make};
