// SPDX-License-Identifier: Apache-2.0
// The public header in C++, strictly: compiled only.
#include <gridline/consumer.h>

#include <string>

std::string newest_host(gridline_consumer *c)
{
    const gridline_item *item;
    gridline_head head;
    std::string host;
    while (gridline_consumer_next(c, 0, &item) > 0)
        if (gridline_item_head(item, &head, sizeof head) == 0)
            host = head.host;
    return host;
}
