/* SPDX-License-Identifier: Apache-2.0 */
/* All numbers are big-endian. A request is as long as its answer, padded with zeros, so that chronyd can't be used to
 * make small packets into large ones.
 *
 *     request  0 version 6   1 type 1   4 command 33 (u16)   8 sequence (u32)   20 no arguments
 *     reply    0 version 6   1 type 2   4 command 33   6 reply 5   8 status 0 (all u16)   16 sequence (u32)
 *             28 reference id (u32)   32 address: 16 bytes, family (u16: 1 IPv4, 2 IPv6), 2 unused
 *             52 stratum (u16)   54 leap (u16)   56 reference time: s high, s low, ns (u32 each)
 *             68 nine floats: correction, last offset, rms offset, frequency, residual frequency, skew, root delay,
 *                root dispersion, update interval
 *
 * A float is 32 bits: 7 of exponent, 25 of coefficient, both in two's complement; its value is coefficient times 2 to
 * the power of (exponent - 25). */
#include "sensor/chrony.h"

#include "base/err.h"

#include <math.h>
#include <sys/socket.h>

enum { VERSION = 6, TYPE_REQUEST = 1, TYPE_REPLY = 2, COMMAND_TRACKING = 33, REPLY_TRACKING = 5 };

static uint16_t get16(const unsigned char *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const unsigned char *p)
{
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static double get_float(const unsigned char *p)
{
    uint32_t x = get32(p);
    int exponent = (int)(x >> 25), coefficient = (int)(x & 0x1ffffff);
    if (exponent >= 64)
        exponent -= 128;
    if (coefficient >= 1 << 24)
        coefficient -= 1 << 25;
    return ldexp(coefficient, exponent - 25);
}

void chrony_request(unsigned char packet[CHRONY_PACKET], uint32_t sequence)
{
    memset(packet, 0, CHRONY_PACKET);
    packet[0] = VERSION;
    packet[1] = TYPE_REQUEST;
    packet[5] = COMMAND_TRACKING;
    for (int i = 0; i < 4; i++)
        packet[8 + i] = (unsigned char)(sequence >> (24 - 8 * i));
}

static void get_address(const unsigned char *p, struct chrony_tracking *t)
{
    uint16_t family = get16(p + 16);
    t->address_family = family == 1 ? AF_INET : family == 2 ? AF_INET6 : 0;
    memcpy(t->address, p, sizeof t->address);
}

int chrony_parse(struct slice packet, uint32_t sequence, struct chrony_tracking *out)
{
    const unsigned char *p = (const unsigned char *)packet.p;
    if (packet.n < CHRONY_PACKET || p[0] != VERSION || p[1] != TYPE_REPLY || get16(p + 4) != COMMAND_TRACKING ||
        get16(p + 6) != REPLY_TRACKING || get16(p + 8) != 0 || get32(p + 16) != sequence)
        return E_PROTO;
    double *const floats[] = {&out->correction, &out->last_offset,        &out->rms_offset,
                              &out->frequency,  &out->residual_frequency, &out->skew,
                              &out->root_delay, &out->root_dispersion,    &out->update_interval};
    out->ref_id = get32(p + 28);
    get_address(p + 32, out);
    out->stratum = get16(p + 52);
    out->leap = get16(p + 54);
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        *floats[i] = get_float(p + 68 + 4 * i);
    return 0;
}
