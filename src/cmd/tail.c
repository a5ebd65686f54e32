/* SPDX-License-Identifier: Apache-2.0 */
/* gridline tail: events as they come, from a gateway or from the agent on this host. */
#include "base/clock.h"
#include "cmd/incoming.h"
#include "cmd/output.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

#include <errno.h>
#include <inttypes.h>

struct tail_options {
    struct incoming_options incoming; /* first */
    const char *socket;
};

struct tail {
    const struct tail_options *options;
    struct incoming in;
    struct output *to;
    uint64_t given;
    bool is_waiting; /* something is written and not flushed */
};

/* Everything that came is written: flushed, and a durable subscription is told so. */
static int settle(struct tail *t)
{
    int r = t->is_waiting ? output_flush(t->to) : 0;
    if (r == 0 && t->is_waiting && t->options->incoming.durable)
        (void)gridline_consumer_consumed(t->in.consumer, t->in.subscription); /* it is durable, and there */
    t->is_waiting = false;
    return r;
}

static int write_events(struct tail *t, const struct gridline_item *item)
{
    const struct batch *b = item->batch;
    struct batch view = {.events = b->events + item->at, .n = b->n - item->at, .origin = b->origin};
    uint64_t count = t->options->incoming.count, left = count ? count - t->given : UINT64_MAX;
    if (view.n > left && !t->options->incoming.durable) /* its place is kept by whole batches */
        view.n = (size_t)left;
    t->given += view.n;
    t->is_waiting = true;
    int r = output_batch(t->to, &view);
    consumer_given(t->in.consumer, view.n);
    return r;
}

/* An exit code; the output's errors are said. */
static int follow(struct tail *t)
{
    const struct gridline_item *item;
    const uint64_t count = t->options->incoming.count;
    int n, r = 0;
    do {
        n = incoming_next(&t->in, t->is_waiting ? 0 : -1, &item);
        if (n > 0)
            r = write_events(t, item);
        if (r == 0 && n <= 0)
            r = settle(t);
    } while (r == 0 && n >= 0 && (!count || t->given < count));
    if (r == 0)
        r = settle(t);
    if (r == 0 && n >= 0)
        t->in.code = EXIT_OK;
    return r == -EPIPE ? EXIT_OK : r < 0 ? EXIT_FAILED : t->in.code;
}

static int run(struct tail *t, const char *gateways)
{
    const struct incoming_options *o = &t->options->incoming;
    const struct encoding *format;
    if (!incoming_format(o, &format))
        return EXIT_USAGE;
    int code = incoming_open(&t->in, o, gateways, "gridline-tail");
    if (code != EXIT_OK)
        return code;
    if (output_open(o->output, format, &t->to) < 0)
        return EXIT_FAILED;
    code = follow(t);
    int r = code == EXIT_OK ? output_finish(t->to) : 0;
    if (output_left_out(t->to))
        say("%" PRIu64 " values had no column", output_left_out(t->to));
    return incoming_result(&t->in, r == -EPIPE || r == 0 ? code : EXIT_FAILED);
}

static int tail_run(void *state, struct operands none)
{
    struct tail t = {.options = state, .in = {.must_answer = true}};
    struct strbuf socket = {0};
    (void)none; /* it takes none */
    if (t.options->socket && t.options->incoming.gateway) {
        say("--socket and --gateway: one of them");
        return EXIT_USAGE;
    }
    if (t.options->socket)
        strbuf_printf(&socket, "unix:%s", t.options->socket);
    int code = run(&t, socket.n ? socket.p : t.options->incoming.gateway);
    output_close(t.to);
    incoming_close(&t.in);
    strbuf_fini(&socket);
    return code;
}

static const struct option_spec tail_options[] = {
    INCOMING_OPTION(
        'g', "gateway", OPTION_TEXT, "ADDRESS", gateway,
        "from this gateway: `unix:PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT` (default: the one on "
        "this host if there is one, else the agent on this host)"),
    {0, "socket", OPTION_FILE, "PATH", offsetof(struct tail_options, socket),
     "from the agent or gateway that has this socket"},
    INCOMING_OPTIONS,
    INCOMING_OPTION(
        't', "format", OPTION_TEXT, "FORMAT", format,
        "write as FORMAT, one of those below, or `short` (default: `short` on a terminal, by the ending "
        "of `--output`, else ndjson)"),
    INCOMING_OPTION(0, "from", OPTION_TEXT, "POSITION", from,
                    "begin behind a position, or with the `oldest` event the gateway has (default `now`)"),
    INCOMING_OPTION(
        0, "durable", OPTION_TEXT, "NAME", durable,
        "the gateway keeps the place under this name: the next `tail` with it goes on behind what was "
        "written, and nothing is dropped meanwhile; `--count` ends it with the batch that has the N-th"),
    INCOMING_OPTION(0, "hold", OPTION_TEXT, "SIZE", hold,
                    "with `--durable`: how large the gateway's journal may grow for it while nobody reads; "
                    "beyond, what it missed comes from the archive (default and most: `journal_hold`)"),
    {0},
};

static const struct example tail_examples[] = {
    {"gridline tail", "Everything that comes to this host's gateway, or else its agent"},
    {"gridline tail -e cpu,load -t ulm", "Two kinds of events, as ULM lines"},
    {"gridline tail -g tls://gw.example -e disk -w \"device = 'sda'\" -n 10", "Ten samples of one disk"},
    {"gridline tail -e cpu --host 'node*' --cross user:90:10", "Only when a processor becomes busy or idle"},
    {"gridline tail --durable nightly --timeout 5s -o today.ulm", "What came since the last time"},
    {NULL, NULL},
};

const struct verb verb_tail = {
    .name = "tail",
    .summary = "events as they come",
    .operands = "",
    .description =
        "Subscribes at a gateway and prints events until it is stopped. Without `--event` it takes what is "
        "sent anyway; with it, sensors that run on request and make such events are started, and stop "
        "when the last one who asked has gone. An agent (`--socket`, or where there is no gateway) gives the "
        "events of its "
        "host, and knows only `--event` and `--where`.\n"
        "A gateway that has answered once and is gone is dialled until it is back; the events go on where "
        "they "
        "stopped. Events that can't be had any more, because this was too slow for them or the gateway no "
        "longer has "
        "them, are reported on standard error where they are missing, with their number, and the command "
        "ends with 4.",
    .options = tail_options,
    .examples = tail_examples,
    .lists_formats = true,
    .state_size = sizeof(struct tail_options),
    .run = tail_run,
};
