/* SPDX-License-Identifier: Apache-2.0 */
/* A file is pages 1 to n, the head of the file being the first 100 bytes of page 1. A table is a tree of
 * pages; its leaves (first byte 13) have a list of where their rows begin. A row: varint length of its
 * payload, varint id, payload; of which only a part is on the leaf if it is long, and then u32 the page that
 * goes on, whose first four bytes are the next one's number. A payload is a record: varint length of its
 * head, types of the columns as varints, the columns. Big-endian, varints most significant first.
 *
 * The write-ahead log: a head of 32 bytes, then frames: u32 page number, u32 size of the database after a
 * commit or 0, two salts, two sums, the page. Frames count up to the first whose salts are not the head's or
 * whose sums (over all frames before it, too) are wrong, and of those, as far as the last commit. */
#include "archive/pages.h"

#include "archive/db.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_HEAD = 100, LOG_HEAD = 32, FRAME_HEAD = 24, LEAF_HEAD = 8, LEAF_TYPE = 13 };

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t get_u16(const unsigned char *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

/* Bytes it takes; 0: it is cut off. */
static size_t get_varint(struct slice s, size_t at, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < 9 && at + i < s.n; i++) {
        unsigned char b = (unsigned char)s.p[at + i];
        if (i == 8) {
            *out = v << 8 | b;
            return 9;
        }
        v = v << 7 | (b & 0x7f);
        if (b < 0x80) {
            *out = v;
            return i + 1;
        }
    }
    return 0;
}

static bool is_page_size(uint32_t n)
{
    return n >= 512 && n <= 65536 && (n & (n - 1)) == 0;
}

/* All of it, or -EIO; a file that ends before is filled with zeros. */
static int read_at(int fd, void *to, size_t n, uint64_t at)
{
    size_t got = 0;
    while (got < n) {
        ssize_t r = pread(fd, (char *)to + got, n - got, (off_t)(at + got));
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -errno;
        if (r == 0)
            break;
        got += (size_t)r;
    }
    memset((char *)to + got, 0, n - got);
    return 0;
}

/* ---------------------------------------------------------------- the log */

struct log_reader {
    struct pages *p;
    uint64_t bytes;
    bool is_big; /* sums are of big-endian words */
    uint32_t sums[2];
    unsigned char salts[8];
    unsigned char *frame;
};

static void add_sums(struct log_reader *l, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint32_t x = get_u32(p + i), y = get_u32(p + i + 4);
        if (!l->is_big) {
            x = __builtin_bswap32(x);
            y = __builtin_bswap32(y);
        }
        l->sums[0] += x + l->sums[1];
        l->sums[1] += y + l->sums[0];
    }
}

static bool are_sums(const struct log_reader *l, const unsigned char *p)
{
    return get_u32(p) == l->sums[0] && get_u32(p + 4) == l->sums[1];
}

/* The head's word on how to read it. false: it is damaged. */
static bool log_head(struct log_reader *l)
{
    unsigned char head[LOG_HEAD];
    if (read_at(l->p->log, head, sizeof head, 0) < 0)
        return false;
    l->is_big = head[3] & 1;
    add_sums(l, head, 24);
    memcpy(l->salts, head + 16, sizeof l->salts);
    return get_u32(head) >> 1 == 0x377f0682U >> 1 && get_u32(head + 8) == l->p->page_bytes &&
           are_sums(l, head + 24);
}

static int log_note(struct pages *p, uint32_t number, uint64_t at)
{
    if (number == 0 || number > UINT32_MAX / 2)
        return 0;
    if (number > p->n) {
        uint64_t *v = mem_try_resize(p->in_log, ((size_t)number + 1) * sizeof *v);
        if (!v)
            return -ENOMEM;
        memset(v + p->n + 1, 0, ((size_t)number - p->n) * sizeof *v);
        p->in_log = v;
        p->n = number;
    }
    p->in_log[number] = at;
    return 0;
}

/* Frames first to below last. */
static int log_apply(struct log_reader *l, uint64_t first, uint64_t last)
{
    uint64_t size = FRAME_HEAD + l->p->page_bytes;
    int r = 0;
    for (uint64_t i = first; r == 0 && i < last; i++) {
        unsigned char head[FRAME_HEAD];
        uint64_t at = LOG_HEAD + i * size;
        r = read_at(l->p->log, head, sizeof head, at);
        /* A number beyond what the log itself could have made of the file is a flip. */
        if (r == 0 && get_u32(head) <= l->p->n + l->bytes / size + 1)
            r = log_note(l->p, get_u32(head), at + FRAME_HEAD);
    }
    return r;
}

/* How many frames SQLite reads: up to a commit. */
static int log_count(struct log_reader *l, uint64_t frames, uint64_t *out)
{
    uint64_t size = FRAME_HEAD + l->p->page_bytes;
    *out = 0;
    for (uint64_t i = 0; i < frames; i++) {
        int r = read_at(l->p->log, l->frame, size, LOG_HEAD + i * size);
        if (r < 0)
            return r;
        if (memcmp(l->frame + 8, l->salts, sizeof l->salts) != 0)
            return 0;
        add_sums(l, l->frame, 8);
        add_sums(l, l->frame + FRAME_HEAD, l->p->page_bytes);
        if (!are_sums(l, l->frame + 16))
            return 0;
        if (get_u32(l->frame + 4))
            *out = i + 1;
    }
    return 0;
}

/* How many of all frames of this log, damaged or not, there are up to its last commit. */
static int log_count_late(struct log_reader *l, uint64_t frames, uint64_t from, uint64_t *out)
{
    uint64_t size = FRAME_HEAD + l->p->page_bytes;
    unsigned char head[FRAME_HEAD];
    *out = from;
    for (uint64_t i = 0; i < frames; i++) {
        int r = read_at(l->p->log, head, sizeof head, LOG_HEAD + i * size);
        if (r < 0)
            return r;
        if (i == 0) /* its head may be what is damaged */
            memcpy(l->salts, head + 8, sizeof l->salts);
        if (i >= from && memcmp(head + 8, l->salts, sizeof l->salts) == 0 && get_u32(head + 4))
            *out = i + 1;
    }
    return 0;
}

static int log_read(struct pages *p, bool with_late)
{
    struct stat st;
    struct log_reader l = {.p = p};
    if (p->log < 0 || fstat(p->log, &st) < 0 || st.st_size < LOG_HEAD)
        return 0;
    l.bytes = (uint64_t)st.st_size;
    l.frame = mem_try_alloc(FRAME_HEAD + p->page_bytes);
    if (!l.frame)
        return -ENOMEM;
    uint64_t frames = (l.bytes - LOG_HEAD) / (FRAME_HEAD + p->page_bytes), good = 0, all = 0;
    int r = log_head(&l) ? log_count(&l, frames, &good) : 0;
    if (r == 0)
        r = log_count_late(&l, frames, good, &all);
    p->has_late = all > good;
    if (r == 0)
        r = log_apply(&l, 0, with_late ? all : good);
    mem_free(l.frame);
    return r;
}

/* ---------------------------------------------------------------- the file */

int pages_open(const char *path, uint32_t page_bytes, bool with_late, struct pages *out)
{
    struct pages p = {.log = -1, .page_bytes = page_bytes};
    unsigned char head[FILE_HEAD];
    struct strbuf log = {0};
    struct stat st;
    p.file = open(path, O_RDONLY | O_CLOEXEC);
    if (p.file < 0)
        return -errno;
    int r = fstat(p.file, &st) < 0 ? -errno : read_at(p.file, head, sizeof head, 0);
    if (r == 0 && !page_bytes) {
        uint32_t n = get_u16(head + 16);
        p.page_bytes = n == 1 ? 65536 : n;
    }
    if (r == 0 && !is_page_size(p.page_bytes))
        r = E_DAMAGE;
    if (r == 0) {
        p.n = (uint32_t)((uint64_t)st.st_size / p.page_bytes);
        p.in_log = mem_try_alloc(((size_t)p.n + 1) * sizeof *p.in_log);
        p.page = mem_try_alloc(p.page_bytes);
        strbuf_printf(&log, "%s-wal", path);
        r = p.in_log && p.page && !strbuf_failed(&log) ? 0 : -ENOMEM;
    }
    if (r == 0) {
        p.log = open(log.p, O_RDONLY | O_CLOEXEC);
        r = p.log < 0 && errno != ENOENT ? -errno : log_read(&p, with_late);
    }
    strbuf_fini(&log);
    if (r < 0) {
        pages_fini(&p);
        return r;
    }
    *out = p;
    return 0;
}

void pages_fini(struct pages *p)
{
    if (p->file >= 0)
        (void)close(p->file); /* only read */
    if (p->log >= 0)
        (void)close(p->log);
    mem_free(p->in_log);
    mem_free(p->page);
    *p = (struct pages){.file = -1, .log = -1};
}

struct slice pages_get(struct pages *p, uint32_t i)
{
    if (i == 0 || i > p->n)
        return slice_of("", 0);
    bool is_in_log = p->in_log[i] != 0;
    uint64_t at = is_in_log ? p->in_log[i] : (uint64_t)(i - 1) * p->page_bytes;
    if (read_at(is_in_log ? p->log : p->file, p->page, p->page_bytes, at) < 0)
        return slice_of("", 0);
    return slice_of((const char *)p->page, p->page_bytes);
}

/* ---------------------------------------------------------------- rows */

bool page_row_parse(const struct pages *p, uint32_t number, struct slice page, uint32_t at,
                    struct page_row *out)
{
    uint64_t usable = p->page_bytes, most = usable - 35, least = (usable - 12) * 32 / 255 - 23;
    uint64_t payload = 0, id = 0;
    size_t n = get_varint(page, at, &payload);
    size_t m = n ? get_varint(page, at + n, &id) : 0;
    if (m == 0 || payload == 0 || payload > INT32_MAX)
        return false;
    uint64_t local = payload;
    if (payload > most) {
        local = least + (payload - least) % (usable - 4);
        local = local <= most ? local : least;
    }
    uint64_t begin = at + n + m, end = begin + local + (local < payload ? 4 : 0);
    if (end > page.n)
        return false;
    *out = (struct page_row){.id = id,
                             .payload_bytes = payload,
                             .page = number,
                             .at = (uint32_t)begin,
                             .n_local = (uint32_t)local};
    if (local < payload)
        out->overflow = get_u32((const unsigned char *)page.p + begin + local);
    return local == payload || (out->overflow >= 2 && out->overflow <= p->n);
}

/* What of [from, to) lies in piece, which begins at `at` of the payload. */
static void copy_part(struct slice piece, uint64_t at, uint64_t from, uint64_t to, char *out)
{
    uint64_t a = from > at ? from : at, b = to < at + piece.n ? to : at + piece.n;
    if (a < b)
        memcpy(out + (a - from), piece.p + (a - at), b - a);
}

int page_row_read(struct pages *p, const struct page_row *row, uint64_t from, uint64_t n, bool is_straight,
                  char *to)
{
    if (from > row->payload_bytes || n > row->payload_bytes - from)
        return E_DAMAGE;
    struct slice page = pages_get(p, row->page);
    if (page.n == 0)
        return E_DAMAGE;
    copy_part(slice_of(page.p + row->at, row->n_local), 0, from, from + n, to);
    uint32_t next = row->overflow;
    uint64_t at = row->n_local;
    while (at < from + n) {
        page = pages_get(p, next);
        if (page.n == 0)
            return E_DAMAGE;
        copy_part(slice_from(page, 4), at, from, from + n, to);
        at += page.n - 4; /* so it ends, whatever the links say */
        next = is_straight ? next + 1 : get_u32((const unsigned char *)page.p);
    }
    return 0;
}

size_t pages_leaf_rows(struct slice page, bool is_first, uint32_t *at, size_t max)
{
    size_t head = is_first ? FILE_HEAD : 0;
    const unsigned char *p = (const unsigned char *)page.p;
    if (page.n < head + LEAF_HEAD || p[head] != LEAF_TYPE)
        return 0;
    size_t n = get_u16(p + head + 3), found = 0;
    for (size_t i = 0; i < n && found < max && head + LEAF_HEAD + 2 * i + 2 <= page.n; i++) {
        uint32_t place = get_u16(p + head + LEAF_HEAD + 2 * i);
        if (place >= head + LEAF_HEAD && place < page.n)
            at[found++] = place;
    }
    return found;
}

/* ---------------------------------------------------------------- columns */

static uint64_t type_bytes(uint64_t type)
{
    static const uint8_t small[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
    return type < sizeof small ? small[type] : (type - 12) / 2;
}

bool page_columns_parse(struct slice payload, uint64_t payload_bytes, struct page_columns *out)
{
    uint64_t head = 0;
    size_t at = get_varint(payload, 0, &head);
    uint64_t next = head;
    out->n = 0;
    if (at == 0 || head < at || head > payload.n)
        return false;
    while (at < head) {
        uint64_t type = 0;
        size_t n = get_varint(payload, at, &type);
        if (n == 0 || out->n == PAGE_COLUMNS_MAX || type == 10 || type == 11)
            return false;
        out->v[out->n].type = type;
        out->v[out->n].at = next;
        out->v[out->n++].bytes = type_bytes(type);
        next += type_bytes(type);
        at += n;
        if (next > payload_bytes)
            return false;
    }
    return at == head && next == payload_bytes;
}

bool page_column_int(struct slice payload, const struct page_columns *c, size_t i, int64_t *out)
{
    if (i >= c->n || c->v[i].at + c->v[i].bytes > payload.n)
        return false;
    uint64_t type = c->v[i].type;
    if (type == 8 || type == 9) {
        *out = (int64_t)type - 8;
        return true;
    }
    if (type < 1 || type > 6)
        return false;
    const unsigned char *p = (const unsigned char *)payload.p + c->v[i].at;
    uint64_t v = p[0] & 0x80 ? UINT64_MAX : 0;
    for (uint64_t k = 0; k < c->v[i].bytes; k++)
        v = v << 8 | p[k];
    *out = (int64_t)v;
    return true;
}
