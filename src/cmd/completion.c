/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/completion.h"

#include "base/err.h"
#include "event/encoding.h"
#include "event/level.h"

/* The words an option's value can be, separated by blanks; none for free text. */
static void add_values(struct strbuf *out, enum option_type type)
{
    if (type == OPTION_LEVEL)
        for (uint8_t i = 0; i < LEVEL_COUNT; i++)
            strbuf_printf(out, "%s%.*s", i ? " " : "", SLICE_ARG(level_lower(i)));
    if (type != OPTION_FORMAT && type != OPTION_INPUT)
        return;
    const char *separator = "";
    for (size_t i = 0; encoding_at(i); i++) {
        if (type == OPTION_INPUT && !encoding_at(i)->decoder)
            continue;
        strbuf_printf(out, "%s%s", separator, encoding_at(i)->name);
        separator = " ";
    }
}

static void add_verbs(struct strbuf *out, struct verb_list all)
{
    for (size_t i = 0; i < all.n; i++)
        strbuf_printf(out, "%s%s", i ? " " : "", all.v[i]->name);
}

/* Help text as it stands between single quotes of a shell: without `, ' and brackets, which zsh would read.
 */
static void add_help(struct strbuf *out, const char *help)
{
    for (; *help; help++)
        if (!strchr("`'[]:", *help))
            strbuf_add_char(out, *help);
}

/* ---------------------------------------------------------------- bash */

static void bash_values(struct strbuf *out, const struct verb *v)
{
    for (const struct option_spec *o = v->options; o->name; o++) {
        if (!o->help || o->type == OPTION_FLAG)
            continue;
        strbuf_printf(out, "        %s,--%s", v->name, o->name);
        if (o->letter)
            strbuf_printf(out, "|%s,-%c", v->name, o->letter);
        if (o->type == OPTION_FILE) {
            strbuf_add_str(out, ") COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n");
            continue;
        }
        strbuf_add_str(out, ") COMPREPLY=($(compgen -W '");
        add_values(out, o->type);
        strbuf_add_str(out, "' -- \"$word\")); return ;;\n");
    }
}

static void bash_words(struct strbuf *out, const struct verb *v, struct verb_list all)
{
    strbuf_printf(out, "        %s,-*) COMPREPLY=($(compgen -W '--help", v->name);
    for (const struct option_spec *o = v->options; o->name; o++)
        if (o->help)
            strbuf_printf(out, " --%s", o->name);
    strbuf_add_str(out, "' -- \"$word\")) ;;\n");
    if (v->operand_kind == OPERAND_FILES) {
        strbuf_printf(out, "        %s,*) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n", v->name);
    } else if (v->operand_kind == OPERAND_VERBS) {
        strbuf_printf(out, "        %s,*) COMPREPLY=($(compgen -W '", v->name);
        add_verbs(out, all);
        strbuf_add_str(out, "' -- \"$word\")) ;;\n");
    }
}

static void write_bash(struct strbuf *out, struct verb_list all)
{
    strbuf_add_str(out, "# bash completion for gridline\n_gridline() {\n"
                        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                        "    COMPREPLY=()\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                        "        COMPREPLY=($(compgen -W '");
    add_verbs(out, all);
    strbuf_add_str(out, "' -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]},$before in\n");
    for (size_t i = 0; i < all.n; i++)
        bash_values(out, all.v[i]);
    strbuf_add_str(out, "    esac\n    case ${COMP_WORDS[1]},$word in\n");
    for (size_t i = 0; i < all.n; i++)
        bash_words(out, all.v[i], all);
    strbuf_add_str(out, "    esac\n}\ncomplete -o filenames -F _gridline gridline\n");
}

/* ---------------------------------------------------------------- zsh */

static void zsh_option(struct strbuf *out, const struct option_spec *o)
{
    strbuf_add_str(out, "            ");
    if (o->letter)
        strbuf_printf(out, "'(-%c --%s)'{-%c,--%s}'[", o->letter, o->name, o->letter, o->name);
    else
        strbuf_printf(out, "'--%s[", o->name);
    add_help(out, o->help);
    strbuf_add_char(out, ']');
    if (o->type != OPTION_FLAG)
        strbuf_printf(out, ":%s:", o->metavar);
    if (o->type == OPTION_FILE)
        strbuf_add_str(out, "_files");
    if (o->type == OPTION_FORMAT || o->type == OPTION_INPUT || o->type == OPTION_LEVEL) {
        strbuf_add_char(out, '(');
        add_values(out, o->type);
        strbuf_add_char(out, ')');
    }
    strbuf_add_str(out, "' \\\n");
}

static void zsh_verb(struct strbuf *out, const struct verb *v, struct verb_list all)
{
    strbuf_printf(out, "        %s)\n            _arguments \\\n", v->name);
    for (const struct option_spec *o = v->options; o->name; o++)
        if (o->help)
            zsh_option(out, o);
    strbuf_add_str(out, "            '(-h --help)'{-h,--help}'[show a short help]'");
    if (v->operand_kind == OPERAND_FILES)
        strbuf_add_str(out, " \\\n            '*:file:_files'");
    if (v->operand_kind == OPERAND_VERBS) {
        strbuf_add_str(out, " \\\n            '1:command:(");
        add_verbs(out, all);
        strbuf_add_str(out, ")'");
    }
    strbuf_add_str(out, "\n            ;;\n");
}

static void write_zsh(struct strbuf *out, struct verb_list all)
{
    strbuf_add_str(out, "#compdef gridline\n_gridline() {\n    if (( CURRENT == 2 )); then\n"
                        "        local -a verbs=(\n");
    for (size_t i = 0; i < all.n; i++) {
        strbuf_printf(out, "            '%s:", all.v[i]->name);
        add_help(out, all.v[i]->summary);
        strbuf_add_str(out, "'\n");
    }
    strbuf_add_str(out,
                   "        )\n        _describe command verbs\n        return\n    fi\n"
                   "    local verb=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $verb in\n");
    for (size_t i = 0; i < all.n; i++)
        zsh_verb(out, all.v[i], all);
    strbuf_add_str(out, "    esac\n}\n_gridline \"$@\"\n");
}

/* ---------------------------------------------------------------- fish */

static void fish_option(struct strbuf *out, const struct verb *v, const struct option_spec *o)
{
    strbuf_printf(out, "complete -c gridline -n '__fish_seen_subcommand_from %s' -l %s", v->name, o->name);
    if (o->letter)
        strbuf_printf(out, " -s %c", o->letter);
    if (o->type == OPTION_FILE)
        strbuf_add_str(out, " -r -F");
    else if (o->type != OPTION_FLAG)
        strbuf_add_str(out, " -x");
    if (o->type == OPTION_FORMAT || o->type == OPTION_INPUT || o->type == OPTION_LEVEL) {
        strbuf_add_str(out, " -a '");
        add_values(out, o->type);
        strbuf_add_char(out, '\'');
    }
    strbuf_add_str(out, " -d '");
    add_help(out, o->help);
    strbuf_add_str(out, "'\n");
}

static void write_fish(struct strbuf *out, struct verb_list all)
{
    strbuf_add_str(out, "# fish completion for gridline\n");
    for (size_t i = 0; i < all.n; i++) {
        const struct verb *v = all.v[i];
        strbuf_printf(out, "complete -c gridline -n __fish_use_subcommand -f -a %s -d '", v->name);
        add_help(out, v->summary);
        strbuf_add_str(out, "'\n");
        if (v->operand_kind != OPERAND_FILES)
            strbuf_printf(out, "complete -c gridline -n '__fish_seen_subcommand_from %s' -f\n", v->name);
        for (const struct option_spec *o = v->options; o->name; o++)
            if (o->help)
                fish_option(out, v, o);
    }
    strbuf_add_str(out, "complete -c gridline -n '__fish_seen_subcommand_from help' -a '");
    add_verbs(out, all);
    strbuf_add_str(out, "'\n");
}

static const struct {
    struct slice name;
    void (*write)(struct strbuf *out, struct verb_list all);
} shells[] = {
    {{"bash", 4}, write_bash},
    {{"zsh", 3}, write_zsh},
    {{"fish", 4}, write_fish},
};

int completion_write(struct strbuf *out, struct slice shell, struct verb_list all)
{
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (slice_eq(shell, shells[i].name)) {
            shells[i].write(out, all);
            return 0;
        }
    return E_NODATA;
}
