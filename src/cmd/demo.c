/* SPDX-License-Identifier: Apache-2.0 */
/* gridline demo: a grid on this machine, a service that runs on it, and the story of how it gets slow and
 * why. */
#include "cmd/demo.h"

#include "base/clock.h"
#include "cmd/say.h"
#include "cmd/table.h"
#include "cmd/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { LOOK_MS = 50, DURATION_S = 8, DURATION_MIN_S = 3 };

int demo_tick(struct demo *d)
{
    int signo = d->signo ? d->signo : part_wait(0);
    if (signo && signo != SIGCHLD)
        d->signo = signo;
    if (d->signo || demo_grid_look(d) != EXIT_OK)
        return EXIT_FAILED;
    return demo_net_weather(d);
}

int demo_wait(struct demo *d, int64_t ns)
{
    int64_t until = clock_mono_ns() + ns;
    int code = demo_tick(d);
    for (int64_t left; code == EXIT_OK && (left = until - clock_mono_ns()) > 0; code = demo_tick(d)) {
        int64_t step = LOOK_MS * INT64_C(1000000);
        int signo = part_wait(left < step ? left : step);
        if (signo && signo != SIGCHLD)
            d->signo = signo;
    }
    return code;
}

static void name_hosts(struct demo *d)
{
    for (unsigned i = 0; i < DEMO_HOSTS; i++) {
        struct demo_host *h = &d->hosts[i];
        h->netns = -1;
        if (i < DEMO_SERVER) {
            (void)snprintf(h->name, sizeof h->name, "%s", i == DEMO_CLIENT ? "client" : "sched");
            (void)snprintf(h->address, sizeof h->address, "10.77.0.%u", i + 1);
        } else {
            (void)snprintf(h->name, sizeof h->name, "server%u", i - DEMO_SERVER + 1);
            (void)snprintf(h->address, sizeof h->address, "10.77.0.%u", i - DEMO_SERVER + 11);
        }
    }
}

/* Under load, for who wants to look at it. */
static int stay(struct demo *d)
{
    demo_say(d, "It goes on, with its load and its loss, until Ctrl-C.");
    return demo_wait(d, INT64_MAX / 2);
}

static int play(struct demo *d)
{
    int code = demo_folder_make(d);
    if (code == EXIT_OK)
        code = demo_net_make(d);
    if (code == EXIT_OK)
        code = demo_grid_start(d);
    if (code == EXIT_OK)
        code = demo_tell(d);
    if (code == EXIT_OK && d->options->format)
        code = demo_print_findings(d);
    if (code == EXIT_OK && d->options->stays)
        code = stay(d);
    return code;
}

static bool check_options(const struct demo_options *o)
{
    const struct encoding *encoding;
    if (o->duration_ns < DURATION_MIN_S * NS_PER_S) {
        say("--duration: at least %d s, or there is too little to compare", DURATION_MIN_S);
        return false;
    }
    return table_format(o->format, &encoding);
}

static int demo_verb_run(void *state, struct operands unused)
{
    const struct demo_options *o = state;
    struct demo d = {.options = o, .lock = -1, .switch_netns = -1, .is_quiet = o->format};
    (void)unused; /* it has none */
    if (!check_options(o))
        return EXIT_USAGE;
    if (geteuid() == 0 && !o->is_sure && !o->has_no_net && isatty(STDIN_FILENO) && isatty(STDERR_FILENO) &&
        !say_confirm("As root it makes network namespaces of its own, which nothing else sees, for about a "
                     "minute. Go on?"))
        return EXIT_OK;
    name_hosts(&d);
    part_block_signals();
    int code = play(&d);
    demo_grid_end(&d);
    demo_net_remove(&d);
    demo_folder_remove(&d);
    if (!d.signo)
        return code;
    if (o->stays && code != EXIT_OK && d.found.events)
        return EXIT_OK; /* that was the way to end it */
    return 128 + d.signo;
}

#define AT(member) offsetof(struct demo_options, member)

static const struct option_spec table[] = {
    {0, "steps", OPTION_FLAG, NULL, AT(has_pauses), "wait for Enter before each step"},
    {0, "stay", OPTION_FLAG, NULL, AT(stays),
     "go on with the load when all is said, until Ctrl-C, to look at it in the viewer"},
    {0, "duration", OPTION_DURATION, "TIME", AT(duration_ns),
     "how long the load runs for the baseline (default 8s); the other stretches are as long, half or one and "
     "a half times"},
    {'d', "dir", OPTION_FILE, "DIR", AT(dir),
     "keep everything in DIR, also afterwards (default: a temporary folder that is removed)"},
    {'t', "format", OPTION_TEXT, "FORMAT", AT(format),
     "no words; what was found at the end, as `table`, `json`, `csv`, `ulm`, `xml`, or another of the "
     "formats"},
    {0, "no-namespaces", OPTION_FLAG, NULL, AT(has_no_net),
     "all hosts in this host's network; a server is stopped now and then instead of packets being lost"},
    {'y', "yes", OPTION_FLAG, NULL, AT(is_sure), "ask nothing"},
    {0},
};

static const struct demo_options defaults = {.duration_ns = DURATION_S * NS_PER_S};

static const struct example examples[] = {
    {"gridline demo", "The tour, in about a minute"},
    {"gridline demo --steps --stay", "Step by step, and it stays there to be looked at"},
    {"gridline demo --format json", "What it finds, for a program"},
    {NULL, NULL},
};

const struct verb verb_demo = {
    .name = "demo",
    .summary = "a service that gets slow on a small grid here, and how one finds out why",
    .operands = "",
    .description =
        "Makes a grid on this machine: five hosts as network namespaces, an agent on each, a gateway with "
        "its archive and a "
        "guard (`gridline run`), and a bulk transfer service (`gridline-transfer`) that runs on them. "
        "Nothing of it is canned: "
        "files are read, packets are lost, TCP sends again, and each figure is asked from the archive.\n"
        "The tour goes the survey's way: three parallel streams are debugged by their lifelines; a baseline "
        "is recorded; the path "
        "from one server begins to lose packets; sensors are found in the directory, missing ones started, "
        "instrumentation "
        "activated; the run is compared with the baseline, hardware and system first; and the pauses in the "
        "transfer line up with "
        "TCP retransmits. Each command is shown as one would type it.\n"
        "Namespaces need root, or a system that lets its users have them, and ip, tc, nft and nsenter. "
        "Without them the hosts share "
        "this host's network and a server is stopped now and then, which is said.\n"
        "At its end, also by Ctrl-C, nothing is left. Namespaces have no names and go with their processes; "
        "what a demo that was killed "
        "leaves is its folder in TMPDIR, which the next one removes.\n"
        "Ends with 1 if something in it does not run.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct demo_options),
    .defaults = &defaults,
    .run = demo_verb_run,
};
