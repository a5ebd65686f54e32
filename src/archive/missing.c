/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/missing.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum { EACH = 4 }; /* so many event names are said one by one, more of them together */

static struct missing_name *name_of(struct missing *m, struct slice name)
{
    for (size_t i = 0; i < m->n; i++)
        if (slice_eq_str(name, m->names[i].name))
            return &m->names[i];
    if (!m->names)
        m->names = mem_try_alloc(MISSING_NAMES * sizeof *m->names);
    if (!m->names || m->n == MISSING_NAMES || name.n > EVENT_NAME_MAX) {
        m->left_out++;
        return NULL;
    }
    struct missing_name *new = &m->names[m->n++];
    *new = (struct missing_name){.since_ns = INT64_MAX};
    memcpy(new->name, name.p, name.n);
    return new;
}

/* The first time from which on a tier has rows of [from, to): to, if none has. Tiers go oldest first. */
static int64_t first_tier(const struct view *v, int64_t from_ns, int64_t to_ns)
{
    int64_t first = to_ns;
    for (size_t i = 0; i < view_partitions(v); i++) {
        struct partition_span s = view_partition_at(v, i);
        if (s.step_ns && s.to_ns > from_ns && s.from_ns < first)
            first = s.from_ns;
    }
    return first > from_ns ? first : from_ns;
}

static void see_gone(struct missing *m, const struct view *v, const struct deleted *g, int64_t from_ns,
                     int64_t to_ns, enum missing_of of)
{
    int64_t from = g->from_ns > from_ns ? g->from_ns : from_ns;
    int64_t to = g->to_ns - 1 < to_ns ? g->to_ns : to_ns + 1;
    if (from >= to)
        return;
    int64_t tier = first_tier(v, from, to);
    to = of == MISSING_FOLDED ? tier : to;
    struct missing_name *name = from < to ? name_of(m, g->name) : NULL;
    if (!name)
        return;
    bool is_new = name->from_ns == name->to_ns;
    name->from_ns = is_new || from < name->from_ns ? from : name->from_ns;
    name->to_ns = is_new || to > name->to_ns ? to : name->to_ns;
    name->why = g->why;
    name->has_tier = tier < to;
}

void missing_see(struct missing *m, const struct view *v, struct slice name, int64_t from_ns, int64_t to_ns,
                 enum missing_of of)
{
    for (size_t i = 0; of != MISSING_NEWEST && i < view_gone(v); i++) {
        struct deleted g = view_gone_at(v, i);
        if (g.step_ns == 0 && slice_eq(g.name, name))
            see_gone(m, v, &g, from_ns, to_ns, of);
    }
    for (size_t i = 0; i < view_unflushed(v); i++) {
        struct unflushed u = view_unflushed_at(v, i);
        bool is_asked = slice_eq(u.name, name) && u.from_ns <= to_ns && u.to_ns >= from_ns;
        struct missing_name *at = is_asked ? name_of(m, name) : NULL;
        if (!at)
            continue;
        at->unflushed = u.rows;
        at->since_ns = u.from_ns < at->since_ns ? u.from_ns : at->since_ns;
    }
    int64_t behind_ns = view_behind(v);
    if (behind_ns && to_ns > behind_ns)
        m->behind_ns = behind_ns;
}

/* ---------------------------------------------------------------- saying it */

/* "3 h", "2 d 4 h", "50 s": two places at most, the rest is cut off. */
static void print_duration(char *to, size_t room, int64_t ns)
{
    static const struct {
        const char *unit;
        int64_t s;
    } units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
    int64_t s = (ns + NS_PER_S / 2) / NS_PER_S;
    size_t i = 0;
    while (i < 3 && s < units[i].s)
        i++;
    int64_t rest = i < 3 ? s % units[i].s / units[i + 1].s : 0;
    int n = snprintf(to, room, "%" PRId64 " %s", s / units[i].s, units[i].unit);
    if (rest && n > 0 && (size_t)n < room)
        (void)snprintf(to + n, room - (size_t)n, " %" PRId64 " %s", rest, units[i + 1].unit); /* fits */
}

static const char *why_text(uint8_t why)
{
    return why == GONE_AGE ? "age" : why == GONE_SIZE ? "size limit" : "full disk";
}

static void print_time(char to[CLOCK_TEXT_MAX], int64_t ns)
{
    if (clock_print_iso(to, ns) > 20)
        memcpy(to + 19, "Z", 2); /* without its fraction */
}

static void say_gone(const struct missing_name *m, struct notices *out)
{
    char from[CLOCK_TEXT_MAX], gone[48];
    print_time(from, m->to_ns);
    print_duration(gone, sizeof gone, m->to_ns - m->from_ns);
    notices_add(out, "retention", "%s: data from %s on; %s deleted by retention (%s)%s", m->name, from, gone,
                why_text(m->why), m->has_tier ? "; NAME_bucket has folded values of it" : "");
}

static void say_unflushed(const struct missing_name *m, struct notices *out)
{
    char since[CLOCK_TEXT_MAX];
    print_time(since, m->since_ns);
    notices_add(out, "unflushed",
                "%s: %" PRIu64 " rows from %s on are not in these files, only in the memory and journal of "
                "the gateway that writes them; ask it (--gateway) to see them",
                m->name, m->unflushed, since);
}

/* "cpu, disk, load and 9 more" */
static void put_names(const struct missing *m, bool is_gone, char *to, size_t room)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct missing_name *name = &m->names[i];
        if (is_gone ? name->from_ns == name->to_ns : !name->unflushed)
            continue;
        if (n++ < EACH - 1)
            at += (size_t)snprintf(to + at, room - at, "%s%.24s", n > 1 ? ", " : "", name->name);
    }
    (void)snprintf(to + at, room - at, " and %zu more", n - (EACH - 1) + m->left_out); /* fits */
}

static void say_gone_together(const struct missing *m, struct notices *out)
{
    char names[NOTICE_TEXT_MAX / 2], from[CLOCK_TEXT_MAX], gone[48];
    int64_t from_ns = INT64_MAX, to_ns = INT64_MIN;
    uint8_t why = 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct missing_name *name = &m->names[i];
        if (name->from_ns == name->to_ns)
            continue;
        from_ns = name->from_ns < from_ns ? name->from_ns : from_ns;
        to_ns = name->to_ns > to_ns ? name->to_ns : to_ns;
        why = name->why;
    }
    put_names(m, true, names, sizeof names);
    print_time(from, to_ns);
    print_duration(gone, sizeof gone, to_ns - from_ns);
    notices_add(out, "retention", "%s: all data from %s on; up to %s deleted by retention (%s)", names, from,
                gone, why_text(why));
}

static void say_unflushed_together(const struct missing *m, struct notices *out)
{
    char names[NOTICE_TEXT_MAX / 2];
    uint64_t rows = 0;
    for (size_t i = 0; i < m->n; i++)
        rows += m->names[i].unflushed;
    put_names(m, false, names, sizeof names);
    notices_add(out, "unflushed",
                "%s: %" PRIu64 " rows are not in these files, only in the memory and journal of the gateway "
                "that writes them",
                names, rows);
}

void missing_say(const struct missing *m, struct notices *out)
{
    size_t n_gone = 0, n_unflushed = 0;
    for (size_t i = 0; i < m->n; i++) {
        n_gone += m->names[i].from_ns < m->names[i].to_ns;
        n_unflushed += m->names[i].unflushed > 0;
    }
    for (size_t i = 0; i < m->n; i++) {
        const struct missing_name *name = &m->names[i];
        if (n_gone <= EACH && name->from_ns < name->to_ns)
            say_gone(name, out);
        if (n_unflushed <= EACH && name->unflushed)
            say_unflushed(name, out);
    }
    if (n_gone > EACH)
        say_gone_together(m, out);
    if (n_unflushed > EACH)
        say_unflushed_together(m, out);
    if (m->behind_ns) {
        char at[CLOCK_TEXT_MAX];
        print_time(at, m->behind_ns);
        notices_add(out, "lag", "the archive is behind: events received after %s are not in the answer yet",
                    at);
    }
}

void missing_fini(struct missing *m)
{
    mem_free(m->names);
    *m = (struct missing){0};
}
