/* SPDX-License-Identifier: Apache-2.0 */
/* Events whose fields are known only at run time. They go through the same rings as those of GRIDLINE_EVENT,
 * with their names in the record (record.h); the drainer learns a schema from them. So these calls do not
 * wait either. What is checked here is what the caller should hear of; text over the limit is found by the
 * drainer. */
#include "base/err.h"
#include "base/text.h"
#include "client/format.h"
#include "client/handle.h"
#include "client/record.h"
#include "event/level.h"

#include <errno.h>

static char *put(char *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    return to + n;
}

static size_t value_size(const struct value *v)
{
    return value_is_text(v->type) ? 4 + (size_t)v->n : 8;
}

static size_t record_size(size_t name_n, const struct named_value *v, size_t n)
{
    size_t size = sizeof(struct record) + sizeof(struct dynamic_head) + name_n;
    for (size_t i = 0; i < n; i++)
        size += 2 + v[i].name.n + value_size(&v[i].value);
    return (size + 7) & ~(size_t)7;
}

static char *put_field(char *to, const struct named_value *v)
{
    const char head[2] = {(char)v->value.type, (char)v->name.n};
    to = put(to, head, 2);
    to = put(to, v->name.p, v->name.n);
    if (!value_is_text(v->value.type))
        return put(to, &v->value.u, 8);
    to = put(to, &v->value.n, 4);
    return v->value.n ? put(to, v->value.p, v->value.n) : to;
}

static bool names_are_good(struct slice event, const struct named_value *v, size_t n)
{
    bool good = text_is_name(event);
    for (size_t i = 0; i < n && good; i++)
        good = text_is_name(v[i].name);
    return good;
}

static int drop(struct gridline *g, int code)
{
    atomic_fetch_add_explicit(&g->dropped[DROP_TOO_LARGE], 1, memory_order_relaxed);
    return code;
}

/* time_ns 0 = now. */
static int write_named(struct gridline *g, int64_t time_ns, int level, struct slice event,
                       const struct named_value *v, size_t n)
{
    if (!names_are_good(event, v, n))
        return drop(g, -EINVAL);
    struct ring *r;
    struct record *record = ring_reserve(g, record_size(event.n, v, n), &r);
    if (!record)
        return -ENOBUFS; /* and counted */
    record->site = RECORD_DYNAMIC | (time_ns ? RECORD_AT : 0);
    if (time_ns)
        record->ticks = (uint64_t)time_ns;
    struct dynamic_head head = {.n_fields = (uint16_t)n, .level = (uint8_t)level, .name_n = (uint8_t)event.n};
    char *to = put((char *)(record + 1), &head, sizeof head);
    to = put(to, event.p, event.n);
    for (size_t i = 0; i < n; i++)
        to = put_field(to, &v[i]);
    gridline_end((struct gridline_slot){(char *)(record + 1), r});
    return 0;
}

/* Is there anything to do at all? */
static int check_call(struct gridline *g, int level, const char *event, bool *is_on)
{
    if (!event || level < 0 || level >= LEVEL_COUNT)
        return drop(g, -EINVAL);
    *is_on = activate_is_on(g, level, slice_str(event));
    return 0;
}

static int write_format(struct gridline *g, int64_t time_ns, int level, const char *event, const char *format,
                        va_list ap)
{
    /* 11 KiB that need no clearing: setting them would take longer than all the rest */
    __attribute__((uninitialized)) struct format_values values;
    bool is_on = false;
    int r = check_call(g, level, event, &is_on);
    if (r < 0 || !is_on)
        return r;
    va_list args;
    va_copy(args, ap);
    r = format ? format_parse(format, &args, &values) : -EINVAL;
    va_end(args);
    if (r < 0)
        return drop(g, r == E_LIMIT ? -E2BIG : r);
    return write_named(g, time_ns, level, slice_str(event), values.at, values.n);
}

int gridline_vwrite(gridline *g, int level, const char *event, const char *format, va_list ap)
{
    if (!g)
        return 0;
    int saved = errno, r = write_format(g, 0, level, event, format, ap);
    errno = saved;
    return r;
}

int gridline_write(gridline *g, int level, const char *event, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int r = gridline_vwrite(g, level, event, format, ap);
    va_end(ap);
    return r;
}

int gridline_write_at(gridline *g, int64_t time_ns, int level, const char *event, const char *format, ...)
{
    if (!g)
        return 0;
    int saved = errno;
    va_list ap;
    va_start(ap, format);
    int r = write_format(g, time_ns, level, event, format, ap);
    va_end(ap);
    errno = saved;
    return r;
}

/* VALUE_NONE for a missing text; -EINVAL for a letter that is no type. */
static int value_from(const struct gridline_value *from, struct value *to)
{
    size_t n = from->n;
    *to = value_none();
    switch (from->type) {
    case 'i':
        *to = value_int(from->v.i);
        return 0;
    case 'u':
        *to = value_uint(from->v.u);
        return 0;
    case 'f':
        *to = value_float(from->v.f);
        return 0;
    case 'b':
        *to = value_bool(from->v.u != 0);
        return 0;
    case 't':
    case 'x':
    case 'n':
        if (!from->v.p)
            return 0;
        if (from->type != 'x' && n == (size_t)-1)
            n = strlen(from->v.p);
        if (n > EVENT_TEXT_MAX)
            return E_LIMIT;
        *to = from->type == 't'   ? value_text(slice_of(from->v.p, n))
              : from->type == 'n' ? value_untyped(slice_of(from->v.p, n))
                                  : value_bytes(slice_of(from->v.p, n));
        return 0;
    default:
        return -EINVAL;
    }
}

static int named_from(const struct gridline_value *from, size_t n, struct named_value *to, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        struct named_value *v = &to[*count];
        int r = from[i].name ? value_from(&from[i], &v->value) : -EINVAL;
        if (r < 0)
            return r;
        v->name = slice_str(from[i].name);
        *count += v->value.type != VALUE_NONE;
    }
    return 0;
}

int gridline_write_values(gridline *g, int64_t time_ns, int level, const char *event,
                          const struct gridline_value *values, size_t n)
{
    __attribute__((uninitialized)) struct named_value named[EVENT_FIELDS_MAX]; /* as in write_format */
    size_t count;
    bool is_on = false;
    if (!g)
        return 0;
    int saved = errno, r = check_call(g, level, event, &is_on);
    if (r == 0 && is_on) {
        r = n > EVENT_FIELDS_MAX ? E_LIMIT : n && !values ? -EINVAL : named_from(values, n, named, &count);
        r = r < 0 ? drop(g, r == E_LIMIT ? -E2BIG : r)
                  : write_named(g, time_ns, level, slice_str(event), named, count);
    }
    errno = saved;
    return r;
}
