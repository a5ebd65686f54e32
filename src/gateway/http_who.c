/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a request is for us, and who asks: by a token (the owner's, a session's, one of the configuration),
 * a certificate, or an address. */
#include "gateway/http_internal.h"

#include "base/clock.h"
#include "gateway/http_host.h"

#include <event2/keyvalq_struct.h>
#include <sys/queue.h>

static bool is_over(const struct access_identity *who)
{
    return who->not_after_ns && who->not_after_ns < clock_utc_ns();
}

static size_t count_headers(const struct evkeyvalq *headers, const char *name)
{
    size_t n = 0;
    const struct evkeyval *one;
    TAILQ_FOREACH(one, headers, next)
    n += evutil_ascii_strcasecmp(one->key, name) == 0;
    return n;
}

/* A link to our page may be on any page: it shows nothing but what is ours, and not in a frame of others. */
static bool is_link(const struct http_request *r, const struct http_route *route)
{
    return route && (route->methods & HTTP_ANYBODY) && !slice_starts(r->path, SLICE_LIT("/api/")) &&
           slice_eq_str(http_header(r, "Sec-Fetch-Mode"), "navigate") &&
           slice_eq_str(http_header(r, "Sec-Fetch-Dest"), "document");
}

/* false: refused, and said so. */
bool request_is_for_us(struct http_request *r, const struct http_route *route)
{
    const struct http *h = r->http;
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(r->evhttp);
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r->evhttp);
    const char *names[] = {h->host, h->options.names, h->tls ? tls_server_name(h->tls) : NULL};
    struct slice host = http_header(r, "Host"), site = http_header(r, "Sec-Fetch-Site");
    if (evhttp_uri_get_scheme(uri) || evhttp_uri_get_host(uri) || count_headers(headers, "Host") != 1) {
        http_problem(r, 400, "a request names its host once, in the header Host; this is no proxy");
        return false;
    }
    if (!http_host_is_ours(host, names, sizeof names / sizeof *names)) {
        http_problem(
            r, 421,
            "this gateway does not have the name in the header Host; use its own name or address, or add "
            "the name to http_names in its configuration");
        return false;
    }
    bool is_ours = !slice_eq_str(site, "cross-site") && !slice_eq_str(site, "same-site");
    if (http_origin_is_ours(http_header(r, "Origin"), host) && (is_ours || is_link(r, route)))
        return true;
    http_problem(r, 403, "a page of another site asks; only pages of this gateway may, and programs");
    return false;
}

/* Forms of other pages, which browsers of old send with cookies, have one of these types: what comes with a
 * cookie and changes something has another. false: answered. */
bool request_is_no_form(struct http_request *r)
{
    static const char *const types[] = {"application/x-www-form-urlencoded", "multipart/form-data",
                                        "text/plain"};
    struct slice type = http_header(r, "Content-Type");
    bool is_form = type.n == 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        is_form = is_form || (type.n >= strlen(types[i]) &&
                              slice_eq_nocase(slice_of(type.p, strlen(types[i])), slice_str(types[i])));
    if (r->method != HTTP_POST || !r->has_cookie || !is_form)
        return true;
    http_problem(r, 415, "a browser sends this as application/json, or another type that no form has");
    return false;
}

/* Who asks. false: a token that is nobody's, or the like; said so. */
bool request_identify(struct http_request *r, const struct http_route *route)
{
    struct slice token;
    r->has_cookie = http_header(r, "Authorization").n == 0;
    int found = http_token_find(http_header(r, "Authorization"), http_header(r, "Cookie"), &token);
    int known = connection_identify(r->connection, &r->identity);
    if (known < 0 || is_over(&r->identity)) {
        http_problem(r, 401, "the certificate %s; renew it with `gridline join`",
                     known < 0 ? "is not one of this site's" : "has expired");
        return false;
    }
    r->has_cookie = r->has_cookie && found == 0;
    if (found == E_NODATA)
        return true;
    if (found == 0 && http_token_same(token, slice_str(r->http->token))) {
        r->identity = (struct access_identity){
            .kind = ACCESS_OWNER, .uid = UINT32_MAX, .table = r->options->access, .interface = "http"};
        return true;
    }
    struct access_identity who;
    if (found == 0 && sign_in_find(r->http->sign_in, token, clock_mono_ns(), &who) == 0 && !is_over(&who)) {
        r->identity = who;
        r->has_session = true;
        memcpy(r->session, token.p, HTTP_TOKEN_TEXT); /* that long, as it was found */
        return true;
    }
    if (found == 0 && access_by_token(r->options->access, token, &r->identity) == 0) {
        r->identity.interface = "http";
        return true;
    }
    if (route && (route->methods & HTTP_ANYBODY))
        return true;
    http_problem(r, 401, "the token is not known here; the owner's is in the file http.token of the gateway");
    return false;
}

bool http_is_current(const struct http_request *r)
{
    struct access_identity who;
    return !is_over(&r->identity) && (!r->has_session || sign_in_find(r->http->sign_in, slice_str(r->session),
                                                                      clock_mono_ns(), &who) == 0);
}

const struct access_identity *http_without_token(struct http_request *r)
{
    (void)connection_identify(r->connection, &r->identity); /* it was good when the request came */
    return &r->identity;
}
