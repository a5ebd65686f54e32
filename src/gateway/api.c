/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses there are, and the smallest endpoints. */
#include "gateway/api.h"

#include "base/text.h"

const struct http_route api_routes[] = {
    {"/api/v1/access", HTTP_GET, api_ask, "access"},
    {"/api/v1/control", HTTP_GET | HTTP_POST, api_control, NULL},
    {"/api/v1/directory", HTTP_GET, api_ask, "sensors"},
    {"/api/v1/events", HTTP_GET | HTTP_POST, api_events, NULL},
    {"/api/v1/directory/watch", HTTP_GET, api_watch, NULL},
    {"/api/v1/directory/hosts", HTTP_GET, api_ask, "hosts"},
    {"/api/v1/directory/ledger", HTTP_GET, api_ask, "ledger"},
    {"/api/v1/directory/schemas", HTTP_GET, api_ask, "schemas"},
    {"/api/v1/directory/status", HTTP_GET, api_ask, "status"},
    {"/api/v1/directory/subscriptions", HTTP_GET, api_ask, "subscriptions"},
    {"/api/v1/latest", HTTP_GET, api_ask, "latest"},
    {"/api/v1/live", HTTP_GET | HTTP_POST, api_live, NULL},
    {"/api/v1/openapi.json", HTTP_GET, api_openapi, NULL},
    {"/api/v1/session", HTTP_GET | HTTP_POST | HTTP_DELETE | HTTP_ANYBODY, api_session, NULL},
    {"/api/v1/sql", HTTP_GET | HTTP_POST, api_sql, NULL},
    {"/api/v1/tile/{kind}/{name}/{level}/{index}", HTTP_GET, api_tile, NULL},
    {"/api/v1/summary", HTTP_GET, api_ask, "summary"},
    {"/metrics", HTTP_GET, api_metrics, NULL},
    {"/livez", HTTP_GET, api_livez, NULL},
    {"/readyz", HTTP_GET, api_readyz, NULL},
    {"/RPC2", HTTP_POST, api_rpc, NULL},
    {"/", HTTP_GET | HTTP_ANYBODY, api_assets, NULL},
    {"/{file}", HTTP_GET | HTTP_ANYBODY, api_assets, NULL}, /* the last: of those above it has none */
    {0},
};

/* "text/csv;q=0.5, application/json": is this media type among them? What others weigh is not looked at: the
 * first of ours in the client's order counts. */
static const char *find_media(struct slice accept, const char *mime)
{
    size_t n = strcspn(mime, ";");
    for (size_t i = 0; i + n <= accept.n; i++)
        if (slice_eq_nocase(slice_of(accept.p + i, n), slice_of(mime, n)))
            return accept.p + i;
    return NULL;
}

int api_choose_format(struct http_request *r, const struct api_format *formats, size_t n)
{
    struct slice name, accept = http_header(r, "Accept");
    const char *first = NULL;
    int chosen = 0;
    if (http_query_take(&r->query, "format", &name)) {
        for (size_t i = 0; i < n; i++)
            if (slice_eq_str(name, formats[i].name))
                return (int)i;
        http_problem(r, 400, "format %.*s is not known here; docs/http.md lists those of each address",
                     (int)(name.n > 40 ? 40 : name.n), name.p);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const char *at = find_media(accept, formats[i].mime);
        if (!at || (first && at >= first))
            continue;
        first = at;
        chosen = (int)i;
    }
    return chosen;
}

void api_livez(struct http_request *r)
{
    http_reply(r, 200, "text/plain; charset=utf-8", SLICE_LIT("ok\n"));
}

/* Ready: what is sent here now gets into the journal. */
void api_readyz(struct http_request *r)
{
    if (!ingest_is_writing(r->options->ingest))
        http_problem(r, 503, "the journal can't be written; the gateway's log says why, senders wait");
    else if (!ingest_has_room(r->options->ingest))
        http_problem(r, 503, "the disk does not keep up; senders wait until the journal has caught up");
    else
        http_reply(r, 200, "text/plain; charset=utf-8", SLICE_LIT("ok\n"));
}

void api_openapi(struct http_request *r)
{
    http_reply(r, 200, "application/json", slice_of(api_openapi_text, api_openapi_size));
}
