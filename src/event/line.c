/* SPDX-License-Identifier: Apache-2.0 */
#include "event/line.h"

#include "event/limits.h"

#include <errno.h>

/* Drops the rest of a line that was too long, as much of it as is here. */
static size_t skip_rest(struct line_reader *r, struct slice data)
{
    const char *lf = memchr(data.p, '\n', data.n);
    r->skipping = !lf;
    return lf ? (size_t)(lf - data.p) + 1 : data.n;
}

static int refuse_long(struct line_reader *r, struct diag *why)
{
    int code = diag_set(why, E_LIMIT, 0, "the line is longer than %d bytes", EVENT_LINE_MAX);
    if (why)
        why->line = r->line;
    return code;
}

static bool is_blank(struct slice s)
{
    size_t i = 0;
    while (i < s.n && (s.p[i] == ' ' || s.p[i] == '\t'))
        i++;
    return i == s.n;
}

int line_step(struct line_reader *r, line_decode decode, struct slice data, bool at_end,
              struct batch_builder *out, size_t *used, struct diag *why)
{
    if (r->skipping) {
        *used = skip_rest(r, data);
        return 0;
    }
    const char *lf = memchr(data.p, '\n', data.n);
    struct slice line = {data.p, lf ? (size_t)(lf - data.p) : data.n};
    bool whole = lf || at_end;
    *used = 0;
    if (!whole && line.n <= EVENT_LINE_MAX + 1) /* one more for the CR of a CRLF cut in two */
        return 0;
    r->line++;
    *used = line.n + (lf != NULL);
    r->skipping = !whole;
    if (whole && line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (line.n > EVENT_LINE_MAX)
        return refuse_long(r, why);
    if (is_blank(line))
        return 0;
    int rc = decode(r, line, out, why);
    if (rc == 0)
        batch_builder_set_raw(out, line);
    else if (rc == -ENOMEM)
        r->line--; /* the same line will be given again */
    else if (why)
        why->line = r->line;
    return rc;
}
