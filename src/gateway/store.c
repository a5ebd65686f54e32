/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/store.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>

struct store {
    struct journal *journal;
};

static int read_all(struct journal *j, store_each each, void *arg)
{
    struct journal_reader *reader;
    int r = journal_reader_open(j, 0, &reader);
    if (r < 0)
        return r;
    struct journal_item item;
    while ((r = journal_reader_next(reader, &item)) == 0) {
        r = each(arg, &item);
        if (r < 0)
            break;
    }
    journal_reader_close(reader);
    return r == E_NODATA ? 0 : r;
}

int store_open(const char *dir, uint64_t max_bytes, store_each each, void *arg, struct store **out)
{
    struct store *s = mem_try_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    const struct journal_options options = {.flags = JOURNAL_REFUSE, .max_bytes = max_bytes};
    int r = journal_open(dir, &options, &s->journal);
    if (r == 0)
        r = read_all(s->journal, each, arg);
    if (r < 0) {
        store_close(s);
        return r;
    }
    *out = s;
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    journal_close(s->journal);
    mem_free(s);
}

int store_append(struct store *s, enum store_type type, struct slice payload)
{
    return journal_append(s->journal, type, payload, NULL);
}

int store_commit(struct store *s)
{
    int r = journal_commit(s->journal);
    if (r < 0)
        (void)journal_drop(s->journal); /* the senders still have them */
    return r;
}

int store_read(const char *dir, store_each each, void *arg)
{
    struct journal *j;
    const struct journal_options options = {.flags = JOURNAL_READONLY};
    int r = journal_open(dir, &options, &j);
    if (r < 0)
        return r;
    r = read_all(j, each, arg);
    journal_close(j);
    return r;
}
