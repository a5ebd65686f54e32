/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/line.h"

#include "base/mem.h"
#include "cmd/stop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct line_reader {
    char *line; /* getline's */
    size_t size;
};

struct line_reader *line_open(const struct line_options *o)
{
    (void)o; /* nothing of it is used here */
    return mem_try_alloc(sizeof(struct line_reader));
}

void line_close(struct line_reader *r)
{
    if (r)
        free(r->line);
    mem_free(r);
}

int line_read(struct line_reader *r, const char *prompt, struct slice *out)
{
    (void)fputs(prompt, stdout); /* nowhere to report it */
    (void)fflush(stdout);
    ssize_t n = getline(&r->line, &r->size, stdin);
    if (n < 0) {
        clearerr(stdin);
        return stop_asked() ? -EINTR : 0;
    }
    while (n && (r->line[n - 1] == '\n' || r->line[n - 1] == '\r'))
        n--;
    *out = slice_of(r->line, (size_t)n);
    return 1;
}

void line_remember(struct line_reader *r, const char *text)
{
    (void)r, (void)text; /* there is none */
}
