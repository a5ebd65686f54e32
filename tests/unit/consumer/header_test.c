/* SPDX-License-Identifier: Apache-2.0 */
/* The public header in C, strictly, as early as C99: compiled only. */
#include <gridline/consumer.h>

int watch(const char *gateways);

int watch(const char *gateways)
{
    char why[200];
    const struct gridline_consumer_options options = {.size = sizeof options, .gateways = gateways};
    const struct gridline_subscription wanted = {.size = sizeof wanted, .events = "cpu"};
    gridline_consumer *c = gridline_consumer_open(&options, why, sizeof why);
    const gridline_item *item;
    double user = 0;
    if (!c || gridline_consumer_subscribe(c, &wanted) < 0)
        return -1;
    while (gridline_consumer_next(c, 1000, &item) > 0)
        if (gridline_item_kind(item) == GRIDLINE_ITEM_EVENT && gridline_item_number(item, "user", &user) > 0)
            break;
    gridline_consumer_close(c);
    return (int)user;
}
