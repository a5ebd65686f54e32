/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/quiet.h"

#include "base/banned.h"
#include "base/clock.h"

#include <time.h>

enum { DAY_MINUTES = 24 * 60, ALL_DAYS = 0x7f };

static const char *const day_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

/* What is left of the text; col counts from 1 for messages. */
struct reader {
    struct slice all, left;
};

static uint32_t col_of(const struct reader *r)
{
    return (uint32_t)(r->all.n - r->left.n) + 1;
}

static void skip_spaces(struct reader *r)
{
    while (r->left.n && r->left.p[0] == ' ')
        r->left = slice_from(r->left, 1);
}

static bool take(struct reader *r, const char *word)
{
    struct slice w = slice_str(word);
    if (r->left.n < w.n || !slice_eq_nocase(slice_of(r->left.p, w.n), w))
        return false;
    r->left = slice_from(r->left, w.n);
    return true;
}

static int take_day(struct reader *r)
{
    for (int i = 0; i < 7; i++)
        if (take(r, day_names[i]))
            return i;
    return -1;
}

/* "mon-fri,sun": 0 if there is none, a negative code if one is wrong. */
static int take_days(struct reader *r, uint8_t *out, struct diag *why)
{
    int first = take_day(r);
    if (first < 0)
        return 0;
    for (;;) {
        int last = first;
        if (take(r, "-") && (last = take_day(r)) < 0)
            return diag_set(why, E_PROTO, col_of(r), "quiet times: a day is missing behind `-`");
        for (int day = first;; day = (day + 1) % 7) {
            *out |= (uint8_t)(1u << day);
            if (day == last)
                break;
        }
        if (!take(r, ","))
            return 1;
        if ((first = take_day(r)) < 0)
            return diag_set(why, E_PROTO, col_of(r), "quiet times: a day is missing behind `,`");
    }
}

static bool take_number(struct reader *r, unsigned max, unsigned *out)
{
    if (r->left.n < 2)
        return false;
    unsigned tens = (unsigned)(unsigned char)r->left.p[0] - '0',
             ones = (unsigned)(unsigned char)r->left.p[1] - '0';
    if (tens > 9 || ones > 9 || tens * 10 + ones > max)
        return false;
    *out = tens * 10 + ones;
    r->left = slice_from(r->left, 2);
    return true;
}

static int take_time(struct reader *r, uint16_t *out, struct diag *why)
{
    unsigned hour, minute;
    if (!take_number(r, 24, &hour) || !take(r, ":") || !take_number(r, 59, &minute) ||
        hour * 60 + minute > DAY_MINUTES)
        return diag_set(why, E_PROTO, col_of(r), "quiet times: not a time of day as 22:00");
    *out = (uint16_t)(hour * 60 + minute);
    return 0;
}

static int take_times(struct reader *r, struct quiet *q, struct diag *why)
{
    int err = take_time(r, &q->from, why);
    if (err < 0)
        return err;
    if (!take(r, "-"))
        return diag_set(why, E_PROTO, col_of(r), "quiet times: from and until are written 22:00-06:00");
    if ((err = take_time(r, &q->until, why)) < 0)
        return err;
    if (q->from == q->until || q->from == DAY_MINUTES)
        return diag_set(why, E_PROTO, col_of(r), "quiet times: a whole day is 00:00-24:00");
    return 0;
}

int quiet_parse(struct slice text, struct quiet *out, struct diag *why)
{
    struct reader r = {text, text};
    struct quiet q = {.until = DAY_MINUTES};
    skip_spaces(&r);
    int has_days = take_days(&r, &q.days, why);
    if (has_days < 0)
        return has_days;
    skip_spaces(&r);
    bool has_times = r.left.n && r.left.p[0] >= '0' && r.left.p[0] <= '9';
    int err = has_times ? take_times(&r, &q, why) : 0;
    if (err < 0)
        return err;
    skip_spaces(&r);
    q.is_utc = take(&r, "utc");
    skip_spaces(&r);
    if (r.left.n || (!has_days && !has_times))
        return diag_set(why, E_PROTO, col_of(&r),
                        "quiet times: neither days nor times as \"mon-fri 18:00-08:00\"");
    if (!has_days)
        q.days = ALL_DAYS;
    tzset(); /* localtime_r need not */
    *out = q;
    return 0;
}

/* The wall clock's day of the week and minute. A time outside of what a calendar holds is nobody's. */
static bool wall(bool is_utc, int64_t now_ns, unsigned *day, unsigned *minute)
{
    time_t t = (time_t)(now_ns / NS_PER_S - (now_ns % NS_PER_S < 0));
    struct tm tm;
    if (!(is_utc ? gmtime_r(&t, &tm) : localtime_r(&t, &tm)))
        return false;
    *day = (unsigned)tm.tm_wday;
    *minute = (unsigned)(tm.tm_hour * 60 + tm.tm_min);
    return true;
}

static bool is_in(const struct quiet *q, int64_t now_ns)
{
    unsigned day, minute;
    if (!wall(q->is_utc, now_ns, &day, &minute))
        return false;
    bool begins_today = (q->days >> day) & 1, began_yesterday = (q->days >> ((day + 6) % 7)) & 1;
    if (q->until > q->from)
        return begins_today && minute >= q->from && minute < q->until;
    return (begins_today && minute >= q->from) || (began_yesterday && minute < q->until);
}

bool quiet_is(const struct quiet *q, size_t n, int64_t now_ns)
{
    for (size_t i = 0; i < n; i++)
        if (is_in(&q[i], now_ns))
            return true;
    return false;
}

/* Minutes from the wall clock's to the next time it shows that minute of the day, 1 to a day. */
static unsigned until_minute(unsigned minute, unsigned at)
{
    unsigned ahead = (at % DAY_MINUTES + DAY_MINUTES - minute) % DAY_MINUTES;
    return ahead ? ahead : DAY_MINUTES;
}

int64_t quiet_next(const struct quiet *q, size_t n, int64_t now_ns)
{
    const int64_t minute_ns = 60 * NS_PER_S;
    if (!n || now_ns > INT64_MAX - DAY_MINUTES * minute_ns)
        return INT64_MAX;
    int64_t passed = (now_ns % minute_ns + minute_ns) % minute_ns;
    unsigned utc_day, utc_minute, ahead = DAY_MINUTES;
    if (!wall(true, now_ns, &utc_day, &utc_minute))
        return INT64_MAX;
    ahead = 15 - utc_minute % 15;
    for (size_t i = 0; i < n; i++) {
        unsigned day, minute;
        if (!wall(q[i].is_utc, now_ns, &day, &minute))
            continue;
        unsigned from = until_minute(minute, q[i].from), until = until_minute(minute, q[i].until);
        ahead = from < ahead ? from : ahead;
        ahead = until < ahead ? until : ahead;
    }
    return now_ns - passed + ahead * minute_ns;
}
