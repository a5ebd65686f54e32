/* SPDX-License-Identifier: Apache-2.0 */
/* config_internal.h - what the files of the configuration share. Loading is three steps:
 *
 *     text (files, drop-ins, document)  --config_text--> checked --config_parse (libconfuse)--+
 *     environment, flags  --------------------------------------------------------------------+--> given
 *     given, tables  --config_value, config_sensor--> struct agent_config
 *
 * "Given" is a list of sections with their keys and texts, each with its origin; a key given again replaces
 * the texts. */
#ifndef GRIDLINE_AGENT_CONFIG_INTERNAL_H
#define GRIDLINE_AGENT_CONFIG_INTERNAL_H

#include "agent/config.h"

/* ---------------------------------------------------------------- keys (config_table.c) */

/* What a key's value is, and the C type at its offset. The first are those of sensors' options. */
enum config_type {
    CONFIG_FLAG = SENSOR_FLAG,
    CONFIG_INT = SENSOR_INT,
    CONFIG_FLOAT = SENSOR_FLOAT,
    CONFIG_SIZE = SENSOR_SIZE,
    CONFIG_DURATION = SENSOR_DURATION,
    CONFIG_STRING = SENSOR_STRING,
    CONFIG_LIST = SENSOR_LIST,
    CONFIG_SHARE,     /* double, 1% = 0.01 */
    CONFIG_DIGIT,     /* uint8_t */
    CONFIG_WORD,      /* const char *, one of .words */
    CONFIG_MODE,      /* enum sensor_mode: the place in .words */
    CONFIG_COMPARE,   /* bool: the place in .words */
    CONFIG_HOST,      /* const char *; "" is NULL */
    CONFIG_PATH,      /* const char *, absolute; "" is kept */
    CONFIG_URL,       /* const char *; "" is NULL */
    CONFIG_ADDRESSES, /* const char *, separated by commas */
    CONFIG_PROGRAMS,  /* struct sensor_list of absolute paths */
    CONFIG_PORTS,     /* in struct sensor_config: ports, n_ports */
    CONFIG_CHANGES    /* in struct sensor_config: changes, n_changes */
};

struct config_key {
    const char *name; /* "every"; of the agent: "budget.cpu" */
    enum config_type type;
    size_t offset;            /* in struct agent_config, output_config or sensor_config */
    const char *default_text; /* as it would be configured; lists: words separated by spaces; NULL = none */
    const char *min, *max;    /* as they would be configured; NULL = no bound */
    const char *words;        /* "always|off": what it may be; NULL = anything of its type */
    const char *help;         /* a phrase */
    bool is_option;           /* a sensor's own: it has no place in struct sensor_config */
    bool is_program, is_needed;
    bool is_of_sensors; /* of the agent, but a document may have it */
};

/* Whose keys. */
struct config_scope {
    enum { SCOPE_AGENT, SCOPE_OUTPUT, SCOPE_SENSOR } kind;
    const struct sensor_ops *ops; /* SCOPE_SENSOR; NULL: only the keys that every sensor has */
};

/* The i-th key, false after the last. A sensor's: those that every sensor has, then its own options; an
 * option of the same name as one of the former is that key, and the sensor gets its texts, too. */
bool config_key_at(struct config_scope scope, size_t i, struct config_key *out);
bool config_key_find(struct config_scope scope, struct slice name, struct config_key *out);
bool config_type_is_list(enum config_type type);
/* "duration", "list of ports": for help. */
const char *config_type_name(enum config_type type);
/* The words of a text that are separated by `by`: each call gives the next; false at the end. */
bool config_next_word(struct slice *rest, char by, struct slice *word);

/* ---------------------------------------------------------------- a load */

/* What was given for the agent, an output or a sensor. */
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
    const struct config_flags *flags;
    struct agent_config *c; /* being made; its arena holds all texts */
    struct given_section agent;
    struct given_section *sections, **last; /* outputs and sensors, as they were first named */
    size_t n_sections;
    const char *document; /* the name of the document, as in the origins of what it gave; NULL = none */
    struct diag *why;
    size_t problems;
    int code; /* of the first problem; 0 = all is well */
};

/* Tells what is wrong and remembers it: "WHERE: KEY: message". at and key may be NULL. Returns code. */
int config_problem(struct config_load *l, int code, const struct config_origin *at, const char *key,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Memory of the configuration; NULL, after having told, when there is none. */
void *config_alloc(struct config_load *l, size_t n);
const char *config_copy(struct config_load *l, struct slice text);
/* "exec.root-disk.every": how a key is named in messages, flags and by show. name NULL: the section alone. */
void config_full_name(struct config_scope scope, const char *title, const char *name, struct strbuf *out);
struct config_name {
    struct config_scope scope;
    struct slice title, key; /* slices of the name; the title may be missing where there should be one */
};
/* The way back: "host", "budget.cpu", "disk.every", "exec.root-disk.every", "output.copy.path". False: it
 * begins with no section that there is. Whether there is such a key is another question. */
bool config_split_name(struct slice full, struct config_name *out);
/* "GRIDLINE_AGENT_EXEC_ROOT_DISK_EVERY". */
void config_environment_name(struct slice full_name, struct strbuf *out);

/* ---------------------------------------------------------------- steps */

/* Checks a text that libconfuse is to read, and appends it without comments; see config_text.c. *why has the
 * line. */
int config_text_check(struct slice text, struct strbuf *out, struct diag *why);
/* Reads a text and adds what it gives. Of a document (is_remote) only what is about sensors. Returns l->code.
 */
int config_parse(struct config_load *l, struct slice text, const char *name, bool is_remote);

/* The section, made if need be. -EINVAL, -ENOMEM after having told. title "" for a sensor that is not multi.
 */
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

/* Takes the value of a key to base + its offset: what was given (entry), or the default (entry NULL). base
 * NULL: only looks, which is for sensors' options. name is the full one. */
int config_store(struct config_load *l, const struct config_key *key, const struct config_entry *entry,
                 const char *name, void *base);
/* Is text an absolute path without a ".." in it? */
bool config_is_plain_path(struct slice text);
/* The texts of a key that was not given. */
int config_default_texts(struct config_load *l, const struct config_key *key, const char *const **texts,
                         size_t *n);

/* c->sensors from what was given. */
void config_make_sensors(struct config_load *l);
/* Refuses the programs that the document names and c->allow_programs does not. */
void config_check_programs(struct config_load *l);

#endif
