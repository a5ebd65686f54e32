/* SPDX-License-Identifier: Apache-2.0 */
/* datagram.h - the head of a datagram, and which numbers of a worker have come (docs/protocol.md,
 * "Datagrams").
 *
 *     at 0   u8   version 1 << 4 | level (enum seal_level)
 *        1   u8   low byte of the key id
 *        2   u32  worker
 *        6   u48  number, from 1, one more each datagram of a samples origin
 *       12        the packet (event/samples.h, without ROLL), sealed by level; empty = a probe
 *      end        16 bytes of tag; none at SEAL_NONE
 *
 * The head is authenticated with the packet. Nonce: u32 key id, u64 number. */
#ifndef GRIDLINE_NET_DATAGRAM_H
#define GRIDLINE_NET_DATAGRAM_H

#include "base/slice.h"

#include <stdint.h>

enum {
    DATAGRAM_VERSION = 1,
    DATAGRAM_HEAD = 12,
    DATAGRAM_TAG = 16,
    DATAGRAM_MAX = 1200,   /* bytes, all included */
    DATAGRAM_WINDOW = 1024 /* how far behind the highest number one may come */
};
#define DATAGRAM_NUMBER_MAX ((UINT64_C(1) << 48) - 1)

struct datagram_head {
    uint8_t level, key; /* key: low byte of its id */
    uint32_t worker;
    uint64_t number;
};

void datagram_put_head(unsigned char to[DATAGRAM_HEAD], const struct datagram_head *h);
/* E_PROTO: too short for head and tag, longer than DATAGRAM_MAX, or a level or number that there is not;
 * E_VERSION. */
int datagram_get_head(struct slice datagram, struct datagram_head *out);

/* What has come of one samples origin. Zeroed: nothing. Counts are of datagrams. */
struct datagram_window {
    uint64_t highest;
    uint64_t received;  /* each number once */
    uint64_t duplicate; /* a number that had come, within the window */
    uint64_t reordered; /* of received: came behind a higher one */
    uint64_t too_old;   /* further behind than the window: late or replayed, not taken */
    uint64_t bits[DATAGRAM_WINDOW / 64];
};

enum datagram_verdict { DATAGRAM_NEW, DATAGRAM_DUPLICATE, DATAGRAM_TOO_OLD };
/* What would enter say? Before the seal is opened: counts nothing. */
enum datagram_verdict datagram_window_look(const struct datagram_window *w, uint64_t number);
/* Enters a number whose datagram is authentic, and counts. */
enum datagram_verdict datagram_window_enter(struct datagram_window *w, uint64_t number);

#endif
