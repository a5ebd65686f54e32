/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - one request by libcurl, for mail and webhook: within the run's time, called off when the run
 * is, certificates checked, no redirection followed, its answer bounded, and its end as one of our codes. */
#ifndef GRIDLINE_ACTUATOR_TRANSFER_H
#define GRIDLINE_ACTUATOR_TRANSFER_H

#include "actuator/actuator.h"

#include <curl/curl.h>

struct transfer {
    CURL *curl; /* for further options, by TRANSFER_SET */
    CURLcode code;
    const struct actuator_env *env;
    struct strbuf *output; /* what the server sent, the first ACTUATOR_OUTPUT_MAX bytes */
    char message[CURL_ERROR_SIZE];
};

/* Further options: the first that fails is remembered. */
#define TRANSFER_SET(t, option, value) \
    ((t)->code = (t)->code == CURLE_OK ? curl_easy_setopt((t)->curl, option, value) : (t)->code)

/* ca_file NULL: the system's certificates. env, output and texts are borrowed until transfer_close.
 * transfer_close in any case. -ENOMEM, -ETIMEDOUT. */
int transfer_open(struct transfer *t, const struct actuator_env *env, const char *url, const char *protocols,
                  const char *ca_file, struct strbuf *output);
/* 0; -EAGAIN: no connection, or the server says later; -ETIMEDOUT; -ECANCELED; -EACCES: the server does not
 * let us in, or is not who it should be; -EREMOTEIO. *why says it. */
int transfer_run(struct transfer *t, struct diag *why);
void transfer_close(struct transfer *t);

/* Is the server of this address this host, by its name? Nobody listens in on what goes there. */
bool transfer_is_local(const char *url);
/* scheme://host:port alone: paths and queries of addresses may be secrets. Cut to fit out. */
void transfer_site(const char *url, char *out, size_t size);

#endif
