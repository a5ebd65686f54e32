/* SPDX-License-Identifier: Apache-2.0 */
/* Routers, switches and other hosts that speak SNMP: what they are, their interfaces, any listed OIDs, and
 * what a host's agent tells of load, memory, processor and storage. Runs in gridline-helper, which has
 * net-snmp: src/helper/snmp.c has the functions. */
#include "sensor/snmp.h"

#define TARGET KEY("target", "the device, as configured")

static const struct field interface_fields[] = {
    TARGET,
    KEY("interface", "ifName, else ifDescr, else the index; `NAME#INDEX` where several have the same"),
    FIELD("index", UINT, STATE, "", "ifIndex"),
    FIELD("alias", TEXT, TEXT, "", "ifAlias: what the administrator calls it"),
    FIELD("type", TEXT, STATE, "", "`ethernet`, `loopback`, ...; ifType's number if it has no name here"),
    FIELD("admin", TEXT, STATE, "", "what it should be: up, down, testing"),
    FIELD("oper", TEXT, STATE, "",
          "what it is: up, down, testing, unknown, dormant, not_present, lower_layer_down"),
    FIELD("speed", UINT, GAUGE, "bit/s", "its nominal bandwidth"),
    FIELD("in_bytes", UINT, COUNTER, "bytes",
          "received; 64 bits, or 32 bits (which wrap) if the device has no others"),
    FIELD("in_packets", UINT, COUNTER, "", "unicast packets received; 64 or 32 bits"),
    FIELD("in_multicast", UINT, COUNTER, "", "multicast packets received"),
    FIELD("in_broadcast", UINT, COUNTER, "", "broadcast packets received"),
    FIELD("in_errors", UINT, COUNTER, "", "bad packets received; 32 bits"),
    FIELD("in_dropped", UINT, COUNTER, "", "good packets received and discarded; 32 bits"),
    FIELD("out_bytes", UINT, COUNTER, "bytes", "sent; 64 or 32 bits"),
    FIELD("out_packets", UINT, COUNTER, "", "unicast packets sent; 64 or 32 bits"),
    FIELD("out_multicast", UINT, COUNTER, "", "multicast packets sent"),
    FIELD("out_broadcast", UINT, COUNTER, "", "broadcast packets sent"),
    FIELD("out_errors", UINT, COUNTER, "", "packets that could not be sent; 32 bits"),
    FIELD("out_dropped", UINT, COUNTER, "", "good packets not sent but discarded; 32 bits"),
};

static const struct field system_fields[] = {
    TARGET,
    FIELD("sys_name", TEXT, TEXT, "", "sysName: what the device calls itself"),
    FIELD("description", TEXT, TEXT, "", "sysDescr: hardware and software"),
    FIELD("object", TEXT, TEXT, "", "sysObjectID: the maker's number of the model"),
    FIELD("uptime", FLOAT, GAUGE, "s", "sysUpTime: since its SNMP agent started; wraps after 497 days"),
    FIELD("contact", TEXT, TEXT, "", "sysContact"),
    FIELD("location", TEXT, TEXT, "", "sysLocation"),
};

static const struct field value_fields[] = {
    TARGET,
    KEY("item", "NAME of the OID in `oids`"),
    FIELD("value_int", INT, GAUGE, "", "of an Integer32"),
    FIELD("value_uint", UINT, GAUGE, "", "of a Gauge32, Unsigned32 or TimeTicks (1/100 s)"),
    FIELD("value_counter", UINT, COUNTER, "", "of a Counter32 (which wraps) or Counter64"),
    FIELD("value_float", FLOAT, GAUGE, "", "of an Opaque Float or Double"),
    FIELD("value_text", TEXT, TEXT, "",
          "of a string, an address or an OID; bytes that are no text as `00:1a:2b`"),
    FIELD("why", TEXT, TEXT, "", "why there is no value"),
};

static const struct field host_fields[] = {
    TARGET,
    FIELD("load1", FLOAT, GAUGE, "", "load average of the last minute"),
    FIELD("load5", FLOAT, GAUGE, "", "the same of 5 minutes"),
    FIELD("load15", FLOAT, GAUGE, "", "the same of 15 minutes"),
    FIELD("cpus", UINT, GAUGE, "", "processors"),
    FIELD("cpu_load", FLOAT, GAUGE, "%",
          "busy in the last minute, average of all processors (hrProcessorLoad)"),
    FIELD("cpu_user", UINT, COUNTER, "1/100 s",
          "in programs; this and the next ones: 32 bits, all processors together"),
    FIELD("cpu_nice", UINT, COUNTER, "1/100 s", "in programs of low priority"),
    FIELD("cpu_system", UINT, COUNTER, "1/100 s", "in the kernel"),
    FIELD("cpu_idle", UINT, COUNTER, "1/100 s", "with nothing to do"),
    FIELD("cpu_iowait", UINT, COUNTER, "1/100 s", "with nothing to do while a disk works"),
    FIELD("cpu_irq", UINT, COUNTER, "1/100 s", "in interrupt handlers"),
    FIELD("cpu_softirq", UINT, COUNTER, "1/100 s", "in what they left for later"),
    FIELD("cpu_steal", UINT, COUNTER, "1/100 s", "wanted, but the hypervisor ran others"),
    FIELD("memory_total", UINT, GAUGE, "bytes", "of the machine"),
    FIELD("memory_free", UINT, GAUGE, "bytes", "that nobody uses"),
    FIELD("memory_available", UINT, GAUGE, "bytes", "that programs could get"),
    FIELD("memory_buffers", UINT, GAUGE, "bytes", "for the administration of filesystems"),
    FIELD("memory_cached", UINT, GAUGE, "bytes", "for the content of files"),
    FIELD("swap_total", UINT, GAUGE, "bytes", "of swap"),
    FIELD("swap_free", UINT, GAUGE, "bytes", "of swap not in use"),
    FIELD("processes", UINT, GAUGE, "", "all processes"),
    FIELD("sessions", UINT, GAUGE, "", "sessions of users who are logged in"),
    FIELD("uptime", FLOAT, GAUGE, "s", "since the host started; wraps after 497 days"),
};

static const struct field storage_fields[] = {
    TARGET,
    KEY("storage",
        "hrStorageDescr: a mount point, or a kind of memory; `NAME#INDEX` where several have the same"),
    FIELD("type", TEXT, STATE, "", "`disk`, `memory`, `swap`, ..."),
    FIELD("size", UINT, GAUGE, "bytes", "of all of it"),
    FIELD("used", UINT, GAUGE, "bytes", "of that, in use"),
};

#define COUNT(a) (sizeof(a) / sizeof *(a))
_Static_assert(COUNT(interface_fields) == SNMP_IF_FIELDS, "as many as are filled");
_Static_assert(COUNT(system_fields) == SNMP_SYS_FIELDS, "as many as are filled");
_Static_assert(COUNT(value_fields) == SNMP_VALUE_FIELDS, "as many as are filled");
_Static_assert(COUNT(host_fields) == SNMP_HOST_FIELDS, "as many as are filled");
_Static_assert(COUNT(storage_fields) == SNMP_STORAGE_FIELDS, "as many as are filled");

static const struct sensor_schema snmp_schemas[] = {
    [SNMP_INTERFACE] = SCHEMA("snmp.interface", interface_fields),
    [SNMP_SYSTEM] = SCHEMA("snmp.system", system_fields),
    [SNMP_VALUE] = SCHEMA("snmp.value", value_fields),
    [SNMP_HOST] = SCHEMA("snmp.host", host_fields),
    [SNMP_STORAGE] = SCHEMA("snmp.storage", storage_fields),
    {0},
};

#define AT(member) offsetof(struct snmp_sensor, member)
static const struct parameter snmp_options[] = {
    {SETTING_STRING, "target", NULL, AT(target), "the device: `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`", false,
     true},
    {SETTING_STRING, "version", "2c", AT(version), "`2c` or `3`", false, false},
    {SETTING_STRING, "community_file", NULL, AT(community_file),
     "a file with the community of version 2c, which only its owner may read; without it `public`", true,
     false},
    {SETTING_STRING, "user", NULL, AT(user), "the user of version 3", false, false},
    {SETTING_STRING, "auth", "SHA", AT(auth), "how version 3 authenticates: `SHA`, `SHA-256`, `SHA-512`",
     false, false},
    {SETTING_STRING, "auth_file", NULL, AT(auth_file),
     "a file with the user's authentication passphrase, which only its owner may read", true, false},
    {SETTING_STRING, "priv_file", NULL, AT(priv_file),
     "a file with the user's privacy passphrase; with it what is asked and answered is encrypted (AES)",
     true, false},
    {SETTING_FLAG, "interfaces", "true", AT(has_interfaces), "read the table of interfaces", false, false},
    {SETTING_FLAG, "host", "true", AT(has_host),
     "read load, memory, processor and storage, where the device tells them", false, false},
    {SETTING_LIST, "oids", NULL, AT(oids),
     "single values to read: `NAME=OID` each, the OID in numbers, at most 64", false, false},
    {SETTING_DURATION, "timeout", "2s", AT(timeout_ns), "how long an answer is waited for", false, false},
    {SETTING_INT, "retries", "1", AT(retries), "how often a question without an answer is asked again", false,
     false},
    {0},
};

const struct sensor_ops sensor_snmp = {
    .name = "snmp",
    .summary = "routers, switches and other hosts by SNMP: interfaces, listed OIDs, load",
    .schemas = snmp_schemas,
    .options = snmp_options,
    .every = "30s",
    .refresh = "10m",
    .priority = 6,
    .is_multi = true,
    .is_helper = true,
    .state_size = sizeof(struct snmp_sensor),
};
