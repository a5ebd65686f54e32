/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/helper.h"

#define HELPER(name) extern const struct helper_ops helper_##name;
#include "helper/list.def"
#undef HELPER

#define HELPER(name) &helper_##name,
const struct helper_ops *const helper_list[] = {
#include "helper/list.def"
    NULL};
#undef HELPER
