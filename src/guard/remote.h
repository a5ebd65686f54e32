/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - SQL asked at the gateway, on a thread, with a deadline: what came is given on the loop. Gateways
 * are tried in order; one that does not answer by half of the time that is left is given up for the next.
 * Bounded: rows and bytes of an answer. */
#ifndef GRIDLINE_GUARD_REMOTE_H
#define GRIDLINE_GUARD_REMOTE_H

#include "guard/errand.h"
#include "guard/rule.h"

enum { REMOTE_ROWS_MAX = 200000, REMOTE_BYTES_MAX = 64 << 20, REMOTE_TEXTS_MAX = 2 };

struct remote;
/* gateways: addresses with commas between, "" = that of this host. Texts are borrowed, errands too. */
int remote_create(struct errands *errands, const char *gateways, const char *identity, struct remote **out);
void remote_destroy(struct remote *r); /* after the errands; NULL is fine */

/* answers: one for each text, in order, borrowed for the call. */
typedef void (*remote_done)(void *arg, const struct rule_answer *answers, size_t n, int64_t took_ns);
/* Asks one or two texts (copied). E_LIMIT: too much is being asked; -ENOMEM. done is called once, later,
 * unless the guard ends before. */
int remote_ask(struct remote *r, const char *const *texts, size_t n, int64_t deadline_ns, remote_done done,
               void *arg);

#endif
