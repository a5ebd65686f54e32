/* SPDX-License-Identifier: Apache-2.0 */
/* The lock guards what the loop and the thread tell each other; the archive is the thread's alone, but for
 * views, which have their own ways (view.h). */
#include "cmd/archiver.h"

#include "archive/lifeline.h"
#include "archive/retain.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/archive_state.h"
#include "cmd/archive_tail.h"
#include "cmd/refill_index.h"
#include "gateway/journal_batches.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CATCH_UP_MS = 2000, CATCH_UP_RECORDS = 65536 };
enum { TICK_MS = 250, BETWEEN_TICKS = 16384 /* events, about: heads are bounded at ticks only */ };

struct call {
    void (*fn)(void *arg, struct archive *archive);
    void *arg;
    struct call *next;
};

struct archiver {
    char *journal_dir;
    struct archive *archive;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Under the lock: */
    uint64_t number, settled; /* of the journal; 0 = not told yet */
    bool is_stopping, is_hurried;
    struct call *calls, **calls_end;
    struct archive_counts counts; /* as of the last tick */
    struct upkeep_counts kept;
    uint64_t cursor, appended;  /* records: on disk, and seen by queries */
    uint64_t lost_events;       /* that can't be read from the journal, as the table archive.lost has them */
    uint64_t lost_records;      /* of which nobody knows how many events they held */
    uint64_t safe;              /* up to this record, the journal is not needed after a crash */
    struct archive_state state; /* has a lock of its own */
    struct refill_index *refill; /* the same */
    pthread_cond_t caught_up;   /* appended has moved */
    bool is_stuck;              /* it won't soon */
    _Atomic int64_t floor_ns;   /* as archive_floor; without the lock */
    /* The loop's: */
    struct retain_rules rules;
    int64_t shortest_ns;       /* of the ages of rules */
    struct selector *selected; /* as selector, which is the thread's */
    /* The thread's: */
    struct lifeline *lifeline; /* hops of ids, derived at each flush */
    struct upkeep *upkeep;     /* merging, tiers, retention */
    struct selector *selector;
    uint32_t *index;
    size_t max_index;
    struct archive_source source;
    struct journal *journal;
    struct journal_batches *batches;
    struct journal_batch item; /* the next, if has_item */
    bool has_item;
    uint64_t record;          /* the one that is being appended; 0 = none */
    uint64_t given;           /* the last one that was given to the archive as a whole */
    struct archive_loss lost; /* of that record, all its parts; last 0 = nothing */
    char lost_why[128];
    int64_t settled_ns;       /* UTC: when it was looked up what is settled, */
    int64_t caught_up_ns;     /* and when last all of that had been appended: at first, the start */
    int trouble;           /* the error said last; 0 = all is well */
    int unread, unwritten; /* why nothing can be read from the journal, or flushed; until it can be again */
    uint64_t n_flushes;    /* those that were seen to succeed */
    size_t n_troubles;     /* of the catalogue, that have been said */
};

/* ---------------------------------------------------------------- what is said */

/* Once when it begins, and once when it is over. */
static void say(struct archiver *a, int r, const char *what)
{
    if (r == a->trouble)
        return;
    if (r < 0)
        log_error("archive %s: %s: %s; it is tried again, the journal keeps what comes meanwhile",
                  archive_dir(a->archive), what, err_text(r));
    else
        log_info("archive %s: works again", archive_dir(a->archive));
    a->trouble = r;
}

static void publish(struct archiver *a)
{
    struct archive_counts counts;
    archive_counts(a->archive, &counts);
    uint64_t cursor = archive_cursor(a->archive, &a->source);
    pthread_mutex_lock(&a->lock);
    a->counts = counts;
    a->kept = upkeep_counts(a->upkeep);
    a->cursor = cursor;
    /* Records behind the last that was given hold nothing for the archive. */
    if (a->batches)
        a->safe = cursor >= a->given ? a->appended : cursor;
    a->is_stuck = a->trouble < 0;
    pthread_mutex_unlock(&a->lock);
    atomic_store_explicit(&a->floor_ns, archive_floor(a->archive), memory_order_relaxed);
}

/* What the archive has found damaged, each once. */
static void say_troubles(struct archiver *a)
{
    struct catalog *c = archive_catalog(a->archive);
    for (; a->n_troubles < catalog_troubles(c); a->n_troubles++)
        log_error("archive %s: %s", archive_dir(a->archive), catalog_trouble_at(c, a->n_troubles));
}

/* From its cursor on, at the next look. */
static void read_again(struct archiver *a)
{
    journal_batches_close(a->batches);
    a->batches = NULL;
    a->has_item = false;
    a->record = 0;
    a->lost = (struct archive_loss){0};
}

static void say_gone(void *arg, const char *name, uint64_t rows, const char *what)
{
    const struct archiver *a = arg;
    log_info("archive %s: %s is gone, with %" PRIu64 " rows: %s", archive_dir(a->archive), name, rows, what);
}

/* A step of merging, tiers, retention: true, there is more of it. */
static bool keep_up(struct archiver *a)
{
    int r = upkeep_step(a->upkeep, clock_utc_ns());
    if (r < 0)
        log_error("archive %s: a partition can't be kept in order: %s; it is left alone for a while",
                  archive_dir(a->archive), err_text(r));
    return r > 0;
}

/* Between two tries nothing is wrong that could be told by a result: it is well again when a flush has
 * succeeded. */
static void note_written(struct archiver *a, int r)
{
    struct archive_counts counts;
    archive_counts(a->archive, &counts);
    if (r < 0)
        a->unwritten = r;
    else if (counts.flushes != a->n_flushes)
        a->unwritten = 0;
    a->n_flushes = counts.flushes;
}

static void tick(struct archiver *a)
{
    int unindexed = refill_index_write(a->refill);
    if (unindexed < 0)
        log_error(
            "archive %s: the index of the journal can't be written: %s; a durable subscription that falls "
            "behind the journal gets a gap",
            archive_dir(a->archive), err_text(unindexed));
    int r = archive_tick(a->archive, clock_mono_ns(), clock_utc_ns());
    while (r == -ENOSPC && upkeep_make_room(a->upkeep))
        r = archive_flush(a->archive);
    if (r == -ESTALE)
        read_again(a);
    note_written(a, r == -ESTALE ? -EIO : r);
    say_troubles(a);
    say(a, a->unwritten ? a->unwritten : a->unread, a->unwritten ? "can't be written" : "can't go on");
    publish(a);
    archive_state_look(&a->state, a->archive, a->trouble);
}

/* ---------------------------------------------------------------- reading */

static int open_journal(struct archiver *a, uint64_t number)
{
    const struct journal_options options = {.flags = JOURNAL_READONLY};
    if (a->batches)
        return 0;
    memcpy(a->source.id, &number, sizeof number);
    memcpy(a->source.id + sizeof number, "journal", sizeof "journal");
    uint64_t from = archive_cursor(a->archive, &a->source);
    pthread_mutex_lock(&a->lock);
    a->appended = a->given = a->safe = from;
    pthread_mutex_unlock(&a->lock);
    refill_index_start(a->refill, number, from);
    int r = a->journal ? 0 : journal_open(a->journal_dir, &options, &a->journal);
    return r < 0 ? r : journal_batches_open(a->journal, from + 1, &a->batches);
}

/* Writes down what of the record, or range of records, can't be read. Errors: again, later. */
static int end_loss(struct archiver *a)
{
    const struct archive_loss l = a->lost;
    int r = l.last ? archive_lost(a->archive, &a->source, &l) : 0;
    if (l.last == 0 || r < 0)
        return r;
    a->lost = (struct archive_loss){0};
    pthread_mutex_lock(&a->lock);
    a->lost_events += l.count;
    a->lost_records += l.count ? 0 : l.last - l.first + 1;
    pthread_mutex_unlock(&a->lock);
    log_error(
        "archive %s: records %" PRIu64 " to %" PRIu64 " of the journal, %" PRIu64
        " events, can't be read: %.*s; `gridline ledger` counts them, the table archive.lost lists them",
        archive_dir(a->archive), l.first, l.last, l.count, SLICE_ARG(l.why));
    return 0;
}

static int end_record(struct archiver *a)
{
    int r = end_loss(a);
    if (r < 0)
        return r;
    if (a->record)
        (void)archive_done(a->archive, &a->source, a->record); /* the source is known by now */
    a->given = a->record ? a->record : a->given;
    pthread_mutex_lock(&a->lock);
    a->appended = a->record ? a->record : a->appended;
    pthread_cond_broadcast(&a->caught_up);
    pthread_mutex_unlock(&a->lock);
    a->record = 0;
    return 0;
}

/* All that is settled has been read: records behind the last batch hold nothing for the archive (counts,
 * leases, checkpoints), and it is not behind by them. */
static int end_reading(struct archiver *a, uint64_t settled)
{
    uint64_t done = journal_batches_done(a->batches);
    int r = end_record(a);
    if (r < 0)
        return r;
    done = done < settled ? done : settled;
    pthread_mutex_lock(&a->lock);
    a->appended = done > a->appended ? done : a->appended;
    pthread_cond_broadcast(&a->caught_up);
    pthread_mutex_unlock(&a->lock);
    a->caught_up_ns = a->settled_ns;
    return 0;
}

static int append(struct archiver *a, const struct journal_batch *item)
{
    const struct batch *b = item->batch;
    if (selector_is_all(a->selector))
        return archive_append(a->archive, &a->source, item->first, b);
    if (b->n > a->max_index) {
        uint32_t *index = mem_try_resize(a->index, b->n * sizeof *index);
        if (!index)
            return -ENOMEM;
        a->index = index;
        a->max_index = b->n;
    }
    size_t n = selector_run(a->selector, b->events, b->n, a->index);
    return archive_append_some(a->archive, &a->source, item->first, b, a->index, n);
}

/* Adds a part of the record that can't be read to what is lost of it. */
static void add_loss(struct archiver *a, const struct journal_batch *item)
{
    static const char *const gaps[] = {"it is damaged", "it is gone"};
    const char *why = item->kind == JOURNAL_LOST ? gaps[item->reason == JOURNAL_GAP_GONE] : item->why;
    if (a->lost.last == 0) {
        (void)snprintf(a->lost_why, sizeof a->lost_why, "%s", why); /* cut to fit is fine */
        a->lost =
            (struct archive_loss){.first = item->first, .last = item->last, .why = slice_str(a->lost_why)};
    }
    a->lost.count += item->count;
}

static int take(struct archiver *a)
{
    const struct journal_batch *item = &a->item;
    if (item->kind == JOURNAL_BATCH) {
        int r = append(a, item);
        if (r < 0)
            return r;
        archive_state_batch(&a->state, item->batch);
    } else {
        add_loss(a, item);
    }
    refill_index_add(a->refill, item);
    a->record = item->last;
    a->has_item = false;
    return 0;
}

/* 1: a->item is the next that is settled; 0: there is none yet. */
static int next_item(struct archiver *a)
{
    int r = a->has_item ? 0 : journal_batches_next(a->batches, &a->item);
    a->has_item = r == 0;
    return r == E_NODATA ? 0 : r < 0 ? r : 1;
}

/* What is settled, or some of it, but whole records: true, there is more. */
static bool read_some(struct archiver *a, uint64_t number, uint64_t settled)
{
    int r = open_journal(a, number);
    if (r == 0)
        r = journal_follow(a->journal, settled);
    for (size_t n = 0; r >= 0; n += a->item.kind == JOURNAL_BATCH ? a->item.batch->n : 1) {
        r = next_item(a);
        if (r < 0)
            break;
        if (r == 0) {
            a->unread = end_reading(a, settled);
            return false;
        }
        bool is_next = a->item.first != a->record;
        if (is_next && (r = end_record(a)) < 0)
            break;
        if (is_next && n >= BETWEEN_TICKS) {
            a->unread = 0;
            return true;
        }
        r = take(a);
    }
    a->unread = r;
    return false;
}

/* ---------------------------------------------------------------- the thread */

static struct timespec after_ms(long ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* can't fail */
    until.tv_nsec += ms % 1000 * 1000000L;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return until;
}

static void wait_a_moment(struct archiver *a)
{
    struct timespec until = after_ms(TICK_MS);
    (void)pthread_cond_timedwait(&a->wake, &a->lock, &until); /* in vain is fine */
}

/* Those that wait, in order. The lock is held before and after, and not meanwhile. */
static void answer_calls(struct archiver *a)
{
    struct call *c = a->calls;
    a->calls = NULL;
    a->calls_end = &a->calls;
    pthread_mutex_unlock(&a->lock);
    for (struct call *next; c; c = next) {
        next = c->next;
        c->fn(c->arg, a->archive);
        mem_free(c);
    }
    pthread_mutex_lock(&a->lock);
}

static void *run(void *arg)
{
    struct archiver *a = arg;
    bool has_more = false;
    pthread_mutex_lock(&a->lock);
    while (!a->is_stopping) {
        if (!has_more && !a->calls)
            wait_a_moment(a);
        if (a->calls && !a->record)
            answer_calls(a);
        uint64_t number = a->number, settled = a->settled;
        if (a->is_hurried)
            archive_hurry(a->archive);
        a->is_hurried = false;
        pthread_mutex_unlock(&a->lock);
        a->settled_ns = clock_utc_ns();
        has_more = number && read_some(a, number, settled);
        tick(a);
        archive_set_caught_up(a->archive, a->caught_up_ns);
        has_more |= keep_up(a); /* however much there is to read */
        pthread_mutex_lock(&a->lock);
    }
    answer_calls(a);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Signals are for the loop. */
static int start_thread(struct archiver *a)
{
    sigset_t blocked, before;
    (void)sigfillset(&blocked);
    int e = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (e)
        return -e;
    e = pthread_create(&a->thread, NULL, run, a);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* it was good a moment ago */
    a->has_thread = e == 0;
    return -e;
}

/* ---------------------------------------------------------------- the loop's side */

/* For whoever has the archive's files without this process (archive_tail.h). */
static int note_feed(struct archiver *a, const struct archiver_options *o)
{
    char *path = realpath(o->journal, NULL); /* it may not be there yet */
    const struct archive_feed feed = {.journal = slice_str(path ? path : o->journal),
                                      .select = o->select,
                                      .ids = slice_str(o->archive.ids ? o->archive.ids : ""),
                                      .partition_ns = o->archive.partition_ns,
                                      .streams_max = o->archive.streams_max};
    int r = archive_feed_note(archive_catalog(a->archive), &feed);
    free(path);
    return r;
}

static int open_archive(struct archiver *a, const struct archiver_options *o, struct diag *why)
{
    const struct lifeline_options ids = {.ids = o->archive.ids, .partition_ns = o->archive.partition_ns};
    int r = archive_open(&o->archive, &a->archive, why);
    if (r < 0)
        return r;
    say_troubles(a);
    r = archive_lost_sums(a->archive, &a->lost_events, &a->lost_records);
    if (r < 0)
        log_error("archive %s: what was lost before is not known: %s", archive_dir(a->archive), err_text(r));
    r = note_feed(a, o);
    if (r < 0)
        log_error("archive %s: a backup will not find the journal %s: %s", o->archive.dir, o->journal,
                  err_text(r));
    r = lifeline_follow(a->archive, &ids, &a->lifeline, why);
    struct upkeep_options upkeep = o->upkeep;
    upkeep.gone = say_gone;
    upkeep.arg = a;
    return r < 0 ? r : upkeep_create(a->archive, &upkeep, &a->upkeep, why);
}

static int init_wake(struct archiver *a)
{
    pthread_condattr_t attributes;
    pthread_mutex_init(&a->lock, NULL);
    int e = pthread_condattr_init(&attributes);
    if (e)
        return -e;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* there is one */
    e = pthread_cond_init(&a->wake, &attributes);
    if (e == 0)
        e = pthread_cond_init(&a->caught_up, &attributes);
    (void)pthread_condattr_destroy(&attributes); /* nothing to lose */
    return -e;
}

int archiver_create(const struct archiver_options *o, struct archiver **out, struct diag *why)
{
    struct archiver *a = mem_alloc(sizeof *a);
    a->calls_end = &a->calls;
    a->caught_up_ns = clock_utc_ns();
    struct strbuf folder = {0};
    archive_state_init(&a->state);
    a->journal_dir = strdup(o->journal);
    strbuf_printf(&folder, "%s/refill", o->journal);
    a->refill = strbuf_failed(&folder) ? NULL : refill_index_create(folder.p);
    strbuf_fini(&folder);
    int r = init_wake(a);
    if (r == 0 && !a->refill)
        r = -ENOMEM;
    if (r == 0)
        r = selector_create(&o->select, clock_utc_ns(), &a->selector, why);
    if (r == 0)
        r = selector_create(&o->select, clock_utc_ns(), &a->selected, why);
    if (r == 0)
        r = retain_rules_init(&a->rules, o->upkeep.keep, why);
    a->shortest_ns = retain_rules_shortest(&a->rules);
    atomic_init(&a->floor_ns, INT64_MIN);
    if (r == 0)
        r = open_archive(a, o, why);
    if (r == 0) {
        r = start_thread(a);
        if (r < 0)
            (void)diag_set(why, r, 0, "archive %s: no thread: %s", o->archive.dir, err_text(r));
    }
    if (r < 0) {
        archiver_destroy(a);
        return r;
    }
    *out = a;
    return 0;
}

void archiver_destroy(struct archiver *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->is_stopping = true;
    pthread_cond_signal(&a->wake);
    pthread_cond_broadcast(&a->caught_up);
    pthread_mutex_unlock(&a->lock);
    if (a->has_thread)
        (void)pthread_join(a->thread, NULL); /* it ends */
    if (a->archive && a->has_thread) {
        uint64_t number = a->number, settled = a->settled;
        while (number && read_some(a, number, settled))
            ;
        (void)refill_index_write(a->refill); /* else it begins anew at the next start */
        int r = archive_flush(a->archive);
        if (r < 0)
            log_error("archive %s: %s; what is missing comes from the journal at the next start",
                      archive_dir(a->archive), err_text(r));
    }
    journal_batches_close(a->batches);
    journal_close(a->journal);
    upkeep_destroy(a->upkeep);
    archive_close(a->archive);
    lifeline_destroy(a->lifeline);
    selector_destroy(a->selector);
    archive_state_fini(&a->state);
    refill_index_destroy(a->refill);
    mem_free(a->index);
    free(a->journal_dir);
    retain_rules_fini(&a->rules);
    selector_destroy(a->selected);
    pthread_cond_destroy(&a->wake);
    pthread_cond_destroy(&a->caught_up);
    pthread_mutex_destroy(&a->lock);
    mem_free(a);
}

void archiver_settled(void *arg, uint64_t journal, uint64_t record)
{
    struct archiver *a = arg;
    pthread_mutex_lock(&a->lock);
    a->number = journal;
    a->settled = record;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
}

uint64_t archiver_safe(void *arg)
{
    struct archiver *a = arg;
    pthread_mutex_lock(&a->lock);
    uint64_t safe = a->safe;
    pthread_mutex_unlock(&a->lock);
    return safe;
}

void archiver_hurry(void *arg)
{
    struct archiver *a = arg;
    pthread_mutex_lock(&a->lock);
    a->is_hurried = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
}

void archiver_keep(void *arg, uint64_t record)
{
    refill_index_keep(((struct archiver *)arg)->refill, record);
}

struct refill_index *archiver_index(struct archiver *a)
{
    return a->refill;
}

/* Most events are of the last minutes, and need no look at the rules. What is not archived is none of our
 * business. */
enum archived_verdict archiver_judge(void *arg, const struct event *e, int64_t now_ns)
{
    struct archiver *a = arg;
    int64_t floor = atomic_load_explicit(&a->floor_ns, memory_order_relaxed);
    bool is_new = e->time_ns > now_ns + ARCHIVE_AHEAD_NS;
    uint32_t index;
    if (!is_new && e->time_ns >= now_ns - a->shortest_ns && e->time_ns >= floor)
        return ARCHIVED_KEPT;
    if (!is_new && e->time_ns >= floor && e->time_ns >= now_ns - retain_rules_age(&a->rules, e->schema->name))
        return ARCHIVED_KEPT;
    if (!selector_is_all(a->selected) && selector_run(a->selected, e, 1, &index) == 0)
        return ARCHIVED_KEPT;
    return is_new ? ARCHIVED_TOO_NEW : ARCHIVED_TOO_OLD;
}

void archiver_catch_up(void *arg)
{
    struct archiver *a = arg;
    struct timespec until = after_ms(CATCH_UP_MS);
    pthread_mutex_lock(&a->lock);
    uint64_t settled = a->settled;
    while (a->appended < settled && settled - a->appended <= CATCH_UP_RECORDS && !a->is_stopping &&
           !a->is_stuck && pthread_cond_timedwait(&a->caught_up, &a->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&a->lock);
}

/* ---------------------------------------------------------------- classes of fields */

static bool get_class(void *arg, struct slice event, struct slice field, struct class_state *out)
{
    struct archiver *a = arg;
    if (archive_get_class(a->archive, event, field, out))
        return true;
    *out = (struct class_state){.class = class_by_name(field), .by = CLASS_BY_NAME};
    return false;
}

static uint64_t classes_generation(void *arg)
{
    return archive_classes_generation(((struct archiver *)arg)->archive);
}

/* An order to the archiver's thread, and its answer. */
struct class_order {
    struct slice event, field;
    uint8_t class;
    int r;
    bool is_done;
    pthread_mutex_t lock;
    pthread_cond_t done;
};

static void run_class_order(void *arg, struct archive *archive)
{
    struct class_order *o = arg;
    int r = archive_set_class(archive, o->event, o->field, o->class);
    pthread_mutex_lock(&o->lock);
    o->r = r;
    o->is_done = true;
    pthread_cond_signal(&o->done);
    pthread_mutex_unlock(&o->lock);
}

/* Waits for the archiver: somebody has typed it, and is told when it is on disk. */
static int set_class(void *arg, struct slice event, struct slice field, uint8_t class, struct diag *why)
{
    struct class_order o = {.event = event, .field = field, .class = class};
    pthread_mutex_init(&o.lock, NULL);
    pthread_cond_init(&o.done, NULL);
    archiver_call(arg, run_class_order, &o);
    pthread_mutex_lock(&o.lock);
    while (!o.is_done)
        pthread_cond_wait(&o.done, &o.lock);
    pthread_mutex_unlock(&o.lock);
    pthread_cond_destroy(&o.done);
    pthread_mutex_destroy(&o.lock);
    return o.r < 0 ? diag_set(why, o.r, 0, "%.*s of %.*s: %s", SLICE_ARG(field), SLICE_ARG(event), err_text(o.r)) : 0;
}

struct class_source archiver_classes(struct archiver *a)
{
    return (struct class_source){.arg = a, .get = get_class, .set = set_class, .generation = classes_generation};
}

void archiver_state(void *arg, struct archived_state *out)
{
    struct archiver *a = arg;
    archive_state_get(&a->state, out);
    out->dir = archive_dir(a->archive);
    pthread_mutex_lock(&a->lock);
    out->lag = a->settled > a->appended ? a->settled - a->appended : 0;
    pthread_mutex_unlock(&a->lock);
}

void archiver_baseline(void *arg, const struct baseline_order *o)
{
    archiver_call(arg, archive_state_order, archive_state_keep(o));
}

struct archive *archiver_archive(struct archiver *a)
{
    return a->archive;
}

void archiver_call(struct archiver *a, void (*fn)(void *arg, struct archive *archive), void *arg)
{
    struct call *c = mem_alloc(sizeof *c);
    *c = (struct call){.fn = fn, .arg = arg};
    pthread_mutex_lock(&a->lock);
    *a->calls_end = c;
    a->calls_end = &c->next;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
}

void archiver_status(void *arg, struct args_writer *out)
{
    struct archiver *a = arg;
    pthread_mutex_lock(&a->lock);
    struct archive_counts c = a->counts;
    struct upkeep_counts kept = a->kept;
    uint64_t lag = a->settled > a->appended ? a->settled - a->appended : 0, cursor = a->cursor;
    uint64_t lost_events = a->lost_events, lost_records = a->lost_records;
    pthread_mutex_unlock(&a->lock);
    args_add_uint(out, "archive.taken", c.taken);
    args_add_uint(out, "archive.kept", c.kept);
    args_add_uint(out, "archive.again", c.again);
    args_add_uint(out, "archive.too_old", c.too_old);
    args_add_uint(out, "archive.too_new", c.too_new);
    args_add_uint(out, "archive.refused", c.refused);
    args_add_uint(out, "archive.overflow", c.overflow);
    args_add_uint(out, "archive.shed", c.shed);
    args_add_uint(out, "archive.damaged", c.damaged);
    args_add_uint(out, "archive.lost_events", lost_events);
    args_add_uint(out, "archive.lost_records", lost_records);
    args_add_uint(out, "archive.lag_records", lag);
    args_add_uint(out, "archive.cursor", cursor);
    args_add_uint(out, "archive.flushes", c.flushes);
    args_add_uint(out, "archive.bytes", c.bytes);
    args_add_uint(out, "archive.streams", c.streams);
    args_add_uint(out, "archive.memory", c.head_bytes);
    args_add_uint(out, "archive.rows_in_memory", c.head_rows);
    args_add_uint(out, "archive.size", kept.size_bytes);
    args_add_uint(out, "archive.merges", kept.merges);
    args_add_uint(out, "archive.tiers", kept.tiers);
    args_add_uint(out, "archive.partitions_gone", kept.removed);
}
