/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/v1/events. The encoding is that of the parameter `format`, of Content-Type, or as the bytes look;
 * the origin is in the headers Gridline-Producer (32 hex digits), Gridline-Epoch and Gridline-Seq, the number
 * of the first event. Answered when all of it is in the journal. */
#include "gateway/api.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "event/json.h"
#include "gateway/publisher.h"

#include <errno.h>
#include <inttypes.h>

struct publish {
    struct publisher publisher; /* first: the callback gets it */
    struct http_request *request;
};

static void on_gone(struct http_request *r)
{
    struct publish *p = r->state;
    publisher_fini(&p->publisher);
    mem_free(p);
}

static void put_counts(struct strbuf *out, const struct publisher *p)
{
    strbuf_printf(out, "{\"taken\":%" PRIu64 ",\"refused\":%" PRIu64, p->taken, p->refused);
    if (p->too_old)
        strbuf_printf(out, ",\"too_old\":%" PRIu64, p->too_old);
    if (p->too_new)
        strbuf_printf(out, ",\"too_new\":%" PRIu64, p->too_new);
    if (p->trimmed.events)
        strbuf_printf(out, ",\"trimmed\":%" PRIu64, p->trimmed.events);
    strbuf_add_str(out, ",\"errors\":[");
    for (size_t i = 0; i < p->n_errors; i++) {
        strbuf_printf(out, "%s{\"line\":%" PRIu64 ",\"column\":%" PRIu32 ",\"text\":", i ? "," : "",
                      p->errors[i].line, p->errors[i].col);
        json_add_string(out, slice_str(p->errors[i].message));
        strbuf_add_char(out, '}');
    }
    strbuf_add_str(out, "]}\n");
}

static int status_of(int result)
{
    switch (result) {
    case -EACCES:
        return 403;
    case E_PROTO:
        return 400;
    case E_LIMIT:
        return 413;
    case -ESTALE:
        return 409;
    default:
        return 503;
    }
}

static void on_done(struct publisher *of)
{
    struct publish *p = (struct publish *)(void *)of;
    struct http_request *r = p->request;
    struct strbuf out = {0};
    if (of->result == -EACCES) {
        http_problem_control(r, CONTROL_NOT_ALLOWED, slice_str(of->text));
        return;
    }
    if (of->result < 0) {
        http_problem(r, status_of(of->result),
                     "%s; %" PRIu64 " events are in the journal, %" PRIu64 " are not", of->text, of->taken,
                     of->refused);
        return;
    }
    put_counts(&out, of);
    if (strbuf_failed(&out))
        http_problem(r, 503, "they are in the journal, but the gateway is out of memory for an answer");
    else
        http_reply(r, of->taken == 0 && of->refused ? 400 : 200, "application/json", strbuf_slice(&out));
    strbuf_fini(&out);
}

/* ---------------------------------------------------------------- what is sent */

static bool is_media(struct slice type, const char *mime)
{
    size_t n = strcspn(mime, ";");
    const char *end = type.n ? memchr(type.p, ';', type.n) : NULL;
    struct slice bare = slice_of(type.p, end ? (size_t)(end - type.p) : type.n);
    while (bare.n && bare.p[bare.n - 1] == ' ')
        bare.n--;
    return slice_eq_nocase(bare, slice_of(mime, n));
}

/* NULL: not known; the problem was said. */
static const struct encoding *choose_encoding(struct http_request *r)
{
    const struct encoding *found = NULL, *one;
    struct slice name, type = http_header(r, "Content-Type");
    if (http_query_take(&r->query, "format", &name)) {
        found = encoding_by_name(name);
    } else {
        for (size_t i = 0; !found && (one = encoding_at(i)); i++)
            found = is_media(type, one->mime) ? one : NULL;
        if (!found && (is_media(type, "application/json") || is_media(type, "application/ndjson")))
            found = encoding_by_name(SLICE_LIT("ndjson"));
        if (!found &&
            (type.n == 0 || is_media(type, "application/octet-stream") || is_media(type, "text/plain") ||
             is_media(type, "application/x-www-form-urlencoded"))) /* curl -d says that of anything */
            found = encoding_detect(r->body);
    }
    if (found && found->decoder)
        return found;
    http_problem(
        r, 415,
        "which encoding is it? Give Content-Type, or format=ndjson, ulm, bp, xml or binary in the address");
    return NULL;
}

static bool read_producer(struct slice text, uint8_t out[16])
{
    bool is_good = text.n == 32;
    for (size_t i = 0; i < 16 && is_good; i++) {
        int high = text_hex_digit(text.p[2 * i]), low = text_hex_digit(text.p[2 * i + 1]);
        is_good = high >= 0 && low >= 0;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return is_good;
}

static bool is_zero(const uint8_t producer[16])
{
    static const uint8_t none[16];
    return memcmp(producer, none, sizeof none) == 0;
}

/* All three headers or none. false: answered. */
static bool read_origin(struct http_request *r, struct batch_origin *out)
{
    struct slice producer = http_header(r, "Gridline-Producer"), epoch = http_header(r, "Gridline-Epoch"),
                 seq = http_header(r, "Gridline-Seq");
    uint8_t id[16];
    _Static_assert(sizeof out->producer == sizeof id, "a producer is 16 bytes");
    *out = (struct batch_origin){.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    if (producer.n == 0 && epoch.n == 0 && seq.n == 0)
        return true;
    if (read_producer(producer, id) && !is_zero(id) && num_parse_uint(epoch, &out->epoch) == 0 &&
        out->epoch && num_parse_uint(seq, &out->first_seq) == 0 && out->first_seq &&
        out->first_seq < UINT64_MAX / 2) {
        memcpy(out->producer, id, sizeof id);
        return true;
    }
    http_problem(
        r, 400,
        "an origin is all three: Gridline-Producer of 32 hex digits, Gridline-Epoch and Gridline-Seq from "
        "1 on");
    return false;
}

void api_publish(struct http_request *r)
{
    struct batch_origin origin;
    const struct encoding *encoding = choose_encoding(r);
    if (!encoding || !read_origin(r, &origin))
        return;
    if (r->query.n) {
        http_problem(r, 400, "%.*s is no parameter of publishing; there is format",
                     SLICE_ARG(r->query.params[0].name));
        return;
    }
    struct publish *p = mem_try_alloc(sizeof *p);
    if (!p) {
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    p->request = r;
    p->publisher.sessions = r->options->sessions;
    p->publisher.who = r->who;
    p->publisher.origin = origin;
    p->publisher.done = on_done;
    r->state = p;
    r->gone = on_gone;
    if (publisher_start(&p->publisher, r->options->base, encoding, r->body) < 0)
        http_problem(r, 503, "the gateway is out of memory");
}
