/* SPDX-License-Identifier: Apache-2.0 */
/* The directory in a real LDAP server: what is put appears there, and nothing else; whatever happens to the
 * server. */
#include "unit/gateway/slapd.h"

#include "base/clock.h"
#include "base/log.h"
#include "gateway/ldap_mirror.h"

static struct slapd slapd;

static int set_up(void **state)
{
    (void)state;
    slapd_init(&slapd);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    slapd_fini(&slapd);
    return 0;
}

static struct ldap_mirror *make(const char *name, uint32_t settle_s, uint32_t compare_s)
{
    struct ldap_mirror *m = NULL;
    struct diag why = {0};
    const struct ldap_mirror_options o = {.uri = slapd.uri,
                                          .base = SLAPD_BASE,
                                          .bind_dn = SLAPD_DN,
                                          .password_file = slapd.password_file,
                                          .name = name,
                                          .settle_s = settle_s,
                                          .compare_s = compare_s};
    if (ldap_mirror_create(&o, &m, &why) < 0)
        fail_msg("%s", why.message);
    return m;
}

static struct ldap_mirror_counts counts(struct ldap_mirror *m)
{
    struct ldap_mirror_counts c;
    ldap_mirror_counts(m, &c);
    return c;
}

static void wait_settled(struct ldap_mirror *m, uint64_t compared)
{
    for (int i = 0; i < 6000; i++) {
        struct ldap_mirror_counts c = counts(m);
        if (c.is_connected && c.waiting == 0 && c.compared >= compared)
            return;
        (void)poll(NULL, 0, 10);
    }
    fail_msg("the server does not get it");
}

static void put(struct ldap_mirror *m, const char *host, const char *sensor, const char *status, bool is_held)
{
    const struct ldap_entry e = {.host = slice_str(host),
                                 .sensor = slice_str(sensor),
                                 .state = *sensor ? SLICE_LIT("") : slice_str(status),
                                 .status = *sensor ? slice_str(status) : SLICE_LIT(""),
                                 .events = *sensor ? SLICE_LIT("tcp,ip,cpu") : SLICE_LIT(""),
                                 .since_ns = INT64_C(1794777628000000000)};
    assert_int_equal(ldap_mirror_put(m, &e, is_held), 0);
}

/* "NAME GATEWAY STATE" of every entry of one gateway's, a line each, in the server's order. */
static void on_listed(void *arg, const char *dn, struct slice name, struct slice record)
{
    struct cursor c = cursor_of(record);
    struct ldap_value v;
    struct slice is = SLICE_LIT("-");
    (void)dn; /* the name says it */
    while (ldap_record_next(&c, &v))
        if (v.attribute == ATTRIBUTE_STATE || v.attribute == ATTRIBUTE_STATUS)
            is = v.text;
    strbuf_printf(arg, "%.*s %.*s\n", SLICE_ARG(name), SLICE_ARG(is));
}

static struct ldap_link_options link_options(const char *gateway)
{
    return (struct ldap_link_options){.uri = slapd.uri,
                                      .base = SLAPD_BASE,
                                      .bind_dn = SLAPD_DN,
                                      .password_file = slapd.password_file,
                                      .ca = "",
                                      .gateway = slice_str(gateway)};
}

static struct ldap_link *dial(const struct ldap_link_options *o)
{
    struct ldap_link *l = NULL;
    struct diag why = {0};
    if (ldap_link_open(o, &l, &why) < 0)
        fail_msg("%s", why.message);
    return l;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lines in order: the server has its own. */
static void sort_lines(struct strbuf *text)
{
    enum { LINES = 32 };
    char *lines[LINES], *rest = NULL;
    struct strbuf sorted = {0};
    size_t n = 0;
    for (char *line = strtok_r(text->p, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        assert_true(n < LINES);
        lines[n++] = line;
    }
    qsort(lines, n, sizeof *lines, compare_lines);
    for (size_t i = 0; i < n; i++)
        strbuf_printf(&sorted, "%s\n", lines[i]);
    strbuf_fini(text);
    *text = sorted;
}

static void server_has(const char *gateway, const char *lines)
{
    struct strbuf all = {0}, expected = {0};
    struct diag why = {0};
    const struct ldap_link_options o = link_options(gateway);
    struct ldap_link *l = dial(&o);
    strbuf_printf(&all, "\n");
    strbuf_printf(&expected, "\n%s", lines);
    assert_int_equal(ldap_link_list(l, on_listed, &all, &why), OUTCOME_DONE);
    ldap_link_close(l);
    sort_lines(&all);
    sort_lines(&expected);
    assert_string_equal(strbuf_slice(&all).p, strbuf_slice(&expected).p);
    strbuf_fini(&all);
    strbuf_fini(&expected);
}

static void remove_by_hand(const char *gateway, const char *name)
{
    struct diag why = {0};
    const struct ldap_link_options o = link_options(gateway);
    struct ldap_link *l = dial(&o);
    assert_int_equal(ldap_link_remove(l, slice_str(name), &why), OUTCOME_DONE);
    ldap_link_close(l);
}

static void comes_changes_goes(void **state)
{
    (void)state;
    struct ldap_mirror *m = make("gw", 0, 0);
    put(m, "n1", "", "live", true);
    put(m, "n1", "cpu", "running", true);
    put(m, "n2", "disk", "idle", true); /* its host is made with it */
    wait_settled(m, 1);
    server_has("gw", "gridlineHostName=n1 live\ngridlineSensorName=cpu,gridlineHostName=n1 running\n"
                     "gridlineHostName=n2 -\ngridlineSensorName=disk,gridlineHostName=n2 idle\n");
    uint64_t written = counts(m).written;
    put(m, "n1", "cpu", "running", true);
    put(m, "n2", "disk", "idle", true);
    wait_settled(m, 1);
    assert_int_equal(counts(m).written, written); /* only what has changed */
    put(m, "n1", "cpu", "failed", true);
    wait_settled(m, 1);
    assert_int_equal(counts(m).written, written + 1);
    ldap_mirror_remove(m, SLICE_LIT("n2"), SLICE_LIT("disk"));
    ldap_mirror_remove(m, SLICE_LIT("n2"), SLICE_LIT(""));
    wait_settled(m, 1);
    server_has("gw", "gridlineHostName=n1 live\ngridlineSensorName=cpu,gridlineHostName=n1 failed\n");
    assert_int_equal(counts(m).removed, 2);
    assert_int_equal(counts(m).refused, 0);
    ldap_mirror_tick(m, clock_mono_ns(), clock_utc_ns());
    wait_settled(m, 1);
    ldap_mirror_destroy(m);
    server_has("gw", "gridlineHostName=n1 live\ngridlineSensorName=cpu,gridlineHostName=n1 failed\n"
                     "gridlineGatewayName=gw stopped\n");
}

static void hostile_names(void **state)
{
    (void)state;
    static const char *const odd[] = {"a,dc=g", "a+b=c",    "#04", " a",      "a ",       "a",
                                      "A",      "a\"\\;<>", "*",   "a%20",    "\xc3\xbc", "u\xcc\x88",
                                      "\xff",   "a\nb",     "%2C", "a)(x=*)", "..",       "/"};
    enum { ODD = sizeof odd / sizeof *odd };
    struct ldap_mirror *m = make("g w,+\"", 0, 1);
    for (size_t i = 0; i < ODD; i++)
        for (size_t k = 0; k < ODD; k++)
            put(m, odd[i], odd[k], odd[k], true);
    wait_settled(m, 1);
    struct ldap_mirror_counts c = counts(m);
    assert_int_equal(c.refused, 0);
    assert_int_equal(c.entries, ODD + ODD * ODD); /* each is an entry of its own */
    assert_int_equal(c.written, c.entries);
    wait_settled(m, c.compared + 2); /* and what the server lists is what was written */
    assert_int_equal(counts(m).written, c.written);
    assert_int_equal(counts(m).removed, 0);
    ldap_mirror_destroy(m);
    m = make("g w,+\"", 0, 1);
    wait_settled(m, 2);
    ldap_mirror_destroy(m);
    server_has("g%20w%2C%2B%22", "gridlineGatewayName=g%20w%2C%2B%22 stopped\n");
}

static void catches_up(void **state)
{
    (void)state;
    struct ldap_mirror *m = make("gw", 0, 0);
    put(m, "n1", "", "live", true);
    put(m, "n1", "cpu", "running", true);
    put(m, "n1", "old", "running", true);
    wait_settled(m, 1);
    slapd_kill(&slapd);
    put(m, "n1", "cpu", "failed", true);
    put(m, "n1", "cpu", "stopped", true);
    put(m, "n3", "new", "running", true);
    ldap_mirror_remove(m, SLICE_LIT("n1"), SLICE_LIT("old"));
    slapd_start(&slapd);
    wait_settled(m, 2);
    static const char all[] = "gridlineHostName=n1 live\ngridlineSensorName=cpu,gridlineHostName=n1 stopped\n"
                              "gridlineHostName=n3 -\ngridlineSensorName=new,gridlineHostName=n3 running\n";
    server_has("gw", all);
    slapd_kill(&slapd); /* and it comes back with nothing */
    slapd_remove_db(&slapd);
    slapd_fill(&slapd);
    slapd_start(&slapd);
    put(m, "n1", "cpu", "idle", true); /* finds that the connection is gone */
    wait_settled(m, 3);
    put(m, "n1", "cpu", "stopped", true);
    wait_settled(m, 3);
    server_has("gw", all);
    ldap_mirror_destroy(m);
}

/* What an earlier run has left, or somebody has removed. */
static void compares(void **state)
{
    (void)state;
    struct ldap_mirror *m = make("gw", 0, 0);
    put(m, "left", "cpu", "running", true);
    put(m, "n1", "cpu", "running", true);
    wait_settled(m, 1);
    ldap_mirror_destroy(m);
    m = make("gw", 3600, 1); /* not yet settled: nothing is removed */
    put(m, "n1", "cpu", "running", true);
    wait_settled(m, 1);
    assert_int_equal(counts(m).removed, 0);
    ldap_mirror_destroy(m);
    m = make("gw", 0, 1);
    put(m, "n1", "cpu", "running", true);
    ldap_mirror_tick(m, clock_mono_ns(), clock_utc_ns());
    wait_settled(m, 2);
    server_has("gw", "gridlineHostName=n1 -\ngridlineSensorName=cpu,gridlineHostName=n1 running\n"
                     "gridlineGatewayName=gw running\n");
    remove_by_hand("gw", "gridlineSensorName=cpu,gridlineHostName=n1");
    wait_settled(m, counts(m).compared + 2);
    remove_by_hand("gw", "gridlineSensorName=cpu,gridlineHostName=n1");
    remove_by_hand("gw",
                   "gridlineHostName=n1"); /* with what it was under, and changed before it is compared */
    put(m, "n1", "cpu", "idle", true);
    wait_settled(m, counts(m).compared + 2);
    ldap_mirror_destroy(m);
    server_has("gw", "gridlineGatewayName=gw stopped\ngridlineHostName=n1 -\n"
                     "gridlineSensorName=cpu,gridlineHostName=n1 idle\n");
}

static void two_gateways(void **state)
{
    (void)state;
    struct ldap_mirror *a = make("a", 0, 0), *b = make("b", 0, 0);
    put(a, "n1", "", "live", true);
    put(a, "n1", "cpu", "running", true);
    wait_settled(a, 1);
    put(b, "n1", "", "unregistered", false); /* it only heard of it */
    wait_settled(b, 1);
    assert_int_equal(counts(b).foreign, 1);
    server_has("b", "");
    put(b, "n1", "", "live", true); /* the agent went over */
    put(b, "n1", "cpu", "running", true);
    wait_settled(b, 1);
    server_has("a", "");
    put(a, "n1", "", "expired", false);
    put(a, "n1", "cpu", "missing", false);
    wait_settled(a, 1);
    ldap_mirror_remove(a, SLICE_LIT("n1"), SLICE_LIT("cpu"));
    ldap_mirror_remove(a, SLICE_LIT("n1"), SLICE_LIT(""));
    wait_settled(a, 1);
    assert_int_equal(counts(a).removed, 0);
    server_has("b", "gridlineHostName=n1 live\ngridlineSensorName=cpu,gridlineHostName=n1 running\n");
    ldap_mirror_destroy(a);
    ldap_mirror_destroy(b);
}

/* The loop is never held up, and the end comes although the server does not answer. */
static void silent_server(void **state)
{
    (void)state;
    struct ldap_mirror *m = make("gw", 0, 0);
    wait_settled(m, 1);
    assert_int_equal(kill(slapd.pid, SIGSTOP), 0);
    int status = 0; /* kill is back before its threads stand still, and one of them may yet answer */
    assert_int_equal(waitpid(slapd.pid, &status, WUNTRACED), slapd.pid);
    assert_true(WIFSTOPPED(status));
    for (int i = 0; i < 1000; i++) {
        put(m, "n1", "cpu", i & 1 ? "running" : "idle", true);
        ldap_mirror_tick(m, clock_mono_ns(), clock_utc_ns());
    }
    assert_int_equal(counts(m).entries, 3);
    assert_int_equal(counts(m).waiting, 3);
    ldap_mirror_destroy(m);
}

static void refusals(void **state)
{
    (void)state;
    struct ldap_mirror *m = NULL;
    struct diag why = {0};
    struct ldap_mirror_options o = {.uri = "http://127.0.0.1", .base = SLAPD_BASE, .name = "gw"};
    assert_int_equal(ldap_mirror_create(&o, &m, &why), E_PROTO);
    assert_non_null(strstr(why.message, "http://127.0.0.1"));
    o.uri = slapd.uri;
    o.base = "grid";
    assert_int_equal(ldap_mirror_create(&o, &m, &why), E_PROTO);
    assert_non_null(strstr(why.message, "\"grid\""));
    assert_null(m);
    o.base = SLAPD_BASE;
    o.bind_dn = SLAPD_READER; /* it may read; each entry is refused, and counted */
    o.password_file = slapd.password_file;
    assert_int_equal(ldap_mirror_create(&o, &m, &why), 0);
    put(m, "n1", "", "live", true);
    put(m, "n1", "cpu", "running", true);
    wait_settled(m, 1);
    assert_int_equal(counts(m).refused, 2);
    assert_int_equal(counts(m).written, 0);
    ldap_mirror_destroy(m);
}

/* It may list and take nothing: that is not being there, and what is to do is not forgotten. */
static void anonymous(void **state)
{
    (void)state;
    struct ldap_mirror *m = NULL;
    struct diag why = {0};
    const struct ldap_mirror_options o = {.uri = slapd.uri, .base = SLAPD_BASE, .name = "gw"};
    assert_int_equal(ldap_mirror_create(&o, &m, &why), 0);
    put(m, "n1", "", "live", true);
    for (int i = 0; i < 6000 && counts(m).compared < 2; i++)
        (void)poll(NULL, 0, 10);
    assert_true(counts(m).compared >= 2);
    assert_false(counts(m).is_connected);
    assert_int_equal(counts(m).waiting, 1);
    ldap_mirror_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_changes_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(catches_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(compares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_gateways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(silent_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(anonymous, set_up, tear_down),
    };
    if (!slapd_is_installed()) {
        (void)fputs("skipped: there is no slapd here; script/bootstrap installs it\n", stderr);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
