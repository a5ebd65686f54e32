/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "base/num.h"
#include "sensor/sockdiag.h"
#include "unit/sensor/loopback.h"

#include <errno.h>
#include <linux/netlink.h>

/* What a dump gave: "LOCAL REMOTE state" lines. */
struct seen {
    struct strbuf text;
    size_t n;
    size_t end_after; /* 0 = never */
    uint64_t acked, received;
    size_t info_len;
};

static int on_socket(void *arg, const struct inet_diag_msg *msg, const struct tcp_info *info, size_t info_len)
{
    struct seen *s = arg;
    sockdiag_add_address(&s->text, msg->idiag_family, msg->id.idiag_src, msg->id.idiag_sport);
    strbuf_add_char(&s->text, ' ');
    sockdiag_add_address(&s->text, msg->idiag_family, msg->id.idiag_dst, msg->id.idiag_dport);
    strbuf_printf(&s->text, " %s\n", sockdiag_state_name(msg->idiag_state));
    s->n++;
    s->info_len = info_len;
    s->acked += info->tcpi_bytes_acked;
    s->received += info->tcpi_bytes_received;
    return s->end_after && s->n >= s->end_after ? -ECANCELED : 0;
}

static void reset(struct seen *s)
{
    strbuf_reset(&s->text);
    *s = (struct seen){.text = s->text};
}

static bool has_line(const struct seen *s, const char *format, uint16_t a, uint16_t b)
{
    struct strbuf line = {0};
    const char *at = strchr(format, 'A'), *bt = strchr(format, 'B');
    char number[NUM_TEXT_MAX];
    strbuf_add(&line, format, (size_t)(at - format));
    strbuf_add(&line, number, num_print_uint(number, a));
    strbuf_add(&line, at + 1, (size_t)(bt - at - 1));
    strbuf_add(&line, number, num_print_uint(number, b));
    strbuf_add_str(&line, bt + 1);
    bool found = s->text.p && strstr(s->text.p, line.p);
    strbuf_fini(&line);
    return found;
}

static void both_ends_by_port(void **state)
{
    (void)state;
    struct loopback l, other;
    struct sockdiag *d;
    struct seen s = {0};
    assert_true(loopback_open(&l, AF_INET));
    assert_true(loopback_open(&other, AF_INET));
    loopback_send(&l, 5000);
    assert_int_equal(sockdiag_open(&d), 0);
    struct sockdiag_query q = {.ports = &l.port, .n_ports = 1, .states = SOCKDIAG_CONNECTED};
    assert_int_equal(sockdiag_dump(d, &q, on_socket, &s), 0);
    assert_int_equal(s.n, 2); /* one has the port as its own, one as its peer's; the other pair is not there */
    assert_true(has_line(&s, "127.0.0.1:A 127.0.0.1:B established\n", l.port, l.client_port));
    assert_true(has_line(&s, "127.0.0.1:A 127.0.0.1:B established\n", l.client_port, l.port));
    assert_true(SOCKDIAG_HAS(s.info_len, tcpi_total_retrans));
    assert_int_equal(s.received, 5000);
    assert_in_range(s.acked, 5000, 5001); /* the SYN counts */
    assert_true(sockdiag_last_bytes(d) > 2 * sizeof(struct inet_diag_msg));
    reset(&s);
    q.states = 1 << SOCKDIAG_LISTEN;
    assert_int_equal(sockdiag_dump(d, &q, on_socket, &s), 0);
    assert_int_equal(s.n, 1);
    assert_true(has_line(&s, "127.0.0.1:A 0.0.0.0:B listen\n", l.port, 0));
    sockdiag_close(d);
    strbuf_fini(&s.text);
    loopback_close(&l);
    loopback_close(&other);
}

static void ipv6_in_the_same_dump(void **state)
{
    (void)state;
    struct loopback l4, l6;
    struct sockdiag *d;
    struct seen s = {0};
    if (!loopback_open(&l6, AF_INET6))
        skip(); /* this host has no IPv6 */
    assert_true(loopback_open(&l4, AF_INET));
    assert_int_equal(sockdiag_open(&d), 0);
    struct sockdiag_query q = {.ports = (uint16_t[]){l4.port, l6.port}, .n_ports = 2, .states = SOCKDIAG_CONNECTED};
    assert_int_equal(sockdiag_dump(d, &q, on_socket, &s), 0);
    assert_int_equal(s.n, 4);
    assert_true(has_line(&s, "127.0.0.1:A 127.0.0.1:B established\n", l4.port, l4.client_port));
    assert_true(has_line(&s, "[::1]:A [::1]:B established\n", l6.port, l6.client_port));
    sockdiag_close(d);
    strbuf_fini(&s.text);
    loopback_close(&l4);
    loopback_close(&l6);
}

/* Each place in the longest filter, and only those ports. */
static void every_port_of_the_filter(void **state)
{
    (void)state;
    uint16_t ports[SOCKDIAG_PORTS_MAX + 1];
    struct loopback l, other;
    struct sockdiag *d;
    struct seen s = {0};
    assert_true(loopback_open(&l, AF_INET));
    assert_true(loopback_open(&other, AF_INET));
    assert_int_equal(sockdiag_open(&d), 0);
    for (size_t n = 1; n <= SOCKDIAG_PORTS_MAX; n = n < 4 ? n + 1 : n * 2) {
        for (size_t at = 0; at < n; at += n > 8 ? n / 5 : 1) {
            for (size_t i = 0; i < n; i++)
                ports[i] = (uint16_t)(1 + i); /* nobody uses those on the loopback here */
            ports[at] = l.client_port;
            reset(&s);
            struct sockdiag_query q = {.ports = ports, .n_ports = n, .states = 1 << SOCKDIAG_ESTABLISHED};
            assert_int_equal(sockdiag_dump(d, &q, on_socket, &s), 0);
            assert_true(has_line(&s, "127.0.0.1:A 127.0.0.1:B established\n", l.port, l.client_port));
            assert_true(has_line(&s, "127.0.0.1:A 127.0.0.1:B established\n", l.client_port, l.port));
            assert_false(has_line(&s, "127.0.0.1:A 127.0.0.1:B established\n", other.port, other.client_port));
        }
    }
    struct sockdiag_query q = {.ports = ports, .n_ports = SOCKDIAG_PORTS_MAX + 1, .states = SOCKDIAG_CONNECTED};
    assert_int_equal(sockdiag_dump(d, &q, on_socket, &s), E_LIMIT);
    q.n_ports = 0;
    assert_int_equal(sockdiag_dump(d, &q, on_socket, &s), E_LIMIT);
    sockdiag_close(d);
    strbuf_fini(&s.text);
    loopback_close(&l);
    loopback_close(&other);
}

/* More than a datagram of them; and a dump ended in the middle leaves nothing that the next one would read. */
static void ended_in_the_middle(void **state)
{
    (void)state;
    enum { PAIRS = 100 };
    struct loopback l[PAIRS];
    uint16_t ports[PAIRS];
    struct sockdiag *d;
    struct seen s = {0};
    for (size_t i = 0; i < PAIRS; i++) {
        assert_true(loopback_open(&l[i], AF_INET));
        ports[i] = l[i].port;
    }
    assert_int_equal(sockdiag_open(&d), 0);
    struct sockdiag_query q = {.ports = ports, .n_ports = PAIRS, .states = SOCKDIAG_CONNECTED};
    for (size_t end = 1; end < 2 * PAIRS; end += 60) {
        reset(&s);
        s.end_after = end;
        assert_int_equal(sockdiag_dump(d, &q, on_socket, &s), -ECANCELED);
        assert_int_equal(s.n, end);
        reset(&s);
        assert_int_equal(sockdiag_dump(d, &q, on_socket, &s), 0);
        assert_int_equal(s.n, 2 * PAIRS);
    }
    sockdiag_close(d);
    strbuf_fini(&s.text);
    for (size_t i = 0; i < PAIRS; i++)
        loopback_close(&l[i]);
}

/* A datagram of one socket with a tcp_info of info_len bytes, as the kernel makes it. */
static size_t make_message(char *to, uint16_t type, uint32_t seq, size_t info_len)
{
    struct inet_diag_msg msg = {.idiag_family = AF_INET, .idiag_state = SOCKDIAG_ESTABLISHED};
    struct nlattr attr = {(uint16_t)(NLA_HDRLEN + info_len), INET_DIAG_INFO};
    struct nlmsghdr head = {.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + sizeof msg + attr.nla_len),
                            .nlmsg_type = type,
                            .nlmsg_seq = seq};
    memcpy(to, &head, sizeof head);
    memcpy(to + NLMSG_HDRLEN, &msg, sizeof msg);
    memcpy(to + NLMSG_HDRLEN + sizeof msg, &attr, sizeof attr);
    memset(to + NLMSG_HDRLEN + sizeof msg + NLA_HDRLEN, 1, info_len);
    return NLMSG_ALIGN(head.nlmsg_len);
}

static int parse_copy(const char *bytes, size_t n, uint32_t seq, struct seen *s)
{
    char *exact = malloc(n ? n : 1); /* so that ASan sees a byte too many */
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    int r = sockdiag_parse(slice_of(exact, n), seq, on_socket, s);
    free(exact);
    return r;
}

static void what_no_kernel_sends(void **state)
{
    (void)state;
    _Alignas(8) char bytes[2048];
    struct seen s = {0};
    size_t n = make_message(bytes, TCPDIAG_GETSOCK, 7, sizeof(struct tcp_info));
    assert_int_equal(parse_copy(bytes, n, 7, &s), 0);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.info_len, sizeof(struct tcp_info));
    assert_int_equal(parse_copy(bytes, n, 8, &s), E_PROTO); /* an answer to another request */
    for (size_t cut = 1; cut < n; cut++)
        assert_int_equal(parse_copy(bytes, cut, 7, &s), E_PROTO);
    assert_int_equal(s.n, 1);
    /* An old kernel's shorter tcp_info, and one longer than ours. */
    n = make_message(bytes, TCPDIAG_GETSOCK, 7, offsetof(struct tcp_info, tcpi_pacing_rate));
    assert_int_equal(parse_copy(bytes, n, 7, &s), 0);
    assert_true(SOCKDIAG_HAS(s.info_len, tcpi_total_retrans));
    assert_false(SOCKDIAG_HAS(s.info_len, tcpi_bytes_acked));
    n = make_message(bytes, TCPDIAG_GETSOCK, 7, sizeof(struct tcp_info) + 64);
    assert_int_equal(parse_copy(bytes, n, 7, &s), 0);
    assert_int_equal(s.info_len, sizeof(struct tcp_info));
    /* The end, with an errno and without; an error. */
    struct {
        struct nlmsghdr head;
        int code;
    } end = {.head = {.nlmsg_len = sizeof end, .nlmsg_type = NLMSG_DONE, .nlmsg_seq = 7}};
    assert_int_equal(parse_copy((char *)&end, sizeof end, 7, &s), 1);
    end.code = -EPERM;
    assert_int_equal(parse_copy((char *)&end, sizeof end, 7, &s), -EPERM);
    end.head.nlmsg_type = NLMSG_ERROR;
    assert_int_equal(parse_copy((char *)&end, sizeof end, 7, &s), -EPERM);
    end.code = 0;
    assert_int_equal(parse_copy((char *)&end, sizeof end, 7, &s), E_PROTO);
    strbuf_fini(&s.text);
}

static void addresses(void **state)
{
    (void)state;
    struct strbuf text = {0};
    uint32_t v6[4] = {htonl(0x20010db8), 0, 0, htonl(1)}, mapped[4] = {0, 0, htonl(0xffff), htonl(0xc0000201)},
             v4[4] = {htonl(0xc0000201)};
    sockdiag_add_address(&text, AF_INET6, v6, htons(443));
    strbuf_add_char(&text, ' ');
    sockdiag_add_address(&text, AF_INET6, mapped, htons(80));
    strbuf_add_char(&text, ' ');
    sockdiag_add_address(&text, AF_INET, v4, htons(65535));
    assert_string_equal(text.p, "[2001:db8::1]:443 192.0.2.1:80 192.0.2.1:65535");
    assert_string_equal(sockdiag_state_name(SOCKDIAG_CLOSE_WAIT), "close-wait");
    assert_string_equal(sockdiag_state_name(0), "unknown");
    assert_string_equal(sockdiag_state_name(SOCKDIAG_STATES), "unknown");
    strbuf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_by_port),        cmocka_unit_test(ipv6_in_the_same_dump),
        cmocka_unit_test(every_port_of_the_filter), cmocka_unit_test(ended_in_the_middle),
        cmocka_unit_test(what_no_kernel_sends),     cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
