/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/sql_arguments.h"

/* idxNum has a bit for each argument that is given; they come to xFilter in their order. */
int sql_arguments_plan(struct sql_context *c, sqlite3_index_info *info, int first, int required, int n,
                       const char *usage)
{
    int at[SQL_ARGUMENTS_MAX];
    bool is_late = false;
    for (int i = 0; i < n; i++)
        at[i] = -1;
    for (int i = 0; i < info->nConstraint; i++) {
        int argument = info->aConstraint[i].iColumn - first;
        if (argument < 0 || argument >= n || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (info->aConstraint[i].usable)
            at[argument] = i;
        else
            is_late = true;
    }
    if (is_late)
        return SQLITE_CONSTRAINT; /* another order of the join has it */
    info->idxNum = 0;
    for (int i = 0, given = 0; i < n; i++) {
        if (at[i] < 0 && i < required)
            return sql_fail_text(c, E_PROTO, "%s", usage);
        if (at[i] < 0)
            continue;
        info->aConstraintUsage[at[i]].argvIndex = ++given;
        info->aConstraintUsage[at[i]].omit = 1;
        info->idxNum |= 1 << i;
    }
    return SQLITE_OK;
}

void sql_arguments_take(int plan, int argc, sqlite3_value **argv, sqlite3_value **out, int n)
{
    for (int i = 0, given = 0; i < n; i++) {
        out[i] = plan >> i & 1 && given < argc ? argv[given++] : NULL;
        if (out[i] && sqlite3_value_type(out[i]) == SQLITE_NULL)
            out[i] = NULL;
    }
}

struct slice sql_argument_text(sqlite3_value *v)
{
    const char *p = v ? (const char *)sqlite3_value_text(v) : NULL;
    return p ? slice_of(p, (size_t)sqlite3_value_bytes(v)) : SLICE_LIT("");
}
