/* SPDX-License-Identifier: Apache-2.0 */
/* gridline act: a thin main over gridline/actuator.h. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cmd/act_verb.h"
#include "cmd/file.h"
#include "cmd/say.h"
#include "cmd/table.h"
#include "gridline/actuator.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { SAID_MAX = 5000 };

/* ---------------------------------------------------------------- --list */

struct listing {
    struct table *table;
    const char *actuator;
};

static void add_actuator(struct table *t, const char *name)
{
    struct args_writer row = {0};
    int traits = gridline_actuator_traits(name);
    args_add_text(&row, "actuator", slice_str(name));
    args_add(&row, SLICE_LIT("repeatable"), value_bool(traits & GRIDLINE_ACTUATOR_REPEATABLE));
    args_add(&row, SLICE_LIT("groupable"), value_bool(traits & GRIDLINE_ACTUATOR_GROUPABLE));
    args_add_text(&row, "summary", slice_str(gridline_actuator_summary(name)));
    table_add(t, args_of(&row), SLICE_LIT(""));
    args_writer_fini(&row);
}

static int add_option(void *arg, const char *option, const char *type, const char *default_text,
                      int is_needed, int is_fixed, const char *help)
{
    struct listing *l = arg;
    struct args_writer row = {0};
    args_add_text(&row, "actuator", slice_str(l->actuator));
    args_add_text(&row, "option", slice_str(option));
    args_add_text(&row, "type", slice_str(type));
    args_add(&row, SLICE_LIT("needed"), value_bool(is_needed));
    args_add(&row, SLICE_LIT("fixed"), value_bool(is_fixed));
    if (default_text)
        args_add_text(&row, "default", slice_str(default_text));
    args_add_text(&row, "help", slice_str(help));
    table_add(l->table, args_of(&row), SLICE_LIT(""));
    args_writer_fini(&row);
    return 0;
}

static int say_unknown(const char *actuator)
{
    char why[200];
    (void)gridline_actuator_check(actuator, NULL, why, sizeof why); /* it is not there; why says so */
    say("%s%s", why, strstr(why, "did you mean") ? "" : "; `gridline act --list` shows them");
    return EXIT_NOT_FOUND;
}

static int list(const struct act_options *o, struct operands names)
{
    static const struct table_column actuators[] = {
        {"actuator", 0}, {"repeatable", 0}, {"groupable", 0}, {"summary", 0}, {NULL, 0}};
    static const struct table_column options[] = {{"actuator", 0}, {"option", 0},  {"type", 0}, {"needed", 0},
                                                  {"fixed", 0},    {"default", 0}, {"help", 0}, {NULL, 0}};
    struct table_options t = {.event = names.n ? "actuator.option" : "actuator",
                              .columns = names.n ? options : actuators,
                              .shows_all = true};
    if (!table_format(o->format, &t.encoding))
        return EXIT_USAGE;
    struct listing l = {.table = table_create(&t)};
    int code = l.table ? EXIT_OK : EXIT_FAILED;
    for (size_t i = 0; code == EXIT_OK && names.n == 0 && gridline_actuator_name(i); i++)
        add_actuator(l.table, gridline_actuator_name(i));
    for (size_t i = 0; code == EXIT_OK && i < names.n; i++) {
        l.actuator = names.v[i];
        if (gridline_actuator_options(names.v[i], add_option, &l) == -ENOENT)
            code = say_unknown(names.v[i]);
    }
    if (code == EXIT_OK && table_finish(l.table) < 0)
        code = EXIT_FAILED;
    table_destroy(l.table);
    return code;
}

/* ---------------------------------------------------------------- doing it */

/* The values of --data; their names are cut out of the arguments, which are ours. false after having said
 * what is wrong. */
static bool read_data(const struct option_texts *texts, struct gridline_value *out, struct arena *arena)
{
    for (size_t i = 0; i < texts->n; i++) {
        size_t n = strcspn(texts->v[i], "=");
        const char *name = arena_copy(arena, slice_of(texts->v[i], n + 1)).p;
        if (n == 0 || texts->v[i][n] != '=' || !name) {
            say("--data: '%s' is not NAME=VALUE", texts->v[i]);
            return false;
        }
        ((char *)(uintptr_t)name)[n] = '\0'; /* over the `=` of the copy */
        out[i] = (struct gridline_value){
            .name = name, .type = 't', .v.p = texts->v[i] + n + 1, .n = strlen(texts->v[i] + n + 1)};
    }
    return true;
}

static int code_of(int r)
{
    return r == 0                        ? EXIT_OK
           : r == -EINVAL                ? EXIT_USAGE
           : r == -ENOENT                ? EXIT_NOT_FOUND
           : r == -EPERM || r == -EACCES ? EXIT_NOT_ALLOWED
                                         : EXIT_FAILED;
}

/* With --format a row says it, for a program. */
static int print_row(const struct table_options *t, struct args_writer *row)
{
    struct table *table = table_create(t);
    int r = table ? 0 : -ENOMEM;
    if (r == 0) {
        table_add(table, args_of(row), SLICE_LIT(""));
        r = table_finish(table);
    }
    table_destroy(table);
    args_writer_fini(row);
    return r;
}

static int print_plan(const struct act_options *o, const struct table_options *t, const char *actuator,
                      const char *plan)
{
    struct args_writer row = {0};
    if (!o->format)
        return file_write_all(STDOUT_FILENO, slice_str(plan));
    args_add_text(&row, "actuator", slice_str(actuator));
    args_add_text(&row, "plan", slice_str(plan));
    return print_row(t, &row);
}

static int dry_run(const struct act_options *o, const char *actuator, const char *const *options,
                   const struct gridline_value *data)
{
    static const struct table_column columns[] = {{"actuator", 0}, {"plan", 0}, {NULL, 0}};
    struct table_options t = {.event = "actuator.plan", .columns = columns, .shows_all = true};
    char *plan = NULL, why[200];
    if (!table_format(o->format, &t.encoding))
        return EXIT_USAGE;
    int r = gridline_actuator_plan(actuator, options, data, o->data.n, &plan, why, sizeof why);
    int written = r == 0 ? print_plan(o, &t, actuator, plan) : 0;
    free(plan);
    if (r < 0)
        say("%s", why);
    return written < 0 ? EXIT_FAILED : code_of(r);
}

static int check(const char *actuator, const char *const *options)
{
    char why[200];
    int r = gridline_actuator_check(actuator, options, why, sizeof why);
    if (r < 0)
        say("%s", why);
    return code_of(r);
}

static int print_end(const struct table_options *t, const char *actuator, int r, const char *said,
                     struct slice output)
{
    struct args_writer row = {0};
    args_add_text(&row, "actuator", slice_str(actuator));
    args_add(&row, SLICE_LIT("done"), value_bool(r == 0));
    args_add_text(&row, "text", slice_str(said));
    args_add(&row, SLICE_LIT("output"), text_is_utf8(output) ? value_text(output) : value_bytes(output));
    return print_row(t, &row);
}

static int run(const struct act_options *o, const char *actuator, const char *const *options,
               const struct gridline_value *data)
{
    static const struct table_column columns[] = {
        {"actuator", 0}, {"done", 0}, {"text", 0}, {"output", 0}, {NULL, 0}};
    struct table_options t = {.event = "actuator.end", .columns = columns, .shows_all = true};
    char said[SAID_MAX], *output;
    size_t size;
    if (!table_format(o->format, &t.encoding))
        return EXIT_USAGE;
    int64_t ms = o->timeout_ns / 1000000;
    int timeout = ms > INT32_MAX ? INT32_MAX : o->timeout_ns > 0 && ms == 0 ? 1 : (int)ms;
    int r = gridline_actuator_run_output(actuator, options, data, o->data.n, timeout, said, sizeof said,
                                         &output, &size);
    const struct slice printed = slice_of(size ? output : "", size);
    int written = o->format ? print_end(&t, actuator, r, said, printed)
                  : size    ? file_write_all(STDOUT_FILENO, printed)
                            : 0;
    free(output);
    say("%s%s%s", r == -EINVAL ? "" : actuator, r == -EINVAL ? "" : ": ",
        said); /* of options it says itself */
    return r == 0 && written < 0 ? EXIT_FAILED : code_of(r);
}

int act_run(const struct act_options *o, struct operands words)
{
    struct gridline_value data[OPTION_TEXTS_MAX];
    struct arena arena = {0};
    if (o->list)
        return list(o, words);
    if (words.n == 0) {
        say("which actuator? `gridline act --list` shows them");
        return EXIT_USAGE;
    }
    if (!gridline_actuator_summary(words.v[0]))
        return say_unknown(words.v[0]);
    /* What stands behind the name are options, and NULL ends argv. */
    const char **options = mem_alloc(words.n * sizeof *options);
    for (size_t i = 1; i < words.n; i++)
        options[i - 1] = words.v[i];
    int code = EXIT_USAGE;
    if (o->check)
        code = check(words.v[0], options);
    else if (read_data(&o->data, data, &arena))
        code = (o->dry_run ? dry_run : run)(o, words.v[0], options, data);
    mem_free(options);
    arena_fini(&arena);
    return code;
}
