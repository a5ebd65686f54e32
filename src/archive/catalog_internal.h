/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_internal.h - what the files of the catalogue share. */
#ifndef GRIDLINE_ARCHIVE_CATALOG_INTERNAL_H
#define GRIDLINE_ARCHIVE_CATALOG_INTERNAL_H

#include "archive/catalog.h"
#include "archive/facts.h"
#include "base/arena.h"
#include "base/map.h"

/* Kinds of facts: key -> value. On disk: never change them. */
enum {
    FACT_COLUMN = 1, /* text table, u16 place -> u8 type, u8 role, u8 kind, text name, text unit, text help */
    FACT_SOURCE = 2, /* id[16] -> u64 cursor */
    FACT_PARTITION = 3, /* name -> u64 gen */
    FACT_MARK = 4,      /* text partition, id[16] -> u64 record */
    FACT_BASELINE = 5,  /* name -> u64 from, u64 to, text label, text where */
    FACT_SETTING = 6,   /* name -> value */
    FACT_GONE = 7,      /* text event, u64 step -> u64 from, u64 to, u64 rows, u64 at, u8 why */
    FACT_CLASS = 8      /* text table, text field -> u8 class, u8 by, u64 numbers, texts, quoted, u64 first_ns */
};

struct catalog_table {
    const struct table_def *def; /* the newest */
    struct field *columns;       /* def's, with room behind them */
    uint32_t columns_max;
    struct map by_field; /* u8 type, name -> its id + 1 */
    struct map classes;  /* field -> struct catalog_class */
    uint32_t n_noted;    /* columns that are facts, too: all, unless memory ran out */
};

struct catalog {
    char *dir;
    bool is_writer;
    bool is_in_memory; /* a reader's that was made from the partitions */
    bool is_kept_old;  /* the file of baselines and settings is to be written */
    int lock;          /* -1: none */
    struct facts *facts;
    struct arena arena; /* tables */
    struct catalog_table **tables;
    size_t n_tables, tables_max;
    struct map by_name;
    struct strbuf *troubles;
    size_t n_troubles;
    struct strbuf key, value; /* of a fact, being made */
};

/* ------------------------------------------------ catalog.c */
void catalog_say(struct catalog *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* ids may be NULL. */
int catalog_learn_fields(struct catalog *c, struct slice name, const struct field *fields, size_t n,
                         const struct table_def **out, uint16_t *ids);

/* The table that is known to have these columns, by fields, too: t->def. */
const struct table_def *catalog_def(struct catalog *c, struct catalog_table *t);

/* ------------------------------------------------ catalog_class.c */
/* Makes sure that the class of a new column's field is there. -ENOMEM. */
int class_learn(struct catalog *c, struct catalog_table *t, const struct field *f);
/* Of facts and settings. E_PROTO, -ENOMEM. */
int class_load(struct catalog *c);

/* ------------------------------------------------ catalog_kept.c */
int kept_write(struct catalog *c);
/* Sets what the file has and the facts have not. -ENOENT, E_DAMAGE. */
int kept_read(struct catalog *c);

/* ------------------------------------------------ catalog_rebuild.c */
/* Everything that partitions know. */
int catalog_gather(struct catalog *c);
/* Compares the partitions with what is known of them; see catalog_note_partition. */
int catalog_compare(struct catalog *c);

#endif
