/* SPDX-License-Identifier: Apache-2.0 */
/* Running an encoding: the loops around its steps. The table of all encodings is in encoding_table.c. */
#include "event/encoding.h"

#include "base/mem.h"
#include "event/encodings.h"

#include <assert.h>
#include <errno.h>

struct decoder {
    const struct decoder_ops *ops;
    _Alignas(16) char state[];
};

int decoder_create(const struct encoding *enc, struct decoder **out)
{
    const struct decoder_ops *ops = enc->decoder;
    if (!ops)
        return -ENOTSUP;
    struct decoder *d = mem_try_alloc(sizeof *d + ops->state_size);
    if (!d)
        return -ENOMEM;
    d->ops = ops;
    int rc = ops->init ? ops->init(d->state) : 0;
    if (rc < 0) {
        decoder_destroy(d);
        return rc;
    }
    *out = d;
    return 0;
}

void decoder_destroy(struct decoder *d)
{
    if (!d)
        return;
    if (d->ops->fini)
        d->ops->fini(d->state);
    mem_free(d);
}

void decoder_set_escapes(struct decoder *d, enum escapes escapes, escapes_look look, void *arg)
{
    if (d->ops->set_escapes)
        d->ops->set_escapes(d->state, escapes, look, arg);
}

int decoder_run(struct decoder *d, struct slice data, bool at_end, struct batch_builder *out, size_t *used,
                struct diag *why)
{
    size_t done = 0;
    int rc = 0;
    if (why)
        *why = (struct diag){0};
    while (rc == 0 && done < data.n) {
        if (batch_builder_full(out)) {
            rc = DECODE_FULL;
            break;
        }
        size_t step = 0;
        batch_builder_begin(out);
        rc = d->ops->step(d->state, slice_from(data, done), at_end, out, &step, why);
        bool may_stay = rc == -ENOMEM || rc == DECODE_FULL || (rc == 0 && !at_end);
        assert(step <= data.n - done && (step || may_stay));
        if (rc == -ENOMEM || step == 0)
            break;
        done += step;
    }
    *used = done;
    return rc;
}

struct encoder {
    const struct encoding *encoding;
    bool begun;
    _Alignas(16) char state[];
};

int encoder_create(const struct encoding *enc, struct encoder **out)
{
    const struct encoder_ops *ops = enc->encoder;
    if (!ops)
        return -ENOTSUP;
    struct encoder *e = mem_try_alloc(sizeof *e + ops->state_size);
    if (!e)
        return -ENOMEM;
    e->encoding = enc;
    int rc = ops->init ? ops->init(e->state) : 0;
    if (rc < 0) {
        encoder_destroy(e);
        return rc;
    }
    *out = e;
    return 0;
}

void encoder_destroy(struct encoder *e)
{
    if (!e)
        return;
    if (e->encoding->encoder->fini)
        e->encoding->encoder->fini(e->state);
    mem_free(e);
}

static void begin_once(struct encoder *e, struct strbuf *out)
{
    if (!e->begun && e->encoding->encoder->begin)
        e->encoding->encoder->begin(e->state, out);
    e->begun = true;
}

int encoder_run(struct encoder *e, const struct batch *b, struct strbuf *out)
{
    bool had_begun = e->begun;
    begin_once(e, out);
    int rc = e->encoding->encoder->run(e->state, b, out);
    if (rc == 0 && strbuf_failed(out))
        rc = -ENOMEM;
    if (rc < 0)
        e->begun = had_begun; /* the head goes with the rest that the caller takes back */
    return rc;
}

/* A file without events has a head all the same. */
int encoder_end(struct encoder *e, struct strbuf *out)
{
    begin_once(e, out);
    if (e->encoding->encoder->end)
        e->encoding->encoder->end(e->state, out);
    return strbuf_failed(out) ? -ENOMEM : 0;
}

int encoder_csv_columns(struct encoder *e, const struct slice *fields, size_t n)
{
    assert(e->encoding == &encoding_csv);
    return csv_set_columns(e->state, fields, n);
}

uint64_t encoder_csv_left_out(const struct encoder *e)
{
    assert(e->encoding == &encoding_csv);
    return csv_left_out(e->state);
}
