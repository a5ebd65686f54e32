/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-gateway: arguments and tear-down; the work is in src/gateway. */
#include "archive/query.h"
#include "archive/tile.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/log.h"
#include "cmd/archiver.h"
#include "cmd/gateway_verb.h"
#include "cmd/gateway_viewer.h"
#include "cmd/refill.h"
#include "cmd/manual.h"
#include "cmd/program.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gridline/gridline.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { SHORT_MAX = 16, SETTINGS_MAX = OPTION_TEXTS_MAX + SHORT_MAX };

/* The short options are settings, too: those given with -s come later and win. */
struct settings {
    const char *v[SETTINGS_MAX];
    size_t n;
    struct strbuf texts[SHORT_MAX];
    size_t n_texts;
};

static void add(struct settings *s, const char *key, const char *before, const char *value)
{
    if (!value)
        return;
    struct strbuf *text = &s->texts[s->n_texts++];
    strbuf_printf(text, "%s=%s%s", key, before, value);
    s->v[s->n++] = text->p ? text->p : "";
}

/* In a file a path begins at the root; on the command line it may begin here. */
static void add_path(struct settings *s, const char *key, const char *value, const char *here)
{
    add(s, key, value && *value && *value != '/' ? here : "", value);
}

static void add_all(struct settings *s, const struct gateway_main *o, const char *here)
{
    add(s, "listen", "", o->listen);
    add_path(s, "socket", o->socket, here);
    add_path(s, "identity", o->identity, here);
    add(s, "insecure", "", o->is_insecure ? "true" : NULL);
    add(s, "udp", "", o->udp);
    add(s, "lease.time", "", o->lease);
    add(s, "lease.renew", "", o->renew);
    add_path(s, "state_dir", o->state_dir, here);
    add_path(s, "journal", o->journal, here);
    add(s, "journal_max", "", o->journal_max);
    add_path(s, "ledger.file", o->ledger, here);
    add_path(s, "ready_file", o->ready_file, here);
    if (o->print) {
        add(s, "observer.print.type", "", "text");
        add(s, "observer.print.encoding", "", o->print->name);
    }
    for (size_t i = 0; i < o->settings.n; i++)
        s->v[s->n++] = o->settings.v[i];
}

static void say_problem(void *arg, const char *message)
{
    (void)arg; /* all go to the log */
    log_error("%s", message);
}

/* NULL after having said what is wrong. */
static struct gateway_config *load(const struct gateway_main *o)
{
    struct settings settings = {.n = 0};
    struct gateway_config *c = NULL;
    char *here = getcwd(NULL, 0);
    struct strbuf folder = {0};
    strbuf_printf(&folder, "%s/", here ? here : "");
    add_all(&settings, o, strbuf_slice(&folder).p);
    const struct config_flags flags = {
        .file = o->config, .settings = settings.v, .n_settings = settings.n, .on_problem = say_problem};
    (void)gateway_config_load(&flags, &c, NULL); /* said */
    for (size_t i = 0; i < settings.n_texts; i++)
        strbuf_fini(&settings.texts[i]);
    strbuf_fini(&folder);
    free(here); /* getcwd's own */
    return c;
}

static int dump(const struct gateway_main *o)
{
    int r = gateway_dump(o->dump, o->print);
    if (r < 0)
        log_error("%s: %s", o->dump, err_text(r));
    return r == 0 ? EXIT_OK : r == E_DAMAGE ? EXIT_PARTLY : EXIT_FAILED;
}

static int make_directories(const struct gateway_config *c, struct diag *why)
{
    int r = *c->state_dir ? directory_make(c->state_dir, why) : 0;
    bool has_socket = slice_starts(slice_str(c->socket), slice_str(c->run_dir));
    return r == 0 && has_socket ? directory_make_own(c->run_dir, why) : r;
}

/* Workers have the time of three leases to come back after a start, before what they had is taken for gone.
 */
static struct ldap_directory_options ldap_options(const struct gateway_config *c)
{
    return (struct ldap_directory_options){.mirror = {.uri = c->ldap_uri,
                                                      .base = c->ldap_base,
                                                      .bind_dn = c->ldap_bind_dn,
                                                      .password_file = c->ldap_password_file,
                                                      .ca = c->ldap_ca,
                                                      .has_starttls = c->ldap_starttls,
                                                      .name = c->ldap_name,
                                                      .domain = c->domain,
                                                      .settle_s = c->lease_ms * 3 / 1000},
                                           .refresh_ns = c->ldap_refresh_ns};
}

/* The archive beside the gateway: what fills it, and the threads that ask it. */
struct archive_part {
    struct archiver *archiver; /* NULL = there is none */
    struct queries *queries;
    struct refill *refill;
    struct gateway_archive ops;
    struct class_source classes; /* of its fields */
};

static int open_archive(const struct gateway_config *c, struct archive_part *p, struct diag *why)
{
    const struct archive_config *a = &c->archive;
    const struct archiver_options o = {.journal = c->journal,
                                       .archive = {.dir = a->dir,
                                                   .partition_ns = a->partition_ns,
                                                   .head_bytes = a->memory,
                                                   .flush_ns = a->flush_ns,
                                                   .streams_max = a->streams,
                                                   .ids = a->ids},
                                       .select = {.events = slice_str(a->events),
                                                  .hosts = slice_str(a->hosts),
                                                  .where = slice_str(a->where)},
                                       .upkeep = {.keep = a->keep,
                                                  .keep_tier_ns = {a->keep_10s, a->keep_1m, a->keep_1h},
                                                  .size_bytes = a->size}};
    if (!*a->dir)
        return 0;
    int r = archiver_create(&o, &p->archiver, why);
    if (r < 0)
        return r;
    const struct queries_options q = {.archive = archiver_archive(p->archiver),
                                      .running = a->query_threads,
                                      .tile = tile_query,
                                      .catch_up = archiver_catch_up,
                                      .catch_up_arg = p->archiver};
    r = queries_create(&q, &p->queries, why);
    if (r < 0)
        return r;
    p->refill = refill_create(archiver_archive(p->archiver), archiver_index(p->archiver));
    if (!p->refill)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    p->ops = (struct gateway_archive){.query = queries_ops(p->queries),
                                      .settled = archiver_settled,
                                      .safe = archiver_safe,
                                      .hurry = archiver_hurry,
                                      .keep = archiver_keep,
                                      .refill = refill_ops(p->refill),
                                      .status = archiver_status,
                                      .state = archiver_state,
                                      .judge = archiver_judge,
                                      .baseline = archiver_baseline,
                                      .arg = p->archiver};
    return 0;
}

/* After the gateway, whose tables and askers they have. */
static void close_archive(const struct archive_part *p)
{
    queries_destroy(p->queries);
    refill_destroy(p->refill);
    archiver_destroy(p->archiver);
}

static int mount_tables(struct queries *queries, const struct gateway *g, struct diag *why)
{
    size_t n;
    const struct table_ops *tables = gateway_tables(g, &n);
    int r = queries_mount(queries, tables, n);
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

static int run_gateway(struct gateway *g)
{
    int r = gateway_run(g);
    if (r < 0)
        log_error("the loop failed: %s", err_text(r));
    return r;
}

static struct gateway_options gateway_options(const struct gateway_config *c)
{
    return (struct gateway_options){.listen = c->listen,
                                    .socket = *c->socket ? c->socket : NULL,
                                    .identity = c->identity,
                                    .is_insecure = c->is_insecure,
                                    .level = c->level,
                                    .connections_max = c->connections_max,
                                    .escapes = (enum escapes)c->escapes,
                                    .assign = c->assign,
                                    .demand = c->demand,
                                    .class_settings = c->classes,
                                    .udp = c->udp,
                                    .http = c->http,
                                    .http_names = c->http_names,
                                    .http_token = c->http_token,
                                    .http_sessions = c->http_sessions,
                                    .http_log = c->http_log,
                                    .journal = c->journal,
                                    .journal_max = c->journal_max,
                                    .journal_hold = c->journal_hold,
                                    .lease_ns = c->lease_ms * INT64_C(1000000),
                                    .renew_ns = c->renew_ms * INT64_C(1000000),
                                    .ledger_file = c->ledger_file,
                                    .ledger_every_ns = c->ledger_every_ns,
                                    .ready_file = c->ready_file,
                                    .observers = c->observers,
                                    .n_observers = c->n_observers,
                                    .latest = c->latest,
                                    .summary = c->summary,
                                    .domain = c->domain,
                                    .expect = c->expect,
                                    .directory_keep_ns = c->directory_keep_ns,
                                    .ldap = ldap_options(c),
                                    .access = c->access,
                                    .n_access = c->n_access,
                                    .tokens = c->tokens,
                                    .n_tokens = c->n_tokens,
                                    .version = gridline_version()};
}

/* What tests rules for the page: this program's sibling, with the archive's folder. */
struct rule_tester {
    struct strbuf program, socket;
    const char *argv[14];
};

static const char *const *rule_tester_open(struct rule_tester *t, const struct gateway_config *c)
{
    if (!*c->archive.dir || program_find("gridline", &t->program) < 0)
        return NULL; /* its verb is not there then */
    strbuf_printf(&t->socket, "--gateway=unix:%s", c->socket);
    const char *const argv[] = {t->program.p, "rule",         "test",  "-",
                                "--archive",  c->archive.dir, "--all", "--format",
                                "json",       "--memory",     "1GiB",  *c->socket ? t->socket.p : NULL,
                                NULL};
    memcpy(t->argv, argv, sizeof argv);
    return t->argv;
}

static int serve(const struct gateway_config *c)
{
    struct archive_part archive = {.archiver = NULL};
    struct gateway_viewer viewer = {.folder = -1};
    struct rule_tester tester = {.argv = {NULL}};
    struct gateway_options options = gateway_options(c);
    struct gateway *g = NULL;
    struct diag why = {0};
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that has gone is an error of its write, not a death */
    (void)signal(SIGXFSZ, SIG_IGN); /* so is a file that may not grow further */
    int r = make_directories(c, &why);
    if (r == 0)
        r = open_archive(c, &archive, &why);
    options.archive = archive.queries ? &archive.ops : NULL;
    if (archive.archiver)
        archive.classes = archiver_classes(archive.archiver);
    options.classes = archive.archiver ? &archive.classes : NULL;
    if (r == 0 && c->viewer)
        r = gateway_viewer_open(&viewer, c->viewer_dir, &why);
    options.assets = c->viewer ? &viewer.ops : NULL;
    options.rule_test = rule_tester_open(&tester, c);
    if (r == 0)
        r = gateway_create(&options, &g, &why);
    if (r == 0 && archive.queries)
        r = mount_tables(archive.queries, g, &why);
    if (r == 0)
        r = run_gateway(g);
    else
        log_error("%s", why.message);
    gateway_destroy(g);
    close_archive(&archive);
    gateway_viewer_close(&viewer);
    strbuf_fini(&tester.program);
    strbuf_fini(&tester.socket);
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int run(const struct gateway_main *o)
{
    log_quiet(o->quiet);
    if (o->dump)
        return dump(o);
    struct gateway_config *c = load(o);
    if (!c)
        return EXIT_FAILED;
    int code = EXIT_OK;
    if (o->is_check)
        log_info("no problem, %zu observer%s", c->n_observers, c->n_observers == 1 ? "" : "s");
    else
        code = serve(c);
    gateway_config_destroy(c);
    return code;
}

int main(int argc, char **argv)
{
    log_start("gridline-gateway");
    /* Batches come and go, some 100 KiB each: as a heap is by default, each group's went back to the kernel
     * and came anew as pages of zeros, a third of all the gateway did with one consumer. */
    (void)mallopt(M_MMAP_THRESHOLD, 4 << 20); /* only thrift */
    (void)mallopt(M_TRIM_THRESHOLD, 32 << 20);
    struct gateway_main state = {0};
    struct operands operands; /* it has none */
    struct diag why = {0};
    struct strbuf usage = {0};
    switch (options_parse(&verb_gateway, argc - 1, argv + 1, clock_utc_ns(), &state, &operands, &why)) {
    case OPTIONS_OK:
        return run(&state);
    case OPTIONS_HELP:
        manual_usage(&usage, &verb_gateway);
        (void)fputs(usage.p ? usage.p : "", stdout); /* nowhere to report it */
        strbuf_fini(&usage);
        return EXIT_OK;
    case OPTIONS_BAD:
        break;
    }
    log_error("%s", why.message);
    return EXIT_USAGE;
}
