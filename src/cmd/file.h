/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - the few file calls that commands share. All descriptors are close-on-exec. */
#ifndef GRIDLINE_CMD_FILE_H
#define GRIDLINE_CMD_FILE_H

#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>
#include <sys/types.h>

/* All of s, or -errno. */
int file_write_all(int fd, struct slice s);
/* Text to standard output; it is freed. An exit code. */
int file_print(struct strbuf *text);
/* What is there, at most n bytes, 0 at the end: their count, or -errno; -EINTR only when stop_asked(). */
ssize_t file_read(int fd, char *to, size_t n);
/* n bytes, fewer only at the end of the file. */
ssize_t file_read_at(int fd, char *to, size_t n, uint64_t offset);
/* A file without a name in $TMPDIR (or /tmp), for reading and writing; it is gone when closed. Or -errno. */
int file_open_temp(void);
/* Where that is, for messages. */
const char *file_temp_dir(void);

#endif
