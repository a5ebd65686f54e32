/* SPDX-License-Identifier: Apache-2.0 */
/* archive_config.h - what the configuration says of the archive (section `archive`); cmd makes one of it. */
#ifndef GRIDLINE_GATEWAY_ARCHIVE_CONFIG_H
#define GRIDLINE_GATEWAY_ARCHIVE_CONFIG_H

#include <stdint.h>

struct archive_config {
    const char *dir;                    /* "" = there is none */
    const char *events, *hosts;         /* patterns by commas; "" = all */
    const char *where;                  /* a predicate; "" = all */
    const char *ids;                    /* "id", "id,job+task" */
    uint64_t memory;                    /* bytes of the newest rows */
    int64_t flush_ns;                   /* how long they stay in memory only */
    int64_t partition_ns;               /* of one file */
    uint32_t streams;                   /* of one producer */
    uint64_t size;                      /* bytes on disk */
    const char *keep;                   /* how long rows are kept: "cpu*=30d,*=7d" */
    int64_t keep_10s, keep_1m, keep_1h; /* and the tiers of 10 s, a minute and an hour; ns */
    uint32_t query_threads;
};

#endif
