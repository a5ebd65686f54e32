/* SPDX-License-Identifier: Apache-2.0 */
/* A row of the answer is an action and a row of the table that is about the identity, in the order in which
 * they are looked at, up to the one that fits everything; an action that no row is about is answered with no.
 * So whoever reads them from the top has the answer at the first that fits. */
#include "gateway/access_verb.h"

#include "event/limits.h"
#include "gateway/access_internal.h"

#include <stdio.h>

struct answer {
    struct control_turn *turn;
    const struct access_identity *who;
    bool shows_table; /* whose row it is and where it is written */
    bool is_over;     /* nobody listens */
    struct args_writer row;
};

static void add_from(struct args_writer *row, const struct access_row *of)
{
    struct strbuf text = {0};
    strbuf_add_str(&text, of->file ? of->file : "built in");
    if (of->file && of->line)
        strbuf_printf(&text, ":%u", of->line);
    args_add_text(row, "from", strbuf_slice(&text));
    strbuf_fini(&text);
}

static struct slice or_all(const char *list, const char *all)
{
    return slice_str(*list ? list : all);
}

/* of NULL: no row is about it. */
static void give(struct answer *a, const char *action, const char *may, const struct access_row *of)
{
    args_writer_reset(&a->row);
    args_add_text(&a->row, "action", slice_str(action));
    args_add_text(&a->row, "may", slice_str(may));
    if (of) {
        args_add_text(&a->row, "hosts", or_all(of->hosts, "*"));
        args_add_text(&a->row, "events", or_all(of->events, "*"));
        args_add_text(&a->row, "targets", or_all(of->targets, "*"));
        args_add_text(&a->row, "hide", or_all(of->hide, "-"));
    }
    if (of && a->shows_table) {
        args_add_text(&a->row, "row", slice_str(of->name));
        args_add_text(&a->row, "who", slice_str(of->who));
        add_from(&a->row, of);
    }
    a->is_over = a->is_over || !control_row(a->turn, args_of(&a->row));
}

static void give_action(struct answer *a, enum access_action action)
{
    const struct access *t = access_table_of(a->who);
    const uint32_t bit = ACCESS_BIT(action);
    size_t n = 0;
    bool is_decided = false;
    for (size_t i = 0; i < t->n && !is_decided && !a->is_over; i++) {
        const struct rule *r = &t->rules[i];
        if (!((r->may | r->may_not) & bit) || !access_is_about(r, a->who))
            continue;
        give(a, access_action_name(action), r->may & bit ? "yes" : "no", &r->row);
        is_decided = access_fit(r, &(struct resource){.host.p = NULL}) == FIT_ALL;
        n++;
    }
    if (n == 0 && !a->is_over)
        give(a, access_action_name(action), "no", NULL);
}

static void give_hiding(struct answer *a)
{
    const struct access *t = access_table_of(a->who);
    for (size_t i = 0; i < t->n && !a->is_over; i++)
        if (!(t->rules[i].may | t->rules[i].may_not) && access_is_about(&t->rules[i], a->who))
            give(a, "see", "less", &t->rules[i].row);
}

/* "operator:ann" as somebody; false: that is nobody. */
static bool identity_of(struct slice text, const struct access *table, struct access_identity *out)
{
    struct access_subject s;
    if (!access_parse_who(text, &s) || s.is_everybody || s.name.n > EVENT_ORIGIN_MAX)
        return false;
    *out = (struct access_identity){.kind = s.kind, .uid = s.uid, .table = table};
    (void)snprintf(out->name, sizeof out->name, "%.*s", SLICE_ARG(s.name)); /* fits */
    return true;
}

static void answer_access(void *arg, struct control_turn *t)
{
    struct slice asked = args_text(control_args(t), "who");
    struct access_identity other;
    struct answer a = {.turn = t, .who = control_who(t)};
    a.shows_table = access_allows(a.who, ACCESS_CONTROL, SLICE_LIT(""));
    if (asked.n && !a.shows_table) {
        access_tell_denied(a.who, ACCESS_CONTROL, SLICE_LIT(""), SLICE_LIT(""));
        control_end(t, CONTROL_NOT_ALLOWED, (struct args){0}, "you may ask that of yourself only");
        return;
    }
    if (asked.n && !identity_of(asked, arg, &other)) {
        control_end(t, CONTROL_USAGE, (struct args){0},
                    "that is nobody; write owner, local, local:UID, insecure, agent:NAME, gateway:NAME, "
                    "operator:NAME, "
                    "token:NAME or nobody");
        return;
    }
    a.who = asked.n ? &other : a.who;
    for (unsigned i = 0; i < ACCESS_ACTIONS && !a.is_over; i++)
        give_action(&a, (enum access_action)i);
    give_hiding(&a);
    char who[ACCESS_NAME_MAX + 32];
    args_writer_reset(&a.row);
    args_add_text(&a.row, "who", slice_of(who, access_print(who, sizeof who, a.who)));
    control_end(t, CONTROL_DONE, args_of(&a.row), "%s", "");
    args_writer_fini(&a.row);
}

int access_verb_add(struct control *c, const struct access *table)
{
    static const struct control_verb verbs[] = {{"access", ACCESS_ACTIONS, answer_access}};
    return control_add(c, verbs, 1, (void *)(uintptr_t)table); /* it is only read */
}
