/* SPDX-License-Identifier: Apache-2.0 */
/* join.h - the frames by which a host gets its certificate (docs/protocol.md, "Joining"), over TLS. As
 * frame.h: pure functions, slices borrowed. */
#ifndef GRIDLINE_NET_JOIN_H
#define GRIDLINE_NET_JOIN_H

#include "net/frame.h"

enum join_frame { FRAME_JOIN = 27, FRAME_CERTIFY = 28, FRAME_CERTIFIED = 29 };

enum { JOIN_REQUEST_MAX = 16 << 10, JOIN_CHAIN_MAX = 48 << 10 };

/* From one without a certificate, in place of HELLO. */
struct frame_join {
    struct slice token;   /* the secret of `gridline token` */
    struct slice name;    /* host, or operator's name */
    struct slice request; /* PKCS#10, DER */
};

struct frame_certify {
    struct slice request;
};

struct frame_certified {
    uint16_t status;    /* 0, or an exit code of DESIGN.md: 5 = not allowed */
    struct slice text;  /* why not */
    struct slice chain; /* PEM, own certificate first, the CA last */
};

void frame_put_join(struct strbuf *out, const struct frame_join *j);
int frame_get_join(struct slice payload, struct frame_join *out);
void frame_put_certify(struct strbuf *out, const struct frame_certify *c);
int frame_get_certify(struct slice payload, struct frame_certify *out);
void frame_put_certified(struct strbuf *out, const struct frame_certified *c);
int frame_get_certified(struct slice payload, struct frame_certified *out);

#endif
