/* SPDX-License-Identifier: Apache-2.0 */
/* sql_functions.c - functions of one row: times, durations, buckets; and ours in place of those of SQLite
 * whose cost is the product of two lengths (sql_guard.c). Aggregates are in sql_aggregates.c. */
#include "archive/sql_internal.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>

static struct slice text_of(sqlite3_value *v)
{
    const char *p = (const char *)sqlite3_value_text(v); /* before its length: it may be made only now */
    return slice_of(p ? p : "", p ? (size_t)sqlite3_value_bytes(v) : 0);
}

static void fail_with(sqlite3_context *to, const struct diag *why)
{
    sqlite3_result_error(to, why->message, -1);
}

static bool is_any_null(sqlite3_value **argv, int n)
{
    for (int i = 0; i < n; i++)
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return true;
    return false;
}

/* ---------------------------------------------------------------- times and durations */

int sql_time_of(const struct sql_context *c, sqlite3_value *v, int64_t *out, struct diag *why)
{
    switch (sqlite3_value_type(v)) {
    case SQLITE_INTEGER:
        *out = sqlite3_value_int64(v);
        return 0;
    case SQLITE_FLOAT: {
        double f = sqlite3_value_double(v);
        if (!(f >= -0x1p63 && f < 0x1p63))
            return diag_set(why, -ERANGE, 0, "%g is no time: nanoseconds since 1970", f);
        *out = (int64_t)f;
        return 0;
    }
    case SQLITE_TEXT:
        break;
    default:
        return diag_set(why, E_PROTO, 0,
                        "a time is a text like 'now-15m' or '2026-11-15T21:00:00Z', or a number of ns");
    }
    struct slice s = text_of(v);
    int r = clock_parse_human(s, c->now_ns, out);
    if (r == -ERANGE)
        return diag_set(why, r, 0, "'%.*s' is outside of the years that a time can hold",
                        (int)(s.n < 60 ? s.n : 60), s.p);
    if (r < 0)
        return diag_set(why, E_PROTO, 0,
                        "'%.*s' is no time; write 'now-15m', '2026-11-15T21:00:00Z' or a date",
                        (int)(s.n < 60 ? s.n : 60), s.p);
    return 0;
}

/* 90m, 1h30m, 1h 30m: durations one after the other; the sign before the first is of all. */
static int parse_durations(struct slice s, int64_t *out)
{
    bool is_negative = s.n && s.p[0] == '-';
    int64_t sum = 0, one;
    s = slice_from(s, is_negative);
    do {
        size_t n = 0;
        while (n < s.n && ((s.p[n] >= '0' && s.p[n] <= '9') || s.p[n] == '.'))
            n++;
        while (n < s.n && s.p[n] != ' ' && s.p[n] != '.' && !(s.p[n] >= '0' && s.p[n] <= '9'))
            n++;
        int r = num_parse_duration(slice_of(s.p, n), &one);
        if (r < 0)
            return r;
        if (__builtin_add_overflow(sum, one, &sum))
            return -ERANGE;
        s = slice_from(s, n);
        while (s.n && s.p[0] == ' ')
            s = slice_from(s, 1);
    } while (s.n);
    *out = is_negative ? -sum : sum;
    return 0;
}

int sql_duration_of(sqlite3_value *v, int64_t *out, struct diag *why)
{
    if (sqlite3_value_type(v) == SQLITE_INTEGER) {
        *out = sqlite3_value_int64(v);
        return 0;
    }
    struct slice s = text_of(v);
    if (sqlite3_value_type(v) != SQLITE_TEXT || parse_durations(s, out) < 0)
        return diag_set(why, E_PROTO, 0,
                        "'%.*s' is no duration; write '10s', '1h30m' or a whole number of ns",
                        (int)(s.n < 60 ? s.n : 60), s.p);
    return 0;
}

static void at_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    int64_t t;
    struct diag why;
    if (is_any_null(argv, argc))
        return;
    if (sql_time_of(sqlite3_user_data(to), argv[0], &t, &why) < 0)
        fail_with(to, &why);
    else
        sqlite3_result_int64(to, t);
}

static void duration_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    int64_t d;
    struct diag why;
    if (is_any_null(argv, argc))
        return;
    if (sql_duration_of(argv[0], &d, &why) < 0)
        fail_with(to, &why);
    else
        sqlite3_result_int64(to, d);
}

static void time_text_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    char text[CLOCK_TEXT_MAX];
    int64_t t;
    struct diag why;
    if (is_any_null(argv, argc))
        return;
    if (sql_time_of(sqlite3_user_data(to), argv[0], &t, &why) < 0)
        fail_with(to, &why);
    else
        sqlite3_result_text(to, text, (int)clock_print_iso(text, t), SQLITE_TRANSIENT);
}

/* The units that divide it, largest first: 1h30m, 1.5s as 1s500ms. Reads back as the same. */
static void print_duration(struct strbuf *out, int64_t ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"d", UINT64_C(86400000000000)},
                 {"h", UINT64_C(3600000000000)},
                 {"m", UINT64_C(60000000000)},
                 {"s", UINT64_C(1000000000)},
                 {"ms", 1000000},
                 {"us", 1000},
                 {"ns", 1}};
    uint64_t left = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    if (ns < 0)
        strbuf_add_char(out, '-');
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (left < units[i].ns)
            continue;
        strbuf_printf(out, "%llu%s", (unsigned long long)(left / units[i].ns), units[i].name);
        left %= units[i].ns;
    }
    if (ns == 0)
        strbuf_add_str(out, "0s");
}

static void duration_text_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    struct strbuf text = {0};
    int64_t d;
    struct diag why;
    if (is_any_null(argv, argc))
        return;
    if (sqlite3_value_type(argv[0]) == SQLITE_FLOAT && fabs(sqlite3_value_double(argv[0])) < 0x1p63) {
        d = (int64_t)sqlite3_value_double(argv[0]);
    } else if (sql_duration_of(argv[0], &d, &why) < 0) {
        fail_with(to, &why);
        return;
    }
    print_duration(&text, d);
    if (strbuf_failed(&text))
        sqlite3_result_error_nomem(to);
    else
        sqlite3_result_text(to, text.p, (int)text.n, SQLITE_TRANSIENT);
    strbuf_fini(&text);
}

/* The beginning of the bucket: whole steps since 1970, before it too. */
static void bucket_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    int64_t t, step, begin;
    struct diag why;
    if (is_any_null(argv, argc))
        return;
    if (sql_time_of(sqlite3_user_data(to), argv[0], &t, &why) < 0 ||
        sql_duration_of(argv[1], &step, &why) < 0) {
        fail_with(to, &why);
        return;
    }
    if (step <= 0) {
        sqlite3_result_error(to, "a bucket is longer than 0", -1);
        return;
    }
    int64_t over = t % step;
    if (__builtin_sub_overflow(t, over < 0 ? over + step : over, &begin))
        sqlite3_result_error(to, "the bucket begins before 1677", -1);
    else
        sqlite3_result_int64(to, begin);
}

/* 0 for the most important; NULL for a word that is no level. */
static void severity_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    uint8_t level;
    if (!is_any_null(argv, argc) && level_parse(text_of(argv[0]), &level) == 0)
        sqlite3_result_int(to, level);
}

/* ---------------------------------------------------------------- in place of SQLite's */

static bool is_blob(sqlite3_value *v)
{
    return sqlite3_value_type(v) == SQLITE_BLOB;
}

static struct slice bytes_of(sqlite3_value *v)
{
    if (!is_blob(v))
        return text_of(v);
    const void *p = sqlite3_value_blob(v);
    return slice_of(p ? p : "", (size_t)sqlite3_value_bytes(v));
}

/* How many characters there are in s; of blobs, bytes. */
static int64_t count_characters(struct slice s, bool is_bytes)
{
    int64_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += is_bytes || (s.p[i] & 0xc0) != 0x80;
    return n;
}

/* memmem is linear, for any two texts. */
static void instr_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    if (is_any_null(argv, argc))
        return;
    bool is_bytes = is_blob(argv[0]) && is_blob(argv[1]);
    struct slice in = is_bytes ? bytes_of(argv[0]) : text_of(argv[0]);
    struct slice what = is_bytes ? bytes_of(argv[1]) : text_of(argv[1]);
    const char *found = what.n ? memmem(in.p, in.n, what.p, what.n) : in.p;
    sqlite3_result_int64(to,
                         found ? count_characters(slice_of(in.p, (size_t)(found - in.p)), is_bytes) + 1 : 0);
}

static void replace_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    struct strbuf out = {0};
    const struct sql_context *c = sqlite3_user_data(to);
    size_t most = (size_t)sqlite3_limit(c->db, SQLITE_LIMIT_LENGTH, -1);
    if (is_any_null(argv, argc))
        return;
    struct slice in = text_of(argv[0]), what = text_of(argv[1]), with = text_of(argv[2]);
    const char *found;
    while (what.n && out.n <= most && (found = memmem(in.p, in.n, what.p, what.n))) {
        size_t n = (size_t)(found - in.p);
        strbuf_add(&out, in.p, n);
        strbuf_add_slice(&out, with);
        in = slice_from(in, n + what.n);
    }
    strbuf_add_slice(&out, in);
    if (strbuf_failed(&out))
        sqlite3_result_error_nomem(to);
    else if (out.n > most)
        sqlite3_result_error_toobig(to);
    else
        sqlite3_result_text(to, strbuf_slice(&out).p, (int)out.n, SQLITE_TRANSIENT);
    strbuf_fini(&out);
}

enum { TRIM_MAX = 64 };

static size_t character_length(struct slice s)
{
    size_t n = 1;
    while (n < s.n && (s.p[n] & 0xc0) == 0x80)
        n++;
    return s.n ? n : 0;
}

/* The length of the character of set that s begins (or ends) with; 0: none. */
static size_t trimmed(struct slice s, struct slice set, bool is_end)
{
    size_t n;
    for (; set.n; set = slice_from(set, n)) {
        n = character_length(set);
        struct slice one = slice_of(set.p, n);
        if (is_end ? slice_ends(s, one) : slice_starts(s, one))
            return n;
    }
    return 0;
}

enum { TRIM_LEFT = 1, TRIM_RIGHT = 2 };

static void trim(sqlite3_context *to, int argc, sqlite3_value **argv, unsigned ends)
{
    size_t n;
    if (is_any_null(argv, argc))
        return;
    struct slice s = text_of(argv[0]), set = argc == 2 ? text_of(argv[1]) : SLICE_LIT(" ");
    if (set.n > TRIM_MAX) {
        sqlite3_result_error(to, "trim: at most 64 bytes of characters to take away", -1);
        return;
    }
    while (ends & TRIM_LEFT && s.n && (n = trimmed(s, set, false)))
        s = slice_from(s, n);
    while (ends & TRIM_RIGHT && s.n && (n = trimmed(s, set, true)))
        s.n -= n;
    sqlite3_result_text(to, s.p, (int)s.n, SQLITE_TRANSIENT);
}

static void trim_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    trim(to, argc, argv, TRIM_LEFT | TRIM_RIGHT);
}

static void ltrim_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    trim(to, argc, argv, TRIM_LEFT);
}

static void rtrim_fn(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    trim(to, argc, argv, TRIM_RIGHT);
}

/* at('now') is the same for all of a statement, so all are deterministic: computed once where they are
 * constant. */
int sql_functions_register(struct sql_context *c)
{
    static const struct {
        const char *name;
        int n;
        void (*fn)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {
        {"at", 1, at_fn},
        {"bucket", 2, bucket_fn},
        {"duration", 1, duration_fn},
        {"duration_text", 1, duration_text_fn},
        {"instr", 2, instr_fn},
        {"ltrim", 1, ltrim_fn},
        {"ltrim", 2, ltrim_fn},
        {"replace", 3, replace_fn},
        {"rtrim", 1, rtrim_fn},
        {"rtrim", 2, rtrim_fn},
        {"severity", 1, severity_fn},
        {"time_text", 1, time_text_fn},
        {"trim", 1, trim_fn},
        {"trim", 2, trim_fn},
    };
    int r = SQLITE_OK;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && r == SQLITE_OK; i++)
        r = sqlite3_create_function_v2(c->db, functions[i].name, functions[i].n,
                                       SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, c,
                                       functions[i].fn, NULL, NULL, NULL);
    return r == SQLITE_OK ? sql_aggregates_register(c) : sql_error(c, r);
}
