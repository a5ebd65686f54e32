/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_dump: what a journal holds, for tests and for people who want their events without a gateway. */
#include "gateway/gateway.h"

#include "base/log.h"
#include "gateway/journal_batches.h"

#include <errno.h>
#include <inttypes.h>

struct dump {
    struct encoder *encoder; /* NULL: heads only */
    struct strbuf out;
    bool is_damaged;
};

static void print_clock(const struct batch_clock *c, struct strbuf *out)
{
    strbuf_printf(out, ",\"offset\":%" PRId64 ",\"bound\":", c->offset_ns);
    if (c->bound_ns == CLOCK_BOUND_UNKNOWN)
        strbuf_add_str(out, "null");
    else
        strbuf_printf(out, "%" PRIu64, c->bound_ns);
    strbuf_printf(out, ",\"generation\":%" PRIu32 "}\n", c->generation);
}

static void print_head(const struct batch *b, struct strbuf *out)
{
    const struct batch_origin *o = &b->origin;
    strbuf_add_str(out, "{\"producer\":\"");
    for (size_t i = 0; i < sizeof o->producer; i++)
        strbuf_printf(out, "%02x", o->producer[i]);
    strbuf_printf(out, "\",\"epoch\":%" PRIu64 ",\"first_seq\":%" PRIu64 ",\"count\":%zu", o->epoch,
                  o->first_seq, b->n);
    print_clock(&o->clock, out);
}

static int flush_out(struct dump *d)
{
    if (strbuf_failed(&d->out))
        return -ENOMEM;
    bool is_whole = fwrite(d->out.p ? d->out.p : "", 1, d->out.n, stdout) == d->out.n;
    strbuf_reset(&d->out);
    return is_whole ? 0 : -EIO;
}

static int print_batch(struct dump *d, const struct batch *b)
{
    int r = 0;
    if (d->encoder)
        r = encoder_run(d->encoder, b, &d->out);
    else
        print_head(b, &d->out);
    return r < 0 ? r : flush_out(d);
}

static int print_item(struct dump *d, const struct journal_batch *item)
{
    if (item->kind == JOURNAL_BATCH)
        return print_batch(d, item->batch);
    d->is_damaged = true;
    if (item->kind == JOURNAL_LOST)
        log_error("records %" PRIu64 " to %" PRIu64 " are lost", item->first, item->last);
    else if (item->count)
        log_error("record %" PRIu64 ": %" PRIu64 " events can't be read: %s", item->first, item->count,
                  item->why);
    else
        log_error("record %" PRIu64 " can't be read: %s", item->first, item->why);
    return 0;
}

static int dump(struct dump *d, const char *path)
{
    const struct journal_options options = {.flags = JOURNAL_READONLY};
    struct journal *j = NULL;
    struct journal_batches *batches = NULL;
    struct journal_batch item;
    int r = journal_open(path, &options, &j);
    if (r == 0)
        r = journal_batches_open(j, 0, &batches);
    while (r == 0) {
        r = journal_batches_next(batches, &item);
        if (r == 0)
            r = print_item(d, &item);
    }
    journal_batches_close(batches);
    journal_close(j);
    return r == E_NODATA ? 0 : r;
}

int gateway_dump(const char *journal, const struct encoding *print)
{
    struct dump d = {0};
    int r = print ? encoder_create(print, &d.encoder) : 0;
    if (r == 0)
        r = dump(&d, journal);
    if (r == 0 && d.encoder && encoder_end(d.encoder, &d.out) == 0)
        r = flush_out(&d);
    if (r == 0 && fflush(stdout) != 0)
        r = -errno;
    encoder_destroy(d.encoder);
    strbuf_fini(&d.out);
    return r == 0 && d.is_damaged ? E_DAMAGE : r;
}
