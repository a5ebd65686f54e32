/* SPDX-License-Identifier: Apache-2.0 */
/* access_table.h - the rows of the access table as they are written (docs/access.md), and the words in them.
 * Apart from access.h, because `gridline config` reads them, too.
 *
 *     access dash { who = "token:dash"  may = {lookup, summary}  hosts = "web*"  hide = {"os*"} }
 *     token dash { sha256 = "..." }
 *
 * The first row that fits (who, action, host, event, target) decides: `may` allows, `may_not` does not. The
 * rows that are built in are the last; where none fits the answer is no. A row with `hide` alone decides
 * nothing: what it hides is hidden whichever row allows. */
#ifndef GRIDLINE_GATEWAY_ACCESS_TABLE_H
#define GRIDLINE_GATEWAY_ACCESS_TABLE_H

#include "base/err.h"
#include "gateway/access.h"

struct config_entry;

/* Bits of actions. */
#define ACCESS_BIT(action) (UINT32_C(1) << (action))
enum {
    ACCESS_ALL = (1 << ACCESS_ACTIONS) - 1,
    /* Those that are of events, not of hosts only; */
    ACCESS_OF_EVENTS = 1 << ACCESS_PUBLISH | 1 << ACCESS_LOOKUP | 1 << ACCESS_SUBSCRIBE | 1 << ACCESS_QUERY |
                       1 << ACCESS_SUMMARY,
    /* and by which something is seen. */
    ACCESS_SEEING = 1 << ACCESS_LOOKUP | 1 << ACCESS_SUBSCRIBE | 1 << ACCESS_QUERY | 1 << ACCESS_SUMMARY |
                    1 << ACCESS_CONTROL
};

/* Of a list of host patterns: the host that has the identity's own name. */
#define ACCESS_OWN_HOST "@own"

/* A row. Lists are by commas, "" = not given: any; of hide: nothing. */
struct access_row {
    const char *name, *who;
    uint32_t may, may_not; /* bits */
    const char *hosts, *events, *targets, *hide;
    const char *file; /* where it was written; line 0: not in a file */
    unsigned line;
    const struct config_entry *given; /* every key that was given (config/config.h), for showing; else NULL */
    size_t n_given;
};

/* A token for HTTP: one of both is given, the other "". */
struct access_token {
    const char *name;
    const char *sha256; /* of the token, 64 hex digits */
    const char *path;   /* of a file that holds it, mode 0600 */
    const char *file;
    unsigned line;
    const struct config_entry *given; /* as of a row */
    size_t n_given;
};

/* Whom a row is about: one word of `who`. */
struct access_subject {
    bool is_everybody;
    enum access_kind kind;
    uint32_t uid;      /* of local:UID; UINT32_MAX = any */
    struct slice name; /* pattern of names, as it was written; "" = any */
};

/* "operator:ann*". false: there is no such word. */
bool access_parse_who(struct slice word, struct access_subject *out);
/* "lookup"; "all" is all of them. false: there is no such word. */
bool access_parse_action(struct slice word, uint32_t *bits);
const char *access_action_name(enum access_action action);
const char *access_kind_name(enum access_kind kind);
/* Can it be a pattern: not empty, no control character, no comma, and each [ has its ]? */
bool access_is_pattern(struct slice word);
/* What is wrong with a row although each word of it is fine; NULL: nothing. */
const char *access_row_problem(const struct access_row *row);
/* 64 hex digits. */
bool access_parse_sha256(struct slice text, unsigned char out[32]);

#endif
