/* SPDX-License-Identifier: Apache-2.0 */
/* fake.h - a gateway for tests of the consumer library: the other end of its socket in the same thread, which
 * does what the test says. Built on the receiver that tests of senders have. */
#ifndef GRIDLINE_TESTS_FAKE_H
#define GRIDLINE_TESTS_FAKE_H

#include "unit/net/receiver.h"

#include "base/clock.h"
#include "consumer/internal.h"
#include "event/block.h"
#include "net/control.h"

#include <errno.h>
#include <poll.h>

struct fake {
    struct receiver receiver;
    struct gridline_consumer *consumer;
    const gridline_item *item; /* the last one that the consumer gave */
    uint64_t events;           /* how many of them were events, all in all, */
    uint64_t sum;              /* and the sum of their field `n` */
};

static inline void fake_start(struct fake *f, const char *more)
{
    struct strbuf list = {0};
    *f = (struct fake){0};
    receiver_start(&f->receiver);
    strbuf_printf(&list, "unix:%s%s", f->receiver.path, more);
    char why[200] = "";
    f->consumer = gridline_consumer_open(
        &(struct gridline_consumer_options){
            .size = sizeof(struct gridline_consumer_options), .gateways = list.p, .prog = "test"},
        why, sizeof why);
    assert_non_null(f->consumer);
    strbuf_fini(&list);
}

static inline void fake_end(struct fake *f)
{
    gridline_consumer_close(f->consumer);
    receiver_end(&f->receiver);
}

static inline int fake_subscribe(struct fake *f, const struct gridline_subscription *s)
{
    struct gridline_subscription whole = *s;
    whole.size = sizeof whole;
    int id = gridline_consumer_subscribe(f->consumer, &whole);
    assert_true(id > 0);
    return id;
}

/* What the consumer gives next, of whatever kind; 0: nothing now. */
static inline int fake_next(struct fake *f)
{
    double n = 0;
    int r = gridline_consumer_next(f->consumer, 0, &f->item);
    assert_true(r >= 0);
    if (r == 0)
        return 0;
    int kind = gridline_item_kind(f->item);
    if (kind == GRIDLINE_ITEM_EVENT) {
        f->events++;
        assert_int_equal(gridline_item_number(f->item, "n", &n), 1);
        f->sum += (uint64_t)n;
    }
    return kind;
}

/* Waits for an item. */
static inline int fake_wait(struct fake *f)
{
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S; clock_mono_ns() < until;) {
        int kind = fake_next(f);
        if (kind)
            return kind;
        struct pollfd p = {.fd = gridline_consumer_fd(f->consumer), .events = POLLIN};
        (void)poll(&p, 1, 1000); /* looked at again either way */
    }
    fail();
    return 0;
}

/* The consumer's next frame; it takes items meanwhile only if there is none of interest. */
static inline uint8_t fake_frame(struct fake *f)
{
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S; clock_mono_ns() < until;) {
        if (receiver_accept(&f->receiver)) {
            uint8_t type = receiver_frame(&f->receiver);
            if (type)
                return type;
        }
        assert_int_equal(fake_next(f), 0);
        (void)poll(NULL, 0, 1); /* the pause before it dials again */
    }
    fail();
    return 0;
}

/* The connection ends, or has ended: the next one is another. */
static inline void fake_hang_up(struct fake *f)
{
    receiver_hang_up(&f->receiver);
    f->receiver.frame = (struct frame){0};
}

/* Takes the greeting and HELLO, says WELCOME, and sees that the consumer says so. */
static inline void fake_welcome(struct fake *f)
{
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S; f->receiver.in.n < FRAME_GREETING;) {
        assert_true(clock_mono_ns() < until);
        assert_int_equal(fake_next(f), 0);
        if (receiver_accept(&f->receiver))
            receiver_read(&f->receiver);
        (void)poll(NULL, 0, 1); /* as above */
    }
    assert_int_equal(greeting_detect(strbuf_slice(&f->receiver.in)), GREETING_FRAMES);
    strbuf_consume(&f->receiver.in, FRAME_GREETING);
    assert_int_equal(fake_frame(f), FRAME_HELLO);
    assert_int_equal(frame_get_hello(f->receiver.frame.payload, &f->receiver.hello), 0);
    assert_int_equal(f->receiver.hello.role, PEER_CONSUMER);
    receiver_welcome(&f->receiver, 0, 0);
    assert_int_equal(fake_wait(f), GRIDLINE_ITEM_CONNECTED);
}

/* The SUBSCRIBE that comes next. */
static inline struct frame_subscribe fake_asked(struct fake *f)
{
    struct frame_subscribe s = {0};
    assert_int_equal(fake_frame(f), FRAME_SUBSCRIBE);
    assert_int_equal(frame_get_subscribe(f->receiver.frame.payload, &s), 0);
    return s;
}

static inline void fake_say_subscribed(struct fake *f, int id, struct position at, uint64_t journal)
{
    struct strbuf out = {0};
    frame_put_subscribed(&out,
                         &(struct frame_subscribed){
                             .id = (uint32_t)id, .text = SLICE_LIT(""), .position = at, .journal = journal});
    receiver_send(&f->receiver, &out);
}

/* Events x with n = first, first + 1, ... as a block. */
static inline void fake_block(struct strbuf *out, uint64_t first, uint32_t count)
{
    struct block_writer *w = block_writer_create();
    struct schema *schema;
    struct field fields[] = {
        {.name = SLICE_LIT("n"), .unit = SLICE_LIT(""), .help = SLICE_LIT(""), .type = VALUE_UINT},
        {.name = SLICE_LIT("who"), .unit = SLICE_LIT(""), .help = SLICE_LIT(""), .type = VALUE_TEXT}};
    assert_int_equal(schema_create(SLICE_LIT("x"), fields, 2, &schema), 0);
    for (uint32_t i = 0; i < count; i++) {
        struct value values[] = {value_uint(first + i), i ? value_none() : value_text(SLICE_LIT("me"))};
        struct event e = {.time_ns = (int64_t)(first + i),
                          .host = SLICE_LIT("h"),
                          .prog = SLICE_LIT("p"),
                          .schema = schema,
                          .values = values,
                          .level = LEVEL_INFO};
        assert_int_equal(block_writer_add(w, &e), 0);
    }
    assert_int_equal(block_writer_finish(w, &(struct batch_origin){0}, out), 0);
    block_writer_destroy(w);
    schema_unref(schema);
}

static inline void fake_events(struct fake *f, int id, struct position at, uint64_t first, uint32_t count)
{
    struct strbuf block = {0}, out = {0};
    fake_block(&block, first, count);
    frame_put_events(&out,
                     &(struct frame_events){
                         .id = (uint32_t)id, .position = at, .count = count, .data = strbuf_slice(&block)});
    receiver_send(&f->receiver, &out);
    strbuf_fini(&block);
}

static inline void fake_gap(struct fake *f, int id, uint64_t lost, uint16_t reason, struct position to)
{
    struct strbuf out = {0};
    frame_put_gap(&out, &(struct frame_gap){.id = (uint32_t)id, .lost = lost, .reason = reason, .to = to});
    receiver_send(&f->receiver, &out);
}

/* All that is there now. */
static inline void fake_drain(struct fake *f)
{
    while (fake_next(f))
        ;
}

#define AT(r, p, e) ((struct position){r, p, e})

#endif
