/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/tile_internal.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>

/* A tile is final when no row of it is in memory, and there are rows an hour later: what takes its usual time
 * has come. Later ones (a spool that was away for a day, an import) come to it none the less. */
enum { LATE_S = 3600 };

/* ---------------------------------------------------------------- who may see what */

bool tile_may_table(const struct tile_job *j, struct slice event)
{
    return !j->access || !j->access->may_table || j->access->may_table(j->access->arg, event);
}

static bool may_stream(const struct tile_job *j, struct slice event, struct slice host)
{
    return !j->access || !j->access->may_stream || j->access->may_stream(j->access->arg, event, host);
}

bool tile_may_field(const struct tile_job *j, struct slice event, struct slice host, struct slice field)
{
    return !j->access || !j->access->may_field || j->access->may_field(j->access->arg, event, host, field);
}

bool tile_may_everywhere(const struct tile_job *j, struct slice event)
{
    return tile_may_table(j, event) && may_stream(j, event, SLICE_LIT("*"));
}

/* ---------------------------------------------------------------- scanning */

/* Has the key this field with this value, as text? */
static bool key_has(struct slice fields, struct slice name, struct slice text)
{
    struct slice field;
    struct value v;
    struct strbuf is = {0};
    bool found = false;
    while (!found && stream_key_next(&fields, &field, &v)) {
        if (!slice_eq(field, name))
            continue;
        strbuf_reset(&is);
        id_put_value(&is, v);
        found = slice_eq(strbuf_slice(&is), text);
    }
    strbuf_fini(&is);
    return found;
}

static bool matches_key(struct slice wanted, const struct stream_key_parts *parts)
{
    while (wanted.n) {
        const char *comma = memchr(wanted.p, ',', wanted.n);
        struct slice one = comma ? slice_of(wanted.p, (size_t)(comma - wanted.p)) : wanted;
        const char *is = one.n ? memchr(one.p, '=', one.n) : NULL;
        size_t name = is ? (size_t)(is - one.p) : one.n;
        if (!key_has(parts->fields, slice_of(one.p, name), slice_from(one, name + 1)))
            return false;
        wanted = slice_from(wanted, one.n + (comma != NULL));
    }
    return true;
}

bool tile_wants(const struct tile_job *j, struct slice event, const struct stream_key_parts *parts)
{
    return (j->q.host.n == 0 || text_glob(j->q.host, parts->host)) && matches_key(j->q.key, parts) &&
           may_stream(j, event, parts->host);
}

/* An id is the text of a value, and a filter is of texts: it can only tell where that is the same. */
uint16_t tile_id_column(const struct tile_job *j, const struct table_def *table, const struct id_set *ids)
{
    const struct id_declared *d = &ids->declared[0];
    uint16_t found = UINT16_MAX;
    if (j->q.id.n == 0 || d->n_fields > 1)
        return UINT16_MAX;
    for (uint32_t i = 0; i < table->n_columns; i++) {
        if (!slice_eq(table->columns[i].name, d->fields[0]))
            continue;
        if (table->columns[i].type != VALUE_TEXT || found != UINT16_MAX)
            return UINT16_MAX;
        found = (uint16_t)i;
    }
    return found;
}

struct wants {
    const struct tile_job *j;
    const struct tile_scan *s;
};

static bool wants(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct wants *w = arg;
    (void)key;
    if (w->s->of_derived) /* and not somebody's event of the same name */
        return key_has(parts->fields, SLICE_LIT("derived"), SLICE_LIT("true"));
    return tile_wants(w->j, w->s->table->name, parts);
}

int tile_go_on(const struct tile_job *j)
{
    if (j->is_cancelled && *j->is_cancelled)
        return -ECANCELED;
    if (j->until_ns && clock_mono_ns() > j->until_ns)
        return diag_set(j->why, -ETIMEDOUT, 0, "the tile took too long");
    return 0;
}

static int take_counts(void *arg, struct counts_reader *counts, uint64_t *done)
{
    const struct wants *w = arg;
    int r = tile_go_on(w->j);
    return r < 0 ? r : w->s->take_counts(w->s->arg, counts, done);
}

int tile_scan(struct tile_job *j, const struct tile_scan *s)
{
    struct wants w = {j, s};
    struct scan_spec spec = {.name = s->table->name,
                             .from_ns = s->from_ns,
                             .to_ns = s->last_ns,
                             .heads_only = j->heads_only,
                             .wants = wants,
                             .take_counts = s->take_counts ? take_counts : NULL,
                             .arg = &w,
                             .id_column = s->id_column,
                             .id = j->q.id};
    struct scan *scan;
    struct scan_chunk c;
    int r = scan_open(j->v, &spec, &scan);
    if (r < 0)
        return r;
    while ((r = scan_next(scan, &c)) > 0) {
        j->has_head |= c.is_head && c.chunk->max_ns >= j->q.from_ns;
        r = tile_go_on(j);
        if (r == 0)
            r = s->fn(s->arg, scan, &c);
        if (r < 0 && r != E_DAMAGE) /* that was counted */
            break;
    }
    struct scan_loss loss = scan_damaged(scan);
    j->w.head.lost += loss.rows + loss.chunks + loss.blobs; /* at least so many */
    scan_close(scan);
    return r == E_DAMAGE ? 0 : r;
}

int tile_estimate_chunk(void *arg, struct scan *s, const struct scan_chunk *c)
{
    struct tile_estimate *e = arg;
    (void)s;
    int64_t from = c->chunk->min_ns > e->from_ns ? c->chunk->min_ns : e->from_ns;
    int64_t last = c->chunk->max_ns < e->last_ns ? c->chunk->max_ns : e->last_ns;
    double all = (double)c->chunk->max_ns - (double)c->chunk->min_ns + 1;
    if (last >= from)
        e->rows += (uint64_t)((double)c->chunk->n_rows * ((double)last - (double)from + 1) / all) + 1;
    return e->rows > e->max ? E_LIMIT : 0;
}

void tile_stream_name(struct strbuf *out, struct slice key)
{
    struct stream_key_parts parts = stream_key_split(key);
    strbuf_add_slice(out, parts.host);
    strbuf_add_char(out, ' ');
    strbuf_add_slice(out, parts.prog);
    strbuf_add_char(out, ' ');
    strbuf_add_slice(out, parts.name);
    struct slice field;
    struct value v;
    for (char before = ' '; stream_key_next(&parts.fields, &field, &v); before = ',') {
        strbuf_add_char(out, before);
        strbuf_add_slice(out, field);
        strbuf_add_char(out, '=');
        id_put_value(out, v);
    }
}

/* ---------------------------------------------------------------- where */

int tile_filter_init(struct tile_filter *f, struct tile_job *j, const struct table_def *table)
{
    *f = (struct tile_filter){.j = j};
    if (!j->where)
        return 0;
    if (table->n_columns > EVENT_FIELDS_MAX)
        return diag_set(j->why, E_LIMIT, 0, "'%.*s' has more than %d fields: where can't be asked of it",
                        SLICE_ARG(table->name), EVENT_FIELDS_MAX);
    int r = schema_create(table->name, table->columns, table->n_columns, &f->schema);
    if (r < 0)
        return r;
    f->values = mem_try_alloc((table->n_columns + 1) * sizeof *f->values);
    f->is_hidden = mem_try_alloc(table->n_columns + 1);
    return f->values && f->is_hidden ? 0 : -ENOMEM;
}

void tile_filter_fini(struct tile_filter *f)
{
    schema_unref(f->schema);
    mem_free(f->values);
    mem_free(f->is_hidden);
}

/* Key fields, and what is hidden from the asker: a condition must not tell it. */
void tile_filter_stream(struct tile_filter *f, struct slice key)
{
    if (!f->schema)
        return;
    struct stream_key_parts parts = stream_key_split(key);
    f->host = parts.host;
    for (uint32_t i = 0; i < f->schema->n_fields; i++) {
        f->values[i] = value_none();
        f->is_hidden[i] = !tile_may_field(f->j, f->schema->name, parts.host, f->schema->fields[i].name);
    }
    struct slice field;
    struct value v;
    while (stream_key_next(&parts.fields, &field, &v)) {
        int i = schema_find(f->schema, field, v.type);
        if (i >= 0 && !f->is_hidden[i])
            f->values[i] = v;
    }
}

bool tile_filter_passes(struct tile_filter *f, struct slice key, const struct rows *rows, uint32_t row)
{
    if (!f->schema)
        return true;
    for (uint32_t i = 0; i < rows->n_columns; i++)
        if (rows->columns[i].id < f->schema->n_fields && !f->is_hidden[rows->columns[i].id])
            f->values[rows->columns[i].id] = column_value(&rows->columns[i], row);
    struct stream_key_parts parts = stream_key_split(key);
    struct event e = {.time_ns = rows->time_ns[row],
                      .host = parts.host,
                      .prog = parts.prog,
                      .schema = f->schema,
                      .values = f->values,
                      .level = rows->level[row]};
    return predicate_test(f->j->where, &e);
}

/* ---------------------------------------------------------------- the answer */

/* Has the archive rows that are so much later than the tile that all of it must have come? */
static bool is_passed(const struct tile_job *j)
{
    struct scan_spec spec = {.to_ns = INT64_MAX, .id_column = UINT16_MAX};
    bool found = false;
    if (__builtin_add_overflow(j->q.last_ns, LATE_S * NS_PER_S, &spec.from_ns))
        return false;
    for (size_t i = 0; !found && i < view_tables(j->v); i++) {
        struct scan *s;
        struct scan_chunk c;
        spec.name = view_table_at(j->v, i)->name;
        if (scan_open(j->v, &spec, &s) < 0)
            continue;
        found = scan_next(s, &c) > 0;
        scan_close(s);
    }
    return found;
}

static int make(struct tile_job *j)
{
    static int (*const makers[])(struct tile_job *) = {[ASK_SERIES] = tile_series,
                                                       [ASK_POINTS] = tile_points,
                                                       [ASK_LIFELINE] = tile_lifeline,
                                                       [ASK_LIFELINE_EXACT] = tile_lifeline,
                                                       [ASK_LIFELINE_DENSITY] = tile_lifeline,
                                                       [ASK_EDGES] = tile_edges};
    int r = 0;
    if (j->q.where.n)
        r = predicate_compile(j->q.where, clock_utc_ns(), &j->where, j->why);
    if (r == 0)
        r = makers[j->q.ask](j);
    return r;
}

/* The tile, or its text, behind the head of the answer. */
static int put_answer(struct tile_job *j, bool is_final, struct strbuf *out)
{
    size_t from = out->n;
    char head[QUERY_TILE_HEAD] = {(char)is_final, (char)j->q.as};
    strbuf_add(out, head, sizeof head);
    struct strbuf bytes = {0};
    bool is_text = j->q.as != TILE_AS_GLT1;
    int r = tile_finish(&j->w, is_text ? &bytes : out);
    struct tile t;
    if (r == 0 && is_text)
        r = tile_read(strbuf_slice(&bytes), &t);
    if (r == 0 && is_text)
        (j->q.as == TILE_AS_JSON ? tile_print_json : tile_print_csv)(&t, out);
    strbuf_fini(&bytes);
    if (r < 0 || strbuf_failed(out))
        return r < 0 ? r : -ENOMEM;
    uint64_t hash = htole64(hash_bytes(slice_of(out->p + from + sizeof head, out->n - from - sizeof head)));
    memcpy(out->p + from + 8, &hash, sizeof hash);
    return 0;
}

static int answer(struct tile_job *j, struct slice request, struct strbuf *out)
{
    int r = tile_request_parse(request, &j->q, j->why);
    if (r < 0)
        return r;
    j->w.head = (struct tile_head){.level = (uint16_t)j->q.level,
                                   .index = j->q.index,
                                   .base_ns = j->q.from_ns,
                                   .span_ns = UINT64_C(1) << (2 * j->q.level + 8)};
    r = make(j);
    if (r == 0) {
        bool is_final = !j->has_head && is_passed(j);
        j->w.head.flags |= is_final ? 0 : TILE_OPEN;
        r = put_answer(j, is_final, out);
    }
    predicate_destroy(j->where);
    tile_writer_fini(&j->w);
    arena_fini(&j->arena);
    return r;
}

int tile_answer(struct view *v, const struct sql_access *access, struct slice request, struct strbuf *out,
                struct diag *why)
{
    struct tile_job j = {.v = v, .access = access, .why = why};
    return answer(&j, request, out);
}

int tile_query(void *arg, struct view_reader *reader, const struct query_tile *t, struct strbuf *out,
               struct diag *why)
{
    (void)arg;
    struct tile_job j = {
        .access = t->access, .is_cancelled = t->is_cancelled, .until_ns = t->until_ns, .why = why};
    int r = view_take(reader, &j.v);
    if (r < 0)
        return r;
    r = answer(&j, t->text, out);
    view_release(j.v);
    return r;
}
