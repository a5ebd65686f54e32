/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "gateway/sign_in.h"

#include <errno.h>
#include <stdio.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_works_once),
        cmocka_unit_test(a_key_is_over_in_time),
        cmocka_unit_test(a_session_is_over_in_time_or_ended),
        cmocka_unit_test(what_is_none_is_none),
        cmocka_unit_test(keys_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
