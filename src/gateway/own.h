/* SPDX-License-Identifier: Apache-2.0 */
/* own.h - the gateway's own events: what became of workers (`worker.state`), what people asked (`control`)
 * and what they were refused (`access.denied`), the ledger (`ledger`), sensors (`directory.sensor`), schemas
 * (`directory.schema`), and itself (`gateway.state`). They go through ingest like everybody's, under a
 * producer of their own: `gridline` and 8 random bytes. */
#ifndef GRIDLINE_GATEWAY_OWN_H
#define GRIDLINE_GATEWAY_OWN_H

#include "directory/directory.h"
#include "event/event.h"
#include "gateway/control.h"
#include "gateway/ingest.h"
#include "gateway/worker.h"

enum { OWN_WAITING_MAX = 64 << 10, OWN_DENIALS = 20 };

struct own;
struct own *own_create(struct ingest *in); /* borrowed. NULL: no memory */
void own_destroy(struct own *o);           /* NULL is fine; after own_end and a commit */

void own_event(struct own *o, uint8_t level, struct slice name, const struct named_value *values, size_t n);
void own_worker_state(struct own *o, const struct worker *w, enum worker_state before, const char *why);
void own_control(struct own *o, const struct control_done *d);
/* At most OWN_DENIALS a second are told one by one; own_denials_rest, once a second and before the end, tells
 * how many more there were. */
void own_denied(struct own *o, const struct access_denial *d);
void own_denials_rest(struct own *o);
void own_gateway_state(struct own *o, uint8_t level, const char *state, const char *why);
/* An account of the ledger; host "" = not known. */
void own_ledger(struct own *o, const struct account *a, struct slice host);
void own_sensor_state(struct own *o, const struct directory_entry *e, enum directory_change change);
void own_schema_new(struct own *o, const struct directory_schema *s);
/* While it is on, what is said is not put in a group, however much it is: for those who are called by ingest.
 */
void own_hold(struct own *o, bool is_on);
/* Puts what was said in the group, after a burst, not after each. What there is no room for waits, up to
 * OWN_WAITING_MAX events: then new ones are dropped and counted (ring_full). */
void own_flush(struct own *o);
/* Is some of it held back until there is room? */
bool own_is_held(const struct own *o);
size_t own_waiting(const struct own *o); /* events that were said and are in no group yet */
/* The last: its epoch is over, with final counts. */
void own_end(struct own *o);

#endif
