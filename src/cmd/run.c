/* SPDX-License-Identifier: Apache-2.0 */
/* The merge is a tree of losers (Knuth 5.4.1): leaf i is run i, each inner node keeps the loser of the match
 * played there, and the winner of all is at the top. The next record replaces the winner's leaf and plays its
 * way up: log2(n) comparisons, each with one other node. A run at its end has the highest key and a rank
 * behind every other run's. */
#include "cmd/run.h"

#include "base/err.h"
#include "base/mem.h"
#include "cmd/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { WRITE_SIZE = 256 << 10, READ_SIZE = 256 << 10, BUFFER_MAX = 4 << 20, GIVE_BACK = 4 << 20 };

void run_close(struct run *r)
{
    (void)close(r->fd); /* nothing of value is in it */
}

int run_writer_open(struct run_writer *w, unsigned level)
{
    int fd = file_open_temp();
    if (fd < 0)
        return fd;
    *w = (struct run_writer){.run = {.fd = fd, .level = level}};
    return 0;
}

static int write_out(struct run_writer *w)
{
    int r = file_write_all(w->run.fd, strbuf_slice(&w->buffer));
    strbuf_reset(&w->buffer);
    return r;
}

int run_writer_add(struct run_writer *w, uint64_t key, struct slice record)
{
    if (w->buffer.n + RUN_HEAD + record.n > WRITE_SIZE) {
        int r = write_out(w);
        if (r < 0)
            return r;
    }
    uint32_t n = (uint32_t)record.n;
    char *to = strbuf_room(&w->buffer, w->buffer.n ? RUN_HEAD + record.n : WRITE_SIZE + RUN_HEAD + record.n);
    if (!to)
        return -ENOMEM;
    memcpy(to, &key, 8);
    memcpy(to + 8, &n, 4);
    memcpy(to + RUN_HEAD, record.p, record.n);
    strbuf_advance(&w->buffer, RUN_HEAD + record.n);
    return 0;
}

int run_writer_close(struct run_writer *w, int result, struct run *out)
{
    if (result == 0)
        result = write_out(w);
    strbuf_fini(&w->buffer);
    if (result < 0)
        run_close(&w->run);
    else
        *out = w->run;
    return result;
}

struct reader {
    int fd;
    uint64_t offset; /* of the next byte to read from the file */
    uint64_t kept;   /* the file's bytes before this one have been given back */
    char *buffer;
    size_t cap, from, to; /* buffer[from, to) is not yet used */
    struct slice record;  /* the one in the tree */
};

struct leaf {
    uint64_t key;
    uint32_t rank; /* the run's number; + AT_END behind its last record */
};
#define AT_END (UINT32_C(1) << 31)

struct run_merge {
    size_t n;
    struct reader *readers;
    struct leaf *leaves;
    uint32_t *losers; /* of the inner nodes 1 .. n-1 */
    uint32_t winner;
    bool started;
};

/* What has been read is read once: its pages and blocks can serve the file that is being written. Halves the
 * memory and the disk that a merge takes from the machine, and with it most of the kernel's work. */
static void give_back(struct reader *r)
{
    if (r->offset - r->kept < GIVE_BACK)
        return;
    (void)fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)r->kept,
                    (off_t)(r->offset - r->kept)); /* only thrift */
    r->kept = r->offset;
}

/* At least n bytes at r->from, unless the file ends: then fewer. */
static int fill(struct reader *r, size_t n)
{
    memmove(r->buffer, r->buffer + r->from, r->to - r->from);
    r->to -= r->from;
    r->from = 0;
    size_t want = n - r->to > READ_SIZE ? n - r->to : READ_SIZE;
    if (want > r->cap - r->to)
        want = r->cap - r->to;
    ssize_t got = file_read_at(r->fd, r->buffer + r->to, want, r->offset);
    if (got < 0)
        return (int)got;
    r->offset += (uint64_t)got;
    r->to += (size_t)got;
    give_back(r);
    return 0;
}

/* The next record of run i into its leaf. */
static int advance(struct run_merge *m, uint32_t i)
{
    struct reader *r = &m->readers[i];
    uint32_t n;
    int rc;
    if (r->to - r->from < RUN_HEAD && (rc = fill(r, RUN_HEAD)) < 0)
        return rc;
    if (r->to == r->from) {
        m->leaves[i] = (struct leaf){UINT64_MAX, i + AT_END};
        return 0;
    }
    if (r->to - r->from < RUN_HEAD)
        return E_DAMAGE;
    memcpy(&m->leaves[i].key, r->buffer + r->from, 8);
    memcpy(&n, r->buffer + r->from + 8, 4);
    if (n > SORTER_RECORD_MAX)
        return E_DAMAGE;
    if (r->to - r->from < RUN_HEAD + (size_t)n && (rc = fill(r, RUN_HEAD + (size_t)n)) < 0)
        return rc;
    if (r->to - r->from < RUN_HEAD + (size_t)n)
        return E_DAMAGE;
    r->record = slice_of(r->buffer + r->from + RUN_HEAD, n);
    r->from += RUN_HEAD + n;
    return 0;
}

/* Without a branch: which of two runs goes first is anybody's guess, the processor's too. */
static inline bool goes_first(const struct leaf *a, const struct leaf *b)
{
    return (a->key < b->key) | ((a->key == b->key) & (a->rank < b->rank));
}

/* Leaf i has a new key: it plays from its place to the top. */
static void play(struct run_merge *m, uint32_t i)
{
    for (size_t node = (i + m->n) / 2; node > 0; node /= 2) {
        uint32_t other = m->losers[node];
        bool other_wins = goes_first(&m->leaves[other], &m->leaves[i]);
        uint32_t swap = (other ^ i) & (0 - (uint32_t)other_wins);
        m->losers[node] = other ^ swap;
        i ^= swap;
    }
    m->winner = i;
}

/* The first round: the winner of the matches below node. */
static uint32_t play_all(struct run_merge *m, size_t node)
{
    if (node >= m->n)
        return (uint32_t)(node - m->n);
    uint32_t a = play_all(m, 2 * node), b = play_all(m, 2 * node + 1);
    bool a_wins = goes_first(&m->leaves[a], &m->leaves[b]);
    m->losers[node] = a_wins ? b : a;
    return a_wins ? a : b;
}

int run_merge_create(const struct run *runs, size_t n, char *memory, size_t size, struct run_merge **out)
{
    assert(n >= 1 && size / n >= RUN_BUFFER_MIN);
    struct run_merge *m = mem_try_alloc(sizeof *m);
    if (!m)
        return -ENOMEM;
    m->n = n;
    m->readers = mem_try_alloc(n * sizeof *m->readers);
    m->leaves = mem_try_alloc(n * sizeof *m->leaves);
    m->losers = mem_try_alloc(n * sizeof *m->losers);
    int r = m->readers && m->leaves && m->losers ? 0 : -ENOMEM;
    size_t cap = size / n < BUFFER_MAX ? size / n : BUFFER_MAX;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        m->readers[i] = (struct reader){.fd = runs[i].fd, .buffer = memory + i * cap, .cap = cap};
        m->leaves[i].rank = i;
        r = advance(m, i);
    }
    if (r < 0) {
        run_merge_destroy(m);
        return r;
    }
    m->winner = n > 1 ? play_all(m, 1) : 0;
    *out = m;
    return 0;
}

void run_merge_destroy(struct run_merge *m)
{
    if (!m)
        return;
    mem_free(m->readers);
    mem_free(m->leaves);
    mem_free(m->losers);
    mem_free(m);
}

/* The winner's record was lent out by the last call: only now may its buffer move. */
int run_merge_next(struct run_merge *m, uint64_t *key, struct slice *record)
{
    if (m->started) {
        int r = advance(m, m->winner);
        if (r < 0)
            return r;
        play(m, m->winner);
    }
    const struct leaf *top = &m->leaves[m->winner];
    m->started = true;
    if (top->rank >= AT_END) {
        m->started = false; /* asking again gives the same answer */
        return 0;
    }
    *key = top->key;
    *record = m->readers[m->winner].record;
    return 1;
}
