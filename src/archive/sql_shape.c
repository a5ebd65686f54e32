/* SPDX-License-Identifier: Apache-2.0 */
/* sql_shape.c - which columns a table has in SQL, and how values are given there.
 *
 * A column is called as its field, with two exceptions. SQL does not know case, so two fields may have one
 * name: of those (Load and load), all but the first are called name:2, name:3 and so on. A field that is called like one of the built-in columns gets a $ before its name, as in predicates. The companion
 * of a field is name:text or name:number. */
#include "archive/sql_internal.h"

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>

static const char *const built_in[] = {"time",  "host", "prog",         "level",       "producer",
                                       "epoch", "seq",  "clock_offset", "clock_bound", "nan"};

static bool is_built_in(struct slice name)
{
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        if (slice_eq_nocase(name, slice_str(built_in[i])))
            return true;
    return false;
}

/* In lower case, as long as the map lives. */
static struct slice lowered(struct arena *a, struct slice s)
{
    struct slice copy = arena_copy(a, s);
    for (size_t i = 0; i < copy.n; i++)
        ((char *)copy.p)[i] = slice_lower(copy.p[i]);
    return copy;
}

/* Takes the name if nobody has it. 1: it is f's; 0: it is somebody's; -ENOMEM. */
static int claim(struct map *taken, struct sql_shape *s, struct sql_field *f, const struct strbuf *name)
{
    if (strbuf_failed(name))
        return -ENOMEM;
    struct slice key = lowered(&s->arena, strbuf_slice(name));
    if (!key.p)
        return -ENOMEM;
    if (map_get(taken, key))
        return 0;
    char *copy = arena_alloc(&s->arena, name->n + 1);
    if (!copy || map_put(taken, key, f) < 0)
        return -ENOMEM;
    memcpy(copy, strbuf_slice(name).p, name->n);
    copy[name->n] = '\0';
    f->name = copy;
    return 1;
}

static int name_field(struct map *taken, struct sql_shape *s, struct sql_field *f, struct strbuf *name)
{
    strbuf_reset(name);
    if (s->has_heads && is_built_in(f->field))
        strbuf_add_char(name, '$');
    strbuf_add_slice(name, f->field);
    if (f->is_companion)
        strbuf_printf(name, ":%s", class_name(f->class));
    size_t n = name->n;
    int r = claim(taken, s, f, name);
    for (unsigned i = 2; r == 0; i++) {
        name->n = n;
        strbuf_printf(name, ":%u", i);
        r = claim(taken, s, f, name);
    }
    return r;
}

static int name_fields(struct sql_shape *s)
{
    struct map taken = {0};
    struct strbuf name = {0};
    int r = 1;
    for (uint32_t i = 0; i < s->n_fields && r > 0; i++)
        r = name_field(&taken, s, &s->fields[i], &name);
    map_fini(&taken);
    strbuf_fini(&name);
    return r < 0 ? r : 0;
}

/* The column with the other side of field i: its text, or its number. */
static void make_companion(const struct table_def *t, struct sql_field *fields, uint32_t i)
{
    bool is_number = fields[i].class == CLASS_NUMBER;
    fields[t->n_columns + i] = fields[i];
    fields[t->n_columns + i].id = (uint16_t)(t->n_columns + i);
    fields[t->n_columns + i].class = is_number ? CLASS_TEXT : CLASS_NUMBER;
    fields[t->n_columns + i].type = is_number ? VALUE_TEXT : VALUE_FLOAT;
    fields[t->n_columns + i].is_companion = true;
}

struct sql_shape *sql_shape_create(const struct table_def *t, bool has_heads)
{
    struct sql_shape *s = mem_try_alloc(sizeof *s);
    if (!s)
        return NULL;
    bool has_companions = has_heads && t->states && 2 * t->n_columns <= SQL_FIELDS_MAX;
    uint32_t n = t->n_columns < SQL_FIELDS_MAX ? t->n_columns : SQL_FIELDS_MAX;
    s->has_heads = has_heads;
    s->n_fields = has_companions ? 2 * n : n;
    s->fields = arena_alloc(&s->arena, (s->n_fields + 1) * sizeof *s->fields);
    char *event = arena_alloc(&s->arena, t->name.n + 1);
    if (!s->fields || !event)
        goto fail;
    memcpy(event, t->name.p, t->name.n);
    event[t->name.n] = '\0';
    s->event = slice_of(event, t->name.n);
    for (uint32_t i = 0; i < n; i++) {
        const struct field *f = &t->columns[i];
        s->fields[i] = (struct sql_field){.field = arena_copy(&s->arena, f->name),
                                          .id = (uint16_t)i,
                                          .type = f->type,
                                          .role = f->role,
                                          .class = t->states ? t->states[i].class : (uint8_t)CLASS_UNKNOWN};
        if (!s->fields[i].field.p)
            goto fail;
        if (has_companions)
            make_companion(t, s->fields, i);
    }
    if (name_fields(s) == 0)
        return s;
fail:
    sql_shape_destroy(s);
    return NULL;
}

void sql_shape_destroy(struct sql_shape *s)
{
    if (!s)
        return;
    arena_fini(&s->arena);
    mem_free(s);
}

uint64_t sql_shape_signature(const struct table_def *t)
{
    uint64_t h = hash_seeded(t->name, t->n_columns);
    for (uint32_t i = 0; i < t->n_columns; i++)
        h = hash_seeded(t->columns[i].name, h ^ (uint64_t)(t->columns[i].type | t->columns[i].role << 8 |
                                                           (t->states ? t->states[i].class : 0) << 16));
    return h;
}

const char *sql_type_name(uint8_t type)
{
    static const char *const names[VALUE_TYPES] = {"",        "INTEGER", "INTEGER", "REAL",
                                                   "INTEGER", "TEXT",    "BLOB",    "REAL"};
    return type < VALUE_TYPES ? names[type] : "";
}

void sql_add_quoted(struct strbuf *out, const char *name)
{
    strbuf_add_char(out, '"');
    for (; *name; name++) {
        if (*name == '"')
            strbuf_add_char(out, '"');
        strbuf_add_char(out, *name);
    }
    strbuf_add_char(out, '"');
}

void sql_result(sqlite3_context *to, struct value v)
{
    switch (v.type) {
    case VALUE_INT:
        sqlite3_result_int64(to, v.i);
        break;
    case VALUE_UINT:
    case VALUE_BOOL:
        if (v.u <= INT64_MAX)
            sqlite3_result_int64(to, (int64_t)v.u);
        else
            sqlite3_result_double(to, (double)v.u);
        break;
    case VALUE_FLOAT:
        sqlite3_result_double(to, v.f); /* SQLite makes NULL of NaN: the column nan tells */
        break;
    case VALUE_NUMBER:
        sql_result(to, value_number(v));
        break;
    case VALUE_TEXT:
        sqlite3_result_text(to, v.n ? v.p : "", (int)v.n, SQLITE_TRANSIENT);
        break;
    case VALUE_BYTES:
        sqlite3_result_blob(to, v.n ? v.p : "", (int)v.n, SQLITE_TRANSIENT);
        break;
    default:
        break; /* missing: a result that is not set is NULL */
    }
}
