/* SPDX-License-Identifier: Apache-2.0 */
/* With programs that print what a test puts in their place: real answers of Slurm, and what never should
 * come. The real thing is tests/flow/slurm_test.py. */
#include "unit/test.h"

#include "base/mem.h"
#include "base/child.h"
#include "sensor/scan.h"
#include "sensor/slurm.h"
#include "unit/sensor/tree.h"

#define SLURM GRIDLINE_SOURCE "/tests/fixtures/slurm/"

struct run {
    struct sensor_out out; /* first */
    struct sensor_env env;
    struct tree tree;
    struct slurm *state;
    struct strbuf text;
    size_t marks;
    struct diag why;
    char squeue[TREE_PATH_MAX], sinfo[TREE_PATH_MAX], sacct[TREE_PATH_MAX], scontrol[TREE_PATH_MAX];
};

static void on_mark(struct sensor_out *out, struct slice position)
{
    struct run *r = (struct run *)out;
    assert_true(position.n > 0);
    r->marks++;
}

static void on_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                   const struct value *values)
{
    struct run *r = (struct run *)out;
    const struct sensor_schema *d = &sensor_find(SLICE_LIT("slurm"))->schemas[schema];
    (void)time_ns; /* not compared */
    strbuf_add_str(&r->text, d->name);
    if (level == LEVEL_WARNING)
        strbuf_add_str(&r->text, "!");
    for (size_t i = 0; i < d->n_fields; i++) {
        assert_true(values[i].type == VALUE_NONE || values[i].type == d->fields[i].type);
        sense_add_value(&r->text, d->fields[i].name, values[i]);
    }
    strbuf_add_char(&r->text, '\n');
}

/* The program prints that and ends with the code. */
static void says_text(struct run *r, const char *program, const char *text, int code)
{
    char script[256], path[TREE_PATH_MAX], full[TREE_PATH_MAX];
    (void)snprintf(path, sizeof path, "/%s.out", program);
    tree_put(&r->tree, path, text);
    (void)snprintf(script, sizeof script, "#!/bin/sh\necho \"$@\" >>%s/%s.args\ncat %s/%s.out\n%sexit %d\n",
                   r->tree.root, program, r->tree.root, program, code ? "echo it broke >&2\n" : "", code);
    (void)snprintf(path, sizeof path, "/%s", program);
    tree_put(&r->tree, path, script);
    (void)snprintf(full, sizeof full, "%s%s", r->tree.root, path);
    assert_int_equal(chmod(full, 0700), 0);
}

static void says_file(struct run *r, const char *program, const char *file)
{
    struct strbuf text = {0};
    struct sensor_env env;
    env_init(&env, "");
    assert_int_equal(env_read_file(&env, file, &text), 0);
    says_text(r, program, text.p, 0);
    strbuf_fini(&text);
    env_fini(&env);
}

static void run_open(struct run *r)
{
    *r = (struct run){.out = {.row = on_row, .mark = on_mark}};
    env_init(&r->env, "");
    tree_make(&r->tree, NULL);
    r->out.why = &r->why;
    r->state = mem_alloc(sizeof *r->state);
    (void)snprintf(r->squeue, sizeof r->squeue, "%s/squeue", r->tree.root);
    (void)snprintf(r->sinfo, sizeof r->sinfo, "%s/sinfo", r->tree.root);
    (void)snprintf(r->sacct, sizeof r->sacct, "%s/sacct", r->tree.root);
    (void)snprintf(r->scontrol, sizeof r->scontrol, "%s/scontrol", r->tree.root);
    r->state->squeue = r->squeue;
    r->state->sinfo = r->sinfo;
    r->state->sacct = r->sacct;
    r->state->scontrol = r->scontrol;
    r->state->timeout_ns = INT64_C(60) * 1000 * 1000 * 1000;
    r->state->max_bytes = 1 << 20;
    says_text(r, "scontrol",
              "Configuration data as of now\nClusterNamed            = no\nClusterName             = lab\n",
              0);
    says_file(r, "squeue", SLURM "squeue-22.05.json");
    says_file(r, "sinfo", SLURM "sinfo-22.05.json");
    says_text(r, "sacct", "", 1);
    assert_int_equal(slurm_open(r->state, &r->env, &r->why), 0);
}

static int run_sample(struct run *r)
{
    strbuf_reset(&r->text);
    strbuf_add_str(&r->text, "");
    r->why = (struct diag){0};
    return slurm_sample(r->state, &r->env, &r->out);
}

static void run_close(struct run *r)
{
    slurm_close(r->state);
    mem_free(r->state);
    (void)child_settle(CHILD_GRACE);
    strbuf_fini(&r->text);
    tree_remove(&r->tree);
    env_fini(&r->env);
}

#define QUEUE_LAB                                                                                       \
    "queue target=\"lab\" partition=\"debug\" pending=4 running=1 cpus=2 cpus_allocated=1 cpus_idle=1 " \
    "cpus_other=0 nodes=1 "                                                                             \
    "nodes_allocated=1 nodes_idle=0 nodes_down=0\n"

static size_t lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void first_sight(void **state)
{
    (void)state;
    struct run r;
    run_open(&r);
    assert_int_equal(run_sample(&r), 0);
    assert_int_equal(lines(r.text.p), 13);
    assert_non_null(strstr(
        r.text.p, "job.state! target=\"lab\" job=\"2\" id=\"2\" state=\"FAILED\" user=\"root\" "
                  "partition=\"debug\" job_name=\"bad\" nodes=\"vm\" node_count=1 cpus=1 "
                  "submit_time=1794794027.0 start_time=1794794031.0 end_time=1794794031.0 exit=3 signal=0 "
                  "reason=\"NonZeroExitCode\"\n"));
    assert_non_null(strstr(r.text.p, " id=\"3\" state=\"FAILED\""));
    assert_non_null(strstr(r.text.p, " exit=0 signal=9 "));
    assert_non_null(strstr(r.text.p, " job=\"10_1\" id=\"12\" state=\"RUNNING\" "));
    assert_non_null(
        strstr(r.text.p,
               " job=\"11\" id=\"11\" state=\"PENDING\" user=\"root\" partition=\"debug\" job_name=\"arr3\" "
               "node_count=1 cpus=1 submit_time=1794794247.0 reason=\"Priority\"\n"));
    assert_non_null(strstr(r.text.p, QUEUE_LAB));
    assert_int_equal(run_sample(&r), 0); /* nothing has changed */
    assert_string_equal(r.text.p, QUEUE_LAB);
    run_close(&r);
}

static void newer_form(void **state)
{
    (void)state;
    struct run r;
    run_open(&r);
    r.state->cluster = "grid"; /* then scontrol is not asked */
    says_text(&r, "scontrol", "", 1);
    says_file(&r, "squeue", SLURM "squeue-24.11.json");
    says_file(&r, "sinfo", SLURM "sinfo-24.11.json");
    assert_int_equal(run_sample(&r), 0);
    assert_string_equal(r.text.p, "job.state target=\"grid\" job=\"525\" id=\"525\" state=\"RUNNING\" "
                                  "user=\"ada\" account=\"physics\" partition=\"gpu\" "
                                  "job_name=\"m\u00fcon \"4\"\" nodes=\"n[1-2]\" node_count=2 cpus=8 "
                                  "submit_time=1755290340.0 start_time=1755290346.0 "
                                  "reason=\"None\"\n"
                                  "job.state! target=\"grid\" job=\"526_7\" id=\"527\" state=\"FAILED\" "
                                  "user=\"bob\" account=\"physics\" partition=\"cpu\" "
                                  "job_name=\"task\" nodes=\"n3\" node_count=1 submit_time=1755290350.0 "
                                  "start_time=1755290400.0 end_time=1755290500.0 "
                                  "signal=9 reason=\"RaisedSignal:9(Killed)\"\n"
                                  "job.state target=\"grid\" job=\"526\" id=\"526\" state=\"PENDING\" "
                                  "user=\"bob\" partition=\"cpu,gpu\" job_name=\"task\" "
                                  "submit_time=1755290350.0 reason=\"Resources\"\n"
                                  "queue target=\"grid\" partition=\"gpu\" pending=1 running=1 cpus=64 "
                                  "cpus_allocated=10 cpus_idle=54 cpus_other=0 "
                                  "nodes=2 nodes_allocated=2 nodes_idle=0 nodes_down=0\n"
                                  "queue target=\"grid\" partition=\"cpu\" pending=1 running=0 cpus=128 "
                                  "cpus_allocated=0 cpus_idle=96 cpus_other=32 "
                                  "nodes=4 nodes_allocated=0 nodes_idle=3 nodes_down=1\n");
    run_close(&r);
}

#define JOBS(list)     "{\"jobs\": [" list "]}"
#define JOB(id, state) "{\"job_id\": " #id ", \"job_state\": \"" state "\", \"name\": \"j\"}"

static void changes(void **state)
{
    (void)state;
    struct run r;
    run_open(&r);
    r.state->sinfo = "";
    says_text(&r, "squeue", JOBS(JOB(1, "PENDING")), 0);
    assert_int_equal(run_sample(&r), 0);
    assert_string_equal(r.text.p,
                        "job.state target=\"lab\" job=\"1\" id=\"1\" state=\"PENDING\" job_name=\"j\"\n");
    says_text(&r, "squeue", JOBS(JOB(1, "RUNNING") "," JOB(2, "PENDING")), 0);
    assert_int_equal(run_sample(&r), 0);
    assert_string_equal(
        r.text.p,
        "job.state target=\"lab\" job=\"1\" id=\"1\" state=\"RUNNING\" previous=\"PENDING\" job_name=\"j\"\n"
        "job.state target=\"lab\" job=\"2\" id=\"2\" state=\"PENDING\" job_name=\"j\"\n");
    says_text(&r, "squeue", JOBS(JOB(1, "COMPLETED") "," JOB(2, "CANCELLED")), 0);
    assert_int_equal(run_sample(&r), 0);
    assert_string_equal(r.text.p, "job.state target=\"lab\" job=\"1\" id=\"1\" state=\"COMPLETED\" "
                                  "previous=\"RUNNING\" job_name=\"j\"\n"
                                  "job.state target=\"lab\" job=\"2\" id=\"2\" state=\"CANCELLED\" "
                                  "previous=\"PENDING\" job_name=\"j\"\n");
    says_text(&r, "squeue", JOBS(""), 0); /* ended ones are forgotten, silently */
    assert_int_equal(run_sample(&r), 0);
    assert_string_equal(r.text.p, "");
    assert_int_equal(r.state->jobs.n, 0);
    run_close(&r);
}

/* Those that vanish without an end: sacct knows one, still has one as waiting, and knows nothing of the
 * third. */
static void vanished(void **state)
{
    (void)state;
    struct run r;
    run_open(&r);
    r.state->sinfo = "";
    says_text(&r, "squeue",
              JOBS(JOB(6, "RUNNING") "," JOB(7, "PENDING") "," JOB(8, "RUNNING") "," JOB(99, "RUNNING")), 0);
    assert_int_equal(run_sample(&r), 0);
    says_text(&r, "squeue", JOBS(JOB(99, "RUNNING")), 0);
    says_file(&r, "sacct", SLURM "sacct-22.05.json");
    assert_int_equal(run_sample(&r), 0);
    assert_string_equal(
        r.text.p,
        "job.state! target=\"lab\" job=\"6\" id=\"6\" state=\"FAILED\" previous=\"RUNNING\" user=\"root\" "
        "account=\"physics\" partition=\"debug\" job_name=\"waits\" nodes=\"vm\" node_count=1 "
        "submit_time=1794794027.0 start_time=1794794496.0 end_time=1794794500.0 exit=7 "
        "reason=\"NonZeroExitCode\"\n");
    assert_int_equal(run_sample(&r), 0); /* slurmdbd may lag */
    assert_string_equal(r.text.p, "");
    says_text(&r, "squeue", JOBS(JOB(99, "RUNNING") "," JOB(7, "RUNNING")), 0); /* back again */
    assert_int_equal(run_sample(&r), 0);
    assert_string_equal(
        r.text.p,
        "job.state target=\"lab\" job=\"7\" id=\"7\" state=\"RUNNING\" previous=\"PENDING\" job_name=\"j\"\n"
        "job.state! target=\"lab\" job=\"8\" id=\"8\" state=\"GONE\" previous=\"RUNNING\" job_name=\"j\"\n");
    assert_int_equal(r.state->jobs.n, 2);
    run_close(&r);
}

static void no_accounting(void **state)
{
    (void)state;
    struct run r;
    run_open(&r);
    r.state->sinfo = "";
    says_text(&r, "squeue", JOBS(JOB(1, "RUNNING")), 0);
    assert_int_equal(run_sample(&r), 0);
    says_text(&r, "squeue", JOBS(""), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_sample(&r), 0);
        assert_string_equal(r.text.p, "");
    }
    assert_int_equal(run_sample(&r), 0);
    assert_non_null(
        strstr(r.text.p, " id=\"1\" state=\"GONE\" previous=\"RUNNING\" job_name=\"j\" reason=\""));
    assert_non_null(strstr(r.text.p, "it broke"));
    says_text(&r, "squeue", JOBS(JOB(2, "RUNNING")), 0);
    assert_int_equal(run_sample(&r), 0);
    says_text(&r, "squeue", JOBS(""), 0);
    r.state->sacct = "";
    assert_int_equal(run_sample(&r), 0); /* nobody to ask: at once */
    assert_string_equal(
        r.text.p,
        "job.state! target=\"lab\" job=\"2\" id=\"2\" state=\"GONE\" previous=\"RUNNING\" job_name=\"j\"\n");
    run_close(&r);
}

/* Nothing is sent and nothing forgotten. */
static void expect_failure(struct run *r, int code, const char *why)
{
    assert_int_equal(run_sample(r), code);
    assert_string_equal(r->text.p, "");
    assert_non_null(strstr(r->why.message, why));
    assert_int_equal(r->state->jobs.n, 12);
}

static void failures(void **state)
{
    (void)state;
    struct run r;
    run_open(&r);
    assert_int_equal(run_sample(&r), 0);
    says_text(&r, "squeue", "{\"jobs\": [", 0);
    expect_failure(&r, E_PROTO, "squeue --json: ");
    says_text(&r, "squeue", "", 0);
    expect_failure(&r, E_PROTO, "squeue --json: ");
    says_text(&r, "squeue", JOBS(""), 1); /* what it printed does not count */
    expect_failure(&r, -ECHILD, "it broke");
    says_file(&r, "squeue", SLURM "squeue-22.05.json");
    says_text(&r, "sinfo", "", 0);
    expect_failure(&r, E_PROTO, "sinfo --json: ");
    says_file(&r, "sinfo", SLURM "sinfo-22.05.json");
    r.state->max_bytes = 1000;
    expect_failure(&r, E_LIMIT, "sinfo");
    r.state->max_bytes = 1 << 20;
    r.state->timeout_ns = 1;
    expect_failure(&r, -ETIMEDOUT, "");
    r.state->timeout_ns = INT64_C(60) * 1000 * 1000 * 1000;
    assert_int_equal(run_sample(&r), 0);
    assert_string_equal(r.text.p, QUEUE_LAB);
    run_close(&r);
}

/* More at once than the agent holds goes to it in parts, all of it. */
static void many(void **state)
{
    (void)state;
    struct run r;
    struct strbuf text = {0};
    run_open(&r);
    r.state->sinfo = "";
    strbuf_add_str(&text, "{\"jobs\": [");
    for (int i = 1; i <= 10000; i++)
        strbuf_printf(&text,
                      "%s"
                      "{\"job_id\": %d, \"job_state\": \"PENDING\"}",
                      i > 1 ? "," : "", i);
    strbuf_add_str(&text, "]}");
    says_text(&r, "squeue", text.p, 0);
    assert_int_equal(run_sample(&r), 0);
    assert_int_equal(lines(r.text.p), 10000);
    assert_true(r.marks >= 2 && r.marks <= 3);
    assert_int_equal(r.state->jobs.n, 10000);
    strbuf_fini(&text);
    run_close(&r);
}

static void opening(void **state)
{
    (void)state;
    struct run r;
    struct slurm s = {0};
    run_open(&r);
    says_text(&r, "scontrol", "nothing of that kind\n", 0);
    assert_int_equal(run_sample(&r), E_PROTO);
    assert_non_null(strstr(r.why.message, "cluster"));
    env_fini(&r.env);
    env_init(&r.env, FIXTURES "server");
    assert_int_equal(run_sample(&r), E_NODATA);
    assert_int_equal(slurm_open(&s, &r.env, &r.why), -EINVAL);
    slurm_close(&s);
    run_close(&r);
    const struct sensor_ops *ops = sensor_find(SLICE_LIT("slurm"));
    assert_true(ops->is_helper && !ops->is_default && !ops->open && !ops->sample);
    for (const struct parameter *o = ops->options; o->name;
         o++) /* a remote configuration can't choose programs */
        assert_int_equal(o->is_program, !strcmp(o->name, "squeue") || !strcmp(o->name, "sinfo") ||
                                            !strcmp(o->name, "sacct") || !strcmp(o->name, "scontrol"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_sight), cmocka_unit_test(newer_form),    cmocka_unit_test(changes),
        cmocka_unit_test(vanished),    cmocka_unit_test(no_accounting), cmocka_unit_test(failures),
        cmocka_unit_test(opening),     cmocka_unit_test(many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
