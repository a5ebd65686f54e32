/* SPDX-License-Identifier: Apache-2.0 */
/* The frames between agent and helper: the first byte is the type, the rest its payload. What a payload
 * decodes to must encode again and decode to the same. */
#include "sensor/wire.h"

static struct strbuf out; /* reused: the cost would be in malloc */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

/* The payload of the one frame in out. */
static struct slice again(uint8_t type)
{
    struct frame f;
    check(frame_read(strbuf_slice(&out), FRAME_PAYLOAD_MAX, &f) == (int64_t)out.n && f.type == type);
    return f.payload;
}

static void same_setting(const struct parameter_setting *a, const struct parameter_setting *b)
{
    check(strcmp(a->name, b->name) == 0 && a->n == b->n);
    for (size_t i = 0; i < a->n; i++)
        check(strcmp(a->texts[i], b->texts[i]) == 0);
}

static void fuzz_open(struct slice payload)
{
    struct arena arena = {0};
    struct wire_open a, b;
    if (wire_get_open(payload, &arena, &a) == 0) {
        check(wire_put_open(&out, &a) == 0);
        check(wire_get_open(again(WIRE_OPEN), &arena, &b) == 0);
        check(strcmp(a.sensor, b.sensor) == 0 && strcmp(a.instance, b.instance) == 0 &&
              strcmp(a.root, b.root) == 0);
        check(slice_eq(a.position, b.position) && a.n == b.n && a.n <= WIRE_SETTINGS_MAX);
        for (size_t i = 0; i < a.n; i++)
            same_setting(&a.settings[i], &b.settings[i]);
    }
    arena_fini(&arena);
}

static void fuzz_done(struct slice payload)
{
    struct wire_done a, b;
    if (wire_get_done(payload, &a) < 0)
        return;
    check(a.status <= 0);
    check(wire_put_done(&out, &a) == 0 && wire_get_done(again(WIRE_DONE), &b) == 0);
    check(a.status == b.status && a.is_answer == b.is_answer && slice_eq(a.why, b.why));
}

static void fuzz_fetch(struct slice payload)
{
    struct arena arena = {0};
    struct wire_fetch a, b;
    if (wire_get_fetch(payload, &arena, &a) == 0) {
        check(wire_put_fetch(&out, &a) == 0 && wire_get_fetch(again(WIRE_FETCH), &arena, &b) == 0);
        check(a.timeout_ms == b.timeout_ms && strcmp(a.url, b.url) == 0 && strcmp(a.etag, b.etag) == 0 &&
              strcmp(a.ca, b.ca) == 0);
    }
    arena_fini(&arena);
}

static void fuzz_fetched(struct slice payload)
{
    struct wire_fetched a, b;
    if (wire_get_fetched(payload, &a) < 0)
        return;
    check(wire_put_fetched(&out, &a) == 0 && wire_get_fetched(again(WIRE_FETCHED), &b) == 0);
    check(a.status == b.status && a.is_signed == b.is_signed && slice_eq(a.etag, b.etag));
    check(slice_eq(a.why, b.why) && slice_eq(a.document, b.document));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const by_type[])(struct slice) = {[WIRE_OPEN] = fuzz_open,
                                                    [WIRE_FETCH] = fuzz_fetch,
                                                    [WIRE_DONE] = fuzz_done,
                                                    [WIRE_FETCHED] = fuzz_fetched};
    if (size == 0 || data[0] >= sizeof by_type / sizeof *by_type || !by_type[data[0]])
        return 0;
    strbuf_reset(&out);
    by_type[data[0]](slice_of((const char *)data + 1, size - 1));
    return 0;
}
