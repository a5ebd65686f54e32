/* SPDX-License-Identifier: Apache-2.0 */
/* A stream is known by its name and key values as text; its last values are kept for the rates. */
#include "cmd/sense_table.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/file.h"
#include "cmd/table.h"

#include <unistd.h>

struct shown {
    int64_t time_ns;
    size_t n;
    struct value *values; /* numbers only */
    char key[];
};

struct sense_table {
    bool has_rates;
    struct map shown; /* "name key=value ..." -> struct shown */
    struct strbuf text, key;
};

struct sense_table *sense_table_create(bool has_rates)
{
    struct sense_table *t = mem_alloc(sizeof *t);
    t->has_rates = has_rates;
    return t;
}

void sense_table_destroy(struct sense_table *t)
{
    void *v;
    if (!t)
        return;
    for (size_t i = 0; map_next(&t->shown, &i, &v);) {
        mem_free(((struct shown *)v)->values);
        mem_free(v);
    }
    map_fini(&t->shown);
    strbuf_fini(&t->text);
    strbuf_fini(&t->key);
    mem_free(t);
}

static void make_key(struct strbuf *key, const struct event *e)
{
    strbuf_reset(key);
    strbuf_add_slice(key, e->schema->name);
    for (size_t i = 0; i < e->schema->n_fields; i++) {
        const struct field *f = &e->schema->fields[i];
        if (f->role != ROLE_KEY || e->values[i].type == VALUE_NONE)
            continue;
        strbuf_printf(key, "  %.*s=", SLICE_ARG(f->name));
        table_add_value(key, e->values[i]);
    }
}

static struct shown *find(struct sense_table *t, const struct event *e)
{
    struct shown *s = map_get(&t->shown, strbuf_slice(&t->key));
    if (s && s->n == e->schema->n_fields)
        return s;
    if (s) {
        (void)map_remove(&t->shown, strbuf_slice(&t->key)); /* another version of the schema */
        mem_free(s->values);
        mem_free(s);
    }
    s = mem_alloc(sizeof *s + t->key.n + 1);
    memcpy(s->key, t->key.p, t->key.n + 1);
    s->n = e->schema->n_fields;
    s->values = mem_alloc((s->n + 1) * sizeof *s->values);
    if (map_put(&t->shown, slice_of(s->key, t->key.n), s) == 0)
        return s;
    mem_free(s->values);
    mem_free(s);
    return NULL;
}

/* Per second; none when the counter went back: that is a gap, not a rate. */
static struct value rate_of(struct value before, struct value now, int64_t ns)
{
    if (before.type != now.type || ns <= 0 || (now.type != VALUE_UINT && now.type != VALUE_INT) ||
        now.u < before.u)
        return value_none();
    return value_float((double)(now.u - before.u) * 1e9 / (double)ns);
}

static void add_line(struct sense_table *t, const struct event *e, size_t i, const struct shown *before)
{
    const struct field *f = &e->schema->fields[i];
    struct value v = e->values[i];
    size_t start = t->text.n;
    strbuf_printf(&t->text, "  %-26.*s ", SLICE_ARG(f->name));
    table_add_value(&t->text, v);
    while (t->text.n - start < 50)
        strbuf_add_char(&t->text, ' ');
    strbuf_printf(&t->text, " %.*s", SLICE_ARG(f->unit));
    struct value rate = value_none();
    if (t->has_rates && before && before->time_ns && f->kind == KIND_COUNTER)
        rate = rate_of(before->values[i], v, e->time_ns - before->time_ns);
    if (rate.type != VALUE_NONE) {
        while (t->text.n - start < 62)
            strbuf_add_char(&t->text, ' ');
        strbuf_printf(&t->text, " %.1f/s", rate.f);
    }
    while (t->text.n > start && t->text.p[t->text.n - 1] == ' ')
        t->text.n--;
    strbuf_add_char(&t->text, '\n');
}

static void add_event(struct sense_table *t, const struct event *e)
{
    make_key(&t->key, e);
    struct shown *s = find(t, e);
    strbuf_add_slice(&t->text, strbuf_slice(&t->key));
    strbuf_add_char(&t->text, '\n');
    for (size_t i = 0; i < e->schema->n_fields; i++)
        if (e->schema->fields[i].role != ROLE_KEY && e->values[i].type != VALUE_NONE)
            add_line(t, e, i, s);
    if (!s)
        return;
    s->time_ns = e->time_ns;
    for (size_t i = 0; i < s->n; i++)
        s->values[i] = value_is_text(e->values[i].type) ? value_none() : e->values[i];
}

int sense_table_print(struct sense_table *t, const struct batch *b)
{
    strbuf_reset(&t->text);
    for (size_t i = 0; i < b->n; i++)
        add_event(t, &b->events[i]);
    return file_write_all(STDOUT_FILENO, strbuf_slice(&t->text));
}
