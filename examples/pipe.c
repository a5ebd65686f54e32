/* SPDX-License-Identifier: Apache-2.0 */
/* pipe - a consumer and producer in one (docs/consumer.md): makes a new kind of event from others.
 *
 *     pipe [-n EVENTS] [-c COUNT] [GATEWAY [DESTINATION]]
 *
 * Subscribes at GATEWAY to the event `cpu`, whose fields count clock ticks since the host started, and
 * publishes to DESTINATION (as in gridline.h; default: the gateway, if it is unix: or tcp:) for each host and
 * every EVENTS of them (default 5) an event `cpu.busy`: what part of the time between the first and the last
 * of them its processors were at work, in percent. Ends after COUNT such events, or never. */
#include <gridline/consumer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS = 64 };

/* What one host's processors have counted when the window began. */
struct window {
    char host[256];
    double busy, total;
    int64_t since_ns;
    unsigned events; /* in the window; 0 = the next one begins it */
};

struct pipe {
    gridline *out;
    unsigned size; /* events of a window */
    unsigned long made;
    struct window windows[HOSTS];
    size_t n;
};

/* The window of that host; NULL: there are too many hosts for this example. */
static struct window *find(struct pipe *p, const char *host)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->windows[i].host, host) == 0)
            return &p->windows[i];
    if (p->n == HOSTS)
        return NULL;
    struct window *w = &p->windows[p->n++];
    w->events = 0;
    (void)snprintf(w->host, sizeof w->host, "%s", host);
    return w;
}

/* Ticks so far, and those at work. false: the event lacks one of them, and nothing can be said. */
static int read_ticks(const gridline_item *item, double *busy, double *total)
{
    static const char *const work[] = {"user", "nice", "system", "irq", "softirq", "steal"};
    static const char *const rest[] = {"idle", "iowait"};
    double v;
    *busy = 0;
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        if (gridline_item_number(item, work[i], &v) <= 0)
            return 0;
        *busy += v;
    }
    *total = *busy;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        if (gridline_item_number(item, rest[i], &v) <= 0)
            return 0;
        *total += v;
    }
    return 1;
}

static void begin(struct window *w, double busy, double total, int64_t now_ns)
{
    w->busy = busy;
    w->total = total;
    w->since_ns = now_ns;
    w->events = 0;
}

static void on_event(struct pipe *p, const gridline_item *item)
{
    struct gridline_head head;
    double busy, total;
    if (gridline_item_head(item, &head, sizeof head) < 0 || !read_ticks(item, &busy, &total))
        return;
    struct window *w = find(p, head.host);
    if (!w)
        return;
    if (w->events == 0 || total < w->total) /* it begins, or the host has started again */
        begin(w, busy, total, head.time_ns);
    if (++w->events < p->size || total <= w->total)
        return;
    if (gridline_write(p->out, GRIDLINE_INFO, "cpu.busy", "about=%s busy=%g events=%u seconds=%g", w->host,
                       100 * (busy - w->busy) / (total - w->total), w->events,
                       (double)(head.time_ns - w->since_ns) / 1e9) == 0)
        p->made++;
    (void)gridline_flush(p->out, 0); /* what is not taken yet goes with the next */
    begin(w, busy, total, head.time_ns);
    w->events = 1; /* the last of one window is the first of the next */
}

static void on_item(struct pipe *p, const gridline_item *item)
{
    switch (gridline_item_kind(item)) {
    case GRIDLINE_ITEM_EVENT:
        on_event(p, item);
        return;
    case GRIDLINE_ITEM_GAP: /* a window with a hole in it would say something else: all begin anew */
        p->n = 0;
        (void)fprintf(stderr, "pipe: %llu events are missing: %s\n",
                      (unsigned long long)gridline_item_lost(item), gridline_item_text(item));
        return;
    case GRIDLINE_ITEM_REFUSED:
        (void)fprintf(stderr, "pipe: refused: %s\n", gridline_item_text(item));
        exit(1);
    case GRIDLINE_ITEM_BROKEN:
    case GRIDLINE_ITEM_RETRY: /* it is tried again by itself */
        (void)fprintf(stderr, "pipe: %s\n", gridline_item_text(item));
        return;
    default:
        return;
    }
}

int main(int argc, char **argv)
{
    static struct pipe p = {.size = 5};
    unsigned long count = 0;
    char why[200];
    for (int c; (c = getopt(argc, argv, "n:c:")) != -1;) {
        if (c == 'n')
            p.size = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == 'c')
            count = strtoul(optarg, NULL, 10);
        else
            return 2;
    }
    const struct gridline_consumer_options options = {
        .size = sizeof options, .prog = "pipe", .gateways = optind < argc ? argv[optind] : NULL};
    const struct gridline_subscription wanted = {
        .size = sizeof wanted, .events = "cpu", .where = "cpu = 'all'"};
    gridline_consumer *in = gridline_consumer_open(&options, why, sizeof why);
    if (!in) {
        (void)fprintf(stderr, "pipe: %s\n", why);
        return 1;
    }
    p.out = gridline_open("pipe", optind + 1 < argc ? argv[optind + 1] : gridline_consumer_gateway(in, 0), 0);
    if (!p.out || p.size < 2 || gridline_consumer_subscribe(in, &wanted) < 0) {
        (void)fprintf(stderr, "pipe: it needs a destination, and at least 2 events for each\n");
        return 1;
    }
    const gridline_item *item;
    while ((!count || p.made < count) && gridline_consumer_next(in, -1, &item) > 0)
        on_item(&p, item);
    gridline_consumer_close(in);
    gridline_close(p.out);
    return 0;
}
