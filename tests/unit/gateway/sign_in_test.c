/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "gateway/sign_in.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct access_identity owner = {.kind = ACCESS_OWNER, .uid = 0, .interface = "unix"};
static const struct access_identity ann = {.kind = ACCESS_OPERATOR, .uid = UINT32_MAX, .name = "ann"};
static const int64_t now = 5 * NS_PER_S;

struct text {
    char p[HTTP_TOKEN_TEXT + 1];
};

static struct text key_of(struct sign_in *s, const struct access_identity *who, int64_t at_ns)
{
    struct text t;
    assert_int_equal(sign_in_make_key(s, who, at_ns, t.p), 0);
    assert_int_equal(strlen(t.p), HTTP_TOKEN_TEXT);
    return t;
}

static int take(struct sign_in *s, const char *key, int64_t at_ns, struct text *token,
                struct access_identity *who)
{
    return sign_in_take_key(s, slice_str(key), at_ns, token->p, who);
}

static void a_key_works_once(void **state)
{
    (void)state;
    struct sign_in *s = sign_in_create();
    struct access_identity who;
    struct text token, key = key_of(s, &ann, now);
    assert_int_equal(take(s, key.p, now, &token, &who), 0);
    assert_int_equal(who.kind, ACCESS_OPERATOR);
    assert_string_equal(who.name, "ann");
    assert_string_equal(who.interface, "http");
    assert_string_not_equal(token.p, key.p);
    assert_int_equal(take(s, key.p, now, &token, &who), -EACCES);
    sign_in_destroy(s);
}

static void a_key_is_over_in_time(void **state)
{
    (void)state;
    struct sign_in *s = sign_in_create();
    struct access_identity who;
    struct text token, key = key_of(s, &owner, now), other = key_of(s, &owner, now);
    assert_int_equal(take(s, key.p, now + SIGN_IN_KEY_S * NS_PER_S - 1, &token, &who), 0);
    assert_int_equal(take(s, other.p, now + SIGN_IN_KEY_S * NS_PER_S, &token, &who), -EACCES);
    sign_in_destroy(s);
}

static void a_session_is_over_in_time_or_ended(void **state)
{
    (void)state;
    struct sign_in *s = sign_in_create();
    struct access_identity who;
    struct text token, key = key_of(s, &owner, now);
    assert_int_equal(take(s, key.p, now, &token, &who), 0);
    struct slice of = slice_str(token.p);
    assert_int_equal(sign_in_find(s, of, now + SIGN_IN_SESSION_S * NS_PER_S - 1, &who), 0);
    assert_int_equal(sign_in_find(s, of, now + SIGN_IN_SESSION_S * NS_PER_S, &who), -EACCES);
    assert_true(sign_in_end(s, of, now));
    assert_false(sign_in_end(s, of, now));
    assert_int_equal(sign_in_find(s, of, now, &who), -EACCES);
    sign_in_destroy(s);
}

static void what_is_none_is_none(void **state)
{
    (void)state;
    struct sign_in *s = sign_in_create();
    struct access_identity who = {.kind = ACCESS_LOCAL};
    struct text token, key = key_of(s, &owner, now);
    char zeros[HTTP_TOKEN_TEXT + 1] = {0};
    assert_int_equal(sign_in_find(s, slice_of(zeros, HTTP_TOKEN_TEXT), now, &who),
                     -EACCES); /* a free place */
    assert_int_equal(take(s, "", now, &token, &who), -EACCES);
    assert_int_equal(sign_in_find(s, slice_str(key.p), now, &who), -EACCES); /* a key is no session */
    key.p[3] = key.p[3] == 'A' ? 'B' : 'A';
    assert_int_equal(take(s, key.p, now, &token, &who), -EACCES);
    assert_int_equal(who.kind, ACCESS_LOCAL); /* untouched */
    static const struct access_identity nobody = {.kind = ACCESS_NOBODY},
                                        insecure = {.kind = ACCESS_INSECURE};
    assert_int_equal(sign_in_make_key(s, &nobody, now, key.p), -EACCES);
    assert_int_equal(sign_in_make_key(s, &insecure, now, key.p), -EACCES);
    sign_in_destroy(s);
}

/* One person's oldest gives way; others fill the rest, but the owner finds a place. */
static void keys_are_bounded(void **state)
{
    (void)state;
    struct sign_in *s = sign_in_create();
    struct access_identity who;
    struct text token, first = key_of(s, &ann, now), second = key_of(s, &ann, now + 1);
    for (int i = 2; i < SIGN_IN_KEYS_OF_ONE + 1; i++)
        (void)key_of(s, &ann, now + i);
    assert_int_equal(take(s, first.p, now + 20, &token, &who), -EACCES);
    assert_int_equal(take(s, second.p, now + 20, &token, &who), 0);
    int made = 0;
    for (int i = 0; i < SIGN_IN_KEYS; i++) {
        struct access_identity one = {.kind = ACCESS_LOCAL, .uid = (uint32_t)(1000 + i)};
        int r = sign_in_make_key(s, &one, now + 30 + i, first.p);
        assert_true(r == 0 || r == -EAGAIN);
        made += r == 0;
    }
    assert_int_equal(made, SIGN_IN_KEYS - (SIGN_IN_KEYS_OF_ONE - 1));
    struct text own = key_of(s, &owner, now + 200);
    assert_int_equal(take(s, own.p, now + 200, &token, &who), 0);
    assert_int_equal(who.kind, ACCESS_OWNER);
    sign_in_destroy(s);
}

/* ---------------------------------------------------------------- over a restart */

static const int64_t utc = INT64_C(1700000000) * NS_PER_S;

struct kept {
    char dir[64], path[96];
    struct sign_in_kept k;
};

static struct kept kept_in(char name[])
{
    struct kept t = {.k = {.owner = SLICE_LIT("the owner's"), .site = SLICE_LIT("a CA"), .utc_ns = utc}};
    assert_non_null(mkdtemp(name));
    (void)snprintf(t.dir, sizeof t.dir, "%s", name);
    (void)snprintf(t.path, sizeof t.path, "%s/http.sessions", name);
    return t;
}

/* A gateway that starts, with the file as it is: how many are signed in, or what is wrong. */
static int restart(struct sign_in **s, struct kept *t, int64_t at_ns)
{
    struct diag why = {0};
    sign_in_destroy(*s);
    *s = sign_in_create();
    t->k.path = t->path;
    t->k.now_ns = 7 * NS_PER_S; /* the monotonic clock begins anew */
    t->k.utc_ns = at_ns;
    int n = sign_in_keep(*s, &t->k, &why);
    assert_true((n < 0) == (why.message[0] != '\0'));
    return n;
}

static struct text signed_in(struct sign_in *s, const struct access_identity *as, int64_t at_ns)
{
    struct access_identity who;
    struct text token, key = key_of(s, as, at_ns);
    assert_int_equal(take(s, key.p, at_ns, &token, &who), 0);
    return token;
}

static void remove_kept(struct kept *t)
{
    (void)unlink(t->path); /* it may not be there */
    assert_int_equal(rmdir(t->dir), 0);
}

static void sessions_outlive_a_restart(void **state)
{
    (void)state;
    char name[] = "/tmp/gl-sign-in-XXXXXX";
    struct kept t = kept_in(name);
    struct sign_in *s = NULL;
    struct access_identity who;
    struct stat st;
    assert_int_equal(restart(&s, &t, utc), 0); /* there is no file */
    struct text mine = signed_in(s, &owner, now), hers = signed_in(s, &ann, now), key = key_of(s, &ann, now);
    assert_int_equal(sign_in_save(s, now, utc), 0);
    assert_int_equal(stat(t.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    const struct access *table = (const struct access *)(const void *)&t; /* only handed on */
    t.k.table = table;
    assert_int_equal(restart(&s, &t, utc + NS_PER_S), 2);
    assert_int_equal(sign_in_find(s, slice_str(hers.p), t.k.now_ns, &who), 0);
    assert_int_equal(who.kind, ACCESS_OPERATOR);
    assert_string_equal(who.name, "ann");
    assert_string_equal(who.interface, "http");
    assert_ptr_equal(who.table, table);
    assert_int_equal(sign_in_find(s, slice_str(mine.p), t.k.now_ns, &who), 0);
    assert_int_equal(who.kind, ACCESS_OWNER);
    assert_int_equal(take(s, key.p, t.k.now_ns, &key, &who), -EACCES); /* keys are not kept */
    /* it ends when it would have */
    const int64_t left = SIGN_IN_SESSION_S * NS_PER_S - NS_PER_S;
    assert_int_equal(sign_in_find(s, slice_str(mine.p), t.k.now_ns + left - 1, &who), 0);
    assert_int_equal(sign_in_find(s, slice_str(mine.p), t.k.now_ns + left, &who), -EACCES);
    /* who has signed out is out after the next one, too */
    assert_true(sign_in_end(s, slice_str(mine.p), t.k.now_ns));
    assert_int_equal(sign_in_save(s, t.k.now_ns, t.k.utc_ns), 0);
    assert_int_equal(restart(&s, &t, utc + 2 * NS_PER_S), 1);
    assert_int_equal(sign_in_find(s, slice_str(mine.p), t.k.now_ns, &who), -EACCES);
    assert_int_equal(sign_in_find(s, slice_str(hers.p), t.k.now_ns, &who), 0);
    /* what is over is not taken up; a clock that went back makes none longer */
    assert_int_equal(restart(&s, &t, utc + SIGN_IN_SESSION_S * NS_PER_S), 0);
    assert_int_equal(restart(&s, &t, utc - 900 * NS_PER_S), 1);
    const int64_t week = t.k.now_ns + SIGN_IN_SESSION_S * NS_PER_S;
    assert_int_equal(sign_in_find(s, slice_str(hers.p), week - 1, &who), 0);
    assert_int_equal(sign_in_find(s, slice_str(hers.p), week, &who), -EACCES);
    sign_in_destroy(s);
    remove_kept(&t);
}

/* Another token of the owner, another site, a token of the configuration. */
static void sessions_end_with_what_they_hang_on(void **state)
{
    (void)state;
    char name[] = "/tmp/gl-sign-in-XXXXXX";
    static const struct access_identity by_token = {.kind = ACCESS_OWNER, .uid = UINT32_MAX},
                                        dash = {.kind = ACCESS_TOKEN, .uid = UINT32_MAX, .name = "dash"},
                                        local = {.kind = ACCESS_LOCAL, .uid = 1234},
                                        stranger = {.kind = ACCESS_OWNER, .uid = 4242};
    struct kept t = kept_in(name);
    struct sign_in *s = NULL;
    struct access_identity who;
    assert_int_equal(restart(&s, &t, utc), 0);
    (void)signed_in(s, &by_token, now);
    (void)signed_in(s, &dash, now);
    (void)signed_in(s, &ann, now);
    (void)signed_in(s, &stranger, now); /* the gateway was another user's */
    struct text last = signed_in(s, &local, now);
    assert_int_equal(sign_in_save(s, now, utc), 0);
    assert_int_equal(restart(&s, &t, utc), 3);
    t.k.owner = SLICE_LIT("another");
    assert_int_equal(restart(&s, &t, utc), 2);
    t.k.site = SLICE_LIT("");
    assert_int_equal(restart(&s, &t, utc), 1);
    assert_int_equal(sign_in_find(s, slice_str(last.p), t.k.now_ns, &who), 0);
    assert_int_equal(who.uid, 1234);
    sign_in_destroy(s);
    remove_kept(&t);
}

static void damaged_sessions_are_lost(void **state)
{
    (void)state;
    char name[] = "/tmp/gl-sign-in-XXXXXX";
    struct kept t = kept_in(name);
    struct sign_in *s = NULL;
    unsigned char bytes[1024];
    assert_int_equal(restart(&s, &t, utc), 0);
    struct text token = signed_in(s, &ann, now);
    assert_int_equal(sign_in_save(s, now, utc), 0);
    int fd = open(t.path, O_RDWR | O_CLOEXEC);
    ssize_t n = pread(fd, bytes, sizeof bytes, 0);
    assert_true(n > 100 && n < (ssize_t)sizeof bytes);
    for (ssize_t i = 0; i + HTTP_TOKEN_TEXT <= n; i++)
        assert_memory_not_equal(bytes + i, token.p, HTTP_TOKEN_TEXT); /* it is not on disk */
    for (ssize_t i = 0; i < n; i++) {                                 /* any byte, */
        const unsigned char wrong = bytes[i] ^ 0x41;
        assert_int_equal(pwrite(fd, &wrong, 1, i), 1);
        assert_int_equal(restart(&s, &t, utc), E_PROTO);
        assert_int_equal(pwrite(fd, &bytes[i], 1, i), 1);
    }
    for (ssize_t i = n - 1; i >= 0; i--) { /* any end */
        assert_int_equal(ftruncate(fd, i), 0);
        assert_int_equal(restart(&s, &t, utc), E_PROTO);
    }
    (void)close(fd);
    /* the next one who signs in writes it anew */
    token = signed_in(s, &ann, t.k.now_ns);
    assert_int_equal(sign_in_save(s, t.k.now_ns, t.k.utc_ns), 0);
    assert_int_equal(restart(&s, &t, utc), 1);
    /* others may not have it, and it is no link */
    assert_int_equal(chmod(t.path, 0640), 0);
    assert_int_equal(restart(&s, &t, utc), -EPERM);
    assert_int_equal(unlink(t.path), 0);
    assert_int_equal(symlink("/dev/null", t.path), 0);
    assert_true(restart(&s, &t, utc) < 0);
    sign_in_destroy(s);
    remove_kept(&t);
}

/* All that there may be, with the longest names. */
static void all_sessions_fit(void **state)
{
    (void)state;
    char name[] = "/tmp/gl-sign-in-XXXXXX";
    struct kept t = kept_in(name);
    struct sign_in *s = NULL;
    assert_int_equal(restart(&s, &t, utc), 0);
    for (int i = 0; i < SIGN_IN_SESSIONS; i++) {
        struct access_identity one = {.kind = ACCESS_OPERATOR, .uid = UINT32_MAX};
        (void)snprintf(one.name, sizeof one.name, "%0*d", ACCESS_NAME_MAX - 1, i);
        (void)signed_in(s, &one, now);
    }
    assert_int_equal(sign_in_save(s, now, utc), 0);
    assert_int_equal(restart(&s, &t, utc), SIGN_IN_SESSIONS);
    sign_in_destroy(s);
    remove_kept(&t);
}

static void what_cant_be_written_is_said(void **state)
{
    (void)state;
    char name[] = "/tmp/gl-sign-in-XXXXXX";
    struct kept t = kept_in(name);
    struct sign_in *s = sign_in_create();
    assert_int_equal(sign_in_save(s, now, utc), 0); /* nothing is kept */
    assert_int_equal(restart(&s, &t, utc), 0);
    remove_kept(&t);
    assert_int_equal(sign_in_save(s, now, utc), -ENOENT);
    sign_in_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_works_once),
        cmocka_unit_test(a_key_is_over_in_time),
        cmocka_unit_test(a_session_is_over_in_time_or_ended),
        cmocka_unit_test(what_is_none_is_none),
        cmocka_unit_test(keys_are_bounded),
        cmocka_unit_test(sessions_outlive_a_restart),
        cmocka_unit_test(sessions_end_with_what_they_hang_on),
        cmocka_unit_test(damaged_sessions_are_lost),
        cmocka_unit_test(all_sessions_fit),
        cmocka_unit_test(what_cant_be_written_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
