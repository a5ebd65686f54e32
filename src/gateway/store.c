/* SPDX-License-Identifier: Apache-2.0 */
/* Two groups change places: the loop fills one while the thread writes the other. Who may touch what:
 *
 *   loop     everything above `lock` in the struct, and the group that fills
 *   thread   journal, checkpoint, begun, and the group that is written, from the moment work is set until it
 *            sets is_done
 *   lock     guards what is below it; it is never held while a file is touched
 *
 * Before the thread gets its first group the loop may use the journal (store_open, store_restore).
 *
 * A group in memory is as the journal writes it (journal_commit_laid), so that every byte is copied once
 * before it goes into the file. What is left to the thread is the rest of the heads: numbers and checksums.
 *
 * The position of the newest complete checkpoint is the cursor `checkpoint`, right before its first record.
 * It is moved when the last record of a checkpoint is durable, so that a crash in the middle leaves the one
 * before; and it is pinned, so that the segments from there on are kept. */
#include "gateway/store.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "gateway/records.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    RECORD_COST = 32,     /* what a record takes besides its payload, at most */
    KEPT_BYTES = 4 << 20, /* a buffer above that is given back when groups have become small */
    SEGMENT_SHARE = 8,    /* segments of max_bytes */
    SEGMENT_MIN = 4096
};
#define NO_RECORD SIZE_MAX

struct group {
    struct strbuf bytes; /* with room for the zeros behind the last record */
    size_t size;         /* what it will take in the journal, at most */
    size_t open_at;      /* the head of the record that store_add adds to; NO_RECORD */
    size_t open_n;       /* its payload so far */
    uint32_t open_type;
    uint32_t records;
    bool starts_segment, begins_checkpoint, ends_checkpoint;
};

struct store {
    struct group groups[2];
    struct group *filling, *writing; /* writing: NULL, none is */
    bool has_begun;
    bool needs_segment; /* the next group starts one, whatever the size */
    uint32_t segment;
    uint64_t segment_used, segment_bytes, written;
    int fd;
    struct store_stats stats; /* as of the last group that was polled, or the last store_hold */
    uint64_t max_bytes;
    bool has_archive; /* holds[0] is its */
    bool has_thread;
    pthread_t thread;

    struct journal *journal;
    struct journal_cursor *checkpoint;
    uint64_t archived;      /* the archive needs what is above this record */
    uint64_t begun;         /* the first record of a checkpoint that is not complete; 0 = none */
    struct store_stats own; /* the thread's: counts of checkpoints; others, without their bytes */

    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    struct group *work; /* for the thread */
    bool is_done, is_stopping;
    int result;
    struct store_stats latest;
    struct journal_hold holds[JOURNAL_HOLDS_MAX]; /* [0]: the archive's; without one nothing is kept by it */
    size_t n_holds;
    bool has_holds; /* for the thread to apply */
};

static struct group *other(struct store *s, const struct group *g)
{
    return g == &s->groups[0] ? &s->groups[1] : &s->groups[0];
}

static void group_clear(struct group *g)
{
    bool is_large = g->bytes.cap > KEPT_BYTES && g->bytes.n < g->bytes.cap / 4;
    if (is_large)
        strbuf_fini(&g->bytes);
    strbuf_reset(&g->bytes);
    *g = (struct group){.bytes = g->bytes, .open_at = NO_RECORD};
}

/* The rest of this part is the thread. */

/* The position can't be kept: the checkpoint before counts on, and the next one will be tried. */
static void complete_checkpoint(struct store *s)
{
    if (!s->begun)
        return;
    if (journal_cursor_move(s->checkpoint, s->begun - 1) < 0)
        s->own.checkpoint_faults++;
    else
        s->own.checkpoints++;
    s->begun = 0;
}

static int write_group(struct store *s, const struct group *g)
{
    if (g->starts_segment)
        journal_cut(s->journal);
    int r = journal_commit_laid(s->journal, g->bytes.p, g->bytes.n);
    if (r < 0) { /* the senders still have them */
        s->begun = 0;
        return r;
    }
    if (g->begins_checkpoint) {
        struct journal_stats now;
        journal_stats(s->journal, &now);
        s->begun = now.newest;
    }
    if (g->ends_checkpoint)
        complete_checkpoint(s);
    return 0;
}

static struct store_stats measure(const struct store *s)
{
    struct journal_stats j;
    struct store_stats out = s->own;
    journal_stats(s->journal, &j);
    out.first = j.first;
    out.last = j.last;
    out.bytes = j.bytes;
    out.segments = j.segments;
    out.archived = s->archived;
    out.held = journal_bytes_above(s->journal, s->archived);
    for (size_t i = 0; i < out.n_others; i++)
        out.others[i].bytes = journal_bytes_above(s->journal, out.others[i].number);
    out.forced = j.forced;
    return out;
}

/* Applies what store_hold said last; called with the lock, which is given back meanwhile. */
static void apply_holds(struct store *s)
{
    struct journal_hold holds[JOURNAL_HOLDS_MAX];
    size_t n = s->n_holds;
    memcpy(holds, s->holds, n * sizeof *holds);
    s->has_holds = false;
    (void)pthread_mutex_unlock(&s->lock);
    journal_set_holds(s->journal, holds, n);
    s->archived = holds[0].bytes ? holds[0].number : UINT64_MAX;
    s->own.n_others = n - 1;
    memcpy(s->own.others, holds + 1, (n - 1) * sizeof *holds);
    struct store_stats now = measure(s);
    (void)pthread_mutex_lock(&s->lock);
    s->latest = now;
}

static void *run(void *arg)
{
    struct store *s = arg;
    (void)pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->work && !s->is_stopping && !s->has_holds)
            (void)pthread_cond_wait(&s->wake, &s->lock);
        if (s->has_holds) {
            apply_holds(s);
            continue;
        }
        const struct group *g = s->work;
        if (!g)
            break;
        (void)pthread_mutex_unlock(&s->lock);
        int r = write_group(s, g);
        struct store_stats now = measure(s);
        (void)pthread_mutex_lock(&s->lock);
        s->work = NULL;
        s->is_done = true;
        s->result = r;
        s->latest = now;
        (void)pthread_cond_signal(&s->done);
        (void)eventfd_write(s->fd, 1); /* fails only when it has been readable 2^64 times */
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* From here on: the loop. */

/* Signals are for the loop. */
static int start_thread(struct store *s)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    int r = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (r)
        return -r;
    r = pthread_create(&s->thread, NULL, run, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* it was good a moment ago */
    s->has_thread = r == 0;
    return -r;
}

static int open_journal(struct store *s, const char *dir, const struct store_options *o)
{
    uint64_t max = o->max_bytes ? o->max_bytes : UINT64_C(1) << 30;
    const struct journal_options options = {.flags = JOURNAL_OWN_SEGMENTS, .max_bytes = max, .io = o->io};
    uint64_t share = max / SEGMENT_SHARE < STORE_SEGMENT_MAX ? max / SEGMENT_SHARE : STORE_SEGMENT_MAX;
    s->max_bytes = max;
    s->archived = UINT64_MAX;
    s->segment_bytes = o->segment_bytes ? o->segment_bytes : share;
    if (s->segment_bytes < SEGMENT_MIN)
        s->segment_bytes = SEGMENT_MIN;
    int r = journal_open(dir, &options, &s->journal);
    if (r == 0)
        r = journal_cursor_open(s->journal, "checkpoint", &s->checkpoint);
    if (r == 0)
        journal_cursor_pin(s->checkpoint);
    return r;
}

int store_open(const char *dir, const struct store_options *options, struct store **out)
{
    struct store *s = mem_try_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    (void)pthread_mutex_init(&s->lock, NULL); /* these three do not fail on Linux */
    (void)pthread_cond_init(&s->wake, NULL);
    (void)pthread_cond_init(&s->done, NULL);
    s->filling = &s->groups[0];
    s->needs_segment = true;
    for (int i = 0; i < 2; i++)
        s->groups[i].open_at = NO_RECORD;
    s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = s->fd < 0 ? -errno : open_journal(s, dir, options ? options : &(struct store_options){0});
    if (r == 0) {
        s->stats = s->latest = measure(s);
        r = start_thread(s);
    }
    if (r < 0) {
        store_close(s);
        return r;
    }
    *out = s;
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    if (s->has_thread) {
        (void)pthread_mutex_lock(&s->lock);
        s->is_stopping = true;
        (void)pthread_cond_signal(&s->wake);
        (void)pthread_mutex_unlock(&s->lock);
        (void)pthread_join(s->thread, NULL); /* it is there and is joined once */
    }
    journal_close(s->journal);
    if (s->fd >= 0)
        (void)close(s->fd);
    for (int i = 0; i < 2; i++)
        strbuf_fini(&s->groups[i].bytes);
    (void)pthread_cond_destroy(&s->wake);
    (void)pthread_cond_destroy(&s->done);
    (void)pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

/* Is there a whole checkpoint from this record on? Damage in it or a missing end: no. */
static int has_checkpoint(struct journal *j, uint64_t from, bool *is_whole)
{
    struct journal_reader *reader;
    struct journal_item item;
    struct record_checkpoint begin = {0}, piece;
    *is_whole = false;
    int r = journal_reader_open(j, from, &reader);
    if (r < 0)
        return r;
    while ((r = journal_reader_next(reader, &item)) == 0) {
        if (item.kind != JOURNAL_RECORD)
            break;
        bool is_piece = item.type == STORE_CHECKPOINT && record_get_checkpoint(item.payload, &piece) == 0;
        if (item.first == from)
            begin = is_piece ? piece : begin;
        if (begin.kind != CHECKPOINT_BEGIN)
            break;
        if (is_piece && piece.kind == CHECKPOINT_END && piece.id == begin.id) {
            *is_whole = true;
            break;
        }
    }
    journal_reader_close(reader);
    return r == E_NODATA ? 0 : r;
}

static int read_from(struct journal *j, uint64_t from, store_each each, void *arg)
{
    struct journal_reader *reader;
    int r = journal_reader_open(j, from, &reader);
    if (r < 0)
        return r;
    struct journal_item item;
    while ((r = journal_reader_next(reader, &item)) == 0) {
        r = each(arg, &item);
        if (r < 0)
            break;
    }
    journal_reader_close(reader);
    return r == E_NODATA ? 0 : r;
}

int store_restore(struct store *s, store_each each, void *arg)
{
    struct journal_cursor_info at;
    bool is_whole;
    journal_cursor_info(s->checkpoint, &at);
    int r = has_checkpoint(s->journal, at.position + 1, &is_whole);
    return r < 0 ? r : read_from(s->journal, is_whole ? at.position + 1 : 0, each, arg);
}

bool store_begin(struct store *s)
{
    struct group *g = s->filling;
    if (s->has_begun)
        return g->starts_segment && g->bytes.n == 0;
    s->has_begun = true;
    if (!s->needs_segment && s->segment_used < s->segment_bytes)
        return false;
    g->starts_segment = true;
    s->needs_segment = false;
    s->segment_used = 0;
    s->segment += s->segment == UINT32_MAX ? 2 : 1;
    return true;
}

uint32_t store_segment(const struct store *s)
{
    return s->segment;
}

/* The record that is open has no more to come. */
static void end_record(struct group *g)
{
    if (g->open_at == NO_RECORD)
        return;
    const size_t zeros = -g->bytes.n % JOURNAL_LAID_ALIGN;
    journal_lay_head(g->bytes.p + g->open_at, g->open_type, g->open_n);
    memset(g->bytes.p + g->bytes.n, 0, zeros);
    strbuf_advance(&g->bytes, zeros);
    g->open_at = NO_RECORD;
}

/* Room for n more bytes of payload at the end, a head before them if asked for, and zeros behind them. */
static int reserve(struct group *g, size_t n, bool has_head, char **to)
{
    if (n > JOURNAL_RECORD_MAX)
        return E_LIMIT;
    if (g->size + n + (has_head ? RECORD_COST : 0) > STORE_GROUP_MAX)
        return -ENOBUFS;
    *to = strbuf_room(&g->bytes, n + (has_head ? JOURNAL_LAID_HEAD : 0) + JOURNAL_LAID_ALIGN);
    if (!*to)
        g->bytes.failed = false; /* this one is refused; what is before it is whole */
    return *to ? 0 : -ENOMEM;
}

static char *put_slice(char *to, struct slice s)
{
    if (s.n)
        memcpy(to, s.p, s.n);
    return to + s.n;
}

/* A record of its own, of head and body. */
static int start_record(struct store *s, enum store_type type, struct slice head, struct slice body)
{
    struct group *g = s->filling;
    size_t n = head.n + body.n;
    char *to;
    (void)store_begin(s);
    end_record(g);
    int r = reserve(g, n, true, &to);
    if (r < 0)
        return r;
    (void)put_slice(put_slice(to + JOURNAL_LAID_HEAD, head), body);
    g->open_at = g->bytes.n;
    g->open_n = n;
    g->open_type = (uint32_t)type;
    strbuf_advance(&g->bytes, JOURNAL_LAID_HEAD + n);
    g->size += RECORD_COST + n;
    g->records++;
    return 0;
}

int store_append(struct store *s, enum store_type type, struct slice payload)
{
    int r = start_record(s, type, payload, (struct slice){"", 0});
    if (r == 0)
        end_record(s->filling);
    return r;
}

int store_add(struct store *s, enum store_type type, struct slice head, struct slice body)
{
    struct group *g = s->filling;
    size_t n = head.n + body.n;
    if (g->open_at == NO_RECORD || g->open_type != (uint32_t)type || g->open_n + n > STORE_ADDED_MAX)
        return start_record(s, type, head, body);
    char *to;
    int r = reserve(g, n, false, &to);
    if (r < 0)
        return r;
    (void)put_slice(put_slice(to, head), body);
    strbuf_advance(&g->bytes, n);
    g->open_n += n;
    g->size += n;
    return 0;
}

void store_begin_checkpoint(struct store *s)
{
    s->filling->begins_checkpoint = true;
}

void store_end_checkpoint(struct store *s)
{
    s->filling->ends_checkpoint = true;
}

size_t store_filled(const struct store *s)
{
    return s->filling->size;
}

uint32_t store_records(const struct store *s)
{
    return s->filling->records;
}

uint64_t store_written(const struct store *s)
{
    return s->written;
}

void store_commit(struct store *s)
{
    struct group *g = s->filling;
    end_record(g);
    s->writing = g;
    s->filling = other(s, g);
    s->has_begun = false;
    s->segment_used += g->size;
    s->written += g->size;
    (void)pthread_mutex_lock(&s->lock);
    s->work = g;
    s->is_done = false;
    (void)pthread_cond_signal(&s->wake);
    (void)pthread_mutex_unlock(&s->lock);
}

int store_fd(const struct store *s)
{
    return s->fd;
}

/* is_done has been seen. */
static int finish(struct store *s, int r)
{
    eventfd_t times;
    (void)eventfd_read(s->fd, &times); /* it only wakes the loop */
    group_clear(s->writing);
    s->writing = NULL;
    if (r < 0) {
        group_clear(s->filling);
        s->has_begun = false;
        s->needs_segment = true;
    }
    return r;
}

bool store_poll(struct store *s, int *result)
{
    if (!s->writing)
        return false;
    (void)pthread_mutex_lock(&s->lock);
    bool is_done = s->is_done;
    int r = s->result;
    s->stats = is_done ? s->latest : s->stats;
    (void)pthread_mutex_unlock(&s->lock);
    if (is_done)
        *result = finish(s, r);
    return is_done;
}

int store_wait(struct store *s)
{
    (void)pthread_mutex_lock(&s->lock);
    while (!s->is_done)
        (void)pthread_cond_wait(&s->done, &s->lock);
    int r = s->result;
    s->stats = s->latest;
    (void)pthread_mutex_unlock(&s->lock);
    return finish(s, r);
}

void store_hold(struct store *s, const struct store_readers *readers)
{
    assert(readers->n_others <= STORE_READERS_MAX);
    s->has_archive = readers->has_archive;
    (void)pthread_mutex_lock(&s->lock);
    s->holds[0] = readers->has_archive ? (struct journal_hold){readers->archive, UINT64_MAX}
                                       : (struct journal_hold){0, 0};
    if (readers->n_others)
        memcpy(s->holds + 1, readers->others, readers->n_others * sizeof *s->holds);
    s->n_holds = 1 + readers->n_others;
    s->has_holds = true;
    if (!s->writing)
        s->stats = s->latest; /* of the last group, whose end was polled, or of holds applied since */
    (void)pthread_cond_signal(&s->wake);
    (void)pthread_mutex_unlock(&s->lock);
}

uint64_t store_held(const struct store *s)
{
    if (!s->has_archive)
        return 0;
    return s->stats.held + s->filling->size + (s->writing ? s->writing->size : 0);
}

uint64_t store_max(const struct store *s)
{
    return s->max_bytes;
}

int store_check_room(const struct store *s, enum store_room room)
{
    static const unsigned reserve[] = {[ROOM_SAMPLES] = 2, [ROOM_EVENTS] = 1, [ROOM_RECORDS] = 0};
    uint64_t segment =
        s->segment_bytes < s->max_bytes / SEGMENT_SHARE ? s->segment_bytes : s->max_bytes / SEGMENT_SHARE;
    return store_held(s) >= s->max_bytes - reserve[room] * segment ? -EDQUOT : 0;
}

void store_stats(const struct store *s, struct store_stats *out)
{
    *out = s->stats;
}

int store_read(const char *dir, store_each each, void *arg)
{
    struct journal *j;
    const struct journal_options options = {.flags = JOURNAL_READONLY};
    int r = journal_open(dir, &options, &j);
    if (r < 0)
        return r;
    r = read_from(j, 0, each, arg);
    journal_close(j);
    return r;
}
