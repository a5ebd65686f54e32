/* SPDX-License-Identifier: Apache-2.0 */
/* select.h - which events somebody wants: by patterns and WHERE, and of these all, or only those that say
 * something new (JM-4): on change of chosen fields, on crossing a threshold, on a difference, so often at
 * most.
 *
 * The last four look at each stream (stream_key.h) by itself. They remember SELECT_STREAMS_MAX streams;
 * beyond that the one that was quiet longest is forgotten and starts anew when it comes again.
 *   - on_change: the first event of a stream passes, then each in which a chosen field has another value than
 * in the event given last, comes or goes. "*" chooses all fields but keys.
 *   - cross: passes when the value gets to LEVEL or above, and when it then gets below LEVEL - HYSTERESIS:
 * once each. The first event says on which side the stream is and does not pass; between the two nothing is
 *     known, so a first value there counts as below.
 *   - delta: the first passes; then each whose value is at least AMOUNT (or N % of the value) away from that
 * of the event given last.
 *   - every: an event passes if its time is that far from the time of the one given last: forwards, as a
 * rule; backwards, too, so that a clock which was ahead and is set back does not silence the stream. Several
 * together: all have to agree, and only what is given counts as given. on_change takes a field by its class (class.h): a
 * number column's numbers are compared by value, whatever their types and spelling, and its texts are no value; a text
 * column's values by their text. NaN is no value. cross and delta take the number of a value. An event without a value in FIELD does not pass `cross` or `delta`,
 * and they do not remember it.
 *
 * Cost: patterns are looked at once per schema and run of one host, the predicate as it costs (predicate.h);
 * what looks at streams a key and a look-up more. One thread. */
#ifndef GRIDLINE_EVENT_SELECT_H
#define GRIDLINE_EVENT_SELECT_H

#include "base/err.h"
#include "event/batch.h"
#include "event/class.h"

enum {
    SELECT_PATTERNS_MAX = 4096, /* bytes of a list of patterns, or of fields */
    SELECT_STREAMS_MAX = 65536
};

/* As subscribe.h has them; "" = not given. */
struct select_spec {
    struct slice events, hosts, where, on_change, cross, delta, every;
    const struct class_source *classes; /* outlives the selector; NULL: by what schemas and names say */
};

struct selector;
/* spec need not outlive the call. E_PROTO, E_LIMIT, -ENOMEM: *why (not NULL) says which option, what is
 * wrong, and how it is written. */
int selector_create(const struct select_spec *spec, int64_t now_ns, struct selector **out, struct diag *why);
void selector_destroy(struct selector *s); /* NULL is fine */

/* Does it pass everything, so that nobody needs to look? */
bool selector_is_all(const struct selector *s);
/* Does it remember anything of the events it has seen? Two that do not and have the same spec are the same.
 */
bool selector_remembers(const struct selector *s);
/* Could an event of that name be among them? Of that host? For on-demand sensors and directories. */
bool selector_wants_event(const struct selector *s, struct slice name);
bool selector_wants_host(const struct selector *s, struct slice host);

/* Whether its WHERE can't pass events of a name it asks for: predicate_notice. */
bool selector_notice(const struct selector *s, struct diag *why);

bool selector_test(struct selector *s, const struct event *e);
/* The places of those that pass, in order, in index (room for n): how many. No allocation but of streams that
 * are new. */
size_t selector_run(struct selector *s, const struct event *events, size_t n, uint32_t *index);

#endif
