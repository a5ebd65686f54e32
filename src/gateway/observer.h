/* SPDX-License-Identifier: Apache-2.0 */
/* observer.h - what a gateway does with the events that are in its journal, by configuration (DG-12). One file and one
 * line in observer.c's list each: text (a terminal), file (rotating, any encoding, compressed); the archive is the
 * next. An observer gets batches, filtered, and never holds anything up: one that fails is told once, counts what
 * it lost, and is tried again. */
#ifndef GRIDLINE_GATEWAY_OBSERVER_H
#define GRIDLINE_GATEWAY_OBSERVER_H

#include "base/err.h"
#include "event/batch.h"

struct config_entry;

/* `observer NAME { type = file  path = "..." ... }`; values as given, NULL = not given. */
struct observer_config {
    const char *name, *type;
    const char *events, *where; /* patterns and a predicate; "" = all */
    const char *path;           /* file: "-" and text: standard output */
    const char *encoding;       /* default ulm; text: ulm */
    const char *compression;    /* "none", "zstd", "gzip" */
    uint64_t max_bytes;         /* rotate at that size; 0 = never */
    int64_t max_age_ns;         /* rotate at that age; 0 = never */
    uint32_t keep;              /* rotated files that stay; 0 = all */
    const struct config_entry *given; /* every key that was given (config/config.h), for showing; else NULL */
    size_t n_given;
};

struct observer_ops {
    const char *type, *summary;
    int (*create)(const struct observer_config *c, void **out, struct diag *why);
    /* 0, or an error: the batch is lost to this observer. */
    int (*take)(void *self, const struct batch *b);
    /* Once a second and at the end: flush, rotate by age. now: monotonic. */
    int (*tick)(void *self, int64_t now_ns);
    void (*destroy)(void *self);
};

struct observer_counts {
    uint64_t taken, passed, filtered, dropped; /* events: taken = passed + filtered + dropped */
};

struct observers;
int observers_create(const struct observer_config *configs, size_t n, struct observers **out, struct diag *why);
void observers_destroy(struct observers *o); /* NULL is fine */
bool observers_has_any(const struct observers *o);
void observers_batch(struct observers *o, const struct batch *b);
void observers_tick(struct observers *o, int64_t now_ns);
/* Of the i-th; false behind the last. *name is borrowed. */
bool observers_counts(const struct observers *o, size_t i, const char **name, struct observer_counts *out);

#endif
