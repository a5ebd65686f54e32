/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses the installed consumer.h, for consumer_test.py.
 *
 *     consumer_probe ask GATEWAY VERB [NAME=VALUE...]      a question: its rows, then "status N TEXT"
 *     consumer_probe latest|summary GATEWAY EVENTS [HOST]  the same
 *     consumer_probe take GATEWAY EVENTS FROM COUNT        COUNT events in a loop of its own (poll), then
 * "position TEXT"
 *
 * A row or event is a line: NAME=VALUE ... */
#include <gridline/consumer.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_value(const struct gridline_value *v)
{
    (void)printf(" %s=", v->name);
    if (v->type == 'i')
        (void)printf("%" PRId64, v->v.i);
    else if (v->type == 'u' || v->type == 'b')
        (void)printf("%" PRIu64, v->v.u);
    else if (v->type == 'f')
        (void)printf("%.17g", v->v.f);
    else
        (void)printf("%s", v->v.p);
}

static int print_item(void *arg, const gridline_item *item)
{
    struct gridline_head head;
    struct gridline_value v;
    (void)arg; /* there is none */
    if (gridline_item_head(item, &head, sizeof head) == 0)
        (void)printf("event %s host=%s", head.name, head.host);
    else
        (void)printf("row");
    int r;
    for (size_t i = 0; (r = gridline_item_field(item, i, &v)) >= 0; i++)
        if (r > 0)
            print_value(&v);
    (void)printf("\n");
    return 0;
}

static int end(gridline_consumer *c, int r)
{
    if (r < 0)
        (void)printf("failed %d %s\n", r, gridline_consumer_why(c));
    else
        (void)printf("status %d %s\n", r, gridline_consumer_why(c));
    gridline_consumer_close(c);
    return r < 0;
}

static int ask(gridline_consumer *c, const char *verb, char **words, size_t n)
{
    struct gridline_value values[8] = {{0}};
    for (size_t i = 0; i < n && i < 8; i++) {
        char *equals = strchr(words[i], '=');
        if (!equals)
            return end(c, -EINVAL);
        *equals = '\0';
        values[i].name = words[i];
        values[i].type = 't';
        values[i].v.p = equals + 1;
        values[i].n = (size_t)-1;
    }
    return end(c, gridline_consumer_ask(c, 0, verb, values, n, 0, print_item, NULL));
}

/* As a program with a loop of its own has it. */
static int take(gridline_consumer *c, const char *events, const char *from, unsigned long count)
{
    const struct gridline_subscription s = {.size = sizeof s, .events = events, .from = from};
    struct pollfd p = {.fd = gridline_consumer_fd(c), .events = POLLIN};
    char position[GRIDLINE_POSITION_MAX];
    const gridline_item *item;
    int id = gridline_consumer_subscribe(c, &s);
    if (id < 0)
        return end(c, id);
    while (count) {
        int r = poll(&p, 1, -1);
        while (count && (r = gridline_consumer_next(c, 0, &item)) > 0) {
            if (gridline_item_kind(item) == GRIDLINE_ITEM_EVENT) {
                (void)print_item(NULL, item);
                count--;
            } else if (gridline_item_kind(item) == GRIDLINE_ITEM_GAP) {
                (void)printf("gap %" PRIu64 " %d\n", gridline_item_lost(item), gridline_item_code(item));
            } else if (gridline_item_kind(item) == GRIDLINE_ITEM_REFUSED) {
                (void)printf("refused %s\n", gridline_item_text(item));
                return end(c, -EINVAL);
            }
        }
        if (r < 0)
            return end(c, r);
    }
    int r = gridline_consumer_position(c, id, 0, position);
    if (r == 0)
        (void)printf("position %s\n", position);
    return end(c, r);
}

int main(int argc, char **argv)
{
    char why[200];
    if (argc < 4)
        return 2;
    const struct gridline_consumer_options o = {.size = sizeof o, .gateways = argv[2], .prog = "probe"};
    gridline_consumer *c = gridline_consumer_open(&o, why, sizeof why);
    if (!c) {
        (void)printf("failed %s\n", why);
        return 1;
    }
    const char *host = argc > 4 ? argv[4] : NULL;
    if (strcmp(argv[1], "ask") == 0)
        return ask(c, argv[3], argv + 4, (size_t)argc - 4);
    if (strcmp(argv[1], "latest") == 0)
        return end(c, gridline_consumer_latest(c, 0, argv[3], host, NULL, print_item, NULL));
    if (strcmp(argv[1], "summary") == 0)
        return end(c, gridline_consumer_summary(c, 0, argv[3], host, NULL, NULL, print_item, NULL));
    return argc > 5 ? take(c, argv[3], argv[4], strtoul(argv[5], NULL, 10)) : 2;
}
