/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of fields in the catalogue.
 *
 * A class that was decided is a fact; one that was set by hand is a setting besides, "class\tEVENT\tFIELD", which survives
 * the loss of the catalogue. Counts of values of the other class are facts as of the last flush that changed them. What
 * schemas declare is no fact: columns say it. */
#include "archive/catalog_internal.h"

#include "base/cursor.h"

#include <errno.h>

static const char setting_prefix[] = "class\t";

static struct catalog_class *add_class(struct catalog *c, struct catalog_table *t, struct slice field)
{
    struct catalog_class *k = arena_alloc(&c->arena, sizeof *k);
    struct slice name = arena_copy(&c->arena, field);
    if (!k || !name.p || map_put(&t->classes, name, k) < 0)
        return NULL;
    *k = (struct catalog_class){.table = t->def->name, .field = name};
    return k;
}

int class_learn(struct catalog *c, struct catalog_table *t, const struct field *f)
{
    struct catalog_class *k = map_get(&t->classes, f->name);
    struct class_state begin = class_begin(f);
    if (!k) {
        k = add_class(c, t, f->name);
        if (!k)
            return -ENOMEM;
        k->state = begin;
        k->is_known = begin.by != CLASS_PROVISIONAL;
    } else if (k->state.by == CLASS_PROVISIONAL && begin.by == CLASS_DECLARED) {
        k->state.class = begin.class;
        k->state.by = CLASS_DECLARED;
        k->is_known = true;
    }
    return 0;
}

struct catalog_class *catalog_class(struct catalog *c, struct slice table, struct slice field)
{
    const struct catalog_table *t = map_get(&c->by_name, table);
    return t ? map_get(&t->classes, field) : NULL;
}

struct catalog_class *catalog_class_at(struct catalog *c, struct slice table, uint16_t column)
{
    const struct catalog_table *t = map_get(&c->by_name, table);
    return t && column < t->def->n_columns ? map_get(&t->classes, t->def->columns[column].name) : NULL;
}

bool catalog_has_unknown_class(struct catalog *c, struct slice table)
{
    const struct catalog_table *t = map_get(&c->by_name, table);
    void *v;
    for (size_t i = 0; t && map_next(&t->classes, &i, &v);)
        if (!((const struct catalog_class *)v)->is_known)
            return true;
    return false;
}

bool catalog_has_open_class(struct catalog *c, struct slice table)
{
    const struct catalog_table *t = map_get(&c->by_name, table);
    void *v;
    for (size_t i = 0; t && map_next(&t->classes, &i, &v);)
        if (!((const struct catalog_class *)v)->is_known && class_is_open(&((const struct catalog_class *)v)->state))
            return true;
    return false;
}

void catalog_count_column(struct catalog *c, struct slice table, const struct column *column, uint32_t n_rows,
                          bool is_old, int64_t now_ns)
{
    struct catalog_class *k = catalog_class_at(c, table, column->id);
    for (uint32_t i = 0; k && !k->is_known && class_is_open(&k->state) && i < n_rows; i++) {
        struct value v = column_value(column, i);
        if (is_old && v.type == VALUE_TEXT)
            v = value_untyped(value_slice(v)).type == VALUE_NUMBER ? value_float(0) : v; /* it was bare */
        (void)class_count(&k->state, v, now_ns); /* catalog_end_count looks */
    }
}

int catalog_end_count(struct catalog *c, struct slice table)
{
    const struct catalog_table *t = map_get(&c->by_name, table);
    void *v;
    int r = 0;
    for (size_t i = 0; r == 0 && map_next(&t->classes, &i, &v);)
        if (!((const struct catalog_class *)v)->is_known)
            r = catalog_class_changed(c, v);
    return r;
}

/* The next def is made anew: those that are in use stay as they are. */
static int forget_fields(struct catalog *c, struct slice table)
{
    struct catalog_table *t = map_get(&c->by_name, table);
    struct table_def *def = arena_alloc(&c->arena, sizeof *def);
    if (!def)
        return -ENOMEM;
    *def = *t->def;
    def->fields = NULL;
    t->def = def;
    return 0;
}

static int set_fact(struct catalog *c, const struct catalog_class *k)
{
    strbuf_reset(&c->key);
    strbuf_reset(&c->value);
    strbuf_add_text(&c->key, k->table);
    strbuf_add_text(&c->key, k->field);
    strbuf_add_char(&c->value, (char)k->state.class);
    strbuf_add_char(&c->value, (char)k->state.by);
    strbuf_add_u64(&c->value, k->state.numbers);
    strbuf_add_u64(&c->value, k->state.texts);
    strbuf_add_u64(&c->value, k->state.quoted);
    strbuf_add_u64(&c->value, (uint64_t)k->state.first_ns);
    if (strbuf_failed(&c->key) || strbuf_failed(&c->value))
        return -ENOMEM;
    return facts_set(c->facts, FACT_CLASS, strbuf_slice(&c->key), strbuf_slice(&c->value));
}

int catalog_class_changed(struct catalog *c, struct catalog_class *k)
{
    k->is_known = true;
    int r = set_fact(c, k);
    return r < 0 ? r : forget_fields(c, k->table);
}

int catalog_set_class(struct catalog *c, struct slice table, struct slice field, uint8_t class)
{
    struct catalog_class *k = catalog_class(c, table, field);
    struct strbuf name = {0};
    if (!k)
        return -ENOENT;
    strbuf_printf(&name, "%s%.*s\t%.*s", setting_prefix, SLICE_ARG(table), SLICE_ARG(field));
    int r = strbuf_failed(&name) ? -ENOMEM
                                 : catalog_set_setting(c, strbuf_slice(&name), slice_str(class_name(class)));
    strbuf_fini(&name);
    if (r < 0)
        return r;
    k->state.class = class;
    k->state.by = CLASS_BY_HAND;
    return catalog_class_changed(c, k);
}

bool catalog_settle_classes(struct catalog *c)
{
    bool is_any = false;
    for (size_t i = 0; i < c->n_tables; i++) {
        void *v;
        bool is_new = false;
        for (size_t at = 0; map_next(&c->tables[i]->classes, &at, &v);) {
            struct catalog_class *k = v;
            uint64_t *of[2] = {&k->state.numbers, &k->state.texts};
            int other = k->state.class == CLASS_NUMBER;
            uint64_t before = *of[other];
            for (int side = 0; side < 2; side++) {
                *of[side] += k->sealed[side] > k->unsealed[side] ? k->sealed[side] - k->unsealed[side] : 0;
                k->sealed[side] = k->unsealed[side] = 0;
            }
            bool counts = k->state.by == CLASS_DECIDED || k->state.by == CLASS_BY_HAND;
            if (counts && *of[other] != before)
                is_new = set_fact(c, k) == 0 || is_new; /* without memory: with the next that changes */
        }
        if (is_new)
            is_any = forget_fields(c, c->tables[i]->def->name) == 0 || is_any;
    }
    return is_any;
}

/* ---------------------------------------------------------------- loading */

static int load_class(struct catalog *c, const struct fact *fact)
{
    struct cursor key = cursor_of(fact->key), v = cursor_of(fact->value);
    struct slice table = cursor_text(&key), field = cursor_text(&key);
    struct class_state s = {.class = cursor_u8(&v)};
    s.by = cursor_u8(&v);
    s.numbers = cursor_u64(&v);
    s.texts = cursor_u64(&v);
    s.quoted = cursor_u64(&v);
    s.first_ns = (int64_t)cursor_u64(&v);
    if (key.bad || v.bad || s.class == CLASS_UNKNOWN || s.class > CLASS_TEXT || s.by > CLASS_BY_HAND)
        return E_PROTO;
    struct catalog_class *k = catalog_class(c, table, field);
    if (!k || (k->is_known && memcmp(&k->state, &s, sizeof s) == 0))
        return 0;
    k->state = s;
    k->is_known = true;
    return forget_fields(c, k->table);
}

/* A class that was set by hand, of which the fact was lost with the catalogue. */
static int load_setting(struct catalog *c, const struct fact *fact)
{
    struct slice prefix = slice_str(setting_prefix), rest;
    uint8_t class;
    if (!slice_starts(fact->key, prefix) || class_parse(fact->value, &class) < 0)
        return 0;
    rest = slice_from(fact->key, prefix.n);
    const char *tab = memchr(rest.p, '\t', rest.n);
    if (!tab)
        return 0;
    size_t n = (size_t)(tab - rest.p);
    struct catalog_class *k = catalog_class(c, slice_of(rest.p, n), slice_from(rest, n + 1));
    if (!k || k->state.by == CLASS_BY_HAND)
        return 0;
    k->state.class = class;
    k->state.by = CLASS_BY_HAND;
    k->is_known = true;
    return forget_fields(c, k->table);
}

int class_load(struct catalog *c)
{
    const struct fact *fact;
    int r = 0;
    for (size_t i = 0; r == 0 && (fact = facts_next(c->facts, FACT_CLASS, &i)) != NULL;)
        r = load_class(c, fact);
    for (size_t i = 0; r == 0 && (fact = facts_next(c->facts, FACT_SETTING, &i)) != NULL;)
        r = load_setting(c, fact);
    return r;
}
