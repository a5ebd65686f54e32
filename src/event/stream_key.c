/* SPDX-License-Identifier: Apache-2.0 */
#include "event/stream_key.h"

#include <inttypes.h>

static bool is_key(const struct event *e, uint32_t i)
{
    return e->schema->fields[i].role == ROLE_KEY && e->values[i].type != VALUE_NONE;
}

void stream_key_put(struct strbuf *out, const struct event *e)
{
    strbuf_add_text(out, e->host);
    strbuf_add_text(out, e->prog);
    strbuf_add_text(out, e->schema->name);
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (!is_key(e, i))
            continue;
        const struct value *v = &e->values[i];
        strbuf_add_text(out, e->schema->fields[i].name);
        strbuf_add_char(out, (char)v->type);
        if (value_is_text(v->type))
            strbuf_add_text(out, value_slice(*v));
        else
            strbuf_add_u64(out, v->u);
    }
}

void stream_key_print(struct strbuf *out, const struct event *e)
{
    const char *comma = "";
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (!is_key(e, i))
            continue;
        const struct value *v = &e->values[i];
        strbuf_printf(out, "%s%.*s=", comma, SLICE_ARG(e->schema->fields[i].name));
        comma = ",";
        if (v->type == VALUE_TEXT)
            strbuf_add_slice(out, value_slice(*v));
        else if (v->type == VALUE_INT)
            strbuf_printf(out, "%" PRId64, v->i);
        else if (v->type == VALUE_FLOAT)
            strbuf_printf(out, "%.17g", v->f);
        else if (v->type == VALUE_BYTES)
            strbuf_printf(out, "%" PRIu32 " bytes", v->n);
        else
            strbuf_printf(out, "%" PRIu64, v->u);
    }
}
