/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/process_limit.h"

#include "base/clock.h"
#include "base/num.h"
#include "sensor/scan.h"

#include <errno.h>

static const char *const names[LIMIT_WHATS] = {
    [LIMIT_CPU] = "cpu",         [LIMIT_RSS] = "rss",     [LIMIT_VSIZE] = "vsize",
    [LIMIT_THREADS] = "threads", [LIMIT_FILES] = "files",
};

const char *limit_what_name(enum limit_what what)
{
    return names[what];
}

static int parse_what(struct slice word, enum limit_what *out)
{
    for (size_t i = 0; i < LIMIT_WHATS; i++) {
        if (slice_eq_str(word, names[i])) {
            *out = (enum limit_what)i;
            return 0;
        }
    }
    return E_PROTO;
}

static int parse_amount(enum limit_what what, struct slice word, double *out)
{
    if (what == LIMIT_CPU) {
        if (!slice_ends(word, SLICE_LIT("%")))
            return E_PROTO;
        return num_parse_float(slice_of(word.p, word.n - 1), out);
    }
    uint64_t size;
    bool is_size = what == LIMIT_RSS || what == LIMIT_VSIZE;
    int r = is_size ? num_parse_size(word, &size) : num_parse_uint(word, &size);
    if (r == 0)
        *out = (double)size;
    return r;
}

int limit_parse(struct slice text, struct limit_rule *out, struct diag *why)
{
    struct scan s = scan_of(text);
    struct limit_rule rule = {0};
    struct slice what = scan_word(&s), amount = scan_word(&s), window = scan_word(&s);
    if (parse_what(what, &rule.what) < 0)
        return diag_set(why, -EINVAL, 0, "limit \"%.*s\": it begins with cpu, rss, vsize, threads or files",
                        SLICE_ARG(text));
    if (parse_amount(rule.what, amount, &rule.limit) < 0 || !(rule.limit > 0) || isinf(rule.limit))
        return diag_set(why, -EINVAL, 0, "limit \"%.*s\": \"%.*s\" is no limit for %s; write %s",
                        SLICE_ARG(text), SLICE_ARG(amount), names[rule.what],
                        rule.what == LIMIT_CPU     ? "80%"
                        : rule.what <= LIMIT_VSIZE ? "2GiB"
                                                   : "500");
    if (num_parse_duration(window, &rule.window_ns) < 0 || rule.window_ns <= 0)
        return diag_set(why, -EINVAL, 0, "limit \"%.*s\": \"%.*s\" is no window; write 30s", SLICE_ARG(text),
                        SLICE_ARG(window));
    if (scan_word(&s).n > 0)
        return diag_set(why, -EINVAL, 0, "limit \"%.*s\": it has three words", SLICE_ARG(text));
    *out = rule;
    return 0;
}

static size_t older(size_t i)
{
    return i == 0 ? LIMIT_POINTS - 1 : i - 1;
}

/* The area up to the time `at`, which is not before the oldest point: on the line between the points around
 * it. */
static double area_at(const struct limit_curve *c, int64_t at)
{
    int64_t right_ns = c->now_ns;
    double right = c->now_area;
    for (size_t i = c->last, k = 0; k < c->n; k++, i = older(i)) {
        if (c->at_ns[i] <= at) {
            double part =
                right_ns > c->at_ns[i] ? (double)(at - c->at_ns[i]) / (double)(right_ns - c->at_ns[i]) : 0;
            return c->area[i] + (right - c->area[i]) * part;
        }
        right_ns = c->at_ns[i];
        right = c->area[i];
    }
    return right;
}

static void add_point(struct limit_curve *c)
{
    c->last = (uint8_t)(c->n ? (c->last + 1) % LIMIT_POINTS : 0);
    c->n = (uint8_t)(c->n + (c->n < LIMIT_POINTS));
    c->at_ns[c->last] = c->now_ns;
    c->area[c->last] = c->now_area;
}

static int64_t oldest_ns(const struct limit_curve *c)
{
    return c->at_ns[(c->last + LIMIT_POINTS + 1u - c->n) % LIMIT_POINTS];
}

enum limit_change limit_add(const struct limit_rule *rule, struct limit_curve *c, int64_t now_ns,
                            double value, double *average)
{
    if (c->n > 0 && now_ns <= c->now_ns)
        return LIMIT_SAME;
    double seconds = c->n ? (double)(now_ns - c->now_ns) / (double)NS_PER_S : 0;
    c->now_area = rule->what == LIMIT_CPU ? 100 * value : c->now_area + c->value * seconds;
    c->value = value;
    c->now_ns = now_ns;
    if (c->n == 0 || now_ns - c->at_ns[c->last] >= (rule->window_ns + LIMIT_POINTS - 2) / (LIMIT_POINTS - 1))
        add_point(c);
    int64_t from = now_ns - rule->window_ns;
    if (oldest_ns(c) > from)
        return LIMIT_SAME;
    double mean = (c->now_area - area_at(c, from)) / ((double)rule->window_ns / (double)NS_PER_S);
    bool is_over = c->is_over ? mean >= 0.9 * rule->limit : mean > rule->limit;
    if (is_over == c->is_over)
        return LIMIT_SAME;
    c->is_over = is_over;
    *average = mean;
    return is_over ? LIMIT_OVER : LIMIT_BACK;
}
