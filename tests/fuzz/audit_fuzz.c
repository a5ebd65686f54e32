/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of an audit. The first byte chooses: l, the rest is a line with whatever hash; h, the rest is a line
 * without its end, which gets the hash that is right; v, the rest is a value that is written and must be read
 * back the same. */
#include "base/err.h"
#include "guard/audit_line.h"

#include <stdlib.h>

static struct strbuf line, value; /* reused: the cost would be in malloc */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void read_line(struct slice text)
{
    struct audit_line l;
    struct slice name;
    int r = audit_line_get(text, &l);
    check(r == 0 || r == E_DAMAGE || r == E_PROTO);
    if (r < 0)
        return;
    check(l.n > 0 && l.prev.n == AUDIT_HASH && l.hash.n == AUDIT_HASH && l.data.n >= 2);
    size_t steps = 0;
    for (size_t at = 0; (r = audit_line_datum(&l, &at, &name, &value)) > 0;)
        check(++steps == at && at < text.n);
    check(r == 0 || r == E_PROTO);
}

static void hash_line(struct slice body)
{
    char hash[AUDIT_HASH + 1];
    check(audit_hash(body, hash) == 0);
    strbuf_add_slice(&line, body);
    strbuf_printf(&line, ",\"hash\":\"%s\"}", hash);
    read_line(strbuf_slice(&line));
}

static void write_value(struct slice v)
{
    const struct act_datum data[] = {{SLICE_LIT("before"), SLICE_LIT("\xff")}, {SLICE_LIT("value"), v}};
    char hash[AUDIT_HASH + 1];
    struct audit_line l;
    struct slice name;
    size_t at = 1;
    if (audit_line_put(&line, 1, AUDIT_NO_HASH, 1, "fuzz", data, 2, hash) == E_LIMIT) {
        check(line.n == 0);
        return;
    }
    check(memchr(line.p, '\n', line.n) == line.p + line.n - 1);
    check(audit_line_get(slice_of(line.p, line.n - 1), &l) == 0);
    check(audit_line_datum(&l, &at, &name, &value) == 1 && slice_eq_str(name, "value"));
    check(slice_eq(strbuf_slice(&value), v));
    check(audit_line_datum(&l, &at, &name, &value) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct slice rest = slice_of((const char *)data + 1, size - 1);
    strbuf_reset(&line);
    if (data[0] == 'l')
        read_line(rest);
    else if (data[0] == 'h')
        hash_line(rest);
    else if (data[0] == 'v')
        write_value(rest);
    return 0;
}
