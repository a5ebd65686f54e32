/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of schemas: seen, announced, in conflict, forgotten. */
#include "unit/directory/known.h"

#include <inttypes.h>

#define HOUR (3600 * NS_PER_S)

static struct directory_schema only_of(const struct known *k, const char *event)
{
    struct directory_schema s, found = {0};
    size_t n = 0;
    for (uint64_t id = 0; directory_next_schema(k->d, &id, &s);)
        if (slice_eq_str(s.event, event)) {
            found = s;
            n++;
        }
    assert_int_equal(n, 1);
    return found;
}

static size_t count_of(const struct known *k, const char *event)
{
    struct directory_schema s;
    size_t n = 0;
    for (uint64_t id = 0; directory_next_schema(k->d, &id, &s);)
        n += slice_eq_str(s.event, event);
    return n;
}

static void every_version_that_came_is_there(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_event(&k, "a", "app", "note");
    int64_t first = k.utc_ns;
    known_pass(&k, NS_PER_S);
    known_event(&k, "b", "app", "note");
    struct directory_schema s = only_of(&k, "note");
    assert_non_null(s.schema);
    assert_int_equal(s.schema->n_fields, 1);
    assert_true(s.hash == s.schema->hash);
    assert_int_equal(s.makers, 2);
    assert_int_equal(s.events, 2);
    assert_true(s.first_ns == first && s.last_ns == first + NS_PER_S);
    assert_slice(s.conflict, "");
    known_close(&k);
}

static void a_field_of_two_types_is_a_conflict(void **state)
{
    (void)state;
    struct known k, other;
    known_open(&k, HOUR);
    known_open(&other, HOUR); /* another writer: its registry never saw the number */
    known_event(&k, "a", "app", "note");
    k.log[0] = '\0';
    known_add(&other, "b", "app", "note", value_text(SLICE_LIT("seven")));
    struct batch *b = batch_builder_finish(other.builder, NULL);
    directory_batch(k.d, b, k.mono_ns, k.utc_ns);
    batch_unref(b);
    assert_heard(&k, "+schema:note!x +b:unregistered>unregistered +b/app=running ");
    struct directory_schema s;
    size_t n = 0;
    for (uint64_t id = 0; directory_next_schema(k.d, &id, &s); n++)
        assert_slice(s.conflict, "x"); /* both of them */
    assert_int_equal(n, 2);
    known_close(&other);
    known_close(&k);
}

static bool stop_at_two(void *arg, struct slice host)
{
    unsigned *n = arg;
    assert_true(host.n == 1);
    return ++*n < 2;
}

static void announced_before_anything_came(void **state)
{
    (void)state;
    struct known k;
    char hash[17];
    known_open(&k, HOUR);
    known_add(&k, "z", "app", "cpu", value_int(1)); /* to learn the hash */
    struct batch *b = batch_builder_finish(k.builder, NULL);
    (void)snprintf(hash, sizeof hash, "%016" PRIx64, b->events[0].schema->hash);
    known_host(&k, "a", DIRECTORY_LIVE);
    struct directory_sensor s = {.sensor = SLICE_LIT("cpu"),
                                 .events = SLICE_LIT("other,cpu"),
                                 .mode = SLICE_LIT("on-request"),
                                 .why = {"", 0},
                                 .status = DIRECTORY_IDLE};
    char hashes[32];
    (void)snprintf(hashes, sizeof hashes, ",%s", hash);
    s.schemas = slice_str(hashes);
    assert_int_equal(directory_list_begin(k.d, SLICE_LIT("a"), k.utc_ns), 0);
    assert_int_equal(directory_list_sensor(k.d, SLICE_LIT("a"), &s), 0);
    directory_list_end(k.d, SLICE_LIT("a"), k.utc_ns);
    struct directory_schema found = only_of(&k, "cpu");
    assert_null(found.schema);
    assert_int_equal(found.makers, 1);
    assert_int_equal(found.events, 0);
    assert_int_equal(count_of(&k, "other"), 0); /* no hash, no version */
    k.log[0] = '\0';
    directory_batch(k.d, b, k.mono_ns, k.utc_ns);
    assert_heard(&k, "~schema:cpu +z:unregistered>unregistered +z/app=running ");
    found = only_of(&k, "cpu");
    assert_non_null(found.schema);
    assert_int_equal(found.makers, 2);
    unsigned n = 0;
    directory_schema_makers(k.d, found.id, stop_at_two, &n);
    assert_int_equal(n, 2);
    batch_unref(b);
    known_close(&k);
}

static void a_version_that_nobody_makes_goes(void **state)
{
    (void)state;
    struct known k;
    known_open(&k, HOUR);
    known_event(&k, "a", "app", "note");
    known_host(&k, "b", DIRECTORY_LIVE);
    known_say(&k, "b", "cpu cpu always running");
    known_event(&k, "b", "gridline-agent", "cpu");
    known_pass(&k, 2 * HOUR); /* the program goes */
    known_pass(&k, 2 * HOUR); /* and then what it made */
    assert_int_equal(count_of(&k, "note"), 0);
    assert_int_equal(count_of(&k, "cpu"), 1); /* silent, and still announced */
    known_close(&k);
}

static void versions_of_a_name_are_bounded(void **state)
{
    (void)state;
    struct known k;
    struct directory_counts c;
    known_open(&k, HOUR);
    for (unsigned i = 0; i < DIRECTORY_VERSIONS_MAX + 10;
         i++) { /* each grows by a field, of a new type every time */
        char field[16];
        (void)snprintf(field, sizeof field, "f%u", i);
        const struct event_head head = {
            .time_ns = k.utc_ns, .name = SLICE_LIT("note"), .host = SLICE_LIT("a"), .prog = SLICE_LIT("app")};
        const struct named_value values[] = {{slice_str(field), value_int(1)}};
        assert_int_equal(batch_builder_add(k.builder, &head, values, 1, NULL), 0);
        known_send(&k);
        k.log[0] = '\0';
    }
    assert_int_equal(count_of(&k, "note"), DIRECTORY_VERSIONS_MAX);
    directory_counts(k.d, &c);
    assert_int_equal(c.schemas, DIRECTORY_VERSIONS_MAX);
    assert_int_equal(c.refused_schemas, 0); /* older ones gave way */
    known_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_that_came_is_there),
        cmocka_unit_test(a_field_of_two_types_is_a_conflict),
        cmocka_unit_test(announced_before_anything_came),
        cmocka_unit_test(a_version_that_nobody_makes_goes),
        cmocka_unit_test(versions_of_a_name_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
