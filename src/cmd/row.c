/* SPDX-License-Identifier: Apache-2.0 */
/* Layout: the schema's address, u8 level, u8 length of host, u8 of prog, host, prog; then for each field of
 * the schema u8 type and, unless it is missing: u32 length and bytes (text, bytes), or 8 bytes (all others).
 * Native byte order, nothing aligned. A row is trusted: this process wrote it, to a file that nobody else can
 * open. */
#include "cmd/row.h"

#include <assert.h>
#include <errno.h>

void row_write(struct strbuf *out, const struct event *e)
{
    assert(e->host.n <= UINT8_MAX && e->prog.n <= UINT8_MAX); /* EVENT_ORIGIN_MAX */
    const unsigned char head[] = {e->level, (unsigned char)e->host.n, (unsigned char)e->prog.n};
    strbuf_add(out, &e->schema, sizeof e->schema);
    strbuf_add(out, head, sizeof head);
    strbuf_add_slice(out, e->host);
    strbuf_add_slice(out, e->prog);
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        const struct value *v = &e->values[i];
        strbuf_add(out, &v->type, 1);
        if (value_is_text(v->type)) {
            strbuf_add(out, &v->n, sizeof v->n);
            strbuf_add(out, v->p, v->n);
        } else if (v->type != VALUE_NONE) {
            strbuf_add(out, &v->u, sizeof v->u);
        }
    }
}

static struct slice take(const char **at, size_t n)
{
    struct slice s = {*at, n};
    *at += n;
    return s;
}

static struct value take_value(const char **at)
{
    struct value v = {.type = (uint8_t) * *at};
    (*at)++;
    if (value_is_text(v.type)) {
        memcpy(&v.n, take(at, sizeof v.n).p, sizeof v.n);
        v.p = take(at, v.n).p;
    } else if (v.type != VALUE_NONE) {
        memcpy(&v.u, take(at, sizeof v.u).p, sizeof v.u);
    }
    return v;
}

int row_read(struct slice row, int64_t time_ns, struct arena *arena, struct event *out)
{
    struct slice copy = arena_copy(arena, row);
    if (!copy.p)
        return -ENOMEM;
    const char *at = copy.p;
    struct event e = {.time_ns = time_ns};
    memcpy(&e.schema, take(&at, sizeof e.schema).p, sizeof e.schema);
    const unsigned char *head = (const unsigned char *)take(&at, 3).p;
    e.level = head[0];
    e.host = take(&at, head[1]);
    e.prog = take(&at, head[2]);
    struct value *values = arena_alloc(arena, (e.schema->n_fields + 1) * sizeof *values);
    if (!values)
        return -ENOMEM;
    for (uint32_t i = 0; i < e.schema->n_fields; i++)
        values[i] = take_value(&at);
    assert(at == copy.p + copy.n);
    e.values = values;
    *out = e;
    return 0;
}
