/* SPDX-License-Identifier: Apache-2.0 */
/* short.h - events for a person at a terminal: a line each, time of day, host, name and fields. Written only.
 */
#ifndef GRIDLINE_CMD_SHORT_H
#define GRIDLINE_CMD_SHORT_H

#include "event/encoding.h"

extern const struct encoding encoding_short;

#endif
