/* SPDX-License-Identifier: Apache-2.0 */
/* hops - where the time went between the events of a lifeline.
 *
 *     hops FILE EVENT EVENT…          FILE in any encoding, in any order of time
 *
 * Events with the same field `id` are one lifeline. For each pair of neighbours in the list of event names it
 * prints how many lifelines have both, and the mean, the 95th percentile and the largest time between them.
 * Of several events of one name and id the first counts. */
#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/strbuf.h"
#include "event/encoding.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { NAMES_MAX = 16 };

struct lifeline {
    struct lifeline *next;
    char key[NUM_TEXT_MAX]; /* the id as text */
    bool has[NAMES_MAX];
    int64_t at_ns[NAMES_MAX];
};

struct hops {
    struct slice names[NAMES_MAX];
    size_t n_names;
    struct map by_id; /* of struct lifeline */
    struct lifeline *first;
    size_t n_lifelines;
};

static struct lifeline *lifeline_of(struct hops *h, uint64_t id)
{
    char key[NUM_TEXT_MAX];
    struct slice name = {key, num_print_uint(key, id)};
    struct lifeline *l = map_get(&h->by_id, name);
    if (l)
        return l;
    l = mem_alloc(sizeof *l);
    memcpy(l->key, key, name.n);
    if (map_put(&h->by_id, slice_of(l->key, name.n), l) < 0) {
        mem_free(l);
        return NULL;
    }
    l->next = h->first;
    h->first = l;
    h->n_lifelines++;
    return l;
}

static void take_event(struct hops *h, const struct event *e)
{
    struct value id = event_get(e, SLICE_LIT("id"));
    if (id.type != VALUE_UINT && id.type != VALUE_INT)
        return;
    for (size_t i = 0; i < h->n_names; i++) {
        if (!slice_eq(e->schema->name, h->names[i]))
            continue;
        struct lifeline *l = lifeline_of(h, id.u);
        if (l && (!l->has[i] || e->time_ns < l->at_ns[i])) {
            l->has[i] = true;
            l->at_ns[i] = e->time_ns;
        }
    }
}

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The times from event a to event b, sorted; returns how many. out has room for one a lifeline. */
static size_t collect(const struct hops *h, size_t a, size_t b, int64_t *out)
{
    size_t n = 0;
    for (const struct lifeline *l = h->first; l; l = l->next)
        if (l->has[a] && l->has[b])
            out[n++] = l->at_ns[b] - l->at_ns[a];
    qsort(out, n, sizeof *out, compare_times);
    return n;
}

static double mean_ns(const int64_t *times, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)times[i];
    return n ? sum / (double)n : 0;
}

static void print_row(const struct hops *h, size_t a, size_t b, int64_t *times, double whole_ns)
{
    char what[80];
    size_t n = collect(h, a, b, times);
    (void)snprintf(what, sizeof what, "%.*s -> %.*s", SLICE_ARG(h->names[a]), SLICE_ARG(h->names[b]));
    if (n == 0) {
        (void)printf("  %-34s %6d\n", what, 0);
        return;
    }
    double mean = mean_ns(times, n);
    (void)printf("  %-34s %6zu %10.3f %10.3f %10.3f %6.1f%%\n", what, n, mean / 1e6,
                 (double)times[(n * 95 + 99) / 100 - 1] / 1e6, (double)times[n - 1] / 1e6,
                 whole_ns > 0 ? 100 * mean / whole_ns : 0);
}

static void print_table(const struct hops *h)
{
    int64_t *times = mem_alloc((h->n_lifelines + 1) * sizeof *times);
    double whole_ns = mean_ns(times, collect(h, 0, h->n_names - 1, times));
    (void)printf("  %-34s %6s %10s %10s %10s %7s\n", "hop", "jobs", "mean ms", "p95 ms", "max ms", "share");
    for (size_t i = 1; i < h->n_names; i++)
        print_row(h, i - 1, i, times, whole_ns);
    if (h->n_names > 2)
        print_row(h, 0, h->n_names - 1, times, whole_ns);
    mem_free(times);
}

static int load(const char *path, struct strbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t r;
    do {
        char *to = strbuf_room(out, 65536);
        r = to ? read(fd, to, 65536) : -1;
        if (r > 0)
            strbuf_advance(out, (size_t)r);
    } while (r > 0);
    int code = r < 0 ? -errno : 0;
    (void)close(fd); /* only read */
    return code;
}

static int decode(struct hops *h, struct slice data)
{
    const struct encoding *encoding = encoding_detect(data);
    struct registry *registry = registry_create();
    struct batch_builder *builder = registry ? batch_builder_create(registry, 0) : NULL;
    struct decoder *d = NULL;
    struct diag why;
    int r = !encoding || !encoding->decoder ? E_PROTO : !builder ? -ENOMEM : decoder_create(encoding, &d);
    while (r >= 0 && data.n > 0) {
        size_t used;
        r = decoder_run(d, data, true, builder, &used, &why);
        data = slice_from(data, used);
        struct batch *b = batch_builder_finish(builder, NULL);
        for (size_t i = 0; b && i < b->n; i++)
            take_event(h, &b->events[i]);
        batch_unref(b);
    }
    decoder_destroy(d);
    batch_builder_destroy(builder);
    if (registry)
        registry_destroy(registry);
    return r < 0 ? r : 0;
}

static void hops_fini(struct hops *h)
{
    while (h->first) {
        struct lifeline *next = h->first->next;
        mem_free(h->first);
        h->first = next;
    }
    map_fini(&h->by_id);
}

int main(int argc, char **argv)
{
    struct hops h = {0};
    struct strbuf data = {0};
    if (argc < 4 || argc - 2 > NAMES_MAX) {
        (void)fputs("usage: hops FILE EVENT EVENT...\n", stderr);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        h.names[h.n_names++] = slice_str(argv[i]);
    int r = load(argv[1], &data);
    if (r == 0)
        r = decode(&h, strbuf_slice(&data));
    if (r < 0)
        (void)fprintf(stderr, "hops: %s: %s\n", argv[1], err_text(r));
    else
        print_table(&h);
    hops_fini(&h);
    strbuf_fini(&data);
    return r < 0;
}
