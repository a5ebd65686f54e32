/* SPDX-License-Identifier: Apache-2.0 */
/* num.h - numbers as text, the same in every locale, exact in both directions.
 *
 * Canonical text, one for each value: integers without sign '+', leading zeros or "-0"; floats are the
 * shortest decimal that reads back to the same bits, always with a '.' or an 'e' (so that 5.0 is not 5), or
 * NaN, Inf, -Inf. Exponents from 1e16 up and below 1e-5, written 1e16, 1.5e-7 (no '+', no zero padding). */
#ifndef GRIDLINE_BASE_NUM_H
#define GRIDLINE_BASE_NUM_H

#include "base/slice.h"

#include <stdint.h>

enum { NUM_TEXT_MAX = 32 }; /* room for any canonical text, no NUL */

/* Each writes at to and returns the length. 5 ns for small integers; floats with few decimals 20 ns. */
size_t num_print_uint(char *to, uint64_t v);
size_t num_print_int(char *to, int64_t v);
size_t num_print_float(char *to, double v);

/* Whole-string parsers: 0, or E_PROTO (not a number of that kind), or -ERANGE. *out is untouched on failure. */
int num_parse_uint(struct slice s, uint64_t *out);
int num_parse_int(struct slice s, int64_t *out);
/* Decimal with optional fraction and exponent, or NaN, Inf, -Inf (any case, also "Infinity"). Also -ENOMEM, for
 * texts of 128 bytes and more. */
int num_parse_float(struct slice s, double *out);

/* What the text is if it is the canonical text of a number: printing gives back the same bytes. */
enum num_class { NUM_NOT, NUM_INT, NUM_UINT, NUM_FLOAT };
struct num {
    enum num_class is;
    union {
        int64_t i;
        uint64_t u; /* only above INT64_MAX */
        double f;
    };
};
struct num num_classify(struct slice s);

/* The value of a text that is written as people and printf write numbers, canonical or not: 0.50, .50, 5., -0, +0.25,
 * 1e-05, 1.50E+03, nan, inf, -inf. Not numbers, because they name things more often than they count them: leading zeros
 * (080), a '+' before a whole number (+4930123), a whole mantissa with an unsigned exponent (12e4, unless canonical),
 * hexadecimal, integers beyond 64 bits, values beyond double. NUM_NOT: not a number. */
struct num num_written(struct slice s);
/* The same for a text that is not canonical: num_classify has said NUM_NOT. */
struct num num_spelling(struct slice s);

/* A size: 10, 10k, 2M, 4G (powers of 1000) or KiB MiB GiB (of 1024). */
int num_parse_size(struct slice s, uint64_t *out);
/* A duration: 10s, 5m, 2h, 1d, 250ms, 10us, 5ns; a plain number is seconds. In ns. */
int num_parse_duration(struct slice s, int64_t *out);

#endif
