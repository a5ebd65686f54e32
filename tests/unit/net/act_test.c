/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "net/act.h"

#include <errno.h>

static const char *const args[] = {"-x", "", "{host}\n"};
static const char *const program[] = {"/bin/true"};
static const struct parameter_setting settings[] = {
    {"program", program, 1}, {"args", args, 3}, {"empty", NULL, 0}};
static const struct act_datum data[] = {
    {{"host", 4}, {"c0-0", 4}}, {{"any", 3}, {"\0\xff\n", 3}}, {{"", 0}, {"", 0}}};

static struct act_request whole(void)
{
    return (struct act_request){.actuator = "exec",
                                .attempt = "17.2",
                                .left_ns = 5000000000,
                                .settings = settings,
                                .n_settings = 3,
                                .data = data,
                                .n_data = 3};
}

static void test_request(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct arena arena = {0};
    struct act_request r = whole(), back;
    assert_int_equal(act_request_put(&out, &r), 0);
    assert_int_equal(act_request_get(strbuf_slice(&out), &arena, &back), 0);
    assert_string_equal(back.actuator, "exec");
    assert_string_equal(back.attempt, "17.2");
    assert_int_equal(back.left_ns, 5000000000);
    assert_int_equal(back.n_settings, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(back.settings[i].name, settings[i].name);
        assert_int_equal(back.settings[i].n, settings[i].n);
        for (size_t k = 0; k < settings[i].n; k++)
            assert_string_equal(back.settings[i].texts[k], settings[i].texts[k]);
    }
    assert_int_equal(back.n_data, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(slice_eq(back.data[i].name, data[i].name) && slice_eq(back.data[i].value, data[i].value));
    r.left_ns = -1;
    strbuf_reset(&out);
    assert_int_equal(act_request_put(&out, &r), 0);
    assert_int_equal(act_request_get(strbuf_slice(&out), &arena, &back), 0);
    assert_int_equal(back.left_ns, 0);
    strbuf_fini(&out);
    arena_fini(&arena);
}

/* Every beginning of a request is none, and so is one with something behind it. */
static void test_cut_request(void **state)
{
    (void)state;
    struct strbuf out = {0};
    const struct act_request r = whole();
    struct act_request back;
    assert_int_equal(act_request_put(&out, &r), 0);
    for (size_t n = 0; n < out.n; n++) {
        struct arena arena = {0};
        assert_int_equal(act_request_get(slice_of(out.p, n), &arena, &back), E_PROTO);
        arena_fini(&arena);
    }
    struct arena arena = {0};
    strbuf_add_char(&out, 0);
    assert_int_equal(act_request_get(strbuf_slice(&out), &arena, &back), E_PROTO);
    out.p[3] = '2';
    assert_int_equal(act_request_get(strbuf_slice(&out), &arena, &back), E_VERSION);
    arena_fini(&arena);
    strbuf_fini(&out);
}

static void test_nul(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct arena arena = {0};
    const struct act_request r = whole();
    struct act_request back;
    assert_int_equal(act_request_put(&out, &r), 0);
    char *at = memmem(out.p, out.n, "/bin/true", 9);
    at[4] = '\0';
    assert_int_equal(act_request_get(strbuf_slice(&out), &arena, &back), E_PROTO);
    arena_fini(&arena);
    strbuf_fini(&out);
}

static void test_limits(void **state)
{
    (void)state;
    static struct parameter_setting many[ACT_SETTINGS_MAX + 1];
    static struct act_datum much[ACT_DATA_MAX + 1];
    static char big[ACT_REQUEST_MAX];
    struct strbuf out = {0};
    for (size_t i = 0; i <= ACT_SETTINGS_MAX; i++)
        many[i].name = "x";
    for (size_t i = 0; i <= ACT_DATA_MAX; i++)
        much[i] = data[0];
    struct act_request r = {.actuator = "a",
                            .attempt = "",
                            .settings = many,
                            .n_settings = ACT_SETTINGS_MAX,
                            .data = much,
                            .n_data = ACT_DATA_MAX};
    assert_int_equal(act_request_put(&out, &r), 0);
    r.n_settings++;
    assert_int_equal(act_request_put(&out, &r), E_LIMIT);
    r.n_settings--;
    r.n_data++;
    assert_int_equal(act_request_put(&out, &r), E_LIMIT);
    const struct act_datum one = {{"x", 1}, {big, sizeof big}};
    r = (struct act_request){.actuator = "a", .attempt = "", .data = &one, .n_data = 1};
    assert_int_equal(act_request_put(&out, &r), E_LIMIT);
    strbuf_fini(&out);
}

static void test_reply(void **state)
{
    (void)state;
    static char big[100 << 10];
    struct strbuf out = {0};
    const struct act_reply r = {-ETIMEDOUT, -1, SLICE_LIT("no end"), SLICE_LIT("a\0b\n")};
    struct act_reply back;
    act_reply_put(&out, &r);
    assert_int_equal(act_reply_get(strbuf_slice(&out), &back), 0);
    assert_int_equal(back.code, -ETIMEDOUT);
    assert_int_equal(back.exit_code, -1);
    assert_true(slice_eq(back.text, r.text) && slice_eq(back.output, r.output));
    for (size_t n = 0; n < out.n; n++)
        assert_int_equal(act_reply_get(slice_of(out.p, n), &back), E_PROTO);
    out.p[3] = '9';
    assert_int_equal(act_reply_get(strbuf_slice(&out), &back), E_VERSION);
    strbuf_reset(&out);
    act_reply_put(&out, &(struct act_reply){0, 3, {big, sizeof big}, {big, sizeof big}});
    assert_true(out.n <= ACT_REPLY_MAX);
    assert_int_equal(act_reply_get(strbuf_slice(&out), &back), 0);
    assert_int_equal(back.exit_code, 3);
    assert_true(back.text.n && back.output.n);
    strbuf_reset(&out);
    act_reply_put(&out, &(struct act_reply){.code = 1, .text = {"", 0}, .output = {"", 0}});
    assert_int_equal(act_reply_get(strbuf_slice(&out), &back), E_PROTO);
    strbuf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_request), cmocka_unit_test(test_cut_request),
                                       cmocka_unit_test(test_nul), cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_reply)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
