/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - the gateway's HTTP server (docs/http.md): the API under /api/v1/, /metrics, /livez, /readyz and
 * XML-RPC at /RPC2, by libevent's evhttp on the gateway's loop.
 *
 * Everything that a client can make grow has a limit, and nothing that a client does, or leaves undone, holds
 * up the loop: HTTP_HEADERS_MAX and HTTP_BODY_MAX bytes of a request, HTTP_REQUEST_S seconds to send it,
 * HTTP_CONNECTIONS_MAX connections, HTTP_ADDRESS_MAX of one address, HTTP_STREAMS_MAX of them streams, and
 * HTTP_OUTPUT_HIGH bytes that wait for a client which does not read (plus one piece of a stream); then the
 * subscription's own queue fills and loses its oldest, or the answer waits.
 *
 * Who asks: an address of this host is ACCESS_LOCAL; a certificate is whom it names; a token is its owner.
 * What that may do is access.h's to say. Requests for names that are not ours (Host), or from pages of other
 * sites (Origin), are refused: DNS rebinding and cross-site requests. */
#ifndef GRIDLINE_GATEWAY_HTTP_H
#define GRIDLINE_GATEWAY_HTTP_H

#include "gateway/control.h"
#include "gateway/http_assets.h"
#include "gateway/ingest.h"
#include "gateway/session.h"
#include "gateway/subscription.h"

enum {
    HTTP_HEADERS_MAX = 16 << 10,
    HTTP_BODY_MAX = 1 << 20,
    HTTP_CONNECTIONS_MAX = 512,
    HTTP_ADDRESS_MAX = 32,
    HTTP_STREAMS_MAX = 256,
    HTTP_REQUEST_S = 10, /* from the first byte to the last; and for a reply that nobody reads */
    HTTP_IDLE_S = 30,    /* between requests */
    HTTP_OUTPUT_HIGH = 256 << 10,
    HTTP_OUTPUT_LOW = 64 << 10,
    HTTP_PACK_MIN = 1 << 10, /* bytes of answers that are packed by gzip: some 10 ns a byte, on the loop */
    HTTP_PACK_MAX = 256 << 10
};

/* All borrowed, for life. */
struct http_options {
    struct event_base *base;
    const char *address;    /* http://HOST:PORT or https://HOST:PORT */
    const char *names;      /* of this host, by commas, besides those it knows; NULL = none */
    const char *identity;   /* folder, for https */
    const char *token_file; /* of the owner; NULL or "" = there is none */
    const char
        *sessions_file; /* of who is signed in, over restarts; NULL or "" = they end with the gateway */
    bool is_insecure;   /* other hosts may come without TLS */
    bool has_log;       /* a line for each request */
    struct control *control;
    struct ingest *ingest;
    struct sessions *sessions;
    struct subscriptions *subscriptions;
    const struct query_ops *query; /* NULL: no archive here */
    const struct ledger *ledger;
    const struct access *access;      /* NULL: what is built in */
    const struct http_assets *assets; /* the page at /; NULL = none */
    const char *version;              /* of the program; NULL = not known */
    /* The program that tests rules, which it reads from its input, and its first arguments; ends with NULL.
     * NULL = there is none (api_rule_test.c). */
    const char *const *rule_test;
};

/* Since start, but for the last two. */
struct http_counts {
    uint64_t accepted, turned_away, timed_out;
    uint64_t requests, refused; /* refused: for the Host, the Origin or the token */
    uint64_t replies[6];        /* by the first digit of the status */
    uint64_t events_given, events_lost;
    uint64_t connections, streams; /* now */
};

struct http;
/* Listens. *why says what is wrong. */
int http_create(const struct http_options *o, struct http **out, struct diag *why);
/* Nobody new; streams end. */
void http_shut_down(struct http *h);
void http_destroy(struct http *h); /* NULL is fine; before what the options name */
/* http://127.0.0.1:14831, with the port it got. */
const char *http_address(const struct http *h);
void http_counts(const struct http *h, struct http_counts *out);

#endif
