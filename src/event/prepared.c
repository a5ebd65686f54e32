/* SPDX-License-Identifier: Apache-2.0 */
#include "event/prepared.h"

#include "base/mem.h"

static void drop(struct prepared *t)
{
    if (!t)
        return;
    schema_unref(t->schema);
    mem_free(t->text);
    mem_free(t);
}

void prepared_fini(struct prepared_cache *c)
{
    for (size_t i = 0; i < PREPARED_MAX; i++)
        drop(c->slots[i]);
    *c = (struct prepared_cache){0};
}

static struct prepared *prepare(const struct schema *s, size_t n_pieces, prepared_fill fill)
{
    struct strbuf text = {0};
    struct prepared *t = mem_try_alloc(sizeof *t + n_pieces * sizeof *t->pieces);
    if (!t)
        return NULL;
    for (size_t i = 0; i < n_pieces; i++) {
        t->pieces[i].at = (uint32_t)text.n;
        fill(s, i, &text);
        t->pieces[i].n = (uint32_t)text.n - t->pieces[i].at;
    }
    t->text_n = text.n;
    static const char slack[PREPARED_SLACK];
    strbuf_add(&text, slack, sizeof slack);
    if (strbuf_failed(&text)) {
        strbuf_fini(&text);
        mem_free(t);
        return NULL;
    }
    t->text = text.p; /* taken over */
    t->schema = schema_ref(s);
    return t;
}

const struct prepared *prepared_find(struct prepared_cache *c, const struct schema *s, size_t per_field,
                                     prepared_fill fill)
{
    struct prepared **slot = &c->slots[s->hash % PREPARED_MAX];
    if (!*slot || (*slot)->schema != s) {
        struct prepared *t = prepare(s, 1 + per_field * s->n_fields, fill);
        if (!t)
            return NULL;
        drop(*slot);
        *slot = t;
    }
    c->last = *slot;
    return c->last;
}
