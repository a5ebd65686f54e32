/* SPDX-License-Identifier: Apache-2.0 */
/* gridline tail: events as they come, from the agent on this host. One blocking connection; docs/protocol.md,
 * "Subscriptions". */
#include "base/clock.h"
#include "cmd/file.h"
#include "cmd/output.h"
#include "cmd/say.h"
#include "cmd/stop.h"
#include "cmd/verbs.h"
#include "event/block.h"
#include "net/subscribe.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct tail_options {
    const char *socket, *events, *where, *output;
    const struct encoding *format;
    uint64_t count;
    int64_t timeout_ns;
};

struct tail {
    const struct tail_options *options;
    int fd;
    struct strbuf in, out;
    struct registry *registry;
    struct batch_builder *builder;
    struct output *to;
    uint64_t given, lost;
    int64_t until_ns; /* 0 = no limit */
    bool is_done;
};

/* As the agent's configuration has it by default. */
static void default_socket(struct strbuf *path)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0)
        strbuf_add_str(path, "/run/gridline/agent.sock");
    else if (run && run[0])
        strbuf_printf(path, "%s/gridline/agent.sock", run);
    else
        strbuf_printf(path, "/tmp/gridline-%u/agent.sock", (unsigned)geteuid());
}

static int connect_to(struct tail *t, const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof name.sun_path)
        return -ENAMETOOLONG;
    memcpy(name.sun_path, path, strlen(path) + 1);
    t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (t->fd < 0 || connect(t->fd, (const struct sockaddr *)&name, sizeof name) < 0)
        return -errno;
    return 0;
}

static int ask(struct tail *t)
{
    const struct tail_options *o = t->options;
    struct frame_hello h = {.minor_high = FRAME_MINOR,
                            .role = PEER_CONSUMER,
                            .origin = {.epoch = 1},
                            .t0_ns = clock_utc_ns(),
                            .host = SLICE_LIT("localhost"),
                            .prog = SLICE_LIT("gridline-tail")};
    (void)!getrandom(h.origin.producer, sizeof h.origin.producer,
                     0); /* a consumer sends nothing: any will do */
    greeting_put(&t->out);
    frame_put_hello(&t->out, &h);
    frame_put_subscribe(&t->out, &(struct frame_subscribe){.id = 1,
                                                           .events = slice_str(o->events ? o->events : ""),
                                                           .where = slice_str(o->where ? o->where : "")});
    return strbuf_failed(&t->out) ? -ENOMEM : file_write_all(t->fd, strbuf_slice(&t->out));
}

static int on_events(struct tail *t, struct slice payload)
{
    struct frame_events e;
    struct diag why = {0};
    if (frame_get_events(payload, &e) < 0 || block_check(e.data) != (int64_t)e.data.n)
        return E_PROTO;
    int r = block_decode(e.data, t->builder, &why);
    struct batch *b = r == 0 ? batch_builder_finish(t->builder, NULL) : NULL;
    if (!b)
        return r < 0 ? r : 0;
    struct batch view = {.events = b->events, .n = b->n, .origin = b->origin};
    uint64_t left = t->options->count ? t->options->count - t->given : UINT64_MAX;
    if (view.n > left)
        view.n = (size_t)left;
    t->given += view.n;
    t->is_done = t->options->count && t->given == t->options->count;
    r = output_batch(t->to, &view);
    if (r == 0)
        r = output_flush(t->to);
    batch_unref(b);
    return r;
}

static int on_frame(struct tail *t, const struct frame *f)
{
    struct frame_subscribed s;
    struct frame_gap g;
    struct frame_bye_reason bye;
    switch (f->type) {
    case FRAME_EVENTS:
        return on_events(t, f->payload);
    case FRAME_SUBSCRIBED:
        if (frame_get_subscribed(f->payload, &s) < 0)
            return E_PROTO;
        if (s.status)
            say("the agent refused: %.*s", SLICE_ARG(s.text));
        return s.status ? -EINVAL : 0;
    case FRAME_GAP:
        if (frame_get_gap(f->payload, &g) < 0)
            return E_PROTO;
        t->lost += g.lost;
        say("%" PRIu64 " events were lost here: this was too slow for them", g.lost);
        return 0;
    case FRAME_BYE:
        if (frame_get_bye(f->payload, &bye) == 0)
            say("the agent hung up: %.*s", SLICE_ARG(bye.text));
        return -ECONNRESET;
    default:
        return 0;
    }
}

static int read_frames(struct tail *t)
{
    struct frame f;
    int64_t n = 0;
    int r = 0;
    while (r == 0 && !t->is_done && (n = frame_read(strbuf_slice(&t->in), FRAME_PAYLOAD_MAX, &f)) > 0) {
        r = on_frame(t, &f);
        strbuf_consume(&t->in, (size_t)n);
    }
    return n < 0 ? (int)n : r;
}

/* 1: there is something to read; 0: time is up or a signal came. */
static int wait_for_input(const struct tail *t)
{
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    int64_t left = t->until_ns ? t->until_ns - clock_mono_ns() : INT64_MAX;
    if (left <= 0 || stop_asked())
        return 0;
    int n = poll(&p, 1, left == INT64_MAX ? -1 : (int)(left / 1000000) + 1);
    return n > 0 ? 1 : n < 0 && errno != EINTR ? -errno : stop_asked() || n == 0 ? 0 : wait_for_input(t);
}

static int follow(struct tail *t)
{
    int r = ask(t);
    while (r == 0 && !t->is_done) {
        int ready = wait_for_input(t);
        if (ready <= 0)
            return ready;
        char *room = strbuf_room(&t->in, 64 << 10);
        ssize_t n = room ? file_read(t->fd, room, 64 << 10) : -ENOMEM;
        if (n <= 0)
            return n < 0 ? (int)n : -ECONNRESET;
        strbuf_advance(&t->in, (size_t)n);
        r = read_frames(t);
    }
    return r;
}

static int tail_run(void *state, struct operands none)
{
    struct tail t = {.options = state, .fd = -1};
    struct strbuf path = {0};
    (void)none; /* it takes none */
    if (t.options->socket)
        strbuf_add_str(&path, t.options->socket);
    else
        default_socket(&path);
    const struct encoding *format =
        t.options->format ? t.options->format : encoding_by_name(SLICE_LIT("ndjson"));
    t.registry = registry_create();
    t.builder = t.registry ? batch_builder_create(t.registry, 0) : NULL;
    if (t.options->timeout_ns)
        t.until_ns = clock_mono_ns() + t.options->timeout_ns;
    int r = t.builder ? connect_to(&t, path.p) : -ENOMEM;
    if (r < 0)
        say("%s: %s; is the agent running? `gridline agent` starts one", path.p, err_text(r));
    if (r == 0)
        r = output_open(t.options->output, format, &t.to);
    if (r == 0)
        r = follow(&t);
    if (r == 0)
        r = output_finish(t.to);
    if (r < 0 && t.fd >= 0 && r != -EPIPE && r != -EINVAL)
        say("%s: %s", path.p, err_text(r));
    output_close(t.to);
    if (t.fd >= 0)
        (void)close(t.fd); /* everything is said */
    strbuf_fini(&t.in);
    strbuf_fini(&t.out);
    strbuf_fini(&path);
    batch_builder_destroy(t.builder);
    registry_destroy(t.registry);
    if (r == -EPIPE)
        return EXIT_OK;
    return r < 0 ? EXIT_FAILED : t.lost ? EXIT_PARTLY : EXIT_OK;
}

#define AT(member) offsetof(struct tail_options, member)

static const struct option_spec tail_options[] = {
    {'e', "event", OPTION_TEXT, "PATTERN[,PATTERN...]", AT(events),
     "events of these names; asks for them: sensors that run on request start"},
    {'w', "where", OPTION_TEXT, "PREDICATE", AT(where), "only events that pass, e.g. \"device = 'sda'\""},
    {'n', "count", OPTION_SIZE, "N", AT(count), "end after N events"},
    {0, "timeout", OPTION_DURATION, "TIME", AT(timeout_ns), "end after this time"},
    {'t', "format", OPTION_FORMAT, "FORMAT", AT(format), "write as FORMAT (default ndjson)"},
    {'o', "output", OPTION_FILE, "FILE", AT(output), "write to FILE"},
    {0, "socket", OPTION_FILE, "PATH", AT(socket), "the agent's socket (default: where it is by default)"},
    {0},
};

static const struct example tail_examples[] = {
    {"gridline tail", "Everything this host's agent sends"},
    {"gridline tail -e cpu,load -t ulm", "Two kinds of events, as ULM lines"},
    {"gridline tail -e disk -w \"device = 'sda'\" -n 10", "Ten samples of one disk"},
    {NULL, NULL},
};

const struct verb verb_tail = {
    .name = "tail",
    .summary = "events as they come, from the agent on this host",
    .operands = "",
    .description =
        "Subscribes at the agent's Unix socket and prints events until it is stopped. Without `--event` it "
        "takes what "
        "is sent anyway; with it, sensors that run on request and make such events are started, and stop "
        "when the last "
        "one who asked has gone.\n"
        "A reader that is too slow loses events, is told how many, and disturbs nobody; it ends with 4 then.",
    .options = tail_options,
    .examples = tail_examples,
    .lists_formats = true,
    .state_size = sizeof(struct tail_options),
    .run = tail_run,
};
