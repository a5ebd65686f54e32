/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - what passes through a pinhole: requests of one fixed size from the launcher inside a sandbox, an
 * answer of a few bytes. A request names nothing that could be executed, opened or connected to: the one who
 * answers was told all that when it was started. The same request, with the sender's uid filled in, goes on to
 * the agent (net/agent_name.h).
 *
 * Format, version 1, little-endian. What a kind does not use is zero, and is refused if it is not.
 *
 *     request, 128 bytes                                          start  view  began  ended
 *       0  3  "GLP"                                                 x     x      x      x
 *       3  1  version                                               x     x      x      x
 *       4  1  kind: 1 start, 2 view, 3 began, 4 ended               x     x      x      x
 *       5  1  how it ended: 0 by itself, 1 by a signal                                  x
 *       6  1  exit code, or the signal                                                  x
 *       7  1  length of the job's id, 1 to 64                             x      x      x
 *       8  4  uid: 0xffffffff = not said yet                        x     x      x      x
 *      12  4  cpus                                                        x
 *      16  8  duration of the job, ns                                                   x
 *      24  8  time that the launcher took before the job, ns                     x      x
 *      32  8  memory, bytes                                               x
 *      40  8  memory limit, bytes; 0 = none                               x
 *      48  4  processes                                                   x
 *      52  4  mounts                                                      x
 *      56  8  zero
 *      64 64  the job's id ([A-Za-z0-9._:-]), zeros behind it             x      x      x
 *
 *     reply, 8 bytes
 *       0  3  "GLP"
 *       3  1  version
 *       4  1  result
 *       5  3  zero */
#ifndef GRIDLINE_NET_LAUNCH_H
#define GRIDLINE_NET_LAUNCH_H

#include "base/err.h"
#include "base/machine.h"
#include "base/slice.h"

enum { LAUNCH_REQUEST = 128, LAUNCH_REPLY = 8, LAUNCH_ID_MAX = 64, LAUNCH_VERSION = 1 };
#define LAUNCH_NO_UID UINT32_MAX

enum launch_kind {
    LAUNCH_START = 1, /* there is to be an agent on this host */
    LAUNCH_VIEW,      /* what the job's sandbox looks like from inside */
    LAUNCH_BEGAN,     /* the job runs */
    LAUNCH_ENDED      /* and has ended */
};

struct launch_request {
    enum launch_kind kind;
    uint32_t uid; /* whose it is; LAUNCH_NO_UID until somebody who knows has filled it in */
    char id[LAUNCH_ID_MAX + 1];
    struct machine_view view;
    uint64_t duration_ns, overhead_ns;
    bool is_signal;
    uint8_t code;
};

enum launch_result {
    LAUNCH_DONE = 1,    /* the agent was started, and runs; or the message was taken */
    LAUNCH_ALREADY,     /* it ran before */
    LAUNCH_NOT_ALLOWED, /* not for this user */
    LAUNCH_TOO_MUCH,    /* of these in so short a time */
    LAUNCH_MALFORMED,
    LAUNCH_NO_AGENT, /* it could not be started, or did not answer in time; or runs no more */
    LAUNCH_RESULTS
};
/* "not allowed for this user" */
const char *launch_result_text(enum launch_result r);

void launch_request_put(unsigned char out[LAUNCH_REQUEST], const struct launch_request *r);
/* E_PROTO, E_VERSION; *out is untouched then. */
int launch_request_get(struct slice bytes, struct launch_request *out);
void launch_reply_put(unsigned char out[LAUNCH_REPLY], enum launch_result r);
int launch_reply_get(struct slice bytes, enum launch_result *out);

/* Fills in id from any text: what an id can't have becomes `_`, what is too long is cut. */
void launch_set_id(struct launch_request *r, const char *text);

#endif
