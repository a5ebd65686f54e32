/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts are in places (an array), their entries in a list in the order of coming, so that whoever lists them
 * in pages can go on behind an id: the host's place << 40 | a number that only grows. What an entry is called
 * towards observers follows from what its agent said of it and from the state of its host (status_of); `told`
 * is what they know, so that a change is told once. */
#include "directory/internal.h"

#include "base/mem.h"

#include <errno.h>

enum { SWEEP_HOSTS = 1000, ID_BITS = 40 };
static const int64_t day_ns = INT64_C(86400) * 1000000000;

const char *directory_state_name(enum directory_state s)
{
    static const char *const names[] = {"live", "late", "expired", "deregistered", "unregistered"};
    return names[s];
}

static const char *const status_names[] = {"running", "idle",    "suspended", "failed",
                                           "stopped", "unknown", "missing"};

const char *directory_status_name(enum directory_status s)
{
    return status_names[s];
}

bool directory_status_of(struct slice name, enum directory_status *out)
{
    for (size_t i = 0; i < DIRECTORY_STATUSES; i++)
        if (slice_eq_str(name, status_names[i])) {
            *out = (enum directory_status)i;
            return true;
        }
    return false;
}

/* ---------------------------------------------------------------- telling */

/* Of what is only expected: nobody can say before the host's list is there. */
static enum directory_status status_of_expected(const struct host *h)
{
    bool may_come = h->state == DIRECTORY_LATE || (h->state == DIRECTORY_LIVE && !h->has_list);
    return may_come ? DIRECTORY_UNKNOWN : DIRECTORY_MISSING;
}

static enum directory_status status_of(const struct host *h, const struct entry *e)
{
    if (e->kind == ENTRY_EXPECTED)
        return status_of_expected(h);
    if (e->kind == ENTRY_SERVICE)
        return (enum directory_status)e->status;
    switch ((enum directory_state)h->state) {
    case DIRECTORY_LATE:
        return DIRECTORY_UNKNOWN;
    case DIRECTORY_EXPIRED:
        return DIRECTORY_MISSING;
    case DIRECTORY_DEREGISTERED:
        return e->is_expected ? DIRECTORY_MISSING : DIRECTORY_STOPPED;
    default:
        return (enum directory_status)e->status;
    }
}

static void describe(const struct directory *d, const struct host *h, const struct entry *e,
                     struct directory_entry *out)
{
    enum directory_status status = status_of(h, e);
    *out = (struct directory_entry){.id = e->id,
                                    .host = name_slice(h->name),
                                    .domain = name_slice(d->domain),
                                    .sensor = name_slice(e->sensor),
                                    .events = name_slice(e->events),
                                    .schemas = name_slice(e->schemas),
                                    .mode = name_slice(e->mode),
                                    .why = name_slice(e->why),
                                    .host_state = (enum directory_state)h->state,
                                    .status = status,
                                    .before = status,
                                    .every_ms = e->every_ms,
                                    .started_ns = e->started_ns,
                                    .is_expected = e->is_expected};
}

static void tell(const struct directory *d, const struct directory_entry *view, enum directory_change change)
{
    for (size_t i = 0; i < d->n_observers; i++)
        if (d->observers[i].ops->on_change)
            d->observers[i].ops->on_change(d->observers[i].arg, view, change);
}

void directory_tell_added(struct directory *d, const struct host *h, struct entry *e)
{
    struct directory_entry view;
    describe(d, h, e, &view);
    e->told = (uint8_t)view.status;
    e->is_new = false;
    d->counts.missing += view.status == DIRECTORY_MISSING;
    tell(d, &view, DIRECTORY_ADDED);
}

void directory_tell_changed(struct directory *d, const struct host *h, struct entry *e, bool is_detail)
{
    struct directory_entry view;
    describe(d, h, e, &view);
    view.before = (enum directory_status)e->told;
    view.is_detail = is_detail && view.before == view.status;
    d->counts.missing += view.status == DIRECTORY_MISSING;
    d->counts.missing -= view.before == DIRECTORY_MISSING;
    e->told = (uint8_t)view.status;
    tell(d, &view, DIRECTORY_CHANGED);
}

void directory_tell_states(struct directory *d, const struct host *h)
{
    for (struct entry *e = h->first; e; e = e->next)
        if (e->told != status_of(h, e))
            directory_tell_changed(d, h, e, false);
}

bool directory_swap_name(struct directory *d, struct name **at, struct name *new)
{
    bool is_other = *at != new;
    names_unref(&d->names, *at);
    *at = new;
    return is_other;
}

static void describe_host(const struct directory *d, const struct host *h, struct directory_host_entry *out)
{
    *out = (struct directory_host_entry){.host = name_slice(h->name),
                                         .domain = name_slice(d->domain),
                                         .state = (enum directory_state)h->state,
                                         .before = (enum directory_state)h->state,
                                         .since_ns = h->since_ns,
                                         .sensors = h->n_sensors,
                                         .programs = h->n_programs,
                                         .is_expected = h->is_expected,
                                         .has_list = h->has_list,
                                         .clock_bound_ns = h->clock_bound_ns};
    for (const struct entry *e = h->first; e; e = e->next)
        out->missing += status_of(h, e) == DIRECTORY_MISSING;
}

static void tell_host(const struct directory *d, const struct host *h, enum directory_state before,
                      enum directory_change change)
{
    struct directory_host_entry view;
    describe_host(d, h, &view);
    view.before = before;
    for (size_t i = 0; i < d->n_observers; i++)
        if (d->observers[i].ops->on_host)
            d->observers[i].ops->on_host(d->observers[i].arg, &view, change);
}

/* ---------------------------------------------------------------- entries */

/* change: 1, or -1. */
static void count_entry(struct directory *d, struct host *h, const struct entry *e, int change)
{
    if (e->kind == ENTRY_PROGRAM) {
        d->counts.programs += (uint64_t)change;
        h->n_programs += (uint32_t)change;
    } else if (e->kind == ENTRY_SENSOR) {
        d->counts.sensors += (uint64_t)change;
        h->n_sensors += (uint32_t)change;
    }
}

struct entry *directory_entry_add(struct directory *d, struct host *h, struct name *sensor,
                                  enum entry_kind kind)
{
    struct entry *e = mem_try_alloc(sizeof *e);
    if (!e)
        return NULL;
    e->id = (uint64_t)h->no << ID_BITS | ++d->last_id;
    e->sensor = names_ref(sensor);
    e->kind = (uint8_t)kind;
    e->is_new = true;
    *h->tail = e;
    h->tail = &e->next;
    count_entry(d, h, e, 1);
    return e;
}

static void destroy_entry(struct directory *d, struct entry *e)
{
    names_unref(&d->names, e->sensor);
    names_unref(&d->names, e->announced);
    names_unref(&d->names, e->announced_schemas);
    names_unref(&d->names, e->events);
    names_unref(&d->names, e->schemas);
    names_unref(&d->names, e->mode);
    names_unref(&d->names, e->why);
    mem_free(e);
}

void directory_entry_remove(struct directory *d, struct host *h, struct entry *e)
{
    struct directory_entry view;
    struct entry **at = &h->first;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (h->tail == &e->next)
        h->tail = at;
    count_entry(d, h, e, -1);
    heard_forget_owner(d, h, e);
    if (!e->is_new) {
        describe(d, h, e, &view);
        view.before = (enum directory_status)e->told;
        d->counts.missing -= e->told == DIRECTORY_MISSING;
        tell(d, &view, DIRECTORY_GONE);
    }
    destroy_entry(d, e);
}

/* ---------------------------------------------------------------- hosts */

struct host *directory_host_of(const struct directory *d, struct slice host)
{
    return map_get(&d->by_host, host);
}

/* A place for one more; 0: no memory. */
static uint32_t take_place(struct directory *d)
{
    if (d->by_host.n < d->n_places) { /* there is a free one, and the one that was left last is near */
        while (d->hosts[d->free_place % d->n_places])
            d->free_place++;
        return (uint32_t)(d->free_place % d->n_places) + 1;
    }
    if (d->n_places == d->cap_places) {
        size_t cap = d->cap_places ? d->cap_places * 2 : 64;
        struct host **hosts = mem_try_resize(d->hosts, cap * sizeof *hosts);
        if (!hosts)
            return 0;
        d->hosts = hosts;
        d->cap_places = cap;
    }
    d->hosts[d->n_places++] = NULL;
    return (uint32_t)d->n_places;
}

static int add_host(struct directory *d, struct slice host, int64_t utc_ns, struct host **out)
{
    if (d->by_host.n >= DIRECTORY_HOSTS_MAX || host.n == 0 || host.n > EVENT_ORIGIN_MAX)
        return E_LIMIT;
    struct host *h = mem_try_alloc(sizeof *h);
    if (!h)
        return -ENOMEM;
    h->name = names_get(&d->names, host);
    h->no = h->name ? take_place(d) : 0;
    if (!h->no || map_put(&d->by_host, name_slice(h->name), h) < 0) {
        names_unref(&d->names, h->name);
        mem_free(h);
        return -ENOMEM;
    }
    d->hosts[h->no - 1] = h;
    h->state = DIRECTORY_UNREGISTERED;
    h->since_ns = utc_ns;
    h->clock_bound_ns = CLOCK_BOUND_UNKNOWN;
    h->tail = &h->first;
    h->mades_tail = &h->mades;
    d->counts.hosts++;
    *out = h;
    return 0;
}

int directory_host_make(struct directory *d, struct slice host, int64_t utc_ns, struct host **out)
{
    struct host *h = directory_host_of(d, host);
    if (!h) {
        int r = add_host(d, host, utc_ns, &h);
        if (r < 0) {
            d->counts.refused_hosts++;
            return r;
        }
        tell_host(d, h, DIRECTORY_UNREGISTERED, DIRECTORY_ADDED);
        expect_settle(d, h);
    }
    *out = h;
    return 0;
}

static void destroy_host(struct directory *d, struct host *h)
{
    heard_forget_all(d, h);
    while (h->first) {
        struct entry *e = h->first;
        h->first = e->next;
        destroy_entry(d, e);
    }
    names_unref(&d->names, h->name);
    mem_free(h);
}

static void remove_host(struct directory *d, struct host *h)
{
    while (h->first)
        directory_entry_remove(d, h, h->first);
    tell_host(d, h, (enum directory_state)h->state, DIRECTORY_GONE);
    (void)map_remove(&d->by_host, name_slice(h->name)); /* it is h itself */
    d->hosts[h->no - 1] = NULL;
    d->free_place = h->no - 1;
    d->counts.hosts--;
    destroy_host(d, h);
}

static void set_state(struct directory *d, struct host *h, enum directory_state state, int64_t utc_ns)
{
    enum directory_state before = (enum directory_state)h->state;
    if (before == state)
        return;
    if (state == DIRECTORY_UNREGISTERED)
        h->has_list = false;
    h->state = (uint8_t)state;
    h->since_ns = utc_ns;
    tell_host(d, h, before, DIRECTORY_CHANGED);
    directory_tell_states(d, h);
}

int directory_host(struct directory *d, struct slice host, enum directory_state state, int64_t utc_ns)
{
    struct host *h;
    int r = directory_host_make(d, host, utc_ns, &h);
    if (r == 0)
        set_state(d, h, state, utc_ns);
    return r;
}

/* ---------------------------------------------------------------- what agents announce */

static struct entry *find_sensor(const struct host *h, const struct name *sensor)
{
    struct entry *e = h->first;
    while (e && (e->sensor != sensor || e->kind == ENTRY_PROGRAM || e->kind == ENTRY_SERVICE))
        e = e->next;
    return e;
}

int directory_list_begin(struct directory *d, struct slice host, int64_t utc_ns)
{
    struct host *h;
    int r = directory_host_make(d, host, utc_ns, &h);
    if (r == 0)
        h->list++;
    return r;
}

static bool is_too_long(const struct directory_sensor *s)
{
    return s->sensor.n == 0 || s->sensor.n > DIRECTORY_NAME_MAX || s->events.n > DIRECTORY_TEXT_MAX ||
           s->schemas.n > DIRECTORY_TEXT_MAX || s->mode.n > DIRECTORY_NAME_MAX ||
           s->why.n > DIRECTORY_TEXT_MAX;
}

enum { TEXT_MODE, TEXT_WHY, TEXT_EVENTS, TEXT_SCHEMAS, TEXTS };

static bool intern_texts(struct directory *d, const struct directory_sensor *s, struct name *out[TEXTS])
{
    const struct slice texts[TEXTS] = {s->mode, s->why, s->events, s->schemas};
    bool is_all = true;
    for (size_t i = 0; i < TEXTS; i++) {
        out[i] = names_get(&d->names, texts[i]);
        is_all = is_all && (out[i] || texts[i].n == 0);
    }
    for (size_t i = 0; !is_all && i < TEXTS; i++)
        names_unref(&d->names, out[i]);
    return is_all;
}

/* How much is new: 0 nothing, 1 a detail, 2 more. Takes the texts. */
static int update(struct directory *d, const struct host *h, struct entry *e,
                  const struct directory_sensor *s, struct name *texts[TEXTS])
{
    bool is_state = e->kind == ENTRY_EXPECTED || e->status != s->status || e->every_ms != s->every_ms;
    is_state = directory_swap_name(d, &e->mode, texts[TEXT_MODE]) || is_state;
    is_state = directory_swap_name(d, &e->why, texts[TEXT_WHY]) || is_state;
    bool is_detail = e->started_ns != s->started_ns;
    bool is_other = directory_swap_name(d, &e->announced, texts[TEXT_EVENTS]);
    is_other = directory_swap_name(d, &e->announced_schemas, texts[TEXT_SCHEMAS]) || is_other;
    if (is_other)
        (void)heard_list(d, h, e); /* without memory it is known by what it had */
    is_detail = is_detail || is_other;
    e->status = (uint8_t)s->status;
    e->every_ms = s->every_ms;
    e->started_ns = s->started_ns;
    return is_state ? 2 : is_detail;
}

/* What was expected and has come. */
static void make_sensor(struct directory *d, struct host *h, struct entry *e)
{
    count_entry(d, h, e, -1);
    e->kind = ENTRY_SENSOR;
    count_entry(d, h, e, 1);
}

/* The entry of that name, if need be a new one. */
static struct entry *sensor_entry(struct directory *d, struct host *h, struct slice sensor)
{
    struct name *name = names_get(&d->names, sensor);
    struct entry *e = name ? find_sensor(h, name) : NULL;
    if (name && !e && h->n_sensors < DIRECTORY_SENSORS_MAX)
        e = directory_entry_add(d, h, name, ENTRY_SENSOR);
    names_unref(&d->names, name);
    return e;
}

static struct entry *service_entry(struct directory *d, struct host *h, struct slice service)
{
    struct entry *e = h->first;
    while (e && (e->kind != ENTRY_SERVICE || !slice_eq(name_slice(e->sensor), service)))
        e = e->next;
    struct name *name = e ? NULL : names_get(&d->names, service);
    if (name)
        e = directory_entry_add(d, h, name, ENTRY_SERVICE);
    names_unref(&d->names, name);
    return e;
}

/* What s says of an entry of that host, and who is to know. */
static int take_announced(struct directory *d, struct host *h, const struct directory_sensor *s,
                          struct entry *(*entry_of)(struct directory *d, struct host *h, struct slice name))
{
    struct name *texts[TEXTS];
    if (!h || is_too_long(s)) {
        d->counts.refused_sensors++;
        return E_LIMIT;
    }
    bool is_interned = intern_texts(d, s, texts);
    struct entry *e = is_interned ? entry_of(d, h, s->sensor) : NULL;
    if (!e) {
        for (size_t i = 0; is_interned && i < TEXTS; i++)
            names_unref(&d->names, texts[i]);
        d->counts.refused_sensors++;
        return h->n_sensors >= DIRECTORY_SENSORS_MAX ? E_LIMIT : -ENOMEM;
    }
    e->list = h->list;
    int news = update(d, h, e, s, texts);
    if (e->kind == ENTRY_EXPECTED)
        make_sensor(d, h, e);
    if (e->is_new)
        directory_tell_added(d, h, e);
    else if (news)
        directory_tell_changed(d, h, e, news == 1);
    return 0;
}

int directory_list_sensor(struct directory *d, struct slice host, const struct directory_sensor *s)
{
    return take_announced(d, directory_host_of(d, host), s, sensor_entry);
}

int directory_service(struct directory *d, struct slice host, const struct directory_sensor *s,
                      int64_t utc_ns)
{
    struct host *h;
    int r = directory_host_make(d, host, utc_ns, &h);
    return r < 0 ? r : take_announced(d, h, s, service_entry);
}

void directory_list_end(struct directory *d, struct slice host, int64_t utc_ns)
{
    struct host *h = directory_host_of(d, host);
    if (!h)
        return;
    for (struct entry *next, *e = h->first; e; e = next) {
        next = e->next;
        if (e->kind == ENTRY_SENSOR && e->list != h->list)
            directory_entry_remove(d, h, e);
    }
    h->has_list = true;
    heard_settle(d, h, utc_ns);
    directory_tell_states(d, h); /* of what is expected: now it is known */
}

/* ---------------------------------------------------------------- time */

static bool is_over(const struct host *h)
{
    return h->state == DIRECTORY_EXPIRED || h->state == DIRECTORY_DEREGISTERED;
}

/* Programs that have been silent for too long, and all sensors of a host that is gone for good. Were there
 * any? */
static bool drop_silent(struct directory *d, struct host *h, int64_t mono_ns, bool is_gone)
{
    bool has_dropped = false;
    for (struct entry *next, *e = h->first; e; e = next) {
        next = e->next;
        bool is_silent = e->kind == ENTRY_PROGRAM && heard_last_mono(h, e) < mono_ns - d->keep_ns;
        if (!is_silent && (e->kind != ENTRY_SENSOR || !is_gone))
            continue;
        directory_entry_remove(d, h, e);
        has_dropped = true;
    }
    return has_dropped;
}

static bool has_more_than_expected(const struct host *h)
{
    for (const struct entry *e = h->first; e; e = e->next)
        if (e->kind != ENTRY_EXPECTED)
            return true;
    return false;
}

static void look_at(struct directory *d, struct host *h, int64_t mono_ns, int64_t utc_ns)
{
    bool is_gone = is_over(h) && utc_ns - h->since_ns > d->keep_ns;
    heard_tick(d, h, utc_ns);
    bool has_dropped = drop_silent(d, h, mono_ns, is_gone);
    if (is_gone)
        set_state(d, h, DIRECTORY_UNREGISTERED, utc_ns);
    if (has_dropped)
        expect_settle(d, h);
    if (h->state == DIRECTORY_UNREGISTERED && !h->is_expected && !has_more_than_expected(h))
        remove_host(d, h);
}

void directory_tick(struct directory *d, int64_t mono_ns, int64_t utc_ns)
{
    for (size_t i = 0; i < SWEEP_HOSTS && i < d->n_places; i++) {
        d->sweep = d->sweep < d->n_places ? d->sweep : 0;
        struct host *h = d->hosts[d->sweep++];
        if (h)
            look_at(d, h, mono_ns, utc_ns);
    }
    versions_tick(d, utc_ns);
}

/* ---------------------------------------------------------------- */

struct directory *directory_create(const struct directory_options *o)
{
    struct directory *d = mem_try_alloc(sizeof *d);
    if (!d)
        return NULL;
    d->keep_ns = o->keep_ns ? o->keep_ns : day_ns;
    d->domain = names_get(&d->names, slice_str(o->domain ? o->domain : "local"));
    if (!d->domain) {
        directory_destroy(d);
        return NULL;
    }
    return d;
}

void directory_destroy(struct directory *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_places; i++)
        if (d->hosts[i])
            destroy_host(d, d->hosts[i]);
    mem_free(d->hosts);
    map_fini(&d->by_host);
    expect_fini(d);
    versions_fini(d);
    names_unref(&d->names, d->domain);
    names_unref(&d->names, d->prog);
    map_fini(&d->names);
    strbuf_fini(&d->text);
    mem_free(d);
}

int directory_observe(struct directory *d, const struct directory_ops *ops, void *arg)
{
    if (d->n_observers == DIRECTORY_OBSERVERS)
        return -ENOMEM;
    d->observers[d->n_observers++] = (struct observer){ops, arg};
    return 0;
}

/* ---------------------------------------------------------------- reading */

static const struct entry *entry_behind(const struct host *h, uint64_t id)
{
    const struct entry *e = h->first;
    while (e && e->id <= id)
        e = e->next;
    return e;
}

static bool give(const struct directory *d, const struct host *h, const struct entry *e, uint64_t *id,
                 struct directory_entry *out)
{
    *id = e->id;
    describe(d, h, e, out);
    return true;
}

bool directory_next(const struct directory *d, uint64_t *id, struct directory_entry *out)
{
    size_t place = *id >> ID_BITS;
    for (size_t i = place ? place - 1 : 0; i < d->n_places; i++) {
        const struct entry *e = d->hosts[i] ? entry_behind(d->hosts[i], *id) : NULL;
        if (e)
            return give(d, d->hosts[i], e, id, out);
    }
    return false;
}

bool directory_next_of(const struct directory *d, struct slice host, uint64_t *id,
                       struct directory_entry *out)
{
    const struct host *h = directory_host_of(d, host);
    const struct entry *e = h ? entry_behind(h, *id) : NULL;
    return e && give(d, h, e, id, out);
}

bool directory_find(const struct directory *d, struct slice host, struct slice sensor,
                    struct directory_entry *out)
{
    const struct host *h = directory_host_of(d, host);
    const struct entry *e = h ? h->first : NULL;
    while (e && !slice_eq(name_slice(e->sensor), sensor))
        e = e->next;
    return e && give(d, h, e, &(uint64_t){0}, out);
}

bool directory_next_host(const struct directory *d, uint32_t *at, struct directory_host_entry *out)
{
    while (*at < d->n_places) {
        const struct host *h = d->hosts[(*at)++];
        if (!h)
            continue;
        describe_host(d, h, out);
        return true;
    }
    return false;
}

bool directory_find_host(const struct directory *d, struct slice host, struct directory_host_entry *out)
{
    const struct host *h = directory_host_of(d, host);
    if (h)
        describe_host(d, h, out);
    return h != NULL;
}

void directory_counts(const struct directory *d, struct directory_counts *out)
{
    *out = d->counts;
}
