/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - a helper sensor for tests, as the agent (remote_test.c) and the helper (probe_helper.c) both know
 * it. */
#ifndef GRIDLINE_TESTS_PROBE_H
#define GRIDLINE_TESTS_PROBE_H

#include "sensor/sensor.h"

struct probe {
    const char *act;
    struct parameter_list words;
    int64_t n;
    uint64_t count; /* goes on from the position */
    int pipe[2];
    bool is_open;
};

static const struct field probe_fields[] = {
    KEY("act", "what it does"),
    FIELD("count", UINT, COUNTER, "", "samples"),
    FIELD("words", TEXT, TEXT, "", "of the option"),
    FIELD("missing", FLOAT, GAUGE, "s", "never there"),
};

static const struct sensor_schema probe_schemas[] = {SCHEMA("probe", probe_fields), {0}};

static const struct parameter probe_options[] = {
    {SETTING_STRING, "act", "count", offsetof(struct probe, act), "what to do", false, false},
    {SETTING_LIST, "words", "a b", offsetof(struct probe, words), "some words", false, false},
    {SETTING_INT, "n", "1", offsetof(struct probe, n), "how often", false, false},
    {0},
};

static const struct sensor_ops probe_ops = {
    .name = "probe",
    .summary = "for tests",
    .schemas = probe_schemas,
    .options = probe_options,
    .every = "1s",
    .is_helper = true,
    .state_size = sizeof(struct probe),
};

#endif
