/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - what the agent and gridline-helper say to each other, over the helper's standard input and output.
 *
 * Frames with the head of net/frame.h (16 bytes, checksummed; worker 0), of types of their own. Both ends are
 * of one version and one host: nothing here is for the network. Integers are little-endian, status is a code
 * of base/err.h as a signed 32-bit number, text is a varint length and its bytes, "rest" goes to the end of
 * the payload.
 *
 *     type        from     payload
 *     1 OPEN      agent    u8 version (1), text sensor, text instance, text root, text position,
 *                          varint n, n x (text option, varint m, m x text value)
 *     2 SAMPLE    agent    empty: the period is over
 *     3 FETCH     agent    u32 timeout in ms, text url, text etag, text CA file; "" = none
 *     4 BATCH     helper   a block (docs/protocol.md): events; those of the sensor's schemas are rows
 *     5 MARK      helper   rest: the position to which everything since the last MARK or DONE belongs
 *     6 DONE      helper   status, u8 is_answer, text why: a call of sample is over; was it the SAMPLE's?
 *     7 FETCHED   helper   status, u8 is_signed, text etag, text why, rest: document
 *
 * The agent sends OPEN, then SAMPLE, and again SAMPLE when it has the answer and a period is over; at the end
 * it closes the pipe. The helper answers each SAMPLE with BATCH and MARK, as many as there are, and DONE. It
 * also sends them unasked, with is_answer 0, when its sensor's descriptor became readable. That the sensor
 * can't be opened is the status of the first DONE.
 *
 * `gridline-helper fetch` reads one FETCH and answers with one FETCHED (helper/fetch.h). */
#ifndef GRIDLINE_SENSOR_WIRE_H
#define GRIDLINE_SENSOR_WIRE_H

#include "base/arena.h"
#include "net/frame.h"
#include "sensor/instance.h"

enum { WIRE_VERSION = 1, WIRE_SETTINGS_MAX = 256, WIRE_TEXTS_MAX = 4096, WIRE_POSITION_MAX = 4096 };

enum wire_type {
    WIRE_OPEN = 1,
    WIRE_SAMPLE = 2,
    WIRE_FETCH = 3,
    WIRE_BATCH = 4,
    WIRE_MARK = 5,
    WIRE_DONE = 6,
    WIRE_FETCHED = 7
};

struct wire_open {
    const char *sensor, *instance, *root;
    struct slice position;
    const struct parameter_setting *settings;
    size_t n;
};

struct wire_done {
    int status;
    bool is_answer;
    struct slice why;
};

struct wire_fetch {
    uint32_t timeout_ms;
    const char *url, *etag, *ca;
};

struct wire_fetched {
    int status; /* 0; E_NODATA: not changed since etag */
    bool is_signed;
    struct slice etag, why, document;
};

/* Each appends one frame; E_LIMIT when it would be too large (then *out is as it was), -ENOMEM. */
int wire_put_open(struct strbuf *out, const struct wire_open *o);
int wire_put_done(struct strbuf *out, const struct wire_done *d);
int wire_put_fetch(struct strbuf *out, const struct wire_fetch *f);
int wire_put_fetched(struct strbuf *out, const struct wire_fetched *f);
/* 0, E_PROTO, E_LIMIT, E_VERSION, -ENOMEM. Texts of OPEN and FETCH are copied to the arena, slices are the
 * payload's. */
int wire_get_open(struct slice payload, struct arena *arena, struct wire_open *out);
int wire_get_done(struct slice payload, struct wire_done *out);
int wire_get_fetch(struct slice payload, struct arena *arena, struct wire_fetch *out);
int wire_get_fetched(struct slice payload, struct wire_fetched *out);

#endif
