/* SPDX-License-Identifier: Apache-2.0 */
/* gridline init: makes a site: its CA, the gateway's identity, the caller's. */
#include "base/clock.h"
#include "cmd/say.h"
#include "cmd/site_folders.h"
#include "cmd/verbs.h"
#include "net/secure.h"

#include <errno.h>
#include <pwd.h>
#include <unistd.h>

struct init_options {
    const char *dir, *name, *operator_name;
    struct option_texts hosts;
};

static const char *user_name(void)
{
    const struct passwd *p = getpwuid(getuid());
    return p ? p->pw_name : "operator";
}

static void say_next(const char *dir, const char *operator_dir, const char *host)
{
    say_plain("made the site in %s", dir);
    say_plain("your own identity, for commands, is in %s", operator_dir);
    say_plain("next:");
    say_plain("  in gateway.conf: identity = \"%s\"  listen = {\"tls://*\"}", dir);
    say_plain("  gridline token --dir %s --host HOST    prints a token, for one host", dir);
    say_plain("  gridline join TOKEN    on that host, whose agent then sends to tls://%s", host);
    say_plain("%s/ca/key.pem is what all trust: keep a copy, and show it to nobody", dir);
}

static int init_run(void *state, struct operands words)
{
    (void)words; /* it has none */
    struct init_options *o = state;
    struct diag why = {0};
    struct strbuf dir = {0}, operator_dir = {0}, made = {0};
    const struct secure_site_ops *site = secure_load_site(&why);
    if (o->dir)
        strbuf_add_str(&dir, o->dir);
    else
        site_folder(&dir);
    identity_folder(TLS_OPERATOR, &operator_dir);
    if (o->hosts.n == 0)
        o->hosts.v[o->hosts.n++] = host_name();
    const struct site_init wanted = {.dir = dir.p,
                                     .name = o->name ? o->name : host_name(),
                                     .hosts = o->hosts.v,
                                     .n_hosts = o->hosts.n,
                                     .operator_name = o->operator_name ? o->operator_name : user_name(),
                                     .operator_dir = operator_dir.n ? operator_dir.p : NULL};
    int r = site && !strbuf_failed(&dir) ? site->init(&wanted, clock_utc_ns(), &made, &why) : -ENOENT;
    if (r < 0)
        say("%s", why.message);
    else
        say_next(dir.p, made.p, o->hosts.v[0]);
    strbuf_fini(&made);
    strbuf_fini(&operator_dir);
    strbuf_fini(&dir);
    return r == 0 ? EXIT_OK : r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

#define AT(member) offsetof(struct init_options, member)

static const struct option_spec table[] = {
    {'d', "dir", OPTION_FILE, "DIR", AT(dir),
     "make it in DIR (default `/var/lib/gridline/site`; not root: `~/.local/share/gridline/site`)"},
    {'n', "name", OPTION_TEXT, "NAME", AT(name), "the gateway's name (default: this host's)"},
    {0, "host", OPTION_TEXTS, "NAME", AT(hosts),
     "a DNS name or address at which the gateway is reached (default: this host's name); can be given again"},
    {0, "operator", OPTION_TEXT, "NAME", AT(operator_name),
     "your name as an operator (default: your user's)"},
    {0},
};

static const struct example examples[] = {
    {"gridline init", "A site, with this host as its gateway"},
    {"gridline init --dir ./site --host gw.example.org --host 192.0.2.1",
     "Another folder, and the names of the gateway"},
    {NULL, NULL},
};

const struct verb verb_init = {
    .name = "init",
    .summary = "make a site: its CA and the gateway's identity",
    .operands = "",
    .description =
        "Makes the folder of a site, readable by its owner only: the CA (`ca`, 10 years), the identity of "
        "the gateway "
        "(`key.pem`, `cert.pem`, `ca.pem`), and `signer`, a key that signs configuration documents for "
        "agents. The "
        "gateway that is given this folder as its `identity` hands out certificates and renews its own.\n"
        "Your own identity as an operator goes to `~/.config/gridline/identity`, or to `operator` in the "
        "folder if "
        "there is one already.\n"
        "Nothing is overwritten: a folder that is there stays as it is, and the command fails.",
    .options = table,
    .examples = examples,
    .state_size = sizeof(struct init_options),
    .run = init_run,
};
