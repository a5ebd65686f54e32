/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - a person or the system wants the command to end. */
#ifndef GRIDLINE_CMD_STOP_H
#define GRIDLINE_CMD_STOP_H

#include <stdbool.h>

/* SIGINT, SIGTERM and SIGHUP from now on only make stop_asked() true: what runs comes to its end, removes
 * what it had begun, and stop_die() then ends the program by that signal, as its parent expects. */
void stop_catch(void);
bool stop_asked(void);
/* A SIGINT that was noted is dealt with: it ended what was running, and the command goes on. */
void stop_forget_interrupt(void);
/* Returns when no signal came. */
void stop_die(void);

#endif
