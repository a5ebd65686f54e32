/* SPDX-License-Identifier: Apache-2.0 */
/* What /api/v1/live is asked: what is taken has lanes within the limits, each with a number of its own and
 * texts that end where they should; refused, it says why. */
#include "gateway/live_request.h"

#include <stdlib.h>

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static size_t count_ends(struct slice s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == '\0';
    return n;
}

static void check_lane(const struct live_request *r, size_t i)
{
    const struct live_lane *lane = &r->lanes[i];
    struct strbuf tile = {0};
    check(lane->number > 0 && lane->level <= LIVE_LEVEL_MAX);
    check(count_ends(strbuf_slice(&lane->head)) == 2 && lane->head.p[lane->head.n - 1] == '\0');
    check(lane->params.n == 0 || lane->params.p[lane->params.n - 1] == '\0');
    for (size_t k = 0; k < i; k++)
        check(r->lanes[k].number != lane->number);
    live_lane_tile(lane, live_lane_index(lane, -1), true, &tile);
    check(count_ends(strbuf_slice(&tile)) == 5 + count_ends(strbuf_slice(&lane->params)));
    strbuf_fini(&tile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct live_request r = {.n = 0};
    struct diag why = {0};
    if (live_request_parse(slice_of((const char *)data, size), &r, &why) < 0) {
        check(why.message[0]);
    } else {
        check(r.n > 0 && r.n <= LIVE_LANES_MAX);
        for (size_t i = 0; i < r.n; i++)
            check_lane(&r, i);
    }
    live_request_fini(&r);
    return 0;
}
