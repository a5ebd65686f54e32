/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.h - the bytes of a descriptor, unpacked if its first ones say that they are gzip or zstd; several
 * members or frames behind each other are one file, as gunzip and zstd -d read it. Memory: 128 KiB, and what
 * the library needs (zstd: up to the file's window, at most 128 MiB). */
#ifndef GRIDLINE_CMD_UNPACK_H
#define GRIDLINE_CMD_UNPACK_H

#include <stdint.h>
#include <sys/types.h>

struct unpack;

/* Borrows fd; nothing is read yet. NULL: no memory. */
struct unpack *unpack_create(int fd);
void unpack_destroy(struct unpack *u); /* NULL is fine */

/* At most n bytes of what is in it, 0 at the end: their count, or -errno (-EINTR only when stop_asked()), or
 * E_DAMAGE: the rest can't be unpacked, unpack_why says it; what came before was right. */
ssize_t unpack_read(struct unpack *u, char *to, size_t n);
const char *unpack_why(const struct unpack *u);
/* Read from the descriptor so far. */
uint64_t unpack_bytes(const struct unpack *u);

#endif
