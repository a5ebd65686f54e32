/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the audit: does each line have the hash it says, follow the one before by number and hash, and is
 * no file missing? So a line that was changed, removed, inserted or moved is found, and everything behind a
 * line hangs on it. What can't be found is that lines are gone at the very end (their hash has to be kept
 * elsewhere: audit_head), and that all of it was made anew. */
#include "guard/audit.h"

#include "guard/audit_file.h"
#include "guard/audit_line.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct walk {
    int folder;
    struct audit_result *result;
    struct diag *why;
    struct strbuf text; /* the file */
    uint64_t file;
};

static int wrong(struct walk *w, uint64_t line, const char *what)
{
    char name[AUDIT_NAME];
    audit_file_name(name, w->file);
    (void)snprintf(w->result->where, sizeof w->result->where, "%s:%" PRIu64, name, line);
    return diag_set(w->why, E_DAMAGE, 0, "%s:%" PRIu64 ": %s", name, line, what);
}

static bool follows(const struct walk *w, const struct audit_line *l)
{
    return l->n == w->result->lines + 1 && slice_eq_str(l->prev, w->result->head);
}

static void accept_line(struct walk *w, const struct audit_line *l)
{
    w->result->lines = l->n;
    w->result->cut += slice_eq_str(l->what, AUDIT_CUT);
    memcpy(w->result->head, l->hash.p, AUDIT_HASH);
}

/* Does the line say that these bytes before it are what a crash left? */
static bool is_about(const struct audit_line *l, struct slice torn)
{
    char hash[AUDIT_HASH + 1];
    struct strbuf value = {0};
    struct slice name;
    uint64_t bytes = 0;
    bool has_hash = false;
    if (!slice_eq_str(l->what, AUDIT_TORN) || audit_hash(torn, hash) < 0)
        return false;
    for (size_t at = 0; audit_line_datum(l, &at, &name, &value) > 0;) {
        if (slice_eq_str(name, "bytes") && num_parse_uint(strbuf_slice(&value), &bytes) < 0)
            bytes = 0;
        if (slice_eq_str(name, "sha256"))
            has_hash = slice_eq_str(strbuf_slice(&value), hash);
    }
    strbuf_fini(&value);
    return has_hash && bytes == torn.n;
}

/* The line at from is wrong. Is it what a crash left, and does a line behind say so? Then *at and *number go
 * behind that. */
static bool skip_torn(struct walk *w, size_t from, size_t *at, uint64_t *number)
{
    const struct slice text = strbuf_slice(&w->text);
    struct slice line;
    struct audit_line l;
    bool is_whole;
    uint64_t n = *number;
    size_t begin = *at;
    for (size_t next = begin; audit_file_line(text, &next, &line, &is_whole); begin = next) {
        n++;
        if (!is_whole || audit_line_get(line, &l) < 0 || !follows(w, &l))
            continue;
        if (!is_about(&l, slice_of(text.p + from, begin - from)))
            return false;
        accept_line(w, &l);
        w->result->torn++;
        *at = next;
        *number = n;
        return true;
    }
    return false;
}

static int say_wrong(struct walk *w, uint64_t number, bool is_whole, int code, const struct audit_line *l)
{
    if (!is_whole)
        return wrong(w, number,
                     "the line has no end: it was cut, or whoever wrote it died and has not come back");
    if (code == E_PROTO)
        return wrong(w, number, "not a line of the audit, though its hash is right");
    if (code < 0)
        return wrong(w, number, "changed: its hash is not that of its bytes");
    if (l->n > w->result->lines + 1)
        return wrong(w, number, "lines before it are missing");
    if (l->n <= w->result->lines)
        return wrong(w, number, "out of place: it is numbered like one before it");
    if (slice_eq_str(l->what, AUDIT_TORN))
        return wrong(w, number, "the torn line that it is about is not before it");
    return wrong(w, number, "does not follow the line before: one of them was replaced");
}

static int check_file(struct walk *w)
{
    const struct slice text = strbuf_slice(&w->text);
    struct slice line;
    struct audit_line l = {0};
    bool is_whole;
    uint64_t number = 0;
    for (size_t at = 0, from = 0; audit_file_line(text, &at, &line, &is_whole); from = at) {
        int code = audit_line_get(line, &l);
        number++;
        if (code == -ENOMEM)
            return code;
        if (is_whole && code == 0 && follows(w, &l) && !slice_eq_str(l.what, AUDIT_TORN))
            accept_line(w, &l);
        else if (!skip_torn(w, from, &at, &number))
            return say_wrong(w, number, is_whole, code, &l);
    }
    return 0;
}

static int check_files(struct walk *w, uint64_t last)
{
    int r = 0;
    for (w->file = 1; r == 0 && w->file <= last; w->file++) {
        strbuf_reset(&w->text);
        r = audit_file_read(w->folder, w->file, &w->text);
        if (r == -ENOENT)
            return wrong(w, 1, "the file is missing");
        if (r < 0)
            return diag_set(w->why, r, 0, "audit-%06" PRIu64 ".log: %s", w->file, err_text(r));
        w->result->files++;
        r = check_file(w);
    }
    return r;
}

static int open_folder(const char *path, int *folder, uint64_t *last)
{
    *folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*folder < 0)
        return -errno;
    int r = audit_file_last(*folder, last);
    if (r == 0 && *last == 0)
        r = -ENOENT;
    if (r < 0) {
        (void)close(*folder);
        *folder = -1;
    }
    return r;
}

int audit_verify(const char *path, struct audit_result *result, struct diag *why)
{
    struct audit_result got = {.head = AUDIT_NO_HASH};
    struct walk w = {.result = &got, .why = why};
    uint64_t last;
    int r = open_folder(path, &w.folder, &last);
    if (r < 0)
        return diag_set(why, r, 0, "%.150s: %s", path, r == -ENOENT ? "no audit is there" : err_text(r));
    r = check_files(&w, last);
    (void)close(w.folder);
    strbuf_fini(&w.text);
    *result = got;
    return r;
}

int audit_each(const char *path, int (*fn)(void *arg, const struct audit_line *line), void *arg,
               uint64_t *bad)
{
    struct strbuf text = {0};
    struct slice line;
    struct audit_line l;
    bool is_whole;
    uint64_t last, n_bad = 0;
    int folder;
    int r = open_folder(path, &folder, &last);
    if (r < 0)
        return r;
    for (uint64_t i = 1; r == 0 && i <= last; i++) {
        strbuf_reset(&text);
        int code = audit_file_read(folder, i, &text);
        if (code < 0) {
            n_bad++; /* verify says what */
            continue;
        }
        for (size_t at = 0; r == 0 && audit_file_line(strbuf_slice(&text), &at, &line, &is_whole);) {
            if (is_whole && audit_line_get(line, &l) == 0)
                r = fn(arg, &l);
            else
                n_bad++;
        }
    }
    (void)close(folder);
    strbuf_fini(&text);
    if (bad)
        *bad = n_bad;
    return r;
}
