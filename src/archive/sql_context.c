/* SPDX-License-Identifier: Apache-2.0 */
/* sql_context.c - what tables do through the statement that runs: what may be seen, errors, scans. */
#include "archive/sql_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>

bool sql_may_table(const struct sql_context *c, struct slice event)
{
    return !c->access || !c->access->may_table || c->access->may_table(c->access->arg, event);
}

bool sql_may_stream(const struct sql_context *c, struct slice event, struct slice host)
{
    return !c->access || !c->access->may_stream || c->access->may_stream(c->access->arg, event, host);
}

bool sql_may_field(const struct sql_context *c, struct slice event, struct slice host, struct slice field)
{
    return !c->access || !c->access->may_field || c->access->may_field(c->access->arg, event, host, field);
}

/* ---------------------------------------------------------------- errors */

static int sqlite_code(int r)
{
    switch (r) {
    case -ETIMEDOUT:
    case -ECANCELED:
        return SQLITE_INTERRUPT;
    case -ENOMEM:
        return SQLITE_NOMEM;
    case E_LIMIT:
        return SQLITE_FULL;
    default:
        return SQLITE_ERROR;
    }
}

int sql_fail(struct sql_context *c, int r)
{
    if (c->failed == 0) {
        c->failed = r;
        c->failure = (struct diag){0};
    }
    return sqlite_code(r);
}

int sql_fail_text(struct sql_context *c, int r, const char *format, ...)
{
    if (c->failed == 0) {
        va_list ap;
        c->failed = r;
        c->failure = (struct diag){0};
        va_start(ap, format);
        /* cut to fit is fine for a message */
        (void)vsnprintf(c->failure.message, sizeof c->failure.message, format, ap);
        va_end(ap);
    }
    return sqlite_code(r);
}

int sql_error(const struct sql_context *c, int code)
{
    if (c->memory.is_over)
        return E_LIMIT;
    if (c->failed < 0)
        return c->failed;
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_IOERR:
        return -EIO;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return E_DAMAGE;
    case SQLITE_TOOBIG:
        return E_LIMIT;
    case SQLITE_AUTH:
        return -EACCES;
    default:
        return E_PROTO;
    }
}

int sql_declare(struct sql_context *c, const struct strbuf *text)
{
    if (strbuf_failed(text))
        return SQLITE_NOMEM;
    c->is_declaring = true;
    int r = sqlite3_declare_vtab(c->db, text->p);
    c->is_declaring = false;
    return r;
}

/* ---------------------------------------------------------------- scans */

void sql_asks(struct sql_context *c, struct slice event, int64_t from_ns, int64_t to_ns, enum missing_of of)
{
    struct sql_account *before = sql_memory_enter(NULL);
    missing_see(&c->missing, c->view, event, from_ns, to_ns < c->until_ns ? to_ns : c->until_ns, of);
    (void)sql_memory_enter(before);
}

void sql_seen(struct sql_context *c, uint64_t rows)
{
    c->rows_seen += rows;
    if (c->progress)
        atomic_store_explicit(c->progress, c->rows_seen, memory_order_relaxed);
}

int sql_scan_open(struct sql_context *c, const struct scan_spec *spec, struct scan **out)
{
    struct sql_account *before = sql_memory_enter(NULL);
    int r = sql_check(c);
    if (r == 0)
        r = scan_open(c->view, spec, out);
    (void)sql_memory_enter(before);
    return r;
}

int sql_scan_next(struct sql_context *c, struct scan *s, struct scan_chunk *out)
{
    struct sql_account *before = sql_memory_enter(NULL);
    int r = sql_check(c);
    if (r == 0)
        r = scan_next(s, out);
    (void)sql_memory_enter(before);
    return r;
}

int sql_scan_read(struct sql_context *c, struct scan *s, unsigned what, const uint16_t *want, size_t n_want,
                  struct rows *out)
{
    (void)c; /* what is decoded is the cursor's to charge: only it knows what it keeps */
    struct sql_account *before = sql_memory_enter(NULL);
    int r = scan_read(s, what, want, n_want, out);
    (void)sql_memory_enter(before);
    return r;
}

static void count_beyond(uint64_t *total, uint64_t *counted, uint64_t now)
{
    if (now <= *counted)
        return;
    *total += now - *counted;
    *counted = now;
}

void sql_scan_close(struct sql_context *c, struct scan *s, struct scan_loss *counted)
{
    if (!s)
        return;
    struct sql_account *before = sql_memory_enter(NULL);
    struct scan_loss loss = scan_damaged(s);
    scan_close(s);
    (void)sql_memory_enter(before);
    count_beyond(&c->loss.rows, &counted->rows, loss.rows);
    count_beyond(&c->loss.chunks, &counted->chunks, loss.chunks);
    count_beyond(&c->loss.blobs, &counted->blobs, loss.blobs);
}
