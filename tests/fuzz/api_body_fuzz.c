/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON body of POST /api/v1/control: what is taken has a verb, values with names within the limits, and
 * can be sent as a list of named values; refused, it says why. */
#include "base/text.h"
#include "gateway/api_body.h"
#include "gateway/api_rows.h"

#include <stdlib.h>

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct strbuf verb = {0}, list = {0};
    struct args_writer args = {0};
    struct diag why = {0};
    if (api_body_read(slice_of((const char *)data, size), &verb, &args, &why) < 0) {
        check(why.message[0]);
    } else {
        struct args read;
        check(verb.n && verb.n <= API_VERB_MAX && text_is_name(strbuf_slice(&verb)));
        check(args.n < ARGS_MAX);
        args_put(&list, args_of(&args));
        struct cursor c = cursor_of(strbuf_slice(&list));
        check(args_get(&c, &read) && read.n == args.n); /* as a frame has it */
        strbuf_reset(&list);
        rows_put_row(&list, args_of(&args), SLICE_LIT(""));
        check(list.n >= 2 && list.p[0] == '{' && list.p[list.n - 1] == '}');
    }
    strbuf_fini(&verb);
    strbuf_fini(&list);
    args_writer_fini(&args);
    return 0;
}
