/* SPDX-License-Identifier: Apache-2.0 */
/* Every event that went in comes out, once, equal, in order of time; from disk and from memory, with windows
 * of any size; with its producer and number if asked; of those that are asked for alone. */
#include "unit/archive/rows_seen.h"

#include "archive/extract.h"

#include <errno.h>
#include <stdlib.h>

enum { BATCHES = 40 };

static char dir[64];
static const struct archive_source source = {"a source"};
static const int64_t start_ns = INT64_C(1794777628000000000);

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/gridline-extract-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    remove_folder(dir);
    return 0;
}

struct world {
    struct events_maker maker;
    struct archive *archive;
    struct batch *batches[BATCHES];
    size_t n_batches, n;
    const struct event **events;
};

static void world_init(struct world *w, uint64_t seed)
{
    struct diag why = {0};
    const struct archive_options o = {.dir = dir, .partition_ns = INT64_C(600000000000)};
    *w = (struct world){.n = 0};
    events_init(&w->maker, seed, start_ns);
    w->maker.late_ns = INT64_C(1500000000000);
    w->events = mem_alloc(1 << 20);
    if (archive_open(&o, &w->archive, &why) < 0)
        fail_msg("%s", why.message);
}

static void world_fini(struct world *w)
{
    archive_close(w->archive);
    for (size_t i = 0; i < w->n_batches; i++)
        batch_unref(w->batches[i]);
    mem_free(w->events);
    events_fini(&w->maker);
}

static void put(struct world *w, struct batch *b)
{
    w->batches[w->n_batches++] = b;
    assert_int_equal(archive_append(w->archive, &source, w->n_batches, b), 0);
    assert_int_equal(archive_done(w->archive, &source, w->n_batches), 0);
    for (size_t i = 0; i < b->n; i++)
        w->events[w->n++] = &b->events[i];
}

/* Some of it on disk, the rest in memory. */
static void fill(struct world *w, size_t batches)
{
    for (size_t i = 0; i < batches; i++) {
        put(w, events_make(&w->maker, 1 + i * 37 % 400));
        if (i % 7 == 5)
            assert_int_equal(archive_flush(w->archive), 0);
    }
}

struct seen {
    const struct event **left; /* of those expected, by time; NULL: found */
    size_t n, found;
    int64_t last_ns;
};

static int by_time(const void *a, const void *b)
{
    const struct event *ea = *(const struct event *const *)a, *eb = *(const struct event *const *)b;
    return ea->time_ns < eb->time_ns ? -1 : ea->time_ns > eb->time_ns;
}

static void seen_init(struct seen *s, const struct world *w, bool (*wanted)(const struct event *e))
{
    *s = (struct seen){.left = mem_alloc(w->n * sizeof *s->left + 1), .last_ns = INT64_MIN};
    for (size_t i = 0; i < w->n; i++)
        if (!wanted || wanted(w->events[i]))
            s->left[s->n++] = w->events[i];
    qsort(s->left, s->n, sizeof *s->left, by_time);
}

/* That event is one of those that were expected and have not been found. Returns its place. */
static size_t find(struct seen *s, const struct event *e)
{
    size_t from = 0, to = s->n;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        const struct event *m = s->left[mid];
        int64_t at = m->time_ns;
        if (at < e->time_ns)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static bool *taken_of(struct seen *s)
{
    return mem_alloc(s->n + 1);
}

static void see(struct seen *s, bool *taken, const struct event *e)
{
    for (size_t i = find(s, e); i < s->n && s->left[i]->time_ns == e->time_ns; i++)
        if (!taken[i] && event_eq(s->left[i], e)) {
            taken[i] = true;
            s->found++;
            return;
        }
    fail_msg("an event that was not expected, or twice: %.*s", SLICE_ARG(e->schema->name));
}

static size_t run(struct world *w, struct archive *a, const struct extract_spec *spec,
                  bool (*wanted)(const struct event *e))
{
    struct view_reader *reader = NULL;
    struct view *view = NULL;
    struct extract *x = NULL;
    struct diag why = {0};
    struct seen s;
    const struct batch *b;
    size_t n_batches = 0;
    int r;
    seen_init(&s, w, wanted);
    bool *taken = taken_of(&s);
    assert_int_equal(view_reader_create(a, a ? NULL : dir, 1 << 20, &reader, &why), 0);
    assert_int_equal(view_take(reader, &view), 0);
    assert_int_equal(extract_open(view, spec, &x), 0);
    while ((r = extract_next(x, &b)) > 0) {
        n_batches++;
        assert_true(b->n > 0);
        for (size_t i = 0; i < b->n; i++) {
            see(&s, taken, &b->events[i]);
            if (!spec->with_origins)
                assert_true(b->events[i].time_ns >= s.last_ns);
            s.last_ns = b->events[i].time_ns;
        }
        if (!spec->with_origins)
            assert_int_equal(b->origin.first_seq, 0);
    }
    assert_int_equal(r, 0);
    assert_int_equal(s.found, s.n);
    assert_int_equal(extract_damaged(x).rows, 0);
    extract_close(x);
    view_release(view);
    view_reader_destroy(reader);
    mem_free(taken);
    mem_free(s.left);
    return n_batches;
}

static const struct extract_spec all = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};

static void in_order(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 3);
    fill(&w, BATCHES);
    static const size_t windows[] = {0, 2000, 20000, 100000};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        struct extract_spec spec = all;
        spec.window_bytes = windows[i];
        run(&w, w.archive, &spec, NULL);
    }
    assert_int_equal(archive_flush(w.archive), 0);
    run(&w, NULL, &all, NULL);
    world_fini(&w);
}

static const int64_t middle_ns = INT64_C(1794777628000000000) + INT64_C(2000000000000);

static bool is_in_middle(const struct event *e)
{
    return e->time_ns >= middle_ns && e->time_ns <= middle_ns + INT64_C(900000000000);
}

static bool is_load_of_n1(const struct event *e)
{
    return slice_eq_str(e->schema->name, "load") && slice_eq_str(e->host, "n1") && e->level == LEVEL_ERROR;
}

static void what_is_asked(void **state)
{
    (void)state;
    struct world w;
    struct diag why = {0};
    struct selector *selector = NULL;
    world_init(&w, 4);
    fill(&w, BATCHES);
    run(&w, w.archive,
        &(struct extract_spec){.from_ns = middle_ns, .to_ns = middle_ns + INT64_C(900000000000)},
        is_in_middle);
    const struct select_spec spec = {.events = SLICE_LIT("lo*"),
                                     .hosts = SLICE_LIT("n1"),
                                     .where = SLICE_LIT("level = 'error'"),
                                     .on_change = SLICE_LIT(""),
                                     .cross = SLICE_LIT(""),
                                     .delta = SLICE_LIT(""),
                                     .every = SLICE_LIT("")};
    assert_int_equal(selector_create(&spec, 0, &selector, &why), 0);
    struct extract_spec some = all;
    some.selector = selector;
    run(&w, w.archive, &some, is_load_of_n1);
    selector_destroy(selector);
    world_fini(&w);
}

static bool may_see_stream(void *arg, struct slice event, struct slice host)
{
    (void)arg;
    (void)event;
    return !slice_eq_str(host, "n2");
}

static bool is_not_n2(const struct event *e)
{
    return !slice_eq_str(e->host, "n2");
}

static void what_may_be_seen(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 5);
    fill(&w, 10);
    struct sql_access access = {.may_stream = may_see_stream};
    struct extract_spec spec = all;
    spec.access = &access;
    run(&w, w.archive, &spec, is_not_n2);
    world_fini(&w);
}

/* Batches have numbers without gaps, and each event has the number that it went in with. */
static void origins(void **state)
{
    (void)state;
    struct world w;
    struct view_reader *reader = NULL;
    struct view *view = NULL;
    struct extract *x = NULL;
    struct diag why = {0};
    const struct batch *b;
    world_init(&w, 6);
    w.maker.late_ns = 0;
    fill(&w, 20);
    struct extract_spec spec = all;
    spec.with_origins = true;
    size_t n_batches = run(&w, w.archive, &spec, NULL), n = 0;
    assert_true(n_batches < w.n / 20); /* they stand together */
    assert_int_equal(view_reader_create(w.archive, NULL, 1 << 20, &reader, &why), 0);
    assert_int_equal(view_take(reader, &view), 0);
    assert_int_equal(extract_open(view, &spec, &x), 0);
    while (extract_next(x, &b) > 0) {
        assert_memory_equal(b->origin.producer, events_producer, 16);
        assert_true(b->origin.epoch == 7 && b->origin.clock.offset_ns == -5 &&
                    b->origin.clock.generation == 2);
        for (size_t i = 0; i < b->n; i++, n++)
            assert_true(event_eq(&b->events[i], w.events[b->origin.first_seq + i - 1]));
    }
    assert_int_equal(n, w.n);
    extract_close(x);
    view_release(view);
    view_reader_destroy(reader);
    world_fini(&w);
}

/* More of one nanosecond than a window holds; and events with more columns than a schema may have. */
static void crowded_and_wide(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 7);
    for (size_t i = 0; i < 3; i++) {
        for (unsigned k = 0; k < 1000; k++) {
            const struct named_value v = {SLICE_LIT("n"), value_uint(i * 1000 + k)};
            const struct event_head head = {.time_ns = start_ns,
                                            .name = k % 2 ? SLICE_LIT("odd") : SLICE_LIT("even"),
                                            .host = SLICE_LIT("h"),
                                            .prog = SLICE_LIT("p")};
            assert_int_equal(batch_builder_add(w.maker.builder, &head, &v, 1, NULL), 0);
        }
        put(&w, batch_builder_finish(w.maker.builder, NULL));
    }
    for (unsigned k = 0; k < 60; k++) {
        struct named_value v[10];
        char names[10][16];
        for (unsigned f = 0; f < 10; f++) {
            int n = snprintf(names[f], sizeof names[f], "f%u", k * 10 + f);
            v[f] = (struct named_value){slice_of(names[f], (size_t)n), value_text(SLICE_LIT("x"))};
        }
        const struct event_head head = {.time_ns = start_ns + k,
                                        .name = SLICE_LIT("wide"),
                                        .host = SLICE_LIT("h"),
                                        .prog = SLICE_LIT("p")};
        assert_int_equal(batch_builder_add(w.maker.builder, &head, v, 10, NULL), 0);
    }
    put(&w, batch_builder_finish(w.maker.builder, NULL));
    for (unsigned flushed = 0; flushed < 2; flushed++) {
        for (unsigned with = 0; with < 2; with++)
            run(&w, w.archive,
                &(struct extract_spec){
                    .from_ns = INT64_MIN, .to_ns = INT64_MAX, .window_bytes = 20000, .with_origins = with},
                NULL);
        assert_int_equal(archive_flush(w.archive), 0);
    }
    world_fini(&w);
}

/* Keys, units and kinds are in the schema that comes back; rows of an overflow stream have their keys again.
 */
static void keys(void **state)
{
    (void)state;
    struct world w;
    struct diag why = {0};
    struct schema *schema = NULL;
    const struct field fields[] = {
        {.name = SLICE_LIT("device"),
         .unit = SLICE_LIT(""),
         .help = SLICE_LIT("which"),
         .type = VALUE_TEXT,
         .role = ROLE_KEY},
        {.name = SLICE_LIT("reads"),
         .unit = SLICE_LIT("1"),
         .help = SLICE_LIT(""),
         .type = VALUE_UINT,
         .kind = KIND_COUNTER},
    };
    world_init(&w, 8);
    archive_close(w.archive);
    const struct archive_options o = {.dir = dir, .streams_max = 3};
    assert_int_equal(archive_open(&o, &w.archive, &why), 0);
    assert_int_equal(schema_create(SLICE_LIT("disk"), fields, 2, &schema), 0);
    for (unsigned i = 0; i < 50; i++) {
        char device[16];
        int n = snprintf(device, sizeof device, "sd%u", i % 10);
        const struct value values[] = {value_text(slice_of(device, (size_t)n)), value_uint(i)};
        const struct event_head head = {
            .time_ns = start_ns + i, .host = SLICE_LIT("h"), .prog = SLICE_LIT("p")};
        assert_int_equal(batch_builder_add_known(w.maker.builder, &head, schema, values, NULL), 0);
    }
    put(&w, batch_builder_finish(w.maker.builder, NULL));
    struct archive_counts counts;
    archive_counts(w.archive, &counts);
    assert_int_equal(counts.overflow, 35);
    run(&w, w.archive, &all, NULL);
    assert_int_equal(archive_flush(w.archive), 0);
    run(&w, w.archive, &all, NULL);

    struct view_reader *reader = NULL;
    struct view *view = NULL;
    struct extract *x = NULL;
    const struct batch *b;
    assert_int_equal(view_reader_create(w.archive, NULL, 1 << 20, &reader, &why), 0);
    assert_int_equal(view_take(reader, &view), 0);
    assert_int_equal(extract_open(view, &all, &x), 0);
    assert_int_equal(extract_next(x, &b), 1);
    for (size_t i = 0; i < b->n; i++) {
        int device = schema_find(b->events[i].schema, SLICE_LIT("device"), VALUE_TEXT);
        int reads = schema_find(b->events[i].schema, SLICE_LIT("reads"), VALUE_UINT);
        assert_true(device >= 0 && reads >= 0 && b->events[i].schema->n_fields == 2);
        assert_int_equal(b->events[i].schema->fields[device].role, ROLE_KEY);
        assert_true(slice_eq_str(b->events[i].schema->fields[device].help, "which"));
        assert_int_equal(b->events[i].schema->fields[reads].kind, KIND_COUNTER);
        assert_true(slice_eq_str(b->events[i].schema->fields[reads].unit, "1"));
    }
    extract_close(x);
    view_release(view);
    view_reader_destroy(reader);
    schema_unref(schema);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_may_be_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(origins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(crowded_and_wide, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
