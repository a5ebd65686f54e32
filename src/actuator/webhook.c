/* SPDX-License-Identifier: Apache-2.0 */
/* webhook: one HTTP request. What is sent is JSON: all data as an object of texts, or `body`, a template in
 * which values are escaped as inside a JSON string, so that no value can end its quotes; or any `text`, as it
 * is. The run's name goes along as Idempotency-Key: a server that looks for it does a repeated request once.
 *
 * 2xx is done; 408, 429 and 5xx mean later (-EAGAIN); everything else has failed. Redirections are not
 * followed: what may be sent where is configured here. */
#include "actuator/actuator.h"
#include "actuator/escape.h"
#include "actuator/quote.h"
#include "actuator/transfer.h"
#include "base/secret.h"
#include "base/text.h"

#include <errno.h>

enum { HEADER_MAX = 4096 }; /* bytes of a value */

struct webhook {
    const char *url, *url_file, *method, *body, *text, *content_type, *token_file, *ca_file;
    struct parameter_list headers;
};

static const struct parameter webhook_options[] = {
    {SETTING_STRING, "url", NULL, offsetof(struct webhook, url), "`https://HOST/PATH` to send to",
     .is_program = true},
    {SETTING_STRING, "url_file", NULL, offsetof(struct webhook, url_file),
     "in place of `url`: file whose first line it is, for addresses that are secrets; only for its owner",
     .is_program = true},
    {SETTING_STRING, "body", NULL, offsetof(struct webhook, body),
     "JSON to send; values are put in as inside of quotes: `{{\"text\": \"{summary}\"}`; without it and "
     "`text`: an object of all data",
     .is_program = false},
    {SETTING_STRING, "text", NULL, offsetof(struct webhook, text), "in place of `body`: any text, as it is",
     .is_program = false},
    {SETTING_STRING, "content_type", NULL, offsetof(struct webhook, content_type),
     "what it is; without it `application/json`, of `text`: `text/plain; charset=utf-8`", .is_program = true},
    {SETTING_STRING, "method", "POST", offsetof(struct webhook, method), "`POST`, `PUT` or another",
     .is_program = true},
    {SETTING_LIST, "header", NULL, offsetof(struct webhook, headers),
     "further headers, `Name: value`; control characters in a value become blanks", .is_program = false},
    {SETTING_STRING, "token_file", NULL, offsetof(struct webhook, token_file),
     "file whose first line is sent as `Authorization: Bearer`; only for its owner", .is_program = true},
    {SETTING_STRING, "ca_file", NULL, offsetof(struct webhook, ca_file),
     "certificates to trust, PEM; without it: the system's", .is_program = true},
    {0},
};

static actuator_escape webhook_escape(const char *option)
{
    return strcmp(option, "body") == 0 ? escape_json : NULL;
}

/* Header and token, as libcurl sends them. */
struct request {
    struct secret url, token;
    struct strbuf body;
    struct curl_slist *headers;
};

static void request_fini(struct request *q)
{
    secret_wipe(&q->url);
    secret_wipe(&q->token);
    strbuf_fini(&q->body);
    curl_slist_free_all(q->headers);
}

static void make_object(const struct actuator_env *env, struct strbuf *out)
{
    strbuf_add_char(out, '{');
    for (size_t i = 0; i < env->n_data; i++) {
        strbuf_add_str(out, i ? ",\"" : "\"");
        escape_json(out, env->data[i].name);
        strbuf_add_str(out, "\":\"");
        escape_json(out, env->data[i].value);
        strbuf_add_char(out, '"');
    }
    strbuf_add_char(out, '}');
}

static void make_body(const struct webhook *w, const struct actuator_env *env, struct strbuf *out)
{
    if (w->body || w->text)
        strbuf_add_str(out, w->body ? w->body : w->text);
    else
        make_object(env, out);
}

/* Servers refuse a request with more in one header than they have room for, often 8 KiB: what is longer is
 * cut. */
static int add_header(struct request *q, const char *name, struct slice value)
{
    if (value.n > HEADER_MAX)
        value.n = HEADER_MAX;
    struct strbuf line = {0};
    strbuf_printf(&line, "%s:%s", name, value.n && value.p[0] == ' ' ? "" : " ");
    escape_line(&line, value);
    struct curl_slist *longer = strbuf_failed(&line) ? NULL : curl_slist_append(q->headers, line.p);
    if (line.p)
        explicit_bzero(line.p, line.n); /* it may be the token */
    strbuf_fini(&line);
    if (!longer)
        return -ENOMEM;
    q->headers = longer;
    return 0;
}

/* A header's name, up to the colon: letters, digits and signs (RFC 9110, "token"). */
static size_t header_name(const char *header)
{
    size_t n = strcspn(header, ":");
    for (size_t i = 0; i < n; i++) {
        char c = slice_lower(header[i]);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && !strchr("!#$%&'*+-.^_`|~", c))
            return 0;
    }
    return header[n] == ':' ? n : 0;
}

static int add_given_header(struct request *q, const char *header)
{
    char name[100];
    size_t n = header_name(header);
    (void)snprintf(name, sizeof name, "%.*s", (int)n, header); /* check has looked at its length */
    return add_header(q, name, slice_str(header + n + 1));
}

static int add_headers(const struct webhook *w, const struct actuator_env *env, struct request *q)
{
    const char *type = w->text ? "text/plain; charset=utf-8" : "application/json";
    int r = add_header(q, "Content-Type", slice_str(w->content_type ? w->content_type : type));
    if (r == 0)
        r = add_header(q, "Idempotency-Key", slice_str(env->attempt));
    if (r == 0)
        r = add_header(q, "User-Agent", SLICE_LIT("gridline"));
    for (size_t i = 0; i < w->headers.n && r == 0; i++)
        r = add_given_header(q, w->headers.v[i]);
    return r;
}

static int check_url(const char *url, struct diag *why)
{
    if (strncasecmp(url, "https://", 8) != 0 && strncasecmp(url, "http://", 7) != 0)
        return diag_set(why, -EINVAL, 0, "webhook: the address does not begin with https:// or http://");
    return text_has_control(slice_str(url))
               ? diag_set(why, -EINVAL, 0, "webhook: the address has control characters")
               : 0;
}

static int check(const struct webhook *w, struct diag *why)
{
    if (!w->url == !w->url_file)
        return diag_set(why, -EINVAL, 0, "webhook: give `url` or `url_file`");
    if (w->body && w->text)
        return diag_set(why, -EINVAL, 0, "webhook: give `body` or `text`, not both");
    if (!w->method[0] || strspn(w->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(w->method))
        return diag_set(why, -EINVAL, 0, "webhook: \"%.40s\" is not a method of HTTP", w->method);
    for (size_t i = 0; i < w->headers.n; i++) {
        size_t n = header_name(w->headers.v[i]);
        if (n == 0 || n > 80)
            return diag_set(why, -EINVAL, 0, "webhook: \"%.60s\" is not a header: write `Name: value`",
                            w->headers.v[i]);
    }
    return w->url ? check_url(w->url, why) : 0;
}

static int webhook_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct webhook *w = state;
    struct request q = {0};
    int r = check(w, why);
    if (r == 0)
        r = add_headers(w, env, &q);
    if (r == 0) {
        strbuf_printf(out, "%s %s%s\n", w->method, w->url ? w->url : "the address in ",
                      w->url ? "" : w->url_file);
        for (struct curl_slist *h = q.headers; h; h = h->next)
            strbuf_printf(out, "%s\n", h->data);
        if (w->token_file)
            strbuf_printf(out, "Authorization: Bearer (the first line of %s)\n", w->token_file);
        make_body(w, env, &q.body);
        strbuf_add_str(out, "\nbody ");
        quote_word(out, strbuf_slice(&q.body));
        strbuf_add_char(out, '\n');
        r = strbuf_failed(&q.body) ? -ENOMEM : 0;
    }
    request_fini(&q);
    return r;
}

static int make_request(const struct webhook *w, const struct actuator_env *env, struct request *q,
                        struct diag *why)
{
    struct strbuf bearer = {0};
    int r = check(w, why);
    if (r == 0 && w->url_file)
        r = secret_read(w->url_file, &q->url, why);
    if (r == 0 && w->url_file)
        r = check_url(q->url.text, why);
    if (r == 0 && w->token_file)
        r = secret_read(w->token_file, &q->token, why);
    if (r == 0)
        r = add_headers(w, env, q);
    if (r == 0 && w->token_file) {
        strbuf_printf(&bearer, "Bearer %s", q->token.text);
        r = strbuf_failed(&bearer) ? -ENOMEM : add_header(q, "Authorization", strbuf_slice(&bearer));
        if (bearer.p)
            explicit_bzero(bearer.p, bearer.n);
        strbuf_fini(&bearer);
    }
    make_body(w, env, &q->body);
    return r == 0 && strbuf_failed(&q->body) ? -ENOMEM : r;
}

static int judge(long status, struct diag *why)
{
    if (status / 100 == 2)
        return 0;
    bool is_later = status == 408 || status == 429 || status / 100 == 5;
    return diag_set(why, is_later ? -EAGAIN : -EREMOTEIO, 0, "it answered %ld%s", status,
                    status / 100 == 3 ? "; redirections are not followed: give the right address" : "");
}

static int transmit(const struct webhook *w, const struct actuator_env *env, const char *url,
                    struct request *q, struct strbuf *output, long *status, struct diag *why)
{
    struct transfer t;
    int r = transfer_open(&t, env, url, "http,https", w->ca_file, output);
    if (r == 0) {
        TRANSFER_SET(&t, CURLOPT_CUSTOMREQUEST, w->method);
        TRANSFER_SET(&t, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.n);
        TRANSFER_SET(&t, CURLOPT_POSTFIELDS, q->body.n ? q->body.p : "");
        TRANSFER_SET(&t, CURLOPT_HTTPHEADER, q->headers);
        r = transfer_run(&t, why);
    }
    if (r == 0 && curl_easy_getinfo(t.curl, CURLINFO_RESPONSE_CODE, status) != CURLE_OK)
        r = -EREMOTEIO;
    transfer_close(&t);
    return r == 0 ? judge(*status, why) : r;
}

static int webhook_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct webhook *w = state;
    struct request q = {0};
    struct diag why = {0};
    char site[120] = "";
    long status = 0;
    int r = make_request(w, env, &q, &why);
    if (r == 0) {
        const char *url = w->url ? w->url : q.url.text;
        transfer_site(url, site, sizeof site);
        r = transmit(w, env, url, &q, &report->output, &status, &why);
    }
    if (r == 0)
        strbuf_printf(&report->text, "%s to %s: %ld", w->method, site, status);
    else
        strbuf_printf(&report->text, "%s%s%s%s: %s", w->method, site[0] ? " to " : "", site,
                      status ? "" : " failed", why.message[0] ? why.message : err_text(r));
    request_fini(&q);
    return r;
}

const struct actuator_ops actuator_webhook = {
    .name = "webhook",
    .summary = "an HTTP request with all data as JSON, or a text of yours",
    .options = webhook_options,
    .is_groupable = true,
    .state_size = sizeof(struct webhook),
    .escape = webhook_escape,
    .plan = webhook_plan,
    .run = webhook_run,
};
