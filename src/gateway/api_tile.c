/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/v1/tile/KIND/NAME/LEVEL/INDEX: a piece of a picture (docs/tiles.md), made by a thread of the
 * archive.
 *
 * An answer has an ETag, and what is final may be kept for good, by the client alone: what somebody may see
 * is for him. A client that has it already (If-None-Match) gets 304 and no body. */
#include "gateway/api.h"

#include "base/cursor.h"
#include "base/mem.h"
#include "gateway/sql.h"

#include <errno.h>
#include <event2/http.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATH_PARTS = 4, ETAG_MAX = 24 };

struct tile_asking {
    struct query_asker asker; /* first: the callbacks get it */
    struct http_request *request;
    struct query *query;
    struct strbuf answer;
};

static const struct query_ops *ops_of(const struct tile_asking *a)
{
    return a->request->options->query;
}

static void on_piece(struct query_asker *asker, struct slice bytes)
{
    struct tile_asking *a = (struct tile_asking *)(void *)asker;
    strbuf_add_slice(&a->answer, bytes);
    ops_of(a)->more(a->query);
}

static void reply(struct tile_asking *a)
{
    static const char *const types[] = {"application/vnd.gridline.tile", "application/json",
                                        "text/csv; charset=utf-8"};
    struct http_request *r = a->request;
    struct cursor c = cursor_of(strbuf_slice(&a->answer));
    bool is_final = cursor_u8(&c) == 1;
    uint8_t as = cursor_u8(&c);
    (void)cursor_bytes(&c, 6);
    uint64_t hash = cursor_u64(&c);
    if (c.bad || as >= sizeof types / sizeof *types || strbuf_failed(&a->answer)) {
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    char etag[ETAG_MAX];
    (void)snprintf(etag, sizeof etag, "\"%016" PRIx64 "\"", hash); /* fits */
    http_set_header(r, "Cache-Control",
                    is_final ? "private, max-age=86400, immutable" : "private, max-age=1");
    if (!http_has_etag(r, etag)) {
        http_reply_packed(r, types[as], etag, slice_from(strbuf_slice(&a->answer), QUERY_TILE_HEAD));
        return;
    }
    http_set_header(r, "ETag", etag);
    http_set_header(r, "Vary", "Authorization, Cookie, Accept-Encoding");
    http_reply(r, 304, types[as], SLICE_LIT(""));
}

/* A tile itself says what is not in it. */
static void on_end(struct query_asker *asker, const struct query_end *end)
{
    struct tile_asking *a = (struct tile_asking *)(void *)asker;
    if (end->r < 0)
        api_query_problem(a->request, end->r, end->why);
    else
        reply(a);
}

static void on_gone(struct http_request *r)
{
    struct tile_asking *a = r->state;
    if (a->query)
        ops_of(a)->close(a->query);
    strbuf_fini(&a->answer);
    mem_free(a);
}

/* ---------------------------------------------------------------- the question */

/* A part of the path without its escapes, and a NUL. false: it is none. */
static bool add_part(struct strbuf *out, struct slice part)
{
    struct strbuf z = {0};
    size_t n = 0;
    strbuf_add_slice(&z, part);
    char *text = z.n && !strbuf_failed(&z) ? evhttp_uridecode(z.p, 0, &n) : NULL;
    bool is_good = text && strlen(text) == n;
    if (is_good)
        strbuf_add(out, text, n + 1);
    free(text);
    strbuf_fini(&z);
    return is_good;
}

/* The request as tile.h takes it. */
static bool make_request(struct http_request *r, struct strbuf *out)
{
    struct slice rest = slice_from(r->path, strlen("/api/v1/tile/"));
    for (unsigned i = 0; i < PATH_PARTS; i++) {
        const char *slash = rest.n ? memchr(rest.p, '/', rest.n) : NULL;
        size_t n = slash ? (size_t)(slash - rest.p) : rest.n;
        if (!add_part(out, slice_of(rest.p, n)))
            return false;
        rest = slice_from(rest, n + 1);
    }
    for (size_t i = 0; i < r->query.n; i++) {
        strbuf_add_slice(out, r->query.params[i].name);
        strbuf_add_char(out, '=');
        strbuf_add_slice(out, r->query.params[i].value);
        strbuf_add_char(out, '\0');
    }
    return !strbuf_failed(out);
}

static void ask(struct http_request *r, struct slice text)
{
    struct diag why = {0};
    struct tile_asking *a = mem_try_alloc(sizeof *a);
    if (!a) {
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    a->asker = (struct query_asker){.piece = on_piece, .end = on_end};
    a->request = r;
    r->state = a;
    r->gone = on_gone;
    const struct query_text question = {.kind = QUERY_TILE, .text = text};
    int e = sql_ask(r->options->query, &a->asker, r->who, &question, &a->query, &why);
    if (e < 0)
        api_query_problem(r, e, &why);
    else
        http_watch(r);
}

void api_tile(struct http_request *r)
{
    struct strbuf request = {0};
    if (make_request(r, &request))
        ask(r, strbuf_slice(&request));
    else
        http_problem(r, 400, "the address is /api/v1/tile/KIND/NAME/LEVEL/INDEX");
    strbuf_fini(&request);
}
