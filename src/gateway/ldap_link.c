/* SPDX-License-Identifier: Apache-2.0 */
/* An entry is written whole: added, or all of its attributes replaced, so that writing it again does no harm
 * and nothing depends on what was there. One that another gateway has published, because a host's agent went
 * over to it, is known by its gridlineGatewayName: we ask for that before we touch what is not held by us.
 * Between question and change another may come first; the comparison of all entries (ldap_mirror.h) puts that
 * right. */
#include "gateway/ldap_link.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"

#include <errno.h>
#include <ldap.h>
#include <sys/time.h>

struct ldap_link {
    LDAP *ld;
    const struct ldap_link_options *o;
    struct strbuf dn, record;
    int last; /* libldap's code of the last call */
};

/* ---------------------------------------------------------------- what the server says */

static int explain(struct ldap_link *l, int code, const char *what, struct diag *why)
{
    char *more = NULL;
    (void)ldap_get_option(l->ld, LDAP_OPT_DIAGNOSTIC_MESSAGE, &more); /* it stays NULL */
    struct slice text = log_safe(slice_str(more ? more : ""));
    (void)diag_set(why, -EREMOTEIO, 0, text.n ? "%s: %s (%.*s)" : "%s: %s", what, ldap_err2string(code),
                   SLICE_ARG(text));
    ldap_memfree(more);
    return -EREMOTEIO;
}

/* Codes below 0 are libldap's own: no connection, no answer in time, no memory. */
static enum ldap_outcome outcome_of(struct ldap_link *l, int code, const char *what, struct diag *why)
{
    l->last = code;
    if (code == LDAP_SUCCESS)
        return OUTCOME_DONE;
    (void)explain(l, code, what, why); /* the outcome says it */
    bool is_away = code < 0 || code == LDAP_BUSY || code == LDAP_UNAVAILABLE ||
                   code == LDAP_TIMELIMIT_EXCEEDED || code == LDAP_ADMINLIMIT_EXCEEDED ||
                   code == LDAP_STRONG_AUTH_REQUIRED;
    return is_away ? OUTCOME_AWAY : OUTCOME_REFUSED;
}

static const char *full_dn(struct ldap_link *l, struct slice name)
{
    strbuf_reset(&l->dn);
    strbuf_add_slice(&l->dn, name);
    strbuf_printf(&l->dn, ",%s", l->o->base);
    return strbuf_failed(&l->dn) ? NULL : l->dn.p;
}

static enum ldap_outcome no_memory(struct diag *why)
{
    (void)diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM)); /* the outcome says it */
    return OUTCOME_AWAY;
}

/* ---------------------------------------------------------------- the connection */

int ldap_link_check(const struct ldap_link_options *o, struct diag *why)
{
    LDAPDN dn = NULL;
    if (!ldap_is_ldap_url(o->uri) && !ldap_is_ldaps_url(o->uri) && !ldap_is_ldapi_url(o->uri))
        return diag_set(why, E_PROTO, 0, "\"%.80s\" is not the address of an LDAP server", o->uri);
    if (ldap_str2dn(o->base, &dn, LDAP_DN_FORMAT_LDAPV3) != LDAP_SUCCESS || !dn)
        return diag_set(why, E_PROTO, 0, "\"%.80s\" is not a distinguished name", o->base);
    ldap_dnfree(dn);
    return 0;
}

static int set_options(struct ldap_link *l)
{
    const int version = LDAP_VERSION3, demand = LDAP_OPT_X_TLS_DEMAND, for_client = 0;
    const struct timeval connect = {LDAP_CONNECT_S, 0}, answer = {LDAP_ANSWER_S, 0};
    bool is_good = ldap_set_option(l->ld, LDAP_OPT_PROTOCOL_VERSION, &version) == 0 &&
                   ldap_set_option(l->ld, LDAP_OPT_NETWORK_TIMEOUT, &connect) == 0 &&
                   ldap_set_option(l->ld, LDAP_OPT_TIMEOUT, &answer) == 0 &&
                   ldap_set_option(l->ld, LDAP_OPT_REFERRALS, LDAP_OPT_OFF) == 0 &&
                   ldap_set_option(l->ld, LDAP_OPT_X_TLS_REQUIRE_CERT, &demand) == 0;
    if (is_good && *l->o->ca)
        is_good = ldap_set_option(l->ld, LDAP_OPT_X_TLS_CACERTFILE, l->o->ca) == 0;
    if (is_good && (l->o->has_starttls || ldap_is_ldaps_url(l->o->uri)))
        is_good = ldap_set_option(l->ld, LDAP_OPT_X_TLS_NEWCTX, &for_client) == 0;
    return is_good ? LDAP_SUCCESS : LDAP_LOCAL_ERROR;
}

static int bind_as(struct ldap_link *l, struct secret *password)
{
    struct berval credentials = {password->n, password->text};
    if (!*l->o->bind_dn && ldap_is_ldapi_url(l->o->uri))
        return ldap_sasl_bind_s(l->ld, NULL, "EXTERNAL", &credentials, NULL, NULL, NULL);
    return ldap_sasl_bind_s(l->ld, l->o->bind_dn, LDAP_SASL_SIMPLE, &credentials, NULL, NULL, NULL);
}

/* The password is read each time: who changes it need not start us again. */
static int say_who(struct ldap_link *l, struct diag *why)
{
    struct secret password = {0};
    int r = *l->o->password_file ? secret_read(l->o->password_file, &password, why) : 0;
    if (r < 0)
        return r;
    int code = bind_as(l, &password);
    secret_wipe(&password);
    return code == LDAP_SUCCESS ? 0 : explain(l, code, "bind", why);
}

int ldap_link_open(const struct ldap_link_options *o, struct ldap_link **out, struct diag *why)
{
    struct ldap_link *l = mem_try_alloc(sizeof *l);
    if (!l)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    l->o = o;
    int code = ldap_initialize(&l->ld, o->uri), r = 0;
    if (code == LDAP_SUCCESS)
        code = set_options(l);
    if (code != LDAP_SUCCESS)
        r = diag_set(why, -EINVAL, 0, "%s%s", ldap_err2string(code),
                     *o->ca ? "; is ca a file of certificates?" : "");
    if (r == 0 && o->has_starttls && (code = ldap_start_tls_s(l->ld, NULL, NULL)) != LDAP_SUCCESS)
        r = explain(l, code, "StartTLS", why);
    if (r == 0)
        r = say_who(l, why);
    if (r < 0) {
        ldap_link_close(l);
        return r;
    }
    *out = l;
    return 0;
}

void ldap_link_close(struct ldap_link *l)
{
    if (!l)
        return;
    if (l->ld)
        (void)ldap_unbind_ext_s(l->ld, NULL, NULL); /* it is over in any case */
    strbuf_fini(&l->dn);
    strbuf_fini(&l->record);
    mem_free(l);
}

int ldap_link_fd(struct ldap_link *l)
{
    int fd = -1;
    return ldap_get_option(l->ld, LDAP_OPT_DESC, &fd) == 0 ? fd : -1;
}

/* ---------------------------------------------------------------- listing */

static struct slice slice_of_value(const struct berval *v)
{
    return slice_of(v->bv_val, v->bv_len);
}

/* The entry as a record, in l->record. */
static void take_record(struct ldap_link *l, LDAPMessage *entry)
{
    strbuf_reset(&l->record);
    for (int a = 0; a < ATTRIBUTES; a++) {
        struct slice values[LDAP_VALUES_MAX];
        struct berval **list = ldap_get_values_len(l->ld, entry, ldap_attribute_names[a]);
        size_t n = 0;
        for (size_t i = 0; list && list[i] && n < LDAP_VALUES_MAX; i++)
            if (a != ATTRIBUTE_CLASS || slice_starts(slice_of_value(list[i]), SLICE_LIT("gridline")))
                values[n++] = slice_of_value(list[i]); /* some servers say `top`, too */
        ldap_record_add(&l->record, (enum ldap_attribute)a, values, n);
        ldap_value_free_len(list);
    }
}

/* Its name, in l->dn, from the attributes: how a server writes a distinguished name is its own choice. */
static void take_name(struct ldap_link *l)
{
    struct slice of[ATTRIBUTES] = {{"", 0}};
    struct cursor c = cursor_of(strbuf_slice(&l->record));
    struct ldap_value v;
    while (ldap_record_next(&c, &v))
        of[v.attribute] = v.text;
    strbuf_reset(&l->dn);
    if (of[ATTRIBUTE_SENSOR].n)
        strbuf_printf(&l->dn, "%s=%.*s,", ldap_attribute_names[ATTRIBUTE_SENSOR],
                      SLICE_ARG(of[ATTRIBUTE_SENSOR]));
    enum ldap_attribute last = of[ATTRIBUTE_HOST].n ? ATTRIBUTE_HOST : ATTRIBUTE_GATEWAY;
    strbuf_printf(&l->dn, "%s=%.*s", ldap_attribute_names[last], SLICE_ARG(of[last]));
}

static enum ldap_outcome give_entry(struct ldap_link *l, LDAPMessage *entry, ldap_listed fn, void *arg,
                                    struct diag *why)
{
    char *dn = ldap_get_dn(l->ld, entry);
    take_record(l, entry);
    take_name(l);
    bool is_good = dn && !strbuf_failed(&l->record) && !strbuf_failed(&l->dn);
    if (is_good)
        fn(arg, dn, strbuf_slice(&l->dn), strbuf_slice(&l->record));
    ldap_memfree(dn);
    return is_good ? OUTCOME_DONE : no_memory(why);
}

static enum ldap_outcome end_list(struct ldap_link *l, LDAPMessage *message, struct diag *why)
{
    int code = LDAP_LOCAL_ERROR;
    int r = ldap_parse_result(l->ld, message, &code, NULL, NULL, NULL, NULL, 0);
    if (r == LDAP_SUCCESS && code == LDAP_NO_SUCH_OBJECT) {
        /* the outcome says it */
        (void)diag_set(why, -ENOENT, 0, "there is no %.120s; add it by hand", l->o->base);
        return OUTCOME_AWAY;
    }
    return outcome_of(l, r == LDAP_SUCCESS ? code : r, "search", why);
}

/* One message at a time, so that it is never all in memory. */
static enum ldap_outcome take_answers(struct ldap_link *l, int id, ldap_listed fn, void *arg,
                                      struct diag *why)
{
    for (;;) {
        struct timeval limit = {LDAP_ANSWER_S, 0};
        LDAPMessage *message = NULL;
        enum ldap_outcome o = OUTCOME_DONE;
        int type = ldap_result(l->ld, id, LDAP_MSG_ONE, &limit, &message);
        if (type == LDAP_RES_SEARCH_ENTRY)
            o = give_entry(l, message, fn, arg, why);
        else if (type == LDAP_RES_SEARCH_RESULT)
            o = end_list(l, message, why);
        else if (type <= 0)
            o = outcome_of(l, type == 0 ? LDAP_TIMEOUT : LDAP_SERVER_DOWN, "search", why);
        (void)ldap_msgfree(message); /* what it was is known */
        if (o != OUTCOME_DONE || type == LDAP_RES_SEARCH_RESULT)
            return o;
    }
}

enum ldap_outcome ldap_link_list(struct ldap_link *l, ldap_listed fn, void *arg, struct diag *why)
{
    char *attributes[ATTRIBUTES + 1] = {NULL};
    struct strbuf filter = {0};
    int id;
    for (int a = 0; a < ATTRIBUTES; a++)
        attributes[a] = (char *)(uintptr_t)ldap_attribute_names[a]; /* libldap only reads */
    strbuf_printf(&filter, "(&(gridlineGatewayName=%.*s)(|", SLICE_ARG(l->o->gateway));
    strbuf_add_str(&filter,
                   "(objectClass=gridlineSensor)(objectClass=gridlineHost)(objectClass=gridlineGateway)))");
    int code = strbuf_failed(&filter) ? LDAP_NO_MEMORY
                                      : ldap_search_ext(l->ld, l->o->base, LDAP_SCOPE_SUBTREE, filter.p,
                                                        attributes, 0, NULL, NULL, NULL, LDAP_NO_LIMIT, &id);
    strbuf_fini(&filter);
    return code == LDAP_SUCCESS ? take_answers(l, id, fn, arg, why) : outcome_of(l, code, "search", why);
}

/* ---------------------------------------------------------------- writing */

/* A record as libldap takes it. */
struct changes {
    LDAPMod mods[ATTRIBUTES];
    LDAPMod *list[ATTRIBUTES + 1];
    struct berval *values;    /* all, by attribute */
    struct berval **pointers; /* to them, with a NULL behind each attribute's */
};

static size_t count_values(struct slice record)
{
    struct cursor c = cursor_of(record);
    struct ldap_value v;
    size_t n = 0;
    while (ldap_record_next(&c, &v))
        n++;
    return n;
}

static void changes_fini(struct changes *c)
{
    mem_free(c->values);
    mem_free(c->pointers);
}

/* operation: LDAP_MOD_ADD: those that have values; LDAP_MOD_REPLACE: all but what the entry is named by, so
 * that those without values go. */
static int changes_init(struct changes *c, struct slice record, int operation)
{
    size_t n = count_values(record), at = 0, listed = 0;
    struct cursor cursor = cursor_of(record);
    struct ldap_value v;
    *c = (struct changes){.values = mem_try_alloc((n + 1) * sizeof *c->values),
                          .pointers = mem_try_alloc((n + ATTRIBUTES) * sizeof *c->pointers)};
    if (!c->values || !c->pointers)
        return -ENOMEM;
    bool has_value = ldap_record_next(&cursor, &v);
    struct berval **to = c->pointers;
    for (int a = 0; a < ATTRIBUTES; a++) {
        struct berval **first = to;
        for (; has_value && (int)v.attribute == a; has_value = ldap_record_next(&cursor, &v)) {
            c->values[at] = (struct berval){v.text.n, (char *)(uintptr_t)v.text.p}; /* libldap only reads */
            *to++ = &c->values[at++];
        }
        *to++ = NULL;
        bool is_name = a == ATTRIBUTE_CLASS || a == ATTRIBUTE_HOST || a == ATTRIBUTE_SENSOR;
        if (operation == LDAP_MOD_ADD ? !*first : is_name)
            continue;
        c->mods[a] = (LDAPMod){.mod_op = operation | LDAP_MOD_BVALUES,
                               .mod_type = (char *)(uintptr_t)ldap_attribute_names[a],
                               .mod_vals.modv_bvals = *first ? first : NULL};
        c->list[listed++] = &c->mods[a];
    }
    return 0;
}

static int add(struct ldap_link *l, const char *dn, struct slice record)
{
    struct changes c;
    int code = changes_init(&c, record, LDAP_MOD_ADD) < 0 ? LDAP_NO_MEMORY
                                                          : ldap_add_ext_s(l->ld, dn, c.list, NULL, NULL);
    changes_fini(&c);
    return code;
}

static int replace(struct ldap_link *l, const char *dn, struct slice record)
{
    struct changes c;
    int code = changes_init(&c, record, LDAP_MOD_REPLACE) < 0
                   ? LDAP_NO_MEMORY
                   : ldap_modify_ext_s(l->ld, dn, c.list, NULL, NULL);
    changes_fini(&c);
    return code;
}

/* LDAP_COMPARE_TRUE: we have written it last. */
static int ask_whose(struct ldap_link *l, const char *dn)
{
    struct berval us = {l->o->gateway.n, (char *)(uintptr_t)l->o->gateway.p}; /* libldap only reads */
    return ldap_compare_ext_s(l->ld, dn, ldap_attribute_names[ATTRIBUTE_GATEWAY], &us, NULL, NULL);
}

static int replace_if_ours(struct ldap_link *l, const char *dn, struct slice record, bool is_held)
{
    int code = is_held ? LDAP_COMPARE_TRUE : ask_whose(l, dn);
    return code == LDAP_COMPARE_TRUE ? replace(l, dn, record) : code;
}

enum ldap_outcome ldap_link_write(struct ldap_link *l, struct slice name, struct slice record, bool is_there,
                                  bool is_held, struct diag *why)
{
    const char *dn = full_dn(l, name);
    if (!dn)
        return no_memory(why);
    int code = is_there ? replace_if_ours(l, dn, record, is_held) : LDAP_NO_SUCH_OBJECT;
    if (code == LDAP_NO_SUCH_OBJECT)
        code = add(l, dn, record);
    if (code == LDAP_ALREADY_EXISTS)
        code = replace_if_ours(l, dn, record, is_held);
    if (code == LDAP_COMPARE_FALSE || code == LDAP_NO_SUCH_ATTRIBUTE)
        return OUTCOME_FOREIGN;
    return outcome_of(l, code, "write", why);
}

bool ldap_link_lacks_parent(const struct ldap_link *l)
{
    return l->last == LDAP_NO_SUCH_OBJECT;
}

enum ldap_outcome ldap_link_remove_dn(struct ldap_link *l, const char *dn, struct diag *why)
{
    int code = ask_whose(l, dn);
    if (code == LDAP_COMPARE_FALSE || code == LDAP_NO_SUCH_ATTRIBUTE)
        return OUTCOME_FOREIGN;
    if (code == LDAP_COMPARE_TRUE)
        code = ldap_delete_ext_s(l->ld, dn, NULL, NULL);
    return outcome_of(l, code == LDAP_NO_SUCH_OBJECT ? LDAP_SUCCESS : code, "remove", why);
}

enum ldap_outcome ldap_link_remove(struct ldap_link *l, struct slice name, struct diag *why)
{
    const char *dn = full_dn(l, name);
    return dn ? ldap_link_remove_dn(l, dn, why) : no_memory(why);
}
