/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that go and come back. Chosen at random; on a relay connection it is a worker that leaves, and the
 * whole connection that is cut or whose workers die. */
#include "emulator.h"

enum { TRIES = 64 };

static struct conn *any_open(struct emulator *e)
{
    for (int i = 0; i < TRIES; i++) {
        struct conn *c = &e->conns[emulator_random(e) % e->n_conns];
        if (c->state == CONN_OPEN)
            return c;
    }
    return NULL;
}

static bool leave(struct emulator *e)
{
    if (e->n_ready == 0)
        return false;
    struct worker *w = e->ready[emulator_random(e) % e->n_ready];
    if (w->is_renewing || w->acknowledged < w->written)
        return false; /* an agent that stops waits for both first */
    datagrams_release(e, w);
    worker_renew(e, w, RENEW_LEAVING);
    e->tally.left++;
    return true;
}

static bool cut(struct emulator *e, bool is_death)
{
    struct conn *c = any_open(e);
    if (!c)
        return false;
    conn_cut(e, c, e->o.away_ns);
    e->tally.cut += !is_death;
    for (uint32_t i = 0; is_death && i < c->n_workers; i++) {
        struct worker *w = &e->workers[c->first + i];
        worker_end_epoch(e, w, "killed");
        worker_begin_epoch(w);
        e->tally.killed++;
    }
    return true;
}

uint64_t churn(struct emulator *e, enum churn what, uint64_t n)
{
    uint64_t done = 0;
    while (done < n && (what == CHURN_LEAVE ? leave(e) : cut(e, what == CHURN_KILL)))
        done++;
    return done;
}
