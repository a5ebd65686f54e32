/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.h - the commands of `gridline`, each at the bottom of its own file, listed in main.c. */
#ifndef GRIDLINE_CMD_VERBS_H
#define GRIDLINE_CMD_VERBS_H

#include "cmd/options.h"

extern const struct verb verb_access;
extern const struct verb verb_ack;
extern const struct verb verb_act;
extern const struct verb verb_activate;
extern const struct verb verb_agent;
extern const struct verb verb_archive;
extern const struct verb verb_audit;
extern const struct verb verb_baseline;
extern const struct verb verb_collect;
extern const struct verb verb_config;
extern const struct verb verb_convert;
extern const struct verb verb_demo;
extern const struct verb verb_doctor;
extern const struct verb verb_export;
extern const struct verb verb_faults;
extern const struct verb verb_gateway;
extern const struct verb verb_guard;
extern const struct verb verb_hosts;
extern const struct verb verb_import;
extern const struct verb verb_init;
extern const struct verb verb_join;
extern const struct verb verb_latest;
extern const struct verb verb_launch;
extern const struct verb verb_ledger;
extern const struct verb verb_log;
extern const struct verb verb_merge;
extern const struct verb verb_pinhole;
extern const struct verb verb_schema;
extern const struct verb verb_schemas;
extern const struct verb verb_rule;
extern const struct verb verb_run;
extern const struct verb verb_sense;
extern const struct verb verb_sensor;
extern const struct verb verb_sensors;
extern const struct verb verb_silence;
extern const struct verb verb_sql;
extern const struct verb verb_subscriptions;
extern const struct verb verb_summary;
extern const struct verb verb_tail;
extern const struct verb verb_token;
extern const struct verb verb_viewer;
extern const struct verb verb_worker;

#endif
