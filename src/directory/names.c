/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "directory/internal.h"

struct name *names_find(const struct map *names, struct slice text)
{
    return text.n ? map_get(names, text) : NULL;
}

struct name *names_ref(struct name *n)
{
    if (n)
        n->refs++;
    return n;
}

struct name *names_get(struct map *names, struct slice text)
{
    struct name *n = names_find(names, text);
    if (n || text.n == 0)
        return names_ref(n);
    n = mem_try_alloc(sizeof *n + text.n);
    if (!n)
        return NULL;
    n->refs = 1;
    n->n = (uint32_t)text.n;
    memcpy(n->text, text.p, text.n);
    if (map_put(names, name_slice(n), n) < 0) {
        mem_free(n);
        return NULL;
    }
    return n;
}

void names_unref(struct map *names, struct name *n)
{
    if (!n || --n->refs)
        return;
    (void)map_remove(names, name_slice(n)); /* it is n itself */
    mem_free(n);
}
