/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/guard_ask.h"

#include "base/mem.h"
#include "cmd/say.h"
#include "net/dial.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ID_MIN = 4, CANDIDATES = 5 };

/* ---------------------------------------------------------------- whom to ask */

/* Does anybody listen there who lets us in? A socket that a killed guard has left does not count. */
static bool listens(const char *address)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const char *path = address + strlen("unix:");
    if (strlen(path) >= sizeof a.sun_path)
        return false;
    memcpy(a.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_there = fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) == 0;
    if (fd >= 0)
        (void)close(fd); /* nothing was sent */
    return is_there;
}

static void choose_address(struct guard_question *g, const struct guard_options *o)
{
    g->options = o->question;
    if (o->guard)
        strbuf_add_str(&g->address, o->guard);
    else if (!o->question.gateway)
        dial_default_guard(&g->address);
    g->is_guard = g->address.n && (o->guard || listens(g->address.p));
    if (g->is_guard)
        g->options.gateway = g->address.p;
}

int guard_open(struct guard_question *g, const struct guard_options *o, const char *prog)
{
    if (o->guard && o->question.gateway) {
        say("--guard and --gateway do not go together; leave one out");
        return EXIT_USAGE;
    }
    choose_address(g, o);
    if (o->guard && strncmp(o->guard, "unix:", 5) == 0 && !listens(o->guard)) {
        say("no guard answers at %.120s: is gridline-guard running, and yours?", o->guard);
        return EXIT_FAILED;
    }
    return question_open(&g->question, &g->options, prog);
}

void guard_close(struct guard_question *g)
{
    question_close(&g->question);
    strbuf_fini(&g->address);
}

/* ---------------------------------------------------------------- orders */

static int note_id(void *arg, const struct frame_answer *row)
{
    uint64_t *id = arg;
    *id = args_uint(row->args, "id", *id);
    return 0;
}

int guard_order(struct guard_question *g, const char *verb, uint64_t *id)
{
    struct diag why = {0};
    struct ask_end end;
    uint64_t given = 0;
    const struct ask_question q = {.verb = slice_str(verb), .args = args_of(&g->question.args)};
    int r = ask_run(g->question.ask, &q, note_id, &given, &end, &why);
    args_writer_reset(&g->question.args);
    say_progress_end();
    if (r < 0) {
        if (r != -EINTR)
            say("%s", why.message);
        return r == -EACCES ? EXIT_NOT_ALLOWED : EXIT_FAILED;
    }
    if (end.text.n)
        say("%.*s", SLICE_ARG(end.text));
    if (id)
        *id = args_uint(end.args, "id", given);
    return end.status <= CONTROL_NOT_ALLOWED ? end.status : EXIT_FAILED;
}

void guard_add_by(struct guard_question *g)
{
    char uid[32];
    if (!g->is_guard)
        return;
    const struct passwd *user = getpwuid(geteuid());
    (void)snprintf(uid, sizeof uid, "uid %u", (unsigned)geteuid()); /* fits */
    args_add_text(&g->question.args, "by", slice_str(user ? user->pw_name : uid));
}

/* ---------------------------------------------------------------- which faults */

static char *copy(struct slice s)
{
    char *p = mem_alloc(s.n + 1);
    if (s.n)
        memcpy(p, s.p, s.n);
    return p;
}

static bool note_fault(void *arg, const struct frame_answer *row)
{
    struct guard_faults *f = arg;
    if (f->n == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 64;
        struct guard_fault *v = mem_try_resize(f->v, f->cap * sizeof *v);
        if (!v)
            abort(); /* out of memory: as mem_alloc */
        f->v = v;
    }
    f->v[f->n++] = (struct guard_fault){.id = copy(args_text(row->args, "fault")),
                                        .rule = copy(args_text(row->args, "rule")),
                                        .host = copy(args_text(row->args, "host")),
                                        .state = copy(args_text(row->args, "state"))};
    return false;
}

int guard_faults_ask(struct guard_question *g, const char *state, struct guard_faults *out)
{
    struct question *q = &g->question;
    args_add_text(&q->args, "state", slice_str(state));
    q->on_row = note_fault;
    q->arg = out;
    q->may_be_none = true;
    int code = question_pages(q, "faults");
    args_writer_reset(&q->args);
    q->on_row = NULL;
    return code;
}

void guard_faults_fini(struct guard_faults *f)
{
    for (size_t i = 0; i < f->n; i++) {
        mem_free(f->v[i].id);
        mem_free(f->v[i].rule);
        mem_free(f->v[i].host);
        mem_free(f->v[i].state);
    }
    mem_free(f->v);
    *f = (struct guard_faults){0};
}

/* RULE:HOST; names of rules have no colon. */
static bool is_of(const struct guard_fault *f, const char *word)
{
    size_t n = strlen(f->rule);
    return strncmp(f->rule, word, n) == 0 && word[n] == ':' && strcmp(f->host, word + n + 1) == 0;
}

/* Two guards tell of a fault by the same id: that is one. */
static bool is_meant(const struct guard_fault *f, const char *word)
{
    size_t n = strlen(word);
    return (n >= ID_MIN && strncmp(f->id, word, n) == 0) || is_of(f, word);
}

static void say_candidates(const struct guard_faults *f, const char *word)
{
    size_t n = 0;
    say("'%.60s' could be several; give an id:", word);
    for (size_t i = 0; i < f->n && n < CANDIDATES; i++) {
        if (!is_meant(&f->v[i], word))
            continue;
        say_plain("  %s  %s:%s  %s", f->v[i].id, f->v[i].rule, f->v[i].host, f->v[i].state);
        n++;
    }
}

const struct guard_fault *guard_faults_find(const struct guard_faults *f, const char *word, int *code)
{
    const struct guard_fault *found = NULL;
    bool is_clash = false;
    for (size_t i = 0; i < f->n; i++) {
        if (!is_meant(&f->v[i], word))
            continue;
        is_clash = is_clash || (found && strcmp(found->id, f->v[i].id) != 0);
        found = &f->v[i];
    }
    *code = is_clash ? EXIT_USAGE : found ? EXIT_OK : EXIT_NOT_FOUND;
    if (is_clash)
        say_candidates(f, word);
    else if (!found)
        say("no such fault: '%.60s'; an id, at least %d digits of one, or RULE:HOST (`gridline faults` lists "
            "them)",
            word, ID_MIN);
    return is_clash ? NULL : found;
}
