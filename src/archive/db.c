/* SPDX-License-Identifier: Apache-2.0 */
/* How SQLite is used here, and why:
 *
 *   journal_mode=WAL       readers and the writer do not wait for each other; a commit is one write and one
 *                          fsync (synchronous=FULL: it has happened when COMMIT returns)
 *   wal_autocheckpoint=0   moving the log into the file takes as long as the data is large: whoever commits
 *                          says when (db_checkpoint)
 *   page_size=8192         a blob of 192 KiB is 25 pages: half the work of 4096 at reading, and what is
 *                          unused at its end is 1% (16384: 2%, and small files twice as large)
 *   cache_size=256 KiB     a blob is read once and kept by its reader (directories) or not at all (bodies):
 *                          a page cache would only hold them twice. Beyond it a writer spills into the log
 *   mmap_size=0            a disk error must be a return code, not SIGBUS
 *   cell_size_check        a broken page is found when it is read
 *   auto_vacuum, secure_delete off: what a merge frees is used again by the next blobs; Debian builds SQLite
 *                          with secure_delete on, which would write every freed page once more
 *
 * A flip of the mode in a file's header would make SQLite leave its log aside without a word: a file that is
 * not in WAL mode is damaged. So is one without tables that has more than its first page. */
#include "archive/db.h"

#include "base/crc32c.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { BUSY_MS = 5000 };

static int io_error(sqlite3 *db, int rc)
{
    int system = db ? sqlite3_system_errno(db) : 0;
    if (rc == SQLITE_IOERR_NOMEM)
        return -ENOMEM;
    if (system == ENOSPC || system == EDQUOT)
        return -ENOSPC;
    return -EIO;
}

/* SQLite calls EIO of a read a damaged file (SQLITE_IOERR_CORRUPTFS, and that SQLITE_CORRUPT). For us it is
 * none: what can't be read now may be there the next time, and nothing is to be set aside for it. The last
 * error of a file stays until it is opened again, and so does -EIO. */
static bool is_read_error(sqlite3 *db)
{
    int main_errno = 0, wal_errno = 0;
    sqlite3_file *wal = NULL;
    (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO,
                               &main_errno); /* or there is no file yet */
    (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (wal && wal->pMethods)
        (void)wal->pMethods->xFileControl(wal, SQLITE_FCNTL_LAST_ERRNO, &wal_errno);
    return main_errno == EIO || wal_errno == EIO;
}

int db_error(sqlite3 *db, int rc)
{
    int extended = db ? sqlite3_extended_errcode(db) : rc;
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_IOERR:
        return io_error(db, extended);
    case SQLITE_CANTOPEN:
        return db && sqlite3_system_errno(db) ? -sqlite3_system_errno(db) : -ENOENT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return -EBUSY;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_TOOBIG:
        return E_LIMIT;
    case SQLITE_INTERRUPT:
        return -ECANCELED;
    case SQLITE_MISUSE:
        return -EINVAL;
    case SQLITE_CORRUPT:
        return db && is_read_error(db) ? -EIO : E_DAMAGE;
    default: /* NOTADB; ERROR: a table or column of ours is not there; CONSTRAINT: nor are numbers right */
        return E_DAMAGE;
    }
}

int db_exec(sqlite3 *db, const char *sql)
{
    return db_error(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

sqlite3_stmt *db_use(sqlite3 *db, struct db_statement *s, int *r)
{
    if (s->s) {
        (void)sqlite3_reset(s->s); /* the result of its last step is known */
        return s->s;
    }
    int rc = sqlite3_prepare_v3(db, s->sql, -1, SQLITE_PREPARE_PERSISTENT, &s->s, NULL);
    *r = db_error(db, rc);
    return s->s;
}

int db_step(sqlite3 *db, sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        return 1;
    int r = db_error(db, rc);
    (void)sqlite3_reset(s); /* gives the same code again */
    return r;
}

int db_run(sqlite3 *db, sqlite3_stmt *s)
{
    int r = db_step(db, s);
    if (r > 0)
        (void)sqlite3_reset(s); /* of a row: nothing can be wrong */
    return r < 0 ? r : 0;
}

void db_finish(struct db_statement *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)sqlite3_finalize(s[i].s); /* as db_step */
        s[i].s = NULL;
    }
}

struct slice db_column_bytes(sqlite3_stmt *s, int column)
{
    const void *p = sqlite3_column_blob(s, column);
    int n = sqlite3_column_bytes(s, column);
    return p ? slice_of(p, (size_t)n) : slice_of("", 0);
}

uint32_t db_row_crc(const uint64_t *numbers, size_t n, struct slice bytes)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t le = htole64(numbers[i]);
        crc = crc32c(crc, slice_of((const char *)&le, sizeof le));
    }
    return crc32c(crc, bytes);
}

int db_number(sqlite3 *db, const char *sql, int64_t *out)
{
    struct db_statement s = {.sql = sql};
    int r = 0;
    if (db_use(db, &s, &r) && (r = db_step(db, s.s)) > 0) {
        *out = sqlite3_column_int64(s.s, 0);
        r = 0;
    } else if (r == 0) {
        r = E_DAMAGE;
    }
    db_finish(&s, 1);
    return r;
}

int db_check(sqlite3 *db, struct diag *why)
{
    struct db_statement s = {.sql = "PRAGMA quick_check(1)"};
    int r = 0;
    if (db_use(db, &s, &r) && (r = db_step(db, s.s)) > 0) {
        struct slice said = db_column_bytes(s.s, 0);
        r = slice_eq_str(said, "ok") ? 0 : diag_set(why, E_DAMAGE, 0, "%.*s", SLICE_ARG(said));
    } else if (r < 0) {
        r = diag_set(why, r, 0, "%s", sqlite3_errmsg(db));
    }
    db_finish(&s, 1);
    return r;
}

int db_checkpoint(sqlite3 *db)
{
    (void)sqlite3_busy_timeout(db, 0); /* never fails: whoever reads is not waited for */
    int rc = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    int r = db_error(db, rc);
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    return r;
}

/* A file that nobody can write beside (no -shm can be made there) and whose log is empty can be read as it
 * is. */
static int open_immutable(const char *path, sqlite3 **out)
{
    struct strbuf uri = {0};
    strbuf_printf(&uri, "%s-wal", path);
    bool has_log = strbuf_failed(&uri) || access(uri.p, F_OK) == 0;
    strbuf_reset(&uri);
    strbuf_add_str(&uri, "file:");
    for (const char *p = path; *p; p++)
        if (*p == '?' || *p == '#' || *p == '%')
            strbuf_printf(&uri, "%%%02x", (unsigned char)*p);
        else
            strbuf_add_char(&uri, *p);
    strbuf_add_str(&uri, "?immutable=1");
    int r = strbuf_failed(&uri) ? -ENOMEM : 0;
    if (r == 0 && has_log)
        r = -EACCES;
    if (r == 0) {
        int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
        r = db_error(NULL, sqlite3_open_v2(uri.p, out, flags, NULL));
    }
    strbuf_fini(&uri);
    return r;
}

static int set_up(sqlite3 *db, unsigned flags)
{
    (void)sqlite3_extended_result_codes(db, 1);
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    int r = db_exec(db, "PRAGMA cell_size_check = 1; PRAGMA mmap_size = 0; PRAGMA cache_size = -256;"
                        "PRAGMA temp_store = 2; PRAGMA wal_autocheckpoint = 0");
    if (r == 0 && flags & DB_WRITE)
        r = db_exec(db, "PRAGMA synchronous = 2; PRAGMA secure_delete = 0; PRAGMA journal_size_limit = 0");
    return r;
}

/* 1: it is empty; 0: it has tables. */
static int look(sqlite3 *db)
{
    int64_t tables = 0, pages = 0;
    int r = db_exec(db, "BEGIN"); /* both of one commit: somebody may be making the tables right now */
    if (r == 0)
        r = db_number(db, "SELECT count(*) FROM sqlite_schema", &tables);
    if (r == 0 && tables == 0)
        r = db_number(db, "PRAGMA page_count", &pages);
    if (!sqlite3_get_autocommit(db))
        (void)db_exec(db, "ROLLBACK"); /* nothing was written */
    if (r < 0)
        return r;
    return tables ? 0 : pages <= 1 ? 1 : E_DAMAGE;
}

static int is_wal(sqlite3 *db)
{
    struct db_statement s = {.sql = "PRAGMA journal_mode"};
    int r = 0;
    if (db_use(db, &s, &r) && (r = db_step(db, s.s)) > 0)
        r = slice_eq_str(db_column_bytes(s.s, 0), "wal") ? 0 : E_DAMAGE;
    db_finish(&s, 1);
    return r;
}

static int begin_file(sqlite3 *db)
{
    int r = db_exec(db, "PRAGMA page_size = 8192; PRAGMA auto_vacuum = 0; PRAGMA journal_mode = WAL");
    return r < 0 ? r : is_wal(db);
}

static int open_file(const char *path, unsigned flags, sqlite3 **out)
{
    int how = flags & DB_WRITE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    if (flags & DB_CREATE)
        how |= SQLITE_OPEN_CREATE;
    else if (access(path, F_OK) < 0)
        return -errno;
    int rc = sqlite3_open_v2(path, out, how | SQLITE_OPEN_NOMUTEX, NULL);
    return rc == SQLITE_OK ? set_up(*out, flags) : db_error(*out, rc);
}

/* Writes what is in the file once more, and syncs it. */
static int rewrite(int fd)
{
    char bytes[32768];
    off_t at = 0;
    for (;;) {
        ssize_t n = pread(fd, bytes, sizeof bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            return fdatasync(fd) < 0 ? -errno : 0;
        for (ssize_t done = 0; n > 0 && done < n;) {
            ssize_t w = pwrite(fd, bytes + done, (size_t)(n - done), at + done);
            if (w < 0 && errno != EINTR)
                return -errno;
            done += w > 0 ? w : 0;
        }
        if (n < 0)
            return -errno;
        at += n;
    }
}

/* Makes durable what a writer finds in the log: it believes it, and so do those who then forget what they
 * have read it from. Who wrote it may have been killed before it was synced; or the sync has failed, after
 * which the kernel calls its pages clean, and only a new write makes another sync do anything. A checkpoint
 * would not do: old commits of a log whose end is lost hide what is newer in the file. Nobody else writes,
 * the bytes stay what they are, and SQLite holds no lock on this file that closing it could give up. */
static int settle(const char *path)
{
    struct strbuf log = {0};
    strbuf_printf(&log, "%s-wal", path);
    int fd = strbuf_failed(&log) ? -1 : open(log.p, O_RDWR | O_CLOEXEC);
    int r = strbuf_failed(&log) ? -ENOMEM : fd < 0 ? -errno : rewrite(fd);
    if (fd >= 0)
        (void)close(fd); /* it was synced */
    strbuf_fini(&log);
    return r == -ENOENT ? 0 : r;
}

/* A file whose head has a version above what SQLite knows is only read, though it may be written: nobody but
 * damage made it so. */
static int check_writable(sqlite3 *db, const char *path)
{
    if (sqlite3_db_readonly(db, "main") != 1)
        return 0;
    return access(path, W_OK) < 0 ? -errno : E_DAMAGE;
}

int db_open(const char *path, unsigned flags, sqlite3 **out, bool *is_new, struct diag *why)
{
    sqlite3 *db = NULL;
    int r = open_file(path, flags, &db);
    int is_empty = r < 0 ? r : look(db);
    bool is_immutable = false;
    if ((is_empty == -EACCES || is_empty == -EROFS || is_empty == -EPERM) && !(flags & DB_WRITE)) {
        db_close(db);
        db = NULL;
        r = open_immutable(path, &db);
        is_empty = r < 0 ? r : look(db);
        is_immutable = true;
    }
    if (is_empty > 0)
        r = flags & DB_CREATE ? begin_file(db) : -ENOENT;
    else if (is_empty < 0)
        r = is_empty;
    else if (!is_immutable)
        r = is_wal(db);
    if (r == 0 && flags & DB_WRITE)
        r = check_writable(db, path);
    if (r == 0 && !is_empty && flags & DB_WRITE)
        r = settle(path);
    if (r < 0) {
        bool is_said = r == E_DAMAGE && db && db_error(db, sqlite3_errcode(db)) < 0;
        (void)diag_set(why, r, 0, "%s: %s", path, is_said ? sqlite3_errmsg(db) : err_text(r));
        db_close(db);
        return r;
    }
    *is_new = is_empty > 0;
    *out = db;
    return 0;
}

void db_close(sqlite3 *db)
{
    (void)sqlite3_close_v2(db); /* never fails once statements are gone */
}
