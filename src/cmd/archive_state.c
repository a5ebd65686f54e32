/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/archive_state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { LOOK_MS = 5000 };

void archive_state_init(struct archive_state *s)
{
    *s = (struct archive_state){.looked_ns = 0};
    (void)pthread_mutex_init(&s->lock, NULL); /* can't fail on Linux */
}

void archive_state_fini(struct archive_state *s)
{
    strbuf_fini(&s->names);
    strbuf_fini(&s->given);
    (void)pthread_mutex_destroy(&s->lock); /* nobody has it */
}

/* ---------------------------------------------------------------- what it holds */

void archive_state_batch(struct archive_state *s, const struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        int64_t at = b->events[i].time_ns;
        s->newest_ns = at > s->newest_ns ? at : s->newest_ns;
        s->oldest_ns = s->oldest_ns && s->oldest_ns < at ? s->oldest_ns : at;
    }
}

struct looking {
    struct archived_state *found;
    const char *dir;
};

/* A partition with its write-ahead log. */
static int add_partition(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    static const char *const endings[] = {"", "-wal"};
    const struct looking *l = arg;
    struct archived_state *f = l->found;
    struct strbuf path = {0};
    struct stat st;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        strbuf_reset(&path);
        strbuf_printf(&path, "%s/%s%s", l->dir, name, endings[i]);
        f->bytes += !strbuf_failed(&path) && stat(path.p, &st) == 0 ? (uint64_t)st.st_size : 0;
    }
    strbuf_fini(&path);
    f->partitions++;
    if (step_ns)
        return 0;
    f->from_ns = f->from_ns && f->from_ns < from_ns ? f->from_ns : from_ns;
    f->to_ns = from_ns > f->to_ns ? from_ns : f->to_ns;
    return 0;
}

/* Names of events; what the archive derives from them (lifeline.h) is not one. */
static void list_names(struct archived_state *f, struct catalog *c, struct strbuf *out)
{
    for (size_t i = 0; i < catalog_tables(c); i++) {
        struct slice name = catalog_table_at(c, i)->name;
        if (slice_starts(name, SLICE_LIT("lifeline.")))
            continue;
        f->n_names++;
        if (out->n + name.n + 1 <= ARCHIVED_NAMES_MAX)
            strbuf_printf(out, "%s%.*s", out->n ? "," : "", SLICE_ARG(name));
    }
}

static void add_overflow(void *arg, const uint8_t producer[16], uint32_t streams, uint64_t rows)
{
    struct archive_state *s = arg;
    if (s->found.n_overflow == ARCHIVED_OVERFLOW_MAX)
        return;
    struct archived_overflow *o = &s->found_overflow[s->found.n_overflow++];
    *o = (struct archived_overflow){.streams = streams, .rows = rows};
    memcpy(o->producer, producer, sizeof o->producer);
}

void archive_state_look(struct archive_state *s, struct archive *a, int trouble)
{
    int64_t now = clock_mono_ns();
    struct strbuf names = {0};
    if (s->looked_ns && now - s->looked_ns < LOOK_MS * INT64_C(1000000) && trouble == s->found.trouble)
        return;
    s->looked_ns = now;
    s->found = (struct archived_state){.trouble = trouble};
    struct looking l = {&s->found, archive_dir(a)};
    (void)catalog_partitions(archive_dir(a), add_partition, &l); /* what can't be read is not counted */
    s->found.to_ns = s->newest_ns > s->found.to_ns ? s->newest_ns : s->found.to_ns;
    s->found.from_ns = s->found.from_ns ? s->found.from_ns : s->oldest_ns;
    list_names(&s->found, archive_catalog(a), &names);
    archive_each_overflow(a, add_overflow, s);
    pthread_mutex_lock(&s->lock);
    struct strbuf old = s->names;
    s->seen = s->found;
    s->names = names;
    memcpy(s->overflow, s->found_overflow, sizeof s->overflow);
    pthread_mutex_unlock(&s->lock);
    strbuf_fini(&old);
}

void archive_state_get(struct archive_state *s, struct archived_state *out)
{
    strbuf_reset(&s->given);
    pthread_mutex_lock(&s->lock);
    *out = s->seen;
    strbuf_add_slice(&s->given, strbuf_slice(&s->names));
    memcpy(s->given_overflow, s->overflow, sizeof s->given_overflow);
    pthread_mutex_unlock(&s->lock);
    out->overflow = s->given_overflow;
    out->names = strbuf_failed(&s->given) ? SLICE_LIT("") : strbuf_slice(&s->given);
}

/* ---------------------------------------------------------------- baselines */

struct kept_order {
    struct baseline_order o; /* its texts follow */
    char text[];
};

static struct slice keep_text(char **at, struct slice s)
{
    char *p = *at;
    if (s.n)
        memcpy(p, s.p, s.n);
    *at += s.n;
    return slice_of(p, s.n);
}

void *archive_state_keep(const struct baseline_order *o)
{
    struct kept_order *k = mem_alloc(sizeof *k + o->name.n + o->label.n + o->where.n);
    char *at = k->text;
    k->o = *o;
    k->o.name = keep_text(&at, o->name);
    k->o.label = keep_text(&at, o->label);
    k->o.where = keep_text(&at, o->where);
    return k;
}

void archive_state_order(void *kept, struct archive *a)
{
    struct kept_order *k = kept;
    const struct baseline b = {.name = k->o.name,
                               .label = k->o.label,
                               .from_ns = k->o.from_ns,
                               .to_ns = k->o.to_ns,
                               .where = k->o.where};
    int r = k->o.is_removal ? archive_remove_baseline(a, k->o.name) : archive_set_baseline(a, &b);
    if (r < 0 && r != -ENOENT)
        log_error("archive %s: the baseline %.*s: %s", archive_dir(a), SLICE_ARG(k->o.name), err_text(r));
    mem_free(k);
}
