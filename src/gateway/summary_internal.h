/* SPDX-License-Identifier: Apache-2.0 */
/* summary_internal.h - what summary.c keeps and summary_question.c reads.
 *
 * The columns of a stream are the numeric value fields of its schema, in their order; its counters are those
 * of them that are counters. The schema is the union of all versions that came: a field that is new is added
 * at the end, so a column keeps its number. */
#ifndef GRIDLINE_GATEWAY_SUMMARY_INTERNAL_H
#define GRIDLINE_GATEWAY_SUMMARY_INTERNAL_H

#include "gateway/streams.h"
#include "gateway/summary.h"

enum { SUMMARY_SLOTS = SUMMARY_STEPS + 1 };

union number {
    int64_t i;
    uint64_t u;
    double f;
};

/* One field in one step. */
struct stat {
    uint64_t n; /* 0: nothing else counts */
    double sum;
    union number min, max, first, last;
    int64_t first_ns, last_ns;
};

/* What a counter gained in one step, and in how much time. */
struct gain {
    double gain;
    int64_t over_ns;
};

/* The newest reading of a counter. */
struct reading {
    union number v;
    int64_t time_ns;
    bool is_there;
};

struct outside {
    uint64_t late, ahead;
};

/* All arrays are in one allocation, stats first. A window's slots are a ring: step k is in slot
 * k % SUMMARY_SLOTS if that has its number. */
struct cells {
    struct stat *stats;       /* [window][slot][column] */
    struct gain *gains;       /* [window][slot][counter] */
    struct reading *readings; /* [counter] */
    int64_t *numbers;         /* [window][slot] */
    struct outside *outside;  /* [window] */
    uint16_t n_columns, n_counters;
    size_t size;
};

struct summarised {
    struct stream stream;
    const struct schema *schema; /* a reference; what its columns are */
    struct cells cells;
    int64_t heard_ns; /* by the gateway's clock */
    char key[];
};

struct window {
    char text[SUMMARY_WINDOW_TEXT_MAX]; /* as it was configured */
    int64_t length_ns, step_ns;
    struct window *longer;       /* where its steps go when they leave the ring; NULL = nowhere */
    bool is_first;               /* of a chain: takes events first */
    int64_t begin_ns, end_ns;    /* times that it takes, of the batch that is being added */
    int64_t step, step_begin_ns; /* the step looked at last: spares the division */
};

/* Where a field of an event's schema goes. */
struct mapped {
    uint16_t field, column;
    uint16_t counter; /* UINT16_MAX: it is none */
    uint8_t type;
};

/* From a schema version to a stream's. */
struct mapping {
    const struct schema *from, *to; /* references */
    bool is_wanted;                 /* the configuration says so, and there is a number in it */
    bool is_whole;                  /* to has all of it */
    uint16_t n;
    struct mapped v[];
};

enum { MAPPINGS = 1024 };

struct summary {
    struct summary_options options;
    struct window windows[SUMMARY_WINDOWS_MAX]; /* shortest first */
    size_t n_windows;
    int64_t end_ns; /* no window takes what is later */
    struct streams streams;
    struct registry *registry;          /* of the unions: streams with the same fields have the same */
    struct mapping *mappings[MAPPINGS]; /* by the addresses of the schemas; a newer one takes the place */
    struct summary_counts counts;
    struct strbuf key;
    struct gain gained[EVENT_FIELDS_MAX]; /* by the event that is being added, [counter] */
};

bool summary_is_column(const struct field *f);
/* That column of that window, as of now; f is its field, of one->schema. false: nothing is in it. */
bool summary_read(const struct summary *s, const struct summarised *one, const struct field *f, size_t column,
                  size_t window, int64_t now_ns, struct summary_value *out);

void summary_answer(struct summary *s, struct control_turn *t, int64_t now_ns);

#endif
