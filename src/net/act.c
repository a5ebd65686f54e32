/* SPDX-License-Identifier: Apache-2.0 */
#include "net/act.h"

#include "base/cursor.h"
#include "base/err.h"

#include <errno.h>

enum {
    MAGIC = 4,
    SETTING_LEAST = 4 + 2, /* bytes of a setting without a name, or texts */
    DATUM_LEAST = 4 + 4,   /* of a datum */
    TEXT_MAX = 16 << 10,
    OUTPUT_MAX = 32 << 10 /* of a reply; together they are within ACT_REPLY_MAX */
};

static void put_text(struct strbuf *out, struct slice s)
{
    strbuf_add_u32(out, (uint32_t)s.n);
    strbuf_add_slice(out, s);
}

static struct slice get_text(struct cursor *c)
{
    return cursor_bytes(c, cursor_u32(c));
}

static int get_magic(struct cursor *c, const char *magic)
{
    struct slice is = cursor_bytes(c, MAGIC);
    if (c->bad || memcmp(is.p, magic, MAGIC - 1) != 0)
        return E_PROTO;
    return is.p[MAGIC - 1] == magic[MAGIC - 1] ? 0 : E_VERSION;
}

static size_t size_of(const struct act_request *r)
{
    size_t n = MAGIC + 4 + strlen(r->actuator) + 4 + strlen(r->attempt) + 8 + 2 + 4;
    for (size_t i = 0; i < r->n_settings; i++) {
        n += 4 + strlen(r->settings[i].name) + 2;
        for (size_t k = 0; k < r->settings[i].n; k++)
            n += 4 + strlen(r->settings[i].texts[k]);
    }
    for (size_t i = 0; i < r->n_data; i++)
        n += 4 + r->data[i].name.n + 4 + r->data[i].value.n;
    return n;
}

static bool fits(const struct act_request *r)
{
    if (r->n_settings > ACT_SETTINGS_MAX || r->n_data > ACT_DATA_MAX)
        return false;
    for (size_t i = 0; i < r->n_settings; i++)
        if (r->settings[i].n > UINT16_MAX)
            return false;
    return size_of(r) <= ACT_REQUEST_MAX;
}

int act_request_put(struct strbuf *out, const struct act_request *r)
{
    if (!fits(r))
        return E_LIMIT;
    strbuf_add_str(out, "GLA1");
    put_text(out, slice_str(r->actuator));
    put_text(out, slice_str(r->attempt));
    strbuf_add_u64(out, r->left_ns > 0 ? (uint64_t)r->left_ns : 0);
    strbuf_add_u16(out, (uint16_t)r->n_settings);
    for (size_t i = 0; i < r->n_settings; i++) {
        put_text(out, slice_str(r->settings[i].name));
        strbuf_add_u16(out, (uint16_t)r->settings[i].n);
        for (size_t k = 0; k < r->settings[i].n; k++)
            put_text(out, slice_str(r->settings[i].texts[k]));
    }
    strbuf_add_u32(out, (uint32_t)r->n_data);
    for (size_t i = 0; i < r->n_data; i++) {
        put_text(out, r->data[i].name);
        put_text(out, r->data[i].value);
    }
    return strbuf_failed(out) ? -ENOMEM : 0;
}

/* A text without NUL, copied with one behind it. */
static int get_string(struct cursor *c, struct arena *arena, const char **out)
{
    struct slice s = get_text(c);
    if (c->bad || memchr(s.p, '\0', s.n))
        return E_PROTO;
    char *copy = arena_alloc(arena, s.n + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    *out = copy;
    return 0;
}

static int get_setting(struct cursor *c, struct arena *arena, struct parameter_setting *out)
{
    int r = get_string(c, arena, &out->name);
    size_t n = cursor_u16(c);
    if (r == 0 && (c->bad || n > cursor_left(c) / 4))
        r = E_PROTO;
    const char **texts = r == 0 ? arena_alloc(arena, (n ? n : 1) * sizeof *texts) : NULL;
    if (r == 0 && !texts)
        r = -ENOMEM;
    for (size_t i = 0; i < n && r == 0; i++)
        r = get_string(c, arena, &texts[i]);
    out->texts = texts;
    out->n = n;
    return r;
}

static int get_settings(struct cursor *c, struct arena *arena, struct act_request *out)
{
    size_t n = cursor_u16(c);
    int r = c->bad || n > cursor_left(c) / SETTING_LEAST ? E_PROTO : n > ACT_SETTINGS_MAX ? E_LIMIT : 0;
    struct parameter_setting *settings = r == 0 ? arena_alloc(arena, (n ? n : 1) * sizeof *settings) : NULL;
    if (r == 0 && !settings)
        r = -ENOMEM;
    for (size_t i = 0; i < n && r == 0; i++)
        r = get_setting(c, arena, &settings[i]);
    out->settings = settings;
    out->n_settings = n;
    return r;
}

static int get_data(struct cursor *c, struct arena *arena, struct act_request *out)
{
    size_t n = cursor_u32(c);
    int r = c->bad || n > cursor_left(c) / DATUM_LEAST ? E_PROTO : n > ACT_DATA_MAX ? E_LIMIT : 0;
    struct act_datum *data = r == 0 ? arena_alloc(arena, (n ? n : 1) * sizeof *data) : NULL;
    if (r == 0 && !data)
        r = -ENOMEM;
    for (size_t i = 0; i < n && r == 0; i++) {
        data[i].name = get_text(c);
        data[i].value = get_text(c);
        r = c->bad ? E_PROTO : 0;
    }
    out->data = data;
    out->n_data = n;
    return r;
}

int act_request_get(struct slice bytes, struct arena *arena, struct act_request *out)
{
    struct cursor c = cursor_of(bytes);
    struct act_request a = {0};
    int r = bytes.n > ACT_REQUEST_MAX ? E_LIMIT : get_magic(&c, "GLA1");
    if (r == 0)
        r = get_string(&c, arena, &a.actuator);
    if (r == 0)
        r = get_string(&c, arena, &a.attempt);
    uint64_t left = cursor_u64(&c);
    if (r == 0 && (c.bad || left > INT64_MAX))
        r = E_PROTO;
    a.left_ns = r == 0 ? (int64_t)left : 0;
    if (r == 0)
        r = get_settings(&c, arena, &a);
    if (r == 0)
        r = get_data(&c, arena, &a);
    if (r == 0 && cursor_left(&c))
        r = E_PROTO;
    if (r == 0)
        *out = a;
    return r;
}

static struct slice cut(struct slice s, size_t max)
{
    return s.n > max ? slice_of(s.p, max) : s;
}

void act_reply_put(struct strbuf *out, const struct act_reply *r)
{
    strbuf_add_str(out, "GLR1");
    strbuf_add_u32(out, (uint32_t)r->code);
    strbuf_add_u32(out, (uint32_t)r->exit_code);
    put_text(out, cut(r->text, TEXT_MAX));
    put_text(out, cut(r->output, OUTPUT_MAX));
}

int act_reply_get(struct slice bytes, struct act_reply *out)
{
    struct cursor c = cursor_of(bytes);
    int r = bytes.n > ACT_REPLY_MAX ? E_PROTO : get_magic(&c, "GLR1");
    if (r < 0)
        return r;
    struct act_reply a = {.code = (int)cursor_u32(&c), .exit_code = (int)cursor_u32(&c)};
    a.text = get_text(&c);
    a.output = get_text(&c);
    if (c.bad || cursor_left(&c) || a.code > 0)
        return E_PROTO;
    *out = a;
    return 0;
}
