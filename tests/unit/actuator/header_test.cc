/* SPDX-License-Identifier: Apache-2.0 */
/* The public header in C++: compiled only. */
#include <gridline/actuator.h>

int act(const char *host);

int act(const char *host)
{
    const char *options[] = {"to=ops@example.org", "subject={host} is full", 0};
    struct gridline_value data[1];
    char said[200];
    data[0].name = "host";
    data[0].type = 't';
    data[0].v.p = host;
    data[0].n = (size_t)-1;
    return gridline_actuator_run("mail", options, data, 1, 30000, said, sizeof said);
}
