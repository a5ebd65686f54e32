/* SPDX-License-Identifier: Apache-2.0 */
/* access.h - who is at the other end of a connection, and the one place that says what it may do (JM-5,
 * JM-10): a table of (identity, action, resource), from configuration. Default: no. docs/access.md has the
 * rules.
 *
 * A resource is a host and an event name. What somebody may see of data is a view: which events, and without
 * which fields; directory entries and schemas are seen through the same. Filters look at what the view shows,
 * so that nothing can be told of a hidden field by asking for it. */
#ifndef GRIDLINE_GATEWAY_ACCESS_H
#define GRIDLINE_GATEWAY_ACCESS_H

#include "base/err.h"
#include "event/event.h"

enum { ACCESS_NAME_MAX = 256 };

enum access_kind {
    ACCESS_NOBODY,   /* TLS without a certificate; HTTP without a token from another host */
    ACCESS_OWNER,    /* the gateway's own user or root: Unix socket credentials, or the owner's token file */
    ACCESS_LOCAL,    /* anybody else on this host: Unix socket of another user, or loopback */
    ACCESS_INSECURE, /* another host without TLS, where `insecure = true` allows it */
    ACCESS_AGENT,    /* certificates: */
    ACCESS_GATEWAY,
    ACCESS_OPERATOR,
    ACCESS_TOKEN /* a token of the configuration, by HTTP: name is its */
};

struct access; /* the table */

struct access_identity {
    enum access_kind kind;
    uint32_t uid;               /* OWNER, LOCAL by Unix socket; else UINT32_MAX */
    char name[ACCESS_NAME_MAX]; /* of a certificate or token */
    int64_t not_after_ns;       /* of a certificate: when it is over */
    bool is_agent;              /* it came as an agent or a relay, and may register as one */
    const struct access *table; /* what it is judged by; NULL: what is built in. Borrowed, for life */
    const char *interface; /* by which way it came, for the audit: "unix", "tcp", "tls", "http", "xmlrpc";
                              NULL = not known. Static */
};

enum access_action {
    ACCESS_JOIN,      /* ask for a certificate with a token */
    ACCESS_PUBLISH,   /* events; host: where they are about */
    ACCESS_REGISTER,  /* as a worker */
    ACCESS_LOOKUP,    /* the directory: workers, sensors, schemas, the ledger */
    ACCESS_SUBSCRIBE, /* events as they come */
    ACCESS_QUERY,     /* the latest events */
    ACCESS_SUMMARY,   /* averages, minima, maxima */
    ACCESS_CONTROL,   /* act on workers */
    ACCESS_TEST,      /* rules over all of the archive: rule.test */
    ACCESS_ACTIONS
};

/* ---------------------------------------------------------------- the table */

struct access_row;
struct access_token; /* access_table.h */

/* The rows, and behind them what is built in. Borrows nothing. -EINVAL: *why says which row, or which token's
 * file can't be used; -ENOMEM. */
int access_create(const struct access_row *rows, size_t n, const struct access_token *tokens, size_t n_tokens,
                  struct access **out, struct diag *why);
void access_destroy(struct access *table); /* NULL is fine; after everybody that is judged by it */

/* Whose token that is: identity with table. In the same time whatever is wrong with it. -EACCES: nobody's. */
int access_by_token(const struct access *table, struct slice token, struct access_identity *out);

/* Somebody was refused. Borrowed for the call. */
struct access_denial {
    const struct access_identity *who;
    enum access_action action;
    struct slice host, event; /* "" = of none in particular */
};
/* Hears of each refusal (the audit: own.h). fn NULL: nobody. */
void access_on_denied(struct access *table, void (*fn)(void *arg, const struct access_denial *d), void *arg);

/* ---------------------------------------------------------------- asking */

/* host, event: "" = of some or other: could it be allowed anything of the kind at all? */
bool access_allows(const struct access_identity *who, enum access_action action, struct slice host);
bool access_allows_event(const struct access_identity *who, enum access_action action, struct slice host,
                         struct slice event);
/* The same for somebody who is about to do it: a no is told to the audit. */
bool access_check(const struct access_identity *who, enum access_action action, struct slice host,
                  struct slice event);
/* It was refused by another way than access_check (a view that shows nothing). */
void access_tell_denied(const struct access_identity *who, enum access_action action, struct slice host,
                        struct slice event);
/* Is one of them an order to guards (event/reserved.h)? These are the gateway's own word: they are taken from
 * nobody, whatever the table says. */
bool access_says_orders(const struct event *events, size_t n);
/* Are both the same, as far as anybody can tell? Those on loopback are. */
bool access_same_identity(const struct access_identity *a, const struct access_identity *b);
/* "operator ann", "user 1000 here", for logs and events. */
size_t access_print(char *to, size_t n, const struct access_identity *who);

/* ---------------------------------------------------------------- views */

/* What who sees by action; of ACCESS_PUBLISH, what it may say. */
struct access_view;
/* *out = NULL: everything, with all fields. -EACCES: nothing at all; -ENOMEM. Keeps nothing of who but the
 * table. */
int access_view_create(const struct access_identity *who, enum access_action action,
                       struct access_view **out);
void access_view_destroy(struct access_view *v); /* NULL is fine */
/* Do both show the same of every event? NULL is a view, too. */
bool access_view_same(const struct access_view *a, const struct access_view *b);
/* Does it show every event of every host (fields may be hidden)? */
bool access_view_is_whole(const struct access_view *v);
/* And of that host? */
bool access_view_is_whole_of(const struct access_view *v, struct slice host);
/* e as it may be seen: false, not at all. Else *out is e, or shares all with e but its values, which are in
 * room (EVENT_FIELDS_MAX values) with the hidden ones missing. Cost: as patterns, remembered per schema and
 * host. */
bool access_view_event(struct access_view *v, const struct event *e, struct event *out, struct value *room);
/* For directories: may this event name of this host be seen, this field of it, this property of the host
 * (which is a field of the event `worker`)? host, event: "" = of some or other. */
bool access_view_shows(struct access_view *v, struct slice host, struct slice event);
bool access_view_shows_field(struct access_view *v, struct slice host, struct slice event,
                             struct slice field);
bool access_view_shows_property(struct access_view *v, struct slice host, struct slice property);
/* For SQL, which looks at streams and not at targets: is every event of that name and host ("" = those
 * without one) seen, and that field of them, whatever their target is? Thread: one at a time, any. */
bool access_view_certain(const struct access_view *v, struct slice host, struct slice event);
bool access_view_certain_field(const struct access_view *v, struct slice host, struct slice event,
                               struct slice field);

#endif
