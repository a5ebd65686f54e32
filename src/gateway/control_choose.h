/* SPDX-License-Identifier: Apache-2.0 */
/* control_choose.h - which workers a question means: patterns of host names, and a predicate over what is
 * known of each. A choice is for one question: made, asked about every worker, ended. About two
 * microseconds a worker with a predicate. */
#ifndef GRIDLINE_GATEWAY_CONTROL_CHOOSE_H
#define GRIDLINE_GATEWAY_CONTROL_CHOOSE_H

#include "base/err.h"
#include "event/schema.h"
#include "gateway/access.h"
#include "gateway/worker.h"

struct predicate;

struct choice {
    struct slice patterns;   /* borrowed; globs by commas, "" = all */
    struct predicate *where; /* NULL = all */
    struct registry *registry;
    /* Who asks: workers of which nothing may be seen are not there, hidden properties are missing. Borrowed,
     * set behind choice_init; NULL = all is seen. */
    struct access_view *view;
    int failed; /* -ENOMEM: a worker could not be looked at, so the answers do not count */
};

/* E_PROTO, E_LIMIT: *why says what is wrong with the predicate ("" = none); -ENOMEM. choice_fini in any case.
 */
int choice_init(struct choice *c, struct slice patterns, struct slice where, int64_t now_ns,
                struct diag *why);
void choice_fini(struct choice *c);
bool choice_takes(struct choice *c, const struct worker *w);
bool choice_is_all(const struct choice *c);

/* Does one of the patterns (by commas, blanks around them ignored; none = any) match? */
bool choice_matches(struct slice patterns, struct slice host);
/* An args list as a worker keeps it; empty when it has none. */
struct args choice_list(const char *bytes, uint32_t n);
const char *choice_mode_name(const struct worker *w);

#endif
