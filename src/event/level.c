/* SPDX-License-Identifier: Apache-2.0 */
#include "event/level.h"

#include "base/err.h"

static const struct {
    struct slice name, lower;
} levels[LEVEL_COUNT] = {
#define LEVEL(id, upper, low) [id] = {{upper, sizeof(upper) - 1}, {low, sizeof(low) - 1}}
    LEVEL(LEVEL_EMERGENCY, "Emergency", "emergency"),
    LEVEL(LEVEL_ALERT, "Alert", "alert"),
    LEVEL(LEVEL_CRITICAL, "Critical", "critical"),
    LEVEL(LEVEL_ERROR, "Error", "error"),
    LEVEL(LEVEL_WARNING, "Warning", "warning"),
    LEVEL(LEVEL_AUTH, "Auth", "auth"),
    LEVEL(LEVEL_SECURITY, "Security", "security"),
    LEVEL(LEVEL_IMPORTANT, "Important", "important"),
    LEVEL(LEVEL_NOTICE, "Notice", "notice"),
    LEVEL(LEVEL_SYSTEM, "System", "system"),
    LEVEL(LEVEL_USAGE, "Usage", "usage"),
    LEVEL(LEVEL_INFO, "Info", "info"),
    LEVEL(LEVEL_DEBUG, "Debug", "debug"),
    LEVEL(LEVEL_TRACE, "Trace", "trace"),
#undef LEVEL
};

static const struct {
    const char *word;
    uint8_t level;
} synonyms[] = {
    {"fatal", LEVEL_EMERGENCY}, {"panic", LEVEL_EMERGENCY}, {"crit", LEVEL_CRITICAL},    {"err", LEVEL_ERROR},
    {"warn", LEVEL_WARNING},    {"information", LEVEL_INFO}, {"informational", LEVEL_INFO},
};

struct slice level_name(uint8_t level)
{
    return levels[level < LEVEL_COUNT ? level : LEVEL_INFO].name;
}

struct slice level_lower(uint8_t level)
{
    return levels[level < LEVEL_COUNT ? level : LEVEL_INFO].lower;
}

int level_parse(struct slice s, uint8_t *out)
{
    for (uint8_t i = 0; i < LEVEL_COUNT; i++) {
        if (slice_eq_nocase(s, levels[i].lower)) {
            *out = i;
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        if (slice_eq_nocase(s, slice_str(synonyms[i].word))) {
            *out = synonyms[i].level;
            return 0;
        }
    }
    return E_NODATA;
}
