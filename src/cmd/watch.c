/* SPDX-License-Identifier: Apache-2.0 */
/* A row is known by the values of its key columns and compared by those that count, both as text. When the
 * gateway tells of a change, what changed is asked for again, so that what is printed are rows like the first
 * ones; an entry that is gone can't be asked for and is printed as the gateway told it. */
#include "cmd/watch.h"

#include "base/mem.h"
#include "base/text.h"
#include "cmd/changes.h"
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

/* ---------------------------------------------------------------- what the gateway tells */

/* As a pattern that matches nothing else. */
static void add_quoted(struct strbuf *out, const char *name)
{
    for (; *name; name++) {
        if (strchr("*?[\\", *name))
            strbuf_add_char(out, '\\');
        strbuf_add_char(out, *name);
    }
}

/* The question for one of what it is about. Of two arguments of a name the last one counts. */
static int ask_about(struct question *q, const char *verb, const char *narrow, const char *name)
{
    size_t n = q->args.list.n;
    uint32_t count = q->args.n;
    struct strbuf pattern = {0};
    if (!text_glob_any(args_text(args_of(&q->args), narrow), slice_str(name)))
        return EXIT_OK; /* nobody asked for it */
    add_quoted(&pattern, name);
    args_add_text(&q->args, narrow, strbuf_slice(&pattern));
    int code = question_pages(q, verb);
    q->args.list.n = n;
    q->args.n = count;
    strbuf_fini(&pattern);
    return code;
}

static void print_gone(struct question *q, struct watch *w, struct args row)
{
    describe(&w->key, row, w->options->keys);
    struct seen *s = map_remove(&w->seen, strbuf_slice(&w->key));
    if (!s)
        return; /* it was not among them */
    mem_free(s->shows);
    mem_free(s);
    table_add(q->table, row, SLICE_LIT(""));
}

/* Asks for what changed; with redraws for all of it. */
static int ask_changed(struct question *q, struct watch *w, const char *verb, const struct changes_seen *seen)
{
    if (seen->is_all || w->redraws)
        return question_pages(q, verb);
    int code = EXIT_OK;
    for (size_t i = 0; i < seen->n && code == EXIT_OK; i++)
        code = ask_about(q, verb, w->options->narrow, seen->names[i]);
    for (size_t i = 0; i < seen->n_gone && code == EXIT_OK; i++)
        print_gone(q, w, seen->gone[i]);
    return code;
}

/* Until there is something to ask for: what, in *seen. */
static void wait_for_change(struct watch *w, struct changes *c, struct changes_seen *seen)
{
    *seen = (struct changes_seen){.is_all = true};
    if (!c || changes_has_ended(c)) {
        (void)poll(NULL, 0, WATCH_EVERY_MS); /* a signal ends it early */
        return;
    }
    bool is_some;
    do
        is_some = changes_wait(c, WATCH_EVERY_MS, seen);
    while (!is_some && !w->redraws && !stop_asked() && !changes_has_ended(c));
}

/* ---------------------------------------------------------------- */

int watch_run(struct question *q, const char *verb, bool is_watch, const struct watch_options *o,
              void (*each)(void *arg, const struct frame_answer *row), void (*behind)(void *arg), void *arg)
{
    bool redraws = !is_watch || (isatty(STDOUT_FILENO) && !q->table_options.encoding);
    struct watch w = {.options = o, .redraws = redraws, .each = each, .arg = arg};
    struct changes_seen seen = {.is_all = true};
    /* From before the first answer on: what changes between is in one of both. */
    struct changes *changes =
        is_watch && o->events ? changes_open(ask_address(q->ask), q->options->identity, o->events, o->field)
                              : NULL;
    q->on_row = on_row;
    q->arg = &w;
    int code = question_pages(q, verb);
    while (code == EXIT_OK) {
        if (show_round(q, &w, is_watch) < 0)
            break; /* said, or nobody reads */
        if (behind && redraws)
            behind(arg);
        if (is_watch && !stop_asked())
            wait_for_change(&w, changes, &seen);
        if (!is_watch || stop_asked())
            break;
        q->may_be_none = true; /* what was there may go */
        code = ask_changed(q, &w, verb, &seen);
    }
    changes_close(changes);
    fini(&w);
    return code;
}
