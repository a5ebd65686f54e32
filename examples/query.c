/* SPDX-License-Identifier: Apache-2.0 */
/* query - runs a statement at a gateway and prints its rows, with tabs between the values (docs/consumer.md).
 *
 *     query GATEWAY SQL [MILLISECONDS]
 *
 * With MILLISECONDS it cancels the query when it takes longer. */
#include <gridline/consumer.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void on_progress(void *arg, uint64_t rows_seen, uint64_t elapsed_ms)
{
    (void)arg;
    fprintf(stderr, "%" PRIu64 " ms, %" PRIu64 " rows looked at\n", elapsed_ms, rows_seen);
}

static void print_names(const gridline_query *q)
{
    for (size_t i = 0; i < gridline_query_columns(q); i++)
        printf("%s%s", i ? "\t" : "", gridline_query_column(q, i));
    printf("\n");
}

static void print_row(gridline_query *q)
{
    struct gridline_value v;
    for (size_t i = 0; i < gridline_query_columns(q); i++) {
        if (i)
            printf("\t");
        if (gridline_query_value(q, i, &v) <= 0)
            continue; /* NULL */
        if (v.type == 'i')
            printf("%" PRId64, v.v.i);
        else if (v.type == 'f')
            printf("%g", v.v.f);
        else
            printf("%.*s", (int)v.n, v.v.p);
    }
    printf("\n");
}

/* Waits for the next row, and no longer than limit_ms in all. */
static int next(gridline_query *q, int *limit_ms)
{
    const int step_ms = 100;
    int r = gridline_query_next(q, *limit_ms < 0 ? -1 : step_ms);
    if (r == -EAGAIN && (*limit_ms -= step_ms) < 0)
        gridline_query_cancel(q); /* the next call says how that went */
    return r;
}

int main(int argc, char **argv)
{
    char why[200];
    if (argc < 3)
        return 2;
    struct gridline_consumer_options options = {.size = sizeof options, .gateways = argv[1], .prog = "query"};
    struct gridline_query_options statement = {
        .size = sizeof statement, .sql = argv[2], .progress = on_progress};
    int limit_ms = argc > 3 ? (int)strtol(argv[3], NULL, 10) : -1, r;
    gridline_consumer *c = gridline_consumer_open(&options, why, sizeof why);
    if (!c) {
        fprintf(stderr, "query: %s\n", why);
        return 1;
    }
    gridline_query *q = gridline_query_open(c, 0, &statement);
    if (!q) {
        fprintf(stderr, "query: %s\n", gridline_consumer_why(c));
        gridline_consumer_close(c);
        return 1;
    }
    size_t rows = 0;
    while ((r = next(q, &limit_ms)) > 0 || r == -EAGAIN) {
        if (r > 0 && rows++ == 0)
            print_names(q);
        if (r > 0)
            print_row(q);
    }
    if (r == 0 && rows == 0)
        print_names(q);
    if (r < 0)
        fprintf(stderr, "query: %s\n", r == -ECANCELED ? "cancelled" : gridline_query_why(q));
    if (gridline_query_lost(q))
        fprintf(stderr, "query: %" PRIu64 " rows are missing: the archive is damaged\n",
                gridline_query_lost(q));
    const char *code, *text;
    for (size_t i = 0; gridline_query_notice(q, i, &code, &text) > 0; i++)
        fprintf(stderr, "query: %s (%s)\n", text, code);
    int status = gridline_query_status(q);
    gridline_query_close(q);
    gridline_consumer_close(c);
    return r == 0 ? 0 : status > 0 ? status : 1;
}
