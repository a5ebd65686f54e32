/* SPDX-License-Identifier: Apache-2.0 */
/* Events of many streams, as fast as a gateway takes them: storm_probe URL FIRST N DEGREES. Event heat with
 * the key `unit` of "unit-FIRST" and on; each is acknowledged when it ends with 0. */
#include <gridline/gridline.h>

#include <stdio.h>
#include <stdlib.h>

enum { PORTION = 500, WAIT_MS = 60000 };

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    gridline *log = gridline_open("storm", argv[1], GRIDLINE_MANUAL);
    long first = strtol(argv[2], NULL, 10), n = strtol(argv[3], NULL, 10),
         degrees = strtol(argv[4], NULL, 10);
    if (!log || gridline_set_host(log, "plant") < 0 || gridline_set_key(log, "heat", "unit") < 0)
        return 1;
    for (long i = first; i < first + n; i++) {
        char unit[32];
        struct gridline_value values[] = {{.name = "unit", .type = 't', .v.p = unit, .n = (size_t)-1},
                                          {.name = "degrees", .type = 'i', .v.i = degrees}};
        (void)snprintf(unit, sizeof unit, "unit-%ld", i);
        if (gridline_write_values(log, 0, GRIDLINE_INFO, "heat", values, 2) < 0)
            return 1;
        if ((i + 1) % PORTION == 0 && gridline_flush(log, WAIT_MS) < 0)
            return 1;
    }
    int r = gridline_flush(log, WAIT_MS);
    struct gridline_stats stats;
    gridline_stats(log, &stats, sizeof stats);
    gridline_close(log);
    return r < 0 || stats.dropped ? 1 : 0;
}
