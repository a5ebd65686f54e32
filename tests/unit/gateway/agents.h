/* SPDX-License-Identifier: Apache-2.0 */
/* agents.h - the sending end of samples for the gateway's tests: a stream `e` whose field n is the row's
 * sequence number, so that what is read back can be told from anything else. */
#ifndef GRIDLINE_TESTS_GATEWAY_AGENTS_H
#define GRIDLINE_TESTS_GATEWAY_AGENTS_H

#include "unit/test.h"

#include "event/samples.h"

struct agent {
    struct samples_writer *w;
    struct schema *schema;
    struct strbuf schema_payload,
        stream_payload; /* what announces it; the schema's is empty if it is known */
    struct strbuf packet;
    uint32_t stream;
    uint64_t next; /* number of the next row */
};

/* Announces one more stream; its number is a->stream. */
static inline void agent_announce_stream(struct agent *a, const char *prog)
{
    const struct value zero = value_uint(0);
    strbuf_reset(&a->schema_payload);
    strbuf_reset(&a->stream_payload);
    assert_int_equal(samples_writer_announce(a->w, a->schema, slice_str(prog), &zero, &a->schema_payload,
                                             &a->stream_payload, &a->stream),
                     0);
}

static inline void agent_open(struct agent *a, enum samples_flags flags)
{
    static const struct field n = {.name = {"n", 1}, .type = VALUE_UINT, .kind = KIND_COUNTER};
    *a = (struct agent){.w = samples_writer_create(flags), .next = 1};
    assert_non_null(a->w);
    assert_int_equal(schema_create(SLICE_LIT("e"), &n, 1, &a->schema), 0);
    agent_announce_stream(a, "p");
}

/* The next n rows, of a->stream, as a packet. */
static inline struct slice agent_packet(struct agent *a, uint32_t n)
{
    uint64_t first = a->next;
    strbuf_reset(&a->packet);
    for (uint32_t i = 0; i < n; i++) {
        const struct value v = value_uint(a->next++);
        assert_int_equal(samples_writer_add(a->w, a->stream, 7, &v), 0);
    }
    assert_int_equal(samples_writer_finish(a->w, first, NULL, &a->packet), 0);
    return strbuf_slice(&a->packet);
}

static inline void agent_close(struct agent *a)
{
    samples_writer_destroy(a->w);
    schema_unref(a->schema);
    strbuf_fini(&a->schema_payload);
    strbuf_fini(&a->stream_payload);
    strbuf_fini(&a->packet);
}

#endif
