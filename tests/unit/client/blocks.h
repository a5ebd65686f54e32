/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - a folder for a test, and the events of a binary log one by one with their origin. */
#ifndef GRIDLINE_TESTS_CLIENT_BLOCKS_H
#define GRIDLINE_TESTS_CLIENT_BLOCKS_H

#include "unit/test.h"

#include "base/strbuf.h"
#include "event/block.h"
#include "gridline/gridline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
    char dir[40];
    char path[80]; /* of the file asked for last */
};

static inline void folder_make(struct folder *f)
{
    *f = (struct folder){.dir = "/tmp/gridline-test-XXXXXX"};
    assert_non_null(mkdtemp(f->dir));
}
static inline const char *folder_file(struct folder *f, const char *name)
{
    assert_true((size_t)snprintf(f->path, sizeof f->path, "%s/%s", f->dir, name) < sizeof f->path);
    return f->path;
}
static inline void folder_end(struct folder *f, const char *const *files)
{
    for (; *files; files++)
        assert_int_equal(unlink(folder_file(f, *files)), 0);
    assert_int_equal(rmdir(f->dir), 0);
}

static inline void load_file(const char *path, struct strbuf *out)
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

typedef void (*each_event)(void *arg, const struct batch_origin *origin, uint64_t seq, const struct event *e);

/* Every event of every block; damage fails the test. Returns how many there were. */
static inline size_t each_of(struct slice left, each_event call, void *arg)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, BUILDER_BORROW);
    size_t n = 0;
    while (left.n) {
        struct diag why = {0};
        int64_t size = block_check(left);
        assert_true(size > 0);
        if (block_decode(slice_of(left.p, (size_t)size), builder, &why) < 0)
            fail_msg("%s", why.message);
        struct batch *b = batch_builder_finish(builder, NULL);
        assert_non_null(b);
        for (size_t i = 0; i < b->n; i++, n++)
            if (call)
                call(arg, &b->origin, b->origin.first_seq + i, &b->events[i]);
        batch_unref(b);
        left = slice_from(left, (size_t)size);
    }
    batch_builder_destroy(builder);
    registry_destroy(registry);
    return n;
}

static inline size_t each_in(const char *path, each_event call, void *arg)
{
    struct strbuf bytes = {0};
    load_file(path, &bytes);
    size_t n = each_of(strbuf_slice(&bytes), call, arg);
    strbuf_fini(&bytes);
    return n;
}

static inline struct gridline_stats stats_of(gridline *g)
{
    struct gridline_stats s;
    gridline_stats(g, &s, sizeof s);
    assert_int_equal(s.taken, s.passed + s.queued + s.dropped);
    assert_int_equal(s.dropped, s.dropped_ring_full + s.dropped_nested + s.dropped_too_large +
                                    s.dropped_unwritable + s.dropped_memory + s.dropped_refused);
    return s;
}

static inline struct value value_of(const struct event *e, const char *name)
{
    return event_get(e, slice_str(name));
}
static inline bool is_named(const struct event *e, const char *name)
{
    return slice_eq_str(e->schema->name, name);
}

#endif
