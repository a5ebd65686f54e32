/* SPDX-License-Identifier: Apache-2.0 */
/* logfilter_internal.h - a filter from the inside: made by logfilter_load.c, run by logfilter.c. */
#ifndef GRIDLINE_HELPER_LOGFILTER_INTERNAL_H
#define GRIDLINE_HELPER_LOGFILTER_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "event/value.h"
#include "helper/logfilter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* ---- times: logfilter_time.c ---- */

enum { LOGTIME_CHANGES_MAX = 512 }; /* two a year, and more where they follow the moon */

/* From this second, UTC, on the zone is so far east. */
struct logtime_change {
    int64_t from_s, offset_s;
};

/* The zone of times that have none, and what tells the year and the hour of those that are in doubt. */
struct logtime_zone {
    int64_t offset_s; /* east of UTC, before the first change */
    struct logtime_change changes[LOGTIME_CHANGES_MAX];
    size_t n_changes;
    int year;         /* of the first record, where times have no year; 0: told from when the log was read */
    bool has_after;   /* the time of the record before: */
    int64_t after_ns;
};

/* local, utc, ±HH:MM, or a zone of the system's (Europe/Berlin), whose changes from 1970 to 2100 are looked up now. Not
 * while other threads run: the process's TZ is another for a moment. */
int logtime_zone_parse(struct slice s, struct logtime_zone *out);
/* Can the format be used? E_PROTO: *bad is the first letter behind a % that is none of ours. */
int logtime_check(const char *format, char *bad);
/* All of text must be in the format. A year that the format lacks is zone->year, or the next where time would go back by
 * more than half a year from after_ns; without zone->year it is the last that does not bring it more than a day
 * behind now_ns. */
int logtime_parse(const char *format, struct slice text, const struct logtime_zone *zone, int64_t now_ns,
                  int64_t *out);

/* ---- values: logfilter_value.c ---- */

enum logvalue_type {
    LOGVALUE_TEXT,
    LOGVALUE_INT,
    LOGVALUE_UINT,
    LOGVALUE_FLOAT,
    LOGVALUE_BOOL,
    LOGVALUE_DURATION, /* 90, 1.5s, 01:30, 1-02:03:04: a float of seconds */
    LOGVALUE_SIZE,     /* 10, 4k, 2MiB: a uint of bytes */
    LOGVALUE_TIME,     /* in one of the filter's time formats: a float of seconds since 1970 */
    LOGVALUE_TYPES,
    LOGVALUE_UNTYPED = LOGVALUE_TYPES /* no type is given: what value_untyped makes of the text */
};

int logvalue_type_parse(struct slice s, enum logvalue_type *out);
/* Not for LOGVALUE_TIME. E_PROTO, -ERANGE: the text is no such value. */
int logvalue_parse(enum logvalue_type type, struct slice text, struct value *out);

/* ---- tables: logfilter_table.c ---- */

struct table_entry;

struct logtable {
    struct slice name;
    size_t n, max;
    bool is_queue;  /* a key has several entries; the oldest is recalled and forgotten first */
    int64_t age_ns; /* an older entry is dropped; 0 = none is too old */
    struct map by_key;
    struct table_entry *newest, *oldest;
    bool is_filled; /* some rule puts entries into it */
};

/* An entry: fields as table_add_field wrote them. */
struct table_view {
    int64_t time_ns;
    struct slice fields;
};

void table_fini(struct logtable *t);
/* Drops entries that are older than the table keeps them, and counts them. */
void table_expire(struct logtable *t, int64_t now_ns, uint64_t *evicted);
/* Adds, or replaces where the table is no queue; copies. Forgets the oldest entry of a full table and counts it; so is an entry over the
 * limit. */
void table_put(struct logtable *t, struct slice key, int64_t time_ns, struct slice fields, uint64_t *evicted);
bool table_get(const struct logtable *t, struct slice key, struct table_view *out);
void table_remove(struct logtable *t, struct slice key);
void table_add_field(struct strbuf *out, struct slice name, struct value v);
/* The next field of an entry from *rest; false at its end. */
bool table_next_field(struct slice *rest, struct named_value *out);

/* ---- the filter ---- */

struct group {
    struct slice name;
    uint32_t number;
    enum logvalue_type type;
    bool is_field; /* its name does not start with an underscore */
};

struct pattern {
    pcre2_code *code;
    struct group *groups;
    size_t n_groups;
};

struct pattern_list {
    struct pattern *v;
    size_t n;
};

/* "job {id} on {host}": text and the names of groups, by turns. */
struct template_part {
    struct slice text;
    bool is_group;
};
struct template
{
    struct template_part *v;
    size_t n; /* 0 = not given */
};

struct typed_template {
    struct slice name;
    struct template value;
    enum logvalue_type type;
};

struct type_of {
    struct slice name;
    enum logvalue_type type;
};

struct level_of {
    struct slice text;
    uint8_t level;
};

struct table_use {
    struct logtable *table; /* NULL = none */
    struct template key;
};

struct rule {
    struct slice label; /* the section's title */
    struct pattern_list match;
    struct template name, level, host, prog, id, target;
    enum logvalue_type id_type;
    struct slice time_group;
    struct typed_template *fields;
    size_t n_fields;
    struct table_use remember, recall, forget, end;
    struct slice *keep; /* fields to remember */
    size_t n_keep;      /* 0 = all */
    bool emits;
};

/* The time of a record without one: that of reading; of the last record that had one; or that, and as much as has
 * passed since it was read. */
enum time_missing { TIME_NOW, TIME_LAST, TIME_CLOCK };

enum multiline { LINES_SINGLE, LINES_START, LINES_CONTINUE, LINES_END };

struct capture {
    struct slice name, text;
    enum logvalue_type type;
    bool is_field;
};

struct logfilter {
    struct arena arena; /* all texts and arrays of the filter */
    struct pattern_list prefix, skip;
    struct rule *rules;
    size_t n_rules;
    size_t n_patterns;
    const char **time_formats;
    size_t n_time_formats;
    struct logtime_zone zone;
    enum time_missing time_missing;
    struct slice own_host; /* p not NULL: another host is the event's target, and no event has a host */
    struct slice unmatched;    /* name of its event; empty = dropped */
    struct level_of *levels;
    size_t n_levels;
    struct logtable tables[LOGFILTER_TABLES_MAX];
    size_t n_tables;

    enum multiline multiline;
    struct pattern_list multiline_pattern; /* one */
    struct pattern_list whole;             /* a record that matches needs no further line; one or none */
    struct slice join;
    size_t lines_max;
    int64_t wait_ns;

    /* For running. */
    pcre2_match_context *context;
    pcre2_jit_stack *jit_stack;
    pcre2_match_data *data;
    int64_t last_time_ns, last_read_ns;
    bool has_last_time, has_last_read; /* a time that was restored was not read */
    uint64_t number;                   /* of the record, from 1: {_number} */
    char number_text[24];
    struct strbuf record; /* lines of the record that was started */
    size_t n_lines;       /* of it; 0 = none was started */
    bool is_record_cut;
    size_t n_captures;
    struct capture captures[2 * LOGFILTER_GROUPS_MAX + 1]; /* and {_number} */
    struct arena scratch; /* texts of the event being made */
    struct strbuf text;   /* one of them while it grows */
    struct strbuf stored;
    struct named_value values[LOGFILTER_FIELDS_MAX];
    size_t n_values;
    uint32_t pairs_max; /* of any pattern's groups */
    struct logfilter_stats stats;
};

/* What all filters need before the first line. */
int logfilter_prepare(struct logfilter *f);

#endif
