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

uint64_t cursors_passed(const struct cursor_mark *m)
{
    bool is_whole = m->position.part == UINT32_MAX && m->position.event == UINT32_MAX;
    return is_whole || m->position.record == 0 ? m->position.record : m->position.record - 1;
}

size_t cursors_holds(const struct cursors *c, uint64_t bytes, struct journal_hold *out)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (!c->all[i].is_removed)
            out[n++] =
                (struct journal_hold){cursors_passed(&c->all[i]), c->all[i].hold ? c->all[i].hold : bytes};
    return n;
}

void cursors_set_bytes(struct cursors *c, const struct journal_hold *bytes, size_t n)
{
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < n; k++)
            if (bytes[k].number == cursors_passed(&c->all[i]))
                c->all[i].lag_bytes = bytes[k].bytes;
}

void cursors_note_first(struct cursors *c, uint64_t first, void (*fn)(void *arg, struct cursor_mark *m),
                        void *arg)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cursor_mark *m = &c->all[i];
        uint64_t known = m->gone_to > cursors_passed(m) ? m->gone_to : cursors_passed(m);
        if (first <= cursors_passed(m) + 1)
            m->gone_told = false;
        if (m->is_removed || first <= known + 1)
            continue;
        m->gone += first - 1 - known;
        m->gone_to = first - 1;
        m->is_dirty = true;
        fn(arg, m);
    }
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
    strbuf_add_text(out, slice_str(m->holder));
    const uint64_t numbers[] = {m->hold, m->gone,         m->gone_to, m->refilled,
                                m->lost, m->lost_records, m->read_to};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        strbuf_add_u64(out, numbers[i]);
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
    struct slice holder = cursor_left(&k) ? cursor_text(&k) : SLICE_LIT("");
    uint64_t numbers[7] = {0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && cursor_left(&k); i++)
        numbers[i] = cursor_u64(&k);
    if (k.bad || holder.n > CURSOR_HOLDER_MAX)
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
    memcpy(m->holder, holder.p, holder.n);
    m->holder[holder.n] = '\0';
    m->hold = numbers[0];
    m->gone = numbers[1];
    m->gone_to = numbers[2];
    m->refilled = numbers[3];
    m->lost = numbers[4];
    m->lost_records = numbers[5];
    m->read_to = numbers[6];
    m->is_removed = is_gone;
    m->is_dirty = false;
    return 0;
}
