/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { BACKLOG = 64 };

static int complain(int fd, const char *what, const char *address)
{
    (void)fprintf(stderr, "gridline-transfer: %s %s: %s\n", what, address, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* "10.0.0.1:7000" */
static bool parse_address(const char *text, struct sockaddr_in *out)
{
    char host[INET_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    char *end;
    size_t n = colon ? (size_t)(colon - text) : sizeof host;
    if (n >= sizeof host)
        return false;
    memcpy(host, text, n);
    host[n] = 0;
    unsigned long port = strtoul(colon + 1, &end, 10);
    *out = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return *end == 0 && port <= UINT16_MAX && inet_pton(AF_INET, host, &out->sin_addr) == 1;
}

static int open_socket(const char *address, struct sockaddr_in *at)
{
    errno = EINVAL;
    int fd = parse_address(address, at) ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    return fd < 0 ? complain(fd, "can't use", address) : fd;
}

/* Under another name first: who waits for the file never sees half of it. */
static bool write_ready(int fd, const char *path)
{
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    char host[INET_ADDRSTRLEN], temporary[4096];
    if (getsockname(fd, (struct sockaddr *)&at, &n) < 0 ||
        !inet_ntop(AF_INET, &at.sin_addr, host, sizeof host) ||
        snprintf(temporary, sizeof temporary, "%s.new", path) >= (int)sizeof temporary)
        return false;
    FILE *f = fopen(temporary, "w");
    if (!f)
        return false;
    bool is_written = fprintf(f, "%s:%d\n", host, ntohs(at.sin_port)) > 0;
    return (fclose(f) == 0) & is_written && rename(temporary, path) == 0;
}

int listen_at(const char *address, const char *ready)
{
    struct sockaddr_in at;
    int fd = open_socket(address, &at), one = 1;
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, BACKLOG) < 0)
        return complain(fd, "can't listen at", address);
    if (ready && !write_ready(fd, ready))
        return complain(fd, "can't write", ready);
    return fd;
}

void set_patience(int fd)
{
    const struct timeval limit = {.tv_sec = PATIENCE_S};
    int one = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int dial(const char *address, int buffer)
{
    struct sockaddr_in at;
    int fd = open_socket(address, &at);
    if (fd < 0)
        return -1;
    set_patience(fd);
    if (buffer && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) < 0)
        return complain(fd, "can't set the buffer towards", address);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
        return complain(fd, "can't reach", address);
    return fd;
}

bool send_all(int fd, const void *bytes, size_t n)
{
    for (const char *at = bytes; n > 0;) {
        ssize_t r = send(fd, at, n, MSG_NOSIGNAL);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return false;
        at += r;
        n -= (size_t)r;
    }
    return true;
}

bool receive_all(int fd, void *bytes, size_t n)
{
    for (char *at = bytes; n > 0;) {
        ssize_t r = recv(fd, at, n, 0);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return false;
        at += r;
        n -= (size_t)r;
    }
    return true;
}

bool send_line(int fd, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    return n > 0 && n < (int)sizeof line && send_all(fd, line, (size_t)n);
}

/* Byte by byte: lines are short and rare, and what follows one belongs to somebody else. */
bool receive_line(int fd, char line[LINE_MAX_BYTES])
{
    for (size_t n = 0; n < LINE_MAX_BYTES; n++) {
        if (!receive_all(fd, line + n, 1))
            return false;
        if (line[n] != '\n')
            continue;
        line[n] = 0;
        return true;
    }
    return false;
}

uint32_t checksum(const void *bytes, size_t n)
{
    uint32_t hash = 2166136261u;
    for (const unsigned char *at = bytes; n > 0; n--)
        hash = (hash ^ *at++) * 16777619u;
    return hash;
}

void print_block_id(char out[BLOCK_ID_BYTES], unsigned long transfer, unsigned stream, uint32_t block)
{
    (void)snprintf(out, BLOCK_ID_BYTES, "%lu.%u.%u", transfer, stream, block);
}
