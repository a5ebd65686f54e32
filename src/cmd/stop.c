/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/stop.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/* The one global besides the log sink: a signal handler has nowhere else to put what it saw. */
static volatile sig_atomic_t stop_signal;

/* The signal may come between a look at stop_asked and a read that then waits: the alarm ends that one, too.
 */
static void note_signal(int signo)
{
    if (signo != SIGALRM)
        stop_signal = signo;
    (void)alarm(1); /* again and again, until it has been noticed; returns what was left of the last one */
}

void stop_catch(void)
{
    struct sigaction act = {.sa_handler = note_signal}; /* no SA_RESTART: a read that waits must end */
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    (void)sigaction(SIGALRM, &act, NULL); /* can't fail with these arguments, as those below */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            continue; /* nohup */
        (void)sigaction(signals[i], &act, NULL);
    }
}

bool stop_asked(void)
{
    return stop_signal != 0;
}

void stop_forget_interrupt(void)
{
    if (stop_signal != SIGINT)
        return;
    stop_signal = 0;
    (void)alarm(0); /* it was noticed */
}

void stop_die(void)
{
    if (!stop_signal)
        return;
    struct sigaction act = {.sa_handler = SIG_DFL};
    (void)sigaction(stop_signal, &act, NULL); /* as above */
    (void)raise(stop_signal);
}
