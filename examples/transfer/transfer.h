/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - a bulk transfer service: what its three roles share. main.c tells the story. */
#ifndef TRANSFER_H
#define TRANSFER_H

#include <gridline/gridline.h>

#include <stdbool.h>
#include <stdint.h>

enum {
    STREAMS_MAX = 8,
    SERVERS_MAX = 16,
    LINE_MAX_BYTES = 256,
    BLOCK_BYTES = 64 * 1024,
    PATIENCE_S = 20, /* nobody waits longer for the other side */
};

/* What the command line says. */
struct transfer {
    const char *listen;               /* ADDRESS:PORT; port 0: any; server, scheduler */
    const char *host;                 /* in whose name; NULL: the system's */
    const char *ready;                /* file that gets the address when it listens */
    const char *folder;               /* server: its files; client: where they go */
    const char *scheduler;            /* client: ADDRESS:PORT */
    const char *servers[SERVERS_MAX]; /* scheduler: NAME=ADDRESS:PORT */
    unsigned n_servers;
    unsigned streams, workers; /* client */
    unsigned long transfers;   /* client: how many; 0: until it is told to end */
    unsigned long first;       /* client: the first transfer's number */
    unsigned files;            /* client: file-0, file-1, ... are asked for in turn */
    int buffers[STREAMS_MAX];  /* client: receive buffer of each stream, bytes; 0: the system's */
    gridline *log;
};

/* The three roles. Exit codes. */
int run_client(const struct transfer *t);
int run_scheduler(const struct transfer *t);
int run_server(const struct transfer *t);

/* SIGTERM or SIGINT came: come to an end. They interrupt nothing but wait_readable. */
bool is_ending(void);
struct pollfd;
/* poll without a time limit, that a signal ends: negative then. */
int wait_readable(struct pollfd *fds, unsigned n);

/* ---- sockets (socket.c). All block; -1 with a message on stderr. */
int listen_at(const char *address, const char *ready);
/* With a receive buffer of that many bytes; 0: the system's. It has to be set before the connection is made.
 */
int dial(const char *address, int buffer);
void set_patience(int fd);
bool send_all(int fd, const void *bytes, size_t n);
bool receive_all(int fd, void *bytes, size_t n);
bool send_line(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Without its end. False at the end of the connection, or if it is too long. */
bool receive_line(int fd, char line[LINE_MAX_BYTES]);

/* ---- what goes over a stream: for each block this, in network order, and its bytes; at the end one with
 * bytes = 0. */
struct block_head {
    uint32_t number; /* of the block in its file */
    uint32_t bytes;
    uint32_t checksum;
};

/* FNV-1a. */
uint32_t checksum(const void *bytes, size_t n);

/* A block's id: "TRANSFER.STREAM.BLOCK". Events of a block carry it in all programs: that makes its lifeline.
 */
enum { BLOCK_ID_BYTES = 48 };
void print_block_id(char out[BLOCK_ID_BYTES], unsigned long transfer, unsigned stream, uint32_t block);

#endif
