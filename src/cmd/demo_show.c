/* SPDX-License-Identifier: Apache-2.0 */
/* Words go to standard output, as the tour is what was asked for, filled into lines; commands are shown as
 * they would be typed, and run as that. */
#include "base/child.h"
#include "base/clock.h"
#include "cmd/demo.h"
#include "cmd/program.h"
#include "cmd/say.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { WIDTH = 100, INDENT = 3, LOOK_MS = 20, WORDS_MAX = 24, COMMAND_S = 60 };

/* ---------------------------------------------------------------- words */

static bool is_coloured(void)
{
    return isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
}

int demo_step(struct demo *d, unsigned number, const char *title)
{
    if (d->is_quiet)
        return demo_tick(d);
    (void)printf("\n%s%u  %s%s\n", is_coloured() ? "\033[1m" : "", number, title,
                 is_coloured() ? "\033[0m" : "");
    (void)fflush(stdout);
    if (!d->options->has_pauses)
        return demo_tick(d);
    (void)printf("%*s[Enter goes on]", INDENT, "");
    (void)fflush(stdout);
    for (struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};;) {
        int code = demo_tick(d);
        if (code != EXIT_OK)
            return code;
        char line[256];
        if (poll(&in, 1, LOOK_MS) > 0)
            return read(STDIN_FILENO, line, sizeof line) >= 0 ? EXIT_OK : EXIT_FAILED;
    }
}

/* A paragraph. */
void demo_say(const struct demo *d, const char *format, ...)
{
    struct strbuf text = {0};
    va_list ap;
    char *line = NULL;
    if (d->is_quiet)
        return;
    va_start(ap, format);
    if (vasprintf(&line, format, ap) < 0)
        abort(); /* as mem_alloc does without memory */
    va_end(ap);
    size_t column = 0;
    strbuf_add_char(&text, '\n');
    for (const char *at = line; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (column && column + 1 + n > WIDTH) {
            strbuf_add_char(&text, '\n');
            column = 0;
        }
        if (column)
            strbuf_add_char(&text, ' ');
        else
            strbuf_printf(&text, "%*s", INDENT, "");
        column += n + (column ? 1 : INDENT);
        strbuf_add(&text, at, n);
        at += n;
    }
    (void)printf("%s\n", strbuf_slice(&text).p);
    (void)fflush(stdout);
    free(line); /* vasprintf's own */
    strbuf_fini(&text);
}

/* ---------------------------------------------------------------- commands */

/* What it prints goes to out. Other things go on meanwhile. EXIT_FAILED: we are to end. */
static int finish(struct demo *d, struct child *c, struct strbuf *out)
{
    for (int64_t now = clock_mono_ns(); child_pump(c, now); now = clock_mono_ns()) {
        struct slice more = child_output(c);
        struct pollfd p = {.fd = child_wait_fd(c), .events = POLLIN};
        strbuf_add_slice(out, more);
        child_consume(c, more.n);
        if (demo_tick(d) != EXIT_OK)
            return EXIT_FAILED;
        (void)poll(&p, 1, LOOK_MS);
    }
    strbuf_add_slice(out, child_output(c));
    return EXIT_OK;
}

static int run(struct demo *d, const char *const *argv, const char *input, struct strbuf *out,
               struct strbuf *said)
{
    const struct child_options options = {
        .argv = argv, .has_input = input, .max_run_ns = COMMAND_S * NS_PER_S, .buffer_max = 1 << 20};
    struct diag why = {0};
    struct child *c;
    int r = child_start(&options, clock_mono_ns(), &c, &why);
    if (r < 0) {
        say("%s", why.message);
        return EXIT_FAILED;
    }
    if (input) {
        (void)child_write(c, slice_str(input)); /* it is short; who does not take it says why */
        child_end_input(c);
    }
    int code = finish(d, c, out);
    const struct child_end *end = child_end(c);
    if (code == EXIT_OK && (end->reason != CHILD_BY_ITSELF || end->code != 0)) {
        (void)child_explain(c, &why);
        say("%s: %s", argv[0], child_said(c)[0] ? child_said(c) : why.message);
        code = end->code > 0 ? end->code : EXIT_FAILED;
    }
    strbuf_add_str(said, child_said(c));
    child_destroy(c);
    return code;
}

int demo_command(struct demo *d, const char *const *argv, const char *input)
{
    struct strbuf out = {0}, said = {0};
    int code = run(d, argv, input, &out, &said);
    strbuf_fini(&out);
    strbuf_fini(&said);
    return code;
}

/* As one would type it. */
static void show_words(const char *const *words)
{
    (void)printf("\n%*s$ gridline", INDENT, "");
    for (; *words; words++) {
        const char *quote = strchr(*words, '\'') ? "\"" : strpbrk(*words, " *;()<>|&$\n\"") ? "'" : "";
        (void)printf(" %s", quote);
        for (const char *p = *words; *p; p++)
            if (*p == '\n')
                (void)printf("\n%*s", INDENT + 4, "");
            else
                (void)putchar(*p);
        (void)printf("%s", quote);
    }
    (void)printf(" -g $G\n");
    (void)fflush(stdout);
}

static void show_lines(struct slice text, unsigned lines)
{
    unsigned n = 0;
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        size_t length = end ? (size_t)(end - text.p) : text.n;
        if (n++ < lines)
            (void)printf("%*s%.*s\n", INDENT + 2, "", (int)length, text.p);
        text = slice_from(text, length + 1);
    }
    if (lines && n > lines)
        (void)printf("%*s... and %u more\n", INDENT + 2, "", n - lines);
}

int demo_run(struct demo *d, unsigned lines, const char *const *words)
{
    const char *argv[WORDS_MAX + 4];
    struct strbuf path = {0}, out = {0}, said = {0};
    size_t n = 1;
    argv[0] = program_find("gridline", &path) < 0 ? "gridline" : path.p;
    for (size_t i = 0; words[i] && n < WORDS_MAX; i++)
        argv[n++] = words[i];
    argv[n++] = "--gateway";
    argv[n++] = d->socket.p;
    argv[n] = NULL;
    if (!d->is_quiet && !d->hides_commands)
        show_words(words);
    else if (!d->is_quiet)
        (void)printf("\n");
    int code = run(d, argv, NULL, &out, &said);
    if (code == EXIT_OK && !d->is_quiet) {
        show_lines(strbuf_slice(&out), lines);
        show_lines(strbuf_slice(&said), 1);
        (void)fflush(stdout);
    }
    strbuf_fini(&path);
    strbuf_fini(&out);
    strbuf_fini(&said);
    return code;
}

int demo_sql(struct demo *d, unsigned lines, const char *format, ...)
{
    va_list ap;
    char *text;
    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        abort(); /* as above */
    va_end(ap);
    int code = d->is_quiet ? EXIT_OK : DEMO_RUN(d, lines, "sql", text);
    free(text);
    return code;
}
