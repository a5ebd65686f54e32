/* SPDX-License-Identifier: Apache-2.0 */
/* observed.h - for tests of observers: numbered events in batches, and reading back what was written of them.
 */
#ifndef GRIDLINE_TESTS_OBSERVED_H
#define GRIDLINE_TESTS_OBSERVED_H

#include "event/encoding.h"
#include "gateway/observer.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct maker {
    struct registry *registry;
    struct batch_builder *builder;
    int64_t next; /* number of the next event */
};

static inline void maker_init(struct maker *m)
{
    *m = (struct maker){.registry = registry_create(), .next = 1};
    m->builder = batch_builder_create(m->registry, 0);
    assert_non_null(m->builder);
}

static inline void maker_fini(struct maker *m)
{
    batch_builder_destroy(m->builder);
    registry_destroy(m->registry);
}

/* n events `name` with their number and some text that does not compress much. */
static inline struct batch *make_batch(struct maker *m, const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++, m->next++) {
        char text[65];
        uint64_t mixed = (uint64_t)m->next;
        for (size_t k = 0; k < 4; k++) {
            mixed = (mixed ^ (mixed >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
            (void)snprintf(text + 16 * k, 17, "%016llx", (unsigned long long)mixed);
        }
        const struct named_value values[] = {{SLICE_LIT("number"), value_int(m->next)},
                                             {SLICE_LIT("text"), value_text(slice_str(text))}};
        const struct event_head head = {.time_ns = INT64_C(1800000000123456789) + m->next,
                                        .name = slice_str(name),
                                        .host = SLICE_LIT("node7"),
                                        .prog = SLICE_LIT("test"),
                                        .level = m->next % 2 ? LEVEL_INFO : LEVEL_WARNING};
        assert_int_equal(batch_builder_add(m->builder, &head, values, 2, NULL), 0);
    }
    struct batch *b = batch_builder_finish(m->builder, NULL);
    assert_non_null(b);
    return b;
}

static inline void give(struct observers *o, struct maker *m, const char *name, size_t n)
{
    struct batch *b = make_batch(m, name, n);
    observers_batch(o, b);
    batch_unref(b);
}

static inline struct observer_counts counts_of(const struct observers *o)
{
    struct observer_counts c;
    const char *name;
    assert_true(observers_counts(o, 0, &name, &c));
    assert_int_equal(c.taken, c.passed + c.filtered + c.dropped + c.queued);
    return c;
}

static inline void take_all(int fd, struct strbuf *out)
{
    for (ssize_t n = 1; n > 0;) {
        char *to = strbuf_room(out, 65536);
        assert_non_null(to);
        n = read(fd, to, 65536);
        strbuf_advance(out, n > 0 ? (size_t)n : 0);
    }
}

/* What a program makes of a file. It may fail: of a torn one zstd and gzip say so. */
static inline void run_tool(const char *const *arguments, const char *file, struct strbuf *out)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int in = open(file, O_RDONLY), null = open("/dev/null", O_WRONLY);
        if (in >= 0 && dup2(in, 0) >= 0 && dup2(ends[1], 1) >= 0 && dup2(null, 2) >= 0)
            (void)execvp(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    (void)close(ends[1]);
    take_all(ends[0], out);
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        fail_msg("no %s here, or no file %s", arguments[0], file);
}

/* The numbers of the events in that encoding: how many, at most max. *bad counts units that are none. */
static inline size_t read_numbers(struct slice data, const char *encoding, int64_t *numbers, size_t max,
                                  size_t *bad)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct decoder *d;
    size_t n = 0, used = 1;
    int r = 0;
    assert_int_equal(decoder_create(encoding_by_name(slice_str(encoding)), &d), 0);
    *bad = 0;
    while (data.n && (used || r == DECODE_FULL)) {
        r = decoder_run(d, data, true, builder, &used, NULL);
        *bad += r < 0;
        data = slice_from(data, used);
        struct batch *b = batch_builder_finish(builder, NULL);
        for (size_t i = 0; b && i < b->n; i++) {
            assert_in_range(n, 0, max - 1);
            numbers[n++] = event_get(&b->events[i], SLICE_LIT("number")).i;
        }
        batch_unref(b);
    }
    decoder_destroy(d);
    batch_builder_destroy(builder);
    registry_destroy(registry);
    return n;
}

/* The same for numbers that have to be *next, *next + 1, ... */
static inline size_t read_events(struct slice data, const char *encoding, int64_t *next, size_t *bad)
{
    enum { MAX = 200000 };
    int64_t *numbers = malloc(MAX * sizeof *numbers);
    assert_non_null(numbers);
    size_t n = read_numbers(data, encoding, numbers, MAX, bad);
    for (size_t i = 0; i < n; i++, ++*next)
        assert_int_equal(numbers[i], *next);
    free(numbers);
    return n;
}

static char folder[64];

static inline int make_folder(void **unused)
{
    (void)unused;
    memcpy(folder, "/tmp/gridline-observer.XXXXXX", 30);
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)flag, (void)at; /* whatever it is */
    return remove(path);
}

static inline int remove_folder(void **unused)
{
    (void)unused;
    return chdir("/") == 0 && nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

#endif
