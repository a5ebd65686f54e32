/* SPDX-License-Identifier: Apache-2.0 */
/* lifeline_ids.h - which fields of which events are the id of an object, whose events are its lifeline.
 *
 * Declared by text, one declaration or several by commas:
 *
 *     id                     the field id of any event
 *     job+task               the two fields together
 *     transfer@gridftp.*     the field transfer of events whose name matches
 *
 * The text before the @ is the name of the declaration: those of the same name are one kind of object. The
 * text of an id is the text of its value, as num.h prints numbers; of several fields the texts with a +
 * between them, where + and \ of a value have a \ before them. So 17 and "17" are the same id. */
#ifndef GRIDLINE_ARCHIVE_LIFELINE_IDS_H
#define GRIDLINE_ARCHIVE_LIFELINE_IDS_H

#include "archive/rows.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/strbuf.h"

enum {
    ID_FIELDS_MAX = 4, /* of one declaration */
    ID_DECLARED_MAX = 16,
    ID_TEXT_MAX = 512 /* bytes of an id: what is longer is none, and counted */
};

struct id_declared {
    struct slice name; /* "job+task" */
    struct slice fields[ID_FIELDS_MAX];
    uint32_t n_fields;
    struct slice events; /* pattern; "" = all */
};

struct id_set {
    struct id_declared declared[ID_DECLARED_MAX];
    size_t n;
    const char *fields[ID_DECLARED_MAX * ID_FIELDS_MAX]; /* every field once: for blob_options.ids */
    size_t n_fields;
    struct arena arena;
};

/* text NULL = "id". *why says what is wrong, with the column. */
int id_set_parse(const char *text, struct id_set *out, struct diag *why);
void id_set_fini(struct id_set *s); /* a zeroed one is fine */

/* Where the parts of an id are in rows of one stream. */
struct id_place {
    const struct id_declared *declared;
    uint32_t number; /* of the first declaration of that name */
    struct {
        const struct column *columns[2]; /* of that name, of different types: at most one has a value */
        struct value key;                /* or it is in the stream's key */
    } parts[ID_FIELDS_MAX];
};
/* Those declarations whose fields rows of the stream can have, at most one a name. table, key and rows must
 * outlive the places. Returns how many. */
size_t id_places(const struct id_set *s, const struct table_def *table, struct slice key,
                 const struct rows *rows, struct id_place out[ID_DECLARED_MAX]);
/* The id of a row: 1, *out borrowed from rows, key or scratch, which is made new. 0: it has none. E_LIMIT: it
 * is too long; -ENOMEM. */
int id_text(const struct id_place *p, uint32_t row, struct strbuf *scratch, struct slice *out);
/* The text of one value: numbers as num.h has them, bytes in base64. */
void id_put_value(struct strbuf *out, struct value v);

#endif
