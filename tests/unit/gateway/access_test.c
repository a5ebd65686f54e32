/* SPDX-License-Identifier: Apache-2.0 */
/* The table: what is built in, which row decides, what a view shows and hides, tokens, the audit. */
#include "unit/test.h"

#include "base/mem.h"
#include "event/limits.h"
#include "gateway/access.h"
#include "gateway/access_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BIT(action) ACCESS_BIT(ACCESS_##action)
#define ROW(...)                                                      \
    {                                                                 \
        .name = "row", .file = "gateway.conf", .line = 7, __VA_ARGS__ \
    }

/* Lists that are not given, as configuration makes them. */
static struct access_row filled(const struct access_row *row)
{
    struct access_row r = *row;
    r.hosts = r.hosts ? r.hosts : "";
    r.events = r.events ? r.events : "";
    r.targets = r.targets ? r.targets : "";
    r.hide = r.hide ? r.hide : "";
    return r;
}

enum { ROWS_MAX = 80 };

static struct access *table_of(const struct access_row *rows, size_t n)
{
    struct access *t = NULL;
    struct access_row all[ROWS_MAX];
    struct diag why = {0};
    assert_true(n <= ROWS_MAX);
    for (size_t i = 0; i < n; i++)
        all[i] = filled(&rows[i]);
    if (access_create(all, n, NULL, 0, &t, &why) < 0)
        fail_msg("%s", why.message);
    return t;
}
#define TABLE(rows) table_of(rows, sizeof(rows) / sizeof *(rows))

static struct access_identity somebody(const struct access *t, enum access_kind kind, const char *name)
{
    struct access_identity who = {.kind = kind, .uid = UINT32_MAX, .table = t};
    (void)snprintf(who.name, sizeof who.name, "%s", name);
    return who;
}

static bool may(const struct access_identity *who, enum access_action action, const char *host)
{
    return access_allows(who, action, slice_str(host));
}

static bool may_event(const struct access_identity *who, enum access_action action, const char *host,
                      const char *event)
{
    return access_allows_event(who, action, slice_str(host), slice_str(event));
}

/* ---------------------------------------------------------------- what is built in */

/* Every kind and every action: a new one of either needs its place here. */
static void test_built_in(void **unused)
{
    (void)unused;
    static const uint32_t allowed[] = {
        [ACCESS_NOBODY] = BIT(JOIN),
        [ACCESS_OWNER] = ACCESS_ALL,
        [ACCESS_LOCAL] = BIT(PUBLISH) | BIT(REGISTER) | BIT(LOOKUP) | BIT(SUMMARY),
        [ACCESS_INSECURE] = BIT(PUBLISH) | BIT(REGISTER),
        [ACCESS_AGENT] = BIT(PUBLISH) | BIT(REGISTER),
        [ACCESS_GATEWAY] = BIT(PUBLISH) | BIT(REGISTER) | BIT(LOOKUP),
        [ACCESS_OPERATOR] = ACCESS_ALL & ~BIT(TEST),
        [ACCESS_TOKEN] = 0,
    };
    struct access *empty = table_of(NULL, 0);
    assert_int_equal(sizeof allowed / sizeof *allowed, ACCESS_TOKEN + 1);
    for (unsigned kind = 0; kind <= ACCESS_TOKEN; kind++)
        for (unsigned action = 0; action < ACCESS_ACTIONS; action++) {
            bool is_allowed = allowed[kind] & ACCESS_BIT(action);
            struct access_identity one = somebody(NULL, (enum access_kind)kind, "Node1"), two = one;
            two.table = empty; /* the same by a table without rows */
            assert_int_equal(may(&one, action, ""), is_allowed);
            assert_int_equal(may(&one, action, "node1"), is_allowed);
            assert_int_equal(may(&one, action, "node2"), is_allowed && kind != ACCESS_AGENT);
            assert_int_equal(may(&two, action, "node1"), is_allowed);
            assert_int_equal(may(&two, action, "node2"), is_allowed && kind != ACCESS_AGENT);
        }
    access_destroy(empty);
}

/* An agent without a name speaks for nobody, also not for a host without one. */
static void test_no_name(void **unused)
{
    (void)unused;
    struct access_identity agent = somebody(NULL, ACCESS_AGENT, "");
    struct access_view *v;
    struct schema *schema;
    assert_false(may(&agent, ACCESS_PUBLISH, "node1"));
    assert_int_equal(access_view_create(&agent, ACCESS_PUBLISH, &v), 0);
    assert_int_equal(schema_create(SLICE_LIT("cpu"), NULL, 0, &schema), 0);
    const struct event e = {.host = SLICE_LIT(""), .prog = SLICE_LIT(""), .schema = schema};
    struct event seen;
    assert_false(access_view_event(v, &e, &seen, NULL));
    access_view_destroy(v);
    schema_unref(schema);
}

/* ---------------------------------------------------------------- rows */

static void test_first_row_decides(void **unused)
{
    (void)unused;
    static const struct access_row rows[] = {
        ROW(.who = "operator:ann", .may = BIT(LOOKUP), .hosts = "db1"),
        ROW(.who = "operator:ann", .may_not = ACCESS_ALL, .hosts = "db*"),
        ROW(.who = "local:1000,token:dash", .may = BIT(SUMMARY) | BIT(QUERY), .events = "cpu,mem*"),
        ROW(.who = "local", .may_not = BIT(SUMMARY)),
    };
    struct access *t = TABLE(rows);
    struct access_identity ann = somebody(t, ACCESS_OPERATOR, "ann"),
                           bob = somebody(t, ACCESS_OPERATOR, "bob");
    assert_true(may(&ann, ACCESS_LOOKUP, "db1"));
    assert_false(may(&ann, ACCESS_CONTROL, "db1"));
    assert_false(may(&ann, ACCESS_LOOKUP, "db2"));
    assert_false(may(&ann, ACCESS_LOOKUP, "DB2")); /* case of hosts does not matter */
    assert_true(may(&ann, ACCESS_LOOKUP, "web1")); /* what is built in */
    assert_true(may(&ann, ACCESS_CONTROL, ""));    /* of some or other */
    assert_true(may(&bob, ACCESS_CONTROL, "db2"));

    struct access_identity one = somebody(t, ACCESS_LOCAL, ""), two = one,
                           owner = somebody(t, ACCESS_OWNER, "");
    one.uid = 1000;
    two.uid = 1001;
    owner.uid = 1000; /* is not local */
    assert_true(may_event(&one, ACCESS_SUMMARY, "web1", "cpu"));
    assert_true(may_event(&one, ACCESS_SUMMARY, "", "memory"));
    assert_false(may_event(&one, ACCESS_SUMMARY, "web1", "disk"));
    assert_true(may(&one, ACCESS_SUMMARY, "web1")); /* of some event */
    assert_true(may_event(&one, ACCESS_QUERY, "web1", "cpu"));
    assert_false(may(&two, ACCESS_SUMMARY, ""));
    assert_false(may(&two, ACCESS_QUERY, ""));
    assert_true(may(&two, ACCESS_LOOKUP, "web1"));
    assert_true(may(&owner, ACCESS_SUMMARY, "web1"));
    struct access_identity dash = somebody(t, ACCESS_TOKEN, "dash"),
                           other = somebody(t, ACCESS_TOKEN, "dash2");
    assert_true(may_event(&dash, ACCESS_QUERY, "web1", "cpu"));
    assert_false(may(&dash, ACCESS_LOOKUP, ""));
    assert_false(may(&other, ACCESS_QUERY, ""));
    access_destroy(t);
}

static void test_who(void **unused)
{
    (void)unused;
    static const struct access_row rows[] = {
        ROW(.who = "operator:A*", .may_not = BIT(CONTROL)),
        ROW(.who = "agent:web[0-9]", .may = BIT(LOOKUP), .hosts = "@own,gate"),
        ROW(.who = "everybody", .may = BIT(SUMMARY), .hosts = "public*"),
    };
    struct access *t = TABLE(rows);
    struct access_identity ann = somebody(t, ACCESS_OPERATOR, "ann"),
                           bob = somebody(t, ACCESS_OPERATOR, "bob");
    assert_false(may(&ann, ACCESS_CONTROL, ""));
    assert_true(may(&bob, ACCESS_CONTROL, ""));
    struct access_identity web = somebody(t, ACCESS_AGENT, "WEB7"), wide = somebody(t, ACCESS_AGENT, "web77");
    assert_true(may(&web, ACCESS_LOOKUP, "web7"));
    assert_true(may(&web, ACCESS_LOOKUP, "gate"));
    assert_false(may(&web, ACCESS_LOOKUP, "web8"));
    assert_false(may(&web, ACCESS_LOOKUP, "@own"));
    assert_false(may(&wide, ACCESS_LOOKUP, "web77"));
    for (unsigned kind = 0; kind <= ACCESS_TOKEN; kind++) {
        struct access_identity one = somebody(t, (enum access_kind)kind, "x");
        assert_true(may(&one, ACCESS_SUMMARY, "public1"));
    }
    /* A name that is longer than any host's: no. */
    char longer[400];
    memset(longer, 'p', sizeof longer);
    memcpy(longer, "public", 6);
    longer[sizeof longer - 1] = '\0';
    assert_false(may(&bob, ACCESS_SUMMARY, longer));
    access_destroy(t);
}

static void test_all_of_events(void **unused)
{
    (void)unused;
    static const struct access_row rows[] = {
        ROW(.who = "token:t", .may = ACCESS_ALL, .events = "cpu"),
        ROW(.who = "operator", .may_not = ACCESS_ALL, .events = "secret*"),
    };
    struct access *t = TABLE(rows);
    struct access_identity token = somebody(t, ACCESS_TOKEN, "t"), ann = somebody(t, ACCESS_OPERATOR, "ann");
    assert_true(may_event(&token, ACCESS_SUBSCRIBE, "h", "cpu"));
    assert_false(may_event(&token, ACCESS_SUBSCRIBE, "h", "disk"));
    assert_false(may(&token, ACCESS_CONTROL, "")); /* not of events, so not meant */
    assert_false(may(&token, ACCESS_REGISTER, ""));
    assert_false(may(&token, ACCESS_JOIN, ""));
    assert_true(may(&ann, ACCESS_CONTROL, "h"));
    assert_false(may_event(&ann, ACCESS_SUBSCRIBE, "h", "secret.plan"));
    access_destroy(t);
}

static void test_mistakes(void **unused)
{
    (void)unused;
    static const struct {
        struct access_row row;
        const char *says;
    } bad[] = {
        {ROW(.who = "operator", .may = BIT(LOOKUP), .may_not = BIT(CONTROL)), "two rows"},
        {ROW(.who = "operator"), "says nothing"},
        {ROW(.who = "operator", .may_not = BIT(LOOKUP), .hide = "os*"), "hide is for what may be seen"},
        {ROW(.who = "agent", .may = BIT(PUBLISH), .hide = "os*"), "nothing to hide"},
        {ROW(.who = "operator", .may = BIT(CONTROL) | BIT(LOOKUP), .events = "cpu"),
         "of hosts, not of events"},
        {ROW(.who = "operator", .may_not = BIT(REGISTER), .targets = "db*"), "of hosts, not of events"},
        {ROW(.who = "nobody", .may = BIT(JOIN), .hosts = "web*"), "join"},
        {ROW(.who = "agent,local", .may = BIT(LOOKUP), .hosts = "@own"), "@own"},
        {ROW(.who = "everybody", .may = BIT(LOOKUP), .hosts = "x,@own"), "@own"},
        {ROW(.who = "operators", .may = BIT(LOOKUP)), "who"},
        {ROW(.who = "", .may = BIT(LOOKUP)), "who"},
        {ROW(.who = "owner:ann", .may = BIT(LOOKUP)), "who"},
        {ROW(.who = "local:ann", .may = BIT(LOOKUP)), "who"},
        {ROW(.who = "local:4294967295", .may = BIT(LOOKUP)), "who"},
        {ROW(.who = "agent:", .may = BIT(LOOKUP)), "who"},
        {ROW(.who = "owner", .may = BIT(LOOKUP), .hosts = "web[1"), "pattern"},
        {ROW(.who = "owner", .may = BIT(LOOKUP), .hosts = "web1,,web2"), "pattern"},
        {ROW(.who = "owner", .may = BIT(LOOKUP), .hide = "a b"), "pattern"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct access *t = NULL;
        struct diag why = {0};
        struct access_row row = filled(&bad[i].row);
        assert_int_equal(access_create(&row, 1, NULL, 0, &t, &why), -EINVAL);
        assert_null(t);
        if (!strstr(why.message, bad[i].says) || !strstr(why.message, "access row"))
            fail_msg("row %zu: %s", i, why.message);
    }
}

/* ---------------------------------------------------------------- views */

static struct schema *schema_with(const char *name, const char *const *fields)
{
    struct field made[8] = {0};
    size_t n = 0;
    struct schema *s;
    for (; fields[n]; n++)
        made[n] = (struct field){.name = slice_str(fields[n]),
                                 .unit = SLICE_LIT(""),
                                 .help = SLICE_LIT(""),
                                 .type = VALUE_TEXT,
                                 .role = n == 0 ? ROLE_KEY : ROLE_VALUE};
    assert_int_equal(schema_create(slice_str(name), made, n, &s), 0);
    return s;
}

static const char *const os_fields[] = {"device", "os.name", "os.version", "load", NULL};

/* Every field has its own name as value. */
static struct event event_of(const struct schema *s, const char *host, struct value *values)
{
    for (uint32_t i = 0; i < s->n_fields; i++)
        values[i] = value_text(s->fields[i].name);
    return (struct event){
        .time_ns = 1, .host = slice_str(host), .prog = SLICE_LIT("p"), .schema = s, .values = values};
}

/* "device,load": the fields that are seen; "-": the event is not. */
static const char *seen_of(struct access_view *v, const struct schema *s, const char *host)
{
    static char text[256];
    struct value values[8], room[EVENT_FIELDS_MAX];
    struct event e = event_of(s, host, values), out;
    if (!access_view_event(v, &e, &out, room))
        return "-";
    assert_ptr_equal(out.schema, s);
    assert_ptr_equal(out.host.p, e.host.p);
    text[0] = '\0';
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_fields; i++)
        if (out.values[i].type != VALUE_NONE)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", n ? "," : "", (int)out.values[i].n,
                                  out.values[i].p);
    for (uint32_t i = 0; i < s->n_fields; i++) /* e is as it was */
        assert_true(value_eq(values[i], value_text(s->fields[i].name)));
    return text;
}

static struct access_view *view_of(const struct access_identity *who, enum access_action action)
{
    struct access_view *v = NULL;
    assert_int_equal(access_view_create(who, action, &v), 0);
    return v;
}

static void test_whole_views(void **unused)
{
    (void)unused;
    struct access_view *v = NULL;
    struct access_identity owner = somebody(NULL, ACCESS_OWNER, ""),
                           token = somebody(NULL, ACCESS_TOKEN, "t");
    assert_null(view_of(&owner, ACCESS_SUBSCRIBE));
    assert_int_equal(access_view_create(&token, ACCESS_SUBSCRIBE, &v), -EACCES);
    struct access_identity agent = somebody(NULL, ACCESS_AGENT, "node1");
    v = view_of(&agent, ACCESS_PUBLISH);
    assert_non_null(v);
    assert_false(access_view_is_whole(v));
    assert_true(access_view_is_whole_of(v, SLICE_LIT("NODE1")));
    assert_false(access_view_is_whole_of(v, SLICE_LIT("node2")));
    access_view_destroy(v);
    assert_true(access_view_is_whole(NULL));
    assert_true(access_view_is_whole_of(NULL, SLICE_LIT("node2")));
    assert_true(access_view_shows(NULL, SLICE_LIT("h"), SLICE_LIT("e")));
    assert_true(access_view_shows_property(NULL, SLICE_LIT("h"), SLICE_LIT("os")));
}

static void test_hiding(void **unused)
{
    (void)unused;
    static const struct access_row rows[] = {
        ROW(.who = "operator:ann", .may = BIT(SUBSCRIBE) | BIT(LOOKUP), .hosts = "web*", .hide = "os*"),
        ROW(.who = "operator:ann", .may = BIT(SUBSCRIBE) | BIT(LOOKUP), .hosts = "db*", .events = "host,disk",
            .hide = "disk.os.version,host.load,device"),
        ROW(.who = "operator:ann", .may_not = ACCESS_ALL),
        ROW(.who = "operator:b*", .hide = "os.version", .hosts = "secret*"),
    };
    struct access *t = TABLE(rows);
    struct schema *host = schema_with("host", os_fields), *disk = schema_with("disk", os_fields),
                  *cpu = schema_with("cpu", os_fields);
    struct access_identity ann = somebody(t, ACCESS_OPERATOR, "ann"),
                           bob = somebody(t, ACCESS_OPERATOR, "bob");
    struct access_view *v = view_of(&ann, ACCESS_SUBSCRIBE);
    for (int i = 0; i < 3; i++) { /* remembered or not */
        assert_string_equal(seen_of(v, host, "web1"), "device,load");
        assert_string_equal(seen_of(v, host, "WEB2"), "device,load");
        assert_string_equal(seen_of(v, host, "db1"), "os.name,os.version"); /* without its key */
        assert_string_equal(seen_of(v, disk, "db1"), "os.name,load");
        assert_string_equal(seen_of(v, disk, "web1"), "device,load");
        assert_string_equal(seen_of(v, cpu, "db1"), "-");
        assert_string_equal(seen_of(v, cpu, "other"), "-");
        assert_string_equal(seen_of(v, cpu, ""), "-");
    }
    assert_true(access_view_shows(v, SLICE_LIT("db1"), SLICE_LIT("")));
    assert_true(access_view_shows(v, SLICE_LIT(""), SLICE_LIT("cpu")));
    assert_false(access_view_shows(v, SLICE_LIT("db1"), SLICE_LIT("cpu")));
    assert_false(access_view_shows(v, SLICE_LIT("other"), SLICE_LIT("")));
    assert_false(access_view_shows_field(v, SLICE_LIT("web1"), SLICE_LIT("cpu"), SLICE_LIT("os.version")));
    assert_true(access_view_shows_field(v, SLICE_LIT("web1"), SLICE_LIT("cpu"), SLICE_LIT("load")));
    assert_false(access_view_shows_property(v, SLICE_LIT("web1"), SLICE_LIT("os")));
    assert_true(access_view_shows_property(v, SLICE_LIT("web1"), SLICE_LIT("cpus")));
    assert_false(
        access_view_shows_property(v, SLICE_LIT("db1"), SLICE_LIT("cpus"))); /* `worker` is not among them */
    access_view_destroy(v);

    v = view_of(&bob, ACCESS_QUERY); /* a row that only hides */
    assert_true(access_view_is_whole(v));
    assert_string_equal(seen_of(v, host, "secret1"), "device,os.name,load");
    assert_string_equal(seen_of(v, host, "web1"), "device,os.name,os.version,load");
    assert_false(access_view_shows_property(v, SLICE_LIT("secret1"), SLICE_LIT("os.version")));
    access_view_destroy(v);
    assert_null(view_of(&bob, ACCESS_PUBLISH)); /* nothing is seen by that */
    schema_unref(host);
    schema_unref(disk);
    schema_unref(cpu);
    access_destroy(t);
}

static void test_targets(void **unused)
{
    (void)unused;
    static const char *const fields[] = {"target", "rtt", NULL}, *const without[] = {"rtt", NULL};
    static const struct access_row rows[] = {
        ROW(.who = "agent:probe", .may_not = BIT(PUBLISH), .targets = "bank*"),
        ROW(.who = "token:net", .may = BIT(SUBSCRIBE), .targets = "Router*", .hide = "rtt"),
        ROW(.who = "token:net", .may = BIT(SUBSCRIBE), .hosts = "probe", .targets = "web*"),
    };
    struct access *t = TABLE(rows);
    struct schema *ping = schema_with("ping", fields), *cpu = schema_with("cpu", without);
    struct access_identity net = somebody(t, ACCESS_TOKEN, "net"), probe = somebody(t, ACCESS_AGENT, "probe");
    struct access_view *v = view_of(&net, ACCESS_SUBSCRIBE), *says = view_of(&probe, ACCESS_PUBLISH);
    struct value values[2] = {value_none(), value_text(SLICE_LIT("1"))}, room[EVENT_FIELDS_MAX];
    struct event e = {.host = SLICE_LIT("probe"), .prog = SLICE_LIT(""), .schema = ping, .values = values},
                 out;
    static const struct {
        const char *target;
        int seen; /* -1: not at all; else whether rtt is */
        bool said;
    } cases[] = {{"router1", 0, true}, {"ROUTER9", 0, true}, {"web1", 1, true},
                 {"bank1", -1, false}, {"Bank2", -1, false}, {"", -1, true}};
    char longer[2 * EVENT_ORIGIN_MAX];
    memset(longer, 'r', sizeof longer);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            values[0] = value_text(slice_str(cases[i].target));
            assert_int_equal(access_view_event(v, &e, &out, room), cases[i].seen >= 0);
            if (cases[i].seen >= 0)
                assert_int_equal(out.values[1].type != VALUE_NONE, cases[i].seen);
            assert_int_equal(access_view_event(says, &e, &out, room), cases[i].said);
        }
    values[0] = value_text(slice_of(longer, sizeof longer)); /* longer than any host's name: no */
    assert_false(access_view_event(v, &e, &out, room));
    assert_false(access_view_event(says, &e, &out, room));
    values[0] = value_none(); /* then the host is it */
    assert_false(access_view_event(v, &e, &out, room));
    assert_string_equal(seen_of(v, cpu, "router5"), "");
    assert_string_equal(seen_of(v, cpu, "probe"), "-");
    assert_string_equal(seen_of(v, cpu, "router5"), "");
    assert_false(access_view_is_whole_of(says, SLICE_LIT("probe")));
    access_view_destroy(v);
    access_view_destroy(says);
    schema_unref(ping);
    schema_unref(cpu);
    access_destroy(t);
}

static void test_same(void **unused)
{
    (void)unused;
    static const struct access_row rows[] = {
        ROW(.who = "operator:a*", .may = BIT(SUBSCRIBE) | BIT(QUERY), .hosts = "web*", .hide = "os*"),
        ROW(.who = "operator:a*", .may_not = ACCESS_ALL),
        ROW(.who = "operator:bob", .may = BIT(SUBSCRIBE), .hosts = "web*", .hide = "os*"),
        ROW(.who = "operator:bob", .may_not = ACCESS_ALL),
        ROW(.who = "operator:eve", .may = BIT(SUBSCRIBE), .hosts = "web*", .hide = "os"),
        ROW(.who = "operator:eve", .may_not = ACCESS_ALL),
        ROW(.who = "operator:joe", .may_not = BIT(SUBSCRIBE), .hosts = "web*"),
    };
    struct access *t = TABLE(rows);
    struct access_identity ann = somebody(t, ACCESS_OPERATOR, "ann"),
                           amy = somebody(t, ACCESS_OPERATOR, "amy"),
                           bob = somebody(t, ACCESS_OPERATOR, "bob"),
                           eve = somebody(t, ACCESS_OPERATOR, "eve"),
                           joe = somebody(t, ACCESS_OPERATOR, "joe"), n1 = somebody(t, ACCESS_AGENT, "n1"),
                           n2 = somebody(t, ACCESS_AGENT, "n2"), n3 = somebody(t, ACCESS_AGENT, "N1");
    struct access_view *v[] = {view_of(&ann, ACCESS_SUBSCRIBE), view_of(&amy, ACCESS_SUBSCRIBE),
                               view_of(&bob, ACCESS_SUBSCRIBE), view_of(&ann, ACCESS_QUERY),
                               view_of(&eve, ACCESS_SUBSCRIBE), view_of(&joe, ACCESS_SUBSCRIBE),
                               view_of(&n1, ACCESS_PUBLISH),    view_of(&n2, ACCESS_PUBLISH),
                               view_of(&n3, ACCESS_PUBLISH),    NULL};
    static const int group[] = {0, 0, 0, 0, 1, 2, 3, 4, 3, 5};
    enum { N = sizeof v / sizeof *v };
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < N; k++)
            assert_int_equal(access_view_same(v[i], v[k]), group[i] == group[k]);
    for (size_t i = 0; i < N; i++)
        access_view_destroy(v[i]);
    access_destroy(t);
}

/* What shows_field says of each field, as seen_of prints it. */
static const char *fields_of(struct access_view *v, const struct schema *s, const char *host)
{
    static char text[256];
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < s->n_fields; i++)
        if (access_view_shows_field(v, slice_str(host), s->name, s->fields[i].name))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", n ? "," : "",
                                  SLICE_ARG(s->fields[i].name));
    return text;
}

/* By any table, a view, the questions without one, and the directory's say the same of whole events and their
 * fields, in whatever order they come; and without memory to remember by, too. */
static void test_views_agree(void **unused)
{
    (void)unused;
    static const char *const hosts[] = {"", "web1", "web2", "db1", "x"}, *const events[] = {"cpu", "disk",
                                                                                            "host"};
    static const char *const host_lists[] = {"", "web*", "db1", "web1,x", "*", "[!w]*"},
                             *const event_lists[] = {"", "cpu", "d*,host", "*"},
                             *const hide_lists[] = {"os*", "load", "cpu.device,disk.os.name", "*"};
    uint64_t random = 20261116;
    struct schema *schemas[3];
    for (size_t i = 0; i < 3; i++)
        schemas[i] = schema_with(events[i], os_fields);
    for (unsigned round = 0; round < 300 * test_scale(); round++) {
        struct access_row rows[ROWS_MAX];
        size_t n = test_random(&random) % 9;
        n = round % 50 == 49 ? ROWS_MAX : n; /* more of those that hide than are remembered */
        for (size_t i = 0; i < n; i++) {
            uint64_t what = i < 8 ? test_random(&random) % 3 : 2; /* yes, no, less */
            rows[i] = (struct access_row)ROW(.who = "token", .may = what == 0 ? BIT(QUERY) : 0,
                                             .may_not = what == 1 ? BIT(QUERY) : 0);
            rows[i].hosts = host_lists[test_random(&random) % 6];
            rows[i].events = event_lists[test_random(&random) % 4];
            rows[i].hide = what == 2 || (what == 0 && test_random(&random) % 2)
                               ? hide_lists[test_random(&random) % (n == ROWS_MAX ? 3 : 4)]
                               : "";
        }
        struct access *t = table_of(rows, n);
        struct access_identity who = somebody(t, ACCESS_TOKEN, "t");
        struct access_view *v = NULL;
        int r = access_view_create(&who, ACCESS_QUERY, &v);
        assert_int_equal(r, may(&who, ACCESS_QUERY, "") ? 0 : -EACCES);
        for (unsigned k = 0; k < 40; k++) {
            const char *host = hosts[1 + test_random(&random) % 4];
            const struct schema *s = schemas[test_random(&random) % 3];
            bool is_allowed = access_allows_event(&who, ACCESS_QUERY, slice_str(host), s->name);
            if (test_random(&random) % 4 == 0)
                mem_fail_after(1);
            const char *seen = r == 0 ? seen_of(v, s, host) : "-";
            mem_fail_after(0);
            assert_int_equal(strcmp(seen, "-") != 0, is_allowed);
            if (is_allowed)
                assert_string_equal(seen, fields_of(v, s, host));
            if (r == 0)
                assert_int_equal(access_view_shows(v, slice_str(host), s->name), is_allowed);
            if (is_allowed) { /* then of some or other, too */
                assert_true(access_allows_event(&who, ACCESS_QUERY, SLICE_LIT(""), s->name));
                assert_true(may(&who, ACCESS_QUERY, host));
            }
        }
        access_view_destroy(v);
        access_destroy(t);
    }
    for (size_t i = 0; i < 3; i++)
        schema_unref(schemas[i]);
}

/* More schemas than are remembered; their addresses come again. */
static void test_many_schemas(void **unused)
{
    (void)unused;
    static const struct access_row rows[] = {
        ROW(.who = "token", .may = BIT(QUERY), .hosts = "web*", .events = "odd*", .hide = "os.version")};
    struct access *t = TABLE(rows);
    struct access_identity who = somebody(t, ACCESS_TOKEN, "t");
    struct access_view *v = view_of(&who, ACCESS_QUERY);
    for (int i = 0; i < 3000; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s%d", i % 2 ? "odd" : "even", i);
        struct schema *s = schema_with(name, os_fields);
        assert_string_equal(seen_of(v, s, "web1"), i % 2 ? "device,os.name,load" : "-");
        schema_unref(s);
    }
    access_view_destroy(v);
    access_destroy(t);
}

static void test_no_memory(void **unused)
{
    (void)unused;
    static const struct access_row rows[] = {
        ROW(.who = "token:a*,operator", .may = BIT(QUERY), .hosts = "web*", .events = "cpu", .hide = "os*")};
    static const struct access_token token = {
        .name = "a",
        .path = "",
        .sha256 = "0000000000000000000000000000000000000000000000000000000000000000"};
    const struct access_row row = filled(rows);
    int r = -ENOMEM;
    for (uint64_t n = 1; r == -ENOMEM; n++) {
        struct access *t = NULL;
        struct access_view *v = NULL;
        struct diag why = {0};
        mem_fail_after(n);
        r = access_create(&row, 1, &token, 1, &t, &why);
        if (r == 0) {
            struct access_identity who = somebody(t, ACCESS_TOKEN, "a");
            r = access_view_create(&who, ACCESS_QUERY, &v);
        }
        mem_fail_after(0);
        assert_true(r == 0 || r == -ENOMEM);
        access_view_destroy(v);
        access_destroy(t);
    }
}

/* ---------------------------------------------------------------- tokens, audit */

static void write_token(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_tokens(void **unused)
{
    (void)unused;
    char folder[] = "/tmp/gridline-access.XXXXXX", path[80];
    struct diag why = {0};
    struct access *t = NULL;
    struct access_identity who;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/token", folder);
    /* printf 'the quick brown fox' | sha256sum */
    const struct access_token tokens[] = {
        {.name = "fox",
         .path = "",
         .sha256 = "9ECB36561341D18EB65484E833EFEA61EDC74B84CF5E6AE1B81C63533E25FC8F"},
        {.name = "file", .sha256 = "", .path = path},
    };
    write_token(path, "a token of a file\n", 0600);
    assert_int_equal(access_create(NULL, 0, tokens, 2, &t, &why), 0);
    assert_int_equal(access_by_token(t, SLICE_LIT("the quick brown fox"), &who), 0);
    assert_int_equal(who.kind, ACCESS_TOKEN);
    assert_string_equal(who.name, "fox");
    assert_int_equal(who.uid, UINT32_MAX);
    assert_ptr_equal(who.table, t);
    assert_int_equal(access_by_token(t, SLICE_LIT("a token of a file"), &who), 0);
    assert_string_equal(who.name, "file");
    static const char *const wrong[] = {"", "the quick brown fo", "the quick brown foxx",
                                        "a token of a file\n",
                                        "9ecb36561341d18eb65484e833efea61edc74b84cf5e6ae1b81c63533e25fc8f"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(access_by_token(t, slice_str(wrong[i]), &who), -EACCES);
    assert_int_equal(access_by_token(NULL, SLICE_LIT("the quick brown fox"), &who), -EACCES);
    access_destroy(t);
    t = NULL;

    write_token(path, "a token of a file\n", 0640);
    assert_int_equal(access_create(NULL, 0, tokens, 2, &t, &why), -EINVAL);
    assert_non_null(strstr(why.message, "chmod 600"));
    write_token(path, "short\n", 0600);
    assert_int_equal(access_create(NULL, 0, tokens, 2, &t, &why), -EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(access_create(NULL, 0, tokens, 2, &t, &why), -EINVAL);
    assert_non_null(strstr(why.message, "token file"));
    assert_null(t);
    assert_int_equal(rmdir(folder), 0);
}

struct heard {
    unsigned n;
    enum access_action action;
    char host[32], event[32];
};

static void hear(void *arg, const struct access_denial *d)
{
    struct heard *h = arg;
    h->n++;
    h->action = d->action;
    (void)snprintf(h->host, sizeof h->host, "%.*s", SLICE_ARG(d->host));
    (void)snprintf(h->event, sizeof h->event, "%.*s", SLICE_ARG(d->event));
}

static void test_denials(void **unused)
{
    (void)unused;
    struct heard h = {0};
    struct access *t = table_of(NULL, 0);
    struct access_identity local = somebody(t, ACCESS_LOCAL, "");
    access_on_denied(t, hear, &h);
    assert_true(access_check(&local, ACCESS_LOOKUP, SLICE_LIT("h"), SLICE_LIT("")));
    assert_false(access_allows(&local, ACCESS_CONTROL, SLICE_LIT("h"))); /* only asked */
    assert_int_equal(h.n, 0);
    assert_false(access_check(&local, ACCESS_SUBSCRIBE, SLICE_LIT("h"), SLICE_LIT("cpu")));
    assert_int_equal(h.n, 1);
    assert_int_equal(h.action, ACCESS_SUBSCRIBE);
    assert_string_equal(h.host, "h");
    assert_string_equal(h.event, "cpu");
    access_tell_denied(&local, ACCESS_QUERY, SLICE_LIT(""), SLICE_LIT(""));
    assert_int_equal(h.n, 2);
    struct access_identity untold = somebody(NULL, ACCESS_LOCAL, "");
    assert_false(access_check(&untold, ACCESS_CONTROL, SLICE_LIT(""), SLICE_LIT("")));
    assert_int_equal(h.n, 2);
    access_destroy(t);
}

/* ---------------------------------------------------------------- streams, for SQL */

static bool certain(const struct access_view *v, const char *host, const char *event)
{
    return access_view_certain(v, slice_str(host), slice_str(event));
}

static bool certain_field(const struct access_view *v, const char *host, const char *event, const char *field)
{
    return access_view_certain_field(v, slice_str(host), slice_str(event), slice_str(field));
}

/* What depends on the target is not certain, whichever way it would go. */
static void test_certain(void **unused)
{
    (void)unused;
    static const struct access_row rows[] = {
        ROW(.who = "token:a", .may = BIT(QUERY), .hosts = "web*", .events = "cpu", .hide = "user"),
        ROW(.who = "token:a", .may = BIT(QUERY), .events = "ping", .targets = "router*"),
        ROW(.who = "token:a", .may_not = BIT(QUERY), .hosts = "db*"),
        ROW(.who = "token:b", .may_not = BIT(QUERY), .targets = "secret"),
        ROW(.who = "token:b", .may = BIT(QUERY), .hosts = "web1"),
        ROW(.who = "token:c", .may = BIT(QUERY), .targets = "router*", .hide = "rtt"),
        ROW(.who = "token:c", .may = BIT(QUERY)),
        ROW(.who = "token", .hide = "cpu.nice", .hosts = "web2"),
    };
    struct access *t = TABLE(rows);
    struct access_identity a = somebody(t, ACCESS_TOKEN, "a"), b = somebody(t, ACCESS_TOKEN, "b"),
                           c = somebody(t, ACCESS_TOKEN, "c");
    struct access_view *v = view_of(&a, ACCESS_QUERY);
    assert_true(certain(v, "WEB1", "cpu"));
    assert_true(certain_field(v, "web1", "cpu", "system"));
    assert_false(certain_field(v, "web1", "cpu", "user"));
    assert_true(certain_field(v, "web1", "cpu", "nice"));
    assert_false(certain_field(v, "web2", "cpu", "nice"));
    assert_false(certain(v, "web1", "disk"));
    assert_false(certain(v, "", "cpu")); /* an event without a host is of no host */
    assert_false(certain(v, "db1", "cpu"));
    assert_false(certain(v, "db1", "ping")); /* of routers only */
    assert_true(access_view_shows(v, SLICE_LIT(""), SLICE_LIT("ping")));
    access_view_destroy(v);
    v = view_of(&b, ACCESS_QUERY);
    assert_false(certain(v, "web1", "cpu")); /* unless its target is secret */
    access_view_destroy(v);
    v = view_of(&c, ACCESS_QUERY);
    assert_true(certain(v, "web1", "ping"));               /* either row says yes, */
    assert_false(certain_field(v, "web1", "ping", "rtt")); /* and one of them hides it */
    assert_true(certain_field(v, "web1", "ping", "ttl"));
    assert_true(certain(v, "", "ping"));
    access_view_destroy(v);
    assert_true(certain(NULL, "web1", "cpu"));
    assert_true(certain_field(NULL, "web1", "cpu", "user"));
    access_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in),          cmocka_unit_test(test_no_name),
        cmocka_unit_test(test_first_row_decides), cmocka_unit_test(test_who),
        cmocka_unit_test(test_all_of_events),     cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_whole_views),       cmocka_unit_test(test_hiding),
        cmocka_unit_test(test_targets),           cmocka_unit_test(test_same),
        cmocka_unit_test(test_views_agree),       cmocka_unit_test(test_many_schemas),
        cmocka_unit_test(test_no_memory),         cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_denials),           cmocka_unit_test(test_certain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
