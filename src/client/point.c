/* SPDX-License-Identifier: Apache-2.0 */
#include "client/point.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>

static struct point *make(gridline *g, const struct point_ops *ops, struct slice name, point_create_fn create,
                          const void *args)
{
    char *copy = mem_try_alloc(name.n + 1);
    if (!copy)
        return NULL;
    struct point *p = create(args);
    if (!p) {
        mem_free(copy);
        return NULL;
    }
    memcpy(copy, name.p, name.n);
    p->name = copy;
    p->ops = ops;
    client_add_point(g, p);
    return p;
}

struct point *point_get(gridline *g, const struct point_ops *ops, const char *name, point_create_fn create,
                        const void *args)
{
    if (!g || !name || !text_is_name(slice_str(name)))
        return NULL;
    int saved_errno = errno;
    client_points_lock(g);
    struct point *p = client_find_point(g, ops, name);
    if (!p)
        p = make(g, ops, slice_str(name), create, args);
    client_points_unlock(g);
    errno = saved_errno;
    return p;
}

void point_write(const struct point *p, int level, const struct gridline_value *values, size_t n)
{
    int saved_errno = errno;
    (void)gridline_write_values(p->g, 0, level, p->name, values, n); /* a failure is counted by the handle */
    errno = saved_errno;
}

void point_fini(struct point *p)
{
    mem_free(p->name);
}

void point_never_due(struct point *p, int64_t now_mono_ns)
{
    (void)p;
    (void)now_mono_ns;
}
