/* SPDX-License-Identifier: Apache-2.0 */
/* session_consumer.h - a connection as a consumer's: its subscriptions, and their events as frames. Used by
 * session.c alone. Frames of several chunks go out in one call of the socket; their bytes are not copied
 * unless the socket is full. */
#ifndef GRIDLINE_GATEWAY_SESSION_CONSUMER_H
#define GRIDLINE_GATEWAY_SESSION_CONSUMER_H

#include "gateway/session.h"

struct session_consumer;

bool session_consumer_takes(uint8_t type);
/* A frame of those; *c is made with the first. */
void session_consumer_frame(struct session_consumer **c, struct session *s, const struct frame *f);
/* The connection takes more. */
void session_consumer_writable(struct session_consumer *c); /* NULL is fine */
void session_consumer_destroy(struct session_consumer *c);  /* NULL is fine */

#endif
