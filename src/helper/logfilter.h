/* SPDX-License-Identifier: Apache-2.0 */
/* logfilter.h - lines of a log into events, by a filter file (docs/filters.md is its language).
 *
 *     logfilter_load("sshd.conf", NULL, &f, &why);
 *     held = logfilter_line(f, line, false, now_ns, &sink);     any number of events
 *
 * A filter takes the text of one record (a line, or several joined) through its prefix patterns, skip
 * patterns and rules, in this order; the first rule that matches makes the event. What it must remember from
 * one record for later ones is in bounded tables; they can be saved and restored, so that a restart does not
 * forget.
 *
 * Everything is bounded: the limits below, and each match by steps and memory. What does not fit, does not
 * match or can't be read as what it should be is counted. PCRE2 with its JIT; about 1 us a line with a
 * handful of rules. One thread. */
#ifndef GRIDLINE_HELPER_LOGFILTER_H
#define GRIDLINE_HELPER_LOGFILTER_H

#include "base/err.h"
#include "base/slice.h"
#include "base/strbuf.h"
#include "event/batch.h"

#include <stdint.h>

enum {
    LOGFILTER_FILE_MAX = 256 << 10, /* bytes of a filter file */
    LOGFILTER_RULES_MAX = 256,
    LOGFILTER_PATTERNS_MAX = 512,    /* all together */
    LOGFILTER_PATTERN_MAX = 8 << 10, /* bytes of one */
    LOGFILTER_GROUPS_MAX = 64,       /* named groups of one pattern */
    LOGFILTER_LIST_MAX = 256,        /* values of any other list */
    LOGFILTER_RECORD_MAX = 64 << 10, /* bytes of lines that were joined; the rest is left out */
    LOGFILTER_TABLES_MAX = 16,
    LOGFILTER_ENTRIES_MAX = 65536,  /* of a table */
    LOGFILTER_ENTRY_MAX = 4 << 10,  /* bytes of one */
    LOGFILTER_FIELDS_MAX = 1024,    /* of an event, as the sink gets it: more than the model has */
    LOGFILTER_MATCH_STEPS = 200000, /* of PCRE2's, for one pattern on one record */
    LOGFILTER_MATCH_KIB = 1024      /* memory of one match */
};

struct logfilter;

struct logfilter_options {
    const char *zone; /* of times that have none: local, utc, +02:00, Europe/Berlin; NULL: as the filter says */
    int year;         /* of the first record where times have none; 0: as the filter says */
    const char *own_host; /* what a filter has as another host is the event's target; NULL: it is the event's host */
};

struct logfilter_stats {
    uint64_t records;    /* lines, or several joined */
    uint64_t events;     /* given to the sink and taken */
    uint64_t skipped;    /* by a skip pattern, or by a rule that only remembers */
    uint64_t unmatched;  /* by no rule (or no prefix) */
    uint64_t trimmed;    /* events with fields over a limit of the model */
    uint64_t refused;    /* events that the sink did not take */
    uint64_t gave_up;    /* matches that took too many steps */
    uint64_t bad_values; /* times, numbers and levels that are none: sent as text */
    uint64_t cut;        /* records that were too long */
    uint64_t evicted;    /* entries that a full table or a restart forgot */
    uint64_t unpaired;   /* what a rule wanted to recall was not there */
};

/* Where events go. Everything is borrowed for the call. E_LIMIT, E_PROTO: not taken. Texts may be longer, and fields
 * more, than an event can have: a builder with BUILDER_TRIM leaves them out and says so. */
struct logfilter_sink {
    int (*event)(void *arg, const struct event_head *head, const struct named_value *values, size_t n);
    void *arg;
};

/* text is borrowed for the call; name is for messages. Errors: E_PROTO, E_LIMIT, -errno, with *why->message
 * "name:line: what; what next". *out is untouched on failure. */
int logfilter_parse(struct slice text, const char *name, const struct logfilter_options *o,
                    struct logfilter **out, struct diag *why);
int logfilter_load(const char *path, const struct logfilter_options *o, struct logfilter **out,
                   struct diag *why);
/* filter is a path, or a name that is looked for in /etc/gridline/filters and then among those installed. */
int logfilter_find(const char *filter, const struct logfilter_options *o, struct logfilter **out, struct diag *why);
/* Only looks whether the file can be used. */
int logfilter_check(const char *path, struct diag *why);
/* The filter for those who have none: each line is the field text of an event of that name. */
int logfilter_plain(const char *event_name, struct logfilter **out, struct diag *why);
void logfilter_destroy(struct logfilter *f); /* NULL is fine */

/* What a line did. */
enum logfilter_held {
    LOGFILTER_DONE,    /* all lines so far are done with */
    LOGFILTER_STARTED, /* this line starts a record that may go on; those before it are done with */
    LOGFILTER_HELD     /* it belongs to a record that was started before and may go on */
};
/* line without its end. is_cut: some of it is missing. now_ns: for lines without a time, and the year of
 * those without. */
enum logfilter_held logfilter_line(struct logfilter *f, struct slice line, bool is_cut, int64_t now_ns,
                                   const struct logfilter_sink *sink);
/* Nothing more belongs to the record that was started. */
void logfilter_flush(struct logfilter *f, int64_t now_ns, const struct logfilter_sink *sink);
/* How long to wait for more lines of a record before it counts as whole. */
int64_t logfilter_wait_ns(const struct logfilter *f);

/* Appends at most max bytes (but 31 at least): what the tables hold, newest first, as much as fits. */
void logfilter_save(const struct logfilter *f, struct strbuf *out, size_t max);
/* Into a new filter. What the filter has no table for is passed over. E_PROTO: not such bytes; nothing is
 * restored. */
int logfilter_restore(struct logfilter *f, struct slice bytes);

const struct logfilter_stats *logfilter_stats(const struct logfilter *f);

#endif
