/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/netdev.h"

enum { LOOK_EVERY = 64 }; /* samples without a queue until the interface's number is looked up again */

struct slice netdev_name(struct scan *line)
{
    scan_blanks(line);
    /* The last colon: old kernels allowed one in a name. */
    const char *colon = memrchr(line->p, ':', (size_t)(line->end - line->p));
    struct slice name = slice_of(line->p, colon ? (size_t)(colon - line->p) : 0);
    line->p = colon ? colon + 1 : line->end;
    return name;
}

void netdev_values(struct scan *line, struct value v[NET_FIELDS])
{
    for (size_t i = 0; i < NET_FIELDS; i++)
        v[i] = scan_value(line);
}

static void add_path(struct strbuf *path, struct slice name, const char *below)
{
    strbuf_add_str(path, "/sys/class/net/");
    strbuf_add_slice(path, name);
    strbuf_add_str(path, below);
}

/* The kernel allows neither a slash nor these in a name; a captured tree may hold anything. */
static bool is_name(struct slice name)
{
    return !memchr(name.p, '/', name.n) && !memchr(name.p, '\0', name.n) && !slice_eq_str(name, ".") &&
           !slice_eq_str(name, "..");
}

bool netdev_is_physical(struct sensor_env *env, struct slice name)
{
    struct strbuf path = {0};
    add_path(&path, name, "/device");
    bool is = is_name(name) && !strbuf_failed(&path) && env_exists(env, path.p);
    strbuf_fini(&path);
    return is;
}

static uint32_t look_up_index(struct sensor_env *env, struct slice name)
{
    struct strbuf path = {0}, text = {0};
    uint64_t index = 0;
    add_path(&path, name, "/ifindex");
    if (is_name(name) && !strbuf_failed(&path) && env_read_file(env, path.p, &text) == 0) {
        struct scan s = scan_of(strbuf_slice(&text));
        if (!scan_uint(&s, &index) || index > UINT32_MAX)
            index = 0;
    }
    strbuf_fini(&path);
    strbuf_fini(&text);
    return (uint32_t)index;
}

bool netdev_queue(struct sensor_env *env, struct slice name, struct netdev_link *link, struct slice dump, size_t *at,
                  struct qdisc *out)
{
    if (dump.n == 0)
        return false;
    if (link->age++ % LOOK_EVERY == 0)
        link->index = look_up_index(env, name);
    if (link->index == 0 || !qdisc_find(dump, at, link->index, out))
        return false;
    link->age = 1;
    return true;
}
