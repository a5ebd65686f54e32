/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "sensor/scan.h"
#include "unit/sensor/tree.h"

static void all_of_it(void **state)
{
    (void)state;
    tree_assert_text("ip", FIXTURES "server", NULL,
                     "ip in_packets=3331 in_header_errors=4970 in_address_errors=5154 forwarded=6404 "
                     "in_unknown=7666 in_discards=8049 in_delivers=9074 out_packets=10840 out_discards=11548 "
                     "out_no_routes=12096 reassembly_timeouts=13374 reassembly_fragments=14596 "
                     "reassembled=15059 reassembly_failures=16931 fragmented=17519 fragment_failures=18219 "
                     "fragments=19038 in_no_routes=1892 in_truncated=2508 in_multicast=3082 "
                     "out_multicast=4170 in_broadcast=5459 out_broadcast=6411 in_bytes=18446744073709551615 "
                     "out_bytes=8284 in_multicast_bytes=9904 out_multicast_bytes=10140 "
                     "in_checksum_errors=13884 in_marked=17425\n"
                     "udp in_datagrams=1126 no_ports=2970 in_errors=3228 out_datagrams=4645 "
                     "receive_buffer_errors=5642 send_buffer_errors=6596 in_checksum_errors=7970 "
                     "ignored_multicast=8063 memory_errors=9590\n");
}

static void missing_and_cut(void **state)
{
    (void)state;
    tree_assert_no_data("ip", NULL);
    tree_assert_cuts("ip", FIXTURES "server", "/proc/net/snmp", NULL);
    tree_assert_cuts("ip", FIXTURES "server", "/proc/net/netstat", NULL);
}

/* A container may have one file and not the other. */
static void only_one_file(void **state)
{
    (void)state;
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/net/netstat", "TcpExt: TW\nTcpExt: 1\nIpExt: InOctets OutOctets\nIpExt: 10 20\n");
    tree_assert_text("ip", t.root, NULL, "ip in_bytes=10 out_bytes=20\n");
    tree_remove(&t);
}

static void this_host(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "ip", "", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 2);
    assert_non_null(strstr(s.text.p, "ip in_packets="));
    assert_non_null(strstr(s.text.p, "udp in_datagrams="));
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it),
        cmocka_unit_test(missing_and_cut),
        cmocka_unit_test(only_one_file),
        cmocka_unit_test(this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
