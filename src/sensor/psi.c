/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/psi.h"

#include "base/num.h"
#include "sensor/scan.h"

/* "avg10=1.28": the number behind the name, or VALUE_NONE. */
static struct value take_average(struct slice word, struct slice name)
{
    double v;
    if (!slice_starts(word, name) || num_parse_float(slice_from(word, name.n), &v) < 0 ||
        !isfinite(v) || v < 0)
        return value_none();
    return value_float(v);
}

static struct value take_total(struct slice word)
{
    static const struct slice name = {"total=", 6};
    uint64_t v;
    if (!slice_starts(word, name) || num_parse_uint(slice_from(word, name.n), &v) < 0)
        return value_none();
    return value_uint(v);
}

void psi_take(struct slice text, struct value values[PSI_VALUES])
{
    struct scan s = scan_of(text);
    struct slice line;
    for (size_t i = 0; i < PSI_VALUES; i++)
        values[i] = value_none();
    while (scan_line(&s, &line)) {
        if (s.p >= s.end && !scan_is_whole(text))
            return; /* cut in the middle */
        struct scan l = scan_of(line);
        struct slice word = scan_word(&l);
        struct value *to = slice_eq_str(word, "some")   ? values + PSI_SOME_AVG10
                           : slice_eq_str(word, "full") ? values + PSI_FULL_AVG10
                                                        : NULL;
        if (!to)
            continue;
        to[0] = take_average(scan_word(&l), SLICE_LIT("avg10="));
        to[1] = take_average(scan_word(&l), SLICE_LIT("avg60="));
        to[2] = take_average(scan_word(&l), SLICE_LIT("avg300="));
        to[3] = take_total(scan_word(&l));
    }
}
