/* SPDX-License-Identifier: Apache-2.0 */
/* A list, not an index: there are at most SILENCES_MAX, most of which fail at the first byte of the host. A
 * look at all of them is a few microseconds, once for a fault that fires and once for all when one begins or
 * ends. */
#include "guard/silence.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>

void silences_fini(struct silences *all)
{
    for (size_t i = 0; i < all->n; i++)
        mem_free(all->v[i]);
    mem_free(all->v);
    *all = (struct silences){0};
}

/* The next "name=value" of where; false at its end. *is_bad: it is not one. */
static bool next_condition(struct slice *where, struct slice *name, struct slice *value, bool *is_bad)
{
    while (where->n && where->p[0] == ' ')
        *where = slice_from(*where, 1);
    if (!where->n)
        return false;
    const char *space = memchr(where->p, ' ', where->n);
    struct slice word = {where->p, space ? (size_t)(space - where->p) : where->n};
    *where = slice_from(*where, word.n);
    const char *equals = memchr(word.p, '=', word.n);
    if (!equals) {
        *is_bad = true;
        return false;
    }
    *name = slice_of(word.p, (size_t)(equals - word.p));
    *value = slice_from(word, name->n + 1);
    *is_bad = !text_is_name(*name) || !text_glob_is_closed(*value);
    return !*is_bad;
}

static int check_pattern(struct slice pattern, const char *what, struct diag *why)
{
    if (pattern.n > SILENCE_PATTERN_MAX)
        return diag_set(why, -EINVAL, 0, "%s has more than %d bytes", what, SILENCE_PATTERN_MAX);
    if (!text_glob_is_closed(pattern))
        return diag_set(why, -EINVAL, 0, "%s has a `[` without `]`", what);
    return 0;
}

int silence_check(const struct silence *s, struct diag *why)
{
    if (s->until_ns <= s->from_ns)
        return diag_set(why, -EINVAL, 0, "a silence ends after it begins");
    int err = check_pattern(s->rule, "the rule's pattern", why);
    if (!err)
        err = check_pattern(s->host, "the host's pattern", why);
    if (err)
        return err;
    if (s->where.n > SILENCE_WHERE_MAX)
        return diag_set(why, -EINVAL, 0, "where has more than %d bytes", SILENCE_WHERE_MAX);
    struct slice where = s->where, name, value;
    bool is_bad = false;
    while (next_condition(&where, &name, &value, &is_bad))
        ;
    return is_bad ? diag_set(why, -EINVAL, 0, "where is written name=value, with spaces between") : 0;
}

static struct slice copy(char **to, struct slice text)
{
    struct slice s = {*to, text.n};
    if (text.n)
        memcpy(*to, text.p, text.n);
    *to += text.n;
    return s;
}

static struct slice cut(struct slice text, size_t max)
{
    return slice_of(text.p, text.n < max ? text.n : max);
}

static int grow(struct silences *all)
{
    if (all->n < all->cap)
        return 0;
    size_t cap = all->cap ? all->cap * 2 : 8;
    struct silence_entry **v = mem_try_resize(all->v, cap * sizeof(struct silence_entry *));
    if (!v)
        return -ENOMEM;
    all->v = v;
    all->cap = cap;
    return 0;
}

int silences_add(struct silences *all, const struct silence *s, uint64_t id, const struct silence **out)
{
    if (all->n >= SILENCES_MAX)
        return E_LIMIT;
    if (silences_find(all, id))
        return -EEXIST;
    struct slice by = cut(s->by, PERSON_MAX), note = cut(s->note, NOTE_MAX);
    struct silence_entry *e = mem_try_alloc(sizeof *e + s->rule.n + s->host.n + s->where.n + by.n + note.n);
    if (!e || grow(all) < 0) {
        mem_free(e);
        return -ENOMEM;
    }
    char *to = e->texts;
    e->s = (struct silence){.id = id, .from_ns = s->from_ns, .until_ns = s->until_ns};
    e->s.rule = copy(&to, s->rule);
    e->s.host = copy(&to, s->host);
    e->s.where = copy(&to, s->where);
    e->s.by = copy(&to, by);
    e->s.note = copy(&to, note);
    size_t at = all->n++;
    for (; at > 0 && all->v[at - 1]->s.id > id; at--)
        all->v[at] = all->v[at - 1];
    all->v[at] = e;
    if (id > all->last_id)
        all->last_id = id;
    *out = &e->s;
    return 0;
}

const struct silence *silences_find(const struct silences *all, uint64_t id)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->v[i]->s.id == id)
            return &all->v[i]->s;
    return NULL;
}

void silences_remove(struct silences *all, uint64_t id)
{
    for (size_t i = 0; i < all->n; i++) {
        if (all->v[i]->s.id != id)
            continue;
        mem_free(all->v[i]);
        memmove(&all->v[i], &all->v[i + 1], (all->n - i - 1) * sizeof *all->v);
        all->n--;
        return;
    }
}

const struct silence *silences_over(const struct silences *all, int64_t now_ns)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->v[i]->s.until_ns <= now_ns)
            return &all->v[i]->s;
    return NULL;
}

int64_t silences_next(const struct silences *all, int64_t now_ns)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < all->n; i++) {
        const struct silence *s = &all->v[i]->s;
        int64_t at = s->from_ns > now_ns ? s->from_ns : s->until_ns;
        next = at < next ? at : next;
    }
    return next;
}

static bool field_matches(const struct fault *f, struct slice name, struct slice pattern)
{
    for (size_t i = 0; i < f->n_fields; i++)
        if (slice_eq(f->fields[i].name, name))
            return text_glob(pattern, f->fields[i].value);
    return false;
}

static bool matches(const struct silence *s, const struct fault *f)
{
    if (s->host.n && !field_matches(f, SLICE_LIT("host"), s->host))
        return false;
    if (s->rule.n && !text_glob(s->rule, slice_str(f->of->name)))
        return false;
    struct slice where = s->where, name, value;
    bool is_bad = false;
    while (next_condition(&where, &name, &value, &is_bad))
        if (!field_matches(f, name, value))
            return false;
    return true;
}

bool silences_match(const struct silences *all, const struct fault *f, int64_t now_ns)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct silence *s = &all->v[i]->s;
        if (s->from_ns <= now_ns && now_ns < s->until_ns && matches(s, f))
            return true;
    }
    return false;
}
