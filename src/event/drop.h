/* SPDX-License-Identifier: Apache-2.0 */
/* drop.h - why an event was not passed on. The numbers are those on the wire (docs/protocol.md, COUNTS). */
#ifndef GRIDLINE_EVENT_DROP_H
#define GRIDLINE_EVENT_DROP_H

enum drop_reason {
    DROP_RING_FULL = 1,
    DROP_NESTED = 2,
    DROP_TOO_LARGE = 3,
    DROP_UNWRITABLE = 4,
    DROP_MEMORY = 5,
    DROP_REFUSED = 6,
    DROP_TOO_OLD = 7,
    DROP_NO_SCHEMA = 8,
    DROP_FILTERED = 9,
    DROP_FORCED = 10,
    DROP_TOO_NEW = 11,
    DROP_STREAMS = 12,
    DROP_REASONS = 13
};

#endif
