/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/subscription_verbs.h"

#include "base/clock.h"
#include "gateway/api_position.h"

#include <errno.h>

static const char no_such_name[] =
    "there is no durable subscription of that name; `gridline subscriptions` lists them";

struct listing {
    struct control_turn *turn;
    struct slice durable; /* only the one of this name; "" = all */
    bool shows_all; /* else only the asker's own: filters tell what others look for */
    struct args_writer row;
    uint64_t rows, after; /* number of those that were given before */
    bool is_over, has_more;
};

static void add_position(struct args_writer *row, struct position p)
{
    char text[POSITION_TEXT_MAX];
    args_add_text(row, "position", slice_of(text, position_print(text, p)));
}

/* false: this row was given before, or the page is full. */
static bool begin_row(struct listing *l)
{
    if (l->rows++ < l->after || l->is_over)
        return false;
    if (control_given(l->turn) > CONTROL_PAGE) {
        l->rows--;
        l->is_over = l->has_more = true;
        return false;
    }
    args_writer_reset(&l->row);
    return true;
}

static void add_lag(struct args_writer *row, const struct subscription_lag *lag)
{
    const struct cursor_mark *m = lag->mark;
    char text[CLOCK_TEXT_MAX];
    args_add_text(row, "holder", slice_str(m->holder));
    args_add_text(row, "last_seen", slice_of(text, clock_print_iso(text, m->used_ns)));
    args_add_uint(row, "lag_records", lag->records);
    args_add_uint(row, "lag_bytes", lag->bytes);
    args_add(row, SLICE_LIT("lag_seconds"), value_float((double)lag->ns / 1e9));
    args_add_uint(row, "hold", lag->hold);
    args_add_uint(row, "gone_records", m->gone);
    args_add_uint(row, "refilled", m->refilled);
    args_add_uint(row, "gap_events", m->lost);
    args_add_uint(row, "gap_records", m->lost_records);
}

static void list_one(void *arg, const struct subscription_info *i)
{
    struct listing *l = arg;
    char who[ACCESS_NAME_MAX + 32];
    if (!l->shows_all && !access_same_identity(i->subscriber->who, control_who(l->turn)))
        return;
    if ((l->durable.n && !slice_eq(i->durable, l->durable)) || !begin_row(l))
        return;
    args_add_text(&l->row, "consumer", slice_str(i->subscriber->name ? i->subscriber->name : ""));
    args_add_text(&l->row, "who", slice_of(who, access_print(who, sizeof who, i->subscriber->who)));
    args_add_uint(&l->row, "id", i->id);
    args_add_text(&l->row, "event", i->events);
    args_add_text(&l->row, "host", i->hosts);
    args_add_text(&l->row, "where", i->where);
    args_add_text(&l->row, "durable", i->durable);
    args_add_text(&l->row, "state", slice_str(i->is_replaying ? "replaying" : "live"));
    args_add_uint(&l->row, "given", i->given);
    args_add_uint(&l->row, "filtered", i->filtered);
    args_add_uint(&l->row, "lost", i->lost);
    args_add_uint(&l->row, "queued_bytes", i->queued_bytes);
    add_position(&l->row, i->position);
    if (i->lag.mark)
        add_lag(&l->row, &i->lag);
    l->is_over = !control_row(l->turn, args_of(&l->row));
}

/* A durable one that nobody reads by. */
static void list_away(void *arg, const struct subscription_lag *lag)
{
    struct listing *l = arg;
    bool is_other = l->durable.n && !slice_eq_str(l->durable, lag->mark->name);
    if (lag->mark->owner || is_other || (!l->shows_all && !lag->is_own) || !begin_row(l))
        return;
    args_add_text(&l->row, "durable", slice_str(lag->mark->name));
    args_add_text(&l->row, "state", SLICE_LIT("away"));
    add_position(&l->row, lag->mark->position);
    add_lag(&l->row, lag);
    l->is_over = !control_row(l->turn, args_of(&l->row));
}

/* The page ends where it does; what was added or has left meanwhile can shift the next one. */
static void list(void *arg, struct control_turn *t)
{
    struct listing l = {.turn = t,
                        .durable = args_text(control_args(t), "durable"),
                        .shows_all = access_allows(control_who(t), ACCESS_CONTROL, SLICE_LIT("")),
                        .after = args_uint(control_args(t), "after", 0)};
    subscriptions_each(arg, list_one, &l);
    subscriptions_each_durable(arg, control_who(t), list_away, &l);
    args_writer_reset(&l.row);
    if (l.durable.n && l.rows == 0) {
        control_end(t, CONTROL_NOT_FOUND, args_of(&l.row), "%s", no_such_name);
        return;
    }
    args_add_uint(&l.row, "rows", l.rows - (l.after < l.rows ? l.after : l.rows));
    if (l.has_more)
        args_add_uint(&l.row, "after", l.rows);
    control_end(t, CONTROL_DONE, args_of(&l.row), "%s", "");
    args_writer_fini(&l.row);
}

static void remove_durable(void *arg, struct control_turn *t)
{
    struct slice name = args_text(control_args(t), "durable");
    int r = subscriptions_remove_durable(arg, name, control_who(t));
    struct args_writer row = {0};
    args_add_text(&row, "durable", name);
    args_add_text(&row, "state", SLICE_LIT("deleted"));
    if (r == 0) {
        (void)control_row(t, args_of(&row)); /* false: nobody listens any more */
        control_end(t, CONTROL_DONE, (struct args){0}, "%s", "");
    } else if (r == -EBUSY)
        control_end(t, CONTROL_FAILED, (struct args){0}, "%s",
                    "a consumer reads by that name now; stop it first");
    else if (r == -EACCES)
        control_end(t, CONTROL_NOT_ALLOWED, (struct args){0}, "%s",
                    "it is somebody else's: only its holder and those who may control can delete it");
    else
        control_end(t, CONTROL_NOT_FOUND, (struct args){0}, "%s", no_such_name);
    args_writer_fini(&row);
}

/* For consumers by HTTP: `position` is one that was given with events. */
static void move_durable(void *arg, struct control_turn *t)
{
    struct slice name = args_text(control_args(t), "durable");
    struct position p;
    bool is_elsewhere;
    struct slice text =
        api_position_from(args_text(control_args(t), "position"), subscriptions_journal(arg), &is_elsewhere);
    int r = is_elsewhere || !position_parse(text, &p)
                ? E_PROTO
                : subscriptions_consumed_durable(arg, name, p, control_who(t));
    if (r == 0)
        control_end(t, CONTROL_DONE, (struct args){0}, "%s", "");
    else if (r == E_NODATA)
        control_end(t, CONTROL_NOT_FOUND, (struct args){0}, "%s", no_such_name);
    else
        control_end(t, CONTROL_USAGE, (struct args){0}, "%s",
                    "position: one that was given with events, here");
}

static const struct control_verb verbs[] = {{"subscriptions", ACCESS_LOOKUP, list},
                                            {"subscription.remove", ACCESS_SUBSCRIBE, remove_durable},
                                            {"subscription.consumed", ACCESS_SUBSCRIBE, move_durable}};

int subscription_verbs_add(struct control *c, struct subscriptions *all)
{
    return control_add(c, verbs, sizeof verbs / sizeof *verbs, all);
}
