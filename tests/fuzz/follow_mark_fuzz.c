/* SPDX-License-Identifier: Apache-2.0 */
/* A kept position of the log follower: what decodes must encode to bytes that decode to the same, and opening
 * a follower at it must give what the log has, a line or a gap, and end. */
#include "helper/follow.h"
#include "helper/follow_mark.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* A log of two lines and one that was rotated, made once. */
static const char *log_path(void)
{
    static char dir[] = "/tmp/follow_mark_fuzz.XXXXXX", path[64];
    if (path[0])
        return path;
    require(mkdtemp(dir) != NULL);
    for (int i = 1; i >= 0; i--) {
        (void)snprintf(path, sizeof path, i ? "%s/log.1" : "%s/log", dir);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        require(fd >= 0 && write(fd, i ? "zero\n" : "one\ntwo\n", i ? 5 : 8) > 0 && close(fd) == 0);
    }
    return path;
}

static void check_open(struct slice position)
{
    struct follow_options o = {.path = log_path(), .from_start = true};
    struct follow *f;
    struct follow_item item;
    struct diag why;
    struct strbuf at = {0};
    int r, items = 0;
    require(follow_open(&o, position, &f, &why) == 0);
    for (int round = 0; round < 3; round++) {
        follow_begin(f, round, round);
        while ((r = follow_next(f, &item, &why)) == 0)
            require(++items < 20);
        require(r == E_NODATA);
    }
    follow_position(f, FOLLOW_AFTER, &at);
    require(at.n <= FOLLOW_POSITION_MAX);
    follow_close(f);
    strbuf_fini(&at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {(const char *)data, size};
    struct follow_mark m, again;
    size_t used, used_again;
    if (follow_mark_decode(bytes, &m, &used) == 0) {
        struct strbuf s = {0}, t = {0};
        require(used <= size);
        follow_mark_encode(&m, &s);
        require(s.n <= FOLLOW_POSITION_MAX);
        require(follow_mark_decode(strbuf_slice(&s), &again, &used_again) == 0 && used_again == s.n);
        follow_mark_encode(&again, &t);
        require(slice_eq(strbuf_slice(&s), strbuf_slice(&t)));
        strbuf_fini(&s);
        strbuf_fini(&t);
    }
    static unsigned runs;
    if (runs++ % 8 == 0) /* it looks at files: slow */
        check_open(bytes);
    return 0;
}
