/* SPDX-License-Identifier: Apache-2.0 */
/* sql_names.c - identifiers of a text, and which tables they name.
 *
 * The SQL name of an event name is that in lower case, with _ for every character outside of [a-z0-9_], and
 * an _ before a digit at the beginning. Where several events have one SQL name, or it is one of the system's
 * tables, one keeps it (an event whose name is the SQL name, else the first by name; none where it is the
 * system's), and the others are NAME_2, NAME_3 in the order of their names. An event's own name, quoted and
 * in its own case, means that event before any other whose SQL name it is. */
#include "archive/sql_internal.h"

#include "base/num.h"
#include "base/text.h"

static char folded(char c)
{
    char l = slice_lower(c);
    return (l >= 'a' && l <= 'z') || (l >= '0' && l <= '9') ? l : '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

void sql_table_name(struct strbuf *out, struct slice event)
{
    if (event.n && is_digit(event.p[0]))
        strbuf_add_char(out, '_');
    for (size_t i = 0; i < event.n; i++)
        strbuf_add_char(out, folded(event.p[i]));
}

/* ---------------------------------------------------------------- tokens */

static bool is_word(char c)
{
    return folded(c) != '_' || c == '_' || c == '$' || (c & 0x80);
}

/* Past what is in quotes that end with `close`, which doubled is one; from is behind the first. */
static size_t past_quotes(struct slice text, size_t from, char close)
{
    for (size_t i = from; i < text.n; i++) {
        if (text.p[i] != close)
            continue;
        if (close != ']' && i + 1 < text.n && text.p[i + 1] == close)
            i++;
        else
            return i + 1;
    }
    return text.n;
}

static size_t past_comment(struct slice text, size_t from)
{
    bool is_block = text.p[from] == '/';
    const char *end = is_block ? memmem(text.p + from + 2, text.n - from - 2, "*/", 2)
                               : memchr(text.p + from, '\n', text.n - from);
    return end ? (size_t)(end - text.p) + (is_block ? 2 : 1) : text.n;
}

static bool is_comment(struct slice text, size_t i)
{
    return i + 1 < text.n &&
           ((text.p[i] == '-' && text.p[i + 1] == '-') || (text.p[i] == '/' && text.p[i + 1] == '*'));
}

static size_t past_word(struct slice text, size_t i)
{
    while (i < text.n && is_word(text.p[i]))
        i++;
    return i;
}

/* Names in quotes that hold quotes are no event's: they are left out. */
void sql_tokens(struct slice text, bool (*fn)(void *arg, struct slice name, size_t at), void *arg)
{
    size_t next;
    for (size_t i = 0; i < text.n; i = next) {
        char c = text.p[i];
        next = i + 1;
        if (is_comment(text, i)) {
            next = past_comment(text, i);
        } else if (c == '\'') {
            next = past_quotes(text, next, c);
        } else if (c == '"' || c == '`' || c == '[') {
            next = past_quotes(text, next, c == '[' ? ']' : c);
            if (next - i >= 2 && !fn(arg, slice_of(text.p + i + 1, next - i - 2), i))
                return;
        } else if (is_word(c)) {
            next = past_word(text, i);
            if (!is_digit(c) && !fn(arg, slice_of(text.p + i, next - i), i))
                return;
        }
    }
}

struct named {
    void (*fn)(void *arg, struct slice name);
    void *arg;
};

static bool pass_name(void *arg, struct slice name, size_t at)
{
    const struct named *n = arg;
    (void)at; /* not asked */
    n->fn(n->arg, name);
    return true;
}

void sql_identifiers(struct slice text, void (*fn)(void *arg, struct slice name), void *arg)
{
    struct named n = {fn, arg};
    sql_tokens(text, pass_name, &n);
}

struct naming {
    struct slice name;
    bool is_named;
};

static bool is_name(void *arg, struct slice name, size_t at)
{
    struct naming *n = arg;
    (void)at; /* not asked */
    n->is_named = slice_eq_nocase(name, n->name) || slice_eq_nocase(name, SLICE_LIT("natural"));
    return !n->is_named;
}

/* A * that multiplies counts as one that stands for columns. */
bool sql_text_names(const struct sql_context *c, const char *column)
{
    struct naming n = {.name = slice_str(column)};
    struct slice text = strbuf_slice(&c->text);
    if (memchr(text.p, '*', text.n))
        return true;
    sql_tokens(text, is_name, &n);
    return n.is_named;
}

/* ---------------------------------------------------------------- tables */

bool sql_is_reserved(struct slice name)
{
    static const char *const names[] = {"sensors",       "workers",      "subscriptions", "rules",
                                        "faults",        "ledger",       "domains",       "schemas",
                                        "baselines",     "partitions",   "rebuild",       "tables",
                                        "schema_fields", "json_each",    "json_tree",     "samples_bucket",
                                        "deviations",    "event_blocks", "hosts",         "retention"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_eq_nocase(name, slice_str(names[i])))
            return true;
    return slice_starts(name, SLICE_LIT("sqlite_")) || slice_starts(name, SLICE_LIT("pragma_"));
}

/* Is `name`, in any case, what sql_table_name makes of event? */
static bool is_name_of(struct slice name, struct slice event)
{
    if (event.n && is_digit(event.p[0])) {
        if (name.n == 0 || name.p[0] != '_')
            return false;
        name = slice_from(name, 1);
    }
    if (name.n != event.n)
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (slice_lower(name.p[i]) != folded(event.p[i]))
            return false;
    return true;
}

/* Of the events that have the SQL name, the one with that number: 1 keeps it. */
static const struct table_def *find_numbered(const struct view *v, struct slice name, uint64_t number)
{
    const struct table_def *own = NULL;
    uint64_t n = 1;
    if (!sql_is_reserved(name) && (own = view_table(v, name)) && number == 1)
        return own;
    if (own || sql_is_reserved(name))
        n = 2;
    for (size_t i = 0; i < view_tables(v); i++) {
        const struct table_def *t = view_table_at(v, i);
        if (t != own && is_name_of(name, t->name) && n++ == number)
            return t;
    }
    return NULL;
}

/* "job_state_2": job_state and 2. */
static bool split_number(struct slice name, struct slice *base, uint64_t *number)
{
    size_t n = name.n;
    while (n && is_digit(name.p[n - 1]))
        n--;
    if (n < 2 || n == name.n || name.p[n - 1] != '_' || num_parse_uint(slice_from(name, n), number) < 0)
        return false;
    *base = slice_of(name.p, n - 1);
    return *number >= 2;
}

static const struct table_def *find_any(const struct view *v, struct slice name)
{
    struct slice base;
    uint64_t number;
    const struct table_def *t = sql_is_reserved(name) ? NULL : view_table(v, name);
    if (!t)
        t = find_numbered(v, name, 1);
    if (!t && split_number(name, &base, &number))
        t = find_numbered(v, base, number);
    return t;
}

const struct table_def *sql_find_table(const struct sql_context *c, struct slice name)
{
    const struct table_def *t = name.n && name.n <= EVENT_NAME_MAX + 24 ? find_any(c->view, name) : NULL;
    return t && sql_may_table(c, t->name) ? t : NULL;
}

/* Compares with each name as an event's table and with the suffix that the word itself ends with. */
void sql_nearest_table(const struct sql_context *c, struct slice name, struct strbuf *out)
{
    struct text_nearest near = text_nearest_of(name);
    struct strbuf candidate = {0}, best = {0};
    const char *suffix = slice_ends(name, SLICE_LIT("_latest"))   ? "_latest"
                         : slice_ends(name, SLICE_LIT("_bucket")) ? "_bucket"
                                                                  : "";
    for (size_t i = 0; i < view_tables(c->view); i++) {
        const struct table_def *t = view_table_at(c->view, i);
        strbuf_reset(&candidate);
        sql_table_name(&candidate, t->name);
        strbuf_add_str(&candidate, suffix);
        if (strbuf_failed(&candidate) || candidate.n == 0)
            break;
        unsigned before = near.distance;
        text_nearest_try(&near, candidate.p);
        if (near.distance == before || !sql_may_table(c, t->name)) {
            near.distance = before;
            continue;
        }
        strbuf_reset(&best);
        strbuf_add_slice(&best, strbuf_slice(&candidate));
    }
    strbuf_add_slice(out, strbuf_slice(&best));
    strbuf_fini(&candidate);
    strbuf_fini(&best);
}
