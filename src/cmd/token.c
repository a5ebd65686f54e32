/* SPDX-License-Identifier: Apache-2.0 */
/* gridline token: a one-time token, with which a host joins the site. */
#include "base/clock.h"
#include "base/text.h"
#include "cmd/file.h"
#include "cmd/say.h"
#include "cmd/site_folders.h"
#include "cmd/verbs.h"
#include "net/secure.h"

#include <errno.h>

struct token_options {
    const char *dir, *host, *operator_name, *gateway_name, *http_name;
    bool any_host;
    struct option_texts gateways;
    int64_t ttl_ns;
};

static const int64_t ttl_max_ns = INT64_C(31) * 86400 * NS_PER_S;

/* Whom it is for; exactly one must be given. */
static bool choose(const struct token_options *o, struct site_token *out)
{
    int n = (o->host != NULL) + (o->operator_name != NULL) + (o->gateway_name != NULL) + o->any_host +
            (o->http_name != NULL);
    if (n != 1) {
        say("give one of --host NAME, --operator NAME, --gateway-name NAME, --any-host, --http NAME: a token "
            "is for "
            "one bearer");
        return false;
    }
    out->role = o->operator_name ? TLS_OPERATOR : o->gateway_name ? TLS_GATEWAY : TLS_AGENT;
    out->name = o->operator_name ? o->operator_name : o->gateway_name ? o->gateway_name : o->host;
    return true;
}

/* Nothing is kept of it: the section goes into the gateway's configuration, the token to whoever asks by
 * HTTP. */
static int make_http(const char *name)
{
    struct diag why = {0};
    struct strbuf text = {0}, sha256 = {0};
    if (!text_is_name(slice_str(name))) {
        say("'%.60s' is no name: 1 to 128 letters, digits and . _ : -", name);
        return EXIT_USAGE;
    }
    const struct secure_site_ops *site = secure_load_site(&why);
    int r = site ? site->http_token(&text, &sha256) : -ENOENT;
    if (r < 0)
        say("%s", site ? err_text(r) : why.message);
    else
        say_plain("for gateway.conf: token %s { sha256 = \"%s\" }", name, sha256.p);
    strbuf_add_char(&text, '\n');
    int code = r < 0 ? EXIT_FAILED : file_print(&text);
    if (r < 0)
        strbuf_fini(&text);
    strbuf_fini(&sha256);
    return code;
}

static int token_run(void *state, struct operands words)
{
    (void)words; /* it has none */
    const struct token_options *o = state;
    struct diag why = {0};
    struct strbuf dir = {0}, addresses = {0}, text = {0};
    struct site_token wanted = {.ttl_ns = o->ttl_ns};
    if (!choose(o, &wanted))
        return EXIT_USAGE;
    if (o->http_name)
        return make_http(o->http_name);
    if (o->ttl_ns <= 0 || o->ttl_ns > ttl_max_ns) {
        say("--ttl: a token lives more than 0 s and at most 31 days");
        return EXIT_USAGE;
    }
    if (o->dir)
        strbuf_add_str(&dir, o->dir);
    else
        site_folder(&dir);
    for (size_t i = 0; i < o->gateways.n; i++)
        strbuf_printf(&addresses, "%s%s", i ? "," : "", o->gateways.v[i]);
    wanted.dir = dir.p;
    wanted.addresses = addresses.n ? addresses.p : NULL;
    const struct secure_site_ops *site = secure_load_site(&why);
    bool has_memory = !strbuf_failed(&dir) && !strbuf_failed(&addresses);
    int r = site && has_memory ? site->token(&wanted, clock_utc_ns(), &text, &why) : -ENOENT;
    strbuf_fini(&dir);
    strbuf_fini(&addresses);
    if (r < 0) {
        say("%s", why.message);
        strbuf_fini(&text);
        return r == -EINVAL ? EXIT_USAGE : r == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED;
    }
    strbuf_add_char(&text, '\n');
    return file_print(&text);
}

#define AT(member) offsetof(struct token_options, member)

static const struct option_spec table[] = {
    {0, "host", OPTION_TEXT, "NAME", AT(host),
     "for the agent of this host: the name that its events will have"},
    {0, "operator", OPTION_TEXT, "NAME", AT(operator_name), "for a person who gives commands"},
    {0, "gateway-name", OPTION_TEXT, "NAME", AT(gateway_name), "for another gateway of the site"},
    {0, "any-host", OPTION_FLAG, NULL, AT(any_host),
     "for the agent of whichever host uses it first, under any name"},
    {0, "http", OPTION_TEXT, "NAME", AT(http_name),
     "for a program that asks by HTTP, again and again: prints it, and on standard error the section "
     "`token NAME` for the gateway's configuration"},
    {0, "ttl", OPTION_DURATION, "TIME", AT(ttl_ns), "how long it can be used (default 1h)"},
    {'g', "gateway", OPTION_TEXTS, "ADDRESS", AT(gateways),
     "where to join, `tls://HOST[:PORT]` (default: the names in the gateway's certificate); can be given "
     "again"},
    {'d', "dir", OPTION_FILE, "DIR", AT(dir), "the site's folder (default: where `gridline init` makes it)"},
    {0},
};

static const struct token_options defaults = {.ttl_ns = 3600 * NS_PER_S};

static const struct example examples[] = {
    {"gridline token --host node1", "For node1, for an hour"},
    {"gridline token --host node1 | ssh node1 'gridline join -'", "And used at once"},
    {"gridline token --operator ann --ttl 1d", "For a person"},
    {"gridline token --http dash >dash.token", "For a dashboard, by HTTP"},
    {NULL, NULL},
};

const struct verb verb_token = {
    .name = "token",
    .summary = "make a one-time token, with which a host joins",
    .operands = "",
    .description =
        "Prints a token. With it `gridline join` gets a certificate, once, for the name that the "
        "token is for. It holds "
        "a secret, the fingerprint of the site's CA, and where the gateway is, so that nothing "
        "else is needed to join "
        "and nobody but the gateway learns the secret. Whoever has it first can use it: send it "
        "by a way that "
        "you trust.\n"
        "The site keeps a hash of it only, in `tokens`. Removing that file withdraws the token.\n"
        "With `--http` it is not for joining and not used up: what its NAME may do is in the gateway's "
        "access table, as `token:NAME` (docs/access.md). Removing the section withdraws it.",
    .options = table,
    .examples = examples,
    .state_size = sizeof(struct token_options),
    .defaults = &defaults,
    .run = token_run,
};
