/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/retain.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- rules */

static struct slice trim(struct slice s)
{
    while (s.n && *s.p == ' ')
        s = slice_from(s, 1);
    while (s.n && s.p[s.n - 1] == ' ')
        s.n--;
    return s;
}

static int parse_rule(struct slice text, struct retain_rule *out, struct diag *why)
{
    size_t equals = text.n;
    while (equals > 0 && text.p[equals - 1] != '=')
        equals--;
    if (equals < 2)
        return diag_set(why, E_PROTO, 0, "\"%.*s\" does not say how long; write \"cpu*=30d\"",
                        SLICE_ARG(text));
    out->pattern = trim(slice_of(text.p, equals - 1));
    struct slice age = trim(slice_from(text, equals));
    if (num_parse_duration(age, &out->age_ns) < 0 || out->age_ns <= 0)
        return diag_set(why, E_PROTO, 0, "\"%.*s\" is no age; write 12h, 30d", SLICE_ARG(age));
    if (!text_glob_is_closed(out->pattern))
        return diag_set(why, E_PROTO, 0, "\"%.*s\" has a [ without its ]", SLICE_ARG(out->pattern));
    return 0;
}

static size_t count_rules(struct slice text)
{
    size_t n = 1;
    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == ',';
    return n;
}

int retain_rules_init(struct retain_rules *r, const char *text, struct diag *why)
{
    struct slice all = slice_str(text ? text : "");
    struct retain_rules rules = {.text = mem_try_alloc(all.n + 1),
                                 .rules = mem_try_alloc(count_rules(all) * sizeof *rules.rules)};
    int e = 0;
    if (!rules.text || !rules.rules) {
        retain_rules_fini(&rules);
        return -ENOMEM;
    }
    memcpy(rules.text, all.p, all.n);
    struct slice left = slice_of(rules.text, all.n);
    while (e == 0 && left.n) {
        const char *comma = memchr(left.p, ',', left.n);
        size_t n = comma ? (size_t)(comma - left.p) : left.n;
        struct slice one = trim(slice_of(left.p, n));
        if (one.n)
            e = parse_rule(one, &rules.rules[rules.n++], why);
        left = slice_from(left, n + 1);
    }
    if (e < 0) {
        retain_rules_fini(&rules);
        return e;
    }
    *r = rules;
    return 0;
}

void retain_rules_fini(struct retain_rules *r)
{
    mem_free(r->text);
    mem_free(r->rules);
    *r = (struct retain_rules){NULL, NULL, 0};
}

int64_t retain_rules_age(const struct retain_rules *r, struct slice name)
{
    for (size_t i = 0; i < r->n; i++)
        if (text_glob(r->rules[i].pattern, name))
            return r->rules[i].age_ns;
    return RETAIN_AGE_NS;
}

int64_t retain_rules_longest(const struct retain_rules *r)
{
    int64_t longest = 0;
    bool is_all = false;
    for (size_t i = 0; i < r->n && !is_all; i++) {
        longest = r->rules[i].age_ns > longest ? r->rules[i].age_ns : longest;
        is_all = slice_eq_str(r->rules[i].pattern, "*"); /* what is behind it fits nothing */
    }
    return !is_all && longest < RETAIN_AGE_NS ? RETAIN_AGE_NS : longest;
}

int64_t retain_rules_shortest(const struct retain_rules *r)
{
    int64_t shortest = RETAIN_AGE_NS; /* of names that no rule fits, if there are such */
    for (size_t i = 0; i < r->n; i++)
        shortest = r->rules[i].age_ns < shortest ? r->rules[i].age_ns : shortest;
    return shortest;
}

/* ---------------------------------------------------------------- files */

static uint64_t size_of(const char *dir, const char *name, const char *ending)
{
    struct strbuf path = {0};
    struct stat st;
    strbuf_printf(&path, "%s/%s%s", dir, name, ending);
    bool is_there = !strbuf_failed(&path) && stat(path.p, &st) == 0 && S_ISREG(st.st_mode);
    uint64_t size = is_there ? (uint64_t)st.st_blocks * 512 : 0;
    strbuf_fini(&path);
    return size;
}

struct listing {
    const char *dir;
    struct retain_files *out;
};

static int add_file(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    struct listing *l = arg;
    struct retain_files *f = l->out;
    if (f->n == f->max) {
        size_t max = f->max ? f->max * 2 : 16;
        struct retain_file *all = mem_try_resize(f->files, max * sizeof *all);
        if (!all)
            return -ENOMEM;
        f->files = all;
        f->max = max;
    }
    struct retain_file *new = &f->files[f->n++];
    *new = (struct retain_file){.from_ns = from_ns, .step_ns = step_ns};
    memcpy(new->name, name, strnlen(name, sizeof new->name - 1));
    new->size_bytes = size_of(l->dir, name, "") + size_of(l->dir, name, "-wal");
    return 0;
}

static int folder_size(const char *dir, uint64_t *out)
{
    DIR *d = opendir(dir);
    if (!d)
        return -errno;
    *out = 0;
    for (struct dirent *e; (e = readdir(d));)
        *out += size_of(dir, e->d_name, "");
    closedir(d);
    return 0;
}

int retain_files_list(const char *dir, struct retain_files *out)
{
    struct retain_files new = {NULL, 0, 0, 0};
    struct listing l = {dir, &new};
    int r = catalog_partitions(dir, add_file, &l);
    if (r == 0)
        r = folder_size(dir, &new.size_bytes);
    if (r < 0) {
        retain_files_fini(&new);
        return r;
    }
    retain_files_fini(out);
    *out = new;
    return 0;
}

void retain_files_fini(struct retain_files *f)
{
    mem_free(f->files);
    *f = (struct retain_files){NULL, 0, 0, 0};
}

/* ---------------------------------------------------------------- taking away */

struct noting {
    struct catalog *catalog;
    struct deleted gone; /* what all sections have in common */
    bool (*drops)(void *arg, struct slice name);
    void *arg;
    uint64_t rows;
    int r;
};

static bool note_section(void *arg, const struct partition_section *s)
{
    struct noting *n = arg;
    if (n->drops && !n->drops(n->arg, s->s.name))
        return true;
    struct deleted g = n->gone;
    g.name = s->s.name;
    g.from_ns = s->s.min_ns;
    g.rows = s->s.rows;
    n->rows += s->s.rows;
    n->r = catalog_note_gone(n->catalog, &g);
    return n->r == 0;
}

int retain_note(struct archive *a, struct partition *p, const struct retain_reason *reason,
                bool (*drops)(void *arg, struct slice name), void *arg, uint64_t *rows)
{
    const struct partition_span *span = partition_span(p);
    struct noting n = {.catalog = archive_catalog(a),
                       .gone = {.step_ns = span->step_ns,
                                .to_ns = span->to_ns,
                                .at_ns = reason->utc_ns,
                                .why = (uint8_t)reason->why},
                       .drops = drops,
                       .arg = arg};
    int r = partition_sections(p, SLICE_LIT(""), INT64_MIN, INT64_MAX, note_section, &n);
    *rows = n.rows;
    return n.r < 0 ? n.r : r;
}

static int unlink_in(const char *dir, const char *name, const char *ending)
{
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/%s%s", dir, name, ending);
    int r = strbuf_failed(&path) ? -ENOMEM : unlink(path.p) < 0 && errno != ENOENT ? -errno : 0;
    strbuf_fini(&path);
    return r;
}

int retain_remove(struct archive *a, const struct retain_file *f, const struct retain_reason *reason,
                  uint64_t *rows)
{
    struct partition_span span = {.from_ns = f->from_ns, .step_ns = f->step_ns};
    struct partition *p;
    struct diag why;
    uint64_t had = 0;
    if (partition_open(archive_dir(a), f->name, 0, NULL, &p, &why) == 0) {
        (void)retain_note(a, p, reason, NULL, NULL, &had); /* as far as it goes: it has to go all the same */
        partition_close(p);
    }
    catalog_forget_partition(archive_catalog(a), f->name);
    /* On a full disk it may fail; then the next open misses a partition that we took away, and says so:
     * better than no way out. */
    (void)catalog_commit(archive_catalog(a));
    archive_baselines_changed(a);
    archive_forget(a, &span);
    int r = unlink_in(archive_dir(a), f->name, "");
    if (r < 0)
        return r;
    (void)unlink_in(archive_dir(a), f->name,
                    "-wal"); /* without it they are nothing: swept at the next start */
    (void)unlink_in(archive_dir(a), f->name, "-shm");
    *rows = had;
    return 0;
}

static bool is_there(const char *dir, const char *name)
{
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/%s", dir, name);
    bool is = strbuf_failed(&path) || access(path.p, F_OK) == 0 || errno != ENOENT;
    strbuf_fini(&path);
    return is;
}

void retain_sweep(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct slice name = slice_str(e->d_name);
        char base[PARTITION_NAME_MAX];
        int64_t from, step;
        bool is_log = slice_ends(name, SLICE_LIT("-wal")) || slice_ends(name, SLICE_LIT("-shm"));
        if (!is_log || name.n - 4 >= sizeof base)
            continue;
        (void)snprintf(base, sizeof base, "%.*s", (int)(name.n - 4), name.p);
        if (partition_parse_name(base, &from, &step) && !is_there(dir, base))
            (void)unlink_in(dir, e->d_name, ""); /* the next start tries again */
    }
    if (d)
        closedir(d);
}
