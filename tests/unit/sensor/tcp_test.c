/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "sensor/scan.h"
#include "unit/sensor/loopback.h"
#include "unit/sensor/tree.h"

static void all_of_it(void **state)
{
    (void)state;
    tree_assert_text("tcp", FIXTURES "server", NULL,
                     "tcp active_opens=5444 passive_opens=6428 attempt_fails=7071 resets=8246 established=37 "
                     "in_segments=10092 out_segments=11564 retransmits=12434 in_errors=13060 out_resets=14846 "
                     "in_checksum_errors=15579 syncookies_sent=1599 syncookies_received=2406 "
                     "syncookies_failed=3050 embryonic_resets=4999 listen_overflows=23584 listen_drops=24654 "
                     "request_queue_cookies=79782 request_queue_drops=80571 time_waits=11429 "
                     "time_wait_overflows=78079 paws_rejects=15584 prunes=5226 receive_prunes=6047 "
                     "out_of_order_prunes=7570 receive_collapses=49184 receive_merges=82808 "
                     "receive_queue_drops=121363 backlog_drops=73500 backlog_merges=50715 memory_drops=74431 "
                     "memory_pressures=61459 memory_pressure_time=62294 out_of_order=83896 "
                     "out_of_order_drops=84837 out_of_order_merges=85321 delayed_acks=20185 "
                     "delayed_acks_locked=21105 delayed_acks_lost=22595 compressed_acks=119963 "
                     "pure_acks=26381 predicted_hits=25192 predicted_acks=27099 timeouts=44464 "
                     "spurious_timeouts=66524 syn_retransmits=101680 fast_retransmits=42599 "
                     "slow_start_retransmits=43945 lost_retransmits=38437 retransmit_failures=81586 "
                     "loss_probes=45370 loss_probe_recoveries=46306 loss_failures=41476 reno_recoveries=28560 "
                     "reno_recovery_failures=47254 sack_recoveries=29729 sack_recovery_failures=48813 "
                     "sack_reneges=30064 sack_reorders=31577 reno_reorders=32061 timestamp_reorders=33633 "
                     "full_undos=34210 partial_undos=35508 dsack_undos=36696 loss_undos=37544 "
                     "dsack_old_sent=51798 dsack_out_of_order_sent=52249 dsack_received=53083 "
                     "dsack_out_of_order_received=54588 aborts_on_data=55307 aborts_on_close=56537 "
                     "aborts_on_memory=57506 aborts_on_timeout=58896 aborts_on_linger=59351 "
                     "abort_failures=60746 challenge_acks=86348 syn_challenges=87711 fastopen_active=88358 "
                     "fastopen_active_failures=89608 fastopen_passive=90508 fastopen_passive_failures=91593 "
                     "auto_corks=97967 zero_window_left=98276 zero_window_entered=99485 "
                     "zero_window_wanted=100713 zero_window_drops=120472 window_probes=113733 "
                     "keepalives=114395 mtu_probe_failures=115908 mtu_probe_successes=116684 "
                     "data_segments_sent=102066 delivered=117355 delivered_marked=118023\n");
}

/* Other columns, another order, and names that come and go while the sensor runs. */
static void columns_move(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/net/snmp", "Tcp: RtoMin MaxConn CurrEstab RetransSegs\nTcp: 200 -1 5 77\n");
    assert_int_equal(sense_open(&s, "tcp", t.root, NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "tcp established=5 retransmits=77\n");
    tree_put(&t, "/proc/net/snmp", "Tcp: RetransSegs New CurrEstab\nTcp: 78 1 6\n");
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "tcp established=6 retransmits=78\n");
    tree_put(&t, "/proc/net/netstat", "TcpExt: TCPTimeouts\nTcpExt: 9\n");
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "tcp established=6 retransmits=78 timeouts=9\n");
    sense_close(&s);
    tree_remove(&t);
}

/* Names and values that do not belong together give nothing rather than a wrong column. */
static void pairs_that_do_not_match(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Tcp: CurrEstab RetransSegs\nTcp: 5\n",     "Tcp: CurrEstab RetransSegs\nTcp: 5 \n",
        "Tcp: CurrEstab\nTcp: 5 6\n",               "Tcp: CurrEstab\nUdp: 5\n",
        "Tcp: CurrEstab RetransSegs\nTcp: five -1\n", "Tcp: CurrEstab RetransSegs\nTcp: 5 77",
        "TcpX: CurrEstab\nTcpX: 5\n",               "Tcp: CurrEstab\n",
        "Tcp:\nTcp:\n",                             "\n\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct tree t;
        struct sense s;
        tree_make(&t, NULL);
        tree_put(&t, "/proc/net/snmp", texts[i]);
        assert_int_equal(sense_open(&s, "tcp", t.root, NULL), 0);
        assert_int_equal(sense_run(&s), 0);
        assert_int_equal(s.rows, 0);
        sense_close(&s);
        tree_remove(&t);
    }
}

static void missing_and_cut(void **state)
{
    (void)state;
    tree_assert_no_data("tcp", NULL);
    tree_assert_cuts("tcp", FIXTURES "server", "/proc/net/snmp", NULL);
    tree_assert_cuts("tcp", FIXTURES "server", "/proc/net/netstat", NULL);
}

static uint64_t field_of(const struct sense *s, const char *row, const char *field)
{
    char word[64];
    uint64_t v = 0;
    const char *line = s->text.p ? strstr(s->text.p, row) : NULL;
    if (!line)
        fail_msg("no row \"%s\" in %s", row, s->text.p);
    (void)snprintf(word, sizeof word, " %s=", field);
    const char *at = strstr(line, word);
    if (!at || at > strchr(line, '\n'))
        fail_msg("no field %s in %s", field, line);
    struct scan scan = scan_of(slice_str(at + strlen(word)));
    assert_true(scan_uint(&scan, &v));
    return v;
}

static void connections_of_a_port(void **state)
{
    (void)state;
    struct loopback l;
    struct sense s;
    char port[8], client[128], server[128], sum[64];
    assert_true(loopback_open(&l, AF_INET));
    loopback_send(&l, 100000);
    (void)snprintf(port, sizeof port, "%u", l.port);
    assert_int_equal(sense_open(&s, "tcp", "", (const char *[]){"ports", port, NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    (void)snprintf(client, sizeof client, "tcp.connection local=\"127.0.0.1:%u\" remote=\"127.0.0.1:%u\" ",
                   l.client_port, l.port);
    (void)snprintf(server, sizeof server, "tcp.connection local=\"127.0.0.1:%u\" remote=\"127.0.0.1:%u\" ", l.port,
                   l.client_port);
    (void)snprintf(sum, sizeof sum, "tcp.ports port=\"%u\" ", l.port);
    assert_non_null(strstr(s.text.p, "state=\"established\""));
    assert_in_range(field_of(&s, client, "bytes_acked"), 100000, 100001); /* the SYN counts */
    assert_int_equal(field_of(&s, client, "send_queue"), 0);
    assert_int_equal(field_of(&s, server, "bytes_received"), 100000);
    assert_true(field_of(&s, client, "rtt") > 0);
    assert_true(field_of(&s, client, "cwnd") > 0);
    assert_true(field_of(&s, client, "mss") > 0);
    assert_int_equal(field_of(&s, sum, "connections"), 2);
    assert_int_equal(field_of(&s, sum, "left_out"), 0);
    assert_int_equal(field_of(&s, sum, "bytes_received"), 100000);
    assert_int_equal(field_of(&s, sum, "bytes_acked"),
                     field_of(&s, client, "bytes_acked") + field_of(&s, server, "bytes_acked"));
    sense_close(&s);
    loopback_close(&l);
}

/* What has no row is counted, and is in the sums. */
static void rows_are_bounded(void **state)
{
    (void)state;
    struct loopback l;
    struct sense s;
    char port[8], sum[64];
    assert_true(loopback_open(&l, AF_INET));
    loopback_send(&l, 3000);
    (void)snprintf(port, sizeof port, "%u", l.port);
    (void)snprintf(sum, sizeof sum, "tcp.ports port=\"%u\" ", l.port);
    for (unsigned most = 0; most < 3; most++) {
        char number[2] = {(char)('0' + most), '\0'};
        const char *settings[] = {"ports", port, "max_connections", number, NULL};
        assert_int_equal(sense_open(&s, "tcp", "", settings), 0);
        assert_int_equal(sense_run(&s), 0);
        assert_int_equal(s.rows, 2 + most); /* the host's, the sum, and those */
        assert_int_equal(field_of(&s, sum, "left_out"), 2 - most);
        assert_int_equal(field_of(&s, sum, "bytes_received"), 3000);
        sense_close(&s);
    }
    loopback_close(&l);
}

static void ports_that_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "65536", "http", "20-10", "-5", "1-400", "5-", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sense s;
        assert_int_equal(sense_open(&s, "tcp", "", (const char *[]){"ports", bad[i], NULL}), 0);
        assert_int_equal(sense_run(&s), -EINVAL);
        assert_non_null(strstr(instance_stats(s.instance)->last_why, "tcp.ports"));
        assert_int_equal(s.rows, 0);
        sense_close(&s);
    }
}

static void a_range_of_ports(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "tcp", "", (const char *[]){"ports", "1-3", NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "tcp.ports port=\"1\" connections=0"));
    assert_non_null(strstr(s.text.p, "tcp.ports port=\"3\" connections=0"));
    assert_null(strstr(s.text.p, "error="));
    sense_close(&s);
    /* Another host's sockets are not ours. */
    assert_int_equal(sense_open(&s, "tcp", FIXTURES "server", (const char *[]){"ports", "1-3", NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 1);
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it),           cmocka_unit_test(columns_move),
        cmocka_unit_test(pairs_that_do_not_match), cmocka_unit_test(missing_and_cut),
        cmocka_unit_test(connections_of_a_port), cmocka_unit_test(rows_are_bounded),
        cmocka_unit_test(ports_that_are_none), cmocka_unit_test(a_range_of_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
