/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/control_rows.h"

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/cursors.h"
#include "event/drop.h"
#include "gateway/row_filter.h"

#include <errno.h>

static const int64_t ns_per_ms = 1000000;

struct page {
    const struct rows_out *out;
    struct rows_end *end;
    struct args_writer row;
    size_t bytes;
    bool is_over; /* full, or nobody listens */
    int failed;
};

/* Hands the row out. false: it was not: it belongs to the next page, or could not be made. */
static bool give(struct page *p)
{
    if (strbuf_failed(&p->row.list)) {
        p->failed = -ENOMEM;
        p->is_over = true;
        return false;
    }
    if (p->end->rows && p->bytes + p->row.list.n > ROWS_PAGE) {
        p->end->has_more = true;
        p->is_over = true;
        return false;
    }
    p->bytes += p->row.list.n;
    p->end->rows++;
    p->is_over = !p->out->take(p->out->arg, args_of(&p->row));
    return true;
}

static int page_end(struct page *p)
{
    args_writer_fini(&p->row);
    return p->failed;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static void add_time(struct args_writer *row, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    args_add_text(row, name, slice_of(text, clock_print_iso(text, at_ns)));
}

/* ---------------------------------------------------------------- workers */

/* How its samples come, as far as the counts tell: all datagrams that it says it sent may have been lost. */
static const char *way_of(const struct worker *w)
{
    if (!w->sampler)
        return "none";
    return w->window.received ? "datagrams" : "stream";
}

static void add_lease(struct args_writer *row, const struct worker *w, int64_t boot_ns)
{
    args_add_text(row, "host", slice_str(w->host));
    args_add_uint(row, "worker", w->id);
    args_add_text(row, "state", slice_str(worker_state_name((enum worker_state)w->state)));
    add_time(row, "since", w->since_ns);
    args_add_text(row, "mode", slice_str(choice_mode_name(w)));
    args_add(row, SLICE_LIT("connected"), value_bool(w->link != NULL));
    args_add_uint(row, "lease_ms", w->lease_ms);
    if (w->renewed_ns)
        args_add_uint(row, "renewed_ms",
                      boot_ns > w->renewed_ns ? (uint64_t)((boot_ns - w->renewed_ns) / ns_per_ms) : 0);
    args_add_uint(row, "registrations", w->registrations);
    add_time(row, "registered", w->registered_ns);
    args_add(row, SLICE_LIT("clock_offset_ns"), value_int(w->clock_offset_ns));
}

static void add_datagrams(struct args_writer *row, const struct worker *w)
{
    const struct datagram_window *d = &w->window;
    uint64_t sent = w->datagrams_sent > d->highest ? w->datagrams_sent : d->highest;
    args_add_text(row, "samples", slice_str(way_of(w)));
    args_add_uint(row, "datagrams_sent", less(sent, w->datagrams_before));
    args_add_uint(row, "datagrams_received", d->received);
    args_add_uint(row, "datagrams_lost", worker_datagrams_lost(w));
    args_add_uint(row, "datagrams_duplicate", d->duplicate);
    args_add_uint(row, "datagrams_reordered", d->reordered);
    args_add_uint(row, "datagrams_too_old", d->too_old);
}

static bool has_name(struct args list, struct slice name)
{
    struct arg a;
    while (args_next(&list, &a))
        if (slice_eq(a.name, name))
            return true;
    return false;
}

/* What the directory knows of the host, and where it is. */
static void add_place(struct args_writer *row, const struct worker *w, const struct directory *d,
                      struct access_view *view)
{
    struct directory_host_entry h;
    struct slice host = slice_str(w->host);
    if (w->address && access_view_shows_property(view, host, SLICE_LIT("address")))
        args_add_text(row, "address", slice_str(w->address));
    if (!d || !directory_find_host(d, host, &h))
        return;
    args_add_text(row, "domain", h.domain);
    if (h.clock_bound_ns != CLOCK_BOUND_UNKNOWN)
        args_add_uint(row, "clock_bound_ns", h.clock_bound_ns);
    args_add_uint(row, "sensors", h.sensors);
    args_add_uint(row, "programs", h.programs);
    args_add_uint(row, "missing", h.missing);
}

/* Static properties; one that has the name of a column before them gives way, as do those that a list has no
 * room for. */
static void add_properties(struct args_writer *row, const struct worker *w, struct access_view *view)
{
    struct args properties = choice_list(w->properties, w->properties_n);
    struct arg a;
    while (row->n < ARGS_MAX && args_next(&properties, &a))
        if (!has_name(args_of(row), a.name) && access_view_shows_property(view, slice_str(w->host), a.name))
            args_add(row, a.name, a.value);
}

static void add_worker(struct page *p, const struct worker *w, const struct rows_source *from,
                       struct access_view *view)
{
    args_writer_reset(&p->row);
    add_lease(&p->row, w, from->boot_ns);
    add_place(&p->row, w, from->directory, view);
    add_datagrams(&p->row, w);
    add_properties(&p->row, w, view);
}

static void give_workers(struct page *p, const struct rows_source *from, struct choice *choice)
{
    struct rows_end *end = p->end;
    uint32_t last = workers_last_id(from->workers);
    for (size_t looked = 0; end->after < last && !p->is_over; looked++) {
        const struct worker *w = workers_by_id(from->workers, (uint32_t)end->after + 1);
        bool is_meant = w && choice_takes(choice, w);
        if (is_meant)
            add_worker(p, w, from, choice->view);
        if (!is_meant || give(p))
            end->after++;
        if (looked == ROWS_LOOKED && end->after < last)
            p->is_over = end->has_more = true;
    }
}

/* Is it no worker, and should be one? */
static bool is_missing(const struct rows_source *from, const struct directory_host_entry *h)
{
    return h->is_expected && h->state == DIRECTORY_UNREGISTERED && !workers_by_host(from->workers, h->host);
}

static void add_missing(struct args_writer *row, const struct directory_host_entry *h)
{
    args_writer_reset(row);
    args_add_text(row, "host", h->host);
    args_add_text(row, "state", SLICE_LIT("missing"));
    args_add(row, SLICE_LIT("connected"), value_bool(false));
    args_add_text(row, "domain", h->domain);
    args_add_uint(row, "sensors", h->sensors);
    args_add_uint(row, "programs", h->programs);
    args_add_uint(row, "missing", h->missing);
}

/* Its row has less than a worker's: what a predicate asks for and is not there is NULL. */
static bool is_chosen(struct choice *choice, const struct directory_host_entry *h, struct args row)
{
    struct row_filter filter = {.name = "worker", .where = choice->where, .registry = choice->registry};
    bool is_taken = choice_matches(choice->patterns, h->host) &&
                    access_view_shows(choice->view, h->host, SLICE_LIT("")) &&
                    row_filter_passes(&filter, row);
    choice->failed = filter.failed ? filter.failed : choice->failed;
    return is_taken;
}

static const uint64_t behind_workers = UINT64_C(1) << 32;

static void give_missing(struct page *p, const struct rows_source *from, struct choice *choice)
{
    struct rows_end *end = p->end;
    struct directory_host_entry h;
    uint32_t at = (uint32_t)(end->after - behind_workers), looked = 0;
    for (uint32_t before = at; !p->is_over && directory_next_host(from->directory, &at, &h); before = at) {
        bool is_meant = is_missing(from, &h);
        if (is_meant) {
            add_missing(&p->row, &h);
            is_meant = is_chosen(choice, &h, args_of(&p->row));
        }
        end->after = behind_workers + (!is_meant || give(p) ? at : before);
        if (looked++ == ROWS_LOOKED && !p->is_over)
            p->is_over = end->has_more = true;
    }
}

int rows_of_hosts(const struct rows_source *from, struct choice *choice, uint64_t after,
                  const struct rows_out *out, struct rows_end *end)
{
    *end = (struct rows_end){.after = after};
    struct page p = {.out = out, .end = end};
    if (after < behind_workers)
        give_workers(&p, from, choice);
    if (!p.is_over && from->directory) {
        end->after = end->after < behind_workers ? behind_workers : end->after;
        give_missing(&p, from, choice);
    }
    return page_end(&p);
}

/* ---------------------------------------------------------------- accounts */

/* Whose producer it is: an agent keeps its producers over epochs, so the producer is enough. */
struct owner {
    uint32_t worker;
    uint8_t producer[16]; /* the map's key */
};

struct owners {
    struct map by_producer;
    struct owner *all;
    size_t n, cap;
};

static void add_owner(struct owners *o, const struct worker *w, const struct frame_origin *origin)
{
    static const struct frame_origin none;
    if (o->n == o->cap || memcmp(origin->producer, none.producer, sizeof none.producer) == 0)
        return;
    struct owner *new = &o->all[o->n++];
    new->worker = w->id;
    memcpy(new->producer, origin->producer, sizeof new->producer);
}

static void note_owner(void *arg, struct worker *w)
{
    add_owner(arg, w, &w->origin);
    add_owner(arg, w, &w->samples);
}

static int owners_init(struct owners *o, struct workers *ws)
{
    o->cap = workers_count(ws) * 2;
    o->all = mem_try_alloc((o->cap + 1) * sizeof *o->all);
    if (!o->all)
        return -ENOMEM;
    workers_each(ws, note_owner, o);
    int r = 0;
    for (size_t i = 0; i < o->n && r == 0; i++)
        r = map_put(&o->by_producer, slice_of((const char *)o->all[i].producer, sizeof o->all[i].producer),
                    &o->all[i]);
    return r;
}

static void owners_fini(struct owners *o)
{
    map_fini(&o->by_producer);
    mem_free(o->all);
}

static uint32_t owner_of(const struct owners *o, const struct frame_origin *origin)
{
    const struct owner *found =
        map_get(&o->by_producer, slice_of((const char *)origin->producer, sizeof origin->producer));
    return found ? found->worker : 0;
}

static bool is_shown(struct access_view *view, const struct worker *w)
{
    return w ? access_view_shows(view, slice_str(w->host), SLICE_LIT("")) : access_view_is_whole(view);
}

int rows_list_init(struct rows_list *list, const struct ledger *l, struct workers *ws, struct slice patterns,
                   struct access_view *view)
{
    struct owners owners = {0};
    *list = (struct rows_list){.v = mem_try_alloc((l->accounts.n + 1) * sizeof *list->v)};
    int r = list->v ? owners_init(&owners, ws) : -ENOMEM;
    for (const struct account *a = r == 0 ? l->oldest : NULL; a; a = a->newer) {
        uint32_t worker = owner_of(&owners, &a->origin);
        const struct worker *w = worker ? workers_by_id(ws, worker) : NULL;
        if (is_shown(view, w) && (patterns.n == 0 || (w && choice_matches(patterns, slice_str(w->host)))))
            list->v[list->n++] = (struct rows_account){a->origin, worker};
    }
    owners_fini(&owners);
    if (r < 0)
        rows_list_fini(list);
    return r;
}

void rows_list_fini(struct rows_list *list)
{
    mem_free(list->v);
    *list = (struct rows_list){0};
}

/* What was sent and did not come. Samples: up to the highest number seen, or to what the sender says it
 * passed if that is more. Events: numbers left out, without those that were dropped here (the sender counts
 * them as refused) or by the sender after it had numbered them: these are in `dropped`. */
static uint64_t lost_of(const struct account *a, const struct frame_counts *sender)
{
    uint64_t highest = account_highest(a);
    if (a->class != CLASS_SAMPLES) {
        static const uint8_t numbered[] = {DROP_UNWRITABLE, DROP_MEMORY, DROP_FORCED};
        uint64_t dropped = a->refused + a->too_old;
        if (sender && sender->dropped[DROP_REFUSED] > dropped)
            dropped = sender->dropped[DROP_REFUSED];
        for (size_t i = 0; sender && i < sizeof numbered; i++)
            dropped += sender->dropped[numbered[i]];
        return less(highest, a->passed + a->queued + dropped);
    }
    uint64_t sent = sender && sender->passed > highest ? sender->passed : highest;
    return less(sent, less(a->taken, a->duplicate));
}

static void add_sender(struct args_writer *row, const struct frame_counts *k)
{
    uint64_t dropped = 0;
    for (unsigned i = 0; i < FRAME_REASONS; i++)
        dropped += i == DROP_FILTERED ? 0 : k->dropped[i];
    args_add_uint(row, "sender_taken", k->taken);
    args_add_uint(row, "sender_passed", k->passed);
    args_add_uint(row, "sender_queued", k->queued);
    args_add_uint(row, "sender_filtered", k->dropped[DROP_FILTERED]);
    args_add_uint(row, "sender_dropped", dropped);
    struct strbuf name = {0};
    for (unsigned i = 0; i < FRAME_REASONS && row->n < ARGS_MAX - 4; i++) {
        if (!k->dropped[i] || i == DROP_FILTERED)
            continue;
        strbuf_reset(&name);
        strbuf_add_str(&name, "sender_");
        ledger_print_reason(&name, i);
        args_add(row, strbuf_slice(&name), value_uint(k->dropped[i]));
    }
    strbuf_fini(&name);
}

/* How far it is known what the sender had: all of it when the epoch ended with a word, else at least so many.
 */
static void add_tail(struct args_writer *row, const struct account *a, const struct frame_counts *sender)
{
    uint64_t least = account_highest(a);
    if (sender && sender->taken > least)
        least = sender->taken;
    struct strbuf text = {0};
    if (a->is_closed)
        strbuf_add_str(&text, "known");
    else
        strbuf_printf(&text, "unknown, at least %llu", (unsigned long long)least);
    args_add_text(row, "tail", strbuf_slice(&text));
    args_add_uint(row, "at_least", least);
    strbuf_fini(&text);
}

static void add_account(struct args_writer *row, const struct account *a, const struct worker *w)
{
    struct frame_counts counts;
    const struct frame_counts *sender =
        a->counts_n && frame_get_counts(account_counts(a), &counts) == 0 ? &counts : NULL;
    char producer[2 * sizeof a->origin.producer + 1];
    for (size_t i = 0; i < sizeof a->origin.producer; i++)
        (void)snprintf(producer + 2 * i, 3, "%02x", a->origin.producer[i]); /* fits */
    if (w)
        args_add_text(row, "host", slice_str(w->host));
    args_add_text(row, "producer", slice_str(producer));
    args_add_uint(row, "epoch", a->origin.epoch);
    args_add_text(row, "class", slice_str(a->class == CLASS_SAMPLES ? "samples" : "events"));
    args_add_text(row, "state", slice_str(a->is_closed ? "closed" : "open"));
    args_add_uint(row, "taken", a->taken);
    args_add_uint(row, "passed", a->passed);
    args_add_uint(row, "duplicate", a->duplicate);
    args_add_uint(row, "refused", a->refused);
    args_add_uint(row, "too_old", a->too_old);
    args_add_uint(row, "too_new", a->too_new);
    args_add_uint(row, "no_schema", a->no_schema);
    args_add_uint(row, "queued", a->queued);
    args_add_uint(row, "retried", a->retried);
    args_add_uint(row, "lost", lost_of(a, sender));
    args_add_uint(row, "highest_seq", account_highest(a));
    if (sender)
        add_sender(row, sender);
    add_tail(row, a, sender);
}

static void add_overflow(struct args_writer *row, const struct account *a,
                         const struct archived_state *archived)
{
    for (size_t i = 0; archived && i < archived->n_overflow; i++) {
        const struct archived_overflow *o = &archived->overflow[i];
        if (memcmp(o->producer, a->origin.producer, sizeof o->producer) != 0)
            continue;
        args_add_uint(row, "archive_streams", o->streams);
        args_add_uint(row, "archive_overflow", o->rows);
    }
}

int rows_of_accounts(struct rows_list *list, const struct ledger *l, struct workers *ws,
                     const struct archived_state *archived, const struct rows_out *out, struct rows_end *end)
{
    *end = (struct rows_end){0};
    struct page p = {.out = out, .end = end};
    while (list->at < list->n && !p.is_over) {
        const struct rows_account *one = &list->v[list->at];
        const struct account *a = ledger_find(l, &one->origin);
        args_writer_reset(&p.row);
        if (a) {
            add_account(&p.row, a, one->worker ? workers_by_id(ws, one->worker) : NULL);
            add_overflow(&p.row, a, archived);
        }
        if (!a || give(&p))
            list->at++;
    }
    return page_end(&p);
}

int rows_of_cursors(const struct cursors *c, const struct rows_out *out, struct rows_end *end)
{
    struct args_writer row = {0};
    bool is_heard = true;
    for (size_t i = 0; i < c->n && is_heard && !strbuf_failed(&row.list); i++) {
        const struct cursor_mark *m = &c->all[i];
        char producer[sizeof "durable:" + CURSOR_NAME_MAX];
        if (m->is_removed || m->gone == 0)
            continue;
        (void)snprintf(producer, sizeof producer, "durable:%s", m->name); /* fits */
        args_writer_reset(&row);
        args_add_text(&row, "producer", slice_str(producer));
        args_add_text(&row, "class", SLICE_LIT("events"));
        args_add_text(&row, "state", SLICE_LIT("cursor"));
        args_add_uint(&row, "gone_records", m->gone);
        args_add_uint(&row, "refilled", m->refilled);
        args_add_uint(&row, "lost", m->lost);
        args_add_uint(&row, "gap_records", m->lost_records);
        end->rows++;
        is_heard = out->take(out->arg, args_of(&row));
    }
    int r = strbuf_failed(&row.list) ? -ENOMEM : 0;
    args_writer_fini(&row);
    return r;
}
