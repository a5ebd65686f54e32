/* SPDX-License-Identifier: Apache-2.0 */
#include "client/quiet.h"

#include <pthread.h>
#include <time.h>

static const int signals[] = {SIGXFSZ, SIGPIPE};
enum { SIGNALS = sizeof signals / sizeof *signals };

void quiet_begin(struct quiet *q)
{
    sigset_t both;
    (void)sigemptyset(&both); /* none of these can fail with these arguments */
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaddset(&both, signals[i]);
    (void)sigpending(&q->pending);
    (void)pthread_sigmask(SIG_BLOCK, &both, &q->mask);
}

void quiet_end(const struct quiet *q)
{
    sigset_t now, ours;
    (void)sigpending(&now);
    for (int i = 0; i < SIGNALS; i++) {
        if (sigismember(&now, signals[i]) != 1 || sigismember(&q->pending, signals[i]) == 1)
            continue;
        (void)sigemptyset(&ours);
        (void)sigaddset(&ours, signals[i]);
        (void)sigtimedwait(&ours, NULL, &(struct timespec){0}); /* gone already is as good */
    }
    (void)pthread_sigmask(SIG_SETMASK, &q->mask, NULL);
}
