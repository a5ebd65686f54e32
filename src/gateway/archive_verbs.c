/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/archive_verbs.h"

#include "base/clock.h"
#include "base/text.h"
#include "event/predicate.h"

#include <errno.h>

enum { BASELINE_NAME_MAX = 128 };

static void add_time(struct args_writer *row, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    args_add_text(row, name, slice_of(text, clock_print_iso(text, at_ns)));
}

static void show(void *arg, struct control_turn *t)
{
    const struct gateway_archive *archive = arg;
    struct archived_state s;
    struct args_writer row = {0};
    struct access_view *view = NULL;
    bool is_whole =
        access_view_create(control_who(t), ACCESS_LOOKUP, &view) == 0 && access_view_is_whole(view);
    access_view_destroy(view);
    if (!is_whole) { /* it holds events of every host */
        control_end(t, CONTROL_NOT_ALLOWED, (struct args){0}, "%s",
                    "what the archive holds is for those who may look up everything");
        return;
    }
    archive->state(archive->arg, &s);
    args_add_text(&row, "status", slice_str(s.trouble ? "failed" : "running"));
    if (s.trouble)
        args_add_text(&row, "why", slice_str(err_text(s.trouble)));
    if (s.from_ns || s.to_ns) {
        add_time(&row, "from", s.from_ns);
        add_time(&row, "to", s.to_ns);
    }
    args_add_uint(&row, "names", s.n_names);
    args_add_uint(&row, "partitions", s.partitions);
    args_add_uint(&row, "bytes", s.bytes);
    args_add_uint(&row, "lag_records", s.lag);
    args_add_uint(&row, "overflow_producers", s.n_overflow);
    args_add_text(&row, "dir", slice_str(s.dir));
    args_add_text(&row, "events", s.names);
    if (control_row(t, args_of(&row)))
        control_end(t, CONTROL_DONE, (struct args){0}, "%s", "");
    args_writer_fini(&row);
}

static bool is_name(struct slice s)
{
    return s.n && s.n <= BASELINE_NAME_MAX && text_is_utf8(s) && !text_has_control(s);
}

static bool is_text(struct slice s)
{
    return s.n <= ARCHIVED_TEXT_MAX && text_is_utf8(s) && !text_has_control(s);
}

static int check_where(struct slice where, struct diag *why)
{
    struct predicate *p = NULL;
    int r = where.n ? predicate_compile(where, clock_utc_ns(), &p, why) : 0;
    predicate_destroy(p);
    return r;
}

static void set_baseline(void *arg, struct control_turn *t)
{
    const struct gateway_archive *archive = arg;
    struct args args = control_args(t);
    struct value from = args_value(args, "from"), to = args_value(args, "to");
    struct diag why = {0};
    const struct baseline_order o = {.name = args_text(args, "name"),
                                     .label = args_text(args, "label"),
                                     .where = args_text(args, "where"),
                                     .from_ns = from.i,
                                     .to_ns = to.i};
    if (!is_name(o.name) || !is_text(o.label) || !is_text(o.where))
        control_end(t, CONTROL_USAGE, (struct args){0},
                    "a baseline has a name of 1 to %d bytes, and may have a label and a condition of %d",
                    BASELINE_NAME_MAX, ARCHIVED_TEXT_MAX);
    else if (from.type != VALUE_INT || to.type != VALUE_INT || from.i >= to.i)
        control_end(t, CONTROL_USAGE, (struct args){0}, "%s", "a baseline begins before it ends");
    else if (check_where(o.where, &why) < 0)
        control_end(t, CONTROL_USAGE, (struct args){0}, "the condition, column %u: %s", (unsigned)why.col,
                    why.message);
    else {
        archive->baseline(archive->arg, &o);
        control_end(t, CONTROL_DONE, (struct args){0}, "%s", "");
    }
}

static void remove_baseline(void *arg, struct control_turn *t)
{
    const struct gateway_archive *archive = arg;
    const struct baseline_order o = {.name = args_text(control_args(t), "name"), .is_removal = true};
    if (!is_name(o.name)) {
        control_end(t, CONTROL_USAGE, (struct args){0}, "%s", "which baseline?");
        return;
    }
    archive->baseline(archive->arg, &o);
    control_end(t, CONTROL_DONE, (struct args){0}, "%s", "");
}

static const struct control_verb verbs[] = {{"archive", ACCESS_LOOKUP, show},
                                            {"baseline.set", ACCESS_CONTROL, set_baseline},
                                            {"baseline.remove", ACCESS_CONTROL, remove_baseline}};

int archive_verbs_add(struct control *c, const struct gateway_archive *archive)
{
    control_set_archive(c, archive);
    return control_add(c, verbs, sizeof verbs / sizeof *verbs, (void *)(uintptr_t)archive);
}
