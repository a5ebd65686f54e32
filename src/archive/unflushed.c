/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/unflushed.h"

#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/strbuf.h"

#include <fcntl.h>
#include <unistd.h>

enum { FILE_MAX = 4 << 20, TRIES = 5 };
static const char magic[8] = "glunfl\n";

int unflushed_open(const char *dir)
{
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/unflushed", dir);
    int fd = strbuf_failed(&path) ? -1 : open(path.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    strbuf_fini(&path);
    return fd;
}

void unflushed_write(int fd, const struct unflushed *all, size_t n)
{
    struct strbuf out = {0};
    strbuf_add(&out, magic, sizeof magic);
    strbuf_add_varint(&out, n);
    for (size_t i = 0; i < n; i++) {
        strbuf_add_text(&out, all[i].name);
        strbuf_add_varint(&out, all[i].rows);
        strbuf_add_u64(&out, (uint64_t)all[i].from_ns);
        strbuf_add_u64(&out, (uint64_t)all[i].to_ns);
    }
    strbuf_add_u32(&out, crc32c(0, strbuf_slice(&out)));
    /* What can't be written makes the checksum wrong, and readers say nothing: it is advice. */
    if (!strbuf_failed(&out) && pwrite(fd, out.p, out.n, 0) == (ssize_t)out.n)
        (void)!ftruncate(fd, (off_t)out.n);
    strbuf_fini(&out);
}

/* How many; -1: it is not whole. */
static ssize_t decode(struct slice bytes, struct arena *arena, struct unflushed **out)
{
    if (bytes.n < sizeof magic + 5 || memcmp(bytes.p, magic, sizeof magic) != 0)
        return -1;
    struct cursor end = cursor_of(slice_from(bytes, bytes.n - 4));
    bytes.n -= 4;
    if (cursor_u32(&end) != crc32c(0, bytes))
        return -1;
    struct cursor c = cursor_of(slice_from(bytes, sizeof magic));
    uint64_t n = cursor_varint(&c);
    if (c.bad || n > bytes.n)
        return -1;
    struct unflushed *all = arena_alloc(arena, (n + 1) * sizeof *all);
    for (uint64_t i = 0; all && i < n; i++) {
        all[i].name = arena_copy(arena, cursor_text(&c));
        all[i].rows = cursor_varint(&c);
        all[i].from_ns = (int64_t)cursor_u64(&c);
        all[i].to_ns = (int64_t)cursor_u64(&c);
        if (!all[i].name.p)
            return -1;
    }
    *out = all;
    return all && !c.bad ? (ssize_t)n : -1;
}

size_t unflushed_read(const char *dir, struct arena *arena, struct unflushed **out)
{
    struct strbuf path = {0}, bytes = {0};
    strbuf_printf(&path, "%s/unflushed", dir);
    int fd = strbuf_failed(&path) ? -1 : open(path.p, O_RDONLY | O_CLOEXEC);
    ssize_t found = -1;
    for (int i = 0; fd >= 0 && found < 0 && i < TRIES; i++) {
        strbuf_reset(&bytes);
        off_t size = lseek(fd, 0, SEEK_END);
        char *to = size > 0 && size <= FILE_MAX ? strbuf_room(&bytes, (size_t)size) : NULL;
        ssize_t n = to ? pread(fd, to, (size_t)size, 0) : -1;
        if (n < 0)
            break;
        strbuf_advance(&bytes, (size_t)n);
        found = decode(strbuf_slice(&bytes), arena, out);
    }
    if (fd >= 0)
        (void)close(fd); /* only read */
    strbuf_fini(&path);
    strbuf_fini(&bytes);
    return found > 0 ? (size_t)found : 0;
}
