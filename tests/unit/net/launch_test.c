/* SPDX-License-Identifier: Apache-2.0 */
/* A pinhole's requests and replies: the layout, there and back, cut, longer, and every bit changed. */
#include "unit/test.h"

#include "net/launch.h"

static struct launch_request example(enum launch_kind kind)
{
    struct launch_request r = {.kind = kind, .uid = LAUNCH_NO_UID};
    if (kind != LAUNCH_START)
        launch_set_id(&r, "4711.batch");
    if (kind == LAUNCH_VIEW)
        r.view = (struct machine_view){.memory = 1 << 30, .memory_limit = 1 << 20, .processes = 3, .mounts = 16, .cpus = 2};
    if (kind == LAUNCH_BEGAN || kind == LAUNCH_ENDED)
        r.overhead_ns = 4000000;
    if (kind == LAUNCH_ENDED) {
        r.duration_ns = UINT64_MAX;
        r.is_signal = true;
        r.code = 9;
    }
    return r;
}

static struct slice bytes_of(const unsigned char *p, size_t n)
{
    return slice_of((const char *)p, n);
}

static void layout(void **state)
{
    (void)state;
    unsigned char b[LAUNCH_REQUEST];
    struct launch_request r = example(LAUNCH_ENDED);
    static const unsigned char head[] = {'G', 'L', 'P', 1, 4, 1, 9, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};
    launch_request_put(b, &r);
    assert_memory_equal(b, head, sizeof head);
    assert_memory_equal(b + 16, "\xff\xff\xff\xff\xff\xff\xff\xff\x00\x09\x3d\x00\x00\x00\x00\x00", 16);
    assert_memory_equal(b + 64, "4711.batch\0", 11);
    r = example(LAUNCH_VIEW);
    launch_request_put(b, &r);
    assert_memory_equal(b + 12, "\x02\0\0\0", 4);
    assert_memory_equal(b + 32, "\0\0\0\x40\0\0\0\0\0\0\x10\0\0\0\0\0\x03\0\0\0\x10\0\0\0", 24);
}

static void there_and_back(void **state)
{
    (void)state;
    for (enum launch_kind kind = LAUNCH_START; kind <= LAUNCH_ENDED; kind++) {
        unsigned char b[LAUNCH_REQUEST], again[LAUNCH_REQUEST];
        struct launch_request r = example(kind), back;
        launch_request_put(b, &r);
        assert_int_equal(launch_request_get(bytes_of(b, sizeof b), &back), 0);
        assert_int_equal(back.kind, kind);
        assert_string_equal(back.id, r.id);
        assert_int_equal(back.view.memory, r.view.memory);
        assert_int_equal(back.code, r.code);
        launch_request_put(again, &back);
        assert_memory_equal(b, again, sizeof b);
        for (size_t n = 0; n < sizeof b; n++)
            assert_int_equal(launch_request_get(bytes_of(b, n), &back), E_PROTO);
    }
}

/* Whatever is changed: refused, or it means what its bytes say and nothing is hidden in it. */
static void every_bit(void **state)
{
    (void)state;
    for (enum launch_kind kind = LAUNCH_START; kind <= LAUNCH_ENDED; kind++)
        for (size_t bit = 0; bit < LAUNCH_REQUEST * 8; bit++) {
            unsigned char b[LAUNCH_REQUEST], again[LAUNCH_REQUEST];
            struct launch_request r = example(kind), back;
            launch_request_put(b, &r);
            b[bit / 8] ^= (unsigned char)(1 << bit % 8);
            int code = launch_request_get(bytes_of(b, sizeof b), &back);
            assert_true(code == 0 || code == E_PROTO || code == E_VERSION);
            if (code < 0)
                continue;
            launch_request_put(again, &back);
            assert_memory_equal(b, again, sizeof b);
        }
}

static void refused(void **state)
{
    (void)state;
    unsigned char b[LAUNCH_REQUEST + 1] = {0};
    struct launch_request r = example(LAUNCH_BEGAN), back = {.code = 77};
    launch_request_put(b, &r);
    assert_int_equal(launch_request_get(bytes_of(b, sizeof b), &back), E_PROTO); /* one byte more */
    b[3] = 2;
    assert_int_equal(launch_request_get(bytes_of(b, LAUNCH_REQUEST), &back), E_VERSION);
    b[3] = 1;
    b[64] = '/';
    assert_int_equal(launch_request_get(bytes_of(b, LAUNCH_REQUEST), &back), E_PROTO);
    assert_int_equal(back.code, 77); /* untouched */
}

static void ids(void **state)
{
    (void)state;
    struct launch_request r = {0};
    launch_set_id(&r, "a b/c;d\n$(e)");
    assert_string_equal(r.id, "a_b_c_d___e_");
    launch_set_id(&r, "");
    assert_string_equal(r.id, "_");
    char longer[200];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    launch_set_id(&r, longer);
    assert_int_equal(strlen(r.id), LAUNCH_ID_MAX);
}

static void replies(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++) {
        unsigned char b[LAUNCH_REPLY] = {'G', 'L', 'P', 1, (unsigned char)i};
        enum launch_result r = LAUNCH_RESULTS;
        int code = launch_reply_get(bytes_of(b, sizeof b), &r);
        assert_int_equal(code, i >= LAUNCH_DONE && i < LAUNCH_RESULTS ? 0 : E_PROTO);
        assert_int_equal(r, code == 0 ? i : LAUNCH_RESULTS);
        assert_true(launch_result_text((enum launch_result)i)[0]);
        b[7] = 1;
        assert_int_equal(launch_reply_get(bytes_of(b, sizeof b), &r), E_PROTO);
        assert_int_equal(launch_reply_get(bytes_of(b, 7), &r), E_PROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout), cmocka_unit_test(there_and_back), cmocka_unit_test(every_bit),
        cmocka_unit_test(refused), cmocka_unit_test(ids),           cmocka_unit_test(replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
