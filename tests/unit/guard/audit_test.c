/* SPDX-License-Identifier: Apache-2.0 */
/* The audit: what is written is found again, and no byte or line can be changed, taken away, added or moved
 * without verify finding it. */
#include "unit/test.h"

#include "base/err.h"
#include "guard/audit.h"
#include "guard/audit_file.h"
#include "guard/audit_line.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/audit_test.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    DIR *d = opendir(dir);
    const struct dirent *e;
    while (d && (e = readdir(d)))
        (void)unlinkat(dirfd(d), e->d_name, 0); /* "." and ".." fail */
    if (d)
        (void)closedir(d);
    return rmdir(dir);
}

static struct audit *open_audit(uint64_t file_max)
{
    struct audit *a;
    struct diag why;
    assert_int_equal(audit_open(dir, file_max, &a, &why), 0);
    return a;
}

static void add(struct audit *a, const char *what, const char *value)
{
    const struct act_datum data[] = {{SLICE_LIT("host"), slice_str(value)},
                                     {SLICE_LIT("note"), SLICE_LIT("a \"quote\"\n")},
                                     {SLICE_LIT("raw"), SLICE_LIT("\xff\x00\x01")}};
    assert_int_equal(audit_add(a, INT64_C(1763000000123456000), what, data, 3), 0);
}

static int verify(struct audit_result *result)
{
    struct diag why;
    return audit_verify(dir, result, &why);
}

static char *path_of(uint64_t file)
{
    static char path[160];
    char name[AUDIT_NAME];
    audit_file_name(name, file);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void write_file(uint64_t file, struct slice bytes)
{
    int fd = open(path_of(file), O_WRONLY | O_TRUNC | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.p, bytes.n), bytes.n);
    (void)close(fd);
}

static struct strbuf read_file(uint64_t file)
{
    struct strbuf s = {0};
    int folder = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(audit_file_read(folder, file, &s), 0);
    (void)close(folder);
    return s;
}

static int show(void *arg, const struct audit_line *l)
{
    struct strbuf value = {0};
    struct slice name;
    size_t at = 0;
    int r;
    strbuf_printf(arg, "%llu %.*s %.*s:", (unsigned long long)l->n, SLICE_ARG(l->time), SLICE_ARG(l->what));
    while ((r = audit_line_datum(l, &at, &name, &value)) > 0) {
        strbuf_printf(arg, " %.*s=", SLICE_ARG(name));
        for (size_t i = 0; i < value.n; i++)
            strbuf_printf(arg, value.p[i] < ' ' ? "<%02x>" : "%c", (unsigned char)value.p[i]);
    }
    assert_int_equal(r, 0);
    strbuf_add_char(arg, '\n');
    strbuf_fini(&value);
    return 0;
}

static void test_written_and_read(void **state)
{
    (void)state;
    struct strbuf got = {0};
    struct audit_result result;
    uint64_t bad;
    assert_int_equal(verify(&result), -ENOENT);
    struct audit *a = open_audit(0), *other;
    struct diag why;
    assert_int_equal(audit_open(dir, 0, &other, &why), -EBUSY);
    assert_string_equal(audit_head(a), AUDIT_NO_HASH);
    add(a, "action.start", "c0-0");
    assert_string_equal(audit_head(a), AUDIT_NO_HASH); /* not before it is committed */
    assert_int_equal(audit_add(a, 0, "start", NULL, 0), 0);
    assert_int_equal(audit_commit(a), 0);
    char head[65];
    memcpy(head, audit_head(a), sizeof head);
    audit_close(a);

    struct stat st;
    assert_int_equal(stat(path_of(1), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(verify(&result), 0);
    assert_int_equal(result.lines, 2);
    assert_int_equal(result.files, 1);
    assert_string_equal(result.head, head);
    assert_int_equal(audit_each(dir, show, &got, &bad), 0);
    assert_int_equal(bad, 0);
    assert_slice(
        strbuf_slice(&got),
        "1 2025-11-13T02:13:20.123456Z action.start: host=c0-0 note=a \"quote\"<0a> raw=<ff><00><01>\n"
        "2 1970-01-01T00:00:00.000000Z start:\n");

    a = open_audit(0);
    assert_string_equal(audit_head(a), head);
    add(a, "ack", "x");
    assert_int_equal(audit_commit(a), 0);
    audit_close(a);
    assert_int_equal(verify(&result), 0);
    assert_int_equal(result.lines, 3);
    strbuf_fini(&got);
}

static void test_what_does_not_fit(void **state)
{
    (void)state;
    struct audit_result result;
    struct audit *a = open_audit(0);
    char *large = calloc(1, 300 << 10);
    memset(large, 'x', 300 << 10);
    struct act_datum data = {SLICE_LIT("text"), slice_of(large, 300 << 10)};
    assert_int_equal(audit_add(a, 1, "x", &data, 1), E_LIMIT);
    data = (struct act_datum){SLICE_LIT("\xff"), SLICE_LIT("x")};
    assert_int_equal(audit_add(a, 1, "x", &data, 1), -EINVAL);
    add(a, "ack", "x");
    assert_int_equal(audit_commit(a), 0);
    audit_close(a);
    assert_int_equal(verify(&result), 0);
    assert_int_equal(result.lines, 1);
    free(large);
}

static void test_files(void **state)
{
    (void)state;
    struct audit_result result;
    for (unsigned round = 0; round < 3; round++) {
        struct audit *a = open_audit(2000);
        for (unsigned i = 0; i < 20; i++) {
            add(a, "action.end", "h");
            if (i % 3 == 0)
                assert_int_equal(audit_commit(a), 0);
        }
        assert_int_equal(audit_commit(a), 0);
        audit_close(a);
        assert_int_equal(verify(&result), 0);
        assert_int_equal(result.lines, 20 * (round + 1));
    }
    assert_int_equal(result.files, 10); /* of 6 lines each */
    struct stat st;
    for (uint64_t i = 1; i <= 10; i++) {
        assert_int_equal(stat(path_of(i), &st), 0);
        assert_true(st.st_size > 0 && st.st_size <= 2000);
    }
    /* A file in the middle, or the first, is missing. */
    char aside[200];
    const uint64_t gone[] = {1, 5};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(aside, sizeof aside, "%s/aside", dir);
        assert_int_equal(rename(path_of(gone[i]), aside), 0);
        assert_int_equal(verify(&result), E_DAMAGE);
        assert_int_equal(rename(aside, path_of(gone[i])), 0);
    }
    assert_int_equal(verify(&result), 0);
    /* A new file that a crash left empty: it goes on there. */
    write_file(11, SLICE_LIT(""));
    struct audit *a = open_audit(2000);
    add(a, "start", "h");
    assert_int_equal(audit_commit(a), 0);
    audit_close(a);
    assert_int_equal(verify(&result), 0);
    assert_int_equal(result.lines, 61);
    assert_int_equal(result.files, 11);
}

/* Five lines with a torn end in between: what the properties below are tried on. */
static struct strbuf make_sample(void)
{
    struct audit *a = open_audit(0);
    add(a, "start", "a");
    add(a, "action.start", "b");
    assert_int_equal(audit_commit(a), 0);
    audit_close(a);
    struct strbuf s = read_file(1);
    strbuf_add_str(&s, "{\"n\":3,\"prev\":\"01");
    write_file(1, strbuf_slice(&s));
    strbuf_fini(&s);
    a = open_audit(0);
    add(a, "action.end", "b");
    add(a, "ack", "c");
    assert_int_equal(audit_commit(a), 0);
    audit_close(a);
    struct audit_result result;
    assert_int_equal(verify(&result), 0);
    assert_int_equal(result.lines, 5);
    assert_int_equal(result.torn, 1);
    return read_file(1);
}

static void test_every_flip(void **state)
{
    (void)state;
    struct strbuf s = make_sample();
    struct audit_result result;
    for (size_t i = 0; i < s.n; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            s.p[i] ^= (char)(1u << bit);
            write_file(1, strbuf_slice(&s));
            if (verify(&result) != E_DAMAGE)
                fail_msg("byte %zu, bit %u: not found", i, bit);
            assert_true(slice_starts(slice_str(result.where), SLICE_LIT("audit-000001.log:")));
            s.p[i] ^= (char)(1u << bit);
        }
    }
    print_message("%zu flips\n", 8 * s.n);
    strbuf_fini(&s);
}

/* A cut within a line is found; one between lines only by the head. */
static void test_every_cut(void **state)
{
    (void)state;
    struct strbuf s = make_sample();
    struct audit_result whole, result;
    assert_int_equal(verify(&whole), 0);
    for (size_t n = 0; n < s.n; n++) {
        write_file(1, slice_of(s.p, n));
        int r = verify(&result);
        if (n == 0 || s.p[n - 1] == '\n')
            assert_true(r == E_DAMAGE || strcmp(result.head, whole.head) != 0);
        else
            assert_int_equal(r, E_DAMAGE);
        if (n == 0 || n % 7)
            continue;
        struct audit *a = open_audit(0); /* and it goes on behind it */
        add(a, "start", "again");
        assert_int_equal(audit_commit(a), 0);
        audit_close(a);
        struct diag why;
        if (audit_verify(dir, &result, &why) < 0)
            fail_msg("cut at %zu: %s", n, why.message);
        assert_string_not_equal(result.head, whole.head);
    }
    strbuf_fini(&s);
}

enum change { REMOVE, TWICE, SWAP, INSERT, CHANGES };

/* What is left of it when a line is removed, is there twice, or comes after the next. */
static struct strbuf change_line(struct slice text, size_t which, enum change change)
{
    struct strbuf out = {0};
    struct slice line, held = {0};
    bool is_whole;
    size_t i = 0;
    for (size_t at = 0; audit_file_line(text, &at, &line, &is_whole); i++) {
        struct slice with_end = slice_of(line.p, line.n + 1);
        if (i == which && change == SWAP) {
            held = with_end;
            continue;
        }
        if (i != which || change != REMOVE)
            strbuf_add_slice(&out, with_end);
        if (i == which && change == TWICE)
            strbuf_add_slice(&out, with_end);
        if (i == which && change == INSERT) {
            char hash[AUDIT_HASH + 1];
            assert_int_equal(audit_line_put(&out, i + 2, AUDIT_NO_HASH, 1, "action.end", NULL, 0, hash), 0);
        }
        if (i == which + 1 && change == SWAP)
            strbuf_add_slice(&out, held);
    }
    return out;
}

static void test_every_line(void **state)
{
    (void)state;
    struct strbuf s = make_sample();
    struct audit_result result;
    enum { LINES = 6 }; /* with the torn one */
    for (size_t which = 0; which < LINES; which++) {
        for (enum change c = 0; c < CHANGES; c++) {
            const bool is_last = which == LINES - 1;
            struct strbuf changed = change_line(strbuf_slice(&s), which, c);
            if (is_last && (c == SWAP || c == REMOVE)) { /* only its end is gone: see test_every_cut */
                strbuf_fini(&changed);
                continue;
            }
            write_file(1, strbuf_slice(&changed));
            if (verify(&result) != E_DAMAGE)
                fail_msg("line %zu, change %d: not found", which, c);
            strbuf_fini(&changed);
        }
    }
    strbuf_fini(&s);
}

/* An order of the lines other than theirs, over files. */
static void test_files_swapped(void **state)
{
    (void)state;
    struct audit_result result;
    struct audit *a = open_audit(1000);
    for (unsigned i = 0; i < 6; i++)
        add(a, "x", "y");
    assert_int_equal(audit_commit(a), 0);
    audit_close(a);
    struct strbuf one = read_file(1), two = read_file(2);
    write_file(1, strbuf_slice(&two));
    write_file(2, strbuf_slice(&one));
    assert_int_equal(verify(&result), E_DAMAGE);
    strbuf_fini(&one);
    strbuf_fini(&two);
}

/* The next file can't be made: what happened is written all the same, where there is room for it. */
static void test_next_file_fails(void **state)
{
    (void)state;
    struct audit_result result;
    struct audit *a = open_audit(1000);
    assert_int_equal(mkdir(path_of(2), 0700), 0);
    for (unsigned i = 0; i < 6; i++) {
        add(a, "x", "y");
        assert_int_equal(audit_commit(a), 0);
    }
    assert_int_equal(rmdir(path_of(2)), 0);
    assert_int_equal(verify(&result), 0);
    assert_true(result.lines == 6 && result.files == 1);
    add(a, "x", "y");
    assert_int_equal(audit_commit(a), 0);
    assert_int_equal(verify(&result), 0);
    assert_true(result.lines == 7 && result.files == 2);
    audit_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_written_and_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_what_does_not_fit, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_files, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_every_flip, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_every_cut, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_every_line, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_files_swapped, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_next_file_fails, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
