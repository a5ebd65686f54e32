/* SPDX-License-Identifier: Apache-2.0 */
/* What the events themselves tell: when each (host, event name) was heard, how often, with which schema; and
 * which names nobody announced.
 *
 * A name that a sensor of the host announced is that sensor's, whoever wrote the event. Any other belongs to
 * the program that wrote it: to the sensor TYPE/PROG where there is one (not all that `exec` or `logfile`
 * make is known before), else to an entry of mode `program`. While a registered host's list has not come
 * nothing is known of either, and what is heard waits without an owner (a minute at most: there may be agents
 * that announce nothing).
 *
 * Runs of events of one host, program and schema are looked up once; and as hosts make the same events in the
 * same order again and again, the search for the next begins behind the last. Rates need no timer: a name
 * counts its events in a window of a minute and remembers the window before; how much of that one still
 * counts is worked out when somebody asks. */
#include "base/mem.h"
#include "base/text.h"
#include "directory/internal.h"

#include <errno.h>
#include <inttypes.h>

static const int64_t rate_window_ns = INT64_C(60) * 1000000000, ns_per_s = 1000000000;
static const int64_t list_wait_ns = INT64_C(60) * 1000000000;

/* ---------------------------------------------------------------- how often */

/* The window that now_ns is in. */
static void move_window(struct made *m, int64_t now_ns)
{
    int64_t gone = now_ns - m->window_ns;
    if (gone < rate_window_ns)
        return;
    m->in_last = gone < 2 * rate_window_ns ? m->in_window : 0;
    m->in_window = 0;
    m->window_ns += gone / rate_window_ns * rate_window_ns;
}

static double rate_of(const struct made *m, int64_t now_ns)
{
    struct made now = *m;
    if (!m->events)
        return 0;
    move_window(&now, now_ns);
    double done = (double)(now_ns - now.window_ns) / (double)rate_window_ns;
    double n = (double)now.in_last * (1 - done) + (double)now.in_window;
    int64_t span = now_ns - m->first_ns;
    span = span < ns_per_s ? ns_per_s : span > rate_window_ns ? rate_window_ns : span;
    return n * 1e9 / (double)span;
}

static void count(struct made *m, uint64_t n, int64_t time_ns, int64_t mono_ns)
{
    if (!m->events)
        m->first_ns = m->window_ns = mono_ns;
    move_window(m, mono_ns);
    m->heard_ns = mono_ns;
    m->events += n;
    m->in_window += n;
    if (time_ns > m->last_ns)
        m->last_ns = time_ns;
}

/* ---------------------------------------------------------------- names of a host */

static bool is_it(const struct made *m, const struct name *event, const struct name *prog)
{
    return m->event == event && (!m->prog || m->prog == prog);
}

static struct made *find(const struct host *h, const struct name *event, const struct name *prog)
{
    struct made *behind = h->recent ? h->recent->next : NULL, *m;
    for (m = behind; m; m = m->next)
        if (is_it(m, event, prog))
            return m;
    for (m = h->mades; m != behind; m = m->next)
        if (is_it(m, event, prog))
            return m;
    return NULL;
}

static struct made *add(struct host *h, struct name *event, struct name *prog)
{
    struct made *m = mem_try_alloc(sizeof *m);
    if (!m)
        return NULL;
    m->event = names_ref(event);
    m->prog = names_ref(prog);
    m->host = h;
    *h->mades_tail = m;
    h->mades_tail = &m->next;
    h->n_mades += prog != NULL;
    return m;
}

/* *at is out of the list. */
static void remove_at(struct directory *d, struct host *h, struct made **at)
{
    struct made *m = *at;
    *at = m->next;
    if (h->mades_tail == &m->next)
        h->mades_tail = at;
    if (h->recent == m)
        h->recent = NULL;
    versions_link(NULL, m);
    h->n_mades -= m->prog != NULL;
    names_unref(&d->names, m->event);
    names_unref(&d->names, m->prog);
    mem_free(m);
}

void heard_forget_all(struct directory *d, struct host *h)
{
    while (h->mades)
        remove_at(d, h, &h->mades);
}

void heard_forget_owner(struct directory *d, struct host *h, const struct entry *e)
{
    for (struct made **at = &h->mades; *at;)
        if ((*at)->owner == e)
            remove_at(d, h, at);
        else
            at = &(*at)->next;
}

/* ---------------------------------------------------------------- owners */

/* Texts that may be NULL for "". */
static bool intern_both(struct directory *d, struct slice a, struct slice b, struct name **a_out,
                        struct name **b_out)
{
    *a_out = names_get(&d->names, a);
    *b_out = names_get(&d->names, b);
    if ((*a_out || a.n == 0) && (*b_out || b.n == 0))
        return true;
    names_unref(&d->names, *a_out);
    names_unref(&d->names, *b_out);
    return false;
}

static size_t count_commas(struct slice s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == ',';
    return n;
}

int heard_list(struct directory *d, const struct host *h, struct entry *e)
{
    struct strbuf schemas = {0};
    struct name *events, *hashes;
    strbuf_reset(&d->text);
    strbuf_add_slice(&d->text, name_slice(e->announced));
    strbuf_add_slice(&schemas, name_slice(e->announced_schemas));
    for (size_t n = count_commas(strbuf_slice(&schemas)); n < count_commas(strbuf_slice(&d->text)); n++)
        strbuf_add_char(&schemas, ','); /* each hash is in the place of its name */
    for (const struct made *m = h->mades; m; m = m->next) {
        if (m->owner != e)
            continue;
        strbuf_add_str(&schemas, d->text.n ? "," : "");
        strbuf_printf(&d->text, "%s%.*s", d->text.n ? "," : "", SLICE_ARG(name_slice(m->event)));
        if (m->version)
            strbuf_printf(&schemas, "%016" PRIx64, m->version->hash);
    }
    bool is_made = !strbuf_failed(&d->text) && !strbuf_failed(&schemas) &&
                   intern_both(d, strbuf_slice(&d->text), strbuf_slice(&schemas), &events, &hashes);
    strbuf_fini(&schemas);
    if (!is_made)
        return -ENOMEM;
    bool is_other = directory_swap_name(d, &e->events, events);
    return directory_swap_name(d, &e->schemas, hashes) || is_other;
}

/* Tells what it owns by now. Without memory it is known by the names it had. */
static void relist(struct directory *d, const struct host *h, struct entry *e)
{
    bool is_other = heard_list(d, h, e) > 0;
    if (e->is_new)
        directory_tell_added(d, h, e);
    else if (is_other)
        directory_tell_changed(d, h, e, true);
}

/* "root-disk" of "exec/root-disk". */
static struct slice title_of(const struct entry *e)
{
    struct slice s = name_slice(e->sensor);
    const char *slash = memchr(s.p, '/', s.n);
    return slash ? slice_from(s, (size_t)(slash + 1 - s.p)) : slice_from(s, s.n);
}

int64_t heard_last_mono(const struct host *h, const struct entry *e)
{
    int64_t last = INT64_MIN;
    for (const struct made *m = h->mades; m; m = m->next)
        if (m->owner == e && m->heard_ns > last)
            last = m->heard_ns;
    return last;
}

static void evict_program(struct directory *d, struct host *h)
{
    struct entry *silent = NULL;
    int64_t silent_ns = INT64_MAX;
    for (struct entry *e = h->first; e; e = e->next) {
        int64_t last = e->kind == ENTRY_PROGRAM ? heard_last_mono(h, e) : INT64_MAX;
        if (last < silent_ns) {
            silent = e;
            silent_ns = last;
        }
    }
    if (!silent)
        return;
    d->counts.evicted_programs++;
    directory_entry_remove(d, h, silent);
}

/* Whose events of that program are, if nobody announced them; made if need be, and then told by relist. */
static struct entry *owner_of(struct directory *d, struct host *h, struct name *prog, int64_t utc_ns)
{
    struct entry *program = NULL;
    for (struct entry *e = h->first; e; e = e->next) {
        if (e->kind == ENTRY_SENSOR && slice_eq(title_of(e), name_slice(prog)))
            return e;
        if (e->kind == ENTRY_PROGRAM && e->sensor == prog)
            program = e;
    }
    if (program)
        return program;
    if (h->n_programs >= DIRECTORY_PROGRAMS_MAX)
        evict_program(d, h);
    struct name *mode = names_get(&d->names, SLICE_LIT("program"));
    struct entry *e = mode ? directory_entry_add(d, h, prog, ENTRY_PROGRAM) : NULL;
    if (!e) {
        names_unref(&d->names, mode);
        return NULL;
    }
    e->mode = mode;
    e->started_ns = utc_ns;
    return e;
}

/* Programs that own nothing any more. */
static void drop_empty(struct directory *d, struct host *h)
{
    for (struct entry *next, *e = h->first; e; e = next) {
        next = e->next;
        if (e->kind == ENTRY_PROGRAM && heard_last_mono(h, e) == INT64_MIN)
            directory_entry_remove(d, h, e);
    }
}

/* Everything that nobody announced, to whoever it is of. Making room for a program may take out others, never
 * m. */
static void assign(struct directory *d, struct host *h, int64_t utc_ns)
{
    for (struct made *m = h->mades; m; m = m->next) {
        struct entry *owner = m->prog ? owner_of(d, h, m->prog, utc_ns) : NULL;
        if (m->prog && !owner)
            d->counts.refused_events += m->events;
        m->owner = owner;
    }
    drop_empty(d, h);
    for (struct entry *e = h->first; e; e = e->next)
        if (e->kind != ENTRY_EXPECTED)
            relist(d, h, e);
    expect_settle(d, h);
}

static bool waits_for_list(const struct host *h, int64_t utc_ns)
{
    bool is_worker = h->state == DIRECTORY_LIVE || h->state == DIRECTORY_LATE;
    return is_worker && !h->has_list && utc_ns - h->since_ns < list_wait_ns;
}

void heard_tick(struct directory *d, struct host *h, int64_t utc_ns)
{
    for (const struct made *m = h->mades; m; m = m->next)
        if (m->prog && !m->owner && !waits_for_list(h, utc_ns)) {
            assign(d, h, utc_ns);
            return;
        }
}

/* ---------------------------------------------------------------- a list has come */

/* The first of a list by commas, which gets shorter. */
static struct slice take_first(struct slice *list)
{
    const char *comma = memchr(list->p, ',', list->n);
    struct slice one = comma ? slice_of(list->p, (size_t)(comma - list->p)) : *list;
    *list = slice_from(*list, one.n + (comma != NULL));
    return one;
}

static bool parse_hash(struct slice text, uint64_t *out)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < text.n; i++) {
        int digit = text_hex_digit(text.p[i]);
        if (digit < 0)
            return false;
        hash = hash << 4 | (uint64_t)digit;
    }
    *out = hash;
    return text.n == 16;
}

/* What was heard of the name before its sensor was announced goes on as the sensor's. */
static struct made *announce(struct directory *d, struct host *h, struct name *event)
{
    struct made *m = find(h, event, NULL);
    if (m)
        return m;
    for (m = h->mades; m && m->event != event;)
        m = m->next;
    if (!m)
        return add(h, event, NULL);
    h->n_mades--;
    names_unref(&d->names, m->prog);
    m->prog = NULL;
    m->owner = NULL;
    return m;
}

static void announce_events(struct directory *d, struct host *h, const struct entry *e, int64_t utc_ns)
{
    struct slice events = name_slice(e->announced), hashes = name_slice(e->announced_schemas);
    while (events.n) {
        struct slice text = take_first(&events), hash_text = take_first(&hashes);
        uint64_t hash;
        struct name *event = names_get(&d->names, text);
        struct made *m = event ? announce(d, h, event) : NULL;
        if (m) {
            m->is_listed = true;
            if (parse_hash(hash_text, &hash))
                versions_link(versions_see(d, text, hash, NULL, utc_ns), m);
        } else if (text.n) {
            d->counts.refused_events++;
        }
        names_unref(&d->names, event);
    }
}

void heard_settle(struct directory *d, struct host *h, int64_t utc_ns)
{
    for (struct made *m = h->mades; m; m = m->next)
        m->is_listed = false;
    for (struct entry *e = h->first; e; e = e->next)
        if (e->kind == ENTRY_SENSOR)
            announce_events(d, h, e, utc_ns);
    for (struct made **at = &h->mades; *at;) {
        struct made *m = *at;
        bool is_over = m->prog ? find(h, m->event, NULL) != NULL : !m->is_listed;
        if (is_over)
            remove_at(d, h, at);
        else
            at = &m->next;
    }
    assign(d, h, utc_ns);
}

/* ---------------------------------------------------------------- batches */

/* What the events before in this batch were. */
struct run {
    const struct schema *schema;
    struct slice host_text, prog_text;
    struct version *version; /* NULL: there is no room for it */
    struct host *host;
    struct made *made; /* NULL: there is no room for it */
    uint64_t n;        /* events of it that were not counted yet */
    int64_t time_ns;   /* the newest of them */
};

static void end_run(struct directory *d, struct run *r, int64_t mono_ns, int64_t utc_ns)
{
    if (r->n == 0)
        return;
    if (r->version) {
        r->version->events += r->n;
        r->version->last_ns = utc_ns;
    }
    if (r->made)
        count(r->made, r->n, r->time_ns < utc_ns ? r->time_ns : utc_ns, mono_ns);
    else
        d->counts.refused_events += r->n;
    r->n = 0;
    r->time_ns = INT64_MIN;
}

static struct made *hear_new(struct directory *d, struct host *h, struct name *event, struct name *prog,
                             int64_t utc_ns)
{
    struct made *m = h->n_mades < DIRECTORY_EVENTS_MAX ? add(h, event, prog) : NULL;
    if (!m || waits_for_list(h, utc_ns))
        return m;
    m->owner = owner_of(d, h, prog, utc_ns);
    if (m->owner)
        return m;
    struct made **at = &h->mades;
    while (*at != m)
        at = &(*at)->next;
    remove_at(d, h, at);
    return NULL;
}

/* Borrowed until it is asked for another one; NULL: no memory. */
static struct name *prog_of(struct directory *d, struct slice text)
{
    text = text.n ? text : SLICE_LIT("unknown");
    if (!slice_eq(name_slice(d->prog), text))
        (void)directory_swap_name(d, &d->prog, names_get(&d->names, text));
    return d->prog;
}

/* The host's name of the event; NULL: there is no room. */
static struct made *made_of(struct directory *d, const struct run *r, int64_t utc_ns)
{
    struct name *event = r->version ? names_ref(r->version->of->name) : names_get(&d->names, r->schema->name);
    struct name *prog = prog_of(d, r->prog_text);
    struct made *m = event && prog ? find(r->host, event, prog) : NULL;
    bool is_new = !m;
    if (!m && event && prog)
        m = hear_new(d, r->host, event, prog, utc_ns);
    r->host->recent = m;
    if (m && r->version) {
        is_new = is_new || r->version->id > m->newest; /* going back and forth between two is not news */
        m->newest = is_new ? r->version->id : m->newest;
        versions_link(r->version, m);
    }
    if (m && is_new && m->owner) {
        relist(d, r->host, m->owner);
        expect_settle(d, r->host);
    }
    names_unref(&d->names, event);
    return m;
}

static bool is_same_text(struct slice a, struct slice b)
{
    return (a.p == b.p && a.n == b.n) || slice_eq(a, b); /* within a batch they are mostly one */
}

static void begin_run(struct directory *d, struct run *r, const struct event *e, int64_t utc_ns)
{
    if (r->schema != e->schema)
        r->version = versions_of(d, e->schema, utc_ns);
    r->schema = e->schema;
    if (!r->host || !is_same_text(r->host_text, e->host)) {
        r->host = NULL;
        if (e->host.n) /* else nobody knows where: the schema is all there is to learn */
            (void)directory_host_make(d, e->host, utc_ns, &r->host); /* counted where it fails */
    }
    r->host_text = e->host;
    r->prog_text = e->prog;
    r->made = r->host ? made_of(d, r, utc_ns) : NULL;
}

static bool is_of_run(const struct run *r, const struct event *e)
{
    return r->schema == e->schema && is_same_text(r->host_text, e->host) &&
           is_same_text(r->prog_text, e->prog);
}

void directory_batch(struct directory *d, const struct batch *b, int64_t mono_ns, int64_t utc_ns)
{
    struct run r = {.time_ns = INT64_MIN};
    for (size_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];
        if (!is_of_run(&r, e)) {
            end_run(d, &r, mono_ns, utc_ns);
            begin_run(d, &r, e, utc_ns);
        }
        r.n++;
        if (e->time_ns > r.time_ns)
            r.time_ns = e->time_ns;
    }
    end_run(d, &r, mono_ns, utc_ns);
    if (r.host && b->origin.clock.bound_ns != CLOCK_BOUND_UNKNOWN) /* a producer is of one host */
        r.host->clock_bound_ns = b->origin.clock.bound_ns;
}

void directory_activity(const struct directory *d, const struct directory_entry *e, struct slice event,
                        int64_t mono_ns, struct directory_activity *out)
{
    const struct host *h = directory_host_of(d, e->host);
    const struct name *name = names_find(&d->names, event);
    *out = (struct directory_activity){0};
    for (const struct made *m = h && name ? h->mades : NULL; m; m = m->next)
        if (m->event == name && (!m->prog || (m->owner && m->owner->id == e->id))) {
            out->events += m->events;
            out->rate += rate_of(m, mono_ns);
            out->last_ns = m->last_ns > out->last_ns ? m->last_ns : out->last_ns;
        }
}
