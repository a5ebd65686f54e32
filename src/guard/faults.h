/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h - all faults of the guard: found by rule and key, seen by evaluations, silenced, acknowledged,
 * hidden by parents; and the notices that follow: which actions are to hear of which.
 *
 * A fault is known by its id, a hash of the rule's name and its key's names and values: the same after a
 * restart.
 *
 * What people hear. Silences, quiet times, parents and acknowledgement hold back notices, never the watching.
 * The fire of an episode is told once: when it fires, or as soon as nothing holds it back any more and it
 * still fires (one that is clearing waits whether it returns). Its clear is told when it clears, if and only
 * if its fire was told, whatever is silenced, acknowledged or hidden then. So who was called is always called
 * off, once.
 *
 * Parents. A fault of a parent rule that fires or is clearing hides those of its children that match: all
 * columns that both keys have are equal. A parent of a parent hides, too, where it shares a key column or has
 * no key. A fault with parents is not told before they are known: each parent rule has been evaluated, or has
 * failed to be, since the fault was first seen, and no matching fault of it pends; and after a parent's end
 * not before it was seen present again. This waits at most twice the longest of its parents' every + for +
 * hold_down (and its own every): a parent that hangs swallows nothing.
 *
 * Repeats and escalations are of faults that were told, still fire, and are neither acknowledged nor held
 * back. An escalation is told once an episode, escalate_ns after its fire was told; a repeat repeat_ns after
 * the last fire or repeat. An acknowledgement ends with its episode.
 *
 * A restart is a time without sights (fault.h). What was not written down is lost with all that followed from
 * it: a fire that was told and not committed is told again, together with its actions' orders. Of a run that
 * pends or clears an eighth of its time, or a minute, may be lost. Records are looked at with the
 * configuration of today: the fault of a rule that is gone, or not enabled any more, or has other key
 * columns, is ended by faults_restored: its clear is told if its fire was, to the actions of its rule as it
 * was then.
 *
 * Bounded: over the limits (faults_max; FAULT_BYTES a fault in the mean) the oldest cleared fault makes room;
 * where there is none, new faults are left out and counted for their rule (faults_left_out). Those that are
 * there are never pushed out by others. A row has at most FAULT_FIELDS_MAX fields and FAULT_ROW_BYTES of
 * values: what is beyond is cut; a key that does not fit is left out. One thread, no I/O: records are written
 * by on_change. */
#ifndef GRIDLINE_GUARD_FAULTS_H
#define GRIDLINE_GUARD_FAULTS_H

#include "event/value.h"
#include "guard/config.h"
#include "net/act.h"

#include <limits.h>

enum { FAULT_FIELDS_MAX = 64, FAULT_ROW_BYTES = 4096, FAULT_BYTES = 1024, FAULTS_MAX_DEFAULT = 100000 };
#define RULE_GONE (UINT_MAX - 1) /* fault.rule of one whose rule is no longer there */

struct fault {
    uint64_t id;
    unsigned rule;                /* place in the configuration; RULE_GONE */
    const struct rule_config *of; /* its rule; of one that is gone: name, severity, on_clear, texts "" */
    struct fault_life life;
    /* The row that fired or was seen last, as text: key columns first (n_key of them), in the rule's order.
     * Values of numbers are written so that they read back the same; a key that is NULL is "", other columns
     * that are NULL are not there. Owned by the fault. */
    const struct act_datum *fields;
    size_t n_fields, n_key;
    bool is_told;                             /* its fire was given as a notice, and its clear not yet */
    uint64_t told_episode;                    /* of which episode that was; 0 = not told */
    bool is_silenced, is_hidden, is_in_quiet; /* as of the last look: why it is not, or is not repeated */
    bool is_ended;                            /* by faults_restored: its rule is gone */
    bool is_unheard;  /* read back, no row was about it since, and its rule's `fresh` is not over yet: that it
                       * is  not seen may only mean that its host was not heard again (has_data) */
    int64_t acked_ns; /* 0 = not acknowledged */
    struct slice acked_by, ack_note;
    /* Of told_episode: its fire; its last fire or repeat; its escalation. 0 = not yet. */
    int64_t fire_told_ns, told_ns, escalated_ns;
};

struct silence {
    uint64_t id;             /* from 1 */
    struct slice rule, host; /* patterns with *; "" = any. host: of the field `host` */
    struct slice where;      /* "name=value name=value" of other fields; "" = any */
    int64_t from_ns, until_ns;
    struct slice by, note;
};

enum notice_kind { NOTICE_FIRE, NOTICE_REPEAT, NOTICE_ESCALATE, NOTICE_CLEAR };
const char *notice_name(enum notice_kind k);

/* Borrowed for the call. */
struct notice {
    enum notice_kind kind;
    const struct fault *fault;
    const struct rule_config *rule;
    uint64_t episode; /* that it is about: a clear may come when the next one has begun */
    int64_t now_ns;
};

/* Those of its rule that are to hear of it. */
const struct action_names *notice_actions(const struct notice *n);

struct faults_calls {
    void *arg;
    /* The fault's record has changed and is to be written down; turn: what its life did, TURN_NONE: only what
     * was told, acknowledged or counted. The fault is about to be forgotten when its state is NONE: its
     * record goes. Rows that change and what holds notices back are looked up, not written. */
    void (*on_change)(void *arg, const struct fault *f, enum fault_turn turn);
    void (*on_silence)(void *arg, const struct silence *s, bool is_over);
    /* A fault of this rule was not seen: is there fresh data of what it is about? NULL = always. */
    bool (*has_data)(void *arg, unsigned rule, const struct fault *f, int64_t now_ns);
};

struct faults;
/* config is borrowed. -ENOMEM; -EINVAL: quiet times that can't be read; -ELOOP: a rule is its own ancestor.
 */
int faults_create(const struct guard_config *config, const struct faults_calls *calls, struct faults **out);
void faults_destroy(struct faults *f); /* NULL is fine */

/* ---------------------------------------------------------------- an evaluation of a rule */

/* begin, then rows of the query (faults_see) and of the clear query (faults_see_clear), then end, which
 * judges all faults of the rule that were not seen. An evaluation that failed: begin and end with has_failed;
 * those not seen before it failed are held. Cost: the rows and the faults of this rule. */
void faults_begin(struct faults *f, unsigned rule, int64_t now_ns);
/* E_LIMIT, -ENOMEM: left out, counted. E_NODATA: a key column is missing in the row; *why. Rows of the same
 * key: the first counts. */
int faults_see(struct faults *f, const struct slice *names, const struct value *values, size_t n,
               struct diag *why);
int faults_see_clear(struct faults *f, const struct slice *names, const struct value *values, size_t n,
                     struct diag *why);
/* Policy NO_DATA_FAULT: a host without fresh data is a fault of its own (key: host, others empty, field
 * no_data=1). E_NODATA: the rule's key has no host. */
int faults_see_no_data(struct faults *f, struct slice host);
void faults_end(struct faults *f, bool has_failed);
/* Rows left out, in all; faults_counts.left_out has those of the last evaluation. */
uint64_t faults_left_out(const struct faults *f, unsigned rule);

/* ---------------------------------------------------------------- notices */

/* Gives the notices that are due, once each, and marks them as given (on_change follows). fn may not call
 * back. Called after evaluations, and at the time faults_next says. Bounded work: at most max; returns how
 * many. */
size_t faults_notices(struct faults *f, int64_t now_ns, size_t max,
                      void (*fn)(void *arg, const struct notice *n), void *arg);
/* When a notice (repeat, escalation, end of a silence or quiet time) may be due next; INT64_MAX = never. */
int64_t faults_next(const struct faults *f, int64_t now_ns);
/* Forgets those cleared longer than keep_ns ago, whose clear is told and whose hold-down is over. */
void faults_forget(struct faults *f, int64_t now_ns, int64_t keep_ns);

/* ---------------------------------------------------------------- people */

/* 0; -ENOENT; -EALREADY: it is; -EINVAL: it does not fire. by and note are copied, cut to 200 and 1000 bytes.
 */
int faults_ack(struct faults *f, uint64_t id, struct slice by, struct slice note, int64_t now_ns);
int faults_unack(struct faults *f, uint64_t id, int64_t now_ns);
/* s->id is given here. E_LIMIT (1,000 of them), -EINVAL (until is over, patterns, where: *why). */
int faults_silence(struct faults *f, const struct silence *s, int64_t now_ns, uint64_t *id, struct diag *why);
int faults_unsilence(struct faults *f, uint64_t id, int64_t now_ns); /* -ENOENT */

/* ---------------------------------------------------------------- looking */

const struct fault *faults_find(const struct faults *f, uint64_t id);
/* fn for each; a negative result ends it and is returned. In no order. */
int faults_each(const struct faults *f, int (*fn)(void *arg, const struct fault *fault), void *arg);
int faults_silences(const struct faults *f, int (*fn)(void *arg, const struct silence *s), void *arg);
struct faults_counts {
    size_t pending, firing, clearing, cleared;
    size_t acked, silenced, hidden; /* of those that fire or are clearing */
    size_t left_out;                /* rows, at the last evaluation */
};
void faults_count(const struct faults *f, unsigned rule,
                  struct faults_counts *out); /* UINT_MAX = all rules */
/* Its summary by the rule's template, or "host=c0-0 mount=/var free=12" without one. */
void fault_summary(const struct fault *f, const struct rule_config *rule, struct strbuf *out);
/* Since when it is what it is: pending, firing (or clearing), cleared. UTC ns. */
int64_t fault_since(const struct fault *f);
/* As 16 hexadecimal digits. */
void fault_id_print(uint64_t id, char out[17]);
bool fault_id_parse(struct slice text, uint64_t *out);

/* ---------------------------------------------------------------- records (state.h) */

/* Version 1; the layout is in faults_record.c. */
void fault_pack(const struct fault *f, const struct guard_config *config, struct strbuf *out);
void silence_pack(const struct silence *s, struct strbuf *out);
/* What was written down before, before the first evaluation. E_PROTO, E_VERSION, -ENOMEM. -ENOENT: a fault
 * that does not fire, of a rule that is no longer there: there is nothing to tell, its record may go. */
int faults_restore_fault(struct faults *f, struct slice record);
int faults_restore_silence(struct faults *f, struct slice record);
/* Silences up to this number were given: none has it again. */
void faults_restore_numbers(struct faults *f, uint64_t last);
/* Behind the last record: ends those whose rule is gone (on_change with TURN_CLEARS, is_ended). */
void faults_restored(struct faults *f, int64_t now_ns);

/* Walks everything and aborts on what can't be: for tests. */
void faults_check(const struct faults *f);

#endif
