/* SPDX-License-Identifier: Apache-2.0 */
/* publisher.h - a text or blocks that somebody publishes in one go, by HTTP or XML-RPC: decoded, checked
 * against what its sender may publish, and answered when all of it is in the journal.
 *
 * With an origin (producer, epoch, seq) it is taken once, however often it is sent; its events are numbered
 * in their order, so a text in which one can't be read is refused as a whole. Without one, those that can be
 * read are taken, and the others are listed. Blocks have their own origins.
 *
 * Blocks go to ingest one at a time, each after the one before is in the journal. On the loop. */
#ifndef GRIDLINE_GATEWAY_PUBLISHER_H
#define GRIDLINE_GATEWAY_PUBLISHER_H

#include "event/encoding.h"
#include "gateway/access.h"
#include "gateway/ingest.h"
#include "gateway/session.h"

enum { PUBLISHER_ERRORS = 10 };

struct publisher {
    struct ingest_source source; /* first: the callbacks get it */
    struct sessions *sessions;
    const struct access_identity *who;
    struct batch_origin origin; /* all zero = none */
    /* Once, from the loop: everything is settled. */
    void (*done)(struct publisher *p);

    /* What became of it: */
    int result;       /* 0; E_PROTO, E_LIMIT, -ESTALE, -EACCES; -EAGAIN: try again; -ENOMEM */
    uint64_t taken;   /* events that are in the journal, or were there */
    uint64_t refused; /* that are not; */
    uint64_t too_old, too_new;            /* of these because of their time */
    struct batch_trimmed trimmed;         /* of those taken: without fields that are over a limit */
    struct diag errors[PUBLISHER_ERRORS]; /* the first of them: line, column, what */
    size_t n_errors;
    char text[200]; /* why, when result is not 0 */

    /* Its own: */
    struct event *turn;
    struct access_view *says; /* what it may publish; NULL = anything */
    struct strbuf blocks;
    size_t at;       /* of the block that is on its way */
    uint64_t events; /* in blocks */
    uint32_t denied; /* of the block that is on its way, those that were refused for their time */
    bool is_waiting;
};

/* Zeroed but for sessions, who, origin and done. -ENOMEM: no timer. publisher_fini in any case. */
int publisher_start(struct publisher *p, struct event_base *base, const struct encoding *encoding,
                    struct slice body);
void publisher_fini(
    struct publisher *p); /* also of one that waits: what is on its way gets there, unanswered */

#endif
