/* SPDX-License-Identifier: Apache-2.0 */
/* The sign of life: a number that grows by one each time. A receiver that misses numbers knows that some were lost,
 * one that sees `started` change that the agent began anew, and one that sees none any more that it is gone or cut
 * off. */
#include "base/num.h"
#include "sensor/scan.h"
#include "sensor/sensor.h"

static const struct field heartbeat_fields[] = {
    FIELD("sequence", UINT, COUNTER, "", "counts up from 1 since the agent started"),
    FIELD("uptime", FLOAT, GAUGE, "s", "since the host was booted"),
    FIELD("started", INT, STATE, "ns", "when the agent started, since 1970"),
};

static const struct sensor_schema heartbeat_schemas[] = {
    SCHEMA("heartbeat", heartbeat_fields),
    {0},
};

struct heartbeat {
    struct sensor_env *env;
    struct source *uptime;
    uint64_t sequence;
    int64_t started_ns;
};

static int heartbeat_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct heartbeat *h = state;
    (void)why; /* can't fail */
    h->env = env;
    h->uptime = env_source(env, "/proc/uptime");
    h->started_ns = env->utc_ns();
    return 0;
}

/* "350735.47 234388.90": the first. */
static struct value take_uptime(struct sensor_env *env, struct source *source)
{
    struct slice text;
    double v;
    if (source_read(env, source, &text) < 0 || !scan_is_whole(text))
        return value_none();
    struct scan s = scan_of(text);
    return num_parse_float(scan_word(&s), &v) < 0 ? value_none() : value_float(v);
}

static int heartbeat_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct heartbeat *h = state;
    const struct value row[] = {
        value_uint(++h->sequence),
        take_uptime(env, h->uptime),
        value_int(h->started_ns),
    };
    sensor_row(out, 0, row);
    return 0;
}

static void heartbeat_close(void *state)
{
    struct heartbeat *h = state;
    if (h->env)
        source_close(h->env, h->uptime);
}

const struct sensor_ops sensor_heartbeat = {
    .name = "heartbeat",
    .summary = "a sign of life",
    .schemas = heartbeat_schemas,
    .every = "10s",
    .refresh = "10s",
    .priority = 0,
    .is_default = true,
    .state_size = sizeof(struct heartbeat),
    .open = heartbeat_open,
    .sample = heartbeat_sample,
    .close = heartbeat_close,
};
