/* SPDX-License-Identifier: Apache-2.0 */
/* zlib and OpenSSL have no CRC-32C, and libgridline links libc only, so it is here: the SSE4.2 instruction,
 * or a byte table elsewhere. The table is filled by a constructor: it must be ready before any thread and
 * usable in a signal handler.
 *
 * The instruction takes 8 bytes every cycle, but its result comes after 3. Long input therefore goes through
 * three lanes of LANE bytes at a time. A lane's CRC c that is followed by n more bytes counts as c x^(8n) mod
 * P: c times x^(8n - 33), without carries, gives 64 bits that the instruction itself reduces, times x^33. */
#include "base/crc32c.h"

static uint32_t table[256];

__attribute__((constructor)) static void fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = (c & 1) ? (c >> 1) ^ 0x82f63b78u : c >> 1;
        table[i] = c;
    }
}

static uint32_t by_table(uint32_t c, const unsigned char *p, size_t n)
{
    for (; n; n--)
        c = table[(c ^ *p++) & 0xff] ^ (c >> 8);
    return c;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t c, const unsigned char *p, size_t n)
{
    uint64_t c64 = c, word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        c64 = __builtin_ia32_crc32di(c64, word);
    }
    c = (uint32_t)c64;
    for (; n; n--)
        c = __builtin_ia32_crc32qi(c, *p++);
    return c;
}

enum { LANE = 1024 };
#define BEFORE_ONE UINT64_C(0x170076fa) /* x^(8 LANE - 33) mod P, lowest power in the highest bit */
#define BEFORE_TWO UINT64_C(0xa51b6135) /* x^(16 LANE - 33) */

__attribute__((target("sse4.2,pclmul"))) static uint64_t times(uint64_t c, uint64_t power)
{
    typedef long long words __attribute__((vector_size(16)));
    const words product =
        __builtin_ia32_pclmulqdq128((words){(long long)c, 0}, (words){(long long)power, 0}, 0);
    return (uint64_t)product[0];
}

static inline uint64_t load(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* n is a multiple of 3 LANE. */
__attribute__((target("sse4.2,pclmul"))) static uint32_t by_lanes(uint32_t c, const unsigned char *p,
                                                                  size_t n)
{
    uint64_t first = c;
    for (; n; n -= 3 * LANE, p += 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            first = __builtin_ia32_crc32di(first, load(p + i));
            second = __builtin_ia32_crc32di(second, load(p + LANE + i));
            third = __builtin_ia32_crc32di(third, load(p + 2 * LANE + i));
        }
        first = __builtin_ia32_crc32di(0, times(first, BEFORE_TWO) ^ times(second, BEFORE_ONE)) ^ third;
    }
    return (uint32_t)first;
}

static uint32_t by_processor(uint32_t c, const unsigned char *p, size_t n)
{
    size_t in_lanes = __builtin_cpu_supports("pclmul") ? n - n % (3 * LANE) : 0;
    if (in_lanes)
        c = by_lanes(c, p, in_lanes);
    return by_instruction(c, p + in_lanes, n - in_lanes);
}
#endif

uint32_t crc32c(uint32_t crc, struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.p;
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~by_processor(~crc, p, s.n);
#endif
    return ~by_table(~crc, p, s.n);
}
