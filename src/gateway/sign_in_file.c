/* SPDX-License-Identifier: Apache-2.0 */
/* The file, little-endian:
 *
 *   "GLSI" u32 version (1)
 *   32 bytes owner, 32 bytes site (struct sign_in_bond)
 *   u32 number of sessions, and for each
 *       32 bytes SHA-256 of its token, u64 until (ns, utc), u64 end of the certificate (ns, utc; 0 = none)
 *       u32 uid, u8 kind, u8 is_agent, varint length of the name, the name
 *   u32 CRC-32C of all that
 *
 * Small: at most 256 sessions of at most 312 bytes, written as a whole by who signs in or out. */
#include "gateway/sign_in_file.h"

#include "base/crc32c.h"
#include "base/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, CRC = 4, FILE_MAX = 256 << 10 };
#define MAGIC "GLSI"

static bool is_kept(const struct access_identity *who)
{
    return who->kind == ACCESS_OWNER || who->kind == ACCESS_LOCAL || who->kind == ACCESS_AGENT ||
           who->kind == ACCESS_GATEWAY || who->kind == ACCESS_OPERATOR;
}

/* ---------------------------------------------------------------- bytes */

static void print_session(struct strbuf *out, const struct sign_in_session *s)
{
    strbuf_add(out, s->hash, sizeof s->hash);
    strbuf_add_u64(out, (uint64_t)s->until_ns);
    strbuf_add_u64(out, (uint64_t)s->who.not_after_ns);
    strbuf_add_u32(out, s->who.uid);
    strbuf_add_char(out, (char)s->who.kind);
    strbuf_add_char(out, s->who.is_agent ? 1 : 0);
    strbuf_add_text(out, slice_str(s->who.name));
}

void sign_in_file_print(struct strbuf *out, const struct sign_in_bond *bond,
                        const struct sign_in_session *all, size_t n)
{
    uint32_t kept = 0;
    size_t from = out->n;
    for (size_t i = 0; i < n; i++)
        kept += is_kept(&all[i].who);
    strbuf_add_str(out, MAGIC);
    strbuf_add_u32(out, VERSION);
    strbuf_add(out, bond->owner, sizeof bond->owner);
    strbuf_add(out, bond->site, sizeof bond->site);
    strbuf_add_u32(out, kept);
    for (size_t i = 0; i < n; i++)
        if (is_kept(&all[i].who))
            print_session(out, &all[i]);
    if (!strbuf_failed(out))
        strbuf_add_u32(out, crc32c(0, slice_of(out->p + from, out->n - from)));
}

static bool parse_session(struct cursor *c, struct sign_in_session *out)
{
    *out = (struct sign_in_session){0};
    struct slice hash = cursor_bytes(c, SIGN_IN_HASH);
    out->until_ns = (int64_t)cursor_u64(c);
    out->who.not_after_ns = (int64_t)cursor_u64(c);
    out->who.uid = cursor_u32(c);
    out->who.kind = (enum access_kind)cursor_u8(c);
    out->who.is_agent = cursor_u8(c) != 0;
    struct slice name = cursor_text(c);
    if (c->bad || name.n >= sizeof out->who.name || memchr(name.p, '\0', name.n) || !is_kept(&out->who))
        return false;
    memcpy(out->hash, hash.p, hash.n);
    memcpy(out->who.name, name.p, name.n);
    return true;
}

/* Is what the session hangs on still there? */
static bool is_bound(const struct sign_in_session *s, struct slice owner, struct slice site,
                     const struct sign_in_bond *now)
{
    if (s->who.kind == ACCESS_OWNER && s->who.uid == UINT32_MAX) /* by the token */
        return memcmp(owner.p, now->owner, owner.n) == 0;
    if (s->who.kind == ACCESS_OWNER) /* by the socket */
        return s->who.uid == 0 || s->who.uid == geteuid();
    return s->who.kind == ACCESS_LOCAL || memcmp(site.p, now->site, site.n) == 0;
}

int sign_in_file_parse(struct slice bytes, const struct sign_in_bond *bond, struct sign_in_session *out,
                       size_t max)
{
    size_t n = 0;
    if (bytes.n < CRC)
        return E_PROTO;
    struct slice body = slice_of(bytes.p, bytes.n - CRC);
    struct cursor c = cursor_of(body), end = cursor_of(slice_from(bytes, body.n));
    struct slice magic = cursor_bytes(&c, strlen(MAGIC));
    uint32_t version = cursor_u32(&c);
    struct slice owner = cursor_bytes(&c, SIGN_IN_HASH), site = cursor_bytes(&c, SIGN_IN_HASH);
    uint32_t all = cursor_u32(&c);
    if (c.bad || !slice_eq_str(magic, MAGIC) || version != VERSION || cursor_u32(&end) != crc32c(0, body))
        return E_PROTO;
    for (uint32_t i = 0; i < all; i++) { /* each has bytes, or it ends here */
        struct sign_in_session s;
        if (!parse_session(&c, &s))
            return E_PROTO;
        if (n < max && is_bound(&s, owner, site, bond))
            out[n++] = s;
    }
    return cursor_left(&c) ? E_PROTO : (int)n;
}

/* ---------------------------------------------------------------- the file */

static int read_all(int fd, struct strbuf *out)
{
    char *to = strbuf_room(out, FILE_MAX + 1);
    if (!to)
        return -ENOMEM;
    for (size_t n = 0;;) {
        ssize_t got = read(fd, to + n, FILE_MAX + 1 - n);
        if (got < 0 && errno != EINTR)
            return -errno;
        n += got > 0 ? (size_t)got : 0;
        if (n > FILE_MAX)
            return E_PROTO;
        if (got == 0) {
            strbuf_advance(out, n);
            return 0;
        }
    }
}

int sign_in_file_read(const char *path, const struct sign_in_bond *bond, struct sign_in_session *out,
                      size_t max, struct diag *why)
{
    struct stat st;
    struct strbuf bytes = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return 0;
    int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
    if (r == 0 && (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077)))
        r = -EPERM;
    if (r == 0)
        r = read_all(fd, &bytes);
    if (r == 0)
        r = sign_in_file_parse(strbuf_slice(&bytes), bond, out, max);
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    strbuf_fini(&bytes);
    if (r >= 0)
        return r;
    return diag_set(why, r, 0, "%s: %s", path,
                    r == -EPERM    ? "others may read or write it, or it is not this user's file"
                    : r == E_PROTO ? "it is damaged"
                                   : err_text(r));
}

static int write_all(int fd, struct slice bytes)
{
    while (bytes.n) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR)
            return -errno;
        bytes = slice_from(bytes, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

int sign_in_file_write(const char *path, const struct sign_in_bond *bond, const struct sign_in_session *all,
                       size_t n)
{
    struct strbuf bytes = {0}, temporary = {0};
    sign_in_file_print(&bytes, bond, all, n);
    strbuf_printf(&temporary, "%s.new", path);
    int r = strbuf_failed(&bytes) || strbuf_failed(&temporary) ? -ENOMEM : 0, fd = -1;
    if (r == 0) {
        (void)unlink(temporary.p); /* of a write that was cut off; if it can't be, open says so */
        fd = open(temporary.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        r = fd < 0 ? -errno : write_all(fd, strbuf_slice(&bytes));
    }
    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(temporary.p, path) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        (void)unlink(temporary.p); /* it is of no use */
    strbuf_fini(&temporary);
    strbuf_fini(&bytes);
    return r;
}
