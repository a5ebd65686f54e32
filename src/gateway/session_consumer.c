/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/session_consumer.h"

#include "base/mem.h"
#include "gateway/channel.h"
#include "gateway/subscription.h"

#include <errno.h>

enum {
    GATHERED_MAX = STREAM_PARTS / 2, /* a head and a body each */
    GATHERED_BYTES = 256 << 10,      /* then it is looked whether the socket takes it */
    HEAD_ROOM = 64
};

struct session_consumer {
    struct subscriber subscriber; /* first: the callbacks get it */
    struct session *session;
    struct strbuf head; /* work space */
    size_t n, bytes;    /* gathered and not sent: */
    struct slice parts[2 * GATHERED_MAX];
    struct chunk *chunks[GATHERED_MAX];
    char heads[GATHERED_MAX][HEAD_ROOM];
};

static struct session_consumer *of(const struct subscriber *s)
{
    return (struct session_consumer *)s;
}

static struct subscriptions *subscriptions_of(const struct session_consumer *c)
{
    return session_all(c->session)->subscriptions;
}

static void send_gathered(struct session_consumer *c)
{
    if (c->n == 0)
        return;
    int r = stream_send_parts(session_stream(c->session), c->parts, 2 * c->n);
    for (size_t i = 0; i < c->n; i++)
        chunk_unref(c->chunks[i]);
    c->n = c->bytes = 0;
    if (r < 0)
        session_failed(c->session, -ENOMEM, "");
}

static bool is_writable(const struct subscriber *s)
{
    const struct session_consumer *c = of(s);
    return session_is_ready(c->session) && c->bytes < GATHERED_BYTES && c->n < GATHERED_MAX &&
           stream_waiting(session_stream(c->session)) == 0;
}

static void on_events(struct subscriber *s, uint32_t id, struct chunk *chunk)
{
    struct session_consumer *c = of(s);
    const struct frame_events e = {.id = id, .position = chunk->last, .count = chunk->count};
    strbuf_reset(&c->head);
    frame_put_events_head(&c->head, &e, chunk->data.n);
    if (strbuf_failed(&c->head) || c->head.n > HEAD_ROOM) {
        session_failed(c->session, -ENOMEM, "");
        return;
    }
    memcpy(c->heads[c->n], c->head.p, c->head.n);
    c->parts[2 * c->n] = slice_of(c->heads[c->n], c->head.n);
    c->parts[2 * c->n + 1] = chunk->data;
    c->chunks[c->n++] = chunk_ref(chunk);
    c->bytes += chunk->data.n;
}

static void on_flush(struct subscriber *s)
{
    send_gathered(of(s));
}

static void on_gap(struct subscriber *s, uint32_t id, const struct subscription_gap *gap)
{
    struct session_consumer *c = of(s);
    send_gathered(c);
    frame_put_gap(
        &session_all(c->session)->out,
        &(struct frame_gap){
            .id = id, .lost = gap->lost, .reason = (uint16_t)gap->reason, .from = gap->from, .to = gap->to});
    session_send(c->session);
}

static void on_position(struct subscriber *s, uint32_t id, struct position p)
{
    struct session_consumer *c = of(s);
    send_gathered(c);
    frame_put_position(&session_all(c->session)->out, FRAME_POSITION, id, p);
    session_send(c->session);
}

static void answer(struct session_consumer *c, uint32_t id, enum control_status status, const char *text,
                   struct position at)
{
    struct frame_subscribed f = {
        .id = id, .status = (uint16_t)status, .text = slice_str(text), .position = at};
    f.journal = subscriptions_journal(subscriptions_of(c));
    frame_put_subscribed(&session_all(c->session)->out, &f);
    session_send(c->session);
}

static void on_ended(struct subscriber *s, uint32_t id, const char *why)
{
    send_gathered(of(s));
    answer(of(s), id, CONTROL_FAILED, why, (struct position){0});
}

static const struct subscriber_ops callbacks = {.is_writable = is_writable,
                                                .events = on_events,
                                                .gap = on_gap,
                                                .position = on_position,
                                                .flush = on_flush,
                                                .ended = on_ended};

static enum control_status status_of(int r)
{
    return r == E_PROTO || r == E_LIMIT ? CONTROL_USAGE : r == -EACCES ? CONTROL_NOT_ALLOWED : CONTROL_FAILED;
}

static void on_subscribe(struct session_consumer *c, struct slice payload)
{
    struct frame_subscribe f;
    struct diag why = {0};
    struct position at = {0};
    struct arg a;
    if (frame_get_subscribe(payload, &f) < 0) {
        session_protocol_error(c->session, "malformed SUBSCRIBE");
        return;
    }
    struct subscription_options o = {.select = {.events = f.events, .where = f.where}};
    while (args_next(&f.options, &a)) {
        if (!subscription_option(&o, a.name, value_slice(a.value))) {
            (void)diag_set(&why, E_PROTO, 0, "this gateway does not know the option '%.*s'",
                           SLICE_ARG(a.name));
            answer(c, f.id, CONTROL_USAGE, why.message, at);
            return;
        }
    }
    int r = subscriptions_add(subscriptions_of(c), &c->subscriber, f.id, &o, &at, &why);
    answer(c, f.id, r == 0 ? CONTROL_DONE : status_of(r), why.message, at);
    if (r == 0)
        subscriptions_writable(subscriptions_of(c), &c->subscriber); /* a gap may wait already */
}

bool session_consumer_takes(uint8_t type)
{
    return type == FRAME_SUBSCRIBE || type == FRAME_UNSUBSCRIBE || type == FRAME_CONSUMED;
}

static struct session_consumer *make(struct session *s)
{
    struct session_consumer *c = mem_try_alloc(sizeof *c);
    if (!c) {
        session_failed(s, -ENOMEM, "");
        return NULL;
    }
    c->session = s;
    c->subscriber = (struct subscriber){.ops = &callbacks, .who = session_who(s), .name = session_name(s)};
    return c;
}

void session_consumer_frame(struct session_consumer **link, struct session *s, const struct frame *f)
{
    uint32_t id;
    struct position p;
    if (!*link)
        *link = make(s);
    struct session_consumer *c = *link;
    if (!c)
        return;
    if (f->type == FRAME_SUBSCRIBE)
        on_subscribe(c, f->payload);
    else if (f->type == FRAME_UNSUBSCRIBE && frame_get_unsubscribe(f->payload, &id) == 0)
        subscriptions_remove(subscriptions_of(c), &c->subscriber, id);
    else if (f->type == FRAME_CONSUMED && frame_get_position(f->payload, &id, &p) == 0)
        subscriptions_consumed(subscriptions_of(c), &c->subscriber, id, p);
    else
        session_protocol_error(s, "malformed UNSUBSCRIBE or CONSUMED");
}

void session_consumer_writable(struct session_consumer *c)
{
    if (c)
        subscriptions_writable(subscriptions_of(c), &c->subscriber);
}

void session_consumer_destroy(struct session_consumer *c)
{
    if (!c)
        return;
    subscriptions_forget(subscriptions_of(c), &c->subscriber);
    for (size_t i = 0; i < c->n; i++)
        chunk_unref(c->chunks[i]);
    strbuf_fini(&c->head);
    mem_free(c);
}
