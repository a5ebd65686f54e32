/* SPDX-License-Identifier: Apache-2.0 */
/* The layout is in blob_write.c. Nothing here trusts a byte: a CRC says that they are those that were
 * written, which a broken or hostile writer has, too. Every count is checked against the bytes that are left
 * (a thing has one byte at least) or a limit before memory is taken for it. */
#include "archive/blob_layout.h"

#include "archive/column_codec.h"
#include "base/cursor.h"
#include "base/mem.h"

#include <errno.h>
#include <zstd.h>

/* Where a piece is. */
struct place {
    const char *here; /* in the directory's memory; NULL: in the body */
    uint32_t n;
    uint32_t frame, at; /* in the body: which frame, and where in it when unpacked */
};

struct frame {
    uint32_t at, n;    /* in the body */
    uint32_t unpacked; /* bytes; n: it is not packed */
    uint32_t from;     /* where it begins in the unpacked body */
    uint32_t crc;
};

struct filter {
    uint32_t column;
    uint32_t n_bits;
    const unsigned char *bits;
};

/* What is not of the interface. */
struct chunk {
    struct place fixed[PIECE_FIXED];
    struct place *columns; /* in the order of blob_chunk.ids; n 0 and here set: the same in all rows */
    const struct filter *filters;
    uint32_t n_filters;
};

struct directory {
    struct blob_directory d; /* first: what callers have */
    uint64_t number;
    const struct frame *frames;
    uint32_t n_frames;
    uint64_t unpacked; /* bytes of all frames */
    const struct row_origin *origins, *makers;
    uint32_t n_origins, n_makers;
    struct chunk *chunks;
    const uint32_t *first; /* chunk of each section, and n_chunks */
};

static const char same_in_all[1]; /* place.here of such a column */

/* While it is read. */
struct reading {
    struct directory *d;
    struct cursor c;
    struct arena *arena;
    uint64_t taken; /* bytes */
    int error;      /* the first one that is not c.bad */
};

static bool fail(struct reading *r, int error)
{
    if (!r->error)
        r->error = error;
    return cursor_fail(&r->c);
}

/* Memory for n things; n was checked. NULL: r says why. */
static void *take(struct reading *r, uint64_t n, size_t size)
{
    if (r->error || r->c.bad) {
        (void)fail(r, E_PROTO);
        return NULL;
    }
    r->taken += n * size;
    void *p = r->taken > BLOB_MEMORY_MAX ? NULL : arena_alloc(r->arena, n ? n * size : 1);
    if (!p)
        (void)fail(r, r->taken > BLOB_MEMORY_MAX ? E_LIMIT : -ENOMEM);
    return p;
}

/* A count of things of at least `least` bytes each. */
static uint32_t read_count(struct reading *r, size_t least, uint32_t max)
{
    uint64_t n = cursor_varint(&r->c);
    if (n > cursor_left(&r->c) / least || n > max)
        return (uint32_t)fail(r, n > max ? E_LIMIT : E_PROTO);
    return (uint32_t)n;
}

/* The next n bytes, copied; NULL: r says why. */
static const char *read_bytes(struct reading *r, uint64_t n)
{
    struct slice s = cursor_bytes(&r->c, n);
    char *copy = take(r, s.n, 1);
    return copy ? memcpy(copy, s.p, s.n) : NULL;
}

static struct slice read_text(struct reading *r, size_t max)
{
    uint64_t n = cursor_varint(&r->c);
    if (n > max)
        (void)fail(r, E_LIMIT);
    const char *p = read_bytes(r, n);
    return p ? slice_of(p, (size_t)n) : slice_of("", 0);
}

/* ---------------------------------------------------------------- both halves */

static uint32_t get_u32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static uint64_t get_u64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static size_t marked_length(struct slice at, const char *mark, size_t least, size_t max)
{
    if (at.n < BLOB_HEAD || memcmp(at.p, mark, BLOB_MARK_SIZE) != 0)
        return 0;
    size_t n = get_u32(at.p + BLOB_AT_LENGTH);
    return n >= least && n <= max ? n : 0;
}

size_t blob_directory_mark(struct slice at)
{
    return marked_length(at, BLOB_DIRECTORY_MARK, BLOB_DIRECTORY_HEAD, BLOB_DIRECTORY_MAX);
}

size_t blob_body_mark(struct slice at)
{
    return marked_length(at, BLOB_BODY_MARK, BLOB_HEAD, BLOB_BODY_MAX);
}

bool blob_is_pair(struct slice directory, struct slice body)
{
    return directory.n >= BLOB_HEAD && body.n >= BLOB_HEAD &&
           get_u64(directory.p + BLOB_AT_NUMBER) == get_u64(body.p + BLOB_AT_NUMBER);
}

/* ---------------------------------------------------------------- the directory: frames, origins, tables */

static void read_frames(struct reading *r)
{
    struct directory *d = r->d;
    d->n_frames = read_count(r, 6, BLOB_BODY_MAX / 2);
    struct frame *frames = take(r, d->n_frames, sizeof *frames);
    uint64_t at = BLOB_HEAD, unpacked = 0;
    for (uint32_t i = 0; i < d->n_frames && !r->c.bad; i++) {
        uint64_t u = cursor_varint(&r->c), fewer = cursor_varint(&r->c), n = u - fewer;
        uint32_t crc = cursor_u32(&r->c);
        if (fewer >= u || u > BLOB_BODY_MAX) {
            (void)fail(r, E_PROTO);
            return;
        }
        frames[i] = (struct frame){(uint32_t)at, (uint32_t)n, (uint32_t)u, (uint32_t)unpacked, crc};
        at += n;
        unpacked += u;
        if (at > BLOB_BODY_MAX || unpacked > BLOB_BODY_MAX)
            (void)fail(r, E_LIMIT);
    }
    d->frames = frames;
    d->unpacked = unpacked;
}

static void read_origins(struct reading *r)
{
    struct directory *d = r->d;
    d->n_makers = read_count(r, 17, BLOB_ORIGINS_MAX);
    struct row_origin *makers = take(r, d->n_makers, sizeof *makers);
    for (uint32_t i = 0; i < d->n_makers && !r->c.bad; i++) {
        struct slice producer = cursor_bytes(&r->c, 16);
        makers[i] = (struct row_origin){.epoch = cursor_varint(&r->c)};
        memcpy(makers[i].producer, producer.p, producer.n);
        makers[i].clock.bound_ns = CLOCK_BOUND_UNKNOWN;
    }
    d->makers = makers;
    d->n_origins = read_count(r, 4, BLOB_ORIGINS_MAX);
    struct row_origin *origins = take(r, d->n_origins, sizeof *origins);
    struct batch_clock clock = {.offset_ns = 0};
    for (uint32_t i = 0; i < d->n_origins && !r->c.bad; i++) {
        uint64_t maker = cursor_varint(&r->c);
        clock.offset_ns = (int64_t)((uint64_t)clock.offset_ns + (uint64_t)unzigzag(cursor_varint(&r->c)));
        clock.bound_ns = cursor_varint(&r->c) - 1;
        clock.generation += (uint32_t)unzigzag(cursor_varint(&r->c));
        if (r->c.bad || maker >= d->n_makers) {
            (void)fail(r, E_PROTO);
            return;
        }
        origins[i] = makers[maker];
        origins[i].clock = clock;
    }
    d->origins = origins;
}

static void read_table(struct reading *r, struct table_def *t)
{
    t->name = read_text(r, EVENT_NAME_MAX);
    t->n_columns = read_count(r, 5, ROWS_COLUMNS_MAX);
    struct field *columns = take(r, t->n_columns, sizeof *columns);
    for (uint32_t i = 0; i < t->n_columns && !r->c.bad; i++) {
        uint8_t type = cursor_u8(&r->c), tags = cursor_u8(&r->c);
        columns[i] = (struct field){.type = type, .role = tags >> 4, .kind = tags & 15};
        columns[i].name = read_text(r, EVENT_NAME_MAX);
        columns[i].unit = read_text(r, EVENT_UNIT_MAX);
        columns[i].help = read_text(r, EVENT_HELP_MAX);
        if (type == VALUE_NONE || type >= VALUE_TYPES || columns[i].role > ROLE_KEY ||
            columns[i].kind > KIND_TEXT)
            (void)fail(r, E_PROTO);
    }
    t->columns = columns;
}

/* ---------------------------------------------------------------- the directory: columns of chunks */

/* A piece of n bytes: here, or its place is found when all are known. */
static struct place read_place(struct reading *r, uint64_t n, bool is_here)
{
    struct place p = {.n = (uint32_t)n};
    if (n > BLOB_BODY_MAX || n == 0) {
        (void)fail(r, E_PROTO);
        return p;
    }
    if (is_here)
        p.here = read_bytes(r, n);
    return p;
}

static double float_of(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint64_t bits_of(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static double as_float(struct value v)
{
    return v.type == VALUE_FLOAT ? v.f : v.type == VALUE_INT ? (double)v.i : (double)v.u;
}

static struct value read_number(struct reading *r, uint8_t type)
{
    struct value v = {.u = cursor_u64(&r->c), .type = type};
    if (type == VALUE_BOOL && v.u > 1)
        (void)fail(r, E_PROTO);
    return v;
}

static void read_numbers_summary(struct reading *r, uint8_t type, unsigned flags, uint32_t n_rows,
                                 struct column_summary *s)
{
    bool is_any = s->nans < s->count;
    s->first = read_number(r, type);
    if (flags & COLUMN_SAME) {
        s->last = s->first;
        s->min = is_any ? s->first : value_none();
        if (type == VALUE_FLOAT && is_any)
            s->min.f += 0.0; /* never -0.0: rows.h */
        s->max = s->min;
        if (is_any)
            s->sum =
                float_of(bits_of(as_float(s->first) * n_rows) + (uint64_t)unzigzag(cursor_varint(&r->c)));
        return;
    }
    s->last = read_number(r, type);
    if (!is_any)
        return;
    s->min = flags & COLUMN_MIN_FIRST ? s->first : flags & COLUMN_MIN_LAST ? s->last : read_number(r, type);
    s->max = flags & COLUMN_MAX_FIRST ? s->first : flags & COLUMN_MAX_LAST ? s->last : read_number(r, type);
    s->sum = float_of(cursor_u64(&r->c));
}

static void read_column(struct reading *r, uint8_t type, const struct blob_chunk *b, struct place *place,
                        struct column_summary *s)
{
    unsigned flags = cursor_u8(&r->c);
    *s = (struct column_summary){.count = b->n_rows, .first_ns = b->min_ns, .last_ns = b->max_ns};
    if (flags & COLUMN_MISSING) {
        uint64_t count = cursor_varint(&r->c);
        s->first_ns = (int64_t)((uint64_t)s->first_ns + cursor_varint(&r->c));
        s->last_ns = (int64_t)((uint64_t)s->last_ns - cursor_varint(&r->c));
        if (count == 0 || count >= b->n_rows)
            (void)fail(r, E_PROTO);
        s->count = (uint32_t)count;
    }
    if (flags & COLUMN_NANS) {
        uint64_t nans = cursor_varint(&r->c);
        if (nans > s->count)
            (void)fail(r, E_PROTO);
        s->nans = (uint32_t)nans;
    }
    bool is_text = value_is_text(type);
    if ((is_text && flags & COLUMN_SAME) || (is_text && type != VALUE_NUMBER && flags & COLUMN_NANS))
        (void)fail(r, E_PROTO);
    if (!is_text || type == VALUE_NUMBER)
        read_numbers_summary(r, type == VALUE_NUMBER ? VALUE_FLOAT : type, flags, b->n_rows, s);
    if (flags & COLUMN_SAME && flags & COLUMN_MISSING)
        (void)fail(r, E_PROTO);
    if (flags & COLUMN_SAME)
        *place = (struct place){.here = same_in_all};
    else
        *place = read_place(r, cursor_varint(&r->c), flags & COLUMN_HERE);
}

static void read_columns(struct reading *r, const struct table_def *t, struct blob_chunk *b, struct chunk *c)
{
    b->n_columns = read_count(r, 2, t->n_columns);
    uint16_t *ids = take(r, b->n_columns, sizeof *ids);
    struct column_summary *summaries = take(r, b->n_columns, sizeof *summaries);
    c->columns = take(r, b->n_columns, sizeof *c->columns);
    uint64_t next = 0;
    for (uint32_t i = 0; i < b->n_columns && !r->c.bad; i++) {
        uint64_t id = next + cursor_varint(&r->c);
        if (id < next || id >= t->n_columns) {
            (void)fail(r, E_PROTO);
            break;
        }
        ids[i] = (uint16_t)id;
        next = id + 1;
        read_column(r, t->columns[id].type, b, &c->columns[i], &summaries[i]);
    }
    b->ids = ids;
    b->summaries = summaries;
}

static void read_filters(struct reading *r, const struct table_def *t, struct chunk *c)
{
    c->n_filters = read_count(r, 2, t->n_columns);
    struct filter *filters = take(r, c->n_filters, sizeof *filters);
    uint64_t column = 0;
    for (uint32_t i = 0; i < c->n_filters && !r->c.bad; i++) {
        column += cursor_varint(&r->c);
        uint64_t n = cursor_varint(&r->c);
        if (column >= t->n_columns || n == 0 || n > ROWS_CHUNK_MAX) {
            (void)fail(r, E_PROTO);
            break;
        }
        uint32_t n_bits = filter_bits((uint32_t)n);
        const unsigned char *bits = (const unsigned char *)read_bytes(r, n_bits / 8);
        filters[i] = (struct filter){(uint32_t)column, n_bits, bits};
    }
    c->filters = filters;
}

/* ---------------------------------------------------------------- the directory: chunks */

static void read_makers(struct reading *r, struct blob_chunk *b)
{
    b->by.n = read_count(r, 3, ROWS_CHUNK_MAX);
    struct row_origin *origins = take(r, b->by.n, sizeof *origins);
    uint64_t *first = take(r, b->by.n, sizeof *first), *last = take(r, b->by.n, sizeof *last);
    if (b->by.n == 0)
        (void)fail(r, E_PROTO);
    for (uint32_t i = 0; i < b->by.n && !r->c.bad; i++) {
        uint64_t maker = cursor_varint(&r->c);
        first[i] = cursor_varint(&r->c);
        last[i] = first[i] + cursor_varint(&r->c);
        if (maker >= r->d->n_makers || last[i] < first[i]) {
            (void)fail(r, E_PROTO);
            break;
        }
        origins[i] = r->d->makers[maker];
    }
    b->by.origins = origins;
    b->by.first_seq = first;
    b->by.last_seq = last;
}

static void read_key(struct reading *r, const struct blob_chunk *before, struct blob_chunk *b)
{
    uint64_t shared = cursor_varint(&r->c);
    struct slice rest = cursor_text(&r->c);
    if (shared > before->key.n || rest.n > BLOB_KEY_MAX - shared) {
        (void)fail(r, E_PROTO);
        return;
    }
    if (rest.n == 0 && shared == before->key.n) {
        b->key = before->key; /* the next chunk of the same stream */
        return;
    }
    char *key = take(r, shared + rest.n, 1);
    if (!key)
        return;
    memcpy(key, before->key.p, shared);
    memcpy(key + shared, rest.p, rest.n);
    b->key = slice_of(key, shared + rest.n);
}

static void read_chunk(struct reading *r, const struct table_def *t, const struct blob_chunk *before,
                       struct blob_chunk *b, struct chunk *c)
{
    read_key(r, before, b);
    uint64_t n = cursor_varint(&r->c);
    b->min_ns = (int64_t)((uint64_t)before->min_ns + (uint64_t)unzigzag(cursor_varint(&r->c)));
    b->max_ns = (int64_t)((uint64_t)b->min_ns + cursor_varint(&r->c));
    if (n == 0 || n > ROWS_CHUNK_MAX || b->max_ns < b->min_ns) {
        (void)fail(r, E_PROTO);
        return;
    }
    b->n_rows = (uint32_t)n;
    read_makers(r, b);
    for (int i = 0; i < PIECE_FIXED && !r->c.bad; i++) {
        uint64_t size = cursor_varint(&r->c);
        c->fixed[i] = read_place(r, size / 2, size & 1);
    }
    read_columns(r, t, b, c);
    read_filters(r, t, c);
}

/* By key, then by time: blob_directory_find goes by it. */
static bool come_in_order(const struct blob_chunk *a, const struct blob_chunk *b)
{
    int order = blob_compare_keys(a->key, b->key);
    return order < 0 || (order == 0 && a->min_ns <= b->min_ns);
}

/* The section and its chunks, from d.chunks[at] on: how many. */
static uint32_t read_section(struct reading *r, uint32_t section, struct table_def *t, struct blob_section *s,
                             struct blob_chunk *chunks, uint32_t at, uint32_t max)
{
    read_table(r, t);
    uint32_t n = read_count(r, 12, max);
    if (n == 0 || r->c.bad)
        return (uint32_t)fail(r, E_PROTO);
    *s = (struct blob_section){.name = t->name, .min_ns = INT64_MAX, .max_ns = INT64_MIN};
    struct blob_chunk none = {.key = {"", 0}};
    const struct blob_chunk *before = &none;
    for (uint32_t i = at; i < at + n && !r->c.bad; i++) {
        struct blob_chunk *b = &chunks[i];
        *b = (struct blob_chunk){.section = section};
        r->d->chunks[i] = (struct chunk){.n_filters = 0};
        read_chunk(r, t, before, b, &r->d->chunks[i]);
        if (r->c.bad)
            return 0;
        if (i > at && !come_in_order(before, b))
            return (uint32_t)fail(r, E_PROTO);
        s->streams += i == at || !slice_eq(b->key, before->key);
        s->rows += b->n_rows;
        s->min_ns = b->min_ns < s->min_ns ? b->min_ns : s->min_ns;
        s->max_ns = b->max_ns > s->max_ns ? b->max_ns : s->max_ns;
        before = b;
    }
    return n;
}

static void read_sections(struct reading *r)
{
    struct directory *d = r->d;
    d->d.n_sections = read_count(r, 3, BLOB_SECTIONS_MAX);
    d->d.n_chunks = read_count(r, 12, BLOB_CHUNKS_MAX);
    struct table_def *tables = take(r, d->d.n_sections, sizeof *tables);
    struct blob_section *sections = take(r, d->d.n_sections, sizeof *sections);
    uint32_t *first = take(r, d->d.n_sections + 1u, sizeof *first), at = 0;
    struct blob_chunk *chunks = take(r, d->d.n_chunks, sizeof *chunks);
    d->chunks = take(r, d->d.n_chunks, sizeof *d->chunks);
    for (uint32_t i = 0; i < d->d.n_sections && !r->c.bad; i++) {
        first[i] = at;
        at += read_section(r, i, &tables[i], &sections[i], chunks, at, d->d.n_chunks - at);
    }
    if (r->c.bad || at != d->d.n_chunks || cursor_left(&r->c)) {
        (void)fail(r, E_PROTO);
        return;
    }
    first[d->d.n_sections] = at;
    d->first = first;
    d->d.tables = tables;
    d->d.sections = sections;
    d->d.chunks = chunks;
}

/* ---------------------------------------------------------------- the directory: places in the body */

/* The frame that has the byte at `at` of the unpacked body; there is one. */
static uint32_t frame_at(const struct directory *d, uint64_t at)
{
    uint32_t low = 0, high = d->n_frames - 1;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (d->frames[middle].from <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The piece is at *at of the unpacked body, which moves on. false: not within one frame. */
static bool set_place(const struct directory *d, struct place *p, uint64_t *at)
{
    if (*at + p->n > d->unpacked)
        return false;
    p->frame = frame_at(d, *at);
    p->at = (uint32_t)(*at - d->frames[p->frame].from);
    *at += p->n;
    return p->n <= d->frames[p->frame].unpacked - p->at;
}

/* Is it in the body, among those that have a frame of their own, or those that share one? */
static bool is_among(const struct place *p, bool is_alone)
{
    return !p->here && (p->n >= BLOB_ALONE) == is_alone;
}

/* Of one section and those, which begin at `at`; starts: of each kind of piece and each column. Returns where
 * the next section's begin; UINT64_MAX: it is wrong. */
static uint64_t place_section(struct directory *d, uint32_t section, bool is_alone, uint64_t at,
                              uint64_t *starts)
{
    uint32_t n = PIECE_FIXED + d->d.tables[section].n_columns;
    uint32_t from = d->first[section], to = d->first[section + 1];
    memset(starts, 0, n * sizeof *starts);
    for (uint32_t i = from; i < to; i++) {
        const struct chunk *c = &d->chunks[i];
        for (uint32_t k = 0; k < PIECE_FIXED; k++)
            starts[k] += is_among(&c->fixed[k], is_alone) ? c->fixed[k].n : 0;
        for (uint32_t k = 0; k < d->d.chunks[i].n_columns; k++)
            starts[PIECE_FIXED + d->d.chunks[i].ids[k]] +=
                is_among(&c->columns[k], is_alone) ? c->columns[k].n : 0;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint64_t size = starts[k];
        starts[k] = at;
        at += size;
    }
    for (uint32_t i = from; i < to; i++) {
        struct chunk *c = &d->chunks[i];
        for (uint32_t k = 0; k < PIECE_FIXED; k++)
            if (is_among(&c->fixed[k], is_alone) && !set_place(d, &c->fixed[k], &starts[k]))
                return UINT64_MAX;
        for (uint32_t k = 0; k < d->d.chunks[i].n_columns; k++)
            if (is_among(&c->columns[k], is_alone) &&
                !set_place(d, &c->columns[k], &starts[PIECE_FIXED + d->d.chunks[i].ids[k]]))
                return UINT64_MAX;
    }
    return at;
}

/* Pieces and frames must come out even. */
static int place_pieces(struct directory *d)
{
    uint64_t *starts = mem_try_alloc((PIECE_FIXED + ROWS_COLUMNS_MAX) * sizeof *starts), at = 0;
    if (!starts)
        return -ENOMEM;
    for (uint32_t i = 0; i < 2 * d->d.n_sections && at != UINT64_MAX; i++)
        at = place_section(d, i % d->d.n_sections, i >= d->d.n_sections, at, starts);
    mem_free(starts);
    return at == d->unpacked ? 0 : E_PROTO;
}

/* ---------------------------------------------------------------- the directory */

/* The content, unpacked into memory of the caller's; *owned must be freed. */
static int unpack_content(struct slice bytes, struct slice *out, char **owned)
{
    size_t n = get_u32(bytes.p + BLOB_AT_UNPACKED);
    struct slice packed = slice_from(bytes, BLOB_DIRECTORY_HEAD);
    *owned = NULL;
    *out = packed;
    if (n == packed.n)
        return 0;
    if (n > BLOB_DIRECTORY_MAX)
        return E_LIMIT;
    *owned = mem_try_alloc(n);
    if (!*owned)
        return -ENOMEM;
    *out = slice_of(*owned, n);
    return ZSTD_decompress(*owned, n, packed.p, packed.n) == n ? 0 : E_PROTO;
}

static int check_half(struct slice bytes, const char *mark, size_t least, size_t max)
{
    if (bytes.n < least || memcmp(bytes.p, mark, BLOB_MARK_SIZE) != 0 ||
        get_u32(bytes.p + BLOB_AT_LENGTH) != bytes.n || get_u32(bytes.p + BLOB_AT_CRC) != blob_crc(bytes))
        return E_DAMAGE;
    if ((uint8_t)bytes.p[BLOB_AT_VERSION] > BLOB_VERSION)
        return E_VERSION;
    if ((uint8_t)bytes.p[BLOB_AT_VERSION] < BLOB_VERSION_FIRST)
        return E_PROTO;
    return bytes.n > max ? E_LIMIT : 0;
}

int blob_directory_read(struct slice bytes, struct arena *arena, const struct blob_directory **out)
{
    int r = check_half(bytes, BLOB_DIRECTORY_MARK, BLOB_DIRECTORY_HEAD, BLOB_DIRECTORY_MAX);
    if (r < 0)
        return r;
    char *owned;
    struct slice content;
    r = unpack_content(bytes, &content, &owned);
    struct directory *d = r < 0 ? NULL : arena_alloc(arena, sizeof *d);
    if (!d) {
        mem_free(owned);
        return r < 0 ? r : -ENOMEM;
    }
    *d = (struct directory){.number = get_u64(bytes.p + BLOB_AT_NUMBER)};
    struct reading reading = {.d = d, .c = cursor_of(content), .arena = arena};
    read_frames(&reading);
    read_origins(&reading);
    read_sections(&reading);
    mem_free(owned);
    r = reading.error ? reading.error : reading.c.bad ? E_PROTO : place_pieces(d);
    if (r < 0)
        return r;
    d->d.size_bytes = reading.taken;
    d->d.is_old = (uint8_t)bytes.p[BLOB_AT_VERSION] == BLOB_VERSION_FIRST;
    *out = &d->d;
    return 0;
}

uint32_t blob_directory_find(const struct blob_directory *d, uint32_t section, struct slice key)
{
    const struct directory *all = (const struct directory *)d;
    uint32_t low = all->first[section], high = all->first[section + 1], end = high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (blob_compare_keys(d->chunks[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end ? low : d->n_chunks;
}

/* The place of the column among those of the chunk, or -1. */
static int64_t find_column(const struct blob_chunk *b, uint16_t id)
{
    uint32_t low = 0, high = b->n_columns;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < b->n_columns && b->ids[low] == id ? (int64_t)low : -1;
}

bool blob_chunk_may_have(const struct blob_directory *d, uint32_t chunk, uint16_t column, struct slice id)
{
    const struct blob_chunk *b = &d->chunks[chunk];
    const struct chunk *c = &((const struct directory *)d)->chunks[chunk];
    const struct table_def *t = &d->tables[b->section];
    if (find_column(b, column) < 0) /* a key that is not here is in the stream's key */
        return column < t->n_columns && t->columns[column].role == ROLE_KEY;
    uint64_t hash = blob_id_hash(id);
    for (uint32_t i = 0; i < c->n_filters; i++) {
        const struct filter *f = &c->filters[i];
        for (unsigned k = 0; f->column == column && k < FILTER_PLACES; k++) {
            uint32_t place = filter_place(hash, k, f->n_bits);
            if (!(f->bits[place / 8] >> place % 8 & 1))
                return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- frames */

/* Decompressed frames in a ring, the oldest goes first. */
struct kept_frame {
    uint64_t body, number; /* the caller's of the body, and its own */
    uint32_t frame;
    uint32_t n;
    char *bytes; /* NULL: free */
};

enum { KEPT_MAX = 256 };

struct blob_cache {
    ZSTD_DCtx *zstd;
    struct kept_frame kept[KEPT_MAX];
    uint32_t next; /* the oldest, or free */
    size_t bytes, max_bytes;
};

struct blob_cache *blob_cache_create(size_t max_bytes)
{
    struct blob_cache *c = mem_try_alloc(sizeof *c);
    if (!c)
        return NULL;
    c->max_bytes = max_bytes;
    c->zstd = ZSTD_createDCtx();
    if (c->zstd)
        return c;
    blob_cache_destroy(c);
    return NULL;
}

static void drop_frame(struct blob_cache *c, struct kept_frame *k)
{
    if (!k->bytes)
        return;
    c->bytes -= k->n;
    mem_free(k->bytes);
    k->bytes = NULL;
}

void blob_cache_destroy(struct blob_cache *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < KEPT_MAX; i++)
        drop_frame(c, &c->kept[i]);
    (void)ZSTD_freeDCtx(c->zstd); /* NULL is fine; can't fail */
    mem_free(c);
}

static const char *cache_find(const struct blob_cache *c, uint64_t body, uint64_t number, uint32_t frame)
{
    for (uint32_t i = 1; c && i <= KEPT_MAX; i++) { /* the newest first: it is the one, as a rule */
        const struct kept_frame *k = &c->kept[(c->next + KEPT_MAX - i) % KEPT_MAX];
        if (k->bytes && k->frame == frame && k->body == body && k->number == number)
            return k->bytes;
    }
    return NULL;
}

/* Memory for a frame that will be kept; NULL: there is none, or it is too large to keep. */
static char *cache_add(struct blob_cache *c, uint64_t body, uint64_t number, uint32_t frame, uint32_t n)
{
    if (!c || n > c->max_bytes)
        return NULL;
    struct kept_frame *k = &c->kept[c->next];
    drop_frame(c, k);
    for (uint32_t i = 1; c->bytes + n > c->max_bytes && i < KEPT_MAX; i++)
        drop_frame(c, &c->kept[(c->next + i) % KEPT_MAX]);
    char *bytes = mem_try_alloc(n);
    if (!bytes)
        return NULL;
    *k = (struct kept_frame){body, number, frame, n, bytes};
    c->bytes += n;
    c->next = (c->next + 1) % KEPT_MAX;
    return bytes;
}

static void cache_take_back(struct blob_cache *c, const char *bytes)
{
    for (uint32_t i = 0; i < KEPT_MAX; i++)
        if (c->kept[i].bytes == bytes)
            drop_frame(c, &c->kept[i]);
}

/* What a chunk is read with. */
struct source {
    const struct directory *d;
    struct slice body;
    uint64_t body_number;
    struct blob_cache *cache;
    struct arena *arena;
    uint32_t frame; /* of many pieces, the one used last and not in the cache; UINT32_MAX: none */
    const char *bytes;
};

/* The frame's bytes as they are in the body, if those are what was written. */
static int find_frame(const struct source *s, const struct frame *f, struct slice *out)
{
    if (s->body.n < BLOB_HEAD || get_u64(s->body.p + BLOB_AT_NUMBER) != s->d->number ||
        f->n > s->body.n - BLOB_HEAD || f->at > s->body.n - f->n)
        return E_DAMAGE;
    *out = slice_of(s->body.p + f->at, f->n);
    return crc32c(0, *out) == f->crc ? 0 : E_DAMAGE;
}

static size_t unpack(struct blob_cache *cache, char *to, size_t n, struct slice packed)
{
    return cache ? ZSTD_decompressDCtx(cache->zstd, to, n, packed.p, packed.n)
                 : ZSTD_decompress(to, n, packed.p, packed.n);
}

static int open_frame(struct source *s, uint32_t at, const char **out)
{
    const struct frame *f = &s->d->frames[at];
    struct slice packed;
    int r = find_frame(s, f, &packed);
    if (r < 0)
        return r;
    if (f->n == f->unpacked) {
        *out = packed.p;
        return 0;
    }
    char *kept = cache_add(s->cache, s->body_number, s->d->number, at, f->unpacked);
    char *bytes = kept ? kept : arena_alloc(s->arena, f->unpacked);
    if (!bytes)
        return -ENOMEM;
    if (unpack(s->cache, bytes, f->unpacked, packed) == f->unpacked) {
        *out = bytes;
        return 0;
    }
    if (kept)
        cache_take_back(s->cache, kept);
    return E_PROTO;
}

static int find_piece(struct source *s, const struct place *p, struct slice *out)
{
    if (p->here) {
        *out = slice_of(p->here, p->n);
        return 0;
    }
    const struct frame *f = &s->d->frames[p->frame];
    bool is_packed = f->n < f->unpacked;
    const char *bytes = s->frame == p->frame ? s->bytes : NULL;
    if (!bytes && is_packed)
        bytes = cache_find(s->cache, s->body_number, s->d->number, p->frame);
    int r = bytes ? 0 : open_frame(s, p->frame, &bytes);
    if (r < 0)
        return r;
    if (p->n < f->unpacked && (!s->cache || !is_packed)) { /* what a cache has, it may forget */
        s->frame = p->frame;
        s->bytes = bytes;
    }
    *out = slice_of(bytes + p->at, p->n);
    return 0;
}

/* ---------------------------------------------------------------- chunks */

static int read_numbers(struct source *s, const struct place *p, uint32_t n, uint64_t **out)
{
    struct slice piece;
    uint64_t *v = arena_alloc(s->arena, n * sizeof *v);
    int r = v ? find_piece(s, p, &piece) : -ENOMEM;
    r = r < 0 ? r : column_get_numbers(piece, n, v);
    if (r == 0)
        *out = v;
    return r;
}

static int read_times(struct source *s, const struct chunk *c, const struct blob_chunk *b, struct rows *out)
{
    uint64_t *v;
    int r = read_numbers(s, &c->fixed[PIECE_TIMES], b->n_rows, &v);
    if (r < 0)
        return r;
    int64_t *times = (int64_t *)v;
    for (uint32_t i = 0; i < b->n_rows; i++)
        times[i] = (int64_t)(v[i] + (uint64_t)b->min_ns);
    bool is_ordered = times[0] == b->min_ns && times[b->n_rows - 1] == b->max_ns;
    for (uint32_t i = 1; i < b->n_rows; i++)
        is_ordered &= times[i - 1] <= times[i];
    out->time_ns = times;
    return is_ordered ? 0 : E_PROTO;
}

static int read_levels(struct source *s, const struct chunk *c, const struct blob_chunk *b, struct rows *out)
{
    uint64_t *v, over = 0;
    uint8_t *levels = arena_alloc(s->arena, b->n_rows);
    int r = levels ? read_numbers(s, &c->fixed[PIECE_LEVELS], b->n_rows, &v) : -ENOMEM;
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < b->n_rows; i++) {
        over |= v[i] >> 8;
        levels[i] = (uint8_t)v[i];
    }
    out->level = levels;
    return over ? E_PROTO : 0;
}

static int read_seqs(struct source *s, const struct chunk *c, const struct blob_chunk *b, struct rows *out)
{
    struct slice piece;
    uint64_t *v = arena_alloc(s->arena, b->n_rows * sizeof *v);
    int r = v ? find_piece(s, &c->fixed[PIECE_SEQS], &piece) : -ENOMEM;
    if (r < 0)
        return r;
    struct cursor in = cursor_of(piece);
    uint64_t first = b->by.first_seq[0] + (uint64_t)unzigzag(cursor_varint(&in));
    r = column_get_numbers(cursor_bytes(&in, cursor_left(&in)), b->n_rows, v);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < b->n_rows; i++)
        v[i] += first;
    out->seq = v;
    return 0;
}

static int read_row_origins(struct source *s, const struct chunk *c, const struct blob_chunk *b,
                            struct rows *out)
{
    struct slice piece;
    int r = find_piece(s, &c->fixed[PIECE_ORIGINS], &piece);
    if (r < 0)
        return r;
    struct cursor in = cursor_of(piece);
    uint64_t n = cursor_varint(&in), at = 0;
    if (n == 0 || n > b->n_rows || n > cursor_left(&in))
        return E_PROTO;
    struct row_origin *origins = arena_alloc(s->arena, n * sizeof *origins);
    uint16_t *places = arena_alloc(s->arena, b->n_rows * sizeof *places);
    uint64_t *v = arena_alloc(s->arena, b->n_rows * sizeof *v);
    if (!origins || !places || !v)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        at += (uint64_t)unzigzag(cursor_varint(&in));
        if (in.bad || at >= s->d->n_origins)
            return E_PROTO;
        origins[i] = s->d->origins[at];
    }
    memset(v, 0, b->n_rows * sizeof *v);
    if (n > 1)
        r = column_get_numbers(cursor_bytes(&in, cursor_left(&in)), b->n_rows, v);
    for (uint32_t i = 0; i < b->n_rows && r == 0; i++) {
        places[i] = (uint16_t)v[i];
        r = v[i] < n ? 0 : E_PROTO;
    }
    out->origins = origins;
    out->n_origins = (uint32_t)n;
    out->origin = places;
    return r < 0 || cursor_left(&in) ? E_PROTO : 0;
}

static int read_one_column(struct source *s, const struct blob_chunk *b, const struct chunk *c, uint32_t at,
                           struct column *out)
{
    const struct column_summary *summary = &b->summaries[at];
    *out = (struct column){.id = b->ids[at], .type = s->d->d.tables[b->section].columns[b->ids[at]].type};
    if (c->columns[at].here == same_in_all)
        return column_get_same(summary->first.u, b->n_rows, s->arena, out);
    struct slice piece;
    int r = find_piece(s, &c->columns[at], &piece);
    return r < 0 ? r : column_get(piece, b->n_rows, summary->count, s->arena, out);
}

/* Columns that are wanted and there. */
static int read_wanted(struct source *s, const struct blob_chunk *b, const struct chunk *c, bool is_all,
                       const uint16_t *want, size_t n_want, struct rows *out)
{
    size_t n = is_all ? b->n_columns : n_want;
    struct column *columns = arena_alloc(s->arena, (n ? n : 1) * sizeof *columns);
    if (!columns)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int64_t at = is_all ? (int64_t)i : find_column(b, want[i]);
        int r = at < 0 ? 0 : read_one_column(s, b, c, (uint32_t)at, &columns[out->n_columns]);
        if (r < 0)
            return r;
        out->n_columns += at >= 0;
    }
    out->columns = columns;
    return 0;
}

int blob_chunk_read(const struct blob_directory *d, struct slice body, uint64_t body_number, uint32_t chunk,
                    unsigned what, const uint16_t *want, size_t n_want, struct blob_cache *cache,
                    struct arena *arena, struct rows *out)
{
    const struct directory *all = (const struct directory *)d;
    const struct blob_chunk *b = &d->chunks[chunk];
    const struct chunk *c = &all->chunks[chunk];
    struct source s = {.d = all,
                       .body = body,
                       .body_number = body_number,
                       .cache = cache,
                       .arena = arena,
                       .frame = UINT32_MAX};
    struct rows rows = {.n = b->n_rows};
    int r = what & BLOB_TIMES ? read_times(&s, c, b, &rows) : 0;
    if (r == 0 && what & BLOB_LEVELS)
        r = read_levels(&s, c, b, &rows);
    if (r == 0 && what & BLOB_ORIGINS)
        r = read_seqs(&s, c, b, &rows);
    if (r == 0 && what & BLOB_ORIGINS)
        r = read_row_origins(&s, c, b, &rows);
    if (r == 0)
        r = read_wanted(&s, b, c, what & BLOB_ALL_COLUMNS, want, n_want, &rows);
    if (r == 0)
        *out = rows;
    return r;
}
