/* SPDX-License-Identifier: Apache-2.0 */
/* Payload: u8 flags (1 = more follows, 2 = a list begins), u32 number of sensors, then a list of named values
 * each (args.h). Names that are not known are skipped, so that a later version can say more. */
#include "net/sensors.h"

#include "base/text.h"

enum { MORE_FOLLOWS = 1, LIST_BEGINS = 2 };

/* "cpu,disk": names by commas; hashes: of 16 digits, or empty. */
static bool is_list(struct slice list, bool is_hashes)
{
    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        struct slice one = comma ? slice_of(list.p, (size_t)(comma - list.p)) : list;
        list = slice_from(list, one.n + (comma != NULL));
        if (!is_hashes && !text_is_name(one))
            return false;
        for (size_t i = 0; is_hashes && i < one.n; i++)
            if (text_hex_digit(one.p[i]) < 0 || one.n != 16)
                return false;
    }
    return true;
}

static bool is_word(struct slice s)
{
    return s.n <= SENSORS_WORD_MAX && (s.n == 0 || text_is_name(s));
}

static bool is_plain(struct slice s, size_t max)
{
    return s.n <= max && text_is_utf8(s) && !text_has_control(s);
}

static bool is_good(const struct sensors_one *s)
{
    return s->sensor.n && is_plain(s->sensor, SENSORS_NAME_MAX) && is_plain(s->why, SENSORS_WHY_MAX) &&
           is_word(s->mode) && is_word(s->status) && s->events.n <= SENSORS_EVENTS_MAX &&
           s->schemas.n <= SENSORS_EVENTS_MAX && is_list(s->events, false) && is_list(s->schemas, true);
}

static void take_value(struct sensors_one *s, const struct arg *a)
{
    const struct {
        const char *name;
        struct slice *to;
    } texts[] = {{"sensor", &s->sensor}, {"events", &s->events}, {"schemas", &s->schemas},
                 {"mode", &s->mode},     {"status", &s->status}, {"why", &s->why}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (a->value.type == VALUE_TEXT && slice_eq_str(a->name, texts[i].name))
            *texts[i].to = value_slice(a->value);
    if (a->value.type == VALUE_UINT && slice_eq_str(a->name, "every_ms"))
        s->every_ms = a->value.u;
    if (a->value.type == VALUE_INT && slice_eq_str(a->name, "since"))
        s->since_ns = a->value.i;
}

static struct sensors_one read_one(struct args list)
{
    struct slice none = {"", 0};
    struct sensors_one s = {none, none, none, none, none, none, 0, 0};
    struct arg a;
    while (args_next(&list, &a))
        take_value(&s, &a);
    return s;
}

int frame_get_sensors(struct slice payload, struct frame_sensors *out)
{
    struct cursor c = cursor_of(payload);
    uint8_t flags = cursor_u8(&c);
    struct frame_sensors f = {.is_first = flags & LIST_BEGINS, .has_more = flags & MORE_FOLLOWS};
    f.n = cursor_u32(&c);
    if (c.bad || f.n > SENSORS_MAX)
        return E_PROTO;
    f.bytes = slice_of((const char *)c.p, cursor_left(&c));
    for (uint32_t i = 0; i < f.n; i++) {
        struct args list;
        if (!args_get(&c, &list))
            return E_PROTO;
        struct sensors_one s = read_one(list);
        if (!is_good(&s))
            return E_PROTO;
    }
    *out = f;
    return 0;
}

bool sensors_next(struct frame_sensors *list, struct sensors_one *out)
{
    struct cursor c = cursor_of(list->bytes);
    struct args one;
    if (list->n == 0 || !args_get(&c, &one))
        return false;
    list->n--;
    list->bytes = slice_of((const char *)c.p, cursor_left(&c));
    *out = read_one(one);
    return true;
}

void sensors_begin(struct sensors_writer *w, struct strbuf *out)
{
    *w = (struct sensors_writer){.out = out};
}

static void finish(struct sensors_writer *w, bool has_more)
{
    size_t at = frame_begin(w->out, FRAME_SENSORS, 0);
    strbuf_add_char(w->out, (char)((w->has_begun ? 0 : LIST_BEGINS) | (has_more ? MORE_FOLLOWS : 0)));
    strbuf_add_u32(w->out, w->n);
    strbuf_add_slice(w->out, strbuf_slice(&w->bytes));
    w->out->failed = w->out->failed || strbuf_failed(&w->bytes);
    frame_end(w->out, at);
    strbuf_reset(&w->bytes);
    w->n = 0;
    w->has_begun = true;
}

static void put_text(struct args_writer *list, const char *name, struct slice text)
{
    if (text.n)
        args_add_text(list, name, text);
}

bool sensors_add(struct sensors_writer *w, const struct sensors_one *s)
{
    if (w->total == SENSORS_MAX || !is_good(s))
        return false;
    args_writer_reset(&w->one);
    put_text(&w->one, "sensor", s->sensor);
    put_text(&w->one, "events", s->events);
    put_text(&w->one, "schemas", s->schemas);
    put_text(&w->one, "mode", s->mode);
    put_text(&w->one, "status", s->status);
    put_text(&w->one, "why", s->why);
    if (s->every_ms)
        args_add_uint(&w->one, "every_ms", s->every_ms);
    if (s->since_ns)
        args_add(&w->one, SLICE_LIT("since"), value_int(s->since_ns));
    if (w->n && w->bytes.n + w->one.list.n > SENSORS_FRAME_MAX)
        finish(w, true);
    args_put(&w->bytes, args_of(&w->one));
    w->bytes.failed = w->bytes.failed || strbuf_failed(&w->one.list);
    w->n++;
    w->total++;
    return true;
}

void sensors_end(struct sensors_writer *w)
{
    finish(w, false);
    strbuf_fini(&w->bytes);
    args_writer_fini(&w->one);
}
