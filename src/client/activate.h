/* SPDX-License-Identifier: Apache-2.0 */
/* activate.h - which events are on: a level for all, and levels by pattern of the name, the last match
 * counting.
 *
 * A handle's rules are an immutable object behind an atomic pointer, so that a site can be registered
 * (perhaps in a signal handler) and gridline_write can look without a lock. An old one is freed once nobody
 * can be reading it. */
#ifndef GRIDLINE_CLIENT_ACTIVATE_H
#define GRIDLINE_CLIENT_ACTIVATE_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct gridline;

enum { RULES_MAX = 1024, CONTROL_MAX = 256 * 1024, LEVEL_OFF = -1 };

#define ACTIVATION_FILE "/run/gridline/activate"

/* The control file of a handle, and what it looked like when it was read last. */
struct watch {
    char *path;       /* NULL = none */
    bool is_agents;   /* the agent's file: ACTIVATION_FILE, or else path in the user's own folder */
    const char *read; /* which of the two was read last; NULL = none */
    unsigned missed;  /* looks since it was there */
    int64_t next_mono_ns;
    bool was_there;
    struct timespec mtime;
    off_t size;
    ino_t inode;
};

/* The handle comes (all off until it has a destination) and goes. The process lock is held. -ENOMEM. */
int activate_open(struct gridline *g, int level);
void activate_close(struct gridline *g);
/* It has a destination now. */
int activate_enable(struct gridline *g);

/* The bits of a site: one per handle for which the event is on. Signal-safe. */
unsigned activate_bits(int level, struct slice event);
bool activate_is_on(const struct gridline *g, int level, struct slice event);
/* Changes with each change of any handle's rules. */
uint64_t activate_epoch(void);

/* Replaces the patterns by those of an ACTIVATE frame, as frame_get_activate gives them, without its number; a malformed
 * list changes nothing. */
void activate_list(void *handle, struct slice list);
/* Reads the control file if a second has passed since the last look and it has changed. The handle's lock is
 * held. */
void activate_look(struct gridline *g, int64_t now_mono_ns);
void watch_fini(struct watch *w);
/* Follows what the agent of this host writes for all programs (`gridline activate`): ACTIVATION_FILE, or without one
 * gridline/activate in $XDG_RUNTIME_DIR; only a file of root's or of this user's. When it is gone for three looks, so
 * are its patterns. Without memory, only the first is followed. */
void activate_follow_agent(struct gridline *g);
/* A level's name or number, or "off". 0, or E_PROTO. */
int activate_parse_level(const char *word, int *out);

/* Around fork: the lock under which rules change. */
void activate_fork_lock(void);
void activate_fork_unlock(void);

#endif
