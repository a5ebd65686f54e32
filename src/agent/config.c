/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: what the agent's own keys come to, its outputs, and the document in place of its sensors. */
#include "agent/config_internal.h"

#include "base/mem.h"

#include <errno.h>

/* ---------------------------------------------------------------- who may be spoken to, and how */

/* The host of [tcp://|tls://]HOST:PORT. */
static struct slice host_of(struct slice address)
{
    if (slice_starts(address, SLICE_LIT("tcp://")) || slice_starts(address, SLICE_LIT("tls://")))
        address = slice_from(address, 6);
    while (address.n && address.p[address.n - 1] != ':')
        address.n--;
    return slice_of(address.p, address.n ? address.n - 1 : 0);
}

/* By the text alone: a name is resolved only when it is dialled. */
static bool is_here(struct slice host)
{
    return slice_eq(host, SLICE_LIT("localhost")) || slice_starts(host, SLICE_LIT("127.")) ||
           slice_eq(host, SLICE_LIT("[::1]")) || slice_eq(host, SLICE_LIT("::1"));
}

/* True if one of them needs TLS. */
static bool check_addresses(struct config_load *l, const struct agent_config *c, const struct config_entry *given)
{
    struct slice rest = slice_str(c->gateways), address;
    bool needs_tls = false;
    while (rest.n && config_next_word(&rest, ',', &address)) {
        bool is_tls = slice_starts(address, SLICE_LIT("tls://")), is_unix = slice_starts(address, SLICE_LIT("unix:"));
        needs_tls |= is_tls;
        if (is_tls || is_unix || c->is_insecure || is_here(host_of(address)))
            continue;
        struct slice bare = slice_from(address, slice_starts(address, SLICE_LIT("tcp://")) ? 6 : 0);
        (void)config_problem(l, -EINVAL, given ? &given->from : NULL, "gateway",
                             "\"%.*s\" is another host, without TLS; write tls://%.*s after `gridline join`, or set "
                             "insecure = true",
                             SLICE_ARG(address), SLICE_ARG(bare)); /* remembered in l */
    }
    return needs_tls;
}

static void check_gateways(struct config_load *l, struct agent_config *c)
{
    const struct config_entry *given = given_find(&l->root, "gateway");
    if (!check_addresses(l, c, given))
        c->identity = NULL;
    else if (!c->identity || !*c->identity)
        c->identity = config_state_place(l, "/gridline/identity");
    else
        return;
    if (!c->identity && l->code == 0 && strstr(c->gateways, "tls://"))
        (void)config_problem(l, -EINVAL, given ? &given->from : NULL, "identity",
                             "neither XDG_STATE_HOME nor HOME is set; give the folder of key and certificates");
}

/* What depends on who runs it and on other keys. */
static void derive(struct config_load *l, struct agent_config *c)
{
    const struct config_entry *state_dir = given_find(&l->root, "state_dir");
    const struct config_entry *run_dir = given_find(&l->root, "run_dir"), *socket = given_find(&l->root, "socket");
    if (state_dir && *c->state_dir && c->is_guest)
        (void)config_problem(l, -EINVAL, &state_dir->from, "state_dir",
                             "a guest leaves nothing on disk; leave out state_dir or guest");
    if (!state_dir && !c->is_guest && !(c->state_dir = config_default_state_dir(l)))
        (void)config_problem(
            l, -EINVAL, NULL, "state_dir",
            "neither XDG_STATE_HOME nor HOME is set; give state_dir, or state_dir = \"\" for none");
    if (c->state_dir && !*c->state_dir)
        c->state_dir = NULL;
    if (c->config_ca && !*c->config_ca)
        c->config_ca = NULL;
    if (run_dir && !*c->run_dir)
        (void)config_problem(l, -EINVAL, &run_dir->from, "run_dir", "it can't be empty");
    if (!run_dir)
        c->run_dir = config_default_run_dir(l);
    if (!socket)
        c->socket = c->is_guest || !c->run_dir ? "" : config_join(l, c->run_dir, "/agent.sock");
    config_check_socket(l, c->socket, socket);
}

static void make_agent(struct config_load *l, struct agent_config *c)
{
    size_t problems = l->problems;
    config_store_section(l, &l->root, c);
    if (l->problems == problems) {
        derive(l, c);
        check_gateways(l, c);
    }
    (void)given_entries(l, &l->root, &c->given, &c->n_given); /* remembered in l */
}

static void make_outputs(struct config_load *l, struct agent_config *c)
{
    struct output_config *outputs = config_alloc(l, (l->n_sections + 1) * sizeof *outputs);
    c->outputs = outputs;
    for (const struct given_section *s = l->sections; outputs && s; s = s->next) {
        if (!scope_is_output(s->scope))
            continue;
        struct output_config *out = &outputs[c->n_outputs++];
        out->name = s->title;
        config_store_section(l, s, out);
        (void)given_entries(l, s, &out->given, &out->n_given); /* remembered in l */
    }
}

/* ---------------------------------------------------------------- loading */

/* A document is to replace them. */
static void forget_sensors(struct config_load *l)
{
    l->n_sections = 0;
    for (struct given_section **s = &l->sections; *s;) {
        if (scope_sensor((*s)->scope)) {
            *s = (*s)->next;
            continue;
        }
        s = &(*s)->next;
        l->n_sections++;
    }
    l->last = &l->sections;
    while (*l->last)
        l->last = &(*l->last)->next;
}

static int make_all(struct config_load *l, struct agent_config *c, bool is_signed)
{
    if (l->code < 0)
        return l->code;
    make_agent(l, c);
    make_outputs(l, c);
    if (l->document && !is_signed)
        config_check_programs(l, c);
    config_make_sensors(l, c);
    return l->code;
}

int config_load_layers(const struct config_layers *layers, struct agent_config **out, struct diag *why)
{
    struct config_load l;
    struct agent_config *c = mem_try_alloc(sizeof *c);
    config_load_init(&l, &agent_schema, layers->flags, c ? &c->arena : NULL, why);
    if (!c)
        return config_problem(&l, -ENOMEM, NULL, NULL, "out of memory");
    config_load_files(&l, CONFIG_FILE);
    if (layers->document) {
        forget_sensors(&l);
        (void)config_parse(&l, *layers->document, layers->name, true); /* told */
    }
    given_from_environment(&l);
    given_from_flags(&l);
    config_take_assigned(&l, layers->assigned, layers->n_assigned);
    if (make_all(&l, c, layers->is_signed) < 0) {
        config_destroy(c);
        return l.code;
    }
    *out = c;
    return 0;
}

int config_load(const struct config_flags *flags, struct agent_config **out, struct diag *why)
{
    return config_load_layers(&(struct config_layers){.flags = flags}, out, why);
}

int config_load_remote(const struct config_flags *flags, struct slice document, const char *name,
                       bool is_signed, struct agent_config **out, struct diag *why)
{
    const struct config_layers layers = {
        .flags = flags, .document = &document, .name = name, .is_signed = is_signed};
    return config_load_layers(&layers, out, why);
}

void config_destroy(struct agent_config *c)
{
    if (!c)
        return;
    arena_fini(&c->arena);
    mem_free(c);
}

/* ---------------------------------------------------------------- showing */

static void show_sensor(struct config_show *s, const struct sensor_config *sensor)
{
    struct config_scope scope = scope_of_sensor(sensor->ops);
    const char *every = "";
    struct config_key key;
    if (config_key_find(s->schema, scope, SLICE_LIT("every"), &key))
        every = key.default_text;
    for (size_t i = 0; i < sensor->n_given; i++)
        if (strcmp(sensor->given[i].setting.name, "every") == 0)
            every = sensor->given[i].setting.texts[0];
    /* A refresh that was not given grows with every. */
    const struct config_computed grown[] = {{"refresh", every}, {NULL, NULL}};
    bool has_grown = sensor->refresh_ns == sensor->every_ns;
    config_show_section(s, scope, scope.is_titled ? sensor->name : "", sensor->given, sensor->n_given,
                        has_grown ? grown : NULL);
}

void config_show(const struct agent_config *c, enum config_form form, bool with_origins, struct strbuf *out)
{
    const struct config_computed computed[] = {{"state_dir", c->state_dir ? c->state_dir : ""},
                                               {"run_dir", c->run_dir},
                                               {"socket", c->socket},
                                               {"identity", c->identity ? c->identity : ""},
                                               {NULL, NULL}};
    struct config_show s = {.schema = &agent_schema, .form = form, .with_origins = with_origins, .out = out};
    config_show_begin(&s);
    config_show_root(&s, c->given, c->n_given, computed);
    for (size_t i = 0; i < c->n_outputs; i++)
        config_show_section(&s, scope_output, c->outputs[i].name, c->outputs[i].given, c->outputs[i].n_given, NULL);
    for (size_t i = 0; i < c->n_sensors; i++)
        show_sensor(&s, &c->sensors[i]);
    config_show_end(&s);
}
