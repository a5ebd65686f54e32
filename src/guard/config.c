/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: what depends on who runs the guard and on other keys. */
#include "guard/config_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

const char *severity_name(enum severity s)
{
    static const char *const names[] = {"info", "warning", "error", "critical"};
    return names[s];
}

static const char *system_host(struct config_load *l)
{
    char name[256];
    if (gethostname(name, sizeof name) < 0)
        return "localhost";
    name[sizeof name - 1] = '\0';
    return config_copy(l, slice_str(name));
}

static void derive_places(struct config_load *l, struct guard_config *c)
{
    const struct config_entry *state_dir = given_find(&l->root, "state_dir"),
                              *run_dir = given_find(&l->root, "run_dir");
    const struct config_entry *socket = given_find(&l->root, "socket");
    if (!state_dir)
        c->state_dir = config_default_state_dir(l);
    if ((!c->state_dir || !*c->state_dir) && l->code == 0)
        (void)config_problem(l, -EINVAL, state_dir ? &state_dir->from : NULL, "state_dir",
                             "the guard must remember what it does; give state_dir");
    if (run_dir && !*c->run_dir)
        (void)config_problem(l, -EINVAL, &run_dir->from, "run_dir", "it can't be empty");
    if (!run_dir)
        c->run_dir = config_default_run_dir(l);
    if (!socket && c->run_dir)
        c->socket = config_join(l, c->run_dir, "/guard.sock");
    config_check_socket(l, c->socket ? c->socket : "", socket);
    if (!given_find(&l->root, "agent") && c->run_dir)
        c->agent = config_join(l, "unix:", config_join(l, c->run_dir, "/agent.sock"));
    if (!*c->gateway && c->run_dir)
        c->gateway = config_join(l, "unix:", config_join(l, c->run_dir, "/gateway.sock"));
    if (!given_find(&l->root, "identity"))
        c->identity = config_state_place(l, "/gridline/identity");
}

static void derive_heartbeat(struct config_load *l, const struct guard_config *c)
{
    const struct config_entry *timeout = given_find(&l->root, "heartbeat.timeout");
    if (c->heartbeat_timeout_ns <= c->heartbeat_ns)
        (void)config_problem(l, -EINVAL, timeout ? &timeout->from : NULL, "heartbeat.timeout",
                             "it must be more than heartbeat.every, or every host is late each time");
}

static void make_guard(struct config_load *l, struct guard_config *c)
{
    size_t problems = l->problems;
    config_store_section(l, &l->root, c);
    if (l->problems == problems) {
        if (!*c->host)
            c->host = system_host(l);
        derive_places(l, c);
        derive_heartbeat(l, c);
    }
    (void)given_entries(l, &l->root, &c->given, &c->n_given); /* remembered in l */
}

/* Is default_rules on? It has to be known before sections are made of them; what is wrong with it is told
 * later. */
static bool wants_defaults(const struct config_load *l)
{
    const struct config_entry *given = given_find(&l->root, "default_rules");
    bool wants = true;
    if (given && given->setting.n == 1)
        (void)setting_parse(SETTING_FLAG, slice_str(given->setting.texts[0]), NULL, &wants);
    return wants;
}

int guard_config_load(const struct config_flags *flags, struct guard_config **out, struct diag *why)
{
    struct config_load l;
    struct guard_config *c = mem_try_alloc(sizeof *c);
    config_load_init(&l, &guard_schema, flags, c ? &c->arena : NULL, why);
    if (!c)
        return config_problem(&l, -ENOMEM, NULL, NULL, "out of memory");
    config_load_files(&l, GUARD_CONFIG_FILE);
    given_from_environment(&l);
    given_from_flags(&l);
    if (l.code == 0 && wants_defaults(&l))
        config_add_defaults(&l);
    if (l.code == 0)
        config_add_blind(&l);
    if (l.code == 0) {
        make_guard(&l, c);
        config_make_actions(&l, c);
        config_make_rules(&l, c);
    }
    if (l.code < 0) {
        guard_config_destroy(c);
        return l.code;
    }
    *out = c;
    return 0;
}

void guard_config_destroy(struct guard_config *c)
{
    if (!c)
        return;
    arena_fini(&c->arena);
    mem_free(c);
}

/* A `fresh` that was not given grows with `every`. */
static void show_rule(struct config_show *s, const struct rule_config *r)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64 "ms", r->fresh_ns / 1000000);
    const struct config_computed grown[] = {{"fresh", text}, {NULL, NULL}};
    config_show_section(s, scope_rule, r->name, r->given, r->n_given,
                        r->fresh_ns == 3 * r->every_ns ? grown : NULL);
}

void guard_config_show_rule(const struct rule_config *r, struct strbuf *out)
{
    static const char *const others[] = {"on_fire", "on_repeat", "on_escalate", "on_clear",
                                         "repeat",  "escalate",  "parents"};
    struct config_entry own[64];
    struct rule_config alone = *r;
    alone.given = own;
    alone.n_given = 0;
    for (size_t i = 0; i < r->n_given && alone.n_given < sizeof own / sizeof *own; i++) {
        bool is_other = false;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            is_other = is_other || strcmp(r->given[i].setting.name, others[k]) == 0;
        if (!is_other)
            own[alone.n_given++] = r->given[i];
    }
    struct config_show s = {.schema = &guard_schema, .form = CONFIG_FORM_TEXT, .out = out};
    config_show_begin(&s);
    show_rule(&s, &alone);
    config_show_end(&s);
}

void guard_config_show(const struct guard_config *c, enum config_form form, bool with_origins,
                       struct strbuf *out)
{
    const struct config_computed computed[] = {{"hostname", c->host},
                                               {"gateway", c->gateway},
                                               {"state_dir", c->state_dir},
                                               {"run_dir", c->run_dir},
                                               {"socket", c->socket},
                                               {"agent", c->agent},
                                               {"identity", c->identity ? c->identity : ""},
                                               {NULL, NULL}};
    struct config_show s = {.schema = &guard_schema, .form = form, .with_origins = with_origins, .out = out};
    config_show_begin(&s);
    config_show_root(&s, c->given, c->n_given, computed);
    for (size_t i = 0; i < c->n_actions; i++)
        config_show_section(&s, scope_of_actuator(c->actions[i].ops), c->actions[i].name, c->actions[i].given,
                            c->actions[i].n_given, NULL);
    for (size_t i = 0; i < c->n_rules; i++)
        show_rule(&s, &c->rules[i]);
    config_show_end(&s);
}
