/* SPDX-License-Identifier: Apache-2.0 */
/* http_query.h - the parameters of a request's address: name=value, by `&`, with %XX and `+` for a space.
 * Pure functions, for anybody's bytes. */
#ifndef GRIDLINE_GATEWAY_HTTP_QUERY_H
#define GRIDLINE_GATEWAY_HTTP_QUERY_H

#include "base/err.h"
#include "base/slice.h"

enum {
    HTTP_URL_MAX = 8192,  /* bytes of path and query together */
    HTTP_PARAMS_MAX = 64, /* parameters */
    HTTP_NAME_MAX = 128   /* bytes of a parameter's name */
};

struct http_param {
    struct slice name, value;
};

struct http_query {
    struct http_param params[HTTP_PARAMS_MAX];
    size_t n;
    char *text; /* what they point to, owned */
};

/* E_PROTO: a bad escape, a value that is not UTF-8 or holds a NUL, a name that is empty, no name
 * (text_is_name) or comes twice; E_LIMIT; -ENOMEM: *why says which. http_query_fini in any case. */
int http_query_parse(struct slice query, struct http_query *out, struct diag *why);
void http_query_fini(struct http_query *q);
/* "" when there is none; *out says the same. */
bool http_query_get(const struct http_query *q, const char *name, struct slice *out);
/* Takes it out of the list: true if it was there. */
bool http_query_take(struct http_query *q, const char *name, struct slice *out);

#endif
