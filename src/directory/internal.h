/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the files of the directory share. Names are interned: the sensors of a thousand hosts
 * have the same few texts, and two of them are equal when their pointers are. */
#ifndef GRIDLINE_DIRECTORY_INTERNAL_H
#define GRIDLINE_DIRECTORY_INTERNAL_H

#include "base/map.h"
#include "base/strbuf.h"
#include "directory/directory.h"

/* An interned text. NULL stands for "". */
struct name {
    uint32_t refs, n;
    char text[];
};

/* A reference, or NULL: no memory, or "" (check text.n). */
struct name *names_get(struct map *names, struct slice text);
struct name *names_find(const struct map *names, struct slice text); /* borrowed */
struct name *names_ref(struct name *n);                              /* NULL is fine */
void names_unref(struct map *names, struct name *n);                 /* NULL is fine */
static inline struct slice name_slice(const struct name *n)
{
    return n ? slice_of(n->text, n->n) : (struct slice){"", 0};
}

enum entry_kind {
    ENTRY_SENSOR,   /* its agent announced it */
    ENTRY_PROGRAM,  /* nobody did, and it makes events */
    ENTRY_EXPECTED, /* nothing is known of it */
    ENTRY_SERVICE   /* the directory's owner says so itself: directory_service */
};

struct entry {
    struct entry *next; /* of its host, by id */
    uint64_t id;
    struct name *sensor, *mode, *why;
    struct name *announced, *announced_schemas; /* events and hashes, as its list said */
    struct name *events, *schemas;              /* these, and what was heard of it besides */
    uint64_t every_ms;
    int64_t started_ns;
    uint32_t list;  /* the number of the list that had it last */
    uint8_t status; /* as announced */
    uint8_t told;   /* what observers know */
    uint8_t kind;
    bool is_expected;
    bool is_new; /* observers do not know it yet */
};

/* An event name of a host, and when it was heard. */
struct made {
    struct made *next; /* of its host */
    struct name *event;
    struct name *prog; /* NULL: a sensor has announced it */
    struct entry
        *owner; /* whose it is where nobody announced it; NULL: announced, or the host's list has not come */
    struct version *version; /* of the event that came last, or as announced */
    uint64_t newest;         /* the highest id that it had */
    struct made *next_of_version, **version_at;
    struct host *host;
    int64_t last_ns; /* the newest event's time */
    uint64_t events;
    int64_t heard_ns; /* when the last one came, monotonic */
    /* The rate: events since window_ns, and in the window before (RATE_WINDOW_NS). Monotonic. */
    int64_t first_ns, window_ns;
    uint64_t in_window, in_last;
    bool is_listed; /* while a list is taken in: a sensor of it makes this */
};

struct host {
    struct name *name; /* the map's key */
    uint32_t no;       /* its place, from 1 */
    uint8_t state;     /* enum directory_state */
    bool has_list;     /* it has announced its sensors */
    bool is_expected;  /* by name */
    int64_t since_ns;
    uint64_t clock_bound_ns;        /* of its newest batch */
    uint32_t list;                  /* number of the list that is being taken in, or was last */
    uint32_t n_sensors, n_programs; /* entries by kind */
    uint32_t n_mades;               /* that nobody announced */
    struct entry *first, **tail;
    struct made *mades, **mades_tail; /* in the order in which they were first heard */
    struct made *recent;              /* the one heard last; NULL: none, or it is gone */
};

struct event_name {
    struct name *name; /* the map's key */
    struct version *first;
    uint32_t n;
    struct name *conflict;
};

/* A schema version. */
struct version {
    struct version *next_of_name; /* newest first */
    struct event_name *of;
    const struct schema *schema; /* a reference; NULL: only announced */
    uint64_t id, hash;           /* the map's key is the hash */
    struct made *mades;
    uint64_t makers, events;
    int64_t first_ns, last_ns;
};

struct expectation {
    struct name *host;
    struct name **sensors;
    size_t n;
    bool is_pattern;
};

struct observer {
    const struct directory_ops *ops;
    void *arg;
};

enum { DIRECTORY_RECENT = 256 };

struct directory {
    struct name *domain;
    int64_t keep_ns;
    struct map names, by_host, by_event, by_hash;
    struct host **hosts; /* hosts[no - 1]; NULL: free */
    size_t n_places, cap_places, free_place;
    uint32_t sweep; /* the place that directory_tick goes on at */
    uint64_t last_id, last_version;
    struct version **versions; /* counts.schemas of them, by id */
    size_t cap_versions, swept_version;
    struct version *recent[DIRECTORY_RECENT]; /* by their schema's address */
    struct name *prog;                        /* of the events heard last */
    struct expectation *expected;
    size_t n_expected, cap_expected;
    struct observer observers[DIRECTORY_OBSERVERS];
    size_t n_observers;
    struct strbuf text; /* being put together */
    struct directory_counts counts;
};

/* ---------------------------------------------------------------- directory.c */

struct host *directory_host_of(const struct directory *d, struct slice host);
/* Makes it, DIRECTORY_UNREGISTERED, if it is not there. */
int directory_host_make(struct directory *d, struct slice host, int64_t utc_ns, struct host **out);

/* A new one, at the end; takes nothing. Nobody is told. NULL: no memory. */
struct entry *directory_entry_add(struct directory *d, struct host *h, struct name *sensor,
                                  enum entry_kind kind);
/* Tells observers and forgets it, with what it owned. */
void directory_entry_remove(struct directory *d, struct host *h, struct entry *e);
void directory_tell_added(struct directory *d, const struct host *h, struct entry *e);
/* Of e as it is now: what is_detail says, or more if its status is another one than was told. */
void directory_tell_changed(struct directory *d, const struct host *h, struct entry *e, bool is_detail);
/* Every entry of h whose status is another one by now. */
void directory_tell_states(struct directory *d, const struct host *h);
bool directory_swap_name(struct directory *d, struct name **at,
                         struct name *new); /* takes new; true: it is another */

/* ---------------------------------------------------------------- heard.c */

/* The host's list has come, whole: which names are announced by now, and whose the others are. */
void heard_settle(struct directory *d, struct host *h, int64_t utc_ns);
/* e->events: what it announced and what it owns. 1: it is another than before; 0; -ENOMEM: as it was. */
int heard_list(struct directory *d, const struct host *h, struct entry *e);
/* A host whose list does not come: what it makes is its programs' after a while. */
void heard_tick(struct directory *d, struct host *h, int64_t utc_ns);
void heard_forget_owner(struct directory *d, struct host *h, const struct entry *e);
void heard_forget_all(struct directory *d, struct host *h);
/* When what e owns was heard last (monotonic); INT64_MIN: it owns nothing. */
int64_t heard_last_mono(const struct host *h, const struct entry *e);

/* ---------------------------------------------------------------- versions.c */

/* The version of an event that came: as versions_see, without a look-up if it was seen lately. */
struct version *versions_of(struct directory *d, const struct schema *schema, int64_t utc_ns);
/* schema NULL: announced. NULL: there is no room, which is counted. */
struct version *versions_see(struct directory *d, struct slice event, uint64_t hash,
                             const struct schema *schema, int64_t utc_ns);
void versions_link(struct version *v, struct made *m); /* m has this version from now on; v NULL: none */
void versions_tick(struct directory *d, int64_t utc_ns);
void versions_fini(struct directory *d);

/* ---------------------------------------------------------------- expect.c */

/* What is expected of h and is not there gets its entry; the entry of what has come goes. */
void expect_settle(struct directory *d, struct host *h);
void expect_fini(struct directory *d);

#endif
