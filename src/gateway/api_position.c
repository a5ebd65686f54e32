/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/api_position.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

size_t api_position_print(char to[API_POSITION_MAX], uint64_t journal, struct position p)
{
    int n = snprintf(to, API_POSITION_MAX, "%" PRIx64 ".", journal); /* fits, as the rest */
    n += (int)position_print(to + n, p);
    to[n] = '\0';
    return (size_t)n;
}

struct slice api_position_from(struct slice text, uint64_t journal, bool *is_elsewhere)
{
    const char *dot = text.n ? memchr(text.p, '.', text.n) : NULL;
    uint64_t named = 0;
    size_t n = dot ? (size_t)(dot - text.p) : 0;
    *is_elsewhere = false;
    if (!dot || n == 0 || n > 16)
        return text;
    for (size_t i = 0; i < n; i++) {
        int digit = text_hex_digit(text.p[i]);
        if (digit < 0)
            return text; /* no position; who reads it says so */
        named = named << 4 | (unsigned)digit;
    }
    *is_elsewhere = named != journal;
    return *is_elsewhere ? SLICE_LIT("oldest") : slice_from(text, n + 1);
}
