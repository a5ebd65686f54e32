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
#include "base/strbuf.h"
#include "base/text.h"
#include "helper/logfilter_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

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

/* ---- zones ---- */

static int64_t offset_then(int64_t utc_s)
{
    struct tm t;
    time_t at = (time_t)utc_s;
    return localtime_r(&at, &t) ? t.tm_gmtoff : 0;
}

/* The changes of the zone that TZ says, looked for week by week: none comes back within one. */
static void find_changes(struct logtime_zone *z)
{
    const int64_t week_s = 7 * 86400, end_s = INT64_C(4102444800); /* 2100 */
    int64_t offset_s = z->offset_s = offset_then(0);
    for (int64_t at = 0; at < end_s && z->n_changes < LOGTIME_CHANGES_MAX; at += week_s) {
        int64_t before = at, from = at + week_s;
        if (offset_then(from) == offset_s)
            continue;
        while (from - before > 1) {
            int64_t middle = before + (from - before) / 2;
            *(offset_then(middle) == offset_s ? &before : &from) = middle;
        }
        offset_s = offset_then(from);
        z->changes[z->n_changes++] = (struct logtime_change){from, offset_s};
        at = from - week_s; /* there may be another in the same week */
    }
}

static bool is_zone_file(struct slice name)
{
    const char *dir = getenv("TZDIR");
    struct strbuf path = {0};
    if (name.n == 0 || name.n > 100 || name.p[0] == '/' || text_has_control(name) || memmem(name.p, name.n, "..", 2))
        return false;
    strbuf_printf(&path, "%s/%.*s", dir && *dir ? dir : "/usr/share/zoneinfo", SLICE_ARG(name));
    struct stat st;
    bool is_there = !strbuf_failed(&path) && stat(path.p, &st) == 0 && S_ISREG(st.st_mode);
    strbuf_fini(&path);
    return is_there;
}

static int load_named(struct slice name, struct logtime_zone *z)
{
    const char *given = getenv("TZ");
    char *before = given ? strdup(given) : NULL;
    char text[128];
    if (given && !before)
        return -ENOMEM;
    (void)snprintf(text, sizeof text, ":%.*s", SLICE_ARG(name)); /* fits */
    int r = setenv("TZ", text, 1) < 0 ? -ENOMEM : 0;
    tzset();
    if (r == 0)
        find_changes(z);
    if (before)
        (void)setenv("TZ", before, 1); /* it had room before */
    else
        (void)unsetenv("TZ"); /* a good name */
    tzset();
    free(before);
    return r;
}

int logtime_zone_parse(struct slice s, struct logtime_zone *out)
{
    struct reading r = {.text = s};
    int e = 0;
    *out = (struct logtime_zone){0};
    if (slice_eq_str(s, "local")) {
        tzset();
        find_changes(out);
    } else if (read_zone(&r) == 0 && r.at == s.n) {
        out->offset_s = r.zone_s;
    } else {
        e = is_zone_file(s) ? load_named(s, out) : E_PROTO;
    }
    return e;
}

static int64_t zone_offset(const struct logtime_zone *z, int64_t utc_s)
{
    size_t low = 0, high = z->n_changes;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (z->changes[middle].from_s <= utc_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? z->changes[low - 1].offset_s : z->offset_s;
}

/* ---- */

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

/* Where the clock shows an hour twice, the first is taken, or the second where the first would be more than five minutes
 * before the record before it; an hour that the clock leaves out is read as if it had not been put forward yet. */
static int civil_in_zone(const struct reading *r, const struct clock_civil *c, const struct logtime_zone *zone,
                         int64_t *out)
{
    int64_t civil_ns;
    int e = clock_from_civil(c, r->has_zone ? r->zone_s : 0, &civil_ns);
    if (e < 0 || r->has_zone) {
        *out = e < 0 ? *out : civil_ns;
        return e;
    }
    int64_t civil_s = civil_ns / NS_PER_S;
    int64_t before = zone_offset(zone, civil_s - 86400), behind = zone_offset(zone, civil_s + 86400);
    int64_t first, second;
    if (__builtin_sub_overflow(civil_ns, before * NS_PER_S, &first) ||
        __builtin_sub_overflow(civil_ns, behind * NS_PER_S, &second))
        return -ERANGE;
    bool is_first = zone_offset(zone, civil_s - before) == before, is_second = zone_offset(zone, civil_s - behind) == behind;
    if (is_first && is_second && first < second && zone->has_after && zone->after_ns - first > 300 * NS_PER_S)
        is_first = false;
    *out = is_first || !is_second ? first : second;
    return 0;
}

/* The year of a time that has none. A 29th of February has to be in a leap year. */
static int find_year(const struct reading *r, const struct logtime_zone *zone, int64_t now_ns, int64_t *out)
{
    enum { YEARS = 9 }; /* from one leap year to the next, at the most */
    const int64_t day_ns = 86400 * NS_PER_S;
    struct tm now;
    time_t seconds = (time_t)(now_ns / NS_PER_S);
    if (!gmtime_r(&seconds, &now))
        return -ERANGE;
    for (int i = 0; i < YEARS; i++) {
        struct clock_civil c = r->civil;
        int64_t t;
        c.year = zone->year ? zone->year + i : now.tm_year + 1901 - i;
        if (civil_in_zone(r, &c, zone, &t) < 0)
            continue;
        bool is_it = !zone->year ? t <= now_ns + day_ns : !zone->has_after || t >= zone->after_ns - 182 * day_ns;
        if (is_it) {
            *out = t;
            return 0;
        }
    }
    return E_PROTO;
}

int logtime_parse(const char *format, struct slice text, const struct logtime_zone *zone, int64_t now_ns,
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
    return r.has_year ? civil_in_zone(&r, &r.civil, zone, out) : find_year(&r, zone, now_ns, out);
}
