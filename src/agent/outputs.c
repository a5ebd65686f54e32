/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/outputs.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/sink.h"
#include "event/encoding.h"

#include <errno.h>

struct output {
    char *path; /* "-" = standard output */
    struct sink sink;
    bool is_failing;
    struct encoder *encoder;
    uint64_t passed, dropped;
};

struct outputs {
    struct output *all;
    size_t n;
};

enum { FILE_MODE = 0644 };

static int open_output(struct output *o, const struct output_config *c, struct diag *why)
{
    const struct encoding *e = encoding_by_name(slice_str(c->encoding));
    o->sink.fd = -1;
    if (!e)
        return diag_set(why, -EINVAL, 0, "output %s: there is no format '%s'", c->path, c->encoding);
    int r = encoder_create(e, &o->encoder);
    if (r < 0)
        return r;
    o->path = mem_alloc(strlen(c->path) + 1);
    memcpy(o->path, c->path, strlen(c->path) + 1);
    r = sink_open(&o->sink, o->path, FILE_MODE);
    return r < 0 ? diag_set(why, r, 0, "output %s: %s", c->path, err_text(r)) : 0;
}

int outputs_create(const struct output_config *configs, size_t n, struct outputs **out, struct diag *why)
{
    struct outputs *o = mem_alloc(sizeof *o);
    int r = 0;
    o->all = mem_alloc((n ? n : 1) * sizeof *o->all);
    for (; r == 0 && o->n < n; o->n++)
        r = open_output(&o->all[o->n], &configs[o->n], why);
    if (r < 0) {
        outputs_destroy(o);
        return r;
    }
    *out = o;
    return 0;
}

static const char *name_of(const struct output *o)
{
    return strcmp(o->path, "-") == 0 ? "standard output" : o->path;
}

/* The change of state is logged, not each failure. */
static void set_failing(struct output *o, int error)
{
    if (error < 0 && !o->is_failing)
        log_error("output %s: %s; events wait for it, then they are dropped", name_of(o), err_text(error));
    else if (error == 0 && o->is_failing)
        log_info("output %s: can be written again; %llu events were dropped so far", name_of(o),
                 (unsigned long long)o->dropped);
    o->is_failing = error < 0;
}

static void flush(struct output *o)
{
    int r = o->sink.fd < 0 ? sink_open(&o->sink, o->path, FILE_MODE) : 0;
    set_failing(o, r < 0 ? r : sink_flush(&o->sink));
}

void outputs_flush(struct outputs *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->all[i].sink.waiting.n)
            flush(&o->all[i]);
}

static void add(struct output *o, const struct batch *b)
{
    size_t before = o->sink.waiting.n;
    bool has_room = before < OUTPUT_MAX;
    if (has_room && encoder_run(o->encoder, b, &o->sink.waiting) == 0 && !strbuf_failed(&o->sink.waiting)) {
        o->passed += b->n;
        flush(o);
        return;
    }
    if (o->dropped == 0)
        log_error("output %s: %d bytes wait for it: from now on events are dropped and counted",
                  name_of(o), OUTPUT_MAX);
    o->dropped += b->n;
    if (o->sink.waiting.failed) { /* no memory for the text: what was whole before stays */
        o->sink.waiting.failed = false;
        o->sink.waiting.n = before;
    }
    flush(o);
}

void outputs_batch(struct outputs *o, const struct batch *b)
{
    for (size_t i = 0; i < o->n; i++)
        add(&o->all[i], b);
}

bool outputs_any(const struct outputs *o)
{
    return o->n > 0;
}

void outputs_reopen(struct outputs *o)
{
    for (size_t i = 0; i < o->n; i++) {
        flush(&o->all[i]);
        sink_close(&o->all[i].sink);
    }
}

void outputs_counts(const struct outputs *o, uint64_t *passed, uint64_t *dropped)
{
    *passed = *dropped = 0;
    for (size_t i = 0; i < o->n; i++) {
        *passed += o->all[i].passed;
        *dropped += o->all[i].dropped;
    }
}

void outputs_destroy(struct outputs *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->n; i++) {
        struct output *p = &o->all[i];
        if (p->encoder && (p->sink.fd >= 0 || p->passed))
            (void)encoder_end(p->encoder, &p->sink.waiting); /* a tail that finds no memory is left out */
        if (p->sink.waiting.n)
            flush(p);
        encoder_destroy(p->encoder);
        sink_fini(&p->sink);
        mem_free(p->path);
    }
    mem_free(o->all);
    mem_free(o);
}
