/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one segment through a window that slides over the file: one block for the head, or a tiny segment,
 * then 64 KiB, and more while a larger record is in it.
 *
 * A place in the file holds a record when its marker is the segment's, its number is possible there, it ends
 * within the file and its CRC is right. "Possible there": a record takes at least RECORD_HEAD bytes, so the
 * one at offset o has a number of at most first + (o - HEAD_SIZE) / RECORD_HEAD. Where there is none, each
 * following multiple of 8 is tried. The marker is random, so bytes of a payload that look like a record
 * (another journal's, or made by a hostile producer) are not taken for one, and the hunt stays linear.
 *
 * With a damaged head the marker is not known. Then the first place that is a record by all the other tests
 * gives it: nearly always the first record. Here payloads chosen by an enemy could make the hunt quadratic,
 * so the bytes it may check are limited; beyond, the segment counts as damaged to its end. */
#include "journal/internal.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>

enum { WINDOW = 64 * 1024, BLOCK = 4096 };
#define GUESS_BYTES (UINT64_C(256) << 20)

/* Reads up to n bytes at offset block by block, after a bulk read met EIO. Unreadable blocks become zeros:
 * damage like any other. If no block at all is readable the device is gone rather than damaged: -EIO. */
static ssize_t read_around(const struct journal_scan *s, unsigned char *to, size_t n, uint64_t offset)
{
    size_t got = 0, good = 0;
    while (got < n) {
        size_t step = BLOCK - (size_t)((offset + got) % BLOCK);
        step = step < n - got ? step : n - got;
        ssize_t r = io_read(s->journal, s->fd, to + got, step, offset + got);
        if (r < 0 && r != -EIO)
            return r;
        if (r < 0)
            memset(to + got, 0, step);
        else
            good += (size_t)r;
        if (r >= 0 && (size_t)r < step)
            return good || got == 0 ? (ssize_t)(got + (size_t)r) : -EIO;
        got += step;
    }
    return good ? (ssize_t)got : -EIO;
}

static int window_reserve(struct journal_scan *s, size_t n)
{
    if (n <= s->window_cap)
        return 0;
    unsigned char *p = mem_try_resize(s->window, n);
    if (!p)
        return -ENOMEM;
    s->window = p;
    s->window_cap = n;
    return 0;
}

/* Makes n bytes at offset available at *out. Returns 1, or 0 when the file ends before, or an error. */
static int window_get(struct journal_scan *s, uint64_t offset, size_t n, const unsigned char **out)
{
    if (offset < s->window_at || offset - s->window_at > s->window_len ||
        s->window_len - (size_t)(offset - s->window_at) < n) {
        size_t want = n > s->ahead ? n : s->ahead;
        int r = window_reserve(s, want);
        if (r < 0)
            return r;
        s->window_len = 0;
        ssize_t got = io_read(s->journal, s->fd, s->window, want, offset);
        if (got == -EIO)
            got = read_around(s, s->window, want, offset);
        if (got < 0)
            return (int)got;
        s->window_at = offset;
        s->window_len = (size_t)got;
        s->ahead = (size_t)got == want ? WINDOW : BLOCK;
        if (got > 0 && offset + (uint64_t)got > s->end)
            s->end = offset + (uint64_t)got;
    }
    if (s->window_len - (size_t)(offset - s->window_at) < n)
        return 0;
    *out = s->window + (offset - s->window_at);
    return 1;
}

int journal_scan_open(struct journal_scan *s, const struct journal *j, uint64_t first)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(name, first);
    int fd = io_open(j, name, O_RDONLY);
    if (fd < 0)
        return fd;
    s->journal = j;
    s->fd = fd;
    s->first = first;
    s->offset = HEAD_SIZE;
    s->end = s->id = 0;
    s->marker = 0;
    s->guesses = GUESS_BYTES;
    s->ahead = BLOCK;
    s->window_len = 0;

    const unsigned char *p;
    struct segment_head head;
    int r = window_get(s, 0, HEAD_SIZE, &p);
    if (r > 0)
        r = format_get_head(p, &head);
    else if (r == 0)
        r = E_DAMAGE;
    if (r == 0 && head.first == first) {
        s->id = head.id;
        s->marker = (uint32_t)head.id;
    }
    if (r == 0 || r == E_DAMAGE)
        return 0;
    journal_scan_close(s);
    return r;
}

void journal_scan_close(struct journal_scan *s)
{
    if (s->journal)
        io_close(s->journal, s->fd);
    s->fd = -1;
    s->window_len = 0;
}

void scan_fini(struct journal_scan *s)
{
    journal_scan_close(s);
    mem_free(s->window);
    *s = (struct journal_scan){.fd = -1};
}

/* The tests that need the record's head alone. */
static bool is_possible(const struct journal_scan *s, const struct record_head *h, uint64_t offset)
{
    if (s->marker ? h->marker != s->marker : h->marker == 0)
        return false;
    return h->length <= JOURNAL_RECORD_MAX && h->number >= s->first &&
           h->number - s->first <= (offset - HEAD_SIZE) / RECORD_HEAD;
}

/* Is there a record at offset? 1 (then *out is filled), 0, or an error. */
static int probe(struct journal_scan *s, uint64_t offset, struct record *out)
{
    const unsigned char *p;
    int r = window_get(s, offset, RECORD_HEAD, &p);
    if (r <= 0)
        return r;
    struct record_head h = format_get_record(p);
    if (!is_possible(s, &h, offset))
        return 0;
    if (s->marker == 0) {
        if (s->guesses < h.length)
            return 0;
        s->guesses -= h.length;
    }
    r = window_get(s, offset, RECORD_HEAD + h.length, &p);
    if (r <= 0 || format_record_crc(p, h.length) != h.crc)
        return r < 0 ? r : 0;
    s->marker = h.marker;
    *out = (struct record){h, offset, slice_of((const char *)p + RECORD_HEAD, h.length)};
    return 1;
}

/* The first place from offset on that holds a record. */
static int hunt(struct journal_scan *s, uint64_t offset, struct record *out)
{
    for (;; offset += RECORD_ALIGN) {
        int r = probe(s, offset, out);
        if (r != 0)
            return r;
        const unsigned char *p;
        r = window_get(s, offset, RECORD_HEAD, &p);
        if (r <= 0)
            return r;
    }
}

int journal_scan_next(struct journal_scan *s, uint64_t at_least, uint64_t limit, struct record *out)
{
    uint64_t offset = s->offset;
    for (bool was_read_again = false;;) {
        int r = hunt(s, offset, out);
        if (r > 0 && out->offset != offset && !was_read_again) {
            /* Damage, or a read that ran beside a write: of one page it got what was there before, of a later
             * one what was written meanwhile. The earlier page is written first, so now it is there. */
            was_read_again = true;
            s->window_len = 0;
            continue;
        }
        if (r <= 0 || out->head.number >= limit) {
            s->window_len = 0; /* what is behind may be written until the next call */
            return r < 0 ? r : 0;
        }
        offset = out->offset + format_record_size(out->head.length);
        if (out->head.number >= at_least)
            break;
        s->offset = offset; /* passed on the way to at_least */
        was_read_again = false;
    }
    s->offset = offset;
    return 1;
}
