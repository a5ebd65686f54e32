/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "gateway/http_host.h"

static bool is_ours(const char *host)
{
    static const char *const names[] = {"node7", NULL, "monitor.example.org,grid.example.org"};
    return http_host_is_ours(slice_str(host), names, 3);
}

static void test_hosts(void **state)
{
    (void)state;
    static const char *const ours[] = {"localhost",
                                       "LocalHost:14831",
                                       "127.0.0.1",
                                       "127.0.0.1:14831",
                                       "[::1]",
                                       "[::1]:80",
                                       "192.0.2.7:1",
                                       "node7",
                                       "NODE7:14831",
                                       "monitor.example.org",
                                       "grid.example.org:443",
                                       "[fe80::1]:5"};
    static const char *const others[] = {"",
                                         ":80",
                                         "evil.example",
                                         "localhost.evil.example",
                                         "evil.localhost",
                                         "127.0.0.1.evil.example",
                                         "1.2.3",
                                         "2130706433",
                                         "0x7f000001",
                                         "[::1",
                                         "::1",
                                         "[node7]",
                                         "[127.0.0.1]",
                                         "node7:8o",
                                         "node7 ",
                                         "node7,monitor.example.org",
                                         "example.org",
                                         "node7@evil.example",
                                         "[::1]evil.example"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!is_ours(ours[i]))
            fail_msg("%s is ours", ours[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_ours(others[i]))
            fail_msg("%s is not ours", others[i]);
    assert_false(http_host_is_ours(SLICE_LIT("[::1\0]:80"), NULL, 0)); /* found by http_query_fuzz */
}

static void test_origins(void **state)
{
    (void)state;
    const struct slice host = SLICE_LIT("localhost:14831");
    assert_true(http_origin_is_ours(SLICE_LIT(""), host));
    assert_true(http_origin_is_ours(SLICE_LIT("http://localhost:14831"), host));
    assert_true(http_origin_is_ours(SLICE_LIT("https://LOCALHOST:14831"), host));
    static const char *const others[] = {"null",
                                         "http://localhost",
                                         "http://localhost:1483",
                                         "http://localhost:148310",
                                         "http://evil.example",
                                         "file://localhost:14831",
                                         "localhost:14831",
                                         "http://localhost:14831/",
                                         "http://"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(http_origin_is_ours(slice_str(others[i]), host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hosts), cmocka_unit_test(test_origins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
