/* SPDX-License-Identifier: Apache-2.0 */
/* directories.h - directories and bodies of blobs that were read lately, kept by a reader: the next query
 * looks at the same. One thread. */
#ifndef GRIDLINE_ARCHIVE_DIRECTORIES_H
#define GRIDLINE_ARCHIVE_DIRECTORIES_H

#include "archive/partition.h"
#include "base/map.h"

/* A blob by its number and the partition's (reader's own) number: never given twice. */
struct blob_place {
    uint64_t partition, blob;
};

struct directory_entry {
    struct blob_place place; /* the map's key */
    struct arena arena;
    const struct blob_directory *directory; /* NULL: it can't be read, */
    int error;                              /* for this reason */
    struct strbuf body;                     /* empty until it is asked */
    uint32_t uses;                          /* by scans: it stays */
    size_t size_bytes;
    struct directory_entry *newer, *older;
};

struct directories {
    struct map all;
    struct directory_entry *newest, *oldest;
    size_t size_bytes, max_bytes;
};

void directories_fini(struct directories *d);
/* Read from p if it is not here. 0, and it stays until directories_put; what is wrong with it is in the entry
 * (E_DAMAGE). -ENOMEM, -EIO. */
int directories_get(struct directories *d, struct partition *p, struct blob_place place,
                    struct directory_entry **out);
void directories_put(struct directories *d, struct directory_entry *e);
/* Its body, in e->body. */
int directories_body(struct directories *d, struct partition *p, struct directory_entry *e);

#endif
