/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/incoming.h"

#include "base/clock.h"
#include "cmd/say.h"
#include "cmd/short.h"
#include "cmd/stop.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

enum { STEP_MS = 250 }; /* a signal that came right before the wait is seen after this */
static const int64_t ns_per_ms = 1000000;

bool incoming_format(const struct incoming_options *o, const struct encoding **out)
{
    *out = NULL;
    if (!o->format) {
        if (o->output)
            *out = encoding_by_suffix(slice_str(o->output));
        if (!*out)
            *out =
                !o->output && isatty(STDOUT_FILENO) ? &encoding_short : encoding_by_name(SLICE_LIT("ndjson"));
        return true;
    }
    *out = strcmp(o->format, "short") == 0 ? &encoding_short : encoding_by_name(slice_str(o->format));
    if (!*out)
        say("--format: there is no '%.40s'; there are short, ulm, bp, ndjson, xml, csv and binary",
            o->format);
    return *out != NULL;
}

int incoming_open(struct incoming *in, const struct incoming_options *o, const char *gateways,
                  const char *prog)
{
    char why[200];
    const struct gridline_subscription s = {.size = sizeof s,
                                            .events = o->events,
                                            .host = o->host,
                                            .where = o->where,
                                            .on_change = o->on_change,
                                            .cross = o->cross,
                                            .delta = o->delta,
                                            .every = o->every,
                                            .period = o->period,
                                            .from = o->from,
                                            .durable = o->durable,
                                            .queue = o->queue,
                                            .hold = o->hold};
    const struct gridline_consumer_options c = {
        .size = sizeof c, .gateways = gateways, .identity = o->identity, .prog = prog};
    in->options = o;
    in->until_ns = o->timeout_ns ? clock_mono_ns() + o->timeout_ns : 0;
    in->consumer = gridline_consumer_open(&c, why, sizeof why);
    if (!in->consumer) {
        say("%s", why);
        return EXIT_USAGE;
    }
    while (gridline_consumer_gateway(in->consumer, in->gateways))
        in->gateways++;
    in->subscription = gridline_consumer_subscribe(in->consumer, &s);
    if (in->subscription < 0)
        say("%s", gridline_consumer_why(in->consumer));
    return in->subscription < 0 ? EXIT_USAGE : EXIT_OK;
}

void incoming_close(struct incoming *in)
{
    gridline_consumer_close(in->consumer);
}

/* "", or which gateway it is about. */
static void say_of(const struct incoming *in, const struct gridline_item *item, const char *text)
{
    if (in->gateways > 1 && !strstr(text, gridline_item_gateway(item)))
        say("%s: %s", gridline_item_gateway(item), text);
    else
        say("%s", text);
}

static void on_gap(struct incoming *in, const struct gridline_item *item)
{
    char text[300];
    uint64_t lost = gridline_item_lost(item);
    in->gaps++;
    in->lost += lost;
    if (lost)
        (void)snprintf(text, sizeof text, "%" PRIu64 " events are missing here: %s", lost,
                       gridline_item_text(item));
    else
        (void)snprintf(text, sizeof text, "events are missing here, nobody knows how many: %s",
                       gridline_item_text(item));
    say_of(in, item, text);
}

static void on_refused(struct incoming *in, const struct gridline_item *item)
{
    char text[300];
    (void)snprintf(text, sizeof text, "%s refused: %s", gridline_item_gateway(item),
                   gridline_item_text(item));
    say_of(in, item, text);
}

static int exit_of(int code)
{
    return code == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED;
}

/* Everything but events: true when it is over. */
static bool on_notice(struct incoming *in, const struct gridline_item *item)
{
    switch (gridline_item_kind(item)) {
    case GRIDLINE_ITEM_GAP:
        on_gap(in, item);
        return false;
    case GRIDLINE_ITEM_CONNECTED:
        in->has_connected = true;
        return false;
    case GRIDLINE_ITEM_SUBSCRIBED:
        if (*gridline_item_text(item)) /* a notice */
            say_of(in, item, gridline_item_text(item));
        return false;
    case GRIDLINE_ITEM_BROKEN:
    case GRIDLINE_ITEM_RETRY:
        say_of(in, item, gridline_item_text(item));
        in->code = exit_of(gridline_item_code(item));
        return (in->must_answer && !in->has_connected) || (in->gateways == 1 && in->code == EXIT_NOT_ALLOWED);
    case GRIDLINE_ITEM_REFUSED:
        on_refused(in, item);
        in->code = gridline_item_code(item);
        in->code = in->code <= EXIT_NOT_ALLOWED ? in->code : EXIT_FAILED;
        return ++in->ended == in->gateways;
    default:
        return false;
    }
}

/* -1: it is over. */
static int wait_ms_of(struct incoming *in, int64_t until_ns)
{
    int64_t now_ns = clock_mono_ns();
    if (stop_asked() || (in->until_ns && now_ns >= in->until_ns)) {
        in->code = EXIT_OK;
        return -1;
    }
    if (in->until_ns && in->until_ns < until_ns)
        until_ns = in->until_ns;
    int64_t left_ms = until_ns <= now_ns ? 0 : (until_ns - now_ns - 1) / ns_per_ms + 1;
    return left_ms < STEP_MS ? (int)left_ms : STEP_MS;
}

int incoming_next(struct incoming *in, int wait_ms, const struct gridline_item **item)
{
    const int64_t until_ns = wait_ms < 0 ? INT64_MAX : clock_mono_ns() + wait_ms * ns_per_ms;
    for (;;) {
        int step_ms = wait_ms_of(in, until_ns);
        if (step_ms < 0)
            return -1;
        int r = consumer_next_batch(in->consumer, step_ms, item);
        if (r < 0 && r != -EINTR) {
            say("%s", gridline_consumer_why(in->consumer));
            in->code = EXIT_FAILED;
            return -1;
        }
        if (r > 0 && gridline_item_kind(*item) == GRIDLINE_ITEM_EVENT)
            return 1;
        if (r > 0 && on_notice(in, *item))
            return -1;
        if (r == 0 && wait_ms >= 0 && clock_mono_ns() >= until_ns)
            return 0;
    }
}

int incoming_result(const struct incoming *in, int code)
{
    return code == EXIT_OK && (in->gaps || in->ended) ? EXIT_PARTLY : code;
}
