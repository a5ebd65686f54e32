/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobs.h"

#include "base/bucket.h"
#include "base/mem.h"

/* Names and states are those of the sensor slurm: one table has the jobs of both. */
static const struct field job_fields[] = {
    KEY("job", "its id, as the launcher was told"),
    FIELD("id", TEXT, TEXT, "", "the same, for lifelines"),
    FIELD("state", TEXT, STATE, "", "`RUNNING`; `COMPLETED`, or `FAILED`: its exit code was not 0, or a signal ended it"),
    FIELD("exit", UINT, STATE, "", "exit code, when it has ended by itself"),
    FIELD("signal", UINT, STATE, "", "that ended it; 0: none"),
    FIELD("duration", FLOAT, GAUGE, "s", "how long it ran"),
    FIELD("overhead", FLOAT, GAUGE, "s", "how long the launcher held it up before it began"),
    FIELD("uid", UINT, STATE, "", "whose process told so"),
};
static const struct field view_fields[] = {
    FIELD("id", TEXT, TEXT, "", "the job's"),
    FIELD("uid", UINT, STATE, "", "whose process told so"),
    FIELD("sandbox_memory", UINT, GAUGE, "bytes", "memory of the machine, as seen in the job's sandbox"),
    FIELD("host_memory", UINT, GAUGE, "bytes", "as it is, seen by the agent"),
    FIELD("sandbox_memory_limit", UINT, GAUGE, "bytes", "the job may use that much; none: no limit"),
    FIELD("sandbox_processes", UINT, GAUGE, "", "as seen in the sandbox"),
    FIELD("host_processes", UINT, GAUGE, "", "as they are"),
    FIELD("sandbox_mounts", UINT, GAUGE, "", "as seen in the sandbox"),
    FIELD("host_mounts", UINT, GAUGE, "", "as they are"),
    FIELD("sandbox_cpus", UINT, GAUGE, "", "that the job may run on"),
    FIELD("host_cpus", UINT, GAUGE, "", "that the agent may run on"),
};
enum { JOB_FIELDS = sizeof job_fields / sizeof *job_fields, VIEW_FIELDS = sizeof view_fields / sizeof *view_fields };

struct jobs {
    struct flow *flow;
    struct schema *state, *view;
    struct bucket limit;
};

struct jobs *jobs_create(struct flow *flow)
{
    struct jobs *j = mem_alloc(sizeof *j);
    *j = (struct jobs){.flow = flow, .limit = bucket_of(JOBS_BURST, NS_PER_S / JOBS_PER_S)};
    if (schema_create(SLICE_LIT("job.state"), job_fields, JOB_FIELDS, &j->state) < 0 ||
        schema_create(SLICE_LIT("sandbox.view"), view_fields, VIEW_FIELDS, &j->view) < 0) {
        jobs_destroy(j);
        return NULL;
    }
    return j;
}

void jobs_destroy(struct jobs *j)
{
    if (!j)
        return;
    schema_unref(j->state);
    schema_unref(j->view);
    mem_free(j);
}

static struct value seconds(uint64_t ns)
{
    return value_float((double)ns / (double)NS_PER_S);
}

/* Nothing is never 0. */
static struct value seen(uint64_t v)
{
    return v ? value_uint(v) : value_none();
}

static void tell_state(struct jobs *j, const struct launch_request *r)
{
    bool has_ended = r->kind == LAUNCH_ENDED, is_well = has_ended && !r->is_signal && r->code == 0;
    const char *state = !has_ended ? "RUNNING" : is_well ? "COMPLETED" : "FAILED";
    struct value id = value_text(slice_str(r->id));
    const struct value row[JOB_FIELDS] = {
        id,
        id,
        value_text(slice_str(state)),
        has_ended && !r->is_signal ? value_uint(r->code) : value_none(),
        has_ended ? value_uint(r->is_signal ? r->code : 0) : value_none(),
        has_ended ? seconds(r->duration_ns) : value_none(),
        seconds(r->overhead_ns),
        value_uint(r->uid),
    };
    flow_known(j->flow, j->state, clock_utc_ns(), LEVEL_INFO, row);
}

static void tell_view(struct jobs *j, const struct launch_request *r)
{
    struct machine_view host;
    machine_view(&host);
    const struct value row[VIEW_FIELDS] = {
        value_text(slice_str(r->id)),  value_uint(r->uid),         seen(r->view.memory),    seen(host.memory),
        seen(r->view.memory_limit),    seen(r->view.processes),    seen(host.processes),    seen(r->view.mounts),
        seen(host.mounts),             seen(r->view.cpus),         seen(host.cpus),
    };
    flow_known(j->flow, j->view, clock_utc_ns(), LEVEL_INFO, row);
}

bool jobs_take(struct jobs *j, const struct launch_request *r, int64_t now_ns)
{
    if (!bucket_take(&j->limit, now_ns))
        return false;
    if (r->kind == LAUNCH_VIEW)
        tell_view(j, r);
    else
        tell_state(j, r);
    return true;
}
