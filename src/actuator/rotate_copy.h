/* SPDX-License-Identifier: Apache-2.0 */
/* rotate_copy.h - the bytes of a log to another file, compressed if so wanted. What is appended in several
 * calls reads back as one: members of gzip and frames of zstd follow each other. */
#ifndef GRIDLINE_ACTUATOR_ROTATE_COPY_H
#define GRIDLINE_ACTUATOR_ROTATE_COPY_H

#include "actuator/actuator.h"

enum copy_form { COPY_PLAIN, COPY_GZIP, COPY_ZSTD };

struct copy_limits {
    const struct actuator_env *env;
    uint64_t min_free; /* bytes that must stay free where out is */
};

struct copied {
    uint64_t bytes; /* how many of the log, from its beginning */
    uint32_t crc;   /* CRC-32C of those */
};

/* Appends to out what in has from done->bytes on, up to its end, and adds it to *done. -ENOSPC: no room, or
 * less than min_free would be left; -ETIMEDOUT, -ECANCELED; -EIO, ...; what is in out then is not whole. */
int copy_append(int in, int out, enum copy_form form, const struct copy_limits *limits, struct copied *done);
/* The CRC of the first n bytes of in. -ENODATA: it has fewer. */
int copy_checksum(int in, uint64_t n, const struct copy_limits *limits, uint32_t *crc);
/* Are the bytes of both files the same? 1, 0, or a negative code. */
int copy_is_same(int a, int b);

#endif
