/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ldap_directory.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <unistd.h>

#define REFRESH_NS (600 * NS_PER_S)

struct ldap_directory {
    struct directory *d;
    struct ldap_mirror *mirror;
    int64_t refresh_ns;
    int64_t ticked_ns;  /* monotonic; 0 = not yet */
    uint64_t refreshed; /* the id that was refreshed last; 0 = it begins anew */
    double due;         /* entries to refresh, with what is left of one */
    bool is_stopped;
};

/* An entry whose lease is here is ours, whoever published it. One that is late may have gone over to another
 * gateway. */
static bool is_held(enum directory_state s)
{
    return s == DIRECTORY_LIVE;
}

/* The newest of its events and the sum of their rates. */
static void add_activity(const struct ldap_directory *l, const struct directory_entry *e,
                         struct ldap_entry *out)
{
    struct slice rest = e->events;
    int64_t now_ns = clock_mono_ns();
    while (rest.n) {
        struct directory_activity a;
        const char *comma = memchr(rest.p, ',', rest.n);
        struct slice event = slice_of(rest.p, comma ? (size_t)(comma - rest.p) : rest.n);
        directory_activity(l->d, e, event, now_ns, &a);
        out->last_ns = a.last_ns > out->last_ns ? a.last_ns : out->last_ns;
        out->rate += a.rate;
        rest = slice_from(rest, event.n + 1);
    }
}

/* What there is no room for is counted by the mirror. */
static void put_entry(struct ldap_directory *l, const struct directory_entry *e)
{
    struct ldap_entry to = {.host = e->host,
                            .sensor = e->sensor,
                            .domain = e->domain,
                            .status = slice_str(directory_status_name(e->status)),
                            .why = e->why,
                            .mode = e->mode,
                            .events = e->events,
                            .schemas = e->schemas,
                            .every_ms = e->every_ms,
                            .since_ns = e->started_ns};
    add_activity(l, e, &to);
    (void)ldap_mirror_put(l->mirror, &to, is_held(e->host_state));
}

static void put_host(struct ldap_directory *l, const struct directory_host_entry *h)
{
    const struct ldap_entry to = {.host = h->host,
                                  .domain = h->domain,
                                  .state = slice_str(directory_state_name(h->state)),
                                  .since_ns = h->since_ns};
    (void)ldap_mirror_put(l->mirror, &to, is_held(h->state));
}

static void on_change(void *arg, const struct directory_entry *e, enum directory_change change)
{
    struct ldap_directory *l = arg;
    if (l->is_stopped)
        return;
    if (change == DIRECTORY_GONE)
        ldap_mirror_remove(l->mirror, e->host, e->sensor);
    else
        put_entry(l, e);
}

static void on_host(void *arg, const struct directory_host_entry *h, enum directory_change change)
{
    struct ldap_directory *l = arg;
    if (l->is_stopped)
        return;
    if (change == DIRECTORY_GONE)
        ldap_mirror_remove(l->mirror, h->host, SLICE_LIT(""));
    else
        put_host(l, h);
}

static const struct directory_ops callbacks = {.on_change = on_change, .on_host = on_host};

static void put_all(struct ldap_directory *l)
{
    struct directory_host_entry host;
    struct directory_entry entry;
    for (uint32_t at = 0; directory_next_host(l->d, &at, &host);)
        put_host(l, &host);
    for (uint64_t id = 0; directory_next(l->d, &id, &entry);)
        put_entry(l, &entry);
}

int ldap_directory_create(struct directory *d, const struct ldap_directory_options *o,
                          struct ldap_directory **out, struct diag *why)
{
    char host[256] = "gateway"; /* where the kernel has no name for us */
    struct ldap_mirror_options mirror = o->mirror;
    struct ldap_directory *l = mem_try_alloc(sizeof *l);
    if (!l)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    l->d = d;
    l->refresh_ns = o->refresh_ns ? o->refresh_ns : REFRESH_NS;
    if (!mirror.name || !*mirror.name) {
        (void)gethostname(host, sizeof host - 1); /* it stays as it is */
        mirror.name = host;
    }
    int r = ldap_mirror_create(&mirror, &l->mirror, why);
    if (r == 0) {
        put_all(l);
        r = directory_observe(d, &callbacks, l);
        if (r < 0)
            (void)diag_set(why, r, 0, "the directory has too many observers"); /* r is returned below */
    }
    if (r < 0) {
        ldap_directory_destroy(l);
        return r;
    }
    *out = l;
    return 0;
}

void ldap_directory_stop(struct ldap_directory *l)
{
    if (!l)
        return;
    l->is_stopped = true;
    ldap_mirror_stop(l->mirror);
}

void ldap_directory_destroy(struct ldap_directory *l)
{
    if (!l)
        return;
    ldap_mirror_destroy(l->mirror);
    mem_free(l);
}

/* As many as are due since the last time, in the order of ids; those that came meanwhile are up to date. */
static void refresh(struct ldap_directory *l, int64_t mono_ns)
{
    struct directory_counts n;
    struct directory_entry entry;
    int64_t passed_ns = l->ticked_ns ? mono_ns - l->ticked_ns : 0;
    l->ticked_ns = mono_ns;
    directory_counts(l->d, &n);
    double all = (double)(n.sensors + n.programs);
    l->due += all * (double)passed_ns / (double)l->refresh_ns;
    l->due = l->due > all ? all : l->due;
    for (; l->due >= 1; l->due--) {
        if (directory_next(l->d, &l->refreshed, &entry))
            put_entry(l, &entry);
        else
            l->refreshed = 0;
    }
}

void ldap_directory_tick(struct ldap_directory *l, int64_t mono_ns)
{
    if (!l || l->is_stopped)
        return;
    refresh(l, mono_ns);
    ldap_mirror_tick(l->mirror, mono_ns, clock_utc_ns());
}

void ldap_directory_status(struct ldap_directory *l, struct args_writer *out)
{
    struct ldap_mirror_counts n;
    if (!l)
        return;
    ldap_mirror_counts(l->mirror, &n);
    args_add_uint(out, "ldap.connected", n.is_connected);
    args_add_uint(out, "ldap.entries", n.entries);
    args_add_uint(out, "ldap.waiting", n.waiting);
    args_add_uint(out, "ldap.written", n.written);
    args_add_uint(out, "ldap.removed", n.removed);
    args_add_uint(out, "ldap.refused", n.refused);
    args_add_uint(out, "ldap.foreign", n.foreign);
    args_add_uint(out, "ldap.turned_away", n.turned_away);
    args_add_uint(out, "ldap.compared", n.compared);
}
