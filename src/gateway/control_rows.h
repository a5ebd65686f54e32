/* SPDX-License-Identifier: Apache-2.0 */
/* control_rows.h - what the gateway itself knows, as rows of named values: its workers, and the accounts of
 * its ledger.
 *
 * In pages: rows come until ROWS_PAGE bytes of them are out (or ROWS_LOOKED workers were looked at), then the
 * asker goes on behind the last one. So an answer fits into a session's output, and a look at 100,000 workers
 * holds the loop for a page at a time. Workers have an order to go on in, their ids. Accounts have none that
 * lasts, so a list of those that are meant is made first: 32 bytes each; half a million take 0.2 s. */
#ifndef GRIDLINE_GATEWAY_CONTROL_ROWS_H
#define GRIDLINE_GATEWAY_CONTROL_ROWS_H

#include "gateway/control_choose.h"
#include "gateway/ledger.h"

#include "directory/directory.h"
#include "event/archived.h"

enum {
    ROWS_PAGE = 96 << 10, /* bytes */
    ROWS_LOOKED = 4096    /* workers looked at for a page, taken or not */
};

struct rows_out {
    void *arg;
    /* false: nobody listens any more, stop. row is borrowed for the call. */
    bool (*take)(void *arg, struct args row);
};

struct rows_end {
    size_t rows;
    bool has_more;
    uint64_t after;
};

/* What is known of hosts. */
struct rows_source {
    struct workers *workers;
    const struct directory *directory; /* NULL = there is none */
    int64_t boot_ns;                   /* now, for ages */
};

/* Workers of the choice with ids above `after`, in the order of ids; then (`after` above UINT32_MAX) hosts
 * that are expected and no workers. choice->failed says whether all could be looked at. -ENOMEM. */
int rows_of_hosts(const struct rows_source *from, struct choice *choice, uint64_t after,
                  const struct rows_out *out, struct rows_end *end);

struct cursors;

struct rows_account {
    struct frame_origin origin;
    uint32_t worker; /* whose producer it is; 0 = no worker's */
};

/* The accounts that are there now, the longest quiet first. */
struct rows_list {
    struct rows_account *v;
    size_t n, at; /* at: the next to be given */
};

/* With patterns only those of workers that match; with a view (NULL = all is seen) only those of workers that
 * it shows: what is no worker's takes one that shows everything. -ENOMEM: *list is empty. rows_list_fini in
 * any case. */
int rows_list_init(struct rows_list *list, const struct ledger *l, struct workers *ws, struct slice patterns,
                   struct access_view *view);
void rows_list_fini(struct rows_list *list);
/* The next page of the list; accounts that were forgotten meanwhile are left out. archived: whose streams are
 * too many for it is said, too; NULL = there is no archive. -ENOMEM. */
int rows_of_accounts(struct rows_list *list, const struct ledger *l, struct workers *ws,
                     const struct archived_state *archived, const struct rows_out *out, struct rows_end *end);
/* Behind the last of them: durable subscriptions that records of the journal gave way to. -ENOMEM. */
int rows_of_cursors(const struct cursors *c, const struct rows_out *out, struct rows_end *end);

#endif
