/* SPDX-License-Identifier: Apache-2.0 */
/* remote_config.h - the configuration's document from config_url, asked for every config_every_ns.
 *
 * The agent itself speaks no HTTP: each question is a gridline-helper (helper/fetch.h) that gets the
 * document, checks the signature with config_ca, and ends. Nothing waits for it; it is killed when it takes
 * longer than REMOTE_CONFIG_TIMEOUT. While the document can't be had it is asked for sooner: after
 * REMOTE_CONFIG_RETRY, then twice that, and so on up to config_every_ns. A document is given to the callback
 * when it, or whether it is signed, has changed since the last one given; a failure when it is another than
 * the last. */
#ifndef GRIDLINE_AGENT_REMOTE_CONFIG_H
#define GRIDLINE_AGENT_REMOTE_CONFIG_H

#include "agent/config.h"

#include <event2/event.h>

#define REMOTE_CONFIG_TIMEOUT (INT64_C(30) * 1000 * 1000 * 1000) /* ns */
#define REMOTE_CONFIG_RETRY   (INT64_C(5) * 1000 * 1000 * 1000)

/* Borrowed for the call. */
struct remote_document {
    const char *url; /* without user and password, for messages */
    int error;       /* < 0: there is none, and why says what happened */
    const char *why;
    struct slice text;
    bool is_signed; /* by config_ca: it may name programs */
};

typedef void (*remote_document_fn)(void *arg, const struct remote_document *d);

struct remote_config;

/* Takes what it needs from config; base and arg are borrowed. The first question is due at once. fn is called
 * from remote_config_pump and from the loop. -EINVAL: config_url is not http:// or https://. */
int remote_config_create(struct event_base *base, const struct agent_config *config, remote_document_fn fn,
                         void *arg, struct remote_config **out, struct diag *why);
void remote_config_destroy(struct remote_config *r); /* NULL is fine */

/* The next question is due now, and its answer is given whether it is a new one or not. */
void remote_config_ask(struct remote_config *r);
/* When remote_config_pump wants to be called (monotonic). */
int64_t remote_config_next_ns(const struct remote_config *r);
void remote_config_pump(struct remote_config *r, int64_t now_ns);

#endif
