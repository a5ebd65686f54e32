/* SPDX-License-Identifier: Apache-2.0 */
#include "event/escapes.h"

bool escapes_parse(struct slice name, enum escapes *out)
{
    static const char *const names[] = {[ESCAPES_AUTO] = "auto", [ESCAPES_PLAIN] = "plain", [ESCAPES_C] = "c"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (slice_eq_nocase(name, slice_str(names[i]))) {
            *out = (enum escapes)i;
            return true;
        }
    }
    return false;
}

char escapes_meaning(char letter)
{
    switch (letter) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'v':
        return '\v';
    case 'a':
        return '\a';
    default:
        return '\0';
    }
}

/* A backslash that opens no escape of both dialects stands before c. \b, \f, \v and \a are in paths and patterns as
 * often as in text: they vote for neither. */
static void vote_lone(struct escapes_votes *v, char c)
{
    if (c == 'n' || c == 'r' || c == 't')
        v->has_c = true;
    else if (escapes_meaning(c) == '\0')
        v->has_plain = true;
}

static void end_value(struct escapes_votes *v)
{
    if (v->has_plain || (v->has_c && v->is_path))
        v->plain++;
    else if (v->has_c)
        v->c++;
    v->in_value = false;
}

static void vote_in_value(struct escapes_votes *v, char c)
{
    if (v->is_escaped) {
        v->is_escaped = false;
        v->is_path |= v->at == 1 && c == '\\';
        if (c != '"' && c != '\\') {
            v->is_path |= v->at == 3 && v->is_drive;
            vote_lone(v, c);
        }
    } else if (c == '"') {
        end_value(v);
    } else if (c == '\\') {
        char drive = slice_lower(v->first);
        v->is_escaped = true;
        v->is_drive = v->at == 2 && v->last == ':' && drive >= 'a' && drive <= 'z';
    }
    if (v->at++ == 0)
        v->first = c;
}

void escapes_vote(struct escapes_votes *v, struct slice text)
{
    for (size_t i = 0; i < text.n; v->last = text.p[i++]) {
        char c = text.p[i];
        if (c == '\n')
            v->in_value = false; /* not closed: no value */
        else if (v->in_value)
            vote_in_value(v, c);
        else if (c == '"' && v->last == '=')
            *v = (struct escapes_votes){.plain = v->plain, .c = v->c, .in_value = true};
    }
}

enum escapes escapes_result(const struct escapes_votes *v)
{
    return v->c > v->plain ? ESCAPES_C : ESCAPES_PLAIN;
}
