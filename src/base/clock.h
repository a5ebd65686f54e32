/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - reading clocks, and times as text. A time is int64 nanoseconds since 1970, UTC (1677 to 2262). */
#ifndef GRIDLINE_BASE_CLOCK_H
#define GRIDLINE_BASE_CLOCK_H

#include "base/slice.h"

#include <stdint.h>

#define NS_PER_S INT64_C(1000000000)

int64_t clock_utc_ns(void);  /* CLOCK_REALTIME */
int64_t clock_mono_ns(void); /* CLOCK_MONOTONIC: for intervals and deadlines */
int64_t clock_boot_ns(void); /* CLOCK_BOOTTIME: goes on during suspend */

/* All clocks at one moment: each was read within error_ns of the others. */
struct clock_moment {
    int64_t boot_ns, utc_ns, mono_ns;
    int64_t raw_ns; /* CLOCK_MONOTONIC_RAW: the hardware's rate, whatever daemons make of the others */
    uint32_t error_ns;
};
/* The tightest of a few tries: being interrupted between two readings shows as a wide one. 0.2 us; signal-safe. */
void clock_read_moment(struct clock_moment *out);

/* A date and time of day as people write them. */
struct clock_civil {
    int year, month, day, hour, minute, second;
    int64_t ns;
};
/* The time it is in a zone zone_s seconds east of UTC. E_PROTO: no such date or time of day (second 60 is one);
 * -ERANGE. */
int clock_from_civil(const struct clock_civil *c, int64_t zone_s, int64_t *out);

enum { CLOCK_TEXT_MAX = 40 };

/* 2026-11-15T21:20:28.123456Z; the fraction has 6 digits, or 9 where the time is not whole microseconds. */
size_t clock_print_iso(char *to, int64_t t);
/* 20261115212028.123456, the same fraction. */
size_t clock_print_ulm(char *to, int64_t t);

/* YYYY-MM-DD[T| ]HH:MM:SS[.fraction][Z|±HH:MM]; also a date alone. No zone means UTC. Fractions of up to 9
 * digits are exact, further ones are cut. E_PROTO, or -ERANGE outside the years a time can hold. */
int clock_parse_iso(struct slice s, int64_t *out);
/* YYYYMMDDHHMMSS[.fraction]. *digits (NULL is fine) gets the number of fraction digits. */
int clock_parse_ulm(struct slice s, int64_t *out, size_t *digits);
/* Seconds since 1970 with up to 9 fraction digits, exactly. */
int clock_parse_epoch(struct slice s, int64_t *out);
/* What a person types: any of the above, or now, now-15m, now+1h. */
int clock_parse_human(struct slice s, int64_t now, int64_t *out);

#endif
