/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks to a gateway, kept until it has acknowledged them.
 *
 * While the receiver can't be reached, does not answer, or lags so far that the memory is full, blocks move
 * to the spool if there is one; from then on new blocks go there too until it has been replayed. Without a
 * spool, or when that takes no more either, the newest block is dropped and counted (unwritable): what was
 * taken first is kept, so that what arrives is a whole beginning. With UPLINK_SPOOL_FIRST blocks wait in
 * memory for uplink_commit only, and are sent from memory only while the spool can't be written.
 *
 * Ledger: given = passed + queued + dropped, in events, at every moment. Passed means acknowledged. What an
 * earlier run left in the spool is sent too, but is not in the counts: it is in those of that run.
 *
 * What waits is said in the header. */
#include "net/uplink_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>

enum { COUNTS_MS = 10000, SPILL_MS = 100, REPLAY_MS = 10 };
static const int64_t ns_per_ms = 1000000;

/* ---------------------------------------------------------------- items */

static void list_init(struct uplink_list *l)
{
    l->head = NULL;
    l->tail = &l->head;
}

void uplink_list_add(struct uplink_list *l, struct uplink_item *i)
{
    i->next = NULL;
    *l->tail = i;
    l->tail = &i->next;
}

struct uplink_item *uplink_list_take(struct uplink_list *l)
{
    struct uplink_item *i = l->head;
    if (!i)
        return NULL;
    l->head = i->next;
    if (!l->head)
        l->tail = &l->head;
    return i;
}

void uplink_item_free(struct uplink_item *i)
{
    if (!i)
        return;
    mem_free(i->position);
    mem_free(i->data);
    mem_free(i);
}

struct slice uplink_item_block(const struct uplink_item *i)
{
    return slice_of(i->data + (i->data_n - i->size), i->size);
}

static void list_free(struct uplink_list *l)
{
    struct uplink_item *i;
    while ((i = uplink_list_take(l)))
        uplink_item_free(i);
}

bool uplink_is_spool_first(const struct uplink *u)
{
    return (u->options.flags & UPLINK_SPOOL_FIRST) && u->spool_dir;
}

/* ---------------------------------------------------------------- flight */

/* The receiver has it or will never take it: into the counts. */
static void count_done(struct uplink *u, const struct uplink_item *i)
{
    u->counts.queued -= i->count;
    u->counts.passed += i->count - i->n_refused;
    u->counts.dropped[DROP_TOO_OLD] += i->n_too_old;
    u->counts.dropped[DROP_TOO_NEW] += i->n_too_new;
    u->counts.dropped[DROP_REFUSED] += i->n_refused - i->n_too_old - i->n_too_new;
}

/* The item is done with. */
static void settle(struct uplink *u, struct uplink_item *i)
{
    u->window_used -= i->window;
    u->n_flight--;
    if (i->data)
        u->memory -= i->data_n;
    uplink_mark_apply(u, i); /* if it is in memory; else the mark is in the journal already */
    if (!i->is_counted)
        return;
    count_done(u, i);
    if (i->record && !i->is_gone)
        uplink_spool_settle(u, i->record, i->count);
}

/* Takes what is done from the front. One that is done behind one that is not waits for it, so that the place
 * in the spool is a single number. */
static void settle_front(struct uplink *u)
{
    uint64_t record = 0;
    while (u->flight.head && u->flight.head->is_done) {
        struct uplink_item *i = uplink_list_take(&u->flight);
        record = i->record ? i->record : record;
        settle(u, i);
        uplink_item_free(i);
    }
    if (record)
        uplink_spool_pass(u, record);
}

void uplink_acknowledge(struct uplink *u, const struct frame_origin *origin, uint64_t seq)
{
    if (frame_same_origin(&u->options.origin, origin) && seq > u->held_seq)
        u->held_seq = seq;
    for (struct uplink_item *i = u->flight.head; i; i = i->next)
        if (!i->is_done && i->last <= seq && frame_same_origin(&i->origin, origin))
            i->is_done = true;
    settle_front(u);
}

void uplink_refuse(struct uplink *u, const struct frame_refuse *r)
{
    if (r->count == 0)
        return;
    for (struct uplink_item *i = u->flight.head; i; i = i->next) {
        uint32_t n = i->is_done || !frame_same_origin(&i->origin, &r->origin)
                         ? 0
                         : frame_refused_of(r, i->first, i->count);
        n = n < i->count - i->n_refused ? n : i->count - i->n_refused;
        i->n_refused += n;
        i->n_too_old += r->reason == REFUSE_TOO_OLD ? n : 0;
        i->n_too_new += r->reason == REFUSE_TOO_NEW ? n : 0;
        i->is_done = i->is_done || (n && i->n_refused == i->count);
    }
    settle_front(u);
}

/* It was on the way when its record was forced out, and now it is nowhere. */
static void lose(struct uplink *u, const struct uplink_item *i)
{
    if (!i->is_counted) {
        u->counts.earlier_forced += i->is_done ? 0 : 1;
    } else if (i->is_done) {
        count_done(u, i);
    } else {
        u->counts.queued -= i->count;
        u->counts.dropped[DROP_FORCED] += i->count;
    }
}

void uplink_take_back(struct uplink *u)
{
    struct uplink_list back;
    struct uplink_item *i;
    list_init(&back);
    while ((i = uplink_list_take(&u->flight))) {
        u->n_flight--;
        if (i->is_gone)
            lose(u, i);
        i->window = 0;
        i->is_done = false;
        i->n_refused = i->n_too_old = i->n_too_new = 0;
        if (i->record)
            uplink_item_free(i);
        else
            uplink_list_add(&back, i);
    }
    u->window_used = 0;
    if (u->spool)
        uplink_spool_rewind(u, (u->spool_done < u->spool_oldest ? u->spool_oldest : u->spool_done + 1));
    if (!back.head)
        return;
    *back.tail = u->queue.head; /* in front of what has not been sent */
    if (u->queue.head)
        back.tail = u->queue.tail;
    u->queue = back;
}

/* Blocks take half of the output at most, so that what the owner sends now is not held up by a replay. */
bool uplink_may_launch(const struct uplink *u)
{
    bool has_window = u->window_used < u->window || u->window_used == 0;
    return u->state == LINK_READY && has_window && u->n_flight < UPLINK_FLIGHT_MAX &&
           u->out.n - u->out_at < UPLINK_OUTPUT_GOAL / 2;
}

/* The window is respected for the block at hand, except that one may always be on its way. */
static bool has_room(const struct uplink *u, uint32_t size)
{
    return u->window_used == 0 || u->window_used + size <= u->window;
}

/* Appends a whole frame to the output, or nothing. */
static int put_frame(struct uplink *u, uint8_t type, struct slice payload)
{
    size_t at = u->out.n;
    frame_put(&u->out, type, 0, payload);
    if (!strbuf_failed(&u->out))
        return 0;
    u->out.failed = false;
    u->out.n = at;
    return -ENOMEM;
}

int uplink_launch(struct uplink *u, struct uplink_item *i, struct slice bytes)
{
    bool is_held = bytes.n == 0 || (i->last <= u->held_seq && frame_same_origin(&u->options.origin, &i->origin));
    if (!is_held) {
        if (!has_room(u, i->size))
            return -EAGAIN;
        int r = put_frame(u, FRAME_BATCH, bytes);
        if (r < 0)
            return r;
        i->window = i->size;
        u->window_used += i->size;
    }
    i->is_done = is_held;
    uplink_list_add(&u->flight, i);
    u->n_flight++;
    return 0;
}

/* With UPLINK_SPOOL_FIRST only when the spool can't be had. */
static bool may_send_memory(const struct uplink *u)
{
    return !uplink_is_spool_first(u) || !u->spool || u->is_failing;
}

static void launch_queue(struct uplink *u)
{
    while (u->queue.head && may_send_memory(u) && !uplink_spool_has_unread(u) && uplink_may_launch(u)) {
        struct uplink_item *i = u->queue.head, *behind = i->next;
        if (uplink_launch(u, i, uplink_item_block(i)) < 0)
            return;
        u->queue.head = behind; /* the launch has linked it elsewhere */
        if (!behind)
            u->queue.tail = &u->queue.head;
    }
}

/* ---------------------------------------------------------------- counts */

/* The counters of this run as COUNTS. */
static struct frame_counts frame_of(const struct uplink_counts *counts, const struct frame_origin *origin)
{
    struct frame_counts c = {.origin = *origin, .taken = counts->given, .passed = counts->passed};
    c.queued = counts->queued;
    for (size_t i = 0; i < DROP_REASONS; i++)
        c.dropped[i] = counts->dropped[i];
    return c;
}

static bool counts_changed(const struct uplink *u)
{
    return memcmp(&u->counts, &u->counts_sent, sizeof u->counts) != 0;
}

void uplink_tell_counts(struct uplink *u)
{
    if (u->state != LINK_READY || !counts_changed(u))
        return;
    struct frame_counts c = frame_of(&u->counts, &u->options.origin);
    frame_put_counts(&u->out, &c);
    u->counts_sent = u->counts;
    u->counts_at_ns = u->now_ns;
}

static void send_counts(struct uplink *u, int64_t now_ns)
{
    if (now_ns - u->counts_at_ns >= COUNTS_MS * ns_per_ms)
        uplink_tell_counts(u);
}

/* ---------------------------------------------------------------- opening and closing */

int uplink_open(struct slice addresses, const struct uplink_options *options, struct uplink **out,
                struct diag *why)
{
    struct uplink *u = mem_try_alloc(sizeof *u);
    if (!u)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    u->options = *options;
    u->fd = -1;
    list_init(&u->flight);
    list_init(&u->queue);
    u->memory_max = options->queue_max ? (size_t)options->queue_max : UPLINK_QUEUE_BYTES;
    u->spool_min = UPLINK_SPOOL_MIN;
    if (getrandom(&u->random, sizeof u->random, GRND_NONBLOCK) != sizeof u->random)
        u->random = (uint64_t)clock_mono_ns();
    u->random |= 1;
    int r = uplink_address_parse(u, addresses, why);
    if (r < 0) {
        uplink_close(u);
        return r;
    }
    *out = u;
    return 0;
}

void uplink_close(struct uplink *u)
{
    if (!u)
        return;
    uplink_link_reset(u);
    list_free(&u->flight);
    list_free(&u->queue);
    uplink_spool_tidy(u, true);
    uplink_spool_close(u, false);
    uplink_marks_fini(u);
    mem_free(u->spool_dir);
    mem_free(u->peers);
    mem_free(u->address_text);
    mem_free(u);
}

static void tell_marks(const struct uplink *u,
                       void (*on_mark)(void *arg, struct slice name, struct slice position), void *arg)
{
    for (const struct uplink_mark *m = u->marks; m; m = m->next)
        if (m->position_n)
            on_mark(arg, slice_of(m->name, m->name_n), slice_of(m->position, m->position_n));
}

int uplink_spool(struct uplink *u, const char *dir, uint64_t max_bytes,
                 void (*on_mark)(void *arg, struct slice name, struct slice position), void *arg)
{
    if (u->spool_dir)
        return -EEXIST;
    size_t n = strlen(dir) + 1;
    char *copy = mem_try_alloc(n);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, dir, n);
    u->spool_dir = copy;
    u->spool_options.max_bytes = max_bytes ? max_bytes : UPLINK_SPOOL_BYTES;
    if (uplink_is_spool_first(u) && u->spool_options.max_bytes < u->spool_min)
        u->spool_options.max_bytes = u->spool_min;
    int r = uplink_spool_open(u);
    if (r < 0) {
        uplink_marks_fini(u);
        mem_free(u->spool_dir);
        u->spool_dir = NULL;
        return r;
    }
    if (on_mark)
        tell_marks(u, on_mark, arg);
    return 0;
}

/* ---------------------------------------------------------------- putting */

/* A block with its mark (NULL = none; reserved), and the position. */
struct put {
    struct slice block;
    uint32_t n;
    uint64_t first_seq;
    struct uplink_mark *mark;
    struct slice position;
};

/* The record's payload: see uplink_marks.c. */
static int fill_item(struct uplink_item *i, const struct put *p)
{
    struct strbuf head = {0};
    if (p->mark) {
        uplink_mark_put(&head, slice_of(p->mark->name, p->mark->name_n), p->position);
        i->position = mem_try_alloc(p->position.n + 1);
        if (i->position && p->position.n)
            memcpy(i->position, p->position.p, p->position.n);
        i->position_n = (uint32_t)p->position.n;
    }
    i->size = (uint32_t)p->block.n;
    i->data_n = (uint32_t)(head.n + p->block.n);
    i->data = mem_try_alloc(i->data_n);
    bool is_whole = i->data && !strbuf_failed(&head) && (!p->mark || i->position);
    if (is_whole && head.n)
        memcpy(i->data, head.p, head.n);
    if (is_whole && p->block.n)
        memcpy(i->data + head.n, p->block.p, p->block.n);
    strbuf_fini(&head);
    return is_whole ? 0 : -ENOMEM;
}

static struct uplink_item *make_item(const struct uplink *u, const struct put *p)
{
    struct uplink_item *i = mem_try_alloc(sizeof *i);
    if (!i)
        return NULL;
    i->origin = u->options.origin;
    i->first = p->first_seq;
    i->last = p->first_seq + p->n - 1;
    i->count = p->n;
    i->is_counted = true;
    i->mark = p->mark;
    if (fill_item(i, p) < 0) {
        uplink_item_free(i);
        return NULL;
    }
    return i;
}

/* Is the receiver not to be had, or the spool in use already? Or is something left that the disk did not
 * take? */
static bool must_spill(const struct uplink *u)
{
    if (uplink_is_spool_first(u))
        return u->is_failing && (u->memory || uplink_marks_are_dirty(u));
    return u->spool_dir && u->queue.head && (u->state != LINK_READY || !uplink_spool_is_empty(u));
}

static void drop(struct uplink *u, const struct put *p, enum drop_reason reason, int why)
{
    u->counts.dropped[reason] += p->n;
    u->lost = u->lost ? u->lost : why;
    if (p->mark)
        uplink_mark_release(u, p->mark);
}

static bool has_room_for(const struct uplink *u, const struct put *p)
{
    size_t size = p->block.n + (p->mark ? p->mark->name_n + p->position.n : 0);
    return u->memory + size <= u->memory_max;
}

static void put(struct uplink *u, const struct put *p)
{
    u->counts.given += p->n;
    if (p->block.n > BLOCK_HEAD + BLOCK_BODY_MAX) {
        drop(u, p, DROP_TOO_LARGE, E_LIMIT);
        return;
    }
    if (!has_room_for(u, p))
        (void)uplink_spool_spill(u, false); /* the memory says how it went */
    if (!has_room_for(u, p)) {
        drop(u, p, DROP_UNWRITABLE, -ENOBUFS);
        return;
    }
    struct uplink_item *i = make_item(u, p);
    if (!i) {
        drop(u, p, DROP_MEMORY, -ENOMEM);
        return;
    }
    if (u->memory == 0 && !uplink_marks_are_dirty(u))
        u->is_failing = false; /* all that the disk did not take has been sent: this is for the disk again */
    uplink_list_add(&u->queue, i);
    u->memory += i->data_n;
    u->counts.queued += p->n;
    if (must_spill(u))
        (void)uplink_spool_spill(u, false); /* tried again by pump and commit */
}

void uplink_put(struct uplink *u, struct slice block, uint32_t n, uint64_t first_seq)
{
    put(u, &(struct put){.block = block, .n = n, .first_seq = first_seq});
}

int uplink_put_marked(struct uplink *u, struct slice block, uint32_t n, uint64_t first_seq,
                      struct slice mark_name, struct slice mark_position)
{
    struct put p = {.block = block, .n = n, .first_seq = first_seq, .position = mark_position};
    if (mark_name.n == 0 || mark_name.n > UPLINK_MARK_NAME_MAX || mark_position.n > UPLINK_MARK_POSITION_MAX)
        return E_LIMIT;
    int r = uplink_is_spool_first(u) ? uplink_mark_reserve(u, mark_name, &p.mark) : 0;
    if (r < 0)
        return r;
    if (p.mark || n)
        put(u, &p);
    return 0;
}

int uplink_commit(struct uplink *u)
{
    if (!uplink_is_spool_first(u))
        return 0;
    int r = uplink_spool_spill(u, true);
    uplink_spool_tidy(u, false);
    if (r == 0)
        r = u->lost;
    u->lost = 0;
    return r;
}

/* ---------------------------------------------------------------- moving along */

static int wait_ms(int64_t until_ns, int64_t now_ns)
{
    if (until_ns == INT64_MAX)
        return -1;
    int64_t ms = (until_ns - now_ns + ns_per_ms - 1) / ns_per_ms;
    return ms < 0 ? 0 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int uplink_pump(struct uplink *u, int64_t now_ns)
{
    u->now_ns = now_ns;
    u->has_more = false;
    uplink_link_pump(u, now_ns);
    if (must_spill(u))
        (void)uplink_spool_spill(u, false); /* tried again below */
    if (u->state == LINK_READY) {
        uplink_spool_replay(u);
        launch_queue(u);
        settle_front(u); /* what the receiver held already was not sent */
        send_counts(u, now_ns);
    }
    uplink_link_flush(u, now_ns);
    u->was_waiting = uplink_link_is_waiting(u);
    int64_t until = uplink_link_next_ns(u);
    if (u->state == LINK_READY && counts_changed(u))
        until = earlier(until, u->counts_at_ns + COUNTS_MS * ns_per_ms);
    if (must_spill(u))
        until = earlier(until, now_ns + SPILL_MS * ns_per_ms);
    if (u->has_input)
        until = now_ns;
    if (u->has_more && uplink_may_launch(u))
        until = earlier(until, now_ns + REPLAY_MS * ns_per_ms);
    return wait_ms(until, now_ns);
}

int uplink_wait_fd(const struct uplink *u, short *events)
{
    bool has_output = u->out_at < u->out.n;
    if (u->state == LINK_CONNECTING)
        *events = POLLOUT;
    else if (u->transport)
        *events = (short)(u->read_wants | (has_output ? u->write_wants : 0));
    else
        *events = (short)(POLLIN | (has_output ? POLLOUT : 0));
    return u->fd;
}

uint32_t uplink_dials(const struct uplink *u)
{
    return u->dials;
}

bool uplink_is_ready(const struct uplink *u)
{
    return u->state == LINK_READY;
}

void uplink_break(struct uplink *u, int64_t now_ns)
{
    if (u->state == LINK_DOWN)
        return;
    u->has_progress = false; /* nor did it last: it was of no use */
    u->up_at_ns = now_ns;
    /* What the kernel could not send yet must not arrive later, behind what the next connection says. */
    const struct linger abort = {.l_onoff = 1, .l_linger = 0};
    if (u->fd >= 0)
        (void)setsockopt(u->fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort); /* else as after any break */
    uplink_link_break(u, now_ns, 0);
}

const char *uplink_address(const struct uplink *u)
{
    return u->peers[u->peer].text;
}

const char *uplink_why(const struct uplink *u)
{
    return u->why.message;
}

int uplink_send(struct uplink *u, uint8_t type, struct slice payload)
{
    if (u->state != LINK_READY)
        return -ENOTCONN;
    if (payload.n > FRAME_PAYLOAD_MAX)
        return E_LIMIT;
    if (u->out.n - u->out_at >= UPLINK_OUTPUT_GOAL)
        return -EAGAIN;
    return put_frame(u, type, payload);
}

void uplink_bytes(const struct uplink *u, uint64_t *sent, uint64_t *received)
{
    *sent = u->bytes_sent;
    *received = u->bytes_received;
}

void uplink_counts(const struct uplink *u, struct uplink_counts *out)
{
    *out = u->counts;
}

/* ---------------------------------------------------------------- the end */

/* What is still in memory and has no spool to go to is lost. */
static void give_up(struct uplink *u, struct uplink_list *l)
{
    struct uplink_item *i;
    while ((i = uplink_list_take(l))) {
        if (i->is_gone)
            lose(u, i);
        if (i->data) {
            u->memory -= i->data_n;
            u->counts.queued -= i->count;
            u->counts.dropped[DROP_UNWRITABLE] += i->count;
        }
        if (i->mark)
            uplink_mark_release(u, i->mark);
        uplink_item_free(i);
    }
}

/* The counts that end the epoch. */
static struct frame_counts last_counts(const struct uplink *u, uint64_t taken,
                                       const uint64_t before[DROP_REASONS])
{
    struct frame_counts c = frame_of(&u->counts, &u->options.origin);
    c.is_final = true;
    c.taken = taken;
    for (size_t i = 0; i < DROP_REASONS; i++)
        c.dropped[i] += before[i];
    return c;
}

void uplink_goodbye(struct uplink *u, uint64_t taken, const uint64_t dropped_before[DROP_REASONS])
{
    int64_t now = clock_mono_ns();
    (void)uplink_pump(u, now);         /* the last acknowledgements; goodbye is the end of waiting */
    (void)uplink_spool_spill(u, true); /* what is left is given up */
    give_up(u, &u->flight);
    give_up(u, &u->queue);
    u->n_flight = 0;
    struct frame_counts c = last_counts(u, taken, dropped_before);
    if (u->state == LINK_READY) {
        frame_put_counts(&u->out, &c);
        frame_put_bye(&u->out, BYE_DONE, SLICE_LIT(""));
        uplink_link_flush(u, now);
    }
    bool is_told = u->state == LINK_READY && u->out_at == u->out.n;
    while (!is_told) { /* the record itself may force out others; then it is not true any more */
        uplink_spool_add_counts(u, &c);
        is_told = c.dropped[DROP_FORCED] == u->counts.dropped[DROP_FORCED] + dropped_before[DROP_FORCED];
        c = last_counts(u, taken, dropped_before);
    }
}

void uplink_after_fork(struct uplink *u, const struct frame_origin *origin)
{
    uplink_link_reset(u);
    list_free(&u->flight);
    list_free(&u->queue);
    u->n_flight = u->memory = 0;
    uplink_spool_close(u, true);
    uplink_marks_fini(u);
    u->spool_retry_ns = 0;
    u->is_failing = false;
    u->lost = 0;
    u->options.origin = *origin;
    u->random ^= (uint64_t)clock_mono_ns() << 1; /* so that parent and child don't come back together */
    u->random |= 1;
    u->retry_at_ns = u->backoff_ms = 0;
    u->held_seq = 0;
    u->counts = u->counts_sent = (struct uplink_counts){0};
}
