/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the gateway's configuration (config/config.h): /etc/gridline/gateway.conf, the drop-ins
 * gateway.d beside it, the environment (GRIDLINE_GATEWAY_KEY), flags. One table (config_table.c) gives
 * parser, ranges, defaults and help; docs/gateway.md has it as a list.
 *
 *     listen = {"tcp://127.0.0.1:14830", "tls://0.0.0.0:14830"}
 *     udp = "127.0.0.1:14830"
 *     http = "127.0.0.1:14831"
 *     state_dir = "/var/lib/gridline/gateway"
 *     lease { time = 30s  renew = 10s }
 *     identity = "/var/lib/gridline/identity"
 *     security = private                        (none, authentic, private)
 *     assign = {"vector.every=2s"}              (thresholds given to every worker)
 *     demand = {"cpu 10s", "disk*"}             (of sensors on request, as if somebody had subscribed)
 *     classes = {"rpc.call latency number"}     (classes of fields, by hand: event/class.h)
 *     access web { who = "operator:ann*"  may = {lookup, summary}  hosts = "web*" }
 *     token dash { sha256 = "..." }
 *     observer log { type = file  path = "/var/log/gridline/events.ulm"  compress = zstd  keep = 7 } */
#ifndef GRIDLINE_GATEWAY_CONFIG_H
#define GRIDLINE_GATEWAY_CONFIG_H

#include "config/config.h"
#include "gateway/access_table.h"
#include "gateway/archive_config.h"
#include "gateway/observer.h"
#include "net/demand.h"
#include "gateway/stream_options.h"
#include "net/lease.h"

#define GATEWAY_CONFIG_FILE "/etc/gridline/gateway.conf"
#define GATEWAY_PORT        "14830" /* of addresses that have none */
#define GATEWAY_HTTP_PORT   "14831"

struct gateway_config {
    const char *listen; /* addresses by commas: tcp://, tls://, unix: */
    const char *udp;    /* HOST:PORT; "" = no datagrams. Default: the first TCP or TLS address's */
    /* HTTP: http://HOST:PORT or https://HOST:PORT; "" = none. Default: loopback, but none where journal or
     * state_dir was given without run_dir. */
    const char *http;
    const char *http_names; /* by commas: further names of this host that a request may be for */
    const char *http_token; /* derived: the file of the owner's token; "" = there is no folder for one */
    const char
        *http_sessions;     /* derived: the file of the viewer's sessions; "" = there is no folder for it */
    bool http_log;          /* a line for each request */
    bool viewer;            /* HTTP shows it */
    const char *viewer_dir; /* its files instead of those in the program; "" = those */
    /* The Unix socket for commands and local programs; "" = none. Default: run_dir/gateway.sock, but none
     * where journal or state_dir was given without run_dir. */
    const char *socket;
    const char *state_dir; /* journal, token hashes; "" = nothing but the journal (given alone) is kept */
    const char *run_dir;
    const char *journal; /* default state_dir/journal */
    uint64_t journal_max;
    uint64_t journal_hold; /* of a durable subscription; default journal_max */
    const char *identity; /* folder (net/tls.h); "" = no TLS */
    bool is_insecure;     /* other hosts may be spoken to without TLS */
    uint8_t escapes;      /* enum escapes: of lines of ULM and BP */
    uint8_t level;        /* enum seal_level off loopback; on loopback datagrams are not sealed */
    uint32_t lease_ms, renew_ms;
    const char *assign; /* settings by newlines: "vector.every=2s\n..." */
    const char *demand; /* requests by newlines: "cpu 10s\ndisk*" */
    const char *classes; /* classes of fields by newlines: "rpc.call latency number\n..." */
    uint32_t connections_max;
    const char *ledger_file, *ready_file; /* NULL = none */
    int64_t ledger_every_ns;              /* how often `ledger` events are made */
    struct archive_config archive;        /* archive.dir: default state_dir/archive, "" without a state_dir */
    struct latest_options latest;
    struct summary_options summary;
    const char *domain;        /* "" = this host's */
    const char *expect;        /* what has to be there, by newlines: "node1 cpu memory\n..." */
    int64_t directory_keep_ns; /* how long what is gone stays in the directory */
    const char *ldap_uri;      /* where the directory is published; "" = nowhere */
    const char *ldap_base, *ldap_bind_dn, *ldap_password_file, *ldap_ca, *ldap_name; /* "" = not given */
    bool ldap_starttls;
    int64_t ldap_refresh_ns;
    const struct observer_config *observers;
    size_t n_observers;
    const struct access_row *access; /* in order */
    size_t n_access;
    const struct access_token *tokens;
    size_t n_tokens;
    const struct config_entry *given; /* the keys outside of sections that were given, "lease.time" */
    size_t n_given;

    struct arena arena; /* holds everything above */
};

/* On failure *why->message is "file:line: what; what next": -EINVAL, -ENOMEM, or that of a file that can't be
 * read. *out is untouched on failure. */
int gateway_config_load(const struct config_flags *flags, struct gateway_config **out, struct diag *why);
void gateway_config_destroy(struct gateway_config *c); /* NULL is fine */
/* One of `demand`: "PATTERN" or "PATTERN DURATION". */
bool gateway_config_demand(struct slice text, struct demand_request *out);
/* One of `classes`: "EVENT FIELD number" or "EVENT FIELD text". */
struct class_setting {
    struct slice event, field; /* borrowed from the text */
    uint8_t class;
};
bool gateway_config_class(struct slice text, struct class_setting *out);
/* Every value in force; as text it is a file that means the same again. */
void gateway_config_show(const struct gateway_config *c, enum config_form form, bool with_origins,
                         struct strbuf *out);
/* Help of a key ("lease.time"), of a section ("lease", "observer"), of all outside of observers ("gateway"),
 * or of all (NULL). E_NODATA: no such key, *why has the nearest. */
int gateway_config_explain(const char *key, enum config_form form, struct strbuf *out, struct diag *why);

#endif
