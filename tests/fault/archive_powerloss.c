/* SPDX-License-Identifier: Apache-2.0 */
/* T2: the machine loses power at every change that an archive makes to its disk. A workload runs once and is
 * recorded; then for every point of it the disk is made as it could be found (powerloss.h), the archive is
 * opened there, its source is read again from its cursor, and everything must be there exactly once. Now and
 * then power is lost again while it recovers and goes on; or the process is killed, another one goes on with
 * what it finds, synced or not, and then power is lost.
 *
 *     archive_powerloss        some states of every part of the workload
 *     archive_powerloss all    every point, every choice, several seeds (GRIDLINE_TEST_SCALE times as many)
 */
#include "fault/archive_fault.h"
#include "fault/powerloss.h"
#include "unit/test.h"

#include <stdio.h>

enum {
    RECORDS = 40,
    PROMISES_MAX = 256,
    SHORT_STATES = 100, /* of each of two workloads */
    AGAIN = 15,         /* every so many states power is lost again, */
    AGAIN_POINTS = 5    /* at so many points */
};

static bool is_whole;

/* From this point of the recording on, so many records are promised. */
struct promises {
    struct powerloss *recording;
    size_t n;
    struct {
        size_t point;
        uint64_t records;
    } at[PROMISES_MAX];
};

static void note_promise(struct fault_run *run)
{
    struct promises *p = run->arg;
    assert_true(p->n < PROMISES_MAX);
    p->at[p->n].point = powerloss_points(p->recording);
    p->at[p->n++].records = run->promised;
}

static uint64_t promised_at(const struct promises *p, size_t point)
{
    uint64_t records = 0;
    for (size_t i = 0; i < p->n && p->at[i].point <= point; i++)
        records = p->at[i].records;
    return records;
}

struct loss {
    const struct source *source;
    char root[FOLDER_PATH], lost[FOLDER_PATH], again[FOLDER_PATH];
    uint64_t states, states_again;
};

/* Power is lost while the archive that is in l->lost recovers and goes on, which p has begun to record. */
static void lose_again(struct loss *l, struct powerloss *p, uint64_t promised, uint64_t seed,
                       const char *where)
{
    char text[600];
    struct promises promises = {.recording = p, .n = 1, .at[0] = {0, promised}};
    struct fault_run run = {.source = l->source,
                            .path = l->lost,
                            .seed = seed,
                            .promised = promised,
                            .on_promise = note_promise,
                            .arg = &promises};
    fault_run_all(&run, 0);
    fault_run_end(&run);
    powerloss_end(p);
    if (powerloss_missed(p))
        fail_msg("%s: %s was written by a call that is not watched", where, powerloss_missed(p));
    size_t points = powerloss_points(p) + 1;
    for (int i = 0; i < AGAIN_POINTS; i++) {
        size_t point = (size_t)(test_random(&seed) % points);
        enum powerloss_choice choice = POWERLOSS_NONE + test_random(&seed) % POWERLOSS_CHOICES;
        powerloss_make(p, point, choice, seed, l->again);
        (void)snprintf(text, sizeof text, "%s; again before %zu (%s), choice %d", where, point,
                       powerloss_describe(p, point), (int)choice);
        fault_check(l->source, l->again, promised_at(&promises, point), text);
        l->states_again++;
    }
    powerloss_free(p);
}

static void lose_at(struct loss *l, struct powerloss *p, size_t point, uint64_t promised,
                    enum powerloss_choice choice, uint64_t seed)
{
    char where[400];
    (void)snprintf(where, sizeof where, "point %zu, choice %d, seed %llu, before %s", point, (int)choice,
                   (unsigned long long)seed, powerloss_describe(p, point));
    l->states++;
    if (l->states % (2 * AGAIN) == 0) { /* the process is killed, and the machine loses power later */
        (void)snprintf(where + strlen(where), sizeof where - strlen(where), " killed");
        lose_again(l, powerloss_begin_killed(p, point, l->lost), promised, seed, where);
        return;
    }
    powerloss_make(p, point, choice, seed, l->lost);
    if (l->states % AGAIN == 0)
        lose_again(l, powerloss_begin(l->lost, NULL, NULL), promised, seed, where);
    else
        fault_check(l->source, l->lost, promised, where);
}

static void lose_everywhere(struct loss *l, uint64_t seed)
{
    struct promises promises = {0};
    folder_empty(l->root);
    promises.recording = powerloss_begin(l->root, NULL, NULL);
    struct fault_run run = {
        .source = l->source, .path = l->root, .seed = seed, .on_promise = note_promise, .arg = &promises};
    fault_run_all(&run, 0);
    fault_run_end(&run);
    struct powerloss *p = promises.recording;
    powerloss_end(p);
    if (powerloss_missed(p))
        fail_msg("%s was written by a call that is not watched", powerloss_missed(p));
    size_t points = powerloss_points(p) + 1;
    unsigned choices = POWERLOSS_CHOICES + (is_whole ? 3 * test_scale() : 0);
    uint64_t states = (uint64_t)points * choices;
    uint64_t stride = is_whole ? 1 : states / (SHORT_STATES * (uint64_t)test_scale()) + 1;
    stride += stride % choices == 0; /* or the choice would be always the same */
    for (uint64_t i = seed % stride; i < states; i += stride) {
        size_t point = (size_t)(i / choices);
        unsigned k = (unsigned)(i % choices);
        lose_at(l, p, point, promised_at(&promises, point),
                k < POWERLOSS_CHOICES ? k : POWERLOSS_PREFIX + k % (POWERLOSS_CHOICES - POWERLOSS_PREFIX),
                seed * 1000003 + i);
    }
    print_message("workload %llu: %zu points, %zu promises\n", (unsigned long long)seed, points, promises.n);
    powerloss_free(p);
}

static void test_power_loss(void **state)
{
    (void)state;
    struct source source;
    struct loss l = {.source = &source};
    source_make(&source, RECORDS, 7);
    folder_make(l.root);
    folder_make(l.lost);
    folder_make(l.again);
    for (uint64_t seed = 1; seed <= 2; seed++)
        lose_everywhere(&l, seed);
    print_message("%llu rows; %llu states after a loss of power, %llu after another while recovering\n",
                  (unsigned long long)source.rows, (unsigned long long)l.states,
                  (unsigned long long)l.states_again);
    assert_true(l.states > 150 && l.states_again > 50);
    folder_remove(l.root);
    folder_remove(l.lost);
    folder_remove(l.again);
    source_fini(&source);
}

int main(int argc, char **argv)
{
    is_whole = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_power_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
