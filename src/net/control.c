/* SPDX-License-Identifier: Apache-2.0 */
#include "net/control.h"

#include "base/text.h"

enum { ANSWER_TEXT_MAX = 4096 };

void frame_put_control(struct strbuf *out, uint32_t worker, const struct frame_control *c)
{
    size_t at = frame_begin(out, FRAME_CONTROL, worker);
    strbuf_add_u64(out, c->request);
    strbuf_add_text(out, c->verb);
    args_put(out, c->args);
    frame_end(out, at);
}

int frame_get_control(struct slice payload, struct frame_control *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_control k = {.request = cursor_u64(&c)};
    k.verb = cursor_text(&c);
    if (c.bad || !text_is_name(k.verb) || !args_get(&c, &k.args))
        return E_PROTO;
    *out = k;
    return 0;
}

void frame_put_answer(struct strbuf *out, uint32_t worker, const struct frame_answer *a)
{
    size_t at = frame_begin(out, FRAME_ANSWER, worker);
    strbuf_add_u64(out, a->request);
    strbuf_add_u16(out, a->status);
    strbuf_add_text(out, a->text);
    args_put(out, a->args);
    frame_end(out, at);
}

int frame_get_answer(struct slice payload, struct frame_answer *out)
{
    struct cursor c = cursor_of(payload);
    struct frame_answer a = {.request = cursor_u64(&c), .status = cursor_u16(&c)};
    a.text = cursor_text(&c);
    if (c.bad || a.text.n > ANSWER_TEXT_MAX || !text_is_utf8(a.text) || !args_get(&c, &a.args))
        return E_PROTO;
    *out = a;
    return 0;
}
