/* SPDX-License-Identifier: Apache-2.0 */
/* A position:
 *
 *   u8 version (1)   u8 flags   varint dev   place   varint line   varint changed   u8 n_done
 *   n_done times: place
 *
 * place: varint ino, varint offset, then two fingerprints (head, anchor): u16 len, and u64 hash unless len is
 * 0. Times are zigzag. All little-endian. At most 2 + 10 + 40 + 20 + 1 + 8 * 40 bytes. */
#include "helper/follow_mark.h"

#include "base/cursor.h"
#include "base/err.h"
#include "base/hash.h"

enum { MARK_VERSION = 1, MARK_FLAGS = MARK_BETWEEN | MARK_SKIPPING };

struct fingerprint fingerprint_of(struct slice bytes)
{
    return (struct fingerprint){(uint16_t)bytes.n, bytes.n ? hash_bytes(bytes) : 0};
}

void follow_mark_done(struct follow_mark *m, const struct known_place *end)
{
    if (m->n_done == MARK_DONE_MAX)
        memmove(&m->done[0], &m->done[1], --m->n_done * sizeof m->done[0]);
    m->done[m->n_done++] = *end;
}

static void put_fingerprint(struct strbuf *out, struct fingerprint f)
{
    strbuf_add_u16(out, f.len);
    if (f.len)
        strbuf_add_u64(out, f.hash);
}

static void put_place(struct strbuf *out, const struct known_place *k)
{
    strbuf_add_varint(out, k->ino);
    strbuf_add_varint(out, k->offset);
    put_fingerprint(out, k->head);
    put_fingerprint(out, k->anchor);
}

void follow_mark_encode(const struct follow_mark *m, struct strbuf *out)
{
    strbuf_add_char(out, MARK_VERSION);
    strbuf_add_char(out, (char)m->flags);
    strbuf_add_varint(out, m->dev);
    put_place(out, &m->at);
    strbuf_add_varint(out, m->line);
    strbuf_add_varint(out, zigzag(m->changed_ns));
    strbuf_add_char(out, (char)m->n_done);
    for (size_t i = 0; i < m->n_done; i++)
        put_place(out, &m->done[i]);
}

static struct fingerprint take_fingerprint(struct cursor *c, uint16_t max)
{
    struct fingerprint f = {.len = cursor_u16(c)};
    if (f.len > max)
        (void)cursor_fail(c); /* c->bad says it */
    f.hash = f.len ? cursor_u64(c) : 0;
    return f;
}

static struct known_place take_place(struct cursor *c)
{
    struct known_place k = {.ino = cursor_varint(c), .offset = cursor_varint(c)};
    k.head = take_fingerprint(c, MARK_HEAD_MAX);
    k.anchor = take_fingerprint(c, MARK_ANCHOR_MAX);
    if (k.offset > INT64_MAX || k.anchor.len > k.offset)
        (void)cursor_fail(c);
    return k;
}

int follow_mark_decode(struct slice bytes, struct follow_mark *out, size_t *used)
{
    struct cursor c = cursor_of(bytes);
    struct follow_mark m = {0};
    uint8_t version = cursor_u8(&c);
    if (!c.bad && version != MARK_VERSION)
        return version > MARK_VERSION ? E_VERSION : E_PROTO;
    m.flags = cursor_u8(&c);
    m.dev = cursor_varint(&c);
    m.at = take_place(&c);
    m.line = cursor_varint(&c);
    m.changed_ns = unzigzag(cursor_varint(&c));
    m.n_done = cursor_u8(&c);
    if (c.bad || (m.flags & ~MARK_FLAGS) || m.n_done > MARK_DONE_MAX ||
        ((m.flags & MARK_BETWEEN) && m.at.offset))
        return E_PROTO;
    for (size_t i = 0; i < m.n_done; i++)
        m.done[i] = take_place(&c);
    if (c.bad)
        return E_PROTO;
    *used = bytes.n - cursor_left(&c);
    *out = m;
    return 0;
}
