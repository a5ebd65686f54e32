/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/roster.h"

#include "base/mem.h"
#include "sensor/clean.h"

#include <assert.h>
#include <errno.h>

void roster_init(struct roster *r, size_t entry_size)
{
    assert(entry_size >= sizeof(struct roster_entry));
    *r = (struct roster){.entry_size = entry_size};
}

void roster_fini(struct roster *r)
{
    for (size_t i = 0; i < r->n; i++)
        mem_free(r->v[i]);
    mem_free(r->v);
    *r = (struct roster){0};
}

void roster_begin(struct roster *r)
{
    r->next = 0;
    r->round++;
}

/* One block: the sensor's struct, the name, and the label. */
static struct roster_entry *make_entry(const struct roster *r, struct slice name)
{
    struct strbuf label = {0};
    clean_add(&label, name);
    char *block = strbuf_failed(&label) ? NULL : mem_try_alloc(r->entry_size + name.n + label.n);
    if (block) {
        struct roster_entry *e = (struct roster_entry *)(void *)block;
        char *text = block + r->entry_size;
        memcpy(text, name.p, name.n);
        memcpy(text + name.n, label.p, label.n);
        e->name = slice_of(text, name.n);
        e->label = slice_of(text + name.n, label.n);
        e->round = r->round;
    }
    strbuf_fini(&label);
    return (struct roster_entry *)(void *)block;
}

static int make_room(struct roster *r)
{
    if (r->n < r->cap)
        return 0;
    if (r->n >= ROSTER_MAX)
        return E_LIMIT;
    size_t cap = r->cap ? r->cap * 2 : 8;
    struct roster_entry **v = mem_try_resize(r->v, cap * sizeof *v);
    if (!v)
        return -ENOMEM;
    r->v = v;
    r->cap = cap;
    return 0;
}

/* Where the name is, or n. */
static size_t find(const struct roster *r, struct slice name)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t at = r->next + i < r->n ? r->next + i : r->next + i - r->n;
        if (slice_eq(r->v[at]->name, name))
            return at;
    }
    return r->n;
}

int roster_see(struct roster *r, struct slice name, struct roster_entry **out)
{
    if (name.n == 0 || name.n > ROSTER_NAME_MAX)
        return E_PROTO;
    size_t at = find(r, name);
    if (at < r->n) {
        if (r->v[at]->round == r->round)
            return E_PROTO;
        r->v[at]->round = r->round;
        r->next = at + 1;
        *out = r->v[at];
        return 0;
    }
    int result = make_room(r);
    if (result < 0)
        return result;
    struct roster_entry *e = make_entry(r, name);
    if (!e)
        return -ENOMEM;
    memmove(r->v + r->next + 1, r->v + r->next, (r->n - r->next) * sizeof *r->v);
    r->v[r->next++] = e;
    r->n++;
    *out = e;
    return 1;
}

void roster_end(struct roster *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (r->v[i]->round == r->round)
            r->v[kept++] = r->v[i];
        else
            mem_free(r->v[i]);
    }
    r->n = kept;
}
