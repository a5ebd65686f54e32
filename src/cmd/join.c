/* SPDX-License-Identifier: Apache-2.0 */
/* gridline join: turns a token into an identity. */
#include "base/clock.h"
#include "cmd/file.h"
#include "cmd/say.h"
#include "cmd/site_folders.h"
#include "cmd/verbs.h"
#include "net/secure.h"

#include <errno.h>
#include <unistd.h>

enum { TOKEN_INPUT_MAX = 4096 };

struct join_options {
    const char *dir, *gateway, *name;
    int64_t timeout_ns;
};

/* `-`: from standard input, where other users of this host can't see it. */
static int read_token(const char *word, struct strbuf *out)
{
    if (strcmp(word, "-") != 0) {
        strbuf_add_str(out, word);
        return strbuf_failed(out) ? -ENOMEM : 0;
    }
    ssize_t n = 1;
    while (n > 0 && out->n < TOKEN_INPUT_MAX) {
        char *to = strbuf_room(out, TOKEN_INPUT_MAX);
        n = to ? file_read(STDIN_FILENO, to, TOKEN_INPUT_MAX) : -ENOMEM;
        if (n > 0)
            strbuf_advance(out, (size_t)n);
    }
    while (out->n && strchr(" \t\r\n", out->p[out->n - 1]))
        out->p[--out->n] = '\0';
    return n < 0 ? (int)n : out->n ? 0 : E_NODATA;
}

static int join(const struct secure_site_ops *site, const struct join_options *o, const char *token,
                struct diag *why)
{
    struct tls_identity who;
    struct strbuf dir = {0};
    int r = site->read_token(token, &who, why);
    if (r < 0)
        return r;
    if (o->dir)
        strbuf_add_str(&dir, o->dir);
    else
        identity_folder(who.role, &dir);
    const struct secure_join wanted = {.token = token,
                                       .name = o->name ? o->name : host_name(),
                                       .gateway = o->gateway,
                                       .dir = dir.p,
                                       .timeout_ms = (int)(o->timeout_ns / 1000000)};
    r = dir.n && !strbuf_failed(&dir) ? site->join(&wanted, &who, why)
                                      : diag_set(why, -ENOENT, 0, "there is no home folder: give --dir");
    if (r == 0) {
        char until[CLOCK_TEXT_MAX];
        say_plain("joined as %s %s; the identity is in %s, good until %.*s", identity_role_name(who.role),
                  who.name, dir.p, (int)clock_print_iso(until, who.not_after_ns), until);
        if (who.role == TLS_AGENT)
            say_plain("the agent renews it by itself: set `identity = \"%s\"` and a gateway tls://HOST in "
                      "agent.conf",
                      dir.p);
    }
    strbuf_fini(&dir);
    return r;
}

static int join_run(void *state, struct operands words)
{
    const struct join_options *o = state;
    struct diag why = {0};
    struct strbuf token = {0};
    if (o->timeout_ns <= 0 || o->timeout_ns > 3600 * NS_PER_S) {
        say("--timeout: more than 0 s, at most an hour");
        return EXIT_USAGE;
    }
    int r = read_token(words.v[0], &token);
    if (r < 0)
        (void)diag_set(&why, r, 0, "no token on standard input: %s", err_text(r));
    const struct secure_site_ops *site = r < 0 ? NULL : secure_load_site(&why);
    if (site)
        r = join(site, o, token.p, &why);
    if (!site || r < 0)
        say("%s", why.message);
    strbuf_fini(&token);
    return !site || r < 0 ? (r == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED) : EXIT_OK;
}

#define AT(member) offsetof(struct join_options, member)

static const struct option_spec table[] = {
    {'g', "gateway", OPTION_TEXT, "ADDRESS", AT(gateway), "`tls://HOST[:PORT]` (default: as the token says)"},
    {'d', "dir", OPTION_FILE, "DIR", AT(dir),
     "where the identity goes (default: an agent's `/var/lib/gridline/identity`, not root "
     "`~/.local/share/gridline/identity`; an operator's `~/.config/gridline/identity`)"},
    {'n', "name", OPTION_TEXT, "NAME", AT(name),
     "the name to join under, with a token for any host (default: this host's)"},
    {0, "timeout", OPTION_DURATION, "TIME", AT(timeout_ns), "how long a gateway may take (default 10s)"},
    {0},
};

static const struct join_options defaults = {.timeout_ns = 10 * NS_PER_S};

static const struct example examples[] = {
    {"gridline join gl1_4AAQ...", "Join with a token"},
    {"gridline join - < token", "From a file, so that no list of processes shows it"},
    {"gridline join --gateway tls://192.0.2.1:14830 gl1_4AAQ...", "At another address than the token says"},
    {NULL, NULL},
};

const struct verb verb_join = {
    .name = "join",
    .summary = "turn a token into this host's identity",
    .operands = "TOKEN|-",
    .description = "Makes a key, connects to the gateway that TOKEN names, sees by the token that it is the "
                   "right one, and gets a "
                   "certificate for the key. Key and certificate are written to the identity folder; the key "
                   "never leaves this "
                   "host. An identity that is still valid is not replaced.\n"
                   "It ends with 5 if the gateway refuses: the token has expired, was used before, or is for "
                   "another name.",
    .operand_kind = OPERAND_WORDS,
    .operands_min = 1,
    .operands_max = 1,
    .options = table,
    .examples = examples,
    .state_size = sizeof(struct join_options),
    .defaults = &defaults,
    .run = join_run,
};
