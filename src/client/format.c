/* SPDX-License-Identifier: Apache-2.0 */
/* A format is parsed anew at each call: it is a few words long, and remembering it by address would be wrong
 * for one that is built at run time. Flags and widths, which say how a number looks, are read over; a
 * precision counts for %s, where it says how much there is. About 15 ns a field. */
#include "client/format.h"

#include "base/err.h"

#include <errno.h>
#include <stdint.h>

enum size_class {
    SIZE_CHAR,
    SIZE_SHORT,
    SIZE_INT,
    SIZE_LONG,
    SIZE_LONG_LONG,
    SIZE_SIZE,
    SIZE_MAX_T,
    SIZE_PTRDIFF
};

struct conversion {
    enum size_class size;
    int precision; /* -1 = none */
    char letter;
    bool is_long_double;
};

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

static const char *read_precision(const char *p, va_list *ap, struct conversion *c)
{
    if (*p != '.')
        return p;
    p++;
    if (*p == '*') {
        c->precision = va_arg(*ap, int);
        return p + 1;
    }
    c->precision = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        c->precision = c->precision < 1 << 24 ? c->precision * 10 + (*p - '0') : c->precision;
    return p;
}

static const char *read_size(const char *p, struct conversion *c)
{
    c->size = SIZE_INT;
    switch (*p) {
    case 'h':
        c->size = p[1] == 'h' ? SIZE_CHAR : SIZE_SHORT;
        return p + (p[1] == 'h' ? 2 : 1);
    case 'l':
        c->size = p[1] == 'l' ? SIZE_LONG_LONG : SIZE_LONG;
        return p + (p[1] == 'l' ? 2 : 1);
    case 'L':
        c->is_long_double = true;
        return p + 1;
    case 'z':
        c->size = SIZE_SIZE;
        return p + 1;
    case 'j':
        c->size = SIZE_MAX_T;
        return p + 1;
    case 't':
        c->size = SIZE_PTRDIFF;
        return p + 1;
    default:
        return p;
    }
}

/* What follows a '%'; returns behind it. */
static const char *read_conversion(const char *p, va_list *ap, struct conversion *c)
{
    *c = (struct conversion){.precision = -1};
    while (*p && strchr("-+ #0'", *p))
        p++;
    if (*p == '*') {
        (void)va_arg(*ap, int); /* a width: how it looks, not what it is */
        p++;
    }
    p = read_precision(skip_digits(p), ap, c);
    p = read_size(p, c);
    c->letter = *p;
    return *p ? p + 1 : p;
}

static int64_t take_signed(enum size_class size, va_list *ap)
{
    switch (size) {
    case SIZE_CHAR:
        return (signed char)va_arg(*ap, int);
    case SIZE_SHORT:
        return (short)va_arg(*ap, int);
    case SIZE_INT:
        return va_arg(*ap, int);
    case SIZE_LONG:
        return va_arg(*ap, long);
    case SIZE_LONG_LONG:
        return va_arg(*ap, long long);
    case SIZE_SIZE:
        return va_arg(*ap, ssize_t);
    case SIZE_MAX_T:
        return va_arg(*ap, intmax_t);
    default:
        return va_arg(*ap, ptrdiff_t);
    }
}

static uint64_t take_unsigned(enum size_class size, va_list *ap)
{
    switch (size) {
    case SIZE_CHAR:
        return (unsigned char)va_arg(*ap, unsigned);
    case SIZE_SHORT:
        return (unsigned short)va_arg(*ap, unsigned);
    case SIZE_INT:
        return va_arg(*ap, unsigned);
    case SIZE_LONG:
        return va_arg(*ap, unsigned long);
    case SIZE_LONG_LONG:
        return va_arg(*ap, unsigned long long);
    case SIZE_SIZE:
        return va_arg(*ap, size_t);
    case SIZE_MAX_T:
        return va_arg(*ap, uintmax_t);
    default:
        return (uint64_t)va_arg(*ap, ptrdiff_t);
    }
}

static char *scratch(struct format_values *out, size_t n)
{
    char *p = out->scratch + out->scratch_n;
    if (n > sizeof out->scratch - out->scratch_n)
        return NULL;
    out->scratch_n += n;
    return p;
}

static int take_char(struct format_values *out, va_list *ap, struct value *v)
{
    char *p = scratch(out, 1);
    int c = va_arg(*ap, int);
    if (!p)
        return E_LIMIT;
    *p = (char)c;
    *v = value_text(slice_of(p, 1));
    return 0;
}

static int take_pointer(struct format_values *out, va_list *ap, struct value *v)
{
    static const char digits[] = "0123456789abcdef";
    uintptr_t x = (uintptr_t)va_arg(*ap, void *);
    size_t n = 2;
    for (uintptr_t rest = x; n == 2 || rest; rest >>= 4)
        n++;
    char *p = scratch(out, n);
    if (!p)
        return E_LIMIT;
    *v = value_text(slice_of(p, n));
    for (size_t i = n; i-- > 2; x >>= 4)
        p[i] = digits[x & 15];
    memcpy(p, "0x", 2);
    return 0;
}

static int take_text(const struct conversion *c, va_list *ap, struct value *v)
{
    const char *s = va_arg(*ap, const char *);
    size_t max = EVENT_TEXT_MAX + 1;
    if (c->precision >= 0 && (size_t)c->precision < max)
        max = (size_t)c->precision;
    *v = s ? value_text(slice_of(s, strnlen(s, max))) : value_none();
    return v->n > EVENT_TEXT_MAX ? E_LIMIT : 0;
}

static int take_argument(const struct conversion *c, va_list *ap, struct format_values *out, struct value *v)
{
    switch (c->letter) {
    case 'd':
    case 'i':
        *v = value_int(take_signed(c->size, ap));
        return 0;
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        *v = value_uint(take_unsigned(c->size, ap));
        return 0;
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'e':
    case 'E':
        *v = value_float(c->is_long_double ? (double)va_arg(*ap, long double) : va_arg(*ap, double));
        return 0;
    case 'c':
        return take_char(out, ap, v);
    case 's':
        return take_text(c, ap, v);
    case 'p':
        return take_pointer(out, ap, v);
    default:
        return -EINVAL;
    }
}

/* name=conversion or name=text, up to the next blank; returns behind it, NULL on failure (*r). */
static const char *take_field(const char *p, va_list *ap, struct format_values *out, int *r)
{
    const char *name = p;
    struct value v;
    while (*p && *p != '=' && *p != ' ')
        p++;
    if (*p != '=' || p == name) {
        *r = -EINVAL;
        return NULL;
    }
    struct slice key = {name, (size_t)(p - name)};
    const char *text = ++p;
    if (*p == '%' && p[1] != '%') {
        struct conversion c;
        p = read_conversion(p + 1, ap, &c);
        *r = take_argument(&c, ap, out, &v);
        if (*r == 0 && *p && *p != ' ')
            *r = -EINVAL;
    } else {
        while (*p && *p != ' ' && *p != '%')
            p++;
        v = value_untyped(slice_of(text, (size_t)(p - text)));
        *r = *p == '%' ? -EINVAL : 0;
    }
    if (*r == 0 && v.type != VALUE_NONE)
        out->at[out->n++] = (struct named_value){key, v};
    return *r == 0 ? p : NULL;
}

int format_parse(const char *format, va_list *ap, struct format_values *out)
{
    int r = 0;
    out->n = out->scratch_n = 0;
    for (const char *p = format; *p;) {
        if (*p == ' ') {
            p++;
            continue;
        }
        if (out->n == EVENT_FIELDS_MAX)
            return E_LIMIT;
        p = take_field(p, ap, out, &r);
        if (!p)
            return r;
    }
    return 0;
}
