/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/nagios.h"

#include "base/num.h"

#include <errno.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct slice trim(struct slice s)
{
    while (s.n && is_blank(s.p[0]))
        s = slice_from(s, 1);
    while (s.n && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

/* What stands before the first c; *rest is what stands behind it, empty when there is no c. */
static struct slice cut(struct slice s, char c, struct slice *rest)
{
    const char *at = s.n ? memchr(s.p, c, s.n) : NULL;
    struct slice before = slice_of(s.p, at ? (size_t)(at - s.p) : s.n);
    *rest = slice_from(s, before.n + 1);
    return before;
}

struct slice nagios_state_name(enum nagios_state state)
{
    static const char *const names[] = {"ok", "warning", "critical", "unknown"};
    return slice_str(names[state <= NAGIOS_UNKNOWN ? state : NAGIOS_UNKNOWN]);
}

bool nagios_detect(struct slice text)
{
    static const char *const words[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
    struct slice rest, line = cut(text, '\n', &rest);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (line.n && memmem(line.p, line.n, words[i], strlen(words[i])))
            return true;
    return false;
}

void nagios_read(struct slice text, struct nagios *out)
{
    struct slice more, line = cut(text, '\n', &more);
    struct slice output = cut(line, '|', &out->perf[0]);
    struct slice detail = cut(more, '|', &out->perf[1]);
    out->output = trim(output);
    out->detail = trim(detail);
}

/* Undoubles the quotes of the label between them. */
static int unquote(struct slice quoted, struct strbuf *scratch, struct slice *out)
{
    strbuf_reset(scratch);
    for (size_t i = 0; i < quoted.n; i++) {
        strbuf_add_char(scratch, quoted.p[i]);
        i += quoted.p[i] == '\''; /* the second of the two */
    }
    if (strbuf_failed(scratch))
        return -ENOMEM;
    *out = strbuf_slice(scratch);
    return 0;
}

/* The label at the front of *s, which is moved behind its =. */
static int read_label(struct slice *s, struct strbuf *scratch, struct slice *out)
{
    size_t n = 0;
    if (s->p[0] != '\'') {
        while (n < s->n && s->p[n] != '=' && s->p[n] != '\'' && !is_blank(s->p[n]))
            n++;
        *out = slice_of(s->p, n);
        bool is_good = n > 0 && n < s->n && s->p[n] == '=';
        *s = slice_from(*s, n + is_good);
        return is_good ? 0 : E_PROTO;
    }
    for (n = 1; n < s->n && (s->p[n] != '\'' || (n + 1 < s->n && s->p[n + 1] == '\'')); n++)
        n += s->p[n] == '\'';
    struct slice quoted = slice_of(s->p + 1, n < s->n ? n - 1 : s->n - 1);
    bool is_good = n + 1 < s->n && s->p[n + 1] == '=' && quoted.n > 0;
    *s = slice_from(*s, n + 1 + is_good);
    return is_good ? unquote(quoted, scratch, out) : E_PROTO;
}

/* Length of the decimal number at the front: sign, digits, fraction, exponent. */
static size_t number_length(struct slice s)
{
    size_t n = s.n && (s.p[0] == '-' || s.p[0] == '+'), digits = 0;
    while (n < s.n && ((s.p[n] >= '0' && s.p[n] <= '9') || s.p[n] == '.'))
        digits += s.p[n++] != '.';
    if (digits == 0)
        return 0;
    size_t e = n + 1;
    if (n < s.n && (s.p[n] == 'e' || s.p[n] == 'E')) {
        e += e < s.n && (s.p[e] == '-' || s.p[e] == '+');
        size_t from = e;
        while (e < s.n && s.p[e] >= '0' && s.p[e] <= '9')
            e++;
        n = e > from ? e : n; /* an E without digits belongs to the unit */
    }
    return n;
}

/* What number_length found. Scripts write .5 and 5. as well: num.h wants a digit on both sides. */
static int read_number(struct slice s, struct value *out)
{
    char text[64];
    size_t n = 0;
    double f;
    if (s.n == 0 || s.n > sizeof text - 2)
        return E_PROTO;
    if (s.p[0] == '-')
        text[n++] = '-';
    s = slice_from(s, s.p[0] == '-' || s.p[0] == '+');
    if (s.p[0] == '.')
        text[n++] = '0';
    memcpy(text + n, s.p, s.n);
    n += s.n;
    if (text[n - 1] == '.')
        n--;
    if (num_parse_float(slice_of(text, n), &f) < 0 || !isfinite(f))
        return E_PROTO;
    *out = value_float(f);
    return 0;
}

/* min and max: a number or nothing. Some programs write the unit again: that is let pass. */
static int read_bound(struct slice s, struct value *out)
{
    *out = value_none();
    return s.n ? read_number(slice_of(s.p, number_length(s)), out) : 0;
}

static int read_item(struct slice item, struct nagios_perf *p)
{
    struct slice min, max, rest, amount = cut(item, ';', &rest);
    p->warn = cut(rest, ';', &rest);
    p->crit = cut(rest, ';', &rest);
    min = cut(rest, ';', &rest);
    max = cut(rest, ';', &rest);
    size_t n = number_length(amount);
    p->value = value_none();
    p->unit = slice_from(amount, n);
    int r = 0;
    if (n)
        r = read_number(slice_of(amount.p, n), &p->value);
    else if (slice_eq(amount, SLICE_LIT("U")))
        p->unit = (struct slice){"", 0};
    else
        r = E_PROTO;
    if (r == 0)
        r = read_bound(min, &p->min);
    return r < 0 ? r : read_bound(max, &p->max);
}

int nagios_next_perf(struct nagios *n, struct strbuf *scratch, struct nagios_perf *out)
{
    struct nagios_perf p;
    for (size_t i = 0; i < 2; i++) {
        struct slice s = trim(n->perf[i]);
        n->perf[i] = s;
        if (s.n == 0)
            continue;
        int r = read_label(&s, scratch, &p.label);
        size_t end = 0;
        while (end < s.n && !is_blank(s.p[end]))
            end++;
        n->perf[i] = slice_from(s, end);
        if (r == 0)
            r = read_item(slice_of(s.p, end), &p);
        if (r < 0)
            return r;
        *out = p;
        return 1;
    }
    return 0;
}
