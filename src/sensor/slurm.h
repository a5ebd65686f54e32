/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.h - the sensor slurm: its rows and its state. The functions are in src/helper/slurm.c. */
#ifndef GRIDLINE_SENSOR_SLURM_H
#define GRIDLINE_SENSOR_SLURM_H

#include "base/arena.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "sensor/sensor.h"

enum {
    SLURM_JOBS_MAX = 65536, /* that squeue may list, and that are known at once */
    SLURM_PARTITIONS_MAX = 4096
};

enum { SLURM_JOB, SLURM_QUEUE }; /* the schemas job.state and queue */

/* The fields of job.state; those that the log filters (share/filters) also have bear the same names. */
enum slurm_job_field {
    SLURM_JOB_TARGET,
    SLURM_JOB_JOB,
    SLURM_JOB_ID,
    SLURM_JOB_STATE,
    SLURM_JOB_PREVIOUS,
    SLURM_JOB_USER,
    SLURM_JOB_ACCOUNT,
    SLURM_JOB_PARTITION,
    SLURM_JOB_NAME,
    SLURM_JOB_NODES,
    SLURM_JOB_NODE_COUNT,
    SLURM_JOB_CPUS,
    SLURM_JOB_SUBMIT,
    SLURM_JOB_START,
    SLURM_JOB_END,
    SLURM_JOB_EXIT,
    SLURM_JOB_SIGNAL,
    SLURM_JOB_REASON,
    SLURM_JOB_FIELDS
};

enum slurm_queue_field {
    SLURM_QUEUE_TARGET,
    SLURM_QUEUE_PARTITION,
    SLURM_QUEUE_PENDING,
    SLURM_QUEUE_RUNNING,
    SLURM_QUEUE_CPUS,
    SLURM_QUEUE_CPUS_ALLOCATED,
    SLURM_QUEUE_CPUS_IDLE,
    SLURM_QUEUE_CPUS_OTHER,
    SLURM_QUEUE_NODES,
    SLURM_QUEUE_NODES_ALLOCATED,
    SLURM_QUEUE_NODES_IDLE,
    SLURM_QUEUE_NODES_DOWN,
    SLURM_QUEUE_FIELDS
};

struct slurm_partition;

struct slurm {
    const char *squeue, *sinfo, *sacct, *scontrol, *cluster; /* options */
    int64_t timeout_ns;
    uint64_t max_bytes;

    struct strbuf target; /* the cluster's name; empty until it is known */
    struct map jobs;      /* id -> struct known, owned */
    uint64_t round;       /* of sample: jobs with an older one are no more in squeue's list */

    /* Of one sample. */
    struct sensor_out *out;
    struct diag *why;  /* of the reading */
    bool has_sent;     /* an event */
    size_t part_bytes; /* of events since the last part ended */
    struct arena arena;
    struct map partitions;                 /* name -> struct slurm_partition, in arena */
    struct slurm_partition *first, **last; /* the same in the order of sinfo's list */
};

int slurm_open(void *state, struct sensor_env *env, struct diag *why);
int slurm_sample(void *state, struct sensor_env *env, struct sensor_out *out);
void slurm_close(void *state);

#endif
