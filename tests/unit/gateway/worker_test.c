/* SPDX-License-Identifier: Apache-2.0 */
/* Workers on clocks that the test sets. */
#include "unit/test.h"

#include "base/clock.h"
#include "gateway/worker.h"

#include <errno.h>

#define MS (INT64_C(1000000))

struct bench {
    struct workers *ws;
    int64_t boot_ns, utc_ns;
    char log[4096]; /* "host:before>state " */
    struct strbuf records;
    unsigned n_records, room; /* more than `room` are refused, */
    int refusal;              /* like this */
    void *replaced;
};

static void on_state(void *arg, struct worker *w, enum worker_state before, const char *why)
{
    struct bench *b = arg;
    assert_non_null(why);
    size_t n = strlen(b->log);
    (void)snprintf(b->log + n, sizeof b->log - n, "%s:%s>%s ", w->host, worker_state_name(before),
                   worker_state_name((enum worker_state)w->state));
}

static void on_replaced(void *arg, struct worker *w, void *link)
{
    (void)w;
    ((struct bench *)arg)->replaced = link;
}

static int on_record(void *arg, const struct worker *w)
{
    struct bench *b = arg;
    if (b->n_records >= b->room)
        return b->refusal;
    struct strbuf one = {0};
    worker_put_record(&one, w);
    strbuf_add_text(&b->records, strbuf_slice(&one));
    strbuf_fini(&one);
    b->n_records++;
    return 0;
}

static const struct workers_ops ops = {on_state, on_replaced, on_record};

static void open_bench(struct bench *b)
{
    *b = (struct bench){.boot_ns = 1000 * NS_PER_S, .utc_ns = 1700000000 * NS_PER_S, .room = UINT32_MAX};
    const struct workers_options o = {
        .lease_ms = 3000, .renew_ms = 1000, .level = SEAL_PRIVATE, .ops = &ops, .arg = b};
    b->ws = workers_create(&o);
    assert_non_null(b->ws);
}

static void close_bench(struct bench *b)
{
    workers_destroy(b->ws);
    strbuf_fini(&b->records);
}

static void pass(struct bench *b, int64_t ns)
{
    while (ns > 0) { /* as the loop does: whenever it was told to */
        int64_t next = workers_tick(b->ws, b->boot_ns, b->utc_ns);
        assert_true(next > b->boot_ns && next <= b->boot_ns + NS_PER_S);
        int64_t step = next - b->boot_ns < ns ? next - b->boot_ns : ns;
        b->boot_ns += step;
        b->utc_ns += step;
        ns -= step;
    }
    (void)workers_tick(b->ws, b->boot_ns, b->utc_ns);
}

static struct worker *enter(struct bench *b, const char *host, void *link)
{
    struct args_writer properties = {0};
    args_add_uint(&properties, "cpus", 8);
    struct frame_register r = {
        .host = slice_str(host), .properties = args_of(&properties), .utc_ns = b->utc_ns + 5};
    r.origin.epoch = 1;
    struct worker *w = NULL;
    assert_int_equal(workers_register(b->ws, &r, link, SEAL_PRIVATE, b->boot_ns, b->utc_ns, &w), 0);
    args_writer_fini(&properties);
    return w;
}

static void renew(struct bench *b, struct worker *w)
{
    worker_renew(b->ws, w, &(struct frame_renew){.number = 1}, b->boot_ns, b->utc_ns);
}

static void states_are_four_different_things(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct worker *w = enter(&b, "a", &b);
    assert_int_equal(w->id, 1);
    assert_int_equal(w->clock_offset_ns, 5);
    for (int i = 0; i < 20; i++) {
        pass(&b, 1000 * MS);
        renew(&b, w);
    }
    assert_string_equal(b.log, "a:deregistered>live ");
    pass(&b, 1400 * MS);
    assert_string_equal(b.log, "a:deregistered>live ");
    pass(&b, 300 * MS);
    assert_string_equal(b.log, "a:deregistered>live a:live>late ");
    renew(&b, w);
    pass(&b, 2900 * MS);
    assert_string_equal(b.log, "a:deregistered>live a:live>late a:late>live a:live>late ");
    pass(&b, 300 * MS);
    assert_int_equal(w->state, WORKER_EXPIRED);
    struct worker *again = enter(&b, "a", &b);
    assert_ptr_equal(again, w); /* neither forgotten nor doubled */
    assert_int_equal(w->registrations, 2);
    worker_leave(b.ws, w, b.utc_ns);
    renew(&b, w);
    pass(&b, 10 * NS_PER_S);
    assert_string_equal(strstr(b.log, "late>expired"), "late>expired a:expired>live a:live>deregistered ");
    close_bench(&b);
}

static void a_short_lease_after_a_long_rest_is_kept_to_the_slot(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct worker *w = enter(&b, "a", &b);
    pass(&b, 200 * NS_PER_S);
    assert_int_equal(w->state, WORKER_EXPIRED);
    (void)enter(&b, "a", &b);
    assert_int_equal(worker_set(b.ws, w, SLICE_LIT(""), 1000), 0);
    assert_true(w->has_own_lease && w->lease_ms == 1000 && w->renew_ms == 333);
    pass(&b, 900 * MS);
    assert_int_equal(w->state, WORKER_LATE);
    pass(&b, 300 * MS);
    assert_int_equal(w->state, WORKER_EXPIRED);
    close_bench(&b);
}

static void a_broken_connection_is_late_at_once(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct worker *w = enter(&b, "a", &b);
    worker_disconnected(b.ws, w, b.boot_ns, b.utc_ns);
    assert_string_equal(b.log, "a:deregistered>live a:live>late ");
    assert_null(w->link);
    pass(&b, 3200 * MS);
    assert_int_equal(w->state, WORKER_EXPIRED);
    close_bench(&b);
}

static void the_newest_registration_counts(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    int first, second;
    struct worker *w = enter(&b, "a", &first);
    assert_null(b.replaced);
    assert_ptr_equal(enter(&b, "a", &second), w);
    assert_ptr_equal(b.replaced, &first);
    assert_ptr_equal(w->link, &second);
    assert_int_equal(enter(&b, "b", &first)->id, 2);
    assert_int_equal(workers_count(b.ws), 2);
    close_bench(&b);
}

static void a_new_samples_origin_has_a_new_key_and_an_empty_window(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct worker *w = enter(&b, "a", &b);
    unsigned char before[LEASE_KEY];
    const struct frame_origin one = {{1}, 1}, two = {{2}, 1};
    worker_set_samples(b.ws, w, &one, NULL);
    memcpy(before, w->key, sizeof before);
    uint32_t id = w->key_id;
    w->window.highest = 7;
    w->window.received = 5;
    worker_renew(b.ws, w, &(struct frame_renew){.number = 1, .datagrams = 7}, b.boot_ns, b.utc_ns);
    assert_int_equal(worker_datagrams_lost(w), 2);
    worker_set_samples(b.ws, w, &one, NULL); /* announced anew */
    assert_int_equal(w->window.highest, 7);
    assert_int_not_equal(w->key_id, id);
    id = w->key_id;
    worker_set_samples(b.ws, w, &two, NULL);
    assert_int_equal(w->window.highest, 0);
    assert_int_equal(worker_datagrams_lost(w), 0);
    assert_int_not_equal(w->key_id, id);
    assert_memory_not_equal(before, w->key, sizeof before);
    close_bench(&b);
}

/* The records of one life, read by the next. */
static void restore_all(const struct bench *from, struct bench *to)
{
    struct cursor c = cursor_of(strbuf_slice(&from->records));
    for (unsigned i = 0; i < from->n_records; i++)
        assert_int_equal(workers_restore(to->ws, cursor_text(&c), to->boot_ns, to->utc_ns), 0);
}

static void a_restart_forgets_and_doubles_nobody(void **state)
{
    (void)state;
    struct bench b, next;
    open_bench(&b);
    struct worker *a = enter(&b, "a", &b), *gone = enter(&b, "gone", &b), *old = enter(&b, "old", &b);
    assert_int_equal(worker_set(b.ws, a, SLICE_LIT("\0"), 5000), 0);
    worker_leave(b.ws, gone, b.utc_ns);
    for (int i = 0; i < 4; i++) {
        pass(&b, 900 * MS);
        renew(&b, a);
    }
    assert_int_equal(old->state, WORKER_EXPIRED);

    open_bench(&next);
    restore_all(&b, &next);
    assert_int_equal(workers_count(next.ws), 3);
    struct worker *w = workers_by_host(next.ws, SLICE_LIT("a"));
    assert_true(w->id == 1 && w->state == WORKER_LATE && w->lease_ms == 5000 && w->has_own_lease);
    assert_int_equal(workers_by_id(next.ws, 2)->state, WORKER_DEREGISTERED);
    assert_int_equal(workers_by_id(next.ws, 3)->state, WORKER_EXPIRED);
    assert_string_equal(next.log, ""); /* nothing has changed that was not said before */
    struct cursor c = cursor_of(slice_of(w->properties, w->properties_n));
    struct args properties;
    assert_true(args_get(&c, &properties));
    assert_int_equal(args_uint(properties, "cpus", 0), 8);
    pass(&next, 4800 * MS);
    assert_int_equal(w->state, WORKER_LATE);
    pass(&next, 400 * MS);
    assert_int_equal(w->state, WORKER_EXPIRED);
    assert_int_equal(enter(&next, "new", &next)->id, 4);
    close_bench(&b);
    close_bench(&next);
}

static void records_cut_anywhere_are_refused(void **state)
{
    (void)state;
    struct bench b, next;
    open_bench(&b);
    (void)enter(&b, "a", &b);
    struct cursor c = cursor_of(strbuf_slice(&b.records));
    struct slice whole = cursor_text(&c);
    open_bench(&next);
    for (size_t n = 0; n < whole.n; n++)
        assert_int_equal(workers_restore(next.ws, slice_of(whole.p, n), next.boot_ns, next.utc_ns), E_PROTO);
    assert_int_equal(workers_count(next.ws), 0);
    close_bench(&b);
    close_bench(&next);
}

static void the_quiet_are_forgotten_after_a_week(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    struct worker *w = enter(&b, "a", NULL);
    worker_leave(b.ws, w, b.utc_ns);
    pass(&b, 60 * NS_PER_S);
    assert_int_equal(workers_count(b.ws), 1);
    b.utc_ns += 8 * 24 * 3600 * NS_PER_S; /* only the calendar: the wheel goes round once */
    pass(&b, 60 * NS_PER_S);
    assert_int_equal(workers_count(b.ws), 0);
    assert_null(workers_by_id(b.ws, 1));
    assert_int_equal(enter(&b, "b", NULL)->id, 2); /* ids are for life */
    close_bench(&b);
}

/* Refused records are written later, once each and as the worker is then. */
static void what_the_journal_refuses_is_written_later(void **state)
{
    (void)state;
    struct bench b, next;
    open_bench(&b);
    b.room = 1;
    b.refusal = -ENOBUFS;
    struct worker *a = enter(&b, "a", &b), *left = enter(&b, "left", &b), *c = enter(&b, "c", &b);
    worker_leave(b.ws, left, b.utc_ns);
    worker_leave(b.ws, left, b.utc_ns);
    assert_int_equal(b.n_records, 1);
    assert_int_equal(workers_unwritten(b.ws), 2);
    workers_write(b.ws);
    assert_int_equal(workers_unwritten(b.ws), 2);
    b.room = 2;
    workers_write(b.ws);
    assert_int_equal(workers_unwritten(b.ws), 1);
    b.room = UINT32_MAX;
    (void)enter(&b, "c", &b); /* the next record of a worker makes the one before it good */
    workers_write(b.ws);
    assert_int_equal(workers_unwritten(b.ws), 0);
    unsigned n = b.n_records;
    workers_write(b.ws);
    assert_int_equal(b.n_records, n);

    open_bench(&next);
    restore_all(&b, &next);
    assert_int_equal(workers_count(next.ws), 3);
    assert_int_equal(workers_by_host(next.ws, SLICE_LIT("a"))->id, a->id);
    assert_int_equal(workers_by_host(next.ws, SLICE_LIT("c"))->id, c->id);
    assert_int_equal(workers_by_host(next.ws, SLICE_LIT("left"))->id, left->id);
    assert_int_equal(workers_by_id(next.ws, left->id)->state, WORKER_DEREGISTERED);
    close_bench(&b);
    close_bench(&next);
}

static void a_checkpoint_stops_where_there_is_no_room(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    b.room = 0;
    b.refusal = -ENOBUFS;
    for (char host[] = "a"; host[0] <= 'e'; host[0]++)
        (void)enter(&b, host, NULL);
    assert_int_equal(workers_unwritten(b.ws), 5);
    uint32_t from = workers_write_all(b.ws, 0, 2);
    assert_int_equal(from, 1);
    assert_int_equal(workers_write_all(b.ws, from, 2), from); /* how it says so */
    b.room = UINT32_MAX;
    from = workers_write_all(b.ws, from, 2);
    assert_int_equal(from, 3);
    b.room = 3;
    from = workers_write_all(b.ws, from, 2);
    assert_int_equal(from, 4);
    b.refusal = -ENOMEM; /* is passed over */
    assert_int_equal(workers_write_all(b.ws, from, 2), 0);
    assert_int_equal(workers_unwritten(b.ws), 2);
    b.room = UINT32_MAX;
    assert_int_equal(workers_write_all(b.ws, from, 2), 0);
    assert_int_equal(workers_unwritten(b.ws), 0); /* a checkpoint makes it good, too */
    close_bench(&b);
}

static void the_forgotten_need_no_record(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    b.room = 0;
    b.refusal = -ENOBUFS;
    (void)enter(&b, "stays", &b);
    worker_leave(b.ws, enter(&b, "goes", NULL), b.utc_ns);
    assert_int_equal(workers_unwritten(b.ws), 2);
    b.utc_ns += 8 * 24 * 3600 * NS_PER_S;
    pass(&b, 60 * NS_PER_S);
    assert_int_equal(workers_count(b.ws), 1);
    assert_int_equal(workers_unwritten(b.ws), 1);
    b.room = UINT32_MAX;
    workers_write(b.ws);
    assert_int_equal(workers_unwritten(b.ws), 0);
    assert_int_equal(b.n_records, 1);
    close_bench(&b);
}

static void many_workers_keep_their_own_time(void **state)
{
    (void)state;
    enum { N = 500, SECONDS = 30 };
    struct bench b;
    open_bench(&b);
    static struct worker *w[N];
    static int64_t last[N];
    uint64_t seed = 4;
    for (int i = 0; i < N; i++) {
        char host[16];
        (void)snprintf(host, sizeof host, "h%d", i);
        w[i] = enter(&b, host, NULL);
        last[i] = b.boot_ns;
    }
    for (int64_t t = 0; t < SECONDS * 10; t++) {
        b.log[0] = '\0';
        pass(&b, 100 * MS);
        for (int i = 0; i < N; i++) {
            int64_t age = b.boot_ns - last[i];
            if (age < 1500 * MS)
                assert_int_equal(w[i]->state, WORKER_LIVE);
            else if (age >= 1700 * MS && age < 3000 * MS)
                assert_int_equal(w[i]->state, WORKER_LATE);
            else if (age >= 3200 * MS)
                assert_int_equal(w[i]->state, WORKER_EXPIRED);
            if (test_random(&seed) % 20 == 0) {
                renew(&b, w[i]);
                last[i] = b.boot_ns;
            }
        }
    }
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_four_different_things),
        cmocka_unit_test(a_short_lease_after_a_long_rest_is_kept_to_the_slot),
        cmocka_unit_test(a_broken_connection_is_late_at_once),
        cmocka_unit_test(the_newest_registration_counts),
        cmocka_unit_test(a_new_samples_origin_has_a_new_key_and_an_empty_window),
        cmocka_unit_test(a_restart_forgets_and_doubles_nobody),
        cmocka_unit_test(records_cut_anywhere_are_refused),
        cmocka_unit_test(the_quiet_are_forgotten_after_a_week),
        cmocka_unit_test(what_the_journal_refuses_is_written_later),
        cmocka_unit_test(a_checkpoint_stops_where_there_is_no_room),
        cmocka_unit_test(the_forgotten_need_no_record),
        cmocka_unit_test(many_workers_keep_their_own_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
