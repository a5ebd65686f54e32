/* SPDX-License-Identifier: Apache-2.0 */
/* Who is logged in, as numbers only: sessions and distinct users.
 *
 * From utmp where it is kept: records of struct utmp in glibc's layout, of which those of type USER_PROCESS are
 * sessions. A session whose process is gone left its record behind and does not count (who(1) does the same); on a
 * captured tree nobody can tell. The file is never empty on a host that keeps it, since the boot is its first record,
 * so an empty one is no data.
 *
 * Else from logind: a file a session in /run/systemd/sessions, lines NAME=VALUE. Sessions of class `user` count, not
 * those of greeters and managers. The folder is there even where logind does not run, so without a session it only
 * counts when logind has made its seat. */
#include "sensor/distinct.h"
#include "sensor/scan.h"
#include "sensor/sensor.h"

#include <errno.h>
#include <signal.h>
#include <utmp.h>

enum { SESSIONS_MAX = 65536 };

static const struct field users_fields[] = {
    FIELD("sessions", UINT, GAUGE, "", "sessions of users who are logged in"),
    FIELD("remote", UINT, GAUGE, "", "of those, from another host"),
    FIELD("users", UINT, GAUGE, "", "different users among them"),
};

static const struct sensor_schema users_schemas[] = {
    SCHEMA("users", users_fields),
    {0},
};

struct users {
    struct strbuf text;
    struct strbuf seen; /* users, see distinct.h */
    size_t sessions, remote;
};

static void add_session(struct users *u, struct slice user, bool is_remote)
{
    u->sessions++;
    u->remote += is_remote;
    if (u->sessions <= SESSIONS_MAX) /* else the sample fails */
        distinct_add(&u->seen, user);
}

static bool is_alive(const struct sensor_env *env, pid_t pid)
{
    return !env_is_live(env) || pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH;
}

static int from_utmp(struct users *u, struct sensor_env *env)
{
    int r = env_read_file(env, "/run/utmp", &u->text);
    if (r == E_NODATA)
        r = env_read_file(env, "/var/run/utmp", &u->text);
    if (r < 0)
        return r;
    struct utmp record;
    struct slice rest = strbuf_slice(&u->text);
    if (rest.n < sizeof record)
        return E_NODATA;
    for (; rest.n >= sizeof record; rest = slice_from(rest, sizeof record)) {
        memcpy(&record, rest.p, sizeof record);
        if (record.ut_type == USER_PROCESS && record.ut_user[0] && is_alive(env, record.ut_pid))
            add_session(u, slice_of(record.ut_user, strnlen(record.ut_user, sizeof record.ut_user)),
                        record.ut_host[0] && record.ut_host[0] != ':'); /* ":0" is an X display here */
    }
    return 0;
}

/* The value of NAME= in a file of logind's; empty when it is not there. */
static struct slice find_line(struct slice text, struct slice name)
{
    struct scan s = scan_of(text);
    struct slice line;
    while (scan_line(&s, &line))
        if (slice_starts(line, name) && (s.p < s.end || scan_is_whole(text)))
            return slice_from(line, name.n);
    return slice_of("", 0);
}

struct listing {
    struct users *users;
    struct sensor_env *env;
};

static int on_session(void *arg, const char *name)
{
    struct listing *l = arg;
    struct strbuf path = {0};
    if (slice_ends(slice_str(name), SLICE_LIT(".ref")))
        return 0; /* a pipe: open while the session lives */
    strbuf_printf(&path, "/run/systemd/sessions/%s", name);
    int r = strbuf_failed(&path) ? -ENOMEM : env_read_file(l->env, path.p, &l->users->text);
    strbuf_fini(&path);
    if (r < 0)
        return r == -ENOMEM ? r : 0; /* it ended between */
    struct slice text = strbuf_slice(&l->users->text), user = find_line(text, SLICE_LIT("UID="));
    if (user.n && slice_eq_str(find_line(text, SLICE_LIT("CLASS=")), "user"))
        add_session(l->users, user, slice_eq_str(find_line(text, SLICE_LIT("REMOTE=")), "1"));
    return 0;
}

static int from_logind(struct users *u, struct sensor_env *env)
{
    struct listing l = {u, env};
    int r = env_list(env, "/run/systemd/sessions", on_session, &l);
    if (r < 0 || u->sessions > 0)
        return r;
    return env_read_file(env, "/run/systemd/seats/seat0", &u->text) < 0 ? E_NODATA : 0;
}

static int users_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct users *u = state;
    u->sessions = u->remote = 0;
    strbuf_reset(&u->seen);
    int r = from_utmp(u, env);
    if (r < 0)
        r = from_logind(u, env);
    if (r < 0)
        return diag_set(out->why, r, 0, "neither utmp nor logind: %s", err_text(r));
    if (u->sessions > SESSIONS_MAX)
        return diag_set(out->why, E_LIMIT, 0, "more than %d sessions", SESSIONS_MAX);
    if (strbuf_failed(&u->seen))
        return -ENOMEM;
    const struct value row[] = {value_uint(u->sessions), value_uint(u->remote), value_uint(distinct_count(&u->seen))};
    sensor_row(out, 0, row);
    return 0;
}

static void users_close(void *state)
{
    struct users *u = state;
    strbuf_fini(&u->text);
    strbuf_fini(&u->seen);
}

const struct sensor_ops sensor_users = {
    .name = "users",
    .summary = "sessions and users that are logged in",
    .schemas = users_schemas,
    .every = "30s",
    .refresh = "10m",
    .priority = 7,
    .is_default = true,
    .state_size = sizeof(struct users),
    .sample = users_sample,
    .close = users_close,
};
