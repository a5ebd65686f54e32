/* SPDX-License-Identifier: Apache-2.0 */
/* template.h - data put into the texts of an actuator's options.
 *
 *     {NAME}            the value of that name, byte for byte
 *     {NAME?default}    the same; the default, which has no `}`, when there is no such value
 *     {NAME|json}       as a JSON string with its quotes; what is no UTF-8 becomes U+FFFD
 *     {NAME|url}        percent-encoded but for A-Z a-z 0-9 - . _ ~
 *     {{                a brace
 *
 * NAME is as names of fields are (text_is_name). `|json?default` is possible, too. A name of which there is
 * no value stands for an empty text: which names a fault has is not known when the configuration is read. Of
 * values with the same name the first counts. Nothing is looked at twice: a `{` in a value is that character.
 *
 * Two things can't be put into a C string, and so into an argument of a program, as they are:
 *
 *   - NUL. It becomes the four characters \x00: dropped, it would join what it parts; as it is, it would end
 *     the text there, and whoever wrote the value could cut off what stands behind. (Where bytes are sent as
 *     they are, in JSON on a program's input for instance, NUL stays NUL.)
 *   - More than TEMPLATE_TEXT_MAX bytes, which is what Linux takes as one argument; and TEMPLATE_ALL_MAX for
 *     all options of a run, so that they fit in an exec(2) together. Refusing would let a long value suppress
 *     the action. So the longest values of a text are cut to half, and half again, until it fits, then those
 *     of all texts; a value that was cut ends with "[... N bytes more]". Texts of the configuration and
 *     short values always stay whole. */
#ifndef GRIDLINE_ACTUATOR_TEMPLATE_H
#define GRIDLINE_ACTUATOR_TEMPLATE_H

#include "base/err.h"
#include "base/strbuf.h"
#include "net/act.h"

enum {
    TEMPLATE_TEXT_MAX = (128 << 10) - 1, /* MAX_ARG_STRLEN of the kernel counts the NUL */
    TEMPLATE_ALL_MAX = 512 << 10
};

struct template_values {
    const struct act_datum *data;
    size_t n;
    size_t value_max; /* longer ones are cut to so many bytes, and marked */
    /* How {NAME} is put into the text (actuator.h); NULL: as it is. */
    void (*escape)(struct strbuf *out, struct slice value);
    bool is_sample; /* every name has the value "1", which is of every type: to try a configuration */
};

/* -EINVAL: a `{` that begins none of the above; *why says so, with its column. */
int template_check(const char *text, struct diag *why);
bool template_is_plain(const char *text); /* no `{` in it */
/* Appends; the text has passed template_check. */
void template_fill(struct strbuf *out, const char *text, const struct template_values *values);
/* Appends a value as a C string can have it: cut to value_max, \x00 for NUL. */
void template_add_value(struct strbuf *out, struct slice value, size_t value_max);
/* The first of that name; NULL. */
const struct act_datum *template_find(const struct act_datum *data, size_t n, struct slice name);

#endif
