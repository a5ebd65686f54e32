/* SPDX-License-Identifier: Apache-2.0 */
/* A message is a struct nlmsghdr, a struct tcmsg and attributes (struct rtattr, aligned to 4): in the attribute
 * TCA_STATS2 there are attributes again, of which TCA_STATS_QUEUE is a struct gnet_stats_queue. All in host order. */
#include "sensor/qdisc.h"

#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

enum { HEAD = NLMSG_LENGTH(sizeof(struct tcmsg)) };

/* The content of the first attribute of that type; empty when there is none. */
static struct slice attribute(struct slice in, uint16_t type)
{
    struct rtattr a;
    while (in.n >= sizeof a) {
        memcpy(&a, in.p, sizeof a);
        if (a.rta_len < sizeof a || a.rta_len > in.n)
            break;
        if ((a.rta_type & NLA_TYPE_MASK) == type)
            return slice_of(in.p + sizeof a, a.rta_len - sizeof a);
        in = slice_from(in, RTA_ALIGN(a.rta_len));
    }
    return slice_of(in.p, 0);
}

static bool stats_of(struct slice attributes, struct qdisc *out)
{
    struct gnet_stats_queue q;
    struct slice queue = attribute(attribute(attributes, TCA_STATS2), TCA_STATS_QUEUE);
    if (queue.n < sizeof q)
        return false;
    memcpy(&q, queue.p, sizeof q);
    *out = (struct qdisc){q.qlen, q.backlog, q.drops, q.requeues, q.overlimits};
    return true;
}

/* The message at *at, which moves behind it; an empty slice at the end or where it makes no sense. */
static struct slice next_message(struct slice dump, size_t *at)
{
    struct nlmsghdr head;
    struct slice rest = slice_from(dump, *at);
    if (rest.n < sizeof head)
        return slice_of(rest.p, 0);
    memcpy(&head, rest.p, sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > rest.n)
        return slice_of(rest.p, 0);
    *at += NLMSG_ALIGN(head.nlmsg_len);
    return slice_of(rest.p, head.nlmsg_len);
}

static bool is_root_of(struct slice message, uint32_t index)
{
    struct tcmsg body;
    if (message.n < HEAD)
        return false;
    memcpy(&body, message.p + NLMSG_HDRLEN, sizeof body);
    return (uint32_t)body.tcm_ifindex == index && body.tcm_parent == TC_H_ROOT;
}

static bool find_between(struct slice dump, size_t *at, size_t end, uint32_t index, struct qdisc *out)
{
    while (*at < end) {
        struct slice message = next_message(dump, at);
        if (message.n == 0)
            return false;
        if (is_root_of(message, index))
            return stats_of(slice_from(message, HEAD), out);
    }
    return false;
}

bool qdisc_find(struct slice dump, size_t *at, uint32_t index, struct qdisc *out)
{
    size_t started = *at, from = *at;
    if (find_between(dump, &from, dump.n, index, out)) {
        *at = from;
        return true;
    }
    from = 0;
    if (!find_between(dump, &from, started, index, out))
        return false;
    *at = from;
    return true;
}
