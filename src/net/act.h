/* SPDX-License-Identifier: Apache-2.0 */
/* act.h - an action on its way to the process that does it, and what comes back. gridline-act reads one
 * request from its standard input until it ends, does it, writes one reply to its standard output, and exits
 * with 0 (done) or 1. The reader trusts its parent (the guard, of the same host and user), but not the bytes:
 * everything is bounded and checked.
 *
 * Format, version 1, little-endian; text = u32 length, bytes:
 *     request  "GLA1" text actuator, text attempt, u64 time left (ns),
 *              u16 settings { text name, u16 n { text } }, u32 data { text name, text value }
 *     reply    "GLR1" i32 code, i32 exit_code, text text, text output
 * Texts of settings have no NUL within; values of data may have any bytes. */
#ifndef GRIDLINE_NET_ACT_H
#define GRIDLINE_NET_ACT_H

#include "base/arena.h"
#include "base/parameter.h"
#include "base/strbuf.h"

enum { ACT_REQUEST_MAX = 4 << 20, ACT_REPLY_MAX = 64 << 10, ACT_SETTINGS_MAX = 64, ACT_DATA_MAX = 4096 };

/* A value of what the action is about: {"host", "c0-0"}. Any bytes. */
struct act_datum {
    struct slice name, value;
};

struct act_request {
    const char *actuator;
    const char
        *attempt; /* names the action in whatever it sends (a mail's Message-ID): the same when repeated */
    int64_t left_ns;
    const struct parameter_setting *settings;
    size_t n_settings;
    const struct act_datum *data;
    size_t n_data;
};

struct act_reply {
    int code;      /* 0, or a negative code of base/err.h */
    int exit_code; /* of a program; -1 = there was none */
    struct slice text, output;
};

/* E_LIMIT: it does not fit. */
int act_request_put(struct strbuf *out, const struct act_request *r);
/* Texts are copied into the arena; values of data are borrowed from bytes. E_PROTO, E_LIMIT, E_VERSION,
 * -ENOMEM. */
int act_request_get(struct slice bytes, struct arena *arena, struct act_request *out);
void act_reply_put(struct strbuf *out, const struct act_reply *r); /* what is too long is cut */
int act_reply_get(struct slice bytes, struct act_reply *out);      /* borrows; E_PROTO, E_VERSION */

#endif
