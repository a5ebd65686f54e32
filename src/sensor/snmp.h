/* SPDX-License-Identifier: Apache-2.0 */
/* snmp.h - the sensor `snmp`: its options and the fields of its schemas, for src/sensor/snmp.c (the tables)
 * and src/helper/snmp.c (the functions). */
#ifndef GRIDLINE_SENSOR_SNMP_H
#define GRIDLINE_SENSOR_SNMP_H

#include "sensor/sensor.h"

enum {
    SNMP_ROWS_MAX = 4096, /* of one table of a device */
    SNMP_OIDS_MAX = 64,
    SNMP_RETRIES_MAX = 10
};

/* In the order of the schemas. */
enum { SNMP_INTERFACE, SNMP_SYSTEM, SNMP_VALUE, SNMP_HOST, SNMP_STORAGE };

/* Each schema begins with the key `target`; those of tables have the row's name next. */
enum { SNMP_TARGET, SNMP_NAME };

enum {
    SNMP_IF_INDEX = SNMP_NAME + 1,
    SNMP_IF_ALIAS,
    SNMP_IF_TYPE,
    SNMP_IF_ADMIN,
    SNMP_IF_OPER,
    SNMP_IF_SPEED,
    SNMP_IF_IN_BYTES,
    SNMP_IF_IN_PACKETS,
    SNMP_IF_IN_MULTICAST,
    SNMP_IF_IN_BROADCAST,
    SNMP_IF_IN_ERRORS,
    SNMP_IF_IN_DROPPED,
    SNMP_IF_OUT_BYTES,
    SNMP_IF_OUT_PACKETS,
    SNMP_IF_OUT_MULTICAST,
    SNMP_IF_OUT_BROADCAST,
    SNMP_IF_OUT_ERRORS,
    SNMP_IF_OUT_DROPPED,
    SNMP_IF_FIELDS
};

enum {
    SNMP_SYS_NAME = SNMP_TARGET + 1,
    SNMP_SYS_DESCRIPTION,
    SNMP_SYS_OBJECT,
    SNMP_SYS_UPTIME,
    SNMP_SYS_CONTACT,
    SNMP_SYS_LOCATION,
    SNMP_SYS_FIELDS
};

enum {
    SNMP_VALUE_INT = SNMP_NAME + 1,
    SNMP_VALUE_UINT,
    SNMP_VALUE_COUNTER,
    SNMP_VALUE_FLOAT,
    SNMP_VALUE_TEXT,
    SNMP_VALUE_WHY,
    SNMP_VALUE_FIELDS
};

enum {
    SNMP_HOST_LOAD1 = SNMP_TARGET + 1,
    SNMP_HOST_LOAD5,
    SNMP_HOST_LOAD15,
    SNMP_HOST_CPUS,
    SNMP_HOST_CPU_LOAD,
    SNMP_HOST_CPU_USER,
    SNMP_HOST_CPU_NICE,
    SNMP_HOST_CPU_SYSTEM,
    SNMP_HOST_CPU_IDLE,
    SNMP_HOST_CPU_IOWAIT,
    SNMP_HOST_CPU_IRQ,
    SNMP_HOST_CPU_SOFTIRQ,
    SNMP_HOST_CPU_STEAL,
    SNMP_HOST_MEMORY_TOTAL,
    SNMP_HOST_MEMORY_FREE,
    SNMP_HOST_MEMORY_AVAILABLE,
    SNMP_HOST_MEMORY_BUFFERS,
    SNMP_HOST_MEMORY_CACHED,
    SNMP_HOST_SWAP_TOTAL,
    SNMP_HOST_SWAP_FREE,
    SNMP_HOST_PROCESSES,
    SNMP_HOST_SESSIONS,
    SNMP_HOST_UPTIME,
    SNMP_HOST_FIELDS
};

enum { SNMP_STORAGE_TYPE = SNMP_NAME + 1, SNMP_STORAGE_SIZE, SNMP_STORAGE_USED, SNMP_STORAGE_FIELDS };

struct snmp_work;

struct snmp_sensor {
    /* Options. */
    const char *target, *version, *community_file;
    const char *user, *auth, *auth_file, *priv_file; /* of version 3 */
    bool has_interfaces, has_host;
    struct parameter_list oids;
    int64_t timeout_ns, retries;

    struct snmp_work *work; /* helper/snmp.c; owned */
};

#endif
