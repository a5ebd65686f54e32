/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the gateway's configuration: a file in libconfuse's syntax (as the agent's), the environment
 * (GRIDLINE_GATEWAY_KEY), flags; later wins. Checked as a whole before anything uses it; immutable then.
 *
 *     listen = {"tcp://127.0.0.1:14830", "tls://0.0.0.0:14830"}
 *     udp = "127.0.0.1:14830"
 *     state_dir = "/var/lib/gridline/gateway"
 *     lease { time = 30s  renew = 10s }
 *     identity = "/var/lib/gridline/identity"
 *     security = private                        (none, authentic, private)
 *     assign = {"vector.every=2s"}              (thresholds given to every worker)
 *     observer log { type = file  path = "/var/log/gridline/events.ulm"  max_size = 64MiB  keep = 7  compress = zstd } */
#ifndef GRIDLINE_GATEWAY_CONFIG_H
#define GRIDLINE_GATEWAY_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "gateway/observer.h"
#include "net/lease.h"

struct gateway_config {
    const char *listen;    /* addresses by commas: tcp://, tls://, unix: */
    const char *udp;       /* HOST:PORT; "" = no datagrams. Default: the first TCP or TLS address's */
    const char *socket;    /* the Unix socket for commands and local programs; "" = none. Default: run_dir/gateway.sock */
    const char *state_dir; /* journal, token hashes */
    const char *run_dir;
    const char *journal;   /* default state_dir/journal */
    uint64_t journal_max;
    const char *identity;  /* folder (net/tls.h); "" = no TLS */
    bool is_insecure;      /* other hosts may be spoken to without TLS */
    uint8_t level;         /* enum seal_level off loopback; on loopback datagrams are not sealed */
    uint32_t lease_ms, renew_ms;
    const char *assign;    /* settings by newlines: "vector.every=2s\n..." */
    uint32_t connections_max;
    const char *ledger_file, *ready_file;
    int64_t ledger_every_ns; /* how often `ledger` events are made */
    const struct observer_config *observers;
    size_t n_observers;
    struct arena arena; /* holds everything above */
};

struct gateway_flags {
    const char *file;            /* NULL: GATEWAY_CONFIG_FILE if it is there */
    const char *const *settings; /* key=value */
    size_t n_settings;
};

#define GATEWAY_CONFIG_FILE "/etc/gridline/gateway.conf"

/* -EINVAL: *why->message is "file:line: what; what next". */
int gateway_config_load(const struct gateway_flags *flags, struct gateway_config **out, struct diag *why);
void gateway_config_destroy(struct gateway_config *c); /* NULL is fine */
void gateway_config_show(const struct gateway_config *c, struct strbuf *out);

#endif
