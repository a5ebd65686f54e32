/* SPDX-License-Identifier: Apache-2.0 */
/* DIR/kept: baselines, settings and what retention has deleted once more, as no partition has them. Replaced
 * whole: a new file is written, synced and renamed over the old one.
 *
 *   8 "glkept\n" and a zero byte, u32 version, then per entry u8 kind, text key, text value, a zero byte at
 *   the end, u32 CRC-32C of all before it */
#include "archive/catalog_internal.h"

#include "base/crc32c.h"
#include "base/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { KEPT_VERSION = 1, KEPT_MAX = 16 << 20 };

static const char magic[8] = "glkept\n";
static const uint8_t kinds[] = {FACT_BASELINE, FACT_SETTING, FACT_GONE};

static void encode(const struct catalog *c, struct strbuf *out)
{
    strbuf_add(out, magic, sizeof magic);
    strbuf_add_u32(out, KEPT_VERSION);
    for (size_t k = 0; k < sizeof kinds; k++) {
        const struct fact *fact;
        for (size_t i = 0; (fact = facts_next(c->facts, kinds[k], &i)) != NULL;) {
            strbuf_add_char(out, (char)fact->kind);
            strbuf_add_text(out, fact->key);
            strbuf_add_text(out, fact->value);
        }
    }
    strbuf_add_char(out, 0);
    strbuf_add_u32(out, crc32c(0, strbuf_slice(out)));
}

static int write_all(int fd, struct slice bytes)
{
    while (bytes.n) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR)
            return -errno;
        bytes = slice_from(bytes, n > 0 ? (size_t)n : 0);
    }
    return fsync(fd) < 0 ? -errno : 0;
}

static int replace(const char *dir, struct slice bytes)
{
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    int r = 0;
    int fd = openat(folder, "kept.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        r = -errno;
    } else {
        r = write_all(fd, bytes);
        if (close(fd) < 0 && r == 0)
            r = -errno;
    }
    if (r == 0 && renameat(folder, "kept.new", folder, "kept") < 0)
        r = -errno;
    if (r == 0 && fsync(folder) < 0)
        r = -errno;
    (void)close(folder); /* only a handle */
    return r;
}

int kept_write(struct catalog *c)
{
    struct strbuf bytes = {0};
    encode(c, &bytes);
    int r = strbuf_failed(&bytes) ? -ENOMEM : replace(c->dir, strbuf_slice(&bytes));
    strbuf_fini(&bytes);
    return r;
}

static int read_file(const char *path, struct strbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = 1;
    while (n > 0 && out->n <= KEPT_MAX) {
        char *to = strbuf_room(out, 64 << 10);
        n = to ? read(fd, to, 64 << 10) : -1;
        if (n > 0)
            strbuf_advance(out, (size_t)n);
    }
    int r = strbuf_failed(out) ? -ENOMEM : n < 0 ? -errno : out->n > KEPT_MAX ? E_DAMAGE : 0;
    (void)close(fd); /* only read */
    return r;
}

static int decode(struct catalog *c, struct slice bytes)
{
    if (bytes.n < sizeof magic + 9 || memcmp(bytes.p, magic, sizeof magic) != 0)
        return E_DAMAGE;
    struct cursor end = cursor_of(slice_from(bytes, bytes.n - 4));
    bytes.n -= 4;
    if (cursor_u32(&end) != crc32c(0, bytes))
        return E_DAMAGE;
    struct cursor k = cursor_of(slice_from(bytes, sizeof magic));
    if (cursor_u32(&k) > KEPT_VERSION)
        return E_VERSION;
    for (uint8_t kind; (kind = cursor_u8(&k)) != 0;) {
        struct slice key = cursor_text(&k), value = cursor_text(&k);
        if (k.bad)
            return E_DAMAGE;
        int r = facts_get(c->facts, kind, key) ? 0 : facts_set(c->facts, kind, key, value);
        if (r < 0)
            return r;
    }
    return k.bad ? E_DAMAGE : 0;
}

int kept_read(struct catalog *c)
{
    struct strbuf path = {0}, bytes = {0};
    strbuf_printf(&path, "%s/kept", c->dir);
    int r = strbuf_failed(&path) ? -ENOMEM : read_file(path.p, &bytes);
    if (r == 0)
        r = decode(c, strbuf_slice(&bytes));
    strbuf_fini(&path);
    strbuf_fini(&bytes);
    return r;
}
