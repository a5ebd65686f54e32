/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/live_request.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"
#include "event/json.h"

#include <errno.h>
#include <inttypes.h>

enum { DEPTH = 5 };

struct reading {
    struct json_reader json;
    struct live_request *out;
    struct diag *why;
    struct strbuf text; /* a string unescaped */
};

static int refuse(struct reading *r, const struct json_item *item, int code, const char *what)
{
    uint32_t col = json_col(&r->json, item->at);
    return diag_set(r->why, code, col, "byte %" PRIu32 ": %s", col, what);
}

/* A string or number as text; without a NUL, which ends texts in what the archive is asked. */
static int text_of(struct reading *r, const struct json_item *item, struct slice *out)
{
    *out = item->text;
    if (item->kind != JSON_STRING && item->kind != JSON_NUMBER)
        return refuse(r, item, E_PROTO, "a text or a number is expected here");
    if (item->kind == JSON_STRING && item->escaped) {
        strbuf_reset(&r->text);
        char *to = strbuf_room(&r->text, item->text.n + 1);
        if (!to)
            return -ENOMEM;
        int e = json_unescape(&r->json, item->text, to, &out->n);
        if (e < 0)
            return e;
        out->p = to;
    }
    if (out->n && memchr(out->p, '\0', out->n))
        return refuse(r, item, E_PROTO, "a text has no NUL");
    return text_is_utf8(*out) ? 0 : refuse(r, item, E_PROTO, "a text is UTF-8");
}

static int read_number(struct reading *r, const struct json_item *item, uint64_t min, uint64_t max,
                       const char *what, uint64_t *out)
{
    if (item->kind != JSON_NUMBER || num_parse_uint(item->text, out) < 0 || *out < min || *out > max)
        return refuse(r, item, E_PROTO, what);
    return 0;
}

/* What was opened and is not looked at ends. */
static int read_params(struct reading *r, struct live_lane *lane, const struct json_item *open)
{
    struct json_item item;
    struct slice value;
    int e;
    if (open->kind != JSON_OBJECT)
        return refuse(r, open, E_PROTO, "params is an object: {\"field\":\"user\"}");
    while ((e = json_next(&r->json, &item)) == 0 && item.kind != JSON_OBJECT_END) {
        if (item.key_escaped || !text_is_name(item.key))
            return refuse(r, &item, E_PROTO, "this is no name of a parameter");
        e = text_of(r, &item, &value);
        if (e < 0)
            return e;
        if (lane->params.n + item.key.n + value.n > LIVE_LANE_BYTES)
            return refuse(r, &item, E_LIMIT, "the parameters of this lane are too long");
        strbuf_add_slice(&lane->params, item.key);
        strbuf_add_char(&lane->params, '=');
        strbuf_add_slice(&lane->params, value);
        strbuf_add_char(&lane->params, '\0');
    }
    return e;
}

/* What of a lane there was. */
struct members {
    bool has_lane, has_kind, has_name, has_level;
    struct strbuf kind, name;
};

static int take_text(struct reading *r, const struct json_item *item, struct strbuf *to, bool *has)
{
    struct slice text;
    if (item->kind != JSON_STRING || *has)
        return refuse(r, item, E_PROTO, "kind and name are texts, each once");
    int e = text_of(r, item, &text);
    if (e < 0)
        return e;
    if (text.n == 0 || text.n > LIVE_LANE_BYTES)
        return refuse(r, item, E_LIMIT, "this text is empty or too long");
    strbuf_add_slice(to, text);
    *has = true;
    return 0;
}

static int take_member(struct reading *r, struct live_lane *lane, struct members *m,
                       const struct json_item *item)
{
    uint64_t n = 0;
    int e;
    if (slice_eq_str(item->key, "kind"))
        return take_text(r, item, &m->kind, &m->has_kind);
    if (slice_eq_str(item->key, "name"))
        return take_text(r, item, &m->name, &m->has_name);
    if (slice_eq_str(item->key, "params"))
        return read_params(r, lane, item);
    if (slice_eq_str(item->key, "lane")) {
        e = read_number(r, item, 1, UINT16_MAX, "lane is a number from 1 to 65535", &n);
        lane->number = (uint16_t)n;
        m->has_lane = true;
        return e;
    }
    if (!slice_eq_str(item->key, "level"))
        return refuse(r, item, E_PROTO, "a lane has lane, kind, name, level and params");
    e = read_number(r, item, 0, LIVE_LEVEL_MAX, "level is a number from 0 to 26", &n);
    lane->level = (unsigned)n;
    m->has_level = true;
    return e;
}

static int check_lane(struct reading *r, const struct live_lane *lane, const struct members *m,
                      const struct json_item *open)
{
    if (!m->has_lane || !m->has_kind || !m->has_name || !m->has_level)
        return refuse(r, open, E_PROTO, "this lane lacks one of lane, kind, name and level");
    for (const struct live_lane *other = r->out->lanes; other < lane; other++)
        if (other->number == lane->number)
            return refuse(r, open, E_PROTO, "another lane has the same number");
    return 0;
}

static int read_lane(struct reading *r, const struct json_item *open)
{
    struct json_item item;
    struct members m = {.has_lane = false};
    int e = 0;
    if (open->kind != JSON_OBJECT)
        return refuse(r, open, E_PROTO, "a lane is an object");
    if (r->out->n == LIVE_LANES_MAX)
        return refuse(r, open, E_LIMIT, "there are more than 32 lanes");
    struct live_lane *lane = &r->out->lanes[r->out->n++];
    while (e == 0 && (e = json_next(&r->json, &item)) == 0 && item.kind != JSON_OBJECT_END)
        e = take_member(r, lane, &m, &item);
    if (e == 0)
        e = check_lane(r, lane, &m, open);
    strbuf_add_slice(&lane->head, strbuf_slice(&m.kind));
    strbuf_add_char(&lane->head, '\0');
    strbuf_add_slice(&lane->head, strbuf_slice(&m.name));
    strbuf_add_char(&lane->head, '\0');
    if (e == 0 && (strbuf_failed(&m.kind) || strbuf_failed(&m.name) || strbuf_failed(&lane->head) ||
                   strbuf_failed(&lane->params)))
        e = -ENOMEM;
    strbuf_fini(&m.kind);
    strbuf_fini(&m.name);
    return e;
}

static int read_lanes(struct reading *r, const struct json_item *open)
{
    struct json_item item;
    int e = 0;
    if (open->kind != JSON_ARRAY || r->out->n)
        return refuse(r, open, E_PROTO, "lanes is one list of lanes");
    while (e == 0 && (e = json_next(&r->json, &item)) == 0 && item.kind != JSON_ARRAY_END)
        e = read_lane(r, &item);
    return e;
}

int live_request_every(struct slice text, int64_t *out, struct diag *why)
{
    int64_t ns;
    if (num_parse_duration(text, &ns) < 0 || ns < LIVE_EVERY_MIN_MS * INT64_C(1000000) || ns > 60 * NS_PER_S)
        return diag_set(why, E_PROTO, 0, "every is how often tiles are looked at: %dms to 1m",
                        LIVE_EVERY_MIN_MS);
    *out = ns;
    return 0;
}

static int read_object(struct reading *r)
{
    struct json_item item;
    struct slice text;
    int e = 0;
    while (e == 0 && (e = json_next(&r->json, &item)) == 0 && item.kind != JSON_OBJECT_END) {
        if (slice_eq_str(item.key, "lanes"))
            e = read_lanes(r, &item);
        else if (slice_eq_str(item.key, "every"))
            e = (e = text_of(r, &item, &text)) < 0 ? e : live_request_every(text, &r->out->every_ns, r->why);
        else
            e = refuse(r, &item, E_PROTO, "there are lanes and every");
    }
    return e;
}

int live_request_parse(struct slice text, struct live_request *out, struct diag *why)
{
    struct reading r = {.out = out, .why = why};
    struct json_item item;
    json_init(&r.json, text, DEPTH, why);
    int e = json_next(&r.json, &item);
    if (e == 0 && item.kind != JSON_OBJECT && item.kind != JSON_ARRAY)
        e = refuse(&r, &item, E_PROTO, "send {\"lanes\":[{\"lane\":1,\"kind\":\"series\",...}]}");
    if (e == 0)
        e = item.kind == JSON_OBJECT ? read_object(&r) : read_lanes(&r, &item);
    if (e == 0)
        e = json_next(&r.json, &item); /* nothing is behind it */
    if (e == 0 && out->n == 0)
        e = diag_set(why, E_PROTO, 0, "there is no lane");
    if (e == -ENOMEM)
        (void)diag_set(why, e, 0, "%s", err_text(e));
    strbuf_fini(&r.text);
    return e;
}

void live_request_fini(struct live_request *r)
{
    for (size_t i = 0; i < r->n; i++) {
        strbuf_fini(&r->lanes[i].head);
        strbuf_fini(&r->lanes[i].params);
    }
    r->n = 0;
}

void live_lane_tile(const struct live_lane *lane, int64_t index, bool as_json, struct strbuf *out)
{
    strbuf_add_slice(out, strbuf_slice(&lane->head));
    strbuf_printf(out, "%u", lane->level);
    strbuf_add_char(out, '\0');
    strbuf_printf(out, "%" PRId64, index);
    strbuf_add_char(out, '\0');
    strbuf_add_slice(out, strbuf_slice(&lane->params));
    if (as_json)
        strbuf_add(out, "as=json", sizeof "as=json");
}

int64_t live_lane_index(const struct live_lane *lane, int64_t time_ns)
{
    int64_t span = INT64_C(1) << (2 * lane->level + 8), index = time_ns / span;
    return index - (time_ns % span < 0); /* as tiles have it: towards the past */
}
