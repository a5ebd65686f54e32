/* SPDX-License-Identifier: Apache-2.0 */
/* Salvaging a partition that SQLite can't read, or can't be trusted to write.
 *
 * Blobs are found without any tree: every byte of every page is tried for the mark that a directory begins
 * with. Before it must be the beginning of its row, which is found by trying, too: the row's own checksum
 * tells. So each blob is found by itself, and one that is lost costs no other. If the beginning of the row is
 * what is damaged, the blob's own marks do: its directory has a checksum, its body the same number, and so
 * has the section row, which says which blob it is. Pages that go on with a row are followed by their links;
 * where that does not give what the checksum says, they are taken one behind the other, as they usually lie.
 * The state, marks and section rows are read from the lists of the leaf pages; the first two are there twice.
 *
 * What was taken out may still lie about on pages that are free: the state says which numbers are used, and
 * the ranges of row 2 which are gone. Only what must be there is taken.
 *
 * The log. SQLite reads it up to the first damage. What lies behind it was committed if we are here because
 * of a flip, and was not if a crash tore the last write. It is taken only as a whole: if with it the newest
 * state is there, and every blob that this state says must be, undamaged. Then it is a state that a commit
 * made, with its marks, whether it was ever acknowledged or not. Otherwise the file is as of the last good
 * commit, and the source is read again from the marks of that (catalog.h).
 *
 * The result is a new file; it takes the name by a rename, after the damaged file and its log got a second
 * name (links): whatever moment a crash takes, one of both is there under its name, and salvaging starts
 * over. */
#include "archive/pages.h"
#include "archive/partition_check.h"
#include "archive/partition_internal.h"
#include "base/crc32c.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROW_HEAD_MAX = 96, LEAF_ROWS_MAX = 4096 };

/* A blob that was found. */
struct found {
    uint64_t id; /* 0: not known */
    uint64_t gen;
    uint32_t directory_crc, body_crc;
    uint64_t directory_at, directory_bytes, body_at, body_bytes; /* of the row's payload */
    struct page_row row;
    bool is_whole; /* the row's checksum is right */
};

struct found_sections {
    uint64_t id, gen;
    struct slice bytes;
};

struct salvage {
    struct pages pages;
    struct checking c;
    struct arena arena;
    unsigned char *scan; /* the page that is being looked at */
    struct found *blobs; /* by id, then those without */
    size_t n_blobs, blobs_max;
    struct found_sections *sections;
    size_t n_sections, sections_max;
    struct partition_state state;
    bool has_state;
    struct gone gone;
    uint64_t n_gone;
    struct mark *marks;
    size_t n_marks, marks_max;
    struct strbuf kept; /* as META_KEPT */
    struct strbuf payload, directory, body;
    int (*use)(void *arg, const struct blob_bytes *b, uint64_t gen); /* each blob that is left */
    void *arg;
};

static void salvage_fini(struct salvage *s)
{
    pages_fini(&s->pages);
    arena_fini(&s->arena);
    mem_free(s->scan);
    mem_free(s->blobs);
    mem_free(s->sections);
    mem_free(s->gone.v);
    mem_free(s->marks);
    strbuf_fini(&s->kept);
    strbuf_fini(&s->payload);
    strbuf_fini(&s->directory);
    strbuf_fini(&s->body);
}

/* Room for one more in an array; NULL: no memory. */
static void *more(void *all, size_t n, size_t *max, size_t size)
{
    if (n < *max)
        return all;
    size_t wanted = *max ? *max * 2 : 64;
    void *v = mem_try_resize(all, wanted * size);
    if (v)
        *max = wanted;
    return v;
}

/* ---------------------------------------------------------------- rows of the other tables */

static uint64_t count_gone(const struct gone *g)
{
    uint64_t n = 0;
    for (size_t i = 0; i < g->n; i++)
        n += g->v[i].last - g->v[i].first + 1;
    return n;
}

static int take_mark(struct salvage *s, const struct mark *m)
{
    for (size_t i = 0; i < s->n_marks; i++)
        if (memcmp(s->marks[i].source.id, m->source.id, sizeof m->source.id) == 0) {
            if (m->record > s->marks[i].record)
                s->marks[i] = *m;
            return 0;
        }
    struct mark *v = more(s->marks, s->n_marks, &s->marks_max, sizeof *v);
    if (!v)
        return -ENOMEM;
    s->marks = v;
    v[s->n_marks++] = *m;
    return 0;
}

/* The newest of each counts: older ones lie about on free pages. Everything in meta only ever grows. */
static int take_meta(struct salvage *s, uint64_t id, struct slice value)
{
    struct partition_state state;
    struct mark m;
    struct gone gone = {0};
    int r = 0;
    if (id == META_STATE) {
        if (state_decode(value, &state) == 0 && (!s->has_state || state.commits > s->state.commits)) {
            s->state = state;
            s->has_state = true;
        }
    } else if (id == META_GONE) {
        r = gone_decode(value, &gone);
        if (r == 0 && count_gone(&gone) > s->n_gone) {
            mem_free(s->gone.v);
            s->gone = gone;
            s->n_gone = count_gone(&gone);
            return 0;
        }
        mem_free(gone.v);
    } else if (id == META_KEPT) {
        r = kept_join(&s->kept, value);
        r = r == E_PROTO ? 0 : r;
    } else if (id >= META_MARKS && mark_decode(value, &m) == 0) {
        r = take_mark(s, &m);
    }
    return r == -ENOMEM ? r : 0;
}

static int take_sections(struct salvage *s, uint64_t id, uint64_t gen, struct slice bytes)
{
    struct found_sections *v = more(s->sections, s->n_sections, &s->sections_max, sizeof *v);
    if (!v)
        return -ENOMEM;
    s->sections = v;
    v[s->n_sections] = (struct found_sections){id, gen, arena_copy(&s->arena, bytes)};
    return v[s->n_sections++].bytes.p ? 0 : -ENOMEM;
}

/* A row of meta, or of section: three columns or four, of these types, and its checksum. */
static int try_row(struct salvage *s, const struct page_row *row)
{
    struct page_columns c;
    if (row->payload_bytes > BLOB_DIRECTORY_MAX)
        return 0;
    strbuf_reset(&s->payload);
    char *to = strbuf_room(&s->payload, row->payload_bytes);
    if (!to)
        return -ENOMEM;
    if (page_row_read(&s->pages, row, 0, row->payload_bytes, false, to) < 0)
        return 0;
    strbuf_advance(&s->payload, row->payload_bytes);
    struct slice payload = strbuf_slice(&s->payload);
    if (!page_columns_parse(payload, payload.n, &c) || (c.n != 3 && c.n != 4) || c.v[0].type != 0)
        return 0;
    size_t at = c.n - 2;
    int64_t crc = 0, gen = 0;
    if (c.v[at].type < 12 || c.v[at].type & 1 || !page_column_int(payload, &c, c.n - 1, &crc))
        return 0;
    struct slice value = slice_of(payload.p + c.v[at].at, c.v[at].bytes);
    if (c.n == 3)
        return meta_crc(row->id, value) == (uint32_t)crc ? take_meta(s, row->id, value) : 0;
    if (!page_column_int(payload, &c, 1, &gen) ||
        sections_crc(row->id, (uint64_t)gen, value) != (uint32_t)crc)
        return 0;
    return take_sections(s, row->id, (uint64_t)gen, value);
}

/* ---------------------------------------------------------------- blobs */

/* Is this the row whose directory begins at `directory` of the page? */
static bool is_row_of(const struct page_row *row, struct slice page, uint32_t directory, struct found *out)
{
    struct page_columns c;
    struct slice payload = slice_of(page.p + row->at, row->n_local);
    int64_t gen, directory_crc, body_crc, crc;
    if (row->at >= directory || !page_columns_parse(payload, row->payload_bytes, &c) || c.n != 7 ||
        c.v[0].type != 0 || c.v[5].type < 12 || c.v[5].type & 1 || c.v[6].type < 12 || c.v[6].type & 1 ||
        row->at + c.v[5].at != directory || !page_column_int(payload, &c, 1, &gen) ||
        !page_column_int(payload, &c, 2, &directory_crc) || !page_column_int(payload, &c, 3, &body_crc) ||
        !page_column_int(payload, &c, 4, &crc))
        return false;
    *out = (struct found){.id = row->id,
                          .gen = (uint64_t)gen,
                          .directory_crc = (uint32_t)directory_crc,
                          .body_crc = (uint32_t)body_crc,
                          .directory_at = c.v[5].at,
                          .directory_bytes = c.v[5].bytes,
                          .body_at = c.v[6].at,
                          .body_bytes = c.v[6].bytes,
                          .row = *row};
    out->is_whole = blob_row_crc(out->id, out->gen, out->directory_bytes, out->directory_crc, out->body_bytes,
                                 out->body_crc) == (uint32_t)crc;
    return out->directory_bytes <= BLOB_DIRECTORY_MAX && out->body_bytes <= BLOB_BODY_MAX;
}

static int keep_blob(struct salvage *s, const struct found *f)
{
    struct found *v = more(s->blobs, s->n_blobs, &s->blobs_max, sizeof *v);
    if (!v)
        return -ENOMEM;
    s->blobs = v;
    v[s->n_blobs++] = *f;
    return 0;
}

/* A directory begins at `at`: its row, or else only where it is. */
static int take_blob(struct salvage *s, uint32_t number, struct slice page, uint32_t at)
{
    uint32_t least = at > ROW_HEAD_MAX ? at - ROW_HEAD_MAX : 0;
    for (uint32_t begin = at; begin-- > least;) {
        struct page_row row;
        struct found f;
        if (page_row_parse(&s->pages, number, page, begin, &row) && is_row_of(&row, page, at, &f) &&
            f.is_whole)
            return keep_blob(s, &f);
    }
    const struct found loose = {.row = {.page = number, .at = at},
                                .directory_bytes = blob_directory_mark(slice_from(page, at))};
    return keep_blob(s, &loose);
}

static int scan_page(struct salvage *s, uint32_t number)
{
    struct slice page = pages_get(&s->pages, number);
    if (page.n == 0)
        return 0; /* what was on it is missed */
    memcpy(s->scan, page.p, page.n);
    page.p = (const char *)s->scan;
    uint32_t at[LEAF_ROWS_MAX];
    size_t n = pages_leaf_rows(page, number == 1, at, LEAF_ROWS_MAX);
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct page_row row;
        if (page_row_parse(&s->pages, number, page, at[i], &row))
            r = try_row(s, &row);
    }
    for (uint32_t i = 0; r == 0 && i < page.n; i++)
        if (blob_directory_mark(slice_from(page, i)))
            r = take_blob(s, number, page, i);
    return r;
}

static int compare_found(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    uint64_t left = x->id - 1, right = y->id - 1; /* those without come last */
    return (left > right) - (left < right);
}

static bool must_be_there(const struct salvage *s, uint64_t id)
{
    return id && (!s->has_state || id < s->state.next_blob) && !gone_has(&s->gone, id);
}

/* ---------------------------------------------------------------- what they hold */

static int read_part(struct salvage *s, const struct found *f, uint64_t at, uint64_t n, bool is_straight,
                     struct strbuf *out)
{
    strbuf_reset(out);
    char *to = strbuf_room(out, n);
    if (!to)
        return -ENOMEM;
    int r = page_row_read(&s->pages, &f->row, at, n, is_straight, to);
    if (r == 0)
        strbuf_advance(out, n);
    return r;
}

/* By the links, or else straight on, whichever has the checksum; the body of neither: by the links. */
static int read_checked(struct salvage *s, const struct found *f, uint64_t at, uint64_t n, uint32_t crc,
                        struct strbuf *out)
{
    int r = read_part(s, f, at, n, false, out);
    if (r == -ENOMEM || (r == 0 && crc32c(0, strbuf_slice(out)) == crc))
        return r;
    int straight = read_part(s, f, at, n, true, out);
    if (straight == -ENOMEM || (straight == 0 && crc32c(0, strbuf_slice(out)) == crc))
        return straight;
    r = read_part(s, f, at, n, false, out);
    return r == 0 ? E_DAMAGE : r;
}

/* Both parts, in s->directory and s->body. E_DAMAGE: not all of it is as it was written. */
static int check_whole(struct salvage *s, const struct found *f)
{
    int r = read_checked(s, f, f->directory_at, f->directory_bytes, f->directory_crc, &s->directory);
    return r < 0 ? r : read_checked(s, f, f->body_at, f->body_bytes, f->body_crc, &s->body);
}

/* Every page; then each blob once. A row that has moved to another page may have left most of itself where it
 * was: of several the one counts whose bytes are right. */
static int scan(struct salvage *s)
{
    int r = 0;
    s->scan = mem_try_alloc(s->pages.page_bytes);
    if (!s->scan)
        return -ENOMEM;
    for (uint32_t i = 1; r == 0 && i <= s->pages.n; i++)
        r = scan_page(s, i);
    if (r < 0 || s->n_blobs == 0)
        return r;
    qsort(s->blobs, s->n_blobs, sizeof *s->blobs, compare_found);
    size_t n = 1;
    for (size_t i = 1; i < s->n_blobs; i++) {
        if (!s->blobs[i].id || s->blobs[i].id != s->blobs[n - 1].id) {
            s->blobs[n++] = s->blobs[i];
            continue;
        }
        r = check_whole(s, &s->blobs[n - 1]);
        if (r == E_DAMAGE)
            s->blobs[n - 1] = s->blobs[i];
        else if (r < 0)
            return r;
    }
    s->n_blobs = n;
    return 0;
}

/* Gives a blob whose directory is in s->directory to whoever wants it. */
static int give_blob(struct salvage *s, const struct found *f)
{
    struct arena arena = {0};
    const struct blob_directory *d = NULL;
    struct slice directory = strbuf_slice(&s->directory), body = strbuf_slice(&s->body);
    int r = blob_directory_read(directory, &arena, &d);
    if (r == 0 && !blob_is_pair(directory, body))
        body = slice_of("", 0);
    if (r == 0)
        r = checking_blob(&s->c, f->id, d, directory.n, body);
    if (r == 0 && s->use) {
        const struct blob_bytes b = {
            .directory = directory, .body = body, .sections = d->sections, .n_sections = d->n_sections};
        r = s->use(s->arg, &b, f->gen);
    }
    arena_fini(&arena);
    return r;
}

static int give_whole(struct salvage *s, const struct found *f)
{
    int r = read_checked(s, f, f->directory_at, f->directory_bytes, f->directory_crc, &s->directory);
    if (r < 0)
        return r;
    r = read_checked(s, f, f->body_at, f->body_bytes, f->body_crc, &s->body);
    if (r == -ENOMEM)
        return r;
    return give_blob(s, f);
}

/* What the section rows say of one that is lost. */
struct names {
    struct blob_section v[64];
    size_t n;
};

static int add_name(void *arg, const struct blob_section *s)
{
    struct names *n = arg;
    if (n->n < sizeof n->v / sizeof *n->v)
        n->v[n->n++] = *s;
    return 0;
}

static void say_lost(struct salvage *s, uint64_t id)
{
    struct names n = {.n = 0};
    for (size_t i = 0; i < s->n_sections && n.n == 0; i++)
        if (s->sections[i].id == id)
            (void)sections_decode(s->sections[i].bytes, add_name, &n); /* its checksum was right */
    checking_lost(&s->c, id, n.v, n.n);
}

/* ---------------------------------------------------------------- blobs without a row */

static uint32_t get_be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The blob at f's place if its row ends at `end` of the page: is it whole then? Fills s->directory and body.
 */
static int try_end(struct salvage *s, struct found *f, struct slice page, uint32_t end)
{
    uint64_t n = f->directory_bytes;
    struct arena arena = {0};
    const struct blob_directory *d;
    f->row.n_local = end - f->row.at;
    f->row.overflow = 0;
    f->row.payload_bytes = f->row.n_local;
    if (n + 24 > f->row.n_local) {
        if (f->row.n_local < 4)
            return E_DAMAGE;
        f->row.n_local -= 4;
        f->row.overflow = get_be32((const unsigned char *)page.p + end - 4);
        f->row.payload_bytes = BLOB_DIRECTORY_MAX + BLOB_BODY_MAX; /* it is not known yet */
    }
    int r = read_part(s, f, 0, n, false, &s->directory);
    if (r == 0)
        r = blob_directory_read(strbuf_slice(&s->directory), &arena, &d);
    if (r == 0)
        r = read_part(s, f, n, 24, false, &s->body);
    size_t body = r == 0 ? blob_body_mark(strbuf_slice(&s->body)) : 0;
    if (r == 0 && (body == 0 || !blob_is_pair(strbuf_slice(&s->directory), strbuf_slice(&s->body))))
        r = E_DAMAGE;
    if (r == 0)
        r = read_part(s, f, n, body, false, &s->body);
    arena_fini(&arena);
    return r;
}

/* A row ends where the page does, or where another begins. */
static int read_loose(struct salvage *s, struct found *f)
{
    struct slice page = pages_get(&s->pages, f->row.page);
    if (page.n == 0)
        return E_DAMAGE;
    memcpy(s->scan, page.p, page.n);
    page.p = (const char *)s->scan;
    uint32_t at[LEAF_ROWS_MAX];
    size_t n = pages_leaf_rows(page, f->row.page == 1, at, LEAF_ROWS_MAX - 1);
    at[n++] = (uint32_t)page.n;
    int r = E_DAMAGE;
    for (size_t i = 0; i < n && r < 0 && r != -ENOMEM; i++)
        if (at[i] > f->row.at)
            r = try_end(s, f, page, at[i]);
    return r;
}

/* Which one is it? By the section row that has its number. */
static const struct found_sections *identify(const struct salvage *s, const struct strbuf *directory)
{
    for (size_t i = 0; i < s->n_sections; i++)
        if (sections_number(s->sections[i].bytes) == directory_number(strbuf_slice(directory)))
            return &s->sections[i];
    return NULL;
}

/* The numbers of blobs that must be there and have not been given yet. */
struct missing {
    uint64_t *v;
    size_t n, max;
};

static int miss(struct missing *m, uint64_t id)
{
    uint64_t *v = more(m->v, m->n, &m->max, sizeof *v);
    if (!v)
        return -ENOMEM;
    m->v = v;
    v[m->n++] = id;
    return 0;
}

/* false: it is not missing. */
static bool unmiss(struct missing *m, uint64_t id)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i] == id) {
            memmove(&m->v[i], &m->v[i + 1], (m->n - i - 1) * sizeof *m->v);
            m->n--;
            return true;
        }
    return false;
}

/* Those without a row that are known to be missing. Others are what was taken out and lies about. */
static int give_loose(struct salvage *s, struct missing *m)
{
    for (size_t i = 0; i < s->n_blobs && m->n; i++) {
        struct found *f = &s->blobs[i];
        if (f->is_whole)
            continue;
        int r = read_loose(s, f);
        if (r == -ENOMEM)
            return r;
        const struct found_sections *is = r == 0 ? identify(s, &s->directory) : NULL;
        if (!is || !unmiss(m, is->id))
            continue;
        f->id = is->id;
        f->gen = is->gen;
        checking_say(&s->c, f->id, "the row of a blob is damaged; the blob is not", NULL);
        r = give_blob(s, f);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---------------------------------------------------------------- all of it */

/* The number behind the last that may be there. */
static uint64_t find_end(const struct salvage *s)
{
    uint64_t end = 1;
    if (s->has_state)
        return s->state.next_blob;
    for (size_t i = 0; i < s->n_blobs; i++)
        if (s->blobs[i].id >= end)
            end = s->blobs[i].id + 1;
    for (size_t i = 0; i < s->n_sections; i++)
        if (s->sections[i].id >= end)
            end = s->sections[i].id + 1;
    return end;
}

/* Those that have their rows; what is missing then. */
static int give_found(struct salvage *s, struct missing *m)
{
    size_t at = 0;
    int r = 0;
    for (uint64_t id = 1, end = find_end(s); r == 0 && id < end; id++) {
        while (at < s->n_blobs && s->blobs[at].id && s->blobs[at].id < id)
            at++;
        if (!must_be_there(s, id))
            continue;
        bool is_found = at < s->n_blobs && s->blobs[at].id == id;
        r = is_found ? give_whole(s, &s->blobs[at]) : E_DAMAGE;
        if (r == E_DAMAGE || r == E_PROTO)
            r = miss(m, id);
    }
    return r;
}

static int give_all(struct salvage *s)
{
    struct missing m = {.v = NULL};
    int r = give_found(s, &m);
    if (r == 0)
        r = give_loose(s, &m);
    for (size_t i = 0; r == 0 && i < m.n; i++)
        say_lost(s, m.v[i]);
    mem_free(m.v);
    return r;
}

/* Everything that the state says must be there is, to the last byte. */
static int is_complete(struct salvage *s, bool *out)
{
    *out = false;
    size_t at = 0;
    for (uint64_t id = 1; s->has_state && id < s->state.next_blob; id++) {
        while (at < s->n_blobs && s->blobs[at].id && s->blobs[at].id < id)
            at++;
        if (!must_be_there(s, id))
            continue;
        const struct found *f = &s->blobs[at];
        if (at == s->n_blobs || f->id != id)
            return 0;
        int r = check_whole(s, f);
        if (r < 0)
            return r == E_DAMAGE ? 0 : r;
    }
    *out = s->has_state && s->n_marks >= s->state.n_marks;
    return 0;
}

/* The pages of this size, as SQLite would read them or with what is behind. */
static int look(struct salvage *s, const char *path, uint32_t page_bytes, bool with_late)
{
    int r = pages_open(path, page_bytes, with_late, &s->pages);
    return r < 0 ? r : scan(s);
}

static void salvage_reset(struct salvage *s)
{
    struct checking c = s->c;
    salvage_fini(s);
    *s = (struct salvage){.c = c, .pages = {.file = -1, .log = -1}};
}

/* With the log's rest if that is whole, else without. */
static int collect_late(struct salvage *s, const char *path)
{
    struct salvage late = {.c = s->c, .pages = {.file = -1, .log = -1}};
    bool is_good = false;
    int r = look(&late, path, s->pages.page_bytes, true);
    if (r == 0 && late.has_state && (!s->has_state || late.state.commits > s->state.commits))
        r = is_complete(&late, &is_good);
    if (is_good) {
        struct salvage swap = *s;
        *s = late;
        late = swap;
    }
    salvage_fini(&late);
    if (r == 0)
        checking_say(
            &s->c, 0,
            is_good ? "the write-ahead log is damaged; what is behind that could be read"
                    : "the write-ahead log is damaged, or was not finished; what is behind that is left out",
            NULL);
    return r;
}

static int collect(struct salvage *s, const char *path)
{
    int r = look(s, path, DB_PAGE_BYTES, false);
    if (r == 0 && s->n_blobs == 0 && !s->has_state && !s->pages.has_late) { /* pages of another size? */
        salvage_reset(s);
        r = look(s, path, 0, false);
        if (r == E_DAMAGE) {
            salvage_reset(s);
            r = look(s, path, DB_PAGE_BYTES, false);
        }
    }
    return r < 0 || !s->pages.has_late ? r : collect_late(s, path);
}

/* What else is not there. */
static void say_rest(const struct salvage *s)
{
    s->c.health->has_lost_marks = !s->has_state || s->n_marks < s->state.n_marks;
    if (s->has_state && s->n_marks < s->state.n_marks)
        checking_say(&s->c, 0, "marks are lost", NULL);
    if (!s->has_state)
        checking_say(&s->c, 0, "the state is lost, and how many blobs there were", NULL);
}

/* Has anything been written behind the file? */
static bool has_log(const struct salvage *s)
{
    struct stat st;
    return s->pages.log >= 0 && (fstat(s->pages.log, &st) < 0 || st.st_size > 0);
}

int salvage_check(const char *dir, const char *name, bool is_empty, partition_damage_fn *fn, void *arg,
                  struct partition_health *out, struct diag *why)
{
    struct strbuf path = {0};
    struct partition_health health = {.is_broken = true};
    strbuf_printf(&path, "%s/%s", dir, name);
    struct salvage s = {.c = {.file = path.p, .fn = fn, .arg = arg, .health = &health},
                        .pages = {.file = -1, .log = -1}};
    int r = strbuf_failed(&path) ? -ENOMEM : collect(&s, path.p);
    bool is_begun =
        r == 0 && is_empty && s.n_blobs == 0 && !s.has_state && !has_log(&s); /* and a crash came */
    if (is_begun) {
        health.is_broken = false;
    } else if (r == 0) {
        checking_say(&s.c, 0, "SQLite can't read this file; it can be made again from what is right in it",
                     NULL);
        r = give_all(&s);
    }
    if (r == 0 && !is_begun)
        say_rest(&s);
    salvage_fini(&s);
    if (r < 0)
        (void)diag_set(why, r, 0, "%s: %s", path.p ? path.p : name, err_text(r));
    else
        *out = health;
    strbuf_fini(&path);
    return r;
}

/* ---------------------------------------------------------------- the new file */

static int put_blob(void *arg, const struct blob_bytes *b, uint64_t gen)
{
    uint64_t id;
    return partition_put(arg, b, gen, &id);
}

/* Where it ends: as the state says, or else whole days, as long as there is data. */
static int find_span(const struct salvage *s, const char *name, struct partition_span *out)
{
    if (s->has_state) {
        *out = s->state.span;
        return 0;
    }
    if (!partition_parse_name(name, &out->from_ns, &out->step_ns))
        return -EINVAL;
    const int64_t day = INT64_C(86400) * 1000000000;
    out->to_ns = out->from_ns + day;
    for (size_t i = 0; i < s->n_sections; i++) {
        struct names n = {.n = 0};
        (void)sections_decode(s->sections[i].bytes, add_name, &n); /* its checksum was right */
        for (size_t k = 0; k < n.n; k++)
            while (n.v[k].max_ns >= out->to_ns && out->to_ns < INT64_MAX - day)
                out->to_ns += day;
    }
    return 0;
}

static int fill(struct salvage *s, struct partition *p)
{
    s->use = put_blob;
    s->arg = p;
    int r = partition_begin_write(p);
    if (r == 0)
        r = give_all(s);
    for (size_t i = 0; r == 0 && i < s->n_marks; i++) {
        r = partition_set_mark(p, &s->marks[i].source, s->marks[i].record);
        if (r == 0)
            r = partition_set_floor(p, &s->marks[i].source, s->marks[i].floor);
    }
    if (r == 0)
        r = kept_join(&p->next_kept, strbuf_slice(&s->kept));
    if (r == 0 && s->state.gen > p->next.gen)
        p->next.gen = s->state.gen;
    if (r == 0)
        r = partition_commit(p);
    if (r == 0)
        r = partition_checkpoint(p);
    return r;
}

static int make_new(struct salvage *s, const char *dir, const char *name, const char *temporary,
                    struct diag *why)
{
    struct partition_span span;
    struct partition *p = NULL;
    int r = partition_unlink(dir, temporary);
    if (r < 0 && r != -ENOENT)
        return r;
    r = find_span(s, name, &span);
    if (r == 0)
        r = partition_open(dir, temporary, PARTITION_WRITE | PARTITION_CREATE, &span, &p, why);
    if (r == 0)
        r = fill(s, p);
    partition_close(p);
    if (r < 0)
        (void)partition_unlink(dir, temporary); /* r says what is wrong */
    return r;
}

static bool is_same_file(int dir, const char *a, const char *b)
{
    struct stat x, y;
    return fstatat(dir, a, &x, AT_SYMLINK_NOFOLLOW) == 0 && fstatat(dir, b, &y, AT_SYMLINK_NOFOLLOW) == 0 &&
           x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static int link_once(int dir, const char *from, const char *to)
{
    if (linkat(dir, from, dir, to, 0) == 0 || errno == ENOENT)
        return 0;
    return errno == EEXIST && is_same_file(dir, from, to) ? 0 : -errno;
}

/* The name for the damaged file: the first that is free, or that it has from a salvage that was cut short. */
static int find_name(int dir, const char *name, struct strbuf *out)
{
    struct stat st;
    for (unsigned i = 1;; i++) {
        strbuf_reset(out);
        if (i == 1)
            strbuf_printf(out, "%s.damaged", name);
        else
            strbuf_printf(out, "%s.damaged-%u", name, i);
        if (strbuf_failed(out))
            return -ENOMEM;
        if (fstatat(dir, out->p, &st, AT_SYMLINK_NOFOLLOW) < 0 || is_same_file(dir, name, out->p))
            return 0;
    }
}

/* The head of this file says in which order, and why. */
static int swap_files(int dir, const char *name, const char *temporary, const char *damaged)
{
    struct strbuf log = {0}, shm = {0}, damaged_log = {0};
    strbuf_printf(&log, "%s-wal", name);
    strbuf_printf(&shm, "%s-shm", name);
    strbuf_printf(&damaged_log, "%s-wal", damaged);
    int r = strbuf_failed(&log) || strbuf_failed(&shm) || strbuf_failed(&damaged_log) ? -ENOMEM : 0;
    if (r == 0)
        r = link_once(dir, log.p, damaged_log.p);
    if (r == 0)
        r = link_once(dir, name, damaged);
    if (r == 0 && fsync(dir) < 0)
        r = -errno;
    if (r == 0 && ((unlinkat(dir, log.p, 0) < 0 && errno != ENOENT) ||
                   (unlinkat(dir, shm.p, 0) < 0 && errno != ENOENT) ||
                   renameat(dir, temporary, dir, name) < 0 || fsync(dir) < 0))
        r = -errno;
    strbuf_fini(&log);
    strbuf_fini(&shm);
    strbuf_fini(&damaged_log);
    return r;
}

static int salvage_in(const char *dir, int fd, const char *name, struct salvage *s, struct diag *why)
{
    struct strbuf damaged = {0}, temporary = {0}, path = {0};
    strbuf_printf(&temporary, "%s.new", name);
    int r = strbuf_failed(&temporary) ? -ENOMEM : find_name(fd, name, &damaged);
    if (r == 0) {
        /* If it has that name already, its log may have, too, and be gone from here. */
        strbuf_printf(&path, "%s/%s", dir, is_same_file(fd, name, damaged.p) ? damaged.p : name);
        r = strbuf_failed(&path) ? -ENOMEM : collect(s, path.p);
    }
    if (r == 0)
        r = make_new(s, dir, name, temporary.p, why);
    if (r == 0)
        say_rest(s);
    if (r == 0)
        r = swap_files(fd, name, temporary.p, damaged.p);
    strbuf_fini(&damaged);
    strbuf_fini(&temporary);
    strbuf_fini(&path);
    return r;
}

int partition_salvage(const char *dir, const char *name, partition_damage_fn *fn, void *arg,
                      struct partition_health *out, struct diag *why)
{
    struct partition_health health = {.is_broken = true};
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/%s", dir, name);
    struct salvage s = {.c = {.file = path.p, .fn = fn, .arg = arg, .health = &health},
                        .pages = {.file = -1, .log = -1}};
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = strbuf_failed(&path) ? -ENOMEM : fd < 0 ? -errno : salvage_in(dir, fd, name, &s, why);
    salvage_fini(&s);
    if (fd >= 0)
        (void)close(fd); /* only a handle */
    if (r < 0)
        (void)diag_set(why, r, 0, "%s/%s: %s", dir, name, err_text(r));
    else
        *out = health;
    strbuf_fini(&path);
    return r;
}
