/* SPDX-License-Identifier: Apache-2.0 */
/* The archive against plain tables of SQLite: random schemas that grow, rows of all types with missing ones
 * and NaN, late ones, of several streams and producers, flushed, merged, taken away by retention and reopened
 * at random; then the same random queries give the same answers in both. GRIDLINE_TEST_SCALE makes it longer,
 * GRIDLINE_TEST_SEED says where to begin; the seed of a failure is printed.
 *
 * Not compared here as SQLite's own tables can't hold them: uint above 2^63-1 (sql_test.c). Sums are of
 * values whose sums are exact in any order. */
#include "unit/archive/sql_run.h"

#include "archive/merge.h"
#include "archive/retain.h"
#include "base/mem.h"
#include "base/text.h"

#include <sqlite3.h>

#define SECOND INT64_C(1000000000)
#define BASE   (INT64_C(1794776400) * SECOND)

enum { EVENTS = 3, VERSIONS = 3, FIELDS_MAX = 14, COLUMNS_MAX = 64, HOSTS = 4, RECORDS_MAX = 400 };

/* A column as it is stored, one a name and type; or as SQL should have it, one a field, by the rule of docs/sql.md. */
struct known_column {
    struct field field;
    char name[64];
    bool is_wild; /* any value of its type: no sums */
    uint8_t class;
    bool is_companion;
};

struct known_event {
    const char *name, *table;
    struct schema *versions[VERSIONS];
    size_t n_versions;
    struct known_column columns[COLUMNS_MAX]; /* stored */
    size_t n_columns;
    size_t n_declared;                           /* of them the plain table of rows has */
    struct known_column fields[2 * COLUMNS_MAX]; /* of SQL, with companions */
    size_t n_fields, n_visible;
    bool is_made;
    bool is_mixed; /* a field is a key in one version and a value in another */
};

static struct sql_run t;
static sqlite3 *plain;
static uint64_t seed;
static struct known_event events[EVENTS];
static struct batch *records[RECORDS_MAX];
static size_t n_records;
static uint64_t last_seq[3];
static size_t n_rows;
static uint64_t n_merges, n_taken_away; /* commits; rows */

static uint64_t below(uint64_t n)
{
    return test_random(&seed) % n;
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

/* ---------------------------------------------------------------- schemas */

static bool is_taken(const struct known_event *e, const char *name)
{
    for (size_t i = 0; i < e->n_fields; i++)
        if (sqlite3_stricmp(e->fields[i].name, name) == 0)
            return true;
    return false;
}

static void name_field(struct known_event *e, struct known_column *c)
{
    static const char *const built_in[] = {"time",  "host", "prog",         "level",       "producer",
                                           "epoch", "seq",  "clock_offset", "clock_bound", "nan"};
    char first[52];
    const char *dollar = "";
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        if (slice_eq_nocase(c->field.name, slice_str(built_in[i])))
            dollar = "$";
    (void)snprintf(first, sizeof first, "%s%.*s%s", dollar, SLICE_ARG(c->field.name),
                   !c->is_companion           ? ""
                   : c->class == CLASS_NUMBER ? ":number"
                                              : ":text");
    (void)snprintf(c->name, sizeof c->name, "%s", first);
    for (unsigned i = 2; is_taken(e, c->name); i++)
        (void)snprintf(c->name, sizeof c->name, "%s:%u", first, i);
}

static struct known_column *column_of(struct known_event *e, const struct field *f)
{
    for (size_t i = 0; i < e->n_columns; i++)
        if (e->columns[i].field.type == f->type && slice_eq(e->columns[i].field.name, f->name))
            return &e->columns[i];
    return NULL;
}

/* Columns are in the order in which fields were first seen. */
static void learn(struct known_event *e, const struct schema *s)
{
    for (uint32_t i = 0; i < s->n_fields; i++) {
        if (column_of(e, &s->fields[i]))
            continue;
        assert_true(e->n_columns < COLUMNS_MAX);
        struct known_column *c = &e->columns[e->n_columns];
        c->field = s->fields[i];
        c->is_wild = one_in(3);
        e->n_columns++;
    }
}

/* A version has some fields of the one before and some new ones; keys stay keys. */
static void make_version(struct known_event *e)
{
    static const char *const names[] = {"a",   "b",  "c",   "A",      "usage", "host",
                                        "Seq", "id", "x.y", "in-use", "n:1",   "select"};
    struct field fields[FIELDS_MAX];
    size_t n = 0, wanted = 2 + below(8);
    for (size_t i = 0; i < e->n_columns && n < FIELDS_MAX; i++)
        if (e->columns[i].field.role == ROLE_KEY || below(2)) {
            fields[n] = e->columns[i].field;
            /* What was a key is a value, or the other way round. */
            bool is_other = one_in(30) && fields[n].type != VALUE_BYTES;
            fields[n++].role ^= is_other;
            e->is_mixed |= is_other;
        }
    for (size_t tries = 0; tries < 20 && n < wanted; tries++) {
        struct field f = {.name = slice_str(names[below(sizeof names / sizeof *names)]),
                          .unit = SLICE_LIT(""),
                          .help = SLICE_LIT(""),
                          .type = (uint8_t)(1 + below(VALUE_TYPES - 1)),
                          .role = e->n_versions == 0 && one_in(4) ? ROLE_KEY : ROLE_VALUE};
        if (f.role == ROLE_KEY && f.type == VALUE_BYTES) /* beside text they would be base64 in rows, and bytes in keys */
            f.type = VALUE_TEXT;
        bool is_new = !column_of(e, &f);
        for (size_t i = 0; i < n; i++)
            is_new &= fields[i].type != f.type || !slice_eq(fields[i].name, f.name);
        if (is_new)
            fields[n++] = f;
    }
    struct schema *s = NULL;
    if (schema_create(slice_str(e->name), fields, n, &s) == 0)
        e->versions[e->n_versions++] = s;
}

/* ---------------------------------------------------------------- plain tables */

static void exec(const char *text)
{
    char *error = NULL;
    if (sqlite3_exec(plain, text, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", text, error);
}

static const char *declared_type(uint8_t type)
{
    static const char *const names[] = {"", "INTEGER", "INTEGER", "REAL", "INTEGER", "TEXT", "BLOB"};
    return names[type];
}

/* The table of rows as they came: of each stored column its value (p) and its text (s), without affinity. */
static void declare(struct known_event *e)
{
    char text[300];
    if (!e->is_made) {
        (void)snprintf(
            text, sizeof text,
            "CREATE TABLE %s_rows(time INTEGER, host TEXT, prog TEXT, level TEXT, producer TEXT, epoch INTEGER, "
            "seq INTEGER, clock_offset INTEGER, clock_bound INTEGER)",
            e->table);
        exec(text);
        e->is_made = true;
    }
    for (; e->n_declared < e->n_columns; e->n_declared++) {
        (void)snprintf(text, sizeof text,
                       "ALTER TABLE %s_rows ADD COLUMN p%zu; ALTER TABLE %s_rows ADD COLUMN s%zu", e->table,
                       e->n_declared, e->table, e->n_declared);
        exec(text);
    }
}

/* The type of a field that was stored with these, a bit each. */
static uint8_t field_type(uint8_t class, unsigned stored)
{
    if (class == CLASS_TEXT)
        return stored == 1u << VALUE_BYTES ? VALUE_BYTES : VALUE_TEXT;
    for (uint8_t type = VALUE_INT; type <= VALUE_BOOL; type++)
        if (stored == 1u << type)
            return type;
    return VALUE_FLOAT;
}

/* One more field of SQL: the first of the stored columns `from`, and all that have its name. */
static void add_field(struct known_event *e, size_t from, bool is_companion)
{
    struct known_column *f = &e->fields[e->n_fields];
    struct class_state state;
    unsigned stored = 0;
    *f = e->columns[from];
    assert_true(archive_get_class(t.a, slice_str(e->name), f->field.name, &state));
    f->class = state.class;
    f->is_companion = is_companion;
    for (size_t i = 0; i < e->n_columns; i++)
        if (slice_eq(e->columns[i].field.name, f->field.name)) {
            stored |= 1u << e->columns[i].field.type;
            f->is_wild |= e->columns[i].is_wild;
        }
    f->field.type = field_type(f->class, stored);
    if (is_companion) {
        f->class = f->class == CLASS_NUMBER ? CLASS_TEXT : CLASS_NUMBER;
        f->field.type = f->class == CLASS_NUMBER ? VALUE_FLOAT : VALUE_TEXT;
    }
    name_field(e, f);
    e->n_fields++;
}

static void list_fields(struct known_event *e)
{
    e->n_fields = 0;
    for (int is_companion = 0; is_companion < 2; is_companion++) {
        for (size_t i = 0; i < e->n_columns; i++) {
            bool is_first = true;
            for (size_t k = 0; k < i; k++)
                is_first &= !slice_eq(e->columns[k].field.name, e->columns[i].field.name);
            if (is_first)
                add_field(e, i, is_companion);
        }
        e->n_visible = is_companion ? e->n_visible : e->n_fields;
    }
}

/* The plain table with one column a field, of the rows as they came. */
static void make_table(struct known_event *e)
{
    struct strbuf create = {0}, select = {0};
    list_fields(e);
    strbuf_printf(&create, "DROP TABLE IF EXISTS %s; CREATE TABLE %s(time INTEGER, host TEXT, prog TEXT, level TEXT, "
                           "producer TEXT, epoch INTEGER, seq INTEGER, clock_offset INTEGER, clock_bound INTEGER",
                  e->table, e->table);
    for (size_t i = 0; i < e->n_fields; i++) {
        const struct known_column *f = &e->fields[i];
        strbuf_printf(&create, ", \"%s\" %s", f->name, declared_type(f->field.type));
        strbuf_add_str(&select, ", coalesce(NULL, NULL");
        for (size_t k = 0; k < e->n_columns; k++) {
            uint8_t type = e->columns[k].field.type;
            bool is_text = type == VALUE_TEXT || type == VALUE_BYTES;
            if (!slice_eq(e->columns[k].field.name, f->field.name) || (f->class == CLASS_NUMBER && is_text))
                continue;
            bool is_value = f->class == CLASS_NUMBER || f->field.type == VALUE_BYTES;
            strbuf_printf(&select, ", %c%zu", is_value ? 'p' : 's', k);
        }
        strbuf_add_str(&select, ")");
    }
    strbuf_printf(&create, "); INSERT INTO %s SELECT time, host, prog, level, producer, epoch, seq, clock_offset, "
                           "clock_bound%s FROM %s_rows",
                  e->table, select.p, e->table);
    exec(create.p);
    strbuf_fini(&create);
    strbuf_fini(&select);
}

static void bind(sqlite3_stmt *s, int i, struct value v)
{
    if (v.type == VALUE_NONE)
        sqlite3_bind_null(s, i);
    else if (v.type == VALUE_FLOAT)
        sqlite3_bind_double(s, i, v.f);
    else if (v.type == VALUE_TEXT)
        sqlite3_bind_text(s, i, v.n ? v.p : "", (int)v.n, SQLITE_TRANSIENT);
    else if (v.type == VALUE_BYTES)
        sqlite3_bind_blob(s, i, v.n ? v.p : "", (int)v.n, SQLITE_TRANSIENT);
    else
        sqlite3_bind_int64(s, i, v.i);
}

static void bind_slice(sqlite3_stmt *s, int i, struct slice text)
{
    bind(s, i, text.n ? value_text(text) : value_none());
}

static void bind_origin(sqlite3_stmt *s, const struct batch_origin *o, size_t i)
{
    char hex[33];
    for (int k = 0; k < 16; k++)
        (void)snprintf(hex + 2 * k, 3, "%02x", o->producer[k]);
    if (o->producer[0]) {
        bind_slice(s, 5, slice_of(hex, 32));
        bind(s, 6, value_uint(o->epoch));
    }
    if (o->first_seq)
        bind(s, 7, value_uint(o->first_seq + i));
    bind(s, 8, value_int(o->clock.offset_ns));
    if (o->clock.bound_ns != CLOCK_BOUND_UNKNOWN)
        bind(s, 9, value_uint(o->clock.bound_ns));
}

static void insert(struct known_event *e, const struct batch *b, size_t i)
{
    struct strbuf text = {0};
    sqlite3_stmt *s = NULL;
    const struct event *v = &b->events[i];
    strbuf_printf(&text, "INSERT INTO %s_rows VALUES(?,?,?,?,?,?,?,?,?", e->table);
    for (size_t c = 0; c < e->n_columns; c++)
        strbuf_add_str(&text, ",?,?");
    strbuf_add_str(&text, ")");
    assert_int_equal(sqlite3_prepare_v2(plain, text.p, -1, &s, NULL), SQLITE_OK);
    sqlite3_bind_int64(s, 1, v->time_ns);
    bind_slice(s, 2, v->host);
    bind_slice(s, 3, v->prog);
    bind_slice(s, 4, level_lower(v->level));
    bind_origin(s, &b->origin, i);
    for (uint32_t f = 0; f < v->schema->n_fields; f++) {
        struct known_column *c = column_of(e, &v->schema->fields[f]);
        int at = 10 + 2 * (int)(c - e->columns);
        struct value one = v->values[f];
        struct strbuf bytes = {0};
        char buf[VALUE_SPELLING_MAX];
        bind(s, at, one.type == VALUE_NUMBER ? value_number(one) : one);
        if (one.type == VALUE_BYTES)
            text_add_base64(&bytes, value_slice(one));
        if (one.type != VALUE_NONE)
            bind(s, at + 1, value_text(one.type == VALUE_BYTES ? strbuf_slice(&bytes) : value_spelling(&one, buf)));
        strbuf_fini(&bytes);
    }
    assert_int_equal(sqlite3_step(s), SQLITE_DONE);
    sqlite3_finalize(s);
    strbuf_fini(&text);
}

/* ---------------------------------------------------------------- rows */

static int64_t small_int(const struct known_column *c)
{
    static const int64_t odd[] = {INT64_MIN, INT64_MAX, INT64_C(1) << 53, (INT64_C(1) << 53) + 1,
                                  -(INT64_C(1) << 53) - 1};
    if (c->is_wild && one_in(8))
        return odd[below(5)];
    return (int64_t)below(40) - 20;
}

static struct value random_value(const struct known_column *c, char *room)
{
    static const char *const texts[] = {
        "", "a", "A", "b%", "node17", "5", "05", "5.0", "gr\xc3\xbc\xc3\x9f", "x'y"};
    static const char *const written[] = {"0.50", ".25", "-1.750", "5.", "+0.5", "nan"};
    switch (c->field.type) {
    case VALUE_INT:
        return value_int(small_int(c));
    case VALUE_UINT: {
        int64_t v = small_int(c);
        return value_uint(v < 0 ? (uint64_t)(-(v + 1)) : (uint64_t)v);
    }
    case VALUE_FLOAT:
        if (one_in(20))
            return value_float((double)NAN);
        if (c->is_wild && one_in(6))
            return value_float(below(2) ? (double)INFINITY : -1e300);
        return value_float((double)((int64_t)below(160) - 80) / 8 + 0.0);
    case VALUE_BOOL:
        return value_bool(below(2));
    case VALUE_TEXT:
        return value_text(slice_str(texts[below(sizeof texts / sizeof *texts)]));
    case VALUE_NUMBER: {
        struct slice text = slice_str(written[below(sizeof written / sizeof *written)]);
        return (struct value){.p = text.p, .n = (uint32_t)text.n, .type = VALUE_NUMBER};
    }
    default:
        for (size_t i = 0; i < 4; i++)
            room[i] = (char)below(3);
        return value_bytes(slice_of(room, below(4)));
    }
}

/* Keys have few values, or nearly every row would be a stream. */
static struct value random_key(const struct known_column *c, char *room)
{
    struct value v = random_value(c, room);
    if (c->field.type == VALUE_INT)
        return value_int((int64_t)below(3) - 1);
    if (c->field.type == VALUE_UINT)
        return value_uint(below(3));
    return c->field.type == VALUE_FLOAT ? value_float((double)below(2) / 2) : v;
}

static void add_event(struct known_event *e)
{
    static const char *const hosts[HOSTS] = {"", "a", "b", "node17"};
    const struct schema *s = e->versions[below(e->n_versions)];
    struct value values[FIELDS_MAX];
    char room[FIELDS_MAX][8];
    bool is_late = one_in(6);
    learn(e, s);
    const struct event_head head = {.time_ns =
                                        BASE + (int64_t)below(is_late ? 3000 : 200 + n_rows) * SECOND / 4,
                                    .host = slice_str(hosts[below(HOSTS)]),
                                    .prog = one_in(4) ? SLICE_LIT("") : SLICE_LIT("p"),
                                    .level = one_in(5) ? (uint8_t)below(LEVEL_COUNT) : LEVEL_INFO};
    for (uint32_t i = 0; i < s->n_fields; i++) {
        const struct known_column *c = column_of(e, &s->fields[i]);
        values[i] = s->fields[i].role == ROLE_KEY ? random_key(c, room[i]) : random_value(c, room[i]);
        bool is_second = false; /* an event has a name once */
        for (uint32_t k = 0; k < i; k++)
            is_second |= values[k].type && slice_eq(s->fields[k].name, s->fields[i].name);
        if (one_in(4) || is_second)
            values[i] = value_none();
    }
    assert_int_equal(batch_builder_add_known(t.builder, &head, s, values, NULL), 0);
}

static void append(struct batch *b, uint64_t record)
{
    assert_int_equal(archive_append(t.a, &t.source, record, b), 0);
    assert_int_equal(archive_done(t.a, &t.source, record), 0);
}

static void add_record(void)
{
    size_t n = 1 + below(one_in(8) ? 300 : 40);
    size_t producer = below(3);
    struct batch_origin o = {
        .clock = {.offset_ns = (int64_t)below(5), .bound_ns = one_in(2) ? CLOCK_BOUND_UNKNOWN : 7}};
    if (producer) {
        o.producer[0] = (uint8_t)producer;
        o.epoch = 1 + producer;
        o.first_seq = last_seq[producer] + 1;
        last_seq[producer] += n;
    }
    for (size_t i = 0; i < n; i++) {
        struct known_event *e = &events[below(EVENTS)];
        add_event(e);
    }
    struct batch *b = batch_builder_finish(t.builder, &o);
    assert_non_null(b);
    for (size_t i = 0; i < b->n; i++) {
        struct known_event *e = events;
        while (!slice_eq_str(b->events[i].schema->name, e->name))
            e++;
        declare(e);
        insert(e, b, i);
    }
    n_rows += n;
    records[n_records++] = b;
    append(b, n_records);
}

/* As after a crash: what was not flushed comes again from the source. */
static void reopen(void)
{
    run_close(&t);
    run_open(&t);
    for (uint64_t r = archive_cursor(t.a, &t.source) + 1; r <= n_records; r++)
        append(records[r - 1], r);
}

static void merge(const struct partition_span *span)
{
    struct merge *m = NULL;
    const struct merge_options o = {.is_closed = one_in(2)};
    assert_int_equal(merge_create(t.a, span, &o, &m), 0);
    for (int r = 1; r > 0;) {
        r = merge_step(m);
        assert_true(r >= 0);
    }
    n_merges += merge_counts(m).commits;
    merge_destroy(m);
}

/* Whole partitions go, as by retention: what is in memory of their time is flushed before. */
static void retain(const struct retain_file *f)
{
    char text[200];
    uint64_t rows = 0;
    assert_int_equal(retain_remove(t.a, f, &(struct retain_reason){GONE_AGE, 1}, &rows), 0);
    n_taken_away += rows;
    for (size_t i = 0; i < EVENTS; i++) {
        if (!events[i].is_made)
            continue;
        (void)snprintf(text, sizeof text, "DELETE FROM %s_rows WHERE time >= %lld AND time < %lld",
                       events[i].table, (long long)f->from_ns, (long long)(f->from_ns + t.partition_ns));
        exec(text);
    }
}

/* One partition is merged or taken away. */
static void keep_in_order(void)
{
    struct retain_files files = {NULL, 0, 0, 0};
    assert_int_equal(archive_flush(t.a), 0);
    assert_int_equal(retain_files_list(t.dir, &files), 0);
    if (files.n) {
        const struct retain_file *f = &files.files[below(files.n)];
        struct partition_span span = {.from_ns = f->from_ns, .to_ns = f->from_ns + t.partition_ns};
        if (one_in(4))
            retain(f);
        else
            merge(&span);
    }
    retain_files_fini(&files);
}

/* ---------------------------------------------------------------- queries */

static const char *const builtins[] = {"time", "host", "prog", "level"};

static bool is_star; /* of a table by *, which has no companions */

static const struct known_column *random_column(const struct known_event *e)
{
    return e->n_columns ? &e->fields[below(is_star ? e->n_visible : e->n_fields)] : NULL;
}

static void put_name(struct strbuf *q, const char *alias, const char *name)
{
    strbuf_printf(q, "%s.\"%s\"", alias, name);
}

static void put_any_column(struct strbuf *q, const struct known_event *e, const char *alias)
{
    const struct known_column *c = random_column(e);
    if (!c || one_in(3))
        put_name(q, alias, one_in(6) ? "seq" : builtins[below(4)]);
    else
        put_name(q, alias, c->name);
}

static void put_literal(struct strbuf *q, uint8_t type)
{
    static const char *const texts[] = {"''", "'a'", "'A'", "'5'", "'05'", "'node17'", "'b%'", "NULL"};
    static const char *const numbers[] = {"0",
                                          "-1",
                                          "5",
                                          "5.0",
                                          "2.5",
                                          "1e300",
                                          "9007199254740993",
                                          "-9e999",
                                          "NULL",
                                          "'5'",
                                          "9223372036854775807",
                                          "-9223372036854775808"};
    static const char *const blobs[] = {"x''", "x'00'", "x'0102'", "'a'"};
    if (one_in(25))
        type = (uint8_t)(1 + below(VALUE_BYTES)); /* types that do not go together */
    if (type == VALUE_TEXT)
        strbuf_add_str(q, texts[below(sizeof texts / sizeof *texts)]);
    else if (type == VALUE_BYTES)
        strbuf_add_str(q, blobs[below(sizeof blobs / sizeof *blobs)]);
    else if (one_in(4))
        strbuf_add_str(q, numbers[below(sizeof numbers / sizeof *numbers)]);
    else
        strbuf_printf(q, "%d", (int)below(40) - 20);
}

static void put_time(struct strbuf *q)
{
    strbuf_printf(q, "%lld", (long long)(BASE + (int64_t)below(3000) * SECOND / 4));
    if (one_in(6))
        strbuf_add_str(q, ".5");
}

static const char *random_operator(void)
{
    static const char *const operators[] = {"=", "<", ">", "<=", ">=", "<>", "IS", "IS NOT"};
    return operators[below(sizeof operators / sizeof *operators)];
}

static void put_list(struct strbuf *q, uint8_t type)
{
    strbuf_add_str(q, one_in(8) ? " NOT IN (" : " IN (");
    for (size_t i = 0, n = 1 + below(4); i < n; i++) {
        if (i)
            strbuf_add_str(q, ", ");
        put_literal(q, type);
    }
    strbuf_add_str(q, ")");
}

static void put_time_atom(struct strbuf *q, const char *alias)
{
    put_name(q, alias, "time");
    if (one_in(4)) {
        strbuf_add_str(q, " BETWEEN ");
        put_time(q);
        strbuf_add_str(q, " AND ");
    } else {
        strbuf_printf(q, " %s ", ((const char *[]){"<", ">", "<=", ">=", "="})[below(5)]);
    }
    put_time(q);
}

static void put_head_atom(struct strbuf *q, const char *alias)
{
    static const char *const levels[] = {"'info'", "'error'", "'Info'", "5"};
    const char *name = builtins[1 + below(3)];
    put_name(q, alias, name);
    if (strcmp(name, "level") == 0)
        strbuf_printf(q, " %s %s", random_operator(), levels[below(4)]);
    else if (one_in(3))
        put_list(q, VALUE_TEXT);
    else
        strbuf_printf(q, " %s '%s'", random_operator(),
                      ((const char *[]){"a", "b", "node17", "p"})[below(4)]);
}

static void put_field_atom(struct strbuf *q, const struct known_event *e, const char *alias)
{
    const struct known_column *c = random_column(e);
    put_name(q, alias, c->name);
    switch (below(8)) {
    case 0:
        strbuf_add_str(q, one_in(2) ? " IS NULL" : " IS NOT NULL");
        break;
    case 1:
        put_list(q, c->field.type);
        break;
    case 2:
        strbuf_add_str(q, " BETWEEN ");
        put_literal(q, c->field.type);
        strbuf_add_str(q, " AND ");
        put_literal(q, c->field.type);
        break;
    case 3:
        strbuf_add_str(q, one_in(2) ? " LIKE 'A%'" : " GLOB 'a*'");
        break;
    case 4:
        strbuf_printf(q, " %s ", random_operator());
        put_any_column(q, e, alias);
        break;
    case 5:
        if (c->field.type == VALUE_TEXT) {
            strbuf_add_str(q, " = 'A' COLLATE NOCASE");
            break;
        }
        /* fall through */
    default:
        strbuf_printf(q, " %s ", random_operator());
        put_literal(q, c->field.type);
        break;
    }
}

static void put_condition(struct strbuf *q, const struct known_event *e, const char *alias, unsigned depth)
{
    if (depth && one_in(2)) {
        strbuf_add_str(q, one_in(6) ? "NOT (" : "(");
        put_condition(q, e, alias, depth - 1);
        strbuf_add_str(q, one_in(3) ? " OR " : " AND ");
        put_condition(q, e, alias, depth - 1);
        strbuf_add_str(q, ")");
        return;
    }
    uint64_t which = below(4);
    if (which == 0)
        put_time_atom(q, alias);
    else if (which == 1 || e->n_columns == 0)
        put_head_atom(q, alias);
    else
        put_field_atom(q, e, alias);
}

static void put_where(struct strbuf *q, const struct known_event *e, const char *alias)
{
    if (one_in(6))
        return;
    strbuf_add_str(q, " WHERE ");
    put_condition(q, e, alias, 3);
}

static void put_aggregate(struct strbuf *q, const struct known_event *e, const char *alias)
{
    const struct known_column *c = random_column(e);
    static const char *const any[] = {"count", "min", "max", "count(DISTINCT"};
    bool is_sum = c && !c->is_wild && !value_is_text(c->field.type) && one_in(2);
    if (!c || one_in(4)) {
        strbuf_add_str(q, "count(*)");
        return;
    }
    const char *fn = is_sum ? (one_in(2) ? "sum" : "avg") : any[below(4)];
    strbuf_add_str(q, fn);
    strbuf_add_str(q, strchr(fn, '(') ? " " : "(");
    put_name(q, alias, c->name);
    strbuf_add_str(q, ")");
}

static void put_list_of_columns(struct strbuf *q, const struct known_event *e, const char *alias, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            strbuf_add_str(q, ", ");
        put_any_column(q, e, alias);
    }
}

static void put_projection(struct strbuf *q, const struct known_event *e)
{
    size_t n = 1 + below(5);
    strbuf_add_str(q, one_in(4) ? "SELECT DISTINCT " : "SELECT ");
    put_list_of_columns(q, e, "t", n);
    strbuf_printf(q, " FROM %s AS t", e->table);
    put_where(q, e, "t");
    if (one_in(3)) {
        strbuf_add_str(q, " ORDER BY ");
        for (size_t i = 1; i <= n; i++)
            strbuf_printf(q, "%s%zu%s", i > 1 ? ", " : "", i, one_in(3) ? " DESC" : "");
        strbuf_printf(q, " LIMIT %d", (int)below(30));
    }
}

static void put_groups(struct strbuf *q, const struct known_event *e)
{
    size_t n = below(3);
    struct strbuf groups = {0};
    put_list_of_columns(&groups, e, "t", n);
    strbuf_add_str(q, "SELECT ");
    if (n) {
        strbuf_add_slice(q, strbuf_slice(&groups));
        strbuf_add_str(q, ", ");
    }
    put_aggregate(q, e, "t");
    strbuf_add_str(q, ", ");
    put_aggregate(q, e, "t");
    strbuf_printf(q, " FROM %s AS t", e->table);
    put_where(q, e, "t");
    if (n) {
        strbuf_add_str(q, " GROUP BY ");
        strbuf_add_slice(q, strbuf_slice(&groups));
        if (one_in(4))
            strbuf_add_str(q, " HAVING count(*) > 1");
    }
    strbuf_fini(&groups);
}

/* Few rows on the left, or it would take long in plain SQLite. */
static void put_join(struct strbuf *q, const struct known_event *e, const struct known_event *f)
{
    is_star = true;
    strbuf_add_str(q, "SELECT count(*), ");
    put_aggregate(q, e, "l");
    strbuf_add_str(q, ", ");
    put_aggregate(q, f, "r");
    strbuf_printf(q, " FROM (SELECT * FROM %s AS s", e->table);
    put_where(q, e, "s");
    strbuf_printf(q, " ORDER BY time, host, seq, level LIMIT 20) AS l %sJOIN %s AS r ON ",
                  one_in(3) ? "LEFT " : "", f->table);
    switch (below(3)) {
    case 0:
        strbuf_add_str(q, "l.host = r.host AND l.level = r.level");
        break;
    case 1:
        strbuf_add_str(q, "l.time = r.time");
        break;
    default:
        strbuf_add_str(q, "r.time BETWEEN l.time - 2000000000 AND l.time AND l.host IS r.host");
        break;
    }
    if (f->n_columns && one_in(3) && e->n_columns) {
        strbuf_add_str(q, " AND ");
        put_name(q, "l", random_column(e)->name);
        strbuf_add_str(q, " = ");
        put_name(q, "r", random_column(f)->name);
    }
    is_star = false;
    put_where(q, f, "r");
}

static void put_subquery(struct strbuf *q, const struct known_event *e, const struct known_event *f)
{
    strbuf_add_str(q, "SELECT ");
    put_list_of_columns(q, e, "t", 2);
    strbuf_printf(q, " FROM %s AS t WHERE ", e->table);
    switch (below(3)) {
    case 0:
        put_any_column(q, e, "t");
        strbuf_add_str(q, " IN (SELECT ");
        put_any_column(q, f, "u");
        strbuf_printf(q, " FROM %s AS u", f->table);
        put_where(q, f, "u");
        strbuf_add_str(q, ")");
        break;
    case 1:
        strbuf_printf(q, "t.time = (SELECT max(u.time) FROM %s AS u", f->table);
        put_where(q, f, "u");
        strbuf_add_str(q, ")");
        break;
    default:
        strbuf_add_str(q, "t.time > 0 AND ");
        put_condition(q, e, "t", 1);
        strbuf_printf(q, " UNION ALL SELECT u.time, u.host FROM %s AS u", f->table);
        put_where(q, f, "u");
        break;
    }
}

static void put_window(struct strbuf *q, const struct known_event *e)
{
    strbuf_add_str(q, "SELECT t.host, t.time, count(*) OVER (PARTITION BY t.host ORDER BY t.time), ");
    put_aggregate(q, e, "t");
    strbuf_printf(q, " FILTER (WHERE t.level = 'info') OVER (PARTITION BY t.host, t.prog) FROM %s AS t",
                  e->table);
    put_where(q, e, "t");
}

static bool is_distinct_window(const char *text)
{
    return strstr(text, " OVER ") && strstr(text, "count(DISTINCT");
}

/* ---------------------------------------------------------------- answers */

static struct sql_value plain_value(sqlite3_stmt *s, int i)
{
    switch (sqlite3_column_type(s, i)) {
    case SQLITE_INTEGER:
        return (struct sql_value){.kind = SQL_INT, .i = sqlite3_column_int64(s, i)};
    case SQLITE_FLOAT:
        return (struct sql_value){.kind = SQL_FLOAT, .f = sqlite3_column_double(s, i)};
    case SQLITE_TEXT: {
        const char *p = (const char *)sqlite3_column_text(s, i);
        return (struct sql_value){.kind = SQL_TEXT, .text = slice_of(p, (size_t)sqlite3_column_bytes(s, i))};
    }
    case SQLITE_BLOB: {
        const char *p = sqlite3_column_blob(s, i);
        return (struct sql_value){.kind = SQL_BYTES,
                                  .text = slice_of(p ? p : "", (size_t)sqlite3_column_bytes(s, i))};
    }
    default:
        return (struct sql_value){.kind = SQL_NULL};
    }
}

struct lines {
    char **lines;
    size_t n, max;
};

static void add_line(struct lines *l, const struct strbuf *line)
{
    if (l->n == l->max) {
        l->max = l->max ? 2 * l->max : 64;
        l->lines = mem_try_resize(l->lines, l->max * sizeof(char *));
        assert_non_null(l->lines);
    }
    l->lines[l->n] = strndup(line->n ? line->p : "", line->n);
    assert_non_null(l->lines[l->n++]);
}

static void fini_lines(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->lines[i]);
    mem_free(l->lines);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_lines(struct lines *l)
{
    if (l->n)
        qsort(l->lines, l->n, sizeof(char *), compare_lines);
}

static void print_cell(struct strbuf *line, struct sql_value v)
{
    static const char kinds[] = "nift"
                                "b";
    strbuf_add_char(line, kinds[v.kind]);
    run_print(line, v);
    strbuf_add_char(line, '|');
}

/* false: it is no query that SQLite takes. */
static bool ask_plain(const char *text, struct lines *out)
{
    sqlite3_stmt *s = NULL;
    struct strbuf line = {0};
    int r = sqlite3_prepare_v2(plain, text, -1, &s, NULL);
    if (r != SQLITE_OK)
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, text, sqlite3_errmsg(plain));
    while ((r = sqlite3_step(s)) == SQLITE_ROW) {
        strbuf_reset(&line);
        for (int i = 0; i < sqlite3_column_count(s); i++)
            print_cell(&line, plain_value(s, i));
        add_line(out, &line);
    }
    sqlite3_finalize(s);
    strbuf_fini(&line);
    return r == SQLITE_DONE;
}

static bool ask_ours(const char *text, struct lines *out)
{
    struct sql_statement *s = NULL;
    struct strbuf line = {0};
    struct diag why = {0};
    struct sql_query q = {.text = slice_str(text)};
    int r = sql_prepare(t.engine, &q, &s, &why);
    if (r < 0)
        fail_msg("%s: %s", text, why.message);
    while ((r = sql_step(s, &why)) > 0) {
        strbuf_reset(&line);
        for (size_t i = 0; i < sql_columns(s); i++)
            print_cell(&line, sql_value(s, i));
        add_line(out, &line);
    }
    assert_int_equal(sql_damaged(s).chunks + sql_damaged(s).blobs, 0);
    sql_finish(s);
    strbuf_fini(&line);
    return r == 0;
}

static void compare(const char *text, uint64_t at)
{
    struct lines want = {NULL, 0, 0}, got = {NULL, 0, 0};
    bool is_query = ask_plain(text, &want), is_ours = ask_ours(text, &got);
    sort_lines(&want);
    sort_lines(&got);
    if (is_query != is_ours || want.n != got.n)
        fail_msg("seed %llu: %zu rows (%d), not %zu (%d): %s", (unsigned long long)at, got.n, is_ours, want.n,
                 is_query, text);
    for (size_t i = 0; i < want.n; i++)
        if (strcmp(want.lines[i], got.lines[i]) != 0)
            fail_msg("seed %llu: %s, not %s: %s", (unsigned long long)at, got.lines[i], want.lines[i], text);
    fini_lines(&want);
    fini_lines(&got);
}

static struct known_event *random_event(void)
{
    for (;;) {
        struct known_event *e = &events[below(EVENTS)];
        if (e->is_made)
            return e;
    }
}

static void check_query(void)
{
    struct strbuf q = {0};
    uint64_t at = seed;
    const struct known_event *e = random_event(), *f = random_event();
    switch (below(8)) {
    case 0:
    case 1:
    case 2:
        put_projection(&q, e);
        break;
    case 3:
    case 4:
        put_groups(&q, e);
        break;
    case 5:
        put_join(&q, e, f);
        break;
    case 6:
        put_subquery(&q, e, f);
        break;
    default:
        put_window(&q, e);
        break;
    }
    if (!is_distinct_window(q.p))
        compare(q.p, at);
    strbuf_fini(&q);
}

/* Streams go by keys with their types: 1 and "1" are two, of one text; and a value of that name is no key. */
static bool has_keys_of_two_types(const struct known_event *e)
{
    for (size_t i = 0; i < e->n_columns; i++)
        for (size_t k = 0; k < i; k++)
            if ((e->columns[i].field.role == ROLE_KEY || e->columns[k].field.role == ROLE_KEY) &&
                slice_eq(e->columns[i].field.name, e->columns[k].field.name))
                return true;
    return false;
}

/* The newest row of each stream; which one of several of the same time is not said. */
static void check_latest(const struct known_event *e)
{
    struct strbuf ours = {0}, theirs = {0};
    struct lines want = {NULL, 0, 0}, got = {NULL, 0, 0};
    strbuf_add_str(&ours, "SELECT host, prog");
    for (size_t i = 0; i < e->n_visible; i++)
        if (e->fields[i].field.role == ROLE_KEY)
            strbuf_printf(&ours, ", \"%s\"", e->fields[i].name);
    strbuf_add_slice(&theirs, strbuf_slice(&ours));
    strbuf_printf(&ours, ", time FROM %s_latest", e->table);
    strbuf_printf(&theirs, ", max(time) FROM %s GROUP BY host, prog", e->table);
    for (size_t i = 0; i < e->n_visible; i++)
        if (e->fields[i].field.role == ROLE_KEY)
            strbuf_printf(&theirs, ", \"%s\"", e->fields[i].name);
    assert_true(ask_plain(theirs.p, &want) && ask_ours(ours.p, &got));
    sort_lines(&want);
    sort_lines(&got);
    assert_int_equal(want.n, got.n);
    for (size_t i = 0; i < want.n; i++)
        assert_string_equal(want.lines[i], got.lines[i]);
    fini_lines(&want);
    fini_lines(&got);
    strbuf_fini(&ours);
    strbuf_fini(&theirs);
}

/* SELECT * has the columns that the rule says, in their order. */
static void check_columns(const struct known_event *e)
{
    char text[64];
    struct sql_statement *s = NULL;
    struct diag why = {0};
    (void)snprintf(text, sizeof text, "SELECT * FROM %s", e->table);
    struct sql_query q = {.text = slice_str(text)};
    assert_int_equal(sql_prepare(t.engine, &q, &s, &why), 0);
    assert_int_equal(sql_columns(s), 4 + e->n_visible);
    for (size_t i = 0; i < e->n_visible; i++)
        assert_string_equal(sql_column_name(s, 4 + i), e->fields[i].name);
    sql_finish(s);
}

/* ---------------------------------------------------------------- the test */

static void begin(void)
{
    static const char *const names[EVENTS][2] = {
        {"cpu", "cpu"}, {"job.State", "job_state"}, {"9lives", "_9lives"}};
    run_init(&t);
    assert_int_equal(sqlite3_open(":memory:", &plain), SQLITE_OK);
    n_records = n_rows = 0;
    for (size_t i = 0; i < EVENTS; i++) {
        struct known_event planned = {.name = names[i][0], .table = names[i][1]};
        for (size_t v = 0; v < VERSIONS; v++) {
            make_version(&planned);
            for (size_t k = 0; k < planned.n_versions; k++)
                learn(&planned, planned.versions[k]);
        }
        /* Columns are known when events have them. */
        events[i] = planned;
        events[i].n_columns = 0;
        memset(events[i].columns, 0, sizeof events[i].columns);
    }
}

static void end(void)
{
    for (size_t i = 0; i < n_records; i++)
        batch_unref(records[i]);
    for (size_t i = 0; i < EVENTS; i++)
        for (size_t v = 0; v < events[i].n_versions; v++)
            schema_unref(events[i].versions[v]);
    sqlite3_close(plain);
    run_fini(&t);
}

static void one_archive(uint64_t from, unsigned rounds, unsigned queries)
{
    seed = from;
    begin();
    for (unsigned i = 0; i < rounds; i++) {
        for (size_t k = 0, n = 1 + below(6); k < n && n_records < RECORDS_MAX; k++)
            add_record();
        if (one_in(3))
            assert_int_equal(archive_flush(t.a), 0);
        if (one_in(4))
            keep_in_order();
        if (one_in(5))
            reopen();
        for (size_t k = 0; k < EVENTS; k++)
            if (events[k].is_made)
                make_table(&events[k]);
        for (unsigned k = 0; k < queries; k++)
            check_query();
        const struct known_event *e = random_event();
        if (!e->is_mixed && !has_keys_of_two_types(e))
            check_latest(e);
        check_columns(e);
    }
    end();
}

static void same_as_plain_tables(void **state)
{
    const char *given = getenv("GRIDLINE_TEST_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    (void)state;
    for (unsigned i = 0; i < 4 * test_scale(); i++) {
        print_message("archive of seed %llu\n", (unsigned long long)(first + i));
        one_archive(first + i, 10, 30);
    }
    print_message("%llu merges, %llu rows taken away\n", (unsigned long long)n_merges,
                  (unsigned long long)n_taken_away);
    assert_true(n_merges > 0 && n_taken_away > 0); /* else half of this tests nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_plain_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
