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
void api_sql(struct http_request *r);     /* a query */
void api_tile(struct http_request *r);    /* a piece of a picture */
void api_metrics(struct http_request *r); /* OpenMetrics */
void api_livez(struct http_request *r);
void api_readyz(struct http_request *r);
void api_openapi(struct http_request *r);
void api_rpc(struct http_request *r); /* XML-RPC */

/* What of some formats is asked for: by the parameter `format`, which is taken out of the query, else by the
 * header Accept, else the first. -1: none of them; the problem was said. */
struct api_format {
    const char *name;
    const char *mime;
};
int api_choose_format(struct http_request *r, const struct api_format *formats, size_t n);

/* What a query (event/query.h) that failed says. */
void api_query_problem(struct http_request *r, int error, const struct diag *why);

/* api_publish.c */
void api_publish(struct http_request *r);

/* docs/openapi.json (made by the build). */
extern const char api_openapi_text[];
extern const size_t api_openapi_size;

#endif
