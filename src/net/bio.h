/* SPDX-License-Identifier: Apache-2.0 */
/* bio.h - OpenSSL's way to a socket, without SIGPIPE: its own writes with write(2), and a program that has
 * not switched the signal off would die of a peer that went away. */
#ifndef GRIDLINE_NET_BIO_H
#define GRIDLINE_NET_BIO_H

#include <openssl/bio.h>

/* fd is non-blocking and borrowed. NULL: no memory. */
BIO *bio_of_socket(int fd);

#endif
