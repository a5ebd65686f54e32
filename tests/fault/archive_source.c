/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/archive_source.h"

#include "unit/test.h"

#include "base/mem.h"

#include <stdio.h>

enum { ROWS_MAX = 24 };

#define FIELD(z, t, r, k)                                                                            \
    {                                                                                                \
        .name = {z, sizeof z - 1}, .unit = {"", 0}, .help = {"", 0}, .type = t, .role = r, .kind = k \
    }

static const struct field disk_fields[] = {
    FIELD("device", VALUE_TEXT, ROLE_KEY, KIND_TEXT),   FIELD("record", VALUE_UINT, ROLE_VALUE, KIND_GAUGE),
    FIELD("row", VALUE_UINT, ROLE_VALUE, KIND_GAUGE),   FIELD("reads", VALUE_INT, ROLE_VALUE, KIND_COUNTER),
    FIELD("busy", VALUE_FLOAT, ROLE_VALUE, KIND_GAUGE), FIELD("is_on", VALUE_BOOL, ROLE_VALUE, KIND_STATE),
    FIELD("note", VALUE_TEXT, ROLE_VALUE, KIND_TEXT),
};
static const struct field job_fields[] = {
    FIELD("record", VALUE_UINT, ROLE_VALUE, KIND_GAUGE), FIELD("row", VALUE_UINT, ROLE_VALUE, KIND_GAUGE),
    FIELD("id", VALUE_TEXT, ROLE_VALUE, KIND_TEXT),      FIELD("state", VALUE_TEXT, ROLE_VALUE, KIND_STATE),
    FIELD("code", VALUE_INT, ROLE_VALUE, KIND_GAUGE), /* from the middle on */
};
enum { DISK_FIELDS = 7, JOB_FIELDS = 5 };

struct maker {
    struct source *s;
    struct batch_builder *builder;
    struct schema *disk, *job_old, *job;
    uint64_t seed;
    uint32_t row; /* in the record */
};

static uint64_t below(struct maker *m, uint64_t n)
{
    return test_random(&m->seed) % n;
}

static void add_disk(struct maker *m, uint64_t record, const struct event_head *head)
{
    char device[16], note[80];
    int device_n = snprintf(device, sizeof device, "sd%c", (char)('a' + below(m, 3)));
    int note_n = snprintf(note, sizeof note, "note %llu of %.*s", (unsigned long long)below(m, 1000000),
                          (int)below(m, 30), "................................");
    const double odd[] = {0.1 * (double)below(m, 1000), NAN, INFINITY, -0.0,
                          1e300 / (double)(1 + below(m, 99))};
    struct value v[DISK_FIELDS] = {value_text(slice_of(device, (size_t)device_n)), value_uint(record),
                                   value_uint(m->row++)};
    v[3] = value_int((int64_t)(record * 1000 + below(m, 1000)));
    if (below(m, 8))
        v[4] = value_float(odd[below(m, 20) < 16 ? 0 : 1 + below(m, 4)]);
    if (below(m, 2))
        v[5] = value_bool(below(m, 2));
    if (below(m, 4) == 0)
        v[6] = value_text(slice_of(note, (size_t)note_n));
    assert_int_equal(batch_builder_add_known(m->builder, head, m->disk, v, NULL), 0);
}

static void add_job(struct maker *m, uint64_t record, const struct event_head *head)
{
    static const char *const states[] = {"queued", "running", "done", "failed", ""};
    char id[40];
    int n = snprintf(id, sizeof id, "job-%llx", (unsigned long long)test_random(&m->seed));
    bool is_new = record > m->s->n / 2;
    struct value v[JOB_FIELDS] = {value_uint(record), value_uint(m->row++),
                                  value_text(slice_of(id, (size_t)n)),
                                  value_text(slice_str(states[below(m, 5)]))};
    if (is_new && below(m, 3))
        v[4] = value_int(-(int64_t)below(m, 256));
    assert_int_equal(batch_builder_add_known(m->builder, head, is_new ? m->job : m->job_old, v, NULL), 0);
}

static struct batch *make_batch(struct maker *m, uint64_t record, size_t number)
{
    static const char *const hosts[] = {"node1", "node2", "node3"};
    size_t n = 1 + below(m, ROWS_MAX / SOURCE_BATCHES_MAX);
    bool is_late = below(m, 6) == 0; /* up to a minute and a half */
    for (size_t i = 0; i < n; i++) {
        int64_t late = is_late ? (int64_t)below(m, 90) * 1000000000 : 0;
        struct event_head head = {.time_ns = SOURCE_BEGIN + (int64_t)record * SOURCE_STEP +
                                             (int64_t)below(m, 1000000) * 1000 - late,
                                  .host = slice_str(hosts[number]),
                                  .prog = number ? SLICE_LIT("agent") : SLICE_LIT(""),
                                  .level = (uint8_t)below(m, 4) ? LEVEL_INFO : LEVEL_ERROR};
        if (number < 2)
            add_disk(m, record, &head);
        else
            add_job(m, record, &head);
    }
    struct batch_origin origin = {.epoch = 1 + record / 20,
                                  .first_seq = number == 2 ? 0 : 1 + record * ROWS_MAX,
                                  .clock = {.offset_ns = (int64_t)number * 1000,
                                            .bound_ns = number ? 500 : CLOCK_BOUND_UNKNOWN,
                                            .generation = 1}};
    memset(origin.producer, 'a' + (int)number, sizeof origin.producer);
    struct batch *b = batch_builder_finish(m->builder, &origin);
    assert_non_null(b);
    return b;
}

void source_make(struct source *s, uint64_t n, uint64_t seed)
{
    *s = (struct source){.n = n, .records = mem_alloc((n + 1) * sizeof *s->records)};
    memcpy(s->id.id, "fault test source", sizeof s->id.id);
    struct registry *registry = registry_create();
    struct maker m = {.s = s, .builder = batch_builder_create(registry, 0), .seed = seed};
    assert_non_null(m.builder);
    assert_int_equal(schema_create(SLICE_LIT("disk"), disk_fields, DISK_FIELDS, &m.disk), 0);
    assert_int_equal(schema_create(SLICE_LIT("job.state"), job_fields, JOB_FIELDS - 1, &m.job_old), 0);
    assert_int_equal(schema_create(SLICE_LIT("job.state"), job_fields, JOB_FIELDS, &m.job), 0);
    for (uint64_t r = 1; r <= n; r++) {
        struct source_record *record = &s->records[r];
        m.row = 0;
        record->n_batches = 1 + below(&m, SOURCE_BATCHES_MAX);
        record->first_row = s->rows;
        for (size_t b = 0; b < record->n_batches; b++)
            record->batches[b] = make_batch(&m, r, (r + b) % SOURCE_BATCHES_MAX);
        record->n_rows = m.row;
        s->rows += m.row;
    }
    schema_unref(m.disk);
    schema_unref(m.job_old);
    schema_unref(m.job);
    batch_builder_destroy(m.builder);
    registry_destroy(registry);
}

void source_fini(struct source *s)
{
    for (uint64_t r = 1; r <= s->n; r++)
        for (size_t b = 0; b < s->records[r].n_batches; b++)
            batch_unref(s->records[r].batches[b]);
    mem_free(s->records);
    *s = (struct source){0};
}

int source_feed(const struct source *s, struct archive *a, struct source_place *at, uint64_t to)
{
    while (at->record <= to) {
        const struct source_record *record = &s->records[at->record];
        for (; at->batch < record->n_batches; at->batch++) {
            int r = archive_append(a, &s->id, at->record, record->batches[at->batch]);
            if (r < 0)
                return r;
        }
        int r = archive_done(a, &s->id, at->record);
        if (r < 0)
            return r;
        *at = (struct source_place){.record = at->record + 1};
    }
    return 0;
}

struct source_place source_resume(const struct source *s, const struct archive *a)
{
    return (struct source_place){.record = archive_cursor(a, &s->id) + 1};
}

/* ---------------------------------------------------------------- comparing */

/* The event that the fields `record` and `row` say it is; NULL: there is none. */
static const struct event *event_of(const struct source *s, uint64_t record, uint64_t row,
                                    const struct batch **batch, uint64_t *seq)
{
    if (record == 0 || record > s->n || row >= s->records[record].n_rows)
        return NULL;
    for (size_t b = 0; b < s->records[record].n_batches; b++) {
        *batch = s->records[record].batches[b];
        if (row < (*batch)->n) {
            uint64_t first = (*batch)->origin.first_seq;
            *seq = first ? first + row : 0;
            return &(*batch)->events[row];
        }
        row -= (*batch)->n;
    }
    return NULL;
}

/* The row's value of the column that the table calls so; VALUE_NONE: it has none. */
static struct value value_of(const struct table_def *table, const struct rows *rows, uint32_t row,
                             struct slice name, uint8_t type)
{
    for (uint32_t i = 0; i < rows->n_columns; i++) {
        const struct field *f = &table->columns[rows->columns[i].id];
        if (slice_eq(f->name, name) && f->type == type)
            return column_value(&rows->columns[i], row);
    }
    return value_none();
}

static uint32_t count_values(const struct rows *rows, uint32_t row)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows->n_columns; i++)
        n += column_has(&rows->columns[i], row);
    return n;
}

/* What of the row is not as in the event; NULL: all of it is. */
static const char *differs(const struct table_def *table, struct slice key, const struct rows *rows,
                           uint32_t row, const struct event *e, const struct batch *b, uint64_t seq)
{
    struct strbuf want = {0};
    stream_key_put(&want, e);
    bool is_same = slice_eq(strbuf_slice(&want), key);
    strbuf_fini(&want);
    if (!is_same)
        return "stream";
    if (rows->time_ns[row] != e->time_ns)
        return "time";
    if (rows->level[row] != e->level)
        return "level";
    if (rows->seq[row] != seq)
        return "seq";
    const struct row_origin *o = &rows->origins[rows->origin[row]];
    if (memcmp(o->producer, b->origin.producer, 16) != 0 || o->epoch != b->origin.epoch)
        return "producer";
    if (o->clock.offset_ns != b->origin.clock.offset_ns || o->clock.bound_ns != b->origin.clock.bound_ns ||
        o->clock.generation != b->origin.clock.generation)
        return "clock";
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        const struct field *f = &e->schema->fields[i];
        if (f->role == ROLE_KEY)
            continue;
        n += e->values[i].type != VALUE_NONE;
        if (!value_eq(value_of(table, rows, row, f->name, f->type), e->values[i]))
            return "value";
    }
    return count_values(rows, row) == n ? NULL : "a value too many";
}

static void compare_row(const struct source *s, struct source_found *f, const struct table_def *table,
                        struct slice key, const struct rows *rows, uint32_t row)
{
    struct value record = value_of(table, rows, row, SLICE_LIT("record"), VALUE_UINT);
    struct value number = value_of(table, rows, row, SLICE_LIT("row"), VALUE_UINT);
    const struct batch *b = NULL;
    uint64_t seq = 0;
    const struct event *e = event_of(s, record.u, number.u, &b, &seq);
    const char *what = e ? differs(table, key, rows, row, e, b, seq) : "no such row";
    uint8_t *times = what ? NULL : &f->times[s->records[record.u].first_row + number.u];
    if (!what && *times)
        what = "twice";
    if (what && f->first[0] == '\0')
        (void)snprintf(f->first, sizeof f->first, "record %llu, row %llu of %.*s: %s",
                       (unsigned long long)record.u, (unsigned long long)number.u, SLICE_ARG(table->name),
                       what);
    if (times && *times < UINT8_MAX)
        *times += 1;
    f->rows += times && *times == 1;
    f->twice += times && *times > 1;
    f->wrong += !times;
}

static int find_in_table(const struct source *s, struct view *v, struct slice name, struct source_found *f)
{
    struct scan_spec spec = {.name = name, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .id_column = UINT16_MAX};
    struct scan_chunk chunk;
    struct scan *scan;
    struct rows rows;
    int r = scan_open(v, &spec, &scan);
    if (r < 0)
        return r;
    while ((r = scan_next(scan, &chunk)) > 0) {
        int read =
            scan_read(scan, BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS, NULL, 0, &rows);
        if (read == E_DAMAGE)
            continue;
        if (read < 0) {
            r = read;
            break;
        }
        for (uint32_t i = 0; i < rows.n; i++)
            compare_row(s, f, chunk.table, chunk.chunk->key, &rows, i);
    }
    struct scan_loss lost = scan_damaged(scan);
    f->lost.rows += lost.rows;
    f->lost.chunks += lost.chunks;
    f->lost.blobs += lost.blobs;
    scan_close(scan);
    return r;
}

int source_find(const struct source *s, struct view *v, struct source_found *out)
{
    *out = (struct source_found){.times = mem_alloc(s->rows + 1)};
    static const char *const names[] = {"disk", "job.state"};
    for (size_t i = 0; i < 2; i++) {
        int r = find_in_table(s, v, slice_str(names[i]), out);
        if (r < 0)
            return r;
    }
    return 0;
}

uint64_t source_missing(const struct source *s, const struct source_found *f, uint64_t first, uint64_t last)
{
    uint64_t n = 0;
    for (uint64_t r = first; r <= last; r++)
        for (uint32_t i = 0; i < s->records[r].n_rows; i++)
            n += f->times[s->records[r].first_row + i] == 0;
    return n;
}

void source_found_fini(struct source_found *f)
{
    mem_free(f->times);
    f->times = NULL;
}
