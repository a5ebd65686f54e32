/* SPDX-License-Identifier: Apache-2.0 */
/* sql.h - asking the archive (event/query.h) for somebody: HTTP, frames and XML-RPC ask by it, so that all
 * have the same access. Asking takes the action `query`; what of events is seen is what `query` shows, and of
 * system tables (tables.h) what their questions show. On the loop. */
#ifndef GRIDLINE_GATEWAY_SQL_H
#define GRIDLINE_GATEWAY_SQL_H

#include "event/query.h"
#include "gateway/access.h"
#include "net/control.h"

/* Fills who and access of a, and asks. who is copied. 0: *out is the query, to be closed by ops->close.
 * -EACCES (told to the audit); -ENOTSUP: this gateway has no archive (ops NULL); -EAGAIN: too many; E_LIMIT;
 * -ENOMEM: *why has it in words. */
int sql_ask(const struct query_ops *ops, struct query_asker *a, const struct access_identity *who,
            const struct query_text *text, struct query **out, struct diag *why);
/* What a result of event/query.h is for people and programs. */
enum control_status sql_status(int r);

#endif
