/* SPDX-License-Identifier: Apache-2.0 */
/* access_internal.h - the table as access.c made it, for the files of access. */
#ifndef GRIDLINE_GATEWAY_ACCESS_INTERNAL_H
#define GRIDLINE_GATEWAY_ACCESS_INTERNAL_H

#include "base/arena.h"
#include "gateway/access_table.h"

struct patterns {
    const struct slice *v;
    size_t n; /* 0 = any; of hide: none */
};

/* A row, taken apart. Patterns of hosts, targets and names of identities are in lower case. */
struct rule {
    const struct access_subject *subjects;
    size_t n_subjects;
    bool spares_agents; /* it is not about those who are agents (access_identity) */
    uint32_t may, may_not;
    struct patterns hosts, events, targets, hide;
    struct access_row row; /* as it was written, for people; file NULL: it is built in */
};

struct held_token {
    const char *name;
    unsigned char sha256[32];
};

struct access {
    const struct rule *rules;
    size_t n;
    const struct held_token *tokens;
    size_t n_tokens;
    struct arena arena; /* holds them */
    void (*on_denied)(void *arg, const struct access_denial *d);
    void *arg;
};

/* The pattern ACCESS_OWN_HOST is known by this address. */
extern const char access_own_host[];

/* What is asked about. p NULL: of some or other. host, target and own (the identity's name) are in lower
 * case. */
struct resource {
    struct slice host, event, target, own;
};

enum fit {
    FIT_NO,
    FIT_SOME, /* it depends on what was not said */
    FIT_ALL
};

const struct access *access_table_of(const struct access_identity *who);
bool access_is_about(const struct rule *r, const struct access_identity *who);
enum fit access_fit(const struct rule *r, const struct resource *of);
bool access_match(const struct patterns *p, struct slice text); /* one of them; not ACCESS_OWN_HOST */
/* In lower case in to, which has room for EVENT_ORIGIN_MAX bytes; false: it is longer, so no host's. */
bool access_lower(struct slice text, char *to, struct slice *out);

#endif
