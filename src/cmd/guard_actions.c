/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/guard_actions.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/program.h"
#include "guard/guard.h"

#include <errno.h>
#include <poll.h>

#define CHECK_NS (10 * NS_PER_S)

int guard_actions_find(const struct guard_config *c, struct strbuf *act, struct diag *why)
{
    int r = 0;
    if (*c->act)
        strbuf_add_str(act, c->act);
    else
        r = program_find("gridline-act", act);
    if (r < 0 && c->n_actions == 0)
        return 0;
    return r < 0 ? diag_set(why, r, 0,
                            "gridline-act is neither beside this program nor where it is installed: %s",
                            err_text(r))
                 : 0;
}

/* gridline-act --check -- ACTUATOR NAME=VALUE...; texts hold the words that are made here. */
struct words {
    const char **argv;
    struct strbuf *texts;
    size_t n, n_texts;
};

static void words_fini(struct words *w)
{
    for (size_t i = 0; i < w->n_texts; i++)
        strbuf_fini(&w->texts[i]);
    mem_free(w->texts);
    mem_free(w->argv);
}

static void words_init(struct words *w, const char *act, const struct action_config *a)
{
    size_t all = 0;
    for (size_t i = 0; i < a->n_settings; i++)
        all += a->settings[i].n;
    *w = (struct words){.argv = mem_alloc((all + 6) * sizeof *w->argv),
                        .texts = mem_alloc((all + 1) * sizeof *w->texts)};
    const char *const first[] = {act, "--check", "--", a->actuator};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        w->argv[w->n++] = first[i];
    for (size_t i = 0; i < a->n_settings; i++)
        for (size_t k = 0; k < a->settings[i].n; k++) {
            struct strbuf *text = &w->texts[w->n_texts++];
            strbuf_printf(text, "%s=%s", a->settings[i].name, a->settings[i].texts[k]);
            w->argv[w->n++] = strbuf_slice(text).p;
        }
}

static int wait_for_end(struct child *c, const struct action_config *a, struct diag *why)
{
    struct pollfd fd = {.fd = child_wait_fd(c), .events = POLLIN};
    while (child_pump(c, clock_mono_ns()))
        (void)poll(&fd, 1, -1); /* its limit of time makes it readable, too */
    const struct child_end *e = child_end(c);
    if (e->reason == CHILD_BY_ITSELF && e->code == 0)
        return 0;
    const char *said = child_said(c);
    return diag_set(why, -EINVAL, 0, "action %.60s: %s", a->name,
                    *said ? said : "gridline-act can't check it");
}

int guard_actions_check(const struct guard_config *c, const char *act, struct diag *why)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < c->n_actions; i++) {
        struct words words;
        struct child *child;
        words_init(&words, act, &c->actions[i]);
        const struct child_options options = {.argv = words.argv, .max_run_ns = CHECK_NS};
        r = child_start(&options, clock_mono_ns(), &child, why);
        if (r == 0) {
            r = wait_for_end(child, &c->actions[i], why);
            child_destroy(child);
        }
        words_fini(&words);
    }
    return r;
}

int guard_check_all(const struct guard_config *c, struct diag *why)
{
    struct strbuf act = {0};
    int r = guard_check(c, why);
    if (r == 0)
        r = guard_actions_find(c, &act, why);
    if (r == 0)
        r = guard_actions_check(c, strbuf_slice(&act).p, why);
    strbuf_fini(&act);
    return r;
}
