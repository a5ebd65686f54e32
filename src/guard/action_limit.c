/* SPDX-License-Identifier: Apache-2.0 */
/* The rate is exact: of any stretch of rate_ns at most rate_count starts. A token bucket would be smaller and
 * allow nearly twice that, which is not what "10/1h" says. */
#include "guard/action_limit.h"

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>

enum { PLAIN = 1, IN_GROUPS = 2, PACKED_MAX = 1000 };

int action_limit_init(struct action_limit *l, const struct action_config *config)
{
    *l = (struct action_limit){.config = config};
    l->starts = mem_try_alloc((config->rate_count + 1) * sizeof *l->starts);
    return l->starts ? 0 : -ENOMEM;
}

void action_limit_fini(struct action_limit *l)
{
    mem_free(l->starts);
    l->starts = NULL;
}

static int64_t *start_at(const struct action_limit *l, size_t i) /* the i-th of those kept, from the oldest */
{
    return &l->starts[(l->at + l->config->rate_count - l->n + i) % l->config->rate_count];
}

/* What lies ahead can only be the work of a clock that was set back. */
static void bound_times(struct action_limit *l, int64_t now_ns)
{
    for (size_t i = l->n; i-- > 0 && *start_at(l, i) > now_ns;)
        *start_at(l, i) = now_ns;
    if (l->broken_ns > now_ns && l->broken_ns - now_ns > l->config->breaker_ns)
        l->broken_ns = now_ns + l->config->breaker_ns;
}

int64_t action_limit_next(struct action_limit *l, size_t running, int64_t now_ns)
{
    const struct action_config *c = l->config;
    int64_t next_ns = now_ns;
    bound_times(l, now_ns);
    if (running >= (c->concurrency ? c->concurrency : 1) || (l->broken_ns && running > 0))
        return INT64_MAX;
    if (l->broken_ns > next_ns)
        next_ns = l->broken_ns;
    if (c->rate_count && l->n == c->rate_count && *start_at(l, 0) + c->rate_ns > next_ns)
        next_ns = *start_at(l, 0) + c->rate_ns;
    return next_ns;
}

void action_limit_start(struct action_limit *l, int64_t now_ns)
{
    const uint32_t max = l->config->rate_count;
    if (max == 0)
        return;
    l->starts[l->at] = now_ns;
    l->at = (l->at + 1) % max;
    l->n += l->n < max;
}

void action_limit_unstart(struct action_limit *l)
{
    const uint32_t max = l->config->rate_count;
    if (max == 0 || l->n == 0)
        return;
    l->at = (l->at + max - 1) % max;
    l->n--;
}

void action_limit_end(struct action_limit *l, bool is_done, int64_t now_ns)
{
    if (is_done) {
        l->failures = 0;
        l->broken_ns = 0;
        return;
    }
    l->failures += l->failures < UINT32_MAX;
    if (l->config->breaker && l->failures >= l->config->breaker)
        l->broken_ns = now_ns + l->config->breaker_ns;
}

int64_t action_limit_pause(const struct action_config *c, uint32_t attempt, uint64_t chance)
{
    int64_t ns = c->retry_ns;
    for (uint32_t i = 1; i < attempt && ns < c->retry_max_ns; i++)
        ns *= 2;
    if (ns > c->retry_max_ns)
        ns = c->retry_max_ns;
    return ns + (ns >= 4 ? (int64_t)(chance % (uint64_t)(ns / 4)) : 0);
}

/* Those that are too old limit nothing more. */
static size_t first_that_counts(const struct action_limit *l)
{
    size_t i = 0;
    while (i < l->n && *start_at(l, i) + l->config->rate_ns <= *start_at(l, l->n - 1))
        i++;
    return i;
}

/* Starts in groups of as many from the newest back, each with the time of its last: so the rate can't be
 * passed for what a restart knows. */
void action_limit_pack(const struct action_limit *l, struct strbuf *out)
{
    const size_t first = first_that_counts(l), n = l->n - first, each = n ? (n - 1) / PACKED_MAX + 1 : 1;
    strbuf_add_char(out, each > 1 ? IN_GROUPS : PLAIN);
    strbuf_add_text(out, slice_str(l->config->name));
    strbuf_add_varint(out, l->left_out);
    strbuf_add_varint(out, l->failures);
    strbuf_add_u64(out, (uint64_t)l->broken_ns);
    if (each > 1)
        strbuf_add_varint(out, each);
    for (size_t i = n ? first + (n - 1) % each : l->n; i < l->n; i += each)
        strbuf_add_u64(out, (uint64_t)*start_at(l, i));
}

/* So that nothing that is added to it overflows. */
static bool is_time(int64_t ns)
{
    return ns >= 0 && ns < INT64_MAX / 2;
}

int action_limit_unpack(struct slice record, struct slice *name, struct action_limit *l)
{
    struct cursor c = cursor_of(record);
    const uint8_t version = cursor_u8(&c);
    if (!c.bad && version > IN_GROUPS)
        return E_VERSION;
    *name = cursor_text(&c);
    const uint64_t left_out = cursor_varint(&c), failures = cursor_varint(&c);
    const int64_t broken_ns = (int64_t)cursor_u64(&c);
    const uint64_t each = version == IN_GROUPS ? cursor_varint(&c) : 1;
    if (c.bad || version < PLAIN || failures > UINT32_MAX || !is_time(broken_ns) || each < 1 ||
        each > UINT32_MAX || cursor_left(&c) % 8)
        return E_PROTO;
    for (struct cursor starts = c; cursor_left(&starts);)
        if (!is_time((int64_t)cursor_u64(&starts)))
            return E_PROTO;
    if (!l)
        return 0;
    l->left_out = left_out;
    l->failures = (uint32_t)failures;
    l->broken_ns = l->config->breaker ? broken_ns : 0;
    while (cursor_left(&c)) {
        const int64_t at_ns = (int64_t)cursor_u64(&c);
        for (uint64_t i = 0; i < each && i < l->config->rate_count; i++)
            action_limit_start(l, at_ns); /* of more than the rate allows now, the last ones */
    }
    return 0;
}
