/* SPDX-License-Identifier: Apache-2.0 */
/* sql_table.c - the table of an event name: its rows on disk and in memory, chunk by chunk.
 *
 * A cursor goes through the chunks that its filter lets through. Of a chunk it reads first the columns that
 * tests need (and time and level where they are tested), and only if rows are left the others that the query
 * uses (sql_filter.used). A field is a column of the chunk, or in the key of its stream, or missing.
 *
 * NAME_latest is the same table with the last row of the newest chunk of each stream alone (sql_latest.c),
 * which is found by what is known of chunks; only these are read. */
#include "archive/sql_latest.h"

#include "base/mem.h"

#include <errno.h>

/* What a module is made with. */
struct event_table {
    struct sql_context *context;
    struct sql_shape *shape;
    bool is_latest;
};

struct event_vtab {
    sqlite3_vtab base;
    const struct event_table *table;
};

/* Where the value of a field is in this chunk. */
struct slot {
    uint64_t chunk;              /* the number of the chunk that the rest is about: else it is to be found */
    const struct column *column; /* NULL: */
    struct value value;          /* the same for all rows, or VALUE_NONE */
    char text[VALUE_SPELLING_MAX]; /* of value, where it is a number as text */
};

struct event_cursor {
    sqlite3_vtab_cursor base;
    const struct event_table *table;
    struct sql_filter filter;
    struct sql_latest latest; /* of NAME_latest: which chunks */
    struct scan *scan;
    struct scan_loss counted;
    struct scan_chunk chunk;
    struct stream_key_parts parts; /* of the chunk's key */
    uint64_t chunks;               /* so far: the number of this one */
    unsigned have;                 /* BLOB_TIMES and so on that were read */
    struct rows rows;              /* what these are in; its columns are not used */
    uint32_t row, n_rows;
    bool is_all; /* rows pass: keep is not asked */
    bool *keep;  /* a row each */
    size_t keep_cap;
    struct slot *slots; /* a field each */
    uint16_t *want;     /* room for as many */
    size_t charged;     /* bytes, to the statement's account */
    bool is_end;
};

/* ---------------------------------------------------------------- table */

/* $chunk and $row say which row it is: SQLite asks for them where two branches of an OR may find the same
 * row. A rowid of 64 bits would have no room for both. */
static void declare_fields(struct strbuf *out, const struct sql_shape *s)
{
    strbuf_add_str(out, "CREATE TABLE x(time INTEGER, host TEXT, prog TEXT, level TEXT");
    for (uint32_t i = 0; i < s->n_fields; i++) {
        strbuf_add_str(out, ", ");
        sql_add_quoted(out, s->fields[i].name);
        strbuf_printf(out, " %s%s", sql_type_name(s->fields[i].type), s->fields[i].is_companion ? " HIDDEN" : "");
    }
    strbuf_add_str(
        out, ", producer TEXT HIDDEN, epoch INTEGER HIDDEN, seq INTEGER HIDDEN, clock_offset INTEGER HIDDEN, "
             "clock_bound INTEGER HIDDEN, nan TEXT HIDDEN, \"$chunk\" INTEGER HIDDEN NOT NULL, "
             "\"$row\" INTEGER HIDDEN NOT NULL, PRIMARY KEY(\"$chunk\", \"$row\")) WITHOUT ROWID");
}

static int event_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                         char **error)
{
    const struct event_table *t = aux;
    struct strbuf text = {0};
    (void)db; /* the context's */
    (void)argc;
    (void)argv;
    (void)error; /* the connection has the message */
    declare_fields(&text, t->shape);
    int r = sql_declare(t->context, &text);
    strbuf_fini(&text);
    struct event_vtab *v = r == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->table = t;
    *out = &v->base;
    return SQLITE_OK;
}

static int event_disconnect(sqlite3_vtab *vtab)
{
    mem_free(vtab);
    return SQLITE_OK;
}

static int event_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const struct event_table *t = ((struct event_vtab *)vtab)->table;
    return sql_filter_plan(t->context, t->shape, info);
}

/* ---------------------------------------------------------------- cursor */

static int event_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    struct event_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->table = ((struct event_vtab *)vtab)->table;
    c->latest.context = c->table->context;
    int r = sql_filter_init(&c->filter, c->table->context, c->table->shape);
    c->slots = mem_try_alloc((c->table->shape->n_fields + 1) * sizeof *c->slots);
    c->want = mem_try_alloc((c->table->shape->n_fields + 1) * sizeof *c->want);
    if (r < 0 || !c->slots || !c->want) {
        sql_filter_fini(&c->filter);
        mem_free(c->slots);
        mem_free(c->want);
        mem_free(c);
        return SQLITE_NOMEM;
    }
    *out = &c->base;
    return SQLITE_OK;
}

static void end_scan(struct event_cursor *c)
{
    sql_scan_close(c->table->context, c->scan, &c->counted);
    c->scan = NULL;
    sql_memory_give(&c->table->context->memory, c->charged);
    c->charged = 0;
}

static int event_close(sqlite3_vtab_cursor *cursor)
{
    struct event_cursor *c = (struct event_cursor *)cursor;
    end_scan(c);
    sql_filter_fini(&c->filter);
    sql_latest_fini(&c->latest);
    mem_free(c->keep);
    mem_free(c->slots);
    mem_free(c->want);
    mem_free(c);
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- reading a chunk */

static size_t column_bytes(const struct column *c, uint32_t n_rows)
{
    size_t text = value_is_text(c->type) && n_rows ? c->ends[n_rows - 1] : 0;
    return text + (size_t)n_rows * 8;
}

static uint32_t field_of_id(const struct event_cursor *c, uint16_t id)
{
    const struct sql_shape *s = c->table->shape;
    return id < s->n_fields ? id : UINT32_MAX;
}

/* Columns `want` and what else is asked of the chunk, into their slots. E_DAMAGE: the chunk is lost. */
static int read_columns(struct event_cursor *c, unsigned what, size_t n_want)
{
    struct rows rows;
    size_t bytes = 0;
    what &= ~c->have;
    if (what == 0 && n_want == 0)
        return 0;
    int r = sql_scan_read(c->table->context, c->scan, what, c->want, n_want, &rows);
    if (r < 0)
        return r;
    if (rows.n < c->n_rows)
        return E_DAMAGE; /* the directory has said so many */
    for (uint32_t i = 0; i < rows.n_columns; i++) {
        uint32_t field = field_of_id(c, rows.columns[i].id);
        bytes += column_bytes(&rows.columns[i], c->n_rows);
        if (field != UINT32_MAX)
            c->slots[field].column = &rows.columns[i];
    }
    if (what & BLOB_TIMES)
        c->rows.time_ns = rows.time_ns;
    if (what & BLOB_LEVELS)
        c->rows.level = rows.level;
    if (what & BLOB_ORIGINS) {
        c->rows.seq = rows.seq;
        c->rows.origin = rows.origin;
        c->rows.origins = rows.origins;
        c->rows.n_origins = rows.n_origins;
    }
    c->have |= what;
    if (!sql_memory_take(&c->table->context->memory, bytes))
        return E_LIMIT;
    c->charged += bytes;
    return 0;
}

/* Finds out where the field is. true: it is a column of the chunk, to be read. */
static bool find_slot(struct event_cursor *c, uint32_t field)
{
    struct slot *s = &c->slots[field];
    const struct sql_field *f = &c->table->shape->fields[field];
    if (s->chunk == c->chunks)
        return false;
    *s = (struct slot){.chunk = c->chunks};
    if (!sql_may_field(c->table->context, c->table->shape->event, c->parts.host, f->field))
        return false;
    s->value = sql_key_value(c->parts.fields, f, s->text);
    return s->value.type == VALUE_NONE && (f->is_companion || sql_chunk_column(c->chunk.chunk, f->id) >= 0);
}

static int compare_ids(const void *a, const void *b)
{
    return *(const uint16_t *)a - *(const uint16_t *)b;
}

static bool add_want(struct event_cursor *c, uint32_t field, size_t *n)
{
    if (!find_slot(c, field))
        return false;
    c->want[(*n)++] = c->table->shape->fields[field].id;
    return true;
}

/* A test that is not known to pass for all rows of the chunk. */
static bool is_open_test(const struct event_cursor *c, const struct sql_test *t)
{
    if (t->column == SQL_LEVEL)
        return t->kind == TEST_TEXTS;
    if (t->column < SQL_HEADS)
        return false; /* host and prog are of the stream; time has its range */
    int at = sql_chunk_column(c->chunk.chunk, c->table->shape->fields[t->column - SQL_HEADS].id);
    return at >= 0 && !sql_test_is_sure(t, &c->chunk.chunk->summaries[at], c->n_rows);
}

static bool is_partly_outside(const struct event_cursor *c)
{
    return c->chunk.chunk->min_ns < c->filter.from_ns || c->chunk.chunk->max_ns > c->filter.to_ns;
}

static int grow_keep(struct event_cursor *c)
{
    if (c->keep_cap < c->n_rows) {
        bool *keep = mem_try_resize(c->keep, c->n_rows * sizeof *keep);
        if (!keep)
            return -ENOMEM;
        c->keep = keep;
        c->keep_cap = c->n_rows;
    }
    memset(c->keep, true, c->n_rows);
    return 0;
}

static void test_levels(const struct event_cursor *c, const struct sql_test *t)
{
    bool passes[LEVEL_COUNT];
    for (uint8_t l = 0; l < LEVEL_COUNT; l++)
        passes[l] = sql_test_text(t, level_lower(l));
    for (uint32_t i = 0; i < c->n_rows; i++)
        c->keep[i] &= c->rows.level[i] < LEVEL_COUNT && passes[c->rows.level[i]];
}

static void test_rows(struct event_cursor *c)
{
    for (uint32_t i = 0; is_partly_outside(c) && i < c->n_rows; i++)
        c->keep[i] = c->rows.time_ns[i] >= c->filter.from_ns && c->rows.time_ns[i] <= c->filter.to_ns;
    for (size_t i = 0; i < c->filter.n; i++) {
        const struct sql_test *t = &c->filter.tests[i];
        if (!is_open_test(c, t))
            continue;
        if (t->column == SQL_LEVEL)
            test_levels(c, t);
        else if (c->slots[t->column - SQL_HEADS].column)
            sql_test_rows(t, c->slots[t->column - SQL_HEADS].column, c->n_rows, c->keep);
    }
}

/* Reads what tests need and says how the rows fared: 1, some are left; 0, none. */
static int select_rows(struct event_cursor *c)
{
    unsigned what = is_partly_outside(c) ? BLOB_TIMES : 0;
    size_t n = 0;
    bool is_any = what;
    for (size_t i = 0; i < c->filter.n; i++) {
        const struct sql_test *t = &c->filter.tests[i];
        if (!is_open_test(c, t))
            continue;
        is_any = true;
        if (t->column == SQL_LEVEL)
            what |= BLOB_LEVELS;
        else
            (void)add_want(c, (uint32_t)(t->column - SQL_HEADS), &n); /* else another test has it already */
    }
    c->row = 0;
    c->is_all = !is_any;
    if (!is_any)
        return c->n_rows > 0;
    qsort(c->want, n, sizeof *c->want, compare_ids);
    int r = read_columns(c, what, n);
    if (r == 0)
        r = grow_keep(c);
    if (r < 0)
        return r;
    test_rows(c);
    const bool *first = memchr(c->keep, true, c->n_rows);
    c->row = first ? (uint32_t)(first - c->keep) : c->n_rows;
    return first != NULL;
}

static bool may_be_nan(const struct sql_field *f)
{
    return f->type == VALUE_FLOAT && !f->is_companion;
}

static int read_used(struct event_cursor *c)
{
    const struct sql_shape *s = c->table->shape;
    const bool *used = c->filter.used, *hidden = used + SQL_HEADS + s->n_fields;
    unsigned what = (used[SQL_TIME] ? BLOB_TIMES : 0) | (used[SQL_LEVEL] ? BLOB_LEVELS : 0);
    size_t n = 0;
    for (int i = SQL_PRODUCER; i < SQL_NAN; i++)
        what |= hidden[i] ? BLOB_ORIGINS : 0;
    for (uint32_t i = 0; i < s->n_fields; i++)
        if (used[SQL_HEADS + i] || (hidden[SQL_NAN] && may_be_nan(&s->fields[i])))
            (void)add_want(c, i, &n); /* else it is not a column here, or was read for a test */
    return read_columns(c, what, n);
}

static void take_chunk(struct event_cursor *c)
{
    sql_memory_give(&c->table->context->memory, c->charged);
    c->charged = 0;
    c->chunks++;
    c->have = 0;
    c->n_rows = c->chunk.chunk->n_rows;
    c->parts = stream_key_split(c->chunk.chunk->key);
    sql_seen(c->table->context, c->n_rows);
}

/* Of NAME_latest: rows are in order of time. */
static int select_last(struct event_cursor *c)
{
    c->row = c->n_rows - 1;
    c->is_all = true;
    return c->n_rows > 0 && sql_latest_is(&c->latest, &c->chunk);
}

/* To the next chunk that has a row which passes. */
static int next_chunk(struct event_cursor *c)
{
    struct sql_context *ctx = c->table->context;
    int r;
    while ((r = sql_scan_next(ctx, c->scan, &c->chunk)) > 0) {
        take_chunk(c);
        r = c->table->is_latest ? select_last(c) : select_rows(c);
        if (r == 1)
            r = read_used(c);
        else if (r == 0)
            continue;
        if (r == 0)
            return SQLITE_OK;
        if (r != E_DAMAGE)
            break;
    }
    c->is_end = true;
    end_scan(c);
    return r < 0 ? sql_fail(ctx, r) : SQLITE_OK;
}

static bool wants(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct event_cursor *c = arg;
    (void)key;
    return sql_filter_stream(&c->filter, parts);
}

static bool may_have(void *arg, const struct table_def *table, const struct blob_chunk *chunk)
{
    const struct event_cursor *c = arg;
    (void)table; /* the shape is of it */
    return sql_filter_chunk(&c->filter, chunk);
}

/* A text that one field must have: chunks have a filter of ids. */
static void set_id(struct scan_spec *spec, const struct sql_filter *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct sql_test *t = &f->tests[i];
        if (t->kind != TEST_TEXTS || t->n_texts != 1 || t->column < SQL_HEADS ||
            f->shape->fields[t->column - SQL_HEADS].role == ROLE_KEY)
            continue;
        spec->id_column = f->shape->fields[t->column - SQL_HEADS].id;
        spec->id = t->texts[0];
    }
}

static int open_scan(struct event_cursor *c)
{
    struct sql_context *ctx = c->table->context;
    struct scan_spec spec = {
        .name = c->table->shape->event, .wants = wants, .arg = c, .id_column = UINT16_MAX};
    if (c->table->is_latest) {
        sql_filter_forget_rows(&c->filter);
        spec.from_ns = INT64_MIN;
        spec.to_ns = INT64_MAX;
        sql_asks(ctx, spec.name, spec.from_ns, spec.to_ns, MISSING_NEWEST);
        int r = sql_latest_find(&c->latest, &spec, &c->counted);
        if (r < 0)
            return r;
    } else {
        spec.from_ns = c->filter.from_ns;
        spec.to_ns = c->filter.to_ns;
        spec.may_have = may_have;
        set_id(&spec, &c->filter);
        sql_asks(ctx, spec.name, spec.from_ns, spec.to_ns, MISSING_ROWS);
    }
    return sql_scan_open(ctx, &spec, &c->scan);
}

static int event_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int argc,
                        sqlite3_value **argv)
{
    struct event_cursor *c = (struct event_cursor *)cursor;
    struct sql_context *ctx = c->table->context;
    (void)number;
    end_scan(c);
    int r = sql_filter_set(&c->filter, plan, argc, argv);
    if (r < 0)
        return sql_fail(ctx, r);
    c->is_end = c->filter.is_never || !view_table(ctx->view, c->table->shape->event);
    if (c->is_end)
        return SQLITE_OK;
    r = open_scan(c);
    return r < 0 ? sql_fail(ctx, r) : next_chunk(c);
}

static int event_next(sqlite3_vtab_cursor *cursor)
{
    struct event_cursor *c = (struct event_cursor *)cursor;
    c->row++;
    if (!c->is_all && c->row < c->n_rows) {
        const bool *next = memchr(c->keep + c->row, true, c->n_rows - c->row);
        c->row = next ? (uint32_t)(next - c->keep) : c->n_rows;
    }
    return c->row < c->n_rows ? SQLITE_OK : next_chunk(c);
}

static int event_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct event_cursor *)cursor)->is_end;
}

/* Never asked of a table without rowids. */
static int event_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    (void)cursor;
    (void)out;
    return SQLITE_ERROR;
}

/* ---------------------------------------------------------------- values */

/* What was not read with the others, as nothing said that it would be used. */
static int read_late(struct event_cursor *c, unsigned what, uint32_t field)
{
    size_t n = 0;
    if (field != UINT32_MAX)
        (void)add_want(c, field, &n); /* false: nothing to read */
    return read_columns(c, what, n);
}

static struct value value_at(const struct event_cursor *c, const struct slot *s)
{
    return s->column ? column_value(s->column, c->row) : s->value;
}

static int result_field(struct event_cursor *c, sqlite3_context *to, uint32_t field)
{
    struct slot *s = &c->slots[field];
    int r = s->chunk == c->chunks ? 0 : read_late(c, 0, field);
    if (r == 0)
        sql_result(to, value_at(c, s));
    return r;
}

static int result_nan(struct event_cursor *c, sqlite3_context *to)
{
    const struct sql_shape *shape = c->table->shape;
    struct strbuf names = {0};
    int r = 0;
    for (uint32_t i = 0; i < shape->n_fields && r == 0; i++) {
        if (!may_be_nan(&shape->fields[i]))
            continue;
        r = c->slots[i].chunk == c->chunks ? 0 : read_late(c, 0, i);
        struct value v = r == 0 ? value_at(c, &c->slots[i]) : value_none();
        if (v.type == VALUE_FLOAT && isnan(v.f))
            strbuf_printf(&names, "%s%s", names.n ? "," : "", shape->fields[i].name);
    }
    if (strbuf_failed(&names))
        r = -ENOMEM;
    if (r == 0 && names.n)
        sqlite3_result_text(to, names.p, (int)names.n, SQLITE_TRANSIENT);
    strbuf_fini(&names);
    return r;
}

static void result_producer(sqlite3_context *to, const uint8_t *producer)
{
    static const char digits[] = "0123456789abcdef";
    char text[32];
    for (size_t i = 0; i < 16; i++) {
        text[2 * i] = digits[producer[i] >> 4];
        text[2 * i + 1] = digits[producer[i] & 15];
    }
    sqlite3_result_text(to, text, sizeof text, SQLITE_TRANSIENT);
}

static int result_hidden(struct event_cursor *c, sqlite3_context *to, int which)
{
    static const uint8_t nobody[16];
    if (which == SQL_PLACE || which == SQL_ROW) {
        sqlite3_result_int64(to, which == SQL_ROW ? (int64_t)c->row : (int64_t)c->chunk.place);
        return 0;
    }
    if (which == SQL_NAN)
        return result_nan(c, to);
    int r = read_late(c, BLOB_ORIGINS, UINT32_MAX);
    if (r < 0)
        return r;
    if (c->rows.origin[c->row] >= c->rows.n_origins)
        return E_DAMAGE;
    const struct row_origin *o = &c->rows.origins[c->rows.origin[c->row]];
    bool is_known = memcmp(o->producer, nobody, sizeof nobody) != 0;
    if (which == SQL_PRODUCER && is_known)
        result_producer(to, o->producer);
    else if (which == SQL_EPOCH && is_known)
        sql_result(to, value_uint(o->epoch));
    else if (which == SQL_SEQ && c->rows.seq[c->row])
        sql_result(to, value_uint(c->rows.seq[c->row]));
    else if (which == SQL_CLOCK_OFFSET)
        sqlite3_result_int64(to, o->clock.offset_ns);
    else if (which == SQL_CLOCK_BOUND && o->clock.bound_ns != CLOCK_BOUND_UNKNOWN)
        sql_result(to, value_uint(o->clock.bound_ns));
    return 0;
}

/* host and prog that are not known are NULL. */
static void result_origin(sqlite3_context *to, struct slice s)
{
    if (s.n)
        sqlite3_result_text(to, s.p, (int)s.n, SQLITE_TRANSIENT);
}

static int result_head(struct event_cursor *c, sqlite3_context *to, int column)
{
    int r = 0;
    if (column == SQL_TIME) {
        r = read_late(c, BLOB_TIMES, UINT32_MAX);
        if (r == 0)
            sqlite3_result_int64(to, c->rows.time_ns[c->row]);
    } else if (column == SQL_HOST) {
        result_origin(to, c->parts.host);
    } else if (column == SQL_PROG) {
        result_origin(to, c->parts.prog);
    } else {
        r = read_late(c, BLOB_LEVELS, UINT32_MAX);
        struct slice level = r == 0 ? level_lower(c->rows.level[c->row]) : SLICE_LIT("");
        if (r == 0)
            sqlite3_result_text(to, level.p, (int)level.n, SQLITE_STATIC);
    }
    return r;
}

static int event_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    struct event_cursor *c = (struct event_cursor *)cursor;
    int n_fields = (int)c->table->shape->n_fields, r;
    if (column < SQL_HEADS)
        r = result_head(c, to, column);
    else if (column < SQL_HEADS + n_fields)
        r = result_field(c, to, (uint32_t)(column - SQL_HEADS));
    else
        r = result_hidden(c, to, column - SQL_HEADS - n_fields);
    return r < 0 ? sql_fail(c->table->context, r) : SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = event_connect,
    .xBestIndex = event_best_index,
    .xDisconnect = event_disconnect,
    .xDestroy = event_disconnect,
    .xOpen = event_open,
    .xClose = event_close,
    .xFilter = event_filter,
    .xNext = event_next,
    .xEof = event_eof,
    .xColumn = event_column,
    .xRowid = event_rowid,
};

static void destroy_table(void *aux)
{
    struct event_table *t = aux;
    sql_shape_destroy(t->shape);
    mem_free(t);
}

static int make(struct sql_context *c, const char *name, const struct table_def *of, bool is_latest)
{
    struct event_table *t = mem_try_alloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    t->context = c;
    t->is_latest = is_latest;
    t->shape = sql_shape_create(of, true);
    if (!t->shape) {
        mem_free(t);
        return -ENOMEM;
    }
    return sql_error(
        c, sqlite3_create_module_v2(c->db, name, &module, t, destroy_table)); /* destroys it on failure */
}

static int make_table(struct sql_context *c, const char *name, const struct table_def *of)
{
    return make(c, name, of, false);
}

static int make_latest(struct sql_context *c, const char *name, const struct table_def *of)
{
    return make(c, name, of, true);
}

const struct sql_kind sql_kind_table = {.suffix = "", .has_past = true, .make = make_table};
const struct sql_kind sql_kind_latest = {.suffix = "_latest", .make = make_latest};
