/* SPDX-License-Identifier: Apache-2.0 */
/* Calendar arithmetic on days since 1970-03-01-based eras (proleptic Gregorian), exact over the whole range:
 * no time_t functions, so no locale, no TZ, no locks. */
#include "base/clock.h"

#include "base/err.h"
#include "base/num.h"

#include <endian.h>
#include <errno.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t); /* can't fail for these ids on Linux */
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_utc_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}
int64_t clock_mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}
int64_t clock_boot_ns(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

/* A try wider than this was interrupted, or the clock is read by system calls: once more, but not for ever. */
enum { MOMENT_WIDE_NS = 1000, MOMENT_TRIES = 5 };

void clock_read_moment(struct clock_moment *out)
{
    int64_t narrowest = INT64_MAX;
    for (int i = 0; i < MOMENT_TRIES && narrowest > MOMENT_WIDE_NS; i++) {
        int64_t mono = clock_mono_ns(), boot = clock_boot_ns(), utc = clock_utc_ns();
        int64_t raw = read_clock(CLOCK_MONOTONIC_RAW), width = clock_mono_ns() - mono;
        if (width >= narrowest)
            continue;
        narrowest = width;
        *out = (struct clock_moment){boot, utc, mono, raw, width < UINT32_MAX ? (uint32_t)width : UINT32_MAX};
    }
}

__extension__ typedef __int128 wide; /* seconds * 1e9 passes 64 bits at the ends of the range */

static int64_t days_from_civil(int y, int m, int d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int yoe = (int)(y - era * 400);
    int doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    int doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

static void civil_from_days(int64_t days, struct clock_civil *c)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int doe = (int)(days - era * 146097);
    int yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int mp = (5 * doy + 2) / 153;
    c->day = doy - (153 * mp + 2) / 5 + 1;
    c->month = mp + (mp < 10 ? 3 : -9);
    c->year = (int)(yoe + era * 400) + (c->month <= 2);
}

static struct clock_civil civil_of(int64_t t)
{
    struct clock_civil c;
    int64_t seconds = t / NS_PER_S;
    c.ns = t % NS_PER_S;
    if (c.ns < 0) {
        c.ns += NS_PER_S;
        seconds--;
    }
    int64_t days = seconds / 86400, rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    civil_from_days(days, &c);
    c.hour = (int)(rest / 3600);
    c.minute = (int)(rest / 60 % 60);
    c.second = (int)(rest % 60);
    return c;
}

/* v in exactly n digits. */
static char *put_digits(char *p, int64_t v, int n)
{
    for (int i = n - 1; i >= 0; i--, v /= 10)
        p[i] = (char)('0' + v % 10);
    return p + n;
}

static char *put_fraction(char *p, int64_t ns)
{
    *p++ = '.';
    return ns % 1000 ? put_digits(p, ns, 9) : put_digits(p, ns / 1000, 6);
}

/* The date and time of day are the same for all events of one second: the last second's text is kept per
 * thread (events come in time order, nearly), which takes the calendar out of the common path. */
struct second_cache {
    int64_t second;
    bool valid;
    char iso[19], ulm[14];
};

static const struct second_cache *cached_second(int64_t t, int64_t *ns)
{
    static _Thread_local struct second_cache cache;
    int64_t second = t / NS_PER_S;
    *ns = t % NS_PER_S;
    if (*ns < 0) {
        *ns += NS_PER_S;
        second--;
    }
    if (cache.valid && cache.second == second)
        return &cache;
    struct clock_civil c = civil_of(t);
    char *p = cache.ulm;
    const int parts[] = {c.year, c.month, c.day, c.hour, c.minute, c.second};
    for (int i = 0; i < 6; i++)
        p = put_digits(p, parts[i], i ? 2 : 4);
    p = cache.iso;
    for (int i = 0; i < 6; i++) {
        p = put_digits(p, parts[i], i ? 2 : 4);
        if (i < 5)
            *p++ = "--T::"[i];
    }
    cache.second = second;
    cache.valid = true;
    return &cache;
}

size_t clock_print_iso(char *to, int64_t t)
{
    int64_t ns;
    const struct second_cache *c = cached_second(t, &ns);
    memcpy(to, c->iso, sizeof c->iso);
    char *p = put_fraction(to + sizeof c->iso, ns);
    *p++ = 'Z';
    return (size_t)(p - to);
}

size_t clock_print_ulm(char *to, int64_t t)
{
    int64_t ns;
    const struct second_cache *c = cached_second(t, &ns);
    memcpy(to, c->ulm, sizeof c->ulm);
    return (size_t)(put_fraction(to + sizeof c->ulm, ns) - to);
}

/* Exactly n digits at s[at] as a number, or -1. */
static int fixed_digits(struct slice s, size_t at, int n)
{
    int v = 0;
    if (at + (size_t)n > s.n)
        return -1;
    for (int i = 0; i < n; i++) {
        unsigned d = (unsigned)(s.p[at + (size_t)i] - '0');
        if (d > 9)
            return -1;
        v = v * 10 + (int)d;
    }
    return v;
}

static int days_in_month(int y, int m)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    return days[m - 1] + (m == 2 && leap);
}

static int to_ns(int64_t seconds, int64_t ns, int64_t *out)
{
    wide t = (wide)seconds * NS_PER_S + ns;
    if (t < INT64_MIN || t > INT64_MAX)
        return -ERANGE;
    *out = (int64_t)t;
    return 0;
}

static bool is_date(int year, int month, int day)
{
    return year >= 0 && month >= 1 && month <= 12 && day >= 1 && day <= days_in_month(year, month);
}

/* Second 60 is a leap second: it counts as the first of the next minute, as UNIX time has it. */
static bool is_time_of_day(const struct clock_civil *c)
{
    return c->hour >= 0 && c->hour <= 23 && c->minute >= 0 && c->minute <= 59 && c->second >= 0 &&
           c->second <= 60;
}

int clock_from_civil(const struct clock_civil *c, int64_t zone_s, int64_t *out)
{
    if (!is_date(c->year, c->month, c->day) || !is_time_of_day(c))
        return E_PROTO;
    int64_t days = days_from_civil(c->year, c->month, c->day);
    return to_ns(days * 86400 + c->hour * 3600 + c->minute * 60 + c->second - zone_s, c->ns, out);
}

/* ".ddd" at s[*at]: nanoseconds and the number of digits. Leaves *at behind it. */
static int64_t parse_fraction(struct slice s, size_t *at, size_t *digits)
{
    static const int64_t unit[] = {1000000000, 100000000, 10000000, 1000000, 100000, 10000, 1000, 100, 10, 1};
    int64_t v = 0;
    size_t i = *at + 1, kept = 0;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
        if (kept == 9) /* finer than a time can hold */
            continue;
        v = v * 10 + (s.p[i] - '0');
        kept++;
    }
    *digits = i - *at - 1;
    *at = i;
    return v * unit[kept];
}

static int parse_zone(struct slice s, int64_t *zone_s)
{
    *zone_s = 0;
    if (s.n == 0 || (s.n == 1 && (s.p[0] == 'Z' || s.p[0] == 'z')))
        return 0;
    bool colon = s.n == 6 && s.p[3] == ':';
    if ((s.p[0] != '+' && s.p[0] != '-') || (!colon && s.n != 5))
        return E_PROTO;
    int h = fixed_digits(s, 1, 2), m = fixed_digits(s, colon ? 4 : 3, 2);
    if (h < 0 || h > 23 || m < 0 || m > 59)
        return E_PROTO;
    *zone_s = (h * 3600 + m * 60) * (s.p[0] == '-' ? -1 : 1);
    return 0;
}

int clock_parse_iso(struct slice s, int64_t *out)
{
    struct clock_civil c = {
        .year = fixed_digits(s, 0, 4), .month = fixed_digits(s, 5, 2), .day = fixed_digits(s, 8, 2)};
    if (c.year < 0 || c.month < 0 || c.day < 0 || s.p[4] != '-' || s.p[7] != '-')
        return E_PROTO;
    if (s.n == 10)
        return clock_from_civil(&c, 0, out);
    c.hour = fixed_digits(s, 11, 2);
    c.minute = fixed_digits(s, 14, 2);
    c.second = fixed_digits(s, 17, 2);
    if (c.hour < 0 || c.minute < 0 || c.second < 0 || s.p[13] != ':' || s.p[16] != ':')
        return E_PROTO;
    if (s.p[10] != 'T' && s.p[10] != 't' && s.p[10] != ' ')
        return E_PROTO;
    size_t at = 19, digits = 1;
    if (at < s.n && s.p[at] == '.')
        c.ns = parse_fraction(s, &at, &digits);
    int64_t zone;
    if (digits == 0 || parse_zone(slice_from(s, at), &zone) < 0)
        return E_PROTO;
    return clock_from_civil(&c, zone, out);
}

/* Eight digits as a number, or -1: all at once, by pairs, then fours. */
static int64_t eight_digits(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    w = le64toh(w);
    uint64_t high = UINT64_C(0xf0f0f0f0f0f0f0f0), zeros = UINT64_C(0x3030303030303030);
    if ((w & high) != zeros || ((w + UINT64_C(0x0606060606060606)) & high) != zeros)
        return -1;
    w -= zeros;
    w = (w * 10 + (w >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    w = (w * 100 + (w >> 16)) & UINT64_C(0x0000ffff0000ffff);
    return (int64_t)((w * 10000 + (w >> 32)) & UINT64_C(0xffffffff));
}

/* The seconds of the start of the day YYYYMMDD. The last day is kept per thread: a log has few. */
static int day_start(int64_t date, int64_t *out)
{
    static _Thread_local struct {
        int64_t date, second;
    } last = {.date = -1};
    if (date != last.date) {
        int year = (int)(date / 10000), month = (int)(date / 100 % 100), day = (int)(date % 100);
        if (!is_date(year, month, day))
            return E_PROTO;
        last.date = date;
        last.second = days_from_civil(year, month, day) * 86400;
    }
    *out = last.second;
    return 0;
}

int clock_parse_ulm(struct slice s, int64_t *out, size_t *digits)
{
    size_t at = 14, n = 1;
    int64_t date = s.n < at ? -1 : eight_digits(s.p), time = s.n < at ? -1 : eight_digits(s.p + 6), second;
    if (date < 0 || time < 0 || day_start(date, &second) < 0)
        return E_PROTO;
    struct clock_civil c = {
        .hour = (int)(time / 10000 % 100), .minute = (int)(time / 100 % 100), .second = (int)(time % 100)};
    if (at < s.n && s.p[at] == '.')
        c.ns = parse_fraction(s, &at, &n);
    if (n == 0 || at != s.n || !is_time_of_day(&c))
        return E_PROTO;
    if (digits)
        *digits = s.n == 14 ? 0 : n;
    return to_ns(second + c.hour * 3600 + c.minute * 60 + c.second, c.ns, out);
}

int clock_parse_epoch(struct slice s, int64_t *out)
{
    const char *point = memchr(s.p, '.', s.n);
    struct slice whole = point ? slice_of(s.p, (size_t)(point - s.p)) : s;
    size_t at = whole.n, digits = 1;
    int64_t seconds, ns = point ? parse_fraction(s, &at, &digits) : 0;
    int r = num_parse_int(whole, &seconds);
    if (r < 0)
        return r;
    if (digits == 0 || at != s.n)
        return E_PROTO;
    wide t = (wide)seconds * NS_PER_S + (whole.p[0] == '-' ? -ns : ns);
    if (t < INT64_MIN || t > INT64_MAX)
        return -ERANGE;
    *out = (int64_t)t;
    return 0;
}

static int parse_relative(struct slice s, int64_t now, int64_t *out)
{
    if (s.n == 3) {
        *out = now;
        return 0;
    }
    int64_t d;
    if (s.p[3] != '-' && s.p[3] != '+')
        return E_PROTO;
    int r = num_parse_duration(slice_from(s, 4), &d);
    if (r < 0)
        return r;
    bool overflow = s.p[3] == '-' ? __builtin_sub_overflow(now, d, out) : __builtin_add_overflow(now, d, out);
    return overflow ? -ERANGE : 0;
}

int clock_parse_human(struct slice s, int64_t now, int64_t *out)
{
    if (slice_starts(s, SLICE_LIT("now")))
        return parse_relative(s, now, out);
    if (s.n >= 10 && s.p[4] == '-')
        return clock_parse_iso(s, out);
    const char *point = memchr(s.p, '.', s.n);
    size_t whole = point ? (size_t)(point - s.p) : s.n;
    return whole == 14 ? clock_parse_ulm(s, out, NULL) : clock_parse_epoch(s, out);
}
