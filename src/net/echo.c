/* SPDX-License-Identifier: Apache-2.0 */
/* A message: type u8, code u8 = 0, checksum u16, id u16, seq u16, big-endian as in RFC 792 and RFC 4443; then
 * our 16 bytes, little-endian: cookie u64, target u32, probe u32. IPv6's checksum covers addresses and is the
 * kernel's work. */
#include "net/echo.h"

#include "base/cursor.h"
#include "base/err.h"

enum {
    REQUEST_V4 = 8,
    REPLY_V4 = 0,
    REQUEST_V6 = 128,
    REPLY_V6 = 129,
    IP_PROTOCOL_ICMP = 1,
    IP_HEADER_MIN = 20
};

static void put_be16(unsigned char *to, uint16_t v)
{
    to[0] = (unsigned char)(v >> 8);
    to[1] = (unsigned char)v;
}

static void put_le(unsigned char *to, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(v >> (8 * i));
}

/* The Internet checksum (RFC 1071) of an even number of bytes. */
static uint16_t checksum(const unsigned char *p, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i + 1 < n; i += 2)
        sum += (uint32_t)p[i] << 8 | p[i + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

void echo_build(const struct echo *e, bool is_v6, unsigned char *to)
{
    memset(to, 0, ECHO_BYTES);
    to[0] = is_v6 ? REQUEST_V6 : REQUEST_V4;
    put_be16(to + 4, e->id);
    put_be16(to + 6, e->seq);
    put_le(to + 8, e->cookie, 8);
    put_le(to + 16, e->target, 4);
    put_le(to + 20, e->probe, 4);
    if (!is_v6)
        put_be16(to + 2, checksum(to, ECHO_BYTES));
}

static uint16_t swapped(uint16_t v)
{
    return (uint16_t)(v << 8 | v >> 8);
}

int echo_parse(struct slice packet, bool is_v6, bool has_ip, struct echo *out)
{
    if (has_ip) {
        unsigned char first = packet.n >= IP_HEADER_MIN ? (unsigned char)packet.p[0] : 0;
        size_t header = (size_t)(first & 15) * 4;
        if (first >> 4 != 4 || header < IP_HEADER_MIN || header > packet.n || packet.p[9] != IP_PROTOCOL_ICMP)
            return E_PROTO;
        packet = slice_from(packet, header);
    }
    struct cursor c = cursor_of(packet);
    uint8_t type = cursor_u8(&c), code = cursor_u8(&c);
    (void)cursor_u16(&c); /* the checksum */
    struct echo e = {.id = swapped(cursor_u16(&c)), .seq = swapped(cursor_u16(&c))};
    e.cookie = cursor_u64(&c);
    e.target = cursor_u32(&c);
    e.probe = cursor_u32(&c);
    if (c.bad || cursor_left(&c) > 0 || type != (is_v6 ? REPLY_V6 : REPLY_V4) || code != 0)
        return E_PROTO;
    *out = e;
    return 0;
}
