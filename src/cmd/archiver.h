/* SPDX-License-Identifier: Apache-2.0 */
/* archiver.h - the thread that fills an archive from the gateway's journal (DESIGN.md: the archive lags, it
 * is never dropped). It reads what the gateway says is settled, chooses events, appends them, and does what
 * else the archive's writer has to do: flushes, merging, tiers, retention.
 *
 * Everything is called on the gateway's loop (but what archiver_call calls). */
#ifndef GRIDLINE_CMD_ARCHIVER_H
#define GRIDLINE_CMD_ARCHIVER_H

#include "archive/archive.h"
#include "archive/upkeep.h"
#include "event/archived.h"
#include "event/select.h"
#include "net/control.h"

struct archiver_options {
    const char *journal; /* folder */
    struct archive_options archive;
    struct select_spec select;    /* what is archived */
    struct upkeep_options upkeep; /* how long; gone is the archiver's */
};

struct archiver;
struct refill_index;
/* Opens the archive, and begins when archiver_settled says up to where. *why says what is wrong. */
int archiver_create(const struct archiver_options *o, struct archiver **out, struct diag *why);
/* Ends the thread; what is in memory is flushed. NULL is fine. After everybody who has views of the archive.
 */
void archiver_destroy(struct archiver *a);

/* For struct gateway_archive. */
void archiver_settled(void *arg, uint64_t journal, uint64_t record);
uint64_t archiver_safe(void *arg);
void archiver_hurry(void *arg);
void archiver_keep(void *arg, uint64_t record);
void archiver_status(void *arg, struct args_writer *out);
void archiver_state(void *arg, struct archived_state *out);
enum archived_verdict archiver_judge(void *arg, const struct event *e, int64_t now_ns);
void archiver_baseline(void *arg, const struct baseline_order *o);

struct archive *archiver_archive(struct archiver *a); /* for view_reader_create */
struct refill_index *archiver_index(struct archiver *a); /* which events the records that it read had */
/* Waits, on any thread, until what is settled now can be seen by a view: who has an acknowledgement asks for
 * what he wrote. Not for long: one that is far behind, or can't go on, is not waited for. */
void archiver_catch_up(void *arg);
/* The classes of fields as the archive has decided them; good as long as the archiver. */
struct class_source archiver_classes(struct archiver *a);
/* Calls fn on the archiver's thread, soon. Not after archiver_destroy; those that wait then are called. */
void archiver_call(struct archiver *a, void (*fn)(void *arg, struct archive *archive), void *arg);

#endif
