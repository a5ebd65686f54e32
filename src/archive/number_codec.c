/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of n numbers. Arithmetic is modulo 2^64.
 *
 *   u8          form | flags
 *   FLOAT only  u8 scale: 0..14 floats are integers / 10^scale; 15 the bits of floats are the integers
 *   EXCEPTIONS  varint count; of each: varint place - (place before + 1), 8 bytes: a float that is not what
 *               the rest gives for it
 *   then the integers, by form:
 *   VALUES      common;                               z of n:     y = z
 *   STEPS       common, varint y, zigzag least step;  z of n - 1: y = y before + least step + z
 *   CHANGES     common, varint y;                     z of n - 1: y = y before + unzigzag(z)
 *   TURNS       common, varint y, zigzag step;        z of n - 2: step = step before + unzigzag(z),
 *                                                                 y = y before + step
 *   DICTIONARY  varint count, 8 bytes each;           z of n:     which
 *   ULPS        u of n: unzigzag(u) is added to the float's bits
 *
 * common: zigzag least, with DIVISOR varint divisor (else it is 1): integer = least + divisor * y. z and u
 * are packed (pfor.h); with SAME all z are 0 and not there. Only FLOAT has EXCEPTIONS and ULPS.
 *
 * Decimals: x is taken for m / 10^k if it is at most ULPS_MAX units in the last place from the float next to
 * that. Exact decimals (what a program printed) need no correction; those that were multiplied or summed do,
 * which costs a bit or two instead of most of a mantissa. The least k that fits nearly all values is used.
 * Rejected: XOR with the value before (Gorilla), and zstd over planes of bytes. On the recorded hosts of
 * bench/blob neither was smaller, and both are slower to read. */
#include "archive/number_codec.h"

#include "archive/pfor.h"
#include "archive/rows.h"
#include "base/err.h"
#include "base/mem.h"

#include <math.h>

enum form { FORM_VALUES, FORM_STEPS, FORM_CHANGES, FORM_TURNS, FORM_DICTIONARY, FORMS };
enum { FORM_MASK = 7, FLAG_SAME = 8, FLAG_DIVISOR = 16, FLAG_ULPS = 32, FLAG_EXCEPTIONS = 64, FLAGS = 127 };
enum { SCALE_MAX = 14, SCALE_BITS = 15, ULPS_MAX = 3 };
enum { SAMPLE = 32, SAMPLE_BAD = 2, DICTIONARY_MAX = 255, DICTIONARY_SLOTS = 1024, DICTIONARY_WORTH = 64 };
enum { ESTIMATE = 200 }; /* about so many values tell which form is best */

static const double powers[SCALE_MAX + 1] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6, 1e7,
                                             1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};

/* Added to a float below 2^51, it leaves the nearest integer in the low bits: works in vectors, where a
 * conversion to 64 bits does not. */
#define ROUNDER 6755399441055744.0 /* 1.5 * 2^52 */

struct number_codec {
    uint64_t w[ROWS_CHUNK_MAX]; /* the integers */
    uint64_t z[ROWS_CHUNK_MAX]; /* what is packed */
    uint64_t ulps[ROWS_CHUNK_MAX];
    uint16_t slots[DICTIONARY_SLOTS]; /* of dictionary, + 1; 0: free */
    uint64_t dictionary[DICTIONARY_MAX];
    uint16_t exceptions[ROWS_CHUNK_MAX]; /* places */
};

struct number_codec *number_codec_create(void)
{
    return mem_try_alloc(sizeof(struct number_codec));
}

void number_codec_destroy(struct number_codec *k)
{
    mem_free(k);
}

static uint64_t bits_of(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static double float_of(uint64_t u)
{
    double f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* A float's bits, those of all NaNs the same. */
static uint64_t one_nan(uint64_t bits)
{
    return isnan(float_of(bits)) ? bits_of(value_float(NAN).f) : bits;
}

/* ---------------------------------------------------------------- floats to integers */

/* The integer whose 10^-scale part x is, about, in *m; zigzag of what is missing to x in *ulps. false: it is
 * none. */
static inline bool to_decimal(double x, double power, uint64_t *m, uint64_t *ulps)
{
    double y = x * power, rounded = y + ROUNDER;
    *m = bits_of(rounded) - bits_of(ROUNDER);
    *ulps = zigzag((int64_t)(bits_of(x) - bits_of((rounded - ROUNDER) / power)));
    return fabs(y) < 0x1p51 && *ulps <= 2 * ULPS_MAX;
}

static inline bool to_integer(double x, uint64_t *m)
{
    bool fits = fabs(x) < 0x1p63;
    int64_t i = (int64_t)(fits ? x : 0);
    *m = (uint64_t)i;
    return fits && bits_of((double)i) == bits_of(x); /* -0.0 does not fit */
}

static inline bool to_scaled(double x, unsigned scale, uint64_t *m, uint64_t *ulps)
{
    *ulps = 0;
    return scale ? to_decimal(x, powers[scale], m, ulps) : to_integer(x, m);
}

/* The least scale from `scale` on that nearly all of a sample have; SCALE_BITS: there is none. */
static unsigned sample_scale(const uint64_t *v, uint32_t n, unsigned scale)
{
    uint32_t step = n / SAMPLE + 1;
    for (; scale <= SCALE_MAX; scale++) {
        uint32_t bad = 0;
        for (uint32_t i = 0; i < n && bad <= SAMPLE_BAD; i += step) {
            uint64_t m, ulps;
            bad += !to_scaled(float_of(v[i]), scale, &m, &ulps);
        }
        if (bad <= SAMPLE_BAD && bad < n)
            return scale;
    }
    return SCALE_BITS;
}

/* All of v by that scale into w and ulps: how many exceptions; more than max: it gave up. */
static uint32_t scale_all(struct number_codec *k, const uint64_t *v, uint32_t n, unsigned scale, uint32_t max,
                          bool *has_ulps)
{
    uint32_t bad = 0;
    uint64_t any = 0;
    for (uint32_t from = 0; from < n && bad <= max; from += 256) {
        uint32_t to = from + 256 < n ? from + 256 : n, wrong = 0;
        for (uint32_t i = from; i < to && !scale; i++)
            wrong += !to_integer(float_of(v[i]), &k->w[i]);
        for (uint32_t i = from; i < to && scale; i++) {
            wrong += !to_decimal(float_of(v[i]), powers[scale], &k->w[i], &k->ulps[i]);
            any |= k->ulps[i];
        }
        for (uint32_t i = from; i < to && wrong; i++) {
            uint64_t m, ulps;
            if (!to_scaled(float_of(v[i]), scale, &m, &ulps))
                k->exceptions[bad++] = (uint16_t)i;
        }
    }
    *has_ulps = scale && any;
    return bad;
}

/* Exceptions have the integer before them: no step. The first of all has that of the first that is none. */
static void smooth_exceptions(struct number_codec *k, uint32_t n, uint32_t bad)
{
    uint32_t first = 0;
    while (first < bad && k->exceptions[first] == first)
        first++;
    for (uint32_t i = 0; i < bad; i++) {
        uint32_t at = k->exceptions[i];
        k->w[at] = at < first ? k->w[first < n ? first : 0] : k->w[at - 1];
        k->ulps[at] = 0;
    }
}

struct floats {
    unsigned scale;
    uint32_t n_exceptions;
    bool has_ulps;
};

static struct floats convert_floats(struct number_codec *k, const uint64_t *v, uint32_t n)
{
    struct floats f = {.scale = 0};
    uint32_t max = n / 16;
    for (f.scale = sample_scale(v, n, 0); f.scale != SCALE_BITS; f.scale = sample_scale(v, n, f.scale + 1)) {
        f.n_exceptions = scale_all(k, v, n, f.scale, max, &f.has_ulps);
        if (f.n_exceptions <= max)
            break;
    }
    if (f.scale != SCALE_BITS) {
        if (f.n_exceptions)
            smooth_exceptions(k, n, f.n_exceptions);
        return f;
    }
    for (uint32_t i = 0; i < n; i++)
        k->w[i] = one_nan(v[i]);
    return (struct floats){.scale = SCALE_BITS};
}

/* ---------------------------------------------------------------- what integers have in common */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Of an odd number: x * inverse == 1 modulo 2^64. Newton: each round doubles the bits that are right. */
static uint64_t inverse_of(uint64_t odd)
{
    uint64_t x = odd * 3 ^ 2;
    for (int i = 0; i < 4; i++)
        x *= 2 - odd * x;
    return x;
}

/* The greatest odd divisor that all have, 1 if that is all. v * inverse is v / divisor where it divides, and
 * greater than any quotient where it does not. */
static uint64_t odd_divisor(const uint64_t *v, uint32_t n, unsigned shift)
{
    uint64_t divisor = 0;
    uint32_t i = 0;
    for (; i < n && i < 16; i++)
        divisor = gcd(v[i] >> shift, divisor);
    while (divisor && !(divisor & 1))
        divisor >>= 1;
    while (divisor > 1 && i < n) {
        uint64_t inverse = inverse_of(divisor), most = UINT64_MAX / divisor;
        while (i < n && (v[i] >> shift) * inverse <= most)
            i++;
        if (i < n)
            divisor = gcd(divisor, v[i] >> shift);
    }
    for (; i < n && !divisor; i++) /* the first ones were all 0 */
        divisor = odd_divisor(v + i, n - i, shift);
    return divisor ? divisor : 1;
}

/* Takes the least and a common divisor away from w, which are then 0 and more. */
static void make_small(uint64_t *w, uint32_t n, int64_t *least, uint64_t *divisor)
{
    int64_t min = (int64_t)w[0], max = min;
    for (uint32_t i = 0; i < n; i++) {
        int64_t x = (int64_t)w[i];
        min = x < min ? x : min;
        max = x > max ? x : max;
    }
    uint64_t any = 0;
    for (uint32_t i = 0; i < n; i++)
        any |= w[i] -= (uint64_t)min;
    *least = min;
    *divisor = 1;
    if (any == 0 || (uint64_t)max - (uint64_t)min >= UINT64_C(1) << 62)
        return; /* so that no step and no change of steps wraps */
    unsigned shift = (unsigned)__builtin_ctzll(any);
    uint64_t odd = odd_divisor(w, n, shift);
    *divisor = odd << shift;
    if (*divisor == 1)
        return;
    uint64_t inverse = inverse_of(odd);
    for (uint32_t i = 0; i < n; i++)
        w[i] = (w[i] >> shift) * inverse;
}

/* ---------------------------------------------------------------- which form */

struct plan {
    enum form form;
    int64_t least;
    uint64_t divisor;
    uint64_t first;
    int64_t first_step, least_step;
};

static inline unsigned width_of(uint64_t v)
{
    return 63u - (unsigned)__builtin_clzll(v | 1); /* less one: no branch for 0 */
}

/* About how many bits the forms need, by some of the values, and what they are made with. n is 2 or more. */
static enum form choose_form(const uint64_t *w, uint32_t n, struct plan *p)
{
    uint64_t values = 0, steps = 0, changes = 0, turns = 0;
    p->first = w[0];
    p->first_step = (int64_t)(w[1] - w[0]);
    int64_t least = p->first_step, most = least;
    for (uint32_t i = 2; i < n; i++) {
        int64_t step = (int64_t)(w[i] - w[i - 1]);
        least = step < least ? step : least;
        most = step > most ? step : most;
    }
    p->least_step = least;
    if (least == most)
        return FORM_STEPS;
    for (uint32_t i = n > 2 ? 2 : 1; i < n; i += 1 + n / ESTIMATE) {
        uint64_t step = w[i] - w[i - 1], before = i > 1 ? w[i - 1] - w[i - 2] : step;
        values += width_of(w[i]);
        steps += width_of(step - (uint64_t)least);
        changes += width_of(zigzag((int64_t)step));
        turns += width_of(zigzag((int64_t)(step - before)));
    }
    /* Later forms must be worth what they cost to read. */
    enum form form = FORM_VALUES;
    uint64_t cost = values;
    if (steps < cost - cost / 64) {
        form = FORM_STEPS;
        cost = steps;
    }
    if (changes < cost - cost / 64) {
        form = FORM_CHANGES;
        cost = changes;
    }
    return turns < cost - cost / 64 ? FORM_TURNS : form;
}

/* What is packed: how many, in z. */
static uint32_t make_residues(const uint64_t *w, uint32_t n, const struct plan *p, uint64_t *z)
{
    switch (p->form) {
    case FORM_STEPS:
        for (uint32_t i = 1; i < n; i++)
            z[i - 1] = w[i] - w[i - 1] - (uint64_t)p->least_step;
        return n - 1;
    case FORM_CHANGES:
        for (uint32_t i = 1; i < n; i++)
            z[i - 1] = zigzag((int64_t)(w[i] - w[i - 1]));
        return n - 1;
    case FORM_TURNS:
        for (uint32_t i = 2; i < n; i++)
            z[i - 2] = zigzag((int64_t)(w[i] - 2 * w[i - 1] + w[i - 2]));
        return n - 2;
    case FORM_VALUES:
    case FORM_DICTIONARY:
    case FORMS:
        break;
    }
    memcpy(z, w, n * sizeof *z);
    return n;
}

/* ---------------------------------------------------------------- a dictionary */

/* The different ones of v and the place of each in z: how many; 0: too many. */
static uint32_t make_dictionary(struct number_codec *k, uint8_t type, const uint64_t *v, uint32_t n)
{
    uint32_t count = 0;
    memset(k->slots, 0, sizeof k->slots);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = type == VALUE_FLOAT ? one_nan(v[i]) : v[i];
        uint32_t at = (uint32_t)(x * 0x9e3779b97f4a7c15u >> 54);
        while (k->slots[at] && k->dictionary[k->slots[at] - 1] != x)
            at = (at + 1) & (DICTIONARY_SLOTS - 1);
        if (!k->slots[at]) {
            if (count == DICTIONARY_MAX)
                return 0;
            k->dictionary[count++] = x;
            k->slots[at] = (uint16_t)count;
        }
        k->z[i] = k->slots[at] - 1u;
    }
    return count;
}

/* In place of the packed numbers from `at` on, if that is shorter. */
static void try_dictionary(struct number_codec *k, uint8_t type, const uint64_t *v, uint32_t n, size_t at,
                           struct strbuf *out)
{
    size_t before = out->n;
    uint32_t count = make_dictionary(k, type, v, n);
    if (count == 0 || strbuf_failed(out))
        return;
    strbuf_add_char(out, FORM_DICTIONARY);
    if (type == VALUE_FLOAT)
        strbuf_add_char(out, SCALE_BITS);
    strbuf_add_varint(out, count);
    for (uint32_t i = 0; i < count; i++)
        strbuf_add_u64(out, k->dictionary[i]);
    pfor_write(out, k->z, n);
    if (strbuf_failed(out))
        return;
    size_t size = out->n - before;
    if (size < before - at)
        memmove(out->p + at, out->p + before, size);
    out->n = size < before - at ? at + size : before;
    out->p[out->n] = '\0';
}

/* ---------------------------------------------------------------- writing */

static void put_plan(struct strbuf *out, const struct plan *p)
{
    strbuf_add_varint(out, zigzag(p->least));
    if (p->divisor != 1)
        strbuf_add_varint(out, p->divisor);
    if (p->form != FORM_VALUES)
        strbuf_add_varint(out, p->first);
    if (p->form == FORM_STEPS)
        strbuf_add_varint(out, zigzag(p->least_step));
    if (p->form == FORM_TURNS)
        strbuf_add_varint(out, zigzag(p->first_step));
}

static void put_exceptions(const struct number_codec *k, const uint64_t *v, uint32_t n, struct strbuf *out)
{
    uint32_t next = 0;
    strbuf_add_varint(out, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = k->exceptions[i];
        strbuf_add_varint(out, at - next);
        strbuf_add_u64(out, one_nan(v[at]));
        next = at + 1;
    }
}

static bool is_constant(const uint64_t *v, uint32_t n)
{
    uint64_t odd = 0;
    for (uint32_t from = 0; from < n && !odd; from += 256) {
        uint32_t to = from + 256 < n ? from + 256 : n;
        for (uint32_t i = from; i < to; i++)
            odd |= v[i] ^ v[0];
    }
    return odd == 0;
}

static void put_constant(uint8_t type, uint64_t x, struct strbuf *out)
{
    uint64_t m = x;
    strbuf_add_char(out, FORM_VALUES | FLAG_SAME);
    if (type == VALUE_FLOAT) {
        bool is_integer = to_integer(float_of(x), &m);
        m = is_integer ? m : one_nan(x);
        strbuf_add_char(out, is_integer ? 0 : SCALE_BITS);
    }
    strbuf_add_varint(out, zigzag((int64_t)m));
}

void number_put(struct number_codec *k, uint8_t type, const uint64_t *v, uint32_t n, struct strbuf *out)
{
    if (is_constant(v, n)) {
        put_constant(type, v[0], out);
        return;
    }
    struct floats f = {.scale = 0};
    struct plan p = {.form = FORM_VALUES};
    size_t at = out->n;
    if (type == VALUE_FLOAT)
        f = convert_floats(k, v, n);
    else
        memcpy(k->w, v, n * sizeof *v);
    make_small(k->w, n, &p.least, &p.divisor);
    p.form = choose_form(k->w, n, &p);
    uint32_t n_z = make_residues(k->w, n, &p, k->z);
    bool is_same = n_z == 0 || (k->z[0] == 0 && is_constant(k->z, n_z));
    strbuf_add_char(out, (char)(p.form | (is_same ? FLAG_SAME : 0) | (p.divisor != 1 ? FLAG_DIVISOR : 0) |
                                (f.has_ulps ? FLAG_ULPS : 0) | (f.n_exceptions ? FLAG_EXCEPTIONS : 0)));
    if (type == VALUE_FLOAT)
        strbuf_add_char(out, (char)f.scale);
    if (f.n_exceptions)
        put_exceptions(k, v, f.n_exceptions, out);
    put_plan(out, &p);
    if (!is_same)
        pfor_write(out, k->z, n_z);
    if (f.has_ulps)
        pfor_write(out, k->ulps, n);
    if (out->n - at > n + DICTIONARY_WORTH)
        try_dictionary(k, type, v, n, at, out);
}

/* ---------------------------------------------------------------- reading */

/* The y of all rows from the z of n or fewer, which are at the end of v; then the integers. */
static int get_integers(struct cursor *c, unsigned head, uint32_t n, uint64_t *v)
{
    enum form form = head & FORM_MASK;
    uint32_t before = form == FORM_VALUES ? 0 : form == FORM_TURNS ? 2 : 1; /* values that have no z */
    uint64_t least = (uint64_t)unzigzag(cursor_varint(c));
    uint64_t divisor = head & FLAG_DIVISOR ? cursor_varint(c) : 1;
    uint64_t y = form == FORM_VALUES ? 0 : cursor_varint(c);
    uint64_t step = form == FORM_STEPS || form == FORM_TURNS ? (uint64_t)unzigzag(cursor_varint(c)) : 0;
    if (before > n)
        return E_PROTO;
    if (head & FLAG_SAME)
        memset(v + before, 0, (n - before) * sizeof *v);
    else
        pfor_read(c, v + before, n - before);
    if (c->bad)
        return E_PROTO;
    if (form == FORM_VALUES) {
        for (uint32_t i = 0; i < n; i++)
            v[i] = least + divisor * v[i];
        return 0;
    }
    v[0] = least + divisor * y;
    if (form == FORM_TURNS)
        v[1] = least + divisor * (y += step);
    for (uint32_t i = 1; i < n && form == FORM_STEPS; i++)
        v[i] = least + divisor * (y += step + v[i]);
    for (uint32_t i = 1; i < n && form == FORM_CHANGES; i++)
        v[i] = least + divisor * (y += (uint64_t)unzigzag(v[i]));
    for (uint32_t i = 2; i < n && form == FORM_TURNS; i++) {
        step += (uint64_t)unzigzag(v[i]);
        v[i] = least + divisor * (y += step);
    }
    return 0;
}

static int get_dictionary(struct cursor *c, uint32_t n, uint64_t *v)
{
    uint64_t count = cursor_varint(c), dictionary[DICTIONARY_MAX];
    if (count == 0 || count > DICTIONARY_MAX)
        return E_PROTO;
    for (uint32_t i = 0; i < count; i++)
        dictionary[i] = cursor_u64(c);
    pfor_read(c, v, n);
    for (uint32_t i = 0; i < n && !c->bad; i++) {
        if (v[i] >= count)
            return E_PROTO;
        v[i] = dictionary[v[i]];
    }
    return c->bad ? E_PROTO : 0;
}

static void to_floats(uint64_t *v, uint32_t n, unsigned scale)
{
    double power = powers[scale];
    for (uint32_t i = 0; i < n && scale == 0; i++)
        v[i] = bits_of((double)(int64_t)v[i]);
    for (uint32_t i = 0; i < n && scale != 0; i++)
        v[i] = bits_of((double)(int64_t)v[i] / power);
}

static void add_ulps(struct cursor *c, uint64_t *v, uint32_t n)
{
    uint64_t ulps[PFOR_BLOCK];
    for (uint32_t from = 0; from < n && !c->bad; from += PFOR_BLOCK) {
        uint32_t m = n - from < PFOR_BLOCK ? n - from : PFOR_BLOCK;
        pfor_read(c, ulps, m);
        for (uint32_t i = 0; i < m && !c->bad; i++)
            v[from + i] += (uint64_t)unzigzag(ulps[i]);
    }
}

/* Into v; NULL: only to see where they end. */
static void get_exceptions(struct cursor *c, uint32_t n, uint64_t *v)
{
    uint64_t count = cursor_varint(c), at = 0;
    for (uint64_t i = 0; i < count && !c->bad; i++, at++) {
        uint64_t skipped = cursor_varint(c), bits = cursor_u64(c);
        if (c->bad || skipped >= n - at) {
            (void)cursor_fail(c); /* c->bad says it */
            return;
        }
        at += skipped;
        if (v)
            v[at] = bits;
        if (at + 1 == n && i + 1 < count)
            (void)cursor_fail(c);
    }
}

static int get_floats(struct cursor *c, unsigned head, uint32_t n, uint64_t *v)
{
    uint8_t scale = cursor_u8(c);
    struct cursor exceptions = *c;
    bool is_dictionary = (head & FORM_MASK) == FORM_DICTIONARY;
    if (scale > SCALE_BITS || (scale == SCALE_BITS && head & (FLAG_ULPS | FLAG_EXCEPTIONS)) ||
        (is_dictionary && scale != SCALE_BITS))
        return E_PROTO;
    if (head & FLAG_EXCEPTIONS)
        get_exceptions(c, n, NULL);
    int r = is_dictionary ? get_dictionary(c, n, v) : get_integers(c, head, n, v);
    if (r < 0)
        return r;
    if (scale != SCALE_BITS)
        to_floats(v, n, scale);
    if (head & FLAG_ULPS)
        add_ulps(c, v, n);
    if (head & FLAG_EXCEPTIONS)
        get_exceptions(&exceptions, n, v);
    return 0;
}

int number_get(struct slice in, uint8_t type, uint32_t n, uint64_t *v)
{
    struct cursor c = cursor_of(in);
    unsigned head = cursor_u8(&c), form = head & FORM_MASK;
    if (c.bad || head > FLAGS || form >= FORMS || (form == FORM_DICTIONARY && head != FORM_DICTIONARY) ||
        (type != VALUE_FLOAT && head & (FLAG_ULPS | FLAG_EXCEPTIONS)))
        return E_PROTO;
    int r = type == VALUE_FLOAT       ? get_floats(&c, head, n, v)
            : form == FORM_DICTIONARY ? get_dictionary(&c, n, v)
                                      : get_integers(&c, head, n, v);
    if (r < 0 || c.bad || cursor_left(&c))
        return E_PROTO;
    uint64_t any = 0;
    for (uint32_t i = 0; i < n && type == VALUE_BOOL; i++)
        any |= v[i];
    return any > 1 ? E_PROTO : 0;
}
