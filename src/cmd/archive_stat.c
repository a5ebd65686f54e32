/* SPDX-License-Identifier: Apache-2.0 */
/* gridline archive stat: what an archive is spent on. */
#include "cmd/archive.h"

#include "archive/usage.h"
#include "cmd/options.h"
#include "cmd/say.h"

#include <errno.h>
#include <inttypes.h>

static const struct table_column columns[] = {{"of", 0},    {"file", 0},  {"event", 0},    {"host", 0},
                                              {"prog", 0},  {"key", 40},  {"producer", 0}, {"rows", 0},
                                              {"bytes", 0}, {"share", 0}, {"streams", 0},  {"overflow", 0},
                                              {"from", 0},  {"to", 0},    {NULL, 0}};

static const char *const kind_names[USAGE_KINDS] = {[USAGE_PARTITION] = "partition",
                                                    [USAGE_EVENT] = "event",
                                                    [USAGE_STREAM] = "stream",
                                                    [USAGE_PRODUCER] = "producer"};

static void add_key(struct args_writer *row, enum usage_kind kind, struct slice key)
{
    if (kind == USAGE_PARTITION)
        args_add_text(row, "file", key);
    else if (kind == USAGE_EVENT)
        args_add_text(row, "event", key);
    else if (kind == USAGE_STREAM)
        archive_add_stream(row, key);
    else
        archive_add_producer(row, (const uint8_t *)key.p);
}

static void add_rows(struct archive_command *c, struct usage *u, enum usage_kind kind)
{
    size_t n;
    const struct usage_row *rows = usage_rows(u, kind, &n);
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += rows[i].bytes;
    for (size_t i = 0; i < n && (!c->options->top || i < c->options->top); i++) {
        args_writer_reset(&c->row);
        args_add_text(&c->row, "of", slice_str(kind_names[kind]));
        add_key(&c->row, kind, rows[i].key);
        args_add_uint(&c->row, "rows", rows[i].rows);
        args_add_uint(&c->row, "bytes", rows[i].bytes);
        if (all)
            args_add(
                &c->row, SLICE_LIT("share"),
                value_float((double)(uint64_t)(1000.0 * (double)rows[i].bytes / (double)all + 0.5) / 1000));
        if (kind != USAGE_STREAM)
            args_add_uint(&c->row, "streams", rows[i].streams);
        if (rows[i].is_overflow)
            args_add(&c->row, SLICE_LIT("overflow"), value_bool(true));
        archive_add_span(&c->row, rows[i].from_ns, rows[i].to_ns);
        table_add(c->table, args_of(&c->row), SLICE_LIT(""));
    }
}

/* --by, or all. */
static bool is_wanted(const struct archive_command *c, enum usage_kind kind)
{
    return !c->options->by || slice_eq_str(slice_str(c->options->by), kind_names[kind]);
}

int archive_stat(struct archive_command *c)
{
    struct usage *u = NULL;
    struct diag why = {0};
    bool is_any = false;
    for (unsigned kind = 0; kind < USAGE_KINDS; kind++)
        is_any |= is_wanted(c, kind);
    if (!is_any) {
        say("--by: '%s' is not one of event, stream, producer and partition", c->options->by);
        return EXIT_USAGE;
    }
    if (!archive_begin_table(c, "archive.usage", columns))
        return EXIT_USAGE;
    say_progress_start("looked at", 0);
    int r = usage_gather(c->dir, say_progress, &u, &why);
    say_progress_end();
    if (r < 0) {
        say("%s", why.message);
        return r == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
    }
    for (unsigned kind = 0; kind < USAGE_KINDS; kind++)
        if (is_wanted(c, kind))
            add_rows(c, u, kind);
    uint64_t unreadable = usage_unreadable(u);
    usage_destroy(u);
    if (table_finish(c->table) < 0)
        return EXIT_FAILED;
    if (unreadable)
        say("%" PRIu64 " blobs or partitions could not be read; `gridline archive check` says more",
            unreadable);
    return unreadable ? EXIT_PARTLY : EXIT_OK;
}
