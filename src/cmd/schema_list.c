/* SPDX-License-Identifier: Apache-2.0 */
/* gridline schemas: what events look like, as a gateway has seen them. */
#include "cmd/verbs.h"
#include "cmd/watch.h"

struct schemas_options {
    struct question_options question;
    bool has_fields, is_watch;
};

static const struct table_column version_columns[] = {
    {"event", 0},  {"hash", 0},  {"fields", 0},   {"makers", 0}, {"events", 0},
    {"first", 19}, {"last", 19}, {"conflict", 0}, {NULL, 0},
};

static const struct table_column field_columns[] = {
    {"event", 0}, {"hash", 8}, {"field", 0}, {"type", 0},     {"role", 0},
    {"class", 0}, {"by", 0},   {"numbers", 0}, {"texts", 0},  {"quoted", 0},
    {"kind", 0},  {"unit", 0}, {"help", 0},  {"conflict", 0}, {NULL, 0},
};

static const char *const version_keys[] = {"event", "hash", NULL};
static const char *const field_keys[] = {"event", "hash", "field", "type", NULL};
static const char *const version_changes[] = {"fields", "conflict", NULL};
static const char *const field_changes[] = {"conflict", NULL};

static int schemas_run(void *state, struct operands patterns)
{
    const struct schemas_options *o = state;
    struct question q = {.table_options = {.event = o->has_fields ? "schema.field" : "schema",
                                           .columns = o->has_fields ? field_columns : version_columns}};
    const struct watch_options watched = {o->has_fields ? field_keys : version_keys,
                                          o->has_fields ? field_changes : version_changes, "directory.schema",
                                          "event", "event"};
    int code = question_open(&q, &o->question, "gridline-schemas");
    if (code == EXIT_OK)
        code = question_add_list(&q, "event", "event names", patterns.v, patterns.n);
    if (code == EXIT_OK) {
        if (o->has_fields)
            args_add_uint(&q.args, "fields", 1);
        question_add_where(&q);
        code = question_finish(&q, watch_run(&q, "schemas", o->is_watch, &watched, NULL, NULL, NULL));
    }
    question_close(&q);
    return code;
}

static const struct option_spec table[] = {
    {'f', "fields", OPTION_FLAG, NULL, offsetof(struct schemas_options, has_fields),
     "a row for each field: type, role, class and who says so, values seen, kind, unit, help"},
    QUESTION_OPTION('w', "where", OPTION_TEXT, "EXPR", where,
                    "only rows for which EXPR is true: a WHERE clause of SQL on the columns, as in `conflict "
                    "IS NOT NULL`, "
                    "or with `--fields` in `unit = 'bytes'`"),
    WATCH_OPTION(struct schemas_options, is_watch),
    QUESTION_OPTIONS,
    {0},
};

static const struct example examples[] = {
    {"gridline schemas", "Every version of every schema"},
    {"gridline schemas 'disk*' --fields", "What is in these events"},
    {"gridline schemas --where \"conflict IS NOT NULL\"", "Names whose fields have two types"},
    {NULL, NULL},
};

const struct verb verb_schemas = {
    .name = "schemas",
    .summary = "what events look like, in which versions",
    .operands = "[PATTERN...]",
    .description = "Lists the schemas of events whose names match a PATTERN (`*`, `?`, `[a-z]`; none: all): "
                   "a row for each version, "
                   "which is known by its hash. `makers` counts the hosts, and on them programs, that made "
                   "it last or announced it; "
                   "`fields` is not there while none of its events has come. `conflict` names the fields "
                   "that have two types over "
                   "the versions of the name: both are kept, and a query has to choose.\n"
                   "Ends with 3 if there is none.",
    .operands_max = 1024,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct schemas_options),
    .run = schemas_run,
};
