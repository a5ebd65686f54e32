/* SPDX-License-Identifier: Apache-2.0 */
/* What a check printed. Whatever it is: results lie within the text, each item costs at least a byte of it,
 * numbers are finite, and an item that was read can be written in the documented form and is read again as
 * the same. */
#include "sensor/nagios.h"

#include "base/num.h"

static struct strbuf scratch, again, scratch_again; /* reused */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static bool is_within(struct slice part, struct slice text)
{
    return part.n == 0 || (part.p >= text.p && part.p + part.n <= text.p + text.n);
}

static bool is_number(struct value v)
{
    return v.type == VALUE_NONE || (v.type == VALUE_FLOAT && isfinite(v.f));
}

static void add_number(struct strbuf *out, struct value v)
{
    char text[NUM_TEXT_MAX];
    if (v.type == VALUE_FLOAT)
        strbuf_add(out, text, num_print_float(text, v.f));
}

static void write_item(struct strbuf *out, const struct nagios_perf *p)
{
    strbuf_add_str(out, "x|'");
    for (size_t i = 0; i < p->label.n; i++) {
        strbuf_add_char(out, p->label.p[i]);
        if (p->label.p[i] == '\'')
            strbuf_add_char(out, '\'');
    }
    strbuf_add_str(out, "'=");
    if (p->value.type == VALUE_NONE)
        strbuf_add_char(out, 'U');
    add_number(out, p->value);
    strbuf_add_slice(out, p->unit);
    strbuf_add_char(out, ';');
    strbuf_add_slice(out, p->warn);
    strbuf_add_char(out, ';');
    strbuf_add_slice(out, p->crit);
    strbuf_add_char(out, ';');
    add_number(out, p->min);
    strbuf_add_char(out, ';');
    add_number(out, p->max);
}

/* Where the label spans lines it can't be written on one, and a unit that begins like an exponent would join
 * the number. */
static bool is_writable(const struct nagios_perf *p)
{
    bool is_joined = p->unit.n && (p->unit.p[0] == 'e' || p->unit.p[0] == 'E' || p->unit.p[0] == '.' ||
                                   (p->unit.p[0] >= '0' && p->unit.p[0] <= '9'));
    return !memchr(p->label.p, '\n', p->label.n) && !is_joined;
}

static void write_and_read(const struct nagios_perf *p)
{
    struct nagios n;
    struct nagios_perf q;
    strbuf_reset(&again);
    write_item(&again, p);
    check(!strbuf_failed(&again));
    nagios_read(strbuf_slice(&again), &n);
    check(nagios_next_perf(&n, &scratch_again, &q) == 1);
    check(slice_eq(p->label, q.label) && slice_eq(p->unit, q.unit));
    check(slice_eq(p->warn, q.warn) && slice_eq(p->crit, q.crit));
    check(value_eq(p->value, q.value) && value_eq(p->min, q.min) && value_eq(p->max, q.max));
    check(nagios_next_perf(&n, &scratch_again, &q) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = slice_of((const char *)data, size);
    struct nagios n;
    struct nagios_perf p;
    int r;
    (void)nagios_detect(text); /* any answer will do */
    nagios_read(text, &n);
    check(is_within(n.output, text) && is_within(n.detail, text));
    for (size_t left = n.perf[0].n + n.perf[1].n; (r = nagios_next_perf(&n, &scratch, &p)) != 0;) {
        check(r == 1 || r == E_PROTO);
        check(n.perf[0].n + n.perf[1].n < left);
        left = n.perf[0].n + n.perf[1].n;
        if (r != 1)
            continue;
        check(p.label.n > 0 && is_within(p.unit, text) && is_within(p.warn, text) && is_within(p.crit, text));
        check(is_number(p.value) && is_number(p.min) && is_number(p.max));
        if (is_writable(&p))
            write_and_read(&p);
    }
    return 0;
}
