/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access_table.h"

#include "base/num.h"
#include "base/text.h"

static const char *const action_names[ACCESS_ACTIONS] = {
    [ACCESS_JOIN] = "join",       [ACCESS_PUBLISH] = "publish",     [ACCESS_REGISTER] = "register",
    [ACCESS_LOOKUP] = "lookup",   [ACCESS_SUBSCRIBE] = "subscribe", [ACCESS_QUERY] = "query",
    [ACCESS_SUMMARY] = "summary", [ACCESS_CONTROL] = "control",     [ACCESS_TEST] = "test",
};

static const struct {
    const char *name;
    bool has_names; /* certificates and tokens */
} kinds[] = {
    [ACCESS_NOBODY] = {"nobody", false},    [ACCESS_OWNER] = {"owner", false},
    [ACCESS_LOCAL] = {"local", false},      [ACCESS_INSECURE] = {"insecure", false},
    [ACCESS_AGENT] = {"agent", true},       [ACCESS_GATEWAY] = {"gateway", true},
    [ACCESS_OPERATOR] = {"operator", true}, [ACCESS_TOKEN] = {"token", true},
};

const char *access_action_name(enum access_action action)
{
    return action_names[action];
}

const char *access_kind_name(enum access_kind kind)
{
    return kinds[kind].name;
}

bool access_parse_action(struct slice word, uint32_t *bits)
{
    if (slice_eq_str(word, "all")) {
        *bits = ACCESS_ALL;
        return true;
    }
    for (unsigned i = 0; i < ACCESS_ACTIONS; i++)
        if (slice_eq_str(word, action_names[i])) {
            *bits = ACCESS_BIT(i);
            return true;
        }
    return false;
}

bool access_is_pattern(struct slice word)
{
    return word.n && !text_has_control(word) && !memchr(word.p, ',', word.n) &&
           !memchr(word.p, ' ', word.n) && text_glob_is_closed(word);
}

/* What is behind the colon of a kind. */
static bool parse_rest(struct slice rest, struct access_subject *s)
{
    uint64_t uid;
    if (kinds[s->kind].has_names) {
        s->name = rest;
        return access_is_pattern(rest);
    }
    if (s->kind != ACCESS_LOCAL || num_parse_uint(rest, &uid) < 0 || uid >= UINT32_MAX)
        return false;
    s->uid = (uint32_t)uid;
    return true;
}

bool access_parse_who(struct slice word, struct access_subject *out)
{
    const char *colon = word.n ? memchr(word.p, ':', word.n) : NULL;
    struct slice kind = colon ? slice_of(word.p, (size_t)(colon - word.p)) : word;
    struct access_subject s = {.uid = UINT32_MAX, .name = SLICE_LIT("")};
    s.is_everybody = slice_eq_str(word, "everybody");
    bool is_known = s.is_everybody;
    for (unsigned i = 0; !is_known && i < sizeof kinds / sizeof *kinds; i++) {
        is_known = slice_eq_str(kind, kinds[i].name);
        s.kind = (enum access_kind)i;
    }
    if (!is_known || (colon && !parse_rest(slice_from(word, kind.n + 1), &s)))
        return false;
    *out = s;
    return true;
}

bool access_parse_sha256(struct slice text, unsigned char out[32])
{
    if (text.n != 64)
        return false;
    for (size_t i = 0; i < 32; i++) {
        int high = text_hex_digit(text.p[2 * i]), low = text_hex_digit(text.p[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* ---------------------------------------------------------------- rows */

static bool next_word(struct slice *rest, struct slice *word)
{
    if (rest->n == 0)
        return false;
    const char *comma = memchr(rest->p, ',', rest->n);
    *word = slice_of(rest->p, comma ? (size_t)(comma - rest->p) : rest->n);
    *rest = slice_from(*rest, word->n + 1);
    return true;
}

static bool has_word(const char *list, const char *wanted)
{
    struct slice rest = slice_str(list), word;
    while (next_word(&rest, &word))
        if (slice_eq_str(word, wanted))
            return true;
    return false;
}

static bool all_have_names(const char *who)
{
    struct slice rest = slice_str(who), word;
    struct access_subject s;
    while (next_word(&rest, &word))
        if (!access_parse_who(word, &s) || s.is_everybody || !kinds[s.kind].has_names)
            return false;
    return true;
}

const char *access_row_problem(const struct access_row *row)
{
    uint32_t bits = row->may | row->may_not;
    bool is_of_events = *row->events || *row->targets;
    if (row->may && row->may_not)
        return "may and may_not are for two rows: the first that fits decides";
    if (!bits && !*row->hide)
        return "it says nothing; write may, may_not or hide";
    if (row->may_not && *row->hide)
        return "hide is for what may be seen; leave it out, or write may";
    if (row->may && *row->hide && !(row->may & ACCESS_SEEING))
        return "nothing is seen by that, so there is nothing to hide";
    if (is_of_events && bits != ACCESS_ALL && (bits & ~(uint32_t)ACCESS_OF_EVENTS))
        return "join, register and control are of hosts, not of events; give them a row without events and "
               "targets";
    if (*row->hosts && bits == ACCESS_BIT(ACCESS_JOIN))
        return "join is of no host yet; leave hosts out";
    if (has_word(row->hosts, ACCESS_OWN_HOST) && !all_have_names(row->who))
        return "hosts = " ACCESS_OWN_HOST
               " is for agents, gateways, operators and tokens: others have no name";
    return NULL;
}
