/* SPDX-License-Identifier: Apache-2.0 */
/* gridline collect: the streams of many gateways as one log in the order of time (reorder.h). */
#include "base/clock.h"
#include "cmd/incoming.h"
#include "cmd/output.h"
#include "cmd/reorder.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

#include <errno.h>
#include <inttypes.h>

struct collect_options {
    struct incoming_options incoming; /* first */
    int64_t wait_ns;
    uint64_t memory_bytes;
    bool quiet;
};

struct collect {
    const struct collect_options *options;
    struct incoming in;
    struct reorder *order;
    struct output *to;
    uint64_t given;
};

static bool is_enough(const struct collect *c)
{
    return c->options->incoming.count && c->given >= c->options->incoming.count;
}

static int write_events(void *arg, const struct batch *events)
{
    struct collect *c = arg;
    struct batch view = {.events = events->events, .n = events->n, .origin = events->origin};
    uint64_t count = c->options->incoming.count, left = count ? count - c->given : UINT64_MAX;
    if (view.n > left)
        view.n = (size_t)left;
    c->given += view.n;
    return view.n ? output_batch(c->to, &view) : 0;
}

/* What may be written now, so that it is seen now. */
static int write_due(struct collect *c, int64_t now_ns)
{
    uint64_t before = c->given;
    int r = reorder_run(c->order, now_ns, write_events, c);
    return r == 0 && c->given > before ? output_flush(c->to) : r;
}

static int wait_ms(const struct collect *c, int64_t now_ns)
{
    int64_t due_ns = reorder_due_ns(c->order);
    if (due_ns == INT64_MAX)
        return -1;
    return due_ns <= now_ns ? 0 : (int)((due_ns - now_ns) / 1000000 + 1);
}

static int take(struct collect *c, const struct gridline_item *item, int64_t now_ns)
{
    int r = reorder_add(c->order, item->batch, item->at, now_ns, clock_utc_ns());
    if (r < 0)
        say("%s; --memory says how much may wait", err_text(r));
    else
        consumer_given(c->in.consumer, item->batch->n - item->at);
    return r;
}

/* An exit code; what is wrong has been said. */
static int merge(struct collect *c)
{
    const struct gridline_item *item;
    int n, r = 0;
    do {
        n = incoming_next(&c->in, wait_ms(c, clock_mono_ns()), &item);
        int64_t now_ns = clock_mono_ns();
        if (n > 0)
            r = take(c, item, now_ns);
        if (r == 0)
            r = write_due(c, now_ns);
    } while (r == 0 && n >= 0 && !is_enough(c));
    if (r == 0 && !is_enough(c)) /* it is over: nothing more is waited for */
        r = write_due(c, INT64_MAX);
    int code = n < 0 ? c->in.code : EXIT_OK;
    return r == -EPIPE ? EXIT_OK : r < 0 ? EXIT_FAILED : code;
}

static void report(const struct collect *c)
{
    struct reorder_counts n;
    reorder_counts(c->order, &n);
    if (n.late)
        say("%" PRIu64 " of %" PRIu64
            " events came too late to stand in order: they are behind later ones; --wait gives them longer",
            n.late, c->given);
    if (n.hurried)
        say("%" PRIu64 " of %" PRIu64 " events did not wait for others; --memory gives them room", n.hurried,
            c->given);
    if (output_left_out(c->to))
        say("%" PRIu64 " values had no column", output_left_out(c->to));
}

static int run(struct collect *c, const char *gateways)
{
    const struct incoming_options *o = &c->options->incoming;
    const struct encoding *format;
    if (!incoming_format(o, &format))
        return EXIT_USAGE;
    int code = incoming_open(&c->in, o, gateways, "gridline-collect");
    if (code != EXIT_OK)
        return code;
    c->order = reorder_create(c->options->wait_ns, (size_t)c->options->memory_bytes);
    if (!c->order || consumer_keep_batches(c->in.consumer) < 0) {
        say("%s", err_text(-ENOMEM));
        return EXIT_FAILED;
    }
    if (output_open(o->output, format, &c->to) < 0)
        return EXIT_FAILED;
    code = merge(c);
    int r = code == EXIT_OK ? output_finish(c->to) : 0;
    if (!c->options->quiet)
        report(c);
    struct reorder_counts n;
    reorder_counts(c->order, &n);
    code = r == -EPIPE || r == 0 ? code : EXIT_FAILED;
    return incoming_result(&c->in, code == EXIT_OK && n.late ? EXIT_PARTLY : code);
}

static int collect_run(void *state, struct operands gateways)
{
    struct collect c = {.options = state};
    struct strbuf list = {0};
    for (size_t i = 0; i < gateways.n; i++)
        strbuf_printf(&list, "%s%s", i ? "," : "", gateways.v[i]);
    int code = run(&c, list.n ? list.p : NULL);
    output_close(c.to);
    reorder_destroy(c.order);
    incoming_close(&c.in);
    strbuf_fini(&list);
    return code;
}

static const struct option_spec collect_table[] = {
    INCOMING_OPTIONS,
    INCOMING_OPTION(
        't', "format", OPTION_TEXT, "FORMAT", format,
        "write as FORMAT, one of those below, or `short` (default: `short` on a terminal, by the ending "
        "of `--output`, else ndjson)"),
    INCOMING_OPTION(0, "from", OPTION_TEXT, "WHERE", from,
                    "begin with the `oldest` event that each gateway has (default `now`)"),
    {0, "wait", OPTION_DURATION, "TIME", offsetof(struct collect_options, wait_ns),
     "hold each event so long for earlier ones that come later (default `2s`)"},
    {0, "memory", OPTION_SIZE, "SIZE", offsetof(struct collect_options, memory_bytes),
     "how much may be held (default `64MiB`)"},
    {'q', "quiet", OPTION_FLAG, NULL, offsetof(struct collect_options, quiet), "no summary at the end"},
    {0},
};

static const struct collect_options collect_defaults = {.wait_ns = 2 * NS_PER_S, .memory_bytes = 64 << 20};

static const struct example collect_examples[] = {
    {"gridline collect tls://gw1.example tls://gw2.example -o grid.ulm", "Two gateways' events in one log"},
    {"gridline collect -e 'transfer.*' --wait 10s tls://gw1.example tls://gw2.example",
     "One kind of events, where links are slow"},
    {NULL, NULL},
};

const struct verb verb_collect = {
    .name = "collect",
    .summary = "the events of many gateways as they come, as one log in time order",
    .operands = "[GATEWAY...]",
    .description = "Subscribes at all the gateways (`unix:PATH`, `tcp://HOST:PORT`, `tls://HOST:PORT`; "
                   "without any at the one on this "
                   "host) and writes their events as one log in the order of their times, until it is "
                   "stopped. Each event is held for "
                   "`--wait`, so that earlier ones of other hosts can come before it. One that comes later "
                   "than that is written all "
                   "the same, where it came: how many stand behind a later one is told at the end, and the "
                   "command ends with 4 then. What is held has a bound, "
                   "`--memory`: over it the earliest are written without waiting, and counted.\n"
                   "A gateway that does not answer, or no longer, is reported and dialled until it does; its "
                   "events go on where they "
                   "stopped. Events that can't be had any more are reported on standard error, and the "
                   "command ends with 4, as it does "
                   "where a gateway refused.\n"
                   "`--output` writes a file that appears when the command ends; for a log that grows, write "
                   "to standard output.",
    .operand_kind = OPERAND_WORDS,
    .operands_max = 64,
    .options = collect_table,
    .examples = collect_examples,
    .lists_formats = true,
    .state_size = sizeof(struct collect_options),
    .defaults = &collect_defaults,
    .run = collect_run,
};
