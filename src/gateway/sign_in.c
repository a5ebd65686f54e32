/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/sign_in.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

/* Keys and sessions are the same: a secret, of which its hash is enough, whose it is, and until when. */
struct secret {
    bool is_there; /* else the place is free */
    unsigned char hash[SIGN_IN_HASH];
    int64_t until_ns;
    struct access_identity who;
};

struct secrets {
    struct secret *all;
    size_t max, of_one;
    int64_t for_ns;
};

struct sign_in {
    struct secret keys[SIGN_IN_KEYS], sessions[SIGN_IN_SESSIONS];
    const char *path; /* of sign_in_keep; NULL = none */
    struct sign_in_bond bond;
};

static struct secrets keys_of(struct sign_in *s)
{
    return (struct secrets){s->keys, SIGN_IN_KEYS, SIGN_IN_KEYS_OF_ONE, SIGN_IN_KEY_S * NS_PER_S};
}

static struct secrets sessions_of(struct sign_in *s)
{
    return (struct secrets){s->sessions, SIGN_IN_SESSIONS, SIGN_IN_SESSIONS_OF_ONE,
                            SIGN_IN_SESSION_S * NS_PER_S};
}

static void forget(struct secret *one)
{
    explicit_bzero(one, sizeof *one);
}

static void hash_of(struct slice text, unsigned char out[SIGN_IN_HASH])
{
    (void)SHA256((const unsigned char *)text.p, text.n, out); /* returns out */
}

/* Where a new one of who goes: in a free place, or in that of one that is over, of its own oldest if it has
 * too many, or (the owner's) of the oldest of others. NULL: nowhere. */
static struct secret *place_for(const struct secrets *t, const struct access_identity *who, int64_t now_ns)
{
    struct secret *free_one = NULL, *own = NULL, *other = NULL;
    size_t n_own = 0;
    for (size_t i = 0; i < t->max; i++) {
        struct secret *one = &t->all[i];
        if (!one->is_there || one->until_ns <= now_ns) {
            free_one = one;
        } else if (access_same_identity(&one->who, who)) {
            n_own++;
            own = !own || one->until_ns < own->until_ns ? one : own;
        } else if (one->who.kind != ACCESS_OWNER) {
            other = !other || one->until_ns < other->until_ns ? one : other;
        }
    }
    if (n_own >= t->of_one)
        return own;
    return free_one ? free_one : who->kind == ACCESS_OWNER ? other : NULL;
}

static int add(const struct secrets *t, const struct access_identity *who, int64_t now_ns,
               char text[HTTP_TOKEN_TEXT + 1])
{
    struct secret *to = place_for(t, who, now_ns);
    char fresh[HTTP_TOKEN_TEXT + 1];
    if (!to)
        return -EAGAIN;
    int r = http_token_make(fresh);
    if (r < 0)
        return r;
    *to = (struct secret){.is_there = true, .until_ns = now_ns + t->for_ns, .who = *who};
    hash_of(slice_of(fresh, HTTP_TOKEN_TEXT), to->hash);
    memcpy(text, fresh, sizeof fresh);
    explicit_bzero(fresh, sizeof fresh);
    return 0;
}

/* All are looked at, whichever it is. NULL: none. */
static struct secret *find(const struct secrets *t, struct slice text, int64_t now_ns)
{
    struct secret *found = NULL;
    unsigned char hash[SIGN_IN_HASH];
    hash_of(text, hash);
    for (size_t i = 0; i < t->max; i++) {
        struct secret *one = &t->all[i];
        bool is_same = CRYPTO_memcmp(one->hash, hash, sizeof hash) == 0;
        if (is_same & one->is_there & (one->until_ns > now_ns))
            found = one;
    }
    return found;
}

struct sign_in *sign_in_create(void)
{
    return mem_try_alloc(sizeof(struct sign_in));
}

void sign_in_destroy(struct sign_in *s)
{
    if (s)
        explicit_bzero(s, sizeof *s);
    mem_free(s);
}

int sign_in_make_key(struct sign_in *s, const struct access_identity *who, int64_t now_ns,
                     char key[HTTP_TOKEN_TEXT + 1])
{
    const struct secrets t = keys_of(s);
    if (who->kind == ACCESS_NOBODY || who->kind == ACCESS_INSECURE)
        return -EACCES;
    return add(&t, who, now_ns, key);
}

int sign_in_take_key(struct sign_in *s, struct slice key, int64_t now_ns, char token[HTTP_TOKEN_TEXT + 1],
                     struct access_identity *out)
{
    const struct secrets keys = keys_of(s), sessions = sessions_of(s);
    struct secret *one = find(&keys, key, now_ns);
    if (!one)
        return -EACCES;
    struct access_identity who = one->who;
    forget(one);
    who.interface = "http";
    int r = add(&sessions, &who, now_ns, token);
    if (r == 0)
        *out = who;
    return r;
}

int sign_in_find(const struct sign_in *s, struct slice token, int64_t now_ns, struct access_identity *out)
{
    const struct secrets t = sessions_of((struct sign_in *)(uintptr_t)s); /* only looked at */
    const struct secret *one = find(&t, token, now_ns);
    if (!one)
        return -EACCES;
    *out = one->who;
    return 0;
}

bool sign_in_end(struct sign_in *s, struct slice token, int64_t now_ns)
{
    const struct secrets t = sessions_of(s);
    struct secret *one = find(&t, token, now_ns);
    if (!one)
        return false;
    forget(one);
    return true;
}

/* ---------------------------------------------------------------- over a restart */

static void put_session(struct sign_in *s, size_t i, const struct sign_in_session *from,
                        const struct access *table, int64_t now_ns, int64_t left_ns)
{
    struct secret *to = &s->sessions[i];
    const int64_t most_ns = SIGN_IN_SESSION_S * NS_PER_S; /* whatever the clock has done since */
    *to = (struct secret){
        .is_there = true, .until_ns = now_ns + (left_ns < most_ns ? left_ns : most_ns), .who = from->who};
    memcpy(to->hash, from->hash, sizeof to->hash);
    to->who.table = table;
    to->who.interface = "http";
}

int sign_in_keep(struct sign_in *s, const struct sign_in_kept *k, struct diag *why)
{
    struct sign_in_session *all = mem_try_alloc(SIGN_IN_SESSIONS * sizeof *all);
    s->path = k->path;
    s->bond = (struct sign_in_bond){0};
    if (k->owner.n)
        hash_of(k->owner, s->bond.owner);
    if (k->site.n)
        hash_of(k->site, s->bond.site);
    int n = all ? sign_in_file_read(k->path, &s->bond, all, SIGN_IN_SESSIONS, why)
                : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    size_t live = 0;
    for (int i = 0; i < n; i++)
        if (all[i].until_ns > k->utc_ns)
            put_session(s, live++, &all[i], k->table, k->now_ns, all[i].until_ns - k->utc_ns);
    mem_free(all);
    return n < 0 ? n : (int)live;
}

int sign_in_save(const struct sign_in *s, int64_t now_ns, int64_t utc_ns)
{
    struct sign_in_session *all = s->path ? mem_try_alloc(SIGN_IN_SESSIONS * sizeof *all) : NULL;
    size_t n = 0;
    if (!all)
        return s->path ? -ENOMEM : 0;
    for (size_t i = 0; i < SIGN_IN_SESSIONS; i++) {
        const struct secret *one = &s->sessions[i];
        if (!one->is_there || one->until_ns <= now_ns)
            continue;
        all[n] = (struct sign_in_session){.until_ns = utc_ns + (one->until_ns - now_ns), .who = one->who};
        memcpy(all[n++].hash, one->hash, sizeof one->hash);
    }
    int r = sign_in_file_write(s->path, &s->bond, all, n);
    mem_free(all);
    return r;
}
