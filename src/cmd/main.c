/* SPDX-License-Identifier: Apache-2.0 */
/* The gridline command: finds the verb, parses its options, runs it. */
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/completion.h"
#include "cmd/file.h"
#include "cmd/stop.h"
#include "cmd/manual.h"
#include "cmd/program.h"
#include "cmd/say.h"
#include "cmd/verbs.h"
#include "gridline/gridline.h"

#include <errno.h>
#include <malloc.h>
#include <unistd.h>

static const struct verb verb_help, verb_version;

static const struct verb *const verbs[] = {
    &verb_run,           &verb_demo,     &verb_sense,    &verb_agent,   &verb_gateway, &verb_guard,   &verb_tail,
    &verb_latest,        &verb_summary,  &verb_sql,     &verb_collect, &verb_faults,  &verb_ack,
    &verb_silence,       &verb_rule,     &verb_audit,   &verb_hosts,   &verb_sensors, &verb_schemas,
    &verb_schema,
    &verb_subscriptions, &verb_ledger,   &verb_access,  &verb_worker,  &verb_sensor,  &verb_act,
    &verb_activate,      &verb_log,      &verb_convert, &verb_merge,   &verb_import,  &verb_export,
    &verb_archive,       &verb_baseline, &verb_config,  &verb_init,    &verb_token,   &verb_join,
    &verb_launch,        &verb_pinhole,  &verb_doctor,  &verb_viewer,  &verb_help,    &verb_version,
};
static const struct verb_list all_verbs = {verbs, sizeof verbs / sizeof *verbs};

/* NULL after having said what is near. */
static const struct verb *find_verb(const char *name)
{
    const char *names[sizeof verbs / sizeof *verbs];
    for (size_t i = 0; i < all_verbs.n; i++) {
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
        names[i] = verbs[i]->name;
    }
    const char *near = options_nearest(slice_str(name), names, all_verbs.n, sizeof *names);
    if (near)
        say("no command '%s'; did you mean %s?", name, near);
    else
        say("no command '%s'; `gridline` alone lists them", name);
    return NULL;
}

/* ---------------------------------------------------------------- help, version */

struct help_options {
    bool man;
    const char *completion;
};

static int help_run(void *state, struct operands words)
{
    const struct help_options *o = state;
    enum manual_form form = o->man ? MANUAL_ROFF : MANUAL_TEXT;
    struct strbuf text = {0};
    if (o->completion) {
        if (completion_write(&text, slice_str(o->completion), all_verbs) < 0) {
            say("no completion for '%s'; there are bash, zsh and fish", o->completion);
            return EXIT_USAGE;
        }
        return file_print(&text);
    }
    if (words.n == 0 || strcmp(words.v[0], "gridline") == 0) {
        manual_command(&text, form, all_verbs);
        return file_print(&text);
    }
    const struct verb *v = find_verb(words.v[0]);
    if (!v)
        return EXIT_NOT_FOUND;
    manual_verb(&text, form, v, all_verbs);
    return file_print(&text);
}

static const struct option_spec help_table[] = {
    {0, "man", OPTION_FLAG, NULL, offsetof(struct help_options, man),
     NULL}, /* as roff: how the man pages are built */
    {0, "completion", OPTION_TEXT, "SHELL", offsetof(struct help_options, completion),
     "print the script that completes the command line in SHELL: `bash`, `zsh` or `fish`"},
    {0},
};

static const struct example help_examples[] = {
    {"gridline help merge", "How to merge"},
    {"gridline help --completion bash > /etc/bash_completion.d/gridline", "Completion for bash"},
    {NULL, NULL},
};

static const struct verb verb_help = {
    .name = "help",
    .summary = "the manual of a command",
    .operands = "[COMMAND]",
    .description = "Shows the manual of a command, or of gridline itself. The same text is the man page "
                   "`gridline-COMMAND`(1).",
    .operand_kind = OPERAND_VERBS,
    .operands_max = 1,
    .options = help_table,
    .examples = help_examples,
    .state_size = sizeof(struct help_options),
    .run = help_run,
};

static int version_run(void *state, struct operands words)
{
    struct strbuf text = {0};
    (void)state, (void)words; /* it has none */
    strbuf_printf(&text, "gridline %s\n", gridline_version());
    return file_print(&text);
}

static const struct option_spec version_table[] = {{0}};

static const struct verb verb_version = {
    .name = "version",
    .summary = "which version this is",
    .operands = "",
    .description = "Prints the name and the version.",
    .options = version_table,
    .state_size = 1,
    .run = version_run,
};

/* ---------------------------------------------------------------- */

/* argc and argv are those behind the verb; argv[-1] is the verb. */
static int run_verb(const struct verb *v, int argc, char **argv)
{
    if (v->program) {
        say("can't run %s: %s", v->program, strerror(-program_become(v->program, argv - 1)));
        return EXIT_FAILED;
    }
    struct operands operands;
    struct diag why = {0};
    struct strbuf usage = {0};
    void *state = mem_alloc(v->state_size);
    int code = EXIT_USAGE;
    if (v->defaults)
        memcpy(state, v->defaults, v->state_size);
    say_start(v->name);
    switch (options_parse(v, argc, argv, clock_utc_ns(), state, &operands, &why)) {
    case OPTIONS_OK:
        code = v->run(state, operands);
        break;
    case OPTIONS_HELP:
        manual_usage(&usage, v);
        code = file_print(&usage);
        break;
    case OPTIONS_BAD:
        say("%s", why.message);
        break;
    }
    mem_free(state);
    stop_die();
    return code;
}

/* The flags that people try before they know the verbs. */
static const char *verb_of_flag(const char *word)
{
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return "version";
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ? "help" : word;
}

int main(int argc, char **argv)
{
    /* The memory of a batch is given back and asked for again for the next one: it stays with the process, or
     * the kernel would clear the same pages thousands of times. */
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20); /* only thrift */
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    if (argc < 2) {
        struct strbuf text = {0};
        manual_cheat_sheet(&text, all_verbs);
        return file_print(&text);
    }
    const struct verb *v = find_verb(verb_of_flag(argv[1]));
    if (!v)
        return EXIT_USAGE;
    if (!v->program) /* another program has its own way, and its signals as they came */
        stop_catch();
    return run_verb(v, argc - 2, argv + 2);
}
