/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that are kept over a restart: any bytes, as they are and with the checksum that they should have.
 * What is taken has names that end, and is the same when it was written and read again. */
#include "base/crc32c.h"
#include "gateway/sign_in_file.h"

#include <stdlib.h>

enum { SESSIONS_MAX = 16 };

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void look(struct slice bytes)
{
    static struct sign_in_session all[SESSIONS_MAX], again[SESSIONS_MAX];
    struct sign_in_bond bond = {0};
    struct strbuf out = {0};
    int n = sign_in_file_parse(bytes, &bond, all, SESSIONS_MAX);
    check(n == E_PROTO || (n >= 0 && n <= SESSIONS_MAX));
    for (int i = 0; i < n; i++)
        check(memchr(all[i].who.name, '\0', sizeof all[i].who.name) != NULL);
    if (n >= 0) {
        sign_in_file_print(&out, &bond, all, (size_t)n);
        check(sign_in_file_parse(strbuf_slice(&out), &bond, again, SESSIONS_MAX) == n);
        for (int i = 0; i < n; i++)
            check(memcmp(all[i].hash, again[i].hash, sizeof all[i].hash) == 0 &&
                  all[i].until_ns == again[i].until_ns && strcmp(all[i].who.name, again[i].who.name) == 0);
    }
    strbuf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct strbuf whole = {0};
    struct slice bytes = slice_of((const char *)data, size);
    look(bytes);
    strbuf_add_slice(&whole, bytes);
    strbuf_add_u32(&whole, crc32c(0, bytes));
    look(strbuf_slice(&whole));
    strbuf_fini(&whole);
    return 0;
}
