/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer says it lacks: by the range that is asked for, of archives in this process and of folders.
 */
#include "unit/archive/model.h"

#include "archive/missing.h"
#include "base/clock.h"

#include <fcntl.h>

#define HOUR (3600 * SECOND)

/* Codes by blanks, of a question for rows of the event name. */
static const char *ask(struct view_reader *r, const char *name, int64_t from_ns, int64_t to_ns)
{
    static char codes[NOTICES_MAX * NOTICE_CODE_MAX];
    struct missing missing = {0};
    struct notices notices = {0};
    struct view *v;
    assert_int_equal(view_take(r, &v), 0);
    missing_see(&missing, v, slice_str(name), from_ns, to_ns, MISSING_ROWS);
    missing_say(&missing, &notices);
    missing_fini(&missing);
    view_release(v);
    codes[0] = '\0';
    for (uint32_t i = 0; i < notices.n; i++)
        (void)strncat(codes, notices.list[i].code, NOTICE_CODE_MAX);
    return codes;
}

static void lag_is_said_for_what_is_new(void **state)
{
    (void)state;
    struct model m;
    struct view_reader *r;
    struct diag why = {0};
    int64_t now = clock_utc_ns();
    model_init(&m, 1);
    assert_int_equal(view_reader_create(m.a, NULL, 1 << 20, &r, &why), 0);
    assert_string_equal(ask(r, "cpu", 0, INT64_MAX), "");
    archive_set_caught_up(m.a, now);
    assert_string_equal(ask(r, "cpu", 0, INT64_MAX), "");
    archive_set_caught_up(m.a, now - HOUR);
    assert_string_equal(ask(r, "cpu", 0, INT64_MAX), "lag");
    assert_string_equal(ask(r, "cpu", 0, now - HOUR - 1), "");
    view_reader_destroy(r);
    model_fini(&m);
}

static void what_is_in_heads_is_said_to_readers_of_the_folder(void **state)
{
    (void)state;
    struct model m;
    struct view_reader *r;
    struct diag why = {0};
    model_init(&m, 2);
    model_add(&m, 50, m.base_ns, m.base_ns + HOUR);
    assert_int_equal(archive_tick(m.a, clock_mono_ns(), m.base_ns + HOUR), 0);
    assert_int_equal(view_reader_create(NULL, m.dir, 1 << 20, &r, &why), 0);
    assert_string_equal(ask(r, "cpu", m.base_ns, m.base_ns + HOUR), "unflushed");
    assert_string_equal(ask(r, "cpu", 0, m.base_ns - 1), "");
    assert_string_equal(ask(r, "no.such.event", 0, INT64_MAX), "");
    assert_int_equal(archive_flush(m.a), 0);
    assert_int_equal(archive_tick(m.a, clock_mono_ns(), m.base_ns + HOUR), 0);
    assert_string_equal(ask(r, "cpu", 0, INT64_MAX), "");
    view_reader_destroy(r);
    model_fini(&m);
}

static void a_torn_file_says_nothing(void **state)
{
    (void)state;
    char dir[] = "/tmp/gridline.XXXXXX", path[64];
    const struct unflushed written[] = {{SLICE_LIT("cpu"), 7, -5, INT64_MAX}, {SLICE_LIT("a.b"), 1, 2, 3}};
    struct unflushed *got = NULL;
    struct arena arena = {0};
    assert_non_null(mkdtemp(dir));
    assert_int_equal(unflushed_read(dir, &arena, &got), 0);
    int fd = unflushed_open(dir);
    assert_true(fd >= 0);
    unflushed_write(fd, written, 2);
    assert_int_equal(unflushed_read(dir, &arena, &got), 2);
    assert_true(slice_eq_str(got[0].name, "cpu") && got[0].rows == 7 && got[0].from_ns == -5);
    assert_true(got[0].to_ns == INT64_MAX && slice_eq_str(got[1].name, "a.b") && got[1].to_ns == 3);
    off_t size = lseek(fd, 0, SEEK_END);
    for (off_t i = 0; i < size; i++) {
        char c;
        assert_int_equal(pread(fd, &c, 1, i), 1);
        c ^= 1;
        assert_int_equal(pwrite(fd, &c, 1, i), 1);
        assert_int_equal(unflushed_read(dir, &arena, &got), 0);
        c ^= 1;
        assert_int_equal(pwrite(fd, &c, 1, i), 1);
    }
    assert_int_equal(close(fd), 0);
    (void)snprintf(path, sizeof path, "%s/unflushed", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lag_is_said_for_what_is_new),
        cmocka_unit_test(what_is_in_heads_is_said_to_readers_of_the_folder),
        cmocka_unit_test(a_torn_file_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
