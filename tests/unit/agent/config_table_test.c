/* SPDX-License-Identifier: Apache-2.0 */
/* The tables themselves, with the real sensors: every default is a value that could be given, and every key
 * has a name of its own in files and in the environment. */
#include "unit/test.h"

#include "agent/config_internal.h"
#include "base/map.h"
#include "base/text.h"
#include "event/encoding.h"

/* Calls fn for the keys of every scope. */
static void each_key(void (*fn)(struct config_scope scope, const struct config_key *key))
{
    struct config_scope scope;
    struct config_key key;
    for (size_t k = 0; agent_schema.scope_at(k, &scope); k++)
        for (size_t i = 0; !scope.is_family && agent_schema.key_at(scope, i, &key); i++)
            fn(scope, &key);
}

static void check_default(struct config_scope scope, const struct config_key *key)
{
    struct config_flags flags = {0};
    struct diag why = {0};
    struct arena arena = {0};
    struct config_load l;
    union {
        struct agent_config agent;
        struct output_config output;
        struct sensor_config sensor;
    } *to = calloc(1, sizeof *to);
    struct strbuf name = {0};
    bool is_option = scope_sensor(scope) && !key->is_common;
    assert_non_null(to);
    config_load_init(&l, &agent_schema, &flags, &arena, &why);
    config_full_name(scope, "", key->name, &name);
    if (scope_sensor(scope))
        to->sensor.ops = scope_sensor(scope);
    assert_non_null(key->help);
    if (key->default_text && config_store(&l, key, NULL, name.p, is_option ? NULL : (void *)to) < 0)
        fail_msg("the default of %s: %s", name.p, why.message);
    strbuf_fini(&name);
    arena_fini(&arena);
    free(to);
}

static void test_defaults_are_values(void **unused)
{
    (void)unused;
    each_key(check_default);
}

static struct map names;

static void check_name(struct config_scope scope, const struct config_key *key)
{
    struct strbuf full = {0}, name = {0};
    config_full_name(scope, "", key->name, &full);
    for (size_t i = 0; i < full.n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_-.", full.p[i]))
            fail_msg("%s can't be written without quotes", full.p);
    config_environment_name(&agent_schema, strbuf_slice(&full), &name);
    if (map_get(&names, strbuf_slice(&name)))
        fail_msg("two keys are %s", name.p);
    assert_int_equal(map_put(&names, strbuf_slice(&name), name.p), 0);
    strbuf_fini(&full); /* name stays in the map */
}

static void test_names_are_unique(void **unused)
{
    void *name;
    (void)unused;
    each_key(check_name);
    for (size_t i = 0; map_next(&names, &i, &name);)
        free(name);
    map_fini(&names);
}

/* What explain and -s take for something else. */
static void test_sections_are_no_sensors(void **unused)
{
    static const char *const taken[] = {"agent", "budget", "output", "sensor", "SENSOR", "root"};
    struct config_key key;
    (void)unused;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        assert_null(sensor_find(slice_str(taken[i])));
    for (size_t i = 0; agent_schema.key_at(config_root(&agent_schema), i, &key); i++)
        assert_null(sensor_find(slice_str(key.name)));
}

/* A key of the root with a dot is in a section that the schema lists, and none of those is empty. */
static void test_inner_sections(void **unused)
{
    size_t counts[8] = {0}, n = 0;
    struct config_key key;
    (void)unused;
    for (size_t i = 0; agent_schema.key_at(config_root(&agent_schema), i, &key); i++) {
        struct slice inner = slice_of(key.name, strcspn(key.name, "."));
        if (key.name[inner.n] && !config_inner_find(&agent_schema, inner))
            fail_msg("%s is in no section", key.name);
        for (n = 0; agent_schema.inner[n]; n++)
            counts[n] += key.name[inner.n] && slice_eq_str(inner, agent_schema.inner[n]);
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(counts[i] > 0);
        assert_in_range(strlen(agent_schema.inner[i]), 1, CONFIG_INNER_MAX);
    }
}

/* The agent does not link the table of all encodings: the names are in its own. */
static void test_encodings_of_outputs_exist(void **unused)
{
    struct config_key key;
    struct slice rest, word;
    size_t n = 0;
    (void)unused;
    assert_true(config_key_find(&agent_schema, scope_output, SLICE_LIT("encoding"), &key));
    for (rest = slice_str(key.words); config_next_word(&rest, '|', &word); n++) {
        const struct encoding *e = encoding_by_name(word);
        assert_non_null(e);
        assert_slice(word, e->name);
        assert_non_null(e->encoder);
    }
    for (size_t i = 0; encoding_at(i); i++)
        n -= strcmp(encoding_at(i)->name, "csv") != 0; /* its columns are not known before the last event */
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_values),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_sections_are_no_sensors),
        cmocka_unit_test(test_inner_sections),
        cmocka_unit_test(test_encodings_of_outputs_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
