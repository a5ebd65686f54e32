/* SPDX-License-Identifier: Apache-2.0 */
/* http_internal.h - what http*.c share. */
#ifndef GRIDLINE_GATEWAY_HTTP_INTERNAL_H
#define GRIDLINE_GATEWAY_HTTP_INTERNAL_H

#include "gateway/compress.h"
#include "gateway/http_request.h"
#include "gateway/http_token.h"
#include "gateway/sign_in_verb.h"
#include "net/tls.h"

#include "base/log.h"

#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <sys/socket.h>

enum connection_phase {
    PHASE_NEW,       /* nothing has come yet */
    PHASE_READING,   /* a request comes */
    PHASE_ANSWERING, /* it is the endpoint's turn */
    PHASE_WRITING,   /* the answer is complete and on its way */
    PHASE_IDLE       /* between requests */
};

/* evhttp makes and frees its connections itself and tells nobody of those that never send a whole request. So
 * each has a bufferevent of ours, of which a reference is kept: its callbacks are gone when evhttp is done
 * with it. */
struct http_connection {
    struct http *http;
    struct http_connection *next, *previous;
    struct bufferevent *io;
    struct http_request *request; /* being answered; NULL = none */
    struct sockaddr_storage peer;
    bool is_looked_at; /* peer is known, limits were checked */
    bool is_local;
    bool is_tls;
    bool has_close_callback;
    uint8_t phase;    /* enum connection_phase */
    int64_t since_ns; /* the phase, or the last progress in it, monotonic */
    char name[80];    /* "192.0.2.7:40122" */
};

struct http {
    struct http_options options;
    struct evhttp *evhttp;
    struct evconnlistener *listener;
    struct event *look;                   /* at those that are new */
    struct event *sweep;                  /* each second: at the time of all */
    struct tls_server *tls;               /* NULL = plain */
    int64_t tls_again_ns;                 /* when to read the certificate again, utc */
    struct http_connection *first, *last; /* by age */
    struct strbuf address;
    char host[256];                  /* this machine's name */
    char token[HTTP_TOKEN_TEXT + 1]; /* the owner's; "" = none */
    struct http_counts counts;
    struct http_sums sums;
    struct compressor *gzip; /* of answers */
    struct sign_in *sign_in;
    struct sign_in_verb sign_in_verb;
    bool is_forgetful; /* sessions could not be written, and it was said */
    struct strbuf page; /* the address, as people reach it */
    uint64_t next_id;
    bool is_closing;
    bool is_testing; /* a rule */
};

/* http_connection.c */
struct bufferevent *connections_new(struct event_base *base, void *http); /* evhttp's callback */
void connections_look(evutil_socket_t fd, short what, void *http);
void connections_sweep(struct http *h, int64_t now_ns);
void connections_destroy_all(struct http *h); /* after evhttp_free */
struct http_connection *connection_find(struct http *h, const struct evhttp_request *e);
/* evhttp is about to free it. */
void connection_gone(struct http_connection *c);
void connection_close(struct http_connection *c);
void connection_phase(struct http_connection *c, enum connection_phase phase);
/* Of its certificate, or as its address says. E_PROTO: a certificate that names nobody. */
int connection_identify(const struct http_connection *c, struct access_identity *out);
/* http.c: its client has left, or its connection was ended. */
void request_gone(struct http_request *r);
/* The answer was handed over; what is left is evhttp's work. */
void request_complete(struct http_request *r);

/* http_who.c. false: refused, and said so. */
bool request_is_for_us(struct http_request *r, const struct http_route *route);
bool request_identify(struct http_request *r, const struct http_route *route);
bool request_is_no_form(struct http_request *r);

#endif
