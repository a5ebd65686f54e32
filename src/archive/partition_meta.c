/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of meta and meta_copy; their bytes are described at the head of partition.c. What is asked for is
 * read from meta; where that row is gone or wrong, from the copy, which is in pages of its own. */
#include "archive/partition_internal.h"

#include "base/cursor.h"
#include "base/mem.h"

#include <errno.h>

uint32_t meta_crc(uint64_t id, struct slice value)
{
    return db_row_crc(&id, 1, value);
}

/* 1: value (of the statement) and right; 0: there is none; E_DAMAGE: it is wrong. */
static int get(struct partition *p, enum statement which, uint64_t id, struct strbuf *out)
{
    int r = 0;
    sqlite3_stmt *s = partition_use(p, which, &r);
    if (!s)
        return r;
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)id); /* a number always fits */
    r = db_step(p->db, s);
    if (r <= 0)
        return r;
    struct slice value = db_column_bytes(s, 0);
    r = meta_crc(id, value) == (uint32_t)sqlite3_column_int64(s, 1) ? 1 : E_DAMAGE;
    if (r > 0) {
        strbuf_reset(out);
        strbuf_add_slice(out, value);
    }
    (void)sqlite3_reset(s); /* of a row: nothing can be wrong */
    return strbuf_failed(out) ? -ENOMEM : r;
}

int meta_get(struct partition *p, uint64_t id, struct strbuf *out, bool *is_whole)
{
    int r = get(p, ST_GET_META, id, out);
    *is_whole = r > 0;
    if (r > 0)
        return 0;
    if (r < 0 && r != E_DAMAGE)
        return r;
    int copy = get(p, ST_GET_COPY, id, out);
    if (copy > 0)
        return 0;
    if (copy < 0)
        return copy;
    *is_whole = r == 0;
    return r < 0 ? r : -ENOENT;
}

static int put(struct partition *p, enum statement which, uint64_t id, struct slice value, uint32_t crc)
{
    int r = 0;
    sqlite3_stmt *s = partition_use(p, which, &r);
    if (!s)
        return r;
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
    (void)sqlite3_bind_blob64(s, 2, value.p, value.n, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 3, crc);
    return db_run(p->db, s);
}

int meta_put(struct partition *p, uint64_t id, struct slice value)
{
    uint32_t crc = meta_crc(id, value);
    int r = put(p, ST_PUT_META, id, value, crc);
    return r < 0 ? r : put(p, ST_PUT_COPY, id, value, crc);
}

/* ---------------------------------------------------------------- state */

int state_decode(struct slice value, struct partition_state *out)
{
    struct cursor c = cursor_of(value);
    uint32_t version = cursor_u32(&c);
    if (!c.bad && version > PARTITION_VERSION)
        return E_VERSION;
    struct partition_state s;
    s.span.from_ns = (int64_t)cursor_u64(&c);
    s.span.to_ns = (int64_t)cursor_u64(&c);
    s.span.step_ns = (int64_t)cursor_u64(&c);
    s.commits = cursor_u64(&c);
    s.gen = cursor_u64(&c);
    s.next_blob = cursor_u64(&c);
    s.gone_at = cursor_u64(&c);
    s.n_marks = cursor_u64(&c);
    if (c.bad || version == 0)
        return E_PROTO;
    *out = s;
    return 0;
}

int meta_get_state(struct partition *p, struct partition_state *out)
{
    bool is_whole = false;
    int r = meta_get(p, META_STATE, &p->row, &is_whole);
    if (r == 0)
        r = state_decode(strbuf_slice(&p->row), out);
    if (r == -ENOENT || r == E_PROTO)
        r = E_DAMAGE;
    if (r == 0 && !is_whole)
        partition_report_once(p, SAID_STATE, "the state is damaged; its copy is used");
    return r;
}

int meta_put_state(struct partition *p, const struct partition_state *s)
{
    strbuf_reset(&p->row);
    strbuf_add_u32(&p->row, PARTITION_VERSION);
    strbuf_add_u64(&p->row, (uint64_t)s->span.from_ns);
    strbuf_add_u64(&p->row, (uint64_t)s->span.to_ns);
    strbuf_add_u64(&p->row, (uint64_t)s->span.step_ns);
    strbuf_add_u64(&p->row, s->commits);
    strbuf_add_u64(&p->row, s->gen);
    strbuf_add_u64(&p->row, s->next_blob);
    strbuf_add_u64(&p->row, s->gone_at);
    strbuf_add_u64(&p->row, s->n_marks);
    return strbuf_failed(&p->row) ? -ENOMEM : meta_put(p, META_STATE, strbuf_slice(&p->row));
}

/* ---------------------------------------------------------------- blobs that were taken out */

bool gone_has(const struct gone *g, uint64_t id)
{
    size_t low = 0, high = g->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (g->v[mid].last < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < g->n && g->v[low].first <= id;
}

static int gone_grow(struct gone *g)
{
    if (g->n < g->cap)
        return 0;
    size_t cap = g->cap ? g->cap * 2 : 16;
    struct gone_range *v = mem_try_resize(g->v, cap * sizeof *v);
    if (!v)
        return -ENOMEM;
    g->v = v;
    g->cap = cap;
    return 0;
}

int gone_add(struct gone *g, uint64_t id)
{
    int r = gone_grow(g);
    if (r < 0 || gone_has(g, id))
        return r;
    size_t at = 0;
    while (at < g->n && g->v[at].last < id)
        at++;
    bool joins_left = at > 0 && g->v[at - 1].last + 1 == id;
    bool joins_right = at < g->n && g->v[at].first == id + 1;
    if (joins_left && joins_right) {
        g->v[at - 1].last = g->v[at].last;
        memmove(&g->v[at], &g->v[at + 1], (g->n - at - 1) * sizeof *g->v);
        g->n--;
    } else if (joins_left) {
        g->v[at - 1].last = id;
    } else if (joins_right) {
        g->v[at].first = id;
    } else {
        memmove(&g->v[at + 1], &g->v[at], (g->n - at) * sizeof *g->v);
        g->v[at] = (struct gone_range){id, id};
        g->n++;
    }
    return 0;
}

int gone_decode(struct slice value, struct gone *out)
{
    struct cursor c = cursor_of(value);
    uint64_t at = 0;
    out->n = 0;
    while (cursor_left(&c)) {
        uint64_t skip = cursor_varint(&c), more = cursor_varint(&c);
        if (c.bad || skip == 0 || skip > UINT64_MAX - at || more > UINT64_MAX - at - skip)
            return E_PROTO;
        if (gone_grow(out) < 0)
            return -ENOMEM;
        out->v[out->n++] = (struct gone_range){at + skip, at + skip + more};
        at += skip + more;
    }
    return 0;
}

int meta_get_gone(struct partition *p, struct gone *out)
{
    bool is_whole = false;
    out->n = 0;
    int r = meta_get(p, META_GONE, &p->row, &is_whole);
    if (r == -ENOENT)
        r = p->state.gone_at ? E_DAMAGE : 0;
    else if (r == 0)
        r = gone_decode(strbuf_slice(&p->row), out);
    if (r == E_PROTO)
        r = E_DAMAGE;
    if (r == E_DAMAGE)
        partition_report_once(p, SAID_GONE, "which blobs have been merged is damaged, and its copy, too");
    else if (r == 0 && !is_whole)
        partition_report_once(p, SAID_GONE, "which blobs have been merged is damaged; its copy is used");
    return r;
}

int meta_put_gone(struct partition *p)
{
    strbuf_reset(&p->row);
    uint64_t at = 0;
    for (size_t i = 0; i < p->gone.n; i++) {
        strbuf_add_varint(&p->row, p->gone.v[i].first - at);
        strbuf_add_varint(&p->row, p->gone.v[i].last - p->gone.v[i].first);
        at = p->gone.v[i].last;
    }
    return strbuf_failed(&p->row) ? -ENOMEM : meta_put(p, META_GONE, strbuf_slice(&p->row));
}

/* ---------------------------------------------------------------- what is kept */

int64_t kept_until(struct slice bytes, struct slice name)
{
    for (struct cursor c = cursor_of(bytes); cursor_left(&c) && !c.bad;) {
        struct slice one = cursor_text(&c);
        int64_t until = (int64_t)cursor_u64(&c);
        if (!c.bad && slice_eq(one, name))
            return until;
    }
    return 0;
}

int kept_raise(struct strbuf *bytes, struct slice name, int64_t until_ns)
{
    struct strbuf new = {0};
    if (kept_until(strbuf_slice(bytes), name) >= until_ns)
        return 0;
    for (struct cursor c = cursor_of(strbuf_slice(bytes)); cursor_left(&c);) {
        struct slice one = cursor_text(&c);
        uint64_t until = cursor_u64(&c);
        if (c.bad) {
            strbuf_fini(&new);
            return E_PROTO;
        }
        if (slice_eq(one, name))
            continue;
        strbuf_add_text(&new, one);
        strbuf_add_u64(&new, until);
    }
    strbuf_add_text(&new, name);
    strbuf_add_u64(&new, (uint64_t)until_ns);
    if (strbuf_failed(&new)) {
        strbuf_fini(&new);
        return -ENOMEM;
    }
    strbuf_fini(bytes);
    *bytes = new;
    return 0;
}

int kept_join(struct strbuf *bytes, struct slice more)
{
    int r = 0;
    for (struct cursor c = cursor_of(more); r == 0 && cursor_left(&c);) {
        struct slice name = cursor_text(&c);
        int64_t until = (int64_t)cursor_u64(&c);
        r = c.bad ? E_PROTO : kept_raise(bytes, name, until);
    }
    return r;
}

int meta_get_kept(struct partition *p)
{
    bool is_whole = false;
    strbuf_reset(&p->kept);
    int r = meta_get(p, META_KEPT, &p->row, &is_whole);
    if (r == 0)
        r = kept_join(&p->kept, strbuf_slice(&p->row));
    p->is_all_kept = r == E_DAMAGE || r == E_PROTO;
    if (p->is_all_kept)
        partition_report(p, 0, "which event names are kept is damaged, and its copy, too: all are", NULL);
    return p->is_all_kept || r == -ENOENT ? 0 : r;
}

/* ---------------------------------------------------------------- marks */

int mark_decode(struct slice value, struct mark *out)
{
    struct cursor c = cursor_of(value);
    struct slice id = cursor_bytes(&c, sizeof out->source.id);
    struct mark m = {.record = cursor_u64(&c)};
    m.floor = cursor_u64(&c);
    if (c.bad)
        return E_PROTO;
    memcpy(m.source.id, id.p, sizeof m.source.id);
    m.saved_record = m.record;
    m.saved_floor = m.floor;
    *out = m;
    return 0;
}

static struct slice source_slice(const struct archive_source *s)
{
    return slice_of((const char *)s->id, sizeof s->id);
}

struct mark *mark_find(const struct partition *p, const struct archive_source *s)
{
    return map_get(&p->marks_by_source, source_slice(s));
}

struct mark *mark_make(struct partition *p, const struct archive_source *s)
{
    if (p->n_marks == p->marks_cap) {
        size_t cap = p->marks_cap ? p->marks_cap * 2 : 4;
        struct mark **v = mem_try_resize(p->marks, cap * sizeof(struct mark *));
        if (!v)
            return NULL;
        p->marks = v;
        p->marks_cap = cap;
    }
    struct mark *m = mem_try_alloc(sizeof *m);
    if (!m)
        return NULL;
    m->source = *s;
    if (map_put(&p->marks_by_source, source_slice(&m->source), m) < 0) {
        mem_free(m);
        return NULL;
    }
    p->marks[p->n_marks++] = m;
    return m;
}

void mark_drop(struct partition *p, struct mark *m)
{
    (void)map_remove(&p->marks_by_source, source_slice(&m->source)); /* it is m */
    mem_free(m);
}

void marks_forget(struct partition *p)
{
    for (size_t i = 0; i < p->n_marks; i++)
        mem_free(p->marks[i]);
    map_fini(&p->marks_by_source);
    p->n_marks = 0;
    p->has_marks = false;
}

/* The mark of that source is at least m. */
static int mark_keep(struct partition *p, const struct mark *m)
{
    struct mark *mine = mark_find(p, &m->source);
    if (!mine)
        mine = mark_make(p, &m->source);
    if (!mine)
        return -ENOMEM;
    if (mine->record < m->record)
        *mine = *m;
    return 0;
}

/* Counts those that are right. */
static int load_from(struct partition *p, enum statement which, uint64_t *n)
{
    int r = 0;
    sqlite3_stmt *s = partition_use(p, which, &r);
    while (s && (r = db_step(p->db, s)) > 0) {
        uint64_t id = (uint64_t)sqlite3_column_int64(s, 0);
        struct slice value = db_column_bytes(s, 1);
        struct mark m;
        if (meta_crc(id, value) != (uint32_t)sqlite3_column_int64(s, 2) || mark_decode(value, &m) < 0)
            continue; /* n tells */
        m.row = id;
        r = mark_keep(p, &m);
        if (r < 0) {
            (void)sqlite3_reset(s); /* of a row */
            return r;
        }
        *n += 1;
    }
    return r == E_DAMAGE ? 0 : r; /* n tells, too */
}

static int load_marks(struct partition *p)
{
    uint64_t n = 0, n_copies = 0;
    int r = load_from(p, ST_ALL_META, &n);
    if (r == 0)
        r = load_from(p, ST_ALL_COPY, &n_copies);
    if (r < 0)
        return r;
    if (p->n_marks < p->state.n_marks)
        partition_report_once(p, SAID_MARKS, "marks are damaged, and their copies, too");
    else if (n != n_copies || n < p->state.n_marks)
        partition_report_once(p, SAID_MARKS, "marks are damaged; their copies are used");
    p->has_marks = true;
    p->marks_commits = p->state.commits;
    return 0;
}

int marks_refresh(struct partition *p)
{
    if (p->has_marks && (p->flags & PARTITION_WRITE || p->marks_commits == p->state.commits))
        return 0;
    marks_forget(p);
    return load_marks(p);
}

int meta_put_marks(struct partition *p)
{
    for (size_t i = 0; i < p->n_marks; i++) {
        const struct mark *m = p->marks[i];
        if (m->record == m->saved_record && m->floor == m->saved_floor)
            continue;
        strbuf_reset(&p->row);
        strbuf_add_slice(&p->row, source_slice(&m->source));
        strbuf_add_u64(&p->row, m->record);
        strbuf_add_u64(&p->row, m->floor);
        int r = strbuf_failed(&p->row) ? -ENOMEM : meta_put(p, m->row, strbuf_slice(&p->row));
        if (r < 0)
            return r;
    }
    return 0;
}
