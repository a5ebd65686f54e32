/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue is facts (facts.h), and tables that are made of them and grow.
 *
 * Tables are read by other threads while they grow here, without a lock: a struct table_def that was given
 * out never changes. New columns go behind the old ones in the same array as long as there is room, and a new
 * struct says that there are more; when the array is full, all move to one of twice the size. So a table of n
 * columns costs at most 2n fields, however it grew. */
#include "archive/catalog_internal.h"

#include "archive/fields.h"
#include "base/cursor.h"
#include "base/directory.h"
#include "base/mem.h"
#include "base/num.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void catalog_say(struct catalog *c, const char *format, ...)
{
    struct strbuf *all = mem_try_resize(c->troubles, (c->n_troubles + 1) * sizeof *all);
    if (!all)
        return; /* one line less of what was wrong */
    c->troubles = all;
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    all[c->n_troubles] = (struct strbuf){0};
    strbuf_add_str(&all[c->n_troubles++], text);
}

size_t catalog_troubles(const struct catalog *c)
{
    return c->n_troubles;
}

const char *catalog_trouble_at(const struct catalog *c, size_t i)
{
    return c->troubles[i].p ? c->troubles[i].p : "";
}

/* ---------------------------------------------------------------- tables */

static struct slice field_key(char to[1 + EVENT_NAME_MAX], struct slice name, uint8_t type)
{
    to[0] = (char)type;
    memcpy(to + 1, name.p, name.n);
    return slice_of(to, 1 + name.n);
}

static struct catalog_table *add_table(struct catalog *c, struct slice name)
{
    if (c->n_tables == c->tables_max) {
        size_t max = c->tables_max ? c->tables_max * 2 : 32;
        struct catalog_table **all = mem_try_resize(c->tables, max * sizeof(struct catalog_table *));
        if (!all)
            return NULL;
        c->tables = all;
        c->tables_max = max;
    }
    struct catalog_table *t = mem_try_alloc(sizeof *t);
    struct table_def *def = arena_alloc(&c->arena, sizeof *def);
    struct slice copy = arena_copy(&c->arena, name);
    if (t && def && copy.p && map_put(&c->by_name, copy, t) == 0) {
        *def = (struct table_def){.name = copy};
        t->def = def;
        return c->tables[c->n_tables++] = t;
    }
    mem_free(t);
    return NULL;
}

static int copy_field(struct catalog *c, const struct field *f, struct field *out)
{
    *out = *f;
    out->name = arena_copy(&c->arena, f->name);
    out->unit = arena_copy(&c->arena, f->unit);
    out->help = arena_copy(&c->arena, f->help);
    return out->name.p && out->unit.p && out->help.p ? 0 : -ENOMEM;
}

/* Room for n columns. */
static int make_room(struct catalog *c, struct catalog_table *t, uint32_t n)
{
    if (n <= t->columns_max)
        return 0;
    uint32_t max = t->columns_max ? t->columns_max : 8;
    while (max < n)
        max *= 2;
    struct field *columns = arena_alloc(&c->arena, max * sizeof *columns);
    if (!columns)
        return -ENOMEM;
    if (t->def->n_columns)
        memcpy(columns, t->columns, t->def->n_columns * sizeof *columns);
    t->columns = columns;
    t->columns_max = max;
    return 0;
}

/* The fields, which the table does not have, behind its columns. */
static int grow_table(struct catalog *c, struct catalog_table *t, const struct field *const *fields, size_t n)
{
    uint32_t had = t->def->n_columns;
    struct table_def *def = arena_alloc(&c->arena, sizeof *def);
    int r = def ? make_room(c, t, had + (uint32_t)n) : -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++) {
        char *key = arena_alloc(&c->arena, 1 + fields[i]->name.n);
        r = key ? copy_field(c, fields[i], &t->columns[had + i]) : -ENOMEM;
        if (r == 0)
            r = map_put(&t->by_field, field_key(key, fields[i]->name, fields[i]->type),
                        (void *)(uintptr_t)(had + i + 1));
        if (r == 0)
            r = class_learn(c, t, &t->columns[had + i]);
    }
    if (r < 0)
        return r;
    *def = (struct table_def){.name = t->def->name, .columns = t->columns, .n_columns = had + (uint32_t)n};
    t->def = def;
    return 0;
}

/* UINT16_MAX: there is none. A place behind the columns is of a growth that memory ended: there is none. */
static uint16_t find_column(const struct catalog_table *t, struct slice name, uint8_t type)
{
    char key[1 + EVENT_NAME_MAX];
    if (name.n > EVENT_NAME_MAX)
        return UINT16_MAX;
    uintptr_t at = (uintptr_t)map_get(&t->by_field, field_key(key, name, type));
    return at == 0 || at > t->def->n_columns ? UINT16_MAX : (uint16_t)(at - 1);
}

static int set_column_fact(struct catalog *c, struct slice table, uint32_t place, const struct field *f)
{
    strbuf_reset(&c->key);
    strbuf_reset(&c->value);
    strbuf_add_text(&c->key, table);
    strbuf_add_u16(&c->key, (uint16_t)place);
    strbuf_add_char(&c->value, (char)f->type);
    strbuf_add_char(&c->value, (char)f->role);
    strbuf_add_char(&c->value, (char)f->kind);
    strbuf_add_text(&c->value, f->name);
    strbuf_add_text(&c->value, f->unit);
    strbuf_add_text(&c->value, f->help);
    if (strbuf_failed(&c->key) || strbuf_failed(&c->value))
        return -ENOMEM;
    return facts_set(c->facts, FACT_COLUMN, strbuf_slice(&c->key), strbuf_slice(&c->value));
}

/* Those of the fields that the table has no column for, as far as there is room. */
static size_t find_new(const struct catalog_table *t, const struct field *fields, size_t n,
                       const struct field **out)
{
    size_t found = 0;
    for (size_t i = 0; i < n && t->def->n_columns + found < ROWS_COLUMNS_MAX; i++)
        if (fields[i].name.n <= EVENT_NAME_MAX &&
            find_column(t, fields[i].name, fields[i].type) == UINT16_MAX)
            out[found++] = &fields[i];
    return found;
}

int catalog_learn_fields(struct catalog *c, struct slice name, const struct field *fields, size_t n,
                         const struct table_def **out, uint16_t *ids)
{
    struct catalog_table *t = map_get(&c->by_name, name);
    if (!t)
        t = add_table(c, name);
    const struct field **missing = mem_try_alloc((n + 1) * sizeof(const struct field *));
    int r = t && missing ? 0 : -ENOMEM;
    size_t n_new = r == 0 ? find_new(t, fields, n, missing) : 0;
    if (n_new)
        r = grow_table(c, t, missing, n_new);
    while (r == 0 && t->n_noted < t->def->n_columns) {
        r = set_column_fact(c, name, t->n_noted, &t->columns[t->n_noted]);
        t->n_noted += r == 0;
    }
    mem_free(missing);
    if (r < 0)
        return r;
    for (size_t i = 0; ids && i < n; i++)
        ids[i] = find_column(t, fields[i].name, fields[i].type);
    *out = catalog_def(c, t);
    return 0;
}

int catalog_learn(struct catalog *c, const struct schema *s, const struct table_def **out, uint16_t *ids)
{
    return catalog_learn_fields(c, s->name, s->fields, s->n_fields, out, ids);
}

const struct table_def *catalog_table(struct catalog *c, struct slice name)
{
    struct catalog_table *t = map_get(&c->by_name, name);
    return t ? catalog_def(c, t) : NULL;
}

size_t catalog_tables(struct catalog *c)
{
    return c->n_tables;
}

const struct table_def *catalog_table_at(struct catalog *c, size_t i)
{
    return catalog_def(c, c->tables[i]);
}

const struct table_def *catalog_def(struct catalog *c, struct catalog_table *t)
{
    uint32_t n = t->def->n_columns;
    if (t->def->fields)
        return t->def;
    struct table_def *def = arena_alloc(&c->arena, sizeof *def);
    const struct class_state **states = mem_alloc((n + 1) * sizeof(void *));
    for (uint32_t i = 0; i < n; i++)
        states[i] = &((const struct catalog_class *)map_get(&t->classes, t->def->columns[i].name))->state;
    const struct table_def *fields = fields_of(t->def, states, &c->arena);
    mem_free((void *)states);
    if (!def || !fields)
        abort(); /* no memory: as mem_alloc */
    *def = *t->def;
    def->fields = fields;
    t->def = def;
    return def;
}

/* 1: it was there. */
static int load_column(struct catalog *c, const struct fact *fact)
{
    struct cursor key = cursor_of(fact->key), v = cursor_of(fact->value);
    struct slice name = cursor_text(&key);
    uint16_t place = cursor_u16(&key);
    struct field f = {.type = cursor_u8(&v)};
    f.role = cursor_u8(&v);
    f.kind = cursor_u8(&v);
    f.name = cursor_text(&v);
    f.unit = cursor_text(&v);
    f.help = cursor_text(&v);
    if (key.bad || v.bad || f.type == VALUE_NONE || f.type >= VALUE_TYPES || f.name.n > EVENT_NAME_MAX)
        return E_PROTO;
    struct catalog_table *t = map_get(&c->by_name, name);
    if (!t)
        t = add_table(c, name);
    if (!t)
        return -ENOMEM;
    if (place < t->def->n_columns)
        return 1;
    if (place != t->def->n_columns || find_column(t, f.name, f.type) != UINT16_MAX)
        return E_PROTO;
    int r = grow_table(c, t, (const struct field *const[]){&f}, 1);
    t->n_noted += r == 0;
    return r;
}

static int load_tables(struct catalog *c)
{
    const struct fact *fact;
    for (size_t i = 0; (fact = facts_next(c->facts, FACT_COLUMN, &i)) != NULL;) {
        int r = load_column(c, fact);
        if (r < 0)
            return r;
    }
    return class_load(c);
}

/* ---------------------------------------------------------------- sources */

static struct slice source_key(const struct archive_source *s)
{
    return slice_of((const char *)s->id, sizeof s->id);
}

uint64_t catalog_cursor(struct catalog *c, const struct archive_source *s)
{
    const struct fact *fact = facts_get(c->facts, FACT_SOURCE, source_key(s));
    if (!fact)
        return 0;
    struct cursor k = cursor_of(fact->value);
    return cursor_u64(&k);
}

/* Out of memory the fact stays as it was: an older cursor, or no knowledge of a partition, is always safe. */
static void set_number(struct catalog *c, uint8_t kind, struct slice key, uint64_t v)
{
    strbuf_reset(&c->value);
    strbuf_add_u64(&c->value, v);
    if (!strbuf_failed(&c->value))
        (void)facts_set(c->facts, kind, key, strbuf_slice(&c->value));
}

void catalog_set_cursor(struct catalog *c, const struct archive_source *s, uint64_t record)
{
    set_number(c, FACT_SOURCE, source_key(s), record);
}

/* ---------------------------------------------------------------- partitions */

struct noting {
    struct catalog *c;
    struct slice name;
};

static void note_mark(void *arg, const struct partition_mark *m)
{
    struct noting *n = arg;
    strbuf_reset(&n->c->key);
    strbuf_add_text(&n->c->key, n->name);
    strbuf_add_slice(&n->c->key, source_key(&m->source));
    if (!strbuf_failed(&n->c->key))
        set_number(n->c, FACT_MARK, strbuf_slice(&n->c->key), m->record);
}

void catalog_note_partition(struct catalog *c, struct partition *p)
{
    char name[PARTITION_NAME_MAX];
    partition_name(partition_span(p), name, sizeof name);
    struct noting n = {c, slice_str(name)};
    set_number(c, FACT_PARTITION, n.name, partition_gen(p));
    (void)partition_marks(p, note_mark, &n); /* a writer's are in memory */
}

void catalog_noted(struct catalog *c, void (*fn)(void *arg, const char *name, uint64_t gen), void *arg)
{
    const struct fact *fact;
    for (size_t i = 0; (fact = facts_next(c->facts, FACT_PARTITION, &i)) != NULL;) {
        char name[PARTITION_NAME_MAX] = "";
        struct cursor v = cursor_of(fact->value);
        if (fact->key.n >= sizeof name)
            continue;
        memcpy(name, fact->key.p, fact->key.n);
        fn(arg, name, cursor_u64(&v));
    }
}

void catalog_forget_partition(struct catalog *c, const char *name)
{
    struct strbuf key = {0};
    strbuf_add_text(&key, slice_str(name));
    (void)facts_remove(c->facts, FACT_PARTITION, slice_str(name)); /* it may not be there */
    const struct fact *fact;
    for (size_t i = 0; !strbuf_failed(&key) && (fact = facts_next(c->facts, FACT_MARK, &i)) != NULL;)
        if (slice_starts(fact->key, strbuf_slice(&key)) && facts_remove(c->facts, FACT_MARK, fact->key) == 0)
            i--;
    strbuf_fini(&key);
}

/* ---------------------------------------------------------------- baselines, settings */

int catalog_set_baseline(struct catalog *c, const struct baseline *b)
{
    strbuf_reset(&c->value);
    strbuf_add_u64(&c->value, (uint64_t)b->from_ns);
    strbuf_add_u64(&c->value, (uint64_t)b->to_ns);
    strbuf_add_text(&c->value, b->label);
    strbuf_add_text(&c->value, b->where);
    c->is_kept_old = true;
    return strbuf_failed(&c->value) ? -ENOMEM
                                    : facts_set(c->facts, FACT_BASELINE, b->name, strbuf_slice(&c->value));
}

int catalog_remove_baseline(struct catalog *c, struct slice name)
{
    c->is_kept_old = true;
    return facts_remove(c->facts, FACT_BASELINE, name);
}

size_t catalog_baselines(struct catalog *c)
{
    size_t n = 0;
    for (size_t i = 0; facts_next(c->facts, FACT_BASELINE, &i);)
        n++;
    return n;
}

struct baseline catalog_baseline_at(struct catalog *c, size_t at)
{
    const struct fact *fact;
    for (size_t i = 0; (fact = facts_next(c->facts, FACT_BASELINE, &i)) != NULL && at > 0;)
        at--;
    if (!fact)
        return (struct baseline){.from_ns = 0};
    struct cursor v = cursor_of(fact->value);
    struct baseline b = {.name = fact->key, .from_ns = (int64_t)cursor_u64(&v)};
    b.to_ns = (int64_t)cursor_u64(&v);
    b.label = cursor_text(&v);
    b.where = cursor_text(&v);
    return b;
}

struct slice catalog_setting(struct catalog *c, struct slice name)
{
    const struct fact *fact = facts_get(c->facts, FACT_SETTING, name);
    return fact ? fact->value : slice_of("", 0);
}

int catalog_set_setting(struct catalog *c, struct slice name, struct slice value)
{
    c->is_kept_old = true;
    return facts_set(c->facts, FACT_SETTING, name, value);
}

/* ---------------------------------------------------------------- what retention has deleted */

static struct deleted gone_of(const struct fact *fact)
{
    struct cursor k = cursor_of(fact->key), v = cursor_of(fact->value);
    struct deleted g = {.name = cursor_text(&k)};
    g.step_ns = (int64_t)cursor_u64(&k);
    g.from_ns = (int64_t)cursor_u64(&v);
    g.to_ns = (int64_t)cursor_u64(&v);
    g.rows = cursor_u64(&v);
    g.at_ns = (int64_t)cursor_u64(&v);
    g.why = cursor_u8(&v);
    return g;
}

int catalog_note_gone(struct catalog *c, const struct deleted *g)
{
    strbuf_reset(&c->key);
    strbuf_reset(&c->value);
    strbuf_add_text(&c->key, g->name);
    strbuf_add_u64(&c->key, (uint64_t)g->step_ns);
    if (strbuf_failed(&c->key))
        return -ENOMEM;
    const struct fact *fact = facts_get(c->facts, FACT_GONE, strbuf_slice(&c->key));
    struct deleted had = fact ? gone_of(fact) : *g;
    strbuf_add_u64(&c->value, (uint64_t)(had.from_ns < g->from_ns ? had.from_ns : g->from_ns));
    strbuf_add_u64(&c->value, (uint64_t)(had.to_ns > g->to_ns ? had.to_ns : g->to_ns));
    strbuf_add_u64(&c->value, g->rows + (fact ? had.rows : 0));
    strbuf_add_u64(&c->value, (uint64_t)g->at_ns);
    strbuf_add_char(&c->value, (char)g->why);
    c->is_kept_old = true;
    return strbuf_failed(&c->value)
               ? -ENOMEM
               : facts_set(c->facts, FACT_GONE, strbuf_slice(&c->key), strbuf_slice(&c->value));
}

bool catalog_next_gone(struct catalog *c, size_t *i, struct deleted *out)
{
    const struct fact *fact = facts_next(c->facts, FACT_GONE, i);
    if (fact)
        *out = gone_of(fact);
    return fact;
}

int catalog_commit(struct catalog *c)
{
    int r = facts_commit(c->facts);
    if (r == 0 && c->is_kept_old) {
        r = kept_write(c);
        c->is_kept_old = r < 0;
    }
    return r;
}

/* ---------------------------------------------------------------- the folder */

struct listed {
    char name[PARTITION_NAME_MAX];
    int64_t from_ns, step_ns;
};

static int compare_listed(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->from_ns != y->from_ns)
        return x->from_ns < y->from_ns ? -1 : 1;
    return (x->step_ns > y->step_ns) - (x->step_ns < y->step_ns);
}

static int list_folder(const char *dir, struct listed **out, size_t *n)
{
    DIR *d = opendir(dir);
    if (!d)
        return -errno;
    size_t max = 0;
    int r = 0;
    const struct dirent *e;
    while (r == 0 && (e = readdir(d)) != NULL) {
        struct listed l = {.from_ns = 0};
        if (!partition_parse_name(e->d_name, &l.from_ns, &l.step_ns))
            continue;
        if (*n == max) {
            max = max ? max * 2 : 64;
            struct listed *all = mem_try_resize(*out, max * sizeof *all);
            if (!all) {
                r = -ENOMEM;
                break;
            }
            *out = all;
        }
        memcpy(l.name, e->d_name, strnlen(e->d_name, sizeof l.name - 1)); /* its length was checked */
        (*out)[(*n)++] = l;
    }
    (void)closedir(d); /* only read */
    return r;
}

int catalog_partitions(const char *dir,
                       int (*fn)(void *arg, const char *name, int64_t from_ns, int64_t step_ns), void *arg)
{
    struct listed *all = NULL;
    size_t n = 0;
    int r = list_folder(dir, &all, &n);
    if (r == 0 && n)
        qsort(all, n, sizeof *all, compare_listed);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = fn(arg, all[i].name, all[i].from_ns, all[i].step_ns);
    mem_free(all);
    return r;
}

/* The lock of the one process that writes, with its pid for whoever comes second. */
static int take_lock(struct catalog *c, struct diag *why)
{
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/lock", c->dir);
    if (strbuf_failed(&path))
        return -ENOMEM;
    int r = 0;
    c->lock = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (c->lock < 0) {
        r = diag_set(why, -errno, 0, "%s: %s", path.p, err_text(-errno));
    } else if (flock(c->lock, LOCK_EX | LOCK_NB) < 0) {
        char pid[NUM_TEXT_MAX + 1] = "";
        ssize_t n = errno == EWOULDBLOCK ? pread(c->lock, pid, NUM_TEXT_MAX, 0) : -1;
        r = diag_set(why, -EBUSY, 0, "%s is being written by another process%s%.*s", c->dir,
                     n > 0 ? ", pid " : "", (int)(n > 0 ? n : 0), pid);
    } else {
        char pid[NUM_TEXT_MAX];
        size_t n = num_print_int(pid, getpid());
        if (ftruncate(c->lock, 0) < 0 || pwrite(c->lock, pid, n, 0) < 0)
            (void)0; /* only the message of whoever comes second misses it */
    }
    strbuf_fini(&path);
    return r;
}

/* ---------------------------------------------------------------- opening */

static int db_path(const struct catalog *c, struct strbuf *out, const char *end)
{
    strbuf_reset(out);
    strbuf_printf(out, "%s/catalog.db%s", c->dir, end);
    return strbuf_failed(out) ? -ENOMEM : 0;
}

/* The first name catalog.db.damaged-N that is free. */
static int set_aside(struct catalog *c)
{
    struct strbuf from = {0}, to = {0};
    int r = 0;
    unsigned n = 0;
    do {
        strbuf_reset(&to);
        strbuf_printf(&to, "%s/catalog.db.damaged-%u", c->dir, ++n);
    } while (!strbuf_failed(&to) && access(to.p, F_OK) == 0);
    size_t base = to.n;
    static const char *const ends[] = {"-wal", "-shm", ""};
    for (size_t i = 0; r == 0 && i < sizeof ends / sizeof *ends; i++) {
        r = db_path(c, &from, ends[i]);
        to.n = base;
        strbuf_add_str(&to, ends[i]);
        if (r == 0 && strbuf_failed(&to))
            r = -ENOMEM;
        if (r == 0 && rename(from.p, to.p) < 0 && errno != ENOENT)
            r = -errno;
    }
    catalog_say(c, "catalog.db was damaged; it is set aside as catalog.db.damaged-%u and made again", n);
    strbuf_fini(&from);
    strbuf_fini(&to);
    return r;
}

/* Baselines and settings of a catalogue that is given up, those that pass their checksums. */
static int rescue(struct catalog *c, struct facts *from)
{
    static const uint8_t kinds[] = {FACT_BASELINE, FACT_SETTING, FACT_CLASS};
    int r = 0;
    for (size_t k = 0; k < sizeof kinds; k++) {
        const struct fact *fact;
        for (size_t i = 0; r == 0 && (fact = facts_next(from, kinds[k], &i)) != NULL;)
            r = facts_set(c->facts, fact->kind, fact->key, fact->value);
    }
    return r;
}

/* All of it from the partitions and the file of what is kept; old: what is left of the damaged one, or NULL.
 */
static int make_again(struct catalog *c, struct facts *old)
{
    int r = old ? rescue(c, old) : 0;
    int kept = r == 0 ? kept_read(c) : r;
    if (kept == E_DAMAGE)
        catalog_say(c, "the file of baselines and settings is damaged");
    if (kept < 0 && kept != E_DAMAGE && kept != -ENOENT)
        return kept;
    r = catalog_gather(c);
    return r < 0 ? r : class_load(c);
}

static int open_facts(struct catalog *c, struct diag *why)
{
    struct strbuf path = {0};
    struct facts *old = NULL;
    int r = db_path(c, &path, "");
    if (r == 0)
        r = facts_open(path.p, c->is_writer, &c->facts, why);
    bool is_bad = r == E_DAMAGE || (r == 0 && (facts_is_damaged(c->facts) || load_tables(c) == E_PROTO));
    bool is_made = r == 0 && !is_bad && facts_commits(c->facts) > 0;
    if (is_bad) {
        old = c->facts;
        c->facts = NULL;
        r = 0;
    }
    c->is_in_memory = !c->is_writer && (is_bad || r == -ENOENT);
    if (is_bad && c->is_writer)
        r = set_aside(c);
    if ((is_bad && r == 0) || c->is_in_memory)
        r = facts_open(c->is_in_memory ? NULL : path.p, true, &c->facts, why);
    if (r == 0 && !is_made)
        r = make_again(c, old);
    facts_close(old);
    strbuf_fini(&path);
    return r;
}

/* What events say is not for everybody: a new one is the owner's alone, also root's. */
static int make_folder(const char *dir, struct diag *why)
{
    bool is_new = access(dir, F_OK) < 0;
    int r = directory_make(dir, why);
    if (r == 0 && is_new && chmod(dir, S_IRWXU) < 0)
        r = diag_set(why, -errno, 0, "%s: %s", dir, err_text(-errno));
    return r;
}

int catalog_open(const char *dir, bool is_writer, struct catalog **out, struct diag *why)
{
    struct catalog *c = mem_try_alloc(sizeof *c);
    struct strbuf copy = {0};
    strbuf_add_str(&copy, dir);
    if (!c || strbuf_failed(&copy)) {
        mem_free(c);
        strbuf_fini(&copy);
        return diag_set(why, -ENOMEM, 0, "%s: %s", dir, err_text(-ENOMEM));
    }
    c->dir = copy.p;
    c->is_writer = is_writer;
    c->lock = -1;
    struct diag what = {0};
    int r = is_writer ? make_folder(dir, &what) : access(dir, R_OK | X_OK) < 0 ? -errno : 0;
    if (r == 0 && is_writer)
        r = take_lock(c, &what);
    if (r == 0)
        r = open_facts(c, &what);
    if (r == 0 && is_writer)
        r = catalog_compare(c);
    if (r == 0 && is_writer)
        r = catalog_commit(c);
    if (r < 0) {
        catalog_close(c);
        return diag_set(why, r, 0, "%s", what.message[0] ? what.message : err_text(r));
    }
    *out = c;
    return 0;
}

int catalog_refresh(struct catalog *c)
{
    if (c->is_writer || c->is_in_memory)
        return 0;
    int r = facts_refresh(c->facts);
    if (r <= 0)
        return r;
    r = load_tables(c);
    return r < 0 ? r : 1;
}

void catalog_close(struct catalog *c)
{
    if (!c)
        return;
    facts_close(c->facts);
    for (size_t i = 0; i < c->n_tables; i++) {
        map_fini(&c->tables[i]->by_field);
        map_fini(&c->tables[i]->classes);
        mem_free(c->tables[i]);
    }
    for (size_t i = 0; i < c->n_troubles; i++)
        strbuf_fini(&c->troubles[i]);
    mem_free(c->troubles);
    mem_free(c->tables);
    map_fini(&c->by_name);
    arena_fini(&c->arena);
    strbuf_fini(&c->key);
    strbuf_fini(&c->value);
    if (c->lock >= 0)
        (void)close(c->lock); /* gives up the lock */
    mem_free(c->dir);
    mem_free(c);
}
