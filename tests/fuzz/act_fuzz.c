/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to gridline-act and its replies: the first byte chooses (q, r). What decodes must encode to the
 * same bytes. */
#include "base/err.h"
#include "net/act.h"

#include <errno.h>
#include <stdlib.h>

static struct strbuf out; /* reused: the cost would be in malloc */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void fuzz_request(struct slice bytes)
{
    struct arena arena = {0};
    struct act_request r;
    int code = act_request_get(bytes, &arena, &r);
    check(code == 0 || code == E_PROTO || code == E_LIMIT || code == E_VERSION || code == -ENOMEM);
    if (code == 0) {
        check(r.left_ns >= 0 && r.n_settings <= ACT_SETTINGS_MAX && r.n_data <= ACT_DATA_MAX);
        check(act_request_put(&out, &r) == 0 && slice_eq(strbuf_slice(&out), bytes));
    }
    arena_fini(&arena);
}

static void fuzz_reply(struct slice bytes)
{
    struct act_reply r, again;
    if (act_reply_get(bytes, &r) < 0)
        return;
    check(r.code <= 0 && r.text.n + r.output.n < ACT_REPLY_MAX);
    act_reply_put(&out, &r);
    check(act_reply_get(strbuf_slice(&out), &again) == 0); /* it may have been cut */
    check(r.code == again.code && r.exit_code == again.exit_code && slice_starts(r.text, again.text) &&
          slice_starts(r.output, again.output));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct slice rest = slice_of((const char *)data + 1, size - 1);
    strbuf_reset(&out);
    if (data[0] == 'q')
        fuzz_request(rest);
    else if (data[0] == 'r')
        fuzz_reply(rest);
    return 0;
}
