/* SPDX-License-Identifier: Apache-2.0 */
/* gridline audit: what a guard has done, and whether what it wrote down about it was changed. */
#include "base/text.h"
#include "cmd/file.h"
#include "cmd/say.h"
#include "cmd/table.h"
#include "cmd/verbs.h"
#include "guard/audit.h"
#include "guard/audit_line.h"
#include "guard/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct audit_options {
    const char *format, *head;
    bool is_long;
};

/* ---------------------------------------------------------------- where it is */

static bool has_audit(const char *path)
{
    char first[4200];
    return snprintf(first, sizeof first, "%s/audit-000001.log", path) < (int)sizeof first &&
           access(first, F_OK) == 0;
}

/* Where this user's guard has it, by its configuration. */
static int find_usual(struct strbuf *out)
{
    const struct config_flags none = {.file = NULL};
    struct guard_config *config = NULL;
    struct diag why = {0};
    int r = guard_config_load(&none, &config, &why);
    if (r < 0) {
        say("the guard's configuration does not say where its audit is: %s; give the folder", why.message);
        return EXIT_FAILED;
    }
    strbuf_printf(out, "%s/audit", config->state_dir);
    guard_config_destroy(config);
    return EXIT_OK;
}

/* A guard's state_dir will do as well as the folder itself. */
static int find_folder(const char *given, struct strbuf *out)
{
    if (!given)
        return find_usual(out);
    strbuf_printf(out, "%s/audit", given);
    if (strbuf_failed(out) || has_audit(given) || !has_audit(out->p)) {
        strbuf_reset(out);
        strbuf_add_str(out, given);
    }
    return EXIT_OK;
}

static int explain(const char *path, int code)
{
    if (code == -ENOENT) {
        say("no audit is in %.200s; give the folder, or the guard's state_dir", path);
        return EXIT_NOT_FOUND;
    }
    say("%.200s: %s", path, err_text(code));
    return code == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED;
}

/* ---------------------------------------------------------------- verify */

static int is_it(void *arg, const struct audit_line *l)
{
    return slice_eq_str(l->hash, arg) ? 1 : 0;
}

/* Is the line with this hash still there? */
static int check_head(const char *path, const char *head)
{
    char lower[AUDIT_HASH + 1] = "";
    size_t n = strcspn(head, "\r\n \t"); /* as $(...) leaves it of a row */
    for (size_t i = 0; i < n && i < AUDIT_HASH; i++)
        lower[i] = slice_lower(head[i]);
    for (size_t i = 0; i < n; i++)
        if (n != AUDIT_HASH || text_hex_digit(head[i]) < 0) {
            say("--head: '%.80s' is no hash of an audit: 64 hexadecimal digits", head);
            return EXIT_USAGE;
        }
    int r = audit_each(path, is_it, lower, NULL);
    if (r < 0)
        return explain(path, r);
    if (r == 1)
        return EXIT_OK;
    say("no line has the hash %.64s: lines were cut off at the end, or all of it was made anew", lower);
    return EXIT_FAILED;
}

/* For people. */
static int print_whole(const struct audit_result *r)
{
    struct strbuf out = {0};
    strbuf_printf(&out, "whole: %" PRIu64 " line%s in %" PRIu64 " file%s, head %s\n", r->lines,
                  r->lines == 1 ? "" : "s", r->files, r->files == 1 ? "" : "s", r->head);
    if (r->torn)
        strbuf_printf(&out, "%" PRIu64 " time%s a crash left part of a line, as the line behind it says\n",
                      r->torn, r->torn == 1 ? "" : "s");
    return file_print(&out);
}

/* With --format: a row, whatever was found. */
static int print_row(const char *format, const struct audit_result *r, const char *state)
{
    static const struct table_column columns_of[] = {{"state", 0}, {"lines", 0}, {"files", 0}, {"torn", 0},
                                                     {"cut", 0},   {"head", 0},  {"where", 0}, {NULL, 0}};
    struct table_options t = {.event = "audit.verify", .columns = columns_of};
    struct args_writer row = {0};
    if (!table_format(format, &t.encoding))
        return EXIT_USAGE;
    struct table *table = table_create(&t);
    if (!table)
        return EXIT_FAILED;
    args_add_text(&row, "state", slice_str(state));
    args_add_uint(&row, "lines", r->lines);
    args_add_uint(&row, "files", r->files);
    args_add_uint(&row, "torn", r->torn);
    args_add_uint(&row, "cut", r->cut);
    args_add_text(&row, "head", slice_str(r->head));
    args_add_text(&row, "where", slice_str(r->where));
    table_add(table, args_of(&row), SLICE_LIT(""));
    int code = table_finish(table) < 0 ? EXIT_FAILED : EXIT_OK;
    table_destroy(table);
    args_writer_fini(&row);
    return code;
}

static int verify(const struct audit_options *o, const char *path)
{
    struct audit_result result;
    struct diag why = {0};
    int r = audit_verify(path, &result, &why);
    if (r < 0 && r != E_DAMAGE)
        return explain(path, r);
    int code = r == E_DAMAGE ? EXIT_FAILED : o->head ? check_head(path, o->head) : EXIT_OK;
    if (r == E_DAMAGE) {
        say("%.150s/%s", path, why.message);
        say_plain("the %" PRIu64 " lines before it are whole", result.lines);
    } else if (code == EXIT_OK && result.cut) {
        say("%.150s: lines are missing: a guard that started has found so (`gridline audit show`: " AUDIT_CUT
            ")",
            path);
        code = EXIT_FAILED;
    }
    if (code == EXIT_OK && !o->format)
        return print_whole(&result);
    if (!o->format || (code != EXIT_OK && code != EXIT_FAILED))
        return code;
    int printed = print_row(o->format, &result,
                            r == E_DAMAGE     ? "changed"
                            : code == EXIT_OK ? "whole"
                                              : "cut");
    return printed == EXIT_OK ? code : printed;
}

/* ---------------------------------------------------------------- show */

static const struct table_column columns[] = {
    {"n", 0},       {"at", 19},    {"what", 0}, {"action", 0},   {"rule", 0},  {"fault", 16},
    {"attempt", 0}, {"result", 0}, {"by", 20},  {"summary", 60}, {"text", 60}, {NULL, 0},
};

struct showing {
    struct table *table;
    struct args_writer row;
    struct strbuf value;
};

static int show_line(void *arg, const struct audit_line *l)
{
    struct showing *s = arg;
    struct slice name;
    int r;
    args_writer_reset(&s->row);
    args_add_uint(&s->row, "n", l->n);
    args_add_text(&s->row, "at", l->time);
    args_add_text(&s->row, "what", l->what);
    for (size_t at = 0; (r = audit_line_datum(l, &at, &name, &s->value)) > 0;) {
        struct slice v = strbuf_slice(&s->value);
        if (text_is_name(name))
            args_add(&s->row, name, text_is_utf8(v) ? value_text(v) : value_bytes(v));
    }
    table_add(s->table, args_of(&s->row), SLICE_LIT(""));
    return r < 0 ? r : 0;
}

static int show(const struct audit_options *o, const char *path)
{
    struct table_options t = {.event = "audit", .columns = columns, .has_rest = o->is_long};
    struct showing s = {0};
    uint64_t bad = 0;
    if (!table_format(o->format, &t.encoding))
        return EXIT_USAGE;
    s.table = table_create(&t);
    if (!s.table)
        return EXIT_FAILED;
    int r = audit_each(path, show_line, &s, &bad);
    int code = r < 0 ? explain(path, r) : table_finish(s.table) < 0 ? EXIT_FAILED : EXIT_OK;
    if (r >= 0 && bad) {
        say("%" PRIu64 " lines are not shown: they are not as they were written; `gridline audit verify`",
            bad);
        code = code == EXIT_OK ? EXIT_PARTLY : code;
    }
    table_destroy(s.table);
    args_writer_fini(&s.row);
    strbuf_fini(&s.value);
    return code;
}

/* ---------------------------------------------------------------- */

static int audit_run(void *state, struct operands words)
{
    const struct audit_options *o = state;
    const bool is_verify = words.n && strcmp(words.v[0], "verify") == 0;
    struct strbuf path = {0};
    if (!is_verify && !(words.n && strcmp(words.v[0], "show") == 0)) {
        say("write `audit verify [DIR]` or `audit show [DIR]`");
        return EXIT_USAGE;
    }
    int code = find_folder(words.n > 1 ? words.v[1] : NULL, &path);
    if (code == EXIT_OK)
        code = strbuf_failed(&path) ? explain("", -ENOMEM) : is_verify ? verify(o, path.p) : show(o, path.p);
    strbuf_fini(&path);
    return code;
}

#define AT(member) offsetof(struct audit_options, member)

static const struct option_spec table[] = {
    {0, "head", OPTION_TEXT, "HASH", AT(head),
     "the audit must have the line with this hash, as a guard's event `guard.state` said it"},
    {'l', "long", OPTION_FLAG, NULL, AT(is_long), "every value of each line"},
    {'t', "format", OPTION_TEXT, "FORMAT", AT(format), "a table (default), or events in this encoding"},
    {0},
};

static const struct example examples[] = {
    {"gridline audit verify", "Was anything changed?"},
    {"gridline audit verify --head $(cat head-of-yesterday)", "And was nothing cut off since?"},
    {"gridline audit show /var/lib/gridline/guard", "What a guard has done"},
    {"gridline audit show --long --format json", "All of it, for a program"},
    {NULL, NULL},
};

const struct verb verb_audit = {
    .name = "audit",
    .summary = "what a guard has done, and whether that was changed",
    .operands = "verify|show [DIR]",
    .description =
        "A guard writes down what it does: each attempt of an action before it starts and when it has ended, "
        "who acknowledged or silenced what, its own start and end. Each line has a hash over itself and the "
        "line before, so that none can be changed, taken away, put in or moved without trace.\n"
        "`verify` reads all of it, and says where the first line is that is not as it was written. Lines "
        "that "
        "are missing at the very end can't be found so: a guard sees it when it starts, and writes that "
        "down; "
        "and keep the head elsewhere (the guard's event "
        "`guard.state` has it every minute) and give it with --head. With --format it prints a row, also "
        "when "
        "something is wrong: `state` is whole, changed (at `where`) or cut.\n"
        "`show` lists the lines. DIR is the folder, or a guard's state_dir; none: where this user's guard "
        "has "
        "it.\n"
        "Ends with 0: whole; 1: changed; 3: there is no audit; 4: some lines can't be shown.",
    .operand_kind = OPERAND_WORDS,
    .operands_min = 1,
    .operands_max = 2,
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct audit_options),
    .run = audit_run,
};
