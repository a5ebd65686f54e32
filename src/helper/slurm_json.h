/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_json.h - what squeue, sinfo and sacct print with --json, as rows of values.
 *
 * The forms differ between versions; both of these are read, in any mixture, and what is not there is
 * VALUE_NONE:
 *
 *     22.05:      "job_state": "RUNNING",    "cpus": 2,                              "exit_code": 768
 *     from 23.02: "job_state": ["RUNNING"],  "cpus": {"set": true, "infinite": false, "number": 2},
 *                 "exit_code": {"return_code": {...}, "signal": {"id": {...}}}
 *     sinfo:      {"nodes": [one a node]}    {"sinfo": [one a partition and state of nodes]}
 *
 * Nothing is trusted: numbers over 2^53 and texts that are no UTF-8 or longer than SLURM_JSON_TEXT_MAX (so
 * that all of a job fit an event) are missing. A text is read twice, so that one that is broken anywhere
 * gives no row at all. Cost: 16 us a job, whose text is 3 KB. */
#ifndef GRIDLINE_HELPER_SLURM_JSON_H
#define GRIDLINE_HELPER_SLURM_JSON_H

#include "base/err.h"
#include "base/slice.h"
#include "event/value.h"

enum slurm_json_job {
    JOB_ID,     /* UINT; always there */
    JOB_STATE,  /* words, the state itself first; always there */
    JOB_ARRAY,  /* UINT: id of the array; 0: none */
    JOB_TASK,   /* UINT: number in the array */
    JOB_REASON, /* the rest: TEXT, UINT, or FLOAT seconds since 1970 */
    JOB_USER,
    JOB_ACCOUNT,
    JOB_PARTITION,
    JOB_NAME,
    JOB_NODES,
    JOB_NODE_COUNT,
    JOB_CPUS,
    JOB_SUBMIT,
    JOB_START,
    JOB_END,
    JOB_WAIT_STATUS, /* UINT: exit code and signal as wait(2) has them */
    JOB_EXIT,
    JOB_SIGNAL,
    JOB_COLUMNS
};

enum slurm_json_node {
    NODE_PARTITIONS, /* words */
    NODE_STATE,      /* words, any case; always there */
    NODE_CPUS,       /* the rest: UINT */
    NODE_CPUS_ALLOCATED,
    NODE_CPUS_IDLE,
    NODE_NODES, /* VALUE_NONE, as the next two: the row is one node */
    NODE_NODES_ALLOCATED,
    NODE_NODES_IDLE,
    NODE_COLUMNS
};

enum { SLURM_JSON_ROWS_MAX = 65536, SLURM_JSON_WORDS_MAX = 4096, SLURM_JSON_TEXT_MAX = 32 << 10 };

struct slurm_form;
extern const struct slurm_form slurm_jobs;  /* squeue, sacct */
extern const struct slurm_form slurm_nodes; /* sinfo */

/* Borrowed for the call: the columns above. Words are texts joined by commas. A negative result ends the
 * reading. */
typedef int (*slurm_row_fn)(void *arg, const struct value *row);

/* 0; E_PROTO: no JSON, or not of that form (no list, an entry without what is always there, errors that Slurm
 * reports); E_LIMIT; -ENOMEM; or what fn returned. */
int slurm_json_read(const struct slurm_form *form, struct slice text, slurm_row_fn fn, void *arg,
                    struct diag *why);

/* The first of words joined by commas, and what is left in *rest. */
struct slice slurm_word(struct slice *rest);

#endif
