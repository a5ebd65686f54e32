/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a small program: it builds segments of a journal in memory, record by record, then damages
 * them (overwrites, cuts, adds bytes, forges records with right checksums). Then the journal is opened, read,
 * written and read again. What must hold:
 *   - items follow each other without a hole, and end;
 *   - a record that is given is in a file with a right checksum;
 *   - unless records were forged: a record is given exactly when its bytes are untouched. */
#include "base/cursor.h"
#include "base/err.h"
#include "journal/format.h"
#include "journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define CHECK(x) ((x) ? (void)0 : abort())

enum { FILES = 8, FILE_MAX = 8192, RECORDS_MAX = 64, DIR_FD = 100 };

struct file {
    char name[80]; /* "" = free */
    size_t n;
    unsigned char bytes[FILE_MAX], built[FILE_MAX]; /* built: before damage */
};

static struct file files[FILES];

struct place {
    struct file *file;
    size_t offset, end;
};

/* What the program built. */
struct model {
    struct place places[RECORDS_MAX + 1];
    uint64_t last;
    struct file *open; /* segment that takes records */
    uint32_t marker;
    bool is_forged;
};

static struct file *find(const char *name)
{
    for (int i = 0; i < FILES; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

static int mem_open_dir(void *ctx, const char *path, bool create)
{
    (void)ctx, (void)path, (void)create;
    return DIR_FD;
}

static int mem_open(void *ctx, int dir, const char *name, int flags)
{
    (void)ctx, (void)dir;
    if (strcmp(name, "..") == 0)
        return DIR_FD;
    struct file *f = find(name);
    if (!f && (flags & O_CREAT)) {
        f = find("");
        if (!f)
            return -ENOSPC;
        (void)snprintf(f->name, sizeof f->name, "%s", name);
        f->n = 0;
    }
    return f ? (int)(f - files) : -ENOENT;
}

static int mem_done(void *ctx, int fd)
{
    (void)ctx, (void)fd;
    return 0;
}

static int mem_size(void *ctx, int fd, uint64_t *out)
{
    (void)ctx;
    *out = files[fd].n;
    return 0;
}

static ssize_t mem_pread(void *ctx, int fd, void *to, size_t n, uint64_t offset)
{
    (void)ctx;
    if (offset >= files[fd].n)
        return 0;
    n = n < files[fd].n - offset ? n : files[fd].n - (size_t)offset;
    memcpy(to, files[fd].bytes + offset, n);
    return (ssize_t)n;
}

static ssize_t mem_pwrite(void *ctx, int fd, const void *from, size_t n, uint64_t offset)
{
    (void)ctx;
    if (offset + n > FILE_MAX)
        return -ENOSPC;
    memcpy(files[fd].bytes + offset, from, n);
    files[fd].n = (size_t)offset + n;
    return (ssize_t)n;
}

static int mem_rename(void *ctx, int dir, const char *from, const char *to)
{
    (void)ctx, (void)dir;
    CHECK(!find(to)); /* nothing is ever overwritten */
    (void)snprintf(find(from)->name, sizeof files[0].name, "%s", to);
    return 0;
}

static int mem_unlink(void *ctx, int dir, const char *name)
{
    (void)ctx, (void)dir;
    CHECK(strcmp(name, "new.tmp") == 0); /* nothing is deleted because it is damaged */
    return -ENOENT;
}

static int mem_list(void *ctx, int dir, int (*fn)(void *arg, const char *name), void *arg)
{
    (void)ctx, (void)dir;
    int r = 0;
    for (int i = 0; r >= 0 && i < FILES; i++)
        if (files[i].name[0])
            r = fn(arg, files[i].name);
    return r;
}

static const struct journal_io memory_io = {
    .open_dir = mem_open_dir,
    .open = mem_open,
    .close = mem_done,
    .lock = mem_done,
    .size = mem_size,
    .pread = mem_pread,
    .pwrite = mem_pwrite,
    .sync_file = mem_done,
    .sync_dir = mem_done,
    .rename = mem_rename,
    .unlink = mem_unlink,
    .list = mem_list,
};

/* A new segment whose first number is the next one. Three files are left for the writer. */
static void new_segment(struct model *m, struct cursor *c)
{
    struct file *f = &files[0];
    while (f->name[0])
        f++;
    if (f >= files + FILES - 3)
        return;
    struct segment_head h = {m->last + 1, 1, cursor_u32(c) | 1};
    format_put_head(f->bytes, &h);
    f->n = HEAD_SIZE;
    (void)snprintf(f->name, sizeof f->name, "%016llx.seg", (unsigned long long)h.first);
    m->open = f;
    m->marker = (uint32_t)h.id;
}

static void add_record(struct model *m, struct cursor *c)
{
    struct slice payload = cursor_bytes(c, cursor_u8(c));
    size_t size = (size_t)format_record_size(payload.n);
    struct file *f = m->open;
    if (!f || f->n + size > FILE_MAX / 2 || m->last == RECORDS_MAX)
        return;
    unsigned char *p = f->bytes + f->n;
    memset(p, 0, size);
    format_put_record(p, (uint32_t)payload.n, ++m->last, (uint32_t)m->last * 7);
    memcpy(p + RECORD_HEAD, payload.p, payload.n);
    format_stamp(p, size, m->marker);
    m->places[m->last] = (struct place){f, f->n, f->n + RECORD_HEAD + payload.n};
    f->n += size;
}

static void build(struct model *m, struct cursor *c)
{
    while (cursor_left(c)) {
        uint8_t op = cursor_u8(c);
        if (op == 0)
            break;
        if (!m->open || op % 8 == 1)
            new_segment(m, c);
        add_record(m, c);
    }
    for (int i = 0; i < FILES; i++)
        memcpy(files[i].built, files[i].bytes, files[i].n);
}

/* A record, or seal, with a right checksum. */
static void forge(struct model *m, struct file *f, size_t at, struct cursor *c)
{
    uint8_t length = cursor_u8(c), number = cursor_u8(c), type = cursor_u8(c);
    at &= ~(size_t)7;
    if (at + format_record_size(length) > f->n)
        return;
    format_put_record(f->bytes + at, length, number, type == 255 ? TYPE_SEAL : type);
    format_stamp(f->bytes + at, (size_t)format_record_size(length), cursor_u32(c));
    m->is_forged = true;
}

static void damage(struct model *m, struct cursor *c)
{
    while (cursor_left(c)) {
        uint8_t op = cursor_u8(c);
        struct file *f = &files[op / 8 % FILES];
        size_t at = cursor_u16(c);
        if (!f->name[0])
            continue;
        struct slice s;
        switch (op % 4) {
        case 0:
            s = cursor_bytes(c, cursor_u8(c));
            for (size_t i = 0; i < s.n && at + i < f->n; i++)
                f->bytes[at + i] = (unsigned char)s.p[i];
            break;
        case 1:
            f->n = at < f->n ? at : f->n;
            break;
        case 2:
            s = cursor_bytes(c, cursor_u8(c));
            if (f->n + s.n <= FILE_MAX)
                memcpy(f->bytes + f->n, s.p, s.n), f->n += s.n;
            break;
        case 3:
            forge(m, f, at, c);
            break;
        }
    }
}

static bool is_untouched(const struct model *m, uint64_t number)
{
    const struct place *p = &m->places[number];
    return p->end <= p->file->n &&
           memcmp(p->file->bytes + p->offset, p->file->built + p->offset, p->end - p->offset) == 0;
}

static bool is_at(const struct file *f, size_t at, const struct journal_item *item)
{
    if (at + RECORD_HEAD + item->payload.n > f->n)
        return false;
    const unsigned char *p = f->bytes + at;
    struct record_head h = format_get_record(p);
    return h.number == item->first && h.length == item->payload.n && h.type == item->type &&
           memcmp(p + RECORD_HEAD, item->payload.p, h.length) == 0 && format_record_crc(p, h.length) == h.crc;
}

static bool is_built(const struct model *m, const struct file *f, size_t at)
{
    for (uint64_t n = 1; n <= m->last; n++)
        if (m->places[n].file == f && m->places[n].offset == at && is_untouched(m, n))
            return true;
    return false;
}

/* Damage by chance, that is by a fuzzer that watches comparisons, can make a record with a right checksum too. */
static bool has_forged_record(const struct model *m)
{
    for (int i = 0; i < FILES; i++) {
        for (size_t at = HEAD_SIZE; at + RECORD_HEAD <= files[i].n; at += RECORD_ALIGN) {
            struct record_head h = format_get_record(files[i].bytes + at);
            bool is_whole = h.length <= files[i].n && at + RECORD_HEAD + h.length <= files[i].n;
            if (is_whole && format_record_crc(files[i].bytes + at, h.length) == h.crc && !is_built(m, &files[i], at))
                return true;
        }
    }
    return false;
}

/* Is there a record like this in some file? Most are where they were built. */
static bool is_in_a_file(const struct model *m, const struct journal_item *item)
{
    if (item->first <= m->last && is_at(m->places[item->first].file, m->places[item->first].offset, item))
        return true;
    for (int i = 0; i < FILES; i++)
        for (size_t at = HEAD_SIZE; at < files[i].n; at += RECORD_ALIGN)
            if (is_at(&files[i], at, item))
                return true;
    return false;
}

/* Reads all from 1 on; returns the last number. */
static uint64_t read_all(const struct model *m, struct journal *j)
{
    struct journal_reader *r;
    struct journal_item item;
    uint64_t next = 1;
    int rc;
    CHECK(journal_reader_open(j, 1, &r) == 0);
    while ((rc = journal_reader_next(r, &item)) == 0) {
        CHECK(item.first == next && item.last >= item.first);
        next = item.last + 1;
        if (item.kind == JOURNAL_RECORD)
            CHECK(item.last == item.first && is_in_a_file(m, &item));
        for (uint64_t n = item.first; !m->is_forged && n <= item.last && n <= m->last; n++)
            CHECK(is_untouched(m, n) == (item.kind == JOURNAL_RECORD));
    }
    CHECK(rc == E_NODATA || (m->is_forged && rc == E_VERSION));
    for (uint64_t n = next; !m->is_forged && n <= m->last; n++)
        CHECK(!is_untouched(m, n)); /* beyond the end */
    journal_reader_close(r);
    return next - 1;
}

static void use(const struct model *m)
{
    struct journal *j;
    struct journal_options o = {.flags = JOURNAL_READONLY, .io = &memory_io};
    CHECK(journal_open("x", &o, &j) == 0);
    (void)read_all(m, j);
    journal_close(j);

    o.flags = 0;
    CHECK(journal_open("x", &o, &j) == 0);
    uint64_t last = read_all(m, j), number;
    struct journal_stats s;
    journal_stats(j, &s);
    CHECK(s.last == last);
    CHECK(journal_append(j, 1, SLICE_LIT("more"), &number) == 0 && number == last + 1);
    CHECK(journal_commit(j) == 0);
    struct model after = *m;
    if (after.last > last)
        after.last = last; /* numbers of a tail that can't be read are given again */
    CHECK(read_all(&after, j) == number);
    journal_close(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int i = 0; i < FILES; i++)
        files[i].name[0] = '\0', files[i].n = 0;
    struct model m = {0};
    struct cursor c = cursor_of(slice_of((const char *)data, size));
    build(&m, &c);
    damage(&m, &c);
    m.is_forged = m.is_forged || has_forged_record(&m);
    use(&m);
    return 0;
}
