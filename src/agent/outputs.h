/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.h - events to standard output and to files, in any encoding.
 *
 * Nothing waits: what a pipe does not take now is kept, up to OUTPUT_MAX bytes, and written later; beyond
 * that whole batches are dropped and counted, so that lines stay whole. A file that can't be written is tried
 * again with each batch. Files are appended to, and opened again on outputs_reopen (a rotated log). */
#ifndef GRIDLINE_AGENT_OUTPUTS_H
#define GRIDLINE_AGENT_OUTPUTS_H

#include "agent/config.h"
#include "event/batch.h"

enum { OUTPUT_MAX = 4 << 20 };

struct outputs;
/* *why names the output that can't be opened. */
int outputs_create(const struct output_config *configs, size_t n, struct outputs **out, struct diag *why);
void outputs_destroy(struct outputs *o); /* writes what it can; NULL is fine */
bool outputs_any(const struct outputs *o);
void outputs_batch(struct outputs *o, const struct batch *b);
/* Writes what waits, as far as that goes without waiting. */
void outputs_flush(struct outputs *o);
void outputs_reopen(struct outputs *o);
/* Events written and dropped, of all outputs. */
void outputs_counts(const struct outputs *o, uint64_t *passed, uint64_t *dropped);

#endif
