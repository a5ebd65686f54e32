/* SPDX-License-Identifier: Apache-2.0 */
/* banned.h - calls that have no safe use here. Included on the compiler's command line for every file, so
 * that using one is a compile error that names it. Instead: strbuf and slice for text, num and clock for
 * numbers and times, posix_spawn with an argv for programs. */
#ifndef GRIDLINE_BASE_BANNED_H
#define GRIDLINE_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BANNED(call) call##_is_banned_see_base_banned_h

#undef strcpy
#define strcpy(...) BANNED(strcpy)
#undef strcat
#define strcat(...) BANNED(strcat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(...) BANNED(strtok)
#undef atoi
#define atoi(...) BANNED(atoi)
#undef atol
#define atol(...) BANNED(atol)
#undef atof
#define atof(...) BANNED(atof)
#undef gets
#define gets(...) BANNED(gets)
#undef gmtime
#define gmtime(...) BANNED(gmtime)
#undef localtime
#define localtime(...) BANNED(localtime)
#undef asctime
#define asctime(...) BANNED(asctime)
#undef ctime
#define ctime(...) BANNED(ctime)
#undef alloca
#define alloca(...) BANNED(alloca)
#undef system
#define system(...) BANNED(system)
#undef popen
#define popen(...) BANNED(popen)

#endif
