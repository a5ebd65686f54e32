/* SPDX-License-Identifier: Apache-2.0 */
/* Requests through a pinhole and their replies: the first byte chooses (q, r). What decodes must encode to the same
 * bytes, and hold nothing but what the layout has. */
#include "base/text.h"
#include "net/launch.h"

#include <stdlib.h>

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void fuzz_request(struct slice bytes)
{
    struct launch_request r;
    unsigned char again[LAUNCH_REQUEST];
    int code = launch_request_get(bytes, &r);
    check(code == 0 || code == E_PROTO || code == E_VERSION);
    if (code < 0)
        return;
    check(r.kind >= LAUNCH_START && r.kind <= LAUNCH_ENDED && strlen(r.id) <= LAUNCH_ID_MAX);
    check((r.kind == LAUNCH_START) == !r.id[0] && (!r.id[0] || text_is_name(slice_str(r.id))));
    check(!r.is_signal || (r.code >= 1 && r.code <= 64));
    launch_request_put(again, &r);
    check(bytes.n == sizeof again && memcmp(again, bytes.p, sizeof again) == 0);
}

static void fuzz_reply(struct slice bytes)
{
    enum launch_result r;
    unsigned char again[LAUNCH_REPLY];
    if (launch_reply_get(bytes, &r) < 0)
        return;
    launch_reply_put(again, r);
    check(bytes.n == sizeof again && memcmp(again, bytes.p, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct slice rest = slice_of((const char *)data + 1, size - 1);
    if (data[0] == 'q')
        fuzz_request(rest);
    else if (data[0] == 'r')
        fuzz_reply(rest);
    return 0;
}
