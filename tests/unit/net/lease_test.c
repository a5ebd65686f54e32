/* SPDX-License-Identifier: Apache-2.0 */
/* Leases, control and named values: there and back, and cut at every byte. */
#include "unit/test.h"

#include "net/control.h"
#include "net/lease.h"

static void fill(struct args_writer *w)
{
    args_add(w, SLICE_LIT("i"), value_int(-5));
    args_add(w, SLICE_LIT("u"), value_uint(UINT64_MAX));
    args_add(w, SLICE_LIT("f"), value_float(-0.25));
    args_add(w, SLICE_LIT("b"), value_bool(true));
    args_add(w, SLICE_LIT("nothing"), value_none());
    args_add(w, SLICE_LIT("t"), value_text(SLICE_LIT("caf\xc3\xa9")));
    args_add(w, SLICE_LIT("raw"), value_bytes(SLICE_LIT("\xff\x00")));
    args_add(w, SLICE_LIT("t"), value_text(SLICE_LIT("later")));
}

static void check(struct args list)
{
    assert_int_equal(list.n, 7);
    assert_int_equal(args_value(list, "i").i, -5);
    assert_true(args_uint(list, "u", 0) == UINT64_MAX);
    assert_int_equal(args_uint(list, "i", 3), 3);
    assert_true(args_value(list, "f").f == -0.25);
    assert_int_equal(args_value(list, "b").u, 1);
    assert_int_equal(args_value(list, "nothing").type, VALUE_NONE);
    assert_slice(args_text(list, "t"), "later");
    assert_int_equal(args_value(list, "raw").n, 2);
    assert_slice(args_text(list, "raw"), "");
}

/* The payload of the frame in out. */
static struct slice payload_of(const struct strbuf *out, uint8_t type, uint32_t worker)
{
    struct frame f;
    assert_int_equal(frame_read(strbuf_slice(out), FRAME_PAYLOAD_MAX, &f), out->n);
    assert_int_equal(f.type, type);
    assert_int_equal(f.worker, worker);
    return f.payload;
}

static void register_goes_there_and_back(void **state)
{
    (void)state;
    struct args_writer w = {0};
    struct strbuf out = {0};
    fill(&w);
    struct frame_register r = {.mode = LEASE_GUEST,
                               .lease_ms = 5,
                               .t0_ns = -7,
                               .utc_ns = 8,
                               .origin = {{1, 2}, 3}},
                          got;
    r.host = SLICE_LIT("node7");
    r.properties = args_of(&w);
    frame_put_register(&out, 9, &r);
    struct slice p = payload_of(&out, FRAME_REGISTER, 9);
    assert_int_equal(frame_get_register(p, &got), 0);
    assert_true(got.mode == LEASE_GUEST && got.lease_ms == 5 && got.t0_ns == -7 && got.utc_ns == 8);
    assert_true(frame_same_origin(&got.origin, &r.origin));
    assert_slice(got.host, "node7");
    check(got.properties);
    assert_int_equal(got.settings.n, 0);
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_register(slice_of(p.p, n), &got), E_PROTO);
    args_writer_fini(&w);
    strbuf_fini(&out);
}

static void renew_and_lease_go_there_and_back(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct frame_renew renew = {.number = 2, .flags = RENEW_LEAVING, .t0_ns = 3, .datagrams = 4}, got_renew;
    frame_put_renew(&out, 0, &renew);
    struct slice p = payload_of(&out, FRAME_RENEW, 0);
    assert_int_equal(frame_get_renew(p, &got_renew), 0);
    assert_memory_equal(&renew, &got_renew, sizeof renew);
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_renew(slice_of(p.p, n), &got_renew), E_PROTO);

    struct args_writer w = {0};
    fill(&w);
    struct frame_lease l = {.number = 2,
                            .worker = 3,
                            .lease_ms = 30000,
                            .renew_ms = 10000,
                            .t0_ns = 1,
                            .t1_ns = 2,
                            .t2_ns = 3,
                            .datagrams = 4,
                            .udp_port = 14830,
                            .level = SEAL_PRIVATE,
                            .key_id = 6},
                       got;
    l.key = SLICE_LIT("0123456789abcdef");
    l.text = SLICE_LIT("why");
    l.has_settings = true;
    l.settings = args_of(&w);
    strbuf_reset(&out);
    frame_put_lease(&out, 1, &l);
    p = payload_of(&out, FRAME_LEASE, 1);
    assert_int_equal(frame_get_lease(p, &got), 0);
    assert_true(got.worker == 3 && got.lease_ms == 30000 && got.t2_ns == 3 && got.datagrams == 4 &&
                got.key_id == 6);
    assert_slice(got.key, "0123456789abcdef");
    assert_slice(got.text, "why");
    check(got.settings);
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_lease(slice_of(p.p, n), &got), E_PROTO);
    l.key = SLICE_LIT("short");
    strbuf_reset(&out);
    frame_put_lease(&out, 1, &l);
    assert_int_equal(frame_get_lease(payload_of(&out, FRAME_LEASE, 1), &got), E_PROTO);
    args_writer_fini(&w);
    strbuf_fini(&out);
}

static void control_and_answer_go_there_and_back(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct args_writer w = {0};
    fill(&w);
    struct frame_control c = {.request = 5, .verb = SLICE_LIT("worker.set"), .args = args_of(&w)}, got;
    frame_put_control(&out, 0, &c);
    struct slice p = payload_of(&out, FRAME_CONTROL, 0);
    assert_int_equal(frame_get_control(p, &got), 0);
    assert_slice(got.verb, "worker.set");
    check(got.args);
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_control(slice_of(p.p, n), &got), E_PROTO);

    struct frame_answer a = {.request = 5,
                             .status = CONTROL_MORE,
                             .text = SLICE_LIT("t"),
                             .args = args_of(&w)},
                        back;
    strbuf_reset(&out);
    frame_put_answer(&out, 0, &a);
    p = payload_of(&out, FRAME_ANSWER, 0);
    assert_int_equal(frame_get_answer(p, &back), 0);
    assert_true(back.request == 5 && back.status == CONTROL_MORE);
    check(back.args);
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_answer(slice_of(p.p, n), &back), E_PROTO);
    args_writer_fini(&w);
    strbuf_fini(&out);
}

static void bad_lists_are_refused(void **state)
{
    (void)state;
    static const struct slice bad[] = {
        {"\x01\x01"
         "a"
         "\x00",
         4}, /* no type */
        {"\x01\x01"
         "a"
         "\x07"
         "12345678",
         12}, /* no such type */
        {"\x01\x01"
         " "
         "\x04\x01",
         5}, /* not a name */
        {"\x01\x01"
         "a"
         "\x05\x01\xff",
         6},             /* text that is not UTF-8 */
        {"\x81\x02", 2}, /* more than ARGS_MAX */
        {"\x01\x01"
         "a"
         "\x05\x7f"
         "x",
         6}, /* shorter than it says */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cursor c = cursor_of(bad[i]);
        struct args list;
        assert_false(args_get(&c, &list));
        assert_true(c.bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(register_goes_there_and_back),
        cmocka_unit_test(renew_and_lease_go_there_and_back),
        cmocka_unit_test(control_and_answer_go_there_and_back),
        cmocka_unit_test(bad_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
