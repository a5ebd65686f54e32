/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: what depends on who runs the gateway and on other keys, and what is refused although each key
 * alone is fine. */
#include "gateway/config_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static const struct config_origin *origin_of(const struct config_entry *entry)
{
    return entry ? &entry->from : NULL;
}

/* ---------------------------------------------------------------- defaults */

static void derive_state(struct config_load *l, struct gateway_config *c)
{
    bool has_journal = given_find(&l->root, "journal") && *c->journal;
    const struct config_entry *state_dir = given_find(&l->root, "state_dir");
    if (!state_dir)
        c->state_dir = has_journal ? "" : config_default_state_dir(l);
    if (!c->state_dir && l->code == 0)
        (void)config_problem(l, -EINVAL, NULL, "state_dir",
                             "neither XDG_STATE_HOME nor HOME is set; give state_dir or journal");
    else if (!has_journal && c->state_dir && !*c->state_dir)
        (void)config_problem(l, -EINVAL, origin_of(state_dir), "state_dir",
                             "without it there is no place for the journal; give one of both");
    else if (!has_journal && c->state_dir)
        c->journal = config_join(l, c->state_dir, "/journal");
    if (!given_find(&l->root, "archive.dir"))
        c->archive.dir = c->state_dir && *c->state_dir ? config_join(l, c->state_dir, "/archive") : "";
}

static void derive_socket(struct config_load *l, struct gateway_config *c)
{
    const struct config_entry *run_dir = given_find(&l->root, "run_dir"),
                              *socket = given_find(&l->root, "socket");
    bool is_elsewhere = given_find(&l->root, "journal") || given_find(&l->root, "state_dir");
    if (run_dir && !*c->run_dir)
        (void)config_problem(l, -EINVAL, &run_dir->from, "run_dir", "it can't be empty");
    if (!run_dir)
        c->run_dir = config_default_run_dir(l);
    if (!socket && (run_dir || !is_elsewhere) && c->run_dir)
        c->socket = config_join(l, c->run_dir, "/gateway.sock");
    else if (!socket)
        c->socket = "";
    config_check_socket(l, c->socket, socket);
}

/* http as URL with its port; and where the owner's token is: in run_dir if the socket is there, too. */
static void derive_http(struct config_load *l, struct gateway_config *c)
{
    bool is_elsewhere = given_find(&l->root, "journal") || given_find(&l->root, "state_dir");
    bool has_run_dir = c->run_dir && *c->run_dir && slice_starts(slice_str(c->socket), slice_str(c->run_dir));
    struct config_address address;
    struct strbuf text = {0};
    if (!given_find(&l->root, "http"))
        c->http = !is_elsewhere || given_find(&l->root, "run_dir") ? "127.0.0.1" : "";
    if (*c->http && config_http_parse(slice_str(c->http), &address))
        strbuf_printf(
            &text, memchr(address.host.p, ':', address.host.n) ? "%s://[%.*s]:%.*s" : "%s://%.*s:%.*s",
            address.kind == ADDRESS_TLS ? "https" : "http", SLICE_ARG(address.host), SLICE_ARG(address.port));
    c->http = strbuf_failed(&text) ? NULL : config_copy(l, strbuf_slice(&text));
    if (strbuf_failed(&text))
        (void)config_problem(l, -ENOMEM, NULL, NULL, "out of memory"); /* remembered in l */
    strbuf_fini(&text);
    const char *folder = has_run_dir ? c->run_dir : c->state_dir;
    c->http_token = folder && *folder ? config_join(l, folder, "/http.token") : "";
    c->http_sessions = c->state_dir && *c->state_dir ? config_join(l, c->state_dir, "/http.sessions") : "";
}

/* "" if no address of `listen` has a port. */
static void derive_udp(struct config_load *l, struct gateway_config *c)
{
    struct slice rest = slice_str(c->listen), word;
    struct config_address address;
    struct strbuf text = {0};
    if (given_find(&l->root, "udp"))
        return;
    while (text.n == 0 && config_next_word(&rest, ',', &word))
        if (config_address_parse(word, &address) && address.kind != ADDRESS_UNIX)
            strbuf_printf(&text, memchr(address.host.p, ':', address.host.n) ? "[%.*s]:%.*s" : "%.*s:%.*s",
                          SLICE_ARG(address.host), SLICE_ARG(address.port));
    c->udp = strbuf_failed(&text) ? NULL : config_copy(l, strbuf_slice(&text));
    if (strbuf_failed(&text))
        (void)config_problem(l, -ENOMEM, NULL, NULL, "out of memory"); /* remembered in l */
    strbuf_fini(&text);
}

/* ---------------------------------------------------------------- what does not go together */

/* Returns whether there is a tls:// among them. */
static bool check_listen(struct config_load *l, const struct gateway_config *c)
{
    const struct config_origin *at = origin_of(given_find(&l->root, "listen"));
    struct slice rest = slice_str(c->listen), word;
    struct config_address address;
    bool has_tls = false;
    while (config_next_word(&rest, ',', &word)) {
        (void)config_address_parse(word, &address); /* store_listen has looked */
        has_tls |= address.kind == ADDRESS_TLS;
        if (address.kind == ADDRESS_TLS && !*c->identity)
            (void)config_problem(
                l, -EINVAL, at, "listen",
                "%.*s needs a certificate; make one with `gridline init` and write identity = FOLDER",
                SLICE_ARG(word));
        if (address.kind == ADDRESS_TCP && !c->is_insecure && !config_address_is_loopback(&address))
            (void)config_problem(
                l, -EINVAL, at, "listen",
                "%.*s is open to other hosts, without TLS; write tls:// and identity = FOLDER, or "
                "insecure = true",
                SLICE_ARG(word));
    }
    return has_tls;
}

static void check_http(struct config_load *l, const struct gateway_config *c)
{
    const struct config_origin *at = origin_of(given_find(&l->root, "http"));
    struct config_address address;
    if (!*c->http)
        return;
    (void)config_http_parse(slice_str(c->http), &address); /* store_http has looked */
    if (address.kind == ADDRESS_TLS && !*c->identity)
        (void)config_problem(
            l, -EINVAL, at, "http",
            "%s needs a certificate; make one with `gridline init` and write identity = FOLDER", c->http);
    if (address.kind == ADDRESS_TCP && !c->is_insecure && !config_address_is_loopback(&address))
        (void)config_problem(l, -EINVAL, at, "http",
                             "%s is open to other hosts, without TLS; write https:// and identity = FOLDER, "
                             "or insecure = true",
                             c->http);
}

static void check_udp(struct config_load *l, const struct gateway_config *c, bool has_tls)
{
    const struct config_entry *udp = given_find(&l->root, "udp"); /* else it follows listen */
    struct config_address address;
    if (!*c->udp || c->is_insecure || !config_address_parse(slice_str(c->udp), &address) ||
        config_address_is_loopback(&address))
        return;
    if (c->level == SEAL_NONE)
        (void)config_problem(l, -EINVAL, origin_of(given_find(&l->root, "security")), "security",
                             "none is only for this host; write authentic or private, or insecure = true");
    else if (udp && !has_tls)
        (void)config_problem(
            l, -EINVAL, &udp->from, "udp",
            "%s is open to other hosts, whose keys come by TLS; add a tls:// address to listen, or "
            "write insecure = true",
            c->udp);
}

/* A third of the lease at most: two renewals may get lost. One that was not given follows. */
static void check_lease(struct config_load *l, struct gateway_config *c)
{
    const struct config_entry *renew = given_find(&l->root, "lease.renew");
    if (c->renew_ms <= c->lease_ms / 3)
        return;
    if (renew)
        (void)config_problem(
            l, -EINVAL, &renew->from, "lease.renew",
            "it is more than a third of lease.time: two lost renewals would end a lease; give less, or "
            "a longer lease.time");
    else
        c->renew_ms = c->lease_ms / 3;
}

/* HOST of ldap://HOST:PORT. */
static bool is_ldap_on_loopback(struct slice uri)
{
    struct config_address address = {.kind = ADDRESS_TCP};
    struct slice rest = slice_from(uri, sizeof "ldap://" - 1);
    bool has_brackets = rest.n && rest.p[0] == '[';
    size_t n = 0;
    while (n < rest.n && !strchr(has_brackets ? "]" : ":/", rest.p[n]))
        n++;
    address.host = slice_of(rest.p + has_brackets, n - has_brackets);
    return config_address_is_loopback(&address);
}

static void check_ldap_uri(struct config_load *l, const struct gateway_config *c)
{
    const struct config_origin *at = origin_of(given_find(&l->root, "ldap.uri"));
    struct slice uri = slice_str(c->ldap_uri);
    bool is_plain = slice_starts(uri, SLICE_LIT("ldap://"));
    bool is_known =
        is_plain || slice_starts(uri, SLICE_LIT("ldaps://")) || slice_starts(uri, SLICE_LIT("ldapi://"));
    if (!is_known || slice_ends(uri, SLICE_LIT("://")))
        (void)config_problem(
            l, -EINVAL, at, "ldap.uri",
            "\"%.80s\" is not an LDAP server; write ldap://HOST:PORT, ldaps://HOST:PORT or ldapi://PATH",
            c->ldap_uri);
    else if (!is_plain && c->ldap_starttls)
        (void)config_problem(l, -EINVAL, origin_of(given_find(&l->root, "ldap.starttls")), "ldap.starttls",
                             "it is for ldap:// addresses; leave it out");
    else if (is_plain && !c->ldap_starttls && !c->is_insecure && !is_ldap_on_loopback(uri))
        (void)config_problem(
            l, -EINVAL, at, "ldap.uri",
            "%.80s is on another host, without TLS; write ldaps://, ldap.starttls = true, or "
            "insecure = true",
            c->ldap_uri);
}

/* With a name and no password a server takes one for nobody, and says that all is well. */
static void check_ldap(struct config_load *l, const struct gateway_config *c)
{
    static const char *const others[] = {"ldap.base", "ldap.bind_dn", "ldap.password_file", "ldap.ca",
                                         "ldap.name"};
    const char *const given[] = {c->ldap_base, c->ldap_bind_dn, c->ldap_password_file, c->ldap_ca,
                                 c->ldap_name};
    for (size_t i = 0; !*c->ldap_uri && i < sizeof others / sizeof *others; i++)
        if (*given[i])
            (void)config_problem(l, -EINVAL, origin_of(given_find(&l->root, others[i])), others[i],
                                 "nothing is published without ldap.uri; write that, or leave this out");
    if (!*c->ldap_uri)
        return;
    check_ldap_uri(l, c);
    if (!*c->ldap_base)
        (void)config_problem(l, -EINVAL, origin_of(given_find(&l->root, "ldap.uri")), "ldap.base",
                             "it has to be said below which entry; write ldap.base = \"ou=grid,dc=example\"");
    if (!*c->ldap_bind_dn != !*c->ldap_password_file)
        (void)config_problem(
            l, -EINVAL, origin_of(given_find(&l->root, *c->ldap_bind_dn ? others[1] : others[2])),
            *c->ldap_bind_dn ? others[1] : others[2], "ldap.bind_dn and ldap.password_file go together");
}

/* Between two flushes the newest rows of the archive are in the journal only: up to archive.memory of them,
 * in the three quarters of the journal that samples may fill (store.h). */
static void check_journal(struct config_load *l, struct gateway_config *c)
{
    const struct config_entry *entry = given_find(&l->root, "journal_max");
    const uint64_t mib = 1 << 20;
    uint64_t need = (c->archive.memory / 3 * 4 + mib - 1) / mib;
    if (*c->archive.dir && c->journal_max < need * mib)
        (void)config_problem(l, -EINVAL, origin_of(entry), "journal_max",
                             "the archive keeps up to %" PRIu64
                             "MiB of new rows in memory between two flushes (archive.memory), and until then "
                             "the journal has to hold them: it needs %" PRIu64
                             "MiB; raise journal_max, or set archive.memory to %" PRIu64 "KiB",
                             c->archive.memory / mib, need, c->journal_max / 4 * 3 / 1024);
    if (!given_find(&l->root, "journal_hold"))
        c->journal_hold = c->journal_max;
}

static void make_gateway(struct config_load *l, struct gateway_config *c)
{
    size_t problems = l->problems;
    config_store_section(l, &l->root, c);
    (void)given_entries(l, &l->root, &c->given, &c->n_given); /* remembered in l */
    if (l->problems > problems)
        return;
    derive_state(l, c);
    derive_socket(l, c);
    derive_http(l, c);
    derive_udp(l, c);
    if (l->code < 0)
        return;
    check_http(l, c);
    check_udp(l, c, check_listen(l, c));
    check_lease(l, c);
    check_journal(l, c);
    check_ldap(l, c);
    c->ledger_file = *c->ledger_file ? c->ledger_file : NULL;
    c->ready_file = *c->ready_file ? c->ready_file : NULL;
}

/* ---------------------------------------------------------------- observers */

/* What a text can't do is refused, but not its default: `config show` has that. */
static void check_text(struct config_load *l, const struct given_section *section, const char *name)
{
    static const char *const of_files[] = {"path", "compress", "max_size", "max_age", "keep"};
    struct config_key key;
    for (size_t i = 0; i < sizeof of_files / sizeof *of_files; i++) {
        const struct config_entry *entry = given_find(section, of_files[i]);
        bool is_default = entry && config_key_find(l->schema, section->scope, slice_str(of_files[i]), &key) &&
                          key.default_text && strcmp(key.default_text, entry->setting.texts[0]) == 0;
        if (entry && !is_default)
            (void)config_problem(l, -EINVAL, &entry->from, name, "%s is for type = file; leave it out",
                                 of_files[i]);
    }
}

static void check_observer(struct config_load *l, const struct given_section *section,
                           const struct observer_config *o)
{
    struct strbuf name = {0};
    config_full_name(section->scope, section->title, NULL, &name);
    if (strcmp(o->type, "text") == 0)
        check_text(l, section, strbuf_slice(&name).p);
    else if (!o->path)
        (void)config_problem(l, -EINVAL, &section->from, strbuf_slice(&name).p,
                             "type = file needs a path; write path = \"/var/log/gridline/events.ulm\"");
    strbuf_fini(&name);
}

/* Two that write to one file would mix their bytes, and rotate each other's. */
static void check_path(struct config_load *l, const struct given_section *section,
                       const struct observer_config *first, const struct observer_config *o)
{
    for (; first < o; first++) {
        if (!o->path || !first->path || strcmp(o->path, first->path) != 0)
            continue;
        struct strbuf name = {0};
        config_full_name(section->scope, section->title, "path", &name);
        (void)config_problem(l, -EINVAL, origin_of(given_find(section, "path")), strbuf_slice(&name).p,
                             "observer %s has the same; give each a file of its own", first->name);
        strbuf_fini(&name);
        return;
    }
}

static bool is_of(const struct given_section *s, const struct config_scope *scope)
{
    return strcmp(s->scope.name, scope->name) == 0;
}

static void make_observers(struct config_load *l, struct gateway_config *c)
{
    struct observer_config *all = config_alloc(l, (l->n_sections + 1) * sizeof *all);
    c->observers = all;
    for (const struct given_section *s = l->sections; all && s; s = s->next) {
        if (!is_of(s, &scope_observer))
            continue;
        struct observer_config *o = &all[c->n_observers++];
        size_t problems = l->problems;
        o->name = s->title;
        config_store_section(l, s, o);
        (void)given_entries(l, s, &o->given, &o->n_given); /* remembered in l */
        if (l->problems > problems)
            continue;
        check_observer(l, s, o);
        check_path(l, s, all, o);
    }
}

/* ---------------------------------------------------------------- access */

static void make_access(struct config_load *l, struct gateway_config *c)
{
    struct access_row *rows = config_alloc(l, (l->n_sections + 1) * sizeof *rows);
    struct access_token *tokens = config_alloc(l, (l->n_sections + 1) * sizeof *tokens);
    c->access = rows;
    c->tokens = tokens;
    for (const struct given_section *s = l->sections; rows && tokens && s; s = s->next) {
        if (is_of(s, &scope_access))
            config_make_access(l, s, &rows[c->n_access++]);
        else if (is_of(s, &scope_token))
            config_make_token(l, s, &tokens[c->n_tokens++]);
    }
    if (l->code == 0)
        config_check_access(l, c);
}

/* ---------------------------------------------------------------- loading */

int gateway_config_load(const struct config_flags *flags, struct gateway_config **out, struct diag *why)
{
    struct config_load l;
    struct gateway_config *c = mem_try_alloc(sizeof *c);
    config_load_init(&l, &gateway_schema, flags, c ? &c->arena : NULL, why);
    if (!c)
        return config_problem(&l, -ENOMEM, NULL, NULL, "out of memory");
    config_load_files(&l, GATEWAY_CONFIG_FILE);
    given_from_environment(&l);
    given_from_flags(&l);
    if (l.code == 0) {
        make_gateway(&l, c);
        make_access(&l, c);
        make_observers(&l, c);
    }
    if (l.code < 0) {
        gateway_config_destroy(c);
        return l.code;
    }
    *out = c;
    return 0;
}

void gateway_config_destroy(struct gateway_config *c)
{
    if (!c)
        return;
    arena_fini(&c->arena);
    mem_free(c);
}

void gateway_config_show(const struct gateway_config *c, enum config_form form, bool with_origins,
                         struct strbuf *out)
{
    char renew[24], hold[24];
    (void)snprintf(hold, sizeof hold, "%" PRIu64, c->journal_hold);    /* fits */
    (void)snprintf(renew, sizeof renew, "%" PRIu32 "ms", c->renew_ms); /* fits */
    if (c->renew_ms % 1000 == 0)
        (void)snprintf(renew, sizeof renew, "%" PRIu32 "s", c->renew_ms / 1000); /* fits */
    const struct config_computed computed[] = {{"udp", c->udp},
                                               {"http", c->http},
                                               {"socket", c->socket},
                                               {"run_dir", c->run_dir},
                                               {"state_dir", c->state_dir},
                                               {"journal", c->journal},
                                               {"journal_hold", hold},
                                               {"archive.dir", c->archive.dir},
                                               {"lease.renew", renew},
                                               {NULL, NULL}};
    struct config_show s = {
        .schema = &gateway_schema, .form = form, .with_origins = with_origins, .out = out};
    config_show_begin(&s);
    config_show_root(&s, c->given, c->n_given, computed);
    for (size_t i = 0; i < c->n_access; i++)
        config_show_section(&s, scope_access, c->access[i].name, c->access[i].given, c->access[i].n_given,
                            NULL);
    for (size_t i = 0; i < c->n_tokens; i++)
        config_show_section(&s, scope_token, c->tokens[i].name, c->tokens[i].given, c->tokens[i].n_given,
                            NULL);
    for (size_t i = 0; i < c->n_observers; i++)
        config_show_section(&s, scope_observer, c->observers[i].name, c->observers[i].given,
                            c->observers[i].n_given, NULL);
    config_show_end(&s);
}

int gateway_config_explain(const char *key, enum config_form form, struct strbuf *out, struct diag *why)
{
    return config_explain_schema(&gateway_schema, key, form, out, why);
}
