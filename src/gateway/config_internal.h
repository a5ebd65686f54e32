/* SPDX-License-Identifier: Apache-2.0 */
/* config_internal.h - what the files of the gateway's configuration share. */
#ifndef GRIDLINE_GATEWAY_CONFIG_INTERNAL_H
#define GRIDLINE_GATEWAY_CONFIG_INTERNAL_H

#include "config/load.h"
#include "gateway/config.h"

/* Scopes: the root, `observer NAME`, `access NAME` and `token NAME`. */
extern const struct config_schema gateway_schema;
extern const struct config_scope scope_observer, scope_access, scope_token;

/* What was given for such a section, checked. */
void config_make_access(struct config_load *l, const struct given_section *s, struct access_row *a);
void config_make_token(struct config_load *l, const struct given_section *s, struct access_token *t);
/* Do all rows together make sense? */
void config_check_access(struct config_load *l, const struct gateway_config *c);

enum address_kind { ADDRESS_TCP, ADDRESS_TLS, ADDRESS_UNIX };

/* [tcp://]HOST[:PORT], tls://HOST[:PORT] or unix:PATH; a HOST with colons is in brackets. */
struct config_address {
    enum address_kind kind;
    struct slice host; /* without brackets; of ADDRESS_UNIX the path */
    struct slice port;
};

bool config_address_parse(struct slice text, struct config_address *out);
/* [http://]HOST[:PORT] or https://HOST[:PORT], as ADDRESS_TCP and ADDRESS_TLS. */
bool config_http_parse(struct slice text, struct config_address *out);
/* 127.0.0.0/8, ::1 and localhost: nothing is looked up, so that a check says the same everywhere. */
bool config_address_is_loopback(const struct config_address *a);

#endif
