/* SPDX-License-Identifier: Apache-2.0 */
/* mem.h - allocation. Daemons and commands use mem_alloc, which ends the program when the machine is out of
 * memory. Sizes chosen by a peer or a file, and everything inside libgridline, go through mem_try_alloc.
 *
 * mem_fail_after(n) makes the n-th allocation from now fail (once), for tests; 0 switches that off. */
#ifndef GRIDLINE_BASE_MEM_H
#define GRIDLINE_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Never returns NULL. Zeroed. */
void *mem_alloc(size_t n) __attribute__((malloc, returns_nonnull));
/* Returns NULL when there is no memory. Zeroed. */
void *mem_try_alloc(size_t n) __attribute__((malloc));
/* Like realloc; the new part is not zeroed. On failure NULL is returned and the old block stays valid. */
void *mem_try_resize(void *p, size_t n);
/* NULL is fine. */
void mem_free(void *p);

void mem_fail_after(uint64_t n);

/* For a signal handler that ends the process next and may have interrupted malloc: from now on what this thread
 * allocates comes from a reserve of MEM_RESERVE bytes and nothing that it frees is given back. Signal-safe. No way back. */
enum { MEM_RESERVE = 4 << 20 };
void mem_last_words(void);

#endif
