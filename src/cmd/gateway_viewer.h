/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_viewer.h - the files of the viewer, for the gateway's HTTP server: those in the program
 * (viewer/viewer.h), or those of a folder, read for each request. */
#ifndef GRIDLINE_CMD_GATEWAY_VIEWER_H
#define GRIDLINE_CMD_GATEWAY_VIEWER_H

#include "base/err.h"
#include "base/strbuf.h"
#include "gateway/http_assets.h"

struct gateway_viewer {
    struct http_assets ops;
    int folder;         /* -1 = the program's own */
    struct strbuf file; /* what was read last */
    char etag[24];
};

/* dir: "" = the program's own. *why says what is wrong. */
int gateway_viewer_open(struct gateway_viewer *v, const char *dir, struct diag *why);
void gateway_viewer_close(struct gateway_viewer *v); /* also if it was not opened: {.folder = -1} */

#endif
