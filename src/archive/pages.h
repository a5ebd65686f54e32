/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h - the pages of a SQLite file and its write-ahead log as they are, without SQLite: for a file that
 * it can't read any more. Only what salvage.c needs of the format (sqlite.org/fileformat2.html). Reads only.
 */
#ifndef GRIDLINE_ARCHIVE_PAGES_H
#define GRIDLINE_ARCHIVE_PAGES_H

#include "base/slice.h"

#include <stdint.h>

struct pages {
    int file, log;       /* -1: there is none */
    uint32_t page_bytes; /* of all of them */
    uint32_t n;          /* numbers are from 1 to it */
    uint64_t *in_log;    /* per page number: where the log has a newer one; 0 = it has not */
    bool has_late;       /* there are frames behind those that SQLite would read */
    unsigned char *page; /* of pages_get */
};

/* With what the log has committed, as SQLite reads it; with_late: with what follows behind a damaged place,
 * too, as far as the last commit that there is. page_bytes 0: as the file says. -ENOENT, E_DAMAGE (no size
 * makes sense), -EIO, -ENOMEM. */
int pages_open(const char *path, uint32_t page_bytes, bool with_late, struct pages *out);
void pages_fini(struct pages *p); /* of one that was not opened, file and log are -1 */
/* Page i, borrowed until the next. Empty: it can't be read. */
struct slice pages_get(struct pages *p, uint32_t i);

/* ---------------------------------------------------------------- rows */

/* A row of a table, where it lies: on one page, and behind that on others. */
struct page_row {
    uint64_t id;
    uint64_t payload_bytes;
    uint32_t page;
    uint32_t at;       /* where the payload begins on it */
    uint32_t n_local;  /* so much of it is there */
    uint32_t overflow; /* the page that has the rest; 0 = none */
};
/* Does one begin at `at` of that page? Says only that nothing speaks against it. */
bool page_row_parse(const struct pages *p, uint32_t number, struct slice page, uint32_t at,
                    struct page_row *out);
/* Bytes [from, from + n) of its payload. is_straight: pages of the rest are taken one behind the other, where
 * they usually are, whatever their links say. E_DAMAGE: the links break off. */
int page_row_read(struct pages *p, const struct page_row *row, uint64_t from, uint64_t n, bool is_straight,
                  char *to);
/* Rows of a leaf page of a table, by its list of them: at[i] is where row i begins; how many there are, at
 * most max. 0: it is no such page. */
size_t pages_leaf_rows(struct slice page, bool is_first, uint32_t *at, size_t max);

/* The columns of a row, by its first bytes: types and where they lie in the payload. */
enum { PAGE_COLUMNS_MAX = 8 };
struct page_columns {
    size_t n;
    struct {
        uint64_t type; /* of the record format: 0 NULL, 1-6 integers, 8, 9: 0 and 1, even from 12: bytes */
        uint64_t at, bytes;
    } v[PAGE_COLUMNS_MAX];
};
/* false: it has more, or is none. */
bool page_columns_parse(struct slice payload, uint64_t payload_bytes, struct page_columns *out);
/* An integer column's value. false: it is none. */
bool page_column_int(struct slice payload, const struct page_columns *c, size_t i, int64_t *out);

#endif
