/* SPDX-License-Identifier: Apache-2.0 */
#include "pki/folder.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_PEM_MAX = 4096, READ_BYTES = 16 << 10 };

/* ---------------------------------------------------------------- files */

static int open_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int folder_sync(const char *dir)
{
    int fd = open_dir(dir);
    if (fd < 0)
        return fd;
    int r = fsync(fd) < 0 ? -errno : 0;
    (void)close(fd); /* read only */
    return r;
}

int folder_make(const char *dir, struct diag *why)
{
    char path[4096];
    size_t n = strlen(dir);
    if (n == 0 || n >= sizeof path)
        return diag_set(why, -ENAMETOOLONG, 0, "a folder's path has 1 to %zu bytes", sizeof path - 1);
    memcpy(path, dir, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        path[i] = '\0';
        if (mkdir(path, i == n ? 0700 : 0755) < 0 && errno != EEXIST)
            return diag_set(why, -errno, 0, "can't make the folder %.150s: %s", path, err_text(-errno));
        path[i] = i == n ? '\0' : '/';
    }
    return 0;
}

static int write_all(int fd, struct slice s)
{
    while (s.n) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        s = slice_from(s, (size_t)n);
    }
    return 0;
}

/* The owner of the folder owns what is in it: root makes a token, another user's gateway takes it. */
static int give_to_owner(int dir, int fd)
{
    struct stat st;
    if (geteuid() != 0)
        return 0;
    if (fstat(dir, &st) < 0 || fchown(fd, st.st_uid, st.st_gid) < 0)
        return -errno;
    return 0;
}

/* Under a temporary name first: nobody ever sees a part. */
static int put_file(int dir, const char *name, unsigned mode, struct slice content)
{
    char temporary[NAME_MAX + 1];
    if (snprintf(temporary, sizeof temporary, ".%s.%ld", name, (long)getpid()) >= (int)sizeof temporary)
        return -ENAMETOOLONG;
    (void)unlinkat(dir, temporary, 0); /* left by a process of the same id, long ago; else there is none */
    int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int r = write_all(fd, content);
    if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
        r = -errno;
    if (r == 0)
        r = give_to_owner(dir, fd);
    if (close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && renameat(dir, temporary, dir, name) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(dir, temporary, 0); /* of no use to anybody */
    return r;
}

int folder_put(const char *dir, const char *name, unsigned mode, struct slice content, struct diag *why)
{
    int fd = open_dir(dir);
    int r = fd < 0 ? fd : put_file(fd, name, mode, content);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (fd >= 0)
        (void)close(fd); /* read only */
    return r < 0 ? diag_set(why, r, 0, "can't write %.130s/%s: %s", dir, name, err_text(r)) : 0;
}

static int read_all(int fd, struct strbuf *out)
{
    for (;;) {
        char *to =
            strbuf_room(out, READ_BYTES); /* a key in one piece: growing would leave copies of it behind */
        ssize_t n = to ? read(fd, to, READ_BYTES) : -1;
        if (!to)
            return -ENOMEM;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        strbuf_advance(out, (size_t)n);
        if (out->n > FOLDER_FILE_MAX)
            return E_LIMIT;
    }
}

int folder_get(const char *dir, const char *name, unsigned mode_forbidden, struct strbuf *out,
               struct diag *why)
{
    struct stat st;
    int at = open_dir(dir), fd = at < 0 ? -1 : openat(at, name, O_RDONLY | O_CLOEXEC);
    int r = at < 0 ? at : fd < 0 ? -errno : fstat(fd, &st) < 0 ? -errno : 0;
    if (r == 0 && (st.st_mode & mode_forbidden))
        r = diag_set(why, -EACCES, 0, "%.110s/%s can be read by others: chmod %o it", dir, name,
                     (unsigned)st.st_mode & 0777 & ~mode_forbidden);
    else if (r == 0 && (r = read_all(fd, out)) < 0)
        (void)diag_set(why, r, 0, "can't read %.130s/%s: %s", dir, name, err_text(r));
    else if (r < 0)
        (void)diag_set(why, r, 0, "can't open %.130s/%s: %s", dir, name, err_text(r));
    if (fd >= 0)
        (void)close(fd); /* read only, as the other */
    if (at >= 0)
        (void)close(at);
    return r;
}

/* ---------------------------------------------------------------- reading an identity */

static bool exists(const char *dir, const char *name)
{
    int at = open_dir(dir);
    bool is_there = at >= 0 && faccessat(at, name, F_OK, 0) == 0;
    if (at >= 0)
        (void)close(at); /* read only */
    return is_there;
}

static int parse_key(const char *dir, const char *name, struct folder *f, struct diag *why)
{
    struct strbuf text = {0};
    struct diag what = {0};
    int r = folder_get(dir, name, 077, &text, why);
    if (r == 0 && (r = certificate_read_key_pem(strbuf_slice(&text), &f->key, &what)) < 0)
        (void)diag_set(why, r, 0, "%.100s/%s: %s", dir, name, what.message);
    certificate_wipe(&text);
    return r;
}

static int parse_certificates(const char *dir, const char *name, STACK_OF(X509) * *out, struct diag *why)
{
    struct strbuf text = {0};
    struct diag what = {0};
    int r = folder_get(dir, name, 0, &text, why);
    if (r == 0 && (r = certificate_read_pem(strbuf_slice(&text), out, &what)) < 0)
        (void)diag_set(why, r, 0, "%.100s/%s: %s", dir, name, what.message);
    certificate_wipe(&text); /* renewed.pem has the key, too */
    return r;
}

/* Whatever its time: an expired one is told from a foreign one. */
static int check_issuer(const char *dir, const struct folder *f, struct diag *why)
{
    struct diag what = {0};
    int r = certificate_verify(folder_own(f), f->chain, f->cas, X509_PURPOSE_SSL_CLIENT, X509_V_FLAG_NO_CHECK_TIME,
                               &what);
    return r < 0 ? diag_set(why, r, 0, "%.80s: the certificate was not issued by the CA in ca.pem: %.60s", dir,
                            what.message)
                 : 0;
}

static int check(const char *dir, struct folder *f, struct diag *why)
{
    struct diag what = {0};
    if (X509_check_private_key(folder_own(f), f->key) != 1) {
        (void)certificate_reason(); /* empties the queue */
        return diag_set(why, -EKEYREJECTED, 0, "%.100s: the key does not belong to the certificate", dir);
    }
    int r = certificate_identity(folder_own(f), &f->who, &what);
    return r < 0 ? diag_set(why, r, 0, "%.80s: the certificate: %.100s", dir, what.message)
                 : check_issuer(dir, f, why);
}

int folder_read(const char *dir, struct folder *out, struct diag *why)
{
    struct folder f = {0};
    bool is_renewed = exists(dir, "renewed.pem");
    int r = parse_key(dir, is_renewed ? "renewed.pem" : "key.pem", &f, why);
    if (r == 0)
        r = parse_certificates(dir, is_renewed ? "renewed.pem" : "cert.pem", &f.chain, why);
    if (r == 0)
        r = parse_certificates(dir, "ca.pem", &f.cas, why);
    if (r == 0)
        r = check(dir, &f, why);
    if (r < 0) {
        folder_fini(&f);
        return r;
    }
    *out = f;
    return 0;
}

void folder_fini(struct folder *f)
{
    EVP_PKEY_free(f->key);
    sk_X509_pop_free(f->chain, X509_free);
    sk_X509_pop_free(f->cas, X509_free);
    *f = (struct folder){0};
}

X509 *folder_own(const struct folder *f)
{
    return sk_X509_value(f->chain, 0);
}

int folder_check_time(const struct folder *f, int64_t now_ns, struct diag *why)
{
    char when[CLOCK_TEXT_MAX];
    int64_t until = certificate_not_after_ns(folder_own(f)), from = certificate_not_before_ns(folder_own(f));
    bool is_over = now_ns >= until;
    if (!is_over && now_ns >= from)
        return 0;
    size_t n = clock_print_iso(when, is_over ? until : from);
    return diag_set(why, -EKEYEXPIRED, 0,
                    is_over
                        ? "the certificate of %s %.60s expired at %.*s: join again with a new token"
                        : "the certificate of %s %.60s is valid only from %.*s: is this host's clock right?",
                    identity_role_name(f->who.role), f->who.name, (int)n, when);
}

/* ---------------------------------------------------------------- writing an identity */

bool folder_is_used(const char *dir)
{
    return exists(dir, "key.pem") || exists(dir, "cert.pem") || exists(dir, "renewed.pem");
}

static int put_key(const char *dir, EVP_PKEY *key, struct diag *why)
{
    struct strbuf text = {0};
    int r = certificate_add_key_pem(key, &text);
    r = r < 0 ? diag_set(why, r, 0, "%s", err_text(r))
              : folder_put(dir, "key.pem", 0600, strbuf_slice(&text), why);
    certificate_wipe(&text);
    return r;
}

/* The two moves that renewed.pem makes one. */
static int settle(const char *dir, EVP_PKEY *key, struct slice chain_pem, struct diag *why)
{
    int r = put_key(dir, key, why);
    if (r == 0)
        r = folder_put(dir, "cert.pem", 0644, chain_pem, why);
    int at = r < 0 ? -1 : open_dir(dir);
    if (r == 0 && (at < 0 || unlinkat(at, "renewed.pem", 0) < 0 || fsync(at) < 0))
        r = diag_set(why, -errno, 0, "can't remove %.130s/renewed.pem: %s", dir, err_text(-errno));
    if (at >= 0)
        (void)close(at); /* read only */
    return r;
}

int folder_replace(const char *dir, EVP_PKEY *key, struct slice chain_pem, struct diag *why)
{
    struct strbuf both = {0};
    (void)strbuf_room(&both,
                      KEY_PEM_MAX + chain_pem.n); /* so that no copy of the key is left behind by growing */
    int r = certificate_add_key_pem(key, &both);
    strbuf_add_slice(&both, chain_pem);
    if (r < 0 || strbuf_failed(&both))
        r = diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    else
        r = folder_put(dir, "renewed.pem", 0600, strbuf_slice(&both), why);
    certificate_wipe(&both);
    return r < 0 ? r : settle(dir, key, chain_pem, why);
}

int folder_create(const char *dir, EVP_PKEY *key, struct slice chain_pem, struct slice ca_pem,
                  struct diag *why)
{
    if (folder_is_used(dir))
        return diag_set(why, -EEXIST, 0, "%.150s has an identity already", dir);
    int r = folder_make(dir, why);
    if (r == 0)
        r = folder_put(dir, "ca.pem", 0644, ca_pem, why);
    return r < 0 ? r : folder_replace(dir, key, chain_pem, why);
}
