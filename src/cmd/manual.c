/* SPDX-License-Identifier: Apache-2.0 */
/* A page is sections of paragraphs, terms with an explanation, and literal lines. The functions section,
 * paragraph, term and literal write each of them in either form; everything above them knows nothing of roff.
 *
 * Text has one mark: `code`. It becomes bold in roff and nothing in text. Pages are ASCII. */
#include "cmd/manual.h"

#include "event/encoding.h"
#include "gridline/gridline.h"

#include <stdarg.h>

#define MANUAL_DATE "2026-11-15"

enum { WIDTH = 80, INDENT = 4, TERM_INDENT = 12 };

struct page {
    struct strbuf *out;
    enum manual_form form;
};

/* One word of text for roff: escapes, and `code` as bold. *bold carries on over words. */
static void roff_word(struct strbuf *out, struct slice word, bool *bold)
{
    if (word.n && (word.p[0] == '.' || word.p[0] == '\''))
        strbuf_add_str(out, "\\&");
    for (size_t i = 0; i < word.n; i++) {
        char c = word.p[i];
        if (c == '`') {
            *bold = !*bold;
            strbuf_add_str(out, *bold ? "\\fB" : "\\fR");
        } else if (c == '\\') {
            strbuf_add_str(out, "\\e");
        } else if (c == '-') {
            strbuf_add_str(out, "\\-");
        } else {
            strbuf_add_char(out, c);
        }
    }
}

static void text_word(struct strbuf *out, struct slice word)
{
    for (size_t i = 0; i < word.n; i++)
        if (word.p[i] != '`')
            strbuf_add_char(out, word.p[i]);
}

static struct slice next_word(struct slice *text)
{
    size_t from = 0, to;
    while (from < text->n && (text->p[from] == ' ' || text->p[from] == '\n'))
        from++;
    for (to = from; to < text->n && text->p[to] != ' ' && text->p[to] != '\n';)
        to++;
    struct slice word = {text->p + from, to - from};
    *text = slice_from(*text, to);
    return word;
}

/* Text from column `at` on, broken at WIDTH, further lines indented. Ends the line. */
static void fill(struct page *p, struct slice text, size_t indent, size_t at)
{
    bool bold = false, first = true;
    for (struct slice word = next_word(&text); word.n; word = next_word(&text), first = false) {
        if (!first && at + 1 + word.n > WIDTH) {
            strbuf_printf(p->out, "\n%*s", p->form == MANUAL_TEXT ? (int)indent : 0, "");
            at = indent;
        } else if (!first) {
            strbuf_add_char(p->out, ' ');
            at++;
        }
        if (p->form == MANUAL_ROFF)
            roff_word(p->out, word, &bold);
        else
            text_word(p->out, word);
        at += word.n;
    }
    strbuf_add_char(p->out, '\n');
}

static void section(struct page *p, const char *name)
{
    if (p->form == MANUAL_ROFF)
        strbuf_printf(p->out, ".SH %s\n", name);
    else
        strbuf_printf(p->out, "%s%s\n", p->out->n ? "\n" : "", name);
}

/* Each line of text is a paragraph. is_first: no break before it. */
static void paragraphs(struct page *p, const char *text)
{
    struct slice rest = slice_str(text);
    for (bool is_first = true; rest.n; is_first = false) {
        const char *lf = memchr(rest.p, '\n', rest.n);
        struct slice one = {rest.p, lf ? (size_t)(lf - rest.p) : rest.n};
        rest = slice_from(rest, one.n + 1);
        if (!is_first)
            strbuf_add_str(p->out, p->form == MANUAL_ROFF ? ".PP\n" : "\n");
        if (p->form == MANUAL_TEXT)
            strbuf_printf(p->out, "%*s", INDENT, "");
        fill(p, one, INDENT, INDENT);
    }
}

/* A term with what it means; the term is literal text. */
static void term(struct page *p, const char *name, struct slice text)
{
    bool bold = false;
    if (p->form == MANUAL_ROFF) {
        strbuf_add_str(p->out, ".TP\n\\fB");
        roff_word(p->out, slice_str(name), &bold);
        strbuf_add_str(p->out, "\\fR\n");
        fill(p, text, 0, 0);
        return;
    }
    int width = TERM_INDENT - INDENT;
    bool fits = strlen(name) + 2 <= (size_t)width;
    strbuf_printf(p->out, "%*s%-*s", INDENT, "", width, name);
    if (!fits)
        strbuf_printf(p->out, "\n%*s", TERM_INDENT, "");
    fill(p, text, TERM_INDENT, TERM_INDENT);
}

static void literal(struct page *p, const char *text)
{
    bool bold = false;
    if (p->form == MANUAL_TEXT) {
        strbuf_printf(p->out, "%*s%s\n", INDENT * 2, "", text);
        return;
    }
    strbuf_add_str(p->out, ".RS 4\n.nf\n");
    roff_word(p->out, slice_str(text), &bold);
    strbuf_add_str(p->out, "\n.fi\n.RE\n");
}

static void head(struct page *p, const char *name, const char *summary)
{
    char upper[64];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof upper; n++)
        upper[n] = (char)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 32 : name[n]);
    upper[n] = '\0';
    if (p->form == MANUAL_ROFF)
        strbuf_printf(p->out, ".TH %s 1 \"" MANUAL_DATE "\" \"gridline %s\" \"gridline manual\"\n", upper,
                      gridline_version());
    section(p, "NAME");
    if (p->form == MANUAL_TEXT)
        strbuf_printf(p->out, "%*s%s - %s\n", INDENT, "", name, summary);
    else
        strbuf_printf(p->out, "%s \\- %s\n", name, summary);
}

/* "-o, --output FILE" */
static void option_name(const struct option_spec *o, char *to, size_t size)
{
    char letter[8] = "";
    if (o->letter)
        (void)snprintf(letter, sizeof letter, "-%c, ", o->letter); /* fits */
    (void)snprintf(to, size, "%s--%s%s%s", letter, o->name, o->metavar ? " " : "",
                   o->metavar ? o->metavar : "");
}

/* What the format options may name: the table of encodings knows, no text does. */
static void add_choices(struct strbuf *out, const struct option_spec *o)
{
    if (o->type != OPTION_FORMAT && o->type != OPTION_INPUT)
        return;
    bool first = true;
    strbuf_add_str(out, ": ");
    for (size_t i = 0; encoding_at(i); i++) {
        const struct encoding *e = encoding_at(i);
        if (o->type == OPTION_INPUT && !e->decoder)
            continue;
        strbuf_printf(out, "%s`%s`", first ? "" : ", ", e->name);
        first = false;
    }
}

static void option_list(struct page *p, const struct verb *v)
{
    char name[80];
    for (const struct option_spec *o = v->options; o->name; o++) {
        if (!o->help)
            continue;
        struct strbuf text = {0};
        strbuf_add_str(&text, o->help);
        add_choices(&text, o);
        option_name(o, name, sizeof name);
        term(p, name, strbuf_slice(&text));
        strbuf_fini(&text);
    }
    term(p, "-h, --help", SLICE_LIT("show a short help and exit"));
}

static void format_list(struct page *p)
{
    section(p, "FORMATS");
    for (size_t i = 0; encoding_at(i); i++) {
        const struct encoding *e = encoding_at(i);
        struct strbuf text = {0};
        strbuf_printf(&text, "%s. File name ending `%s`.", e->summary, e->suffix);
        term(p, e->name, strbuf_slice(&text));
        strbuf_fini(&text);
    }
}

static void example_list(struct page *p, const struct example *examples)
{
    section(p, "EXAMPLES");
    for (const struct example *e = examples; e->says; e++) {
        if (e != examples)
            strbuf_add_str(p->out, p->form == MANUAL_ROFF ? ".PP\n" : "\n");
        paragraphs(p, e->says);
        literal(p, e->command);
    }
}

static void exit_list(struct page *p)
{
    section(p, "EXIT STATUS");
    term(p, "0", SLICE_LIT("done"));
    term(p, "1", SLICE_LIT("failed; the reason is on standard error"));
    term(p, "2", SLICE_LIT("the command line is wrong"));
    term(p, "3", SLICE_LIT("what was asked for does not exist"));
    term(p, "4", SLICE_LIT("done in part: something was skipped, and named on standard error"));
    term(p, "5", SLICE_LIT("not allowed"));
}

static void see_also(struct page *p, const struct verb *self, struct verb_list all)
{
    struct strbuf text = {0};
    const char *separator = "";
    if (self) {
        strbuf_add_str(&text, "`gridline`(1)");
        separator = ", ";
    }
    for (size_t i = 0; i < all.n; i++) {
        if (all.v[i] == self)
            continue;
        strbuf_printf(&text, "%s`gridline-%s`(1)", separator, all.v[i]->name);
        separator = ", ";
    }
    section(p, "SEE ALSO");
    paragraphs(p, text.n ? text.p : "");
    strbuf_fini(&text);
}

static void synopsis(struct strbuf *out, const struct verb *v)
{
    strbuf_printf(out, "gridline %s%s%s%s", v->name, v->options->name ? " [OPTION...]" : "",
                  *v->operands ? " " : "", v->operands);
}

void manual_verb(struct strbuf *out, enum manual_form form, const struct verb *v, struct verb_list all)
{
    struct page p = {out, form};
    struct strbuf text = {0};
    strbuf_printf(&text, "gridline-%s", v->name);
    head(&p, text.p ? text.p : "gridline", v->summary);
    strbuf_reset(&text);
    synopsis(&text, v);
    section(&p, "SYNOPSIS");
    paragraphs(&p, text.n ? text.p : "");
    section(&p, "DESCRIPTION");
    paragraphs(&p, v->description);
    section(&p, "OPTIONS");
    option_list(&p, v);
    if (v->lists_formats)
        format_list(&p);
    if (v->examples)
        example_list(&p, v->examples);
    exit_list(&p);
    see_also(&p, v, all);
    strbuf_fini(&text);
}

static const char about[] = "gridline watches a grid end to end: hosts, networks, middleware and "
                            "applications. Programs and sensors make "
                            "time-stamped events; this command starts the parts, shows what they say, and "
                            "works with files of events.\n"
                            "Data goes to standard output, everything else to standard error. `NO_COLOR` and "
                            "a terminal's absence are "
                            "respected. Times are `now`, `now-15m`, ISO 8601 (UTC unless a zone is given) or "
                            "seconds since 1970; sizes "
                            "have units (`64MiB`, `2G`), durations too (`250ms`, `5s`, `1h`).";

static const struct example command_examples[] = {
    {"gridline run", "Watch this host: an agent and a gateway, here and now"},
    {"gridline tail -e load --cross load1:8:2", "Once when the load gets to 8, once when it is below 6"},
    {"gridline hosts --where \"cpus >= 8 AND state <> 'live'\"", "Who is missing"},
    {"gridline log job.start id=17 user=ada", "Write an event (to GRIDLINE_DEST, or to the screen)"},
    {"gridline merge --from now-1h --keep-going -o all.ulm node*.ulm", "Many files into one, in time order"},
    {NULL, NULL},
};

void manual_command(struct strbuf *out, enum manual_form form, struct verb_list all)
{
    struct page p = {out, form};
    head(&p, "gridline", "watch a grid: hosts, networks, programs");
    section(&p, "SYNOPSIS");
    paragraphs(&p, "gridline COMMAND [OPTION...] [ARGUMENT...]");
    section(&p, "DESCRIPTION");
    paragraphs(&p, about);
    section(&p, "COMMANDS");
    for (size_t i = 0; i < all.n; i++)
        term(&p, all.v[i]->name, slice_str(all.v[i]->summary));
    format_list(&p);
    example_list(&p, command_examples);
    section(&p, "ENVIRONMENT");
    term(&p, "GRIDLINE_DEST",
         SLICE_LIT("where `gridline log` and programs that use libgridline write events"));
    term(&p, "TMPDIR",
         SLICE_LIT("where `gridline merge` and `gridline convert` put what does not fit in memory"));
    exit_list(&p);
    see_also(&p, NULL, all);
}

void manual_usage(struct strbuf *out, const struct verb *v)
{
    struct page p = {out, MANUAL_TEXT};
    strbuf_add_str(out, "usage: ");
    synopsis(out, v);
    strbuf_printf(out, "\n%s\n\n", v->summary);
    option_list(&p, v);
    strbuf_printf(out, "\n'gridline help %s' is the manual.\n", v->name);
}

enum { SCREEN_LINES = 24, SCREEN_WIDTH = 78, GROUP_WIDTH = 12 };

/* The commands by what a person wants; one that is in none of these is with the last. */
static const struct {
    const char *title, *verbs; /* by spaces */
} groups[] = {
    {"begin", "run sense doctor"},
    {"parts", "agent gateway"},
    {"events", "tail latest summary sql collect log"},
    {"the grid", "hosts sensors schemas schema subscriptions ledger access"},
    {"faults", "faults ack silence rule audit"},
    {"orders", "worker sensor activate act"},
    {"archive", "sql archive import export baseline"},
    {"files", "convert merge"},
    {"set up", "config init token join"},
    {"more", ""},
};
enum { GROUPS = sizeof groups / sizeof *groups };

static size_t group_of(const char *verb)
{
    for (size_t g = 0; g < GROUPS - 1; g++)
        for (const char *at = groups[g].verbs; (at = strstr(at, verb)); at++)
            if ((at == groups[g].verbs || at[-1] == ' ') && strchr(" ", at[strlen(verb)]))
                return g;
    return GROUPS - 1;
}

/* Its commands in lines that fit a screen; how many lines. */
static size_t put_group(struct strbuf *out, size_t group, struct verb_list all)
{
    size_t column = 0, lines = 0;
    for (size_t i = 0; i < all.n; i++) {
        if (group_of(all.v[i]->name) != group)
            continue;
        size_t n = strlen(all.v[i]->name);
        if (lines == 0 || column + 2 + n > SCREEN_WIDTH) {
            strbuf_printf(out, "%s  %-*s", lines ? "\n" : "", GROUP_WIDTH, lines ? "" : groups[group].title);
            column = GROUP_WIDTH;
            lines++;
        }
        strbuf_printf(out, "  %s", all.v[i]->name);
        column += 2 + n;
    }
    if (lines)
        strbuf_add_str(out, "\n");
    return lines;
}

void manual_cheat_sheet(struct strbuf *out, struct verb_list all)
{
    strbuf_add_str(out, "gridline COMMAND: watches a grid: hosts, networks, programs\n\n");
    size_t lines = 6; /* what is around the commands and examples */
    for (size_t g = 0; g < GROUPS; g++)
        lines += put_group(out, g, all);
    strbuf_add_str(out, "\n");
    for (const struct example *e = command_examples; e->says && lines + 2 <= SCREEN_LINES; e++, lines += 2)
        strbuf_printf(out, "  # %s\n  %s\n", e->says, e->command);
    strbuf_add_str(out, "\n'gridline help' has a line for each, 'gridline help COMMAND' its manual;\n"
                        "COMMAND --help lists its options.\n");
}
