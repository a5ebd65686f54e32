/* SPDX-License-Identifier: Apache-2.0 */
/* The filter language, a feature a test; events are compared as text: name, level if not info, then the
 * fields. */
#include "unit/test.h"

#include "base/clock.h"
#include "helper/logfilter.h"
#include "helper/logfilter_internal.h"
#include "unit/sensor/sense.h"

#define NOW (INT64_C(1794801600) * NS_PER_S) /* 2026-11-16T04:00:00Z */

struct fixture {
    struct logfilter *f;
    struct logfilter_sink sink;
    struct strbuf seen;
    bool shows_time;
    int answer; /* of the sink */
};

static int take_event(void *arg, const struct event_head *head, const struct named_value *values, size_t n)
{
    struct fixture *x = arg;
    char time[CLOCK_TEXT_MAX];
    if (x->answer < 0)
        return x->answer;
    if (x->shows_time) {
        size_t length = clock_print_iso(time, head->time_ns);
        strbuf_printf(&x->seen, "%.*s ", (int)length, time);
    }
    strbuf_add_slice(&x->seen, head->name);
    if (head->level != LEVEL_INFO)
        strbuf_printf(&x->seen, " (%.*s)", SLICE_ARG(level_lower(head->level)));
    if (head->host.n)
        strbuf_printf(&x->seen, " host %.*s", SLICE_ARG(head->host));
    if (head->prog.n)
        strbuf_printf(&x->seen, " prog %.*s", SLICE_ARG(head->prog));
    for (size_t i = 0; i < n; i++)
        sense_add_value(&x->seen, values[i].name, values[i].value);
    strbuf_add_char(&x->seen, '\n');
    return 0;
}

static void start(struct fixture *x, const char *text)
{
    struct diag why = {0};
    const struct logfilter_options o = {.zone = "utc"};
    *x = (struct fixture){.sink = {take_event, x}};
    if (logfilter_parse(slice_str(text), "test.conf", &o, &x->f, &why) < 0)
        fail_msg("%s", why.message);
}

static enum logfilter_held line(struct fixture *x, const char *text)
{
    return logfilter_line(x->f, slice_str(text), false, NOW, &x->sink);
}

static void expect(struct fixture *x, const char *want)
{
    assert_string_equal(x->seen.n ? x->seen.p : "", want);
    strbuf_reset(&x->seen);
}

static void stop(struct fixture *x)
{
    logfilter_destroy(x->f);
    strbuf_fini(&x->seen);
}

static void test_groups(void **state)
{
    struct fixture x;
    (void)state;
    start(&x,
          "event a.b { match = '^(?<who>\\w+) (?:is (?<age>\\d+)|has (?<what>.*))' types = {'age=uint'} }");
    assert_int_equal(line(&x, "ann is 42"), LOGFILTER_DONE);
    (void)line(&x, "bob has ");
    (void)line(&x, "cid has \"x\"");
    expect(&x, "a.b who=\"ann\" age=42\na.b who=\"bob\"\na.b who=\"cid\" what=\"\"x\"\"\n");
    (void)line(&x, "nobody");
    expect(&x, "");
    assert_int_equal(logfilter_stats(x.f)->unmatched, 1);
    assert_int_equal(logfilter_stats(x.f)->events, 3);
    stop(&x);
}

static void test_types(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "time_formats = {iso}\n"
              "event e { match = '^(?<k>\\w) (?<v>.*)$' }\n"
              "event i { match = '^int (?<v>.*)$'      types = {'v=int'} }\n"
              "event u { match = '^uint (?<v>.*)$'     types = {'v=uint'} }\n"
              "event f { match = '^float (?<v>.*)$'    types = {'v=float'} }\n"
              "event b { match = '^bool (?<v>.*)$'     types = {'v=bool'} }\n"
              "event d { match = '^duration (?<v>.*)$' types = {'v=duration'} }\n"
              "event s { match = '^size (?<v>.*)$'     types = {'v=size'} }\n"
              "event t { match = '^time (?<v>.*)$'     types = {'v=time'} }\n");
    static const struct {
        const char *line, *want;
        bool is_bad;
    } cases[] = {
        {"x 12", "e k=\"x\" v=12\n", false},
        {"int -12", "i v=-12\n", false},
        {"int 12.5", "i v=\"12.5\"\n", true},
        {"uint 18446744073709551615", "u v=18446744073709551615\n", false},
        {"uint -1", "u v=\"-1\"\n", true},
        {"float 1e3", "f v=1000.0\n", false},
        {"bool Yes", "b v=true\n", false},
        {"bool off", "b v=false\n", false},
        {"bool maybe", "b v=\"maybe\"\n", true},
        {"duration 90", "d v=90.0\n", false},
        {"duration 1.25", "d v=1.25\n", false},
        {"duration 250ms", "d v=0.25\n", false},
        {"duration 01:30", "d v=90.0\n", false},
        {"duration 02:00:01.5", "d v=7201.5\n", false},
        {"duration 1-00:00:01", "d v=86401.0\n", false},
        {"duration 1:2:3:4", "d v=\"1:2:3:4\"\n", true},
        {"duration 1-5:3", "d v=\"1-5:3\"\n", true},
        {"size 4KiB", "s v=4096\n", false},
        {"size 2M", "s v=2000000\n", false},
        {"time 1970-01-01T00:00:01", "t v=1.0\n", false},
        {"time never", "t v=\"never\"\n", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bad = logfilter_stats(x.f)->bad_values;
        (void)line(&x, cases[i].line);
        expect(&x, cases[i].want);
        assert_int_equal(logfilter_stats(x.f)->bad_values - bad, cases[i].is_bad);
    }
    stop(&x);
}

static void test_times(void **state)
{
    struct logtime_zone utc = {0}, east = {.offset_s = 7200};
    static const struct {
        const char *format, *text, *want;
    } cases[] = {
        {"iso", "2026-11-15T21:20:28", "2026-11-15T21:20:28.000000Z"},
        {"iso", "2026-11-15 21:20:28,5", "2026-11-15T21:20:28.500000Z"},
        {"iso", "2026-11-15T21:20:28.123456789+01:00", "2026-11-15T20:20:28.123456789Z"},
        {"iso", "2026-11-15T21:20:28Z", "2026-11-15T21:20:28.000000Z"},
        {"iso", "2026-11-15T21:20:28 PST", NULL},
        {"iso", "2026-02-30T00:00:00", NULL},
        {"epoch", "1017336647.25", "2002-03-28T17:30:47.250000Z"},
        {"%s.%f", "1017336647.000001", "2002-03-28T17:30:47.000001Z"},
        {"%b %e %H:%M:%S", "Nov  5 01:02:03", "2026-11-05T01:02:03.000000Z"},
        {"%b %e %H:%M:%S", "Dec 31 23:59:59", "2025-12-31T23:59:59.000000Z"}, /* nothing is written ahead of its time, */
        {"%b %e %H:%M:%S", "Nov 17 03:00:00", "2026-11-17T03:00:00.000000Z"}, /* but for clocks that differ */
        {"%b %e %H:%M:%S", "Jul  1 00:00:00", "2026-07-01T00:00:00.000000Z"},
        {"%b %e %H:%M:%S", "Jan  2 00:00:00", "2026-01-02T00:00:00.000000Z"},
        {"%b %e %H:%M:%S", "Feb 29 00:00:00", "2024-02-29T00:00:00.000000Z"},
        {"%b %e %H:%M:%S", "Feb 30 00:00:00", NULL},
        {"%b %e %T.%f", "Nov 16 03:00:00.125", "2026-11-16T03:00:00.125000Z"},
        {"%a %b %e %T %Y", "Thu Mar 28 12:30:47 2002", "2002-03-28T12:30:47.000000Z"},
        {"%d/%b/%Y:%T %z", "28/Mar/2002:12:30:47 -0500", "2002-03-28T17:30:47.000000Z"},
        {"%m/%d/%y %I:%M %p", "03/28/02 12:30 AM", "2002-03-28T00:30:00.000000Z"},
        {"%m/%d/%y %I:%M %p", "03/28/99 12:30 pm", "1999-03-28T12:30:00.000000Z"},
        {"%m/%d/%y %I:%M %p", "03/28/99 13:30 pm", NULL},
        {"100%% %F", "100% 2002-03-28", "2002-03-28T00:00:00.000000Z"},
        {"%F", "2002-03-28 ", NULL},
        {"%F %T", "2002-03-28T12:00:00", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t t;
        char text[CLOCK_TEXT_MAX + 1] = "";
        int r = logtime_parse(cases[i].format, slice_str(cases[i].text), &utc, NOW, &t);
        if (r == 0)
            text[clock_print_iso(text, t)] = '\0';
        if (cases[i].want)
            assert_string_equal(text, cases[i].want);
        else
            assert_int_equal(r, E_PROTO);
    }
    int64_t t, u;
    assert_int_equal(logtime_parse("iso", SLICE_LIT("2026-01-01T00:00:00"), &east, NOW, &t), 0);
    assert_int_equal(logtime_parse("iso", SLICE_LIT("2025-12-31T22:00:00"), &utc, NOW, &u), 0);
    assert_int_equal(t, u);
}

/* Local time through the end of summer, as the system's zone has it. */
static void test_local_time(void **state)
{
    struct logtime_zone local;
    int64_t t;
    static const struct {
        const char *text;
        int64_t seconds;
    } cases[] = {{"2026-07-01T12:00:00", 1782900000},
                 {"2026-12-01T12:00:00", 1796122800},
                 {"2026-07-01T12:30:00", 1782901800}};
    (void)state;
    assert_int_equal(setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1), 0);
    tzset();
    assert_int_equal(logtime_zone_parse(SLICE_LIT("local"), &local), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(logtime_parse("iso", slice_str(cases[i].text), &local, NOW, &t), 0);
        assert_int_equal(t, cases[i].seconds * NS_PER_S);
    }
    assert_int_equal(logtime_parse("iso", SLICE_LIT("2026-07-01T12:00:00Z"), &local, NOW, &t), 0);
    assert_int_equal(t, INT64_C(1782907200) * NS_PER_S);
    assert_int_equal(unsetenv("TZ"), 0);
    tzset();
    assert_int_equal(logtime_zone_parse(SLICE_LIT("mars"), &local), E_PROTO);
    assert_int_equal(logtime_zone_parse(SLICE_LIT("+0530"), &local), 0);
    assert_int_equal(local.offset_s, 5 * 3600 + 1800);
}

/* A zone by its name, whatever that of the process is: changes, the hour that comes twice, the one that never does. */
static void test_named_zone(void **state)
{
    static const struct {
        const char *text, *after, *want;
    } cases[] = {
        {"2026-07-01T12:00:00", NULL, "2026-07-01T10:00:00.000000Z"},
        {"2026-12-01T12:00:00", NULL, "2026-12-01T11:00:00.000000Z"},
        {"1985-07-01T12:00:00", NULL, "1985-07-01T10:00:00.000000Z"},
        {"2099-07-01T12:00:00", NULL, "2099-07-01T10:00:00.000000Z"},
        {"2026-10-25T01:59:59", NULL, "2026-10-24T23:59:59.000000Z"},
        {"2026-10-25T02:30:00", NULL, "2026-10-25T00:30:00.000000Z"}, /* twice: the first */
        {"2026-10-25T02:30:00", "2026-10-25T00:34:00Z", "2026-10-25T00:30:00.000000Z"},
        {"2026-10-25T02:30:00", "2026-10-25T00:59:00Z", "2026-10-25T01:30:00.000000Z"}, /* the second */
        {"2026-10-25T03:00:00", NULL, "2026-10-25T02:00:00.000000Z"},
        {"2026-03-29T02:30:00", NULL, "2026-03-29T01:30:00.000000Z"}, /* never: as if it were winter */
        {"2026-03-29T03:00:00", NULL, "2026-03-29T01:00:00.000000Z"},
        {"2026-07-01T12:00:00Z", NULL, "2026-07-01T12:00:00.000000Z"},
    };
    struct logtime_zone berlin;
    (void)state;
    assert_int_equal(setenv("TZ", "America/New_York", 1), 0);
    assert_int_equal(logtime_zone_parse(SLICE_LIT("Europe/Berlin"), &berlin), 0);
    assert_string_equal(getenv("TZ"), "America/New_York");
    assert_int_equal(unsetenv("TZ"), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t t;
        char text[CLOCK_TEXT_MAX + 1] = "";
        berlin.has_after = cases[i].after;
        if (cases[i].after)
            assert_int_equal(clock_parse_iso(slice_str(cases[i].after), &berlin.after_ns), 0);
        assert_int_equal(logtime_parse("iso", slice_str(cases[i].text), &berlin, NOW, &t), 0);
        text[clock_print_iso(text, t)] = '\0';
        assert_string_equal(text, cases[i].want);
    }
    static const char *const none[] = {"Europe/Nowhere", "../etc/passwd", "/etc/localtime", "", "Europe"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(logtime_zone_parse(slice_str(none[i]), &berlin), E_PROTO);
}

/* A year that is given is the first record's; it goes on at New Year, and small steps back are none. */
static void test_year(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "year = 2023\ntime_formats = {'%b %e %T'}\nevent e { match = '^(?<time>.{15}) (?<w>\\w)' }\n");
    x.shows_time = true;
    (void)line(&x, "Dec 31 23:59:59 a");
    (void)line(&x, "Jan  1 00:00:01 b");
    (void)line(&x, "Dec 31 23:59:58 c");
    (void)line(&x, "Feb 29 12:00:00 d");
    (void)line(&x, "Aug  1 12:00:00 e");
    (void)line(&x, "Jan  1 12:00:00 f");
    expect(&x, "2023-12-31T23:59:59.000000Z e w=\"a\"\n2024-01-01T00:00:01.000000Z e w=\"b\"\n"
               "2023-12-31T23:59:58.000000Z e w=\"c\"\n2024-02-29T12:00:00.000000Z e w=\"d\"\n"
               "2024-08-01T12:00:00.000000Z e w=\"e\"\n2025-01-01T12:00:00.000000Z e w=\"f\"\n");
    stop(&x);
}

/* The host of a line is the event's; of an agent, which speaks for its own host, another one is the target. */
static void test_host(void **state)
{
    static const char text[] = "host = '{_h}'\nevent e { match = '^(?<_h>\\S+) (?<w>\\w)' }\n";
    const struct logfilter_options o = {.own_host = "node1.example.org"};
    struct fixture x;
    struct diag why;
    (void)state;
    start(&x, text);
    (void)line(&x, "node7 a");
    expect(&x, "e host node7 w=\"a\"\n");
    logfilter_destroy(x.f);
    assert_int_equal(logfilter_parse(slice_str(text), "test.conf", &o, &x.f, &why), 0);
    (void)line(&x, "node7 a");
    (void)line(&x, "NODE1 b");
    (void)line(&x, "node1.example.org c");
    (void)line(&x, "node1.example.orga d");
    expect(&x, "e w=\"a\" target=\"node7\"\ne w=\"b\"\ne w=\"c\"\ne w=\"d\" target=\"node1.example.orga\"\n");
    stop(&x);
}

static void test_event_time(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "time_formats = {epoch}\n time_missing = last\n"
              "event a { match = '^a (?<time>\\S+)' }\n event b { match = '^b' }\n"
              "event c { match = '^c (?<begin>\\S+) (?<end>\\S+)' time = end types = {'begin=time'} }\n");
    x.shows_time = true;
    (void)line(&x, "b");
    (void)line(&x, "a 1000");
    (void)line(&x, "b");
    (void)line(&x, "c 1 2");
    (void)line(&x, "a soon");
    expect(&x, "2026-11-16T04:00:00.000000Z b\n" /* none yet: now */
               "1970-01-01T00:16:40.000000Z a\n"
               "1970-01-01T00:16:40.000000Z b\n"
               "1970-01-01T00:00:02.000000Z c begin=1.0\n"
               "1970-01-01T00:00:02.000000Z a time_text=\"soon\"\n");
    assert_int_equal(logfilter_stats(x.f)->bad_values, 1);
    stop(&x);
}

static void test_templates(void **state)
{
    struct fixture x;
    (void)state;
    start(&x,
          "prog = 'daemon'\n levels = {'E=error', 'D=debug'}\n fields = {'site=north'}\n types = {'n=uint', "
          "'id=uint'}\n"
          "prefix = '(?<_l>[A-Z]): '\n"
          "event some { name = 'job.{what}' match = '^(?<what>\\S+) (?<_job>\\d+)(?: on (?<_where>\\S+))?'\n"
          "  level = '{_l}' id = '{_job}' target = '{_where}' fields = {'n={_job}', 'note={{{what}}', "
          "'at={_where}!'} }\n");
    (void)line(&x, "E: start 7 on n1");
    (void)line(&x, "X: a/b 8");
    expect(&x, "job.start (error) prog daemon what=\"start\" site=\"north\" n=7 note=\"{start}\" at=\"n1!\" "
               "id=7 target=\"n1\"\n"
               "job.a_b prog daemon what=\"a/b\" site=\"north\" n=8 note=\"{a/b}\" id=8\n");
    assert_int_equal(logfilter_stats(x.f)->bad_values, 1); /* X is no level */
    stop(&x);
}

static void test_prefix_and_skip(void **state)
{
    struct fixture x;
    (void)state;
    start(&x,
          "prefix = {'A(?<n>\\d+) ', 'B(?<n>\\d+) '}\n skip = {'^noise', 'quiet$'}\n unmatched = 'log.line'\n"
          "event hello { match = '^hello' }\n");
    (void)line(&x, "A1 hello");
    (void)line(&x, "B2 hello");
    (void)line(&x, "A3 noise hello");
    (void)line(&x, "A4 hello quiet");
    (void)line(&x, "hello A5 ");
    (void)line(&x, "A6 goodbye");
    expect(&x, "hello n=1\nhello n=2\nlog.line text=\"hello A5 \"\nlog.line text=\"A6 goodbye\"\n");
    assert_int_equal(logfilter_stats(x.f)->skipped, 2);
    assert_int_equal(logfilter_stats(x.f)->unmatched, 2);
    stop(&x);
}

static void test_multiline_start(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "multiline { start = '^\\S' join = '|' max_lines = 4 wait = 3s }\n event e { match = "
              "'^(?<all>.*)$' }\n");
    assert_int_equal(logfilter_wait_ns(x.f), 3 * NS_PER_S);
    assert_int_equal(line(&x, " stray"), LOGFILTER_DONE);
    assert_int_equal(line(&x, "one"), LOGFILTER_STARTED);
    assert_int_equal(line(&x, " more"), LOGFILTER_HELD);
    expect(&x, "e all=\" stray\"\n");
    assert_int_equal(line(&x, "two"), LOGFILTER_STARTED);
    expect(&x, "e all=\"one| more\"\n");
    (void)line(&x, " 2");
    (void)line(&x, " 3");
    assert_int_equal(line(&x, " 4"), LOGFILTER_DONE); /* as many as there may be */
    expect(&x, "e all=\"two| 2| 3| 4\"\n");
    (void)line(&x, "three");
    logfilter_flush(x.f, NOW, &x.sink);
    logfilter_flush(x.f, NOW, &x.sink);
    expect(&x, "e all=\"three\"\n");
    stop(&x);
}

static void test_multiline_continue_and_end(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "multiline { continue = '^\\s' }\n event e { match = '(?s)^(?<all>.*)$' }\n");
    assert_int_equal(line(&x, "one"), LOGFILTER_STARTED);
    assert_int_equal(line(&x, "\tat"), LOGFILTER_HELD);
    assert_int_equal(line(&x, "two"), LOGFILTER_STARTED);
    expect(&x, "e all=\"one\n\tat\"\n");
    stop(&x);
    start(&x, "multiline { end = ';$' join = '' }\n event e { match = '^(?<all>.*)$' }\n");
    assert_int_equal(line(&x, "a;"), LOGFILTER_DONE);
    assert_int_equal(line(&x, "b"), LOGFILTER_STARTED);
    assert_int_equal(line(&x, "c"), LOGFILTER_HELD);
    assert_int_equal(line(&x, "d;"), LOGFILTER_DONE);
    expect(&x, "e all=\"a;\"\ne all=\"bcd;\"\n");
    stop(&x);
}

static void test_long_record(void **state)
{
    struct fixture x;
    char *text = malloc(60001);
    (void)state;
    memset(text, 'x', 60000);
    text[60000] = '\0';
    start(&x, "multiline { continue = '^x' }\n event e { match = '^(?<first>.)' }\n");
    (void)line(&x, "start");
    (void)line(&x, text);
    assert_int_equal(logfilter_stats(x.f)->cut, 0);
    (void)line(&x, text);
    logfilter_flush(x.f, NOW, &x.sink);
    expect(&x, "e first=\"s\" truncated=true\n");
    assert_int_equal(logfilter_stats(x.f)->cut, 1);
    assert_int_equal(logfilter_line(x.f, SLICE_LIT("y"), true, NOW, &x.sink), LOGFILTER_STARTED);
    logfilter_flush(x.f, NOW, &x.sink);
    expect(&x, "e first=\"y\" truncated=true\n");
    stop(&x);
    free(text);
}

#define JOBS                                                                                                 \
    "time_formats = {epoch}\n prefix = '(?<time>\\d+) '\n types = {'cpus=uint'}\n table job { max = 3 }\n"   \
    "event job.submit { match = '^submit (?<id>\\d+) (?<user>\\S+)' remember = 'job {id}' keep = {user} }\n" \
    "event job.start { match = '^start (?<id>\\d+) (?<cpus>\\d+)' recall = 'job {id}' remember = 'job "      \
    "{id}' keep = {user, cpus} }\n"                                                                          \
    "event note { match = '^note (?<id>\\d+) (?<note>\\S+)' remember = 'note {id}' emit = no }\n"            \
    "event job.drop { match = '^drop (?<id>\\d+)' recall = 'note {id}' forget = 'note {id}' }\n"             \
    "event job.end { match = '^end (?<id>\\d+)' end = 'job {id}' }\n"

static void test_tables(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, JOBS);
    (void)line(&x, "10 submit 1 ann");
    (void)line(&x, "20 start 1 4");
    (void)line(&x, "25 end 1");
    (void)line(&x, "26 end 1");
    expect(&x, "job.submit id=1 user=\"ann\"\njob.start id=1 cpus=4 user=\"ann\"\n"
               "job.end id=1 cpus=4 user=\"ann\" elapsed=5.0\njob.end id=1\n");
    assert_int_equal(logfilter_stats(x.f)->unpaired, 1);
    (void)line(&x, "30 note 5 odd");
    (void)line(&x, "30 drop 5");
    (void)line(&x, "30 drop 5");
    expect(&x, "job.drop id=5 note=\"odd\"\njob.drop id=5\n");
    assert_int_equal(logfilter_stats(x.f)->skipped, 1);
    for (int i = 1; i <= 4; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "40 submit %d u%d", i, i);
        (void)line(&x, text);
    }
    strbuf_reset(&x.seen);
    assert_int_equal(logfilter_stats(x.f)->evicted, 1);
    (void)line(&x, "41 end 1"); /* forgotten: the oldest of four */
    (void)line(&x, "42 end 2");
    expect(&x, "job.end id=1\njob.end id=2 user=\"u2\" elapsed=2.0\n");
    stop(&x);
}

static void test_save(void **state)
{
    struct fixture x, y;
    struct strbuf saved = {0};
    (void)state;
    start(&x, JOBS);
    start(&y, JOBS);
    (void)line(&x, "10 submit 1 ann");
    (void)line(&x, "11 submit 2 bob");
    (void)line(&x, "12 submit 3 cid");
    (void)line(&x, "12 note 3 odd");
    logfilter_save(x.f, &saved, 1000);
    assert_int_equal(logfilter_restore(y.f, strbuf_slice(&saved)), 0);
    (void)line(&y, "13 submit 4 dan"); /* 1 is still the oldest */
    (void)line(&y, "20 end 1");
    (void)line(&y, "20 end 2");
    (void)line(&y, "20 drop 3");
    expect(&y,
           "job.submit id=4 user=\"dan\"\njob.end id=1\njob.end id=2 user=\"bob\" elapsed=9.0\n"
           "job.drop id=3 note=\"odd\"\n");
    for (size_t n = 0; n < saved.n; n++) { /* any part of it is refused or is whole entries */
        struct fixture z;
        start(&z, JOBS);
        int r = logfilter_restore(z.f, slice_of(saved.p, n));
        assert_true(r == 0 || r == E_PROTO);
        stop(&z);
    }
    strbuf_reset(&saved);
    logfilter_save(x.f, &saved, 100); /* room for some: the newest */
    assert_true(saved.n <= 100);
    stop(&y);
    start(&y, JOBS);
    assert_int_equal(logfilter_restore(y.f, strbuf_slice(&saved)), 0);
    assert_true(logfilter_stats(y.f)->evicted > 0);
    (void)line(&y, "20 end 3");
    expect(&y, "job.end id=3 user=\"cid\" elapsed=8.0\n");
    stop(&x);
    stop(&y);
    strbuf_fini(&saved);
}

#define CALLS \
    "time_formats = {epoch}\ntable call { queue = yes age = 1h }\n" \
    "event ask { match = '^(?<time>\\d+) ask (?<what>\\w+)' id = '{what}-{_number}' remember = 'call {what}' keep = {id} }\n" \
    "event done { match = '^(?<time>\\d+) done (?<what>\\w+)' end = 'call {what}' }\n"

/* A queue: calls with one key are taken in their order; each has an id of its own, also after a restart; one that
 * nobody ended is given up. */
static void test_queue(void **state)
{
    struct fixture x, y;
    struct strbuf saved = {0};
    (void)state;
    start(&x, CALLS);
    start(&y, CALLS);
    (void)line(&x, "10 ask a");
    (void)line(&x, "11 ask a");
    (void)line(&x, "12 ask b");
    (void)line(&x, "13 done a");
    expect(&x, "ask what=\"a\" id=\"a-1\"\nask what=\"a\" id=\"a-2\"\nask what=\"b\" id=\"b-3\"\n"
               "done what=\"a\" id=\"a-1\" elapsed=3.0\n");
    (void)line(&x, "14 ask a");
    strbuf_reset(&x.seen);
    logfilter_save(x.f, &saved, 1000);
    assert_int_equal(logfilter_restore(y.f, strbuf_slice(&saved)), 0);
    (void)line(&y, "15 done a");
    (void)line(&y, "16 done a");
    (void)line(&y, "16 done a");
    (void)line(&y, "17 ask a");
    expect(&y, "done what=\"a\" id=\"a-2\" elapsed=4.0\ndone what=\"a\" id=\"a-5\" elapsed=2.0\ndone what=\"a\"\n"
               "ask what=\"a\" id=\"a-9\"\n");
    (void)line(&y, "9000 ask b");
    (void)line(&y, "9001 done b");
    expect(&y, "ask what=\"b\" id=\"b-10\"\ndone what=\"b\" id=\"b-10\" elapsed=1.0\n");
    assert_int_equal(logfilter_stats(y.f)->evicted, 2); /* b-3 and a-9 */
    stop(&x);
    stop(&y);
    strbuf_fini(&saved);
}

/* A full queue forgets its oldest entry, whatever its key. */
static void test_full_queue(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "table t { queue = yes max = 2 }\n"
              "event put { match = '^put (?<k>\\w) (?<v>\\w)' remember = 't {k}' keep = {v} emit = no }\n"
              "event get { match = '^get (?<k>\\w)' recall = 't {k}' forget = 't {k}' }\n");
    static const char *const lines[] = {"put a 1", "put b 2", "put a 3", "get a", "get b", "get a"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        (void)line(&x, lines[i]);
    expect(&x, "get k=\"a\" v=3\nget k=\"b\" v=2\nget k=\"a\"\n");
    assert_int_equal(logfilter_stats(x.f)->evicted, 1);
    assert_int_equal(logfilter_stats(x.f)->unpaired, 1);
    stop(&x);
}

/* The log's clock: as much as has passed here since a time was read is added to it. */
static void test_clock(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "time_formats = {epoch}\ntime_missing = clock\nevent e { match = '^(?<time>\\d+)?(?<w>\\w)' }\n");
    x.shows_time = true;
    (void)logfilter_line(x.f, SLICE_LIT("a"), false, NOW, &x.sink);
    (void)logfilter_line(x.f, SLICE_LIT("1000b"), false, NOW, &x.sink);
    (void)logfilter_line(x.f, SLICE_LIT("c"), false, NOW, &x.sink);
    (void)logfilter_line(x.f, SLICE_LIT("d"), false, NOW + 90 * NS_PER_S, &x.sink);
    (void)logfilter_line(x.f, SLICE_LIT("e"), false, NOW - 90 * NS_PER_S, &x.sink); /* the clock here was set back */
    expect(&x, "2026-11-16T04:00:00.000000Z e w=\"a\"\n1970-01-01T00:16:40.000000Z e w=\"b\"\n"
               "1970-01-01T00:16:40.000000Z e w=\"c\"\n1970-01-01T00:18:10.000000Z e w=\"d\"\n"
               "1970-01-01T00:16:40.000000Z e w=\"e\"\n");
    stop(&x);
}

/* A record that shows its end waits for no other. */
static void test_whole(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "multiline { start = '^[ab]' whole = ';$' join = ' ' }\nevent e { match = '^(?<all>.*)' }\n");
    assert_int_equal(line(&x, "a 1;"), LOGFILTER_DONE);
    assert_int_equal(line(&x, "a 2"), LOGFILTER_STARTED);
    assert_int_equal(line(&x, "more;"), LOGFILTER_DONE);
    expect(&x, "e all=\"a 1;\"\ne all=\"a 2 more;\"\n");
    stop(&x);
}

static void test_refused(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "event e { match = 'x' }");
    x.answer = E_LIMIT;
    (void)line(&x, "x");
    assert_int_equal(logfilter_stats(x.f)->refused, 1);
    assert_int_equal(logfilter_stats(x.f)->events, 0);
    stop(&x);
}

/* A pattern that would take for ever gives up, and says so. */
static void test_match_limit(void **state)
{
    struct fixture x;
    char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";
    (void)state;
    start(&x, "event slow { match = '^(?:(?:a|aa)+)+$' }\n");
    (void)line(&x, text);
    assert_true(logfilter_stats(x.f)->gave_up >= 1);
    assert_int_equal(logfilter_stats(x.f)->unmatched, 1);
    stop(&x);
}

static void test_not_utf8(void **state)
{
    struct fixture x;
    (void)state;
    start(&x, "event e { match = '^(?<a>\\w+) (?<b>.)' }");
    (void)line(&x, "x \xc3\xa9!"); /* one character, two bytes */
    (void)line(&x, "ok \xff");     /* none */
    (void)line(&x, "ok z\xff");
    expect(&x, "e a=\"x\" b=\"\xc3\xa9\"\ne a=\"ok\" b=\"z\"\n");
    assert_int_equal(logfilter_stats(x.f)->gave_up, 0);
    stop(&x);
}

static void test_plain(void **state)
{
    struct fixture x = {.sink = {take_event, &x}};
    struct diag why;
    (void)state;
    assert_int_equal(logfilter_plain("log.line", &x.f, &why), 0);
    (void)line(&x, "anything {at} all");
    expect(&x, "log.line text=\"anything {at} all\"\n");
    stop(&x);
    assert_int_equal(logfilter_plain("no name", &x.f, &why), E_PROTO);
}

static void test_errors(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "test.conf:1: no event; add one, or unmatched"},
        {"# only\n# words\n", "test.conf:1: no event"},
        {"event e {\n match = '('\n}", "test.conf:2: pattern, byte 2: missing closing parenthesis"},
        {"# c\n/* two\nlines */ event e { // c\n match = {'a', '#x',\n 'b)'}\n}",
         "test.conf:5: pattern, byte 2: unmatched"},
        {"event e {\n match = 'a'\n bogus = 1\n}", "test.conf:3: no such option 'bogus'"},
        {"event e {\n match = 'a'\n}\nevent e {\n match = 'b'\n}", "test.conf:4: found duplicate title 'e'"},
        {"event e {\n}\n", "test.conf:2: event 'e' has no match"},
        {"event e {\n match = 'a\\C'\n}", "test.conf:2: pattern"},
        {"event e {\n match = ''\n}", "test.conf:2: a pattern has 1 to 8192 bytes"},
        {"event e {\n match = 'a'\n id = '{x}'\n}", "test.conf:2: id: {x} is no group of match or prefix"},
        {"event e {\n match = 'a'\n name = 'a{'\n}", "test.conf:2: name: {} is no group"},
        {"event e {\n match = 'a'\n time = t\n}", "test.conf:2: time: t is no group"},
        {"event e {\n match = 'a'\n types = {'a=number'}\n}", "test.conf:3: types: GROUP=TYPE; TYPE is"},
        {"event e {\n match = 'a'\n fields = {'a b=c'}\n}", "test.conf:3: fields: NAME=TEXT"},
        {"event e {\n match = 'a'\n remember = 'job'\n}", "test.conf:2: remember: TABLE KEY"},
        {"event e {\n match = 'a'\n recall = 'job 1'\n}",
         "test.conf:2: no event remembers anything in table job"},
        {"levels = {'E=worse'}", "test.conf:1: levels: TEXT=LEVEL"},
        {"time_formats = {'%Q'}", "test.conf:1: time_formats: %Q is none of"},
        {"\nzone = mars", "test.conf:2: zone: local, utc, an offset"},
        {"time_missing = never", "test.conf:1: time_missing: now, last or clock"},
        {"unmatched = 'a b'", "test.conf:1: unmatched: an event's name"},
        {"multiline {\n join = ' '\n}\n unmatched = a",
         "test.conf:3: multiline: one pattern as start, continue or end"},
        {"multiline { start = 'a' end = 'b' }\n unmatched = a", "test.conf:1: multiline: one pattern"},
        {"multiline { wait = soon }", "test.conf:1: wait: a duration"},
        {"table t { max = 0 }", "test.conf:1: max: 1 to 65536"},
        {"event e {\n match = \"a", "test.conf:3: premature end of file"},
        {"\xff", "test.conf:1: no filter: more than 256 KiB, or not UTF-8 text"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct logfilter *f = NULL;
        struct diag why = {0};
        int r = logfilter_parse(slice_str(cases[i].text), "test.conf", NULL, &f, &why);
        assert_null(f);
        assert_true(r == E_PROTO || r == E_LIMIT);
        if (strncmp(why.message, cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("'%s' gave '%s', not '%s'", cases[i].text, why.message, cases[i].want);
    }
}

static void test_limits(void **state)
{
    struct strbuf text = {0};
    struct logfilter *f = NULL;
    struct diag why = {0};
    (void)state;
    for (int i = 0; i <= LOGFILTER_RULES_MAX; i++)
        strbuf_printf(&text, "event e%d { match = 'a' }\n", i);
    assert_int_equal(logfilter_parse(strbuf_slice(&text), "t", NULL, &f, &why), E_LIMIT);
    assert_non_null(strstr(why.message, "more than 256 events"));
    strbuf_reset(&text);
    strbuf_add_str(&text, "event e { match = {'a'");
    for (int i = 0; i < LOGFILTER_PATTERNS_MAX; i++)
        strbuf_add_str(&text, ",'a'");
    strbuf_add_str(&text, "} }");
    assert_int_equal(logfilter_parse(strbuf_slice(&text), "t", NULL, &f, &why), E_LIMIT);
    assert_non_null(strstr(why.message, "more than 512 patterns"));
    strbuf_reset(&text);
    strbuf_add_str(&text, "event e { match = '");
    for (int i = 0; i <= LOGFILTER_GROUPS_MAX; i++)
        strbuf_printf(&text, "(?<g%d>a)", i);
    strbuf_add_str(&text, "' }");
    assert_int_equal(logfilter_parse(strbuf_slice(&text), "t", NULL, &f, &why), E_LIMIT);
    assert_non_null(strstr(why.message, "at most 64 named groups"));
    assert_null(f);
    strbuf_fini(&text);
}

static void test_check(void **state)
{
    struct diag why = {0};
    (void)state;
    assert_int_equal(logfilter_check(GRIDLINE_SOURCE "/share/filters/sshd.conf", &why), 0);
    assert_int_equal(logfilter_check("/nonexistent/x.conf", &why), -ENOENT);
    assert_non_null(strstr(why.message, "/nonexistent/x.conf"));
    assert_true(logfilter_check("/", &why) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_local_time),
        cmocka_unit_test(test_event_time),
        cmocka_unit_test(test_named_zone),
        cmocka_unit_test(test_year),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_prefix_and_skip),
        cmocka_unit_test(test_multiline_start),
        cmocka_unit_test(test_multiline_continue_and_end),
        cmocka_unit_test(test_long_record),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_match_limit),
        cmocka_unit_test(test_not_utf8),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
