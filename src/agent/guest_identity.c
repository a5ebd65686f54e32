/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/guest_identity.h"

#include "base/err.h"
#include "base/secret.h"
#include "net/secure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int make_folder(struct strbuf *dir)
{
    static const char *const places[] = {"/dev/shm/gridline-guest-XXXXXX", "/tmp/gridline-guest-XXXXXX"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        strbuf_reset(dir);
        strbuf_add_str(dir, places[i]);
        if (strbuf_failed(dir))
            return -ENOMEM;
        if (mkdtemp(dir->p))
            return 0;
    }
    return -errno;
}

static int join(const char *token, const char *dir, struct diag *why)
{
    char host[256] = "";
    struct tls_identity who;
    const struct secure_site_ops *site = secure_load_site(why);
    if (!site)
        return -ENOENT;
    (void)gethostname(host, sizeof host - 1); /* then the gateway refuses it */
    const struct secure_join wanted = {.token = token, .name = host, .dir = dir, .timeout_ms = GUEST_JOIN_MS};
    return site->join(&wanted, &who, why);
}

int guest_identity_make(const char *token_file, struct strbuf *dir, struct diag *why)
{
    struct secret token;
    int r = secret_read(token_file, &token, why);
    if (r < 0)
        return r;
    r = make_folder(dir);
    if (r < 0) {
        (void)diag_set(why, r, 0, "no folder for the identity: %s", err_text(r));
        strbuf_reset(dir);
    } else {
        r = join(token.text, dir->p, why);
        if (r < 0)
            guest_identity_remove(dir);
    }
    secret_wipe(&token);
    return r;
}

void guest_identity_remove(struct strbuf *dir)
{
    static const char *const files[] = {"key.pem", "cert.pem", "ca.pem", "renewed.pem"};
    int fd = dir->n ? open(dir->p, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
    for (size_t i = 0; fd >= 0 && i < sizeof files / sizeof *files; i++)
        (void)unlinkat(fd, files[i], 0); /* not all are there */
    if (fd >= 0) {
        (void)close(fd);
        (void)rmdir(dir->p); /* it is ours: nobody else can have put something there */
    }
    strbuf_reset(dir);
}
