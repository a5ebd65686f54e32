/* SPDX-License-Identifier: Apache-2.0 */
/* What the newest event and the summaries of every stream cost the gateway: ns an event of 20 fields, by the
 * number of streams (in the caches or not) and with the memory that they take.
 *
 *     streams [EVENTS] */
#include "base/clock.h"
#include "base/num.h"
#include "gateway/latest.h"
#include "gateway/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FIELDS = 20, COUNTERS = 8, BATCH = 100 };

static const struct latest_options latest_limits = {.streams = 1 << 20, .memory = UINT64_C(1) << 40};
static const struct summary_options summary_limits = {
    .streams = 1 << 20, .memory = UINT64_C(1) << 40, .windows = "1m,10m,60m", .events = ""};

/* CPU time: others may have the machine meanwhile. */
static int64_t cpu_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0)
        abort();
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static struct schema *make_schema(void)
{
    static char names[FIELDS][16];
    struct field fields[FIELDS];
    struct schema *s;
    for (size_t i = 0; i < FIELDS; i++) {
        (void)snprintf(names[i], sizeof names[i], "field_%zu", i); /* fits */
        fields[i] =
            (struct field){.name = slice_str(names[i]), .unit = SLICE_LIT("bytes"), .help = SLICE_LIT("")};
        fields[i].role = i == 0 ? ROLE_KEY : ROLE_VALUE;
        fields[i].type = i == 0 ? VALUE_TEXT : i <= COUNTERS ? VALUE_UINT : VALUE_FLOAT;
        fields[i].kind = i == 0 ? KIND_TEXT : i <= COUNTERS ? KIND_COUNTER : KIND_GAUGE;
    }
    if (schema_create(SLICE_LIT("disk"), fields, FIELDS, &s) < 0)
        abort();
    return s;
}

struct load {
    struct event events[BATCH];
    struct value values[BATCH][FIELDS];
    char hosts[BATCH][16];
    uint64_t made;
};

/* The next batch: one event of each of the next streams, a second after their last ones. */
static struct batch next_batch(struct load *l, const struct schema *schema, uint64_t streams,
                               int64_t start_ns)
{
    for (size_t i = 0; i < BATCH; i++, l->made++) {
        struct event *e = &l->events[i];
        int n = snprintf(l->hosts[i], sizeof l->hosts[i], "node%" PRIu64, l->made % streams);
        int64_t second = (int64_t)(l->made / streams);
        l->values[i][0] = value_text(SLICE_LIT("sda"));
        for (size_t k = 1; k < FIELDS; k++)
            l->values[i][k] =
                k <= COUNTERS ? value_uint(l->made * k) : value_float((double)(l->made % 977) / 7);
        *e = (struct event){.time_ns = start_ns + second * NS_PER_S,
                            .host = slice_of(l->hosts[i], (size_t)n),
                            .prog = SLICE_LIT("agent"),
                            .schema = schema,
                            .values = l->values[i],
                            .level = LEVEL_INFO};
    }
    return (struct batch){.events = l->events, .n = BATCH};
}

static void measure(const struct schema *schema, uint64_t streams, uint64_t events)
{
    struct load *load = calloc(1, sizeof *load);
    struct latest *latest = latest_create(&latest_limits);
    struct summary *summary = NULL;
    struct diag why = {0};
    int64_t start_ns = clock_utc_ns(), latest_ns = 0, summary_ns = 0;
    uint64_t measured = 0;
    if (!load || !latest || summary_create(&summary_limits, &summary, &why) < 0)
        abort();
    while (load->made < streams * 2 + events) {
        bool is_warm = load->made >= streams * 2; /* before that streams are new */
        struct batch b = next_batch(load, schema, streams, start_ns);
        int64_t t0 = cpu_ns();
        latest_batch(latest, &b, b.events[BATCH - 1].time_ns);
        int64_t t1 = cpu_ns();
        summary_batch(summary, &b, b.events[BATCH - 1].time_ns);
        int64_t t2 = cpu_ns();
        latest_ns += is_warm ? t1 - t0 : 0;
        summary_ns += is_warm ? t2 - t1 : 0;
        measured += is_warm ? BATCH : 0;
    }
    struct latest_counts l;
    struct summary_counts s;
    latest_counts(latest, &l);
    summary_counts(summary, &s);
    if (l.older || s.late || s.left_out || l.streams != streams || s.streams != streams)
        abort(); /* it measured something else */
    (void)printf("%" PRIu64
                 " streams: latest %.0f ns, summary %.0f ns an event; latest %.0f bytes, summary %.0f "
                 "bytes a stream\n",
                 streams, (double)latest_ns / (double)measured, (double)summary_ns / (double)measured,
                 (double)l.bytes / (double)streams, (double)s.bytes / (double)streams);
    latest_destroy(latest);
    summary_destroy(summary);
    free(load);
}

int main(int argc, char **argv)
{
    uint64_t events = 2000000;
    if (argc > 1 && num_parse_uint(slice_str(argv[1]), &events) < 0)
        return 2;
    struct schema *schema = make_schema();
    measure(schema, 10, events);
    measure(schema, 1000, events);
    measure(schema, 10000, events);
    schema_unref(schema);
    return 0;
}
