/* SPDX-License-Identifier: Apache-2.0 */
/* demo.h - what the files of `gridline demo` share: a small grid on one machine, a bulk transfer service that
 * runs on it (examples/transfer), and a guided tour of both.
 *
 *     demo.c           the verb: options, set-up, tear-down, and waiting
 *     demo_folder.c    its folder, and what killed demos left
 *     demo_net.c       hosts as network namespaces; losing packets
 *     demo_grid.c      the processes: gateway, agents, the service
 *     demo_show.c      words for the terminal, commands and their output
 *     demo_story.c     the steps
 *     demo_findings.c  what is found, asked from the archive
 *
 * Everything is on one thread. All waiting is done by demo_wait, which notices signals and dead processes,
 * and makes the weather on the path. A step that returns something else than EXIT_OK ends the demo with that.
 */
#ifndef GRIDLINE_CMD_DEMO_H
#define GRIDLINE_CMD_DEMO_H

#include "cmd/options.h"
#include "cmd/part.h"
#include "event/value.h"

enum { DEMO_SERVERS = 3, DEMO_HOSTS = 2 + DEMO_SERVERS, DEMO_BAD_SERVER = 2 };

struct demo_options {
    const char *dir, *format;
    int64_t duration_ns;
    bool has_pauses, stays, is_sure, has_no_net;
};

struct demo_host {
    char name[16];           /* "server2" */
    char address[16];        /* "10.77.0.12" */
    int netns;               /* -1: none of its own */
    struct part agent, role; /* the role: a scheduler or a server; the client is demo.client */
};

/* A stretch of time, in ns since 1970. */
struct demo_range {
    int64_t from_ns, to_ns;
};

/* Two events that follow each other in one life. */
struct demo_hop {
    char from[64], to[64];
    double base_ms, run_ms, score;
};

struct demo_findings {
    struct demo_range debug, base, run, pause; /* pause: the longest one */
    int64_t slow_stream;
    double slow_ms,
        other_ms; /* a block from send to receive: the 95th percentile there, and the worst of the others */
    uint64_t base_transfers, run_transfers;
    double base_seconds, run_seconds;         /* a transfer, on average */
    double bad_base_seconds, bad_run_seconds; /* one from the server that is worst now */
    char bad_server[32];
    uint64_t changed_hosts;         /* hardware or system is another than in the baseline */
    struct demo_hop hop, block_hop; /* that deviate most: of transfers, and of the worst server's blocks */
    uint64_t pause_ms;              /* a silence longer than that is a pause */
    uint64_t pauses;
    double paused_s, other_s; /* of the worst server's samples */
    uint64_t paused_retransmits, other_retransmits;
    double cpu_base, cpu_run;    /* % busy */
    double one_mbit, three_mbit; /* from the worst server, on average, by one stream and by three */
    uint64_t events, lost;
};

struct demo {
    const struct demo_options *options;
    struct strbuf dir, grid_dir, socket; /* socket: the gateway's, "unix:..." */
    int lock;                            /* -1 = not taken */
    bool is_quiet;                       /* what is found is for a program: no words */
    bool hides_commands;                 /* output alone: the command has been shown before */
    int signo;                           /* the signal that is to end it */

    bool has_net;
    int switch_netns; /* in the middle; -1: there is none */
    struct demo_host hosts[DEMO_HOSTS];
    struct part grid, client;

    bool is_degraded, is_stopped;   /* stopped: the bad server is, right now */
    int64_t burst_ns, burst_end_ns; /* monotonic: the next one; when that one is over */
    unsigned bursts;

    struct demo_findings found;
};

enum { DEMO_CLIENT, DEMO_SCHEDULER, DEMO_SERVER };

/* ---- demo.c */
/* Waits so long. EXIT_FAILED: a process ended, or a signal came (signo). */
int demo_wait(struct demo *d, int64_t ns);
/* The same, once around: for who waits for something else. */
int demo_tick(struct demo *d);

/* ---- demo_folder.c */
/* Removes what demos that were killed have left, and makes the folder. */
int demo_folder_make(struct demo *d);
/* Adds a process to the list of those that the next demo ends if this one is killed. */
void demo_folder_note(const struct demo *d, pid_t pid);
void demo_folder_remove(struct demo *d);

/* ---- demo_net.c */
/* A namespace for each host and one in the middle. has_net is false if they can't be made; why has been said.
 */
int demo_net_make(struct demo *d);
void demo_net_remove(struct demo *d);
/* The words before a command that is to run on that host; makes them part of p. */
void demo_net_enter(const struct demo *d, const struct demo_host *h, struct part *p, const char *program);
/* From now on the path from the bad server loses packets, in bursts; without namespaces the server stands
 * still so often. demo_net_weather goes on with it. */
int demo_net_degrade(struct demo *d);
int demo_net_weather(struct demo *d);
/* A server that stands still goes on. */
void demo_net_end_burst(struct demo *d);
void demo_net_mend(struct demo *d);

/* ---- demo_grid.c */
int demo_grid_start(struct demo *d);
/* Transfers from that number on, over so many streams; the third one's buffer is far too small with has_bug.
 */
int demo_grid_load(struct demo *d, unsigned long first, unsigned streams, bool has_bug);
int demo_grid_unload(struct demo *d);
int demo_grid_look(struct demo *d); /* EXIT_FAILED, and said: something that should run does not */
void demo_grid_end(struct demo *d);

/* ---- demo_show.c */
/* Stops before it if that was asked for. */
int demo_step(struct demo *d, unsigned number, const char *title);
void demo_say(const struct demo *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Runs `gridline WORDS...` (up to NULL) at the demo's gateway and shows it, and at most so many lines of what
 * it prints. */
int demo_run(struct demo *d, unsigned lines, const char *const *words);
#define DEMO_RUN(d, lines, ...) demo_run(d, lines, (const char *const[]){__VA_ARGS__, NULL})
/* Runs any program, whose output is not shown; input may be NULL. */
int demo_command(struct demo *d, const char *const *argv, const char *input);
/* SELECT ..., shown, with its rows. */
int demo_sql(struct demo *d, unsigned lines, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- demo_findings.c */
/* A query whose one row are numbers and text: fn gets it; no row is no failure. */
typedef void demo_row(struct demo *d, const struct value *row);
int demo_ask(struct demo *d, demo_row *fn, size_t columns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
double demo_number(struct value v); /* 0 for none */
/* One for each question of the tour, into d->found. */
int demo_find_stream(struct demo *d);
int demo_find_speed(struct demo *d, struct demo_range r, uint64_t *transfers, double *seconds);
int demo_find_server(struct demo *d);
int demo_find_hardware(struct demo *d);
int demo_find_hop(struct demo *d, const char *baseline, bool of_blocks, struct demo_hop *out);
int demo_find_pauses(struct demo *d);
int demo_find_sockets(struct demo *d, struct demo_range one);
int demo_find_counts(struct demo *d);
/* The query that tells retransmits in pauses from others: the tour shows it. */
void demo_pause_query(const struct demo *d, struct strbuf *out);
enum demo_cause { DEMO_NO_PAUSE, DEMO_NETWORK, DEMO_STANDSTILL };
/* By where the retransmits are: in the pauses, or anywhere. */
enum demo_cause demo_cause(const struct demo_findings *f);
double demo_rate(uint64_t n, double seconds); /* 0 for no time at all */
int demo_print_findings(struct demo *d);

/* ---- demo_link.c */
/* The timeline around the longest pause, as an address of the viewer: into out, nothing where there is no
 * viewer; *key gets the one that signs in. */
void demo_link(struct demo *d, struct strbuf *out, struct strbuf *key);
int demo_show_link(struct demo *d);

/* ---- demo_story.c */
int demo_tell(struct demo *d);

#endif
