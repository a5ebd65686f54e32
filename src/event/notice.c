/* SPDX-License-Identifier: Apache-2.0 */
#include "event/notice.h"

#include "base/cursor.h"
#include "base/err.h"
#include "base/text.h"
#include "event/json.h"

#include <stdarg.h>
#include <stdio.h>

/* So many of the n bytes that no character is cut. */
static size_t whole_characters(const char *text, size_t n)
{
    while (n && ((unsigned char)text[n] & 0xC0) == 0x80)
        n--;
    return n;
}

static void copy(char *to, size_t room, struct slice from)
{
    size_t n = from.n < room ? from.n : whole_characters(from.p, room - 1);
    if (n)
        memcpy(to, from.p, n);
    to[n] = '\0';
}

static void add(struct notices *all, struct slice code, struct slice text)
{
    struct query_notice new;
    copy(new.code, sizeof new.code, code);
    copy(new.text, sizeof new.text, text);
    for (uint32_t i = 0; i < all->n; i++)
        if (strcmp(all->list[i].code, new.code) == 0 && strcmp(all->list[i].text, new.text) == 0)
            return;
    if (all->n == NOTICES_MAX)
        all->left_out++;
    else
        all->list[all->n++] = new;
}

void notices_add(struct notices *all, const char *code, const char *format, ...)
{
    char text[NOTICE_TEXT_MAX + 8]; /* more than fits, so that copy sees where it cuts */
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (n >= 0)
        add(all, slice_str(code), slice_str(text));
}

void notices_join(struct notices *all, const struct notices *from)
{
    for (uint32_t i = 0; i < from->n; i++)
        add(all, slice_str(from->list[i].code), slice_str(from->list[i].text));
    all->left_out += from->left_out;
}

void notices_put(struct strbuf *out, const struct notices *all)
{
    strbuf_add_varint(out, all->left_out);
    strbuf_add_varint(out, all->n);
    for (uint32_t i = 0; i < all->n; i++) {
        strbuf_add_text(out, slice_str(all->list[i].code));
        strbuf_add_text(out, slice_str(all->list[i].text));
    }
}

int notices_get(struct slice bytes, struct notices *out)
{
    struct cursor c = cursor_of(bytes);
    struct notices all = {0};
    uint64_t left_out = bytes.n ? cursor_varint(&c) : 0, n = bytes.n ? cursor_varint(&c) : 0;
    for (uint64_t i = 0; i < n && !c.bad; i++) {
        struct slice code = cursor_text(&c), text = cursor_text(&c);
        if (c.bad || !text_is_utf8(code) || !text_is_utf8(text))
            return E_PROTO;
        add(&all, code, text);
    }
    if (c.bad || left_out > UINT32_MAX - all.left_out)
        return E_PROTO;
    all.left_out += (uint32_t)left_out;
    *out = all;
    return 0;
}

void notices_put_json(struct strbuf *out, const struct notices *all)
{
    strbuf_add_char(out, '[');
    for (uint32_t i = 0; i < all->n; i++) {
        strbuf_add_str(out, i ? ",{\"code\":" : "{\"code\":");
        json_add_string(out, slice_str(all->list[i].code));
        strbuf_add_str(out, ",\"text\":");
        json_add_string(out, slice_str(all->list[i].text));
        strbuf_add_char(out, '}');
    }
    strbuf_add_char(out, ']');
}
