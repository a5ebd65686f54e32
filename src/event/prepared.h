/* SPDX-License-Identifier: Apache-2.0 */
/* prepared.h - text that is the same in every event of a schema (`,"user":`), made once and then copied.
 *
 * An encoder of text keeps one prepared_cache in its state. The entries are found by the schema's address and
 * hold a reference to it, so that an address can't come to mean another schema. At most PREPARED_MAX schemas
 * are kept: a newer one takes the place of an older one with the same slot. Belongs to one thread.
 *
 * A schema's text is in pieces: piece 0 belongs to the schema, the others to its fields; what they are and
 * how many a field has is the encoder's business. */
#ifndef GRIDLINE_EVENT_PREPARED_H
#define GRIDLINE_EVENT_PREPARED_H

#include "base/strbuf.h"
#include "event/schema.h"

#include <stdint.h>

enum {
    PREPARED_MAX = 256,
    PREPARED_SLACK = 32 /* prepared_copy may write this many bytes more than the piece is long */
};

struct prepared_piece {
    uint32_t at, n;
};

struct prepared {
    const struct schema *schema; /* a reference */
    char *text;                  /* all pieces, PREPARED_SLACK bytes behind the last */
    size_t text_n;
    struct prepared_piece pieces[];
};

struct prepared_cache {
    struct prepared *last; /* borrowed from slots */
    struct prepared *slots[PREPARED_MAX];
};

/* Appends the piece to out. */
typedef void (*prepared_fill)(const struct schema *s, size_t piece, struct strbuf *out);

void prepared_fini(struct prepared_cache *c);
/* Borrowed until the next call; NULL when out of memory. A schema has 1 + per_field * n_fields pieces. */
const struct prepared *prepared_find(struct prepared_cache *c, const struct schema *s, size_t per_field,
                                     prepared_fill fill);
static inline const struct prepared *prepared_get(struct prepared_cache *c, const struct schema *s,
                                                  size_t per_field, prepared_fill fill)
{
    return c->last && c->last->schema == s ? c->last : prepared_find(c, s, per_field, fill);
}

/* Copies a piece and returns the place behind it. Whole blocks, so that the usual piece costs two moves. */
static inline char *prepared_copy(char *to, const struct prepared *t, size_t piece)
{
    const char *from = t->text + t->pieces[piece].at;
    size_t n = t->pieces[piece].n;
    for (size_t i = 0; i < n; i += PREPARED_SLACK)
        memcpy(to + i, from + i, PREPARED_SLACK);
    return to + n;
}

#endif
