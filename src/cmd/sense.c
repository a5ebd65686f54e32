/* SPDX-License-Identifier: Apache-2.0 */
/* gridline sense: runs sensors by name and prints what they say: a thin main over gridline/sensor.h. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/file.h"
#include "cmd/output.h"
#include "cmd/say.h"
#include "cmd/sense_table.h"
#include "cmd/stop.h"
#include "cmd/verbs.h"
#include "gridline/sensor.h"

#include <errno.h>
#include <unistd.h>

enum { SENSORS_MAX = 64, TIMEOUT_MS = 10000 };

struct sense_options {
    bool list, files;
    int64_t interval_ns;
    uint64_t count;
    const char *root, *format, *output;
};

struct sense {
    const struct sense_options *options;
    gridline_sensor *sensors[SENSORS_MAX];
    const char *names[SENSORS_MAX];
    size_t n;
    const char *host;
    struct registry *registry;
    struct batch_builder *builder;
    struct output *out;        /* NULL: table */
    struct sense_table *table; /* NULL: an encoding */
    size_t failed, without_data;
};

/* ---------------------------------------------------------------- --list */

static int print_field(void *arg, const char *event, const char *field, char type, int is_key,
                       const char *kind, const char *unit, const char *help)
{
    static const char letters[] = "iufbtx";
    static const char *const names[] = {"int", "uint", "float", "bool", "text", "bytes"};
    const char *at = strchr(letters, type);
    strbuf_printf(arg, "  %-16s %-22s %-6s %-8s %-10s %s\n", event, field, at ? names[at - letters] : "?",
                  is_key ? "key" : kind, unit, help);
    return 0;
}

static int print_option(void *arg, const char *option, const char *type, const char *default_text,
                        const char *help)
{
    strbuf_printf(arg, "  %s=%s%s%s%s  %s\n", option, type, default_text ? " (default " : "",
                  default_text ? default_text : "", default_text ? ")" : "", help);
    return 0;
}

static int describe(struct strbuf *text, const char *sensor)
{
    if (!gridline_sensor_summary(sensor)) {
        say("there is no sensor '%s'; `gridline sense --list` shows them", sensor);
        return EXIT_NOT_FOUND;
    }
    strbuf_printf(text, "%s: %s\n", sensor, gridline_sensor_summary(sensor));
    (void)gridline_sensor_options(sensor, print_option, text); /* it is known, and the callbacks return 0 */
    (void)gridline_sensor_fields(sensor, print_field, text);
    return EXIT_OK;
}

static int list(struct operands names)
{
    struct strbuf text = {0};
    int code = EXIT_OK;
    for (size_t i = 0; names.n == 0 && gridline_sensor_name(i); i++)
        strbuf_printf(&text, "%-18s %s\n", gridline_sensor_name(i),
                      gridline_sensor_summary(gridline_sensor_name(i)));
    for (size_t i = 0; i < names.n && code == EXIT_OK; i++)
        code = describe(&text, names.v[i]);
    if (code == EXIT_OK && file_write_all(STDOUT_FILENO, strbuf_slice(&text)) < 0)
        code = EXIT_FAILED;
    strbuf_fini(&text);
    return code;
}

/* ---------------------------------------------------------------- sampling */

/* What the sensor declares, so that binary output has roles, kinds, units and help. */
struct declaring {
    struct registry *registry;
    const char *event;
    struct field fields[EVENT_FIELDS_MAX];
    size_t n;
};

static void declare(struct declaring *d)
{
    struct schema *s;
    if (d->n && schema_create(slice_str(d->event), d->fields, d->n, &s) == 0) {
        (void)registry_declare(d->registry, s); /* without memory the schema is learned */
        schema_unref(s);
    }
    d->n = 0;
}

static int declare_field(void *arg, const char *event, const char *field, char type, int is_key,
                         const char *kind, const char *unit, const char *help)
{
    static const char letters[] = "?iufbtx", kinds[] = "?cgst";
    struct declaring *d = arg;
    if (d->n && strcmp(d->event, event) != 0)
        declare(d);
    d->event = event;
    if (d->n < EVENT_FIELDS_MAX)
        d->fields[d->n++] = (struct field){.name = slice_str(field),
                                           .unit = slice_str(unit),
                                           .help = slice_str(help),
                                           .type = (uint8_t)(strchr(letters, type) - letters),
                                           .role = is_key ? ROLE_KEY : ROLE_VALUE,
                                           .kind = (uint8_t)(strchr(kinds, kind[0]) - kinds)};
    return 0;
}

/* Opens the sensors; `name=value` words belong to the sensor before them. */
static int open_sensors(struct sense *s, struct operands words)
{
    for (size_t i = 0; i < words.n;) {
        const char *options[SENSORS_MAX] = {NULL};
        char why[200];
        const char *name = words.v[i++];
        size_t n = 0;
        for (; i < words.n && strchr(words.v[i], '=') && n < SENSORS_MAX - 1; n++)
            options[n] = words.v[i++];
        if (s->n == SENSORS_MAX) {
            say("more than %d sensors at once", SENSORS_MAX);
            return EXIT_USAGE;
        }
        s->sensors[s->n] = gridline_sensor_open(name, options, s->options->root, why, sizeof why);
        s->names[s->n] = name;
        if (!s->sensors[s->n]) {
            bool is_known = gridline_sensor_summary(name);
            say("%s%s", why, is_known ? "" : "; `gridline sense --list` shows them");
            return is_known ? EXIT_USAGE : EXIT_NOT_FOUND;
        }
        s->n++;
        struct declaring d = {.registry = s->registry};
        (void)gridline_sensor_fields(name, declare_field, &d); /* it is known */
        declare(&d);
    }
    return EXIT_OK;
}

static int add_event(void *arg, int64_t time_ns, int level, const char *event,
                     const struct gridline_value *values, size_t n)
{
    static const char letters[] = "?iufbtx";
    struct sense *s = arg;
    struct named_value row[EVENT_FIELDS_MAX];
    struct diag why = {0};
    for (size_t i = 0; i < n && i < EVENT_FIELDS_MAX; i++) {
        row[i].name = slice_str(values[i].name);
        row[i].value = (struct value){.type = (uint8_t)(strchr(letters, values[i].type) - letters),
                                      .u = values[i].v.u,
                                      .n = (uint32_t)values[i].n};
        if (value_is_text(row[i].value.type))
            row[i].value.p = values[i].v.p;
    }
    struct event_head head = {.time_ns = time_ns,
                              .name = slice_str(event),
                              .host = slice_str(s->host),
                              .prog = SLICE_LIT("gridline-sense"),
                              .level = (uint8_t)level};
    int r = batch_builder_add(s->builder, &head, row, n, &why);
    if (r < 0)
        say("%s: %s", event, why.message);
    return r == -ENOMEM ? r : 0;
}

static void sample(struct sense *s, size_t i)
{
    int r = gridline_sensor_sample(s->sensors[i], TIMEOUT_MS, add_event, s);
    const char *why = gridline_sensor_why(s->sensors[i]);
    if (r == GRIDLINE_NO_DATA) {
        say("%s: no data%s%s", s->names[i], why[0] ? ": " : "", why);
        s->without_data++;
    } else if (r < 0) {
        say("%s: failed: %s", s->names[i], why[0] ? why : err_text(r));
        s->failed++;
    }
}

static int write_round(struct sense *s)
{
    struct batch *b = batch_builder_finish(s->builder, NULL);
    int r = 0;
    if (b && s->table)
        r = sense_table_print(s->table, b);
    else if (b)
        r = output_batch(s->out, b);
    if (r == 0 && s->out)
        r = output_flush(s->out);
    batch_unref(b);
    return r;
}

/* Rounds start at even distances, however long one takes. */
static void wait_until(int64_t at_ns)
{
    const struct timespec t = {at_ns / NS_PER_S, at_ns % NS_PER_S};
    while (!stop_asked() && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static int run_rounds(struct sense *s)
{
    int64_t next = clock_mono_ns();
    int r = 0;
    for (uint64_t round = 0; r == 0 && round < s->options->count && !stop_asked(); round++) {
        if (round > 0)
            wait_until(next);
        if (stop_asked())
            break;
        for (size_t i = 0; i < s->n; i++)
            sample(s, i);
        r = write_round(s);
        next += s->options->interval_ns;
    }
    if (r == 0 && s->out)
        r = output_finish(s->out);
    return r == -EPIPE ? 0 : r;
}

/* ---------------------------------------------------------------- --files */

struct calls {
    struct strbuf text;
    size_t before; /* bytes of the sensors before this one */
};

/* A file that another sensor has read already is not read again: the agent reads each once a round. */
static void print_call(void *arg, const char *call, const char *what, size_t bytes)
{
    struct calls *c = arg;
    struct strbuf line = {0};
    strbuf_printf(&line, "%s %s ", call, what);
    struct slice earlier = slice_of(c->text.n ? c->text.p : "", c->before);
    bool is_known = line.n && earlier.n && memmem(earlier.p, earlier.n, line.p, line.n);
    if (!is_known)
        strbuf_printf(&c->text, "%s%zu\n", line.p, bytes);
    strbuf_fini(&line);
}

static int drop_event(void *arg, int64_t time_ns, int level, const char *event,
                      const struct gridline_value *values, size_t n)
{
    (void)arg, (void)time_ns, (void)level, (void)event, (void)values, (void)n; /* only the calls count */
    return 0;
}

/* The calls of a steady round: the third, when everything is open. */
static int print_files(struct sense *s)
{
    struct calls calls = {0};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < s->n; i++) {
            calls.before = calls.text.n;
            if (round == 2)
                gridline_sensor_trace(s->sensors[i], print_call, &calls);
            (void)gridline_sensor_sample(s->sensors[i], 0, drop_event, NULL); /* no data costs its calls, too */
        }
    int r = file_write_all(STDOUT_FILENO, strbuf_slice(&calls.text));
    strbuf_fini(&calls.text);
    return r;
}

/* ---------------------------------------------------------------- */

static int open_output(struct sense *s)
{
    const char *format = s->options->format;
    if (!format && s->options->output) {
        const struct encoding *by_name = encoding_by_suffix(slice_str(s->options->output));
        format = by_name ? by_name->name : "ndjson";
    }
    if (!format || strcmp(format, "table") == 0) {
        s->table = sense_table_create(s->options->count > 1);
        return EXIT_OK;
    }
    const struct encoding *e = encoding_by_name(slice_str(format));
    if (!e) {
        say("--format: there is no '%s'; there are table, ulm, bp, ndjson, xml, csv and binary", format);
        return EXIT_USAGE;
    }
    return output_open(s->options->output, e, &s->out) < 0 ? EXIT_FAILED : EXIT_OK;
}

static int sense_all(struct sense *s, struct operands words)
{
    int code = open_sensors(s, words);
    if (code != EXIT_OK)
        return code;
    if (s->options->files)
        return print_files(s) < 0 ? EXIT_FAILED : EXIT_OK;
    code = open_output(s);
    if (code != EXIT_OK)
        return code;
    if (run_rounds(s) < 0)
        return EXIT_FAILED;
    size_t bad = s->failed + s->without_data;
    return bad == 0 ? EXIT_OK : bad == s->n * s->options->count ? EXIT_FAILED : EXIT_PARTLY;
}

static int sense_run(void *state, struct operands words)
{
    char host[256] = "";
    struct sense s = {.options = state, .host = host};
    if (s.options->list)
        return list(words);
    if (words.n == 0) {
        say("which sensor? `gridline sense --list` shows them");
        return EXIT_USAGE;
    }
    (void)gethostname(host, sizeof host - 1); /* empty when it can't be had */
    s.registry = registry_create();
    s.builder = s.registry ? batch_builder_create(s.registry, BUILDER_TRIM) : NULL;
    int code = s.builder ? sense_all(&s, words) : EXIT_FAILED;
    for (size_t i = 0; i < s.n; i++)
        gridline_sensor_close(s.sensors[i]);
    output_close(s.out);
    sense_table_destroy(s.table);
    batch_builder_destroy(s.builder);
    registry_destroy(s.registry);
    return code;
}

#define AT(member) offsetof(struct sense_options, member)

static const struct option_spec sense_options[] = {
    {'l', "list", OPTION_FLAG, NULL, AT(list), "list the sensors, or what the named ones measure and take"},
    {'i', "interval", OPTION_DURATION, "TIME", AT(interval_ns), "time between two samples (default 1s)"},
    {'n', "count", OPTION_SIZE, "N", AT(count), "how many samples (default 1)"},
    {0, "root", OPTION_FILE, "DIR", AT(root),
     "read DIR/proc and DIR/sys, another host's, in place of this one's"},
    {'t', "format", OPTION_TEXT, "FORMAT", AT(format),
     "print as `table` (default), `ulm`, `bp`, `ndjson`, `xml`, `csv`, `binary`"},
    {'o', "output", OPTION_FILE, "FILE", AT(output), "write to FILE; its ending names the format"},
    {0, "files", OPTION_FLAG, NULL, AT(files),
     "print the system calls that a sample costs: call, file, bytes"},
    {0},
};

static const struct example sense_examples[] = {
    {"gridline sense --list", "What there is"},
    {"gridline sense --list disk", "What the disk sensor measures, and its options"},
    {"gridline sense cpu memory -n 5 -i 2s", "Two sensors, five times; rates from the second on"},
    {"gridline sense disk devices=nvme* --format ulm", "An option, and ULM lines"},
    {"gridline sense memory --root /mnt/other", "Another host's captured /proc"},
    {NULL, NULL},
};

static const struct sense_options defaults = {.interval_ns = NS_PER_S, .count = 1};

const struct verb verb_sense = {
    .name = "sense",
    .summary = "run sensors here, now, and print what they say",
    .operands = "SENSOR [OPTION=VALUE...] ...",
    .description =
        "Runs each sensor once, or `--count` times, and prints its events. Words with `=` are options of the "
        "sensor before them; an option that is a list is given several times.\n"
        "In the table, counters are shown with their rate since the sample before. The other formats have "
        "them as "
        "they are.\n"
        "A value that can't be read is missing, never 0. Ends with 1 if no sensor had data, with 4 if some "
        "had none.",
    .operand_kind = OPERAND_WORDS,
    .operands_max = SIZE_MAX,
    .options = sense_options,
    .examples = sense_examples,
    .lists_formats = true,
    .state_size = sizeof(struct sense_options),
    .defaults = &defaults,
    .run = sense_run,
};
