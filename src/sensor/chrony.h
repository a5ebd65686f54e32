/* SPDX-License-Identifier: Apache-2.0 */
/* chrony.h - the one question asked of chronyd: what `chronyc tracking` asks. Protocol version 6 (chrony 2.2 and
 * later), UDP; byte layout in chrony.c. */
#ifndef GRIDLINE_SENSOR_CHRONY_H
#define GRIDLINE_SENSOR_CHRONY_H

#include "base/slice.h"

#include <stdint.h>

enum { CHRONY_PACKET = 104 }; /* bytes, of the request and of the answer */

struct chrony_tracking {
    uint32_t ref_id;
    uint8_t address_family; /* AF_INET, AF_INET6, or 0: the reference has no address */
    uint8_t address[16];
    uint16_t stratum;
    uint16_t leap; /* 0 none, 1 insert, 2 delete, 3 not synchronised */
    double correction;  /* s: what is left to correct; positive: the clock is slow */
    double last_offset, rms_offset;                   /* s */
    double frequency, residual_frequency, skew;       /* ppm */
    double root_delay, root_dispersion;               /* s */
    double update_interval;                           /* s */
};

void chrony_request(unsigned char packet[CHRONY_PACKET], uint32_t sequence);
/* E_PROTO: not the answer to that request. */
int chrony_parse(struct slice packet, uint32_t sequence, struct chrony_tracking *out);

#endif
