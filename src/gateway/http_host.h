/* SPDX-License-Identifier: Apache-2.0 */
/* http_host.h - whether a request is meant for us. A page of another site that a browser here shows can send
 * requests to loopback, and by DNS rebinding even under its own name: so the Host must be a name of ours or
 * an address in numbers (a name that was rebound is neither), and the Origin, where a browser says one, must
 * be the Host itself. Pure functions. */
#ifndef GRIDLINE_GATEWAY_HTTP_HOST_H
#define GRIDLINE_GATEWAY_HTTP_HOST_H

#include "base/slice.h"

/* host: NAME or NAME:PORT, as in the header; our names by commas, case ignored. localhost and IP addresses
 * are always ours. */
bool http_host_is_ours(struct slice host, const char *const *names, size_t n);
/* origin: http[s]://HOST[:PORT]; "" = none was said, which is fine. */
bool http_origin_is_ours(struct slice origin, struct slice host);

#endif
