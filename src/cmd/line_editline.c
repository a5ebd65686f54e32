/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C is a key here and not a signal: while a line is edited the terminal sends none (-isig), and the key
 * ends the line at once; libedit itself would only read on after a signal. */
#include "cmd/line.h"

#include "base/mem.h"
#include "base/strbuf.h"

#include <errno.h>
#include <histedit.h>
#include <stdio.h>

enum { HISTORY_MAX = 1000, SHOWN_MAX = 100 };

struct line_reader {
    struct line_options options;
    EditLine *edit;
    History *history;
    const char *prompt;
    bool is_cancelled; /* Ctrl-C ended the line */
    /* Of a completion: */
    struct strbuf candidates; /* one behind the other, a blank between them */
    struct strbuf common;     /* what all begin with */
    size_t n_candidates;
};

static struct line_reader *of(EditLine *e)
{
    void *r = NULL;
    (void)el_get(e, EL_CLIENTDATA, &r); /* it was set */
    return r;
}

static char *prompt_of(EditLine *e)
{
    return (char *)(uintptr_t)of(e)->prompt; /* libedit only reads it */
}

static unsigned char on_interrupt(EditLine *e, int c)
{
    (void)c; /* the key */
    of(e)->is_cancelled = true;
    (void)fputs("^C\n", stdout);
    return CC_NEWLINE;
}

/* ---------------------------------------------------------------- completion */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static void add_candidate(void *to, struct slice candidate)
{
    struct line_reader *r = to;
    size_t n = 0;
    if (r->n_candidates++ == 0) {
        strbuf_add_slice(&r->common, candidate);
    } else {
        while (n < r->common.n && n < candidate.n &&
               slice_lower(r->common.p[n]) == slice_lower(candidate.p[n]))
            n++;
        r->common.n = n;
    }
    if (r->n_candidates > SHOWN_MAX)
        return;
    strbuf_add_str(&r->candidates, r->candidates.n ? "  " : "");
    strbuf_add_slice(&r->candidates, candidate);
}

static unsigned char on_complete(EditLine *e, int c)
{
    struct line_reader *r = of(e);
    const LineInfo *line = el_line(e);
    const char *from = line->cursor;
    (void)c; /* the key */
    while (from > line->buffer && is_word(from[-1]))
        from--;
    struct slice word = slice_of(from, (size_t)(line->cursor - from));
    strbuf_reset(&r->candidates);
    strbuf_reset(&r->common);
    r->n_candidates = 0;
    r->options.complete(r->options.arg, word, add_candidate, r);
    if (r->n_candidates == 0 || strbuf_failed(&r->common) || strbuf_failed(&r->candidates))
        return CC_ERROR;
    if (r->n_candidates == 1)
        strbuf_add_char(&r->common, ' ');
    if (r->common.n > word.n) {
        r->common.p[r->common.n] = '\0';
        el_deletestr(e, (int)word.n);
        return el_insertstr(e, r->common.p) < 0 ? CC_ERROR : CC_REFRESH;
    }
    (void)printf("\n%s%s\n", r->candidates.p, r->n_candidates > SHOWN_MAX ? "  ..." : "");
    return CC_REDISPLAY;
}

/* ---------------------------------------------------------------- */

static void set_keys(EditLine *e)
{
    /* What of it libedit does not know is as without. */
    (void)el_set(e, EL_EDITOR, "emacs");
    (void)el_set(e, EL_SETTY, "-d", "-isig", NULL);
    /* By the wide call, which keeps these; the other keeps copies, and never frees them. */
    (void)el_wset(e, EL_ADDFN, L"gridline-interrupt", L"ends the line", on_interrupt);
    (void)el_wset(e, EL_ADDFN, L"gridline-complete", L"completes a word", on_complete);
    (void)el_set(e, EL_BIND, "^C", "gridline-interrupt", NULL);
    (void)el_set(e, EL_BIND, "^I", "gridline-complete", NULL);
    (void)el_set(e, EL_BIND, "^R", "em-inc-search-prev", NULL);
    (void)el_source(e, NULL); /* ~/.editrc, if there is one */
}

struct line_reader *line_open(const struct line_options *o)
{
    HistEvent event;
    struct line_reader *r = mem_try_alloc(sizeof *r);
    if (!r)
        return NULL;
    r->options = *o;
    r->prompt = "";
    r->edit = el_init(o->name, stdin, stdout, stderr);
    r->history = history_init();
    if (!r->edit || !r->history) {
        line_close(r);
        return NULL;
    }
    (void)history(r->history, &event, H_SETSIZE,
                  HISTORY_MAX); /* a history that fails is a shorter one, here and below */
    (void)history(r->history, &event, H_SETUNIQUE, 1);
    if (o->history)
        (void)history(r->history, &event, H_LOAD, o->history);
    (void)el_set(r->edit, EL_CLIENTDATA, r);
    (void)el_set(r->edit, EL_PROMPT, prompt_of);
    (void)el_set(r->edit, EL_HIST, history, r->history);
    set_keys(r->edit);
    return r;
}

void line_close(struct line_reader *r)
{
    HistEvent event;
    if (!r)
        return;
    if (r->history && r->options.history)
        (void)history(r->history, &event, H_SAVE, r->options.history); /* mode 0600; nowhere to report it */
    if (r->edit)
        el_end(r->edit);
    if (r->history)
        history_end(r->history);
    strbuf_fini(&r->candidates);
    strbuf_fini(&r->common);
    mem_free(r);
}

int line_read(struct line_reader *r, const char *prompt, struct slice *out)
{
    int n = 0;
    r->prompt = prompt;
    r->is_cancelled = false;
    const char *line = el_gets(r->edit, &n);
    if (r->is_cancelled)
        return -EINTR;
    if (!line || n <= 0)
        return 0;
    while (n && (line[n - 1] == '\n' || line[n - 1] == '\r'))
        n--;
    *out = slice_of(line, (size_t)n);
    return 1;
}

void line_remember(struct line_reader *r, const char *text)
{
    HistEvent event;
    (void)history(r->history, &event, H_ENTER, text); /* a history that fails is a shorter one */
}
