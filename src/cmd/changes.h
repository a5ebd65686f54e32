/* SPDX-License-Identifier: Apache-2.0 */
/* changes.h - what changes at a gateway, as it tells it itself by events (`worker.state`, `directory.sensor`,
 * `directory.schema`), for --watch: which hosts or schemas are to be asked for again. Nothing is printed. */
#ifndef GRIDLINE_CMD_CHANGES_H
#define GRIDLINE_CMD_CHANGES_H

#include "base/strbuf.h"
#include "net/args.h"

enum { CHANGES_NAMES = 64 };

struct changes;
/* events: patterns; field: which of theirs says what changed. NULL: this gateway does not tell, or not you;
 * ask it again and again instead. Waits for the gateway's answer. */
struct changes *changes_open(const char *gateway, const char *identity, const char *events,
                             const char *field);
void changes_close(struct changes *c); /* NULL is fine */

/* Borrowed until the next wait. */
struct changes_seen {
    bool is_all; /* more than names can say: some were lost, or there are too many */
    size_t n;
    const char *names[CHANGES_NAMES];
    /* Entries that are gone: target, sensor and mode of each (`status` is `gone`). */
    size_t n_gone;
    const struct args *gone;
};
/* Waits for changes, up to so long, and for those that come with the first. true: *out has some. */
bool changes_wait(struct changes *c, int wait_ms, struct changes_seen *out);
/* It tells no more: changes_wait has nothing from now on. */
bool changes_has_ended(const struct changes *c);

#endif
