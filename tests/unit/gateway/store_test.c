/* SPDX-License-Identifier: Apache-2.0 */
/* The store by itself: groups, its thread, segments, and what is read at start. */
#include "unit/gateway/bench.h"

#include "gateway/records.h"

#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

static struct store *open_store(struct bench *b)
{
    struct store *s;
    b->store_options.io = &b->disk.io;
    assert_int_equal(store_open(b->dir, &b->store_options, &s), 0);
    return s;
}

static void append(struct store *s, const char *text)
{
    assert_int_equal(store_append(s, STORE_COUNTS, slice_str(text)), 0);
}

static void commit(struct store *s)
{
    store_commit(s);
    assert_int_equal(store_wait(s), 0);
}

/* Everything that each was given, separated by commas; gaps as `-`. */
struct seen {
    struct strbuf text;
    uint64_t first;
};

static int on_item(void *arg, const struct journal_item *item)
{
    struct seen *s = arg;
    s->first = s->first ? s->first : item->first;
    if (item->kind == JOURNAL_GAP)
        strbuf_add_str(&s->text, "-,");
    else if (item->type == STORE_CHECKPOINT)
        strbuf_printf(&s->text, "c%d,", item->payload.p[0]);
    else
        strbuf_printf(&s->text, "%.*s,", SLICE_ARG(item->payload));
    return 0;
}

static void expect_all(const struct bench *b, const char *text)
{
    struct seen seen = {0};
    assert_int_equal(store_read(b->dir, on_item, &seen), 0);
    assert_slice(strbuf_slice(&seen.text), text);
    strbuf_fini(&seen.text);
}

static void expect_restored(struct store *s, const char *text)
{
    struct seen seen = {0};
    assert_int_equal(store_restore(s, on_item, &seen), 0);
    assert_slice(strbuf_slice(&seen.text), text);
    strbuf_fini(&seen.text);
}

/* One group fills while the other is written; both are there in order, and the descriptor says when. */
static void test_two_groups(void **state)
{
    (void)state;
    struct bench b;
    int r;
    bench_init(&b);
    struct store *s = open_store(&b);
    struct pollfd ready = {.fd = store_fd(s), .events = POLLIN};
    assert_false(store_poll(s, &r));
    append(s, "a");
    append(s, "b");
    bench_hold(&b.disk, true);
    store_commit(s);
    bench_await_sync(&b.disk);
    assert_false(store_poll(s, &r));
    assert_int_equal(poll(&ready, 1, 0), 0);
    append(s, "c"); /* does not wait for the disk */
    assert_true(store_filled(s) > 0);
    bench_hold(&b.disk, false);
    assert_int_equal(poll(&ready, 1, 20000), 1);
    assert_true(store_poll(s, &r));
    assert_int_equal(r, 0);
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_false(store_poll(s, &r));
    expect_all(&b, "a,b,");
    commit(s);
    expect_all(&b, "a,b,c,");
    append(s, "gone");
    store_close(s);
    expect_all(&b, "a,b,c,");
    test_remove(b.dir);
}

/* Closing waits for what was handed over. */
static void test_close_waits(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    for (int i = 0; i < 20; i++) {
        struct store *s = open_store(&b);
        append(s, "x");
        store_commit(s);
        store_close(s);
    }
    expect_all(&b, "x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,");
    test_remove(b.dir);
}

/* A group that fails takes the one behind it along, and the next starts a segment. */
static void test_failure(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    struct store *s = open_store(&b);
    assert_true(store_begin(s));
    uint32_t first = store_segment(s);
    assert_true(first != 0);
    append(s, "a");
    commit(s);
    assert_false(store_begin(s));
    assert_int_equal(store_segment(s), first);
    append(s, "b");
    atomic_store(&b.disk.fails, -ENOSPC);
    store_commit(s);
    append(s, "c");
    assert_int_equal(store_wait(s), -ENOSPC);
    assert_int_equal(store_filled(s), 0);
    atomic_store(&b.disk.fails, 0);
    assert_true(store_begin(s));
    assert_true(store_segment(s) != first);
    append(s, "d");
    commit(s);
    store_close(s);
    expect_all(&b, "a,d,");
    test_remove(b.dir);
}

/* Small pieces share a record, until it is large or another comes. */
static void test_add(void **state)
{
    (void)state;
    struct bench b;
    static char large[STORE_ADDED_MAX];
    memset(large, 'l', sizeof large);
    bench_init(&b);
    struct store *s = open_store(&b);
    assert_int_equal(store_add(s, STORE_COUNTS, SLICE_LIT("1"), SLICE_LIT("2")), 0);
    assert_int_equal(store_add(s, STORE_COUNTS, SLICE_LIT("3"), SLICE_LIT("")), 0);
    append(s, "x");
    assert_int_equal(store_add(s, STORE_COUNTS, SLICE_LIT("4"), SLICE_LIT("5")), 0);
    assert_int_equal(store_add(s, STORE_WORKER, SLICE_LIT("6"), SLICE_LIT("7")), 0);
    commit(s);
    assert_int_equal(store_add(s, STORE_WORKER, SLICE_LIT("8"), SLICE_LIT("")),
                     0); /* another group, another record */
    commit(s);
    expect_all(&b, "123,x,45,67,8,");
    assert_int_equal(store_add(s, STORE_WORKER, SLICE_LIT("a"), SLICE_LIT("")), 0);
    assert_int_equal(store_add(s, STORE_WORKER, SLICE_LIT("b"), slice_of(large, sizeof large)), 0);
    commit(s);
    struct store_stats now;
    store_stats(s, &now);
    assert_int_equal(now.last, 7);
    store_close(s);
    test_remove(b.dir);
}

/* The bound of a group, and of a record. */
static void test_bounds(void **state)
{
    (void)state;
    struct bench b;
    static char large[JOURNAL_RECORD_MAX + 1];
    bench_init(&b);
    struct store *s = open_store(&b);
    assert_int_equal(store_append(s, STORE_BLOCK, slice_of(large, sizeof large)), E_LIMIT);
    int r, n = 0;
    while ((r = store_append(s, STORE_BLOCK, slice_of(large, JOURNAL_RECORD_MAX))) == 0)
        n++;
    assert_int_equal(r, -ENOBUFS);
    assert_int_equal(n, STORE_GROUP_MAX / (JOURNAL_RECORD_MAX + 32));
    while ((r = store_append(s, STORE_BLOCK, SLICE_LIT("x"))) == 0)
        n++;
    assert_int_equal(r, -ENOBUFS);
    assert_int_equal(store_add(s, STORE_BLOCK, SLICE_LIT("x"), SLICE_LIT("")), -ENOBUFS);
    commit(s); /* as large as it may be, and the journal takes it */
    struct store_stats now;
    store_stats(s, &now);
    assert_int_equal(now.last, n);
    store_close(s);
    test_remove(b.dir);
}

static void put_checkpoint(struct store *s, enum checkpoint_kind kind, uint64_t id)
{
    struct strbuf out = {0};
    record_put_checkpoint(&out, &(struct record_checkpoint){.kind = (uint8_t)kind, .id = id});
    assert_int_equal(store_append(s, STORE_CHECKPOINT, strbuf_slice(&out)), 0);
    strbuf_fini(&out);
    if (kind == CHECKPOINT_BEGIN)
        store_begin_checkpoint(s);
    if (kind == CHECKPOINT_END)
        store_end_checkpoint(s);
}

/* Only the newest complete checkpoint and what follows is read; one that a crash has cut off does not count.
 */
static void test_checkpoint(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    struct store *s = open_store(&b);
    expect_restored(s, "");
    append(s, "a");
    commit(s);
    store_close(s);
    s = open_store(&b);
    expect_restored(s, "a,"); /* there is none yet */
    put_checkpoint(s, CHECKPOINT_BEGIN, 1);
    append(s, "b");
    commit(s);
    append(s, "c");
    put_checkpoint(s, CHECKPOINT_END, 1);
    append(s, "d");
    commit(s);
    struct store_stats now;
    store_stats(s, &now);
    assert_int_equal(now.checkpoints, 1);
    store_close(s);
    s = open_store(&b);
    expect_restored(s, "c1,b,c,c3,d,");
    put_checkpoint(s, CHECKPOINT_BEGIN, 2); /* and then the crash */
    append(s, "e");
    commit(s);
    store_close(s);
    s = open_store(&b);
    expect_restored(s, "c1,b,c,c3,d,c1,e,");
    put_checkpoint(s, CHECKPOINT_BEGIN, 3);
    commit(s);
    atomic_store(&b.disk.fails, -EIO); /* the end of it can't be written */
    put_checkpoint(s, CHECKPOINT_END, 3);
    store_commit(s);
    assert_int_equal(store_wait(s), -EIO);
    atomic_store(&b.disk.fails, 0);
    put_checkpoint(s, CHECKPOINT_END, 3); /* of none that stands */
    commit(s);
    store_close(s);
    s = open_store(&b);
    expect_restored(s, "c1,b,c,c3,d,c1,e,c1,c3,");
    store_close(s);
    test_remove(b.dir);
}

/* A checkpoint with a damaged record is not trusted: everything that is there is read. */
static void test_damaged_checkpoint(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    struct store *s = open_store(&b);
    append(s, "a");
    commit(s);
    store_close(s);
    s = open_store(&b);
    put_checkpoint(s, CHECKPOINT_BEGIN, 1);
    commit(s);
    append(s, "broken");
    commit(s);
    put_checkpoint(s, CHECKPOINT_END, 1);
    commit(s);
    append(s, "z");
    commit(s);
    store_close(s);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%016llx.seg", b.dir, 2ULL);
    FILE *f = fopen(path, "r+e");
    char bytes[512];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    const char *at = memmem(bytes, n, "broken", 6);
    assert_non_null(at);
    assert_int_equal(fseek(f, at - bytes, SEEK_SET), 0);
    assert_int_equal(fputc('B', f), 'B');
    assert_int_equal(fclose(f), 0);
    s = open_store(&b);
    expect_restored(s, "a,c1,-,c3,z,");
    store_close(s);
    test_remove(b.dir);
}

/* At the limit the oldest gives way, counted exactly, but never the checkpoint. */
static void test_gives_way(void **state)
{
    (void)state;
    static char large[3000];
    struct bench b;
    struct store_stats now;
    memset(large, 'l', sizeof large);
    bench_init(&b);
    b.store_options = (struct store_options){.max_bytes = 32768, .segment_bytes = 4096};
    struct store *s = open_store(&b);
    put_checkpoint(s, CHECKPOINT_BEGIN, 1);
    put_checkpoint(s, CHECKPOINT_END, 1);
    commit(s);
    for (int i = 0; i < 20; i++) { /* a segment each */
        assert_int_equal(store_append(s, STORE_COUNTS, slice_of(large, sizeof large)), 0);
        append(s, "x");
        commit(s);
    }
    store_stats(s, &now);
    assert_true(now.bytes > 32768); /* it needs all of that */
    assert_int_equal(now.first, 1);
    assert_int_equal(now.forced, 0);
    while (!store_begin(s)) {
        assert_int_equal(store_append(s, STORE_COUNTS, slice_of(large, sizeof large)), 0);
        commit(s);
    }
    store_stats(s, &now);
    uint64_t begin = now.last + 1;
    put_checkpoint(s, CHECKPOINT_BEGIN, 2);
    commit(s);
    put_checkpoint(s, CHECKPOINT_END, 2);
    commit(s);
    append(s, "y");
    commit(s);
    store_stats(s, &now);
    assert_true(now.bytes <= 32768);
    assert_true(now.first > 1 && now.first <= begin);
    assert_int_equal(now.forced, now.first - 1);
    store_close(s);
    s = open_store(&b);
    expect_restored(s, "c1,c3,y,");
    store_close(s);
    test_remove(b.dir);
}

/* What the archive has not written stays and takes room: samples are refused first, then events, then all. */
static void test_archive_holds(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    b.store_options = (struct store_options){.max_bytes = 8 * 8192, .segment_bytes = 8192};
    struct store *s = open_store(&b);
    char text[4000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    struct store_readers readers = {.has_archive = true, .archive = 0};
    int refused[3] = {0, 0, 0}; /* the group with which it began */
    for (int n = 1; n <= 16; n++) {
        store_hold(s, &readers);
        append(s, text);
        commit(s);
        for (int room = ROOM_SAMPLES; room <= ROOM_RECORDS; room++)
            if (!refused[room] && store_check_room(s, (enum store_room)room) == -EDQUOT)
                refused[room] = n;
    }
    assert_true(refused[ROOM_SAMPLES] && refused[ROOM_SAMPLES] < refused[ROOM_EVENTS]);
    assert_true(refused[ROOM_EVENTS] < refused[ROOM_RECORDS]);
    struct store_stats now;
    store_stats(s, &now);
    assert_true(now.first == 1 && now.forced == 0);
    /* It has got on: there is room again, without anything being written. */
    readers.archive = now.last;
    do {
        store_hold(s, &readers);
        store_stats(s, &now);
    } while (now.held);
    assert_int_equal(store_check_room(s, ROOM_SAMPLES), 0);
    append(s, text);
    assert_true(store_held(s) >= sizeof text && store_held(s) < 2 * sizeof text);
    store_close(s);
    test_remove(b.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_groups),
        cmocka_unit_test(test_close_waits),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_damaged_checkpoint),
        cmocka_unit_test(test_gives_way),
        cmocka_unit_test(test_archive_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
