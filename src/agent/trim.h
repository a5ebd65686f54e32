/* SPDX-License-Identifier: Apache-2.0 */
/* trim.h - what starting needed is given back to the host: free heap, and pages of code that ran once (the parser of the
 * configuration, option tables, the linker). Code is read again from the page cache when it is needed, at the price of a
 * page fault. Call once, when the agent has been running for a while. */
#ifndef GRIDLINE_AGENT_TRIM_H
#define GRIDLINE_AGENT_TRIM_H

void trim_after_start(void);

#endif
