/* SPDX-License-Identifier: Apache-2.0 */
/* What rules remember. An entry is one allocation: its links, its key and its fields in bytes, each
 *
 *   varint name length   name   u8 type   value: u64 for numbers and bools, varint length and bytes for text
 *
 * Entries are linked by age, newest first; putting one again makes it the newest. In a queue a key has several
 * entries: the map has the oldest, which is the one that is looked at and removed, and the others hang on it. So
 * each entry that is dropped is the oldest of its key, also when it is the oldest of all. */
#include "base/cursor.h"
#include "base/mem.h"
#include "helper/logfilter_internal.h"
#include "helper/logfilter_table.h"

static void unlink_entry(struct logtable *t, struct table_entry *e)
{
    *(e->newer ? &e->newer->older : &t->newest) = e->older;
    *(e->older ? &e->older->newer : &t->oldest) = e->newer;
}

static void drop_entry(struct logtable *t, struct table_entry *e)
{
    (void)map_remove(&t->by_key, e->key); /* it is there */
    if (e->next_same) {
        e->next_same->last_same = e->last_same;
        (void)map_put(&t->by_key, e->next_same->key, e->next_same); /* its room has just become free */
    }
    unlink_entry(t, e);
    t->n--;
    mem_free(e);
}

void table_fini(struct logtable *t)
{
    while (t->oldest)
        drop_entry(t, t->oldest);
    map_fini(&t->by_key);
}

void table_remove(struct logtable *t, struct slice key)
{
    struct table_entry *e = map_get(&t->by_key, key);
    if (e)
        drop_entry(t, e);
}

void table_expire(struct logtable *t, int64_t now_ns, uint64_t *evicted)
{
    int64_t from_ns;
    if (t->age_ns == 0 || __builtin_sub_overflow(now_ns, t->age_ns, &from_ns))
        return;
    for (; t->oldest && t->oldest->time_ns < from_ns; ++*evicted)
        drop_entry(t, t->oldest);
}

void table_put(struct logtable *t, struct slice key, int64_t time_ns, struct slice fields, uint64_t *evicted)
{
    struct table_entry *first = t->is_queue ? map_get(&t->by_key, key) : NULL;
    if (!first)
        table_remove(t, key);
    struct table_entry *e =
        key.n + fields.n > LOGFILTER_ENTRY_MAX ? NULL : mem_try_alloc(sizeof *e + key.n + fields.n);
    if (!e) {
        ++*evicted;
        return;
    }
    memcpy(e->bytes, key.p, key.n);
    memcpy(e->bytes + key.n, fields.p, fields.n);
    e->key = slice_of(e->bytes, key.n);
    e->fields = slice_of(e->bytes + key.n, fields.n);
    e->time_ns = time_ns;
    if (first) {
        first->last_same->next_same = e;
        first->last_same = e;
    } else if (map_put(&t->by_key, e->key, e) < 0) {
        mem_free(e);
        ++*evicted;
        return;
    }
    e->last_same = e;
    t->n++;
    e->older = t->newest;
    *(t->newest ? &t->newest->newer : &t->oldest) = e;
    t->newest = e;
    if (t->n > t->max) {
        drop_entry(t, t->oldest);
        ++*evicted;
    }
}

bool table_get(const struct logtable *t, struct slice key, struct table_view *out)
{
    const struct table_entry *e = map_get(&t->by_key, key);
    if (!e)
        return false;
    *out = (struct table_view){e->time_ns, e->fields};
    return true;
}

void table_add_field(struct strbuf *out, struct slice name, struct value v)
{
    strbuf_add_varint(out, name.n);
    strbuf_add_slice(out, name);
    strbuf_add_char(out, (char)v.type);
    if (value_is_text(v.type)) {
        strbuf_add_varint(out, v.n);
        strbuf_add_slice(out, value_slice(v));
    } else {
        strbuf_add_u64(out, v.u);
    }
}

bool table_next_field(struct slice *rest, struct named_value *out)
{
    struct cursor c = cursor_of(*rest);
    if (rest->n == 0)
        return false;
    struct named_value v = {.name = cursor_bytes(&c, cursor_varint(&c))};
    v.value.type = cursor_u8(&c);
    if (value_is_text(v.value.type)) {
        struct slice text = cursor_bytes(&c, cursor_varint(&c));
        v.value.p = text.p;
        v.value.n = (uint32_t)text.n;
    } else {
        v.value.u = cursor_u64(&c);
    }
    if (c.bad || v.value.type == VALUE_NONE || v.value.type >= VALUE_TYPES || v.name.n == 0 ||
        v.name.n > EVENT_NAME_MAX || (v.value.type == VALUE_BOOL && v.value.u > 1))
        return false;
    *out = v;
    *rest = slice_of((const char *)c.p, cursor_left(&c));
    return true;
}
