/* SPDX-License-Identifier: Apache-2.0 */
/* Rows are taken apart once, here; every question walks them in order. There are few, and what is asked often
 * goes by a view (access_view.c), which has only those that are about its identity and action.
 *
 * What is not said in a question (which host? which event?) leaves it open whether a row fits. Such a row
 * allows: something of the kind is allowed; but it does not forbid: the next ones are looked at. */
#include "gateway/access.h"

#include "base/mem.h"
#include "base/text.h"
#include "event/limits.h"
#include "event/reserved.h"
#include "gateway/access_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKEN_MAX = 1024, TOKEN_MIN = 16 }; /* bytes of a token */

const char access_own_host[] = ACCESS_OWN_HOST;

/* ---------------------------------------------------------------- what is built in */

#define SUBJECT(of) \
    (const struct access_subject[]){{.kind = (of), .uid = UINT32_MAX, .name = {"", 0}}}, .n_subjects = 1

static const struct slice own_hosts[] = {{access_own_host, sizeof access_own_host - 1}};

#define AS_SLICE(name) {"" name, sizeof(name) - 1},
#define AS_LIST(name)  "," name
static const struct slice reserved[] = {RESERVED_EVENTS(AS_SLICE)};
static const char reserved_list[] = RESERVED_EVENTS(AS_LIST);

#define BUILT_IN(what, words)                                                            \
    {                                                                                    \
        .name = what, .who = words, .hosts = "", .events = "", .targets = "", .hide = "" \
    }

static const struct rule built_in_rules[] = {
    {.subjects = SUBJECT(ACCESS_OWNER), .may = ACCESS_ALL, .row = BUILT_IN("owner", "owner")},
    {.subjects = SUBJECT(ACCESS_OPERATOR),
     .may = ACCESS_ALL & ~ACCESS_BIT(ACCESS_TEST),
     .row = BUILT_IN("operators", "operator")},
    /* What sensors and guards say is relied upon: whoever is known by no more than an address says it as an
     * agent, which takes `register`, or not at all. */
    {.subjects =
         (const struct access_subject[]){{.kind = ACCESS_LOCAL, .uid = UINT32_MAX, .name = {"", 0}},
                                         {.kind = ACCESS_INSECURE, .uid = UINT32_MAX, .name = {"", 0}}},
     .n_subjects = 2,
     .spares_agents = true,
     .may_not = ACCESS_BIT(ACCESS_PUBLISH),
     .events = {reserved, sizeof reserved / sizeof *reserved},
     .row = {.name = "reserved",
             .who = "local,insecure",
             .hosts = "",
             .events = reserved_list + 1, /* behind the first comma */
             .targets = "",
             .hide = ""}},
    /* No ceremony on loopback, but no free pass: nothing that acts, and no streams. */
    {.subjects = SUBJECT(ACCESS_LOCAL),
     .may = ACCESS_BIT(ACCESS_PUBLISH) | ACCESS_BIT(ACCESS_REGISTER) | ACCESS_BIT(ACCESS_LOOKUP) |
            ACCESS_BIT(ACCESS_SUMMARY),
     .row = BUILT_IN("local", "local")},
    /* Whoever wrote `insecure = true` trusts that network to say who it is, not to give orders. */
    {.subjects = SUBJECT(ACCESS_INSECURE),
     .may = ACCESS_BIT(ACCESS_PUBLISH) | ACCESS_BIT(ACCESS_REGISTER),
     .row = BUILT_IN("insecure", "insecure")},
    /* A certificate of an agent speaks for the host that it names, and for no other. */
    {.subjects = SUBJECT(ACCESS_AGENT),
     .may = ACCESS_BIT(ACCESS_PUBLISH) | ACCESS_BIT(ACCESS_REGISTER),
     .hosts = {own_hosts, 1},
     .row = {.name = "agents",
             .who = "agent",
             .hosts = ACCESS_OWN_HOST,
             .events = "",
             .targets = "",
             .hide = ""}},
    /* A relay speaks for its workers. */
    {.subjects = SUBJECT(ACCESS_GATEWAY),
     .may = ACCESS_BIT(ACCESS_PUBLISH) | ACCESS_BIT(ACCESS_REGISTER) | ACCESS_BIT(ACCESS_LOOKUP),
     .row = BUILT_IN("gateways", "gateway")},
    {.subjects = SUBJECT(ACCESS_NOBODY), .may = ACCESS_BIT(ACCESS_JOIN), .row = BUILT_IN("nobody", "nobody")},
};
enum { BUILT_IN_RULES = sizeof built_in_rules / sizeof *built_in_rules };

static const struct access built_in = {.rules = built_in_rules, .n = BUILT_IN_RULES};

const struct access *access_table_of(const struct access_identity *who)
{
    return who->table ? who->table : &built_in;
}

/* ---------------------------------------------------------------- rows to rules */

static const char *copy_text(struct arena *a, const char *text)
{
    return arena_copy(a, slice_of(text, strlen(text) + 1)).p;
}

static bool next_word(struct slice *rest, struct slice *word)
{
    if (rest->n == 0)
        return false;
    const char *comma = memchr(rest->p, ',', rest->n);
    *word = slice_of(rest->p, comma ? (size_t)(comma - rest->p) : rest->n);
    *rest = slice_from(*rest, word->n + 1);
    return true;
}

static size_t count_words(struct slice list)
{
    struct slice word;
    size_t n = 0;
    while (next_word(&list, &word))
        n++;
    return n;
}

static struct slice copy_lower(struct arena *a, struct slice text)
{
    char *p = arena_alloc(a, text.n ? text.n : 1);
    for (size_t i = 0; p && i < text.n; i++)
        p[i] = slice_lower(text.p[i]);
    return slice_of(p, p ? text.n : 0);
}

/* A `*` among them is any. */
static int read_patterns(struct arena *a, const char *text, bool is_lower, struct patterns *out)
{
    struct slice rest = slice_str(text), word;
    struct slice *v = arena_alloc(a, (count_words(rest) + 1) * sizeof *v);
    *out = (struct patterns){.v = v};
    while (v && next_word(&rest, &word)) {
        if (!access_is_pattern(word))
            return -EINVAL;
        if (slice_eq_str(word, ACCESS_OWN_HOST))
            v[out->n++] = own_hosts[0];
        else if (!(v[out->n++] = is_lower ? copy_lower(a, word) : arena_copy(a, word)).p)
            return -ENOMEM;
    }
    return v ? 0 : -ENOMEM;
}

static void forget_if_any(struct patterns *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (slice_eq_str(p->v[i], "*"))
            p->n = 0;
}

static int read_subjects(struct arena *a, const char *who, struct rule *r)
{
    struct slice rest = slice_str(who), word;
    struct access_subject *v = arena_alloc(a, (count_words(rest) + 1) * sizeof *v);
    r->subjects = v;
    while (v && next_word(&rest, &word)) {
        struct access_subject *s = &v[r->n_subjects++];
        if (!access_parse_who(word, s))
            return -EINVAL;
        s->name = copy_lower(a, s->name);
        if (!s->name.p)
            return -ENOMEM;
    }
    return v ? (r->n_subjects ? 0 : -EINVAL) : -ENOMEM;
}

static int copy_row(struct arena *a, const struct access_row *row, struct access_row *out)
{
    *out = (struct access_row){.name = copy_text(a, row->name),
                               .who = copy_text(a, row->who),
                               .hosts = copy_text(a, row->hosts),
                               .events = copy_text(a, row->events),
                               .targets = copy_text(a, row->targets),
                               .hide = copy_text(a, row->hide),
                               .file = copy_text(a, row->file ? row->file : ""),
                               .line = row->line};
    return out->name && out->who && out->hosts && out->events && out->targets && out->hide && out->file
               ? 0
               : -ENOMEM;
}

static int read_row(struct arena *a, const struct access_row *row, struct rule *r, struct diag *why)
{
    const char *problem = access_row_problem(row);
    uint32_t of = *row->events || *row->targets ? ACCESS_OF_EVENTS : ACCESS_ALL; /* what `all` means then */
    if (problem)
        return diag_set(why, -EINVAL, 0, "access %s: %s", row->name, problem);
    *r = (struct rule){.may = row->may & of, .may_not = row->may_not & of};
    int e = copy_row(a, row, &r->row);
    if (e == 0)
        e = read_subjects(a, row->who, r);
    if (e == 0)
        e = read_patterns(a, row->hosts, true, &r->hosts);
    if (e == 0)
        e = read_patterns(a, row->targets, true, &r->targets);
    if (e == 0)
        e = read_patterns(a, row->events, false, &r->events);
    if (e == 0)
        e = read_patterns(a, row->hide, false, &r->hide);
    forget_if_any(&r->hosts);
    forget_if_any(&r->targets);
    forget_if_any(&r->events);
    return e == 0 ? 0
                  : diag_set(why, e, 0, "access %s: %s", row->name,
                             e == -EINVAL ? "who, or a pattern, is not one" : err_text(e));
}

static int read_rows(struct access *t, const struct access_row *rows, size_t n, struct diag *why)
{
    struct rule *rules = arena_alloc(&t->arena, (n + BUILT_IN_RULES) * sizeof *rules);
    if (!rules)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    t->rules = rules;
    for (size_t i = 0; i < n; i++) {
        int r = read_row(&t->arena, &rows[i], &rules[i], why);
        if (r < 0)
            return r;
    }
    memcpy(rules + n, built_in_rules, sizeof built_in_rules);
    t->n = n + BUILT_IN_RULES;
    return 0;
}

/* ---------------------------------------------------------------- tokens */

static void hash_of(struct slice token, unsigned char out[SHA256_DIGEST_LENGTH])
{
    (void)SHA256((const unsigned char *)token.p, token.n, out); /* returns out */
}

/* How many bytes of it are in to. -EPERM: others can read it; -EINVAL: it is no plain file. */
static ssize_t read_secret(const char *path, char *to, size_t n)
{
    struct stat st;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
    if (r == 0 && !S_ISREG(st.st_mode))
        r = -EINVAL;
    if (r == 0 && st.st_mode & (S_IRWXG | S_IRWXO))
        r = -EPERM;
    if (r == 0 && (got = read(fd, to, n)) < 0)
        r = -errno;
    if (fd >= 0)
        (void)close(fd); /* it was only read */
    return r < 0 ? r : got;
}

static int read_token_file(const struct access_token *t, unsigned char sha256[32], struct diag *why)
{
    char text[TOKEN_MAX + 2]; /* one more than there may be, and a newline */
    ssize_t n = read_secret(t->path, text, sizeof text);
    struct slice token = slice_of(text, n > 0 ? (size_t)n : 0);
    while (token.n && (token.p[token.n - 1] == '\n' || token.p[token.n - 1] == '\r'))
        token.n--;
    int r = 0;
    if (n == -EPERM)
        r = diag_set(why, -EINVAL, 0, "token %s: others may read %s; chmod 600", t->name, t->path);
    else if (n < 0)
        r = diag_set(why, -EINVAL, 0, "token %s: can't read %s: %s", t->name, t->path,
                     n == -EINVAL ? "not a plain file" : err_text((int)n));
    else if (token.n < TOKEN_MIN || token.n > TOKEN_MAX)
        r = diag_set(why, -EINVAL, 0, "token %s: %s does not hold a token of %d to %d bytes", t->name,
                     t->path, TOKEN_MIN, TOKEN_MAX);
    else
        hash_of(token, sha256);
    OPENSSL_cleanse(text, sizeof text);
    return r;
}

static int read_tokens(struct access *t, const struct access_token *tokens, size_t n, struct diag *why)
{
    struct held_token *held = arena_alloc(&t->arena, (n + 1) * sizeof *held);
    if (!held)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    t->tokens = held;
    for (size_t i = 0; i < n; i++) {
        held[i].name = copy_text(&t->arena, tokens[i].name);
        int r = !held[i].name     ? diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM))
                : *tokens[i].path ? read_token_file(&tokens[i], held[i].sha256, why)
                : access_parse_sha256(slice_str(tokens[i].sha256), held[i].sha256)
                    ? 0
                    : diag_set(why, -EINVAL, 0, "token %s: sha256 is not 64 hex digits", tokens[i].name);
        if (r < 0)
            return r;
        t->n_tokens++;
    }
    return 0;
}

int access_by_token(const struct access *table, struct slice token, struct access_identity *out)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    const struct held_token *found = NULL;
    hash_of(token, hash);
    for (size_t i = 0; table && i < table->n_tokens; i++) /* all of them, so that time tells nothing */
        if (CRYPTO_memcmp(hash, table->tokens[i].sha256, sizeof hash) == 0)
            found = &table->tokens[i];
    if (!found)
        return -EACCES;
    *out = (struct access_identity){.kind = ACCESS_TOKEN, .uid = UINT32_MAX, .table = table};
    (void)snprintf(out->name, sizeof out->name, "%s", found->name); /* names of sections are shorter */
    return 0;
}

/* ---------------------------------------------------------------- the table */

int access_create(const struct access_row *rows, size_t n, const struct access_token *tokens, size_t n_tokens,
                  struct access **out, struct diag *why)
{
    struct access *t = mem_try_alloc(sizeof *t);
    int r = t ? read_rows(t, rows, n, why) : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r == 0)
        r = read_tokens(t, tokens, n_tokens, why);
    if (r < 0) {
        access_destroy(t);
        return r;
    }
    *out = t;
    return 0;
}

void access_destroy(struct access *table)
{
    if (!table)
        return;
    arena_fini(&table->arena);
    mem_free(table);
}

void access_on_denied(struct access *table, void (*fn)(void *arg, const struct access_denial *d), void *arg)
{
    table->on_denied = fn;
    table->arg = arg;
}

/* ---------------------------------------------------------------- does a row fit? */

bool access_lower(struct slice text, char *to, struct slice *out)
{
    if (text.n > EVENT_ORIGIN_MAX)
        return false;
    for (size_t i = 0; i < text.n; i++)
        to[i] = slice_lower(text.p[i]);
    *out = slice_of(to, text.n);
    return true;
}

bool access_match(const struct patterns *p, struct slice text)
{
    for (size_t i = 0; i < p->n; i++)
        if (text_glob(p->v[i], text))
            return true;
    return false;
}

static bool is_subject(const struct access_subject *s, const struct access_identity *who)
{
    char name[EVENT_ORIGIN_MAX];
    struct slice lower;
    if (s->is_everybody)
        return true;
    if (s->kind != who->kind || (s->uid != UINT32_MAX && s->uid != who->uid))
        return false;
    return s->name.n == 0 || (access_lower(slice_str(who->name), name, &lower) && text_glob(s->name, lower));
}

bool access_is_about(const struct rule *r, const struct access_identity *who)
{
    if (r->spares_agents && who->is_agent)
        return false;
    for (size_t i = 0; i < r->n_subjects; i++)
        if (is_subject(&r->subjects[i], who))
            return true;
    return false;
}

static enum fit fit_hosts(const struct patterns *p, const struct resource *of)
{
    if (p->n == 0)
        return FIT_ALL;
    if (!of->host.p)
        return FIT_SOME;
    for (size_t i = 0; i < p->n; i++) {
        bool is_own = p->v[i].p == access_own_host;
        if (is_own ? of->own.n && slice_eq(of->own, of->host) : text_glob(p->v[i], of->host))
            return FIT_ALL;
    }
    return FIT_NO;
}

static enum fit fit_text(const struct patterns *p, struct slice text)
{
    if (p->n == 0)
        return FIT_ALL;
    if (!text.p)
        return FIT_SOME;
    return access_match(p, text) ? FIT_ALL : FIT_NO;
}

enum fit access_fit(const struct rule *r, const struct resource *of)
{
    enum fit least = fit_hosts(&r->hosts, of), next = fit_text(&r->events, of->event);
    least = next < least ? next : least;
    next = fit_text(&r->targets, of->target);
    return next < least ? next : least;
}

/* ---------------------------------------------------------------- asking */

bool access_allows_event(const struct access_identity *who, enum access_action action, struct slice host,
                         struct slice event)
{
    const struct access *t = access_table_of(who);
    char lower_host[EVENT_ORIGIN_MAX], lower_own[EVENT_ORIGIN_MAX];
    struct resource of = {.event = event.n ? event : (struct slice){NULL, 0}};
    if ((host.n && !access_lower(host, lower_host, &of.host)) ||
        !access_lower(slice_str(who->name), lower_own, &of.own))
        return false;
    for (size_t i = 0; i < t->n; i++) {
        const struct rule *r = &t->rules[i];
        enum fit fit = (r->may | r->may_not) & ACCESS_BIT(action) && access_is_about(r, who)
                           ? access_fit(r, &of)
                           : FIT_NO;
        if (fit != FIT_NO && r->may & ACCESS_BIT(action))
            return true;
        if (fit == FIT_ALL)
            return false;
    }
    return false;
}

bool access_allows(const struct access_identity *who, enum access_action action, struct slice host)
{
    return access_allows_event(who, action, host, SLICE_LIT(""));
}

bool access_says_orders(const struct event *events, size_t n)
{
    const struct schema *last = NULL; /* events come in runs of one schema */
    for (size_t i = 0; i < n; i++) {
        if (events[i].schema == last)
            continue;
        last = events[i].schema;
        if (slice_eq(last->name, SLICE_LIT(RESERVED_ORDER)))
            return true;
    }
    return false;
}

void access_tell_denied(const struct access_identity *who, enum access_action action, struct slice host,
                        struct slice event)
{
    const struct access *t = access_table_of(who);
    if (t->on_denied)
        t->on_denied(t->arg,
                     &(struct access_denial){.who = who, .action = action, .host = host, .event = event});
}

bool access_check(const struct access_identity *who, enum access_action action, struct slice host,
                  struct slice event)
{
    bool is_allowed = access_allows_event(who, action, host, event);
    if (!is_allowed)
        access_tell_denied(who, action, host, event);
    return is_allowed;
}

bool access_same_identity(const struct access_identity *a, const struct access_identity *b)
{
    return a->kind == b->kind && a->uid == b->uid && strcmp(a->name, b->name) == 0;
}

size_t access_print(char *to, size_t n, const struct access_identity *who)
{
    static const char *const kinds[] = {"nobody", "the owner", "a local program", "another host without TLS",
                                        "agent ", "gateway ",  "operator ",       "token "};
    int length;
    if (who->uid != UINT32_MAX && (who->kind == ACCESS_OWNER || who->kind == ACCESS_LOCAL))
        length = snprintf(to, n, "user %" PRIu32 " here", who->uid);
    else
        length = snprintf(to, n, "%s%s", kinds[who->kind], who->kind >= ACCESS_AGENT ? who->name : "");
    return length < 0 ? 0 : (size_t)length < n ? (size_t)length : n - 1;
}
