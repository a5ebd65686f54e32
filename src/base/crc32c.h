/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - CRC-32C (Castagnoli), by the processor's instruction where it has one. */
#ifndef GRIDLINE_BASE_CRC32C_H
#define GRIDLINE_BASE_CRC32C_H

#include "base/slice.h"

#include <stdint.h>

/* crc is 0 to start, or an earlier result to go on: crc32c(crc32c(0, a), b) == crc32c(0, ab). */
uint32_t crc32c(uint32_t crc, struct slice s);

#endif
