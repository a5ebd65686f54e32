/* SPDX-License-Identifier: Apache-2.0 */
/* A desktop grid's workers: each is there for a session, gone for a gap, there again.
 *
 * Lengths are drawn from Weibull distributions of shape 1/2, many short ones and a few very long, which is
 * how Nurmi, Brevik and Wolski found machines of students' laboratories and Condor pools to behave (Modeling
 * machine availability in enterprise and wide-area distributed computing environments, Euro-Par 2005); with
 * that shape a mean is twice the scale, and a draw is mean / 2 * log(u)^2 for u in (0, 1]. With --day they
 * follow the hours, as enterprise desktops do (Kondo and others, Characterizing resource availability in
 * enterprise desktop grids, 2007): what is drawn at the time t of the load is 1 + cos(2 pi t / day) / 2 times
 * as long for a session and 1 - cos(2 pi t / day) / 2 times for a gap, so that the load begins at midnight,
 * when owners are away and machines stay longest. Hours are seconds here: what counts for a gateway is how
 * many come and go in a second. All of it follows from --seed and the order of what happens.
 *
 * At the beginning a worker is there with the probability session / (session + gap). A session ends by a
 * goodbye (it deregisters) or, for --vanish of them, without a word: the process is killed, and the kernel
 * closes its connection; or the machine is switched off, and the connection stands there, silent. On a
 * relay's connection it is always the latter. When the load is over nobody comes or goes any more. */
#include "emulator.h"

#include <errno.h>
#include <math.h>

enum { SOON_MS = 20 }; /* an end that has to wait for an answer is tried again so soon */

static double uniform(struct emulator *e) /* in (0, 1] */
{
    return (double)((emulator_random(e) >> 11) + 1) / (double)(UINT64_C(1) << 53);
}

static int64_t draw_ns(struct emulator *e, int64_t mean_ns, double by_hour)
{
    double turn = 6.283185307179586, root = log(uniform(e)), factor = 1;
    if (e->o.day_ns && e->load_ns)
        factor += by_hour * cos(turn * (double)(e->now_ns - e->load_ns) / (double)e->o.day_ns);
    return (int64_t)((double)mean_ns / 2 * root * root * factor);
}

bool sessions_wanted(const struct emulator *e)
{
    return e->o.session_ns > 0;
}

static void on_session(void *arg, struct timer *t);

static void plan(struct emulator *e, struct worker *w, int64_t ns)
{
    timer_set(&e->timers, &w->session, e->now_ns + ns, on_session);
}

static void plan_end(struct emulator *e, struct worker *w)
{
    plan(e, w, draw_ns(e, e->o.session_ns, 0.5));
}

void session_gone(struct emulator *e, struct worker *w, enum standing how)
{
    if (w->standing == STANDING_LIVE)
        e->n_absent++;
    w->standing = (uint8_t)how;
    if (e->phase <= PHASE_LOAD)
        plan(e, w, draw_ns(e, e->o.gap_ns, -0.5));
}

static void come(struct emulator *e, struct worker *w)
{
    struct conn *c = conn_of(e, w);
    e->n_absent--;
    w->standing = STANDING_LIVE;
    e->tally.came++;
    if (conn_is_relay(e)) {
        if (c->state == CONN_OPEN)
            worker_register(e, w);
    } else {
        conn_cut(e, c, 0); /* it may stand there from before the machine was switched off */
    }
    plan_end(e, w);
}

static void vanish(struct emulator *e, struct worker *w)
{
    struct conn *c = conn_of(e, w);
    bool is_dark = conn_is_relay(e) || emulator_random(e) % 2;
    datagrams_forget(w);
    worker_end_epoch(e, w, "killed");
    session_gone(e, w, STANDING_VANISHED);
    e->tally.vanished++;
    if (is_dark)
        worker_lost(e, w);
    else
        conn_hang_up(e, c);
    worker_begin_epoch(w);
}

/* True when the end has begun. */
static bool go(struct emulator *e, struct worker *w)
{
    if (w->state != WORKER_READY)
        return false;
    if (w->is_vanishing) {
        if (w->is_renewing && conn_is_relay(e))
            return false; /* the answer would be there for its next life, on the same connection */
        vanish(e, w);
        return true;
    }
    if (w->is_renewing || w->acknowledged < w->written)
        return false; /* an agent that stops waits for both */
    datagrams_release(e, w);
    worker_renew(e, w, RENEW_LEAVING);
    e->tally.left++;
    return true;
}

static void on_session(void *arg, struct timer *t)
{
    struct emulator *e = arg;
    struct worker *w = (struct worker *)((char *)t - offsetof(struct worker, session));
    if (e->phase > PHASE_LOAD)
        return;
    if (w->standing != STANDING_LIVE) {
        come(e, w);
        return;
    }
    if (!w->is_ending) {
        w->is_ending = true;
        w->is_vanishing = emulator_strikes(e, &e->vanish);
    }
    if (go(e, w))
        w->is_ending = false;
    else
        plan(e, w, (int64_t)SOON_MS * 1000000);
}

void sessions_begin(struct emulator *e)
{
    double share = (double)e->o.session_ns / (double)(e->o.session_ns + e->o.gap_ns);
    for (uint32_t i = 0; i < e->o.workers; i++) {
        struct worker *w = &e->workers[i];
        if (uniform(e) <= share)
            continue;
        w->standing = STANDING_NEVER;
        e->n_absent++;
    }
}

void sessions_start(struct emulator *e)
{
    for (uint32_t i = 0; i < e->o.workers; i++) {
        struct worker *w = &e->workers[i];
        if (w->standing == STANDING_LIVE)
            plan_end(e, w);
        else
            plan(e, w, draw_ns(e, e->o.gap_ns, -0.5));
    }
}

void sessions_stop(struct emulator *e)
{
    for (uint32_t i = 0; i < e->o.workers; i++)
        timer_stop(&e->workers[i].session);
}

void sessions_cut(struct emulator *e, uint64_t n)
{
    for (uint32_t i = 0; i < e->n_conns && n > 0; i++) {
        struct conn *c = &e->conns[i];
        if (c->state != CONN_OPEN || (!conn_is_relay(e) && e->workers[c->first].standing != STANDING_LIVE))
            continue;
        for (uint32_t k = 0; k < c->n_workers; k++) {
            struct worker *w = &e->workers[c->first + k];
            if (w->standing == STANDING_LIVE)
                session_gone(e, w, STANDING_CUT);
        }
        conn_hang_up(e, c);
        e->tally.cut++;
        n--;
    }
}

int sessions_print(const struct emulator *e, const char *path)
{
    static const char *const names[] = {[STANDING_LIVE] = "live",
                                        [STANDING_NEVER] = "never",
                                        [STANDING_LEFT] = "left",
                                        [STANDING_VANISHED] = "vanished",
                                        [STANDING_CUT] = "cut"};
    FILE *f = fopen(path, "we");
    if (!f)
        return -errno;
    for (uint32_t i = 0; i < e->o.workers; i++) {
        char host[64];
        emulator_host(e, i, host);
        (void)fprintf(f, "%s %s\n", host, names[e->workers[i].standing]); /* an error is seen at fclose */
    }
    return fclose(f) == 0 ? 0 : -errno;
}
