/* SPDX-License-Identifier: Apache-2.0 */
/* gridline archive: is an archive's folder as it should be, what is it spent on, a copy of it. Without a
 * gateway: it looks at the files, also while a gateway writes them; only repair needs them for itself. */
#include "cmd/archive.h"

#include "archive/backup.h"
#include "cmd/archive_tail.h"
#include "archive/catalog.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/say.h"
#include "cmd/verbs.h"
#include "event/stream_key.h"
#include "gateway/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---------------------------------------------------------------- rows of damage */

struct check {
    struct archive_command *c;
    uint64_t found; /* rows that were printed */
    const char *file;
    struct partition_health sum;
};

static void add_time(struct args_writer *row, const char *name, int64_t ns)
{
    char text[CLOCK_TEXT_MAX];
    size_t n = clock_print_iso(text, ns);
    args_add_text(row, name, slice_of(text, n));
}

void archive_add_span(struct args_writer *row, int64_t from_ns, int64_t to_ns)
{
    if (from_ns > to_ns)
        return;
    add_time(row, "from", from_ns);
    add_time(row, "to", to_ns);
}

void archive_add_producer(struct args_writer *row, const uint8_t id[16])
{
    static const char digits[] = "0123456789abcdef";
    char hex[32];
    for (size_t i = 0; i < 16; i++) {
        hex[2 * i] = digits[id[i] >> 4];
        hex[2 * i + 1] = digits[id[i] & 15];
    }
    args_add_text(row, "producer", slice_of(hex, sizeof hex));
}

void archive_add_stream(struct args_writer *row, struct slice key)
{
    struct stream_key_parts parts = stream_key_split(key);
    struct strbuf text = {0};
    struct slice name;
    struct value v;
    args_add_text(row, "event", parts.name);
    args_add_text(row, "host", parts.host);
    args_add_text(row, "prog", parts.prog);
    for (struct slice fields = parts.fields; stream_key_next(&fields, &name, &v);) {
        if (text.n)
            strbuf_add_char(&text, ',');
        strbuf_add_slice(&text, name);
        strbuf_add_char(&text, '=');
        table_add_value(&text, v);
    }
    if (text.n)
        args_add_text(row, "key", strbuf_slice(&text));
    strbuf_fini(&text);
}

static struct args_writer *begin_row(struct check *k, const char *file, const char *what)
{
    struct args_writer *row = &k->c->row;
    args_writer_reset(row);
    args_add_text(row, "file", slice_str(file));
    args_add_text(row, "what", slice_str(what));
    k->found++;
    return row;
}

static void end_row(struct check *k)
{
    table_add(k->c->table, args_of(&k->c->row), SLICE_LIT(""));
}

/* A chunk that can't be read: whose rows, from when to when, and which numbers of whom. One row a producer.
 */
static void add_chunk_rows(struct check *k, const struct partition_damage *d)
{
    const struct blob_chunk *c = d->chunk;
    for (uint32_t i = 0; i < (c->by.n ? c->by.n : 1); i++) {
        struct args_writer *row = begin_row(k, k->file, d->what);
        archive_add_stream(row, c->key);
        archive_add_span(row, c->min_ns, c->max_ns);
        if (i == 0)
            args_add_uint(row, "rows", c->n_rows);
        if (c->by.n) {
            archive_add_producer(row, c->by.origins[i].producer);
            args_add_uint(row, "epoch", c->by.origins[i].epoch);
        }
        if (c->by.n && c->by.last_seq[i]) {
            args_add_uint(row, "first_seq", c->by.first_seq[i]);
            args_add_uint(row, "last_seq", c->by.last_seq[i]);
        }
        args_add_uint(row, "blob", d->blob);
        end_row(k);
    }
}

static void on_damage(void *arg, const struct partition_damage *d)
{
    struct check *k = arg;
    if (d->chunk) {
        add_chunk_rows(k, d);
        return;
    }
    struct args_writer *row = begin_row(k, k->file, d->what);
    if (d->blob)
        args_add_uint(row, "blob", d->blob);
    end_row(k);
}

/* ---------------------------------------------------------------- check */

static void sum_up(struct partition_health *sum, const struct partition_health *h)
{
    sum->blobs += h->blobs;
    sum->chunks += h->chunks;
    sum->rows += h->rows;
    sum->bytes += h->bytes;
    sum->bad_blobs += h->bad_blobs;
    sum->bad_chunks += h->bad_chunks;
    sum->bad_rows += h->bad_rows;
}

static int check_partition(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    struct check *k = arg;
    struct partition_health h;
    struct diag why = {0};
    (void)from_ns;
    (void)step_ns;
    k->file = name;
    say_status("%s", name);
    int r = partition_check(k->c->dir, name, on_damage, k, &h, &why);
    if (r == -ENOENT)
        return 0; /* retention was quicker */
    if (r < 0) {
        say("%s", why.message);
        return r;
    }
    sum_up(&k->sum, &h);
    return 0;
}

/* What the catalogue says must be there. It is read before, so that a writer is never ahead in it. */
static void check_noted(void *arg, const char *name, uint64_t gen)
{
    struct check *k = arg;
    struct partition *p = NULL;
    int r = partition_open(k->c->dir, name, 0, NULL, &p, NULL);
    if (r == -ENOENT) {
        (void)begin_row(k, name, "the partition is gone");
        end_row(k);
    }
    if (r == 0 && partition_gen(p) < gen) {
        (void)begin_row(k, name, "the last commits are gone");
        end_row(k);
    }
    partition_close(p);
}

static int check_all(struct check *k, struct diag *why)
{
    struct catalog *catalog = NULL;
    int r = catalog_open(k->c->dir, false, &catalog, why);
    if (r < 0)
        return r;
    for (size_t i = 0; i < catalog_troubles(catalog); i++) {
        (void)begin_row(k, "catalog.db", catalog_trouble_at(catalog, i));
        end_row(k);
    }
    catalog_noted(catalog, check_noted, k);
    catalog_close(catalog);
    r = catalog_partitions(k->c->dir, check_partition, k);
    say_progress_end();
    return r < 0 ? diag_set(why, r, 0, "%s: %s", k->c->dir, err_text(r)) : 0;
}

static const struct table_column check_columns[] = {
    {"file", 0},  {"what", 80},     {"event", 0},    {"host", 0}, {"prog", 0},
    {"key", 40},  {"from", 0},      {"to", 0},       {"rows", 0}, {"producer", 0},
    {"epoch", 0}, {"first_seq", 0}, {"last_seq", 0}, {"blob", 0}, {NULL, 0}};

static int archive_check(struct archive_command *c)
{
    struct check k = {.c = c};
    struct diag why = {0};
    if (!archive_begin_table(c, "archive.damage", check_columns))
        return EXIT_USAGE;
    int r = check_all(&k, &why);
    if (r < 0) {
        say("%s", why.message);
        return r == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
    }
    if (table_finish(c->table) < 0)
        return EXIT_FAILED;
    say("%" PRIu64 " rows in %" PRIu64 " chunks are right%s", k.sum.rows, k.sum.chunks,
        k.found ? "; what is above is not" : "; nothing is damaged");
    return k.found ? EXIT_FAILED : EXIT_OK;
}

/* ---------------------------------------------------------------- repair */

static const struct table_column repair_columns[] = {{"file", 0}, {"rows", 0}, {"lost", 0}, {NULL, 0}};

struct repair {
    struct check check;
    uint64_t lost; /* rows, as far as they are known */
    bool is_partly;
};

static int salvage(struct repair *r, const char *name)
{
    struct partition_health h;
    struct diag why = {0};
    int e = partition_salvage(r->check.c->dir, name, NULL, NULL, &h, &why);
    if (e < 0) {
        say("%s", why.message);
        return e;
    }
    struct args_writer *row = &r->check.c->row;
    args_writer_reset(row);
    args_add_text(row, "file", slice_str(name));
    args_add_uint(row, "rows", h.rows);
    args_add_uint(row, "lost", h.bad_rows);
    table_add(r->check.c->table, args_of(row), SLICE_LIT(""));
    r->lost += h.bad_rows;
    r->is_partly |= h.bad_rows || h.bad_blobs || h.bad_chunks;
    return 0;
}

static void count_damage(void *arg, const struct partition_damage *d)
{
    struct check *k = arg;
    k->found += d->chunk == NULL; /* of a chunk nothing more is to be had by salvaging */
}

static int repair_partition(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    struct repair *r = arg;
    struct partition_health h;
    struct diag why = {0};
    (void)from_ns;
    (void)step_ns;
    r->check.found = 0;
    say_status("%s", name);
    int e = partition_check(r->check.c->dir, name, count_damage, &r->check, &h, &why);
    if (e < 0) {
        say("%s", why.message);
        return e;
    }
    sum_up(&r->check.sum, &h);
    if (r->check.found || h.is_broken)
        return salvage(r, name);
    r->is_partly |= h.bad_chunks > 0;
    return 0;
}

static int repair_all(struct repair *r, struct diag *why)
{
    const char *dir = r->check.c->dir;
    struct stat st;
    struct catalog *catalog = NULL;
    if (stat(dir, &st) < 0)
        return diag_set(why, -errno, 0, "%s: %s", dir, err_text(-errno));
    int e = catalog_open(dir, true, &catalog, why); /* salvages what it finds, and holds the lock */
    if (e < 0)
        return e;
    for (size_t i = 0; i < catalog_troubles(catalog); i++)
        say("%s", catalog_trouble_at(catalog, i));
    e = catalog_partitions(dir, repair_partition, r);
    say_progress_end();
    catalog_close(catalog);
    return e < 0 ? diag_set(why, e, 0, "%s: %s", dir, err_text(e)) : catalog_rebuild(dir, why);
}

static int archive_repair(struct archive_command *c)
{
    struct repair r = {.check = {.c = c}};
    struct diag why = {0};
    if (!archive_begin_table(c, "archive.repaired", repair_columns))
        return EXIT_USAGE;
    int e = repair_all(&r, &why);
    if (table_finish(c->table) < 0)
        return EXIT_FAILED;
    if (e < 0) {
        say("%s", why.message);
        return e == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
    }
    if (r.is_partly)
        say("what could be read is there; %" PRIu64 " rows and what could not be counted are lost", r.lost);
    return r.is_partly ? EXIT_PARTLY : EXIT_OK;
}

/* ---------------------------------------------------------------- backup */

static const struct table_column backup_columns[] = {{"file", 0}, {"bytes", 0}, {"what", 0}, {NULL, 0}};

static bool add_file(void *arg, const char *name, uint64_t bytes, const char *what)
{
    struct archive_command *c = arg;
    args_writer_reset(&c->row);
    args_add_text(&c->row, "file", slice_str(name));
    args_add_uint(&c->row, "bytes", bytes);
    if (*what)
        args_add_text(&c->row, "what", slice_str(what));
    table_add(c->table, args_of(&c->row), SLICE_LIT(""));
    c->is_partly |= *what != '\0';
    return true;
}

static void show_bytes(void *arg, uint64_t bytes)
{
    (void)arg;
    say_progress(bytes);
}

/* The copy is opened as a gateway would: what it finds wrong with it is said now. */
static int look_at_copy(const char *to)
{
    struct catalog *c = NULL;
    struct diag why = {0};
    int r = catalog_open(to, true, &c, &why);
    if (r < 0)
        say("the copy can't be opened: %s", why.message);
    for (size_t i = 0; r == 0 && i < catalog_troubles(c); i++)
        say("in the copy: %s", catalog_trouble_at(c, i));
    catalog_close(c);
    return r;
}

/* Acknowledged events that the archive's writer had in memory only come from its journal. */
static int complete_copy(struct archive_command *c, const char *to)
{
    struct diag why = {0};
    uint64_t events = 0;
    int r = archive_tail(to, &events, &why);
    if (r != 0)
        say("%s; what was not flushed of it is not in the copy", why.message[0] ? why.message : err_text(r));
    else if (events)
        say("%" PRIu64 " events that were not flushed yet are in the copy, out of the gateway's journal",
            events);
    c->is_partly |= r > 0;
    return r < 0 ? r : 0;
}

static int archive_back_up(struct archive_command *c, const char *to)
{
    const struct backup_ops ops = {.file = add_file, .progress = show_bytes, .arg = c};
    struct diag why = {0};
    if (!archive_begin_table(c, "archive.file", backup_columns))
        return EXIT_USAGE;
    say_progress_start("copied", 0);
    int r = archive_backup(c->dir, to, &ops, &why);
    say_progress_end();
    if (r < 0)
        say("%s", why.message);
    else
        r = look_at_copy(to);
    if (r == 0)
        r = complete_copy(c, to);
    if (table_finish(c->table) < 0)
        return EXIT_FAILED;
    if (r < 0)
        return r == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
    return c->is_partly ? EXIT_PARTLY : EXIT_OK;
}

/* ---------------------------------------------------------------- the command */

bool archive_begin_table(struct archive_command *c, const char *event, const struct table_column *columns)
{
    c->table_options = (struct table_options){.event = event, .columns = columns};
    if (!table_format(c->options->format, &c->table_options.encoding))
        return false;
    c->table = table_create(&c->table_options);
    return c->table != NULL;
}

/* --archive, or the one of the gateway that is configured here. false after having said why. */
static bool find_dir(struct archive_command *c)
{
    struct config_flags flags = {0};
    struct diag why = {0};
    c->dir = c->options->archive;
    if (c->dir)
        return true;
    if (gateway_config_load(&flags, &c->config, &why) < 0) {
        say("%s; or say which: --archive DIR", why.message);
        return false;
    }
    c->dir = c->config->archive.dir;
    if (!c->dir || !*c->dir) {
        say("this host's gateway has no archive; say which: --archive DIR");
        return false;
    }
    return true;
}

static int run_word(struct archive_command *c, struct operands operands)
{
    const char *word = operands.v[0];
    bool is_backup = strcmp(word, "backup") == 0;
    if (operands.n != (is_backup ? 2 : 1)) {
        say(is_backup ? "where to? gridline archive backup DIR"
                      : "only backup takes a folder; the archive is said by --archive DIR");
        return EXIT_USAGE;
    }
    if (is_backup)
        return archive_back_up(c, operands.v[1]);
    if (strcmp(word, "check") == 0)
        return archive_check(c);
    if (strcmp(word, "repair") == 0)
        return archive_repair(c);
    return archive_stat(c);
}

static int archive_run(void *state, struct operands operands)
{
    static const char *const words[] = {"check", "repair", "stat", "backup"};
    struct archive_command c = {.options = state};
    bool is_word = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is_word |= strcmp(operands.v[0], words[i]) == 0;
    if (!is_word) {
        const char *near =
            options_nearest(slice_str(operands.v[0]), words, sizeof words / sizeof *words, sizeof *words);
        say("'%s' is not one of check, repair, stat and backup%s%s", operands.v[0],
            near ? "; did you mean " : "", near ? near : "");
        return EXIT_USAGE;
    }
    int code = find_dir(&c) ? run_word(&c, operands) : EXIT_USAGE;
    table_destroy(c.table);
    args_writer_fini(&c.row);
    gateway_config_destroy(c.config);
    return code;
}

static const struct option_spec table[] = {
    {0, "archive", OPTION_FILE, "DIR", offsetof(struct archive_options_given, archive),
     "the archive in this folder (default: that of the gateway that is configured on this host)"},
    {0, "by", OPTION_TEXT, "WHAT", offsetof(struct archive_options_given, by),
     "stat: of `event`, `stream`, `producer` or `partition` only (default: each)"},
    {'n', "top", OPTION_SIZE, "N", offsetof(struct archive_options_given, top),
     "stat: so many of each, those with most bytes (default 10; 0: all)"},
    {'t', "format", OPTION_TEXT, "FORMAT", offsetof(struct archive_options_given, format),
     "`table` (default), `json`, `csv`, `ulm`, `xml`, or another of the formats"},
    {0},
};

static const struct archive_options_given defaults = {.top = 10};

static const struct example examples[] = {
    {"gridline archive check", "Is everything there and right?"},
    {"gridline archive stat --by stream -n 20", "What takes the most room"},
    {"gridline archive backup /backup/monday", "A copy, while the gateway goes on"},
    {"gridline archive repair --archive /srv/archive", "After damage, with the gateway stopped"},
    {NULL, NULL},
};

const struct verb verb_archive = {
    .name = "archive",
    .summary = "check, repair, measure and copy an archive",
    .operands = "check|repair|stat|backup [DIR]",
    .description = "Works on an archive's files; a gateway may be writing them, but for `repair`.\n"
                   "`check` reads everything and decodes every value. A row is printed for each damage: the "
                   "file, what it is, and "
                   "as far as that is known which stream it is of, from when to when, how many rows, and the "
                   "producer, epoch and "
                   "numbers of the events that are lost. Ends with 1 if there is any.\n"
                   "`repair` makes damaged files again from what can be read of them, and the catalogue from "
                   "the files; a "
                   "damaged file stays beside the new one under a name that ends in `.damaged`. A row for "
                   "each file that was made "
                   "again: `rows` that are in it, rows that are `lost`. Ends with 4 if something is lost. A "
                   "gateway does the same "
                   "by itself with what it finds when it starts.\n"
                   "`stat` says what bytes and rows are spent on: by partition (files), event name, stream "
                   "and producer, those "
                   "with most bytes first. A stream that took what was beyond its producer's limit has "
                   "`overflow`. Bytes of "
                   "chunks that were compressed together are shared out by their number of values.\n"
                   "`backup` copies the archive into a new folder DIR, of one moment, while it is being "
                   "written, and adds what was acknowledged and not flushed yet out of the gateway's "
                   "journal, whether the gateway runs or was killed. Ends with 4 if that journal can't be "
                   "read. Put in the place "
                   "of the archive, it goes on from there: what the gateway's journal has beyond it is read "
                   "again, once.",
    .operand_kind = OPERAND_FILES,
    .operands_min = 1,
    .operands_max = 2,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct archive_options_given),
    .defaults = &defaults,
    .run = archive_run,
};
