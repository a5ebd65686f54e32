/* SPDX-License-Identifier: Apache-2.0 */
/* Times as logs write them. A format is text with, behind a %:
 *
 *   Y y m d e H I M S   year (4 or 2 digits), month, day, hour (24 or 12), minute, second; one or two digits
 *   b a p               English names: month (also in full), weekday (not looked at), AM or PM
 *   f                   digits of a fraction of a second
 *   z                   +HH:MM, +HHMM, Z, UTC or GMT
 *   s                   seconds since 1970
 *   F T                 %Y-%m-%d, %H:%M:%S
 *   %                   itself
 *
 * A blank stands for one or more. `iso` and `epoch` are formats of their own: 2026-11-15T21:20:28 with a T or
 * a blank, a fraction behind a point or comma, a zone, or without; seconds with or without a fraction. No
 * locale is asked. */
#include "base/clock.h"
#include "base/num.h"
#include "helper/logfilter_internal.h"

#include <errno.h>

/* Text being read, and what was read. */
struct reading {
    struct slice text;
    size_t at;
    struct clock_civil civil;
    bool has_year, has_zone, has_epoch, is_pm, has_half;
    int64_t zone_s, epoch_s;
};

static int read_digits(struct reading *r, size_t min, size_t max, int *out)
{
    size_t n = 0;
    int v = 0;
    while (n < max && r->at < r->text.n && (unsigned char)(r->text.p[r->at] - '0') <= 9) {
        v = v * 10 + (r->text.p[r->at++] - '0');
        n++;
    }
    if (n < min)
        return E_PROTO;
    *out = v;
    return 0;
}

static int read_fraction(struct reading *r)
{
    int64_t unit = NS_PER_S, ns = 0;
    size_t from = r->at;
    for (; r->at < r->text.n && (unsigned char)(r->text.p[r->at] - '0') <= 9; r->at++) {
        unit /= 10; /* 0 behind the ninth: finer than a time can hold */
        ns += unit * (r->text.p[r->at] - '0');
    }
    r->civil.ns = ns;
    return r->at > from ? 0 : E_PROTO;
}

/* The run of letters here. */
static struct slice read_word(struct reading *r)
{
    size_t from = r->at;
    while (r->at < r->text.n && slice_lower(r->text.p[r->at]) >= 'a' && slice_lower(r->text.p[r->at]) <= 'z')
        r->at++;
    return slice_of(r->text.p + from, r->at - from);
}

static int read_month(struct reading *r)
{
    static const char *const months[] = {"january",   "february", "march",    "april",
                                         "may",       "june",     "july",     "august",
                                         "september", "october",  "november", "december"};
    struct slice word = read_word(r);
    for (int i = 0; word.n >= 3 && i < 12; i++) {
        struct slice full = slice_str(months[i]);
        if (slice_eq_nocase(word, full) || slice_eq_nocase(word, slice_of(full.p, 3))) {
            r->civil.month = i + 1;
            return 0;
        }
    }
    return E_PROTO;
}

static int read_half(struct reading *r)
{
    struct slice word = read_word(r);
    r->has_half = true;
    r->is_pm = slice_eq_nocase(word, SLICE_LIT("pm"));
    return r->is_pm || slice_eq_nocase(word, SLICE_LIT("am")) ? 0 : E_PROTO;
}

static int read_zone(struct reading *r)
{
    int h, m;
    r->has_zone = true;
    r->zone_s = 0;
    if (r->at >= r->text.n)
        return E_PROTO;
    char sign = r->text.p[r->at];
    if (sign != '+' && sign != '-') {
        struct slice word = read_word(r);
        bool is_utc = slice_eq_nocase(word, SLICE_LIT("z")) || slice_eq_nocase(word, SLICE_LIT("utc")) ||
                      slice_eq_nocase(word, SLICE_LIT("gmt"));
        return is_utc ? 0 : E_PROTO;
    }
    r->at++;
    if (read_digits(r, 2, 2, &h) < 0)
        return E_PROTO;
    r->at += r->at < r->text.n && r->text.p[r->at] == ':';
    if (read_digits(r, 2, 2, &m) < 0 || h > 23 || m > 59)
        return E_PROTO;
    r->zone_s = (h * 3600 + m * 60) * (sign == '-' ? -1 : 1);
    return 0;
}

static int read_epoch(struct reading *r)
{
    size_t from = r->at;
    while (r->at < r->text.n && (unsigned char)(r->text.p[r->at] - '0') <= 9)
        r->at++;
    r->has_epoch = true;
    return num_parse_int(slice_of(r->text.p + from, r->at - from), &r->epoch_s);
}

static int read_year(struct reading *r, bool is_short)
{
    int v = 0, e = is_short ? read_digits(r, 2, 2, &v) : read_digits(r, 4, 4, &v);
    r->civil.year = !is_short ? v : v < 70 ? 2000 + v : 1900 + v;
    r->has_year = true;
    return e;
}

static void read_blanks(struct reading *r)
{
    while (r->at < r->text.n && (r->text.p[r->at] == ' ' || r->text.p[r->at] == '\t'))
        r->at++;
}

static int read_format(struct reading *r, const char *format);

static int read_conversion(struct reading *r, char c)
{
    switch (c) {
    case 'Y':
    case 'y':
        return read_year(r, c == 'y');
    case 'm':
        return read_digits(r, 1, 2, &r->civil.month);
    case 'd':
    case 'e':
        read_blanks(r);
        return read_digits(r, 1, 2, &r->civil.day);
    case 'H':
    case 'I':
        return read_digits(r, 1, 2, &r->civil.hour);
    case 'M':
        return read_digits(r, 1, 2, &r->civil.minute);
    case 'S':
        return read_digits(r, 1, 2, &r->civil.second);
    case 'b':
        return read_month(r);
    case 'a':
        return read_word(r).n ? 0 : E_PROTO;
    case 'p':
        return read_half(r);
    case 'f':
        return read_fraction(r);
    case 'z':
        return read_zone(r);
    case 's':
        return read_epoch(r);
    case 'F':
        return read_format(r, "%Y-%m-%d");
    default: /* logtime_check let nothing else pass but %T and %% */
        return c == 'T' ? read_format(r, "%H:%M:%S") : read_format(r, "%%");
    }
}

static int read_format(struct reading *r, const char *format)
{
    int e = 0;
    for (const char *p = format; e == 0 && *p; p++) {
        if (*p == ' ') {
            size_t from = r->at;
            read_blanks(r);
            e = r->at > from ? 0 : E_PROTO;
        } else if (*p == '%' && p[1] != '%') {
            e = read_conversion(r, *++p);
        } else {
            p += *p == '%';
            e = r->at < r->text.n && r->text.p[r->at] == *p ? 0 : E_PROTO;
            r->at++;
        }
    }
    return e;
}

static int read_iso(struct reading *r)
{
    int e = read_format(r, "%F");
    if (e < 0 || r->at >= r->text.n)
        return E_PROTO;
    char between = r->text.p[r->at++];
    if ((between != 'T' && between != 't' && between != ' ') || read_format(r, "%T") < 0)
        return E_PROTO;
    if (r->at < r->text.n && (r->text.p[r->at] == '.' || r->text.p[r->at] == ',')) {
        r->at++;
        e = read_fraction(r);
    }
    return e == 0 && r->at < r->text.n ? read_zone(r) : e;
}

int logtime_zone_parse(struct slice s, struct logtime_zone *out)
{
    struct reading r = {.text = s};
    struct logtime_zone z = {.is_local = slice_eq_str(s, "local")};
    if (!z.is_local && (read_zone(&r) < 0 || r.at != s.n))
        return E_PROTO;
    z.offset_s = r.zone_s;
    *out = z;
    return 0;
}

int logtime_check(const char *format, char *bad)
{
    if (strcmp(format, "iso") == 0 || strcmp(format, "epoch") == 0)
        return 0;
    for (const char *p = format; *p; p++) {
        if (*p != '%')
            continue;
        p++;
        if (!*p || !strchr("YymdeHIMSbapfzsFT%", *p)) {
            *bad = *p ? *p : ' ';
            return E_PROTO;
        }
    }
    return 0;
}

/* Seconds that local time is ahead of UTC then. Of an hour that the clock shows twice one is taken. */
static int64_t local_offset(struct logtime_zone *z, const struct clock_civil *c, int64_t as_utc_ns)
{
    int64_t hour = as_utc_ns / (3600 * NS_PER_S);
    if (z->is_cached && z->cached_hour == hour)
        return z->cached_offset_s;
    struct tm t = {.tm_year = c->year - 1900,
                   .tm_mon = c->month - 1,
                   .tm_mday = c->day,
                   .tm_hour = c->hour,
                   .tm_min = c->minute,
                   .tm_sec = c->second,
                   .tm_isdst = -1};
    z->cached_offset_s = as_utc_ns / NS_PER_S - (int64_t)mktime(&t);
    z->cached_hour = hour;
    z->is_cached = true;
    return z->cached_offset_s;
}

static int civil_in_zone(const struct reading *r, const struct clock_civil *c, struct logtime_zone *zone,
                         int64_t *out)
{
    int64_t t;
    int e = clock_from_civil(c, r->has_zone ? r->zone_s : zone->is_local ? 0 : zone->offset_s, &t);
    if (e < 0)
        return e;
    if (!r->has_zone && zone->is_local && __builtin_sub_overflow(t, local_offset(zone, c, t) * NS_PER_S, &t))
        return -ERANGE;
    *out = t;
    return 0;
}

/* Of last year, this year and the next: what is nearest to now. */
static int nearest_year(const struct reading *r, struct logtime_zone *zone, int64_t now_ns, int64_t *out)
{
    struct tm now;
    time_t seconds = (time_t)(now_ns / NS_PER_S);
    if (!gmtime_r(&seconds, &now))
        return -ERANGE;
    uint64_t best = UINT64_MAX;
    for (int i = -1; i <= 1; i++) {
        struct clock_civil c = r->civil;
        int64_t t;
        c.year = now.tm_year + 1900 + i;
        if (civil_in_zone(r, &c, zone, &t) < 0)
            continue;
        uint64_t far = t > now_ns ? (uint64_t)t - (uint64_t)now_ns : (uint64_t)now_ns - (uint64_t)t;
        if (far < best) {
            best = far;
            *out = t;
        }
    }
    return best == UINT64_MAX ? E_PROTO : 0;
}

int logtime_parse(const char *format, struct slice text, struct logtime_zone *zone, int64_t now_ns,
                  int64_t *out)
{
    struct reading r = {.text = text, .civil = {.year = 1970, .month = 1, .day = 1}};
    if (strcmp(format, "epoch") == 0)
        return clock_parse_epoch(text, out);
    int e = strcmp(format, "iso") == 0 ? read_iso(&r) : read_format(&r, format);
    if (e < 0 || r.at != text.n)
        return E_PROTO;
    if (r.has_epoch)
        return __builtin_mul_overflow(r.epoch_s, NS_PER_S, out) ||
                       __builtin_add_overflow(*out, r.civil.ns, out)
                   ? -ERANGE
                   : 0;
    if (r.has_half) {
        if (r.civil.hour < 1 || r.civil.hour > 12)
            return E_PROTO;
        r.civil.hour = r.civil.hour % 12 + (r.is_pm ? 12 : 0);
    }
    return r.has_year ? civil_in_zone(&r, &r.civil, zone, out) : nearest_year(&r, zone, now_ns, out);
}
