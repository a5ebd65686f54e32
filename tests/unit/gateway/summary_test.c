/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gateway/stream_asks.h"

#include "base/mem.h"
#include "base/num.h"
#include "event/rate.h"
#include "gateway/summary.h"

#include <errno.h>

static struct summary *summary;
static struct asks asks;
static struct registry *registry;
static struct batch_builder *builder;

static const char windows[] = "1m,10m,60m";

static void open_with(const struct summary_options *o)
{
    struct diag why = {0};
    asks_init(&asks);
    assert_int_equal(summary_create(o, &summary, &why), 0);
    assert_int_equal(summary_add_verbs(summary, asks.control), 0);
}

static void open_usual(void)
{
    open_with(
        &(struct summary_options){.streams = 1000, .memory = 64 << 20, .windows = windows, .events = ""});
}

static void close_all(void)
{
    summary_destroy(summary);
    asks_fini(&asks);
}

#define FIELD(n, t, k)                                                                     \
    {                                                                                      \
        .name = {n, sizeof(n) - 1}, .unit = {"", 0}, .help = {"", 0}, .type = t, .kind = k \
    }
#define KEY(n)                                                                                             \
    {                                                                                                      \
        .name = {n, sizeof(n) - 1}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT, .role = ROLE_KEY \
    }

enum { DEVICE, READS, TEMPERATURE, BALANCE, NOTE, FIELDS };
static const struct field disk_fields[FIELDS] = {
    [DEVICE] = KEY("device"),
    [READS] = FIELD("reads", VALUE_UINT, KIND_COUNTER),
    [TEMPERATURE] = FIELD("temperature", VALUE_FLOAT, KIND_GAUGE),
    [BALANCE] = FIELD("balance", VALUE_INT, KIND_GAUGE),
    [NOTE] = FIELD("note", VALUE_TEXT, KIND_TEXT),
};
static struct schema *disk, *grown;

static int set_up(void **unused)
{
    struct field more[FIELDS + 2];
    (void)unused;
    registry = registry_create();
    builder = batch_builder_create(registry, 0);
    more[0] = (struct field)FIELD("writes", VALUE_UINT, KIND_COUNTER); /* before the others */
    memcpy(more + 1, disk_fields, sizeof disk_fields);
    more[FIELDS + 1] = (struct field)FIELD("reads", VALUE_FLOAT, KIND_GAUGE); /* a name with two types */
    return schema_create(SLICE_LIT("disk"), disk_fields, FIELDS, &disk) < 0 ||
                   schema_create(SLICE_LIT("disk"), more, FIELDS + 2, &grown) < 0
               ? -1
               : 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    batch_builder_destroy(builder);
    registry_destroy(registry);
    schema_unref(disk);
    schema_unref(grown);
    return 0;
}

struct sample {
    const char *host, *device;
    int64_t time_ns;
    struct value reads, temperature, balance;
};

static void add(const struct sample *s)
{
    const struct value v[FIELDS] = {value_text(slice_str(s->device)), s->reads, s->temperature, s->balance,
                                    value_text(SLICE_LIT("a note"))};
    const struct event_head head = {
        .time_ns = s->time_ns, .host = slice_str(s->host), .prog = SLICE_LIT("agent")};
    assert_int_equal(batch_builder_add_known(builder, &head, disk, v, NULL), 0);
}

static void give(int64_t now_ns)
{
    struct batch *b = batch_builder_finish(builder, NULL);
    assert_non_null(b);
    summary_batch(summary, b, now_ns);
    batch_unref(b);
}

/* Any event of the stream. */
static struct event stream(const char *host, const char *device)
{
    static struct value v[FIELDS];
    v[DEVICE] = value_text(slice_str(device));
    return (struct event){.host = slice_str(host), .prog = SLICE_LIT("agent"), .schema = disk, .values = v};
}

static bool get(const char *device, const char *field, const char *window, int64_t now_ns,
                struct summary_value *out)
{
    int64_t length;
    struct event e = stream("h1", device);
    assert_int_equal(num_parse_duration(slice_str(window), &length), 0);
    return summary_get(summary, &e, slice_str(field), length, now_ns, out);
}

static const int64_t minute = 60 * NS_PER_S;
static const int64_t start = INT64_C(1800000000) * NS_PER_S; /* a whole hour */

/* ---------------------------------------------------------------- by hand */

static void a_range_and_what_is_in_it(void **unused)
{
    struct summary_value v;
    (void)unused;
    open_usual();
    for (int i = 0; i < 120; i++) /* one a second, until start + 119 s */
        add(&(struct sample){"h1", "sda", start + i * NS_PER_S, value_uint((uint64_t)(1000 + 10 * i)),
                             value_float(i), value_int(-i)});
    give(start + 119 * NS_PER_S);
    int64_t now = start + 115 * NS_PER_S; /* the step that runs is from 110 to 120 */
    assert_true(get("sda", "temperature", "1m", now, &v));
    assert_int_equal(v.from_ns, start + 60 * NS_PER_S);
    assert_int_equal(v.to_ns, start + 120 * NS_PER_S);
    assert_int_equal(v.count, 60);
    assert_true(value_eq(v.min, value_float(60)));
    assert_true(value_eq(v.max, value_float(119)));
    assert_true(value_eq(v.first, value_float(60)));
    assert_true(value_eq(v.last, value_float(119)));
    assert_true(v.sum == 60 * 89.5 && v.mean == 89.5);
    assert_int_equal(v.rate.type, VALUE_NONE);
    assert_int_equal(v.last_ns, start + 119 * NS_PER_S);
    assert_true(get("sda", "reads", "1m", now, &v));
    assert_true(value_eq(v.rate, value_float(10)));
    assert_true(value_eq(v.max, value_uint(1000 + 1190)));
    assert_true(get("sda", "balance", "10m", now, &v));
    assert_int_equal(v.count, 120);
    assert_true(value_eq(v.min, value_int(-119)));
    assert_true(value_eq(v.first, value_int(0)));
    assert_int_equal(v.to_ns - v.from_ns, 10 * minute);
    assert_false(get("sda", "temperature", "1m", now + minute + 5 * NS_PER_S, &v)); /* it has been quiet */
    assert_true(get("sda", "temperature", "60m", now + 50 * minute, &v));
    assert_int_equal(v.count, 120);
    assert_false(get("sda", "temperature", "60m", now + 60 * minute, &v));
    assert_false(get("sda", "note", "60m", now, &v));
    assert_false(get("sda", "temperature", "5m", now, &v)); /* no such window */
    assert_false(get("sdb", "temperature", "1m", now, &v));
    close_all();
}

static void resets_are_gaps(void **unused)
{
    struct summary_value v;
    const uint64_t readings[] = {100, 200, 300, 50,
                                 150}; /* 10 s each: 3 intervals of 100, one nobody knows */
    (void)unused;
    open_usual();
    for (int i = 0; i < 5; i++)
        add(&(struct sample){"h1", "sda", start + i * 10 * NS_PER_S, value_uint(readings[i]), value_none(),
                             value_none()});
    give(start + 41 * NS_PER_S);
    assert_true(get("sda", "reads", "10m", start + 41 * NS_PER_S, &v));
    assert_true(value_eq(v.rate, value_float(10)));
    assert_int_equal(v.count, 5);
    add(&(struct sample){"h1", "sdb", start, value_uint(7), value_none(), value_none()});
    give(start + NS_PER_S);
    assert_true(get("sdb", "reads", "10m", start + NS_PER_S, &v));
    assert_int_equal(v.rate.type, VALUE_NONE);                            /* one reading has no rate */
    assert_false(get("sdb", "temperature", "10m", start + NS_PER_S, &v)); /* missing is missing */
    close_all();
}

static void what_is_no_number_is_left_out(void **unused)
{
    struct summary_value v;
    (void)unused;
    open_usual();
    add(&(struct sample){"h1", "sda", start, value_none(), value_float((double)NAN), value_int(INT64_MIN)});
    add(&(struct sample){"h1", "sda", start + 1, value_none(), value_float(3), value_int(INT64_MAX)});
    give(start + NS_PER_S);
    assert_true(get("sda", "temperature", "1m", start + NS_PER_S, &v));
    assert_int_equal(v.count, 1);
    assert_true(v.mean == 3);
    assert_true(get("sda", "balance", "1m", start + NS_PER_S, &v));
    assert_true(value_eq(v.min, value_int(INT64_MIN)) && value_eq(v.max, value_int(INT64_MAX)));
    add(&(struct sample){"h1", "sda", start + 2, value_none(), value_float((double)INFINITY), value_none()});
    give(start + NS_PER_S);
    assert_true(get("sda", "temperature", "1m", start + NS_PER_S, &v));
    assert_true(isinf(v.mean) && v.count == 2);
    close_all();
}

/* Times at the ends of what a time can be: outside, counted, and no harm. */
static void times_from_anywhere(void **unused)
{
    const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    struct summary_counts n;
    struct summary_value v;
    (void)unused;
    open_usual();
    add(&(struct sample){"h1", "sda", start, value_uint(1), value_float(1), value_int(1)});
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        add(&(struct sample){"h1", "sda", times[i], value_uint(9), value_float(9), value_int(9)});
    add(&(struct sample){"h1", "sda", start + NS_PER_S, value_uint(5), value_float(1), value_int(1)});
    give(start + NS_PER_S);
    assert_true(get("sda", "reads", "60m", start + NS_PER_S, &v));
    assert_int_equal(v.count, 2);
    assert_true(value_eq(v.rate, value_float(4)));
    assert_int_equal(v.late, 5);
    assert_int_equal(v.ahead, 2);
    summary_counts(summary, &n);
    assert_int_equal(n.late, 3 * 5);
    assert_int_equal(n.ahead, 3 * 2);
    close_all();
}

/* The clock is set back: what is there stays, what can't be added is counted. */
static void a_clock_that_goes_back(void **unused)
{
    struct summary_value v;
    (void)unused;
    open_usual();
    add(&(struct sample){"h1", "sda", start, value_none(), value_float(1), value_none()});
    give(start);
    /* Seven steps of 10 s before, so the same slot; and of the 10m window the step before */
    add(&(struct sample){"h1", "sda", start - 70 * NS_PER_S, value_none(), value_float(2), value_none()});
    give(start - 70 * NS_PER_S);
    assert_true(get("sda", "temperature", "1m", start, &v));
    assert_int_equal(v.count, 1);
    assert_true(v.max.f == 1);
    assert_int_equal(v.late, 1);
    assert_true(get("sda", "temperature", "10m", start, &v));
    assert_int_equal(v.count, 2);
    close_all();
}

static void fields_that_come_later(void **unused)
{
    struct summary_value v;
    struct summary_counts n;
    (void)unused;
    open_usual();
    add(&(struct sample){"h1", "sda", start, value_uint(10), value_float(1), value_int(1)});
    give(start);
    for (int i = 1; i < 5; i++) { /* two versions by turns */
        const struct value values[FIELDS + 2] = {value_uint((uint64_t)(100 * i)),
                                                 value_text(SLICE_LIT("sda")),
                                                 value_none(),
                                                 value_float(2 * i),
                                                 value_none(),
                                                 value_none(),
                                                 value_float(0.5)};
        const struct event_head head = {
            .time_ns = start + (10 * i - 5) * NS_PER_S, .host = SLICE_LIT("h1"), .prog = SLICE_LIT("agent")};
        assert_int_equal(batch_builder_add_known(builder, &head, grown, values, NULL), 0);
        add(&(struct sample){"h1", "sda", start + 10 * i * NS_PER_S, value_uint((uint64_t)(10 + 20 * i)),
                             value_none(), value_none()});
    }
    int64_t now = start + 41 * NS_PER_S;
    give(now);
    assert_true(get("sda", "reads", "1m", now, &v)); /* the uint, which was first */
    assert_int_equal(v.count, 5);
    assert_true(value_eq(v.rate, value_float(2)));
    assert_true(get("sda", "writes", "1m", now, &v));
    assert_int_equal(v.count, 4);
    assert_true(value_eq(v.rate, value_float(10)));
    assert_true(get("sda", "temperature", "1m", now, &v));
    assert_int_equal(v.count, 5);
    assert_true(v.sum == 1 + 2 + 4 + 6 + 8);
    summary_counts(summary, &n);
    assert_int_equal(n.streams, 1);
    assert_int_equal(n.left_out, 0);
    assert_true(summary_check(summary));
    close_all();
}

/* ---------------------------------------------------------------- against a naive computation */

enum { STREAM_EVENTS = 6000, N_MANY = 8 };
static const char many_windows[] = "6s,1m,90s,10m,15m,60m,70m,2h"; /* several chains */
static const int64_t many_lengths_s[N_MANY] = {6, 60, 90, 600, 900, 3600, 4200, 7200};

struct arrived {
    struct sample sample;
    int64_t now_ns; /* when it came */
};

static int64_t floor_to(int64_t t, int64_t step)
{
    return t - ((t % step) + step) % step;
}

static const struct value *value_of(const struct sample *s, int field)
{
    return field == READS ? &s->reads : field == TEMPERATURE ? &s->temperature : &s->balance;
}

static double number_of(struct value v)
{
    return v.type == VALUE_FLOAT ? v.f : v.type == VALUE_UINT ? (double)v.u : (double)v.i;
}

static bool is_less(struct value a, struct value b)
{
    return a.type == VALUE_FLOAT ? a.f < b.f : a.type == VALUE_UINT ? a.u < b.u : a.i < b.i;
}

/* The end of what a window takes at that moment. */
static int64_t end_at(int64_t window_ns, int64_t now_ns)
{
    return floor_to(now_ns, window_ns / SUMMARY_STEPS) + 2 * (window_ns / SUMMARY_STEPS);
}

/* And of all of them: what is later has not come, as far as counters are concerned. */
static int64_t last_end_at(int64_t now_ns)
{
    int64_t end = 0;
    for (size_t i = 0; i < N_MANY; i++) {
        int64_t one = end_at(many_lengths_s[i] * NS_PER_S, now_ns);
        end = one > end ? one : end;
    }
    return end;
}

static void naive_add(struct summary_value *s, const struct sample *e, struct value v)
{
    int64_t first_ns = s->count ? (int64_t)s->late : 0; /* kept there meanwhile */
    s->sum += number_of(v);
    if (s->count == 0 || is_less(v, s->min))
        s->min = v;
    if (s->count == 0 || is_less(s->max, v))
        s->max = v;
    if (s->count == 0 || e->time_ns < first_ns || (e->time_ns == first_ns && is_less(v, s->first))) {
        s->first = v;
        s->late = (uint64_t)e->time_ns;
    }
    if (s->count == 0 || e->time_ns > s->last_ns || (e->time_ns == s->last_ns && is_less(s->last, v))) {
        s->last = v;
        s->last_ns = e->time_ns;
    }
    s->count++;
}

static bool naive(const struct arrived *all, size_t n, int field, int64_t window_ns, int64_t now_ns,
                  struct summary_value *out)
{
    int64_t step = window_ns / SUMMARY_STEPS, to = floor_to(now_ns, step) + step;
    const struct sample *before = NULL;
    double gain = 0;
    int64_t over = 0;
    *out = (struct summary_value){.from_ns = to - window_ns, .to_ns = to};
    for (size_t i = 0; i < n; i++) {
        const struct sample *e = &all[i].sample;
        struct value v = *value_of(e, field);
        bool is_in =
            e->time_ns >= out->from_ns && e->time_ns < to && e->time_ns < end_at(window_ns, all[i].now_ns);
        if (v.type == VALUE_NONE)
            continue;
        if (is_in)
            naive_add(out, e, v);
        if (field != READS || e->time_ns >= last_end_at(all[i].now_ns) ||
            (before && e->time_ns <= before->time_ns))
            continue;
        if (before && is_in && v.u >= before->reads.u) {
            gain += (double)(v.u - before->reads.u);
            over += e->time_ns - before->time_ns;
        }
        before = e;
    }
    out->mean = out->sum / (double)out->count;
    out->rate = over ? rate_rounded(gain * 1e9 / (double)over) : value_none();
    return out->count > 0;
}

static void compare(const struct arrived *all, size_t n, int64_t now_ns)
{
    static const char *const fields[FIELDS] = {
        [READS] = "reads", [TEMPERATURE] = "temperature", [BALANCE] = "balance"};
    for (int field = READS; field <= BALANCE; field++)
        for (size_t w = 0; w < N_MANY; w++) {
            struct summary_value is, should;
            struct event e = stream("h1", "sda");
            int64_t length = many_lengths_s[w] * NS_PER_S;
            bool has = summary_get(summary, &e, slice_str(fields[field]), length, now_ns, &is);
            bool has_naive = naive(all, n, field, length, now_ns, &should);
            if (has != has_naive)
                fail_msg("%s %zu after %zu events: %d and not %d", fields[field], w, n, has, has_naive);
            if (!has)
                continue;
            if (is.from_ns != should.from_ns || is.to_ns != should.to_ns || is.count != should.count ||
                !value_eq(is.min, should.min) || !value_eq(is.max, should.max) ||
                !value_eq(is.first, should.first) || !value_eq(is.last, should.last) ||
                is.sum != should.sum || is.mean != should.mean || is.last_ns != should.last_ns ||
                !value_eq(is.rate, should.rate))
                fail_msg(
                    "%s %zu after %zu events: count %llu and not %llu, sum %g and not %g, rate %g and not %g",
                    fields[field], w, n, (unsigned long long)is.count, (unsigned long long)should.count,
                    is.sum, should.sum, is.rate.f, should.rate.f);
        }
}

/* A stream with late events, some that are ahead, gaps, resets, missing values, and times that come twice.
 * Floats are quarters, so that sums are exact in any order. */
static struct sample random_sample(uint64_t *seed, int64_t now_ns, uint64_t *counter)
{
    uint64_t r = test_random(seed);
    int64_t time = now_ns - (int64_t)(test_random(seed) % 3) * NS_PER_S;
    if (r % 10 == 0)
        time = now_ns - (int64_t)(test_random(seed) % (uint64_t)(3 * minute));
    if (r % 37 == 0)
        time = now_ns - (int64_t)(test_random(seed) % (uint64_t)(150 * minute));
    if (r % 41 == 0)
        time = now_ns + (int64_t)(test_random(seed) % (uint64_t)(60 * minute));
    *counter = r % 59 == 0 ? 0 : *counter + test_random(seed) % 1000;
    return (struct sample){"h1",
                           "sda",
                           time,
                           r % 7 ? value_uint(*counter) : value_none(),
                           r % 11 ? value_float((double)(int64_t)(test_random(seed) % 4000) / 4 - 500)
                                  : value_none(),
                           r % 13 ? value_int((int64_t)(test_random(seed) % 2000) - 1000) : value_none()};
}

static void windows_equal_a_naive_computation(void **unused)
{
    (void)unused;
    for (uint64_t run = 1; run <= 4; run++) {
        uint64_t seed = run, counter = 0;
        int64_t now = start + (int64_t)run * 12345;
        struct arrived *all = calloc(STREAM_EVENTS, sizeof *all);
        open_with(&(struct summary_options){
            .streams = 10, .memory = 64 << 20, .windows = many_windows, .events = ""});
        for (size_t n = 0; n < STREAM_EVENTS;) {
            now += (int64_t)(test_random(&seed) % (uint64_t)(run * 4 * NS_PER_S));
            if (test_random(&seed) % 500 == 0)
                now += (int64_t)(test_random(&seed) % (uint64_t)(100 * minute)); /* quiet */
            size_t batch = 1 + test_random(&seed) % 4;
            for (size_t i = 0; i < batch && n < STREAM_EVENTS; i++, n++) {
                all[n] = (struct arrived){random_sample(&seed, now, &counter), now};
                add(&all[n].sample);
            }
            give(now);
            if (test_random(&seed) % 100 == 0)
                compare(all, n, now);
            if (test_random(&seed) % 100 == 0) /* as if nothing came for a while */
                compare(all, n, now + (int64_t)(test_random(&seed) % (uint64_t)(20 * minute)));
        }
        compare(all, STREAM_EVENTS, now);
        assert_true(summary_check(summary));
        free(all);
        close_all();
    }
}

/* ---------------------------------------------------------------- bounds */

static void fill(const char *host, int from, int to, int64_t at_ns)
{
    char device[16];
    for (int i = from; i < to; i++) {
        (void)snprintf(device, sizeof device, "sd%d", i);
        add(&(struct sample){host, device, at_ns, value_uint((uint64_t)i), value_float(i), value_int(i)});
        if (i % 1000 == 999)
            give(at_ns);
    }
    if (batch_builder_count(builder))
        give(at_ns);
}

static void streams_that_are_kept_stay_right(void **unused)
{
    struct summary_counts n;
    struct summary_value v;
    (void)unused;
    open_with(
        &(struct summary_options){.streams = 100, .memory = 64 << 20, .windows = windows, .events = ""});
    fill("h1", 0, 150, start);
    fill("h1", 0, 150, start + NS_PER_S);
    summary_counts(summary, &n);
    assert_int_equal(n.streams, 100);
    assert_int_equal(n.left_out, 100);
    assert_int_equal(n.taken, 300);
    assert_int_equal(n.forgotten, 0);
    assert_true(get("sd99", "balance", "1m", start, &v));
    assert_int_equal(v.count, 2);
    assert_false(get("sd100", "balance", "1m", start, &v));
    fill("h1", 0, 1, start + 30 * minute);
    fill("h1", 100, 250, start + 62 * minute); /* all but sd0 have nothing in any window */
    summary_counts(summary, &n);
    assert_int_equal(n.streams, 100);
    assert_int_equal(n.forgotten, 99);
    assert_true(get("sd0", "balance", "60m", start + 62 * minute, &v));
    assert_true(get("sd198", "balance", "60m", start + 62 * minute, &v));
    assert_false(get("sd199", "balance", "60m", start + 62 * minute, &v));
    assert_true(summary_check(summary));
    close_all();
}

static void memory_is_bounded(void **unused)
{
    struct summary_counts n;
    (void)unused;
    open_with(
        &(struct summary_options){.streams = 100000, .memory = 1 << 20, .windows = windows, .events = ""});
    fill("h1", 0, 1000, start);
    summary_counts(summary, &n);
    assert_true(n.bytes <= 1 << 20);
    assert_true(n.streams > 150 && n.streams < 300); /* 3 fields x 1344, a counter, a key */
    assert_int_equal(n.left_out, 1000 - n.streams);
    const struct value values[FIELDS + 2] = {value_uint(1),
                                             value_text(SLICE_LIT("sd0")), [6] = value_float(1)};
    const struct event_head head = {.time_ns = start, .host = SLICE_LIT("h1"), .prog = SLICE_LIT("agent")};
    uint64_t before = n.left_out;
    for (int i = 0; i < 10; i++) /* a stream that grows, until there is no room: what fits is kept */
        assert_int_equal(batch_builder_add_known(builder, &head, grown, values, NULL), 0);
    give(start);
    summary_counts(summary, &n);
    assert_true(n.bytes <= 1 << 20);
    assert_true(n.left_out == before || n.left_out == before + 10);
    assert_true(summary_check(summary));
    close_all();
}

static void each_allocation_fails(void **unused)
{
    (void)unused;
    for (uint64_t fails = 1; fails < 40; fails++) {
        struct summary_counts n;
        open_usual();
        add(&(struct sample){"h1", "sda", start, value_uint(1), value_float(1), value_int(1)});
        const struct value values[FIELDS + 2] = {value_uint(1),
                                                 value_text(SLICE_LIT("sda")), [6] = value_float(1)};
        const struct event_head head = {
            .time_ns = start, .host = SLICE_LIT("h1"), .prog = SLICE_LIT("agent")};
        assert_int_equal(batch_builder_add_known(builder, &head, grown, values, NULL), 0);
        struct batch *b = batch_builder_finish(builder, NULL);
        mem_fail_after(fails);
        summary_batch(summary, b, start);
        mem_fail_after(0);
        batch_unref(b);
        summary_counts(summary, &n);
        assert_true(summary_check(summary));
        assert_true(n.left_out <= 1);
        add(&(struct sample){"h1", "sda", start + 1, value_uint(1), value_float(1), value_int(1)});
        give(start);
        struct summary_value v;
        assert_true(get("sda", "balance", "1m", start, &v));
        close_all();
    }
}

static void only_some_events(void **unused)
{
    struct summary_counts n;
    (void)unused;
    open_with(&(struct summary_options){
        .streams = 100, .memory = 1 << 20, .windows = windows, .events = "cpu,net*"});
    fill("h1", 0, 3, start);
    summary_counts(summary, &n);
    assert_int_equal(n.streams + n.taken + n.left_out, 0);
    close_all();
}

static void wrong_windows_are_told(void **unused)
{
    static const char *const wrong[] = {"10", "1m,", "7s", "8d", "0s", "-1m", "1m,,2m", "x"};
    (void)unused;
    for (size_t i = 1; i < sizeof wrong / sizeof *wrong; i++) {
        struct summary *s;
        struct diag why = {0};
        int r = summary_create(&(struct summary_options){1, 1 << 20, wrong[i], ""}, &s, &why);
        if (i == 1) { /* as by commas everywhere */
            assert_int_equal(r, 0);
            summary_destroy(s);
            continue;
        }
        if (r != E_PROTO)
            fail_msg("%s is taken", wrong[i]);
        assert_non_null(strstr(why.message, "is no window"));
    }
    struct summary *s;
    struct diag why = {0};
    assert_int_equal(
        summary_create(&(struct summary_options){1, 1 << 20, "6s,12s,18s,24s,30s,36s,42s,48s,54s", ""}, &s,
                       &why),
        E_PROTO);
}

/* ---------------------------------------------------------------- questions, at the clock's time */

static void fill_now(int hosts, int devices)
{
    char host[16];
    for (int h = 0; h < hosts; h++) {
        (void)snprintf(host, sizeof host, "node%d", h);
        fill(host, 0, devices, clock_utc_ns());
    }
}

static void rows_are_chosen(void **unused)
{
    static const struct {
        const char *event, *host, *field, *window, *where;
        size_t n;
        int status;
    } cases[] = {
        {"", "", "", "", "", 2 * 3 * 3 * 3, CONTROL_DONE},
        {"disk", "", "", "1m", "", 2 * 3 * 3, CONTROL_DONE},
        {"disk", "node1", "", "1m,1h", "", 3 * 3 * 2, CONTROL_DONE},
        {"d*", "node1", "re*,balance", "60m", "", 3 * 2, CONTROL_DONE},
        {"", "", "", "", "device = 'sd1'", 2 * 3 * 3, CONTROL_DONE},
        {"", "", "", "", "window = '10m' AND field = 'reads' AND host <> 'node0'", 3, CONTROL_DONE},
        {"", "", "", "", "name = 'disk' AND prog = 'agent' AND device IN ('sd0', 'sd2')", 2 * 2 * 9,
         CONTROL_DONE},
        {"", "", "", "", "temperature >= 0", 0, CONTROL_NOT_FOUND}, /* values are not of the stream */
        {"", "", "note", "", "", 0, CONTROL_NOT_FOUND},
        {"cpu", "", "", "", "", 0, CONTROL_NOT_FOUND},
    };
    (void)unused;
    open_usual();
    fill_now(2, 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked *k = ask(asks.control, "summary", "event", cases[i].event, "host", cases[i].host,
                              "field", cases[i].field, "window", cases[i].window, "where", cases[i].where);
        if (k->status != cases[i].status || k->n_rows != cases[i].n)
            fail_msg("case %zu: status %d, %zu rows: %s", i, k->status, k->n_rows, k->text);
        asked_fini(k);
    }
    close_all();
}

static void a_row_says_it_all(void **unused)
{
    static const char *const columns[] = {"host", "prog",  "event", "keys",  "field", "window",
                                          "from", "to",    "count", "min",   "max",   "mean",
                                          "sum",  "first", "last",  "age_ms"};
    int64_t now = clock_utc_ns(), from, to;
    (void)unused;
    open_usual();
    add(&(struct sample){"h1", "sda", now - 2 * NS_PER_S, value_uint(10), value_none(), value_none()});
    add(&(struct sample){"h1", "sda", now - NS_PER_S, value_uint(35), value_none(), value_none()});
    give(now);
    struct asked *k = ask(asks.control, "summary", "window", "60m");
    assert_int_equal(k->n_rows, 1);
    struct args row = k->rows[0];
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (args_value(row, columns[i]).type == VALUE_NONE)
            fail_msg("there is no %s", columns[i]);
    assert_slice(args_text(row, "host"), "h1");
    assert_slice(args_text(row, "keys"), "device=sda");
    assert_slice(args_text(row, "window"), "60m");
    assert_int_equal(args_uint(row, "count", 0), 2);
    assert_true(value_eq(args_value(row, "min"), value_uint(10)));
    assert_true(value_eq(args_value(row, "last"), value_uint(35)));
    assert_true(value_eq(args_value(row, "mean"), value_float(22.5)));
    assert_true(value_eq(args_value(row, "rate"), value_float(25)));
    assert_int_equal(clock_parse_iso(args_text(row, "from"), &from), 0);
    assert_int_equal(clock_parse_iso(args_text(row, "to"), &to), 0);
    assert_int_equal(to - from, 60 * minute);
    assert_true(from < now && to > now);
    assert_true(args_uint(row, "age_ms", 0) >= 1000);
    asked_fini(k);
    close_all();
}

static void wrong_questions_are_told(void **unused)
{
    static const struct {
        const char *name, *text, *says;
    } cases[] = {
        {"window", "5m", "window: '5m' is not kept; there are 1m, 10m, 60m"},
        {"window", "often", "window: 'often' is not kept"},
        {"fields", "x", "there is no 'fields'"},
        {"where", "device =", "where: at byte"},
        {"after", "x", "ask again without it"},
    };
    (void)unused;
    open_usual();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked *k = ask(asks.control, "summary", cases[i].name, cases[i].text);
        assert_int_equal(k->status, CONTROL_USAGE);
        if (!strstr(k->text, cases[i].says))
            fail_msg("case %zu: %s", i, k->text);
        asked_fini(k);
    }
    close_all();
    open_with(&(struct summary_options){.streams = 0, .memory = 1 << 20, .windows = windows, .events = ""});
    fill_now(1, 1);
    struct asked *k = ask(asks.control, "summary", "window", "1m");
    assert_int_equal(k->status, CONTROL_FAILED);
    assert_non_null(strstr(k->text, "summary.streams"));
    asked_fini(k);
    close_all();
}

/* Anybody on this host may see summaries by default; agents may not. */
static void summaries_are_for_who_may(void **unused)
{
    (void)unused;
    open_usual();
    fill_now(1, 1);
    struct asked *k = ask_as(asks.control, &local, "summary", NULL);
    assert_int_equal(k->status, CONTROL_DONE);
    assert_int_equal(k->n_rows, 9);
    asked_fini(k);
    k = ask_as(asks.control, &agent, "summary", NULL);
    assert_int_equal(k->status, CONTROL_NOT_ALLOWED);
    assert_int_equal(k->n_rows, 0);
    asked_fini(k);
    close_all();
}

/* Rows that a page has no room for come with the next, also from the middle of a stream; streams that come,
 * and fields that are new, disturb nothing. */
static void pages_hold_whatever_happens(void **unused)
{
    enum { DEVICES = 400 };
    uint8_t seen[DEVICES][FIELDS][3] = {0};
    (void)unused;
    open_usual();
    fill_now(1, DEVICES);
    struct asked *k = asked_new(&owner);
    bool has_split = false;
    do {
        ask_page(asks.control, k, "summary", NULL);
        assert_int_equal(k->status, CONTROL_DONE);
        has_split |= k->after[0] && strcmp(strrchr(k->after, '-'), "-0") != 0;
        const struct value values[FIELDS + 2] = {value_uint(1),
                                                 value_text(SLICE_LIT("sd350")), [6] = value_float(1)};
        const struct event_head head = {
            .time_ns = clock_utc_ns(), .host = SLICE_LIT("node0"), .prog = SLICE_LIT("agent")};
        assert_int_equal(batch_builder_add_known(builder, &head, grown, values, NULL), 0);
        fill("new", (int)k->pages * 10, (int)k->pages * 10 + 10, clock_utc_ns());
    } while (k->after[0]);
    assert_true(k->pages > 3 && has_split);
    assert_true(k->most_bytes <= CONTROL_PAGE + 1024);
    for (size_t i = 0; i < k->n_rows; i++) {
        static const char *const names[] = {"", "reads", "temperature", "balance"};
        struct slice window = args_text(k->rows[i], "window"), field = args_text(k->rows[i], "field");
        struct slice keys = args_text(k->rows[i], "keys");
        uint64_t device, f = READS;
        if (!slice_eq_str(args_text(k->rows[i], "host"), "node0") || slice_eq_str(field, "writes") ||
            args_value(k->rows[i], "min").type == (slice_eq_str(field, "reads") ? VALUE_FLOAT : VALUE_NONE))
            continue;
        while (!slice_eq_str(field, names[f]))
            f++;
        assert_int_equal(num_parse_uint(slice_from(keys, strlen("device=sd")), &device), 0);
        seen[device][f][window.n == 2 ? 0 : window.p[0] == '1' ? 1 : 2]++;
    }
    for (int d = 0; d < DEVICES; d++)
        for (int f = READS; f <= BALANCE; f++)
            for (int w = 0; w < 3; w++)
                assert_int_equal(seen[d][f][w], 1);
    asked_fini(k);
    close_all();
}

/* 0.50 and 0.25 of an untyped source are one column, whichever came first. */
static void numbers_as_written(void **unused)
{
    (void)unused;
    static const char *const texts[][3] = {{"0.50", "0.25", "1.50"}, {"0.25", "0.50", "1.50"}};
    for (size_t k = 0; k < 2; k++) {
        open_usual();
        struct event first = {0};
        const int64_t now = INT64_C(1700000000000000000);
        struct batch *b = NULL;
        for (size_t i = 0; i < 3; i++) {
            const struct named_value v = {SLICE_LIT("load"), value_untyped(slice_str(texts[k][i]))};
            const struct event_head head = {
                .time_ns = now + (int64_t)i, .host = SLICE_LIT("h"), .prog = SLICE_LIT("p"), .name = k ? SLICE_LIT("b") : SLICE_LIT("a")};
            assert_int_equal(batch_builder_add(builder, &head, &v, 1, NULL), 0);
        }
        b = batch_builder_finish(builder, NULL);
        summary_batch(summary, b, now);
        first = b->events[0];
        struct summary_value is;
        assert_true(summary_get(summary, &first, SLICE_LIT("load"), INT64_C(60000000000), now, &is));
        assert_int_equal(is.count, 3);
        assert_true(is.sum == 2.25);
        assert_true(value_eq(is.max, value_float(1.5)) && value_eq(is.min, value_float(0.25)));
        assert_true(summary_check(summary));
        batch_unref(b);
        close_all();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_and_what_is_in_it),
        cmocka_unit_test(resets_are_gaps),
        cmocka_unit_test(what_is_no_number_is_left_out),
        cmocka_unit_test(times_from_anywhere),
        cmocka_unit_test(a_clock_that_goes_back),
        cmocka_unit_test(fields_that_come_later),
        cmocka_unit_test(windows_equal_a_naive_computation),
        cmocka_unit_test(streams_that_are_kept_stay_right),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(each_allocation_fails),
        cmocka_unit_test(only_some_events),
        cmocka_unit_test(wrong_windows_are_told),
        cmocka_unit_test(rows_are_chosen),
        cmocka_unit_test(a_row_says_it_all),
        cmocka_unit_test(wrong_questions_are_told),
        cmocka_unit_test(summaries_are_for_who_may),
        cmocka_unit_test(pages_hold_whatever_happens),
        cmocka_unit_test(numbers_as_written),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
