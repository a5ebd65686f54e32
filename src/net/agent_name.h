/* SPDX-License-Identifier: Apache-2.0 */
/* agent_name.h - how the agent of this host is found by others of it: an abstract Unix socket whose name is made of
 * its gateways' addresses. It belongs to the process, is seen by all users of its network namespace, and leaves no
 * file behind.
 *
 * Who connects sends one message and gets one byte back:
 *     'r' or 'g'                   a resident agent, or a guest, asks; so does a launcher, as a guest
 *     'j' and a launch_request     a job of this host (net/launch.h), 129 bytes in all
 * The answer is 'r' or 'g', what the agent itself is; to a job's message that it does not take, 'n'. */
#ifndef GRIDLINE_NET_AGENT_NAME_H
#define GRIDLINE_NET_AGENT_NAME_H

#include "base/err.h"
#include "net/launch.h"

#include <sys/socket.h>
#include <sys/un.h>

enum { AGENT_NAME_RESIDENT = 'r', AGENT_NAME_GUEST = 'g', AGENT_NAME_JOB = 'j', AGENT_NAME_REFUSED = 'n' };
enum { AGENT_NAME_MESSAGE = 1 + LAUNCH_REQUEST };

socklen_t agent_name(const char *gateways, struct sockaddr_un *out);

/* Connects to the agent and sends the message; its answer makes *fd readable, which is then the caller's to close.
 * *holder is who has the name. -ECONNREFUSED: nobody has it; -EAGAIN: too many ask it just now, for ms. */
int agent_name_send(const char *gateways, struct slice message, int ms, struct ucred *holder, int *fd);
/* At most ms; 0: no answer. */
char agent_name_answer(int fd, int ms);

/* Both, for those who may wait: asks as a guest. -EPERM: somebody else than this user and root has the name;
 * -ETIMEDOUT. */
int agent_name_ask(const char *gateways, int ms);
/* Tells it of a job; -EACCES: it was not taken. */
int agent_name_tell(const char *gateways, const struct launch_request *r, int ms);

#endif
