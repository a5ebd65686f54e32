/* SPDX-License-Identifier: Apache-2.0 */
/* observer.h - what a gateway does with the events that are in its journal, by configuration (DG-12). One
 * file and one line in observer.c's list each: text (a terminal), file (rotating, any encoding, compressed);
 * the archive is the next. An observer gets batches, filtered, and never holds anything up: one that fails is
 * told once, counts what it lost, and is tried again. Everything is on the loop. */
#ifndef GRIDLINE_GATEWAY_OBSERVER_H
#define GRIDLINE_GATEWAY_OBSERVER_H

#include "base/err.h"
#include "event/batch.h"

struct class_source;
struct config_entry;

/* `observer NAME { type = file  path = "..." ... }`; values as given, NULL = not given. */
struct observer_config {
    const char *name, *type;
    const char *events, *where;       /* patterns by commas and a predicate; "" = all */
    const char *path;                 /* file: "-" and text: standard output */
    const char *encoding;             /* default ulm; text on a terminal: short lines for people */
    const char *compression;          /* "none", "zstd", "gzip" */
    uint64_t max_bytes;               /* rotate at that size; 0 = never */
    int64_t max_age_ns;               /* rotate at that age; 0 = never */
    uint32_t keep;                    /* rotated files that stay; 0 = all */
    const struct config_entry *given; /* every key that was given (config/config.h), for showing; else NULL */
    size_t n_given;
};

struct observer_ops {
    const char *type, *summary;
    /* *out is untouched on failure, and *why says what is wrong. */
    int (*create)(const struct observer_config *c, void **out, struct diag *why);
    /* 0: the events are its now; or an error: the batch, which has at least one event, is lost to this
     * observer. */
    int (*take)(void *self, const struct batch *b);
    /* Once a second and at the end: write out, rotate by age. now: monotonic. An error: what it has taken
     * waits. */
    int (*tick)(void *self, int64_t now_ns);
    /* Events that were taken and are not written yet. */
    uint64_t (*queued)(const void *self);
    /* Somebody has moved its files (SIGHUP): it opens them again. NULL = it has none. */
    void (*reopen)(void *self);
    /* Writes what it can without waiting. */
    void (*destroy)(void *self);
};

/* Events: taken = passed + filtered + dropped + queued. queued wait in memory: at the end they are lost. */
struct observer_counts {
    uint64_t taken, passed, filtered, dropped, queued;
};

struct observers;
/* Borrows nothing of configs. *out is untouched on failure; *why names the observer. */
int observers_create(const struct observer_config *configs, size_t n, struct observers **out,
                     struct diag *why);
/* Fields in `where` are taken by these classes (event/class.h) from now on; borrowed, NULL = none. */
void observers_use_classes(struct observers *o, const struct class_source *classes);
void observers_destroy(struct observers *o); /* NULL is fine; says how many events could not be written */
bool observers_has_any(const struct observers *o); /* NULL is fine */
void observers_batch(struct observers *o, const struct batch *b);
void observers_tick(struct observers *o, int64_t now_ns);
void observers_reopen(struct observers *o);
/* Of the i-th; false behind the last. *name is borrowed. */
bool observers_counts(const struct observers *o, size_t i, const char **name, struct observer_counts *out);

/* The kinds that there are, for help; NULL behind the last. */
const struct observer_ops *observer_at(size_t i);

extern const struct observer_ops observer_text, observer_file;

#endif
