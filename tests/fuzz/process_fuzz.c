/* SPDX-License-Identifier: Apache-2.0 */
/* What the sensors process and ping and the port monitor read of the kernel and the network. The first byte says what the
 * rest is. */
#include "agent/portmon.h"
#include "base/err.h"
#include "base/text.h"
#include "net/echo.h"
#include "sensor/proc_connector.h"
#include "sensor/proc_pid.h"
#include "sensor/process_limit.h"

#include <errno.h>

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

/* A stat that is cut may be refused, but says nothing else than the whole one. */
static void fuzz_stat(struct slice text)
{
    struct proc_stat whole, cut;
    if (proc_stat_parse(text, &whole) < 0)
        return;
    check(whole.comm.p > text.p && whole.comm.p + whole.comm.n < text.p + text.n);
    check(whole.comm.p[-1] == '(' && whole.comm.p[whole.comm.n] == ')');
    check(!memchr(whole.comm.p + whole.comm.n + 1, ')', (size_t)(text.p + text.n - whole.comm.p) - whole.comm.n - 1));
    size_t after = (size_t)(whole.comm.p - text.p) + whole.comm.n + 1;
    for (size_t n = after; n < text.n; n++)
        if (proc_stat_parse(slice_of(text.p, n), &cut) == 0)
            check(slice_eq(cut.comm, whole.comm) && cut.start == whole.start && cut.rss == whole.rss &&
                  cut.utime == whole.utime && (cut.exit_code == 0 || cut.exit_code == whole.exit_code));
}

static void fuzz_status(struct slice text)
{
    uint64_t uid = 77, cut = 77;
    if (proc_status_uid(text, &uid) < 0)
        return;
    for (size_t n = 0; n < text.n; n++)
        check(proc_status_uid(slice_of(text.p, n), &cut) < 0 || cut == uid);
}

static void fuzz_command(struct slice text)
{
    char line[4096];
    size_t n = text.n < sizeof line ? text.n : sizeof line;
    if (n)
        memcpy(line, text.p, n);
    size_t length = proc_command_text(line, n);
    check(length <= n && text_is_utf8(slice_of(line, length)) && (!length || !memchr(line, '\0', length)));
    check(proc_command_text(line, length) == length); /* once more changes nothing */
}

static void fuzz_connector(struct slice datagram)
{
    struct proc_change a, b;
    int r = proc_connector_parse(datagram, &a);
    check(r == 1 || r == 0 || r == E_PROTO);
    if (r != 1)
        return;
    uint32_t length;
    memcpy(&length, datagram.p, sizeof length);
    check(a.status >= 0 && a.status <= 0xffff && (a.what == PROC_FORKED || a.parent == 0));
    check(proc_connector_parse(slice_of(datagram.p, length), &b) == 1);
    check(a.what == b.what && a.pid == b.pid && a.parent == b.parent && a.status == b.status && a.mono_ns == b.mono_ns);
    check(proc_connector_parse(slice_of(datagram.p, length - 1), &b) == E_PROTO);
}

/* A reply is the request with another type and checksum. */
static void fuzz_echo(struct slice packet, bool is_v6, bool has_ip)
{
    struct echo e;
    unsigned char again[ECHO_BYTES];
    if (echo_parse(packet, is_v6, has_ip, &e) < 0)
        return;
    echo_build(&e, is_v6, again);
    check(packet.n >= ECHO_BYTES && memcmp(packet.p + packet.n - ECHO_BYTES + 4, again + 4, ECHO_BYTES - 4) == 0);
}

static void fuzz_packet(struct slice packet)
{
    uint16_t ports[2], cut[2];
    if (!portmon_packet_ports(packet, ports))
        return;
    for (size_t n = 0; n < packet.n && n < 128; n++)
        check(!portmon_packet_ports(slice_of(packet.p, n), cut) || (cut[0] == ports[0] && cut[1] == ports[1]));
}

static void fuzz_limit(struct slice text)
{
    struct limit_rule rule;
    struct diag why = {0};
    int r = limit_parse(text, &rule, &why);
    check(r == 0 || (r == -EINVAL && why.message[0]));
    check(r < 0 || (rule.limit > 0 && rule.window_ns > 0 && rule.what < LIMIT_WHATS));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct slice rest = slice_of((const char *)data + 1, size - 1);
    switch (data[0]) {
    case 's':
        fuzz_stat(rest);
        break;
    case 'u':
        fuzz_status(rest);
        break;
    case 'c':
        fuzz_command(rest);
        break;
    case 'n':
        fuzz_connector(rest);
        break;
    case '4':
    case 'r':
        fuzz_echo(rest, false, data[0] == 'r');
        break;
    case '6':
        fuzz_echo(rest, true, false);
        break;
    case 'p':
        fuzz_packet(rest);
        break;
    case 'l':
        fuzz_limit(rest);
        break;
    default:
        break;
    }
    return 0;
}
