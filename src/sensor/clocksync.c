/* SPDX-License-Identifier: Apache-2.0 */
/* How well this host's clock follows the right time: what the kernel knows (`clocksync`, from adjtimex) with the
 * daemon that disciplines it, and what chronyd knows (`clocksync.chrony`).
 *
 * The daemon is found by its pid file, and because that may not be readable also by a look through /proc, at the
 * start and every LOOK_EVERY samples; /proc/PID/comm confirms it each time. systemd-timesyncd is known by its folder
 * in /run.
 *
 * chronyd is asked over its UDP port on the loopback, only when it runs: a question to a closed port would count in
 * the very counters that others watch. Nothing waits for the answer: it is taken when it has come, through wait_fd or
 * with the next sample. */
#include "base/num.h"
#include "sensor/chrony.h"
#include "sensor/clean.h"
#include "sensor/scan.h"
#include "sensor/sensor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <unistd.h>

enum { CLOCK_KERNEL, CLOCK_CHRONY, LOOK_EVERY = 60 };

static const struct field clocksync_fields[] = {
    FIELD("synchronised", BOOL, STATE, "", "a daemon or the hardware keeps the clock right"),
    FIELD("offset", INT, GAUGE, "ns", "what the kernel still has to correct"),
    FIELD("frequency", FLOAT, GAUGE, "ppm", "by which the clock is made faster"),
    FIELD("max_error", UINT, GAUGE, "us", "the largest error there can be; grows until the daemon sets it"),
    FIELD("estimated_error", UINT, GAUGE, "us", "the error that the daemon expects"),
    FIELD("leap", TEXT, STATE, "", "`none`, `insert`, `delete`, `now`, `done`, or `unknown` while not synchronised"),
    FIELD("tai", INT, STATE, "s", "TAI minus UTC; none when the kernel was not told"),
    FIELD("status", UINT, STATE, "", "the kernel's bits, STA_* of adjtimex(2)"),
    FIELD("daemon", TEXT, STATE, "", "`chronyd`, `ntpd`, `systemd-timesyncd`, ..."),
};
enum { N_KERNEL = 8, N_FIELDS = sizeof clocksync_fields / sizeof *clocksync_fields };

static const struct field chrony_fields[] = {
    FIELD("synchronised", BOOL, STATE, "", "chronyd has a source to follow"),
    FIELD("reference", TEXT, STATE, "", "address of the source, or its id in hexadecimal"),
    FIELD("stratum", UINT, STATE, "", "distance to a reference clock"),
    FIELD("leap", TEXT, STATE, "", "`none`, `insert`, `delete`, or `unknown` while not synchronised"),
    FIELD("offset", FLOAT, GAUGE, "s", "of the clock to true time; positive: it is fast"),
    FIELD("last_offset", FLOAT, GAUGE, "s", "at the last measurement"),
    FIELD("rms_offset", FLOAT, GAUGE, "s", "long-term mean of that"),
    FIELD("frequency", FLOAT, GAUGE, "ppm", "by which the clock would be slow if it were left alone"),
    FIELD("residual_frequency", FLOAT, GAUGE, "ppm", "what the last measurement would change"),
    FIELD("skew", FLOAT, GAUGE, "ppm", "bound of the error of the frequency"),
    FIELD("root_delay", FLOAT, GAUGE, "s", "round trip to the reference clock"),
    FIELD("root_dispersion", FLOAT, GAUGE, "s", "error gathered on that way"),
    FIELD("update_interval", FLOAT, GAUGE, "s", "between the last two measurements"),
};

static const struct sensor_schema clocksync_schemas[] = {
    [CLOCK_KERNEL] = SCHEMA("clocksync", clocksync_fields),
    [CLOCK_CHRONY] = SCHEMA("clocksync.chrony", chrony_fields),
    {0},
};

enum { NONE = -1, CHRONYD };

/* By comm. A daemon without a pid file is only found by the look through /proc. */
static const struct {
    const char *comm, *pid_file, *old_pid_file;
} daemons[] = {
    [CHRONYD] = {"chronyd", "/run/chrony/chronyd.pid", "/var/run/chronyd.pid"},
    {"ntpd", "/run/ntpd.pid", "/var/run/ntpd.pid"},
    {"openntpd", "/run/openntpd.pid", "/var/run/openntpd.pid"},
    {"phc2sys", NULL, NULL},
};
enum { N_DAEMONS = sizeof daemons / sizeof *daemons };

struct clocksync {
    int64_t chrony_port;
    struct sensor_env *env;
    struct strbuf text;
    int daemon;          /* index in daemons, or NONE */
    struct source *comm; /* of its process; NULL = none */
    uint64_t samples;
    int fd; /* to chronyd; -1 = not open */
    bool is_asked;
    uint32_t sequence;
    struct strbuf reference;
};

static const struct parameter clocksync_options[] = {
    {SETTING_INT, "chrony_port", "323", offsetof(struct clocksync, chrony_port),
     "the UDP port on which chronyd takes questions (its `cmdport`); 0: it is not asked", false, false},
    {0},
};

static int clocksync_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct clocksync *c = state;
    c->env = env;
    c->daemon = NONE;
    c->fd = -1;
    if (c->chrony_port < 0 || c->chrony_port > 65535)
        return diag_set(why, -EINVAL, 0, "clocksync.chrony_port: 0 to 65535");
    c->sequence = (uint32_t)env->utc_ns(); /* nothing secret: only to tell answers apart */
    return 0;
}

static void forget_daemon(struct clocksync *c)
{
    source_close(c->env, c->comm);
    c->comm = NULL;
    c->daemon = NONE;
}

/* Does that process still have the name of the daemon? */
static bool is_running(struct clocksync *c)
{
    struct slice text;
    if (c->daemon == NONE || source_read(c->env, c->comm, &text) < 0 || !scan_is_whole(text))
        return false;
    return slice_eq_str(slice_of(text.p, text.n - 1), daemons[c->daemon].comm);
}

static bool try_process(struct clocksync *c, int daemon, uint64_t pid)
{
    char path[64];
    forget_daemon(c);
    (void)snprintf(path, sizeof path, "/proc/%llu/comm", (unsigned long long)pid);
    c->comm = env_source(c->env, path);
    c->daemon = daemon;
    if (is_running(c))
        return true;
    forget_daemon(c);
    return false;
}

static bool try_pid_file(struct clocksync *c, int daemon, const char *path)
{
    uint64_t pid;
    if (!path || env_read_file(c->env, path, &c->text) < 0)
        return false;
    struct scan s = scan_of(strbuf_slice(&c->text));
    return scan_uint(&s, &pid) && try_process(c, daemon, pid);
}

/* For each process: 1 when it is a daemon we know. */
static int on_process(void *arg, const char *name)
{
    struct clocksync *c = arg;
    char path[64];
    uint64_t pid;
    if (num_parse_uint(slice_str(name), &pid) < 0)
        return 0;
    (void)snprintf(path, sizeof path, "/proc/%llu/comm", (unsigned long long)pid);
    if (env_read_file(c->env, path, &c->text) < 0 || !scan_is_whole(strbuf_slice(&c->text)))
        return 0;
    for (int i = 0; i < N_DAEMONS; i++)
        if (slice_eq_str(slice_of(c->text.p, c->text.n - 1), daemons[i].comm))
            return try_process(c, i, pid);
    return 0;
}

static void find_daemon(struct clocksync *c)
{
    if (is_running(c))
        return;
    forget_daemon(c);
    for (int i = 0; i < N_DAEMONS; i++)
        if (try_pid_file(c, i, daemons[i].pid_file) || try_pid_file(c, i, daemons[i].old_pid_file))
            return;
    if (c->samples % LOOK_EVERY == 0)
        (void)env_list(c->env, "/proc", on_process, c); /* not found: none is known */
}

static int no_name(void *arg, const char *name)
{
    (void)arg, (void)name; /* that the folder can be listed is enough */
    return 1;
}

static struct value daemon_name(struct clocksync *c)
{
    if (c->daemon != NONE)
        return value_text(slice_str(daemons[c->daemon].comm));
    if (env_list(c->env, "/run/systemd/timesync", no_name, NULL) >= 0)
        return value_text(SLICE_LIT("systemd-timesyncd"));
    return value_none();
}

static const char *leap_name(int state)
{
    static const char *const names[] = {[TIME_OK] = "none", [TIME_INS] = "insert", [TIME_DEL] = "delete",
                                        [TIME_OOP] = "now", [TIME_WAIT] = "done"};
    return state >= 0 && state < (int)(sizeof names / sizeof *names) ? names[state] : "unknown";
}

/* Fails where a sandbox forbids the call: then there is no data. */
static void take_kernel(const struct sensor_env *env, struct value *row)
{
    struct timex t = {.modes = 0};
    int state = env_is_live(env) ? adjtimex(&t) : -1;
    if (state < 0)
        return;
    env_note(env, "adjtimex", "", 0);
    const struct value values[N_KERNEL] = {
        value_bool(state != TIME_ERROR && !(t.status & STA_UNSYNC)),
        value_int(t.offset * (t.status & STA_NANO ? 1 : 1000)),
        value_float((double)t.freq / 65536), /* 16 bits behind the point */
        value_uint((uint64_t)t.maxerror),
        value_uint((uint64_t)t.esterror),
        value_text(slice_str(leap_name(state))),
        t.tai ? value_int(t.tai) : value_none(),
        value_uint((uint64_t)t.status),
    };
    memcpy(row, values, sizeof values);
}

static void close_chrony(struct clocksync *c)
{
    if (c->fd >= 0)
        (void)close(c->fd); /* datagrams: nothing to lose */
    c->fd = -1;
    c->is_asked = false;
}

/* Best effort: chronyd may be configured to answer nobody. */
static void ask_chrony(struct clocksync *c)
{
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)c->chrony_port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned char packet[CHRONY_PACKET];
    if (c->fd < 0) {
        c->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&to, sizeof to) < 0) {
            close_chrony(c);
            return;
        }
    }
    chrony_request(packet, ++c->sequence);
    c->is_asked = send(c->fd, packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof packet;
    env_note(c->env, "send", "chronyd", sizeof packet);
}

static struct value reference_text(struct clocksync *c, const struct chrony_tracking *t)
{
    char text[INET6_ADDRSTRLEN];
    strbuf_reset(&c->reference);
    if (t->address_family && inet_ntop(t->address_family, t->address, text, sizeof text))
        strbuf_add_str(&c->reference, text);
    else
        strbuf_printf(&c->reference, "%08X", t->ref_id);
    return value_text(strbuf_slice(&c->reference));
}

static void emit_chrony(struct clocksync *c, const struct chrony_tracking *t, struct sensor_out *out)
{
    const struct value row[] = {
        value_bool(t->leap < 3),
        reference_text(c, t),
        value_uint(t->stratum),
        value_text(slice_str(leap_name(t->leap < 3 ? t->leap : -1))),
        value_float(0 - t->correction),
        value_float(t->last_offset),
        value_float(t->rms_offset),
        value_float(t->frequency),
        value_float(t->residual_frequency),
        value_float(t->skew),
        value_float(t->root_delay),
        value_float(t->root_dispersion),
        value_float(t->update_interval),
    };
    _Static_assert(sizeof row / sizeof *row == sizeof chrony_fields / sizeof *chrony_fields, "a value a field");
    sensor_row(out, CLOCK_CHRONY, row);
}

static void take_answer(struct clocksync *c, struct sensor_out *out)
{
    unsigned char packet[512];
    struct chrony_tracking t;
    while (c->fd >= 0 && c->is_asked) {
        ssize_t n = recv(c->fd, packet, sizeof packet, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            close_chrony(c); /* nobody there */
        if (n < 0)
            return;
        if (chrony_parse(slice_of((const char *)packet, (size_t)n), c->sequence, &t) < 0)
            continue; /* late, or from something else */
        c->is_asked = false;
        emit_chrony(c, &t, out);
    }
}

static int clocksync_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct clocksync *c = state;
    struct value row[N_FIELDS] = {0};
    take_answer(c, out);
    if (!out->is_due)
        return 0;
    find_daemon(c);
    c->samples++;
    take_kernel(env, row);
    row[N_KERNEL] = daemon_name(c);
    if (row[0].type == VALUE_NONE && row[N_KERNEL].type == VALUE_NONE)
        return diag_set(out->why, E_NODATA, 0, "neither adjtimex nor a daemon");
    sensor_row(out, CLOCK_KERNEL, row);
    if (env_is_live(env) && c->daemon == CHRONYD && c->chrony_port)
        ask_chrony(c);
    else
        close_chrony(c);
    return 0;
}

static int clocksync_wait_fd(void *state)
{
    struct clocksync *c = state;
    return c->is_asked ? c->fd : -1;
}

static void clocksync_close(void *state)
{
    struct clocksync *c = state;
    if (!c->env)
        return;
    close_chrony(c);
    forget_daemon(c);
    strbuf_fini(&c->text);
    strbuf_fini(&c->reference);
}

const struct sensor_ops sensor_clocksync = {
    .name = "clocksync",
    .summary = "how well the clock follows the right time",
    .schemas = clocksync_schemas,
    .options = clocksync_options,
    .every = "10s",
    .refresh = "60s",
    .priority = 6,
    .is_default = true,
    .state_size = sizeof(struct clocksync),
    .open = clocksync_open,
    .sample = clocksync_sample,
    .close = clocksync_close,
    .wait_fd = clocksync_wait_fd,
};
