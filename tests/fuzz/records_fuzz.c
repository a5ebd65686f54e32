/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's own records. An input is records of u8 type (0 a new segment; else that of the record), u16
 * length and payload. Each segment starts with a record that announces a schema, two samplers and a stream of
 * each, since hardly any mutation has a schema's hash right. They are written to a journal, and then:
 *   - it is read as batches, from a few records on: what is given, and where it is said to be, is what
 * reading it all gives from there on;
 *   - a ledger is made of it: whatever the records say, its sums hold, and its accounts come back from their
 * bytes. */
#include "base/cursor.h"
#include "event/schema_bytes.h"
#include "gateway/ingest.h"
#include "gateway/journal_batches.h"
#include "gateway/records.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(x) ((x) ? (void)0 : abort())

enum { RECORDS_MAX = 32, GIVEN_MAX = 4096 };

static char dir[64];

static void remove_dir(void)
{
    (void)rmdir(dir);
}

static void empty_dir(void)
{
    DIR *d = opendir(dir);
    CHECK(d);
    for (struct dirent *e; (e = readdir(d));)
        (void)unlinkat(dirfd(d), e->d_name, 0); /* "." and ".." fail */
    (void)closedir(d);
}

/* A schema and two samplers, as a gateway writes them. */
static void put_announcements(struct strbuf *out)
{
    static const struct field fields[] = {
        {.name = {"n", 1}, .type = VALUE_UINT, .kind = KIND_COUNTER},
        {.name = {"f", 1}, .type = VALUE_FLOAT},
        {.name = {"t", 1}, .type = VALUE_TEXT},
    };
    static const struct samples_context context = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    struct schema *s;
    CHECK(schema_create(slice_str("e"), fields, 3, &s) == 0);
    record_put_schema(out, 1, s);
    for (uint32_t i = 1; i <= 2; i++) {
        struct frame_origin o = {.producer = {(uint8_t)i}, .epoch = 1};
        struct samples_snapshot stream = {.number = 1, .state = {"\1p\0\0\0", 5}};
        record_put_sampler(out, i, &o, slice_str("h"), &context);
        record_put_stream_head(out, i, 1, &stream);
        strbuf_add_slice(out, stream.state);
    }
    schema_unref(s);
}

static void append(struct journal *j, uint32_t type, struct slice payload)
{
    CHECK(journal_append(j, type, payload, NULL) == 0 && journal_commit(j) == 0);
}

/* Writes the journal; how many records. */
static uint64_t write_journal(struct slice input)
{
    const struct journal_options options = {.flags = JOURNAL_OWN_SEGMENTS | JOURNAL_NOSYNC};
    struct journal *j;
    struct strbuf first = {0};
    struct cursor c = cursor_of(input);
    uint64_t n = 1;
    CHECK(journal_open(dir, &options, &j) == 0);
    put_announcements(&first);
    append(j, STORE_SAMPLES, strbuf_slice(&first));
    while (cursor_left(&c) && n < RECORDS_MAX) {
        uint8_t type = cursor_u8(&c);
        size_t size = cursor_u16(&c);
        struct slice payload = cursor_bytes(&c, size < cursor_left(&c) ? size : cursor_left(&c));
        if (type == 0)
            journal_cut(j);
        append(j, type ? type : STORE_SAMPLES, type ? payload : strbuf_slice(&first));
        n++;
    }
    strbuf_fini(&first);
    journal_close(j);
    return n;
}

/* What reading gave: a number for each item that tells it from others. */
struct given {
    size_t n;
    uint64_t records[GIVEN_MAX], marks[GIVEN_MAX];
};

static uint64_t mark_of(const struct journal_batch *item)
{
    if (item->kind != JOURNAL_BATCH)
        return (uint64_t)item->kind << 60 | (uint64_t)item->part << 40 | item->count;
    const struct batch *b = item->batch;
    uint64_t mark =
        b->origin.first_seq * 31 + b->n + b->origin.producer[0] * 7 + (uint64_t)item->part * 65537;
    for (size_t i = 0; i < b->n; i++)
        for (uint32_t k = 0; k < b->events[i].schema->n_fields; k++)
            mark = mark * 1099511628211u + b->events[i].values[k].type +
                   (value_is_text(b->events[i].values[k].type) ? b->events[i].values[k].n
                                                               : b->events[i].values[k].u);
    return mark;
}

static void read_batches(uint64_t from, struct given *out)
{
    const struct journal_options options = {.flags = JOURNAL_READONLY};
    struct journal *j;
    struct journal_batches *b;
    struct journal_batch item;
    uint64_t last = 0;
    int r;
    CHECK(journal_open(dir, &options, &j) == 0 && journal_batches_open(j, from, &b) == 0);
    out->n = 0;
    while ((r = journal_batches_next(b, &item)) == 0) {
        CHECK(item.kind != JOURNAL_LOST && item.first >= from && item.first >= last);
        CHECK(item.kind != JOURNAL_BATCH || item.batch->n > 0);
        last = item.first;
        if (out->n == GIVEN_MAX)
            break;
        out->records[out->n] = item.first;
        out->marks[out->n++] = mark_of(&item);
    }
    CHECK(r == 0 || r == E_NODATA);
    journal_batches_close(b);
    journal_close(j);
}

static void check_batches(uint64_t records)
{
    static struct given all, some;
    read_batches(0, &all);
    const uint64_t starts[] = {2, 1 + records / 2, records};
    for (size_t i = 0; i < 3 && all.n < GIVEN_MAX; i++) {
        uint64_t from = starts[i];
        read_batches(from, &some);
        size_t skip = 0;
        while (skip < all.n && all.records[skip] < from)
            skip++;
        CHECK(some.n == all.n - skip);
        CHECK(memcmp(some.marks, all.marks + skip, some.n * sizeof *some.marks) == 0);
    }
}

static void check_ledger(void)
{
    const struct ingest_options options = {0};
    struct ledger ledger = {0}, again = {0};
    struct store *store;
    struct strbuf out = {0};
    CHECK(store_open(dir, NULL, &store) == 0);
    struct ingest *in = ingest_create(&ledger, store, &options);
    CHECK(in && ingest_restore(in) == 0);
    for (const struct account *a = ledger.oldest; a; a = a->newer) {
        CHECK(account_check(a));
        account_put(&out, a);
    }
    struct cursor c = cursor_of(strbuf_slice(&out));
    int r;
    while ((r = ledger_get_account(&again, &c)) > 0)
        ;
    CHECK(r == 0 && again.accounts.n == ledger.accounts.n);
    for (const struct account *a = ledger.oldest; a; a = a->newer) {
        const struct account *b = ledger_find(&again, &a->origin);
        CHECK(b && a->passed == b->passed && a->taken == b->taken && a->class == b->class);
        CHECK(account_highest(a) == account_highest(b) && slice_eq(account_counts(a), account_counts(b)));
    }
    strbuf_reset(&out);
    ledger_print(&ledger, &out);
    strbuf_fini(&out);
    ingest_destroy(in);
    store_close(store);
    ledger_fini(&ledger);
    ledger_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!dir[0]) {
        (void)snprintf(dir, sizeof dir, "%s", "/dev/shm/gridline-records-XXXXXX");
        CHECK(mkdtemp(dir) && atexit(remove_dir) == 0);
    }
    uint64_t records = write_journal(slice_of((const char *)data, size));
    check_batches(records);
    check_ledger();
    empty_dir();
    return 0;
}
