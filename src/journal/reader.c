/* SPDX-License-Identifier: Apache-2.0 */
/* A reader is a record number and the segment it is in. Each segment has a limit: the first number of the
 * next one, or what is committed, whichever is less. Numbers below the limit that the segment does not hold
 * are lost, and that is all a gap is: whatever the bytes look like, a range is reported exactly when its
 * numbers were given and can't be read. So the torn tail that a crash leaves in a segment, or a group written
 * again elsewhere after an error, is no gap: the next segment starts with the numbers it would have had.
 *
 * The newest segment of a read-only journal has no limit until journal_follow gives one; there its last valid
 * record is the end. At the end
 * the file is closed, and opened again by the next call: a read-only reader may have opened a segment that
 * its writer then made again under the same name. The id in the head tells. */
#include "journal/internal.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>

struct journal_reader {
    struct journal *journal;
    uint64_t next; /* number of the next item */
    struct journal_scan scan;
    bool is_ahead; /* ahead was read, but a gap had to be given first */
    struct record ahead;
    struct {
        uint64_t first, id, offset;
    } left; /* where the file was closed at the end */
};

int journal_reader_open(struct journal *j, uint64_t from, struct journal_reader **out)
{
    struct journal_reader *r = mem_try_alloc(sizeof *r);
    if (!r)
        return -ENOMEM;
    r->journal = j;
    r->next = from ? from : journal_oldest(j);
    r->scan.fd = -1;
    *out = r;
    return 0;
}

void journal_reader_close(struct journal_reader *r)
{
    if (!r)
        return;
    scan_fini(&r->scan);
    mem_free(r);
}

/* First number that the segment starting at first can't have. */
static uint64_t limit_of(const struct journal *j, uint64_t first)
{
    uint64_t after = segment_after(j, first);
    uint64_t end = (j->flags & JOURNAL_READONLY) && !j->has_limit ? UINT64_MAX : j->last + 1;
    return after && after < end ? after : end;
}

static int give_record(struct journal_reader *r, const struct record *rec, struct journal_item *out)
{
    *out = (struct journal_item){.kind = JOURNAL_RECORD,
                                 .first = rec->head.number,
                                 .last = rec->head.number,
                                 .segment = r->scan.first,
                                 .type = rec->head.type,
                                 .payload = rec->payload};
    r->next = rec->head.number + 1;
    return 0;
}

/* Everything up to before is lost; the bytes from..to of the open segment are where it should have been. */
static int give_gap(struct journal_reader *r, uint64_t before, uint64_t from, uint64_t to,
                    struct journal_item *out)
{
    *out = (struct journal_item){.kind = JOURNAL_GAP, .first = r->next, .last = before - 1};
    out->reason = from < to ? JOURNAL_GAP_DAMAGED : JOURNAL_GAP_GONE;
    if (r->scan.fd >= 0) {
        out->segment = r->scan.first;
        out->from_byte = from;
        out->to_byte = from < to ? to : from;
    }
    r->next = before;
    return 0;
}

/* Opens the segment that has number next: 1; 0 = a gap was given; E_NODATA; or an error. */
static int enter(struct journal_reader *r, struct journal_item *out)
{
    struct journal *j = r->journal;
    uint64_t first = segment_with(j, r->next);
    if (first == 0) {
        uint64_t oldest = journal_oldest(j);
        return r->next < oldest ? give_gap(r, oldest, 0, 0, out) : E_NODATA;
    }
    uint64_t limit = limit_of(j, first);
    if (r->next >= limit)
        return E_NODATA;
    int rc = journal_scan_open(&r->scan, j, first);
    if (rc == -ENOENT && limit != UINT64_MAX && !(j->flags & JOURNAL_READONLY))
        return give_gap(r, limit, 0, 0, out);
    if (rc < 0)
        return rc;
    if (first == r->left.first && r->scan.id && r->scan.id == r->left.id)
        r->scan.offset = r->left.offset;
    return 1;
}

/* Closes the file at the end; remembers where. */
static void leave(struct journal_reader *r)
{
    r->left.first = r->scan.first;
    r->left.id = r->scan.id;
    r->left.offset = r->scan.offset;
    journal_scan_close(&r->scan);
}

/* The next item of the open segment: 0, or 1 = it has no more, or an error. */
static int next_here(struct journal_reader *r, struct journal_item *out)
{
    uint64_t limit = limit_of(r->journal, r->scan.first);
    struct record rec;
    while (r->next < limit) {
        uint64_t from = r->scan.offset;
        int rc = journal_scan_next(&r->scan, r->next, limit, &rec);
        if (rc < 0)
            return rc;
        if (rc == 0)
            return limit == UINT64_MAX ? 1 : give_gap(r, limit, r->scan.offset, r->scan.end, out);
        bool is_seal = rec.head.type == TYPE_SEAL;
        if (rec.head.number == r->next) {
            if (!is_seal)
                return give_record(r, &rec, out);
            continue; /* clean end */
        }
        r->is_ahead = !is_seal;
        r->ahead = rec;
        return give_gap(r, rec.head.number, from, rec.offset, out);
    }
    return 1;
}

/* At the end of what is known: does the directory of a journal that another process writes have more? */
static int refresh(struct journal_reader *r, bool *has_more)
{
    struct journal *j = r->journal;
    uint64_t newest = j->n_segments ? j->segments[j->n_segments - 1].first : 0;
    int rc = segment_list(j, NULL);
    *has_more = rc == 0 && j->n_segments && j->segments[j->n_segments - 1].first > newest;
    return rc;
}

int journal_reader_next(struct journal_reader *r, struct journal_item *out)
{
    if (r->is_ahead) {
        r->is_ahead = false;
        return give_record(r, &r->ahead, out);
    }
    const bool is_follower = r->journal->flags & JOURNAL_READONLY;
    const bool is_limited = r->journal->has_limit; /* then the list is as new as the limit */
    for (int misses = 0;;) {
        int rc = r->scan.fd >= 0 ? 1 : enter(r, out);
        if (rc == 1) {
            rc = next_here(r, out);
            if (rc <= 0)
                return rc;
            bool is_newest = segment_after(r->journal, r->scan.first) == 0;
            leave(r);
            if (!is_newest)
                continue;
            rc = E_NODATA;
        }
        bool is_missing = rc == -ENOENT && misses++ < 3; /* trimmed by its writer after we listed it */
        if (!is_follower || (rc == E_NODATA ? is_limited : !is_missing))
            return rc;
        bool has_more;
        int listed = refresh(r, &has_more);
        if (listed < 0)
            return listed;
        if (!has_more && !is_missing)
            return E_NODATA;
    }
}
