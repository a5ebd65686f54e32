/* SPDX-License-Identifier: Apache-2.0 */
/* gateway.h - the gateway as one piece: listeners, sessions, workers, datagrams, control, ingest, store and
 * ledger on one loop; the journal is written by a thread of its own (store.h).
 *
 * gateway_run returns after SIGTERM or SIGINT: the last group is committed, everybody is told BYE 1, the
 * ledger is written. SIGUSR1 writes the ledger without stopping, SIGHUP opens the observers' files again. */
#ifndef GRIDLINE_GATEWAY_GATEWAY_H
#define GRIDLINE_GATEWAY_GATEWAY_H

#include "base/err.h"
#include "event/archived.h"
#include "event/encoding.h"
#include "event/table.h"
#include "gateway/access_table.h"
#include "gateway/ldap_directory.h"
#include "gateway/observer.h"
#include "gateway/stream_options.h"

struct args_writer;
struct http_assets;
struct class_source;
struct query_ops;
struct replay_refill;

/* An archive beside the gateway, which knows no more of it (cmd/archiver.h). On the loop. */
struct gateway_archive {
    const struct query_ops *query; /* SQL (event/query.h); NULL = none */
    /* Everything up to this record of the journal of that number is settled; also once at start. */
    void (*settled)(void *arg, uint64_t journal, uint64_t record);
    /* Up to this record of that journal everything survives kill -9 without the journal; 0 = not known yet.
     * Grows on its own. NULL = the archive keeps nothing back. */
    uint64_t (*safe)(void *arg);
    /* The journal gets full of what is not safe: write it down soon. NULL with safe. */
    void (*hurry)(void *arg);
    /* Records up to this one are not asked of refill any more; UINT64_MAX: none will be. NULL with refill. */
    void (*keep)(void *arg, uint64_t record);
    const struct replay_refill *refill; /* deleted records, from the archive (replay.h); NULL = none */
    /* Named numbers, for `status`. */
    void (*status)(void *arg, struct args_writer *out);
    /* What it holds. */
    void (*state)(void *arg, struct archived_state *out);
    /* Would it keep that event, which has come now? For each that comes: a comparison or two, as a rule. */
    enum archived_verdict (*judge)(void *arg, const struct event *e, int64_t now_ns);
    /* Keeps or forgets a baseline, soon: the table `baselines` has it when it is on disk. Copied. */
    void (*baseline)(void *arg, const struct baseline_order *o);
    void *arg;
};

struct gateway_options {
    const char *listen;       /* addresses (listen.h), separated by commas or spaces */
    const char *socket;       /* a Unix socket for commands and local programs; NULL = none */
    const char *identity;     /* the site's folder, for TLS; NULL = none */
    bool is_insecure;         /* other hosts may come without TLS */
    uint8_t level;            /* enum seal_level of datagrams off loopback */
    uint32_t connections_max; /* 0 = SESSIONS_MAX */
    enum escapes escapes;     /* of lines of ULM and BP */
    const char *assign;       /* settings for every worker, a line each: "vector.every=2s"; NULL = none */
    const char
        *demand; /* asked of sensors on request for as long as it runs, a line each: "cpu 10s"; NULL = none */
    const char *udp;            /* HOST:PORT; NULL = that of the first TCP address, "" = no datagrams */
    const char *http;           /* http://HOST:PORT or https://HOST:PORT; NULL or "" = none */
    const char *http_names;     /* by commas: further names that requests may be for; NULL = none */
    const char *http_token;     /* file of the owner's token; NULL or "" = none */
    const char *http_sessions;  /* file of the viewer's sessions; the same */
    bool http_log;              /* a line for each request */
    const char *journal;        /* directory */
    uint64_t journal_max;       /* bytes; 0 = 1 GiB */
    uint64_t journal_hold;      /* bytes that a durable subscription may keep of it at most */
    int64_t lease_ns, renew_ns; /* 0 = 30 s and 10 s */
    const char *ledger_file;    /* JSON, replaced as a whole; NULL = none */
    int64_t ledger_every_ns;    /* how often `ledger` events are made */
    const char *ready_file;     /* the addresses, a line each, once it listens; NULL = none */
    const struct observer_config *observers; /* of what is in the journal */
    size_t n_observers;
    const struct access_row *access; /* who may do what; what is built in comes behind */
    size_t n_access;
    const struct access_token *tokens;
    size_t n_tokens;
    struct latest_options latest;
    struct summary_options summary;
    const struct class_source *classes;    /* the archive's; NULL = none */
    const char *class_settings;            /* classes by hand, a line each: "rpc.call latency number"; NULL = none */
    const char *domain, *expect;           /* of the directory; NULL = this host's, and nothing */
    int64_t directory_keep_ns;             /* 0 = a day */
    struct ldap_directory_options ldap;    /* where the directory is published; uri NULL or "": nowhere */
    const struct gateway_archive *archive; /* NULL = none */
    const char *version;                   /* of the program; NULL = not known */
    const char *const *rule_test;          /* what tests rules (http.h); NULL = nothing */
    const struct http_assets *assets;      /* the page that HTTP shows (http_assets.h); NULL = none */
};

struct gateway;
/* Opens the journal, reads it, and listens. Borrows what options point to. *out is untouched on failure. */
int gateway_create(const struct gateway_options *options, struct gateway **out, struct diag *why);
void gateway_destroy(struct gateway *g); /* NULL is fine */
int gateway_run(struct gateway *g);
/* What it knows, as tables for SQL; while it lives. */
const struct table_ops *gateway_tables(const struct gateway *g, size_t *n);

/* Prints what a journal holds, also of one in use: the events in this encoding, or without one a line of JSON
 * for each block (producer, epoch, first_seq, count). Lost records are named on stderr; E_DAMAGE then. */
int gateway_dump(const char *journal, const struct encoding *print);

#endif
