/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile gateway may send to a program with the consumer library. The input is frames: u8 type, u16
 * length, payload; their heads are made here, as no mutation would get past their checksums, and those of
 * blocks in EVENTS are put right. Type 255: the payload goes in as it is, bytes that may be no frame at all.
 * The program has a plain subscription (1), a durable one (2) and one with a filter that has a state (3); it
 * looks at everything that it is given, and says CONSUMED.
 *
 * Whatever comes: an event is given only of a subscription that runs, each frame's events at most once; a
 * place moves back only by SUBSCRIBED; a place as text reads back as the same; and memory is bounded. */
#include "base/crc32c.h"
#include "consumer/internal.h"
#include "event/block.h"

#include <stdlib.h>

enum { SUBSCRIPTIONS = 3, BLOCK_AT = 4 + 16 + 4, RAW = 255 };

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static gridline_consumer *open_consumer(void)
{
    const struct gridline_consumer_options o = {.size = sizeof o, .gateways = "unix:/nobody"};
    static const struct gridline_subscription all[SUBSCRIPTIONS] = {
        {.size = sizeof *all, .events = "a,b*"},
        {.size = sizeof *all, .durable = "d", .from = "7.3-0-0+2"},
        {.size = sizeof *all, .on_change = "*", .from = "oldest"},
    };
    gridline_consumer *c = gridline_consumer_open(&o, NULL, 0);
    check(c);
    for (int i = 0; i < SUBSCRIPTIONS; i++)
        check(gridline_consumer_subscribe(c, &all[i]) == i + 1);
    return c;
}

static struct feed *feed(gridline_consumer *c, int i)
{
    return &consumer_find(c, i + 1)->feeds[0];
}

static void put_right(char *block, size_t n)
{
    if (n < BLOCK_HEAD)
        return;
    memset(block + 8, 0, 4);
    uint32_t crc = crc32c(0, slice_of(block, n));
    for (int i = 0; i < 4; i++)
        block[8 + i] = (char)(crc >> (8 * i));
}

/* Takes the next frame of the input as bytes of a connection; its type, 0 at the end. */
static uint8_t next_frame(struct cursor *input, struct strbuf *out)
{
    uint8_t type = cursor_u8(input);
    size_t n = cursor_u16(input);
    if (input->bad)
        return 0;
    struct slice payload = cursor_bytes(input, n < cursor_left(input) ? n : cursor_left(input));
    strbuf_reset(out);
    if (type == RAW) {
        strbuf_add_slice(out, payload);
        return RAW;
    }
    frame_put(out, type, 0, payload);
    if (type == FRAME_EVENTS && payload.n > BLOCK_AT)
        put_right(out->p + FRAME_HEAD + BLOCK_AT, payload.n - BLOCK_AT);
    return type ? type : 128;
}

static void look_at_fields(const gridline_item *item)
{
    struct gridline_head head;
    struct gridline_value v;
    double number;
    check(gridline_item_head(item, &head, sizeof head) == 0);
    check(strlen(head.name) > 0 && head.level >= 0 && head.level <= GRIDLINE_TRACE);
    for (size_t i = 0; i < head.n_fields; i++) {
        int r = gridline_item_field(item, i, &v);
        check(r == 0 || r == 1);
        check((v.type != 't' && v.type != 'x') || v.v.p[v.n] == '\0');
        check(r == 0 || gridline_item_get(item, v.name, &v) == 1);
        (void)gridline_item_number(item, v.name, &number); /* any answer will do */
    }
    check(gridline_item_field(item, head.n_fields, &v) < 0);
}

static void check_places(gridline_consumer *c)
{
    char text[GRIDLINE_POSITION_MAX];
    for (int i = 0; i < SUBSCRIPTIONS; i++) {
        struct feed_place a, b;
        if (!feed_place(feed(c, i), &c->item, &a))
            continue;
        size_t n = feed_print(text, &a);
        check(n < sizeof text && feed_parse(slice_of(text, n), &b));
        check(position_compare(a.position, b.position) == 0 && a.skip == b.skip && a.journal == b.journal);
    }
}

static void take_item(gridline_consumer *c)
{
    struct gridline_item *item = &c->item;
    check(strlen(gridline_item_text(item)) < sizeof item->text);
    if (item->kind != GRIDLINE_ITEM_EVENT) {
        check(item->kind >= GRIDLINE_ITEM_GAP && item->kind <= GRIDLINE_ITEM_REFUSED && !item->batch);
        return;
    }
    check(item->feed->state == FEED_RUNNING && item->batch && item->at < item->batch->n);
    const gridline_item *given = item;
    do {
        item->event = &item->batch->events[item->at];
        item->at++;
        look_at_fields(given);
        check_places(c);
        arena_reset(&c->words);
    } while (item->at < item->batch->n);
    if (item->subscription == 2)
        check(gridline_consumer_consumed(c, 2) == 0);
}

static void run(gridline_consumer *c, struct cursor input)
{
    struct link *l = &c->links[0];
    struct strbuf bytes = {0};
    int64_t now_ns = 1;
    for (uint8_t type; (type = next_frame(&input, &bytes)) != 0; now_ns++) {
        struct position before[SUBSCRIPTIONS];
        struct slice rest = strbuf_slice(&bytes);
        check(!strbuf_failed(&bytes));
        for (int i = 0; i < SUBSCRIPTIONS; i++)
            before[i] = feed(c, i)->at;
        int r;
        do {
            item_clear(&c->item);
            r = link_input(l, rest, now_ns, &c->item);
            rest.n = 0; /* the same call goes on with what is there */
            check(r == 0 || r == 1);
            if (r == 1)
                take_item(c);
        } while (r == 1);
        for (int i = 0; i < SUBSCRIPTIONS; i++)
            check(type == FRAME_SUBSCRIBED || type == RAW ||
                  position_compare(feed(c, i)->at, before[i]) >= 0);
        check(l->in.n <= LINK_INPUT_MAX && l->out.n <= LINK_OUTPUT_MAX + 4096);
        check_places(c);
        strbuf_reset(&l->out); /* as if it was sent */
        l->out_sent = 0;
    }
    strbuf_fini(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gridline_consumer *c = open_consumer();
    run(c, cursor_of(slice_of((const char *)data, size)));
    gridline_consumer_close(c);
    return 0;
}
