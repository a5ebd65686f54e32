/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "agent/properties.h"

#include <stdio.h>
#include <unistd.h>

static void test_of_this_host(void **state)
{
    struct sensor_env env;
    struct args_writer out = {0};
    (void)state;
    env_init(&env, "");
    properties_add(&env, &out);
    struct args all = args_of(&out);
    assert_int_equal(args_uint(all, "cpus", 0), sysconf(_SC_NPROCESSORS_ONLN));
    assert_int_equal(args_uint(all, "memory", 0), (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    assert_true(args_text(all, "kernel").n && args_text(all, "architecture").n && args_text(all, "version").n);
    assert_true(args_value(all, "swap").type == VALUE_UINT);
    assert_true(args_value(all, "threads").type == VALUE_NONE); /* that is cpus */
    struct strbuf bytes = {0}; /* what goes to the gateway can be read there */
    args_put(&bytes, all);
    struct cursor c = cursor_of(strbuf_slice(&bytes));
    struct args again;
    assert_true(args_get(&c, &again));
    assert_int_equal(again.n, all.n);
    strbuf_fini(&bytes);
    args_writer_fini(&out);
    env_fini(&env);
}

static void propose(uint64_t cpus, uint64_t memory, struct args_writer *out)
{
    const char *const settings[] = {"defaults=false", "vector.mode=always", "cpu.every=1s", "disk.mode=off",
                                    "memory.change=free 10%,available 5", "load.refresh=90s"};
    const struct config_flags flags = {.file = "/dev/null", .settings = settings,
                                       .n_settings = sizeof settings / sizeof *settings};
    struct agent_config *config;
    struct args_writer properties = {0};
    struct diag why = {0};
    if (config_load(&flags, &config, &why) < 0)
        fail_msg("%s", why.message);
    args_add_uint(&properties, "cpus", cpus);
    args_add_uint(&properties, "memory", memory);
    properties_propose(config, args_of(&properties), out);
    args_writer_fini(&properties);
    config_destroy(config);
}

static void test_proposal(void **state)
{
    struct args_writer out = {0};
    (void)state;
    propose(8, UINT64_C(16) << 30, &out);
    struct args all = args_of(&out);
    assert_slice(args_text(all, "vector.every"), "1s");
    assert_slice(args_text(all, "vector.refresh"), "1m");
    assert_slice(args_text(all, "cpu.every"), "1s");
    assert_slice(args_text(all, "load.refresh"), "90s");
    assert_slice(args_text(all, "memory.change"), "free 10%,available 5");
    assert_true(args_value(all, "disk.every").type == VALUE_NONE);
    args_writer_fini(&out);
}

static void test_small_hosts_are_slower(void **state)
{
    const struct {
        uint64_t cpus, memory;
    } small[] = {{1, UINT64_C(16) << 30}, {8, UINT64_C(512) << 20}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct args_writer out = {0};
        propose(small[i].cpus, small[i].memory, &out);
        assert_slice(args_text(args_of(&out), "vector.every"), "2s");
        assert_slice(args_text(args_of(&out), "cpu.every"), "1s"); /* somebody wants it like that */
        args_writer_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_this_host),
        cmocka_unit_test(test_proposal),
        cmocka_unit_test(test_small_hosts_are_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
