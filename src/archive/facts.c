/* SPDX-License-Identifier: Apache-2.0 */
/* The file:
 *
 *   fact(id INTEGER PRIMARY KEY, kind INTEGER, key BLOB, value BLOB, crc INTEGER)
 *       crc: CRC-32C of id, kind, the length of key and the CRC of value, as u64s, then the key.
 *       Row 0 is of kind 0, without a key: u32 version, u64 commits, u64 how many other rows there are, u64
 *       the sum of their crcs. As it moves with every commit, a row that vanishes is missed.
 *
 * A commit writes the rows that have changed, and row 0. Ids are not used twice. */
#include "archive/facts.h"

#include "archive/db.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/directory.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>

enum { FACTS_VERSION = 1 };

/* A fact as it is kept: followed by kind, key and value. The key of the map is kind and key. */
struct kept {
    struct fact fact;
    uint32_t crc;
    bool is_dirty; /* differs from what is on disk */
    bool is_on_disk;
    unsigned round; /* of loading: when it was last seen */
    size_t place;   /* in facts.all */
    char bytes[];
};

enum { ST_BEGIN, ST_COMMIT, ST_ROLLBACK, ST_ALL, ST_HEAD, ST_PUT, ST_DROP, STATEMENTS };

struct gone_row {
    uint64_t id;
    uint32_t crc;
};

struct facts {
    sqlite3 *db;
    char *path; /* NULL: in memory alone */
    bool is_writer, is_damaged;
    bool must_reopen; /* a commit failed with -EIO: see partition.c */
    bool has_names;   /* the folder was synced since the file was opened: there, too */
    struct db_statement st[STATEMENTS];
    struct map by_key;
    struct kept **all; /* by id */
    size_t n, cap;
    struct gone_row *gone; /* on disk, to be removed */
    size_t n_gone, gone_cap;
    size_t n_dirty;
    uint64_t next_id;
    uint64_t commits, n_rows, sum; /* of row 0, on disk */
    unsigned round;
};

static const char *const statement_texts[STATEMENTS] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_ALL] = "SELECT id, kind, key, value, crc FROM fact ORDER BY id",
    [ST_HEAD] = "SELECT id, kind, key, value, crc FROM fact WHERE id = 0",
    [ST_PUT] = "INSERT OR REPLACE INTO fact(id, kind, key, value, crc) VALUES(?, ?, ?, ?, ?)",
    [ST_DROP] = "DELETE FROM fact WHERE id = ?",
};

static sqlite3_stmt *use(struct facts *f, int which, int *r)
{
    f->st[which].sql = statement_texts[which];
    return db_use(f->db, &f->st[which], r);
}

static int run(struct facts *f, int which)
{
    int r = 0;
    sqlite3_stmt *s = use(f, which, &r);
    return s ? db_run(f->db, s) : r;
}

static uint32_t row_crc(uint64_t id, uint8_t kind, struct slice key, struct slice value)
{
    return db_row_crc((uint64_t[]){id, kind, key.n, crc32c(0, value)}, 4, key);
}

/* ---------------------------------------------------------------- in memory */

static struct slice map_key(const struct kept *k)
{
    return slice_of(k->bytes, 1 + k->fact.key.n);
}

static struct kept *find(const struct facts *f, uint8_t kind, struct slice key)
{
    char small[512];
    struct strbuf large = {0};
    char *p = key.n < sizeof small ? small : strbuf_room(&large, key.n + 1);
    if (!p)
        return NULL;
    p[0] = (char)kind;
    memcpy(p + 1, key.p, key.n);
    struct kept *k = map_get(&f->by_key, slice_of(p, key.n + 1));
    strbuf_fini(&large);
    return k;
}

static struct kept *make(uint64_t id, uint8_t kind, struct slice key, struct slice value)
{
    struct kept *k = mem_try_alloc(sizeof *k + 1 + key.n + value.n);
    if (!k)
        return NULL;
    k->bytes[0] = (char)kind;
    memcpy(k->bytes + 1, key.p, key.n);
    memcpy(k->bytes + 1 + key.n, value.p, value.n);
    k->fact = (struct fact){id, kind, slice_of(k->bytes + 1, key.n), slice_of(k->bytes + 1 + key.n, value.n)};
    k->crc = row_crc(id, kind, key, value);
    return k;
}

/* Takes k, also on failure; in the place of the one with its key, if there is one. */
static int keep(struct facts *f, struct kept *k)
{
    struct kept *old = map_get(&f->by_key, map_key(k));
    if (!old && f->n == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 64;
        struct kept **all = mem_try_resize(f->all, cap * sizeof(struct kept *));
        if (!all) {
            mem_free(k);
            return -ENOMEM;
        }
        f->all = all;
        f->cap = cap;
    }
    if (map_put(&f->by_key, map_key(k), k) < 0) {
        mem_free(k);
        return -ENOMEM;
    }
    k->place = old ? old->place : f->n++;
    f->all[k->place] = k;
    mem_free(old);
    if (k->fact.id >= f->next_id)
        f->next_id = k->fact.id + 1;
    return 0;
}

static void drop(struct facts *f, struct kept *k)
{
    (void)map_remove(&f->by_key, map_key(k)); /* it is k */
    memmove(&f->all[k->place], &f->all[k->place + 1], (f->n - k->place - 1) * sizeof(struct kept *));
    f->n--;
    for (size_t i = k->place; i < f->n; i++)
        f->all[i]->place = i;
    mem_free(k);
}

const struct fact *facts_get(const struct facts *f, uint8_t kind, struct slice key)
{
    const struct kept *k = find(f, kind, key);
    return k ? &k->fact : NULL;
}

const struct fact *facts_next(const struct facts *f, uint8_t kind, size_t *i)
{
    while (*i < f->n) {
        const struct fact *fact = &f->all[(*i)++]->fact;
        if (fact->kind == kind)
            return fact;
    }
    return NULL;
}

int facts_set(struct facts *f, uint8_t kind, struct slice key, struct slice value)
{
    const struct kept *old = find(f, kind, key);
    if (old && slice_eq(old->fact.value, value))
        return 0;
    bool was_dirty = old && old->is_dirty;
    struct kept *k = make(old ? old->fact.id : f->next_id, kind, key, value);
    if (!k)
        return -ENOMEM;
    k->is_dirty = true;
    k->is_on_disk = old && old->is_on_disk;
    k->round = f->round;
    int r = keep(f, k);
    if (r == 0)
        f->n_dirty += !was_dirty;
    return r;
}

int facts_remove(struct facts *f, uint8_t kind, struct slice key)
{
    struct kept *k = find(f, kind, key);
    if (!k)
        return -ENOENT;
    if (f->n_gone == f->gone_cap) {
        size_t cap = f->gone_cap ? f->gone_cap * 2 : 8;
        struct gone_row *v = mem_try_resize(f->gone, cap * sizeof *v);
        if (!v)
            return -ENOMEM;
        f->gone = v;
        f->gone_cap = cap;
    }
    if (k->is_on_disk)
        f->gone[f->n_gone++] = (struct gone_row){k->fact.id, k->crc};
    f->n_dirty -= k->is_dirty;
    drop(f, k);
    return 0;
}

/* ---------------------------------------------------------------- loading */

struct head {
    uint64_t commits, n_rows, sum;
};

static int head_decode(struct slice value, struct head *out)
{
    struct cursor c = cursor_of(value);
    uint32_t version = cursor_u32(&c);
    out->commits = cursor_u64(&c);
    out->n_rows = cursor_u64(&c);
    out->sum = cursor_u64(&c);
    if (!c.bad && version > FACTS_VERSION)
        return E_VERSION;
    return c.bad || version == 0 ? E_DAMAGE : 0;
}

struct row {
    uint64_t id;
    uint8_t kind;
    struct slice key, value;
    uint32_t crc;
};

/* false: its checksum is wrong. */
static bool row_read(sqlite3_stmt *s, struct row *out)
{
    *out = (struct row){.id = (uint64_t)sqlite3_column_int64(s, 0),
                        .kind = (uint8_t)sqlite3_column_int(s, 1),
                        .key = db_column_bytes(s, 2),
                        .value = db_column_bytes(s, 3),
                        .crc = (uint32_t)sqlite3_column_int64(s, 4)};
    return row_crc(out->id, out->kind, out->key, out->value) == out->crc;
}

/* What is on disk, if it is not what is here. */
static int take(struct facts *f, const struct row *row)
{
    struct kept *had = find(f, row->kind, row->key);
    if (had && had->fact.id == row->id && had->crc == row->crc) {
        had->round = f->round;
        had->is_on_disk = true;
        return 0;
    }
    struct kept *k = make(row->id, row->kind, row->key, row->value);
    if (!k)
        return -ENOMEM;
    k->round = f->round;
    k->is_on_disk = true;
    return keep(f, k);
}

static int load_rows(struct facts *f, struct head *head)
{
    int r = 0;
    bool has_head = false;
    sqlite3_stmt *s = use(f, ST_ALL, &r);
    if (!s)
        return r;
    f->n_rows = f->sum = 0;
    while ((r = db_step(f->db, s)) > 0) {
        struct row row;
        if (!row_read(s, &row)) {
            f->is_damaged = true;
        } else if (row.id == 0) {
            r = head_decode(row.value, head);
            has_head = r == 0;
        } else {
            r = take(f, &row);
            f->n_rows++;
            f->sum += row.crc;
        }
        if (r < 0)
            break;
    }
    (void)sqlite3_reset(s); /* r says what is wrong */
    if (r == E_DAMAGE || !has_head)
        f->is_damaged = true;
    return r == E_DAMAGE ? 0 : r;
}

static void sweep(struct facts *f)
{
    for (size_t i = f->n; i > 0; i--)
        if (f->all[i - 1]->round != f->round)
            drop(f, f->all[i - 1]);
}

static int load(struct facts *f)
{
    struct head head = {0};
    f->round++;
    f->is_damaged = false;
    int r = load_rows(f, &head);
    if (r < 0)
        return r;
    if (head.n_rows != f->n_rows || head.sum != f->sum)
        f->is_damaged = true;
    f->commits = head.commits;
    sweep(f);
    return 0;
}

int facts_refresh(struct facts *f)
{
    struct head head = {0};
    struct row row;
    int r = 0;
    sqlite3_stmt *s = use(f, ST_HEAD, &r);
    if (!s)
        return r;
    r = db_step(f->db, s);
    if (r > 0)
        r = row_read(s, &row) ? head_decode(row.value, &head) : E_DAMAGE;
    else if (r == 0)
        r = E_DAMAGE;
    (void)sqlite3_reset(s); /* r says what is wrong */
    if (r < 0 || head.commits == f->commits)
        return r;
    r = load(f);
    return r < 0 ? r : f->is_damaged ? E_DAMAGE : 1;
}

/* ---------------------------------------------------------------- committing */

static int put_row(struct facts *f, uint64_t id, uint8_t kind, struct slice key, struct slice value)
{
    int r = 0;
    sqlite3_stmt *s = use(f, ST_PUT, &r);
    if (!s)
        return r;
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)id); /* numbers and borrowed bytes always fit */
    (void)sqlite3_bind_int(s, 2, kind);
    (void)sqlite3_bind_blob64(s, 3, key.p, key.n, SQLITE_STATIC);
    (void)sqlite3_bind_blob64(s, 4, value.p, value.n, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 5, row_crc(id, kind, key, value));
    return db_run(f->db, s);
}

static int put_head(struct facts *f, const struct head *h)
{
    struct strbuf b = {0};
    strbuf_add_u32(&b, FACTS_VERSION);
    strbuf_add_u64(&b, h->commits);
    strbuf_add_u64(&b, h->n_rows);
    strbuf_add_u64(&b, h->sum);
    int r = strbuf_failed(&b) ? -ENOMEM : put_row(f, 0, 0, slice_of("", 0), strbuf_slice(&b));
    strbuf_fini(&b);
    return r;
}

static int drop_row(struct facts *f, uint64_t id)
{
    int r = 0;
    sqlite3_stmt *s = use(f, ST_DROP, &r);
    if (!s)
        return r;
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
    return db_run(f->db, s);
}

static int write_all(struct facts *f, struct head *head)
{
    int r = 0;
    *head = (struct head){.commits = f->commits + 1};
    for (size_t i = 0; r == 0 && i < f->n; i++) {
        const struct kept *k = f->all[i];
        head->n_rows++;
        head->sum += k->crc;
        if (k->is_dirty)
            r = put_row(f, k->fact.id, k->fact.kind, k->fact.key, k->fact.value);
    }
    for (size_t i = 0; r == 0 && i < f->n_gone; i++)
        r = drop_row(f, f->gone[i].id);
    return r < 0 ? r : put_head(f, head);
}

static void committed(struct facts *f, const struct head *head)
{
    f->commits = head->commits;
    for (size_t i = 0; i < f->n; i++) {
        f->all[i]->is_on_disk = true;
        f->all[i]->is_dirty = false;
    }
    f->n_gone = f->n_dirty = 0;
}

/* The table and row 0, or nothing. */
static int make_table(struct facts *f)
{
    const struct head none = {0};
    int r = run(f, ST_BEGIN);
    if (r == 0)
        r = db_exec(f->db, "CREATE TABLE fact(id INTEGER PRIMARY KEY, kind INTEGER, key BLOB, value BLOB,"
                           " crc INTEGER)");
    if (r == 0)
        r = put_head(f, &none);
    if (r == 0)
        r = run(f, ST_COMMIT);
    if (r < 0 && !sqlite3_get_autocommit(f->db))
        (void)run(f, ST_ROLLBACK); /* r says what is wrong */
    return r;
}

static int connect(struct facts *f, struct diag *why)
{
    bool is_new = false;
    int r = db_open(f->path, f->is_writer ? DB_WRITE | DB_CREATE : 0, &f->db, &is_new, why);
    if (r < 0)
        return r;
    if (is_new)
        return make_table(f);
    return f->is_writer ? db_check(f->db, why) : 0;
}

static void disconnect(struct facts *f)
{
    db_finish(f->st, STATEMENTS);
    db_close(f->db);
    f->db = NULL;
    f->has_names = false;
}

/* Everything here is to be written again, over what may be there of the commit that failed. */
static int reopen(struct facts *f)
{
    disconnect(f);
    int r = connect(f, NULL);
    if (r < 0)
        return r;
    for (size_t i = 0; i < f->n; i++)
        f->all[i]->is_dirty = true;
    f->n_dirty = f->n;
    f->commits++; /* that of the commit that failed */
    f->must_reopen = false;
    return 0;
}

int facts_commit(struct facts *f)
{
    struct head head = {0};
    if (f->n_dirty == 0 && f->n_gone == 0 && !f->must_reopen)
        return 0;
    if (!f->path) {
        committed(f, &head);
        return 0;
    }
    int r = f->must_reopen ? reopen(f) : 0;
    if (r == 0 && !f->has_names)
        r = directory_sync_parent(f->path);
    f->has_names = r == 0;
    if (r == 0)
        r = run(f, ST_BEGIN);
    if (r < 0)
        return r;
    r = write_all(f, &head);
    if (r == 0)
        r = run(f, ST_COMMIT);
    if (r == 0) {
        committed(f, &head);
        return 0;
    }
    if (!sqlite3_get_autocommit(f->db) && run(f, ST_ROLLBACK) < 0)
        f->must_reopen = true; /* nothing else ends that transaction */
    if (r == -EIO)
        f->must_reopen = true;
    return r;
}

/* ---------------------------------------------------------------- the whole */

int facts_open(const char *path, bool is_writer, struct facts **out, struct diag *why)
{
    struct facts *f = mem_try_alloc(sizeof *f);
    struct strbuf copy = {0};
    if (path)
        strbuf_add_str(&copy, path);
    if (!f || strbuf_failed(&copy)) {
        mem_free(f);
        strbuf_fini(&copy);
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    }
    f->path = copy.p;
    f->is_writer = is_writer;
    f->next_id = 1;
    int r = path ? connect(f, why) : 0;
    if (r == 0 && path)
        r = load(f);
    if (r < 0) {
        facts_close(f);
        return diag_set(why, r, 0, "%s: %s", path, err_text(r));
    }
    *out = f;
    return 0;
}

void facts_close(struct facts *f)
{
    if (!f)
        return;
    disconnect(f);
    for (size_t i = 0; i < f->n; i++)
        mem_free(f->all[i]);
    mem_free(f->all);
    mem_free(f->gone);
    map_fini(&f->by_key);
    mem_free(f->path);
    mem_free(f);
}

bool facts_is_damaged(const struct facts *f)
{
    return f->is_damaged;
}

uint64_t facts_commits(const struct facts *f)
{
    return f->commits;
}
