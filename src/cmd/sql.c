/* SPDX-License-Identifier: Apache-2.0 */
/* gridline sql: queries, at a gateway or over an archive's folder. */
#include "cmd/sql_print.h"
#include "cmd/sql_shell.h"
#include "cmd/sql_source.h"
#include "cmd/sql_text.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/file.h"
#include "cmd/options.h"
#include "cmd/say.h"
#include "cmd/stop.h"
#include "cmd/verbs.h"
#include "event/query.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

enum { FILE_MAX = 16 << 20 };

struct sql_options {
    const char *gateway, *identity, *archive, *format, *file, *event;
    int64_t time_ns, timeout_ns;
    uint64_t rows;
};

struct sql_run {
    const struct sql_options *options;
    struct sql_source *source;
    struct sql_print_format format;
};

/* ---------------------------------------------------------------- one statement */

static int exit_of(int r, bool has_rows)
{
    if (has_rows && r != -EACCES)
        return EXIT_PARTLY;
    switch (r) {
    case E_PROTO:
        return EXIT_USAGE;
    case -EACCES:
        return EXIT_NOT_ALLOWED;
    case -ENOENT:
        return EXIT_NOT_FOUND;
    default:
        return EXIT_FAILED;
    }
}

static void say_wrong(struct slice text, const struct diag *why)
{
    struct strbuf place = {0};
    say("%s", why->message);
    sql_text_point(&place, text, why->col);
    if (place.n && !strbuf_failed(&place))
        say_plain("%s", place.p);
    strbuf_fini(&place);
}

static int make_printer(struct sql_run *q, struct sql_printer **out)
{
    size_t n = sql_source_columns(q->source);
    struct slice *names = mem_alloc((n + 1) * sizeof *names);
    for (size_t i = 0; i < n; i++)
        names[i] = sql_source_column(q->source, i);
    int r = sql_printer_create(&q->format, names, n, out);
    mem_free(names);
    return r;
}

/* Rows to the printer, which is made with the first. *printed: what it says, 0 or why it gives up. */
static int print_rows(struct sql_run *q, struct sql_printer **printer, int *printed, uint64_t *rows,
                      struct diag *why)
{
    int r;
    while ((r = sql_source_next(q->source, why)) >= 0) {
        if (!*printer)
            *printed = make_printer(q, printer);
        if (r == 0 || *printed < 0)
            break;
        *printed = sql_printer_row(*printer, sql_source_row(q->source));
        ++*rows;
        if (*printed < 0)
            break;
    }
    return r > 0 ? 0 : r;
}

static int run_statement(struct sql_run *q, struct slice text)
{
    struct diag why = {0};
    struct sql_printer *printer = NULL;
    int printed = 0;
    uint64_t rows = 0, lost = 0;
    struct notices notices = {0};
    int r = sql_source_ask(q->source, text, &why);
    if (r == 0)
        r = print_rows(q, &printer, &printed, &rows, &why);
    if (r == 0)
        sql_source_end(q->source, &lost, &notices);
    if (printer && printed == 0)
        printed = sql_printer_end(printer, r, why.message, lost, &notices);
    sql_printer_destroy(printer);
    if (r == -ECANCELED || printed == -EPIPE)
        return rows ? EXIT_PARTLY : EXIT_FAILED; /* whoever did that knows */
    if (r < 0) {
        say_wrong(text, &why);
        return exit_of(r, rows > 0);
    }
    if (printed < 0)
        return printed == E_PROTO ? EXIT_USAGE : EXIT_FAILED; /* it was said */
    say_notices(&notices);
    if (lost)
        say("%" PRIu64 " rows or more are missing: that part of the archive is damaged; `gridline archive "
            "check` says which",
            lost);
    return lost ? EXIT_PARTLY : EXIT_OK;
}

static int run_one(void *arg, struct slice statement)
{
    return run_statement(arg, statement);
}

/* One behind the other, up to the first that fails. */
static int run_text(struct sql_run *q, struct slice text)
{
    int code = EXIT_OK;
    bool has_any = false;
    while (text.n && code == EXIT_OK && !stop_asked()) {
        size_t end = sql_text_end(text);
        struct slice statement = end ? slice_of(text.p, end) : text;
        if (!sql_text_is_empty(statement)) {
            has_any = true;
            code = run_statement(q, statement);
        }
        text = slice_from(text, statement.n);
    }
    if (!has_any && code == EXIT_OK) {
        say("there is no statement in it");
        return EXIT_USAGE;
    }
    return code;
}

/* ---------------------------------------------------------------- where the text is */

static int read_file(const char *path, struct strbuf *out)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -errno : 1;
    while (n > 0 && out->n <= FILE_MAX) {
        char *room = strbuf_room(out, QUERY_TEXT_MAX);
        n = room ? file_read(fd, room, QUERY_TEXT_MAX) : -ENOMEM;
        if (n > 0)
            strbuf_advance(out, (size_t)n);
    }
    if (n > 0)
        n = E_LIMIT;
    if (n < 0 && n != -EINTR)
        say("%s: %s", path, err_text((int)n));
    if (fd >= 0 && !is_stdin)
        (void)close(fd); /* only read from */
    return (int)n;
}

static int run_from_file(struct sql_run *q, const char *path)
{
    struct strbuf text = {0};
    int r = read_file(path, &text);
    int code = r < 0 ? (r == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED) : run_text(q, strbuf_slice(&text));
    strbuf_fini(&text);
    return code;
}

static int run_what_is_asked(struct sql_run *q, struct operands texts)
{
    const struct sql_shell_options shell = {.source = q->source, .run = run_one, .arg = q};
    int code = EXIT_OK;
    for (size_t i = 0; i < texts.n && code == EXIT_OK; i++)
        code = run_text(q, slice_str(texts.v[i]));
    if (q->options->file && code == EXIT_OK)
        code = run_from_file(q, q->options->file);
    if (texts.n || q->options->file)
        return code;
    return isatty(STDIN_FILENO) ? sql_shell_run(&shell) : run_from_file(q, "-");
}

static int sql_run(void *state, struct operands texts)
{
    const struct sql_options *o = state;
    struct diag why = {0};
    struct sql_run q = {.options = o, .format = {.event = o->event}};
    const struct sql_source_options source = {.gateway = o->gateway,
                                              .identity = o->identity,
                                              .archive = o->archive,
                                              .timeout_ns = o->timeout_ns,
                                              .time_ns = o->time_ns,
                                              .rows = o->rows};
    if (o->gateway && o->archive) {
        say("--gateway and --archive are two places; give one");
        return EXIT_USAGE;
    }
    if (!sql_print_format(o->format, &q.format))
        return EXIT_USAGE;
    int r = sql_source_open(&source, &q.source, &why);
    if (r < 0) {
        say("%s", why.message);
        return exit_of(r, false);
    }
    int code = run_what_is_asked(&q, texts);
    sql_source_close(q.source);
    return code;
}

/* ---------------------------------------------------------------- */

#define OPTION(letter, name, type, metavar, member, help)                       \
    {                                                                           \
        letter, name, type, metavar, offsetof(struct sql_options, member), help \
    }
static const struct option_spec table[] = {
    OPTION('g', "gateway", OPTION_TEXT, "ADDRESS", gateway,
           "ask this gateway: `unix:PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT` (default: the one on this "
           "host)"),
    OPTION('a', "archive", OPTION_FILE, "DIR", archive,
           "read the archive in DIR, with no gateway running, or beside it: then without the rows that are "
           "still in its "
           "memory"),
    OPTION('f', "file", OPTION_FILE, "FILE", file, "run the statements in FILE; `-` is standard input"),
    OPTION('t', "format", OPTION_TEXT, "FORMAT", format,
           "`table` (default), `json`, `ndjson` or `csv`; or events, as `ulm`, `bp`, `xml` or `binary`"),
    OPTION(0, "event", OPTION_TEXT, "NAME", event,
           "the name of the events, where no column `name` or `event` has it"),
    OPTION(0, "time", OPTION_DURATION, "TIME", time_ns, "a statement may take so long (default 30s)"),
    OPTION(0, "rows", OPTION_SIZE, "N", rows, "a result may have so many rows, else it fails (default 1M)"),
    OPTION(0, "identity", OPTION_FILE, "DIR", identity,
           "your key and certificate for `tls://` (default: `GRIDLINE_IDENTITY`, or "
           "`~/.config/gridline/identity`)"),
    OPTION(0, "timeout", OPTION_DURATION, "TIME", timeout_ns,
           "wait so long for the gateway to answer (default 10s)"),
    {0},
};

static const struct example examples[] = {
    {"gridline sql 'SELECT host, user FROM cpu_latest'", "The newest row of every stream of cpu"},
    {"gridline sql \"SELECT host, avg(one) FROM load WHERE time > at('now-1h') GROUP BY host\"",
     "An average over an hour"},
    {"gridline sql 'SELECT w.host, w.state, l.time FROM workers w LEFT JOIN load_latest l USING (host)'",
     "What the gateway knows beside what was measured"},
    {"gridline sql --format csv -f report.sql > report.csv", "Statements of a file, for a spreadsheet"},
    {"gridline sql --archive /var/lib/gridline/gateway/archive",
     "Interactive, over files, whoever wrote them"},
    {"gridline sql --format ulm --event cpu 'SELECT * FROM cpu'", "Rows as events again"},
    {NULL, NULL},
};

const struct verb verb_sql = {
    .name = "sql",
    .summary = "query events, live and archived, and what the gateway knows",
    .operands = "[SQL...]",
    .description =
        "Runs SQL: every event name is a table with columns time, host, prog, level and the event's fields; "
        "NAME_latest has the "
        "newest row of every stream; a gateway describes itself in workers, sensors, schemas, schema_fields, "
        "subscriptions, "
        "ledger and domains; `tables` lists the tables of events. It only reads. docs/sql.md has the "
        "language.\n"
        "Without SQL and --file, statements come from standard input. At a terminal that is interactive: a "
        "statement may take "
        "several lines and ends with `;`, names are completed with the tab key, the history is kept in "
        "`gridline/sql_history` of the state folder, `.help` lists the commands, and Ctrl-C cancels the "
        "query that runs.\n"
        "In a table a column `time` is shown as a time; the other formats have its nanoseconds. As events "
        "(`ulm`, `bp`, `xml`, "
        "`binary`) a result must have columns time and host, and a name: a column name or event, or "
        "--event.\n"
        "Ends with 2 if a statement is wrong, 5 if it may not be asked, 4 if rows were printed and others "
        "are missing.",
    .operands_max = 64,
    .options = table,
    .examples = examples,
    .state_size = sizeof(struct sql_options),
    .run = sql_run,
};
