/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/timekeeper.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/timex.h>

/* A dead agent's page is trusted no longer than this. Its bound would hold far longer, but nobody corrects
 * it. */
#define PAGE_VALID_NS (120 * NS_PER_S)
#define LOOK_EVERY_NS (30 * NS_PER_S)

enum { ROW_STATE, ROW_OFFSET, ROW_BOUND, ROW_GENERATION, ROW_RTT, ROW_MAXERROR, ROW_STEP, ROW_SLEPT, N_ROW };

static const struct field clock_fields[N_ROW] = {
    [ROW_STATE] = FIELD(
        "state", TEXT, STATE, "",
        "`unknown`: no gateway has told; `synchronised`; `slewing`: a correction is being slewed in; or what "
        "happened: `jumped`, `stepped` (local UTC was set), `resumed` (after a suspend)"),
    [ROW_OFFSET] = FIELD("offset_ns", INT, GAUGE, "ns", "what is added to local UTC"),
    [ROW_BOUND] =
        FIELD("bound_ns", UINT, GAUGE, "ns", "the true offset is within ± this of it; none: not known"),
    [ROW_GENERATION] = FIELD("generation", UINT, STATE, "", "one more each time that offset_ns makes a jump"),
    [ROW_RTT] = FIELD("rtt_ns", UINT, GAUGE, "ns", "round trip of the last exchange with the gateway"),
    [ROW_MAXERROR] = FIELD("kernel_maxerror_ns", UINT, GAUGE, "ns",
                           "the kernel's own bound; none: it is not synchronised"),
    [ROW_STEP] = FIELD("step_ns", INT, GAUGE, "ns", "`stepped`: by how much local UTC was set"),
    [ROW_SLEPT] = FIELD("slept_ns", INT, GAUGE, "ns", "`resumed`: how long the host was suspended"),
};

struct timekeeper {
    struct flow *flow;
    struct timesync *sync;
    struct clockpage *page; /* NULL: none */
    struct schema *schema;
    struct stream stream; /* of the samples */
    char *gateway;        /* NULL: none yet */
    struct clock_moment last;
    uint64_t maxerror_ns;
    uint64_t rtt_ns;  /* TIMESYNC_UNKNOWN: no exchange yet */
    bool is_slewing;  /* a correction that was told; following the drift is not */
    bool is_refusing; /* the last exchange could not be */
    bool has_sample;  /* an exchange is to be told */
    unsigned changes; /* to be told: bits by enum timesync_change */
    const char *told; /* the last of unknown, synchronised, slewing that an event had */
    int64_t step_ns, slept_ns;
};

/* What the kernel says of itself, if a daemon keeps it right. */
static uint64_t kernel_maxerror(void)
{
    struct timex x = {.modes = 0};
    if (adjtimex(&x) < 0 || (x.status & STA_UNSYNC) || x.maxerror < 0)
        return TIMESYNC_UNKNOWN;
    return (uint64_t)x.maxerror * 1000;
}

/* ---------------------------------------------------------------- life */

static void open_page(struct timekeeper *t, const char *path)
{
    uint32_t generation;
    int r = clockpage_create(path, &t->page, &generation);
    if (r < 0)
        log_error("%s: %s; programs of this host have no global time", path, err_text(r));
    else
        timesync_set_generation(t->sync, generation);
}

static void publish(struct timekeeper *t)
{
    struct timesync_line line;
    if (!t->page)
        return;
    timesync_line(t->sync, &t->last, &line);
    clockpage_write(t->page, &line, t->last.boot_ns + PAGE_VALID_NS);
}

struct timekeeper *timekeeper_create(struct flow *flow, const char *page, bool keeps_utc)
{
    struct timekeeper *t = mem_alloc(sizeof *t);
    *t = (struct timekeeper){.flow = flow, .rtt_ns = TIMESYNC_UNKNOWN, .told = "unknown"};
    t->sync = timesync_create(0, keeps_utc);
    if (!t->sync || schema_create(SLICE_LIT("clock"), clock_fields, N_ROW, &t->schema) < 0) {
        timekeeper_destroy(t);
        return NULL;
    }
    t->stream.schema = t->schema;
    t->stream.is_of_lease = true;
    flow_declare(flow, t->schema);
    if (page)
        open_page(t, page);
    clock_read_moment(&t->last);
    t->maxerror_ns = kernel_maxerror();
    (void)timesync_look(t->sync, &t->last, t->maxerror_ns); /* the first one finds nothing */
    publish(t);
    return t;
}

void timekeeper_destroy(struct timekeeper *t)
{
    if (!t)
        return;
    clockpage_destroy(t->page);
    timesync_destroy(t->sync);
    schema_unref(t->schema);
    mem_free(t->gateway);
    mem_free(t);
}

/* ---------------------------------------------------------------- telling */

static const char *lasting_state(const struct timekeeper *t, const struct timesync_state *s)
{
    return s->bound_ns == TIMESYNC_UNKNOWN ? "unknown" : t->is_slewing ? "slewing" : "synchronised";
}

static struct value known(uint64_t ns)
{
    return ns == TIMESYNC_UNKNOWN ? value_none() : value_uint(ns);
}

static void fill_row(const struct timekeeper *t, const char *state, const struct timesync_state *s,
                     struct value row[N_ROW])
{
    for (size_t i = 0; i < N_ROW; i++)
        row[i] = value_none();
    row[ROW_STATE] = value_text(slice_str(state));
    row[ROW_OFFSET] = value_int(s->offset_ns);
    row[ROW_BOUND] = known(s->bound_ns);
    row[ROW_GENERATION] = value_uint(s->generation);
    row[ROW_RTT] = known(t->rtt_ns);
    row[ROW_MAXERROR] = known(t->maxerror_ns);
}

static void tell_event(struct timekeeper *t, const char *state, const struct timesync_state *s,
                       enum timesync_change change)
{
    struct value row[N_ROW];
    fill_row(t, state, s, row);
    if (change == TIMESYNC_STEPPED)
        row[ROW_STEP] = value_int(t->step_ns);
    if (change == TIMESYNC_RESUMED)
        row[ROW_SLEPT] = value_int(t->slept_ns);
    log_info("clock: %s; offset %.6f s, generation %" PRIu32, state, (double)s->offset_ns / (double)NS_PER_S,
             s->generation);
    flow_known(t->flow, t->schema, t->last.utc_ns, LEVEL_NOTICE, row);
    t->told = lasting_state(t, s);
}

/* Changes are events, acknowledged; each exchange is a sample. */
static bool tell(struct timekeeper *t)
{
    static const struct {
        enum timesync_change change;
        const char *name;
    } sudden[] = {{TIMESYNC_RESUMED, "resumed"}, {TIMESYNC_STEPPED, "stepped"}, {TIMESYNC_JUMPED, "jumped"}};
    struct timesync_state s;
    struct value row[N_ROW];
    bool has_told = t->changes || t->has_sample;
    timesync_state(t->sync, &t->last, &s);
    for (size_t i = 0; i < sizeof sudden / sizeof *sudden; i++)
        if (t->changes & 1u << sudden[i].change)
            tell_event(t, sudden[i].name, &s, sudden[i].change);
    if (strcmp(t->told, lasting_state(t, &s)) != 0) {
        tell_event(t, lasting_state(t, &s), &s, TIMESYNC_SAME);
        has_told = true;
    }
    if (t->has_sample) {
        fill_row(t, t->told, &s, row);
        flow_sample(t->flow, &t->stream, t->last.utc_ns, row);
    }
    t->changes = 0;
    t->has_sample = false;
    return has_told;
}

/* ---------------------------------------------------------------- looking */

static void note(struct timekeeper *t, enum timesync_change change)
{
    if (change == TIMESYNC_SLEWING)
        t->is_slewing = true;
    else if (change != TIMESYNC_SAME)
        t->changes |= 1u << change;
    t->is_slewing &= timesync_is_slewing(t->sync, t->last.boot_ns);
}

static void look(struct timekeeper *t)
{
    struct clock_moment before = t->last;
    clock_read_moment(&t->last);
    t->maxerror_ns = kernel_maxerror();
    enum timesync_change change = timesync_look(t->sync, &t->last, t->maxerror_ns);
    if (change == TIMESYNC_STEPPED)
        t->step_ns = (t->last.utc_ns - t->last.boot_ns) - (before.utc_ns - before.boot_ns);
    if (change == TIMESYNC_RESUMED)
        t->slept_ns = (t->last.boot_ns - t->last.mono_ns) - (before.boot_ns - before.mono_ns);
    note(t, change);
}

bool timekeeper_look(struct timekeeper *t)
{
    look(t);
    publish(t);
    return tell(t);
}

int64_t timekeeper_next_ns(const struct timekeeper *t)
{
    return t->last.mono_ns + LOOK_EVERY_NS;
}

void timekeeper_exchange(struct timekeeper *t, const struct timesync_exchange *x)
{
    enum timesync_change change;
    look(t);
    int r = timesync_add(t->sync, x, &t->last, &change, &t->rtt_ns);
    if (r < 0) {
        if (!t->is_refusing)
            log_error("clock: what the gateway answered took too long or can't be: not taken");
        t->is_refusing = true;
        return;
    }
    t->is_refusing = false;
    t->has_sample = true;
    note(t, change);
    publish(t);
}

void timekeeper_set_gateway(struct timekeeper *t, const char *address)
{
    if (t->gateway && strcmp(t->gateway, address) == 0)
        return;
    if (t->gateway)
        timesync_forget(t->sync);
    mem_free(t->gateway);
    t->gateway = mem_alloc(strlen(address) + 1);
    memcpy(t->gateway, address, strlen(address) + 1);
}

/* ---------------------------------------------------------------- asking */

int64_t timekeeper_now_ns(const struct timekeeper *t)
{
    struct clock_moment now;
    clock_read_moment(&now);
    return timesync_global_ns(t->sync, &now);
}

struct batch_clock timekeeper_clock(const struct timekeeper *t)
{
    struct clock_moment now;
    struct timesync_state s;
    clock_read_moment(&now);
    timesync_state(t->sync, &now, &s);
    return (struct batch_clock){
        s.offset_ns, s.bound_ns == TIMESYNC_UNKNOWN ? CLOCK_BOUND_UNKNOWN : s.bound_ns, s.generation};
}
