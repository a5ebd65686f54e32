/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ledger.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>

static struct slice key_of(const struct frame_origin *o)
{
    _Static_assert(sizeof *o == 24, "the key has no padding");
    return slice_of((const char *)o, sizeof *o);
}

/* Frees what it holds. */
static void clear(struct account *a)
{
    if (a->class == CLASS_EVENTS) {
        seq_set_fini(&a->held);
        for (int g = 0; g < LEDGER_GROUPS; g++)
            seq_set_fini(&a->pending[g]);
    }
    mem_free(a->counts);
}

static void destroy(struct account *a)
{
    clear(a);
    mem_free(a);
}

void ledger_fini(struct ledger *l)
{
    while (l->oldest) {
        struct account *a = l->oldest;
        l->oldest = a->newer;
        destroy(a);
    }
    map_fini(&l->accounts);
    mem_free(l->walk);
    *l = (struct ledger){0};
}

static void unlink_account(struct ledger *l, struct account *a)
{
    *(a->newer ? &a->newer->older : &l->newest) = a->older;
    *(a->older ? &a->older->newer : &l->oldest) = a->newer;
}

static void link_newest(struct ledger *l, struct account *a)
{
    a->older = l->newest;
    a->newer = NULL;
    *(l->newest ? &l->newest->newer : &l->oldest) = a;
    l->newest = a;
}

static void forget(struct ledger *l, struct account *a)
{
    unlink_account(l, a);
    (void)map_remove(&l->accounts, key_of(&a->origin)); /* it is a itself */
    if (a->walk_at < l->n_walk && l->walk[a->walk_at] == a)
        l->walk[a->walk_at] = NULL;
    destroy(a);
    l->forgotten++;
}

static bool is_in_use(const struct account *a)
{
    return a->queued || a->pins || !account_has_origin(a);
}

static void forget_oldest(struct ledger *l)
{
    struct account *a = l->oldest;
    while (a && is_in_use(a))
        a = a->newer;
    if (a)
        forget(l, a);
}

void ledger_expire(struct ledger *l, uint32_t keep_s)
{
    for (struct account *a = l->oldest, *newer;
         a && a->active_s < l->now_s && l->now_s - a->active_s > keep_s; a = newer) {
        newer = a->newer;
        if (is_in_use(a) || a->is_kept)
            continue;
        if (a->class == CLASS_EVENTS && a->active_s > l->forgotten_s)
            l->forgotten_s = a->active_s;
        forget(l, a);
    }
}

static struct account *make(struct ledger *l, const struct frame_origin *origin)
{
    if (l->accounts.n >= (l->max ? l->max : LEDGER_MAX))
        forget_oldest(l);
    struct account *a = mem_try_alloc(sizeof *a);
    if (!a)
        return NULL;
    a->origin = *origin;
    a->walk_at = UINT32_MAX;
    if (map_put(&l->accounts, key_of(&a->origin), a) < 0) {
        mem_free(a);
        return NULL;
    }
    link_newest(l, a);
    return a;
}

struct account *ledger_find(const struct ledger *l, const struct frame_origin *origin)
{
    return map_get(&l->accounts, key_of(origin));
}

struct account *ledger_account(struct ledger *l, const struct frame_origin *origin)
{
    struct account *a = ledger_find(l, origin);
    if (!a)
        a = make(l, origin);
    if (!a)
        return NULL;
    if (a != l->newest) {
        unlink_account(l, a);
        link_newest(l, a);
    }
    a->active_s = l->now_s;
    return a;
}

int ledger_walk(struct ledger *l)
{
    ledger_walk_end(l);
    l->walk = mem_try_alloc((l->accounts.n ? l->accounts.n : 1) * sizeof *l->walk);
    if (!l->walk)
        return -ENOMEM;
    for (struct account *a = l->oldest; a; a = a->newer) {
        a->walk_at = (uint32_t)l->n_walk;
        l->walk[l->n_walk++] = a;
    }
    return 0;
}

struct account *ledger_walk_next(struct ledger *l)
{
    while (l->walked < l->n_walk) {
        struct account *a = l->walk[l->walked++];
        if (a)
            return a;
    }
    return NULL;
}

void ledger_walk_end(struct ledger *l)
{
    mem_free(l->walk);
    l->walk = NULL;
    l->n_walk = l->walked = 0;
}

/* An account as bytes: producer; u64 epoch; u8 class, | 2 if it is closed, | 4 if it has the next two, | 8 if
 * it is kept; u32 active_s; varints passed, duplicate, refused, too_old, no_schema, perhaps too_new and
 * bridged; of samples varint highest; of events varint n, and n times varint first, varint last - first:
 * these may touch and overlap; text COUNTS. */
enum { ACCOUNT_CLOSED = 2, ACCOUNT_MORE = 4, ACCOUNT_KEPT = 8 };

static void put_ranges(struct strbuf *out, const struct seq_set *s)
{
    for (size_t i = 0; i < s->n; i++) {
        strbuf_add_varint(out, s->ranges[i].first);
        strbuf_add_varint(out, s->ranges[i].last - s->ranges[i].first);
    }
}

void account_put(struct strbuf *out, const struct account *a)
{
    bool has_set = a->class == CLASS_EVENTS && account_has_origin(a);
    uint64_t bridged = a->class == CLASS_EVENTS ? a->bridged : 0;
    bool has_more = a->too_new || bridged;
    frame_put_origin(out, &a->origin);
    strbuf_add_char(out, (char)(a->class | (a->is_closed ? ACCOUNT_CLOSED : 0) |
                                (has_more ? ACCOUNT_MORE : 0) | (a->is_kept ? ACCOUNT_KEPT : 0)));
    strbuf_add_u32(out, a->active_s);
    strbuf_add_varint(out, has_set ? 0 : a->passed + a->queued); /* the set says it */
    strbuf_add_varint(out, a->duplicate);
    strbuf_add_varint(out, a->refused);
    strbuf_add_varint(out, a->too_old);
    strbuf_add_varint(out, a->no_schema);
    if (has_more) {
        strbuf_add_varint(out, a->too_new);
        strbuf_add_varint(out, bridged);
    }
    if (a->class == CLASS_SAMPLES) {
        strbuf_add_varint(out, a->highest);
    } else {
        strbuf_add_varint(out, a->held.n + a->pending[0].n + a->pending[1].n);
        put_ranges(out, &a->held);
        put_ranges(out, &a->pending[0]);
        put_ranges(out, &a->pending[1]);
    }
    strbuf_add_text(out, account_counts(a));
}

static int get_ranges(struct account *a, struct cursor *c)
{
    uint64_t n = cursor_varint(c);
    int r = n > (1 + LEDGER_GROUPS) * SEQ_SET_MAX ? E_PROTO : 0;
    for (uint64_t i = 0; i < n && r == 0; i++) {
        uint64_t first = cursor_varint(c), more = cursor_varint(c);
        if (c->bad || first == 0 || more > UINT64_MAX - first)
            return E_PROTO;
        r = seq_set_add(&a->held, first, first + more);
    }
    return r == E_LIMIT ? E_PROTO : r;
}

/* Reads what behind the origin and flags is; a has these and is otherwise empty. */
static int get_sums(struct account *a, struct cursor *c, uint8_t flags)
{
    struct frame_counts counts;
    a->active_s = cursor_u32(c);
    a->passed = cursor_varint(c);
    a->duplicate = cursor_varint(c);
    a->refused = cursor_varint(c);
    a->too_old = cursor_varint(c);
    a->no_schema = cursor_varint(c);
    a->too_new = flags & ACCOUNT_MORE ? cursor_varint(c) : 0;
    uint64_t bridged = flags & ACCOUNT_MORE ? cursor_varint(c) : 0;
    int r = 0;
    if (a->class == CLASS_SAMPLES)
        a->highest = cursor_varint(c);
    else
        r = get_ranges(a, c);
    if (a->class == CLASS_EVENTS && account_has_origin(a)) {
        a->passed = seq_set_count(&a->held);
        a->bridged = bridged < a->passed ? bridged : a->passed; /* some may not have been settled then */
        a->passed -= a->bridged;
    }
    a->taken = a->passed + a->duplicate + a->refused + a->too_old + a->too_new + a->no_schema;
    struct slice payload = cursor_text(c);
    if (r < 0 || c->bad || !account_check(a))
        return r < 0 ? r : E_PROTO;
    if (payload.n == 0)
        return 0;
    if (frame_get_counts(payload, &counts) < 0 || counts.class != a->class ||
        !frame_same_origin(&counts.origin, &a->origin))
        return E_PROTO;
    r = account_set_counts(a, payload, &counts);
    return r < 0 ? r : 0;
}

int ledger_get_account(struct ledger *l, struct cursor *c)
{
    if (cursor_left(c) == 0)
        return c->bad ? E_PROTO : 0;
    struct account read = {.origin = frame_get_origin(c)};
    uint8_t flags = cursor_u8(c);
    if (c->bad || flags > (CLASS_SAMPLES | ACCOUNT_CLOSED | ACCOUNT_MORE | ACCOUNT_KEPT))
        return E_PROTO;
    read.class = flags & CLASS_SAMPLES;
    int r = get_sums(&read, c, flags);
    struct account *a = r == 0 ? ledger_account(l, &read.origin) : NULL;
    if (!a) {
        clear(&read);
        return r < 0 ? r : -ENOMEM;
    }
    clear(a);
    read.is_closed = read.is_closed || flags & ACCOUNT_CLOSED;
    read.is_kept = flags & ACCOUNT_KEPT;
    read.newer = a->newer;
    read.older = a->older;
    read.pins = a->pins;
    read.walk_at = a->walk_at;
    *a = read;
    return 1;
}

bool account_set_class(struct account *a, enum frame_class class)
{
    if (a->class == class)
        return true;
    if (a->taken || a->counts || !account_has_origin(a))
        return false;
    clear(a); /* nothing is in it; the other class starts from zeros, too */
    a->class = (uint8_t) class;
    return true;
}

int account_set_counts(struct account *a, struct slice payload, const struct frame_counts *counts)
{
    struct frame_counts kept;
    if (!account_set_class(a, counts->class))
        return 0;
    if (a->counts && frame_get_counts(account_counts(a), &kept) == 0 &&
        (counts->taken < kept.taken || kept.is_final))
        return 0;
    char *copy = mem_try_alloc(payload.n ? payload.n : 1);
    if (!copy)
        return -ENOMEM;
    if (payload.n)
        memcpy(copy, payload.p, payload.n);
    mem_free(a->counts);
    a->counts = copy;
    a->counts_n = (uint32_t)payload.n;
    a->is_closed = a->is_closed || counts->is_final;
    return 1;
}

bool account_has_origin(const struct account *a)
{
    static const struct frame_origin none;
    return memcmp(a->origin.producer, none.producer, sizeof none.producer) != 0;
}

bool account_missing(const struct account *a, uint64_t first, uint64_t last, struct seq_range *out)
{
    const struct seq_set *sets[] = {&a->held, &a->pending[0], &a->pending[1]};
    for (;;) {
        struct seq_range gap = {first, last};
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
            struct seq_range within = gap;
            if (!seq_set_missing(sets[i], within.first, within.last, &gap)) {
                if (within.last == last)
                    return false;
                first = within.last + 1;
                gap.first = 0;
                break;
            }
        }
        if (gap.first == 0)
            continue; /* all of that run is in another set */
        *out = gap;
        return true;
    }
}

uint64_t account_highest(const struct account *a)
{
    return a->class == CLASS_SAMPLES ? a->highest : seq_set_max(&a->held);
}

uint64_t account_lost(const struct account *a)
{
    return a->class == CLASS_SAMPLES && a->highest > a->taken ? a->highest - a->taken : 0;
}

bool account_check(const struct account *a)
{
    if (a->taken !=
        a->passed + a->duplicate + a->refused + a->too_old + a->too_new + a->no_schema + a->queued)
        return false;
    if (a->class == CLASS_SAMPLES)
        return a->queued == a->pending_rows[0] + a->pending_rows[1] && (a->taken == 0 || a->highest);
    return seq_set_check(&a->held) && seq_set_check(&a->pending[0]) && seq_set_check(&a->pending[1]) &&
           (!account_has_origin(a) || seq_set_count(&a->held) == a->passed + a->bridged);
}

void ledger_print_reason(struct strbuf *out, unsigned reason)
{
    static const char *const names[] = {"",           "ring_full", "nested",  "too_large",
                                        "unwritable", "memory",    "refused", "too_old",
                                        "no_schema",  "filtered",  "forced",  "too_new", "streams"};
    if (reason && reason < sizeof names / sizeof *names)
        strbuf_add_str(out, names[reason]);
    else
        strbuf_printf(out, "reason_%u", reason);
}

static void print_counts(struct slice payload, struct strbuf *out)
{
    struct frame_counts k;
    if (frame_get_counts(payload, &k) < 0) {
        strbuf_add_str(out, "null");
        return;
    }
    strbuf_printf(out, "{\"taken\":%" PRIu64 ",\"passed\":%" PRIu64 ",\"queued\":%" PRIu64 ",\"dropped\":{",
                  k.taken, k.passed, k.queued);
    const char *comma = "";
    for (unsigned i = 0; i < FRAME_REASONS; i++) {
        if (k.dropped[i] == 0)
            continue;
        strbuf_printf(out, "%s\"", comma);
        ledger_print_reason(out, i);
        strbuf_printf(out, "\":%" PRIu64, k.dropped[i]);
        comma = ",";
    }
    strbuf_add_str(out, "}}");
}

static void print_account(const struct account *a, struct strbuf *out)
{
    strbuf_add_str(out, "{\"producer\":\"");
    for (size_t i = 0; i < sizeof a->origin.producer; i++)
        strbuf_printf(out, "%02x", a->origin.producer[i]);
    strbuf_printf(out, "\",\"epoch\":%" PRIu64 ",\"class\":\"%s\",\"state\":\"%s\"", a->origin.epoch,
                  a->class == CLASS_SAMPLES ? "samples" : "events", a->is_closed ? "closed" : "open");
    strbuf_printf(out,
                  ",\"taken\":%" PRIu64 ",\"passed\":%" PRIu64 ",\"duplicate\":%" PRIu64
                  ",\"refused\":%" PRIu64 ",\"too_old\":%" PRIu64 ",\"too_new\":%" PRIu64
                  ",\"no_schema\":%" PRIu64 ",\"queued\":%" PRIu64 ",\"retried\":%" PRIu64 ",\"lost\":%" PRIu64
                  ",\"highest_seq\":%" PRIu64 ",\"ranges\":%zu,\"counts\":",
                  a->taken, a->passed, a->duplicate, a->refused, a->too_old, a->too_new, a->no_schema,
                  a->queued, a->retried, account_lost(a), account_highest(a), a->class == CLASS_EVENTS ? a->held.n : 0);
    print_counts(account_counts(a), out);
    strbuf_add_char(out, '}');
}

void ledger_print(const struct ledger *l, struct strbuf *out)
{
    strbuf_printf(out,
                  "{\"hop\":\"gateway\",\"forgotten\":%" PRIu64 ",\"forced\":%" PRIu64 ",\"trimmed_events\":%" PRIu64
                  ",\"trimmed_fields\":%" PRIu64 ",\"accounts\":[",
                  l->forgotten, l->forced, l->trimmed.events, l->trimmed.fields);
    const char *comma = "";
    for (const struct account *a = l->oldest; a; a = a->newer) {
        strbuf_add_str(out, comma);
        print_account(a, out);
        comma = ",\n";
    }
    strbuf_add_str(out, "]}\n");
}
