/* SPDX-License-Identifier: Apache-2.0 */
/* unix:PATH and tcp://HOST[:PORT]: blocks to an agent or gateway. All of it is net/uplink's work; here is
 * what only a program has: GRIDLINE_QUEUE and activation. */
#include "client/dest_stream.h"

#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>

enum { QUEUE_MIN = 64 << 10 };

static uint64_t queue_limit(void)
{
    const char *text = getenv("GRIDLINE_QUEUE");
    uint64_t n;
    if (!text || num_parse_size(slice_str(text), &n) < 0)
        return 0;
    return n < QUEUE_MIN ? QUEUE_MIN : n;
}

static struct frame_origin origin_of(const struct dest_env *env)
{
    struct frame_origin o = {.epoch = env->origin.epoch};
    memcpy(o.producer, env->origin.producer, sizeof o.producer);
    return o;
}

static int on_frame(void *arg, const struct frame *f)
{
    const struct dest_stream *s = arg;
    uint32_t number;
    struct slice list;
    if (f->type != FRAME_ACTIVATE)
        return f->type < FRAME_OPTIONAL ? E_PROTO : 0;
    int r = frame_get_activate(f->payload, &number, &list);
    if (r == 0 && s->on_activate)
        s->on_activate(s->on_activate_arg, list);
    return r;
}

static const struct uplink_ops uplink_ops = {.on_frame = on_frame};

static int open_uplink(const char *scheme, struct slice url, const struct dest_env *env,
                       struct dest_stream *s)
{
    const struct uplink_options options = {.host = env->host,
                                           .prog = env->prog,
                                           .origin = origin_of(env),
                                           .role = PEER_PROGRAM,
                                           .flags = UPLINK_ONE_ADDRESS,
                                           .queue_max = queue_limit(),
                                           .ops = &uplink_ops,
                                           .arg = s};
    struct strbuf address = {0};
    strbuf_add_str(&address, scheme);
    strbuf_add_slice(&address, url);
    int r =
        strbuf_failed(&address) ? -ENOMEM : uplink_open(strbuf_slice(&address), &options, &s->uplink, NULL);
    strbuf_fini(&address);
    return r;
}

static int open_stream(const struct dest_ops *ops, const char *scheme, struct slice url,
                       const struct dest_env *env, struct dest **out)
{
    struct dest_stream *s = mem_try_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    s->dest.ops = ops;
    int r = open_uplink(scheme, url, env, s);
    if (r < 0) {
        mem_free(s);
        return r;
    }
    *out = &s->dest;
    return 0;
}

static int open_unix(struct slice url, struct slice query, const struct dest_env *env, struct dest **out)
{
    (void)query; /* nothing to choose */
    return open_stream(&dest_unix, "unix://", url, env, out);
}

static int open_tcp(struct slice url, struct slice query, const struct dest_env *env, struct dest **out)
{
    (void)query; /* nothing to choose */
    return open_stream(&dest_tcp, "tcp://", url, env, out);
}

static struct uplink *uplink_of(const struct dest *d)
{
    return ((const struct dest_stream *)d)->uplink;
}

static void put(struct dest *d, struct slice block, uint32_t n, uint64_t first_seq)
{
    uplink_put(uplink_of(d), block, n, first_seq);
}

static int pump(struct dest *d, int64_t now_mono_ns)
{
    return uplink_pump(uplink_of(d), now_mono_ns);
}

static int wait_fd(const struct dest *d, short *events)
{
    return uplink_wait_fd(uplink_of(d), events);
}

static void counts(const struct dest *d, struct dest_counts *out)
{
    struct uplink_counts c;
    uplink_counts(uplink_of(d), &c);
    *out = (struct dest_counts){.given = c.given, .passed = c.passed, .queued = c.queued};
    memcpy(out->dropped, c.dropped, sizeof out->dropped);
}

static void after_fork(struct dest *d, const struct dest_env *env)
{
    struct frame_origin o = origin_of(env);
    uplink_after_fork(uplink_of(d), &o);
}

static void goodbye(struct dest *d, uint64_t taken, const uint64_t dropped_before[DROP_REASONS])
{
    uplink_goodbye(uplink_of(d), taken, dropped_before);
}

static void destroy(struct dest *d)
{
    uplink_close(uplink_of(d));
    mem_free(d);
}

static int set_backup(struct dest *d, const char *dir, uint64_t max_bytes)
{
    return uplink_spool(uplink_of(d), dir, max_bytes, NULL, NULL);
}

static void set_on_activate(struct dest *d, void (*call)(void *arg, struct slice list), void *arg)
{
    struct dest_stream *s = (struct dest_stream *)d;
    s->on_activate = call;
    s->on_activate_arg = arg;
}

#define STREAM_OPS                                                                            \
    .put = put, .pump = pump, .wait_fd = wait_fd, .counts = counts, .after_fork = after_fork, \
    .goodbye = goodbye, .close = destroy, .backup = set_backup, .on_activate = set_on_activate

const struct dest_ops dest_unix = {.scheme = "unix", .open = open_unix, STREAM_OPS};
const struct dest_ops dest_tcp = {.scheme = "tcp", .open = open_tcp, STREAM_OPS};
