/* SPDX-License-Identifier: Apache-2.0 */
/* proc_pid.h - one process as /proc/PID tells it: reading its small files, and what is in them. Parsers
 * allocate nothing and borrow from the text. */
#ifndef GRIDLINE_SENSOR_PROC_PID_H
#define GRIDLINE_SENSOR_PROC_PID_H

#include "sensor/env.h"

enum {
    PROC_STAT_MAX =
        1024, /* a stat is some 350 bytes; its numbers are at most 52 of 20 digits, but most are small */
    PROC_STATUS_MAX = 2048, /* the lines that count come early */
    PROC_COMMAND_MAX = 4096 /* of a command line; a longer one is cut */
};

/* What /proc/PID/stat says. */
struct proc_stat {
    struct slice comm; /* the name, at most 15 bytes (63 for threads of the kernel); any bytes; borrowed */
    char state;        /* R, S, D, Z, ... */
    uint64_t ppid, utime, stime, threads;
    uint64_t start; /* ticks (1/100 s) after boot; with the pid it names the process, as pids come again */
    uint64_t vsize; /* bytes */
    uint64_t rss;   /* pages */
    uint64_t exit_code; /* as for wait(2); 0 also where the kernel does not tell or the process runs */
};

/* E_PROTO: cut, or not a stat. The name may hold blanks, parentheses and line ends, as a process can choose
 * it: it ends at the last ')' of the text, behind which there are only numbers. */
int proc_stat_parse(struct slice text, struct proc_stat *out);
/* Has the process ended? The first thread of a process may end before the others: it is a zombie then, the
 * process lives. */
static inline bool proc_stat_is_dead(const struct proc_stat *s)
{
    return (s->state == 'Z' || s->state == 'X' || s->state == 'x') && s->threads <= 1;
}
/* The effective user id in /proc/PID/status. E_NODATA: no such line, or cut in it. */
int proc_status_uid(struct slice text, uint64_t *out);
/* A command line as /proc/PID/cmdline has it (each argument ends with NUL) to text: NULs become blanks, those
 * at the end go. Bytes that are not UTF-8 make every byte above 0x7f a '?'; a character cut at the end goes.
 * In place; returns the length. */
size_t proc_command_text(char *p, size_t n);

/* /proc/PID/NAME, opened for reading: a descriptor, E_NODATA (gone) or -errno. */
int proc_open(struct sensor_env *env, uint32_t pid, const char *name);
/* The file's beginning, at most room bytes, in one pread. The length; E_NODATA: the process is gone; -errno.
 * pid and name are for whoever wants to know what was read. */
int64_t proc_pread(struct sensor_env *env, int fd, uint32_t pid, const char *name, char *to, size_t room);
/* Both and close. */
int64_t proc_read(struct sensor_env *env, uint32_t pid, const char *name, char *to, size_t room);
/* Number of open descriptors; E_NODATA, -EACCES. One stat where the kernel counts (from 6.2), else a readdir.
 */
int64_t proc_count_files(struct sensor_env *env, uint32_t pid);

#endif
