/* SPDX-License-Identifier: Apache-2.0 */
/* gridline export: events out of an archive, in any encoding, in order of time. csv takes two passes, as its
 * columns come first. */
#include "cmd/export.h"

#include "base/clock.h"
#include "cmd/output.h"
#include "cmd/say.h"
#include "cmd/schemas.h"
#include "cmd/stop.h"
#include "cmd/verbs.h"
#include "event/encoding.h"

#include <errno.h>
#include <inttypes.h>

enum { DRAW_MS = 500, QUIET_MS = 1000 };
static const int64_t ns_per_ms = 1000000;

struct export
{
    const struct export_options *options;
    const struct export_source_ops *ops;
    const struct encoding *format;
    struct export_request request;
    void *source;
    struct output *out;
    struct schemas schemas; /* csv */
    uint64_t events;
    int64_t start_ns, drawn_ns;
};

static void draw(struct export *x)
{
    int64_t now = clock_mono_ns();
    char at[CLOCK_TEXT_MAX];
    if (x->options->is_quiet || now - x->start_ns < QUIET_MS * ns_per_ms ||
        now - x->drawn_ns < DRAW_MS * ns_per_ms)
        return;
    x->drawn_ns = now;
    int64_t at_ns = x->ops->at_ns(x->source);
    (void)clock_print_iso(at, at_ns > INT64_MIN ? at_ns : 0); /* its length is known */
    say_status("%" PRIu64 " events, %.0f a second, at %.19s", x->events,
               (double)x->events * (double)NS_PER_S / (double)(now - x->start_ns), at);
}

static int pass(struct export *x, int (*take)(struct export *x, const struct batch *b))
{
    const struct batch *b;
    x->events = 0;
    int r = x->ops->begin(x->source, &x->request);
    while (r == 0 && (r = x->ops->next(x->source, &b)) > 0) {
        x->events += b->n;
        r = take(x, b);
        if (r == 0 && stop_asked())
            r = -EINTR;
        draw(x);
    }
    say_progress_end();
    return r;
}

static int take_schemas(struct export *x, const struct batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        schemas_add(&x->schemas, b->events[i].schema);
    return 0;
}

static int take_events(struct export *x, const struct batch *b)
{
    return output_batch(x->out, b);
}

static int set_columns(struct export *x)
{
    if (x->options->columns)
        return output_named_columns(x->out, x->options->columns);
    int r = pass(x, take_schemas);
    return r < 0 ? r : output_columns(x->out, x->schemas.names, x->schemas.n_names);
}

static int write_all(struct export *x)
{
    int r = output_open(x->options->output, x->format, &x->out);
    if (r == 0 && strcmp(x->format->name, "csv") == 0)
        r = set_columns(x);
    if (r == 0)
        r = pass(x, take_events);
    return r < 0 ? r : output_finish(x->out);
}

static const struct encoding *format_of(const struct export_options *o)
{
    const struct encoding *named = o->output ? encoding_by_suffix(slice_str(o->output)) : NULL;
    return o->format ? o->format : named ? named : encoding_by_name(SLICE_LIT("ndjson"));
}

static int prepare(struct export *x)
{
    const struct export_options *o = x->options;
    if (o->archive && (o->gateway || o->identity)) {
        say("--archive and --gateway do not go together; leave one out");
        return EXIT_USAGE;
    }
    x->format = format_of(o);
    x->request = (struct export_request){
        .from_ns = o->filter.from.is_set ? o->filter.from.at_ns : INT64_MIN,
        .to_ns = !o->filter.to.is_set             ? INT64_MAX
                 : o->filter.to.at_ns > INT64_MIN ? o->filter.to.at_ns - 1
                                                  : INT64_MIN,
        .events = slice_str(o->events ? o->events : ""),
        .hosts = slice_str(o->hosts ? o->hosts : ""),
        .where = slice_str(o->filter.where ? o->filter.where : ""),
        .with_origins = strcmp(x->format->name, "binary") == 0 && !o->is_bare,
    };
    x->ops = o->archive ? &export_archive : &export_gateway;
    x->start_ns = x->drawn_ns = clock_mono_ns();
    int r = x->ops->open(o, &x->source);
    return r == 0 ? EXIT_OK : r == -EACCES ? EXIT_NOT_ALLOWED : r == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
}

static int report(struct export *x, int r)
{
    if (r == -EPIPE)
        return EXIT_OK; /* the reader has enough */
    if (r < 0)
        return r == E_PROTO ? EXIT_USAGE : r == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED;
    uint64_t lost = x->ops->lost(x->source), left_out = output_left_out(x->out);
    struct notices notices = {0};
    x->ops->notices(x->source, &notices);
    say_notices(&notices);
    if (lost)
        say("%" PRIu64 " events are damaged and were left out; `gridline archive check` says which", lost);
    if (left_out && !x->options->columns)
        say("%" PRIu64 " values had no column", left_out);
    return lost || (left_out && !x->options->columns) ? EXIT_PARTLY : EXIT_OK;
}

static int export_run(void *state, struct operands none)
{
    struct export x = {.options = state};
    (void)none; /* it takes none */
    int code = prepare(&x);
    if (code == EXIT_OK)
        code = report(&x, write_all(&x));
    output_close(x.out);
    if (x.ops)
        x.ops->close(x.source);
    schemas_fini(&x.schemas);
    return code;
}

static const struct option_spec table[] = {
    {0, "archive", OPTION_FILE, "DIR", offsetof(struct export_options, archive),
     "from the archive in this folder, whoever writes it: without what is not on disk yet"},
    {'g', "gateway", OPTION_TEXT, "ADDRESS", offsetof(struct export_options, gateway),
     "from the archive of this gateway: `unix:PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT` (default: the "
     "one on "
     "this host)"},
    {0, "identity", OPTION_FILE, "DIR", offsetof(struct export_options, identity),
     "your key and certificate for `tls://` (default: `GRIDLINE_IDENTITY`, or "
     "`~/.config/gridline/identity`)"},
    {'e', "event", OPTION_TEXT, "PATTERNS", offsetof(struct export_options, events),
     "only events whose names match one of these, separated by commas, as in `job.*,disk`"},
    {0, "host", OPTION_TEXT, "PATTERNS", offsetof(struct export_options, hosts),
     "only of these hosts, the same"},
    {0, "from", OPTION_TIME, "TIME", offsetof(struct export_options, filter.from),
     "only events at TIME or later"},
    {0, "to", OPTION_TIME, "TIME", offsetof(struct export_options, filter.to), "only events before TIME"},
    {'w', "where", OPTION_TEXT, "EXPR", offsetof(struct export_options, filter.where),
     "only events for which EXPR is true: a WHERE clause of SQL on `time`, `host`, `prog`, `level`, `name` "
     "and the "
     "fields, as in `level <= 'warning' AND size > 1000`"},
    {'t', "format", OPTION_FORMAT, "FORMAT", offsetof(struct export_options, format), "write this format"},
    {'o', "output", OPTION_FILE, "FILE", offsetof(struct export_options, output),
     "write to FILE, which appears when everything went well; its ending names the format unless `--format` "
     "does"},
    {0, "columns", OPTION_TEXT, "NAMES", offsetof(struct export_options, columns),
     "for csv: these fields, separated by commas, in this order; otherwise all fields there are"},
    {0, "no-origins", OPTION_FLAG, NULL, offsetof(struct export_options, is_bare),
     "for binary: without producer and number of each event. The file is smaller, all in order of time, and "
     "new to "
     "whoever imports it"},
    {0, "timeout", OPTION_DURATION, "TIME", offsetof(struct export_options, timeout_ns),
     "wait so long for a gateway that says nothing (default 10s)"},
    {'q', "quiet", OPTION_FLAG, NULL, offsetof(struct export_options, is_quiet), "no progress"},
    {0},
};

static const struct example examples[] = {
    {"gridline export --from now-1h", "The last hour as JSON, one object a line"},
    {"gridline export --archive /srv/archive --event 'job.*' -o jobs.glb",
     "Of some names, for another archive"},
    {"gridline export -t csv --columns user,idle -e cpu --host node7 --from now-1d", "For a spreadsheet"},
    {NULL, NULL},
};

const struct verb verb_export = {
    .name = "export",
    .summary = "events out of an archive",
    .operands = "",
    .description =
        "Writes the events of an archive in any format, in order of time, as they went in: every value with "
        "its type. "
        "Of a schema, roles, kinds, units and help are in the binary format only. That also keeps the "
        "producer and the "
        "number of each event, by which `gridline import` and gateways know what they have; events of one "
        "producer "
        "then stand together, and only stretches of time follow each other (`gridline merge` sorts).\n"
        "Events are the raw ones, as long as the archive keeps them; tiers and what is derived from events "
        "are left "
        "to `gridline sql`.\n"
        "Ends with 4 if something is damaged and was left out.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct export_options),
    .run = export_run,
};
