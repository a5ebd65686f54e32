/* SPDX-License-Identifier: Apache-2.0 */
/* facts.h - a small durable map in a SQLite file: (kind, key) to value, all of it in memory. What the
 * catalogue is kept in. One thread. The file's layout is in facts.c. */
#ifndef GRIDLINE_ARCHIVE_FACTS_H
#define GRIDLINE_ARCHIVE_FACTS_H

#include "base/err.h"
#include "base/slice.h"

struct fact {
    uint64_t id; /* of its row: in the order in which keys came */
    uint8_t kind;
    struct slice key, value;
};

struct facts;
/* A writer makes the file where there is none; a reader gets -ENOENT. path NULL: in memory alone. E_DAMAGE:
 * SQLite can't read it at all; what it can read, but is wrong or not all, is said by facts_is_damaged.
 * E_VERSION. */
int facts_open(const char *path, bool is_writer, struct facts **out, struct diag *why);
void facts_close(struct facts *f); /* NULL is fine; what is not committed is forgotten */
bool facts_is_damaged(const struct facts *f);
/* Reads what another connection has committed since. 1: there was something; 0: nothing. */
int facts_refresh(struct facts *f);
uint64_t facts_commits(const struct facts *f); /* so many there were */

/* Good until it is set or removed. NULL: there is none. */
const struct fact *facts_get(const struct facts *f, uint8_t kind, struct slice key);
/* All of one kind, in the order of ids: NULL at the end; *i starts at 0. Not while facts are set or removed.
 */
const struct fact *facts_next(const struct facts *f, uint8_t kind, size_t *i);
/* In memory at once, on disk with facts_commit. kind is not 0. */
int facts_set(struct facts *f, uint8_t kind, struct slice key, struct slice value);
int facts_remove(struct facts *f, uint8_t kind, struct slice key); /* -ENOENT */
/* 0, or nothing is on disk of what has changed (and it is tried again by the next). */
int facts_commit(struct facts *f);

#endif
