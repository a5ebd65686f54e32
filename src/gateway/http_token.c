/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/http_token.h"

#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_token_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* false: there is no good one. */
static bool read_token(const char *path, char text[HTTP_TOKEN_TEXT + 1])
{
    struct stat st;
    char got[HTTP_TOKEN_TEXT + 2];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                   (st.st_mode & 077) == 0 && read(fd, got, sizeof got) == HTTP_TOKEN_TEXT + 1 &&
                   got[HTTP_TOKEN_TEXT] == '\n';
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    for (size_t i = 0; i < HTTP_TOKEN_TEXT && is_good; i++)
        is_good = is_token_byte(got[i]);
    if (!is_good)
        return false;
    memcpy(text, got, HTTP_TOKEN_TEXT);
    text[HTTP_TOKEN_TEXT] = '\0';
    return true;
}

int http_token_make(char text[HTTP_TOKEN_TEXT + 1])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char random[HTTP_TOKEN_TEXT];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return -EIO;
    for (size_t i = 0; i < HTTP_TOKEN_TEXT; i++)
        text[i] = digits[random[i] % 64]; /* 6 bits of each: 258 in all */
    text[HTTP_TOKEN_TEXT] = '\0';
    return 0;
}

/* As a whole or not at all: a new file is moved in the place of what is there. */
static int write_token(const char *path, const char *text)
{
    struct strbuf temporary = {0};
    strbuf_printf(&temporary, "%s.new", path);
    if (strbuf_failed(&temporary))
        return -ENOMEM;
    (void)unlink(temporary.p); /* of a start that was cut off; if it can't be, open says so */
    int fd = open(temporary.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : 0;
    if (fd >= 0 && dprintf(fd, "%s\n", text) != HTTP_TOKEN_TEXT + 1)
        r = -EIO;
    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(temporary.p, path) < 0)
        r = -errno;
    strbuf_fini(&temporary);
    return r;
}

int http_token_open(const char *path, char text[HTTP_TOKEN_TEXT + 1], struct diag *why)
{
    if (read_token(path, text))
        return 0;
    int r = http_token_make(text);
    if (r == 0)
        r = write_token(path, text);
    return r == 0 ? 0 : diag_set(why, r, 0, "the owner's token %s: %s", path, err_text(r));
}

bool http_token_same(struct slice a, struct slice b)
{
    return a.n == b.n && a.n && CRYPTO_memcmp(a.p, b.p, a.n) == 0;
}

/* The value of our cookie; "" = there is none. */
static struct slice find_cookie(struct slice cookies)
{
    const struct slice name = SLICE_LIT(HTTP_TOKEN_COOKIE "=");
    while (cookies.n) {
        const char *end = memchr(cookies.p, ';', cookies.n);
        struct slice one = slice_of(cookies.p, end ? (size_t)(end - cookies.p) : cookies.n);
        cookies = slice_from(cookies, one.n + 1);
        while (one.n && one.p[0] == ' ')
            one = slice_from(one, 1);
        if (slice_starts(one, name))
            return slice_from(one, name.n);
    }
    return SLICE_LIT("");
}

int http_token_find(struct slice authorization, struct slice cookies, struct slice *out)
{
    const struct slice bearer = SLICE_LIT("Bearer ");
    *out = authorization.n ? authorization : find_cookie(cookies);
    if (out->n == 0)
        return E_NODATA;
    if (authorization.n) {
        if (authorization.n <= bearer.n || !slice_eq_nocase(slice_of(authorization.p, bearer.n), bearer))
            return E_PROTO;
        *out = slice_from(authorization, bearer.n);
    }
    return out->n > HTTP_TOKEN_MAX ? E_PROTO : 0;
}
