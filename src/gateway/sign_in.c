/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/sign_in.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>

/* Keys and sessions are the same: a secret, whose it is, and until when. */
struct secret {
    char text[HTTP_TOKEN_TEXT + 1]; /* "" = the place is free */
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

/* Where a new one of who goes: in a free place, or in that of one that is over, of its own oldest if it has
 * too many, or (the owner's) of the oldest of others. NULL: nowhere. */
static struct secret *place_for(const struct secrets *t, const struct access_identity *who, int64_t now_ns)
{
    struct secret *free_one = NULL, *own = NULL, *other = NULL;
    size_t n_own = 0;
    for (size_t i = 0; i < t->max; i++) {
        struct secret *one = &t->all[i];
        if (!one->text[0] || one->until_ns <= now_ns) {
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
    *to = (struct secret){.until_ns = now_ns + t->for_ns, .who = *who};
    memcpy(to->text, fresh, sizeof to->text);
    memcpy(text, fresh, sizeof fresh);
    explicit_bzero(fresh, sizeof fresh);
    return 0;
}

/* All are looked at, whichever it is. NULL: none. */
static struct secret *find(const struct secrets *t, struct slice text, int64_t now_ns)
{
    struct secret *found = NULL;
    for (size_t i = 0; i < t->max; i++) {
        struct secret *one = &t->all[i];
        bool is_same = http_token_same(slice_of(one->text, HTTP_TOKEN_TEXT), text);
        if (is_same & (one->text[0] != '\0') & (one->until_ns > now_ns))
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
