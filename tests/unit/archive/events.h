/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - batches of random events for tests of the archive, and what a row of it should be. */
#ifndef GRIDLINE_TESTS_ARCHIVE_EVENTS_H
#define GRIDLINE_TESTS_ARCHIVE_EVENTS_H

#include "unit/test.h"

#include "event/batch.h"

#include <stdio.h>

static const uint8_t events_producer[16] = "test producer 1";

struct events_maker {
    struct registry *registry;
    struct batch_builder *builder;
    uint64_t seed, next_seq;
    int64_t time_ns;
    int64_t late_ns; /* some are late by up to this */
    unsigned hosts;
    bool is_wide; /* fields come and go */
};

static inline void events_init(struct events_maker *m, uint64_t seed, int64_t time_ns)
{
    *m = (struct events_maker){
        .registry = registry_create(), .seed = seed, .next_seq = 1, .time_ns = time_ns, .hosts = 3};
    m->builder = batch_builder_create(m->registry, 0);
    assert_non_null(m->builder);
}

static inline void events_fini(struct events_maker *m)
{
    batch_builder_destroy(m->builder);
    registry_destroy(m->registry);
}

static inline struct value events_value(uint64_t *seed, char *text, size_t size)
{
    uint64_t v = test_random(seed);
    switch (v % 7) {
    case 0:
        return value_int((int64_t)(v >> 8) - (INT64_C(1) << 54));
    case 1:
        return value_uint(v);
    case 2:
        return value_float((double)(v >> 40) / 100);
    case 3:
        return value_bool(v >> 63);
    case 4:
        return value_float(v & 256 ? (double)INFINITY : (double)NAN);
    case 5:
        return value_bytes(slice_of("\xff\x00\x80", 3));
    default:
        return value_text(slice_of(text, (size_t)snprintf(text, size, "text %u", (unsigned)(v >> 32) % 50)));
    }
}

/* n events: `load` with two numbers, `job` with id and text, and `mixed` with anything. */
static inline struct batch *events_make(struct events_maker *m, size_t n)
{
    static const char *const names[] = {"load", "job.state", "mixed"};
    for (size_t i = 0; i < n; i++) {
        char host[16], id[24], texts[4][16];
        uint64_t kind = test_random(&m->seed) % 3, late = m->late_ns ? test_random(&m->seed) % 8 : 1;
        struct named_value values[6];
        size_t n_values = 0;
        (void)snprintf(host, sizeof host, "n%u", (unsigned)(test_random(&m->seed) % m->hosts));
        m->time_ns += (int64_t)(test_random(&m->seed) % 2000000000);
        const struct event_head head = {
            .time_ns =
                late ? m->time_ns : m->time_ns - (int64_t)(test_random(&m->seed) % (uint64_t)m->late_ns),
            .name = slice_str(names[kind]),
            .host = slice_str(host),
            .prog = SLICE_LIT("test"),
            .level = (uint8_t)(test_random(&m->seed) % 3 ? LEVEL_INFO : LEVEL_ERROR)};
        if (kind == 0) {
            values[n_values++] =
                (struct named_value){SLICE_LIT("one"), value_float((double)(m->seed % 1000) / 10)};
            values[n_values++] = (struct named_value){SLICE_LIT("ten"), value_uint(m->seed % 100)};
        } else if (kind == 1) {
            (void)snprintf(id, sizeof id, "id-%u", (unsigned)(test_random(&m->seed) % 100));
            values[n_values++] = (struct named_value){SLICE_LIT("id"), value_text(slice_str(id))};
        }
        for (unsigned k = 0; kind && k < 4; k++) {
            char *name = (char *)(uintptr_t)(k == 0 ? "a" : k == 1 ? "b" : k == 2 ? "c" : "d");
            if (kind == 2 || test_random(&m->seed) % 2)
                values[n_values++] =
                    (struct named_value){slice_str(name), events_value(&m->seed, texts[k], sizeof texts[k])};
        }
        assert_int_equal(batch_builder_add(m->builder, &head, values, n_values, NULL), 0);
    }
    struct batch_origin origin = {
        .epoch = 7, .first_seq = m->next_seq, .clock = {.offset_ns = -5, .bound_ns = 9, .generation = 2}};
    memcpy(origin.producer, events_producer, sizeof origin.producer);
    m->next_seq += n;
    struct batch *b = batch_builder_finish(m->builder, &origin);
    assert_non_null(b);
    return b;
}

#endif
