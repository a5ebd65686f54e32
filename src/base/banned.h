/* SPDX-License-Identifier: Apache-2.0 */
/* banned.h - calls that have no safe use here. Included on the compiler's command line for every file, so
 * that using one is a compile error. What to use instead is in the message. */
#ifndef GRIDLINE_BASE_BANNED_H
#define GRIDLINE_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof gets gmtime localtime asctime ctime
#undef alloca
#pragma GCC poison alloca system popen

#endif
