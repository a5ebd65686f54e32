/* SPDX-License-Identifier: Apache-2.0 */
/* manual.h - the manual, made from the option tables: as text for a terminal and as roff for man(1). */
#ifndef GRIDLINE_CMD_MANUAL_H
#define GRIDLINE_CMD_MANUAL_H

#include "base/strbuf.h"
#include "cmd/options.h"

enum manual_form { MANUAL_TEXT, MANUAL_ROFF };

/* The verbs of the command, as main has them. */
struct verb_list {
    const struct verb *const *v;
    size_t n;
};

/* The page of one verb: gridline-NAME(1). */
void manual_verb(struct strbuf *out, enum manual_form form, const struct verb *v, struct verb_list all);
/* The page of the command itself: gridline(1). */
void manual_command(struct strbuf *out, enum manual_form form, struct verb_list all);
/* The few lines that --help prints: synopsis and options. */
void manual_usage(struct strbuf *out, const struct verb *v);
/* The one screen that `gridline` alone prints. */
void manual_cheat_sheet(struct strbuf *out, struct verb_list all);

#endif
