/* SPDX-License-Identifier: Apache-2.0 */
/* The words for completion are asked for when the first is to be completed, and again by .tables: names of
 * tables and of their fields, from the table `tables`, beside keywords, the head's columns and the system's
 * tables. */
#include "cmd/sql_shell.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "cmd/line.h"
#include "cmd/options.h"
#include "cmd/say.h"
#include "cmd/sql_text.h"
#include "cmd/stop.h"
#include "event/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS_MAX = 1 << 16 };

struct shell {
    const struct sql_shell_options *options;
    struct line_reader *line;
    struct strbuf text; /* typed so far */
    struct arena arena; /* of words */
    struct map words;   /* to themselves */
    struct slice *list; /* of them, in order */
    size_t n, cap;
    bool has_words, has_timer, is_over;
};

/* ---------------------------------------------------------------- words */

static const char *const known_words[] = {
    "SELECT",     "FROM",
    "WHERE",      "GROUP",
    "ORDER",      "BY",
    "LIMIT",      "JOIN",
    "LEFT",       "ON",
    "USING",      "AND",
    "OR",         "NOT",
    "NULL",       "IS",
    "IN",         "LIKE",
    "BETWEEN",    "HAVING",
    "DISTINCT",   "UNION",
    "ALL",        "WITH",
    "RECURSIVE",  "CASE",
    "WHEN",       "THEN",
    "ELSE",       "END",
    "AS",         "ASC",
    "DESC",       "count",
    "avg",        "min",
    "max",        "sum",
    "time",       "host",
    "prog",       "level",
    "tables",     "baselines",
    "partitions", "samples_bucket",
};

static void add_word(struct shell *s, struct slice word)
{
    if (word.n == 0 || s->n == WORDS_MAX || map_get(&s->words, word))
        return;
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 256;
        struct slice *list = mem_try_resize(s->list, cap * sizeof *list);
        if (!list)
            return; /* fewer are offered */
        s->list = list;
        s->cap = cap;
    }
    struct slice copy = arena_copy(&s->arena, word);
    if (copy.p && map_put(&s->words, copy, s) == 0)
        s->list[s->n++] = copy;
}

static void add_table(struct shell *s, struct slice name, struct slice fields)
{
    static const char *const endings[] = {"", "_latest", "_bucket"};
    struct strbuf word = {0};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        strbuf_reset(&word);
        strbuf_printf(&word, "%.*s%s", SLICE_ARG(name), endings[i]);
        add_word(s, strbuf_slice(&word));
    }
    strbuf_fini(&word);
    while (fields.n) {
        const char *comma = memchr(fields.p, ',', fields.n);
        struct slice one = slice_of(fields.p, comma ? (size_t)(comma - fields.p) : fields.n);
        add_word(s, one);
        fields = slice_from(fields, one.n + 1);
    }
}

static int by_name(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* What can't be asked for is not offered. */
static void learn_words(struct shell *s)
{
    struct sql_source *source = s->options->source;
    struct diag why = {0};
    s->has_words = true;
    for (size_t i = 0; i < sizeof known_words / sizeof *known_words; i++)
        add_word(s, slice_str(known_words[i]));
    for (size_t i = 0; table_gateway_names[i]; i++)
        add_word(s, slice_str(table_gateway_names[i]));
    int r = sql_source_ask(source, SLICE_LIT("SELECT name, fields FROM tables"), &why);
    while (r == 0 && sql_source_next(source, &why) > 0) {
        const struct value *row = sql_source_row(source);
        if (row[0].type == VALUE_TEXT && row[1].type == VALUE_TEXT)
            add_table(s, value_slice(row[0]), value_slice(row[1]));
    }
    stop_forget_interrupt();
    if (s->n)
        qsort(s->list, s->n, sizeof *s->list, by_name);
}

static void complete(void *arg, struct slice word, void (*add)(void *to, struct slice candidate), void *to)
{
    struct shell *s = arg;
    static const char *const commands[] = {".help", ".quit", ".schema", ".tables", ".timer"};
    bool is_command = word.n && word.p[0] == '.';
    for (size_t i = 0; is_command && i < sizeof commands / sizeof *commands; i++)
        if (slice_starts(slice_str(commands[i]), word))
            add(to, slice_str(commands[i]));
    if (is_command)
        return;
    if (!s->has_words)
        learn_words(s);
    for (size_t i = 0; word.n && i < s->n; i++)
        if (s->list[i].n >= word.n && slice_eq_nocase(slice_of(s->list[i].p, word.n), word))
            add(to, s->list[i]);
}

/* ---------------------------------------------------------------- commands */

static void run_statement(struct shell *s, struct slice text)
{
    int64_t from = clock_mono_ns();
    (void)s->options->run(s->options->arg, text); /* what is wrong was said */
    if (stop_asked()) {
        say_plain("cancelled");
        stop_forget_interrupt();
    }
    if (s->has_timer)
        say_plain("%.3f s", (double)(clock_mono_ns() - from) / 1e9);
}

/* The columns of a table as its first row has them: none is needed to know their names. */
static void show_schema(struct shell *s, struct slice name)
{
    struct strbuf text = {0};
    struct diag why = {0};
    struct sql_source *source = s->options->source;
    strbuf_add_str(&text, "SELECT * FROM \"");
    for (size_t i = 0; i < name.n; i++)
        strbuf_printf(&text, name.p[i] == '"' ? "\"\"" : "%c", name.p[i]);
    strbuf_add_str(&text, "\" LIMIT 0");
    int r = sql_source_ask(source, strbuf_slice(&text), &why);
    if (r == 0)
        r = sql_source_next(source, &why);
    if (r < 0 && r != -ECANCELED)
        say("%s", why.message);
    for (size_t i = 0; r >= 0 && i < sql_source_columns(source); i++)
        (void)printf("%s%.*s", i ? ", " : "", SLICE_ARG(sql_source_column(source, i)));
    if (r >= 0)
        (void)putchar('\n');
    (void)fflush(stdout); /* nowhere to report it */
    stop_forget_interrupt();
    strbuf_fini(&text);
}

static void show_help(void)
{
    (void)fputs("A statement ends with ; and may take several lines. Ctrl-C cancels the query that runs.\n"
                "  .tables          the tables of the archive\n"
                "  .schema [NAME]   the columns of a table; without NAME the fields of all\n"
                "  .timer on|off    say how long each statement took\n"
                "  .help            this\n"
                "  .quit            end; as does Ctrl-D\n"
                "A gateway has tables of its own besides: ",
                stdout);
    for (size_t i = 0; table_gateway_names[i]; i++)
        (void)printf("%s%s", i ? ", " : "", table_gateway_names[i]);
    (void)fputs(
        ".\nNAME_latest has the newest row of every stream. gridline help sql, and docs/sql.md, have more.\n",
        stdout);
    (void)fflush(stdout); /* nowhere to report it */
}

static struct slice trim(struct slice s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = slice_from(s, 1);
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == ';'))
        s.n--;
    return s;
}

static void run_command(struct shell *s, struct slice line)
{
    size_t n = 0;
    line = trim(line);
    while (n < line.n && line.p[n] != ' ' && line.p[n] != '\t')
        n++;
    struct slice word = slice_of(line.p, n), rest = trim(slice_from(line, n));
    if (slice_eq_str(word, ".quit") || slice_eq_str(word, ".exit"))
        s->is_over = true;
    else if (slice_eq_str(word, ".help"))
        show_help();
    else if (slice_eq_str(word, ".tables"))
        run_statement(s, SLICE_LIT("SELECT name, event FROM tables ORDER BY name"));
    else if (slice_eq_str(word, ".schema") && rest.n)
        show_schema(s, rest);
    else if (slice_eq_str(word, ".schema"))
        run_statement(s, SLICE_LIT("SELECT name, fields FROM tables ORDER BY name"));
    else if (slice_eq_str(word, ".timer") &&
             (rest.n == 0 || slice_eq_str(rest, "on") || slice_eq_str(rest, "off")))
        s->has_timer = rest.n ? slice_eq_str(rest, "on") : !s->has_timer;
    else
        say("there is no %.*s; there are .tables, .schema, .timer, .help and .quit", SLICE_ARG(word));
    s->has_words = s->has_words && !slice_eq_str(word, ".tables"); /* there may be others by now */
}

/* ---------------------------------------------------------------- lines */

/* In the history a statement is one line, unless a comment up to a line's end is in it. */
static void remember(struct shell *s, struct slice text)
{
    struct strbuf one = {0};
    bool has_comment = memmem(text.p, text.n, "--", 2) != NULL;
    for (size_t i = 0; i < text.n; i++)
        strbuf_add_char(&one, text.p[i] == '\n' && !has_comment ? ' ' : text.p[i]);
    if (one.n && !strbuf_failed(&one))
        line_remember(s->line, one.p);
    strbuf_fini(&one);
}

/* Runs what is whole; the rest waits for its end. */
static void run_typed(struct shell *s)
{
    size_t end;
    while ((end = sql_text_end(strbuf_slice(&s->text)))) {
        struct slice statement = slice_of(s->text.p, end);
        if (!sql_text_is_empty(statement)) {
            remember(s, statement);
            run_statement(s, statement);
        }
        strbuf_consume(&s->text, end);
    }
    if (sql_text_is_empty(strbuf_slice(&s->text)))
        strbuf_reset(&s->text);
}

static void take_line(struct shell *s, struct slice line)
{
    if (s->text.n == 0 && line.n && line.p[0] == '.') {
        remember(s, line);
        run_command(s, line);
        return;
    }
    strbuf_add_slice(&s->text, line);
    strbuf_add_char(&s->text, '\n');
    run_typed(s);
}

/* $XDG_STATE_HOME/gridline/sql_history; "" where there is no such folder. */
static void find_history(struct strbuf *out)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct diag why;
    if (state && state[0] == '/')
        strbuf_printf(out, "%s/gridline", state);
    else if (home && home[0] == '/')
        strbuf_printf(out, "%s/.local/state/gridline", home);
    if (out->n == 0 || strbuf_failed(out) || directory_make(out->p, &why) < 0) {
        strbuf_reset(out);
        return;
    }
    strbuf_add_str(out, "/sql_history");
}

static void read_lines(struct shell *s)
{
    while (!s->is_over) {
        struct slice line;
        int r = line_read(s->line, s->text.n ? "   ...> " : "gridline> ", &line);
        if (r == 0)
            break;
        if (r > 0) {
            take_line(s, line);
            continue;
        }
        stop_forget_interrupt();
        strbuf_reset(&s->text);
        if (stop_asked())
            break; /* another signal */
    }
    if (!s->is_over)
        (void)putchar('\n'); /* behind the prompt */
    (void)fflush(stdout);    /* nowhere to report it */
}

int sql_shell_run(const struct sql_shell_options *o)
{
    struct shell s = {.options = o};
    struct strbuf history = {0};
    find_history(&history);
    const struct line_options line = {
        .name = "gridline", .history = history.n ? history.p : NULL, .complete = complete, .arg = &s};
    s.line = line_open(&line);
    if (s.line) {
        say_plain("A statement ends with ;   .help has more");
        read_lines(&s);
    } else {
        say("%s", err_text(-ENOMEM));
    }
    bool is_good = s.line != NULL;
    line_close(s.line);
    map_fini(&s.words);
    mem_free(s.list);
    arena_fini(&s.arena);
    strbuf_fini(&s.text);
    strbuf_fini(&history);
    return is_good ? EXIT_OK : EXIT_FAILED;
}
