/* SPDX-License-Identifier: Apache-2.0 */
/* http_assets.h - the files of a page that the gateway serves at /, for stages that do not know one: cmd
 * gives the ops (cmd/gateway_viewer.h). What they are is no secret: everybody gets them who may speak to the
 * port; what the page shows it asks of the API, as who looks at it. */
#ifndef GRIDLINE_GATEWAY_HTTP_ASSETS_H
#define GRIDLINE_GATEWAY_HTTP_ASSETS_H

#include "base/slice.h"

#include <stdbool.h>

struct http_asset {
    const char *type; /* media type */
    const char *etag; /* in quotes */
    struct slice raw;
    struct slice gz; /* the same packed by gzip; "" = there is none */
    bool is_immutable;
};

struct http_assets {
    /* name: without a slash; "" is the page. What *out has is borrowed until the next call. */
    bool (*find)(void *arg, struct slice name, struct http_asset *out);
    void *arg;
};

#endif
