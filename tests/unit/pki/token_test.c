/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: as text there and back, and used once. */
#include "unit/test.h"

#include "base/clock.h"
#include "pki/token.h"
#include "unit/pki/folder.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const int64_t hour_ns = 3600 * NS_PER_S;

static struct token make(const char *folder, enum tls_role role, const char *name, int64_t now, int64_t life)
{
    struct token t = {.role = role, .addresses = "tls://gw.example.org,tls://[2001:db8::1]:14831"};
    struct diag why = {0};
    (void)snprintf(t.name, sizeof t.name, "%s", name);
    memset(t.ca, 0xa5, sizeof t.ca);
    if (token_make(folder, &t, now, now + life, &why) < 0)
        fail_msg("%s", why.message);
    return t;
}

static struct slice secret_of(const struct token *t)
{
    return slice_of((const char *)t->secret, sizeof t->secret);
}

static void a_token_goes_through_text(void **state)
{
    (void)state;
    const char *folder = test_folder_open();
    struct token t = make(folder, TLS_OPERATOR, "ann", clock_utc_ns(), hour_ns), back;
    struct strbuf text = {0};
    struct diag why = {0};
    token_print(&t, &text);
    assert_int_equal(strspn(text.p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), text.n);
    assert_int_equal(token_parse(strbuf_slice(&text), &back, &why), 0);
    assert_memory_equal(back.secret, t.secret, sizeof t.secret);
    assert_memory_equal(back.ca, t.ca, sizeof t.ca);
    assert_int_equal(back.role, TLS_OPERATOR);
    assert_string_equal(back.name, "ann");
    assert_string_equal(back.addresses, t.addresses);
    for (size_t n = 0; n < text.n; n++) /* cut anywhere */
        assert_int_equal(token_parse(slice_of(text.p, n), &back, &why), E_PROTO);
    for (size_t i = 0; i < text.n; i++) { /* one character wrong */
        char was = text.p[i];
        text.p[i] = was == 'A' ? 'B' : 'A';
        assert_int_equal(token_parse(strbuf_slice(&text), &back, &why), E_PROTO);
        text.p[i] = was;
    }
    strbuf_add_char(&text, 'A');
    assert_int_equal(token_parse(strbuf_slice(&text), &back, &why), E_PROTO);
    strbuf_fini(&text);
    test_folder_close(folder);
}

static void secrets_differ_and_only_their_hashes_are_kept(void **state)
{
    (void)state;
    const char *folder = test_folder_open();
    int64_t now = clock_utc_ns();
    struct token a = make(folder, TLS_AGENT, "node1", now, hour_ns), b = make(folder, TLS_AGENT, "node1", now, hour_ns);
    assert_memory_not_equal(a.secret, b.secret, sizeof a.secret);
    assert_int_equal(test_folder_count(folder), 2);
    assert_false(test_folder_contains(folder, a.secret, 8));
    test_folder_close(folder);
}

static void a_token_is_taken_once_by_the_one_it_is_for(void **state)
{
    (void)state;
    const char *folder = test_folder_open();
    int64_t now = clock_utc_ns();
    struct token t = make(folder, TLS_AGENT, "node1", now, hour_ns);
    struct token_grant grant = {0};
    struct diag why = {0};
    assert_int_equal(token_take(folder, SLICE_LIT("guess"), SLICE_LIT("node1"), now, &grant, &why), -ENOENT);
    assert_int_equal(token_take(folder, secret_of(&t), SLICE_LIT("node2"), now, &grant, &why), -EACCES);
    assert_non_null(strstr(why.message, "for agent node1, not for node2"));
    assert_int_equal(token_take(folder, secret_of(&t), SLICE_LIT("../x y"), now, &grant, &why), -EACCES);
    assert_int_equal(grant.role, TLS_NOBODY);
    assert_int_equal(token_take(folder, secret_of(&t), SLICE_LIT("node1"), now, &grant, &why), 0);
    assert_int_equal(grant.role, TLS_AGENT);
    assert_string_equal(grant.name, "node1");
    assert_int_equal(test_folder_count(folder), 0);
    assert_int_equal(token_take(folder, secret_of(&t), SLICE_LIT("node1"), now, &grant, &why), -ENOENT);
    assert_non_null(strstr(why.message, "used already"));
    test_folder_close(folder);
}

static void a_token_for_any_host_takes_the_name_it_is_given(void **state)
{
    (void)state;
    const char *folder = test_folder_open();
    int64_t now = clock_utc_ns();
    struct token t = make(folder, TLS_AGENT, "", now, hour_ns);
    struct token_grant grant;
    struct diag why = {0};
    assert_int_equal(token_take(folder, secret_of(&t), SLICE_LIT("node7"), now, &grant, &why), 0);
    assert_string_equal(grant.name, "node7");
    test_folder_close(folder);
}

static void an_expired_token_is_refused_and_goes(void **state)
{
    (void)state;
    const char *folder = test_folder_open();
    int64_t now = clock_utc_ns();
    struct token t = make(folder, TLS_AGENT, "node1", now, hour_ns);
    struct token_grant grant;
    struct diag why = {0};
    assert_int_equal(token_take(folder, secret_of(&t), SLICE_LIT("node1"), now + hour_ns, &grant, &why), -EKEYEXPIRED);
    assert_non_null(strstr(why.message, "expired at 20"));
    assert_int_equal(test_folder_count(folder), 0);
    (void)make(folder, TLS_AGENT, "node1", now, hour_ns);
    (void)make(folder, TLS_AGENT, "node2", now + 2 * hour_ns, hour_ns); /* removes what has expired by then */
    assert_int_equal(test_folder_count(folder), 1);
    test_folder_close(folder);
}

/* Many at once: exactly one gets it. */
static void a_race_has_one_winner(void **state)
{
    (void)state;
    enum { RACERS = 8 };
    const char *folder = test_folder_open();
    int64_t now = clock_utc_ns();
    for (int round = 0; round < 10; round++) {
        struct token t = make(folder, TLS_AGENT, "node1", now, hour_ns);
        pid_t pids[RACERS];
        int won = 0, status;
        for (int i = 0; i < RACERS; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) {
                struct token_grant grant;
                _exit(token_take(folder, secret_of(&t), SLICE_LIT("node1"), now, &grant, NULL) == 0);
            }
        }
        for (int i = 0; i < RACERS; i++) {
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            won += WIFEXITED(status) && WEXITSTATUS(status) == 1;
        }
        assert_int_equal(won, 1);
    }
    test_folder_close(folder);
}

static void files_that_say_nothing_grant_nothing(void **state)
{
    (void)state;
    struct token_grant grant;
    int64_t expires;
    assert_int_equal(
        token_parse_file(SLICE_LIT("expires 2026-11-15T21:20:28Z\nrole agent\nname node1\n"), &grant, &expires), 0);
    static const char *const bad[] = {"",
                                      "expires 2026-11-15T21:20:28Z\nrole agent\n",
                                      "expires 2026-11-15T21:20:28Z\nrole agent\nname node1",
                                      "expires 2026-11-15T21:20:28Z\nrole king\nname node1\n",
                                      "expires 2026-11-15T21:20:28Z\nrole nobody\nname node1\n",
                                      "expires never\nrole agent\nname node1\n",
                                      "expires 2026-11-15T21:20:28Z\nrole agent\nname a b\n",
                                      "role agent\nexpires 2026-11-15T21:20:28Z\nname node1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(token_parse_file(slice_str(bad[i]), &grant, &expires), E_PROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_goes_through_text),
        cmocka_unit_test(secrets_differ_and_only_their_hashes_are_kept),
        cmocka_unit_test(a_token_is_taken_once_by_the_one_it_is_for),
        cmocka_unit_test(a_token_for_any_host_takes_the_name_it_is_given),
        cmocka_unit_test(an_expired_token_is_refused_and_goes),
        cmocka_unit_test(a_race_has_one_winner),
        cmocka_unit_test(files_that_say_nothing_grant_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
