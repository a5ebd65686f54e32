/* SPDX-License-Identifier: Apache-2.0 */
/* ldap: one search, or one change of an entry, at an LDAP server. A search can demand how many entries there
 * are to be: to look whether a directory server still answers what it should. Values of data in a filter or a
 * distinguished name are escaped (escape_ldap): they can't widen the filter or leave the entry.
 *
 * A change replaces attributes by values, all of them or none: doing it twice is the same as once.
 *
 * libldap's calls without _s only send; answers are waited for in short turns, so that a run that is called
 * off ends soon, and none is longer than its time. */
#include "actuator/actuator.h"
#include "actuator/escape.h"
#include "actuator/quote.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"

#include <errno.h>
#include <inttypes.h>
#include <ldap.h>
#include <sys/time.h>

struct ldap_act {
    const char *server, *bind_dn, *password_file, *ca_file, *base, *scope, *filter, *dn;
    struct parameter_list set;
    int64_t at_least, at_most;
    bool has_starttls;
};

static const struct parameter ldap_options[] = {
    {SETTING_STRING, "server", NULL, offsetof(struct ldap_act, server),
     "`ldap://HOST[:PORT]`, `ldaps://...` or `ldapi://...`", .is_program = true, .is_needed = true},
    {SETTING_STRING, "base", NULL, offsetof(struct ldap_act, base), "where to search", .is_program = false},
    {SETTING_STRING, "filter", "(objectClass=*)", offsetof(struct ldap_act, filter), "what to search for",
     .is_program = false},
    {SETTING_STRING, "scope", "sub", offsetof(struct ldap_act, scope), "`sub`, `one` or `base`",
     .is_program = true},
    {SETTING_INT, "at_least", "0", offsetof(struct ldap_act, at_least),
     "a search that finds fewer entries has failed", .is_program = true},
    {SETTING_INT, "at_most", "-1", offsetof(struct ldap_act, at_most),
     "a search that finds more entries has failed; -1: any number", .is_program = true},
    {SETTING_STRING, "dn", NULL, offsetof(struct ldap_act, dn), "in place of `base`: the entry to change",
     .is_program = false},
    {SETTING_LIST, "set", NULL, offsetof(struct ldap_act, set),
     "`attribute=value`: what the attribute is to be, several times for several values; `attribute=` removes "
     "it",
     .is_program = false},
    {SETTING_STRING, "bind_dn", NULL, offsetof(struct ldap_act, bind_dn),
     "who to be; without it nobody, with `ldapi://` this user", .is_program = true},
    {SETTING_STRING, "password_file", NULL, offsetof(struct ldap_act, password_file),
     "file whose first line is the password; only for its owner", .is_program = true},
    {SETTING_FLAG, "starttls", "false", offsetof(struct ldap_act, has_starttls), "go over to TLS first",
     .is_program = true},
    {SETTING_STRING, "ca_file", NULL, offsetof(struct ldap_act, ca_file),
     "certificates to trust, PEM; without it: the system's", .is_program = true},
    {0},
};

static actuator_escape ldap_escape(const char *option)
{
    bool has_grammar =
        strcmp(option, "base") == 0 || strcmp(option, "filter") == 0 || strcmp(option, "dn") == 0;
    return has_grammar ? escape_ldap : NULL;
}

/* ---------------------------------------------------------------- what is wanted */

static int scope_of(const char *name)
{
    return strcmp(name, "sub") == 0    ? LDAP_SCOPE_SUBTREE
           : strcmp(name, "one") == 0  ? LDAP_SCOPE_ONELEVEL
           : strcmp(name, "base") == 0 ? LDAP_SCOPE_BASE
                                       : -1;
}

static int check_dn(const char *text, struct diag *why)
{
    LDAPDN dn = NULL;
    if (ldap_str2dn(text, &dn, LDAP_DN_FORMAT_LDAPV3) != LDAP_SUCCESS)
        return diag_set(why, -EINVAL, 0, "ldap: \"%.100s\" is not a distinguished name", text);
    ldap_dnfree(dn);
    return 0;
}

/* An attribute's description (RFC 4512), up to the `=`; 0 = there is none. */
static size_t attribute_of(const char *change)
{
    size_t n = strcspn(change, "=");
    for (size_t i = 0; i < n; i++) {
        char c = slice_lower(change[i]);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && !strchr("-;.", c))
            return 0;
    }
    return change[n] == '=' ? n : 0;
}

static bool is_ldap_url(const char *url)
{
    return ldap_is_ldap_url(url) || ldap_is_ldaps_url(url) || ldap_is_ldapi_url(url);
}

static bool is_encrypted(const struct ldap_act *l)
{
    return l->has_starttls || !ldap_is_ldap_url(l->server);
}

/* Nobody listens in on what stays on this host. */
static bool is_local(const char *url)
{
    LDAPURLDesc *u = NULL;
    if (ldap_url_parse(url, &u) != LDAP_URL_SUCCESS)
        return false;
    const char *host = u->lud_host ? u->lud_host : "";
    bool is = !host[0] || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
              (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
    ldap_free_urldesc(u);
    return is;
}

static int check(const struct ldap_act *l, struct diag *why)
{
    if (!is_ldap_url(l->server))
        return diag_set(why, -EINVAL, 0, "ldap: \"%.80s\" is not the address of an LDAP server", l->server);
    if (!l->base == !l->dn)
        return diag_set(why, -EINVAL, 0, "ldap: give `base` to search, or `dn` and `set` to change an entry");
    if (!l->dn != !l->set.n)
        return diag_set(why, -EINVAL, 0, "ldap: `dn` and `set` go together");
    if (scope_of(l->scope) < 0)
        return diag_set(why, -EINVAL, 0, "ldap: scope is one of sub, one, base");
    if (!l->bind_dn != !l->password_file)
        return diag_set(why, -EINVAL, 0, "ldap: `bind_dn` and `password_file` go together");
    if (l->password_file && !is_encrypted(l) && !is_local(l->server))
        return diag_set(why, -EINVAL, 0,
                        "ldap: the password would go to another host in the clear; use ldaps:// or starttls");
    for (size_t i = 0; i < l->set.n; i++)
        if (attribute_of(l->set.v[i]) == 0)
            return diag_set(why, -EINVAL, 0, "ldap: \"%.60s\" is not attribute=value", l->set.v[i]);
    int r = l->bind_dn ? check_dn(l->bind_dn, why) : 0;
    return r == 0 ? check_dn(l->dn ? l->dn : l->base, why) : r;
}

static int ldap_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct ldap_act *l = state;
    (void)env; /* the options have what it needs */
    int r = check(l, why);
    if (r < 0)
        return r;
    strbuf_printf(out, "connect to %s%s\n", l->server, l->has_starttls ? " with StartTLS" : "");
    if (l->bind_dn)
        strbuf_printf(out, "bind as %s with the password in %s\n", l->bind_dn, l->password_file);
    if (l->base) {
        strbuf_printf(out, "search %s (scope %s) for %s\n", l->base, l->scope, l->filter);
        strbuf_printf(out, "it has to find at least %" PRId64, l->at_least);
        if (l->at_most >= 0)
            strbuf_printf(out, " and at most %" PRId64, l->at_most);
        strbuf_add_str(out, " entries\n");
        return 0;
    }
    strbuf_printf(out, "change %s\n", l->dn);
    for (size_t i = 0; i < l->set.n; i++) {
        strbuf_add_str(out, "replace ");
        quote_line(out, slice_str(l->set.v[i]));
        strbuf_add_char(out, '\n');
    }
    return 0;
}

/* ---------------------------------------------------------------- the server */

/* A run's connection. */
struct link {
    LDAP *ld;
    const struct ldap_act *l;
    const struct actuator_env *env;
    struct diag *why;
};

static int explain(struct link *k, int code, const char *what)
{
    struct strbuf text = {0};
    char *more = NULL;
    if (k->ld)
        (void)ldap_get_option(k->ld, LDAP_OPT_DIAGNOSTIC_MESSAGE, &more); /* it stays NULL */
    quote_line(&text, slice_str(more ? more : ""));
    int r = -EREMOTEIO;
    if (code == LDAP_SERVER_DOWN || code == LDAP_CONNECT_ERROR || code == LDAP_BUSY ||
        code == LDAP_UNAVAILABLE)
        r = -EAGAIN;
    else if (code == LDAP_TIMEOUT || code == LDAP_TIMELIMIT_EXCEEDED)
        r = -ETIMEDOUT;
    else if (code == LDAP_NO_SUCH_OBJECT)
        r = -ENOENT;
    else if (code == LDAP_INVALID_CREDENTIALS || code == LDAP_INSUFFICIENT_ACCESS ||
             code == LDAP_STRONG_AUTH_REQUIRED || code == LDAP_CONFIDENTIALITY_REQUIRED)
        r = -EACCES;
    else if (code == LDAP_NO_MEMORY)
        r = -ENOMEM;
    else if (code == LDAP_USER_CANCELLED)
        r = -ECANCELED;
    (void)diag_set(k->why, r, 0, text.n ? "%s: %s (%s)" : "%s: %s", what, ldap_err2string(code),
                   text.n ? text.p : ""); /* r is returned */
    strbuf_fini(&text);
    ldap_memfree(more);
    return r;
}

static int64_t left_ns(const struct link *k)
{
    int64_t left = k->env->deadline_ns - clock_mono_ns();
    return left > 0 ? left : 0;
}

/* The next message that answers id, or a code of libldap's in *code. */
static LDAPMessage *next_answer(struct link *k, int id, int *code)
{
    static const int64_t turn_ns = NS_PER_S / 5;
    for (;;) {
        LDAPMessage *message = NULL;
        int64_t left = left_ns(k);
        int64_t wait = left < turn_ns ? left : turn_ns;
        struct timeval tv = {.tv_usec = (suseconds_t)(wait / 1000)};
        int type = ldap_result(k->ld, id, LDAP_MSG_ONE, &tv, &message);
        if (type > 0)
            return message;
        *code = type < 0 ? LDAP_SERVER_DOWN : LDAP_SUCCESS;
        if (*code == LDAP_SUCCESS && k->env->is_cancelled && k->env->is_cancelled(k->env->arg))
            *code = LDAP_USER_CANCELLED;
        if (*code == LDAP_SUCCESS && left == 0)
            *code = LDAP_TIMEOUT;
        if (*code != LDAP_SUCCESS)
            return NULL;
    }
}

/* The result that ends an operation; frees the message. */
static int result_of(struct link *k, LDAPMessage *message)
{
    int code = LDAP_LOCAL_ERROR;
    int r = ldap_parse_result(k->ld, message, &code, NULL, NULL, NULL, NULL, 1);
    return r == LDAP_SUCCESS ? code : r;
}

static int finish(struct link *k, int id)
{
    int code = LDAP_SUCCESS;
    LDAPMessage *message = next_answer(k, id, &code);
    return message ? result_of(k, message) : code;
}

static int set_options(struct link *k)
{
    const int version = LDAP_VERSION3, demand = LDAP_OPT_X_TLS_DEMAND, for_client = 0;
    int64_t left = left_ns(k);
    const struct timeval connect = {.tv_sec = left / NS_PER_S, .tv_usec = left % NS_PER_S / 1000 + 1};
    bool is_good = ldap_set_option(k->ld, LDAP_OPT_PROTOCOL_VERSION, &version) == 0 &&
                   ldap_set_option(k->ld, LDAP_OPT_NETWORK_TIMEOUT, &connect) == 0 &&
                   ldap_set_option(k->ld, LDAP_OPT_TIMEOUT, &connect) == 0 &&
                   ldap_set_option(k->ld, LDAP_OPT_REFERRALS, LDAP_OPT_OFF) == 0 &&
                   ldap_set_option(k->ld, LDAP_OPT_RESTART, LDAP_OPT_ON) == 0 &&
                   ldap_set_option(k->ld, LDAP_OPT_X_TLS_REQUIRE_CERT, &demand) == 0;
    if (is_good && k->l->ca_file)
        is_good = ldap_set_option(k->ld, LDAP_OPT_X_TLS_CACERTFILE, k->l->ca_file) == 0;
    if (is_good) /* makes a context of the above; the last of them */
        is_good = ldap_set_option(k->ld, LDAP_OPT_X_TLS_NEWCTX, &for_client) == 0;
    return is_good ? LDAP_SUCCESS : LDAP_LOCAL_ERROR;
}

static int bind_as(struct link *k)
{
    struct secret password = {0};
    int id = 0, r = k->l->password_file ? secret_read(k->l->password_file, &password, k->why) : 0;
    if (r < 0)
        return r;
    struct berval credentials = {password.n, password.text};
    bool is_external = !k->l->bind_dn && ldap_is_ldapi_url(k->l->server);
    int code = ldap_sasl_bind(k->ld, is_external ? NULL : k->l->bind_dn,
                              is_external ? "EXTERNAL" : LDAP_SASL_SIMPLE, &credentials, NULL, NULL, &id);
    secret_wipe(&password);
    if (code == LDAP_SUCCESS)
        code = finish(k, id);
    return code == LDAP_SUCCESS ? 0 : explain(k, code, "bind");
}

static int open_link(struct link *k)
{
    int code = ldap_initialize(&k->ld, k->l->server);
    if (code == LDAP_SUCCESS)
        code = set_options(k);
    if (code != LDAP_SUCCESS)
        return diag_set(k->why, -EINVAL, 0, "%s%s", ldap_err2string(code),
                        k->l->ca_file ? "; is ca_file a file of certificates?" : "");
    if (k->l->has_starttls && (code = ldap_start_tls_s(k->ld, NULL, NULL)) != LDAP_SUCCESS)
        return explain(k, code, "StartTLS");
    return bind_as(k);
}

/* ---------------------------------------------------------------- search */

static void note_entry(struct link *k, LDAPMessage *entry, struct strbuf *output)
{
    char *dn = ldap_get_dn(k->ld, entry);
    if (dn && output->n + strlen(dn) < ACTUATOR_OUTPUT_MAX)
        strbuf_printf(output, "%s\n", dn);
    ldap_memfree(dn);
}

/* Counts entries until the search's end: a code of libldap's. */
static int count_entries(struct link *k, int id, struct strbuf *output, int64_t *n)
{
    for (;;) {
        int code = LDAP_SUCCESS;
        LDAPMessage *message = next_answer(k, id, &code);
        if (!message)
            return code;
        int type = ldap_msgtype(message);
        if (type == LDAP_RES_SEARCH_RESULT)
            return result_of(k, message);
        if (type == LDAP_RES_SEARCH_ENTRY) {
            note_entry(k, message, output);
            ++*n;
        }
        (void)ldap_msgfree(message); /* what it was is known */
    }
}

static int search(struct link *k, struct actuator_report *report)
{
    char *none[] = {(char *)(uintptr_t)LDAP_NO_ATTRS, NULL}; /* libldap only reads */
    const struct ldap_act *l = k->l;
    int64_t n = 0;
    int id = 0;
    int code = ldap_search_ext(k->ld, l->base, scope_of(l->scope), l->filter, none, 0, NULL, NULL, NULL,
                               LDAP_NO_LIMIT, &id);
    if (code == LDAP_SUCCESS)
        code = count_entries(k, id, &report->output, &n);
    if (code == LDAP_NO_SUCH_OBJECT && l->at_least == 0)
        code = LDAP_SUCCESS; /* no base, no entries */
    if (code != LDAP_SUCCESS)
        return explain(k, code, "search");
    if (n < l->at_least)
        return diag_set(k->why, -ENOENT, 0, "found %" PRId64 " entries, not at least %" PRId64, n,
                        l->at_least);
    if (l->at_most >= 0 && n > l->at_most)
        return diag_set(k->why, E_LIMIT, 0, "found %" PRId64 " entries, more than %" PRId64, n, l->at_most);
    strbuf_printf(&report->text, "found %" PRId64 " entr%s at %s", n, n == 1 ? "y" : "ies", l->server);
    return 0;
}

/* ---------------------------------------------------------------- change */

/* What libldap takes; values of one attribute stand together. */
struct changes {
    size_t n;
    LDAPMod *mods, **list; /* n of them, and a NULL behind */
    char **names;
    struct berval *values;
    struct berval **pointers; /* to them, with a NULL behind each attribute's */
};

static void changes_fini(struct changes *c)
{
    for (size_t i = 0; c->names && i < c->n; i++)
        mem_free(c->names[i]);
    mem_free(c->mods);
    mem_free(c->list);
    mem_free(c->names);
    mem_free(c->values);
    mem_free(c->pointers);
}

static bool is_same_attribute(const char *a, const char *b)
{
    return slice_eq_nocase(slice_of(a, strcspn(a, "=")), slice_of(b, strcspn(b, "=")));
}

/* One attribute with all its values, unless an earlier one is the same. */
static int add_change(struct changes *c, const struct parameter_list *set, size_t i, size_t *at,
                      struct berval ***to)
{
    for (size_t j = 0; j < i; j++)
        if (is_same_attribute(set->v[j], set->v[i]))
            return 0;
    struct berval **first = *to;
    size_t n = strcspn(set->v[i], "=");
    for (size_t j = i; j < set->n; j++) {
        const char *value = set->v[j] + n + 1;
        if (!is_same_attribute(set->v[j], set->v[i]) || !*value)
            continue;
        c->values[*at] = (struct berval){strlen(value), (char *)(uintptr_t)value}; /* libldap only reads */
        *(*to)++ = &c->values[(*at)++];
    }
    *(*to)++ = NULL;
    char *name = mem_try_alloc(n + 1);
    if (!name)
        return -ENOMEM;
    memcpy(name, set->v[i], n);
    c->names[c->n] = name;
    c->mods[c->n] = (LDAPMod){.mod_op = LDAP_MOD_REPLACE | LDAP_MOD_BVALUES,
                              .mod_type = name,
                              .mod_vals.modv_bvals = *first ? first : NULL};
    c->list[c->n] = &c->mods[c->n];
    c->n++;
    return 0;
}

static int changes_init(struct changes *c, const struct parameter_list *set)
{
    size_t at = 0;
    *c = (struct changes){.mods = mem_try_alloc(set->n * sizeof *c->mods),
                          .list = mem_try_alloc((set->n + 1) * sizeof *c->list),
                          .names = mem_try_alloc(set->n * sizeof *c->names),
                          .values = mem_try_alloc(set->n * sizeof *c->values),
                          .pointers = mem_try_alloc(2 * set->n * sizeof *c->pointers)};
    struct berval **to = c->pointers;
    int r = c->mods && c->list && c->names && c->values && c->pointers ? 0 : -ENOMEM;
    for (size_t i = 0; i < set->n && r == 0; i++)
        r = add_change(c, set, i, &at, &to);
    return r;
}

static int change(struct link *k, struct actuator_report *report)
{
    struct changes c;
    int id = 0, code = LDAP_NO_MEMORY;
    if (changes_init(&c, &k->l->set) == 0)
        code = ldap_modify_ext(k->ld, k->l->dn, c.list, NULL, NULL, &id);
    if (code == LDAP_SUCCESS)
        code = finish(k, id);
    changes_fini(&c);
    if (code != LDAP_SUCCESS)
        return explain(k, code, "change");
    strbuf_printf(&report->text, "changed %s at %s", k->l->dn, k->l->server);
    return 0;
}

static int ldap_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct ldap_act *l = state;
    struct diag why = {0};
    struct link k = {.l = l, .env = env, .why = &why};
    int r = check(l, &why);
    if (r == 0)
        r = open_link(&k);
    if (r == 0)
        r = l->base ? search(&k, report) : change(&k, report);
    if (k.ld)
        (void)ldap_unbind_ext_s(k.ld, NULL, NULL); /* it is over in any case */
    if (r < 0)
        strbuf_printf(&report->text, "%s: %s", l->server, why.message[0] ? why.message : err_text(r));
    return r;
}

const struct actuator_ops actuator_ldap = {
    .name = "ldap",
    .summary = "a search at an LDAP server, or a change of an entry",
    .options = ldap_options,
    .is_repeatable = true,
    .state_size = sizeof(struct ldap_act),
    .escape = ldap_escape,
    .plan = ldap_plan,
    .run = ldap_run,
};
