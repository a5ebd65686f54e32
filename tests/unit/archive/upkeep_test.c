/* SPDX-License-Identifier: Apache-2.0 */
/* An archive that is kept in order: chunks merged and tiers made by themselves, what is too old or too much
 * goes and nothing else, whoever reads goes on reading. */
#include "unit/archive/model.h"

#include "archive/archive_internal.h"
#include "archive/upkeep.h"

#include <limits.h>
#include <sys/stat.h>

#define HOUR (3600 * SECOND)

struct last_gone {
    unsigned n;
    char last[PARTITION_NAME_MAX], why[80];
};

static void on_gone(void *arg, const char *name, uint64_t rows, const char *what)
{
    struct last_gone *g = arg;
    (void)rows;
    g->n++;
    (void)snprintf(g->last, sizeof g->last, "%s", name);
    (void)snprintf(g->why, sizeof g->why, "%s", what);
}

static void init(struct model *m, uint64_t seed)
{
    model_init(m, seed);
    model_close_archive(m);
    m->partition_ns = HOUR;
    m->base_ns -= m->base_ns % m->partition_ns;
    m->span_ns = 4 * m->partition_ns;
    model_open_archive(m);
}

/* All that is due at that time, with time passing as it must between looks at the folder. */
static void run(struct upkeep *u, int64_t utc_ns)
{
    for (int quiet = 0, i = 0; quiet < 3; i++) {
        int r = upkeep_step(u, utc_ns);
        assert_true(r >= 0);
        quiet = r ? 0 : quiet + 1;
        utc_ns += r ? 0 : 31 * SECOND;
        assert_true(i < 100000);
    }
}

static unsigned count_files(const struct model *m, const char *ending)
{
    DIR *d = opendir(m->dir);
    unsigned n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct slice name = slice_str(e->d_name);
        n += partition_parse_name(e->d_name, &(int64_t){0}, &(int64_t){0}) &&
             slice_ends(name, slice_str(ending));
    }
    closedir(d);
    return n;
}

/* Raw rows of that event name (-1: all) in partition `at` are gone. */
static void mark_gone(struct model *m, int at, int name)
{
    for (size_t i = 0; i < m->n; i++)
        if ((m->rows[i].time_ns - m->base_ns) / m->partition_ns == at &&
            (name < 0 || m->rows[i].name == name))
            m->rows[i].is_gone = true;
}

/* Whole minutes, of all rows that there ever were. */
static void check_folds(struct model *m)
{
    bool *gone = mem_alloc(m->n + 1);
    for (size_t i = 0; i < m->n; i++) {
        gone[i] = m->rows[i].is_gone;
        m->rows[i].is_gone = false;
    }
    for (int i = 0; i < 12; i++) {
        int64_t from = m->base_ns + (int64_t)model_random(m, 200) * 60 * SECOND;
        struct bucket_spec spec = {.from_ns = from,
                                   .to_ns = from + (int64_t)model_random(m, 200) * 60 * SECOND,
                                   .step_ns = model_random(m, 2) ? 60 * SECOND : HOUR,
                                   .tier_ns = model_random(m, 2) ? HOUR : 0};
        model_check_fold(m, (unsigned)model_random(m, M_NAMES), &spec, -1, UINT64_MAX);
    }
    for (size_t i = 0; i < m->n; i++)
        m->rows[i].is_gone = gone[i];
    mem_free(gone);
}

/* The archive remembers what has gone of raw rows: how many, from the first to the end of a partition. */
static void check_remembered(struct model *m, enum gone_why why)
{
    for (uint8_t name = 0; name < M_NAMES; name++) {
        uint64_t rows = 0;
        int64_t from = INT64_MAX, last = INT64_MIN;
        for (size_t i = 0; i < m->n; i++)
            if (m->rows[i].is_gone && m->rows[i].name == name) {
                from = m->rows[i].time_ns < from ? m->rows[i].time_ns : from;
                last = m->rows[i].time_ns > last ? m->rows[i].time_ns : last;
                rows++;
            }
        struct deleted g, found = {0};
        for (size_t i = 0; catalog_next_gone(archive_catalog(m->a), &i, &g);)
            if (g.step_ns == 0 && slice_eq_str(g.name, model_names[name]))
                found = g;
        assert_int_equal(found.rows, rows);
        if (!rows)
            continue;
        assert_int_equal(found.from_ns, from);
        assert_true(found.to_ns > last && found.to_ns <= last + m->partition_ns);
        assert_int_equal((found.to_ns - m->base_ns) % m->partition_ns, 0);
        assert_int_equal(found.why, why);
    }
}

static void check_all(struct model *m)
{
    (void)model_view(m);
    (void)model_check_rows(m);
    check_folds(m);
    model_release(m);
}

static struct upkeep *create(struct model *m, struct upkeep_options o)
{
    struct upkeep *u;
    struct diag why = {0};
    if (upkeep_create(m->a, &o, &u, &why) < 0)
        fail_msg("%s", why.message);
    return u;
}

static void fill(struct model *m)
{
    for (int i = 0; i < 12; i++) {
        model_fill(m, 6);
        assert_int_equal(archive_flush(m->a), 0);
    }
}

static void goes_by_age(void **state)
{
    (void)state;
    struct model m;
    struct last_gone gone = {0};
    init(&m, 500);
    fill(&m);
    struct upkeep *u = create(&m, (struct upkeep_options){.keep = "cpu=10h,*=24h",
                                                          .keep_tier_ns = {48 * HOUR, 72 * HOUR, 96 * HOUR},
                                                          .gone = on_gone,
                                                          .arg = &gone});
    int64_t end = m.base_ns + m.span_ns;
    run(u, end - HOUR / 2); /* the last partition is open, the one before it waits for late rows */
    assert_int_equal(count_files(&m, "-10s.db"), 2);
    assert_true(upkeep_counts(u).merges > 0);
    assert_int_equal(upkeep_counts(u).tiers, 6);
    check_all(&m);
    run(u, end + 2 * HOUR);
    assert_int_equal(count_files(&m, "-10s.db"), 4);
    assert_int_equal(count_files(&m, "-60s.db"), 4);
    assert_int_equal(count_files(&m, "-3600s.db"), 4);
    check_all(&m);
    /* Late rows come into the tiers. */
    model_add(&m, 40, m.base_ns, end - SECOND);
    assert_int_equal(archive_flush(m.a), 0);
    run(u, end + 3 * HOUR);
    check_all(&m);
    /* cpu of the first partition is past; the rest of it, and the others, are not. */
    run(u, m.base_ns + 11 * HOUR + HOUR / 2);
    mark_gone(&m, 0, 0);
    check_all(&m);
    assert_int_equal(gone.n, 0);
    check_remembered(&m, GONE_AGE);
    /* All of the first is past, and cpu of all. */
    run(u, m.base_ns + 25 * HOUR + HOUR / 2);
    mark_gone(&m, 0, -1);
    for (int i = 1; i < 4; i++)
        mark_gone(&m, i, 0);
    check_all(&m);
    check_remembered(&m, GONE_AGE);
    assert_int_equal(gone.n, 1);
    assert_int_equal(count_files(&m, "Z.db"), 3);
    assert_int_equal(count_files(&m, "s.db"), 12);
    /* Tiers go by their own ages. */
    run(u, m.base_ns + 51 * HOUR + HOUR / 2);
    assert_int_equal(count_files(&m, "Z.db"), 0);
    assert_int_equal(count_files(&m, "-10s.db"), 1);
    assert_int_equal(count_files(&m, "-60s.db"), 4);
    run(u, m.base_ns + 1000 * HOUR);
    assert_int_equal(count_files(&m, ".db"), 0);
    upkeep_destroy(u);
    struct archive_counts c;
    archive_counts(m.a, &c);
    assert_int_equal(c.shed, 0);
    model_fini(&m);
}

/* Rows that are older than anything that is kept are refused, and counted, from then on. */
static void refuses_what_has_gone(void **state)
{
    (void)state;
    struct model m;
    struct archive_counts c;
    init(&m, 510);
    fill(&m);
    struct upkeep *u = create(&m, (struct upkeep_options){.keep = "*=24h"});
    run(u, m.base_ns + 25 * HOUR + HOUR / 2);
    assert_int_equal(count_files(&m, "Z.db"), 3);
    mark_gone(&m, 0, -1);
    check_all(&m);
    size_t before = m.n;
    model_add(&m, 25, m.base_ns, m.base_ns + HOUR - SECOND);
    for (size_t i = before; i < m.n; i++)
        m.rows[i].is_gone = true;
    archive_counts(m.a, &c);
    assert_int_equal(c.too_old, 25);
    m.n = before; /* they are not in the tiers either */
    check_all(&m);
    upkeep_destroy(u);
    /* And after a start: tiers without rows say up to where. */
    model_close_archive(&m);
    model_open_archive(&m);
    u = create(&m, (struct upkeep_options){.keep = "*=240h"});
    run(u, m.base_ns + 25 * HOUR + HOUR / 2);
    m.seq = m.n;
    model_add(&m, 5, m.base_ns, m.base_ns + HOUR - SECOND);
    archive_counts(m.a, &c);
    assert_int_equal(c.too_old, 5);
    upkeep_destroy(u);
    model_fini(&m);
}

static void goes_by_size(void **state)
{
    (void)state;
    struct model m;
    struct last_gone gone = {0};
    init(&m, 520);
    fill(&m);
    struct upkeep *u = create(&m, (struct upkeep_options){.size_bytes = 1, .gone = on_gone, .arg = &gone});
    (void)model_view(&m);
    (void)model_check_rows(&m); /* a view that has all of them open */
    run(u, m.base_ns + m.span_ns + 2 * HOUR);
    assert_int_equal(count_files(&m, "Z.db"), 1); /* the newest stays, whatever its size */
    assert_int_equal(count_files(&m, "s.db"), 0);
    assert_string_equal(gone.why, "the archive is larger than it may be");
    (void)model_check_rows(&m); /* goes on reading */
    check_folds(&m);
    uint64_t rows = 0;
    for (int i = 0; i < 3; i++)
        mark_gone(&m, i, -1);
    for (size_t i = 0; i < m.n; i++)
        rows += m.rows[i].is_gone;
    struct archive_counts c;
    archive_counts(m.a, &c);
    assert_int_equal(c.shed, rows);
    (void)model_view(&m);
    (void)model_check_rows(&m);
    upkeep_destroy(u);
    /* The archive opens without complaint: what went was taken out of the catalogue. */
    model_close_archive(&m);
    model_open_archive(&m);
    assert_int_equal(catalog_troubles(archive_catalog(m.a)), 0);
    check_remembered(&m, GONE_SIZE);
    model_fini(&m);
}

static uint64_t disk_usage(const struct model *m)
{
    DIR *d = opendir(m->dir);
    uint64_t bytes = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        assert_int_equal(fstatat(dirfd(d), e->d_name, &st, 0), 0);
        bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_blocks * 512 : 0;
    }
    closedir(d);
    return bytes;
}

/* The reserve, logs and the catalogue count: the folder is not larger than the limit. */
static void keeps_the_whole_folder_below_its_limit(void **state)
{
    (void)state;
    struct model m;
    init(&m, 530);
    fill(&m);
    uint64_t limit = disk_usage(&m) * 4 / 5;
    struct upkeep *u = create(&m, (struct upkeep_options){.size_bytes = limit});
    run(u, m.base_ns + m.span_ns + 2 * HOUR);
    assert_true(disk_usage(&m) <= limit);
    assert_true(count_files(&m, "Z.db") >= 1);
    struct stat st;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/reserve", m.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_in_range(st.st_size, 1, (intmax_t)limit / 8 + 1);
    upkeep_destroy(u);
    model_fini(&m);
}

static void makes_room(void **state)
{
    (void)state;
    struct model m;
    struct last_gone gone = {0};
    init(&m, 530);
    fill(&m);
    struct upkeep *u = create(&m, (struct upkeep_options){.gone = on_gone, .arg = &gone});
    run(u, m.base_ns + m.span_ns);
    assert_int_equal(upkeep_make_room(u), 1);
    assert_int_equal(gone.n, 0); /* the reserve */
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(upkeep_make_room(u), 1);
        assert_int_equal(gone.n, i);
        mark_gone(&m, (int)i - 1, -1);
        (void)model_view(&m);
        (void)model_check_rows(&m);
        model_release(&m);
    }
    assert_string_equal(gone.why, "the disk is full");
    while (count_files(&m, "s.db"))
        assert_int_equal(upkeep_make_room(u), 1);
    assert_int_equal(upkeep_make_room(u), 0); /* there is nothing but the newest */
    (void)model_view(&m);
    (void)model_check_rows(&m);
    upkeep_destroy(u);
    model_fini(&m);
}

static void refuses_rules(void **state)
{
    (void)state;
    struct model m;
    struct upkeep *u;
    struct diag why = {0};
    struct upkeep_options o = {.keep = "cpu"};
    model_init(&m, 540);
    assert_int_equal(upkeep_create(m.a, &o, &u, &why), E_PROTO);
    assert_non_null(strstr(why.message, "does not say how long"));
    model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_by_age),
        cmocka_unit_test(refuses_what_has_gone),
        cmocka_unit_test(goes_by_size),
        cmocka_unit_test(makes_room),
        cmocka_unit_test(keeps_the_whole_folder_below_its_limit),
        cmocka_unit_test(refuses_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
