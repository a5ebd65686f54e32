/* SPDX-License-Identifier: Apache-2.0 */
/* From a URL to a destination. What has a colon before any slash names its scheme; the rest is a file. */
#include "client/handle.h"

#include <errno.h>

static const struct {
    const char *scheme;
    const struct dest_ops *ops;
} schemes[] = {
    {"file", &dest_file}, {"mem", &dest_mem}, {"syslog", &dest_syslog},
    {"unix", &dest_unix}, {"tcp", &dest_tcp}, {"x-netlog", &dest_tcp},
};

static const struct dest_ops *ops_of(struct slice scheme)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (slice_eq_nocase(scheme, slice_str(schemes[i].scheme)))
            return schemes[i].ops;
    return NULL;
}

int dest_open(struct slice url, const struct dest_env *env, struct dest **out)
{
    const struct dest_ops *ops = &dest_file;
    const char *colon = memchr(url.p, ':', url.n), *slash = memchr(url.p, '/', url.n);
    if (colon && (!slash || colon < slash)) {
        ops = ops_of(slice_of(url.p, (size_t)(colon - url.p)));
        url = slice_from(url, (size_t)(colon - url.p) + 1);
        if (slice_starts(url, SLICE_LIT("//")))
            url = slice_from(url, 2);
    }
    const char *mark = memchr(url.p, '?', url.n);
    struct slice query = mark ? slice_from(url, (size_t)(mark - url.p) + 1) : slice_of("", 0);
    if (mark)
        url.n = (size_t)(mark - url.p);
    return ops ? ops->open(url, query, env, out) : -EINVAL;
}

int dest_adopt(struct gridline *g, struct dest *d)
{
    if (g->n_dests == DESTS_MAX) {
        d->ops->close(d);
        return -ENOSPC;
    }
    g->dests[g->n_dests++] = d;
    if (d->ops->on_activate)
        d->ops->on_activate(d, activate_list, g);
    return 0;
}

int dest_open_list(struct gridline *g, struct slice urls)
{
    int r = 0;
    for (size_t i = 0; i < urls.n && r == 0;) {
        size_t k = i;
        while (k < urls.n && urls.p[k] != ' ')
            k++;
        struct dest *d;
        if (k > i)
            r = dest_open(slice_of(urls.p + i, k - i), &g->env, &d);
        if (k > i && r == 0)
            r = dest_adopt(g, d);
        i = k + 1;
    }
    return r;
}
