/* SPDX-License-Identifier: Apache-2.0 */
/* Sensors on a captured tree whose files hold anything. An input is text:
 *
 *     @/proc/stat                  a line of a path in `files` below; its content follows, up to the next such line
 *     cpu  1 2 3 4
 *     @again                       the files from here on are those of a second sample
 *     @/proc/stat
 *     cpu  2 3 4 5
 *
 * Every sensor of `sensors` one of whose files is there runs: two samples on the same instance, and one of a fresh
 * instance on the second tree. What must hold: a sample succeeds or has no data, and then gives no row; each value is of
 * its declared type and each text is UTF-8; a sensor that remembers lines and devices says the same as a fresh one; no
 * number is made up, each stands in a file (or 512 times, 1024 times one). Sums and rates (.is_rates) are finite and not
 * negative instead. To add a sensor: its line in `sensors`, its files in `files`, and seeds. */
#include "base/text.h"
#include "sensor/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const files[] = {
    "/netlink/qdisc", "/proc/diskstats", "/proc/loadavg", "/proc/meminfo",
    "/proc/net/dev",  "/proc/stat",      "/proc/vmstat",
};
enum { FILES = sizeof files / sizeof *files, NUMBERS_MAX = 8192 };

static const struct {
    const char *name;
    const char *paths[8];
    bool is_rates;
} sensors[] = {
    {"cpu", {"/proc/stat"}, false},
    {"memory", {"/proc/meminfo"}, false},
    {"paging", {"/proc/vmstat"}, false},
    {"disk", {"/proc/diskstats"}, false},
    {"network", {"/proc/net/dev", "/netlink/qdisc"}, false},
    {"load", {"/proc/loadavg"}, false},
    {"vector",
     {"/proc/stat", "/proc/loadavg", "/proc/meminfo", "/proc/vmstat", "/proc/diskstats", "/proc/net/dev",
      "/netlink/qdisc"},
     true},
};
enum { SENSORS = sizeof sensors / sizeof *sensors };

/* What /sys says, the same for every input. */
static const char *const sys_files[][2] = {
    {"/sys/class/block/sda/device/type", "0\n"}, {"/sys/class/block/sda1/partition", "1\n"},
    {"/sys/class/block/dm-0/size", "1\n"},       {"/sys/class/net/eth0/device/vendor", "1\n"},
    {"/sys/class/net/eth0/ifindex", "2\n"},      {"/sys/class/net/lo/ifindex", "1\n"},
};

/* The content of the files in one sample; p is NULL for one that is not there. */
struct content {
    struct slice of[FILES];
};

static char root[64];
static int64_t now_ns;
static uint64_t numbers[NUMBERS_MAX]; /* those in the files of this sample, sorted */
static size_t n_numbers;

static void check(bool ok)
{
    if (!ok)
        abort();
}

static int64_t fake_clock(void)
{
    return now_ns;
}

static const char *full_path(const char *path)
{
    static char full[256];
    (void)snprintf(full, sizeof full, "%s%s", root, path);
    return full;
}

static void make_folders(const char *path)
{
    char full[256];
    (void)snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        check(mkdir(full, 0700) == 0 || errno == EEXIST);
        *p = '/';
    }
}

static void put(const char *path, struct slice content)
{
    int fd = open(full_path(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, content.p, content.n) == (ssize_t)content.n);
    (void)close(fd); /* in memory */
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw; /* the name says it all */
    return remove(path);
}

static void remove_tree(void)
{
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* what can't be removed is in /dev/shm or /tmp */
}

static void make_tree(void)
{
    (void)snprintf(root, sizeof root, "%s/gridline-fuzz.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    check(mkdtemp(root) != NULL);
    (void)atexit(remove_tree);
    for (size_t i = 0; i < FILES; i++)
        make_folders(files[i]);
    for (size_t i = 0; i < sizeof sys_files / sizeof *sys_files; i++) {
        make_folders(sys_files[i][0]);
        put(sys_files[i][0], slice_str(sys_files[i][1]));
    }
}

/* Takes the files of one sample off the input, up to "@again". */
static struct content take_content(struct slice *rest)
{
    struct content c = {0};
    size_t at = FILES; /* the file whose content this is */
    while (rest->n > 0) {
        const char *lf = memchr(rest->p, '\n', rest->n);
        struct slice line = slice_of(rest->p, lf ? (size_t)(lf - rest->p) : rest->n);
        *rest = slice_from(*rest, line.n + 1);
        if (slice_eq_str(line, "@again"))
            break;
        if (line.n > 0 && line.p[0] == '@') {
            for (at = 0; at < FILES && !slice_eq_str(slice_from(line, 1), files[at]); at++)
                ;
            if (at < FILES)
                c.of[at] = slice_of(rest->p, 0);
        } else if (at < FILES) {
            c.of[at].n = (size_t)(rest->p - c.of[at].p);
        }
    }
    return c;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All runs of digits that fit 64 bits. */
static void note_numbers(struct slice text)
{
    for (size_t i = 0; i < text.n && n_numbers < NUMBERS_MAX;) {
        uint64_t v = 0;
        bool fits = true;
        size_t from = i;
        for (; i < text.n && (unsigned char)(text.p[i] - '0') <= 9; i++) {
            unsigned digit = (unsigned)(text.p[i] - '0');
            fits = fits && v <= (UINT64_MAX - digit) / 10;
            v = v * 10 + digit;
        }
        if (i > from && fits)
            numbers[n_numbers++] = v;
        i += i == from;
    }
}

static void put_content(const struct content *c)
{
    n_numbers = 0;
    for (size_t i = 0; i < FILES; i++) {
        if (c->of[i].p) {
            put(files[i], c->of[i]);
            note_numbers(c->of[i]);
        } else if (truncate(full_path(files[i]), 0) == 0) { /* emptied, too: sources keep their files open */
            check(unlink(full_path(files[i])) == 0);
        }
    }
    qsort(numbers, n_numbers, sizeof *numbers, by_size);
}

static bool stands_somewhere(uint64_t v)
{
    static const uint64_t factors[] = {1, 512, 1024};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        uint64_t part = v / factors[i];
        if (v % factors[i] == 0 && bsearch(&part, numbers, n_numbers, sizeof *numbers, by_size))
            return true;
    }
    return false;
}

/* Where the rows go: checked, and kept as bytes to compare. */
struct sink {
    struct sensor_out out; /* first */
    const struct sensor_schema *schemas;
    bool is_rates;
    bool has_numbers; /* all numbers come from text: each must stand somewhere */
    struct strbuf rows;
};

static void check_value(const struct sink *s, const struct field *field, struct value v)
{
    check(v.type == field->type);
    if (v.type == VALUE_TEXT)
        check(text_is_utf8(value_slice(v)));
    if (v.type == VALUE_FLOAT && s->is_rates)
        check(isfinite(v.f) && v.f >= 0);
    if (v.type == VALUE_FLOAT && s->is_rates && slice_eq_str(field->unit, "%"))
        check(v.f <= 100);
    if (v.type == VALUE_UINT && s->has_numbers && !s->is_rates)
        check(stands_somewhere(v.u));
}

static void take_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                     const struct value *values)
{
    struct sink *s = (struct sink *)out;
    const struct sensor_schema *d = &s->schemas[schema];
    (void)time_ns, (void)level; /* the runner's */
    strbuf_add_str(&s->rows, d->name);
    for (size_t i = 0; i < d->n_fields; i++) {
        if (values[i].type == VALUE_NONE)
            continue;
        check_value(s, &d->fields[i], values[i]);
        strbuf_add_slice(&s->rows, d->fields[i].name);
        if (value_is_text(values[i].type))
            strbuf_add_slice(&s->rows, value_slice(values[i]));
        else
            strbuf_add(&s->rows, &values[i].u, sizeof values[i].u);
    }
}

static int take_event(struct sensor_out *out, const struct event_head *head, const struct named_value *values,
                      size_t n, struct diag *why)
{
    (void)out, (void)head, (void)values, (void)n, (void)why;
    abort(); /* these sensors declare all that they say */
}

static void take_mark(struct sensor_out *out, struct slice position)
{
    (void)out, (void)position; /* nothing to keep */
}

static struct instance *open_sensor(const char *name, struct sensor_env *env)
{
    struct instance *i = NULL;
    struct diag why;
    env_init(env, root);
    env->mono_ns = fake_clock;
    check(instance_create(sensor_find(slice_str(name)), name, NULL, 0, env, &i, &why) == 0);
    return i;
}

static void sample(struct instance *i, struct sensor_env *env, struct sink *s)
{
    s->out = (struct sensor_out){.row = take_row, .event = take_event, .mark = take_mark};
    s->schemas = instance_ops(i)->schemas;
    strbuf_reset(&s->rows);
    now_ns += 1000000000;
    env_next_round(env);
    int r = instance_sample(i, &s->out, true, 1000000000);
    check(r == 0 || (r == E_NODATA && s->rows.n == 0));
}

static void close_sensor(struct instance *i, struct sensor_env *env)
{
    instance_destroy(i);
    env_fini(env);
}

static void run(size_t which, const struct content *first, const struct content *second)
{
    struct sensor_env env, fresh_env;
    struct sink warm = {.is_rates = sensors[which].is_rates}, fresh = warm;
    struct instance *i = open_sensor(sensors[which].name, &env);
    put_content(first);
    warm.has_numbers = !first->of[0].p; /* a dump is binary */
    sample(i, &env, &warm);
    put_content(second);
    warm.has_numbers = fresh.has_numbers = !second->of[0].p;
    sample(i, &env, &warm);
    struct instance *j = open_sensor(sensors[which].name, &fresh_env);
    sample(j, &fresh_env, &fresh);
    if (!sensors[which].is_rates)
        check(slice_eq(strbuf_slice(&warm.rows), strbuf_slice(&fresh.rows)));
    close_sensor(i, &env);
    close_sensor(j, &fresh_env);
    strbuf_fini(&warm.rows);
    strbuf_fini(&fresh.rows);
}

static bool has_file_of(size_t which, const struct content *c)
{
    for (size_t i = 0; sensors[which].paths[i]; i++)
        for (size_t f = 0; f < FILES; f++)
            if (c->of[f].p && strcmp(sensors[which].paths[i], files[f]) == 0)
                return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = slice_of((const char *)data, size);
    if (!root[0])
        make_tree();
    struct content first = take_content(&rest), second = take_content(&rest);
    for (size_t i = 0; i < SENSORS; i++)
        if (has_file_of(i, &first) || has_file_of(i, &second))
            run(i, &first, &second);
    return 0;
}
