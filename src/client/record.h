/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - how gridline_write and its kin put an event that describes itself into a ring (RECORD_DYNAMIC).
 *
 * Behind the record's head: struct dynamic_head, the event's name, and per field u8 type (enum value_type),
 * u8 length of its name, the name, and the value: 8 bytes, or u32 length and the text. Nothing is aligned but
 * the whole. */
#ifndef GRIDLINE_CLIENT_RECORD_H
#define GRIDLINE_CLIENT_RECORD_H

#include <stdint.h>

struct dynamic_head {
    uint32_t reserved;
    uint16_t n_fields;
    uint8_t level;
    uint8_t name_n;
};

#endif
