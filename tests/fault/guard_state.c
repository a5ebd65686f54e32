/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the disk below the guard's state, on the simulated disk of journal_disk.h: every call of a
 * workload fails in turn, and power is lost before every call. What must hold each time: what is found is
 * exactly what was committed last, or exactly what a commit that was under way (or has failed since) would
 * have made of it. Never a mix of the two. */
#include "fault/journal_disk.h"

#include "base/err.h"
#include "base/mem.h"
#include "guard/state.h"

enum { IDS = 10, KINDS = 4, CANDIDATES = 8, RECORD_LEN_MAX = 1 << 14 };

/* The version of each record; 0 = there is none. */
struct model {
    uint32_t version[KINDS][IDS];
};

struct ledger {
    struct disk *disk;
    struct state *state;                 /* NULL between close and open */
    struct model now;                    /* with what is put and not committed */
    struct model candidates[CANDIDATES]; /* [0] is what was committed, the others were tried since */
    size_t n_candidates;
    uint32_t versions;
    size_t record_max, part_max;
    uint64_t seed, states, unlike;
    unsigned outcomes;
    unsigned changes; /* of 100 steps */
};

/* The same bytes for the same record and version. */
static struct slice content(const struct ledger *l, unsigned kind, uint64_t id, uint32_t version)
{
    static char bytes[RECORD_LEN_MAX];
    uint64_t seed = kind * 1000003 + id * 7919 + version * 104729u;
    size_t n = test_random(&seed) % l->record_max;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = test_random(&seed);
        memcpy(bytes + i, &word, n - i < 8 ? n - i : 8);
    }
    memcpy(bytes, &version, n < 4 ? n : 4);
    return slice_of(bytes, n);
}

struct found {
    const struct ledger *ledger;
    struct model model;
    unsigned last_kind;
};

/* Finds which version it is: one of the candidates'. */
static void take(void *arg, enum state_kind kind, uint64_t id, struct slice record)
{
    struct found *f = arg;
    assert_true(kind >= f->last_kind);
    f->last_kind = kind;
    assert_true(id < IDS);
    for (size_t i = 0; i < f->ledger->n_candidates; i++) {
        uint32_t v = f->ledger->candidates[i].version[kind - 1][id];
        if (v && slice_eq(content(f->ledger, kind, id, v), record)) {
            f->model.version[kind - 1][id] = v;
            return;
        }
    }
    fail_msg("a record that nobody wrote: kind %u, id %llu", kind, (unsigned long long)id);
}

/* Opens what is on d: it is one of the candidates. Returns which. */
static size_t check_open(const struct ledger *l, struct disk *d, struct state **out)
{
    struct found f = {.ledger = l};
    uint64_t damaged;
    assert_int_equal(state_open("x", &d->io, take, &f, &damaged, out), 0);
    state_sizes(*out, 8192, l->part_max);
    for (size_t i = l->n_candidates; i-- > 0;)
        if (memcmp(&f.model, &l->candidates[i], sizeof f.model) == 0)
            return i;
    fail_msg("a mix of what was committed and what was not");
    return 0;
}

/* Opens it, checks it, and checks that it goes on from there. */
static void check_disk(struct ledger *l, struct disk *d)
{
    struct state *s;
    struct ledger after = *l;
    size_t i = check_open(l, d, &s);
    l->unlike += i > 0;
    after.candidates[0] = l->candidates[i];
    after.n_candidates = 1;
    after.candidates[0].version[0][0] = l->versions + 1;
    assert_int_equal(state_put(s, 1, 0, content(l, 1, 0, l->versions + 1)), 0);
    assert_int_equal(state_commit(s), 0);
    state_close(s);
    assert_int_equal(d->n_open, 0);
    assert_int_equal(check_open(&after, d, &s), 0);
    state_close(s);
}

static int do_change(struct ledger *l)
{
    unsigned kind = 1 + test_random(&l->seed) % KINDS;
    uint64_t id = test_random(&l->seed) % IDS;
    uint32_t *v = &l->now.version[kind - 1][id];
    if (*v && test_random(&l->seed) % 3 == 0) {
        *v = 0;
        return state_drop(l->state, kind, id);
    }
    *v = ++l->versions;
    return state_put(l->state, kind, id, content(l, kind, id, *v));
}

static int do_commit(struct ledger *l)
{
    assert_true(l->n_candidates < CANDIDATES);
    l->candidates[l->n_candidates++] = l->now;
    int r = state_commit(l->state);
    if (r == 0) {
        assert_false(state_is_dirty(l->state));
        l->candidates[0] = l->now;
        l->n_candidates = 1;
    }
    return r;
}

static int do_open(struct ledger *l)
{
    struct found f = {.ledger = l};
    int r = state_open("x", &l->disk->io, take, &f, NULL, &l->state);
    if (r < 0)
        return r;
    state_sizes(l->state, 8192, l->part_max);
    l->now = l->candidates[0] = f.model;
    l->n_candidates = 1;
    return 0;
}

static int do_step(struct ledger *l)
{
    if (!l->state)
        return do_open(l);
    uint64_t dice = test_random(&l->seed) % 100;
    if (dice < l->changes)
        return do_change(l);
    if (dice < 97)
        return do_commit(l);
    state_close(l->state);
    l->state = NULL;
    return 0;
}

static int run(struct ledger *l, unsigned steps)
{
    int failures = 0;
    l->n_candidates = 1;
    for (unsigned i = 0; i < steps; i++)
        failures += do_step(l) < 0;
    return failures;
}

static void end(struct ledger *l)
{
    state_close(l->state);
    assert_int_equal(l->disk->n_open, 0);
    disk_destroy(l->disk);
}

/* The workload with its n-th call failing. Returns false when it makes fewer than n calls. */
static bool run_with_fault(int code, uint64_t n, uint64_t seed)
{
    struct ledger l = {
        .disk = disk_create(), .seed = seed, .record_max = 3000, .changes = 60, .part_max = 4096};
    l.disk->fail_at = n;
    l.disk->fault = DISK_ERROR;
    l.disk->fail_code = code;
    int failures = run(&l, 60);
    bool was_reached = l.disk->calls >= n;
    l.disk->fault = DISK_NONE;
    assert_true(failures <= 1);
    struct disk *after = disk_crash(l.disk, &l.seed);
    check_disk(&l, after);
    disk_destroy(after);
    if (!l.state)
        assert_int_equal(do_open(&l), 0);
    assert_int_equal(do_commit(&l), 0); /* what failed goes through now */
    state_close(l.state);
    l.state = NULL;
    check_disk(&l, l.disk);
    end(&l);
    return was_reached;
}

static void test_every_call_fails(void **state)
{
    (void)state;
    const int codes[] = {-EIO, -ENOSPC};
    uint64_t runs = 0;
    for (uint64_t seed = 1; seed <= 3 * test_scale(); seed++)
        for (size_t c = 0; c < 2; c++)
            for (uint64_t n = 1; run_with_fault(codes[c], n, seed); n++)
                runs++;
    print_message("%llu runs with one failing call each\n", (unsigned long long)runs);
    assert_true(runs > 500);
}

static struct ledger *crashing; /* the one whose disk calls crash_here */

static void crash_here(struct disk *d)
{
    for (unsigned i = 0; i < crashing->outcomes; i++) {
        struct disk *after = disk_crash(d, &crashing->seed);
        check_disk(crashing, after);
        disk_destroy(after);
        crashing->states++;
    }
}

static void lose_power(unsigned seeds, unsigned steps, unsigned outcomes, unsigned changes, size_t part_max)
{
    uint64_t points = 0, states = 0, unlike = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct ledger l = {.disk = disk_create(),
                           .seed = seed * 1000003,
                           .outcomes = outcomes,
                           .changes = changes,
                           .record_max = 3000,
                           .part_max = part_max};
        crashing = &l;
        l.disk->before_call = crash_here;
        assert_int_equal(run(&l, steps), 0);
        l.disk->before_call = NULL;
        points += l.disk->calls;
        states += l.states;
        unlike += l.unlike;
        end(&l);
    }
    print_message("%llu crash points, %llu states, %llu of them with a commit that was under way\n",
                  (unsigned long long)points, (unsigned long long)states, (unsigned long long)unlike);
    assert_true(unlike > 0 && unlike < states / 2);
}

/* Each group is one record of the journal, as nearly always. */
static void test_power_loss(void **state)
{
    (void)state;
    lose_power(3 * test_scale(), 150, 8, 60, 1 << 20);
}

/* Groups have several parts. */
static void test_power_loss_of_parts(void **state)
{
    (void)state;
    lose_power(6 * test_scale(), 150, 12, 85, 1500);
}

/* No allocation that fails loses or mixes anything. */
static void test_memory(void **state)
{
    (void)state;
    uint64_t failures = 0;
    for (uint64_t n = 1; n < 200; n++) {
        struct ledger l = {.disk = disk_create(),
                           .seed = 7,
                           .record_max = 3000,
                           .changes = 60,
                           .part_max = 4096,
                           .n_candidates = 1};
        mem_fail_after(n);
        for (unsigned i = 0; i < 150; i++) {
            struct model before = l.now;
            if (do_step(&l) == 0)
                continue;
            failures++;
            l.now = before; /* a put or drop that failed has no effect */
        }
        mem_fail_after(0);
        if (!l.state)
            assert_int_equal(do_open(&l), 0);
        assert_int_equal(do_commit(&l), 0);
        state_close(l.state);
        l.state = NULL;
        check_disk(&l, l.disk);
        end(&l);
    }
    assert_true(failures > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_fails),
        cmocka_unit_test(test_power_loss),
        cmocka_unit_test(test_power_loss_of_parts),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
