/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/enrol.h"

#include <errno.h>

int enrol_create(const char *dir, struct enrol **out, struct diag *why)
{
    (void)out;
    return diag_set(why, -ENOTSUP, 0, "%s: no signing yet", dir);
}

void enrol_destroy(struct enrol *e)
{
    (void)e;
}

void enrol_join(struct enrol *e, const struct frame_join *join, int64_t now_ns, struct frame_certified *out)
{
    (void)e, (void)join, (void)now_ns, (void)out;
}

void enrol_certify(struct enrol *e, const struct access_identity *who, const struct frame_certify *ask, int64_t now_ns,
                   struct frame_certified *out)
{
    (void)e, (void)who, (void)ask, (void)now_ns, (void)out;
}
