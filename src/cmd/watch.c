/* SPDX-License-Identifier: Apache-2.0 */
/* A row is known by the values of its key columns and compared by those that count, both as text. */
#include "cmd/watch.h"

#include "base/mem.h"
#include "cmd/file.h"
#include "cmd/stop.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

struct seen {
    char *shows; /* what counts, as text */
    char key[];
};

struct watch {
    const struct watch_options *options;
    bool redraws; /* every row is printed each time */
    struct map seen;
    struct strbuf key, shows;
    void (*each)(void *arg, const struct frame_answer *row);
    void *arg;
};

static void describe(struct strbuf *out, struct args row, const char *const *columns)
{
    struct arg a;
    strbuf_reset(out);
    if (columns) {
        for (; *columns; columns++) {
            table_add_value(out, args_value(row, *columns));
            strbuf_add_char(out, '\t');
        }
        return;
    }
    while (args_next(&row, &a)) {
        strbuf_printf(out, "%.*s=", SLICE_ARG(a.name));
        table_add_value(out, a.value);
        strbuf_add_char(out, '\t');
    }
}

static char *copy(const struct strbuf *s)
{
    char *p = mem_alloc(s->n + 1);
    if (s->n)
        memcpy(p, s->p, s->n);
    return p;
}

/* Is it new, or not as it was? Remembers it. */
static bool has_changed(struct watch *w, struct args row)
{
    describe(&w->key, row, w->options->keys);
    describe(&w->shows, row, w->options->changes);
    struct seen *s = map_get(&w->seen, strbuf_slice(&w->key));
    if (s && strcmp(s->shows, w->shows.p ? w->shows.p : "") == 0)
        return false;
    if (!s) {
        s = mem_alloc(sizeof *s + w->key.n + 1);
        memcpy(s->key, w->key.p, w->key.n);
        if (map_put(&w->seen, slice_of(s->key, w->key.n), s) < 0)
            abort(); /* out of memory: as mem_alloc */
    }
    mem_free(s->shows);
    s->shows = copy(&w->shows);
    return true;
}

static bool on_row(void *arg, const struct frame_answer *row)
{
    struct watch *w = arg;
    if (w->each)
        w->each(w->arg, row);
    return w->redraws || has_changed(w, row->args);
}

static void fini(struct watch *w)
{
    void *v;
    for (size_t i = 0; map_next(&w->seen, &i, &v);) {
        mem_free(((struct seen *)v)->shows);
        mem_free(v);
    }
    map_fini(&w->seen);
    strbuf_fini(&w->key);
    strbuf_fini(&w->shows);
}

static int show_round(struct question *q, const struct watch *w, bool is_watch)
{
    if (is_watch && w->redraws) {
        (void)file_write_all(STDOUT_FILENO, SLICE_LIT("\x1b[H\x1b[2J")); /* what follows fails the same way */
        table_again(q->table);
    }
    return table_round(q->table);
}

int watch_run(struct question *q, const char *verb, bool is_watch, const struct watch_options *o,
              void (*each)(void *arg, const struct frame_answer *row), void (*behind)(void *arg), void *arg)
{
    bool redraws = !is_watch || (isatty(STDOUT_FILENO) && !q->table_options.encoding);
    struct watch w = {.options = o, .redraws = redraws, .each = each, .arg = arg};
    q->on_row = on_row;
    q->arg = &w;
    int code;
    do {
        code = question_pages(q, verb);
        if (code == EXIT_OK && show_round(q, &w, is_watch) < 0)
            break; /* said, or nobody reads */
        if (code == EXIT_OK && behind && redraws)
            behind(arg);
        if (is_watch && code == EXIT_OK)
            (void)poll(NULL, 0, WATCH_EVERY_MS); /* a signal ends it early */
    } while (is_watch && code == EXIT_OK && !stop_asked());
    fini(&w);
    return code;
}
