/* SPDX-License-Identifier: Apache-2.0 */
/* All encodings, and finding one by name, file name or content. A file of its own because reading XML needs
 * expat: libgridline, which needs libc alone, runs encodings (encoding.c) but does not link this table. */
#include "event/encodings.h"

static const struct encoding *const encodings[] = {
    &encoding_ulm, &encoding_bp, &encoding_ndjson, &encoding_xml, &encoding_csv, &encoding_binary,
};

enum { ENCODINGS = sizeof encodings / sizeof *encodings };

/* Other names people use; also as file name endings. */
static const struct {
    struct slice alias;
    const char *name;
} aliases[] = {
    {{"json", 4}, "ndjson"},
    {{"jsonl", 5}, "ndjson"},
};

const struct encoding *encoding_at(size_t i)
{
    return i < ENCODINGS ? encodings[i] : NULL;
}

const struct encoding *encoding_by_name(struct slice name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (slice_eq_nocase(name, aliases[i].alias))
            name = slice_str(aliases[i].name);
    for (size_t i = 0; i < ENCODINGS; i++)
        if (slice_eq_nocase(name, slice_str(encodings[i]->name)))
            return encodings[i];
    return NULL;
}

const struct encoding *encoding_by_suffix(struct slice file_name)
{
    const char *dot = file_name.n ? memrchr(file_name.p, '.', file_name.n) : NULL;
    if (!dot)
        return NULL;
    struct slice suffix = slice_from(file_name, (size_t)(dot - file_name.p));
    for (size_t i = 0; i < ENCODINGS; i++)
        if (slice_eq_nocase(suffix, slice_str(encodings[i]->suffix)))
            return encodings[i];
    return encoding_by_name(slice_from(suffix, 1));
}

const struct encoding *encoding_detect(struct slice head)
{
    for (size_t i = 0; i < ENCODINGS; i++)
        if (encodings[i]->detect && encodings[i]->detect(head))
            return encodings[i];
    return NULL;
}
