/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_dump: what a journal holds, for tests and for people who want their events without a gateway. */
#include "gateway/gateway.h"

#include "event/block.h"
#include "base/log.h"
#include "gateway/store.h"

#include <errno.h>
#include <inttypes.h>

struct dump {
    struct registry *registry;
    struct batch_builder *builder;
    struct encoder *encoder; /* NULL: heads only */
    struct strbuf out;
    bool is_damaged;
};

static void print_head(struct slice block, struct strbuf *out)
{
    struct batch_origin o = block_origin(block);
    strbuf_add_str(out, "{\"producer\":\"");
    for (size_t i = 0; i < sizeof o.producer; i++)
        strbuf_printf(out, "%02x", o.producer[i]);
    strbuf_printf(out, "\",\"epoch\":%" PRIu64 ",\"first_seq\":%" PRIu64 ",\"count\":%" PRIu32 "}\n", o.epoch,
                  o.first_seq, block_count(block));
}

static int print_events(struct dump *d, struct slice block)
{
    struct diag why = {0};
    int r = block_decode(block, d->builder, &why);
    struct batch *b = batch_builder_finish(d->builder, NULL);
    if (r == 0)
        r = b ? encoder_run(d->encoder, b, &d->out) : -ENOMEM;
    batch_unref(b);
    return r;
}

static int flush_out(struct dump *d)
{
    bool is_whole = fwrite(d->out.p ? d->out.p : "", 1, d->out.n, stdout) == d->out.n;
    strbuf_reset(&d->out);
    return is_whole ? 0 : -EIO;
}

static int on_record(void *arg, const struct journal_item *item)
{
    struct dump *d = arg;
    if (item->kind == JOURNAL_GAP) {
        log_error("records %" PRIu64 " to %" PRIu64 " are lost", item->first, item->last);
        d->is_damaged = true;
        return 0;
    }
    if (item->type != STORE_BLOCK)
        return 0;
    int r = 0;
    if (block_check(item->payload) != (int64_t)item->payload.n)
        r = E_DAMAGE;
    else if (d->encoder)
        r = print_events(d, item->payload);
    else
        print_head(item->payload, &d->out);
    if (r == E_DAMAGE || r == E_PROTO || r == E_LIMIT || r == E_VERSION) {
        log_error("record %" PRIu64 " can't be read: %s", item->first, err_text(r));
        d->is_damaged = true;
        r = 0;
    }
    return r < 0 ? r : flush_out(d);
}

int gateway_dump(const char *journal, const struct encoding *print)
{
    struct dump d = {.registry = registry_create()};
    d.builder = d.registry ? batch_builder_create(d.registry, BUILDER_BORROW) : NULL;
    int r = d.builder ? 0 : -ENOMEM;
    if (r == 0 && print)
        r = encoder_create(print, &d.encoder);
    if (r == 0)
        r = store_read(journal, on_record, &d);
    if (r == 0 && d.encoder && encoder_end(d.encoder, &d.out) == 0)
        r = flush_out(&d);
    if (r == 0 && fflush(stdout) != 0)
        r = -errno;
    encoder_destroy(d.encoder);
    batch_builder_destroy(d.builder);
    registry_destroy(d.registry);
    strbuf_fini(&d.out);
    return r == 0 && d.is_damaged ? E_DAMAGE : r;
}
