/* SPDX-License-Identifier: Apache-2.0 */
/* db.h - what partitions and the catalogue share of SQLite: opening a file, errors, statements that are kept,
 * checksums of rows. One connection belongs to one thread. */
#ifndef GRIDLINE_ARCHIVE_DB_H
#define GRIDLINE_ARCHIVE_DB_H

#include "base/err.h"
#include "base/strbuf.h"

#include <sqlite3.h>

enum { DB_WRITE = 1, DB_CREATE = 2 };
enum { DB_PAGE_BYTES = 8192 };

/* With DB_WRITE what is found is durable from then on. Without it nothing is ever written into the file.
 * -ENOENT: there is none, or one that has been begun and has no tables yet (with DB_CREATE: empty, and
 * *is_new). E_DAMAGE: it is no SQLite file, or not one of ours any more. */
int db_open(const char *path, unsigned flags, sqlite3 **out, bool *is_new, struct diag *why);
void db_close(sqlite3 *db); /* NULL is fine; all statements have been finalised */

/* What a result code of SQLite is as one of ours; 0 for OK, ROW and DONE. */
int db_error(sqlite3 *db, int rc);
int db_exec(sqlite3 *db, const char *sql); /* constant texts */
/* One number that a constant text gives. */
int db_number(sqlite3 *db, const char *sql, int64_t *out);
/* Is the file well formed, as far as SQLite can tell? Reads all of it. E_DAMAGE: *why says what is not. */
int db_check(sqlite3 *db, struct diag *why);
/* Moves the write-ahead log into the file. -EBUSY: a reader still needs the rest of it. */
int db_checkpoint(sqlite3 *db);

/* A text that is prepared at its first use and then kept. */
struct db_statement {
    const char *sql;
    sqlite3_stmt *s;
};
/* NULL: *r says why. It has been reset. */
sqlite3_stmt *db_use(sqlite3 *db, struct db_statement *s, int *r);
/* 1: a row; 0: the end. The statement is reset unless there is a row. */
int db_step(sqlite3 *db, sqlite3_stmt *s);
/* Steps one that gives no rows. */
int db_run(sqlite3 *db, sqlite3_stmt *s);
void db_finish(struct db_statement *s, size_t n);
/* Good until the statement moves. */
struct slice db_column_bytes(sqlite3_stmt *s, int column);

/* The checksum of a row: of its numbers, and its bytes. */
uint32_t db_row_crc(const uint64_t *numbers, size_t n, struct slice bytes);

#endif
