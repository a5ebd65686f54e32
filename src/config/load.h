/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - how a daemon makes its configuration of a table. Loading is three steps:
 *
 *     text (files, drop-ins, document)  --text.c--> checked --parse.c (libconfuse)--+
 *     environment, flags  ------------------------------------given.c---------------+--> given
 *     given, tables  --value.c, and the daemon's own--> its struct
 *
 * "Given" is a list of sections with their keys and texts, each with its origin; a key given again replaces
 * the texts. What sections and keys there are is a struct config_schema, which is all that these files know
 * of the daemon: it gives parser, ranges, defaults, messages, `config show` and `config explain`. */
#ifndef GRIDLINE_CONFIG_LOAD_H
#define GRIDLINE_CONFIG_LOAD_H

#include "base/setting.h"
#include "config/config.h"

/* ---------------------------------------------------------------- tables (table.c) */

/* What a key's value is, and the C type at its offset. The first are the plain ones of base/setting.h. */
enum config_type {
    CONFIG_FLAG = SETTING_FLAG,
    CONFIG_INT = SETTING_INT,
    CONFIG_FLOAT = SETTING_FLOAT,
    CONFIG_SIZE = SETTING_SIZE,
    CONFIG_DURATION = SETTING_DURATION,
    CONFIG_STRING = SETTING_STRING,
    CONFIG_LIST = SETTING_LIST, /* only looked at: the texts are what matters */
    CONFIG_SHARE,               /* double, 1% = 0.01 */
    CONFIG_DIGIT,               /* uint8_t */
    CONFIG_COUNT,               /* uint32_t */
    CONFIG_MS,                  /* uint32_t; written as a duration */
    CONFIG_WORD,                /* const char *, one of .words */
    CONFIG_PATH,                /* const char *, absolute; "" is kept */
    CONFIG_OWN                  /* see .own */
};

struct config_value;

/* A kind of value of the daemon's own. */
struct config_own {
    const char *name; /* "list of ports": for help */
    bool is_list;
    /* base is the struct that the key's offset is of; texts live as long as the configuration. Refuses with
     * config_refuse. */
    int (*store)(const struct config_value *v, const char *const *texts, size_t n, void *base);
};

struct config_key {
    const char *name; /* "every"; of the root: "budget.cpu", which is in a section */
    enum config_type type;
    const struct config_own *own; /* of CONFIG_OWN */
    size_t offset;
    const char *default_text; /* as it would be configured; lists: words separated by spaces; NULL = none */
    const char *min, *max;    /* as they would be configured; NULL = no bound */
    const char *words;        /* "always|off": what it may be; NULL = anything of its type */
    const char *help;         /* a phrase; `code` for literals */
    const char *note;         /* more for help, behind kind and default; NULL = none */
    bool is_needed;
    bool is_common;   /* every section of the family has it */
    bool is_document; /* of the root, but a document may have it */
};

/* Whose keys: a section that there can be, or the root. */
struct config_scope {
    const char *name;    /* "output", "disk"; "" = the root: keys outside of any section */
    const char *summary; /* what it is about, for help; NULL = nothing to say */
    const void *of;      /* the daemon's own */
    bool is_titled;      /* `output NAME { ... }`, any number of them */
    bool is_document;    /* a document may have it */
    bool is_family;      /* not a section, but the keys that many have; only for help ("SENSOR") */
};

enum { CONFIG_INNER_MAX = 30 };

struct config_schema {
    const char *program;     /* "agent": agent.conf, agent.d, and how the root is called in help */
    const char *environment; /* "GRIDLINE_AGENT_" */
    const char *explain;     /* the command that lists the keys */
    const char *section;     /* how a section is called in messages: "sensor" */
    const char *example;     /* and how it is written: "SENSOR { ... }" */
    /* The sections within the root ("budget" of "budget.cpu"), of at most CONFIG_INNER_MAX bytes; ends with
     * NULL. */
    const char *const *inner;
    /* The i-th scope, false after the last; the 0th is the root. */
    bool (*scope_at)(size_t i, struct config_scope *out);
    /* Its i-th key, false after the last. */
    bool (*key_at)(struct config_scope scope, size_t i, struct config_key *out);
};

/* For key_at: of a table that ends with a key without a name. */
bool config_table_at(const struct config_key *table, size_t i, struct config_key *out);
bool config_key_find(const struct config_schema *schema, struct config_scope scope, struct slice name,
                     struct config_key *out);
bool config_key_is_list(const struct config_key *key);
/* "duration", "list of ports": for help. */
const char *config_key_type(const struct config_key *key);
struct config_scope config_root(const struct config_schema *schema);
/* A section by its name. */
bool config_scope_find(const struct config_schema *schema, struct slice name, struct config_scope *out);
/* Is it a section within the root? */
bool config_inner_find(const struct config_schema *schema, struct slice name);
/* The words of a text that are separated by `by`: each call gives the next; false at the end. */
bool config_next_word(struct slice *rest, char by, struct slice *word);

/* "exec.root-disk.every": how a key is named in messages, flags and by show. name NULL: the section alone. */
void config_full_name(struct config_scope scope, const char *title, const char *name, struct strbuf *out);
struct config_name {
    struct config_scope scope;
    struct slice title, key; /* slices of the name; the title may be missing where there should be one */
};
/* The way back: "host", "budget.cpu", "disk.every", "exec.root-disk.every", "output.copy.path". False: it
 * begins with no section that there is. Whether there is such a key is another question. */
bool config_split_name(const struct config_schema *schema, struct slice full, struct config_name *out);
/* "GRIDLINE_AGENT_EXEC_ROOT_DISK_EVERY". */
void config_environment_name(const struct config_schema *schema, struct slice full_name, struct strbuf *out);

/* ---------------------------------------------------------------- a load (load.c) */

/* What was given for the root or a section. */
struct given_section {
    struct config_scope scope;
    const char *title; /* "" = has none */
    struct config_origin from;
    struct given_key *keys; /* in no order */
    struct given_section *next;
};

struct given_key {
    struct config_entry entry;
    struct given_key *next;
};

struct config_load {
    const struct config_schema *schema;
    const struct config_flags *flags;
    struct arena *arena; /* of the configuration that is being made: holds all texts */
    struct given_section root;
    struct given_section *sections, **last; /* the others, as they were first named */
    size_t n_sections;
    const char *document; /* the name of the document, as in the origins of what it gave; NULL = none */
    struct diag *why;
    size_t problems;
    int code; /* of the first problem; 0 = all is well */
};

/* Everything is borrowed for the time of the load; why may be NULL. */
void config_load_init(struct config_load *l, const struct config_schema *schema,
                      const struct config_flags *flags, struct arena *arena, struct diag *why);
/* flags->file, or usual_file if it is there; then the drop-ins beside it, PROGRAM.d. Tells all problems. */
void config_load_files(struct config_load *l, const char *usual_file);

/* Tells what is wrong and remembers it: "WHERE: KEY: message". at and key may be NULL. Returns code. */
int config_problem(struct config_load *l, int code, const struct config_origin *at, const char *key,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Memory of the configuration, zeroed; NULL, after having told, when there is none. */
void *config_alloc(struct config_load *l, size_t n);
const char *config_copy(struct config_load *l, struct slice text);
/* a and b in one text. */
const char *config_join(struct config_load *l, const char *a, const char *b);

/* Where the daemon keeps what stays: /var/lib/gridline/PROGRAM for root, else gridline/PROGRAM in
 * $XDG_STATE_HOME or ~/.local/state. NULL: neither is known (or no memory, which is told). */
const char *config_default_state_dir(struct config_load *l);
/* And its sockets: /run/gridline, else gridline in $XDG_RUNTIME_DIR, else /tmp/gridline-UID. */
const char *config_default_run_dir(struct config_load *l);
/* Tells when a path does not fit into a socket's address. */
void config_check_socket(struct config_load *l, const char *path, const struct config_entry *entry);

/* ---------------------------------------------------------------- steps */

/* Checks a text that libconfuse is to read, and appends it without comments; see text.c. *why has the
 * line. */
int config_text_check(struct slice text, struct strbuf *out, struct diag *why);
/* Reads a text and adds what it gives. Of a document only what the tables mark so. Returns l->code. */
int config_parse(struct config_load *l, struct slice text, const char *name, bool is_document);

/* The section, made if need be. -EINVAL, -ENOMEM after having told. title "" where there is none. */
int given_section(struct config_load *l, struct config_scope scope, struct slice title,
                  struct config_origin at, struct given_section **out);
/* texts are copied. */
int given_set(struct config_load *l, struct given_section *section, const char *key,
              const struct slice *texts, size_t n, struct config_origin at);
const struct config_entry *given_find(const struct given_section *section, const char *key);
/* Those that were given, in the order of the tables. */
int given_entries(struct config_load *l, const struct given_section *section, const struct config_entry **out,
                  size_t *n);
void given_from_environment(struct config_load *l);
void given_from_flags(struct config_load *l);
/* KEY=VALUE; problems are told. from: who gave it ("flag -s"), before the key in messages. */
void given_setting(struct config_load *l, const char *text, const char *from);
/* Where hosts keep what all daemons share: /var/lib for root, else $XDG_STATE_HOME or ~/.local/state, and then path. NULL:
 * neither is known (or no memory, which is told). */
const char *config_state_place(struct config_load *l, const char *path);

/* ---------------------------------------------------------------- values (value.c) */

/* A value that is being stored. */
struct config_value {
    struct config_load *load;
    const struct config_key *key;
    const char *name; /* the full one */
    struct config_origin at;
};

#define config_refuse(v, ...) config_problem((v)->load, -EINVAL, &(v)->at, (v)->name, __VA_ARGS__)

/* Takes the value of a key to base + its offset: what was given (entry), or the default (entry NULL). base
 * NULL: only looks. name is the full one. */
int config_store(struct config_load *l, const struct config_key *key, const struct config_entry *entry,
                 const char *name, void *base);
/* All keys of a section that have a value, to base; told of each what is wrong, and of those that are needed
 * and missing. */
void config_store_section(struct config_load *l, const struct given_section *section, void *base);
/* Of a section whose keys are some that all have (is_common), which go to base, and its own, which are only looked at. The
 * first problem does not end it: the others are told, too. */
void config_store_common(struct config_load *l, const struct given_section *section, void *base);
/* Which of the key's words it is. */
int config_word_place(const struct config_value *v, const char *text, unsigned *out);
/* The texts in one, with `by` between them. */
int config_store_joined(const struct config_value *v, const char *const *texts, size_t n, char by,
                        const char **out);
/* Is text an absolute path without a ".." in it? */
bool config_is_plain_path(struct slice text);
/* The texts of a key that was not given. */
int config_default_texts(struct config_load *l, const struct config_key *key, const char *const **texts,
                         size_t *n);

/* ---------------------------------------------------------------- show.c, explain.c */

struct config_show {
    const struct config_schema *schema;
    enum config_form form;
    bool with_origins; /* behind each value "  # file:line", "  # default", ...; as JSON "origin" */
    struct strbuf *out;
    size_t n;           /* values shown so far */
    const char *indent; /* of a key in the current section */
};

/* Where a default is not in the table. The last has no name. */
struct config_computed {
    const char *name, *text;
};

/* What is in force, every value, as a file that means the same again; or as JSON. begin, the root, the
 * sections, end. computed may be NULL. */
void config_show_begin(struct config_show *s);
void config_show_root(struct config_show *s, const struct config_entry *given, size_t n,
                      const struct config_computed *computed);
void config_show_section(struct config_show *s, struct config_scope scope, const char *title,
                         const struct config_entry *given, size_t n, const struct config_computed *computed);
void config_show_end(struct config_show *s);

/* Help, kind, default, range of a key, or of all keys of a section, of the root (the program's name), of a
 * family; or of all (key NULL). E_NODATA: no such key, *why has the nearest. */
int config_explain_schema(const struct config_schema *schema, const char *key, enum config_form form,
                          struct strbuf *out, struct diag *why);

#endif
