/* SPDX-License-Identifier: Apache-2.0 */
/* written.h - what a handle wrote, read back: a handle on a file in a folder of its own, and the file's
 * events. */
#ifndef GRIDLINE_TESTS_CLIENT_WRITTEN_H
#define GRIDLINE_TESTS_CLIENT_WRITTEN_H

#include "unit/test.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "event/encoding.h"
#include "gridline/gridline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct written {
    char dir[40], path[64];
    struct registry *registry;
    struct batch *batch; /* after written_read */
};

static inline gridline *written_open(struct written *w, unsigned flags)
{
    *w = (struct written){.dir = "/tmp/gridline-test-XXXXXX"};
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->path, sizeof w->path, "%s/log.glb", w->dir);
    gridline *g = gridline_open("test", w->path, flags);
    assert_non_null(g);
    return g;
}

static inline void written_load(const char *path, struct strbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (ssize_t r = 1; r > 0;) {
        char *to = strbuf_room(out, 65536);
        assert_non_null(to);
        r = read(fd, to, 65536);
        assert_true(r >= 0);
        strbuf_advance(out, (size_t)r);
    }
    (void)close(fd);
}

/* Reads all events of the file. Closes no handle: do that, or flush, before. */
static inline void written_read(struct written *w)
{
    struct strbuf bytes = {0};
    struct decoder *d;
    struct diag why;
    written_load(w->path, &bytes);
    w->registry = registry_create();
    struct batch_builder *b = batch_builder_create(w->registry, 0);
    assert_int_equal(decoder_create(encoding_by_name(SLICE_LIT("binary")), &d), 0);
    batch_builder_limit(b, 1 << 20, 1 << 28);
    size_t used = 0;
    struct slice left = strbuf_slice(&bytes);
    /* a block ends a batch: take them one by one and copy what they hold into one */
    struct batch_builder *all = batch_builder_create(w->registry, 0);
    batch_builder_limit(all, 1 << 20, 1 << 28);
    while (left.n > 0) {
        int r = decoder_run(d, left, true, b, &used, &why);
        assert_true(r >= 0);
        left = slice_from(left, used);
        struct batch *part = batch_builder_finish(b, NULL);
        for (size_t i = 0; part && i < part->n; i++) {
            const struct event *e = &part->events[i];
            struct event_head head = {e->time_ns, e->schema->name, e->host, e->prog, e->level};
            assert_int_equal(batch_builder_add_known(all, &head, e->schema, e->values, &why), 0);
        }
        batch_unref(part);
    }
    w->batch = batch_builder_finish(all, NULL);
    batch_builder_destroy(all);
    batch_builder_destroy(b);
    decoder_destroy(d);
    strbuf_fini(&bytes);
}

/* Also removes the folder. */
static inline void written_end(struct written *w)
{
    batch_unref(w->batch);
    if (w->registry)
        registry_destroy(w->registry);
    (void)unlink(w->path);
    assert_int_equal(rmdir(w->dir), 0);
}

static inline size_t written_count(const struct written *w, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; w->batch && i < w->batch->n; i++)
        n += slice_eq_str(w->batch->events[i].schema->name, name);
    return n;
}

/* The nth event of that name, from 0. */
static inline const struct event *written_event(const struct written *w, const char *name, size_t nth)
{
    for (size_t i = 0; w->batch && i < w->batch->n; i++)
        if (slice_eq_str(w->batch->events[i].schema->name, name) && nth-- == 0)
            return &w->batch->events[i];
    fail_msg("no event %s", name);
    return NULL;
}

static inline struct value written_value(const struct event *e, const char *field, uint8_t type)
{
    struct value v = event_get(e, slice_str(field));
    if (v.type != type)
        fail_msg("field %s has type %d, not %d", field, v.type, type);
    return v;
}

static inline int64_t written_int(const struct event *e, const char *field)
{
    return written_value(e, field, VALUE_INT).i;
}
static inline double written_float(const struct event *e, const char *field)
{
    return written_value(e, field, VALUE_FLOAT).f;
}
static inline bool written_has(const struct event *e, const char *field)
{
    return event_get(e, slice_str(field)).type != VALUE_NONE;
}

#endif
