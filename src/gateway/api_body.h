/* SPDX-License-Identifier: Apache-2.0 */
/* api_body.h - the JSON body of POST /api/v1/control:
 * {"verb":"worker.set","args":{"workers":"n*","dry_run":true}} as a verb and named values. Objects within
 * args are flattened: {"set":{"vector.every":"2s"}} is a value set.vector.every. Arrays are refused. Pure
 * functions, for anybody's bytes. */
#ifndef GRIDLINE_GATEWAY_API_BODY_H
#define GRIDLINE_GATEWAY_API_BODY_H

#include "base/err.h"
#include "net/args.h"

enum { API_VERB_MAX = 64, API_BODY_DEPTH = 6 };

/* verb and args are appended to. E_PROTO, E_LIMIT, -ENOMEM: *why says what and where (col: the byte). */
int api_body_read(struct slice body, struct strbuf *verb, struct args_writer *args, struct diag *why);

#endif
