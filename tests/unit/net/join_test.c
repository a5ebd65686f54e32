/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of joining: there and back, cut anywhere, and beyond their limits. */
#include "unit/test.h"

#include "net/join.h"

static struct strbuf out;

static struct slice payload(uint8_t type)
{
    struct frame f;
    assert_false(strbuf_failed(&out));
    assert_int_equal(frame_read(strbuf_slice(&out), FRAME_PAYLOAD_MAX, &f), out.n);
    assert_int_equal(f.type, type);
    return f.payload;
}

static void join_there_and_back(void **state)
{
    (void)state;
    struct frame_join j = {SLICE_LIT("secret\0bytes"), SLICE_LIT("node1"), SLICE_LIT("0x30..")}, back;
    strbuf_reset(&out);
    frame_put_join(&out, &j);
    struct slice p = payload(FRAME_JOIN);
    assert_int_equal(frame_get_join(p, &back), 0);
    assert_true(slice_eq(j.token, back.token) && slice_eq(j.name, back.name) && slice_eq(j.request, back.request));
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_join(slice_of(p.p, n), &back), E_PROTO);
}

static void join_refuses(struct frame_join j)
{
    struct frame_join back;
    strbuf_reset(&out);
    frame_put_join(&out, &j);
    assert_int_equal(frame_get_join(payload(FRAME_JOIN), &back), E_PROTO);
}

static void join_has_limits(void **state)
{
    (void)state;
    static char large[JOIN_REQUEST_MAX + 1];
    const struct slice name = SLICE_LIT("node1"), token = SLICE_LIT("t"), request = SLICE_LIT("r");
    join_refuses((struct frame_join){SLICE_LIT(""), name, request});
    join_refuses((struct frame_join){slice_of(large, 257), name, request});
    join_refuses((struct frame_join){token, SLICE_LIT(""), request});
    join_refuses((struct frame_join){token, slice_of(large, 256), request});
    join_refuses((struct frame_join){token, SLICE_LIT("a\nb"), request});
    join_refuses((struct frame_join){token, SLICE_LIT("\xff"), request});
    join_refuses((struct frame_join){token, name, SLICE_LIT("")});
    join_refuses((struct frame_join){token, name, slice_of(large, sizeof large)});
}

static void certify_there_and_back(void **state)
{
    (void)state;
    struct frame_certify c = {SLICE_LIT("request")}, back;
    strbuf_reset(&out);
    frame_put_certify(&out, &c);
    struct slice p = payload(FRAME_CERTIFY);
    assert_int_equal(frame_get_certify(p, &back), 0);
    assert_slice(back.request, "request");
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_certify(slice_of(p.p, n), &back), E_PROTO);
}

static int certified(uint16_t status, struct slice text, struct slice chain)
{
    struct frame_certified back;
    strbuf_reset(&out);
    frame_put_certified(&out, &(struct frame_certified){status, text, chain});
    struct slice p = payload(FRAME_CERTIFIED);
    int r = frame_get_certified(p, &back);
    if (r < 0)
        return r;
    assert_true(back.status == status && slice_eq(back.text, text) && slice_eq(back.chain, chain));
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_certified(slice_of(p.p, n), &back), E_PROTO);
    return 0;
}

/* A chain exactly when it says 0: nobody can take a refusal for a certificate. */
static void certified_has_a_chain_or_a_reason(void **state)
{
    (void)state;
    static char large[JOIN_CHAIN_MAX + 1];
    assert_int_equal(certified(0, SLICE_LIT(""), SLICE_LIT("PEM")), 0);
    assert_int_equal(certified(5, SLICE_LIT("no"), SLICE_LIT("")), 0);
    assert_int_equal(certified(0, SLICE_LIT(""), SLICE_LIT("")), E_PROTO);
    assert_int_equal(certified(5, SLICE_LIT("no"), SLICE_LIT("PEM")), E_PROTO);
    assert_int_equal(certified(5, SLICE_LIT("\x1b[2J"), SLICE_LIT("")), E_PROTO);
    assert_int_equal(certified(0, SLICE_LIT(""), slice_of(large, sizeof large)), E_PROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_there_and_back),
        cmocka_unit_test(join_has_limits),
        cmocka_unit_test(certify_there_and_back),
        cmocka_unit_test(certified_has_a_chain_or_a_reason),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    strbuf_fini(&out);
    return r;
}
