/* SPDX-License-Identifier: Apache-2.0 */
/* ldap_link.h - a connection to an LDAP server, by libldap: opens it, and lists, writes and removes our
 * entries. Every call blocks, for LDAP_CONNECT_S or LDAP_ANSWER_S at most: for a thread of its own. Names and
 * records: ldap_entry.h. */
#ifndef GRIDLINE_GATEWAY_LDAP_LINK_H
#define GRIDLINE_GATEWAY_LDAP_LINK_H

#include "base/err.h"
#include "gateway/ldap_entry.h"

enum { LDAP_CONNECT_S = 5, LDAP_ANSWER_S = 20 };

struct ldap_link_options {
    const char *uri;           /* ldap://, ldaps://, ldapi:// */
    const char *base;          /* a distinguished name */
    const char *bind_dn;       /* "" = anonymous; by ldapi:// as who we are */
    const char *password_file; /* "" = none */
    const char *ca;            /* file; "" = as the system has it */
    bool has_starttls;
    struct slice gateway; /* whose entries; as ldap_encode writes it */
};

/* What came of it. */
enum ldap_outcome {
    OUTCOME_DONE,
    OUTCOME_FOREIGN, /* it is another gateway's: left alone */
    OUTCOME_REFUSED, /* the server does not want this one; the next may be fine */
    OUTCOME_AWAY     /* the connection is of no more use */
};

/* Is that a URI and a distinguished name? E_PROTO: *why says which is not. */
int ldap_link_check(const struct ldap_link_options *o, struct diag *why);

struct ldap_link;
/* Connects and says who we are; o is borrowed as long as it lives. < 0: *why. */
int ldap_link_open(const struct ldap_link_options *o, struct ldap_link **out, struct diag *why);
void ldap_link_close(struct ldap_link *l); /* NULL is fine */
int ldap_link_fd(struct ldap_link *l);     /* to shut down from another thread; -1 = not known */

/* Each of this gateway's entries. dn is how the server names it. */
typedef void (*ldap_listed)(void *arg, const char *dn, struct slice name, struct slice record);
enum ldap_outcome ldap_link_list(struct ldap_link *l, ldap_listed fn, void *arg, struct diag *why);

/* Makes the entry what the record says. is_there: it is tried to change it first, else to add it. is_held: it
 * is ours, whoever has written it; without, one of another gateway's is left alone. */
enum ldap_outcome ldap_link_write(struct ldap_link *l, struct slice name, struct slice record, bool is_there,
                                  bool is_held, struct diag *why);
/* Did the last write find nothing to put the entry under? */
bool ldap_link_lacks_parent(const struct ldap_link *l);
/* If it is ours; by its name below the base, or as the server names it. */
enum ldap_outcome ldap_link_remove(struct ldap_link *l, struct slice name, struct diag *why);
enum ldap_outcome ldap_link_remove_dn(struct ldap_link *l, const char *dn, struct diag *why);

#endif
