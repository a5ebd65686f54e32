/* SPDX-License-Identifier: Apache-2.0 */
/* mail: one mail by SMTP. Its subject and text are for a person: what is wrong, how bad, since when, and how
 * many faults it is about; without the options `subject` and `body` they are made here, because most parts
 * are only there when they have something to say.
 *
 * The Message-ID comes from the run's name, which is the same when a run is repeated: servers and readers
 * that look for it show a repeated mail once. References names the fault, so that all mails of one fault are
 * shown together. Auto-Submitted keeps answering machines silent (RFC 3834).
 *
 * Server. smtps:// is TLS at once; smtp:// goes over to TLS (STARTTLS), must be able to and must have a good
 * certificate, unless the server is this host, or `tls` says otherwise. A password is never sent in the
 * clear to another host. */
#include "actuator/actuator.h"
#include "actuator/message.h"
#include "actuator/quote.h"
#include "actuator/template.h"
#include "actuator/transfer.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/secret.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <unistd.h>

struct mail {
    const char *server, *from, *subject, *body, *user, *password_file, *ca_file, *tls;
    struct parameter_list to;
};

static const struct parameter mail_options[] = {
    {SETTING_LIST, "to", NULL, offsetof(struct mail, to), "addresses, `ops@example.org`", .is_needed = true},
    {SETTING_STRING, "subject", NULL, offsetof(struct mail, subject),
     "its subject; without it: severity, how many, and the summary", .is_program = false},
    {SETTING_STRING, "body", NULL, offsetof(struct mail, body),
     "its text; without it: summary, help, the list of faults, what was left out, and all data",
     .is_program = false},
    {SETTING_STRING, "server", "smtp://localhost", offsetof(struct mail, server),
     "`smtp://HOST[:PORT]` or `smtps://HOST[:PORT]`", .is_program = true},
    {SETTING_STRING, "from", NULL, offsetof(struct mail, from),
     "the sender's address; without it: gridline at this host", .is_program = true},
    {SETTING_STRING, "tls", "auto", offsetof(struct mail, tls),
     "with `smtp://`: `starttls`, `none`, or `auto`: starttls, but none where the server is this host",
     .is_program = true},
    {SETTING_STRING, "ca_file", NULL, offsetof(struct mail, ca_file),
     "certificates to trust, PEM; without it: the system's", .is_program = true},
    {SETTING_STRING, "user", NULL, offsetof(struct mail, user), "who to log in as", .is_program = true},
    {SETTING_STRING, "password_file", NULL, offsetof(struct mail, password_file),
     "file whose first line is the password; only for its owner", .is_program = true},
    {0},
};

/* ---------------------------------------------------------------- what it says */

static struct slice value_of(const struct actuator_env *env, const char *name)
{
    const struct act_datum *d = template_find(env->data, env->n_data, slice_str(name));
    return d ? d->value : SLICE_LIT("");
}

static uint64_t number_of(const struct actuator_env *env, const char *name)
{
    uint64_t n = 0;
    (void)num_parse_uint(value_of(env, name), &n); /* it stays 0 */
    return n;
}

static void make_subject(const struct actuator_env *env, struct strbuf *out)
{
    struct slice severity = value_of(env, "severity"), summary = value_of(env, "summary"),
                 kind = value_of(env, "kind");
    uint64_t count = number_of(env, "count");
    if (slice_eq_str(kind, "clear"))
        strbuf_add_str(out, "[cleared] ");
    else if (severity.n)
        strbuf_printf(out, "[%.*s] ", SLICE_ARG(severity));
    if (slice_eq_str(kind, "repeat") || slice_eq_str(kind, "escalate"))
        strbuf_add_str(out, kind.p[0] == 'r' ? "still: " : "nobody has seen to: ");
    if (count > 1)
        strbuf_printf(out, "%" PRIu64 " faults, the first: ", count);
    strbuf_add_slice(out, summary.n ? summary : SLICE_LIT("gridline"));
}

static void add_paragraph(struct strbuf *out, struct slice text)
{
    if (text.n == 0)
        return;
    strbuf_add_slice(out, text);
    strbuf_add_str(out, "\n\n");
}

static void add_state(const struct actuator_env *env, struct strbuf *out)
{
    static const struct {
        const char *name, *label;
    } lines[] = {{"severity", "severity"}, {"kind", "kind"},   {"rule", "rule"},  {"since", "since"},
                 {"time", "now"},          {"fault", "fault"}, {"guard", "guard"}};
    bool has_any = false;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct slice value = value_of(env, lines[i].name);
        if (value.n == 0)
            continue;
        strbuf_printf(out, "%-10s", lines[i].label);
        quote_line(out, value);
        strbuf_add_char(out, '\n');
        has_any = true;
    }
    if (has_any)
        strbuf_add_char(out, '\n');
}

static void add_list(const struct actuator_env *env, struct strbuf *out)
{
    uint64_t count = number_of(env, "count"), left_out = number_of(env, "left_out");
    struct slice list = value_of(env, "list");
    if (count > 1) {
        strbuf_printf(out, "This is about %" PRIu64 " faults%s\n\n", count, list.n ? ":" : ".");
        add_paragraph(out, list);
    }
    if (left_out)
        strbuf_printf(out,
                      "%" PRIu64 " more %s left out before, by this action's limits; `gridline faults` "
                      "lists all.\n\n",
                      left_out, left_out == 1 ? "was" : "were");
}

static bool is_said(struct slice name)
{
    static const char *const said[] = {"severity", "kind", "rule",  "since",    "time",   "fault",  "guard",
                                       "summary",  "help", "count", "left_out", "action", "attempt"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (slice_eq_str(name, said[i]))
            return true;
    return false;
}

/* The fields of the (first) fault, and whatever else there is. */
static void add_rest(const struct actuator_env *env, struct strbuf *out)
{
    bool has_many = number_of(env, "count") > 1;
    for (size_t i = 0; i < env->n_data; i++) {
        if (is_said(env->data[i].name) || (slice_eq_str(env->data[i].name, "list")))
            continue;
        if (has_many) {
            strbuf_add_str(out, "Of the first:\n");
            has_many = false;
        }
        quote_line(out, env->data[i].name);
        strbuf_add_str(out, " = ");
        quote_line(out, env->data[i].value);
        strbuf_add_char(out, '\n');
    }
}

static void make_body(const struct actuator_env *env, struct strbuf *out)
{
    struct strbuf summary = {0};
    quote_line(&summary, value_of(env, "summary")); /* a line of it must not look like one of ours */
    add_paragraph(out, strbuf_slice(&summary));
    out->failed = out->failed || strbuf_failed(&summary);
    strbuf_fini(&summary);
    add_state(env, out);
    add_paragraph(out, value_of(env, "help"));
    add_list(env, out);
    add_rest(env, out);
}

/* ---------------------------------------------------------------- the mail */

static void make_from(const struct mail *m, struct strbuf *out)
{
    char host[HOST_NAME_MAX + 1] = "localhost";
    (void)gethostname(host, sizeof host - 1); /* it stays localhost */
    if (m->from)
        strbuf_add_str(out, m->from);
    else
        strbuf_printf(out, "gridline@%s", host);
}

static void add_to(const struct mail *m, struct strbuf *out)
{
    struct strbuf all = {0};
    for (size_t i = 0; i < m->to.n; i++)
        strbuf_printf(&all, "%s%s", i ? ", " : "", m->to.v[i]);
    bool is_short = all.n <= MESSAGE_HEADER_MAX; /* else it would be cut, and no list of addresses any more */
    message_add_header(out, "To", is_short ? strbuf_slice(&all) : SLICE_LIT("undisclosed-recipients:;"));
    out->failed = out->failed || strbuf_failed(&all);
    strbuf_fini(&all);
}

static void make_message(const struct mail *m, const struct actuator_env *env, struct slice from,
                         struct strbuf *out)
{
    struct strbuf subject = {0}, body = {0};
    const char *at = memchr(from.p, '@', from.n);
    struct slice domain = at ? slice_from(from, (size_t)(at - from.p) + 1) : SLICE_LIT("localhost");
    struct slice fault = value_of(env, "fault");
    if (!m->subject)
        make_subject(env, &subject);
    if (!m->body)
        make_body(env, &body);
    message_add_date(out, clock_utc_ns());
    message_add_header(out, "From", from);
    add_to(m, out);
    message_add_header(out, "Subject", m->subject ? slice_str(m->subject) : strbuf_slice(&subject));
    message_add_id(out, "Message-ID", slice_str(env->attempt), domain);
    if (fault.n)
        message_add_id(out, "References", fault, domain);
    strbuf_add_str(out, "Auto-Submitted: auto-generated\r\n");
    message_add_body(out, m->body ? slice_str(m->body) : strbuf_slice(&body));
    out->failed = out->failed || strbuf_failed(&subject) || strbuf_failed(&body);
    strbuf_fini(&subject);
    strbuf_fini(&body);
}

/* ---------------------------------------------------------------- sending */

static bool is_smtps(const struct mail *m)
{
    return strncasecmp(m->server, "smtps://", 8) == 0;
}

static bool has_tls(const struct mail *m)
{
    bool is_auto = strcmp(m->tls, "auto") == 0;
    return is_smtps(m) || (is_auto ? !transfer_is_local(m->server) : strcmp(m->tls, "starttls") == 0);
}

static int check(const struct mail *m, struct slice from, struct diag *why)
{
    if (!is_smtps(m) && strncasecmp(m->server, "smtp://", 7) != 0)
        return diag_set(why, -EINVAL, 0, "mail: \"%.80s\" is not smtp://HOST[:PORT] or smtps://HOST[:PORT]",
                        m->server);
    if (strcmp(m->tls, "auto") != 0 && strcmp(m->tls, "starttls") != 0 && strcmp(m->tls, "none") != 0)
        return diag_set(why, -EINVAL, 0, "mail: tls is one of auto, starttls, none");
    if (m->to.n == 0)
        return diag_set(why, -EINVAL, 0, "mail: `to` has no address");
    for (size_t i = 0; i < m->to.n; i++)
        if (!message_is_address(slice_str(m->to.v[i])))
            return diag_set(why, -EINVAL, 0, "mail: \"%.80s\" is not an address: write name@host",
                            m->to.v[i]);
    if (!message_is_address(from))
        return diag_set(why, -EINVAL, 0, "mail: \"%.*s\" is not an address: set `from`",
                        from.n > 80 ? 80 : (int)from.n, from.p);
    if (!m->user != !m->password_file)
        return diag_set(why, -EINVAL, 0, "mail: `user` and `password_file` go together");
    if (m->user && !has_tls(m) && !transfer_is_local(m->server))
        return diag_set(why, -EINVAL, 0, "mail: the password would go to another host in the clear; use tls");
    return 0;
}

static int mail_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct mail *m = state;
    struct strbuf from = {0};
    make_from(m, &from);
    int r = strbuf_failed(&from) ? -ENOMEM : check(m, strbuf_slice(&from), why);
    if (r == 0) {
        strbuf_printf(out, "connect to %s%s\n", m->server, has_tls(m) ? " with TLS" : "");
        if (m->user)
            strbuf_printf(out, "log in as %s with the password in %s\n", m->user, m->password_file);
        strbuf_printf(out, "MAIL FROM:<%s>\n", from.p);
        for (size_t i = 0; i < m->to.n; i++)
            strbuf_printf(out, "RCPT TO:<%s>\n", m->to.v[i]);
        strbuf_add_char(out, '\n');
        make_message(m, env, strbuf_slice(&from), out);
    }
    strbuf_fini(&from);
    return r;
}

/* What is sent, and what the server says of recipients. */
struct letter {
    struct slice rest;
    size_t refused;
    char said[120]; /* of the last that was refused */
};

static size_t on_read(char *to, size_t size, size_t n, void *arg)
{
    struct letter *l = arg;
    size_t part = l->rest.n < size * n ? l->rest.n : size * n;
    if (part)
        memcpy(to, l->rest.p, part);
    l->rest = slice_from(l->rest, part);
    return part;
}

/* The lines of the server. When one of several recipients is refused the others get the mail all the same,
 * and this is the only trace of it. (A refusal of anything else is the end of the transfer, and told so.) */
static size_t on_line(char *p, size_t size, size_t n, void *arg)
{
    struct letter *l = arg;
    struct slice line = slice_of(p, size * n);
    if (line.n < 4 || (p[0] != '4' && p[0] != '5') || p[3] != ' ')
        return line.n;
    while (line.n && (unsigned char)line.p[line.n - 1] <= ' ')
        line.n--;
    l->refused++;
    (void)snprintf(l->said, sizeof l->said, "%.*s", SLICE_ARG(line)); /* cut to fit */
    return size * n;
}

static struct curl_slist *list_recipients(const struct mail *m)
{
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < m->to.n; i++) {
        char address[MESSAGE_ADDRESS_MAX + 3];
        (void)snprintf(address, sizeof address, "<%s>", m->to.v[i]); /* it fits: check */
        struct curl_slist *longer = curl_slist_append(list, address);
        if (!longer) {
            curl_slist_free_all(list);
            return NULL;
        }
        list = longer;
    }
    return list;
}

static int transmit(const struct mail *m, const struct actuator_env *env, const char *from, struct slice text,
                    struct secret *password, struct letter *l, struct strbuf *output, struct diag *why)
{
    struct transfer t;
    struct curl_slist *to = list_recipients(m);
    int r = transfer_open(&t, env, m->server, "smtp,smtps", m->ca_file, output);
    l->rest = text;
    if (r == 0 && !to)
        r = -ENOMEM;
    if (r == 0) {
        TRANSFER_SET(&t, CURLOPT_USE_SSL, (long)(has_tls(m) ? CURLUSESSL_ALL : CURLUSESSL_NONE));
        TRANSFER_SET(&t, CURLOPT_MAIL_FROM, from);
        TRANSFER_SET(&t, CURLOPT_MAIL_RCPT, to);
        TRANSFER_SET(&t, CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L);
        TRANSFER_SET(&t, CURLOPT_UPLOAD, 1L);
        TRANSFER_SET(&t, CURLOPT_INFILESIZE_LARGE, (curl_off_t)text.n);
        TRANSFER_SET(&t, CURLOPT_READFUNCTION, on_read);
        TRANSFER_SET(&t, CURLOPT_READDATA, l);
        TRANSFER_SET(&t, CURLOPT_HEADERFUNCTION, on_line);
        TRANSFER_SET(&t, CURLOPT_HEADERDATA, l);
        if (m->user) {
            TRANSFER_SET(&t, CURLOPT_USERNAME, m->user);
            TRANSFER_SET(&t, CURLOPT_PASSWORD, password->text);
        }
        r = transfer_run(&t, why);
    }
    transfer_close(&t);
    curl_slist_free_all(to);
    return r;
}

static void say(const struct mail *m, const struct letter *l, int r, const struct diag *why,
                struct strbuf *out)
{
    char site[120];
    transfer_site(m->server, site, sizeof site);
    if (r < 0) {
        const char *what = why->message[0] ? why->message : err_text(r);
        strbuf_printf(out, "no mail by %s: %s%s%s", site, what, l->said[0] ? "; it said " : "", l->said);
        return;
    }
    strbuf_printf(out, "sent to %s", m->to.v[0]);
    if (m->to.n > 1)
        strbuf_printf(out, " and %zu more", m->to.n - 1);
    strbuf_printf(out, " by %s", site);
    if (l->refused)
        strbuf_printf(out, "; %zu of %zu refused: %s", l->refused, m->to.n, l->said);
}

static int mail_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct mail *m = state;
    struct strbuf from = {0}, text = {0}, address = {0};
    struct letter letter = {0};
    struct secret password = {0};
    struct diag why = {0};
    make_from(m, &from);
    int r = strbuf_failed(&from) ? -ENOMEM : check(m, strbuf_slice(&from), &why);
    if (r == 0 && m->password_file)
        r = secret_read(m->password_file, &password, &why);
    if (r == 0) {
        make_message(m, env, strbuf_slice(&from), &text);
        strbuf_printf(&address, "<%s>", from.p);
        r = strbuf_failed(&text) || strbuf_failed(&address) ? -ENOMEM : 0;
    }
    if (r == 0)
        r = transmit(m, env, address.p, strbuf_slice(&text), &password, &letter, &report->output, &why);
    secret_wipe(&password);
    say(m, &letter, r, &why, &report->text);
    strbuf_fini(&from);
    strbuf_fini(&text);
    strbuf_fini(&address);
    return r;
}

const struct actuator_ops actuator_mail = {
    .name = "mail",
    .summary = "a mail to people, by SMTP",
    .options = mail_options,
    .is_repeatable = true,
    .is_groupable = true,
    .state_size = sizeof(struct mail),
    .plan = mail_plan,
    .run = mail_run,
};
