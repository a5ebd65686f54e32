/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/netstat.h"

#include "sensor/scan.h"

void netstat_fini(struct netstat_group *g)
{
    strbuf_fini(&g->header);
}

static uint16_t find_name(const struct netstat_group *g, struct slice name)
{
    for (size_t i = 0; i < g->n; i++)
        if (slice_eq_str(name, g->names[i]))
            return (uint16_t)i;
    return NETSTAT_UNWANTED;
}

/* Another line of names than the last time. */
static bool learn(struct netstat_group *g, struct slice header)
{
    struct scan s = scan_of(header);
    struct slice name;
    size_t n = 0;
    (void)scan_word(&s); /* the prefix */
    while ((name = scan_word(&s)).n) {
        if (n == NETSTAT_COLUMNS_MAX)
            return false;
        g->at[n++] = find_name(g, name);
    }
    g->n_columns = n;
    strbuf_reset(&g->header);
    strbuf_add_slice(&g->header, header);
    return !strbuf_failed(&g->header);
}

/* The values behind the prefix; false when there are not as many as names. */
static bool take_values(const struct netstat_group *g, struct slice line, struct value *values)
{
    struct scan s = scan_of(line);
    for (size_t i = 0; i < g->n_columns; i++) {
        scan_blanks(&s);
        if (s.p >= s.end)
            return false;
        if (g->at[i] == NETSTAT_UNWANTED)
            (void)scan_word(&s); /* skipped */
        else
            values[g->at[i]] = scan_value(&s);
    }
    return scan_word(&s).n == 0;
}

static void clear(const struct netstat_group *g, struct value *values)
{
    for (size_t i = 0; i < g->n; i++)
        values[i] = value_none();
}

bool netstat_take(struct netstat_group *g, struct slice text, struct value *values)
{
    struct scan s = scan_of(text);
    struct slice header = {"", 0}, line, prefix = slice_str(g->prefix);
    bool is_found = false;
    clear(g, values);
    while (!is_found && scan_line(&s, &header))
        is_found = slice_starts(header, prefix);
    if (!is_found || !scan_line(&s, &line) || (s.p >= s.end && !scan_is_whole(text)) || !slice_starts(line, prefix))
        return false;
    if (!slice_eq(header, strbuf_slice(&g->header)) && !learn(g, header)) {
        strbuf_reset(&g->header); /* matches no line: learnt anew the next time */
        return false;
    }
    if (take_values(g, slice_from(line, prefix.n), values))
        return true;
    clear(g, values);
    return false;
}
