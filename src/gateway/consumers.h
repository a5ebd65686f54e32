/* SPDX-License-Identifier: Apache-2.0 */
/* consumers.h - the consumers' side of a gateway as one piece: subscriptions, directory, latest and
 * summaries, demand, HTTP, access, LDAP. gateway.c gives it what is in the journal and the ticks; every part
 * is wired in consumers.c and nowhere else. On the loop. */
#ifndef GRIDLINE_GATEWAY_CONSUMERS_H
#define GRIDLINE_GATEWAY_CONSUMERS_H

#include "event/query.h"
#include "event/table.h"
#include "gateway/control.h"
#include "gateway/ingest.h"
#include "gateway/latest.h"
#include "gateway/ldap_directory.h"
#include "gateway/own.h"
#include "gateway/session.h"
#include "gateway/subscription.h"
#include "gateway/summary.h"

struct consumers_options {
    struct event_base *base;
    struct ingest *ingest; /* borrowed, as all of these */
    struct workers *workers;
    struct control *control;
    struct sessions *sessions;
    struct own *own;
    const struct access *access;
    const struct ledger *ledger;
    const char *journal;
    const struct replay_refill *refill; /* NULL = none */
    const char *demand;   /* standing requests (gateway_config); NULL = none */
    uint64_t last_record; /* of it */
    struct cursors *cursors;
    uint64_t hold_max; /* subscriptions_options */
    const struct latest_options *latest;
    const struct summary_options *summary;
    const char *domain, *expect; /* of the directory: directory_feed.h */
    int64_t directory_keep_ns;
    const struct ldap_directory_options *ldap; /* NULL = none */
    const struct query_ops *query;             /* the archive; NULL = none */
    const struct gateway_archive *archive;     /* the same */
    const struct class_source *classes;        /* the same */
    const char *class_settings;                /* gateway_config's classes; NULL = none */
    /* HTTP (http.h): */
    const char *http; /* NULL or "" = none */
    const char *http_names, *http_token, *http_sessions, *identity;
    bool http_log, is_insecure;
    const struct http_assets *assets; /* NULL = none */
    const char *version;              /* of the program; NULL = not known */
    const char *const *rule_test;     /* what tests rules; NULL = nothing */
};

struct gateway_archive;
struct consumers;
/* *why says what is wrong. */
int consumers_create(const struct consumers_options *o, struct consumers **out, struct diag *why);
/* Nobody new, and what there is ends; before the sessions go. */
void consumers_shut_down(struct consumers *c);
void consumers_destroy(struct consumers *c); /* NULL is fine; after the sessions */

void consumers_batch(struct consumers *c, const struct batch *b, struct position at);
void consumers_flush(struct consumers *c, uint64_t last_record);
void consumers_tick(struct consumers *c, int64_t now_ns); /* monotonic; about once a second */
/* A worker has registered, is another state, or has announced its sensors. */
void consumers_worker(struct consumers *c, struct worker *w, enum worker_state before);
/* Named numbers, for `status`. */
void consumers_status(const struct consumers *c, struct args_writer *out);
struct subscriptions *consumers_subscriptions(struct consumers *c);
/* System tables for SQL: tables.h. */
const struct table_ops *consumers_tables(const struct consumers *c, size_t *n);
/* http://HOST:PORT; NULL = there is none. */
const char *consumers_http(const struct consumers *c);

#endif
