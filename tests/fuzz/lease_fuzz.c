/* SPDX-License-Identifier: Apache-2.0 */
/* REGISTER, RENEW, LEASE, CONTROL and ANSWER, with their named values; and a worker as the journal has it.
 * The first byte is the type, the rest its payload. What decodes must encode again, and decode to the same
 * bytes. */
#include "base/strbuf.h"
#include "gateway/worker.h"
#include "net/control.h"

static struct strbuf out, twice; /* reused: the cost would be in malloc */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

/* The payload of the one frame in b. */
static struct slice payload_of(const struct strbuf *b)
{
    struct frame f;
    check(!strbuf_failed(b));
    check(frame_read(strbuf_slice(b), FRAME_PAYLOAD_MAX, &f) == (int64_t)b->n);
    return f.payload;
}

/* A list can be walked to its end, and each value is found by its name. */
static void walk(struct args list)
{
    struct args all = list;
    struct arg a;
    uint32_t n = 0;
    char name[ARGS_NAME_MAX + 1];
    while (args_next(&list, &a)) {
        n++;
        check(a.name.n <= ARGS_NAME_MAX);
        memcpy(name, a.name.p, a.name.n);
        name[a.name.n] = '\0';
        check(args_value(all, name).type != VALUE_NONE);
    }
    check(n == all.n);
}

#define FUZZ(what)                                                 \
    static void fuzz_##what(struct slice payload)                  \
    {                                                              \
        struct frame_##what a, b;                                  \
        if (frame_get_##what(payload, &a) < 0)                     \
            return;                                                \
        walk_##what(&a);                                           \
        frame_put_##what(&out, 7, &a);                             \
        check(frame_get_##what(payload_of(&out), &b) == 0);        \
        frame_put_##what(&twice, 7, &b);                           \
        check(slice_eq(strbuf_slice(&out), strbuf_slice(&twice))); \
    }

static void walk_register(const struct frame_register *r)
{
    walk(r->properties);
    walk(r->settings);
}

static void walk_renew(const struct frame_renew *r)
{
    check(r->number != 0);
}

static void walk_lease(const struct frame_lease *l)
{
    check(l->key.n == 0 || l->key.n == LEASE_KEY);
    if (l->has_settings)
        walk(l->settings);
}

static void walk_control(const struct frame_control *c)
{
    walk(c->args);
}

static void walk_answer(const struct frame_answer *a)
{
    walk(a->args);
}

FUZZ(register)
FUZZ(renew)
FUZZ(lease)
FUZZ(control)
FUZZ(answer)

/* What is restored is written again as it was read, and once more the same. */
static void fuzz_worker(struct slice record)
{
    const struct workers_options options = {.lease_ms = 1000};
    struct workers *ws = workers_create(&options);
    if (workers_restore(ws, record, 1000000000, 1000000000) == 0) {
        check(workers_count(ws) == 1);
        const struct worker *w = workers_by_id(ws, workers_last_id(ws));
        check(w && workers_by_host(ws, slice_str(w->host)) == w);
        worker_put_record(&out, w);
        check(workers_restore(ws, strbuf_slice(&out), 1000000000, 1000000000) == 0 && workers_count(ws) == 1);
    }
    workers_destroy(ws);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(struct slice) = {fuzz_register, fuzz_renew,  fuzz_lease,
                                                  fuzz_control,  fuzz_answer, fuzz_worker};
    if (size == 0)
        return 0;
    strbuf_reset(&out);
    strbuf_reset(&twice);
    kinds[data[0] % (sizeof kinds / sizeof *kinds)](slice_of((const char *)data + 1, size - 1));
    return 0;
}
