/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm asked directly: the jobs' changes of state, and how full the partitions are. Runs in gridline-helper:
 * src/helper/slurm.c has the functions. */
#include "sensor/slurm.h"

static const struct field job_fields[] = {
    [SLURM_JOB_TARGET] = KEY("target", "the cluster's name"),
    [SLURM_JOB_JOB] = KEY("job", "as users write it: `12`, or `12_3` for a task of an array"),
    [SLURM_JOB_ID] =
        FIELD("id", TEXT, TEXT, "", "Slurm's number of the job; each task of an array has its own"),
    [SLURM_JOB_STATE] = FIELD("state", TEXT, STATE, "",
                              "`PENDING`, `RUNNING`, `COMPLETED`, `FAILED`, ... as Slurm says; "
                              "`GONE`: no more known to Slurm, and nobody can tell how it ended"),
    [SLURM_JOB_PREVIOUS] = FIELD("previous", TEXT, STATE, "",
                                 "the state before; none when the job is first seen, and so for "
                                 "all jobs when the sensor is started"),
    [SLURM_JOB_USER] = FIELD("user", TEXT, TEXT, "", "whose job it is"),
    [SLURM_JOB_ACCOUNT] = FIELD("account", TEXT, TEXT, "", "that pays for it"),
    [SLURM_JOB_PARTITION] = FIELD("partition", TEXT, TEXT, "", "where it waits or runs; several with commas"),
    [SLURM_JOB_NAME] = FIELD("job_name", TEXT, TEXT, "", "what the user calls it"),
    [SLURM_JOB_NODES] = FIELD("nodes", TEXT, TEXT, "", "that it has: `n[1-3]`"),
    [SLURM_JOB_NODE_COUNT] = FIELD("node_count", UINT, GAUGE, "", "nodes that it has or wants"),
    [SLURM_JOB_CPUS] = FIELD("cpus", UINT, GAUGE, "", "that it has or wants"),
    [SLURM_JOB_SUBMIT] = FIELD("submit_time", FLOAT, GAUGE, "s", "when it was submitted, since 1970"),
    [SLURM_JOB_START] = FIELD("start_time", FLOAT, GAUGE, "s", "when it started, since 1970"),
    [SLURM_JOB_END] = FIELD("end_time", FLOAT, GAUGE, "s", "when it ended, since 1970"),
    [SLURM_JOB_EXIT] = FIELD("exit", UINT, STATE, "", "exit code, when it has ended"),
    [SLURM_JOB_SIGNAL] = FIELD("signal", UINT, STATE, "", "that killed it; 0: none"),
    [SLURM_JOB_REASON] = FIELD("reason", TEXT, STATE, "", "why it waits or has ended, as Slurm says"),
};
_Static_assert(sizeof job_fields / sizeof *job_fields == SLURM_JOB_FIELDS, "one for each");

static const struct field queue_fields[] = {
    [SLURM_QUEUE_TARGET] = KEY("target", "the cluster's name"),
    [SLURM_QUEUE_PARTITION] = KEY("partition", "its name"),
    [SLURM_QUEUE_PENDING] = FIELD("pending", UINT, GAUGE, "",
                                  "jobs that wait; an array's waiting tasks are one, a job for "
                                  "several partitions counts in each"),
    [SLURM_QUEUE_RUNNING] = FIELD("running", UINT, GAUGE, "", "jobs that run"),
    [SLURM_QUEUE_CPUS] = FIELD("cpus", UINT, GAUGE, "", "of all nodes"),
    [SLURM_QUEUE_CPUS_ALLOCATED] = FIELD("cpus_allocated", UINT, GAUGE, "", "that jobs have"),
    [SLURM_QUEUE_CPUS_IDLE] = FIELD("cpus_idle", UINT, GAUGE, "", "that can be had"),
    [SLURM_QUEUE_CPUS_OTHER] =
        FIELD("cpus_other", UINT, GAUGE, "", "neither: of nodes that are down or drained"),
    [SLURM_QUEUE_NODES] = FIELD("nodes", UINT, GAUGE, "", "in the partition"),
    [SLURM_QUEUE_NODES_ALLOCATED] = FIELD("nodes_allocated", UINT, GAUGE, "", "on which jobs run"),
    [SLURM_QUEUE_NODES_IDLE] = FIELD("nodes_idle", UINT, GAUGE, "", "that can be had"),
    [SLURM_QUEUE_NODES_DOWN] =
        FIELD("nodes_down", UINT, GAUGE, "", "that are down, drained, failed or do not answer"),
};
_Static_assert(sizeof queue_fields / sizeof *queue_fields == SLURM_QUEUE_FIELDS, "one for each");

static const struct sensor_schema slurm_schemas[] = {
    [SLURM_JOB] = SCHEMA_EVENT("job.state", job_fields, LEVEL_INFO),
    [SLURM_QUEUE] = SCHEMA("queue", queue_fields),
    {0},
};

static const struct parameter slurm_options[] = {
    {SETTING_STRING, "squeue", "squeue", offsetof(struct slurm, squeue), "the program that lists jobs", true,
     false},
    {SETTING_STRING, "sinfo", "sinfo", offsetof(struct slurm, sinfo),
     "the program that lists nodes and partitions; empty: not used", true, false},
    {SETTING_STRING, "sacct", "sacct", offsetof(struct slurm, sacct),
     "the program that knows jobs that `squeue` has forgotten; empty: not used", true, false},
    {SETTING_STRING, "scontrol", "scontrol", offsetof(struct slurm, scontrol),
     "the program that knows the cluster's name; not used if `cluster` is given", true, false},
    {SETTING_STRING, "cluster", NULL, offsetof(struct slurm, cluster), "the name to use for the cluster",
     false, false},
    {SETTING_DURATION, "timeout", "10s", offsetof(struct slurm, timeout_ns),
     "how long Slurm may take to answer, all programs together", false, false},
    {SETTING_SIZE, "max_bytes", "256MiB", offsetof(struct slurm, max_bytes),
     "that one program may print; `squeue` needs about 3500 for each job", false, false},
    {0},
};

const struct sensor_ops sensor_slurm = {
    .name = "slurm",
    .summary = "jobs and partitions of a Slurm cluster",
    .schemas = slurm_schemas,
    .options = slurm_options,
    .every = "10s",
    .refresh = "5m",
    .priority = 6,
    .is_helper = true,
    .state_size = sizeof(struct slurm),
};
