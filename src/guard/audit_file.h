/* SPDX-License-Identifier: Apache-2.0 */
/* audit_file.h - the files of an audit: audit-000001.log and on. For audit.c and audit_verify.c only. */
#ifndef GRIDLINE_GUARD_AUDIT_FILE_H
#define GRIDLINE_GUARD_AUDIT_FILE_H

#include "base/strbuf.h"

enum { AUDIT_NAME = 32 };
/* A line behind what a crash has left: its data has how many bytes those are, and their hash. */
#define AUDIT_TORN "audit.torn"

void audit_file_name(char to[AUDIT_NAME], uint64_t number);
/* The highest number of a file in the folder; 0 = none. */
int audit_file_last(int folder, uint64_t *out);
/* All of it, behind what is in out. -ENOENT; E_LIMIT: over 1 GiB. */
int audit_file_read(int folder, uint64_t number, struct strbuf *out);

/* The next line of text at *at, without its newline; false at the end. *is_whole: there is a newline. */
static inline bool audit_file_line(struct slice text, size_t *at, struct slice *line, bool *is_whole)
{
    if (*at >= text.n)
        return false;
    struct slice rest = slice_from(text, *at);
    const char *end = memchr(rest.p, '\n', rest.n);
    *is_whole = end != NULL;
    *line = slice_of(rest.p, end ? (size_t)(end - rest.p) : rest.n);
    *at += line->n + (end ? 1 : 0);
    return true;
}

#endif
