/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/consumers.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/access_verb.h"
#include "gateway/archive_verbs.h"
#include "gateway/class_verbs.h"
#include "gateway/demand.h"
#include "gateway/directory_feed.h"
#include "gateway/directory_verbs.h"
#include "gateway/fault_verbs.h"
#include "gateway/http.h"
#include "gateway/subscription_verbs.h"
#include "gateway/tables.h"

#include <errno.h>
#include <inttypes.h>

struct consumers {
    struct consumers_options options;
    struct subscriptions *subscriptions;
    struct demand *demand; /* NULL: not yet, or no longer */
    struct latest *latest;
    struct fault_verbs *fault_verbs;
    struct summary *summary;
    bool has_left_out; /* it has been said that summaries are full */
    struct directory_feed *directory;
    struct directory_verbs *directory_verbs;
    struct class_verbs *class_verbs;
    struct ldap_directory *ldap; /* NULL = none */
    struct http *http;           /* NULL = none */
    struct tables *tables;       /* for SQL */
    struct event *query;         /* queries have something to tell; NULL = there is no archive */
};

/* ---------------------------------------------------------------- demand */

static void on_demand(void *arg)
{
    struct consumers *c = arg;
    ingest_set_watched(c->options.ingest, subscriptions_count(c->subscriptions) > 0);
    if (c->demand)
        demand_changed(c->demand);
}

static void on_registered(void *arg, struct worker *w)
{
    struct consumers *c = arg;
    if (c->demand)
        demand_registered(c->demand, w);
}

static int send_demand(void *arg, struct worker *w, const struct frame_demand *d)
{
    return sessions_demand(((struct consumers *)arg)->options.sessions, w, d);
}

static int open_demand(struct consumers *c, struct diag *why)
{
    const struct demand_options options = {.base = c->options.base,
                                           .workers = c->options.workers,
                                           .subscriptions = c->subscriptions,
                                           .standing = c->options.demand,
                                           .send = send_demand,
                                           .arg = c};
    c->demand = demand_create(&options);
    c->options.sessions->registered = on_registered;
    c->options.sessions->registered_arg = c;
    return c->demand ? 0 : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
}

/* ---------------------------------------------------------------- all of it */

static int open_subscriptions(struct consumers *c, struct diag *why)
{
    const struct subscriptions_options options = {.base = c->options.base,
                                                  .journal = c->options.journal,
                                                  .refill = c->options.refill,
                                                  .settled = c->options.last_record,
                                                  .cursors = c->options.cursors,
                                                  .classes = c->options.classes,
                                                  .hold_max = c->options.hold_max,
                                                  .on_demand = on_demand,
                                                  .arg = c};
    c->subscriptions = subscriptions_create(&options);
    c->options.sessions->subscriptions = c->subscriptions;
    int r = c->subscriptions ? subscription_verbs_add(c->options.control, c->subscriptions) : -ENOMEM;
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

static int open_latest(struct consumers *c, struct diag *why)
{
    c->latest = latest_create(c->options.latest);
    int r = c->latest ? latest_add_verbs(c->latest, c->options.control) : -ENOMEM;
    if (r == 0)
        r = fault_verbs_create(c->options.control, c->latest, c->options.own, &c->fault_verbs);
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

static int open_summary(struct consumers *c, struct diag *why)
{
    int r = summary_create(c->options.summary, &c->summary, why);
    if (r < 0)
        return r;
    r = summary_add_verbs(c->summary, c->options.control);
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

static int open_directory(struct consumers *c, struct diag *why)
{
    const struct directory_feed_options options = {.domain = c->options.domain,
                                                   .expect = c->options.expect,
                                                   .keep_ns = c->options.directory_keep_ns,
                                                   .workers = c->options.workers,
                                                   .sessions = c->options.sessions,
                                                   .own = c->options.own};
    int r = directory_feed_create(&options, &c->directory, why);
    if (r < 0)
        return r;
    struct directory *d = directory_feed_directory(c->directory);
    control_set_directory(c->options.control, d);
    r = directory_verbs_create(c->options.control, d, c->subscriptions, &c->directory_verbs);
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

static int open_ldap(struct consumers *c, struct diag *why)
{
    const struct ldap_directory_options *o = c->options.ldap;
    bool is_wanted = o && o->mirror.uri && *o->mirror.uri;
    return is_wanted ? ldap_directory_create(directory_feed_directory(c->directory), o, &c->ldap, why) : 0;
}

static int open_access(struct consumers *c, struct diag *why)
{
    int r = access_verb_add(c->options.control, c->options.access);
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

static void on_query(evutil_socket_t fd, short what, void *arg)
{
    const struct query_ops *ops = arg;
    (void)fd, (void)what; /* it is readable */
    ops->turn(ops->arg);
}

static int open_query(struct consumers *c, struct diag *why)
{
    const struct query_ops *ops = c->options.query;
    c->tables = tables_create(c->options.control);
    c->options.sessions->query = ops;
    if (ops)
        c->query = event_new(c->options.base, ops->fd(ops->arg), EV_READ | EV_PERSIST, on_query,
                             (void *)(uintptr_t)ops);
    bool is_good = c->tables && (!ops || (c->query && event_add(c->query, NULL) == 0));
    return is_good ? 0 : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
}

static int open_archive(struct consumers *c, struct diag *why)
{
    int r = c->options.archive ? archive_verbs_add(c->options.control, c->options.archive) : 0;
    if (r == 0)
        r = class_verbs_create(c->options.control, c->options.classes, c->options.class_settings, &c->class_verbs);
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

static int open_http(struct consumers *c, struct diag *why)
{
    const struct consumers_options *o = &c->options;
    const struct http_options options = {.base = o->base,
                                         .address = o->http,
                                         .names = o->http_names,
                                         .identity = o->identity,
                                         .token_file = o->http_token,
                                         .sessions_file = o->http_sessions,
                                         .is_insecure = o->is_insecure,
                                         .has_log = o->http_log,
                                         .control = o->control,
                                         .ingest = o->ingest,
                                         .sessions = o->sessions,
                                         .subscriptions = c->subscriptions,
                                         .query = o->query,
                                         .ledger = o->ledger,
                                         .access = o->access,
                                         .assets = o->assets,
                                         .version = o->version,
                                         .rule_test = o->rule_test};
    return o->http && *o->http ? http_create(&options, &c->http, why) : 0;
}

int consumers_create(const struct consumers_options *o, struct consumers **out, struct diag *why)
{
    struct consumers *c = mem_try_alloc(sizeof *c);
    if (!c)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    c->options = *o;
    static int (*const parts[])(struct consumers * c, struct diag * why) = {
        open_subscriptions, /* first: others ask it */
        open_demand,        open_directory, open_latest,
        open_summary,       open_access,    open_ldap, /* behind the directory */
        open_query,         open_archive,   open_http,
    };
    int r = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && r == 0; i++)
        r = parts[i](c, why);
    if (r < 0) {
        consumers_destroy(c);
        return r;
    }
    *out = c;
    return 0;
}

void consumers_shut_down(struct consumers *c)
{
    if (c->http)
        http_shut_down(c->http);
    ldap_directory_stop(c->ldap);
}

void consumers_destroy(struct consumers *c)
{
    if (!c)
        return;
    http_destroy(c->http);
    if (c->query)
        event_free(c->query);
    if (c->options.query)
        c->options.query->settle(c->options.query->arg); /* who asked is gone; what they may see may go */
    tables_destroy(c->tables);
    summary_destroy(c->summary);
    fault_verbs_destroy(c->fault_verbs);
    latest_destroy(c->latest);
    demand_destroy(c->demand);
    c->demand = NULL;
    class_verbs_destroy(c->class_verbs);
    directory_verbs_destroy(c->directory_verbs);
    directory_feed_destroy(c->directory);
    ldap_directory_destroy(c->ldap);
    subscriptions_destroy(c->subscriptions);
    mem_free(c);
}

void consumers_batch(struct consumers *c, const struct batch *b, struct position at)
{
    int64_t now_ns = clock_utc_ns();
    subscriptions_batch(c->subscriptions, b, at);
    latest_batch(c->latest, b, now_ns);
    summary_batch(c->summary, b, now_ns);
    directory_feed_batch(c->directory, b);
}

void consumers_flush(struct consumers *c, uint64_t last_record)
{
    subscriptions_flush(c->subscriptions, last_record);
}

/* Once: the count goes on in `status`. */
static void tell_left_out(struct consumers *c)
{
    struct summary_counts n;
    summary_counts(c->summary, &n);
    if (n.left_out && !c->has_left_out)
        log_error("summaries are full with %" PRIu64 " streams: others are left out; summary.streams, "
                  "summary.memory and summary.events say which are kept",
                  n.streams);
    c->has_left_out = n.left_out > 0;
}

void consumers_tick(struct consumers *c, int64_t now_ns)
{
    subscriptions_tick(c->subscriptions, now_ns);
    tell_left_out(c);
    class_verbs_tick(c->class_verbs);
    directory_feed_tick(c->directory, now_ns);
    if (c->options.archive) {
        struct archived_state state;
        c->options.archive->state(c->options.archive->arg, &state);
        directory_feed_archive(c->directory, &state);
    }
    ldap_directory_tick(c->ldap, now_ns);
}

void consumers_worker(struct consumers *c, struct worker *w, enum worker_state before)
{
    (void)before;
    directory_feed_worker(c->directory, w);
}

static void add_count(void *to, const char *name, uint64_t n)
{
    args_add_uint(to, name, n);
}

void consumers_status(const struct consumers *c, struct args_writer *out)
{
    struct latest_counts l;
    struct summary_counts s;
    struct demand_counts d;
    demand_counts(c->demand, &d);
    args_add_uint(out, "demand.sent", d.sent);
    args_add_uint(out, "demand.coarse", d.coarse);
    latest_counts(c->latest, &l);
    summary_counts(c->summary, &s);
    args_add_uint(out, "latest.streams", l.streams);
    args_add_uint(out, "latest.bytes", l.bytes);
    args_add_uint(out, "latest.taken", l.taken);
    args_add_uint(out, "latest.older", l.older);
    args_add_uint(out, "latest.no_memory", l.no_memory);
    args_add_uint(out, "latest.forgotten", l.forgotten);
    args_add_uint(out, "summary.streams", s.streams);
    args_add_uint(out, "summary.bytes", s.bytes);
    args_add_uint(out, "summary.taken", s.taken);
    args_add_uint(out, "summary.left_out", s.left_out);
    args_add_uint(out, "summary.late", s.late);
    args_add_uint(out, "summary.ahead", s.ahead);
    args_add_uint(out, "summary.forgotten", s.forgotten);
    if (c->options.query)
        c->options.query->counts(c->options.query->arg, add_count, out);
    directory_feed_status(c->directory, out);
    ldap_directory_status(c->ldap, out);
}

struct subscriptions *consumers_subscriptions(struct consumers *c)
{
    return c->subscriptions;
}

const struct table_ops *consumers_tables(const struct consumers *c, size_t *n)
{
    return tables_ops(c->tables, n);
}

const char *consumers_http(const struct consumers *c)
{
    return c->http ? http_address(c->http) : NULL;
}
