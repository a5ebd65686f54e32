/* SPDX-License-Identifier: Apache-2.0 */
/* udp_control FILE [--gro] [--open]: the least that a receiver of datagrams could do, as the control of
 * bench/ingest: recvmmsg, count, append to FILE. Binds a free port of 127.0.0.1, prints it, and receives
 * until SIGTERM; then prints how many datagrams and bytes came, and how many were not authentic.
 *
 * --gro: UDP GRO, messages of many datagrams. --open: each datagram is opened (AES-128-GCM, docs/protocol.md
 * "Datagrams") with one context that is keyed again for its worker, as `workers --sink private` seals them:
 * key id 1, the worker's id four times as the key. The sender is `workers --sink`. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    MESSAGES = 64,
    ROOM = 2048,
    ROOM_GRO = 65536,
    BUFFER = 32 << 20, /* as the gateway's */
    HEAD = 12,
    TAG = 16,
    KEY = 16
};

static volatile sig_atomic_t is_stopped;

static void on_signal(int signo)
{
    (void)signo;
    is_stopped = 1;
}

static int open_socket(bool has_gro)
{
    const int size = BUFFER, one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) < 0 ||
        (has_gro && setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one) < 0)) {
        perror("udp_control");
        exit(1);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size); /* as much as there may be */
    (void)printf("%u\n", ntohs(a.sin_port));
    (void)fflush(stdout); /* whoever started it waits for this */
    return fd;
}

static bool open_seal(EVP_CIPHER_CTX *c, unsigned char *p, int n)
{
    unsigned char key[KEY], nonce[12] = {1};
    int out;
    for (int i = 0; i < KEY; i += 4)
        memcpy(key + i, p + 2, 4);
    memcpy(nonce + 4, p + 6, 6);
    return n >= HEAD + TAG && EVP_DecryptInit_ex(c, NULL, NULL, key, nonce) == 1 &&
           EVP_DecryptUpdate(c, NULL, &out, p, HEAD) == 1 &&
           EVP_DecryptUpdate(c, p + HEAD, &out, p + HEAD, n - HEAD - TAG) == 1 &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG, p + n - TAG) == 1 &&
           EVP_DecryptFinal_ex(c, p + n - TAG, &out) == 1;
}

/* The size of the message's datagrams but the last. */
static int segment_size(struct msghdr *m, int n)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
            memcpy(&n, CMSG_DATA(c), sizeof n);
    }
    return n;
}

struct receiver {
    int fd, file;
    bool has_gro;
    EVP_CIPHER_CTX *seal; /* NULL: not sealed */
    size_t room;
    unsigned char *bytes;
    struct mmsghdr messages[MESSAGES];
    struct iovec in[MESSAGES], out[MESSAGES];
    _Alignas(struct cmsghdr) char controls[MESSAGES][CMSG_SPACE(sizeof(int))];
    uint64_t datagrams, n_bytes, forged;
};

static void init(struct receiver *r)
{
    r->room = r->has_gro ? ROOM_GRO : ROOM;
    r->bytes = malloc(MESSAGES * r->room);
    if (!r->bytes)
        abort();
    for (size_t i = 0; i < MESSAGES; i++) {
        r->in[i] = (struct iovec){r->bytes + i * r->room, r->room};
        r->messages[i].msg_hdr = (struct msghdr){.msg_iov = &r->in[i], .msg_iovlen = 1};
        if (r->has_gro)
            r->messages[i].msg_hdr.msg_control = r->controls[i];
    }
}

static void receive(struct receiver *r)
{
    for (size_t i = 0; r->has_gro && i < MESSAGES; i++)
        r->messages[i].msg_hdr.msg_controllen = sizeof r->controls[i];
    int n = recvmmsg(r->fd, r->messages, MESSAGES, MSG_WAITFORONE, NULL);
    for (int i = 0; i < n; i++) {
        int length = (int)r->messages[i].msg_len;
        int segment = r->has_gro ? segment_size(&r->messages[i].msg_hdr, length) : length;
        r->datagrams += segment > 0 ? (uint64_t)((length + segment - 1) / segment) : 1;
        r->n_bytes += (uint64_t)length;
        for (int at = 0; r->seal && at < length; at += segment)
            r->forged +=
                !open_seal(r->seal, r->in[i].iov_base ? (unsigned char *)r->in[i].iov_base + at : NULL,
                           length - at < segment ? length - at : segment);
        r->out[i] = (struct iovec){r->in[i].iov_base, (size_t)length};
    }
    if (n > 0 && writev(r->file, r->out, n) < 0) {
        perror("udp_control: writev");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static struct receiver r;
    bool opens = false;
    for (int i = 2; i < argc; i++) {
        r.has_gro = r.has_gro || strcmp(argv[i], "--gro") == 0;
        opens = opens || strcmp(argv[i], "--open") == 0;
    }
    if (argc < 2)
        return fprintf(stderr, "usage: udp_control FILE [--gro] [--open]\n"), 2;
    r.file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    r.seal = opens ? EVP_CIPHER_CTX_new() : NULL;
    if (r.file < 0 ||
        (opens && (!r.seal || EVP_DecryptInit_ex(r.seal, EVP_aes_128_gcm(), NULL, NULL, NULL) != 1)))
        return perror("udp_control"), 1;
    struct sigaction stop = {.sa_handler = on_signal}; /* without SA_RESTART: recvmmsg returns */
    (void)sigaction(SIGTERM, &stop, NULL);
    r.fd = open_socket(r.has_gro);
    init(&r);
    while (!is_stopped)
        receive(&r);
    (void)printf("{\"datagrams\":%llu,\"bytes\":%llu,\"forged\":%llu}\n", (unsigned long long)r.datagrams,
                 (unsigned long long)r.n_bytes, (unsigned long long)r.forged);
    return r.forged ? 1 : 0;
}
