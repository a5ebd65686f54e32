/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/sampler.h"

#include "base/mem.h"
#include "event/samples.h"

#include <errno.h>

struct sampler {
    struct ingest *in;
    struct frame_origin origin;
    struct samples_reader *reader;
    bool wants;
    struct strbuf host;
};

int sampler_create(struct ingest *in, const struct frame_origin *origin, struct slice host, struct sampler **out)
{
    struct sampler *s = mem_try_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    s->in = in;
    s->origin = *origin;
    s->reader = samples_reader_create(batch_builder_registry(ingest_builder(in)));
    strbuf_add_slice(&s->host, host);
    if (!s->reader || strbuf_failed(&s->host)) {
        sampler_destroy(s);
        return -ENOMEM;
    }
    *out = s;
    return 0;
}

void sampler_destroy(struct sampler *s)
{
    if (!s)
        return;
    samples_reader_destroy(s->reader);
    strbuf_fini(&s->host);
    mem_free(s);
}

const struct frame_origin *sampler_origin(const struct sampler *s)
{
    return &s->origin;
}

int sampler_schema(struct sampler *s, struct slice payload, struct diag *why)
{
    return samples_reader_schema(s->reader, payload, why);
}

int sampler_stream(struct sampler *s, struct slice payload, struct diag *why)
{
    return samples_reader_stream(s->reader, payload, why);
}

int sampler_packet(struct sampler *s, struct slice packet, struct diag *why)
{
    struct batch_origin origin = {.epoch = s->origin.epoch};
    uint32_t unknown;
    memcpy(origin.producer, s->origin.producer, sizeof origin.producer);
    int r = samples_reader_packet(s->reader, packet, strbuf_slice(&s->host), ingest_builder(s->in), &origin, &unknown,
                                  why);
    s->wants = s->wants || (r == 0 && unknown);
    return r < 0 ? r : ingest_samples(s->in, &origin, unknown);
}

bool sampler_wants_announcements(struct sampler *s)
{
    bool wants = s->wants;
    s->wants = false;
    return wants;
}
