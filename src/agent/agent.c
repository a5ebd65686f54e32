/* SPDX-License-Identifier: Apache-2.0 */
/* One timer wakes the loop for whatever is next: sensors that are due, the connection's retries, the port
 * monitor's look, the budget's window. Everything that is due then is done in one go. */
#include "agent/agent.h"

#include "agent/announce.h"
#include "agent/budget.h"
#include "agent/control.h"
#include "agent/flow.h"
#include "agent/jobs.h"
#include "agent/manager.h"
#include "agent/only.h"
#include "agent/portmon.h"
#include "agent/properties.h"
#include "agent/remote_config.h"
#include "agent/timekeeper.h"
#include "agent/trim.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/child.h"
#include "base/ready.h"
#include "base/strays.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

enum { DRAIN_MS = 2000, SIGNALS = 3, WHYS = 16 };

struct agent {
    const struct agent_options *options; /* borrowed */
    struct agent_config *config;
    char host[256];
    struct event_base *base;
    struct event *wake, *signals[SIGNALS];
    struct event *link; /* the gateway's connection */
    int link_fd;
    short link_events;
    uint32_t link_dials; /* another socket may have the same number */
    uint64_t told[WHYS]; /* hashes of why there was no connection, since there was one */
    size_t n_told;
    int64_t pump_at_ns; /* when the connection wants to be moved along */

    struct sensor_env env;
    struct sensor_self self;
    struct only *only;
    struct flow *flow;
    struct jobs *jobs;
    struct flow_sinks sinks;
    struct timekeeper *timekeeper;
    struct manager *manager;
    struct announce *announce;
    struct portmon *portmon; /* NULL: no sensor waits for a port */
    struct event *packets;   /* its packet socket; NULL = it has none */
    struct budget budget;
    struct remote_config *remote; /* NULL: no URL */
    bool is_remote;               /* the sensors are those of the URL's document: */
    bool document_is_signed;
    struct strbuf document, document_name;
    bool is_trimmed;

    struct settings settings; /* of gateways: the last layer of the configuration */
    struct strbuf demand;     /* what the gateway's consumers ask for: requests (net/demand.h) */
    struct control *control;
    const struct secure_ops *secure; /* NULL: no address needs TLS */
    struct secure *identity;
    bool has_news;     /* events of what came from the gateway: their round is to be ended */
    bool is_over;      /* a guest whose lease is: nothing waits for the gateway any more */
    bool made_run_dir; /* by a guest: it goes, too */
};

/* ---------------------------------------------------------------- what `self` tells */

static uint64_t sum_dropped(const struct uplink_counts *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < DROP_REASONS; i++)
        n += c->dropped[i];
    return n;
}

static void self_counts(void *arg, struct self_counts *out)
{
    struct agent *a = arg;
    struct manager_stats ms;
    manager_stats(a->manager, &ms);
    *out = (struct self_counts){.streams = ms.streams, .sensors = ms.running, .slowed = ms.slowed};
    out->events_dropped =
        flow_refused(a->flow) + (a->sinks.upstream ? 0 : ms.refused_rows); /* else a sample's */
    if (a->sinks.outputs)
        outputs_counts(a->sinks.outputs, &out->output_passed, &out->output_dropped);
    if (a->portmon) {
        struct portmon_cost pc = portmon_cost(a->portmon);
        out->port_looks = pc.looks;
        out->port_ns = pc.ns;
    }
    if (a->sinks.local) {
        struct local_counts lc;
        local_counts(a->sinks.local, &lc);
        out->consumers = lc.consumers;
        out->local_passed = lc.passed;
        out->local_dropped = lc.dropped;
    }
    if (a->sinks.upstream) {
        struct upstream_counts uc;
        upstream_counts(a->sinks.upstream, &uc);
        out->samples_taken = uc.samples.given;
        out->samples_passed = uc.samples.passed;
        out->samples_dropped = sum_dropped(&uc.samples);
        out->events_taken = uc.events.given;
        out->events_passed = uc.events.passed;
        out->events_queued = uc.events.queued;
        out->events_dropped += sum_dropped(&uc.events);
        out->bytes_sent = uc.bytes_sent;
        out->bytes_received = uc.bytes_received;
    }
}

static void self_each(void *arg, void (*fn)(void *fn_arg, const struct self_cost *cost), void *fn_arg)
{
    struct agent *a = arg;
    manager_each(a->manager, fn, fn_arg);
}

/* ---------------------------------------------------------------- the loop */

static void on_link(evutil_socket_t fd, short what, void *arg);

/* Follows the connection's descriptor and what it waits for. */
static void watch_link(struct agent *a)
{
    short wanted = 0, events = EV_PERSIST;
    int fd = upstream_wait_fd(a->sinks.upstream, &wanted);
    events = (short)(events | (wanted & POLLIN ? EV_READ : 0) | (wanted & POLLOUT ? EV_WRITE : 0));
    uint32_t dials = upstream_dials(a->sinks.upstream);
    if (fd == a->link_fd && events == a->link_events && dials == a->link_dials)
        return;
    a->link_dials = dials;
    if (a->link)
        event_free(a->link);
    a->link = fd >= 0 ? event_new(a->base, fd, events, on_link, a) : NULL;
    if (a->link && event_add(a->link, NULL) < 0) {
        event_free(a->link);
        a->link = NULL;
    }
    a->link_fd = a->link ? fd : -1;
    a->link_events = events;
}

/* Why there is no connection, each reason once until there is one: addresses take turns. */
static void tell_why(struct agent *a)
{
    const char *why = upstream_why(a->sinks.upstream);
    uint64_t hash = hash_bytes(slice_str(why));
    if (upstream_is_up(a->sinks.upstream))
        a->n_told = 0;
    if (upstream_is_up(a->sinks.upstream) || !why[0] || a->n_told == WHYS)
        return;
    for (size_t i = 0; i < a->n_told; i++)
        if (a->told[i] == hash)
            return;
    a->told[a->n_told++] = hash;
    log_info("no gateway yet: %s", why);
}

static void pump(struct agent *a, int64_t now_ns)
{
    if (!a->sinks.upstream)
        return;
    int ms = upstream_pump(a->sinks.upstream, now_ns);
    announce_look(a->announce, a->sinks.upstream);
    tell_why(a);
    a->pump_at_ns = ms < 0 ? INT64_MAX : now_ns + (int64_t)ms * 1000000;
    watch_link(a);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void arm(struct agent *a)
{
    int64_t now = clock_mono_ns();
    int64_t next = earlier(manager_next_ns(a->manager), earlier(a->pump_at_ns, budget_next_ns(&a->budget)));
    next = earlier(next, timekeeper_next_ns(a->timekeeper));
    if (a->portmon)
        next = earlier(next, portmon_next_ns(a->portmon));
    if (a->remote)
        next = earlier(next, remote_config_next_ns(a->remote));
    next = earlier(next, control_next_ns(a->control));
    int64_t wait = next > now ? next - now : 0;
    const struct timeval t = {wait / NS_PER_S, wait % NS_PER_S / 1000};
    (void)evtimer_add(a->wake, &t); /* it is allocated already */
}

/* After the connection was moved along: it may have brought the gateway's time, or something to tell. */
static void keep_time(struct agent *a)
{
    if (!timekeeper_look(a->timekeeper) && !a->has_news)
        return;
    a->has_news = false;
    flow_end(a->flow);
    if (a->sinks.upstream)
        a->pump_at_ns = 0; /* what was told goes out at once */
}

static void on_link(evutil_socket_t fd, short what, void *arg)
{
    struct agent *a = arg;
    (void)fd, (void)what; /* pump looks itself */
    pump(a, clock_mono_ns());
    keep_time(a);
    arm(a);
}

/* ---------------------------------------------------------------- ports, requests, budget */

static bool port_is_active(void *arg, uint16_t port, int64_t hold_ns)
{
    struct agent *a = arg;
    /* The manager may ask about a sensor that has just got its ports, before set_ports. */
    return a->portmon && portmon_is_active(a->portmon, port, clock_mono_ns(), hold_ns);
}

/* Subscriptions on this host name no period. */
static int64_t asked_period(void *arg, const char *event, int64_t own_ns)
{
    struct agent *a = arg;
    int64_t local_ns = a->sinks.local && local_asks(a->sinks.local, event) ? own_ns : 0;
    int64_t gateway_ns = demand_period_ns(strbuf_slice(&a->demand), slice_str(event), own_ns);
    return gateway_ns && (!local_ns || gateway_ns < local_ns) ? gateway_ns : local_ns;
}

/* Starting and stopping is told: its round is ended with what else there is to tell. */
static void look_at_requests(struct agent *a)
{
    manager_set_requests(a->manager, asked_period, a);
    a->has_news = true;
}

static void on_requests(void *arg)
{
    struct agent *a = arg;
    look_at_requests(a);
    keep_time(a);
    arm(a);
}

static void on_packets(evutil_socket_t fd, short what, void *arg);

static void stop_portmon(struct agent *a)
{
    if (a->packets)
        event_free(a->packets);
    a->packets = NULL;
    portmon_destroy(a->portmon);
    a->portmon = NULL;
}

/* The packet socket may be another one, or none, after every call. */
static void watch_packets(struct agent *a)
{
    int fd = portmon_wait_fd(a->portmon);
    if (a->packets && event_get_fd(a->packets) == fd)
        return;
    if (a->packets)
        event_free(a->packets);
    a->packets = fd >= 0 ? event_new(a->base, fd, EV_READ | EV_PERSIST, on_packets, a) : NULL;
    if (a->packets)
        (void)event_add(a->packets, NULL); /* without it the next look finds the traffic */
}

static void on_packets(evutil_socket_t fd, short what, void *arg)
{
    struct agent *a = arg;
    (void)fd, (void)what; /* readable */
    portmon_read(a->portmon, clock_mono_ns());
    watch_packets(a);
    manager_set_ports(a->manager, port_is_active, a);
    arm(a);
}

static void set_ports(struct agent *a)
{
    uint16_t ports[PORTMON_PORTS_MAX];
    size_t n = manager_ports(a->manager, ports, PORTMON_PORTS_MAX);
    if (n == 0) {
        stop_portmon(a);
        return;
    }
    bool is_new = !a->portmon;
    if (is_new)
        a->portmon = portmon_create();
    int r = portmon_set(a->portmon, ports, n);
    if (r < 0)
        log_error("port monitor: %s", err_text(r));
    if (is_new && portmon_why(a->portmon)[0])
        log_info("port monitor: %s", portmon_why(a->portmon));
    watch_packets(a);
}

static void look_at_ports(struct agent *a, int64_t now_ns)
{
    if (!a->portmon || portmon_next_ns(a->portmon) > now_ns)
        return;
    portmon_look(a->portmon, now_ns);
    watch_packets(a);
    manager_set_ports(a->manager, port_is_active, a);
}

static void keep_budget(struct agent *a, int64_t now_ns)
{
    char why[160];
    const char *name;
    if (budget_next_ns(&a->budget) > now_ns)
        return;
    if (!a->is_trimmed)
        trim_after_start();
    a->is_trimmed = true;
    enum budget_verdict v = budget_judge(&a->budget, now_ns, budget_own_cpu_ns(), budget_own_memory());
    if (v == BUDGET_KEEP)
        return;
    (void)snprintf(why, sizeof why, "used %.2f%% of a core (budget %.2f%%) and %.1f MiB (budget %.1f)",
                   a->budget.cpu * 100, a->budget.cpu_max * 100, (double)a->budget.memory / 1048576,
                   (double)a->budget.memory_max / 1048576);
    name = v == BUDGET_SLOW ? manager_slow_one(a->manager) : manager_hasten_one(a->manager);
    if (name) {
        log_info("sensor %s runs %s often: %s", name, v == BUDGET_SLOW ? "half as" : "twice as", why);
        flow_sensor_state(a->flow, v == BUDGET_SLOW ? LEVEL_WARNING : LEVEL_NOTICE, name,
                          v == BUDGET_SLOW ? "slowed" : "hastened", why);
    } else if (v == BUDGET_SLOW) {
        log_error("over the budget with every sensor slowed as far as it goes: %s", why);
        flow_agent_state(a->flow, LEVEL_WARNING, "over-budget", why);
    }
    flow_end(a->flow);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct agent *a = arg;
    (void)fd, (void)what; /* the timer */
    int64_t now = clock_mono_ns();
    (void)child_settle(0); /* programs of sensors that have gone */
    look_at_ports(a, now);
    (void)timekeeper_look(a->timekeeper); /* what it tells leaves with the round */
    manager_run(a->manager, now);
    keep_budget(a, now);
    if (a->remote)
        remote_config_pump(a->remote, now);
    if (control_next_ns(a->control) <= now)
        control_look(a->control, now);
    pump(a, clock_mono_ns());
    keep_time(a);
    arm(a);
}

/* ---------------------------------------------------------------- configuration */

/* Takes config; the old one goes when nobody points to it any more. */
static void apply(struct agent *a, struct agent_config *config, const char *from)
{
    struct agent_config *old = a->config;
    a->config = config;
    manager_configure(a->manager, config);
    set_ports(a);
    a->budget.cpu_max = config->budget_cpu;
    a->budget.memory_max = config->budget_memory;
    if (old) {
        if (strcmp(old->gateways, config->gateways) != 0 || strcmp(old->socket, config->socket) != 0)
            log_error("gateways and socket change with the next start only");
        log_info("configuration from %s: %zu sensors", from, config->n_sensors);
        flow_agent_state(a->flow, LEVEL_NOTICE, "reloaded", from);
        flow_end(a->flow);
    }
    config_destroy(old);
}

static void refuse(struct agent *a, const char *from, const char *why)
{
    log_error("the configuration stays as it was: %s: %s", from, why);
    flow_agent_state(a->flow, LEVEL_ERROR, "refused", why);
    flow_end(a->flow);
}

/* What is in force but for s: files or document, environment, flags. */
static int load_config(void *arg, const struct settings *s, struct agent_config **out, struct diag *why)
{
    struct agent *a = arg;
    struct slice document = strbuf_slice(&a->document);
    struct config_layers layers = {
        .flags = &a->options->config, .assigned = (const char *const *)s->v, .n_assigned = s->n};
    if (a->is_remote) {
        layers.document = &document;
        layers.name = a->document_name.p;
        layers.is_signed = a->document_is_signed;
    }
    return config_load_layers(&layers, out, why);
}

/* Another configuration of this host's. Settings of gateways that it leaves no place for are dropped: the
 * host's owner comes first. */
static void reload_from(struct agent *a, const char *from)
{
    static const struct settings none;
    struct agent_config *config;
    struct diag why = {0}, unused = {0};
    int r = load_config(a, &a->settings, &config, &why);
    if (r < 0 && a->settings.n && load_config(a, &none, &config, &unused) == 0) {
        log_error("what the gateway set does not fit the configuration any more: %s", why.message);
        flow_agent_state(a->flow, LEVEL_WARNING, "settings-dropped", why.message);
        settings_fini(&a->settings);
        r = 0;
    }
    if (r < 0)
        refuse(a, from, why.message);
    else
        apply(a, config, from);
}

/* The document that is in force, or was; kept if it is good. */
static void on_document(void *arg, const struct remote_document *d)
{
    struct agent *a = arg;
    struct agent_config *config;
    struct diag why = {0};
    if (d->error) {
        refuse(a, d->url, d->why);
    } else if (config_load_remote(&a->options->config, d->text, d->url, d->is_signed, &config, &why) < 0) {
        refuse(a, d->url, why.message);
    } else {
        config_destroy(config);
        a->is_remote = true;
        a->document_is_signed = d->is_signed;
        strbuf_reset(&a->document);
        strbuf_add_slice(&a->document, d->text);
        strbuf_reset(&a->document_name);
        strbuf_add_str(&a->document_name, d->url);
        reload_from(a, d->url);
    }
    arm(a);
}

static void reload(struct agent *a)
{
    if (a->sinks.outputs)
        outputs_reopen(a->sinks.outputs);
    if (a->is_remote) /* the document's sensors stay until the URL says otherwise; ask now */
        remote_config_ask(a->remote);
    else
        reload_from(a, "reload");
}

static void on_signal(evutil_socket_t signal_number, short what, void *arg)
{
    struct agent *a = arg;
    (void)what; /* a signal */
    if (signal_number == SIGHUP) {
        reload(a);
        arm(a);
        return;
    }
    (void)event_base_loopbreak(a->base); /* fails only for a base that is none */
}

static void on_replaced(void *arg)
{
    struct agent *a = arg;
    log_info("a resident agent has come: this guest leaves to it");
    (void)event_base_loopbreak(a->base);
}

/* A job of this host: told at once. */
static bool on_job(void *arg, const struct launch_request *r)
{
    struct agent *a = arg;
    if (!jobs_take(a->jobs, r, clock_mono_ns()))
        return false;
    a->has_news = true;
    keep_time(a);
    arm(a);
    return true;
}

/* ---------------------------------------------------------------- making it */

static void on_mark(void *arg, struct slice name, struct slice position)
{
    struct agent *a = arg;
    manager_set_position(a->manager, name, position);
}

static void on_link_state(void *arg, bool is_up, const char *address)
{
    struct agent *a = arg;
    log_info("gateway %s: %s", address, is_up ? "connected" : "connection lost");
    if (is_up) {
        timekeeper_set_gateway(a->timekeeper, address);
        manager_renew(a->manager);
    } else {
        control_forget(a->control);
    }
}

static void on_exchange(void *arg, const struct timesync_exchange *x)
{
    struct agent *a = arg;
    timekeeper_exchange(a->timekeeper, x);
}

static struct batch_clock round_clock(void *arg)
{
    struct agent *a = arg;
    return flow_clock(a->flow);
}

static void describe(void *arg, struct args_writer *properties, struct args_writer *settings)
{
    struct agent *a = arg;
    properties_add(&a->env, properties);
    if (a->config)
        properties_propose(a->config, args_of(properties), settings);
}

/* What a resident wants only if somebody configured it. */
static uint32_t wanted_lease_ms(const struct agent_config *c)
{
    bool is_wanted = c->is_guest;
    for (size_t i = 0; i < c->n_given; i++)
        is_wanted |= strcmp(c->given[i].setting.name, "lease") == 0;
    return is_wanted ? (uint32_t)(c->lease_ns / 1000000) : 0;
}

static void on_lease(void *arg, uint32_t worker, const char *address, uint32_t lease_ms)
{
    const struct agent *a = arg;
    uint32_t wanted_ms = wanted_lease_ms(a->config);
    log_info("gateway %s: worker %u", address, (unsigned)worker);
    if (wanted_ms && wanted_ms != lease_ms)
        log_info("gateway %s: lease: asked for %u ms, given %u ms: the gateway, or its operator, says so",
                 address, (unsigned)wanted_ms, (unsigned)lease_ms);
}

static void on_refused(void *arg, const char *address, bool is_denied, struct slice why)
{
    struct agent *a = arg;
    struct strbuf text = {0};
    strbuf_printf(&text, "%s: %s: %.*s", address, is_denied ? "lease denied" : "no lease", SLICE_ARG(why));
    log_error("gateway %s", strbuf_failed(&text) ? "" : text.p);
    flow_agent_state(a->flow, LEVEL_WARNING, "not-registered", text.p);
    a->has_news = true;
    strbuf_fini(&text);
}

static void on_bad_setting(void *arg, struct slice key, const char *why)
{
    struct agent *a = arg;
    struct strbuf text = {0};
    strbuf_printf(&text, "%.*s: %s", SLICE_ARG(key), why);
    log_error("a setting of the gateway's is not used: %s", strbuf_failed(&text) ? "" : text.p);
    flow_agent_state(a->flow, LEVEL_ERROR, "setting-refused", text.p);
    a->has_news = true;
    strbuf_fini(&text);
}

static void on_settings(void *arg, struct args settings)
{
    struct agent *a = arg;
    control_assign(a->control, settings, on_bad_setting, a);
}

static void on_control(void *arg, const struct frame_control *question)
{
    struct agent *a = arg;
    struct slice verb = log_safe(question->verb);
    log_info("the gateway asks: %.*s", SLICE_ARG(verb));
    control_ask(a->control, question);
    a->has_news = true;
}

static void on_demand(void *arg, const struct frame_demand *d)
{
    struct agent *a = arg;
    strbuf_reset(&a->demand);
    strbuf_add_slice(&a->demand, d->list);
    if (strbuf_failed(&a->demand)) {
        strbuf_reset(&a->demand);
        log_error("what the gateway asks of sensors on request is not heeded: no memory");
    }
    look_at_requests(a);
}

static void on_way(void *arg, enum upstream_way way, const char *why)
{
    struct agent *a = arg;
    const char *name = way == WAY_DATAGRAMS ? "datagrams" : "stream";
    log_info("samples go by %s: %s", name, why);
    flow_samples_way(a->flow, name, why);
    a->has_news = true;
}

static void on_certificate(void *arg, bool is_renewed, struct slice why)
{
    struct agent *a = arg;
    char text[200];
    (void)snprintf(text, sizeof text, "%.*s", SLICE_ARG(why)); /* cut to fit is fine for a message */
    if (is_renewed)
        log_info("the certificate was renewed");
    else
        log_error("the certificate could not be renewed: %s", text);
    flow_agent_state(a->flow, is_renewed ? LEVEL_INFO : LEVEL_WARNING,
                     is_renewed ? "certificate-renewed" : "certificate-not-renewed", text);
    a->has_news = true;
}

static void on_over(void *arg, const char *why)
{
    struct agent *a = arg;
    log_info("this guest ends: %s", why);
    a->is_over = true;
    (void)event_base_loopbreak(a->base);
}

static const struct upstream_ops upstream_ops = {.on_mark = on_mark,
                                                 .on_state = on_link_state,
                                                 .describe = describe,
                                                 .on_lease = on_lease,
                                                 .on_refused = on_refused,
                                                 .on_settings = on_settings,
                                                 .on_exchange = on_exchange,
                                                 .on_control = on_control,
                                                 .on_demand = on_demand,
                                                 .on_way = on_way,
                                                 .on_certificate = on_certificate,
                                                 .on_over = on_over,
                                                 .clock = round_clock};

/* ---------------------------------------------------------------- control */

static void apply_settings(void *arg, struct agent_config *config, struct settings *s)
{
    struct agent *a = arg;
    settings_fini(&a->settings);
    a->settings = *s;
    apply(a, config, "the gateway");
    arm(a);
}

static void suspend(void *arg, bool is_suspended)
{
    struct agent *a = arg;
    manager_suspend(a->manager, is_suspended);
    log_info("%s by the gateway", is_suspended ? "suspended" : "resumed");
    flow_agent_state(a->flow, LEVEL_NOTICE, is_suspended ? "suspended" : "resumed", "the gateway");
    arm(a);
}

static void end_by_order(void *arg)
{
    struct agent *a = arg;
    log_info("ends by order of the gateway");
    flow_agent_state(a->flow, LEVEL_NOTICE, "killed", "the gateway");
    (void)event_base_loopbreak(a->base);
}

static int make_run_dir(void *arg, struct diag *why)
{
    struct agent *a = arg;
    a->made_run_dir |= a->config->is_guest && access(a->config->run_dir, F_OK) < 0;
    return directory_make_own(a->config->run_dir, why);
}

static int send_answer(void *arg, const struct frame_answer *answer)
{
    struct agent *a = arg;
    return upstream_answer(a->sinks.upstream, answer);
}

static const struct control_ops control_ops = {.load = load_config,
                                               .apply = apply_settings,
                                               .suspend = suspend,
                                               .kill = end_by_order,
                                               .make_run_dir = make_run_dir,
                                               .answer = send_answer};

static int open_identity(struct agent *a, struct diag *why)
{
    if (!a->config->identity)
        return 0;
    a->secure = secure_load(why);
    if (!a->secure)
        return -ENOENT;
    return a->secure->open(a->config->identity, a->config->gateway_names, &a->identity, why);
}

static int make_upstream(struct agent *a, struct diag *why)
{
    const struct agent_config *c = a->config;
    struct strbuf spool = {0}, ring = {0};
    int r = 0;
    if (c->gateways[0] == '\0')
        return 0;
    if (c->state_dir) {
        r = directory_make(c->state_dir, why);
        strbuf_printf(&spool, "%s/spool", c->state_dir);
        if (c->spool_samples)
            strbuf_printf(&ring, "%s/samples", c->state_dir);
    }
    if (r == 0)
        r = open_identity(a, why);
    const struct upstream_options o = {.gateways = c->gateways,
                                       .host = a->host,
                                       .spool_dir = spool.p,
                                       .spool_max = c->spool_max,
                                       .queue_max = c->queue_max,
                                       .ring_dir = ring.p,
                                       .ring_max = c->samples_max,
                                       .keeps_order = !c->newest_first,
                                       .is_guest = c->is_guest,
                                       .lease_ms = wanted_lease_ms(c),
                                       .takes_insecure_control = c->takes_insecure_control,
                                       .secure = a->secure,
                                       .identity = a->identity,
                                       .ops = &upstream_ops,
                                       .arg = a};
    if (r == 0)
        r = upstream_create(&o, &a->sinks.upstream, why);
    strbuf_fini(&spool);
    strbuf_fini(&ring);
    return r;
}

static int make_local(struct agent *a, struct diag *why)
{
    if (a->config->socket[0] == '\0')
        return 0;
    int r = directory_make_own(a->config->run_dir, why);
    return r < 0 ? r : local_create(a->base, a->config->socket, on_requests, a, &a->sinks.local, why);
}

/* The page is for others: an agent that serves nobody here, or leaves nothing, has none. */
static int make_timekeeper(struct agent *a)
{
    struct strbuf page = {0};
    if (a->sinks.local && !a->config->is_guest)
        strbuf_printf(&page, "%s/clock", a->config->run_dir);
    a->timekeeper = timekeeper_create(a->flow, page.p, !a->config->has_global_time);
    strbuf_fini(&page);
    flow_set_clock(a->flow, a->timekeeper);
    return a->timekeeper ? 0 : -ENOMEM;
}

static int make_loop(struct agent *a)
{
    static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    a->base = event_base_new();
    a->wake = a->base ? evtimer_new(a->base, on_wake, a) : NULL;
    if (!a->wake)
        return -ENOMEM;
    for (size_t i = 0; i < SIGNALS; i++) {
        a->signals[i] = evsignal_new(a->base, numbers[i], on_signal, a);
        if (!a->signals[i] || event_add(a->signals[i], NULL) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int be_the_only_one(struct agent *a, struct diag *why)
{
    static const struct only_ops ops = {.on_replaced = on_replaced, .on_job = on_job};
    struct only_other other;
    /* Without a gateway it is the socket that there can be one of; without either, nothing. */
    const char *of = a->config->gateways[0] ? a->config->gateways : a->config->socket;
    if (of[0] == '\0')
        return 0;
    int r = only_take(a->base, of, a->config->is_guest, &ops, a, &a->only, &other, why);
    if (r != -EEXIST)
        return r;
    return diag_set(why, r, 0,
                    "%s agent runs on this host for %s already (process %d of user %u); this one leaves",
                    other.is_guest ? "a guest" : "an", of, (int)other.pid, (unsigned)other.uid);
}

/* What sensors start: all of it ends with us, and what a killed agent left ends now. */
static void own_processes(void)
{
    int r = strays_adopt();
    if (r < 0)
        log_info("orphans of programs can't be adopted, they are searched for: %s", err_text(r));
    size_t n = strays_of_the_dead();
    if (n)
        log_info("killed %zu processes that an agent that was killed had left", n);
}

static int make_parts(struct agent *a, struct diag *why)
{
    own_processes();
    a->self = (struct sensor_self){a, self_counts, self_each};
    env_init(&a->env, "");
    a->env.self = &a->self;
    a->flow = flow_create(a->host);
    a->jobs = a->flow ? jobs_create(a->flow) : NULL;
    a->manager = a->jobs ? manager_create(a->base, &a->env, a->flow) : NULL;
    if (!a->manager)
        return -ENOMEM;
    a->announce = announce_create(a->manager);
    a->control = control_create(a->manager, &a->settings, a->config->run_dir, &control_ops, a);
    int r = outputs_create(a->config->outputs, a->config->n_outputs, &a->sinks.outputs, why);
    if (r == 0)
        r = make_upstream(a, why);
    if (r == 0)
        r = make_local(a, why);
    if (r == 0)
        r = make_timekeeper(a);
    if (r < 0)
        return r;
    flow_set_sinks(a->flow, &a->sinks);
    budget_init(&a->budget, a->config->budget_cpu, a->config->budget_memory, clock_mono_ns(),
                budget_own_cpu_ns());
    if (a->config->config_url)
        r = remote_config_create(a->base, a->config, on_document, a, &a->remote, why);
    return r;
}

int agent_create(const struct agent_options *options, struct agent **out, struct diag *why)
{
    struct agent *a = mem_alloc(sizeof *a);
    *a = (struct agent){.options = options, .link_fd = -1, .pump_at_ns = INT64_MAX};
    int r = config_load(&options->config, &a->config, why);
    if (r == 0 && a->config->host)
        (void)snprintf(a->host, sizeof a->host, "%s",
                       a->config->host); /* longer ones are refused by config */
    else
        (void)gethostname(a->host, sizeof a->host - 1); /* stays empty */
    if (r == 0)
        r = make_loop(a);
    if (r == 0)
        r = be_the_only_one(a, why);
    if (r == 0)
        r = make_parts(a, why);
    if (r < 0) {
        agent_destroy(a);
        return r;
    }
    *out = a;
    return 0;
}

void agent_destroy(struct agent *a)
{
    if (!a)
        return;
    remote_config_destroy(a->remote);
    control_destroy(a->control);
    if (a->made_run_dir)
        (void)rmdir(a->config->run_dir); /* somebody else has put something there: it is theirs now */
    announce_destroy(a->announce);
    manager_destroy(a->manager);
    (void)child_settle(a->is_over ? 1 : CHILD_GRACE); /* nothing that we started outlives us; nor the lease */
    local_destroy(a->sinks.local);
    upstream_destroy(a->sinks.upstream);
    outputs_destroy(a->sinks.outputs);
    timekeeper_destroy(a->timekeeper);
    jobs_destroy(a->jobs);
    flow_destroy(a->flow);
    stop_portmon(a);
    env_fini(&a->env);
    only_release(a->only);
    if (a->link)
        event_free(a->link);
    for (size_t i = 0; i < SIGNALS; i++)
        if (a->signals[i])
            event_free(a->signals[i]);
    if (a->wake)
        event_free(a->wake);
    if (a->base)
        event_base_free(a->base);
    if (a->identity)
        a->secure->close(a->identity);
    settings_fini(&a->settings);
    strbuf_fini(&a->demand);
    strbuf_fini(&a->document);
    strbuf_fini(&a->document_name);
    config_destroy(a->config);
    mem_free(a);
}

/* What waits for its acknowledgement is given a moment; with a spool it is safe without. */
static void drain(struct agent *a)
{
    int64_t until = clock_mono_ns() + (int64_t)DRAIN_MS * 1000000;
    flow_agent_state(a->flow, LEVEL_NOTICE, "stopping", NULL);
    flow_end(a->flow);
    while (a->sinks.upstream && !a->is_over && upstream_is_up(a->sinks.upstream) &&
           !upstream_is_idle(a->sinks.upstream) && clock_mono_ns() < until) {
        struct pollfd p = {.events = 0};
        p.fd = upstream_wait_fd(a->sinks.upstream, &p.events);
        (void)poll(&p, 1, 20); /* the pump looks itself */
        (void)upstream_pump(a->sinks.upstream, clock_mono_ns());
    }
}

int agent_run(struct agent *a)
{
    struct agent_config *config = a->config;
    struct manager_stats ms;
    flow_agent_state(a->flow, LEVEL_NOTICE, "started", NULL);
    a->config = NULL; /* apply takes it */
    apply(a, config, "start");
    manager_stats(a->manager, &ms);
    log_info("%zu of %zu sensors run; gateway %s; socket %s", ms.running, ms.configured,
             config->gateways[0] ? config->gateways : "none", config->socket[0] ? config->socket : "none");
    pump(a, clock_mono_ns());
    arm(a);
    int r = ready_write(a->options->ready_file);
    if (r < 0)
        log_error("%s: %s", a->options->ready_file, err_text(r));
    r = event_base_dispatch(a->base) < 0 ? -EIO : 0;
    drain(a);
    return r;
}
