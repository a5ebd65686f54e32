/* SPDX-License-Identifier: Apache-2.0 */
/* The table: all that parser, check, show, explain and docs know of a key is here. And the kinds of values
 * that only the gateway has. */
#include "gateway/config_internal.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"
#include "event/class.h"
#include "event/escapes.h"
#include "event/predicate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

/* ---------------------------------------------------------------- addresses */

/* HOST, HOST:PORT, [HOST] or [HOST]:PORT; not empty. */
static bool split_host(struct slice text, struct slice port, struct config_address *out)
{
    bool has_brackets = text.p[0] == '[';
    const char *stop = memchr(text.p, has_brackets ? ']' : ':', text.n);
    size_t n = stop ? (size_t)(stop - text.p) : text.n;
    struct slice rest = slice_from(text, n + has_brackets);
    if (has_brackets && !stop)
        return false;
    out->host = slice_of(text.p + has_brackets, n - has_brackets);
    out->port = rest.n ? slice_from(rest, 1) : port;
    return out->host.n > 0 && (rest.n == 0 || rest.p[0] == ':');
}

bool config_address_parse(struct slice text, struct config_address *out)
{
    static const struct {
        struct slice scheme;
        enum address_kind kind;
    } schemes[] = {{{"tcp://", 6}, ADDRESS_TCP}, {{"tls://", 6}, ADDRESS_TLS}, {{"unix:", 5}, ADDRESS_UNIX}};
    uint64_t port;
    *out = (struct config_address){.kind = ADDRESS_TCP};
    if (text.n == 0 || text_has_control(text) || memchr(text.p, ',', text.n) || memchr(text.p, ' ', text.n))
        return false;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (!slice_starts(text, schemes[i].scheme))
            continue;
        out->kind = schemes[i].kind;
        text = slice_from(text, schemes[i].scheme.n);
        break;
    }
    if (out->kind == ADDRESS_UNIX) {
        out->host = text;
        return text.n > 0;
    }
    return text.n > 0 && !memchr(text.p, '/', text.n) && split_host(text, SLICE_LIT(GATEWAY_PORT), out) &&
           num_parse_uint(out->port, &port) == 0 && port <= UINT16_MAX;
}

bool config_http_parse(struct slice text, struct config_address *out)
{
    const struct slice http = SLICE_LIT("http://"), https = SLICE_LIT("https://");
    uint64_t port;
    *out = (struct config_address){.kind = slice_starts(text, https) ? ADDRESS_TLS : ADDRESS_TCP};
    if (slice_starts(text, http) || slice_starts(text, https))
        text = slice_from(text, slice_starts(text, http) ? http.n : https.n);
    if (text.n == 0 || text_has_control(text) || memchr(text.p, ',', text.n) || memchr(text.p, ' ', text.n) ||
        memchr(text.p, '/', text.n))
        return false;
    return split_host(text, SLICE_LIT(GATEWAY_HTTP_PORT), out) && num_parse_uint(out->port, &port) == 0 &&
           port <= UINT16_MAX;
}

bool config_address_is_loopback(const struct config_address *a)
{
    char host[INET6_ADDRSTRLEN];
    struct in_addr v4;
    struct in6_addr v6;
    if (a->kind == ADDRESS_UNIX || slice_eq_nocase(a->host, SLICE_LIT("localhost")))
        return true;
    if (a->host.n >= sizeof host)
        return false;
    (void)snprintf(host, sizeof host, "%.*s", SLICE_ARG(a->host)); /* fits */
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

#define member(v, base, type) (*(type *)(void *)((char *)(base) + (v)->key->offset))

static int store_listen(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct config_address address;
    for (size_t i = 0; i < n; i++)
        if (!config_address_parse(slice_str(texts[i]), &address))
            return config_refuse(
                v, "\"%.80s\" is not an address; write tcp://HOST:PORT, tls://HOST:PORT or unix:PATH",
                texts[i]);
    if (n == 0)
        return config_refuse(
            v, "there is none to listen on; leave it out, or write tcp://127.0.0.1:" GATEWAY_PORT);
    return config_store_joined(v, texts, n, ',', &member(v, base, const char *));
}

static int store_udp(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct config_address address;
    (void)n; /* one, as it is no list */
    bool is_good = !strstr(texts[0], "//") && config_address_parse(slice_str(texts[0]), &address) &&
                   address.kind != ADDRESS_UNIX;
    if (*texts[0] && !is_good)
        return config_refuse(
            v, "\"%.80s\" is not an address for datagrams; write HOST:PORT, or \"\" for none", texts[0]);
    member(v, base, const char *) = texts[0];
    return 0;
}

static int store_http(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct config_address address;
    (void)n; /* one, as it is no list */
    if (*texts[0] && !config_http_parse(slice_str(texts[0]), &address))
        return config_refuse(v,
                             "\"%.80s\" is not an address for HTTP; write HOST:PORT, https://HOST:PORT, or "
                             "\"\" for none",
                             texts[0]);
    member(v, base, const char *) = texts[0];
    return 0;
}

static int store_names(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++)
        if (!text_is_name(slice_str(texts[i])) || strchr(texts[i], ':'))
            return config_refuse(v, "\"%.80s\" is not a host's name; write {\"monitor.example.org\"}",
                                 texts[i]);
    return config_store_joined(v, texts, n, ',', &member(v, base, const char *));
}

/* ---------------------------------------------------------------- other kinds */

/* The place of the word is the number of the wire. */
_Static_assert(SEAL_NONE == 0 && SEAL_AUTHENTIC == 1 && SEAL_PRIVATE == 2,
               "the words of `security` are in this order");
_Static_assert(ESCAPES_AUTO == 0 && ESCAPES_PLAIN == 1 && ESCAPES_C == 2, "and those of `escapes`");

static int store_level(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    unsigned place;
    (void)n; /* one, as it is no list */
    int r = config_word_place(v, texts[0], &place);
    if (r == 0)
        member(v, base, uint8_t) = (uint8_t)place;
    return r;
}

static int store_assign(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++) {
        struct slice text = slice_str(texts[i]);
        size_t name = strcspn(texts[i], "=");
        if (name == text.n || !text_is_name(slice_of(text.p, name)) || text_has_control(text))
            return config_refuse(
                v, "\"%.80s\" is not a setting; write \"KEY=VALUE\", e.g. \"vector.every=2s\"", texts[i]);
    }
    return config_store_joined(v, texts, n, '\n', &member(v, base, const char *));
}

bool gateway_config_demand(struct slice text, struct demand_request *out)
{
    const char *space = text.n ? memchr(text.p, ' ', text.n) : NULL;
    size_t n = space ? (size_t)(space - text.p) : text.n;
    int64_t period_ns = 0;
    if (n == 0 || n > DEMAND_EVENTS_MAX || memchr(text.p, ',', n) || text_has_control(text) ||
        !text_is_utf8(text))
        return false;
    if (space && (num_parse_duration(slice_from(text, n + 1), &period_ns) < 0 || period_ns < 1000000 ||
                  period_ns / 1000000 > UINT32_MAX))
        return false;
    *out = (struct demand_request){slice_of(text.p, n), (uint32_t)(period_ns / 1000000)};
    return true;
}

static int store_demand(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct demand_request r;
    for (size_t i = 0; i < n; i++)
        if (!gateway_config_demand(slice_str(texts[i]), &r))
            return config_refuse(
                v, "\"%.80s\" is not a request; write \"PATTERN\" or \"PATTERN TIME\", e.g. \"cpu 10s\"",
                texts[i]);
    return config_store_joined(v, texts, n, '\n', &member(v, base, const char *));
}

bool gateway_config_class(struct slice text, struct class_setting *out)
{
    struct slice words[3];
    for (size_t i = 0; i < 3; i++) {
        const char *space = text.n ? memchr(text.p, ' ', text.n) : NULL;
        words[i] = slice_of(text.p, space ? (size_t)(space - text.p) : text.n);
        text = slice_from(text, words[i].n);
        while (text.n && text.p[0] == ' ')
            text = slice_from(text, 1);
    }
    out->event = words[0];
    out->field = words[1];
    return text.n == 0 && text_is_name(words[0]) && text_is_name(words[1]) && class_parse(words[2], &out->class) == 0;
}

static int store_classes(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct class_setting s;
    for (size_t i = 0; i < n; i++)
        if (!gateway_config_class(slice_str(texts[i]), &s))
            return config_refuse(
                v, "\"%.80s\" is not a class; write \"EVENT FIELD number\" or \"EVENT FIELD text\", e.g. \"rpc.call latency "
                   "number\"",
                texts[i]);
    return config_store_joined(v, texts, n, '\n', &member(v, base, const char *));
}

/* What directory_expect takes. */
static int store_expect(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++) {
        size_t host = strcspn(texts[i], " \t");
        if (host == 0 || host > EVENT_ORIGIN_MAX || text_has_control(slice_str(texts[i])) ||
            strpbrk(texts[i] + host, "*?[\\"))
            return config_refuse(
                v, "\"%.80s\" is not a host and its sensors; write {\"node1 cpu memory\", \"db* heartbeat\"}",
                texts[i]);
    }
    return config_store_joined(v, texts, n, '\n', &member(v, base, const char *));
}

static int store_patterns(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++)
        if (!*texts[i] || strpbrk(texts[i], ", ") || text_has_control(slice_str(texts[i])))
            return config_refuse(v, "\"%.80s\" is not a pattern; write {\"job.*\", disk}", texts[i]);
    return config_store_joined(v, texts, n, ',', &member(v, base, const char *));
}

static int store_predicate(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct predicate *p;
    struct diag why = {0};
    (void)n; /* one, as it is no list */
    int r = *texts[0] ? predicate_compile(slice_str(texts[0]), clock_utc_ns(), &p, &why) : 0;
    if (r == -ENOMEM)
        return config_problem(v->load, r, NULL, NULL, "out of memory");
    if (r < 0)
        return config_refuse(v, "at byte %u: %s; docs/predicate.md has the language", why.col, why.message);
    if (*texts[0])
        predicate_destroy(p);
    member(v, base, const char *) = texts[0];
    return 0;
}

/* PATTERN=DURATION, the first that fits counts. */
static int store_keep(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++) {
        const char *equals = strchr(texts[i], '=');
        int64_t age_ns = 0;
        bool is_good = equals && equals > texts[i] && !strpbrk(texts[i], ", ") &&
                       !text_has_control(slice_str(texts[i])) &&
                       num_parse_duration(slice_str(equals + 1), &age_ns) == 0 && age_ns > 0;
        if (!is_good)
            return config_refuse(v, "\"%.80s\" does not say how long; write {\"cpu*=30d\", \"*=7d\"}",
                                 texts[i]);
    }
    return config_store_joined(v, texts, n, ',', &member(v, base, const char *));
}

static int store_windows(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    int64_t length_ns;
    for (size_t i = 0; i < n; i++)
        if (!summary_window_parse(slice_str(texts[i]), &length_ns))
            return config_refuse(v, "\"%.40s\" is not a window; write a multiple of 6s, at most 7d, e.g. 10m",
                                 texts[i]);
    if (n > SUMMARY_WINDOWS_MAX)
        return config_refuse(v, "there are more than %d", SUMMARY_WINDOWS_MAX);
    return config_store_joined(v, texts, n, ',', &member(v, base, const char *));
}

/* "-" or a path from the root. */
static int store_file(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct slice text = slice_str(texts[0]);
    (void)n; /* one, as it is no list */
    if (text.n == 0 || text_has_control(text) || (text.p[0] != '/' && !slice_eq(text, SLICE_LIT("-"))))
        return config_refuse(
            v, "\"%.80s\" is not a path from the root; begin with /, or write - for standard output",
            texts[0]);
    member(v, base, const char *) = texts[0];
    return 0;
}

static const struct config_own own_listen = {"list of addresses", true, store_listen};
static const struct config_own own_udp = {"address", false, store_udp};
static const struct config_own own_http = {"address", false, store_http};
static const struct config_own own_names = {"list of names", true, store_names};
static const struct config_own own_level = {"word", false, store_level};
static const struct config_own own_assign = {"list of settings", true, store_assign};
static const struct config_own own_classes = {"list of classes", true, store_classes};
static const struct config_own own_demand = {"list of requests", true, store_demand};
static const struct config_own own_expect = {"list of hosts and sensors", true, store_expect};
static const struct config_own own_patterns = {"list of patterns", true, store_patterns};
static const struct config_own own_predicate = {"predicate", false, store_predicate};
static const struct config_own own_keep = {"list of patterns and ages", true, store_keep};
static const struct config_own own_windows = {"list of durations", true, store_windows};
static const struct config_own own_file = {"path", false, store_file};

/* ---------------------------------------------------------------- keys */

#define GATEWAY(member)  offsetof(struct gateway_config, member)
#define OBSERVER(member) offsetof(struct observer_config, member)

static const struct config_key gateway_keys[] = {
    {.name = "listen",
     .type = CONFIG_OWN,
     .own = &own_listen,
     .offset = GATEWAY(listen),
     .default_text = "tcp://127.0.0.1:" GATEWAY_PORT,
     .help = "where connections are taken: `tcp://HOST:PORT`, `tls://HOST:PORT`, `unix:PATH`; port 0: any "
             "that is "
             "free. Other hosts can only come by `tls://`, unless `insecure`"},
    {.name = "udp",
     .type = CONFIG_OWN,
     .own = &own_udp,
     .offset = GATEWAY(udp),
     .help =
         "where samples are taken as datagrams: `HOST:PORT`; empty: nowhere, they come by the connections. "
         "Default: host and port of the first of `listen` that has them; port 0: as that one"},
    {.name = "http",
     .type = CONFIG_OWN,
     .own = &own_http,
     .offset = GATEWAY(http),
     .help = "where HTTP is spoken: `HOST:PORT`, or `https://HOST:PORT` with `identity`; port 0: any that is "
             "free; empty: nowhere. Other hosts can only come by `https://`, unless `insecure`. Default: "
             "`127.0.0.1:14831`; none where journal or state_dir is given and run_dir is not"},
    {.name = "http_names",
     .type = CONFIG_OWN,
     .own = &own_names,
     .offset = GATEWAY(http_names),
     .default_text = "",
     .help = "names of this host that requests may be for, besides its own, that of its certificate, "
             "localhost and addresses in numbers"},
    {.name = "http_log",
     .type = CONFIG_FLAG,
     .offset = GATEWAY(http_log),
     .default_text = "false",
     .help = "a line in the log for each HTTP request"},
    {.name = "viewer",
     .type = CONFIG_FLAG,
     .offset = GATEWAY(viewer),
     .default_text = "true",
     .help = "the viewer, a page for browsers, is at the address of `http`"},
    {.name = "viewer_dir",
     .type = CONFIG_PATH,
     .offset = GATEWAY(viewer_dir),
     .default_text = "",
     .help = "a folder whose files are served as the viewer instead of those in the program: for who works "
             "on it"},
    {.name = "socket",
     .type = CONFIG_PATH,
     .offset = GATEWAY(socket),
     .help =
         "the Unix socket for commands and programs on this host; empty: none. Default: `gateway.sock` in "
         "run_dir; none where journal or state_dir is given and run_dir is not"},
    {.name = "state_dir",
     .type = CONFIG_PATH,
     .offset = GATEWAY(state_dir),
     .help = "keeps the journal and the hashes of join tokens and of the viewer's sessions. Default: "
             "`/var/lib/gridline/gateway` for "
             "root, else "
             "`gridline/gateway` in $XDG_STATE_HOME or ~/.local/state; none where only journal is given"},
    {.name = "run_dir",
     .type = CONFIG_PATH,
     .offset = GATEWAY(run_dir),
     .help = "has the socket. Default: `/run/gridline` for root, else `gridline` in $XDG_RUNTIME_DIR, else "
             "/tmp/gridline-UID"},
    {.name = "journal",
     .type = CONFIG_PATH,
     .offset = GATEWAY(journal),
     .help = "the folder of the journal. Default: `journal` in state_dir"},
    {.name = "journal_max",
     .type = CONFIG_SIZE,
     .offset = GATEWAY(journal_max),
     .default_text = "1GiB",
     .min = "1MiB",
     .max = "1TiB",
     .help =
         "how large the journal may grow. Then the oldest gives way, but nothing that the archive has not "
         "written yet: when that takes all of it, samples are dropped and new events refused, which wait "
         "at their senders. At least 4/3 of archive.memory where there is an archive"},
    {.name = "journal_hold",
     .type = CONFIG_SIZE,
     .offset = GATEWAY(journal_hold),
     .min = "1MiB",
     .max = "1TiB",
     .help = "how large the journal may grow for a durable subscription whose consumer is away, or slow. "
             "Beyond that, and journal_max, the oldest gives way, and the subscription gets it from the "
             "archive. Default: journal_max"},
    {.name = "connections_max",
     .type = CONFIG_COUNT,
     .offset = GATEWAY(connections_max),
     .default_text = "16384",
     .min = "1",
     .max = "1000000",
     .help = "connections at a time; further ones are turned away, and counted"},
    {.name = "identity",
     .type = CONFIG_PATH,
     .offset = GATEWAY(identity),
     .default_text = "",
     .help = "the site's folder with this gateway's key and certificate, as `gridline init` makes it; empty: "
             "no TLS"},
    {.name = "security",
     .type = CONFIG_OWN,
     .own = &own_level,
     .offset = GATEWAY(level),
     .default_text = "private",
     .words = "none|authentic|private",
     .help = "how datagrams of other hosts are protected: `authentic`: signed, readable; `private`: "
             "encrypted, too; "
             "`none` needs `insecure`"},
    {.name = "escapes",
     .type = CONFIG_OWN,
     .own = &own_level,
     .offset = GATEWAY(escapes),
     .default_text = "auto",
     .words = "auto|plain|c",
     .help = "backslashes in quoted values of lines of ULM and BP that programs send: `plain`: `\\\"` and `\\\\` are "
             "escapes, any other backslash is itself; `c`: `\\n`, `\\t`, `\\r` are escapes, too; `auto`: by what the "
             "lines show that came together with the first that has one"},
    {.name = "insecure",
     .type = CONFIG_FLAG,
     .offset = GATEWAY(is_insecure),
     .default_text = "false",
     .help =
         "other hosts may come without TLS: nobody knows who they are, and everybody on the way reads along"},
    {.name = "assign",
     .type = CONFIG_OWN,
     .own = &own_assign,
     .offset = GATEWAY(assign),
     .default_text = "",
     .help = "settings that every worker is given with its lease: `\"vector.every=2s\"`"},
    {.name = "demand",
     .type = CONFIG_OWN,
     .own = &own_demand,
     .offset = GATEWAY(demand),
     .default_text = "",
     .help = "what is asked of sensors that run on request while nobody subscribes, too, so that observers, "
             "latest and "
             "summaries have it: `\"PATTERN\"` of event names, or `\"PATTERN TIME\"`: `{\"cpu 10s\", "
             "\"disk*\"}`"},
    {.name = "classes",
     .type = CONFIG_OWN,
     .own = &own_classes,
     .offset = GATEWAY(classes),
     .default_text = "",
     .help = "fields whose column holds numbers or text whatever their first values say: `\"EVENT FIELD number\"` or "
             "`\"EVENT FIELD text\"`, as `gridline schema set` does: `{\"rpc.call latency number\"}`"},
    {.name = "domain",
     .type = CONFIG_STRING,
     .offset = GATEWAY(domain),
     .default_text = "",
     .help = "the domain that the hosts here are of, as the directory says it; empty: this host's own, or "
             "`local`"},
    {.name = "expect",
     .type = CONFIG_OWN,
     .own = &own_expect,
     .offset = GATEWAY(expect),
     .default_text = "",
     .help =
         "what has to be there: a host, or a pattern of known ones, and its sensors: `{\"node1 cpu memory\", "
         "\"db* heartbeat\"}`. What is not is listed as missing"},
    {.name = "ready_file",
     .type = CONFIG_PATH,
     .offset = GATEWAY(ready_file),
     .default_text = "",
     .help = "file that gets the addresses, a line each, once it listens"},
    {.name = "lease.time",
     .type = CONFIG_MS,
     .offset = GATEWAY(lease_ms),
     .default_text = "30s",
     .min = "1s",
     .max = "1h",
     .help = "how long a worker's lease lasts when it is not renewed"},
    {.name = "lease.renew",
     .type = CONFIG_MS,
     .offset = GATEWAY(renew_ms),
     .default_text = "10s",
     .min = "100ms",
     .max = "20m",
     .help = "how often workers renew it; at most a third of lease.time, so that two renewals may get lost. "
             "Where it is "
             "not given it is shortened to that"},
    {.name = "directory.keep",
     .type = CONFIG_DURATION,
     .offset = GATEWAY(directory_keep_ns),
     .default_text = "1d",
     .min = "1s",
     .max = "366d",
     .help =
         "how long hosts that are gone, programs that are silent and schemas that nobody makes stay in the "
         "directory"},
    {.name = "archive.dir",
     .type = CONFIG_PATH,
     .offset = GATEWAY(archive.dir),
     .help = "the folder of the archive, which keeps events as SQL tables (`gridline sql`); empty: there is "
             "none. "
             "Default: `archive` in state_dir; none without a state_dir"},
    {.name = "archive.events",
     .type = CONFIG_OWN,
     .own = &own_patterns,
     .offset = GATEWAY(archive.events),
     .default_text = "",
     .help = "which events it keeps, by patterns of their names: `{\"job.*\", disk}`; none: all"},
    {.name = "archive.hosts",
     .type = CONFIG_OWN,
     .own = &own_patterns,
     .offset = GATEWAY(archive.hosts),
     .default_text = "",
     .help = "and of which hosts, by patterns; none: of all"},
    {.name = "archive.where",
     .type = CONFIG_OWN,
     .own = &own_predicate,
     .offset = GATEWAY(archive.where),
     .default_text = "",
     .help = "and which of them, by a predicate: `\"level <= 'info'\"`; empty: all"},
    {.name = "archive.ids",
     .type = CONFIG_STRING,
     .offset = GATEWAY(archive.ids),
     .default_text = "id",
     .help = "the fields that say which object an event is about, so that its way can be followed: names by "
             "commas, fields that only together say it joined by `+`: `\"id,job+task\"`"},
    {.name = "archive.keep",
     .type = CONFIG_OWN,
     .own = &own_keep,
     .offset = GATEWAY(archive.keep),
     .default_text = "*=7d",
     .help = "how long events are kept as they are, by patterns of their names, the first that fits: "
             "`{\"job.*=90d\", \"*=7d\"}`"},
    {.name = "archive.keep_10s",
     .type = CONFIG_DURATION,
     .offset = GATEWAY(archive.keep_10s),
     .default_text = "30d",
     .min = "1h",
     .max = "36600d",
     .help = "how long their count, minimum, maximum, sum, first and last in each 10 seconds are kept"},
    {.name = "archive.keep_1m",
     .type = CONFIG_DURATION,
     .offset = GATEWAY(archive.keep_1m),
     .default_text = "180d",
     .min = "1h",
     .max = "36600d",
     .help = "the same of each minute"},
    {.name = "archive.keep_1h",
     .type = CONFIG_DURATION,
     .offset = GATEWAY(archive.keep_1h),
     .default_text = "1830d",
     .min = "1h",
     .max = "36600d",
     .help = "the same of each hour"},
    {.name = "archive.size",
     .type = CONFIG_SIZE,
     .offset = GATEWAY(archive.size),
     .default_text = "10GiB",
     .min = "16MiB",
     .max = "1024TiB",
     .help = "how large the archive's folder may grow, its reserve included; then the oldest gives way, and is counted"},
    {.name = "archive.memory",
     .type = CONFIG_SIZE,
     .offset = GATEWAY(archive.memory),
     .default_text = "24MiB",
     .min = "1MiB",
     .max = "64GiB",
     .help = "the newest rows are kept in so much memory before they are written together; more where there "
             "are so many streams that it would be less than 128 rows each, up to 8 times"},
    {.name = "archive.flush",
     .type = CONFIG_DURATION,
     .offset = GATEWAY(archive.flush_ns),
     .default_text = "10m",
     .min = "1s",
     .max = "1d",
     .help = "and for so long at most. Until then they are in the journal"},
    {.name = "archive.partition",
     .type = CONFIG_DURATION,
     .offset = GATEWAY(archive.partition_ns),
     .default_text = "1d",
     .min = "1h",
     .max = "366d",
     .help = "the time that one file of the archive spans"},
    {.name = "archive.streams",
     .type = CONFIG_COUNT,
     .offset = GATEWAY(archive.streams),
     .default_text = "10000",
     .min = "1",
     .max = "10000000",
     .help =
         "how many streams one producer may have; what it makes beyond goes to an overflow stream, and is "
         "counted"},
    {.name = "archive.query_threads",
     .type = CONFIG_COUNT,
     .offset = GATEWAY(archive.query_threads),
     .default_text = "2",
     .min = "1",
     .max = "64",
     .help = "how many SQL queries run at a time; others wait"},
    {.name = "ldap.uri",
     .type = CONFIG_STRING,
     .offset = GATEWAY(ldap_uri),
     .default_text = "",
     .help = "the LDAP server that the directory is published in: `ldap://HOST:PORT`, `ldaps://HOST:PORT` or "
             "`ldapi://PATH`; "
             "empty: none. docs/ldap.md says what it gets"},
    {.name = "ldap.base",
     .type = CONFIG_STRING,
     .offset = GATEWAY(ldap_base),
     .default_text = "",
     .help = "the entry below which it is published: `\"ou=grid,dc=example\"`. It has to be there"},
    {.name = "ldap.bind_dn",
     .type = CONFIG_STRING,
     .offset = GATEWAY(ldap_bind_dn),
     .default_text = "",
     .help = "who the gateway is to the LDAP server; empty: nobody, and by `ldapi://` the user it runs as"},
    {.name = "ldap.password_file",
     .type = CONFIG_PATH,
     .offset = GATEWAY(ldap_password_file),
     .default_text = "",
     .help = "has the password of ldap.bind_dn in its first line, and is readable by its owner only"},
    {.name = "ldap.starttls",
     .type = CONFIG_FLAG,
     .offset = GATEWAY(ldap_starttls),
     .default_text = "false",
     .help = "TLS on an `ldap://` connection, before anything is said"},
    {.name = "ldap.ca",
     .type = CONFIG_PATH,
     .offset = GATEWAY(ldap_ca),
     .default_text = "",
     .help =
         "file of the certificates that the LDAP server's has to be signed by; empty: those of this system"},
    {.name = "ldap.name",
     .type = CONFIG_STRING,
     .offset = GATEWAY(ldap_name),
     .default_text = "",
     .help = "what this gateway is called there; each that publishes below the same ldap.base has its own. "
             "Empty: the name of "
             "this host"},
    {.name = "ldap.refresh",
     .type = CONFIG_DURATION,
     .offset = GATEWAY(ldap_refresh_ns),
     .default_text = "10m",
     .min = "1s",
     .max = "366d",
     .help = "how often the time of a sensor's last event and its rate are published, besides whenever "
             "something else of it "
             "changes"},
    {.name = "ledger.file",
     .type = CONFIG_PATH,
     .offset = GATEWAY(ledger_file),
     .default_text = "",
     .help = "file that gets the ledger as JSON, at the end and on SIGUSR1"},
    {.name = "ledger.every",
     .type = CONFIG_DURATION,
     .offset = GATEWAY(ledger_every_ns),
     .default_text = "60s",
     .min = "1s",
     .max = "366d",
     .help = "how often the ledger is said in events"},
    {.name = "latest.streams",
     .type = CONFIG_COUNT,
     .offset = GATEWAY(latest.streams),
     .default_text = "65536",
     .min = "0",
     .max = "10000000",
     .help =
         "of how many streams the newest event is kept, for `gridline latest`; 0: of none. Then the one that "
         "was quiet longest is forgotten"},
    {.name = "latest.memory",
     .type = CONFIG_SIZE,
     .offset = GATEWAY(latest.memory),
     .default_text = "256MiB",
     .min = "1MiB",
     .max = "1TiB",
     .help = "and in how much memory"},
    {.name = "summary.streams",
     .type = CONFIG_COUNT,
     .offset = GATEWAY(summary.streams),
     .default_text = "65536",
     .min = "0",
     .max = "10000000",
     .help =
         "of how many streams summaries are kept, for `gridline summary`; 0: of none. Further ones are left "
         "out, and counted, until one was quiet for the longest window"},
    {.name = "summary.memory",
     .type = CONFIG_SIZE,
     .offset = GATEWAY(summary.memory),
     .default_text = "256MiB",
     .min = "1MiB",
     .max = "1TiB",
     .help = "and in how much memory: a number of an event takes 448 bytes a window, a counter 560"},
    {.name = "summary.windows",
     .type = CONFIG_OWN,
     .own = &own_windows,
     .offset = GATEWAY(summary.windows),
     .default_text = "1m 10m 60m",
     .help = "over which times: at most 8, multiples of 6s up to 7d; `{}`: none"},
    {.name = "summary.events",
     .type = CONFIG_OWN,
     .own = &own_patterns,
     .offset = GATEWAY(summary.events),
     .default_text = "",
     .help =
         "of which events, by patterns of their names: `{cpu, \"disk*\"}`; none: of all that have numbers"},
    {0},
};

static const struct config_key observer_keys[] = {
    {.name = "type",
     .type = CONFIG_WORD,
     .offset = OBSERVER(type),
     .is_needed = true,
     .words = "text|file",
     .help = "what it does: `text`: lines on standard output; `file`: a file that rotates"},
    {.name = "events",
     .type = CONFIG_OWN,
     .own = &own_patterns,
     .offset = OBSERVER(events),
     .default_text = "",
     .help = "which events, by patterns of their names: `{\"job.*\", disk}`; none: all"},
    {.name = "where",
     .type = CONFIG_OWN,
     .own = &own_predicate,
     .offset = OBSERVER(where),
     .default_text = "",
     .help = "which of them, by a predicate: `\"level <= 'warning'\"`; empty: all"},
    {.name = "path",
     .type = CONFIG_OWN,
     .own = &own_file,
     .offset = OBSERVER(path),
     .help = "of type file: which. A file that was rotated has the time behind its name, "
             "`PATH.20261115T212028Z`"},
    {.name = "encoding",
     .type = CONFIG_WORD,
     .offset = OBSERVER(encoding),
     .words = "ulm|bp|ndjson|xml|binary",
     .help = "how it is written. Default: ulm; of type text, on a terminal, short lines for people"},
    {.name = "compress",
     .type = CONFIG_WORD,
     .offset = OBSERVER(compression),
     .default_text = "none",
     .words = "none|zstd|gzip",
     .help = "of type file: how it is compressed, while it is written"},
    {.name = "max_size",
     .type = CONFIG_SIZE,
     .offset = OBSERVER(max_bytes),
     .default_text = "64MiB",
     .min = "0",
     .max = "1TiB",
     .help = "of type file: rotated when it has this size; 0: never by size"},
    {.name = "max_age",
     .type = CONFIG_DURATION,
     .offset = OBSERVER(max_age_ns),
     .default_text = "0s",
     .min = "0s",
     .max = "366d",
     .help = "of type file: rotated when it is this old; 0: never by age"},
    {.name = "keep",
     .type = CONFIG_COUNT,
     .offset = OBSERVER(keep),
     .default_text = "7",
     .min = "0",
     .max = "100000",
     .help = "of type file: how many rotated files stay; 0: all"},
    {0},
};

const struct config_scope scope_observer = {.name = "observer",
                                            .summary = "what is done with the events that are in the journal",
                                            .of = observer_keys,
                                            .is_titled = true};

/* Of each, `of` is the table of its keys. */
static bool scope_at(size_t i, struct config_scope *out)
{
    static const struct config_scope root = {.name = "", .of = gateway_keys};
    static const struct config_scope *const scopes[] = {&root, &scope_access, &scope_token, &scope_observer};
    if (i >= sizeof scopes / sizeof *scopes)
        return false;
    *out = *scopes[i];
    return true;
}

static bool key_at(struct config_scope scope, size_t i, struct config_key *out)
{
    return config_table_at(scope.of, i, out);
}

const struct config_schema gateway_schema = {
    .program = "gateway",
    .environment = "GRIDLINE_GATEWAY_",
    .explain = "gridline config explain --gateway",
    .section = "section",
    .example = "observer NAME { ... }",
    .inner =
        (const char *const[]){"archive", "directory", "latest", "ldap", "lease", "ledger", "summary", NULL},
    .scope_at = scope_at,
    .key_at = key_at};
