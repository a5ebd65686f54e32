/* SPDX-License-Identifier: Apache-2.0 */
/* export.h - where `gridline export` has its events from: an archive's folder (export_archive.c) or a gateway
 * (export_gateway.c). Errors have been said when a call returns them. */
#ifndef GRIDLINE_CMD_EXPORT_H
#define GRIDLINE_CMD_EXPORT_H

#include "cmd/filter.h"
#include "cmd/options.h"
#include "event/batch.h"
#include "event/notice.h"

struct export_options {
    const char *gateway, *identity, *archive;
    const char *events, *hosts;
    const struct encoding *format;
    const char *output, *columns;
    struct filter_options filter; /* from, to, where */
    int64_t timeout_ns;
    bool is_bare; /* binary, too, without origins */
    bool is_quiet;
};

/* What is asked for, checked. */
struct export_request {
    int64_t from_ns, to_ns; /* both are in */
    struct slice events, hosts, where;
    bool with_origins;
};

struct export_source_ops {
    int (*open)(const struct export_options *o, void **out);
    void (*close)(void *source); /* NULL is fine */
    /* Begins, or begins again. */
    int (*begin)(void *source, const struct export_request *q);
    /* 1 with events, borrowed until the next call; 0 at the end. */
    int (*next)(void *source, const struct batch **out);
    int64_t (*at_ns)(void *source); /* up to there it has come */
    uint64_t (*lost)(void *source); /* events, or pieces of unknown size, that damage keeps out */
    void (*notices)(void *source, struct notices *out); /* facts beside the events; at the end */
};

extern const struct export_source_ops export_archive, export_gateway;

#endif
