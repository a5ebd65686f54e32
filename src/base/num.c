/* SPDX-License-Identifier: Apache-2.0 */
/* Floats. Printing tries v = m / 10^k for small k first: with m < 2^53 and 10^k exact, the division is
 * correctly rounded, so "m / 10^k == v" proves that the decimal m·10^-k reads back as v, and the smallest k
 * gives the fewest digits. What remains (few values in practice) goes through snprintf with 15, 16, then 17
 * digits. Parsing: up to 19 digits as an integer; if that is below 2^53 and the power of ten is at most 22,
 * one multiplication or division is exact (Clinger); otherwise strtod in the "C" locale.
 * snprintf prints the locale's decimal point: only digits and the exponent are taken from its output. */
#include "base/num.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>

static const char digit_pairs[] = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
                                  "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

size_t num_print_uint(char *to, uint64_t v)
{
    char tmp[20], *p = tmp + sizeof tmp;
    while (v >= 100) {
        p -= 2;
        memcpy(p, digit_pairs + v % 100 * 2, 2);
        v /= 100;
    }
    if (v >= 10) {
        p -= 2;
        memcpy(p, digit_pairs + v * 2, 2);
    } else {
        *--p = (char)('0' + v);
    }
    size_t n = (size_t)(tmp + sizeof tmp - p);
    memcpy(to, p, n);
    return n;
}

size_t num_print_int(char *to, int64_t v)
{
    if (v >= 0)
        return num_print_uint(to, (uint64_t)v);
    *to = '-';
    return 1 + num_print_uint(to + 1, 0 - (uint64_t)v);
}

/* digits (n of them, no trailing zero unless n == 1) with the point after the first `exp10 + 1`. */
static size_t place_point(char *to, const char *digits, size_t n, int exp10)
{
    char *p = to;
    if (exp10 < -5 || exp10 >= 16) {
        *p++ = digits[0];
        if (n > 1) {
            *p++ = '.';
            memcpy(p, digits + 1, n - 1);
            p += n - 1;
        }
        *p++ = 'e';
        return (size_t)(p - to) + num_print_int(p, exp10);
    }
    if (exp10 < 0) {
        *p++ = '0';
        *p++ = '.';
        for (int i = -1; i > exp10; i--)
            *p++ = '0';
        memcpy(p, digits, n);
        return (size_t)(p - to) + n;
    }
    size_t whole = (size_t)exp10 + 1;
    for (size_t i = 0; i < whole; i++)
        *p++ = i < n ? digits[i] : '0';
    *p++ = '.';
    if (n > whole) {
        memcpy(p, digits + whole, n - whole);
        p += n - whole;
    } else {
        *p++ = '0';
    }
    return (size_t)(p - to);
}

/* v > 0. True when v is m / 10^k for a k of at most 9: prints it. */
static bool print_short(char *to, double v, size_t *n)
{
    if (v < 1e-5 || v >= 9e15)
        return false;
    for (int k = 0; k <= 9; k++) {
        double scaled = v * powers[k];
        if (scaled >= 9007199254740992.0)
            return false;
        double m = rint(scaled);
        if (m / powers[k] != v)
            continue;
        char digits[NUM_TEXT_MAX];
        size_t len = num_print_uint(digits, (uint64_t)m);
        int exp10 = (int)len - 1 - k;
        while (len > 1 && digits[len - 1] == '0')
            len--;
        *n = place_point(to, digits, len, exp10);
        return true;
    }
    return false;
}

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static double parse_slow(const char *z)
{
    (void)pthread_once(&c_locale_once, make_c_locale); /* can't fail with a valid once */
    return c_locale ? strtod_l(z, NULL, c_locale) : strtod(z, NULL);
}

/* Takes the digits and exponent out of "d.ddde±xx", whatever the point is. */
static size_t parse_scientific(const char *text, char *digits, int *exp10)
{
    size_t n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    *exp10 = *p ? (int)strtol(p + 1, NULL, 10) : 0;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

static size_t print_long(char *to, double v)
{
    char text[48], digits[NUM_TEXT_MAX];
    /* every decimal of 15 digits or fewer survives, except near zero, where a double holds fewer digits */
    for (int precision = v < DBL_MIN ? 0 : 14;; precision++) {
        (void)snprintf(text, sizeof text, "%.*e", precision, v); /* 24 bytes at most */
        int exp10;
        size_t n = parse_scientific(text, digits, &exp10);
        size_t len = place_point(to, digits, n, exp10);
        to[len] = '\0';
        if (precision == 16 || parse_slow(to) == v)
            return len;
    }
}

size_t num_print_float(char *to, double v)
{
    if (isnan(v)) {
        memcpy(to, "NaN", 3);
        return 3;
    }
    size_t sign = signbit(v) ? 1 : 0, n;
    if (sign) {
        *to++ = '-';
        v = -v;
    }
    if (isinf(v)) {
        memcpy(to, "Inf", 3);
        return sign + 3;
    }
    if (v == 0) {
        memcpy(to, "0.0", 3);
        return sign + 3;
    }
    return sign + (print_short(to, v, &n) ? n : print_long(to, v));
}

int num_parse_uint(struct slice s, uint64_t *out)
{
    uint64_t v = 0;
    if (s.n == 0)
        return E_PROTO;
    for (size_t i = 0; i < s.n; i++) {
        unsigned d = (unsigned)(s.p[i] - '0');
        if (d > 9)
            return E_PROTO;
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, d, &v))
            return -ERANGE;
    }
    *out = v;
    return 0;
}

int num_parse_int(struct slice s, int64_t *out)
{
    bool negative = s.n && s.p[0] == '-';
    uint64_t v;
    int r = num_parse_uint(slice_from(s, negative), &v);
    if (r < 0)
        return r;
    if (v > (uint64_t)INT64_MAX + negative)
        return -ERANGE;
    *out = (int64_t)(negative ? 0 - v : v);
    return 0;
}

/* A decimal split in its parts. */
struct decimal {
    bool negative;
    uint64_t m;       /* the first 19 significant digits */
    int digits;       /* significant digits, leading zeros not counted */
    int exp10;        /* value = m * 10^exp10 while digits <= 19 */
    bool has_point;   /* at least one digit on each side */
    bool has_exp;
    size_t fraction;  /* digits after the point */
};

static bool scan_digits(struct slice s, size_t *i, struct decimal *d, bool fraction)
{
    size_t start = *i;
    for (; *i < s.n && s.p[*i] >= '0' && s.p[*i] <= '9'; ++*i) {
        if (d->m || s.p[*i] != '0')
            d->digits++;
        if (d->digits <= 19) {
            d->m = d->m * 10 + (uint64_t)(s.p[*i] - '0');
            d->exp10 -= fraction;
        } else {
            d->exp10 += !fraction;
        }
    }
    return *i > start;
}

static bool scan_decimal(struct slice s, struct decimal *d)
{
    size_t i = 0;
    *d = (struct decimal){0};
    if (s.n && s.p[0] == '-') {
        d->negative = true;
        i = 1;
    }
    if (!scan_digits(s, &i, d, false))
        return false;
    if (i < s.n && s.p[i] == '.') {
        size_t start = ++i;
        if (!scan_digits(s, &i, d, true))
            return false;
        d->has_point = true;
        d->fraction = i - start;
    }
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        d->has_exp = true;
        bool minus = ++i < s.n && s.p[i] == '-';
        i += minus || (i < s.n && s.p[i] == '+');
        size_t start = i;
        int e = 0;
        for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
            e = e < 100000 ? e * 10 + (s.p[i] - '0') : e;
        if (i == start)
            return false;
        d->exp10 += minus ? -e : e;
    }
    return i == s.n;
}

/* -ENOMEM only for a text of 128 bytes and more that the short way can't do. */
static int decimal_value(const struct decimal *d, struct slice s, double *out)
{
    if (d->digits <= 19 && d->m < (1ull << 53) && d->exp10 >= -22 && d->exp10 <= 22) {
        double v = (double)d->m;
        v = d->exp10 < 0 ? v / powers[-d->exp10] : v * powers[d->exp10];
        *out = d->negative ? -v : v;
        return 0;
    }
    char stack[128], *z = s.n < sizeof stack ? stack : mem_try_alloc(s.n + 1);
    if (!z)
        return -ENOMEM;
    memcpy(z, s.p, s.n);
    z[s.n] = '\0';
    *out = parse_slow(z);
    if (z != stack)
        mem_free(z);
    return 0;
}

static bool parse_special(struct slice s, double *out)
{
    bool negative = s.n && s.p[0] == '-';
    struct slice t = slice_from(s, negative);
    if (slice_eq_nocase(t, SLICE_LIT("inf")) || slice_eq_nocase(t, SLICE_LIT("infinity"))) {
        *out = negative ? -INFINITY : INFINITY;
        return true;
    }
    if (!slice_eq_nocase(s, SLICE_LIT("nan")))
        return false;
    *out = NAN;
    return true;
}

int num_parse_float(struct slice s, double *out)
{
    struct decimal d;
    if (parse_special(s, out))
        return 0;
    if (!scan_decimal(s, &d))
        return E_PROTO;
    return decimal_value(&d, s, out);
}

/* The canonical specials, exactly as printed. */
static struct num classify_special(struct slice s)
{
    if (slice_eq(s, SLICE_LIT("NaN")))
        return (struct num){NUM_FLOAT, {.f = NAN}};
    if (slice_eq(s, SLICE_LIT("Inf")))
        return (struct num){NUM_FLOAT, {.f = INFINITY}};
    if (slice_eq(s, SLICE_LIT("-Inf")))
        return (struct num){NUM_FLOAT, {.f = -INFINITY}};
    return (struct num){NUM_NOT, {0}};
}

static struct num classify_integer(struct slice s)
{
    size_t sign = s.p[0] == '-';
    bool zero_led = s.n > sign + 1 && s.p[sign] == '0';
    struct num r = {NUM_NOT, {0}};
    if (zero_led || (sign && s.n == 2 && s.p[1] == '0'))
        return r;
    if (num_parse_int(s, &r.i) == 0)
        r.is = NUM_INT;
    else if (num_parse_uint(s, &r.u) == 0)
        r.is = NUM_UINT;
    return r;
}

enum { EXACT_DIGITS = 15 }; /* no two decimals of so many digits are the same double */

/* The decimal m / 10^places, of at most EXACT_DIGITS digits. The shortest text of its double has the same digits: it is
 * canonical unless there are zeros too many at either end. */
static struct num classify_short(struct slice s, uint64_t m, size_t places)
{
    bool is_negative = s.p[0] == '-';
    bool has_zeros = s.p[is_negative] == '0' && s.p[is_negative + 1] != '.';
    double v = (double)m / powers[places];
    if (has_zeros || (places > 1 && s.p[s.n - 1] == '0') || (m && v < 1e-5)) /* below that it has an exponent */
        return (struct num){NUM_NOT, {0}};
    return (struct num){NUM_FLOAT, {.f = is_negative ? -v : v}};
}

enum { PRINTED_DIGITS = 17, SHORT_PLACES = 9, FIVES_MAX = 22 }; /* print_short's places; 5^22 is below 2^53 */

/* Is m / 10^places, of 16 or 17 digits, which reads as v, the shortest decimal that does, and the nearest one of that
 * length? As integers, in units of 2^-(s+1) / 10^places: what reads as v lies no farther from it than 5^places. -1: not
 * to be told here. */
static int is_shortest(double v, uint64_t m, size_t places)
{
    __extension__ typedef unsigned __int128 wide;
    const uint64_t one = 1;
    uint64_t bits, reach = (uint64_t)(powers[places] / (double)(one << places)); /* 5^places, exact */
    memcpy(&bits, &v, sizeof bits);
    uint64_t mantissa = (bits & ((one << 52) - 1)) | one << 52;
    int s = 1075 - (int)(bits >> 52) - (int)places;
    if (m % 10 == 0)
        return places > 1 ? 0 : -1;
    if (s < 1 || s > 62 || mantissa == one << 52) /* of which the gap below is smaller */
        return -1;
    wide exact = (wide)mantissa * reach * 2, lower = (wide)(m - m % 10) << (s + 1), upper = lower + ((wide)10 << (s + 1));
    wide given = (wide)m << (s + 1), off = given > exact ? given - exact : exact - given;
    if (off == (wide)1 << s)
        return -1;
    bool is_even = mantissa % 2 == 0, has_shorter = exact - lower < (wide)reach + is_even ||
                                                    upper - exact < (wide)reach + is_even;
    return off < (wide)1 << s && !has_shorter;
}

struct num num_classify(struct slice s)
{
    struct num none = {NUM_NOT, {0}};
    if (s.n == 0 || s.n > NUM_TEXT_MAX)
        return none;
    char first = s.p[0];
    if (!((first >= '0' && first <= '9') || first == '-' || first == 'N' || first == 'I'))
        return none;
    size_t sign = first == '-', i = sign, point;
    uint64_t m = 0;
    for (unsigned digit; i < s.n && (digit = (unsigned)(s.p[i] - '0')) <= 9; i++)
        m = m * 10 + digit;
    if (i == s.n && i <= 18 && first >= '1') /* the common case, too short to have wrapped */
        return (struct num){NUM_INT, {.i = (int64_t)m}};
    if (i == s.n)
        return i > sign ? classify_integer(s) : none;
    point = i;
    if (s.p[i] == '.' && i > sign && s.n - sign - 1 <= EXACT_DIGITS) {
        for (unsigned digit; ++i < s.n && (digit = (unsigned)(s.p[i] - '0')) <= 9;)
            m = m * 10 + digit;
        if (i == s.n && s.n > point + 1)
            return classify_short(s, m, s.n - point - 1);
    }
    struct decimal d;
    if (!scan_decimal(s, &d))
        return classify_special(s);
    double v;
    char text[NUM_TEXT_MAX + 1];
    if (d.digits > PRINTED_DIGITS || decimal_value(&d, s, &v) < 0)
        return none;
    size_t n;
    bool is_long = d.digits > EXACT_DIGITS && d.has_point && !d.has_exp && d.fraction <= FIVES_MAX && fabs(v) >= 1e-5 &&
                   (point == sign + 1 || s.p[sign] != '0');
    if (is_long && (d.fraction > SHORT_PLACES || !print_short(text, fabs(v), &n))) {
        int shortest = is_shortest(fabs(v), d.m, d.fraction);
        if (shortest >= 0)
            return shortest ? (struct num){NUM_FLOAT, {.f = v}} : none;
    }
    n = num_print_float(text, v);
    if (n != s.n || memcmp(text, s.p, n) != 0)
        return none;
    return (struct num){NUM_FLOAT, {.f = v}};
}

enum { WRITTEN_MAX = 64 }; /* bytes; what is longer is no number that a person or printf wrote */

/* As printf writes them; the canonical forms are num_classify's. */
static struct num written_special(struct slice s)
{
    if (slice_eq(s, SLICE_LIT("nan")) || slice_eq(s, SLICE_LIT("-nan")))
        return (struct num){NUM_FLOAT, {.f = NAN}};
    if (slice_eq(s, SLICE_LIT("inf")))
        return (struct num){NUM_FLOAT, {.f = INFINITY}};
    if (slice_eq(s, SLICE_LIT("-inf")))
        return (struct num){NUM_FLOAT, {.f = -INFINITY}};
    return (struct num){NUM_NOT, {0}};
}

struct num num_spelling(struct slice s)
{
    const struct num r = {NUM_NOT, {0}};
    if (s.n == 0 || s.n > WRITTEN_MAX)
        return r;
    size_t i = s.p[0] == '-' || s.p[0] == '+', whole = i;
    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
        i++;
    size_t n_whole = i - whole, n_fraction = 0;
    bool has_point = i < s.n && s.p[i] == '.', has_exponent = false, has_sign = false;
    if (has_point) {
        size_t from = ++i;
        while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
            i++;
        n_fraction = i - from;
    }
    if (n_whole + n_fraction == 0)
        return written_special(s);
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        has_exponent = true;
        has_sign = ++i < s.n && (s.p[i] == '-' || s.p[i] == '+');
        size_t from = i += has_sign;
        while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
            i++;
        if (i == from)
            return r;
    }
    bool is_minus_zero = n_whole == 1 && s.n == 2 && s.p[0] == '-' && s.p[1] == '0';
    bool is_number = has_point || (has_exponent && has_sign) || is_minus_zero;
    if (i < s.n || !is_number || (n_whole > 1 && s.p[whole] == '0'))
        return r;
    double v;
    if (num_parse_float(s, &v) < 0) { /* a '+' in front, or no digit at one side of the point */
        char z[WRITTEN_MAX + 1];
        memcpy(z, s.p, s.n);
        z[s.n] = '\0';
        v = parse_slow(z);
    }
    return isfinite(v) ? (struct num){NUM_FLOAT, {.f = v}} : r;
}

struct num num_written(struct slice s)
{
    struct num r = num_classify(s);
    return r.is == NUM_NOT ? num_spelling(s) : r;
}

struct unit {
    const char *name;
    double factor;
};

/* number + one of units (the last one has a NULL name) as an integer of the base unit. */
static int parse_with_unit(struct slice s, const struct unit *units, uint64_t *out)
{
    size_t i = 0;
    while (i < s.n && ((s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '.'))
        i++;
    double v;
    if (i == 0 || num_parse_float(slice_of(s.p, i), &v) < 0)
        return E_PROTO;
    for (const struct unit *u = units; u->name; u++) {
        if (!slice_eq_str(slice_from(s, i), u->name))
            continue;
        v = rint(v * u->factor);
        if (!(v < 9.2e18))
            return -ERANGE;
        *out = (uint64_t)v;
        return 0;
    }
    return E_PROTO;
}

int num_parse_size(struct slice s, uint64_t *out)
{
    static const struct unit units[] = {
        {"", 1},          {"B", 1},          {"k", 1e3},        {"kB", 1e3},         {"M", 1e6},
        {"MB", 1e6},      {"G", 1e9},        {"GB", 1e9},       {"T", 1e12},         {"TB", 1e12},
        {"KiB", 1024.},   {"MiB", 1048576.}, {"GiB", 0x1p30},   {"TiB", 0x1p40},     {"K", 1024.},
        {NULL, 0},
    };
    return parse_with_unit(s, units, out);
}

int num_parse_duration(struct slice s, int64_t *out)
{
    static const struct unit units[] = {
        {"", 1e9},    {"s", 1e9},   {"ms", 1e6},  {"us", 1e3},     {"ns", 1},
        {"m", 60e9},  {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {"w", 7 * 86400e9},
        {NULL, 0},
    };
    uint64_t v;
    int r = parse_with_unit(s, units, &v);
    if (r == 0)
        *out = (int64_t)v;
    return r;
}
