/* SPDX-License-Identifier: Apache-2.0 */
/* A table is read with GETBULK over all wanted columns at once. An answer has the next rows of each,
 * interleaved: the i-th value is of the column i modulo their number. A device cuts an answer that gets too
 * large anywhere, so each column has its own place to go on from. One that says "too big" instead is asked
 * for half as many values, with fewer columns if need be. A column is at its end with the first OID that is
 * not in it. OIDs that do not ascend would go round for ever: that device is refused. */
#include "helper/snmp_link.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/secret.h"

#include <assert.h>
#include <errno.h>

/* Values of one question: answers of that many usually fit one packet without fragments. */
enum { GET_VALUES = 32, BULK_VALUES = 48 };

struct snmp_link {
    const struct snmp_sensor *options;
    void *handle; /* net-snmp's */
    int64_t until_ns;
};

int snmp_name_parse(struct slice text, struct snmp_name *out)
{
    struct snmp_name name = {.n = 0};
    if (text.n && text.p[0] == '.')
        text = slice_from(text, 1);
    for (;;) {
        uint64_t v;
        const char *dot = memchr(text.p, '.', text.n);
        size_t n = dot ? (size_t)(dot - text.p) : text.n;
        if (name.n == MAX_OID_LEN || num_parse_uint(slice_of(text.p, n), &v) < 0 || v > UINT32_MAX)
            return E_PROTO;
        name.v[name.n++] = (oid)v;
        if (!dot)
            break;
        text = slice_from(text, n + 1);
    }
    if (name.n < 2 || name.v[0] > 2 || (name.v[0] < 2 && name.v[1] > 39)) /* the first two share a byte */
        return E_PROTO;
    *out = name;
    return 0;
}

/* ---------------------------------------------------------------- opening */

static void start_library(void)
{
    static bool is_started;
    static const int on[] = {NETSNMP_DS_LIB_DONT_READ_CONFIGS,       NETSNMP_DS_LIB_DONT_PERSIST_STATE,
                             NETSNMP_DS_LIB_DISABLE_PERSISTENT_LOAD, NETSNMP_DS_LIB_DISABLE_PERSISTENT_SAVE,
                             NETSNMP_DS_LIB_DONT_LOAD_HOST_FILES,    NETSNMP_DS_LIB_ALARM_DONT_USE_SIG};
    if (is_started)
        return;
    is_started = true;
    for (size_t i = 0; i < sizeof on / sizeof *on; i++)
        (void)netsnmp_ds_set_boolean(NETSNMP_DS_LIBRARY_ID, on[i], 1); /* fails for unknown numbers only */
    (void)setenv("MIBS", "", 1); /* fails without memory: then it looks for MIBs, and finds some or not */
    (void)setenv("MIBDIRS", "", 1);
    /* It would make a folder for an index of certificates in the one, and look for them in the other. */
    (void)netsnmp_ds_set_string(NETSNMP_DS_LIBRARY_ID, NETSNMP_DS_LIB_PERSISTENT_DIR, "/dev/null");
    (void)netsnmp_ds_set_string(NETSNMP_DS_LIBRARY_ID, NETSNMP_DS_LIB_CONFIGURATION_DIR, "/dev/null");
    snmp_disable_log();
    init_snmp("gridline");
}

struct auth {
    const char *name;
    const oid *proto;
};

static const struct auth auths[] = {
    {"SHA", usmHMACSHA1AuthProtocol},
    {"SHA-256", usmHMAC192SHA256AuthProtocol},
    {"SHA-512", usmHMAC384SHA512AuthProtocol},
};

static const struct auth *find_auth(const char *name)
{
    for (size_t i = 0; i < sizeof auths / sizeof *auths; i++)
        if (slice_eq_nocase(slice_str(auths[i].name), slice_str(name)))
            return &auths[i];
    return NULL;
}

/* The key of a passphrase; it must have 8 characters, says RFC 3414. */
static int make_key(const struct auth *auth, const char *path, u_char *key, size_t *key_n, struct diag *why)
{
    struct secret s;
    int r = secret_read(path, &s, why);
    if (r < 0)
        return r;
    if (s.n < USM_LENGTH_P_MIN)
        r = diag_set(why, E_PROTO, 0, "%s: a passphrase has at least %d characters", path, USM_LENGTH_P_MIN);
    else if (generate_Ku(auth->proto, USM_AUTH_PROTO_SHA_LEN, (const u_char *)s.text, s.n, key, key_n) !=
             SNMPERR_SUCCESS)
        r = diag_set(why, -ENOTSUP, 0, "net-snmp can't do %s", auth->name);
    secret_wipe(&s);
    return r;
}

/* Fills in who asks, by version 3. Everything is borrowed: net-snmp copies it when the session is opened. */
static int use_v3(const struct snmp_sensor *o, netsnmp_session *s, struct diag *why)
{
    const struct auth *auth = find_auth(o->auth);
    if (!o->user || !o->user[0])
        return diag_set(why, -EINVAL, 0, "version 3 needs `user`");
    if (!auth)
        return diag_set(why, -EINVAL, 0, "auth: `%s` is not SHA, SHA-256 or SHA-512", o->auth);
    if (o->priv_file && !o->auth_file)
        return diag_set(why, -EINVAL, 0, "`priv_file` needs `auth_file`");
    s->version = SNMP_VERSION_3;
    s->securityName = (char *)(uintptr_t)o->user; /* not written to */
    s->securityNameLen = strlen(o->user);
    s->securityModel = USM_SEC_MODEL_NUMBER;
    s->securityLevel = SNMP_SEC_LEVEL_NOAUTH;
    if (!o->auth_file)
        return 0;
    s->securityLevel = o->priv_file ? SNMP_SEC_LEVEL_AUTHPRIV : SNMP_SEC_LEVEL_AUTHNOPRIV;
    s->securityAuthProto = (oid *)(uintptr_t)auth->proto;
    s->securityAuthProtoLen = USM_AUTH_PROTO_SHA_LEN;
    s->securityAuthKeyLen = sizeof s->securityAuthKey;
    int r = make_key(auth, o->auth_file, s->securityAuthKey, &s->securityAuthKeyLen, why);
    if (r < 0 || !o->priv_file)
        return r;
    s->securityPrivProto = usmAESPrivProtocol;
    s->securityPrivProtoLen = USM_PRIV_PROTO_AES_LEN;
    s->securityPrivKeyLen = sizeof s->securityPrivKey;
    return make_key(auth, o->priv_file, s->securityPrivKey, &s->securityPrivKeyLen, why);
}

/* The community goes to *community, which lives as long as s is used. */
static int use_v2c(const struct snmp_sensor *o, netsnmp_session *s, struct secret *community,
                   struct diag *why)
{
    if (!o->community_file)
        *community = (struct secret){.n = 6, .text = "public"};
    int r = o->community_file ? secret_read(o->community_file, community, why) : 0;
    if (r < 0)
        return r;
    s->version = SNMP_VERSION_2c;
    s->community = (u_char *)community->text;
    s->community_len = community->n;
    return 0;
}

static int no_answer(const struct snmp_sensor *o, struct diag *why)
{
    return diag_set(why, -ETIMEDOUT, 0, "no answer from %s within %gs%s", o->target,
                    (double)o->timeout_ns / (double)NS_PER_S, o->retries ? ", nor when asked again" : "");
}

/* Why net-snmp could not open a session. */
static int explain(const struct snmp_sensor *o, int code, struct diag *why)
{
    if (code == SNMPERR_TIMEOUT)
        return no_answer(o, why);
    if (code == SNMPERR_BAD_ADDRESS || code == SNMPERR_GENERR || code == SNMPERR_SUCCESS)
        return diag_set(why, -EADDRNOTAVAIL, 0, "%s: no such host", o->target);
    return diag_set(why, E_PROTO, 0, "%s: %s", o->target, snmp_api_errstring(code));
}

/* By IPv4, else by IPv6. The transport is always said, so that a target like `unix:...` is a host's name. */
static int open_session(const struct snmp_sensor *o, netsnmp_session *s, void **out, struct diag *why)
{
    static const char *const transports[] = {"udp:", "udp6:"};
    struct strbuf peer = {0};
    int code = SNMPERR_BAD_ADDRESS;
    void *handle = NULL;
    for (size_t i = o->target[0] == '['; i < 2 && !handle && code != SNMPERR_TIMEOUT; i++) {
        strbuf_reset(&peer);
        strbuf_add_str(&peer, transports[i]);
        strbuf_add_str(&peer, o->target);
        if (strbuf_failed(&peer)) {
            code = SNMPERR_MALLOC;
            break;
        }
        s->peername = peer.p;
        handle = snmp_sess_open(s);
        code = s->s_snmp_errno;
    }
    strbuf_fini(&peer);
    if (!handle)
        return explain(o, code, why);
    *out = handle;
    return 0;
}

int snmp_link_open(const struct snmp_sensor *options, struct snmp_link **out, struct diag *why)
{
    struct secret community = {0};
    netsnmp_session s;
    void *handle = NULL;
    start_library();
    snmp_sess_init(&s);
    s.timeout = (long)(options->timeout_ns / 1000);
    s.retries = (int)options->retries;
    int r =
        strcmp(options->version, "3") == 0 ? use_v3(options, &s, why) : use_v2c(options, &s, &community, why);
    if (r == 0)
        r = open_session(options, &s, &handle, why);
    explicit_bzero(s.securityAuthKey, sizeof s.securityAuthKey); /* net-snmp has copied all it needs */
    explicit_bzero(s.securityPrivKey, sizeof s.securityPrivKey);
    secret_wipe(&community);
    if (r < 0)
        return r;
    struct snmp_link *l = mem_alloc(sizeof *l);
    *l = (struct snmp_link){.options = options, .handle = handle, .until_ns = INT64_MAX};
    *out = l;
    return 0;
}

void snmp_link_close(struct snmp_link *l)
{
    if (!l)
        return;
    (void)snmp_sess_close(l->handle); /* fails for no session only */
    mem_free(l);
}

void snmp_link_begin(struct snmp_link *l, int64_t limit_ns)
{
    l->until_ns = clock_mono_ns() + limit_ns;
}

/* ---------------------------------------------------------------- asking */

static int session_failed(struct snmp_link *l, struct diag *why)
{
    int code = SNMPERR_SUCCESS, system_code = 0;
    char *text = NULL;
    snmp_sess_error(l->handle, &system_code, &code, &text);
    int r = code == SNMPERR_TIMEOUT
                ? no_answer(l->options, why)
                : diag_set(why, E_PROTO, 0, "%s: %s", l->options->target, text ? text : "failed");
    free(text); /* net-snmp's malloc */
    return r;
}

/* Takes pdu. Sends it and waits; the answer, which may say SNMP_ERR_TOOBIG but no other error, is the
 * caller's to free. */
static int ask(struct snmp_link *l, netsnmp_pdu *pdu, netsnmp_pdu **out, struct diag *why)
{
    netsnmp_pdu *answer = NULL;
    if (clock_mono_ns() >= l->until_ns) {
        snmp_free_pdu(pdu);
        return diag_set(why, -ETIMEDOUT, 0, "%s: takes too long to tell all", l->options->target);
    }
    int status = snmp_sess_synch_response(l->handle, pdu, &answer);
    int r = status == STAT_SUCCESS   ? 0
            : status == STAT_TIMEOUT ? no_answer(l->options, why)
                                     : session_failed(l, why);
    if (r == 0 && !answer)
        r = diag_set(why, E_PROTO, 0, "%s: an empty answer", l->options->target);
    if (r == 0 && answer->command != SNMP_MSG_RESPONSE)
        r = diag_set(why, E_PROTO, 0, "%s: refused by a report: is the user known there?",
                     l->options->target);
    if (r == 0 && answer->errstat != SNMP_ERR_NOERROR && answer->errstat != SNMP_ERR_TOOBIG)
        r = diag_set(why, E_PROTO, 0, "%s: %s", l->options->target, snmp_errstring((int)answer->errstat));
    if (r < 0) {
        snmp_free_pdu(answer); /* NULL is fine */
        return r;
    }
    *out = answer;
    return 0;
}

static int no_memory(struct diag *why)
{
    return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
}

static int take_values(struct snmp_link *l, const struct snmp_name *names, size_t n, size_t from,
                       const netsnmp_pdu *answer, snmp_take_fn take, void *arg, struct diag *why)
{
    const netsnmp_variable_list *v = answer->variables;
    for (size_t i = 0; i < n; i++, v = v->next_variable) {
        if (!v || snmp_oid_compare(v->name, v->name_length, names[i].v, names[i].n) != 0)
            return diag_set(why, E_PROTO, 0, "%s: answered another question", l->options->target);
        int r = take(arg, from + i, 0, v);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Names from..from+n. A device that can't answer all at once is asked for the halves: at most 6 levels deep.
 */
static int get_some(struct snmp_link *l, const struct snmp_name *names, size_t from, size_t n,
                    snmp_take_fn take, void *arg, struct diag *why)
{
    netsnmp_pdu *answer, *pdu = snmp_pdu_create(SNMP_MSG_GET);
    if (!pdu)
        return no_memory(why);
    for (size_t i = 0; i < n; i++) {
        if (!snmp_add_null_var(pdu, names[from + i].v, names[from + i].n)) {
            snmp_free_pdu(pdu);
            return no_memory(why);
        }
    }
    int r = ask(l, pdu, &answer, why);
    if (r < 0)
        return r;
    bool is_too_big = answer->errstat == SNMP_ERR_TOOBIG;
    if (!is_too_big)
        r = take_values(l, names + from, n, from, answer, take, arg, why);
    snmp_free_pdu(answer);
    if (!is_too_big)
        return r;
    if (n == 1)
        return diag_set(why, E_PROTO, 0, "%s: a value is too large for its answers", l->options->target);
    r = get_some(l, names, from, n / 2, take, arg, why);
    return r < 0 ? r : get_some(l, names, from + n / 2, n - n / 2, take, arg, why);
}

int snmp_link_get(struct snmp_link *l, const struct snmp_name *names, size_t n, snmp_take_fn take, void *arg,
                  struct diag *why)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i += GET_VALUES)
        r = get_some(l, names, i, n - i < GET_VALUES ? n - i : GET_VALUES, take, arg, why);
    return r;
}

/* ---------------------------------------------------------------- tables */

struct walk {
    struct snmp_link *l;
    const struct snmp_name *table;
    const uint8_t *columns;
    snmp_take_fn take;
    void *arg;
    struct diag *why;
    size_t values;            /* to ask for at a time */
    size_t n_active, n_asked; /* columns that have not ended; those of them that are asked for */
    struct column {
        size_t at; /* of columns */
        uint32_t index;
        bool has_index; /* else the column's beginning */
        bool is_ended;
    } active[SNMP_COLUMNS_MAX];
};

static netsnmp_pdu *make_bulk(struct walk *w)
{
    netsnmp_pdu *pdu = snmp_pdu_create(SNMP_MSG_GETBULK);
    if (!pdu)
        return NULL;
    w->n_asked = w->n_active < w->values ? w->n_active : w->values;
    pdu->non_repeaters = 0;
    pdu->max_repetitions = (long)(w->values / w->n_asked);
    for (size_t i = 0; i < w->n_asked; i++) {
        struct snmp_name name = *w->table;
        name.v[name.n++] = w->columns[w->active[i].at];
        if (w->active[i].has_index)
            name.v[name.n++] = w->active[i].index;
        if (!snmp_add_null_var(pdu, name.v, name.n)) {
            snmp_free_pdu(pdu);
            return NULL;
        }
    }
    return pdu;
}

static int take_cell(struct walk *w, struct column *c, const netsnmp_variable_list *v)
{
    size_t n = w->table->n;
    if (v->type == SNMP_ENDOFMIBVIEW || v->type == SNMP_NOSUCHOBJECT || v->type == SNMP_NOSUCHINSTANCE ||
        v->name_length <= n || memcmp(v->name, w->table->v, n * sizeof(oid)) != 0 ||
        v->name[n] != w->columns[c->at]) {
        c->is_ended = true;
        return 0;
    }
    if (v->name_length != n + 2)
        return diag_set(w->why, E_PROTO, 0, "%s: a table whose rows are not numbered", w->l->options->target);
    uint32_t index = (uint32_t)v->name[n + 1];
    if (c->has_index && index <= c->index)
        return diag_set(w->why, E_PROTO, 0, "%s: its OIDs do not ascend", w->l->options->target);
    c->has_index = true;
    c->index = index;
    return w->take(w->arg, c->at, index, v);
}

static int take_rows(struct walk *w, const netsnmp_pdu *answer)
{
    size_t i = 0, left = 0;
    int r = 0;
    if (!answer->variables)
        return diag_set(w->why, E_PROTO, 0, "%s: an empty answer", w->l->options->target);
    for (const netsnmp_variable_list *v = answer->variables; v && r == 0; v = v->next_variable, i++) {
        struct column *c = &w->active[i % w->n_asked];
        if (!c->is_ended)
            r = take_cell(w, c, v);
    }
    for (i = 0; i < w->n_active; i++)
        if (!w->active[i].is_ended)
            w->active[left++] = w->active[i];
    w->n_active = left;
    return r;
}

/* One question and its answer: each gets a column on, ends one, asks for less, or fails. */
static int walk_on(struct walk *w)
{
    netsnmp_pdu *answer, *pdu = make_bulk(w);
    if (!pdu)
        return no_memory(w->why);
    int r = ask(w->l, pdu, &answer, w->why);
    if (r < 0)
        return r;
    if (answer->errstat == SNMP_ERR_NOERROR)
        r = take_rows(w, answer);
    else if (w->values > 1)
        w->values /= 2;
    else
        r = diag_set(w->why, E_PROTO, 0, "%s: a value is too large for its answers", w->l->options->target);
    snmp_free_pdu(answer);
    return r;
}

int snmp_link_walk(struct snmp_link *l, const struct snmp_name *table, const uint8_t *columns, size_t n,
                   snmp_take_fn take, void *arg, struct diag *why)
{
    struct walk w = {.l = l,
                     .table = table,
                     .columns = columns,
                     .take = take,
                     .arg = arg,
                     .why = why,
                     .values = BULK_VALUES,
                     .n_active = n};
    int r = 0;
    assert(n <= SNMP_COLUMNS_MAX && table->n + 2 <= MAX_OID_LEN);
    for (size_t i = 0; i < n; i++)
        w.active[i] = (struct column){.at = i};
    while (w.n_active && r == 0)
        r = walk_on(&w);
    return r;
}
