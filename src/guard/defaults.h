/* SPDX-License-Identifier: Apache-2.0 */
/* defaults.h - the rules that the guard has without being told (default_rules = true): texts, as they would
 * stand in guard.conf, so that `gridline config show` prints them and a site can copy, change or switch off
 * each by its name. They do nothing but show: no actions, which are the site's. */
#ifndef GRIDLINE_GUARD_DEFAULTS_H
#define GRIDLINE_GUARD_DEFAULTS_H

#include <stddef.h>

struct default_rule {
    const char *name, *help;
    const char *query, *clear_query; /* clear_query NULL = none */
    const char *key;                 /* columns, with spaces between; never NULL */
    const char *summary;
    const char *every, *for_, *clear_for, *fresh; /* durations; NULL = what rules have unless told */
    const char *severity;
    const char *parents; /* rules, with spaces between; NULL = none */
    const char *place;   /* "here" or "gateway"; NULL = where its tables are */
};

extern const struct default_rule default_rules[];
extern const size_t default_rules_n;

#endif
