/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - a gateway without its sockets: ledger, store and ingest in a temporary folder, on a disk that can
 * be made slow or broken. */
#ifndef GRIDLINE_TESTS_GATEWAY_BENCH_H
#define GRIDLINE_TESTS_GATEWAY_BENCH_H

#include "unit/gateway/agents.h"
#include "unit/gateway/blocks.h"

#include "gateway/journal_batches.h"
#include "gateway/sampler.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* The disk: syncs of files wait while it is held, and fail while it is broken. */
struct bench_disk {
    struct journal_io io;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool is_held;
    unsigned waiting; /* syncs that wait */
    atomic_int fails;    /* 0, or what every write of a file returns */
    atomic_bool is_torn; /* a write that fails has written all the same: a full disk takes some of it */
};

static inline int bench_sync(void *ctx, int fd)
{
    struct bench_disk *d = ctx;
    (void)pthread_mutex_lock(&d->lock);
    d->waiting++;
    (void)pthread_cond_broadcast(&d->change);
    while (d->is_held)
        (void)pthread_cond_wait(&d->change, &d->lock);
    d->waiting--;
    (void)pthread_mutex_unlock(&d->lock);
    return journal_io_libc.sync_file(NULL, fd);
}

static inline ssize_t bench_write(void *ctx, int fd, const void *from, size_t n, uint64_t offset)
{
    struct bench_disk *d = ctx;
    int r = atomic_load(&d->fails);
    ssize_t written = r && !atomic_load(&d->is_torn) ? 0 : journal_io_libc.pwrite(NULL, fd, from, n, offset);
    return r ? r : written;
}

static inline void bench_hold(struct bench_disk *d, bool is_held)
{
    (void)pthread_mutex_lock(&d->lock);
    d->is_held = is_held;
    (void)pthread_cond_broadcast(&d->change);
    (void)pthread_mutex_unlock(&d->lock);
}

/* Until a sync waits. */
static inline void bench_await_sync(struct bench_disk *d)
{
    (void)pthread_mutex_lock(&d->lock);
    while (d->waiting == 0)
        (void)pthread_cond_wait(&d->change, &d->lock);
    (void)pthread_mutex_unlock(&d->lock);
}

struct bench {
    char dir[64];
    struct bench_disk disk;
    struct store_options store_options;
    struct ingest_options options;
    struct ledger ledger;
    struct store *store;
    struct ingest *in;
    int store_state; /* what on_store said last */
    uint64_t forced; /* what on_forced said */
    size_t batches;  /* what on_batch was given */
    size_t batch_events;
    struct bench_place {
        struct position at;
        size_t n;
        int64_t time_ns; /* of its first event */
    } places[1024];      /* of the first batches */
    size_t n_places;
    uint64_t restored; /* records and gaps that on_restore was given */
};

static inline void bench_on_store(void *arg, int r)
{
    ((struct bench *)arg)->store_state = r;
}

static inline void bench_on_forced(void *arg, uint64_t n)
{
    ((struct bench *)arg)->forced += n;
}

static inline void bench_on_batch(void *arg, const struct batch *batch, struct position at)
{
    struct bench *b = arg;
    if (b->n_places < sizeof b->places / sizeof *b->places)
        b->places[b->n_places++] = (struct bench_place){at, batch->n, batch->events[0].time_ns};
    b->batches++;
    b->batch_events += batch->n;
}

static inline void bench_start(struct bench *b)
{
    b->options.arg = b;
    b->options.on_store = bench_on_store;
    b->options.on_forced = bench_on_forced;
    b->store_options.io = &b->disk.io;
    assert_int_equal(store_open(b->dir, &b->store_options, &b->store), 0);
    b->in = ingest_create(&b->ledger, b->store, &b->options);
    assert_non_null(b->in);
    assert_int_equal(ingest_restore(b->in), 0);
}

static inline void bench_check(const struct bench *b)
{
    for (const struct account *a = b->ledger.oldest; a; a = a->newer)
        assert_true(account_check(a));
}

/* Every batch that on_batch was given is in the journal at the place that was said. */
static inline void bench_check_places(const struct bench *b)
{
    const struct journal_options options = {.flags = JOURNAL_READONLY};
    struct journal *j;
    struct journal_batches *all;
    struct journal_batch item;
    size_t next = 0, missing = 0;
    assert_int_equal(journal_open(b->dir, &options, &j), 0);
    assert_int_equal(journal_batches_open(j, 0, &all), 0);
    while (next < b->n_places && journal_batches_next(all, &item) == 0) {
        while (b->forced && next < b->n_places && b->places[next].at.record < item.first)
            next++; /* gave way */
        const struct bench_place *p = &b->places[next];
        if (next == b->n_places)
            break;
        if (item.kind != JOURNAL_BATCH) {
            missing++;
            while (next < b->n_places && b->places[next].at.record <= item.last)
                next++; /* damaged or gone, as some tests want it */
        } else if (item.first == p->at.record && item.part == p->at.part) {
            assert_int_equal(item.batch->n, p->n);
            assert_int_equal(item.batch->events[0].time_ns, p->time_ns);
            next++;
        } else {
            assert_true(item.first < p->at.record || item.part < p->at.part);
        }
    }
    assert_true(next == b->n_places || missing);
    journal_batches_close(all);
    journal_close(j);
}

static inline void bench_stop(struct bench *b)
{
    bench_check(b);
    if (b->n_places)
        bench_check_places(b);
    ingest_destroy(b->in);
    store_close(b->store);
    ledger_fini(&b->ledger);
}

/* What is not committed is gone, as after a crash. */
static inline void bench_restart(struct bench *b)
{
    bench_stop(b);
    bench_start(b);
}

static inline void bench_init(struct bench *b)
{
    *b = (struct bench){.dir = "/tmp/gridline-gateway-XXXXXX"};
    assert_non_null(mkdtemp(b->dir));
    b->disk.io = journal_io_libc;
    b->disk.io.ctx = &b->disk;
    b->disk.io.sync_file = bench_sync;
    b->disk.io.pwrite = bench_write;
    (void)pthread_mutex_init(&b->disk.lock, NULL);
    (void)pthread_cond_init(&b->disk.change, NULL);
}

static inline void bench_open(struct bench *b)
{
    bench_init(b);
    bench_start(b);
}

static inline void bench_close(struct bench *b)
{
    bench_stop(b);
    test_remove(b->dir);
}

static inline struct account *bench_account(struct bench *b, uint8_t producer)
{
    struct frame_origin o = test_origin(producer);
    return ledger_account(&b->ledger, &o);
}

/* Who sends events, and what it was told. */
struct sender {
    struct ingest_source source;
    struct frame_ack ack;
    struct frame_refuse refuse;
    unsigned acks, refusals;
};

static inline void sender_on_ack(struct ingest_source *s, const struct frame_ack *ack)
{
    struct sender *p = (struct sender *)s;
    p->ack = *ack;
    p->acks++;
}

static inline void sender_on_refuse(struct ingest_source *s, const struct frame_refuse *refuse)
{
    struct sender *p = (struct sender *)s;
    p->refuse = *refuse;
    p->refuse.text = SLICE_LIT("");
    p->refusals++;
}

static inline struct sender sender_new(void)
{
    return (struct sender){.source = {.ack = sender_on_ack, .refuse = sender_on_refuse}};
}

/* A block of n events from first on. */
static inline int bench_give(struct bench *b, struct sender *s, uint8_t producer, uint64_t first, uint32_t n)
{
    struct strbuf block = {0};
    test_block(&block, producer, first, n);
    int r = ingest_block(b->in, &s->source, strbuf_slice(&block));
    strbuf_fini(&block);
    bench_check(b);
    return r;
}

/* A sampler of that producer which knows what the agent has announced. */
static inline struct sampler *bench_sampler(struct bench *b, uint8_t producer, const struct agent *a)
{
    struct frame_origin o = test_origin(producer);
    struct sampler *s;
    struct diag why;
    assert_int_equal(sampler_create(b->in, &o, SLICE_LIT("h"), &s), 0);
    assert_int_equal(sampler_schema(s, strbuf_slice(&a->schema_payload), &why), 0);
    assert_int_equal(sampler_stream(s, strbuf_slice(&a->stream_payload), &why), 0);
    return s;
}

static inline void bench_samples(struct sampler *s, struct agent *a, uint32_t n)
{
    struct diag why = {0};
    if (sampler_packet(s, agent_packet(a, n), &why) < 0)
        fail_msg("%s", why.message);
}

#endif
