/* SPDX-License-Identifier: Apache-2.0 */
/* A file to an archive's folder, without a gateway. The source is the file's id; record k of it are its
 * events (k - 1) * RECORD + 1 to k * RECORD, whatever pieces they are read in. A record goes in when it is
 * whole, so that one that was broken off in the middle leaves nothing of its last record behind, and the next
 * time begins with that. */
#include "archive/archive.h"
#include "archive/lifeline.h"
#include "archive/retain.h"
#include "archive/upkeep.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/import.h"
#include "cmd/say.h"
#include "cmd/stop.h"

#include <errno.h>

enum { RECORD = 4096 };

struct archive_target {
    struct archive *archive;
    struct lifeline *lifeline;
    struct registry *registry;
    struct batch_builder *builder;
    struct batch **pieces; /* of the record that is being collected */
    size_t n_pieces, cap_pieces, n_events;
    struct archive_source source;
    uint8_t file_id[16];
    uint64_t record; /* that one's number */
    uint64_t cursor; /* up to this record it is there */
    uint64_t seq;    /* the last number given to an event without an origin */
    uint64_t given, skipped;
    int64_t keep_ns;           /* until when; 0 = as rules say */
    struct retain_rules rules; /* of the gateway whose archive it is; none of another */
    bool has_rules;
    bool is_rest; /* --keep, of a file that was imported without: only what was too old then */
    struct archive_counts before; /* when the file began */
};

static void drop_pieces(struct archive_target *t)
{
    for (size_t i = 0; i < t->n_pieces; i++)
        batch_unref(t->pieces[i]);
    t->n_pieces = t->n_events = 0;
}

static void target_close(void *target)
{
    struct archive_target *t = target;
    if (!t)
        return;
    drop_pieces(t);
    mem_free(t->pieces);
    batch_builder_destroy(t->builder);
    registry_destroy(t->registry);
    retain_rules_fini(&t->rules);
    archive_close(t->archive);
    lifeline_destroy(t->lifeline);
    mem_free(t);
}

static int report(const struct archive_target *t, int r)
{
    if (r < 0 && r != -EINTR)
        say("%s: %s", t->archive ? archive_dir(t->archive) : "the archive", err_text(r));
    return r;
}

/* How long the gateway that has this archive keeps what (upkeep_create). */
static int set_rules(struct archive_target *t, struct diag *why)
{
    struct slice text = catalog_setting(archive_catalog(t->archive), SLICE_LIT(UPKEEP_KEEP_SETTING));
    if (text.n == 0)
        return 0;
    char *copy = mem_alloc(text.n + 1);
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    int r = retain_rules_init(&t->rules, copy, why);
    mem_free(copy);
    t->has_rules = r == 0;
    if (r == 0)
        archive_set_rules(t->archive, &t->rules);
    return r;
}

static int target_open(const struct import_options *o, void **out)
{
    struct archive_target *t = mem_alloc(sizeof *t);
    struct diag why = {0};
    int r = archive_open(&(struct archive_options){.dir = o->archive}, &t->archive, &why);
    if (r == 0)
        r = lifeline_follow(t->archive, &(struct lifeline_options){.ids = NULL}, &t->lifeline, &why);
    if (r == 0)
        r = set_rules(t, &why);
    if (r == 0)
        r = archive_tick(t->archive, clock_mono_ns(), clock_utc_ns()); /* what time it is */
    t->keep_ns = o->keep_until_ns;
    if (r == -EBUSY)
        say("%s is written by another process: give the events to its gateway (--gateway), or stop that "
            "first",
            o->archive);
    else if (r < 0)
        say("%s: %s", o->archive, why.message[0] ? why.message : err_text(r));
    t->registry = registry_create();
    t->builder = t->registry ? batch_builder_create(t->registry, 0) : NULL;
    if (r == 0 && !t->builder)
        r = report(t, -ENOMEM);
    if (r < 0) {
        target_close(t);
        return r;
    }
    batch_builder_limit(t->builder, SIZE_MAX, SIZE_MAX); /* a record and an event's limits are limit enough */
    *out = t;
    return 0;
}

static int target_begin(void *target, const uint8_t id[16])
{
    struct archive_target *t = target;
    drop_pieces(t);
    memcpy(t->file_id, id, sizeof t->file_id);
    memcpy(t->source.id, id, sizeof t->source.id);
    t->cursor = archive_cursor(t->archive, &t->source);
    t->is_rest = t->keep_ns && t->has_rules && t->cursor > 0;
    if (t->is_rest) { /* a source of its own; what is not too old came with the other */
        t->source.id[0] ^= 0xff;
        t->cursor = archive_cursor(t->archive, &t->source);
    }
    t->record = 1;
    t->seq = t->given = t->skipped = 0;
    archive_counts(t->archive, &t->before);
    return 0;
}

/* The record that was collected goes in. */
static int put_record(struct archive_target *t)
{
    int r = 0;
    if (t->n_events == 0)
        return 0;
    for (size_t i = 0; i < t->n_pieces && r == 0; i++)
        r = archive_append(t->archive, &t->source, t->record, t->pieces[i]);
    if (r == 0)
        r = archive_done(t->archive, &t->source, t->record);
    if (r == 0)
        r = archive_tick(t->archive, clock_mono_ns(), clock_utc_ns());
    drop_pieces(t);
    t->record++;
    return report(t, r);
}

static int reserve_piece(struct archive_target *t)
{
    if (t->n_pieces < t->cap_pieces)
        return 0;
    size_t cap = t->cap_pieces ? t->cap_pieces * 2 : 64;
    struct batch **pieces = mem_try_resize(t->pieces, cap * sizeof *pieces);
    if (!pieces)
        return -ENOMEM;
    t->pieces = pieces;
    t->cap_pieces = cap;
    return 0;
}

/* A copy of n events, which are all of one origin. */
static int keep_piece(struct archive_target *t, const struct event *events, size_t n,
                      const struct batch_origin *origin)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct event *e = &events[i];
        struct event_head head = {.time_ns = e->time_ns,
                                  .name = e->schema->name,
                                  .host = e->host,
                                  .prog = e->prog,
                                  .level = e->level};
        r = batch_builder_add_known(t->builder, &head, e->schema, e->values, NULL);
    }
    if (r == 0)
        r = reserve_piece(t);
    struct batch *b = r == 0 ? batch_builder_finish(t->builder, origin) : NULL;
    if (!b)
        return report(t, r < 0 ? r : -ENOMEM);
    t->pieces[t->n_pieces++] = b;
    t->n_events += n;
    return 0;
}

/* n events that are of one record: kept, or there already. */
static int give_piece(struct archive_target *t, const struct event *events, size_t n,
                      const struct batch_origin *origin)
{
    struct batch_origin own = *origin;
    if (t->record <= t->cursor) {
        t->skipped += n;
        return 0;
    }
    own.keep_ns = t->keep_ns;
    if (!t->is_rest)
        return keep_piece(t, events, n, &own);
    int r = 0;
    for (size_t i = 0, end; i < n && r == 0; i = end) { /* runs of those that came before, and of others */
        bool is_old = archive_is_too_old(t->archive, &events[i]);
        for (end = i + 1; end < n && archive_is_too_old(t->archive, &events[end]) == is_old;)
            end++;
        own.first_seq = origin->first_seq + i;
        r = is_old ? keep_piece(t, events + i, end - i, &own) : 0;
        t->skipped += is_old ? 0 : end - i;
    }
    return r;
}

static int target_give(void *target, const struct batch *b)
{
    struct archive_target *t = target;
    bool is_own = !import_has_origin(b);
    struct batch_origin origin = is_own ? import_origin(t->file_id, t->seq + 1) : b->origin;
    int r = 0;
    t->seq += is_own ? b->n : 0;
    for (size_t at = 0; at < b->n && r == 0;) {
        size_t room = RECORD - (size_t)(t->given % RECORD), left = b->n - at;
        size_t n = left < room ? left : room;
        r = give_piece(t, b->events + at, n, &origin);
        origin.first_seq += n;
        at += n;
        t->given += n;
        if (r < 0 || t->given % RECORD)
            continue;
        if (t->record > t->cursor)
            r = put_record(t);
        else
            t->record++;
    }
    return r;
}

static int target_end(void *target, bool is_whole)
{
    struct archive_target *t = target;
    int r = is_whole ? put_record(t) : 0;
    drop_pieces(t);
    return r < 0 ? r : report(t, archive_flush(t->archive));
}

static void target_counts(void *target, struct import_counts *out)
{
    struct archive_target *t = target;
    struct archive_counts now;
    archive_counts(t->archive, &now);
    *out = (struct import_counts){.given = t->given,
                                  .stored = now.kept - t->before.kept,
                                  .again = t->skipped + (now.again - t->before.again),
                                  .too_old = now.too_old - t->before.too_old,
                                  .too_new = now.too_new - t->before.too_new,
                                  .refused = now.refused - t->before.refused};
    (void)snprintf(out->why_old, sizeof out->why_old, "older than the archive keeps such events"); /* fits */
    (void)snprintf(out->why_new, sizeof out->why_new, "more than a day ahead of now");
    (void)snprintf(out->said, sizeof out->said, "over a limit of the archive");
}

const struct import_target_ops import_archive = {
    .open = target_open,
    .close = target_close,
    .begin = target_begin,
    .give = target_give,
    .end = target_end,
    .counts = target_counts,
    .when_too_old = "import with --keep takes and keeps them",
};
