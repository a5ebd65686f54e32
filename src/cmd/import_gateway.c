/* SPDX-License-Identifier: Apache-2.0 */
/* A file to a gateway, the way of live events: blocks, journal, acknowledgement.
 *
 * WELCOME says up to which number the gateway has the file, and how many of these. If it has them all,
 * sending begins behind them. If not (some were refused then, perhaps because the sender was not allowed to
 * speak for a host), everything is sent again: the gateway leaves out what it has. */
#include "base/mem.h"
#include "cmd/deliver.h"
#include "cmd/import.h"
#include "cmd/say.h"
#include "cmd/stop.h"
#include "event/block.h"
#include "event/reserved.h"

#include <errno.h>
#include <unistd.h>

struct gateway_target {
    const struct import_options *options;
    char host[256];
    struct block_writer *writer;
    struct strbuf block;
    struct deliver *deliver; /* of this file */
    uint8_t id[16];
    uint64_t seq;    /* the last number given */
    uint64_t skip;   /* up to this one they are there */
    uint64_t before; /* of this file and there when it began */
    uint64_t given;
    uint64_t skipped;
};

static void gateway_close(void *target)
{
    struct gateway_target *t = target;
    if (!t)
        return;
    deliver_close(t->deliver);
    block_writer_destroy(t->writer);
    strbuf_fini(&t->block);
    mem_free(t);
}

static int gateway_open(const struct import_options *o, void **out)
{
    struct gateway_target *t = mem_alloc(sizeof *t);
    t->options = o;
    t->writer = block_writer_create();
    if (gethostname(t->host, sizeof t->host - 1) < 0)
        t->host[0] = '\0'; /* not known */
    if (!t->writer) {
        say("%s", err_text(-ENOMEM));
        gateway_close(t);
        return -ENOMEM;
    }
    *out = t;
    return 0;
}

static bool on_wait(void *arg)
{
    (void)arg; /* stopping is of the process */
    return stop_asked();
}

static int report(int r, const struct diag *why)
{
    if (r < 0 && r != -EINTR)
        say("%s", why->message[0] ? why->message : err_text(r));
    return r;
}

static int gateway_begin(void *target, const uint8_t id[16])
{
    struct gateway_target *t = target;
    struct diag why = {0};
    struct deliver_options o = {.gateway = t->options->gateway,
                                .identity = t->options->identity,
                                .host = t->host,
                                .prog = "gridline-import",
                                .origin.epoch = 1,
                                .patience_ns = t->options->timeout_ns,
                                .on_wait = on_wait};
    memcpy(o.origin.producer, id, sizeof o.origin.producer);
    memcpy(t->id, id, sizeof t->id);
    t->seq = t->skip = t->before = t->given = t->skipped = 0;
    deliver_close(t->deliver);
    t->deliver = NULL;
    int r = deliver_open(&o, &t->deliver, &why);
    if (r < 0)
        return report(r, &why);
    const struct frame_welcome *w = deliver_welcome(t->deliver);
    t->before = w->held;
    t->skip = w->held == w->seq ? w->seq : 0;
    return 0;
}

static int send_block(struct gateway_target *t, struct batch_origin *origin)
{
    struct diag why = {0};
    uint64_t n = block_writer_count(t->writer);
    strbuf_reset(&t->block);
    int r = block_writer_finish(t->writer, origin, &t->block);
    if (r == 0 && n)
        r = deliver_put(t->deliver, strbuf_slice(&t->block), &why);
    origin->first_seq += n;
    return report(r, &why);
}

/* Orders to guards are taken from nobody (docs/access.md), and a block is refused as a whole: one that was
 * kept with other events goes in a block of its own. */
static bool is_order(const struct event *e)
{
    return slice_eq(e->schema->name, SLICE_LIT(RESERVED_ORDER));
}

static int send_events(struct gateway_target *t, const struct event *events, size_t n,
                       struct batch_origin origin)
{
    int r = 0;
    origin.keep_ns = t->options->keep_until_ns;
    for (size_t i = 0; i < n && r == 0;) {
        bool is_alone = is_order(&events[i]) || (i && is_order(&events[i - 1]));
        int added =
            is_alone && block_writer_count(t->writer) ? E_LIMIT : block_writer_add(t->writer, &events[i]);
        i += added == 0;
        if (added == E_LIMIT && block_writer_count(t->writer))
            r = send_block(t, &origin); /* it is full */
        else if (added < 0)
            r = report(added, &(struct diag){0});
    }
    return r == 0 ? send_block(t, &origin) : r;
}

static int gateway_give(void *target, const struct batch *b)
{
    struct gateway_target *t = target;
    size_t from = 0;
    t->given += b->n;
    if (import_has_origin(b))
        return send_events(t, b->events, b->n, b->origin);
    if (t->seq < t->skip)
        from = t->skip - t->seq < b->n ? (size_t)(t->skip - t->seq) : b->n;
    struct batch_origin origin = import_origin(t->id, t->seq + from + 1);
    t->seq += b->n;
    t->skipped += from;
    return send_events(t, b->events + from, b->n - from, origin);
}

static int gateway_end(void *target, bool is_whole)
{
    struct gateway_target *t = target;
    struct diag why = {0};
    return report(deliver_finish(t->deliver, t->skipped, is_whole, &why), &why);
}

static void gateway_counts(void *target, struct import_counts *out)
{
    struct gateway_target *t = target;
    struct deliver_counts n = {0};
    if (t->deliver)
        deliver_counts(t->deliver, &n);
    *out = (struct import_counts){.given = t->given,
                                  .too_old = n.refused[REFUSE_TOO_OLD],
                                  .too_new = n.refused[REFUSE_TOO_NEW],
                                  .again = t->skipped};
    for (size_t i = 0; i < DELIVER_REASONS; i++) {
        bool is_time = i == REFUSE_TOO_OLD || i == REFUSE_TOO_NEW;
        out->refused += is_time ? 0 : n.refused[i];
        if (n.refused[i] && !is_time)
            memcpy(out->said, n.text[i], sizeof out->said);
    }
    uint64_t again = t->skip ? 0 : t->before < n.passed ? t->before : n.passed; /* sent, and there before */
    out->again += again;
    out->stored = n.passed - again;
    memcpy(out->why_old, n.text[REFUSE_TOO_OLD], sizeof out->why_old);
    memcpy(out->why_new, n.text[REFUSE_TOO_NEW], sizeof out->why_new);
}

const struct import_target_ops import_gateway = {
    .open = gateway_open,
    .close = gateway_close,
    .begin = gateway_begin,
    .give = gateway_give,
    .end = gateway_end,
    .counts = gateway_counts,
    .when_too_old = "import with --keep takes and keeps them",
};
