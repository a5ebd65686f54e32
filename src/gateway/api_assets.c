/* SPDX-License-Identifier: Apache-2.0 */
/* GET / and /NAME: the viewer's files. */
#include "gateway/api.h"

/* Nothing but this gateway's own files runs or is asked; no markup is made of text (Trusted Types); nobody
 * puts the page in a frame. */
#define CONTENT_SECURITY                                                                                  \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " \
    "worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "                    \
    "require-trusted-types-for 'script'; trusted-types 'none'"

static void reply(struct http_request *r, const struct http_asset *a)
{
    bool is_packed = a->gz.n && http_takes_gzip(r);
    http_set_header(r, "Vary", "Accept-Encoding");
    http_set_header(r, "Cache-Control", a->is_immutable ? "public, max-age=31536000, immutable" : "no-cache");
    http_set_header(r, "Content-Security-Policy", CONTENT_SECURITY);
    http_set_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    http_set_header(r, "Referrer-Policy", "no-referrer");
    http_set_etag(r, a->etag, is_packed);
    if (http_has_etag(r, a->etag)) {
        http_reply(r, 304, a->type, SLICE_LIT(""));
        return;
    }
    if (is_packed)
        http_set_header(r, "Content-Encoding", "gzip");
    http_reply(r, 200, a->type, is_packed ? a->gz : a->raw);
}

void api_assets(struct http_request *r)
{
    const struct http_assets *assets = r->options->assets;
    struct http_asset found;
    if (assets && assets->find(assets->arg, slice_from(r->path, 1), &found))
        reply(r, &found);
    else
        http_problem(r, 404, "there is nothing here; /api/v1/openapi.json lists what there is");
}
