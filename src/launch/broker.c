/* SPDX-License-Identifier: Apache-2.0 */
/* A caller is read, then its request is put to the agent, which is asked by its name (net/agent_name.h): that is
 * also how a start is confirmed. While the agent does not answer to its name yet, it is asked again each LOOK_MS. */
#include "launch/broker.h"

#include "base/bucket.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/image.h"
#include "launch/starter.h"
#include "net/agent_name.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 10, LOAD_MS = 1000, BACKLOG = 64 };
#define NS_PER_MS INT64_C(1000000)

enum stage {
    FREE,
    READING,
    WAITING, /* for the agent to have its name */
    ASKING   /* it has been sent the message */
};

struct caller {
    enum stage stage;
    int fd, agent; /* agent: ASKING */
    struct ucred who;
    int64_t until_ns;
    unsigned char bytes[LAUNCH_REQUEST + 1];
    size_t n;
    struct launch_request request;
    bool has_started; /* by this one */
};

struct broker {
    const struct broker_options *o;
    int listener, image;
    dev_t dev; /* of the socket */
    ino_t ino;
    struct caller callers[BROKER_CALLERS];
    struct bucket requests[2 + BROKER_USERS_MAX]; /* each user's: who floods holds up nobody else */
    struct bucket starts;
    int64_t starting_until_ns; /* a start is under way */
};

static const char *const kinds[] = {
    [LAUNCH_START] = "start", [LAUNCH_VIEW] = "view", [LAUNCH_BEGAN] = "began", [LAUNCH_ENDED] = "ended"};

/* ---------------------------------------------------------------- answers */

static void hang_up(struct caller *c)
{
    if (c->agent >= 0)
        (void)close(c->agent);
    (void)close(c->fd);
    *c = (struct caller){.stage = FREE, .fd = -1, .agent = -1};
}

static void audit(const struct caller *c, const char *said)
{
    const char *kind = c->request.kind ? kinds[c->request.kind] : "?";
    log_info("uid %u, process %d: %s%s%s: %s", (unsigned)c->who.uid, (int)c->who.pid, kind,
             c->request.id[0] ? " " : "", c->request.id, said);
}

static void answer(struct caller *c, enum launch_result result, const char *why)
{
    unsigned char reply[LAUNCH_REPLY];
    launch_reply_put(reply, result);
    (void)!send(c->fd, reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT); /* who has gone needs none */
    audit(c, why ? why : launch_result_text(result));
    hang_up(c);
}

/* ---------------------------------------------------------------- the agent */

static int start_agent(struct broker *b, int64_t now_ns, struct diag *why)
{
    const char *argv[AGENT_ARGS_MAX];
    if (now_ns < b->starting_until_ns) /* it is on its way */
        return 0;
    if (!bucket_take(&b->starts, now_ns))
        return E_LIMIT;
    agent_args(&b->o->agent, "gridline-agent", argv);
    const struct starter s = {.image = b->image, .argv = argv, .cgroup = b->o->cgroup};
    int r = starter_run(&s, LOAD_MS, why);
    if (r < 0 && r != -ETIMEDOUT) /* a slow one is on its way, and nobody else is made to wait for it */
        return r;
    b->starting_until_ns = now_ns + b->o->timeout_ns;
    return 0;
}

/* What the agent is sent: a question, or the request with its sender's uid. */
static int send_to_agent(const struct broker *b, struct caller *c, struct ucred *holder)
{
    unsigned char message[AGENT_NAME_MESSAGE] = {AGENT_NAME_GUEST};
    size_t n = 1;
    if (c->request.kind != LAUNCH_START) {
        message[0] = AGENT_NAME_JOB;
        c->request.uid = c->who.uid;
        launch_request_put(message + 1, &c->request);
        n = sizeof message;
    }
    return agent_name_send(b->o->agent.gateways, slice_of((const char *)message, n), 0, holder, &c->agent);
}

static void ask_agent(struct broker *b, struct caller *c, int64_t now_ns)
{
    struct ucred holder;
    struct diag why = {0};
    int r = send_to_agent(b, c, &holder);
    if (r == 0 && holder.uid != geteuid() && holder.uid != 0) {
        answer(c, LAUNCH_NO_AGENT, "another user holds the agent's name");
        return;
    }
    if (r == 0) {
        c->stage = ASKING;
        return;
    }
    c->stage = WAITING;
    if (r == -EAGAIN) /* too many ask it just now */
        return;
    if (c->request.kind != LAUNCH_START) {
        answer(c, LAUNCH_NO_AGENT, "no agent runs");
        return;
    }
    r = c->has_started ? 0 : start_agent(b, now_ns, &why);
    c->has_started = true;
    if (r < 0)
        answer(c, r == E_LIMIT ? LAUNCH_TOO_MUCH : LAUNCH_NO_AGENT, r == E_LIMIT ? NULL : why.message);
}

static void hear_agent(struct broker *b, struct caller *c)
{
    char said = agent_name_answer(c->agent, 0);
    if (c->request.kind == LAUNCH_START && !said) { /* it has just gone: there is to be another */
        (void)close(c->agent);
        c->agent = -1;
        c->stage = WAITING;
    } else if (c->request.kind == LAUNCH_START) {
        b->starting_until_ns = 0;
        answer(c, c->has_started ? LAUNCH_DONE : LAUNCH_ALREADY, NULL);
    } else if (said && said != AGENT_NAME_REFUSED) {
        answer(c, LAUNCH_DONE, NULL);
    } else {
        answer(c, said ? LAUNCH_TOO_MUCH : LAUNCH_NO_AGENT, said ? "the agent did not take it" : NULL);
    }
}

/* ---------------------------------------------------------------- callers */

/* Which of those that may ask: this user, root, the others; -1: none of them. */
static int user_number(const struct broker *b, uid_t uid)
{
    if (uid == geteuid())
        return 0;
    if (uid == 0)
        return 1;
    for (size_t i = 0; i < b->o->n_users; i++)
        if (uid == b->o->users[i])
            return 2 + (int)i;
    return -1;
}

static void take_request(struct broker *b, struct caller *c, int64_t now_ns)
{
    int r = launch_request_get(slice_of((const char *)c->bytes, c->n), &c->request);
    if (r < 0 || c->request.uid != LAUNCH_NO_UID) {
        answer(c, LAUNCH_MALFORMED, r == E_VERSION ? "another version" : NULL);
    } else if (!bucket_take(&b->requests[user_number(b, c->who.uid)], now_ns)) {
        answer(c, LAUNCH_TOO_MUCH, NULL);
    } else {
        c->until_ns = now_ns + b->o->timeout_ns;
        ask_agent(b, c, now_ns);
    }
}

/* Without room for ancillary data the kernel drops descriptors that were passed, and says so. */
static void hear_caller(struct broker *b, struct caller *c, int64_t now_ns)
{
    struct iovec to = {c->bytes + c->n, sizeof c->bytes - c->n};
    struct msghdr m = {.msg_iov = &to, .msg_iovlen = 1};
    ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->n += n > 0 ? (size_t)n : 0;
    if (m.msg_flags & MSG_CTRUNC)
        answer(c, LAUNCH_MALFORMED, "something was passed with it");
    else if (n <= 0)
        answer(c, LAUNCH_MALFORMED, "it ended too early");
    else if (c->n > LAUNCH_REQUEST)
        answer(c, LAUNCH_MALFORMED, "it is too long");
    else if (c->n == LAUNCH_REQUEST)
        take_request(b, c, now_ns);
}

static struct caller *free_place(struct broker *b)
{
    for (size_t i = 0; i < BROKER_CALLERS; i++)
        if (b->callers[i].stage == FREE)
            return &b->callers[i];
    return NULL;
}

static void take_caller(struct broker *b, int64_t now_ns)
{
    struct caller *c = free_place(b);
    struct caller caller = {.stage = READING, .agent = -1, .until_ns = now_ns + BROKER_READ_MS * NS_PER_MS};
    socklen_t n = sizeof caller.who;
    caller.fd = c ? accept4(b->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
    if (caller.fd < 0)
        return;
    bool is_known = getsockopt(caller.fd, SOL_SOCKET, SO_PEERCRED, &caller.who, &n) == 0;
    *c = caller;
    if (!is_known || user_number(b, caller.who.uid) < 0)
        answer(c, LAUNCH_NOT_ALLOWED, NULL);
}

static bool is_full(const struct broker *b)
{
    for (size_t i = 0; i < BROKER_CALLERS; i++)
        if (b->callers[i].stage == FREE)
            return false;
    return true;
}

/* Who has said nothing yet has less time if others may want the place. */
static int64_t deadline_ns(const struct broker *b, const struct caller *c)
{
    bool must_hurry = c->stage == READING && is_full(b);
    return c->until_ns - (must_hurry ? (BROKER_READ_MS - BROKER_HURRY_MS) * NS_PER_MS : 0);
}

static void look_at(struct broker *b, struct caller *c, int64_t now_ns)
{
    if (c->stage == WAITING)
        ask_agent(b, c, now_ns);
    if (c->stage == FREE || now_ns < deadline_ns(b, c))
        return;
    if (c->stage == READING)
        answer(c, LAUNCH_MALFORMED, "it took too long");
    else
        answer(c, LAUNCH_NO_AGENT, NULL);
}

/* ---------------------------------------------------------------- the socket */

/* A dead broker's socket may go; anything else that is there may not. */
static int clear_place(const struct sockaddr_un *name, struct diag *why)
{
    struct stat st;
    if (lstat(name->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : diag_set(why, -errno, 0, "%s: %s", name->sun_path, err_text(-errno));
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return diag_set(why, -EEXIST, 0, "%s is there, and no socket of this user's", name->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return diag_set(why, -errno, 0, "%s", err_text(-errno));
    int r = connect(fd, (const struct sockaddr *)name, sizeof *name) < 0 ? -errno : 0;
    (void)close(fd);
    if (r != -ECONNREFUSED)
        return diag_set(why, -EADDRINUSE, 0, "%s is served already", name->sun_path);
    return unlink(name->sun_path) < 0 && errno != ENOENT ? -errno : 0;
}

/* Others could put a socket of theirs in its place. */
static int check_folder(const char *path, struct diag *why)
{
    struct stat st;
    char folder[sizeof((struct sockaddr_un *)NULL)->sun_path] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        (void)snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path); /* fits */
    if (stat(folder, &st) < 0)
        return diag_set(why, -errno, 0, "%s: %s", folder, err_text(-errno));
    bool is_sticky = st.st_mode & S_ISVTX;
    if ((st.st_uid != geteuid() && st.st_uid != 0) || ((st.st_mode & 022) && !is_sticky))
        return diag_set(why, -EPERM, 0, "%s: others may replace what is in it; take a folder of this user's", folder);
    return 0;
}

static int open_socket(struct broker *b, struct diag *why)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct stat st;
    const char *path = b->o->socket;
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof name.sun_path)
        return diag_set(why, -ENAMETOOLONG, 0, "a socket's path has 1 to %zu bytes", sizeof name.sun_path - 1);
    memcpy(name.sun_path, path, n);
    int r = check_folder(path, why);
    if (r == 0)
        r = clear_place(&name, why);
    if (r < 0)
        return r;
    mode_t before = umask(b->o->n_users ? 0111 : 0177); /* the kernel says who asks; this keeps the rest away */
    b->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->listener < 0 || bind(b->listener, (const struct sockaddr *)&name, sizeof name) < 0 ||
        listen(b->listener, BACKLOG) < 0 || lstat(path, &st) < 0)
        r = diag_set(why, -errno, 0, "%s: %s", path, err_text(-errno));
    (void)umask(before);
    if (r == 0) {
        b->dev = st.st_dev;
        b->ino = st.st_ino;
    }
    return r;
}

/* ---------------------------------------------------------------- all of it */

int broker_create(const struct broker_options *o, struct broker **out, struct diag *why)
{
    struct broker *b = mem_alloc(sizeof *b);
    *b = (struct broker){.o = o,
                         .listener = -1,
                         .image = -1,
                         .starts = bucket_of(BROKER_STARTS, BROKER_START_EVERY_S * NS_PER_S)};
    for (size_t i = 0; i < BROKER_CALLERS; i++)
        b->callers[i] = (struct caller){.stage = FREE, .fd = -1, .agent = -1};
    for (size_t i = 0; i < sizeof b->requests / sizeof *b->requests; i++)
        b->requests[i] = bucket_of(BROKER_BURST, NS_PER_S / BROKER_PER_S);
    int r = image_open(o->program, &b->image, why);
    if (r == 0)
        r = open_socket(b, why);
    if (r < 0) {
        broker_destroy(b);
        return r;
    }
    *out = b;
    return 0;
}

void broker_destroy(struct broker *b)
{
    struct stat st;
    if (!b)
        return;
    for (size_t i = 0; i < BROKER_CALLERS; i++)
        if (b->callers[i].stage != FREE)
            hang_up(&b->callers[i]);
    if (b->ino && lstat(b->o->socket, &st) == 0 && st.st_dev == b->dev && st.st_ino == b->ino)
        (void)unlink(b->o->socket);
    if (b->listener >= 0)
        (void)close(b->listener);
    if (b->image >= 0)
        (void)close(b->image);
    mem_free(b);
}

/* Until the first deadline; LOOK_MS while an agent is on its way. */
static int next_ms(const struct broker *b, int64_t now_ns)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < BROKER_CALLERS; i++) {
        const struct caller *c = &b->callers[i];
        int64_t at = c->stage == FREE      ? INT64_MAX
                     : c->stage == WAITING ? now_ns + LOOK_MS * NS_PER_MS
                                           : deadline_ns(b, c);
        if (at < next)
            next = at;
    }
    return next == INT64_MAX ? -1 : next <= now_ns ? 0 : (int)((next - now_ns) / NS_PER_MS + 1);
}

enum { STOP, LISTENER, CALLERS_AT };

/* A caller is waited for while its request is read; then the agent is. Who hangs up meanwhile is answered in vain. */
static void fill(const struct broker *b, int stop, struct pollfd p[CALLERS_AT + BROKER_CALLERS])
{
    for (size_t i = 0; i < BROKER_CALLERS; i++) {
        const struct caller *c = &b->callers[i];
        int fd = c->stage == READING ? c->fd : c->stage == ASKING ? c->agent : -1;
        p[CALLERS_AT + i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    p[STOP] = (struct pollfd){.fd = stop, .events = POLLIN};
    p[LISTENER] = (struct pollfd){.fd = is_full(b) ? -1 : b->listener, .events = POLLIN};
}

int broker_run(struct broker *b, int stop)
{
    struct pollfd p[CALLERS_AT + BROKER_CALLERS];
    for (;;) {
        fill(b, stop, p);
        if (poll(p, CALLERS_AT + BROKER_CALLERS, next_ms(b, clock_mono_ns())) < 0 && errno != EINTR)
            return -errno;
        int64_t now = clock_mono_ns();
        if (p[STOP].revents)
            return 0;
        for (size_t i = 0; i < BROKER_CALLERS; i++) {
            struct caller *c = &b->callers[i];
            if (p[CALLERS_AT + i].revents && c->stage == READING)
                hear_caller(b, c, now);
            else if (p[CALLERS_AT + i].revents && c->stage == ASKING)
                hear_agent(b, c);
            look_at(b, c, now);
        }
        if (p[LISTENER].revents)
            take_caller(b, now);
    }
}
