/* SPDX-License-Identifier: Apache-2.0 */
/* What each network interface sent and received, from /proc/net/dev, and the queue in front of it, from the statistics
 * of its root queueing discipline (rtnetlink): packets that the stack has sent and the device has not taken yet.
 *
 * The out-queue's fields are missing where the kernel has no such queue: on an interface that is down, and on captured
 * trees without /netlink/qdisc. Counters are the kernel's: an interface that is reset starts again at 0. Speed, state
 * and addresses seldom change and are in `host`. */
#include "sensor/globs.h"
#include "sensor/netdev.h"
#include "sensor/roster.h"
#include "sensor/sensor.h"

static const struct field network_fields[] = {
    KEY("interface", "its name"),
    FIELD("in_bytes", UINT, COUNTER, "bytes", "received"),
    FIELD("in_packets", UINT, COUNTER, "", "packets received"),
    FIELD("in_errors", UINT, COUNTER, "", "bad packets received"),
    FIELD("in_dropped", UINT, COUNTER, "", "packets received and dropped for want of room or use"),
    FIELD("in_fifo", UINT, COUNTER, "", "packets lost because the device's buffer was full"),
    FIELD("in_frame", UINT, COUNTER, "", "packets with a bad frame: length, checksum, alignment"),
    FIELD("in_compressed", UINT, COUNTER, "", "compressed packets received"),
    FIELD("in_multicast", UINT, COUNTER, "", "multicast packets received"),
    FIELD("out_bytes", UINT, COUNTER, "bytes", "sent"),
    FIELD("out_packets", UINT, COUNTER, "", "packets sent"),
    FIELD("out_errors", UINT, COUNTER, "", "packets that could not be sent"),
    FIELD("out_dropped", UINT, COUNTER, "", "packets dropped on the way out"),
    FIELD("out_fifo", UINT, COUNTER, "", "packets lost because the device's buffer ran empty"),
    FIELD("out_collisions", UINT, COUNTER, "", "collisions"),
    FIELD("out_carrier", UINT, COUNTER, "", "losses of carrier, aborts and the like while sending"),
    FIELD("out_compressed", UINT, COUNTER, "", "compressed packets sent"),
    FIELD("out_queue", UINT, GAUGE, "", "packets that wait to be sent"),
    FIELD("out_queue_bytes", UINT, GAUGE, "bytes", "that wait to be sent"),
    FIELD("out_queue_dropped", UINT, COUNTER, "", "packets dropped by the queue; 32 bits"),
    FIELD("out_queue_requeued", UINT, COUNTER, "", "packets the device sent back; 32 bits"),
    FIELD("out_queue_over_limit", UINT, COUNTER, "", "times that a limit held packets back; 32 bits"),
};
enum { QUEUE_FIELDS = 5, OUT_QUEUE = 1 + NET_FIELDS };
_Static_assert(sizeof network_fields / sizeof *network_fields == OUT_QUEUE + QUEUE_FIELDS, "as many as are filled");

static const struct sensor_schema network_schemas[] = {
    SCHEMA("network", network_fields),
    {0},
};

struct network {
    struct parameter_list interfaces, skip;
    bool out_queue;
    struct sensor_env *env;
    struct source *dev, *qdisc;
    struct roster roster; /* of struct interface */
};

struct interface {
    struct roster_entry entry;
    bool is_wanted;
    struct netdev_link link;
};

static const struct parameter network_options[] = {
    {SETTING_LIST, "interfaces", "*", offsetof(struct network, interfaces), "patterns of the interfaces to watch",
     false, false},
    {SETTING_LIST, "skip", NULL, offsetof(struct network, skip), "patterns of those to leave out", false, false},
    {SETTING_FLAG, "out_queue", "true", offsetof(struct network, out_queue),
     "the queue in front of each: one netlink dump a sample", false, false},
    {0},
};

static int network_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct network *w = state;
    (void)why; /* can't fail */
    w->env = env;
    w->dev = env_source(env, "/proc/net/dev");
    w->qdisc = w->out_queue ? env_source(env, QDISC_SOURCE) : NULL;
    roster_init(&w->roster, sizeof(struct interface));
    return 0;
}

/* What is read in a sample beside the interfaces' lines. */
struct queues {
    struct slice dump; /* empty: not to be had */
    size_t at;         /* where the next interface's is expected */
};

static void add_queue(struct sensor_env *env, struct interface *i, struct queues *queues, struct value *row)
{
    struct qdisc q;
    if (!netdev_queue(env, i->entry.name, &i->link, queues->dump, &queues->at, &q))
        return;
    row[0] = value_uint(q.packets);
    row[1] = value_uint(q.bytes);
    row[2] = value_uint(q.dropped);
    row[3] = value_uint(q.requeued);
    row[4] = value_uint(q.over_limit);
}

/* Returns the number of rows. */
static int take_line(struct network *w, struct sensor_env *env, struct sensor_out *out, struct slice text,
                     struct queues *queues)
{
    struct scan line = scan_of(text);
    struct slice name = netdev_name(&line);
    struct roster_entry *entry;
    struct value row[OUT_QUEUE + QUEUE_FIELDS] = {0};
    int r = roster_see(&w->roster, name, &entry);
    if (r == E_PROTO)
        return 0; /* a heading */
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/net/dev: %s, at %zu interfaces", err_text(r), w->roster.n);
    struct interface *i = (struct interface *)entry;
    if (r > 0)
        i->is_wanted = globs_match(&w->interfaces, name) && !globs_match(&w->skip, name);
    if (!i->is_wanted)
        return 0;
    row[0] = value_text(entry->label);
    netdev_values(&line, row + 1);
    add_queue(env, i, queues, row + OUT_QUEUE);
    sensor_row(out, 0, row);
    return 1;
}

static int network_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct network *w = state;
    struct slice text, line;
    struct queues queues = {{"", 0}, 0};
    int r = source_read(env, w->dev, &text);
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc/net/dev: %s", err_text(r));
    if (w->qdisc)
        (void)source_read(env, w->qdisc, &queues.dump); /* without it the fields are missing, no more */
    int rows = 0;
    struct scan s = scan_of(text);
    roster_begin(&w->roster);
    while (r >= 0 && scan_whole_line(&s, &line)) {
        r = take_line(w, env, out, line, &queues);
        rows += r > 0;
    }
    roster_end(&w->roster);
    if (r >= 0 && rows == 0)
        return diag_set(out->why, E_NODATA, 0, "/proc/net/dev lists no interface that is wanted");
    return r < 0 ? r : 0;
}

static void network_close(void *state)
{
    struct network *w = state;
    if (!w->env)
        return;
    source_close(w->env, w->dev);
    source_close(w->env, w->qdisc);
    roster_fini(&w->roster);
}

const struct sensor_ops sensor_network = {
    .name = "network",
    .summary = "bytes, packets, errors, drops and out-queue of each interface",
    .schemas = network_schemas,
    .options = network_options,
    .every = "1s",
    .refresh = "60s",
    .priority = 3,
    .is_default = true,
    .state_size = sizeof(struct network),
    .open = network_open,
    .sample = network_sample,
    .close = network_close,
};
