/* SPDX-License-Identifier: Apache-2.0 */
#include "net/launch.h"

#include "base/cursor.h"
#include "base/text.h"

enum { ID_AT = 64, SIGNAL_MAX = 64 };
static const unsigned char magic[4] = {'G', 'L', 'P', LAUNCH_VERSION};

const char *launch_result_text(enum launch_result r)
{
    static const char *const texts[LAUNCH_RESULTS] = {
        [LAUNCH_DONE] = "done",
        [LAUNCH_ALREADY] = "the agent runs already",
        [LAUNCH_NOT_ALLOWED] = "not allowed for this user",
        [LAUNCH_TOO_MUCH] = "too many requests in this short time",
        [LAUNCH_MALFORMED] = "the request was malformed",
        [LAUNCH_NO_AGENT] = "there is no agent: it could not be started, or did not answer in time",
    };
    return r > 0 && r < LAUNCH_RESULTS ? texts[r] : "an unknown answer";
}

static void put(unsigned char *to, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        to[i] = (unsigned char)(v >> (8 * i));
}

void launch_request_put(unsigned char out[LAUNCH_REQUEST], const struct launch_request *r)
{
    size_t n = r->kind == LAUNCH_START ? 0 : strnlen(r->id, LAUNCH_ID_MAX);
    memset(out, 0, LAUNCH_REQUEST);
    memcpy(out, magic, sizeof magic);
    out[4] = (unsigned char)r->kind;
    out[7] = (unsigned char)n;
    put(out + 8, r->uid, 4);
    memcpy(out + ID_AT, r->id, n);
    if (r->kind == LAUNCH_ENDED) {
        out[5] = r->is_signal;
        out[6] = r->code;
        put(out + 16, r->duration_ns, 8);
    }
    if (r->kind == LAUNCH_BEGAN || r->kind == LAUNCH_ENDED)
        put(out + 24, r->overhead_ns, 8);
    if (r->kind == LAUNCH_VIEW) {
        put(out + 12, r->view.cpus, 4);
        put(out + 32, r->view.memory, 8);
        put(out + 40, r->view.memory_limit, 8);
        put(out + 48, r->view.processes, 4);
        put(out + 52, r->view.mounts, 4);
    }
}

int launch_request_get(struct slice bytes, struct launch_request *out)
{
    struct launch_request r = {0};
    unsigned char again[LAUNCH_REQUEST];
    if (bytes.n != LAUNCH_REQUEST || memcmp(bytes.p, magic, 3) != 0)
        return E_PROTO;
    if ((unsigned char)bytes.p[3] != LAUNCH_VERSION)
        return E_VERSION;
    struct cursor c = cursor_of(slice_from(bytes, sizeof magic));
    r.kind = cursor_u8(&c);
    uint8_t how = cursor_u8(&c);
    r.is_signal = how == 1;
    r.code = cursor_u8(&c);
    uint8_t n = cursor_u8(&c);
    r.uid = cursor_u32(&c);
    r.view.cpus = cursor_u32(&c);
    r.duration_ns = cursor_u64(&c);
    r.overhead_ns = cursor_u64(&c);
    r.view.memory = cursor_u64(&c);
    r.view.memory_limit = cursor_u64(&c);
    r.view.processes = cursor_u32(&c);
    r.view.mounts = cursor_u32(&c);
    if (r.kind < LAUNCH_START || r.kind > LAUNCH_ENDED || n > LAUNCH_ID_MAX || (n == 0) != (r.kind == LAUNCH_START))
        return E_PROTO;
    if (r.is_signal && (r.code == 0 || r.code > SIGNAL_MAX))
        return E_PROTO;
    memcpy(r.id, bytes.p + ID_AT, n);
    if (n && !text_is_name(slice_of(r.id, n)))
        return E_PROTO;
    /* What it does not use is zero just if writing it gives the same bytes. */
    launch_request_put(again, &r);
    if (memcmp(again, bytes.p, LAUNCH_REQUEST) != 0)
        return E_PROTO;
    *out = r;
    return 0;
}

void launch_reply_put(unsigned char out[LAUNCH_REPLY], enum launch_result r)
{
    memset(out, 0, LAUNCH_REPLY);
    memcpy(out, magic, sizeof magic);
    out[4] = (unsigned char)r;
}

int launch_reply_get(struct slice bytes, enum launch_result *out)
{
    unsigned char again[LAUNCH_REPLY];
    if (bytes.n != LAUNCH_REPLY || memcmp(bytes.p, magic, 3) != 0)
        return E_PROTO;
    if ((unsigned char)bytes.p[3] != LAUNCH_VERSION)
        return E_VERSION;
    enum launch_result r = (unsigned char)bytes.p[4];
    launch_reply_put(again, r);
    if (r < LAUNCH_DONE || r >= LAUNCH_RESULTS || memcmp(again, bytes.p, LAUNCH_REPLY) != 0)
        return E_PROTO;
    *out = r;
    return 0;
}

void launch_set_id(struct launch_request *r, const char *text)
{
    size_t n = 0;
    for (; text[n] && n < LAUNCH_ID_MAX; n++)
        r->id[n] = text_is_name(slice_of(text + n, 1)) ? text[n] : '_';
    if (n == 0)
        r->id[n++] = '_';
    r->id[n] = '\0';
}
