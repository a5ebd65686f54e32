/* SPDX-License-Identifier: Apache-2.0 */
/* watch - prints one field of some events as they come (docs/consumer.md).
 *
 *     watch GATEWAY EVENTS FIELD [FILE]
 *
 * With FILE it goes on, the next time, behind the last event that it printed. */
#include <gridline/consumer.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t is_over;

static void on_signal(int signo)
{
    (void)signo;
    is_over = 1;
}

static void print(const gridline_item *item, const char *field)
{
    struct gridline_head head;
    double value;
    switch (gridline_item_kind(item)) {
    case GRIDLINE_ITEM_EVENT:
        if (gridline_item_head(item, &head, sizeof head) == 0 &&
            gridline_item_number(item, field, &value) > 0)
            printf("%" PRId64 ".%09" PRId64 " %s %s %s=%g\n", head.time_ns / 1000000000,
                   head.time_ns % 1000000000, head.host, head.name, field, value);
        break;
    case GRIDLINE_ITEM_GAP: /* 0: nobody knows how many */
        printf("# %" PRIu64 " events are missing here: %s\n", gridline_item_lost(item),
               gridline_item_text(item));
        break;
    case GRIDLINE_ITEM_BROKEN: /* dialled again by itself */
    case GRIDLINE_ITEM_RETRY:
    case GRIDLINE_ITEM_REFUSED: /* and this is not */
        fprintf(stderr, "watch: %s\n", gridline_item_text(item));
        break;
    default:
        break;
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char why[200], place[GRIDLINE_POSITION_MAX] = "";
    if (argc < 4)
        return 2;
    FILE *f = argc > 4 ? fopen(argv[4], "r") : NULL;
    if (f) {
        if (fgets(place, sizeof place, f))
            place[strcspn(place, "\n")] = '\0';
        fclose(f);
    }
    struct gridline_consumer_options options = {.size = sizeof options, .gateways = argv[1], .prog = "watch"};
    struct gridline_subscription wanted = {.size = sizeof wanted, .events = argv[2], .from = place};
    gridline_consumer *c = gridline_consumer_open(&options, why, sizeof why);
    if (!c) {
        fprintf(stderr, "watch: %s\n", why);
        return 1;
    }
    int id = gridline_consumer_subscribe(c, &wanted);
    if (id < 0) {
        fprintf(stderr, "watch: %s\n", gridline_consumer_why(c));
        gridline_consumer_close(c);
        return 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    while (!is_over) {
        const gridline_item *item;
        if (gridline_consumer_next(c, 1000, &item) > 0)
            print(item, argv[3]);
    }
    if (argc > 4 && gridline_consumer_position(c, id, 0, place) == 0 && (f = fopen(argv[4], "w"))) {
        fprintf(f, "%s\n", place);
        fclose(f);
    }
    gridline_consumer_close(c);
    return 0;
}
