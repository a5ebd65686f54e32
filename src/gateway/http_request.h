/* SPDX-License-Identifier: Apache-2.0 */
/* http_request.h - a request as the endpoints (api*.c) see it, and how they answer.
 *
 * An endpoint answers before it returns, by http_reply or http_problem; or later, or piece by piece: then it
 * sets `gone`, which is called once, when the answer has ended or the client has left, and frees what is the
 * endpoint's. After the answer has ended the request is no more. Nothing here calls back into the endpoint
 * but `gone`, and `drained` from the loop. */
#ifndef GRIDLINE_GATEWAY_HTTP_REQUEST_H
#define GRIDLINE_GATEWAY_HTTP_REQUEST_H

#include "gateway/http.h"
#include "gateway/http_query.h"
#include "gateway/sign_in.h"

#include <event2/buffer.h>

struct evhttp_request;
struct http_connection;

enum { HTTP_ANYBODY = 128 };
enum http_method {
    HTTP_GET = 1,
    HTTP_POST = 2,
    HTTP_DELETE = 4
}; /* HEAD is a GET without a body in its answer */

struct http_request {
    struct http *http;
    const struct http_options *options;
    const struct access_identity *who;
    uint64_t id;
    enum http_method method;
    bool is_head;
    const char *peer;        /* address and port, for lists */
    struct slice path;       /* without the query */
    struct http_query query; /* the endpoint's to change */
    struct slice body;       /* all of it, contiguous */
    const struct http_route *route;

    /* The endpoint's: */
    void *state;
    void (*gone)(struct http_request *r);
    void (*drained)(
        struct http_request *r); /* what waits is HTTP_OUTPUT_LOW bytes or less again; NULL = no matter */

    /* The server's own: */
    struct access_identity identity;
    struct http_connection *connection;
    struct evhttp_request *evhttp;
    struct event *wake; /* calls drained; NULL until it is needed */
    int64_t began_ns;
    uint16_t status;
    bool is_started; /* head sent, pieces follow */
    bool is_ending;  /* wake ends it */
    bool is_stream;
    bool has_cookie;  /* it is who it is by a cookie: a browser's */
    bool has_session; /* which is one of sign_in.h */
    char session[HTTP_TOKEN_TEXT + 1];
};

/* methods: one or more; an endpoint that takes several tells them apart itself. With HTTP_ANYBODY also who
 * has a token that is nobody's is served: as one without. */
struct http_route {
    const char *path;
    unsigned methods;
    void (*run)(struct http_request *r);
    const char *verb; /* of control.h, for the endpoints that ask one question */
};
extern const struct http_route api_routes[]; /* the last has no path */

/* The text of a header; "" = there is none. Borrowed from the request. */
struct slice http_header(const struct http_request *r, const char *name);
/* Before an answer begins. The value has no line ends in it. */
void http_set_header(struct http_request *r, const char *name, const char *value);

/* Whether the client takes answers that are packed by gzip (Accept-Encoding). */
bool http_takes_gzip(const struct http_request *r);
/* etag in quotes. Of one that is packed it is a weak one: the same in other bytes. */
void http_set_etag(struct http_request *r, const char *etag, bool is_packed);
/* Is it, weak or not, among those that the client has (If-None-Match)? */
bool http_has_etag(const struct http_request *r, const char *etag);

/* The whole answer. body may be the caller's strbuf: it is copied. */
void http_reply(struct http_request *r, int status, const char *type, struct slice body);
/* The same with status 200, packed where the client takes that, it pays, and it does not hold up the loop:
 * HTTP_PACK_MIN to HTTP_PACK_MAX bytes. etag: in quotes; NULL = none. */
void http_reply_packed(struct http_request *r, const char *type, const char *etag, struct slice body);
/* The answer that says what is wrong (RFC 9457): a JSON object with status, title, detail (from format: what,
 * and what next) and instance (where). */
void http_problem(struct http_request *r, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for what a control question, a subscription or a parser says. */
void http_problem_control(struct http_request *r, uint16_t status, struct slice text);
void http_problem_error(struct http_request *r, int error, const struct diag *why);

/* An answer in pieces. http_send and http_send_buffer do nothing for HEAD. */
void http_start(struct http_request *r, int status, const char *type);
void http_send(struct http_request *r, struct slice piece);            /* copied */
void http_send_buffer(struct http_request *r, struct evbuffer *piece); /* what is in it is moved out */
void http_end(struct http_request *r);
/* Ends the connection instead: the client sees that the answer is cut off. */
void http_abort(struct http_request *r);
/* Bytes that wait for the client. */
size_t http_waiting(const struct http_request *r);
/* From now on it is noticed when the client leaves, although nothing has been sent yet: for an answer that is
 * long in coming. A client that only closes its own side has left, too. */
void http_watch(struct http_request *r);
/* Ends it from the loop, after what runs now: for what must not end within a call. */
void http_end_soon(struct http_request *r);

/* One of HTTP_STREAMS_MAX, whose time is not limited. false: there are too many; the problem was said. */
bool http_be_stream(struct http_request *r);
struct http_counts *http_count(struct http *h);
/* What metrics.c remembers. */
struct http_sums {
    int64_t at_ns; /* monotonic */
    uint64_t ledger[2][9];
};
struct http_sums *http_sums(struct http *h);

/* A test of a rule begins, of which there is one at a time: false, there is one. And has ended. */
bool http_test_begins(struct http *h);
void http_test_ended(struct http *h);
struct sign_in *http_sign_in(struct http *h);
/* Somebody signed in or out: over a restart, too. */
void http_keep_sessions(struct http *h);
bool http_is_secure(const struct http_request *r); /* it came by TLS */
/* Is who asked still who that is? For streams: a session or a certificate may end meanwhile. */
bool http_is_current(const struct http_request *r);
/* Who it is from now on: whom the connection alone says. */
const struct access_identity *http_without_token(struct http_request *r);

/* HTTP status of enum control_status. */
int http_status_of(uint16_t control_status);

#endif
