/* SPDX-License-Identifier: Apache-2.0 */
/* Out of an archive's folder, whoever writes it: what that one has in memory only is not there yet. */
#include "archive/extract.h"
#include "archive/missing.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/export.h"
#include "cmd/say.h"

#include <errno.h>

enum { CACHE_BYTES = 64 << 20 };

struct archive_source_state {
    const char *dir;
    struct view_reader *reader;
    struct view *view;
    struct selector *selector;
    struct extract *extract;
    int64_t from_ns, to_ns; /* what is asked for */
};

static void stop(struct archive_source_state *s)
{
    extract_close(s->extract);
    view_release(s->view);
    selector_destroy(s->selector);
    s->extract = NULL;
    s->view = NULL;
    s->selector = NULL;
}

static void source_close(void *source)
{
    struct archive_source_state *s = source;
    if (!s)
        return;
    stop(s);
    view_reader_destroy(s->reader);
    mem_free(s);
}

static int report(const struct archive_source_state *s, int r, const struct diag *why)
{
    if (r < 0)
        say("%s: %s", s->dir, why && why->message[0] ? why->message : err_text(r));
    return r;
}

static int source_open(const struct export_options *o, void **out)
{
    struct archive_source_state *s = mem_alloc(sizeof *s);
    struct diag why = {0};
    s->dir = o->archive;
    int r = report(s, view_reader_create(NULL, o->archive, CACHE_BYTES, &s->reader, &why), &why);
    if (r < 0)
        source_close(s);
    else
        *out = s;
    return r;
}

static int source_begin(void *source, const struct export_request *q)
{
    struct archive_source_state *s = source;
    struct diag why = {0};
    stop(s);
    const struct select_spec select = {.events = q->events,
                                       .hosts = q->hosts,
                                       .where = q->where,
                                       .on_change = SLICE_LIT(""),
                                       .cross = SLICE_LIT(""),
                                       .delta = SLICE_LIT(""),
                                       .every = SLICE_LIT("")};
    s->from_ns = q->from_ns;
    s->to_ns = q->to_ns;
    int r = selector_create(&select, clock_utc_ns(), &s->selector, &why);
    if (r < 0) {
        say("%s", why.message[0] ? why.message : err_text(r));
        return r;
    }
    r = view_take(s->reader, &s->view);
    const struct extract_spec spec = {
        .from_ns = q->from_ns, .to_ns = q->to_ns, .selector = s->selector, .with_origins = q->with_origins};
    if (r == 0)
        r = extract_open(s->view, &spec, &s->extract);
    return report(s, r, NULL);
}

static int source_next(void *source, const struct batch **out)
{
    struct archive_source_state *s = source;
    return report(s, extract_next(s->extract, out), NULL);
}

static int64_t source_at_ns(void *source)
{
    return extract_at_ns(((struct archive_source_state *)source)->extract);
}

static uint64_t source_lost(void *source)
{
    struct scan_loss loss = extract_damaged(((struct archive_source_state *)source)->extract);
    return loss.rows ? loss.rows : loss.chunks + loss.blobs;
}

static void source_notices(void *source, struct notices *out)
{
    struct archive_source_state *s = source;
    struct missing missing = {0};
    for (size_t i = 0; i < view_tables(s->view); i++) {
        struct slice event = view_table_at(s->view, i)->name;
        if (selector_wants_event(s->selector, event))
            missing_see(&missing, s->view, event, s->from_ns, s->to_ns, MISSING_ROWS);
    }
    missing_say(&missing, out);
    missing_fini(&missing);
}

const struct export_source_ops export_archive = {
    .open = source_open,
    .close = source_close,
    .begin = source_begin,
    .next = source_next,
    .at_ns = source_at_ns,
    .lost = source_lost,
    .notices = source_notices,
};
