/* SPDX-License-Identifier: Apache-2.0 */
#include "event/samples_layout.h"

#include "base/mem.h"
#include "base/text.h"

void samples_stream_init(struct samples_stream *s, const struct schema *schema, struct slice prog)
{
    *s = (struct samples_stream){.schema = schema, .prog = prog, .base = s->base, .value_at = s->value_at};
    if (schema->n_fields)
        memset(s->base, 0, schema->n_fields * sizeof *s->base);
    s->names = schema->name.n + 32;
    for (uint32_t i = 0; i < schema->n_fields; i++) {
        s->names += schema->fields[i].name.n + 8;
        if (schema->fields[i].role != ROLE_KEY)
            s->value_at[s->n_values++] = (uint16_t)i;
    }
}

struct samples_stream *samples_stream_create(const struct schema *schema, struct slice prog)
{
    struct samples_stream *s =
        mem_try_alloc(sizeof *s + schema->n_fields * (sizeof *s->base + sizeof *s->value_at) + prog.n + 1);
    if (!s)
        return NULL;
    s->base = (struct samples_base *)(s + 1);
    s->value_at = (uint16_t *)(s->base + schema->n_fields);
    char *text = (char *)(s->value_at + schema->n_fields);
    if (prog.n)
        memcpy(text, prog.p, prog.n);
    samples_stream_init(s, schema_ref(schema), slice_of(text, prog.n));
    return s;
}

void samples_stream_destroy(struct samples_stream *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->schema->n_fields; i++)
        if (value_is_text(s->schema->fields[i].type))
            mem_free(s->base[i].text);
    schema_unref(s->schema);
    mem_free(s);
}

size_t samples_stream_cost(const struct samples_stream *s)
{
    return 128 + 32 * s->schema->n_fields + s->prog.n + s->text;
}

size_t samples_schema_cost(const struct schema *s)
{
    size_t n = 128 + s->name.n;
    for (uint32_t i = 0; i < s->n_fields; i++)
        n += 64 + s->fields[i].name.n + s->fields[i].unit.n + s->fields[i].help.n;
    return n;
}

bool samples_sets_one_twice(const struct schema *s, const struct value *values)
{
    for (uint32_t i = 1; i < s->n_fields && !s->names_once; i++)
        for (uint32_t k = 0; k < i; k++)
            if (values[i].type != VALUE_NONE && values[k].type != VALUE_NONE &&
                slice_eq(s->fields[i].name, s->fields[k].name))
                return true;
    return false;
}

bool samples_is_prog(struct slice prog)
{
    return prog.n <= EVENT_ORIGIN_MAX && text_is_utf8(prog) && !text_has_control(prog);
}
