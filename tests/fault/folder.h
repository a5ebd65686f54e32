/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - folders of a test, in memory where there is such a place: thousands of states are written. */
#ifndef GRIDLINE_TESTS_FOLDER_H
#define GRIDLINE_TESTS_FOLDER_H

enum { FOLDER_PATH = 96 };

void folder_make(char path[FOLDER_PATH]); /* a new one */
void folder_empty(const char *path);      /* made where it is not there */
void folder_remove(const char *path);     /* with all that is in it */

#endif
