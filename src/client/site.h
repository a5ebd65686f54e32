/* SPDX-License-Identifier: Apache-2.0 */
/* site.h - call sites of GRIDLINE_EVENT, numbered on their first pass.
 *
 * A site lives in the program, perhaps in a plug-in that is unloaded some day; so registering copies all that
 * the drainer needs, and later the site itself is only touched while the loader says that its memory is still
 * there. Registering may happen in a signal handler: no lock, no malloc. */
#ifndef GRIDLINE_CLIENT_SITE_H
#define GRIDLINE_CLIENT_SITE_H

#include "base/slice.h"
#include "gridline/gridline.h"

#include <stdbool.h>
#include <stdint.h>

enum { SITES_MAX = 65536, SITE_FIELDS_MAX = 16 };

struct site_field {
    struct slice name;
    char type; /* i u f b t, as in struct gridline_field */
};

/* Immutable; lives as long as the process. */
struct site_info {
    struct gridline_site *site; /* perhaps unloaded */
    uint32_t number;            /* from 1 */
    uint8_t level;
    uint8_t n_fields;
    struct slice event;
    struct site_field fields[];
};

static inline bool site_is_registered(const struct gridline_site *s)
{
    return !(__atomic_load_n(&s->on, __ATOMIC_RELAXED) & 1u);
}
static inline uint32_t site_number(const struct gridline_site *s)
{
    return (uint32_t)(uintptr_t)__atomic_load_n(&s->own, __ATOMIC_RELAXED);
}

/* False when there is no memory or too many sites: it stays unregistered and will try again. */
bool site_register(struct gridline_site *s);
/* NULL for a number that was never given out. */
const struct site_info *site_at(uint32_t number);
/* The activation of some handle has changed: sets every site's bits anew. One caller at a time. */
void site_update_all(void);

#endif
