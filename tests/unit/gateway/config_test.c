/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "event/encoding.h"
#include "gateway/config_internal.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- a folder, and loading from it */

static char folder[64];
static struct gateway_config *config;
static struct diag why;
static struct strbuf problems; /* all that were told, a line each */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)flag, (void)at; /* whatever it is */
    return remove(path);
}

static void forget(void)
{
    gateway_config_destroy(config);
    config = NULL;
    strbuf_reset(&problems);
    strbuf_add_str(&problems, "");
    why = (struct diag){0};
}

static int set_up(void **unused)
{
    (void)unused;
    memcpy(folder, "/tmp/gridline-config.XXXXXX", 28);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("gateway.d", 0700), 0);
    assert_int_equal(setenv("HOME", "/home/one", 1), 0);
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    forget();
    strbuf_fini(&problems);
    return chdir("/") == 0 && nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static void take_problem(void *arg, const char *message)
{
    (void)arg; /* there is one list */
    strbuf_printf(&problems, "%s\n", message);
}

/* settings end with NULL. */
static int load_with(const char *text, const char *const *settings)
{
    struct config_flags flags = {.file = "gateway.conf", .settings = settings, .on_problem = take_problem};
    while (settings && settings[flags.n_settings])
        flags.n_settings++;
    forget();
    write_file("gateway.conf", text);
    return gateway_config_load(&flags, &config, &why);
}

static void loads_with(const char *text, const char *const *settings)
{
    if (load_with(text, settings) < 0)
        fail_msg("'%s': %s", text, why.message);
}

static void loads(const char *text)
{
    loads_with(text, NULL);
}

static void refuses_with(const char *text, const char *const *settings, const char *says)
{
    assert_int_equal(load_with(text, settings), -EINVAL);
    assert_null(config);
    if (strcmp(why.message, says) != 0)
        fail_msg("'%s' says '%s', not '%s'", text, why.message, says);
}

static void refuses(const char *text, const char *says)
{
    refuses_with(text, NULL, says);
}

/* ---------------------------------------------------------------- values */

static void test_defaults(void **unused)
{
    char path[300];
    (void)unused;
    loads("");
    bool is_root = geteuid() == 0;
    assert_string_equal(config->listen, "tcp://127.0.0.1:14830");
    assert_string_equal(config->udp, "127.0.0.1:14830");
    assert_string_equal(config->state_dir,
                        is_root ? "/var/lib/gridline/gateway" : "/home/one/.local/state/gridline/gateway");
    (void)snprintf(path, sizeof path, "%s/journal", config->state_dir);
    assert_string_equal(config->journal, path);
    (void)snprintf(path, sizeof path, "/tmp/gridline-%u", geteuid());
    assert_string_equal(config->run_dir, is_root ? "/run/gridline" : path);
    (void)snprintf(path, sizeof path, "%s/gateway.sock", config->run_dir);
    assert_string_equal(config->socket, path);
    assert_int_equal(config->journal_max, 1 << 30);
    assert_string_equal(config->identity, "");
    assert_false(config->is_insecure);
    assert_int_equal(config->level, SEAL_PRIVATE);
    assert_int_equal(config->lease_ms, 30000);
    assert_int_equal(config->renew_ms, 10000);
    assert_string_equal(config->assign, "");
    assert_string_equal(config->demand, "");
    assert_int_equal(config->connections_max, 16384);
    assert_null(config->ledger_file);
    assert_null(config->ready_file);
    assert_int_equal(config->ledger_every_ns, 60 * NS_PER_S);
    assert_int_equal(config->n_observers, 0);
    loads("lease { time = 2s }");
    assert_int_equal(config->renew_ms, 666);
}

static void test_every_key(void **unused)
{
    (void)unused;
    loads("listen = {\"tcp://127.0.0.1:1\", \"tls://0.0.0.0:2\", \"unix:/s\"}\nudp = \"[::1]:5\"\n"
          "socket = \"/a/s\"\nstate_dir = \"/a\"\nrun_dir = \"/r\"\njournal = \"/j\"\njournal_max = 64MiB\n"
          "connections_max = 9\nidentity = \"/i\"\nsecurity = authentic\ninsecure = yes\n"
          "assign = {\"vector.every=2s\", \"disk.mode=off\"}\ndemand = {\"cpu 10s\", \"disk*\"}\nready_file "
          "= \"/f\"\n"
          "lease { time = 5s  renew = 1500ms }\nledger { file = \"/l\"  every = 2s }\n"
          "observer one { type = text  events = {\"job.*\", disk}  where = \"level <= 'warning'\"  encoding "
          "= ndjson }\n"
          "observer two { type = file  path = \"/x\"  encoding = binary  compress = zstd  max_size = 1MiB  "
          "max_age = 1h"
          "  keep = 3 }\n");
    assert_string_equal(config->listen, "tcp://127.0.0.1:1,tls://0.0.0.0:2,unix:/s");
    assert_string_equal(config->udp, "[::1]:5");
    assert_string_equal(config->socket, "/a/s");
    assert_string_equal(config->state_dir, "/a");
    assert_string_equal(config->run_dir, "/r");
    assert_string_equal(config->journal, "/j");
    assert_int_equal(config->journal_max, 64 << 20);
    assert_int_equal(config->journal_hold, 64 << 20);
    assert_int_equal(config->connections_max, 9);
    assert_string_equal(config->identity, "/i");
    assert_int_equal(config->level, SEAL_AUTHENTIC);
    assert_true(config->is_insecure);
    assert_string_equal(config->assign, "vector.every=2s\ndisk.mode=off");
    assert_string_equal(config->demand, "cpu 10s\ndisk*");
    assert_string_equal(config->ready_file, "/f");
    assert_int_equal(config->lease_ms, 5000);
    assert_int_equal(config->renew_ms, 1500);
    assert_string_equal(config->ledger_file, "/l");
    assert_int_equal(config->ledger_every_ns, 2 * NS_PER_S);
    assert_int_equal(config->n_observers, 2);
    const struct observer_config *one = &config->observers[0], *two = &config->observers[1];
    assert_string_equal(one->name, "one");
    assert_string_equal(one->type, "text");
    assert_string_equal(one->events, "job.*,disk");
    assert_string_equal(one->where, "level <= 'warning'");
    assert_string_equal(one->encoding, "ndjson");
    assert_null(one->path);
    assert_string_equal(two->path, "/x");
    assert_string_equal(two->encoding, "binary");
    assert_string_equal(two->compression, "zstd");
    assert_int_equal(two->max_bytes, 1 << 20);
    assert_int_equal(two->max_age_ns, 3600 * NS_PER_S);
    assert_int_equal(two->keep, 3);
    assert_string_equal(two->events, "");
    assert_string_equal(two->where, "");
}

static void test_defaults_of_an_observer(void **unused)
{
    (void)unused;
    loads("observer o { type = file  path = \"-\" }");
    const struct observer_config *o = &config->observers[0];
    assert_null(o->encoding);
    assert_string_equal(o->compression, "none");
    assert_int_equal(o->max_bytes, 64 << 20);
    assert_int_equal(o->max_age_ns, 0);
    assert_int_equal(o->keep, 7);
}

/* Tests and people who try it give --journal alone: nothing is to appear anywhere else. */
static void test_only_a_journal(void **unused)
{
    (void)unused;
    unsetenv("HOME");
    loads_with("", (const char *[]){"journal=/t/j", NULL});
    assert_string_equal(config->journal, "/t/j");
    assert_string_equal(config->state_dir, "");
    assert_string_equal(config->socket, "");
    loads_with("", (const char *[]){"state_dir=/t", NULL});
    assert_string_equal(config->journal, "/t/journal");
    assert_string_equal(config->socket, "");
    loads_with("", (const char *[]){"state_dir=/t", "run_dir=/r", NULL});
    assert_string_equal(config->socket, "/r/gateway.sock");
    loads_with("", (const char *[]){"journal=/t/j", "socket=/t/s", NULL});
    assert_string_equal(config->socket, "/t/s");
    if (geteuid() != 0)
        refuses("", "state_dir: neither XDG_STATE_HOME nor HOME is set; give state_dir or journal");
    refuses("state_dir = \"\"\n",
            "gateway.conf:1: state_dir: without it there is no place for the journal; give one of both");
}

static void test_folders_of_a_user(void **unused)
{
    (void)unused;
    if (geteuid() == 0) /* root's do not depend on the environment */
        skip();
    assert_int_equal(setenv("XDG_STATE_HOME", "/s", 1), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", "/u", 1), 0);
    loads("");
    assert_string_equal(config->state_dir, "/s/gridline/gateway");
    assert_string_equal(config->socket, "/u/gridline/gateway.sock");
}

static void test_udp_follows_listen(void **unused)
{
    static const char *const cases[][2] = {
        {"tcp://127.0.0.1:0", "127.0.0.1:0"},   {"tcp://localhost", "localhost:14830"},
        {"127.0.0.2:7", "127.0.0.2:7"},         {"tcp://[::1]:7", "[::1]:7"},
        {"tcp://[::1]", "[::1]:14830"},         {"unix:/a", ""},
        {"unix:/a,127.1.2.3:9", "127.1.2.3:9"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char listen[100];
        (void)snprintf(listen, sizeof listen, "listen=%s", cases[i][0]);
        loads_with("", (const char *[]){listen, NULL});
        assert_string_equal(config->udp, cases[i][1]);
    }
    loads_with("", (const char *[]){"udp=", NULL});
    assert_string_equal(config->udp, "");
}

/* ---------------------------------------------------------------- refusals */

static void test_bad_values(void **unused)
{
    static const char *const cases[][2] = {
        {"listen = http://a",
         "listen: \"http://a\" is not an address; write tcp://HOST:PORT, tls://HOST:PORT or "
         "unix:PATH"},
        {"listen = ::1:5",
         "listen: \"::1:5\" is not an address; write tcp://HOST:PORT, tls://HOST:PORT or unix:PATH"},
        {"listen = a:70000",
         "listen: \"a:70000\" is not an address; write tcp://HOST:PORT, tls://HOST:PORT or "
         "unix:PATH"},
        {"udp = tcp://a:1",
         "udp: \"tcp://a:1\" is not an address for datagrams; write HOST:PORT, or \"\" for none"},
        {"udp = unix:a",
         "udp: \"unix:a\" is not an address for datagrams; write HOST:PORT, or \"\" for none"},
        {"state_dir = here", "state_dir: \"here\" is not a path from the root; begin with /"},
        {"run_dir = \"\"", "run_dir: it can't be empty"},
        {"journal_max = 1k", "journal_max: \"1k\" is out of range; it can be 1MiB to 1TiB"},
        {"journal_max = 4MiB",
         "journal_max: the archive keeps up to 24MiB of new rows in memory between two flushes "
         "(archive.memory), and until then the journal has to hold them: it needs 32MiB; raise journal_max, "
         "or "
         "set archive.memory to 3072KiB"},
        {"journal_max = much", "journal_max: \"much\" is not a size; write 64KiB"},
        {"connections_max = 0", "connections_max: \"0\" is out of range; it can be 1 to 1000000"},
        {"connections_max = 5000000000",
         "connections_max: \"5000000000\" is out of range; it can be 1 to 1000000"},
        {"connections_max = -1", "connections_max: \"-1\" is not a number; write 100"},
        {"security = high", "security: \"high\" is none of none|authentic|private"},
        {"insecure = maybe", "insecure: \"maybe\" is not a flag; write true or false"},
        {"assign = vector",
         "assign: \"vector\" is not a setting; write \"KEY=VALUE\", e.g. \"vector.every=2s\""},
        {"demand = \"cpu soon\"",
         "demand: \"cpu soon\" is not a request; write \"PATTERN\" or \"PATTERN TIME\", e.g. \"cpu 10s\""},
        {"demand = \"cpu 0s\"",
         "demand: \"cpu 0s\" is not a request; write \"PATTERN\" or \"PATTERN TIME\", e.g. \"cpu 10s\""},
        {"demand = {cpu, \"a,b 1s\"}",
         "demand: \"a,b 1s\" is not a request; write \"PATTERN\" or \"PATTERN TIME\", e.g. \"cpu 10s\""},
        {"demand = {\"cpu 99d\"}",
         "demand: \"cpu 99d\" is not a request; write \"PATTERN\" or \"PATTERN TIME\", e.g. \"cpu 10s\""},
        {"assign = \"a b=1\"",
         "assign: \"a b=1\" is not a setting; write \"KEY=VALUE\", e.g. \"vector.every=2s\""},
        {"lease { tme = 10s }", "lease: no key \"tme\"; did you mean time?"},
        {"lease { time = 2d }", "lease.time: \"2d\" is out of range; it can be 1s to 1h"},
        {"lease { renew = 11s }",
         "lease.renew: it is more than a third of lease.time: two lost renewals would end a "
         "lease; give less, or a longer lease.time"},
        {"ledger { every = 0s }", "ledger.every: \"0s\" is out of range; it can be 1s to 366d"},
        {"lisen = a", "no key or section \"lisen\"; did you mean listen?"},
        {"leese { }", "no key or section \"leese\"; did you mean lease?"},
        {"zzzzzz = 1", "no key or section \"zzzzzz\"; `gridline config explain --gateway` lists them"},
        {"observer { type = text }", "observer needs a name of its own; write it before the {"},
        {"observer o { path = \"/a\" }",
         "observer.o.type: it is missing: what it does: `text`: lines on standard "
         "output; `file`: a file that rotates"},
        {"observer o { type = tape }", "observer.o.type: \"tape\" is none of text|file"},
        {"observer o { type = file }", "observer.o: type = file needs a path; write path = "
                                       "\"/var/log/gridline/events.ulm\""},
        {"observer o { type = file path = a }",
         "observer.o.path: \"a\" is not a path from the root; begin with /, or "
         "write - for standard output"},
        {"observer o { type = text keep = 3 }", "observer.o: keep is for type = file; leave it out"},
        {"observer o { type = text encoding = csv }", "observer.o.encoding: \"csv\" is none of "
                                                      "ulm|bp|ndjson|xml|binary"},
        {"observer o { type = text compres = zstd }", "observer: no key \"compres\"; did you mean compress?"},
        {"observer o { type = text where = \"level <\" }",
         "observer.o.where: at byte 8: the predicate ends where a "
         "value or field should come; docs/predicate.md has the language"},
        {"observer o { type = text events = \"a b\" }", "observer.o.events: \"a b\" is not a pattern; write "
                                                        "{\"job.*\", disk}"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char says[400];
        (void)snprintf(says, sizeof says, "gateway.conf:1: %s", cases[i][1]);
        says[sizeof why.message - 1] = '\0'; /* as *why cuts it */
        refuses(cases[i][0], says);
    }
    refuses_with(
        "", (const char *[]){"listen=", NULL},
        "flag -s listen: listen: there is none to listen on; leave it out, or write tcp://127.0.0.1:14830");
}

static void test_same_path(void **unused)
{
    (void)unused;
    refuses("observer a { type = file path = \"/a\" }\nobserver b { type = file path = \"/a\" }\n",
            "gateway.conf:2: observer.b.path: observer a has the same; give each a file of its own");
}

/* Other hosts need TLS, or somebody who says that they don't. */
static void test_other_hosts(void **unused)
{
    static const char *const open_without_tls[] = {
        "tcp://0.0.0.0:1",  "tcp://[::]:1", "node7:14830", "192.0.2.1", "tcp://[::ffff:127.0.0.1]:1",
        "tcp://128.0.0.1:1"};
    static const char *const here[] = {"tcp://127.0.0.1:1", "tcp://127.9.9.9:1", "tcp://[::1]:1",
                                       "LocalHost:1", "unix:/a"};
    char text[100], says[300];
    (void)unused;
    for (size_t i = 0; i < sizeof open_without_tls / sizeof *open_without_tls; i++) {
        (void)snprintf(text, sizeof text, "listen = \"%s\"\nudp = \"\"\n", open_without_tls[i]);
        (void)snprintf(
            says, sizeof says,
            "gateway.conf:1: listen: %s is open to other hosts, without TLS; write tls:// and identity = "
            "FOLDER, or insecure = true",
            open_without_tls[i]);
        refuses(text, says);
        loads_with(text, (const char *[]){"insecure=true", NULL});
    }
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        (void)snprintf(text, sizeof text, "listen = \"%s\"\n", here[i]);
        loads(text);
    }
    refuses("\nlisten = \"tls://0.0.0.0:1\"", "gateway.conf:2: listen: tls://0.0.0.0:1 needs a certificate; "
                                              "make one with `gridline init` and write "
                                              "identity = FOLDER");
    loads("listen = \"tls://0.0.0.0:1\"\nidentity = \"/i\"");
    assert_string_equal(config->udp, "0.0.0.0:1");
    refuses("udp = \"0.0.0.0:1\"",
            "gateway.conf:1: udp: 0.0.0.0:1 is open to other hosts, whose keys come by TLS; add a "
            "tls:// address to listen, or write insecure = true");
    loads("udp = \"0.0.0.0:1\"\ninsecure = true");
    refuses("listen = \"tls://0.0.0.0:1\"\nidentity = \"/i\"\nsecurity = none\n",
            "gateway.conf:3: security: none is only for this host; write authentic or private, or insecure = "
            "true");
    loads("security = none");
}

static void test_all_problems_are_told(void **unused)
{
    (void)unused;
    assert_int_equal(
        load_with("journal_max = 1\nlease { time = x }\nobserver a { type = text keep = -1 }\n", NULL),
        -EINVAL);
    assert_string_equal(problems.p,
                        "gateway.conf:1: journal_max: \"1\" is out of range; it can be 1MiB to 1TiB\n"
                        "gateway.conf:2: lease.time: \"x\" is not a duration; write 10s, 5m, 250ms\n"
                        "gateway.conf:3: observer.a.keep: \"-1\" is not a number; write 100\n");
}

/* ---------------------------------------------------------------- where values come from */

static void test_later_wins(void **unused)
{
    (void)unused;
    write_file("gateway.d/10.conf", "lease { time = 41s }\nobserver o { keep = 2 }\n");
    assert_int_equal(setenv("GRIDLINE_GATEWAY_CONNECTIONS_MAX", "77", 1), 0);
    assert_int_equal(setenv("GRIDLINE_GATEWAY_OBSERVER_O_MAX_SIZE", "3MiB", 1), 0);
    loads_with(
        "lease { time = 40s  renew = 9s }\nconnections_max = 5\nobserver o { type = file  path = \"/p\" }\n",
        (const char *[]){"lease.renew=8s", "observer.p.type=text", "observer.p.encoding=xml", NULL});
    assert_int_equal(config->lease_ms, 41000);
    assert_int_equal(config->renew_ms, 8000);
    assert_int_equal(config->connections_max, 77);
    assert_int_equal(config->n_observers, 2);
    assert_int_equal(config->observers[0].keep, 2);
    assert_int_equal(config->observers[0].max_bytes, 3 << 20);
    assert_string_equal(config->observers[1].encoding, "xml");
    assert_int_equal(setenv("GRIDLINE_GATEWAY_LISTN", "x", 1), 0);
    refuses(
        "",
        "environment GRIDLINE_GATEWAY_LISTN: there is no such key; did you mean GRIDLINE_GATEWAY_LISTEN?");
    unsetenv("GRIDLINE_GATEWAY_LISTN");
    unsetenv("GRIDLINE_GATEWAY_CONNECTIONS_MAX");
    unsetenv("GRIDLINE_GATEWAY_OBSERVER_O_MAX_SIZE");
    assert_int_equal(unlink("gateway.d/10.conf"), 0);
    refuses_with("", (const char *[]){"observer.a.kep=1", NULL},
                 "flag -s observer.a.kep: there is no such key; did you mean observer.a.keep?");
    refuses_with("", (const char *[]){"observer.keep=1", NULL},
                 "flag -s observer.keep: a name is missing; write -s observer.NAME.keep=VALUE");
}

static void test_access(void **unused)
{
    (void)unused;
    loads("access ann {\n  who = \"operator:ann*,token:dash\"\n  may = {lookup, summary}\n  hosts = "
          "{\"web*\", \"@own\"}\n"
          "  events = \"cpu,memory\"\n  targets = \"r*\"\n  hide = {\"os*\", \"cpu.model\"}\n}\n"
          "observer o { type = text }\n"
          "token dash { sha256 = \"0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef\" }\n"
          "access last { who = everybody  may_not = all }\n");
    assert_int_equal(config->n_access, 2);
    assert_int_equal(config->n_tokens, 1);
    assert_int_equal(config->n_observers, 1);
    const struct access_row *row = &config->access[0];
    assert_string_equal(row->name, "ann");
    assert_string_equal(row->who, "operator:ann*,token:dash");
    assert_int_equal(row->may, ACCESS_BIT(ACCESS_LOOKUP) | ACCESS_BIT(ACCESS_SUMMARY));
    assert_int_equal(row->may_not, 0);
    assert_string_equal(row->hosts, "web*,@own");
    assert_string_equal(row->events, "cpu,memory");
    assert_string_equal(row->targets, "r*");
    assert_string_equal(row->hide, "os*,cpu.model");
    assert_string_equal(row->file, "gateway.conf");
    assert_int_equal(row->line, 2);
    assert_int_equal(config->access[1].may_not, ACCESS_ALL);
    assert_int_equal(config->access[1].line, 11);
    assert_string_equal(config->access[1].hosts, "");
    assert_string_equal(config->tokens[0].name, "dash");
    assert_string_equal(config->tokens[0].path, "");
    loads_with("access a { who = owner  may = all }\n",
               (const char *[]){"access.b.who=local", "access.b.may=query", NULL});
    assert_int_equal(config->n_access, 2);
    assert_int_equal(config->access[1].may, ACCESS_BIT(ACCESS_QUERY));
}

/* None of them is an open door: the gateway does not start. */
static void test_access_mistakes(void **unused)
{
    static const char *const cases[][2] = {
        {"access { who = owner  may = all }", "access needs a name of its own; write it before the {"},
        {"access a { may = all }", "access.a: who is missing: whom is it about?"},
        {"access a { who = owner }", "access.a: it says nothing; write may, may_not or hide"},
        {"access a { who = operators  may = all }",
         "access.a.who: \"operators\" is nobody; write owner, local, local:UID, insecure, agent:NAME, "
         "gateway:NAME, "
         "operator:NAME, token:NAME (NAME may be a pattern), nobody or everybody"},
        {"access a { who = \"owner,\"  may = all }",
         "access.a.who: \"\" is nobody; write owner, local, local:UID, insecure, agent:NAME, gateway:NAME, "
         "operator:NAME, token:NAME (NAME may be a pattern), nobody or everybody"},
        {"access a { who = {}  may = all }",
         "access.a.who: the list is empty; leave it out, or write what you mean"},
        {"access a { who = owner  may = {look} }", "access.a.may: \"look\" is not an action; write join, "
                                                   "publish, register, lookup, subscribe, query, summary, "
                                                   "control, test or all"},
        {"access a { who = owner  may_not = {} }",
         "access.a.may_not: the list is empty; leave it out, or write what you mean"},
        {"access a { who = owner  may = all  hosts = {} }",
         "access.a.hosts: the list is empty; leave it out, or write what you mean"},
        {"access a { who = owner  may = all  hosts = \"web[1\" }",
         "access.a.hosts: \"web[1\" is not a pattern; write {\"web*\", db1}"},
        {"access a { who = owner  may = all  hide = \"a b\" }",
         "access.a.hide: \"a b\" is not a pattern; write {\"web*\", db1}"},
        {"access a { who = owner  may = lookup  may_not = control }",
         "access.a: may and may_not are for two rows: the first that fits decides"},
        {"access a { who = local  may = lookup  hosts = \"@own\" }",
         "access.a: hosts = @own is for agents, gateways, operators and tokens: others have no name"},
        {"access a { who = \"token:x\"  may = lookup }",
         "access: a: there is no such token as token:x; write token NAME { sha256 = ... }"},
        {"access a { who = owner  my = all }", "access: no key \"my\"; did you mean may?"},
        {"token t { sha256 = \"12\" }",
         "token.t.sha256: this is not a SHA-256 in 64 hex digits; `gridline token --http NAME` makes one"},
        {"token t { file = \"relative\" }",
         "token.t.file: \"relative\" is not a path from the root; begin with /"},
        {"token t { }", "token.t: give it sha256 or file, one of both"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char says[400];
        (void)snprintf(says, sizeof says, "gateway.conf:1: %s", cases[i][1]);
        says[sizeof why.message - 1] = '\0'; /* as *why cuts it */
        refuses(cases[i][0], says);
    }
    refuses(
        "listen = \"tcp://127.0.0.1\"\n\naccess a {\n  who = owner\n  may = lookup\n  hosts = \"a,,b\"\n}\n",
        "gateway.conf:6: access.a.hosts: \"\" is not a pattern; write {\"web*\", db1}");
}

#define LDAP(uri, more) "ldap { uri = \"" uri "\"  base = \"ou=g\"  " more " }\n"

static void test_ldap(void **unused)
{
    (void)unused;
    loads("");
    assert_string_equal(config->ldap_uri, "");
    loads(LDAP("ldaps://h:1",
               "bind_dn = \"cn=g\"  password_file = \"/p\"  ca = \"/c\"  name = \"gw1\"  refresh = 1m"));
    assert_string_equal(config->ldap_uri, "ldaps://h:1");
    assert_string_equal(config->ldap_base, "ou=g");
    assert_string_equal(config->ldap_bind_dn, "cn=g");
    assert_string_equal(config->ldap_password_file, "/p");
    assert_string_equal(config->ldap_ca, "/c");
    assert_string_equal(config->ldap_name, "gw1");
    assert_false(config->ldap_starttls);
    assert_int_equal(config->ldap_refresh_ns, 60 * NS_PER_S);
    loads(LDAP("ldap://192.0.2.1", "starttls = true"));
    assert_true(config->ldap_starttls);
    assert_int_equal(config->ldap_refresh_ns, 600 * NS_PER_S);
    loads(LDAP("ldap://127.0.0.1:389", ""));
    loads(LDAP("ldap://[::1]:389", ""));
    loads(LDAP("ldap://localhost/", ""));
    loads(LDAP("ldapi://%2Fvar%2Frun%2Fldapi", ""));
    loads(LDAP("ldap://node7", "") "insecure = true\n");
    refuses(LDAP("ldap://node7:389", ""),
            "gateway.conf:1: ldap.uri: ldap://node7:389 is on another host, without TLS; "
            "write ldaps://, ldap.starttls = true, or insecure = true");
    refuses(LDAP("ldap://localhost.example.org", ""),
            "gateway.conf:1: ldap.uri: ldap://localhost.example.org is on another host, without TLS; "
            "write ldaps://, ldap.starttls = true, or insecure = true");
    refuses(LDAP("http://h", ""), "gateway.conf:1: ldap.uri: \"http://h\" is not an LDAP server; write "
                                  "ldap://HOST:PORT, ldaps://HOST:PORT or ldapi://PATH");
    refuses(LDAP("ldap://", ""),
            "gateway.conf:1: ldap.uri: \"ldap://\" is not an LDAP server; write ldap://HOST:PORT, "
            "ldaps://HOST:PORT or ldapi://PATH");
    refuses(LDAP("ldaps://h", "starttls = true"),
            "gateway.conf:1: ldap.starttls: it is for ldap:// addresses; leave it out");
    refuses("ldap { uri = \"ldaps://h\" }",
            "gateway.conf:1: ldap.base: it has to be said below which entry; write "
            "ldap.base = \"ou=grid,dc=example\"");
    refuses(LDAP("ldaps://h", "bind_dn = \"cn=g\""),
            "gateway.conf:1: ldap.bind_dn: ldap.bind_dn and ldap.password_file go together");
    refuses(LDAP("ldaps://h", "password_file = \"/p\""),
            "gateway.conf:1: ldap.password_file: ldap.bind_dn and ldap.password_file go together");
    refuses("ldap { base = \"ou=g\" }",
            "gateway.conf:1: ldap.base: nothing is published without ldap.uri; write that, "
            "or leave this out");
}

static void test_shown_means_the_same(void **unused)
{
    static const char *const texts[] = {
        "",
        "journal = \"/j\"\n",
        "listen = {\"unix:/a\"}\nassign = {\"a=1\", \"b=2\"}\nsecurity = authentic\n" LDAP(
            "ldapi://%2Fs", "") "access a { who = {\"operator:a*\", \"local:7\"}  may = {lookup, summary}  "
                                "hosts = \"web*,db1\"  hide = {\"os*\"} }\n"
                                "access b { who = everybody  may_not = all }\n"
                                "token t { file = \"/t\" }\n"
                                "observer o { type = file  path = \"/p\"  where = \"x = 'a'\"  events = {a, "
                                "b} }\nobserver t { type "
                                "= text }\n",
    };
    struct strbuf first = {0}, again = {0};
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        loads(texts[i]);
        strbuf_reset(&first);
        strbuf_reset(&again);
        gateway_config_show(config, CONFIG_FORM_TEXT, false, &first);
        loads(first.p);
        gateway_config_show(config, CONFIG_FORM_TEXT, false, &again);
        assert_string_equal(first.p, again.p);
    }
    assert_non_null(strstr(first.p, "\nlease {\n    time = 30s\n    renew = 10s\n}\n"));
    assert_non_null(strstr(first.p, "\nobserver o {\n    type = file\n    events = {a, b}\n"));
    strbuf_fini(&first);
    strbuf_fini(&again);
}

/* ---------------------------------------------------------------- the table */

static void check_key(struct config_scope scope, const struct config_key *key)
{
    struct config_flags flags = {0};
    struct arena arena = {0};
    struct config_load l;
    union {
        struct gateway_config gateway;
        struct observer_config observer;
        struct access_row access;
        struct access_token token;
    } *to = calloc(1, sizeof *to);
    const char *const bounds[] = {key->default_text, key->min, key->max};
    assert_non_null(to);
    assert_non_null(key->help);
    config_load_init(&l, &gateway_schema, &flags, &arena, &why);
    for (size_t i = 0; i < 3; i++) {
        struct config_key one = *key;
        one.default_text = bounds[i];
        if (bounds[i] && config_store(&l, &one, NULL, key->name, to) < 0)
            fail_msg("%s %s: %s", scope.name, key->name, why.message);
    }
    arena_fini(&arena);
    free(to);
}

/* Defaults and bounds are values that could be given; a section that is listed has keys. */
static void test_table(void **unused)
{
    struct config_scope scope;
    struct config_key key;
    size_t n = 0, in_sections = 0;
    (void)unused;
    for (size_t k = 0; gateway_schema.scope_at(k, &scope); k++) {
        for (size_t i = 0; gateway_schema.key_at(scope, i, &key); i++, n++) {
            check_key(scope, &key);
            struct slice inner = slice_of(key.name, strcspn(key.name, "."));
            assert_true(!key.name[inner.n] || config_inner_find(&gateway_schema, inner));
            in_sections += key.name[inner.n] != '\0';
        }
    }
    assert_int_equal(n, 76);
    assert_int_equal(in_sections, 34);
}

static void test_explain(void **unused)
{
    struct strbuf out = {0};
    (void)unused;
    assert_int_equal(gateway_config_explain("lease", CONFIG_FORM_TEXT, &out, &why), 0);
    assert_string_equal(
        out.p, "lease.time\n    how long a worker's lease lasts when it is not renewed\n"
               "    duration from 1s to 1h; default 30s\n\nlease.renew\n"
               "    how often workers renew it; at most a third of lease.time, so that two renewals may get\n"
               "    lost. Where it is not given it is shortened to that\n"
               "    duration from 100ms to 20m; default 10s\n");
    strbuf_reset(&out);
    assert_int_equal(gateway_config_explain("observer.NAME.keep", CONFIG_FORM_TEXT, &out, &why), 0);
    assert_non_null(strstr(out.p, "observer.NAME.keep\n"));
    assert_int_equal(gateway_config_explain("lease.tme", CONFIG_FORM_TEXT, &out, &why), E_NODATA);
    assert_string_equal(why.message, "no key or section \"lease.tme\"; did you mean lease.time?");
    strbuf_reset(&out);
    assert_int_equal(gateway_config_explain(NULL, CONFIG_FORM_JSON, &out, &why), 0);
    assert_non_null(strstr(out.p, "{\"key\": \"observer.NAME.compress\""));
    strbuf_fini(&out);
}

/* Each allocation of a load fails once: no crash, no leak, and the load says so. */
static void test_no_memory(void **unused)
{
    const char *text = "listen = {\"tcp://127.0.0.1:1\"}\nassign = {\"a=1\"}\nobserver o { type = file  path "
                       "= \"/p\"  where = \"a = 1\" }\n";
    (void)unused;
    for (uint64_t n = 1;; n++) {
        mem_fail_after(n);
        int r = load_with(text, NULL);
        mem_fail_after(0);
        if (r == 0)
            break;
        assert_int_equal(r, -ENOMEM);
        assert_in_range(n, 1, 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_defaults_of_an_observer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_a_journal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders_of_a_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_udp_follows_listen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_hosts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ldap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_problems_are_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_later_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shown_means_the_same, set_up, tear_down),
        cmocka_unit_test(test_table),
        cmocka_unit_test_setup_teardown(test_access, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_access_mistakes, set_up, tear_down),
        cmocka_unit_test(test_explain),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
