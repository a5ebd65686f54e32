/* SPDX-License-Identifier: Apache-2.0 */
/* netlink.h - what the kernel tells only by rtnetlink, as the content of a file: the messages of one dump, one after
 * the other as the kernel wrote them (struct nlmsghdr, aligned to 4, without the final NLMSG_DONE). env.c gives it as
 * the source "/netlink/NAME"; on a captured tree that is a file with the same bytes.
 *
 *     qdisc    RTM_GETQDISC: the queues in front of each network interface (qdisc.h reads it) */
#ifndef GRIDLINE_SENSOR_NETLINK_H
#define GRIDLINE_SENSOR_NETLINK_H

#include "base/strbuf.h"

#define NETLINK_FOLDER "/netlink/"

/* A socket for netlink_dump, or a negative code. Nothing is subscribed to: it only receives answers. */
int netlink_open(void);
/* Asks and replaces out's content by the answer, at most max bytes: E_LIMIT beyond. E_NODATA: no dump of that name, or
 * the answer is empty. Never waits for the network; the kernel may make it wait for whoever configures an interface
 * just then. After a failure the socket may hold half an answer: close it. Cost: a send and two recv, 8 us for 4
 * interfaces. */
int netlink_dump(int fd, struct slice name, size_t max, struct strbuf *out);

#endif
