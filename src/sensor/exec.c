/* SPDX-License-Identifier: Apache-2.0 */
/* Any program is a sensor: what it prints becomes events. Run once a period (`run = once`) and expected to
 * end, or kept running (`run = long`) and started again, with the instance's back-off, when it ends. It never
 * makes the agent wait: sample starts it, and is called again when it has printed something or a limit is
 * reached (child.h).
 *
 * Formats, by line unless said otherwise:
 *   ulm, bp, ndjson  an event. A line without a time gets the one at which it was read.
 *   value            a number: the event NAME with the field `value`.
 *   nagios           all of the output and the exit code: the events `check` and `check.perf` (nagios.h)
 *   auto             the first of these that the first line looks like
 *
 * Lines that can't be read are skipped and counted; the first of a run is told in the event `exec.skipped`,
 * and not again until a run was clean. A run fails, with the reason, when it is cut off by a limit, ends by a
 * signal or with a code that is not 0 (nagios: 0 to 3), or prints lines none of which can be read. What it
 * printed before counts. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "event/encodings.h" /* these three alone: the table of all encodings needs expat */
#include "base/child.h"
#include "sensor/nagios.h"
#include "sensor/relay.h"
#include "sensor/sensor.h"

#include <errno.h>

enum {
    GARBAGE_MAX = 100, /* lines of a long run, none of which can be read: it is given up */
    NICE = 5,          /* they run where other people work */
    OOM_SCORE = 300
};

enum { EXEC_CHECK, EXEC_PERF, EXEC_SKIPPED };

static const struct field check_fields[] = {
    KEY("check", "the sensor's name in the configuration"),
    FIELD("state", UINT, STATE, "", "0 ok, 1 warning, 2 critical, 3 unknown"),
    FIELD("status", TEXT, TEXT, "", "the state as a word"),
    FIELD("output", TEXT, TEXT, "", "the plugin's first line"),
    FIELD("detail", TEXT, TEXT, "", "its further lines"),
    FIELD("duration", FLOAT, GAUGE, "s", "how long it ran"),
};

static const struct field perf_fields[] = {
    KEY("check", "the sensor's name in the configuration"),
    KEY("label", "the plugin's name for the value"),
    FIELD("value", FLOAT, GAUGE, "", "as the plugin printed it"),
    FIELD("unit", TEXT, TEXT, "", "of value, warn, crit, min and max; `c` is a counter"),
    FIELD("warn", TEXT, TEXT, "", "the range outside of which it warns"),
    FIELD("crit", TEXT, TEXT, "", "the range outside of which it is critical"),
    FIELD("min", FLOAT, GAUGE, "", "the least possible value"),
    FIELD("max", FLOAT, GAUGE, "", "the greatest possible value"),
};

static const struct field skipped_fields[] = {
    KEY("exec", "the sensor's name in the configuration"),
    FIELD("lines", UINT, COUNTER, "", "lines that could not be read since the sensor was opened"),
    FIELD("line", UINT, GAUGE, "", "number of the first one in its run"),
    FIELD("why", TEXT, TEXT, "", "what is wrong with it"),
};

static const struct sensor_schema exec_schemas[] = {
    [EXEC_CHECK] = SCHEMA_EVENT("check", check_fields, LEVEL_INFO),
    [EXEC_PERF] = SCHEMA("check.perf", perf_fields),
    [EXEC_SKIPPED] = SCHEMA_EVENT("exec.skipped", skipped_fields, LEVEL_WARNING),
    {0},
};

enum format { FORMAT_AUTO, FORMAT_ULM, FORMAT_BP, FORMAT_NDJSON, FORMAT_NAGIOS, FORMAT_VALUE, FORMATS };
static const char *const format_names[FORMATS] = {"auto", "ulm", "bp", "ndjson", "nagios", "value"};
static const struct encoding *const encodings[FORMATS] = {
    [FORMAT_ULM] = &encoding_ulm, [FORMAT_BP] = &encoding_bp, [FORMAT_NDJSON] = &encoding_ndjson};

struct exec {
    struct parameter_list command;
    const char *format_name, *run_name, *event_name;
    int64_t timeout_ns, max_events;
    uint64_t max_bytes;

    const char *name; /* of the instance */
    const char **argv;
    bool is_long;
    enum format asked;  /* for */
    enum format format; /* of the run; FORMAT_AUTO = not known yet */
    struct child *child;
    enum format decodes; /* what decoder is for */
    struct decoder *decoder;
    struct registry *registry;
    struct batch_builder *builder;
    struct strbuf line; /* one with a time put in */
    /* Of the run: */
    uint64_t lines, events, bad;
    bool is_skipping;  /* in a line that did not fit the buffer */
    struct diag first; /* why the first bad line is bad */
    /* Since open: */
    uint64_t skipped;
    bool was_bad; /* the last run with lines had bad ones: that has been told */
};

static const struct parameter exec_options[] = {
    {SETTING_LIST, "command", NULL, offsetof(struct exec, command),
     "the program and its arguments; no shell is used", true, true},
    {SETTING_STRING, "format", "auto", offsetof(struct exec, format_name),
     "of its output: `ulm`, `bp`, `ndjson`, `nagios`, `value` (a number), or `auto`", false, false},
    {SETTING_STRING, "run", "once", offsetof(struct exec, run_name),
     "`once` each period, or `long`: kept running, started again when it ends", false, false},
    {SETTING_DURATION, "timeout", "10s", offsetof(struct exec, timeout_ns),
     "a run that takes longer is killed; not for `long`", false, false},
    {SETTING_STRING, "name", NULL, offsetof(struct exec, event_name),
     "the event of a `value`; by default the sensor's name in the configuration", false, false},
    {SETTING_SIZE, "max_bytes", "64KiB", offsetof(struct exec, max_bytes),
     "a run that prints more is killed; for `long`: in a second", false, false},
    {SETTING_INT, "max_events", "1000", offsetof(struct exec, max_events),
     "a run that prints more lines is killed; for `long`: in a second", false, false},
    {0},
};

/* ---------------------------------------------------------------- open and close */

static int find_format(const char *name, enum format *out)
{
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(name, format_names[i]) == 0) {
            *out = (enum format)i;
            return 0;
        }
    }
    return -EINVAL;
}

static int check_options(struct exec *e, struct diag *why)
{
    if (e->command.n == 0 || e->command.v[0][0] == '\0')
        return diag_set(why, -EINVAL, 0, "command names no program");
    if (find_format(e->format_name, &e->asked) < 0)
        return diag_set(why, -EINVAL, 0,
                        "format: \"%s\" is none; there are auto, ulm, bp, ndjson, nagios and value",
                        e->format_name);
    e->is_long = strcmp(e->run_name, "long") == 0;
    if (!e->is_long && strcmp(e->run_name, "once") != 0)
        return diag_set(why, -EINVAL, 0, "run: \"%s\" is neither once nor long", e->run_name);
    if (e->is_long && e->asked == FORMAT_NAGIOS)
        return diag_set(why, -EINVAL, 0, "a Nagios plugin is run once each period, not `long`");
    if (e->timeout_ns <= 0 || e->max_bytes == 0 || e->max_events <= 0)
        return diag_set(why, -EINVAL, 0, "timeout, max_bytes and max_events are more than 0");
    if (e->asked == FORMAT_VALUE && !text_is_name(slice_str(e->event_name)))
        return diag_set(why, -EINVAL, 0, "\"%s\" can't be an event's name; set the option `name`",
                        e->event_name);
    return 0;
}

static int exec_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct exec *e = state;
    e->name = env->name ? env->name : "exec";
    if (!e->event_name)
        e->event_name = e->name;
    int r = check_options(e, why);
    if (r < 0)
        return r;
    if (!env_is_live(env))
        return diag_set(why, E_NODATA, 0, "a captured tree has no programs to run");
    e->argv = mem_alloc((e->command.n + 1) * sizeof *e->argv);
    for (size_t i = 0; i < e->command.n; i++)
        e->argv[i] = e->command.v[i];
    e->registry = registry_create();
    e->builder = e->registry ? batch_builder_create(e->registry, BUILDER_TRIM) : NULL;
    return e->builder ? 0 : -ENOMEM;
}

static void exec_close(void *state)
{
    struct exec *e = state;
    child_destroy(e->child);
    decoder_destroy(e->decoder);
    batch_builder_destroy(e->builder);
    registry_destroy(e->registry);
    strbuf_fini(&e->line);
    mem_free(e->argv);
}

static int exec_wait_fd(void *state)
{
    struct exec *e = state;
    return e->child ? child_wait_fd(e->child) : -1;
}

/* ---------------------------------------------------------------- lines */

static void bad_line(struct exec *e, const struct diag *why)
{
    e->skipped++;
    if (e->bad++ > 0)
        return;
    e->first = *why;
    e->first.line = e->lines;
}

static void tell_skipped(struct exec *e, struct sensor_out *out)
{
    const struct value row[] = {value_text(slice_str(e->name)), value_uint(e->skipped),
                                value_uint(e->first.line), value_text(slice_str(e->first.message))};
    sensor_row(out, EXEC_SKIPPED, row);
    e->was_bad = true;
}

/* The line with a time put in, for those that have none. */
static int stamp(struct exec *e, struct slice line, int64_t time_ns)
{
    char time[CLOCK_TEXT_MAX];
    struct strbuf *s = &e->line;
    size_t n = e->format == FORMAT_ULM ? clock_print_ulm(time, time_ns) : clock_print_iso(time, time_ns);
    strbuf_reset(s);
    if (e->format == FORMAT_NDJSON) {
        const char *brace = memchr(line.p, '{', line.n);
        strbuf_printf(s, "{\"time\":\"%.*s\",", (int)n, time);
        strbuf_add_slice(s, brace ? slice_from(line, (size_t)(brace - line.p) + 1) : line);
    } else {
        strbuf_printf(s, "%s=%.*s ", e->format == FORMAT_ULM ? "DATE" : "ts", (int)n, time);
        strbuf_add_slice(s, line);
    }
    return strbuf_failed(s) ? -ENOMEM : 0;
}

/* Into the builder. A line that can't be read may be one without a time: then it can be read with one. */
static int decode(struct exec *e, struct slice line, int64_t time_ns, struct diag *why)
{
    struct diag again = {0};
    size_t used;
    int r = decoder_run(e->decoder, line, true, e->builder, &used, why);
    if (r >= 0 || r == -ENOMEM)
        return r;
    if (stamp(e, line, time_ns) == 0 &&
        decoder_run(e->decoder, strbuf_slice(&e->line), true, e->builder, &used, &again) == 0)
        return 0;
    return r;
}

static int take_event(struct exec *e, struct slice line, struct sensor_out *out, struct diag *why)
{
    int r = decode(e, line, out->time_ns, why);
    if (r < 0)
        return r;
    struct batch *b = batch_builder_finish(e->builder, NULL);
    for (size_t i = 0; b && i < b->n && r == 0; i++)
        r = relay_event(out, &b->events[i], why);
    batch_unref(b);
    return r;
}

static int take_value(struct exec *e, struct slice line, struct sensor_out *out, struct diag *why)
{
    double f;
    if (num_parse_float(line, &f) < 0)
        return diag_set(why, E_PROTO, 0, "not a number");
    const struct event_head head = {
        .time_ns = out->time_ns, .name = slice_str(e->event_name), .level = LEVEL_INFO};
    const struct named_value value = {SLICE_LIT("value"), value_float(f)};
    return sensor_event(out, &head, &value, 1, why);
}

static struct slice trim(struct slice s)
{
    while (s.n && (unsigned char)s.p[0] <= ' ')
        s = slice_from(s, 1);
    while (s.n && (unsigned char)s.p[s.n - 1] <= ' ')
        s.n--;
    return s;
}

static void take_line(struct exec *e, struct slice line, struct sensor_out *out)
{
    struct diag why = {0};
    e->lines++;
    line = trim(line);
    if (line.n == 0)
        return;
    int r = e->format == FORMAT_VALUE ? take_value(e, line, out, &why) : take_event(e, line, out, &why);
    if (r < 0)
        bad_line(e, &why);
    else
        e->events++;
    if (r < 0 && e->is_long && !e->was_bad)
        tell_skipped(e, out);
}

static int use_decoder(struct exec *e)
{
    const struct encoding *encoding = encodings[e->format];
    if (!encoding || (e->decoder && e->decodes == e->format))
        return 0;
    decoder_destroy(e->decoder);
    e->decoder = NULL;
    e->decodes = e->format;
    return decoder_create(encoding, &e->decoder);
}

/* By the first line that is not blank. FORMAT_AUTO: not to be told, or there is none yet. */
static enum format detect(const struct exec *e, struct slice text, bool at_end)
{
    double f;
    while (text.n && (unsigned char)text.p[0] <= ' ')
        text = slice_from(text, 1);
    const char *lf = text.n ? memchr(text.p, '\n', text.n) : NULL;
    struct slice line = trim(slice_of(text.p, lf ? (size_t)(lf - text.p) : text.n));
    if (line.n == 0 || (!lf && !at_end))
        return FORMAT_AUTO;
    for (enum format i = FORMAT_AUTO; i < FORMATS; i++)
        if (encodings[i] && encodings[i]->detect(line))
            return i;
    if (num_parse_float(line, &f) == 0 && text_is_name(slice_str(e->event_name)))
        return FORMAT_VALUE;
    return !e->is_long && nagios_detect(line) ? FORMAT_NAGIOS : FORMAT_AUTO;
}

/* A line that is longer than the buffer is bad, however it goes on. */
static void skip_long_line(struct exec *e)
{
    struct diag why = {0};
    size_t n = child_output(e->child).n;
    if (n <= e->max_bytes)
        return;
    if (!e->is_skipping) {
        e->lines++;
        (void)diag_set(&why, E_LIMIT, 0, "the line is longer than %llu bytes",
                       (unsigned long long)e->max_bytes); /* counted */
        bad_line(e, &why);
    }
    e->is_skipping = true;
    child_consume(e->child, n);
}

/* All whole lines; at the end the last one, too. */
static void take_lines(struct exec *e, struct sensor_out *out, bool at_end)
{
    struct slice text = child_output(e->child);
    size_t done = 0;
    while (done < text.n) {
        const char *lf = memchr(text.p + done, '\n', text.n - done);
        if (!lf && !at_end)
            break;
        size_t n = lf ? (size_t)(lf - text.p) + 1 - done : text.n - done;
        if (!e->is_skipping)
            take_line(e, slice_of(text.p + done, n), out);
        e->is_skipping = e->is_skipping && !lf;
        done += n;
    }
    child_consume(e->child, done);
    skip_long_line(e);
}

/* Looks for a line that tells the format. A long run goes on to the next when the first does not; what is
 * printed once is a whole, and its first line decides. */
static void find_out(struct exec *e, bool at_end)
{
    struct diag why = {0};
    for (;;) {
        struct slice text = child_output(e->child);
        const char *lf = text.n ? memchr(text.p, '\n', text.n) : NULL;
        e->format = detect(e, text, at_end);
        if (e->format != FORMAT_AUTO || !e->is_long || !lf)
            break;
        struct slice line = slice_of(text.p, (size_t)(lf - text.p) + 1);
        e->lines++;
        if (trim(line).n && !e->is_skipping) {
            (void)diag_set(&why, E_PROTO, 0, "looks like none of the formats"); /* counted */
            bad_line(e, &why);
        }
        e->is_skipping = false;
        child_consume(e->child, line.n);
    }
    if (e->format == FORMAT_AUTO && e->is_long)
        skip_long_line(e);
}

static int take_output(struct exec *e, struct sensor_out *out, bool at_end)
{
    if (e->format == FORMAT_AUTO)
        find_out(e, at_end);
    int r = use_decoder(e);
    if (r < 0)
        return r;
    if (e->format != FORMAT_AUTO && e->format != FORMAT_NAGIOS)
        take_lines(e, out, at_end);
    if (e->is_long && e->events == 0 && e->bad >= GARBAGE_MAX)
        child_stop(e->child, clock_mono_ns());
    return 0;
}

/* ---------------------------------------------------------------- nagios */

static struct value text_or_none(struct slice s)
{
    return s.n ? value_text(s) : value_none();
}

static int emit_perf(struct exec *e, struct nagios *n, struct sensor_out *out)
{
    struct strbuf scratch = {0};
    struct nagios_perf p;
    struct diag why = {0};
    int r;
    while ((r = nagios_next_perf(n, &scratch, &p)) != 0 && r != -ENOMEM) {
        if (r == E_PROTO || !text_is_utf8(p.label)) {
            (void)diag_set(&why, E_PROTO, 0,
                           "performance data is not label=value[unit];warn;crit;min;max"); /* counted */
            bad_line(e, &why);
            continue;
        }
        const struct value row[] = {
            value_text(slice_str(e->name)), value_text(p.label),  p.value, text_or_none(p.unit),
            text_or_none(p.warn),           text_or_none(p.crit), p.min,   p.max};
        sensor_row(out, EXEC_PERF, row);
    }
    strbuf_fini(&scratch);
    return r;
}

static int emit_check(struct exec *e, struct sensor_out *out)
{
    static const uint8_t levels[] = {LEVEL_INFO, LEVEL_WARNING, LEVEL_CRITICAL, LEVEL_ERROR};
    const struct child_end *end = child_end(e->child);
    struct slice text = child_output(e->child);
    struct nagios n;
    nagios_read(text, &n);
    if (n.output.n > EVENT_TEXT_MAX || n.detail.n > EVENT_TEXT_MAX)
        return diag_set(out->why, E_LIMIT, 0, "the plugin's text is longer than %d bytes", EVENT_TEXT_MAX);
    if (!text_is_utf8(text))
        return diag_set(out->why, E_PROTO, 0, "what the plugin prints is no UTF-8 text");
    enum nagios_state s = (enum nagios_state)end->code;
    const struct value row[] = {
        value_text(slice_str(e->name)),   value_uint(s),
        value_text(nagios_state_name(s)), value_text(n.output),
        text_or_none(n.detail),           value_float((double)end->ran_ns / (double)NS_PER_S)};
    sensor_row_at(out, EXEC_CHECK, out->time_ns, levels[s], row);
    e->lines++;
    e->events++;
    return emit_perf(e, &n, out);
}

/* ---------------------------------------------------------------- runs */

static int begin_run(struct exec *e, struct diag *why)
{
    const struct child_options o = {
        .argv = e->argv,
        .env = (const char *[]){"LC_NUMERIC=C", NULL}, /* decimal points, whatever the host speaks */
        .max_run_ns = e->is_long ? 0 : e->timeout_ns,
        .max_bytes = e->is_long ? 0 : e->max_bytes,
        .max_lines = e->is_long ? 0 : (uint64_t)e->max_events,
        .max_bytes_s = e->is_long ? e->max_bytes : 0,
        .max_lines_s = e->is_long ? (uint64_t)e->max_events : 0,
        .buffer_max = (size_t)e->max_bytes + 1, /* full only with what is too much */
        .nice = NICE,
        .oom_score_adj = OOM_SCORE,
    };
    e->format = e->asked;
    e->lines = e->events = e->bad = 0;
    e->is_skipping = false;
    e->first = (struct diag){0};
    return child_start(&o, clock_mono_ns(), &e->child, why);
}

/* Did the program itself do well? */
static bool ended_well(const struct exec *e)
{
    const struct child_end *end = child_end(e->child);
    int highest = e->format == FORMAT_NAGIOS ? NAGIOS_UNKNOWN : 0;
    return !e->is_long && end->reason == CHILD_BY_ITSELF && end->code >= 0 && end->code <= highest &&
           !end->has_left;
}

static int judge(struct exec *e, struct sensor_out *out)
{
    const char *form = e->format == FORMAT_AUTO ? "of a format we know" : format_names[e->format];
    enum child_reason reason = child_end(e->child)->reason;
    if (reason != CHILD_BY_ITSELF && reason != CHILD_STOPPED) /* stopped is what take_output did */
        return child_explain(e->child, out->why);
    if (e->bad > 0 && e->events == 0)
        return diag_set(out->why, E_PROTO, 0, "%s: none of %llu lines is %s; line %llu: %s", e->argv[0],
                        (unsigned long long)e->bad, form, (unsigned long long)e->first.line,
                        e->first.message);
    if (!ended_well(e))
        return child_explain(e->child, out->why);
    if (e->format == FORMAT_AUTO && trim(child_output(e->child)).n)
        return diag_set(out->why, E_PROTO, 0,
                        "%s: its output looks like none of the formats; set the option `format`", e->argv[0]);
    if (e->format == FORMAT_NAGIOS) {
        int r = emit_check(e, out);
        if (r < 0)
            return r;
    }
    if (e->events == 0 && e->asked == FORMAT_VALUE)
        return diag_set(out->why, E_NODATA, 0, "%s: printed nothing", e->argv[0]);
    return 0;
}

static int end_run(struct exec *e, struct sensor_out *out)
{
    int r = judge(e, out);
    if (e->bad > 0 && !e->was_bad)
        tell_skipped(e, out);
    else if (e->bad == 0 && e->lines > 0)
        e->was_bad = false;
    child_destroy(e->child);
    e->child = NULL;
    return r;
}

static int exec_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct exec *e = state;
    (void)env; /* the limits are by the kernel's timers */
    if (!e->child) {
        int r = out->is_due ? begin_run(e, out->why) : 0;
        return r < 0 ? r : SENSOR_UNDERWAY;
    }
    uint64_t before = e->events;
    bool is_running = child_pump(e->child, clock_mono_ns());
    int r = take_output(e, out, !is_running);
    if (r < 0)
        return r;
    if (!is_running)
        return end_run(e, out);
    /* A long run does well when it lasts a period, or says something. */
    bool does_well = e->is_long && (out->is_due || e->events > before);
    return does_well ? 0 : SENSOR_UNDERWAY;
}

const struct sensor_ops sensor_exec = {
    .name = "exec",
    .summary = "any program: ULM, BP or NDJSON lines, a number, or a Nagios plugin",
    .schemas = exec_schemas,
    .options = exec_options,
    .every = "60s",
    .refresh = "60s",
    .priority = 6,
    .is_multi = true,
    .state_size = sizeof(struct exec),
    .open = exec_open,
    .sample = exec_sample,
    .close = exec_close,
    .wait_fd = exec_wait_fd,
};
