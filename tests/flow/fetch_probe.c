/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's side of config_url, alone: prints a line for each document and failure that it gives.
 *
 *     fetch_probe URL CA-FILE EVERY-MS        CA-FILE "" = none; runs until standard input ends; a line there
 * asks now
 *
 *     document signed=1 12 bytes: the text, its first line
 *     failed CODE: why */
#include "agent/remote_config.h"
#include "base/clock.h"
#include "base/child.h"
#include "base/strays.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct probe {
    struct event_base *base;
    struct event *timer, *input;
    struct remote_config *remote;
};

static void on_document(void *arg, const struct remote_document *d)
{
    (void)arg;
    const char *lf = d->text.n ? memchr(d->text.p, '\n', d->text.n) : NULL;
    if (d->error)
        (void)printf("failed %d: %s: %s\n", d->error, d->url, d->why);
    else
        (void)printf("document signed=%d %zu bytes: %.*s\n", d->is_signed, d->text.n,
                     (int)(lf ? (size_t)(lf - d->text.p) : d->text.n), d->text.p);
    (void)fflush(stdout);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct probe *p = arg;
    const struct timeval soon = {0, 5000};
    (void)fd, (void)what;
    remote_config_pump(p->remote, clock_mono_ns());
    (void)child_settle(0);
    (void)evtimer_add(p->timer, &soon);
}

static void on_input(evutil_socket_t fd, short what, void *arg)
{
    struct probe *p = arg;
    char line[64];
    (void)what;
    if (read(fd, line, sizeof line) > 0)
        remote_config_ask(p->remote);
    else
        (void)event_base_loopbreak(p->base);
}

int main(int argc, char **argv)
{
    struct probe p = {0};
    struct diag why = {0};
    if (argc != 4)
        return 2;
    struct agent_config config = {.config_url = argv[1],
                                  .config_ca = argv[2][0] ? argv[2] : NULL,
                                  .config_every_ns = strtol(argv[3], NULL, 10) * 1000000};
    (void)strays_adopt(); /* as the agent */
    p.base = event_base_new();
    if (remote_config_create(p.base, &config, on_document, &p, &p.remote, &why) < 0) {
        (void)printf("failed: %s\n", why.message);
        event_base_free(p.base);
        return 1;
    }
    p.timer = evtimer_new(p.base, on_timer, &p);
    p.input = event_new(p.base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, &p);
    (void)event_add(p.input, NULL);
    on_timer(-1, 0, &p);
    int r = event_base_dispatch(p.base);
    remote_config_destroy(p.remote);
    size_t left = child_settle(CHILD_GRACE);
    event_free(p.input);
    event_free(p.timer);
    event_base_free(p.base);
    return r < 0 || left > 0;
}
