/* SPDX-License-Identifier: Apache-2.0 */
/* Subscriptions with a real journal: what is given, in which order, and what is said to be missing. Event i
 * of producer 1 has n = i, so every test counts numbers. */
#include "unit/gateway/bench.h"

#include "event/encoding.h"
#include "gateway/subscription.h"

#include <event2/event.h>

enum { NUMBERS = 200000 };

struct side {
    struct bench b; /* first: on_batch gets it */
    struct event_base *base;
    struct cursors cursors;
    struct subscriptions *subs;
    struct sender sender;
    uint64_t next; /* number of the next event */
    unsigned demands;
};

/* A consumer. */
struct reader {
    struct subscriber subscriber;
    bool is_stuck;
    size_t budget; /* chunks that it takes before it is stuck; 0 = any number */
    uint64_t events, lost, unknown_gaps, gone, ended, last_n;
    struct position last;
    bool has_doubles, is_out_of_order;
    uint8_t seen[NUMBERS];
    struct chunk *chunk; /* the last one */
    struct strbuf text;
};

static bool reader_is_writable(const struct subscriber *s)
{
    return !((const struct reader *)s)->is_stuck;
}

static void reader_take(struct reader *r, uint64_t n)
{
    assert_true(n < NUMBERS);
    r->has_doubles |= r->seen[n]++ > 0;
    r->is_out_of_order |= n <= r->last_n;
    r->last_n = n;
    r->events++;
}

static void reader_decode(struct reader *r, struct slice block)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    assert_int_equal(block_check(block), block.n);
    assert_int_equal(block_decode(block, builder, NULL), 0);
    struct batch *b = batch_builder_finish(builder, NULL);
    assert_non_null(b);
    for (size_t i = 0; i < b->n; i++)
        reader_take(r, event_get(&b->events[i], SLICE_LIT("n")).u);
    batch_unref(b);
    batch_builder_destroy(builder);
    registry_destroy(registry);
}

static void reader_events(struct subscriber *s, uint32_t id, struct chunk *c)
{
    struct reader *r = (struct reader *)s;
    uint64_t before = r->events;
    assert_true(id == 1 || id == 2);
    assert_true(position_compare(c->last, r->last) > 0);
    assert_true(position_compare(c->first, c->last) <= 0);
    r->last = c->last;
    chunk_unref(r->chunk);
    r->chunk = chunk_ref(c);
    if (c->data.n > 4 && memcmp(c->data.p, "GLB1", 4) == 0) {
        reader_decode(r, c->data);
        assert_int_equal(r->events - before, c->count);
    } else {
        strbuf_add_slice(&r->text, c->data);
        r->events += c->count;
    }
    if (r->budget && --r->budget == 0)
        r->is_stuck = true;
}

static void reader_gap(struct subscriber *s, uint32_t id, const struct subscription_gap *g)
{
    struct reader *r = (struct reader *)s;
    (void)id;
    r->lost += g->lost;
    r->unknown_gaps += g->lost == 0;
    r->gone += g->reason == GAP_GONE;
    assert_true(g->to.record == 0 || position_compare(g->from, g->to) != 0);
}

static void reader_position(struct subscriber *s, uint32_t id, struct position p)
{
    struct reader *r = (struct reader *)s;
    (void)id;
    assert_true(position_compare(p, r->last) > 0);
    r->last = p;
}

static void reader_ended(struct subscriber *s, uint32_t id, const char *why)
{
    (void)id, (void)why;
    ((struct reader *)s)->ended++;
}

static const struct subscriber_ops reader_ops = {.is_writable = reader_is_writable,
                                                 .events = reader_events,
                                                 .gap = reader_gap,
                                                 .position = reader_position,
                                                 .ended = reader_ended};

static const struct access_identity owner = {.kind = ACCESS_OWNER}, local = {.kind = ACCESS_LOCAL},
                                    ann = {.kind = ACCESS_OPERATOR, .name = "ann", .uid = UINT32_MAX};

static struct reader *reader_new(void)
{
    struct reader *r = calloc(1, sizeof *r);
    r->subscriber = (struct subscriber){.ops = &reader_ops, .who = &owner, .name = "a test"};
    return r;
}

static void reader_free(struct side *s, struct reader *r)
{
    subscriptions_forget(s->subs, &r->subscriber);
    chunk_unref(r->chunk);
    strbuf_fini(&r->text);
    assert_false(r->has_doubles || r->is_out_of_order);
    free(r);
}

static void side_on_batch(void *arg, const struct batch *b, struct position at)
{
    struct side *s = arg;
    bench_on_batch(&s->b, b, at);
    subscriptions_batch(s->subs, b, at);
}

static void side_on_group(void *arg, uint64_t last)
{
    struct side *s = arg;
    if (s->subs)
        subscriptions_flush(s->subs, last);
}

static void side_on_demand(void *arg)
{
    ((struct side *)arg)->demands++;
}

static void side_start(struct side *s)
{
    const struct subscriptions_options o = {.base = s->base,
                                            .journal = s->b.dir,
                                            .settled = ingest_settled(s->b.in),
                                            .cursors = &s->cursors,
                                            .on_demand = side_on_demand,
                                            .arg = s};
    s->subs = subscriptions_create(&o);
    assert_non_null(s->subs);
}

static struct side *side_open(uint64_t journal_max)
{
    struct side *s = calloc(1, sizeof *s);
    bench_init(&s->b);
    s->b.options.on_batch = side_on_batch;
    s->b.options.on_group = side_on_group;
    s->b.store_options.max_bytes = journal_max;
    bench_start(&s->b);
    s->base = event_base_new();
    s->sender = sender_new();
    s->next = 1;
    side_start(s);
    return s;
}

static void side_close(struct side *s)
{
    subscriptions_destroy(s->subs);
    event_base_free(s->base);
    bench_close(&s->b);
    free(s);
}

/* n more events, and they are settled. */
static void publish(struct side *s, uint32_t n)
{
    assert_int_equal(bench_give(&s->b, &s->sender, 1, s->next, n), 0);
    s->next += n;
    ingest_drain(s->b.in);
}

/* Until it has that many, or all that is missing was told. */
static void await_events(struct side *s, const struct reader *r, uint64_t n)
{
    for (int i = 0; r->events + r->lost < n && i < 100000; i++)
        (void)event_base_loop(s->base, EVLOOP_ONCE | (i % 2 ? 0 : EVLOOP_NONBLOCK));
    assert_int_equal(r->events + r->lost, n);
}

static int subscribe(struct side *s, struct reader *r, uint32_t id, const char *const *options)
{
    struct subscription_options o = {0};
    struct diag why = {0};
    for (; options && options[0]; options += 2)
        assert_true(subscription_option(&o, slice_str(options[0]), slice_str(options[1])));
    int e = subscriptions_add(s->subs, &r->subscriber, id, &o, NULL, &why);
    assert_true(e == 0 || why.message[0]);
    return e;
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_live(void **state)
{
    (void)state;
    struct side *s = side_open(0);
    struct reader *all = reader_new(), *same = reader_new(), *half = reader_new(), *none = reader_new();
    assert_int_equal(subscribe(s, all, 1, NULL), 0);
    assert_int_equal(subscribe(s, same, 1, NULL), 0);
    assert_int_equal(subscribe(s, half, 1, OPTIONS("where", "n % 2 = 0", "event", "e")), 0);
    assert_int_equal(subscribe(s, none, 1, OPTIONS("host", "other*")), 0);
    assert_int_equal(s->demands, 4);
    publish(s, 100);
    assert_int_equal(all->events, 100);
    assert_ptr_equal(all->chunk, same->chunk); /* one for both */
    assert_int_equal(half->events, 50);
    assert_int_equal(half->seen[51], 0);
    assert_int_equal(none->events, 0);
    subscriptions_remove(s->subs, &same->subscriber, 1);
    publish(s, 10);
    assert_int_equal(all->events, 110);
    assert_int_equal(same->events, 100);
    assert_int_equal(subscriptions_count(s->subs), 3);
    reader_free(s, all);
    reader_free(s, same);
    reader_free(s, half);
    reader_free(s, none);
    assert_int_equal(subscriptions_count(s->subs), 0);
    side_close(s);
}

/* Each format is what the encoding makes of the same events. */
static void test_formats(void **state)
{
    (void)state;
    static const char *const formats[] = {"ndjson", "ulm", "bp", "xml"};
    struct side *s = side_open(0);
    struct reader *readers[4], *filtered = reader_new();
    for (int i = 0; i < 4; i++) {
        readers[i] = reader_new();
        assert_int_equal(subscribe(s, readers[i], 1, OPTIONS("format", formats[i])), 0);
    }
    assert_int_equal(subscribe(s, filtered, 1, OPTIONS("format", "ndjson", "where", "n > 2")), 0);
    publish(s, 3);
    for (int i = 0; i < 4; i++) {
        struct registry *registry = registry_create();
        struct batch_builder *builder = batch_builder_create(registry, 0);
        struct decoder *d;
        size_t used;
        assert_int_equal(readers[i]->events, 3);
        assert_int_equal(decoder_create(encoding_by_name(slice_str(formats[i])), &d), 0);
        assert_true(decoder_run(d, strbuf_slice(&readers[i]->text), true, builder, &used, NULL) >= 0);
        assert_int_equal(batch_builder_count(builder), 3);
        decoder_destroy(d);
        batch_builder_destroy(builder);
        registry_destroy(registry);
        if (i == 0) { /* the filtered one has its last line */
            struct slice line = strbuf_slice(&filtered->text), all = strbuf_slice(&readers[0]->text);
            assert_true(line.n > 0 && slice_ends(all, line));
        }
        reader_free(s, readers[i]);
    }
    assert_int_equal(filtered->events, 1);
    reader_free(s, filtered);
    side_close(s);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"where", "n >"},   {"format", "csv"},   {"from", "yesterday"},
                                         {"from", "1-2"},    {"period", "often"}, {"queue", "1KiB"},
                                         {"durable", "a b"}, {"cross", "n"},      {"every", "-1s"}};
    struct side *s = side_open(0);
    struct reader *r = reader_new();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(subscribe(s, r, 1, OPTIONS(bad[i][0], bad[i][1])) < 0);
    assert_int_equal(subscriptions_count(s->subs), 0);
    for (uint32_t i = 0; i < SUBSCRIPTIONS_OF_ONE; i++)
        assert_int_equal(subscribe(s, r, i + 10, NULL), 0);
    assert_int_equal(subscribe(s, r, 5, NULL), E_LIMIT);
    assert_int_equal(subscribe(s, r, 10, NULL), 0); /* in place of the one of that id */
    r->subscriber.who = &local;
    assert_int_equal(subscribe(s, r, 10, NULL), -EACCES);
    reader_free(s, r);
    side_close(s);
}

/* One that does not read loses the oldest of its own, to the event; others nothing. */
static void test_slow(void **state)
{
    (void)state;
    struct side *s = side_open(0);
    struct reader *slow = reader_new(), *fast = reader_new();
    slow->is_stuck = true;
    assert_int_equal(subscribe(s, slow, 1, OPTIONS("queue", "64KiB", "format", "ndjson")), 0);
    assert_int_equal(subscribe(s, fast, 1, NULL), 0);
    for (int i = 0; i < 200; i++)
        publish(s, 100);
    assert_int_equal(fast->events, 20000);
    assert_int_equal(slow->events + slow->lost, 0);
    slow->is_stuck = false;
    subscriptions_writable(s->subs, &slow->subscriber);
    assert_int_equal(slow->events + slow->lost, 20000);
    assert_in_range(slow->events, 1, 2000); /* 64 KiB of lines */
    assert_true(slow->lost > 0);
    assert_true(slice_ends(strbuf_slice(&slow->text), SLICE_LIT("\n")));
    char last[32];
    (void)snprintf(last, sizeof last, "\"n\":%d", 20000); /* the newest is there */
    assert_non_null(memmem(slow->text.p, slow->text.n, last, strlen(last)));
    publish(s, 5);
    assert_int_equal(slow->events + slow->lost, 20005);
    reader_free(s, slow);
    reader_free(s, fast);
    side_close(s);
}

/* From any place on, what comes is what came behind it, whether in the middle of a batch or not. */
static void test_resume(void **state)
{
    (void)state;
    struct side *s = side_open(0);
    struct reader *first = reader_new();
    assert_int_equal(subscribe(s, first, 1, NULL), 0);
    for (int i = 0; i < 30; i++)
        publish(s, 10);
    struct position middle = first->last;
    for (int i = 0; i < 30; i++)
        publish(s, 10);
    for (uint32_t skip = 0; skip < 12; skip += 3) {
        struct reader *r = reader_new();
        struct position p = middle;
        char text[POSITION_TEXT_MAX];
        p.event = 10 - skip % 10;
        r->last = p;
        (void)position_print(text, p);
        assert_int_equal(subscribe(s, r, 1, OPTIONS("from", text)), 0);
        await_events(s, r, s->next - 1 - 300 + skip % 10);
        uint64_t had = r->events;
        publish(s, 7);
        await_events(s, r, had + 7);
        assert_int_equal(r->lost, 0);
        assert_int_equal(r->last_n, s->next - 1);
        reader_free(s, r);
    }
    struct reader *oldest = reader_new(), *half = reader_new();
    assert_int_equal(subscribe(s, oldest, 1, OPTIONS("from", "oldest")), 0);
    assert_int_equal(subscribe(s, half, 1, OPTIONS("from", "oldest", "where", "n % 2 = 1", "format", "ulm")),
                     0);
    await_events(s, oldest, s->next - 1);
    await_events(s, half, s->next / 2);
    reader_free(s, oldest);
    reader_free(s, half);
    reader_free(s, first);
    side_close(s);
}

/* The gateway starts again: positions are still good. */
static void test_restart(void **state)
{
    (void)state;
    struct side *s = side_open(0);
    struct reader *r = reader_new();
    char text[POSITION_TEXT_MAX];
    assert_int_equal(subscribe(s, r, 1, NULL), 0);
    publish(s, 1000);
    (void)position_print(text, r->last);
    subscriptions_forget(s->subs, &r->subscriber);
    publish(s, 500);
    subscriptions_destroy(s->subs);
    s->subs = NULL;
    bench_restart(&s->b);
    side_start(s);
    assert_int_equal(subscribe(s, r, 1, OPTIONS("from", text)), 0);
    await_events(s, r, 1500);
    publish(s, 10);
    await_events(s, r, 1510);
    /* A position that this journal has not reached is another one's. */
    assert_int_equal(subscribe(s, r, 1, OPTIONS("from", "1000000")), 0);
    subscriptions_writable(s->subs, &r->subscriber);
    assert_int_equal(r->unknown_gaps, 1);
    publish(s, 10);
    await_events(s, r, 1520);
    reader_free(s, r);
    side_close(s);
}

/* What the journal no longer has is said to be gone. */
static void test_gone(void **state)
{
    (void)state;
    struct side *s = side_open(1 << 20);
    struct reader *r = reader_new(), *old = reader_new();
    assert_int_equal(subscribe(s, r, 1, NULL), 0);
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 200; k++, s->next += 5)
            assert_int_equal(bench_give(&s->b, &s->sender, 1, s->next, 5), 0);
        ingest_drain(s->b.in);
    }
    assert_true(s->b.forced > 0);
    assert_int_equal(subscribe(s, old, 1, OPTIONS("from", "1")), 0);
    while (old->last_n != s->next - 1)
        (void)event_base_loop(s->base, EVLOOP_ONCE);
    assert_true(old->gone > 0 && old->unknown_gaps > 0);
    assert_in_range(old->events, 1, s->next - 2);
    reader_free(s, r);
    reader_free(s, old);
    side_close(s);
}

/* A durable one loses nothing however slow it is, and goes on where its consumer has got to. */
static void test_durable(void **state)
{
    (void)state;
    struct side *s = side_open(0);
    struct reader *r = reader_new(), *second = reader_new();
    const char *const *options = OPTIONS("durable", "archive", "queue", "64KiB", "format", "binary");
    r->is_stuck = true;
    assert_int_equal(subscribe(s, r, 1, options), 0);
    for (int i = 0; i < 100; i++)
        publish(s, 1000);
    assert_int_equal(r->events, 0);
    r->budget = 10;
    r->is_stuck = false;
    subscriptions_writable(s->subs, &r->subscriber);
    while (!r->is_stuck)
        (void)event_base_loop(s->base, EVLOOP_ONCE);
    struct position consumed = r->last;
    uint64_t had = r->last_n;
    subscriptions_consumed(s->subs, &r->subscriber, 1, consumed);
    /* Another one of that name takes over behind what was consumed. */
    second->last = consumed;
    second->last_n = had;
    assert_int_equal(subscribe(s, second, 1, options), 0);
    assert_int_equal(r->ended, 1);
    await_events(s, second, s->next - 1 - had);
    publish(s, 50);
    await_events(s, second, s->next - 1 - had);
    assert_int_equal(second->lost + r->lost, 0);
    assert_int_equal(subscriptions_remove_durable(s->subs, SLICE_LIT("archive"), &owner), -EBUSY);
    /* Nobody else may have it, but the owner of the gateway. */
    struct reader *thief = reader_new();
    thief->subscriber.who = &ann;
    assert_int_equal(subscribe(s, thief, 1, options), -EACCES);
    assert_int_equal(subscriptions_consumed_durable(s->subs, SLICE_LIT("archive"), consumed, &ann), E_NODATA);
    assert_int_equal(subscribe(s, thief, 1, OPTIONS("durable", "anns")), 0);
    assert_int_equal(subscriptions_consumed_durable(s->subs, SLICE_LIT("anns"), consumed, &ann), 0);
    assert_int_equal(subscriptions_consumed_durable(s->subs, SLICE_LIT("anns"), consumed, &owner), 0);
    reader_free(s, thief);
    subscriptions_forget(s->subs, &second->subscriber);
    /* Its holder may delete it, and who may control; an agent may not. */
    const struct access_identity node = {.kind = ACCESS_AGENT, .name = "node1", .uid = UINT32_MAX};
    assert_int_equal(subscriptions_remove_durable(s->subs, SLICE_LIT("archive"), &node), -EACCES);
    assert_int_equal(subscriptions_remove_durable(s->subs, SLICE_LIT("anns"), &ann), 0);
    assert_int_equal(subscriptions_remove_durable(s->subs, SLICE_LIT("archive"), &owner), 0);
    assert_int_equal(subscriptions_remove_durable(s->subs, SLICE_LIT("archive"), &owner), E_NODATA);
    reader_free(s, r);
    reader_free(s, second);
    side_close(s);
}

/* Readers that stop and go at random: every event comes once or is counted, in order. */
static void test_stop_and_go(void **state)
{
    (void)state;
    enum { READERS = 8, ROUNDS = 400 };
    struct side *s = side_open(0);
    struct reader *r[READERS];
    uint32_t seed = 7;
    for (size_t i = 0; i < READERS; i++) {
        r[i] = reader_new();
        assert_int_equal(subscribe(s, r[i], 1,
                                   i % 3 == 0
                                       ? OPTIONS("queue", "64KiB", "durable",
                                                 (const char *[]){"a", "b", "c", "d", "e", "f", "g", "h"}[i])
                                   : i % 3 == 1 ? OPTIONS("queue", "64KiB")
                                                : OPTIONS("queue", "70KiB", "where", "n > 0")),
                         0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525 + 1013904223;
        struct reader *one = r[seed >> 16 & 7];
        one->is_stuck = seed >> 28 & 1;
        one->budget = seed >> 24 & 3;
        if (!one->is_stuck)
            subscriptions_writable(s->subs, &one->subscriber);
        publish(s, 1 + (seed >> 8 & 255));
        (void)event_base_loop(s->base, EVLOOP_NONBLOCK);
    }
    for (size_t i = 0; i < READERS; i++) {
        r[i]->is_stuck = false;
        r[i]->budget = 0;
        subscriptions_writable(s->subs, &r[i]->subscriber);
        await_events(s, r[i], s->next - 1);
        if (i % 3 == 0)
            assert_int_equal(r[i]->lost, 0);
        reader_free(s, r[i]);
    }
    side_close(s);
}

/* Those for whom nothing passes learn where they are. */
static void test_position(void **state)
{
    (void)state;
    struct side *s = side_open(0);
    struct reader *r = reader_new();
    assert_int_equal(subscribe(s, r, 1, OPTIONS("where", "n < 0")), 0);
    publish(s, 10);
    struct position before = r->last;
    subscriptions_tick(s->subs, INT64_C(1) << 60);
    assert_true(position_compare(r->last, before) > 0);
    before = r->last;
    subscriptions_tick(s->subs, INT64_C(1)
                                    << 61); /* nothing new: nothing is said, which the callback checks */
    assert_int_equal(position_compare(r->last, before), 0);
    reader_free(s, r);
    side_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live),     cmocka_unit_test(test_formats), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_slow),     cmocka_unit_test(test_resume),  cmocka_unit_test(test_restart),
        cmocka_unit_test(test_gone),     cmocka_unit_test(test_durable), cmocka_unit_test(test_stop_and_go),
        cmocka_unit_test(test_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
