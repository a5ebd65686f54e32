/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/audit_line.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"
#include "event/json.h"

#include <errno.h>
#include <openssl/evp.h>

#define BEFORE_HASH ",\"hash\":\""
#define BEHIND_HASH "\"}"
enum { TAIL = sizeof BEFORE_HASH - 1 + AUDIT_HASH + sizeof BEHIND_HASH - 1 };

int audit_hash(struct slice bytes, char to[AUDIT_HASH + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (!EVP_Digest(bytes.p, bytes.n, md, &n, EVP_sha256(), NULL) || n != AUDIT_HASH / 2)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++) {
        to[2 * i] = digits[md[i] >> 4];
        to[2 * i + 1] = digits[md[i] & 15];
    }
    to[AUDIT_HASH] = '\0';
    return 0;
}

/* ---------------------------------------------------------------- writing */

static int put_data(struct strbuf *out, const struct act_datum *data, size_t n)
{
    size_t odd = 0;
    strbuf_add_char(out, '{');
    for (size_t i = 0; i < n; i++) {
        const bool is_text = text_is_utf8(data[i].value);
        if (!text_is_utf8(data[i].name))
            return -EINVAL;
        odd += !is_text;
        if (i)
            strbuf_add_char(out, ',');
        json_add_string(out, data[i].name);
        strbuf_add_char(out, ':');
        if (is_text) {
            json_add_string(out, data[i].value);
            continue;
        }
        strbuf_add_char(out, '"');
        text_add_base64(out, data[i].value);
        strbuf_add_char(out, '"');
    }
    for (size_t i = 0, k = 0; i < n && odd; i++) {
        if (text_is_utf8(data[i].value))
            continue;
        strbuf_add_str(out, k == 0 ? ",\"@\":{" : ",");
        json_add_string(out, data[i].name);
        strbuf_add_str(out, ++k == odd ? ":\"bytes\"}" : ":\"bytes\"");
    }
    strbuf_add_char(out, '}');
    return 0;
}

static int put_line(struct strbuf *out, uint64_t n, const char *prev, int64_t time_ns, const char *what,
                    const struct act_datum *data, size_t n_data, char hash[AUDIT_HASH + 1])
{
    const size_t from = out->n;
    char time[CLOCK_TEXT_MAX];
    size_t time_n = clock_print_iso(time, time_ns);
    strbuf_printf(out, "{\"n\":%llu,\"prev\":\"%s\",\"time\":\"%.*s\",\"what\":", (unsigned long long)n, prev,
                  (int)time_n, time);
    json_add_string(out, slice_str(what));
    strbuf_add_str(out, ",\"data\":");
    int r = put_data(out, data, n_data);
    if (r < 0)
        return r;
    if (strbuf_failed(out))
        return -ENOMEM;
    r = audit_hash(slice_of(out->p + from, out->n - from), hash);
    if (r < 0)
        return r;
    strbuf_add_str(out, BEFORE_HASH);
    strbuf_add_str(out, hash);
    strbuf_add_str(out, BEHIND_HASH "\n");
    if (strbuf_failed(out))
        return -ENOMEM;
    return out->n - from > AUDIT_LINE_MAX ? E_LIMIT : 0;
}

int audit_line_put(struct strbuf *out, uint64_t n, const char *prev, int64_t time_ns, const char *what,
                   const struct act_datum *data, size_t n_data, char hash[AUDIT_HASH + 1])
{
    const size_t from = out->n;
    char own[AUDIT_HASH + 1];
    int r = put_line(out, n, prev, time_ns, what, data, n_data, own);
    if (r < 0) {
        out->n = from;
        out->failed = false;
        if (out->p)
            out->p[from] = '\0';
        return r;
    }
    memcpy(hash, own, sizeof own);
    return 0;
}

/* ---------------------------------------------------------------- reading */

static int check_hash(struct slice line, struct audit_line *out)
{
    char hash[AUDIT_HASH + 1];
    if (line.n < TAIL || !slice_ends(line, SLICE_LIT(BEHIND_HASH)))
        return E_DAMAGE;
    const struct slice body = slice_of(line.p, line.n - TAIL);
    const struct slice tail = slice_from(line, body.n);
    if (!slice_starts(tail, SLICE_LIT(BEFORE_HASH)))
        return E_DAMAGE;
    out->hash = slice_of(tail.p + sizeof BEFORE_HASH - 1, AUDIT_HASH);
    int r = audit_hash(body, hash);
    if (r < 0)
        return r;
    return slice_eq_str(out->hash, hash) ? 0 : E_DAMAGE;
}

/* Skips an object that has begun; *end is behind its last brace. */
static int skip_object(struct json_reader *r, const char **end)
{
    struct json_item item = {0};
    for (unsigned depth = 1; depth > 0;) {
        int code = json_next(r, &item);
        if (code < 0)
            return code;
        depth += item.kind == JSON_OBJECT || item.kind == JSON_ARRAY;
        depth -= item.kind == JSON_OBJECT_END || item.kind == JSON_ARRAY_END;
    }
    *end = r->at;
    return 0;
}

static int take_member(struct json_reader *r, const struct json_item *item, struct audit_line *out)
{
    if (item->kind == JSON_OBJECT) {
        const char *end = NULL;
        int code = skip_object(r, &end);
        if (code == 0 && slice_eq_str(item->key, "data"))
            out->data = slice_of(item->at, (size_t)(end - item->at));
        return code;
    }
    if (item->kind == JSON_NUMBER && slice_eq_str(item->key, "n"))
        return num_parse_uint(item->text, &out->n);
    if (item->kind != JSON_STRING)
        return E_PROTO;
    if (slice_eq_str(item->key, "prev"))
        out->prev = item->text;
    else if (slice_eq_str(item->key, "time"))
        out->time = item->text;
    else if (slice_eq_str(item->key, "what"))
        out->what = item->text;
    return 0;
}

int audit_line_get(struct slice line, struct audit_line *out)
{
    struct audit_line got = {0};
    struct json_reader r;
    struct json_item item;
    int code = check_hash(line, &got);
    if (code < 0)
        return code;
    json_init(&r, line, 4, NULL);
    code = json_next(&r, &item);
    if (code < 0 || item.kind != JSON_OBJECT)
        return E_PROTO;
    while ((code = json_next(&r, &item)) == 0 && item.kind != JSON_OBJECT_END)
        if (take_member(&r, &item, &got) < 0)
            return E_PROTO;
    if (code < 0 || json_next(&r, &item) < 0 || got.n == 0 || got.prev.n != AUDIT_HASH || !got.time.p ||
        !got.what.p || !got.data.p)
        return E_PROTO;
    *out = got;
    return 0;
}

static int unescape(const struct json_reader *r, const struct json_item *item, struct strbuf *to)
{
    size_t n = 0;
    if (!item->escaped) {
        strbuf_add_slice(to, item->text);
        return strbuf_failed(to) ? -ENOMEM : 0;
    }
    char *room = strbuf_room(to, item->text.n);
    if (!room)
        return -ENOMEM;
    int code = json_unescape(r, item->text, room, &n);
    if (code == 0)
        strbuf_advance(to, n);
    return code;
}

/* Is this member in base64? "@" comes last. */
static bool is_bytes(const struct audit_line *l, struct slice name)
{
    struct json_reader r;
    struct json_item item;
    bool is_inside = false;
    json_init(&r, l->data, 4, NULL);
    while (json_next(&r, &item) == 0 && item.kind != JSON_END) {
        if (item.kind == JSON_OBJECT && slice_eq_str(item.key, "@"))
            is_inside = true;
        else if (is_inside && slice_eq(item.key, name))
            return true;
    }
    return false;
}

int audit_line_datum(const struct audit_line *l, size_t *at, struct slice *name, struct strbuf *value)
{
    struct json_reader r;
    struct json_item item;
    json_init(&r, l->data, 4, NULL);
    int code = json_next(&r, &item); /* the object itself */
    for (size_t i = 0; code == 0 && i <= *at; i++)
        code = json_next(&r, &item);
    if (code < 0)
        return E_PROTO;
    if (item.kind == JSON_OBJECT_END || item.kind == JSON_OBJECT)
        return 0;
    if (item.kind != JSON_STRING)
        return E_PROTO;
    ++*at;
    *name = item.key;
    strbuf_reset(value);
    if (is_bytes(l, item.key))
        return text_from_base64(item.text, value) < 0 ? E_PROTO : 1;
    code = unescape(&r, &item, value);
    return code < 0 ? code : 1;
}
