/* SPDX-License-Identifier: Apache-2.0 */
/* snmp_link.h - questions to one SNMP device, by net-snmp: GET of listed OIDs, and columns of a table by
 * GETBULK. Each call waits for its answers, as long as the options and snmp_link_begin say. One thread.
 *
 * net-snmp is kept from everything it would do beside that: it reads no configuration and no MIB, writes no
 * state, and prints nothing. */
#ifndef GRIDLINE_HELPER_SNMP_LINK_H
#define GRIDLINE_HELPER_SNMP_LINK_H

#include "sensor/snmp.h"

#include <net-snmp/net-snmp-config.h>
#include <net-snmp/net-snmp-includes.h>

struct snmp_link;

struct snmp_name {
    oid v[MAX_OID_LEN];
    size_t n;
};

/* 1.3.6.1, with or without a dot in front. E_PROTO. */
int snmp_name_parse(struct slice text, struct snmp_name *out);

/* Reads the files with secrets and finds the device's address; version 3 also asks it who it is. Options are
 * borrowed until close. *why explains a failure. */
int snmp_link_open(const struct snmp_sensor *options, struct snmp_link **out, struct diag *why);
void snmp_link_close(struct snmp_link *l); /* NULL is fine */

/* What is asked from now on has this long, all together. */
void snmp_link_begin(struct snmp_link *l, int64_t limit_ns);

/* A value that the device has, borrowed for the call: of names[at]; or of the column columns[at] in row
 * index. A negative result ends the question and is its result. */
typedef int (*snmp_take_fn)(void *arg, size_t at, uint32_t index, const netsnmp_variable_list *value);

/* Values that the device does not have are given, too: their type is SNMP_NOSUCHOBJECT or
 * SNMP_NOSUCHINSTANCE. */
int snmp_link_get(struct snmp_link *l, const struct snmp_name *names, size_t n, snmp_take_fn take, void *arg,
                  struct diag *why);

/* All rows of some columns of a table whose rows are numbered: OIDs table.column.index. Rows of one column
 * come in ascending order; columns come side by side. At most SNMP_COLUMNS_MAX columns. */
enum { SNMP_COLUMNS_MAX = 24 };
int snmp_link_walk(struct snmp_link *l, const struct snmp_name *table, const uint8_t *columns, size_t n,
                   snmp_take_fn take, void *arg, struct diag *why);

#endif
