/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "gateway/http_token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gridline-token-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/http.token", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static void write_file(const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_file(void **state)
{
    (void)state;
    char first[HTTP_TOKEN_TEXT + 1], again[HTTP_TOKEN_TEXT + 1];
    struct stat st;
    struct diag why = {0};
    assert_int_equal(http_token_open(path, first, &why), 0);
    assert_int_equal(strlen(first), HTTP_TOKEN_TEXT);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(http_token_open(path, again, &why), 0);
    assert_string_equal(first, again);
    /* Others could have read it. */
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(http_token_open(path, again, &why), 0);
    assert_string_not_equal(first, again);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* It holds none. */
    static const char *const none[] = {"", "short\n", "0123456789012345678901234567890123456789012",
                                       "0123456789012345678901234567890123456789 12\n",
                                       "01234567890123456789012345678901234567890123\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        write_file(none[i], 0600);
        assert_int_equal(http_token_open(path, first, &why), 0);
        assert_int_equal(strlen(first), HTTP_TOKEN_TEXT);
        assert_string_not_equal(first, none[i]);
    }
    assert_int_equal(http_token_open("/nowhere/at/all", first, &why), -ENOENT);
    assert_non_null(strstr(why.message, "/nowhere/at/all"));
}

/* A link is not followed: the file it points to stays. */
static void test_link(void **state)
{
    (void)state;
    char target[128], token[HTTP_TOKEN_TEXT + 1];
    struct stat st;
    (void)snprintf(target, sizeof target, "%s/other", folder);
    (void)unlink(path);
    int fd = open(target, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(http_token_open(path, token, NULL), 0);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(unlink(target), 0);
}

static void test_headers(void **state)
{
    (void)state;
    struct slice t;
    const struct slice none = SLICE_LIT("");
    assert_int_equal(http_token_find(none, none, &t), E_NODATA);
    assert_int_equal(http_token_find(SLICE_LIT("Bearer abc"), none, &t), 0);
    assert_slice(t, "abc");
    assert_int_equal(http_token_find(SLICE_LIT("bearer abc"), SLICE_LIT("gridline-token=xyz"), &t), 0);
    assert_slice(t, "abc");
    assert_int_equal(http_token_find(SLICE_LIT("Bearer "), none, &t), E_PROTO);
    assert_int_equal(http_token_find(SLICE_LIT("Bearer"), none, &t), E_PROTO);
    assert_int_equal(http_token_find(SLICE_LIT("Basic abc"), SLICE_LIT("gridline-token=xyz"), &t), E_PROTO);
    assert_int_equal(http_token_find(none, SLICE_LIT("a=b; gridline-token=xyz;c=d"), &t), 0);
    assert_slice(t, "xyz");
    assert_int_equal(http_token_find(none, SLICE_LIT("xgridline-token=xyz"), &t), E_NODATA);
    assert_int_equal(http_token_find(none, SLICE_LIT("gridline-token="), &t), E_NODATA);
    char large[HTTP_TOKEN_MAX + 9];
    memset(large, 'a', sizeof large);
    memcpy(large, "Bearer ", 7);
    assert_int_equal(http_token_find(slice_of(large, sizeof large), none, &t), E_PROTO);
    assert_true(http_token_same(SLICE_LIT("abc"), SLICE_LIT("abc")));
    assert_false(http_token_same(SLICE_LIT("abc"), SLICE_LIT("abd")));
    assert_false(http_token_same(SLICE_LIT("abc"), SLICE_LIT("ab")));
    assert_false(http_token_same(none, none)); /* no token is nobody's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_file), cmocka_unit_test(test_link),
                                       cmocka_unit_test(test_headers)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
