/* SPDX-License-Identifier: Apache-2.0 */
/* judge_mounted.c - tables of the guard's own: their rows are asked for when a run first reads them, and
 * copied, so that all cursors of a run see the same.
 *
 * SQLite makes no indexes of its own for virtual tables, so that a join of two of them would look at every
 * pair: for COLUMN = text the rows are found by a hash of the column, made when it is first needed. Cells
 * that are not text are with every text; SQLite looks again at all that it gets. */
#include "guard/judge_internal.h"

#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>

enum { MOUNTED_ROWS_MAX = 1000000, BLOCK_ROWS = 256 };
#define NO_ROW UINT32_MAX

struct column_index {
    uint32_t *heads; /* n_heads by hash, and one more: of cells that are not text */
    uint32_t *next;  /* of a row */
    uint32_t n_heads;
};

struct judge_mounted {
    struct judge *judge;
    struct judge_table table;
    int n_columns;
    uint64_t run;         /* that it is filled for */
    struct arena arena;   /* of rows and indexes */
    struct value *values; /* n_columns a row */
    uint32_t n, cap;
    struct column_index *indexes; /* n_columns */
};

struct mounted_vtab {
    sqlite3_vtab base;
    struct judge_mounted *mounted;
};

struct mounted_cursor {
    sqlite3_vtab_cursor base;
    struct judge_mounted *mounted;
    const struct column_index *index; /* NULL: all rows */
    uint32_t at;                      /* row; NO_ROW = the end */
    bool is_others;                   /* at cells that are not text */
};

/* ---------------------------------------------------------------- rows */

static bool copy_value(struct judge_mounted *m, const struct value *from, struct value *to)
{
    *to = *from;
    if (!value_is_text(from->type))
        return true;
    struct slice copy = arena_copy(&m->arena, value_slice(*from));
    to->p = copy.p;
    return copy.p;
}

static int put_row(void *arg, const struct value *row)
{
    struct judge_mounted *m = arg;
    if (m->n == MOUNTED_ROWS_MAX)
        return E_LIMIT;
    if (m->n == m->cap) {
        uint32_t cap = m->cap ? m->cap * 2 : BLOCK_ROWS;
        struct value *values = mem_try_resize(m->values, (size_t)cap * (size_t)m->n_columns * sizeof *values);
        if (!values)
            return -ENOMEM;
        m->values = values;
        m->cap = cap;
    }
    struct value *to = m->values + (size_t)m->n * (size_t)m->n_columns;
    for (int i = 0; i < m->n_columns; i++)
        if (!copy_value(m, &row[i], &to[i]))
            return -ENOMEM;
    m->n++;
    return 0;
}

static int fill(struct judge_mounted *m)
{
    struct judge *j = m->judge;
    if (m->run == j->runs)
        return SQLITE_OK;
    arena_reset(&m->arena);
    m->n = 0;
    for (int i = 0; i < m->n_columns; i++)
        m->indexes[i] = (struct column_index){0};
    int r = m->table.fill(m->table.arg, put_row, m);
    if (r < 0)
        return judge_fail(j, r, "table %s: %s", m->table.name, err_text(r));
    m->run = j->runs;
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- indexes */

static const struct value *cell(const struct judge_mounted *m, uint32_t row, int column)
{
    return &m->values[(size_t)row * (size_t)m->n_columns + (size_t)column];
}

static uint32_t head_of(const struct column_index *x, struct slice text)
{
    return (uint32_t)hash_bytes(text) & (x->n_heads - 1);
}

static const struct column_index *need_index(struct judge_mounted *m, int column)
{
    struct column_index *x = &m->indexes[column];
    if (x->heads)
        return x;
    uint32_t n_heads = 16;
    while (n_heads < m->n)
        n_heads *= 2;
    uint32_t *heads = arena_alloc(&m->arena, (n_heads + 1) * sizeof *heads);
    uint32_t *next = arena_alloc(&m->arena, (m->n + 1) * sizeof *next);
    if (!heads || !next)
        return NULL;
    *x = (struct column_index){heads, next, n_heads};
    for (uint32_t i = 0; i <= n_heads; i++)
        heads[i] = NO_ROW;
    for (uint32_t i = m->n; i-- > 0;) {
        const struct value *v = cell(m, i, column);
        uint32_t *head = &heads[v->type == VALUE_TEXT ? head_of(x, value_slice(*v)) : n_heads];
        next[i] = *head;
        *head = i;
    }
    return x;
}

/* ---------------------------------------------------------------- the virtual table */

static int mounted_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                           char **error)
{
    struct judge_mounted *m = aux;
    struct strbuf text = {0};
    (void)db; /* the judge's */
    (void)argc;
    (void)argv;
    (void)error; /* the connection has the message */
    strbuf_add_str(&text, "CREATE TABLE x(");
    for (int i = 0; i < m->n_columns; i++) {
        strbuf_add_str(&text, i ? ", " : "");
        judge_put_quoted(&text, m->table.columns[i]);
    }
    strbuf_add_str(&text, ")");
    int code = strbuf_failed(&text) ? SQLITE_NOMEM : judge_declare(m->judge, text.p);
    strbuf_fini(&text);
    struct mounted_vtab *v = code == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return code == SQLITE_OK ? SQLITE_NOMEM : code;
    v->mounted = m;
    *out = &v->base;
    return SQLITE_OK;
}

static int mounted_disconnect(sqlite3_vtab *vtab)
{
    mem_free(vtab);
    return SQLITE_OK;
}

/* idxNum: 0 = all rows, else 1 + the column that is to be equal to an argument. */
static int mounted_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const struct judge_mounted *m = ((struct mounted_vtab *)vtab)->mounted;
    double rows = 1000;
    for (int i = 0; i < info->nConstraint && !m->judge->is_plain; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        if (!c->usable || c->iColumn < 0 || c->op != SQLITE_INDEX_CONSTRAINT_EQ ||
            sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") != 0)
            continue;
        info->aConstraintUsage[i].argvIndex = 1;
        info->idxNum = 1 + c->iColumn;
        rows = 2;
        break;
    }
    info->estimatedRows = (sqlite3_int64)rows;
    info->estimatedCost = rows;
    return SQLITE_OK;
}

static int mounted_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    struct mounted_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->mounted = ((struct mounted_vtab *)vtab)->mounted;
    *out = &c->base;
    return SQLITE_OK;
}

static int mounted_close(sqlite3_vtab_cursor *cursor)
{
    mem_free(cursor);
    return SQLITE_OK;
}

/* The first of the others, behind the last of the texts. */
static void skip_to_others(struct mounted_cursor *c)
{
    if (c->at != NO_ROW || !c->index || c->is_others)
        return;
    c->is_others = true;
    c->at = c->index->heads[c->index->n_heads];
}

static int mounted_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int argc,
                          sqlite3_value **argv)
{
    struct mounted_cursor *c = (struct mounted_cursor *)cursor;
    int code = fill(c->mounted);
    (void)plan; /* there is none */
    if (code != SQLITE_OK)
        return code;
    c->index = NULL;
    c->is_others = false;
    c->at = c->mounted->n ? 0 : NO_ROW;
    if (number == 0 || argc == 0 || sqlite3_value_type(argv[0]) != SQLITE_TEXT)
        return SQLITE_OK;
    const char *p = (const char *)sqlite3_value_text(argv[0]);
    struct slice text = slice_of(p ? p : "", p ? (size_t)sqlite3_value_bytes(argv[0]) : 0);
    if (judge_may_be_number(text))
        return SQLITE_OK; /* 1 may be equal to '1.0' */
    c->index = need_index(c->mounted, number - 1);
    if (!c->index)
        return SQLITE_NOMEM;
    c->at = c->index->heads[head_of(c->index, text)];
    skip_to_others(c);
    return SQLITE_OK;
}

static int mounted_next(sqlite3_vtab_cursor *cursor)
{
    struct mounted_cursor *c = (struct mounted_cursor *)cursor;
    if (c->index)
        c->at = c->index->next[c->at];
    else
        c->at = c->at + 1 < c->mounted->n ? c->at + 1 : NO_ROW;
    skip_to_others(c);
    return SQLITE_OK;
}

static int mounted_eof(sqlite3_vtab_cursor *cursor)
{
    return ((const struct mounted_cursor *)cursor)->at == NO_ROW;
}

static int mounted_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = ((const struct mounted_cursor *)cursor)->at;
    return SQLITE_OK;
}

static int mounted_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct mounted_cursor *c = (const struct mounted_cursor *)cursor;
    judge_result(to, *cell(c->mounted, c->at, column));
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = mounted_connect,
    .xBestIndex = mounted_best_index,
    .xDisconnect = mounted_disconnect,
    .xDestroy = mounted_disconnect,
    .xOpen = mounted_open,
    .xClose = mounted_close,
    .xFilter = mounted_filter,
    .xNext = mounted_next,
    .xEof = mounted_eof,
    .xColumn = mounted_column,
    .xRowid = mounted_rowid,
};

/* ---------------------------------------------------------------- mounting */

static int mount(struct judge *j, struct judge_mounted *m, const struct judge_table *table)
{
    m->judge = j;
    m->table = *table;
    while (table->columns[m->n_columns])
        m->n_columns++;
    m->indexes = mem_try_alloc((size_t)m->n_columns * sizeof *m->indexes);
    if (!m->indexes)
        return -ENOMEM;
    int code = sqlite3_create_module_v2(j->db, table->name, &module, m, NULL);
    return code == SQLITE_OK ? 0 : judge_error(code);
}

int judge_mount(struct judge *j, const struct judge_table *tables, size_t n)
{
    if (n == 0)
        return 0;
    j->mounted = mem_try_alloc(n * sizeof *j->mounted);
    if (!j->mounted)
        return -ENOMEM;
    j->n_mounted = n;
    for (size_t i = 0; i < n; i++) {
        int r = mount(j, &j->mounted[i], &tables[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

void judge_unmount(struct judge *j)
{
    for (size_t i = 0; i < j->n_mounted; i++) {
        arena_fini(&j->mounted[i].arena);
        mem_free(j->mounted[i].values);
        mem_free(j->mounted[i].indexes);
    }
    mem_free(j->mounted);
}
