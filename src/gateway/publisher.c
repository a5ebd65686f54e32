/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/publisher.h"

#include "event/block.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static void settle(struct publisher *p, int result, const char *text)
{
    p->result = result;
    p->is_waiting = false;
    if (text != p->text)                                     /* it may be said already */
        (void)snprintf(p->text, sizeof p->text, "%s", text); /* cut to fit is fine */
    event_active(p->turn, EV_TIMEOUT, 0);
}

/* ---------------------------------------------------------------- decoding */

static bool has_origin(const struct publisher *p)
{
    return p->origin.epoch != 0;
}

static void note_error(struct publisher *p, const struct diag *why)
{
    p->refused++;
    if (p->n_errors < PUBLISHER_ERRORS)
        p->errors[p->n_errors++] = *why;
}

/* -EACCES: of one of them it may not. */
static int check_access(struct publisher *p, const struct batch *b)
{
    struct value room[EVENT_FIELDS_MAX];
    struct event seen;
    for (size_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];
        if (access_view_event(p->says, e, &seen, room))
            continue;
        access_tell_denied(p->who, ACCESS_PUBLISH, e->host, e->schema->name);
        (void)snprintf(p->text, sizeof p->text, "you may not publish %.*s of host '%.*s' here",
                       (int)(e->schema->name.n > 60 ? 60 : e->schema->name.n), e->schema->name.p,
                       (int)(e->host.n > 60 ? 60 : e->host.n), e->host.p);
        return -EACCES;
    }
    return 0;
}

static int finish_block(struct publisher *p, struct block_writer *w)
{
    struct batch_origin origin = p->origin;
    size_t n = block_writer_count(w);
    origin.first_seq = has_origin(p) ? p->origin.first_seq + p->events : 0;
    int r = n ? block_writer_finish(w, &origin, &p->blocks) : 0;
    if (r == 0)
        p->events += n;
    return r;
}

static int add_batch(struct publisher *p, const struct batch *b, struct block_writer *w)
{
    int r = check_access(p, b);
    for (size_t i = 0; i < b->n && r == 0; i++) {
        r = block_writer_add(w, &b->events[i]);
        if (r != E_LIMIT || block_writer_count(w) == 0)
            continue;
        r = finish_block(p, w);
        if (r == 0)
            r = block_writer_add(w, &b->events[i]);
    }
    return r;
}

static int drain(struct publisher *p, struct batch_builder *builder, struct block_writer *w)
{
    if (batch_builder_count(builder) == 0)
        return 0;
    struct batch *b = batch_builder_finish(builder, NULL);
    int r = b ? add_batch(p, b, w) : -ENOMEM;
    batch_unref(b);
    return r;
}

/* A text: events into blocks with our origin. */
static int read_text(struct publisher *p, struct decoder *d, struct slice body, struct batch_builder *builder,
                     struct block_writer *w)
{
    int r = 0;
    while (body.n && r == 0) {
        struct diag why = {0};
        size_t used;
        int got = decoder_run(d, body, true, builder, &used, &why);
        body = slice_from(body, used);
        if (got == -ENOMEM)
            return got;
        if (got < 0)
            note_error(p, &why);
        if (got != 0 || body.n == 0)
            r = drain(p, builder, w);
    }
    if (r == 0)
        r = finish_block(p, w);
    if (r == 0 && p->refused && has_origin(p)) {
        (void)snprintf(p->text, sizeof p->text,
                       "%" PRIu64
                       " events can't be read, so the others' numbers are not certain: nothing is taken",
                       p->refused);
        return E_PROTO;
    }
    return r;
}

/* Blocks: looked at, and sent on as they are. */
static int read_blocks(struct publisher *p, struct slice body, struct batch_builder *builder)
{
    if (has_origin(p)) {
        (void)snprintf(p->text, sizeof p->text, "blocks have an origin of their own; leave the headers out");
        return E_PROTO;
    }
    for (struct slice rest = body; rest.n;) {
        struct diag why = {0};
        int64_t n = block_check(rest);
        int r =
            n <= 0 ? (n < 0 ? (int)n : E_PROTO) : block_decode(slice_of(rest.p, (size_t)n), builder, &why);
        struct batch *b = batch_builder_finish(builder, NULL);
        if (r == 0)
            r = b ? check_access(p, b) : -ENOMEM;
        batch_unref(b);
        if (r < 0 && !p->text[0])
            (void)snprintf(p->text, sizeof p->text, "no whole block at byte %zu: %.120s", body.n - rest.n,
                           why.message[0] ? why.message : err_text(r));
        if (r < 0)
            return r == E_DAMAGE || r == E_VERSION ? E_PROTO : r;
        p->events += block_count(rest);
        rest = slice_from(rest, (size_t)n);
    }
    strbuf_add_slice(&p->blocks, body);
    return 0;
}

static int read_body(struct publisher *p, const struct encoding *encoding, struct slice body)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = registry ? batch_builder_create(registry, BUILDER_TRIM) : NULL;
    struct block_writer *w = block_writer_create();
    struct decoder *d = NULL;
    int r = builder && w ? decoder_create(encoding, &d) : -ENOMEM;
    if (r == 0)
        r = strcmp(encoding->name, "binary") == 0 ? read_blocks(p, body, builder)
                                                  : read_text(p, d, body, builder, w);
    if (r == 0 && strbuf_failed(&p->blocks))
        r = -ENOMEM;
    if (builder)
        p->trimmed = batch_builder_trimmed(builder);
    decoder_destroy(d);
    block_writer_destroy(w);
    batch_builder_destroy(builder);
    registry_destroy(registry);
    return r;
}

/* ---------------------------------------------------------------- ingest */

static void send_next(struct publisher *p)
{
    struct slice rest = slice_from(strbuf_slice(&p->blocks), p->at);
    if (rest.n == 0) {
        settle(p, 0, "");
        return;
    }
    p->is_waiting = true;
    int r = ingest_block(p->sessions->ingest, &p->source, rest);
    if (r < 0)
        settle(p, r == -ENOMEM ? r : E_PROTO, err_text(r));
    else
        sessions_commit(p->sessions);
}

/* The block that is on its way is done with. */
static void pass_block(struct publisher *p)
{
    struct slice rest = slice_from(strbuf_slice(&p->blocks), p->at);
    p->taken += block_count(rest) - p->denied;
    p->at += (size_t)block_check(rest);
    p->denied = 0;
    p->is_waiting = false;
    event_active(p->turn, EV_TIMEOUT, 0); /* ingest may be in the middle of its answers */
}

static void on_ack(struct ingest_source *source, const struct frame_ack *ack)
{
    (void)ack; /* one block is on its way: this is it */
    pass_block((struct publisher *)(void *)source);
}

/* Some of the block, or all of it: the others come all the same. */
static void deny(struct publisher *p, const struct frame_refuse *r)
{
    *(r->reason == REFUSE_TOO_OLD ? &p->too_old : &p->too_new) += r->count;
    p->denied += r->count;
    struct diag why = {0};
    (void)diag_set(&why, -ESTALE, 0, "%" PRIu32 " of the events are %.*s", r->count, SLICE_ARG(r->text));
    if (p->n_errors < PUBLISHER_ERRORS)
        p->errors[p->n_errors++] = why;
    (void)snprintf(p->text, sizeof p->text, "%s", why.message); /* cut to fit is fine */
    if (p->denied == block_count(slice_from(strbuf_slice(&p->blocks), p->at)))
        pass_block(p);
}

static void on_refuse(struct ingest_source *source, const struct frame_refuse *refuse)
{
    struct publisher *p = (struct publisher *)(void *)source;
    static const int results[] = {[REFUSE_MALFORMED] = E_PROTO,
                                  [REFUSE_STORAGE] = -EAGAIN,
                                  [REFUSE_LIMIT] = E_LIMIT,
                                  [REFUSE_NOT_ALLOWED] = -EACCES};
    char text[sizeof p->text];
    if (refuse->reason == REFUSE_TOO_OLD || refuse->reason == REFUSE_TOO_NEW) {
        deny(p, refuse);
        return;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)(refuse->text.n > 150 ? 150 : refuse->text.n),
                   refuse->text.p);
    settle(p, refuse->reason < sizeof results / sizeof *results ? results[refuse->reason] : E_PROTO, text);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct publisher *p = arg;
    (void)fd, (void)what; /* a timer's */
    if (p->is_waiting)
        return;
    bool is_over = p->result < 0 || p->at == p->blocks.n;
    if (!is_over) {
        send_next(p);
        return;
    }
    p->refused += p->events - p->taken;
    if (p->result == 0)
        ingest_note_trimmed(p->sessions->ingest, p->trimmed);
    if (p->result == 0 && p->taken == 0 && p->too_old + p->too_new)
        p->result = -ESTALE;
    p->done(p);
}

/* ---------------------------------------------------------------- */

int publisher_start(struct publisher *p, struct event_base *base, const struct encoding *encoding,
                    struct slice body)
{
    p->source = (struct ingest_source){
        .ack = on_ack, .refuse = on_refuse, .may_keep = access_allows(p->who, ACCESS_CONTROL, SLICE_LIT(""))};
    p->turn = evtimer_new(base, on_turn, p);
    if (!p->turn)
        return -ENOMEM;
    int r = access_view_create(p->who, ACCESS_PUBLISH, &p->says);
    if (r == -EACCES)
        access_tell_denied(p->who, ACCESS_PUBLISH, SLICE_LIT(""), SLICE_LIT(""));
    if (r == 0)
        r = read_body(p, encoding, body);
    if (r == 0)
        event_active(p->turn, EV_TIMEOUT, 0);
    else
        settle(p, r, p->text[0] ? p->text : r == -EACCES ? "you may not publish here" : err_text(r));
    return 0;
}

void publisher_fini(struct publisher *p)
{
    ingest_forget(p->sessions->ingest, &p->source);
    if (p->turn)
        event_free(p->turn);
    p->turn = NULL;
    access_view_destroy(p->says);
    p->says = NULL;
    strbuf_fini(&p->blocks);
}
