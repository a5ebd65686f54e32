/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/interfaces.h"

#include "base/num.h"
#include "sensor/clean.h"
#include "sensor/scan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

const struct field interfaces_fields[INTERFACES_FIELDS] = {
    KEY("interface", "its name"),
    FIELD("mac", TEXT, STATE, "", "hardware address"),
    FIELD("mtu", UINT, STATE, "bytes", "largest packet"),
    FIELD("speed", UINT, STATE, "Mbit/s", "as negotiated; none when there is no link or no such thing"),
    FIELD("state", TEXT, STATE, "", "`up`, `down`, `unknown`, ..."),
    FIELD("driver", TEXT, STATE, "", "of the device; none for virtual ones"),
    FIELD("up", BOOL, STATE, "", "switched on by the administrator"),
    FIELD("addresses", TEXT, STATE, "", "with prefix lengths, separated by blanks"),
};

void interfaces_fini(struct interfaces *s)
{
    strbuf_fini(&s->path);
    strbuf_fini(&s->text);
    strbuf_fini(&s->address);
    strbuf_fini(&s->state);
    strbuf_fini(&s->driver);
    strbuf_fini(&s->addresses);
}

static int on_name(void *arg, const char *name)
{
    struct interfaces *s = arg;
    size_t n = strlen(name);
    if (n >= sizeof s->names[0] || strcmp(name, "bonding_masters") == 0) /* a file among the interfaces */
        return 0;
    s->total++;
    if (s->n_names < INTERFACES_MAX)
        memcpy(s->names[s->n_names++], name, n + 1);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

int interfaces_list(struct interfaces *s, struct sensor_env *env)
{
    s->n_names = 0;
    s->total = 0;
    int r = env_list(env, "/sys/class/net", on_name, s);
    qsort(s->names, s->n_names, sizeof s->names[0], compare_names);
    return r;
}

static const char *path_of(struct interfaces *s, const char *name, const char *file)
{
    strbuf_reset(&s->path);
    strbuf_printf(&s->path, "/sys/class/net/%s/%s", name, file);
    return strbuf_failed(&s->path) ? "" : s->path.p;
}

/* A file of one line, into out; VALUE_NONE without one, or when it is cut. */
static struct value read_text(struct interfaces *s, struct sensor_env *env, const char *name, const char *file,
                              struct strbuf *out)
{
    if (env_read_file(env, path_of(s, name, file), &s->text) < 0 || !scan_is_whole(strbuf_slice(&s->text)))
        return value_none();
    struct scan scan = scan_of(strbuf_slice(&s->text));
    struct slice word = scan_word(&scan);
    strbuf_reset(out);
    clean_add(out, word);
    return word.n ? value_text(strbuf_slice(out)) : value_none();
}

static struct value read_uint(struct interfaces *s, struct sensor_env *env, const char *name, const char *file)
{
    if (env_read_file(env, path_of(s, name, file), &s->text) < 0 || !scan_is_whole(strbuf_slice(&s->text)))
        return value_none();
    struct scan scan = scan_of(strbuf_slice(&s->text));
    return scan_value(&scan); /* -1 is no number of ours */
}

/* "0x1003": is the bit for "switched on" set? */
static struct value read_up(struct interfaces *s, struct sensor_env *env, const char *name)
{
    if (env_read_file(env, path_of(s, name, "flags"), &s->text) < 0 || !scan_is_whole(strbuf_slice(&s->text)))
        return value_none();
    struct slice text = {s->text.p, s->text.n - 1};
    if (!slice_starts(text, SLICE_LIT("0x")) || text.n < 3)
        return value_none();
    int last = text_hex_digit(text.p[text.n - 1]); /* IFF_UP is 1 */
    return last < 0 ? value_none() : value_bool(last & IFF_UP);
}

/* The last part of where the link device/driver leads. */
static struct value read_driver(struct interfaces *s, struct sensor_env *env, const char *name)
{
    char target[ENV_PATH_MAX];
    const char *path = path_of(s, name, "device/driver");
    strbuf_reset(&s->text);
    ssize_t n = readlink(env_path(env, path, &s->text), target, sizeof target);
    env_note(env, "readlink", path, 0);
    if (n <= 0 || (size_t)n == sizeof target)
        return value_none();
    const char *slash = memrchr(target, '/', (size_t)n);
    struct slice last = slash ? slice_of(slash + 1, (size_t)(target + n - slash - 1)) : slice_of(target, (size_t)n);
    strbuf_reset(&s->driver);
    clean_add(&s->driver, last);
    return last.n ? value_text(strbuf_slice(&s->driver)) : value_none();
}

static unsigned prefix_of(const unsigned char *mask, size_t n)
{
    unsigned bits = 0;
    for (size_t i = 0; i < n; i++)
        bits += (unsigned)__builtin_popcount(mask[i]);
    return bits;
}

static void add_address(struct strbuf *out, const struct ifaddrs *a)
{
    char text[INET6_ADDRSTRLEN];
    const void *address, *mask;
    size_t n;
    if (!a->ifa_addr || !a->ifa_netmask)
        return;
    if (a->ifa_addr->sa_family == AF_INET) {
        address = &((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr;
        mask = &((const struct sockaddr_in *)(const void *)a->ifa_netmask)->sin_addr;
        n = 4;
    } else if (a->ifa_addr->sa_family == AF_INET6) {
        address = &((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr;
        mask = &((const struct sockaddr_in6 *)(const void *)a->ifa_netmask)->sin6_addr;
        n = 16;
    } else {
        return;
    }
    if (!inet_ntop(a->ifa_addr->sa_family, address, text, sizeof text))
        return; /* can't be: there is room */
    strbuf_printf(out, "%s%s/%u", out->n ? " " : "", text, prefix_of(mask, n));
}

/* In the kernel's order, which stays. */
static struct value addresses_of(struct interfaces *s, const struct ifaddrs *all, const char *name)
{
    enum { ADDRESSES_BYTES = 32 << 10 }; /* a text may have 64 KiB */
    strbuf_reset(&s->addresses);
    for (const struct ifaddrs *a = all; a && s->addresses.n < ADDRESSES_BYTES; a = a->ifa_next)
        if (strcmp(a->ifa_name, name) == 0)
            add_address(&s->addresses, a);
    return s->addresses.n && !strbuf_failed(&s->addresses) ? value_text(strbuf_slice(&s->addresses)) : value_none();
}

void interfaces_emit(struct interfaces *s, struct sensor_env *env, struct sensor_out *out, unsigned schema)
{
    struct ifaddrs *addresses = NULL;
    if (env_is_live(env)) {
        if (getifaddrs(&addresses) < 0)
            addresses = NULL; /* then without */
        env_note(env, "netlink", "getifaddrs", 0);
    }
    for (size_t i = 0; i < s->n_names; i++) {
        const char *name = s->names[i];
        struct value row[INTERFACES_FIELDS] = {value_text(slice_str(name))};
        if (!text_is_utf8(slice_str(name)))
            continue;
        row[1] = read_text(s, env, name, "address", &s->address);
        row[2] = read_uint(s, env, name, "mtu");
        row[3] = read_uint(s, env, name, "speed");
        row[4] = read_text(s, env, name, "operstate", &s->state);
        row[5] = read_driver(s, env, name);
        row[6] = read_up(s, env, name);
        row[7] = addresses_of(s, addresses, name);
        sensor_row(out, schema, row);
    }
    if (addresses)
        freeifaddrs(addresses);
}
