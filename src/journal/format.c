/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/format.h"

#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/err.h"

/* Where things are; the table is at the head of journal.c. */
enum {
    HEAD_VERSION = 8,
    HEAD_FIRST = 16,
    HEAD_CREATED = 24,
    HEAD_ID = 32,
    HEAD_CRC = 60,
    REC_LENGTH = 4,
    REC_NUMBER = 8,
    REC_TYPE = 16,
    REC_CRC = 20,
    SLOT_GENERATION = 8,
    SLOT_POSITION = 16,
    SLOT_LOST = 24,
    SLOT_CRC = 36
};

static const char head_magic[8] = {'g', 'l', 'j', 'o', 'u', 'r', 'n', '\n'};
static const char slot_magic[4] = {'g', 'l', 'c', 'u'};

static void put_u32(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> (8 * i));
}

static void put_u64(unsigned char *to, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(v >> (8 * i));
}

static struct slice bytes(const unsigned char *p, size_t n)
{
    return slice_of((const char *)p, n);
}

void format_put_head(unsigned char to[HEAD_SIZE], const struct segment_head *h)
{
    memset(to, 0, HEAD_SIZE);
    memcpy(to, head_magic, sizeof head_magic);
    put_u32(to + HEAD_VERSION, FORMAT_VERSION);
    put_u64(to + HEAD_FIRST, h->first);
    put_u64(to + HEAD_CREATED, (uint64_t)h->created_ns);
    put_u64(to + HEAD_ID, h->id);
    put_u32(to + HEAD_CRC, crc32c(0, bytes(to, HEAD_CRC)));
}

int format_get_head(const unsigned char from[HEAD_SIZE], struct segment_head *out)
{
    struct cursor c = cursor_of(bytes(from, HEAD_SIZE));
    struct slice magic = cursor_bytes(&c, sizeof head_magic);
    uint32_t version = cursor_u32(&c);
    (void)cursor_u32(&c); /* reserved */
    struct segment_head h;
    h.first = cursor_u64(&c);
    h.created_ns = (int64_t)cursor_u64(&c);
    h.id = cursor_u64(&c);
    (void)cursor_bytes(&c, HEAD_CRC - HEAD_ID - 8); /* reserved */
    uint32_t crc = cursor_u32(&c);
    if (memcmp(magic.p, head_magic, sizeof head_magic) != 0 || crc != crc32c(0, bytes(from, HEAD_CRC)))
        return E_DAMAGE;
    if (version > FORMAT_VERSION)
        return E_VERSION;
    if (version == 0 || (uint32_t)h.id == 0)
        return E_DAMAGE;
    *out = h;
    return 0;
}

void format_put_record(unsigned char to[RECORD_HEAD], uint32_t length, uint64_t number, uint32_t type)
{
    memset(to, 0, RECORD_HEAD);
    put_u32(to + REC_LENGTH, length);
    put_u64(to + REC_NUMBER, number);
    put_u32(to + REC_TYPE, type);
}

struct record_head format_get_record(const unsigned char from[RECORD_HEAD])
{
    struct cursor c = cursor_of(bytes(from, RECORD_HEAD));
    struct record_head h;
    h.marker = cursor_u32(&c);
    h.length = cursor_u32(&c);
    h.number = cursor_u64(&c);
    h.type = cursor_u32(&c);
    h.crc = cursor_u32(&c);
    return h;
}

uint32_t format_record_crc(const unsigned char *p, uint32_t length)
{
    return crc32c(crc32c(0, bytes(p, REC_CRC)), bytes(p + RECORD_HEAD, length));
}

uint64_t format_number(unsigned char *p, size_t n, uint64_t first)
{
    uint64_t number = first;
    for (size_t at = 0; at < n; at += format_record_size(format_get_record(p + at).length))
        put_u64(p + at + REC_NUMBER, number++);
    return number - first;
}

void format_stamp(unsigned char *p, size_t n, uint32_t marker)
{
    for (size_t at = 0; at < n;) {
        uint32_t length = format_get_record(p + at).length;
        put_u32(p + at, marker);
        put_u32(p + at + REC_CRC, format_record_crc(p + at, length));
        at += format_record_size(length);
    }
}

void format_put_slot(unsigned char to[SLOT_SIZE], const struct cursor_slot *s)
{
    memset(to, 0, SLOT_SIZE);
    memcpy(to, slot_magic, sizeof slot_magic);
    put_u32(to + sizeof slot_magic, FORMAT_VERSION);
    put_u64(to + SLOT_GENERATION, s->generation);
    put_u64(to + SLOT_POSITION, s->position);
    put_u64(to + SLOT_LOST, s->lost);
    put_u32(to + SLOT_CRC, crc32c(0, bytes(to, SLOT_CRC)));
}

int format_get_slot(const unsigned char from[SLOT_SIZE], struct cursor_slot *out)
{
    struct cursor c = cursor_of(bytes(from, SLOT_SIZE));
    struct slice magic = cursor_bytes(&c, sizeof slot_magic);
    uint32_t version = cursor_u32(&c);
    struct cursor_slot s;
    s.generation = cursor_u64(&c);
    s.position = cursor_u64(&c);
    s.lost = cursor_u64(&c);
    (void)cursor_u32(&c); /* reserved */
    uint32_t crc = cursor_u32(&c);
    if (memcmp(magic.p, slot_magic, sizeof slot_magic) != 0 || crc != crc32c(0, bytes(from, SLOT_CRC)))
        return E_DAMAGE;
    if (version > FORMAT_VERSION)
        return E_VERSION;
    *out = s;
    return 0;
}
