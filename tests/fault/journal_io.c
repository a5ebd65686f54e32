/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the file system below the journal, on a simulated disk: every call of a workload fails in turn in
 * every way (T4), and the machine loses power before every call (T2). What must hold each time: everything
 * that was acknowledged is there with its exact content, nothing else is (no false acknowledgement, nothing
 * invented), cursors are where they were, and the journal goes on. */
#include "fault/journal_disk.h"

#include "base/err.h"

enum { NUMBERS = 4096 };

/* What the workload knows about its journal. */
struct ledger {
    struct disk *disk;
    struct journal *journal;           /* NULL between close and open */
    bool is_acknowledged[NUMBERS];     /* a commit covered it */
    uint64_t acknowledged;             /* newest of those */
    uint64_t appended;                 /* newest number that was ever given to append */
    uint64_t position, position_tried; /* of the cursor: confirmed; the latest that may be on disk */
    bool is_tried[NUMBERS];            /* a position that a move was asked for */
    bool has_cursor;                   /* its creation was confirmed */
    uint64_t states;                   /* crash outcomes checked */
    uint64_t seed;
    unsigned outcomes; /* per crash point */
};

static const struct journal_options *options_for(struct disk *d)
{
    static struct journal_options o;
    o = (struct journal_options){.segment_bytes = 4096, .max_bytes = 16 << 20, .io = &d->io};
    return &o;
}

static void check_record(const struct journal_item *item)
{
    struct slice want = disk_payload(item->first);
    assert_int_equal(item->payload.n, want.n);
    assert_memory_equal(item->payload.p, want.p, want.n);
    assert_int_equal(item->type, disk_type(item->first));
}

static void acknowledge(struct ledger *l, uint64_t first, uint64_t last)
{
    assert_true(last < NUMBERS);
    for (uint64_t n = first; n <= last; n++)
        l->is_acknowledged[n] = true;
    l->acknowledged = last;
}

/* Gaps are right below the cursor, where segments may be trimmed, and for records of a group that was never
 * acknowledged, when power loss kept a later one of the same group. */
static void check_gap(const struct ledger *l, const struct journal_item *item)
{
    for (uint64_t n = item->first; n <= item->last; n++)
        assert_true(n <= l->position_tried || !l->is_acknowledged[n]);
}

/* Reads everything: no hole in the numbers, nothing acknowledged missing, nothing invented. */
static uint64_t check_content(const struct ledger *l, struct journal *j)
{
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, l->position + 1, &r), 0);
    uint64_t next = l->position + 1;
    int rc;
    while ((rc = journal_reader_next(r, &item)) == 0) {
        assert_int_equal(item.first, next);
        next = item.last + 1;
        if (item.kind == JOURNAL_RECORD)
            check_record(&item);
        else
            check_gap(l, &item);
    }
    assert_int_equal(rc, E_NODATA);
    journal_reader_close(r);
    assert_true(next > l->acknowledged);
    assert_true(next <= l->appended + 1);
    return next - 1;
}

static void check_cursor(const struct ledger *l, struct journal *j)
{
    struct journal_cursor *c;
    struct journal_cursor_info info;
    assert_int_equal(journal_cursor_open(j, "reader", &c), 0);
    journal_cursor_info(c, &info);
    if (!l->has_cursor)
        return;
    assert_false(info.is_reset);
    assert_true(info.position == l->position || (info.position > l->position && l->is_tried[info.position]));
}

/* Opens what is on d, checks it, and checks that it goes on from there. */
static void check_disk(const struct ledger *l, struct disk *d)
{
    struct journal *j;
    assert_int_equal(journal_open("x", options_for(d), &j), 0);
    uint64_t last = check_content(l, j);
    check_cursor(l, j);
    struct ledger after = *l;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(journal_append(j, disk_type(last + 1), disk_payload(last + 1), &last), 0);
        assert_int_equal(journal_commit(j), 0);
        acknowledge(&after, last, last);
    }
    if (after.appended < last)
        after.appended = last;
    assert_int_equal(check_content(&after, j), last);
    journal_close(j);
    assert_int_equal(journal_open("x", options_for(d), &j), 0);
    assert_int_equal(check_content(&after, j), last);
    journal_close(j);
    assert_int_equal(d->n_open, 0);
}

static int reopen(struct ledger *l, bool clean)
{
    if (clean)
        journal_close(l->journal);
    else
        journal_abandon(l->journal);
    l->journal = NULL;
    return journal_open("x", options_for(l->disk), &l->journal);
}

static int do_append(struct ledger *l)
{
    struct journal_stats s;
    journal_stats(l->journal, &s);
    uint64_t number = s.last + s.queued + 1;
    if (l->appended < number)
        l->appended = number; /* whatever append says: it may be found later */
    return journal_append(l->journal, disk_type(number), disk_payload(number), &number);
}

static int do_commit(struct ledger *l)
{
    struct journal_stats before, s;
    journal_stats(l->journal, &before);
    int r = journal_commit(l->journal);
    journal_stats(l->journal, &s);
    assert_int_equal(s.last, before.last + (r == 0 ? before.queued : 0));
    assert_int_equal(s.queued, r == 0 ? 0 : before.queued);
    if (r == 0 && before.queued)
        acknowledge(l, before.last + 1, s.last);
    return r;
}

static int do_move(struct ledger *l)
{
    struct journal_cursor *c;
    int r = journal_cursor_open(l->journal, "reader", &c);
    if (r < 0)
        return r;
    l->has_cursor = true;
    struct journal_cursor_info info; /* after a failed or interrupted move it may be ahead of l->position */
    journal_cursor_info(c, &info);
    struct journal_stats s;
    journal_stats(l->journal, &s);
    if (s.last == info.position)
        return 0;
    uint64_t to = info.position + 1 + test_random(&l->seed) % (s.last - info.position);
    assert_true(to < NUMBERS);
    l->is_tried[to] = true;
    if (to > l->position_tried)
        l->position_tried = to;
    r = journal_cursor_move(c, to);
    if (r == 0)
        l->position = l->position_tried = to;
    return r;
}

static int do_step(struct ledger *l)
{
    if (!l->journal)
        return journal_open("x", options_for(l->disk), &l->journal);
    uint64_t dice = test_random(&l->seed) % 100;
    if (dice < 58)
        return do_append(l);
    if (dice < 80)
        return do_commit(l);
    if (dice < 88)
        return do_move(l);
    if (dice < 92)
        return journal_trim(l->journal);
    if (dice < 95)
        return reopen(l, true);
    if (dice < 98)
        return reopen(l, false);
    (void)journal_drop(l->journal);
    return 0;
}

/* Runs steps operations; at most one of them may fail, with the fault injected. */
static void run(struct ledger *l, unsigned steps, bool may_fail)
{
    int failures = 0;
    for (unsigned i = 0; i < steps; i++)
        if (do_step(l) < 0)
            failures++;
    assert_true(failures <= (may_fail ? 1 : 0));
    if (!l->journal)
        assert_int_equal(journal_open("x", options_for(l->disk), &l->journal), 0);
    assert_int_equal(do_commit(l), 0);
}

struct fault {
    enum disk_fault kind;
    int code;
};

/* The workload with its n-th call failing. Returns false when it makes fewer than n calls. */
static bool run_with_fault(const struct fault *f, uint64_t n, uint64_t seed)
{
    struct ledger l = {.disk = disk_create(), .seed = seed};
    l.disk->fail_at = n;
    l.disk->fault = f->kind;
    l.disk->fail_code = f->code;
    run(&l, 60, true);
    bool was_reached = l.disk->calls >= n;
    l.disk->fault = DISK_NONE;
    (void)check_content(&l, l.journal);
    /* The machine loses power now: what the failed call left must not have been trusted. */
    struct disk *after = disk_crash(l.disk, &l.seed);
    check_disk(&l, after);
    disk_destroy(after);
    /* The process dies; then the journal is opened on what the page cache has. */
    journal_abandon(l.journal);
    check_disk(&l, l.disk);
    disk_destroy(l.disk);
    return was_reached;
}

static void test_every_call_fails(void **state)
{
    (void)state;
    const struct fault faults[] = {{DISK_ERROR, -EIO},    {DISK_ERROR, -ENOSPC}, {DISK_ERROR, -EINTR},
                                   {DISK_ERROR, -EDQUOT}, {DISK_ERROR, -EMFILE}, {DISK_SHORT, 0}};
    uint64_t runs = 0;
    for (uint64_t seed = 1; seed <= 2 * test_scale(); seed++)
        for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
            for (uint64_t n = 1; run_with_fault(&faults[f], n, seed); n++)
                runs++;
    print_message("%llu runs with one failing call each\n", (unsigned long long)runs);
    assert_true(runs > 500);
}

/* From the n-th call on the disk is full (or gone) for good: commit says so, nothing committed is lost, what
 * is queued stays, and it goes through once there is room. */
static void test_every_call_fails_from_there(void **state)
{
    (void)state;
    const int codes[] = {-ENOSPC, -EIO};
    for (size_t c = 0; c < 2; c++) {
        for (uint64_t n = 1;; n++) {
            struct ledger l = {.disk = disk_create(), .seed = n};
            int r = journal_open("x", options_for(l.disk), &l.journal);
            assert_int_equal(r, 0);
            uint64_t opened = l.disk->calls;
            l.disk->fail_at = opened + n;
            l.disk->fails_on = true;
            l.disk->fault = DISK_ERROR;
            l.disk->fail_code = codes[c];
            int failed = 0;
            for (int i = 0; i < 12 && failed == 0; i++) {
                assert_int_equal(do_append(&l), 0);
                assert_int_equal(do_append(&l), 0);
                failed = do_commit(&l);
            }
            if (failed == 0) {
                journal_close(l.journal);
                disk_destroy(l.disk);
                break;
            }
            assert_int_equal(failed, codes[c]);
            assert_int_equal(journal_commit(l.journal), codes[c]);
            struct journal_stats s;
            journal_stats(l.journal, &s);
            assert_int_equal(s.last, l.acknowledged);
            assert_int_equal(s.queued, 2);
            l.disk->fault = DISK_NONE;
            (void)check_content(&l, l.journal);
            if (n % 2) { /* the caller waits for room, or gives up */
                assert_int_equal(do_commit(&l), 0);
                assert_int_equal(l.acknowledged, s.last + 2);
            } else {
                assert_int_equal(journal_drop(l.journal), 2);
                assert_int_equal(journal_commit(l.journal), 0);
            }
            struct disk *after = disk_crash(l.disk, &l.seed);
            check_disk(&l, after);
            disk_destroy(after);
            journal_abandon(l.journal);
            check_disk(&l, l.disk);
            disk_destroy(l.disk);
        }
    }
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

/* Power loss before every call of a 200-operation workload, several outcomes each. */
static void test_power_loss(void **state)
{
    (void)state;
    uint64_t points = 0, states = 0;
    for (uint64_t seed = 1; seed <= test_scale(); seed++) {
        struct ledger l = {.disk = disk_create(), .seed = seed * 1000003, .outcomes = 8};
        crashing = &l;
        l.disk->before_call = crash_here;
        run(&l, 200, false);
        l.disk->before_call = NULL;
        points += l.disk->calls;
        states += l.states;
        journal_close(l.journal);
        assert_int_equal(l.disk->n_open, 0);
        disk_destroy(l.disk);
    }
    print_message("%llu crash points, %llu states\n", (unsigned long long)points, (unsigned long long)states);
    assert_true(points > 200);
}

/* The tests above are worth something only if the disk can lose what is not synced. */
static void test_disk_loses_what_is_not_synced(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal_options o = *options_for(d);
    o.flags = JOURNAL_NOSYNC;
    struct ledger l = {.disk = d};
    assert_int_equal(journal_open("x", &o, &l.journal), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(do_append(&l), 0);
        assert_int_equal(do_commit(&l), 0);
    }
    unsigned lossy = 0;
    for (int i = 0; i < 50; i++) {
        struct disk *after = disk_crash(d, &l.seed);
        struct journal *j;
        struct journal_stats s;
        assert_int_equal(journal_open("x", options_for(after), &j), 0);
        journal_stats(j, &s);
        lossy += s.last < l.acknowledged;
        journal_close(j);
        disk_destroy(after);
    }
    assert_true(lossy > 25);
    journal_close(l.journal);
    disk_destroy(d);
}

/* A process died between write and sync; the next one finds the records in the page cache and shows them to
 * readers, and trims by the cursor it finds. So from its open on they are durable, though none was promised.
 */
static void test_open_makes_durable_what_it_shows(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal_options o = *options_for(d);
    o.flags = JOURNAL_NOSYNC; /* leaves everything unsynced, like a process killed before each sync */
    struct ledger l = {.disk = d};
    struct journal_cursor *c;
    assert_int_equal(journal_open("x", &o, &l.journal), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(do_append(&l), 0);
    assert_int_equal(do_commit(&l), 0);
    assert_int_equal(journal_cursor_open(l.journal, "reader", &c), 0);
    assert_int_equal(journal_cursor_move(c, 3), 0);
    journal_abandon(l.journal);
    assert_int_equal(journal_open("x", options_for(d), &l.journal), 0);
    for (int i = 0; i < 50; i++) {
        struct disk *after = disk_crash(d, &l.seed);
        struct journal *j;
        struct journal_cursor_info info;
        assert_int_equal(journal_open("x", options_for(after), &j), 0);
        assert_int_equal(check_content(&l, j), 5);
        assert_int_equal(journal_cursor_open(j, "reader", &c), 0);
        journal_cursor_info(c, &info);
        assert_int_equal(info.position, 3);
        journal_close(j);
        disk_destroy(after);
    }
    journal_close(l.journal);
    disk_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disk_loses_what_is_not_synced),
        cmocka_unit_test(test_open_makes_durable_what_it_shows),
        cmocka_unit_test(test_every_call_fails),
        cmocka_unit_test(test_every_call_fails_from_there),
        cmocka_unit_test(test_power_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
