/* SPDX-License-Identifier: Apache-2.0 */
/* Checking: every row's checksum, every chunk decoded. */
#include "archive/partition_check.h"

#include "archive/partition_internal.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>

void checking_say(const struct checking *c, uint64_t blob, const char *what, const struct blob_chunk *chunk)
{
    const struct partition_damage d = {.file = c->file, .blob = blob, .what = what, .chunk = chunk};
    if (c->fn)
        c->fn(c->arg, &d);
}

int checking_blob(const struct checking *c, uint64_t blob, const struct blob_directory *d,
                  size_t directory_bytes, struct slice body)
{
    struct arena arena = {0};
    uint32_t bad = 0;
    int r = 0;
    for (uint32_t i = 0; i < d->n_chunks && r != -ENOMEM; i++) {
        struct rows rows;
        unsigned what = BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS;
        arena_reset(&arena);
        r = blob_chunk_read(d, body, blob, i, what, NULL, 0, NULL, &arena, &rows);
        if (r == 0) {
            c->health->chunks++;
            c->health->rows += d->chunks[i].n_rows;
        } else if (r != -ENOMEM) {
            bad++;
            c->health->bad_chunks++;
            c->health->bad_rows += d->chunks[i].n_rows;
            checking_say(c, blob, "a chunk is damaged", &d->chunks[i]);
        }
    }
    c->health->blobs += bad == 0;
    c->health->bytes += bad == 0 ? directory_bytes + body.n : 0;
    arena_fini(&arena);
    return r == -ENOMEM ? r : 0;
}

void checking_lost(const struct checking *c, uint64_t blob, const struct blob_section *s, size_t n)
{
    c->health->bad_blobs++;
    if (n == 0)
        checking_say(c, blob, "a blob is lost, and what it held is not known", NULL);
    for (size_t i = 0; i < n; i++) {
        char what[EVENT_NAME_MAX + 2 * CLOCK_TEXT_MAX + 80],
            from[CLOCK_TEXT_MAX + 1] = "", to[CLOCK_TEXT_MAX + 1] = "";
        (void)clock_print_iso(from, s[i].min_ns);
        (void)clock_print_iso(to, s[i].max_ns);
        (void)snprintf(what, sizeof what, "a blob is lost: %llu rows of %.*s from %s to %s",
                       (unsigned long long)s[i].rows, SLICE_ARG(s[i].name), from, to);
        c->health->bad_rows += s[i].rows;
        checking_say(c, blob, what, NULL);
    }
}

/* ---------------------------------------------------------------- one that SQLite can read */

struct names {
    struct blob_section v[64];
    size_t n;
    uint64_t blob;
};

static bool find_names(void *arg, const struct partition_section *s)
{
    struct names *n = arg;
    if (s->blob == n->blob && n->n < sizeof n->v / sizeof *n->v)
        n->v[n->n++] = s->s;
    return s->blob <= n->blob;
}

static int check_blob(struct partition *p, const struct checking *c, uint64_t id)
{
    struct strbuf directory = {0}, body = {0};
    struct arena arena = {0};
    const struct blob_directory *d = NULL;
    int r = partition_directory(p, id, &directory);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&directory), &arena, &d);
    if (r == 0) {
        int e = partition_body(p, id, &body);
        bool is_mine = e == 0 && blob_is_pair(strbuf_slice(&directory), strbuf_slice(&body));
        r = e == -ENOMEM || e == -EIO ? e : 0;
        if (r == 0)
            r = checking_blob(c, id, d, directory.n, is_mine ? strbuf_slice(&body) : slice_of("", 0));
    } else if (r != -ENOMEM && r != -EIO) {
        struct names n = {.blob = id};
        r = partition_sections(p, slice_of("", 0), INT64_MIN, INT64_MAX, find_names, &n);
        checking_lost(c, id, n.v, n.n);
    }
    arena_fini(&arena);
    strbuf_fini(&directory);
    strbuf_fini(&body);
    return r;
}

/* The rows that are kept twice: both of them. */
static int check_copies(struct partition *p, const struct checking *c)
{
    struct db_statement all = {.sql = "SELECT id, value, crc FROM meta UNION ALL"
                                      " SELECT id, value, crc FROM meta_copy"};
    uint64_t n = 0;
    int r = 0;
    sqlite3_stmt *s = db_use(p->db, &all, &r);
    while (s && (r = db_step(p->db, s)) > 0) {
        uint64_t id = (uint64_t)sqlite3_column_int64(s, 0);
        if (meta_crc(id, db_column_bytes(s, 1)) == (uint32_t)sqlite3_column_int64(s, 2))
            n++;
    }
    db_finish(&all, 1);
    uint64_t want = 2 * (1 + (p->state.gone_at > 0) + p->state.n_marks);
    if ((r == 0 || r == E_DAMAGE) && n != want)
        checking_say(c, 0, "of the state and the marks, which are kept twice, not all are there", NULL);
    return r == E_DAMAGE ? 0 : r;
}

static int check_all(struct partition *p, const struct checking *c)
{
    struct diag why = {0};
    int r = db_check(p->db, &why);
    if (r == E_DAMAGE) {
        c->health->is_broken = true;
        checking_say(c, 0, why.message, NULL);
        r = 0;
    }
    if (r == 0)
        r = partition_begin_read(p);
    if (r < 0)
        return r;
    r = check_copies(p, c);
    for (uint64_t id = 1; r == 0 && id < p->state.next_blob; id++)
        if (!gone_has(&p->gone, id))
            r = check_blob(p, c, id);
    partition_end_read(p);
    return r;
}

int partition_check(const char *dir, const char *name, partition_damage_fn *fn, void *arg,
                    struct partition_health *out, struct diag *why)
{
    struct partition *p = NULL;
    struct partition_health health = {0};
    int r = partition_open(dir, name, 0, NULL, &p, why);
    if (r == 0) {
        struct checking c = {.file = p->file, .fn = fn, .arg = arg, .health = &health};
        partition_on_damage(p, fn, arg);
        r = check_all(p, &c);
        partition_close(p);
        if (r < 0 && r != E_DAMAGE)
            return diag_set(why, r, 0, "%s/%s: %s", dir, name, err_text(r));
    }
    if (r == E_DAMAGE || r == -ENOENT) /* without tables: they may be in a log that is damaged */
        return salvage_check(dir, name, r == -ENOENT, fn, arg, out, why);
    if (r == 0)
        *out = health;
    return r;
}
