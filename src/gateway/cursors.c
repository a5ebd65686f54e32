/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/cursors.h"

#include "base/clock.h"
#include "base/text.h"

#include <sys/random.h>

struct cursor_mark *cursors_find(struct cursors *c, struct slice name)
{
    for (size_t i = 0; i < c->n; i++)
        if (!c->all[i].is_removed && slice_eq_str(name, c->all[i].name))
            return &c->all[i];
    return NULL;
}

/* A place that is free, or was that of one that is gone. */
static struct cursor_mark *make(struct cursors *c, struct slice name)
{
    struct cursor_mark *m = NULL;
    for (size_t i = 0; i < c->n && !m; i++)
        if (c->all[i].is_removed && (!c->all[i].is_dirty || slice_eq_str(name, c->all[i].name)))
            m = &c->all[i];
    if (!m && c->n == CURSORS_MAX)
        return NULL;
    if (!m)
        m = &c->all[c->n++];
    *m = (struct cursor_mark){.is_dirty = true};
    memcpy(m->name, name.p, name.n);
    return m;
}

struct cursor_mark *cursors_open(struct cursors *c, struct slice name, struct position at, int64_t utc_ns)
{
    struct cursor_mark *m = cursors_find(c, name);
    if (!m) {
        if (name.n == 0 || name.n > CURSOR_NAME_MAX || !text_is_name(name))
            return NULL;
        m = make(c, name);
        if (m)
            m->position = at;
    }
    if (m)
        m->used_ns = utc_ns;
    return m;
}

void cursors_move(struct cursor_mark *m, struct position to, int64_t utc_ns)
{
    m->used_ns = utc_ns;
    if (position_compare(to, m->position) <= 0)
        return;
    m->position = to;
    m->is_dirty = true;
}

void cursors_remove(struct cursor_mark *m)
{
    m->is_removed = m->is_dirty = true;
    m->owner = NULL;
}

void cursors_name_journal(struct cursors *c)
{
    if (c->journal)
        return;
    if (getrandom(&c->journal, sizeof c->journal, 0) != (ssize_t)sizeof c->journal || c->journal == 0)
        c->journal = (uint64_t)clock_utc_ns(); /* no other journal began in the same nanosecond here */
    c->is_journal_dirty = true;
}

void cursors_dirty_all(struct cursors *c)
{
    c->is_journal_dirty = c->journal != 0;
    for (size_t i = 0; i < c->n; i++)
        c->all[i].is_dirty = !c->all[i].is_removed || c->all[i].is_dirty;
}

static void put_record(struct strbuf *out, const struct cursor_mark *m)
{
    strbuf_add_text(out, slice_str(m->name));
    strbuf_add_u64(out, m->position.record);
    strbuf_add_u32(out, m->position.part);
    strbuf_add_u32(out, m->position.event);
    strbuf_add_u64(out, (uint64_t)m->used_ns);
    strbuf_add_char(out, m->is_removed);
    strbuf_add_u64(out, m->who);
}

/* false: it stays dirty. */
static bool write_journal(const struct cursors *c, struct strbuf *out,
                          int (*write)(void *arg, struct slice record), void *arg)
{
    const struct cursor_mark m = {.position = {.record = c->journal}};
    put_record(out, &m);
    return !strbuf_failed(out) && write(arg, strbuf_slice(out)) == 0;
}

bool cursors_write(struct cursors *c, int (*write)(void *arg, struct slice record), void *arg)
{
    struct strbuf out = {0};
    if (c->is_journal_dirty)
        c->is_journal_dirty = !write_journal(c, &out, write, arg);
    bool is_all = !c->is_journal_dirty;
    for (size_t i = 0; i < c->n; i++) {
        struct cursor_mark *m = &c->all[i];
        if (!m->is_dirty)
            continue;
        strbuf_reset(&out);
        put_record(&out, m);
        m->is_dirty = strbuf_failed(&out) || write(arg, strbuf_slice(&out)) < 0;
        is_all = is_all && !m->is_dirty;
    }
    strbuf_fini(&out);
    return is_all;
}

int cursors_restore(struct cursors *c, struct slice record)
{
    struct cursor k = cursor_of(record);
    struct slice name = cursor_text(&k);
    struct position at = {.record = cursor_u64(&k)};
    at.part = cursor_u32(&k);
    at.event = cursor_u32(&k);
    int64_t used = (int64_t)cursor_u64(&k);
    bool is_gone = cursor_u8(&k) != 0;
    uint64_t who = cursor_left(&k) ? cursor_u64(&k) : 0;
    if (k.bad)
        return E_PROTO;
    if (name.n == 0) {
        c->journal = at.record;
        c->is_journal_dirty = false;
        return 0;
    }
    struct cursor_mark *m = is_gone ? cursors_find(c, name) : cursors_open(c, name, at, used);
    if (!m)
        return is_gone ? 0 : E_PROTO;
    m->position = at;
    m->who = who;
    m->is_removed = is_gone;
    m->is_dirty = false;
    return 0;
}
