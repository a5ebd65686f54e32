/* SPDX-License-Identifier: Apache-2.0 */
/* ldap_directory.h - tells the mirror in an LDAP server (ldap_mirror.h) what is in the directory: all of it
 * when it starts, every change as it comes, and when an entry was heard last in turn, so that each is told
 * once in `refresh`. On the loop. */
#ifndef GRIDLINE_GATEWAY_LDAP_DIRECTORY_H
#define GRIDLINE_GATEWAY_LDAP_DIRECTORY_H

#include "directory/directory.h"
#include "gateway/ldap_mirror.h"
#include "net/args.h"

struct ldap_directory_options {
    struct ldap_mirror_options
        mirror;         /* uri NULL or "": nothing is published. name NULL or "": this host's name */
    int64_t refresh_ns; /* 0 = 10 minutes */
};

struct ldap_directory;
/* d is borrowed, and outlives it but tells it nothing once ldap_directory_stop was called. */
int ldap_directory_create(struct directory *d, const struct ldap_directory_options *o,
                          struct ldap_directory **out, struct diag *why);
/* The end is near: says so to the server. NULL is fine, as below. */
void ldap_directory_stop(struct ldap_directory *l);
void ldap_directory_destroy(struct ldap_directory *l); /* after the directory */

void ldap_directory_tick(struct ldap_directory *l, int64_t mono_ns); /* about once a second */
/* Named numbers, for `status`. */
void ldap_directory_status(struct ldap_directory *l, struct args_writer *out);

#endif
