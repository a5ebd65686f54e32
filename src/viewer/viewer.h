/* SPDX-License-Identifier: Apache-2.0 */
/* viewer.h - the viewer's files (web/), bundled by the build (script/viewer) and held in the program. What is
 * served of them, to whom and with which headers, is not decided here. */
#ifndef GRIDLINE_VIEWER_VIEWER_H
#define GRIDLINE_VIEWER_VIEWER_H

#include "base/slice.h"

#include <stdbool.h>

struct viewer_asset {
    const char *name; /* index.html, app-HASH.js: there are no folders */
    const char *type; /* media type */
    const char *etag; /* of the content's SHA-256, in quotes */
    struct slice raw;
    struct slice gz;   /* the same packed by gzip; empty where that is not smaller */
    bool is_immutable; /* its name changes with its content */
};

/* The last has no name; a build without a viewer has no other. */
extern const struct viewer_asset viewer_assets[];

/* NULL: there is none of that name. */
const struct viewer_asset *viewer_find(struct slice name);

#endif
