/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a log and makes events of its lines. Only the table is here: the sensor runs in gridline-helper, so
 * that PCRE2 stays out of the agent (src/helper/logfile.c). */
#include "sensor/logfile.h"

#include "sensor/sensor.h"

static const struct field reading_fields[] = {
    KEY("file", "the log's path"),
    FIELD("lines", UINT, COUNTER, "", "lines read since the sensor was opened"),
    FIELD("bytes", UINT, COUNTER, "bytes", "bytes of them"),
    FIELD("events", UINT, COUNTER, "", "events made of them"),
    FIELD("skipped", UINT, COUNTER, "", "records that the filter wants to pass over"),
    FIELD("unmatched", UINT, COUNTER, "", "records that no rule of the filter matches"),
    FIELD("trimmed", UINT, COUNTER, "", "events that lost a field over a limit of the model"),
    FIELD("refused", UINT, COUNTER, "", "events over the limits of the model"),
    FIELD("gave_up", UINT, COUNTER, "", "matches that took too many steps"),
    FIELD("bad_values", UINT, COUNTER, "", "times, numbers and levels that are none"),
    FIELD("cut", UINT, COUNTER, "", "lines and records that were too long"),
    FIELD("evicted", UINT, COUNTER, "", "entries that the filter had no room to remember"),
    FIELD("unpaired", UINT, COUNTER, "", "records whose earlier part the filter does not know"),
    FIELD("rotations", UINT, COUNTER, "", "times the log was rotated"),
    FIELD("truncations", UINT, COUNTER, "", "times it was truncated"),
    FIELD("gaps", UINT, COUNTER, "", "times a part of it was lost"),
    FIELD("lost", UINT, COUNTER, "bytes", "bytes in those gaps whose size is known"),
    FIELD("backlog", UINT, GAUGE, "bytes", "bytes not yet read"),
};

static const struct field gap_fields[] = {
    KEY("file", "the log's path"),
    FIELD("reason", TEXT, TEXT, "", "why a part of the log can't be read"),
    FIELD("lost", UINT, GAUGE, "bytes", "its size; missing where nobody knows"),
};

static const struct sensor_schema logfile_schemas[] = {
    [LOGFILE_READING] = SCHEMA("logfile", reading_fields),
    [LOGFILE_GAP] = SCHEMA_EVENT("logfile.gap", gap_fields, LEVEL_WARNING),
    {0},
};

#define AT(member) offsetof(struct logfile, member)
static const struct parameter logfile_options[] = {
    {SETTING_STRING, "path", NULL, AT(path), "the log file", true, true},
    {SETTING_STRING, "filter", NULL, AT(filter),
     "what makes events of lines: a filter's name or file; without one each line is an event", true, false},
    {SETTING_STRING, "event", "log.line", AT(event), "name of each line's event without a filter", false,
     false},
    {SETTING_STRING, "from", "end", AT(from), "where to begin the first time: `start` or `end`", false, false},
    {SETTING_STRING, "zone", NULL, AT(zone),
     "zone of times that have none, in place of the filter's: `local`, `utc`, `+02:00`, `Europe/Berlin`", false, false},
    {SETTING_DURATION, "grace", "2s", AT(grace_ns),
     "a rotated file must not grow for so long before the next is read", false, false},
    {0},
};

const struct sensor_ops sensor_logfile = {
    .name = "logfile",
    .summary = "events from the lines of a log, through rotation and restarts",
    .schemas = logfile_schemas,
    .options = logfile_options,
    .every = "1s",
    .refresh = "60s",
    .priority = 4,
    .is_multi = true,
    .is_helper = true,
    .state_size = sizeof(struct logfile),
};
