/* SPDX-License-Identifier: Apache-2.0 */
/* Where a subscription is.
 *
 * `at` is the position of the last frame that came. On a new connection it is asked for as `from`, and what
 * comes is behind it; a frame whose position is not behind it is one that came before, and dropped. Positions
 * are places in one journal: if SUBSCRIBED names another one, or begins before the place that was asked for,
 * the journal is another, what was in the old one is told as a gap of unknown size, and the new place counts.
 *
 * A durable subscription begins again where the gateway was told CONSUMED, whatever is asked for. For each
 * such place (the newest FEED_MARKS of them: the last CONSUMED may not have arrived) we know how many events
 * came since, and skip so many. A place that we do not know is one of another run: everything from there on
 * is given.
 *
 * A program may stop in the middle of a batch, and a frame has only the position of its last event. So its
 * place is the one before the batch and how many events of it were given; in the next run so many events are
 * skipped. That holds where the same events pass again, and a gap ends it: not with filters that depend on
 * the event before (on_change, cross, delta, every). For those it is the place before the batch: some come
 * again, none is lost. */
#include "consumer/internal.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "event/block.h"
#include "net/control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* ---------------------------------------------------------------- subscriptions */

static bool is_given(const char *text)
{
    return text && text[0];
}

static char *copy(const char *text)
{
    size_t n = text ? strlen(text) : 0;
    char *to = mem_try_alloc(n + 1);
    if (to && n)
        memcpy(to, text, n);
    return to;
}

static void add_option(struct subscription *s, const char *name, const char *text)
{
    if (is_given(text))
        args_add_text(&s->options, name, slice_str(text));
}

static void add_options(struct subscription *to, const struct gridline_subscription *s)
{
    add_option(to, "host", s->host);
    add_option(to, "on_change", s->on_change);
    add_option(to, "cross", s->cross);
    add_option(to, "delta", s->delta);
    add_option(to, "every", s->every);
    add_option(to, "period", s->period);
    add_option(to, "durable", s->durable);
    add_option(to, "queue", s->queue);
    add_option(to, "hold", s->hold);
    to->is_durable = is_given(s->durable);
    to->is_exact =
        !is_given(s->on_change) && !is_given(s->cross) && !is_given(s->delta) && !is_given(s->every);
}

/* `now` is the default, and an agent knows no `from`. */
static bool is_word(const char *from)
{
    return strcmp(from, "now") == 0 || strcmp(from, "oldest") == 0;
}

int subscription_create(const struct gridline_subscription *s, uint32_t id, size_t n, size_t only,
                        struct subscription **out, struct diag *why)
{
    struct feed_place place = {0};
    const bool has_place = is_given(s->from) && !is_word(s->from);
    if (has_place && !feed_parse(slice_str(s->from), &place))
        return diag_set(why, -EINVAL, 0, "from '%.80s' is neither a position nor oldest or now", s->from);
    struct subscription *made = mem_try_alloc(sizeof *made + n * sizeof *made->feeds);
    if (!made)
        return -ENOMEM;
    made->id = id;
    made->events = copy(s->events);
    made->where = copy(s->where);
    made->from = copy(is_given(s->from) && strcmp(s->from, "now") != 0 ? s->from : NULL);
    add_options(made, s);
    if (!made->events || !made->where || !made->from || strbuf_failed(&made->options.list)) {
        subscription_destroy(made);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        struct feed *f = &made->feeds[i];
        f->subscription = made;
        f->state = only == SIZE_MAX || only == i ? FEED_WANTED : FEED_NONE;
        f->at = place.position;
        f->is_placed = has_place;
        f->journal = place.journal;
        f->skip = made->is_exact ? place.skip : 0;
    }
    *out = made;
    return 0;
}

void subscription_destroy(struct subscription *s)
{
    if (!s)
        return;
    mem_free(s->events);
    mem_free(s->where);
    mem_free(s->from);
    args_writer_fini(&s->options);
    mem_free(s);
}

/* ---------------------------------------------------------------- places as text */

size_t feed_print(char to[GRIDLINE_POSITION_MAX], const struct feed_place *p)
{
    size_t n = 0;
    if (p->journal)
        n = (size_t)snprintf(to, GRIDLINE_POSITION_MAX, "%" PRIx64 ".", p->journal);
    n += position_print(to + n, p->position);
    if (p->skip)
        n += (size_t)snprintf(to + n, GRIDLINE_POSITION_MAX - n, "+%" PRIu32, p->skip);
    return n; /* 17, 42 and 11 bytes at most */
}

static bool parse_journal(struct slice text, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < text.n; i++) {
        int digit = text_hex_digit(text.p[i]);
        if (digit < 0)
            return false;
        v = v << 4 | (uint64_t)digit;
    }
    *out = v;
    return text.n > 0 && text.n <= 16 && v;
}

bool feed_parse(struct slice text, struct feed_place *out)
{
    struct feed_place p = {0};
    uint64_t skip = 0;
    const char *dot = memchr(text.p, '.', text.n), *plus = memrchr(text.p, '+', text.n);
    if (dot && !parse_journal(slice_of(text.p, (size_t)(dot - text.p)), &p.journal))
        return false;
    const char *from = dot ? dot + 1 : text.p, *end = plus ? plus : text.p + text.n;
    if (plus &&
        (num_parse_uint(slice_from(text, (size_t)(plus - text.p) + 1), &skip) < 0 || skip > UINT32_MAX))
        return false;
    if (end < from || !position_parse(slice_of(from, (size_t)(end - from)), &p.position))
        return false;
    p.skip = (uint32_t)skip;
    *out = p;
    return true;
}

/* ---------------------------------------------------------------- what is said */

static void put_subscribe(const struct feed *f, struct strbuf *out)
{
    const struct subscription *s = f->subscription;
    struct args_writer options = {0};
    struct args own = args_of(&s->options);
    struct arg a;
    char position[POSITION_TEXT_MAX];
    while (args_next(&own, &a))
        args_add(&options, a.name, a.value);
    if (f->is_placed)
        args_add_text(&options, "from", slice_of(position, position_print(position, f->at)));
    else if (s->from[0] && !f->has_run)
        args_add_text(&options, "from", slice_str(s->from));
    if (strbuf_failed(&options.list))
        out->failed = true;
    frame_put_subscribe(out, &(struct frame_subscribe){.id = s->id,
                                                       .events = slice_str(s->events),
                                                       .where = slice_str(s->where),
                                                       .options = args_of(&options)});
    args_writer_fini(&options);
}

void feed_ask(struct feed *f, struct strbuf *out)
{
    if (f->state == FEED_WANTED) {
        put_subscribe(f, out);
        f->state = FEED_ASKED;
    }
    if (f->state == FEED_RUNNING && f->owes_consumed) {
        frame_put_position(out, FRAME_CONSUMED, f->subscription->id, f->consumed);
        f->owes_consumed = false;
    }
}

void feed_reset(struct feed *f)
{
    if (f->state == FEED_ASKED || f->state == FEED_RUNNING)
        f->state = FEED_WANTED;
    f->owes_consumed = f->consumed.record != 0;
}

/* ---------------------------------------------------------------- what comes */

static int gap(const struct feed *f, uint64_t lost, int reason, struct gridline_item *out)
{
    static const char *const texts[] = {
        [GRIDLINE_GAP_SLOW] = "this was too slow for them",
        [GRIDLINE_GAP_GONE] = "the gateway no longer has them",
        [GRIDLINE_GAP_JOURNAL] = "the gateway has another journal than before",
        [GRIDLINE_GAP_BROKEN] = "the connection broke, and the other end keeps nothing",
        [GRIDLINE_GAP_DAMAGED] = "what came can't be read",
    };
    item_set(out, GRIDLINE_ITEM_GAP, out->link, f->subscription->id, reason, slice_str(texts[reason]));
    out->lost = lost;
    return 1;
}

/* ---------------------------------------------------------------- beginning, and beginning again */

static void add_mark(struct feed *f, struct position p, uint64_t count)
{
    if (f->subscription->is_durable)
        f->marks[f->n_marks++ % FEED_MARKS] = (struct feed_mark){p, count};
}

static const struct feed_mark *find_mark(const struct feed *f, struct position p)
{
    for (size_t i = 0; i < f->n_marks && i < FEED_MARKS; i++)
        if (position_compare(f->marks[i].position, p) == 0)
            return &f->marks[i];
    return NULL;
}

/* Nothing that was known of the stream holds: it begins there. An agent says neither a place nor a journal.
 */
static void start_over(struct feed *f, const struct frame_subscribed *s)
{
    f->at = s->position;
    f->is_placed = s->position.record || s->journal;
    f->skip = 0;
    f->came = 0;
    f->n_marks = 0;
    f->consumed = (struct position){0};
    f->owes_consumed = false;
    add_mark(f, f->at, 0);
}

/* A durable one in the same journal, or who knows. */
static void begin_durable(struct feed *f, const struct frame_subscribed *s)
{
    const struct feed_mark *m = find_mark(f, s->position);
    uint64_t again = m ? f->came - m->count : 0;
    if (position_compare(s->position, f->at) == 0)
        return;
    if (!m || again > UINT32_MAX) {
        start_over(f, s);
        return;
    }
    f->at = s->position;
    f->skip = f->subscription->is_exact ? (uint32_t)again : 0;
}

/* Where it begins; what is missing before that: an enum gridline_gap, or -1. */
static int begin(struct feed *f, const struct frame_subscribed *s)
{
    const bool goes_on = f->is_placed, had_run = f->has_run;
    f->has_run = true;
    if (!goes_on || (s->position.record == 0 && s->journal == 0)) {
        start_over(f, s);
        return goes_on || had_run ? GRIDLINE_GAP_BROKEN : -1; /* nobody can say what came meanwhile */
    }
    const bool is_other = f->journal && s->journal && f->journal != s->journal;
    if (!is_other && f->subscription->is_durable && had_run) {
        begin_durable(f, s);
        return -1;
    }
    if (is_other || position_compare(s->position, f->at) < 0) {
        /* Given a place of another run, a durable one begins at its own all the same. */
        bool is_own = f->subscription->is_durable && !is_other;
        start_over(f, s);
        return is_own ? -1 : GRIDLINE_GAP_JOURNAL;
    }
    add_mark(f, s->position, f->came - f->skip);
    return -1; /* if it is behind our place, a GAP follows */
}

int feed_subscribed(struct feed *f, const struct frame_subscribed *s, struct gridline_item *out, bool *tell)
{
    *tell = false;
    if (f->state != FEED_ASKED && f->state != FEED_RUNNING)
        return 0;
    if (s->status != CONTROL_DONE) { /* also when it ran: the gateway has ended it */
        f->state = FEED_ENDED;
        item_set(out, GRIDLINE_ITEM_REFUSED, out->link, f->subscription->id, s->status, s->text);
        return 1;
    }
    if (f->state != FEED_ASKED)
        return E_PROTO;
    int reason = begin(f, s);
    f->state = FEED_RUNNING;
    f->journal = s->journal;
    *tell = reason >= 0;
    if (reason >= 0)
        return gap(f, 0, reason, out);
    item_set(out, GRIDLINE_ITEM_SUBSCRIBED, out->link, f->subscription->id, 0, s->text); /* "", or a notice */
    return 1;
}

/* ---------------------------------------------------------------- events */

/* The events of a frame; *out is NULL and 0 returned if they can't be read. */
static int decode(const struct frame_events *e, struct batch_builder *builder, struct batch **out)
{
    *out = NULL;
    if (block_check(e->data) != (int64_t)e->data.n || block_count(e->data) != e->count)
        return 0;
    int r = block_decode(e->data, builder, NULL);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    *out = batch_builder_finish(builder, NULL);
    return *out ? 0 : -ENOMEM;
}

int feed_events(struct feed *f, const struct frame_events *e, struct batch_builder *builder,
                struct gridline_item *out)
{
    struct batch *b;
    if (f->state != FEED_RUNNING)
        return E_PROTO;
    if (e->position.record && position_compare(e->position, f->at) <= 0)
        return 0; /* they came before */
    int r = decode(e, builder, &b);
    if (r < 0)
        return r;
    uint32_t skipped = f->skip < e->count ? f->skip : e->count;
    f->before = f->at;
    f->before_count = f->came - f->skip;
    f->came += e->count - skipped;
    f->skip -= skipped;
    if (e->position.record)
        f->at = e->position;
    if (!b)
        return gap(f, e->count, GRIDLINE_GAP_DAMAGED, out);
    if (skipped == e->count) {
        batch_unref(b);
        return 0;
    }
    item_set(out, GRIDLINE_ITEM_EVENT, out->link, f->subscription->id, 0, slice_of("", 0));
    out->feed = f;
    out->batch = b;
    out->at = skipped;
    return 1;
}

int feed_gap(struct feed *f, const struct frame_gap *g, struct gridline_item *out)
{
    if (f->state != FEED_RUNNING)
        return E_PROTO;
    if (g->to.record && position_compare(g->to, f->at) <= 0)
        return 0; /* it was told before */
    if (g->to.record) {
        f->at = g->to;
        f->skip = 0;
    }
    return gap(f, g->lost, g->reason == GAP_SLOW ? GRIDLINE_GAP_SLOW : GRIDLINE_GAP_GONE, out);
}

void feed_position(struct feed *f, struct position p)
{
    if (f->state == FEED_RUNNING && position_compare(p, f->at) > 0)
        f->at = p;
}

bool feed_place(const struct feed *f, const struct gridline_item *current, struct feed_place *out)
{
    *out = (struct feed_place){.position = f->at, .skip = f->skip, .journal = f->journal};
    if (current->feed == f && current->batch && current->at < current->batch->n) {
        out->position = f->before;
        out->skip = f->subscription->is_exact ? (uint32_t)current->at : 0;
    }
    return f->is_placed;
}

void feed_consumed(struct feed *f, const struct gridline_item *current)
{
    const bool is_within = current->feed == f && current->batch && current->at < current->batch->n;
    struct position p = is_within ? f->before : f->at;
    if (p.record == 0 || position_compare(p, f->consumed) <= 0)
        return;
    f->consumed = p;
    f->owes_consumed = true;
    add_mark(f, p, is_within ? f->before_count : f->came - f->skip);
}
