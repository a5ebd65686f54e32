/* SPDX-License-Identifier: Apache-2.0 */
/* How much tasks wait for processors, memory, disks and interrupts, from /proc/pressure: a row each. The averages are
 * the kernel's; the totals are exact, so that any interval can be computed from them. */
#include "sensor/psi.h"
#include "sensor/sensor.h"

#include <errno.h>

static const struct field pressure_fields[] = {
    KEY("resource", "`cpu`, `memory`, `io` or `irq`"),
    FIELD("some_avg10", FLOAT, GAUGE, "%", "of 10 s, a task waited"),
    FIELD("some_avg60", FLOAT, GAUGE, "%", "of 60 s, a task waited"),
    FIELD("some_avg300", FLOAT, GAUGE, "%", "of 300 s, a task waited"),
    FIELD("some_total", UINT, COUNTER, "us", "time in which a task waited"),
    FIELD("full_avg10", FLOAT, GAUGE, "%", "of 10 s, all tasks waited"),
    FIELD("full_avg60", FLOAT, GAUGE, "%", "of 60 s, all tasks waited"),
    FIELD("full_avg300", FLOAT, GAUGE, "%", "of 300 s, all tasks waited"),
    FIELD("full_total", UINT, COUNTER, "us", "time in which all tasks waited"),
};
_Static_assert(sizeof pressure_fields / sizeof *pressure_fields == 1 + PSI_VALUES, "the key and what psi_take gives");

static const struct sensor_schema pressure_schemas[] = {
    SCHEMA("pressure", pressure_fields),
    {0},
};

static const struct {
    const char *name, *path;
} resources[] = {
    {"cpu", "/proc/pressure/cpu"},
    {"memory", "/proc/pressure/memory"},
    {"io", "/proc/pressure/io"},
    {"irq", "/proc/pressure/irq"}, /* Linux 6.1 and later, where the kernel counts its time */
};
enum { N_RESOURCES = sizeof resources / sizeof *resources };

struct pressure {
    struct sensor_env *env;
    struct source *sources[N_RESOURCES];
};

static int pressure_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct pressure *p = state;
    (void)why; /* can't fail */
    p->env = env;
    for (size_t i = 0; i < N_RESOURCES; i++)
        p->sources[i] = env_source(env, resources[i].path);
    return 0;
}

static int pressure_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct pressure *p = state;
    struct slice text;
    size_t n_read = 0;
    int first = E_NODATA;
    for (size_t i = 0; i < N_RESOURCES; i++) {
        struct value row[1 + PSI_VALUES] = {value_text(slice_str(resources[i].name))};
        int r = source_read(env, p->sources[i], &text);
        if (r < 0) {
            first = i == 0 ? r : first;
            continue;
        }
        n_read++;
        psi_take(text, row + 1);
        sensor_row(out, 0, row);
    }
    if (n_read > 0)
        return 0;
    if (first == -EOPNOTSUPP) /* booted with psi=0 */
        first = E_NODATA;
    return diag_set(out->why, first, 0, "/proc/pressure: %s", err_text(first));
}

static void pressure_close(void *state)
{
    struct pressure *p = state;
    for (size_t i = 0; p->env && i < N_RESOURCES; i++)
        source_close(p->env, p->sources[i]);
}

const struct sensor_ops sensor_pressure = {
    .name = "pressure",
    .summary = "waiting for processors, memory and disks",
    .schemas = pressure_schemas,
    .every = "1s",
    .refresh = "60s",
    .priority = 4,
    .is_default = true,
    .state_size = sizeof(struct pressure),
    .open = pressure_open,
    .sample = pressure_sample,
    .close = pressure_close,
};
