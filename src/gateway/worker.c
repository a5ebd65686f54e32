/* SPDX-License-Identifier: Apache-2.0 */
/* Time is looked after by a wheel of SLOTS slots of SLOT_NS: each worker is in one slot's list, that of the
 * next moment it must be looked at, or the last slot if that is further. Looking at a slot empties it,
 * decides for each worker, and puts it in again where it belongs now. A renewal moves only expires_ns: the
 * look that finds it was renewed puts it further on. So a worker costs one look a renewal period, whatever it
 * does. */
#include "gateway/worker.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <sys/random.h>

#define SLOT_NS   (100 * INT64_C(1000000))
#define FORGET_NS (7 * 24 * 3600 * NS_PER_S)
enum {
    SLOTS = 512,
    LEASE_DEFAULT_MS = 30000,
    RENEW_DEFAULT_MS = 10000,
    LEASE_MIN_MS = 1000,
    LEASE_MAX_MS = 3600000,
    RECORD_VERSION = 1,
    TICK_SLOTS = 10 /* the longest until the next tick */
};
static const int64_t ns_per_ms = 1000000;

struct workers {
    struct workers_options options;
    struct map by_host;
    struct worker **by_id; /* by_id[id - 1]; NULL: forgotten */
    size_t n_ids, cap_ids;
    struct worker *slots[SLOTS];
    int64_t ticked_slot; /* every slot up to it has been looked at */
    struct worker *unwritten;
    size_t n_unwritten;
};

const char *worker_state_name(enum worker_state s)
{
    static const char *const names[] = {"live", "late", "expired", "deregistered"};
    return names[s];
}

struct workers *workers_create(const struct workers_options *o)
{
    struct workers *ws = mem_try_alloc(sizeof *ws);
    if (!ws)
        return NULL;
    ws->options = *o;
    if (!ws->options.lease_ms)
        ws->options.lease_ms = LEASE_DEFAULT_MS;
    if (!ws->options.renew_ms)
        ws->options.renew_ms = RENEW_DEFAULT_MS;
    ws->ticked_slot = -1;
    return ws;
}

static void destroy(struct worker *w)
{
    if (!w)
        return;
    mem_free(w->host);
    mem_free(w->address);
    mem_free(w->properties);
    mem_free(w->settings);
    mem_free(w);
}

void workers_destroy(struct workers *ws)
{
    if (!ws)
        return;
    for (size_t i = 0; i < ws->n_ids; i++)
        destroy(ws->by_id[i]);
    mem_free(ws->by_id);
    map_fini(&ws->by_host);
    mem_free(ws);
}

size_t workers_count(const struct workers *ws)
{
    return ws->by_host.n;
}

struct worker *workers_by_id(const struct workers *ws, uint32_t id)
{
    return id - 1 < ws->n_ids ? ws->by_id[id - 1] : NULL; /* 0 - 1 is large */
}

uint32_t workers_last_id(const struct workers *ws)
{
    return (uint32_t)ws->n_ids;
}

struct worker *workers_by_host(const struct workers *ws, struct slice host)
{
    return map_get(&ws->by_host, host);
}

void workers_each(struct workers *ws, void (*fn)(void *arg, struct worker *w), void *arg)
{
    for (size_t i = 0; i < ws->n_ids; i++)
        if (ws->by_id[i])
            fn(arg, ws->by_id[i]);
}

/* ---------------------------------------------------------------- when to look again */

static int64_t late_at_ns(const struct worker *w)
{
    return w->renewed_ns + w->renew_ms * ns_per_ms * 3 / 2;
}

static void unwatch(struct worker *w)
{
    if (!w->watched_at)
        return;
    *w->watched_at = w->next_watched;
    if (w->next_watched)
        w->next_watched->watched_at = w->watched_at;
    w->watched_at = NULL;
}

/* In the slot of due_ns. One that is in an earlier one stays there: that look is early, and decides again. */
static void watch(struct workers *ws, struct worker *w, int64_t due_ns)
{
    int64_t slot = due_ns / SLOT_NS + 1; /* not before it is due */
    if (slot <= ws->ticked_slot)
        slot = ws->ticked_slot + 1;
    if (slot >= ws->ticked_slot + SLOTS)
        slot = ws->ticked_slot + SLOTS - 1;
    if (w->watched_at && w->watched_slot <= slot)
        return;
    unwatch(w);
    struct worker **list = &ws->slots[slot % SLOTS];
    w->watched_slot = slot;
    w->watched_at = list;
    w->next_watched = *list;
    if (*list)
        (*list)->watched_at = &w->next_watched;
    *list = w;
}

/* Its record is in the journal, or not needed any more. */
static void set_written(struct workers *ws, struct worker *w)
{
    if (!w->unwritten_at)
        return;
    *w->unwritten_at = w->next_unwritten;
    if (w->next_unwritten)
        w->next_unwritten->unwritten_at = w->unwritten_at;
    w->unwritten_at = NULL;
    ws->n_unwritten--;
}

static void set_unwritten(struct workers *ws, struct worker *w)
{
    if (w->unwritten_at)
        return;
    w->unwritten_at = &ws->unwritten;
    w->next_unwritten = ws->unwritten;
    if (ws->unwritten)
        ws->unwritten->unwritten_at = &w->next_unwritten;
    ws->unwritten = w;
    ws->n_unwritten++;
}

static int record(struct workers *ws, struct worker *w)
{
    bool is_heard = ws->options.ops && ws->options.ops->on_record;
    int r = is_heard ? ws->options.ops->on_record(ws->options.arg, w) : 0;
    if (r < 0)
        set_unwritten(ws, w);
    else
        set_written(ws, w);
    return r;
}

static void set_state(struct workers *ws, struct worker *w, enum worker_state state, int64_t utc_ns,
                      const char *why)
{
    enum worker_state before = (enum worker_state)w->state;
    if (before == state)
        return;
    w->state = (uint8_t)state;
    w->since_ns = utc_ns;
    if (ws->options.ops && ws->options.ops->on_state)
        ws->options.ops->on_state(ws->options.arg, w, before, why);
}

static void forget(struct workers *ws, struct worker *w)
{
    unwatch(w);
    set_written(ws, w);
    (void)map_remove(&ws->by_host, slice_str(w->host)); /* it is w itself */
    ws->by_id[w->id - 1] = NULL;
    destroy(w);
}

/* What w has become by now, and when to look again. */
static void look(struct workers *ws, struct worker *w, int64_t boot_ns, int64_t utc_ns)
{
    bool is_over = w->state == WORKER_EXPIRED || w->state == WORKER_DEREGISTERED;
    if (is_over && utc_ns - w->since_ns > FORGET_NS && !w->link) {
        forget(ws, w);
        return;
    }
    if (!is_over && boot_ns >= w->expires_ns) {
        set_state(ws, w, WORKER_EXPIRED, utc_ns, "the lease ran out");
        (void)record(ws, w); /* kept in mind, here and below */
        is_over = true;
    } else if (w->state == WORKER_LIVE && boot_ns >= late_at_ns(w)) {
        set_state(ws, w, WORKER_LATE, utc_ns, "a renewal is overdue");
    }
    int64_t next = w->state == WORKER_LIVE && late_at_ns(w) < w->expires_ns ? late_at_ns(w) : w->expires_ns;
    watch(ws, w, is_over ? INT64_MAX : next);
}

static void look_at_slot(struct workers *ws, int64_t slot, int64_t boot_ns, int64_t utc_ns)
{
    struct worker *w;
    ws->ticked_slot = slot;
    while ((w = ws->slots[slot % SLOTS])) { /* nothing is put in this slot any more */
        unwatch(w);
        look(ws, w, boot_ns, utc_ns);
    }
}

/* The first call, and a loop that stood still for longer than the wheel goes round: every slot once. */
static void catch_up(struct workers *ws, int64_t now_slot)
{
    if (ws->ticked_slot < 0 || now_slot - ws->ticked_slot >= SLOTS)
        ws->ticked_slot = now_slot - SLOTS + 1;
}

int64_t workers_tick(struct workers *ws, int64_t boot_ns, int64_t utc_ns)
{
    int64_t now_slot = boot_ns / SLOT_NS;
    catch_up(ws, now_slot);
    while (ws->ticked_slot < now_slot)
        look_at_slot(ws, ws->ticked_slot + 1, boot_ns, utc_ns);
    for (int64_t slot = now_slot + 1; slot < now_slot + TICK_SLOTS; slot++)
        if (ws->slots[slot % SLOTS])
            return slot * SLOT_NS;
    return (now_slot + TICK_SLOTS) * SLOT_NS;
}

/* ---------------------------------------------------------------- coming */

static char *copy_bytes(struct slice s)
{
    char *p = mem_try_alloc(s.n + 1);
    if (p && s.n)
        memcpy(p, s.p, s.n);
    return p;
}

static int replace_bytes(char **p, uint32_t *n, struct slice s)
{
    char *copy = copy_bytes(s);
    if (!copy)
        return -ENOMEM;
    mem_free(*p);
    *p = copy;
    *n = (uint32_t)s.n;
    return 0;
}

/* The list with its count, as args_put has it. */
static int replace_list(char **p, uint32_t *n, struct args list, size_t max)
{
    struct strbuf bytes = {0};
    args_put(&bytes, list);
    int r = strbuf_failed(&bytes) ? -ENOMEM
            : bytes.n > max       ? E_LIMIT
                                  : replace_bytes(p, n, strbuf_slice(&bytes));
    strbuf_fini(&bytes);
    return r;
}

static int reserve_id(struct workers *ws, size_t id)
{
    if (id <= ws->cap_ids)
        return 0;
    size_t cap = ws->cap_ids ? ws->cap_ids : 64;
    while (cap < id)
        cap *= 2;
    struct worker **by_id = mem_try_resize(ws->by_id, cap * sizeof *by_id);
    if (!by_id)
        return -ENOMEM;
    ws->by_id = by_id;
    ws->cap_ids = cap;
    return 0;
}

/* Under that id, which nobody has. */
static int add(struct workers *ws, struct slice host, uint32_t id, struct worker **out)
{
    if (id > WORKERS_MAX)
        return E_LIMIT;
    struct worker *w = mem_try_alloc(sizeof *w);
    if (!w)
        return -ENOMEM;
    w->id = id;
    w->host = copy_bytes(host);
    int r = w->host ? reserve_id(ws, id) : -ENOMEM;
    if (r == 0)
        r = map_put(&ws->by_host, slice_of(w->host, host.n), w);
    if (r < 0) {
        destroy(w);
        return r;
    }
    while (ws->n_ids < id)
        ws->by_id[ws->n_ids++] = NULL;
    ws->by_id[id - 1] = w;
    *out = w;
    return 0;
}

uint32_t worker_lease_ms(uint64_t wanted_ms)
{
    return wanted_ms < LEASE_MIN_MS   ? LEASE_MIN_MS
           : wanted_ms > LEASE_MAX_MS ? LEASE_MAX_MS
                                      : (uint32_t)wanted_ms;
}

/* A third of the lease at most: two renewals may be lost. */
static uint32_t renew_of(const struct workers *ws, uint32_t lease_ms)
{
    return ws->options.renew_ms < lease_ms / 3 ? ws->options.renew_ms : lease_ms / 3;
}

static void set_lease(struct workers *ws, struct worker *w, uint32_t lease_ms)
{
    w->lease_ms = worker_lease_ms(lease_ms ? lease_ms : ws->options.lease_ms);
    w->renew_ms = renew_of(ws, w->lease_ms);
}

/* false: there is no key, so no datagram may be taken. Can't happen once the kernel's pool is ready. */
static bool new_key(struct worker *w)
{
    w->key_id++;
    return w->level == SEAL_NONE || getrandom(w->key, sizeof w->key, 0) == sizeof w->key;
}

int workers_register(struct workers *ws, const struct frame_register *r, void *link, uint8_t level,
                     int64_t boot_ns, int64_t utc_ns, struct worker **out)
{
    struct worker *w = workers_by_host(ws, r->host);
    bool is_new = !w;
    int e = is_new ? add(ws, r->host, (uint32_t)ws->n_ids + 1, &w) : 0;
    if (e < 0)
        return e;
    e = replace_list(&w->properties, &w->properties_n, r->properties, WORKER_PROPERTIES_MAX);
    if (e < 0) {
        if (is_new)
            forget(ws, w);
        return e;
    }
    if (w->link && w->link != link && ws->options.ops && ws->options.ops->on_replaced)
        ws->options.ops->on_replaced(ws->options.arg, w, w->link);
    w->link = link;
    w->mode = r->mode;
    w->level = level < ws->options.level ? level : ws->options.level;
    w->origin = r->origin;
    w->registrations++;
    w->registered_ns = is_new ? utc_ns : w->registered_ns;
    w->clock_offset_ns = r->utc_ns - utc_ns;
    if (w->window.highest == 0)
        w->datagrams_before = w->datagrams_sent = r->datagrams;
    w->sampler = NULL;
    w->has_unsent_settings = true;
    if (!w->has_own_lease)
        set_lease(ws, w, r->lease_ms);
    w->renewed_ns = boot_ns;
    w->expires_ns = boot_ns + w->lease_ms * ns_per_ms;
    if (is_new)
        w->state = WORKER_DEREGISTERED; /* it comes from there */
    set_state(ws, w, WORKER_LIVE, utc_ns, is_new ? "registered" : "registered again");
    (void)record(ws, w);
    catch_up(ws, boot_ns / SLOT_NS);
    watch(ws, w, late_at_ns(w));
    *out = w;
    return 0;
}

void worker_renew(struct workers *ws, struct worker *w, const struct frame_renew *r, int64_t boot_ns,
                  int64_t utc_ns)
{
    w->datagrams_sent = r->datagrams;
    if (w->state == WORKER_DEREGISTERED)
        return;
    w->renewed_ns = boot_ns;
    w->expires_ns = boot_ns + w->lease_ms * ns_per_ms;
    bool was_expired = w->state == WORKER_EXPIRED;
    set_state(ws, w, WORKER_LIVE, utc_ns, "renewed");
    if (was_expired)
        (void)record(ws, w);
    watch(ws, w, late_at_ns(w));
}

void worker_set_samples(struct workers *ws, struct worker *w, const struct frame_origin *samples,
                        struct sampler *s)
{
    (void)ws;
    if (!frame_same_origin(&w->samples, samples)) {
        w->samples = *samples;
        w->datagrams_sent = w->datagrams_before = 0;
        w->window = (struct datagram_window){0};
    }
    w->sampler = new_key(w) ? s : NULL;
}

void worker_set_address(struct worker *w, struct slice address)
{
    mem_free(w->address);
    w->address = copy_bytes(address);
}

uint64_t worker_datagrams_lost(const struct worker *w)
{
    uint64_t known = w->datagrams_before + w->window.received;
    return w->datagrams_sent > known ? w->datagrams_sent - known : 0;
}

/* ---------------------------------------------------------------- going */

void worker_disconnected(struct workers *ws, struct worker *w, int64_t boot_ns, int64_t utc_ns)
{
    (void)boot_ns;
    w->link = NULL;
    w->sampler = NULL;
    if (w->state == WORKER_LIVE)
        set_state(ws, w, WORKER_LATE, utc_ns, "its connection broke");
}

void worker_leave(struct workers *ws, struct worker *w, int64_t utc_ns)
{
    set_state(ws, w, WORKER_DEREGISTERED, utc_ns, "said goodbye");
    (void)record(ws, w);
}

int worker_set(struct workers *ws, struct worker *w, struct slice settings, uint32_t lease_ms)
{
    if (settings.n > WORKER_SETTINGS_MAX)
        return E_LIMIT;
    if (settings.n) {
        int r = replace_bytes(&w->settings, &w->settings_n, settings);
        if (r < 0)
            return r;
        w->has_unsent_settings = true;
    }
    if (lease_ms) {
        set_lease(ws, w, lease_ms);
        w->has_own_lease = true;
        w->expires_ns = w->renewed_ns + w->lease_ms * ns_per_ms;
        if (w->state == WORKER_LIVE || w->state == WORKER_LATE)
            watch(ws, w, late_at_ns(w) < w->expires_ns ? late_at_ns(w) : w->expires_ns);
    }
    (void)record(ws, w);
    return 0;
}

/* ---------------------------------------------------------------- the journal's record */

size_t workers_unwritten(const struct workers *ws)
{
    return ws->n_unwritten;
}

void workers_write(struct workers *ws)
{
    while (ws->unwritten && record(ws, ws->unwritten) == 0)
        ;
}

uint32_t workers_write_all(struct workers *ws, uint32_t from, size_t max)
{
    size_t n = 0;
    for (uint32_t id = from ? from : 1; id <= ws->n_ids; id++) {
        struct worker *w = ws->by_id[id - 1];
        if (n++ == max || (w && record(ws, w) == -ENOBUFS))
            return id;
    }
    return 0;
}

enum { RECORD_OWN_LEASE = 1 };

void worker_put_record(struct strbuf *out, const struct worker *w)
{
    strbuf_add_char(out, RECORD_VERSION);
    strbuf_add_u32(out, w->id);
    strbuf_add_char(out, (char)w->state);
    strbuf_add_char(out, (char)w->mode);
    strbuf_add_char(out, w->has_own_lease ? RECORD_OWN_LEASE : 0);
    strbuf_add_u32(out, w->lease_ms);
    strbuf_add_u32(out, w->renew_ms);
    strbuf_add_u64(out, (uint64_t)w->since_ns);
    strbuf_add_u64(out, (uint64_t)w->registered_ns);
    strbuf_add_u32(out, w->registrations);
    frame_put_origin(out, &w->origin);
    frame_put_origin(out, &w->samples);
    strbuf_add_text(out, slice_str(w->host));
    strbuf_add_text(out, slice_of(w->properties ? w->properties : "", w->properties_n));
    strbuf_add_text(out, slice_of(w->settings ? w->settings : "", w->settings_n));
}

/* Everything of a fixed size; false: not one of ours. */
static bool get_fixed(struct cursor *c, struct worker *w)
{
    if (cursor_u8(c) != RECORD_VERSION)
        return false;
    w->id = cursor_u32(c);
    w->state = cursor_u8(c);
    w->mode = cursor_u8(c);
    w->has_own_lease = cursor_u8(c) & RECORD_OWN_LEASE;
    w->lease_ms = cursor_u32(c);
    w->renew_ms = cursor_u32(c);
    w->since_ns = (int64_t)cursor_u64(c);
    w->registered_ns = (int64_t)cursor_u64(c);
    w->registrations = cursor_u32(c);
    w->origin = frame_get_origin(c);
    w->samples = frame_get_origin(c);
    return !c->bad && w->id && w->state <= WORKER_DEREGISTERED && w->lease_ms >= LEASE_MIN_MS &&
           w->lease_ms <= LEASE_MAX_MS && w->renew_ms && w->renew_ms <= w->lease_ms;
}

/* What the record says goes over what is known of the worker. */
static void take_fixed(struct worker *w, const struct worker *from)
{
    w->state = from->state;
    w->mode = from->mode;
    w->has_own_lease = from->has_own_lease;
    w->lease_ms = from->lease_ms;
    w->renew_ms = from->renew_ms;
    w->since_ns = from->since_ns;
    w->registered_ns = from->registered_ns;
    w->registrations = from->registrations;
    w->origin = from->origin;
    w->samples = from->samples;
}

/* Its lease may have been renewed until the moment the gateway died: it has its full time again. */
static void start_again(struct workers *ws, struct worker *w, int64_t boot_ns, int64_t utc_ns)
{
    if (w->state == WORKER_LIVE || w->state == WORKER_LATE) {
        w->state = WORKER_LATE;
        w->since_ns = utc_ns;
    }
    w->renewed_ns = boot_ns;
    w->expires_ns = boot_ns + w->lease_ms * ns_per_ms;
    catch_up(ws, boot_ns / SLOT_NS);
    watch(ws, w, w->expires_ns);
}

int workers_restore(struct workers *ws, struct slice payload, int64_t boot_ns, int64_t utc_ns)
{
    struct cursor c = cursor_of(payload);
    struct worker from = {0};
    if (!get_fixed(&c, &from))
        return E_PROTO;
    struct slice host = cursor_text(&c), properties = cursor_text(&c), settings = cursor_text(&c);
    if (c.bad || host.n == 0 || text_has_control(host) || properties.n > WORKER_PROPERTIES_MAX ||
        settings.n > WORKER_SETTINGS_MAX)
        return E_PROTO;
    struct worker *w = workers_by_host(ws, host);
    if (w ? w->id != from.id : workers_by_id(ws, from.id) != NULL)
        return E_PROTO;
    int r = w ? 0 : add(ws, host, from.id, &w);
    if (r < 0)
        return r;
    take_fixed(w, &from);
    r = replace_bytes(&w->properties, &w->properties_n, properties);
    if (r == 0)
        r = replace_bytes(&w->settings, &w->settings_n, settings);
    start_again(ws, w, boot_ns, utc_ns);
    return r;
}
