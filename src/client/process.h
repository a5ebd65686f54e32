/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - the open handles of this process, the end of its threads, fork and exit.
 *
 * Locks, in the order in which they are taken: the process lock (here), a handle's lock (handle.h), the
 * activation lock (activate.c). Several at once only at fork, which takes all. */
#ifndef GRIDLINE_CLIENT_PROCESS_H
#define GRIDLINE_CLIENT_PROCESS_H

struct gridline;
struct thread;

void process_lock(void);
void process_unlock(void);

/* Gives g its slot, bit and generation. -EMFILE. The lock is held, here and below. */
int process_add(struct gridline *g);
void process_remove(struct gridline *g);
/* NULL = no open handle in that slot. */
struct gridline *process_handle(unsigned slot);

/* Has ring_thread_ends(t) called when this thread ends. 0, or a negative errno. Signal-safe as long as the
 * program had made fewer than 32 thread-specific keys before this library was loaded (with more, the C
 * library may allocate). */
int process_watch_thread(struct thread *t);
void ring_thread_ends(void *t);

#endif
