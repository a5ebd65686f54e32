/* SPDX-License-Identifier: Apache-2.0 */
#include "actuator/transfer.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* curl_easy_init says it again, if it failed */
}

/* What does not fit is read and left out: the server is not to see an error for having said much. */
static size_t on_output(char *p, size_t size, size_t n, void *arg)
{
    struct strbuf *out = ((struct transfer *)arg)->output;
    size_t room = out->n < ACTUATOR_OUTPUT_MAX ? ACTUATOR_OUTPUT_MAX - out->n : 0;
    strbuf_add(out, p, size * n < room ? size * n : room);
    return size * n;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct actuator_env *env = ((struct transfer *)arg)->env;
    (void)a, (void)b, (void)c, (void)d;
    return env->is_cancelled && env->is_cancelled(env->arg);
}

int transfer_open(struct transfer *t, const struct actuator_env *env, const char *url, const char *protocols,
                  const char *ca_file, struct strbuf *output)
{
    int64_t left_ms = (env->deadline_ns - clock_mono_ns()) / 1000000;
    *t = (struct transfer){.env = env, .output = output};
    (void)pthread_once(&once, init_curl); /* can't fail with a good once */
    if (left_ms <= 0)
        return -ETIMEDOUT;
    t->curl = curl_easy_init();
    if (!t->curl)
        return -ENOMEM;
    TRANSFER_SET(t, CURLOPT_URL, url);
    TRANSFER_SET(t, CURLOPT_PROTOCOLS_STR, protocols);
    TRANSFER_SET(t, CURLOPT_FOLLOWLOCATION, 0L);
    TRANSFER_SET(t, CURLOPT_TIMEOUT_MS, (long)(left_ms < INT32_MAX ? left_ms : INT32_MAX));
    TRANSFER_SET(t, CURLOPT_NOSIGNAL, 1L);
    TRANSFER_SET(t, CURLOPT_ERRORBUFFER, t->message);
    TRANSFER_SET(t, CURLOPT_SSL_VERIFYPEER, 1L);
    TRANSFER_SET(t, CURLOPT_SSL_VERIFYHOST, 2L);
    TRANSFER_SET(t, CURLOPT_WRITEFUNCTION, on_output);
    TRANSFER_SET(t, CURLOPT_WRITEDATA, t);
    TRANSFER_SET(t, CURLOPT_NOPROGRESS, 0L);
    TRANSFER_SET(t, CURLOPT_XFERINFOFUNCTION, on_progress);
    TRANSFER_SET(t, CURLOPT_XFERINFODATA, t);
    if (ca_file)
        TRANSFER_SET(t, CURLOPT_CAINFO, ca_file);
    return 0;
}

static int code_of(const struct transfer *t)
{
    long status = 0;
    switch (t->code) {
    case CURLE_OK:
        return 0;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_ABORTED_BY_CALLBACK:
        return -ECANCELED;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return -EINVAL;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
        return -EAGAIN;
    case CURLE_LOGIN_DENIED:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_USE_SSL_FAILED:
        return -EACCES;
    default: /* what the server said last: 5xx of SMTP is "never", 4xx is "later", as is a lost connection */
        (void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status); /* it stays 0 */
        bool is_lost =
            t->code == CURLE_GOT_NOTHING || t->code == CURLE_SEND_ERROR || t->code == CURLE_RECV_ERROR;
        return status / 100 == 4 || (is_lost && status / 100 != 5) ? -EAGAIN : -EREMOTEIO;
    }
}

int transfer_run(struct transfer *t, struct diag *why)
{
    if (t->code == CURLE_OK)
        t->code = curl_easy_perform(t->curl);
    int r = code_of(t);
    return r == 0 ? 0 : diag_set(why, r, 0, "%s", t->message[0] ? t->message : curl_easy_strerror(t->code));
}

void transfer_close(struct transfer *t)
{
    curl_easy_cleanup(t->curl); /* NULL is fine */
    t->curl = NULL;
}

/* The named part of an address, owned by the caller (curl_free); NULL. */
static char *part_of(const char *url, CURLUPart part)
{
    CURLU *u = curl_url();
    char *text = NULL;
    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK)
        (void)curl_url_get(u, part, &text, 0); /* it stays NULL */
    curl_url_cleanup(u);
    return text;
}

bool transfer_is_local(const char *url)
{
    char *host = part_of(url, CURLUPART_HOST);
    bool is_local = host && (strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
                             (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host)));
    curl_free(host);
    return is_local;
}

void transfer_site(const char *url, char *out, size_t size)
{
    char *scheme = part_of(url, CURLUPART_SCHEME), *host = part_of(url, CURLUPART_HOST),
         *port = part_of(url, CURLUPART_PORT);
    (void)snprintf(out, size, "%s://%s%s%s", scheme ? scheme : "", host ? host : "", port ? ":" : "",
                   port ? port : ""); /* cut to fit */
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
}
