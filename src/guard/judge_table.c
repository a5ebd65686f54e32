/* SPDX-License-Identifier: Apache-2.0 */
/* judge_table.c - NAME_latest as a virtual table of SQLite.
 *
 * A cursor lists the numbers of all rows that may be meant (judge_filter.c) when it starts, and walks the
 * list. SQLite looks again at each row that it gets (omit is never set): the list only has to have all rows
 * that SQLite would take, so comparisons of mixed types stay SQLite's own.
 *
 * Declared types give columns the affinity that comparisons go by, as in the archive: INTEGER or REAL where
 * all values so far were such, NUMERIC for both, TEXT for text alone; any other mixture has none. */
#include "guard/judge_internal.h"

#include "base/mem.h"

#include <errno.h>

struct live_vtab {
    sqlite3_vtab base;
    const struct judge_live *live;
};

struct live_cursor {
    sqlite3_vtab_cursor base;
    const struct judge_live *live;
    struct judge_scratch *scratch;
    uint32_t n, at;
};

/* ---------------------------------------------------------------- declaring */

static const char *type_of(uint8_t seen)
{
    const uint8_t ints = 1 << VALUE_INT | 1 << VALUE_UINT | 1 << VALUE_BOOL;
    const uint8_t floats = 1 << VALUE_FLOAT;
    if (!seen || (seen & LIVE_SEEN_HUGE))
        return "";
    if (!(seen & ~ints))
        return "INTEGER";
    if (!(seen & ~floats))
        return "REAL";
    if (!(seen & ~(ints | floats)))
        return "NUMERIC";
    return seen == 1 << VALUE_TEXT ? "TEXT" : "";
}

/* A field of the event that is called like it keeps the name. */
static void put_hidden(struct strbuf *out, const struct live_table *t, const char *name, const char *type)
{
    bool is_taken = false;
    for (uint32_t i = 0; t && i < t->n_columns; i++)
        is_taken |= sqlite3_stricmp(t->columns[i]->name, name) == 0;
    strbuf_printf(out, ", \"%s%s\" %s HIDDEN", is_taken ? "$" : "", name, type);
}

static int live_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                        char **error)
{
    const struct judge_live *live = aux;
    const struct live_table *t = live->table;
    struct strbuf text = {0};
    (void)db; /* the judge's */
    (void)argc;
    (void)argv;
    (void)error; /* the connection has the message */
    strbuf_add_str(&text, "CREATE TABLE x(time INTEGER, host TEXT, prog TEXT, level TEXT");
    for (uint32_t i = 0; i < live->n_fields; i++) {
        strbuf_add_str(&text, ", ");
        judge_put_quoted(&text, t->columns[i]->name);
        strbuf_printf(&text, " %s", type_of(t->columns[i]->seen));
    }
    put_hidden(&text, t, "heard", "INTEGER");
    put_hidden(&text, t, "domain", "TEXT");
    strbuf_add_str(&text, ")");
    int code = strbuf_failed(&text) ? SQLITE_NOMEM : judge_declare(live->judge, text.p);
    strbuf_fini(&text);
    struct live_vtab *v = code == SQLITE_OK ? mem_try_alloc(sizeof *v) : NULL;
    if (!v)
        return code == SQLITE_OK ? SQLITE_NOMEM : code;
    v->live = live;
    *out = &v->base;
    return SQLITE_OK;
}

static int live_disconnect(sqlite3_vtab *vtab)
{
    mem_free(vtab);
    return SQLITE_OK;
}

static int live_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const struct judge_live *live = ((struct live_vtab *)vtab)->live;
    return judge_filter_plan(live->judge, live, info);
}

/* ---------------------------------------------------------------- cursors */

static int live_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    struct live_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->live = ((struct live_vtab *)vtab)->live;
    struct judge *j = c->live->judge;
    c->scratch = j->scratch;
    if (c->scratch)
        j->scratch = c->scratch->next;
    else
        c->scratch = mem_try_alloc(sizeof *c->scratch);
    if (!c->scratch) {
        mem_free(c);
        return SQLITE_NOMEM;
    }
    *out = &c->base;
    return SQLITE_OK;
}

static int live_close(sqlite3_vtab_cursor *cursor)
{
    struct live_cursor *c = (struct live_cursor *)cursor;
    struct judge *j = c->live->judge;
    c->scratch->next = j->scratch;
    j->scratch = c->scratch;
    mem_free(c);
    return SQLITE_OK;
}

static int live_filter(sqlite3_vtab_cursor *cursor, int order, const char *plan, int argc,
                       sqlite3_value **argv)
{
    struct live_cursor *c = (struct live_cursor *)cursor;
    int64_t n = judge_filter_run(c->live->judge, c->live, order, plan, argc, argv, c->scratch);
    if (n < 0)
        return SQLITE_NOMEM;
    c->n = (uint32_t)n;
    c->at = 0;
    return SQLITE_OK;
}

static int live_next(sqlite3_vtab_cursor *cursor)
{
    ((struct live_cursor *)cursor)->at++;
    return SQLITE_OK;
}

static int live_eof(sqlite3_vtab_cursor *cursor)
{
    const struct live_cursor *c = (const struct live_cursor *)cursor;
    return c->at >= c->n;
}

static int live_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    const struct live_cursor *c = (const struct live_cursor *)cursor;
    *out = c->scratch->rows[c->at];
    return SQLITE_OK;
}

/* "" is not known: NULL. */
static void result_name(sqlite3_context *to, struct slice s)
{
    if (s.n)
        sqlite3_result_text(to, s.p, (int)s.n, SQLITE_STATIC);
}

static void result_head(sqlite3_context *to, const struct live_table *t, int column, uint32_t row)
{
    switch (column) {
    case HEAD_TIME:
        sqlite3_result_int64(to, t->time_ns[row]);
        break;
    case HEAD_HOST:
        result_name(to, t->hosts[row]->name);
        break;
    case HEAD_PROG:
        result_name(to, t->rows[row]->prog);
        break;
    default:
        result_name(to, level_lower(t->levels[row]));
        break;
    }
}

static int live_column_at(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct live_cursor *c = (const struct live_cursor *)cursor;
    const struct live_table *t = c->live->table;
    uint32_t row = c->scratch->rows[c->at], field = (uint32_t)(column - HEADS);
    if (column < HEADS)
        result_head(to, t, column, row);
    else if (field < c->live->n_fields)
        judge_result(to, live_cell(t->columns[field], row));
    else if (field == c->live->n_fields)
        sqlite3_result_int64(to, t->heard_ns[row]);
    else
        result_name(to, t->hosts[row]->domain);
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 0,
    .xConnect = live_connect,
    .xBestIndex = live_best_index,
    .xDisconnect = live_disconnect,
    .xDestroy = live_disconnect,
    .xOpen = live_open,
    .xClose = live_close,
    .xFilter = live_filter,
    .xNext = live_next,
    .xEof = live_eof,
    .xColumn = live_column_at,
    .xRowid = live_rowid,
};

/* ---------------------------------------------------------------- tables that queries name */

static struct slice event_of(const struct judge_live *t)
{
    return slice_of(t->name, strlen(t->name) - strlen("_latest"));
}

int judge_live_get(struct judge *j, struct slice name, struct judge_live **out)
{
    for (struct judge_live *t = j->lives; t; t = t->next) {
        if (!slice_eq_nocase(name, slice_str(t->name)))
            continue;
        t->refs++;
        *out = t;
        return 0;
    }
    struct judge_live *t = mem_try_alloc(sizeof *t + name.n + 1);
    if (!t)
        return -ENOMEM;
    for (size_t i = 0; i < name.n; i++)
        t->name[i] = slice_lower(name.p[i]);
    t->judge = j;
    t->refs = 1;
    t->next = j->lives;
    j->lives = t;
    *out = t;
    return 0;
}

void judge_live_unref(struct judge_live *t)
{
    if (!t || --t->refs)
        return;
    struct judge_live **at = &t->judge->lives;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (t->version) /* taking a module away takes no memory */
        (void)sqlite3_create_module_v2(t->judge->db, t->name, NULL, NULL, NULL);
    mem_free(t);
}

/* A table of live has gone: what we know of any may be wrong. */
static void look_again(struct judge *j)
{
    if (j->tables_gone == j->live->tables_gone)
        return;
    j->tables_gone = j->live->tables_gone;
    for (struct judge_live *t = j->lives; t; t = t->next)
        t->table = NULL;
}

enum { VERSION_EMPTY = 1 }; /* of the module of a table that is not there: live's begin with 2 */

bool judge_live_is_stale(struct judge_live *t)
{
    look_again(t->judge);
    if (!t->table)
        t->table = live_find(t->judge->live, event_of(t));
    return t->version != (t->table ? t->table->version + 1 : VERSION_EMPTY);
}

int judge_live_make(struct judge_live *t)
{
    int code = sqlite3_create_module_v2(t->judge->db, t->name, &module, t, NULL);
    if (code != SQLITE_OK) {
        t->version = 0;
        return judge_error(code);
    }
    t->made = ++t->judge->makes + 1;
    t->n_fields = t->table ? t->table->n_columns : 0;
    t->version = t->table ? t->table->version + 1 : VERSION_EMPTY;
    return 0;
}
