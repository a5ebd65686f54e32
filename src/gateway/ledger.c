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

static void destroy(struct account *a)
{
    seq_set_fini(&a->held);
    seq_set_fini(&a->pending);
    strbuf_fini(&a->counts);
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

static void forget_oldest(struct ledger *l)
{
    struct account *a = l->oldest;
    while (a && (a->queued || !account_has_origin(a)))
        a = a->newer;
    if (!a)
        return;
    unlink_account(l, a);
    (void)map_remove(&l->accounts, key_of(&a->origin)); /* it is a itself */
    destroy(a);
    l->forgotten++;
}

static struct account *make(struct ledger *l, const struct frame_origin *origin)
{
    if (l->accounts.n >= LEDGER_MAX)
        forget_oldest(l);
    struct account *a = mem_try_alloc(sizeof *a);
    if (!a)
        return NULL;
    a->origin = *origin;
    if (map_put(&l->accounts, key_of(&a->origin), a) < 0) {
        mem_free(a);
        return NULL;
    }
    link_newest(l, a);
    return a;
}

struct account *ledger_account(struct ledger *l, const struct frame_origin *origin)
{
    struct account *a = map_get(&l->accounts, key_of(origin));
    if (!a)
        return make(l, origin);
    if (a != l->newest) {
        unlink_account(l, a);
        link_newest(l, a);
    }
    return a;
}

int account_set_counts(struct account *a, struct slice payload, const struct frame_counts *counts)
{
    struct frame_counts kept;
    if (a->counts.n && frame_get_counts(strbuf_slice(&a->counts), &kept) == 0 &&
        (counts->taken < kept.taken || kept.is_final))
        return 0;
    struct strbuf copy = {0};
    strbuf_add_slice(&copy, payload);
    if (strbuf_failed(&copy)) {
        strbuf_fini(&copy);
        return -ENOMEM;
    }
    strbuf_fini(&a->counts);
    a->counts = copy;
    a->class = counts->class;
    a->is_closed = a->is_closed || counts->is_final;
    return 0;
}

bool account_has_origin(const struct account *a)
{
    static const struct frame_origin none;
    return memcmp(a->origin.producer, none.producer, sizeof none.producer) != 0;
}

bool account_check(const struct account *a)
{
    return a->taken == a->passed + a->duplicate + a->refused + a->no_schema + a->queued &&
           seq_set_check(&a->held) && seq_set_check(&a->pending) &&
           (!account_has_origin(a) || seq_set_count(&a->held) == a->passed + a->skipped);
}

void ledger_print_reason(struct strbuf *out, unsigned reason)
{
    static const char *const names[] = {"",           "ring_full", "nested",  "too_large",
                                        "unwritable", "memory",    "refused", "too_old",
                                        "no_schema",  "filtered",  "forced"};
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
                  ",\"refused\":%" PRIu64 ",\"no_schema\":%" PRIu64 ",\"queued\":%" PRIu64
                  ",\"highest_seq\":%" PRIu64 ",\"ranges\":%zu,\"counts\":",
                  a->taken, a->passed, a->duplicate, a->refused, a->no_schema, a->queued,
                  seq_set_max(&a->held), a->held.n);
    print_counts(strbuf_slice(&a->counts), out);
    strbuf_add_char(out, '}');
}

void ledger_print(const struct ledger *l, struct strbuf *out)
{
    strbuf_printf(out, "{\"hop\":\"gateway\",\"forgotten\":%" PRIu64 ",\"accounts\":[", l->forgotten);
    const char *comma = "";
    for (const struct account *a = l->oldest; a; a = a->newer) {
        strbuf_add_str(out, comma);
        print_account(a, out);
        comma = ",\n";
    }
    strbuf_add_str(out, "]}\n");
}
