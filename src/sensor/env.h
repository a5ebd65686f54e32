/* SPDX-License-Identifier: Apache-2.0 */
/* env.h - the world as sensors see it: files under a root, and clocks. With a root other than "" it is a captured tree
 * (tests/fixtures, another host's proc/ and sys/), and sensors that need system calls say E_NODATA.
 *
 * Files that are read again and again are sources: kept open, read whole with one pread into a buffer of their own, and
 * read at most once a round however many sensors want them (all sensors of one wake-up are one round). Cost: one system
 * call a file and round (two for a file over 3 KiB). "/netlink/NAME" (netlink.h) is a source, too. One thread. */
#ifndef GRIDLINE_SENSOR_ENV_H
#define GRIDLINE_SENSOR_ENV_H

#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

enum {
    ENV_FILE_MAX = 8 << 20, /* bytes of one file; a longer one is cut at a line end */
    ENV_PATH_MAX = 4096
};

struct source;
struct sensor_self;

struct sensor_env {
    const char *root; /* "": this host; else a directory, without a slash at the end */
    uint64_t round;   /* of the wake-up: sources read in it are not read again */
    int64_t (*utc_ns)(void);
    int64_t (*mono_ns)(void);
    struct source *sources;
    const struct sensor_self *self; /* what the agent knows of itself (self.h); NULL: no agent */
    struct slice position; /* what sensor_mark was last given before; for open */
    const char *name;      /* of the instance; for open, borrowed until close */
    /* Called for each system call that reading costs, for `gridline sense --files`; NULL = not. call is "pread",
     * "readdir", "statvfs", "netlink", ...; what the path or the request. */
    void (*on_call)(void *arg, const char *call, const char *what, size_t bytes);
    void *on_call_arg;
};

/* root is borrowed. */
void env_init(struct sensor_env *env, const char *root);
void env_fini(struct sensor_env *env);
bool env_is_live(const struct sensor_env *env); /* this host: system calls make sense */
void env_next_round(struct sensor_env *env);

/* The source of that path ("/proc/stat"), made if need be; it is not opened yet. Count your use with source_close. */
struct source *env_source(struct sensor_env *env, const char *path);
void source_close(struct sensor_env *env, struct source *s); /* NULL is fine */
/* The whole content, NUL behind it, borrowed until the next round. E_NODATA: no such file, or it is empty; other
 * negative codes: can't be read. A file that vanished is looked for again the next time. */
int source_read(struct sensor_env *env, struct source *s, struct slice *out);

/* A file read once, into out (whose old content is dropped): for what is seldom read. Same results. */
int env_read_file(struct sensor_env *env, const char *path, struct strbuf *out);
/* For what is seldom asked. */
bool env_exists(struct sensor_env *env, const char *path);
/* root + path in full, for calls that take a path. */
const char *env_path(const struct sensor_env *env, const char *path, struct strbuf *buffer);
/* Calls fn for each name in the directory but . and .., in no order; its first non-zero result ends it and is returned.
 * E_NODATA: no such directory. */
int env_list(struct sensor_env *env, const char *path, int (*fn)(void *arg, const char *name), void *arg);
/* Tells on_call. */
void env_note(const struct sensor_env *env, const char *call, const char *what, size_t bytes);

#endif
