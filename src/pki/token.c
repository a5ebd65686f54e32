/* SPDX-License-Identifier: Apache-2.0 */
#include "pki/token.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/text.h"
#include "pki/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <unistd.h>

#define PREFIX      "gl1_"
#define HTTP_PREFIX "glh_"
enum { FILE_NAME = 2 * SHA256_DIGEST_LENGTH + 1 };

/* ---------------------------------------------------------------- as text */

/* base64url without padding: text.h's with two other characters. */
static void add_base64url(struct strbuf *out, struct slice bytes)
{
    size_t at = out->n;
    text_add_base64(out, bytes);
    if (strbuf_failed(out))
        return;
    while (out->n > at && out->p[out->n - 1] == '=')
        out->p[--out->n] = '\0';
    for (char *p = out->p + at; *p; p++)
        *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
}

static int from_base64url(struct slice text, struct strbuf *out)
{
    struct strbuf plain = {0};
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '+' || c == '/' || c == '=')
            c = '!'; /* not of this alphabet */
        strbuf_add_char(&plain, c == '-' ? '+' : c == '_' ? '/' : c);
    }
    while (plain.n % 4 && !strbuf_failed(&plain))
        strbuf_add_char(&plain, '=');
    int r = strbuf_failed(&plain) ? -ENOMEM : text_from_base64(strbuf_slice(&plain), out);
    strbuf_fini(&plain);
    return r;
}

void token_print(const struct token *t, struct strbuf *out)
{
    struct strbuf bytes = {0};
    strbuf_add(&bytes, t->secret, sizeof t->secret);
    strbuf_add(&bytes, t->ca, sizeof t->ca);
    strbuf_add_char(&bytes, (char)t->role);
    strbuf_add_text(&bytes, slice_str(t->name));
    strbuf_add_text(&bytes, slice_str(t->addresses));
    strbuf_add_u32(&bytes, crc32c(0, strbuf_slice(&bytes)));
    strbuf_add_str(out, PREFIX);
    add_base64url(out, strbuf_slice(&bytes));
    out->failed = out->failed || strbuf_failed(&bytes);
    strbuf_fini(&bytes);
}

static bool copy_text(char *to, size_t n, struct slice s)
{
    if (s.n >= n || text_has_control(s) || !text_is_utf8(s))
        return false;
    memcpy(to, s.p, s.n);
    to[s.n] = '\0';
    return true;
}

static int parse_bytes(struct slice bytes, struct token *out)
{
    struct token t = {0};
    if (bytes.n < 4)
        return E_PROTO;
    struct cursor c = cursor_of(slice_of(bytes.p, bytes.n - 4)),
                  end = cursor_of(slice_from(bytes, bytes.n - 4));
    if (cursor_u32(&end) != crc32c(0, slice_of(bytes.p, bytes.n - 4)))
        return E_PROTO;
    struct slice secret = cursor_bytes(&c, sizeof t.secret), ca = cursor_bytes(&c, sizeof t.ca);
    uint8_t role = cursor_u8(&c);
    struct slice name = cursor_text(&c), addresses = cursor_text(&c);
    if (c.bad || cursor_left(&c) || role < TLS_AGENT || role > TLS_OPERATOR ||
        (name.n && !text_is_name(name)) || !copy_text(t.name, sizeof t.name, name) ||
        !copy_text(t.addresses, sizeof t.addresses, addresses))
        return E_PROTO;
    memcpy(t.secret, secret.p, secret.n);
    memcpy(t.ca, ca.p, ca.n);
    t.role = role;
    *out = t;
    return 0;
}

int token_parse(struct slice text, struct token *out, struct diag *why)
{
    const struct slice prefix = SLICE_LIT(PREFIX);
    struct strbuf bytes = {0};
    if (!slice_starts(text, prefix))
        return diag_set(why, E_PROTO, 0, "this is no token: one starts with %s", PREFIX);
    int r = text.n > TOKEN_TEXT_MAX ? E_PROTO : from_base64url(slice_from(text, prefix.n), &bytes);
    if (r == 0)
        r = parse_bytes(strbuf_slice(&bytes), out);
    strbuf_fini(&bytes);
    return r == E_PROTO
               ? diag_set(why, r, 0,
                          "this is not a whole token: copy all of the line that `gridline token` printed")
           : r < 0 ? diag_set(why, r, 0, "%s", err_text(r))
                   : 0;
}

/* ---------------------------------------------------------------- the site's side */

static void file_name(struct slice secret, char out[FILE_NAME])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[SHA256_DIGEST_LENGTH];
    (void)SHA256((const unsigned char *)secret.p, secret.n, hash); /* returns hash */
    for (size_t i = 0; i < sizeof hash; i++) {
        out[2 * i] = digits[hash[i] >> 4];
        out[2 * i + 1] = digits[hash[i] & 15];
    }
    out[FILE_NAME - 1] = '\0';
}

int token_make_http(struct strbuf *token, struct strbuf *sha256)
{
    unsigned char secret[32];
    char hash[FILE_NAME];
    if (RAND_bytes(secret, sizeof secret) != 1)
        return -EIO;
    strbuf_add_str(token, HTTP_PREFIX);
    add_base64url(token, slice_of((const char *)secret, sizeof secret));
    OPENSSL_cleanse(secret, sizeof secret);
    file_name(strbuf_slice(token), hash);
    strbuf_add_str(sha256, hash);
    return strbuf_failed(token) || strbuf_failed(sha256) ? -ENOMEM : 0;
}

/* Takes "KEY VALUE\n" from the front. */
static bool next_value(struct slice *text, const char *key, struct slice *value)
{
    size_t n = strlen(key);
    const char *end = text->n ? memchr(text->p, '\n', text->n) : NULL;
    if (!end || !slice_starts(*text, slice_str(key)) || text->n <= n || text->p[n] != ' ')
        return false;
    *value = slice_of(text->p + n + 1, (size_t)(end - text->p) - n - 1);
    *text = slice_from(*text, (size_t)(end - text->p) + 1);
    return true;
}

int token_parse_file(struct slice text, struct token_grant *grant, int64_t *expires_ns)
{
    struct slice expires, role, name;
    struct token_grant g = {0};
    int64_t until;
    if (!next_value(&text, "expires", &expires) || !next_value(&text, "role", &role) ||
        !next_value(&text, "name", &name) || clock_parse_iso(expires, &until) < 0)
        return E_PROTO;
    g.role = identity_role_of(role);
    if (g.role == TLS_NOBODY || !(slice_eq_str(name, "*") || text_is_name(name)))
        return E_PROTO;
    memcpy(g.name, name.p, name.n); /* at most 128 bytes */
    *grant = g;
    *expires_ns = until;
    return 0;
}

/* A file that says nothing has expired. */
static int64_t expiry_of(const char *folder, const char *file)
{
    struct strbuf text = {0};
    struct token_grant grant;
    int64_t expires = 0;
    if (folder_get(folder, file, 0, &text, NULL) < 0 ||
        token_parse_file(strbuf_slice(&text), &grant, &expires) < 0)
        expires = 0;
    strbuf_fini(&text);
    return expires;
}

/* Housekeeping: what it does not remove now, it will. */
static void remove_expired(const char *folder, int64_t now_ns)
{
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strlen(e->d_name) == FILE_NAME - 1 && expiry_of(folder, e->d_name) < now_ns)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
}

int token_make(const char *folder, struct token *t, int64_t now_ns, int64_t expires_ns, struct diag *why)
{
    char file[FILE_NAME], expires[CLOCK_TEXT_MAX];
    struct strbuf text = {0};
    if (RAND_bytes(t->secret, sizeof t->secret) != 1)
        return diag_set(why, -EIO, 0, "no random numbers: %s", certificate_reason());
    remove_expired(folder, now_ns);
    file_name(slice_of((const char *)t->secret, sizeof t->secret), file);
    strbuf_printf(&text, "expires %.*s\nrole %s\nname %s\n", (int)clock_print_iso(expires, expires_ns),
                  expires, identity_role_name(t->role), t->name[0] ? t->name : "*");
    int r = strbuf_failed(&text) ? diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM))
                                 : folder_put(folder, file, 0600, strbuf_slice(&text), why);
    strbuf_fini(&text);
    return r;
}

/* 0: it was there, and is gone for good. */
static int remove_token(const char *folder, const char *file)
{
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = at < 0 || unlinkat(at, file, 0) < 0 || fsync(at) < 0 ? -errno : 0;
    if (at >= 0)
        (void)close(at); /* read only */
    return r;
}

static int check_grant(const struct token_grant *g, int64_t expires_ns, struct slice name, int64_t now_ns,
                       struct diag *why)
{
    char when[CLOCK_TEXT_MAX];
    if (now_ns >= expires_ns)
        return diag_set(why, -EKEYEXPIRED, 0,
                        "the token expired at %.*s: make a new one with `gridline token`",
                        (int)clock_print_iso(when, expires_ns), when);
    if (strcmp(g->name, "*") != 0 && !slice_eq_str(name, g->name))
        return diag_set(why, -EACCES, 0, "the token is for %s %.60s, not for %.*s",
                        identity_role_name(g->role), g->name, (int)(name.n < 60 ? name.n : 60), name.p);
    return 0;
}

int token_take(const char *folder, struct slice secret, struct slice name, int64_t now_ns,
               struct token_grant *out, struct diag *why)
{
    char file[FILE_NAME];
    struct strbuf text = {0};
    struct token_grant g = {0};
    int64_t expires = 0;
    if (!text_is_name(name))
        return diag_set(why, -EACCES, 0, "a name has 1 to 128 letters, digits and . _ : -");
    file_name(secret, file);
    int r = folder_get(folder, file, 0, &text, NULL);
    if (r == 0)
        r = token_parse_file(strbuf_slice(&text), &g, &expires);
    strbuf_fini(&text);
    if (r == 0) {
        r = check_grant(&g, expires, name, now_ns, why);
        if (r == -EACCES)
            return r;
        int removed = remove_token(folder, file);
        r = r < 0 ? r : removed;
    }
    if (r == -ENOENT)
        return diag_set(why, r, 0,
                        "no such token: it was used already, or is of another site; make a new one with "
                        "`gridline token`");
    if (r < 0 && r != -EKEYEXPIRED)
        return diag_set(why, r, 0, "the token can't be taken: %s", err_text(r));
    if (r < 0)
        return r;
    *out = (struct token_grant){.role = g.role};
    memcpy(out->name, name.p, name.n);
    return 0;
}
