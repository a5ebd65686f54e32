/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - the endpoints of the HTTP server: docs/openapi.json has them for programs, docs/http.md for
 * people. */
#ifndef GRIDLINE_GATEWAY_API_H
#define GRIDLINE_GATEWAY_API_H

#include "gateway/http_request.h"

/* A question to control.h: its verb is the route's, its named values are the query's. */
void api_ask(struct http_request *r);
/* GET: the verbs there are; POST: asks the one of the body. */
void api_control(struct http_request *r);
void api_events(struct http_request *r);  /* GET: a stream; POST: publishes */
void api_watch(struct http_request *r);   /* a stream of what changes in the directory */
void api_live(struct http_request *r);    /* tiles as they change, a stream */
void api_session(struct http_request *r); /* who one is; signing in and out */
void api_sql(struct http_request *r);     /* a query */
void api_tile(struct http_request *r);    /* a piece of a picture */
void api_metrics(struct http_request *r); /* OpenMetrics */
void api_livez(struct http_request *r);
void api_readyz(struct http_request *r);
void api_openapi(struct http_request *r);
void api_rpc(struct http_request *r);    /* XML-RPC */
void api_assets(struct http_request *r); /* the viewer's files */

/* What of some formats is asked for: by the parameter `format`, which is taken out of the query, else by the
 * header Accept, else the first. -1: none of them; the problem was said. */
struct api_format {
    const char *name;
    const char *mime;
};
int api_choose_format(struct http_request *r, const struct api_format *formats, size_t n);

/* HTTP's status of a query (event/query.h) that failed, and what it says. */
int api_query_status(int error);
void api_query_problem(struct http_request *r, int error, const struct diag *why);

/* api_rule_test.c: the verb rule.test of api_control. */
void api_rule_test(struct http_request *r, struct args args);
/* api_publish.c */
void api_publish(struct http_request *r);

/* docs/openapi.json (made by the build). */
extern const char api_openapi_text[];
extern const size_t api_openapi_size;

#endif
