/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/class_verbs.h"

#include "base/log.h"
#include "base/mem.h"
#include "gateway/config.h"

#include <errno.h>
#include <stdio.h>

struct class_verbs {
    const struct class_source *classes;
    const char *given;   /* of the configuration, lines; borrowed */
    uint64_t generation; /* of classes, when the configuration was applied last */
    bool has_waiting;    /* a line whose field has not been seen */
};

static bool has_field(const struct class_source *classes, struct slice event, struct slice field)
{
    struct class_state state;
    return classes->get(classes->arg, event, field, &state);
}

static void set_class(void *arg, struct control_turn *t)
{
    const struct class_verbs *v = arg;
    struct args args = control_args(t);
    struct slice event = args_text(args, "event"), field = args_text(args, "field"), word = args_text(args, "class");
    struct diag why = {0};
    uint8_t class;
    int r = 0;
    if (event.n == 0 || field.n == 0)
        control_end(t, CONTROL_USAGE, (struct args){0}, "%s", "which event, and which field? event, field, class");
    else if (class_parse(word, &class) < 0)
        control_end(t, CONTROL_USAGE, (struct args){0}, "'%.*s' is no class; write number or text", SLICE_ARG(word));
    else if (!access_check(control_who(t), ACCESS_CONTROL, SLICE_LIT(""), event))
        control_end(t, CONTROL_NOT_ALLOWED, (struct args){0}, "you may not set classes of %.*s", SLICE_ARG(event));
    else if (!v->classes)
        control_end(t, CONTROL_FAILED, (struct args){0}, "%s",
                    "this gateway has no archive, which would keep the class; archive.dir says where one is");
    else if (!has_field(v->classes, event, field))
        control_end(t, CONTROL_NOT_FOUND, (struct args){0},
                    "no event %.*s with a field %.*s has been stored; `gridline schemas --fields` lists them", SLICE_ARG(event),
                    SLICE_ARG(field));
    else if ((r = v->classes->set(v->classes->arg, event, field, class, &why)) < 0)
        control_end(t, CONTROL_FAILED, (struct args){0}, "%s", why.message[0] ? why.message : err_text(r));
    else
        control_end(t, CONTROL_DONE, (struct args){0}, "%s", "");
    char what[2 * EVENT_NAME_MAX + 16];
    (void)snprintf(what, sizeof what, "%.*s %.*s %.*s", SLICE_ARG(event), SLICE_ARG(field), SLICE_ARG(word)); /* or cut */
    control_audit(t, "schema.set", slice_str(what));
}

static const struct control_verb verbs[] = {{"schema.set", ACCESS_CONTROL, set_class}};

/* One line; false: its field has not been seen. */
static bool apply(const struct class_source *classes, const struct class_setting *s)
{
    struct class_state state;
    struct diag why = {0};
    if (!classes->get(classes->arg, s->event, s->field, &state))
        return false;
    if (state.class == s->class && state.by == CLASS_BY_HAND)
        return true;
    int r = classes->set(classes->arg, s->event, s->field, s->class, &why);
    if (r < 0)
        log_error("classes: %.*s of %.*s can't be set to %s: %s", SLICE_ARG(s->field), SLICE_ARG(s->event),
                  class_name(s->class), why.message[0] ? why.message : err_text(r));
    return true;
}

static void apply_all(struct class_verbs *v)
{
    struct slice rest = slice_str(v->given ? v->given : "");
    v->has_waiting = false;
    while (v->classes && rest.n) {
        const char *end = memchr(rest.p, '\n', rest.n);
        struct slice line = slice_of(rest.p, end ? (size_t)(end - rest.p) : rest.n);
        struct class_setting s;
        if (gateway_config_class(line, &s) && !apply(v->classes, &s)) /* configuration has looked at them */
            v->has_waiting = true;
        rest = slice_from(rest, line.n + (end ? 1 : 0));
    }
    v->generation = v->classes ? v->classes->generation(v->classes->arg) : 0;
}

int class_verbs_create(struct control *c, const struct class_source *classes, const char *given, struct class_verbs **out)
{
    struct class_verbs *v = mem_try_alloc(sizeof *v);
    int r = v ? control_add(c, verbs, sizeof verbs / sizeof *verbs, v) : -ENOMEM;
    if (r < 0) {
        mem_free(v);
        return r;
    }
    *v = (struct class_verbs){.classes = classes, .given = given};
    if (given && *given && !classes)
        log_error("%s", "classes: this gateway has no archive, which would keep them; they are not applied");
    control_set_classes(c, classes);
    apply_all(v);
    *out = v;
    return 0;
}

void class_verbs_destroy(struct class_verbs *v)
{
    mem_free(v);
}

void class_verbs_tick(struct class_verbs *v)
{
    if (v->has_waiting && v->classes->generation(v->classes->arg) != v->generation)
        apply_all(v);
}
