/* SPDX-License-Identifier: Apache-2.0 */
/* Records of orders (o) and of what limits an action (l): the first byte chooses. What is read and written
 * again reads the same. */
#include "base/err.h"
#include "base/mem.h"
#include "guard/action_limit.h"
#include "guard/action_order.h"

#include <stdlib.h>

static struct strbuf out, text; /* reused: the cost would be in malloc */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void fuzz_order(struct slice record)
{
    static const struct action_config action = {.name = "a", .actuator = "log"};
    static const struct guard_config config = {.host = "h"};
    struct order *o = mem_alloc(sizeof *o), *again = mem_alloc(sizeof *again);
    struct slice name, name_again;
    struct act_datum *data;
    size_t n;
    int r = order_unpack(record, o, &name);
    check(r == 0 || r == E_PROTO || r == E_VERSION);
    if (r == 0) {
        char *z = mem_alloc(name.n + 1);
        memcpy(z, name.p, name.n);
        order_pack(o, z, &out);
        check(order_unpack(strbuf_slice(&out), again, &name_again) == 0);
        check(o->fault == again->fault && o->attempts == again->attempts && o->faults == again->faults &&
              o->lines == again->lines && o->left_out == again->left_out && o->ready_ns == again->ready_ns &&
              o->is_started == again->is_started &&
              slice_eq(strbuf_slice(&o->body), strbuf_slice(&again->body)));
        check(slice_eq_str(name_again, z));
        check(order_data(o, &action, &config, &text, &data, &n) == 0 && n >= 14);
        mem_free(data);
        mem_free(z);
    }
    order_destroy(o);
    order_destroy(again);
}

static void fuzz_limit(struct slice record)
{
    static const struct action_config config = {
        .name = "a", .rate_count = 3, .rate_ns = 1000, .breaker = 1, .breaker_ns = 9};
    struct action_limit l, again;
    struct slice name;
    check(action_limit_init(&l, &config) == 0 && action_limit_init(&again, &config) == 0);
    int r = action_limit_unpack(record, &name, &l);
    check(r == 0 || r == E_PROTO || r == E_VERSION);
    if (r == 0) {
        check(l.n <= 3 && action_limit_next(&l, 0, 50) >= 50); /* which also brings times into bounds */
        action_limit_pack(&l, &out);
        check(action_limit_unpack(strbuf_slice(&out), &name, &again) == 0);
        check(l.left_out == again.left_out && l.failures == again.failures && l.broken_ns == again.broken_ns);
        check(action_limit_next(&l, 0, 50) == action_limit_next(&again, 0, 50));
    }
    action_limit_fini(&l);
    action_limit_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct slice rest = slice_of((const char *)data + 1, size - 1);
    strbuf_reset(&out);
    strbuf_reset(&text);
    if (data[0] == 'o')
        fuzz_order(rest);
    else if (data[0] == 'l')
        fuzz_limit(rest);
    return 0;
}
