/* SPDX-License-Identifier: Apache-2.0 */
#include "event/class.h"

#include "base/num.h"

const char *class_name(uint8_t class)
{
    return class == CLASS_NUMBER ? "number" : class == CLASS_TEXT ? "text" : "unknown";
}

const char *class_by_text(uint8_t by)
{
    static const char *const texts[] = {"provisional", "decided", "by name", "declared", "by hand"};
    return by < sizeof texts / sizeof *texts ? texts[by] : "unknown";
}

int class_parse(struct slice s, uint8_t *out)
{
    if (slice_eq(s, SLICE_LIT("number")))
        *out = CLASS_NUMBER;
    else if (slice_eq(s, SLICE_LIT("text")))
        *out = CLASS_TEXT;
    else
        return E_PROTO;
    return 0;
}

static bool ends_nocase(struct slice s, struct slice end)
{
    return s.n > end.n && slice_eq_nocase(slice_from(s, s.n - end.n), end);
}

uint8_t class_by_name(struct slice field)
{
    static const char *const whole[] = {"id",      "guid",   "job",   "step", "version",
                                        "release", "serial", "trace", "span", "parent"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (slice_eq_nocase(field, slice_str(whole[i])))
            return CLASS_TEXT;
    if (ends_nocase(field, SLICE_LIT(".id")) || ends_nocase(field, SLICE_LIT("_id")) ||
        ends_nocase(field, SLICE_LIT("_version")))
        return CLASS_TEXT;
    return CLASS_UNKNOWN;
}

bool class_is_declared(const struct field *f)
{
    bool has_kind = f->kind == KIND_COUNTER || f->kind == KIND_GAUGE || f->kind == KIND_STATE;
    return has_kind || f->unit.n > 0 || f->help.n > 0;
}

uint8_t class_of_type(uint8_t value_type)
{
    return value_type == VALUE_TEXT || value_type == VALUE_BYTES ? CLASS_TEXT : CLASS_NUMBER;
}

struct class_state class_begin(const struct field *f)
{
    if (class_is_declared(f))
        return (struct class_state){.class = class_of_type(f->type), .by = CLASS_DECLARED};
    if (f->role == ROLE_KEY || class_by_name(f->name) == CLASS_TEXT)
        return (struct class_state){.class = CLASS_TEXT, .by = CLASS_BY_NAME};
    return (struct class_state){.class = class_of_type(f->type), .by = CLASS_PROVISIONAL};
}

bool class_count_many(struct class_state *s, uint64_t numbers, uint64_t texts, uint64_t quoted, int64_t now_ns)
{
    uint8_t class = s->class, by = s->by;
    s->first_ns = s->first_ns ? s->first_ns : now_ns;
    s->numbers += numbers;
    s->texts += texts;
    s->quoted += quoted;
    if (s->by != CLASS_PROVISIONAL)
        return false;
    s->class = s->numbers > s->texts ? CLASS_NUMBER : CLASS_TEXT;
    if (s->numbers + s->texts + s->quoted >= CLASS_VALUES || now_ns - s->first_ns >= CLASS_NS)
        s->by = CLASS_DECIDED;
    return s->class != class || s->by != by;
}

bool class_count(struct class_state *s, struct value v, int64_t now_ns)
{
    if (v.type == VALUE_NONE)
        return false;
    bool is_number = v.type != VALUE_TEXT && v.type != VALUE_BYTES;
    bool is_quoted = v.type == VALUE_TEXT && num_written(value_slice(v)).is != NUM_NOT;
    return class_count_many(s, is_number, !is_number && !is_quoted, is_quoted, now_ns);
}

struct value class_value(uint8_t class, struct value v, char buf[VALUE_SPELLING_MAX])
{
    if (class == CLASS_NUMBER)
        return value_number(v);
    if (class != CLASS_TEXT || v.type == VALUE_TEXT || v.type == VALUE_BYTES || v.type == VALUE_NONE)
        return v;
    return value_text(value_spelling(&v, buf));
}

uint8_t class_view(struct slice name, struct slice *base)
{
    static const struct slice text = {":text", 5}, number = {":number", 7};
    bool is_text = ends_nocase(name, text), is_number = ends_nocase(name, number);
    *base = slice_of(name.p, name.n - (is_text ? text.n : is_number ? number.n : 0));
    return is_text ? CLASS_TEXT : is_number ? CLASS_NUMBER : CLASS_UNKNOWN;
}

uint8_t class_of(const struct class_source *source, const struct schema *s, struct slice field)
{
    struct class_state state;
    if (source && source->get(source->arg, s->name, field, &state))
        return state.class;
    for (uint32_t i = 0; i < s->n_fields; i++) {
        if (!slice_eq(s->fields[i].name, field))
            continue;
        state = class_begin(&s->fields[i]);
        if (state.by != CLASS_PROVISIONAL)
            return state.class;
    }
    return CLASS_UNKNOWN;
}
