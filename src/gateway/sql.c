/* SPDX-License-Identifier: Apache-2.0 */
/* A view (access.h) belongs to one query: it is made here, on the loop, asked on the query's thread alone,
 * and destroyed on the loop. The table behind it does not change while the gateway runs. */
#include "gateway/sql.h"

#include <errno.h>

static bool may_table(void *view, struct slice event)
{
    return access_view_shows(view, SLICE_LIT(""), event);
}

static bool may_stream(void *view, struct slice event, struct slice host)
{
    return access_view_certain(view, host, event);
}

static bool may_field(void *view, struct slice event, struct slice host, struct slice field)
{
    return access_view_certain_field(view, host, event, field);
}

static void destroy_view(void *view)
{
    access_view_destroy(view);
}

static int make_access(const struct access_identity *who, struct query_access *out)
{
    struct access_view *view = NULL;
    int r = access_view_create(who, ACCESS_QUERY, &view);
    if (r == 0 && view)
        *out = (struct query_access){may_table, may_stream, may_field, destroy_view, view};
    return r;
}

int sql_ask(const struct query_ops *ops, struct query_asker *a, const struct access_identity *who,
            const struct query_text *text, struct query **out, struct diag *why)
{
    int r = 0;
    if (!ops)
        return diag_set(why, -ENOTSUP, 0, "this gateway keeps no archive");
    a->access = (struct query_access){0};
    r = make_access(who, &a->access);
    if (r == -EACCES) {
        access_tell_denied(who, ACCESS_QUERY, SLICE_LIT(""), SLICE_LIT(""));
        return diag_set(why, r, 0, "you may not query events here");
    }
    if (r < 0)
        return diag_set(why, r, 0, "%s", err_text(r));
    a->who = who;
    a->who_size = sizeof *who;
    struct query *q = ops->ask(ops->arg, a, text, &r, why);
    if (!q)
        return r;
    *out = q;
    return 0;
}

enum control_status sql_status(int r)
{
    switch (r) {
    case 0:
        return CONTROL_DONE;
    case -EACCES:
        return CONTROL_NOT_ALLOWED;
    case E_PROTO:
        return CONTROL_USAGE;
    case -ENOENT:
    case -ENOTSUP:
        return CONTROL_NOT_FOUND;
    default:
        return CONTROL_FAILED;
    }
}
