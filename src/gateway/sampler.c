/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is written of a sampler until its first packet in a segment; then all it was told, as it is at that
 * moment, goes before the packet. What it is told later goes in at once, if it has been written. So a worker
 * that is silent costs nothing, and with ROLL the state before the packet is the one that the packet needs:
 * it is written before the packet is read, for reading moves it.
 *
 * Schemas are written once a segment for all samplers, and streams name them by number: 100,000 workers with
 * the same vector have one copy in the journal, and one in memory (the registry's). */
#include "gateway/sampler.h"

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/access.h"
#include "gateway/ingest_internal.h"

#include <errno.h>

enum { SCHEMAS_MAX = 8192 }; /* remembered as written; past that all are forgotten, and written again */

struct announced_schema {
    const struct schema *schema; /* one reference; the pointer is the map's key */
    uint32_t number;
};

struct sampler {
    struct ingest *in;
    struct account *account; /* pinned */
    struct samples_reader *reader;
    struct ingest_source *limit; /* says what may be said; NULL = anything */
    uint32_t segment;            /* where it has been written; 0 = nowhere */
    uint32_t number;             /* there */
    bool wants_announcements;
    uint8_t host_n; /* at most EVENT_ORIGIN_MAX */
    char host[];
};

static struct slice host_of(const struct sampler *s)
{
    return slice_of(s->host, s->host_n);
}

int sampler_create(struct ingest *in, const struct frame_origin *origin, struct slice host,
                   struct sampler **out)
{
    if (host.n > EVENT_ORIGIN_MAX)
        return E_LIMIT;
    struct account *a = ledger_account(in->ledger, origin);
    if (a && !account_set_class(a, CLASS_SAMPLES))
        return E_PROTO;
    struct sampler *s = a ? mem_try_alloc(sizeof *s + host.n) : NULL;
    if (!s)
        return -ENOMEM;
    s->in = in;
    s->host_n = (uint8_t)host.n;
    if (host.n)
        memcpy(s->host, host.p, host.n);
    s->reader = samples_reader_create(in->registry, in->samples);
    s->account = a;
    a->pins++;
    if (!s->reader) {
        sampler_destroy(s);
        return -ENOMEM;
    }
    *out = s;
    return 0;
}

void sampler_destroy(struct sampler *s)
{
    if (!s)
        return;
    s->account->pins--;
    (void)ledger_account(s->in->ledger, &s->account->origin); /* it was heard of until now */
    samples_reader_destroy(s->reader);
    mem_free(s);
}

const struct frame_origin *sampler_origin(const struct sampler *s)
{
    return &s->account->origin;
}

void sampler_limit(struct sampler *s, struct ingest_source *source)
{
    s->limit = source;
}

void sampler_new_segment(struct ingest *in)
{
    void *value;
    for (size_t i = 0; map_next(&in->schemas, &i, &value);) {
        struct announced_schema *a = value;
        schema_unref(a->schema);
        mem_free(a);
    }
    map_fini(&in->schemas);
    in->n_samplers = in->n_schemas = 0;
}

/* Items of samples, to the end of the record that is open. */
static int add(struct ingest *in, struct slice head, struct slice body)
{
    int r = store_add(in->store, STORE_SAMPLES, head, body);
    if (r == 0)
        ingest_turn(in)->has_records = true;
    return r;
}

/* What is in in->scratch, and body. */
static int add_scratch(struct ingest *in, struct slice body)
{
    return strbuf_failed(&in->scratch) ? -ENOMEM : add(in, strbuf_slice(&in->scratch), body);
}

static struct slice schema_key(struct schema const *const *schema)
{
    return slice_of((const char *)schema, sizeof *schema);
}

static int remember(struct ingest *in, const struct schema *schema, uint32_t number)
{
    if (in->schemas.n >= SCHEMAS_MAX) {
        uint32_t samplers = in->n_samplers, schemas = in->n_schemas;
        sampler_new_segment(in);
        in->n_samplers = samplers;
        in->n_schemas = schemas;
    }
    struct announced_schema *a = mem_try_alloc(sizeof *a);
    if (!a)
        return -ENOMEM;
    *a = (struct announced_schema){schema, number};
    if (map_put(&in->schemas, schema_key(&a->schema), a) < 0) {
        mem_free(a);
        return -ENOMEM;
    }
    (void)schema_ref(schema); /* it is the map's */
    return 0;
}

/* The schema's number in this segment; it is written if it is new. */
static int number_schema(struct ingest *in, const struct schema *schema, uint32_t *number)
{
    const struct announced_schema *known = map_get(&in->schemas, schema_key(&schema));
    if (known) {
        *number = known->number;
        return 0;
    }
    *number = ++in->n_schemas;
    strbuf_reset(&in->scratch);
    record_put_schema(&in->scratch, *number, schema);
    int r = add_scratch(in, (struct slice){"", 0});
    return r < 0 ? r : remember(in, schema, *number);
}

static int write_stream(struct sampler *s, uint32_t number)
{
    struct ingest *in = s->in;
    struct samples_snapshot snapshot;
    uint32_t schema;
    int r = samples_reader_snapshot(s->reader, number, &snapshot);
    if (r == 0)
        r = number_schema(in, snapshot.schema, &schema);
    if (r < 0)
        return r;
    strbuf_reset(&in->scratch);
    record_put_stream_head(&in->scratch, s->number, schema, &snapshot);
    return add_scratch(in, snapshot.state);
}

/* Everything it was told, in the segment that is being written. On failure it counts as not written. */
static int write_all(struct sampler *s)
{
    struct ingest *in = s->in;
    struct samples_context context = samples_reader_context(s->reader);
    s->number = ++in->n_samplers;
    s->segment = 0;
    strbuf_reset(&in->scratch);
    record_put_sampler(&in->scratch, s->number, &s->account->origin, host_of(s), &context);
    int r = add_scratch(in, (struct slice){"", 0});
    for (uint32_t i = 1; i <= samples_reader_streams(s->reader) && r == 0; i++)
        r = write_stream(s, i);
    if (r == 0)
        s->segment = in->segment;
    return r;
}

int sampler_schema(struct sampler *s, struct slice payload, struct diag *why)
{
    return samples_reader_schema(s->reader, payload, why);
}

int sampler_stream(struct sampler *s, struct slice payload, struct diag *why)
{
    int r = samples_reader_stream(s->reader, payload, why);
    if (r < 0 || !s->segment)
        return r;
    ingest_begin(s->in);
    struct cursor c = cursor_of(payload);
    if (s->segment != s->in->segment || write_stream(s, cursor_u32(&c)) < 0)
        s->segment = 0; /* all of it again, before the next packet */
    return 0;
}

/* Reads the packet; where somebody wants events its rows are the last in in->rows then. */
static int read_packet(struct sampler *s, struct slice packet, struct samples_count *count,
                       struct batch_origin *origin, struct diag *why)
{
    struct ingest *in = s->in;
    if (!in->options.on_batch)
        return samples_reader_scan(s->reader, packet, count, why);
    *origin = (struct batch_origin){.epoch = s->account->origin.epoch};
    memcpy(origin->producer, s->account->origin.producer, sizeof origin->producer);
    uint32_t unknown;
    int r = samples_reader_add(s->reader, packet, host_of(s), in->rows, origin, &unknown, why);
    if (r < 0)
        return r;
    (void)samples_packet_count(packet, count); /* it has been read */
    count->unknown = unknown;
    return 0;
}

/* The rows in in->rows from that one on. Where there are none nobody knows. */
static bool may_say_all(const struct sampler *s, size_t from)
{
    const struct batch_builder *rows = s->in->rows;
    if (access_says_orders(batch_builder_events(rows) + from, batch_builder_count(rows) - from))
        return false;
    if (!s->limit || !s->in->options.on_batch)
        return !s->limit;
    for (size_t i = from; s->limit->may && i < batch_builder_count(rows); i++)
        if (!s->limit->may(s->limit, &batch_builder_events(rows)[i]))
            return false;
    return true;
}

/* The first row in in->rows from that one on that is not to be kept says what becomes of the packet: it is
 * stored whole or not at all, and its rows are of one moment. Where there are no rows nobody knows. */
static enum archived_verdict judge_rows(const struct sampler *s, size_t from)
{
    const struct batch_builder *rows = s->in->rows;
    enum archived_verdict v = ARCHIVED_KEPT;
    int64_t now = clock_utc_ns();
    for (size_t i = from; s->in->options.on_batch && v == ARCHIVED_KEPT && i < batch_builder_count(rows); i++)
        v = ingest_judge(s->in, &batch_builder_events(rows)[i], now);
    return v;
}

static int write_packet(struct sampler *s, struct slice packet, uint32_t rows)
{
    char head[RECORD_PACKET_HEAD];
    size_t n = record_put_packet_head(head, s->number, rows, packet.n);
    int r = ingest_reserve_rows(s->in);
    if (r == 0)
        r = add(s->in, slice_of(head, n), packet);
    if (r < 0)
        return r;
    ingest_queue_rows(s->in, s->account, rows);
    uint32_t record = store_records(s->in->store);
    s->in->packets = record == s->in->packet_record ? s->in->packets + 1 : 1;
    s->in->packet_record = record;
    return 0;
}

int sampler_packet(struct sampler *s, struct slice packet, struct diag *why)
{
    struct ingest *in = s->in;
    struct account *a = s->account;
    struct samples_count count;
    struct batch_origin origin;
    ingest_begin(in);
    int written = ingest_check_room(in, ROOM_SAMPLES);
    if (written == 0 && s->segment != in->segment)
        written = write_all(s);
    uint32_t before = (uint32_t)batch_builder_count(in->rows);
    int r = read_packet(s, packet, &count, &origin, why);
    if (r < 0)
        return r;
    uint32_t rows = count.rows - count.unknown;
    uint64_t last = count.first_seq + count.rows - 1;
    a->taken += count.rows;
    a->no_schema += count.unknown;
    a->highest = last > a->highest ? last : a->highest;
    s->wants_announcements |= count.unknown > 0;
    if (rows == 0)
        return 0;
    bool is_allowed = may_say_all(s, before);
    enum archived_verdict v = is_allowed ? judge_rows(s, before) : ARCHIVED_KEPT;
    is_allowed = is_allowed && v == ARCHIVED_KEPT;
    r = written < 0 ? written : is_allowed ? write_packet(s, packet, rows) : -EPERM;
    if (r < 0) {
        *(v == ARCHIVED_KEPT ? &a->refused : ingest_denied(a, v)) += rows;
        s->segment = 0; /* the journal's view of what rolls is behind */
        batch_builder_cut(in->rows, before);
        if (is_allowed)
            ingest_note_store(in, r);
    } else if (in->options.on_batch) {
        struct position at = ingest_last_record(in);
        at.part = in->packets - 1;
        if (!ingest_queue_packet(in, before, rows, &origin, at))
            batch_builder_cut(in->rows, before);
    }
    ingest_commit_if_full(in);
    return 0;
}

bool sampler_wants_announcements(struct sampler *s)
{
    bool wants = s->wants_announcements;
    s->wants_announcements = false;
    return wants;
}
