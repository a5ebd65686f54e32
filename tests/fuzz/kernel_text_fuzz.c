/* SPDX-License-Identifier: Apache-2.0 */
/* What sensors parse: the kernel's texts and netlink messages, utmp, files of logind, chronyd's answers. The first byte
 * chooses the parser; the rest is its input.
 *
 * Parsers that have a function of their own are called. The others are reached through their sensor on a tree with one
 * file, in a folder that is made at the start and removed at the end; what comes out must be of the declared type and
 * UTF-8, and a text that was seen before must give the same again. */
#include "base/mem.h"
#include "base/text.h"
#include "sensor/chrony.h"
#include "sensor/instance.h"
#include "sensor/mounts.h"
#include "sensor/netstat.h"
#include "sensor/psi.h"
#include "sensor/sockdiag.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void fuzz_netstat(struct slice text)
{
    enum { N = 5 };
    static const char *const names[N] = {"CurrEstab", "RetransSegs", "InSegs", "OutRsts", "ActiveOpens"};
    static struct netstat_group old = {.prefix = "Tcp:", .names = names, .n = N}; /* remembers earlier inputs */
    struct netstat_group fresh = {.prefix = "Tcp:", .names = names, .n = N};
    struct value a[N], b[N], c[N];
    bool is_there = netstat_take(&fresh, text, a);
    check(netstat_take(&old, text, b) == is_there && netstat_take(&old, text, c) == is_there);
    for (size_t i = 0; i < N; i++) {
        check(a[i].type == VALUE_NONE || (is_there && a[i].type == VALUE_UINT));
        check(value_eq(a[i], b[i]) && value_eq(a[i], c[i]));
    }
    netstat_fini(&fresh);
}

static void fuzz_mounts(struct slice text)
{
    struct mounts m;
    mounts_init(&m);
    if (mounts_parse(&m, text) == 0) {
        for (size_t i = 0; i < m.n; i++) {
            check(m.v[i].class != MOUNT_PSEUDO && m.v[i].class == mounts_classify(m.v[i].type));
            check(m.v[i].mount.n > 0 && text_is_utf8(m.v[i].mount) && text_is_utf8(m.v[i].device));
            for (size_t j = 0; j < i; j++)
                check(strcmp(m.v[i].path, m.v[j].path) != 0 &&
                      memcmp(m.v[i].number, m.v[j].number, sizeof m.v[i].number) != 0);
        }
    }
    mounts_fini(&m);
}

static void fuzz_psi(struct slice text)
{
    struct value v[PSI_VALUES];
    psi_take(text, v);
    for (size_t i = 0; i < PSI_VALUES; i++) {
        bool is_total = i == PSI_SOME_TOTAL || i == PSI_FULL_TOTAL;
        check(v[i].type == VALUE_NONE || v[i].type == (is_total ? VALUE_UINT : VALUE_FLOAT));
        check(v[i].type != VALUE_FLOAT || (isfinite(v[i].f) && v[i].f >= 0));
    }
}

static int on_socket(void *arg, const struct inet_diag_msg *msg, const struct tcp_info *info, size_t info_len)
{
    struct strbuf text = {0};
    size_t *n = arg;
    ++*n;
    check(info_len <= sizeof *info);
    for (size_t i = info_len; i < sizeof *info; i++)
        check(((const char *)info)[i] == 0);
    sockdiag_add_address(&text, msg->idiag_family, msg->id.idiag_src, msg->id.idiag_sport);
    check(text_is_utf8(strbuf_slice(&text)) && sockdiag_state_name(msg->idiag_state)[0]);
    strbuf_fini(&text);
    return 0;
}

static void fuzz_sockdiag(struct slice datagram)
{
    size_t n = 0;
    int r = sockdiag_parse(datagram, 0x01010101, on_socket, &n);
    check(r <= 1 && n <= datagram.n / sizeof(struct inet_diag_msg));
}

static void fuzz_chrony(struct slice packet)
{
    struct chrony_tracking t;
    if (chrony_parse(packet, 0x01010101, &t) < 0)
        return;
    check(packet.n >= CHRONY_PACKET);
    check(isfinite(t.correction) && isfinite(t.skew) && isfinite(t.update_interval) && isfinite(t.root_delay));
}

/* A sensor on a tree with one file that is the input. */
struct subject {
    const char *sensor, *file, *also; /* also: an empty file that must be there */
    struct sensor_env env;
    struct instance *instance;
    char root[128];
};

static struct subject subjects[] = {
    {.sensor = "users", .file = "/run/utmp"},
    {.sensor = "users", .file = "/run/systemd/sessions/1"},
    {.sensor = "host", .file = "/proc/cpuinfo"},
    {.sensor = "host", .file = "/etc/os-release"},
    {.sensor = "host", .file = "/sys/devices/system/cpu/online"},
    {.sensor = "host", .file = "/sys/class/net/eth0/flags"},
    {.sensor = "cgroup", .file = "/sys/fs/cgroup/g/memory.stat", .also = "/sys/fs/cgroup/g/cgroup.procs"},
    {.sensor = "cgroup", .file = "/sys/fs/cgroup/g/io.stat", .also = "/sys/fs/cgroup/g/cgroup.procs"},
    {.sensor = "clocksync", .file = "/run/chrony/chronyd.pid"},
    {.sensor = "ip", .file = "/proc/net/netstat"},
};
enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };

static char top[] = "/tmp/gridline-fuzz.XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw; /* everything goes */
    return remove(path);
}

static void clean_up(void)
{
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        if (subjects[i].instance) {
            instance_destroy(subjects[i].instance);
            env_fini(&subjects[i].env);
        }
    }
    (void)nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS); /* best effort at exit */
}

static void put_file(const char *root, const char *file, struct slice content)
{
    char path[512];
    check((size_t)snprintf(path, sizeof path, "%s%s", root, file) < sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) { /* the first time: the folders are not there yet */
        for (char *slash = strchr(path + strlen(top), '/'); slash; slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            check(mkdir(path, 0700) == 0 || errno == EEXIST);
            *slash = '/';
        }
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    }
    check(fd >= 0 && write(fd, content.p, content.n) == (ssize_t)content.n && close(fd) == 0);
}

static void start(struct subject *s)
{
    static bool has_top;
    struct diag why = {0};
    if (!has_top)
        check(mkdtemp(top) && atexit(clean_up) == 0);
    has_top = true;
    check((size_t)snprintf(s->root, sizeof s->root, "%s/%td", top, s - subjects) < sizeof s->root);
    put_file(s->root, s->file, slice_of("", 0));
    if (s->also)
        put_file(s->root, s->also, slice_of("", 0));
    if (s->also) /* the root of the groups, too */
        put_file(s->root, "/sys/fs/cgroup/cgroup.procs", slice_of("", 0));
    env_init(&s->env, s->root);
    check(instance_create(sensor_find(slice_str(s->sensor)), s->sensor, NULL, 0, &s->env, &s->instance, &why) == 0);
}

/* Rows as text, to compare two samples. */
struct taken {
    struct sensor_out out; /* first */
    const struct sensor_ops *ops;
    struct strbuf bytes;
};

static void on_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level, const struct value *values)
{
    struct taken *t = (struct taken *)out;
    const struct sensor_schema *s = &t->ops->schemas[schema];
    (void)time_ns, (void)level; /* not compared */
    for (size_t i = 0; i < s->n_fields; i++) {
        check(values[i].type == VALUE_NONE || values[i].type == s->fields[i].type);
        strbuf_add(&t->bytes, &values[i].type, 1);
        if (values[i].type == VALUE_TEXT) {
            check(text_is_utf8(value_slice(values[i])));
            strbuf_add_slice(&t->bytes, value_slice(values[i]));
        } else {
            strbuf_add(&t->bytes, &values[i].u, sizeof values[i].u);
        }
    }
}

static void fuzz_sensor(struct subject *s, struct slice content)
{
    static struct taken first, again;
    if (!s->instance)
        start(s);
    put_file(s->root, s->file, content);
    for (int i = 0; i < 2; i++) {
        struct taken *t = i ? &again : &first;
        t->out.row = on_row;
        t->ops = instance_ops(s->instance);
        strbuf_reset(&t->bytes);
        env_next_round(&s->env);
        int r = instance_sample(s->instance, &t->out, true, 1);
        check(r == 0 || r == E_NODATA);
    }
    check(slice_eq(strbuf_slice(&first.bytes), strbuf_slice(&again.bytes)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parsers[])(struct slice) = {fuzz_netstat, fuzz_mounts, fuzz_psi, fuzz_sockdiag, fuzz_chrony};
    enum { N_PARSERS = sizeof parsers / sizeof *parsers };
    if (size == 0)
        return 0;
    char *exact = mem_alloc(size > 1 ? size - 1 : 1); /* so that ASan sees a byte too many */
    memcpy(exact, data + 1, size - 1);
    struct slice input = {exact, size - 1};
    size_t which = data[0] % (N_PARSERS + N_SUBJECTS);
    if (which < N_PARSERS)
        parsers[which](input);
    else
        fuzz_sensor(&subjects[which - N_PARSERS], input);
    mem_free(exact);
    return 0;
}
