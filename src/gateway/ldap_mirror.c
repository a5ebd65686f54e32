/* SPDX-License-Identifier: Apache-2.0 */
/* Who may touch what:
 *
 *   loop     name, record, began_ns, beat_ns
 *   thread   link, item_name, item_record, stale, retry_s
 *   both     what is below `lock`, with the lock, which is never held while the server is spoken to
 *
 * An item that the thread writes stays in the queue meanwhile; only the thread frees items. It copies name
 * and record, and the version tells it whether the item has become another one when the server's answer is
 * there. */
#include "gateway/ldap_mirror.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/ldap_link.h"
#include "gateway/ldap_queue.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

struct ldap_mirror {
    struct arena arena; /* of the options */
    struct ldap_link_options options;
    struct slice gateway, domain;
    struct strbuf name, record;
    int64_t began_ns; /* UTC */
    int64_t beat_ns;  /* when the gateway's own entry is due, monotonic */
    pthread_t thread;
    bool has_thread;

    struct ldap_link *link; /* NULL: the server is away */
    struct strbuf item_name, item_record;
    struct strbuf stale[2]; /* names of the server's, each with a NUL behind it: sensors, then the others */
    int64_t settled_ns;     /* when stale entries may go, monotonic */
    int64_t compare_ns;     /* when all is compared again, monotonic */
    int64_t compare_every_ns;
    uint32_t retry_s;
    bool is_away_said;
    bool is_refusal_said; /* since all was compared */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct ldap_queue queue;
    struct ldap_mirror_counts counts; /* entries and waiting are the queue's */
    int fd;                           /* of the connection; -1 = none */
    bool is_stopping;
};

static void lock(struct ldap_mirror *m)
{
    (void)pthread_mutex_lock(&m->lock); /* fails only if it is not ours to lock */
}

static void unlock(struct ldap_mirror *m)
{
    (void)pthread_mutex_unlock(&m->lock);
}

/* ---------------------------------------------------------------- the thread: comparing */

static void add_stale(struct ldap_mirror *m, const char *dn, struct slice name)
{
    bool is_sensor = slice_starts(name, slice_str(ldap_attribute_names[ATTRIBUTE_SENSOR]));
    strbuf_add(&m->stale[!is_sensor], dn, strlen(dn) + 1);
}

static void on_listed(void *arg, const char *dn, struct slice name, struct slice record)
{
    struct ldap_mirror *m = arg;
    lock(m);
    bool is_known = ldap_queue_seen(&m->queue, name, record);
    unlock(m);
    if (!is_known)
        add_stale(m, dn, name);
}

static enum ldap_outcome remove_stale(struct ldap_mirror *m, struct diag *why)
{
    for (size_t i = 0; i < 2; i++) {
        const struct strbuf *all = &m->stale[i];
        for (size_t at = 0; at < all->n; at += strlen(all->p + at) + 1) {
            enum ldap_outcome o = ldap_link_remove_dn(m->link, all->p + at, why);
            if (o == OUTCOME_AWAY)
                return o;
            lock(m);
            m->counts.removed += o == OUTCOME_DONE;
            m->counts.refused += o == OUTCOME_REFUSED; /* others have put entries below it */
            unlock(m);
        }
    }
    return OUTCOME_DONE;
}

/* A list that the server cuts short is as good as it is: what was not in it is written, which does no harm.
 */
static enum ldap_outcome compare_all(struct ldap_mirror *m, struct diag *why)
{
    bool is_settled = clock_mono_ns() >= m->settled_ns;
    m->compare_ns = is_settled ? clock_mono_ns() + m->compare_every_ns : m->settled_ns;
    m->is_refusal_said = false;
    strbuf_reset(&m->stale[0]);
    strbuf_reset(&m->stale[1]);
    lock(m);
    ldap_queue_begin(&m->queue);
    unlock(m);
    enum ldap_outcome o = ldap_link_list(m->link, on_listed, m, why);
    if (o == OUTCOME_REFUSED)
        log_error("LDAP server %s does not list all entries: %s; what is gone may stay there", m->options.uri,
                  why->message);
    else if (o == OUTCOME_DONE && is_settled)
        o = remove_stale(m, why);
    lock(m);
    m->counts.compared += o != OUTCOME_AWAY;
    unlock(m);
    return o == OUTCOME_AWAY ? o : OUTCOME_DONE;
}

/* ---------------------------------------------------------------- the thread: writing */

/* The state of an item, as it is copied out of the lock. */
struct work {
    struct ldap_item *item;
    uint64_t version;
    bool is_gone, is_there, is_held;
};

/* With the lock. false: there is no memory; it is tried again. */
static bool take_work(struct ldap_mirror *m, struct ldap_item *i, struct work *out)
{
    *out = (struct work){i, i->version, !i->record, ldap_item_is_there(&m->queue, i), i->is_held};
    strbuf_reset(&m->item_name);
    strbuf_reset(&m->item_record);
    strbuf_add(&m->item_name, i->name, i->name_n);
    strbuf_add(&m->item_record, i->record, i->record_n);
    return !strbuf_failed(&m->item_name) && !strbuf_failed(&m->item_record);
}

/* With the lock. */
static void finish_work(struct ldap_mirror *m, const struct work *w, enum ldap_outcome o)
{
    struct ldap_mirror_counts *c = &m->counts;
    c->written += o == OUTCOME_DONE && !w->is_gone;
    c->removed += o == OUTCOME_DONE && w->is_gone;
    c->refused += o == OUTCOME_REFUSED;
    c->foreign += o == OUTCOME_FOREIGN;
    ldap_queue_done(&m->queue, w->item, w->version, o == OUTCOME_DONE && !w->is_gone);
}

/* What a sensor's entry is put under, which somebody has removed by hand. */
static enum ldap_outcome write_parent(struct ldap_mirror *m, struct diag *why)
{
    struct slice name = strbuf_slice(&m->item_name);
    const char *comma = memchr(name.p, ',', name.n); /* the first: in names there is none */
    struct strbuf record = {0};
    if (!comma)
        return OUTCOME_REFUSED;
    struct slice parent = slice_from(name, (size_t)(comma - name.p) + 1);
    lock(m);
    const struct ldap_item *i = map_get(&m->queue.items, parent);
    if (i && i->record)
        strbuf_add(&record, i->record, i->record_n);
    unlock(m);
    enum ldap_outcome o = OUTCOME_REFUSED;
    if (record.n)
        o = ldap_link_write(m->link, parent, strbuf_slice(&record), false, false, why);
    strbuf_fini(&record);
    return o;
}

static enum ldap_outcome write_item(struct ldap_mirror *m, const struct work *w, struct diag *why)
{
    struct slice name = strbuf_slice(&m->item_name), record = strbuf_slice(&m->item_record);
    if (w->is_gone)
        return ldap_link_remove(m->link, name, why);
    enum ldap_outcome o = ldap_link_write(m->link, name, record, w->is_there, w->is_held, why);
    if (o != OUTCOME_REFUSED || !ldap_link_lacks_parent(m->link))
        return o;
    o = write_parent(m, why);
    if (o == OUTCOME_DONE || o == OUTCOME_FOREIGN)
        o = ldap_link_write(m->link, name, record, false, w->is_held, why);
    return o;
}

/* ---------------------------------------------------------------- the thread: its loop */

static void go_away(struct ldap_mirror *m, const struct diag *why)
{
    lock(m);
    m->fd = -1;
    m->counts.is_connected = false;
    bool is_stopping = m->is_stopping;
    unlock(m);
    ldap_link_close(m->link);
    m->link = NULL;
    if (!m->is_away_said && !is_stopping)
        log_error("LDAP server %s: %s; tried again, the directory is kept until then", m->options.uri,
                  why->message);
    m->is_away_said = true;
}

static bool come_back(struct ldap_mirror *m, struct diag *why)
{
    if (ldap_link_open(&m->options, &m->link, why) < 0)
        return false;
    lock(m);
    m->fd = ldap_link_fd(m->link);
    unlock(m);
    return compare_all(m, why) != OUTCOME_AWAY;
}

/* Not before it has taken something, or has all: one that lists and takes nothing is as good as away. */
static void be_back(struct ldap_mirror *m)
{
    lock(m);
    bool was_connected = m->counts.is_connected;
    m->counts.is_connected = true;
    unlock(m);
    if (was_connected)
        return;
    log_info("LDAP server %s: has the directory%s", m->options.uri, m->is_away_said ? " again" : "");
    m->is_away_said = false;
    m->retry_s = 0;
}

/* With the lock; until then at most, or something is new. */
static void wait_until(struct ldap_mirror *m, int64_t mono_ns)
{
    const struct timespec at = {mono_ns / NS_PER_S, mono_ns % NS_PER_S};
    if (!m->is_stopping)
        (void)pthread_cond_timedwait(&m->wake, &m->lock, &at); /* who waits looks again */
}

/* Not less than the time, whatever is put meanwhile. */
static void wait_to_retry(struct ldap_mirror *m)
{
    m->retry_s = m->retry_s == 0 ? 1 : m->retry_s * 2 > LDAP_RETRY_MAX_S ? LDAP_RETRY_MAX_S : m->retry_s * 2;
    int64_t until_ns = clock_mono_ns() + m->retry_s * NS_PER_S;
    lock(m);
    while (!m->is_stopping && clock_mono_ns() < until_ns)
        wait_until(m, until_ns);
    unlock(m);
}

static void wait_for_work(struct ldap_mirror *m)
{
    lock(m);
    if (!ldap_queue_first(&m->queue))
        wait_until(m, m->compare_ns);
    unlock(m);
}

/* false: the server went away. */
static bool do_work(struct ldap_mirror *m, const struct work *w, struct diag *why)
{
    enum ldap_outcome o = write_item(m, w, why);
    if (o == OUTCOME_AWAY)
        return false;
    if (o == OUTCOME_REFUSED && !m->is_refusal_said)
        log_error("LDAP server %s refuses %.200s, and maybe others: %s", m->options.uri, m->item_name.p,
                  why->message);
    m->is_refusal_said |= o == OUTCOME_REFUSED;
    lock(m);
    finish_work(m, w, o);
    unlock(m);
    be_back(m);
    return true;
}

/* The next item, if there is one; else waits for it. false: the server went away. */
static bool do_next(struct ldap_mirror *m, struct diag *why)
{
    struct work w;
    lock(m);
    struct ldap_item *i = ldap_queue_first(&m->queue);
    bool has_memory = !i || take_work(m, i, &w);
    unlock(m);
    if (!has_memory) {
        (void)diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM)); /* the result says it */
        return false;
    }
    if (i)
        return do_work(m, &w, why);
    be_back(m);
    wait_for_work(m);
    return true;
}

static bool is_stopping(struct ldap_mirror *m)
{
    lock(m);
    bool is = m->is_stopping;
    unlock(m);
    return is;
}

/* The last word; if the server does not take it, the time in the entry says as much. */
static void say_stopped(struct ldap_mirror *m)
{
    struct diag why;
    const struct ldap_entry own = {.domain = m->domain,
                                   .state = SLICE_LIT("stopped"),
                                   .since_ns = clock_utc_ns(),
                                   .updated_ns = clock_utc_ns()};
    strbuf_reset(&m->item_name);
    strbuf_reset(&m->item_record);
    ldap_entry_name(&m->item_name, own.host, own.sensor, m->gateway);
    ldap_entry_record(&m->item_record, &own, m->gateway);
    if (!strbuf_failed(&m->item_name) && !strbuf_failed(&m->item_record))
        (void)ldap_link_write(m->link, strbuf_slice(&m->item_name), strbuf_slice(&m->item_record), true, true,
                              &why);
}

static void *run(void *arg)
{
    struct ldap_mirror *m = arg;
    while (!is_stopping(m)) {
        struct diag why = {0};
        bool is_good = m->link ? clock_mono_ns() < m->compare_ns || compare_all(m, &why) != OUTCOME_AWAY
                               : come_back(m, &why);
        if (is_good)
            is_good = do_next(m, &why);
        if (!is_good) {
            go_away(m, &why);
            wait_to_retry(m);
        }
    }
    if (m->link)
        say_stopped(m);
    go_away(m, NULL);
    return NULL;
}

/* ---------------------------------------------------------------- the loop */

/* Signals are for the loop. */
static int start_thread(struct ldap_mirror *m)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    int r = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (r)
        return -r;
    r = pthread_create(&m->thread, NULL, run, m);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* it was good a moment ago */
    m->has_thread = r == 0;
    return -r;
}

static const char *copy_text(struct arena *a, const char *text)
{
    struct slice copy = arena_copy(a, slice_of(text ? text : "", (text ? strlen(text) : 0) + 1));
    return copy.p;
}

static int copy_options(struct ldap_mirror *m, const struct ldap_mirror_options *o)
{
    struct ldap_link_options *to = &m->options;
    struct strbuf name = {0};
    *to = (struct ldap_link_options){.uri = copy_text(&m->arena, o->uri),
                                     .base = copy_text(&m->arena, o->base),
                                     .bind_dn = copy_text(&m->arena, o->bind_dn),
                                     .password_file = copy_text(&m->arena, o->password_file),
                                     .ca = copy_text(&m->arena, o->ca),
                                     .has_starttls = o->has_starttls};
    const char *gateway = copy_text(&m->arena, o->name), *domain = copy_text(&m->arena, o->domain);
    bool is_good = to->uri && to->base && to->bind_dn && to->password_file && to->ca && gateway && domain;
    if (is_good) {
        m->gateway = slice_str(gateway);
        m->domain = slice_str(domain);
        ldap_encode(&name, m->gateway);
        to->gateway = arena_copy(&m->arena, strbuf_slice(&name));
        is_good = !strbuf_failed(&name) && to->gateway.p;
    }
    strbuf_fini(&name);
    m->compare_every_ns = (o->compare_s ? o->compare_s : LDAP_COMPARE_S) * NS_PER_S;
    m->settled_ns = clock_mono_ns() + o->settle_s * NS_PER_S;
    return is_good ? 0 : -ENOMEM;
}

static void init_lock(struct ldap_mirror *m)
{
    pthread_condattr_t attributes;
    (void)pthread_mutex_init(&m->lock, NULL); /* these do not fail on Linux */
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&m->wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

int ldap_mirror_create(const struct ldap_mirror_options *o, struct ldap_mirror **out, struct diag *why)
{
    struct ldap_mirror *m = mem_try_alloc(sizeof *m);
    if (!m)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    m->fd = -1;
    m->began_ns = clock_utc_ns();
    init_lock(m);
    ldap_queue_init(&m->queue);
    int r = copy_options(m, o);
    if (r == 0)
        r = ldap_link_check(&m->options, why);
    if (r == 0)
        r = start_thread(m);
    if (r < 0 && r != E_PROTO)
        (void)diag_set(why, r, 0, "%s", err_text(r)); /* r is returned below */
    if (r < 0) {
        ldap_mirror_destroy(m);
        return r;
    }
    *out = m;
    return 0;
}

void ldap_mirror_stop(struct ldap_mirror *m)
{
    if (!m)
        return;
    lock(m);
    m->is_stopping = true;
    (void)pthread_cond_signal(&m->wake); /* fails for no condition only */
    unlock(m);
}

static void join(struct ldap_mirror *m)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until); /* what pthread_timedjoin_np wants; there is no other */
    until.tv_sec += LDAP_STOP_S;
    if (pthread_timedjoin_np(m->thread, NULL, &until) == 0)
        return;
    lock(m);
    if (m->fd >= 0)
        (void)shutdown(m->fd, SHUT_RDWR); /* whoever reads there has its end */
    unlock(m);
    (void)pthread_join(m->thread, NULL); /* it is ours, once */
}

void ldap_mirror_destroy(struct ldap_mirror *m)
{
    if (!m)
        return;
    ldap_mirror_stop(m);
    if (m->has_thread)
        join(m);
    ldap_queue_fini(&m->queue);
    (void)pthread_cond_destroy(&m->wake);
    (void)pthread_mutex_destroy(&m->lock);
    strbuf_fini(&m->name);
    strbuf_fini(&m->record);
    strbuf_fini(&m->item_name);
    strbuf_fini(&m->item_record);
    strbuf_fini(&m->stale[0]);
    strbuf_fini(&m->stale[1]);
    arena_fini(&m->arena);
    mem_free(m);
}

/* With the lock: a host that is not there yet, with its name alone. */
static int make_host(struct ldap_mirror *m, const struct ldap_entry *e, bool is_held)
{
    strbuf_reset(&m->name);
    ldap_entry_name(&m->name, e->host, SLICE_LIT(""), m->gateway);
    const struct ldap_item *i =
        strbuf_failed(&m->name) ? NULL : map_get(&m->queue.items, strbuf_slice(&m->name));
    if (i && i->record)
        return 0;
    strbuf_reset(&m->record);
    ldap_entry_record(&m->record, &(struct ldap_entry){.host = e->host, .domain = e->domain}, m->gateway);
    if (strbuf_failed(&m->name) || strbuf_failed(&m->record))
        return -ENOMEM;
    return ldap_queue_put(&m->queue, strbuf_slice(&m->name), strbuf_slice(&m->record), true, is_held);
}

int ldap_mirror_put(struct ldap_mirror *m, const struct ldap_entry *e, bool is_held)
{
    lock(m);
    int r = e->sensor.n ? make_host(m, e, is_held) : 0;
    strbuf_reset(&m->name);
    strbuf_reset(&m->record);
    ldap_entry_name(&m->name, e->host, e->sensor, m->gateway);
    ldap_entry_record(&m->record, e, m->gateway);
    if (r >= 0 && (strbuf_failed(&m->name) || strbuf_failed(&m->record)))
        r = -ENOMEM;
    if (r >= 0)
        r = ldap_queue_put(&m->queue, strbuf_slice(&m->name), strbuf_slice(&m->record), e->sensor.n == 0,
                           is_held);
    m->counts.turned_away += r < 0;
    if (r > 0)
        (void)pthread_cond_signal(&m->wake); /* fails for no condition only */
    unlock(m);
    return r < 0 ? r : 0;
}

void ldap_mirror_remove(struct ldap_mirror *m, struct slice host, struct slice sensor)
{
    strbuf_reset(&m->name);
    ldap_entry_name(&m->name, host, sensor, m->gateway);
    if (strbuf_failed(&m->name))
        return; /* the next comparison finds it */
    lock(m);
    if (ldap_queue_remove(&m->queue, strbuf_slice(&m->name)))
        (void)pthread_cond_signal(&m->wake); /* fails for no condition only */
    unlock(m);
}

void ldap_mirror_tick(struct ldap_mirror *m, int64_t mono_ns, int64_t utc_ns)
{
    if (mono_ns < m->beat_ns)
        return;
    m->beat_ns = mono_ns + LDAP_BEAT_S * NS_PER_S;
    const struct ldap_entry own = {
        .domain = m->domain, .state = SLICE_LIT("running"), .since_ns = m->began_ns, .updated_ns = utc_ns};
    (void)ldap_mirror_put(m, &own, true); /* without memory there is one less; counted */
}

void ldap_mirror_counts(struct ldap_mirror *m, struct ldap_mirror_counts *out)
{
    lock(m);
    *out = m->counts;
    out->entries = m->queue.items.n;
    out->waiting = m->queue.waiting;
    unlock(m);
}
