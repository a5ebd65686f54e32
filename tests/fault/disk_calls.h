/* SPDX-License-Identifier: Apache-2.0 */
/* disk_calls.h - the file system calls of this process on files below one folder: seen, and made to fail.
 *
 * A program that links disk_calls.c has the calls of the C library replaced: its own and those of the shared
 * libraries that it uses, SQLite among them. So what is tested is all of the code that will run on a real
 * disk, SQLite's part that speaks to Unix included, and not a file system of ours behind an interface.
 * What only the kernel sees is missed: stores into mapped files (SQLite maps its -shm, which need not be
 * durable), and what the C library does for fopen. powerloss_missed (powerloss.h) finds such a call.
 *
 * One thread watches and works. */
#ifndef GRIDLINE_TESTS_DISK_CALLS_H
#define GRIDLINE_TESTS_DISK_CALLS_H

#include <stddef.h>
#include <stdint.h>

enum disk_call {
    CALL_OPEN,     /* of a file or folder that is there, or a try */
    CALL_CREATE,   /* a file that is new */
    CALL_READ,     /* offset, n */
    CALL_WRITE,    /* offset, bytes, n */
    CALL_TRUNCATE, /* offset: the new size */
    CALL_ALLOCATE, /* offset: at least that size */
    CALL_SYNC,     /* of a file */
    CALL_SYNC_DIR, /* of a folder: path */
    CALL_UNLINK,
    CALL_RENAME, /* path to `to` */
    CALL_MKDIR,
    CALL_KINDS
};

struct disk_op {
    enum disk_call call;
    const char *path; /* below the folder; "" is the folder itself */
    const char *to;
    uint64_t file; /* a number for life, whatever its name */
    uint64_t offset;
    const void *bytes;
    size_t n;
};

struct disk_watch {
    /* Before the call: 0, it is made; -errno, it is not and fails with that. *n: a read or write may be made
     * shorter. NULL = never. */
    int (*before)(void *arg, const struct disk_op *op, size_t *n);
    /* It was made and has worked; reads and opens are not told. NULL = not asked. */
    void (*after)(void *arg, const struct disk_op *op);
    void *arg;
};

/* From now on, below root (an absolute path without links; copied). What is in it has numbers, too, by
 * disk_calls_file. w is copied; NULL: no more. */
void disk_calls_watch(const char *root, const struct disk_watch *w);
/* The number of the file of that name below root, given now if it has none. */
uint64_t disk_calls_file(const char *path);
const char *disk_call_name(enum disk_call call);

#endif
