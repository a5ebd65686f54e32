/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/fetch.h"

#include "base/text.h"
#include "helper/verify.h"
#include "sensor/wire.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <unistd.h>

enum { ETAG_MAX = 256 };

/* One answer as it comes. */
struct answer {
    struct strbuf body;
    size_t max;
    bool is_too_long;
    char etag[ETAG_MAX]; /* "" = none */
    long status;         /* of HTTP */
};

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
    struct answer *a = arg;
    a->is_too_long = a->body.n + size * n > a->max;
    if (!a->is_too_long)
        strbuf_add(&a->body, p, size * n);
    return a->is_too_long || strbuf_failed(&a->body) ? 0 : size * n;
}

/* A redirection has headers of its own: each answer starts anew. */
static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
    struct answer *a = arg;
    struct slice line = slice_of(p, size * n), name = slice_of(p, line.n < 5 ? line.n : 5);
    if (slice_starts(line, SLICE_LIT("HTTP/")))
        a->etag[0] = '\0';
    if (!slice_eq_nocase(name, SLICE_LIT("etag:")))
        return line.n;
    struct slice value = slice_from(line, 5);
    while (value.n && (value.p[0] == ' ' || value.p[0] == '\t'))
        value = slice_from(value, 1);
    while (value.n && (unsigned char)value.p[value.n - 1] <= ' ')
        value.n--;
    if (value.n < ETAG_MAX && !text_has_control(value))
        (void)snprintf(a->etag, ETAG_MAX, "%.*s", SLICE_ARG(value));
    return line.n;
}

/* The site's own CA, besides those of the system. */
static CURLcode on_tls(CURL *curl, void *context, void *arg)
{
    (void)curl;
    return SSL_CTX_load_verify_file(context, arg) == 1 ? CURLE_OK : CURLE_SSL_CACERT_BADFILE;
}

/* Each of these can only fail for want of memory, but for the address. */
static CURLcode set_options(CURL *c, const struct wire_fetch *f, const char *url, struct answer *a)
{
    bool is_https = strncasecmp(url, "https:", 6) == 0;
    CURLcode r = CURLE_OK;
#define SET(option, value) (r = r == CURLE_OK ? curl_easy_setopt(c, option, value) : r)
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "http,https"); /* never from safe to unsafe */
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, (long)FETCH_REDIRECTS_MAX);
    SET(CURLOPT_TIMEOUT_MS, (long)f->timeout_ms);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "gridline");
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, a);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, a);
    if (f->ca[0] && is_https) {
        SET(CURLOPT_SSL_CTX_FUNCTION, on_tls);
        SET(CURLOPT_SSL_CTX_DATA, (void *)(uintptr_t)f->ca);
    }
#undef SET
    return r;
}

/* One request. etag "" = whatever there is. a->status tells what the server said. */
static int ask(const struct wire_fetch *f, const char *url, const char *etag, struct answer *a,
               struct diag *why)
{
    char header[ETAG_MAX + 32], message[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    CURL *c = curl_easy_init();
    int result = 0;
    if (!c)
        return -ENOMEM;
    CURLcode r = set_options(c, f, url, a);
    if (r == CURLE_OK)
        r = curl_easy_setopt(c, CURLOPT_ERRORBUFFER, message);
    if (etag[0] && r == CURLE_OK) {
        (void)snprintf(header, sizeof header, "If-None-Match: %s", etag);
        headers = curl_slist_append(NULL, header);
        r = headers ? curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers) : CURLE_OUT_OF_MEMORY;
    }
    if (r == CURLE_OK)
        r = curl_easy_perform(c);
    if (r == CURLE_OK)
        r = curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &a->status);
    if (a->is_too_long)
        result = diag_set(why, E_LIMIT, 0, "it is longer than %zu bytes", a->max);
    else if (r == CURLE_OPERATION_TIMEDOUT)
        result = diag_set(why, -ETIMEDOUT, 0, "no whole answer within %u ms", f->timeout_ms);
    else if (r != CURLE_OK)
        result = diag_set(why, -EIO, 0, "%s", message[0] ? message : curl_easy_strerror(r));
    curl_slist_free_all(headers);
    curl_easy_cleanup(c);
    return result;
}

void fetch_signature_url(const char *url, struct strbuf *out)
{
    size_t n = strcspn(url, "?#");
    strbuf_add(out, url, n);
    strbuf_add_str(out, ".sig");
    if (url[n] == '?')
        strbuf_add_str(out, url + n);
}

/* 0 with *is_signed, or why that can't be told or is not so. */
static int check_signature(const struct wire_fetch *f, struct slice document, bool *is_signed,
                           struct diag *why)
{
    struct answer a = {.max = FETCH_SIGNATURE_MAX};
    struct diag reason = {0};
    struct strbuf url = {0};
    fetch_signature_url(f->url, &url);
    int r = strbuf_failed(&url) ? -ENOMEM : ask(f, url.p, "", &a, &reason);
    *is_signed = false;
    if (r < 0)
        (void)diag_set(why, r, 0, "its signature: %s",
                       reason.message[0] ? reason.message : err_text(r)); /* r is returned */
    else if (a.status == 200)
        r = verify_signature(document, strbuf_slice(&a.body), f->ca, why);
    else if (a.status != 404 && a.status != 410)
        r = diag_set(why, -EREMOTEIO, 0, "its signature: the server answered %ld", a.status);
    *is_signed = r == 0 && a.status == 200;
    strbuf_fini(&a.body);
    strbuf_fini(&url);
    return r;
}

static int fetch(const struct wire_fetch *f, struct answer *a, bool *is_signed, struct diag *why)
{
    int r = ask(f, f->url, f->etag, a, why);
    if (r < 0)
        return r;
    if (a->status == 304 && f->etag[0])
        return E_NODATA;
    if (a->status != 200)
        return diag_set(why, -EREMOTEIO, 0, "the server answered %ld", a->status);
    return f->ca[0] ? check_signature(f, strbuf_slice(&a->body), is_signed, why) : 0;
}

/* The one frame, and nothing behind it. */
static int read_request(int in, struct strbuf *bytes, struct frame *f)
{
    int64_t n;
    while ((n = frame_read(strbuf_slice(bytes), FRAME_PAYLOAD_MAX, f)) == 0) {
        char *to = strbuf_room(bytes, 4096);
        ssize_t got = to ? read(in, to, 4096) : -1;
        if (got < 0 && to && errno == EINTR)
            continue;
        if (got <= 0)
            return !to ? -ENOMEM : got < 0 ? -errno : E_PROTO;
        strbuf_advance(bytes, (size_t)got);
    }
    return n < 0 ? (int)n : f->type == WIRE_FETCH ? 0 : E_PROTO;
}

static int write_all(int out, struct slice bytes)
{
    while (bytes.n) {
        ssize_t n = write(out, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR)
            return -errno;
        bytes = slice_from(bytes, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static int answer_request(const struct wire_fetch *f, int out)
{
    struct answer a = {.max = FETCH_DOCUMENT_MAX};
    struct diag why = {0};
    struct strbuf frame = {0};
    bool is_signed = false;
    int status = fetch(f, &a, &is_signed, &why);
    const struct wire_fetched answer = {
        .status = status,
        .is_signed = status == 0 && is_signed,
        .etag = slice_str(status == 0 ? a.etag : ""),
        .why = slice_str(why.message[0] || status == 0 ? why.message : err_text(status)),
        .document = status == 0 ? strbuf_slice(&a.body) : (struct slice){"", 0}};
    int r = wire_put_fetched(&frame, &answer);
    if (r == 0)
        r = write_all(out, strbuf_slice(&frame));
    strbuf_fini(&frame);
    strbuf_fini(&a.body);
    return r;
}

int fetch_serve(int in, int out, struct diag *why)
{
    struct strbuf bytes = {0};
    struct arena arena = {0};
    struct frame frame;
    struct wire_fetch f;
    int r = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -ENOMEM;
    if (r == 0)
        r = read_request(in, &bytes, &frame);
    if (r == 0)
        r = wire_get_fetch(frame.payload, &arena, &f);
    if (r < 0)
        r = diag_set(why, r, 0, "the request can't be read: %s", err_text(r));
    else if ((r = answer_request(&f, out)) < 0)
        r = diag_set(why, r, 0, "the answer can't be written: %s", err_text(r));
    arena_fini(&arena);
    strbuf_fini(&bytes);
    curl_global_cleanup();
    return r;
}
