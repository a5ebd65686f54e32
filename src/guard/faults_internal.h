/* SPDX-License-Identifier: Apache-2.0 */
/* faults_internal.h - what the files of faults share: the set (faults.c), evaluations (faults_see.c), rows
 * (faults_row.c), parents (faults_parent.c), notices (faults_notice.c), records (faults_record.c).
 *
 * A fault is one struct entry and one struct row. It is in the map by id, in the list of its rule, if it is
 * cleared in the list of those, and in the heap if a notice of it has a time. Room in the heap is made when
 * the fault is: nothing that happens to it later can fail but taking over a longer row, which leaves the old
 * one. */
#ifndef GRIDLINE_GUARD_FAULTS_INTERNAL_H
#define GRIDLINE_GUARD_FAULTS_INTERNAL_H

#include "base/map.h"
#include "guard/faults.h"
#include "guard/quiet.h"
#include "guard/silence.h"

struct entry;

struct entry_list {
    struct entry *first, *last;
    size_t n;
};
struct entry_link {
    struct entry *prev, *next;
};

/* The columns of a rule's rows in the order of fields: names are kept once for all rows of the same columns.
 */
struct shape {
    size_t refs;
    size_t n, n_key;
    size_t n_in;           /* columns of the query, also those that are not kept */
    const uint16_t *order; /* column of the query for each of n */
    struct slice names[];  /* n, the bytes and order behind them */
};

/* A row that is kept; the bytes of its values are behind its fields. */
struct row {
    struct shape *shape; /* holds a reference */
    size_t bytes;        /* of this allocation */
    size_t n;
    struct act_datum fields[];
};

/* A row that has come: its values are in faults.values, or wherever a record is. */
struct scratch {
    size_t n, n_key;
    size_t bytes; /* of all values */
    struct act_datum fields[FAULT_FIELDS_MAX];
};

struct entry {
    struct fault f;
    struct row *row;
    char *ack; /* the bytes of acked_by and ack_note */
    struct entry_link in_rule, in_cleared;
    bool is_cleared_listed;
    bool is_waiting;    /* not told because its parents are not known yet */
    bool is_to_end;     /* restored, and its rule is gone: faults_restored */
    uint8_t activity;   /* as the indices of parents have it: enum activity */
    uint8_t counted;    /* as counts have it: its state, and bits of COUNTED_ */
    uint32_t heap_at;   /* place in the heap + 1; 0 = not in it */
    uint64_t stamp;     /* the evaluation that saw it last */
    int64_t due_ns;     /* its place in the heap */
    uint64_t due_order; /* among those of the same time: first come, first served */
    int64_t saved_ns;   /* what had counted (fault_counted_ns) when it was last written down */
    /* Waiting for parents (faults_parent.c). */
    uint64_t parents_seq; /* parents must have been evaluated behind this one */
    uint64_t present_seq; /* the evaluation that saw it present last */
    int64_t waits_ns;     /* since when: it fired, or was read back; 0 = not known yet */
};

enum { COUNTED_STATE = 0x0f, COUNTED_ACKED = 0x10, COUNTED_SILENCED = 0x20, COUNTED_HIDDEN = 0x40 };
enum activity { ACTIVITY_NONE, ACTIVITY_PENDS, ACTIVITY_FIRES };

struct activity_counts {
    size_t v[3];        /* by enum activity */
    uint64_t ended_seq; /* the evaluation with which the last of them ceased to fire; 0 = none did */
    int64_t ended_ns;
};

/* Which faults of a rule there are, by the values of some of its key columns: one for each set of columns
 * that a child rule has in common with it. */
struct parent_index {
    unsigned rule; /* the parent */
    const char *columns[RULE_KEY_MAX];
    size_t n_columns;
    struct map by_values;       /* struct parent_node */
    struct activity_counts all; /* whatever their values */
    struct activity_counts any; /* of those that lack one of the columns: they match everything */
    struct parent_index *next;  /* of the same parent */
};

struct rule_state {
    const struct rule_config *config;
    struct entry_list entries;
    struct faults_counts counts;
    uint64_t left_out;
    struct shape *shape, *clear_shape, *no_data_shape; /* of the last row; NULL = none yet */
    uint64_t evaluated_seq;                            /* its last evaluation that has ended; 0 = never */
    bool is_dirty;                                     /* all of it is to be looked at again */
    bool has_moved; /* activity of its faults has changed in this evaluation */
    struct quiet *quiet;
    size_t n_quiet;
    bool is_in_quiet;
    struct parent_index *indices;    /* of it as a parent */
    struct parent_index **ancestors; /* of its parents, theirs, ... */
    size_t n_ancestors;
    unsigned *descendants; /* rules that have it as an ancestor */
    size_t n_descendants;
    int64_t wait_max_ns; /* the longest that a fault of it waits for its parents */
    size_t n_waiting;    /* not told because of parents that are not known yet */
};

struct faults {
    const struct guard_config *config;
    struct faults_calls calls;
    struct rule_state *rules; /* one for each of the configuration, and one for those that are gone */
    size_t n_rules;           /* of the configuration */
    struct arena arena;       /* of the rules, and of what is known of rules that are gone */
    struct map gone;          /* struct rule_config by name, of those */
    struct map by_id;
    size_t max;
    uint64_t bytes, bytes_max; /* of entries and rows */
    struct entry **heap;
    size_t heap_n, heap_cap;
    uint64_t due_order;
    struct entry_list cleared; /* by when, the oldest first */
    struct silences silences;
    int64_t silence_next_ns, quiet_next_ns;
    bool is_dirty;   /* some rule is */
    int64_t last_ns; /* the latest time that was said, by the clock of now */
    int64_t restored_ns;
    uint64_t seq;                /* counts evaluations */
    struct rule_state *now_rule; /* of the evaluation under way; NULL = none */
    int64_t now_ns;
    struct scratch scratch;
    struct strbuf text;   /* some key values at a time: has room for any, appending can't fail */
    struct strbuf values; /* of scratch: has room for any, too */
};

static inline struct entry *entry_of(const struct fault *f)
{
    return (struct entry *)f; /* f is its first member */
}
static inline struct rule_state *rule_of(struct faults *fs, const struct entry *e)
{
    return &fs->rules[e->f.rule < fs->n_rules ? e->f.rule : fs->n_rules];
}

/* faults.c */
/* The id of this rule's fault with these keys. */
uint64_t faults_id(const char *rule, const struct act_datum *keys, size_t n);
/* Makes an entry of this row (takes it, also on failure) and links it: state none. E_LIMIT, -ENOMEM. */
int faults_add(struct faults *fs, uint64_t id, unsigned rule, struct row *row, struct entry **out);
void faults_remove(struct faults *fs, struct entry *e);
/* Is there room for one more, with a row of so many bytes? Makes it by forgetting the oldest that are
 * cleared. */
bool faults_make_room(struct faults *fs, size_t bytes);
/* After every change of an entry's state, acknowledgement and flags: keeps counts, lists and indices. */
void faults_recount(struct faults *fs, struct entry *e);
/* To be written down. */
void faults_changed(struct faults *fs, struct entry *e, enum fault_turn turn);
void faults_set_ack(struct entry *e, int64_t acked_ns, char *bytes, size_t n_by,
                    size_t n_note); /* takes bytes */

/* faults_row.c */
/* The shape of a query's rows; key columns come first. E_NODATA with *why: one is missing. */
int shape_of_query(const struct rule_config *rule, const struct slice *names, size_t n, struct shape **out,
                   struct diag *why);
bool shape_is_of_query(const struct shape *s, const struct slice *names, size_t n);
/* That of fields in their order, as records have them. */
int shape_of_fields(const struct scratch *s, struct shape **out);
bool shape_is_of_fields(const struct shape *s, const struct scratch *scratch);
void shape_unref(struct shape *s); /* NULL is fine */
/* Reads values into scratch. E_LIMIT: the key is too long. */
int row_scan(struct faults *fs, const struct shape *shape, const struct value *values);
size_t row_bytes(const struct scratch *s);
/* Keeps scratch: in *row, if it has room, or a new one in its place, within the limit of bytes (of a first
 * one the caller has looked, faults_make_room). E_LIMIT, -ENOMEM: *row is as it was. */
int row_keep(struct faults *fs, struct shape *shape, struct row **row);
void row_destroy(struct faults *fs, struct row *r); /* NULL is fine */

/* faults_parent.c */
int parents_create(struct faults *fs);
void parents_destroy(struct faults *fs);
/* Room for the entry in the indices of its rule; it is counted nowhere yet. */
int parents_hold(struct faults *fs, struct entry *e);
void parents_release(struct faults *fs, struct entry *e);
void parents_set_activity(struct faults *fs, struct entry *e, enum activity to);
/* Does a fault of an ancestor fire? */
bool parents_hide(struct faults *fs, const struct entry *e);
/* Until when it waits for its ancestors to be known, if nothing comes before: now_ns or earlier = it need
 * not. */
int64_t parents_wait(struct faults *fs, const struct entry *e, int64_t now_ns);
/* An evaluation of this rule has ended. */
void parents_evaluated(struct faults *fs, struct rule_state *r);
void parents_check(const struct faults *fs);

/* faults_notice.c */
/* Brings flags and the time of its next notice up to date. */
void faults_look(struct faults *fs, struct entry *e, int64_t now_ns);
void faults_undue(struct faults *fs, struct entry *e);      /* out of the heap */
void faults_dirty(struct faults *fs, struct rule_state *r); /* NULL = all rules */
/* The time of any call that has one, before it is used. */
void faults_take_time(struct faults *fs, int64_t now_ns);
/* Its clear is to be told. */
bool faults_owes_clear(const struct entry *e);

#endif
