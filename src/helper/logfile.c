/* SPDX-License-Identifier: Apache-2.0 */
/* The logfile sensor: follow gives lines, logfilter makes events of them, marks tie the two together.
 *
 * A position is what follow_position gave, and behind it what the filter's tables hold (logfilter_save).
 * While the filter holds lines of a record that may go on, the position is before the first of them, so that
 * they are read again after a restart: nothing of an unfinished record is kept elsewhere. Marks come after
 * each BATCH_BYTES of lines and at the end of a call.
 *
 * Wake-ups: inotify wakes the sensor once a period; what comes after that waits for the period's end. So a
 * line is seen at once in a quiet log, and a busy one costs two wake-ups a period, not one a line. A call
 * reads CALL_BYTES at most; when there is more, a descriptor that is always readable brings the next call at
 * once. */
#include "helper/follow.h"
#include "helper/helper.h"
#include "helper/logfilter.h"
#include "sensor/logfile.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    POSITION_MAX = 4096, /* as sensor_mark has it */
    BATCH_BYTES = 64 << 10,
    CALL_BYTES = 1 << 20
};

static int load_filter(struct logfile *l, struct diag *why)
{
    char host[256] = "";
    if (!l->filter)
        return logfilter_plain(l->event, &l->lines, why);
    (void)gethostname(host, sizeof host - 1); /* not known: every host of the log is a target */
    const struct logfilter_options o = {.zone = l->zone, .own_host = host};
    return logfilter_find(l->filter, &o, &l->lines, why);
}

/* u16 length, so many bytes of follow's, the rest the filter's. */
static void split_position(struct slice position, struct slice *follow, struct slice *tables)
{
    size_t n =
        position.n < 2 ? 0 : (size_t)((unsigned char)position.p[0] | (unsigned char)position.p[1] << 8);
    struct slice rest = slice_from(position, 2);
    n = n < rest.n ? n : rest.n;
    *follow = position.n < 2 ? position : slice_of(rest.p, n); /* too short: follow reports it */
    *tables = slice_from(rest, n);
}

static int logfile_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct logfile *l = state;
    struct slice position, tables;
    l->is_open = true;
    l->more_fd = -1;
    if (strcmp(l->from, "start") != 0 && strcmp(l->from, "end") != 0)
        return diag_set(why, -EINVAL, 0, "from: start or end, not %.40s", l->from);
    int r = load_filter(l, why);
    if (r < 0)
        return r;
    struct follow_options o = {.path = env_path(env, l->path, &l->full_path),
                               .grace_ns = l->grace_ns,
                               .from_start = strcmp(l->from, "start") == 0};
    split_position(env->position, &position, &tables);
    r = follow_open(&o, position, &l->follow, why);
    if (r < 0)
        return r;
    if (tables.n > 0 && logfilter_restore(l->lines, tables) < 0)
        return diag_set(why, E_PROTO, 0, "%.100s: the kept position can't be read", l->path);
    l->more_fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC); /* -1: the period must do */
    return 0;
}

static void logfile_close(void *state)
{
    struct logfile *l = state;
    if (!l->is_open)
        return;
    follow_close(l->follow);
    logfilter_destroy(l->lines);
    if (l->more_fd >= 0)
        (void)close(l->more_fd); /* nothing to lose */
    strbuf_fini(&l->full_path);
    strbuf_fini(&l->position);
    strbuf_fini(&l->safe);
}

static int logfile_wait_fd(void *state)
{
    struct logfile *l = state;
    if (l->has_more)
        return l->more_fd;
    return l->was_woken ? -1 : follow_wait_fd(l->follow);
}

/* ---- what goes out ---- */

static int on_event(void *arg, const struct event_head *head, const struct named_value *values, size_t n)
{
    struct sensor_out *out = arg;
    struct diag why;
    return sensor_event(out, head, values, n, &why);
}

static void add_position(const struct logfile *l, enum follow_when when, struct strbuf *to)
{
    strbuf_reset(to);
    strbuf_add_u16(to, 0);
    follow_position(l->follow, when, to);
    if (strbuf_failed(to))
        return;
    to->p[0] = (char)((to->n - 2) & 0xff);
    to->p[1] = (char)((to->n - 2) >> 8);
}

static void mark(struct logfile *l, struct sensor_out *out)
{
    if (l->safe.n == 0)
        add_position(l, FOLLOW_AFTER, &l->position);
    else {
        strbuf_reset(&l->position);
        strbuf_add_slice(&l->position, strbuf_slice(&l->safe));
    }
    logfilter_save(l->lines, &l->position, POSITION_MAX - l->position.n);
    if (!strbuf_failed(&l->position)) /* else: the one before stays, and lines come again */
        sensor_mark(out, strbuf_slice(&l->position));
}

static void send_gap(struct logfile *l, struct sensor_out *out, const struct follow_item *gap)
{
    const struct value row[] = {value_text(slice_str(l->path)), value_text(slice_str(gap->reason)),
                                gap->is_lost_known ? value_uint(gap->lost) : value_none()};
    l->lost += gap->is_lost_known ? (int64_t)gap->lost : 0;
    sensor_row(out, LOGFILE_GAP, row);
}

static void send_reading(struct logfile *l, struct sensor_out *out)
{
    const struct follow_stats *f = follow_stats(l->follow);
    const struct logfilter_stats *s = logfilter_stats(l->lines);
    const struct value row[] = {
        value_text(slice_str(l->path)),
        value_uint(f->lines),
        value_uint(f->bytes),
        value_uint(s->events),
        value_uint(s->skipped),
        value_uint(s->unmatched),
        value_uint(s->trimmed),
        value_uint(s->refused),
        value_uint(s->gave_up),
        value_uint(s->bad_values),
        value_uint(s->cut),
        value_uint(s->evicted),
        value_uint(s->unpaired),
        value_uint(f->rotations),
        value_uint(f->truncations),
        value_uint(f->gaps),
        value_uint((uint64_t)l->lost),
        value_uint(follow_backlog(l->follow)),
    };
    sensor_row(out, LOGFILE_READING, row);
}

/* ---- reading ---- */

static void flush(struct logfile *l, struct sensor_out *out, const struct logfilter_sink *sink)
{
    logfilter_flush(l->lines, out->time_ns, sink);
    strbuf_reset(&l->safe);
}

static void take_item(struct logfile *l, struct sensor_env *env, struct sensor_out *out,
                      const struct follow_item *item, const struct logfilter_sink *sink)
{
    if (item->kind == FOLLOW_GAP) {
        flush(l, out, sink); /* what comes next does not belong to it */
        send_gap(l, out, item);
        return;
    }
    switch (logfilter_line(l->lines, item->line, item->is_cut, out->time_ns, sink)) {
    case LOGFILTER_DONE:
        strbuf_reset(&l->safe);
        break;
    case LOGFILTER_STARTED:
        add_position(l, FOLLOW_BEFORE, &l->safe);
        l->held_ns = env->mono_ns();
        break;
    case LOGFILTER_HELD:
        l->held_ns = env->mono_ns();
        break;
    }
}

static int logfile_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct logfile *l = state;
    struct logfilter_sink sink = {on_event, out};
    struct follow_item item;
    uint64_t began = follow_stats(l->follow)->bytes, marked = began;
    uint64_t gaps = follow_stats(l->follow)->gaps;
    int r = 0;
    l->was_woken = !out->is_due && !l->has_more;
    l->has_more = false;
    follow_begin(l->follow, env->mono_ns(), env->utc_ns());
    while (!l->has_more && (r = follow_next(l->follow, &item, out->why)) == 0) {
        take_item(l, env, out, &item, &sink);
        uint64_t bytes = follow_stats(l->follow)->bytes;
        if (bytes - marked >= BATCH_BYTES) {
            mark(l, out);
            marked = bytes;
        }
        l->has_more = bytes - began >= CALL_BYTES;
    }
    bool was_held = l->safe.n > 0;
    if (was_held && env->mono_ns() - l->held_ns >= logfilter_wait_ns(l->lines))
        flush(l, out, &sink);
    bool has_moved = follow_stats(l->follow)->bytes != marked || follow_stats(l->follow)->gaps != gaps;
    if (has_moved || !l->is_started || (was_held && l->safe.n == 0))
        mark(l, out);
    l->is_started = true;
    if (out->is_due)
        send_reading(l, out);
    if (r == E_NODATA && follow_is_waiting(l->follow))
        return diag_set(out->why, E_NODATA, 0, "%.160s: no such file yet", l->path);
    return r == E_NODATA ? 0 : r;
}

const struct helper_ops helper_logfile = {
    .name = "logfile",
    .open = logfile_open,
    .sample = logfile_sample,
    .close = logfile_close,
    .wait_fd = logfile_wait_fd,
};
