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
    struct config_scope scopes[] = {{.kind = SCOPE_AGENT}, {.kind = SCOPE_OUTPUT}};
    struct config_key key;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; config_key_at(scopes[k], i, &key); i++)
            fn(scopes[k], &key);
    for (size_t k = 0; sensor_list[k]; k++) {
        struct config_scope scope = {.kind = SCOPE_SENSOR, .ops = sensor_list[k]};
        for (size_t i = 0; config_key_at(scope, i, &key); i++)
            fn(scope, &key);
    }
}

static void check_default(struct config_scope scope, const struct config_key *key)
{
    struct agent_config *c = calloc(1, sizeof *c);
    struct config_flags flags = {0};
    struct diag why = {0};
    struct config_load l = {.flags = &flags, .c = c, .why = &why};
    union {
        struct agent_config agent;
        struct output_config output;
        struct sensor_config sensor;
    } *to = calloc(1, sizeof *to);
    struct strbuf name = {0};
    assert_non_null(c);
    assert_non_null(to);
    config_full_name(scope, "", key->name, &name);
    if (scope.kind == SCOPE_SENSOR)
        to->sensor.ops = scope.ops;
    assert_non_null(key->help);
    if (key->default_text && config_store(&l, key, NULL, name.p, key->is_option ? NULL : (void *)to) < 0)
        fail_msg("the default of %s: %s", name.p, why.message);
    strbuf_fini(&name);
    arena_fini(&c->arena);
    free(c);
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
    config_environment_name(strbuf_slice(&full), &name);
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
    for (size_t i = 0; config_key_at((struct config_scope){.kind = SCOPE_AGENT}, i, &key); i++)
        assert_null(sensor_find(slice_str(key.name)));
}

/* The agent does not link the table of all encodings: the names are in its own. */
static void test_encodings_of_outputs_exist(void **unused)
{
    struct config_key key;
    struct slice rest, word;
    size_t n = 0;
    (void)unused;
    assert_true(config_key_find((struct config_scope){.kind = SCOPE_OUTPUT}, SLICE_LIT("encoding"), &key));
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
        cmocka_unit_test(test_encodings_of_outputs_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
