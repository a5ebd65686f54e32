/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/consumer/fake.h"

#include "base/mem.h"

#include <sys/socket.h>

static void must_be(struct fake *f, int kind)
{
    assert_int_equal(fake_wait(f), kind);
}

/* A subscription that runs, from position 5-0-0 of journal 7. */
static int begin(struct fake *f, const struct gridline_subscription *s)
{
    fake_start(f, "");
    int id = fake_subscribe(f, s);
    fake_welcome(f);
    (void)fake_asked(f); /* looked at elsewhere */
    fake_say_subscribed(f, id, AT(5, 0, 0), 7);
    must_be(f, GRIDLINE_ITEM_SUBSCRIBED);
    return id;
}

/* It comes again: what it asks for as `from`. */
static struct slice again(struct fake *f, struct frame_subscribe *s)
{
    fake_hang_up(f);
    must_be(f, GRIDLINE_ITEM_BROKEN);
    fake_welcome(f);
    *s = fake_asked(f);
    return args_text(s->options, "from");
}

static void test_fields(void **state)
{
    (void)state;
    struct fake f;
    struct gridline_head head;
    struct gridline_value v;
    double n = 0;
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    fake_events(&f, id, AT(6, 0, 2), 41, 2);
    must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_int_equal(gridline_item_subscription(f.item), id);
    assert_string_equal(gridline_item_gateway(f.item), gridline_consumer_gateway(f.consumer, 0));
    assert_null(gridline_consumer_gateway(f.consumer, 1));
    assert_int_equal(gridline_item_head(f.item, &head, sizeof head), 0);
    assert_string_equal(head.name, "x");
    assert_string_equal(head.host, "h");
    assert_string_equal(head.prog, "p");
    assert_int_equal(head.time_ns, 41);
    assert_int_equal(head.level, GRIDLINE_INFO);
    assert_int_equal(head.n_fields, 2);
    assert_int_equal(gridline_item_field(f.item, 0, &v), 1);
    assert_true(strcmp(v.name, "n") == 0 && v.type == 'u' && v.v.u == 41);
    assert_int_equal(gridline_item_get(f.item, "who", &v), 1);
    assert_true(v.type == 't' && v.n == 2 && strcmp(v.v.p, "me") == 0);
    assert_int_equal(gridline_item_number(f.item, "who", &n), 0);
    assert_int_equal(gridline_item_get(f.item, "none", &v), 0);
    assert_int_equal(gridline_item_field(f.item, 2, &v), -ENOENT);
    must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_int_equal(gridline_item_field(f.item, 1, &v), 0); /* missing, and no empty text */
    assert_true(strcmp(v.name, "who") == 0 && v.type == 0);
    fake_end(&f);
}

static void test_options_are_sent(void **state)
{
    (void)state;
    struct fake f;
    fake_start(&f, "");
    (void)fake_subscribe(&f, &(struct gridline_subscription){.events = "cpu,d*",
                                                             .host = "n*",
                                                             .where = "a > 1",
                                                             .on_change = "s",
                                                             .cross = "u:90:5",
                                                             .delta = "v:5%",
                                                             .every = "10s",
                                                             .period = "1s",
                                                             .from = "oldest",
                                                             .durable = "mine",
                                                             .queue = "8MiB"});
    fake_welcome(&f);
    struct frame_subscribe s = fake_asked(&f);
    static const char *const names[][2] = {{"host", "n*"},     {"on_change", "s"},  {"cross", "u:90:5"},
                                           {"delta", "v:5%"},  {"every", "10s"},    {"period", "1s"},
                                           {"from", "oldest"}, {"durable", "mine"}, {"queue", "8MiB"}};
    assert_slice(s.events, "cpu,d*");
    assert_slice(s.where, "a > 1");
    assert_int_equal(s.options.n, sizeof names / sizeof *names);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_slice(args_text(s.options, names[i][0]), names[i][1]);
    fake_end(&f);
}

/* An agent takes no options: none may be sent that were not given. */
static void test_no_options(void **state)
{
    (void)state;
    struct fake f;
    fake_start(&f, "");
    (void)fake_subscribe(&f, &(struct gridline_subscription){.from = "now"});
    fake_welcome(&f);
    assert_int_equal(fake_asked(&f).options.n, 0);
    fake_end(&f);
}

/* The heart: it goes on behind the last event, and what comes twice is given once. */
static void test_resume(void **state)
{
    (void)state;
    struct fake f;
    struct frame_subscribe s;
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    fake_events(&f, id, AT(6, 0, 10), 1, 10);
    fake_drain(&f);
    assert_slice(again(&f, &s), "6-0-10");
    fake_say_subscribed(&f, id, AT(6, 0, 10), 7);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_events(&f, id, AT(6, 0, 10), 1, 10); /* again */
    fake_events(&f, id, AT(6, 0, 4), 1, 4);   /* and a part of it */
    fake_events(&f, id, AT(7, 1, 5), 11, 5);
    fake_drain(&f);
    assert_int_equal(f.events, 15);
    assert_int_equal(f.sum, 15 * 16 / 2);
    fake_end(&f);
}

/* POSITION moves the place although nothing passed. */
static void test_position_frame(void **state)
{
    (void)state;
    struct fake f;
    struct frame_subscribe s;
    struct strbuf out = {0};
    char text[GRIDLINE_POSITION_MAX];
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    frame_put_position(&out, FRAME_POSITION, (uint32_t)id, AT(99, 0, 0));
    frame_put_position(&out, FRAME_POSITION, (uint32_t)id, AT(98, 0, 0)); /* never back */
    receiver_send(&f.receiver, &out);
    fake_drain(&f);
    assert_int_equal(gridline_consumer_position(f.consumer, id, 0, text), 0);
    assert_string_equal(text, "7.99-0-0");
    assert_slice(again(&f, &s), "99-0-0");
    fake_end(&f);
}

static void gap_must_be(struct fake *f, int reason, uint64_t lost)
{
    must_be(f, GRIDLINE_ITEM_GAP);
    assert_int_equal(gridline_item_code(f->item), reason);
    assert_int_equal(gridline_item_lost(f->item), lost);
    assert_string_not_equal(gridline_item_text(f->item), "");
}

static void test_gaps(void **state)
{
    (void)state;
    struct fake f;
    struct frame_subscribe s;
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    fake_gap(&f, id, 17, GAP_SLOW, AT(9, 0, 3));
    gap_must_be(&f, GRIDLINE_GAP_SLOW, 17);
    fake_gap(&f, id, 17, GAP_SLOW, AT(9, 0, 3)); /* told already */
    fake_gap(&f, id, 0, GAP_GONE, AT(12, 0, 0));
    gap_must_be(&f, GRIDLINE_GAP_GONE, 0);
    fake_gap(&f, id, 3, 77, AT(13, 0, 0)); /* a reason of a later version */
    gap_must_be(&f, GRIDLINE_GAP_GONE, 3);
    assert_slice(again(&f, &s), "13-0-0");
    fake_end(&f);
}

/* A journal that is not the one before: by its number, or because it begins earlier. */
static void test_other_journal(void **state)
{
    (void)state;
    struct fake f;
    struct frame_subscribe s;
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    assert_slice(again(&f, &s), "5-0-0");
    fake_say_subscribed(&f, id, AT(900, 0, 0), 8);
    gap_must_be(&f, GRIDLINE_GAP_JOURNAL, 0);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    assert_slice(again(&f, &s), "900-0-0");
    fake_say_subscribed(&f, id, AT(3, 0, 0), 0);
    gap_must_be(&f, GRIDLINE_GAP_JOURNAL, 0);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_events(&f, id, AT(4, 0, 1), 1, 1); /* low numbers count again */
    must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_slice(again(&f, &s), "4-0-1");
    fake_say_subscribed(&f, id, AT(4, 0, 1), 0); /* the same, for all that is known */
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_end(&f);
}

/* An agent has no positions: what it sent while nobody listened is gone, and that is said. */
static void test_agent(void **state)
{
    (void)state;
    struct fake f;
    struct frame_subscribe s;
    char text[GRIDLINE_POSITION_MAX];
    fake_start(&f, "");
    int id = fake_subscribe(&f, &(struct gridline_subscription){.events = "x"});
    fake_welcome(&f);
    (void)fake_asked(&f);
    fake_say_subscribed(&f, id, AT(0, 0, 0), 0);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_events(&f, id, AT(0, 0, 0), 1, 3);
    fake_events(&f, id, AT(0, 0, 0), 4, 3);
    fake_drain(&f);
    assert_int_equal(f.sum, 6 * 7 / 2);
    assert_int_equal(gridline_consumer_position(f.consumer, id, 0, text), -ENODATA);
    (void)again(&f, &s);
    assert_int_equal(s.options.n, 0);
    fake_say_subscribed(&f, id, AT(0, 0, 0), 0);
    gap_must_be(&f, GRIDLINE_GAP_BROKEN, 0);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_end(&f);
}

/* Stopped in the middle of a batch, another run goes on with the event behind. */
static void test_place_in_a_batch(void **state)
{
    (void)state;
    struct fake f;
    char text[GRIDLINE_POSITION_MAX];
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    assert_int_equal(gridline_consumer_position(f.consumer, id, 0, text), 0);
    assert_string_equal(text, "7.5-0-0");
    fake_events(&f, id, AT(6, 0, 10), 1, 10);
    for (int i = 0; i < 4; i++)
        must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_int_equal(gridline_consumer_position(f.consumer, id, 0, text), 0);
    assert_string_equal(text, "7.5-0-0+4");
    fake_end(&f);

    fake_start(&f, "");
    id = fake_subscribe(&f, &(struct gridline_subscription){.events = "x", .from = text});
    fake_welcome(&f);
    assert_slice(args_text(fake_asked(&f).options, "from"), "5-0-0");
    fake_say_subscribed(&f, id, AT(5, 0, 0), 7);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_events(&f, id, AT(6, 0, 3), 1, 3); /* cut otherwise this time */
    fake_events(&f, id, AT(6, 0, 10), 4, 7);
    fake_drain(&f);
    assert_int_equal(f.events, 6);
    assert_int_equal(f.sum, 10 * 11 / 2 - 10);
    assert_int_equal(gridline_consumer_position(f.consumer, id, 0, text), 0);
    assert_string_equal(text, "7.6-0-10");
    fake_end(&f);
}

/* Before everything that the journal has is a place, too. */
static void test_place_at_the_beginning(void **state)
{
    (void)state;
    struct fake f;
    struct frame_subscribe s;
    char text[GRIDLINE_POSITION_MAX];
    fake_start(&f, "");
    int id = fake_subscribe(&f, &(struct gridline_subscription){.events = "x", .from = "oldest"});
    fake_welcome(&f);
    (void)fake_asked(&f);
    fake_say_subscribed(&f, id, AT(0, 0, 0), 7);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    assert_slice(again(&f, &s), "0-0-0");
    fake_say_subscribed(&f, id, AT(0, 0, 0), 7);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED); /* and no gap */
    fake_events(&f, id, AT(6, 0, 10), 1, 10);
    must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_int_equal(gridline_consumer_position(f.consumer, id, 0, text), 0);
    assert_string_equal(text, "7.0-0-0+1");
    fake_end(&f);
}

/* A filter that depends on the events before may pass others the next time: some come twice rather than one
 * is lost. */
static void test_place_with_state(void **state)
{
    (void)state;
    struct fake f;
    char text[GRIDLINE_POSITION_MAX];
    int id = begin(&f, &(struct gridline_subscription){.events = "x", .on_change = "n"});
    fake_events(&f, id, AT(6, 0, 10), 1, 10);
    must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_int_equal(gridline_consumer_position(f.consumer, id, 0, text), 0);
    assert_string_equal(text, "7.5-0-0");
    fake_end(&f);
}

/* A gap ends the skipping: there may be fewer events than were counted. */
static void test_skip_ends_with_a_gap(void **state)
{
    (void)state;
    struct fake f;
    fake_start(&f, "");
    int id = fake_subscribe(&f, &(struct gridline_subscription){.events = "x", .from = "7.5-0-0+4"});
    fake_welcome(&f);
    (void)fake_asked(&f);
    fake_say_subscribed(&f, id, AT(5, 0, 0), 7);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_gap(&f, id, 0, GAP_GONE, AT(20, 0, 0));
    gap_must_be(&f, GRIDLINE_GAP_GONE, 0);
    fake_events(&f, id, AT(21, 0, 2), 1, 2);
    fake_drain(&f);
    assert_int_equal(f.events, 2);
    fake_end(&f);
}

static struct position consumed(struct fake *f)
{
    uint32_t id;
    struct position p = {0};
    assert_int_equal(fake_frame(f), FRAME_CONSUMED);
    assert_int_equal(frame_get_position(f->receiver.frame.payload, &id, &p), 0);
    return p;
}

/* The gateway begins at what was consumed: what was given since is skipped, however it is cut into frames. */
static void test_durable(void **state)
{
    (void)state;
    struct fake f;
    struct frame_subscribe s;
    int id = begin(&f, &(struct gridline_subscription){.events = "x", .durable = "d"});
    fake_events(&f, id, AT(6, 0, 5), 1, 5);
    fake_drain(&f);
    assert_int_equal(gridline_consumer_consumed(f.consumer, id), 0);
    assert_int_equal(position_compare(consumed(&f), AT(6, 0, 5)), 0);
    fake_events(&f, id, AT(7, 0, 5), 6, 5);
    fake_drain(&f);
    (void)again(&f, &s);
    fake_say_subscribed(&f, id, AT(6, 0, 5), 7);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    assert_int_equal(position_compare(consumed(&f), AT(6, 0, 5)),
                     0);                    /* said again: it may not have arrived */
    fake_events(&f, id, AT(8, 0, 1), 6, 6); /* one is new */
    fake_drain(&f);
    assert_int_equal(f.events, 11);
    assert_int_equal(f.sum, 11 * 12 / 2);

    (void)again(&f, &s);
    fake_say_subscribed(&f, id, AT(5, 0, 0), 7); /* CONSUMED did not arrive at all: where it began */
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_events(&f, id, AT(9, 0, 1), 1, 12);
    fake_drain(&f);
    assert_int_equal(f.events, 12);
    assert_int_equal(f.sum, 12 * 13 / 2);
    fake_end(&f);
}

static void test_consumed_is_exact(void **state)
{
    (void)state;
    struct fake f;
    int id = begin(&f, &(struct gridline_subscription){.events = "x", .durable = "d"});
    fake_events(&f, id, AT(6, 0, 5), 1, 5);
    fake_events(&f, id, AT(7, 0, 5), 6, 5);
    for (int i = 0; i < 7; i++)
        must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_int_equal(gridline_consumer_consumed(f.consumer, id),
                     0); /* in the second batch: up to the first */
    while (f.events < 10)
        must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_int_equal(position_compare(consumed(&f), AT(6, 0, 5)), 0);
    assert_int_equal(gridline_consumer_consumed(f.consumer, id + 1), -ENOENT);
    int plain = fake_subscribe(&f, &(struct gridline_subscription){.events = "x"});
    assert_int_equal(gridline_consumer_consumed(f.consumer, plain), -EINVAL);
    fake_end(&f);
}

static void test_refused(void **state)
{
    (void)state;
    struct fake f;
    struct strbuf out = {0};
    fake_start(&f, "");
    int id = fake_subscribe(&f, &(struct gridline_subscription){.events = "x", .cross = "nonsense"});
    fake_welcome(&f);
    (void)fake_asked(&f);
    frame_put_subscribed(&out, &(struct frame_subscribed){.id = (uint32_t)id,
                                                          .status = CONTROL_USAGE,
                                                          .text = SLICE_LIT("cross:\nwhat?")});
    receiver_send(&f.receiver, &out);
    must_be(&f, GRIDLINE_ITEM_REFUSED);
    assert_int_equal(gridline_item_code(f.item), GRIDLINE_STATUS_USAGE);
    assert_string_equal(gridline_item_text(f.item), "cross: what?");
    fake_events(&f, id, AT(1, 0, 1), 1, 1); /* nobody asked for that */
    must_be(&f, GRIDLINE_ITEM_BROKEN);
    fake_hang_up(&f);
    fake_welcome(&f); /* it is not asked for again: the next frame is the one of a new subscription */
    int other = fake_subscribe(&f, &(struct gridline_subscription){.events = "y"});
    assert_int_equal(fake_asked(&f).id, other);
    fake_end(&f);
}

static void test_unsubscribe(void **state)
{
    (void)state;
    struct fake f;
    uint32_t told = 0;
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    fake_events(&f, id, AT(6, 0, 9), 1, 9);
    must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_int_equal(gridline_consumer_unsubscribe(f.consumer, id), 0);
    assert_int_equal(fake_frame(&f), FRAME_UNSUBSCRIBE); /* and none of the other eight is given meanwhile */
    assert_int_equal(frame_get_unsubscribe(f.receiver.frame.payload, &told), 0);
    assert_int_equal(told, id);
    fake_events(&f, id, AT(6, 0, 10), 1, 1); /* on its way when it was said */
    fake_drain(&f);
    assert_int_equal(f.events, 1);
    assert_int_equal(gridline_consumer_unsubscribe(f.consumer, id), -ENOENT);
    assert_string_not_equal(gridline_consumer_why(f.consumer), "");
    assert_true(fake_subscribe(&f, &(struct gridline_subscription){.events = "y"}) != id);
    fake_end(&f);
}

/* A block that can't be read is a gap of as many events, and not the end of the connection. */
static void test_damaged_block(void **state)
{
    (void)state;
    struct fake f;
    struct strbuf block = {0}, out = {0};
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    fake_block(&block, 1, 5);
    block.p[block.n - 1] ^= 1;
    frame_put_events(
        &out, &(struct frame_events){
                  .id = (uint32_t)id, .position = AT(6, 0, 5), .count = 5, .data = strbuf_slice(&block)});
    receiver_send(&f.receiver, &out);
    gap_must_be(&f, GRIDLINE_GAP_DAMAGED, 5);
    fake_events(&f, id, AT(7, 0, 1), 6, 1);
    must_be(&f, GRIDLINE_ITEM_EVENT);
    strbuf_fini(&block);
    fake_end(&f);
}

static void test_garbage(void **state)
{
    (void)state;
    struct fake f;
    (void)begin(&f, &(struct gridline_subscription){.events = "x"});
    assert_true(send(f.receiver.fd, "this is not a frame at all", 26, MSG_NOSIGNAL) == 26);
    must_be(&f, GRIDLINE_ITEM_BROKEN);
    assert_int_equal(gridline_item_code(f.item), E_DAMAGE);
    fake_hang_up(&f);
    fake_welcome(&f); /* and it comes again */
    fake_end(&f);
}

/* What a gateway says when it hangs up is the reason that is told. */
static void test_bye(void **state)
{
    (void)state;
    struct fake f;
    struct strbuf out = {0};
    (void)begin(&f, &(struct gridline_subscription){.events = "x"});
    frame_put_bye(&out, BYE_NOT_ALLOWED, SLICE_LIT("go away"));
    receiver_send(&f.receiver, &out);
    must_be(&f, GRIDLINE_ITEM_BROKEN);
    assert_int_equal(gridline_item_code(f.item), -EACCES);
    assert_non_null(strstr(gridline_item_text(f.item), "go away"));
    fake_end(&f);
}

/* The same reason is told once, however often it is tried. */
static void test_nobody_there(void **state)
{
    (void)state;
    struct fake f;
    fake_start(&f, "");
    receiver_die(&f.receiver);
    must_be(&f, GRIDLINE_ITEM_RETRY);
    assert_int_equal(gridline_item_code(f.item), -ECONNREFUSED);
    struct link *l = &f.consumer->links[0];
    int64_t pause_ms = l->pause_ms;
    for (int i = 0; i < 10; i++) {
        int64_t now = clock_mono_ns();
        assert_true(l->retry_ns > now);
        assert_int_equal(link_step(l, l->retry_ns, &f.consumer->item), 0);
        assert_true(l->retry_ns - now > 0 && l->pause_ms >= pause_ms && l->pause_ms <= 5000);
        pause_ms = l->pause_ms;
    }
    assert_int_equal(pause_ms, 5000);
    fake_end(&f);
}

/* Silence: it asks, waits, and gives up; an answer in time is enough. Time is given here, not waited for. */
static void test_silence(void **state)
{
    (void)state;
    struct fake f;
    struct frame_ping ping;
    struct strbuf out = {0};
    (void)begin(&f, &(struct gridline_subscription){.events = "x"});
    struct link *l = &f.consumer->links[0];
    int64_t now = l->heard_ns + 16 * NS_PER_S;
    assert_int_equal(link_step(l, now, &f.consumer->item), 0);
    assert_int_equal(receiver_frame(&f.receiver), FRAME_PING);
    assert_int_equal(frame_get_ping(f.receiver.frame.payload, &ping), 0);
    frame_put_pong(&out, &(struct frame_pong){.token = ping.token});
    receiver_send(&f.receiver, &out);
    assert_int_equal(link_step(l, now += 16 * NS_PER_S, &f.consumer->item), 0); /* read before it is judged */
    assert_int_equal(link_step(l, now += 16 * NS_PER_S, &f.consumer->item), 0);
    assert_int_equal(receiver_frame(&f.receiver), FRAME_PING);
    assert_int_equal(link_step(l, now + 16 * NS_PER_S, &f.consumer->item), 1);
    assert_int_equal(f.consumer->item.kind, GRIDLINE_ITEM_BROKEN);
    assert_int_equal(f.consumer->item.code, -ETIMEDOUT);
    fake_end(&f);
}

static void test_answers_pings(void **state)
{
    (void)state;
    struct fake f;
    struct strbuf out = {0};
    struct frame_pong pong;
    (void)begin(&f, &(struct gridline_subscription){.events = "x"});
    frame_put_ping(&out, &(struct frame_ping){.token = 99, .t0_ns = 5});
    receiver_send(&f.receiver, &out);
    assert_int_equal(fake_frame(&f), FRAME_PONG);
    assert_int_equal(frame_get_pong(f.receiver.frame.payload, &pong), 0);
    assert_true(pong.token == 99 && pong.t0_ns == 5);
    fake_end(&f);
}

/* The descriptor is readable exactly while there is something to be had. */
static void test_descriptor(void **state)
{
    (void)state;
    struct fake f;
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    struct pollfd p = {.fd = gridline_consumer_fd(f.consumer), .events = POLLIN};
    fake_drain(&f);
    assert_int_equal(poll(&p, 1, 0), 0);
    fake_events(&f, id, AT(6, 0, 3), 1, 3);
    assert_int_equal(poll(&p, 1, 60000), 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(poll(&p, 1, 0), 1); /* the rest of the batch, which no socket shows */
        assert_int_equal(fake_next(&f), GRIDLINE_ITEM_EVENT);
    }
    assert_int_equal(fake_next(&f), 0);
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_true(fake_subscribe(&f, &(struct gridline_subscription){.events = "y"}) > 0);
    assert_int_equal(poll(&p, 1, 0), 1); /* it has to be asked for */
    fake_end(&f);
}

/* Two gateways: each its own stream, also of the same subscription. */
static void test_two_gateways(void **state)
{
    (void)state;
    struct fake f, g;
    struct strbuf more = {0};
    char at[2][GRIDLINE_POSITION_MAX];
    receiver_start(&g.receiver);
    strbuf_printf(&more, ", unix:%s", g.receiver.path);
    fake_start(&f, more.p);
    int id = fake_subscribe(&f, &(struct gridline_subscription){.events = "x"});
    g.consumer = f.consumer;
    g.events = g.sum = 0;
    fake_welcome(&f);
    fake_welcome(&g);
    (void)fake_asked(&f);
    (void)fake_asked(&g);
    fake_say_subscribed(&f, id, AT(5, 0, 0), 1);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_say_subscribed(&g, id, AT(500, 0, 0), 2);
    must_be(&f, GRIDLINE_ITEM_SUBSCRIBED);
    fake_events(&f, id, AT(6, 0, 1), 1, 1);
    must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_string_equal(gridline_item_gateway(f.item), gridline_consumer_gateway(f.consumer, 0));
    fake_events(&g, id, AT(501, 0, 1), 2, 1);
    must_be(&f, GRIDLINE_ITEM_EVENT);
    assert_string_equal(gridline_item_gateway(f.item), gridline_consumer_gateway(f.consumer, 1));
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(gridline_consumer_position(f.consumer, id, i, at[i]), 0);
    assert_string_equal(at[0], "1.6-0-1");
    assert_string_equal(at[1], "2.501-0-1");
    assert_int_equal(gridline_consumer_position(f.consumer, id, 2, at[0]), -ENOENT);
    /* At one of them only: the other is not asked. */
    int one = fake_subscribe(&f, &(struct gridline_subscription){
                                     .events = "y", .gateway = gridline_consumer_gateway(f.consumer, 1)});
    assert_int_equal(fake_asked(&g).id, one);
    assert_int_equal(receiver_frame(&f.receiver), 0);
    strbuf_fini(&more);
    fake_end(&f);
    receiver_end(&g.receiver);
}

static void test_bad_options(void **state)
{
    (void)state;
    char why[200];
    struct fake f;
    static const char *const bad[] = {"tls://", "tcp://host:99999", "unix:", "http://x:y:z",
                                      "tcp://a,,tcp://b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        why[0] = '\0';
        assert_null(gridline_consumer_open(
            &(struct gridline_consumer_options){.size = sizeof(struct gridline_consumer_options),
                                                .gateways = bad[i]},
            why, sizeof why));
        assert_string_not_equal(why, "");
    }
    fake_start(&f, "");
    static const char *const places[] = {"yesterday",
                                         "5-",
                                         "5-0-0+",
                                         "x.5-0-0",
                                         "0.5-0-0",
                                         ".5-0-0",
                                         "12345678901234567.5-0-0",
                                         "+4.5-0-0",
                                         "5-0-0+99999999999",
                                         "-1",
                                         "+4",
                                         "7."};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const struct gridline_subscription s = {.size = sizeof s, .from = places[i]};
        assert_int_equal(gridline_consumer_subscribe(f.consumer, &s), -EINVAL);
        assert_non_null(strstr(gridline_consumer_why(f.consumer), places[i]));
    }
    const struct gridline_subscription elsewhere = {.size = sizeof elsewhere, .gateway = "tcp://other"};
    assert_int_equal(gridline_consumer_subscribe(f.consumer, &elsewhere), -EINVAL);
    for (int i = 0; i < CONSUMER_SUBSCRIPTIONS_MAX; i++)
        (void)fake_subscribe(&f, &(struct gridline_subscription){.events = "x"});
    const struct gridline_subscription more = {.size = sizeof more};
    assert_int_equal(gridline_consumer_subscribe(f.consumer, &more), -ENOSPC);
    fake_end(&f);
}

/* Every allocation fails once: nothing is lost by it, and nothing leaks. */
static void test_no_memory(void **state)
{
    (void)state;
    struct fake f;
    uint64_t failed = 0;
    int id = begin(&f, &(struct gridline_subscription){.events = "x"});
    for (uint64_t n = 1; n <= 40; n++) {
        fake_events(&f, id, AT(100 + n, 0, 1), 1, 2);
        mem_fail_after(n);
        int r = gridline_consumer_next(f.consumer, 0, &f.item);
        failed += r == -ENOMEM;
        mem_fail_after(0);
        assert_true(r == 1 || r == -ENOMEM);
        if (r == 1) {
            assert_int_equal(gridline_item_kind(f.item), GRIDLINE_ITEM_EVENT);
            f.events++;
        }
        fake_drain(&f);
        assert_int_equal(f.events, 2 * n);
    }
    assert_true(failed > 0);
    fake_end(&f);
    for (uint64_t n = 1;; n++) {
        mem_fail_after(n);
        gridline_consumer *c = gridline_consumer_open(
            &(struct gridline_consumer_options){.size = sizeof(struct gridline_consumer_options),
                                                .gateways = "unix:/nowhere"},
            NULL, 0);
        mem_fail_after(0);
        gridline_consumer_close(c);
        if (c) {
            assert_true(n > 5);
            return;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_options_are_sent),
        cmocka_unit_test(test_no_options),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_position_frame),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_other_journal),
        cmocka_unit_test(test_agent),
        cmocka_unit_test(test_place_in_a_batch),
        cmocka_unit_test(test_place_at_the_beginning),
        cmocka_unit_test(test_place_with_state),
        cmocka_unit_test(test_skip_ends_with_a_gap),
        cmocka_unit_test(test_durable),
        cmocka_unit_test(test_consumed_is_exact),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unsubscribe),
        cmocka_unit_test(test_damaged_block),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_bye),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_answers_pings),
        cmocka_unit_test(test_descriptor),
        cmocka_unit_test(test_two_gateways),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
