/* SPDX-License-Identifier: Apache-2.0 */
#include "viewer/viewer.h"

const struct viewer_asset *viewer_find(struct slice name)
{
    for (const struct viewer_asset *a = viewer_assets; a->name; a++)
        if (slice_eq_str(name, a->name))
            return a;
    return NULL;
}
