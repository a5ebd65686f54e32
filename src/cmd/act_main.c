/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-act: does one action and ends. Without arguments it reads a request from its standard input and
 * writes a reply to its standard output (net/act.h): so the guard runs it, a process for each attempt. With
 * arguments it is `gridline act`.
 *
 * Whatever happens, it ends with its deadline. Programs under it end before (actuator/program.h). An actuator
 * that is stuck in a library is not waited for: SIGALRM, some seconds after the deadline, says so and ends
 * the process; what was started dies with it (base/spawn.h). SIGTERM, SIGINT and SIGHUP call a run off. */
#include "actuator/actuator.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strays.h"
#include "cmd/act_verb.h"
#include "cmd/manual.h"
#include "cmd/say.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

enum { READ_STEP = 64 << 10, STACK_WANTED = 8 << 20, READ_S = 30 };
#define LATE_NS \
    (CHILD_GRACE + CHILD_GIVE_UP) /* from the deadline to SIGALRM: what can't be killed is waited for */

static volatile sig_atomic_t is_called_off;
static struct {
    const char *p;
    size_t n;
} last_words; /* the reply of SIGALRM, made before */

static void on_end(int signal)
{
    (void)signal;
    is_called_off = 1;
}

/* Only what a handler may do. */
static void on_alarm(int signal)
{
    (void)signal;
    if (write(STDOUT_FILENO, last_words.p, last_words.n) < 0) {
        /* nobody is there to tell */
    }
    _exit(EXIT_FAILED);
}

static bool was_called_off(void *arg)
{
    (void)arg;
    return is_called_off != 0;
}

/* As if nobody had been here before: what is inherited is not ours to trust. */
static void start_clean(void)
{
    sigset_t none;
    struct rlimit stack;
    (void)close_range(3, ~0u, 0); /* Linux 5.9; ours are closed by exec anyway */
    for (int i = 1; i < NSIG; i++)
        (void)signal(i, SIG_DFL); /* some can't be changed, and need not */
    (void)sigemptyset(&none);     /* can't fail */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that has gone is an error of its write */
    (void)setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 1); /* as in program.h */
    /* Arguments may take a quarter of it: with less, a long text would be an action that can't be done. */
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < STACK_WANTED) {
        stack.rlim_cur = stack.rlim_max < STACK_WANTED ? stack.rlim_max : STACK_WANTED;
        (void)setrlimit(RLIMIT_STACK, &stack); /* a wish */
    }
    (void)strays_adopt(); /* where that can't be, they are searched for */
}

static int set_alarm(int64_t after_ns)
{
    int64_t ns = after_ns > 0 ? after_ns : 1000;
    const struct itimerval t = {.it_value = {ns / NS_PER_S, ns % NS_PER_S / 1000 + 1}};
    return setitimer(ITIMER_REAL, &t, NULL) < 0 ? -errno : 0;
}

static void catch (int signal, void (*handler)(int))
{
    struct sigaction a = {.sa_handler = handler};
    (void)sigaction(signal, &a, NULL); /* can't fail with these; no SA_RESTART: calls come back to look */
}

/* Until it ends. E_LIMIT: it is too long. */
static int read_all(int fd, struct strbuf *out)
{
    while (out->n <= ACT_REQUEST_MAX) {
        char *to = strbuf_room(out, READ_STEP);
        ssize_t n = to ? read(fd, to, READ_STEP) : -1;
        if (!to)
            return -ENOMEM;
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR && !is_called_off)
            continue;
        if (n < 0)
            return -errno;
        strbuf_advance(out, (size_t)n);
    }
    return E_LIMIT;
}

static int write_all(int fd, struct slice s)
{
    while (s.n) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno != EINTR)
            return -errno;
        s = slice_from(s, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static int reply(int code, const struct actuator_report *report, struct slice text)
{
    struct strbuf out = {0};
    act_reply_put(&out,
                  &(struct act_reply){.code = code,
                                      .exit_code = report ? report->exit_code : -1,
                                      .text = text,
                                      .output = report ? strbuf_slice(&report->output) : SLICE_LIT("")});
    int r = strbuf_failed(&out) ? -ENOMEM : write_all(STDOUT_FILENO, strbuf_slice(&out));
    strbuf_fini(&out);
    return r < 0 || code < 0 ? EXIT_FAILED : EXIT_OK;
}

static int act(const struct act_request *r)
{
    const struct actuator_ops *ops = actuator_find(slice_str(r->actuator));
    struct actuator_report report = {0};
    const struct actuator_env env = {.data = r->data,
                                     .n_data = r->n_data,
                                     .deadline_ns = clock_mono_ns() + r->left_ns,
                                     .attempt = r->attempt,
                                     .is_cancelled = was_called_off};
    if (!ops)
        return reply(-ENOENT, NULL, SLICE_LIT("there is no such actuator; `gridline act --list` shows them"));
    int code = actuator_run(ops, r->settings, r->n_settings, &env, &report);
    int status = reply(code, &report, strbuf_slice(&report.text));
    actuator_report_fini(&report);
    return status;
}

/* Made now, for a handler may not. */
static void make_last_words(struct strbuf *out)
{
    act_reply_put(out,
                  &(struct act_reply){.code = -ETIMEDOUT,
                                      .exit_code = -1,
                                      .text = SLICE_LIT("it did not end with its deadline, and was left"),
                                      .output = SLICE_LIT("")});
    last_words.p = out->p ? out->p : "";
    last_words.n = out->n;
}

static int serve(void)
{
    struct strbuf bytes = {0}, late = {0};
    struct arena arena = {0};
    struct act_request r;
    make_last_words(&late);
    catch (SIGTERM, on_end);
    catch (SIGINT, on_end);
    catch (SIGHUP, on_end);
    catch (SIGALRM, on_alarm);
    int e = set_alarm(READ_S * NS_PER_S);
    if (e == 0)
        e = read_all(STDIN_FILENO, &bytes);
    if (e == 0)
        e = act_request_get(strbuf_slice(&bytes), &arena, &r);
    if (e == 0 && r.left_ns < INT64_MAX / 2)
        e = set_alarm(r.left_ns + LATE_NS);
    int status = e == 0 ? act(&r) : reply(e, NULL, slice_str(err_text(e)));
    (void)child_settle(CHILD_GRACE); /* what could not be killed has been told */
    arena_fini(&arena);
    strbuf_fini(&bytes);
    strbuf_fini(&late);
    return status;
}

int main(int argc, char **argv)
{
    struct act_options options = {0};
    struct operands words;
    struct diag why = {0};
    struct strbuf usage = {0};
    log_start("gridline-act");
    say_start("act");
    if (argc == 1 && !isatty(STDIN_FILENO)) {
        start_clean();
        return serve();
    }
    (void)strays_adopt(); /* as in start_clean */
    switch (options_parse(&verb_act, argc - 1, argv + 1, clock_utc_ns(), &options, &words, &why)) {
    case OPTIONS_OK:
        return act_run(&options, words);
    case OPTIONS_HELP:
        manual_usage(&usage, &verb_act);
        (void)fputs(usage.p ? usage.p : "", stdout); /* nowhere to report it */
        strbuf_fini(&usage);
        return EXIT_OK;
    case OPTIONS_BAD:
        break;
    }
    say("%s", why.message);
    return EXIT_USAGE;
}
