/* SPDX-License-Identifier: Apache-2.0 */
/* incoming.h - events as they come from gateways, for `tail` and `collect`: the options of a subscription,
 * one consumer (gridline/consumer.h), and everything that is no event said on standard error. Results are
 * exit codes. */
#ifndef GRIDLINE_CMD_INCOMING_H
#define GRIDLINE_CMD_INCOMING_H

#include "cmd/options.h"
#include "consumer/internal.h"
#include "event/encoding.h"

/* The struct with a command's options begins with this. */
struct incoming_options {
    const char *gateway, *identity;
    const char *events, *host, *where, *on_change, *cross, *delta, *every, *period, *from, *durable, *hold,
        *queue;
    const char *format, *output;
    uint64_t count;
    int64_t timeout_ns;
};

/* clang-format off */
#define INCOMING_OPTION(letter, name, type, metavar, member, help) \
    {letter, name, type, metavar, offsetof(struct incoming_options, member), help}
#define INCOMING_OPTIONS \
    INCOMING_OPTION(0, "identity", OPTION_FILE, "DIR", identity, \
        "your key and certificate for `tls://` (default: `GRIDLINE_IDENTITY`, or `~/.config/gridline/identity`)"), \
    INCOMING_OPTION('e', "event", OPTION_TEXT, "PATTERN[,PATTERN...]", events, \
        "events of these names; asks for them: sensors that run on request start"), \
    INCOMING_OPTION(0, "host", OPTION_TEXT, "PATTERN[,PATTERN...]", host, "events of these hosts"), \
    INCOMING_OPTION('w', "where", OPTION_TEXT, "PREDICATE", where, "only events that pass, e.g. \"device = 'sda'\""), \
    INCOMING_OPTION(0, "on-change", OPTION_TEXT, "FIELD[,FIELD...]", on_change, \
        "only events in which one of these fields has changed; `*`: any"), \
    INCOMING_OPTION(0, "cross", OPTION_TEXT, "FIELD:LEVEL[:HYSTERESIS]", cross, \
        "only events that cross LEVEL, upwards, or downwards by more than HYSTERESIS"), \
    INCOMING_OPTION(0, "delta", OPTION_TEXT, "FIELD:AMOUNT", delta, \
        "only events whose value is so far from the last one given; `N%` is relative"), \
    INCOMING_OPTION(0, "every", OPTION_TEXT, "TIME", every, "of each stream at most one event in this time"), \
    INCOMING_OPTION(0, "period", OPTION_TEXT, "TIME", period, "how often sensors that run on request are to be read"), \
    INCOMING_OPTION(0, "queue", OPTION_TEXT, "SIZE", queue, "how much may wait here at the gateway (default `4MiB`)"), \
    INCOMING_OPTION('n', "count", OPTION_SIZE, "N", count, "end after N events"), \
    INCOMING_OPTION(0, "timeout", OPTION_DURATION, "TIME", timeout_ns, "end after this time"), \
    INCOMING_OPTION('o', "output", OPTION_FILE, "FILE", output, "write to FILE")
/* clang-format on */

struct incoming {
    const struct incoming_options *options;
    gridline_consumer *consumer;
    int subscription;
    bool must_answer;       /* a gateway that does not answer at first is an error */
    size_t gateways, ended; /* ended: those that refused */
    bool has_connected;
    uint64_t gaps, lost; /* lost: events; gaps may be of unknown size besides */
    int code;            /* what ended it */
    int64_t until_ns;    /* 0 = no limit */
};

/* Sets format: by its name, or by the ending of the output, or `short` on a terminal, else ndjson. false:
 * said. */
bool incoming_format(const struct incoming_options *o, const struct encoding **out);

/* gateways NULL: by default. incoming_close in any case. An exit code. */
int incoming_open(struct incoming *in, const struct incoming_options *o, const char *gateways,
                  const char *prog);
void incoming_close(struct incoming *in);

/* 1: *item has events (item->batch, from item->at on); 0: none in wait_ms (-1: until it is over); -1: it is
 * over: in->code, EXIT_OK when time was up or a signal came. */
int incoming_next(struct incoming *in, int wait_ms, const struct gridline_item **item);
/* The exit code of the whole: code, or EXIT_PARTLY where that is EXIT_OK and something is missing. */
int incoming_result(const struct incoming *in, int code);

#endif
