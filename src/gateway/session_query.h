/* SPDX-License-Identifier: Apache-2.0 */
/* session_query.h - the queries of a connection (docs/protocol.md, "Queries"): their results as frames. Used
 * by session.c alone. A piece is asked for when all before it has been taken by the socket; what a peer does
 * not read waits as one piece a query. */
#ifndef GRIDLINE_GATEWAY_SESSION_QUERY_H
#define GRIDLINE_GATEWAY_SESSION_QUERY_H

#include "gateway/session.h"

enum { SESSION_QUERIES = 4 }; /* at a time */

struct session_queries;

bool session_query_takes(uint8_t type);
/* A frame of those; *all is made with the first. */
void session_query_frame(struct session_queries **all, struct session *s, const struct frame *f);
/* The connection takes more. */
void session_query_writable(struct session_queries *all); /* NULL is fine */
/* Bytes that may wait for it on the connection. */
size_t session_query_room(const struct session_queries *all); /* NULL is fine */
void session_query_destroy(struct session_queries *all);      /* NULL is fine */

#endif
