/* SPDX-License-Identifier: Apache-2.0 */
/* A cursor's file NAME.cur has two slots; a move writes the one that does not count and syncs it, so that the
 * old position is valid until the new one is durable. A failed write is repeated to the same slot, never to
 * the good one. Layout: journal.c. */
#include "journal/internal.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>

enum { FILE_NAME_SIZE = JOURNAL_CURSOR_NAME_MAX + 5 };

static bool is_good_name(struct slice name)
{
    return name.n <= JOURNAL_CURSOR_NAME_MAX && text_is_name(name);
}

static void file_name(char to[FILE_NAME_SIZE], const char *name)
{
    (void)snprintf(to, FILE_NAME_SIZE, "%s.cur", name); /* fits: names are checked */
}

static struct journal_cursor *find(const struct journal *j, const char *name)
{
    for (size_t i = 0; i < j->n_cursors; i++)
        if (strcmp(j->cursors[i]->name, name) == 0)
            return j->cursors[i];
    return NULL;
}

static int add(struct journal *j, struct slice name, struct journal_cursor **out)
{
    if (j->n_cursors == JOURNAL_CURSORS_MAX)
        return E_LIMIT;
    struct journal_cursor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return -ENOMEM;
    c->journal = j;
    memcpy(c->name, name.p, name.n);
    j->cursors[j->n_cursors++] = c;
    *out = c;
    return 0;
}

static void forget(struct journal_cursor *c)
{
    struct journal *j = c->journal;
    for (size_t i = 0; i < j->n_cursors; i++)
        if (j->cursors[i] == c)
            j->cursors[i] = j->cursors[--j->n_cursors];
    mem_free(c);
}

/* Reads both slots; the valid one with the larger generation counts. Without any, the cursor is reset. */
static int read_slots(struct journal_cursor *c, int fd)
{
    bool is_valid = false;
    for (uint64_t i = 0; i < 2; i++) {
        unsigned char b[SLOT_SIZE];
        struct cursor_slot s;
        ssize_t n = io_read(c->journal, fd, b, sizeof b, i * SLOT_DISTANCE);
        if (n < 0)
            return (int)n;
        int r = n == sizeof b ? format_get_slot(b, &s) : E_DAMAGE;
        if (r == E_VERSION)
            return r;
        /* A position that no number can have is damage that the CRC missed: half of the numbers are used. */
        if (r < 0 || s.position > INT64_MAX || (is_valid && s.generation <= c->slot.generation))
            continue;
        c->slot = s;
        is_valid = true;
    }
    c->is_reset = !is_valid;
    return 0;
}

int cursor_load(struct journal *j, const char *name)
{
    struct slice s = slice_str(name);
    if (!slice_ends(s, SLICE_LIT(".cur")))
        return 0;
    s.n -= 4;
    if (!is_good_name(s))
        return 0;
    int fd = io_open(j, name, O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd; /* removed by its writer while we only read */
    struct journal_cursor *c;
    int r = add(j, s, &c);
    if (r == 0)
        r = read_slots(c, fd);
    if (r == 0 && !(j->flags & JOURNAL_READONLY))
        r = io_sync_file(j, fd); /* a process killed in the middle of a move; trimming will rely on it */
    io_close(j, fd);
    return r;
}

static uint64_t smallest(const struct journal *j, bool is_pinned)
{
    uint64_t min = UINT64_MAX;
    for (size_t i = 0; i < j->n_cursors; i++)
        if (j->cursors[i]->is_pinned == is_pinned && j->cursors[i]->slot.position < min)
            min = j->cursors[i]->slot.position;
    return min;
}

uint64_t cursor_min(const struct journal *j)
{
    return smallest(j, false);
}

uint64_t cursor_pinned(const struct journal *j)
{
    return smallest(j, true);
}

void cursor_destroy_all(struct journal *j)
{
    while (j->n_cursors)
        forget(j->cursors[0]);
}

/* Writes the slot that generation falls on. After a failed sync the next move writes the same bytes' place
 * again, on a new descriptor: the sync that follows is for pages that are dirty, not for forgotten ones. */
static int save(struct journal *j, const char *file, const struct cursor_slot *s, int flags)
{
    int fd = io_open(j, file, O_RDWR | flags);
    if (fd < 0)
        return fd;
    unsigned char b[SLOT_SIZE];
    format_put_slot(b, s);
    int r = io_write(j, fd, b, sizeof b, s->generation % 2 * SLOT_DISTANCE);
    if (r == 0)
        r = io_sync_file(j, fd);
    io_close(j, fd);
    return r;
}

static int create(struct journal *j, struct slice name, struct journal_cursor **out)
{
    if (!is_good_name(name))
        return -EINVAL;
    if (j->flags & JOURNAL_READONLY)
        return -ENOENT;
    struct journal_cursor *c;
    int r = add(j, name, &c);
    if (r < 0)
        return r;
    c->slot = (struct cursor_slot){.generation = 1, .position = journal_oldest(j) - 1};
    char file[FILE_NAME_SIZE];
    file_name(file, c->name);
    r = save(j, file, &c->slot, O_CREAT);
    if (r == 0)
        r = io_sync_dir(j, j->dir);
    if (r < 0) {
        (void)j->io->unlink(j->io->ctx, j->dir, file); /* else it is found, empty, at the next open */
        forget(c);
        return r;
    }
    *out = c;
    return 0;
}

int journal_cursor_open(struct journal *j, const char *name, struct journal_cursor **out)
{
    struct journal_cursor *c = find(j, name);
    if (!c)
        return create(j, slice_str(name), out);
    *out = c;
    return 0;
}

/* How many of the numbers above the cursor and up to position were forced out. */
static uint64_t count_lost(const struct journal_cursor *c, uint64_t position)
{
    uint64_t gone = journal_oldest(c->journal) - 1;
    if (gone > position)
        gone = position;
    return gone > c->slot.position ? gone - c->slot.position : 0;
}

int journal_cursor_move(struct journal_cursor *c, uint64_t position)
{
    struct journal *j = c->journal;
    if (j->flags & JOURNAL_READONLY)
        return -EROFS;
    if (position < c->slot.position || position > j->last)
        return -EINVAL;
    if (position == c->slot.position)
        return 0;
    struct cursor_slot s = {c->slot.generation + 1, position, c->slot.lost + count_lost(c, position)};
    char file[FILE_NAME_SIZE];
    file_name(file, c->name);
    int r = save(j, file, &s, 0);
    if (r == 0)
        c->slot = s;
    return r;
}

void journal_cursor_info(const struct journal_cursor *c, struct journal_cursor_info *out)
{
    *out = (struct journal_cursor_info){
        .position = c->slot.position, .lost = c->slot.lost, .is_reset = c->is_reset};
    uint64_t lost = count_lost(c, UINT64_MAX);
    if (lost) {
        out->lost_first = c->slot.position + 1;
        out->lost_last = c->slot.position + lost;
    }
}

void journal_cursor_pin(struct journal_cursor *c)
{
    c->is_pinned = true;
}

int journal_cursor_remove(struct journal_cursor *c)
{
    struct journal *j = c->journal;
    if (j->flags & JOURNAL_READONLY)
        return -EROFS;
    char file[FILE_NAME_SIZE];
    file_name(file, c->name);
    int r = j->io->unlink(j->io->ctx, j->dir, file);
    if (r < 0 && r != -ENOENT)
        return r;
    forget(c);
    return io_sync_dir(j, j->dir);
}
