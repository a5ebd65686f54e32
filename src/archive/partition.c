/* SPDX-License-Identifier: Apache-2.0 */
/* The file. All tables are rowid tables; numbers inside bytes are little-endian, text is a varint length and
 * the bytes.
 *
 *   blob(id, gen, directory_crc, body_crc, crc, directory, body)
 *       One row a blob. crc: CRC-32C of id, gen, the lengths of both parts and their CRCs, as u64s; so it
 *       covers all of the row, and reading the directory touches no page of the body. The body is not checked
 *       as a whole when it is read: its chunks are, one by one (blob.h), and damage costs the chunks it hit.
 *   section(blob, gen, sections, crc)
 *       What is in that blob: u64 the number that its halves carry; varint n; per event name text name, u64
 *       min, u64 max, varint rows, varint streams; then counts, or nothing: u8 their version, 1, and per
 * event name, in the same order, varint length (0: it has none) and bytes, which blob_counts.h describes;
 * those of another version are left alone. crc: of blob, gen and the bytes. Each connection holds all of it
 * but the counts in memory (partition_read.c) and reads only what commits have added since. meta(id, value,
 * crc), meta_copy(id, value, crc) Twice the same, in pages of their own: what must not be lost with a page.
 * crc: of id and value. 1, the state: u32 version, u64 from, to, step of the span, u64 commits, gen,
 * next_blob, gone_at, n_marks 2, blobs that were taken out, as ranges of their numbers: varint distance from
 * the last one's end, varint how many more than one 3, event names whose rows are kept: text name, u64 until
 * (UTC, ns), and the next; may not be there 16 and on, marks: source[16], u64 record, u64 floor
 *
 * Versions. 1: rows of section have no counts. 2: they may. Files of both are read and written; a commit
 * makes the file one of version 2, and what was in it has no counts until it is merged.
 *
 * What SQLite can't see. Its pages have no checksums: a flip in a page's head makes rows vanish without an
 * error. So nothing is looked up by a key that could be wrong, and nothing is taken to be complete: numbers
 * of blobs are given once, from 1; those that must be there are all below next_blob that are not in the
 * ranges of row 2. What the section table does not have of them is looked for in the blob table, and what is
 * not there either is reported as missing. Whole commits that vanish (a flip in the write-ahead log ends it
 * there) are found by `commits` and `gen`, which the catalogue knows, too (catalog.h).
 *
 * Before a connection writes for the first time into a file that was there, SQLite checks its structure
 * (quick_check, reads all of it): writing by a wrong list of free pages would destroy good data. E_DAMAGE
 * then; partition_salvage makes a new file of it.
 *
 * SQLite syncs the folder when it has made a log, and does not look whether that worked: it is done once more
 * before a connection writes for the first time.
 *
 * After -EIO from a commit nothing is retried on the same connection: the kernel may have dropped the pages
 * and call them clean. The file is opened again, as after a crash. Usually the commit is not in it, and
 * partition_commit says -EIO; if it is, it is moved from the log into the file, with new writes and a new
 * fsync, and only then it has happened. */
#include "archive/partition_internal.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/directory.h"
#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the order in which they are made: their roots are pages 2 to 5. */
static const char *const tables[] = {
    ("CREATE TABLE blob(id INTEGER PRIMARY KEY, gen INTEGER, directory_crc INTEGER, body_crc INTEGER,"
     " crc INTEGER, directory BLOB, body BLOB)"),
    "CREATE TABLE section(blob INTEGER PRIMARY KEY, gen INTEGER, sections BLOB, crc INTEGER)",
    "CREATE TABLE meta(id INTEGER PRIMARY KEY, value BLOB, crc INTEGER)",
    "CREATE TABLE meta_copy(id INTEGER PRIMARY KEY, value BLOB, crc INTEGER)",
};
enum { TABLES = sizeof tables / sizeof *tables, FIRST_ROOT = 2 };

static const char *const statement_texts[STATEMENTS] = {
    [ST_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [ST_BEGIN_READ] = "BEGIN",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_GET_META] = "SELECT value, crc FROM meta WHERE id = ?",
    [ST_GET_COPY] = "SELECT value, crc FROM meta_copy WHERE id = ?",
    [ST_ALL_META] = "SELECT id, value, crc FROM meta WHERE id >= 16",
    [ST_ALL_COPY] = "SELECT id, value, crc FROM meta_copy WHERE id >= 16",
    [ST_PUT_META] = "INSERT OR REPLACE INTO meta(id, value, crc) VALUES(?, ?, ?)",
    [ST_PUT_COPY] = "INSERT OR REPLACE INTO meta_copy(id, value, crc) VALUES(?, ?, ?)",
    [ST_PUT_BLOB] = "INSERT INTO blob(id, gen, directory_crc, body_crc, crc, directory, body)"
                    " VALUES(?, ?, ?, ?, ?, ?, ?)",
    [ST_PUT_SECTIONS] = "INSERT INTO section(blob, gen, sections, crc) VALUES(?, ?, ?, ?)",
    [ST_DROP_BLOB] = "DELETE FROM blob WHERE id = ?",
    [ST_DROP_SECTIONS] = "DELETE FROM section WHERE blob = ?",
    [ST_SECTIONS] = "SELECT blob, gen, sections, crc FROM section WHERE blob >= ? AND blob < ? ORDER BY blob",
    [ST_COUNTS] = "SELECT gen, sections, crc FROM section WHERE blob = ?",
    [ST_DIRECTORY] = "SELECT gen, directory_crc, body_crc, crc, length(directory), length(body), directory"
                     " FROM blob WHERE id = ?",
    [ST_BODY] = "SELECT gen, directory_crc, body_crc, crc, length(directory), length(body), body"
                " FROM blob WHERE id = ?",
};

/* ---------------------------------------------------------------- names */

void partition_name(const struct partition_span *span, char *to, size_t n)
{
    char at[CLOCK_TEXT_MAX + 1] = "";
    (void)clock_print_ulm(at, span->from_ns);
    if (span->step_ns)
        (void)snprintf(to, n, "%.8sT%.6sZ-%llds.db", at, at + 8, (long long)(span->step_ns / NS_PER_S));
    else
        (void)snprintf(to, n, "%.8sT%.6sZ.db", at, at + 8);
}

bool partition_parse_name(const char *name, int64_t *from_ns, int64_t *step_ns)
{
    struct slice s = slice_str(name);
    if (s.n < 19 || s.n >= PARTITION_NAME_MAX || s.p[8] != 'T' || s.p[15] != 'Z')
        return false;
    char at[14];
    memcpy(at, s.p, 8);
    memcpy(at + 8, s.p + 9, 6);
    int64_t from = 0, step = 0;
    if (clock_parse_ulm(slice_of(at, sizeof at), &from, NULL) < 0)
        return false;
    struct slice rest = slice_of(s.p + 16, s.n - 16);
    if (!slice_ends(rest, SLICE_LIT(".db")))
        return false;
    rest.n -= 3;
    uint64_t seconds = 0;
    if (rest.n) {
        bool is_step = rest.n >= 3 && rest.p[0] == '-' && rest.p[rest.n - 1] == 's';
        if (!is_step || num_parse_uint(slice_of(rest.p + 1, rest.n - 2), &seconds) < 0 || seconds == 0 ||
            seconds > (uint64_t)(INT64_MAX / NS_PER_S))
            return false;
        step = (int64_t)seconds * NS_PER_S;
    }
    *from_ns = from;
    *step_ns = step;
    return true;
}

/* ---------------------------------------------------------------- damage */

void partition_report(struct partition *p, uint64_t blob, const char *what, const struct blob_chunk *chunk)
{
    p->n_damages++;
    const struct partition_damage d = {.file = p->file, .blob = blob, .what = what, .chunk = chunk};
    if (p->damage)
        p->damage(p->damage_arg, &d);
}

void partition_report_once(struct partition *p, unsigned bit, const char *what)
{
    for (size_t i = 0; i < SAID_MAX; i++) {
        if (bit != 1U << i || p->said[i])
            continue;
        p->said[i] = what;
        partition_report(p, 0, what, NULL);
    }
}

void partition_on_damage(struct partition *p, partition_damage_fn *fn, void *arg)
{
    p->damage = fn;
    p->damage_arg = arg;
    for (size_t i = 0; fn && i < SAID_MAX; i++) /* what was seen at opening it */
        if (p->said[i])
            fn(arg, &(struct partition_damage){.file = p->file, .what = p->said[i]});
}

/* ---------------------------------------------------------------- opening */

sqlite3_stmt *partition_use(struct partition *p, enum statement s, int *r)
{
    if (p->must_reopen) {
        *r = -EIO;
        return NULL;
    }
    p->st[s].sql = statement_texts[s];
    return db_use(p->db, &p->st[s], r);
}

static int run(struct partition *p, enum statement s)
{
    int r = 0;
    sqlite3_stmt *st = partition_use(p, s, &r);
    return st ? db_run(p->db, st) : r;
}

/* The tables and the first state, or nothing. */
static int make_tables(struct partition *p, const struct partition_span *span)
{
    int r = run(p, ST_BEGIN_WRITE);
    for (int i = 0; r == 0 && i < TABLES; i++)
        r = db_exec(p->db, tables[i]);
    p->state = (struct partition_state){.span = *span, .next_blob = 1};
    if (r == 0)
        r = meta_put_state(p, &p->state);
    if (r == 0)
        r = run(p, ST_COMMIT);
    if (r < 0 && !sqlite3_get_autocommit(p->db))
        (void)run(p, ST_ROLLBACK); /* r says what is wrong */
    return r;
}

/* Are the tables those that make_tables made, and where it made them? SQLite would take any text that it can
 * parse, and any page for a root: then nothing of a table could be read, although all of it is there. */
static int check_tables(struct partition *p)
{
    struct db_statement all = {.sql = "SELECT rootpage, sql FROM sqlite_schema ORDER BY rootpage"};
    int r = 0, n = 0;
    bool are_ours = true;
    sqlite3_stmt *s = db_use(p->db, &all, &r);
    for (; s && (r = db_step(p->db, s)) > 0; n++)
        are_ours = are_ours && n < TABLES && sqlite3_column_int64(s, 0) == FIRST_ROOT + n &&
                   slice_eq_str(db_column_bytes(s, 1), tables[n]);
    db_finish(&all, 1);
    return r == 0 && !(are_ours && n == TABLES) ? E_DAMAGE : r;
}

int partition_look(struct partition *p)
{
    struct partition_state s;
    int r = meta_get_state(p, &s);
    if (r == 0)
        p->state = s;
    return r;
}

/* All of it as of one commit: the writer goes on meanwhile, and what is not the same twice would be damage.
 */
static int look_first(struct partition *p)
{
    int r = run(p, ST_BEGIN_READ);
    if (r == 0)
        r = partition_look(p);
    if (r == 0)
        r = meta_get_gone(p, &p->gone);
    if (!sqlite3_get_autocommit(p->db))
        (void)run(p, ST_ROLLBACK); /* nothing was written */
    return r;
}

static int connect(struct partition *p, const struct partition_span *span, struct diag *why)
{
    unsigned flags =
        (p->flags & PARTITION_WRITE ? DB_WRITE : 0) | (p->flags & PARTITION_CREATE ? DB_CREATE : 0);
    bool is_new = false;
    int r = db_open(p->file, flags, &p->db, &is_new, why);
    if (r < 0)
        return r;
    r = is_new ? make_tables(p, span) : 0;
    p->is_checked = is_new;
    if (r == 0 && !is_new && p->flags & PARTITION_WRITE)
        r = check_tables(p);
    if (r == 0 && !is_new)
        r = look_first(p);
    if (r == E_DAMAGE && !(p->flags & PARTITION_WRITE))
        r = 0; /* reported; readers take what there is */
    if (r == 0 && p->flags & PARTITION_WRITE)
        r = marks_refresh(p);
    if (r == 0 && p->flags & PARTITION_WRITE)
        r = meta_get_kept(p);
    return r < 0 ? diag_set(why, r, 0, "%s: %s", p->file, err_text(r)) : 0;
}

static void disconnect(struct partition *p)
{
    db_finish(p->st, STATEMENTS);
    db_close(p->db);
    p->db = NULL;
    p->is_writing = p->is_reading = p->has_names = false;
}

int partition_open(const char *dir, const char *name, unsigned flags, const struct partition_span *span,
                   struct partition **out, struct diag *why)
{
    struct partition *p = mem_try_alloc(sizeof *p);
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/%s", dir, name);
    if (!p || strbuf_failed(&path)) {
        mem_free(p);
        strbuf_fini(&path);
        return diag_set(why, -ENOMEM, 0, "%s/%s: %s", dir, name, err_text(-ENOMEM));
    }
    p->file = path.p;
    p->flags = flags;
    int r = connect(p, span, why);
    if (r < 0) {
        partition_close(p);
        return r;
    }
    *out = p;
    return 0;
}

void partition_close(struct partition *p)
{
    if (!p)
        return;
    disconnect(p);
    marks_forget(p);
    mem_free(p->marks);
    mem_free(p->gone.v);
    mem_free(p->removing);
    index_fini(&p->index);
    strbuf_fini(&p->row);
    strbuf_fini(&p->kept);
    strbuf_fini(&p->next_kept);
    mem_free(p->file);
    mem_free(p);
}

const struct partition_span *partition_span(const struct partition *p)
{
    return &p->state.span;
}

int partition_unlink(const char *dir, const char *name)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    int result = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct strbuf path = {0};
        strbuf_printf(&path, "%s/%s%s", dir, name, ends[i]);
        int r = strbuf_failed(&path) ? -ENOMEM : unlink(path.p) < 0 ? -errno : 0;
        if (r < 0 && (i == 0 || r != -ENOENT) && result == 0)
            result = r;
        strbuf_fini(&path);
    }
    return result;
}

/* ---------------------------------------------------------------- writing */

/* After a commit that failed with -EIO. 1: it is in the file after all; 0: it is not. */
static int reopen(struct partition *p)
{
    uint64_t commits = p->state.commits;
    disconnect(p);
    marks_forget(p);
    index_fini(&p->index);
    p->flags &= ~(unsigned)PARTITION_CREATE;
    p->must_reopen = false;
    int r = connect(p, NULL, NULL);
    if (r == 0 && p->state.commits > commits)
        r = db_checkpoint(p->db);
    if (r < 0) {
        p->state.commits = commits;
        p->must_reopen = true;
        return r;
    }
    return p->state.commits > commits;
}

int partition_begin_write(struct partition *p)
{
    if (p->failed)
        return p->failed;
    if (p->is_writing)
        return 0;
    int r = p->must_reopen ? reopen(p) : 0;
    if (r > 0)
        return -ESTALE;
    if (r == 0 && !p->is_checked)
        r = db_check(p->db, NULL);
    p->is_checked = r == 0;
    if (r == 0 && !p->has_names)
        r = directory_sync_parent(p->file);
    p->has_names = r == 0;
    if (r == 0)
        r = run(p, ST_BEGIN_WRITE);
    if (r < 0)
        return r;
    p->is_writing = true;
    p->next = p->state;
    return 0;
}

/* What went wrong within a transaction: all of it has to go. */
static int fail(struct partition *p, int r)
{
    if (r < 0)
        p->failed = r;
    return r;
}

static int put_blob(struct partition *p, uint64_t id, uint64_t gen, const struct blob_bytes *b)
{
    int r = 0;
    sqlite3_stmt *s = partition_use(p, ST_PUT_BLOB, &r);
    if (!s)
        return r;
    uint32_t directory_crc = crc32c(0, b->directory), body_crc = crc32c(0, b->body);
    uint32_t crc = blob_row_crc(id, gen, b->directory.n, directory_crc, b->body.n, body_crc);
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)id); /* numbers and borrowed bytes always fit */
    (void)sqlite3_bind_int64(s, 2, (sqlite3_int64)gen);
    (void)sqlite3_bind_int64(s, 3, directory_crc);
    (void)sqlite3_bind_int64(s, 4, body_crc);
    (void)sqlite3_bind_int64(s, 5, crc);
    (void)sqlite3_bind_blob64(s, 6, b->directory.p, b->directory.n, SQLITE_STATIC);
    (void)sqlite3_bind_blob64(s, 7, b->body.p, b->body.n, SQLITE_STATIC);
    return db_run(p->db, s);
}

static int put_sections(struct partition *p, uint64_t id, uint64_t gen, const struct blob_bytes *b)
{
    strbuf_reset(&p->row);
    sections_encode(&p->row, b);
    if (strbuf_failed(&p->row))
        return -ENOMEM;
    int r = 0;
    sqlite3_stmt *s = partition_use(p, ST_PUT_SECTIONS, &r);
    if (!s)
        return r;
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
    (void)sqlite3_bind_int64(s, 2, (sqlite3_int64)gen);
    (void)sqlite3_bind_blob64(s, 3, p->row.p, p->row.n, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 4, sections_crc(id, gen, strbuf_slice(&p->row)));
    return db_run(p->db, s);
}

int partition_put(struct partition *p, const struct blob_bytes *b, uint64_t gen, uint64_t *id)
{
    if (b->directory.n > BLOB_DIRECTORY_MAX || b->body.n > BLOB_BODY_MAX)
        return E_LIMIT;
    int r = partition_begin_write(p);
    if (r < 0)
        return r;
    uint64_t mine = p->next.next_blob;
    r = put_blob(p, mine, gen, b);
    if (r == 0)
        r = put_sections(p, mine, gen, b);
    if (r < 0)
        return fail(p, r);
    p->next.next_blob++;
    if (gen > p->next.gen)
        p->next.gen = gen;
    *id = mine;
    return 0;
}

int partition_remove(struct partition *p, uint64_t blob)
{
    int r = partition_begin_write(p);
    if (r < 0)
        return r;
    if (p->n_removing == p->removing_cap) {
        size_t cap = p->removing_cap ? p->removing_cap * 2 : 16;
        uint64_t *v = mem_try_resize(p->removing, cap * sizeof *v);
        if (!v)
            return fail(p, -ENOMEM);
        p->removing = v;
        p->removing_cap = cap;
    }
    p->removing[p->n_removing++] = blob;
    return 0;
}

/* The source's mark, to be changed. NULL: *r says why. */
static struct mark *use_mark(struct partition *p, const struct archive_source *s, int *r)
{
    *r = partition_begin_write(p);
    if (*r < 0)
        return NULL;
    struct mark *m = mark_find(p, s);
    if (!m && (m = mark_make(p, s)) != NULL)
        m->row = META_MARKS + p->next.n_marks++;
    if (!m)
        *r = fail(p, -ENOMEM);
    return m;
}

int partition_set_mark(struct partition *p, const struct archive_source *s, uint64_t record)
{
    int r = 0;
    struct mark *m = use_mark(p, s, &r);
    if (m && record > m->record)
        m->record = record;
    return r;
}

int partition_set_floor(struct partition *p, const struct archive_source *s, uint64_t record)
{
    int r = 0;
    struct mark *m = use_mark(p, s, &r);
    if (m && record > m->floor)
        m->floor = record;
    return r;
}

int partition_keep(struct partition *p, struct slice name, int64_t until_ns)
{
    int r = partition_begin_write(p);
    if (r == 0 && p->next_kept.n == 0)
        strbuf_add_slice(&p->next_kept, strbuf_slice(&p->kept));
    if (r == 0)
        r = strbuf_failed(&p->next_kept) ? -ENOMEM : kept_raise(&p->next_kept, name, until_ns);
    return r < 0 ? fail(p, r) : 0;
}

int64_t partition_kept_until(const struct partition *p, struct slice name)
{
    return p->is_all_kept ? INT64_MAX : kept_until(strbuf_slice(&p->kept), name);
}

static int drop(struct partition *p, enum statement which, uint64_t id)
{
    int r = 0;
    sqlite3_stmt *s = partition_use(p, which, &r);
    if (!s)
        return r;
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
    return db_run(p->db, s);
}

static int commit_removed(struct partition *p)
{
    if (p->n_removing == 0)
        return 0;
    for (size_t i = 0; i < p->n_removing; i++) {
        int r = drop(p, ST_DROP_BLOB, p->removing[i]);
        if (r == 0)
            r = drop(p, ST_DROP_SECTIONS, p->removing[i]);
        if (r == 0)
            r = gone_add(&p->gone, p->removing[i]);
        if (r < 0)
            return r;
    }
    p->next.gone_at = p->next.commits;
    return meta_put_gone(p);
}

static int commit(struct partition *p)
{
    if (p->failed)
        return p->failed;
    p->next.commits++;
    int r = commit_removed(p);
    if (r == 0)
        r = meta_put_marks(p);
    if (r == 0 && p->next_kept.n)
        r = meta_put(p, META_KEPT, strbuf_slice(&p->next_kept));
    if (r == 0)
        r = meta_put_state(p, &p->next);
    return r < 0 ? r : run(p, ST_COMMIT);
}

static void committed(struct partition *p)
{
    p->state = p->next;
    p->is_writing = false;
    p->n_removing = 0;
    if (p->next_kept.n) {
        strbuf_fini(&p->kept);
        p->kept = p->next_kept;
        p->next_kept = (struct strbuf){0};
    }
    for (size_t i = 0; i < p->n_marks; i++) {
        p->marks[i]->saved_record = p->marks[i]->record;
        p->marks[i]->saved_floor = p->marks[i]->floor;
    }
}

/* SQLite empties the log when the last connection closes; the writer's stays open all day, and so do readers'. What
 * can't be moved now (somebody still reads what was before it, or the disk fails) stays in the log, and is tried again
 * after the next commit. */
static void bound_log(struct partition *p)
{
    struct strbuf path = {0};
    struct stat st;
    strbuf_printf(&path, "%s-wal", p->file);
    if (!strbuf_failed(&path) && stat(path.p, &st) == 0 && st.st_size > PARTITION_LOG_MAX)
        (void)db_checkpoint(p->db); /* above */
    strbuf_fini(&path);
}

int partition_commit(struct partition *p)
{
    if (!p->is_writing && !p->failed)
        return 0;
    int r = commit(p);
    if (r == 0) {
        committed(p);
        bound_log(p);
        return 0;
    }
    partition_rollback(p);
    if (r != -EIO)
        return r;
    p->must_reopen = true;
    return reopen(p) > 0 ? 0 : r;
}

static void roll_marks_back(struct partition *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n_marks; i++) {
        struct mark *m = p->marks[i];
        if (m->row >= META_MARKS + p->state.n_marks) {
            mark_drop(p, m);
            continue;
        }
        m->record = m->saved_record;
        m->floor = m->saved_floor;
        p->marks[kept++] = m;
    }
    p->n_marks = kept;
}

void partition_rollback(struct partition *p)
{
    if (p->is_writing && !sqlite3_get_autocommit(p->db) && run(p, ST_ROLLBACK) < 0)
        p->must_reopen = true; /* nothing else ends that transaction */
    bool has_removed = p->n_removing > 0;
    p->is_writing = false;
    p->failed = 0;
    p->n_removing = 0;
    strbuf_reset(&p->next_kept);
    roll_marks_back(p);
    if (has_removed && !p->must_reopen && meta_get_gone(p, &p->gone) < 0)
        p->must_reopen = true;
}

int partition_checkpoint(struct partition *p)
{
    if (p->is_writing || p->is_reading || p->must_reopen)
        return -EBUSY;
    return db_checkpoint(p->db);
}

/* ---------------------------------------------------------------- what it knows of itself */

uint64_t partition_mark(struct partition *p, const struct archive_source *s)
{
    if (marks_refresh(p) < 0)
        return 0;
    const struct mark *m = mark_find(p, s);
    return m ? m->saved_record : 0;
}

int partition_marks(struct partition *p, void (*fn)(void *arg, const struct partition_mark *m), void *arg)
{
    int r = marks_refresh(p);
    for (size_t i = 0; r == 0 && i < p->n_marks; i++) {
        const struct mark *m = p->marks[i];
        const struct partition_mark out = {m->source, m->saved_record, m->saved_floor};
        fn(arg, &out);
    }
    return r;
}

uint64_t partition_gen(struct partition *p)
{
    return p->state.gen;
}
