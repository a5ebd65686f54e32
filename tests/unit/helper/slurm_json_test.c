/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "helper/slurm_json.h"
#include "unit/sensor/sense.h"

#include <stdio.h>

#define SLURM GRIDLINE_SOURCE "/tests/fixtures/slurm/"

/* The rows, a line each: column=value. */
struct rows {
    struct strbuf text;
    size_t n;
    int fail_at; /* the call that fails; 0: none */
};

static int add_row(void *arg, const struct value *row)
{
    struct rows *r = arg;
    char name[16];
    for (size_t i = 0; i < JOB_COLUMNS; i++) {
        (void)snprintf(name, sizeof name, "%zu", i);
        sense_add_value(&r->text, slice_str(name), row[i]);
    }
    strbuf_add_char(&r->text, '\n');
    return (int)++r->n == r->fail_at ? -EIO : 0;
}

static struct strbuf load(const char *path)
{
    struct strbuf text = {0};
    struct sensor_env env;
    env_init(&env, "");
    assert_int_equal(env_read_file(&env, path, &text), 0);
    env_fini(&env);
    return text;
}

static int read_text(const struct slurm_form *form, const char *text, struct rows *rows)
{
    struct diag why = {0};
    int r = slurm_json_read(form, slice_str(text), add_row, rows, &why);
    if (r == E_PROTO || r == E_LIMIT)
        assert_true(why.message[0] != '\0');
    return r;
}

static void expect(const struct slurm_form *form, const char *text, const char *expected)
{
    struct rows rows = {0};
    strbuf_add_str(&rows.text, "");
    assert_int_equal(read_text(form, text, &rows), 0);
    assert_slice(strbuf_slice(&rows.text), expected);
    strbuf_fini(&rows.text);
}

static void refuse(const struct slurm_form *form, const char *text, int code)
{
    struct rows rows = {0};
    assert_int_equal(read_text(form, text, &rows), code);
    assert_int_equal(rows.n, 0);
    strbuf_fini(&rows.text);
}

static void real_22_05(void **state)
{
    (void)state;
    struct strbuf text = load(SLURM "squeue-22.05.json");
    struct rows rows = {0};
    assert_int_equal(read_text(&slurm_jobs, text.p, &rows), 0);
    assert_int_equal(rows.n, 12);
    assert_non_null(strstr(
        rows.text.p, " 0=2 1=\"FAILED\" 2=0 4=\"NonZeroExitCode\" 5=\"root\" 7=\"debug\" 8=\"bad\" 9=\"vm\" "
                     "10=1 11=1 12=1794794027.0 13=1794794031.0 14=1794794031.0 15=768\n"));
    assert_non_null(strstr(rows.text.p, " 0=8 1=\"COMPLETED\" 2=5 3=1 "));
    strbuf_fini(&rows.text);
    strbuf_fini(&text);
    text = load(SLURM "sinfo-22.05.json");
    expect(&slurm_nodes, text.p, " 0=\"debug\" 1=\"mixed\" 2=2 3=1 4=1\n");
    strbuf_fini(&text);
}

static void newer_form(void **state)
{
    (void)state;
    struct strbuf text = load(SLURM "squeue-24.11.json");
    expect(&slurm_jobs, text.p,
           " 0=525 1=\"RUNNING\" 2=0 4=\"None\" 5=\"ada\" 6=\"physics\" 7=\"gpu\" 8=\"m\u00fcon \"4\"\" "
           "9=\"n[1-2]\" 10=2 11=8 "
           "12=1755290340.0 13=1755290346.0 14=1755290406.0 16=0\n"
           " 0=527 1=\"FAILED,COMPLETING\" 2=526 3=7 4=\"RaisedSignal:9(Killed)\" 5=\"bob\" 6=\"physics\" "
           "7=\"cpu\" 8=\"task\" "
           "9=\"n3\" 10=1 12=1755290350.0 13=1755290400.0 14=1755290500.0 17=9\n"
           " 0=526 1=\"PENDING\" 2=526 4=\"Resources\" 5=\"bob\" 7=\"cpu,gpu\" 8=\"task\" 12=1755290350.0 "
           "13=1755299999.0\n");
    strbuf_fini(&text);
    text = load(SLURM "sinfo-24.11.json");
    expect(&slurm_nodes, text.p,
           " 0=\"gpu\" 1=\"MIXED\" 2=64 3=10 4=54 5=2 6=2 7=0\n"
           " 0=\"cpu\" 1=\"IDLE\" 2=96 3=0 4=96 5=3 6=0 7=3\n"
           " 0=\"cpu\" 1=\"IDLE,DRAIN\" 2=32 3=0 4=32 5=1 6=0 7=0\n");
    strbuf_fini(&text);
}

static void sacct_form(void **state)
{
    (void)state;
    struct strbuf text = load(SLURM "sacct-22.05.json");
    expect(&slurm_jobs, text.p,
           " 0=6 1=\"FAILED\" 2=0 4=\"NonZeroExitCode\" 5=\"root\" 6=\"physics\" 7=\"debug\" 8=\"waits\" "
           "9=\"vm\" 10=1 "
           "12=1794794027.0 13=1794794496.0 14=1794794500.0 16=7\n"
           " 0=7 1=\"PENDING\" 4=\"None\" 5=\"root\" 8=\"held\"\n"
           " 0=99 1=\"COMPLETED\" 4=\"None\" 5=\"root\" 8=\"not asked for\"\n");
    strbuf_fini(&text);
}

/* Cut anywhere before its last brace a text is refused as a whole. */
static void truncated(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const struct slurm_form *form;
    } files[] = {{SLURM "squeue-22.05.json", &slurm_jobs},
                 {SLURM "sinfo-22.05.json", &slurm_nodes},
                 {SLURM "squeue-24.11.json", &slurm_jobs},
                 {SLURM "sinfo-24.11.json", &slurm_nodes},
                 {SLURM "sacct-22.05.json", &slurm_jobs}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct strbuf text = load(files[i].path);
        size_t end = (size_t)(strrchr(text.p, '}') - text.p);
        for (size_t n = 0; n <= end; n += 97) {
            char *copy = malloc(n + 1); /* of the exact size, so that ASan sees a byte too many */
            struct rows rows = {0};
            struct diag why = {0};
            assert_non_null(copy);
            memcpy(copy, text.p, n);
            assert_int_equal(slurm_json_read(files[i].form, slice_of(copy, n), add_row, &rows, &why),
                             E_PROTO);
            assert_int_equal(rows.n, 0);
            free(copy);
        }
        strbuf_fini(&text);
    }
}

static void what_is_refused(void **state)
{
    (void)state;
    refuse(&slurm_jobs, "", E_PROTO);
    refuse(&slurm_jobs, "[]", E_PROTO);
    refuse(&slurm_jobs, "5", E_PROTO);
    refuse(&slurm_jobs, "{}", E_PROTO); /* no list is not an empty list */
    refuse(&slurm_jobs, "{\"jobs\": null}", E_PROTO);
    refuse(&slurm_jobs, "{\"jobs\": {}}", E_PROTO);
    refuse(&slurm_jobs, "{\"nodes\": []}", E_PROTO);
    refuse(&slurm_jobs, "{\"jobs\": [5]}", E_PROTO);
    refuse(&slurm_jobs, "{\"jobs\": [[]]}", E_PROTO);
    refuse(&slurm_jobs, "{\"jobs\": [{}]}", E_PROTO);
    refuse(&slurm_jobs, "{\"jobs\": [{\"job_id\": 1}]}", E_PROTO);
    refuse(&slurm_jobs, "{\"jobs\": [{\"job_state\": \"RUNNING\"}]}", E_PROTO);
    refuse(&slurm_jobs, "{\"jobs\": [{\"job_id\": -1, \"job_state\": \"RUNNING\"}]}", E_PROTO);
    refuse(&slurm_jobs, "{\"jobs\": [{\"job_id\": 1, \"job_state\": \"RUNNING\"}, {}]}",
           E_PROTO); /* the first one, too */
    refuse(&slurm_jobs, "{\"jobs\": [], \"errors\": [{\"error\": \"no contact\"}]}", E_PROTO);
    refuse(&slurm_jobs, "{\"errors\": [{}], \"jobs\": []}", E_PROTO);
    refuse(&slurm_jobs, "{\"errors\": [1], \"jobs\": []}", E_PROTO);
    expect(&slurm_jobs, "{\"jobs\": []}", "");
    expect(&slurm_jobs, "{\"errors\": [], \"jobs\": []}", "");
    expect(&slurm_nodes, "{\"sinfo\": []}", "");
}

static void what_is_missing(void **state)
{
    (void)state;
    expect(&slurm_jobs,
           "{\"jobs\":[{\"job_id\":1,\"job_state\":\"X\",\"cpus\":-2,\"node_count\":1.5,\"name\":\"\",\"user_"
           "name\":"
           "null,\"account\":5,\"nodes\":\"\xff\",\"start_time\":0,\"end_time\":9007199254740993,"
           "\"submit_time\":{\"set\":true,\"infinite\":true,\"number\":3},\"exit_code\":\"0\",\"partition\":["
           "{}]}]}",
           " 0=1 1=\"X\"\n");
}

static void limits(void **state)
{
    (void)state;
    struct strbuf text = {0};
    struct rows rows = {.fail_at = 2};
    strbuf_add_str(&text, "{\"jobs\": [");
    for (size_t i = 0; i <= SLURM_JSON_ROWS_MAX; i++)
        strbuf_add_str(&text,
                       i ? ",{\"job_id\":1,\"job_state\":\"A\"}" : "{\"job_id\":1,\"job_state\":\"A\"}");
    strbuf_add_str(&text, "]}");
    refuse(&slurm_jobs, text.p, E_LIMIT);
    strbuf_reset(&text);
    strbuf_add_str(&text, "{\"nodes\": [{\"state\": \"idle\", \"partitions\": [\"p\"");
    for (size_t i = 0; i < SLURM_JSON_WORDS_MAX / 2; i++)
        strbuf_add_str(&text, ",\"p\"");
    strbuf_add_str(&text, "]}]}");
    refuse(&slurm_nodes, text.p, E_LIMIT);
    strbuf_fini(&text);
    text = load(SLURM "squeue-24.11.json");
    assert_int_equal(read_text(&slurm_jobs, text.p, &rows), -EIO);
    assert_int_equal(rows.n, 2);
    strbuf_fini(&rows.text);
    strbuf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_22_05), cmocka_unit_test(newer_form),      cmocka_unit_test(sacct_form),
        cmocka_unit_test(truncated),  cmocka_unit_test(what_is_refused), cmocka_unit_test(what_is_missing),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
