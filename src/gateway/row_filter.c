/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/row_filter.h"

#include "event/event.h"
#include "event/predicate.h"

#include <errno.h>

int row_filter_init(struct row_filter *f, const char *name, struct slice where, int64_t now_ns,
                    struct diag *why)
{
    *f = (struct row_filter){.name = name};
    if (where.n == 0)
        return 0;
    f->registry = registry_create();
    if (!f->registry)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    return predicate_compile(where, now_ns, &f->where, why);
}

void row_filter_fini(struct row_filter *f)
{
    predicate_destroy(f->where);
    registry_destroy(f->registry);
    *f = (struct row_filter){0};
}

/* Apart, as its room is much to make for each row of those that ask without a predicate. */
static bool test(struct row_filter *f, struct args row)
{
    struct named_value named[EVENT_FIELDS_MAX];
    struct value values[EVENT_FIELDS_MAX];
    uint16_t index[EVENT_FIELDS_MAX];
    const struct schema *schema;
    struct slice host = args_text(row, "host");
    size_t n = 0;
    struct arg a;
    while (n < EVENT_FIELDS_MAX && args_next(&row, &a))
        named[n++] = (struct named_value){a.name, a.value};
    int r = registry_learn(f->registry, slice_str(f->name), named, n, &schema, index);
    if (r < 0) {
        f->failed = r;
        return false;
    }
    for (uint32_t i = 0; i < schema->n_fields; i++)
        values[i] = value_none();
    for (size_t i = 0; i < n; i++)
        values[index[i]] = named[i].value;
    return predicate_test(f->where, &(struct event){.host = host,
                                                    .prog = SLICE_LIT("gridline-gateway"),
                                                    .schema = schema,
                                                    .values = values,
                                                    .level = LEVEL_INFO});
}

bool row_filter_passes(struct row_filter *f, struct args row)
{
    return !f->where || test(f, row);
}
