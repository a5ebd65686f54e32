/* SPDX-License-Identifier: Apache-2.0 */
#include "net/bio.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>

static int fd_of(BIO *b)
{
    return (int)(intptr_t)BIO_get_data(b);
}

static int put(BIO *b, const char *p, int n)
{
    BIO_clear_retry_flags(b);
    ssize_t r = send(fd_of(b), p, (size_t)n, MSG_NOSIGNAL);
    if (r < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(b);
    return (int)r;
}

static int get(BIO *b, char *p, int n)
{
    BIO_clear_retry_flags(b);
    ssize_t r = recv(fd_of(b), p, (size_t)n, 0);
    if (r < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(b);
    else if (r == 0)
        BIO_set_flags(b, BIO_FLAGS_IN_EOF);
    return (int)r;
}

static long control(BIO *b, int what, long number, void *pointer)
{
    (void)number, (void)pointer; /* none of what is answered has any */
    if (what == BIO_CTRL_FLUSH)
        return 1;
    return what == BIO_CTRL_EOF ? BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0 : 0;
}

static BIO_METHOD *method;

static void make_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gridline socket");
    if (m && BIO_meth_set_write(m, put) && BIO_meth_set_read(m, get) && BIO_meth_set_ctrl(m, control)) {
        method = m; /* as long as the process */
        return;
    }
    BIO_meth_free(m);
}

BIO *bio_of_socket(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_method); /* can't fail with a valid control */
    BIO *b = method ? BIO_new(method) : NULL;
    if (!b)
        return NULL;
    BIO_set_data(b, (void *)(intptr_t)fd);
    BIO_set_init(b, 1);
    return b;
}
