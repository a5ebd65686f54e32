/* SPDX-License-Identifier: Apache-2.0 */
/* With a FUSE filesystem that this test serves, or does not serve: to the kernel that is a server that is alive or
 * dead. */
#include "unit/test.h"

#include "base/mem.h"
#include "sensor/filesystem.h"
#include "sensor/scan.h"
#include "unit/sensor/tree.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

struct server {
    struct tree tree;
    int fd;
    pthread_t thread;
};

/* A mount namespace of our own, so that nothing is left. False: may not mount here, or no FUSE. */
static bool server_start(struct server *f)
{
    char options[128];
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return false;
    f->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (f->fd < 0)
        return false;
    tree_make(&f->tree, NULL);
    (void)snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", f->fd);
    assert_int_equal(mount("server:/export", f->tree.root, "fuse", 0, options), 0);
    return true;
}

static void answer(int fd, uint64_t unique, const void *body, size_t n)
{
    char reply[512];
    struct fuse_out_header head = {.len = (uint32_t)(sizeof head + n), .unique = unique};
    memcpy(reply, &head, sizeof head);
    memcpy(reply + sizeof head, body, n);
    assert_int_equal(write(fd, reply, head.len), head.len);
}

/* Answers what statvfs asks until the filesystem is unmounted. */
static void *serve(void *arg)
{
    const struct server *f = arg;
    char request[FUSE_MIN_READ_BUFFER + 4096];
    for (;;) {
        ssize_t n = read(f->fd, request, sizeof request);
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
            continue;
        if (n < (ssize_t)sizeof(struct fuse_in_header))
            return NULL; /* ENODEV: unmounted */
        struct fuse_in_header in;
        memcpy(&in, request, sizeof in);
        if (in.opcode == FUSE_INIT) {
            struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION};
            answer(f->fd, in.unique, &init, sizeof init);
        } else if (in.opcode == FUSE_STATFS) {
            struct fuse_statfs_out st = {.st = {.blocks = 1000, .bfree = 400, .bavail = 300, .files = 50, .ffree = 20,
                                                .bsize = 512, .namelen = 255, .frsize = 512}};
            answer(f->fd, in.unique, &st, sizeof st);
        } else if (in.opcode == FUSE_GETATTR) {
            struct fuse_attr_out attr = {.attr = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2}};
            answer(f->fd, in.unique, &attr, sizeof attr);
        } else {
            struct fuse_out_header no = {.len = sizeof no, .error = -ENOSYS, .unique = in.unique};
            if (write(f->fd, &no, sizeof no) < 0)
                assert_int_equal(errno, ENOENT); /* FORGET and the like expect nothing */
        }
    }
}

static void server_stop(struct server *f, bool is_served)
{
    assert_int_equal(umount2(f->tree.root, MNT_DETACH), 0);
    if (is_served)
        assert_int_equal(pthread_join(f->thread, NULL), 0);
    assert_int_equal(close(f->fd), 0); /* lets whoever waits for an answer go */
    tree_remove(&f->tree);
}

/* The sensor's functions as gridline-helper calls them. */
struct run {
    struct sensor_out out; /* first */
    struct sensor_env env;
    struct filesystem_remote *state;
    struct strbuf text;
    struct diag why;
};

static void on_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level, const struct value *values)
{
    struct run *r = (struct run *)out;
    const struct sensor_ops *ops = sensor_find(SLICE_LIT("filesystem.remote"));
    (void)time_ns, (void)level; /* not compared */
    assert_non_null(ops);
    strbuf_add_str(&r->text, ops->schemas[schema].name);
    for (size_t i = 0; i < ops->schemas[schema].n_fields; i++)
        sense_add_value(&r->text, ops->schemas[schema].fields[i].name, values[i]);
    strbuf_add_char(&r->text, '\n');
}

static void run_open(struct run *r, const char *root, int64_t timeout_ns)
{
    static const char *const all[] = {"/tmp/gridline-*"};
    *r = (struct run){.out = {.row = on_row}};
    env_init(&r->env, root);
    r->out.why = &r->why;
    r->state = mem_alloc(sizeof *r->state);
    r->state->options.mounts = (struct parameter_list){all, 1};
    r->state->timeout_ns = timeout_ns;
    assert_int_equal(filesystem_remote_open(r->state, &r->env, &r->why), 0);
}

static int run_sample(struct run *r)
{
    strbuf_reset(&r->text);
    env_next_round(&r->env);
    return filesystem_remote_sample(r->state, &r->env, &r->out);
}

static void run_close(struct run *r)
{
    filesystem_remote_close(r->state);
    mem_free(r->state);
    strbuf_fini(&r->text);
    env_fini(&r->env);
}

static void dead_then_alive(void **state)
{
    (void)state;
    struct server f;
    struct run r;
    char expected[512];
    if (!server_start(&f))
        skip(); /* may not mount here, or no FUSE */
    run_open(&r, "", INT64_C(50) * 1000 * 1000);
    (void)snprintf(expected, sizeof expected,
                   "filesystem.remote mount=\"%s\" type=\"fuse\" device=\"server:/export\" answers=false\n",
                   f.tree.root);
    for (int i = 0; i < 3; i++) { /* it stays dead, and is asked only once */
        assert_int_equal(run_sample(&r), 0);
        assert_string_equal(r.text.p, expected);
        assert_int_equal(r.state->n_workers, 1);
    }
    assert_int_equal(pthread_create(&f.thread, NULL, serve, &f), 0);
    r.state->timeout_ns = INT64_C(60) * 1000 * 1000 * 1000;
    assert_int_equal(run_sample(&r), 0);
    (void)snprintf(expected, sizeof expected,
                   "filesystem.remote mount=\"%s\" type=\"fuse\" device=\"server:/export\" size=512000 used=307200 "
                   "free=204800 available=153600 inodes=50 inodes_free=20 read_only=false answers=true\n",
                   f.tree.root);
    assert_string_equal(r.text.p, expected);
    server_stop(&f, true);
    assert_int_equal(run_sample(&r), 0);
    assert_int_equal(r.text.n, 0);
    assert_int_equal(r.state->n_workers, 0);
    run_close(&r);
}

/* Closing does not wait for a server that never answers, and the one that does is not hidden by it. */
static void one_of_two_is_dead(void **state)
{
    (void)state;
    struct server dead, alive;
    struct run r;
    if (!server_start(&dead))
        skip(); /* may not mount here, or no FUSE */
    assert_true(server_start(&alive));
    assert_int_equal(pthread_create(&alive.thread, NULL, serve, &alive), 0);
    run_open(&r, "", INT64_C(200) * 1000 * 1000);
    const char *row = NULL;
    for (int i = 0; i < 100 && !row; i++) { /* on a busy machine the one that is alive may be late */
        assert_int_equal(run_sample(&r), 0);
        row = strstr(r.text.p, "answers=true");
    }
    assert_non_null(row);
    assert_non_null(strstr(r.text.p, alive.tree.root));
    assert_true(strstr(r.text.p, alive.tree.root) < row);
    assert_non_null(strstr(r.text.p, dead.tree.root));
    assert_non_null(strstr(r.text.p, "answers=false"));
    run_close(&r);
    server_stop(&dead, false);
    server_stop(&alive, true);
}

static void captured_tree(void **state)
{
    (void)state;
    struct run r;
    run_open(&r, FIXTURES "server", 1);
    assert_int_equal(run_sample(&r), E_NODATA);
    run_close(&r);
    const struct sensor_ops *ops = sensor_find(SLICE_LIT("filesystem.remote"));
    assert_non_null(ops);
    assert_true(ops->is_helper && !ops->is_default && !ops->open && !ops->sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_then_alive),
        cmocka_unit_test(one_of_two_is_dead),
        cmocka_unit_test(captured_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
