/* SPDX-License-Identifier: Apache-2.0 */
/* The installed calls. One epoll holds the sockets of all links and a timer: it is the descriptor that a
 * program polls. The timer is also how that descriptor says that there is more which no socket shows: the
 * rest of a batch, frames that are read already. It is set to go off at once then, and set anew when
 * everything is given. */
#include "consumer/internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/address.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

static const int64_t ns_per_ms = 1000000;

/* ---------------------------------------------------------------- opening */

static char *copy(const char *text)
{
    size_t n = strlen(text);
    char *to = mem_try_alloc(n + 1);
    if (to)
        memcpy(to, text, n);
    return to;
}

static bool is_socket(const char *address)
{
    struct stat st;
    return stat(address + strlen("unix:"), &st) == 0 && S_ISSOCK(st.st_mode);
}

/* The gateway on this host, if it has a socket, or else the agent. */
static void add_default(struct strbuf *out)
{
    dial_default_gateway(out);
    if (strbuf_failed(out) || is_socket(out->p))
        return;
    strbuf_reset(out);
    dial_default_agent(out);
}

static int add_links(struct gridline_consumer *c, struct slice list)
{
    struct slice address, rest = list;
    size_t most = 1;
    for (size_t i = 0; i < list.n; i++)
        most += list.p[i] == ',';
    if (most > CONSUMER_LINKS_MAX)
        return diag_set(&c->why, -EINVAL, 0, "more than %d gateways", CONSUMER_LINKS_MAX);
    c->links = mem_try_alloc(most * sizeof *c->links);
    if (!c->links)
        return -ENOMEM;
    while (address_next(&rest, &address)) {
        int r = link_init(&c->links[c->n_links], c, c->n_links, address);
        if (r < 0)
            return r;
        c->n_links++;
        r = dial_check(c->links[c->n_links - 1].address, &c->why);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_descriptors(struct gridline_consumer *c)
{
    struct epoll_event e = {.events = EPOLLIN};
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (c->epoll < 0 || c->timer < 0 || epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->timer, &e) < 0)
        return -errno;
    return 0;
}

/* The timer goes off at at_ns; 0 = now. */
static void arm(struct gridline_consumer *c, int64_t at_ns)
{
    const struct itimerspec when = {.it_value = {at_ns / NS_PER_S, at_ns ? at_ns % NS_PER_S : 1}};
    (void)timerfd_settime(c->timer, TFD_TIMER_ABSTIME, &when, NULL); /* fails only for times that are none */
    c->armed_ns = at_ns;
}

static int start(struct gridline_consumer *c, const struct gridline_consumer_options *o)
{
    struct strbuf own = {0};
    c->words = (struct arena){0};
    c->item.words = &c->words;
    c->item.gateway = "";
    c->epoll = c->timer = -1;
    c->prog = copy(o->prog && o->prog[0] ? o->prog : "consumer");
    c->identity = copy(o->identity ? o->identity : "");
    c->registry = registry_create();
    c->builder = c->registry ? batch_builder_create(c->registry, BUILDER_BORROW) : NULL;
    if (!o->gateways || !o->gateways[0])
        add_default(&own);
    int r = !c->prog || !c->identity || !c->builder || strbuf_failed(&own) ? -ENOMEM : 0;
    if (r == 0)
        r = add_links(c, own.n ? strbuf_slice(&own) : slice_str(o->gateways));
    strbuf_fini(&own);
    if (r == 0)
        r = add_descriptors(c);
    if (r == 0)
        arm(c, 0);
    return r;
}

gridline_consumer *gridline_consumer_open(const struct gridline_consumer_options *given, char *why,
                                          size_t why_size)
{
    struct gridline_consumer_options o = {0};
    size_t size = given ? given->size : 0;
    if (size)
        memcpy(&o, given, size < sizeof o ? size : sizeof o);
    struct gridline_consumer *c = mem_try_alloc(sizeof *c);
    int r = c ? start(c, &o) : -ENOMEM;
    if (r == 0)
        return c;
    if (why && why_size)
        (void)snprintf(why, why_size, "%s", c && c->why.message[0] ? c->why.message : err_text(r));
    gridline_consumer_close(c);
    errno = -r;
    return NULL;
}

void gridline_consumer_close(gridline_consumer *c)
{
    if (!c)
        return;
    if (c->item.words)
        item_clear(&c->item);
    for (size_t i = 0; i < c->n_links; i++)
        link_fini(&c->links[i]);
    for (size_t i = 0; i < CONSUMER_SUBSCRIPTIONS_MAX; i++)
        subscription_destroy(c->subscriptions[i]);
    mem_free(c->links);
    arena_fini(&c->words);
    batch_builder_destroy(c->builder);
    registry_destroy(c->registry);
    if (c->epoll >= 0)
        (void)close(c->epoll); /* nothing is written to it */
    if (c->timer >= 0)
        (void)close(c->timer);
    mem_free(c->prog);
    mem_free(c->identity);
    mem_free(c);
}

const char *gridline_consumer_why(const gridline_consumer *c)
{
    return c->why.message;
}

const char *gridline_consumer_gateway(const gridline_consumer *c, size_t i)
{
    return i < c->n_links ? c->links[i].address : NULL;
}

/* Keeps it in words; returns it. */
static int refuse(struct gridline_consumer *c, int r)
{
    return diag_set(&c->why, r, 0, "%s", err_text(r));
}

/* ---------------------------------------------------------------- subscriptions */

struct subscription *consumer_find(const struct gridline_consumer *c, int64_t id)
{
    for (size_t i = 0; i < CONSUMER_SUBSCRIPTIONS_MAX; i++)
        if (c->subscriptions[i] && c->subscriptions[i]->id == id)
            return c->subscriptions[i];
    return NULL;
}

/* Which gateway is meant: SIZE_MAX = all. */
static int find_gateway(struct gridline_consumer *c, const char *address, size_t *out)
{
    *out = SIZE_MAX;
    if (!address || !address[0])
        return 0;
    for (size_t i = 0; i < c->n_links; i++)
        if (strcmp(c->links[i].address, address) == 0)
            *out = i;
    return *out == SIZE_MAX
               ? diag_set(&c->why, -EINVAL, 0, "'%.120s' is none of this consumer's gateways", address)
               : 0;
}

int gridline_consumer_subscribe(gridline_consumer *c, const struct gridline_subscription *given)
{
    struct gridline_subscription s = {0};
    size_t at = 0, only;
    memcpy(&s, given, given->size < sizeof s ? given->size : sizeof s);
    while (at < CONSUMER_SUBSCRIPTIONS_MAX && c->subscriptions[at])
        at++;
    if (at == CONSUMER_SUBSCRIPTIONS_MAX)
        return diag_set(&c->why, -ENOSPC, 0, "more than %d subscriptions", CONSUMER_SUBSCRIPTIONS_MAX);
    int r = find_gateway(c, s.gateway, &only);
    if (r < 0)
        return r;
    c->why.message[0] = '\0';
    /* A new number each time: frames of one that was ended may still be on their way. */
    uint32_t id = c->last_id < INT32_MAX ? c->last_id + 1 : 1;
    r = consumer_find(c, id) ? -ENOSPC
                             : subscription_create(&s, id, c->n_links, only, &c->subscriptions[at], &c->why);
    if (r < 0)
        return c->why.message[0] ? r : refuse(c, r);
    c->last_id = id;
    arm(c, 0);
    return (int)id;
}

static struct subscription *find(struct gridline_consumer *c, int id)
{
    struct subscription *s = consumer_find(c, id);
    if (!s)
        (void)diag_set(&c->why, -ENOENT, 0, "there is no subscription %d", id);
    return s;
}

int gridline_consumer_unsubscribe(gridline_consumer *c, int id)
{
    struct subscription *s = find(c, id);
    if (!s)
        return -ENOENT;
    if (c->item.feed && c->item.feed->subscription == s)
        item_clear(&c->item);
    for (size_t i = 0; i < c->n_links; i++) {
        struct link *l = &c->links[i];
        struct feed *f = &s->feeds[i];
        if (l->state == LINK_READY && (f->state == FEED_ASKED || f->state == FEED_RUNNING))
            frame_put_unsubscribe(&l->out, s->id);
        if (l->tell == f)
            l->tell = NULL;
    }
    for (size_t i = 0; i < CONSUMER_SUBSCRIPTIONS_MAX; i++)
        if (c->subscriptions[i] == s)
            c->subscriptions[i] = NULL;
    subscription_destroy(s);
    arm(c, 0);
    return 0;
}

int gridline_consumer_position(gridline_consumer *c, int id, size_t gateway,
                               char position[GRIDLINE_POSITION_MAX])
{
    struct feed_place place;
    struct subscription *s = find(c, id);
    if (!s || gateway >= c->n_links)
        return -ENOENT;
    if (!feed_place(&s->feeds[gateway], &c->item, &place))
        return diag_set(&c->why, -ENODATA, 0, "%.120s keeps no positions, or has not answered yet",
                        c->links[gateway].address);
    position[feed_print(position, &place)] = '\0';
    return 0;
}

int gridline_consumer_consumed(gridline_consumer *c, int id)
{
    struct subscription *s = find(c, id);
    if (!s)
        return -ENOENT;
    if (!s->is_durable)
        return diag_set(&c->why, -EINVAL, 0, "subscription %d is not durable", id);
    for (size_t i = 0; i < c->n_links; i++) {
        struct feed *f = &s->feeds[i];
        feed_consumed(f, &c->item);
        if (c->links[i].state == LINK_READY)
            feed_ask(f, &c->links[i].out);
    }
    arm(c, 0);
    return 0;
}

/* ---------------------------------------------------------------- the stream */

int gridline_consumer_fd(const gridline_consumer *c)
{
    return c->epoll;
}

static int step_links(struct gridline_consumer *c, int64_t now_ns)
{
    for (size_t n = 0; n < c->n_links; n++) {
        struct link *l = &c->links[c->turn];
        c->turn = (c->turn + 1) % c->n_links;
        int r = link_step(l, now_ns, &c->item);
        if (r != 0)
            return r < 0 ? refuse(c, r) : r;
    }
    return 0;
}

/* Brings what the epoll has of a link up to date. */
static int poll_link(struct gridline_consumer *c, struct link *l)
{
    short wants = 0;
    int fd = link_wants(l, &wants);
    struct epoll_event e = {.events = (wants & POLLIN ? EPOLLIN : 0) | (wants & POLLOUT ? EPOLLOUT : 0)};
    if (fd < 0 || (fd == l->polled_fd && e.events == l->polled_events))
        return 0;
    /* A number that is the same may be another socket: closing took the old one out. */
    int r = epoll_ctl(c->epoll, fd == l->polled_fd ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e);
    if (r < 0 && errno == ENOENT)
        r = epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &e);
    if (r < 0)
        return -errno;
    l->polled_fd = fd;
    l->polled_events = e.events;
    return 0;
}

/* Everything is given: the descriptor is to be quiet until there is something to do. */
static int settle(struct gridline_consumer *c, int64_t now_ns)
{
    int64_t at_ns = INT64_MAX;
    for (size_t i = 0; i < c->n_links; i++) {
        int r = poll_link(c, &c->links[i]);
        if (r < 0)
            return refuse(c, r);
        int64_t deadline_ns = link_deadline_ns(&c->links[i]);
        at_ns = deadline_ns < at_ns ? deadline_ns : at_ns;
    }
    if (at_ns < c->armed_ns || c->armed_ns <= now_ns)
        arm(c, at_ns);
    return 0;
}

/* 1: there is something to do; 0: time is up. */
static int wait_until(struct gridline_consumer *c, int64_t until_ns)
{
    struct epoll_event e;
    int64_t left_ms = until_ns == INT64_MAX ? -1 : (until_ns - clock_mono_ns() + ns_per_ms - 1) / ns_per_ms;
    if (until_ns != INT64_MAX && left_ms <= 0)
        return 0;
    int n = epoll_wait(c->epoll, &e, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
    return n < 0 ? refuse(c, -errno) : n;
}

int consumer_next_batch(struct gridline_consumer *c, int timeout_ms, const struct gridline_item **item)
{
    int64_t now_ns = clock_mono_ns();
    const int64_t until_ns = timeout_ms < 0 ? INT64_MAX : now_ns + timeout_ms * ns_per_ms;
    item_clear(&c->item);
    arena_reset(&c->words);
    for (;;) {
        int r = step_links(c, now_ns);
        if (r == 1) {
            if (c->armed_ns > now_ns)
                arm(c, 0);
            *item = &c->item;
        }
        if (r != 0)
            return r;
        r = settle(c, now_ns);
        if (r == 0)
            r = wait_until(c, until_ns);
        if (r <= 0)
            return r;
        now_ns = clock_mono_ns();
    }
}

void consumer_given(struct gridline_consumer *c, size_t n)
{
    c->item.at += n;
}

int consumer_keep_batches(struct gridline_consumer *c)
{
    struct batch_builder *b = batch_builder_create(c->registry, 0);
    if (!b)
        return -ENOMEM;
    batch_builder_destroy(c->builder);
    c->builder = b;
    return 0;
}

int gridline_consumer_next(gridline_consumer *c, int timeout_ms, const gridline_item **item)
{
    struct gridline_item *i = &c->item;
    if (i->batch && i->at < i->batch->n) {
        arena_reset(&c->words);
    } else {
        const struct gridline_item *found;
        int r = consumer_next_batch(c, timeout_ms, &found);
        if (r <= 0)
            return r;
    }
    if (i->batch)
        i->event = &i->batch->events[i->at++];
    *item = i;
    return 1;
}
