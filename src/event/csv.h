/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - one value as CSV has it (csv.c says how), for tables that are not events. */
#ifndef GRIDLINE_EVENT_CSV_H
#define GRIDLINE_EVENT_CSV_H

#include "base/strbuf.h"
#include "event/value.h"

/* Missing is nothing; text is quoted where it must be; bytes are base64. */
void csv_put_value(struct strbuf *out, struct value v);
void csv_put_text(struct strbuf *out, struct slice s);

#endif
