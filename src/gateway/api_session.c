/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/session: who one is here. GET says it; POST {"key":"..."} signs in by a one-time key (sign_in.h):
 * the answer sets the session's cookie; DELETE signs out. Also for those whose cookie is nobody's any more.
 */
#include "gateway/api.h"

#include "base/clock.h"
#include "event/json.h"
#include "gateway/access_table.h"

#include <errno.h>
#include <stdio.h>

static void set_cookie(struct http_request *r, const char *token, int seconds)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   HTTP_TOKEN_COOKIE "=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s", token, seconds,
                   http_is_secure(r) ? "; Secure" : ""); /* fits */
    http_set_header(r, "Set-Cookie", text);
}

static void put_text(struct strbuf *out, const char *name, struct slice text)
{
    strbuf_printf(out, ",\"%s\":", name);
    json_add_string(out, text);
}

/* What it may do of some host or other; docs/access.md has what else decides. */
static void put_actions(struct strbuf *out, const struct access_identity *who)
{
    bool is_first = true;
    strbuf_add_str(out, ",\"may\":[");
    for (unsigned i = 0; i < ACCESS_ACTIONS; i++) {
        if (!access_allows(who, (enum access_action)i, SLICE_LIT("")))
            continue;
        strbuf_printf(out, "%s\"%s\"", is_first ? "" : ",", access_action_name((enum access_action)i));
        is_first = false;
    }
    strbuf_add_char(out, ']');
}

static void reply(struct http_request *r, const struct access_identity *who, bool is_session)
{
    struct strbuf out = {0};
    char text[ACCESS_NAME_MAX + 32];
    strbuf_printf(&out, "{\"signed_in\":%s", is_session ? "true" : "false");
    put_text(&out, "kind", slice_str(access_kind_name(who->kind)));
    put_text(&out, "name", slice_str(who->name));
    put_text(&out, "who", slice_of(text, access_print(text, sizeof text, who)));
    put_text(&out, "version", slice_str(r->options->version ? r->options->version : ""));
    put_actions(&out, who);
    strbuf_add_str(&out, "}\n");
    if (strbuf_failed(&out))
        http_problem(r, 503, "the gateway is out of memory");
    else
        http_reply(r, 200, "application/json", strbuf_slice(&out));
    strbuf_fini(&out);
}

/* {"key":"..."}; what else is in it is not looked at. */
static int read_key(struct slice body, struct slice *out, struct diag *why)
{
    struct json_reader reader;
    struct json_item item;
    json_init(&reader, body, 4, why);
    int r = json_next(&reader, &item);
    *out = SLICE_LIT("");
    while (r == 0 && item.kind != JSON_END) {
        if (item.kind == JSON_STRING && slice_eq_str(item.key, "key") && !item.escaped)
            *out = item.text;
        r = json_next(&reader, &item);
    }
    return r;
}

static void sign_in(struct http_request *r)
{
    struct slice key;
    struct diag why = {0};
    struct access_identity who;
    char token[HTTP_TOKEN_TEXT + 1];
    if (!slice_starts(http_header(r, "Content-Type"), SLICE_LIT("application/json"))) {
        http_problem(r, 415, "the body is {\"key\":\"...\"}, as application/json");
        return;
    }
    int e = read_key(r->body, &key, &why);
    if (e < 0) {
        http_problem_error(r, e, &why);
        return;
    }
    e = sign_in_take_key(http_sign_in(r->http), key, clock_mono_ns(), token, &who);
    if (e == -EACCES) {
        http_problem(r, 401,
                     "this key is not known: each works once, for ten minutes; `gridline viewer` at the "
                     "gateway's host prints an address with a new one");
        return;
    }
    if (e < 0) {
        http_problem(r, 503, "too many are signed in; try again later");
        return;
    }
    http_keep_sessions(r->http);
    set_cookie(r, token, SIGN_IN_SESSION_S);
    reply(r, &who, true);
}

static void sign_out(struct http_request *r)
{
    struct slice token;
    if (http_token_find(SLICE_LIT(""), http_header(r, "Cookie"), &token) == 0 &&
        sign_in_end(http_sign_in(r->http), token, clock_mono_ns()))
        http_keep_sessions(r->http);
    set_cookie(r, "", 0);
    reply(r, http_without_token(r), false);
}

void api_session(struct http_request *r)
{
    if (r->method == HTTP_POST)
        sign_in(r);
    else if (r->method == HTTP_DELETE)
        sign_out(r);
    else
        reply(r, r->who, r->has_session);
}
