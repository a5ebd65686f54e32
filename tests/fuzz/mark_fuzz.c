/* SPDX-License-Identifier: Apache-2.0 */
/* A mark's record (type 3). What it decodes to lies inside it, one behind the other, within the limits;
 * written again it decodes to the same, and is not longer. */
#include "net/uplink_internal.h"

#include <stdlib.h>

static struct strbuf out; /* reused: the cost would be in malloc */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice payload = slice_of((const char *)data, size), name, position, block, again[3];
    if (uplink_mark_get(payload, &name, &position, &block) < 0)
        return 0;
    check(name.n >= 1 && name.n <= UPLINK_MARK_NAME_MAX && position.n <= UPLINK_MARK_POSITION_MAX);
    check(name.p > payload.p && name.p + name.n < position.p && position.p + position.n == block.p);
    check(block.p + block.n == payload.p + payload.n);
    strbuf_reset(&out);
    uplink_mark_put(&out, name, position);
    strbuf_add_slice(&out, block);
    check(!strbuf_failed(&out) && out.n <= size);
    check(uplink_mark_get(strbuf_slice(&out), &again[0], &again[1], &again[2]) == 0);
    check(slice_eq(name, again[0]) && slice_eq(position, again[1]) && slice_eq(block, again[2]));
    return 0;
}
