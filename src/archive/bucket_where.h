/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_where.h - the one condition that a fold (bucket.h) may have: a field compared with a constant
 * number.
 *
 *     field op number     op: < <= > >= = == != <>     field: a name, bare or "quoted"
 *
 * Numbers compare by value across types, exactly; a missing value and NaN pass nothing. For each type of
 * column the condition becomes an interval with closed ends, so that summaries decide most chunks and the
 * rest is two comparisons a value. */
#ifndef GRIDLINE_ARCHIVE_BUCKET_WHERE_H
#define GRIDLINE_ARCHIVE_BUCKET_WHERE_H

#include "archive/rows.h"
#include "base/err.h"

enum where_op { WHERE_LT, WHERE_LE, WHERE_GT, WHERE_GE, WHERE_EQ, WHERE_NE };

struct bucket_where {
    struct slice field;
    enum where_op op;
    struct value than; /* int, uint or float; not NaN */
};

/* E_PROTO: *why says where and what. field borrows from text. */
int bucket_where_parse(struct slice text, struct bucket_where *out, struct diag *why);

/* The condition for columns of one type: lo <= value <= hi, or just not that. */
struct where_test {
    struct value lo, hi; /* of the column's type */
    bool is_never;
    bool is_not; /* passes what is outside, but no NaN */
};
/* Of text and bytes: never. */
struct where_test where_test_of(const struct bucket_where *w, uint8_t type);

enum where_answer { WHERE_NONE, WHERE_SOME, WHERE_ALL };
/* Which of the values that a column has pass, as far as its summary tells. NaN is a value. */
enum where_answer where_test_summary(const struct where_test *t, const struct column_summary *s);
/* A bit a row of the first n: it has a value and that passes. pass: (n + 63) / 64 words. */
void where_test_rows(const struct where_test *t, const struct column *c, uint32_t n, uint64_t *pass);

#endif
