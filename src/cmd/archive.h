/* SPDX-License-Identifier: Apache-2.0 */
/* archive.h - what the words of `gridline archive` share. */
#ifndef GRIDLINE_CMD_ARCHIVE_H
#define GRIDLINE_CMD_ARCHIVE_H

#include "cmd/table.h"
#include "net/args.h"

struct archive_options_given {
    const char *archive, *by, *format;
    uint64_t top;
};

struct archive_command {
    const struct archive_options_given *options;
    struct gateway_config *config; /* NULL unless it was asked where the archive is */
    const char *dir;
    struct table_options table_options;
    struct table *table;
    struct args_writer row;
    bool is_partly;
};

/* false after having said why. columns are borrowed. */
bool archive_begin_table(struct archive_command *c, const char *event, const struct table_column *columns);
void archive_add_stream(struct args_writer *row, struct slice key);
void archive_add_producer(struct args_writer *row, const uint8_t id[16]);
void archive_add_span(struct args_writer *row, int64_t from_ns, int64_t to_ns); /* from > to: none */
int archive_stat(struct archive_command *c);                                    /* an exit code */

#endif
