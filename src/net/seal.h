/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h - AES-128-GCM over datagrams, in place (datagram.h has the layout). One context is keyed again for
 * each worker: an EVP open of 100 bytes costs about 0.45 us, making a context more than that.
 *
 * Needs OpenSSL's libcrypto; the agent reaches it through net/secure.h only. One thread. */
#ifndef GRIDLINE_NET_SEAL_H
#define GRIDLINE_NET_SEAL_H

#include "net/datagram.h"
#include "net/lease.h"

struct seal;
struct seal *seal_create(void);    /* NULL: no memory, or no AES-GCM here */
void seal_destroy(struct seal *s); /* NULL is fine */

/* p holds head and packet, n bytes, with room for a tag behind them. Seals by the head's level and appends
 * the tag: the length now (n at SEAL_NONE); -EIO. */
int64_t seal_close(struct seal *s, const unsigned char key[LEASE_KEY], uint32_t key_id, unsigned char *p,
                   size_t n);
/* A whole datagram whose head was read. Opens it in place; *packet is inside. E_DAMAGE: not authentic; the
 * bytes are then garbage. */
int seal_open(struct seal *s, const unsigned char key[LEASE_KEY], uint32_t key_id,
              const struct datagram_head *head, unsigned char *p, size_t n, struct slice *packet);

#endif
