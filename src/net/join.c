/* SPDX-License-Identifier: Apache-2.0 */
#include "net/join.h"

#include "base/text.h"

enum { TOKEN_MAX = 256, NAME_MAX_BYTES = 255, TEXT_MAX = 1024 };

void frame_put_join(struct strbuf *out, const struct frame_join *j)
{
    size_t at = frame_begin(out, FRAME_JOIN, 0);
    strbuf_add_text(out, j->token);
    strbuf_add_text(out, j->name);
    strbuf_add_text(out, j->request);
    frame_end(out, at);
}

int frame_get_join(struct slice payload, struct frame_join *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_join j = {.token = cursor_text(&c)};
    j.name = cursor_text(&c);
    j.request = cursor_text(&c);
    if (c.bad || j.token.n == 0 || j.token.n > TOKEN_MAX || j.name.n == 0 || j.name.n > NAME_MAX_BYTES ||
        !text_is_utf8(j.name) || text_has_control(j.name) || j.request.n == 0 ||
        j.request.n > JOIN_REQUEST_MAX)
        return E_PROTO;
    *out = j;
    return 0;
}

void frame_put_certify(struct strbuf *out, const struct frame_certify *c)
{
    size_t at = frame_begin(out, FRAME_CERTIFY, 0);
    strbuf_add_text(out, c->request);
    frame_end(out, at);
}

int frame_get_certify(struct slice payload, struct frame_certify *out)
{
    struct cursor c = cursor_of(payload);
    struct slice request = cursor_text(&c);
    if (c.bad || request.n == 0 || request.n > JOIN_REQUEST_MAX)
        return E_PROTO;
    out->request = request;
    return 0;
}

void frame_put_certified(struct strbuf *out, const struct frame_certified *c)
{
    size_t at = frame_begin(out, FRAME_CERTIFIED, 0);
    strbuf_add_u16(out, c->status);
    strbuf_add_text(out, c->text);
    strbuf_add_text(out, c->chain);
    frame_end(out, at);
}

int frame_get_certified(struct slice payload, struct frame_certified *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_certified k = {.status = cursor_u16(&c)};
    k.text = cursor_text(&c);
    k.chain = cursor_text(&c);
    if (c.bad || k.text.n > TEXT_MAX || !text_is_utf8(k.text) || text_has_control(k.text) ||
        k.chain.n > JOIN_CHAIN_MAX || (k.status == 0) != (k.chain.n > 0))
        return E_PROTO;
    *out = k;
    return 0;
}
