/* SPDX-License-Identifier: Apache-2.0 */
/* directory.h - who makes what, where, until when (JM-5): hosts, their sensors, and the schemas of what
 * comes.
 *
 * Soft state, fed by three: the states of workers (directory_host), the lists that agents announce
 * (directory_list_begin, _sensor, _end), and every batch (directory_batch), which says when a sensor was
 * heard last and shows what nobody announced: programs' own events, under the name of the program, mode
 * `program`. Nothing is kept on disk: after a restart agents announce again.
 *
 * A sensor is as its agent says while its host is live, `unknown` while that is late, `missing` once the
 * lease is over, `stopped` when the host said goodbye. Hosts that are gone stay for `keep_ns`, then go, as do
 * programs that were silent so long. What is expected (directory_expect) and not there is an entry all the
 * same, `missing`.
 *
 *     d = directory_create(&options);
 *     directory_host(d, host, DIRECTORY_LIVE, now_utc_ns);
 *     directory_list_begin(d, host); directory_list_sensor(d, host, &s)...; directory_list_end(d, host);
 *     for (id = 0; directory_next(d, &id, &entry);) ...
 *
 * Bounded by the limits below; what there was no room for is counted (directory_counts). Knows no gateway and
 * does no I/O; one thread. Memory: about 270 bytes a sensor with one event name. An event costs about 7 ns in
 * a run of one host and schema, about 25 ns where they take turns. */
#ifndef GRIDLINE_DIRECTORY_DIRECTORY_H
#define GRIDLINE_DIRECTORY_DIRECTORY_H

#include "base/err.h"
#include "event/batch.h"

enum {
    DIRECTORY_HOSTS_MAX = 1 << 20,
    DIRECTORY_SENSORS_MAX = 1024,  /* of a host; announced */
    DIRECTORY_PROGRAMS_MAX = 256,  /* of a host; the one that was silent longest gives way */
    DIRECTORY_EVENTS_MAX = 512,    /* names of a host that were not announced */
    DIRECTORY_SCHEMAS_MAX = 16384, /* versions */
    DIRECTORY_VERSIONS_MAX = 64,   /* of one event name */
    DIRECTORY_EXPECT_MAX = 4096,
    DIRECTORY_OBSERVERS = 4,
    DIRECTORY_NAME_MAX = 160, /* bytes of a sensor's name */
    DIRECTORY_TEXT_MAX = 8192 /* bytes of any text that is announced */
};

enum directory_state {
    DIRECTORY_LIVE,
    DIRECTORY_LATE,
    DIRECTORY_EXPIRED,
    DIRECTORY_DEREGISTERED,
    DIRECTORY_UNREGISTERED, /* it never was a worker: programs of it are heard, or it is expected */
    DIRECTORY_STATES
};
const char *directory_state_name(enum directory_state s); /* "live", ..., "unregistered" */

enum directory_status {
    DIRECTORY_RUNNING,
    DIRECTORY_IDLE, /* waits for a request, or for traffic */
    DIRECTORY_SUSPENDED,
    DIRECTORY_FAILED,
    DIRECTORY_STOPPED,
    DIRECTORY_UNKNOWN,
    DIRECTORY_MISSING,
    DIRECTORY_STATUSES
};
const char *directory_status_name(enum directory_status s);
/* false: there is no such status. */
bool directory_status_of(struct slice name, enum directory_status *out);

/* One sensor of one host, as it is now. A view: all of it is borrowed, for the call or until the directory is
 * told something. */
struct directory_entry {
    uint64_t id; /* never given twice; by host, and then in the order of coming */
    struct slice host, domain;
    struct slice
        sensor; /* "cpu", "exec/root-disk"; of programs their name; "*" = any: the host is expected */
    struct slice events;  /* the names it makes, by commas; "" = not known */
    struct slice schemas; /* the hash of each of events, by commas, 16 hex digits or nothing */
    struct slice mode;    /* "always", "on-request", "port", "off"; "program"; of services what they are; "" =
                             not    known: it is missing */
    struct slice why;     /* of DIRECTORY_FAILED */
    enum directory_state host_state;
    enum directory_status status;
    enum directory_status before; /* in on_change, of DIRECTORY_CHANGED; else as status */
    bool is_detail;               /* in on_change: only events or schemas have changed */
    bool is_expected;
    uint64_t every_ms;  /* as configured; 0 = not known */
    int64_t started_ns; /* UTC: since when it is what its agent says it is; of programs: first heard. 0 = not
                           known */
};

enum directory_change { DIRECTORY_ADDED, DIRECTORY_CHANGED, DIRECTORY_GONE };

struct directory_host_entry {
    struct slice host, domain;
    enum directory_state state, before;
    int64_t since_ns; /* of the state, UTC */
    uint32_t sensors; /* entries, but not those of mode `program` and not what is only expected */
    uint32_t programs;
    uint32_t missing; /* entries that are */
    bool is_expected; /* by name */
    bool has_list;    /* it has announced its sensors */
    /* As its newest batch was stamped; CLOCK_BOUND_UNKNOWN: none told. */
    uint64_t clock_bound_ns;
};

/* A version of a schema. */
struct directory_schema {
    uint64_t id; /* from 1, in the order of coming, never given twice */
    struct slice event;
    uint64_t hash;
    const struct schema *schema; /* NULL: a sensor has announced it, and none of its events has come */
    uint64_t makers;           /* hosts that announced it or made it last; each program of a host by itself */
    uint64_t events;           /* that came, since the directory runs */
    int64_t first_ns, last_ns; /* seen or announced, UTC */
    struct slice conflict;     /* fields that have two types over the versions of this name, by commas */
};

/* Who is told of changes, within the call that makes them; they may read the directory, not tell it anything.
 * Events that come are no changes: when one came last, and the rate, are asked for (directory_activity). Any
 * may be NULL. */
struct directory_ops {
    void (*on_change)(void *arg, const struct directory_entry *e, enum directory_change change);
    void (*on_host)(void *arg, const struct directory_host_entry *h, enum directory_change change);
    void (*on_schema)(void *arg, const struct directory_schema *s, enum directory_change change);
};

struct directory_options {
    const char *domain; /* of all hosts here; copied */
    int64_t keep_ns;    /* how long what is gone stays; 0 = a day */
};

struct directory;
struct directory *directory_create(const struct directory_options *o); /* NULL: no memory */
void directory_destroy(struct directory *d);                           /* NULL is fine; nobody is told */
/* ops is borrowed for good. -ENOMEM: there are DIRECTORY_OBSERVERS. */
int directory_observe(struct directory *d, const struct directory_ops *ops, void *arg);

/* What has to be there: "HOST [SENSOR ...]", where HOST may be a pattern: then it means hosts that are known.
 * E_PROTO, E_LIMIT, -ENOMEM: *why. */
int directory_expect(struct directory *d, struct slice text, struct diag *why);

/* A worker is that now. -ENOMEM, E_LIMIT: it is not in the directory, which is counted; and so below. */
int directory_host(struct directory *d, struct slice host, enum directory_state state, int64_t utc_ns);

struct directory_sensor {
    struct slice sensor, events, schemas, mode, why;
    enum directory_status status;
    uint64_t every_ms;
    int64_t started_ns;
};
/* A host's list, whole: what is not between begin and end is gone. */
int directory_list_begin(struct directory *d, struct slice host, int64_t utc_ns);
int directory_list_sensor(struct directory *d, struct slice host, const struct directory_sensor *s);
void directory_list_end(struct directory *d, struct slice host, int64_t utc_ns);

/* What the owner of the directory has on that host beside its sensors: an archive (JM-7). s->events is what
 * it has to offer. Stays as it was said last, whatever becomes of the host. */
int directory_service(struct directory *d, struct slice host, const struct directory_sensor *s,
                      int64_t utc_ns);

void directory_batch(struct directory *d, const struct batch *b, int64_t mono_ns, int64_t utc_ns);
/* About once a second: what is gone long enough goes. Looks at a thousand hosts each time. */
void directory_tick(struct directory *d, int64_t mono_ns, int64_t utc_ns);

/* The entry behind *id (0 = the first), in the order of ids, and its id; false: that was the last. */
bool directory_next(const struct directory *d, uint64_t *id, struct directory_entry *out);
bool directory_find(const struct directory *d, struct slice host, struct slice sensor,
                    struct directory_entry *out);
/* Those of one host, in the same way. */
bool directory_next_of(const struct directory *d, struct slice host, uint64_t *id,
                       struct directory_entry *out);
bool directory_next_host(const struct directory *d, uint32_t *at, struct directory_host_entry *out);
bool directory_find_host(const struct directory *d, struct slice host, struct directory_host_entry *out);
bool directory_next_schema(const struct directory *d, uint64_t *id, struct directory_schema *out);

/* What was heard of one event name of an entry. */
struct directory_activity {
    int64_t last_ns; /* the time of its newest event; 0 = none came */
    uint64_t events; /* that came, since the directory runs */
    double rate;     /* a second, over the last minute */
};
/* event: one of e->events. */
void directory_activity(const struct directory *d, const struct directory_entry *e, struct slice event,
                        int64_t mono_ns, struct directory_activity *out);
/* The hosts of those who make this version (directory_schema.makers of them), until fn says false. */
void directory_schema_makers(const struct directory *d, uint64_t id, bool (*fn)(void *arg, struct slice host),
                             void *arg);

struct directory_counts {
    uint64_t hosts, sensors, programs, schemas;
    uint64_t missing; /* entries that are */
    uint64_t refused_hosts, refused_sensors, refused_events,
        refused_schemas; /* for a limit, or lack of memory */
    uint64_t evicted_programs;
};
void directory_counts(const struct directory *d, struct directory_counts *out);

#endif
