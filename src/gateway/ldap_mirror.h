/* SPDX-License-Identifier: Apache-2.0 */
/* ldap_mirror.h - the directory, kept in an LDAP server (JM-6; docs/ldap.md).
 *
 * The loop says what entries are now (ldap_mirror_put) and which are gone; a thread of its own, the only one
 * that speaks with the server, writes what is different. The newest state of an entry takes the place of one
 * that still waits (ldap_queue.h), so nothing is ever dropped and nothing grows but with the number of
 * entries. Nobody waits for the server: while it is away the thread tries again, after 1 s at first and 30 s
 * at most. When it is back, and every LDAP_COMPARE_S, all entries are compared with what it has: those that
 * differ are written, those that are nobody's any more are removed. The latter not before `settle_s` after
 * the start, when agents had the time to come back and say what they have.
 *
 * Several gateways may share a base: each entry has the name of the one that wrote it. An entry whose host's
 * lease is here (is_held) is taken over, others of another gateway's are left alone.
 *
 * Besides hosts and sensors there is an entry of the gateway itself, with when it was last here: who reads
 * the server can tell what is kept from what was left behind. */
#ifndef GRIDLINE_GATEWAY_LDAP_MIRROR_H
#define GRIDLINE_GATEWAY_LDAP_MIRROR_H

#include "base/err.h"
#include "gateway/ldap_entry.h"

enum {
    LDAP_COMPARE_S = 900,
    LDAP_BEAT_S = 60, /* how often the gateway's own entry is written */
    LDAP_RETRY_MAX_S = 30,
    LDAP_STOP_S = 2 /* what the thread has to end by itself; then its connection is cut */
};

struct ldap_mirror_options {
    const char *uri, *base, *bind_dn, *password_file, *ca; /* as ldap_link.h; copied, as all of these */
    bool has_starttls;
    const char *name;   /* of this gateway */
    const char *domain; /* "" = none */
    uint32_t settle_s;  /* see above */
    uint32_t compare_s; /* 0 = LDAP_COMPARE_S */
};

struct ldap_mirror;
/* Starts the thread. E_PROTO: *why says what is no address or no name; -ENOMEM, and what pthread_create says.
 */
int ldap_mirror_create(const struct ldap_mirror_options *o, struct ldap_mirror **out, struct diag *why);
/* The thread is to end: it says that this gateway is stopped, and does nothing else. Does not wait. NULL is
 * fine. */
void ldap_mirror_stop(struct ldap_mirror *m);
/* Waits for the thread: LDAP_STOP_S and then for a connect or look-up under way, if there is one. NULL is
 * fine. */
void ldap_mirror_destroy(struct ldap_mirror *m);

/* The entry is this now; a sensor's host is made with it if it was not put. -ENOMEM, E_LIMIT
 * (LDAP_ENTRIES_MAX): it is not published, which is counted. About a microsecond; nothing is copied if it is
 * as it was. */
int ldap_mirror_put(struct ldap_mirror *m, const struct ldap_entry *e, bool is_held);
/* Of a host ("" as sensor): after its sensors. */
void ldap_mirror_remove(struct ldap_mirror *m, struct slice host, struct slice sensor);
/* About once a second. */
void ldap_mirror_tick(struct ldap_mirror *m, int64_t mono_ns, int64_t utc_ns);

struct ldap_mirror_counts {
    uint64_t entries, waiting; /* now */
    uint64_t written, removed; /* by the server's word */
    uint64_t refused;          /* by the server */
    uint64_t foreign;          /* left alone: another gateway's */
    uint64_t turned_away;      /* not taken in: too many, or no memory */
    uint64_t compared;         /* times that all was compared */
    bool is_connected;
};
void ldap_mirror_counts(struct ldap_mirror *m, struct ldap_mirror_counts *out);

#endif
