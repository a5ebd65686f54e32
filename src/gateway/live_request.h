/* SPDX-License-Identifier: Apache-2.0 */
/* live_request.h - what POST /api/v1/live asks for (docs/http.md, "Live"):
 *
 *     {"lanes":[{"lane":1,"kind":"series","name":"cpu","level":14,"params":{"field":"user"}}],"every":"250ms"}
 *
 * A lane is a picture that is followed: its tiles' address but for the index. Pure functions, for anybody's
 * bytes. */
#ifndef GRIDLINE_GATEWAY_LIVE_REQUEST_H
#define GRIDLINE_GATEWAY_LIVE_REQUEST_H

#include "base/err.h"
#include "base/strbuf.h"

enum {
    LIVE_LANES_MAX = 32,
    LIVE_LANE_BYTES = 8 << 10, /* of all texts of a lane */
    LIVE_LEVEL_MAX = 26,
    LIVE_EVERY_MIN_MS = 50
};

struct live_lane {
    uint16_t number; /* from 1 on; each once */
    unsigned level;
    struct strbuf head;   /* "KIND\0NAME\0", as archive/tile.h takes it */
    struct strbuf params; /* "NAME=VALUE\0..." */
};

struct live_request {
    struct live_lane lanes[LIVE_LANES_MAX];
    size_t n;
    int64_t every_ns; /* 0 = not said */
};

/* The object, or the list of its lanes alone. *out is empty before; fini in any case. E_PROTO, E_LIMIT,
 * -ENOMEM: *why says what and where (col: the byte). */
int live_request_parse(struct slice text, struct live_request *out, struct diag *why);
/* "250ms": LIVE_EVERY_MIN_MS to a minute. */
int live_request_every(struct slice text, int64_t *out, struct diag *why);
void live_request_fini(struct live_request *r);

/* Appends what asks the archive for tile `index` of a lane. */
void live_lane_tile(const struct live_lane *lane, int64_t index, bool as_json, struct strbuf *out);
/* The tile that holds that time. */
int64_t live_lane_index(const struct live_lane *lane, int64_t time_ns);

#endif
