/* SPDX-License-Identifier: Apache-2.0 */
/* The setting `feed` of the catalogue: text journal, events, hosts, where, ids; u64 partition_ns; u32
 * streams.
 *
 * Journals have numbers (gateway/cursors.h), of which the archive's source is made: a folder with another
 * journal than before is another source, and read from its beginning. */
#include "cmd/archive_tail.h"

#include "archive/lifeline.h"
#include "base/clock.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "gateway/cursors.h"
#include "gateway/journal_batches.h"
#include "gateway/store.h"

#include <errno.h>
#include <inttypes.h>

static const struct slice setting = {"feed", 4};

int archive_feed_note(struct catalog *c, const struct archive_feed *f)
{
    struct strbuf value = {0};
    strbuf_add_text(&value, f->journal);
    strbuf_add_text(&value, f->select.events);
    strbuf_add_text(&value, f->select.hosts);
    strbuf_add_text(&value, f->select.where);
    strbuf_add_text(&value, f->ids);
    strbuf_add_u64(&value, (uint64_t)f->partition_ns);
    strbuf_add_u32(&value, f->streams_max);
    int r = strbuf_failed(&value) ? -ENOMEM : 0;
    if (r == 0 && !slice_eq(catalog_setting(c, setting), strbuf_slice(&value))) {
        r = catalog_set_setting(c, setting, strbuf_slice(&value));
        r = r < 0 ? r : catalog_commit(c);
    }
    strbuf_fini(&value);
    return r;
}

bool archive_feed_noted(struct catalog *c, struct archive_feed *out)
{
    struct cursor k = cursor_of(catalog_setting(c, setting));
    const struct slice none = SLICE_LIT("");
    struct archive_feed f = {.select = {.on_change = none, .cross = none, .delta = none, .every = none},
                             .journal = cursor_text(&k)};
    f.select.events = cursor_text(&k);
    f.select.hosts = cursor_text(&k);
    f.select.where = cursor_text(&k);
    f.ids = cursor_text(&k);
    f.partition_ns = (int64_t)cursor_u64(&k);
    f.streams_max = cursor_u32(&k);
    *out = f;
    return !k.bad && f.journal.n;
}

/* ---------------------------------------------------------------- reading the journal */

struct tail {
    struct archive_feed feed;
    char *journal_dir, *ids; /* feed's, with a NUL */
    struct archive *archive;
    struct lifeline *lifeline;
    struct selector *selector;
    struct journal *journal;
    struct journal_batches *batches;
    struct archive_source source;
    uint32_t *index;
    uint64_t record; /* that is being appended; 0 = none */
    uint64_t events, lost;
    struct diag *why;
};

static void tail_fini(struct tail *t)
{
    journal_batches_close(t->batches);
    journal_close(t->journal);
    archive_close(t->archive);
    lifeline_destroy(t->lifeline);
    selector_destroy(t->selector);
    mem_free(t->index);
    mem_free(t->journal_dir);
    mem_free(t->ids);
}

/* The journal's number is in a record of its own, and again with every checkpoint. */
static int find_number(struct tail *t)
{
    struct journal_reader *reader = NULL;
    struct journal_item item;
    struct cursors found = {0};
    int r = journal_reader_open(t->journal, 0, &reader);
    while (r == 0 && !found.journal && (r = journal_reader_next(reader, &item)) == 0)
        if (item.kind == JOURNAL_RECORD && item.type == STORE_CURSOR)
            (void)cursors_restore(&found, item.payload); /* another's mark is nothing to us */
    journal_reader_close(reader);
    if (r < 0 && r != E_NODATA)
        return r;
    memcpy(t->source.id, &found.journal, sizeof found.journal);
    memcpy(t->source.id + sizeof found.journal, "journal", sizeof "journal");
    return found.journal ? 0 : E_NODATA;
}

static int end_record(struct tail *t)
{
    int r = t->record ? archive_done(t->archive, &t->source, t->record) : 0;
    t->record = 0;
    return r < 0 ? r : archive_tick(t->archive, clock_mono_ns(), clock_utc_ns());
}

static int take(struct tail *t, const struct journal_batch *item)
{
    int r = item->first != t->record ? end_record(t) : 0;
    if (r < 0)
        return r;
    t->record = item->last;
    if (item->kind != JOURNAL_BATCH) {
        t->lost += item->last - item->first + 1;
        return 0;
    }
    uint32_t *index = mem_try_resize(t->index, item->batch->n * sizeof *index + 1);
    if (!index)
        return -ENOMEM;
    t->index = index;
    size_t n = selector_run(t->selector, item->batch->events, item->batch->n, index);
    t->events += n;
    return archive_append_some(t->archive, &t->source, item->first, item->batch, index, n);
}

static int read_journal(struct tail *t)
{
    const struct journal_options options = {.flags = JOURNAL_READONLY};
    struct journal_batch item;
    int r = journal_open(t->journal_dir, &options, &t->journal);
    if (r == 0)
        r = find_number(t);
    if (r == 0)
        r = journal_batches_open(t->journal, archive_cursor(t->archive, &t->source) + 1, &t->batches);
    while (r == 0 && (r = journal_batches_next(t->batches, &item)) == 0)
        r = take(t, &item);
    if (r != E_NODATA)
        return r;
    r = end_record(t);
    return r < 0 ? r : archive_flush(t->archive);
}

static char *dup_text(struct slice s)
{
    char *to = mem_alloc(s.n + 1);
    if (s.n)
        memcpy(to, s.p, s.n);
    to[s.n] = '\0';
    return to;
}

/* 0: there is nothing that it was fed from. */
static int open_all(struct tail *t, const char *dir)
{
    struct catalog *c = NULL;
    int r = catalog_open(dir, false, &c, t->why);
    if (r < 0)
        return r;
    bool is_fed = archive_feed_noted(c, &t->feed);
    if (is_fed) {
        t->journal_dir = dup_text(t->feed.journal);
        t->ids = dup_text(t->feed.ids);
        r = selector_create(&t->feed.select, clock_utc_ns(), &t->selector, t->why);
    }
    catalog_close(c);
    if (r < 0 || !is_fed)
        return r;
    const struct archive_options o = {
        .dir = dir, .partition_ns = t->feed.partition_ns, .streams_max = t->feed.streams_max, .ids = t->ids};
    const struct lifeline_options ids = {.ids = t->ids, .partition_ns = t->feed.partition_ns};
    r = archive_open(&o, &t->archive, t->why);
    if (r == 0)
        r = lifeline_follow(t->archive, &ids, &t->lifeline, t->why);
    return r < 0 ? r : 1;
}

int archive_tail(const char *dir, uint64_t *events, struct diag *why)
{
    struct tail t = {.why = why};
    int r = open_all(&t, dir);
    if (r > 0) {
        r = read_journal(&t);
        if (r < 0 && !why->message[0])
            (void)diag_set(why, r, 0, "the journal %.120s can't be read: %s", t.journal_dir, err_text(r));
        if (r == -ENOENT || r == E_NODATA)
            r = 1; /* it went its own way; the archive is as good as it was */
        if (r == 0 && t.lost)
            r = diag_set(why, 1, 0, "%" PRIu64 " records of the journal %.120s are lost", t.lost,
                         t.journal_dir);
    }
    *events = t.events;
    tail_fini(&t);
    return r;
}
