/* SPDX-License-Identifier: Apache-2.0 */
/* Consumers on the agent's socket: real sockets, on a loop that the test turns. */
#include "unit/test.h"

#include "agent/local.h"
#include "base/clock.h"
#include "event/block.h"
#include "net/subscribe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct side {
    struct event_base *base;
    struct local *local;
    struct registry *registry;
    struct batch_builder *builder;
    unsigned changes;
    char folder[64], path[80];
};

static void on_change(void *arg)
{
    ((struct side *)arg)->changes++;
}

static void begin(struct side *s)
{
    struct diag why = {0};
    *s = (struct side){.base = event_base_new(), .registry = registry_create()};
    s->builder = batch_builder_create(s->registry, 0);
    (void)snprintf(s->folder, sizeof s->folder, "/tmp/gridline-local.XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    (void)snprintf(s->path, sizeof s->path, "%s/agent.sock", s->folder);
    assert_int_equal(local_create(s->base, s->path, on_change, s, &s->local, &why), 0);
}

static void end(struct side *s)
{
    local_destroy(s->local);
    batch_builder_destroy(s->builder);
    registry_destroy(s->registry);
    event_base_free(s->base);
    assert_int_equal(access(s->path, F_OK), -1); /* the socket is gone */
    assert_int_equal(rmdir(s->folder), 0);
}

static void turn(struct side *s)
{
    assert_true(event_base_loop(s->base, EVLOOP_NONBLOCK) >= 0);
}

static int dial(struct side *s)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", s->path);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void say(int fd, const struct frame_subscribe *subscribe, uint8_t role)
{
    struct strbuf out = {0};
    const struct frame_hello h = {.minor_high = FRAME_MINOR,
                                  .role = role,
                                  .origin = {.producer = {1}, .epoch = 1},
                                  .host = SLICE_LIT("h"),
                                  .prog = SLICE_LIT("p")};
    greeting_put(&out);
    frame_put_hello(&out, &h);
    if (subscribe)
        frame_put_subscribe(&out, subscribe);
    assert_int_equal(write(fd, out.p, out.n), out.n);
    strbuf_fini(&out);
}

/* What came so far, the loop turned meanwhile, until nothing more comes. */
static void receive(struct side *s, int fd, struct strbuf *in)
{
    ssize_t n;
    int idle = 0;
    while (idle < 3) {
        turn(s);
        char *room = strbuf_room(in, 65536);
        n = read(fd, room, 65536);
        if (n > 0)
            strbuf_advance(in, (size_t)n);
        idle = n > 0 ? 0 : idle + 1;
        if (n == 0)
            return;
    }
}

struct got {
    uint64_t events, lost, frames[256];
    uint16_t status;
    char text[256]; /* of the last answer */
};

static struct got count(struct strbuf *in)
{
    struct got g = {.events = 0};
    struct frame f;
    int64_t n;
    while ((n = frame_read(strbuf_slice(in), FRAME_PAYLOAD_MAX, &f)) > 0) {
        struct frame_events e;
        struct frame_gap gap;
        struct frame_subscribed answer;
        g.frames[f.type]++;
        if (f.type == FRAME_EVENTS) {
            assert_int_equal(frame_get_events(f.payload, &e), 0);
            assert_int_equal(block_check(e.data), e.data.n);
            g.events += block_count(e.data);
        } else if (f.type == FRAME_GAP) {
            assert_int_equal(frame_get_gap(f.payload, &gap), 0);
            g.lost += gap.lost;
        } else if (f.type == FRAME_SUBSCRIBED) {
            assert_int_equal(frame_get_subscribed(f.payload, &answer), 0);
            g.status = answer.status;
            (void)snprintf(g.text, sizeof g.text, "%.*s", SLICE_ARG(answer.text));
        }
        strbuf_consume(in, (size_t)n);
    }
    assert_int_equal(n, 0);
    return g;
}

static void give(struct side *s, const char *name, int64_t value, size_t text_bytes)
{
    static char text[60000];
    memset(text, 'x', sizeof text);
    const struct named_value values[] = {{SLICE_LIT("v"), value_int(value)},
                                         {SLICE_LIT("t"), value_text(slice_of(text, text_bytes))}};
    const struct event_head head = {
        .time_ns = 1, .name = slice_str(name), .host = SLICE_LIT("h"), .level = LEVEL_INFO};
    assert_int_equal(batch_builder_add(s->builder, &head, values, 2, NULL), 0);
    struct batch *b = batch_builder_finish(s->builder, NULL);
    local_batch(s->local, b);
    batch_unref(b);
}

static void patterns_and_predicate(void **state)
{
    (void)state;
    struct side s;
    struct strbuf in = {0};
    begin(&s);
    int fd = dial(&s);
    say(fd, &(struct frame_subscribe){.id = 7, .events = SLICE_LIT("cpu,disk*"), .where = SLICE_LIT("v > 1")},
        PEER_CONSUMER);
    receive(&s, fd, &in);
    struct got g = count(&in);
    assert_int_equal(g.frames[FRAME_WELCOME], 1);
    assert_int_equal(g.frames[FRAME_SUBSCRIBED], 1);
    assert_int_equal(g.status, 0);
    assert_int_equal(s.changes, 1);
    assert_true(local_has_any(s.local));
    assert_true(local_asks(s.local, "disk.x"));
    assert_false(local_asks(s.local, "memory"));
    give(&s, "cpu", 1, 0);
    give(&s, "cpu", 2, 0);
    give(&s, "disk.x", 3, 0);
    give(&s, "memory", 4, 0);
    receive(&s, fd, &in);
    assert_int_equal(count(&in).events, 2);
    assert_int_equal(close(fd), 0);
    for (int i = 0; i < 10 && s.changes < 2; i++)
        turn(&s);
    assert_int_equal(s.changes, 2);
    assert_false(local_has_any(s.local));
    strbuf_fini(&in);
    end(&s);
}

static void subscribe_with(int fd, uint32_t id, const char *option, struct value value)
{
    struct args_writer w = {0};
    struct strbuf out = {0};
    args_add(&w, slice_str(option), value);
    frame_put_subscribe(
        &out, &(struct frame_subscribe){
                  .id = id, .events = SLICE_LIT("cpu"), .where = SLICE_LIT(""), .options = args_of(&w)});
    assert_int_equal(write(fd, out.p, out.n), out.n);
    strbuf_fini(&out);
    args_writer_fini(&w);
}

/* Values 1 1 2 2 5 5 in turn: what each option makes of them, on one connection. */
static void options(void **state)
{
    (void)state;
    static const struct {
        const char *option, *text;
        uint64_t events;
    } cases[] = {{"on_change", "v", 3}, {"cross", "v:5:1", 1}, {"delta", "v:3", 2},
                 {"every", "1s", 1},    {"host", "h*", 6},     {"host", "other", 0}};
    struct side s;
    struct strbuf in = {0};
    begin(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = dial(&s);
        say(fd, NULL, PEER_CONSUMER);
        subscribe_with(fd, 1, cases[i].option, value_text(slice_str(cases[i].text)));
        receive(&s, fd, &in);
        struct got g = count(&in);
        assert_int_equal(g.frames[FRAME_SUBSCRIBED], 1);
        assert_int_equal(g.status, 0);
        for (int64_t k = 0; k < 6; k++)
            give(&s, "cpu", (int64_t[]){1, 2, 5}[k / 2], 0);
        receive(&s, fd, &in);
        assert_int_equal(count(&in).events, cases[i].events);
        assert_int_equal(close(fd), 0);
        for (int k = 0; k < 10 && local_has_any(s.local); k++)
            turn(&s);
    }
    strbuf_fini(&in);
    end(&s);
}

static void options_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *option, *text, *says;
    } cases[] = {{"from", "oldest", "from: an agent does not know"},
                 {"durable", "x", "durable: an agent does not know"},
                 {"cross", "v", "cross: "},
                 {"host", "[", "host: "}};
    struct side s;
    struct strbuf in = {0};
    begin(&s);
    int fd = dial(&s);
    say(fd, NULL, PEER_CONSUMER);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        subscribe_with(fd, 1, cases[i].option, value_text(slice_str(cases[i].text)));
        receive(&s, fd, &in);
        struct got g = count(&in);
        assert_int_not_equal(g.status, 0);
        assert_memory_equal(g.text, cases[i].says, strlen(cases[i].says));
        assert_false(local_has_any(s.local));
    }
    assert_int_equal(s.changes, 0);
    assert_int_equal(close(fd), 0);
    strbuf_fini(&in);
    end(&s);
}

static void everything_asks_for_nothing(void **state)
{
    (void)state;
    struct side s;
    struct strbuf in = {0};
    begin(&s);
    int fd = dial(&s);
    say(fd, &(struct frame_subscribe){.id = 1, .events = SLICE_LIT(""), .where = SLICE_LIT("")},
        PEER_CONSUMER);
    receive(&s, fd, &in);
    assert_true(local_has_any(s.local));
    assert_false(local_asks(s.local, "cpu"));
    give(&s, "cpu", 1, 0);
    receive(&s, fd, &in);
    assert_int_equal(count(&in).events, 1);
    assert_int_equal(close(fd), 0);
    strbuf_fini(&in);
    end(&s);
}

/* One that does not read loses its own, is told how much, and the sums are exact; another one gets
 * everything. */
static void slow_consumer(void **state)
{
    (void)state;
    enum { EVENTS = 200 };
    struct side s;
    struct strbuf slow_in = {0}, quick_in = {0};
    struct got quick = {0};
    begin(&s);
    int slow = dial(&s), fast = dial(&s);
    say(slow, &(struct frame_subscribe){.id = 1, .events = SLICE_LIT(""), .where = SLICE_LIT("")},
        PEER_CONSUMER);
    say(fast, &(struct frame_subscribe){.id = 1, .events = SLICE_LIT(""), .where = SLICE_LIT("")},
        PEER_CONSUMER);
    receive(&s, fast, &quick_in);
    (void)count(&quick_in);
    for (int i = 0; i < EVENTS; i++) {
        give(&s, "big", i, 50000);
        receive(&s, fast, &quick_in);
        quick.events += count(&quick_in).events;
    }
    assert_int_equal(quick.events, EVENTS);
    receive(&s, slow, &slow_in);
    give(&s, "big", EVENTS, 1); /* GAP goes with the next event */
    receive(&s, slow, &slow_in);
    struct got g = count(&slow_in);
    assert_true(g.lost > 0);
    assert_true(g.frames[FRAME_GAP] >= 1);
    assert_int_equal(g.events + g.lost, EVENTS + 1);
    struct local_counts c;
    local_counts(s.local, &c);
    assert_int_equal(c.dropped, g.lost);
    assert_int_equal(c.passed + c.dropped, 2 * (EVENTS + 1));
    assert_int_equal(close(slow), 0);
    assert_int_equal(close(fast), 0);
    strbuf_fini(&slow_in);
    strbuf_fini(&quick_in);
    end(&s);
}

static void refusals(void **state)
{
    (void)state;
    struct side s;
    struct strbuf in = {0};
    begin(&s);
    int bad = dial(&s), program = dial(&s);
    say(bad, &(struct frame_subscribe){.id = 1, .events = SLICE_LIT("cpu"), .where = SLICE_LIT("v >")},
        PEER_CONSUMER);
    receive(&s, bad, &in);
    assert_int_not_equal(count(&in).status, 0);
    assert_int_equal(s.changes, 0);
    strbuf_reset(&in);
    say(program, NULL, PEER_PROGRAM); /* takes subscriptions, no events */
    receive(&s, program, &in);
    assert_int_equal(count(&in).frames[FRAME_BYE], 1);
    assert_int_equal(close(bad), 0);
    assert_int_equal(close(program), 0);
    strbuf_fini(&in);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_and_predicate),
        cmocka_unit_test(options),
        cmocka_unit_test(options_that_are_refused),
        cmocka_unit_test(everything_asks_for_nothing),
        cmocka_unit_test(slow_consumer),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
