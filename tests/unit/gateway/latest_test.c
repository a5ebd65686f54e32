/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gateway/stream_asks.h"

#include "base/mem.h"
#include "gateway/latest.h"
#include "gateway/stream_question.h"

static struct latest *latest;
static struct asks asks;
static struct registry *registry;
static struct batch_builder *builder;

static const int64_t now_ns = INT64_C(1800000000) * NS_PER_S;

static void open_with(uint32_t streams, uint64_t memory)
{
    asks_init(&asks);
    latest = latest_create(&(struct latest_options){.streams = streams, .memory = memory});
    assert_non_null(latest);
    assert_int_equal(latest_add_verbs(latest, asks.control), 0);
}

static void close_all(void)
{
    latest_destroy(latest);
    asks_fini(&asks);
}

static const struct field disk_fields[] = {
    {.name = {"device", 6}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT, .role = ROLE_KEY},
    {.name = {"reads", 5}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_UINT, .role = ROLE_VALUE},
    {.name = {"state", 5}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT, .role = ROLE_VALUE},
};
static const struct field ping_fields[] = {
    {.name = {"target", 6}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT, .role = ROLE_KEY},
    {.name = {"rtt", 3}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_FLOAT, .role = ROLE_VALUE},
};
static struct schema *disk, *ping;

static int set_up(void **unused)
{
    (void)unused;
    registry = registry_create();
    builder = batch_builder_create(registry, 0);
    return schema_create(SLICE_LIT("disk"), disk_fields, 3, &disk) < 0 ||
                   schema_create(SLICE_LIT("ping"), ping_fields, 2, &ping) < 0
               ? -1
               : 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    batch_builder_destroy(builder);
    registry_destroy(registry);
    schema_unref(disk);
    schema_unref(ping);
    return 0;
}

static void add_disk(const char *host, const char *device, int64_t at_s, uint64_t reads, const char *state)
{
    const struct value v[] = {value_text(slice_str(device)), value_uint(reads),
                              state ? value_text(slice_str(state)) : value_none()};
    const struct event_head head = {.time_ns = now_ns + at_s * NS_PER_S,
                                    .host = slice_str(host),
                                    .prog = SLICE_LIT("agent"),
                                    .level = LEVEL_INFO};
    assert_int_equal(batch_builder_add_known(builder, &head, disk, v, NULL), 0);
}

static void add_ping(const char *host, const char *target, int64_t at_s)
{
    const struct value v[] = {value_text(slice_str(target)), value_float(0.5)};
    const struct event_head head = {.time_ns = now_ns + at_s * NS_PER_S, .host = slice_str(host)};
    assert_int_equal(batch_builder_add_known(builder, &head, ping, v, NULL), 0);
}

static void give(void)
{
    struct batch *b = batch_builder_finish(builder, NULL);
    assert_non_null(b);
    latest_batch(latest, b, now_ns);
    batch_unref(b); /* all that is kept is a copy */
    assert_true(latest_check(latest));
}

static const struct event *find(const struct asked *k, const char *host, const char *key)
{
    for (size_t i = 0; i < k->n_events; i++)
        if (slice_eq_str(k->events[i]->host, host) && slice_eq_str(value_slice(k->events[i]->values[0]), key))
            return k->events[i];
    return NULL;
}

static uint64_t reads_of(const struct asked *k, const char *host, const char *device)
{
    const struct event *e = find(k, host, device);
    assert_non_null(e);
    return event_get(e, SLICE_LIT("reads")).u;
}

/* ---------------------------------------------------------------- what is held */

static void the_newest_of_each_stream(void **unused)
{
    struct latest_counts n;
    (void)unused;
    open_with(100, 1 << 20);
    add_disk("h1", "sda", 0, 1, "idle");
    add_disk("h1", "sdb", 0, 2, NULL);
    add_disk("h2", "sda", 0, 3, "a long text that needs more room than the one before it");
    add_disk("h1", "sda", 1, 4, "busy, and longer than it was");
    add_disk("h1", "sda", 2, 5, "");
    add_disk("h2", "sda", -1, 99, "late"); /* out of order */
    add_disk("h1", "sdb", 0, 6, "same time, came later");
    give();
    struct asked *k = ask(asks.control, "latest", "event", "disk");
    assert_int_equal(k->status, CONTROL_DONE);
    assert_int_equal(k->n_events, 3);
    assert_int_equal(reads_of(k, "h1", "sda"), 5);
    assert_int_equal(reads_of(k, "h1", "sdb"), 6);
    assert_int_equal(reads_of(k, "h2", "sda"), 3);
    assert_slice(value_slice(event_get(find(k, "h2", "sda"), SLICE_LIT("state"))),
                 "a long text that needs more room than the one before it");
    assert_slice(find(k, "h1", "sda")->prog, "agent");
    assert_int_equal(find(k, "h1", "sda")->time_ns, now_ns + 2 * NS_PER_S);
    latest_counts(latest, &n);
    assert_int_equal(n.streams, 3);
    assert_int_equal(n.taken, 7);
    assert_int_equal(n.older, 1);
    asked_fini(k);
    close_all();
}

static void a_clock_that_was_wrong_holds_nothing(void **unused)
{
    struct event e;
    (void)unused;
    open_with(100, 1 << 20);
    add_disk("h1", "sda", 365 * 86400, 1, NULL);
    give();
    add_disk("h1", "sda", 0, 2, NULL);
    give();
    add_disk("h1", "sda", LATEST_AHEAD_S, 3, NULL); /* that much may be */
    add_disk("h1", "sda", 1, 4, NULL);
    struct batch *b = batch_builder_finish(builder, NULL);
    latest_batch(latest, b, now_ns);
    assert_true(latest_get(latest, &b->events[0], &e));
    assert_int_equal(event_get(&e, SLICE_LIT("reads")).u, 3);
    batch_unref(b);
    close_all();
}

/* No allocation once the stream is known and its row is as large as it gets. */
static void nothing_is_allocated_for_an_event(void **unused)
{
    struct latest_counts n;
    (void)unused;
    open_with(100, 1 << 20);
    add_disk("h1", "sda", 0, 1, "a text of some length");
    give();
    for (int64_t i = 1; i < 100; i++)
        add_disk("h1", "sda", i, 1, i % 2 ? "a text" : "a text of any length");
    struct batch *b = batch_builder_finish(builder, NULL);
    mem_fail_after(1);
    latest_batch(latest, b, now_ns);
    mem_fail_after(0);
    batch_unref(b);
    latest_counts(latest, &n);
    assert_int_equal(n.no_memory, 0);
    assert_int_equal(n.older, 0);
    close_all();
}

/* Each allocation fails once: what can't be kept is counted, and nothing stale stays. */
static void no_memory_is_counted(void **unused)
{
    (void)unused;
    for (uint64_t fails = 1; fails < 12; fails++) {
        struct latest_counts n;
        struct event e;
        open_with(100, 1 << 20);
        add_disk("h1", "sda", 0, 1, "short");
        give();
        add_disk("h1", "sda", 1, 2,
                 "a text that is much longer than the one that was held before it, by far");
        add_disk("h2", "sda", 1, 3, NULL);
        struct batch *b = batch_builder_finish(builder, NULL);
        mem_fail_after(fails);
        latest_batch(latest, b, now_ns);
        mem_fail_after(0);
        assert_true(latest_check(latest));
        latest_counts(latest, &n);
        bool has_first = latest_get(latest, &b->events[0], &e);
        if (has_first)
            assert_int_equal(event_get(&e, SLICE_LIT("reads")).u, 2);
        assert_int_equal(n.streams + n.no_memory, 2);
        batch_unref(b);
        close_all();
    }
}

/* ---------------------------------------------------------------- bounds */

static void the_longest_quiet_is_forgotten(void **unused)
{
    struct latest_counts n;
    char device[16];
    (void)unused;
    open_with(10, 1 << 20);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(device, sizeof device, "sd%d", i);
        add_disk("h1", device, i, (uint64_t)i, NULL);
    }
    add_disk("h1", "sd0", 20, 100, NULL); /* heard of again */
    add_disk("h1", "sd1", -5, 100, NULL); /* so was this, late as it is */
    add_disk("h1", "sdx", 21, 101, NULL);
    give();
    struct asked *k = ask(asks.control, "latest", "event", "disk");
    assert_int_equal(k->n_events, 10);
    assert_non_null(find(k, "h1", "sd0"));
    assert_non_null(find(k, "h1", "sd1"));
    assert_non_null(find(k, "h1", "sdx"));
    assert_null(find(k, "h1", "sd2"));
    latest_counts(latest, &n);
    assert_int_equal(n.forgotten, 1);
    asked_fini(k);
    close_all();
}

static void memory_is_bounded(void **unused)
{
    struct latest_counts n;
    char device[16];
    char *text = calloc(1, 60001);
    (void)unused;
    memset(text, 'x', 60000);
    open_with(100000, 1 << 20);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(device, sizeof device, "sd%d", i % 50);
        add_disk("h1", device, i, 1, text);
        give();
        latest_counts(latest, &n);
        assert_true(n.bytes <= 1 << 20);
    }
    assert_true(n.forgotten > 0);
    assert_true(n.streams >= 10);
    add_disk("h1", "sd49", 300, 1, "small"); /* a row that is much too large is given back */
    give();
    uint64_t before = n.bytes;
    latest_counts(latest, &n);
    assert_true(n.bytes + 50000 < before + 1000);
    free(text);
    close_all();
}

/* ---------------------------------------------------------------- questions */

static void fill(int hosts, int devices)
{
    char host[16], device[16];
    for (int h = 0; h < hosts; h++) {
        (void)snprintf(host, sizeof host, "node%d", h);
        for (int d = 0; d < devices; d++) {
            (void)snprintf(device, sizeof device, "sd%d", d);
            add_disk(host, device, 0, (uint64_t)d, NULL);
        }
        add_ping(host, "router", 0);
        give();
    }
}

static void streams_are_chosen(void **unused)
{
    static const struct {
        const char *event, *host, *where;
        size_t n;
        int status;
    } cases[] = {
        {"", "", "", 44, CONTROL_DONE},
        {"disk", "", "", 40, CONTROL_DONE},
        {"d*", "", "", 40, CONTROL_DONE},
        {"disk,ping", "", "", 44, CONTROL_DONE},
        {"disk,disk,disk,ping", "", "", 44, CONTROL_DONE},
        {"disk", "node1", "", 10, CONTROL_DONE},
        {"", "node1", "", 10, CONTROL_DONE},
        {"", "node1,node1,nowhere,node3", "", 20, CONTROL_DONE},
        {"", "node[12]", "", 20, CONTROL_DONE},
        {"d?sk", "node*", "", 40, CONTROL_DONE},
        {"", "router", "", 4, CONTROL_DONE}, /* what they are about */
        {"ping", "rout*", "", 4, CONTROL_DONE},
        {"ping", "node1", "", 0, CONTROL_NOT_FOUND},
        {"", "", "host = 'node2'", 11, CONTROL_DONE},
        {"disk", "", "reads >= 8", 8, CONTROL_DONE},
        {"", "node1,node2", "device = 'sd3'", 2, CONTROL_DONE},
        {"cpu", "", "", 0, CONTROL_NOT_FOUND},
        {"", "", "reads > 1000", 0, CONTROL_NOT_FOUND},
    };
    (void)unused;
    open_with(1000, 1 << 20);
    fill(4, 10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked *k = ask(asks.control, "latest", "event", cases[i].event, "host", cases[i].host, "where",
                              cases[i].where);
        if (k->status != cases[i].status || k->n_events != cases[i].n)
            fail_msg("case %zu: status %d, %zu events: %s", i, k->status, k->n_events, k->text);
        asked_fini(k);
    }
    close_all();
}

static void wrong_questions_are_told(void **unused)
{
    static const struct {
        const char *name, *text, *says;
    } cases[] = {
        {"events", "disk", "there is no 'events'"},
        {"where", "reads >", "where: at byte"},
        {"after", "12", "after: '12' is not what an answer said; ask again without it"},
        {"after", "1-2-3-4", "is not what an answer said"},
        {"after", "-1-2-3", "is not what an answer said"},
        {"after", "1--3", "is not what an answer said"},
    };
    (void)unused;
    open_with(1000, 1 << 20);
    fill(1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked *k = ask(asks.control, "latest", cases[i].name, cases[i].text);
        assert_int_equal(k->status, CONTROL_USAGE);
        if (!strstr(k->text, cases[i].says))
            fail_msg("case %zu: %s", i, k->text);
        asked_fini(k);
    }
    struct asked *k = asked_new(&owner);
    struct args_writer w = {0};
    args_add_uint(&w, "event", 3);
    k->status = -1;
    control_ask(asks.control, &k->asker, &(struct frame_control){7, SLICE_LIT("latest"), args_of(&w)});
    assert_int_equal(k->status, CONTROL_USAGE);
    assert_non_null(strstr(k->text, "this is no text: 'event'"));
    args_writer_fini(&w);
    asked_fini(k);
    close_all();
}

static void none_is_kept(void **unused)
{
    (void)unused;
    open_with(0, 1 << 20);
    add_disk("h1", "sda", 0, 1, NULL);
    give();
    struct asked *k = ask(asks.control, "latest", "event", "disk");
    assert_int_equal(k->status, CONTROL_FAILED);
    assert_non_null(strstr(k->text, "latest.streams"));
    asked_fini(k);
    close_all();
}

/* Whoever may see summaries only gets no event; nor does an agent. */
static void events_are_for_who_may_query(void **unused)
{
    (void)unused;
    open_with(100, 1 << 20);
    fill(1, 1);
    const struct access_identity *others[] = {&local, &agent};
    for (size_t i = 0; i < 2; i++) {
        struct asked *k = ask_as(asks.control, others[i], "latest", NULL);
        assert_int_equal(k->status, CONTROL_NOT_ALLOWED);
        assert_int_equal(k->n_events, 0);
        asked_fini(k);
    }
    close_all();
}

static size_t times_given(const struct asked *k, const char *host, const char *device)
{
    size_t n = 0;
    for (size_t i = 0; i < k->n_events; i++)
        n += slice_eq_str(k->events[i]->host, host) &&
             slice_eq_str(value_slice(k->events[i]->values[0]), device);
    return n;
}

/* Between two pages streams come, go and change: those that stay are given once. */
static void pages_hold_whatever_happens(void **unused)
{
    enum { HOSTS = 300, DEVICES = 30 };
    char host[16], device[16];
    (void)unused;
    open_with(HOSTS * (DEVICES + 1), 64 << 20);
    fill(HOSTS, DEVICES);
    struct asked *k = asked_new(&owner);
    do {
        ask_page(asks.control, k, "latest", NULL);
        assert_int_equal(k->status, CONTROL_DONE);
        if (k->pages > 5)
            continue;
        for (int h = HOSTS / 2; h < HOSTS; h++) { /* these stay, */
            (void)snprintf(host, sizeof host, "node%d", h);
            for (int d = 0; d < DEVICES; d++) {
                (void)snprintf(device, sizeof device, "sd%d", d);
                add_disk(host, device, (int64_t)k->pages, 1, NULL);
            }
            add_ping(host, "router", (int64_t)k->pages);
        }
        for (int i = 0; i < 200; i++) { /* and for these the oldest give way */
            (void)snprintf(host, sizeof host, "new%zu.%d", k->pages, i);
            add_disk(host, "sda", 0, 1, NULL);
        }
        give();
    } while (k->after[0]);
    assert_true(k->pages > 5);
    assert_true(k->most_bytes < 2 * CONTROL_PAGE);
    for (int h = HOSTS / 2; h < HOSTS; h++) {
        (void)snprintf(host, sizeof host, "node%d", h);
        for (int d = 0; d < DEVICES; d++) {
            (void)snprintf(device, sizeof device, "sd%d", d);
            assert_int_equal(times_given(k, host, device), 1);
        }
        assert_int_equal(times_given(k, host, "router"), 1);
    }
    asked_fini(k);
    close_all();
}

/* A page looks at so many streams, whether it gives them or not. */
static void a_page_looks_at_some(void **unused)
{
    char host[16];
    (void)unused;
    open_with(STREAM_QUESTION_LOOKED + 1000, 64 << 20);
    for (int i = 0; i < STREAM_QUESTION_LOOKED + 1000; i++) {
        (void)snprintf(host, sizeof host, "node%d", i);
        add_disk(host, "sda", 0, (uint64_t)i, NULL);
        if (i % 1000 == 999)
            give();
    }
    give();
    struct asked *k = ask(asks.control, "latest", "where", "reads = 9000");
    assert_int_equal(k->n_events, 1);
    assert_int_equal(k->pages, 2);
    asked_fini(k);
    k = ask(asks.control, "latest", "host", "node9000"); /* by its place: at once */
    assert_int_equal(k->n_events, 1);
    assert_int_equal(k->pages, 1);
    asked_fini(k);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_of_each_stream),
        cmocka_unit_test(a_clock_that_was_wrong_holds_nothing),
        cmocka_unit_test(nothing_is_allocated_for_an_event),
        cmocka_unit_test(no_memory_is_counted),
        cmocka_unit_test(the_longest_quiet_is_forgotten),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(streams_are_chosen),
        cmocka_unit_test(wrong_questions_are_told),
        cmocka_unit_test(none_is_kept),
        cmocka_unit_test(events_are_for_who_may_query),
        cmocka_unit_test(pages_hold_whatever_happens),
        cmocka_unit_test(a_page_looks_at_some),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
