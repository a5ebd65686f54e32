/* SPDX-License-Identifier: Apache-2.0 */
/* ldap_queue.h - what an LDAP server is to have, and which of it has to be looked at: an entry is `to do`
 * until the server is known to have it as it is. A newer state takes the place of an older one that waits, so
 * it is never more than the entries there are; what is gone is an entry, too, until the server no longer has
 * it.
 *
 * A round begins with nothing known (ldap_queue_begin): everything is to do, and what the server is seen to
 * have as it should be is not (ldap_queue_seen).
 *
 * Does no I/O; who shares it between threads has the lock. About 150 bytes an entry, and its record. */
#ifndef GRIDLINE_GATEWAY_LDAP_QUEUE_H
#define GRIDLINE_GATEWAY_LDAP_QUEUE_H

#include "base/map.h"

enum { LDAP_ENTRIES_MAX = 1 << 18 };

struct ldap_link_node {
    struct ldap_link_node *next, *before;
};

struct ldap_item {
    struct ldap_link_node node; /* in one of the queue's lists; first */
    char *record;               /* the newest; NULL: it is gone */
    size_t record_n;
    uint64_t version;    /* counts its states */
    uint64_t settled_in; /* the round in which nothing was to do about it; in another round there is */
    uint64_t seen_in;    /* the round in which the server was known to have it, in whatever state; 0 = none */
    bool is_held;        /* its host's lease is here: it is ours, whoever has published it */
    bool is_host;
    size_t name_n;
    char name[]; /* the map's key */
};

struct ldap_queue {
    struct map items;
    struct ldap_link_node to_do;
    struct ldap_link_node removals; /* of hosts: behind everything else, as their sensors have to go first */
    struct ldap_link_node settled;
    uint64_t round; /* from 1 */
    size_t waiting;
};

void ldap_queue_init(struct ldap_queue *q);
void ldap_queue_fini(struct ldap_queue *q);

/* 1: it is new or another one than before; 0: it is as it was; E_LIMIT, -ENOMEM. */
int ldap_queue_put(struct ldap_queue *q, struct slice name, struct slice record, bool is_host, bool is_held);
/* true: there is something to do about it. */
bool ldap_queue_remove(struct ldap_queue *q, struct slice name);

void ldap_queue_begin(struct ldap_queue *q);
/* The server has this. false: we know no such entry. */
bool ldap_queue_seen(struct ldap_queue *q, struct slice name, struct slice record);
/* Was it there when this round began, or was it written since? */
static inline bool ldap_item_is_there(const struct ldap_queue *q, const struct ldap_item *i)
{
    return i->seen_in == q->round;
}

/* The next one to do; NULL: none. It stays. */
struct ldap_item *ldap_queue_first(struct ldap_queue *q);
/* It was done as it was at that version: written, removed, or nothing can be done; unless it is another by
 * now. One that is gone is freed. */
void ldap_queue_done(struct ldap_queue *q, struct ldap_item *i, uint64_t version, bool is_there);

#endif
