/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: following, seeking, and every kind of damage at every place of a small journal. */
#include "fault/journal_disk.h"

#include "base/crc32c.h"
#include "base/err.h"
#include "base/mem.h"
#include "journal/internal.h"

enum { RECORDS = 21, SEGMENTS = 3, PER_SEGMENT = RECORDS / SEGMENTS };

/* Where each record is: damage to [offset, end) is damage to it; the filling behind end is nobody's. */
struct place {
    struct disk_bytes *file;
    size_t offset, end;
};

struct sample {
    struct disk *disk;
    struct disk_bytes *files[SEGMENTS];
    struct place places[RECORDS + 1];
};

static struct journal *open_disk(struct disk *d, unsigned flags)
{
    struct journal *j;
    assert_int_equal(journal_open("x", &(struct journal_options){.flags = flags, .io = &d->io}, &j), 0);
    return j;
}

/* Mixed sizes: empty, not a multiple of 8, and some hundreds of bytes. */
static struct slice sample_payload(uint64_t number)
{
    struct slice s = disk_payload(number);
    s.n = number % 5 == 0 ? 0 : s.n % (number % 3 == 0 ? 500 : 60);
    return s;
}

static void sample_init(struct sample *s)
{
    s->disk = disk_create();
    uint64_t number = 0;
    for (int i = 0; i < SEGMENTS; i++) {
        struct journal *j = open_disk(s->disk, 0); /* each opening makes a segment */
        char name[SEGMENT_NAME_SIZE];
        size_t at = HEAD_SIZE;
        for (int k = 0; k < PER_SEGMENT; k++) {
            struct slice p = sample_payload(number + 1);
            assert_int_equal(journal_append(j, disk_type(number + 1), p, &number), 0);
            s->places[number] = (struct place){NULL, at, at + RECORD_HEAD + p.n};
            at += (size_t)format_record_size(p.n);
        }
        assert_int_equal(journal_commit(j), 0);
        journal_close(j);
        segment_name(name, number - PER_SEGMENT + 1);
        s->files[i] = &s->disk->files[disk_find(&s->disk->now, name)->file].now;
        assert_int_equal(s->files[i]->n, at + RECORD_HEAD); /* the seal */
        for (uint64_t n = number - PER_SEGMENT + 1; n <= number; n++)
            s->places[n].file = s->files[i];
    }
}

static void check_payload(const struct journal_item *item)
{
    struct slice want = sample_payload(item->first);
    assert_int_equal(item->payload.n, want.n);
    assert_memory_equal(item->payload.p, want.p, want.n);
    assert_int_equal(item->type, disk_type(item->first));
}

/* Reads from number from on, and checks that exactly the records in lost are missing, as gaps, up to last. */
static void check_reading(struct disk *d, unsigned flags, uint64_t from, const bool lost[RECORDS + 1],
                          uint64_t last)
{
    struct journal *j = open_disk(d, flags);
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, from, &r), 0);
    uint64_t next = from;
    int rc;
    while ((rc = journal_reader_next(r, &item)) == 0) {
        assert_int_equal(item.first, next);
        assert_true(item.last >= item.first && item.last <= RECORDS);
        for (uint64_t n = item.first; n <= item.last; n++)
            assert_int_equal(lost[n], item.kind == JOURNAL_GAP);
        if (item.kind == JOURNAL_RECORD)
            check_payload(&item);
        next = item.last + 1;
    }
    assert_int_equal(rc, E_NODATA);
    assert_int_equal(next, last + 1);
    journal_reader_close(r);
    journal_abandon(j);
}

/* Each byte of each segment changed in turn: exactly the record it is in is missing. */
static void test_flip_every_byte(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    uint64_t seed = 11;
    for (int i = 0; i < SEGMENTS; i++)
        for (size_t at = 0; at < s.files[i]->n; at++) {
            bool lost[RECORDS + 1] = {false};
            for (uint64_t n = 1; n <= RECORDS; n++)
                lost[n] = s.places[n].file == s.files[i] && at >= s.places[n].offset && at < s.places[n].end;
            unsigned char change = (unsigned char)(test_random(&seed) % 255 + 1);
            s.files[i]->p[at] ^= change;
            check_reading(s.disk, 0, 1, lost, RECORDS);
            check_reading(s.disk, JOURNAL_READONLY, 1, lost, RECORDS);
            check_reading(s.disk, JOURNAL_READONLY, RECORDS / 2, lost, RECORDS);
            s.files[i]->p[at] ^= change;
        }
    disk_destroy(s.disk);
}

/* Each segment cut at each length. In an old one exactly what is cut is missing; in the newest a cut is the
 * end. But its first record is known to have existed: its name says so. */
static void test_cut_everywhere(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    for (int i = 0; i < SEGMENTS; i++) {
        size_t whole = s.files[i]->n;
        for (size_t n_bytes = 0; n_bytes < whole; n_bytes++) {
            bool lost[RECORDS + 1] = {false};
            uint64_t last = 0;
            for (uint64_t n = 1; n <= RECORDS; n++) {
                lost[n] = s.places[n].file == s.files[i] && n_bytes < s.places[n].end;
                if (!lost[n])
                    last = n;
            }
            s.files[i]->n = n_bytes;
            bool is_newest = i == SEGMENTS - 1;
            check_reading(s.disk, JOURNAL_READONLY, 1, lost, is_newest ? last : RECORDS);
            if (is_newest && last == RECORDS - PER_SEGMENT)
                last++;
            check_reading(s.disk, 0, 1, lost, is_newest ? last : RECORDS);
            s.files[i]->n = whole;
        }
    }
    disk_destroy(s.disk);
}

/* A few runs of bytes overwritten at random places: what is returned is right, what is not is a gap, and
 * every record that was not touched is returned. */
static void test_random_damage(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000 * test_scale(); seed++) {
        uint64_t random = seed;
        struct sample s;
        sample_init(&s);
        bool lost[RECORDS + 1] = {false};
        for (uint64_t hits = test_random(&random) % 4 + 1; hits; hits--) {
            struct disk_bytes *f = s.files[test_random(&random) % SEGMENTS];
            size_t at = test_random(&random) % f->n, n = test_random(&random) % 200 + 1;
            n = n < f->n - at ? n : f->n - at;
            for (uint64_t k = 1; k <= RECORDS; k++)
                for (size_t i = at; i < at + n; i++)
                    if (s.places[k].file == f && i >= s.places[k].offset && i < s.places[k].end &&
                        f->p[i] != 0x5a)
                        lost[k] = true;
            memset(f->p + at, 0x5a, n);
        }
        /* With the seal gone too, the last records lost look like a torn tail. */
        uint64_t last = RECORDS;
        const unsigned char *seal = s.files[2]->p + s.files[2]->n - RECORD_HEAD;
        struct record_head h = format_get_record(seal);
        if (format_record_crc(seal, 0) != h.crc || h.type != TYPE_SEAL)
            while (lost[last] && last > RECORDS - PER_SEGMENT + 1)
                last--;
        check_reading(s.disk, 0, 1, lost, last);
        disk_destroy(s.disk);
    }
}

static void test_missing_files(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    bool lost[RECORDS + 1] = {false};
    for (uint64_t n = 8; n <= 14; n++)
        lost[n] = true;
    assert_int_equal(disk_unlink(s.disk, 0, "0000000000000008.seg"), 0);
    check_reading(s.disk, 0, 1, lost, RECORDS);
    check_reading(s.disk, JOURNAL_READONLY, 10, lost, RECORDS);
    for (uint64_t n = 1; n <= 7; n++)
        lost[n] = true;
    assert_int_equal(disk_unlink(s.disk, 0, "0000000000000001.seg"), 0);
    check_reading(s.disk, 0, 1, lost, RECORDS);
    disk_destroy(s.disk);
}

/* A gap says which bytes of which segment are bad. */
static void test_gap_place(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    s.places[9].file->p[s.places[9].offset + 5] ^= 1;
    s.places[10].file->p[s.places[10].offset] ^= 1;
    struct journal *j = open_disk(s.disk, JOURNAL_READONLY);
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, 8, &r), 0);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.kind, JOURNAL_RECORD);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.kind, JOURNAL_GAP);
    assert_int_equal(item.reason, JOURNAL_GAP_DAMAGED);
    assert_int_equal(item.first, 9);
    assert_int_equal(item.last, 10);
    assert_int_equal(item.segment, 8);
    assert_int_equal(item.from_byte, s.places[9].offset);
    assert_int_equal(item.to_byte, s.places[11].offset);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.first, 11);
    check_payload(&item);
    journal_reader_close(r);
    journal_close(j);
    disk_destroy(s.disk);
}

/* A payload that holds a whole segment's bytes with the very numbers that are lost: not taken for records,
 * because the marker is another. */
static void test_stale_records_in_payload(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *j = open_disk(d, 0);
    unsigned char fake[800] = {0};
    for (uint64_t n = 1; n <= 3; n++)
        format_put_record(fake + n * 32, 5, n, 1);
    format_stamp(fake + 32, 3 * 32, 0x01020304);
    assert_int_equal(journal_append(j, 1, SLICE_LIT("first"), NULL), 0);
    assert_int_equal(journal_append(j, 1, slice_of((char *)fake, sizeof fake), NULL), 0);
    assert_int_equal(journal_append(j, 1, SLICE_LIT("third"), NULL), 0);
    assert_int_equal(journal_commit(j), 0);
    struct disk_bytes *b = &d->files[disk_find(&d->now, "0000000000000001.seg")->file].now;
    b->p[HEAD_SIZE + 32 + 8] ^= 0xff; /* number of the second: now the hunt goes through its payload */
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, 0, &r), 0);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_slice(item.payload, "first");
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.kind, JOURNAL_GAP);
    assert_int_equal(item.first, 2);
    assert_int_equal(item.last, 2);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_slice(item.payload, "third");
    assert_int_equal(journal_reader_next(r, &item), E_NODATA);
    journal_reader_close(r);
    journal_close(j);
    disk_destroy(d);
}

/* Without head, and with payloads made to look like large records everywhere: ends soon, and gives nothing
 * that is not a record. */
static void test_hostile_payload_without_head(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *j = open_disk(d, 0);
    static unsigned char fake[JOURNAL_RECORD_MAX];
    for (size_t at = 0; at + RECORD_HEAD <= sizeof fake; at += RECORD_HEAD) {
        format_put_record(fake + at, 1000000, 1, 1);
        fake[at] = 1; /* some marker; the CRC is wrong. Checked naively: 140 GB */
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(journal_append(j, 1, slice_of((char *)fake, sizeof fake), NULL), 0);
    assert_int_equal(journal_commit(j), 0);
    struct disk_bytes *b = &d->files[disk_find(&d->now, "0000000000000001.seg")->file].now;
    b->p[0] ^= 1;
    b->p[HEAD_SIZE] ^= 1;
    struct journal_reader *r;
    struct journal_item item;
    uint64_t calls = d->calls;
    assert_int_equal(journal_reader_open(j, 0, &r), 0);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.kind, JOURNAL_GAP);
    assert_int_equal(item.first, 1);
    uint64_t next = item.last + 1;
    while (journal_reader_next(r, &item) == 0) {
        assert_int_equal(item.first, next++);
        assert_int_equal(item.payload.n, sizeof fake);
    }
    assert_int_equal(next, 4);
    assert_true(d->calls - calls < 2000); /* each check reads 1 MB; there are 140,000 places to check */
    journal_reader_close(r);
    journal_close(j);
    disk_destroy(d);
}

static void append_one(struct journal *j, const char *text)
{
    assert_int_equal(journal_append(j, 1, slice_str(text), NULL), 0);
}

static void expect_record(struct journal_reader *r, const char *text)
{
    struct journal_item item;
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.kind, JOURNAL_RECORD);
    assert_slice(item.payload, text);
}

/* The writer's own readers see what is committed; another opening sees it too, over segments made later. */
static void test_follow(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *w = open_disk(d, 0), *ro = open_disk(d, JOURNAL_READONLY);
    struct journal_reader *own, *other;
    struct journal_item item;
    assert_int_equal(journal_reader_open(w, 0, &own), 0);
    assert_int_equal(journal_reader_open(ro, 0, &other), 0);
    assert_int_equal(journal_reader_next(own, &item), E_NODATA);
    assert_int_equal(journal_reader_next(other, &item), E_NODATA);
    for (int round = 0; round < 3; round++) {
        append_one(w, "a");
        assert_int_equal(journal_reader_next(own, &item), E_NODATA);
        assert_int_equal(journal_commit(w), 0);
        expect_record(own, "a");
        expect_record(other, "a");
        assert_int_equal(journal_reader_next(own, &item), E_NODATA);
        assert_int_equal(journal_reader_next(other, &item), E_NODATA);
        append_one(w, "b");
        append_one(w, "c");
        assert_int_equal(journal_commit(w), 0);
        expect_record(own, "b");
        expect_record(own, "c");
        journal_reader_close(own);
        journal_close(w);
        w = open_disk(d, 0);
        assert_int_equal(journal_reader_open(w, 3 * (uint64_t)round + 4, &own), 0);
        expect_record(other, "b");
        expect_record(other, "c");
    }
    assert_int_equal(journal_append(ro, 1, SLICE_LIT("x"), NULL), -EROFS);
    assert_int_equal(journal_trim(ro), -EROFS);
    journal_reader_close(own);
    journal_reader_close(other);
    journal_close(w);
    journal_close(ro);
    assert_int_equal(d->n_open, 0);
    disk_destroy(d);
}

/* A follower read a segment whose directory sync then failed. The writer gives up that record and makes the
 * segment again, with others: the follower's place in the old file means nothing in the new one. */
static void test_follow_remade_segment(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *w = open_disk(d, 0), *ro = open_disk(d, JOURNAL_READONLY);
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(ro, 0, &r), 0);
    append_one(w, "a first record that is longer than two of the others together, and then some");
    d->fault = DISK_ERROR;
    d->fail_code = -EIO;
    d->fail_at = d->calls + 6; /* open, write head, write, sync, rename pass */
    d->fails_on = true;
    assert_int_equal(journal_commit(w), -EIO);
    d->fault = DISK_NONE;
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.first, 1);
    assert_int_equal(journal_reader_next(r, &item), E_NODATA);
    assert_int_equal(journal_drop(w), 1);
    append_one(w, "a");
    append_one(w, "b");
    assert_int_equal(journal_commit(w), 0);
    expect_record(r, "b");
    assert_int_equal(journal_reader_next(r, &item), E_NODATA);
    journal_reader_close(r);
    journal_close(w);
    journal_close(ro);
    disk_destroy(d);
}

/* A follower that is told what is committed: it never sees a record that a failed commit takes back, and
 * reads the segment that comes instead from its first record on. */
static void test_follow_limit(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *w = open_disk(d, JOURNAL_OWN_SEGMENTS), *ro = open_disk(d, JOURNAL_READONLY);
    struct journal_reader *r, *unlimited;
    struct journal_item item;
    append_one(w, "one");
    assert_int_equal(journal_commit(w), 0);
    assert_int_equal(journal_follow(ro, 1), 0);
    assert_int_equal(journal_reader_open(ro, 0, &r), 0);
    expect_record(r, "one");
    append_one(w, "taken back");
    append_one(w, "taken back, too");
    d->fault = DISK_ERROR;
    d->fail_code = -EIO;
    d->fail_at = d->calls + 2; /* the write passes, its sync does not */
    assert_int_equal(journal_commit(w), -EIO);
    d->fault = DISK_NONE;
    struct journal *guessing = open_disk(d, JOURNAL_READONLY);
    assert_int_equal(journal_reader_open(guessing, 2, &unlimited), 0);
    expect_record(unlimited, "taken back"); /* it is there to be read */
    assert_int_equal(journal_reader_next(r, &item), E_NODATA);
    assert_int_equal(journal_drop(w), 2);
    append_one(w, "two");
    append_one(w, "three");
    assert_int_equal(journal_commit(w), 0);
    assert_int_equal(journal_reader_next(r, &item), E_NODATA);
    assert_int_equal(journal_follow(ro, 2), 0);
    assert_int_equal(journal_follow(ro, 1), 0);
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_slice(item.payload, "two");
    assert_int_equal(item.segment, 2);
    assert_int_equal(journal_reader_next(r, &item), E_NODATA);
    assert_int_equal(journal_follow(ro, 3), 0);
    expect_record(r, "three");
    assert_int_equal(journal_reader_next(r, &item), E_NODATA);
    journal_reader_close(r);
    journal_reader_close(unlimited);
    journal_close(w);
    journal_close(ro);
    journal_close(guessing);
    disk_destroy(d);
}

/* A read that runs beside the writer's write: of the page in the middle it gets what was there before, of the
 * one behind it what was written meanwhile. Nothing is lost: read again, it is there. */
static struct {
    uint64_t from, to;
    unsigned stale; /* how many reads get it so */
    ssize_t (*pread)(void *ctx, int fd, void *to, size_t n, uint64_t offset);
} racing;

static ssize_t pread_racing(void *ctx, int fd, void *to, size_t n, uint64_t offset)
{
    ssize_t got = racing.pread(ctx, fd, to, n, offset);
    if (got <= 0 || !racing.stale || offset >= racing.from || offset + (uint64_t)got <= racing.to)
        return got;
    racing.stale--;
    memset((char *)to + (racing.from - offset), 0, (size_t)(racing.to - racing.from));
    return got;
}

static void test_read_beside_write(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *w = open_disk(d, 0), *ro = open_disk(d, JOURNAL_READONLY);
    struct journal_reader *r;
    struct journal_item item;
    static char big[1000];
    for (int i = 0; i < 100; i++)
        assert_int_equal(journal_append(w, 1, slice_of(big, sizeof big), NULL), 0);
    assert_int_equal(journal_commit(w), 0);
    racing.pread = d->io.pread;
    racing.from = 20480;
    racing.to = 24576;
    racing.stale = 1;
    d->io.pread = pread_racing;
    assert_int_equal(journal_reader_open(ro, 0, &r), 0);
    for (uint64_t next = 1; next <= 100; next++) {
        assert_int_equal(journal_reader_next(r, &item), 0);
        assert_int_equal(item.kind, JOURNAL_RECORD);
        assert_int_equal(item.first, next);
    }
    assert_int_equal(racing.stale, 0);
    journal_reader_close(r);
    journal_close(w);
    journal_close(ro);
    disk_destroy(d);
}

/* A disk with one bad block: the records in it are a gap, the others are read. A disk that is gone: -EIO. */
static struct {
    uint64_t from, to;
    ssize_t (*pread)(void *ctx, int fd, void *to, size_t n, uint64_t offset);
} bad_block;

static ssize_t pread_bad_block(void *ctx, int fd, void *to, size_t n, uint64_t offset)
{
    if (offset < bad_block.to && offset + n > bad_block.from)
        return -EIO;
    return bad_block.pread(ctx, fd, to, n, offset);
}

static void test_bad_block(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *j = open_disk(d, 0);
    static char big[1000];
    memset(big, 'x', sizeof big);
    for (int i = 0; i < 100; i++)
        assert_int_equal(journal_append(j, 1, slice_of(big, sizeof big), NULL), 0);
    assert_int_equal(journal_commit(j), 0);
    bad_block.pread = d->io.pread;
    bad_block.from = 8192;
    bad_block.to = 12288;
    d->io.pread = pread_bad_block;
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, 0, &r), 0);
    uint64_t lost = 0, next = 1;
    while (journal_reader_next(r, &item) == 0) {
        assert_int_equal(item.first, next);
        next = item.last + 1;
        if (item.kind == JOURNAL_GAP) {
            lost += item.last - item.first + 1;
            assert_int_equal(item.first, (8192 - 64) / 1024 + 1);
            assert_int_equal(item.last, (12288 - 1 - 64) / 1024 + 1);
        }
    }
    assert_int_equal(next, 101);
    assert_int_equal(lost, 5);
    journal_reader_close(r);

    bad_block.from = 0;
    bad_block.to = UINT64_MAX;
    assert_int_equal(journal_reader_open(j, 0, &r), 0);
    assert_int_equal(journal_reader_next(r, &item), -EIO);
    bad_block.to = 0;
    assert_int_equal(journal_reader_next(r, &item), 0);
    assert_int_equal(item.first, 1);
    journal_reader_close(r);
    journal_close(j);
    disk_destroy(d);
}

static void test_version(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    unsigned char head[HEAD_SIZE];
    memcpy(head, s.files[0]->p, sizeof head);
    head[8] = 2; /* a later version, with a right CRC: see format_test for the offsets */
    uint32_t crc = crc32c(0, slice_of((char *)head, 60));
    for (int i = 0; i < 4; i++)
        head[60 + i] = (unsigned char)(crc >> (8 * i));
    memcpy(s.files[0]->p, head, sizeof head);
    struct journal *j = open_disk(s.disk, 0);
    struct journal_reader *r;
    struct journal_item item;
    assert_int_equal(journal_reader_open(j, 0, &r), 0);
    assert_int_equal(journal_reader_next(r, &item), E_VERSION);
    journal_reader_close(r);
    journal_close(j);
    disk_destroy(s.disk);
}

/* Reading when the n-th allocation fails: an error, and the same item when there is memory again. */
static void test_no_memory(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    for (uint64_t n = 1;; n++) {
        struct journal *j = open_disk(s.disk, JOURNAL_READONLY);
        struct journal_reader *r = NULL;
        mem_fail_after(n);
        int failures = 0;
        if (journal_reader_open(j, 1, &r) < 0) {
            failures++;
            assert_int_equal(journal_reader_open(j, 1, &r), 0);
        }
        for (uint64_t next = 1; next <= RECORDS;) {
            struct journal_item item;
            int rc = journal_reader_next(r, &item);
            if (rc == 0)
                assert_int_equal(item.first, next++);
            else
                assert_int_equal(rc, -ENOMEM), failures++;
        }
        mem_fail_after(0);
        journal_reader_close(r);
        journal_close(j);
        if (failures == 0)
            break;
        assert_int_equal(failures, 1);
    }
    disk_destroy(s.disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flip_every_byte),
        cmocka_unit_test(test_cut_everywhere),
        cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_gap_place),
        cmocka_unit_test(test_stale_records_in_payload),
        cmocka_unit_test(test_hostile_payload_without_head),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_follow_remade_segment),
        cmocka_unit_test(test_follow_limit),
        cmocka_unit_test(test_read_beside_write),
        cmocka_unit_test(test_bad_block),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
