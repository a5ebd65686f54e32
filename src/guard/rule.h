/* SPDX-License-Identifier: Apache-2.0 */
/* rule.h - a rule that runs: its queries, where they are asked, what came of it.
 *
 * A rule over live tables is evaluated here. One that names anything else (archive, summaries, forecasts, the
 * gateway's own tables) is asked at the gateway: its texts are sent (remote.h), and rule_judge gets the rows
 * that came, or that none did, which is no data. Both end in faults_begin .. faults_end.
 *
 * What has data. A fault that is not seen has cleared only if there is fresh data of what it is about: of its
 * host, in each live table that the rule reads and that knows the host; without a host in its key, anything
 * fresh in each. Tables of the guard's own are always fresh. An answer of the gateway is data. One thread. */
#ifndef GRIDLINE_GUARD_RULE_H
#define GRIDLINE_GUARD_RULE_H

#include "guard/faults.h"
#include "guard/judge.h"

struct rule_stats {
    uint64_t evaluations, failures; /* in all; those that gave no answer */
    int64_t at_ns;                  /* of the last one, 0 = none yet */
    int64_t took_ns;
    int code;      /* of the last: 0, E_NODATA, ... */
    char why[200]; /* "" = it went well */
};

/* Rows that came from elsewhere: n_rows of n_columns values. code < 0: none did, why says why. */
struct rule_answer {
    const struct slice *names;
    const struct value *values;
    size_t n_columns, n_rows;
    int code;
    const char *why;
};

struct rule_env { /* borrowed */
    const struct guard_config *config;
    struct live *live;
    struct judge *judge;
    struct faults *faults;
};

struct rule;
/* index: its place in the configuration. E_PROTO, -EACCES: *why says which rule, what is wrong, and where.
 * -EACCES also for a rule that acts on events that anybody may publish (see trust in the configuration). */
int rule_create(const struct rule_env *env, unsigned index, struct rule **out, struct diag *why);
void rule_destroy(struct rule *r); /* NULL is fine */

const struct rule_config *rule_config(const struct rule *r);
const struct rule_stats *rule_stats(const struct rule *r);
bool rule_is_remote(const struct rule *r);
/* The i-th live table that it reads, as SQL calls it ("cpu"); false after the last. */
bool rule_table(const struct rule *r, size_t i, struct slice *name);

/* Evaluates it here and now. */
void rule_evaluate(struct rule *r, int64_t now_ns);
/* The same with what the gateway said; clear is NULL where there is no clear query. */
void rule_judge(struct rule *r, int64_t now_ns, int64_t took_ns, const struct rule_answer *query,
                const struct rule_answer *clear);
/* The host that a fault is about; "" = none. */
struct slice rule_host_of(const struct fault *f);
/* For faults_calls.has_data. */
bool rule_has_data(const struct rule *r, const struct fault *f, int64_t now_ns);

#endif
