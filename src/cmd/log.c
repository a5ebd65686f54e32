/* SPDX-License-Identifier: Apache-2.0 */
/* gridline log: one event from the command line, to a destination through libgridline, or to the screen. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "cmd/file.h"
#include "cmd/say.h"
#include "cmd/verbs.h"
#include "event/encoding.h"
#include "gridline/gridline.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

struct log_options {
    const char *to, *prog, *host;
    const struct encoding *format;
    struct option_time at;
    int64_t timeout_ns;
    uint8_t level;
};

struct fields {
    struct named_value v[EVENT_FIELDS_MAX];
    struct strbuf bytes[EVENT_FIELDS_MAX]; /* what base64 unfolded to */
    size_t n;
};

/* NAME:TYPE=TEXT names the type; any other colon is part of the name. */
static uint8_t forced_type(struct slice *name)
{
    const char *colon = name->n ? memrchr(name->p, ':', name->n) : NULL;
    struct slice type = colon ? slice_from(*name, (size_t)(colon - name->p) + 1) : slice_of("", 0);
    for (uint8_t t = VALUE_INT; t < VALUE_TYPES; t++)
        if (slice_eq_str(type, value_type_name(t))) {
            name->n = (size_t)(colon - name->p);
            return t;
        }
    return VALUE_NONE;
}

static int parse_bool(struct slice text, struct value *out)
{
    bool is_true = slice_eq_str(text, "true");
    if (!is_true && !slice_eq_str(text, "false"))
        return E_PROTO;
    *out = value_bool(is_true);
    return 0;
}

/* text as a value of that type; bytes are given in base64 and unfold to *room. */
static int typed_value(uint8_t type, struct slice text, struct strbuf *room, struct value *out)
{
    struct value v = {.type = type};
    int r = 0;
    switch (type) {
    case VALUE_INT:
        r = num_parse_int(text, &v.i);
        break;
    case VALUE_UINT:
        r = num_parse_uint(text, &v.u);
        break;
    case VALUE_FLOAT:
        r = num_parse_float(text, &v.f);
        break;
    case VALUE_BOOL:
        r = parse_bool(text, &v);
        break;
    case VALUE_TEXT:
        v = value_text(text);
        break;
    case VALUE_BYTES:
        r = text_from_base64(text, room);
        v = value_bytes(strbuf_slice(room));
        break;
    case VALUE_NUMBER:
        v = value_untyped(text);
        r = v.type == VALUE_TEXT || v.type == VALUE_BOOL ? E_PROTO : 0;
        break;
    default:
        v = value_untyped(text);
        break;
    }
    if (r == 0)
        *out = v;
    return r;
}

static int take_field(struct fields *f, const char *word)
{
    const char *equals = strchr(word, '=');
    if (!equals) {
        say("'%s' is not NAME=VALUE", word);
        return E_PROTO;
    }
    if (f->n == EVENT_FIELDS_MAX) {
        say("more than %d fields", EVENT_FIELDS_MAX);
        return E_LIMIT;
    }
    struct slice name = slice_of(word, (size_t)(equals - word)), text = slice_str(equals + 1);
    uint8_t type = forced_type(&name);
    struct value v;
    int r = typed_value(type, text, &f->bytes[f->n], &v);
    if (r < 0)
        say("'%s': the value is not %s%s", word, value_type_name(type),
            type == VALUE_BYTES ? " in base64" : "");
    else
        f->v[f->n++] = (struct named_value){.name = name, .value = v};
    return r;
}

static int take_fields(struct fields *f, struct operands words)
{
    for (size_t i = 1; i < words.n; i++) {
        int r = take_field(f, words.v[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static void free_fields(struct fields *f)
{
    for (size_t i = 0; i < EVENT_FIELDS_MAX; i++)
        strbuf_fini(&f->bytes[i]);
    mem_free(f);
}

/* The event as a batch of its own: it is checked by this before it goes anywhere. NULL: reported. */
static struct batch *build(const struct log_options *o, const char *event, const struct fields *f)
{
    char host[EVENT_ORIGIN_MAX + 1] = "";
    struct diag why = {0};
    struct batch *b = NULL;
    if (gethostname(host, sizeof host - 1) < 0)
        host[0] = '\0'; /* not known */
    struct event_head head = {.time_ns = o->at.is_set ? o->at.at_ns : clock_utc_ns(),
                              .name = slice_str(event),
                              .host = slice_str(o->host ? o->host : host),
                              .prog = slice_str(o->prog),
                              .level = o->level};
    struct registry *registry = registry_create();
    struct batch_builder *builder = registry ? batch_builder_create(registry, 0) : NULL;
    int r = builder ? batch_builder_add(builder, &head, f->v, f->n, &why) : -ENOMEM;
    if (r == 0)
        b = batch_builder_finish(builder, NULL);
    if (!b)
        say("%s", *why.message ? why.message : err_text(r < 0 ? r : -ENOMEM));
    batch_builder_destroy(builder);
    registry_destroy(registry);
    return b;
}

static int print(const struct batch *b, const struct encoding *format)
{
    struct encoder *e = NULL;
    struct strbuf out = {0};
    int r = encoder_create(format, &e);
    if (r == 0)
        r = encoder_run(e, b, &out);
    if (r == 0)
        r = encoder_end(e, &out);
    if (r == 0)
        r = file_write_all(STDOUT_FILENO, strbuf_slice(&out));
    if (r < 0)
        say("%s", err_text(r));
    encoder_destroy(e);
    strbuf_fini(&out);
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static const char value_letters[VALUE_TYPES] = {0, 'i', 'u', 'f', 'b', 't', 'x', 'n'};

static int write_event(gridline *g, const struct event *e, int64_t time_ns)
{
    struct gridline_value values[EVENT_FIELDS_MAX];
    struct strbuf names = {0};
    size_t n = 0;
    const char *at = NULL;
    for (uint32_t i = 0; i < e->schema->n_fields; i++) /* the library takes names that end with a NUL */
        strbuf_printf(&names, "%.*s%c", SLICE_ARG(e->schema->fields[i].name), '\0');
    at = names.p;
    for (uint32_t i = 0; i < e->schema->n_fields && at; i++, at += strlen(at) + 1) {
        const struct value *v = &e->values[i];
        struct gridline_value *to = &values[n++];
        *to = (struct gridline_value){.name = at, .type = value_letters[v->type], .n = v->n};
        if (value_is_text(v->type))
            to->v.p = v->p;
        else
            to->v.u = v->u;
    }
    struct strbuf name = {0};
    strbuf_add_slice(&name, e->schema->name);
    int r = strbuf_failed(&names) || strbuf_failed(&name)
                ? -ENOMEM
                : gridline_write_values(g, time_ns, e->level, name.p, values, n);
    strbuf_fini(&names);
    strbuf_fini(&name);
    return r;
}

/* How it went, from the library's own count. */
static int report_sent(gridline *g, const char *url, int flushed, int64_t timeout_ns)
{
    struct gridline_stats stats;
    gridline_stats(g, &stats, sizeof stats);
    if (flushed == 0 && stats.dropped == 0 && stats.passed >= 1)
        return EXIT_OK;
    if (stats.refused_too_old || stats.refused_too_new)
        say("%s refused the event: its time is %s", url,
            stats.refused_too_old ? "older than the archive there keeps such events (archive.keep)"
                                  : "more than a day ahead of the clock there");
    else if (stats.dropped)
        say("%s could not take the event", url);
    else
        say("%s did not take the event within %.3g s (--timeout)", url,
            (double)timeout_ns / (double)NS_PER_S);
    return EXIT_FAILED;
}

static int send_event(const struct log_options *o, const char *url, const struct batch *b)
{
    int64_t timeout_ms = o->timeout_ns / (NS_PER_S / 1000);
    gridline *g = gridline_open(o->prog, url, GRIDLINE_MANUAL);
    if (!g) {
        say("%s: %s", url, err_text(-errno));
        return EXIT_FAILED;
    }
    gridline_set_level(g, GRIDLINE_TRACE); /* asked for by name: not a matter of activation */
    int code = EXIT_FAILED, r = o->host ? gridline_set_host(g, o->host) : 0;
    if (r == 0)
        r = write_event(g, &b->events[0], o->at.is_set ? o->at.at_ns : 0);
    if (r < 0)
        say("%s: %s", url, err_text(r));
    else
        code = report_sent(g, url, gridline_flush(g, timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms),
                           o->timeout_ns);
    gridline_close(g);
    return code;
}

static const char *destination(const struct log_options *o)
{
    const char *url = o->to ? o->to : getenv("GRIDLINE_DEST");
    if (!url || !*url)
        url = getenv("NETLOGGER_DEST");
    return url && *url ? url : NULL;
}

static int log_run(void *state, struct operands words)
{
    const struct log_options *o = state;
    struct fields *f = mem_alloc(sizeof *f);
    int code = EXIT_USAGE;
    struct batch *b = NULL;
    if (take_fields(f, words) == 0)
        b = build(o, words.v[0], f);
    if (b) {
        const char *url = destination(o);
        const struct encoding *format = o->format ? o->format : encoding_by_name(SLICE_LIT("ulm"));
        code = url ? send_event(o, url, b) : print(b, format);
    }
    batch_unref(b);
    free_fields(f);
    return code;
}

static const struct option_spec log_table[] = {
    {0, "to", OPTION_TEXT, "URL", offsetof(struct log_options, to),
     "the destination: a file, `unix:PATH`, `tcp://HOST:PORT`, `syslog:`; without it that of "
     "`GRIDLINE_DEST`, and "
     "without that the event is printed"},
    {'l', "level", OPTION_LEVEL, "LEVEL", offsetof(struct log_options, level),
     "how important it is (default `info`)"},
    {0, "prog", OPTION_TEXT, "NAME", offsetof(struct log_options, prog),
     "the program it is from (default `gridline`)"},
    {0, "host", OPTION_TEXT, "NAME", offsetof(struct log_options, host),
     "the host it is from (default this one)"},
    {0, "time", OPTION_TIME, "TIME", offsetof(struct log_options, at), "when it happened (default `now`)"},
    {'t', "format", OPTION_FORMAT, "FORMAT", offsetof(struct log_options, format),
     "for printing (default `ulm`)"},
    {0, "timeout", OPTION_DURATION, "DURATION", offsetof(struct log_options, timeout_ns),
     "how long the destination may take (default `5s`)"},
    {0},
};

static const struct log_options log_defaults = {
    .prog = "gridline", .timeout_ns = 5 * NS_PER_S, .level = LEVEL_INFO};

static const struct example log_examples[] = {
    {"gridline log job.start id=17 user=ada", "An event on the screen, or to `GRIDLINE_DEST`"},
    {"gridline log -l error --to unix:/run/gridline/agent.sock disk.full device=sda1",
     "To the agent of this host, which acknowledges it"},
    {"gridline log --to events.glb build.end version:text=1.10 ok=true",
     "Appended to a binary file; the version is text, not a number"},
    {NULL, NULL},
};

const struct verb verb_log = {
    .name = "log",
    .summary = "write one event",
    .operands = "EVENT [NAME=VALUE...]",
    .description =
        "Writes one event of that name with these fields. A value is an integer, a float or a "
        "bool (`true`, `false`) "
        "if it is written as people and printf write one (`17`, `0.50`, `1e-05`; the spelling is kept), "
        "otherwise it is text: `007` and `12e4` are text. "
        "`NAME:TYPE=VALUE` names "
        "the type: `int`, `uint`, `float`, `bool`, `text`, `number` as written, or `bytes` in base64.\n"
        "The event goes to the destination of `--to` or of `GRIDLINE_DEST`, and the command ends "
        "when that has taken "
        "it (an agent or a gateway: has acknowledged it). Without a destination it is printed.",
    .operand_kind = OPERAND_WORDS,
    .operands_min = 1,
    .operands_max = 1 + EVENT_FIELDS_MAX,
    .options = log_table,
    .examples = log_examples,
    .lists_formats = true,
    .state_size = sizeof(struct log_options),
    .defaults = &log_defaults,
    .run = log_run,
};
