/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "net/echo.h"

static const struct echo request = {
    .id = 0x1234, .seq = 0xfedc, .cookie = UINT64_C(0x0123456789abcdef), .target = 7, .probe = 0x80000001};

/* As RFC 792 has it, with a checksum that a receiver sums to zero. */
static void request_v4(void **state)
{
    (void)state;
    unsigned char m[ECHO_BYTES];
    echo_build(&request, false, m);
    assert_int_equal(m[0], 8);
    assert_int_equal(m[1], 0);
    assert_int_equal(m[4] << 8 | m[5], 0x1234);
    assert_int_equal(m[6] << 8 | m[7], 0xfedc);
    uint32_t sum = 0;
    for (size_t i = 0; i < ECHO_BYTES; i += 2)
        sum += (uint32_t)(m[i] << 8 | m[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    assert_int_equal(sum, 0xffff);
}

static void check_reply(bool is_v6, bool has_ip)
{
    unsigned char m[24 + ECHO_BYTES] = {0};
    size_t header = has_ip ? 24 : 0; /* with an option, so that its length counts */
    struct echo e;
    m[0] = 0x46;
    m[9] = 1;
    echo_build(&request, is_v6, m + header);
    struct slice packet = slice_of((const char *)m, header + ECHO_BYTES);
    assert_int_equal(echo_parse(packet, is_v6, has_ip, &e), E_PROTO); /* a request is no reply */
    m[header] = is_v6 ? 129 : 0;
    assert_int_equal(echo_parse(packet, is_v6, has_ip, &e), 0);
    assert_true(e.id == request.id && e.seq == request.seq && e.cookie == request.cookie);
    assert_true(e.target == request.target && e.probe == request.probe);
    assert_int_equal(echo_parse(packet, !is_v6, has_ip, &e), E_PROTO);
    for (size_t n = 0; n < packet.n; n++)
        assert_int_equal(echo_parse(slice_of(packet.p, n), is_v6, has_ip, &e), E_PROTO);
    m[header + 1] = 1;
    assert_int_equal(echo_parse(packet, is_v6, has_ip, &e), E_PROTO);
    m[header + 1] = 0;
    if (!has_ip)
        return;
    m[9] = 17;
    assert_int_equal(echo_parse(packet, is_v6, true, &e), E_PROTO);
    m[9] = 1;
    static const unsigned char heads[] = {0x40, 0x44, 0x4f, 0x66, 0x00};
    for (size_t i = 0; i < sizeof heads; i++) {
        m[0] = heads[i];
        assert_int_equal(echo_parse(packet, is_v6, true, &e), E_PROTO);
    }
}

static void replies(void **state)
{
    (void)state;
    check_reply(false, false);
    check_reply(false, true);
    check_reply(true, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(request_v4), cmocka_unit_test(replies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
