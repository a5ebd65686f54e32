/* SPDX-License-Identifier: Apache-2.0 */
/* A filter and lines for it, separated by a NUL. What must hold:
 *   - a filter that is refused says where and why;
 *   - events have names that the model knows, no field twice, no missing value;
 *   - every record is accounted for: an event, refused, skipped or dropped as unmatched;
 *   - what is saved can be restored, and saving that again gives the same bytes. */
#include "base/text.h"
#include "helper/logfilter.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static int check_event(void *arg, const struct event_head *head, const struct named_value *values, size_t n)
{
    uint64_t *events = arg;
    ++*events;
    require(text_is_name(head->name) && head->level < LEVEL_COUNT && n <= EVENT_FIELDS_MAX);
    for (size_t i = 0; i < n; i++) {
        require(text_is_name(values[i].name) && values[i].value.type != VALUE_NONE);
        for (size_t k = 0; k < i; k++)
            require(!slice_eq(values[i].name, values[k].name));
    }
    return 0;
}

static void check_save(struct logfilter *f, struct slice filter)
{
    struct strbuf saved = {0}, again = {0};
    struct logfilter *g;
    struct diag why;
    logfilter_save(f, &saved, SIZE_MAX);
    require(logfilter_parse(filter, "fuzz", NULL, &g, &why) == 0);
    require(logfilter_restore(g, strbuf_slice(&saved)) == 0);
    logfilter_save(g, &again, SIZE_MAX);
    require(slice_eq(strbuf_slice(&saved), strbuf_slice(&again)));
    logfilter_destroy(g);
    strbuf_fini(&saved);
    strbuf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *nul = size ? memchr(data, 0, size) : NULL;
    struct slice all = {(const char *)data, size}, filter = {all.p, nul ? (size_t)(nul - all.p) : size};
    struct slice lines = slice_from(all, filter.n + 1);
    struct logfilter *f = NULL;
    struct diag why = {0};
    uint64_t events = 0;
    struct logfilter_sink sink = {check_event, &events};
    if (size == 0)
        return 0;
    if (logfilter_parse(filter, "fuzz", NULL, &f, &why) < 0) {
        require(!f && strncmp(why.message, "fuzz:", 5) == 0);
        return 0;
    }
    (void)logfilter_restore(f, lines); /* any answer is right; it must not crash */
    while (lines.n > 0) {
        const char *lf = memchr(lines.p, '\n', lines.n);
        size_t n = lf ? (size_t)(lf - lines.p) : lines.n;
        (void)logfilter_line(f, slice_of(lines.p, n), n % 7 == 6, INT64_C(1794801600000000000), &sink);
        lines = slice_from(lines, n + 1);
    }
    logfilter_flush(f, INT64_C(1794801600000000000), &sink);
    const struct logfilter_stats *s = logfilter_stats(f);
    require(s->events == events && s->events + s->skipped <= s->records);
    require(s->events + s->skipped + s->unmatched >= s->records);
    check_save(f, filter);
    logfilter_destroy(f);
    return 0;
}
