/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered is a list of lines: their names, copied one after the other into one buffer, and the index of each
 * in the table of names, or UNKNOWN. A line that is not what it was last time cuts the list there; it and the lines
 * behind it are looked up and remembered anew, so that memory stays as small as the file. */
#include "sensor/keyed.h"

#include "base/mem.h"
#include "sensor/scan.h"

#include <assert.h>

enum { UNKNOWN = 65535, NAME_MAX_BYTES = 255 };

struct keyed_line {
    uint32_t at; /* of its name in text */
    uint16_t n;
    uint16_t field; /* UNKNOWN: nobody wants it */
};

void keyed_init(struct keyed *k, const struct keyed_name *names, size_t n)
{
    assert(n < UNKNOWN);
    *k = (struct keyed){.names = names, .n_names = n};
    k->lines = mem_alloc(KEYED_LINES_MAX * sizeof *k->lines);
}

void keyed_fini(struct keyed *k)
{
    mem_free(k->lines);
    strbuf_fini(&k->text);
    *k = (struct keyed){0};
}

static inline bool ends_name(char c)
{
    return c == ':' || scan_is_blank(c) || c == '\n';
}

static uint16_t look_up(const struct keyed *k, struct slice name, size_t from)
{
    for (size_t i = 0; i < k->n_names; i++) {
        size_t at = from + i < k->n_names ? from + i : from + i - k->n_names;
        if (slice_eq(k->names[at].name, name))
            return (uint16_t)at;
    }
    return UNKNOWN;
}

/* The line at p is not what it was, or was not there. The field behind that of the line before is tried first. */
static struct keyed_line learn(struct keyed *k, size_t number, const char *p, const char *end, size_t from)
{
    size_t n = 0;
    while (p + n < end && !ends_name(p[n]))
        n++;
    if (number < k->n_lines) {
        k->n_lines = number;
        k->text.n = k->lines[number].at;
        k->text.p[k->text.n] = '\0';
    }
    struct keyed_line line = {.at = (uint32_t)k->text.n, .n = (uint16_t)n, .field = UNKNOWN};
    if (n > NAME_MAX_BYTES) {
        line.n = 0; /* none of ours: the caller looks for the line's end from here */
        return line;
    }
    line.field = look_up(k, slice_of(p, n), from);
    if (number == k->n_lines && number < KEYED_LINES_MAX) {
        strbuf_add(&k->text, p, n);
        if (strbuf_failed(&k->text)) { /* nothing is remembered, and the next time it is tried again */
            strbuf_reset(&k->text);
            k->n_lines = 0;
        } else {
            k->lines[k->n_lines++] = line;
        }
    }
    return line;
}

static inline bool is_line(const struct keyed *k, const struct keyed_line *line, const char *p, const char *end)
{
    return (size_t)(end - p) > line->n && slice_bytes_eq(p, k->text.p + line->at, line->n) && ends_name(p[line->n]);
}

/* The number behind the name and what follows it, up to the line's end. */
static struct value read_number(struct scan *s, uint8_t unit)
{
    uint64_t v;
    if (s->p < s->end && *s->p == ':')
        s->p++;
    if (!scan_uint(s, &v))
        return value_none();
    scan_blanks(s);
    if (unit == KEYED_KB) {
        if (s->end - s->p < 2 || s->p[0] != 'k' || s->p[1] != 'B')
            return value_none();
        s->p += 2;
    }
    if (s->p >= s->end || *s->p != '\n')
        return value_none();
    if (unit == KEYED_PLAIN)
        return value_uint(v);
    return v <= UINT64_MAX / 1024 ? value_uint(v * 1024) : value_none();
}

size_t keyed_read(struct keyed *k, struct slice text, struct value *row)
{
    struct scan s = scan_of(text);
    size_t found = 0, next = 0;
    for (size_t number = 0; s.p < s.end; number++) {
        struct keyed_line line = number < k->n_lines && is_line(k, &k->lines[number], s.p, s.end)
                                     ? k->lines[number]
                                     : learn(k, number, s.p, s.end, next);
        s.p += line.n;
        if (line.field != UNKNOWN) {
            struct value v = read_number(&s, k->names[line.field].unit);
            if (v.type != VALUE_NONE) {
                row[line.field] = v;
                found++;
            }
            next = (size_t)line.field + 1;
        }
        if (s.p < s.end && *s.p != '\n')
            s.p = memchr(s.p, '\n', (size_t)(s.end - s.p));
        if (!s.p)
            break; /* cut */
        s.p += s.p < s.end;
    }
    return found;
}
