/* SPDX-License-Identifier: Apache-2.0 */
/* silence.h - the silences of the guard: which faults people do not want to hear of, until when. faults.h has
 * what a silence is; this is their list, and whom they are about. Part of faults, no module of its own. */
#ifndef GRIDLINE_GUARD_SILENCE_H
#define GRIDLINE_GUARD_SILENCE_H

#include "guard/faults.h"

enum {
    SILENCES_MAX = 1000,
    SILENCE_PATTERN_MAX = 256,
    SILENCE_WHERE_MAX = 1000,
    PERSON_MAX = 200,
    NOTE_MAX = 1000
};

/* One allocation; the texts of s are behind it. */
struct silence_entry {
    struct silence s;
    char texts[];
};

struct silences {
    struct silence_entry **v; /* by id, ascending */
    size_t n, cap;
    uint64_t last_id;
};

void silences_fini(struct silences *all);
/* -EINVAL with *why: until is not behind from, a pattern that is not closed or too long, where. */
int silence_check(const struct silence *s, struct diag *why);
/* A copy of s (by and note cut) with this id. E_LIMIT, -ENOMEM; -EEXIST. */
int silences_add(struct silences *all, const struct silence *s, uint64_t id, const struct silence **out);
const struct silence *silences_find(const struct silences *all, uint64_t id);
void silences_remove(struct silences *all, uint64_t id);
/* One that is over at now_ns, or NULL. */
const struct silence *silences_over(const struct silences *all, int64_t now_ns);
/* When one begins or ends next; INT64_MAX = never. */
int64_t silences_next(const struct silences *all, int64_t now_ns);
bool silences_match(const struct silences *all, const struct fault *f, int64_t now_ns);

#endif
