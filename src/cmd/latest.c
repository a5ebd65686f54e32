/* SPDX-License-Identifier: Apache-2.0 */
/* gridline latest: the newest event of every stream. The rows of the answers are blocks of events: in any
 * encoding they are written as they are; as a table each is a row. CSV has to know all columns first, so it
 * waits for the end. */
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/output.h"
#include "cmd/question.h"
#include "cmd/say.h"
#include "cmd/schemas.h"
#include "cmd/verbs.h"
#include "event/block.h"
#include "event/head_key.h"
#include "event/stream_key.h"

#include <errno.h>

struct latest_options {
    struct question_options question;
    const char *events, *hosts;
};

struct latest_run {
    struct question question;
    struct registry *registry;
    struct batch_builder *builder;
    struct output *out; /* NULL: a table */
    struct schemas schemas;
    struct batch **kept; /* csv: all of them */
    size_t n_kept, cap_kept;
    bool is_csv;
    bool is_one;            /* one event name was asked for: its fields are columns */
    struct args_writer row; /* of the table */
    struct strbuf text;
    int failed;
};

/* ---------------------------------------------------------------- as a table */

static const struct table_column columns[] = {
    {"time", 19}, {"host", 0}, {"prog", 0}, {"event", 0}, {"keys", 0}, {"values", 0}, {NULL, 0},
};
static const struct table_column one_columns[] = {{"time", 19}, {"host", 0}, {"prog", 0}, {NULL, 0}};

/* "reads=1 state=idle": what is not part of the stream's name. */
static void print_values(struct strbuf *out, const struct event *e)
{
    const char *blank = "";
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        const struct field *f = &e->schema->fields[i];
        if (f->role == ROLE_KEY || e->values[i].type == VALUE_NONE)
            continue;
        strbuf_printf(out, "%s%.*s=", blank, SLICE_ARG(f->name));
        table_add_value(out, e->values[i]);
        blank = " ";
    }
}

static void add_head(struct latest_run *l, const struct event *e)
{
    char time[CLOCK_TEXT_MAX];
    args_add_text(&l->row, "time", slice_of(time, clock_print_iso(time, e->time_ns)));
    args_add_text(&l->row, "host", e->host);
    args_add_text(&l->row, "prog", e->prog);
}

static void add_row(struct latest_run *l, const struct event *e)
{
    args_writer_reset(&l->row);
    add_head(l, e);
    if (l->is_one) {
        for (uint32_t i = 0; i < e->schema->n_fields && l->row.n < ARGS_MAX; i++)
            if (head_key_of(e->schema->fields[i].name) == HEAD_NONE)
                args_add(&l->row, e->schema->fields[i].name, e->values[i]);
    } else {
        strbuf_reset(&l->text);
        stream_key_print(&l->text, e);
        args_add_text(&l->row, "event", e->schema->name);
        args_add_text(&l->row, "keys", strbuf_slice(&l->text));
        strbuf_reset(&l->text);
        print_values(&l->text, e);
        args_add_text(&l->row, "values", strbuf_slice(&l->text));
    }
    table_add(l->question.table, args_of(&l->row), SLICE_LIT(""));
}

/* ---------------------------------------------------------------- rows that are blocks */

/* Takes the reference. */
static void keep(struct latest_run *l, struct batch *b)
{
    if (l->n_kept == l->cap_kept) {
        size_t cap = l->cap_kept ? l->cap_kept * 2 : 64;
        struct batch **kept = mem_try_resize(l->kept, cap * sizeof(struct batch *));
        if (!kept) {
            batch_unref(b);
            l->failed = -ENOMEM;
            return;
        }
        l->kept = kept;
        l->cap_kept = cap;
    }
    l->kept[l->n_kept++] = b;
    for (size_t i = 0; i < b->n; i++)
        schemas_add(&l->schemas, b->events[i].schema);
}

static void take_batch(struct latest_run *l, struct batch *b)
{
    if (l->is_csv) {
        keep(l, b);
        return;
    }
    if (l->out && l->failed == 0)
        l->failed = output_batch(l->out, b);
    for (size_t i = 0; !l->out && i < b->n; i++)
        add_row(l, &b->events[i]);
    batch_unref(b);
}

/* Nothing goes to the table by itself. */
static bool on_row(void *arg, const struct frame_answer *row)
{
    struct latest_run *l = arg;
    struct diag why = {0};
    struct slice block = value_slice(args_value(row->args, "block"));
    if (l->failed)
        return false;
    int r =
        block.n && block_check(block) == (int64_t)block.n ? block_decode(block, l->builder, &why) : E_PROTO;
    struct batch *b = r == 0 ? batch_builder_finish(l->builder, NULL) : NULL;
    if (b)
        take_batch(l, b);
    else
        l->failed = r < 0 ? r : -ENOMEM;
    if (l->failed && l->failed != -EPIPE)
        say("an answer can't be read: %s", err_text(l->failed));
    return false;
}

/* ---------------------------------------------------------------- */

static int finish_output(struct latest_run *l)
{
    int r = l->is_csv ? output_columns(l->out, l->schemas.names, l->schemas.n_names) : 0;
    for (size_t i = 0; i < l->n_kept && r == 0; i++)
        r = output_batch(l->out, l->kept[i]);
    return r < 0 ? r : output_finish(l->out);
}

static int ask_all(struct latest_run *l, const struct latest_options *o)
{
    struct question *q = &l->question;
    const struct encoding *encoding = q->table_options.encoding;
    l->is_csv = encoding && strcmp(encoding->name, "csv") == 0;
    if (encoding && output_open(NULL, encoding, &l->out) < 0)
        return EXIT_FAILED;
    if (o->events)
        args_add_text(&q->args, "event", slice_str(o->events));
    if (o->hosts)
        args_add_text(&q->args, "host", slice_str(o->hosts));
    question_add_where(q);
    q->on_row = on_row;
    q->arg = l;
    int code = question_finish(q, question_pages(q, "latest"));
    int r = l->failed ? l->failed : l->out ? finish_output(l) : 0;
    return code == EXIT_OK && r < 0 && r != -EPIPE ? EXIT_FAILED : code;
}

static void run_fini(struct latest_run *l)
{
    question_close(&l->question);
    output_close(l->out);
    for (size_t i = 0; i < l->n_kept; i++)
        batch_unref(l->kept[i]);
    mem_free(l->kept);
    schemas_fini(&l->schemas);
    batch_builder_destroy(l->builder);
    registry_destroy(l->registry);
    args_writer_fini(&l->row);
    strbuf_fini(&l->text);
}

static int latest_run(void *state, struct operands none)
{
    const struct latest_options *o = state;
    bool is_one = o->events && *o->events && !strpbrk(o->events, ",*?[\\");
    struct latest_run l = {.is_one = is_one,
                           .question = {.prints_itself = true,
                                        .table_options = {.event = "latest",
                                                          .columns = is_one ? one_columns : columns,
                                                          .has_rest = is_one}}};
    (void)none; /* it takes none */
    l.registry = registry_create();
    l.builder = l.registry ? batch_builder_create(l.registry, 0) : NULL;
    int code = EXIT_FAILED;
    if (!l.builder)
        say("%s", err_text(-ENOMEM));
    else
        code = question_open(&l.question, &o->question, "gridline-latest");
    if (code == EXIT_OK)
        code = ask_all(&l, o);
    run_fini(&l);
    return code;
}

#define AT(member) offsetof(struct latest_options, member)

static const struct option_spec table[] = {
    {'e', "event", OPTION_TEXT, "PATTERN[,PATTERN...]", AT(events),
     "events of these names; of one name its fields are the columns of the table"},
    {0, "host", OPTION_TEXT, "PATTERN[,PATTERN...]", AT(hosts),
     "of these hosts; of events about another one (`target`), of that"},
    QUESTION_OPTION(
        'w', "where", OPTION_TEXT, "EXPR", where,
        "only events for which EXPR is true: a WHERE clause of SQL on `time`, `host`, `prog`, `level`, "
        "`name` and the fields, as in `load1 > 4`"),
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline latest", "The newest event of every stream"},
    {"gridline latest --event load --where \"load1 > 4\"", "Hosts that are busy now"},
    {"gridline latest --host node1 --format ulm", "Everything that is known of a host, as ULM"},
    {"gridline latest --event 'disk*' --format csv", "For a spreadsheet"},
    {NULL, NULL},
};

const struct verb verb_latest = {
    .name = "latest",
    .summary = "the newest event of every stream",
    .operands = "",
    .description = "Asks a gateway for the newest event of each stream: of each host, program, event name, "
                   "and value of the key "
                   "fields (the device of a disk). Newest is by the events' own time.\n"
                   "The gateway keeps them in memory, as many streams as its configuration says "
                   "(`latest.streams`); after its "
                   "start it knows only what has come since.\n"
                   "Ends with 3 if there is none of that.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct latest_options),
    .run = latest_run,
};
