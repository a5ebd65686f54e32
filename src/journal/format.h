/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - the journal's bytes: segment head, record head, cursor slot. Pure functions, no I/O. The layout
 * is described at the head of journal.c. */
#ifndef GRIDLINE_JOURNAL_FORMAT_H
#define GRIDLINE_JOURNAL_FORMAT_H

#include "base/slice.h"

#include <stdint.h>

enum {
    FORMAT_VERSION = 1,
    HEAD_SIZE = 64,
    RECORD_HEAD = 24,
    RECORD_ALIGN = 8,
    SLOT_SIZE = 40,
    SLOT_DISTANCE = 512 /* the two slots are in different sectors: one write can't damage both */
};

#define TYPE_SEAL UINT32_MAX

struct segment_head {
    uint64_t first;     /* number of its first record */
    int64_t created_ns; /* UTC */
    uint64_t id;        /* random; the low 32 bits, never 0, mark its records */
};

struct record_head {
    uint32_t marker;
    uint32_t length; /* of the payload */
    uint64_t number;
    uint32_t type;
    uint32_t crc;
};

struct cursor_slot {
    uint64_t generation; /* the slot with the larger one counts */
    uint64_t position;
    uint64_t lost;
};

static inline uint64_t format_record_size(uint64_t length)
{
    return (RECORD_HEAD + length + RECORD_ALIGN - 1) & ~(uint64_t)(RECORD_ALIGN - 1);
}

void format_put_head(unsigned char to[HEAD_SIZE], const struct segment_head *h);
/* E_DAMAGE, or E_VERSION when the head is whole but of a later version. */
int format_get_head(const unsigned char from[HEAD_SIZE], struct segment_head *out);

/* Everything but marker and CRC, which depend on the segment the record ends up in. */
void format_put_record(unsigned char to[RECORD_HEAD], uint32_t length, uint64_t number, uint32_t type);
struct record_head format_get_record(const unsigned char from[RECORD_HEAD]);
/* Of a whole record (head and payload) at p. */
uint32_t format_record_crc(const unsigned char *p, uint32_t length);
/* Numbers the records that fill p[0..n) from first on; returns how many they are. */
uint64_t format_number(unsigned char *p, size_t n, uint64_t first);
/* Writes marker and CRC into each of the records that fill p[0..n). */
void format_stamp(unsigned char *p, size_t n, uint32_t marker);

void format_put_slot(unsigned char to[SLOT_SIZE], const struct cursor_slot *s);
int format_get_slot(const unsigned char from[SLOT_SIZE], struct cursor_slot *out); /* E_DAMAGE, E_VERSION */

#endif
